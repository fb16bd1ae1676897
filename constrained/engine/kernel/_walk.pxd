# cython: language_level=3
from constrained.engine.kernel._inner cimport Inners
from constrained.engine.kernel._packed cimport Draft
from constrained.engine.kernel._tables cimport Ints


cdef class Walks(Inners):
    cdef Draft draft                # the mask that is being made
    cdef Ints deferred              # triples text position, stack, trie node: texts entered during a walk
    # quadruples covering position, text position, stack, trie node: see `Literals.add_names`
    cdef Ints names
    cdef int any_text               # the language of all texts

    cdef int add_named(self, int state) except -1
    cdef int walk(self, int state, int at, int stop, int base) except -1
    cdef int walk_all(self, int state) except -1
    cdef int split(self, int state) except -1
    cdef int put_off(self, int state, int node) except -1
    cdef bint is_heavy(self, int q, int stack) except -1
    cdef int covering(self, int state) except -2
    cdef bint is_covered(self, int q, int cover) noexcept
