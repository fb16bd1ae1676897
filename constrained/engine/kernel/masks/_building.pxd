# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint64_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton, Row
from constrained.engine.kernel.masks._staying cimport Staying
from constrained.engine.kernel.texts._positions cimport Positions


cdef class Counter:
    cdef readonly long bytes        # that all context-independent masks of a vocabulary take which are alive


@final
cdef class IndependentMask:
    # (words,) tokens that stay inside or end where they leave; NULL in a part, and where `words` are few
    cdef uint32_t* bits
    cdef uint32_t* inside           # (words,) tokens that stay inside; NULL until asked for
    cdef Ints words                 # pairs (word, its bits) of `bits` where they are few
    cdef Ints tokens                # of a part: the tokens that stay inside
    cdef Ints exits                 # trie nodes at which a token leaves the text
    cdef Ints exit_counts           # characters read at each exit, where they are counted
    # pairs token, characters begun; of tokens that have another number of them, because of escapes
    cdef Ints counted
    # pairs token, characters begun, of all tokens that begin more than `all_long`; those of the most first
    cdef Ints longest_first
    cdef int all_long
    cdef int most                   # the largest number of characters that any token begins
    # of a prefix-universal language the mask of any text, of a counted one that of any number; and which of its exits
    # each exit is
    cdef IndependentMask base
    cdef Ints base_exits
    cdef Ints ways                  # trie nodes on the way to an exit, and the exits; where counts are kept
    cdef dict groups                # text before an exit -> exit nodes
    cdef list twice                 # tokens that may complete a second text
    cdef list twice_keys            # tokens that may complete a second key: a colon and a comma lie between
    cdef Ints token_starts          # behind keys: where each exit of the key has its first token, and its first exit
    cdef Ints exit_starts
    cdef uint64_t* next_bytes       # (exits, 4) set of bytes below each exit; NULL: as of its base, as `base_exits`
    # quadruples (byte, index of the exit, trie node, where the next byte begins) of the nodes just below exits, by
    # byte; empty until asked for
    cdef Ints children
    cdef Counter counter            # what it was added to
    cdef long size                  # bytes that it was counted with

    cdef int weigh(self, Counter counter, int words) except -1


cdef inline object stored(dict entries, object key):
    """Return the mask that a `mask_store.MaskStore` has under a key, now the last to go; None where there is none."""
    entry = entries.pop(key, None)
    if entry is None:
        return None
    entries[key] = entry
    return (<tuple>entry)[0]


cdef struct Walked:                 # by a walk so far; see `Builder.walk_below`
    int home, first, last, visited
    uint64_t leaving


@final
cdef class Builder:
    cdef Meter meter                # borrowed, as the next four
    cdef Trie trie
    cdef Automaton automaton
    cdef Positions positions
    cdef Counter counter            # of all context-independent masks of the vocabulary
    cdef Staying staying

    cdef Ints runs                  # pairs: the tokens [first, last) of the trie that a walk keeps
    cdef uint32_t* aside            # (words,) a mask in the making, zeros between

    cdef IndependentMask build(self, int q, int node, bint counts)
    cdef int note_words(self, IndependentMask mask) except -1
    cdef int note_bytes(self, IndependentMask mask) except -1
    # internals
    cdef int walk(self, IndependentMask made, int node, bint bare, int32_t* path) except -1
    cdef int walk_below(self, IndependentMask made, int node, bint bare, int32_t* path, Walked* walked,
                        int at, int stop) except -1
    cdef int keep_end(self, IndependentMask made, int node, int at, int first, int last) except -1
    cdef int next_other(self, const Row* row, int at, int stop, int depth, int after) noexcept
    cdef int next_live(self, const Row* row, int at, int stop, int depth) noexcept
    cdef int walk_counting(self, IndependentMask made, int32_t* path, int32_t* extra, int32_t* trail) except -1
    cdef int keep_run(self, int first, int last) except -1
    cdef int gather(self, IndependentMask made, int node, bint bare) except -1
    cdef int gather_few(self, IndependentMask made, bint bare) except -1
    cdef int list_token(self, IndependentMask made, int token) except -1
    cdef int take_words(self, IndependentMask made) noexcept
    cdef int keep_exit(self, IndependentMask made, const int32_t* trail, int depth, int extra) except -1
    cdef int count_all(self, IndependentMask made, int first, int last, int more) except -1
