# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Masks that are added to one another time and again: their union, kept as one.

Where a key may be written, each mask begins with what stays inside a key, and with what goes on behind it to its value:
the two are the same for all states of an object, and for all objects with such values.  So the second time that two
masks come together their union is made, and becomes the base of the mask; only what else is in it is listed in blocks.

    inside a key ─┐
                  ├─ union ─ base of a mask, and a few blocks: of what goes on behind the value
    behind a key ─┘

Owns: which unions this kernel uses.  Borrows: the vocabulary's store, in which they are kept, the meter of work.  The
buffer it is handed.
Invariants: a union is never changed; behind `add` the buffer has what it had, and the tokens of the mask.
Plain twin: `add_apart`, which adds word by word, as all is added that was not met before.
PERF: two hundred blocks a mask less, a third of what the mask of a key takes.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy
from constrained.engine.memory._memory cimport cleared
from constrained.engine.memory._meter cimport Meter, work
from constrained.engine.kernel._tables cimport Ints, Map, map_free, map_get, map_put
from constrained.engine.kernel.masks._building cimport Counter, IndependentMask, stored
from constrained.engine.kernel.masks._mask_buffer cimport BLOCK, HELD, MaskBuffer, buffer_words

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
