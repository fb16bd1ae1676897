# cython: language_level=3
from cython cimport final
from libc.stdint cimport int32_t, uint8_t, uint64_t
from constrained.engine.kernel._tables cimport Ints

cdef enum:
    EXPANDED = 1        # flags of a machine state
    ACCEPTING = 2
    DISPATCH = 4
    RECORDS = 8
    TAIL = 16
    REFUSES = 32        # a Dispatch that may refuse a text
    ALIKE = 64          # a Dispatch to which texts are alike that it does not name, see `machine.Dispatch`
    KEYED = 128         # and one whose texts are keys


cdef struct Machine:
    int32_t ranges, ranges_end      # triples low, high, target
    int32_t calls, calls_end        # pairs callee, after
    int32_t tokens, tokens_end      # pairs id, target
    int32_t quoting                 # of a Text, else -1
    int32_t set, extra, more        # of a state of an object; see _objects.pyx
    uint8_t kind                    # of an object's states, PLAIN: any other state
    uint8_t flags
    uint64_t seen                   # PERF: the closure that came by last, kept here for `_closure`


@final
cdef class Machines:
    cdef Machine* at
    cdef int count, room
    cdef list objects               # what each machine was made from, None: only what stands here
    cdef Ints ranges, calls, tokens
    cdef long bytes                 # that the machines take; an estimate

    cdef int fresh(self, object state) except -1
    cdef int add_range(self, int machine, int low, int high, int target) except -1
    cdef int set_calls(self, int machine, const Ints* pairs) except -1
    cdef int set_edges(self, int machine, const Ints* ranges, const Ints* calls, const Ints* tokens) except -1
    cdef int clear(self) except -1
    cdef void release(self) noexcept
