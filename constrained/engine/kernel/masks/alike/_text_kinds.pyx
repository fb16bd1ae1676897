# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What positions inside texts are like, of which nobody wants to know which text it was.

    any text, {0,999} characters, {0,998}      the context-independent mask that they share
    "na_  of "name", and of "game"             what is left of the last text of a set

Owns: what is left of texts, as numbers.  Borrows: positions and languages; masks of texts; `KeyKinds`, for numbers.
Invariant: what no token tells apart within its text has one number; where none reaches the closing quote, see
`is_far`, neither what follows nor which text it was is seen.
Plain twin: none; masks are compared with those of `twin.automaton`, bit by bit, in `tests/test_alike_states.py`.
"""
from cython cimport final
from libc.stdint cimport int32_t
from constrained.engine.kernel._tables cimport pair
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks.alike._key_kinds cimport KeyKinds, QUOTE
from constrained.engine.kernel.texts._languages cimport LanguageAt
from constrained.engine.kernel.texts._positions cimport BODY, Position, Positions

cdef enum:
    REST = 17               # what a number is of, beside those of `KeyKinds`
    TEXT = 18               # a context-independent mask, by its address


@final
cdef class TextKinds:
    """Numbers of positions; what is like nothing else keeps its own."""

    def __cinit__(self, Positions positions, IndependentMasks masks, KeyKinds kinds):
        self.positions, self.languages, self.masks, self.kinds = positions, positions.languages, masks, kinds
        self.rests = {}

    cdef int clear(self) except -1:
        """Forget all texts."""
        self.rests = {}
        return 0

    cdef bint is_in_quotes(self, int q) noexcept:
        """Say whether a position is between two characters of a text in quotes."""
        cdef const Position* p = &self.positions.at[q >> 1]
        return p.place == BODY and self.positions.spellings[p.spelling].closing == QUOTE

    cdef bint is_endless(self, int q) noexcept:
        """Say whether a position is between two characters of texts of no finite set, in quotes."""
        cdef const LanguageAt* language = &self.languages.at[self.positions.at[q >> 1].language]
        return self.is_in_quotes(q) and language.texts < 0 and not language.labelled

    cdef bint is_name(self, int q) noexcept:
        """Say whether a position is between two characters of texts of a finite set, in quotes."""
        return self.is_in_quotes(q) and self.languages.at[self.positions.at[q >> 1].language].texts >= 0

    cdef bint is_last(self, int q) noexcept:
        """Say whether there is one text left."""
        cdef const LanguageAt* at = &self.languages.at[self.positions.at[q >> 1].language]
        cdef const int32_t* offered = self.languages.excluded[at.excluded]  # for each index the next one that is
        return offered[offered[at.low] + 1] >= at.high

    cdef int kind(self, int q) except -1:
        """Return what a position in a text that nobody wants to know is like: of the last text of a set, what is left
        of it; of others their context-independent mask, as of any two counts that are both far off."""
        cdef const Position* p = &self.positions.at[q >> 1]
        cdef const LanguageAt* at = &self.languages.at[p.language]
        cdef IndependentMask mask
        if p.place != BODY or at.of < 0 and self.positions.spellings[p.spelling].closing < 0:
            return q
        if at.texts < 0 and not at.labelled:
            mask = self.masks.whole(q)
            return self.kinds.number(pair(TEXT, 0), <size_t><void*>mask)
        if not self.is_name(q) or not self.is_last(q):
            return q
        return self.last_text(q)

    cdef int last_text(self, int q) except -1:
        """Return what a position in the last text of a set is like."""
        cdef const LanguageAt* at = &self.languages.at[self.positions.at[q >> 1].language]
        return self.rest(q, self.left(at))

    cdef str left(self, const LanguageAt* at):
        """Return what is left of the last text of a set."""
        cdef str text = self.languages.set_objects[at.texts][self.languages.excluded[at.excluded][at.low]]
        return text[at.depth:]

    cdef bint is_far(self, int q) except -1:
        """Say whether no token reads the last text of a set to its end and goes on with the quote."""
        cdef const LanguageAt* at = &self.languages.at[self.positions.at[q >> 1].language]
        return self.kinds.is_plain(self.left(at))

    cdef int rest(self, int q, str text) except -1:
        """Return the number of what is left of the text at a position."""
        cdef int left = self.rests.setdefault(text, len(self.rests))
        return self.kinds.number(pair(REST, left), self.positions.at[q >> 1].spelling)
