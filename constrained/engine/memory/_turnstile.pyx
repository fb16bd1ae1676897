# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""One thread at a time in a kernel: a lock that a fork cannot leave held, and no garbage collection under it.

Owns its lock.  Borrows the garbage collector of the process: who holds a lock switches it off, and on when it leaves.
Invariant: in a process that was forked, no lock is held by a thread that is not there: `is_inherited` tells, `renew`
makes another.

PERF: lowering a schema makes some thousand objects, and a collection in the middle takes milliseconds, thirty masks'
time; it comes right after instead.
"""
from cpython.pythread cimport (
    NOWAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
    PyThread_type_lock, WAIT_LOCK)

import os

cdef extern from "Python.h":
    int PyGC_Disable() noexcept
    int PyGC_Enable() noexcept

cdef long forks = 0                 # processes between the first one and this
cdef bint collector_is_off = False  # by the holder of some lock


def _forked():
    """See to the child of a fork: a thread that was at work in a kernel is not in it, and will never leave."""
    global forks, collector_is_off
    forks += 1
    if collector_is_off:
        PyGC_Enable()
    collector_is_off = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


cdef class Turnstile:
    """A lock, and whether its holder has put the garbage collector off."""

    def __cinit__(self):
        self.lock, self.forks = PyThread_allocate_lock(), forks
        if self.lock == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef bint is_inherited(self) noexcept:
        """Say whether a parent process made the lock, so that nobody may hold it who is still there."""
        return self.forks != forks

    cdef int renew(self) except -1:
        """Make a lock that nobody holds; the old one is left, because a lock that is held must not be freed."""
        cdef PyThread_type_lock fresh = PyThread_allocate_lock()
        if fresh == NULL:
            raise MemoryError
        self.lock, self.forks = fresh, forks
        return 0

    cdef bint try_pass(self) noexcept:
        """Take the lock if nobody holds it."""
        return PyThread_acquire_lock(self.lock, NOWAIT_LOCK)

    cdef int wait(self) except -1:
        """Take the lock as soon as nobody holds it; other threads run meanwhile."""
        with nogil:
            PyThread_acquire_lock(self.lock, WAIT_LOCK)
        return 0

    cdef int put_off_collections(self) except -1:
        """Switch the garbage collector off until the holder leaves."""
        global collector_is_off
        self.collects = PyGC_Disable()
        if self.collects:
            collector_is_off = True
        return 0

    cdef int leave(self) noexcept:
        """Give the lock back, and the garbage collector what was put off."""
        global collector_is_off
        if self.collects:
            PyGC_Enable()
            collector_is_off = False
        return self.unlock()

    cdef int unlock(self) noexcept:
        """Give back a lock that was taken by `try_pass` alone."""
        PyThread_release_lock(self.lock)
        return 0
