# cython: language_level=3
from cpython.pythread cimport PyThread_type_lock


cdef class Turnstile:
    cdef PyThread_type_lock lock
    # as many processes as there were between the first one and this when the lock was made
    cdef long forks
    # whether the holder of the lock found the garbage collector at work
    cdef bint collects

    cdef bint is_inherited(self) noexcept
    cdef int renew(self) except -1
    cdef bint try_pass(self) noexcept
    cdef int wait(self) except -1
    cdef int put_off_collections(self) except -1
    cdef int leave(self) noexcept
    cdef int unlock(self) noexcept
