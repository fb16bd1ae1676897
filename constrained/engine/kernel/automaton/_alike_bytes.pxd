# cython: language_level=3
"""Bytes that one step answers for: those around its byte that every text of a state reads as it does.  Header only.

    [0-9A-F]{3}     0 leads where 1 … 9 lead, A where B … F do: two steps instead of sixteen

Invariant: bytes [low, high] move all configurations of a state to the same ones.
Plain twin: the steps of the other bytes.
"""
from libc.stdint cimport int32_t
from constrained.engine.kernel._tables cimport first_not_below
from constrained.engine.kernel.texts._languages cimport LanguageAt
from constrained.engine.kernel.texts._positions cimport BODY, Position, Positions, Spelling
from constrained.engine.kernel.texts._ranges cimport not_below


cdef inline void narrow(Positions positions, int position, int byte, int* low, int* high) noexcept:
    """Narrow bytes around one that leads on to those that lead where it does: plain characters of one edge."""
    cdef const Position* p = &positions.at[position]
    cdef const Spelling* s = &positions.spellings[p.spelling]
    cdef const LanguageAt* at = &positions.languages.at[p.language]
    cdef int edge, raw
    if p.place == BODY and at.first >= 0 and byte < 0x80 and byte != s.closing and byte != 0x5C:
        edge = first_not_below(&positions.languages.edge_high, at.first, at.last, byte)
        raw = not_below(&positions.tables, s.raw, byte)
        low[0] = max(low[0], positions.languages.edge_low.at[edge], positions.tables.low.at[raw])
        high[0] = min(high[0], positions.languages.edge_high.at[edge], positions.tables.high.at[raw])
        if not low[0] <= s.closing <= high[0] and not low[0] <= 0x5C <= high[0]:
            return
    low[0] = high[0] = byte
