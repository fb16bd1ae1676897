# cython: language_level=3
from cython cimport final
from constrained.engine.memory._meter cimport Meter
from constrained.engine.memory._turnstile cimport Turnstile
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.automaton._closure cimport Closure
from constrained.engine.kernel.automaton._dispatch cimport Dispatches
from constrained.engine.kernel.automaton._expansion cimport Expansion
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.masks._composer cimport Composer
from constrained.engine.kernel.masks._mask_buffer cimport Mask
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.texts._languages cimport Languages
from constrained.engine.kernel.texts._positions cimport Positions


@final
cdef class Kernel:
    cdef Meter meter
    cdef Turnstile turnstile
    cdef Trie trie
    cdef Languages languages
    cdef Positions positions
    cdef Stacks stacks
    cdef Machines machines
    cdef Objects objects
    cdef Expansion expansion
    cdef Dispatches dispatches
    cdef Closure closure
    cdef Automaton automaton
    cdef IndependentMasks masks
    cdef Composer composer
    cdef readonly int start
    cdef dict roots_known           # (root, nullable) -> state
    cdef long max_bytes, root_bytes
    cdef long bytes                 # PERF: what `held` said when the last operation ended; it looks into all parts
    cdef object __weakref__
    cdef bint gone                  # emptied: no state is known any more
    cdef bint used                  # since somebody last asked
    cdef int pins                   # batches that copy masks without the GIL

    cdef int enter(self, object budget) except -1
    cdef int leave(self) except -1
    cdef int adopt(self) except -1
    cdef int drop(self) except -1
    cdef bint refuses(self, int state, int token) noexcept
    cdef Mask* known_mask(self, int state) noexcept
    cdef Mask* mask_of(self, int state, object budget) except NULL
    cdef long held(self) noexcept
    cdef bint full(self) noexcept
    cdef int empty(self) except -1
    cdef int check(self, int state) except -1
