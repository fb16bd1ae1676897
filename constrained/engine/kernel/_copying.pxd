# cython: language_level=3
from libc.stdint cimport int32_t
from constrained.engine.kernel.masks._mask_buffer cimport Mask


cdef struct Row:
    const Mask* mask            # NULL: nothing is allowed
    int32_t* words

cdef int call_helper(int count, int words) except -1
cdef int copy_rows(Row* rows, int count, int words) except -1
