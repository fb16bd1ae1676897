# cython: boundscheck=False, wraparound=False, cdivision=True
"""Memory of the compiled kernel, from the system's pages up to its tables, and the lock and meter that guard it.

    checked allocation ──► Ints, Map (the kernel's arrays and hash tables)
    arenas         what only grows and is freed all at once
    Turnstile      one thread at a time in a kernel
    Meter          work in ticks, handed on to a budget of `constrained.work`

Every block is asked for through `admit`, so tests can refuse any of them.  Arrays and tables are inline and stand in
_memory.pxd, where all units take them from.
"""
from cpython.pythread cimport (
    NOWAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock,
    PyThread_get_thread_ident, PyThread_release_lock, WAIT_LOCK)
from libc.stdlib cimport calloc, free, malloc, realloc
from constrained._work cimport Budget, collections_again, put_off_collections

from constrained.errors import LimitExceeded
from constrained.work import Preempted, current, thread

import constrained.caches as caches
import os
from sys import getswitchinterval


# ======================================================================================================================
# Checked allocation for the compiled kernel: every block is asked for here, so that tests can refuse any of them.
#
# Whoever adds something makes room for all its parts first and fills them in afterwards, where nothing can fail any
# more: so what others see is whole at any time, and an operation that raised may be tried again.
#
# Tests: test_memory.py refuses each allocation of a walk in turn; `python -m constrained.benchmarks.faults` does it for
# more of them.
# ======================================================================================================================

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


cdef inline void* there(void* block) except NULL:
    """Return a block that the system gave.  Raises: MemoryError: it gave none."""
    if block == NULL:
        raise MemoryError
    return block


cdef void* allotted(size_t count, size_t item) except NULL:
    """Return a block for some items, not cleared; `item` is at most a few hundred bytes."""
    admit(count)
    return there(malloc(max(count * item, <size_t>1)))


cdef void* cleared(size_t count, size_t item) except NULL:
    """Return a block of zeros for some items."""
    admit(count)
    return there(calloc(max(count * item, <size_t>1), 1))


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
    block = there(realloc(block, wanted * item))
    room[0] = <int>wanted
    return block


cdef void released(void* block) noexcept nogil:
    """Take a block back; NULL is none."""
    free(block)


# ======================================================================================================================
# Arenas: memory in chunks for what only grows and is freed all at once.
#
# Owns: its chunks.  Threads: under the GIL.
# ======================================================================================================================

cdef enum:
    CHUNK = 1 << 16     # bytes of the first chunk; each is twice as large as the one before
    MOST_CHUNK = 1 << 21
    # bytes of a cache line; a chunk begins with one that holds the address of the chunk before and the size
    LINE = 64


cdef extern from "stdlib.h" nogil:
    void* aligned_alloc(size_t alignment, size_t size)


cdef void* arena_chunk(Arena* arena, size_t size) except NULL:
    """Give an arena a new chunk with room for `size` bytes."""
    cdef char* fresh
    cdef size_t room = min(max(2 * arena.size, <size_t>CHUNK), <size_t>MOST_CHUNK)
    if LINE + size > room:
        room = (LINE + size + LINE - 1) & ~<size_t>(LINE - 1)
    admit(room)
    fresh = <char*>there(aligned_alloc(LINE, room))     # where there is none, the arena stays as it was
    (<char**>fresh)[0] = arena.chunk
    (<size_t*>fresh)[1] = room
    arena.chunk, arena.used, arena.size = fresh, LINE, room
    return fresh


cdef void arena_free(Arena* arena) noexcept nogil:
    cdef char* before
    while arena.chunk != NULL:
        before = (<char**>arena.chunk)[0]
        free(arena.chunk)
        arena.chunk = before


# ======================================================================================================================
# Work of a kernel, counted in ticks and handed on to a budget of `constrained.work` in slices.
#
# A tick is a node of the token trie, some eight nanoseconds; what is made (configurations, states, exits) counts more.
# Operations that know everything already count nothing, and short ones keep what they did to themselves.  The fields
# belong to the thread that holds the kernel's lock.
# ======================================================================================================================

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


cdef enum:
    PATIENCE = 2_000        # units that an operation may take while others wait; about two milliseconds


cdef int renew(budget, long done) except -1:
    """Begin another operation of a budget; done: units that are taken off."""
    if type(budget) is Budget:
        return (<Budget>budget).again(done)
    budget.renew(done)
    return 0


cdef class Meter:
    """The count of one kernel."""

    cdef int begin(self) except -1:
        """Let the budget count for this thread."""
        if self.budget is not None:
            self.outer = thread.budget
            self.opened = True
            if self.outer is not self.budget:       # `work.begin` written out
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
        # An operation keeps the interpreter as long as Python code does: by then somebody who waits has asked for it
        # and gets it, earlier they would only be woken.  Not where others wait for this kernel, and so for whoever gets
        # the interpreter now; and where there are no threads, other processes would take the core for milliseconds.
        self.turn += units
        if self.turn >= 1e6 * getswitchinterval() and self.waiting == 0:
            self.turn = 0
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
            self.opened, self.turn, self.budget, self.outer = False, 0, None, None
        return 0

    cdef int forget(self) except -1:
        """Begin anew in the child of a fork, where nobody waits and no operation goes on."""
        self.ticks, self.waiting, self.turn, self.opened, self.budget, self.outer = 0, 0, 0, False, None, None
        return 0

    cdef bint wanted(self) except -1:
        """Say whether somebody has waited long enough."""
        return self.waiting > 0 and self.budget is not None and self.began - <long>self.budget.left > PATIENCE


# ======================================================================================================================
# One thread at a time in a kernel: a lock that a fork cannot leave held, and no garbage collection under it but where
# a budget is looked at.
#
# Owns its lock.  Borrows the garbage collector of the process: who holds a lock switches it off, and on when it leaves.
# Invariant: in a process that was forked, no lock is held by a thread that is not there: `is_inherited` tells, `renew`
# makes another.
#
# Lowering a schema makes some thousand objects, and a collection in the middle takes milliseconds, thirty masks'
# time; it comes right after instead.
# ======================================================================================================================

cdef long forks = 0     # processes between the first one and this


def _forked():
    """See to the child of a fork: a thread that was at work in a kernel is not in it, and will never leave."""
    global forks
    forks += 1
    collections_again()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


cdef enum:
    TRIES = 3       # that a lock is waited for without holding on to it


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
        self.lock, self.forks, self.holder = fresh, forks, 0
        return 0

    cdef bint try_pass(self) noexcept:
        """Take the lock if nobody holds it."""
        if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            return False
        self.holder = PyThread_get_thread_ident()
        return True

    cdef int wait(self) except -1:
        """Take the lock as soon as nobody holds it; other threads run meanwhile.

        Raises: Preempted: this thread holds it itself, in the middle of whose work the collector ends an object.

        Whoever waits for the interpreter with the lock in hand keeps all others waiting for both.  So it is given back
        until the interpreter is there; who comes too late then, time and again, holds on to it.
        """
        cdef int tries
        if self.holder == PyThread_get_thread_ident():
            raise Preempted
        for tries in range(TRIES):
            with nogil:
                PyThread_acquire_lock(self.lock, WAIT_LOCK)
                PyThread_release_lock(self.lock)
            if self.try_pass():
                return 0
        with nogil:
            PyThread_acquire_lock(self.lock, WAIT_LOCK)
        self.holder = PyThread_get_thread_ident()
        return 0

    cdef int put_off_collections(self) except -1:
        """Switch the garbage collector off until the holder leaves."""
        self.collects = put_off_collections()
        return 0

    cdef int leave(self) noexcept:
        """Give the lock back, and the garbage collector what was put off."""
        if self.collects:
            collections_again()
        return self.unlock()

    cdef int unlock(self) noexcept:
        """Give back a lock that was taken by `try_pass` alone."""
        self.holder = 0
        PyThread_release_lock(self.lock)
        return 0
