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
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from constrained.engine._automaton cimport Automaton
from constrained.engine._machines cimport BOTTOM, EXITS, FINAL, OUTSIDE, UNKNOWN
from constrained.engine._tables cimport Ints, ints_add, map_get, map_put
from constrained.engine._text cimport BODY, BODY_LESS, ESCAPE, Position, Spelling, Texts

from constrained.engine.spelling import decode
from constrained.errors import BITMASK, BitmaskError
from constrained.regex import repeat

import numpy as np

cdef enum:
    DEAD = 0


cdef class Inner:
    """Tokens inside a text of one language: `bits`, and the trie nodes at which a token leaves the text.

    With counts (a language C* whose repetitions a bound may limit), need[k] is the number of characters that token k begins.
    """
    cdef uint32_t* bits             # (words,) tokens that stay inside or end where they leave
    cdef Ints exits                 # trie nodes
    cdef Ints exit_counts           # characters read at each exit
    cdef Ints counted               # pairs token, characters begun
    cdef int most
    cdef dict levels                # bound -> Inner limited to it
    cdef dict groups                # decoded text before an exit -> exit nodes; see Kernel.recorded
    cdef list twice                 # tokens with two or more closing bytes: to be checked one by one

    def __dealloc__(self):
        free(self.bits)
        free(self.exits.at)
        free(self.exit_counts.at)
        free(self.counted.at)


cdef int open_bitmask(object bitmask, Py_buffer* view, int words, int row) except -1:
    """Open a writable int32 buffer (rows, words) and check that it has the row."""
    try:
        PyObject_GetBuffer(bitmask, view, PyBUF_WRITABLE | PyBUF_STRIDES | PyBUF_FORMAT)
    except (TypeError, ValueError, BufferError) as error:
        raise BitmaskError("a bitmask cannot be written", because=f"{type(bitmask).__name__}: {error}", instead=BITMASK) from None
    if view.ndim == 2 and view.itemsize == 4 and view.format[0] in (105, 73, 108, 76) and view.shape[1] == words and view.strides[1] == 4 and 0 <= row < view.shape[0]:
        return 0
    because = f"shape {tuple([view.shape[i] for i in range(view.ndim)])}, format {(<bytes>view.format).decode()}, row {row}, {words} words per row"
    PyBuffer_Release(view)
    raise BitmaskError("a bitmask does not fit", because=because, instead=BITMASK)


cdef class Kernel(Automaton):
    """One automaton over one root machine and one vocabulary; states are ints; see `engine.plain.PlainKernel`, the same class to read."""

    cdef dict inners                # text position -> Inner

    def __cinit__(self, vocabulary, root, *, nullable, specials, max_configurations=20_000, max_bytes=1 << 28):
        cdef int surface
        self.texts, self.vocabulary, self.specials = Texts(), vocabulary, specials
        self.max_configurations, self.max_bytes = max_configurations, max_bytes
        self.shared = vocabulary.shared_masks
        self.objects, self.machine_ids, self.inners = [], {}, {}
        self._load(vocabulary)
        for surface in range(8):
            ints_add(&self.record_parent, -1)
            ints_add(&self.record_byte, -1)
        ints_add(&self.stack_first, 0)
        self.intern_stack([-1, -1, -1], 1)
        self.intern_stack([-2, -1, -1], 1)
        self.path = <int32_t*>malloc(4 * (self.longest + 2))
        self.intern_state(0)                                   # DEAD
        if root is not None:
            ints_add(&self.work, self.machine(root))
            ints_add(&self.work, BOTTOM)
        self.start = self.close(FINAL if nullable else 0)

    def _load(self, vocabulary):
        trie = vocabulary.trie
        tokens = vocabulary.tokens
        lengths = np.fromiter((len(t) if t is not None else 0 for t in tokens), np.int64, len(tokens))
        starts = vocabulary.__dict__.get("_token_starts")
        if starts is None:
            firsts = np.zeros(len(tokens) + 1, np.int32)
            np.cumsum(lengths, out=firsts[1:])
            starts = (firsts, np.frombuffer(b"".join(t for t in tokens if t is not None) + b"\0", np.uint8))
            vocabulary.__dict__["_token_starts"] = starts
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

    def __dealloc__(self):
        cdef int i
        for i in range(self.state_count):
            free(self.states[i].row)
            free(self.states[i].mask)
        for pointer in (<size_t>self.machines, <size_t>self.states, <size_t>self.path, <size_t>self.ranges.at, <size_t>self.calls.at,
                        <size_t>self.tokens.at, <size_t>self.dispatched.at, <size_t>self.recorded_after.at, <size_t>self.frames.at,
                        <size_t>self.stack_first.at, <size_t>self.stack_ids.at, <size_t>self.stack_next.at, <size_t>self.unions.at,
                        <size_t>self.pushed.at, <size_t>self.stepped.at, <size_t>self.popped.at, <size_t>self.record_parent.at,
                        <size_t>self.record_byte.at, <size_t>self.record_ids.at, <size_t>self.configs.at, <size_t>self.state_next.at,
                        <size_t>self.state_ids.at, <size_t>self.work.at, <size_t>self.closed.at, <size_t>self.closed_at.at):
            free(<void*><size_t>pointer)

    cdef void set_tokens(self, int node, uint32_t* bits) noexcept:
        cdef int i, token
        for i in range(self.first[node], self.first[node + 1]):
            token = self.ids[i]
            bits[token >> 5] |= <uint32_t>1 << (token & 31)

    cdef int walk(self, int state, int at, int stop, int base, uint32_t* bits) except -1:
        """Set the tokens of trie nodes [at, stop) that lead from `state` to a live state; `base` = depth of what lies above them.

        Invariant: path[d] = the state after the bytes of depth base + 1 … base + d of the node at hand.
        """
        cdef int32_t* path = self.path
        cdef int32_t* row
        cdef int depth, after
        path[0] = state
        while at < stop:
            depth = self.depth[at] - base
            row = self.states[path[depth - 1]].row
            if row == NULL:
                row = self.row(path[depth - 1])
            after = row[self.byte[at]]
            if after == DEAD:
                at = self.end[at]
                continue
            if after == UNKNOWN:
                after = self.step(path[depth - 1], self.byte[at])
                if after == DEAD:
                    at = self.end[at]
                    continue
            path[depth] = after
            self.set_tokens(at, bits)
            at += 1
        return 0

    cdef Inner inner(self, int q):
        """Return what tokens do inside the text at position q, from the vocabulary's cache where its language is known there."""
        cdef Inner found
        known = self.inners.get(q)
        if known is not None:
            return known
        cdef int language = self.texts.positions[q >> 1].language
        place = self.texts.positions[q >> 1].place
        object_ = self.texts.language_object(language)
        spelling = self.texts.spelling_objects[self.texts.positions[q >> 1].spelling]
        counted = getattr(object_, "counted", None) if place == BODY and spelling.closing >= 0 else None
        if counted is not None:
            found = self.counted_inner(q, spelling, counted)
        else:
            key = (spelling, place, object_.mask_key(self.longest))
            found = self.shared.get(key)
            if found is None:
                found = self.build_inner(q, False)
                self.remember(key, found)
        self.inners[q] = found
        return found

    cdef int remember(self, key, Inner inner) except -1:
        """Keep an inner mask with the vocabulary; the oldest go first when there are too many."""
        while len(self.shared) >= 2048:
            del self.shared[next(iter(self.shared))]
        self.shared[key] = inner
        return 0

    cdef Inner counted_inner(self, int q, spelling, counted):
        """Return the inner mask of C{low,high} from that of C*: tokens with too many characters fall out, exits outside the bounds too."""
        cdef Inner base, level
        characters, low, high = counted
        key = (spelling, "counted", characters)
        found = self.shared.get(key)
        if found is None:
            endless = repeat(characters, 0, None)
            base = self.build_inner(2 * self.texts.body(self.texts.spelling(spelling), self.texts.language(endless)) + 1, True)
            base.levels = {}
            self.remember(key, base)
        else:
            base = found
        cdef int least = min(low, base.most + 1), most = base.most if high is None else min(high, base.most)
        if least == 0 and most == base.most:
            return base
        level = base.levels.get((least, most))
        if level is None:
            level = self.limited(base, least, most)
            base.levels[least, most] = level
        return level

    cdef Inner limited(self, Inner base, int least, int most):
        cdef Inner level = Inner()
        cdef int i, token
        level.bits = <uint32_t*>malloc(4 * self.words)
        if level.bits == NULL:
            raise MemoryError
        memcpy(level.bits, base.bits, 4 * self.words)
        for i in range(0, base.counted.size, 2):
            if base.counted.at[i + 1] <= most:
                break
            token = base.counted.at[i]
            level.bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))
        for i in range(base.exits.size):
            if least <= base.exit_counts.at[i] <= most:
                ints_add(&level.exits, base.exits.at[i])
                self.set_tokens(base.exits.at[i], level.bits)
            else:
                self.clear_tokens(base.exits.at[i], level.bits)
        return level

    cdef void clear_tokens(self, int node, uint32_t* bits) noexcept:
        cdef int i, token
        for i in range(self.first[node], self.first[node + 1]):
            token = self.ids[i]
            bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))

    cdef Inner build_inner(self, int q, bint counts):
        """Walk the trie from position q with nothing known outside the text; with counts, q is the loop of a language C*."""
        cdef Inner made = Inner()
        cdef int32_t* path = self.path
        cdef int32_t* characters
        cdef int at = 0, depth, after, begin, begun, i, free_escape = DEAD
        made.bits = <uint32_t*>calloc(self.words, 4)
        characters = <int32_t*>calloc(self.longest + 2, 4)
        if made.bits == NULL or characters == NULL:
            raise MemoryError
        ints_add(&self.work, q)
        ints_add(&self.work, OUTSIDE)
        begin = self.close(0)
        path[0] = begin
        if counts and self.texts.spellings[self.texts.positions[q >> 1].spelling].continuation:
            free_escape = self.next_state(begin, 0x5C)      # a backslash may turn out to begin no character
        needs = [] if counts else None
        while at < self.nodes:
            depth = self.depth[at]
            after = self.next_state(path[depth - 1], self.byte[at])
            if after == DEAD:
                at = self.end[at]
                continue
            path[depth] = after
            self.set_tokens(at, made.bits)
            characters[depth] = characters[depth - 1] + (after == begin)
            if self.states[after].flags & EXITS:
                ints_add(&made.exits, at)
                ints_add(&made.exit_counts, characters[depth])
                made.most = max(made.most, characters[depth])
            elif counts:
                begun = characters[depth] + (after != begin and after != free_escape)
                made.most = max(made.most, begun)
                for i in range(self.first[at], self.first[at + 1]):
                    needs.append((-begun, self.ids[i]))
            at += 1
        free(characters)
        if self.texts.spellings[self.texts.positions[q >> 1].spelling].closing < 0:
            self.drop_covered(made)
        if counts:
            needs.sort()
            for count, token in needs:
                ints_add(&made.counted, token)
                ints_add(&made.counted, -count)
        return made

    cdef int drop_covered(self, Inner inner) except -1:
        """Forget the exits of a bare text below which every token stays inside as well: all of them, for free text."""
        cdef int i, kept = 0, token, node
        cdef int32_t* outside = <int32_t*>malloc(4 * (self.first[self.nodes] + 1))
        if outside == NULL:
            raise MemoryError
        outside[0] = 0
        for i in range(self.first[self.nodes]):
            token = self.ids[i]
            outside[i + 1] = outside[i] + 1 - (inner.bits[token >> 5] >> (token & 31) & 1)
        for i in range(inner.exits.size):
            node = inner.exits.at[i]
            if outside[self.first[self.end[node]]] > outside[self.first[node + 1]]:
                inner.exits.at[kept] = node
                kept += 1
        inner.exits.size = kept
        free(outside)
        return 0

    cdef int popped_state(self, int stack) except -1:
        """Return the state in which the text above `stack` has just ended; frames that record are left to `recorded_exits`."""
        cdef int i, known = map_get(&self.popped, stack, 0)
        if known >= 0:
            return known
        for i in range(self.stack_first.at[stack], self.stack_first.at[stack + 1], 3):
            if self.frames.at[i] >= 0 and self.frames.at[i + 1] < 0:
                ints_add(&self.work, self.frames.at[i])
                ints_add(&self.work, self.frames.at[i + 2])
        known = self.close(0) if self.work.size else DEAD
        map_put(&self.popped, stack, 0, known)
        return known

    cdef int leave(self, Inner inner, int stack, uint32_t* bits) except -1:
        """Set the tokens that leave the text and go on behind it."""
        cdef int i, node, behind = self.popped_state(stack)
        if behind != DEAD and self.states[behind].count:
            for i in range(inner.exits.size):
                node = inner.exits.at[i]
                if self.end[node] > node + 1:
                    self.walk(behind, node + 1, self.end[node], self.depth[node], bits)
        return 0

    cdef int add_text(self, int q, int stack, uint32_t* bits, list doubtful) except -1:
        """Add the mask of one text configuration: the inner mask, and what lies behind it."""
        cdef Inner inner = self.inner(q)
        cdef uint32_t* scratch
        cdef int i
        if not self.records(stack):
            for i in range(self.words):
                bits[i] |= inner.bits[i]
            return self.leave(inner, stack, bits)
        scratch = <uint32_t*>malloc(4 * self.words)
        if scratch == NULL:
            raise MemoryError
        try:
            memcpy(scratch, inner.bits, 4 * self.words)
            self.leave_recorded(inner, q, stack, scratch)
            for i in range(self.words):
                bits[i] |= scratch[i]
        finally:
            free(scratch)
        doubtful.extend(inner.twice)
        return 0

    cdef int leave_recorded(self, Inner inner, int q, int stack, uint32_t* bits) except -1:
        """As `leave`, where what follows depends on the text: one walk for an ordinary text, one more for each special text in reach."""
        cdef int i, node, behind, frame, after, target, record, parent
        closing = bytes([self.texts.spellings[self.texts.positions[q >> 1].spelling].closing])
        if inner.groups is None:
            self.group_exits(inner, q)
        for frame in range(self.stack_first.at[stack], self.stack_first.at[stack + 1], 3):
            after, record, parent = self.frames.at[frame], self.frames.at[frame + 1], self.frames.at[frame + 2]
            behind = self.after_text(after, None, parent)
            for i in range(inner.exits.size if behind != DEAD else 0):
                node = inner.exits.at[i]
                self.walk(behind, node + 1, self.end[node], self.depth[node], bits)
            special = self.objects[after >> 1].special
            if not special and behind != DEAD:
                continue
            so_far = self.recorded(record, closing)
            for text, nodes in self.reachable(inner.groups, so_far, special, behind == DEAD):
                target = self.after_text(after, text, parent)
                for node in nodes:
                    for i in range(node, self.end[node]):
                        self.clear_tokens(i, bits)
                    if target != DEAD:
                        self.set_tokens(node, bits)
                        self.walk(target, node + 1, self.end[node], self.depth[node], bits)
        return 0

    def reachable(self, dict groups, str so_far, special, bint everything):
        """Return (text, exit nodes) for the special texts that one token can complete; for all texts if ordinary ones are refused."""
        if everything or len(groups) < len(special):
            return [(so_far + end, nodes) for end, nodes in groups.items() if everything or so_far + end in special]
        ends = ((text, groups.get(text[len(so_far):])) for text in special if text.startswith(so_far))
        return [(text, nodes) for text, nodes in ends if nodes]

    cdef int after_text(self, int after, text, int parent) except -1:
        """Return the state behind a recorded text, DEAD where it is refused."""
        following = self.objects[after >> 1].after_text(text)
        if following is None:
            return DEAD
        ints_add(&self.work, self.machine(following))
        ints_add(&self.work, parent)
        return self.close(0)

    cdef int group_exits(self, Inner inner, int q) except -1:
        """Sort the exits by the text before them, and find the tokens that may complete a second text."""
        cdef int i, node, at, depth
        cdef int closing = self.texts.spellings[self.texts.positions[q >> 1].spelling].closing
        inner.groups, inner.twice = {}, []
        spelling = self.texts.spelling_objects[self.texts.positions[q >> 1].spelling]
        tokens = self.vocabulary.tokens
        for i in range(inner.exits.size):
            node = inner.exits.at[i]
            depth = self.depth[node]
            below = [self.ids[at] for at in range(self.first[node], self.first[self.end[node]])]
            text = decode(spelling.surface, spelling.opening + tokens[below[0]][:depth])
            inner.groups.setdefault(text, []).append(node)
            inner.twice += [token for token in below if sum(tokens[token].count(quote) for quote in (b'"', b"'")) > 2]
        return 0

    cdef uint32_t* mask_of(self, int state) except NULL:
        """Return the mask of a state, computed once."""
        cdef uint32_t* bits = self.states[state].mask
        if bits != NULL:
            return bits
        bits = <uint32_t*>calloc(self.words, 4)
        if bits == NULL:
            raise MemoryError
        try:
            self.fill_bits(state, bits)
        except BaseException:
            free(bits)
            self.work.size = 0
            raise
        self.states[state].mask = bits
        self.bytes += 4 * self.words
        return bits

    cdef int fill_bits(self, int state, uint32_t* bits) except -1:
        cdef int i, q, token, first = self.states[state].first, last = first + self.states[state].count, light
        cdef list doubtful = [], rest = []
        for i in range(first, last, 2):
            q = self.configs.at[i]
            if self.is_heavy(q, self.configs.at[i + 1]):
                self.add_text(q, self.configs.at[i + 1], bits, doubtful)
            else:
                rest += (q, self.configs.at[i + 1])
        if rest:
            light = state
            if 2 * (len(rest) // 2) < last - first:
                self.closed.size = 0
                for x in rest:
                    ints_add(&self.closed, x)
                light = self.intern_state(0)
            self.walk(light, 0, self.nodes, 0, bits)
        for token in doubtful:
            if bits[token >> 5] >> (token & 31) & 1 and self.step_token(state, token) == DEAD:
                bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))
        for token in self.named_tokens(state):
            bits[token >> 5] |= <uint32_t>1 << (token & 31)
        if self.states[state].flags & FINAL:
            for token in self.vocabulary.stop:
                bits[token >> 5] |= <uint32_t>1 << (token & 31)
        return 0

    cdef bint is_heavy(self, int q, int stack) except -1:
        """Say whether a configuration gets its mask from a shared inner one: between the characters of a text that is no finite set."""
        cdef int place
        if not q & 1 or stack == OUTSIDE:
            return False
        place = self.texts.positions[q >> 1].place
        if self.texts.languages[self.texts.positions[q >> 1].language].texts >= 0:
            return False
        if self.records(stack):
            return place <= BODY_LESS and self.texts.spellings[self.texts.positions[q >> 1].spelling].closing >= 0
        return place <= BODY_LESS or place == ESCAPE

    def mask(self, int state):
        """Return the tokens that may come next as a new array, (words,) uint32, bit i of word w = token 32 w + i is allowed."""
        cdef uint32_t* bits = self.mask_of(state)
        made = np.empty(self.words, np.uint32)
        cdef uint32_t[::1] view = made
        memcpy(&view[0], bits, 4 * self.words)
        return made

    def cached_bytes(self):
        """Return an estimate of the memory that the automaton holds, the vocabulary's shared masks not counted."""
        return self.bytes + 8 * (self.texts.position_count + self.frames.size)

    def is_full(self):
        """Say whether the cache has passed its bound: its owner then starts a fresh kernel."""
        return self.bytes > self.max_bytes

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
