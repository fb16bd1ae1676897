# cython: language_level=3
from cython cimport final
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Map
from constrained.engine.kernel.automaton._expansion cimport Expansion
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.texts._positions cimport Positions


@final
cdef class Dispatches:
    cdef Meter meter                # borrowed, as the next five
    cdef Expansion expansion
    cdef Machines machines
    cdef Objects objects
    cdef Stacks stacks
    cdef Positions positions
    cdef Map by_label, by_record    # (Dispatch, label or record) -> what follows, and one, or 0: refused
    cdef dict sorted_texts          # set of texts -> sorted, for a few sets

    cdef int returned(self, int q, int after, int record) except -2
    cdef int following(self, int after, object text) except -2
    cdef bint is_special(self, int after, object text) except -1
    cdef list special_texts(self, int after, str start, int most)
    cdef int tells_from(self, int after) except -2
    cdef bytes told_by(self, int after)
    cdef int clear(self) except -1
