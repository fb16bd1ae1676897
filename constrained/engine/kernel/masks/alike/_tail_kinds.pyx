# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Machine states that tokens do not tell apart which begin before them: walked over what such tokens have left, a tail.

    "size     ":  ":"  ":""  ":-  ":[  ":{"  …      values, behind a quote and a colon: few tails, see `_quote_facts`
    0}        },  }}  }]  …                         what lies around an object, behind its bracket

Two are alike that are alive at the same places, and may have ended at the same.

Owns: which states are alike so.  Borrows: the automaton, which it adds states to; the tails, of `QuoteFacts`.
Invariant: two states of one kind that are reached there are alive behind the same tokens if what follows them is alike,
or if no token leaves them.
Plain twin: none; masks are compared with those of `twin.automaton`, bit by bit, in `tests/test_alike_states.py`.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final
from libc.stdint cimport uint64_t
from constrained.engine.memory._meter cimport work
from constrained.engine.kernel._tables cimport Ints, Map, ints_free, ints_put, ints_room, map_free, map_get, map_put
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD
from constrained.engine.kernel.automaton._closure cimport EXITS
from constrained.engine.kernel.automaton._stacks cimport OUTSIDE
from constrained.engine.kernel.masks.alike._tails cimport TailNode

cdef enum:
    KEPT = 160          # bytes that a state takes
    UNLIKE = -1         # a state that is not walked, or may be passed over


@final
cdef class TailKinds:
    """Numbers of machine states."""

    def __cinit__(self, Automaton automaton):
        self.automaton, self.kinds = automaton, {}

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        map_free(&self.ids)
        ints_free(&self.leaves)

    cdef int clear(self) except -1:
        """Forget all states."""
        self.release()
        self.kinds, self.bytes = {}, 0
        return 0

    cdef int kind(self, int q) except -2:
        """Return the index of what tokens do in a machine state, UNLIKE: not known."""
        cdef int known = map_get(&self.ids, <uint64_t>q, 0)
        if known < 0:
            known = self.walked(q) + 1
            map_put(&self.ids, <uint64_t>q, 0, known)
            self.bytes += KEPT
        return known - 1

    cdef int walked(self, int q) except -2:
        """Walk a machine state over all that tokens have left."""
        cdef const TailNode* node
        cdef int i, state, count = 0, visited = 0
        cdef bint leaves = False
        cdef uint64_t follow[4]
        if self.tails.count < 0:
            return UNLIKE
        self.path[0] = self.automaton.enter(q, OUTSIDE, 0)
        if self.automaton.states[self.path[0]].flags & EXITS:
            return UNLIKE
        self.automaton.follow(self.path[0], follow)
        for i in range(4):
            if follow[i] & ~self.tails.firsts[i]:
                return UNLIKE
        i = 0
        while i < self.tails.count:
            node, visited = self.tails.nodes + i, visited + 1
            state = self.automaton.next_state(self.path[node.depth - 1], node.byte)
            if state == DEAD:
                i = node.end
                continue
            self.path[node.depth], self.found[count] = state, i
            count += 1
            if self.automaton.states[state].flags & EXITS and node.end > i + 1:
                self.found[count], leaves = -1, True
                count += 1
            i += 1
        work(self.automaton.meter, visited)
        return self.kept(PyBytes_FromStringAndSize(<const char*>self.found, count * sizeof(self.found[0])), leaves)

    cdef int kept(self, bytes key, bint leaves) except -1:
        """Return the index of a kind."""
        known = self.kinds.get(key)
        if known is None:
            ints_room(&self.leaves, 1)
            known = self.kinds[key] = self.leaves.size
            ints_put(&self.leaves, leaves)
            self.bytes += KEPT + len(key)
        return known
