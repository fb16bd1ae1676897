# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Finished masks, copied into the rows of a batch without the GIL; where there is much to copy, by two threads.

    who calls     IDLE -> CALLED, collects masks -> OFFERED, takes rows until none is left -> IDLE; waits, where JOINED
    the helper    sleeps    `-> looks at the stage ---> JOINED, takes rows until none is left -> IDLE; sleeps

Masks of 256 sequences over 128,000 tokens are 4 MB, which one core writes at the speed of its path to memory.  A second
core has its own.  Nobody waits for it to come: who calls takes rows until none is left, and then waits only for the
rows that the helper has begun.

Owns: the helper, one thread of the process.  It starts with the first large batch, touches no object of Python, and is
never told to end.  Borrows: the rows of a batch, until `copy_rows` returns.
Invariant: the helper looks at a batch between JOINED and IDLE only, and releases `finished` once for each time that it
joined.  `is_taken` is read and written under the GIL: one batch at a time has the helper, others are copied alone.
Plain twin: `copy_some` without a helper; compared in tests/test_batches.py.
"""
from cpython.mem cimport PyMem_RawCalloc
from cpython.pythread cimport (
    PyThread_acquire_lock, PyThread_allocate_lock, PyThread_release_lock, PyThread_type_lock, WAIT_LOCK)
from libc.stdint cimport uint32_t
from libc.string cimport memset
from constrained.engine.kernel.masks._mask_buffer cimport unpack

import os

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    #define atomic_value(at) (*(volatile long *)(at))
    #define atomic_set(at, fresh) ((void)_InterlockedExchange((volatile long *)(at), (fresh)))
    #define atomic_more(at, count) _InterlockedExchangeAdd((volatile long *)(at), (count))
    #define atomic_turn(at, old, fresh) (_InterlockedCompareExchange((volatile long *)(at), (fresh), (old)) == (old))
    #else
    #define atomic_value(at) __atomic_load_n((at), __ATOMIC_ACQUIRE)
    #define atomic_set(at, fresh) __atomic_store_n((at), (fresh), __ATOMIC_RELEASE)
    #define atomic_more(at, count) __atomic_fetch_add((at), (count), __ATOMIC_ACQ_REL)
    static inline int atomic_turn(int *at, int old, int fresh) {
        return __atomic_compare_exchange_n(at, &old, fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    #endif
    #if defined(__linux__)
    #include <sched.h>
    #include <unistd.h>
    #define cpu_of_thread() sched_getcpu()
    static void leave_cpu(int cpu) {            /* for any other one that the process may use */
        cpu_set_t others;
        if (!sched_getaffinity(getpid(), sizeof others, &others)) {
            CPU_CLR(cpu, &others);
            sched_setaffinity(0, sizeof others, &others);
        }
    }
    #else
    #define cpu_of_thread() (-1)
    #define leave_cpu(cpu) ((void)(cpu))
    #endif
    """
    int atomic_value(int* at) noexcept nogil
    void atomic_set(int* at, int fresh) noexcept nogil
    int atomic_more(int* at, int count) noexcept nogil                  # add, return what was there
    bint atomic_turn(int* at, int old, int fresh) noexcept nogil        # old to fresh, where it is old
    int cpu_of_thread() noexcept nogil
    void leave_cpu(int cpu) noexcept nogil

cdef extern from "pythread.h":
    unsigned long start_thread "PyThread_start_new_thread"(void (*run)(void*) noexcept nogil, void* argument)

cdef enum:
    IDLE = 0
    CALLED = 1                  # a batch is to come
    OFFERED = 2
    JOINED = 3
    WORTH = 1 << 20             # bytes of a batch from which on it is worth to wake a thread
    AT_ONCE = 4                 # rows that a thread takes: some 3 µs
    GLANCES = 20_000            # at the stage, before who waits for another one sleeps: some 20 µs


cdef struct Batch:
    Row* rows
    int count
    int words
    int next                    # row that nobody has taken

cdef struct Helper:
    Batch batch
    int stage
    int cpu                     # of who called last
    PyThread_type_lock ready    # released by `wake`
    PyThread_type_lock finished
    int woken                   # `ready` is released, or the helper has not said yet that it has it
    int batches                 # that it has joined

cdef Helper* helper = NULL
cdef bint is_taken = False      # the helper, by a batch
cdef bint is_alone = False      # no helper can be had


cdef int call_helper(int count, int words) except -1:
    """Wake the helper, who takes as long to come as it takes to collect masks; under the GIL."""
    if 4 * <size_t>words * count >= WORTH and not is_taken and find_helper():
        atomic_set(&helper.cpu, cpu_of_thread())
        atomic_set(&helper.stage, CALLED)
        wake(helper)
    return 0


cdef int copy_rows(Row* rows, int count, int words) except -1:
    """Write all rows; called with the GIL, which is free meanwhile."""
    global is_taken
    cdef Batch batch
    batch.rows, batch.count, batch.words, batch.next = rows, count, words, 0
    if 4 * <size_t>words * count < WORTH or is_taken or not find_helper():
        with nogil:
            copy_some(&batch)
        return 0
    is_taken = True
    with nogil:
        copy_together(helper, &batch)
    is_taken = False
    return 0


cdef int copy_some(Batch* batch) noexcept nogil:
    """Write rows until none is left that nobody has taken."""
    cdef int i, at = atomic_more(&batch.next, AT_ONCE)
    while at < batch.count:
        for i in range(at, min(at + AT_ONCE, batch.count)):
            if batch.rows[i].mask == NULL:
                memset(batch.rows[i].words, 0, 4 * <size_t>batch.words)
            else:
                unpack(batch.rows[i].mask, batch.words, <uint32_t*>batch.rows[i].words)
        at = atomic_more(&batch.next, AT_ONCE)
    return 0


cdef int copy_together(Helper* other, const Batch* batch) noexcept nogil:
    """Offer a batch to the helper, write what it leaves, and wait until it has written what it began."""
    other.batch = batch[0]
    atomic_set(&other.stage, OFFERED)
    wake(other)
    copy_some(&other.batch)
    if atomic_turn(&other.stage, OFFERED, IDLE):
        return 0
    glance(&other.stage, JOINED)
    PyThread_acquire_lock(other.finished, WAIT_LOCK)
    return 0


cdef int wake(Helper* other) noexcept nogil:
    """Wake the helper, where nobody has: a lock that is free must not be released."""
    if atomic_turn(&other.woken, 0, 1):
        PyThread_release_lock(other.ready)
    return 0


cdef int glance(int* stage, int now) noexcept nogil:
    """Return when a stage is another one, or some time has passed."""
    cdef int i
    for i in range(GLANCES):
        if atomic_value(stage) != now:
            break
    return 0


cdef void help(void* given) noexcept nogil:
    """Be a helper.

    PERF: Linux may wake it on the core of who called, above all where the others are virtual and halted; there it
    would only stand in the way.
    """
    cdef Helper* own = <Helper*>given
    cdef int cpu
    while PyThread_acquire_lock(own.ready, WAIT_LOCK):
        atomic_turn(&own.woken, 1, 0)
        cpu = cpu_of_thread()
        if cpu == atomic_value(&own.cpu):
            leave_cpu(cpu)
        glance(&own.stage, CALLED)
        if atomic_turn(&own.stage, OFFERED, JOINED):        # else who called has done it all, or is not so far
            own.batches += 1
            copy_some(&own.batch)
            atomic_set(&own.stage, IDLE)
            PyThread_release_lock(own.finished)


cdef bint find_helper() except -1:
    """Say whether there is a helper; start one, where there is a core for it."""
    global helper, is_alone
    cdef Helper* fresh
    if helper != NULL or is_alone:
        return not is_alone
    is_alone = True
    if cores() > 1:
        fresh = new_helper()
        if fresh != NULL and start_thread(help, fresh) != <unsigned long>-1:
            helper, is_alone = fresh, False
    return not is_alone


cdef Helper* new_helper() noexcept:
    """Return a helper that sleeps, NULL where there is no memory for it; the system's, since it is never given back."""
    cdef Helper* fresh = <Helper*>PyMem_RawCalloc(1, sizeof(Helper))
    if fresh != NULL:
        fresh.ready, fresh.finished = PyThread_allocate_lock(), PyThread_allocate_lock()
        if fresh.ready == NULL or fresh.finished == NULL:
            return NULL
        PyThread_acquire_lock(fresh.ready, WAIT_LOCK)
        PyThread_acquire_lock(fresh.finished, WAIT_LOCK)
    return fresh


def cores():
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):       # not Linux, or not to be told
        return os.cpu_count() or 1


def batches_of_helper():
    """Return how many batches the helper has joined, -1 where there is none; for tests."""
    return -1 if helper == NULL else helper.batches


def forget_helper():
    """Begin anew, as the child of a fork must, in which there is no helper; elsewhere no batch may be under way.

    The helper's memory is left: where it is still there, it waits on.
    """
    global helper, is_taken, is_alone
    helper, is_taken, is_alone = NULL, False, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_helper)
