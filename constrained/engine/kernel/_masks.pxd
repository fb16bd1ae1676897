# cython: language_level=3
from constrained.engine.kernel._inner_walk cimport Inner
from constrained.engine.kernel._literals cimport Literals
from constrained.engine.kernel._tables cimport Ints, Map


cdef class Masks(Literals):
    cdef Ints apart                 # exits behind which not all is as behind the others
    cdef Ints doubtful              # tokens that are looked at again when all others are drafted
    cdef Map generic                # (Dispatch, parent stack) -> state behind an ordinary text
    # (position and stack, trie node) of the texts that the mask at work has below nodes, of many
    cdef Map added
    cdef dict begun_texts           # record -> its text, see `begun`

    cdef int fill_draft(self, int state) except -1
    cdef bint is_first(self, int q, int stack, int node) except -1
    cdef int add_text(self, int q, int stack, int node) except -1
    cdef int leave_all(self, Inner inner, int behind) except -1
    cdef bint is_apart(self, int node) noexcept
    cdef int popped_state(self, int stack) except -1
    cdef int leave_bare(self, Inner inner) except -1
    cdef int leave_recorded(self, Inner inner, int q, int stack, int node) except -1
    cdef int doubt(self, Inner inner, int tells_from, bytes told_by) except -1
    cdef int leave_key(self, Inner inner, int after, int parent) except -1
    cdef dict special_exits(self, Inner inner, int q, int after, int record, bint everything)
    cdef object begun(self, int record, int closing)
    cdef int generic_state(self, int after, int parent) except -1
    cdef int after_text(self, int after, text, int parent) except -1
