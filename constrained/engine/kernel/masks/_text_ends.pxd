# cython: language_level=3
from cython cimport final
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.automaton._dispatch cimport Dispatches
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.masks._behind cimport Behind
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks._mask_buffer cimport MaskBuffer
from constrained.engine.kernel.masks._member_ends cimport MemberEnds
from constrained.engine.kernel.masks._unions cimport Unions
from constrained.engine.kernel.masks._walk cimport Walk


@final
cdef class Leavings:
    cdef Ints words                 # pairs (word, its bits): the tokens
    cdef Ints names                 # as in a worklist
    cdef Ints texts

    cdef long size(self) noexcept
    cdef int add(self, MaskBuffer* buffer) except -1


@final
cdef class TextEnds:
    cdef MaskBuffer* buffer         # borrowed, as the next ten
    cdef Behind behind
    cdef Dispatches dispatches
    cdef Walk walk
    cdef IndependentMasks masks
    cdef Unions unions
    cdef Automaton automaton
    cdef Trie trie
    cdef Objects objects
    cdef Stacks stacks
    cdef Machines machines
    cdef MemberEnds members         # owned, as all that follows
    cdef Ints apart                 # exits behind which not all is as behind the others
    cdef list left                  # (base, None or `Leavings`) of each (base's address, state behind)
    cdef Map left_ids
    cdef long bytes                 # that these take
    cdef MaskBuffer noting          # what they are noted in; else empty

    cdef int clear(self) except -1
    cdef int drop(self, MaskBuffer* buffer) noexcept
    cdef int end_all(self, IndependentMask mask, const Ints* apart) except -1
    cdef int leave_all(self, IndependentMask mask, int behind, const Ints* apart) except -1
    cdef int leave_bare(self, IndependentMask mask, int stack, int node) except -1
    cdef int leave_recorded(self, IndependentMask mask, int q, int stack, int node) except -1
    # internals
    cdef int leave_again(self, IndependentMask mask, int behind) except -1
    cdef int leave_anew(self, IndependentMask mask, int behind, const Ints* apart) except -1
    cdef int leave_tried(self, IndependentMask mask) except -1
    cdef int leave_alike(self, IndependentMask mask, int node, int after, int record, int parent) except -1
    cdef int leave_refused(self, IndependentMask mask, int node) except -1
    cdef int doubt_behind(self, IndependentMask mask, int behind) except -1
    cdef int leave_key(self, IndependentMask mask, int after, int parent, const Ints* apart) except -1
    cdef int walk_exits(self, IndependentMask behind, int first, int last, int ended) except -1
    cdef int doubt_second(self, IndependentMask mask, int q, int after, int record) except -1
    cdef int doubt(self, IndependentMask mask, int tells_from, bytes told_by) except -1
