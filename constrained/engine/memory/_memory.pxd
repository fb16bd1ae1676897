# cython: language_level=3
"""Where the memory of the compiled kernel comes from; see _memory.pyx."""

cdef enum:
    MOST_ITEMS = 0x7FFFFFFF     # of an array: they are counted in int32

cdef int admit(size_t count) except -1
cdef void* allotted(size_t count, size_t item) except NULL
cdef void* cleared(size_t count, size_t item) except NULL
cdef void* enlarged(void* block, int* room, size_t item, size_t more) except NULL
cdef void released(void* block) noexcept nogil
