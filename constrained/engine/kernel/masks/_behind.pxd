# cython: language_level=3
from cython cimport final
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton
from constrained.engine.kernel.automaton._dispatch cimport Dispatches
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.texts._positions cimport Positions


@final
cdef class Behind:
    cdef Meter meter                # borrowed, as the next five
    cdef Trie trie
    cdef Stacks stacks
    cdef Positions positions
    cdef Dispatches dispatches
    cdef Automaton automaton
    cdef Map popped_states          # stack -> state behind a text above it, frames that record left out
    cdef Map generic                # (Dispatch, parent stack) -> state behind an ordinary text
    cdef Map values                 # (Dispatch, parent stack) -> state behind the value of an ordinary key
    cdef dict begun_texts           # record -> its text, see `begun`
    cdef dict named_exits           # (mask of a key, id of names) -> ({exit node: name}, names)
    cdef Ints seeds                 # configurations behind a text

    cdef int popped(self, int stack) except -1
    cdef int second(self, int record, int closing) except -1
    cdef int ordinary(self, int after, int parent) except -1
    cdef int value(self, int after, int parent) except -1
    cdef int following(self, int after, object text, int parent) except -1
    cdef dict special_exits(self, int node, int after, int record)
    cdef dict special_groups(self, IndependentMask mask, int q, int after, int record, bint everything)
    cdef int clear(self) except -1
    # internals
    cdef void release(self) noexcept
    cdef dict special_keys(self, IndependentMask mask, tuple names, object unnamed)
    cdef object begun(self, int record, int closing)
