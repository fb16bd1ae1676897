# cython: language_level=3
"""Blocks of memory that are freed all at once; see _arena.pyx."""

cdef enum:
    CHUNK = 1 << 16     # bytes of the first chunk; each is twice as large as the one before, until they are HUGE
    # bytes of a cache line; a chunk begins with one that holds the address of the chunk before and the size
    LINE = 64


cdef struct Arena:
    char* chunk
    size_t used, size


cdef void* arena_chunk(Arena* arena, size_t size) except NULL
cdef void arena_free(Arena* arena) noexcept


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
