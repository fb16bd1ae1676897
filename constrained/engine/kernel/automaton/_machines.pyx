# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Machine states with their edges in flat arrays: the states of the pushdown automaton before it is determinised.

A state is an int: even q = machine q / 2, which stands here; odd q = position q / 2 inside a text, see
`texts._positions`.  Edges are ranges of bytes, calls of other states, tokens that are named.

Owns: machines and their edges.  Borrows: nothing.
Invariants: the edges of a machine are never changed once its flag EXPANDED is set, and stand one after another;
objects[i] belongs to at[i].
Plain twin: `machine.Edges`.
"""
from cython cimport final
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset
from constrained.engine.memory._memory cimport enlarged, released
from constrained.engine.kernel._tables cimport Ints, ints_free, ints_put, ints_room

cdef enum:
    WITH_OBJECT = 200   # bytes of a machine, with what stands behind it
    ALONE = 80


@final
cdef class Machines:
    """Machines by number; `_expansion` fills them in."""

    def __cinit__(self):
        self.objects = []

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        released(self.at)
        self.at, self.count, self.room = NULL, 0, 0
        ints_free(&self.ranges)
        ints_free(&self.calls)
        ints_free(&self.tokens)

    cdef int clear(self) except -1:
        """Give all memory back; no machine has a number any more."""
        self.release()
        self.bytes = 0
        self.objects = []
        return 0

    cdef int fresh(self, object state) except -1:
        """Return the number of a new machine without edges."""
        cdef int fresh = self.count
        if fresh == self.room:
            self.at = <Machine*>enlarged(self.at, &self.room, sizeof(Machine), 64)
        self.objects.append(state)
        self.count += 1
        memset(&self.at[fresh], 0, sizeof(Machine))
        self.at[fresh].quoting = -1
        self.bytes += WITH_OBJECT if state is not None else ALONE
        return fresh

    cdef int add_range(self, int machine, int low, int high, int target) except -1:
        """Add a range of bytes to a machine; nothing may be added to others until all its ranges are there."""
        cdef Machine* m = &self.at[machine]
        ints_room(&self.ranges, 3)
        if m.ranges == m.ranges_end:
            m.ranges = self.ranges.size
        ints_put(&self.ranges, low)
        ints_put(&self.ranges, high)
        ints_put(&self.ranges, target)
        m.ranges_end = self.ranges.size
        return 0

    cdef int set_calls(self, int machine, const Ints* pairs) except -1:
        """Give a machine its calls."""
        ints_room(&self.calls, pairs.size)
        self.at[machine].calls = add_all(&self.calls, pairs)
        self.at[machine].calls_end = self.calls.size
        return 0

    cdef int set_edges(self, int machine, const Ints* ranges, const Ints* calls, const Ints* tokens) except -1:
        """Give a machine all its edges."""
        cdef Machine* m = &self.at[machine]
        ints_room(&self.ranges, ranges.size)
        ints_room(&self.calls, calls.size)
        ints_room(&self.tokens, tokens.size)
        m.ranges, m.ranges_end = add_all(&self.ranges, ranges), self.ranges.size
        m.calls, m.calls_end = add_all(&self.calls, calls), self.calls.size
        m.tokens, m.tokens_end = add_all(&self.tokens, tokens), self.tokens.size
        return 0


cdef inline int add_all(Ints* into, const Ints* numbers) noexcept nogil:
    """Add numbers for which there is room; return where they begin."""
    if numbers.size:
        memcpy(into.at + into.size, numbers.at, 4 * <size_t>numbers.size)
    into.size += numbers.size
    return into.size - numbers.size
