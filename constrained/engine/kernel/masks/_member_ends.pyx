# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The tokens that go on behind the value of a key, added to a mask without states of the object that they go on in.

Behind a value come blanks, a comma and blanks, or the object's bracket.  Blanks and commas are the same in all objects,
so they are walked on their own; the state behind the value says whether they may come, and the bracket.  States of the
object itself are only made where a token goes on to its next key, and behind its bracket those of what lies around.

    {"x": _      "",   {},\n   []\n\n  …     8 states of the object behind blanks and commas, which no generation
                                             may ever get to; here none

Owns: the states of separators; the path of the walk at hand; where walks led that are over.  Borrows: the automaton,
which it adds states to; machines, stacks and objects; masks, for their exits; `Behind`; `Walk`, for all that follows.
Invariant: what is added is in the mask; all that leaves the text is added, or `leave` says no.
Plain twin: `TextEnds.leave_anew`, which walks states of the object; to it is left what is unclear here.
PERF: a mask before any value, where the object is new: 22 to 13 µs.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset
from constrained.engine.memory._memory cimport allotted, released
from constrained.engine.kernel._tables cimport (
    ints_add, ints_free, ints_put, ints_room, map_free, map_get, map_put, map_room, pair)
from constrained.engine.kernel._trie cimport TrieNode
from constrained.engine.kernel.automaton._automaton cimport DEAD, UNKNOWN
from constrained.engine.kernel.automaton._closure cimport EXITS
from constrained.engine.kernel.automaton._machines cimport DISPATCH, Machine, RECORDS
from constrained.engine.kernel.automaton._objects cimport AFTER, NEXT, POSITION
from constrained.engine.kernel.automaton._stacks cimport OUTSIDE
from constrained.engine.kernel.masks._independent cimport MOST_LISTED
from constrained.engine.kernel.masks._mask_buffer cimport buffer_node

cdef enum:
    AT_VALUE = 0        # places: a separator, or before one
    IN_GAP = 1
    IN_COMMA = 2
    NOTHING = 0         # what a byte is
    SEPARATOR = 1
    BRACKET = 2
    KEY = 3             # the quote of one
    UNCLEAR = 4         # two things
    MOST_NOTED = 1 << 16


@final
cdef class MemberEnds:
    """Adds the tokens that leave values of keys."""

    def __cinit__(self, Behind behind, Walk walk, IndependentMasks masks):
        self.behind, self.walk, self.masks, self.automaton = behind, walk, masks, walk.automaton
        self.trie, self.stacks, self.machines = walk.trie, walk.stacks, walk.machines
        self.objects = behind.dispatches.objects
        self.marks.comma_machine = self.marks.gap_machine = -1
        self.held = []
        self.path = <int32_t*>allotted(<size_t>self.trie.longest + 2, 4)
        self.places = <char*>allotted(<size_t>self.trie.longest + 2, 1)

    def __dealloc__(self):
        released(self.path)
        map_free(&self.known)
        ints_free(&self.ways)
        ints_free(&self.noted)
        released(self.places)

    cdef int clear(self) except -1:
        """Forget all states."""
        self.marks.comma_machine = self.marks.gap_machine = -1
        self.held = []
        map_free(&self.known)
        ints_free(&self.ways)
        ints_free(&self.noted)
        return 0

    cdef bint leave(self, MaskBuffer* buffer, IndependentMask mask, int behind) except -1:
        """Add the tokens that leave a text at any exit and go on in state `behind`; say whether that could be done: it
        is the place behind the value of a key, and what leaves that need not be noted."""
        cdef MemberEnd end
        return mask.exits.size <= MOST_LISTED and self.find(behind, &end) and self.add(buffer, &end, mask)

    cdef bint walk_all(self, MaskBuffer* buffer, int state) except -1:
        """As `Walk.walk_all`, if a state is the place behind the value of a key; say whether it is."""
        cdef MemberEnd end
        return self.find(state, &end) and self.add(buffer, &end, None)

    cdef bint add(self, MaskBuffer* buffer, MemberEnd* end, IndependentMask mask) except -1:
        """Add the tokens that go on at any exit of a mask, or at the start (None); say whether that could be done.

        PERF: blanks and commas behind a mask's exits are the same in most objects, so where they lead is noted.
        """
        cdef uint64_t one = <uint64_t><void*>mask >> 4 if mask is not None else 0   # objects are 16 bytes apart
        cdef uint64_t other = pair(end.comma, end.gap)
        one = one << 17 | <uint64_t>end.closes << 16 | end.closing << 8 | end.opening
        cdef int known = map_get(&self.known, one, other)
        if known >= 0:
            self.go_again(buffer, end, known)
            return True
        self.noted.size = self.ways.at[self.ways.size - 1] if self.ways.size else 0     # without what was unclear
        cdef int first = self.noted.size
        if not (self.walk_roots(buffer, end) if mask is None else self.walk_exits(buffer, end, mask)):
            return False
        if self.noted.size + self.ways.size <= MOST_NOTED:
            map_room(&self.known)
            ints_room(&self.ways, 2)
            self.held.append(mask)
            ints_put(&self.ways, first)
            ints_put(&self.ways, self.noted.size)
            map_put(&self.known, one, other, self.ways.size - 2)
        return True

    cdef int go_again(self, MaskBuffer* buffer, MemberEnd* end, int way) except -1:
        """Add what was noted."""
        cdef const int32_t* noted
        cdef int i
        for i in range(self.ways.at[way], self.ways.at[way + 1], 2):
            noted = self.noted.at + i
            self.go_on(buffer, end, noted[1], noted[0])
        self.walk.meter.ticks += (self.ways.at[way + 1] - self.ways.at[way]) >> 1
        return 0

    cdef bint walk_exits(self, MaskBuffer* buffer, MemberEnd* end, IndependentMask mask) except -1:
        """Add the tokens that go on at any exit of a mask; say whether that could be done."""
        cdef const int32_t* child
        cdef int i = 0
        if not mask.children.size:
            self.masks.list_children(mask)
        while i < mask.children.size:
            child = mask.children.at + i
            if not end.follow[child[0] >> 6] >> (child[0] & 63) & 1:
                i = child[3]
                continue
            if not self.walk_below(buffer, end, child[2], self.trie.nodes[child[2]].end):
                return False
            i += 4
        return True

    cdef bint walk_roots(self, MaskBuffer* buffer, MemberEnd* end) except -1:
        """Add the tokens that go on at the start; say whether that could be done."""
        cdef int byte, at
        for byte in range(256):
            at = self.trie.roots[byte]
            if at >= 0 and end.follow[byte >> 6] >> (byte & 63) & 1:
                if not self.walk_below(buffer, end, at, self.trie.nodes[at].end):
                    return False
        return True

    # -- the place behind a value --------------------------------------------------------------------------------------

    cdef bint find(self, int state, MemberEnd* end) except -1:
        """Find what a state is the end of, and what may come there; say whether it is the place behind the value of a
        key: of one object the position that reads its bracket, the comma and the blanks that are there, no more."""
        cdef const int32_t* at
        cdef int i, q, place, count, comma = -1, gap = -1
        if self.walk.leaving != NULL or self.walk.bare or self.automaton.states[state].flags:
            return False
        self.automaton.read(state)
        count, end.set, end.closes = self.automaton.states[state].count, -1, False
        if not 2 <= count <= 6:
            return False
        at = self.automaton.configurations.at + self.automaton.states[state].first
        for i in range(0, count, 2):
            q, place = at[i], self.place_of(end, at[i], at[i + 1])
            if place < 0:
                return False
            if place == q:
                end.closes = True
            elif q & 1 and gap < 0:
                gap = q
            elif q == self.table_of(end).comma:
                comma = q
            else:
                return False
        if comma < 0 and not end.closes or self.objects.ways[self.table_of(end).quoting].count != 1:
            return False
        end.closing, end.opening = self.table_of(end).closing, self.objects.ways[self.table_of(end).quoting].opening[0]
        end.key = end.closed = UNKNOWN
        return self.learn(comma, gap, end) == 0

    cdef int place_of(self, MemberEnd* end, int q, int stack) noexcept:
        """Return the position that a configuration is, or goes on to when a separator has ended, -1: none of the same
        object, which it notes."""
        cdef int first = self.stacks.first.at[stack], place = q, parent = stack
        if q & 1 or self.machines.at[q >> 1].kind != POSITION:
            place, parent = self.stacks.frames.at[first], self.stacks.frames.at[first + 2]
            if self.stacks.first.at[stack + 1] != first + 3 or place < 0 or place & 1:
                return -1
            if self.stacks.frames.at[first + 1] >= 0 or self.machines.at[place >> 1].more:
                return -1
        cdef const Machine* m = &self.machines.at[place >> 1]
        if m.kind != POSITION or (m.extra != AFTER if place == q or q & 1 else m.extra != NEXT):
            return -1
        if end.set < 0:
            end.set, end.parent = m.set, parent
        return place if end.set == m.set and end.parent == parent else -1

    cdef const Table* table_of(self, const MemberEnd* end) noexcept:
        """Return the object's table, until the next one is added."""
        return &self.objects.keys.tables[self.objects.keys.sets[end.set].table]

    cdef int learn(self, int comma, int gap, MemberEnd* end) except -1:
        """Make the states of separators, unless they are those at hand, and note what they go on with."""
        cdef Separators* marks = &self.marks
        cdef int i
        if comma >= 0 and marks.comma_machine != comma:
            marks.comma_machine = -1
            marks.comma = self.automaton.enter(comma, OUTSIDE, 0)
            self.automaton.follow(marks.comma, marks.follow_comma)
            marks.comma_machine = comma
        if gap >= 0 and marks.gap_machine != gap:
            marks.gap_machine = -1
            marks.gap = self.automaton.enter(gap, OUTSIDE, 0)
            self.automaton.follow(marks.gap, marks.follow_gap)
            marks.gap_machine = gap
        end.comma, end.gap = marks.comma if comma >= 0 else DEAD, marks.gap if gap >= 0 else DEAD
        memset(end.follow, 0, sizeof(end.follow))
        for i in range(4):
            end.follow[i] |= marks.follow_comma[i] if comma >= 0 else 0
            end.follow[i] |= marks.follow_gap[i] if gap >= 0 else 0
        if end.closes:
            end.follow[end.closing >> 6] |= <uint64_t>1 << (end.closing & 63)
        return 0

    # -- walks ---------------------------------------------------------------------------------------------------------

    cdef bint walk_below(self, MaskBuffer* buffer, MemberEnd* end, int at, int stop) except -1:
        """Add the tokens of trie nodes [at, stop) that go on behind a value; say whether that could be done.

        Invariant: path[d], places[d] = the state of which separator behind d bytes; at the value itself there is none.
        """
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int base = nodes[at].depth - 1, read, visited = 0
        self.path[0], self.places[0] = DEAD, AT_VALUE
        while at < stop:
            visited += 1
            read = self.move(end, nodes[at].depth - base, nodes[at].byte)
            if read == UNCLEAR:
                return False
            if read != NOTHING:
                ints_add(&self.noted, at)
                ints_add(&self.noted, read)
                self.go_on(buffer, end, read, at)
            at = at + 1 if read == SEPARATOR else nodes[at].end
        self.walk.meter.ticks += visited
        return True

    cdef int go_on(self, MaskBuffer* buffer, MemberEnd* end, int read, int node) except -1:
        """Add what goes on at a trie node with the last byte of which something is read."""
        cdef int state
        if read == SEPARATOR:
            buffer_node(buffer, self.trie.nodes, self.trie.ids, node)
            return 0
        state = self.closed(end) if read == BRACKET else self.key(end)
        if state != DEAD:
            self.walk.enter(buffer, state, node)
        return 0

    cdef int move(self, MemberEnd* end, int depth, int byte) except -1:
        """Read a byte at a depth, where all before is read; return what it is, of a separator the state in the path."""
        cdef int before = self.path[depth - 1], place = self.places[depth - 1], after
        cdef bint may_end = place == AT_VALUE or self.automaton.states[before].flags & EXITS
        if place != IN_COMMA:
            return self.move_on(end, depth, byte, may_end)
        after = self.automaton.next_state(before, byte)
        if byte == end.opening and may_end:
            return UNCLEAR if after != DEAD else KEY
        self.path[depth], self.places[depth] = after, IN_COMMA
        return SEPARATOR if after != DEAD else NOTHING

    cdef int move_on(self, MemberEnd* end, int depth, int byte, bint may_end) except -1:
        """As `move` behind a value and blanks."""
        cdef int place = self.places[depth - 1], gap = end.gap if place == AT_VALUE else self.path[depth - 1]
        cdef int blank = self.automaton.next_state(gap, byte) if gap != DEAD else DEAD, comma = DEAD
        cdef bint closes = may_end and end.closes and byte == end.closing
        if may_end and end.comma != DEAD:
            comma = self.automaton.next_state(end.comma, byte)
        if (blank != DEAD) + (comma != DEAD) + closes > 1:
            return UNCLEAR
        if closes:
            return BRACKET
        self.path[depth], self.places[depth] = blank if blank != DEAD else comma, IN_GAP if blank != DEAD else IN_COMMA
        return SEPARATOR if self.path[depth] != DEAD else NOTHING

    cdef int key(self, MemberEnd* end) except -1:
        """Return the state behind the quote of the next key."""
        cdef int position
        if end.key == UNKNOWN:
            position = self.objects.state(POSITION, end.set, NEXT, False)
            end.key = self.automaton.next_state(self.automaton.enter(position, end.parent, 0), end.opening)
        return end.key

    cdef int closed(self, MemberEnd* end) except -1:
        """Return the state behind the object's bracket."""
        cdef int position
        if end.closed == UNKNOWN and self.is_plain(end.parent):
            end.closed = self.behind.popped(end.parent)
        elif end.closed == UNKNOWN:
            position = self.objects.state(POSITION, end.set, AFTER, False)
            end.closed = self.automaton.next_state(self.automaton.enter(position, end.parent, 0), end.closing)
        return end.closed

    cdef bint is_plain(self, int stack) noexcept:
        """Say whether no frame of a stack wants to know what it was that ended."""
        cdef int i, after
        for i in range(self.stacks.first.at[stack], self.stacks.first.at[stack + 1], 3):
            after = self.stacks.frames.at[i]
            if self.stacks.frames.at[i + 1] >= 0:
                return False
            if after >= 0 and not after & 1 and self.machines.at[after >> 1].flags & (DISPATCH | RECORDS):
                return False
        return True
