# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Checked allocation for the compiled kernel: every block is asked for here, so that tests can refuse any of them.

Whoever adds something makes room for all its parts first and fills them in afterwards, where nothing can fail any more:
so what others see is whole at any time, and an operation that raised may be tried again.

Tests: test_memory.py refuses each allocation of a walk in turn; `python -m constrained.benchmarks.faults` does it for
more of them.
"""
from constrained.engine.memory._blocks cimport (
    block_cleared, block_enlarged, block_release, block_room, block_take)

from constrained.errors import LimitExceeded

cdef long before_refusal = -1   # allocations until one is refused; negative: none will be


def refuse(long after):
    """Refuse one allocation after so many more, a negative number: none; return how many were left until then.  For
    tests."""
    global before_refusal
    cdef long left = before_refusal
    before_refusal = after
    return left


cdef int admit(size_t count) except -1:
    """Say that a block of memory is about to be asked for."""
    global before_refusal
    if before_refusal >= 0:
        before_refusal -= 1
        if before_refusal < 0:
            raise MemoryError
    if count > <size_t>1 << 40:
        raise MemoryError
    return 0


cdef void* allotted(size_t count, size_t item) except NULL:
    """Return a block for some items, not cleared; `item` is at most a few hundred bytes."""
    admit(count)
    return block_take(count * item)


cdef void* cleared(size_t count, size_t item) except NULL:
    """Return a block of zeros for some items."""
    admit(count)
    return block_cleared(count * item)


cdef void* enlarged(void* block, int* room, size_t item, size_t more) except NULL:
    """Return a block that has room for `more` items beyond `room`, which is raised, and for twice as many as a rule.

    Where that fails, the old block and its room stay as they were.
    Raises: MemoryError: there is none.  LimitExceeded: more items than an int32 counts.
    """
    cdef size_t wanted = min(max(<size_t>2 * room[0] if room[0] else 16, <size_t>room[0] + more), <size_t>MOST_ITEMS)
    if more > MOST_ITEMS or <size_t>room[0] + more > MOST_ITEMS:
        raise LimitExceeded(
            "an automaton is too large", because="it would have more than 2,147,483,647 parts of one kind",
            instead="simplify the grammar, or lower cache_bytes"
        )
    admit(wanted)
    wanted = min(block_room(wanted * item) // item, <size_t>MOST_ITEMS)
    block = block_enlarged(block, wanted * item)
    room[0] = <int>wanted
    return block


cdef void released(void* block) noexcept nogil:
    """Take a block back; NULL is none."""
    block_release(block)
