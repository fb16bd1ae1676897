# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The table of a saved constraint: where its arrays are in the bytes of a file, and whether they are one.

Owns: the bytes, which nobody else can change.  Borrows: nothing.
Invariants: once `fits` is true, no number of the table leads out of an array of it, of a mask or of a row.
Plain twin: none, as the plain kernel uses no tables; tests/test_saved_states.py changes each kind of number.

PERF: the same with numpy, some sixty calls whose code is not in the cache, took 0.5 ms, half of what a load may take.
"""
from cython cimport final
from libc.stdint cimport int32_t, int64_t, uint8_t
from constrained.engine.kernel.automaton._automaton cimport NAME
from constrained.engine.kernel.masks._mask_buffer cimport BLOCK, RECORD

cdef enum:
    SIZES = 9       # numbers at the beginning
    FLAGS = 8       # the end of what flags may be


cdef bint within(const int32_t* numbers, int64_t count, int stride, int64_t least, int64_t end) noexcept:
    """Say whether every number of a column is in [least, end)."""
    cdef int64_t i
    for i in range(count):
        if not least <= numbers[i * stride] < end:
            return False
    return True


cdef bint add_up(const int32_t* counts, int64_t count, int stride, int64_t total) noexcept:
    """Say whether the counts of a column, none of them negative, have a sum."""
    cdef int64_t i, found = 0
    for i in range(count):
        if counts[i * stride] < 0:
            return False
        found += counts[i * stride]
    return found == total


cdef bint precede(const int32_t* numbers, int64_t count, int stride, int64_t least) noexcept:
    """Say whether every number of a column is at least so large and smaller than its own place."""
    cdef int64_t i
    for i in range(count):
        if not least <= numbers[i * stride] < i:
            return False
    return True


@final
cdef class SavedTable:
    """A table over a vocabulary of some tokens; see the fields in _saved_table.pxd."""

    def __cinit__(self, bytes data, int tokens):
        self.data, self.tokens = data, tokens
        self.words = (tokens + 31) // 32
        self.width = (self.words + BLOCK - 1) // BLOCK * BLOCK

    def fits(self):
        """Say whether the bytes are a table, every number of which is within its bounds."""
        return (self.find() and self.states_fit() and self.successors_fit() and self.masks_fit()
                and self.wholes_fit())

    def held(self):
        """Return how many bytes a kernel takes for it at most; an estimate."""
        return (1_200 * <long>self.states + 4 * RECORD * <long>self.blocks + 60 * <long>self.names
                + 32 * <long>self.masks + 4 * <long>self.wholes * self.width)

    cdef bint find(self) noexcept:
        """Find the arrays; say whether there are as many bytes as they take."""
        cdef const char* at = self.data
        cdef const int32_t* numbers = <const int32_t*>at
        cdef int64_t end, more
        if len(self.data) < 4 * SIZES or not within(numbers, SIZES, 1, 0, <int64_t>1 << 31):
            return False
        self.states, self.runs, self.names, self.masks, self.blocks, self.wholes, self.raws, self.changes, self.maps = (
            numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7], numbers[8])
        end = SIZES + 5 * <int64_t>self.states + self.runs + 3 * <int64_t>self.names + 2 * <int64_t>self.masks
        end += RECORD * <int64_t>self.blocks + 3 * <int64_t>self.wholes + 2 * <int64_t>self.changes
        end += self.width * <int64_t>self.raws
        more = self.states + 2 * <int64_t>self.runs + 32 * <int64_t>self.maps
        if not self.states or 4 * end + more != len(self.data):
            return False
        self.before = numbers + SIZES
        self.symbols, self.ends = self.before + self.states, self.before + 2 * self.states
        self.dead, self.which = self.ends + self.states, self.ends + 2 * self.states
        self.targets = self.which + self.states
        self.named = self.targets + self.runs
        self.listed = self.named + 3 * self.names
        self.records = self.listed + 2 * self.masks
        self.whole = self.records + RECORD * self.blocks
        self.changed = self.whole + 3 * self.wholes
        self.raw = self.changed + 2 * self.changes
        self.flags = <const uint8_t*>(numbers + end)
        self.bytes_ = self.flags + self.states
        self.map = self.bytes_ + 2 * self.runs
        return True

    cdef bint states_fit(self) noexcept:
        cdef int i
        for i in range(self.states):
            if self.flags[i] >= FLAGS or self.flags[i] == EXHAUSTED:     # which would be DEAD
                return False
        return (precede(self.before, self.states, 1, -1) and within(self.before + 1, self.states - 1, 1, 0, self.states)
                and within(self.symbols + 1, self.states - 1, 1, 0, NAME + <int64_t>self.tokens)
                and within(self.dead, self.states, 1, 0, self.maps)
                and within(self.which, self.states, 1, -1, self.masks))

    cdef bint successors_fit(self) noexcept:
        cdef int64_t i, last = 0
        for i in range(self.states):
            if self.ends[i] < last:
                return False
            last = self.ends[i]
        for i in range(self.runs):
            if self.bytes_[2 * i] > self.bytes_[2 * i + 1]:
                return False
        return (last == self.runs and within(self.targets, self.runs, 1, 0, self.states)
                and within(self.named, self.names, 3, 0, self.states)
                and within(self.named + 1, self.names, 3, 0, self.tokens)
                and within(self.named + 2, self.names, 3, -1, self.states))

    cdef bint masks_fit(self) noexcept:
        return (within(self.listed, self.masks, 2, -1, self.wholes)
                and add_up(self.listed + 1, self.masks, 2, self.blocks)
                and within(self.records, self.blocks, RECORD, 0, self.width // BLOCK))

    cdef bint wholes_fit(self) noexcept:
        return (precede(self.whole, self.wholes, 3, -1) and within(self.whole + 1, self.wholes, 3, -1, self.raws)
                and add_up(self.whole + 2, self.wholes, 3, self.changes)
                and within(self.changed, self.changes, 2, 0, self.width))
