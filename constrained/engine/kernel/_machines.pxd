# cython: language_level=3
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map, Node
from constrained.engine.kernel._text cimport Texts

cdef enum:
    BOTTOM = 0          # the stack that is empty: an accepting machine ends the word
    OUTSIDE = 1         # the stack of an inner mask: an accepting machine leaves the text
    UNKNOWN = -1
    EXPANDED = 1        # flags of a machine state
    ACCEPTING = 2
    DISPATCH = 4
    RECORDS = 8
    TAIL = 16
    REFUSES = 32        # a Dispatch that may refuse a text
    FINAL = 1           # flags of an automaton state
    EXITS = 2


cdef struct Machine:
    int32_t ranges, ranges_end      # triples low, high, target
    int32_t calls, calls_end        # pairs callee, after
    int32_t tokens, tokens_end      # pairs id, target
    int32_t surface                 # of a Text, else -1
    int32_t set, extra, more        # of a native object state; see _objects.pyx
    uint8_t kind                    # 0: any other state
    uint8_t flags
    uint64_t seen                   # the closure that came by last; see `Automaton.call_all`


cdef class Machines:
    cdef Meter meter
    cdef Texts texts
    cdef object specials, vocabulary_tokens, stop
    cdef object store               # the vocabulary's inner masks; see `mask_store.MaskStore`
    cdef readonly int start
    cdef long max_configurations, max_bytes, bytes
    cdef int words, longest, nodes
    # the trie and the tokens' bytes
    cdef object arrays
    cdef const Node* trie           # (nodes + 1,)
    cdef const uint64_t* below      # (nodes,) kinds of the bytes below each node
    cdef const int32_t* roots       # (256,) the root's child for each byte, -1: none
    cdef const int32_t* ids
    cdef const int32_t* characters  # of the token at the same place of `ids`
    cdef const int32_t* fewest_first    # the tokens by number of characters, and how many have at most so many of them
    cdef const int32_t* with_at_most
    cdef const uint8_t* token_bytes
    cdef const int32_t* token_first
    # machine states: even q = machine q/2, odd q = text position q/2
    cdef Machine* machines
    cdef int machine_count, machine_room
    cdef list objects
    cdef dict machine_ids
    cdef Ints ranges, calls, tokens
    cdef Map dispatched, recorded_after
    cdef dict ordered_texts         # set of texts -> sorted, for a few sets
    # stacks: frames (after, record, parent), sorted by (after, record)
    cdef Ints frames, stack_first
    cdef Map stack_ids, unions, pushed, stepped, popped
    cdef Ints stack_next
    # records: bytes of a text that a Dispatch wants to know; record r < 8 is the empty one of surface r
    cdef Ints record_parent, record_byte
    cdef Map record_ids

    cdef int machine(self, object state) except -1
    cdef int fresh(self, object state) except -1
    cdef int following(self, int after, object text) except -2
    cdef bint is_special(self, int after, object text) except -1
    cdef list special_texts(self, int after, str start, int most)
    cdef list starting(self, tuple texts, str start, int most)
    cdef int telling(self, int after) except -2
    cdef bytes told_by(self, int after)
    cdef int expand(self, int at) except -1
    cdef int returned(self, int q, int after, int record) except -2
    cdef int begin_frames(self) noexcept
    cdef int settle_stack(self, int first) except -1
    cdef int push(self, int after, int record, int stack) except -1
    cdef int merge(self, int x, int y, int level) except -1
    cdef int record_step(self, int stack, int byte) except -1
    cdef void sort_frames(self, int first) noexcept
    cdef bint records(self, int stack) noexcept
    cdef bint refuses(self, int stack) noexcept
