# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Inner masks in the making: walks of the token trie that know nothing outside a text.  Which are made when is in
`_inner`."""
cimport cython
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport free
from constrained.engine.memory._memory cimport allotted, cleared
from libc.string cimport memset
from constrained.engine.kernel._automaton cimport Automaton, known_successor
from constrained.engine.kernel._machines cimport EXITS, OUTSIDE, UNKNOWN
from constrained.engine.memory._meter cimport work
from constrained.engine.kernel._packed cimport BLOCK
from constrained.engine.kernel._languages cimport LanguageAt
from constrained.engine.kernel._tables cimport Ints, ints_add
from constrained.engine.kernel._text cimport BODY, Position, Spelling

from constrained.engine.tokens.byte_classes import BITS, LEADS, MALFORMED

cdef enum:
    DEAD = 0
    FEW = 64            # exits that are not worth a look at the whole vocabulary
    GROUPED = 160       # bytes of an exit in a table of texts, with its text
    SMALL = 4           # trie nodes: below this a look at the kinds of their bytes costs more than the walk

cdef uint64_t ALL_KINDS = 0xFFFFFFFFFFFFFFFF
cdef uint64_t MALFORMED_KIND = <uint64_t>1 << MALFORMED


cdef class Counter:
    """How much memory inner masks take; see `mask_store.MaskStore`."""


@cython.no_gc
cdef class Inner:
    """The inner mask of one language; see the fields in _inner_walk.pxd.

    Invariant: no chain of references leads from an inner mask to itself, and the counter is there when it goes: the
    collector stays away.
    """

    def __dealloc__(self):
        if self.counter is not None:
            self.counter.bytes -= self.size
        free(self.bits)
        free(self.inside)
        free(self.words.at)
        free(self.tokens.at)
        free(self.exits.at)
        free(self.exit_counts.at)
        free(self.counted.at)
        free(self.base_exits.at)
        free(self.ways.at)
        free(self.next_bytes)
        free(self.token_starts.at)
        free(self.exit_starts.at)

    cdef int weigh(self, Counter counter, int words) except -1:
        """Count the memory it takes, as it is now; `words` are those of a mask."""
        cdef long size = sizeof(Inner) + 32 * <long>self.exits.size
        size += 4 * (
            <long>self.words.room + self.tokens.room + self.exits.room + self.exit_counts.room + self.counted.room)
        size += 4 * (<long>self.base_exits.room + self.ways.room + self.token_starts.room + self.exit_starts.room)
        size += 4 * (words + BLOCK) * ((self.bits != NULL) + (self.inside != NULL))
        if self.groups is not None and self.base is None:
            size += GROUPED * <long>self.exits.size
        counter.bytes += size - self.size
        self.counter, self.size = counter, size
        return 0


cdef class InnerWalks(Automaton):
    """Builds inner masks; the base of `Inners`, split off for the reader's sake only."""

    def __cinit__(self, *args, **options):
        cdef int i = 0
        for i in range(256):
            self.kinds[i] = BITS[i]
        i = 0
        for low, high in LEADS:
            self.leads[2 * i], self.leads[2 * i + 1], self.lead_bytes[i] = low, high, chr(low).encode()[0]
            i += 1
        self.lead_count = i

    cdef Inner build(self, int q, int node, bint counts):
        """Walk the trie, or the part below a node, from position q with nothing known outside the text.

        With counts, q is the loop of a language C*: a character has ended whenever the walk is back at q, or where a
        guarded language has seen the beginning of a marker.  (Not so where an escape ends with the character behind it,
        as octal ones do: such spellings do without counts.)
        """
        cdef Inner made = Inner()
        cdef int32_t* path
        cdef int32_t* characters
        cdef int32_t* trail
        cdef int at = node + 1, stop = self.trie[node].end if node >= 0 else self.nodes
        cdef int base = self.trie[node].depth if node >= 0 else 0
        cdef int depth, after, begin, way, visited = 0
        cdef bint ended = False
        ints_add(&self.work, q)
        ints_add(&self.work, OUTSIDE)
        begin = self.close(0)
        if node < 0:
            made.bits = <uint32_t*>cleared(self.words + BLOCK, 4)
        path = <int32_t*>allotted(3 * (<size_t>self.longest + 2), 4)
        characters, trail = path + self.longest + 2, path + 2 * (self.longest + 2)
        path[0] = begin
        memset(characters, 0, 4 * (self.longest + 2))
        try:
            while at < stop:
                visited += 1
                depth = self.trie[at].depth - base
                after = known_successor(&self.states[path[depth - 1]], self.trie[at].byte)
                if after == UNKNOWN:
                    after = self.step(path[depth - 1], self.trie[at].byte)
                if after == DEAD:
                    at = self.trie[at].end
                    continue
                path[depth] = after
                if node < 0:
                    set_tokens(self.trie, self.ids, at, made.bits)
                if counts:
                    trail[depth] = at
                    if self.states[after].flags & EXITS:
                        for way in range(1, depth + 1):
                            if not made.ways.size or trail[way] > made.ways.at[made.ways.size - 1]:
                                ints_add(&made.ways, trail[way])
                    ended = after == begin or self.between(after)
                    characters[depth] = characters[depth - 1] + ended
                if node >= 0 or counts or self.states[after].flags & EXITS:
                    self.keep(made, node, at, self.states[after].flags & EXITS, characters[depth],
                              characters[depth] + (not ended) if counts else -1)
                if self.trie[at].end - at > SMALL and not self.below[at] & self.leaving_state(after):
                    self.keep_all(made, node, at, counts, characters[depth])
                    at = self.trie[at].end
                    continue
                at += 1
        finally:
            free(path)
        work(self.meter, visited + 8 * made.exits.size + (self.words if node < 0 else 0))
        if (node < 0 and made.exits.size > FEW
                and self.texts.spellings[self.texts.positions[q >> 1].spelling].closing < 0):
            self.drop_covered(made)
        if node < 0:
            self.note_words(made)
        self.note_bytes(made)
        made.weigh(self.counter, self.words)
        return made

    cdef bint between(self, int state) noexcept:
        """Say whether a state is one position between two characters of a text."""
        cdef int q = self.configs.at[self.states[state].first]
        return self.states[state].count == 2 and q & 1 and self.texts.positions[q >> 1].place == BODY

    cdef uint64_t leaving_state(self, int state) except 0:
        """Return the kinds of bytes that do not lead back to a state of a single position, all kinds for other
        states."""
        cdef int q
        if self.states[state].count != 2:
            return ALL_KINDS
        q = self.configs.at[self.states[state].first]
        return self.leaving(q >> 1) if q & 1 else ALL_KINDS

    cdef uint64_t leaving(self, int position) except 0:
        """Return the kinds of bytes that do not lead from a position back to it; of a kind, the bytes of a whole
        character.

        Invariant: after well-formed characters of other kinds, and after a part of one, tokens are where they were, or
        in the middle of a character that leads there.
        """
        cdef Position p = self.texts.positions[position]
        cdef LanguageAt* at = &self.texts.languages[p.language]
        cdef Spelling* spelling = &self.texts.spellings[p.spelling]
        cdef int i, byte
        cdef int32_t* lead
        cdef bint back[128]
        cdef uint64_t found
        if p.place != BODY or at.texts >= 0:
            return ALL_KINDS
        if at.leaving and at.spelling == p.spelling:
            return at.leaving
        if at.first < 0:
            self.texts.expand(p.language)
            at = &self.texts.languages[p.language]
        memset(back, 0, sizeof(back))
        found = ALL_KINDS
        for i in range(at.first, at.last):
            if self.texts.edge_target.at[i] == p.language:
                found = MALFORMED_KIND
                for byte in range(self.texts.edge_low.at[i], min(self.texts.edge_high.at[i], 127) + 1):
                    back[byte] = byte != spelling.closing and self.texts.in_table(spelling.raw, byte)
        back[0x5C] = back[0x5C] and not spelling.escapes
        if found != ALL_KINDS:
            for byte in range(128):
                if not back[byte]:
                    found |= self.kinds[byte]
            for i in range(self.lead_count):
                lead = &self.leads[2 * i]
                if self.texts.probe(p.language, lead[0], lead[1], spelling.raw, 0) != p.language:
                    found |= self.kinds[self.lead_bytes[i]]
        if at.spelling == p.spelling:
            at.leaving = found
        return found

    cdef int keep_all(self, Inner made, int node, int at, bint counts, int characters) except -1:
        """Note all tokens below a trie node, none of which leaves the text; `characters` have ended at the node."""
        cdef int i, token, first = self.trie[at + 1].first, last = self.trie[self.trie[at].end].first
        if node >= 0:
            for i in range(first, last):
                ints_add(&made.tokens, self.ids[i])
            return 0
        for i in range(first, last):
            token = self.ids[i]
            made.bits[token >> 5] |= <uint32_t>1 << (token & 31)
        if counts and first < last:
            token = self.token_first[self.ids[first]]
            for i in range(token, token + self.trie[at].depth):
                characters -= self.token_bytes[i] & 0xC0 != 0x80
            for i in range(first, last):
                self.count(made, i, self.characters[i] + characters)
        return 0

    cdef int count(self, Inner made, int i, int begun) except -1:
        """Note how many characters of a text the i-th token of the trie begins, if not as many as it has."""
        made.most = max(made.most, begun)
        if begun != self.characters[i]:
            ints_add(&made.counted, self.ids[i])
            ints_add(&made.counted, begun)
        return 0

    cdef int note_words(self, Inner inner) except -1:
        """List the words of a whole inner mask where most have no bit, so that it is added without a look at all of
        them."""
        cdef int i, count = 0
        for i in range(self.words):
            count += inner.bits[i] != 0
        if 8 * count <= self.words:
            for i in range(self.words):
                if inner.bits[i]:
                    ints_add(&inner.words, i)
                    ints_add(&inner.words, <int32_t>inner.bits[i])
        return 0

    cdef int note_bytes(self, Inner inner) except -1:
        """Note for every exit which bytes tokens go on with, so that a walk behind it starts only where it can get
        anywhere."""
        cdef int i, node, child
        cdef uint64_t* here
        inner.next_bytes = <uint64_t*>cleared(4 * <size_t>inner.exits.size + 1, 8)
        for i in range(inner.exits.size):
            node, here = inner.exits.at[i], inner.next_bytes + 4 * i
            child = node + 1
            while child < self.trie[node].end:
                here[self.trie[child].byte >> 6] |= <uint64_t>1 << (self.trie[child].byte & 63)
                child = self.trie[child].end
        return 0

    cdef int keep(self, Inner made, int node, int at, bint leaves, int count, int begun) except -1:
        """Note more of a trie node than that its tokens are allowed: whether they leave the text there, how many
        characters they begin."""
        cdef int i
        if leaves:
            ints_add(&made.exits, at)
            ints_add(&made.exit_counts, count)
            made.most = max(made.most, count)
        elif node >= 0:
            for i in range(self.trie[at].first, self.trie[at + 1].first):
                ints_add(&made.tokens, self.ids[i])
        elif begun >= 0:
            for i in range(self.trie[at].first, self.trie[at + 1].first):
                self.count(made, i, begun)
        return 0

    cdef void clear_tokens(self, int node, uint32_t* bits) noexcept:
        cdef int i, token
        for i in range(self.trie[node].first, self.trie[node + 1].first):
            token = self.ids[i]
            bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))

    cdef int drop_covered(self, Inner inner) except -1:
        """Forget the exits of a bare text below which every token stays inside as well: all of them, for free text."""
        cdef int i, kept = 0, node, below = 0
        cdef int32_t* outside = NULL
        for i in range(inner.exits.size):
            node = inner.exits.at[i]
            below += self.trie[self.trie[node].end].first - self.trie[node + 1].first
        # tokens, some of them many times: then one look at all of them is less
        if below > self.trie[self.nodes].first:
            outside = self.count_outside(inner)
        for i in range(inner.exits.size):
            node = inner.exits.at[i]
            if self.leaves_below(inner, node, outside):
                inner.exits.at[kept] = node
                kept += 1
        inner.exits.size = kept
        free(outside)
        return 0

    cdef int32_t* count_outside(self, Inner inner) except NULL:
        """Return how many of the first i tokens of the trie do not stay inside, for every i."""
        cdef int i, token
        cdef int32_t* outside = <int32_t*>allotted(<size_t>self.trie[self.nodes].first + 1, 4)
        outside[0] = 0
        for i in range(self.trie[self.nodes].first):
            token = self.ids[i]
            outside[i + 1] = outside[i] + 1 - (inner.bits[token >> 5] >> (token & 31) & 1)
        return outside

    cdef bint leaves_below(self, Inner inner, int node, const int32_t* outside) noexcept:
        """Say whether some token below a trie node does not stay inside."""
        cdef int i, first = self.trie[node + 1].first, last = self.trie[self.trie[node].end].first
        if outside != NULL:
            return outside[last] > outside[first]
        for i in range(first, last):
            if not inner.bits[self.ids[i] >> 5] >> (self.ids[i] & 31) & 1:
                return True
        return False
