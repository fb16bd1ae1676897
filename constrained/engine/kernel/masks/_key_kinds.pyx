# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""States of objects that no token tells apart, whichever keys are written.

A state behind `"size": ` knows that `size` is written, and which keys are besides.  A token that tells this from other
sets would have to go on to a key, and either spell it to its closing quote, where any key may come, or as far as a
name that is still free, where only names may.  Tokens with a letter before a quote are rare, tokens with a comma, a
quote and a letter too; so sets of written keys are compared by what else there is to them:

    open tables: any key may come, in any number         ── whether names are wanted, how many keys are
    mixed tables: some may, in front of a value          ── the same
    closed tables: only names may, in front of a value   ── whether a name may come, whether the object may end

Owns: what tables, sets and machine states are like, as numbers.  Borrows: machines, objects with their sets of written
keys; `Expansion`, for the number of a value; the trie; the vocabulary's store, in which stands what its tokens have.
Invariants: a name is *plain* if no token has its last byte and a quote behind it, so that only a token that begins with
the quote ends such a key; it is *out of reach* if no token has a comma, a quote and its first byte.  Equal kinds: the
same tokens lead to live states, whatever lies around the object, where no name is being read.
Plain twin: none; masks are compared with those of `twin.automaton`, bit by bit, in `tests/test_alike_states.py`.
Refused: a greatest number of other keys, other keys in order.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memchr
from constrained.engine.memory._meter cimport work
from constrained.engine.kernel._tables cimport (
    Ints, Map, ints_free, ints_put, ints_room, map_free, map_get, map_put, pair)
from constrained.engine.kernel.automaton._expansion cimport Expansion
from constrained.engine.kernel.automaton._machines cimport Machine
from constrained.engine.kernel.automaton._objects cimport AFTER, BEGIN, ENTRY, NAMED, PLAIN, POSITION
from constrained.engine.kernel.automaton._written_keys cimport Table, Written
from constrained.engine.kernel.masks._building cimport stored
from constrained.engine.kernel.masks._independent cimport IndependentMasks

from constrained.machine import Quoting
from constrained.regex import ANY_TEXT

cdef int JSON = Quoting.JSON

cdef enum:
    ENDS = 8                # words of a set of lengths and last bytes
    NAMED_ONE = 8           # ticks that it takes to look at a name
    SET = 16                # what a number is of, beside the kinds of machine states
    NUMBERED = 64           # bytes of a number, in a table that is a quarter to half full
    HEXED = 256             # in `before`: whether a hexadecimal digit is there, as any escape may end with
    ESCAPED = 256           # in `behind`: whether a backslash is there with more behind it
    SOLIDUS = 0x2F          # which has a short escape
    BACKSLASH = 0x5C
    COMMA = 0x2C


cdef inline int end_of(int length, int last) noexcept nogil:
    return (7 * length + last) & (32 * ENDS - 1)


@final
cdef class KeyKinds:
    """Numbers of what is alike; what is like nothing else keeps its own."""

    def __cinit__(self, Expansion expansion, IndependentMasks masks):
        self.expansion, self.objects, self.machines = expansion, expansion.objects, expansion.machines
        self.keys, self.trie, self.store, self.shapes = expansion.objects.keys, masks.trie, masks.store, {}

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
        return 0

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
        cdef int kind, set_kind
        if q < 0 or q & 1 or self.machines.at[q >> 1].kind in (PLAIN, NAMED):
            return q
        kind = listed(&self.machine_kinds, q >> 1)
        if kind != NOT_ASKED:
            return kind
        m = self.machines.at[q >> 1]
        set_kind = self.set_kind(m.set)
        if set_kind == UNIQUE or m.kind == POSITION and m.extra != AFTER and not self.is_open(m.set):
            kind = q
        elif m.kind == ENTRY or m.kind == BEGIN:
            kind = self.number(pair(m.kind, set_kind), pair(self.expansion.value(&m), m.more))
        else:
            kind = self.number(pair(m.kind, set_kind), pair(m.extra, m.more))
        note(&self.machine_kinds, q >> 1, kind)
        return kind

    cdef bint is_open(self, int set_) except -1:
        """Say whether any key may come where these are written, with which a name goes on as long as it is read."""
        return self.set_kind(set_) != UNIQUE and self.is_any(self.keys.sets[set_].table)

    cdef bint has_plain_names(self, int set_) except -1:
        """Say whether no token ends a name of an object, or one that is written, unless it begins with the quote."""
        return self.set_kind(set_) != UNIQUE and self.keys.tables[self.keys.sets[set_].table].cells > 0

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
        cdef int i
        cdef bint wanting = False
        for i in range(t.width):
            wanting |= t.required[i] & ~self.keys.set_words.at[w.words + i] != 0
        return self.number(pair(SET, shape), pair(max(t.least - w.count, 0), wanting))

    cdef int closed_kind(self, int shape, int set_) except -1:
        cdef const Written* w = &self.keys.sets[set_]
        cdef const Table* t = &self.keys.tables[w.table]
        cdef int offered, needed = 0
        ints_room(&self.objects.offers, t.width + 1)
        offered = self.keys.offer(w, t, self.objects.offers.at, &needed)
        return self.number(pair(SET, shape), pair(offered, needed == 0 and w.count >= t.least))

    # -- tables --------------------------------------------------------------------------------------------------------

    cdef int table_shape(self, int table) except -2:
        """Return what a table is like but for its names, UNIQUE: none of its sets is like another."""
        cdef int shape = listed(&self.table_shapes, table)
        cdef const Table* t = &self.keys.tables[table]
        if shape != NOT_ASKED:
            return shape
        if self.before is None:
            self.look_at_tokens()
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
            if t.quoting != JSON and self.is_behind(BACKSLASH):     # not all names can begin with an escape
                return None
            return () if all([self.is_out_of_reach(name) for name in described.names]) else None
        if t.most >= 0 or t.order != NULL or not all([self.is_plain(name) for name in described.names]):
            return None
        if not self.is_any(table) and not all([self.is_out_of_reach(name) for name in described.names]):
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
        cdef const unsigned char* before = self.before
        if not name or before[HEXED]:
            return False
        last = <int><Py_UCS4>name[len(name) - 1]
        if last < 0x20 or last in (QUOTE, SOLIDUS, BACKSLASH) or 0xD800 <= last < 0xE000:   # a short escape, or none
            return False
        return not before[last if last < 0x80 else 0x80 | last & 0x3F]

    cdef bint is_out_of_reach(self, str name) except -1:
        """Say whether no token has a comma, blanks, a quote and the beginning of a name, other than a backslash."""
        if not name or self.is_behind(ESCAPED) or 0xD800 <= <int><Py_UCS4>name[0] < 0xE000:
            return False
        return not self.is_behind(name[0].encode()[0])

    cdef bint is_behind(self, int byte) noexcept:
        return (<const unsigned char*>self.behind)[byte]

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

    cdef int look_at_tokens(self) except -1:
        """Find which bytes tokens have before a quote, and which behind a comma, blanks and a quote."""
        cdef bytearray before, behind
        cdef object found = stored(self.store.entries, ("quotes", QUOTE))
        if found is None:
            before, behind = bytearray(HEXED + 1), bytearray(ESCAPED + 1)
            self.find_quotes(before, behind)
            before[HEXED] = any([before[digit] for digit in b"0123456789abcdefABCDEF"])
            found = bytes(before), bytes(behind)
            self.store.put(("quotes", QUOTE), found, 0)
        self.before, self.behind = <bytes>found[0], <bytes>found[1]
        return 0

    cdef int find_quotes(self, unsigned char* before, unsigned char* behind) noexcept:
        """Note which bytes tokens have there.  PERF: few have a quote, 0.2 ms of 128,000 tokens instead of 2."""
        cdef const unsigned char* text = self.trie.spelled
        cdef const unsigned char* at = text
        cdef const int32_t* begins = self.trie.begins
        cdef int i, token, left = 0, right, length = begins[self.trie.size]
        while True:
            at = <const unsigned char*>memchr(at, QUOTE, length - (at - text))
            if at == NULL:
                return 0
            i, right = <int>(at - text), self.trie.size
            while left < right:         # the first token that begins behind it
                token = (left + right) >> 1
                if begins[token] <= i:
                    left = token + 1
                else:
                    right = token
            self.note_quote(begins[left - 1], i, begins[left], before, behind)
            at += 1
            left -= 1

    cdef void note_quote(self, int first, int at, int last, unsigned char* before, unsigned char* behind) noexcept:
        """Note what a token, bytes [first, last) of all, has before and behind a quote."""
        cdef const unsigned char* text = self.trie.spelled
        cdef int i = at - 1
        if at == first:
            return
        before[text[i]] = 1
        while i > first and text[i] in (0x20, 0x09, 0x0A, 0x0D):
            i -= 1
        if text[i] == COMMA and at + 1 < last:
            behind[text[at + 1]] = 1
            if text[at + 1] == BACKSLASH and at + 2 < last:
                behind[ESCAPED] = 1
