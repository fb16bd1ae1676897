# cython: language_level=3
"""What a `machine.LiteralSet` consists of: every text of a schema's enumeration or keys is hashed and compared often.

Owns: nothing.  Borrows: the texts.
Plain twin: `machine.PlainRange`; compared in tests/test_text_range.py.
"""
from cpython.long cimport PyLong_FromVoidPtr


cdef class TextRange:
    """A range of a sorted tuple of texts, those of them that do not count, and how many characters were read."""

    cdef readonly tuple texts
    cdef readonly object excluded           # bit i: texts[i] does not belong to it
    cdef readonly Py_ssize_t low, high      # of the range
    cdef readonly Py_ssize_t depth

    def __init__(self, tuple texts, excluded=0, Py_ssize_t low=0, high=None, Py_ssize_t depth=0):
        self.texts, self.excluded, self.low, self.depth = texts, excluded, low, depth
        self.high = len(texts) if high is None else high

    def __eq__(self, other):
        cdef TextRange one
        if not isinstance(other, TextRange):
            return False
        one = <TextRange>other
        if self.low != one.low or self.high != one.high or self.depth != one.depth or self.excluded != one.excluded:
            return False
        return self.texts is one.texts or self.texts == one.texts

    def __hash__(self):
        return hash((PyLong_FromVoidPtr(<void*>self.texts), self.excluded, self.low, self.high, self.depth))
