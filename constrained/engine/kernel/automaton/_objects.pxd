# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel.automaton._machines cimport Machine, Machines
from constrained.engine.kernel.automaton._written_keys cimport WrittenKeys
from constrained.engine.kernel.texts._positions cimport Positions

cdef enum Kind:
    PLAIN, POSITION, ENTRY, BEGIN, NAMED, OTHER

cdef enum Phase:
    FIRST, AFTER, NEXT

cdef enum:
    QUOTINGS = 8

cdef struct Ways:               # in which a quoting writes a text
    int count                   # 0: not asked for
    int opening[2]              # the quote of each
    int spelling[2]

@final
cdef class Objects:
    cdef Meter meter                # borrowed, as the next two
    cdef Machines machines
    cdef Positions positions
    cdef WrittenKeys keys           # owned
    cdef Ways ways[QUOTINGS]
    cdef Map state_ids, text_machines
    cdef Ints calls, offers         # of the position that is being laid out: edges; bits of names that may come

    cdef int add(self, object table, int comma, int colon, int gap, list cells) except -1
    cdef int learn_ways(self, object quoting) except -1
    cdef int start(self, int table) except -1
    cdef int place(self, int table, object described) except -1
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
    cdef int literal_text(self, int table, int32_t* offers) except -1
    cdef int call(self, int callee, int after) except -1
