# cython: boundscheck=False, wraparound=False, cdivision=True
"""Masks while they are made, and the context-independent ones: what tokens do inside a text, whatever stands around it.

    MaskBuffer        the mask that is being made: blocks that differ from a base, and a worklist
    IndependentMask   which tokens stay inside a text, and the trie nodes where others leave it (exits)
      Builder         makes one by a walk of the trie; skips bytes that change nothing (Staying)
      CountedMasks    of texts with a bounded length: from the unbounded one
      Grouping        exits by what the texts before them are
    IndependentMasks  finds and keeps them, for the vocabulary
    Walk              of the trie from an automaton state     FiniteTexts  against sorted texts
    Unions            of whole masks that come together

They are put together to the mask of a state by the composer, in _kernel.pyx.
"""
cimport cython
from cython cimport final
from constrained.engine.kernel._automaton cimport (
    ALIKE, DEAD, DISPATCH, EXITS, known_successor, Machine, NAMED, OUTSIDE, REFUSES, State, successor, UNKNOWN)
from constrained.engine.kernel._texts cimport BODY, ESCAPE, holds, LiteralTexts, Position, Spelling
from constrained.engine.memory._memory cimport ask, ints_extend, ints_put, ints_room, map_get, map_put, SLICE, work
from constrained.engine.tokens._tokens cimport child_of, clear_tokens, is_wide, set_tokens

from bisect import bisect_left
from constrained.engine.tokens.trie import BITS, LEADS, MALFORMED
from constrained.engine.spelling import decode
from constrained.regex import ANY_TEXT
from constrained.regex.markers import endless


# ======================================================================================================================
# Exits of bare texts that say nothing, as every token below them stays inside as well.
#
# Plain twin: none: masks with and without them are the same.
# ======================================================================================================================

cdef enum:
    FEW_EXITS = 64            # exits that are not worth a look at the whole vocabulary


cdef inline int drop_covered(Ints* exits, Trie trie, const uint32_t* bits) except -1:
    """Forget such exits of a mask if they are many: all of them, for free text."""
    cdef const TrieNode* nodes = trie.nodes
    cdef int i, kept = 0, node, below = 0
    cdef int32_t* outside = NULL
    if exits.size <= FEW_EXITS:
        return 0
    for i in range(exits.size):
        node = exits.at[i]
        below += nodes[nodes[node].end].first - nodes[node + 1].first
    # tokens, some of them many times: then one look at all of them is less
    if below > nodes[trie.count].first:
        outside = count_outside(trie, bits)
    for i in range(exits.size):
        node = exits.at[i]
        if leaves_below(trie, bits, node, outside):
            exits.at[kept] = node
            kept += 1
    exits.size = kept
    released(outside)
    return 0


cdef inline int32_t* count_outside(Trie trie, const uint32_t* bits) except NULL:
    """Return how many of the first i tokens of the trie do not stay inside, for every i."""
    cdef int i, token, count = trie.nodes[trie.count].first
    cdef int32_t* outside = <int32_t*>allotted(<size_t>count + 1, 4)
    outside[0] = 0
    for i in range(count):
        token = trie.ids[i]
        outside[i + 1] = outside[i] + 1 - (bits[token >> 5] >> (token & 31) & 1)
    return outside


cdef inline bint leaves_below(Trie trie, const uint32_t* bits, int node, const int32_t* outside) noexcept:
    """Say whether some token below a trie node does not stay inside."""
    cdef const TrieNode* nodes = trie.nodes
    cdef int i, first = nodes[node + 1].first, last = nodes[nodes[node].end].first
    if outside != NULL:
        return outside[last] > outside[first]
    for i in range(first, last):
        if not bits[trie.ids[i] >> 5] >> (trie.ids[i] & 31) & 1:
            return True
    return False


# ======================================================================================================================
# Bytes that change nothing: those that lead from between two characters of a text back to the same place.
#
#     [a-zA-Z0-9_]*   a letter leads back; a hyphen does not: tokens of letters need not be walked
#
# Owns: the classes of bytes.  Borrows: the automaton, positions and languages; languages keep what was found of them.
# Invariant: after well-formed characters of classes that do not leave, and after a part of one, tokens are where they
# were, or in the middle of a character that leads there.
# Plain twin: the steps of the automaton, byte by byte.
# Source: ours.
# ======================================================================================================================

cdef uint64_t ALL_CLASSES = 0xFFFFFFFFFFFFFFFF
cdef uint64_t MALFORMED_CLASS = <uint64_t>1 << MALFORMED


@final
cdef class Staying:
    """Which classes of bytes lead from a state back to it."""

    def __cinit__(self, Automaton automaton):
        cdef int i = 0
        self.automaton, self.positions = automaton, automaton.positions
        self.languages = automaton.positions.languages
        for i in range(256):
            self.classes[i] = BITS[i] if not 0x80 <= i < 0xC0 else MALFORMED_CLASS
        i = 0
        for low, high in LEADS:
            self.leads[2 * i], self.leads[2 * i + 1], self.lead_bytes[i] = low, high, chr(low).encode()[0]
            i += 1
        self.lead_count = i

    cdef bint between(self, int state) noexcept:
        """Say whether a state is one position between two characters of a text."""
        cdef int q
        if self.automaton.states[state].count != 2:
            return False
        q = self.automaton.configurations.at[self.automaton.states[state].first]
        return q & 1 and self.positions.at[q >> 1].place == BODY

    cdef uint64_t leaving(self, int state) except 0:
        """Return the classes of bytes that do not lead from a state of a single position back to it; of a class, the
        bytes of a whole character."""
        cdef int q
        if self.automaton.states[state].count != 2:
            return ALL_CLASSES
        q = self.automaton.configurations.at[self.automaton.states[state].first]
        return self.leaving_position(q >> 1) if q & 1 else ALL_CLASSES

    cdef uint64_t leaving_position(self, int position) except 0:
        cdef Position* p = &self.positions.at[position]
        cdef LanguageAt* at = &self.languages.at[p.language]
        if p.place != BODY or at.texts >= 0:
            return ALL_CLASSES
        if not at.leaving or at.spelling != p.spelling:
            return self.find_leaving(position)
        return at.leaving

    cdef uint64_t find_leaving(self, int position) except 0:
        cdef Position p = self.positions.at[position]
        cdef LanguageAt* at = &self.languages.at[p.language]
        cdef Spelling* spelling = &self.positions.spellings[p.spelling]
        cdef int i, byte
        cdef int32_t* lead
        cdef bint back[128]
        cdef uint64_t found = ALL_CLASSES
        if at.first < 0:
            self.languages.expand(p.language)
            at = &self.languages.at[p.language]
        memset(back, 0, sizeof(back))
        for i in range(at.first, at.last):
            if self.languages.target(p.language, i) == p.language:
                found = MALFORMED_CLASS
                for byte in range(self.languages.edge_low.at[i], min(self.languages.edge_high.at[i], 127) + 1):
                    back[byte] = byte != spelling.closing and holds(&self.positions.tables, spelling.raw, byte)
        back[0x5C] = back[0x5C] and not spelling.escapes
        if found != ALL_CLASSES:
            for byte in range(128):
                if not back[byte]:
                    found |= self.classes[byte]
            for i in range(self.lead_count):
                lead = &self.leads[2 * i]
                if self.positions.probe(p.language, lead[0], lead[1], spelling.raw, 0) != p.language:
                    found |= self.classes[self.lead_bytes[i]]
        if at.spelling == p.spelling:
            at.leaving = found
        return found


# ======================================================================================================================
# Context-independent masks in the making: walks of the token trie that know nothing outside a text.
#
# Such a mask says of every token whether it stays inside a text, and where it leaves: an *exit* is a trie node at which
# the text has ended, so that what lies below it depends on what follows the text.  A *part* is one for the tokens below
# a trie node alone: a token that enters the text in its middle, such as ` "San`, needs only that.
#
# Owns: `Staying`, which says what need not be walked.  Borrows: the trie, the automaton, which it adds states to,
# positions, the counter of the vocabulary's store, the meter of work.
# Invariants: bit i is set exactly if token i leads from the position into the text or just to its end; `exits` are in
# the order of the trie; nothing in a mask refers to a state or a stack, so it holds for every kernel of the vocabulary.
# Plain twin: a walk of the trie with `plain.TextAt.step`; compared through whole masks, `tests/laws.py`.
# Source: the idea of context-independent masks is XGrammar's (Dong et al. 2024); exits by trie node, parts, counts and
# the skipping of bytes that change nothing are ours.
# ======================================================================================================================

cdef enum:
    LISTED = 64         # words of a mask that are added as soon as a whole mask is made its base
    GROUP_BYTES = 160       # bytes of an exit in a table of texts, with its text
    SMALL = 4           # trie nodes: below this a look at the classes of their bytes costs more than the walk


cdef class Counter:
    """How much memory context-independent masks take; see `registry.MaskStore`."""


@cython.no_gc
@final
cdef class IndependentMask:
    """What tokens do inside one text.

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
            size += GROUP_BYTES * <long>self.exits.size
        counter.bytes += size - self.size
        self.counter, self.size = counter, size
        return 0


@final
cdef class Builder:
    """Builds context-independent masks; which are made when is in `IndependentMasks`."""

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


# ======================================================================================================================
# Masks of counted texts, `C{2,20}`, made from the one of `C*`: tokens that begin too many characters fall out.
#
#     C*        ab  abc  abc"  abc": 1       the base, with the characters that each token begins
#     C{0,2}    ab                           a level: what is too long falls out, an exit behind too few or too many too
#
# All levels are of one base, so that to make one costs what falls out: of 128,000 tokens 2,000 have more than 12
# characters.  Lower levels are those of the base that are among the tokens of so few characters, which are kept as
# well.
#
# Owns: nothing but what it borrows: the vocabulary's store, in which the masks are; the `Builder` that makes bases;
# positions and languages; the trie; the meter of work.
# Invariant: a level is, bit by bit and exit by exit, what a walk of the trie from its position would find.
# Plain twin: that walk; masks are compared with those of `plain` in `tests/laws.py`, and levels with walks in
# `tests/test_counted_masks.py`.
# Source: ours.
# ======================================================================================================================

cdef enum:
    MOST_LONG = 2_048   # tokens of a base that are listed: those of the most characters


@final
cdef class CountedMasks:
    """The masks of counted texts of a vocabulary, as a kernel asks for them."""

    def __cinit__(self, Builder builder, store):
        self.builder, self.store, self.entries = builder, store, store.entries
        self.meter, self.trie = builder.meter, builder.trie
        self.positions, self.languages = builder.positions, builder.positions.languages

    cdef IndependentMask mask(self, object spelling, object counted):
        """Return the mask of C{low,high}; counted: C, low and high, None: any number."""
        characters, low, high = counted
        cdef IndependentMask base = self.base(spelling, characters)
        cdef int least = min(low, base.most + 1), most = base.most if high is None else min(high, base.most)
        if least == 0 and most == base.most:
            return base
        key = (spelling, "counted", characters, least, most)
        found = stored(self.entries, key)
        return found if found is not None else self.kept(key, self.limited(base, least, most))

    cdef IndependentMask base(self, object spelling, object characters):
        """Return the mask of C*."""
        cdef IndependentMask made
        cdef int body
        key = (spelling, "counted", characters)
        found = stored(self.entries, key)
        if found is not None:
            return found
        ask(self.meter)
        body = self.positions.body(self.positions.spelling(spelling), self.languages.number(endless(characters)))
        made = self.builder.build(2 * body + 1, -1, True)
        self.list_long(made)
        if made.all_long and stored(self.entries, ("within", made.all_long - 1)) is None:
            self.make_within(made.all_long - 1)
        return self.kept(key, made)

    cdef IndependentMask kept(self, tuple key, IndependentMask mask):
        """Keep a mask with the vocabulary."""
        mask.weigh(self.builder.counter, self.trie.words)
        self.store.put(key, mask, mask.size)
        return mask

    # -- levels --------------------------------------------------------------------------------------------------------

    cdef IndependentMask limited(self, IndependentMask base, int least, int most):
        """Return the mask of least to most characters from that of any number."""
        cdef IndependentMask level = self.copied(base)
        cdef int i = 0
        if most >= base.all_long:
            while i < base.longest_first.size and base.longest_first.at[i + 1] > most:
                level.bits[base.longest_first.at[i] >> 5] &= ~(<uint32_t>1 << (base.longest_first.at[i] & 31))
                i += 2
            work(self.meter, self.trie.words + i + 2 * base.exits.size)
        else:
            self.keep_short(level, base, most)
        self.keep_exits(level, base, least, most)
        if base.words.size or most < base.all_long:
            self.builder.note_words(level)
        return level

    cdef int keep_short(self, IndependentMask level, IndependentMask base, int most) except -1:
        """Keep the tokens that begin no more than so many characters, and those that end where they leave."""
        cdef IndependentMask within = self.within(most)
        cdef int i, token
        work(self.meter, self.trie.words + base.counted.size + 2 * base.exits.size)
        for i in range(self.trie.words):
            level.bits[i] &= within.bits[i]
        for i in range(0, base.counted.size, 2):
            token = base.counted.at[i]
            if base.counted.at[i + 1] <= most:
                level.bits[token >> 5] |= <uint32_t>1 << (token & 31)
            else:
                level.bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))
        for i in range(base.exits.size):
            set_tokens(self.trie.nodes, self.trie.ids, base.exits.at[i], level.bits)
        return 0

    cdef int keep_exits(self, IndependentMask level, IndependentMask base, int least, int most) except -1:
        """Give a level the exits of its base that are behind so many characters, and take the tokens away that end at
        the others."""
        cdef int i, kept = 0
        level.base = base
        ints_extend(&level.exits, &base.exits)
        for i in range(base.exits.size):
            kept += least <= base.exit_counts.at[i] <= most
        if kept == base.exits.size:     # and what is noted of these is the base's, see `IndependentMask`
            return 0
        kept = 0
        ints_room(&level.base_exits, base.exits.size)
        level.next_bytes = <uint64_t*>allotted(4 * <size_t>base.exits.size + 1, 8)
        for i in range(base.exits.size):
            if least <= base.exit_counts.at[i] <= most:
                level.exits.at[kept], level.base_exits.at[kept] = base.exits.at[i], i
                memcpy(level.next_bytes + 4 * kept, base.next_bytes + 4 * i, 32)
                kept += 1
            else:
                clear_tokens(self.trie.nodes, self.trie.ids, base.exits.at[i], level.bits)
        level.exits.size = level.base_exits.size = kept
        return 0

    cdef IndependentMask within(self, int most):
        """Return the tokens of no more than `most` characters."""
        found = stored(self.entries, ("within", most))
        return found if found is not None else self.make_within(most)

    cdef IndependentMask make_within(self, int most):
        """Make the tokens of no more than so many characters, for all numbers up to `most`, and return the last.

        PERF: one by one, each from nothing, they are 70 µs of a step; all that texts need of 128,000 tokens, 12, are
        made in 300.
        """
        cdef IndependentMask made = IndependentMask()
        cdef int i, token, characters, first = 0
        made.bits = <uint32_t*>cleared(self.trie.words + BLOCK, 4)
        for characters in range(most + 1):
            if characters:
                made = self.copied(made)
            for i in range(first, self.trie.with_at_most[min(characters, self.trie.longest)]):
                token = self.trie.fewest_first[i]
                made.bits[token >> 5] |= <uint32_t>1 << (token & 31)
            first = self.trie.with_at_most[min(characters, self.trie.longest)]
            work(self.meter, self.trie.words)
            self.kept(("within", characters), made)
        return made

    cdef IndependentMask copied(self, IndependentMask mask):
        """Return another mask with the same tokens."""
        cdef IndependentMask made = IndependentMask()
        made.bits = <uint32_t*>allotted(self.trie.words + BLOCK, 4)
        memcpy(made.bits, mask.bits, 4 * (<size_t>self.trie.words + BLOCK))
        return made

    # -- what is noted of a base ---------------------------------------------------------------------------------------

    cdef int list_long(self, IndependentMask base) except -1:
        """List the tokens that begin more than `all_long` characters, those of the most first."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const int32_t* shorter = self.trie.with_at_most
        cdef int i, j, characters, count = nodes[self.trie.count].first
        cdef Ints found
        cdef uint32_t* met = <uint32_t*>cleared(self.trie.words, 4)
        memset(&found, 0, sizeof(found))
        try:
            while count and base.all_long < self.trie.longest and count - shorter[base.all_long] > MOST_LONG:
                base.all_long += 1
            for i in range(base.exits.size):
                for j in range(nodes[base.exits.at[i]].first, nodes[base.exits.at[i] + 1].first):
                    self.note_long(base, self.trie.ids[j], base.exit_counts.at[i], met, &found)
            for i in range(0, base.counted.size, 2):
                self.note_long(base, base.counted.at[i], base.counted.at[i + 1], met, &found)
            characters = base.all_long
            for i in range(shorter[characters] if count else 0, count):
                while shorter[characters] <= i:
                    characters += 1
                self.note_long(base, self.trie.fewest_first[i], characters, met, &found)
            self.sort_long(base, &found)
        finally:
            released(met)
            ints_free(&found)
        return 0

    cdef int note_long(self, IndependentMask base, int token, int count, uint32_t* met, Ints* found) except -1:
        """Note a token of a base with the characters that it begins, if these are many and it was not met."""
        cdef uint32_t bit = <uint32_t>1 << (token & 31)
        if not met[token >> 5] & bit and base.bits[token >> 5] & bit and count > base.all_long:
            ints_add(found, token)
            ints_add(found, count)
        met[token >> 5] |= bit
        return 0

    cdef int sort_long(self, IndependentMask base, const Ints* found) except -1:
        """Put the pairs (token, count) in order."""
        cdef int i, at, below = 0
        cdef int32_t* places = <int32_t*>cleared(<size_t>base.most + 1, 4)
        try:
            ints_room(&base.longest_first, found.size)
            for i in range(0, found.size, 2):
                places[found.at[i + 1]] += 2
            for i in range(base.most, -1, -1):
                at = places[i]
                places[i] = below
                below += at
            for i in range(0, found.size, 2):
                at = places[found.at[i + 1]]
                places[found.at[i + 1]] = at + 2
                base.longest_first.at[at], base.longest_first.at[at + 1] = found.at[i], found.at[i + 1]
            base.longest_first.size = found.size
        finally:
            released(places)
        return 0


# ======================================================================================================================
# Exits of context-independent masks by the text before them, and the tokens that may complete a second text.
#
# Owns: nothing; what it finds belongs to the mask.  Borrows: the trie, the counter of the vocabulary's store, the
# meter.
# Invariant: `groups`, `twice` and `twice_keys` of a mask are set once, and each says all: whoever finds it need not
# look at the others.
# Plain twin: none of their own: masks are compared with those of `plain`, bit by bit, in `tests/laws.py`.
# ======================================================================================================================

cdef enum:
    SORTED_IN = 192       # ticks of an exit that is sorted in
    LOOKED_AT = 64      # and of one whose tokens are looked at


@final
cdef class Grouping:
    """Finds out about the exits of masks what few ask for."""

    def __cinit__(self, Builder builder):
        self.meter, self.trie, self.counter = builder.meter, builder.trie, builder.counter

    cdef int group(self, IndependentMask mask, object spelling, int node) except -1:
        """Sort the exits by the text before them; node: the mask is of what lies below it, -1: of all."""
        self.find_twice(mask, node)
        mask.groups = self.grouped(mask, spelling, node) if mask.base is None else self.inherited(mask, spelling)
        mask.weigh(self.counter, self.trie.words)
        return 0

    cdef dict grouped(self, IndependentMask mask, object spelling, int node):
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, at, depth, base = nodes[node].depth if node >= 0 else 0
        groups, tokens = {}, self.trie.texts
        work(self.meter, SORTED_IN * mask.exits.size)
        for i in range(mask.exits.size):
            at, depth = nodes[mask.exits.at[i]].first, nodes[mask.exits.at[i]].depth
            text = None if spelling.closing < 0 else self.trie.plain_text(self.trie.ids[at], base, depth - 1)
            if text is None:
                text = decode(spelling.quoting, spelling.opening + tokens[self.trie.ids[at]][base:depth])
            groups.setdefault(text, []).append(mask.exits.at[i])
        return groups

    cdef dict inherited(self, IndependentMask mask, object spelling):
        """Return the groups of the base of a mask, as far as it has the same exits."""
        cdef IndependentMask base = mask.base
        cdef int i
        if base.groups is None:
            self.group(base, spelling, -1)
        if mask.exits.size == base.exits.size:
            return base.groups
        left = {mask.exits.at[i] for i in range(mask.exits.size)}
        kept = {text: [exit for exit in exits if exit in left] for text, exits in base.groups.items()}
        return {text: exits for text, exits in kept.items() if exits}

    cdef int find_twice(self, IndependentMask mask, int node) except -1:
        """Find the tokens that leave the text and may complete a second one.

        PERF: of most masks nobody asks more: 700 exits of a string are sorted in 30 µs.
        """
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, at, exit_
        if mask.twice_keys is not None:
            return 0
        if mask.base is not None:
            self.find_twice(mask.base, -1)
            mask.twice, mask.twice_keys = mask.base.twice, mask.base.twice_keys
            return 0
        doubles, tokens = [], self.trie.texts
        work(self.meter, LOOKED_AT * mask.exits.size)
        for i in range(mask.exits.size):
            exit_ = mask.exits.at[i]
            for at in range(nodes[exit_].first, nodes[nodes[exit_].end].first):
                if self.trie.quotes(self.trie.ids[at], nodes[exit_].depth) > 1:
                    doubles.append(self.trie.ids[at])
        mask.twice = doubles
        mask.twice_keys = [token for token in doubles if has_keys(tokens[token])]    # last: whoever finds it finds both
        return 0


cdef bint has_keys(bytes text):
    behind = text.partition(b":")[2].partition(b",")[2]
    return behind.count(b'"') + behind.count(b"'") > 1


# ======================================================================================================================
# Context-independent masks: what tokens do inside a text, whatever stands around it.
#
# Such a mask depends only on the vocabulary and on the language at a position, so it is kept with the vocabulary and
# shared by all grammars, requests and stacks.
#
#     inside a string:  ab  stays;  a": 1  leaves at the trie node of  a"  and what follows decides about  : 1
#
# Owns: which mask belongs to which position of this kernel; `CountedMasks`, `Grouping`.  Borrows: the vocabulary's
# store, in which the masks are; the `Builder` that makes them; the automaton, positions and languages; the trie; the
# meter of work.
# Invariants: a mask in the store is never changed, except that `inside`, `groups` and `children` are added when they
# are first asked for; a key of the store says all that the mask depends on.
# Plain twin: none of their own: masks are compared with those of `plain`, bit by bit, in `tests/laws.py`.
# Source: the idea is XGrammar's (Dong et al. 2024); exits by trie node, parts and counts are ours.
# ======================================================================================================================

@final
cdef class IndependentMasks:
    """The context-independent masks that a kernel uses."""

    def __cinit__(self, Builder builder, store):
        self.builder, self.store, self.entries = builder, store, store.entries
        self.meter, self.trie, self.automaton = builder.meter, builder.trie, builder.automaton
        self.positions, self.languages = builder.positions, builder.positions.languages
        self.counted, self.grouping = CountedMasks(builder, store), Grouping(builder)
        self.parts, self.behind_keys = [], []

    def __dealloc__(self):
        map_free(&self.part_ids)
        map_free(&self.behind_ids)

    cdef int clear(self) except -1:
        """Forget which mask belongs to which position; the vocabulary keeps them."""
        map_free(&self.part_ids)
        map_free(&self.behind_ids)
        self.parts, self.behind_keys = [], []
        return 0

    cdef IndependentMask empty(self):
        """Return a mask without tokens."""
        cdef IndependentMask made = IndependentMask()
        made.bits = <uint32_t*>cleared(self.trie.words + BLOCK, 4)
        return made

    cdef IndependentMask kept(self, tuple key, IndependentMask mask):
        """Keep a mask with the vocabulary."""
        self.store.put(key, mask, mask.size)
        return mask

    cdef object language(self, int q):
        return self.languages.object_of(self.positions.at[q >> 1].language)

    cdef object spelling(self, int q):
        return self.positions.spelling_objects[self.positions.at[q >> 1].spelling]

    # -- whole texts, and their parts ----------------------------------------------------------------------------------

    cdef IndependentMask whole(self, int q):
        """Return what tokens do inside the text at position q."""
        cdef int known = map_get(&self.part_ids, q, -1)
        if known >= 0:
            return self.parts[known]
        cdef int filled = self.filled(q)
        self.parts.append(self.make_whole(q) if filled == q else self.whole(filled))
        map_put(&self.part_ids, q, -1, len(self.parts) - 1)
        return self.parts[len(self.parts) - 1]

    cdef int filled(self, int q) except -1:
        """Return the position of the same text but for the empty one, of a counted text without a quote behind it: no
        token is that, so they have one mask, as the blanks have that may come and those of which one was written."""
        cdef Position p = self.positions.at[q >> 1]
        cdef LanguageAt at = self.languages.at[p.language]
        if p.place != BODY or at.of < 0 or at.low > 0 or self.positions.spellings[p.spelling].closing >= 0:
            return q
        return 2 * self.positions.body(p.spelling, self.languages.repeated(at.of, 1, at.high)) + 1

    cdef IndependentMask make_whole(self, int q):
        """Return that of the vocabulary, or make it."""
        spelling, place = self.spelling(q), self.positions.at[q >> 1].place
        cdef bint simple = place == BODY and spelling.closing >= 0 and not spelling.octal
        counted = self.languages.counted(self.positions.at[q >> 1].language) if simple else None
        if counted is not None:
            return self.counted.mask(spelling, counted)
        ask(self.meter)
        language = self.language(q)
        key = (spelling, place, language.mask_key(self.trie.longest))
        found = stored(self.entries, key)
        if found is not None:
            return found
        if simple and getattr(language, "universal_over", None) is not None:
            return self.kept(key, self.universal(q, spelling))
        return self.kept(key, self.builder.build(self.walked(q, language, key[2]), -1, False))

    cdef int walked(self, int q, object language, object key) except -1:
        """Return the position to walk from for q's mask: that of its key, where the key is a language as well.

        They agree as far as a token reaches, and positions that differ in counts only lead to the same few states from
        there.
        """
        if self.positions.at[q >> 1].place != BODY or key is language or type(key) is not type(language):
            return q
        return 2 * self.positions.body(self.positions.at[q >> 1].spelling, self.languages.number(key)) + 1

    cdef IndependentMask part(self, int q, int node):
        """Return the mask below a trie node."""
        cdef IndependentMask found
        cdef int known = map_get(&self.part_ids, q, node)
        if known >= 0:
            return self.parts[known]
        ask(self.meter)
        language = self.language(q)
        key = (self.spelling(q), self.positions.at[q >> 1].place, language.mask_key(self.trie.longest), node)
        found = stored(self.entries, key)
        if found is None:
            found = self.kept(key, self.builder.build(self.walked(q, language, key[2]), node, False))
        self.parts.append(found)
        map_put(&self.part_ids, q, node, len(self.parts) - 1)
        return found

    # -- masks made from others ----------------------------------------------------------------------------------------

    cdef IndependentMask universal(self, int q, object spelling):
        """Return the mask of a prefix-universal language, such as "any text with a date in it".

        All tokens that stay inside a text over the class stay inside this one; only where it may end is looked up, on
        the ways to the ends of those texts.
        PERF: a tenth of the walk of all 128,000 tokens.
        """
        cdef IndependentMask made = self.empty()
        cdef IndependentMask base = self.counted.mask(spelling, (self.language(q).universal_over, 0, None))
        cdef int32_t* path
        made.next_bytes = <uint64_t*>allotted(4 * <size_t>base.exits.size + 1, 8)
        memcpy(made.bits, self.inside(base), 4 * self.trie.words)
        made.base = base
        work(self.meter, self.trie.words + 16 * base.ways.size)
        path = <int32_t*>allotted(<size_t>self.trie.longest + 2, 4)
        try:
            self.find_exits(made, q, path)
        finally:
            released(path)
        made.weigh(self.builder.counter, self.trie.words)
        return made

    cdef int find_exits(self, IndependentMask made, int q, int32_t* path) except -1:
        """Note which exits of its base a mask has."""
        cdef IndependentMask base = made.base
        cdef Automaton automaton = self.automaton
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, node, depth, ended = 0
        path[0] = automaton.enter(q, OUTSIDE, 0)
        for i in range(base.ways.size):
            node = base.ways.at[i]
            depth = nodes[node].depth
            path[depth] = automaton.next_state(path[depth - 1], nodes[node].byte)
            if ended < base.exits.size and base.exits.at[ended] == node:
                if automaton.states[path[depth]].flags & EXITS:
                    memcpy(made.next_bytes + 4 * made.exits.size, base.next_bytes + 4 * ended, 32)
                    ints_add(&made.exits, node)
                    ints_add(&made.base_exits, ended)
                    set_tokens(nodes, self.trie.ids, node, made.bits)
                ended += 1
        return 0

    # -- behind keys ---------------------------------------------------------------------------------------------------

    cdef IndependentMask behind_key(self, IndependentMask key, int entry, object name):
        """Return what tokens do that leave a key and go on with its colon and value: the same for all sets of written
        keys.

        With a name for colon and value it is the same for all grammars as well and kept with the vocabulary.
        Per exit of the key: the tokens that end before the value does, and the nodes where the value ends.
        """
        cdef IndependentMask made
        cdef int i, visited = 0, at_hand = map_get(&self.behind_ids, <size_t><void*>key, entry)
        cdef int32_t* path
        if at_hand >= 0:
            return self.behind_keys[at_hand][1]
        known = stored(self.entries, (id(key), name)) if name is not None else None
        if known is not None:
            return self.keep_behind(known, entry)
        made = IndependentMask()
        path = <int32_t*>allotted(<size_t>self.trie.longest + 2, 4)
        try:
            path[0] = self.automaton.enter(entry, OUTSIDE, 0)
            for i in range(key.exits.size):
                ints_add(&made.token_starts, made.tokens.size)
                ints_add(&made.exit_starts, made.exits.size)
                visited += self.walk_behind(made, key.exits.at[i], path)
        finally:
            released(path)
        work(self.meter, visited + self.trie.words)
        ints_add(&made.token_starts, made.tokens.size)
        ints_add(&made.exit_starts, made.exits.size)
        self.list_words(made)
        made.weigh(self.builder.counter, self.trie.words)
        if name is not None:
            self.store.put((id(key), name), (key, made), made.size)
        return self.keep_behind((key, made), entry)

    cdef int walk_behind(self, IndependentMask made, int exit_, int32_t* path) except -1:
        """Note the tokens below an exit that lead from path[0] to a live state, and where the value ends; return how
        many nodes were visited."""
        cdef Automaton automaton = self.automaton
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const int32_t* ids = self.trie.ids
        cdef int at = exit_ + 1, base = nodes[exit_].depth, j, depth, after, visited = 0
        for j in range(nodes[exit_].first, nodes[exit_ + 1].first):
            ints_add(&made.tokens, ids[j])
        while at < nodes[exit_].end:
            visited += 1
            depth = nodes[at].depth - base
            after = automaton.next_state(path[depth - 1], nodes[at].byte)
            if after == DEAD:
                at = nodes[at].end
                continue
            path[depth] = after
            for j in range(nodes[at].first, nodes[at + 1].first):
                ints_add(&made.tokens, ids[j])
            if automaton.states[after].flags & EXITS and nodes[at].end > at + 1:
                ints_add(&made.exits, at)
            at += 1
        return visited

    cdef IndependentMask keep_behind(self, tuple pair, int entry):
        self.behind_keys.append(pair)
        map_put(&self.behind_ids, <size_t><void*>pair[0], entry, len(self.behind_keys) - 1)
        return pair[1]

    cdef int list_words(self, IndependentMask made) except -1:
        """List the tokens of a part as pairs (word, its bits)."""
        cdef int i
        try:
            for i in range(made.tokens.size):
                self.builder.list_token(made, made.tokens.at[i])
        finally:
            self.builder.take_words(made)
        return 0

    # -- what is added to a mask when it is asked for ------------------------------------------------------------------

    cdef uint32_t* inside(self, IndependentMask mask) except NULL:
        """Return the tokens that stay inside, without those that end where they leave."""
        cdef int i
        if mask.inside == NULL:
            mask.inside = <uint32_t*>cleared(self.trie.words + BLOCK, 4)
            if mask.bits != NULL:
                memcpy(mask.inside, mask.bits, 4 * self.trie.words)
            for i in range(0, mask.words.size if mask.bits == NULL else 0, 2):
                mask.inside[mask.words.at[i]] = <uint32_t>mask.words.at[i + 1]
            for i in range(mask.exits.size):
                clear_tokens(self.trie.nodes, self.trie.ids, mask.exits.at[i], mask.inside)
            mask.weigh(self.builder.counter, self.trie.words)
        return mask.inside

    cdef int list_children(self, IndependentMask mask) except -1:
        """List the nodes just below exits by byte; PERF: of 379 below a JSON string's 84 are a comma or a bracket."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, child, at
        cdef int starts[257]
        cdef Ints* made = &mask.children
        if mask.base is not None and mask.base.exits.size == mask.exits.size:
            return self.inherit_children(mask)
        memset(starts, 0, sizeof(starts))
        for i in range(mask.exits.size):
            child = mask.exits.at[i] + 1
            while child < nodes[mask.exits.at[i]].end:
                starts[nodes[child].byte + 1] += 4
                child = nodes[child].end
        for i in range(256):
            starts[i + 1] += starts[i]
        ints_room(made, starts[256])
        for i in range(mask.exits.size):
            child = mask.exits.at[i] + 1
            while child < nodes[mask.exits.at[i]].end:
                at = starts[nodes[child].byte]
                made.at[at], made.at[at + 1], made.at[at + 2] = nodes[child].byte, i, child
                starts[nodes[child].byte] = at + 4
                child = nodes[child].end
        made.size = starts[255]     # which is where the last byte ends by now
        for i in range(0, made.size, 4):
            made.at[i + 3] = starts[made.at[i]]
        mask.weigh(self.builder.counter, self.trie.words)
        return work(self.meter, made.size // 4 * 3)

    cdef int inherit_children(self, IndependentMask mask) except -1:
        """Give a mask the children of its base, where it has all its exits."""
        cdef Ints* children = &mask.base.children
        if not children.size:
            self.list_children(mask.base)
        ints_room(&mask.children, children.size)
        memcpy(mask.children.at, children.at, 4 * <size_t>children.size)
        mask.children.size = children.size
        mask.weigh(self.builder.counter, self.trie.words)
        return work(self.meter, children.size // 4)

    cdef int group(self, IndependentMask mask, int q, int node) except -1:
        """Sort the exits of a mask, at the position q, below a trie node or -1, by the text before them."""
        return self.grouping.group(mask, self.spelling(q), node)


# ======================================================================================================================
# Walks of the token trie along automaton states: which tokens lead from a state to a live one.
#
# Where a walk enters a text it stops: the rest is a part of the text's context-independent mask.  So it only notes in
# the buffer's worklist what is still to be added, by kind:
#
#     texts ── a text, whole or from a trie node on: `Composer`, and `FiniteTexts` for a finite set
#     names ── a text of a finite set where any text can stand: `FiniteTexts`
#
# Owns: the path of the walk at hand; what is left of states in walks of `bare` texts.  Borrows: the trie; the
# automaton, which it adds states to; machines, stacks, positions and languages, to tell texts from the rest; the meter
# of work.  The buffer it is handed.
# Invariants: after `walk` and all that it has put off, the buffer has every token of the nodes [at, stop) that leads to
# a live state, and no other; the `light` state of a state has its configurations but for those that are put off.
# Plain twin: `plain.PlainKernel._walk`, which puts nothing off.
# ======================================================================================================================

cdef enum:
    SMALL_PART = 3           # trie nodes: below this a part costs more than the walk


@final
cdef class Walk:
    """Walks of the trie, one at a time."""

    def __cinit__(self, Automaton automaton):
        self.automaton, self.meter, self.trie = automaton, automaton.meter, automaton.trie
        self.machines, self.stacks, self.positions = automaton.machines, automaton.stacks, automaton.positions
        self.languages = automaton.positions.languages
        self.any_text = self.languages.number(ANY_TEXT)
        self.path = <int32_t*>allotted(2 * (<size_t>self.trie.longest + 2), 4)
        self.above = self.path + self.trie.longest + 2

    def __dealloc__(self):
        released(self.path)
        ints_free(&self.light)
        map_free(&self.bare_lights)

    cdef int clear(self) except -1:
        """Forget all states."""
        map_free(&self.bare_lights)
        return 0

    cdef int walk(self, MaskBuffer* buffer, int state, int at, int stop, int base) except -1:
        """Add the tokens of trie nodes [at, stop) that lead from `state` to a live state; `base` = depth of what lies
        above them.

        Invariant: path[d] = the state after the bytes of depth base + 1 … base + d of the node at hand, without what
        was put off.
        """
        cdef Automaton automaton = self.automaton
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const int32_t* ids = self.trie.ids
        cdef int32_t* path = self.path
        cdef int32_t* above = self.above
        cdef Row* row
        cdef int depth, after, light, visited = 0
        path[0], above[0] = state, self.wide_above(at, stop, base)
        while at < stop:
            visited += 1
            depth = nodes[at].depth - base
            row = automaton.states[path[depth - 1]].row
            if row == NULL:
                row = automaton.row(path[depth - 1])
            after = successor(row, nodes[at].byte)
            if after == UNKNOWN:
                after = automaton.step(path[depth - 1], nodes[at].byte)
            if after == DEAD:
                row = automaton.states[path[depth - 1]].row
                at = nodes[at].end if above[depth - 1] < 0 else self.beside(above[depth - 1], nodes[at].byte, row)
                continue
            buffer_node(buffer, nodes, ids, at)
            if nodes[at].end - at > SMALL_PART:
                light = automaton.states[after].light
                if light == UNKNOWN or self.bare:
                    light = self.light_state(after)
                if light != after:
                    self.put_off(buffer, after, at)
                    if light == DEAD:
                        at = nodes[at].end
                        continue
                    after = light
                above[depth] = at if is_wide(self.trie.branches, at) else -1
            else:
                above[depth] = -1
            path[depth] = after
            at += 1
        self.meter.ticks += visited
        return 0 if self.meter.ticks < SLICE else self.meter.flush()

    cdef int wide_above(self, int at, int stop, int base) noexcept:
        """Return the node whose children begin at `at`, if they are all that is walked, and it is wide; -1: else."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int node = at - 1
        if node < 0 or nodes[node].end != stop or nodes[node].depth != base or not is_wide(self.trie.branches, node):
            return -1
        return node

    cdef int beside(self, int node, int byte, const Row* row) noexcept:
        """Return the child of a wide trie node behind that with a byte which a row may not refuse; what stands behind
        all of them, if there is none."""
        cdef int found
        byte += 1
        while byte < 256:
            if row.block[byte >> 4] == self.automaton.dead_block:
                byte |= 15
            elif successor(row, byte) != DEAD:
                found = child_of(self.trie.branches, node, byte)
                if found >= 0:
                    return found
            byte += 1
        return self.trie.nodes[node].end

    cdef int walk_all(self, MaskBuffer* buffer, int state) except -1:
        """Walk the whole trie, but only below the bytes that the state reads."""
        cdef Row* row = self.automaton.row(state)
        cdef int block, byte, at
        for block in range(16):
            if row.block[block] == self.automaton.dead_block:
                continue
            for byte in range(16 * block, 16 * block + 16):
                at = self.trie.roots[byte]
                if at >= 0 and successor(row, byte) != DEAD:
                    self.walk(buffer, state, at, self.trie.nodes[at].end, 0)
        return 0

    cdef int below(self, MaskBuffer* buffer, int state, int node) except -1:
        """Add the tokens that end at a trie node, and those below it that lead from `state` there to a live one."""
        buffer_node(buffer, self.trie.nodes, self.trie.ids, node)
        return self.walk(buffer, state, node + 1, self.trie.nodes[node].end, self.trie.nodes[node].depth)

    cdef int enter(self, MaskBuffer* buffer, int state, int node) except -1:
        """As `below`, where a walk comes to the node: texts are put off."""
        cdef int light
        buffer_node(buffer, self.trie.nodes, self.trie.ids, node)
        if self.trie.nodes[node].end - node > SMALL_PART:
            light = self.light_state(state)
            if light != state:
                self.put_off(buffer, state, node)
            state = light
        if state == DEAD:
            return 0
        return self.walk(buffer, state, node + 1, self.trie.nodes[node].end, self.trie.nodes[node].depth)

    # -- texts, which are put off --------------------------------------------------------------------------------------

    cdef int light_state(self, int state) except -1:
        """Return the state without the texts that are put off (DEAD if nothing is left); computed once."""
        cdef int light
        if not self.bare:
            light = self.automaton.states[state].light
            if light == UNKNOWN:
                light = self.automaton.states[state].light = self.split(state)
            return light
        light = map_get(&self.bare_lights, state, 0)
        if light < 0:
            light = self.split(state)
            map_put(&self.bare_lights, state, 0, light)
        return light

    cdef int split(self, int state) except -1:
        cdef Automaton automaton = self.automaton
        cdef int i, q, stack, first, last
        first = automaton.states[state].first
        last = first + automaton.states[state].count
        self.light.size = 0
        for i in range(first, last, 2):
            q, stack = automaton.configurations.at[i], automaton.configurations.at[i + 1]
            if not self.is_heavy(q, stack):
                ints_add(&self.light, q)
                ints_add(&self.light, stack)
        return state if self.light.size == last - first else automaton.intern(&self.light, 0)

    cdef int put_off(self, MaskBuffer* buffer, int state, int node) except -1:
        """Note the text configurations of a state for later, at a trie node or at the start (-1)."""
        cdef State at = self.automaton.states[state]
        cdef int i, q, stack, cover = self.covering(state)
        for i in range(at.first, at.first + at.count, 2):
            q, stack = self.automaton.configurations.at[i], self.automaton.configurations.at[i + 1]
            if not self.is_heavy(q, stack):
                continue
            if cover >= 0 and self.is_covered(q, cover):
                ints_add(&buffer.todo.names, cover)
                ints_add(&buffer.todo.names, q)
                ints_add(&buffer.todo.names, stack)
                ints_add(&buffer.todo.names, node)
            else:
                ints_add(&buffer.todo.texts, q)
                ints_add(&buffer.todo.texts, stack)
                ints_add(&buffer.todo.texts, node)
        return 0

    cdef int covering(self, int state) except -2:
        """Return a configuration's position in any text that is recorded, such as a key without a name; -1 if there is
        none."""
        cdef State at = self.automaton.states[state]
        cdef Position* p
        cdef int i, q, stack
        for i in range(at.first, at.first + at.count, 2):
            q, stack = self.automaton.configurations.at[i], self.automaton.configurations.at[i + 1]
            if not q & 1 or stack == OUTSIDE:
                continue
            p = &self.positions.at[q >> 1]
            if (p.language == self.any_text and p.place == BODY and self.positions.spellings[p.spelling].closing >= 0
                    and self.stacks.records(stack)):
                return q
        return -1

    cdef bint is_covered(self, int q, int cover) noexcept:
        """Say whether all that stays inside the text at q, of a finite set, stays inside the text that covers it."""
        cdef Position* p = &self.positions.at[q >> 1]
        return (self.languages.at[p.language].texts >= 0 and p.place == BODY
                and p.spelling == self.positions.at[cover >> 1].spelling)

    cdef bint is_heavy(self, int q, int stack) except -1:
        """Say whether a configuration gets its mask in another way than by steps: between the characters of a text."""
        cdef Position* p
        cdef LanguageAt* language
        cdef int closing
        if not q & 1 or stack == OUTSIDE:
            return False
        p = &self.positions.at[q >> 1]
        language, closing = &self.languages.at[p.language], self.positions.spellings[p.spelling].closing
        if language.texts >= 0:
            return p.place == BODY and closing >= 0 and not self.stacks.records(stack)
        if language.labelled:
            return False
        if self.stacks.records(stack):
            return p.place == BODY and (closing >= 0 or not self.refuses(stack))
        return (p.place == BODY or p.place == ESCAPE) and not (self.bare and closing < 0)

    cdef bint is_bare(self, int q, int stack) noexcept:
        """Say whether a text has no end of its own, such as a quote, and nobody wants to know it."""
        cdef int closing = self.positions.spellings[self.positions.at[q >> 1].spelling].closing
        return closing < 0 and not self.stacks.records(stack)

    cdef bint refuses(self, int stack) noexcept:
        """Say whether what follows the text above a stack may refuse it, and cannot say beforehand which it refuses."""
        cdef const int32_t* frames = self.stacks.frames.at
        cdef int i
        for i in range(self.stacks.first.at[stack], self.stacks.first.at[stack + 1], 3):
            if frames[i + 1] >= 0 and self.machines.at[frames[i] >> 1].flags & (REFUSES | ALIKE) == REFUSES:
                return True
        return False


# ======================================================================================================================
# Masks of finite sets of texts (the names of an object, an enum): the trie of tokens against the sorted texts.
#
# PERF: a trie node costs two binary searches instead of a language, a position, a state and a row.  Only where a text
# ends, or a character is not written as itself in ASCII, is there a state, and steps from it.
#
# Owns: the ranges of texts on the way to the node at hand.  Borrows: the languages, in which the texts stand sorted;
# positions, trie, automaton; walks, for what lies behind a text; context-independent masks, for names where any text
# can stand; the meter of work.  The buffer it is handed.
# Invariant: the texts [lows[d], highs[d]) are those that agree with the first d bytes of the node at hand; they end
# there or go on with a character of [least[d], most[d]].
# Plain twin: `machine.LiteralSet` with `plain.TextAt`, one text position after another.
# ======================================================================================================================

cdef enum:
    SEARCHED = 8        # ticks of a trie node that is looked for among texts
    MET_GROUP = 32        # and of a group of exits
    WIDE = 16           # trie nodes below the end of a text from which on others may have walked there already


@final
cdef class FiniteTexts:
    """Adds finite sets of texts to buffers."""

    def __cinit__(self, Walk walk, IndependentMasks masks):
        self.walk, self.masks, self.meter, self.trie = walk, masks, walk.meter, walk.trie
        self.automaton, self.positions, self.languages = walk.automaton, walk.positions, walk.languages
        self.marks = <int32_t*>cleared(256, 4)
        self.lows = <int32_t*>allotted(5 * (<size_t>self.trie.longest + 2), 4)
        self.highs = self.lows + self.trie.longest + 2
        self.least, self.most = self.highs + self.trie.longest + 2, self.highs + 2 * (self.trie.longest + 2)
        self.above = self.most + self.trie.longest + 2

    def __dealloc__(self):
        released(self.marks)
        released(self.lows)

    cdef int drop(self) noexcept:
        """Leave nothing half done behind, where an operation ended by an exception."""
        memset(self.marks, 0, 4 * 256)
        return 0

    cdef int add(self, MaskBuffer* buffer, int q, int stack, int node) except -1:
        """Add the mask of a text of a finite set, whole or below a trie node."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, at, count
        cdef uint8_t possible[256]
        if node >= 0:
            return self.walk_texts(buffer, q, stack, node + 1, nodes[node].end, nodes[node].depth)
        count = self.first_bytes(q, possible)
        for i in range(count):
            at = self.trie.roots[possible[i]]
            self.walk_texts(buffer, q, stack, at, nodes[at].end, 0)
        return 0

    cdef int first_bytes(self, int q, uint8_t* possible) except -1:
        """List the bytes that may come next and that tokens begin with; return how many."""
        cdef int block, byte, count = 0
        self.positions.mark(q >> 1, self.marks)
        for block in range(0, 256, 16):
            if not memcmp(self.marks + block, self.automaton.dead_block, 64):
                continue
            for byte in range(block, block + 16):
                if self.marks[byte] and self.trie.roots[byte] >= 0:
                    possible[count] = byte
                    count += 1
            memset(self.marks + block, 0, 64)
        return count

    cdef int walk_texts(self, MaskBuffer* buffer, int q, int stack, int at, int stop, int base) except -1:
        """Add the tokens of trie nodes [at, stop); `base` = depth of what lies above them."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const int32_t* ids = self.trie.ids
        cdef Position p = self.positions.at[q >> 1]
        cdef LanguageAt start = self.languages.at[p.language]
        cdef int closing = self.positions.spellings[p.spelling].closing, raw = self.positions.spellings[p.spelling].raw
        cdef int depth, byte, low, high, behind, visited = 0
        cdef bint taken = self.is_taken(stack)
        self.enter(&start, 0, start.low, start.high)
        self.above[0] = at - 1 if base and is_wide(self.trie.branches, at - 1) else -1
        while at < stop:
            visited += SEARCHED
            depth, byte = nodes[at].depth - base, nodes[at].byte
            low, high = self.lows[depth - 1], self.highs[depth - 1]
            if byte == closing or byte == 0x5C or byte >= 0x80:
                if not self.may_leave(&start, byte == closing, byte == 0x5C, low, high, start.depth + depth - 1):
                    pass
                elif byte == closing and taken and nodes[at].end == at + 1:
                    buffer_node(buffer, nodes, ids, at)
                else:
                    behind = self.state_of(p.spelling, &start, low, high, start.depth + depth - 1, stack)
                    if byte == closing and nodes[at].end - at > WIDE:
                        self.put_off(buffer, self.automaton.next_state(behind, byte), at)
                    else:
                        self.walk.walk(buffer, behind, at, nodes[at].end, base + depth - 1)
                at = self.beside(&start, at, depth, closing)
                continue
            if (self.least[depth - 1] <= byte <= self.most[depth - 1] and holds(&self.positions.tables, raw, byte)
                    and self.languages.narrow(&start, start.depth + depth - 1, byte, byte, &low, &high)):
                buffer_node(buffer, nodes, ids, at)
                self.enter(&start, depth, low, high)
                self.above[depth] = at if is_wide(self.trie.branches, at) else -1
                at += 1
            else:
                at = self.beside(&start, at, depth, closing)
        self.meter.ticks += visited
        return 0

    cdef int beside(self, LanguageAt* start, int at, int depth, int closing) noexcept:
        """Return the node where the search goes on behind one of a depth, and behind all below it: the next child of
        the same node, but for those of a wide node that no text goes on with.
        """
        cdef int node = self.above[depth - 1], byte = self.trie.nodes[at].byte, read = start.depth + depth - 1
        cdef int next_byte, low, high, found = -1
        cdef const LiteralTexts* entry = &self.languages.sets[start.texts]
        if node < 0 or self.most[depth - 1] >= 0x80 or byte >= 0x80 or closing >= 0x80:
            return self.trie.nodes[at].end
        while found < 0:
            next_byte = 0x80
            if byte < self.most[depth - 1]:
                low, high = self.lows[depth - 1], self.highs[depth - 1]
                self.languages.narrow(start, read, max(byte + 1, self.least[depth - 1]), 0x7F, &low, &high)
                next_byte = entry.points[entry.offset[low] + read]
            if byte < 0x5C < next_byte:
                next_byte = 0x5C
            if byte < closing < next_byte:
                next_byte = closing
            if next_byte == 0x80:
                return self.trie.nodes[node].end
            byte = next_byte
            found = child_of(self.trie.branches, node, byte)
        return found

    cdef void enter(self, const LanguageAt* start, int depth, int low, int high) noexcept:
        """Note the texts that are left at a depth, and between which characters they go on.

        PERF: of a trie node's children most are none of these, and below the first bytes one text is left: a tenth of
        the instructions of a mask where only names may come.
        """
        cdef const LiteralTexts* entry = &self.languages.sets[start.texts]
        cdef int read = start.depth + depth, first = low
        self.lows[depth], self.highs[depth] = low, high
        if entry.offset[first + 1] - entry.offset[first] == read:
            first += 1
        if first < high:
            self.least[depth] = entry.points[entry.offset[first] + read]
            self.most[depth] = entry.points[entry.offset[high - 1] + read]
        else:
            self.least[depth], self.most[depth] = 1, 0

    cdef bint may_leave(self, LanguageAt* start, bint closes, bint escapes, int low, int high, int depth) noexcept:
        """Say whether the texts [low, high) may go on with their end, an escape, or else a character beyond ASCII."""
        if closes:
            return self.languages.ends(start, depth, low)
        return escapes or self.languages.narrow(start, depth, 0x80, 0x10FFFF, &low, &high)

    cdef bint is_taken(self, int stack) noexcept:
        """Say that what follows a text, if anything asks, refuses no text of the set: then its end is always live."""
        cdef const int32_t* frames = self.walk.stacks.frames.at
        cdef const Machine* machines = self.walk.machines.at
        cdef int i
        for i in range(self.walk.stacks.first.at[stack], self.walk.stacks.first.at[stack + 1], 3):
            if frames[i] >= 0 and not frames[i] & 1:
                if machines[frames[i] >> 1].flags & DISPATCH and machines[frames[i] >> 1].kind != NAMED:
                    return False
        return True

    cdef int state_of(self, int spelling, LanguageAt* start, int low, int high, int depth, int stack) except -1:
        """Return the state in which the texts [low, high) of a set are left, which agree on `depth` characters."""
        cdef int language = self.languages.literals(start.texts, start.excluded, low, high, depth)
        return self.automaton.enter(2 * self.positions.body(spelling, language) + 1, stack, 0)

    # -- names where any text can stand --------------------------------------------------------------------------------

    cdef int add_names(self, MaskBuffer* buffer, int cover, int q, int stack, int node) except -1:
        """Add the tokens that complete a text of a finite set where any text can stand, at position `cover`: all others
        are made for that one.

        PERF: in objects with other keys, where most keys are being written; no walk, and as a rule one name or none can
        be completed.
        """
        cdef IndependentMask mask = self.masks.part(cover, node) if node >= 0 else self.masks.whole(cover)
        cdef LanguageAt start = self.languages.at[self.positions.at[q >> 1].language]
        cdef const int32_t* offered = self.languages.excluded[start.excluded]   # for each index the next one that is
        cdef int i
        cdef tuple texts = self.languages.set_objects[start.texts]
        cdef dict groups
        if mask.groups is None:
            self.masks.group(mask, cover, node)
        groups = mask.groups
        work(self.meter, MET_GROUP * min(len(groups), start.high - start.low))
        if start.high - start.low <= len(groups):
            i = offered[start.low]
            while i < start.high:
                self.leave_name(buffer, groups.get(texts[i][start.depth:]), &start, i, q, stack)
                i = offered[i + 1]
            return 0
        so_far = texts[start.low][:start.depth]
        for end, exits in groups.items():
            text = so_far + end
            i = bisect_left(texts, text, start.low, start.high)
            if i < start.high and offered[i] == i and texts[i] == text:
                self.leave_name(buffer, exits, &start, i, q, stack)
        return 0

    cdef int leave_name(self, MaskBuffer* buffer, list exits, LanguageAt* start, int i, int q, int stack) except -1:
        """Add the tokens that complete the i-th text of a set at some exits, if any, and go on behind it."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int exit_, behind = UNKNOWN, spelling = self.positions.at[q >> 1].spelling
        if exits is None:
            return 0
        for exit_ in exits:
            if nodes[exit_].end == exit_ + 1:   # PERF: as nearly always, and the state behind costs some microseconds
                buffer_node(buffer, nodes, self.trie.ids, exit_)
                continue
            if behind == UNKNOWN:
                behind = self.state_of(spelling, start, i, i + 1, self.languages.length(start.texts, i), stack)
                behind = self.automaton.next_state(behind, self.positions.spellings[spelling].closing)
            self.put_off(buffer, behind, exit_)
        return 0

    cdef int put_off(self, MaskBuffer* buffer, int state, int node) except -1:
        """Have the tokens below a trie node added that lead from a state there to a live one."""
        if state != DEAD:
            ints_add(&buffer.todo.states, state)
            ints_add(&buffer.todo.states, node)
        return 0


# ======================================================================================================================
# Masks that are added to one another time and again: their union, kept as one.
#
# Where a key may be written, each mask begins with what stays inside a key, and with what goes on behind it to its
# value: the two are the same for all states of an object, and for all objects with such values.  So the second time
# that two masks come together their union is made, and becomes the base of the mask; only what else is in it is listed
# in blocks.
#
#     inside a key ─┐
#                   ├─ union ─ base of a mask, and a few blocks: of what goes on behind the value
#     behind a key ─┘
#
# Owns: which unions this kernel uses.  Borrows: the vocabulary's store, in which they are kept, the meter of work.  The
# buffer it is handed.
# Invariants: a union is never changed; behind `add` the buffer has what it had, and the tokens of the mask.
# Plain twin: `add_apart`, which adds word by word, as all is added that was not met before.
# PERF: two hundred blocks a mask less, a third of what the mask of a key takes.
# ======================================================================================================================

cdef enum:
    FEW = 16            # numbers of pairs (word, bits) that are as soon added, and words of a mask
    MOST = 64           # unions of a kernel: one megabyte
    FOUR = 4            # blocks that are looked at together


@final
cdef class Unions:
    """Adds whole masks to a buffer, and knows which of them came together before."""

    def __cinit__(self, Meter meter, store, Counter counter, int words):
        self.meter, self.store, self.entries, self.counter, self.words = meter, store, store.entries, counter, words
        self.masks = []

    def __dealloc__(self):
        map_free(&self.ids)

    cdef int clear(self) except -1:
        """Forget which unions are used; the vocabulary keeps them."""
        map_free(&self.ids)
        self.masks = []
        return 0

    cdef int add(self, MaskBuffer* buffer, IndependentMask mask, const uint32_t* bits) except -1:
        """Add the bits of a mask that lives as long as the kernel, all its tokens or those inside; or its pairs (word,
        bits), where `bits` is NULL."""
        cdef IndependentMask both
        cdef const void* what = bits if bits != NULL else <const void*>mask.words.at
        cdef int i, pairs = mask.words.size if bits == NULL or bits == mask.bits else 0
        if what == NULL:
            return 0
        for i in range(buffer.held_count):
            if buffer.held[i] == what:
                return 0
        if buffer.base == NULL and bits != NULL:
            buffer.base, buffer.base_of = bits, <void*>mask
        elif buffer.base == NULL or 0 < pairs < FEW:
            buffer_words(buffer, &mask.words)
            return 0
        elif self.words > FEW and (
                both := self.find(<IndependentMask>buffer.base_of, buffer.base, mask, bits)) is not None:
            buffer.base, buffer.base_of = both.bits, <void*>both
        else:
            self.add_apart(buffer, mask, bits)
        if buffer.held_count < HELD:
            buffer.held[buffer.held_count] = what
            buffer.held_count += 1
        return 0

    cdef int add_apart(self, MaskBuffer* buffer, IndependentMask mask, const uint32_t* bits) except -1:
        """Add a mask to a buffer that has a base, word by word, those of the smaller one where these are listed."""
        cdef IndependentMask base = <IndependentMask>buffer.base_of
        cdef int block = 0
        if bits == NULL or bits == mask.bits and mask.words.size:
            buffer_words(buffer, &mask.words)
        elif buffer.base == base.bits and base.words.size:
            buffer_words(buffer, &base.words)
            buffer.base, buffer.base_of = bits, <void*>mask
        else:
            if mask.exits.size > base.exits.size:       # PERF: then more of the other is there than the other way round
                bits, buffer.base, buffer.base_of = buffer.base, bits, <void*>mask
            while block < buffer.blocks:
                if block % FOUR == 0 and block + FOUR <= buffer.blocks and not has_more(
                        bits + BLOCK * block, buffer.base + BLOCK * block):
                    block += FOUR
                else:
                    add_block(buffer, block, bits)
                    block += 1
        return 0

    cdef IndependentMask find(self, IndependentMask owner, const uint32_t* base, IndependentMask added,
                              const uint32_t* bits):
        """Return the union of two masks if they came together before, in any kernel of the vocabulary; else None.

        What the store knows of two masks holds them, so that their addresses stay theirs.
        """
        cdef size_t one = <size_t>base, other = <size_t>(bits if bits != NULL else <const void*>added.words.at)
        cdef IndependentMask both
        cdef int known = map_get(&self.ids, one, other)
        if known >= 0:
            return self.masks[known]
        if len(self.masks) == MOST:
            return None
        key = ("union", one, other)
        met = stored(self.entries, key)
        if met is None:
            self.store.put(key, (owner, added, None), 0)
            return None
        both = met[2]
        if both is None:
            both = self.made(base, bits, &added.words)
            self.store.put(key, (owner, added, both), both.size)
        self.masks.append(both)
        map_put(&self.ids, one, other, len(self.masks) - 1)
        return both

    cdef IndependentMask made(self, const uint32_t* base, const uint32_t* bits, const Ints* pairs):
        """Return the union of two masks."""
        cdef IndependentMask both = IndependentMask()
        cdef int i
        both.bits = <uint32_t*>cleared(self.words + BLOCK, 4)
        work(self.meter, self.words)
        memcpy(both.bits, base, 4 * self.words)
        for i in range(self.words if bits != NULL else 0):
            both.bits[i] |= bits[i]
        for i in range(0, pairs.size if bits == NULL else 0, 2):
            both.bits[pairs.at[i]] |= <uint32_t>pairs.at[i + 1]
        both.weigh(self.counter, self.words)
        return both


cdef inline bint has_more(const uint32_t* bits, const uint32_t* base) noexcept nogil:
    """Say whether four blocks of a mask have a token that those of a base have not.  PERF: most have none, as of two
    texts with bounds of their own, and what is not touched need not be packed."""
    cdef int i
    cdef uint64_t found = 0
    cdef uint64_t ours[2 * FOUR]
    cdef uint64_t theirs[2 * FOUR]
    memcpy(ours, bits, sizeof(ours))
    memcpy(theirs, base, sizeof(theirs))
    for i in range(2 * FOUR):
        found |= ours[i] & ~theirs[i]
    return found != 0


cdef inline void add_block(MaskBuffer* buffer, int block, const uint32_t* bits) noexcept nogil:
    """Add a block of a mask, padded to whole blocks, to a buffer that has a base."""
    cdef uint64_t half[2]
    cdef uint64_t base[2]
    memcpy(half, bits + BLOCK * block, 4 * BLOCK)
    memcpy(base, buffer.base + BLOCK * block, 4 * BLOCK)
    if half[0] & ~base[0] | half[1] & ~base[1]:
        memcpy(base, buffer.bits + BLOCK * block, 4 * BLOCK)
        half[0] |= base[0]
        half[1] |= base[1]
        memcpy(buffer.bits + BLOCK * block, half, 4 * BLOCK)
        buffer.touched[block] |= 1
