# cython: language_level=3
"""What asks whether conjunctions have values; see _asker.pyx."""
from constrained.schema.satisfiability._glance cimport Glance

cdef class Asker:
    cdef Glance glance
    cdef object decide

    cdef bint live(self, conj) except -1
