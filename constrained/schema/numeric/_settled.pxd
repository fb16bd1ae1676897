# cython: language_level=3
"""See `_settled`."""
from cython cimport final

cdef enum:
    ZERO = 0                  # where a mantissa ends, as in `exponents`
    WHOLE = 1
    POINT = 2
    FRACTION = 3
    MOST_STATES = 20000       # in one table


cdef class Numbers:
    cdef public object _edges
    cdef readonly bint accepts
    cdef made(self)


@final
cdef class Settled(Numbers):
    cdef SettledStates table
    cdef int phase
    cdef bint whole, gap
    cdef long long zeros, fraction
    cdef object key_least, key_most, least, most


@final
cdef class SettledStates:
    cdef readonly object spelling
    cdef dict states
    cdef object start_of
    cdef bint bare_point, underscores
    cdef get(self, int phase, least, most, bint whole, long long zeros, long long fraction, bint gap)
    cdef named(self, tuple key)
    cpdef exponent(self, least, most)


cdef int add(list edges, int low, int high, target) except -1
cdef tuple within(int phase, least, most, bint whole, long long zeros, long long fraction, bint gap, long long digits)
