# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Masks of finite sets of texts (the names of an object, an enum): the trie of tokens against the sorted texts.

PERF: a trie node costs two binary searches instead of a language, a position, a state and a row.  Only where a text
ends, or a character is not written as itself in ASCII, is there a state, and steps from it.
"""
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free
from constrained.engine.memory._memory cimport allotted
from libc.string cimport memcmp, memset
from constrained.engine.kernel._inner_walk cimport Inner
from constrained.engine.kernel._languages cimport LanguageAt
from constrained.engine.memory._meter cimport work
from constrained.engine.kernel._packed cimport draft_node
from constrained.engine.kernel._tables cimport ints_add
from constrained.engine.kernel._text cimport Position
from constrained.engine.kernel._walk cimport Walks

from bisect import bisect_left


cdef enum:
    SEARCHED = 8        # ticks of a trie node that is looked for among texts
    GROUPED = 32        # and of a group of exits


cdef class Literals(Walks):
    """Adds finite sets of texts to a draft; the base of `Masks`, split off for the reader's sake only."""

    def __cinit__(self, vocabulary, *args, **options):
        self.ranges_path = <int32_t*>allotted(2 * (<size_t>vocabulary.longest + 2), 4)

    def __dealloc__(self):
        free(self.ranges_path)

    cdef int add_literals(self, int q, int stack, int node) except -1:
        """Add the mask of a text of a finite set, whole or below a trie node."""
        cdef int i, at, byte, block, count = 0
        cdef uint8_t possible[256]
        if node >= 0:
            return self.walk_literals(q, stack, node + 1, self.trie[node].end, self.trie[node].depth)
        self.texts.mark(q >> 1, self.marks)
        for block in range(16):     # all at once: a walk marks rows of its own
            if not memcmp(self.marks + 16 * block, self.dead_block, 64):
                continue
            for byte in range(16 * block, 16 * block + 16):
                if self.marks[byte] and self.roots[byte] >= 0:
                    possible[count] = byte
                    count += 1
            memset(self.marks + 16 * block, 0, 64)
        for i in range(count):
            at = self.roots[possible[i]]
            self.walk_literals(q, stack, at, self.trie[at].end, 0)
        return 0

    cdef int walk_literals(self, int q, int stack, int at, int stop, int base) except -1:
        """Add the tokens of trie nodes [at, stop); `base` = depth of what lies above them."""
        cdef Position p = self.texts.positions[q >> 1]
        cdef LanguageAt start = self.texts.languages[p.language]
        cdef int closing = self.texts.spellings[p.spelling].closing, raw = self.texts.spellings[p.spelling].raw
        cdef int depth, byte, low, high, behind, visited = 0
        cdef int32_t* lows = self.ranges_path
        cdef int32_t* highs = self.ranges_path + self.longest + 2
        lows[0], highs[0] = start.low, start.high
        while at < stop:
            visited += SEARCHED
            depth, byte = self.trie[at].depth - base, self.trie[at].byte
            low, high = lows[depth - 1], highs[depth - 1]
            if byte == closing or byte == 0x5C or byte >= 0x80:
                if self.leaves_literals(&start, byte == closing, byte == 0x5C, low, high, start.depth + depth - 1):
                    behind = self.literal_state(p.spelling, &start, low, high, start.depth + depth - 1, stack)
                    self.walk(behind, at, self.trie[at].end, base + depth - 1)
                at = self.trie[at].end
                continue
            if (self.texts.in_table(raw, byte)
                    and self.texts.narrow(&start, start.depth + depth - 1, byte, byte, &low, &high)):
                draft_node(&self.draft, self.trie, self.ids, at)
                lows[depth], highs[depth] = low, high
                at += 1
            else:
                at = self.trie[at].end
        self.meter.ticks += visited
        return 0

    cdef int add_names(self, int cover, int q, int stack, int node) except -1:
        """Add the tokens that complete a text of a finite set where any text can stand: all others are drafted for that
        one.

        PERF: in objects with other keys, where most keys are being written; no walk, and as a rule one name or none can
        be completed.
        """
        cdef Inner inner = self.part(cover, node) if node >= 0 else self.inner(cover)
        cdef LanguageAt start = self.texts.languages[self.texts.positions[q >> 1].language]
        cdef const int32_t* offered = self.texts.excluded[start.excluded]   # for each index the next one that is
        cdef int i
        cdef tuple texts = self.texts.set_objects[start.texts]
        cdef dict groups
        if inner.groups is None:
            self.group(inner, cover, node)
        groups = inner.groups
        work(self.meter, GROUPED * min(len(groups), start.high - start.low))
        if start.high - start.low <= len(groups):
            i = offered[start.low]
            while i < start.high:
                self.leave_name(groups.get(texts[i][start.depth:]), &start, i, q, stack)
                i = offered[i + 1]
            return 0
        so_far = texts[start.low][:start.depth]
        for end, exits in groups.items():
            text = so_far + end
            i = bisect_left(texts, text, start.low, start.high)
            if i < start.high and offered[i] == i and texts[i] == text:
                self.leave_name(exits, &start, i, q, stack)
        return 0

    cdef int leave_name(self, list exits, LanguageAt* start, int i, int q, int stack) except -1:
        """Add the tokens that complete the i-th text of a set at some exits, if any, and go on behind it."""
        cdef int exit_, behind, spelling = self.texts.positions[q >> 1].spelling
        if exits is None:
            return 0
        behind = self.literal_state(spelling, start, i, i + 1, self.texts.length(start.texts, i), stack)
        behind = self.next_state(behind, self.texts.spellings[spelling].closing)
        for exit_ in exits:
            draft_node(&self.draft, self.trie, self.ids, exit_)
            self.walk(behind, exit_ + 1, self.trie[exit_].end, self.trie[exit_].depth)
        return 0

    cdef bint leaves_literals(self, LanguageAt* start, bint closes, bint escapes, int low, int high,
                              int depth) noexcept:
        """Say whether the texts [low, high) may go on with their end, an escape, or else a character beyond ASCII."""
        if closes:
            return self.texts.ends(start, depth, low)
        return escapes or self.texts.narrow(start, depth, 0x80, 0x10FFFF, &low, &high)

    cdef int literal_state(self, int spelling, LanguageAt* start, int low, int high, int depth, int stack) except -1:
        """Return the state in which the texts [low, high) of a set are left, which agree on `depth` characters."""
        cdef int language = self.texts.literal_language(start.texts, start.excluded, low, high, depth)
        ints_add(&self.work, 2 * self.texts.body(spelling, language) + 1)
        ints_add(&self.work, stack)
        return self.close(0)
