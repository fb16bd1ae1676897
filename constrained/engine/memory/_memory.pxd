"""Memory of the compiled kernel for the units above it; explained in _memory.pyx.  Arrays and tables are inline."""
from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy




cdef enum:
    MOST_ITEMS = 0x7FFFFFFF     # of an array: they are counted in int32


cdef void* allotted(size_t count, size_t item) except NULL
cdef void* cleared(size_t count, size_t item) except NULL
cdef void* enlarged(void* block, int* room, size_t item, size_t more) except NULL
cdef void released(void* block) noexcept nogil


cdef struct Arena:
    char* chunk
    size_t used, size


cdef void* arena_chunk(Arena* arena, size_t size) except NULL
cdef void arena_free(Arena* arena) noexcept nogil


cdef inline void* arena_take(Arena* arena, size_t count) except NULL:
    """Return `count` bytes, 16-byte aligned, not zeroed; a multiple of 64 bytes right after others of that kind fills
    whole cache lines."""
    cdef size_t size = (count + 15) & ~<size_t>15
    if arena.chunk == NULL or arena.used + size > arena.size:
        arena_chunk(arena, size)
    arena.used += size
    return arena.chunk + arena.used - size


cdef inline void arena_undo(Arena* arena, size_t count) noexcept:
    """Take back the last `count` bytes that were taken."""
    arena.used -= (count + 15) & ~<size_t>15


cdef enum:
    TICKS = 128             # of a unit of work, which is about a microsecond; a tick is a node of the trie
    SLICE = 500 * TICKS     # worked off before the budget hears of it
    LITTLE = 20 * TICKS     # what an operation may do without the budget hearing of it


cdef class Meter:
    cdef long ticks         # not yet handed on
    cdef long began         # what the budget had left when the operation began to count
    cdef long turn          # units since other threads could run
    cdef int waiting        # threads that wait for the kernel
    cdef bint opened        # whether the budget counts for this thread
    cdef object budget      # of the operation; None: the thread's own
    cdef object outer       # the budget that counted before

    cdef int begin(self) except -1
    cdef int flush(self) except -1
    cdef int close(self) except -1
    cdef int forget(self) except -1
    cdef bint wanted(self) except -1


cdef inline int work(Meter meter, int ticks) except -1:
    """Charge some ticks."""
    meter.ticks += ticks
    return meter.flush() if meter.ticks >= SLICE else 0


cdef inline int ask(Meter meter) except -1:
    """Before Python objects are asked for something that they count themselves."""
    return 0 if meter.opened else meter.begin()


cdef class Turnstile:
    cdef PyThread_type_lock lock
    # as many processes as there were between the first one and this when the lock was made
    cdef long forks
    # whether the holder of the lock found the garbage collector at work
    cdef bint collects
    cdef long holder            # the thread, 0: none

    cdef bint is_inherited(self) noexcept
    cdef int renew(self) except -1
    cdef bint try_pass(self) noexcept
    cdef int wait(self) except -1
    cdef int put_off_collections(self) except -1
    cdef int leave(self) noexcept
    cdef int unlock(self) noexcept


# ======================================================================================================================
# Growing arrays and hash tables of the compiled kernel: plain C, header only, so that every module inlines them.
#
# `Ints` is a vector of int32.  `Map` is an open addressing table from 128-bit keys to int32; absent is -1; a large one
# grows without a pause, as its entries move while others are added, and keys that are made one after another stand side
# by side.  Both only grow; their owner frees them.  Where
# memory runs out they stay as they were.  Whoever adds to several of them makes room in all first (`ints_room`,
# `map_room`), after which `ints_put` and `map_put` cannot fail: nobody ever sees half of an entry.
# ======================================================================================================================

cdef enum:
    MOVED = 8       # slots of an old table for each new entry: two would do
    SMALL = 1024    # slots of a table that moves at once; such a table, or a vector of so many, is not widened
    NEAR = 4        # slots that are tried where the neighbours of a key stand, before those that its hash says


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


cdef inline int ints_extend(Ints* v, const Ints* more) except -1:
    if more.size:
        ints_room(v, more.size)
        memcpy(v.at + v.size, more.at, 4 * <size_t>more.size)
        v.size += more.size
    return 0


cdef inline void ints_free(Ints* v) noexcept nogil:
    """Give the memory back."""
    released(v.at)
    v.at, v.size, v.room = NULL, 0, 0


cdef inline int first_not_below(const Ints* v, int left, int right, int least) noexcept nogil:
    """Return the first index of [left, right), where numbers ascend, whose number is not below `least`, or `right`."""
    cdef int middle
    while left < right:
        middle = (left + right) >> 1
        if v.at[middle] < least:
            left = middle + 1
        else:
            right = middle
    return left


cdef inline int bits_in(int32_t word) noexcept nogil:
    """Return how many bits of a word are set."""
    cdef int found = 0
    cdef unsigned int left = <unsigned int>word
    while left:
        left &= left - 1
        found += 1
    return found


cdef struct Entry:
    uint64_t a
    uint64_t b
    int32_t number  # value + 1; 0: free slot
    uint32_t near


cdef struct Map:
    Entry* at
    uint64_t mask   # slots - 1
    int size
    Entry* old      # the table before the last growth, until its entries are in `at` too; NULL: they are
    uint64_t old_mask
    uint64_t moved  # slots of `old` whose entries are


cdef inline uint64_t mix(uint64_t a, uint64_t b) noexcept nogil:
    cdef uint64_t h = (
        a * <uint64_t>0x9E3779B97F4A7C15 ^ (b + <uint64_t>0x7F4A7C15F39CC060) * <uint64_t>0xC2B2AE3D27D4EB4F)
    return h ^ (h >> 29) ^ (h >> 47)


cdef inline uint32_t nearness(uint64_t a, uint64_t b) noexcept nogil:
    """Return the sum of the four numbers of a key: most are given out one after another, so keys that are made one
    after another have near sums."""
    return <uint32_t>(a + (a >> 32) + b + (b >> 32))


cdef inline void entry_put(Entry* at, uint64_t mask, Entry entry) noexcept nogil:
    """Write an entry to the first free slot of those where `slots_get` looks for it."""
    cdef uint64_t i = 2 * <uint64_t>entry.near, end = i + NEAR, step
    while i < end and at[i & mask].number:
        i += 1
    if i == end:
        i = mix(entry.a, entry.b)
        step = (i >> 32) | 1
        while at[i & mask].number:
            i += step
    at[i & mask] = entry


cdef inline int slots_get(const Entry* at, uint64_t mask, uint64_t a, uint64_t b, uint32_t near) noexcept nogil:
    """Return the value of a key, -1: it is absent.

    A slot that only a hash says is in no cache of the processor; what was made just before stands in lines that
    are.  Where too much is near, slots are `step` apart: runs of neighbours are long.
    """
    cdef uint64_t i = 2 * <uint64_t>near, end = i + NEAR, step
    cdef const Entry* entry
    while i < end:
        entry = &at[i & mask]
        if not entry.number or entry.a == a and entry.b == b:
            return entry.number - 1
        i += 1
    i = mix(a, b)
    step = (i >> 32) | 1
    while True:
        entry = &at[i & mask]
        if not entry.number or entry.a == a and entry.b == b:
            return entry.number - 1
        i += step


cdef inline void map_move(Map* m, uint64_t most) noexcept nogil:
    """Move the entries of some slots of the old table; what has been moved stays there, too, so that chains hold."""
    cdef uint64_t end = min(m.moved + most, m.old_mask + 1)
    for i in range(m.moved, end):
        if m.old[i].number > 0:
            entry_put(m.at, m.mask, m.old[i])
    m.moved = end
    if end > m.old_mask:
        released(m.old)
        m.old = NULL


cdef inline int map_grow(Map* m) except -1:
    """Take a larger table, whose pages are fresh; entries move there by and by, `MOVED` slots with each new one."""
    cdef uint64_t slots = (4 if m.mask < 4096 else 2) * (m.mask + 1) if m.at != NULL else 64
    cdef Entry* fresh = <Entry*>cleared(slots, sizeof(Entry))
    if m.old != NULL:  # never, as they move quicker than it fills
        map_move(m, m.old_mask + 1)
    m.old, m.old_mask, m.moved = m.at, m.mask, 0
    m.at = fresh
    m.mask = slots - 1
    if m.old != NULL and m.old_mask < SMALL:
        map_move(m, SMALL)
    return 0


cdef inline void map_free(Map* m) noexcept nogil:
    """Give the memory back."""
    released(m.at)
    released(m.old)
    m.at, m.mask, m.size, m.old = NULL, 0, 0, NULL


cdef inline int map_find(Map* m, uint64_t a, uint64_t b, uint32_t near) noexcept nogil:
    """Look up a key that stands near others; whoever adds it says the same of it."""
    cdef int known
    if m.at == NULL:
        return -1
    known = slots_get(m.at, m.mask, a, b, near)
    return known if known >= 0 or m.old == NULL else slots_get(m.old, m.old_mask, a, b, near)


cdef inline int map_get(Map* m, uint64_t a, uint64_t b) noexcept nogil:
    return map_find(m, a, b, nearness(a, b))


cdef inline int map_room(Map* m) except -1:
    """Make room for one more key."""
    return map_grow(m) if m.at == NULL or 2 * <uint64_t>m.size > m.mask else 0


cdef inline int map_add(Map* m, uint64_t a, uint64_t b, uint32_t near, int32_t value) except -1:
    """Add a key that is absent; value >= 0.  Cannot fail behind `map_room`."""
    cdef Entry entry
    map_room(m)
    entry.a, entry.b, entry.number, entry.near = a, b, value + 1, near
    entry_put(m.at, m.mask, entry)
    m.size += 1
    if m.old != NULL:
        map_move(m, MOVED)
    return 0


cdef inline int map_put(Map* m, uint64_t a, uint64_t b, int32_t value) except -1:
    return map_add(m, a, b, nearness(a, b), value)


cdef inline int chain_put(
        Map* m, Ints* next_, uint64_t a, uint64_t b, uint32_t near, int known, int fresh) except -1:
    """Add a number to those of one hash, of which `known` is the first, -1: there is none; `next_` links them.  Cannot
    fail behind `map_room` and `ints_room`."""
    ints_put(next_, -1)
    if known < 0:
        return map_add(m, a, b, near, fresh)
    while next_.at[known] >= 0:
        known = next_.at[known]
    next_.at[known] = fresh
    return 0


cdef inline uint64_t pair(int32_t a, int32_t b) noexcept nogil:
    return (<uint64_t><unsigned int>a << 32) | <uint64_t><unsigned int>b
