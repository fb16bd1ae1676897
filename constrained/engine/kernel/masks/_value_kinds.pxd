# cython: language_level=3
from cython cimport final
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.masks._quote_facts cimport MOST_NODES, QuoteFacts


@final
cdef class ValueKinds:
    cdef Automaton automaton        # borrowed
    cdef QuoteFacts facts           # of the vocabulary; None: not asked for
    cdef Map value_ids              # (machine state that reads a value, 0) -> index
    cdef Map kind_ids               # (what tokens do in one, where it may end) -> index
    cdef Ints indices               # of each value: the index of its kind
    cdef Ints leaves                # of each kind: whether a token goes on behind the value's end
    cdef int path[MOST_NODES + 1]

    cdef int kind(self, int value) except -2
    cdef long held(self) noexcept
    cdef int clear(self) except -1
    # internals
    cdef void release(self) noexcept
    cdef int walked(self, int value) except -2
