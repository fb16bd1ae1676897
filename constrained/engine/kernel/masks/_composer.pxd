# cython: language_level=3
from cython cimport final
from constrained.engine.memory._arena cimport Arena
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.automaton._dispatch cimport Dispatches
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.masks._behind cimport Behind
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.masks._mask_buffer cimport MaskBuffer, Mask
from constrained.engine.kernel.masks._finite_texts cimport FiniteTexts
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks._shared_states cimport InMember, SharedStates
from constrained.engine.kernel.masks._text_ends cimport TextEnds
from constrained.engine.kernel.masks._unions cimport Unions
from constrained.engine.kernel.masks._walk cimport Walk
from constrained.engine.kernel.masks.alike._alike_states cimport AlikeStates
from constrained.engine.kernel.texts._positions cimport Positions


@final
cdef class Composer:
    cdef Meter meter                # borrowed, as the next nine
    cdef Trie trie
    cdef Stacks stacks
    cdef Machines machines
    cdef Dispatches dispatches
    cdef Positions positions
    cdef Automaton automaton
    cdef Walk walk
    cdef FiniteTexts finite
    cdef IndependentMasks masks
    cdef object stop                # ids of the stop tokens
    cdef MaskBuffer buffer          # the mask that is being made
    cdef MaskBuffer aside           # the one that waits while a shared part is made; else an empty one
    cdef bint sharing               # whether a shared part is being made
    cdef SharedStates shared_states
    cdef Arena finished             # memory of finished masks
    cdef Map ids                    # digest -> a state with such a mask
    cdef long bytes                 # that finished masks take; an estimate
    cdef Behind behind
    cdef AlikeStates alike
    cdef Unions unions
    cdef TextEnds ends

    cdef Mask* compose(self, int state) except NULL
    cdef Mask* made(self, int state) except NULL
    cdef int drop(self) noexcept
    cdef int clear(self) except -1
    cdef void release(self) noexcept
    # internals
    cdef int fill(self, int state) except -1
    cdef bint add_state(self, int state) except -1
    cdef bint add_shared(self, int state, int node) except -1
    cdef IndependentMask shared(self, const InMember* member, int node)
    cdef IndependentMask make_shared(self, int lonely, int node)
    cdef bint add_all(self) except -1
    cdef int try_doubtful(self, int state) except -1
    cdef int add_named(self, int state) except -1
    cdef bint is_first(self, int q, int stack, int node) except -1
    cdef int add_text(self, int q, int stack, int node) except -1
