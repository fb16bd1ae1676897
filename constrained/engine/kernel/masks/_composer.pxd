# cython: language_level=3
from cython cimport final
from constrained.engine.memory._arena cimport Arena
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.automaton._dispatch cimport Dispatches
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.masks._behind cimport Behind
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.masks._mask_buffer cimport MaskBuffer, Mask
from constrained.engine.kernel.masks._finite_texts cimport FiniteTexts
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks._walk cimport Walk
from constrained.engine.kernel.texts._positions cimport Positions


@final
cdef class Composer:
    cdef Meter meter                # borrowed, as the next ten
    cdef Trie trie
    cdef Stacks stacks
    cdef Machines machines
    cdef Objects objects
    cdef Dispatches dispatches
    cdef Positions positions
    cdef Automaton automaton
    cdef Walk walk
    cdef FiniteTexts finite
    cdef IndependentMasks masks
    cdef object stop                # ids of the stop tokens
    cdef MaskBuffer buffer                # the mask that is being made
    cdef Arena finished             # memory of finished masks
    cdef Map ids                    # digest -> a state with such a mask
    cdef long bytes                 # that finished masks take; an estimate
    cdef Behind behind
    cdef Ints apart                 # exits behind which not all is as behind the others

    cdef Mask* compose(self, int state) except NULL
    cdef int drop(self) noexcept
    cdef int clear(self) except -1
    cdef void release(self) noexcept
    # internals
    cdef int fill(self, int state) except -1
    cdef bint add_state(self, int state) except -1
    cdef bint add_all(self) except -1
    cdef int try_doubtful(self, int state) except -1
    cdef int add_named(self, int state) except -1
    cdef bint is_first(self, int q, int stack, int node) except -1
    cdef int add_text(self, int q, int stack, int node) except -1
    cdef int leave_all(self, IndependentMask mask, int behind, const Ints* apart) except -1
    cdef int leave_bare(self, IndependentMask mask, int stack, int node) except -1
    cdef int leave_tried(self, IndependentMask mask) except -1
    cdef int leave_alike(self, IndependentMask mask, int node, int after, int record, int parent) except -1
    cdef int leave_refused(self, IndependentMask mask, int node) except -1
    cdef int doubt_behind(self, IndependentMask mask, int behind) except -1
    cdef int leave_recorded(self, IndependentMask mask, int q, int stack, int node) except -1
    cdef int leave_key(self, IndependentMask mask, int after, int parent, const Ints* apart) except -1
    cdef int doubt(self, IndependentMask mask, int tells_from, bytes told_by) except -1
