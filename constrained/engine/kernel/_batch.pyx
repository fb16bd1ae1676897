# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Batches: the masks of many sequences at once, copied without the GIL.

Owns: nothing.  Borrows: the kernels of the sequences, which it pins while it copies, so that none is emptied meanwhile.
Plain twin: `Kernel.fill`, row by row; compared in tests/test_engine.py.
"""
from constrained.engine.memory._memory cimport cleared, released
from constrained.engine.kernel._copying cimport Row, call_helper, copy_rows
from constrained.engine.kernel._kernel cimport Kernel
from constrained.engine.kernel._rows cimport bitmask_row

from constrained.engine.tokens.bitmask import misfit
from constrained.errors import LimitExceeded
from constrained.work import Preempted


def fill_rows(list matchers, object bitmask, type kind):
    """Write the mask of matcher i into row i of a bitmask: new masks one by one, then all copies without the GIL.

    Returns the rows whose masks took too much work, or kept others waiting, or whose kernel is full, and those of
    subclasses of `kind`, which have a way of their own; these allow nothing.  None: one is no matcher, or its kernel is
    not compiled; nothing is written.
    """
    cdef int i, state, words = -1, count = len(matchers)
    cdef list path, left = [], pinned = []
    cdef Kernel kernel
    cdef Row* rows = <Row*>cleared(<size_t>count + 1, sizeof(Row))
    try:
        for i in range(count):
            matcher = matchers[i]
            own = matcher._kernel if isinstance(matcher, kind) else None
            if type(own) is not Kernel:
                return None
            kernel, path = <Kernel>own, matcher._path
            state = path[len(path) - 1]
            kernel.pins += 1
            pinned.append(kernel)
            if words < 0:
                words = kernel.trie.words
                call_helper(count, words)
            if kernel.trie.words != words:
                raise misfit(bitmask, i, kernel.trie.words)
            if kernel.full() or type(matcher) is not kind:
                left.append(i)
            elif state >= 0:
                rows[i].mask = kernel.known_mask(state)
                if rows[i].mask == NULL:
                    try:
                        rows[i].mask = kernel.mask_of(state, matcher._budget)
                    except (LimitExceeded, Preempted):
                        left.append(i)
        for i in range(count):
            rows[i].words = bitmask_row(bitmask, words, i)
        copy_rows(rows, count, words)
    finally:
        for kernel in pinned:
            kernel.pins -= 1
        released(rows)
    return left
