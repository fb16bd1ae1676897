# cython: language_level=3
from cython cimport final
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.masks.alike._tails cimport Tails

cdef enum:
    HEXED = 256         # in `before`: whether a hexadecimal digit is there, as any escape may end with
    ESCAPED = 256       # in `behind` and `braced`: whether a backslash is there with more behind it


@final
cdef class QuoteFacts:
    cdef bytes before, behind, braced   # 1 for each byte that some token has there, see `_quote_facts.pyx`
    cdef bint closes                # whether a token goes on behind the colon of a key to a closing bracket
    cdef bint begins                # and whether one goes on to the second byte of a further text, in quotes
    cdef Tails colon                # what is behind such a colon
    cdef Tails closed               # and behind any bracket that closes an object

    cdef int find_brackets(self, Trie trie, set tails) except -1
    cdef int find_quotes(self, Trie trie, tuple into) except -1


cdef QuoteFacts quote_facts(Trie trie, object store)
