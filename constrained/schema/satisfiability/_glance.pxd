# cython: language_level=3
"""A look at the keywords of a schema for a value; see _glance.pyx."""

cdef class Glance:
    cdef dict words
    cdef object others
    cdef int deepest
    cdef long room

    cdef bint look(self, schema, targets, int depth) except -1
    cdef bint has_room(self, most) except -1
    cdef bint has_keys(self, dict schema, list required, bint is_open, targets, int depth) except -1
