# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint32_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Map
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.masks._building cimport Builder, IndependentMask
from constrained.engine.kernel.masks._counted cimport CountedMasks
from constrained.engine.kernel.masks._grouping cimport Grouping
from constrained.engine.kernel.masks._number_masks cimport NumberMasks
from constrained.engine.kernel.texts._languages cimport Languages
from constrained.engine.kernel.texts._positions cimport Positions


cdef enum:
    MOST_LISTED = 512       # exits of a mask up to which the nodes below them are listed by their bytes


@final
cdef class IndependentMasks:
    cdef object store               # of the vocabulary, shared by its kernels: `mask_store.MaskStore`
    cdef dict entries               # the store's
    cdef Builder builder            # borrowed, as the next five
    cdef Meter meter
    cdef Trie trie
    cdef Automaton automaton
    cdef Positions positions
    cdef Languages languages
    cdef CountedMasks counted       # owned, as the next two
    cdef Grouping grouping
    cdef NumberMasks numbers
    cdef list parts                 # the mask of each (text position, trie node); -1: the whole one
    cdef Map part_ids
    cdef list behind_keys           # (the mask of a key, the mask behind it) of each (that mask's address, entry)
    cdef Map behind_ids

    cdef IndependentMask whole(self, int q)
    cdef IndependentMask part(self, int q, int node)
    cdef IndependentMask behind_key(self, IndependentMask key, int entry, object name)
    cdef uint32_t* inside(self, IndependentMask mask) except NULL
    cdef int group(self, IndependentMask mask, int q, int node) except -1
    cdef int list_children(self, IndependentMask mask) except -1
    cdef int clear(self) except -1
    # internals
    cdef IndependentMask empty(self)
    cdef IndependentMask kept(self, tuple key, IndependentMask mask)
    cdef object language(self, int q)
    cdef object spelling(self, int q)
    cdef int filled(self, int q) except -1
    cdef IndependentMask make_whole(self, int q)
    cdef bint bare(self, int q) noexcept
    cdef int walked(self, int q, object language, object key) except -1
    cdef IndependentMask universal(self, int q, object spelling)
    cdef int find_exits(self, IndependentMask made, int q, int32_t* path) except -1
    cdef int list_words(self, IndependentMask made) except -1
    cdef IndependentMask keep_behind(self, tuple pair, int entry)
    cdef int walk_behind(self, IndependentMask made, int exit_, int32_t* path) except -1
    cdef int inherit_children(self, IndependentMask mask) except -1
