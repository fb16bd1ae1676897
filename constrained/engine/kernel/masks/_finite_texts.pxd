# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint8_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.masks._mask_buffer cimport MaskBuffer
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks._walk cimport Walk
from constrained.engine.kernel.texts._languages cimport LanguageAt, Languages
from constrained.engine.kernel.texts._positions cimport Positions


@final
cdef class FiniteTexts:
    cdef Meter meter                # borrowed, as the next six
    cdef Trie trie
    cdef Automaton automaton
    cdef Walk walk
    cdef IndependentMasks masks
    cdef Positions positions
    cdef Languages languages
    cdef int32_t* lows              # (longest + 2,) for each depth the texts that are left: [low, high)
    cdef int32_t* highs
    cdef int32_t* least             # and the first and the last of the characters with which they go on
    cdef int32_t* most
    cdef int32_t* above             # and the nodes there, -1: those that are not wide
    cdef int32_t* marks             # (256,) bytes that a text may begin with; zeros between

    cdef int add(self, MaskBuffer* buffer, int q, int stack, int node) except -1
    cdef int add_names(self, MaskBuffer* buffer, int cover, int q, int stack, int node) except -1
    cdef int drop(self) noexcept
    # internals
    cdef int first_bytes(self, int q, uint8_t* possible) except -1
    cdef int walk_texts(self, MaskBuffer* buffer, int q, int stack, int at, int stop, int base) except -1
    cdef int leave_name(self, MaskBuffer* buffer, list exits, LanguageAt* start, int i, int q, int stack) except -1
    cdef int put_off(self, MaskBuffer* buffer, int state, int node) except -1
    cdef int beside(self, LanguageAt* start, int at, int depth, int closing) noexcept
    cdef void enter(self, const LanguageAt* start, int depth, int low, int high) noexcept
    cdef bint may_leave(self, LanguageAt* start, bint closes, bint escapes, int low, int high, int depth) noexcept
    cdef bint is_taken(self, int stack) noexcept
    cdef int state_of(self, int spelling, LanguageAt* start, int low, int high, int depth, int stack) except -1
