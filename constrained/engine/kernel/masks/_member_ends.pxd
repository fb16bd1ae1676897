# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.automaton._written_keys cimport Table
from constrained.engine.kernel.masks._behind cimport Behind
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks._mask_buffer cimport MaskBuffer
from constrained.engine.kernel.masks._walk cimport Walk


cdef struct Separators:         # of a table, as machine states, and as automaton states that EXIT where they may end
    int comma_machine, gap_machine  # where a gap is: behind as many blanks as were read
    int comma, gap
    uint64_t follow_comma[4]    # the bytes that they go on with
    uint64_t follow_gap[4]


cdef struct MemberEnd:          # of an object that is walked
    int set, parent             # the keys that are written, and the stack around the object
    int comma, gap              # states of separators, DEAD: there is no gap
    int closing, opening        # bytes: the object's bracket, the quote of keys
    bint closes                 # whether the bracket may come
    int key, closed             # the states behind the next key's quote, and behind the bracket; UNKNOWN: not asked for
    uint64_t follow[4]          # the bytes that come next


@final
cdef class MemberEnds:
    cdef Automaton automaton        # borrowed, as the next seven
    cdef Trie trie
    cdef Stacks stacks
    cdef Machines machines
    cdef Objects objects
    cdef IndependentMasks masks
    cdef Behind behind
    cdef Walk walk
    cdef Separators marks           # that were last looked at
    cdef int32_t* path              # (longest + 2,) the states of separators on the way to the node at hand, DEAD: none
    cdef char* places               # (longest + 2,) which separator they are of
    cdef Map known                  # mask and separators -> a way of `ways`
    cdef Ints ways                  # of each its first and its last one in `noted`
    cdef Ints noted                 # pairs of a trie node and what it ends with: a separator, a key's quote, a bracket
    cdef list held                  # the masks of ways, which keep their addresses

    cdef bint leave(self, MaskBuffer* buffer, IndependentMask mask, int behind) except -1
    cdef bint walk_all(self, MaskBuffer* buffer, int state) except -1
    cdef int clear(self) except -1
    # internals
    cdef bint add(self, MaskBuffer* buffer, MemberEnd* end, IndependentMask mask) except -1
    cdef int go_again(self, MaskBuffer* buffer, MemberEnd* end, int way) except -1
    cdef int go_on(self, MaskBuffer* buffer, MemberEnd* end, int read, int node) except -1
    cdef bint walk_exits(self, MaskBuffer* buffer, MemberEnd* end, IndependentMask mask) except -1
    cdef bint walk_roots(self, MaskBuffer* buffer, MemberEnd* end) except -1
    cdef bint find(self, int state, MemberEnd* end) except -1
    cdef int place_of(self, MemberEnd* end, int q, int stack) noexcept
    cdef const Table* table_of(self, const MemberEnd* end) noexcept
    cdef int learn(self, int comma, int gap, MemberEnd* end) except -1
    cdef bint walk_below(self, MaskBuffer* buffer, MemberEnd* end, int at, int stop) except -1
    cdef int move(self, MemberEnd* end, int depth, int byte) except -1
    cdef int move_on(self, MemberEnd* end, int depth, int byte, bint may_end) except -1
    cdef int key(self, MemberEnd* end) except -1
    cdef int closed(self, MemberEnd* end) except -1
    cdef bint is_plain(self, int stack) noexcept
