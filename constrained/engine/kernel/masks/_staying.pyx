# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Bytes that change nothing: those that lead from between two characters of a text back to the same place.

    [a-zA-Z0-9_]*   a letter leads back; a hyphen does not: tokens of letters need not be walked

Owns: the classes of bytes.  Borrows: the automaton, positions and languages; languages keep what was found of them.
Invariant: after well-formed characters of classes that do not leave, and after a part of one, tokens are where they
were, or in the middle of a character that leads there.
Plain twin: the steps of the automaton, byte by byte.
Source: ours.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.texts._languages cimport LanguageAt
from constrained.engine.kernel.texts._positions cimport BODY, Position, Positions, Spelling
from constrained.engine.kernel.texts._ranges cimport holds

from constrained.engine.tokens.byte_classes import BITS, LEADS, MALFORMED

cdef uint64_t ALL_CLASSES = 0xFFFFFFFFFFFFFFFF
cdef uint64_t MALFORMED_CLASS = <uint64_t>1 << MALFORMED


@final
cdef class Staying:
    """Which classes of bytes lead from a state back to it."""

    def __cinit__(self, Automaton automaton):
        cdef int i = 0
        self.automaton, self.positions = automaton, automaton.positions
        self.languages = automaton.positions.languages
        for i in range(256):
            self.classes[i] = BITS[i] if not 0x80 <= i < 0xC0 else MALFORMED_CLASS
        i = 0
        for low, high in LEADS:
            self.leads[2 * i], self.leads[2 * i + 1], self.lead_bytes[i] = low, high, chr(low).encode()[0]
            i += 1
        self.lead_count = i

    cdef bint between(self, int state) noexcept:
        """Say whether a state is one position between two characters of a text."""
        cdef int q
        if self.automaton.states[state].count != 2:
            return False
        q = self.automaton.configurations.at[self.automaton.states[state].first]
        return q & 1 and self.positions.at[q >> 1].place == BODY

    cdef uint64_t leaving(self, int state) except 0:
        """Return the classes of bytes that do not lead from a state of a single position back to it; of a class, the
        bytes of a whole character."""
        cdef int q
        if self.automaton.states[state].count != 2:
            return ALL_CLASSES
        q = self.automaton.configurations.at[self.automaton.states[state].first]
        return self.leaving_position(q >> 1) if q & 1 else ALL_CLASSES

    cdef uint64_t leaving_position(self, int position) except 0:
        cdef Position* p = &self.positions.at[position]
        cdef LanguageAt* at = &self.languages.at[p.language]
        if p.place != BODY or at.texts >= 0:
            return ALL_CLASSES
        if not at.leaving or at.spelling != p.spelling:
            return self.find_leaving(position)
        return at.leaving

    cdef uint64_t find_leaving(self, int position) except 0:
        cdef Position p = self.positions.at[position]
        cdef LanguageAt* at = &self.languages.at[p.language]
        cdef Spelling* spelling = &self.positions.spellings[p.spelling]
        cdef int i, byte
        cdef int32_t* lead
        cdef bint back[128]
        cdef uint64_t found = ALL_CLASSES
        if at.first < 0:
            self.languages.expand(p.language)
            at = &self.languages.at[p.language]
        memset(back, 0, sizeof(back))
        for i in range(at.first, at.last):
            if self.languages.target(p.language, i) == p.language:
                found = MALFORMED_CLASS
                for byte in range(self.languages.edge_low.at[i], min(self.languages.edge_high.at[i], 127) + 1):
                    back[byte] = byte != spelling.closing and holds(&self.positions.tables, spelling.raw, byte)
        back[0x5C] = back[0x5C] and not spelling.escapes
        if found != ALL_CLASSES:
            for byte in range(128):
                if not back[byte]:
                    found |= self.classes[byte]
            for i in range(self.lead_count):
                lead = &self.leads[2 * i]
                if self.positions.probe(p.language, lead[0], lead[1], spelling.raw, 0) != p.language:
                    found |= self.classes[self.lead_bytes[i]]
        if at.spelling == p.spelling:
            at.leaving = found
        return found
