# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Objects with keys in any order, run natively: what `machine.ObjectTable` describes.

The readable twin is `schema.machines.object`, whose positions expand to the same edges one Python object at a time; the
plain kernel runs that.  Here a position is (phase, set of written keys), the set a row of bits, and an expansion a few
words written into arrays: 0.3 µs instead of 10.  Objects with clauses or in schema order stay with the twin.

    POSITION ─ key ─► NAMED or OTHER (dispatch on the key) ─► ENTRY ─ colon ─► BEGIN ─ value ─► POSITION
"""
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free
from constrained.engine.memory._memory cimport allotted, enlarged
from libc.string cimport memcpy, memset
from constrained.engine.kernel._machines cimport DISPATCH, EXPANDED, Machine, Machines, RECORDS, REFUSES
from constrained.engine.kernel._tables cimport (
    Ints, Map, ints_add, ints_put, ints_room, map_get, map_put, map_room, mix, pair)
from constrained.engine.kernel._languages cimport NONE
from constrained.engine.memory._meter cimport ask, work

from constrained.engine.twin.spelling import spellings
from constrained.errors import LimitExceeded, shown
from constrained.machine import END, Text


cdef enum:
    RECENT = 32
    MOST_KEYS = 1 << 30     # of one object: nobody writes as many, so a larger bound is none
    PLACED = 64         # ticks that it takes to lay out a position


cdef inline int bits_in(int32_t* words, int width) noexcept:
    cdef int i, found = 0
    cdef unsigned int word
    for i in range(width):
        word = <unsigned int>words[i]
        while word:
            word &= word - 1
            found += 1
    return found


cdef class Objects(Machines):
    """Adds native objects to machine states; the base of `Automaton`, split off for the reader's sake only."""

    def __cinit__(self, *args, **options):
        self.table_objects, self.table_ids = [], {}
        self.others, self.others_ids, self.others_of = [(-1, None)], {}, {}

    def __dealloc__(self):
        cdef int i
        for i in range(self.table_count):
            free(self.tables[i].required)
        for pointer in (<size_t>self.tables, <size_t>self.set_words.at, <size_t>self.sets, <size_t>self.set_ids.at,
                        <size_t>self.object_ids.at,
                        <size_t>self.text_machines.at, <size_t>self.set_next.at):
            free(<void*><size_t>pointer)

    # -- tables --------------------------------------------------------------------------------------------------------

    cdef int machine(self, object state) except -1:
        """Return the number of a machine state; the start of an object with a table becomes a native position."""
        cdef int table, position
        found = self.machine_ids.get(state)
        if found is not None:
            return found
        described = getattr(state, "object_table", None)
        if described is None:
            return Machines.machine(self, state)
        table = self.table(described)
        ints_add_zeros(&self.set_words, self.tables[table].width)
        position = self.object_state(POSITION, self.settle_set(table, 0, 0), FIRST, self.tables[table].gap >= 0)
        self.machine_ids[state] = position
        return position

    cdef int table(self, object table) except -1:
        """Return the number of a table, read into C once."""
        known = self.table_ids.get(id(table))
        if known is not None:
            return known
        cdef Table t
        cdef int i, count = len(table.names)
        t.names, t.width, t.cells = count, (count + 31) // 32, len(table.cells)
        if table.least > MOST_KEYS:
            raise LimitExceeded("an object needs too many keys", because=f"at least {shown(table.least)}",
                                instead="a smaller minProperties")
        t.least, t.most = table.least, -1 if table.most is None or table.most > MOST_KEYS else table.most
        t.blank = -1
        t.counts_to = t.least if t.most < 0 else t.most
        t.texts, t.surface, t.closing = self.texts._texts(table.names), table.surface, table.closing
        t.comma, t.colon = self.machine(table.comma), self.machine(table.colon)
        t.gap = self.machine(table.gap) if table.gap is not None else -1
        cells = [self.machine(Text(table.surface, cell)) for cell in table.cells]
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

    cdef int value_state(self, int table, int which) except -1:
        """Return the state that reads the value of a name, or of a cell (counted after the names)."""
        cdef int found = self.tables[table].values[which]
        if found < 0:
            ask(self.meter)
            found = self.machine(self.table_objects[table].value(which))
            self.tables[table].values[which] = found
        return found

    # -- sets of written keys
    # -----------------------------------------------------------------------------------------------

    cdef int settle_set(self, int table, int others, int count) except -1:
        """Intern the set whose words stand at the end of `set_words`."""
        cdef int width = self.tables[table].width, first = self.set_words.size - width, i, known, candidate
        cdef uint64_t a = pair(table, others), b = count
        for i in range(first, self.set_words.size):
            a = mix(a, <uint64_t><unsigned int>self.set_words.at[i])
            b = mix(b ^ a, i - first)
        known = candidate = map_get(&self.set_ids, a, b)
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
            map_put(&self.set_ids, a, b, candidate)
        else:
            while self.set_next.at[known] >= 0:
                known = self.set_next.at[known]
            self.set_next.at[known] = candidate
        self.bytes += 40 + 4 * width
        return candidate

    cdef int with_name(self, int set_, int label) except -1:
        cdef Written w = self.sets[set_]
        cdef int i, first = self.set_words.size
        for i in range(self.tables[w.table].width):
            ints_add(&self.set_words, self.set_words.at[w.words + i])
        self.set_words.at[first + (label >> 5)] |= <int32_t>(<unsigned int>1 << (label & 31))
        return self.settle_set(w.table, w.others, w.count + 1 if w.count < self.tables[w.table].counts_to else w.count)

    cdef int with_other(self, int set_, object text) except -1:
        """Add a key without a name; None stands for one that nobody will look at."""
        cdef Written w = self.sets[set_]
        cdef int i, others = w.others
        if text is not None:
            longer = (others, text)
            known = self.others_ids.get(longer)
            if known is None:
                self.others.append(longer)
                known = self.others_ids[longer] = len(self.others) - 1
                self.bytes += 300 + len(text)
            others = known
        for i in range(self.tables[w.table].width):
            ints_add(&self.set_words, self.set_words.at[w.words + i])
        return self.settle_set(w.table, others, w.count + 1 if w.count < self.tables[w.table].counts_to else w.count)

    # -- states --------------------------------------------------------------------------------------------------------

    cdef int object_state(self, int kind, int set_, int extra, int more) except -1:
        """Return a native state: POSITION (phase, padded), ENTRY and BEGIN (what was read, ends behind its value),
        NAMED, OTHER (cell)."""
        cdef uint64_t a = pair(kind, set_), b = pair(extra, more)
        cdef int known = map_get(&self.object_ids, a, b)
        if known >= 0:
            return known
        map_room(&self.object_ids)
        known = self.fresh(None)
        cdef Machine* m = &self.machines[known]
        m.kind, m.set, m.extra, m.more = kind, set_, extra, more
        if kind == NAMED:
            m.flags = EXPANDED | DISPATCH
        elif kind == OTHER:
            m.flags = EXPANDED | DISPATCH | RECORDS | REFUSES
        map_put(&self.object_ids, a, b, 2 * known)
        return 2 * known

    cdef int add_call(self, int callee, int after) except -1:
        ints_room(&self.calls, 2)
        ints_put(&self.calls, callee)
        ints_put(&self.calls, after)
        return 0

    cdef int expand(self, int at) except -1:
        cdef Machine m = self.machines[at]
        cdef int callee, after
        cdef bint spaced
        if m.kind == PLAIN:
            return Machines.expand(self, at)
        if m.kind == POSITION:
            return self.expand_position(at)
        if m.kind == ENTRY:
            callee, after = self.tables[self.sets[m.set].table].colon, self.object_state(BEGIN, m.set, m.extra, m.more)
        else:
            callee = self.value_state(self.sets[m.set].table, m.extra)
            spaced = self.tables[self.sets[m.set].table].gap >= 0
            after = self.machine(END) if m.more else self.object_state(POSITION, m.set, AFTER, spaced)
        self.machines[at].calls = self.calls.size
        self.add_call(callee, after)
        self.machines[at].calls_end = self.calls.size
        self.machines[at].flags |= EXPANDED
        return 0

    cdef int expand_position(self, int at) except -1:
        """As Position.expand of the twin: the closing bracket, the comma or the keys that may come, whitespace."""
        cdef Machine m = self.machines[at]
        cdef Written w = self.sets[m.set]
        cdef Table t = self.tables[w.table]
        cdef int i, ahead, needed = 0, offered = 0, left
        work(self.meter, PLACED + 8 * t.width + 16 * t.cells)
        cdef int32_t* offers = <int32_t*>allotted(<size_t>t.width + 1, 4)
        cdef bint closable, others
        for i in range(t.width):
            left = t.required[i] & ~self.set_words.at[w.words + i]
            needed += bits_in(<int32_t*>&left, 1)
        for i in range(t.width):
            ahead = t.usable[i] & ~self.set_words.at[w.words + i]
            if t.most >= 0 and w.count + needed >= t.most:
                ahead &= t.required[i]
            offers[i] = ahead
            offered |= ahead
        closable = needed == 0 and w.count >= t.least
        others = t.cells > 0 and (t.most < 0 or w.count + needed < t.most)
        calls = []
        try:
            if m.extra == AFTER:
                if offered or others:
                    calls.append((t.comma, self.object_state(POSITION, m.set, NEXT, False)))
            else:
                if offered:
                    calls.append((self.literal_text(m.set, w.table, offers), self.object_state(NAMED, m.set, 0, 0)))
                for i in range(t.cells if others else 0):
                    calls.append((t.languages[i], self.object_state(OTHER, m.set, i, 0)))
                closable = closable and m.extra == FIRST
            if m.more:
                calls.append((t.gap, self.object_state(POSITION, m.set, m.extra, False)))
        finally:
            free(offers)
        self.machines[at].ranges = self.ranges.size
        if closable:
            ints_add(&self.ranges, t.closing)
            ints_add(&self.ranges, t.closing)
            ints_add(&self.ranges, self.machine(END))
        self.machines[at].ranges_end = self.ranges.size
        self.machines[at].calls = self.calls.size
        for callee, after in calls:
            self.add_call(callee, after)
        self.machines[at].calls_end = self.calls.size
        self.machines[at].flags |= EXPANDED
        return 0

    cdef int literal_text(self, int set_, int table, int32_t* offers) except -1:
        """Return the Text machine of the names in `offers`."""
        cdef Table t = self.tables[table]
        cdef int language = self.texts.literals_of(t.texts, offers), known, at
        known = map_get(&self.text_machines, pair(language, t.surface), 0)
        if known >= 0:
            return known
        at = self.fresh(None)
        self.machines[at].surface = t.surface
        self.machines[at].flags = EXPANDED
        self.machines[at].ranges = self.ranges.size
        for spelling in spellings(self.table_objects[table].surface):
            known = 2 * self.texts.body(self.texts.spelling(spelling), language) + 1
            ints_add(&self.ranges, spelling.opening[0])
            ints_add(&self.ranges, spelling.opening[0])
            ints_add(&self.ranges, known)
        self.machines[at].ranges_end = self.ranges.size
        map_put(&self.text_machines, pair(language, t.surface), 0, 2 * at)
        return 2 * at

    # -- keys ----------------------------------------------------------------------------------------------------------

    cdef int entry(self, int set_, int which) except -1:
        return self.object_state(ENTRY, set_, which, 0)

    cdef int returned(self, int q, int after, int record) except -2:
        cdef Machine* m = &self.machines[after >> 1]
        if not after & 1 and m.kind == NAMED:
            return self.entry(self.with_name(m.set, self.texts.label(q >> 1)), self.texts.label(q >> 1))
        return Machines.returned(self, q, after, record)

    cdef int following(self, int after, object text) except -2:
        cdef Machine m = self.machines[after >> 1]
        if m.kind != OTHER:
            return Machines.following(self, after, text)
        if text is not None and self.is_special(after, text):
            return NONE
        return self.entry(self.with_other(m.set, text), self.tables[self.sets[m.set].table].names + m.extra)

    cdef int lonely_entry(self, int after) except -1:
        """Return the entry of an ordinary key of a cell that ends behind its value; the same for all sets of a
        table."""
        cdef int table = self.sets[self.machines[after >> 1].set].table
        if self.tables[table].blank < 0:
            ints_add_zeros(&self.set_words, self.tables[table].width)
            self.tables[table].blank = self.settle_set(table, 0, 0)
        return self.object_state(ENTRY, self.tables[table].blank,
                                 self.tables[table].names + self.machines[after >> 1].extra, 1)

    cdef object shared_name(self, int after):
        cdef Machine m = self.machines[after >> 1]
        return self.table_objects[self.sets[m.set].table].shared[m.extra]

    cdef int position_behind(self, int after) except -1:
        """Return the position behind the value of an ordinary key of a cell."""
        cdef int set_ = self.with_other(self.machines[after >> 1].set, None)
        return self.object_state(POSITION, set_, AFTER, self.tables[self.sets[set_].table].gap >= 0)

    cdef int telling(self, int after) except -2:
        return -1 if self.machines[after >> 1].kind == OTHER else Machines.telling(self, after)

    cdef bint is_special(self, int after, object text) except -1:
        cdef Machine* m = &self.machines[after >> 1]
        if m.kind != OTHER:
            return Machines.is_special(self, after, text)
        return text in self.table_objects[self.sets[m.set].table].special or text in self.written_others(m.set)

    cdef list special_texts(self, int after, str start, int most):
        cdef Machine* m = &self.machines[after >> 1]
        if m.kind != OTHER:
            return Machines.special_texts(self, after, start, most)
        found = self.starting(self.table_objects[self.sets[m.set].table].names, start, most)
        if found is not None:
            found += [text for text in self.written_others(m.set) if text.startswith(start)]
        return found

    cdef object written_others(self, int set_):
        """Return the written keys without a name."""
        cdef int others = self.sets[set_].others
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


cdef int ints_add_zeros(Ints* v, int count) except -1:
    cdef int i
    for i in range(count):
        ints_add(v, 0)
    return 0
