# cython: language_level=3
from cython cimport final
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.masks._building cimport Counter, IndependentMask


@final
cdef class Grouping:
    cdef Meter meter                # borrowed, as the next two
    cdef Trie trie
    cdef Counter counter

    cdef int group(self, IndependentMask mask, object spelling, int node) except -1
    cdef int find_twice(self, IndependentMask mask, int node) except -1
    # internals
    cdef dict grouped(self, IndependentMask mask, object spelling, int node)
    cdef dict inherited(self, IndependentMask mask, object spelling)
