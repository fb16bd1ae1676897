# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map

cdef struct Table:
    int names, width, least, most   # width: 32-bit words of a set of names; most: -1 for no bound
    int counts_to                   # numbers of keys above it are all the same
    int texts, quoting, closing, cells
    int blank                       # the empty set, -1: not asked for
    int comma, colon, gap           # machine states, -1: none
    int choices                     # sets of names of which one must be written
    int32_t* required               # with the next six in one block
    int32_t* usable
    int32_t* values                 # machine state of each name's value and then of each cell's, -1: not asked yet
    int32_t* languages              # Text machine of each cell
    int32_t* order                  # labels of the names as they have to come, NULL: in any order
    int32_t* ranks                  # place of each label in `order`
    int32_t* chosen                 # the bits of each choice

cdef struct Written:
    int table, words, others, count # words: where its bits start in set_words
    int rank                        # in order: of the first name that may still come; all before it are written

@final
cdef class WrittenKeys:
    cdef Meter meter                # borrowed
    cdef long bytes                 # that the sets take; an estimate
    cdef Table* tables
    cdef int table_count, table_room
    cdef list table_objects         # ObjectTable of each table
    cdef dict table_ids
    cdef Ints set_words
    cdef Written* sets
    cdef int set_count, set_room
    cdef Map set_ids
    cdef Ints set_next
    cdef list others                # written keys without a name: (those before, the last); others[0] is none
    cdef dict others_ids
    cdef dict others_of             # entry of `others` -> all texts up to it, for a few of them

    cdef int find(self, object table) except -2
    cdef int add(self, object table, int texts, int comma, int colon, int gap, list cells) except -1
    cdef int empty_set(self, int table) except -1
    cdef int with_name(self, int set_, int label) except -1
    cdef int with_other(self, int set_, object text) except -1
    cdef int set_of(self, int table, object written, object texts, int count, int rank) except -1
    cdef object unnamed(self, int set_)
    cdef int missing(self, const Written* w, const Table* t) noexcept
    cdef int offer(self, const Written* w, const Table* t, int32_t* offers, int* needed) noexcept
    cdef int clear(self) except -1
    cdef void release(self) noexcept
    # internals
    cdef int forget(self) except -1
    cdef int lay_out(self, Table* t, object table, list cells) except -1
    cdef bint is_blank(self, int set_) noexcept
    cdef int counted(self, const Written* w) noexcept
    cdef int settle_set(self, int table, int others, int count, int rank) except -1
    cdef int copy_set(self, int set_) except -1
    cdef int one_more(self, int others, object text) except -1
    cdef int pass_names(self, int first, const Written* w, int rank) noexcept
    cdef int offer_in_order(self, const Written* w, const Table* t, int32_t* offers) noexcept
