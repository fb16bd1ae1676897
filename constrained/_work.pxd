"""Units of work for compiled code; explained in _work.pyx."""


cdef class Budget:
    cdef public object at, cancelled, deadline, remedy, wanted, whole, _until
    cdef object given             # `limit`
    cdef public long long share, _next_check
    cdef long long rest, most     # what is left, and may be

    cdef int again(self, long long done) except -1
    cdef int take(self, long long units) except -1
    cdef int take_nearby(self, long long units) except -1


cdef int spent(long long units, at) except -1
cdef int spent_nearby(long long units) except -1
cdef bint put_off_collections() noexcept
cdef int collections_again() noexcept
