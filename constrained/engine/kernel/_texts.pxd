"""Texts for the units above them; explained in _texts.pyx."""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t, uint8_t
from constrained.engine.memory._memory cimport first_not_below, Ints, Map, Meter


cdef struct RangeSets:
    Ints first      # of the ranges of each set, and at the end their number; empty: there are no sets
    Ints low
    Ints high


cdef inline int not_below(const RangeSets* sets, int number, int point) noexcept nogil:
    """Return the first range of a set that does not end before a code point, or the end of the set."""
    return first_not_below(&sets.high, sets.first.at[number], sets.first.at[number + 1], point)


cdef inline bint holds(const RangeSets* sets, int number, int point) noexcept nogil:
    """Say whether a code point is in a set."""
    cdef int at = not_below(sets, number, point)
    return at < sets.first.at[number + 1] and sets.low.at[at] <= point


cdef enum:
    NONE = -1
    MIXED = -2


cdef struct LiteralTexts:
    int count
    int32_t* offset     # (count + 1,)
    int32_t* points     # code points of all texts, one after another


cdef struct LanguageAt:
    int32_t first, last         # ranges of its edges, or -1: not asked yet
    int32_t targets             # where its ways lead; of C{m,n} the number of C{m-1,n-1}
    int32_t texts, excluded, low, high, depth   # literal set; texts = -1 otherwise
    int32_t of                  # C of a counted language C{low,high}, high = -1: without end; -1: it is none
    int32_t spelling, body      # the first spelling it was met in, and the position at its start there; -1: none yet
    # byte classes that do not lead back to that position, see `Builder`; 0: not asked yet
    uint64_t leaving
    uint8_t accepts, goes_on    # goes_on: known to have edges, before they are asked for
    uint8_t labelled            # a guarded set of texts: `low` is the label of the text that ends here


@final
cdef class Languages:
    cdef Meter meter            # borrowed from the kernel
    # that languages and their edges hold, the Python objects behind them included; estimated
    cdef long bytes
    cdef LanguageAt* at
    cdef int count, room, most  # most: languages that there may be
    cdef list objects           # Language of each language id; None for literal sets and counted ones reached by a step
    cdef dict ids
    cdef Ints edge_low, edge_high, edge_way     # ranges of code points, and the way that each is
    cdef Ints targets           # language of each way, or NONE
    cdef dict outlines          # id(ranges) -> where they begin and end, and the ranges themselves
    cdef Map literal_ids
    # the same for what does not fit its keys: texts of a million characters, millions of texts
    cdef dict wide_ids
    cdef LiteralTexts* sets
    cdef int set_count, set_room
    cdef dict set_ids           # id(tuple) -> (tuple, set)
    cdef list set_objects       # the tuple of each set
    cdef int32_t** excluded     # next index that is not excluded, (count + 1,)
    cdef int excluded_count, excluded_room
    cdef dict excluded_ids
    cdef Map offered_ids        # the same for sets of at most 64 texts, by bits

    cdef int number(self, object language) except -1
    cdef int texts_of(self, tuple texts) except -1
    cdef int literals_of(self, int texts, int32_t* offers) except -1
    cdef int repeated(self, int of, int least, int most) except -1
    cdef int count_down(self, int language) except -1
    cdef object counted(self, int language)
    cdef object object_of(self, int language)
    cdef int expand(self, int language) except -1
    cdef tuple shared(self, tuple ranges)
    cdef int add_ranges(self, tuple ranges, bint own) except -1
    cdef int literals(self, int texts, int excluded, int low, int high, int depth) except -1
    cdef int length(self, int texts, int index) noexcept
    cdef bint ends(self, LanguageAt* start, int depth, int low) noexcept
    cdef bint narrow(self, LanguageAt* start, int depth, int least, int most, int* low, int* high) noexcept
    cdef int literals_after(self, int language, int low, int high) except -3
    cdef int target(self, int language, int edge) noexcept
    cdef int after(self, int language, int low, int high) except -3
    cdef int clear(self) except -1
    cdef void release(self) noexcept
    cdef int fresh(self, int size) except -1
    cdef int excluded_of(self, tuple texts, object excluded) except -1
    cdef int offered(self, int count, const uint8_t* bit) except -1


# places inside a text; see `Positions`
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
