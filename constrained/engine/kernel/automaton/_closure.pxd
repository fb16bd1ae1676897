# cython: language_level=3
from cython cimport final
from libc.stdint cimport uint64_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel.automaton._dispatch cimport Dispatches
from constrained.engine.kernel.automaton._expansion cimport Expansion
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.texts._positions cimport Positions

cdef enum:
    FINAL = 1           # flags of an automaton state: the bytes so far are a word
    EXITS = 2           # a text read on its own has ended


@final
cdef class Closure:
    cdef Meter meter                # borrowed, as the next five
    cdef Machines machines
    cdef Stacks stacks
    cdef Positions positions
    cdef Expansion expansion
    cdef Dispatches dispatches
    cdef long most                  # configurations
    # the result of `close`: pairs (machine state, stack), sorted, one for each machine state, those that read something
    cdef Ints closed
    cdef int flags                  # of what has ended
    # scratch: configurations to be added, where a machine state stands in `closed`, where it is long
    cdef Ints work
    cdef Map closed_at
    # machine states that call others, callees first; a way down to one, with the next call of each
    cdef Ints order, trail
    # even: of machine states that are in order, one more: of those that have passed their stacks on
    cdef uint64_t number

    cdef int close(self, const Ints* seeds) except -1
    cdef int clear(self) except -1
    cdef void release(self) noexcept
    # internals
    cdef bint take_closed(self, const Ints* seeds) except -1
    cdef bint stands(self, int q) noexcept
    cdef int reach_all(self, const Ints* seeds) except -1
    cdef int reach_work(self) except -1
    cdef int reach(self, int q, int stack) except -1
    cdef bint join(self, int q, int stack) except -1
    cdef int find(self, int q) noexcept
    cdef int index(self) except -1
    cdef int return_from(self, int q, int stack) except -1
    cdef int pop(self, int q, int stack) except -1
    cdef bint call_all(self) except -1
    cdef bint call(self, int stack, int callee, int after) except -1
    cdef int put_in_order(self, int machine) except -1
    cdef bint visit(self, int machine) except -1
    cdef bint reads(self, int q) except -1
    cdef void insert(self, int kept, int q, int stack) noexcept
