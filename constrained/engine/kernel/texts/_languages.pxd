# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint8_t, uint64_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map

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
    # byte classes that do not lead back to that position, see `masks._building`; 0: not asked yet
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
    cdef int fresh(self) except -1
    cdef int excluded_of(self, tuple texts, object excluded) except -1
    cdef int offered(self, int count, const uint8_t* bit) except -1
