# cython: language_level=3
"""Chunks of memory as large as a huge page; see _huge.pyx."""

cdef enum:
    HUGE = 1 << 21      # bytes of a chunk, and where it begins


cdef extern from "stdlib.h" nogil:
    void* aligned_alloc(size_t alignment, size_t size)


cdef void* huge_take() except NULL
cdef void huge_release(void* chunk) noexcept nogil
cdef void huge_ready() noexcept
