# cython: language_level=3
from cython cimport final
from libc.stdint cimport uint32_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.masks._building cimport Builder, IndependentMask
from constrained.engine.kernel.texts._languages cimport Languages
from constrained.engine.kernel.texts._positions cimport Positions


@final
cdef class CountedMasks:
    cdef object store               # of the vocabulary, shared by its kernels: `mask_store.MaskStore`
    cdef dict entries               # the store's
    cdef Builder builder            # borrowed, as the next four
    cdef Meter meter
    cdef Trie trie
    cdef Positions positions
    cdef Languages languages

    cdef IndependentMask mask(self, object spelling, object counted)
    # internals
    cdef IndependentMask base(self, object spelling, object characters)
    cdef IndependentMask kept(self, tuple key, IndependentMask mask)
    cdef IndependentMask limited(self, IndependentMask base, int least, int most)
    cdef int keep_short(self, IndependentMask level, IndependentMask base, int most) except -1
    cdef int keep_exits(self, IndependentMask level, IndependentMask base, int least, int most) except -1
    cdef IndependentMask within(self, int most)
    cdef IndependentMask make_within(self, int most)
    cdef IndependentMask copied(self, IndependentMask mask)
    cdef int list_long(self, IndependentMask base) except -1
    cdef int note_long(self, IndependentMask base, int token, int count, uint32_t* met, Ints* found) except -1
    cdef int sort_long(self, IndependentMask base, const Ints* found) except -1
