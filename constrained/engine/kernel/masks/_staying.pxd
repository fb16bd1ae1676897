# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.texts._languages cimport Languages
from constrained.engine.kernel.texts._positions cimport Positions


@final
cdef class Staying:
    cdef Automaton automaton        # borrowed, as the next two
    cdef Positions positions
    cdef Languages languages
    cdef uint64_t classes[256]      # the bit of each byte's class, where it is the first of a character
    cdef int32_t leads[16]          # pairs: the code points of each class of leading bytes
    cdef int lead_bytes[8]          # the first of each
    cdef int lead_count

    cdef bint between(self, int state) noexcept
    cdef uint64_t leaving(self, int state) except 0
    # internals
    cdef uint64_t leaving_position(self, int position) except 0
    cdef uint64_t find_leaving(self, int position) except 0
