# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Inner masks: what tokens do inside a text, whatever stands around it.

An inner mask depends only on the vocabulary and on the language at a position, so it is kept with the vocabulary and
shared by all grammars, requests and stacks.  Tokens that leave the text are found again through the trie node where
they leave. A *part* is an inner mask below one trie node: a token that enters the text in its middle, such as ` "San`,
needs only that. Counted texts (`C{2,20}`) share the inner mask of the uncounted one: a token that begins too many
characters falls out.
Source: the idea of context-independent masks is XGrammar's (Dong et al. 2024); exits by trie node, parts and counts are
ours.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport free
from constrained.engine.memory._memory cimport allotted, cleared
from libc.string cimport memcpy, memset
from constrained.engine.kernel._inner_walk cimport Inner, InnerWalks, set_tokens
from constrained.engine.kernel._machines cimport EXITS, OUTSIDE
from constrained.engine.memory._meter cimport ask, work
from constrained.engine.kernel._packed cimport BLOCK
from constrained.engine.kernel._tables cimport Ints, Map, ints_add, map_get, map_put
from constrained.engine.kernel._text cimport BODY

from constrained.engine.twin.spelling import decode
from constrained.regex.guarded import endless

cdef enum:
    DEAD = 0


cdef class Inners(InnerWalks):
    """Builds inner masks and keeps them; the base of `Kernel`, split off for the reader's sake only."""

    def __cinit__(self, *args, **options):
        self.inners, self.parts_known, self.behind_keys = {}, [], []

    def __dealloc__(self):
        free(self.part_ids.at)
        free(self.behind_ids.at)

    cdef Inner inner(self, int q):
        """Return what tokens do inside the text at position q, from the vocabulary's cache where its language is known
        there."""
        cdef Inner found
        known = self.inners.get(q)
        if known is not None:
            return known
        ask(self.meter)
        place = self.texts.positions[q >> 1].place
        language = self.texts.language_object(self.texts.positions[q >> 1].language)
        spelling = self.texts.spelling_objects[self.texts.positions[q >> 1].spelling]
        counted = None
        if place == BODY and spelling.closing >= 0 and not spelling.octal:
            counted = getattr(language, "counted", None)
        if counted is not None:
            found = self.counted_inner(q, spelling, counted)
        else:
            key = (spelling, place, language.mask_key(self.longest))
            found = self.store.get(key)
            if found is None:
                simple = place == BODY and spelling.closing >= 0 and not spelling.octal
                if simple and getattr(language, "lasting", None) is not None:
                    found = self.lasting_inner(q, spelling)
                else:
                    found = self.build(self.walked(q, language, key[2]), -1, False)
                self.store.put(key, found, found.size)
        self.inners[q] = found
        return found

    cdef int walked(self, int q, object language, object key) except -1:
        """Return the position to walk from for q's inner mask: that of its key, where the key is a language as well.

        They agree as far as a token reaches, and positions that differ in counts only lead to the same few states from
        there.
        """
        if self.texts.positions[q >> 1].place != BODY or key is language or type(key) is not type(language):
            return q
        return 2 * self.texts.body(self.texts.positions[q >> 1].spelling, self.texts.language(key)) + 1

    cdef Inner part(self, int q, int node):
        """Return the inner mask below a trie node."""
        cdef Inner found
        cdef int known = map_get(&self.part_ids, q, node)
        if known >= 0:
            return self.parts_known[known]
        ask(self.meter)
        language = self.texts.language_object(self.texts.positions[q >> 1].language)
        spelling = self.texts.spelling_objects[self.texts.positions[q >> 1].spelling]
        key = (spelling, self.texts.positions[q >> 1].place, language.mask_key(self.longest), node)
        found = self.store.get(key)
        if found is None:
            found = self.build(self.walked(q, language, key[2]), node, False)
            self.store.put(key, found, found.size)
        self.parts_known.append(found)
        map_put(&self.part_ids, q, node, len(self.parts_known) - 1)
        return found

    cdef Inner lasting_inner(self, int q, object spelling):
        """Return the inner mask of a language that forbids no character of a class, such as "any text with a date in
        it".

        All tokens that stay inside a text over the class stay inside this one; only where it may end is looked up, on
        the ways to the ends of those texts.
        PERF: a tenth of the walk of all 128,000 tokens.
        """
        language = self.texts.language_object(self.texts.positions[q >> 1].language)
        cdef Inner base = self.counted_inner(q, spelling, (language.lasting, 0, None)), made = Inner()
        cdef int32_t* path
        cdef int i, node, depth, ended = 0
        made.bits = <uint32_t*>cleared(self.words + BLOCK, 4)
        made.next_bytes = <uint64_t*>allotted(4 * <size_t>base.exits.size + 1, 8)
        memcpy(made.bits, self.inside(base), 4 * self.words)
        made.base = base
        work(self.meter, self.words + 16 * base.ways.size)
        path = <int32_t*>allotted(<size_t>self.longest + 2, 4)
        try:
            ints_add(&self.work, q)
            ints_add(&self.work, OUTSIDE)
            path[0] = self.close(0)
            for i in range(base.ways.size):
                node = base.ways.at[i]
                depth = self.trie[node].depth
                path[depth] = self.next_state(path[depth - 1], self.trie[node].byte)
                if ended < base.exits.size and base.exits.at[ended] == node:
                    if self.states[path[depth]].flags & EXITS:
                        memcpy(made.next_bytes + 4 * made.exits.size, base.next_bytes + 4 * ended, 32)
                        ints_add(&made.exits, node)
                        ints_add(&made.base_exits, ended)
                        set_tokens(self.trie, self.ids, node, made.bits)
                    ended += 1
        finally:
            free(path)
        made.weigh(self.counter, self.words)
        return made

    cdef Inner counted_inner(self, int q, spelling, counted):
        """Return the inner mask of C{low,high} from that of C*: tokens with too many characters fall out, exits outside
        the bounds too."""
        cdef Inner base, level
        characters, low, high = counted
        key = (spelling, "counted", characters)
        found = self.store.get(key)
        if found is None:
            body = self.texts.body(self.texts.spelling(spelling), self.texts.language(endless(characters)))
            base = self.build(2 * body + 1, -1, True)
            self.store.put(key, base, base.size)
        else:
            base = found
        cdef int least = min(low, base.most + 1), most = base.most if high is None else min(high, base.most)
        if least == 0 and most == base.most:
            return base
        key = (spelling, "counted", characters, least, most)
        found = self.store.get(key)
        if found is None:
            level = self.limited(base, least, most)
            self.store.put(key, level, level.size)
            return level
        return found

    cdef Inner limited(self, Inner base, int least, int most):
        cdef Inner level = Inner(), within = self.within(most)
        cdef int i, token
        level.bits = <uint32_t*>cleared(self.words + BLOCK, 4)
        work(self.meter, self.words + base.counted.size + 2 * base.exits.size)
        for i in range(self.words):
            level.bits[i] = base.bits[i] & within.bits[i]
        for i in range(0, base.counted.size, 2):
            token = base.counted.at[i]
            if base.counted.at[i + 1] <= most:
                level.bits[token >> 5] |= <uint32_t>1 << (token & 31)
            else:
                level.bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))
        for i in range(base.exits.size):
            if least <= base.exit_counts.at[i] <= most:
                ints_add(&level.exits, base.exits.at[i])
                set_tokens(self.trie, self.ids, base.exits.at[i], level.bits)
            else:
                self.clear_tokens(base.exits.at[i], level.bits)
        self.note_words(level)
        self.note_bytes(level)
        level.weigh(self.counter, self.words)
        return level

    cdef Inner within(self, int most):
        """Return the tokens of no more than `most` characters; bits of ids without a text mean nothing."""
        cdef Inner found
        cdef int i, token, count, kept
        key = ("within", most)
        known = self.store.get(key)
        if known is not None:
            return known
        found = Inner()
        found.bits = <uint32_t*>cleared(self.words + BLOCK, 4)
        work(self.meter, self.words)
        count, kept = self.trie[self.nodes].first, self.with_at_most[min(most, self.longest)]
        if 2 * kept < count:
            for i in range(kept):
                token = self.fewest_first[i]
                found.bits[token >> 5] |= <uint32_t>1 << (token & 31)
        else:
            memset(found.bits, 0xFF, 4 * self.words)
            for i in range(kept, count):
                token = self.fewest_first[i]
                found.bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))
        found.weigh(self.counter, self.words)
        self.store.put(key, found, found.size)
        return found

    cdef Inner behind_key(self, Inner key, int entry, object name):
        """Return what tokens do that leave a key and go on with its colon and value: the same for all sets of written
        keys.

        With a name for colon and value it is the same for all grammars as well and kept with the vocabulary.
        Per exit of the key: the tokens that end before the value does, and the nodes where the value ends.
        """
        cdef Inner made
        cdef int i, at, j, depth, base, after, visited = 0
        cdef int32_t* path
        cdef int at_hand = map_get(&self.behind_ids, <size_t><void*>key, entry)
        if at_hand >= 0:
            return self.behind_keys[at_hand][1]
        known = self.store.get((id(key), name)) if name is not None else None
        if known is not None:
            return self.keep_behind(known, entry)
        made = Inner()
        ints_add(&self.work, entry)
        ints_add(&self.work, OUTSIDE)
        after = self.close(0)
        path = <int32_t*>allotted(<size_t>self.longest + 2, 4)
        path[0] = after
        try:
            for i in range(key.exits.size):
                ints_add(&made.token_starts, made.tokens.size)
                ints_add(&made.exit_starts, made.exits.size)
                base, at = self.trie[key.exits.at[i]].depth, key.exits.at[i]
                for j in range(self.trie[at].first, self.trie[at + 1].first):
                    ints_add(&made.tokens, self.ids[j])
                at += 1
                while at < self.trie[key.exits.at[i]].end:
                    visited += 1
                    depth = self.trie[at].depth - base
                    after = self.next_state(path[depth - 1], self.trie[at].byte)
                    if after == DEAD:
                        at = self.trie[at].end
                        continue
                    path[depth] = after
                    for j in range(self.trie[at].first, self.trie[at + 1].first):
                        ints_add(&made.tokens, self.ids[j])
                    if self.states[after].flags & EXITS and self.trie[at].end > at + 1:
                        ints_add(&made.exits, at)
                    at += 1
        finally:
            free(path)
        work(self.meter, visited + self.words)
        ints_add(&made.token_starts, made.tokens.size)
        ints_add(&made.exit_starts, made.exits.size)
        self.list_words(made)
        made.weigh(self.counter, self.words)
        if name is not None:
            self.store.put((id(key), name), (key, made), made.size)
        return self.keep_behind((key, made), entry)

    cdef Inner keep_behind(self, tuple pair, int entry):
        self.behind_keys.append(pair)
        map_put(&self.behind_ids, <size_t><void*>pair[0], entry, len(self.behind_keys) - 1)
        return pair[1]

    cdef int list_words(self, Inner made) except -1:
        """List the tokens of a part as pairs (word, its bits)."""
        cdef int i, word
        cdef uint32_t* bits = <uint32_t*>cleared(self.words, 4)
        for i in range(made.tokens.size):
            bits[made.tokens.at[i] >> 5] |= <uint32_t>1 << (made.tokens.at[i] & 31)
        try:
            for word in range(self.words):
                if bits[word]:
                    ints_add(&made.words, word)
                    ints_add(&made.words, <int32_t>bits[word])
        finally:
            free(bits)
        return 0

    cdef uint32_t* inside(self, Inner inner) except NULL:
        """Return the tokens that stay inside, without those that end where they leave."""
        cdef int i
        if inner.inside == NULL:
            inner.inside = <uint32_t*>cleared(self.words + BLOCK, 4)
            memcpy(inner.inside, inner.bits, 4 * self.words)
            for i in range(inner.exits.size):
                self.clear_tokens(inner.exits.at[i], inner.inside)
            inner.weigh(self.counter, self.words)
        return inner.inside

    cdef int group(self, Inner inner, int q, int node) except -1:
        """Sort the exits by the text before them, and find the tokens that may complete a second text."""
        cdef int i, at, exit_, base = self.trie[node].depth if node >= 0 else 0
        if inner.base is not None:
            if inner.base.groups is None:
                self.group(inner.base, q, -1)
            groups, inner.twice, inner.twice_keys = inner.base.groups, inner.base.twice, inner.base.twice_keys
            if inner.exits.size < inner.base.exits.size:
                left = {inner.exits.at[i] for i in range(inner.exits.size)}
                kept = {text: [exit for exit in exits if exit in left] for text, exits in groups.items()}
                groups = {text: exits for text, exits in kept.items() if exits}
            inner.groups = groups       # last: whoever finds it finds all three
            return 0
        groups, doubles, double_keys = {}, [], []
        spelling = self.texts.spelling_objects[self.texts.positions[q >> 1].spelling]
        tokens = self.vocabulary_tokens
        work(self.meter, 256 * inner.exits.size)
        for i in range(inner.exits.size):
            exit_ = inner.exits.at[i]
            below = [self.ids[at] for at in range(self.trie[exit_].first, self.trie[self.trie[exit_].end].first)]
            text = decode(spelling.surface, spelling.opening + tokens[below[0]][base:self.trie[exit_].depth])
            groups.setdefault(text, []).append(exit_)
            twice = [token for token in below if quotes(tokens[token]) > 2]
            doubles += twice
            double_keys += [token for token in twice if quotes(tokens[token].partition(b":")[2].partition(b",")[2]) > 1]
        inner.twice, inner.twice_keys = doubles, double_keys
        inner.groups = groups
        inner.weigh(self.counter, self.words)
        return 0


cdef int quotes(bytes text):
    return text.count(b'"') + text.count(b"'")
