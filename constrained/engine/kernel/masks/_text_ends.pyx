# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The tokens that leave a text, added to a mask: those that end where it does, and those that go on behind it.

A context-independent mask says at which trie nodes, its *exits*, tokens leave a text; from the state behind the text
the trie is walked below them.  Where what follows depends on the text, ordinary texts share one state behind them,
special ones have their own, and what could tell more is doubted; docs/kernel.md has a table of the `leave_…` functions.

Owns: the exits that are apart; what was noted of bases.  Borrows: the buffer of the composer, whose worklist it adds
to; `Behind`, for the states behind texts; masks, walks, the automaton, stacks, machines and objects; `Dispatches`; the
trie.
Invariant: what is added, and not doubted, is in the mask.
Plain twin: `twin.automaton.PlainKernel.mask`, which walks all tokens.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.kernel._tables cimport Ints, ints_add, ints_extend, ints_free, map_free, map_get, map_put
from constrained.engine.kernel._trie cimport TrieNode
from constrained.engine.kernel.automaton._automaton cimport DEAD, UNKNOWN
from constrained.engine.kernel.automaton._closure cimport EXITS
from constrained.engine.kernel.automaton._dispatch cimport Dispatches
from constrained.engine.kernel.automaton._machines cimport ALIKE, KEYED
from constrained.engine.kernel.automaton._objects cimport OTHER
from constrained.engine.kernel.masks._behind cimport Behind
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.masks._finite_texts cimport FiniteTexts
from constrained.engine.kernel.masks._independent cimport MOST_LISTED
from constrained.engine.kernel.masks._mask_buffer cimport (
    MaskBuffer, buffer_begin, buffer_clear, buffer_doubt, buffer_doubt_new, buffer_end, buffer_node, buffer_tokens,
    buffer_words)
from constrained.engine.kernel.masks._unions cimport Unions

cdef enum:
    KEPT = 200          # bytes that is known to have been left once takes


@final
cdef class Leavings:
    """What a walk behind some exits adds to a buffer: tokens, and texts that are put off."""

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
                and self.walk.leaving == NULL and not self.walk.bare):
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
        if self.walk.leaving != NULL and self.automaton.states[behind].flags & EXITS:
            for i in range(mask.exits.size):
                node = mask.exits.at[i]
                if nodes[node].end > node + 1 and not is_apart(apart, node):
                    ints_add(self.walk.leaving, node)
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
