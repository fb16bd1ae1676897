# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.masks._behind cimport Behind
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.texts._positions cimport Positions

cdef enum:
    UNIQUE = -1         # a state that is like no other


cdef struct Frame:      # the only one of a stack
    int after, record, parent


@final
cdef class AlikeStates:
    cdef Trie trie                  # borrowed, as the next eight
    cdef Automaton automaton
    cdef Stacks stacks
    cdef Machines machines
    cdef Objects objects
    cdef Positions positions
    cdef Behind behind
    cdef IndependentMasks masks
    cdef int any_text               # number of the language
    cdef bytes ending               # (256,) 1: some token has the byte before a closing quote; None: not looked at
    cdef dict shapes                # what tables are alike in -> number
    cdef Ints table_shapes          # of each table its shape, UNIQUE or NOT_ASKED; the next four are such lists
    cdef Ints set_kinds
    cdef Ints plain_others          # of each entry of `WrittenKeys.others`: whether that and those before are plain
    cdef Ints machine_kinds
    cdef Ints stack_kinds
    cdef Map ids                    # what is alike -> number
    cdef Map state_ids              # (configurations before, one more) -> number
    cdef Ints first                 # of such a number: the first state that has all of them, UNIQUE: none
    cdef int count                  # of numbers in `ids`
    cdef long bytes                 # that all this takes; an estimate

    cdef int find(self, int state) except -2
    cdef int clear(self) except -1
    # internals
    cdef void release(self) noexcept
    cdef int number(self, uint64_t a, uint64_t b) except -1
    cdef bint is_one(self, int stack, Frame* frame) noexcept
    cdef int with_one(self, int kinds, int q, int stack) except -1
    cdef int key_kind(self, int q, const Frame* frame) except -2
    cdef bint is_covered(self, int q, const Frame* frame) except -1
    cdef int stack_kind(self, int stack, int level) except -2
    cdef int after_kind(self, const int32_t* frame) except -3
    cdef int machine_kind(self, int q) except -3
    cdef int set_kind(self, int set_) except -2
    cdef int table_shape(self, int table) except -2
    cdef bint others_are_plain(self, int others) except -1
    cdef bint is_plain(self, str text) except -1
    cdef bytes look_at_tokens(self)
