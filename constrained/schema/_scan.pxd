"""Passes over schemas for other compiled units; explained in _scan.pyx."""
from cython cimport final


@final
cdef class Bound:
    cdef str digits
    cdef long long point, length
    cdef bint open

    cdef long long compare(self, long long status, int digit)
    cdef int turns(self, long long status, bint* turns) except -1
    cdef bint holds(self, long long status)


cdef enum:
    NO_DIGITS = 0            # what a step leads to
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
    int found           # NO_DIGITS, LIVE or ENDS


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
cdef object below(node, part, str keyword)
cdef dict each_below(node, dict schemas, str keyword)
cdef bint are_near(node, list schemas) except -1
cdef list each_of(node, list schemas, str keyword)


cdef class Glance:
    cdef dict words
    cdef object others
    cdef int deepest
    cdef long room

    cdef bint look(self, schema, targets, int depth) except -1
    cdef bint has_room(self, most) except -1
    cdef bint has_keys(self, dict schema, list required, bint is_open, targets, int depth) except -1


cdef class Asker:
    cdef Glance glance
    cdef object decide

    cdef bint live(self, conj) except -1


cdef enum Word:
    # what a keyword says, as a bit
    OTHER = 1       # of which nothing is known here
    TYPE = 2
    PROPERTIES = 4
    REQUIRED = 8
    ADDITIONAL = 16
    ITEMS = 32
    LEAST = 64
    MOST = 128
    UNIQUE = 256
    ENUM = 512
    CONST = 1024
    SHORTEST = 2048
    LONGEST = 4096
    NULLABLE = 8192
    PATTERN = 16384
    FORMAT = 32768
    LOWEST = 65536
    HIGHEST = 131072
    ANY_OF = 262144
    ONE_OF = 524288
    # what plain schemas say
    OF_TYPES = TYPE | NULLABLE
    OF_OBJECTS = OF_TYPES | PROPERTIES | REQUIRED | ADDITIONAL
    OF_ARRAYS = OF_TYPES | ITEMS | LEAST | MOST | UNIQUE
    OF_ANYTHING = PROPERTIES | REQUIRED | ADDITIONAL    # where the types are not given
    OF_LENGTHS = SHORTEST | LONGEST
    OF_BOUNDS = LOWEST | HIGHEST
    LISTED = ENUM | CONST


cdef int types_of(dict schema) except -1
cdef int plain_words(dict schema, dict words) except -1
cdef int kind_of(int said, int types) noexcept
