# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint64_t, uint8_t
from constrained.engine.memory._arena cimport Arena
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._closure cimport Closure
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.masks._mask_buffer cimport Mask
from constrained.engine.kernel.texts._positions cimport Positions

cdef enum:
    DEAD = 0            # the state without configurations, after which no word goes on
    UNKNOWN = -1
    NAME = 256          # symbols are bytes, and NAME + t for a token t that the machine names


cdef struct Row:                    # 256 successors: DEAD, UNKNOWN or a state each
    int32_t* block[16]              # by the upper half of the byte; `dead_block` and `unknown_block` are shared


cdef struct State:
    # numbers in `configurations`: pairs machine state, stack; of an unread state: the state before it, and 0
    int32_t first, count
    Row* row                        # or NULL
    Mask* mask                      # PERF: kept here for `masks._composer`; NULL: not asked for yet
    int32_t light                   # PERF: kept here for `masks._walk`: the state without its texts, or UNKNOWN
    # without a row: the one successor that has been asked for, or UNKNOWN, and its byte; of an unread state, which has
    # a row: the symbol that leads to it
    int32_t only
    uint8_t only_byte
    uint8_t flags
    bint unread                     # loaded: its configurations are found when something asks for them, see `read`


cdef inline int successor(const Row* row, int byte) noexcept nogil:
    return row.block[byte >> 4][byte & 15]


cdef inline int known_successor(const State* state, int byte) noexcept nogil:
    """Return the successor of a state if it has been asked for before or its row says so, else UNKNOWN."""
    if state.row != NULL:
        return successor(state.row, byte)
    return state.only if state.only_byte == byte else UNKNOWN


@final
cdef class Automaton:
    cdef Meter meter                # borrowed, as the next five
    cdef Closure closure
    cdef Machines machines
    cdef Stacks stacks
    cdef Positions positions
    cdef Trie trie
    cdef long bytes                 # that states and rows take; an estimate
    cdef State* states
    cdef int count, room
    cdef Ints configurations
    cdef Map ids
    cdef Ints next                  # the next state with the same hash, -1: none
    cdef Map named                  # (state, token) -> the successor over a token that the machine names
    cdef dict names                 # unread state -> such tokens, of states that have some
    cdef Arena rows                 # memory of rows and their blocks
    cdef int32_t* marks             # (256,) a row in the making; zeros between
    cdef int32_t* dead_block        # (16,) DEAD
    cdef int32_t* unknown_block     # (16,) UNKNOWN
    cdef Ints seeds                 # configurations that are about to be closed
    cdef int low, high              # bytes around the one of a step that lead to the same state
    cdef Ints chain                 # unread states on the way to one that is being read

    cdef int enter(self, int q, int stack, int flags) except -1
    cdef int close(self, const Ints* seeds, int flags) except -1
    cdef int intern(self, const Ints* configurations, int flags) except -1
    cdef int read(self, int state) except -1
    cdef Row* row(self, int state) except NULL
    cdef Row* marked_row(self) except NULL
    cdef int step(self, int state, int byte) except -1
    cdef int next_state(self, int state, int byte) except -1
    cdef bint goes_on(self, int state, int byte) except -1
    cdef int follow(self, int state, uint64_t* bytes_) except -1
    cdef int after_token(self, int state, int token) except -1
    cdef set named_tokens(self, int state)
    cdef int drop(self) noexcept
    cdef int clear(self) except -1
    cdef void release(self) noexcept
    # internals
    cdef int mark(self, int state) except -1
    cdef int32_t* own_block(self, const int32_t* block) except NULL
    cdef int set_successor(self, Row* row, int byte, int target) except -1
    cdef int keep(self, int state, int byte, int target) except -1
    cdef int moved(self, int state, int symbol) except -1
    cdef int seed_byte(self, int state, int byte) except -1
    cdef int seed_name(self, int state, int token) except -1
    cdef int target(self, int q, int byte) except -2
    cdef int after_name(self, int state, int token) except -1
    cdef int keep_name(self, int state, int token, int target) except -1
    cdef int add(self, const Ints* configurations, int flags) except -1
