# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Walks of the token trie along automaton states.

Where a walk enters a text it stops: the rest is a part of the text's inner mask.  So it only notes what is to be added,
by kind:

    deferred ── a text, whole or from a trie node on: `Masks.add_text`, `Literals.add_literals`
    names ───── a text of a finite set where any text can stand: `Literals.add_names`
"""
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from constrained.engine.kernel._automaton cimport Row, successor
from constrained.engine.kernel._inner cimport Inners
from constrained.engine.kernel._machines cimport OUTSIDE, UNKNOWN
from constrained.engine.memory._meter cimport SLICE
from constrained.engine.kernel._packed cimport draft_node, draft_token
from constrained.engine.kernel._tables cimport Ints, ints_add
from constrained.engine.kernel._text cimport BODY, ESCAPE, Position, Spelling

from constrained.regex import ANY_TEXT

cdef enum:
    DEAD = 0
    SMALL = 3           # trie nodes: below this a part costs more than the walk


cdef class Walks(Inners):
    """Walks the trie; the base of `Literals`, split off for the reader's sake only."""

    def __cinit__(self, *args, **options):
        self.any_text = self.texts.language(ANY_TEXT)

    def __dealloc__(self):
        free(self.deferred.at)
        free(self.names.at)
        free(self.draft.bits)
        free(self.draft.touched)
        free(self.draft.records.at)
        free(self.draft.removed.at)

    cdef int add_named(self, int state) except -1:
        """Add the special tokens that may come next."""
        cdef int i, j, q
        for i in range(self.states[state].first, self.states[state].first + self.states[state].count, 2):
            q = self.configs.at[i]
            if not q & 1:
                for j in range(self.machines[q >> 1].tokens, self.machines[q >> 1].tokens_end, 2):
                    draft_token(&self.draft, self.tokens.at[j])
        return 0

    cdef int walk(self, int state, int at, int stop, int base) except -1:
        """Set the tokens of trie nodes [at, stop) that lead from `state` to a live state; `base` = depth of what lies
        above them.

        Where a walk enters a text, the rest is a part of the text's inner mask: it is put off to `deferred`.
        Invariant: path[d] = the state after the bytes of depth base + 1 … base + d of the node at hand, without what
        was put off.
        """
        cdef int32_t* path = self.path
        cdef Row* row
        cdef int depth, after, last, light, visited = 0
        path[0] = state
        while at < stop:
            visited += 1
            depth = self.trie[at].depth - base
            row = self.states[path[depth - 1]].row
            if row == NULL:
                row = self.row(path[depth - 1])
            after = successor(row, self.trie[at].byte)
            if after == UNKNOWN:
                after = self.step(path[depth - 1], self.trie[at].byte)
            if after == DEAD:
                at = self.trie[at].end
                continue
            draft_node(&self.draft, self.trie, self.ids, at)
            if self.trie[at].end - at > SMALL:
                light = self.states[after].light
                if light == UNKNOWN:
                    light = self.split(after)
                if light != after:
                    self.put_off(after, at)
                    if light == DEAD:
                        at = self.trie[at].end
                        continue
                    after = light
            path[depth] = after
            at += 1
        self.meter.ticks += visited
        return 0 if self.meter.ticks < SLICE else self.meter.flush()

    cdef int walk_all(self, int state) except -1:
        """Walk the whole trie, but only below the bytes that the state reads."""
        cdef Row* row = self.row(state)
        cdef int block, byte, at
        for block in range(16):
            if row.block[block] == self.dead_block:
                continue
            for byte in range(16 * block, 16 * block + 16):
                at = self.roots[byte]
                if at >= 0 and successor(row, byte) != DEAD:
                    self.walk(state, at, self.trie[at].end, 0)
        return 0

    cdef int split(self, int state) except -1:
        """Return the state without its text configurations (DEAD if nothing is left), kept as its `light`."""
        cdef int i, light, first = self.states[state].first, last = first + self.states[state].count
        self.closed.size = 0
        for i in range(first, last, 2):
            if not self.is_heavy(self.configs.at[i], self.configs.at[i + 1]):
                ints_add(&self.closed, self.configs.at[i])
                ints_add(&self.closed, self.configs.at[i + 1])
        if self.closed.size == last - first:
            light = state
        else:
            light = self.intern_state(0)
        self.states[state].light = light
        return light

    cdef int put_off(self, int state, int node) except -1:
        """Note the text configurations of a state for later, at a trie node or at the start (-1)."""
        cdef int i, q, cover = self.covering(state)
        for i in range(self.states[state].first, self.states[state].first + self.states[state].count, 2):
            q = self.configs.at[i]
            if not self.is_heavy(q, self.configs.at[i + 1]):
                continue
            if cover >= 0 and self.is_covered(q, cover):
                ints_add(&self.names, cover)
                ints_add(&self.names, q)
                ints_add(&self.names, self.configs.at[i + 1])
                ints_add(&self.names, node)
            else:
                ints_add(&self.deferred, q)
                ints_add(&self.deferred, self.configs.at[i + 1])
                ints_add(&self.deferred, node)
        return 0

    cdef int covering(self, int state) except -2:
        """Return a configuration's position in any text that is recorded, such as a key without a name; -1 if there is
        none."""
        cdef int i, q
        for i in range(self.states[state].first, self.states[state].first + self.states[state].count, 2):
            q = self.configs.at[i]
            if (q & 1 and self.texts.positions[q >> 1].language == self.any_text
                and self.texts.positions[q >> 1].place == BODY
                    and self.configs.at[i + 1] != OUTSIDE
                    and self.texts.spellings[self.texts.positions[q >> 1].spelling].closing >= 0
                    and self.records(self.configs.at[i + 1])):
                return q
        return -1

    cdef bint is_covered(self, int q, int cover) noexcept:
        """Say whether all that stays inside the text at q, of a finite set, stays inside the text that covers it."""
        cdef Position* p = &self.texts.positions[q >> 1]
        return (self.texts.languages[p.language].texts >= 0 and p.place == BODY
                and p.spelling == self.texts.positions[cover >> 1].spelling)

    cdef bint is_heavy(self, int q, int stack) except -1:
        """Say whether a configuration gets its mask in another way than by steps: between the characters of a text."""
        cdef int place
        cdef Spelling* spelling
        if not q & 1 or stack == OUTSIDE:
            return False
        place = self.texts.positions[q >> 1].place
        spelling = &self.texts.spellings[self.texts.positions[q >> 1].spelling]
        if self.texts.languages[self.texts.positions[q >> 1].language].texts >= 0:
            return place == BODY and spelling.closing >= 0 and not self.records(stack)
        if self.texts.languages[self.texts.positions[q >> 1].language].labelled:
            return False
        if self.records(stack):
            return place == BODY and (spelling.closing >= 0 or not self.refuses(stack))
        return place == BODY or place == ESCAPE
