# cython: language_level=3
"""Marks of the bytes that may go on inside a text: -1, to be computed, for each of them and perhaps more.  Header only.

Plain twin: the steps of `engine.twin.text.TextAt`.
"""
from libc.stdint cimport int32_t
from libc.string cimport memset
from constrained.engine.kernel.texts._positions cimport Spelling


cdef inline void mark_escape(const Spelling* s, int32_t* row) noexcept:
    """Mark what an escape may begin with; PERF: tokens have any byte behind a backslash, nearly all for nothing."""
    cdef int i
    for i in range(s.shorts):
        row[s.short_byte[i]] = -1
    for i in range(s.hexes):
        row[s.hex_form[i].letter] = -1
    if s.octal:
        memset(row + 0x30, 0xFF, 4 * 8)
    if s.continuation:
        row[0x0A] = -1


cdef inline void mark_range(int low, int high, int32_t* row) noexcept:
    """Mark the first bytes of the characters of a range."""
    cdef int byte
    for byte in range(low, min(high, 0x7F) + 1):
        row[byte] = -1
    if high >= 0x80:
        low = max(low, 0x80)
        for byte in range(0xC0 + (low >> 6) if low < 0x800 else 0xE0 + (low >> 12) if low < 0x10000
                          else 0xF0 + (low >> 18),
                          (0xC0 + (high >> 6) if high < 0x800 else 0xE0 + (high >> 12) if high < 0x10000
                           else 0xF0 + (high >> 18)) + 1):
            row[byte] = -1
