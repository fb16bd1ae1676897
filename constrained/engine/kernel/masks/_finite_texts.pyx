# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Masks of finite sets of texts (the names of an object, an enum): the trie of tokens against the sorted texts.

PERF: a trie node costs two binary searches instead of a language, a position, a state and a row.  Only where a text
ends, or a character is not written as itself in ASCII, is there a state, and steps from it.

Owns: the ranges of texts on the way to the node at hand.  Borrows: the languages, in which the texts stand sorted;
positions, trie, automaton; walks, for what lies behind a text; context-independent masks, for names where any text can
stand; the meter of work.  The buffer it is handed.
Invariant: the texts [lows[d], highs[d]) are those that agree with the first d bytes of the node at hand; they end there
or go on with a character of [least[d], most[d]].
Plain twin: `machine.LiteralSet` with `twin.text.TextAt`, one text position after another.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcmp, memset
from constrained.engine.memory._memory cimport allotted, cleared, released
from constrained.engine.memory._meter cimport Meter, work
from constrained.engine.kernel._tables cimport ints_add
from constrained.engine.kernel._branches cimport child_of, is_wide
from constrained.engine.kernel._trie cimport TrieNode, Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD, UNKNOWN
from constrained.engine.kernel.automaton._machines cimport DISPATCH, Machine
from constrained.engine.kernel.automaton._objects cimport NAMED
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.masks._mask_buffer cimport MaskBuffer, buffer_node
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks._walk cimport Walk
from constrained.engine.kernel.texts._languages cimport LanguageAt, Languages, LiteralTexts
from constrained.engine.kernel.texts._positions cimport Position, Positions
from constrained.engine.kernel.texts._ranges cimport holds

from bisect import bisect_left

cdef enum:
    SEARCHED = 8        # ticks of a trie node that is looked for among texts
    GROUPED = 32        # and of a group of exits
    WIDE = 16           # trie nodes below the end of a text from which on others may have walked there already


@final
cdef class FiniteTexts:
    """Adds finite sets of texts to buffers."""

    def __cinit__(self, Walk walk, IndependentMasks masks):
        self.walk, self.masks, self.meter, self.trie = walk, masks, walk.meter, walk.trie
        self.automaton, self.positions, self.languages = walk.automaton, walk.positions, walk.languages
        self.marks = <int32_t*>cleared(256, 4)
        self.lows = <int32_t*>allotted(5 * (<size_t>self.trie.longest + 2), 4)
        self.highs = self.lows + self.trie.longest + 2
        self.least, self.most = self.highs + self.trie.longest + 2, self.highs + 2 * (self.trie.longest + 2)
        self.above = self.most + self.trie.longest + 2

    def __dealloc__(self):
        released(self.marks)
        released(self.lows)

    cdef int drop(self) noexcept:
        """Leave nothing half done behind, where an operation ended by an exception."""
        memset(self.marks, 0, 4 * 256)
        return 0

    cdef int add(self, MaskBuffer* buffer, int q, int stack, int node) except -1:
        """Add the mask of a text of a finite set, whole or below a trie node."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, at, count
        cdef uint8_t possible[256]
        if node >= 0:
            return self.walk_texts(buffer, q, stack, node + 1, nodes[node].end, nodes[node].depth)
        count = self.first_bytes(q, possible)
        for i in range(count):
            at = self.trie.roots[possible[i]]
            self.walk_texts(buffer, q, stack, at, nodes[at].end, 0)
        return 0

    cdef int first_bytes(self, int q, uint8_t* possible) except -1:
        """List the bytes that may come next and that tokens begin with; return how many."""
        cdef int block, byte, count = 0
        self.positions.mark(q >> 1, self.marks)
        for block in range(0, 256, 16):
            if not memcmp(self.marks + block, self.automaton.dead_block, 64):
                continue
            for byte in range(block, block + 16):
                if self.marks[byte] and self.trie.roots[byte] >= 0:
                    possible[count] = byte
                    count += 1
            memset(self.marks + block, 0, 64)
        return count

    cdef int walk_texts(self, MaskBuffer* buffer, int q, int stack, int at, int stop, int base) except -1:
        """Add the tokens of trie nodes [at, stop); `base` = depth of what lies above them."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const int32_t* ids = self.trie.ids
        cdef Position p = self.positions.at[q >> 1]
        cdef LanguageAt start = self.languages.at[p.language]
        cdef int closing = self.positions.spellings[p.spelling].closing, raw = self.positions.spellings[p.spelling].raw
        cdef int depth, byte, low, high, behind, visited = 0
        cdef bint taken = self.is_taken(stack)
        self.enter(&start, 0, start.low, start.high)
        self.above[0] = at - 1 if base and is_wide(self.trie.branches, at - 1) else -1
        while at < stop:
            visited += SEARCHED
            depth, byte = nodes[at].depth - base, nodes[at].byte
            low, high = self.lows[depth - 1], self.highs[depth - 1]
            if byte == closing or byte == 0x5C or byte >= 0x80:
                if not self.may_leave(&start, byte == closing, byte == 0x5C, low, high, start.depth + depth - 1):
                    pass
                elif byte == closing and taken and nodes[at].end == at + 1:
                    buffer_node(buffer, nodes, ids, at)
                else:
                    behind = self.state_of(p.spelling, &start, low, high, start.depth + depth - 1, stack)
                    if byte == closing and nodes[at].end - at > WIDE:
                        self.put_off(buffer, self.automaton.next_state(behind, byte), at)
                    else:
                        self.walk.walk(buffer, behind, at, nodes[at].end, base + depth - 1)
                at = self.beside(&start, at, depth, closing)
                continue
            if (self.least[depth - 1] <= byte <= self.most[depth - 1] and holds(&self.positions.tables, raw, byte)
                    and self.languages.narrow(&start, start.depth + depth - 1, byte, byte, &low, &high)):
                buffer_node(buffer, nodes, ids, at)
                self.enter(&start, depth, low, high)
                self.above[depth] = at if is_wide(self.trie.branches, at) else -1
                at += 1
            else:
                at = self.beside(&start, at, depth, closing)
        self.meter.ticks += visited
        return 0

    cdef int beside(self, LanguageAt* start, int at, int depth, int closing) noexcept:
        """Return the node where the search goes on behind one of a depth, and behind all below it: the next child of
        the same node, but for those of a wide node that no text goes on with.
        """
        cdef int node = self.above[depth - 1], byte = self.trie.nodes[at].byte, read = start.depth + depth - 1
        cdef int next_byte, low, high, found = -1
        cdef const LiteralTexts* entry = &self.languages.sets[start.texts]
        if node < 0 or self.most[depth - 1] >= 0x80 or byte >= 0x80 or closing >= 0x80:
            return self.trie.nodes[at].end
        while found < 0:
            next_byte = 0x80
            if byte < self.most[depth - 1]:
                low, high = self.lows[depth - 1], self.highs[depth - 1]
                self.languages.narrow(start, read, max(byte + 1, self.least[depth - 1]), 0x7F, &low, &high)
                next_byte = entry.points[entry.offset[low] + read]
            if byte < 0x5C < next_byte:
                next_byte = 0x5C
            if byte < closing < next_byte:
                next_byte = closing
            if next_byte == 0x80:
                return self.trie.nodes[node].end
            byte = next_byte
            found = child_of(self.trie.branches, node, byte)
        return found

    cdef void enter(self, const LanguageAt* start, int depth, int low, int high) noexcept:
        """Note the texts that are left at a depth, and between which characters they go on.

        PERF: of a trie node's children most are none of these, and below the first bytes one text is left: a tenth of
        the instructions of a mask where only names may come.
        """
        cdef const LiteralTexts* entry = &self.languages.sets[start.texts]
        cdef int read = start.depth + depth, first = low
        self.lows[depth], self.highs[depth] = low, high
        if entry.offset[first + 1] - entry.offset[first] == read:
            first += 1
        if first < high:
            self.least[depth] = entry.points[entry.offset[first] + read]
            self.most[depth] = entry.points[entry.offset[high - 1] + read]
        else:
            self.least[depth], self.most[depth] = 1, 0

    cdef bint may_leave(self, LanguageAt* start, bint closes, bint escapes, int low, int high, int depth) noexcept:
        """Say whether the texts [low, high) may go on with their end, an escape, or else a character beyond ASCII."""
        if closes:
            return self.languages.ends(start, depth, low)
        return escapes or self.languages.narrow(start, depth, 0x80, 0x10FFFF, &low, &high)

    cdef bint is_taken(self, int stack) noexcept:
        """Say that what follows a text, if anything asks, refuses no text of the set: then its end is always live."""
        cdef const int32_t* frames = self.walk.stacks.frames.at
        cdef const Machine* machines = self.walk.machines.at
        cdef int i
        for i in range(self.walk.stacks.first.at[stack], self.walk.stacks.first.at[stack + 1], 3):
            if frames[i] >= 0 and not frames[i] & 1:
                if machines[frames[i] >> 1].flags & DISPATCH and machines[frames[i] >> 1].kind != NAMED:
                    return False
        return True

    cdef int state_of(self, int spelling, LanguageAt* start, int low, int high, int depth, int stack) except -1:
        """Return the state in which the texts [low, high) of a set are left, which agree on `depth` characters."""
        cdef int language = self.languages.literals(start.texts, start.excluded, low, high, depth)
        return self.automaton.enter(2 * self.positions.body(spelling, language) + 1, stack, 0)

    # -- names where any text can stand --------------------------------------------------------------------------------

    cdef int add_names(self, MaskBuffer* buffer, int cover, int q, int stack, int node) except -1:
        """Add the tokens that complete a text of a finite set where any text can stand, at position `cover`: all others
        are made for that one.

        PERF: in objects with other keys, where most keys are being written; no walk, and as a rule one name or none can
        be completed.
        """
        cdef IndependentMask mask = self.masks.part(cover, node) if node >= 0 else self.masks.whole(cover)
        cdef LanguageAt start = self.languages.at[self.positions.at[q >> 1].language]
        cdef const int32_t* offered = self.languages.excluded[start.excluded]   # for each index the next one that is
        cdef int i
        cdef tuple texts = self.languages.set_objects[start.texts]
        cdef dict groups
        if mask.groups is None:
            self.masks.group(mask, cover, node)
        groups = mask.groups
        work(self.meter, GROUPED * min(len(groups), start.high - start.low))
        if start.high - start.low <= len(groups):
            i = offered[start.low]
            while i < start.high:
                self.leave_name(buffer, groups.get(texts[i][start.depth:]), &start, i, q, stack)
                i = offered[i + 1]
            return 0
        so_far = texts[start.low][:start.depth]
        for end, exits in groups.items():
            text = so_far + end
            i = bisect_left(texts, text, start.low, start.high)
            if i < start.high and offered[i] == i and texts[i] == text:
                self.leave_name(buffer, exits, &start, i, q, stack)
        return 0

    cdef int leave_name(self, MaskBuffer* buffer, list exits, LanguageAt* start, int i, int q, int stack) except -1:
        """Add the tokens that complete the i-th text of a set at some exits, if any, and go on behind it."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int exit_, behind = UNKNOWN, spelling = self.positions.at[q >> 1].spelling
        if exits is None:
            return 0
        for exit_ in exits:
            if nodes[exit_].end == exit_ + 1:   # PERF: as nearly always, and the state behind costs some microseconds
                buffer_node(buffer, nodes, self.trie.ids, exit_)
                continue
            if behind == UNKNOWN:
                behind = self.state_of(spelling, start, i, i + 1, self.languages.length(start.texts, i), stack)
                behind = self.automaton.next_state(behind, self.positions.spellings[spelling].closing)
            self.put_off(buffer, behind, exit_)
        return 0

    cdef int put_off(self, MaskBuffer* buffer, int state, int node) except -1:
        """Have the tokens below a trie node added that lead from a state there to a live one."""
        if state != DEAD:
            ints_add(&buffer.todo.states, state)
            ints_add(&buffer.todo.states, node)
        return 0
