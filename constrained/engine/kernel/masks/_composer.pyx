# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The mask of an automaton state, composed of a walk of the trie, masks of texts, and walks behind the texts' ends.

What tokens do inside a text depends only on the vocabulary and the text's language: that part is a context-independent
mask.  Tokens that leave the text are walked from the state behind it, each from the trie node where it leaves.  An
example is worked through in docs/kernel.md.

    state ── walk ──► tokens, and a worklist of the texts it enters
    text  ── context-independent mask ──► tokens, and exits ── walk from the state behind the text ──► tokens
    state that others are like ── shared mask ──► tokens, and exits ── walk from the state behind the member ──► tokens

Owns: the buffer, the finished masks, `AlikeStates`, `Behind`, `TextEnds`, `SharedStates`, `Unions`.  Borrows: automaton
and machines, stacks, positions, `Walk`, `IndependentMasks`, `FiniteTexts`, `Dispatches`, the trie; the meter of work.
Invariants: bit i of the mask of a state = (a step over token i leads to a state that is not DEAD); equal masks that
differ from one base in the same blocks are one block of memory; between masks the buffer is empty.
Plain twin: `twin.automaton.PlainKernel.mask`, which walks all tokens.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.memory._arena cimport arena_free, arena_undo
from constrained.engine.memory._meter cimport Meter
from constrained.engine.kernel._tables cimport Ints, Map, ints_add, map_free, map_get, map_put, pair
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD
from constrained.engine.kernel.automaton._closure cimport FINAL
from constrained.engine.kernel.automaton._dispatch cimport Dispatches
from constrained.engine.kernel.automaton._machines cimport Machine, Machines
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.masks._behind cimport Behind
from constrained.engine.kernel.masks._building cimport IndependentMask, stored
from constrained.engine.kernel.masks._mask_buffer cimport (
    Mask, buffer_begin, buffer_clear, buffer_end, buffer_has, buffer_token, buffer_tokens, buffer_words,
    is_same_mask, mask_bytes, pack)
from constrained.engine.kernel.masks._finite_texts cimport FiniteTexts
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks._shared_states cimport InMember, SharedStates, NOT_MET
from constrained.engine.kernel.masks._text_ends cimport TextEnds
from constrained.engine.kernel.masks._unions cimport Unions
from constrained.engine.kernel.masks._walk cimport Walk
from constrained.engine.kernel.masks.alike._alike_states cimport AlikeStates
from constrained.engine.kernel.masks.alike._key_kinds cimport UNIQUE
from constrained.engine.kernel.texts._positions cimport Positions

from constrained.engine.kernel.masks._shared_states import MET, TO_MAKE, TOO_LARGE

cdef enum:
    ADDED = 32          # ticks that it takes to add a context-independent mask
    TRIED = 16          # and to look at a token again
    MOST_BARE = 256     # texts without an end of their own that are put off below nodes
    NOTED = 256         # texts put off below a node, from which on each is noted so that none is added twice


@final
cdef class Composer:
    """Makes the masks of states, each once; whoever asks keeps them with the state."""

    def __cinit__(self, Dispatches dispatches, FiniteTexts finite, stop):
        self.dispatches, self.finite, self.walk, self.masks = dispatches, finite, finite.walk, finite.masks
        self.automaton, self.trie, self.meter = finite.automaton, finite.trie, finite.meter
        self.stacks, self.machines = dispatches.stacks, dispatches.machines
        self.positions, self.stop, self.behind = finite.positions, stop, Behind(dispatches, self.automaton)
        self.unions = Unions(self.meter, self.masks.store, self.masks.builder.counter, self.trie.words)
        self.ends = TextEnds(self.behind, dispatches, finite, self.unions)
        self.ends.buffer = &self.buffer
        self.alike = AlikeStates(self.behind, self.walk, self.masks)
        self.shared_states = SharedStates(self.automaton, dispatches.expansion, self.masks.builder.counter)
        buffer_begin(&self.buffer, self.trie.words)
        buffer_begin(&self.aside, self.trie.words)

    def __dealloc__(self):
        self.release()
        buffer_end(&self.buffer)
        buffer_end(&self.aside)

    cdef void release(self) noexcept:
        arena_free(&self.finished)
        self.finished.used = self.finished.size = 0
        map_free(&self.ids)

    cdef int clear(self) except -1:
        """Give all memory back but that of the buffer; no mask is there any more."""
        self.release()
        self.bytes = 0
        self.behind.clear()
        self.alike.clear()
        self.ends.clear()
        self.shared_states.clear()
        self.unions.clear()
        return self.walk.clear()

    cdef int drop(self) noexcept:
        """Leave nothing half done behind, where an operation ended by an exception."""
        buffer_clear(&self.buffer)
        buffer_clear(&self.aside)
        self.ends.drop(&self.buffer)
        self.sharing = self.walk.bare = False
        self.walk.leaving = NULL
        return self.finite.drop()

    cdef Mask* compose(self, int state) except NULL:
        """Return the mask of a state, that of another one where no token tells them apart."""
        cdef Mask* mask
        cdef int kind
        if self.automaton.states[state].unread:
            self.automaton.read(state)
            if self.automaton.states[state].mask != NULL:
                return self.automaton.states[state].mask
        kind = self.alike.find(state)
        if kind != UNIQUE and self.alike.first.at[kind] != UNIQUE:
            return self.automaton.states[self.alike.first.at[kind]].mask
        mask = self.made(state)
        if kind != UNIQUE:
            self.alike.first.at[kind] = state
        return mask

    cdef Mask* made(self, int state) except NULL:
        """Make the mask of a state, one that is there already where another state has the same."""
        cdef Mask* mask
        cdef uint64_t digest
        cdef int twin
        self.fill(state)
        mask = pack(&self.buffer, &self.finished, &digest)
        twin = map_get(&self.ids, digest, 0)
        if twin >= 0 and is_same_mask(mask, self.automaton.states[twin].mask, self.trie.words):
            arena_undo(&self.finished, mask_bytes(mask, self.trie.words))
            return self.automaton.states[twin].mask
        if twin < 0:
            map_put(&self.ids, digest, 0, state)
        self.bytes += mask_bytes(mask, self.trie.words)
        return mask

    cdef int fill(self, int state) except -1:
        """Fill the buffer with the mask of a state."""
        cdef int token
        self.buffer.todo.doubtful.size = 0
        map_free(&self.buffer.todo.added)
        if not self.add_shared(state, -1) and not self.add_state(state):
            buffer_clear(&self.buffer)
            self.walk.bare = True
            self.add_state(state)
            self.walk.bare = False
        self.try_doubtful(state)
        self.add_named(state)
        if self.automaton.states[state].flags & FINAL:
            for token in self.stop:
                buffer_token(&self.buffer, token)
        return 0

    cdef bint add_state(self, int state) except -1:
        """Add the tokens of a state, but for what `fill` looks at; say whether that was finished: no texts without an
        end of their own follow each other in too many places."""
        cdef int light = self.walk.light_state(state)
        if light != state:
            self.walk.put_off(&self.buffer, state, -1)
        if light != DEAD and not self.ends.members.walk_all(&self.buffer, light):
            self.walk.walk_all(&self.buffer, light)
        return self.add_all()

    cdef bint add_all(self) except -1:
        """Work the worklist off, and what is put off meanwhile; say whether that was finished, see `add_state`.

        PERF: words behind words end at every node of the trie, 15,000 parts of a mask; walked as one state, each node
        is visited once.
        """
        cdef Ints* names = &self.buffer.todo.names
        cdef Ints* texts = &self.buffer.todo.texts
        cdef Ints* states = &self.buffer.todo.states
        cdef int i, q, stack, node, begun = 0, bare = 0
        while texts.size or names.size or states.size:
            if states.size:
                states.size -= 2
                q, node = states.at[states.size], states.at[states.size + 1]
                if self.walk.bare or not self.add_shared(q, node):
                    self.walk.below(&self.buffer, q, node)
                continue
            if names.size:
                names.size -= 4
                i = names.size
                self.finite.add_names(&self.buffer, names.at[i], names.at[i + 1], names.at[i + 2], names.at[i + 3])
                continue
            texts.size -= 3
            i = texts.size
            q, stack, node = texts.at[i], texts.at[i + 1], texts.at[i + 2]
            begun += node >= 0
            if begun > NOTED and node >= 0 and not self.is_first(q, stack, node):
                continue
            if self.positions.languages.at[self.positions.at[q >> 1].language].texts >= 0:
                self.finite.add(&self.buffer, q, stack, node)
            else:
                bare += node >= 0 and self.walk.is_bare(q, stack)
                if bare > MOST_BARE:
                    return False
                self.add_text(q, stack, node)
        return True

    # -- what states share that are in members alike -------------------------------------------------------------------

    cdef bint add_shared(self, int state, int node) except -1:
        """Add the tokens of a state, or those below a trie node from a state there, by what other states have; say
        whether that is all: there was another one with such a member."""
        cdef InMember member
        cdef IndependentMask mask
        cdef int token
        if self.walk.bare or not self.shared_states.find(state, &member):
            return False
        mask = self.shared(&member, node)
        if mask is None:
            return False
        self.meter.ticks += ADDED + mask.words.size + 2 * mask.exits.size
        if mask.bits != NULL:
            self.unions.add(&self.buffer, mask, mask.bits)
        else:
            buffer_words(&self.buffer, &mask.words)
        for token in range(mask.tokens.size):
            buffer_token(&self.buffer, mask.tokens.at[token])
            ints_add(&self.buffer.todo.doubtful, mask.tokens.at[token])
        if mask.exits.size:
            self.ends.leave_all(mask, self.automaton.enter(member.behind, member.parent, 0), NULL)
        return self.add_all() if node < 0 else True     # else whoever works the list off goes on with it

    cdef IndependentMask shared(self, const InMember* member, int node):
        """Return what the states share that have a lonely state, None: nothing, or it is met for the first time by the
        vocabulary, if the state has a name, else for the first two times by this kernel."""
        cdef IndependentMask made
        cdef int index = self.shared_states.index(member.lonely, node)
        kept = MET if index == NOT_MET else self.shared_states.masks[index]
        if kept is not MET and kept is not TO_MAKE:
            return kept
        name = self.shared_states.name(member)
        key = None if name is None else ("member", name, node)
        if index != NOT_MET and key is None and kept is MET:
            self.shared_states.masks[index] = TO_MAKE
            return None
        found = stored(self.masks.entries, key) if key is not None else None
        if found is not None and found is not TO_MAKE:
            found = None if found is TOO_LARGE else found
            self.shared_states.masks[self.shared_states.index(member.lonely, node)] = found
            return found
        if index == NOT_MET and found is None or self.sharing:
            if key is not None and found is None:
                self.masks.store.put(key, TO_MAKE, 0)
            return None
        made = self.make_shared(member.lonely, node)
        self.shared_states.masks[self.shared_states.index(member.lonely, node)] = made
        if key is not None:
            self.masks.store.put(key, TOO_LARGE if made is None else made, made.size if made is not None else 0)
        elif made is not None:
            self.bytes += made.size
        return made

    cdef IndependentMask make_shared(self, int lonely, int node):
        """Return a mask of what leads from a lonely state to a live one, with the nodes at which tokens leave the
        member; None: it is not worth its memory."""
        cdef IndependentMask made = IndependentMask()
        self.buffer, self.aside, self.sharing = self.aside, self.buffer, True
        self.walk.leaving = &made.exits
        if node < 0:
            finished = self.add_state(lonely)
        else:
            self.walk.below(&self.buffer, lonely, node)
            finished = self.add_all()
        self.walk.leaving = NULL
        if finished:
            self.meter.ticks += TRIED * self.buffer.todo.doubtful.size
            made = self.shared_states.gathered(made, lonely, node, &self.buffer)
        buffer_clear(&self.buffer)
        self.buffer, self.aside, self.sharing = self.aside, self.buffer, False
        return made if finished else None

    cdef int try_doubtful(self, int state) except -1:
        """Look at the doubtful tokens one by one."""
        cdef Ints* doubtful = &self.buffer.todo.doubtful
        cdef int i, token
        self.meter.ticks += TRIED * doubtful.size
        for i in range(doubtful.size):
            token = doubtful.at[i]
            if buffer_has(&self.buffer, token) and self.automaton.after_token(state, token) == DEAD:
                ints_add(&self.buffer.removed, token)
        return 0

    cdef int add_named(self, int state) except -1:
        """Add the special tokens that may come next."""
        cdef int i, j, q, first = self.automaton.states[state].first
        cdef Machine* m
        for i in range(first, first + self.automaton.states[state].count, 2):
            q = self.automaton.configurations.at[i]
            if not q & 1:
                m = &self.machines.at[q >> 1]
                for j in range(m.tokens, m.tokens_end, 2):
                    buffer_token(&self.buffer, self.machines.tokens.at[j])
        return 0

    cdef bint is_first(self, int q, int stack, int node) except -1:
        """Note a text below a trie node; say whether it is met for the first time in this mask.

        Where texts of any length follow each other (comments made of comments), there are exponentially many ways to a
        node.
        """
        cdef Map* added = &self.buffer.todo.added
        if map_get(added, pair(q, stack), node) >= 0:
            return False
        map_put(added, pair(q, stack), node, 0)
        return True

    # -- texts and what lies behind them -------------------------------------------------------------------------------

    cdef int add_text(self, int q, int stack, int node) except -1:
        """Add the mask of one text configuration, whole or below a trie node: its context-independent mask, and what
        lies behind it."""
        cdef IndependentMask mask = self.masks.part(q, node) if node >= 0 else self.masks.whole(q)
        cdef bint recording = self.stacks.records(stack)
        cdef int behind, closing = self.positions.spellings[self.positions.at[q >> 1].spelling].closing
        self.meter.ticks += ADDED + 2 * mask.exits.size
        if node >= 0:
            buffer_tokens(&self.buffer, mask.tokens.at, mask.tokens.size)
        elif recording and closing >= 0:
            self.unions.add(&self.buffer, mask, self.masks.inside(mask))
        else:
            self.unions.add(&self.buffer, mask, mask.bits)
        behind = self.behind.popped(stack)
        if behind != DEAD:
            if node >= 0 or recording and closing >= 0:
                self.ends.end_all(mask, NULL)     # else the whole mask has these tokens
            self.ends.leave_all(mask, behind, NULL)
        if recording and closing >= 0:
            self.ends.leave_recorded(mask, q, stack, node)
        elif recording:
            self.ends.leave_bare(mask, stack, node)
        return 0
