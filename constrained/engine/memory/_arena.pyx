# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Arenas: memory in chunks for what only grows and is freed all at once.

PERF: chunks are huge pages, because 512 small ones are cleared one by one, 0.6 µs each.  Chunks of arenas that are gone
are kept for the next, 32 MB at most: on a machine that lends its memory, 2 MB that nobody has touched before cost up to
6 ms, as much as hundreds of masks.
Threads: under the GIL.
"""
from libc.stdlib cimport free
from constrained.engine.memory._memory cimport admit

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

cdef enum:
    MOST_SPARE = 16     # huge chunks

cdef void* spare[MOST_SPARE]
cdef int spares = 0


cdef void* arena_chunk(Arena* arena, size_t size) except NULL:
    """Give an arena a new chunk with room for `size` bytes."""
    global spares
    cdef char* fresh
    cdef size_t room = min(max(2 * arena.size, <size_t>CHUNK), <size_t>HUGE)
    if LINE + size > room:
        room = (LINE + size + LINE - 1) & ~<size_t>(LINE - 1)
    admit(room)
    if room == HUGE and spares:
        spares -= 1
        fresh = <char*>spare[spares]
    else:
        fresh = <char*>aligned_alloc(HUGE if room == HUGE else LINE, room)
        if fresh == NULL:       # the arena stays as it was
            raise MemoryError
        if room == HUGE:
            madvise(fresh, HUGE, MADV_HUGEPAGE)
    (<char**>fresh)[0] = arena.chunk
    (<size_t*>fresh)[1] = room
    arena.chunk, arena.used, arena.size = fresh, LINE, room
    return fresh


cdef void arena_free(Arena* arena) noexcept:
    global spares
    cdef char* before
    while arena.chunk != NULL:
        before = (<char**>arena.chunk)[0]
        if (<size_t*>arena.chunk)[1] == HUGE and spares < MOST_SPARE:
            spare[spares] = arena.chunk
            spares += 1
        else:
            free(arena.chunk)
        arena.chunk = before
