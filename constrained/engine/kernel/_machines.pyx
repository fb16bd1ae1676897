# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Machine states, stacks and records of the compiled kernel, interned as ints."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from constrained.engine.memory._memory cimport enlarged
from constrained.engine.memory._memory cimport enlarged
from libc.string cimport memset
from constrained.engine.kernel._tables cimport (
    Ints, Map, ints_add, ints_put, ints_room, map_get, map_put, map_room, mix, pair)
from constrained.engine.kernel._languages cimport NONE
from constrained.engine.memory._meter cimport Meter, ask, work
from constrained.engine.kernel._text cimport Texts

from constrained.engine.twin.spelling import decode, variants
from constrained.errors import LimitExceeded
from constrained.machine import END, Bytes, Dispatch, Surface, Text

from bisect import bisect_left

SURFACES = tuple(Surface)

cdef enum:
    RECENT = 32
    ASKED = 512         # ticks that it takes to ask a state for its edges, and to list a third of one
    LISTED = 16
    FRAME = 8           # ticks to sort a frame in


cdef class Machines:
    """What the automaton is made of; the base of `Automaton`, split off for the reader's sake only."""

    def __cinit__(self, *args, **options):
        cdef int surface
        self.meter = Meter()
        self.texts, self.objects, self.machine_ids, self.ordered_texts = Texts(self.meter), [], {}, {}
        for surface in range(8):
            ints_add(&self.record_parent, -1)
            ints_add(&self.record_byte, -1)
        ints_add(&self.stack_first, 0)
        self.intern_stack([-1, -1, -1], 1)
        self.intern_stack([-2, -1, -1], 1)

    def __dealloc__(self):
        for pointer in (<size_t>self.machines, <size_t>self.ranges.at, <size_t>self.calls.at, <size_t>self.tokens.at,
                        <size_t>self.dispatched.at,
                        <size_t>self.recorded_after.at, <size_t>self.frames.at, <size_t>self.stack_first.at,
                        <size_t>self.stack_ids.at,
                        <size_t>self.stack_next.at, <size_t>self.unions.at, <size_t>self.pushed.at,
                        <size_t>self.stepped.at,
                        <size_t>self.popped.at, <size_t>self.record_parent.at, <size_t>self.record_byte.at,
                        <size_t>self.record_ids.at):
            free(<void*><size_t>pointer)

    # -- machine states
    # -------------------------------------------------------------------------------------------------

    cdef int machine(self, object state) except -1:
        """Return the number of a machine state; a bare Text is a position, everything else a table."""
        cdef int fresh
        found = self.machine_ids.get(state)
        if found is not None:
            return found
        if isinstance(state, Text) and state.surface == Surface.RAW:
            ((spelling, language),) = variants(state.surface, state.language)
            found = 2 * self.texts.body(self.texts.spelling(spelling), self.texts.language(language)) + 1
            self.machine_ids[state] = found
            return found
        fresh = self.fresh(state)
        if state is END:
            self.machines[fresh].flags = EXPANDED | ACCEPTING | TAIL
        elif isinstance(state, Dispatch):
            self.machines[fresh].flags = (
                EXPANDED | DISPATCH | (RECORDS if state.records else 0) | (REFUSES if state.refuses else 0))
        elif isinstance(state, Text):
            self._expand_text(fresh, state)
        elif isinstance(state, Bytes):
            self._expand_bytes(fresh, state.data, state.then)
        self.machine_ids[state] = 2 * fresh     # last: nobody finds one that is half made
        return 2 * fresh

    cdef int fresh(self, object state) except -1:
        """Return the index of a new machine."""
        cdef int fresh = self.machine_count
        if fresh == self.machine_room:
            self.machines = <Machine*>enlarged(self.machines, &self.machine_room, sizeof(Machine), 64)
        self.objects.append(state)
        self.machine_count += 1
        memset(&self.machines[fresh], 0, sizeof(Machine))
        self.machines[fresh].surface = -1
        self.bytes += 200 if state is not None else 80
        return fresh

    def _expand_bytes(self, int at, bytes data, then):
        """Lay out fixed bytes as a chain of states, without an object for each, from the last one on."""
        cdef int i, fresh, target = self.machine(then)
        for i in range(len(data) - 1, -1, -1):
            fresh = self.fresh(None) if i else at
            ints_room(&self.ranges, 3)
            self.machines[fresh].flags = EXPANDED
            self.machines[fresh].ranges = self.ranges.size
            ints_put(&self.ranges, data[i])
            ints_put(&self.ranges, data[i])
            ints_put(&self.ranges, target)
            self.machines[fresh].ranges_end = self.ranges.size
            target = 2 * fresh

    def _expand_text(self, int at, text):
        cdef int target
        self.machines[at].surface = text.surface
        self.machines[at].flags = EXPANDED
        self.machines[at].ranges = self.ranges.size
        for spelling, language in variants(text.surface, text.language):
            if language is not None:
                target = 2 * self.texts.body(self.texts.spelling(spelling), self.texts.language(language)) + 1
                ints_add(&self.ranges, spelling.opening[0])
                ints_add(&self.ranges, spelling.opening[0])
                ints_add(&self.ranges, target)
        self.machines[at].ranges_end = self.ranges.size

    cdef int expand(self, int at) except -1:
        """Ask a machine state for its edges; they are stored only when all targets are known, because targets may be
        new."""
        cdef int size
        cdef list ranges = [], calls = [], tokens = []
        ask(self.meter)
        edges = self.objects[at].expand()
        for low, high, target in edges.ranges:
            ranges += (low, high, self.machine(target))
        for callee, after in edges.calls:
            calls += (self.machine(callee), self.machine(after))
        for name, target in edges.tokens:
            tokens += (self.specials[name], self.machine(target))
        cdef Machine* m = &self.machines[at]
        m.ranges = self.ranges.size
        for x in ranges:
            ints_add(&self.ranges, x)
        m.ranges_end, m.calls = self.ranges.size, self.calls.size
        for x in calls:
            ints_add(&self.calls, x)
        m.calls_end, m.tokens = self.calls.size, self.tokens.size
        for x in tokens:
            ints_add(&self.tokens, x)
        m.tokens_end = self.tokens.size
        m.flags |= EXPANDED | (ACCEPTING if edges.accepting else 0)
        self.bytes += 8 * (len(ranges) + len(calls) + len(tokens))
        return work(self.meter, ASKED + LISTED * (len(ranges) + len(calls) + len(tokens)))

    cdef int returned(self, int q, int after, int record) except -2:
        """Return the machine state that follows a call, NONE where the text that was read is refused."""
        cdef Machine* m = &self.machines[after >> 1]
        cdef int label, found
        if after & 1 or not m.flags & DISPATCH:
            return after
        if m.flags & RECORDS:
            found = map_get(&self.recorded_after, after, record)
            if found < 0:
                found = self.following(after, self.recorded(record)) + 1
                map_put(&self.recorded_after, after, record, found)
        else:
            label = self.texts.label(q >> 1)
            found = map_get(&self.dispatched, after, label)
            if found < 0:
                ask(self.meter)
                target = self.objects[after >> 1].after(label)
                found = self.machine(target) + 1 if target is not None else 0
                map_put(&self.dispatched, after, label, found)
        return found - 1

    cdef int following(self, int after, object text) except -2:
        """Return the machine state that follows a recorded text (None: an ordinary one), NONE where it is refused."""
        ask(self.meter)
        work(self.meter, ASKED + (len(text) if text is not None else 0))
        target = self.objects[after >> 1].after_text(text)
        return self.machine(target) if target is not None else NONE

    cdef bint is_special(self, int after, object text) except -1:
        """Say whether a recording Dispatch treats a text apart."""
        return text in self.objects[after >> 1].special

    cdef list special_texts(self, int after, str start, int most):
        """Return the texts that start so and that a recording Dispatch treats apart, None if these are more than
        `most`."""
        texts = self.objects[after >> 1].special
        ordered = self.ordered_texts.get(texts)
        if ordered is None:
            if len(self.ordered_texts) >= RECENT:
                self.ordered_texts.clear()
            ordered = self.ordered_texts[texts] = tuple(sorted(texts))
        return self.starting(ordered, start, most)

    cdef list starting(self, tuple texts, str start, int most):
        """Return those of some sorted texts that start so, None if these are more than `most`."""
        cdef int first = bisect_left(texts, start), last = first, count = len(texts)
        while last < count and (<str>texts[last]).startswith(start):
            last += 1
            if last - first > most:
                return None
        return list(texts[first:last])

    cdef int telling(self, int after) except -2:
        """Return its `tells_from`, -1 for None."""
        tells_from = self.objects[after >> 1].tells_from
        return -1 if tells_from is None else tells_from

    cdef bytes told_by(self, int after):
        return self.objects[after >> 1].told_by

    def recorded(self, int record, bytes closing=b""):
        """Return the text of a record; `closing` completes one that is still inside its text."""
        cdef int size = 0, at = record
        while at >= 8:
            at = self.record_parent.at[at]
            size += 1
        cdef bytes spelled = PyBytes_FromStringAndSize(NULL, size)
        cdef char* byte = spelled
        while size:
            size -= 1
            byte[size] = <char>self.record_byte.at[record]
            record = self.record_parent.at[record]
        return decode(SURFACES[record], spelled + closing)

    # -- stacks --------------------------------------------------------------------------------------------------------

    def intern_stack(self, list frames, int count):
        """Return the stack with these frames (flat triples)."""
        cdef int i
        cdef Ints* work = &self.frames
        cdef int first = self.begin_frames()
        for i in range(3 * count):
            ints_add(work, frames[i])
        return self.settle_stack(first)

    cdef int begin_frames(self) noexcept:
        """Return where the frames of a new stack begin; those that an operation left behind which broke off are
        forgotten."""
        self.frames.size = self.stack_first.at[self.stack_first.size - 1]
        return self.frames.size

    cdef int settle_stack(self, int first) except -1:
        """Intern the frames that stand at the end of `frames` from `first` on, sorted and distinct in (after,
        record)."""
        cdef uint64_t a = 0x51ED, b = 0x7F4A
        cdef int i, count = self.frames.size - first, known, candidate, start
        for i in range(first, self.frames.size):
            a = mix(a, <uint64_t><unsigned int>self.frames.at[i])
            b = mix(b ^ a, <uint64_t>i - first)
        known = map_get(&self.stack_ids, a, b)
        candidate = known
        while candidate >= 0:
            start = self.stack_first.at[candidate]
            if self.stack_first.at[candidate + 1] - start == count:
                for i in range(count):
                    if self.frames.at[start + i] != self.frames.at[first + i]:
                        break
                else:
                    self.frames.size = first
                    return candidate
            candidate = self.stack_next.at[candidate]
        candidate = self.stack_first.size - 1
        ints_room(&self.stack_first, 1)
        ints_room(&self.stack_next, 1)
        map_room(&self.stack_ids)
        ints_put(&self.stack_first, self.frames.size)
        ints_put(&self.stack_next, -1)
        if known < 0:
            map_put(&self.stack_ids, a, b, candidate)
        else:
            while self.stack_next.at[known] >= 0:
                known = self.stack_next.at[known]
            self.stack_next.at[known] = candidate
        self.bytes += 12 * count + 64
        return candidate

    cdef int push(self, int after, int record, int stack) except -1:
        cdef int known = map_get(&self.pushed, pair(after, record), stack)
        if known < 0:
            known = self.begin_frames()
            ints_add(&self.frames, after)
            ints_add(&self.frames, record)
            ints_add(&self.frames, stack)
            known = self.settle_stack(known)
            map_put(&self.pushed, pair(after, record), stack, known)
        return known

    cdef int merge(self, int x, int y, int level) except -1:
        """Return the union of two stacks: frames of both, parents of equal frames merged."""
        cdef int i, j, m, n, known, side
        cdef Ints merged
        cdef int32_t* f
        cdef int32_t* g
        if x == y:
            return x
        if x > y:
            x, y = y, x
        known = map_get(&self.unions, x, y)
        if known >= 0:
            return known
        if level > 20_000:
            raise LimitExceeded("stacks nest too deeply to merge", because="20,000 nested calls are ambiguous",
                                instead="make the grammar less ambiguous")
        memset(&merged, 0, sizeof(Ints))
        i, m = self.stack_first.at[x], self.stack_first.at[x + 1]
        j, n = self.stack_first.at[y], self.stack_first.at[y + 1]
        try:
            while i < m or j < n:
                f = &self.frames.at[i] if i < m else NULL
                g = &self.frames.at[j] if j < n else NULL
                side = 0
                if f == NULL:
                    side = 1
                elif g == NULL:
                    side = -1
                elif f[0] != g[0]:
                    side = -1 if f[0] < g[0] else 1
                elif f[1] != g[1]:
                    side = -1 if f[1] < g[1] else 1
                if side <= 0:
                    ints_add(&merged, f[0])
                    ints_add(&merged, f[1])
                    ints_add(&merged, f[2] if side < 0 or f[2] == g[2] else self.merge(f[2], g[2], level + 1))
                    i += 3
                    if side == 0:
                        j += 3
                else:
                    ints_add(&merged, g[0])
                    ints_add(&merged, g[1])
                    ints_add(&merged, g[2])
                    j += 3
            work(self.meter, FRAME * merged.size)
            known = self.begin_frames()
            for i in range(merged.size):
                ints_add(&self.frames, merged.at[i])
        finally:
            free(merged.at)
        known = self.settle_stack(known)
        map_put(&self.unions, x, y, known)
        return known

    cdef int record_step(self, int stack, int byte) except -1:
        """Return the stack whose records have one more byte."""
        cdef int known = map_get(&self.stepped, stack, byte), i, record, fresh, first
        cdef Ints moved
        if known >= 0:
            return known
        first = self.begin_frames()
        for i in range(self.stack_first.at[stack], self.stack_first.at[stack + 1], 3):
            record = self.frames.at[i + 1]
            if record >= 0:
                fresh = map_get(&self.record_ids, record, byte)
                if fresh < 0:
                    ints_room(&self.record_parent, 1)
                    ints_room(&self.record_byte, 1)
                    map_room(&self.record_ids)
                    fresh = self.record_parent.size
                    ints_put(&self.record_parent, record)
                    ints_put(&self.record_byte, byte)
                    map_put(&self.record_ids, record, byte, fresh)
                record = fresh
            ints_add(&self.frames, self.frames.at[i])
            ints_add(&self.frames, record)
            ints_add(&self.frames, self.frames.at[i + 2])
        if self.frames.size - first > 3:
            self.sort_frames(first)
        known = self.settle_stack(first)
        map_put(&self.stepped, stack, byte, known)
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

    cdef bint refuses(self, int stack) noexcept:
        """Say whether what follows the text above a stack may refuse it."""
        cdef int i
        for i in range(self.stack_first.at[stack], self.stack_first.at[stack + 1], 3):
            if self.frames.at[i + 1] >= 0 and self.machines[self.frames.at[i] >> 1].flags & REFUSES:
                return True
        return False

    cdef bint records(self, int stack) noexcept:
        cdef int i
        for i in range(self.stack_first.at[stack], self.stack_first.at[stack + 1], 3):
            if self.frames.at[i + 1] >= 0:
                return True
        return False
