# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Walks of the token trie along automaton states: which tokens lead from a state to a live one.

Where a walk enters a text it stops: the rest is a part of the text's context-independent mask.  So it only notes in the
buffer's worklist what is still to be added, by kind:

    texts ── a text, whole or from a trie node on: `_composer`, and `_finite_texts` for a finite set
    names ── a text of a finite set where any text can stand: `_finite_texts`

Owns: the path of the walk at hand; what is left of states in walks of `bare` texts.  Borrows: the trie; the automaton,
which it adds states to; machines, stacks, positions and languages, to tell texts from the rest; the meter of work.  The
buffer it is handed.
Invariants: after `walk` and all that it has put off, the buffer has every token of the nodes [at, stop) that leads to a
live state, and no other; the `light` state of a state has its configurations but for those that are put off.
Plain twin: `twin.automaton.PlainKernel._walk`, which puts nothing off.
"""
from cython cimport final
from libc.stdint cimport int32_t
from constrained.engine.memory._memory cimport allotted, released
from constrained.engine.memory._meter cimport Meter, SLICE
from constrained.engine.kernel._tables cimport Ints, ints_add, ints_free, map_free, map_get, map_put
from constrained.engine.kernel._branches cimport child_of, is_wide
from constrained.engine.kernel._trie cimport TrieNode, Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD, Row, State, UNKNOWN, successor
from constrained.engine.kernel.automaton._closure cimport EXITS
from constrained.engine.kernel.automaton._machines cimport ALIKE, Machines, REFUSES
from constrained.engine.kernel.automaton._stacks cimport OUTSIDE, Stacks
from constrained.engine.kernel.masks._mask_buffer cimport MaskBuffer, buffer_node
from constrained.engine.kernel.texts._languages cimport LanguageAt, Languages
from constrained.engine.kernel.texts._positions cimport BODY, ESCAPE, Position, Positions

from constrained.regex import ANY_TEXT

cdef enum:
    SMALL = 3           # trie nodes: below this a part costs more than the walk


@final
cdef class Walk:
    """Walks of the trie, one at a time."""

    def __cinit__(self, Automaton automaton):
        self.automaton, self.meter, self.trie = automaton, automaton.meter, automaton.trie
        self.machines, self.stacks, self.positions = automaton.machines, automaton.stacks, automaton.positions
        self.languages = automaton.positions.languages
        self.any_text = self.languages.number(ANY_TEXT)
        self.path = <int32_t*>allotted(2 * (<size_t>self.trie.longest + 2), 4)
        self.above = self.path + self.trie.longest + 2

    def __dealloc__(self):
        released(self.path)
        ints_free(&self.light)
        map_free(&self.bare_lights)

    cdef int clear(self) except -1:
        """Forget all states."""
        map_free(&self.bare_lights)
        return 0

    cdef int walk(self, MaskBuffer* buffer, int state, int at, int stop, int base) except -1:
        """Add the tokens of trie nodes [at, stop) that lead from `state` to a live state; `base` = depth of what lies
        above them.

        Invariant: path[d] = the state after the bytes of depth base + 1 … base + d of the node at hand, without what
        was put off.
        """
        cdef Automaton automaton = self.automaton
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const int32_t* ids = self.trie.ids
        cdef int32_t* path = self.path
        cdef int32_t* above = self.above
        cdef Ints* leaving = self.leaving
        cdef Row* row
        cdef int depth, after, light, visited = 0
        path[0], above[0] = state, self.wide_above(at, stop, base)
        while at < stop:
            visited += 1
            depth = nodes[at].depth - base
            row = automaton.states[path[depth - 1]].row
            if row == NULL:
                row = automaton.row(path[depth - 1])
            after = successor(row, nodes[at].byte)
            if after == UNKNOWN:
                after = automaton.step(path[depth - 1], nodes[at].byte)
            if after == DEAD:
                row = automaton.states[path[depth - 1]].row
                at = nodes[at].end if above[depth - 1] < 0 else self.beside(above[depth - 1], nodes[at].byte, row)
                continue
            buffer_node(buffer, nodes, ids, at)
            if leaving != NULL and automaton.states[after].flags & EXITS and nodes[at].end > at + 1:
                ints_add(leaving, at)
            if nodes[at].end - at > SMALL:
                light = automaton.states[after].light
                if light == UNKNOWN or self.bare:
                    light = self.light_state(after)
                if light != after:
                    self.put_off(buffer, after, at)
                    if light == DEAD:
                        at = nodes[at].end
                        continue
                    after = light
                above[depth] = at if is_wide(self.trie.branches, at) else -1
            else:
                above[depth] = -1
            path[depth] = after
            at += 1
        self.meter.ticks += visited
        return 0 if self.meter.ticks < SLICE else self.meter.flush()

    cdef int wide_above(self, int at, int stop, int base) noexcept:
        """Return the node whose children begin at `at`, if they are all that is walked, and it is wide; -1: else."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int node = at - 1
        if node < 0 or nodes[node].end != stop or nodes[node].depth != base or not is_wide(self.trie.branches, node):
            return -1
        return node

    cdef int beside(self, int node, int byte, const Row* row) noexcept:
        """Return the child of a wide trie node behind that with a byte which a row may not refuse; what stands behind
        all of them, if there is none."""
        cdef int found
        byte += 1
        while byte < 256:
            if row.block[byte >> 4] == self.automaton.dead_block:
                byte |= 15
            elif successor(row, byte) != DEAD:
                found = child_of(self.trie.branches, node, byte)
                if found >= 0:
                    return found
            byte += 1
        return self.trie.nodes[node].end

    cdef int walk_all(self, MaskBuffer* buffer, int state) except -1:
        """Walk the whole trie, but only below the bytes that the state reads."""
        cdef Row* row = self.automaton.row(state)
        cdef int block, byte, at
        for block in range(16):
            if row.block[block] == self.automaton.dead_block:
                continue
            for byte in range(16 * block, 16 * block + 16):
                at = self.trie.roots[byte]
                if at >= 0 and successor(row, byte) != DEAD:
                    self.walk(buffer, state, at, self.trie.nodes[at].end, 0)
        return 0

    cdef int below(self, MaskBuffer* buffer, int state, int node) except -1:
        """Add the tokens that end at a trie node, and those below it that lead from `state` there to a live one."""
        buffer_node(buffer, self.trie.nodes, self.trie.ids, node)
        if self.leaving != NULL and self.automaton.states[state].flags & EXITS:
            ints_add(self.leaving, node)
        return self.walk(buffer, state, node + 1, self.trie.nodes[node].end, self.trie.nodes[node].depth)

    cdef int enter(self, MaskBuffer* buffer, int state, int node) except -1:
        """As `below`, where a walk comes to the node: texts are put off."""
        cdef int light
        buffer_node(buffer, self.trie.nodes, self.trie.ids, node)
        if self.trie.nodes[node].end - node > SMALL:
            light = self.light_state(state)
            if light != state:
                self.put_off(buffer, state, node)
            state = light
        if state == DEAD:
            return 0
        return self.walk(buffer, state, node + 1, self.trie.nodes[node].end, self.trie.nodes[node].depth)

    # -- texts, which are put off --------------------------------------------------------------------------------------

    cdef int light_state(self, int state) except -1:
        """Return the state without the texts that are put off (DEAD if nothing is left); computed once."""
        cdef int light
        if not self.bare:
            light = self.automaton.states[state].light
            if light == UNKNOWN:
                light = self.automaton.states[state].light = self.split(state)
            return light
        light = map_get(&self.bare_lights, state, 0)
        if light < 0:
            light = self.split(state)
            map_put(&self.bare_lights, state, 0, light)
        return light

    cdef int split(self, int state) except -1:
        cdef Automaton automaton = self.automaton
        cdef int i, q, stack, first, last
        automaton.read(state)
        first = automaton.states[state].first
        last = first + automaton.states[state].count
        self.light.size = 0
        for i in range(first, last, 2):
            q, stack = automaton.configurations.at[i], automaton.configurations.at[i + 1]
            if not self.is_heavy(q, stack):
                ints_add(&self.light, q)
                ints_add(&self.light, stack)
        return state if self.light.size == last - first else automaton.intern(&self.light, 0)

    cdef int put_off(self, MaskBuffer* buffer, int state, int node) except -1:
        """Note the text configurations of a state for later, at a trie node or at the start (-1)."""
        cdef State at = self.automaton.states[state]
        cdef int i, q, stack, cover = self.covering(state)
        for i in range(at.first, at.first + at.count, 2):
            q, stack = self.automaton.configurations.at[i], self.automaton.configurations.at[i + 1]
            if not self.is_heavy(q, stack):
                continue
            if cover >= 0 and self.is_covered(q, cover):
                ints_add(&buffer.todo.names, cover)
                ints_add(&buffer.todo.names, q)
                ints_add(&buffer.todo.names, stack)
                ints_add(&buffer.todo.names, node)
            else:
                ints_add(&buffer.todo.texts, q)
                ints_add(&buffer.todo.texts, stack)
                ints_add(&buffer.todo.texts, node)
        return 0

    cdef int covering(self, int state) except -2:
        """Return a configuration's position in any text that is recorded, such as a key without a name; -1 if there is
        none."""
        cdef State at = self.automaton.states[state]
        cdef Position* p
        cdef int i, q, stack
        for i in range(at.first, at.first + at.count, 2):
            q, stack = self.automaton.configurations.at[i], self.automaton.configurations.at[i + 1]
            if not q & 1 or stack == OUTSIDE:
                continue
            p = &self.positions.at[q >> 1]
            if (p.language == self.any_text and p.place == BODY and self.positions.spellings[p.spelling].closing >= 0
                    and self.stacks.records(stack)):
                return q
        return -1

    cdef bint is_covered(self, int q, int cover) noexcept:
        """Say whether all that stays inside the text at q, of a finite set, stays inside the text that covers it."""
        cdef Position* p = &self.positions.at[q >> 1]
        return (self.languages.at[p.language].texts >= 0 and p.place == BODY
                and p.spelling == self.positions.at[cover >> 1].spelling)

    cdef bint is_heavy(self, int q, int stack) except -1:
        """Say whether a configuration gets its mask in another way than by steps: between the characters of a text."""
        cdef Position* p
        cdef LanguageAt* language
        cdef int closing
        if not q & 1 or stack == OUTSIDE:
            return False
        p = &self.positions.at[q >> 1]
        language, closing = &self.languages.at[p.language], self.positions.spellings[p.spelling].closing
        if language.texts >= 0:
            return p.place == BODY and closing >= 0 and not self.stacks.records(stack)
        if language.labelled:
            return False
        if self.stacks.records(stack):
            return p.place == BODY and (closing >= 0 or not self.refuses(stack))
        return (p.place == BODY or p.place == ESCAPE) and not (self.bare and closing < 0)

    cdef bint is_bare(self, int q, int stack) noexcept:
        """Say whether a text has no end of its own, such as a quote, and nobody wants to know it."""
        cdef int closing = self.positions.spellings[self.positions.at[q >> 1].spelling].closing
        return closing < 0 and not self.stacks.records(stack)

    cdef bint refuses(self, int stack) noexcept:
        """Say whether what follows the text above a stack may refuse it, and cannot say beforehand which it refuses."""
        cdef const int32_t* frames = self.stacks.frames.at
        cdef int i
        for i in range(self.stacks.first.at[stack], self.stacks.first.at[stack + 1], 3):
            if frames[i + 1] >= 0 and self.machines.at[frames[i] >> 1].flags & (REFUSES | ALIKE) == REFUSES:
                return True
        return False
