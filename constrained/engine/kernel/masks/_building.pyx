# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Context-independent masks in the making: walks of the token trie that know nothing outside a text.

Such a mask says of every token whether it stays inside a text, and where it leaves: an *exit* is a trie node at which
the text has ended, so that what lies below it depends on what follows the text.  A *part* is one for the tokens below a
trie node alone: a token that enters the text in its middle, such as ` "San`, needs only that.

Owns: `Staying`, which says what need not be walked.  Borrows: the trie, the automaton, which it adds states to,
positions, the counter of the vocabulary's store, the meter of work.
Invariants: bit i is set exactly if token i leads from the position into the text or just to its end; `exits` are in the
order of the trie; nothing in a mask refers to a state or a stack, so it holds for every kernel of the vocabulary.
Plain twin: a walk of the trie with `twin.text.TextAt.step`; compared through whole masks, `tests/laws.py`.
Source: the idea of context-independent masks is XGrammar's (Dong et al. 2024); exits by trie node, parts, counts and
the skipping of bytes that change nothing are ours.
"""
cimport cython
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint64_t
from constrained.engine.memory._memory cimport allotted, cleared, released
from constrained.engine.memory._meter cimport Meter, work
from constrained.engine.kernel._tables cimport Ints, ints_add, ints_free, ints_put, ints_room
from constrained.engine.kernel._trie cimport TrieNode, Trie, set_tokens
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD, Row, UNKNOWN, known_successor, successor
from constrained.engine.kernel.automaton._closure cimport EXITS
from constrained.engine.kernel.automaton._stacks cimport OUTSIDE
from constrained.engine.kernel.masks._covered cimport drop_covered
from constrained.engine.kernel.masks._mask_buffer cimport BLOCK
from constrained.engine.kernel.masks._staying cimport Staying
from constrained.engine.kernel.texts._positions cimport Positions

cdef enum:
    LISTED = 64         # words of a mask that are added as soon as a whole mask is made its base
    GROUPED = 160       # bytes of an exit in a table of texts, with its text
    SMALL = 4           # trie nodes: below this a look at the classes of their bytes costs more than the walk


cdef class Counter:
    """How much memory context-independent masks take; see `mask_store.MaskStore`."""


@cython.no_gc
@final
cdef class IndependentMask:
    """What tokens do inside one text; see the fields in _building.pxd.

    Invariant: no chain of references leads from a mask to itself, and the counter is there when it goes: the collector
    stays away.
    """

    def __dealloc__(self):
        if self.counter is not None:
            self.counter.bytes -= self.size
        released(self.bits)
        released(self.inside)
        released(self.next_bytes)
        ints_free(&self.words)
        ints_free(&self.tokens)
        ints_free(&self.exits)
        ints_free(&self.exit_counts)
        ints_free(&self.counted)
        ints_free(&self.longest_first)
        ints_free(&self.base_exits)
        ints_free(&self.ways)
        ints_free(&self.token_starts)
        ints_free(&self.exit_starts)
        ints_free(&self.children)

    cdef int weigh(self, Counter counter, int words) except -1:
        """Count the memory it takes, as it is now; `words` are those of a mask."""
        cdef long size = sizeof(IndependentMask) + (32 * <long>self.exits.size if self.next_bytes != NULL else 0)
        size += 4 * (
            <long>self.words.room + self.tokens.room + self.exits.room + self.exit_counts.room + self.counted.room
            + self.longest_first.room)
        size += 4 * (<long>self.base_exits.room + self.ways.room + self.token_starts.room + self.exit_starts.room
                     + self.children.room)
        size += 4 * (words + BLOCK) * ((self.bits != NULL) + (self.inside != NULL))
        if self.groups is not None and self.base is None:
            size += GROUPED * <long>self.exits.size
        counter.bytes += size - self.size
        self.counter, self.size = counter, size
        return 0


@final
cdef class Builder:
    """Builds context-independent masks; which are made when is in `_independent`."""

    def __cinit__(self, Automaton automaton, Counter counter):
        self.automaton, self.counter, self.staying = automaton, counter, Staying(automaton)
        self.meter, self.trie, self.positions = automaton.meter, automaton.trie, automaton.positions
        self.aside = <uint32_t*>cleared(self.trie.words, 4)

    def __dealloc__(self):
        ints_free(&self.runs)
        released(self.aside)

    cdef IndependentMask build(self, int q, int node, bint counts):
        """Walk the trie, or the part below a node (-1: all of it), from position q with nothing known outside the text.

        With counts, q is the loop of a language C*: a character has ended whenever the walk is back at q, or where a
        guarded language has seen the beginning of a marker.  (Not so where an escape ends with the character behind it,
        as octal ones do: such spellings do without counts.)
        """
        cdef IndependentMask made = IndependentMask()
        cdef int visited, deep = self.trie.longest + 2, words = self.trie.words if node < 0 else 0
        cdef bint bare = self.positions.spellings[self.positions.at[q >> 1].spelling].closing < 0
        cdef int32_t* path = <int32_t*>allotted(3 * <size_t>deep, 4)
        try:
            path[0] = self.automaton.enter(q, OUTSIDE, 0)
            if counts:
                made.bits = <uint32_t*>cleared(words + BLOCK, 4)
                visited = self.walk_counting(made, path, path + deep, path + 2 * deep)
            else:
                self.runs.size = 0
                visited = self.walk(made, node, bare and node < 0, path)
        finally:
            released(path)
        work(self.meter, visited + 8 * made.exits.size + words)
        if counts:
            self.note_words(made)
        else:
            self.gather(made, node, bare)
        self.note_bytes(made)
        made.weigh(self.counter, self.trie.words)
        return made

    # -- walks ---------------------------------------------------------------------------------------------------------

    cdef int walk(self, IndependentMask made, int node, bint bare, int32_t* path) except -1:
        """Note the tokens below a node, or all, as runs, and their exits; return how many nodes were visited.

        Of a whole bare text, which may end at most nodes, those with nothing below are no exits.
        """
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const Row* row
        cdef int root, byte
        cdef Walked walked = Walked(UNKNOWN, 0, 0, 0, 0)
        if node >= 0:
            self.walk_below(made, node, bare, path, &walked, node + 1, nodes[node].end)
        else:
            row = self.automaton.row(path[0])
            for byte in range(256):
                root = self.trie.roots[byte]
                if root >= 0 and successor(row, byte) != DEAD:
                    self.walk_below(made, node, bare, path, &walked, root, nodes[root].end)
        self.keep_run(walked.first, walked.last)
        return walked.visited

    cdef int walk_below(self, IndependentMask made, int node, bint bare, int32_t* path, Walked* walked,
                        int at, int stop) except -1:
        """Go on with a walk: through the nodes [at, stop).

        Invariant: path[d] = the state after d bytes below the node; path[0] is given.  From `home`, where no text ends,
        bytes lead back but for those of the classes `leaving`; tokens [first, last) of the trie are still to be noted.
        """
        cdef Automaton automaton = self.automaton
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const uint64_t* below = self.trie.below
        cdef const uint64_t* classes = self.staying.classes
        cdef int home = walked.home, first = walked.first, last = walked.last, base = nodes[at].depth - 1
        cdef int depth, after, end, ends
        cdef uint64_t back, leaving = walked.leaving
        if at < stop and nodes[at].first != last:
            self.keep_run(first, last)
            first = last
        while at < stop:
            walked.visited += 1
            depth, end, after = nodes[at].depth - base, nodes[at].end, home
            if path[depth - 1] != home or (classes[nodes[at].byte] | below[at]) & leaving:
                after = known_successor(&automaton.states[path[depth - 1]], nodes[at].byte)
                if after == UNKNOWN:
                    after = automaton.step(path[depth - 1], nodes[at].byte)
                if after == DEAD:
                    self.keep_run(first, last)
                    first, at = last, self.next_live(automaton.states[path[depth - 1]].row, end, stop, depth + base)
                    continue
            first, last = first if first < last else nodes[at].first, nodes[at + 1].first
            ends = automaton.states[after].flags & EXITS
            if after == home and not below[at] & leaving:
                walked.visited += end - at - 1 if end - at <= SMALL else 0
                last, at = nodes[end].first, end
            elif end == at + 1 and (not ends or bare):  # PERF: "0" … "9" behind two digits, not one by one
                at = self.next_other(automaton.states[path[depth - 1]].row, end, stop, depth + base, after)
                last = nodes[at].first
            else:
                path[depth] = after
                if ends:
                    first = self.keep_end(made, node, at, first, last)
                at += 1
                if end - at >= SMALL and after != home:
                    back = self.staying.leaving(after)
                    if not below[at - 1] & back:
                        last, at = nodes[end].first, end
                    elif ~back and not ends and (home == UNKNOWN or not back & ~leaving):
                        home, leaving = after, back
        walked.home, walked.first, walked.last, walked.leaving = home, first, last, leaving
        return 0

    cdef inline int keep_end(self, IndependentMask made, int node, int at, int first, int last) except -1:
        """Note an exit; return where the tokens that are still to be noted begin: below a node, behind those that end
        here, which are the exit's."""
        ints_add(&made.exits, at)
        if node < 0:
            return first
        self.keep_run(first, self.trie.nodes[at].first)
        return last

    cdef inline int next_other(self, const Row* row, int at, int stop, int depth, int after) noexcept:
        """Return the next node of a depth, as there, with something below or that leads elsewhere; or what is behind
        it."""
        cdef const TrieNode* nodes = self.trie.nodes
        while (at < stop and nodes[at].depth == depth and nodes[at].end == at + 1 and row != NULL
               and successor(row, nodes[at].byte) == after):
            at += 1
        return at

    cdef inline int next_live(self, const Row* row, int at, int stop, int depth) noexcept:
        """Return the next node of a depth, below a parent that ends at `stop` or before, that its row has not as dead;
        or what is behind it."""
        cdef const TrieNode* nodes = self.trie.nodes
        while at < stop and nodes[at].depth == depth and row != NULL and successor(row, nodes[at].byte) == DEAD:
            at = nodes[at].end
        return at

    cdef inline int keep_run(self, int first, int last) except -1:
        """Note the tokens [first, last) of the trie; none of them leaves the text."""
        if first < last:
            ints_add(&self.runs, first)
            ints_add(&self.runs, last)
        return 0

    cdef int gather(self, IndependentMask made, int node, bint bare) except -1:
        """Give a mask the tokens of the runs, the whole one of a bare text only the exits that it needs."""
        cdef const int32_t* ids = self.trie.ids
        cdef const int32_t* runs = self.runs.at
        cdef uint32_t* bits
        cdef int i, j, count = 0, size = self.runs.size
        for j in range(0, size, 2):
            count += runs[j + 1] - runs[j]
        if node >= 0:
            ints_room(&made.tokens, count)
            for j in range(0, size, 2):
                for i in range(runs[j], runs[j + 1]):
                    ints_put(&made.tokens, ids[i])
            return 0
        if 8 * count <= self.trie.words:
            return self.gather_few(made, bare)
        bits = made.bits = <uint32_t*>cleared(self.trie.words + BLOCK, 4)
        for j in range(0, size, 2):
            for i in range(runs[j], runs[j + 1]):
                bits[ids[i] >> 5] |= <uint32_t>1 << (ids[i] & 31)
        if bare:
            drop_covered(&made.exits, self.trie, made.bits)
        return self.note_words(made)

    cdef int gather_few(self, IndependentMask made, bint bare) except -1:
        """As `gather`, of a whole mask with few tokens: it lists its words, and has no bits where these are few.

        PERF: 16 KB that are cleared, looked through and met for the first time are 7 µs.
        """
        cdef int i, j
        try:
            for j in range(0, self.runs.size, 2):
                for i in range(self.runs.at[j], self.runs.at[j + 1]):
                    self.list_token(made, self.trie.ids[i])
            if bare:
                drop_covered(&made.exits, self.trie, self.aside)
            if made.words.size > 2 * LISTED:
                made.bits = <uint32_t*>cleared(self.trie.words + BLOCK, 4)
        finally:
            self.take_words(made)
        return 0

    cdef int list_token(self, IndependentMask made, int token) except -1:
        """Add a token to the listed words of a mask; their bits stand aside until `take_words`."""
        if not self.aside[token >> 5]:
            ints_room(&made.words, 2)
            ints_put(&made.words, token >> 5)
            ints_put(&made.words, 0)
        self.aside[token >> 5] |= <uint32_t>1 << (token & 31)
        return 0

    cdef int take_words(self, IndependentMask made) noexcept:
        """Give a mask, and its listed words, the bits that stand aside."""
        cdef int i, word
        for i in range(0, made.words.size, 2):
            word = made.words.at[i]
            made.words.at[i + 1] = <int32_t>self.aside[word]
            if made.bits != NULL:
                made.bits[word] = self.aside[word]
            self.aside[word] = 0
        return 0

    cdef int walk_counting(self, IndependentMask made, int32_t* path, int32_t* extra, int32_t* trail) except -1:
        """As `walk` for all tokens, with the number of characters that each begins and the ways to the exits.

        Invariant: path as there; extra[d] = characters that have ended after d bytes, less those that the bytes are;
        trail[d] = the node they lead to.  Tokens [first, last) begin `more` characters than they have.
        """
        cdef Automaton automaton = self.automaton
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const uint64_t* below = self.trie.below
        cdef const uint64_t* classes = self.staying.classes
        cdef int at = 0, depth, after, end, begun, visited = 0, home = UNKNOWN, first = 0, last = 0, more = 0
        cdef uint64_t back, leaving = 0
        extra[0] = 0
        while at < self.trie.count:
            visited += 1
            depth, end, after = nodes[at].depth, nodes[at].end, home
            extra[depth], begun = extra[depth - 1], 0
            if path[depth - 1] != home or (classes[nodes[at].byte] | below[at]) & leaving:
                after = automaton.next_state(path[depth - 1], nodes[at].byte)
                begun = after != path[0] and not self.staying.between(after)
                extra[depth] += 1 - begun - (nodes[at].byte & 0xC0 != 0x80)
            if after == DEAD or automaton.states[after].flags & EXITS or extra[depth] + begun != more:
                self.count_all(made, first, last, more)
                first, more = last, extra[depth] + begun
            if after == DEAD:
                at = end
                continue
            first, last = first if first < last else nodes[at].first, nodes[at + 1].first
            if after == home and not below[at] & leaving:
                visited += end - at - 1 if end - at <= SMALL else 0
                last, at = nodes[end].first, end
                continue
            path[depth], trail[depth] = after, at
            if automaton.states[after].flags & EXITS:
                self.keep_exit(made, trail, depth, extra[depth])
                first = last
            if end - at > SMALL and after != home:
                back = self.staying.leaving(after)
                if not below[at] & back:
                    self.count_all(made, first, last, more)
                    self.count_all(made, nodes[at + 1].first, nodes[end].first, extra[depth])
                    first, at = last, end
                    continue
                if ~back and not automaton.states[after].flags & EXITS and (home == UNKNOWN or not back & ~leaving):
                    home, leaving = after, back
            at += 1
        self.count_all(made, first, last, more)
        return visited

    cdef int keep_exit(self, IndependentMask made, const int32_t* trail, int depth, int extra) except -1:
        """Note an exit, the characters before it, and the nodes on the way to it that are not noted yet."""
        cdef int way, characters = extra
        for way in range(1, depth + 1):
            characters += self.trie.nodes[trail[way]].byte & 0xC0 != 0x80
            if not made.ways.size or trail[way] > made.ways.at[made.ways.size - 1]:
                ints_add(&made.ways, trail[way])
        set_tokens(self.trie.nodes, self.trie.ids, trail[depth], made.bits)
        ints_add(&made.exits, trail[depth])
        ints_add(&made.exit_counts, characters)
        made.most = max(made.most, characters)
        return 0

    cdef int count_all(self, IndependentMask made, int first, int last, int more) except -1:
        """Note such tokens, of all, and that each begins so many more characters than it has, where that is not 0."""
        cdef const int32_t* has = self.trie.characters
        cdef const int32_t* ids = self.trie.ids
        cdef int i, most = 0
        if first == last:
            return 0
        for i in range(first, last):
            made.bits[ids[i] >> 5] |= <uint32_t>1 << (ids[i] & 31)
            most = max(most, has[i])
        made.most = max(made.most, most + more)
        for i in range(first, last if more else first):
            ints_add(&made.counted, ids[i])
            ints_add(&made.counted, has[i] + more)
        return 0

    # -- what is noted of a finished mask ------------------------------------------------------------------------------

    cdef int note_words(self, IndependentMask mask) except -1:
        """List the words of a whole mask where most have no bit, so that it is added without a look at all of
        them."""
        cdef int i, count = 0, words = self.trie.words
        for i in range(words):
            count += mask.bits[i] != 0
        for i in range(words if 8 * count <= words else 0):
            if mask.bits[i]:
                ints_add(&mask.words, i)
                ints_add(&mask.words, <int32_t>mask.bits[i])
        return 0

    cdef int note_bytes(self, IndependentMask mask) except -1:
        """Note for every exit which bytes tokens go on with, so that a walk behind it starts only where it can get
        anywhere."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, node, child
        cdef uint64_t* here
        mask.next_bytes = <uint64_t*>cleared(4 * <size_t>mask.exits.size + 1, 8)
        for i in range(mask.exits.size):
            node, here = mask.exits.at[i], mask.next_bytes + 4 * i
            child = node + 1
            while child < nodes[node].end:
                here[nodes[child].byte >> 6] |= <uint64_t>1 << (nodes[child].byte & 63)
                child = nodes[child].end
        return 0
