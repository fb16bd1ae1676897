# cython: language_level=3
from cython cimport final
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.automaton._expansion cimport Expansion
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.masks._building cimport Counter, IndependentMask
from constrained.engine.kernel.masks._mask_buffer cimport MaskBuffer

cdef enum:
    NOT_MET = -1        # of a state: none was met that differs only in what lies around the member


cdef struct InMember:               # of an object, in which a state is
    int lonely                      # the state with nothing around the member
    int behind                      # the position behind the member's value
    int parent                      # the stack of that


@final
cdef class SharedStates:
    cdef Automaton automaton        # borrowed, as the next five
    cdef Stacks stacks
    cdef Machines machines
    cdef Objects objects
    cdef Expansion expansion
    cdef Counter counter            # of all context-independent masks of the vocabulary
    cdef Ints configurations        # of a lonely state in the making
    cdef Map ids                    # (lonely state, trie node) -> index of `masks`
    cdef list masks                 # MET, TO_MAKE; None: one that cannot be shared
    cdef dict names                 # of lonely states; None: it has none
    cdef Map named                  # (colon, value), 0: before these they have names

    cdef bint find(self, int state, InMember* member) except -1
    cdef int index(self, int lonely, int node) except -2
    cdef object name(self, const InMember* member)
    cdef IndependentMask gathered(self, IndependentMask made, int lonely, int node, MaskBuffer* buffer)
    cdef int clear(self) except -1
    # internals
    cdef int name_cells(self, int table, tuple shared) except -1
    cdef int name_states(self, object name, int colon, int value) except -1
    cdef int value_of(self, int lonely) except -2
    cdef int copy_whole(self, IndependentMask made, const MaskBuffer* buffer) except -1
    cdef int settle_doubtful(self, IndependentMask made, int lonely, int node, MaskBuffer* buffer) except -1
    cdef int moved(self, int stack, int level, InMember* member) except -2
    cdef int moved_frame(self, int after, int parent, InMember* member) except -2
