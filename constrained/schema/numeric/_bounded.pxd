# cython: language_level=3
"""See `_bounded`."""
from cython cimport final
from constrained.schema.numeric._settled cimport Numbers, SettledStates

cdef enum:
    BELOW = -1          # as in `magnitudes`
    ABOVE = -2


cdef struct Reading:      # as `states.MantissaKey`, of sets that ask for no more
    int phase
    bint started
    bint gap
    long long low
    long long high
    long long point
    long long zeros
    long long fraction
    long long read        # digits from the first one > 0 on


@final
cdef class Bound:
    cdef str digits
    cdef long long point, length
    cdef bint open

    cdef long long compare(self, long long status, int digit)
    cdef int turns(self, long long status, bint* turns) except -1
    cdef bint holds(self, long long status)


@final
cdef class Bounded(Numbers):
    cdef BoundedStates reader
    cdef Reading key

    cdef exponent(self)


@final
cdef class BoundedStates:
    cdef readonly object spelling, numbers
    cdef public object unsigned
    cdef readonly bint negative
    cdef dict states
    cdef SettledStates settled
    cdef Bound low, high
    cdef bint bare, underscores, whole, zero, positive

    cdef get(self, Reading key)
    cdef settled_state(self, Reading key)
    cdef for_digits(self, Bounded state, long long digits)
    cdef tuple outcome(self, Reading key, long long digits, bint strict)
    cdef after(self, Reading key, int digit)
    cdef significant(self, Reading key, int digit)
    cdef int find_turns(self, long long low, long long high, bint* turns) except -1
    cdef scale(self, Reading key)
    cdef bint complete(self, Reading key) except -1
    cdef bint is_live(self, Reading key) except -1
