"""Passes over schemas for other compiled units; explained in _scan.pyx."""


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
