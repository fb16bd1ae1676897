# cython: language_level=3
from cython cimport final
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints
from constrained.engine.kernel.automaton._machines cimport Machine, Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.texts._positions cimport Positions


@final
cdef class Expansion:
    cdef Meter meter                # borrowed, as the next four
    cdef Machines machines
    cdef Objects objects
    cdef Positions positions
    cdef object specials            # name of a special token -> id
    cdef dict ids                   # machine state -> its number
    cdef Ints ranges, calls, tokens # of the state that is being expanded

    cdef int number(self, object state) except -1
    cdef int expand(self, int at) except -1
    cdef int value(self, const Machine* m) except -1
    cdef int clear(self) except -1
    # internals
    cdef int number_table(self, object described) except -1
    cdef int number_raw(self, object text) except -1
    cdef int number_machine(self, object state) except -1
    cdef int lay_out_bytes(self, int at, bytes data, object then) except -1
    cdef int lay_out_text(self, int at, object text) except -1
    cdef int expand_plain(self, int at) except -1
