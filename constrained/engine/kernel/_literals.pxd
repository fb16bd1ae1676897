# cython: language_level=3
from libc.stdint cimport int32_t
from constrained.engine.kernel._languages cimport LanguageAt
from constrained.engine.kernel._walk cimport Walks


cdef class Literals(Walks):
    cdef int32_t* ranges_path       # for each depth the texts that are left, see `walk_literals`

    cdef int add_literals(self, int q, int stack, int node) except -1
    cdef int walk_literals(self, int q, int stack, int at, int stop, int base) except -1
    cdef int add_names(self, int cover, int q, int stack, int node) except -1
    cdef int leave_name(self, list exits, LanguageAt* start, int i, int q, int stack) except -1
    cdef bint leaves_literals(self, LanguageAt* start, bint closes, bint escapes, int low, int high, int depth) noexcept
    cdef int literal_state(self, int spelling, LanguageAt* start, int low, int high, int depth, int stack) except -1
