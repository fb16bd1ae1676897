# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""States that no token tells apart: their masks are equal, so the mask of one is the mask of all.

In an object where any key may be written, a state knows which keys are written; but a token that tells would have to
spell such a key to its closing quote, or what is left of one.  Tokens with a letter before a quote are rare, and no
token has both a key and what is read before it.  So states are compared without the sets of written keys, and what is
being written of a key is forgotten, wherever that is true:

    {"id": 1, "size": _      value on [position behind "size", written: id, size]     like     … [position, any set]
    {"id": 1, "si_           any text on [OTHER, record: "si], the rest of a name     like     any text on [OTHER]

Owns: what states, stacks, machine states and sets are like, as numbers; of each kind of states the first.  Borrows:
the automaton, stacks, machines, positions, objects with their sets; `Behind`, for the beginnings of keys; masks of
texts, which say what may be a second key; the trie.
Invariants: equal numbers, equal masks.  A key is *plain* if no token has its last byte and a closing quote behind it:
then only a token that begins with that quote can end it.  Sets are alike if they are of tables alike, where any key may
come in any number and all names are plain, as the written keys without a name are, and want the same number of keys.
Plain twin: none; masks are compared with those of `twin.automaton`, bit by bit, in `tests/laws.py`.
Refused: objects without other keys, where what names are left is seen in many masks; keys that patterns name.
PERF: of the masks of 300 schemas, at their first tests, two in five are known so.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.kernel._tables cimport (
    Ints, Map, ints_add, ints_free, ints_put, ints_room, map_free, map_get, map_put, map_room, pair)
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.automaton._machines cimport Machine
from constrained.engine.kernel.automaton._objects cimport BEGIN, ENTRY, NAMED, OTHER, PLAIN
from constrained.engine.kernel.automaton._written_keys cimport Table, Written, WrittenKeys
from constrained.engine.kernel.masks._behind cimport Behind
from constrained.engine.kernel.masks._building cimport IndependentMask, stored
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks._walk cimport Walk
from constrained.engine.kernel.texts._positions cimport BODY, Position

from constrained.regex import ANY_TEXT

cdef enum:
    NOT_ASKED = -2
    KINDS = 1 << 30         # numbers of what is alike begin here, behind those of machine states and stacks
    SET = 16                # what a number is of, beside the kinds of machine states
    KEY = -8                # the record of any key that is being written
    DEEPEST = 64            # frames that are looked at at once
    QUOTE = 0x22
    HEXED = 256
    NUMBERED = 64           # bytes of a number, in a table that is a quarter to half full
    UNLIKELY = 8            # configurations from which on no state is like another


cdef inline int listed(const Ints* kinds, int i) noexcept nogil:
    return kinds.at[i] if i < kinds.size else NOT_ASKED


cdef inline int note(Ints* kinds, int i, int kind) except -1:
    """Note what an entry is like."""
    ints_room(kinds, i + 1 - kinds.size if i >= kinds.size else 0)
    while kinds.size <= i:
        ints_put(kinds, NOT_ASKED)
    kinds.at[i] = kind
    return 0


@final
cdef class AlikeStates:
    """Numbers of states that are alike."""

    def __cinit__(self, Behind behind, Walk walk, IndependentMasks masks):
        self.behind, self.masks, self.any_text = behind, masks, walk.any_text
        self.automaton, self.trie = walk.automaton, walk.trie
        self.stacks, self.machines, self.positions = walk.stacks, walk.machines, walk.positions
        self.objects, self.shapes = behind.dispatches.objects, {}

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        ints_free(&self.table_shapes)
        ints_free(&self.set_kinds)
        ints_free(&self.plain_others)
        ints_free(&self.machine_kinds)
        ints_free(&self.stack_kinds)
        ints_free(&self.first)
        map_free(&self.ids)
        map_free(&self.state_ids)

    cdef int clear(self) except -1:
        """Forget all states."""
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

    # -- states --------------------------------------------------------------------------------------------------------

    cdef int find(self, int state) except -2:
        """Return the index in `first` of states like this one, UNIQUE: there are none."""
        cdef int first = self.automaton.states[state].first, last = first + self.automaton.states[state].count
        cdef int i, q, stack, kinds = -1 - self.automaton.states[state].flags
        cdef bint alike = False, covers = False
        cdef Frame frame
        cdef int keys[UNLIKELY]
        cdef const int32_t* at = self.automaton.configurations.at
        if last - first > 2 * UNLIKELY:
            return UNIQUE
        for i in range(first, last, 2):
            keys[(i - first) >> 1] = UNIQUE
            if self.is_one(at[i + 1], &frame) and not frame.after & 1 and frame.record >= 0:
                keys[(i - first) >> 1] = self.key_kind(at[i], &frame)
                at = self.automaton.configurations.at
                covers = covers or keys[(i - first) >> 1] != UNIQUE
        for i in range(first, last, 2):
            q, stack = at[i], at[i + 1]
            if covers and self.is_one(stack, &frame) and self.is_covered(q, &frame):
                alike = True
                continue
            if keys[(i - first) >> 1] != UNIQUE:
                stack = keys[(i - first) >> 1]
            else:
                q, stack = self.machine_kind(q), self.stack_kind(stack, 0)
            alike = alike or q >= KINDS or stack >= KINDS
            kinds = self.with_one(kinds, q, stack)
            at = self.automaton.configurations.at
        return kinds if alike else UNIQUE

    cdef int with_one(self, int kinds, int q, int stack) except -1:
        """Return the index of some configurations and one more."""
        cdef int known = map_get(&self.state_ids, pair(kinds, q), stack)
        if known < 0:
            map_room(&self.state_ids)
            known = ints_add(&self.first, UNIQUE)
            map_put(&self.state_ids, pair(kinds, q), stack, known)
            self.bytes += NUMBERED
        return known

    cdef bint is_one(self, int stack, Frame* frame) noexcept:
        """Say whether a stack has one frame, and which."""
        cdef int first = self.stacks.first.at[stack]
        if self.stacks.first.at[stack + 1] != first + 3:
            return False
        frame.after, frame.record = self.stacks.frames.at[first], self.stacks.frames.at[first + 1]
        frame.parent = self.stacks.frames.at[first + 2]
        return frame.after >= 0

    # -- keys ----------------------------------------------------------------------------------------------------------

    cdef int key_kind(self, int q, const Frame* frame) except -2:
        """Return what the stack of a key is like of which it does not matter how it begins, UNIQUE: it is none.

        That is any text between two characters, or before its quote: it goes on with all that a name would.
        """
        cdef Position* p
        cdef IndependentMask mask
        cdef int kind
        if self.machines.at[frame.after >> 1].kind != OTHER:
            return UNIQUE
        kind = self.machine_kind(frame.after)
        if kind < KINDS:
            return UNIQUE
        if q & 1:
            p = &self.positions.at[q >> 1]
            if p.place != BODY or p.language != self.any_text or frame.record < 8:
                return UNIQUE
            mask = self.masks.whole(q)
            if mask.groups is None:
                self.masks.group(mask, q, -1)
            if mask.twice_keys:     # which may be equal to this key
                return UNIQUE
            if self.objects.is_special(frame.after, self.behind.begun(frame.record, QUOTE)):
                return UNIQUE
            q = KEY
        elif frame.record >= 8:
            return UNIQUE
        else:
            q = frame.record
        return self.number(pair(-1, kind), pair(q, self.stack_kind(frame.parent, 1)))

    cdef bint is_covered(self, int q, const Frame* frame) except -1:
        """Say whether a configuration in a name of an object, or before one, allows no token that any text would not: no
        token ends the name."""
        cdef Position* p
        if frame.after & 1 or self.machines.at[frame.after >> 1].kind != NAMED or frame.record >= 0:
            return False
        if self.set_kind(self.machines.at[frame.after >> 1].set) == UNIQUE:
            return False
        if not q & 1:
            return True
        p = &self.positions.at[q >> 1]
        return (p.place == BODY and self.positions.spellings[p.spelling].closing == QUOTE
                and self.positions.languages.at[p.language].texts >= 0
                and not self.positions.languages.at[p.language].accepts)

    # -- stacks, machine states, sets ----------------------------------------------------------------------------------

    cdef int stack_kind(self, int stack, int level) except -2:
        """Return what a stack is like: its own number, or one from KINDS on."""
        cdef int i, after, parent, kind = listed(&self.stack_kinds, stack)
        cdef const int32_t* frame
        cdef bint alike = False
        if kind != NOT_ASKED or level == DEEPEST:
            return kind if kind != NOT_ASKED else stack
        for i in range(self.stacks.first.at[stack], self.stacks.first.at[stack + 1], 3):
            frame = self.stacks.frames.at + i
            alike |= self.after_kind(frame) >= KINDS
            if frame[2] >= 0:
                alike |= self.stack_kind(frame[2], level + 1) >= KINDS
        kind = -1 if alike else stack
        for i in range(self.stacks.first.at[stack], self.stacks.first.at[stack + 1] if alike else 0, 3):
            frame = self.stacks.frames.at + i
            after, parent = self.after_kind(frame), frame[2]
            if parent >= 0:
                parent = self.stack_kind(parent, level + 1)
            kind = self.number(pair(kind, after), pair(frame[1], parent))
        note(&self.stack_kinds, stack, kind)
        return kind

    cdef int after_kind(self, const int32_t* frame) except -3:
        """Return what the state behind a frame is like; one that wants to know a text is like no other."""
        return self.machine_kind(frame[0]) if frame[1] < 0 else frame[0]

    cdef int machine_kind(self, int q) except -3:
        """Return what a machine state is like: its own number, or one from KINDS on."""
        cdef Machine* m
        cdef int kind, set_kind, extra
        if q < 0 or q & 1:
            return q
        m = &self.machines.at[q >> 1]
        if m.kind == PLAIN or m.kind == NAMED:
            return q
        kind = listed(&self.machine_kinds, q >> 1)
        if kind != NOT_ASKED:
            return kind
        set_kind, extra = self.set_kind(m.set), m.extra
        if set_kind == UNIQUE:
            kind = q
        else:
            if m.kind == ENTRY or m.kind == BEGIN:
                extra = self.objects.value(m)
                if extra < 0:       # it has no number yet
                    return q
            kind = self.number(pair(m.kind, set_kind), pair(extra, m.more))
        note(&self.machine_kinds, q >> 1, kind)
        return kind

    cdef int set_kind(self, int set_) except -2:
        """Return what a set of written keys is like, UNIQUE: no other."""
        cdef WrittenKeys keys = self.objects.keys
        cdef Written* w
        cdef Table* t
        cdef int i, shape, kind = listed(&self.set_kinds, set_)
        cdef bint wanting = False
        if kind != NOT_ASKED:
            return kind
        shape, kind = self.table_shape(keys.sets[set_].table), UNIQUE
        if shape != UNIQUE and self.others_are_plain(keys.sets[set_].others):
            w = &keys.sets[set_]
            t = &keys.tables[w.table]
            for i in range(t.width):
                wanting |= t.required[i] & ~keys.set_words.at[w.words + i] != 0
            kind = self.number(pair(SET, shape), pair(max(t.least - w.count, 0), wanting))
        note(&self.set_kinds, set_, kind)
        return kind

    # -- tables --------------------------------------------------------------------------------------------------------

    cdef int table_shape(self, int table) except -2:
        """Return what a table is like but for its names, UNIQUE: none of its sets is like another."""
        cdef int shape = listed(&self.table_shapes, table)
        cdef Table* t = &self.objects.keys.tables[table]
        if shape != NOT_ASKED:
            return shape
        shape = UNIQUE
        described = self.objects.keys.table_objects[table]
        if (t.cells == 1 and t.most < 0 and t.order == NULL
                and self.objects.ways[t.quoting].count == 1 and self.objects.ways[t.quoting].opening[0] == QUOTE
                and described.cells[0] == ANY_TEXT and all([self.is_plain(name) for name in described.names])):
            shared = described.shared[0]
            shape = self.shapes.setdefault(
                (t.comma, t.colon, t.gap, t.closing, t.quoting, t.languages[0], table if shared is None else shared),
                len(self.shapes))
        note(&self.table_shapes, table, shape)
        return shape

    cdef bint others_are_plain(self, int others) except -1:
        """Say whether written keys without a name are plain, the last of which and those before are an entry of
        `others`."""
        cdef int at = others, known = True
        written = self.objects.keys.others
        cdef list new = []
        while at:
            known = listed(&self.plain_others, at)
            if known != NOT_ASKED:
                break
            new.append(at)
            at, _ = written[at]
            known = True
        for at in reversed(new):
            known = known and self.is_plain(written[at][1])
            note(&self.plain_others, at, known)
        return known

    cdef bint is_plain(self, str text) except -1:
        """Say whether no token ends a key that ends as this text does, unless it begins with the closing quote."""
        cdef int last
        cdef const unsigned char* ending
        if self.ending is None:
            self.ending = self.look_at_tokens()
        ending = self.ending
        if not text or ending[HEXED]:
            return False
        last = <int><Py_UCS4>text[len(text) - 1]
        if last < 0x20 or last in (QUOTE, 0x2F, 0x5C) or 0xD800 <= last < 0xE000:   # may be a short escape, or nothing
            return False
        return not ending[last if last < 0x80 else 0x80 | last & 0x3F]

    cdef bytes look_at_tokens(self):
        """Return which bytes tokens have before a quote; at HEXED, whether one of them is a hexadecimal digit, as any
        escape may end with."""
        cdef int token, i
        cdef unsigned char* flags
        found = stored(self.masks.entries, ("before", QUOTE))
        if found is not None:
            return found
        made = bytearray(HEXED + 1)
        flags = made
        for token in range(self.trie.size):
            for i in range(self.trie.begins[token] + 1, self.trie.begins[token + 1]):
                if self.trie.spelled[i] == QUOTE:
                    flags[self.trie.spelled[i - 1]] = 1
        for i in b"0123456789abcdefABCDEF":
            flags[HEXED] |= flags[i]
        found = bytes(made)
        self.masks.store.put(("before", QUOTE), found, 0)
        return found
