# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled kernel: the automaton of `engine.plain` in flat arrays, with merged stacks and shared masks.

Three things differ from the twin, none of them in meaning.
*Merged stacks*: a stack is an interned set of frames, i.e. a node of a graph of stacks; readings that share a machine state share one
configuration, so an ambiguous grammar costs as many configurations as it has machine states.
*Rows*: every automaton state has 256 successors, filled on demand.
*Shared masks*: what tokens do inside a text depends only on the vocabulary and the text's language.  That part, the *inner* mask, is
kept with the vocabulary; tokens that leave the text are walked from the state behind it, each from the trie node where it leaves.

Invariant: mask(state) bit i = (step_token(state, i) != DEAD), checked bit by bit in tests/laws.
Memory: 1 KB per stepped state, 4 * words bytes per mask; the owner starts a fresh kernel when `is_full`.
Threads: everything here runs under the GIL; finished masks are immutable, so they are copied without it.
Sources: Tomita 1986 (graph-structured stacks); stack sets in canonical form and inner masks with exits: ours.
"""
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from constrained.engine._automaton cimport give, take
from constrained.engine._inner cimport Inner, Inners, set_tokens
from constrained.engine._machines cimport BOTTOM, FINAL, OUTSIDE, UNKNOWN
from constrained.engine._objects cimport OTHER
from constrained.engine._tables cimport Ints, Map, ints_add, map_get, map_put
from constrained.engine._text cimport BODY_LESS, ESCAPE

from constrained.engine.bitmask import misfit

import numpy as np

cdef enum:
    DEAD = 0
    SMALL = 3           # trie nodes: below this a part costs more than the walk


cdef int open_bitmask(object bitmask, Py_buffer* view, int words, int row) except -1:
    """Open a writable int32 buffer (rows, words) and check that it has the row."""
    try:
        PyObject_GetBuffer(bitmask, view, PyBUF_WRITABLE | PyBUF_STRIDES | PyBUF_FORMAT)
    except (TypeError, ValueError, BufferError):
        raise misfit(bitmask, row, words) from None
    if view.ndim == 2 and view.itemsize == 4 and view.format[0] in (105, 73, 108, 76) and view.shape[1] == words and view.strides[1] == 4 and 0 <= row < view.shape[0]:
        return 0
    PyBuffer_Release(view)
    raise misfit(bitmask, row, words)


cdef class Kernel(Inners):
    """One automaton over one root machine and one vocabulary; states are ints; see `engine.plain.PlainKernel`, the same class to read."""

    cdef Ints deferred              # triples text position, stack, trie node: texts entered during a walk
    cdef Map generic                # (Dispatch, parent stack) -> state behind an ordinary text

    def __cinit__(self, vocabulary, root, *, nullable, specials, max_configurations=20_000, max_bytes=1 << 28):
        self.vocabulary, self.specials = vocabulary, specials
        self.max_configurations, self.max_bytes = max_configurations, max_bytes
        self.shared = vocabulary.shared_masks
        self.inners, self.behind_keys = {}, {}
        self._load(vocabulary)
        self.path = <int32_t*>malloc(4 * (self.longest + 2))
        self.intern_state(0)                                   # DEAD
        if root is not None:
            ints_add(&self.work, self.machine(root))
            ints_add(&self.work, BOTTOM)
        self.start = self.close(FINAL if nullable else 0)

    def __dealloc__(self):
        free(self.deferred.at)
        free(self.generic.at)

    def _load(self, vocabulary):
        trie = vocabulary.trie
        starts = vocabulary.spelled
        self.arrays = (trie, starts)
        cdef const uint8_t[::1] b
        cdef const int32_t[::1] i
        self.nodes = len(trie.byte)
        self.words, self.longest = vocabulary.words, vocabulary.longest
        if self.nodes:
            b = trie.byte; self.byte = &b[0]
            i = trie.end; self.end = &i[0]
            i = trie.depth; self.depth = &i[0]
            i = trie.first; self.first = &i[0]
            i = trie.ids; self.ids = &i[0]
        b = starts[1]; self.token_bytes = &b[0]
        i = starts[0]; self.token_first = &i[0]

    # -- walks ------------------------------------------------------------------------------------------------------------

    cdef int walk(self, int state, int at, int stop, int base, uint32_t* bits) except -1:
        """Set the tokens of trie nodes [at, stop) that lead from `state` to a live state; `base` = depth of what lies above them.

        Where a walk enters a text, the rest is a part of the text's inner mask: it is put off to `deferred`.
        Invariant: path[d] = the state after the bytes of depth base + 1 … base + d of the node at hand, without what was put off.
        """
        cdef int32_t* path = self.path
        cdef int32_t* row
        cdef int depth, after, last, light
        path[0] = state
        while at < stop:
            depth = self.depth[at] - base
            row = self.states[path[depth - 1]].row
            if row == NULL:
                row = self.row(path[depth - 1])
            after = row[self.byte[at]]
            if after == UNKNOWN:
                after = self.step(path[depth - 1], self.byte[at])
            if after == DEAD:
                at = self.end[at]
                continue
            set_tokens(self.first, self.ids, at, bits)
            if self.end[at] - at > SMALL:
                light = self.states[after].light
                if light == UNKNOWN:
                    light = self.split(after)
                if light != after:
                    self.put_off(after, at)
                    if light == DEAD:
                        at = self.end[at]
                        continue
                    after = light
            path[depth] = after
            at += 1
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

    cdef int add_text(self, int q, int stack, int node, uint32_t* bits, list doubtful) except -1:
        """Add the mask of one text configuration, whole or below a trie node: its inner mask, and what lies behind it."""
        cdef Inner inner = self.part(q, node) if node >= 0 else self.inner(q)
        cdef bint recording = self.records(stack)
        cdef int i, token, behind
        cdef uint32_t* inside
        if node >= 0:
            for i in range(inner.tokens.size):
                token = inner.tokens.at[i]
                bits[token >> 5] |= <uint32_t>1 << (token & 31)
        else:
            inside = self.inside(inner) if recording else inner.bits
            for i in range(self.words):
                bits[i] |= inside[i]
        behind = self.popped_state(stack)
        if behind != DEAD:
            self.leave_all(inner, behind, None, bits)
        if recording:
            self.leave_recorded(inner, q, stack, node, bits, doubtful)
        return 0

    cdef int leave_all(self, Inner inner, int behind, object apart, uint32_t* bits) except -1:
        """Set the tokens that leave a text at any exit that is not `apart` and go on in state `behind`."""
        cdef int i, node
        cdef uint64_t follow[4]
        cdef uint64_t* below
        cdef int32_t* row
        memset(follow, 0, sizeof(follow))
        if self.states[behind].count:
            row = self.row(behind)
            for i in range(256):
                if row[i] != DEAD:
                    follow[i >> 6] |= <uint64_t>1 << (i & 63)
        for i in range(inner.exits.size):
            node, below = inner.exits.at[i], inner.next_bytes + 4 * i
            if apart is not None and node in apart:
                continue
            set_tokens(self.first, self.ids, node, bits)
            if (below[0] & follow[0]) | (below[1] & follow[1]) | (below[2] & follow[2]) | (below[3] & follow[3]):
                self.walk(behind, node + 1, self.end[node], self.depth[node], bits)
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

    cdef int leave_recorded(self, Inner inner, int q, int stack, int node, uint32_t* bits, list doubtful) except -1:
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
                self.leave_key(inner, after, parent, apart, bits)
            elif behind != DEAD:
                self.leave_all(inner, behind, apart, bits)
            for exit_, text in apart.items() if apart is not None else ():
                target = self.after_text(after, text, parent)
                if target != DEAD:
                    set_tokens(self.first, self.ids, exit_, bits)
                    self.walk(target, exit_ + 1, self.end[exit_], self.depth[exit_], bits)
            doubtful.extend(inner.twice_keys if native else inner.twice)
        return 0

    cdef int leave_key(self, Inner inner, int after, int parent, object apart, uint32_t* bits) except -1:
        """As `leave_all` behind an ordinary key of a native object: all that lies before the end of its value is known."""
        cdef Inner behind = self.behind_key(inner, self.lonely_entry(after), self.shared_name(after))
        cdef int i, j, token, node, ended = UNKNOWN
        for i in range(inner.exits.size):
            if apart is not None and inner.exits.at[i] in apart:
                continue
            for j in range(behind.token_starts.at[i], behind.token_starts.at[i + 1]):
                token = behind.tokens.at[j]
                bits[token >> 5] |= <uint32_t>1 << (token & 31)
            for j in range(behind.exit_starts.at[i], behind.exit_starts.at[i + 1]):
                node = behind.exits.at[j]
                if ended == UNKNOWN:
                    ints_add(&self.work, self.position_behind(after))
                    ints_add(&self.work, parent)
                    ended = self.close(0)
                self.walk(ended, node + 1, self.end[node], self.depth[node], bits)
        return 0

    cdef object special_exits(self, Inner inner, int q, int after, int record, bint everything):
        """Return {exit node: text} for the special texts that a token can complete, for all texts if ordinary ones are refused."""
        cdef dict groups = inner.groups
        special = self.special(after)
        if not (special or everything) or not groups:
            return None
        closing = bytes([self.texts.spellings[self.texts.positions[q >> 1].spelling].closing])
        so_far = self.recorded(record, closing) if record >= 8 else ""
        if everything or len(groups) < len(special):
            ends = [(end, so_far + end) for end in groups if everything or so_far + end in special]
        else:
            ends = [(text[len(so_far):], text) for text in special if text.startswith(so_far)]
        return {node: text for end, text in ends for node in groups.get(end, ())}

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

    # -- masks --------------------------------------------------------------------------------------------------------------

    cdef uint32_t* mask_of(self, int state) except NULL:
        """Return the mask of a state, computed once."""
        cdef uint32_t* bits = self.states[state].mask
        if bits != NULL:
            return bits
        bits = <uint32_t*>take(4 * self.words)
        try:
            self.fill_bits(state, bits)
        except BaseException:
            give(bits, 4 * self.words)
            self.work.size = self.deferred.size = 0
            raise
        self.states[state].mask = bits
        self.bytes += 4 * self.words
        return bits

    cdef int fill_bits(self, int state, uint32_t* bits) except -1:
        cdef int token, light = self.states[state].light
        cdef list doubtful = []
        if light == UNKNOWN:
            light = self.split(state)
        if light != state:
            self.put_off(state, -1)
        if light != DEAD:
            self.walk(light, 0, self.nodes, 0, bits)
        while self.deferred.size:
            self.deferred.size -= 3
            self.add_text(self.deferred.at[self.deferred.size], self.deferred.at[self.deferred.size + 1],
                          self.deferred.at[self.deferred.size + 2], bits, doubtful)
        for token in doubtful:
            if bits[token >> 5] >> (token & 31) & 1 and self.step_token(state, token) == DEAD:
                bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))
        for token in self.named_tokens(state):
            bits[token >> 5] |= <uint32_t>1 << (token & 31)
        if self.states[state].flags & FINAL:
            for token in self.vocabulary.stop:
                bits[token >> 5] |= <uint32_t>1 << (token & 31)
        return 0

    def mask(self, int state):
        """Return the tokens that may come next as a new array, (words,) uint32, bit i of word w = token 32 w + i is allowed."""
        cdef uint32_t* bits = self.mask_of(state)
        made = np.empty(self.words, np.uint32)
        cdef uint32_t[::1] view = made
        memcpy(&view[0], bits, 4 * self.words)
        return made

    def cached_bytes(self):
        """Return an estimate of the memory that the automaton holds, the vocabulary's shared masks not counted."""
        return self.bytes + 8 * self.frames.size + 60 * self.texts.position_count + 800 * self.texts.language_count

    def sizes(self):
        """Return how much the automaton holds, by kind; for reports."""
        return {"states": self.state_count, "machines": self.machine_count, "stacks": self.stack_first.size - 1,
                "positions": self.texts.position_count, "languages": self.texts.language_count, "records": self.record_parent.size}

    def is_full(self):
        """Say whether the cache has passed its bound: its owner then starts a fresh kernel."""
        return self.bytes + 800 * self.texts.language_count > self.max_bytes

    def fill(self, int state, object bitmask, int row, bint empty):
        """Write the mask of a state, or no token at all, into one row of an int32 bitmask (rows, words)."""
        cdef Py_buffer view
        cdef const uint32_t* bits = NULL if empty else self.mask_of(state)
        open_bitmask(bitmask, &view, self.words, row)
        if empty:
            memset(<char*>view.buf + <long>row * view.strides[0], 0, 4 * self.words)
        else:
            memcpy(<char*>view.buf + <long>row * view.strides[0], bits, 4 * self.words)
        PyBuffer_Release(&view)


def fill_rows(list entries, object bitmask):
    """Write entry i = (kernel, state, empty) into row i of a bitmask: new masks one by one, then all copies without the GIL."""
    cdef int i, count = len(entries), words
    cdef Py_buffer view
    cdef Kernel kernel
    cdef const uint32_t** sources
    if not count:
        return
    words = (<Kernel>entries[0][0]).words
    sources = <const uint32_t**>calloc(count, sizeof(void*))
    if sources == NULL:
        raise MemoryError
    try:
        for i in range(count):
            kernel, state, empty = entries[i]
            if kernel.words != words:
                raise misfit(bitmask, i, kernel.words)
            if not empty:
                sources[i] = kernel.mask_of(state)
        open_bitmask(bitmask, &view, words, count - 1)
        with nogil:
            for i in range(count):
                if sources[i] == NULL:
                    memset(<char*>view.buf + i * view.strides[0], 0, 4 * words)
                else:
                    memcpy(<char*>view.buf + i * view.strides[0], sources[i], 4 * words)
        PyBuffer_Release(&view)
    finally:
        free(sources)
