# cython: language_level=3
"""How much a kernel works, handed on to the budget of whoever asked; see _meter.pyx."""

cdef enum:
    TICKS = 128             # of a unit of work, which is about a microsecond; a tick is a node of the trie
    SLICE = 500 * TICKS     # worked off before the budget hears of it
    LITTLE = 20 * TICKS     # what an operation may do without the budget hearing of it


cdef class Meter:
    cdef long ticks         # not yet handed on
    cdef long began         # what the budget had left when the operation began to count
    cdef int waiting        # threads that wait for the kernel
    cdef bint opened        # whether the budget counts for this thread
    cdef object budget      # of the operation; None: the thread's own
    cdef object outer       # the budget that counted before

    cdef int begin(self) except -1
    cdef int flush(self) except -1
    cdef int close(self) except -1
    cdef int forget(self) except -1
    cdef bint wanted(self) except -1


cdef inline int work(Meter meter, int ticks) except -1:
    """Charge some ticks."""
    meter.ticks += ticks
    return meter.flush() if meter.ticks >= SLICE else 0


cdef inline int ask(Meter meter) except -1:
    """Before Python objects are asked for something that they count themselves."""
    return 0 if meter.opened else meter.begin()
