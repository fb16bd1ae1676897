# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Masks of counted texts, `C{2,20}`, made from the one of `C*`: tokens that begin too many characters fall out.

    C*        ab  abc  abc"  abc": 1       the base, with the characters that each token begins
    C{0,2}    ab                           a level: what is too long falls out, an exit behind too few or too many too

All levels are of one base, so that to make one costs what falls out: of 128,000 tokens 2,000 have more than 12
characters.  Lower levels are those of the base that are among the tokens of so few characters, which are kept as well.

Owns: nothing but what it borrows: the vocabulary's store, in which the masks are; the `Builder` that makes bases;
positions and languages; the trie; the meter of work.
Invariant: a level is, bit by bit and exit by exit, what a walk of the trie from its position would find.
Plain twin: that walk; masks are compared with those of `twin.automaton` in `tests/laws.py`, and levels with walks in
`tests/test_counted_masks.py`.
Source: ours.
"""
from cython cimport final
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset
from constrained.engine.memory._memory cimport allotted, cleared, released
from constrained.engine.memory._meter cimport Meter, ask, work
from constrained.engine.kernel._tables cimport Ints, ints_add, ints_extend, ints_free, ints_room
from constrained.engine.kernel._trie cimport TrieNode, Trie, clear_tokens, set_tokens
from constrained.engine.kernel.masks._building cimport Builder, IndependentMask, stored
from constrained.engine.kernel.masks._mask_buffer cimport BLOCK
from constrained.engine.kernel.texts._languages cimport Languages
from constrained.engine.kernel.texts._positions cimport Positions

from constrained.regex.guarded import endless

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
