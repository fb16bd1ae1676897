# cython: language_level=3
"""See `_digit_walk`."""
from cython cimport final
from constrained.schema.numeric._bounded cimport Bound

cdef enum:
    DEAD = 0            # what a step leads to
    LIVE = 1
    ENDS = 2            # a number may end there


cdef struct Place:      # as `_bounded.Reading`
    int phase
    int exponent        # characters from the "e" on
    bint gap
    bint started
    long long low
    long long high
    long long point
    long long zeros
    long long fraction
    long long read
    bint alike          # one digit > 0 behind the place before, where all of them lead to this
    int found           # DEAD, LIVE or ENDS


@final
cdef class DigitWalk:
    cdef Place* path
    cdef Bound low, high            # None: there is none, or it is not compared with
    cdef bint has_low, has_high, whole, bare, underscores, zero, positive
    cdef long long low_point, high_point

    cdef int step(self, int depth, int byte) except -1
    cdef bint takes_digits_only(self, int depth) noexcept
    cdef bint takes_signs_only(self, int depth) noexcept
    cdef bint takes_all_digits(self, int depth)
    cdef bint is_settled(self, int depth)
    # internals
    cdef int moved(self, Place* at, int byte) except -1
    cdef bint take_digit(self, Place* at, int digit) except -1
    cdef int sign(self, Place* at, int byte) except -1
    cdef bint find_interval(self, Place* at, long long* least, long long* most)
    cdef bint fails_high(self, Place* at)
    cdef bint has_settled(self, Place* at)
    cdef int outcome(self, Place* at) except -1
    cdef bint may_be_met(self, Place* at, bint scaled)


cdef DigitWalk digit_walk(object state, int deepest)
