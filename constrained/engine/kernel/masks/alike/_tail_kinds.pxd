# cython: language_level=3
from cython cimport final
from libc.stdint cimport int16_t
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.masks.alike._tails cimport LONGEST_TAIL, MOST_TAILS, Tails


@final
cdef class TailKinds:
    cdef Automaton automaton        # borrowed
    cdef Tails tails                # what tokens have left; None: not asked for
    cdef Map ids                    # (machine state, 0) -> index and one, 0: UNLIKE
    cdef dict kinds                 # what tokens do in a state, and where it may end -> index
    cdef Ints leaves                # of each kind: whether a token goes on behind its end
    cdef long bytes                 # that all this takes; an estimate
    cdef int path[LONGEST_TAIL + 1]
    cdef int16_t found[2 * MOST_TAILS]  # nodes that are alive, each with -1 behind it where tokens leave

    cdef int kind(self, int q) except -2
    cdef int clear(self) except -1
    # internals
    cdef void release(self) noexcept
    cdef int walked(self, int q) except -2
    cdef int kept(self, bytes key, bint leaves) except -1
