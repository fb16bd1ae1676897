# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Chunks of 2 MB, huge pages where the system has them: what arenas and blocks are cut from.

Owns: the chunks that nobody has, 32 MB of them at most; the others belong to whoever took them.
PERF: 512 small pages are cleared one by one when they are first touched, 0.6 to 1.3 µs each, and the processor finds
where they are one by one: kernels whose memory is huge pages have a seventh fewer steps that take long.  Chunks are
kept because 2 MB that nobody has touched before cost up to 6 ms on a machine that lends its memory, as much as hundreds
of masks; one is kept ready between texts.
Threads: under the GIL.
"""
from libc.stdlib cimport free

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
    MOST_SPARE = 16

cdef void* spare[MOST_SPARE]
cdef int spares = 0


cdef void* fresh_chunk() noexcept:
    """Return a chunk of the system's, NULL: there is none."""
    cdef void* chunk = aligned_alloc(HUGE, HUGE)
    if chunk != NULL:
        madvise(chunk, HUGE, MADV_HUGEPAGE)
    return chunk


cdef void* huge_take() except NULL:
    """Return a chunk, not cleared."""
    global spares
    cdef void* chunk
    if spares:
        spares -= 1
        return spare[spares]
    chunk = fresh_chunk()
    if chunk == NULL:
        raise MemoryError
    return chunk


cdef void huge_release(void* chunk) noexcept nogil:
    """Take a chunk back."""
    global spares
    if spares < MOST_SPARE:
        spare[spares] = chunk
        spares += 1
    else:
        free(chunk)


cdef void huge_ready() noexcept:
    """Have a chunk that was touched before, if the system gives one."""
    cdef char* chunk
    if not spares:
        chunk = <char*>fresh_chunk()
        if chunk != NULL:
            chunk[0] = 0
            huge_release(chunk)
