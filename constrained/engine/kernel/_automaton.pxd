# cython: language_level=3
from libc.stdint cimport int32_t, uint8_t, uint64_t
from constrained.engine.kernel._machines cimport UNKNOWN
from constrained.engine.kernel._objects cimport Objects
from constrained.engine.kernel._packed cimport Mask
from constrained.engine.memory._arena cimport Arena
from constrained.engine.kernel._tables cimport Ints, Map


cdef struct Row:                    # 256 successors: DEAD, UNKNOWN or a state each
    int32_t* block[16]              # by the upper half of the byte; `dead_block` and `unknown_block` are shared


cdef struct State:
    int32_t first, count            # pairs machine, stack
    Row* row                        # or NULL
    Mask* mask                      # or NULL
    int32_t light                   # the state without its text configurations, or UNKNOWN
    int32_t only                    # without a row: the one successor that has been asked for, or UNKNOWN, and its byte
    uint8_t only_byte
    uint8_t flags


cdef inline int successor(const Row* row, int byte) noexcept nogil:
    return row.block[byte >> 4][byte & 15]


cdef inline int known_successor(const State* state, int byte) noexcept nogil:
    """Return the successor of a state if it has been asked for before or its row says so, else UNKNOWN."""
    if state.row != NULL:
        return successor(state.row, byte)
    return state.only if state.only_byte == byte else UNKNOWN


cdef class Automaton(Objects):
    cdef Arena rows, masks          # memory of rows and their blocks, of finished masks
    cdef int32_t* marks             # (256,) a row in the making; zeros between
    cdef int32_t* dead_block        # (16,) DEAD
    cdef int32_t* unknown_block     # (16,) UNKNOWN
    # automaton states
    cdef State* states
    cdef int state_count, state_room
    cdef Ints configs, state_next
    cdef Map state_ids
    cdef int closing_flags
    # closure scratch
    cdef Ints work, closed
    cdef Map closed_at
    # machine states that call others, callees first; a way down to one, with the next call of each
    cdef Ints order, trail
    # even: of machine states that are in order, one more: of those that have passed their stacks on
    cdef uint64_t closure
    cdef int32_t* path

    cdef int reach(self, int q, int stack) except -1
    cdef int find_closed(self, int q) noexcept
    cdef int index_closed(self) except -1
    cdef bint join(self, int q, int stack) except -1
    cdef int return_from(self, int q, int stack) except -1
    cdef bint call_all(self) except -1
    cdef int put_in_order(self, int machine) except -1
    cdef bint visit(self, int machine) except -1
    cdef int surface_of(self, int callee) noexcept
    cdef int pop(self, int q, int stack) except -1
    cdef int close(self, int flags) except -1
    cdef bint reads(self, int q) except -1
    cdef void insert(self, int kept, int q, int stack) noexcept
    cdef int intern_state(self, int flags) except -1
    cdef Row* row(self, int state) except NULL
    cdef int32_t* own_block(self, const int32_t* block) except NULL
    cdef int set_successor(self, Row* row, int byte, int target) except -1
    cdef int step(self, int state, int byte) except -1
    cdef int next_state(self, int state, int byte) except -1
    cdef int after_token(self, int state, int token) except -1
