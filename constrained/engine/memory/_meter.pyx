# cython: language_level=3
"""Work of a kernel, counted in ticks and handed on to a budget of `constrained.work` in slices.

A tick is a node of the token trie, some eight nanoseconds; what is made (configurations, states, exits) counts more.
Operations that know everything already count nothing, and short ones keep what they did to themselves.  The fields
belong to the thread that holds the kernel's lock.
"""
cdef extern from *:
    """
    #if defined(_WIN32)
    #include <windows.h>
    #define sched_yield SwitchToThread
    #else
    #include <sched.h>
    #endif
    """
    int sched_yield() noexcept nogil

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        pass
    ctypedef struct PyInterpreterState:
        pass
    PyInterpreterState* PyInterpreterState_Get() noexcept
    PyThreadState* PyInterpreterState_ThreadHead(PyInterpreterState* interpreter) noexcept
    PyThreadState* PyThreadState_Next(PyThreadState* thread) noexcept

from constrained._work cimport Budget

import constrained.caches as caches
from constrained.work import current, thread

cdef enum:
    PATIENCE = 2_000        # units that an operation may take while others wait; about two milliseconds


cdef int renew(budget, long done) except -1:
    """Begin another operation of a budget; done: units that are taken off."""
    if type(budget) is Budget:
        return (<Budget>budget).again(done)
    budget.renew(done)
    return 0


cdef class Meter:
    """The count of one kernel; see the fields in _meter.pxd."""

    cdef int begin(self) except -1:
        """Let the budget count for this thread."""
        if self.budget is not None:
            self.outer = thread.budget
            self.opened = True
            if self.outer is not self.budget:       # PERF: `work.begin` written out
                renew(self.budget, 0)
                caches.begin(hurried=True)
                thread.budget = self.budget
            self.began = self.budget.left
        self.opened = True
        return 0

    cdef int flush(self) except -1:
        """Hand on what was counted."""
        cdef long units = self.ticks // TICKS
        self.ticks = 0
        if not self.opened:
            self.begin()
        if self.budget is not None:
            self.budget.spend_nearby(units)
        elif (outer := current()) is not None:
            outer.spend_nearby(units)
        # PERF: threads that want the interpreter wait for a slice, not for the end of the operation; where there are
        # none, other processes on a busy machine would take the core for some milliseconds
        if PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get())) != NULL:
            with nogil:
                sched_yield()
        return 0

    cdef int close(self) except -1:
        """End an operation."""
        try:
            if self.ticks >= LITTLE:    # what is done is done: nothing is raised for it any more
                budget = self.budget if self.budget is not None else current()
                if budget is not None:
                    if self.opened or self.budget is None:
                        budget.left -= self.ticks // TICKS
                    else:       # as any operation that computes; else small ones wear a budget out
                        renew(budget, self.ticks // TICKS)
        finally:
            self.ticks = 0
            if self.opened and self.budget is not None:
                thread.budget = self.outer
            self.opened, self.budget, self.outer = False, None, None
        return 0

    cdef int forget(self) except -1:
        """Begin anew in the child of a fork, where nobody waits and no operation goes on."""
        self.ticks, self.waiting, self.opened, self.budget, self.outer = 0, 0, False, None, None
        return 0

    cdef bint wanted(self) except -1:
        """Say whether somebody has waited long enough."""
        return self.waiting > 0 and self.budget is not None and self.began - <long>self.budget.left > PATIENCE
