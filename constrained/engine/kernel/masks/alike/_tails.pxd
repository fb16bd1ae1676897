# cython: language_level=3
from cython cimport final
from libc.stdint cimport int16_t, uint64_t

cdef enum:
    MOST_TAILS = 1024       # nodes
    LONGEST_TAIL = 128      # bytes


cdef struct TailNode:
    int16_t byte, depth, end


@final
cdef class Tails:
    cdef TailNode* nodes            # in preorder
    cdef int count                  # -1: there are too many
    cdef uint64_t firsts[4]         # the set of bytes that tails begin with; no others are here

    # internals
    cdef int lay_out(self, list texts) except -1


cdef int note_tail(set tails, const unsigned char* text, int at, int last) except -1
