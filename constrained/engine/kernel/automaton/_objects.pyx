# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Objects, run natively: what `machine.ObjectTable` describes.

A position is (phase, set of written keys), and an expansion a few words written into arrays: 0.3 µs instead of 10.
Objects with open clauses, unless each asks for one of some names, and several shapes that are read as one, stay with
the twin until the last is met, or one is left.

    POSITION ─ key ─► NAMED or OTHER (dispatch on the key) ─► ENTRY ─ colon ─► BEGIN ─ value ─► POSITION

Owns: written keys, which machine is which state of an object.  Borrows: the machines, which it adds to, the positions
inside texts, the meter of work.  Machine states of Python objects it is handed as numbers.
Invariant: an expanded position never leads to a set from which the object cannot be closed.
Plain twin: `schema.machines.object`, whose positions expand to the same edges one Python object at a time; the plain
kernel runs that.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset
from constrained.engine.memory._meter cimport Meter, work
from constrained.engine.kernel._tables cimport (
    Ints, Map, ints_free, ints_put, ints_room, map_free, map_get, map_put, map_room, pair)
from constrained.engine.kernel.automaton._machines cimport DISPATCH, EXPANDED, Machine, Machines, RECORDS, REFUSES
from constrained.engine.kernel.automaton._written_keys cimport Table, Written, WrittenKeys
from constrained.engine.kernel.texts._positions cimport Positions

from constrained.engine.twin.spelling import spellings

cdef enum:
    PLACED = 64         # ticks that it takes to lay out a position


@final
cdef class Objects:
    """States of objects."""

    def __cinit__(self, Meter meter, Machines machines, Positions positions):
        self.meter, self.machines, self.positions = meter, machines, positions
        self.keys = WrittenKeys(meter)

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        ints_free(&self.calls)
        ints_free(&self.offers)
        map_free(&self.state_ids)
        map_free(&self.text_machines)

    cdef int clear(self) except -1:
        """Give all memory back; no table or set has a number any more."""
        self.release()
        memset(self.ways, 0, sizeof(self.ways))
        return self.keys.clear()

    # -- tables --------------------------------------------------------------------------------------------------------

    cdef int add(self, object table, int comma, int colon, int gap, list cells) except -1:
        """As `WrittenKeys.add`."""
        if self.ways[<int>table.quoting].count == 0:
            self.learn_ways(table.quoting)
        return self.keys.add(table, self.positions.languages.texts_of(table.names), comma, colon, gap, cells)

    cdef int learn_ways(self, object quoting) except -1:
        """Write the spellings of a quoting, one or two, into C, before the first mask needs them."""
        cdef Ways* ways = &self.ways[<int>quoting]
        cdef int i = 0
        for spelling in spellings(quoting):
            ways.opening[i], ways.spelling[i] = spelling.opening[0], self.positions.spelling(spelling)
            i += 1
        ways.count = i
        return 0

    cdef int start(self, int table) except -1:
        """Return the state at the start of an object, where no key is written."""
        return self.state(POSITION, self.keys.empty_set(table), FIRST, self.keys.tables[table].gap >= 0)

    cdef int place(self, int table, object described) except -1:
        """Return the state at any other place of one, a `machine.ObjectPlace`."""
        cdef int set_ = self.keys.set_of(table, described.written, described.others, described.size, described.rank)
        return self.state(POSITION, set_, described.phase, described.padded)

    cdef int value(self, const Machine* m) noexcept:
        """Return the state of the value that a BEGIN state reads, -1: it has no number yet."""
        return self.keys.tables[self.keys.sets[m.set].table].values[m.extra]

    cdef object value_object(self, const Machine* m):
        """Return that state as an object."""
        return self.keys.table_objects[self.keys.sets[m.set].table].value(m.extra)

    cdef int keep_value(self, const Machine* m, int value) noexcept:
        """Note its number, the same for all sets of the table."""
        self.keys.tables[self.keys.sets[m.set].table].values[m.extra] = value
        return value

    # -- states --------------------------------------------------------------------------------------------------------

    cdef int state(self, int kind, int set_, int extra, int more) except -1:
        """Return a native state: POSITION (phase, padded), ENTRY and BEGIN (what was read, ends behind its value),
        NAMED, OTHER (cell)."""
        cdef uint64_t a = pair(kind, set_), b = pair(extra, more)
        cdef int known = map_get(&self.state_ids, a, b)
        if known >= 0:
            return known
        map_room(&self.state_ids)
        known = self.machines.fresh(None)
        cdef Machine* m = &self.machines.at[known]
        m.kind, m.set, m.extra, m.more = kind, set_, extra, more
        if kind == NAMED:
            m.flags = EXPANDED | DISPATCH
        elif kind == OTHER:
            m.flags = EXPANDED | DISPATCH | RECORDS | REFUSES
        map_put(&self.state_ids, a, b, 2 * known)
        return 2 * known

    cdef int expand(self, int at, int value, int end) except -1:
        """Give the machine of any state its edges.

        value: of a BEGIN state, the state of its value; end: the state that accepts and has no edges.
        """
        cdef Machine m = self.machines.at[at]
        cdef Table* t = &self.keys.tables[self.keys.sets[m.set].table]
        if m.kind == POSITION:
            return self.expand_position(at, end)
        self.calls.size = 0
        if m.kind == ENTRY:
            self.call(t.colon, self.state(BEGIN, m.set, m.extra, m.more))
        else:
            self.call(value, end if m.more else self.position_after(m.set))
        self.machines.set_calls(at, &self.calls)
        self.machines.at[at].flags |= EXPANDED
        return 0

    cdef int call(self, int callee, int after) except -1:
        ints_room(&self.calls, 2)
        ints_put(&self.calls, callee)
        ints_put(&self.calls, after)
        return 0

    cdef int expand_position(self, int at, int end) except -1:
        """As Position.expand of the twin: the closing bracket, the comma or the keys that may come, whitespace."""
        cdef Machine m = self.machines.at[at]
        cdef Written w = self.keys.sets[m.set]
        cdef Table t = self.keys.tables[w.table]
        cdef int i, offered, needed = 0
        work(self.meter, PLACED + 8 * t.width + 16 * t.cells)
        cdef bint closable, others
        ints_room(&self.offers, t.width + 1)
        offered = self.keys.offer(&w, &t, self.offers.at, &needed)
        closable = needed == 0 and w.count >= t.least
        others = t.cells > 0 and (t.most < 0 or w.count + needed < t.most) and (t.order == NULL or needed == 0)
        self.calls.size = 0
        if m.extra == AFTER:
            if offered or others:
                self.call(t.comma, self.state(POSITION, m.set, NEXT, False))
        else:
            if offered:
                self.call(self.literal_text(w.table, self.offers.at), self.state(NAMED, m.set, 0, 0))
            for i in range(t.cells if others else 0):
                self.call(t.languages[i], self.state(OTHER, m.set, i, 0))
            closable = closable and m.extra == FIRST
        if m.more:
            self.call(t.gap, self.state(POSITION, m.set, m.extra, False))
        self.machines.set_calls(at, &self.calls)
        if closable:        # last: nothing fails behind it, so that it is added once
            self.machines.add_range(at, t.closing, t.closing, end)
        self.machines.at[at].flags |= EXPANDED
        return 0

    cdef int literal_text(self, int table, int32_t* offers) except -1:
        """Return the Text machine of the names in `offers`."""
        cdef Table t = self.keys.tables[table]
        cdef int language = self.positions.languages.literals_of(t.texts, offers), at, body, i
        cdef int known = map_get(&self.text_machines, pair(language, t.quoting), 0)
        if known >= 0:
            return known
        at = self.machines.fresh(None)
        self.machines.at[at].quoting = t.quoting
        self.machines.at[at].flags = EXPANDED
        cdef const Ways* ways = &self.ways[t.quoting]
        for i in range(ways.count):
            body = self.positions.body(ways.spelling[i], language)
            self.machines.add_range(at, ways.opening[i], ways.opening[i], 2 * body + 1)
        map_put(&self.text_machines, pair(language, t.quoting), 0, 2 * at)
        return 2 * at

    # -- what follows a key --------------------------------------------------------------------------------------------

    cdef int behind_name(self, int after, int label) except -1:
        """Return the state that follows NAMED when the key with that label was read."""
        cdef int written = self.keys.with_name(self.machines.at[after >> 1].set, label)
        return self.state(ENTRY, written, label, 0)

    cdef int behind_other(self, int after, object text) except -1:
        """Return the state that follows OTHER behind a key without a name, None: one that nobody will look at."""
        cdef Machine m = self.machines.at[after >> 1]
        cdef int written = self.keys.with_other(m.set, text)
        return self.state(ENTRY, written, self.keys.tables[self.keys.sets[m.set].table].names + m.extra, 0)

    cdef int lonely_entry(self, int after) except -1:
        """Return the entry of an ordinary key of a cell that ends behind its value; the same for all sets of a
        table."""
        cdef Machine m = self.machines.at[after >> 1]
        cdef int table = self.keys.sets[m.set].table
        if self.keys.tables[table].blank < 0:
            self.keys.tables[table].blank = self.keys.empty_set(table)
        return self.state(ENTRY, self.keys.tables[table].blank, self.keys.tables[table].names + m.extra, 1)

    cdef object shared_name(self, int after):
        """Return what colon and value of a cell are called in all grammars, None: they have no name."""
        cdef Machine m = self.machines.at[after >> 1]
        return self.keys.table_objects[self.keys.sets[m.set].table].shared[m.extra]

    cdef int position_behind(self, int after) except -1:
        """Return the position behind the value of an ordinary key of a cell."""
        return self.position_after(self.keys.with_other(self.machines.at[after >> 1].set, None))

    cdef int position_after(self, int set_) except -1:
        """Return the position behind a value, where these keys are written."""
        return self.state(POSITION, set_, AFTER, self.keys.tables[self.keys.sets[set_].table].gap >= 0)

    cdef bint is_special(self, int after, object text) except -1:
        """Say whether OTHER refuses a key: it has a name, or is written."""
        cdef int set_ = self.machines.at[after >> 1].set
        return text in self.keys.table_objects[self.keys.sets[set_].table].special or text in self.keys.unnamed(set_)

    cdef tuple names(self, int after):
        """Return the names of the object, sorted."""
        return self.keys.table_objects[self.keys.sets[self.machines.at[after >> 1].set].table].names

    cdef object unnamed(self, int after):
        """Return the written keys without a name."""
        return self.keys.unnamed(self.machines.at[after >> 1].set)
