# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The mask of an automaton state, composed: a walk of the trie, inner masks of texts, walks behind the texts' ends.

What tokens do inside a text depends only on the vocabulary and the text's language.  That part, the *inner* mask, is kept with the
vocabulary; tokens that leave the text are walked from the state behind it, each from the trie node where it leaves.
"""
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset
from constrained.engine._automaton cimport Row, successor
from constrained.engine._inner cimport Inners
from constrained.engine._inner_walk cimport Inner
from constrained.engine._machines cimport FINAL, OUTSIDE, UNKNOWN
from constrained.engine._objects cimport OTHER
from constrained.engine._packed cimport draft_has, draft_node, draft_token, draft_tokens, draft_whole
from constrained.engine._tables cimport Ints, Map, ints_add, map_get, map_put
from constrained.engine._text cimport BODY_LESS, ESCAPE

from bisect import bisect_left
from itertools import islice

cdef enum:
    DEAD = 0
    SMALL = 3           # trie nodes: below this a part costs more than the walk
    RECENT = 32


cdef class Masks(Inners):
    """Fills masks; the base of `Kernel`, split off for the reader's sake only."""

    def __cinit__(self, *args, **options):
        self.begun_texts, self.ordered_texts = {}, {}

    def __dealloc__(self):
        free(self.deferred.at)
        free(self.generic.at)
        free(self.draft.bits)
        free(self.draft.touched)
        free(self.draft.records.at)
        free(self.draft.removed.at)

    cdef int fill_draft(self, int state) except -1:
        """Draft the mask of a state."""
        cdef int token, light = self.states[state].light
        cdef list doubtful = []
        if light == UNKNOWN:
            light = self.split(state)
        if light != state:
            self.put_off(state, -1)
        if light != DEAD:
            self.walk_all(light)
        while self.deferred.size:
            self.deferred.size -= 3
            self.add_text(self.deferred.at[self.deferred.size], self.deferred.at[self.deferred.size + 1],
                          self.deferred.at[self.deferred.size + 2], doubtful)
        for token in doubtful:
            if draft_has(&self.draft, token) and self.after_token(state, token) == DEAD:
                ints_add(&self.draft.removed, token)
        for token in self.named_tokens(state):
            draft_token(&self.draft, token)
        if self.states[state].flags & FINAL:
            for token in self.stop:
                draft_token(&self.draft, token)
        return 0

    # -- walks ------------------------------------------------------------------------------------------------------------

    cdef int walk(self, int state, int at, int stop, int base) except -1:
        """Set the tokens of trie nodes [at, stop) that lead from `state` to a live state; `base` = depth of what lies above them.

        Where a walk enters a text, the rest is a part of the text's inner mask: it is put off to `deferred`.
        Invariant: path[d] = the state after the bytes of depth base + 1 … base + d of the node at hand, without what was put off.
        """
        cdef int32_t* path = self.path
        cdef Row* row
        cdef int depth, after, last, light
        path[0] = state
        while at < stop:
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
        return 0

    cdef int walk_all(self, int state) except -1:
        """Walk the whole trie, but only below the bytes that the state reads."""
        cdef Row* row = self.row(state)
        cdef int byte, at
        for byte in range(256):
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
        cdef int i
        for i in range(self.states[state].first, self.states[state].first + self.states[state].count, 2):
            if self.is_heavy(self.configs.at[i], self.configs.at[i + 1]):
                ints_add(&self.deferred, self.configs.at[i])
                ints_add(&self.deferred, self.configs.at[i + 1])
                ints_add(&self.deferred, node)
        return 0

    cdef bint is_heavy(self, int q, int stack) except -1:
        """Say whether a configuration gets its mask from an inner one: between the characters of a text that is no finite set."""
        cdef int place
        if not q & 1 or stack == OUTSIDE:
            return False
        place = self.texts.positions[q >> 1].place
        if self.texts.languages[self.texts.positions[q >> 1].language].texts >= 0:
            return False
        if self.records(stack):
            return place <= BODY_LESS and self.texts.spellings[self.texts.positions[q >> 1].spelling].closing >= 0
        return place <= BODY_LESS or place == ESCAPE

    # -- texts and what lies behind them ------------------------------------------------------------------------------------

    cdef int add_text(self, int q, int stack, int node, list doubtful) except -1:
        """Add the mask of one text configuration, whole or below a trie node: its inner mask, and what lies behind it."""
        cdef Inner inner = self.part(q, node) if node >= 0 else self.inner(q)
        cdef bint recording = self.records(stack)
        cdef int behind
        if node >= 0:
            draft_tokens(&self.draft, inner.tokens.at, inner.tokens.size)
        else:
            if recording:
                draft_whole(&self.draft, self.inside(inner), NULL)
            else:
                draft_whole(&self.draft, inner.bits, &inner.words if inner.words.size else NULL)
        behind = self.popped_state(stack)
        if behind != DEAD:
            self.leave_all(inner, behind, None)
        if recording:
            self.leave_recorded(inner, q, stack, node, doubtful)
        return 0

    cdef int leave_all(self, Inner inner, int behind, object apart) except -1:
        """Set the tokens that leave a text at any exit that is not `apart` and go on in state `behind`."""
        cdef int i, node
        cdef uint64_t follow[4]
        cdef uint64_t* below
        cdef Row* row
        memset(follow, 0, sizeof(follow))
        if self.states[behind].count:
            row = self.row(behind)
            for i in range(256):
                if successor(row, i) != DEAD:
                    follow[i >> 6] |= <uint64_t>1 << (i & 63)
        for i in range(inner.exits.size):
            node, below = inner.exits.at[i], inner.next_bytes + 4 * i
            if apart is not None and node in apart:
                continue
            draft_node(&self.draft, self.trie, self.ids, node)
            if (below[0] & follow[0]) | (below[1] & follow[1]) | (below[2] & follow[2]) | (below[3] & follow[3]):
                self.walk(behind, node + 1, self.trie[node].end, self.trie[node].depth)
        return 0

    cdef int popped_state(self, int stack) except -1:
        """Return the state in which the text above `stack` has just ended; frames that record are left to `leave_recorded`."""
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

    cdef int leave_recorded(self, Inner inner, int q, int stack, int node, list doubtful) except -1:
        """As `leave`, where what follows depends on the text: ordinary texts have one state behind them, special ones their own."""
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
            apart = self.special_exits(inner, q, after, self.frames.at[frame + 1], behind == DEAD and not native)
            if native:
                self.leave_key(inner, after, parent, apart)
            elif behind != DEAD:
                self.leave_all(inner, behind, apart)
            for exit_, text in apart.items() if apart is not None else ():
                target = self.after_text(after, text, parent)
                if target != DEAD:
                    draft_node(&self.draft, self.trie, self.ids, exit_)
                    self.walk(target, exit_ + 1, self.trie[exit_].end, self.trie[exit_].depth)
            doubtful.extend(inner.twice_keys if native else inner.twice)
        return 0

    cdef int leave_key(self, Inner inner, int after, int parent, object apart) except -1:
        """As `leave_all` behind an ordinary key of a native object: all that lies before the end of its value is known."""
        cdef Inner key = inner if inner.base is None else inner.base
        cdef Inner behind = self.behind_key(key, self.lonely_entry(after), self.shared_name(after))
        cdef int at, i, j, first, node, ended = UNKNOWN
        for at in range(inner.exits.size):
            i = at if inner.base is None else inner.base_exits.at[at]
            if apart is not None and inner.exits.at[at] in apart:
                continue
            first = behind.token_starts.at[i]
            draft_tokens(&self.draft, behind.tokens.at + first, behind.token_starts.at[i + 1] - first)
            for j in range(behind.exit_starts.at[i], behind.exit_starts.at[i + 1]):
                node = behind.exits.at[j]
                if ended == UNKNOWN:
                    ints_add(&self.work, self.position_behind(after))
                    ints_add(&self.work, parent)
                    ended = self.close(0)
                self.walk(ended, node + 1, self.trie[node].end, self.trie[node].depth)
        return 0

    cdef object special_exits(self, Inner inner, int q, int after, int record, bint everything):
        """Return {exit node: text} for the special texts that a token can complete, for all texts if ordinary ones are refused."""
        cdef dict groups = inner.groups
        special = self.special(after)
        if not (special or everything) or not groups:
            return None
        so_far = self.begun(record, self.texts.spellings[self.texts.positions[q >> 1].spelling].closing) if record >= 8 else ""
        if everything or len(groups) < len(special):
            ends = [(end, so_far + end) for end in groups if everything or so_far + end in special]
        else:
            ends = [(text[len(so_far):], text) for text in self.starting(special, so_far)]
        return {node: text for end, text in ends for node in groups.get(end, ())}

    cdef object begun(self, int record, int closing):
        """Return the text of a record that is still inside its text."""
        found = self.begun_texts.get(record)
        if found is None:
            found = self.begun_texts[record] = self.recorded(record, bytes((closing,)))
        return found

    cdef list starting(self, object texts, str start):
        """Return those of some texts that start so."""
        ordered = self.ordered_texts.get(texts)
        if ordered is None:
            if len(self.ordered_texts) >= RECENT:
                self.ordered_texts.clear()
            ordered = self.ordered_texts[texts] = sorted(texts)
        found = []
        for text in islice(ordered, bisect_left(ordered, start), None):
            if not text.startswith(start):
                break
            found.append(text)
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
