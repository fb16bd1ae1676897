# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint8_t, uint64_t
from constrained.engine.kernel.texts._languages cimport Languages
from constrained.engine.kernel._tables cimport Map
from constrained.engine.kernel.texts._ranges cimport RangeSets

cdef enum:
    MOST_SPELLINGS = 16

# places inside a text; see _positions.pyx
cdef enum Place:
    BODY, UTF8, UTF8_ANY, ESCAPE, HEX, HEX_ANY, PAIR, PAIR_U, HEX_LOW, PAIR_ANY, PAIR_U_ANY, HEX_LOW_ANY, OCTAL, DONE

cdef struct Position:
    int32_t language
    int32_t value
    int32_t high
    uint8_t spelling
    uint8_t place
    uint8_t left
    uint8_t form

cdef struct HexForm:
    int letter, digits, table, needed, upper, pairs

cdef struct Spelling:
    # escaped: what a code point is larger by in the language if it is escaped and could stand as it is
    int closing, raw, escapes, octal, continuation, escaped
    int shorts, hexes
    uint8_t short_byte[16]
    int32_t short_point[16]
    HexForm hex_form[3]

cdef inline int hex_value(int byte, bint upper) noexcept:
    if 48 <= byte <= 57:
        return byte - 48
    if 97 <= byte <= 102:
        return byte - 87
    if upper and 65 <= byte <= 70:
        return byte - 55
    return -1


cdef inline int combine(int high, int low) noexcept:
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)

@final
cdef class Positions:
    cdef Languages languages    # borrowed
    cdef Spelling* spellings
    cdef int spelling_count
    cdef dict spelling_ids
    cdef list spelling_objects
    cdef list range_tables
    cdef RangeSets tables
    cdef Position* at
    cdef int count, room
    cdef Map ids

    cdef int spelling(self, object spelling) except -1
    cdef int body(self, int spelling, int language) except -1
    cdef int step(self, int position, int byte) except -2
    cdef bint accepting(self, int position) except -1
    cdef bint reads(self, int position) except -1
    cdef int label(self, int position) noexcept
    cdef int mark(self, int position, int32_t* row) except -1
    cdef int clear(self) except -1
    cdef void release(self) noexcept
    # internals
    cdef int probe(self, int language, int low, int high, int table, int more) except -3
    cdef int table(self, tuple ranges) except -1
    cdef int letter(self, int spelling, int point) noexcept
    cdef int intern(self, int spelling, int place, int language, int left, int value, int form, int high) except -1
    cdef int after(self, int spelling, int language, int point, bint raw) except -2
    cdef int step_body(self, Position p, int byte) except -2
    cdef int step_escape(self, Position p, int byte) except -2
    cdef int utf8(self, Position p, int left, int value) except -2
    cdef int escape(self, Position p) except -2
    cdef bint escapes(self, Position p) except -1
    cdef int hexes(self, Position p, int form, int left, int value) except -2
    cdef int surrogate(self, Position p, int high) except -2
    cdef int low_half(self, Position p, int left, int value) except -2
    cdef int octal(self, Position p, int left, int value) except -2
    cdef void mark_literals(self, int language, int32_t* row) noexcept
