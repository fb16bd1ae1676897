# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Blocks of memory, cut from chunks of huge pages by halves and joined again: a buddy allocator.

A block has 1 << order bytes and begins at a multiple of them, counted from its chunk: so the other half of what it was
cut from is where the bit of its size is the other way round.  Whoever gives a block back joins it with that half if it
is free and whole, and what comes of it with its own; a whole chunk goes back to `_huge`.

Owns: the chunks that it cuts.  Blocks of more than 64 KB are the system's, and zeros from 32 KB on.
Invariants: a free block stands in the list of its order, and no two halves of one block are both free.
Cost: of one that is taken or given back, a step for each order between; half of a block may be of no use, but
growing arrays use all of it (`block_room`).
PERF: a seventh of the steps that take long takes less, as the pages of new masks and states need not be cleared one
by one.  Large arrays are as fast on small pages, and those take no memory where nothing was written yet: huge ones for
them, too, made a constraint a quarter larger.
Plain twin: the system's allocator, which has every block where the sanitizer of addresses is at work.
Threads: under the GIL.
"""
from libc.stdint cimport int32_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset
from constrained.engine.memory._huge cimport huge_release, huge_take

cdef extern from *:
    """
    #if defined(__SANITIZE_ADDRESS__)
    #define MOST_ORDER 0
    #else
    #define MOST_ORDER 16
    #endif
    """
    int MOST_ORDER      # of a block that is not the system's

cdef enum:
    CHUNK_ORDER = 21
    LEAST_ORDER = 6
    MOST_CLEARED = 1 << 15  # bytes that are cleared at once
    APART = -1          # instead of the order of a block that is the system's
    HEAD = 16           # bytes before those that are handed out


cdef struct Block:
    int32_t order
    int32_t is_free
    Block* next         # of the same list; of free blocks only
    Block* before       # where the bytes begin that are handed out

cdef Block* lists[CHUNK_ORDER + 1]
cdef long chunks = 0


cdef inline int order_for(size_t size) noexcept:
    """Return the order of the smallest block for some bytes, `APART`: no block has so many."""
    cdef int order = LEAST_ORDER
    if size + HEAD > <size_t>1 << MOST_ORDER:
        return APART
    while (<size_t>1 << order) < size + HEAD:
        order += 1
    return order


cdef inline void add(Block* block, int order) noexcept nogil:
    block.order, block.is_free = order, True
    block.next, block.before = lists[order], NULL
    if block.next != NULL:
        block.next.before = block
    lists[order] = block


cdef inline void remove(Block* block) noexcept nogil:
    if block.next != NULL:
        block.next.before = block.before
    if block.before != NULL:
        block.before.next = block.next
    else:
        lists[block.order] = block.next


cdef void* block_take(size_t size) except NULL:
    """Return a block for some bytes, 16-byte aligned, not cleared."""
    global chunks
    cdef int order = order_for(size), at = order
    cdef Block* block
    if order == APART:
        block = <Block*>malloc(size + HEAD)
        if block == NULL:
            raise MemoryError
        block.order = APART
        return <char*>block + HEAD
    while at < CHUNK_ORDER and lists[at] == NULL:
        at += 1
    if at < CHUNK_ORDER:
        block = lists[at]
        remove(block)
    else:
        block = <Block*>huge_take()
        chunks += 1
    while at > order:
        at -= 1
        add(<Block*>(<char*>block + (<size_t>1 << at)), at)
    block.order, block.is_free = order, False
    return <char*>block + HEAD


cdef void* block_cleared(size_t size) except NULL:
    """Return a block of zeros.

    PERF: a large one is the system's, which clears a page when it is first touched.
    """
    cdef void* held
    if size > MOST_CLEARED:
        held = calloc(size + HEAD, 1)
        if held == NULL:
            raise MemoryError
        (<Block*>held).order = APART
        return <char*>held + HEAD
    held = block_take(size)
    memset(held, 0, size)
    return held


cdef void block_release(void* held) noexcept nogil:
    """Take a block back; NULL is none."""
    global chunks
    cdef Block* block
    cdef Block* half
    cdef int order
    if held == NULL:
        return
    block = <Block*>(<char*>held - HEAD)
    order = block.order
    if order == APART:
        free(block)
        return
    while order < CHUNK_ORDER:
        half = <Block*>(<uintptr_t>block ^ (<uintptr_t>1 << order))
        if not half.is_free or half.order != order:
            add(block, order)
            return
        remove(half)
        block = min(block, half)
        order += 1
    chunks -= 1
    huge_release(block)


cdef size_t block_room(size_t size) noexcept:
    """Return how many bytes a block for some has."""
    cdef int order = order_for(size)
    return size if order == APART else (<size_t>1 << order) - HEAD


cdef void* block_enlarged(void* held, size_t size) except NULL:
    """Return a block for more bytes than one has, with what that held; NULL is none.  Where that fails, the old one
    stays as it was."""
    cdef Block* block
    cdef void* larger
    if held == NULL:
        return block_take(size)
    block = <Block*>(<char*>held - HEAD)
    if block.order == APART:
        block = <Block*>realloc(block, size + HEAD)
        if block == NULL:
            raise MemoryError
        return <char*>block + HEAD
    if block.order == order_for(size):
        return held
    larger = block_take(size)
    memcpy(larger, held, min(size, (<size_t>1 << block.order) - HEAD))
    block_release(held)
    return larger


cdef class Held:
    """A block that Python holds: for tests."""
    cdef unsigned char* at
    cdef readonly size_t size

    def __cinit__(self, size_t size):
        self.at, self.size = <unsigned char*>block_take(size), size

    def __dealloc__(self):
        block_release(self.at)

    def enlarge(self, size_t size):
        self.at, self.size = <unsigned char*>block_enlarged(self.at, size), size

    @property
    def address(self):
        return <uintptr_t>self.at

    def write(self, unsigned char value):
        for i in range(self.size):
            self.at[i] = value

    def values(self, size_t size):
        """Return which values the first bytes have."""
        return set(self.at[i] for i in range(size))


def survey():
    """Return how many chunks are cut, and the free blocks: pairs address, order.  For tests."""
    cdef Block* block
    found = []
    for order in range(CHUNK_ORDER + 1):
        block = lists[order]
        while block != NULL:
            found.append((<uintptr_t>block, order))
            block = block.next
    return chunks, found
