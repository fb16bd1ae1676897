# cython: language_level=3
from cython cimport final
from libc.stdint cimport uint64_t
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.masks._building cimport Builder, IndependentMask
from constrained.schema.numeric._digit_walk cimport DigitWalk


@final
cdef class NumberMasks:
    cdef object store               # of the vocabulary, shared by its kernels: `mask_store.MaskStore`
    cdef Builder builder            # borrowed, as the next one
    cdef Trie trie
    cdef uint64_t digits, signs     # classes of bytes

    cdef object key(self, object language)
    cdef IndependentMask built(self, object language)
    # internals
    cdef int most_digits(self) except -2
    cdef int walk(self, IndependentMask made, DigitWalk walk) except -1
    cdef int walk_below(self, IndependentMask made, DigitWalk walk, int at, int* first, int* last) except -1
    cdef bint goes_on(self, DigitWalk walk, int at) noexcept
    cdef int skip_alike(self, DigitWalk walk, int at, int stop)
