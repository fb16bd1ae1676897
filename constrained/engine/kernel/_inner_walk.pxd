# cython: language_level=3
from libc.stdint cimport int32_t, uint32_t, uint64_t
from constrained.engine.kernel._automaton cimport Automaton
from constrained.engine.kernel._tables cimport Ints, Node


cdef inline void set_tokens(const Node* trie, const int32_t* ids, int node, uint32_t* bits) noexcept nogil:
    """Set the bits of the tokens that end at a trie node."""
    cdef int i
    for i in range(trie[node].first, trie[node + 1].first):
        bits[ids[i] >> 5] |= <uint32_t>1 << (ids[i] & 31)


cdef class Counter:
    cdef readonly long bytes        # that all inner masks of a vocabulary take which are alive


cdef class Inner:
    cdef uint32_t* bits             # (words,) tokens that stay inside or end where they leave; NULL in a part
    cdef uint32_t* inside           # (words,) tokens that stay inside; NULL until asked for
    cdef Ints words                 # pairs (word, its bits) of `bits` where they are few
    cdef Ints tokens                # of a part: the tokens that stay inside
    cdef Ints exits                 # trie nodes at which a token leaves the text
    cdef Ints exit_counts           # characters read at each exit
    # pairs token, characters begun; of tokens that have another number of them, because of escapes
    cdef Ints counted
    cdef int most                   # the largest number of characters that any token begins
    cdef Inner base                 # of a lasting inner mask: that of any text, and which of its exits each exit is
    cdef Ints base_exits
    cdef Ints ways                  # trie nodes on the way to an exit, and the exits; where counts are kept
    cdef dict groups                # text before an exit -> exit nodes
    cdef list twice                 # tokens that may complete a second text
    cdef list twice_keys            # tokens that may complete a second key: a colon and a comma lie between
    cdef Ints token_starts          # behind keys: where each exit of the key has its first token, and its first exit
    cdef Ints exit_starts
    cdef uint64_t* next_bytes       # (exits, 4) set of bytes below each exit
    cdef Counter counter            # what it was added to
    cdef long size                  # bytes that it was counted with

    cdef int weigh(self, Counter counter, int words) except -1


cdef class InnerWalks(Automaton):
    cdef Counter counter            # of all inner masks of the vocabulary
    cdef uint64_t kinds[256]        # the set of each byte's kind
    cdef int32_t leads[16]          # pairs: the code points of each kind of leading byte
    cdef int lead_bytes[8]          # the first of each kind
    cdef int lead_count

    cdef Inner build(self, int q, int node, bint counts)
    cdef bint between(self, int state) noexcept
    cdef uint64_t leaving_state(self, int state) except 0
    cdef uint64_t leaving(self, int position) except 0
    cdef int keep_all(self, Inner made, int node, int at, bint counts, int characters) except -1
    cdef int count(self, Inner made, int i, int begun) except -1
    cdef int keep(self, Inner made, int node, int at, bint leaves, int count, int begun) except -1
    cdef int drop_covered(self, Inner inner) except -1
    cdef int32_t* count_outside(self, Inner inner) except NULL
    cdef bint leaves_below(self, Inner inner, int node, const int32_t* outside) noexcept
    cdef int note_bytes(self, Inner inner) except -1
    cdef int note_words(self, Inner inner) except -1
    cdef void clear_tokens(self, int node, uint32_t* bits) noexcept
