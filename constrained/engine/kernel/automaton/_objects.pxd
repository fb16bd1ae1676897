# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel.automaton._machines cimport Machine, Machines
from constrained.engine.kernel.texts._positions cimport Positions

cdef enum Kind:
    PLAIN, POSITION, ENTRY, BEGIN, NAMED, OTHER

cdef enum Phase:
    FIRST, AFTER, NEXT

cdef enum:
    QUOTINGS = 8

cdef struct Table:
    int names, width, least, most   # width: 32-bit words of a set of names; most: -1 for no bound
    int counts_to                   # numbers of keys above it are all the same
    int texts, quoting, closing, cells
    int blank                       # the empty set, -1: not asked for
    int comma, colon, gap           # machine states, -1: none
    int32_t* required               # with the next three in one block
    int32_t* usable
    int32_t* values                 # machine state of each name's value and then of each cell's, -1: not asked yet
    int32_t* languages              # Text machine of each cell

cdef struct Written:
    int table, words, others, count # words: where its bits start in set_words

cdef struct Ways:               # in which a quoting writes a text
    int count                   # 0: not asked for
    int opening[2]              # the quote of each
    int spelling[2]

@final
cdef class Objects:
    cdef Meter meter                # borrowed, as the next two
    cdef Machines machines
    cdef Positions positions
    cdef long bytes                 # that the sets take; an estimate
    cdef Table* tables
    cdef int table_count, table_room
    cdef list table_objects         # ObjectTable of each table
    cdef dict table_ids
    cdef Ways ways[QUOTINGS]
    cdef Ints set_words
    cdef Written* sets
    cdef int set_count, set_room
    cdef Map set_ids, state_ids, text_machines
    cdef Ints set_next
    cdef list others                # written keys without a name: (those before, the last); others[0] is none
    cdef dict others_ids
    cdef dict others_of             # entry of `others` -> all texts up to it, for a few of them
    cdef Ints calls, offers         # of the position that is being laid out: edges; bits of names that may come

    cdef int find(self, object table) except -2
    cdef int add(self, object table, int comma, int colon, int gap, list cells) except -1
    cdef int learn_ways(self, object quoting) except -1
    cdef int start(self, int table) except -1
    cdef int state(self, int kind, int set_, int extra, int more) except -1
    cdef int expand_position(self, int at, int end) except -1
    cdef int value(self, const Machine* m) noexcept
    cdef object value_object(self, const Machine* m)
    cdef int keep_value(self, const Machine* m, int value) noexcept
    cdef int expand(self, int at, int value, int end) except -1
    cdef int behind_name(self, int after, int label) except -1
    cdef int behind_other(self, int after, object text) except -1
    cdef int lonely_entry(self, int after) except -1
    cdef object shared_name(self, int after)
    cdef int position_behind(self, int after) except -1
    cdef int position_after(self, int set_) except -1
    cdef bint is_special(self, int after, object text) except -1
    cdef tuple names(self, int after)
    cdef object unnamed(self, int after)
    cdef int clear(self) except -1
    cdef void release(self) noexcept
    # internals
    cdef int forget(self) except -1
    cdef int empty_set(self, int table) except -1
    cdef bint is_blank(self, int set_) noexcept
    cdef int counted(self, const Written* w) noexcept
    cdef int settle_set(self, int table, int others, int count) except -1
    cdef int copy_set(self, int set_) except -1
    cdef int with_name(self, int set_, int label) except -1
    cdef int with_other(self, int set_, object text) except -1
    cdef int offer(self, const Written* w, const Table* t, int32_t* offers, int* needed) noexcept
    cdef int literal_text(self, int table, int32_t* offers) except -1
    cdef int call(self, int callee, int after) except -1
