# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton, Row
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.masks._mask_buffer cimport MaskBuffer
from constrained.engine.kernel.texts._languages cimport Languages
from constrained.engine.kernel.texts._positions cimport Positions


@final
cdef class Walk:
    cdef Meter meter                # borrowed, as the next six
    cdef Trie trie
    cdef Automaton automaton
    cdef Machines machines
    cdef Stacks stacks
    cdef Positions positions
    cdef Languages languages
    cdef int any_text               # the language of all texts
    cdef int32_t* path              # (longest + 2,) the states on the way to the node at hand
    cdef int32_t* above             # (longest + 2,) and those nodes, -1: those that are not wide
    cdef Ints light                 # configurations of a state without its texts
    cdef Ints* leaving              # where the nodes are noted at which a state EXITS, NULL: nowhere
    cdef bint bare                  # whether texts without an end of their own are walked as all else is
    cdef Map bare_lights            # state -> the state without the texts that are put off then

    cdef int walk(self, MaskBuffer* buffer, int state, int at, int stop, int base) except -1
    cdef int walk_all(self, MaskBuffer* buffer, int state) except -1
    cdef int below(self, MaskBuffer* buffer, int state, int node) except -1
    cdef int enter(self, MaskBuffer* buffer, int state, int node) except -1
    cdef int light_state(self, int state) except -1
    cdef bint is_bare(self, int q, int stack) noexcept
    cdef int clear(self) except -1
    cdef int put_off(self, MaskBuffer* buffer, int state, int node) except -1
    # internals
    cdef int wide_above(self, int at, int stop, int base) noexcept
    cdef int beside(self, int node, int byte, const Row* row) noexcept
    cdef int split(self, int state) except -1
    cdef bint is_heavy(self, int q, int stack) except -1
    cdef bint refuses(self, int stack) noexcept
    cdef int covering(self, int state) except -2
    cdef bint is_covered(self, int q, int cover) noexcept
