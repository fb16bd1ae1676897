# cython: language_level=3
from cython cimport final
from constrained.engine.kernel._trie cimport Trie

cdef enum:
    MOST_NODES = 64     # bits of a word
    HEXED = 256         # in `before`: whether a hexadecimal digit is there, as any escape may end with
    ESCAPED = 256       # in `behind` and `braced`: whether a backslash is there with more behind it


@final
cdef class QuoteFacts:
    cdef bytes before, behind, braced   # 1 for each byte that some token has there, see `_quote_facts.pyx`
    cdef bint closes                # whether a token goes on behind the colon of a key to a closing bracket
    cdef bint begins                # and whether one goes on to the second byte of a further text, in quotes
    cdef bytes colon                # what is behind such a colon, as a trie, see `laid_out`; None: too much
    cdef bytes closed               # what is behind a closing bracket, likewise

    cdef int find_quotes(self, Trie trie, tuple into) except -1


cdef QuoteFacts quote_facts(Trie trie, object store)
