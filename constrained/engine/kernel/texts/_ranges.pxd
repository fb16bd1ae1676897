# cython: language_level=3
"""Sets of code points as sorted ranges, each with a number: plain C, header only, so that every module inlines it."""
from libc.stdint cimport int32_t
from libc.string cimport memcpy
from constrained.engine.kernel._tables cimport Ints, first_not_below, ints_free, ints_put, ints_room


cdef struct RangeSets:
    Ints first      # of the ranges of each set, and at the end their number; empty: there are no sets
    Ints low
    Ints high


cdef inline int ranges_add(RangeSets* sets, const int32_t* ends, int count) except -1:
    """Add a set, given as the lower ends of its ranges and behind them the upper ones."""
    ints_room(&sets.first, 2)
    ints_room(&sets.low, count)
    ints_room(&sets.high, count)
    if sets.first.size == 0:
        ints_put(&sets.first, 0)
    if count:
        memcpy(sets.low.at + sets.low.size, ends, 4 * <size_t>count)
        memcpy(sets.high.at + sets.high.size, ends + count, 4 * <size_t>count)
    sets.low.size += count
    sets.high.size += count
    ints_put(&sets.first, sets.low.size)
    return 0


cdef inline void ranges_free(RangeSets* sets) noexcept:
    ints_free(&sets.first)
    ints_free(&sets.low)
    ints_free(&sets.high)


cdef inline int not_below(const RangeSets* sets, int number, int point) noexcept nogil:
    """Return the first range of a set that does not end before a code point, or the end of the set."""
    return first_not_below(&sets.high, sets.first.at[number], sets.first.at[number + 1], point)


cdef inline bint holds(const RangeSets* sets, int number, int point) noexcept nogil:
    """Say whether a code point is in a set."""
    cdef int at = not_below(sets, number, point)
    return at < sets.first.at[number + 1] and sets.low.at[at] <= point
