# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Members of objects: states inside of one that differ only in what lies around it.

Behind `{"id": ` and behind `{"name": {"key": ` stands the same: a string begins, and what tokens do in it is the same
up to its end; only tokens that go on behind it ask what object that was.  So a state is compared by its *lonely* state,
with the same configurations on a stack that ends where the member does: a mask, or what is walked below a trie node, is
made for that once, with the nodes at which tokens leave the member, and all that have it add the walks behind those.

    {"name": {"key": _      configurations  string       on  [position behind "key", [position behind "name", …]]
                            lonely state    string       on  [beyond]

Before values that are the same in all grammars lonely states have names, by which their masks are kept with the
vocabulary: of `"key": ` with any value behind it only the way out of the value is walked in a new grammar.

Owns: which state is lonely for which, and the shared masks; they refer to states, so they go with the kernel.  Borrows:
the automaton, which it adds states to; stacks, machines and objects; `Expansion`, for the number of a value.
Invariants: a state and its lonely one read the same up to the end of the member, and behind it a state goes on as its
`behind` does on `parent`.  The stack beyond has one frame, of LEAVES, as OUTSIDE has, where nothing is put off.
Plain twin: none; masks are compared with those of `twin.automaton`, bit by bit, in `tests/laws.py`.
Refused: to share what is met once or twice and has no name, which costs more than it saves; members of objects that are
not native.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memcpy, memset
from constrained.engine.memory._memory cimport allotted, cleared
from constrained.engine.kernel._tables cimport Ints, Map, ints_add, ints_free, map_free, map_get, map_put, pair
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD
from constrained.engine.kernel.automaton._closure cimport EXITS
from constrained.engine.kernel.automaton._machines cimport Machine
from constrained.engine.kernel.automaton._objects cimport AFTER, BEGIN, POSITION
from constrained.engine.kernel.automaton._stacks cimport BOTTOM, LEAVES
from constrained.engine.kernel.automaton._written_keys cimport Table
from constrained.engine.kernel.masks._building cimport Counter, IndependentMask
from constrained.engine.kernel.masks._mask_buffer cimport BLOCK, MaskBuffer, buffer_has, next_touched

from constrained.machine import Text

MET = object()          # what was met once
TO_MAKE = object()      # what is worth to be made, when it is met again: met twice, by the vocabulary once
TOO_LARGE = object()    # of the vocabulary's: what cannot be shared
cdef bytes BEFORE = b": "       # what is written before a value

cdef enum:
    DEEPEST = 4         # frames between a configuration and the member's end
    MOST_EXITS = 512    # of a mask that is worth its memory
    LISTED = 128        # numbers of pairs (word, its bits), up to which a mask has no more than these


@final
cdef class SharedStates:
    """Lonely states, and the masks of those that were met more than once."""

    def __cinit__(self, Automaton automaton, Expansion expansion, Counter counter):
        self.automaton, self.stacks, self.machines = automaton, automaton.stacks, automaton.machines
        self.expansion, self.objects, self.counter = expansion, expansion.objects, counter
        self.masks, self.names = [], {}

    def __dealloc__(self):
        ints_free(&self.configurations)
        map_free(&self.ids)
        map_free(&self.named)

    cdef int clear(self) except -1:
        """Forget all states."""
        map_free(&self.ids)
        map_free(&self.named)
        self.masks, self.names = [], {}
        return 0

    cdef bint find(self, int state, InMember* member) except -1:
        """Find the innermost member that a state is in; say whether all its configurations are in one."""
        cdef int i, q, stack, first, last
        cdef bint texts = True
        if self.automaton.states[state].flags:
            return False
        self.automaton.read(state)
        first = self.automaton.states[state].first
        last = first + self.automaton.states[state].count
        for i in range(first, last, 2):
            texts = texts and self.automaton.configurations.at[i] & 1
        if texts:       # PERF: which have masks of their own
            return False
        member.behind = -1
        self.configurations.size = 0
        for i in range(first, last, 2):
            q, stack = self.automaton.configurations.at[i], self.automaton.configurations.at[i + 1]
            stack = self.moved(stack, 0, member)
            if stack < 0:
                return False
            ints_add(&self.configurations, q)
            ints_add(&self.configurations, stack)
        member.lonely = self.automaton.intern(&self.configurations, 0)
        return True

    cdef int moved(self, int stack, int level, InMember* member) except -2:
        """Return a stack with nothing below the end of the innermost member, -1: it is in none, or not in the same."""
        cdef int first = self.stacks.first.at[stack], after, record, parent, below
        if self.stacks.first.at[stack + 1] != first + 3:
            return -1
        after, record, parent = (
            self.stacks.frames.at[first], self.stacks.frames.at[first + 1], self.stacks.frames.at[first + 2])
        if after < 0 or record >= 0:
            return -1
        below = self.moved_frame(after, parent, member)
        if below != -1:
            return below if below >= 0 else -1
        if level == DEEPEST:
            return -1
        below = self.moved(parent, level + 1, member)
        return self.stacks.push(after, -1, below) if below >= 0 else -1

    cdef int moved_frame(self, int after, int parent, InMember* member) except -2:
        """Return the stack that stands for a frame at the end of a member; -1: it is none, -3: not of the same one."""
        cdef Machine m
        cdef int behind = after, stack
        if after & 1:
            return -1
        m = self.machines.at[after >> 1]
        if not (m.kind == POSITION and m.extra == AFTER or m.kind == BEGIN and not m.more):
            return -1
        stack = self.stacks.push(LEAVES, -1, BOTTOM)
        if m.kind == BEGIN:
            behind, stack = self.objects.position_after(m.set), self.stacks.push(self.expansion.value(&m), -1, stack)
        if member.behind < 0:
            member.behind, member.parent = behind, parent
        return stack if member.behind == behind and member.parent == parent else -3

    cdef int index(self, int lonely, int node) except -2:
        """Return where in `masks` the mask is of a lonely state, whole (-1) or below a trie node; NOT_MET the first
        time."""
        cdef int found = map_get(&self.ids, lonely, node)
        if found < 0:
            self.masks.append(MET)
            map_put(&self.ids, lonely, node, len(self.masks) - 1)
            return NOT_MET
        return found

    # -- names ---------------------------------------------------------------------------------------------------------

    cdef object name(self, const InMember* member):
        """Return what a lonely state is called in all grammars, None: it has no name.

        Named are the places before texts, and before what `ObjectTable.shared` names, up to a blank.
        """
        cdef int table = self.objects.keys.sets[self.machines.at[member.behind >> 1].set].table, value
        if member.lonely not in self.names:
            described = self.objects.keys.table_objects[table]
            self.name_cells(table, described.shared)
            value = self.value_of(member.lonely)
            text = self.machines.objects[value >> 1] if value >= 0 else None
            if type(text) is Text:
                self.name_states((described.colon, text), self.objects.keys.tables[table].colon, value)
            self.names.setdefault(member.lonely, None)
        return self.names[member.lonely]

    cdef int name_cells(self, int table, tuple shared) except -1:
        """Name the places before the values of a table's cells."""
        cdef const Table* t = &self.objects.keys.tables[table]
        cdef int i
        for i in range(len(shared)):
            if shared[i] is not None and t.values[t.names + i] >= 0:
                self.name_states(shared[i], t.colon, t.values[t.names + i])
        return 0

    cdef int name_states(self, object name, int colon, int value) except -1:
        """Name the places before a value, unless that was done."""
        cdef int stack = self.stacks.push(value, -1, self.stacks.push(LEAVES, -1, BOTTOM)), state, i = 0
        if map_get(&self.named, pair(colon, value), 0) >= 0:
            return 0
        map_put(&self.named, pair(colon, value), 0, 0)
        state = self.automaton.enter(colon, stack, 0)
        while state != DEAD and state not in self.names:
            self.names[state] = name, i
            if i < len(BEFORE):
                state = self.automaton.next_state(state, BEFORE[i])
            i += 1
        return 0

    cdef int value_of(self, int lonely) except -2:
        """Return the machine state of the value that a lonely state is before, -1: it is before none."""
        cdef int beyond = self.stacks.push(LEAVES, -1, BOTTOM), first = self.automaton.states[lonely].first, i, stack, q
        for i in range(first, first + self.automaton.states[lonely].count, 2):
            q, stack = self.automaton.configurations.at[i], self.automaton.configurations.at[i + 1]
            if stack != beyond:
                q = self.stacks.frames.at[self.stacks.first.at[stack]]
                stack = self.stacks.frames.at[self.stacks.first.at[stack] + 2]
            if stack == beyond and not q & 1:
                return q
        return -1

    # -- masks ---------------------------------------------------------------------------------------------------------

    cdef IndependentMask gathered(self, IndependentMask made, int lonely, int node, MaskBuffer* buffer):
        """Move what is in the buffer to a mask, which has its exits already; None where they are too many."""
        if made.exits.size > MOST_EXITS:
            return None
        self.settle_doubtful(made, lonely, node, buffer)
        if buffer.base != NULL or not list_words(made, buffer):
            self.copy_whole(made, buffer)
        exits = sorted({made.exits.at[i] for i in range(made.exits.size)})
        made.exits.size = 0
        for i in exits:
            ints_add(&made.exits, i)
        made.weigh(self.counter, buffer.words)
        return made

    cdef int copy_whole(self, IndependentMask made, const MaskBuffer* buffer) except -1:
        """Give a mask all that is in a buffer, as a whole, which masks are made of without a look at it."""
        cdef int i, block = 0
        ints_free(&made.words)
        if buffer.base == NULL:
            made.bits = <uint32_t*>cleared(buffer.words + BLOCK, 4)
        else:
            made.bits = <uint32_t*>allotted(buffer.words + BLOCK, 4)
            memcpy(made.bits, buffer.base, 4 * <size_t>buffer.words)
            memset(made.bits + buffer.words, 0, 4 * BLOCK)
        while (block := next_touched(buffer, block)) < buffer.blocks:
            for i in range(BLOCK * block, BLOCK * block + BLOCK):
                made.bits[i] |= buffer.bits[i]
            block += 1
        for i in range(buffer.removed.size):
            made.bits[buffer.removed.at[i] >> 5] &= ~(<uint32_t>1 << (buffer.removed.at[i] & 31))
        return 0

    cdef int settle_doubtful(self, IndependentMask made, int lonely, int node, MaskBuffer* buffer) except -1:
        """Look at the doubtful tokens; what reads on beyond the member is left to whoever adds the mask."""
        cdef Automaton automaton = self.automaton
        cdef const Ints* doubtful = &buffer.todo.doubtful
        cdef int i, at, token, state, read = automaton.trie.nodes[node].depth if node >= 0 else 0
        cdef bint left
        for i in range(doubtful.size):
            token, state, left = doubtful.at[i], lonely, False
            if not buffer_has(buffer, token):
                continue
            at = automaton.trie.begins[token] + read
            while at < automaton.trie.begins[token + 1] and state != DEAD:
                state = automaton.next_state(state, automaton.trie.spelled[at])
                left = left or automaton.states[state].flags & EXITS
                at += 1
            if state == DEAD:
                ints_add(&buffer.removed, token)
                if left:
                    ints_add(&made.tokens, token)
        return 0


cdef bint list_words(IndependentMask made, MaskBuffer* buffer) except -1:
    """List the words of a buffer without a base; say whether they are few."""
    cdef int i, block = 0
    for i in range(buffer.removed.size):
        buffer.bits[buffer.removed.at[i] >> 5] &= ~(<uint32_t>1 << (buffer.removed.at[i] & 31))
    while (block := next_touched(buffer, block)) < buffer.blocks and made.words.size <= LISTED:
        for i in range(BLOCK * block, BLOCK * block + BLOCK):
            if buffer.bits[i]:
                ints_add(&made.words, i)
                ints_add(&made.words, <int32_t>buffer.bits[i])
        block += 1
    return made.words.size <= LISTED
