# cython: boundscheck=False, wraparound=False, cdivision=True
"""The compiled kernel: masks of states composed, and the object that matchers hold; the automaton of
`engine.plain` in flat arrays.

Three things differ from the twin, none of them in meaning.
*Merged stacks*: a stack is an interned set of frames, i.e. a node of a graph of stacks; readings that share a machine
state share one configuration, so an ambiguous grammar costs as many configurations as it has machine states.
*Rows*: every automaton state has 256 successors, filled on demand; rows share the blocks that are empty.
*Shared masks*: what tokens do inside a text is kept with the vocabulary; of finished masks that are equal one is kept.

It is put together of parts, each a class with fields of its own and references to the parts that it uses; none inherits
from another.  What stands behind an arrow uses what the arrow points to:

    _texts      Languages <- Positions
    _automaton  Positions, Machines, WrittenKeys <- Objects <- Expansion <- Dispatches <- Closure <- Automaton
                Stacks <- Dispatches, Closure, Automaton          Trie <- Automaton
    _masks      Automaton <- Builder <- IndependentMasks <- FiniteTexts        Automaton <- Staying <- Builder
                Automaton <- Walk <- FiniteTexts
    here        FiniteTexts, Walk, Unions, Behind <- TextEnds <- Composer      Composer <- Kernel

Invariants: mask(state) bit i = (step_token(state, i) != DEAD), checked bit by bit in tests/laws.  Whatever raises
leaves every part as it was, but for what it has learned.
Memory: some 250 bytes per stepped state, a few hundred per mask as a rule; the owner starts a fresh kernel when
`is_full`.
Sources: Tomita 1986 (graph-structured stacks); stack sets in canonical form, masks of texts with exits: ours.
"""
cimport numpy
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_RawCalloc
from cpython.pythread cimport (
    PyThread_acquire_lock, PyThread_allocate_lock, PyThread_release_lock, PyThread_type_lock, WAIT_LOCK)
from cython cimport final, initializedcheck
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from constrained.engine.kernel._automaton cimport (
    ACCEPTING, AFTER, ALIKE, Automaton, BEGIN, BOTTOM, Closure, DEAD, DISPATCH, Dispatches, ENDS, ENTRY, EXITS,
    EXPANDED, Expansion, FINAL, KEYED, known_successor, LEAVES, Machine, Machines, Mask, NAMED, NEXT, Objects, OTHER,
    OUTSIDE, PLAIN, POSITION, RECORDS, Stacks, Table, UNKNOWN, WrittenKeys)
from constrained.engine.kernel._masks cimport (
    buffer_begin, buffer_clear, buffer_doubt, buffer_doubt_new, buffer_end, buffer_has, buffer_node,
    buffer_token, buffer_tokens, buffer_words, Builder, Counter, FiniteTexts, IndependentMask, IndependentMasks,
    is_same_mask, mask_bytes, mask_has, MaskBuffer, MOST_LISTED, pack, Unions, unpack, Walk)
from constrained.engine.kernel._texts cimport BODY, LanguageAt, Languages, Position, Positions
from constrained.engine.memory._memory cimport (
    allotted, Arena, arena_free, arena_undo, cleared, Ints, ints_add, ints_extend, ints_free,
    ints_put, ints_room, LITTLE, Map, map_add, map_find, map_free, map_get, map_put, map_room,
    Meter, pair, released, Turnstile, work)
from constrained.engine.tokens._tokens cimport Trie, TrieNode

from constrained.engine.tokens.bitmask import misfit, number
from constrained.errors import LimitExceeded
from constrained.machine import Text
from constrained.work import Preempted

import numpy as np
import os


# ======================================================================================================================
# The automaton states behind texts: where a mask goes on with the tokens that leave a text.
#
#     the text does not matter to what follows ── popped ──► one state for each stack
#     a Dispatch asks for the text ── ordinary ──► one state for all texts that are not special
#                                  └─ following ──► one for each special text, at the exits of `special_exits` or,
#                                                   of texts in quotes, `special_groups`
#     an ordinary key whose value has ended ── value ──► one for each set of written keys and stack
#
# Owns: the states behind texts and values, the beginnings of recorded texts, the exits of names.  Borrows: the
# automaton, which it adds states to; stacks, positions and the trie; `Dispatches`, for what follows a recorded text;
# the meter of work.
# Invariant: `ordinary` reads all that lies behind any text that is not special, see `machine.Dispatch`.
# Plain twin: `plain.PlainKernel._returned`, which has one frame for each text.
# ======================================================================================================================

cdef enum:
    GROUPED = 32        # ticks that it takes to look at a group of exits
    LOOKED_UP = 32      # and at a text
    ALL = 0x7FFFFFFF


@final
cdef class Behind:
    """States behind texts, each found once."""

    cdef Meter meter                # borrowed, as the next five
    cdef Trie trie
    cdef Stacks stacks
    cdef Positions positions
    cdef Dispatches dispatches
    cdef Automaton automaton
    cdef Map popped_states          # stack -> state behind a text above it, frames that record left out
    cdef Map generic                # (Dispatch, parent stack) -> state behind an ordinary text
    cdef Map values                 # (Dispatch, parent stack) -> state behind the value of an ordinary key
    cdef dict begun_texts           # record -> its text, see `begun`
    cdef dict named_exits           # (mask of a key, id of names) -> ({exit node: name}, names)
    cdef Ints seeds                 # configurations behind a text

    def __cinit__(self, Dispatches dispatches, Automaton automaton):
        self.dispatches, self.automaton, self.trie = dispatches, automaton, automaton.trie
        self.stacks, self.positions, self.meter = dispatches.stacks, dispatches.positions, automaton.meter
        self.begun_texts, self.named_exits = {}, {}

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        ints_free(&self.seeds)
        map_free(&self.popped_states)
        map_free(&self.generic)
        map_free(&self.values)

    cdef int clear(self) except -1:
        """Forget all states."""
        self.release()
        self.begun_texts, self.named_exits = {}, {}
        return 0

    cdef int popped(self, int stack) except -1:
        """Return the state in which the text above `stack` has just ended; frames that record are left out."""
        cdef int i, known = map_get(&self.popped_states, stack, 0), flags = 0
        cdef const int32_t* frames = self.stacks.frames.at
        if known >= 0:
            return known
        self.seeds.size = 0
        for i in range(self.stacks.first.at[stack], self.stacks.first.at[stack + 1], 3):
            if frames[i] == ENDS:
                flags |= FINAL
            elif frames[i] == LEAVES:
                flags |= EXITS
            elif frames[i] >= 0 and frames[i + 1] < 0:
                ints_add(&self.seeds, frames[i])
                ints_add(&self.seeds, frames[i + 2])
        known = self.automaton.close(&self.seeds, flags) if self.seeds.size or flags else DEAD
        map_put(&self.popped_states, stack, 0, known)
        return known

    cdef dict special_exits(self, int node, int after, int record):
        """Return {node: text} for the special texts that a token can complete, of texts without quotes, which have one
        spelling."""
        cdef int exit_
        so_far = self.begun(record, -1) if record >= 8 else ""
        found = {}
        for text in self.dispatches.special_texts(after, so_far, ALL):
            work(self.meter, LOOKED_UP)
            exit_ = self.trie.find(node, text[len(so_far):].encode("utf-8", "surrogatepass"))
            if exit_ >= 0:
                found[exit_] = text
        return found

    cdef dict special_groups(self, IndependentMask mask, int q, int after, int record, bint everything):
        """Return {exit node: text} for the special texts that a token can complete, for all texts if ordinary ones are
        refused."""
        cdef dict groups = mask.groups
        if not groups:
            return {}
        work(self.meter, GROUPED * len(groups))
        closing = self.positions.spellings[self.positions.at[q >> 1].spelling].closing
        so_far = self.begun(record, closing) if record >= 8 else ""
        if not so_far and not everything and self.dispatches.machines.at[after >> 1].kind == OTHER:
            names = self.dispatches.objects.names(after)
            if len(names) <= len(groups):
                return self.special_keys(mask, names, self.dispatches.objects.unnamed(after))
        special = None if everything else self.dispatches.special_texts(after, so_far, len(groups))
        found = {}
        if special is None:
            special = [so_far + end for end in groups if everything or self.dispatches.is_special(after, so_far + end)]
        for text in special:
            exits = groups.get(text[len(so_far):])
            if exits is not None:
                for node in exits:
                    found[node] = text
        return found

    cdef dict special_keys(self, IndependentMask mask, tuple names, object unnamed):
        """Return {exit node: text} for the names of an object and its written keys without one, at the start of a key.

        PERF: the names are looked up once, not for each set of written keys: 3,000 instructions a mask.
        """
        known = self.named_exits.get((mask, id(names)))
        if known is None:
            found = {node: text for text in names for node in mask.groups.get(text, ())}
            # the names are held, so that their id stays theirs
            known = self.named_exits[mask, id(names)] = found, names
        found = known[0]
        if unnamed:
            found = found | {node: text for text in unnamed for node in mask.groups.get(text, ())}
        return found

    cdef object begun(self, int record, int closing):
        """Return the text of a record that is still inside its text."""
        found = self.begun_texts.get(record)
        if found is None:
            found = self.begun_texts[record] = self.stacks.recorded(record, bytes((closing,)) if closing >= 0 else b"")
        return found

    cdef int second(self, int record, int closing) except -1:
        """Return how long a token is at most that holds the closing quote and no second text of this beginning, in
        quotes, as no spelling is shorter."""
        return 2 + <int>len(self.begun(record, closing).encode("utf-8", "surrogatepass"))

    cdef int ordinary(self, int after, int parent) except -1:
        """Return the state behind an ordinary text, DEAD where it is refused."""
        cdef int known = map_get(&self.generic, after, parent)
        if known < 0:
            known = self.following(after, None, parent)
            map_put(&self.generic, after, parent, known)
        return known

    cdef int value(self, int after, int parent) except -1:
        """Return the state behind the value of an ordinary key of a native object.

        PERF: 1,000 instructions less for each further token of a key.
        """
        cdef int known = map_get(&self.values, after, parent)
        if known < 0:
            known = self.automaton.enter(self.dispatches.objects.position_behind(after), parent, 0)
            map_put(&self.values, after, parent, known)
        return known

    cdef int following(self, int after, object text, int parent) except -1:
        """Return the state behind a recorded text, DEAD where it is refused."""
        cdef int following = self.dispatches.following(after, text)
        return self.automaton.enter(following, parent, 0) if following >= 0 else DEAD


# ======================================================================================================================
# The tokens that go on behind the value of a key, added to a mask without states of the object that they go on in.
#
# Behind a value come blanks, a comma and blanks, or the object's bracket.  Blanks and commas are the same in all
# objects, so they are walked on their own; the state behind the value says whether they may come, and the bracket.
# States of the object itself are only made where a token goes on to its next key, and behind its bracket those of what
# lies around.
#
#     {"x": _      "",   {},\n   []\n\n  …     8 states of the object behind blanks and commas, which no generation
#                                              may ever get to; here none
#
# Owns: the states of separators; the path of the walk at hand; where walks led that are over.  Borrows: the automaton,
# which it adds states to; machines, stacks and objects; masks, for their exits; `Behind`; `Walk`, for all that follows.
# Invariant: what is added is in the mask; all that leaves the text is added, or `leave` says no.
# Plain twin: `TextEnds.leave_anew`, which walks states of the object; to it is left what is unclear here.
# PERF: a mask before any value, where the object is new: 22 to 13 µs.
# ======================================================================================================================

cdef struct Separators:         # of a table, as machine states, and as automaton states that EXIT where they may end
    int comma_machine, gap_machine  # where a gap is: behind as many blanks as were read
    int comma, gap
    uint64_t follow_comma[4]    # the bytes that they go on with
    uint64_t follow_gap[4]


cdef struct MemberEnd:          # of an object that is walked
    int set, parent             # the keys that are written, and the stack around the object
    int comma, gap              # states of separators, DEAD: there is no gap
    int closing, opening        # bytes: the object's bracket, the quote of keys
    bint closes                 # whether the bracket may come
    int key, closed             # the states behind the next key's quote, and behind the bracket; UNKNOWN: not asked for
    uint64_t follow[4]          # the bytes that come next


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

    cdef Automaton automaton        # borrowed, as the next seven
    cdef Trie trie
    cdef Stacks stacks
    cdef Machines machines
    cdef Objects objects
    cdef IndependentMasks masks
    cdef Behind behind
    cdef Walk walk
    cdef Separators marks           # that were last looked at
    cdef int32_t* path              # (longest + 2,) the states of separators on the way to the node at hand, DEAD: none
    cdef char* places               # (longest + 2,) which separator they are of
    cdef Map known                  # mask and separators -> a way of `ways`
    cdef Ints ways                  # of each its first and its last one in `noted`
    cdef Ints noted                 # pairs of a trie node and what it ends with: a separator, a key's quote, a bracket
    cdef list held                  # the masks of ways, which keep their addresses

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
        if self.walk.bare or self.automaton.states[state].flags:
            return False
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


# ======================================================================================================================
# The tokens that leave a text, added to a mask: those that end where it does, and those that go on behind it.
#
# A context-independent mask says at which trie nodes, its *exits*, tokens leave a text; from the state behind the text
# the trie is walked below them.  Where what follows depends on the text, ordinary texts share one state behind them,
# special ones have their own, and what could tell more is doubted; docs/kernel.md has a table of the `leave_…`
# functions.
#
# Owns: the exits that are apart; what was noted of bases.  Borrows: the buffer of the composer, whose worklist it adds
# to; `Behind`, for the states behind texts; masks, walks, the automaton, stacks, machines and objects; `Dispatches`;
# the trie.
# Invariant: what is added, and not doubted, is in the mask.
# Plain twin: `plain.PlainKernel.mask`, which walks all tokens.
# ======================================================================================================================

cdef enum:
    KEPT = 200          # bytes that is known to have been left once takes


@final
cdef class Leavings:
    """What a walk behind some exits adds to a buffer: tokens, and texts that are put off."""

    cdef Ints words                 # pairs (word, its bits): the tokens
    cdef Ints names                 # as in a worklist
    cdef Ints texts

    def __dealloc__(self):
        ints_free(&self.words)
        ints_free(&self.names)
        ints_free(&self.texts)

    cdef long size(self) noexcept:
        """Return the bytes that it takes."""
        return sizeof(Leavings) + 4 * (<long>self.words.room + self.names.room + self.texts.room)

    cdef int add(self, MaskBuffer* buffer) except -1:
        """Add it to a buffer."""
        buffer_words(buffer, &self.words)
        ints_extend(&buffer.todo.names, &self.names)
        ints_extend(&buffer.todo.texts, &self.texts)
        return 0


cdef Leavings noted(MaskBuffer* buffer):
    """Return what a walk has added to an empty buffer."""
    cdef Leavings made = Leavings()
    cdef int i
    for i in range(buffer.words):
        if buffer.bits[i]:
            ints_add(&made.words, i)
            ints_add(&made.words, <int32_t>buffer.bits[i])
    ints_extend(&made.names, &buffer.todo.names)
    ints_extend(&made.texts, &buffer.todo.texts)
    return made


@final
cdef class TextEnds:
    """Adds the tokens that leave texts to the buffer of a composer."""

    cdef MaskBuffer* buffer         # borrowed, as the next ten
    cdef Behind behind
    cdef Dispatches dispatches
    cdef Walk walk
    cdef IndependentMasks masks
    cdef Unions unions
    cdef Automaton automaton
    cdef Trie trie
    cdef Objects objects
    cdef Stacks stacks
    cdef Machines machines
    cdef MemberEnds members         # owned, as all that follows
    cdef Ints apart                 # exits behind which not all is as behind the others
    cdef list left                  # (base, None or `Leavings`) of each (base's address, state behind)
    cdef Map left_ids
    cdef long bytes                 # that these take
    cdef MaskBuffer noting          # what they are noted in; else empty

    def __cinit__(self, Behind behind, Dispatches dispatches, FiniteTexts finite, Unions unions):
        self.behind, self.dispatches, self.walk, self.masks = behind, dispatches, finite.walk, finite.masks
        self.automaton, self.trie, self.objects = finite.automaton, finite.trie, dispatches.objects
        self.stacks, self.machines, self.unions = dispatches.stacks, dispatches.machines, unions
        self.members, self.left = MemberEnds(behind, finite.walk, finite.masks), []
        buffer_begin(&self.noting, self.trie.words)

    def __dealloc__(self):
        ints_free(&self.apart)
        map_free(&self.left_ids)
        buffer_end(&self.noting)

    cdef int clear(self) except -1:
        """Forget what refers to states."""
        map_free(&self.left_ids)
        self.left, self.bytes = [], 0
        return self.members.clear()

    cdef int drop(self, MaskBuffer* buffer) noexcept:
        """Leave nothing half done behind, where an operation ended by an exception; go on with a composer's buffer."""
        buffer_clear(&self.noting)
        self.buffer = buffer
        return 0

    cdef int end_all(self, IndependentMask mask, const Ints* apart) except -1:
        """Add the tokens that end at any exit that is not `apart`."""
        cdef int i
        for i in range(mask.exits.size):
            if not is_apart(apart, mask.exits.at[i]):
                buffer_node(self.buffer, self.trie.nodes, self.trie.ids, mask.exits.at[i])
        return 0

    cdef int leave_all(self, IndependentMask mask, int behind, const Ints* apart) except -1:
        """Add the tokens that leave a text at any exit that is not `apart` and go on in state `behind`."""
        if (mask.base is not None and mask.base.exits.size == mask.exits.size and apart == NULL
                and not self.walk.bare):
            return self.leave_again(mask, behind)
        return self.leave_anew(mask, behind, apart)

    cdef int leave_again(self, IndependentMask mask, int behind) except -1:
        """As `leave_all` for a mask that has all exits of its base, as those have that differ in a count: what leaves
        them is the same, and the second time is noted for all others."""
        cdef MaskBuffer* buffer = self.buffer
        cdef int known = map_get(&self.left_ids, <size_t><void*>mask.base, behind)
        if known < 0:
            self.left.append((mask.base, None))     # which holds the base, so that its address stays its own
            map_put(&self.left_ids, <size_t><void*>mask.base, behind, len(self.left) - 1)
            self.bytes += KEPT
            return self.leave_anew(mask, behind, NULL)
        if self.left[known][1] is None:
            self.buffer = &self.noting
            self.leave_anew(mask, behind, NULL)
            self.left[known] = mask.base, noted(self.buffer)
            self.bytes += (<Leavings>self.left[known][1]).size()
            self.drop(buffer)
        self.walk.meter.ticks += (<Leavings>self.left[known][1]).words.size
        return (<Leavings>self.left[known][1]).add(buffer)

    cdef int leave_anew(self, IndependentMask mask, int behind, const Ints* apart) except -1:
        """As `leave_all`, by walks."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const int32_t* child
        cdef int i, node
        cdef uint64_t follow[4]
        cdef const uint64_t* below
        if not mask.exits.size or (apart == NULL or not apart.size) and self.members.leave(self.buffer, mask, behind):
            return 0
        self.automaton.follow(behind, follow)
        if mask.exits.size <= MOST_LISTED:
            if not mask.children.size:
                self.masks.list_children(mask)
            i = 0
            while i < mask.children.size:
                child = mask.children.at + i
                if not follow[child[0] >> 6] >> (child[0] & 63) & 1:
                    i = child[3]
                    continue
                if not is_apart(apart, mask.exits.at[child[1]]):
                    self.walk.walk(self.buffer, behind, child[2], nodes[child[2]].end, nodes[child[2]].depth - 1)
                i += 4
            return 0
        for i in range(mask.exits.size):
            node, below = mask.exits.at[i], next_bytes(mask) + 4 * i
            if (below[0] & follow[0] | below[1] & follow[1] | below[2] & follow[2] | below[3] & follow[3]
                    and not is_apart(apart, node)):
                self.walk.walk(self.buffer, behind, node + 1, nodes[node].end, nodes[node].depth)
        return 0

    # -- texts that something behind them wants to know ----------------------------------------------------------------

    cdef int leave_bare(self, IndependentMask mask, int stack, int node) except -1:
        """As `leave_recorded` for a text without an end of its own."""
        cdef int frame, after, record
        cdef bint tried = False
        for frame in range(self.stacks.first.at[stack], self.stacks.first.at[stack + 1], 3):
            after, record = self.stacks.frames.at[frame], self.stacks.frames.at[frame + 1]
            if record < 0:
                continue
            if self.machines.at[after >> 1].flags & ALIKE:
                self.leave_alike(mask, node, after, record, self.stacks.frames.at[frame + 2])
            elif not tried:
                tried = True
                self.leave_tried(mask)
        return 0

    cdef int leave_tried(self, IndependentMask mask) except -1:
        """Add the tokens that leave a text, none of which is refused: those that go on behind it are tried."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, node
        for i in range(mask.exits.size):
            node = mask.exits.at[i]
            buffer_node(self.buffer, nodes, self.trie.ids, node)
            buffer_doubt_new(self.buffer, self.trie.ids, nodes[node + 1].first, nodes[nodes[node].end].first, True)
        return 0

    cdef int leave_alike(self, IndependentMask mask, int node, int after, int record, int parent) except -1:
        """Add the tokens that leave a text: ordinary texts have one state behind them, and what reads on from there is
        tried, as one token may hold a text twice; special ones have their own.

        PERF: an id of 9 characters on 128,000 tokens: 53,506 states for one mask where each text has a state.
        """
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int exit_, target, behind = self.behind.ordinary(after, parent)
        specials = self.behind.special_exits(node, after, record)
        if behind == DEAD:
            self.leave_refused(mask, node)
        else:
            self.apart.size = 0
            for exit_ in specials:
                ints_add(&self.apart, exit_)
            self.doubt_behind(mask, behind)
            self.end_all(mask, &self.apart)
            self.leave_all(mask, behind, &self.apart)
        for exit_, text in specials.items():
            buffer_doubt(self.buffer, self.trie.ids, nodes[exit_].first, nodes[exit_ + 1].first)
            if is_apart(&mask.exits, exit_):    # not one below which all stays inside
                buffer_node(self.buffer, nodes, self.trie.ids, exit_)
                target = self.behind.following(after, text, parent)
                if target != DEAD:
                    self.walk.below(self.buffer, target, exit_)
        return 0

    cdef int leave_refused(self, IndependentMask mask, int node) except -1:
        """As `leave_alike` where ordinary texts are refused: any token below the node, or any at all, may end one."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i
        for i in range(mask.exits.size):
            buffer_node(self.buffer, nodes, self.trie.ids, mask.exits.at[i])
        if node < 0:
            return buffer_doubt(self.buffer, self.trie.ids, 0, nodes[self.trie.count].first)
        return buffer_doubt(self.buffer, self.trie.ids, nodes[node + 1].first, nodes[nodes[node].end].first)

    cdef int doubt_behind(self, IndependentMask mask, int behind) except -1:
        """Doubt the tokens, of those that are not there yet, that may leave a text and go on in state `behind`."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, at, stop
        cdef uint64_t follow[4]
        cdef const uint64_t* below
        self.automaton.follow(behind, follow)
        for i in range(mask.exits.size):
            at, stop, below = mask.exits.at[i] + 1, nodes[mask.exits.at[i]].end, next_bytes(mask) + 4 * i
            if not (below[0] & follow[0] | below[1] & follow[1] | below[2] & follow[2] | below[3] & follow[3]):
                continue
            while at < stop:
                if follow[nodes[at].byte >> 6] >> (nodes[at].byte & 63) & 1:
                    buffer_doubt_new(self.buffer, self.trie.ids, nodes[at].first, nodes[nodes[at].end].first, False)
                at = nodes[at].end
        return 0

    cdef int leave_recorded(self, IndependentMask mask, int q, int stack, int node) except -1:
        """Add the tokens that leave a text, where what follows depends on it: ordinary texts have one state behind
        them, special ones their own."""
        cdef int behind, frame, after, parent, record, target, exit_
        cdef bint native
        if not mask.exits.size:     # PERF: as in most parts, such as of tokens that begin a key
            return 0
        if mask.groups is None:
            self.masks.group(mask, q, node)
        for frame in range(self.stacks.first.at[stack], self.stacks.first.at[stack + 1], 3):
            after, record = self.stacks.frames.at[frame], self.stacks.frames.at[frame + 1]
            parent = self.stacks.frames.at[frame + 2]
            if record < 0:
                continue
            native = self.machines.at[after >> 1].kind == OTHER
            behind = DEAD if native else self.behind.ordinary(after, parent)
            specials = self.behind.special_groups(mask, q, after, record, behind == DEAD and not native)
            self.apart.size = 0
            for exit_ in specials:
                ints_add(&self.apart, exit_)
            if native:
                self.leave_key(mask, after, parent, &self.apart)
            elif behind != DEAD:
                self.end_all(mask, &self.apart)
                self.leave_all(mask, behind, &self.apart)
            for exit_, text in specials.items():
                target = self.behind.following(after, text, parent)
                if target != DEAD:
                    self.walk.below(self.buffer, target, exit_)
            self.doubt_second(mask, q, after, record)
            self.doubt(mask, self.dispatches.tells_from(after), self.dispatches.told_by(after))
        return 0

    cdef int leave_key(self, IndependentMask mask, int after, int parent, const Ints* apart) except -1:
        """As `leave_all` behind an ordinary key of a native object: all that lies before the end of its value is
        known."""
        cdef IndependentMask key = mask if mask.base is None else mask.base, behind
        cdef int at, i, first, ended = UNKNOWN
        behind = self.masks.behind_key(key, self.objects.lonely_entry(after), self.objects.shared_name(after))
        if behind.exits.size:
            ended = self.behind.value(after, parent)
        if mask.exits.size == key.exits.size and not apart.size:
            self.unions.add(self.buffer, behind, NULL)
            return self.walk_exits(behind, 0, behind.exits.size, ended)
        for at in range(mask.exits.size):
            if is_apart(apart, mask.exits.at[at]):
                continue
            i = at if mask.exits.size == key.exits.size else mask.base_exits.at[at]
            first = behind.token_starts.at[i]
            buffer_tokens(self.buffer, behind.tokens.at + first, behind.token_starts.at[i + 1] - first)
            self.walk_exits(behind, behind.exit_starts.at[i], behind.exit_starts.at[i + 1], ended)
        return 0

    cdef int walk_exits(self, IndependentMask behind, int first, int last, int ended) except -1:
        """Add the tokens that go on in state `ended` behind some of the nodes where the value of a key ends."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, node
        for i in range(first, last):
            node = behind.exits.at[i]
            self.walk.walk(self.buffer, ended, node + 1, nodes[node].end, nodes[node].depth)
        return 0

    cdef int doubt_second(self, IndependentMask mask, int q, int after, int record) except -1:
        """Doubt the tokens that may hold a second text; where only the same text is refused again, those that are long
        enough for the closing quote and for what was read of it before, in quotes, as no spelling is shorter."""
        cdef int flags = self.machines.at[after >> 1].flags, token, longer = 0
        keyed = self.machines.at[after >> 1].kind == OTHER or flags & KEYED
        if flags & ALIKE and not keyed and record >= 8 and mask.twice:
            closing = self.dispatches.positions.spellings[self.dispatches.positions.at[q >> 1].spelling].closing
            longer = self.behind.second(record, closing)
        for token in mask.twice_keys if keyed else mask.twice:
            if self.trie.begins[token + 1] - self.trie.begins[token] > longer:
                ints_add(&self.buffer.todo.doubtful, token)
        return 0

    cdef int doubt(self, IndependentMask mask, int tells_from, bytes told_by) except -1:
        """Doubt the tokens that read `tells_from` bytes or more behind the text, with one of `told_by` among them; see
        `machine.Dispatch`."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, j, at, stop, depth, told
        cdef bint any_byte = not told_by
        cdef const unsigned char* telling = told_by
        if not 0 <= tells_from <= self.trie.longest:
            return 0
        for i in range(mask.exits.size):
            at, stop = mask.exits.at[i] + 1, nodes[mask.exits.at[i]].end
            depth, told = nodes[at - 1].depth + tells_from, stop if any_byte else at
            while at < stop:
                if at >= told:  # no node around this one has such a byte
                    for j in range(len(told_by)):
                        if nodes[at].byte == telling[j]:
                            told = nodes[at].end
                if at < told and nodes[at].depth >= depth:
                    buffer_doubt(self.buffer, self.trie.ids, nodes[at].first, nodes[at + 1].first)
                at += 1
        return 0


cdef inline const uint64_t* next_bytes(IndependentMask mask) noexcept:
    """Return the sets of bytes below the exits of a mask, those of its base where it has all of its exits."""
    return mask.next_bytes if mask.next_bytes != NULL else mask.base.next_bytes


cdef inline bint is_apart(const Ints* apart, int node) noexcept nogil:
    """Say whether an exit is among the few that are apart, NULL: there are none."""
    cdef int i
    if apart == NULL:
        return False
    for i in range(apart.size):
        if apart.at[i] == node:
            return True
    return False


# ======================================================================================================================
# The mask of an automaton state, composed of a walk of the trie, masks of texts, and walks behind the texts' ends.
#
# What tokens do inside a text depends only on the vocabulary and the text's language: that part is a
# context-independent mask.  Tokens that leave the text are walked from the state behind it, each from the trie node
# where it leaves.  An example is worked through in docs/kernel.md.
#
#     state ── walk ──► tokens, and a worklist of the texts it enters
#     text  ── context-independent mask ──► tokens, and exits ── walk from the state behind the text ──► tokens
#     state that others are like ── shared mask ──► tokens, and exits ── walk from the state behind the member ──►
# tokens
#
# Owns: the buffer, the finished masks, `Behind`, `TextEnds`, `Unions`.  Borrows: automaton
# and machines, stacks, positions, `Walk`, `IndependentMasks`, `FiniteTexts`, `Dispatches`, the trie; the meter of work.
# Invariants: bit i of the mask of a state = (a step over token i leads to a state that is not DEAD); equal masks that
# differ from one base in the same blocks are one block of memory; between masks the buffer is empty.
# Plain twin: `plain.PlainKernel.mask`, which walks all tokens.
# ======================================================================================================================

cdef enum:
    ADDED = 32          # ticks that it takes to add a context-independent mask
    TRIED = 16          # and to look at a token again
    MOST_BARE = 256     # texts without an end of their own that are put off below nodes
    NOTED = 256         # texts put off below a node, from which on each is noted so that none is added twice


@final
cdef class Composer:
    """Makes the masks of states, each once; whoever asks keeps them with the state."""

    cdef Meter meter                # borrowed, as the next nine
    cdef Trie trie
    cdef Stacks stacks
    cdef Machines machines
    cdef Dispatches dispatches
    cdef Positions positions
    cdef Automaton automaton
    cdef Walk walk
    cdef FiniteTexts finite
    cdef IndependentMasks masks
    cdef object stop                # ids of the stop tokens
    cdef MaskBuffer buffer          # the mask that is being made
    cdef Arena finished             # memory of finished masks
    cdef Map ids                    # digest -> a state with such a mask
    cdef long bytes                 # that finished masks take; an estimate
    cdef Behind behind
    cdef Unions unions
    cdef TextEnds ends

    def __cinit__(self, Dispatches dispatches, FiniteTexts finite, stop):
        self.dispatches, self.finite, self.walk, self.masks = dispatches, finite, finite.walk, finite.masks
        self.automaton, self.trie, self.meter = finite.automaton, finite.trie, finite.meter
        self.stacks, self.machines = dispatches.stacks, dispatches.machines
        self.positions, self.stop, self.behind = finite.positions, stop, Behind(dispatches, self.automaton)
        self.unions = Unions(self.meter, self.masks.store, self.masks.builder.counter, self.trie.words)
        self.ends = TextEnds(self.behind, dispatches, finite, self.unions)
        self.ends.buffer = &self.buffer
        buffer_begin(&self.buffer, self.trie.words)

    def __dealloc__(self):
        self.release()
        buffer_end(&self.buffer)

    cdef void release(self) noexcept:
        arena_free(&self.finished)
        self.finished.used = self.finished.size = 0
        map_free(&self.ids)

    cdef int clear(self) except -1:
        """Give all memory back but that of the buffer; no mask is there any more."""
        self.release()
        self.bytes = 0
        self.behind.clear()
        self.ends.clear()
        self.unions.clear()
        return self.walk.clear()

    cdef int drop(self) noexcept:
        """Leave nothing half done behind, where an operation ended by an exception."""
        buffer_clear(&self.buffer)
        self.ends.drop(&self.buffer)
        self.walk.bare = False
        return self.finite.drop()

    cdef Mask* compose(self, int state) except NULL:
        """Return the mask of a state."""
        return self.made(state)

    cdef Mask* made(self, int state) except NULL:
        """Make the mask of a state, one that is there already where another state has the same."""
        cdef Mask* mask
        cdef uint64_t digest
        cdef int twin
        self.fill(state)
        mask = pack(&self.buffer, &self.finished, &digest)
        twin = map_get(&self.ids, digest, 0)
        if twin >= 0 and is_same_mask(mask, self.automaton.states[twin].mask, self.trie.words):
            arena_undo(&self.finished, mask_bytes(mask, self.trie.words))
            return self.automaton.states[twin].mask
        if twin < 0:
            map_put(&self.ids, digest, 0, state)
        self.bytes += mask_bytes(mask, self.trie.words)
        return mask

    cdef int fill(self, int state) except -1:
        """Fill the buffer with the mask of a state."""
        cdef int token
        self.buffer.todo.doubtful.size = 0
        map_free(&self.buffer.todo.added)
        if not self.add_state(state):
            buffer_clear(&self.buffer)
            self.walk.bare = True
            self.add_state(state)
            self.walk.bare = False
        self.try_doubtful(state)
        self.add_named(state)
        if self.automaton.states[state].flags & FINAL:
            for token in self.stop:
                buffer_token(&self.buffer, token)
        return 0

    cdef bint add_state(self, int state) except -1:
        """Add the tokens of a state, but for what `fill` looks at; say whether that was finished: no texts without an
        end of their own follow each other in too many places."""
        cdef int light = self.walk.light_state(state)
        if light != state:
            self.walk.put_off(&self.buffer, state, -1)
        if light != DEAD and not self.ends.members.walk_all(&self.buffer, light):
            self.walk.walk_all(&self.buffer, light)
        return self.add_all()

    cdef bint add_all(self) except -1:
        """Work the worklist off, and what is put off meanwhile; say whether that was finished, see `add_state`.

        PERF: words behind words end at every node of the trie, 15,000 parts of a mask; walked as one state, each node
        is visited once.
        """
        cdef Ints* names = &self.buffer.todo.names
        cdef Ints* texts = &self.buffer.todo.texts
        cdef Ints* states = &self.buffer.todo.states
        cdef int i, q, stack, node, begun = 0, bare = 0
        while texts.size or names.size or states.size:
            if states.size:
                states.size -= 2
                q, node = states.at[states.size], states.at[states.size + 1]
                self.walk.below(&self.buffer, q, node)
                continue
            if names.size:
                names.size -= 4
                i = names.size
                self.finite.add_names(&self.buffer, names.at[i], names.at[i + 1], names.at[i + 2], names.at[i + 3])
                continue
            texts.size -= 3
            i = texts.size
            q, stack, node = texts.at[i], texts.at[i + 1], texts.at[i + 2]
            begun += node >= 0
            if begun > NOTED and node >= 0 and not self.is_first(q, stack, node):
                continue
            if self.positions.languages.at[self.positions.at[q >> 1].language].texts >= 0:
                self.finite.add(&self.buffer, q, stack, node)
            else:
                bare += node >= 0 and self.walk.is_bare(q, stack)
                if bare > MOST_BARE:
                    return False
                self.add_text(q, stack, node)
        return True

    cdef int try_doubtful(self, int state) except -1:
        """Look at the doubtful tokens one by one."""
        cdef Ints* doubtful = &self.buffer.todo.doubtful
        cdef int i, token
        self.meter.ticks += TRIED * doubtful.size
        for i in range(doubtful.size):
            token = doubtful.at[i]
            if buffer_has(&self.buffer, token) and self.automaton.after_token(state, token) == DEAD:
                ints_add(&self.buffer.removed, token)
        return 0

    cdef int add_named(self, int state) except -1:
        """Add the special tokens that may come next."""
        cdef int i, j, q, first = self.automaton.states[state].first
        cdef Machine* m
        for i in range(first, first + self.automaton.states[state].count, 2):
            q = self.automaton.configurations.at[i]
            if not q & 1:
                m = &self.machines.at[q >> 1]
                for j in range(m.tokens, m.tokens_end, 2):
                    buffer_token(&self.buffer, self.machines.tokens.at[j])
        return 0

    cdef bint is_first(self, int q, int stack, int node) except -1:
        """Note a text below a trie node; say whether it is met for the first time in this mask.

        Where texts of any length follow each other (comments made of comments), there are exponentially many ways to a
        node.
        """
        cdef Map* added = &self.buffer.todo.added
        if map_get(added, pair(q, stack), node) >= 0:
            return False
        map_put(added, pair(q, stack), node, 0)
        return True

    # -- texts and what lies behind them -------------------------------------------------------------------------------

    cdef int add_text(self, int q, int stack, int node) except -1:
        """Add the mask of one text configuration, whole or below a trie node: its context-independent mask, and what
        lies behind it."""
        cdef IndependentMask mask = self.masks.part(q, node) if node >= 0 else self.masks.whole(q)
        cdef bint recording = self.stacks.records(stack)
        cdef int behind, closing = self.positions.spellings[self.positions.at[q >> 1].spelling].closing
        self.meter.ticks += ADDED + 2 * mask.exits.size
        if node >= 0:
            buffer_tokens(&self.buffer, mask.tokens.at, mask.tokens.size)
        elif recording and closing >= 0:
            self.unions.add(&self.buffer, mask, self.masks.inside(mask))
        else:
            self.unions.add(&self.buffer, mask, mask.bits)
        behind = self.behind.popped(stack)
        if behind != DEAD:
            if node >= 0 or recording and closing >= 0:
                self.ends.end_all(mask, NULL)     # else the whole mask has these tokens
            self.ends.leave_all(mask, behind, NULL)
        if recording and closing >= 0:
            self.ends.leave_recorded(mask, q, stack, node)
        elif recording:
            self.ends.leave_bare(mask, stack, node)
        return 0


# ======================================================================================================================
# Rows of bitmasks, and numbers, as callers hand them over; `tokens.bitmask` makes the same tests.
# ======================================================================================================================

cdef extern from "Python.h":
    long PyLong_AsLongAndOverflow(object value, int* overflow) except? -1


cdef inline long exact(object value):
    """Return an int that is no subclass of int, such as bool, and not negative; -1 for all else.  `bitmask.number`
    takes the rest."""
    cdef int overflow = 0
    cdef long found
    if not PyLong_CheckExact(value):
        return -1
    found = PyLong_AsLongAndOverflow(value, &overflow)
    return found if not overflow and found >= 0 else -1


numpy.import_array()


cdef int32_t* bitmask_row(object bitmask, int words, object number_of_row) except NULL:
    """Return where a row of a bitmask, an int32 array (rows, words), begins; `bitmask.fits` makes the same test.

    PERF: the buffer protocol would cost 0.3 µs, half of filling in a mask that is known.
    """
    cdef numpy.ndarray array
    cdef long row = exact(number_of_row)
    if row < 0:
        row = exact(number(number_of_row))
    if isinstance(bitmask, numpy.ndarray):
        array = bitmask
        if (array.ndim == 2 and array.descr.kind in (105, 117) and numpy.PyArray_ITEMSIZE(array) == 4
            and numpy.PyArray_ISNOTSWAPPED(array)
            and numpy.PyArray_ISWRITEABLE(array) and array.shape[1] == words and array.strides[1] == 4
                and 0 <= row < array.shape[0]):
            return <int32_t*>(<char*>array.data + row * array.strides[0])
    raise misfit(bitmask, number_of_row, words)


# ======================================================================================================================
# The kernel itself: what matchers hold, the lock, the roots.
#
# Owns: the parts, the lock, the roots.  Borrows: the vocabulary's store of context-independent masks.
# Threads: everything runs under the GIL, but machine states are asked for their edges in Python, where it may pass on;
# so whatever may add to the automaton passes its `turnstile`.  What is known is read without it; finished masks are
# immutable and copied without the GIL.
# Plain twin: `plain.PlainKernel`, the same protocol (`engine.compiled.Kernel`).
# ======================================================================================================================

cdef enum:
    NO_TOKEN = -1
    MOST_LANGUAGES = 100_000    # that one mask or step may add; more than a set of 10,000 texts takes
    ROOT = 1 << 14              # estimated bytes of the Python objects behind a root


@final
cdef class Kernel:
    """One automaton over root machines and a vocabulary; states are ints.

    The same class to read: `engine.plain.PlainKernel`; the fields are in _kernel.pxd.
    """

    cdef Meter meter
    cdef Turnstile turnstile
    cdef Trie trie
    cdef Languages languages
    cdef Positions positions
    cdef Stacks stacks
    cdef Machines machines
    cdef Objects objects
    cdef Expansion expansion
    cdef Dispatches dispatches
    cdef Closure closure
    cdef Automaton automaton
    cdef IndependentMasks masks
    cdef Composer composer
    cdef readonly int start
    cdef dict roots_known           # (root, nullable) -> state
    cdef long max_bytes, root_bytes
    cdef long bytes                 # PERF: what `held` said when the last operation ended; it looks into all parts
    cdef object __weakref__
    cdef bint gone                  # emptied: no state is known any more
    cdef bint used                  # since somebody last asked
    cdef int pins                   # batches that copy masks without the GIL

    def __cinit__(self, vocabulary, root=None, *, nullable=False, specials, max_configurations=20_000,
                  max_bytes=1 << 28):
        cdef Walk walk
        store = vocabulary.kernels.masks
        if store.counter is None:
            store.counter = Counter()
        self.meter, self.turnstile = Meter(), Turnstile()
        self.max_bytes, self.roots_known = max_bytes, {}
        self.trie = Trie(vocabulary)
        self.languages = Languages(self.meter)
        self.positions = Positions(self.languages)
        self.stacks, self.machines = Stacks(self.meter), Machines()
        self.objects = Objects(self.meter, self.machines, self.positions)
        self.expansion = Expansion(self.meter, self.machines, self.objects, self.positions, specials)
        self.dispatches = Dispatches(self.expansion, self.stacks)
        self.closure = Closure(self.dispatches, min(max_configurations, 1 << 30))
        self.automaton = Automaton(self.closure, self.trie)
        self.masks = IndependentMasks(Builder(self.automaton, store.counter), store)
        walk = Walk(self.automaton)
        self.composer = Composer(self.dispatches, FiniteTexts(walk, self.masks), vocabulary.stop)
        self.bytes = self.held()
        self.start = self.start_at(root, nullable) if root is not None else DEAD

    # -- one thread at a time ------------------------------------------------------------------------------------------

    cdef int enter(self, object budget) except -1:
        """Wait until the automaton is free.

        budget: what the work is counted against (`work.Budget`); None: the thread's own.
        """
        if self.turnstile.is_inherited():
            self.adopt()
        if not self.turnstile.try_pass():
            self.meter.waiting += 1
            self.turnstile.wait()
            self.meter.waiting -= 1
        self.meter.budget = budget
        self.turnstile.put_off_collections()
        self.languages.most = self.languages.count + MOST_LANGUAGES

    cdef int leave(self) except -1:
        try:
            if self.meter.opened or self.meter.ticks >= LITTLE:
                self.meter.close()
        finally:
            self.meter.ticks, self.meter.budget = 0, None
            self.bytes = self.held()
            self.turnstile.leave()
        return 0

    cdef int adopt(self) except -1:
        """Make the kernel of a parent process one's own: with a lock that nobody holds, and nothing half done."""
        self.turnstile.renew()
        self.pins = 0
        self.meter.forget()
        self.drop()
        return 0

    cdef int drop(self) except -1:
        """Leave nothing half done behind, where an operation ended by an exception."""
        self.automaton.drop()
        return self.composer.drop()

    def is_wanted(self):
        """Say whether the operation under way has kept others waiting for long enough; see `work.Preempted`."""
        return self.meter.wanted()

    def start_at(self, root, bint nullable, object budget=None, long weight=0):
        """Return the state at the start of the words of a root machine, and of the empty word if `nullable`.

        weight: bytes of Python objects that the root keeps alive, beyond a small grammar's; counted once.
        """
        self.check(DEAD)
        known = self.roots_known.get((root, nullable))
        if known is not None:
            return known
        self.enter(budget)
        try:
            self.check(DEAD)
            known = self.roots_known[root, nullable] = self.automaton.enter(
                self.expansion.number(root), BOTTOM, FINAL if nullable else 0)
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()
        self.root_bytes += ROOT + weight
        self.bytes = self.held()
        return known

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step_byte(self, int state, int byte):
        """Return the state after one byte, DEAD if no word goes on so."""
        self.enter(None)
        try:
            self.check(state)
            return self.automaton.next_state(state, byte)
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    def step_bytes(self, int state, bytes data):
        """Return the state after some bytes."""
        cdef const unsigned char* at = data
        cdef int i
        self.enter(None)
        try:
            self.check(state)
            for i in range(len(data)):
                state = self.automaton.next_state(state, at[i])
                if state == DEAD:
                    break
            return state
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    def next_bytes(self, int state):
        """Return the bytes that may come next, in ascending order."""
        cdef int byte
        self.enter(None)
        try:
            self.check(state)
            return bytes([byte for byte in range(256) if self.automaton.goes_on(state, byte)])
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    def step_token(self, int state, object token_id, object budget=None):
        """Return the state after a token id: its bytes, or the edges of the machine that name it; NO_TOKEN where it is
        no int in range."""
        cdef long token = exact(token_id)
        cdef int i, last, after = state
        if state < 0 or not 0 <= token < self.trie.size:
            return NO_TOKEN
        last = self.trie.begins[token + 1]
        self.used = True
        if self.gone:
            raise Preempted
        for i in range(self.trie.begins[token], last):
            after = known_successor(&self.automaton.states[after], self.trie.spelled[i])
            if after == UNKNOWN:
                break
            if after == DEAD or i == last - 1:
                return after
        if self.refuses(state, <int>token):
            return DEAD
        self.enter(budget)
        try:
            self.check(state)
            return self.automaton.after_token(state, <int>token)
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    cdef bint refuses(self, int state, int token) noexcept:
        """Say whether the mask of a state is known and has not this token.  PERF: to step where no word goes on costs
        as much as a step, and nobody steps there twice."""
        cdef const Mask* mask = self.automaton.states[state].mask if state < self.automaton.count else NULL
        return mask != NULL and not mask_has(mask, token)

    def is_final(self, int state):
        """Say whether the bytes so far are a word."""
        if state >= self.automaton.count:
            raise Preempted
        return bool(self.automaton.states[state].flags & FINAL)

    def is_exhausted(self, int state):
        """Say whether nothing can follow."""
        if state >= self.automaton.count:
            raise Preempted
        return self.automaton.states[state].count == 0

    def named_tokens(self, int state):
        """Return the special tokens that may come next."""
        if state >= self.automaton.count:
            raise Preempted
        return self.automaton.named_tokens(state)

    # -- masks ---------------------------------------------------------------------------------------------------------

    cdef Mask* known_mask(self, int state) noexcept:
        """Return the mask of a state, NULL where it is not known."""
        self.used = True
        return NULL if self.gone else self.automaton.states[state].mask

    cdef Mask* mask_of(self, int state, object budget) except NULL:
        """Return the mask of a state, computed once."""
        cdef Mask* mask = self.known_mask(state)
        if mask != NULL:
            return mask
        if self.gone:
            raise Preempted
        self.enter(budget)
        try:
            self.check(state)       # what was waited for may have been emptied
            if self.automaton.states[state].mask == NULL:
                self.automaton.states[state].mask = self.composer.compose(state)
            return self.automaton.states[state].mask
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    def mask(self, int state):
        """Return the tokens that may come next as a new array, (words,) uint32, bit i of word w = token 32 w + i is
        allowed."""
        cdef Mask* mask = self.mask_of(state, None)
        made = np.empty(self.trie.words, np.uint32)
        cdef uint32_t[::1] view = made
        unpack(mask, self.trie.words, &view[0])
        return made

    # -- memory --------------------------------------------------------------------------------------------------------

    cdef long held(self) noexcept:
        """Return an estimate of the memory that the parts hold and that bounds them."""
        return (self.root_bytes + self.languages.bytes + self.stacks.bytes + self.machines.bytes
                + self.objects.keys.bytes + self.automaton.bytes + self.composer.bytes
                + self.composer.ends.bytes)

    cdef bint full(self) noexcept:
        return self.gone or self.bytes > self.max_bytes

    def cached_bytes(self):
        """Return an estimate of the memory that the automaton holds, the vocabulary's shared masks not counted."""
        return 0 if self.gone else self.held() + 8 * self.stacks.frames.size + 60 * self.positions.count

    def sizes(self):
        """Return how much the automaton holds, by kind; for reports."""
        return {"states": self.automaton.count, "machines": self.machines.count, "stacks": self.stacks.first.size - 1,
                "positions": self.positions.count, "languages": self.languages.count,
                "records": self.stacks.record_parent.size, "masks": self.composer.ids.size}

    def count_states(self):
        """Return how many states there are."""
        return self.automaton.count

    def is_full(self):
        """Say whether the cache has passed its bound: its owner then asks `Kernels` for more, or for another."""
        return self.full()

    def is_gone(self):
        """Say whether the kernel was emptied; whatever is asked of its states raises `Preempted`."""
        return self.gone

    def was_used(self):
        """Say whether anything was asked since this was asked last."""
        cdef bint used = self.used
        self.used = False
        return used

    def allow(self, long size):
        """Set the bound."""
        self.max_bytes = size

    def drop_all(self):
        """Give all memory back; say whether that was possible.  Impossible while somebody works or copies."""
        if self.turnstile.is_inherited():
            self.adopt()
        if self.gone or self.pins or not self.turnstile.try_pass():
            return False
        try:
            self.empty()
        finally:
            self.turnstile.unlock()
        return True

    cdef int empty(self) except -1:
        self.gone = True        # first: what follows may fail on its way
        self.roots_known = {}
        self.composer.clear()
        self.masks.clear()
        self.automaton.clear()
        self.closure.clear()
        self.dispatches.clear()
        self.expansion.clear()
        self.objects.clear()
        self.machines.clear()
        self.stacks.clear()
        self.positions.clear()
        return self.languages.clear()

    cdef int check(self, int state) except -1:
        """Note that the kernel is used; an emptied one knows no state."""
        self.used = True
        if self.gone:
            raise Preempted
        return 0

    def fill(self, int state, object bitmask, object row, object budget=None):
        """Write the mask of a state, no token where it is negative, into one row of an int32 bitmask (rows, words); say
        whether the cache is full."""
        cdef Mask* mask = NULL if state < 0 else self.mask_of(state, budget)
        cdef int32_t* bits = bitmask_row(bitmask, self.trie.words, row)
        if state < 0:
            memset(bits, 0, 4 * self.trie.words)
        else:
            unpack(mask, self.trie.words, <uint32_t*>bits)
        return self.full()


# ======================================================================================================================
# Finished masks, copied into the rows of a batch without the GIL; where there is much to copy, by two threads.
#
#     who calls     IDLE -> CALLED, collects masks -> OFFERED, takes rows until none is left -> IDLE; waits, where
# JOINED
#     the helper    sleeps    `-> looks at the stage ---> JOINED, takes rows until none is left -> IDLE; sleeps
#
# Masks of 256 sequences over 128,000 tokens are 4 MB, which one core writes at the speed of its path to memory.  A
# second core has its own.  Nobody waits for it to come: who calls takes rows until none is left, and then waits only
# for the rows that the helper has begun.
#
# Owns: the helper, one thread of the process.  It starts with the first large batch, touches no object of Python, and
# is never told to end.  Borrows: the rows of a batch, until `copy_rows` returns.
# Invariant: the helper looks at a batch between JOINED and IDLE only, and releases `finished` once for each time that
# it joined.  `is_taken` is read and written under the GIL: one batch at a time has the helper, others are copied alone.
# Plain twin: `copy_some` without a helper; compared in tests/test_batches.py.
# ======================================================================================================================

cdef struct Row:
    const Mask* mask            # NULL: nothing is allowed
    int32_t* words


cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    #define atomic_value(at) (*(volatile long *)(at))
    #define atomic_set(at, fresh) ((void)_InterlockedExchange((volatile long *)(at), (fresh)))
    #define atomic_more(at, count) _InterlockedExchangeAdd((volatile long *)(at), (count))
    #define atomic_turn(at, old, fresh) (_InterlockedCompareExchange((volatile long *)(at), (fresh), (old)) == (old))
    #else
    #define atomic_value(at) __atomic_load_n((at), __ATOMIC_ACQUIRE)
    #define atomic_set(at, fresh) __atomic_store_n((at), (fresh), __ATOMIC_RELEASE)
    #define atomic_more(at, count) __atomic_fetch_add((at), (count), __ATOMIC_ACQ_REL)
    static inline int atomic_turn(int *at, int old, int fresh) {
        return __atomic_compare_exchange_n(at, &old, fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    #endif
    #if defined(__linux__)
    #include <sched.h>
    #include <unistd.h>
    #define cpu_of_thread() sched_getcpu()
    static void leave_cpu(int cpu) {            /* for any other one that the process may use */
        cpu_set_t others;
        if (!sched_getaffinity(getpid(), sizeof others, &others)) {
            CPU_CLR(cpu, &others);
            sched_setaffinity(0, sizeof others, &others);
        }
    }
    #else
    #define cpu_of_thread() (-1)
    #define leave_cpu(cpu) ((void)(cpu))
    #endif
    """
    int atomic_value(int* at) noexcept nogil
    void atomic_set(int* at, int fresh) noexcept nogil
    int atomic_more(int* at, int count) noexcept nogil                  # add, return what was there
    bint atomic_turn(int* at, int old, int fresh) noexcept nogil        # old to fresh, where it is old
    int cpu_of_thread() noexcept nogil
    void leave_cpu(int cpu) noexcept nogil


cdef extern from "pythread.h":
    unsigned long start_thread "PyThread_start_new_thread"(void (*run)(void*) noexcept nogil, void* argument)


cdef enum:
    IDLE = 0
    CALLED = 1                  # a batch is to come
    OFFERED = 2
    JOINED = 3
    WORTH = 1 << 20             # bytes of a batch from which on it is worth to wake a thread
    AT_ONCE = 4                 # rows that a thread takes: some 3 µs
    GLANCES = 20_000            # at the stage, before who waits for another one sleeps: some 20 µs


cdef struct Batch:
    Row* rows
    int count
    int words
    int next                    # row that nobody has taken


cdef struct Helper:
    Batch batch
    int stage
    int cpu                     # of who called last
    PyThread_type_lock ready    # released by `wake`
    PyThread_type_lock finished
    int woken                   # `ready` is released, or the helper has not said yet that it has it
    int batches                 # that it has joined


cdef Helper* helper = NULL
cdef bint is_taken = False      # the helper, by a batch
cdef bint is_alone = False      # no helper can be had


cdef int call_helper(int count, int words) except -1:
    """Wake the helper, who takes as long to come as it takes to collect masks; under the GIL."""
    if 4 * <size_t>words * count >= WORTH and not is_taken and find_helper():
        atomic_set(&helper.cpu, cpu_of_thread())
        atomic_set(&helper.stage, CALLED)
        wake(helper)
    return 0


cdef int copy_rows(Row* rows, int count, int words) except -1:
    """Write all rows; called with the GIL, which is free meanwhile."""
    global is_taken
    cdef Batch batch
    batch.rows, batch.count, batch.words, batch.next = rows, count, words, 0
    if 4 * <size_t>words * count < WORTH or is_taken or not find_helper():
        with nogil:
            copy_some(&batch)
        return 0
    is_taken = True
    with nogil:
        copy_together(helper, &batch)
    is_taken = False
    return 0


cdef int copy_some(Batch* batch) noexcept nogil:
    """Write rows until none is left that nobody has taken."""
    cdef int i, at = atomic_more(&batch.next, AT_ONCE)
    while at < batch.count:
        for i in range(at, min(at + AT_ONCE, batch.count)):
            if batch.rows[i].mask == NULL:
                memset(batch.rows[i].words, 0, 4 * <size_t>batch.words)
            else:
                unpack(batch.rows[i].mask, batch.words, <uint32_t*>batch.rows[i].words)
        at = atomic_more(&batch.next, AT_ONCE)
    return 0


cdef int copy_together(Helper* other, const Batch* batch) noexcept nogil:
    """Offer a batch to the helper, write what it leaves, and wait until it has written what it began."""
    other.batch = batch[0]
    atomic_set(&other.stage, OFFERED)
    wake(other)
    copy_some(&other.batch)
    if atomic_turn(&other.stage, OFFERED, IDLE):
        return 0
    glance(&other.stage, JOINED)
    PyThread_acquire_lock(other.finished, WAIT_LOCK)
    return 0


cdef int wake(Helper* other) noexcept nogil:
    """Wake the helper, where nobody has: a lock that is free must not be released."""
    if atomic_turn(&other.woken, 0, 1):
        PyThread_release_lock(other.ready)
    return 0


cdef int glance(int* stage, int now) noexcept nogil:
    """Return when a stage is another one, or some time has passed."""
    cdef int i
    for i in range(GLANCES):
        if atomic_value(stage) != now:
            break
    return 0


cdef void help(void* given) noexcept nogil:
    """Be a helper.

    PERF: Linux may wake it on the core of who called, above all where the others are virtual and halted; there it
    would only stand in the way.
    """
    cdef Helper* own = <Helper*>given
    cdef int cpu
    while PyThread_acquire_lock(own.ready, WAIT_LOCK):
        atomic_turn(&own.woken, 1, 0)
        cpu = cpu_of_thread()
        if cpu == atomic_value(&own.cpu):
            leave_cpu(cpu)
        glance(&own.stage, CALLED)
        if atomic_turn(&own.stage, OFFERED, JOINED):        # else who called has done it all, or is not so far
            own.batches += 1
            copy_some(&own.batch)
            atomic_set(&own.stage, IDLE)
            PyThread_release_lock(own.finished)


cdef bint find_helper() except -1:
    """Say whether there is a helper; start one, where there is a core for it."""
    global helper, is_alone
    cdef Helper* fresh
    if helper != NULL or is_alone:
        return not is_alone
    is_alone = True
    if cores() > 1:
        fresh = new_helper()
        if fresh != NULL and start_thread(help, fresh) != <unsigned long>-1:
            helper, is_alone = fresh, False
    return not is_alone


cdef Helper* new_helper() noexcept:
    """Return a helper that sleeps, NULL where there is no memory for it; the system's, since it is never given back."""
    cdef Helper* fresh = <Helper*>PyMem_RawCalloc(1, sizeof(Helper))
    if fresh != NULL:
        fresh.ready, fresh.finished = PyThread_allocate_lock(), PyThread_allocate_lock()
        if fresh.ready == NULL or fresh.finished == NULL:
            return NULL
        PyThread_acquire_lock(fresh.ready, WAIT_LOCK)
        PyThread_acquire_lock(fresh.finished, WAIT_LOCK)
    return fresh


def cores():
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):       # not Linux, or not to be told
        return os.cpu_count() or 1


def batches_of_helper():
    """Return how many batches the helper has joined, -1 where there is none; for tests."""
    return -1 if helper == NULL else helper.batches


def forget_helper():
    """Begin anew, as the child of a fork must, in which there is no helper; elsewhere no batch may be under way.

    The helper's memory is left: where it is still there, it waits on.
    """
    global helper, is_taken, is_alone
    helper, is_taken, is_alone = NULL, False, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_helper)


# ======================================================================================================================
# Batches: the masks of many sequences at once, copied without the GIL.
#
# Owns: nothing.  Borrows: the kernels of the sequences, which it pins while it copies, so that none is emptied
# meanwhile.
# Plain twin: `Kernel.fill`, row by row; compared in tests/test_engine.py.
# ======================================================================================================================

def fill_rows(list matchers, object bitmask, type kind):
    """Write the mask of matcher i into row i of a bitmask: new masks one by one, then all copies without the GIL.

    Returns the rows whose masks took too much work, or kept others waiting, or whose kernel is full, and those of
    subclasses of `kind`, which have a way of their own; these allow nothing.  None: one is no matcher, or its kernel is
    not compiled; nothing is written.
    """
    cdef int i, state, words = -1, count = len(matchers)
    cdef list path, left = [], pinned = []
    cdef Kernel kernel
    cdef Row* rows = <Row*>cleared(<size_t>count + 1, sizeof(Row))
    try:
        for i in range(count):
            matcher = matchers[i]
            own = matcher._kernel if isinstance(matcher, kind) else None
            if type(own) is not Kernel:
                return None
            kernel, path = <Kernel>own, matcher._path
            state = path[len(path) - 1]
            kernel.pins += 1
            pinned.append(kernel)
            if words < 0:
                words = kernel.trie.words
                call_helper(count, words)
            if kernel.trie.words != words:
                raise misfit(bitmask, i, kernel.trie.words)
            if kernel.full() or type(matcher) is not kind:
                left.append(i)
            elif state >= 0:
                rows[i].mask = kernel.known_mask(state)
                if rows[i].mask == NULL:
                    try:
                        rows[i].mask = kernel.mask_of(state, matcher._budget)
                    except (LimitExceeded, Preempted):
                        left.append(i)
        for i in range(count):
            rows[i].words = bitmask_row(bitmask, words, i)
        copy_rows(rows, count, words)
    finally:
        for kernel in pinned:
            kernel.pins -= 1
        released(rows)
    return left


# ======================================================================================================================
# Scores under packed masks, in one pass over memory; `integrations.masks` does the same with numpy.
#
# Scores are 32-bit floats looked at as whole numbers: a mask selects their bits or those of -inf.
# ======================================================================================================================

cdef extern from *:
    """
    #include <stdint.h>
    #define CONSTRAINED_FOUR(at) 1u << (at), 2u << (at), 4u << (at), 8u << (at)
    static const uint32_t CONSTRAINED_BIT[32] = {
        CONSTRAINED_FOUR(0), CONSTRAINED_FOUR(4), CONSTRAINED_FOUR(8), CONSTRAINED_FOUR(12),
        CONSTRAINED_FOUR(16), CONSTRAINED_FOUR(20), CONSTRAINED_FOUR(24), CONSTRAINED_FOUR(28)};
    /* PERF: compilers make vector instructions of this: each place has a constant of its own, and nothing branches. */
    static uint32_t constrained_select(const uint32_t *scores, uint32_t bits, uint32_t *found) {
        uint32_t left = 0;
        for (int at = 0; at < 32; at++) {
            uint32_t kept = -(uint32_t)((bits & CONSTRAINED_BIT[at]) != 0);
            found[at] = (scores[at] & kept) | (0xff800000u & ~kept);
            left |= found[at] ^ 0xff800000u;
        }
        return left;
    }
    """
    unsigned int constrained_select(const unsigned int* scores, unsigned int bits, unsigned int* found) noexcept nogil


cdef enum:
    MINUS_INFINITY = 0xff800000


@initializedcheck(False)
def select(const unsigned int[:, ::1] scores, const unsigned int[:, ::1] allowed, unsigned int[:, ::1] found):
    """Write scores into `found`, -inf in place of those whose bit is not set; what lies beyond the masks is not
    allowed.  Return for each row whether anything but -inf is left in it.

    Shapes: scores and found (rows, width), the bits of 32-bit floats; allowed (rows, words), any number of words.
    Cost: 0.03 ms for a row of 128,000.  Lets go of the GIL.
    Raises: ValueError: other shapes.
    """
    cdef Py_ssize_t rows = scores.shape[0], width = scores.shape[1], words = allowed.shape[1]
    cdef Py_ssize_t whole = min(words, width // 32), row, word, at
    cdef unsigned int bits, left
    cdef list some = []
    if found.shape[0] != rows or allowed.shape[0] != rows or found.shape[1] != width:
        raise ValueError("scores, masks and what is written have the same rows, scores and what is written one width")
    for row in range(rows):
        with nogil:
            left = 0
            for word in range(whole):
                left |= constrained_select(&scores[row, word * 32], allowed[row, word], &found[row, word * 32])
            bits = allowed[row, whole] if whole < words else 0
            for at in range(whole * 32, width):
                found[row, at] = scores[row, at] if at < whole * 32 + 32 and bits >> (at & 31) & 1 else MINUS_INFINITY
                left |= found[row, at] ^ MINUS_INFINITY
        some.append(left != 0)
    return some


# ======================================================================================================================
# Looks into a kernel, for people and for the example in docs/kernel.md: what its states, stacks and masks are made of.
#
# Owns: nothing.  Borrows: a kernel, which it enters as any other caller does; asking may make states, never change one.
# Plain twin: `plain.PlainKernel.configurations`.
# ======================================================================================================================

PLACES = ("BODY", "UTF8", "UTF8_ANY", "ESCAPE", "HEX", "HEX_ANY", "PAIR", "PAIR_U", "HEX_LOW", "PAIR_ANY", "PAIR_U_ANY",
          "HEX_LOW_ANY", "OCTAL", "DONE")
KINDS = ("PLAIN", "POSITION", "ENTRY", "BEGIN", "NAMED", "OTHER")


cdef class HashTable:
    """A hash table as the parts of a kernel have, by itself."""
    cdef Map entries

    def __dealloc__(self):
        map_free(&self.entries)

    def find(self, uint64_t a, uint64_t b, uint32_t near):
        """Return the value of a key that stands near others, -1: it is absent."""
        return map_find(&self.entries, a, b, near)

    def add(self, uint64_t a, uint64_t b, uint32_t near, int32_t value):
        """Add a key that is absent."""
        map_add(&self.entries, a, b, near, value)


def _within(Kernel kernel, call):
    """Make a call as the only thread in a kernel."""
    kernel.enter(None)
    try:
        kernel.check(0)
        return call()
    except BaseException:
        kernel.drop()
        raise
    finally:
        kernel.leave()


def _number(int number, int count, kind):
    """Return a number of something, if there is such a thing."""
    if not 0 <= number < count:
        raise IndexError(f"no {kind} {number:,}: there are {count:,}")
    return number


def configurations(Kernel kernel, int state):
    """Return [(machine state, stack)] of an automaton state; odd machine states are positions inside a text."""
    _number(state, kernel.automaton.count, "state")
    first = kernel.automaton.states[state].first
    numbers = numbers_of(&kernel.automaton.configurations)[first:first + kernel.automaton.states[state].count]
    return list(zip(numbers[::2], numbers[1::2]))


def frames(Kernel kernel, int stack):
    """Return [(machine state to go on with, record or -1, stack below)]; -1 as state: the word ends, -2: the text."""
    _number(stack, kernel.stacks.first.size - 1, "stack")
    found = numbers_of(&kernel.stacks.frames)[kernel.stacks.first.at[stack]:kernel.stacks.first.at[stack + 1]]
    return list(zip(found[::3], found[1::3], found[2::3]))


def edges(Kernel kernel, int q):
    """Return what a machine state is: {"ranges": [(low, high, target)], "calls": [(callee, after)], "accepting"}, or of
    a position inside a text {"place", "language"}."""
    cdef Machine m
    cdef Position p
    _number(q >> 1, kernel.positions.count if q & 1 else kernel.machines.count, "position" if q & 1 else "machine")
    if q & 1:
        p = kernel.positions.at[q >> 1]
        return {"place": PLACES[p.place], "language": _within(kernel, lambda: _language(kernel, q >> 1))}
    if not kernel.machines.at[q >> 1].flags & EXPANDED:
        _within(kernel, lambda: _expand(kernel, q >> 1))
    m = kernel.machines.at[q >> 1]
    ranges, calls = numbers_of(&kernel.machines.ranges)[m.ranges:m.ranges_end], numbers_of(&kernel.machines.calls)
    calls = calls[m.calls:m.calls_end]
    return {"kind": KINDS[m.kind], "ranges": list(zip(ranges[::3], ranges[1::3], ranges[2::3])),
            "calls": list(zip(calls[::2], calls[1::2])), "accepting": bool(m.flags & ACCEPTING)}


def split(Kernel kernel, int state):
    """Return (the state without its texts, [(position, stack)] of the texts): what a mask is composed of first."""
    _number(state, kernel.automaton.count, "state")
    light = _within(kernel, lambda: _split(kernel, state))
    kept = configurations(kernel, light)
    return light, [pair for pair in configurations(kernel, state) if pair not in kept]


def text_mask(Kernel kernel, int q):
    """Return (the tokens that stay inside the text at a position, the bytes of each trie node where tokens leave)."""
    _number(q >> 1 if q & 1 else -1, kernel.positions.count, "position")
    return _within(kernel, lambda: _text_mask(kernel, q))


def behind(Kernel kernel, int stack):
    """Return the automaton state in which a text above a stack has just ended."""
    _number(stack, kernel.stacks.first.size - 1, "stack")
    return _within(kernel, lambda: _behind(kernel, stack))


def unions(Kernel kernel):
    """Return how many unions of masks there are that masks of a kernel are based on."""
    return len(kernel.composer.unions.masks)


def _expand(Kernel kernel, int machine):
    kernel.expansion.expand(machine)


def _language(Kernel kernel, int position):
    return kernel.languages.object_of(kernel.positions.at[position].language)


def _split(Kernel kernel, int state):
    return kernel.composer.walk.light_state(state)


def _behind(Kernel kernel, int stack):
    return kernel.composer.behind.popped(stack)


def _text_mask(Kernel kernel, int q):
    cdef IndependentMask mask = kernel.masks.whole(q)
    cdef const uint32_t* inside = kernel.masks.inside(mask)
    cdef const TrieNode* nodes = kernel.trie.nodes
    cdef int i, token, node
    exits = []
    for i in range(mask.exits.size):
        node = mask.exits.at[i]
        below = kernel.trie.texts[kernel.trie.ids[nodes[node].first]]
        exits.append(below[:nodes[node].depth])
    return [token for token in range(kernel.trie.size) if inside[token >> 5] >> (token & 31) & 1], exits


cdef list numbers_of(const Ints* numbers):
    cdef int i
    return [numbers.at[i] for i in range(numbers.size)]


# ======================================================================================================================
# Preparation of a grammar's masks, ahead of the first visit: edges of its machine states, masks of its texts.
#
# An automaton state differs from another by what has been written before, so most of those that a generation meets are
# new, and no list of them can be walked ahead.  The machine states that they consist of are few: the value of a
# property is the same one whichever properties are written.  Here all that can be reached from a start is asked for its
# edges, nearest first, and each text for its context-independent mask; what is left to a first visit is to put these
# together.
#
# Of an object only the first key is taken: each name, and one key without a name.  Of a counted text one count is.
#
# Owns: which states are still to be prepared.  Borrows: a kernel, which it enters as any other caller does, and to
# which all belongs that is made.
# Plain twin: none; masks are those of a kernel that was not prepared, tests/test_stored.py.
# ======================================================================================================================

cdef enum:
    MOST = 20_000       # machine states that one preparation looks at
    MOST_INNER = 200    # and positions behind characters: the digits of a number have no end


@final
cdef class Preparation:
    """The states that can be reached from a root machine, in the order in which they are prepared."""

    cdef Kernel kernel
    cdef Ints order                 # machine states and starts of texts, each once
    cdef Ints inner                 # positions behind characters of texts: last, as patterns have many
    cdef Map seen                   # those, and the tables of objects behind whose first key it has gone on
    cdef int at, inner_at           # how many are prepared

    def __cinit__(self, Kernel kernel, root):
        self.kernel = kernel
        kernel.enter(None)
        try:
            kernel.check(0)
            self.add(&self.order, MOST, kernel.expansion.number(root))
        except BaseException:
            kernel.drop()
            raise
        finally:
            kernel.leave()

    def __dealloc__(self):
        ints_free(&self.order)
        ints_free(&self.inner)
        map_free(&self.seen)

    def go_on(self, budget):
        """Prepare the next state; say whether there was one.

        Raises: LimitExceeded: it took too much work; the next call goes on behind it.  Preempted: others wait for the
        kernel, or it was emptied.
        """
        cdef int q
        if self.at == self.order.size and self.inner_at == self.inner.size:
            return False
        self.kernel.enter(budget)
        try:
            self.kernel.check(0)
            q = self.next_state()
            if q & 1:
                self.prepare_text(q)
            else:
                self.prepare_machine(q)
        except BaseException:
            self.kernel.drop()
            raise
        finally:
            self.kernel.leave()
        return True

    cdef int next_state(self) noexcept:
        """Take a state from the queues; there is one."""
        if self.at < self.order.size:
            self.at += 1
            return self.order.at[self.at - 1]
        self.inner_at += 1
        return self.inner.at[self.inner_at - 1]

    cdef int add(self, Ints* queue, int most, int q) except -1:
        """Queue a machine state or a position, unless it was; refused texts are none."""
        if q >= 0 and queue.size < most and map_get(&self.seen, q, 0) < 0:
            map_put(&self.seen, q, 0, 0)
            ints_add(queue, q)
        return 0

    # -- machine states ------------------------------------------------------------------------------------------------

    cdef int prepare_machine(self, int q) except -1:
        """Ask a machine state for its edges and queue where they lead."""
        cdef Kernel kernel = self.kernel
        cdef Machine m
        cdef int i, after
        if not kernel.machines.at[q >> 1].flags & EXPANDED:
            kernel.expansion.expand(q >> 1)
        m = kernel.machines.at[q >> 1]
        if m.flags & DISPATCH:
            return self.prepare_dispatch(q)
        for i in range(m.ranges, m.ranges_end, 3):
            self.add(&self.order, MOST, kernel.machines.ranges.at[i + 2])
        for i in range(m.tokens, m.tokens_end, 2):
            self.add(&self.order, MOST, kernel.machines.tokens.at[i + 1])
        for i in range(m.calls, m.calls_end, 2):
            after = kernel.machines.calls.at[i + 1]
            self.add(&self.order, MOST, kernel.machines.calls.at[i])
            if not after & 1 and kernel.machines.at[after >> 1].kind == OTHER:
                self.prepare_keys(kernel.machines.calls.at[i], after)
            if self.is_near(after):
                self.add(&self.order, MOST, after)
        return 0

    cdef bint is_near(self, int q) except -1:
        """Say whether a state is followed: not the keys behind the first one of an object, whose values are known."""
        cdef Machine* m = &self.kernel.machines.at[q >> 1]
        cdef int table
        if q & 1 or m.kind == PLAIN or m.kind == ENTRY or m.kind == BEGIN or self.kernel.objects.keys.is_blank(m.set):
            return True
        if m.kind != POSITION:
            return False
        table = self.kernel.objects.keys.sets[m.set].table
        if map_get(&self.seen, table, 1 + m.extra) >= 0:
            return False
        map_put(&self.seen, table, 1 + m.extra, 0)
        return True

    cdef int prepare_dispatch(self, int after) except -1:
        """Queue what follows the texts of a Dispatch: each name of an object, else an ordinary text."""
        cdef Kernel kernel = self.kernel
        cdef Machine m = kernel.machines.at[after >> 1]
        cdef int label, table
        if m.kind == NAMED:
            table = kernel.objects.keys.sets[m.set].table
            for label in range(kernel.objects.keys.tables[table].names):
                if kernel.objects.keys.tables[table].usable[label >> 5] >> (label & 31) & 1:
                    self.add(&self.order, MOST, kernel.objects.behind_name(after, label))
        elif m.kind == OTHER:
            self.add(&self.order, MOST, kernel.objects.lonely_entry(after))
        elif m.flags & RECORDS:
            self.add(&self.order, MOST, kernel.dispatches.following(after, None))
        return 0

    # -- texts ---------------------------------------------------------------------------------------------------------

    cdef int prepare_keys(self, int text, int after) except -1:
        """Make what tokens do that end a key without a name and go on behind it."""
        cdef Kernel kernel = self.kernel
        cdef IndependentMask mask
        cdef int i, body
        for i in range(kernel.machines.at[text >> 1].ranges, kernel.machines.at[text >> 1].ranges_end, 3):
            body = kernel.machines.ranges.at[i + 2]
            if not self.has_mask(body):
                continue
            mask = kernel.masks.whole(body)
            if mask.groups is None:
                kernel.masks.group(mask, body, -1)
            kernel.masks.behind_key(mask if mask.base is None else mask.base, kernel.objects.lonely_entry(after),
                                    kernel.objects.shared_name(after))
        return 0

    cdef bint has_mask(self, int q) noexcept:
        """Say whether a position has a context-independent mask that is worth making."""
        cdef Position* p = &self.kernel.positions.at[q >> 1]
        if not q & 1 or p.place != BODY:
            return False
        return self.kernel.languages.at[p.language].texts < 0 and not self.kernel.languages.at[p.language].labelled

    cdef int prepare_text(self, int q) except -1:
        """Make the mask of a text, and queue the positions behind its next character."""
        cdef Kernel kernel = self.kernel
        cdef int i, target, spelling = kernel.positions.at[q >> 1].spelling
        cdef int language = kernel.positions.at[q >> 1].language
        if not self.has_mask(q):
            return 0
        kernel.masks.whole(q)
        if kernel.languages.counted(language) is not None:
            return 0
        if kernel.languages.at[language].first < 0:
            kernel.languages.expand(language)
        for i in range(kernel.languages.at[language].first, kernel.languages.at[language].last):
            target = kernel.languages.target(language, i)
            if target >= 0:
                self.add(&self.inner, MOST_INNER, 2 * kernel.positions.body(spelling, target) + 1)
        return 0
