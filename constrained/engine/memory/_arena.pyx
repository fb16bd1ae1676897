# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Arenas: memory in chunks for what only grows and is freed all at once.

Owns: its chunks, the system's until they are huge, see `_huge`.  Threads: under the GIL.
"""
from libc.stdlib cimport free
from constrained.engine.memory._huge cimport HUGE, aligned_alloc, huge_release, huge_take
from constrained.engine.memory._memory cimport admit


cdef void* arena_chunk(Arena* arena, size_t size) except NULL:
    """Give an arena a new chunk with room for `size` bytes."""
    cdef char* fresh
    cdef size_t room = min(max(2 * arena.size, <size_t>CHUNK), <size_t>HUGE)
    if LINE + size > room:
        room = (LINE + size + LINE - 1) & ~<size_t>(LINE - 1)
    admit(room)
    fresh = <char*>(huge_take() if room == HUGE else aligned_alloc(LINE, room))
    if fresh == NULL:       # the arena stays as it was
        raise MemoryError
    (<char**>fresh)[0] = arena.chunk
    (<size_t*>fresh)[1] = room
    arena.chunk, arena.used, arena.size = fresh, LINE, room
    return fresh


cdef void arena_free(Arena* arena) noexcept:
    cdef char* before
    while arena.chunk != NULL:
        before = (<char**>arena.chunk)[0]
        if (<size_t*>arena.chunk)[1] == HUGE:
            huge_release(arena.chunk)
        else:
            free(arena.chunk)
        arena.chunk = before
