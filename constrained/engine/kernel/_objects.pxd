# cython: language_level=3
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.kernel._machines cimport Machines
from constrained.engine.kernel._tables cimport Ints, Map

cdef enum Kind:
    PLAIN, POSITION, ENTRY, BEGIN, NAMED, OTHER

cdef enum Phase:
    FIRST, AFTER, NEXT

cdef struct Table:
    int names, width, least, most   # width: 32-bit words of a set of names; most: -1 for no bound
    int counts_to                   # numbers of keys above it are all the same
    int texts, surface, closing, cells
    int blank                       # the empty set, -1: not asked for
    int comma, colon, gap           # machine states, -1: none
    int32_t* required               # with the next three in one block
    int32_t* usable
    int32_t* values                 # machine state of each name's value and then of each cell's, -1: not asked yet
    int32_t* languages              # Text machine of each cell

cdef struct Written:
    int table, words, others, count # words: where its bits start in set_words

cdef class Objects(Machines):
    cdef Table* tables
    cdef int table_count, table_room
    cdef list table_objects         # ObjectTable of each table
    cdef dict table_ids
    cdef Ints set_words
    cdef Written* sets
    cdef int set_count, set_room
    cdef Map set_ids, object_ids, text_machines
    cdef Ints set_next
    cdef list others                # written keys without a name: (those before, the last); others[0] is none
    cdef dict others_ids
    cdef dict others_of             # entry of `others` -> all texts up to it, for a few of them

    cdef int table(self, object table) except -1
    cdef int settle_set(self, int table, int others, int count) except -1
    cdef int with_name(self, int set_, int label) except -1
    cdef int with_other(self, int set_, object text) except -1
    cdef int object_state(self, int kind, int set_, int extra, int more) except -1
    cdef int expand_position(self, int at) except -1
    cdef int literal_text(self, int set_, int table, int32_t* offers) except -1
    cdef int value_state(self, int table, int which) except -1
    cdef int add_call(self, int callee, int after) except -1
    cdef int lonely_entry(self, int after) except -1
    cdef object shared_name(self, int after)
    cdef int position_behind(self, int after) except -1
    cdef int entry(self, int set_, int which) except -1
    cdef object written_others(self, int set_)
