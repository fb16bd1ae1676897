# cython: language_level=3
"""Growing arrays and hash tables of the compiled kernel: plain C, header only, so that every module inlines them.

`Ints` is a vector of int32.  `Map` is an open addressing table from 128-bit keys to int32; absent is -1.  `Arena` gives blocks of memory
that are freed all at once.  All only grow; their owner frees them.  Running out of memory raises MemoryError at the owner (`ok` turns 0).
"""
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

cdef extern from "stdlib.h" nogil:
    void* aligned_alloc(size_t alignment, size_t size)

cdef extern from *:
    """
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif
    #if !defined(MADV_HUGEPAGE)
    #define MADV_HUGEPAGE 0
    #define madvise(address, length, advice) 0
    #endif
    """
    int madvise(void* address, size_t length, int advice) noexcept nogil
    int MADV_HUGEPAGE


cdef struct Node:
    int32_t end, first, depth, byte     # of a node of the token trie; see `trie.TokenTrie`


cdef struct Ints:
    int32_t* at
    int size
    int room


cdef inline int ints_add(Ints* v, int32_t x) except -1:
    cdef int32_t* grown
    if v.size == v.room:
        grown = <int32_t*>realloc(v.at, 4 * (2 * v.room + 16))
        if grown == NULL:
            raise MemoryError
        v.at = grown
        v.room = 2 * v.room + 16
    v.at[v.size] = x
    v.size += 1
    return v.size - 1


cdef enum:
    CHUNK = 1 << 16     # bytes of the first chunk; each is twice as large as the one before, until they are HUGE
    HUGE = 1 << 21
    LINE = 64           # bytes of a cache line; a chunk begins with one that holds the address of the chunk before


cdef struct Arena:
    char* chunk
    size_t used, size


cdef inline void* arena_take(Arena* arena, size_t count) except NULL:
    """Return `count` bytes, 16-byte aligned, not zeroed; a multiple of 64 bytes right after others of that kind fills whole cache lines."""
    cdef char* fresh
    cdef size_t size = (count + 15) & ~<size_t>15
    if arena.chunk == NULL or arena.used + size > arena.size:
        arena.size = min(max(2 * arena.size, <size_t>CHUNK), <size_t>HUGE)
        if LINE + size > arena.size:
            arena.size = (LINE + size + LINE - 1) & ~<size_t>(LINE - 1)
        fresh = <char*>aligned_alloc(HUGE if arena.size == HUGE else LINE, arena.size)
        if fresh == NULL:
            raise MemoryError
        if arena.size == HUGE:
            madvise(fresh, HUGE, MADV_HUGEPAGE)     # PERF: 512 small pages are cleared one by one, 0.6 µs each
        (<char**>fresh)[0] = arena.chunk
        arena.chunk, arena.used = fresh, LINE
    arena.used += size
    return arena.chunk + arena.used - size


cdef inline void arena_free(Arena* arena) noexcept:
    cdef char* before
    while arena.chunk != NULL:
        before = (<char**>arena.chunk)[0]
        free(arena.chunk)
        arena.chunk = before


cdef struct Entry:
    uint64_t a
    uint64_t b
    int32_t value   # -1: free slot


cdef struct Map:
    Entry* at
    uint64_t mask   # slots - 1
    int size


cdef inline uint64_t mix(uint64_t a, uint64_t b) noexcept nogil:
    cdef uint64_t h = a * <uint64_t>0x9E3779B97F4A7C15 ^ (b + <uint64_t>0x7F4A7C15F39CC060) * <uint64_t>0xC2B2AE3D27D4EB4F
    return h ^ (h >> 29) ^ (h >> 47)


cdef inline int map_grow(Map* m) except -1:
    cdef uint64_t slots = (4 if m.mask < 4096 else 2) * (m.mask + 1) if m.at != NULL else 64
    cdef Entry* old = m.at
    cdef Entry* fresh = <Entry*>malloc(slots * sizeof(Entry))
    cdef uint64_t i, j, count = m.mask + 1 if old != NULL else 0
    if fresh == NULL:
        raise MemoryError
    for i in range(slots):
        fresh[i].value = -1
    for i in range(count):
        if old[i].value >= 0:
            j = mix(old[i].a, old[i].b) & (slots - 1)
            while fresh[j].value >= 0:
                j = (j + 1) & (slots - 1)
            fresh[j] = old[i]
    free(old)
    m.at = fresh
    m.mask = slots - 1
    return 0


cdef inline int map_get(Map* m, uint64_t a, uint64_t b) noexcept nogil:
    if m.at == NULL:
        return -1
    cdef uint64_t i = mix(a, b) & m.mask
    while m.at[i].value >= 0:
        if m.at[i].a == a and m.at[i].b == b:
            return m.at[i].value
        i = (i + 1) & m.mask
    return -1


cdef inline int map_put(Map* m, uint64_t a, uint64_t b, int32_t value) except -1:
    """Add a key that is absent; value >= 0."""
    if m.at == NULL or 2 * <uint64_t>m.size > m.mask:
        map_grow(m)
    cdef uint64_t i = mix(a, b) & m.mask
    while m.at[i].value >= 0:
        i = (i + 1) & m.mask
    m.at[i].a = a
    m.at[i].b = b
    m.at[i].value = value
    m.size += 1
    return 0


cdef inline uint64_t pair(int32_t a, int32_t b) noexcept nogil:
    return (<uint64_t><unsigned int>a << 32) | <uint64_t><unsigned int>b
