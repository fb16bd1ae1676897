# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.kernel._tables cimport Ints, Map, ints_put, ints_room
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._expansion cimport Expansion
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.automaton._written_keys cimport WrittenKeys
from constrained.engine.kernel.masks.alike._quote_facts cimport QuoteFacts
from constrained.engine.kernel.masks.alike._tail_kinds cimport TailKinds
from constrained.engine.kernel.masks.alike._told_names cimport ToldNames

cdef enum:
    UNIQUE = -1         # what is like nothing else
    NOT_ASKED = -2
    KINDS = 1 << 30     # numbers of what is alike begin here, behind those of machine states and stacks
    QUOTE = 0x22        # that opens and closes a key


cdef inline int listed(const Ints* kinds, int i) noexcept nogil:
    """Return what is noted of an entry."""
    return kinds.at[i] if i < kinds.size else NOT_ASKED


cdef inline int note(Ints* kinds, int i, int kind) except -1:
    """Note what an entry is like."""
    ints_room(kinds, i + 1 - kinds.size if i >= kinds.size else 0)
    while kinds.size <= i:
        ints_put(kinds, NOT_ASKED)
    kinds.at[i] = kind
    return 0


@final
cdef class KeyKinds:
    cdef Trie trie                  # borrowed, as the next five
    cdef object store               # of the vocabulary: `mask_store.MaskStore`
    cdef Machines machines
    cdef Expansion expansion
    cdef Objects objects
    cdef WrittenKeys keys
    cdef QuoteFacts facts           # of the vocabulary; None: not asked for
    cdef TailKinds values          # owned, as the next two; values, and what lies around objects
    cdef TailKinds around
    cdef ToldNames told
    cdef dict shapes                # what tables are alike in -> number
    cdef Ints table_shapes          # of each table its shape, UNIQUE or NOT_ASKED; the next two are such lists
    cdef Ints set_kinds
    cdef Ints machine_kinds
    cdef Ints plain_others          # of each entry of `WrittenKeys.others`: whether its keys are plain, or NOT_ASKED
    # of each table, and of each such entry, which (length, last byte) its names have, as bits
    cdef Ints name_ends, other_ends
    cdef Map ids                    # what is alike -> number
    cdef int count                  # of numbers
    cdef long bytes                 # that all this takes; an estimate

    cdef int number(self, uint64_t a, uint64_t b) except -1
    cdef int machine_kind(self, int q) except -3
    cdef int key_kind(self, int q) except -3
    cdef int opened_kind(self, int q) except -3
    cdef long held(self) noexcept
    cdef bint is_plain(self, str name) except -1
    cdef bint is_held(self, int set_) except -1
    cdef bint is_open(self, int set_) except -1
    cdef bint has_plain_names(self, int set_) except -1
    cdef bint may_be_special(self, int set_, int length, int last) noexcept
    cdef int clear(self) except -1
    # internals
    cdef int set_kind(self, int set_) except -2
    cdef void release(self) noexcept
    cdef int open_kind(self, int shape, int set_) except -1
    cdef int closed_kind(self, int shape, int set_) except -1
    cdef bint has_offers(self, int set_) except -1
    cdef int going_on(self, int set_) except -1
    cdef int told_names(self, int set_) except -2
    cdef QuoteFacts known_facts(self)
    cdef int table_shape(self, int table) except -2
    cdef object shared_cell(self, int table)
    cdef bint is_any(self, int table) except -1
    cdef bint others_are_plain(self, int others) except -1
    cdef bint are_out_of_reach(self, tuple names, bytes behind) except -1
    cdef int brace_kind(self, int q) except -3
    cdef int first_kind(self, int q) except -3
    cdef int note_ends(self, Ints* ends, int i, int before, tuple texts) except -1
