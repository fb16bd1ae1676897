# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows of bitmasks, and numbers, as callers hand them over; `tokens.bitmask` makes the same tests."""
from libc.stdint cimport int32_t
cimport numpy

from constrained.engine.tokens.bitmask import misfit, number

numpy.import_array()


cdef int32_t* bitmask_row(object bitmask, int words, object number_of_row) except NULL:
    """Return where a row of a bitmask, an int32 array (rows, words), begins; `bitmask.fits` makes the same test.

    PERF: the buffer protocol would cost 0.3 µs, half of filling in a mask that is known.
    """
    cdef numpy.ndarray array
    cdef long row = exact(number_of_row)
    if row < 0:
        row = exact(number(number_of_row))
    if isinstance(bitmask, numpy.ndarray):
        array = bitmask
        if (array.ndim == 2 and array.descr.kind in (105, 117) and numpy.PyArray_ITEMSIZE(array) == 4
            and numpy.PyArray_ISNOTSWAPPED(array)
            and numpy.PyArray_ISWRITEABLE(array) and array.shape[1] == words and array.strides[1] == 4
                and 0 <= row < array.shape[0]):
            return <int32_t*>(<char*>array.data + row * array.strides[0])
    raise misfit(bitmask, number_of_row, words)
