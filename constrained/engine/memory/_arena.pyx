# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Arenas: memory in chunks for what only grows and is freed all at once.

Owns: its chunks, which are blocks.  Threads: under the GIL.
"""
from constrained.engine.memory._blocks cimport block_release, block_room, block_take
from constrained.engine.memory._memory cimport admit


cdef void* arena_chunk(Arena* arena, size_t size) except NULL:
    """Give an arena a new chunk with room for `size` bytes."""
    cdef char* fresh
    cdef size_t room = block_room(max(min(max(2 * arena.size, <size_t>CHUNK), <size_t>MOST), BEGIN + size))
    admit(room)
    fresh = <char*>block_take(room)     # where that fails, the arena stays as it was
    (<char**>fresh)[0] = arena.chunk
    arena.chunk, arena.used, arena.size = fresh, BEGIN, room
    return fresh


cdef void arena_free(Arena* arena) noexcept:
    cdef char* before
    while arena.chunk != NULL:
        before = (<char**>arena.chunk)[0]
        block_release(arena.chunk)
        arena.chunk = before
