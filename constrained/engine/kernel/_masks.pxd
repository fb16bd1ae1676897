"""Masks of texts for the kernel; explained in _masks.pyx."""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset
from constrained.engine.kernel._automaton cimport Automaton, Machines, Mask, Row, Stacks
from constrained.engine.kernel._texts cimport LanguageAt, Languages, Positions
from constrained.engine.memory._memory cimport (
    allotted, Arena, arena_take, cleared, Ints, ints_add, ints_free, Map, map_free, Meter, mix, released)
from constrained.engine.tokens._tokens cimport Trie, TrieNode


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
    Ints states                 # pairs state, trie node: to be walked below the node, or added as a shared part
    Ints doubtful               # tokens that are looked at again when all others are there
    Map added                   # (position and stack, node) of the texts below nodes, where these are many


cdef struct MaskBuffer:
    uint32_t* bits              # (blocks * BLOCK,) tokens beside those of `base`; zero between masks
    # (blocks,) where bits may be set; MERGED: those of the base are; 0 up to a multiple of 64
    uint8_t* touched
    const uint32_t* base        # a whole context-independent mask, padded to whole blocks, or NULL
    void* base_of               # the IndependentMask that it is of, borrowed
    const void* held[HELD]      # words of masks that were added whole; see `Unions`
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


cdef inline int next_touched(const MaskBuffer* buffer, int block) noexcept nogil:
    """Return the first touched block from one on, or one behind all."""
    while block < buffer.blocks:
        if not block & 7 and not marks_of_eight(buffer.touched + block):
            block += 8
        elif buffer.touched[block]:
            return block
        else:
            block += 1
    return block


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

    PERF: in halves of a block; words that are read again as a whole, right after each was written, wait for each other.
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

    PERF: which blocks were touched is as good as chance, so that a branch for each would be guessed wrongly for every
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
    # PERF: where memory is the limit, a list of blocks is written at a third of the speed of whole masks
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


@final
cdef class Staying:
    cdef Automaton automaton        # borrowed, as the next two
    cdef Positions positions
    cdef Languages languages
    cdef uint64_t classes[256]      # the bit of each byte's class, where it is the first of a character
    cdef int32_t leads[16]          # pairs: the code points of each class of leading bytes
    cdef int lead_bytes[8]          # the first of each
    cdef int lead_count

    cdef bint between(self, int state) noexcept
    cdef uint64_t leaving(self, int state) except 0
    # internals
    cdef uint64_t leaving_position(self, int position) except 0
    cdef uint64_t find_leaving(self, int position) except 0


cdef class Counter:
    cdef readonly long bytes        # that all context-independent masks of a vocabulary take which are alive


@final
cdef class IndependentMask:
    # (words,) tokens that stay inside or end where they leave; NULL in a part, and where `words` are few
    cdef uint32_t* bits
    cdef uint32_t* inside           # (words,) tokens that stay inside; NULL until asked for
    cdef Ints words                 # pairs (word, its bits) of `bits` where they are few
    cdef Ints tokens                # of a part: the tokens that stay inside
    cdef Ints exits                 # trie nodes at which a token leaves the text
    cdef Ints exit_counts           # characters read at each exit, where they are counted
    # pairs token, characters begun; of tokens that have another number of them, because of escapes
    cdef Ints counted
    # pairs token, characters begun, of all tokens that begin more than `all_long`; those of the most first
    cdef Ints longest_first
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

    cdef int weigh(self, Counter counter, int words) except -1


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


@final
cdef class Builder:
    cdef Meter meter                # borrowed, as the next four
    cdef Trie trie
    cdef Automaton automaton
    cdef Positions positions
    cdef Counter counter            # of all context-independent masks of the vocabulary
    cdef Staying staying

    cdef Ints runs                  # pairs: the tokens [first, last) of the trie that a walk keeps
    cdef uint32_t* aside            # (words,) a mask in the making, zeros between

    cdef IndependentMask build(self, int q, int node, bint counts)
    cdef int note_words(self, IndependentMask mask) except -1
    cdef int note_bytes(self, IndependentMask mask) except -1
    # internals
    cdef int walk(self, IndependentMask made, int node, bint bare, int32_t* path) except -1
    cdef int walk_below(self, IndependentMask made, int node, bint bare, int32_t* path, Walked* walked,
                        int at, int stop) except -1
    cdef int keep_end(self, IndependentMask made, int node, int at, int first, int last) except -1
    cdef int next_other(self, const Row* row, int at, int stop, int depth, int after) noexcept
    cdef int next_live(self, const Row* row, int at, int stop, int depth) noexcept
    cdef int walk_counting(self, IndependentMask made, int32_t* path, int32_t* extra, int32_t* trail) except -1
    cdef int keep_run(self, int first, int last) except -1
    cdef int gather(self, IndependentMask made, int node, bint bare) except -1
    cdef int gather_few(self, IndependentMask made, bint bare) except -1
    cdef int list_token(self, IndependentMask made, int token) except -1
    cdef int take_words(self, IndependentMask made) noexcept
    cdef int keep_exit(self, IndependentMask made, const int32_t* trail, int depth, int extra) except -1
    cdef int count_all(self, IndependentMask made, int first, int last, int more) except -1


@final
cdef class CountedMasks:
    cdef object store               # of the vocabulary, shared by its kernels: `registry.MaskStore`
    cdef dict entries               # the store's
    cdef Builder builder            # borrowed, as the next four
    cdef Meter meter
    cdef Trie trie
    cdef Positions positions
    cdef Languages languages

    cdef IndependentMask mask(self, object spelling, object counted)
    # internals
    cdef IndependentMask base(self, object spelling, object characters)
    cdef IndependentMask kept(self, tuple key, IndependentMask mask)
    cdef IndependentMask limited(self, IndependentMask base, int least, int most)
    cdef int keep_short(self, IndependentMask level, IndependentMask base, int most) except -1
    cdef int keep_exits(self, IndependentMask level, IndependentMask base, int least, int most) except -1
    cdef IndependentMask within(self, int most)
    cdef IndependentMask make_within(self, int most)
    cdef IndependentMask copied(self, IndependentMask mask)
    cdef int list_long(self, IndependentMask base) except -1
    cdef int note_long(self, IndependentMask base, int token, int count, uint32_t* met, Ints* found) except -1
    cdef int sort_long(self, IndependentMask base, const Ints* found) except -1


@final
cdef class Grouping:
    cdef Meter meter                # borrowed, as the next two
    cdef Trie trie
    cdef Counter counter

    cdef int group(self, IndependentMask mask, object spelling, int node) except -1
    cdef int find_twice(self, IndependentMask mask, int node) except -1
    # internals
    cdef dict grouped(self, IndependentMask mask, object spelling, int node)
    cdef dict inherited(self, IndependentMask mask, object spelling)


cdef enum:
    MOST_LISTED = 512       # exits of a mask up to which the nodes below them are listed by their bytes


@final
cdef class IndependentMasks:
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

    cdef IndependentMask whole(self, int q)
    cdef IndependentMask part(self, int q, int node)
    cdef IndependentMask behind_key(self, IndependentMask key, int entry, object name)
    cdef uint32_t* inside(self, IndependentMask mask) except NULL
    cdef int group(self, IndependentMask mask, int q, int node) except -1
    cdef int list_children(self, IndependentMask mask) except -1
    cdef int clear(self) except -1
    # internals
    cdef IndependentMask empty(self)
    cdef IndependentMask kept(self, tuple key, IndependentMask mask)
    cdef object language(self, int q)
    cdef object spelling(self, int q)
    cdef int filled(self, int q) except -1
    cdef IndependentMask make_whole(self, int q)
    cdef int walked(self, int q, object language, object key) except -1
    cdef IndependentMask universal(self, int q, object spelling)
    cdef int find_exits(self, IndependentMask made, int q, int32_t* path) except -1
    cdef int list_words(self, IndependentMask made) except -1
    cdef IndependentMask keep_behind(self, tuple pair, int entry)
    cdef int walk_behind(self, IndependentMask made, int exit_, int32_t* path) except -1
    cdef int inherit_children(self, IndependentMask mask) except -1


@final
cdef class Walk:
    cdef Meter meter                # borrowed, as the next six
    cdef Trie trie
    cdef Automaton automaton
    cdef Machines machines
    cdef Stacks stacks
    cdef Positions positions
    cdef Languages languages
    cdef int any_text               # the language of all texts
    cdef int32_t* path              # (longest + 2,) the states on the way to the node at hand
    cdef int32_t* above             # (longest + 2,) and those nodes, -1: those that are not wide
    cdef Ints light                 # configurations of a state without its texts
    cdef bint bare                  # whether texts without an end of their own are walked as all else is
    cdef Map bare_lights            # state -> the state without the texts that are put off then

    cdef int walk(self, MaskBuffer* buffer, int state, int at, int stop, int base) except -1
    cdef int walk_all(self, MaskBuffer* buffer, int state) except -1
    cdef int below(self, MaskBuffer* buffer, int state, int node) except -1
    cdef int enter(self, MaskBuffer* buffer, int state, int node) except -1
    cdef int light_state(self, int state) except -1
    cdef bint is_bare(self, int q, int stack) noexcept
    cdef int clear(self) except -1
    cdef int put_off(self, MaskBuffer* buffer, int state, int node) except -1
    # internals
    cdef int wide_above(self, int at, int stop, int base) noexcept
    cdef int beside(self, int node, int byte, const Row* row) noexcept
    cdef int split(self, int state) except -1
    cdef bint is_heavy(self, int q, int stack) except -1
    cdef bint refuses(self, int stack) noexcept
    cdef int covering(self, int state) except -2
    cdef bint is_covered(self, int q, int cover) noexcept


@final
cdef class FiniteTexts:
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
    cdef int32_t* above             # and the nodes there, -1: those that are not wide
    cdef int32_t* marks             # (256,) bytes that a text may begin with; zeros between

    cdef int add(self, MaskBuffer* buffer, int q, int stack, int node) except -1
    cdef int add_names(self, MaskBuffer* buffer, int cover, int q, int stack, int node) except -1
    cdef int drop(self) noexcept
    # internals
    cdef int first_bytes(self, int q, uint8_t* possible) except -1
    cdef int walk_texts(self, MaskBuffer* buffer, int q, int stack, int at, int stop, int base) except -1
    cdef int leave_name(self, MaskBuffer* buffer, list exits, LanguageAt* start, int i, int q, int stack) except -1
    cdef int put_off(self, MaskBuffer* buffer, int state, int node) except -1
    cdef int beside(self, LanguageAt* start, int at, int depth, int closing) noexcept
    cdef void enter(self, const LanguageAt* start, int depth, int low, int high) noexcept
    cdef bint may_leave(self, LanguageAt* start, bint closes, bint escapes, int low, int high, int depth) noexcept
    cdef bint is_taken(self, int stack) noexcept
    cdef int state_of(self, int spelling, LanguageAt* start, int low, int high, int depth, int stack) except -1


@final
cdef class Unions:
    cdef Meter meter                # borrowed, as the next two
    cdef object store               # of the vocabulary: `registry.MaskStore`
    cdef dict entries               # the store's
    cdef Counter counter            # of all context-independent masks of the vocabulary
    cdef int words                  # of a mask
    cdef list masks                 # the unions that this kernel uses
    cdef Map ids                    # (address of a base, of what is added) -> index of `masks`

    cdef int add(self, MaskBuffer* buffer, IndependentMask mask, const uint32_t* bits) except -1
    cdef int clear(self) except -1
    # internals
    cdef int add_apart(self, MaskBuffer* buffer, IndependentMask mask, const uint32_t* bits) except -1
    cdef IndependentMask find(self, IndependentMask owner, const uint32_t* base, IndependentMask added,
                              const uint32_t* bits)
    cdef IndependentMask made(self, const uint32_t* base, const uint32_t* bits, const Ints* pairs)
