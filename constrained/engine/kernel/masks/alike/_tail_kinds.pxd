# cython: language_level=3
from cython cimport final
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.masks.alike._quote_facts cimport MOST_NODES


@final
cdef class TailKinds:
    cdef Automaton automaton        # borrowed
    cdef bytes tails                # what tokens have left, as a trie; None: not asked for, or too much
    cdef Map value_ids              # (machine state, 0) -> index
    cdef Map kind_ids               # (what tokens do in one, where it may end) -> index
    cdef Ints indices               # of each state: the index of its kind
    cdef Ints leaves                # of each kind: whether a token goes on behind its end
    cdef int path[MOST_NODES + 1]

    cdef int kind(self, int value) except -2
    cdef long held(self) noexcept
    cdef int clear(self) except -1
    # internals
    cdef void release(self) noexcept
    cdef int walked(self, int value) except -2
