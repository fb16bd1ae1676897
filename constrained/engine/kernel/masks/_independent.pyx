# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Context-independent masks: what tokens do inside a text, whatever stands around it.

Such a mask depends only on the vocabulary and on the language at a position, so it is kept with the vocabulary and
shared by all grammars, requests and stacks.

    inside a string:  ab  stays;  a": 1  leaves at the trie node of  a"  and what follows decides about  : 1

Owns: which mask belongs to which position of this kernel; `CountedMasks`, `Grouping`.  Borrows: the vocabulary's store,
in which the masks are; the `Builder` that makes them; the automaton, positions and languages; the trie; the meter of
work.
Invariants: a mask in the store is never changed, except that `inside`, `groups` and `children` are added when they are
first asked for; a key of the store says all that the mask depends on.
Plain twin: none of their own: masks are compared with those of `twin.automaton`, bit by bit, in `tests/laws.py`.
Source: the idea is XGrammar's (Dong et al. 2024); exits by trie node, parts and counts are ours.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from constrained.engine.memory._memory cimport allotted, cleared, released
from constrained.engine.memory._meter cimport Meter, ask, work
from constrained.engine.kernel._tables cimport Ints, Map, ints_add, ints_room, map_free, map_get, map_put
from constrained.engine.kernel._trie cimport TrieNode, Trie, clear_tokens, set_tokens
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD
from constrained.engine.kernel.automaton._closure cimport EXITS
from constrained.engine.kernel.automaton._stacks cimport OUTSIDE
from constrained.engine.kernel.masks._building cimport Builder, IndependentMask, stored
from constrained.engine.kernel.masks._counted cimport CountedMasks
from constrained.engine.kernel.masks._grouping cimport Grouping
from constrained.engine.kernel.masks._mask_buffer cimport BLOCK
from constrained.engine.kernel.masks._number_masks cimport NumberMasks
from constrained.engine.kernel.texts._languages cimport LanguageAt, Languages
from constrained.engine.kernel.texts._positions cimport BODY, Position, Positions, Spelling


@final
cdef class IndependentMasks:
    """The context-independent masks that a kernel uses."""

    def __cinit__(self, Builder builder, store):
        self.builder, self.store, self.entries = builder, store, store.entries
        self.meter, self.trie, self.automaton = builder.meter, builder.trie, builder.automaton
        self.positions, self.languages = builder.positions, builder.positions.languages
        self.counted, self.grouping = CountedMasks(builder, store), Grouping(builder)
        self.numbers = NumberMasks(builder, store)
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
        number = self.numbers.key(language) if self.bare(q) else None
        key = (spelling, place, language.mask_key(self.trie.longest) if number is None else number)
        found = stored(self.entries, key)
        if found is not None:
            return found
        if simple and getattr(language, "universal_over", None) is not None:
            return self.kept(key, self.universal(q, spelling))
        found = None if number is None else self.numbers.built(number)
        if found is None:
            found = self.builder.build(self.walked(q, language, key[2]), -1, False)
        return self.kept(key, found)

    cdef bint bare(self, int q) noexcept:
        """Say whether a text stands there whose bytes are its characters, without quotes."""
        cdef Position* p = &self.positions.at[q >> 1]
        cdef Spelling* spelling = &self.positions.spellings[p.spelling]
        return p.place == BODY and spelling.closing < 0 and not spelling.escapes

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
