# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The automaton of the compiled kernel: closing configurations under calls and returns, states, steps.

PERF: a row is sixteen blocks, most of which are shared, 250 bytes as a rule instead of 1 KB: fresh memory costs 0.15 µs
per KB, and walks of the trie make some thirty states per mask.  A state that is only passed through, as most are inside
a token, has no row at all.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from constrained.engine.memory._memory cimport cleared, enlarged
from libc.string cimport memcmp, memcpy, memset
from constrained.engine.kernel._machines cimport ACCEPTING, EXITS, EXPANDED, FINAL, Machine, RECORDS, TAIL, UNKNOWN
from constrained.engine.kernel._objects cimport Objects
from constrained.engine.memory._arena cimport arena_free, arena_take
from constrained.engine.kernel._tables cimport Ints, Map, ints_add, ints_put, ints_room, map_get, map_put, map_room, mix
from constrained.engine.kernel._languages cimport NONE
from constrained.engine.memory._meter cimport SLICE

from constrained.errors import LimitExceeded
from constrained.work import Preempted

DEAD = 0


cdef enum:
    MANY = 64           # numbers in `closed` from which on it is searched by a table
    REACHED = 16        # ticks of a configuration in a closure, and of one that is stepped
    STEPPED = 8


cdef class Automaton(Objects):
    """States are ints: interned sets of (machine state, stack), sorted by machine state."""

    def __cinit__(self, *args, **options):
        self.marks = <int32_t*>cleared(256 + 32, 4)
        self.dead_block, self.unknown_block = self.marks + 256, self.marks + 272
        memset(self.unknown_block, 0xFF, 64)

    def __dealloc__(self):
        arena_free(&self.rows)
        arena_free(&self.masks)
        free(self.marks)
        for pointer in (<size_t>self.states, <size_t>self.path, <size_t>self.configs.at, <size_t>self.state_next.at,
                        <size_t>self.state_ids.at,
                        <size_t>self.work.at, <size_t>self.closed.at, <size_t>self.closed_at.at, <size_t>self.order.at,
                        <size_t>self.trail.at):
            free(<void*><size_t>pointer)

    cdef int reach(self, int q, int stack) except -1:
        """Add a configuration to the closure, and queue what it returns to."""
        if q < 0 or not self.join(q, stack):
            return 0
        return self.return_from(q, stack)

    cdef bint join(self, int q, int stack) except -1:
        """Add a configuration to the closure; say whether it, or a frame of its stack, is new."""
        cdef int known, both
        self.meter.ticks += REACHED         # PERF: `work`, in which a reference is counted, only once per closure
        known = self.find_closed(q)
        if known >= 0:
            both = self.merge(self.closed.at[known + 1], stack, 0)
            if both == self.closed.at[known + 1]:
                return False
            self.closed.at[known + 1] = both
            return True
        known = ints_add(&self.closed, q)
        ints_add(&self.closed, stack)
        if known == MANY:
            self.index_closed()
        elif known > MANY:
            map_put(&self.closed_at, q, 0, known)
        if known > 2 * self.max_configurations:
            raise LimitExceeded(
                "too many readings of the text at once",
                because=f"more than {self.max_configurations:,} configurations are alive",
                instead="make the grammar less ambiguous, or raise max_configurations",
            )
        return True

    cdef int find_closed(self, int q) noexcept:
        """Return where a machine state stands in `closed`, -1: nowhere; a table is only used for wide closures."""
        cdef int i
        if self.closed.size > MANY:
            return map_get(&self.closed_at, q, 0)
        for i in range(0, self.closed.size, 2):
            if self.closed.at[i] == q:
                return i
        return -1

    cdef int index_closed(self) except -1:
        cdef int i
        for i in range(0, self.closed.size, 2):
            map_put(&self.closed_at, self.closed.at[i], 0, i)
        return 0

    cdef int return_from(self, int q, int stack) except -1:
        """Queue what a configuration returns to, if it is accepting."""
        if q & 1:
            return self.pop(q, stack) if self.texts.accepting(q >> 1) else 0
        if not self.machines[q >> 1].flags & EXPANDED:
            self.expand(q >> 1)
        return self.pop(q, stack) if self.machines[q >> 1].flags & ACCEPTING else 0

    cdef bint call_all(self) except -1:
        """Add what the configurations of the closure call; say whether that must be done again, since one that has
        called got more frames.

        Callers come before what they call, so each passes its whole stack on at once, unless machines call each other
        in a circle.
        PERF: passed on as they are found, the frames of a chain of twenty levels of precedence make some hundred stacks
        for each state.
        """
        cdef int i, j, machine, callee, after, flags, record, stack, pushed
        cdef bint again = False
        self.closure += 2
        self.order.size = 0
        for i in range(0, self.closed.size, 2):
            if not self.closed.at[i] & 1:
                self.put_in_order(self.closed.at[i] >> 1)
        for i in range(self.order.size - 1, -1, -1):
            machine = self.order.at[i]
            self.machines[machine].seen = self.closure + 1
            stack = self.closed.at[self.find_closed(2 * machine) + 1]
            for j in range(self.machines[machine].calls, self.machines[machine].calls_end, 2):
                callee, after = self.calls.at[j], self.calls.at[j + 1]
                flags = self.machines[after >> 1].flags if not after & 1 else 0
                record = self.surface_of(callee) if flags & RECORDS else -1
                pushed = stack if flags & TAIL else self.push(after, record, stack)
                if self.join(callee, pushed):
                    self.return_from(callee, pushed)
                    again |= not callee & 1 and self.machines[callee >> 1].seen == self.closure + 1
            if self.meter.ticks >= SLICE:
                self.meter.flush()
        return again

    cdef int put_in_order(self, int machine) except -1:
        """Append a machine state that calls others to `order`, behind those of them that call others, unless it is
        there."""
        cdef int at
        if not self.visit(machine):
            return 0
        self.trail.size = 0
        ints_add(&self.trail, machine)
        ints_add(&self.trail, self.machines[machine].calls)
        while self.trail.size:
            machine, at = self.trail.at[self.trail.size - 2], self.trail.at[self.trail.size - 1]
            if at == self.machines[machine].calls_end:
                self.trail.size -= 2
                ints_add(&self.order, machine)
                continue
            self.trail.at[self.trail.size - 1] = at + 2
            machine = self.calls.at[at]
            if not machine & 1 and self.visit(machine >> 1):
                ints_add(&self.trail, machine >> 1)
                ints_add(&self.trail, self.machines[machine >> 1].calls)
        return 0

    cdef bint visit(self, int machine) except -1:
        """Say whether a machine state calls others and was not visited in this closure."""
        if not self.machines[machine].flags & EXPANDED:
            self.expand(machine)
        if (self.machines[machine].seen == self.closure
                or self.machines[machine].calls == self.machines[machine].calls_end):
            return False
        self.machines[machine].seen = self.closure
        return True

    cdef int surface_of(self, int callee) noexcept:
        return 0 if callee & 1 else self.machines[callee >> 1].surface

    cdef int pop(self, int q, int stack) except -1:
        cdef int i, after, target
        for i in range(self.stack_first.at[stack], self.stack_first.at[stack + 1], 3):
            after = self.frames.at[i]
            if after == -1:
                self.closing_flags |= FINAL
            elif after == -2:
                self.closing_flags |= EXITS
            else:
                target = self.returned(q, after, self.frames.at[i + 1])
                if target >= 0:
                    ints_add(&self.work, target)
                    ints_add(&self.work, self.frames.at[i + 2])
        return 0

    cdef int close(self, int flags) except -1:
        """Return the automaton state of the configurations in `work`, which is left empty."""
        cdef int i, q, stack, kept = 0
        cdef bint calling = False
        self.closing_flags = flags
        self.closed.size = 0
        if self.closed_at.at != NULL:
            free(self.closed_at.at)
            memset(&self.closed_at, 0, sizeof(Map))
        try:
            while self.work.size or calling:
                while self.work.size:
                    if self.meter.ticks >= SLICE:
                        self.meter.flush()
                    self.work.size -= 2
                    self.reach(self.work.at[self.work.size], self.work.at[self.work.size + 1])
                calling = self.call_all()
        except BaseException:
            self.work.size = 0
            raise
        for i in range(0, self.closed.size, 2):
            q, stack = self.closed.at[i], self.closed.at[i + 1]
            if self.reads(q):
                self.insert(kept, q, stack)
                kept += 2
        self.closed.size = kept
        return self.intern_state(self.closing_flags)

    cdef bint reads(self, int q) except -1:
        cdef Machine* m
        if q & 1:
            return self.texts.reads(q >> 1)
        m = &self.machines[q >> 1]
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

    cdef int intern_state(self, int flags) except -1:
        """Return the state with the configurations in `closed`."""
        cdef uint64_t a = flags + 1, b = 0xA5A5
        cdef int i, known, candidate, first, count = self.closed.size
        for i in range(count):
            a = mix(a, <uint64_t><unsigned int>self.closed.at[i])
            b = mix(b ^ a, i)
        known = map_get(&self.state_ids, a, b)
        candidate = known
        while candidate >= 0:
            if self.states[candidate].count == count and self.states[candidate].flags == flags:
                first = self.states[candidate].first
                for i in range(count):
                    if self.configs.at[first + i] != self.closed.at[i]:
                        break
                else:
                    return candidate
            candidate = self.state_next.at[candidate]
        candidate = self.state_count
        if candidate == self.state_room:
            self.states = <State*>enlarged(self.states, &self.state_room, sizeof(State), 64)
        ints_room(&self.configs, count)
        ints_room(&self.state_next, 1)
        map_room(&self.state_ids)
        memset(&self.states[candidate], 0, sizeof(State))
        self.states[candidate].light = self.states[candidate].only = UNKNOWN
        self.states[candidate].first, self.states[candidate].count = self.configs.size, count
        self.states[candidate].flags = flags
        for i in range(count):
            ints_put(&self.configs, self.closed.at[i])
        ints_put(&self.state_next, -1)
        self.state_count += 1
        self.bytes += 80 + 4 * count
        if known < 0:
            map_put(&self.state_ids, a, b, candidate)
        else:
            while self.state_next.at[known] >= 0:
                known = self.state_next.at[known]
            self.state_next.at[known] = candidate
        return candidate

    cdef Row* row(self, int state) except NULL:
        """Return the successors of a state."""
        cdef Row* row = self.states[state].row
        cdef int32_t* marks = self.marks
        cdef int i, j, q
        cdef Machine* m
        if row != NULL:
            return row
        row = <Row*>arena_take(&self.rows, sizeof(Row))
        for i in range(self.states[state].first, self.states[state].first + self.states[state].count, 2):
            q = self.configs.at[i]
            if q & 1:
                self.texts.mark(q >> 1, marks)
            else:
                m = &self.machines[q >> 1]
                for j in range(m.ranges, m.ranges_end, 3):
                    memset(&marks[self.ranges.at[j]], 0xFF, 4 * (self.ranges.at[j + 1] - self.ranges.at[j] + 1))
        for i in range(16):
            if not memcmp(marks + 16 * i, self.dead_block, 64):
                row.block[i] = self.dead_block
                continue
            if not memcmp(marks + 16 * i, self.unknown_block, 64):
                row.block[i] = self.unknown_block
            else:
                row.block[i] = self.own_block(marks + 16 * i)
            memset(marks + 16 * i, 0, 64)
        self.states[state].row = row
        self.bytes += sizeof(Row)
        if self.states[state].only != UNKNOWN:
            self.set_successor(row, self.states[state].only_byte, self.states[state].only)
        return row

    cdef int32_t* own_block(self, const int32_t* block) except NULL:
        """Return a copy of a block."""
        cdef void* own = arena_take(&self.rows, 64)
        self.bytes += 64
        return <int32_t*>memcpy(own, block, 64)

    cdef int set_successor(self, Row* row, int byte, int target) except -1:
        cdef int32_t* block = row.block[byte >> 4]
        if block == self.unknown_block or block == self.dead_block:
            block = row.block[byte >> 4] = self.own_block(block)
        block[byte & 15] = target
        return 0

    cdef int step(self, int state, int byte) except -1:
        """Compute the successor over one byte and keep it: the first one with the state, more of them in a row."""
        cdef int i, j, q, stack, target, first = self.states[state].first, last = first + self.states[state].count
        cdef Machine* m
        self.meter.ticks += STEPPED * (last - first)
        for i in range(first, last, 2):
            q, stack, target = self.configs.at[i], self.configs.at[i + 1], NONE
            if q & 1:
                target = self.texts.step(q >> 1, byte)
                if target >= 0:
                    target = 2 * target + 1
            else:
                m = &self.machines[q >> 1]
                for j in range(m.ranges, m.ranges_end, 3):
                    if self.ranges.at[j] <= byte <= self.ranges.at[j + 1]:
                        target = self.ranges.at[j + 2]
                        break
            if target >= 0:
                ints_add(&self.work, target)
                ints_add(&self.work, self.record_step(stack, byte) if self.records(stack) else stack)
        target = self.close(0) if self.work.size else DEAD
        if self.states[state].row == NULL and self.states[state].only == UNKNOWN:
            self.states[state].only, self.states[state].only_byte = target, byte
        else:
            self.set_successor(self.row(state), byte, target)
        return target

    cdef int next_state(self, int state, int byte) except -1:
        cdef int after = known_successor(&self.states[state], byte)
        return after if after != UNKNOWN else self.step(state, byte)

    cdef int after_token(self, int state, int token) except -1:
        """Return the state after a token id: its bytes, or the edges of the machine that name it."""
        cdef int i = self.token_first[token], last = self.token_first[token + 1], j, q
        cdef Machine* m
        if i < last:
            while i < last and state != DEAD:
                state = self.next_state(state, self.token_bytes[i])
                i += 1
            return state
        for i in range(self.states[state].first, self.states[state].first + self.states[state].count, 2):
            q = self.configs.at[i]
            if q & 1:
                continue
            m = &self.machines[q >> 1]
            for j in range(m.tokens, m.tokens_end, 2):
                if self.tokens.at[j] == token:
                    ints_add(&self.work, self.tokens.at[j + 1])
                    ints_add(&self.work, self.configs.at[i + 1])
        return self.close(0) if self.work.size else DEAD

    def is_final(self, int state):
        """Say whether the bytes so far are a word."""
        if state >= self.state_count:
            raise Preempted
        return bool(self.states[state].flags & FINAL)

    def is_exhausted(self, int state):
        """Say whether nothing can follow."""
        if state >= self.state_count:
            raise Preempted
        return self.states[state].count == 0

    def named_tokens(self, int state):
        """Return the special tokens that may come next."""
        cdef int i, j, q
        if state >= self.state_count:
            raise Preempted
        named = set()
        for i in range(self.states[state].first, self.states[state].first + self.states[state].count, 2):
            q = self.configs.at[i]
            if not q & 1:
                for j in range(self.machines[q >> 1].tokens, self.machines[q >> 1].tokens_end, 2):
                    named.add(self.tokens.at[j])
        return named
