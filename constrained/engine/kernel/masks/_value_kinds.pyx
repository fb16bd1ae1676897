# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Values of keys that tokens do not tell apart which begin before the key's colon.

    "size     ":  ":"  ":""  ":"",\\n  ":-  ":[  ":{"  …      what stands behind colons is little, see `_quote_facts`

So a value, which has a character at least, is walked over that once: where it is alive, and where it may have ended.

Owns: which values are alike so.  Borrows: the automaton, which it adds states to; the facts of the vocabulary.
Invariant: two values of one kind, at the same place behind the quote of a key, are alive behind the same tokens if what
follows them is alike, or if no token leaves them.
Plain twin: none; masks are compared with those of `twin.automaton`, bit by bit, in `tests/test_alike_states.py`.
"""
from cython cimport final
from libc.stdint cimport uint64_t
from constrained.engine.kernel._tables cimport (
    Ints, Map, ints_add, ints_free, ints_put, ints_room, map_free, map_get, map_put, map_room)
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD
from constrained.engine.kernel.automaton._closure cimport EXITS
from constrained.engine.kernel.automaton._stacks cimport OUTSIDE
from constrained.engine.kernel.masks._quote_facts cimport MOST_NODES, QuoteFacts, TOO_MANY

cdef enum:
    KEPT = 160          # bytes that a value takes
    UNLIKE = -1         # a value that is not walked


@final
cdef class ValueKinds:
    """Numbers of values."""

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
        """Forget all values."""
        self.release()
        return 0

    cdef long held(self) noexcept:
        """Return an estimate of the memory that all this takes."""
        return KEPT * <long>self.indices.size

    cdef int kind(self, int value) except -2:
        """Return the index of what tokens do in a value that they begin before the colon, UNLIKE: not known."""
        cdef int known = map_get(&self.value_ids, <uint64_t>value, 0)
        if known >= 0:
            return self.indices.at[known]
        known = self.walked(value)
        ints_add(&self.indices, known)
        map_put(&self.value_ids, <uint64_t>value, 0, self.indices.size - 1)
        return known

    cdef int walked(self, int value) except -2:
        """Walk a value over all that is behind colons."""
        cdef const unsigned char* colon = self.facts.colon
        cdef int i = 0, depth, state, count = self.facts.nodes, known
        cdef uint64_t live = 0, left = 0
        if count == TOO_MANY:
            return UNLIKE
        self.path[0] = self.automaton.enter(value, OUTSIDE, 0)
        while i < count:
            depth = colon[3 * i + 1]
            state = self.automaton.next_state(self.path[depth - 1], colon[3 * i])
            if state == DEAD:
                i = colon[3 * i + 2]
                continue
            self.path[depth] = state
            live |= <uint64_t>1 << i
            if self.automaton.states[state].flags & EXITS and colon[3 * i + 2] > i + 1:
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
