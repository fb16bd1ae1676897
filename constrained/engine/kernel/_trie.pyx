# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A vocabulary as C arrays: the trie of its tokens, their bytes, their numbers of characters.

Owns: nothing but references to the arrays.  Borrows: the arrays of `tokens.vocabulary` and `tokens.trie`, which nobody
writes to.
Invariants: nodes stand in preorder, the subtree of node i is [i, nodes[i].end), its tokens are
ids[nodes[i].first : nodes[nodes[i].end].first]; `ids` has no special token.
Plain twin: `tokens.trie.TokenTrie`.
"""
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cython cimport final
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memchr
from constrained.engine.memory._memory cimport allotted, released
from constrained.engine.kernel._branches cimport child_of, is_wide

cdef enum:
    EXPONENT = -1       # in place of a number of digits: behind an "e"


@final
cdef class Trie:
    """What kernels read of a vocabulary."""

    def __cinit__(self, vocabulary):
        trie = vocabulary.trie
        self.arrays = (trie, vocabulary.spelled, vocabulary.characters, vocabulary.by_characters)
        cdef const uint8_t[::1] bytes_ = vocabulary.spelled[1]
        cdef const int32_t[::1] i = vocabulary.spelled[0]
        cdef const int32_t[:, ::1] records = trie.records
        cdef const uint64_t[::1] below
        self.size, self.words, self.longest = vocabulary.size, vocabulary.words, vocabulary.longest
        self.texts, self.count = vocabulary.tokens, trie.nodes
        self.spelled, self.begins = &bytes_[0], &i[0]
        self.nodes = <const TrieNode*>&records[0, 0]
        i = trie.roots
        self.roots = &i[0]
        if vocabulary.kernels.branches is None:
            vocabulary.kernels.branches = Branches(records)
        self.branches = vocabulary.kernels.branches
        if self.count:
            i = trie.ids
            below = trie.below
            self.ids, self.below = &i[0], &below[0]
            i = vocabulary.characters
            self.characters = &i[0]
            i = vocabulary.by_characters[0]
            self.fewest_first = &i[0]
            i = vocabulary.by_characters[1]
            self.with_at_most = &i[0]

    cdef int find(self, int node, bytes path) noexcept:
        """Return the node that some bytes, one at least, lead to from another or from the root (-1); -1: none."""
        cdef int stop
        cdef unsigned char byte
        for byte in path:
            if node < 0:
                node = self.roots[byte]
            elif is_wide(self.branches, node):
                node = child_of(self.branches, node, byte)
            else:
                stop, node = self.nodes[node].end, node + 1
                while node < stop and self.nodes[node].byte != byte:
                    node = self.nodes[node].end
                if node == stop:
                    return -1
            if node < 0:
                return -1
        return node

    cdef int digits(self) except -2:
        """Return how many digits of a number a token that begins inside of it has at most; -1: one has some behind an
        "e".

        Cost: those tokens, which are some thousand.
        """
        cdef int at = 0, depth, byte, most = 0
        cdef int32_t* read = <int32_t*>allotted(<size_t>self.longest + 2, 4)    # digits so far at each depth
        read[0] = 0
        while at < self.count and most >= 0:
            depth, byte = self.nodes[at].depth, self.nodes[at].byte
            if 0x30 <= byte <= 0x39:
                read[depth] = read[depth - 1] + 1
                most = max(most, read[depth]) if read[depth - 1] != EXPONENT else -1
            elif byte == 0x2E or byte == 0x5F or read[depth - 1] == EXPONENT and (byte == 0x2B or byte == 0x2D):
                read[depth] = read[depth - 1]
            elif byte == 0x45 or byte == 0x65:
                read[depth] = EXPONENT
            else:
                at = self.nodes[at].end
                continue
            at += 1
        released(read)
        return most

    cdef int quotes(self, int token, int first) noexcept:
        """Return how many quotes a token has from a byte on, single or double."""
        cdef int at, found = 0
        for at in range(self.begins[token] + first, self.begins[token + 1]):
            found += self.spelled[at] == 0x22 or self.spelled[at] == 0x27
        return found

    cdef object plain_text(self, int token, int first, int last):
        """Return what a token says between two of its bytes; None where an escape is among them."""
        cdef const uint8_t* spelled = self.spelled + self.begins[token] + first
        if memchr(spelled, 0x5C, last - first) != NULL:
            return None
        return PyUnicode_DecodeUTF8(<const char*>spelled, last - first, NULL)
