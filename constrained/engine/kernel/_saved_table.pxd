# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint8_t

cdef enum:
    EXHAUSTED = 4                   # beside the flags of a state: nothing can follow


@final
cdef class SavedTable:
    cdef bytes data
    # how many: states, runs, names, masks, blocks, whole masks, those written out, changes, maps
    cdef readonly int states, runs, names, masks, blocks, wholes, raws, changes, maps
    cdef int words, width, tokens   # words of a mask, and filled up to whole blocks; tokens of the vocabulary
    # by state; the start is the first, and the one before another is before it
    cdef const int32_t* before      # (states,) the state before it on the way from the start; -1: the start
    cdef const int32_t* symbols     # (states,) the byte between, or NAME + token
    cdef const int32_t* ends        # (states,) where its runs end; they begin where those of the state before end
    cdef const int32_t* dead        # (states,) the map of the bytes that lead nowhere
    cdef const int32_t* which       # (states,) the number of its mask, -1: not known
    cdef const int32_t* targets     # (runs,) the state that the bytes of a run lead to
    cdef const int32_t* named       # (names, 3) a state, a token that it names, the state behind it or -1
    cdef const int32_t* listed      # (masks, 2) the whole mask that it is like or -1, the empty one; blocks that differ
    cdef const int32_t* records     # (blocks, RECORD) a block that differs: its number and its words
    # (wholes, 3) the one before that it is like or -1, the empty one; one of `raw` or -1; words that differ
    cdef const int32_t* whole
    cdef const int32_t* changed     # (changes, 2) a word that differs: its number and itself
    cdef const int32_t* raw         # (raws, width) words
    cdef const uint8_t* flags       # (states,)
    cdef const uint8_t* bytes_      # (runs, 2) the first byte and the last one
    cdef const uint8_t* map         # (maps, 32) bit i: byte i leads nowhere

    cdef bint find(self) noexcept
    cdef bint states_fit(self) noexcept
    cdef bint successors_fit(self) noexcept
    cdef bint masks_fit(self) noexcept
    cdef bint wholes_fit(self) noexcept
