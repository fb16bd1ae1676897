# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""States of objects that no token tells apart, whichever keys are written.

A state behind `"size": ` knows that `size` is written, and which keys are besides.  A token that tells this from other
sets would have to go on to a key, and either spell it to its closing quote, where any key may come, or as far as a
name that is still free, where only names may.  Tokens with a letter before a quote are rare, tokens with a comma, a
quote and a letter too; so sets of written keys are compared by what else there is to them:

    open tables: any key may come, in any number         ── whether names are wanted, how many keys are
    mixed tables: some may, in front of a value          ── the same
    closed tables: only names may, in front of a value   ── whether a name may come, whether the object may end

Within a key and in front of one even less can be told, see `key_kind` and `opened_kind`; and a brace is like any other
where no token begins a name behind it, see `first_kind`.

Owns: what tables, sets and machine states are like, as numbers; `TailKinds`, `ToldNames`.  Borrows: machines, objects
with their sets of written keys; `Expansion`, for the number of a value; the trie; the vocabulary's store, for
`QuoteFacts`.
Invariants: a name is *plain* if no token has its last byte and a quote behind it, so that only a token that begins with
the quote ends such a key; it is *out of reach* if no token has a comma, a quote and its first byte.  Equal kinds: the
same tokens lead to live states, whatever lies around the object, where no name is being read.
Plain twin: none; masks are compared with those of `twin.automaton`, bit by bit, in `tests/test_alike_states.py`.
Refused: a greatest number of other keys, other keys in order.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.memory._meter cimport work
from constrained.engine.kernel._tables cimport (
    Ints, Map, ints_free, ints_put, ints_room, map_free, map_get, map_put, pair)
from constrained.engine.kernel.automaton._expansion cimport Expansion
from constrained.engine.kernel.automaton._machines cimport ACCEPTING, EXPANDED, Machine
from constrained.engine.kernel.automaton._objects cimport AFTER, BEGIN, ENTRY, FIRST, NAMED, OTHER, PLAIN, POSITION
from constrained.engine.kernel.automaton._written_keys cimport Table, Written
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks.alike._quote_facts cimport ESCAPED, HEXED, QuoteFacts, quote_facts
from constrained.engine.kernel.masks.alike._tail_kinds cimport TailKinds
from constrained.engine.kernel.masks.alike._told_names cimport ToldNames

from constrained.machine import Quoting
from constrained.regex import ANY_TEXT

cdef int JSON = Quoting.JSON

cdef enum:
    ENDS = 8                # words of a set of lengths and last bytes
    NAMED_ONE = 8           # ticks that it takes to look at a name
    SET = 16                # what a number is of, beside the kinds of machine states
    VALUE = 19              # the colon and value of a key
    GOING_ON = 20           # what may follow that, but for the end of the object
    OPENED = 22             # which names may be begun
    BRACED = 23             # the same behind a brace
    BRACE = 24              # a brace that leads there
    NUMBERED = 64           # bytes of a number, in a table that is a quarter to half full
    SOLIDUS = 0x2F          # which has a short escape
    BACKSLASH = 0x5C


cdef inline int end_of(int length, int last) noexcept nogil:
    return (7 * length + last) & (32 * ENDS - 1)


@final
cdef class KeyKinds:
    """Numbers of what is alike; what is like nothing else keeps its own."""

    def __cinit__(self, Expansion expansion, IndependentMasks masks):
        self.expansion, self.objects, self.machines = expansion, expansion.objects, expansion.machines
        self.keys, self.trie, self.store, self.shapes = expansion.objects.keys, masks.trie, masks.store, {}
        self.values, self.around = TailKinds(masks.automaton), TailKinds(masks.automaton)
        self.told = ToldNames(masks.meter, masks.trie)

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        ints_free(&self.table_shapes)
        ints_free(&self.set_kinds)
        ints_free(&self.machine_kinds)
        ints_free(&self.plain_others)
        ints_free(&self.name_ends)
        ints_free(&self.other_ends)
        map_free(&self.ids)

    cdef int clear(self) except -1:
        """Forget all kinds."""
        self.release()
        self.count = self.bytes = 0
        self.shapes = {}
        self.told.clear()
        self.around.clear()
        return self.values.clear()

    cdef long held(self) noexcept:
        """Return an estimate of the memory that all this takes."""
        return self.bytes + self.values.bytes + self.around.bytes + self.told.held()

    cdef int number(self, uint64_t a, uint64_t b) except -1:
        """Return the number of what is alike in two words."""
        cdef int known = map_get(&self.ids, a, b)
        if known < 0:
            known = KINDS + self.count
            map_put(&self.ids, a, b, known)
            self.count += 1
            self.bytes += NUMBERED
        return known

    # -- machine states ------------------------------------------------------------------------------------------------

    cdef int machine_kind(self, int q) except -3:
        """Return what a machine state is like: its own number, or one from KINDS on."""
        cdef Machine m
        cdef int kind
        if q < 0 or q & 1:
            return q
        kind = listed(&self.machine_kinds, q >> 1)
        if kind != NOT_ASKED:
            return kind
        m = self.machines.at[q >> 1]
        if not m.flags & EXPANDED and m.kind == PLAIN:
            return q
        if m.kind == PLAIN:
            kind = self.brace_kind(q)
        elif m.kind == NAMED or self.set_kind(m.set) == UNIQUE:
            kind = q
        elif m.kind == ENTRY or m.kind == BEGIN:
            kind = self.number(
                pair(m.kind, self.set_kind(m.set)), pair(self.machine_kind(self.expansion.value(&m)), m.more))
        elif m.kind == POSITION and m.extra != AFTER and not self.is_open(m.set):
            kind = self.first_kind(q) if m.extra == FIRST else q
        else:
            kind = self.number(pair(m.kind, self.set_kind(m.set)), pair(m.extra, m.more))
        note(&self.machine_kinds, q >> 1, kind)
        return kind

    cdef int brace_kind(self, int q) except -3:
        """Return what a state of no object is like, `q`: no other; those are that read nothing but a brace."""
        cdef Machine m = self.machines.at[q >> 1]
        cdef const int32_t* brace = self.machines.ranges.at + m.ranges
        if m.ranges_end - m.ranges != 3 or m.calls < m.calls_end or m.tokens < m.tokens_end or m.flags & ACCEPTING:
            return q
        if brace[2] & 1 or self.machines.at[brace[2] >> 1].kind != POSITION:
            return q
        return self.number(pair(BRACE, brace[0]), pair(brace[1], self.machine_kind(brace[2])))

    cdef bint is_open(self, int set_) except -1:
        """Say whether any key may come where these are written, with which a name goes on as long as it is read."""
        return self.set_kind(set_) != UNIQUE and self.is_any(self.keys.sets[set_].table)

    cdef bint has_plain_names(self, int set_) except -1:
        """Say whether no token ends a name of an object, or one that is written, unless it begins with the quote."""
        return self.set_kind(set_) != UNIQUE and self.keys.tables[self.keys.sets[set_].table].cells > 0

    cdef int first_kind(self, int q) except -3:
        """Return what the position behind a brace is like, where not any key may come, `q`: no other."""
        cdef Machine m = self.machines.at[q >> 1]
        cdef int told = self.told_names(m.set)
        names = self.keys.table_objects[self.keys.sets[m.set].table].names
        if told == UNIQUE or not self.are_out_of_reach(names, self.facts.braced):
            return q
        return self.number(pair(BRACED, self.set_kind(m.set)), pair(told, m.more))

    cdef int key_kind(self, int q) except -3:
        """Return what OTHER and ENTRY are like for tokens that begin before the colon, UNIQUE: that is not known.

        No token reads from there to the end of the object, so neither what lies around it matters nor which keys it
        needs; where none reads the value to its end, that and the colon are all.
        """
        cdef Machine m = self.machines.at[q >> 1]
        cdef Table t = self.keys.tables[self.keys.sets[m.set].table]
        cdef int value, behind
        if self.set_kind(m.set) == UNIQUE or self.facts.closes:
            return UNIQUE
        m.extra += t.names if m.kind == OTHER else 0
        value = self.values.kind(self.expansion.value(&m))
        if value < 0:
            return UNIQUE
        behind = self.going_on(m.set) if self.values.leaves.at[value] else -1
        return self.number(pair(VALUE, t.colon), pair(value, behind))

    cdef int going_on(self, int set_) except -1:
        """Return what a set is like where a value has ended and tokens read no further than into the next key."""
        cdef const Table* t = &self.keys.tables[self.keys.sets[set_].table]
        cdef bint may_go_on = t.cells or self.has_offers(set_)
        if self.facts.begins:
            return self.number(pair(GOING_ON, self.table_shape(self.keys.sets[set_].table)), may_go_on)
        return self.number(pair(GOING_ON, -1 - t.comma), pair(t.gap, may_go_on))

    cdef int opened_kind(self, int q) except -3:
        """Return what NAMED is like in front of the opening quote, and the position behind a comma in front of blanks
        as well, UNIQUE: that is not known.  As with `key_kind`, nothing else matters.
        """
        cdef Machine m = self.machines.at[q >> 1]
        cdef const Table* t = &self.keys.tables[self.keys.sets[m.set].table]
        cdef int kind = self.set_kind(m.set), told = -1, shape = -1
        if kind == UNIQUE or self.facts.closes:
            return UNIQUE
        if m.kind == NAMED or not self.is_open(m.set):
            told = self.told_names(m.set)
            if told == UNIQUE:
                return UNIQUE
        if m.kind == POSITION and t.cells:
            shape = self.table_shape(self.keys.sets[m.set].table)
        kind = self.number(pair(OPENED, t.quoting), pair(told, shape))
        return kind if m.kind == NAMED else self.number(pair(m.kind, kind), pair(t.gap, m.more))

    cdef int told_names(self, int set_) except -2:
        """Return the number of the tokens that begin a name which may come next, UNIQUE: they may tell more."""
        cdef int i, table = self.keys.sets[set_].table
        cdef list bits = self.told.of_table(table, self.keys.table_objects[table].names)
        cdef object found = 0
        if bits is None:
            return UNIQUE
        self.has_offers(set_)
        for i in range(self.keys.tables[table].names):
            if self.objects.offers.at[i >> 5] >> (i & 31) & 1:
                found |= bits[i]
        return self.told.number(found)

    # -- sets of written keys ------------------------------------------------------------------------------------------

    cdef int set_kind(self, int set_) except -2:
        """Return what a set of written keys is like, UNIQUE: no other."""
        cdef int shape, kind = listed(&self.set_kinds, set_)
        if kind != NOT_ASKED:
            return kind
        shape, kind = self.table_shape(self.keys.sets[set_].table), UNIQUE
        if shape != UNIQUE and not self.keys.tables[self.keys.sets[set_].table].cells:
            kind = self.closed_kind(shape, set_)
        elif shape != UNIQUE and self.others_are_plain(self.keys.sets[set_].others):
            kind = self.open_kind(shape, set_)
        note(&self.set_kinds, set_, kind)
        return kind

    cdef int open_kind(self, int shape, int set_) except -1:
        cdef const Written* w = &self.keys.sets[set_]
        cdef const Table* t = &self.keys.tables[w.table]
        return self.number(pair(SET, shape), pair(max(t.least - w.count, 0), self.keys.missing(w, t) != 0))

    cdef int closed_kind(self, int shape, int set_) except -1:
        cdef const Written* w = &self.keys.sets[set_]
        cdef const Table* t = &self.keys.tables[w.table]
        cdef int offered, needed = 0
        ints_room(&self.objects.offers, t.width + 1)
        offered = self.keys.offer(w, t, self.objects.offers.at, &needed)
        return self.number(pair(SET, shape), pair(offered, needed == 0 and w.count >= t.least))

    cdef bint is_held(self, int set_) except -1:
        """Say whether no token ends the object, where a value ends behind these keys: more are needed."""
        cdef const Written* w
        cdef const Table* t
        cdef int needed = 0
        if self.set_kind(set_) == UNIQUE or self.facts.closes:
            return False
        w, t = &self.keys.sets[set_], &self.keys.tables[self.keys.sets[set_].table]
        ints_room(&self.objects.offers, t.width + 1)
        self.keys.offer(w, t, self.objects.offers.at, &needed)
        return needed > 0 or w.count < t.least

    cdef bint has_offers(self, int set_) except -1:
        """Say whether a name may come next, and note which in the offers of `Objects`."""
        cdef const Written* w = &self.keys.sets[set_]
        cdef const Table* t = &self.keys.tables[w.table]
        cdef int needed = 0
        ints_room(&self.objects.offers, t.width + 1)
        return self.keys.offer(w, t, self.objects.offers.at, &needed)

    cdef QuoteFacts known_facts(self):
        """Return the facts of the vocabulary."""
        if self.facts is None:
            self.facts = quote_facts(self.trie, self.store)
            self.values.tails, self.around.tails = self.facts.colon, self.facts.closed
        return self.facts

    # -- tables --------------------------------------------------------------------------------------------------------

    cdef int table_shape(self, int table) except -2:
        """Return what a table is like but for its names, UNIQUE: none of its sets is like another."""
        cdef int shape = listed(&self.table_shapes, table)
        cdef const Table* t = &self.keys.tables[table]
        if shape != NOT_ASKED:
            return shape
        self.known_facts()
        work(self.keys.meter, NAMED_ONE * t.names)
        t, shape = &self.keys.tables[table], UNIQUE
        if self.objects.ways[t.quoting].count == 1 and self.objects.ways[t.quoting].opening[0] == QUOTE:
            cell = self.shared_cell(table)
            if cell is not None:
                shape = self.shapes.setdefault((t.comma, t.colon, t.gap, t.closing, t.quoting, cell), len(self.shapes))
                self.note_ends(&self.name_ends, table, -1, self.keys.table_objects[table].names)
        note(&self.table_shapes, table, shape)
        return shape

    cdef object shared_cell(self, int table):
        """Return what all other keys of a table are, (): there are none, None: no set of it is like another."""
        cdef const Table* t = &self.keys.tables[table]
        cdef object described = self.keys.table_objects[table]
        if not t.cells:
            if t.quoting != JSON and self.facts.behind[BACKSLASH]:      # not all names can begin with an escape
                return None
            return () if self.are_out_of_reach(described.names, self.facts.behind) else None
        if t.most >= 0 or t.order != NULL or not all([self.is_plain(name) for name in described.names]):
            return None
        if not self.is_any(table) and not self.are_out_of_reach(described.names, self.facts.behind):
            return None
        return tuple([(t.languages[i], table if described.shared[i] is None else described.shared[i])
                      for i in range(t.cells)])

    cdef bint is_any(self, int table) except -1:
        """Say whether any text may be a key, so that the beginning of each name may go on as one."""
        return self.keys.tables[table].cells == 1 and self.keys.table_objects[table].cells[0] == ANY_TEXT

    cdef bint others_are_plain(self, int others) except -1:
        """Say whether written keys without a name are plain, the last of which and those before are an entry of
        `others`."""
        cdef int at = others, known = True
        cdef list new = []
        while at:
            known = listed(&self.plain_others, at)
            if known != NOT_ASKED:
                break
            known = True
            new.append(at)
            at = self.keys.others[at][0]
        for at in reversed(new):
            known = known and self.is_plain(self.keys.others[at][1])
            self.note_ends(&self.other_ends, at, self.keys.others[at][0], self.keys.others[at][1:])
            note(&self.plain_others, at, known)
        return known

    # -- names ---------------------------------------------------------------------------------------------------------

    cdef bint is_plain(self, str name) except -1:
        """Say whether no token ends such a key, unless it begins with the closing quote."""
        cdef int last
        cdef bytes before = self.known_facts().before
        if not name or before[HEXED]:
            return False
        last = <int><Py_UCS4>name[len(name) - 1]
        if last < 0x20 or last in (QUOTE, SOLIDUS, BACKSLASH) or 0xD800 <= last < 0xE000:   # a short escape, or none
            return False
        return not before[last if last < 0x80 else 0x80 | last & 0x3F]

    cdef bint are_out_of_reach(self, tuple names, bytes behind) except -1:
        """Say whether no token has a comma, or a brace, blanks, a quote and the beginning of a name, other than a
        backslash."""
        for name in names:
            if not name or behind[ESCAPED] or 0xD800 <= ord(name[0]) < 0xE000 or behind[name[0].encode()[0]]:
                return False
        return True

    cdef int note_ends(self, Ints* ends, int i, int before, tuple texts) except -1:
        """Note lengths and last bytes of some texts, and of those of an entry before, -1: none."""
        cdef int at
        cdef bytes spelled
        ints_room(ends, ENDS * (i + 1) - ends.size if ENDS * (i + 1) > ends.size else 0)
        while ends.size < ENDS * (i + 1):
            ints_put(ends, 0)
        for at in range(ENDS if before >= 0 else 0):
            ends.at[ENDS * i + at] = ends.at[ENDS * before + at]
        for text in texts:
            spelled = (<str>text).encode("utf-8", "surrogatepass")
            at = end_of(len(spelled), spelled[len(spelled) - 1] if spelled else 0)
            ends.at[ENDS * i + (at >> 5)] |= <int32_t>(<unsigned int>1 << (at & 31))
        return 0

    cdef bint may_be_special(self, int set_, int length, int last) noexcept:
        """Say whether a name of a table, or a written key, may have so many bytes and this last one.

        PERF: to look up each beginning of a key takes 0.3 µs.
        """
        cdef const Written* w = &self.keys.sets[set_]
        cdef int at = end_of(length, last)
        cdef int32_t found = self.name_ends.at[ENDS * w.table + (at >> 5)]
        if w.others:
            found |= self.other_ends.at[ENDS * w.others + (at >> 5)]
        return found >> (at & 31) & 1
