# cython: language_level=3
from cython cimport final
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.masks._behind cimport Behind
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks.alike._key_kinds cimport KeyKinds
from constrained.engine.kernel.masks.alike._text_kinds cimport TextKinds
from constrained.engine.kernel.texts._languages cimport Languages
from constrained.engine.kernel.texts._positions cimport Positions


cdef struct Pair:       # a configuration, and then what it is like
    int q, stack
    bint is_key         # whether it is in a key without a name, and whether all that a name goes on with may be one
    bint is_any

cdef struct Frame:      # the only one of a stack
    int after, record, parent


@final
cdef class AlikeStates:
    cdef Automaton automaton        # borrowed, as the next seven
    cdef Stacks stacks
    cdef Machines machines
    cdef Objects objects
    cdef Positions positions
    cdef Languages languages
    cdef Behind behind
    cdef IndependentMasks masks
    cdef int any_text               # number of the language
    cdef KeyKinds kinds             # owned, as the next two
    cdef TextKinds texts
    cdef Ints stack_kinds           # of each stack what it is like, or NOT_ASKED
    cdef Ints around_kinds          # and what it is like around an object, see `around`
    cdef Map ids                    # (configurations before, one more) -> number
    cdef Ints first                 # of such a number: the first state that has all of them, UNIQUE: none

    cdef int find(self, int state) except -2
    cdef long held(self) noexcept
    cdef int clear(self) except -1
    # internals
    cdef void release(self) noexcept
    cdef int with_one(self, int index, int q, int stack) except -1
    cdef bint find_key(self, Pair* at) except -1
    cdef int record_kind(self, int q, const Frame* frame) except -2
    cdef bint is_special(self, const Frame* frame) except -1
    cdef bint find_recorded(self, Pair* at, const Frame* frame) except -1
    cdef bint find_other(self, Pair* at, bint covers) except -1
    cdef bint has_one(self, int stack, Frame* frame) noexcept
    cdef bint is_next(self, int after) noexcept
    cdef bint is_quoted_value(self, int q, const Frame* frame) except -1
    cdef int end_name(self, Pair* at, const Frame* frame) except -1
    cdef int open_name(self, Pair* at, const Frame* frame) except -1
    cdef int in_key(self, int after, int record, int parent) except -1
    cdef int framed(self, int after, int record, int parent, int level) except -1
    cdef int in_object(self, int after, int parent) except -1
    cdef int beyond(self, int after, int parent, int level) except -2
    cdef int around(self, int stack, int level) except -2
    cdef int seen(self, int after) except -2
    cdef int stack_kind(self, int stack, int level) except -2
    cdef int after_kind(self, int frame) except -3
    cdef int parent_kind(self, int frame, int level) except -2
