# cython: language_level=3
"""Growing arrays and hash tables of the compiled kernel: plain C, header only, so that every module inlines them.

`Ints` is a vector of int32.  `Map` is an open addressing table from 128-bit keys to int32; absent is -1.  Both only
grow; their owner frees them.  Where memory runs out they stay as they were.  Whoever adds to several of them makes
room in all first (`ints_room`, `map_room`), after which `ints_put` and `map_put` cannot fail: nobody ever sees half of
an entry.
"""
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free
from constrained.engine.memory._memory cimport allotted, enlarged


cdef struct Ints:
    int32_t* at
    int size
    int room


cdef inline int ints_room(Ints* v, int more) except -1:
    """Make room for some more numbers."""
    if more > v.room - v.size:
        v.at = <int32_t*>enlarged(v.at, &v.room, 4, more - (v.room - v.size))
    return 0


cdef inline void ints_put(Ints* v, int32_t x) noexcept nogil:
    """Add a number for which there is room."""
    v.at[v.size] = x
    v.size += 1


cdef inline int ints_add(Ints* v, int32_t x) except -1:
    if v.size == v.room:
        v.at = <int32_t*>enlarged(v.at, &v.room, 4, 1)
    v.at[v.size] = x
    v.size += 1
    return v.size - 1


cdef inline void ints_free(Ints* v) noexcept:
    """Give the memory back."""
    free(v.at)
    v.at, v.size, v.room = NULL, 0, 0


cdef struct Entry:
    uint64_t a
    uint64_t b
    int32_t value   # -1: free slot


cdef struct Map:
    Entry* at
    uint64_t mask   # slots - 1
    int size


cdef inline uint64_t mix(uint64_t a, uint64_t b) noexcept nogil:
    cdef uint64_t h = (
        a * <uint64_t>0x9E3779B97F4A7C15 ^ (b + <uint64_t>0x7F4A7C15F39CC060) * <uint64_t>0xC2B2AE3D27D4EB4F)
    return h ^ (h >> 29) ^ (h >> 47)


cdef inline int map_grow(Map* m) except -1:
    cdef uint64_t slots = (4 if m.mask < 4096 else 2) * (m.mask + 1) if m.at != NULL else 64
    cdef Entry* old = m.at
    cdef Entry* fresh = <Entry*>allotted(slots, sizeof(Entry))
    cdef uint64_t i, j, count = m.mask + 1 if old != NULL else 0
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


cdef inline void map_free(Map* m) noexcept:
    """Give the memory back."""
    free(m.at)
    m.at, m.mask, m.size = NULL, 0, 0


cdef inline int map_get(Map* m, uint64_t a, uint64_t b) noexcept nogil:
    if m.at == NULL:
        return -1
    cdef uint64_t i = mix(a, b) & m.mask
    while m.at[i].value >= 0:
        if m.at[i].a == a and m.at[i].b == b:
            return m.at[i].value
        i = (i + 1) & m.mask
    return -1


cdef inline int map_room(Map* m) except -1:
    """Make room for one more key."""
    return map_grow(m) if m.at == NULL or 2 * <uint64_t>m.size > m.mask else 0


cdef inline int map_put(Map* m, uint64_t a, uint64_t b, int32_t value) except -1:
    """Add a key that is absent; value >= 0.  Cannot fail behind `map_room`."""
    map_room(m)
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
