# cython: language_level=3
from cython cimport final
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints
from constrained.engine.kernel._trie cimport Trie


@final
cdef class ToldNames:
    cdef Meter meter                # borrowed, as the next one
    cdef Trie trie
    cdef Ints openings              # trie nodes of blanks and a quote
    cdef bint is_crowded            # whether there are too many to look for
    cdef dict bits                  # trie node -> bit
    cdef dict tokens                # name -> bits of the nodes where a token ends that begins it; None: not known
    cdef dict tables                # table -> those of its names, in a list
    cdef dict numbers               # bits of several names -> number
    cdef int kept                   # names, and numbers

    cdef list of_table(self, int table, tuple names)
    cdef int number(self, object bits) except -1
    cdef long held(self) noexcept
    cdef int clear(self) except -1
    # internals
    cdef object of_name(self, str name)
    cdef int find_openings(self) except -1
    cdef int child(self, int node, int byte) noexcept
    cdef object read(self, str name)
    cdef int read_from(self, int node, bytes name, list found) except -1
