# cython: language_level=3
from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int32_t

cdef extern from "Python.h":
    long PyLong_AsLongAndOverflow(object value, int* overflow) except? -1

cdef int32_t* bitmask_row(object bitmask, int words, object number_of_row) except NULL


cdef inline long exact(object value):
    """Return an int that is no subclass of int, such as bool, and not negative; -1 for all else.  `bitmask.number`
    takes the rest."""
    cdef int overflow = 0
    cdef long found
    if not PyLong_CheckExact(value):
        return -1
    found = PyLong_AsLongAndOverflow(value, &overflow)
    return found if not overflow and found >= 0 else -1
