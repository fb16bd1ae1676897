# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Closures: all configurations that calls and returns reach from some without reading a byte.

A configuration is (machine state, stack).  A machine state that calls another adds the callee, on a stack with one
frame more; one that accepts adds what the frames of its stack say.  Of the result those are kept that read something: a
byte, a named token.

Owns: the closure in the making and the last result.  Borrows: machines, stacks, positions inside texts, `Expansion` and
`Dispatches`, all of which grow as it asks; the meter of work.
Invariants: `closed` has each machine state once, with the union of the stacks that it was reached on; a closure that
broke off leaves nothing that the next one would read.
Plain twin: `twin.automaton.PlainKernel._close`, which keeps stacks apart.
Source: Earley sets and LR item closures in pushdown form, folklore; over merged stacks: Tomita 1986.
"""
from cython cimport final
from libc.stdint cimport uint64_t
from constrained.engine.memory._meter cimport Meter, SLICE, work
from constrained.engine.kernel._tables cimport Ints, Map, ints_add, ints_free, ints_room, map_free, map_get, map_put
from constrained.engine.kernel.automaton._dispatch cimport Dispatches
from constrained.engine.kernel.automaton._expansion cimport Expansion
from constrained.engine.kernel.automaton._machines cimport ACCEPTING, EXPANDED, Machine, Machines, RECORDS, TAIL
from constrained.engine.kernel.automaton._stacks cimport ENDS, LEAVES, Stacks
from constrained.engine.kernel.texts._positions cimport BODY, DONE, Position, Positions

from constrained.errors import LimitExceeded

cdef enum:
    MANY = 64           # numbers in `closed` from which on it is searched by a table
    REACHED = 16        # ticks of a configuration


@final
cdef class Closure:
    """Closes configurations; the result stands in `closed` until the next call."""

    def __cinit__(self, Dispatches dispatches, long most):
        self.meter, self.machines, self.stacks = dispatches.meter, dispatches.machines, dispatches.stacks
        self.positions, self.expansion, self.dispatches = dispatches.positions, dispatches.expansion, dispatches
        self.most = most

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        ints_free(&self.closed)
        ints_free(&self.work)
        ints_free(&self.order)
        ints_free(&self.trail)
        map_free(&self.closed_at)

    cdef int clear(self) except -1:
        """Give all memory back."""
        self.release()
        return 0

    cdef int close(self, const Ints* seeds) except -1:
        """Close some configurations, pairs (machine state or -1, stack), into `closed` and `flags`; return its size."""
        cdef int i, q, stack, kept = 0
        self.flags = self.work.size = self.closed.size = 0
        if self.take_closed(seeds):
            return self.closed.size
        if self.closed_at.at != NULL:
            map_free(&self.closed_at)
        self.reach_all(seeds)
        while self.call_all() or self.work.size:
            self.reach_work()
        for i in range(0, self.closed.size, 2):
            q, stack = self.closed.at[i], self.closed.at[i + 1]
            if self.reads(q):
                self.insert(kept, q, stack)
                kept += 2
        self.closed.size = kept
        return kept

    cdef bint take_closed(self, const Ints* seeds) except -1:
        """Take seeds that are closed as they are, sorted; say whether they were.

        PERF: as in the middle of a text, a third of the instructions of a step there.
        """
        cdef int i
        if seeds.size > MANY or seeds.size > 2 * self.most + 2:
            return False
        for i in range(0, seeds.size, 2):
            if not self.stands(seeds.at[i]) or self.find(seeds.at[i]) >= 0:
                self.closed.size = 0
                return False
            ints_room(&self.closed, 2)
            self.insert(i, seeds.at[i], seeds.at[i + 1])
            self.closed.size = i + 2
        work(self.meter, REACHED * (seeds.size // 2))
        return True

    cdef bint stands(self, int q) noexcept:
        """Say whether a machine state reads something, neither calls another nor is accepting, and that without being
        asked for its edges: it is its own closure."""
        cdef Position* p
        cdef Machine* m
        if q < 0:
            return False
        if q & 1:
            p = &self.positions.at[q >> 1]
            return p.place != DONE and (p.place != BODY or self.positions.spellings[p.spelling].closing >= 0)
        m = &self.machines.at[q >> 1]
        return (m.flags & (EXPANDED | ACCEPTING) == EXPANDED and m.calls == m.calls_end
                and (m.ranges < m.ranges_end or m.tokens < m.tokens_end))

    cdef int reach_all(self, const Ints* seeds) except -1:
        cdef int i
        for i in range(seeds.size - 2, -2, -2):
            if self.meter.ticks >= SLICE:
                self.meter.flush()
            self.reach(seeds.at[i], seeds.at[i + 1])
            self.reach_work()
        return 0

    cdef int reach_work(self) except -1:
        while self.work.size:
            if self.meter.ticks >= SLICE:
                self.meter.flush()
            self.work.size -= 2
            self.reach(self.work.at[self.work.size], self.work.at[self.work.size + 1])
        return 0

    cdef int reach(self, int q, int stack) except -1:
        """Add a configuration, and queue what it returns to."""
        if q < 0 or not self.join(q, stack):
            return 0
        return self.return_from(q, stack)

    cdef bint join(self, int q, int stack) except -1:
        """Add a configuration; say whether it, or a frame of its stack, is new."""
        cdef int known, both
        self.meter.ticks += REACHED         # PERF: `work`, in which a reference is counted, only once per closure
        known = self.find(q)
        if known >= 0:
            both = self.stacks.merge(self.closed.at[known + 1], stack, 0)
            if both == self.closed.at[known + 1]:
                return False
            self.closed.at[known + 1] = both
            return True
        known = ints_add(&self.closed, q)
        ints_add(&self.closed, stack)
        if known == MANY:
            self.index()
        elif known > MANY:
            map_put(&self.closed_at, q, 0, known)
        if known > 2 * self.most:
            raise LimitExceeded(
                "too many readings of the text at once",
                because=f"more than {self.most:,} configurations are alive",
                instead="make the grammar less ambiguous, or raise max_configurations",
            )
        return True

    cdef int find(self, int q) noexcept:
        """Return where a machine state stands in `closed`, -1: nowhere; a table is only used for wide closures."""
        cdef int i
        if self.closed.size > MANY:
            return map_get(&self.closed_at, q, 0)
        for i in range(0, self.closed.size, 2):
            if self.closed.at[i] == q:
                return i
        return -1

    cdef int index(self) except -1:
        cdef int i
        for i in range(0, self.closed.size, 2):
            map_put(&self.closed_at, self.closed.at[i], 0, i)
        return 0

    # -- returns -------------------------------------------------------------------------------------------------------

    cdef int return_from(self, int q, int stack) except -1:
        """Queue what a configuration returns to, if it is accepting."""
        if q & 1:
            return self.pop(q, stack) if self.positions.accepting(q >> 1) else 0
        if not self.machines.at[q >> 1].flags & EXPANDED:
            self.expansion.expand(q >> 1)
        return self.pop(q, stack) if self.machines.at[q >> 1].flags & ACCEPTING else 0

    cdef int pop(self, int q, int stack) except -1:
        cdef int i, after, target
        cdef Stacks stacks = self.stacks
        for i in range(stacks.first.at[stack], stacks.first.at[stack + 1], 3):
            after = stacks.frames.at[i]
            if after == ENDS:
                self.flags |= FINAL
            elif after == LEAVES:
                self.flags |= EXITS
            else:
                target = self.dispatches.returned(q, after, stacks.frames.at[i + 1])
                if target >= 0:
                    ints_add(&self.work, target)
                    ints_add(&self.work, stacks.frames.at[i + 2])
        return 0

    # -- calls ---------------------------------------------------------------------------------------------------------

    cdef bint call_all(self) except -1:
        """Add what the configurations of the closure call; say whether that must be done again, since one that has
        called got more frames.

        Callers come before what they call, so each passes its whole stack on at once, unless machines call each other
        in a circle.
        PERF: passed on as they are found, the frames of a chain of twenty levels of precedence make some hundred stacks
        for each state.
        """
        cdef int i, j, machine, stack
        cdef bint again = False
        cdef Machines machines = self.machines
        self.number += 2
        self.order.size = 0
        for i in range(0, self.closed.size, 2):
            if not self.closed.at[i] & 1:
                self.put_in_order(self.closed.at[i] >> 1)
        for i in range(self.order.size - 1, -1, -1):
            machine = self.order.at[i]
            machines.at[machine].seen = self.number + 1
            stack = self.closed.at[self.find(2 * machine) + 1]
            for j in range(machines.at[machine].calls, machines.at[machine].calls_end, 2):
                again |= self.call(stack, machines.calls.at[j], machines.calls.at[j + 1])
            if self.meter.ticks >= SLICE:
                self.meter.flush()
        return again

    cdef bint call(self, int stack, int callee, int after) except -1:
        """Add what a machine calls, on its stack with one frame more; say whether the callee has passed on its own
        stack already, and now has more to pass on."""
        cdef Machine* m = &self.machines.at[after >> 1] if not after & 1 else NULL
        cdef int record
        if m == NULL or not m.flags & TAIL:
            record = -1
            if m != NULL and m.flags & RECORDS:
                record = 0 if callee & 1 else self.machines.at[callee >> 1].quoting
            stack = self.stacks.push(after, record, stack)
        if not self.join(callee, stack):
            return False
        self.return_from(callee, stack)
        return not callee & 1 and self.machines.at[callee >> 1].seen == self.number + 1

    cdef int put_in_order(self, int machine) except -1:
        """Append a machine state that calls others to `order`, behind those of them that call others, unless it is
        there."""
        cdef int at
        if not self.visit(machine):
            return 0
        self.trail.size = 0
        ints_add(&self.trail, machine)
        ints_add(&self.trail, self.machines.at[machine].calls)
        while self.trail.size:
            machine, at = self.trail.at[self.trail.size - 2], self.trail.at[self.trail.size - 1]
            if at == self.machines.at[machine].calls_end:
                self.trail.size -= 2
                ints_add(&self.order, machine)
                continue
            self.trail.at[self.trail.size - 1] = at + 2
            machine = self.machines.calls.at[at]
            if not machine & 1 and self.visit(machine >> 1):
                ints_add(&self.trail, machine >> 1)
                ints_add(&self.trail, self.machines.at[machine >> 1].calls)
        return 0

    cdef bint visit(self, int machine) except -1:
        """Say whether a machine state calls others and was not visited in this closure."""
        if not self.machines.at[machine].flags & EXPANDED:
            self.expansion.expand(machine)
        cdef Machine* m = &self.machines.at[machine]
        if m.seen == self.number or m.calls == m.calls_end:
            return False
        m.seen = self.number
        return True

    # -- the result ----------------------------------------------------------------------------------------------------

    cdef bint reads(self, int q) except -1:
        if q & 1:
            return self.positions.reads(q >> 1)
        cdef Machine* m = &self.machines.at[q >> 1]
        return m.ranges_end > m.ranges or m.tokens_end > m.tokens

    cdef void insert(self, int kept, int q, int stack) noexcept:
        """Insert into the sorted front of `closed`; a handful of configurations as a rule."""
        cdef int i = kept
        while i > 0 and self.closed.at[i - 2] > q:
            self.closed.at[i] = self.closed.at[i - 2]
            self.closed.at[i + 1] = self.closed.at[i - 1]
            i -= 2
        self.closed.at[i] = q
        self.closed.at[i + 1] = stack
