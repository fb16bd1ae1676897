# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Objects with keys in any order, run natively: what `machine.ObjectTable` describes.

A position is (phase, set of written keys), the set a row of bits, and an expansion a few words written into arrays:
0.3 µs instead of 10.  Objects with clauses or in schema order stay with the twin.

    POSITION ─ key ─► NAMED or OTHER (dispatch on the key) ─► ENTRY ─ colon ─► BEGIN ─ value ─► POSITION

Owns: tables, sets of written keys, which machine is which state of an object.  Borrows: the machines, which it adds to,
the positions inside texts, the meter of work.  Machine states of Python objects it is handed as numbers.
Invariants: equal sets of written keys have one number; counts above what `minProperties` and `maxProperties` look at
are one count; an expanded position never leads to a set from which the object cannot be closed.
Plain twin: `schema.machines.object`, whose positions expand to the same edges one Python object at a time; the plain
kernel runs that.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from constrained.engine.memory._memory cimport allotted, enlarged
from constrained.engine.memory._meter cimport Meter, work
from constrained.engine.kernel._tables cimport (
    Ints, Map, bits_in, ints_add, ints_free, ints_put, ints_room, map_add, map_find, map_free, map_get, map_put,
    map_room, mix, pair)
from constrained.engine.kernel.automaton._machines cimport DISPATCH, EXPANDED, Machine, Machines, RECORDS, REFUSES
from constrained.engine.kernel.texts._positions cimport Positions

from constrained.engine.twin.spelling import spellings
from constrained.errors import LimitExceeded, shown

cdef enum:
    RECENT = 32
    MOST_KEYS = 1 << 30     # of one object: nobody writes as many, so a larger bound is none
    PLACED = 64         # ticks that it takes to lay out a position


@final
cdef class Objects:
    """Tables and states of objects."""

    def __cinit__(self, Meter meter, Machines machines, Positions positions):
        self.meter, self.machines, self.positions = meter, machines, positions
        self.forget()

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        cdef int i
        for i in range(self.table_count):
            free(self.tables[i].required)
        free(self.tables)
        free(self.sets)
        self.tables, self.table_count, self.table_room = NULL, 0, 0
        self.sets, self.set_count, self.set_room = NULL, 0, 0
        ints_free(&self.set_words)
        ints_free(&self.set_next)
        ints_free(&self.calls)
        ints_free(&self.offers)
        map_free(&self.set_ids)
        map_free(&self.state_ids)
        map_free(&self.text_machines)

    cdef int clear(self) except -1:
        """Give all memory back; no table or set has a number any more."""
        self.release()
        return self.forget()

    cdef int forget(self) except -1:
        self.bytes = 0
        self.table_objects, self.table_ids = [], {}
        self.others, self.others_ids, self.others_of = [(-1, None)], {}, {}
        memset(self.ways, 0, sizeof(self.ways))
        return 0

    # -- tables --------------------------------------------------------------------------------------------------------

    cdef int find(self, object table) except -2:
        """Return the number of a table, -1 if it was not added."""
        found = self.table_ids.get(id(table))
        return -1 if found is None else found

    cdef int add(self, object table, int comma, int colon, int gap, list cells) except -1:
        """Read a table into C; return its number.

        comma, colon, gap (-1: none), cells: the machine states of what it names so.
        """
        cdef Table t
        cdef int i, count = len(table.names)
        t.names, t.width, t.cells = count, (count + 31) // 32, len(table.cells)
        if table.least > MOST_KEYS:
            raise LimitExceeded("an object needs too many keys", because=f"at least {shown(table.least)}",
                                instead="a smaller minProperties")
        t.least, t.most = table.least, -1 if table.most is None or table.most > MOST_KEYS else table.most
        t.blank = -1
        t.counts_to = t.least if t.most < 0 else t.most
        t.texts, t.quoting = self.positions.languages.texts_of(table.names), table.quoting
        if self.ways[t.quoting].count == 0:
            self.learn_ways(table.quoting)
        t.closing, t.comma, t.colon, t.gap = table.closing, comma, colon, gap
        required, usable = (mask.to_bytes(4 * t.width, "little") for mask in (table.required, table.usable))
        if self.table_count == self.table_room:
            self.tables = <Table*>enlarged(self.tables, &self.table_room, sizeof(Table), 1)
        del self.table_objects[self.table_count:]
        self.table_objects.append(table)
        # one block for all four
        t.required = <int32_t*>allotted(2 * <size_t>t.width + count + 2 * <size_t>t.cells, 4)
        t.usable = t.required + t.width
        t.values = t.usable + t.width
        t.languages = t.values + count + t.cells
        memcpy(t.required, <const char*><bytes>required, 4 * <size_t>t.width)
        memcpy(t.usable, <const char*><bytes>usable, 4 * <size_t>t.width)
        for i in range(count + t.cells):
            t.values[i] = -1
        for i in range(t.cells):
            t.languages[i] = cells[i]
        self.tables[self.table_count] = t
        self.table_count += 1
        self.table_ids[id(table)] = self.table_count - 1
        return self.table_count - 1

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
        return self.state(POSITION, self.empty_set(table), FIRST, self.tables[table].gap >= 0)

    cdef int empty_set(self, int table) except -1:
        cdef int i
        for i in range(self.tables[table].width):
            ints_add(&self.set_words, 0)
        return self.settle_set(table, 0, 0)

    cdef int value(self, const Machine* m) noexcept:
        """Return the state of the value that a BEGIN state reads, -1: it has no number yet."""
        return self.tables[self.sets[m.set].table].values[m.extra]

    cdef object value_object(self, const Machine* m):
        """Return that state as an object."""
        return self.table_objects[self.sets[m.set].table].value(m.extra)

    cdef int keep_value(self, const Machine* m, int value) noexcept:
        """Note its number, the same for all sets of the table."""
        self.tables[self.sets[m.set].table].values[m.extra] = value
        return value

    # -- sets of written keys ------------------------------------------------------------------------------------------

    cdef bint is_blank(self, int set_) noexcept:
        """Say whether no key is written."""
        cdef int i
        for i in range(self.tables[self.sets[set_].table].width):
            if self.set_words.at[self.sets[set_].words + i]:
                return False
        return self.sets[set_].others == 0

    cdef int settle_set(self, int table, int others, int count) except -1:
        """Intern the set whose words stand at the end of `set_words`."""
        cdef int width = self.tables[table].width, first = self.set_words.size - width, i, known, candidate
        cdef uint64_t a = pair(table, others), b = count
        cdef uint32_t near = 8 * table + others + count
        for i in range(first, self.set_words.size):
            a = mix(a, <uint64_t><unsigned int>self.set_words.at[i])
            b = mix(b ^ a, i - first)
        known = candidate = map_find(&self.set_ids, a, b, near)
        while candidate >= 0:
            if (self.sets[candidate].table == table and self.sets[candidate].others == others
                    and self.sets[candidate].count == count):
                for i in range(width):
                    if self.set_words.at[self.sets[candidate].words + i] != self.set_words.at[first + i]:
                        break
                else:
                    self.set_words.size = first
                    return candidate
            candidate = self.set_next.at[candidate]
        candidate = self.set_count
        if candidate == self.set_room:
            self.sets = <Written*>enlarged(self.sets, &self.set_room, sizeof(Written), 32)
        ints_room(&self.set_next, 1)
        map_room(&self.set_ids)
        self.sets[candidate].table, self.sets[candidate].words = table, first
        self.sets[candidate].others, self.sets[candidate].count = others, count
        self.set_count += 1
        ints_put(&self.set_next, -1)
        if known < 0:
            map_add(&self.set_ids, a, b, near, candidate)
        else:
            while self.set_next.at[known] >= 0:
                known = self.set_next.at[known]
            self.set_next.at[known] = candidate
        self.bytes += 40 + 4 * width
        return candidate

    cdef int copy_set(self, int set_) except -1:
        """Write the words of a set once more, behind all others; return where."""
        cdef int i, first = self.set_words.size
        for i in range(self.tables[self.sets[set_].table].width):
            ints_add(&self.set_words, self.set_words.at[self.sets[set_].words + i])
        return first

    cdef int counted(self, const Written* w) noexcept:
        """Return the number of keys with one more."""
        return w.count + 1 if w.count < self.tables[w.table].counts_to else w.count

    cdef int with_name(self, int set_, int label) except -1:
        cdef int first = self.copy_set(set_)
        cdef Written w = self.sets[set_]
        self.set_words.at[first + (label >> 5)] |= <int32_t>(<unsigned int>1 << (label & 31))
        return self.settle_set(w.table, w.others, self.counted(&w))

    cdef int with_other(self, int set_, object text) except -1:
        """Add a key without a name; None stands for one that nobody will look at."""
        cdef Written w = self.sets[set_]
        cdef int others = w.others
        if text is not None:
            longer = (others, text)
            known = self.others_ids.get(longer)
            if known is None:
                self.others.append(longer)
                known = self.others_ids[longer] = len(self.others) - 1
                self.bytes += 300 + len(text)
            others = known
        self.copy_set(set_)
        return self.settle_set(w.table, others, self.counted(&w))

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
        cdef Table* t = &self.tables[self.sets[m.set].table]
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
        cdef Written w = self.sets[m.set]
        cdef Table t = self.tables[w.table]
        cdef int i, offered, needed = 0
        work(self.meter, PLACED + 8 * t.width + 16 * t.cells)
        cdef bint closable, others
        ints_room(&self.offers, t.width + 1)
        offered = self.offer(&w, &t, self.offers.at, &needed)
        closable = needed == 0 and w.count >= t.least
        others = t.cells > 0 and (t.most < 0 or w.count + needed < t.most)
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

    cdef int offer(self, const Written* w, const Table* t, int32_t* offers, int* needed) noexcept:
        """Set the bits of the names that may come next, and in `needed` how many must; return whether there are any."""
        cdef int i, offered = 0
        for i in range(t.width):
            needed[0] += bits_in(t.required[i] & ~self.set_words.at[w.words + i])
        for i in range(t.width):
            offers[i] = t.usable[i] & ~self.set_words.at[w.words + i]
            if t.most >= 0 and w.count + needed[0] >= t.most:
                offers[i] &= t.required[i]
            offered |= offers[i]
        return offered != 0

    cdef int literal_text(self, int table, int32_t* offers) except -1:
        """Return the Text machine of the names in `offers`."""
        cdef Table t = self.tables[table]
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
        cdef int written = self.with_name(self.machines.at[after >> 1].set, label)
        return self.state(ENTRY, written, label, 0)

    cdef int behind_other(self, int after, object text) except -1:
        """Return the state that follows OTHER behind a key without a name, None: one that nobody will look at."""
        cdef Machine m = self.machines.at[after >> 1]
        cdef int written = self.with_other(m.set, text)
        return self.state(ENTRY, written, self.tables[self.sets[m.set].table].names + m.extra, 0)

    cdef int lonely_entry(self, int after) except -1:
        """Return the entry of an ordinary key of a cell that ends behind its value; the same for all sets of a
        table."""
        cdef Machine m = self.machines.at[after >> 1]
        cdef int table = self.sets[m.set].table
        if self.tables[table].blank < 0:
            self.tables[table].blank = self.empty_set(table)
        return self.state(ENTRY, self.tables[table].blank, self.tables[table].names + m.extra, 1)

    cdef object shared_name(self, int after):
        """Return what colon and value of a cell are called in all grammars, None: they have no name."""
        cdef Machine m = self.machines.at[after >> 1]
        return self.table_objects[self.sets[m.set].table].shared[m.extra]

    cdef int position_behind(self, int after) except -1:
        """Return the position behind the value of an ordinary key of a cell."""
        return self.position_after(self.with_other(self.machines.at[after >> 1].set, None))

    cdef int position_after(self, int set_) except -1:
        """Return the position behind a value, where these keys are written."""
        return self.state(POSITION, set_, AFTER, self.tables[self.sets[set_].table].gap >= 0)

    cdef bint is_special(self, int after, object text) except -1:
        """Say whether OTHER refuses a key: it has a name, or is written."""
        cdef int set_ = self.machines.at[after >> 1].set
        return text in self.table_objects[self.sets[set_].table].special or text in self.unnamed(after)

    cdef tuple names(self, int after):
        """Return the names of the object, sorted."""
        return self.table_objects[self.sets[self.machines.at[after >> 1].set].table].names

    cdef object unnamed(self, int after):
        """Return the written keys without a name."""
        cdef int others = self.sets[self.machines.at[after >> 1].set].others
        if not others:
            return ()
        found = self.others_of.get(others)
        if found is None:
            # each holds all keys so far: kept for all sets they would fill the memory
            if len(self.others_of) >= RECENT:
                self.others_of.clear()
            texts = []
            at = others
            while at:
                at, text = self.others[at]
                texts.append(text)
            found = self.others_of[others] = frozenset(texts)
        return found
