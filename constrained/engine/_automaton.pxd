# cython: language_level=3
from libc.stdint cimport int32_t, uint8_t
from constrained.engine._objects cimport Objects
from constrained.engine._packed cimport Mask
from constrained.engine._tables cimport Ints, Map


cdef struct State:
    int32_t first, count            # pairs machine, stack
    int32_t* row                    # 256 successors, or NULL
    Mask* mask                      # or NULL
    int32_t light                   # the state without its text configurations, or UNKNOWN
    uint8_t flags


cdef class Automaton(Objects):
    # automaton states
    cdef State* states
    cdef int state_count, state_room
    cdef Ints configs, state_next
    cdef Map state_ids
    cdef int closing_flags
    # closure scratch
    cdef Ints work, closed
    cdef Map closed_at
    cdef int32_t* path

    cdef int reach(self, int q, int stack) except -1
    cdef int find_closed(self, int q) noexcept
    cdef int index_closed(self) except -1
    cdef int propagate(self, int q, int stack) except -1
    cdef int surface_of(self, int callee) noexcept
    cdef int pop(self, int q, int stack) except -1
    cdef int close(self, int flags) except -1
    cdef bint reads(self, int q) except -1
    cdef void insert(self, int kept, int q, int stack) noexcept
    cdef int intern_state(self, int flags) except -1
    cdef int32_t* row(self, int state) except NULL
    cdef int step(self, int state, int byte) except -1
    cdef int next_state(self, int state, int byte) except -1
    cdef int after_token(self, int state, int token) except -1
