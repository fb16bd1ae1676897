# cython: language_level=3
"""Masks while they are made and when they are finished: what differs from a mask that is kept anyway.  Header only.

Most masks are empty but for a few tokens, or a context-independent mask and a few tokens more.  To zero, fill and copy
the 16 KB of a mask over 128,000 tokens would cost more than all else that many first visits need; so a draft knows
which of its blocks were touched, and a finished mask lists the blocks in which it may differ from its base.

Owns: whoever has a Draft owns its memory (`draft_begin`, `draft_end`) and hands it to the parts that add to it.
Borrows: a base, which lives as long as the kernel that it was drafted for.
Invariants: between masks `bits` and `touched` are zero and the worklist is empty; bits are set in touched blocks only.
Plain twin: `twin.automaton._pack`, which makes a mask of a list of tokens.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset
from libc.stdlib cimport free
from constrained.engine.memory._arena cimport Arena, arena_take
from constrained.engine.memory._memory cimport allotted, cleared
from constrained.engine.kernel._tables cimport Ints, Map, ints_add, ints_free, map_free, mix
from constrained.engine.kernel._trie cimport Node

cdef enum:
    BLOCK = 4                   # words of a block
    BLOCK_SHIFT = 2
    BLOCK_BITS = 7              # a token's number without these is its block's
    RECORD = 1 + BLOCK
    MERGED = 2


cdef struct Worklist:           # what is still to be added to a draft
    Ints texts                  # triples text position, stack, trie node: texts that a walk entered; -1: at its start
    Ints names                  # quadruples covering position, text position, stack, node; see `_finite_texts`
    Ints doubtful               # tokens that are looked at again when all others are drafted
    Map added                   # (position and stack, node) of the texts below nodes, where these are many


cdef struct Draft:
    uint32_t* bits              # (blocks * BLOCK,) tokens beside those of `base`; zero between masks
    # (blocks,) where bits may be set; MERGED: those of the base are; 0 up to a multiple of 8
    uint8_t* touched
    const uint32_t* base        # a whole context-independent mask, padded to whole blocks, or NULL
    const Ints* base_words      # the base as pairs (word, its bits) where these are few, else NULL
    int words, blocks
    Ints records                # (RECORD * blocks,) room to pack
    Ints removed                # tokens of base or bits that are not allowed after all
    Worklist todo


cdef struct Mask:               # the blocks that may differ follow in memory, each as its number and its words
    const uint32_t* base        # borrowed from an IndependentMask that lives as long; NULL: no token
    int64_t count               # of blocks; -1: all words instead


cdef inline int32_t* listed(const Mask* mask) noexcept nogil:
    return <int32_t*>(mask + 1)


cdef inline size_t mask_bytes(const Mask* mask, int words) noexcept nogil:
    return sizeof(Mask) + 4 * <size_t>(words if mask.count < 0 else RECORD * mask.count)


cdef inline int draft_begin(Draft* draft, int words) except -1:
    """Give a draft its memory; `words` are those of a mask."""
    draft.words, draft.blocks = words, (words + BLOCK - 1) // BLOCK
    draft.bits = <uint32_t*>cleared(BLOCK * (draft.blocks + 8), 4)
    draft.touched = <uint8_t*>cleared(draft.blocks + 8, 1)
    draft.records.at = <int32_t*>allotted(RECORD * (draft.blocks + 1), 4)
    return 0


cdef inline void draft_end(Draft* draft) noexcept:
    """Give the memory of a draft back."""
    free(draft.bits)
    free(draft.touched)
    ints_free(&draft.records)
    ints_free(&draft.removed)
    ints_free(&draft.todo.texts)
    ints_free(&draft.todo.names)
    ints_free(&draft.todo.doubtful)
    map_free(&draft.todo.added)


cdef inline void draft_token(Draft* draft, int token) noexcept nogil:
    draft.bits[token >> 5] |= <uint32_t>1 << (token & 31)
    draft.touched[token >> BLOCK_BITS] = 1


cdef inline void draft_node(Draft* draft, const Node* trie, const int32_t* ids, int node) noexcept nogil:
    """Add the tokens that end at a trie node."""
    cdef int i
    for i in range(trie[node].first, trie[node + 1].first):
        draft_token(draft, ids[i])


cdef inline void draft_tokens(Draft* draft, const int32_t* tokens, int count) noexcept nogil:
    cdef int i
    for i in range(count):
        draft_token(draft, tokens[i])


cdef inline void draft_words(Draft* draft, const Ints* pairs) noexcept nogil:
    """Add a mask given as pairs (word, its bits)."""
    cdef int i
    for i in range(0, pairs.size, 2):
        draft.bits[pairs.at[i]] |= <uint32_t>pairs.at[i + 1]
        draft.touched[pairs.at[i] >> BLOCK_SHIFT] = 1


cdef inline void draft_whole(Draft* draft, const uint32_t* more, const Ints* words) noexcept nogil:
    """Add a whole mask that is kept as long as the finished one; `words` are its pairs (word, bits), or NULL where
    these are many."""
    cdef int i
    if draft.base == NULL:
        draft.base, draft.base_words = more, words
    elif draft.base == more:
        return
    elif words != NULL:
        draft_words(draft, words)
    elif draft.base_words != NULL:
        draft_words(draft, draft.base_words)
        draft.base, draft.base_words = more, NULL
    else:
        for i in range(draft.words):
            draft.bits[i] |= more[i]
        memset(draft.touched, 1, draft.blocks)


cdef inline bint draft_has(const Draft* draft, int token) noexcept nogil:
    return ((draft.bits[token >> 5] | (draft.base[token >> 5] if draft.base != NULL else 0)) >> (token & 31)) & 1


cdef inline int draft_doubt(Draft* draft, const int32_t* ids, int first, int last) except -1:
    """Note that the tokens [first, last) of the trie are to be looked at again."""
    cdef int i
    for i in range(first, last):
        ints_add(&draft.todo.doubtful, ids[i])
    return 0


cdef inline int draft_doubt_new(Draft* draft, const int32_t* ids, int first, int last, bint add) except -1:
    """As `draft_doubt` for those that are not drafted yet; add them if told to."""
    cdef int i
    for i in range(first, last):
        if not draft_has(draft, ids[i]):
            ints_add(&draft.todo.doubtful, ids[i])
            if add:
                draft_token(draft, ids[i])
    return 0


cdef inline void draft_clear(Draft* draft) noexcept:
    """Forget what is drafted and what is to be added."""
    cdef int eight
    for eight in range(0, draft.blocks, 8):
        if (<uint64_t*>(draft.touched + eight))[0]:
            memset(draft.bits + BLOCK * eight, 0, 8 * 4 * BLOCK)
    memset(draft.touched, 0, draft.blocks)
    draft.base = NULL
    draft.base_words = NULL
    draft.removed.size = draft.todo.texts.size = draft.todo.names.size = draft.todo.doubtful.size = 0
    map_free(&draft.todo.added)


cdef inline void merge_base(Draft* draft, int block) noexcept nogil:
    """Add the base's tokens to a block, once."""
    cdef int i
    cdef uint32_t* bits = draft.bits + BLOCK * block
    cdef const uint32_t* base = draft.base + BLOCK * block
    if draft.base != NULL and draft.touched[block] != MERGED:
        for i in range(BLOCK):
            bits[i] |= base[i]
    draft.touched[block] = MERGED


cdef inline Mask* pack(Draft* draft, Arena* arena, uint64_t* digest) except NULL:
    """Return the finished mask and a number that equal masks share; the draft is left clear."""
    cdef int eight, block, i, token, count = 0, words = draft.words
    cdef int32_t* record = draft.records.at
    cdef const uint32_t* base = draft.base
    cdef Mask* mask
    for i in range(draft.removed.size):
        token = draft.removed.at[i]
        merge_base(draft, token >> BLOCK_BITS)
        draft.bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))
    for eight in range(0, draft.blocks, 8):
        if not (<uint64_t*>(draft.touched + eight))[0]:
            continue
        for block in range(eight, eight + 8):
            if draft.touched[block]:
                merge_base(draft, block)
                record[0] = block
                memcpy(record + 1, draft.bits + BLOCK * block, 4 * BLOCK)
                memset(draft.bits + BLOCK * block, 0, 4 * BLOCK)
                record += RECORD
                count += 1
        (<uint64_t*>(draft.touched + eight))[0] = 0
    draft.base, draft.base_words, draft.removed.size = NULL, NULL, 0
    digest[0] = digest_of(draft.records.at, RECORD * count) ^ <size_t>base
    # PERF: where memory is the limit, a list of blocks is written at a third of the speed of whole masks
    if 3 * RECORD * count <= words:
        mask = <Mask*>arena_take(arena, sizeof(Mask) + 4 * RECORD * <size_t>count)
        mask.base, mask.count = base, count
        memcpy(listed(mask), draft.records.at, 4 * RECORD * <size_t>count)
        return mask
    mask = <Mask*>arena_take(arena, sizeof(Mask) + 4 * <size_t>words)
    mask.base, mask.count = NULL, -1
    write_blocks(base, draft.records.at, count, words, <uint32_t*>listed(mask))
    return mask


cdef inline uint64_t digest_of(const int32_t* words, int count) noexcept nogil:
    """Return a hash of some words, in four lanes, so that no product waits for the one before."""
    cdef uint64_t lane[4]
    cdef const uint64_t* pairs = <const uint64_t*>words
    cdef int i, j
    for j in range(4):
        lane[j] = <uint64_t>count + j
    for i in range(0, count // 2 - 3, 4):
        for j in range(4):
            lane[j] = (lane[j] ^ pairs[i + j]) * <uint64_t>0x9E3779B97F4A7C15
            lane[j] ^= lane[j] >> 29
    for i in range(count & ~7, count):
        lane[i & 3] = (lane[i & 3] ^ <uint32_t>words[i]) * <uint64_t>0x9E3779B97F4A7C15
    return mix(mix(lane[0], lane[1]), mix(lane[2], lane[3]))


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
