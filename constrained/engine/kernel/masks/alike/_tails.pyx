# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Tails: what tokens have left behind some place inside of them, as a trie.

    x" : 12      what they have behind the colon of a key
    0}}, 12      and behind a closing bracket

Owns: its nodes.  Borrows: nothing.
Invariant: whatever a token has left there is in the trie, if it begins with one of `firsts`.
Plain twin: none; `tests/test_alike_states.py` asks of vocabularies that have such tokens.
"""
from cython cimport final
from libc.stdint cimport uint64_t
from constrained.engine.memory._memory cimport allotted, released


cdef int note_tail(set tails, const unsigned char* text, int at, int last) except -1:
    """Note what is left of a token, as far as it matters: of longer tails, and of more, nothing is made."""
    if len(tails) <= MOST_TAILS:
        tails.add(text[at:min(last, at + LONGEST_TAIL + 1)])
    return 0


@final
cdef class Tails:
    """Some tails; never changed."""

    def __cinit__(self, set found, bytes firsts):
        for byte in firsts:
            self.firsts[<int>byte >> 6] |= <uint64_t>1 << (<int>byte & 63)
        self.count = -1
        if len(found) <= MOST_TAILS and max(map(len, found), default=0) <= LONGEST_TAIL:
            self.lay_out(sorted([text for text in found if text and text[0] in firsts]))

    def __dealloc__(self):
        released(self.nodes)

    cdef int lay_out(self, list texts) except -1:
        """Lay sorted tails out."""
        cdef bytes text, before = b""
        cdef int path[LONGEST_TAIL]
        cdef int size = 0, shared, i
        self.nodes = <TailNode*>allotted(MOST_TAILS, sizeof(TailNode))
        for text in texts:
            shared = 0
            while shared < min(len(before), len(text)) and before[shared] == text[shared]:
                shared += 1
            for i in range(shared, len(before)):
                self.nodes[path[i]].end = size
            if size + len(text) - shared > MOST_TAILS:
                return 0
            for i in range(shared, len(text)):
                path[i] = size
                self.nodes[size].byte, self.nodes[size].depth = <unsigned char>text[i], i + 1
                size += 1
            before = text
        for i in range(len(before)):
            self.nodes[path[i]].end = size
        self.count = size
        return 0
