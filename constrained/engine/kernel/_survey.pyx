# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What a kernel knows of the states behind a start, as flat arrays, which `engine.saved_states` writes into a file.

Listed is what can be reached over successors that are known, as far as it leads to a state whose mask is known or that
ends a word: what a generation passes that goes where others have been.  States that only a walk of the trie has met
are left out, in some grammars nineteen in twenty.

Owns: nothing beyond a call.  Borrows: a kernel, which it enters as any other caller does, and does not change.
Invariants: each state but the start comes behind the one that it was reached from.
Plain twin: none, as the plain kernel makes all again; masks are compared with its in tests/test_saved_states.py.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint8_t
from libc.string cimport memcpy, memset
from constrained.engine.kernel._kernel cimport Kernel
from constrained.engine.kernel._saved_table cimport EXHAUSTED
from constrained.engine.kernel._tables cimport Ints, Map, ints_add, ints_free, map_free, map_get, map_put
from constrained.engine.kernel.automaton._automaton cimport (
    Automaton, DEAD, NAME, State, UNKNOWN, known_successor)
from constrained.engine.kernel.automaton._closure cimport FINAL
from constrained.engine.kernel.masks._mask_buffer cimport BLOCK, Mask, RECORD, listed

import numpy as np


cdef object as_array(const Ints* numbers):
    """Return a copy of some numbers, (size,) int32."""
    found = np.empty(numbers.size, np.int32)
    cdef int32_t[::1] view = found
    if numbers.size:
        memcpy(&view[0], numbers.at, 4 * <size_t>numbers.size)
    return found


@final
cdef class Survey:
    """What can be reached from a state, in the order of its distance."""

    cdef Kernel kernel
    cdef Automaton automaton
    cdef Ints states                # numbers in the kernel
    cdef Ints before, symbols       # places in `states`, and what is read between
    cdef Ints sources, targets      # places of edges over bytes and names; a target that is DEAD has none
    cdef Map places                 # number in the kernel -> place
    cdef int most

    def __cinit__(self, Kernel kernel, int start, int most):
        self.kernel, self.automaton, self.most = kernel, kernel.automaton, most
        self.reach(start, -1, -1)

    def __dealloc__(self):
        ints_free(&self.states)
        ints_free(&self.before)
        ints_free(&self.symbols)
        ints_free(&self.sources)
        ints_free(&self.targets)
        map_free(&self.places)

    cdef int reach(self, int state, int before, int symbol) except -1:
        """Note an edge to a state, and the state if it is new and not too many are there."""
        cdef int place = map_get(&self.places, state, 0)
        if place < 0:
            if self.states.size >= self.most:
                return 0
            place = ints_add(&self.states, state)
            map_put(&self.places, state, 0, place)
            ints_add(&self.before, before)
            ints_add(&self.symbols, symbol)
        if before >= 0:
            ints_add(&self.sources, before)
            ints_add(&self.targets, place)
        return 0

    cdef int reach_all(self) except -1:
        """Follow all successors that are known."""
        cdef int at = 0, state, byte, after
        while at < self.states.size:
            state = self.states.at[at]
            for byte in range(256):
                after = known_successor(&self.automaton.states[state], byte)
                if after > DEAD:
                    self.reach(after, at, byte)
            for token in sorted(self.automaton.named_tokens(state)):
                after = map_get(&self.automaton.named, state, token)
                if after > DEAD:
                    self.reach(after, at, NAME + <int>token)
            at += 1
        return 0

    cdef object useful(self):
        """Return of each place whether it leads to a state whose mask is known or that ends a word: (places,) bool."""
        cdef int i, place, count = self.states.size
        cdef State* state
        sources, targets = as_array(&self.sources), as_array(&self.targets)
        order = np.argsort(targets, kind="stable")
        cdef int32_t[::1] back = sources[order]
        cdef int32_t[::1] begins = np.searchsorted(targets[order], np.arange(count + 1)).astype(np.int32)
        cdef uint8_t[::1] found = np.zeros(count, np.uint8)
        todo = []
        for place in range(count):
            state = &self.automaton.states[self.states.at[place]]
            if state.mask != NULL or state.flags & FINAL:
                found[place] = True
                todo.append(place)
        while todo:
            place = todo.pop()
            for i in range(begins[place], begins[place + 1]):
                if not found[back[i]]:
                    found[back[i]] = True
                    todo.append(back[i])
        found[0] = True
        return np.asarray(found).astype(bool)

    cdef int write_row(self, int at, const int32_t* kept, Ints* runs, uint8_t* dead) except -1:
        """Write the successors of a place: runs of bytes (first, last, target), and which bytes lead nowhere."""
        cdef int byte, after, place, last = -1, state = self.states.at[at]
        cdef State* found = &self.automaton.states[state]
        if found.row == NULL:
            self.automaton.mark(state)
        for byte in range(256):
            after = known_successor(found, byte)
            if found.row == NULL and after == UNKNOWN and self.automaton.marks[byte] == DEAD:
                after = DEAD
            if after == DEAD:
                dead[byte >> 3] |= <uint8_t>(1 << (byte & 7))
            place = map_get(&self.places, after, 0) if after > DEAD else -1
            place = kept[place] if place >= 0 else -1
            if place >= 0 and place == last:
                runs.at[runs.size - 2] = byte
            elif place >= 0:
                ints_add(runs, byte)
                ints_add(runs, byte)
                ints_add(runs, place)
            last = place
        memset(self.automaton.marks, 0, 4 * 256)
        return 0


def survey(Kernel kernel, int start, int most):
    """Return what can be reached from a start, at most so many states, as arrays by name; see _saved_table.pxd.

    Raises: Preempted: the kernel was emptied.
    """
    cdef Survey found
    kernel.enter(None)
    try:
        kernel.check(start)
        found = Survey(kernel, start, most)
        found.reach_all()
        return {**listed_states(found), **listed_masks(found)}
    except BaseException:
        kernel.drop()
        raise
    finally:
        kernel.leave()


cdef dict listed_states(Survey found):
    """Return the arrays of states, of which those that lead to no mask are left out; `found` then has the others."""
    cdef Automaton automaton = found.automaton
    cdef Ints runs, named
    cdef int i, state, place, count
    useful = found.useful()
    numbers = np.where(useful, np.cumsum(useful) - 1, -1).astype(np.int32)
    cdef int32_t[::1] kept = numbers
    order = np.flatnonzero(useful).astype(np.int32)
    cdef int32_t[::1] places = order
    count = len(order)
    flags, begins = np.zeros(count, np.uint8), np.zeros(count + 1, np.int32)
    cdef uint8_t[::1] flag = flags
    cdef int32_t[::1] begin = begins
    dead = np.zeros((count, 32), np.uint8)
    cdef uint8_t[:, ::1] nowhere = dead
    memset(&runs, 0, sizeof(Ints))
    memset(&named, 0, sizeof(Ints))
    try:
        for i in range(count):
            place = places[i]
            state = found.states.at[place]
            flag[i] = automaton.states[state].flags
            if not automaton.states[state].count and not automaton.states[state].unread:
                flag[i] |= EXHAUSTED
            found.write_row(place, &kept[0], &runs, &nowhere[i, 0])
            begin[i + 1] = runs.size // 3
            for token in sorted(automaton.named_tokens(state)):
                place = map_get(&automaton.named, state, token)
                place = map_get(&found.places, place, 0) if place > DEAD else -1
                ints_add(&named, i)
                ints_add(&named, token)
                ints_add(&named, kept[place] if place >= 0 else -1)
        before, symbols = as_array(&found.before)[order], as_array(&found.symbols)[order]
        before[1:] = numbers[before[1:]]
        states = as_array(&found.states)[order]
        found.states.size = 0
        for i in range(count):
            ints_add(&found.states, states[i])
        return {"before": before, "symbols": symbols, "flags": flags, "begins": begins, "dead": dead,
                "runs": as_array(&runs).reshape(-1, 3), "named": as_array(&named).reshape(-1, 3)}
    finally:
        ints_free(&runs)
        ints_free(&named)


cdef dict listed_masks(Survey found):
    """Return which mask each place has (-1: not known), of each mask the number of the whole one that it is like or -1
    and records of the blocks that differ, and the whole ones."""
    cdef Automaton automaton = found.automaton
    cdef int i, words = found.kernel.trie.words
    cdef Mask* mask
    cdef const uint32_t* whole
    which = np.full(found.states.size, -1, np.int32)
    known, likes, wholes, records, numbers = {}, [], {}, [], {<size_t>NULL: -1}
    for i in range(found.states.size):
        mask = automaton.states[found.states.at[i]].mask
        if mask == NULL:
            continue
        number = known.setdefault(<size_t>mask, len(likes))
        which[i] = number
        if number < len(likes):
            continue
        whole = <const uint32_t*>listed(mask) if mask.count < 0 else mask.base
        if <size_t>whole not in numbers:
            numbers[<size_t>whole] = wholes.setdefault(copied(whole, words), len(wholes))
        likes.append(numbers[<size_t>whole])
        records.append((<char*>listed(mask))[:4 * RECORD * mask.count] if mask.count > 0 else b"")
    return {"which": which, "likes": likes, "records": records, "wholes": list(wholes)}


cdef bytes copied(const uint32_t* words, int count):
    """Return the words of a mask, filled up with zeros to a whole block."""
    return (<const char*>words)[:4 * <size_t>count] + bytes(4 * ((BLOCK - count % BLOCK) % BLOCK))
