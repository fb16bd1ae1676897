# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Context-independent masks of bare numbers: what the few digits of a token may do to one.

Vocabularies cut numbers into tokens of one digit or three.  So most states of numbers do what another does that stands
for all of them (`for_digits`), and have its mask; what tokens do there is found by arithmetic (`_digit_walk`), without
states.

Borrows: the vocabulary's store, the `Builder`, the trie.
Invariant: no token goes on with digits behind an "e", or there are neither keys nor masks here.
Plain twin: `Builder.build` and `Language.mask_key`; compared in tests/test_number_masks.py.
Source: ours.
"""
from cython cimport final
from libc.stdint cimport uint64_t
from constrained.engine.memory._meter cimport work
from constrained.engine.kernel._tables cimport ints_add
from constrained.engine.kernel._trie cimport TrieNode, Trie
from constrained.engine.kernel.masks._building cimport Builder, IndependentMask
from constrained.schema.numeric._digit_walk cimport DEAD, ENDS, DigitWalk, digit_walk


@final
cdef class NumberMasks:
    """Finds keys of bare numbers, and builds their masks."""

    def __cinit__(self, Builder builder, store):
        cdef int byte
        self.builder, self.trie, self.store = builder, builder.trie, store
        for byte in range(0x30, 0x3A):
            self.digits |= builder.staying.classes[byte]
        self.signs = builder.staying.classes[0x2B] | builder.staying.classes[0x2D]

    cdef int most_digits(self) except -2:
        if self.store.digits is None:
            self.store.digits = self.trie.digits()
        return self.store.digits

    cdef object key(self, object language):
        """Return a language that agrees on all tokens; None where there is no other way to say so than `mask_key`."""
        for_digits = getattr(language, "for_digits", None)
        cdef int digits = -1 if for_digits is None else self.most_digits()
        return None if digits < 0 else for_digits(digits)

    cdef IndependentMask built(self, object language):
        """Return the mask of a language that is a key, as `Builder.build` makes it; None: it must be built there."""
        cdef DigitWalk walk = digit_walk(language, self.trie.longest)
        cdef Builder builder = self.builder
        cdef IndependentMask made
        cdef int visited
        if walk is None:
            return None
        made, builder.runs.size = IndependentMask(), 0
        visited = self.walk(made, walk)
        work(builder.meter, visited + 8 * made.exits.size + self.trie.words)
        builder.gather(made, -1, True)
        builder.note_bytes(made)
        made.weigh(builder.counter, self.trie.words)
        return made

    cdef int walk(self, IndependentMask made, DigitWalk walk) except -1:
        """As `Builder.walk` of a whole bare text."""
        cdef int byte, visited = 0, first = 0, last = 0
        for byte in range(0x2E, 0x66):
            if self.trie.roots[byte] >= 0 and (byte < 0x3A or byte == 0x45 or byte == 0x5F or byte == 0x65):
                visited += self.walk_below(made, walk, self.trie.roots[byte], &first, &last)
        self.builder.keep_run(first, last)
        return visited

    cdef int walk_below(self, IndependentMask made, DigitWalk walk, int at, int* first, int* last) except -1:
        """As `Builder.walk_below`, of a node and those below it; return how many were visited."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int stop = nodes[at].end, depth, found, visited = 0
        while at < stop:
            visited += 1
            depth = nodes[at].depth
            found = walk.step(depth, nodes[at].byte)
            if found == DEAD or nodes[at].first != last[0]:
                self.builder.keep_run(first[0], last[0])
                first[0] = last[0] = nodes[at].first
            if found == DEAD:
                at = nodes[at].end
                continue
            if nodes[at].end == at + 1:
                at = self.skip_alike(walk, at, stop)
                last[0], at = nodes[at + 1].first, at + 1
                continue
            if found == ENDS:
                ints_add(&made.exits, at)
            if not self.trie.below[at] & ~self.digits and walk.takes_all_digits(depth):
                at = nodes[at].end      # every token below stays inside, whether texts end on its way or not
                last[0] = nodes[at].first
                continue
            last[0] = nodes[at + 1].first
            at = at + 1 if self.goes_on(walk, at) else nodes[at].end
        return visited

    cdef bint goes_on(self, DigitWalk walk, int at) noexcept:
        """Say whether some byte below a node may follow there."""
        cdef uint64_t below = self.trie.below[at]
        if walk.takes_signs_only(self.trie.nodes[at].depth):
            return below & self.signs != 0
        return not walk.takes_digits_only(self.trie.nodes[at].depth) or below & self.digits != 0

    cdef int skip_alike(self, DigitWalk walk, int at, int stop):
        """Return the last of the nodes from one on that are digits > 0 of the same place, with nothing below."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int depth = nodes[at].depth
        if not 0x31 <= nodes[at].byte <= 0x38 or not walk.is_settled(depth - 1):
            return at
        while (at + 1 < stop and nodes[at + 1].depth == depth and nodes[at + 1].end == at + 2
               and nodes[at + 1].byte <= 0x39):
            at += 1
        return at
