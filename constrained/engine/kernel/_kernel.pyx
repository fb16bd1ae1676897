# cython: boundscheck=False, wraparound=False, cdivision=True
"""Masks, and the object that matchers hold: what the automaton's states allow, over a vocabulary.

    MaskBuffer        the mask that is being made: blocks that differ from a base, and a worklist
    IndependentMask   which tokens stay inside a text, and the trie nodes where others leave it (exits)
      Builder         makes one by a walk of the trie; skips bytes that change nothing (Staying)
      CountedMasks    of texts with a bounded length: from the unbounded one
      Grouping        exits by what the texts before them are
    IndependentMasks  finds and keeps them, for the vocabulary
    Walk              of the trie from an automaton state     FiniteTexts  against sorted texts
    Continuations     states behind texts     TextEnds  tokens that leave texts
    Composer          the mask of a state: all of these together
    Kernel            what matchers hold, as `engine.plain.PlainKernel`; lock, roots, batches, scores, inspection
    Preparation       work ahead of the first mask

Read from the top: a part uses only what stands above it; each is a class with fields of its own and references to the
parts that it uses; none inherits from another.  What differs from the plain automaton (`engine.plain`), but not in
meaning: every automaton state has a row of 256 successors, filled on demand; what tokens do inside a text is kept with
the vocabulary; of finished masks that are equal one is kept.

Invariants: mask(state) bit i = (step_token(state, i) != DEAD), checked bit by bit in tests/laws.  Whatever raises
leaves every part as it was, but for what it has learned.
Memory: some 250 bytes per stepped state, a few hundred per mask as a rule; the owner starts a fresh kernel when
`is_full`.
Sources: context-independent masks, XGrammar (Dong et al. 2024); exits, parts, counts: ours.
"""
cimport cython
cimport numpy
from cpython.long cimport PyLong_CheckExact
from cython cimport final, initializedcheck
from libc.stdint cimport int32_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset
from constrained.engine.kernel._automaton cimport (
    ACCEPTING, AFTER, ALIKE, Automaton, BEGIN, BOTTOM, Closure, DEAD, DISPATCH, Dispatches, ENDS, ENTRY, EXITS,
    EXPANDED, Expansion, FINAL, KEYED, known_successor, LEAVES, Machine, Machines, Mask, NAMED, NEXT, Objects, OTHER,
    OUTSIDE, PLAIN, POSITION, RECORDS, REFUSES, Row, Stacks, State, successor, Table, UNKNOWN, WrittenKeys)
from constrained.engine.kernel._texts cimport (
    BODY, ESCAPE, holds, LanguageAt, Languages, LiteralTexts, NONE, Position, Positions, Spelling)
from constrained.engine.memory._memory cimport (
    allotted, Arena, arena_free, arena_take, arena_undo, ask, cleared, Ints, ints_add, ints_extend, ints_free,
    ints_put, ints_room, LITTLE, Map, map_add, map_find, map_free, map_get, map_put, map_room,
    Meter, mix, pair, released, SLICE, Turnstile, work)
from constrained.engine.tokens._tokens cimport clear_tokens, set_tokens, Trie, TrieNode

from bisect import bisect_left
from constrained.engine.spelling import decode
from constrained.engine.tokens.bitmask import misfit, number
from constrained.engine.tokens.trie import BITS, LEADS, MALFORMED
from constrained.errors import LimitExceeded
from constrained.machine import Text
from constrained.regex import ANY_TEXT
from constrained.regex.expr import Expr
from constrained.regex.markers import endless
from constrained.regex.saturate import bounded
from constrained.work import Preempted

import numpy as np


# ======================================================================================================================
# Masks while they are made and when they are finished: what differs from a mask that is kept anyway.
#
# Most masks are empty but for a few tokens, or a context-independent mask and a few tokens more.  To zero, fill and
# copy the 16 KB of a mask over 128,000 tokens would cost more than all else that many first visits need; so a buffer
# knows which of its blocks were touched, and a finished mask lists the blocks in which it may differ from its base.
#
# Owns: whoever has a MaskBuffer owns its memory (`buffer_begin`, `buffer_end`) and hands it to the parts that add to
# it.
# Borrows: a base, which lives as long as the kernel that it was made for.
# Invariants: between masks `bits` and `touched` are zero and the worklist is empty; bits are set in touched blocks
# only.
# Plain twin: `plain._pack`, which makes a mask of a list of tokens.
# ======================================================================================================================


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(_MSC_VER)
    #include <intrin.h>
    static __inline int lowest_bit(uint64_t word) { unsigned long at; _BitScanForward64(&at, word); return (int)at; }
    #else
    #define lowest_bit(word) __builtin_ctzll(word)
    #endif
    /* bit i: byte i of eight is odd */
    static inline uint64_t marks_of_eight(const uint8_t *bytes) {
        uint64_t word;
        memcpy(&word, bytes, 8);
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
    #endif
        return (word & 0x0101010101010101u) * 0x0102040810204080u >> 56;
    }
    """
    int lowest_bit(uint64_t word) noexcept nogil
    uint64_t marks_of_eight(const uint8_t* bytes_) noexcept nogil


cdef enum:
    BLOCK = 4                   # words of a block
    BLOCK_SHIFT = 2
    BLOCK_BITS = 7              # a token's number without these is its block's
    RECORD = 1 + BLOCK
    MERGED = 3                  # odd, as 1 is
    HELD = 4                    # masks in a buffer that are told from others


cdef struct Worklist:           # what is still to be added to a buffer
    Ints texts                  # triples text position, stack, trie node: texts that a walk entered; -1: at its start
    Ints names                  # quadruples covering position, text position, stack, node; see `FiniteTexts`
    Ints states                 # pairs state, trie node: to be walked below the node
    Ints doubtful               # tokens that are looked at again when all others are there
    Map added                   # (position and stack, node) of the texts below nodes, where these are many


cdef struct MaskBuffer:
    uint32_t* bits              # (blocks * BLOCK,) tokens beside those of `base`; zero between masks
    # (blocks,) where bits may be set; MERGED: those of the base are; 0 up to a multiple of 64
    uint8_t* touched
    const uint32_t* base        # a whole context-independent mask, padded to whole blocks, or NULL
    void* base_of               # the IndependentMask that it is of, borrowed
    const void* held[HELD]      # words of masks that were added whole; see `buffer_mask`
    int held_count
    int words, blocks
    Ints records                # (RECORD * blocks,) room to pack
    Ints removed                # tokens of base or bits that are not allowed after all
    Worklist todo


cdef inline int32_t* listed(const Mask* mask) noexcept nogil:
    return <int32_t*>(mask + 1)


cdef inline size_t mask_bytes(const Mask* mask, int words) noexcept nogil:
    return sizeof(Mask) + 4 * <size_t>(words if mask.count < 0 else RECORD * mask.count)


cdef inline bint mask_has(const Mask* mask, int token) noexcept nogil:
    """Say whether a finished mask allows a token."""
    cdef int low = 0, high = <int>mask.count, middle, block = token >> BLOCK_BITS
    cdef const uint32_t* words = mask.base
    if mask.count < 0:
        words = <const uint32_t*>listed(mask)
    while low < high:       # the blocks are in order
        middle = (low + high) >> 1
        if listed(mask)[RECORD * middle] < block:
            low = middle + 1
        else:
            high = middle
    if low < mask.count and listed(mask)[RECORD * low] == block:
        words = <const uint32_t*>(listed(mask) + RECORD * low + 1) - BLOCK * block
    return words != NULL and words[token >> 5] >> (token & 31) & 1


cdef inline int buffer_begin(MaskBuffer* buffer, int words) except -1:
    """Give a buffer its memory; `words` are those of a mask."""
    buffer.words, buffer.blocks = words, (words + BLOCK - 1) // BLOCK
    buffer.bits = <uint32_t*>cleared(BLOCK * (buffer.blocks + 8), 4)
    buffer.touched = <uint8_t*>cleared(buffer.blocks + 64, 1)
    buffer.records.at = <int32_t*>allotted(RECORD * (buffer.blocks + 1), 4)
    return 0


cdef inline void buffer_end(MaskBuffer* buffer) noexcept:
    """Give the memory of a buffer back."""
    released(buffer.bits)
    released(buffer.touched)
    ints_free(&buffer.records)
    ints_free(&buffer.removed)
    ints_free(&buffer.todo.texts)
    ints_free(&buffer.todo.names)
    ints_free(&buffer.todo.states)
    ints_free(&buffer.todo.doubtful)
    map_free(&buffer.todo.added)


cdef inline void buffer_token(MaskBuffer* buffer, int token) noexcept nogil:
    buffer.bits[token >> 5] |= <uint32_t>1 << (token & 31)
    buffer.touched[token >> BLOCK_BITS] = 1


cdef inline void buffer_node(MaskBuffer* buffer, const TrieNode* trie, const int32_t* ids, int node) noexcept nogil:
    """Add the tokens that end at a trie node."""
    cdef int i
    for i in range(trie[node].first, trie[node + 1].first):
        buffer_token(buffer, ids[i])


cdef inline void buffer_tokens(MaskBuffer* buffer, const int32_t* tokens, int count) noexcept nogil:
    cdef int i
    for i in range(count):
        buffer_token(buffer, tokens[i])


cdef inline void buffer_words(MaskBuffer* buffer, const Ints* pairs) noexcept nogil:
    """Add a mask given as pairs (word, its bits)."""
    cdef int i
    for i in range(0, pairs.size, 2):
        buffer.bits[pairs.at[i]] |= <uint32_t>pairs.at[i + 1]
        buffer.touched[pairs.at[i] >> BLOCK_SHIFT] = 1


cdef inline bint buffer_has(const MaskBuffer* buffer, int token) noexcept nogil:
    return ((buffer.bits[token >> 5] | (buffer.base[token >> 5] if buffer.base != NULL else 0)) >> (token & 31)) & 1


cdef inline int buffer_doubt(MaskBuffer* buffer, const int32_t* ids, int first, int last) except -1:
    """Note that the tokens [first, last) of the trie are to be looked at again."""
    cdef int i
    for i in range(first, last):
        ints_add(&buffer.todo.doubtful, ids[i])
    return 0


cdef inline int buffer_doubt_new(MaskBuffer* buffer, const int32_t* ids, int first, int last, bint add) except -1:
    """As `buffer_doubt` for those that are not there yet; add them if told to."""
    cdef int i
    for i in range(first, last):
        if not buffer_has(buffer, ids[i]):
            ints_add(&buffer.todo.doubtful, ids[i])
            if add:
                buffer_token(buffer, ids[i])
    return 0


cdef inline void buffer_clear(MaskBuffer* buffer) noexcept:
    """Forget what is in it and what is to be added."""
    cdef int eight
    for eight in range(0, buffer.blocks, 8):
        if (<uint64_t*>(buffer.touched + eight))[0]:
            memset(buffer.bits + BLOCK * eight, 0, 8 * 4 * BLOCK)
    memset(buffer.touched, 0, buffer.blocks)
    buffer.base = buffer.base_of = NULL
    buffer.held_count = 0
    buffer.removed.size = buffer.todo.texts.size = buffer.todo.names.size = 0
    buffer.todo.states.size = buffer.todo.doubtful.size = 0
    map_free(&buffer.todo.added)


cdef inline void merge_base(MaskBuffer* buffer, int block) noexcept nogil:
    """Add the base's tokens to a block, once."""
    cdef int i
    cdef uint32_t* bits = buffer.bits + BLOCK * block
    cdef const uint32_t* base = buffer.base + BLOCK * block
    if buffer.base != NULL and buffer.touched[block] != MERGED:
        for i in range(BLOCK):
            bits[i] |= base[i]
    buffer.touched[block] = MERGED


cdef inline void take_block(MaskBuffer* buffer, int block, int32_t* words, uint64_t* lanes) noexcept nogil:
    """Write a block with the base's tokens in it, clear it, and hash it into two lanes.

    In halves of a block; words that are read again as a whole, right after each was written, wait for each other.
    """
    cdef uint64_t half[2]
    cdef uint64_t more[2]
    memcpy(half, buffer.bits + BLOCK * block, 4 * BLOCK)
    memset(buffer.bits + BLOCK * block, 0, 4 * BLOCK)
    if buffer.base != NULL and buffer.touched[block] != MERGED:
        memcpy(more, buffer.base + BLOCK * block, 4 * BLOCK)
        half[0] |= more[0]
        half[1] |= more[1]
    memcpy(words, half, 4 * BLOCK)
    lanes[0] = (lanes[0] ^ half[0]) * <uint64_t>0x9E3779B97F4A7C15
    lanes[1] = (lanes[1] ^ half[1]) * <uint64_t>0x9E3779B97F4A7C15 + block
    lanes[0] ^= lanes[0] >> 29
    lanes[1] ^= lanes[1] >> 29


cdef inline int pack_blocks(MaskBuffer* buffer, uint64_t* digest) noexcept nogil:
    """Move the touched blocks to `records`; return how many, and a hash of them in `digest`.

    Which blocks were touched is as good as chance, so that a branch for each would be guessed wrongly for every
    second one; four lanes, so that no product waits for the one before.
    """
    cdef int at, i, block, count = 0
    cdef int32_t* record = buffer.records.at
    cdef uint64_t marks
    cdef uint64_t lanes[4]
    for i in range(4):
        lanes[i] = i + 1
    for at in range(0, buffer.blocks, 64):
        marks = 0
        for i in range(8):
            marks |= marks_of_eight(buffer.touched + at + 8 * i) << 8 * i
        if not marks:
            continue
        while marks:
            block = at + lowest_bit(marks)
            marks &= marks - 1
            record[0] = block
            take_block(buffer, block, record + 1, lanes + 2 * (count & 1))
            record += RECORD
            count += 1
        memset(buffer.touched + at, 0, 64)
    digest[0] = mix(mix(lanes[0], lanes[1]), mix(lanes[2], lanes[3]))
    return count


cdef inline Mask* pack(MaskBuffer* buffer, Arena* arena, uint64_t* digest) except NULL:
    """Return the finished mask and a number that equal masks share; the buffer is left clear."""
    cdef int i, token, count, words = buffer.words
    cdef const uint32_t* base = buffer.base
    cdef Mask* mask
    for i in range(buffer.removed.size):
        token = buffer.removed.at[i]
        merge_base(buffer, token >> BLOCK_BITS)
        buffer.bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))
    count = pack_blocks(buffer, digest)
    buffer.base, buffer.base_of, buffer.held_count, buffer.removed.size = NULL, NULL, 0, 0
    digest[0] ^= <size_t>base
    if 3 * RECORD * count <= words:
        mask = <Mask*>arena_take(arena, sizeof(Mask) + 4 * RECORD * <size_t>count)
        mask.base, mask.count = base, count
        memcpy(listed(mask), buffer.records.at, 4 * RECORD * <size_t>count)
        return mask
    mask = <Mask*>arena_take(arena, sizeof(Mask) + 4 * <size_t>words)
    mask.base, mask.count = NULL, -1
    write_blocks(base, buffer.records.at, count, words, <uint32_t*>listed(mask))
    return mask


cdef inline bint is_same_mask(const Mask* one, const Mask* other, int words) noexcept nogil:
    return one.count == other.count and not memcmp(one, other, mask_bytes(one, words))


cdef inline void write_blocks(const uint32_t* base, const int32_t* record, int count, int words,
                              uint32_t* bits) noexcept nogil:
    """Write all words of a mask that differs from its base in some blocks."""
    cdef int i
    if base != NULL:
        memcpy(bits, base, 4 * <size_t>words)
    else:
        memset(bits, 0, 4 * <size_t>words)
    for i in range(count):
        if BLOCK * record[0] + BLOCK <= words:
            memcpy(bits + BLOCK * record[0], record + 1, 4 * BLOCK)
        else:
            memcpy(bits + BLOCK * record[0], record + 1, 4 * (words - BLOCK * record[0]))
        record += RECORD


cdef inline void unpack(const Mask* mask, int words, uint32_t* bits) noexcept nogil:
    """Write all words of a mask."""
    if mask.count < 0:
        memcpy(bits, listed(mask), 4 * <size_t>words)
    else:
        write_blocks(mask.base, listed(mask), <int>mask.count, words, bits)


cdef inline object stored(dict entries, object key):
    """Return the mask that a `registry.MaskStore` has under a key, now the last to go; None where there is none."""
    entry = entries.pop(key, None)
    if entry is None:
        return None
    entries[key] = entry
    return (<tuple>entry)[0]


cdef struct Walked:                 # by a walk so far; see `Builder.walk_below`
    int home, first, last, visited
    uint64_t leaving


cdef enum:
    MOST_LISTED = 512       # exits of a mask up to which the nodes below them are listed by their bytes


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

    cdef Automaton automaton        # borrowed, as the next two
    cdef Positions positions
    cdef Languages languages
    cdef uint64_t classes[256]      # the bit of each byte's class, where it is the first of a character
    cdef int32_t leads[16]          # pairs: the code points of each class of leading bytes
    cdef int lead_bytes[8]          # the first of each
    cdef int lead_count

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

    cdef readonly long bytes        # that all context-independent masks of a vocabulary take which are alive


@cython.no_gc
@final
cdef class IndependentMask:
    """What tokens do inside one text.

    Invariant: no chain of references leads from a mask to itself, and the counter is there when it goes: the collector
    stays away.
    """

    # (words,) tokens that stay inside or end where they leave; NULL where `words` are few, and in a part but of a text
    # without an end of its own
    cdef uint32_t* bits
    cdef uint32_t* inside           # (words,) tokens that stay inside; NULL until asked for
    cdef Ints words                 # pairs (word, its bits) of `bits` where they are few
    cdef Ints tokens                # of a part: the tokens that stay inside
    cdef Ints exits                 # trie nodes at which a token leaves the text
    cdef Ints frontier              # of a text without an end of its own: see `Builder.begin_group`
    cdef Ints exit_counts           # characters read at each exit, where they are counted
    # pairs token, characters begun; of tokens that have another number of them, because of escapes
    cdef Ints counted
    cdef Ints long_ones             # pairs token, characters begun, of all tokens that begin more than `all_long`
    cdef int all_long
    cdef int most                   # the largest number of characters that any token begins
    # of a prefix-universal language the mask of any text, of a counted one that of any number; and which of its exits
    # each exit is
    cdef IndependentMask base
    cdef Ints base_exits
    cdef Ints ways                  # trie nodes on the way to an exit, and the exits; where counts are kept
    cdef dict groups                # text before an exit -> exit nodes
    cdef list twice                 # tokens that may complete a second text
    cdef list twice_keys            # tokens that may complete a second key: a colon and a comma lie between
    cdef Ints token_starts          # behind keys: where each exit of the key has its first token, and its first exit
    cdef Ints exit_starts
    cdef uint64_t* next_bytes       # (exits, 4) set of bytes below each exit; NULL: as of its base, as `base_exits`
    # quadruples (byte, index of the exit, trie node, where the next byte begins) of the nodes just below exits, by
    # byte; empty until asked for
    cdef Ints children
    cdef Counter counter            # what it was added to
    cdef long size                  # bytes that it was counted with

    def __dealloc__(self):
        if self.counter is not None:
            self.counter.bytes -= self.size
        released(self.bits)
        released(self.inside)
        released(self.next_bytes)
        ints_free(&self.words)
        ints_free(&self.tokens)
        ints_free(&self.frontier)
        ints_free(&self.exits)
        ints_free(&self.exit_counts)
        ints_free(&self.counted)
        ints_free(&self.long_ones)
        ints_free(&self.base_exits)
        ints_free(&self.ways)
        ints_free(&self.token_starts)
        ints_free(&self.exit_starts)
        ints_free(&self.children)

    cdef int weigh(self, Counter counter, int words) except -1:
        """Count the memory it takes, as it is now; `words` are those of a mask."""
        cdef long size = sizeof(IndependentMask) + (32 * <long>self.exits.size if self.next_bytes != NULL else 0)
        size += 4 * (
            <long>self.words.room + self.tokens.room + self.frontier.room + self.exits.room + self.exit_counts.room
            + self.counted.room + self.long_ones.room)
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

    cdef Meter meter                # borrowed, as the next four
    cdef Trie trie
    cdef Automaton automaton
    cdef Positions positions
    cdef Counter counter            # of all context-independent masks of the vocabulary
    cdef Staying staying
    cdef Ints runs                  # pairs: the tokens [first, last) of the trie that a walk keeps
    cdef Ints leaving               # nodes with a group of `IndependentMask.frontier`
    cdef uint32_t* aside            # (words,) a mask in the making, zeros between

    def __cinit__(self, Automaton automaton, Counter counter):
        self.automaton, self.counter, self.staying = automaton, counter, Staying(automaton)
        self.meter, self.trie, self.positions = automaton.meter, automaton.trie, automaton.positions
        self.aside = <uint32_t*>cleared(self.trie.words, 4)

    def __dealloc__(self):
        ints_free(&self.runs)
        ints_free(&self.leaving)
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
                self.runs.size = self.leaving.size = 0
                visited = self.walk(made, node, bare, path)
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
        """Note the tokens below a node, or all, as runs, and their exits; return how many nodes were visited."""
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
        cdef int depth, after, end, ends, behind = 0     # up to `behind`, nodes lie below an exit
        cdef uint64_t back, leaving = walked.leaving
        if at < stop and nodes[at].first != last:
            self.keep_run(first, last)
            first = last
        while at < stop:
            walked.visited += 1
            depth, end, after = nodes[at].depth - base, nodes[at].end, home
            if path[depth - 1] != home or (classes[nodes[at].byte] | below[at]) & leaving:
                after = automaton.next_state(path[depth - 1], nodes[at].byte)
                if after == DEAD:
                    self.keep_run(first, last)
                    first, at = last, self.next_live(automaton.states[path[depth - 1]].row, end, stop, depth + base)
                    continue
            first, last = first if first < last else nodes[at].first, nodes[at + 1].first
            ends = automaton.states[after].flags & EXITS
            if after == home and not below[at] & leaving:
                walked.visited += end - at - 1 if end - at <= SMALL else 0
                last, at = nodes[end].first, end
            else:
                path[depth] = after
                if ends:
                    first = self.keep_end(made, node >= 0 and not bare, at, first, last)
                    behind = max(behind, end)
                at += 1
                if end - at >= SMALL and after != home:
                    back = self.staying.leaving(after)
                    if not below[at - 1] & back:
                        last, at = nodes[end].first, end
                    elif ~back and not ends and (home == UNKNOWN or not back & ~leaving):
                        home, leaving = after, back
                if bare and at < end and at < behind:
                    self.list_outside(made, at - 1, base, after)
        walked.home, walked.first, walked.last, walked.leaving = home, first, last, leaving
        return 0

    cdef inline int keep_end(self, IndependentMask made, bint apart, int at, int first, int last) except -1:
        """Note an exit; return where the tokens that are still to be noted begin: if apart, behind those that end
        here, which are the exit's."""
        ints_add(&made.exits, at)
        if not apart:
            return first
        self.keep_run(first, self.trie.nodes[at].first)
        return last

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
        """Give a mask the tokens of the runs, that of a bare text only the exits that it needs."""
        cdef const int32_t* ids = self.trie.ids
        cdef const int32_t* runs = self.runs.at
        cdef uint32_t* bits
        cdef int i, j, count = 0, size = self.runs.size
        for j in range(0, size, 2):
            count += runs[j + 1] - runs[j]
        if bare:
            self.keep_leaving(made)
        if node >= 0 and not bare:
            ints_room(&made.tokens, count)
            for j in range(0, size, 2):
                for i in range(runs[j], runs[j + 1]):
                    ints_put(&made.tokens, ids[i])
            return 0
        if 8 * count <= self.trie.words:
            return self.gather_few(made)
        bits = made.bits = <uint32_t*>cleared(self.trie.words + BLOCK, 4)
        for j in range(0, size, 2):
            for i in range(runs[j], runs[j + 1]):
                bits[ids[i] >> 5] |= <uint32_t>1 << (ids[i] & 31)
        return self.note_words(made)

    cdef int list_outside(self, IndependentMask made, int node, int base, int state) except -1:
        """List the children of a trie node inside a bare text, behind an exit or at one, that are outside, if any; see
        `begin_group`."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int child = node + 1, count = -1
        while child < nodes[node].end:
            if self.automaton.next_state(state, nodes[child].byte) == DEAD:
                if count < 0:
                    count = self.begin_group(made, node, base)
                made.frontier.at[count] += 1
                ints_add(&made.frontier, nodes[child].byte)
                ints_add(&made.frontier, child)
            child = nodes[child].end
        return 0

    cdef int begin_group(self, IndependentMask made, int node, int base) except -1:
        """Begin a group of children: the node; up to which depth below `base` its bytes are those of the group before,
        how many follow, and these; how many children, and of each the byte and the node.  Return where their number
        stands."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const uint8_t* text = self.trie.spelled + self.trie.begins[self.trie.ids[nodes[node].first]]
        cdef const uint8_t* other
        cdef int before, shared = base, i
        if self.leaving.size:
            before = self.leaving.at[self.leaving.size - 1]
            other = self.trie.spelled + self.trie.begins[self.trie.ids[nodes[before].first]]
            while shared < min(nodes[node].depth, nodes[before].depth) and text[shared] == other[shared]:
                shared += 1
        ints_add(&self.leaving, node)
        ints_add(&made.frontier, node)
        ints_add(&made.frontier, shared - base)
        ints_add(&made.frontier, nodes[node].depth - shared)
        for i in range(shared, nodes[node].depth):
            ints_add(&made.frontier, text[i])
        return ints_add(&made.frontier, 0)

    cdef int keep_leaving(self, IndependentMask made) noexcept:
        """Forget the exits of a bare text below which every token stays inside: all of them, for free text."""
        cdef int i, j = 0, kept = 0
        for i in range(made.exits.size):
            while j < self.leaving.size and self.leaving.at[j] < made.exits.at[i]:
                j += 1
            if j < self.leaving.size and self.leaving.at[j] < self.trie.nodes[made.exits.at[i]].end:
                made.exits.at[kept] = made.exits.at[i]
                kept += 1
        made.exits.size = kept
        return 0

    cdef int gather_few(self, IndependentMask made) except -1:
        """As `gather`, of a whole mask with few tokens: it lists its words, and has no bits where these are few."""
        cdef int i, j
        try:
            for j in range(0, self.runs.size, 2):
                for i in range(self.runs.at[j], self.runs.at[j + 1]):
                    self.list_token(made, self.trie.ids[i])
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
# So are those of any language with a bound on the length, from the one without: only tokens that take nearly all of
# the characters are looked at, whether what is left lets the text end.
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

    cdef object store               # of the vocabulary, shared by its kernels: `registry.MaskStore`
    cdef dict entries               # the store's
    cdef Builder builder            # borrowed, as the next four
    cdef Meter meter
    cdef Trie trie
    cdef Positions positions
    cdef Languages languages

    def __cinit__(self, Builder builder, store):
        self.builder, self.store, self.entries = builder, store, store.entries
        self.meter, self.trie = builder.meter, builder.trie
        self.positions, self.languages = builder.positions, builder.positions.languages

    cdef IndependentMask mask(self, object spelling, object counted):
        """Return the mask of C{low,high}; counted: C, low and high, None: any number."""
        characters, low, high = counted
        cdef IndependentMask base = self.base((spelling, "counted", characters))
        cdef int least = min(low, base.most + 1), most = base.most if high is None else min(high, base.most)
        if least == 0 and most == base.most:
            return base
        key = (spelling, "counted", characters, least, most)
        found = stored(self.entries, key)
        return found if found is not None else self.kept(key, self.limited(base, least, most))

    cdef bint may_bound(self, int room) noexcept:
        """Say whether few tokens have more than so many characters."""
        cdef int count = self.trie.nodes[self.trie.count].first
        return room >= 0 and count - self.trie.with_at_most[min(room, self.trie.longest)] <= MOST_LONG

    cdef IndependentMask bounded(self, int q, tuple key, object bound):
        """Return the mask of position q, and keep it as `key`: of the texts of a language that have up to `most`
        characters; bound: see `saturate.bounded`."""
        language, room, most = bound
        cdef IndependentMask base = self.base((key[0], "bounded", language))
        cdef IndependentMask level = self.limited(base, 0, min(most, base.most))
        cdef int i, token, count, start = self.start(key[0], language)
        for i in range(0, base.long_ones.size, 2):
            token, count = base.long_ones.at[i], base.long_ones.at[i + 1]
            if <int>room < count <= <int>most and not self.goes_on(start, q, token, most - count):
                level.bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))
        return self.kept(key, level)

    cdef bint goes_on(self, int start, int q, int token, int left) except -1:
        """Say whether a text can go on behind a token from position q, whose language without a bound is that of
        `start`, where so many characters are left."""
        cdef Automaton automaton = self.builder.automaton
        cdef int state = self.after(start, token), at
        if automaton.states[state].flags & EXITS:
            return True
        if self.builder.staying.between(state):
            at = automaton.configurations.at[automaton.states[state].first]
            language = self.languages.object_of(self.positions.at[at >> 1].language)
            if language is not None:
                return language.short <= left
        return self.after(q, token) != DEAD

    cdef int after(self, int q, int token) except -1:
        """Return the state behind a token from position q, with nothing known outside."""
        return self.builder.automaton.after_token(self.builder.automaton.enter(q, OUTSIDE, 0), token)

    cdef int start(self, object spelling, object language) except -1:
        """Return the position at the start of a text."""
        return 2 * self.positions.body(self.positions.spelling(spelling), self.languages.number(language)) + 1

    cdef IndependentMask base(self, tuple key):
        """Return the mask of C*, or of a language of which it is bounded how long its texts are."""
        cdef IndependentMask made
        found = stored(self.entries, key)
        if found is not None:
            return found
        ask(self.meter)
        spelling, kind, language = key
        made = self.builder.build(self.start(spelling, endless(language) if kind == "counted" else language), -1, True)
        self.list_long(made)
        return self.kept(key, made)

    cdef IndependentMask kept(self, tuple key, IndependentMask mask):
        """Keep a mask with the vocabulary."""
        if mask.base is not None:
            self.builder.note_words(mask)
        mask.weigh(self.builder.counter, self.trie.words)
        self.store.put(key, mask, mask.size)
        return mask

    # -- levels --------------------------------------------------------------------------------------------------------

    cdef IndependentMask limited(self, IndependentMask base, int least, int most):
        """Return the mask of least to most characters from that of any number."""
        cdef IndependentMask level = self.copied(base)
        cdef int i
        if most >= base.all_long:
            for i in range(0, base.long_ones.size, 2):
                if base.long_ones.at[i + 1] > most:
                    level.bits[base.long_ones.at[i] >> 5] &= ~(<uint32_t>1 << (base.long_ones.at[i] & 31))
            work(self.meter, self.trie.words + base.long_ones.size + 2 * base.exits.size)
        else:
            self.keep_short(level, base, most)
        self.keep_exits(level, base, least, most)
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
        cdef IndependentMask made
        cdef int i, token, count = self.trie.with_at_most[min(most, self.trie.longest)]
        found = stored(self.entries, ("within", most))
        if found is not None:
            return found
        made = IndependentMask()
        made.bits = <uint32_t*>cleared(self.trie.words + BLOCK, 4)
        for i in range(count):
            token = self.trie.fewest_first[i]
            made.bits[token >> 5] |= <uint32_t>1 << (token & 31)
        work(self.meter, self.trie.words + count)
        return self.kept(("within", most), made)

    cdef IndependentMask copied(self, IndependentMask mask):
        """Return another mask with the same tokens."""
        cdef IndependentMask made = IndependentMask()
        made.bits = <uint32_t*>allotted(self.trie.words + BLOCK, 4)
        memcpy(made.bits, mask.bits, 4 * (<size_t>self.trie.words + BLOCK))
        return made

    # -- what is noted of a base ---------------------------------------------------------------------------------------

    cdef int list_long(self, IndependentMask base) except -1:
        """List the tokens that begin more than `all_long` characters."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const int32_t* shorter = self.trie.with_at_most
        cdef int i, j, characters, count = nodes[self.trie.count].first
        cdef uint32_t* met = <uint32_t*>cleared(self.trie.words, 4)
        try:
            while count and base.all_long < self.trie.longest and count - shorter[base.all_long] > MOST_LONG:
                base.all_long += 1
            for i in range(base.exits.size):
                for j in range(nodes[base.exits.at[i]].first, nodes[base.exits.at[i] + 1].first):
                    self.note_long(base, self.trie.ids[j], base.exit_counts.at[i], met)
            for i in range(0, base.counted.size, 2):
                self.note_long(base, base.counted.at[i], base.counted.at[i + 1], met)
            characters = base.all_long
            for i in range(shorter[characters] if count else 0, count):
                while shorter[characters] <= i:
                    characters += 1
                self.note_long(base, self.trie.fewest_first[i], characters, met)
        finally:
            released(met)
        return 0

    cdef int note_long(self, IndependentMask base, int token, int count, uint32_t* met) except -1:
        """Note a token of a base with the characters that it begins, if these are many and it was not met."""
        cdef uint32_t bit = <uint32_t>1 << (token & 31)
        if not met[token >> 5] & bit and base.bits[token >> 5] & bit and count > base.all_long:
            ints_add(&base.long_ones, token)
            ints_add(&base.long_ones, count)
        met[token >> 5] |= bit
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

    cdef Meter meter                # borrowed, as the next two
    cdef Trie trie
    cdef Counter counter

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
        """Find the tokens that leave the text and may complete a second one."""
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

    cdef object store               # of the vocabulary, shared by its kernels: `registry.MaskStore`
    cdef dict entries               # the store's
    cdef Builder builder            # borrowed, as the next five
    cdef Meter meter
    cdef Trie trie
    cdef Automaton automaton
    cdef Positions positions
    cdef Languages languages
    cdef CountedMasks counted       # owned, as the next two
    cdef Grouping grouping
    cdef list parts                 # the mask of each (text position, trie node); -1: the whole one
    cdef Map part_ids
    cdef list behind_keys           # (the mask of a key, the mask behind it) of each (that mask's address, entry)
    cdef Map behind_ids

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
        bound = bounded(language) if simple and type(language) is Expr else None
        if bound is not None and self.counted.may_bound(bound[1]):
            return self.counted.bounded(q, key, bound)
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
        """List the nodes just below exits by byte."""
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
# Owns: the path of the walk at hand; what is left of states whose bare texts are walked.  Borrows: the trie; the
# automaton, which it adds states to; machines, stacks, positions and languages, to tell texts from the rest; the meter
# of work.  The buffer it is handed.
# Invariants: after `walk` and all that it has put off, the buffer has every token of the nodes [at, stop) that leads to
# a live state, and no other; the `light` state of a state has its configurations but for those that are put off.
# Plain twin: `plain.PlainKernel._walk`, which puts nothing off.
# ======================================================================================================================

cdef enum:
    SMALL_PART = 3           # trie nodes: below this a part costs more than the walk
    SMALL_BARE_PART = 100    # the same, of a text without an end of its own


@final
cdef class Walk:
    """Walks of the trie, one at a time."""

    cdef Meter meter                # borrowed, as the next six
    cdef Trie trie
    cdef Automaton automaton
    cdef Machines machines
    cdef Stacks stacks
    cdef Positions positions
    cdef Languages languages
    cdef int any_text               # the language of all texts
    cdef int32_t* path              # (longest + 2,) the states on the way to the node at hand
    cdef Ints light                 # configurations of a state without its texts
    cdef bint bare                  # whether texts without an end of their own are walked as all else is
    cdef Map bare_lights            # state -> the state without the texts that are put off then

    def __cinit__(self, Automaton automaton):
        self.automaton, self.meter, self.trie = automaton, automaton.meter, automaton.trie
        self.machines, self.stacks, self.positions = automaton.machines, automaton.stacks, automaton.positions
        self.languages = automaton.positions.languages
        self.any_text = self.languages.number(ANY_TEXT)
        self.path = <int32_t*>allotted(<size_t>self.trie.longest + 2, 4)

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
        cdef Row* row
        cdef int depth, after, light, visited = 0
        path[0] = state
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
                at = nodes[at].end
                continue
            buffer_node(buffer, nodes, ids, at)
            if nodes[at].end - at > SMALL_PART and automaton.states[after].light != after:
                self.bare = nodes[at].end - at <= SMALL_BARE_PART
                light = self.light_state(after)
                if light != after:
                    self.put_off(buffer, after, at, NONE)
                self.bare = False
                if light == DEAD:
                    at = nodes[at].end
                    continue
                after = light
            path[depth] = after
            at += 1
        self.meter.ticks += visited
        return 0 if self.meter.ticks < SLICE else self.meter.flush()

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

    cdef int put_off(self, MaskBuffer* buffer, int state, int node, int known) except -1:
        """Note the text configurations of a state for later, at a trie node or at the start (-1), but for one."""
        cdef State at = self.automaton.states[state]
        cdef int i, q, stack, cover = self.covering(state)
        for i in range(at.first, at.first + at.count, 2):
            q, stack = self.automaton.configurations.at[i], self.automaton.configurations.at[i + 1]
            if q == known or not self.is_heavy(q, stack):
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
# A trie node costs two binary searches instead of a language, a position, a state and a row.  Only where a text
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

    cdef Meter meter                # borrowed, as the next six
    cdef Trie trie
    cdef Automaton automaton
    cdef Walk walk
    cdef IndependentMasks masks
    cdef Positions positions
    cdef Languages languages
    cdef int32_t* lows              # (longest + 2,) for each depth the texts that are left: [low, high)
    cdef int32_t* highs
    cdef int32_t* least             # and the first and the last of the characters with which they go on
    cdef int32_t* most
    cdef int32_t* marks             # (256,) bytes that a text may begin with; zeros between

    def __cinit__(self, Walk walk, IndependentMasks masks):
        self.walk, self.masks, self.meter, self.trie = walk, masks, walk.meter, walk.trie
        self.automaton, self.positions, self.languages = walk.automaton, walk.positions, walk.languages
        self.marks = <int32_t*>cleared(256, 4)
        self.lows = <int32_t*>allotted(4 * (<size_t>self.trie.longest + 2), 4)
        self.highs = self.lows + self.trie.longest + 2
        self.least, self.most = self.highs + self.trie.longest + 2, self.highs + 2 * (self.trie.longest + 2)

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
                at = nodes[at].end
                continue
            if (self.least[depth - 1] <= byte <= self.most[depth - 1] and holds(&self.positions.tables, raw, byte)
                    and self.languages.narrow(&start, start.depth + depth - 1, byte, byte, &low, &high)):
                buffer_node(buffer, nodes, ids, at)
                self.enter(&start, depth, low, high)
                at += 1
            else:
                at = nodes[at].end
        self.meter.ticks += visited
        return 0

    cdef void enter(self, const LanguageAt* start, int depth, int low, int high) noexcept:
        """Note the texts that are left at a depth, and between which characters they go on.

        Of a trie node's children most are none of these, and below the first bytes one text is left: a tenth of
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

        In objects with other keys, where most keys are being written; no walk, and as a rule one name or none can
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
            if nodes[exit_].end == exit_ + 1:   # as nearly always, and the state behind costs some microseconds
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
# A whole mask in the making: the first one that is added becomes its base, others are added word by word.
#
# Refused: the union of two masks that come together time and again, kept as one: requests took as long without it.
# ======================================================================================================================

cdef enum:
    FEW = 16            # numbers of pairs (word, bits) that are as soon added
    FOUR = 4            # blocks that are looked at together


cdef int buffer_mask(MaskBuffer* buffer, IndependentMask mask, const uint32_t* bits) except -1:
    """Add the bits of a mask that lives as long as the kernel, all its tokens or those inside; or its pairs (word,
    bits), where `bits` is NULL."""
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
    else:
        buffer_apart(buffer, mask, bits)
    if buffer.held_count < HELD:
        buffer.held[buffer.held_count] = what
        buffer.held_count += 1
    return 0


cdef int buffer_apart(MaskBuffer* buffer, IndependentMask mask, const uint32_t* bits) except -1:
    """Add a mask to a buffer that has a base, word by word, those of the smaller one where these are listed."""
    cdef IndependentMask base = <IndependentMask>buffer.base_of
    cdef int block = 0
    if bits == NULL or bits == mask.bits and mask.words.size:
        buffer_words(buffer, &mask.words)
    elif buffer.base == base.bits and base.words.size:
        buffer_words(buffer, &base.words)
        buffer.base, buffer.base_of = bits, <void*>mask
    else:
        if mask.exits.size > base.exits.size:       # then more of the other is there than the other way round
            bits, buffer.base, buffer.base_of = buffer.base, bits, <void*>mask
        while block < buffer.blocks:
            if block % FOUR == 0 and block + FOUR <= buffer.blocks and not has_more(
                    bits + BLOCK * block, buffer.base + BLOCK * block):
                block += FOUR
            else:
                add_block(buffer, block, bits)
                block += 1
    return 0


cdef inline bint has_more(const uint32_t* bits, const uint32_t* base) noexcept nogil:
    """Say whether four blocks of a mask have a token that those of a base have not.  Most have none, as of two
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


# ======================================================================================================================
# The automaton states behind texts: where a mask goes on with the tokens that leave a text.
#
#     the text does not matter to what follows ── popped ──► one state for each stack
#     a Dispatch asks for the text ── ordinary ──► one state for all texts that are not special
#                                  └─ following ──► one for each special text, at the exits of `special_exits` or,
#                                                   of texts in quotes, `special_exits_by_text`
#     an ordinary key whose value has ended ── value ──► one for each set of written keys and stack
#
# Owns: the states behind texts and values, the beginnings of recorded texts.  Borrows: the
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
cdef class Continuations:
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
    cdef Ints seeds                 # configurations behind a text

    def __cinit__(self, Dispatches dispatches, Automaton automaton):
        self.dispatches, self.automaton, self.trie = dispatches, automaton, automaton.trie
        self.stacks, self.positions, self.meter = dispatches.stacks, dispatches.positions, automaton.meter
        self.begun_texts = {}

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
        self.begun_texts = {}
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

    cdef dict special_exits_by_text(self, IndependentMask mask, int q, int after, int record, bint everything):
        """Return {exit node: text} for the special texts that a token can complete, for all texts if ordinary ones are
        refused."""
        cdef dict groups = mask.groups
        if not groups:
            return {}
        work(self.meter, GROUPED * len(groups))
        closing = self.positions.spellings[self.positions.at[q >> 1].spelling].closing
        so_far = self.begun(record, closing) if record >= 8 else ""
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
        """Return the state behind the value of an ordinary key of a native object."""
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
# The tokens that leave a text, added to a mask: those that end where it does, and those that go on behind it.
#
# A context-independent mask says at which trie nodes, its *exits*, tokens leave a text; from the state behind the text
# the trie is walked below them.  Where what follows depends on the text, ordinary texts share one state behind them,
# special ones have their own, and what could tell more is doubted; docs/kernel.md has a table of the `leave_…`
# functions.
#
# Owns: the exits that are apart.  Borrows: the buffer of the composer, whose worklist it adds to; `Continuations`, for
# the states behind texts; masks, walks, the automaton, stacks, machines and objects; `Dispatches`; the trie. Invariant:
# what is added, and not doubted, is in the mask. Plain twin: `plain.PlainKernel.mask`, which walks all tokens.
# ======================================================================================================================

@final
cdef class TextEnds:
    """Adds the tokens that leave texts to the buffer of a composer."""

    cdef MaskBuffer* buffer         # borrowed, as the next ten
    cdef Continuations behind
    cdef Dispatches dispatches
    cdef Walk walk
    cdef IndependentMasks masks
    cdef Automaton automaton
    cdef Trie trie
    cdef Objects objects
    cdef Stacks stacks
    cdef Machines machines
    cdef Ints apart                 # owned: exits behind which not all is as behind the others
    cdef int32_t* path              # (longest + 2,) owned: the states on the way to the node at hand
    cdef Meter meter

    def __cinit__(self, Continuations behind, Dispatches dispatches, FiniteTexts finite):
        self.behind, self.dispatches, self.walk, self.masks = behind, dispatches, finite.walk, finite.masks
        self.automaton, self.trie, self.objects = finite.automaton, finite.trie, dispatches.objects
        self.stacks, self.machines, self.meter = dispatches.stacks, dispatches.machines, dispatches.meter
        self.path = <int32_t*>allotted(<size_t>self.trie.longest + 2, 4)

    def __dealloc__(self):
        ints_free(&self.apart)
        released(self.path)

    cdef int end_all(self, IndependentMask mask, const Ints* apart) except -1:
        """Add the tokens that end at any exit that is not `apart`."""
        cdef int i
        for i in range(mask.exits.size):
            if not is_apart(apart, mask.exits.at[i]):
                buffer_node(self.buffer, self.trie.nodes, self.trie.ids, mask.exits.at[i])
        return 0

    cdef int leave_all(self, IndependentMask mask, int behind, const Ints* apart) except -1:
        """Add the tokens that leave a text at any exit that is not `apart` and go on in state `behind`."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const int32_t* child
        cdef int i, node
        cdef uint64_t follow[4]
        cdef const uint64_t* below
        if not mask.exits.size:
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
        for i in range(mask.exits.size if mask.exits.size > MOST_LISTED else 0):
            node, below = mask.exits.at[i], next_bytes(mask) + 4 * i
            if (below[0] & follow[0] | below[1] & follow[1] | below[2] & follow[2] | below[3] & follow[3]
                    and not is_apart(apart, node)):
                self.walk.walk(self.buffer, behind, node + 1, nodes[node].end, nodes[node].depth)
        return 0

    cdef int leave_jointly(self, IndependentMask mask, int q, int stack, int began) except -1:
        """Add the tokens that leave a text without an end of its own, which has begun at a trie node or at the start
        (-1): what may follow is read beside it, and looked at where a token cannot stay inside.

        A word ends at every letter, and others may begin there: walked from each end, most of what is found is what
        the word itself has.
        """
        cdef const TrieNode* nodes = self.trie.nodes
        cdef const int32_t* at = mask.frontier.at
        cdef const int32_t* stop = at + mask.frontier.size
        cdef int i, node, state, size
        cdef Row* row
        self.meter.ticks += mask.frontier.size // 4
        self.path[0] = self.automaton.enter(q, stack, 0) if at < stop else DEAD
        while at < stop:
            node, state = at[0], self.path[at[1]]
            for i in range(at[2]):
                state = self.path[at[1] + i + 1] = self.automaton.next_state(state, at[3 + i])
            at += 3 + at[2]
            row, size = self.automaton.row(state), 0
            for i in range(1, 2 * at[0], 2):
                if successor(row, at[i]) != DEAD:
                    size += nodes[at[i + 1]].end - at[i + 1]
            if size > SMALL_BARE_PART:
                state = self.put_off_others(state, node, q, began)
                row = self.automaton.row(state)
            for i in range(1, 2 * at[0] if size else 0, 2):
                if successor(row, at[i]) != DEAD:
                    self.walk.walk(self.buffer, state, at[i + 1], nodes[at[i + 1]].end, nodes[node].depth)
            at += 1 + 2 * at[0]
        return 0

    cdef int put_off_others(self, int state, int node, int q, int began) except -1:
        """Put off the texts of a state at a trie node, but for the one at q where it began, at another node or at the
        start (-1); return the state without them."""
        cdef int i, first = self.trie.begins[self.trie.ids[self.trie.nodes[node].first]]
        cdef int light = self.walk.light_state(state)
        for i in range(self.trie.nodes[began].depth if began >= 0 else 0, self.trie.nodes[node].depth):
            q = self.automaton.target(q, self.trie.spelled[first + i])
        if light != state:
            self.walk.put_off(self.buffer, state, node, q)
        return light

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
                self.leave_with_recheck(mask)
        return 0

    cdef int leave_with_recheck(self, IndependentMask mask) except -1:
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

        An id of 9 characters on 128,000 tokens: 53,506 states for one mask where each text has a state.
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
        if not mask.exits.size:     # as in most parts, such as of tokens that begin a key
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
            specials = self.behind.special_exits_by_text(mask, q, after, record, behind == DEAD and not native)
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
            buffer_mask(self.buffer, behind, NULL)
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
#
# Owns: the buffer, the finished masks, `Continuations`, `TextEnds`.  Borrows: automaton and machines, stacks,
# positions, `Walk`, `IndependentMasks`, `FiniteTexts`, `Dispatches`, the trie; the meter of work.
# Invariants: bit i of the mask of a state = (a step over token i leads to a state that is not DEAD); equal masks that
# differ from one base in the same blocks are one block of memory; between masks the buffer is empty.
# Plain twin: `plain.PlainKernel.mask`, which walks all tokens.
# ======================================================================================================================

cdef enum:
    ADDED = 32          # ticks that it takes to add a context-independent mask
    TRIED = 16          # and to look at a token again
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
    cdef Continuations behind
    cdef TextEnds ends

    def __cinit__(self, Dispatches dispatches, FiniteTexts finite, stop):
        self.dispatches, self.finite, self.walk, self.masks = dispatches, finite, finite.walk, finite.masks
        self.automaton, self.trie, self.meter = finite.automaton, finite.trie, finite.meter
        self.stacks, self.machines = dispatches.stacks, dispatches.machines
        self.positions, self.stop, self.behind = finite.positions, stop, Continuations(dispatches, self.automaton)
        self.ends = TextEnds(self.behind, dispatches, finite)
        self.ends.buffer = &self.buffer
        buffer_begin(&self.buffer, self.trie.words)

    def __dealloc__(self):
        with nogil:     # other threads run while the system takes pages back
            self.release()
        buffer_end(&self.buffer)

    cdef void release(self) noexcept nogil:
        arena_free(&self.finished)
        self.finished.used = self.finished.size = 0
        map_free(&self.ids)

    cdef int clear(self) except -1:
        """Give all memory back but that of the buffer; no mask is there any more."""
        self.release()
        self.bytes = 0
        self.behind.clear()
        return self.walk.clear()

    cdef int drop(self) noexcept:
        """Leave nothing half done behind, where an operation ended by an exception."""
        buffer_clear(&self.buffer)
        self.walk.bare = False
        return self.finite.drop()

    cdef Mask* compose(self, int state) except NULL:
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
        self.add_state(state)
        self.recheck(state)
        self.add_named(state)
        if self.automaton.states[state].flags & FINAL:
            for token in self.stop:
                buffer_token(&self.buffer, token)
        return 0

    cdef int add_state(self, int state) except -1:
        """Add the tokens of a state, but for what `fill` looks at."""
        cdef int light = self.walk.light_state(state)
        if light != state:
            self.walk.put_off(&self.buffer, state, -1, NONE)
        if light != DEAD:
            self.walk.walk_all(&self.buffer, light)
        return self.add_all()

    cdef int add_all(self) except -1:
        """Work the worklist off, and what is put off meanwhile."""
        cdef Ints* names = &self.buffer.todo.names
        cdef Ints* texts = &self.buffer.todo.texts
        cdef Ints* states = &self.buffer.todo.states
        cdef int i, q, stack, node, begun = 0
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
                self.add_text(q, stack, node)
        return 0

    cdef int recheck(self, int state) except -1:
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
        if node >= 0 and closing >= 0:
            buffer_tokens(&self.buffer, mask.tokens.at, mask.tokens.size)
        elif recording and closing >= 0:
            buffer_mask(&self.buffer, mask, self.masks.inside(mask))
        else:
            buffer_mask(&self.buffer, mask, mask.bits)
        if self.walk.is_bare(q, stack):
            return self.ends.leave_jointly(mask, q, stack, node)
        behind = self.behind.popped(stack)
        if behind != DEAD:
            if closing >= 0 and (node >= 0 or recording):
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
    """Return where a row of a bitmask, an int32 array (rows, words), begins; `bitmask.fits` makes the same test."""
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
# Plain twin: `plain.PlainKernel`, the same methods.
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
    cdef long bytes                 # what `held` said when the last operation ended; it looks into all parts
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
            try:
                self.turnstile.wait()
            finally:
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

    def knows(self, root):
        """Say whether words of a root machine were begun here."""
        return (root, False) in self.roots_known or (root, True) in self.roots_known

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
        """Say whether the mask of a state is known and has not this token.  To step where no word goes on costs
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
                + self.objects.keys.bytes + self.automaton.bytes + self.composer.bytes)

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
# Batches: the masks of many sequences at once, copied without the GIL.  Refused: a second thread to copy with, which
# took 0.1 of 0.2 ms off a batch of 256 masks over 128,000 tokens, 4 MB.
#
# Owns: nothing.  Borrows: the kernels of the sequences, which it pins while it copies, so that none is emptied
# meanwhile.
# Plain twin: `Kernel.fill`, row by row; compared in tests/test_engine.py.
# ======================================================================================================================

cdef struct MaskRow:
    const Mask* mask            # NULL: nothing is allowed
    int32_t* words


cdef void copy_rows(const MaskRow* rows, int count, int words) noexcept nogil:
    cdef int i
    for i in range(count):
        if rows[i].mask == NULL:
            memset(rows[i].words, 0, 4 * <size_t>words)
        else:
            unpack(rows[i].mask, words, <uint32_t*>rows[i].words)


def fill_rows(list matchers, object bitmask, type kind):
    """Write the mask of matcher i into row i of a bitmask: new masks one by one, then all copies without the GIL.

    Returns the rows whose masks took too much work, or kept others waiting, or whose kernel is full, and those of
    subclasses of `kind`, which have a way of their own; these allow nothing.  None: one is no matcher, or its kernel is
    not compiled; nothing is written.
    """
    cdef int i, state, words = -1, count = len(matchers)
    cdef list left = [], pinned = []
    cdef Kernel kernel
    cdef MaskRow* rows = <MaskRow*>cleared(<size_t>count + 1, sizeof(MaskRow))
    try:
        for i in range(count):
            matcher = matchers[i]
            own = matcher._kernel if isinstance(matcher, kind) else None
            if type(own) is not Kernel:
                return None
            kernel, state = <Kernel>own, matcher._last[0]
            kernel.pins += 1
            pinned.append(kernel)
            if words < 0:
                words = kernel.trie.words
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
        with nogil:
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
    /* compilers make vector instructions of this: each place has a constant of its own, and nothing branches. */
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
    MOST_INNER = 20     # and positions behind characters of patterns: of those further in, one in five is met


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
        """Say whether a position has a context-independent mask that is worth making: not numbers, which most tokens
        enter in their middle."""
        cdef Position* p = &self.kernel.positions.at[q >> 1]
        if not q & 1 or p.place != BODY or self.kernel.positions.spellings[p.spelling].closing < 0:
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
