# cython: language_level=3
from cython cimport final
from libc.stdint cimport uint32_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel.masks._building cimport Counter, IndependentMask
from constrained.engine.kernel.masks._mask_buffer cimport MaskBuffer


@final
cdef class Unions:
    cdef Meter meter                # borrowed, as the next two
    cdef object store               # of the vocabulary: `mask_store.MaskStore`
    cdef dict entries               # the store's
    cdef Counter counter            # of all context-independent masks of the vocabulary
    cdef int words                  # of a mask
    cdef list masks                 # the unions that this kernel uses
    cdef Map ids                    # (address of a base, of what is added) -> index of `masks`

    cdef int add(self, MaskBuffer* buffer, IndependentMask mask, const uint32_t* bits) except -1
    cdef int clear(self) except -1
    # internals
    cdef int add_apart(self, MaskBuffer* buffer, IndependentMask mask, const uint32_t* bits) except -1
    cdef IndependentMask find(self, IndependentMask owner, const uint32_t* base, IndependentMask added,
                              const uint32_t* bits)
    cdef IndependentMask made(self, const uint32_t* base, const uint32_t* bits, const Ints* pairs)
