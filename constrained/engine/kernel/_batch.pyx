# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Batches: the masks of many sequences at once, copied without the GIL.

Owns: nothing.  Borrows: the kernels of the sequences, which it pins while it copies, so that none is emptied meanwhile.
Plain twin: `Kernel.fill`, row by row; compared in tests/test_engine.py.
"""
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset
from constrained.engine.memory._memory cimport cleared, released
from constrained.engine.kernel._kernel cimport Kernel
from constrained.engine.kernel._rows cimport bitmask_row
from constrained.engine.kernel.masks._mask_buffer cimport Mask, unpack

from constrained.engine.tokens.bitmask import misfit
from constrained.errors import LimitExceeded
from constrained.work import Preempted



def fill_rows(list matchers, object bitmask):
    """Write the mask of matcher i into row i of a bitmask: new masks one by one, then all copies without the GIL.

    Returns the rows whose masks took too much work, or kept others waiting, or whose kernel is full; these allow
    nothing.  Where one of the kernels is not compiled, all rows, and what they allow means nothing.
    """
    cdef int i, state, words = -1, count = len(matchers)
    cdef list path
    cdef Kernel kernel
    cdef Mask** sources = <Mask**>cleared(2 * <size_t>count + 1, sizeof(void*))
    cdef int32_t** rows = <int32_t**>(sources + count)
    failed, pinned = [], []
    try:
        for i in range(count):
            matcher = matchers[i]
            own = matcher._kernel
            if type(own) is not Kernel:
                return [*range(count)]
            kernel, path = <Kernel>own, matcher._path
            state = path[len(path) - 1]
            kernel.pins += 1
            pinned.append(kernel)
            if words < 0:
                words = kernel.trie.words
            if kernel.trie.words != words:
                raise misfit(bitmask, i, kernel.trie.words)
            if kernel.full():
                failed.append(i)
            elif state >= 0:
                sources[i] = kernel.known_mask(state)
                if sources[i] == NULL:
                    try:
                        sources[i] = kernel.mask_of(state, matcher._budget)
                    except (LimitExceeded, Preempted):
                        failed.append(i)
        for i in range(count):
            rows[i] = bitmask_row(bitmask, words, i)
        with nogil:
            for i in range(count):
                if sources[i] == NULL:
                    memset(rows[i], 0, 4 * words)
                else:
                    unpack(sources[i], words, <uint32_t*>rows[i])
    finally:
        for kernel in pinned:
            kernel.pins -= 1
        released(sources)
    return failed
