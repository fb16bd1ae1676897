# cython: boundscheck=False, wraparound=False, cdivision=True
"""The automaton of the kernel: machine states of a grammar, as numbers, and the states that reading bytes leads to.

    machine states ── expand() ──► Machines: ranges of bytes, calls     WrittenKeys ──► Objects, no Python asked
                                        │
    Stacks (sets of frames, merged) ────┤     Dispatches: where to go on behind a recorded text
                                        ▼
                                    Closure: sets of (machine state, stack) ──► Automaton: states, rows of successors

Read from the top: a part uses only what stands above it.  docs/kernel.md follows one example through all of them.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cython cimport final
from libc.string cimport memcmp, memcpy, memset
from constrained.engine.kernel._texts cimport BODY, DONE, LanguageAt, NONE, not_below, Position, Spelling
from constrained.engine.memory._memory cimport (
    allotted, arena_free, arena_take, ask, bits_in, cleared, enlarged, first_not_below, ints_add, ints_free,
    ints_put, ints_room, chain_put, map_find, map_free, map_get, map_put, map_room, mix, pair, released, SLICE, work)

from constrained.engine.spelling import decode, spellings, variants
from constrained.errors import LimitExceeded
from constrained.machine import Bytes, Dispatch, END, Quoting, Text


# ======================================================================================================================
# Machine states with their edges in flat arrays: the states of the pushdown automaton before it is determinised.
#
# A state is an int: even q = machine q / 2, which stands here; odd q = position q / 2 inside a text, see
# `Positions`.  Edges are ranges of bytes, calls of other states, tokens that are named.
#
# Owns: machines and their edges.  Borrows: nothing.
# Invariants: the edges of a machine are never changed once its flag EXPANDED is set, and stand one after another;
# objects[i] belongs to at[i].
# Plain twin: `machine.Edges`.
# ======================================================================================================================

cdef enum:
    WITH_OBJECT = 200   # bytes of a machine, with what stands behind it
    ALONE = 80


@final
cdef class Machines:
    """Machines by number; `Expansion` fills them in."""

    def __cinit__(self):
        self.objects = []

    def __dealloc__(self):
        with nogil:     # other threads run while the system takes pages back
            self.release()

    cdef void release(self) noexcept nogil:
        released(self.at)
        self.at, self.count, self.room = NULL, 0, 0
        ints_free(&self.ranges)
        ints_free(&self.calls)
        ints_free(&self.tokens)

    cdef int clear(self) except -1:
        """Give all memory back; no machine has a number any more."""
        self.release()
        self.bytes = 0
        self.objects = []
        return 0

    cdef int fresh(self, object state) except -1:
        """Return the number of a new machine without edges."""
        cdef int fresh = self.count
        if fresh == self.room:
            self.at = <Machine*>enlarged(self.at, &self.room, sizeof(Machine), 64)
        self.objects.append(state)
        self.count += 1
        memset(&self.at[fresh], 0, sizeof(Machine))
        self.at[fresh].quoting = -1
        self.bytes += WITH_OBJECT if state is not None else ALONE
        return fresh

    cdef int add_range(self, int machine, int low, int high, int target) except -1:
        """Add a range of bytes to a machine; nothing may be added to others until all its ranges are there."""
        cdef Machine* m = &self.at[machine]
        ints_room(&self.ranges, 3)
        if m.ranges == m.ranges_end:
            m.ranges = self.ranges.size
        ints_put(&self.ranges, low)
        ints_put(&self.ranges, high)
        ints_put(&self.ranges, target)
        m.ranges_end = self.ranges.size
        return 0

    cdef int set_calls(self, int machine, const Ints* pairs) except -1:
        """Give a machine its calls."""
        ints_room(&self.calls, pairs.size)
        self.at[machine].calls = add_all(&self.calls, pairs)
        self.at[machine].calls_end = self.calls.size
        return 0

    cdef int set_edges(self, int machine, const Ints* ranges, const Ints* calls, const Ints* tokens) except -1:
        """Give a machine all its edges."""
        cdef Machine* m = &self.at[machine]
        ints_room(&self.ranges, ranges.size)
        ints_room(&self.calls, calls.size)
        ints_room(&self.tokens, tokens.size)
        m.ranges, m.ranges_end = add_all(&self.ranges, ranges), self.ranges.size
        m.calls, m.calls_end = add_all(&self.calls, calls), self.calls.size
        m.tokens, m.tokens_end = add_all(&self.tokens, tokens), self.tokens.size
        return 0


cdef inline int add_all(Ints* into, const Ints* numbers) noexcept nogil:
    """Add numbers for which there is room; return where they begin."""
    if numbers.size:
        memcpy(into.at + into.size, numbers.at, 4 * <size_t>numbers.size)
    into.size += numbers.size
    return into.size - numbers.size


# ======================================================================================================================
# Which keys of an object are written, and which may come: sets as rows of bits, over what `machine.ObjectTable` says.
#
# Where keys come in order, those that were passed over count as written, so that the set says all.
#
# Owns: tables, sets of written keys.  Borrows: the meter of work.
# Invariants: equal sets of written keys have one number; counts above what `minProperties` and `maxProperties` look at
# are one count.
# ======================================================================================================================

cdef enum:
    RECENT = 32
    MOST_KEYS = 1 << 30     # of one object: nobody writes as many, so a larger bound is none


@final
cdef class WrittenKeys:
    """Tables, and sets of keys by number."""

    def __cinit__(self, Meter meter):
        self.meter = meter
        self.forget()

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        cdef int i
        for i in range(self.table_count):
            released(self.tables[i].required)
        released(self.tables)
        released(self.sets)
        self.tables, self.table_count, self.table_room = NULL, 0, 0
        self.sets, self.set_count, self.set_room = NULL, 0, 0
        ints_free(&self.set_words)
        ints_free(&self.set_next)
        map_free(&self.set_ids)

    cdef int clear(self) except -1:
        """Give all memory back; no table or set has a number any more."""
        self.release()
        return self.forget()

    cdef int forget(self) except -1:
        self.bytes = 0
        self.table_objects, self.table_ids = [], {}
        self.others, self.others_ids, self.others_of = [(-1, None)], {}, {}
        return 0

    # -- tables --------------------------------------------------------------------------------------------------------

    cdef int find(self, object table) except -2:
        """Return the number of a table, -1 if it was not added."""
        found = self.table_ids.get(id(table))
        return -1 if found is None else found

    cdef int add(self, object table, int texts, int comma, int colon, int gap, list cells) except -1:
        """Read a table into C; return its number.

        texts: the names, as languages have them.  comma, colon, gap (-1: none), cells: the machine states of what it
        names so.
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
        t.texts, t.quoting = texts, table.quoting
        t.closing, t.comma, t.colon, t.gap = table.closing, comma, colon, gap
        if self.table_count == self.table_room:
            self.tables = <Table*>enlarged(self.tables, &self.table_room, sizeof(Table), 1)
        del self.table_objects[self.table_count:]
        self.table_objects.append(table)
        self.lay_out(&t, table, cells)
        self.tables[self.table_count] = t
        self.table_count += 1
        self.table_ids[id(table)] = self.table_count - 1
        return self.table_count - 1

    cdef int lay_out(self, Table* t, object table, list cells) except -1:
        """Write the sets of names, states and places of a table into one block of memory."""
        cdef int i, count = t.names
        cdef size_t ranked = count if table.order is not None else 0
        choices = list(table.choices)
        required = b"".join([mask.to_bytes(4 * t.width, "little") for mask in (table.required, table.usable)])
        chosen = b"".join([mask.to_bytes(4 * t.width, "little") for mask in choices])
        t.choices = len(choices)
        t.required = <int32_t*>allotted((2 + <size_t>t.choices) * t.width + count + 2 * <size_t>t.cells + 2 * ranked, 4)
        t.usable = t.required + t.width
        t.values = t.usable + t.width
        t.languages = t.values + count + t.cells
        t.chosen = t.languages + t.cells + 2 * ranked
        memcpy(t.required, <const char*><bytes>required, len(required))
        memcpy(t.chosen, <const char*><bytes>chosen, len(chosen))
        for i in range(count + t.cells):
            t.values[i] = -1
        for i in range(t.cells):
            t.languages[i] = cells[i]
        t.order = t.ranks = NULL
        if table.order is not None:
            t.order = t.languages + t.cells
            t.ranks = t.order + count
            for i in range(count):
                t.order[i] = table.order[i]
                t.ranks[t.order[i]] = i
        return 0

    # -- sets of written keys ------------------------------------------------------------------------------------------

    cdef bint is_blank(self, int set_) noexcept:
        """Say whether no key is written."""
        cdef int i
        for i in range(self.tables[self.sets[set_].table].width):
            if self.set_words.at[self.sets[set_].words + i]:
                return False
        return self.sets[set_].others == 0

    cdef int settle_set(self, int table, int others, int count, int rank) except -1:
        """Intern the set whose words stand at the end of `set_words`; they say the rank."""
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
        self.sets[candidate].others, self.sets[candidate].count, self.sets[candidate].rank = others, count, rank
        self.set_count += 1
        chain_put(&self.set_ids, &self.set_next, a, b, near, known, candidate)
        self.bytes += 40 + 4 * width
        return candidate

    cdef int copy_set(self, int set_) except -1:
        """Write the words of a set once more, behind all others; return where.

        Charged for the memory: all that the names of a large object lead to take as many sets as long as they are many.
        """
        cdef int i, width = self.tables[self.sets[set_].table].width, first = self.set_words.size
        work(self.meter, 8 * width)
        for i in range(width):
            ints_add(&self.set_words, self.set_words.at[self.sets[set_].words + i])
        return first

    cdef int counted(self, const Written* w) noexcept:
        """Return the number of keys with one more."""
        return w.count + 1 if w.count < self.tables[w.table].counts_to else w.count

    cdef int pass_names(self, int first, const Written* w, int rank) noexcept:
        """Count the names of a table in order as written up to a rank, in the words there; return the rank."""
        cdef int i, label
        for i in range(w.rank, rank):
            label = self.tables[w.table].order[i]
            self.set_words.at[first + (label >> 5)] |= <int32_t>(<unsigned int>1 << (label & 31))
        return rank

    cdef int with_name(self, int set_, int label) except -1:
        cdef Written w = self.sets[set_]
        cdef const Table* t = &self.tables[w.table]
        cdef int rank = t.ranks[label] + 1 if t.order != NULL else 0, first
        work(self.meter, rank - w.rank)
        first = self.copy_set(set_)
        if t.order != NULL:
            self.pass_names(first, &w, rank)
        else:
            self.set_words.at[first + (label >> 5)] |= <int32_t>(<unsigned int>1 << (label & 31))
        return self.settle_set(w.table, w.others, self.counted(&w), rank)

    cdef int with_other(self, int set_, object text) except -1:
        """Add a key without a name; None stands for one that nobody will look at."""
        cdef Written w = self.sets[set_]
        cdef int others = w.others, rank = self.tables[w.table].names if self.tables[w.table].order != NULL else 0
        work(self.meter, rank - w.rank)
        if text is not None:
            others = self.one_more(others, text)
        self.pass_names(self.copy_set(set_), &w, rank)
        return self.settle_set(w.table, others, self.counted(&w), rank)

    cdef int one_more(self, int others, object text) except -1:
        """Return the entry of `others` with one more key."""
        longer = (others, text)
        known = self.others_ids.get(longer)
        if known is None:
            self.others.append(longer)
            known = self.others_ids[longer] = len(self.others) - 1
            self.bytes += 300 + len(text)
        return known

    cdef int set_of(self, int table, object written, object texts, int count, int rank) except -1:
        """Return a set by its names, as the bits of a number, its other keys, how many these are, and its rank."""
        cdef const Table* t = &self.tables[table]
        cdef Written blank
        cdef int i, others = 0, first = self.set_words.size
        cdef bytes words = written.to_bytes(4 * <size_t>t.width, "little")
        cdef const int32_t* named = <const int32_t*><const char*>words
        work(self.meter, t.width + len(texts) + rank)
        for text in sorted(texts):
            others = self.one_more(others, text)
        ints_room(&self.set_words, t.width)
        for i in range(t.width):
            ints_put(&self.set_words, named[i])
        rank = rank if t.order != NULL else 0
        blank.table, blank.rank = table, 0
        self.pass_names(first, &blank, rank)
        return self.settle_set(table, others, count, rank)

    cdef int empty_set(self, int table) except -1:
        cdef int i
        for i in range(self.tables[table].width):
            ints_add(&self.set_words, 0)
        return self.settle_set(table, 0, 0, 0)

    cdef object unnamed(self, int set_):
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

    # -- what may come -------------------------------------------------------------------------------------------------

    cdef int missing(self, const Written* w, const Table* t) noexcept:
        """Return how many names must come before the object may end, 1 at most for each choice."""
        cdef const int32_t* written = self.set_words.at + w.words
        cdef int i, j, found = 0
        cdef int32_t met
        for i in range(t.width):
            found += bits_in(t.required[i] & ~written[i])
        for j in range(t.choices):
            met = 0
            for i in range(t.width):
                met |= t.chosen[j * t.width + i] & written[i]
            found += met == 0
        return found

    cdef int offer(self, const Written* w, const Table* t, int32_t* offers, int* needed) noexcept:
        """Set the bits of the names that may come next, and in `needed` how many must; return whether there are any."""
        cdef int i, offered = 0
        needed[0] = self.missing(w, t)
        if t.order != NULL:
            self.offer_in_order(w, t, offers)
        for i in range(t.width):
            if t.order == NULL:
                offers[i] = t.usable[i] & ~self.set_words.at[w.words + i]
            if t.most >= 0 and w.count + needed[0] >= t.most:
                offers[i] &= t.required[i]
            offered |= offers[i]
        return offered != 0

    cdef int offer_in_order(self, const Written* w, const Table* t, int32_t* offers) noexcept:
        """Set the bits of the names up to the next one that must be written."""
        cdef int i, label
        cdef int32_t bit
        memset(offers, 0, 4 * <size_t>t.width)
        for i in range(w.rank, t.names):
            label = t.order[i]
            bit = <int32_t>(<unsigned int>1 << (label & 31))
            offers[label >> 5] |= t.usable[label >> 5] & bit
            if t.required[label >> 5] & bit:
                break
        return 0


# ======================================================================================================================
# Objects, run natively: what `machine.ObjectTable` describes.
#
# A position is (phase, set of written keys), and an expansion a few words written into arrays: 0.3 µs instead of 10.
# Objects with open clauses, unless each asks for one of some names, and several shapes that are read as one, stay with
# the twin until the last is met, or one is left.
#
#     POSITION ─ key ─► NAMED or OTHER (dispatch on the key) ─► ENTRY ─ colon ─► BEGIN ─ value ─► POSITION
#
# Owns: written keys, which machine is which state of an object.  Borrows: the machines, which it adds to, the positions
# inside texts, the meter of work.  Machine states of Python objects it is handed as numbers.
# Invariant: an expanded position never leads to a set from which the object cannot be closed.
# Plain twin: `schema.machines.object`, whose positions expand to the same edges one Python object at a time; the plain
# kernel runs that.
# ======================================================================================================================

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


# ======================================================================================================================
# Numbers and edges of machine states: where the objects of grammars and schemas become entries of flat arrays.
#
# A state is asked for its edges once, when an automaton state that holds it is first made.
#
# Owns: which object has which number.  Borrows: the machines, the states of objects, the positions inside texts, all of
# which it adds to; the ids of special tokens; the meter of work.
# Invariants: equal states have one number; the edges of a state are stored when all their targets have numbers, so
# nobody sees half of them.
# Plain twin: `plain.PlainKernel._expand`, which asks `machine.State.expand` and nothing else.
# ======================================================================================================================

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
            work(self.meter, LISTED)
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


# ======================================================================================================================
# Stacks: what is to be read after the machine states at hand; a graph of frames, interned as ints.
#
# A frame is where to go on after a call: (after, record, parent), `after` a machine state, `record` the bytes read so
# far where `after` wants to know them, `parent` the stack below.  A stack is a *set* of frames: readings that share a
# machine state share one stack, the merger of theirs, so an ambiguous grammar has as many configurations as machine
# states.
#
#     calls  a → X, then b  and  a → X, then c:     X ── {(b, -, 0), (c, -, 0)} ── BOTTOM
#
# Owns: stacks, records.  Borrows: the kernel's meter of work.
# Invariants: stack i is one set of frames for ever; its frames are sorted and distinct in (after, record); parents have
# smaller numbers, so no chain of parents is a circle.
# Plain twin: `plain.Frame` and `_push`, which keep readings apart instead of merging them.
# Source: Tomita 1986 (graph-structured stacks); sets in canonical form: ours.
# ======================================================================================================================

ALL_QUOTINGS = tuple(Quoting)
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
        with nogil:     # other threads run while the system takes pages back
            self.release()

    cdef void release(self) noexcept nogil:
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
        chain_put(&self.ids, &self.next, a, count, near, known, candidate)
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
        # one frame is as soon settled as looked up; nearly all are single, and new
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
        if plain:   # as `decode` says
            return PyUnicode_DecodeUTF8(byte + 1, size - (1 if closing else 2), NULL)
        return decode(ALL_QUOTINGS[record], spelled + closing)


# ======================================================================================================================
# Dispatch on texts: the machine state behind a text, where it depends on which text was read (`machine.Dispatch`).
#
# Behind the name of a property comes that property's value; behind an item of a set, the set without it.  A Dispatch is
# told either the label of the text, where the language knows which of its texts was read, or the text itself, of which
# the stack has then kept a record.
#
# Owns: what each Dispatch has answered.  Borrows: `Expansion`, for the numbers of machine states; machines, objects,
# stacks with their records, positions inside texts; the meter of work.
# Invariant: a Dispatch is asked once for each label or record.
# Plain twin: `plain.PlainKernel._returned`.
# ======================================================================================================================

cdef enum:
    RECENT_ANSWERS = 32


cdef list starting(tuple texts, str start, int most):
    """Return those of some sorted texts that start so, None if these are more than `most`."""
    cdef int first = 0, last = len(texts), count = last, middle
    while first < last:
        middle = (first + last) >> 1
        if <str>texts[middle] < start:
            first = middle + 1
        else:
            last = middle
    while last < count and (<str>texts[last]).startswith(start):
        last += 1
        if last - first > most:
            return None
    return list(texts[first:last])


@final
cdef class Dispatches:
    """The Dispatches of a kernel; `after` is always the number of one."""

    def __cinit__(self, Expansion expansion, Stacks stacks):
        self.expansion, self.stacks = expansion, stacks
        self.meter, self.machines, self.objects = expansion.meter, expansion.machines, expansion.objects
        self.positions, self.sorted_texts = expansion.positions, {}

    def __dealloc__(self):
        map_free(&self.by_label)
        map_free(&self.by_record)

    cdef int clear(self) except -1:
        """Forget all answers."""
        map_free(&self.by_label)
        map_free(&self.by_record)
        self.sorted_texts = {}
        return 0

    cdef int returned(self, int q, int after, int record) except -2:
        """Return the machine state that follows a call whose word ends at q; NONE where the text that was read is
        refused.  Here alone `after` may be any state."""
        cdef Machine* m = &self.machines.at[after >> 1]
        cdef int label, found
        if after & 1 or not m.flags & DISPATCH:
            return after
        if m.flags & RECORDS:
            found = map_get(&self.by_record, after, record)
            if found < 0:
                found = self.following(after, self.stacks.recorded(record, b"")) + 1
                map_put(&self.by_record, after, record, found)
            return found - 1
        label = self.positions.label(q >> 1)
        if m.kind == NAMED:
            return self.objects.behind_name(after, label)
        found = map_get(&self.by_label, after, label)
        if found < 0:
            ask(self.meter)
            target = self.machines.objects[after >> 1].after(label)
            found = self.expansion.number(target) + 1 if target is not None else 0
            map_put(&self.by_label, after, label, found)
        return found - 1

    cdef int following(self, int after, object text) except -2:
        """Return the machine state that follows a recorded text (None: an ordinary one), NONE where it is refused."""
        if self.machines.at[after >> 1].kind == OTHER:
            if text is not None and self.objects.is_special(after, text):
                return NONE
            return self.objects.behind_other(after, text)
        ask(self.meter)
        work(self.meter, ASKED + (len(text) if text is not None else 0))
        target = self.machines.objects[after >> 1].after_text(text)
        return self.expansion.number(target) if target is not None else NONE

    cdef bint is_special(self, int after, object text) except -1:
        """Say whether a recording Dispatch treats a text apart."""
        if self.machines.at[after >> 1].kind == OTHER:
            return self.objects.is_special(after, text)
        return text in self.machines.objects[after >> 1].special

    cdef list special_texts(self, int after, str start, int most):
        """Return the texts that start so and that a recording Dispatch treats apart, None if these are more than
        `most`."""
        if self.machines.at[after >> 1].kind == OTHER:
            found = starting(self.objects.names(after), start, most)
            if found is not None:
                for text in self.objects.unnamed(after):
                    if (<str>text).startswith(start):
                        found.append(text)
            return found
        texts = self.machines.objects[after >> 1].special
        in_order = self.sorted_texts.get(texts)
        if in_order is None:
            if len(self.sorted_texts) >= RECENT_ANSWERS:
                self.sorted_texts.clear()
            in_order = self.sorted_texts[texts] = tuple(sorted(texts))
        return starting(in_order, start, most)

    cdef int tells_from(self, int after) except -2:
        """Return how many bytes behind a text tell ordinary texts apart at least, -1: no number does."""
        if self.machines.at[after >> 1].kind == OTHER:
            return -1
        tells_from = self.machines.objects[after >> 1].tells_from
        return -1 if tells_from is None else tells_from

    cdef bytes told_by(self, int after):
        """Return the bytes of which such a token has one, b"": any will do."""
        return b"" if self.machines.at[after >> 1].kind == OTHER else self.machines.objects[after >> 1].told_by


# ======================================================================================================================
# Closures: all configurations that calls and returns reach from some without reading a byte.
#
# A configuration is (machine state, stack).  A machine state that calls another adds the callee, on a stack with one
# frame more; one that accepts adds what the frames of its stack say.  Of the result those are kept that read something:
# a byte, a named token.
#
# Owns: the closure in the making and the last result.  Borrows: machines, stacks, positions inside texts, `Expansion`
# and `Dispatches`, all of which grow as it asks; the meter of work.
# Invariants: `closed` has each machine state once, with the union of the stacks that it was reached on; a closure that
# broke off leaves nothing that the next one would read.
# Plain twin: `plain.PlainKernel._close`, which keeps stacks apart.
# Source: Earley sets and LR item closures in pushdown form, folklore; over merged stacks: Tomita 1986.
# ======================================================================================================================

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
        """Take seeds that are closed as they are, sorted; say whether they were."""
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
        self.meter.ticks += REACHED         # `work`, in which a reference is counted, only once per closure
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

        Passed on as they are found, the frames of a chain of twenty levels of precedence make some hundred stacks
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


# ======================================================================================================================
# Bytes that one step answers for: those around its byte that every text of a state reads as it does.
#
#     [0-9A-F]{3}     0 leads where 1 … 9 lead, A where B … F do: two steps instead of sixteen
#
# Invariant: bytes [low, high] move all configurations of a state to the same ones.
# Plain twin: the steps of the other bytes.
# ======================================================================================================================

cdef inline void narrow(Positions positions, int position, int byte, int* low, int* high) noexcept:
    """Narrow bytes around one that leads on to those that lead where it does: plain characters of one edge."""
    cdef const Position* p = &positions.at[position]
    cdef const Spelling* s = &positions.spellings[p.spelling]
    cdef const LanguageAt* at = &positions.languages.at[p.language]
    cdef int edge, raw
    if p.place == BODY and at.first >= 0 and byte < 0x80 and byte != s.closing and byte != 0x5C:
        edge = first_not_below(&positions.languages.edge_high, at.first, at.last, byte)
        raw = not_below(&positions.tables, s.raw, byte)
        low[0] = max(low[0], positions.languages.edge_low.at[edge], positions.tables.low.at[raw])
        high[0] = min(high[0], positions.languages.edge_high.at[edge], positions.tables.high.at[raw])
        if not low[0] <= s.closing <= high[0] and not low[0] <= 0x5C <= high[0]:
            return
    low[0] = high[0] = byte


# ======================================================================================================================
# The automaton: states, made when they are first reached, and their successors over bytes and tokens.
#
# A state is an interned set of configurations (machine state, stack), closed under calls and returns; the empty one is
# DEAD.  A step moves every configuration over one byte and closes the result.
#
# Owns: states and their rows of successors.  Borrows: the closure; machines, stacks and positions inside texts, to move
# configurations over a byte; the trie, for the bytes of tokens; the meter of work.
# Invariants: equal sets with equal flags have one number; configurations are sorted by machine state and all live, so
# every state but DEAD leads to a word; a successor that is known never changes.
# Plain twin: `plain.PlainKernel`, `step_byte`, `_after_token`, `_intern`.
#
# ======================================================================================================================

cdef enum:
    STEPPED = 8         # ticks of two numbers, a configuration, that are stepped
    ADDED = 28          # ticks of a new state
    NAMED_BYTES = 48          # bytes of a successor over a name


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
        self.intern(&nothing, 0)                                # DEAD

    def __dealloc__(self):
        with nogil:     # other threads run while the system takes pages back
            self.release()
        released(self.marks)

    cdef void release(self) noexcept nogil:
        arena_free(&self.rows)
        self.rows.used = self.rows.size = 0
        released(self.states)
        self.states, self.count, self.room = NULL, 0, 0
        ints_free(&self.configurations)
        ints_free(&self.next)
        ints_free(&self.seeds)
        map_free(&self.ids)
        map_free(&self.named)

    cdef int clear(self) except -1:
        """Give all memory back; no state has a number any more."""
        self.release()
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
        chain_put(&self.ids, &self.next, a, count, near, known, candidate)
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
        self.count += 1
        self.meter.ticks += ADDED + count
        self.bytes += 80 + 4 * count
        return fresh

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
        self.low, self.high = byte & 0xF0, byte | 0x0F
        target = self.moved(state, byte)
        self.keep(state, byte, target)
        for i in range(self.low, self.high + 1 if self.states[state].row != NULL else self.low):
            self.states[state].row.block[byte >> 4][i & 15] = target    # its own block, since this byte is in it
        return target

    cdef int moved(self, int state, int symbol) except -1:
        """Compute the successor of a state over a symbol."""
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

        Inside a text no successor is made for it: in a name or a counted text each byte has one of its own.
        """
        cdef int i, target, first, after = successor(self.row(state), byte)
        if after == UNKNOWN:
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
        if not self.states[state].count:
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
        target = self.moved(state, NAME + token)
        if target != DEAD:
            self.keep_name(state, token, target)
        return target

    cdef int keep_name(self, int state, int token, int target) except -1:
        """Note a successor over a name."""
        map_put(&self.named, state, token, target)
        self.bytes += NAMED_BYTES
        return 0

    cdef set named_tokens(self, int state):
        """Return the special tokens that may come next."""
        cdef int i, j, q, first = self.states[state].first
        cdef Machine* m
        named = set()
        for i in range(first, first + self.states[state].count, 2):
            q = self.configurations.at[i]
            if not q & 1:
                m = &self.machines.at[q >> 1]
                for j in range(m.tokens, m.tokens_end, 2):
                    named.add(self.machines.tokens.at[j])
        return named
