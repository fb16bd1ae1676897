# cython: language_level=3
from libc.stdint cimport int32_t
from constrained.engine._inner cimport Inners
from constrained.engine._inner_walk cimport Inner
from constrained.engine._languages cimport LanguageAt
from constrained.engine._packed cimport Draft
from constrained.engine._tables cimport Ints, Map


cdef class Masks(Inners):
    cdef Ints deferred              # triples text position, stack, trie node: texts entered during a walk
    cdef Ints apart                 # exits behind which not all is as behind the others
    cdef Ints names                 # covering position, text position, stack, trie node: see `add_names`
    cdef int any_text               # the language of all texts
    cdef Ints doubtful              # tokens that are looked at again when all others are drafted
    cdef Map generic                # (Dispatch, parent stack) -> state behind an ordinary text
    cdef dict begun_texts           # record -> its text, see `begun`
    cdef dict ordered_texts         # set of texts -> sorted, for a few sets
    cdef Draft draft                # the mask that is being made
    cdef int32_t* ranges_path       # for each depth the texts that are left, see `walk_literals`

    cdef int fill_draft(self, int state) except -1
    cdef int add_named(self, int state) except -1
    cdef int walk(self, int state, int at, int stop, int base) except -1
    cdef int walk_all(self, int state) except -1
    cdef int split(self, int state) except -1
    cdef int put_off(self, int state, int node) except -1
    cdef bint is_heavy(self, int q, int stack) except -1
    cdef int add_literals(self, int q, int stack, int node) except -1
    cdef int walk_literals(self, int q, int stack, int at, int stop, int base) except -1
    cdef int covering(self, int state) except -2
    cdef bint is_covered(self, int q, int cover) noexcept
    cdef int add_names(self, int cover, int q, int stack, int node) except -1
    cdef int leave_name(self, list exits, LanguageAt* start, int i, int q, int stack) except -1
    cdef bint leaves_literals(self, LanguageAt* start, bint closes, bint escapes, int low, int high, int depth) noexcept
    cdef int literal_state(self, int spelling, LanguageAt* start, int low, int high, int depth, int stack) except -1
    cdef int add_text(self, int q, int stack, int node) except -1
    cdef int leave_all(self, Inner inner, int behind) except -1
    cdef bint is_apart(self, int node) noexcept
    cdef int popped_state(self, int stack) except -1
    cdef int leave_bare(self, Inner inner) except -1
    cdef int leave_recorded(self, Inner inner, int q, int stack, int node) except -1
    cdef int doubt(self, Inner inner, int tells_from) except -1
    cdef int leave_key(self, Inner inner, int after, int parent) except -1
    cdef dict special_exits(self, Inner inner, int q, int after, int record, bint everything)
    cdef object begun(self, int record, int closing)
    cdef list starting(self, object texts, str start)
    cdef int generic_state(self, int after, int parent) except -1
    cdef int after_text(self, int after, text, int parent) except -1
