# cython: language_level=3
from libc.stdint cimport uint32_t
from constrained.engine.kernel._inner_walk cimport Inner, InnerWalks
from constrained.engine.kernel._tables cimport Map


cdef class Inners(InnerWalks):
    cdef dict inners                # text position -> Inner
    cdef list parts_known           # Inner of each (text position, trie node)
    cdef Map part_ids
    cdef list behind_keys           # (the Inner of a key, Inner behind it) of each (that Inner's address, entry)
    cdef Map behind_ids

    cdef Inner inner(self, int q)
    cdef Inner part(self, int q, int node)
    cdef int walked(self, int q, object language, object key) except -1
    cdef Inner lasting_inner(self, int q, object spelling)
    cdef Inner counted_inner(self, int q, object spelling, object counted)
    cdef Inner limited(self, Inner base, int least, int most)
    cdef Inner within(self, int most)
    cdef int list_words(self, Inner made) except -1
    cdef uint32_t* inside(self, Inner inner) except NULL
    cdef int group(self, Inner inner, int q, int node) except -1
    cdef Inner keep_behind(self, tuple pair, int entry)
    cdef Inner behind_key(self, Inner key, int entry, object name)
