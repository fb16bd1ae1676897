# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Numbers and edges of machine states: where the objects of grammars and schemas become entries of flat arrays.

A state is asked for its edges once, when an automaton state that holds it is first made.

Owns: which object has which number.  Borrows: the machines, the states of objects, the positions inside texts, all of
which it adds to; the ids of special tokens; the meter of work.
Invariants: equal states have one number; the edges of a state are stored when all their targets have numbers, so nobody
sees half of them.
Plain twin: `twin.automaton.PlainKernel._expand`, which asks `machine.State.expand` and nothing else.
"""
from cython cimport final
from constrained.engine.memory._meter cimport Meter, ask, work
from constrained.engine.kernel._tables cimport Ints, ints_add, ints_free
from constrained.engine.kernel.automaton._machines cimport (
    ACCEPTING, ALIKE, DISPATCH, EXPANDED, KEYED, Machine, Machines, RECORDS, REFUSES, TAIL)
from constrained.engine.kernel.automaton._objects cimport BEGIN, Objects, PLAIN
from constrained.engine.kernel.texts._positions cimport Positions

from constrained.engine.twin.spelling import variants
from constrained.machine import END, Bytes, Dispatch, Quoting, Text

cdef enum:
    ASKED = 512         # ticks that it takes to ask a state for its edges, and to list a third of one
    LISTED = 16


@final
cdef class Expansion:
    """Machine states by number; `expand` gives one its edges."""

    def __cinit__(self, Meter meter, Machines machines, Objects objects, Positions positions, specials):
        self.meter, self.machines, self.objects, self.positions = meter, machines, objects, positions
        self.specials, self.ids = specials, {}

    def __dealloc__(self):
        ints_free(&self.ranges)
        ints_free(&self.calls)
        ints_free(&self.tokens)

    cdef int clear(self) except -1:
        """Forget all numbers."""
        self.ids = {}
        return 0

    # -- numbers -------------------------------------------------------------------------------------------------------

    cdef int number(self, object state) except -1:
        """Return the number of a machine state: a position for a bare text, else a machine, that of an object's first
        position where the state describes one."""
        cdef int made
        found = self.ids.get(state)
        if found is not None:
            return found
        described = getattr(state, "object_table", None)
        if described is not None:
            made = self.objects.start(self.number_table(described))
        elif (described := getattr(state, "object_place", None)) is not None:
            made = self.objects.place(self.number_table(described.table), described)
        elif isinstance(state, Text) and state.quoting == Quoting.RAW:
            made = self.number_raw(state)
        else:
            made = self.number_machine(state)
        self.ids[state] = made      # last: nobody finds one that is half made
        return made

    cdef int number_table(self, object described) except -1:
        cdef int table = self.objects.keys.find(described), comma, colon, gap
        if table < 0:
            comma, colon = self.number(described.comma), self.number(described.colon)
            gap = self.number(described.gap) if described.gap is not None else -1
            cells = [self.number(Text(described.quoting, cell)) for cell in described.cells]
            table = self.objects.add(described, comma, colon, gap, cells)
        return table

    cdef int number_raw(self, object text) except -1:
        ((spelling, language),) = variants(text.quoting, text.language)
        return 2 * self.positions.body(self.positions.spelling(spelling), self.positions.languages.number(language)) + 1

    cdef int number_machine(self, object state) except -1:
        cdef int fresh = self.machines.fresh(state)
        if state is END:
            self.machines.at[fresh].flags = EXPANDED | ACCEPTING | TAIL
        elif isinstance(state, Dispatch):
            self.machines.at[fresh].flags = (
                EXPANDED | DISPATCH | (RECORDS if state.records else 0) | (REFUSES if state.refuses else 0)
                | (ALIKE if state.alike else 0) | (KEYED if state.keyed else 0))
        elif isinstance(state, Text):
            self.lay_out_text(fresh, state)
        elif isinstance(state, Bytes):
            self.lay_out_bytes(fresh, state.data, state.then)
        return 2 * fresh

    cdef int lay_out_bytes(self, int at, bytes data, object then) except -1:
        """Lay out fixed bytes as a chain of states, without an object for each, from the last one on."""
        cdef int i, fresh, target = self.number(then)
        for i in range(len(data) - 1, -1, -1):
            fresh = self.machines.fresh(None) if i else at
            self.machines.add_range(fresh, data[i], data[i], target)
            self.machines.at[fresh].flags = EXPANDED
            target = 2 * fresh
        return 0

    cdef int lay_out_text(self, int at, object text) except -1:
        """Give a text its opening quotes; behind each is the position at the start of the text in that spelling."""
        cdef int body
        self.machines.at[at].quoting = text.quoting
        for spelling, language in variants(text.quoting, text.language):
            if language is not None:
                body = self.positions.body(self.positions.spelling(spelling), self.positions.languages.number(language))
                self.machines.add_range(at, spelling.opening[0], spelling.opening[0], 2 * body + 1)
        self.machines.at[at].flags = EXPANDED
        return 0

    # -- edges ---------------------------------------------------------------------------------------------------------

    cdef int expand(self, int at) except -1:
        """Give a machine its edges."""
        cdef Machine m = self.machines.at[at]
        cdef int value = -1
        if m.kind == PLAIN:
            return self.expand_plain(at)
        if m.kind == BEGIN:
            value = self.value(&m)
        return self.objects.expand(at, value, self.number(END))

    cdef int value(self, const Machine* m) except -1:
        """Return the state of the value that a BEGIN state reads."""
        cdef int value = self.objects.value(m)
        if value < 0:
            ask(self.meter)
            value = self.objects.keep_value(m, self.number(self.objects.value_object(m)))
        return value

    cdef int expand_plain(self, int at) except -1:
        """Ask a machine state for its edges."""
        cdef int count
        self.ranges.size = self.calls.size = self.tokens.size = 0
        ask(self.meter)
        edges = self.machines.objects[at].expand()
        for low, high, target in edges.ranges:
            ints_add(&self.ranges, low)
            ints_add(&self.ranges, high)
            ints_add(&self.ranges, self.number(target))
        for callee, after in edges.calls:
            ints_add(&self.calls, self.number(callee))
            ints_add(&self.calls, self.number(after))
        for name, target in edges.tokens:
            ints_add(&self.tokens, self.specials[name])
            ints_add(&self.tokens, self.number(target))
        self.machines.set_edges(at, &self.ranges, &self.calls, &self.tokens)
        self.machines.at[at].flags |= EXPANDED | (ACCEPTING if edges.accepting else 0)
        count = self.ranges.size + self.calls.size + self.tokens.size
        self.machines.bytes += 8 * count
        return work(self.meter, ASKED + LISTED * count)
