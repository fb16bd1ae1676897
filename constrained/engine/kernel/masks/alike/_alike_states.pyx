# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""States that no token tells apart: the mask of one is the mask of all.

Most new states have a mask that is there already, and for most of these that can be known beforehand: they differ in
which keys are written (`_key_kinds`), in what has been written of a key that any key may be, in which text it was that
has come to its end, in counts that are both far off, or in what no token reaches from there: the end of an object from
within a key, what lies around the array around an object from within its texts.

    {"id": 1, "size": _     a value on [position behind "size", id and size written]    is like  … on [position]
    {"id": 1, "si_          any text on [OTHER, record "si], and the rest of "size"     is like  any text on [OTHER]
    {"id": 1, "size_        the same on [OTHER, which refuses], and the end of a name   is like  … and an end, ENTRY
    {"x": {"size_           likewise, whatever lies around
    {"port": 80, _          the names that are left                                     is like  tokens that begin one
    [{"id": "_              a text on [position, [array, …]]                            is like  … on [position, array]
    ["a", "b_           any text on [items, record "b]                                  is like  any text on [items]
    {"kind": "circ_     the rest of "circle" on any stack                           is like  the rest on any other
    {"x": {"a": "_      a text in an object that needs more keys, around which lies x   is like  … anything

Owns: what stacks are like, as numbers; `KeyKinds`, `TextKinds`; of states that are alike the first.  Borrows: the
automaton, stacks, machines, positions and languages, objects; `Behind`, for the beginnings of keys; masks of texts,
which say whether a token may hold two keys.
Invariants: states with one index have equal masks.  A name that is being read beside a key that may be any text allows
nothing that the key would not, unless the name ends there: such objects have plain names.
Plain twin: none; masks are compared with those of `twin.automaton`, bit by bit, in `tests/test_alike_states.py`.
Refused: what is left of names where only names may come, behind their quote, which is seen in nearly every mask;
machine states alike by all that they lead to, as arrays are: to write that down took more than it saved.  Stacks alike
by a walk over all that tokens have behind a quote: it makes the states that composing makes, and some more.
PERF: first tests of 300 schemas of MaskBench: of 20,665 masks of new states 13,122 are found so, in 0.3 µs each, and
the median step, mask and advance, takes 2.3 µs instead of 4.8.
"""
from cython cimport final
from libc.stdint cimport uint32_t
from constrained.engine.kernel._tables cimport (
    Ints, Map, ints_add, ints_free, map_free, map_get, map_put, map_room, pair)
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.automaton._machines cimport ALIKE, DISPATCH, KEYED, Machine
from constrained.engine.kernel.automaton._objects cimport AFTER, BEGIN, NAMED, NEXT, OTHER, PLAIN, POSITION
from constrained.engine.kernel.automaton._written_keys cimport Table
from constrained.engine.kernel.masks._behind cimport Behind
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks._walk cimport Walk
from constrained.engine.kernel.masks.alike._key_kinds cimport KINDS, KeyKinds, NOT_ASKED, QUOTE, UNIQUE, listed, note
from constrained.engine.kernel.masks.alike._text_kinds cimport TextKinds
from constrained.engine.kernel.texts._languages cimport LanguageAt
from constrained.engine.kernel.texts._positions cimport BODY

from constrained.machine import Quoting

cdef int JSON = Quoting.JSON

cdef enum:
    # what a number is of, beside those of `KeyKinds`:
    IN_KEY = 21             # a key whose end no token takes further than into the next one
    IN_OBJECT = 25          # an object that tokens leave with its closing bracket
    AROUND = 26             # what lies around one
    FAR = KINDS - 1         # instead of a stack: no token reads on to it
    ANY_KEY = -8            # instead of the record of a key: however it begins, so that its end is no special key
    REFUSED = -9            # or so that it is one
    ANY_TEXT = -10          # instead of the record of another text
    MOST = 8                # configurations of a state that may be like another
    BACKSLASH = 0x5C
    BRACKET = 0x7D
    RECORDS = 8             # records from which on something has been read
    DEEPEST = 64            # frames that are looked at at once
    NUMBERED = 64           # bytes of a number, in a table that is a quarter to half full


@final
cdef class AlikeStates:
    """Finds states that are alike by one index."""

    def __cinit__(self, Behind behind, Walk walk, IndependentMasks masks):
        self.behind, self.masks, self.any_text, self.automaton = behind, masks, walk.any_text, walk.automaton
        self.stacks, self.machines = walk.stacks, walk.machines
        self.positions, self.languages = walk.positions, walk.languages
        self.objects, self.kinds = behind.dispatches.objects, KeyKinds(behind.dispatches.expansion, masks)
        self.texts = TextKinds(walk.positions, masks, self.kinds)

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        ints_free(&self.stack_kinds)
        ints_free(&self.around_kinds)
        ints_free(&self.first)
        map_free(&self.ids)

    cdef int clear(self) except -1:
        """Forget all states."""
        self.release()
        self.texts.clear()
        return self.kinds.clear()

    cdef long held(self) noexcept:
        """Return an estimate of the memory that all this takes."""
        return self.kinds.held() + NUMBERED * <long>self.first.size

    # -- states --------------------------------------------------------------------------------------------------------

    cdef int find(self, int state) except -2:
        """Return the index in `first` of all states that are like this one, UNIQUE: none can be."""
        cdef int first = self.automaton.states[state].first, count = self.automaton.states[state].count // 2
        cdef int i, index = -1 - self.automaton.states[state].flags
        cdef int covers = 0, kept = 0
        cdef bint alike = False
        cdef Pair pairs[MOST]
        if count > MOST:
            return UNIQUE
        for i in range(count):
            pairs[i].q = self.automaton.configurations.at[first + 2 * i]
            pairs[i].stack = self.automaton.configurations.at[first + 2 * i + 1]
        for i in range(count):
            pairs[i].is_key = self.find_key(&pairs[i])
            covers |= (pairs[i].is_key and pairs[i].is_any) << (pairs[i].q & 1)
        for i in range(count):
            if not pairs[i].is_key and not self.find_other(&pairs[i], covers >> (pairs[i].q & 1) & 1):
                alike = True
                continue
            alike |= pairs[i].q >= KINDS or pairs[i].stack >= KINDS
            put_in_order(pairs, pairs[i], kept)
            kept += 1
        for i in range(kept if alike else 0):
            index = self.with_one(index, pairs[i].q, pairs[i].stack)
        return index if alike else UNIQUE

    cdef int with_one(self, int index, int q, int stack) except -1:
        """Return the index of some configurations and one more."""
        cdef int known = map_get(&self.ids, pair(index, q), stack)
        if known < 0:
            map_room(&self.ids)
            known = ints_add(&self.first, UNIQUE)
            map_put(&self.ids, pair(index, q), stack, known)
        return known

    # -- configurations ------------------------------------------------------------------------------------------------

    cdef bint find_key(self, Pair* at) except -1:
        """Find what a key without a name is like, before its quote or between two characters; say whether a
        configuration is in one that is like others."""
        cdef Frame frame
        cdef int record
        if not self.has_one(at.stack, &frame) or frame.record < 0 or self.machines.at[frame.after >> 1].kind != OTHER:
            return False
        if self.kinds.machine_kind(frame.after) < KINDS or not at.q & 1 and frame.record >= RECORDS:
            return False
        if at.q & 1:
            record = self.record_kind(at.q, &frame)
            at.is_any = self.positions.at[at.q >> 1].language == self.any_text
        else:
            record, at.is_any = frame.record, self.kinds.is_open(self.machines.at[frame.after >> 1].set)
        if record != UNIQUE:
            at.stack = self.in_key(frame.after, record, frame.parent)
        return record != UNIQUE

    cdef int record_kind(self, int q, const Frame* frame) except -2:
        """Return what the record is like of a key that is being read, UNIQUE: no other, as a token may go on to a
        second key, which must not be the same."""
        cdef IndependentMask mask
        cdef const LanguageAt* language = &self.languages.at[self.positions.at[q >> 1].language]
        if self.positions.at[q >> 1].place != BODY or language.texts >= 0 or language.labelled:
            return UNIQUE
        mask = self.masks.whole(q)
        self.masks.grouping.find_twice(mask, -1)
        if mask.twice_keys:
            return UNIQUE
        return REFUSED if self.is_special(frame) else ANY_KEY

    cdef bint is_special(self, const Frame* frame) except -1:
        """Say whether what is written of a key is a name or a written key."""
        cdef int at = frame.record, length = -1     # without the opening quote
        while at >= RECORDS:
            if self.stacks.record_byte.at[at] == BACKSLASH:
                return self.objects.is_special(frame.after, self.behind.begun(frame.record, QUOTE))
            at = self.stacks.record_parent.at[at]
            length += 1
        if not length or not self.kinds.may_be_special(
                self.machines.at[frame.after >> 1].set, length, self.stacks.record_byte.at[frame.record]):
            return False
        return self.objects.is_special(frame.after, self.behind.begun(frame.record, QUOTE))

    cdef bint find_other(self, Pair* at, bint covers) except -1:
        """Find what any other configuration is like; False: it adds nothing.

        covers: whether any key is being read as well, or will be where this one is a name's.
        """
        cdef Frame frame
        cdef int kind
        cdef bint has_one = self.has_one(at.stack, &frame), is_last
        if has_one and self.machines.at[frame.after >> 1].kind == NAMED:
            covers = covers and self.kinds.has_plain_names(self.machines.at[frame.after >> 1].set)
            if not at.q & 1:
                if not covers:
                    self.open_name(at, &frame)
                return not covers
            if not self.texts.is_name(at.q):
                return True
            is_last = self.texts.is_last(at.q)
            if self.languages.at[self.positions.at[at.q >> 1].language].accepts and (covers or is_last):
                self.end_name(at, &frame)
                return True
            if not covers and is_last and self.texts.is_far(at.q):
                at.q, at.stack = self.texts.last_text(at.q), FAR
            elif not covers:
                at.stack = self.stack_kind(at.stack, 0)
            return not covers
        if has_one and self.is_next(frame.after):
            kind = self.kinds.opened_kind(frame.after)
            at.q = self.texts.kind(at.q) if at.q & 1 else at.q
            at.stack = kind if kind != UNIQUE else self.stack_kind(at.stack, 0)
            return True
        if has_one and self.is_quoted_value(at.q, &frame):
            if at.q & 1 and self.texts.is_name(at.q) and self.texts.is_last(at.q) and self.texts.is_far(at.q):
                at.q, at.stack = self.texts.last_text(at.q), FAR
                return True
            at.q, at.stack = self.texts.kind(at.q) if at.q & 1 else at.q, self.in_object(frame.after, frame.parent)
            return True
        if has_one and frame.record >= RECORDS and self.find_recorded(at, &frame):
            return True
        if at.q & 1 and has_one and frame.record < 0 and not self.machines.at[frame.after >> 1].flags & DISPATCH:
            at.q, at.stack = self.texts.kind(at.q), self.stack_kind(at.stack, 0)
        else:
            at.q, at.stack = self.kinds.machine_kind(at.q), self.beyond(at.q, at.stack, -1)
        return True

    cdef bint find_recorded(self, Pair* at, const Frame* frame) except -1:
        """Find what a text is like that is recorded as some are special; say whether no token ends one of these, nor
        reads on to a second text, which must not be the same."""
        cdef IndependentMask mask
        cdef int flags = self.machines.at[frame.after >> 1].flags, token, most = -1
        if not flags & ALIKE or not at.q & 1 or not self.texts.is_endless(at.q):
            return False
        if 0 <= self.behind.dispatches.tells_from(frame.after) <= self.behind.trie.longest:
            return False
        mask = self.masks.whole(at.q)
        if mask.groups is None:
            self.masks.group(mask, at.q, -1)
        for token in mask.twice_keys if flags & KEYED else mask.twice:
            most = max(most, self.behind.trie.begins[token + 1] - self.behind.trie.begins[token])
        if most >= 0 and (flags & KEYED or most > self.behind.second(frame.record, QUOTE)):
            return False
        if self.behind.special_groups(mask, at.q, frame.after, frame.record, False):
            return False
        at.stack = self.framed(frame.after, ANY_TEXT, frame.parent, 0)
        return True

    cdef bint has_one(self, int stack, Frame* frame) noexcept:
        """Say whether a stack has one frame with a machine state with edges, and which."""
        cdef int first = self.stacks.first.at[stack]
        frame.after, frame.record = self.stacks.frames.at[first], self.stacks.frames.at[first + 1]
        frame.parent = self.stacks.frames.at[first + 2]
        return self.stacks.first.at[stack + 1] == first + 3 and frame.after >= 0 and not frame.after & 1

    cdef bint is_next(self, int after) noexcept:
        """Say whether a frame goes on to a key behind a comma."""
        cdef const Machine* m = &self.machines.at[after >> 1]
        return m.kind == POSITION and m.extra == NEXT

    cdef bint is_quoted_value(self, int q, const Frame* frame) except -1:
        """Say whether a position is in a text in quotes, or in front of one, that is the value of a key."""
        cdef Machine m = self.machines.at[frame.after >> 1]
        if m.kind == BEGIN:
            q = self.kinds.expansion.value(&m)
        elif m.kind != POSITION or m.extra != AFTER:
            return False
        if q & 1:
            return m.kind != BEGIN and self.texts.is_in_quotes(q)
        return self.machines.at[q >> 1].quoting == JSON

    # -- names ---------------------------------------------------------------------------------------------------------

    cdef int end_name(self, Pair* at, const Frame* frame) except -1:
        """Find what a name is like that ends here, with a quote."""
        cdef int entry = self.objects.behind_name(frame.after, self.positions.label(at.q >> 1))
        at.q, at.stack = self.texts.rest(at.q, ""), self.in_key(entry, -1, frame.parent)
        return 0

    cdef int open_name(self, Pair* at, const Frame* frame) except -1:
        """Find what names are like in front of their quote."""
        cdef int kind = self.kinds.opened_kind(frame.after)
        if kind == UNIQUE:
            at.stack = self.stack_kind(at.stack, 0)
        else:
            at.q, at.stack = kind, FAR
        return 0

    # -- stacks --------------------------------------------------------------------------------------------------------

    cdef int in_key(self, int after, int record, int parent) except -1:
        """Return what a stack with one frame is like within a key, or before it."""
        cdef int kind = self.kinds.key_kind(after)
        if kind != UNIQUE:
            return self.kinds.number(pair(IN_KEY, kind), <uint32_t>record)
        return self.framed(after, record, parent, 0)

    cdef int framed(self, int after, int record, int parent, int level) except -1:
        """Return what a stack with one frame is like."""
        return self.kinds.number(
            pair(-1, self.kinds.machine_kind(after)), pair(record, self.beyond(after, parent, level)))

    cdef int in_object(self, int after, int parent) except -1:
        """Return what a stack with one frame is like for tokens that leave the object with its bracket."""
        if self.kinds.set_kind(self.machines.at[after >> 1].set) == UNIQUE or self.kinds.facts.closes:
            return self.framed(after, -1, parent, 0)
        return self.kinds.number(pair(IN_OBJECT, self.kinds.machine_kind(after)), self.beyond(after, parent, 0))

    cdef int beyond(self, int after, int parent, int level) except -2:
        """Return what a stack is like where a machine state has ended: an object ends with its bracket, so that what
        tokens have behind one is all that they see of it."""
        cdef const Machine* m = &self.machines.at[after >> 1]
        cdef const Table* t
        if parent < 0:
            return parent
        if 0 <= after < KINDS and not after & 1 and m.kind != PLAIN and (m.kind == POSITION or not m.more):
            t = &self.objects.keys.tables[self.objects.keys.sets[m.set].table]
            if t.closing == BRACKET and (m.kind == POSITION or m.kind == BEGIN) and self.kinds.is_held(m.set):
                return FAR
            if t.closing == BRACKET:
                return self.around(parent, level + 1)
        return self.stack_kind(parent, level + 1)

    cdef int around(self, int stack, int level) except -2:
        """Return what tokens see of the stack around an object behind its bracket: nothing that lies behind a frame
        which none leaves."""
        cdef int i, after, record, parent, seen, kind = listed(&self.around_kinds, stack)
        if kind != NOT_ASKED or level >= DEEPEST:
            return kind if kind != NOT_ASKED else stack
        for i in range(self.stacks.first.at[stack], self.stacks.first.at[stack + 1], 3):
            after, record = self.after_kind(i), self.stacks.frames.at[i + 1]
            seen = self.seen(after) if record < 0 else UNIQUE
            parent = -1
            if seen == UNIQUE:
                kind = self.kinds.number(pair(kind, after), pair(record, self.parent_kind(i, level)))
                continue
            if self.kinds.around.leaves.at[seen]:
                parent = self.parent_kind(i, level)
            kind = self.kinds.number(pair(AROUND, kind), pair(seen, parent))
        note(&self.around_kinds, stack, kind)
        return kind

    cdef int seen(self, int after) except -2:
        """Return what tokens see of a machine state of no object behind an object's bracket, UNIQUE: not known."""
        if not 0 <= after < KINDS or after & 1:
            return UNIQUE
        if self.machines.at[after >> 1].kind != PLAIN or self.machines.at[after >> 1].flags & DISPATCH:
            return UNIQUE
        self.kinds.known_facts()
        return self.kinds.around.kind(after)

    cdef int stack_kind(self, int stack, int level) except -2:
        """Return what a stack is like: its own number, or one from KINDS on."""
        cdef int i, first, last, kind = listed(&self.stack_kinds, stack)
        cdef bint alike = False
        if kind != NOT_ASKED or level == DEEPEST:
            return kind if kind != NOT_ASKED else stack
        first, last, kind = self.stacks.first.at[stack], self.stacks.first.at[stack + 1], -1
        for i in range(first, last, 3):
            alike |= self.after_kind(i) >= KINDS or self.parent_kind(i, level) >= KINDS
        for i in range(first, last if alike else first, 3):
            kind = self.kinds.number(
                pair(kind, self.after_kind(i)), pair(self.stacks.frames.at[i + 1], self.parent_kind(i, level)))
        kind = kind if alike else stack
        note(&self.stack_kinds, stack, kind)
        return kind

    cdef int after_kind(self, int frame) except -3:
        """Return what a frame goes on with; what wants to know a text is like nothing else."""
        cdef int after = self.stacks.frames.at[frame]
        return self.kinds.machine_kind(after) if self.stacks.frames.at[frame + 1] < 0 else after

    cdef int parent_kind(self, int frame, int level) except -2:
        """Return what the stack below a frame is like."""
        return self.beyond(self.stacks.frames.at[frame], self.stacks.frames.at[frame + 2], level)


cdef inline void put_in_order(Pair* pairs, Pair one, int count) noexcept nogil:
    """Put a pair among the first ones, in order: alike states have their configurations in orders of their own."""
    while count and (pairs[count - 1].q > one.q or pairs[count - 1].q == one.q and pairs[count - 1].stack > one.stack):
        pairs[count] = pairs[count - 1]
        count -= 1
    pairs[count] = one
