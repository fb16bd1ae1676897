# cython: language_level=3
from libc.stdint cimport uint32_t
from constrained.engine._automaton cimport Automaton
from constrained.engine._tables cimport Ints


cdef class Inner:
    cdef uint32_t* bits             # (words,) tokens that stay inside or end where they leave; NULL in a part
    cdef uint32_t* inside           # (words,) tokens that stay inside; NULL until asked for
    cdef Ints tokens                # of a part: the tokens that stay inside
    cdef Ints exits                 # trie nodes at which a token leaves the text
    cdef Ints exit_counts           # characters read at each exit
    cdef Ints counted               # pairs token, characters begun; most characters first
    cdef int most                   # largest of those counts
    cdef dict levels                # (least, most) -> Inner limited to it
    cdef dict groups                # text before an exit -> exit nodes
    cdef list twice                 # tokens that may complete a second text


cdef class Inners(Automaton):
    cdef dict inners                # text position, or (text position, trie node) -> Inner

    cdef Inner inner(self, int q)
    cdef Inner part(self, int q, int node)
    cdef Inner build(self, int q, int node, bint counts)
    cdef int keep(self, Inner made, int node, int at, bint leaves, int count, int begun) except -1
    cdef Inner counted_inner(self, int q, object spelling, object counted)
    cdef Inner limited(self, Inner base, int least, int most)
    cdef uint32_t* inside(self, Inner inner) except NULL
    cdef int group(self, Inner inner, int q, int node) except -1
    cdef int drop_covered(self, Inner inner) except -1
    cdef void set_tokens(self, int node, uint32_t* bits) noexcept
    cdef void clear_tokens(self, int node, uint32_t* bits) noexcept
