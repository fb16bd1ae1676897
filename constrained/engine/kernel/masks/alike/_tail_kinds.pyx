# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Machine states that tokens do not tell apart which begin before them: walked over what such tokens have left, a tail.

    "size     ":  ":"  ":""  ":-  ":[  ":{"  …      values, behind a quote and a colon: few tails, see `_quote_facts`
    "large    "},  "}}  "}]  …                      what lies around an object, behind a quote and its bracket

Two are alike that are alive at the same places, and may have ended at the same.

Owns: which states are alike so.  Borrows: the automaton, which it adds states to; the tails, of `QuoteFacts`.
Invariant: two states of one kind that are reached there are alive behind the same tokens if what follows them is alike,
or if no token leaves them.
Plain twin: none; masks are compared with those of `twin.automaton`, bit by bit, in `tests/test_alike_states.py`.
"""
from cython cimport final
from libc.stdint cimport uint64_t
from constrained.engine.kernel._tables cimport (
    Ints, Map, ints_add, ints_free, ints_put, ints_room, map_free, map_get, map_put, map_room)
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD
from constrained.engine.kernel.automaton._closure cimport EXITS
from constrained.engine.kernel.automaton._stacks cimport OUTSIDE
from constrained.engine.kernel.masks.alike._quote_facts cimport MOST_NODES

cdef enum:
    KEPT = 160          # bytes that a state takes
    UNLIKE = -1         # a state that is not walked, or may be passed over


@final
cdef class TailKinds:
    """Numbers of machine states."""

    def __cinit__(self, Automaton automaton):
        self.automaton = automaton

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        map_free(&self.value_ids)
        map_free(&self.kind_ids)
        ints_free(&self.indices)
        ints_free(&self.leaves)

    cdef int clear(self) except -1:
        """Forget all states."""
        self.release()
        return 0

    cdef long held(self) noexcept:
        """Return an estimate of the memory that all this takes."""
        return KEPT * <long>self.indices.size

    cdef int kind(self, int value) except -2:
        """Return the index of what tokens do in a machine state, UNLIKE: not known."""
        cdef int known = map_get(&self.value_ids, <uint64_t>value, 0)
        if known >= 0:
            return self.indices.at[known]
        known = self.walked(value)
        ints_add(&self.indices, known)
        map_put(&self.value_ids, <uint64_t>value, 0, self.indices.size - 1)
        return known

    cdef int walked(self, int value) except -2:
        """Walk a machine state over all that tokens have left."""
        cdef const unsigned char* tails
        cdef int i = 0, depth, state, count, known
        cdef uint64_t live = 0, left = 0
        if self.tails is None:
            return UNLIKE
        tails, count = self.tails, len(self.tails) // 3
        self.path[0] = self.automaton.enter(value, OUTSIDE, 0)
        if self.automaton.states[self.path[0]].flags & EXITS:
            return UNLIKE
        while i < count:
            depth = tails[3 * i + 1]
            state = self.automaton.next_state(self.path[depth - 1], tails[3 * i])
            if state == DEAD:
                i = tails[3 * i + 2]
                continue
            self.path[depth] = state
            live |= <uint64_t>1 << i
            if self.automaton.states[state].flags & EXITS and tails[3 * i + 2] > i + 1:
                left |= <uint64_t>1 << i
            i += 1
        known = map_get(&self.kind_ids, live, left)
        if known < 0:
            ints_room(&self.leaves, 1)
            map_room(&self.kind_ids)
            known = self.leaves.size
            ints_put(&self.leaves, left != 0)
            map_put(&self.kind_ids, live, left, known)
        return known
