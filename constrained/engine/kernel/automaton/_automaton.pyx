# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The automaton: states, made when they are first reached, and their successors over bytes and tokens.

A state is an interned set of configurations (machine state, stack), closed under calls and returns; the empty one is
DEAD.  A step moves every configuration over one byte and closes the result.

Owns: states and their rows of successors.  Borrows: the closure; machines, stacks and positions inside texts, to move
configurations over a byte; the trie, for the bytes of tokens; the meter of work.
Invariants: equal sets with equal flags have one number, *unread* states aside; configurations are sorted by machine
state and all live, so every state but DEAD leads to a word; a successor that is known never changes.
Unread states come from a file (`kernel._loading`): one has a row, flags, perhaps a mask, and the way to it, but its
configurations are found when something asks for them: `read` first, then look.  A second state with the same
configurations may then be there, which costs memory and nothing else.  Exhausted states are never unread.
Plain twin: `twin.automaton.PlainKernel`, `step_byte`, `_after_token`, `_intern`.

PERF: a row is sixteen blocks, most of which are shared, 250 bytes as a rule instead of 1 KB: fresh memory costs 0.15 µs
per KB, and a walk makes some thirty states.  One that is only passed through, as most are inside a token, has no row.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from constrained.engine.memory._arena cimport arena_free, arena_take
from constrained.engine.memory._memory cimport cleared, enlarged, released
from constrained.engine.memory._meter cimport SLICE
from constrained.engine.kernel._tables cimport (
    Ints, Map, ints_add, ints_free, ints_put, ints_room, map_add, map_find, map_free, map_get, map_put, map_room,
    mix, pair)
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._alike_bytes cimport narrow
from constrained.engine.kernel.automaton._closure cimport Closure
from constrained.engine.kernel.automaton._machines cimport Machine, Machines
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.texts._languages cimport NONE
from constrained.engine.kernel.texts._positions cimport Positions

from constrained.errors import ConstrainedError

cdef enum:
    STEPPED = 8         # ticks of two numbers, a configuration, that are stepped
    ADDED = 28          # ticks of a new state
    NAMED = 48          # bytes of a successor over a name


@final
cdef class Automaton:
    """States by number; `enter` makes one, `next_state` and `after_token` go on from it."""

    def __cinit__(self, Closure closure, Trie trie):
        cdef Ints nothing
        self.closure, self.trie, self.meter = closure, trie, closure.meter
        self.machines, self.stacks, self.positions = closure.machines, closure.stacks, closure.positions
        self.marks = <int32_t*>cleared(256 + 32, 4)
        self.dead_block, self.unknown_block = self.marks + 256, self.marks + 272
        memset(self.unknown_block, 0xFF, 64)
        memset(&nothing, 0, sizeof(Ints))
        self.names = {}
        self.intern(&nothing, 0)                                # DEAD

    def __dealloc__(self):
        self.release()
        released(self.marks)

    cdef void release(self) noexcept:
        arena_free(&self.rows)
        self.rows.used = self.rows.size = 0
        released(self.states)
        self.states, self.count, self.room = NULL, 0, 0
        ints_free(&self.configurations)
        ints_free(&self.next)
        ints_free(&self.seeds)
        ints_free(&self.chain)
        map_free(&self.ids)
        map_free(&self.named)

    cdef int clear(self) except -1:
        """Give all memory back; no state has a number any more."""
        self.release()
        self.names = {}
        self.bytes = 0
        return 0

    cdef int drop(self) noexcept:
        """Leave nothing half done behind, where an operation ended by an exception."""
        memset(self.marks, 0, 4 * 256)
        return 0

    # -- states --------------------------------------------------------------------------------------------------------

    cdef int enter(self, int q, int stack, int flags) except -1:
        """Return the state of one configuration and what it calls and returns to; `flags`: of what has ended before."""
        self.seeds.size = 0
        ints_add(&self.seeds, q)
        ints_add(&self.seeds, stack)
        return self.close(&self.seeds, flags)

    cdef int close(self, const Ints* seeds, int flags) except -1:
        """Return the state of some configurations and what they call and return to."""
        self.closure.close(seeds)
        return self.intern(&self.closure.closed, flags | self.closure.flags)

    cdef int intern(self, const Ints* configurations, int flags) except -1:
        """Return the state with these configurations, which are closed and sorted."""
        cdef uint64_t a = flags + 1
        cdef uint32_t near = 0
        cdef const int32_t* numbers = configurations.at
        cdef int i, known, candidate, first, count = configurations.size
        for i in range(0, count, 2):
            a = mix(a, pair(numbers[i], numbers[i + 1]))
            near = max(near, <uint32_t>numbers[i + 1])
        near += a & 7       # some states have one stack; the last ones made have the last stacks
        candidate = known = map_find(&self.ids, a, count, near)
        while candidate >= 0:
            if self.states[candidate].count == count and self.states[candidate].flags == flags:
                first = self.states[candidate].first
                for i in range(count):
                    if self.configurations.at[first + i] != numbers[i]:
                        break
                else:
                    return candidate
            candidate = self.next.at[candidate]
        map_room(&self.ids)
        candidate = self.add(configurations, flags)
        if known < 0:
            map_add(&self.ids, a, count, near, candidate)
        else:
            while self.next.at[known] >= 0:
                known = self.next.at[known]
            self.next.at[known] = candidate
        return candidate

    cdef int add(self, const Ints* configurations, int flags) except -1:
        """Return the number of a new state."""
        cdef int i, fresh = self.count, count = configurations.size
        cdef State* state
        if fresh == self.room:
            self.states = <State*>enlarged(self.states, &self.room, sizeof(State), 64)
        ints_room(&self.configurations, count)
        ints_room(&self.next, 1)
        state = &self.states[fresh]
        memset(state, 0, sizeof(State))
        state.light = state.only = UNKNOWN
        state.first, state.count, state.flags = self.configurations.size, count, flags
        for i in range(count):
            ints_put(&self.configurations, configurations.at[i])
        ints_put(&self.next, -1)
        self.count += 1
        self.meter.ticks += ADDED + count
        self.bytes += 80 + 4 * count
        return fresh

    cdef int read(self, int state) except -1:
        """Find the configurations of a state that was loaded, from the nearest state before it that has some.

        Invariant: the states before an unread one are fewer with each step back; what has been read stays, also where
        the work is broken off.
        """
        cdef State* at
        cdef State* found
        cdef int same
        self.chain.size = 0
        while self.states[state].unread:
            ints_add(&self.chain, state)
            state = self.states[state].first
        while self.chain.size:
            self.chain.size -= 1
            state = self.chain.at[self.chain.size]
            same = self.moved(self.states[state].first, self.states[state].only)
            at, found = &self.states[state], &self.states[same]
            if not found.count or found.flags != at.flags:
                raise ConstrainedError(
                    "a saved state is none of this grammar", because="the file was signed, but its table is wrong",
                    instead="compile again, and save")
            at.first, at.count, at.only, at.unread = found.first, found.count, UNKNOWN, False
            if at.mask == NULL:
                at.mask = found.mask
            elif found.mask == NULL:
                found.mask = at.mask
            if self.meter.ticks >= SLICE:
                self.meter.flush()
        return 0

    # -- successors ----------------------------------------------------------------------------------------------------

    cdef Row* row(self, int state) except NULL:
        """Return the successors of a state, those not asked for yet as UNKNOWN."""
        cdef Row* row = self.states[state].row
        if row != NULL:
            return row
        self.mark(state)
        row = self.states[state].row = self.marked_row()
        if self.states[state].only != UNKNOWN:
            self.set_successor(row, self.states[state].only_byte, self.states[state].only)
        return row

    cdef Row* marked_row(self) except NULL:
        """Return a row of what is in `marks`, which it clears."""
        cdef Row* row = <Row*>arena_take(&self.rows, sizeof(Row))
        cdef int32_t* marks = self.marks
        cdef int i
        for i in range(16):
            if not memcmp(marks + 16 * i, self.dead_block, 64):
                row.block[i] = self.dead_block
                continue
            if not memcmp(marks + 16 * i, self.unknown_block, 64):
                row.block[i] = self.unknown_block
            else:
                row.block[i] = self.own_block(marks + 16 * i)
            memset(marks + 16 * i, 0, 64)
        self.bytes += sizeof(Row)
        return row

    cdef int mark(self, int state) except -1:
        """Mark every byte that some configuration of a state may read as UNKNOWN."""
        cdef Machine* m
        cdef int32_t* range_
        cdef int i, j, q, first = self.states[state].first
        for i in range(first, first + self.states[state].count, 2):
            q = self.configurations.at[i]
            if q & 1:
                self.positions.mark(q >> 1, self.marks)
                continue
            m = &self.machines.at[q >> 1]
            for j in range(m.ranges, m.ranges_end, 3):
                range_ = &self.machines.ranges.at[j]
                memset(&self.marks[range_[0]], 0xFF, 4 * (range_[1] - range_[0] + 1))
        return 0

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

    cdef int keep(self, int state, int byte, int target) except -1:
        """Note a successor: the first one with the state, more of them in a row."""
        if self.states[state].row == NULL and self.states[state].only == UNKNOWN:
            self.states[state].only, self.states[state].only_byte = target, byte
            return 0
        return self.set_successor(self.row(state), byte, target)

    cdef int step(self, int state, int byte) except -1:
        """Compute the successor over one byte and keep it, in a row also for bytes of its block that are like it."""
        cdef int i, target
        if self.states[state].unread:
            self.read(state)
        self.low, self.high = byte & 0xF0, byte | 0x0F
        target = self.moved(state, byte)
        self.keep(state, byte, target)
        for i in range(self.low, self.high + 1 if self.states[state].row != NULL else self.low):
            self.states[state].row.block[byte >> 4][i & 15] = target    # its own block, since this byte is in it
        return target

    cdef int moved(self, int state, int symbol) except -1:
        """Compute the successor of a state, which has been read, over a symbol."""
        self.seeds.size = 0
        if symbol < NAME:
            self.seed_byte(state, symbol)
        else:
            self.seed_name(state, symbol - NAME)
        return self.close(&self.seeds, 0) if self.seeds.size else DEAD

    cdef int seed_byte(self, int state, int byte) except -1:
        """Move the configurations of a state over a byte, and narrow `low` and `high` to bytes that do the same."""
        cdef int i, q, stack, target, first = self.states[state].first, last = first + self.states[state].count
        self.meter.ticks += STEPPED * (last - first)
        for i in range(first, last, 2):
            q, stack = self.configurations.at[i], self.configurations.at[i + 1]
            target = self.target(q, byte)
            if q & 1 and target >= 0 and not self.stacks.records(stack):
                narrow(self.positions, q >> 1, byte, &self.low, &self.high)
            else:
                self.low = self.high = byte
            if target >= 0:
                ints_add(&self.seeds, target)
                ints_add(&self.seeds, self.stacks.record_step(stack, byte) if self.stacks.records(stack) else stack)
        return 0

    cdef int seed_name(self, int state, int token) except -1:
        cdef int i, j, q, first = self.states[state].first
        cdef Machine* m
        for i in range(first, first + self.states[state].count, 2):
            q = self.configurations.at[i]
            if q & 1:
                continue
            m = &self.machines.at[q >> 1]
            for j in range(m.tokens, m.tokens_end, 2):
                if self.machines.tokens.at[j] == token:
                    ints_add(&self.seeds, self.machines.tokens.at[j + 1])
                    ints_add(&self.seeds, self.configurations.at[i + 1])
        return 0

    cdef int target(self, int q, int byte) except -2:
        """Return the machine state that a byte leads to from another, NONE: none."""
        cdef Machine* m
        cdef int32_t* range_
        cdef int j, position
        if q & 1:
            position = self.positions.step(q >> 1, byte)
            return 2 * position + 1 if position >= 0 else NONE
        m = &self.machines.at[q >> 1]
        for j in range(m.ranges, m.ranges_end, 3):
            range_ = &self.machines.ranges.at[j]
            if range_[0] <= byte <= range_[1]:
                return range_[2]
        return NONE

    cdef int next_state(self, int state, int byte) except -1:
        """Return the successor over one byte."""
        cdef int after = known_successor(&self.states[state], byte)
        return after if after != UNKNOWN else self.step(state, byte)

    cdef bint goes_on(self, int state, int byte) except -1:
        """Say whether some word goes on with a byte.

        PERF: inside a text no successor is made for it: in a name or a counted text each byte has one of its own.
        """
        cdef int i, target, first, after = successor(self.row(state), byte)
        if after == UNKNOWN:
            if self.states[state].unread:
                self.read(state)
            first = self.states[state].first
            for i in range(first, first + self.states[state].count, 2):
                target = self.target(self.configurations.at[i], byte)
                if target >= 0 and target & 1 and not self.positions.accepting(target >> 1):
                    return True
            after = self.step(state, byte)
        return after != DEAD

    cdef int follow(self, int state, uint64_t* bytes_) except -1:
        """Note the set of bytes that a state may read."""
        cdef int i, block
        cdef uint64_t some
        cdef const int32_t* targets
        cdef Row* row
        memset(bytes_, 0, 4 * sizeof(uint64_t))
        if not self.states[state].count and not self.states[state].unread:
            return 0
        row = self.row(state)
        for block in range(16):
            targets = row.block[block]
            if targets == self.dead_block:
                continue
            some = 0xFFFF if targets == self.unknown_block else 0
            for i in range(16 if not some else 0):
                some |= <uint64_t>(targets[i] != DEAD) << i
            bytes_[block >> 2] |= some << (16 * (block & 3))
        return 0

    cdef int after_token(self, int state, int token) except -1:
        """Return the state after a token id: its bytes, or the edges of the machine that name it."""
        cdef int i = self.trie.begins[token], last = self.trie.begins[token + 1]
        if i == last:
            return self.after_name(state, token)
        while i < last and state != DEAD:
            state = self.next_state(state, self.trie.spelled[i])
            i += 1
        return state

    cdef int after_name(self, int state, int token) except -1:
        """Return the state after a token that the machine names, DEAD if it names no such token."""
        cdef int target = map_get(&self.named, state, token)
        if target >= 0:
            return target
        if self.states[state].unread:
            if token not in self.names.get(state, ()):
                return DEAD
            self.read(state)
        target = self.moved(state, NAME + token)
        if target != DEAD:
            self.keep_name(state, token, target)
        return target

    cdef int keep_name(self, int state, int token, int target) except -1:
        """Note a successor over a name."""
        map_put(&self.named, state, token, target)
        self.bytes += NAMED
        return 0

    cdef set named_tokens(self, int state):
        """Return the special tokens that may come next."""
        cdef int i, j, q, first = self.states[state].first
        cdef Machine* m
        if self.states[state].unread:
            return set(self.names.get(state, ()))
        named = set()
        for i in range(first, first + self.states[state].count, 2):
            q = self.configurations.at[i]
            if not q & 1:
                m = &self.machines.at[q >> 1]
                for j in range(m.tokens, m.tokens_end, 2):
                    named.add(self.machines.tokens.at[j])
        return named
