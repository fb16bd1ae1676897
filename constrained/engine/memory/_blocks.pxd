# cython: language_level=3
"""Blocks of memory that are freed one by one; see _blocks.pyx."""

cdef void* block_take(size_t size) except NULL
cdef void* block_cleared(size_t size) except NULL
cdef void* block_enlarged(void* held, size_t size) except NULL
cdef size_t block_room(size_t size) noexcept
cdef void block_release(void* held) noexcept nogil
