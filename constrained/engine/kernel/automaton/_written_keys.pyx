# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Which keys of an object are written, and which may come: sets as rows of bits, over what `machine.ObjectTable` says.

Where keys come in order, those that were passed over count as written, so that the set says all.

Owns: tables, sets of written keys.  Borrows: the meter of work.
Invariants: equal sets of written keys have one number; counts above what `minProperties` and `maxProperties` look at
are one count.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from constrained.engine.memory._memory cimport allotted, enlarged, released
from constrained.engine.memory._meter cimport Meter, work
from constrained.engine.kernel._tables cimport (
    Ints, Map, bits_in, ints_add, ints_free, ints_put, ints_room, map_add, map_find, map_free, map_room, mix, pair)

from constrained.errors import LimitExceeded, shown

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
