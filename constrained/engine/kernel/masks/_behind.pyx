# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The automaton states behind texts: where a mask goes on with the tokens that leave a text.

    the text does not matter to what follows ── popped ──► one state for each stack
    a Dispatch asks for the text ── ordinary ──► one state for all texts that are not special
                                 └─ following ──► one for each special text, at the exits of `special_exits` or,
                                                  of texts in quotes, `special_groups`
    an ordinary key whose value has ended ── value ──► one for each set of written keys and stack

Owns: the states behind texts and values, the beginnings of recorded texts, the exits of names.  Borrows: the
automaton, which it adds states to; stacks, positions and the trie; `Dispatches`, for what follows a recorded text; the
meter of work.
Invariant: `ordinary` reads all that lies behind any text that is not special, see `machine.Dispatch`.
Plain twin: `twin.automaton.PlainKernel._returned`, which has one frame for each text.
"""
from cython cimport final
from libc.stdint cimport int32_t
from constrained.engine.memory._meter cimport Meter, work
from constrained.engine.kernel._tables cimport Ints, Map, ints_add, ints_free, map_free, map_get, map_put
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD
from constrained.engine.kernel.automaton._closure cimport EXITS, FINAL
from constrained.engine.kernel.automaton._dispatch cimport Dispatches
from constrained.engine.kernel.automaton._objects cimport OTHER
from constrained.engine.kernel.automaton._stacks cimport ENDS, LEAVES, Stacks
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.texts._positions cimport Positions

cdef enum:
    GROUPED = 32        # ticks that it takes to look at a group of exits
    LOOKED_UP = 32      # and at a text
    ALL = 0x7FFFFFFF


@final
cdef class Behind:
    """States behind texts, each found once."""

    def __cinit__(self, Dispatches dispatches, Automaton automaton):
        self.dispatches, self.automaton, self.trie = dispatches, automaton, automaton.trie
        self.stacks, self.positions, self.meter = dispatches.stacks, dispatches.positions, automaton.meter
        self.begun_texts, self.named_exits = {}, {}

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        ints_free(&self.seeds)
        map_free(&self.popped_states)
        map_free(&self.generic)
        map_free(&self.values)

    cdef int clear(self) except -1:
        """Forget all states."""
        self.release()
        self.begun_texts, self.named_exits = {}, {}
        return 0

    cdef int popped(self, int stack) except -1:
        """Return the state in which the text above `stack` has just ended; frames that record are left out."""
        cdef int i, known = map_get(&self.popped_states, stack, 0), flags = 0
        cdef const int32_t* frames = self.stacks.frames.at
        if known >= 0:
            return known
        self.seeds.size = 0
        for i in range(self.stacks.first.at[stack], self.stacks.first.at[stack + 1], 3):
            if frames[i] == ENDS:
                flags |= FINAL
            elif frames[i] == LEAVES:
                flags |= EXITS
            elif frames[i] >= 0 and frames[i + 1] < 0:
                ints_add(&self.seeds, frames[i])
                ints_add(&self.seeds, frames[i + 2])
        known = self.automaton.close(&self.seeds, flags) if self.seeds.size or flags else DEAD
        map_put(&self.popped_states, stack, 0, known)
        return known

    cdef dict special_exits(self, int node, int after, int record):
        """Return {node: text} for the special texts that a token can complete, of texts without quotes, which have one
        spelling."""
        cdef int exit_
        so_far = self.begun(record, -1) if record >= 8 else ""
        found = {}
        for text in self.dispatches.special_texts(after, so_far, ALL):
            work(self.meter, LOOKED_UP)
            exit_ = self.trie.find(node, text[len(so_far):].encode("utf-8", "surrogatepass"))
            if exit_ >= 0:
                found[exit_] = text
        return found

    cdef dict special_groups(self, IndependentMask mask, int q, int after, int record, bint everything):
        """Return {exit node: text} for the special texts that a token can complete, for all texts if ordinary ones are
        refused."""
        cdef dict groups = mask.groups
        if not groups:
            return {}
        work(self.meter, GROUPED * len(groups))
        closing = self.positions.spellings[self.positions.at[q >> 1].spelling].closing
        so_far = self.begun(record, closing) if record >= 8 else ""
        if not so_far and not everything and self.dispatches.machines.at[after >> 1].kind == OTHER:
            names = self.dispatches.objects.names(after)
            if len(names) <= len(groups):
                return self.special_keys(mask, names, self.dispatches.objects.unnamed(after))
        special = None if everything else self.dispatches.special_texts(after, so_far, len(groups))
        found = {}
        if special is None:
            special = [so_far + end for end in groups if everything or self.dispatches.is_special(after, so_far + end)]
        for text in special:
            exits = groups.get(text[len(so_far):])
            if exits is not None:
                for node in exits:
                    found[node] = text
        return found

    cdef dict special_keys(self, IndependentMask mask, tuple names, object unnamed):
        """Return {exit node: text} for the names of an object and its written keys without one, at the start of a key.

        PERF: the names are looked up once, not for each set of written keys: 3,000 instructions a mask.
        """
        known = self.named_exits.get((mask, id(names)))
        if known is None:
            found = {node: text for text in names for node in mask.groups.get(text, ())}
            # the names are held, so that their id stays theirs
            known = self.named_exits[mask, id(names)] = found, names
        found = known[0]
        if unnamed:
            found = found | {node: text for text in unnamed for node in mask.groups.get(text, ())}
        return found

    cdef object begun(self, int record, int closing):
        """Return the text of a record that is still inside its text."""
        found = self.begun_texts.get(record)
        if found is None:
            found = self.begun_texts[record] = self.stacks.recorded(record, bytes((closing,)) if closing >= 0 else b"")
        return found

    cdef int second(self, int record, int closing) except -1:
        """Return how long a token is at most that holds the closing quote and no second text of this beginning, in
        quotes, as no spelling is shorter."""
        return 2 + <int>len(self.begun(record, closing).encode("utf-8", "surrogatepass"))

    cdef int ordinary(self, int after, int parent) except -1:
        """Return the state behind an ordinary text, DEAD where it is refused."""
        cdef int known = map_get(&self.generic, after, parent)
        if known < 0:
            known = self.following(after, None, parent)
            map_put(&self.generic, after, parent, known)
        return known

    cdef int value(self, int after, int parent) except -1:
        """Return the state behind the value of an ordinary key of a native object.

        PERF: 1,000 instructions less for each further token of a key.
        """
        cdef int known = map_get(&self.values, after, parent)
        if known < 0:
            known = self.automaton.enter(self.dispatches.objects.position_behind(after), parent, 0)
            map_put(&self.values, after, parent, known)
        return known

    cdef int following(self, int after, object text, int parent) except -1:
        """Return the state behind a recorded text, DEAD where it is refused."""
        cdef int following = self.dispatches.following(after, text)
        return self.automaton.enter(following, parent, 0) if following >= 0 else DEAD
