# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Stacks: what is to be read after the machine states at hand; a graph of frames, interned as ints.

A frame is where to go on after a call: (after, record, parent), `after` a machine state, `record` the bytes read so far
where `after` wants to know them, `parent` the stack below.  A stack is a *set* of frames: readings that share a machine
state share one stack, the merger of theirs, so an ambiguous grammar has as many configurations as machine states.

    calls  a → X, then b  and  a → X, then c:     X ── {(b, -, 0), (c, -, 0)} ── BOTTOM

Owns: stacks, records.  Borrows: the kernel's meter of work.
Invariants: stack i is one set of frames for ever; its frames are sorted and distinct in (after, record); parents have
smaller numbers, so no chain of parents is a circle.
Plain twin: `twin.automaton.Frame` and `_push`, which keep readings apart instead of merging them.
Source: Tomita 1986 (graph-structured stacks); sets in canonical form: ours.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memset
from constrained.engine.memory._memory cimport released
from constrained.engine.memory._meter cimport Meter, work
from constrained.engine.kernel._tables cimport (
    Ints, Map, ints_add, ints_free, ints_put, ints_room, map_add, map_find, map_free, map_get, map_put,
    map_room, mix, pair)

from constrained.engine.twin.spelling import decode
from constrained.errors import LimitExceeded
from constrained.machine import Quoting

QUOTINGS = tuple(Quoting)
cdef int RAW = Quoting.RAW

cdef enum:
    FRAME = 8           # ticks to sort a frame in
    SETTLED = 28        # ticks of a new stack: tables of millions of entries are in no cache of the processor
    KEY = 64            # bytes of an entry of a table, which is a quarter to half full
    DEEPEST = 20_000    # nested frames that are merged at once


@final
cdef class Stacks:
    """Stacks and records by number."""

    def __cinit__(self, Meter meter):
        cdef int quoting, after
        self.meter = meter
        for quoting in range(8):
            ints_add(&self.record_parent, -1)
            ints_add(&self.record_byte, -1)
        ints_add(&self.first, 0)
        for after in (ENDS, LEAVES):        # BOTTOM and OUTSIDE
            self.push(after, -1, -1)

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        ints_free(&self.frames)
        ints_free(&self.first)
        ints_free(&self.next)
        ints_free(&self.record_parent)
        ints_free(&self.record_byte)
        map_free(&self.ids)
        map_free(&self.unions)
        map_free(&self.pushed)
        map_free(&self.stepped)
        map_free(&self.record_ids)

    cdef int clear(self) except -1:
        """Give all memory back; no stack has a number any more."""
        self.release()
        self.bytes = 0
        return 0

    # -- making stacks -------------------------------------------------------------------------------------------------

    cdef int begin(self) noexcept:
        """Return where the frames of a new stack begin; those that an operation left behind which broke off are
        forgotten."""
        self.frames.size = self.first.at[self.first.size - 1]
        return self.frames.size

    cdef int settle(self, int first) except -1:
        """Intern the frames that stand at the end of `frames` from `first` on, sorted and distinct in (after,
        record)."""
        cdef uint64_t a = 0x51ED
        cdef uint32_t near = 0
        cdef int i, count = self.frames.size - first, known, candidate, start
        cdef const int32_t* frame
        for i in range(first, self.frames.size, 3):
            frame = self.frames.at + i
            a = mix(a, mix(pair(frame[0], frame[1]), frame[2]))
            near += <uint32_t>(frame[0] + frame[1] + frame[2])
        known = map_find(&self.ids, a, count, near)
        candidate = known
        while candidate >= 0:
            start = self.first.at[candidate]
            if self.first.at[candidate + 1] - start == count:
                for i in range(count):
                    if self.frames.at[start + i] != self.frames.at[first + i]:
                        break
                else:
                    self.frames.size = first
                    return candidate
            candidate = self.next.at[candidate]
        self.meter.ticks += SETTLED + count     # handed on by the closure
        candidate = self.first.size - 1
        ints_room(&self.first, 1)
        ints_room(&self.next, 1)
        map_room(&self.ids)
        ints_put(&self.first, self.frames.size)
        ints_put(&self.next, -1)
        if known < 0:
            map_add(&self.ids, a, count, near, candidate)
        else:
            while self.next.at[known] >= 0:
                known = self.next.at[known]
            self.next.at[known] = candidate
        self.bytes += 12 * count + 8 + KEY
        return candidate

    cdef int push(self, int after, int record, int stack) except -1:
        cdef int known = map_get(&self.pushed, pair(after, record), stack)
        if known < 0:
            known = self.begin()
            ints_add(&self.frames, after)
            ints_add(&self.frames, record)
            ints_add(&self.frames, stack)
            known = self.settle(known)
            map_put(&self.pushed, pair(after, record), stack, known)
            self.bytes += KEY
        return known

    cdef int merge(self, int x, int y, int level) except -1:
        """Return the union of two stacks: frames of both, parents of equal frames merged.

        level: how many merged frames lie above, 0 for whoever asks.
        """
        cdef int i, known
        cdef Ints merged
        if x == y:
            return x
        if x > y:
            x, y = y, x
        known = map_get(&self.unions, x, y)
        if known >= 0:
            return known
        if level > DEEPEST:
            raise LimitExceeded("stacks nest too deeply to merge", because="20,000 nested calls are ambiguous",
                                instead="make the grammar less ambiguous")
        memset(&merged, 0, sizeof(Ints))
        try:
            self.merge_frames(x, y, level, &merged)
            work(self.meter, FRAME * merged.size)
            known = self.begin()
            for i in range(merged.size):
                ints_add(&self.frames, merged.at[i])
        finally:
            released(merged.at)
        known = self.settle(known)
        map_put(&self.unions, x, y, known)
        self.bytes += KEY
        return known

    cdef int merge_frames(self, int x, int y, int level, Ints* merged) except -1:
        """List the frames of two stacks in order; a frame of both has the union of the two parents."""
        cdef int i = self.first.at[x], m = self.first.at[x + 1], j = self.first.at[y], n = self.first.at[y + 1]
        cdef int side, after, record, parent, k
        cdef int32_t* f
        cdef int32_t* g
        while i < m or j < n:
            f = &self.frames.at[i]
            g = &self.frames.at[j]
            if i == m or j == n:
                side = 1 if i == m else -1
            elif f[0] != g[0]:
                side = -1 if f[0] < g[0] else 1
            else:
                side = 0 if f[1] == g[1] else -1 if f[1] < g[1] else 1
            if side > 0:
                f = g
            after, record, parent = f[0], f[1], f[2]
            if side == 0 and parent != g[2]:
                parent = self.merge(parent, g[2], level + 1)    # which moves `frames`
            ints_add(merged, after)
            ints_add(merged, record)
            ints_add(merged, parent)
            i += 3 * (side <= 0)
            j += 3 * (side >= 0)
        return 0

    # -- records: bytes of a text that is being read -------------------------------------------------------------------

    cdef int record_step(self, int stack, int byte) except -1:
        """Return the stack whose records have one more byte."""
        cdef int known, i, record, first
        # PERF: one frame is as soon settled as looked up; nearly all are single, and new
        cdef bint single = self.first.at[stack + 1] == self.first.at[stack] + 3
        known = -1 if single else map_get(&self.stepped, stack, byte)
        if known >= 0:
            return known
        first = self.begin()
        for i in range(self.first.at[stack], self.first.at[stack + 1], 3):
            record = self.frames.at[i + 1]
            ints_add(&self.frames, self.frames.at[i])
            ints_add(&self.frames, self.record_with(record, byte) if record >= 0 else record)
            ints_add(&self.frames, self.frames.at[i + 2])
        if self.frames.size - first > 3:
            self.sort_frames(first)
        known = self.settle(first)
        if not single:
            map_put(&self.stepped, stack, byte, known)
            self.bytes += KEY
        return known

    cdef int record_with(self, int record, int byte) except -1:
        cdef int known = map_get(&self.record_ids, record, byte)
        if known < 0:
            ints_room(&self.record_parent, 1)
            ints_room(&self.record_byte, 1)
            map_room(&self.record_ids)
            known = self.record_parent.size
            ints_put(&self.record_parent, record)
            ints_put(&self.record_byte, byte)
            map_put(&self.record_ids, record, byte, known)
            self.bytes += 8 + KEY
        return known

    cdef void sort_frames(self, int first) noexcept:
        """Sort the last frames by (after, record); a step keeps them distinct."""
        cdef int i, j, k
        cdef int32_t* f
        cdef int32_t* g
        for i in range(first + 3, self.frames.size, 3):
            j = i
            while j > first:
                f = &self.frames.at[j]
                g = f - 3
                if g[0] < f[0] or (g[0] == f[0] and g[1] < f[1]):
                    break
                for k in range(3):
                    f[k], g[k] = g[k], f[k]
                j -= 3

    cdef bint records(self, int stack) noexcept:
        cdef int i
        for i in range(self.first.at[stack], self.first.at[stack + 1], 3):
            if self.frames.at[i + 1] >= 0:
                return True
        return False

    cdef object recorded(self, int record, bytes closing):
        """Return the text of a record; `closing` completes one that is still inside its text."""
        cdef int size = 0, at = record, i
        while at >= 8:
            at = self.record_parent.at[at]
            size += 1
        cdef bytes spelled = PyBytes_FromStringAndSize(NULL, size)
        cdef char* byte = spelled
        cdef bint plain = at != RAW
        for i in range(size - 1, -1, -1):
            byte[i] = <char>self.record_byte.at[record]
            plain = plain and byte[i] != 0x5C
            record = self.record_parent.at[record]
        if plain:   # PERF: as `decode` says
            return PyUnicode_DecodeUTF8(byte + 1, size - (1 if closing else 2), NULL)
        return decode(QUOTINGS[record], spelled + closing)
