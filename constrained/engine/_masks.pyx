# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The mask of an automaton state, composed: a walk of the trie, inner masks of texts, walks behind the texts' ends.

What tokens do inside a text depends only on the vocabulary and the text's language.  That part, the *inner* mask, is kept with the
vocabulary; tokens that leave the text are walked from the state behind it, each from the trie node where it leaves.
"""
from libc.stdint cimport int32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memset
from constrained.engine._automaton cimport Row, successor
from constrained.engine._inner cimport Inners
from constrained.engine._inner_walk cimport Inner
from constrained.engine._languages cimport LanguageAt
from constrained.engine._machines cimport FINAL, OUTSIDE, UNKNOWN
from constrained.engine._objects cimport OTHER
from constrained.engine._packed cimport draft_has, draft_node, draft_token, draft_tokens, draft_whole, draft_words
from constrained.engine._tables cimport Ints, Map, ints_add, map_get, map_put
from constrained.engine._text cimport BODY, BODY_LESS, ESCAPE, Position, Spelling

from bisect import bisect_left
from itertools import islice

from constrained.regex import ANY_TEXT

cdef enum:
    DEAD = 0
    SMALL = 3           # trie nodes: below this a part costs more than the walk
    RECENT = 32


cdef class Masks(Inners):
    """Fills masks; the base of `Kernel`, split off for the reader's sake only."""

    def __cinit__(self, vocabulary, *args, **options):
        self.ranges_path = <int32_t*>malloc(8 * (vocabulary.longest + 2))
        if self.ranges_path == NULL:
            raise MemoryError
        self.begun_texts, self.ordered_texts = {}, {}
        self.any_text = self.texts.language(ANY_TEXT)

    def __dealloc__(self):
        free(self.ranges_path)
        free(self.deferred.at)
        free(self.doubtful.at)
        free(self.names.at)
        free(self.apart.at)
        free(self.generic.at)
        free(self.draft.bits)
        free(self.draft.touched)
        free(self.draft.records.at)
        free(self.draft.removed.at)

    cdef int fill_draft(self, int state) except -1:
        """Draft the mask of a state."""
        cdef int i, token, q, stack, node, light = self.states[state].light
        self.doubtful.size = 0
        if light == UNKNOWN:
            light = self.split(state)
        if light != state:
            self.put_off(state, -1)
        if light != DEAD:
            self.walk_all(light)
        while self.deferred.size or self.names.size:    # and what is put off meanwhile
            if self.names.size:
                self.names.size -= 4
                i = self.names.size
                self.add_names(self.names.at[i], self.names.at[i + 1], self.names.at[i + 2], self.names.at[i + 3])
                continue
            self.deferred.size -= 3
            q, stack, node = (
                self.deferred.at[self.deferred.size], self.deferred.at[self.deferred.size + 1], self.deferred.at[self.deferred.size + 2])
            if self.texts.languages[self.texts.positions[q >> 1].language].texts >= 0:
                self.add_literals(q, stack, node)
            else:
                self.add_text(q, stack, node)
        for i in range(self.doubtful.size):
            token = self.doubtful.at[i]
            if draft_has(&self.draft, token) and self.after_token(state, token) == DEAD:
                ints_add(&self.draft.removed, token)
        self.add_named(state)
        if self.states[state].flags & FINAL:
            for token in self.stop:
                draft_token(&self.draft, token)
        return 0

    cdef int add_named(self, int state) except -1:
        """Add the special tokens that may come next."""
        cdef int i, j, q
        for i in range(self.states[state].first, self.states[state].first + self.states[state].count, 2):
            q = self.configs.at[i]
            if not q & 1:
                for j in range(self.machines[q >> 1].tokens, self.machines[q >> 1].tokens_end, 2):
                    draft_token(&self.draft, self.tokens.at[j])
        return 0

    # -- walks ------------------------------------------------------------------------------------------------------------

    cdef int walk(self, int state, int at, int stop, int base) except -1:
        """Set the tokens of trie nodes [at, stop) that lead from `state` to a live state; `base` = depth of what lies above them.

        Where a walk enters a text, the rest is a part of the text's inner mask: it is put off to `deferred`.
        Invariant: path[d] = the state after the bytes of depth base + 1 … base + d of the node at hand, without what was put off.
        """
        cdef int32_t* path = self.path
        cdef Row* row
        cdef int depth, after, last, light
        path[0] = state
        while at < stop:
            depth = self.trie[at].depth - base
            row = self.states[path[depth - 1]].row
            if row == NULL:
                row = self.row(path[depth - 1])
            after = successor(row, self.trie[at].byte)
            if after == UNKNOWN:
                after = self.step(path[depth - 1], self.trie[at].byte)
            if after == DEAD:
                at = self.trie[at].end
                continue
            draft_node(&self.draft, self.trie, self.ids, at)
            if self.trie[at].end - at > SMALL:
                light = self.states[after].light
                if light == UNKNOWN:
                    light = self.split(after)
                if light != after:
                    self.put_off(after, at)
                    if light == DEAD:
                        at = self.trie[at].end
                        continue
                    after = light
            path[depth] = after
            at += 1
        return 0

    cdef int walk_all(self, int state) except -1:
        """Walk the whole trie, but only below the bytes that the state reads."""
        cdef Row* row = self.row(state)
        cdef int block, byte, at
        for block in range(16):
            if row.block[block] == self.dead_block:
                continue
            for byte in range(16 * block, 16 * block + 16):
                at = self.roots[byte]
                if at >= 0 and successor(row, byte) != DEAD:
                    self.walk(state, at, self.trie[at].end, 0)
        return 0

    cdef int split(self, int state) except -1:
        """Return the state without its text configurations (DEAD if nothing is left), kept as its `light`."""
        cdef int i, light, first = self.states[state].first, last = first + self.states[state].count
        self.closed.size = 0
        for i in range(first, last, 2):
            if not self.is_heavy(self.configs.at[i], self.configs.at[i + 1]):
                ints_add(&self.closed, self.configs.at[i])
                ints_add(&self.closed, self.configs.at[i + 1])
        if self.closed.size == last - first:
            light = state
        else:
            light = self.intern_state(0)
        self.states[state].light = light
        return light

    cdef int put_off(self, int state, int node) except -1:
        """Note the text configurations of a state for later, at a trie node or at the start (-1)."""
        cdef int i, q, cover = self.covering(state)
        for i in range(self.states[state].first, self.states[state].first + self.states[state].count, 2):
            q = self.configs.at[i]
            if not self.is_heavy(q, self.configs.at[i + 1]):
                continue
            if cover >= 0 and self.is_covered(q, cover):
                ints_add(&self.names, cover)
                ints_add(&self.names, q)
                ints_add(&self.names, self.configs.at[i + 1])
                ints_add(&self.names, node)
            else:
                ints_add(&self.deferred, q)
                ints_add(&self.deferred, self.configs.at[i + 1])
                ints_add(&self.deferred, node)
        return 0

    cdef int covering(self, int state) except -2:
        """Return a configuration's position in any text that is recorded, such as a key without a name; -1 if there is none."""
        cdef int i, q
        for i in range(self.states[state].first, self.states[state].first + self.states[state].count, 2):
            q = self.configs.at[i]
            if (q & 1 and self.texts.positions[q >> 1].language == self.any_text and self.texts.positions[q >> 1].place == BODY
                    and self.configs.at[i + 1] != OUTSIDE and self.texts.spellings[self.texts.positions[q >> 1].spelling].closing >= 0
                    and self.records(self.configs.at[i + 1])):
                return q
        return -1

    cdef bint is_covered(self, int q, int cover) noexcept:
        """Say whether all that stays inside the text at q, of a finite set, stays inside the text that covers it."""
        cdef Position* p = &self.texts.positions[q >> 1]
        return self.texts.languages[p.language].texts >= 0 and p.place == BODY and p.spelling == self.texts.positions[cover >> 1].spelling

    cdef bint is_heavy(self, int q, int stack) except -1:
        """Say whether a configuration gets its mask in another way than by steps: between the characters of a text."""
        cdef int place
        cdef Spelling* spelling
        if not q & 1 or stack == OUTSIDE:
            return False
        place = self.texts.positions[q >> 1].place
        spelling = &self.texts.spellings[self.texts.positions[q >> 1].spelling]
        if self.texts.languages[self.texts.positions[q >> 1].language].texts >= 0:
            return place == BODY and spelling.closing >= 0 and not spelling.tag_safe and not self.records(stack)
        if self.records(stack):
            return place <= BODY_LESS and (spelling.closing >= 0 or not self.refuses(stack))
        return place <= BODY_LESS or place == ESCAPE

    # -- finite sets of texts ---------------------------------------------------------------------------------------------

    cdef int add_literals(self, int q, int stack, int node) except -1:
        """Add the mask of a text of a finite set, whole or below a trie node: the trie of tokens against the sorted texts.

        PERF: a node costs two binary searches instead of a language, a position, a state and a row.  Only where a text ends, or a character
        is not written as itself in ASCII, is there a state, and steps from it.
        """
        cdef int byte, block, count = 0
        cdef uint8_t possible[256]
        if node >= 0:
            return self.walk_literals(q, stack, node + 1, self.trie[node].end, self.trie[node].depth)
        self.texts.mark(q >> 1, self.marks)
        for block in range(16):     # all at once: a walk marks rows of its own
            if not memcmp(self.marks + 16 * block, self.dead_block, 64):
                continue
            for byte in range(16 * block, 16 * block + 16):
                if self.marks[byte] and self.roots[byte] >= 0:
                    possible[count] = byte
                    count += 1
            memset(self.marks + 16 * block, 0, 64)
        for byte in possible[:count]:
            self.walk_literals(q, stack, self.roots[byte], self.trie[self.roots[byte]].end, 0)
        return 0

    cdef int walk_literals(self, int q, int stack, int at, int stop, int base) except -1:
        """Add the tokens of trie nodes [at, stop); `base` = depth of what lies above them."""
        cdef Position p = self.texts.positions[q >> 1]
        cdef LanguageAt start = self.texts.languages[p.language]
        cdef int closing = self.texts.spellings[p.spelling].closing, raw = self.texts.spellings[p.spelling].raw
        cdef int depth, byte, low, high, behind
        cdef int32_t* lows = self.ranges_path
        cdef int32_t* highs = self.ranges_path + self.longest + 2
        lows[0], highs[0] = start.low, start.high
        while at < stop:
            depth, byte = self.trie[at].depth - base, self.trie[at].byte
            low, high = lows[depth - 1], highs[depth - 1]
            if byte == closing or byte == 0x5C or byte >= 0x80:
                if self.leaves_literals(&start, byte == closing, byte == 0x5C, low, high, start.depth + depth - 1):
                    behind = self.literal_state(p.spelling, &start, low, high, start.depth + depth - 1, stack)
                    self.walk(behind, at, self.trie[at].end, base + depth - 1)
                at = self.trie[at].end
                continue
            if self.texts.in_table(raw, byte) and self.texts.narrow(&start, start.depth + depth - 1, byte, byte, &low, &high):
                draft_node(&self.draft, self.trie, self.ids, at)
                lows[depth], highs[depth] = low, high
                at += 1
            else:
                at = self.trie[at].end
        return 0

    cdef int add_names(self, int cover, int q, int stack, int node) except -1:
        """Add the tokens that complete a text of a finite set where any text can stand: all others are drafted for that one.

        PERF: in objects with other keys, where most keys are being written; no walk, and as a rule one name or none can be completed.
        """
        cdef Inner inner = self.part(cover, node) if node >= 0 else self.inner(cover)
        cdef LanguageAt start = self.texts.languages[self.texts.positions[q >> 1].language]
        cdef const int32_t* offered = self.texts.excluded[start.excluded]   # for each index the next one that is
        cdef int i
        cdef tuple texts = self.texts.set_objects[start.texts]
        cdef dict groups
        if inner.groups is None:
            self.group(inner, cover, node)
        groups = inner.groups
        if start.high - start.low <= len(groups):
            i = offered[start.low]
            while i < start.high:
                self.leave_name(groups.get(texts[i][start.depth:]), &start, i, q, stack)
                i = offered[i + 1]
            return 0
        so_far = texts[start.low][:start.depth]
        for end, exits in groups.items():
            text = so_far + end
            i = bisect_left(texts, text, start.low, start.high)
            if i < start.high and offered[i] == i and texts[i] == text:
                self.leave_name(exits, &start, i, q, stack)
        return 0

    cdef int leave_name(self, list exits, LanguageAt* start, int i, int q, int stack) except -1:
        """Add the tokens that complete the i-th text of a set at some exits, if any, and go on behind it."""
        cdef int exit_, behind, spelling = self.texts.positions[q >> 1].spelling
        if exits is None:
            return 0
        behind = self.literal_state(spelling, start, i, i + 1, self.texts.length(start.texts, i), stack)
        behind = self.next_state(behind, self.texts.spellings[spelling].closing)
        for exit_ in exits:
            draft_node(&self.draft, self.trie, self.ids, exit_)
            self.walk(behind, exit_ + 1, self.trie[exit_].end, self.trie[exit_].depth)
        return 0

    cdef bint leaves_literals(self, LanguageAt* start, bint closes, bint escapes, int low, int high, int depth) noexcept:
        """Say whether the texts [low, high) may go on with their end, an escape, or else a character beyond ASCII."""
        if closes:
            return self.texts.ends(start, depth, low)
        return escapes or self.texts.narrow(start, depth, 0x80, 0x10FFFF, &low, &high)

    cdef int literal_state(self, int spelling, LanguageAt* start, int low, int high, int depth, int stack) except -1:
        """Return the state in which the texts [low, high) of a set are left, which agree on `depth` characters."""
        cdef int language = self.texts.literal_language(start.texts, start.excluded, low, high, depth)
        ints_add(&self.work, 2 * self.texts.body(spelling, language) + 1)
        ints_add(&self.work, stack)
        return self.close(0)

    # -- texts and what lies behind them ------------------------------------------------------------------------------------

    cdef int add_text(self, int q, int stack, int node) except -1:
        """Add the mask of one text configuration, whole or below a trie node: its inner mask, and what lies behind it."""
        cdef Inner inner = self.part(q, node) if node >= 0 else self.inner(q)
        cdef bint recording = self.records(stack)
        cdef int behind, closing = self.texts.spellings[self.texts.positions[q >> 1].spelling].closing
        if node >= 0:
            draft_tokens(&self.draft, inner.tokens.at, inner.tokens.size)
        else:
            if recording and closing >= 0:
                draft_whole(&self.draft, self.inside(inner), NULL)
            else:
                draft_whole(&self.draft, inner.bits, &inner.words if inner.words.size else NULL)
        behind = self.popped_state(stack)
        if behind != DEAD:
            self.apart.size = 0
            self.leave_all(inner, behind)
        if recording and closing >= 0:
            self.leave_recorded(inner, q, stack, node)
        elif recording:
            self.leave_bare(inner)
        return 0

    cdef int leave_bare(self, Inner inner) except -1:
        """As `leave_recorded` for a text without an end of its own, none of which is refused: tokens that go on behind it are tried."""
        cdef int i, j, node
        for i in range(inner.exits.size):
            node = inner.exits.at[i]
            draft_node(&self.draft, self.trie, self.ids, node)
            for j in range(self.trie[node + 1].first, self.trie[self.trie[node].end].first):
                if not draft_has(&self.draft, self.ids[j]):
                    draft_token(&self.draft, self.ids[j])
                    ints_add(&self.doubtful, self.ids[j])
        return 0

    cdef int leave_all(self, Inner inner, int behind) except -1:
        """Set the tokens that leave a text at any exit that is not `apart` and go on in state `behind`."""
        cdef int i, block, node
        cdef uint64_t follow[4]
        cdef uint64_t* below
        cdef Row* row
        memset(follow, 0, sizeof(follow))
        if self.states[behind].count:
            row = self.row(behind)
            for block in range(16):
                if row.block[block] == self.dead_block:
                    continue
                for i in range(16 * block, 16 * block + 16):
                    if successor(row, i) != DEAD:
                        follow[i >> 6] |= <uint64_t>1 << (i & 63)
        for i in range(inner.exits.size):
            node, below = inner.exits.at[i], inner.next_bytes + 4 * i
            if self.is_apart(node):
                continue
            draft_node(&self.draft, self.trie, self.ids, node)
            if (below[0] & follow[0]) | (below[1] & follow[1]) | (below[2] & follow[2]) | (below[3] & follow[3]):
                self.walk(behind, node + 1, self.trie[node].end, self.trie[node].depth)
        return 0

    cdef int popped_state(self, int stack) except -1:
        """Return the state in which the text above `stack` has just ended; frames that record are left to `leave_recorded`."""
        cdef int i, known = map_get(&self.popped, stack, 0), flags = 0
        if known >= 0:
            return known
        for i in range(self.stack_first.at[stack], self.stack_first.at[stack + 1], 3):
            if self.frames.at[i] == -1:
                flags = FINAL
            elif self.frames.at[i] >= 0 and self.frames.at[i + 1] < 0:
                ints_add(&self.work, self.frames.at[i])
                ints_add(&self.work, self.frames.at[i + 2])
        known = self.close(flags) if self.work.size or flags else DEAD
        map_put(&self.popped, stack, 0, known)
        return known

    cdef int leave_recorded(self, Inner inner, int q, int stack, int node) except -1:
        """As `leave`, where what follows depends on the text: ordinary texts have one state behind them, special ones their own."""
        cdef int behind, frame, after, parent, target, exit_
        cdef bint native
        if inner.groups is None:
            self.group(inner, q, node)
        for frame in range(self.stack_first.at[stack], self.stack_first.at[stack + 1], 3):
            after, parent = self.frames.at[frame], self.frames.at[frame + 2]
            if self.frames.at[frame + 1] < 0:
                continue
            native = self.machines[after >> 1].kind == OTHER
            behind = DEAD if native else self.generic_state(after, parent)
            specials = self.special_exits(inner, q, after, self.frames.at[frame + 1], behind == DEAD and not native)
            self.apart.size = 0
            for exit_ in specials:
                ints_add(&self.apart, exit_)
            if native:
                self.leave_key(inner, after, parent)
            elif behind != DEAD:
                self.leave_all(inner, behind)
            for exit_, text in specials.items():
                target = self.after_text(after, text, parent)
                if target != DEAD:
                    draft_node(&self.draft, self.trie, self.ids, exit_)
                    self.walk(target, exit_ + 1, self.trie[exit_].end, self.trie[exit_].depth)
            for token in inner.twice_keys if native else inner.twice:
                ints_add(&self.doubtful, token)
            self.doubt(inner, self.telling(after))
        return 0

    cdef int doubt(self, Inner inner, int tells_from) except -1:
        """Doubt the tokens that read `tells_from` bytes or more behind the text; a negative number stands for none."""
        cdef int i, j, at, stop, depth
        if not 0 <= tells_from <= self.longest:
            return 0
        for i in range(inner.exits.size):
            at, stop = inner.exits.at[i] + 1, self.trie[inner.exits.at[i]].end
            depth = self.trie[at - 1].depth + tells_from
            while at < stop:
                if self.trie[at].depth >= depth:
                    for j in range(self.trie[at].first, self.trie[at + 1].first):
                        ints_add(&self.doubtful, self.ids[j])
                at += 1
        return 0

    cdef bint is_apart(self, int node) noexcept:
        """Say whether an exit is among the few in `apart`."""
        cdef int i
        for i in range(self.apart.size):
            if self.apart.at[i] == node:
                return True
        return False

    cdef int leave_key(self, Inner inner, int after, int parent) except -1:
        """As `leave_all` behind an ordinary key of a native object: all that lies before the end of its value is known."""
        cdef Inner key = inner if inner.base is None else inner.base
        cdef Inner behind = self.behind_key(key, self.lonely_entry(after), self.shared_name(after))
        cdef int at, i, j, first, node, ended = UNKNOWN
        cdef bint whole = inner.base is None and not self.apart.size
        if whole:
            draft_words(&self.draft, &behind.words)
        for at in range(inner.exits.size):
            i = at if inner.base is None else inner.base_exits.at[at]
            if self.is_apart(inner.exits.at[at]):
                continue
            first = behind.token_starts.at[i]
            if not whole:
                draft_tokens(&self.draft, behind.tokens.at + first, behind.token_starts.at[i + 1] - first)
            for j in range(behind.exit_starts.at[i], behind.exit_starts.at[i + 1]):
                node = behind.exits.at[j]
                if ended == UNKNOWN:
                    ints_add(&self.work, self.position_behind(after))
                    ints_add(&self.work, parent)
                    ended = self.close(0)
                self.walk(ended, node + 1, self.trie[node].end, self.trie[node].depth)
        return 0

    cdef dict special_exits(self, Inner inner, int q, int after, int record, bint everything):
        """Return {exit node: text} for the special texts that a token can complete, for all texts if ordinary ones are refused."""
        cdef dict groups = inner.groups
        special = self.special(after)
        if not (special or everything) or not groups:
            return {}
        so_far = self.begun(record, self.texts.spellings[self.texts.positions[q >> 1].spelling].closing) if record >= 8 else ""
        if everything or len(groups) < len(special):
            ends = [(end, so_far + end) for end in groups if everything or so_far + end in special]
        else:
            ends = [(text[len(so_far):], text) for text in self.starting(special, so_far)]
        return {node: text for end, text in ends for node in groups.get(end, ())}

    cdef object begun(self, int record, int closing):
        """Return the text of a record that is still inside its text."""
        found = self.begun_texts.get(record)
        if found is None:
            found = self.begun_texts[record] = self.recorded(record, bytes((closing,)))
        return found

    cdef list starting(self, object texts, str start):
        """Return those of some texts that start so."""
        ordered = self.ordered_texts.get(texts)
        if ordered is None:
            if len(self.ordered_texts) >= RECENT:
                self.ordered_texts.clear()
            ordered = self.ordered_texts[texts] = sorted(texts)
        found = []
        for text in islice(ordered, bisect_left(ordered, start), None):
            if not text.startswith(start):
                break
            found.append(text)
        return found

    cdef int generic_state(self, int after, int parent) except -1:
        cdef int known = map_get(&self.generic, after, parent)
        if known < 0:
            known = self.after_text(after, None, parent)
            map_put(&self.generic, after, parent, known)
        return known

    cdef int after_text(self, int after, text, int parent) except -1:
        """Return the state behind a recorded text, DEAD where it is refused."""
        cdef int following = self.following(after, text)
        if following < 0:
            return DEAD
        ints_add(&self.work, following)
        ints_add(&self.work, parent)
        return self.close(0)
