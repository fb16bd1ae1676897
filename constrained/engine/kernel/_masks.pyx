# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The mask of an automaton state, composed: a walk of the trie, inner masks of texts, walks behind the texts' ends.

What tokens do inside a text depends only on the vocabulary and the text's language.  That part, the *inner* mask, is
kept with the vocabulary; tokens that leave the text are walked from the state behind it, each from the trie node where
it leaves.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free
from libc.string cimport memset
from constrained.engine.kernel._automaton cimport Row, successor
from constrained.engine.kernel._inner_walk cimport Inner
from constrained.engine.kernel._literals cimport Literals
from constrained.engine.kernel._machines cimport FINAL, UNKNOWN
from constrained.engine.memory._meter cimport ask, work
from constrained.engine.kernel._objects cimport OTHER
from constrained.engine.kernel._packed cimport (
    draft_has, draft_node, draft_token, draft_tokens, draft_whole, draft_words)
from constrained.engine.kernel._tables cimport Ints, Map, ints_add, map_free, map_get, map_put, pair

cdef enum:
    DEAD = 0
    ADDED = 32          # ticks that it takes to add an inner mask
    TRIED = 16          # and to look at a token again
    GROUPED = 32        # and at a group of exits
    NOTED = 256         # texts put off below a node, from which on each is noted so that none is added twice


cdef class Masks(Literals):
    """Fills masks; the base of `Kernel`, split off for the reader's sake only."""

    def __cinit__(self, *args, **options):
        self.begun_texts = {}

    def __dealloc__(self):
        free(self.doubtful.at)
        free(self.apart.at)
        free(self.generic.at)
        free(self.added.at)

    cdef int fill_draft(self, int state) except -1:
        """Draft the mask of a state."""
        cdef int i, token, q, stack, node, begun = 0, light = self.states[state].light
        self.doubtful.size = 0
        map_free(&self.added)
        if light == UNKNOWN:
            light = self.split(state)
        if light != state:
            self.put_off(state, -1)
        if light != DEAD:
            self.walk_all(light)
        while self.deferred.size or self.names.size:    # and what is put off meanwhile
            if self.names.size:
                self.names.size -= 4
                i = self.names.size
                self.add_names(self.names.at[i], self.names.at[i + 1], self.names.at[i + 2], self.names.at[i + 3])
                continue
            self.deferred.size -= 3
            q, stack, node = (
                self.deferred.at[self.deferred.size], self.deferred.at[self.deferred.size + 1],
                self.deferred.at[self.deferred.size + 2])
            begun += node >= 0
            if begun > NOTED and node >= 0 and not self.is_first(q, stack, node):
                continue
            if self.texts.languages[self.texts.positions[q >> 1].language].texts >= 0:
                self.add_literals(q, stack, node)
            else:
                self.add_text(q, stack, node)
        self.meter.ticks += TRIED * self.doubtful.size
        for i in range(self.doubtful.size):
            token = self.doubtful.at[i]
            if draft_has(&self.draft, token) and self.after_token(state, token) == DEAD:
                ints_add(&self.draft.removed, token)
        self.add_named(state)
        if self.states[state].flags & FINAL:
            for token in self.stop:
                draft_token(&self.draft, token)
        return 0

    cdef bint is_first(self, int q, int stack, int node) except -1:
        """Note a text below a trie node; say whether it is met for the first time in this mask.

        Where texts of any length follow each other (comments made of comments), there are exponentially many ways to a
        node.
        """
        if map_get(&self.added, pair(q, stack), node) >= 0:
            return False
        map_put(&self.added, pair(q, stack), node, 0)
        return True

    # -- texts and what lies behind them
    # ------------------------------------------------------------------------------------

    cdef int add_text(self, int q, int stack, int node) except -1:
        """Add the mask of one text configuration, whole or below a trie node: its inner mask, and what lies behind
        it."""
        cdef Inner inner = self.part(q, node) if node >= 0 else self.inner(q)
        cdef bint recording = self.records(stack)
        cdef int behind, closing = self.texts.spellings[self.texts.positions[q >> 1].spelling].closing
        self.meter.ticks += ADDED + 2 * inner.exits.size
        if node >= 0:
            draft_tokens(&self.draft, inner.tokens.at, inner.tokens.size)
        else:
            if recording and closing >= 0:
                draft_whole(&self.draft, self.inside(inner), NULL)
            else:
                draft_whole(&self.draft, inner.bits, &inner.words if inner.words.size else NULL)
        behind = self.popped_state(stack)
        if behind != DEAD:
            self.apart.size = 0
            self.leave_all(inner, behind)
        if recording and closing >= 0:
            self.leave_recorded(inner, q, stack, node)
        elif recording:
            self.leave_bare(inner)
        return 0

    cdef int leave_bare(self, Inner inner) except -1:
        """As `leave_recorded` for a text without an end of its own, none of which is refused: tokens that go on behind
        it are tried."""
        cdef int i, j, node
        for i in range(inner.exits.size):
            node = inner.exits.at[i]
            draft_node(&self.draft, self.trie, self.ids, node)
            for j in range(self.trie[node + 1].first, self.trie[self.trie[node].end].first):
                if not draft_has(&self.draft, self.ids[j]):
                    draft_token(&self.draft, self.ids[j])
                    ints_add(&self.doubtful, self.ids[j])
        return 0

    cdef int leave_all(self, Inner inner, int behind) except -1:
        """Set the tokens that leave a text at any exit that is not `apart` and go on in state `behind`."""
        cdef int i, block, node
        cdef uint64_t follow[4]
        cdef uint64_t* below
        cdef Row* row
        memset(follow, 0, sizeof(follow))
        if self.states[behind].count:
            row = self.row(behind)
            for block in range(16):
                if row.block[block] == self.dead_block:
                    continue
                for i in range(16 * block, 16 * block + 16):
                    if successor(row, i) != DEAD:
                        follow[i >> 6] |= <uint64_t>1 << (i & 63)
        for i in range(inner.exits.size):
            node, below = inner.exits.at[i], inner.next_bytes + 4 * i
            if self.is_apart(node):
                continue
            draft_node(&self.draft, self.trie, self.ids, node)
            if (below[0] & follow[0]) | (below[1] & follow[1]) | (below[2] & follow[2]) | (below[3] & follow[3]):
                self.walk(behind, node + 1, self.trie[node].end, self.trie[node].depth)
        return 0

    cdef int popped_state(self, int stack) except -1:
        """Return the state in which the text above `stack` has just ended; frames that record are left to
        `leave_recorded`."""
        cdef int i, known = map_get(&self.popped, stack, 0), flags = 0
        if known >= 0:
            return known
        for i in range(self.stack_first.at[stack], self.stack_first.at[stack + 1], 3):
            if self.frames.at[i] == -1:
                flags = FINAL
            elif self.frames.at[i] >= 0 and self.frames.at[i + 1] < 0:
                ints_add(&self.work, self.frames.at[i])
                ints_add(&self.work, self.frames.at[i + 2])
        known = self.close(flags) if self.work.size or flags else DEAD
        map_put(&self.popped, stack, 0, known)
        return known

    cdef int leave_recorded(self, Inner inner, int q, int stack, int node) except -1:
        """As `leave`, where what follows depends on the text: ordinary texts have one state behind them, special ones
        their own."""
        cdef int behind, frame, after, parent, target, exit_
        cdef bint native
        if inner.groups is None:
            self.group(inner, q, node)
        for frame in range(self.stack_first.at[stack], self.stack_first.at[stack + 1], 3):
            after, parent = self.frames.at[frame], self.frames.at[frame + 2]
            if self.frames.at[frame + 1] < 0:
                continue
            native = self.machines[after >> 1].kind == OTHER
            behind = DEAD if native else self.generic_state(after, parent)
            specials = self.special_exits(inner, q, after, self.frames.at[frame + 1], behind == DEAD and not native)
            self.apart.size = 0
            for exit_ in specials:
                ints_add(&self.apart, exit_)
            if native:
                self.leave_key(inner, after, parent)
            elif behind != DEAD:
                self.leave_all(inner, behind)
            for exit_, text in specials.items():
                target = self.after_text(after, text, parent)
                if target != DEAD:
                    draft_node(&self.draft, self.trie, self.ids, exit_)
                    self.walk(target, exit_ + 1, self.trie[exit_].end, self.trie[exit_].depth)
            for token in inner.twice_keys if native else inner.twice:
                ints_add(&self.doubtful, token)
            self.doubt(inner, self.telling(after), b"" if native else self.told_by(after))
        return 0

    cdef int doubt(self, Inner inner, int tells_from, bytes told_by) except -1:
        """Doubt the tokens that read `tells_from` bytes or more behind the text, with one of `told_by` among them; see
        `machine.Dispatch`."""
        cdef int i, j, at, stop, depth, told
        cdef bint any_byte = not told_by
        cdef const unsigned char[:] telling = told_by
        if not 0 <= tells_from <= self.longest:
            return 0
        for i in range(inner.exits.size):
            at, stop = inner.exits.at[i] + 1, self.trie[inner.exits.at[i]].end
            depth, told = self.trie[at - 1].depth + tells_from, stop if any_byte else at
            while at < stop:
                if at >= told:  # no node around this one has such a byte
                    for j in range(telling.shape[0]):
                        if self.trie[at].byte == telling[j]:
                            told = self.trie[at].end
                if at < told and self.trie[at].depth >= depth:
                    for j in range(self.trie[at].first, self.trie[at + 1].first):
                        ints_add(&self.doubtful, self.ids[j])
                at += 1
        return 0

    cdef bint is_apart(self, int node) noexcept:
        """Say whether an exit is among the few in `apart`."""
        cdef int i
        for i in range(self.apart.size):
            if self.apart.at[i] == node:
                return True
        return False

    cdef int leave_key(self, Inner inner, int after, int parent) except -1:
        """As `leave_all` behind an ordinary key of a native object: all that lies before the end of its value is
        known."""
        cdef Inner key = inner if inner.base is None else inner.base
        cdef Inner behind = self.behind_key(key, self.lonely_entry(after), self.shared_name(after))
        cdef int at, i, j, first, node, ended = UNKNOWN
        cdef bint whole = inner.base is None and not self.apart.size
        if whole:
            draft_words(&self.draft, &behind.words)
        for at in range(inner.exits.size):
            i = at if inner.base is None else inner.base_exits.at[at]
            if self.is_apart(inner.exits.at[at]):
                continue
            first = behind.token_starts.at[i]
            if not whole:
                draft_tokens(&self.draft, behind.tokens.at + first, behind.token_starts.at[i + 1] - first)
            for j in range(behind.exit_starts.at[i], behind.exit_starts.at[i + 1]):
                node = behind.exits.at[j]
                if ended == UNKNOWN:
                    ints_add(&self.work, self.position_behind(after))
                    ints_add(&self.work, parent)
                    ended = self.close(0)
                self.walk(ended, node + 1, self.trie[node].end, self.trie[node].depth)
        return 0

    cdef dict special_exits(self, Inner inner, int q, int after, int record, bint everything):
        """Return {exit node: text} for the special texts that a token can complete, for all texts if ordinary ones are
        refused."""
        cdef dict groups = inner.groups
        if not groups:
            return {}
        work(self.meter, GROUPED * len(groups))
        closing = self.texts.spellings[self.texts.positions[q >> 1].spelling].closing
        so_far = self.begun(record, closing) if record >= 8 else ""
        special = None if everything else self.special_texts(after, so_far, len(groups))
        if special is not None:
            ends = [(text[len(so_far):], text) for text in special]
        else:
            ends = [(end, so_far + end) for end in groups if everything or self.is_special(after, so_far + end)]
        return {node: text for end, text in ends for node in groups.get(end, ())}

    cdef object begun(self, int record, int closing):
        """Return the text of a record that is still inside its text."""
        found = self.begun_texts.get(record)
        if found is None:
            ask(self.meter)
            found = self.begun_texts[record] = self.recorded(record, bytes((closing,)))
        return found

    cdef int generic_state(self, int after, int parent) except -1:
        cdef int known = map_get(&self.generic, after, parent)
        if known < 0:
            known = self.after_text(after, None, parent)
            map_put(&self.generic, after, parent, known)
        return known

    cdef int after_text(self, int after, text, int parent) except -1:
        """Return the state behind a recorded text, DEAD where it is refused."""
        cdef int following = self.following(after, text)
        if following < 0:
            return DEAD
        ints_add(&self.work, following)
        ints_add(&self.work, parent)
        return self.close(0)
