# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled kernel: the automaton of `engine.twin.automaton` in flat arrays, with merged stacks and shared masks.

Three things differ from the twin, none of them in meaning.
*Merged stacks*: a stack is an interned set of frames, i.e. a node of a graph of stacks; readings that share a machine
state share one configuration, so an ambiguous grammar costs as many configurations as it has machine states.
*Rows*: every automaton state has 256 successors, filled on demand; rows share the blocks that are empty.
*Shared masks*: what tokens do inside a text is kept with the vocabulary, see `_masks`; of finished masks that are equal
one is kept.

Invariant: mask(state) bit i = (step_token(state, i) != DEAD), checked bit by bit in tests/laws.
Memory: some 250 bytes per stepped state, a few hundred per mask as a rule; the owner starts a fresh kernel when
`is_full`.
Threads: everything runs under the GIL, but machine states are asked for their edges in Python, where it may pass on; so
whatever may add to the automaton passes its `turnstile`.  What is known is read without it; finished masks are
immutable and copied without the GIL.
Sources: Tomita 1986 (graph-structured stacks); stack sets in canonical form and inner masks with exits: ours.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from constrained.engine.memory._memory cimport allotted, cleared
from libc.string cimport memset
from constrained.engine.memory._arena cimport arena_free, arena_undo
from constrained.engine.kernel._automaton cimport known_successor
from constrained.engine.kernel._inner_walk cimport Counter
from constrained.engine.kernel._machines cimport BOTTOM, FINAL, UNKNOWN
from constrained.engine.kernel._masks cimport Masks
from constrained.engine.memory._meter cimport LITTLE, Meter
from constrained.engine.memory._turnstile cimport Turnstile
from constrained.engine.kernel._rows cimport bitmask_row, exact
from constrained.engine.kernel._text cimport Texts
from constrained.engine.kernel._packed cimport BLOCK, RECORD, Mask, draft_clear, is_same_mask, mask_bytes, pack, unpack
from constrained.engine.kernel._tables cimport Ints, Map, Node, ints_add, ints_free, map_free, map_get, map_put

from constrained.engine.tokens.bitmask import misfit
from constrained.errors import LimitExceeded
from constrained.work import Preempted

import numpy as np

cdef enum:
    DEAD = 0
    NO_TOKEN = -1
    MOST_LANGUAGES = 100_000    # that one mask or step may add; more than a set of 10,000 texts takes
    ROOT = 1 << 14              # estimated bytes of the Python objects behind a root


cdef class Kernel(Masks):
    """One automaton over root machines and a vocabulary; states are ints.

    The same class to read: `engine.twin.automaton.PlainKernel`.
    """

    cdef Turnstile turnstile
    cdef dict roots_known           # (root, nullable) -> state
    cdef Map mask_ids               # digest -> a state with such a mask
    cdef int size                   # of the vocabulary
    cdef object __weakref__
    cdef bint gone                  # emptied: no state is known any more
    cdef bint used                  # since somebody last asked
    cdef int pins                   # batches that copy masks without the GIL

    def __cinit__(self, vocabulary, root=None, *, nullable=False, specials, max_configurations=20_000,
                  max_bytes=1 << 28):
        self.turnstile = Turnstile()
        self.specials, self.vocabulary_tokens, self.stop = specials, vocabulary.tokens, vocabulary.stop
        self.max_configurations, self.max_bytes = min(max_configurations, 1 << 30), max_bytes
        self.store = vocabulary.kernels.masks
        if self.store.counter is None:
            self.store.counter = Counter()
        self.counter = self.store.counter
        self.size = vocabulary.size
        self._load(vocabulary)
        self.path = <int32_t*>allotted(<size_t>self.longest + 2, 4)
        self.draft.words, self.draft.blocks = self.words, (self.words + BLOCK - 1) // BLOCK
        self.draft.bits = <uint32_t*>cleared(BLOCK * (self.draft.blocks + 8), 4)
        self.draft.touched = <uint8_t*>cleared(self.draft.blocks + 8, 1)
        self.draft.records.at = <int32_t*>allotted(RECORD * (self.draft.blocks + 1), 4)
        self.intern_state(0)                                   # DEAD
        self.roots_known = {}
        self.start = self.start_at(root, nullable) if root is not None else DEAD

    def __dealloc__(self):
        free(self.mask_ids.at)

    def _load(self, vocabulary):
        trie = vocabulary.trie
        self.arrays = (trie, vocabulary.spelled, vocabulary.characters, vocabulary.by_characters)
        cdef const uint8_t[::1] bytes_ = vocabulary.spelled[1]
        cdef const int32_t[::1] i = vocabulary.spelled[0]
        cdef const int32_t[:, ::1] records = trie.records
        cdef const uint64_t[::1] below
        self.nodes = len(trie.byte)
        self.words, self.longest = vocabulary.words, vocabulary.longest
        self.token_bytes, self.token_first = &bytes_[0], &i[0]
        self.trie = <const Node*>&records[0, 0]
        i = trie.roots
        self.roots = &i[0]
        if self.nodes:
            i = trie.ids
            below = trie.below
            self.ids, self.below = &i[0], &below[0]
            i = vocabulary.characters
            self.characters = &i[0]
            i = vocabulary.by_characters[0]
            self.fewest_first = &i[0]
            i = vocabulary.by_characters[1]
            self.with_at_most = &i[0]

    # -- one thread at a time ------------------------------------------------------------------------------------------

    cdef int enter(self, object budget) except -1:
        """Wait until the automaton is free.

        budget: what the work is counted against (`work.Budget`); None: the thread's own.
        """
        if self.turnstile.is_inherited():
            self.adopt()
        if not self.turnstile.try_pass():
            self.meter.waiting += 1
            self.turnstile.wait()
            self.meter.waiting -= 1
        self.meter.budget = budget
        self.turnstile.put_off_collections()
        self.texts.most = self.texts.language_count + MOST_LANGUAGES

    cdef int leave(self) except -1:
        try:
            if self.meter.opened or self.meter.ticks >= LITTLE:
                self.meter.close()
        finally:
            self.meter.ticks, self.meter.budget = 0, None
            self.turnstile.leave()
        return 0

    cdef int adopt(self) except -1:
        """Make the kernel of a parent process one's own: with a lock that nobody holds, and nothing half done."""
        self.turnstile.renew()
        self.pins = 0
        self.meter.forget()
        self.drop()
        return 0

    cdef int drop(self) except -1:
        """Leave nothing half done behind, where an operation ended by an exception."""
        self.work.size = self.deferred.size = self.names.size = 0
        draft_clear(&self.draft)
        memset(self.marks, 0, 4 * 256)
        return 0

    def is_wanted(self):
        """Say whether the operation under way has kept others waiting for long enough; see `work.Preempted`."""
        return self.meter.wanted()

    def start_at(self, root, bint nullable, object budget=None):
        """Return the state at the start of the words of a root machine, and of the empty word if `nullable`."""
        self.check(DEAD)
        known = self.roots_known.get((root, nullable))
        if known is not None:
            return known
        self.enter(budget)
        try:
            self.check(DEAD)
            ints_add(&self.work, self.machine(root))
            ints_add(&self.work, BOTTOM)
            known = self.roots_known[root, nullable] = self.close(FINAL if nullable else 0)
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()
        self.bytes += ROOT
        return known

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step_byte(self, int state, int byte):
        """Return the state after one byte, DEAD if no word goes on so."""
        self.enter(None)
        try:
            self.check(state)
            return self.next_state(state, byte)
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    def step_bytes(self, int state, bytes data):
        """Return the state after some bytes."""
        cdef const unsigned char* at = data
        cdef int i
        self.enter(None)
        try:
            self.check(state)
            for i in range(len(data)):
                state = self.next_state(state, at[i])
                if state == DEAD:
                    break
            return state
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    def next_bytes(self, int state):
        """Return the bytes that may come next, in ascending order."""
        cdef int byte
        self.enter(None)
        try:
            self.check(state)
            return bytes([byte for byte in range(256) if self.next_state(state, byte) != DEAD])
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    def step_token(self, int state, object token_id, object budget=None):
        """Return the state after a token id: its bytes, or the edges of the machine that name it; NO_TOKEN where it is
        no int in range."""
        cdef long token = exact(token_id)
        cdef int i, last, after = state
        if state < 0 or not 0 <= token < self.size:
            return NO_TOKEN
        last = self.token_first[token + 1]
        self.used = True
        if self.gone:
            raise Preempted
        for i in range(self.token_first[token], last):
            after = known_successor(&self.states[after], self.token_bytes[i])
            if after == UNKNOWN:
                break
            if after == DEAD or i == last - 1:
                return after
        self.enter(budget)
        try:
            self.check(state)
            return self.after_token(state, <int>token)
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    # -- masks ---------------------------------------------------------------------------------------------------------

    cdef Mask* mask_of(self, int state, object budget) except NULL:
        """Return the mask of a state, computed once."""
        cdef Mask* mask
        self.used = True
        if self.gone:
            raise Preempted
        mask = self.states[state].mask
        if mask != NULL:
            return mask
        self.enter(budget)
        try:
            self.check(state)       # what was waited for may have been emptied
            if self.states[state].mask == NULL:
                self.states[state].mask = self.computed(state)
            return self.states[state].mask
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    cdef Mask* computed(self, int state) except NULL:
        cdef Mask* mask
        cdef uint64_t digest
        cdef int twin
        self.fill_draft(state)
        mask = pack(&self.draft, &self.masks, &digest)
        twin = map_get(&self.mask_ids, digest, 0)
        if twin >= 0 and is_same_mask(mask, self.states[twin].mask, self.words):
            arena_undo(&self.masks, mask_bytes(mask, self.words))
            return self.states[twin].mask
        if twin < 0:
            map_put(&self.mask_ids, digest, 0, state)
        self.bytes += mask_bytes(mask, self.words)
        return mask

    def mask(self, int state):
        """Return the tokens that may come next as a new array, (words,) uint32, bit i of word w = token 32 w + i is
        allowed."""
        cdef Mask* mask = self.mask_of(state, None)
        made = np.empty(self.words, np.uint32)
        cdef uint32_t[::1] view = made
        unpack(mask, self.words, &view[0])
        return made

    def cached_bytes(self):
        """Return an estimate of the memory that the automaton holds, the vocabulary's shared masks not counted."""
        return 0 if self.gone else self.bytes + 8 * self.frames.size + 60 * self.texts.position_count + self.texts.bytes

    def sizes(self):
        """Return how much the automaton holds, by kind; for reports."""
        return {"states": self.state_count, "machines": self.machine_count, "stacks": self.stack_first.size - 1,
                "positions": self.texts.position_count, "languages": self.texts.language_count,
                "records": self.record_parent.size, "masks": self.mask_ids.size}

    def count_states(self):
        """Return how many states there are."""
        return self.state_count

    cdef bint full(self) noexcept:
        return self.bytes + self.texts.bytes > self.max_bytes or self.gone

    def is_full(self):
        """Say whether the cache has passed its bound: its owner then asks `Kernels` for more, or for another."""
        return self.full()

    def is_gone(self):
        """Say whether the kernel was emptied; whatever is asked of its states raises `Preempted`."""
        return self.gone

    def was_used(self):
        """Say whether anything was asked since this was asked last."""
        cdef bint used = self.used
        self.used = False
        return used

    def allow(self, long size):
        """Set the bound."""
        self.max_bytes = size

    def drop_all(self):
        """Give all memory back; say whether that was possible.  Impossible while somebody works or copies."""
        if self.turnstile.is_inherited():
            self.adopt()
        if self.gone or self.pins or not self.turnstile.try_pass():
            return False
        try:
            self.empty()
        finally:
            self.turnstile.unlock()
        return True

    cdef int empty(self) except -1:
        self.gone = True        # first: what follows may fail on its way
        self.state_count = 0
        arena_free(&self.rows)
        arena_free(&self.masks)
        self.rows.used = self.rows.size = self.masks.used = self.masks.size = 0
        for vector in (<size_t>&self.configs, <size_t>&self.state_next, <size_t>&self.frames, <size_t>&self.stack_first,
                       <size_t>&self.stack_next,
                       <size_t>&self.record_parent, <size_t>&self.record_byte, <size_t>&self.ranges,
                       <size_t>&self.calls, <size_t>&self.tokens,
                       <size_t>&self.work, <size_t>&self.closed, <size_t>&self.set_words, <size_t>&self.set_next):
            ints_free(<Ints*><size_t>vector)
        for table in (<size_t>&self.state_ids, <size_t>&self.stack_ids, <size_t>&self.unions, <size_t>&self.pushed,
                      <size_t>&self.stepped,
                      <size_t>&self.popped, <size_t>&self.record_ids, <size_t>&self.dispatched,
                      <size_t>&self.recorded_after, <size_t>&self.mask_ids,
                      <size_t>&self.part_ids, <size_t>&self.behind_ids, <size_t>&self.set_ids, <size_t>&self.object_ids,
                      <size_t>&self.text_machines, <size_t>&self.generic, <size_t>&self.closed_at):
            map_free(<Map*><size_t>table)
        free(self.states)
        self.states, self.state_room = NULL, 0
        self.objects, self.machine_ids, self.ordered_texts, self.roots_known = [], {}, {}, {}
        self.inners, self.parts_known, self.behind_keys, self.begun_texts = {}, [], [], {}
        self.table_objects, self.table_ids, self.others, self.others_ids, self.others_of = [], {}, [], {}, {}
        self.texts = Texts(self.meter)
        return 0

    cdef int check(self, int state) except -1:
        """Note that the kernel is used; an emptied one knows no state."""
        self.used = True
        if self.gone:
            raise Preempted
        return 0

    def fill(self, int state, object bitmask, object row, object budget=None):
        """Write the mask of a state, no token where it is negative, into one row of an int32 bitmask (rows, words); say
        whether the cache is full."""
        cdef Mask* mask = NULL if state < 0 else self.mask_of(state, budget)
        cdef int32_t* bits = bitmask_row(bitmask, self.words, row)
        if state < 0:
            memset(bits, 0, 4 * self.words)
        else:
            unpack(mask, self.words, <uint32_t*>bits)
        return self.full()


def fill_rows(list entries, object bitmask):
    """Write entry i = (kernel, state, budget) into row i of a bitmask: new masks one by one, then all copies without
    the GIL.

    Returns the rows whose masks took too much work, or kept others waiting; these allow nothing.
    """
    cdef int i, count = len(entries), words
    cdef Kernel kernel
    cdef Mask** sources
    cdef int32_t** rows
    failed, pinned = [], []
    if not count:
        return failed
    words = (<Kernel>entries[0][0]).words
    sources = <Mask**>cleared(2 * <size_t>count, sizeof(void*))
    rows = <int32_t**>(sources + count)
    try:
        for i in range(count):
            kernel, state, budget = entries[i]
            kernel.pins += 1
            pinned.append(kernel)
            if kernel.words != words:
                raise misfit(bitmask, i, kernel.words)
            if state >= 0:
                try:
                    sources[i] = kernel.mask_of(state, budget)
                except (LimitExceeded, Preempted):
                    failed.append(i)
        for i in range(count):
            rows[i] = bitmask_row(bitmask, words, i)
        with nogil:
            for i in range(count):
                if sources[i] == NULL:
                    memset(rows[i], 0, 4 * words)
                else:
                    unpack(sources[i], words, <uint32_t*>rows[i])
    finally:
        for kernel in pinned:
            kernel.pins -= 1
        free(sources)
    return failed
