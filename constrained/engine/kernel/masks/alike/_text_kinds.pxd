# cython: language_level=3
from cython cimport final
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks.alike._key_kinds cimport KeyKinds
from constrained.engine.kernel.texts._languages cimport LanguageAt, Languages
from constrained.engine.kernel.texts._positions cimport Positions


@final
cdef class TextKinds:
    cdef Positions positions        # borrowed, as the next three
    cdef Languages languages
    cdef IndependentMasks masks
    cdef KeyKinds kinds
    cdef dict rests                 # what is left of a text -> number

    cdef bint is_in_quotes(self, int q) noexcept
    cdef bint is_endless(self, int q) noexcept
    cdef bint is_name(self, int q) noexcept
    cdef bint is_last(self, int q) noexcept
    cdef int kind(self, int q) except -1
    cdef int last_text(self, int q) except -1
    cdef bint is_far(self, int q) except -1
    cdef int rest(self, int q, str text) except -1
    cdef int clear(self) except -1
    # internals
    cdef str left(self, const LanguageAt* at)
