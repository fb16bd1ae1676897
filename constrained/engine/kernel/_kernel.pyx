# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled kernel: the object that matchers hold; the automaton of `engine.twin.automaton` in flat arrays.

Three things differ from the twin, none of them in meaning.
*Merged stacks*: a stack is an interned set of frames, i.e. a node of a graph of stacks; readings that share a machine
state share one configuration, so an ambiguous grammar costs as many configurations as it has machine states.
*Rows*: every automaton state has 256 successors, filled on demand; rows share the blocks that are empty.
*Shared masks*: what tokens do inside a text is kept with the vocabulary; of finished masks that are equal one is kept.

It is put together of parts, each a class with fields of its own and references to the parts that it uses; none inherits
from another.  What stands behind an arrow uses what the arrow points to:

    texts/      Languages <- Positions
    automaton/  Positions, Machines, WrittenKeys <- Objects <- Expansion <- Dispatches <- Closure <- Automaton
                Stacks <- Dispatches, Closure, Automaton          Trie <- Automaton
    masks/      Automaton <- Builder <- IndependentMasks <- FiniteTexts <- TextEnds, Composer
                Automaton <- Walk <- FiniteTexts, TextEnds    Behind <- TextEnds    SharedStates, TextEnds <- Composer
                Automaton <- Staying <- Builder               Unions <- TextEnds, Composer
    alike/      Tails <- QuoteFacts, TailKinds <- KeyKinds        ToldNames <- KeyKinds <- TextKinds <- AlikeStates
                Objects <- KeyKinds <- AlikeStates <- Composer

Owns: the parts, the lock, the roots.  Borrows: the vocabulary's store of context-independent masks.
Invariants: mask(state) bit i = (step_token(state, i) != DEAD), checked bit by bit in tests/laws.  Whatever raises
leaves every part as it was, but for what it has learned.
Memory: some 250 bytes per stepped state, a few hundred per mask as a rule; the owner starts a fresh kernel when
`is_full`.
Threads: everything runs under the GIL, but machine states are asked for their edges in Python, where it may pass on; so
whatever may add to the automaton passes its `turnstile`.  What is known is read without it; finished masks are
immutable and copied without the GIL.
Plain twin: `twin.automaton.PlainKernel`, the same protocol (`engine.kernels.Kernel`).
Sources: Tomita 1986 (graph-structured stacks); stack sets in canonical form, masks of texts with exits: ours.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset
from constrained.engine.memory._meter cimport LITTLE, Meter
from constrained.engine.memory._turnstile cimport Turnstile
from constrained.engine.kernel._rows cimport bitmask_row, exact
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel._widening cimport widen
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD, UNKNOWN, known_successor
from constrained.engine.kernel.automaton._closure cimport Closure, FINAL
from constrained.engine.kernel.automaton._dispatch cimport Dispatches
from constrained.engine.kernel.automaton._expansion cimport Expansion
from constrained.engine.kernel.automaton._machines cimport Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.automaton._stacks cimport BOTTOM, Stacks
from constrained.engine.kernel.masks._building cimport Builder, Counter
from constrained.engine.kernel.masks._composer cimport Composer
from constrained.engine.kernel.masks._mask_buffer cimport Mask, mask_has, unpack
from constrained.engine.kernel.masks._finite_texts cimport FiniteTexts
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks._walk cimport Walk
from constrained.engine.kernel.texts._languages cimport Languages
from constrained.engine.kernel.texts._positions cimport Positions

from constrained.errors import LimitExceeded
from constrained.work import Preempted

import numpy as np

cdef enum:
    NO_TOKEN = -1
    MOST_LANGUAGES = 100_000    # that one mask or step may add; more than a set of 10,000 texts takes
    ROOT = 1 << 14              # estimated bytes of the Python objects behind a root


@final
cdef class Kernel:
    """One automaton over root machines and a vocabulary; states are ints.

    The same class to read: `engine.twin.automaton.PlainKernel`; the fields are in _kernel.pxd.
    """

    def __cinit__(self, vocabulary, root=None, *, nullable=False, specials, max_configurations=20_000,
                  max_bytes=1 << 28):
        cdef Walk walk
        store = vocabulary.kernels.masks
        if store.counter is None:
            store.counter = Counter()
        self.meter, self.turnstile = Meter(), Turnstile()
        self.max_bytes, self.roots_known = max_bytes, {}
        self.trie = Trie(vocabulary)
        self.languages = Languages(self.meter)
        self.positions = Positions(self.languages)
        self.stacks, self.machines = Stacks(self.meter), Machines()
        self.objects = Objects(self.meter, self.machines, self.positions)
        self.expansion = Expansion(self.meter, self.machines, self.objects, self.positions, specials)
        self.dispatches = Dispatches(self.expansion, self.stacks)
        self.closure = Closure(self.dispatches, min(max_configurations, 1 << 30))
        self.automaton = Automaton(self.closure, self.trie)
        self.masks = IndependentMasks(Builder(self.automaton, store.counter), store)
        walk = Walk(self.automaton)
        self.composer = Composer(self.dispatches, FiniteTexts(walk, self.masks), vocabulary.stop)
        self.bytes = self.held()
        self.start = self.start_at(root, nullable) if root is not None else DEAD

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
        self.languages.most = self.languages.count + MOST_LANGUAGES

    cdef int leave(self) except -1:
        try:
            if self.meter.opened or self.meter.ticks >= LITTLE:
                self.meter.close()
        finally:
            self.meter.ticks, self.meter.budget = 0, None
            self.bytes = self.held()
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
        self.automaton.drop()
        return self.composer.drop()

    def is_wanted(self):
        """Say whether the operation under way has kept others waiting for long enough; see `work.Preempted`."""
        return self.meter.wanted()

    def start_at(self, root, bint nullable, object budget=None, long weight=0):
        """Return the state at the start of the words of a root machine, and of the empty word if `nullable`.

        weight: bytes of Python objects that the root keeps alive, beyond a small grammar's; counted once.
        """
        self.check(DEAD)
        known = self.roots_known.get((root, nullable))
        if known is not None:
            return known
        self.enter(budget)
        try:
            self.check(DEAD)
            known = self.roots_known[root, nullable] = self.automaton.enter(
                self.expansion.number(root), BOTTOM, FINAL if nullable else 0)
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()
        self.root_bytes += ROOT + weight
        self.bytes = self.held()
        return known

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step_byte(self, int state, int byte):
        """Return the state after one byte, DEAD if no word goes on so."""
        self.enter(None)
        try:
            self.check(state)
            return self.automaton.next_state(state, byte)
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
                state = self.automaton.next_state(state, at[i])
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
            return bytes([byte for byte in range(256) if self.automaton.goes_on(state, byte)])
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
        if state < 0 or not 0 <= token < self.trie.size:
            return NO_TOKEN
        last = self.trie.begins[token + 1]
        self.used = True
        if self.gone:
            raise Preempted
        for i in range(self.trie.begins[token], last):
            after = known_successor(&self.automaton.states[after], self.trie.spelled[i])
            if after == UNKNOWN:
                break
            if after == DEAD or i == last - 1:
                return after
        if self.refuses(state, <int>token):
            return DEAD
        self.enter(budget)
        try:
            self.check(state)
            return self.automaton.after_token(state, <int>token)
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    cdef bint refuses(self, int state, int token) noexcept:
        """Say whether the mask of a state is known and has not this token.  PERF: to step where no word goes on costs
        as much as a step, and nobody steps there twice."""
        cdef const Mask* mask = self.automaton.states[state].mask if state < self.automaton.count else NULL
        return mask != NULL and not mask_has(mask, token)

    def is_final(self, int state):
        """Say whether the bytes so far are a word."""
        if state >= self.automaton.count:
            raise Preempted
        return bool(self.automaton.states[state].flags & FINAL)

    def is_exhausted(self, int state):
        """Say whether nothing can follow."""
        if state >= self.automaton.count:
            raise Preempted
        return self.automaton.states[state].count == 0 and not self.automaton.states[state].unread

    def named_tokens(self, int state):
        """Return the special tokens that may come next."""
        if state >= self.automaton.count:
            raise Preempted
        return self.automaton.named_tokens(state)

    # -- masks ---------------------------------------------------------------------------------------------------------

    cdef Mask* known_mask(self, int state) noexcept:
        """Return the mask of a state, NULL where it is not known."""
        self.used = True
        return NULL if self.gone else self.automaton.states[state].mask

    cdef Mask* mask_of(self, int state, object budget) except NULL:
        """Return the mask of a state, computed once."""
        cdef Mask* mask = self.known_mask(state)
        if mask != NULL:
            return mask
        if self.gone:
            raise Preempted
        self.enter(budget)
        try:
            self.check(state)       # what was waited for may have been emptied
            if self.automaton.states[state].mask == NULL:
                self.automaton.states[state].mask = self.composer.compose(state)
            return self.automaton.states[state].mask
        except BaseException:
            self.drop()
            raise
        finally:
            self.leave()

    def mask(self, int state):
        """Return the tokens that may come next as a new array, (words,) uint32, bit i of word w = token 32 w + i is
        allowed."""
        cdef Mask* mask = self.mask_of(state, None)
        made = np.empty(self.trie.words, np.uint32)
        cdef uint32_t[::1] view = made
        unpack(mask, self.trie.words, &view[0])
        return made

    # -- memory --------------------------------------------------------------------------------------------------------

    cdef long held(self) noexcept:
        """Return an estimate of the memory that the parts hold and that bounds them."""
        return (self.root_bytes + self.languages.bytes + self.stacks.bytes + self.machines.bytes
                + self.objects.keys.bytes + self.automaton.bytes + self.composer.bytes
                + self.composer.alike.held() + self.composer.ends.bytes)

    cdef bint full(self) noexcept:
        return self.gone or self.bytes > self.max_bytes

    def cached_bytes(self):
        """Return an estimate of the memory that the automaton holds, the vocabulary's shared masks not counted."""
        return 0 if self.gone else self.held() + 8 * self.stacks.frames.size + 60 * self.positions.count

    def sizes(self):
        """Return how much the automaton holds, by kind; for reports."""
        return {"states": self.automaton.count, "machines": self.machines.count, "stacks": self.stacks.first.size - 1,
                "positions": self.positions.count, "languages": self.languages.count,
                "records": self.stacks.record_parent.size, "masks": self.composer.ids.size}

    def count_states(self):
        """Return how many states there are."""
        return self.automaton.count

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

    def make_room(self):
        """Make room for what a text may add, unless a thread is at work in here, which makes its own."""
        if self.gone or self.turnstile.is_inherited() or not self.turnstile.try_pass():
            return
        try:
            widen(self.composer)
        except (LimitExceeded, MemoryError):
            pass                # which is for whoever needs the room
        finally:
            self.turnstile.unlock()

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
        self.roots_known = {}
        self.composer.clear()
        self.masks.clear()
        self.automaton.clear()
        self.closure.clear()
        self.dispatches.clear()
        self.expansion.clear()
        self.objects.clear()
        self.machines.clear()
        self.stacks.clear()
        self.positions.clear()
        return self.languages.clear()

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
        cdef int32_t* bits = bitmask_row(bitmask, self.trie.words, row)
        if state < 0:
            memset(bits, 0, 4 * self.trie.words)
        else:
            unpack(mask, self.trie.words, <uint32_t*>bits)
        return self.full()
