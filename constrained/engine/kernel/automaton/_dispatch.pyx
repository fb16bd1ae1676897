# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Dispatch on texts: the machine state behind a text, where it depends on which text was read (`machine.Dispatch`).

Behind the name of a property comes that property's value; behind an item of a set, the set without it.  A Dispatch is
told either the label of the text, where the language knows which of its texts was read, or the text itself, of which
the stack has then kept a record.

Owns: what each Dispatch has answered.  Borrows: `Expansion`, for the numbers of machine states; machines, objects,
stacks with their records, positions inside texts; the meter of work.
Invariant: a Dispatch is asked once for each label or record.
Plain twin: `twin.automaton.PlainKernel._returned`.
"""
from cython cimport final
from constrained.engine.memory._meter cimport Meter, ask, work
from constrained.engine.kernel._tables cimport Map, map_free, map_get, map_put
from constrained.engine.kernel.automaton._expansion cimport Expansion
from constrained.engine.kernel.automaton._machines cimport DISPATCH, Machine, Machines, RECORDS
from constrained.engine.kernel.automaton._objects cimport NAMED, Objects, OTHER
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.texts._languages cimport NONE
from constrained.engine.kernel.texts._positions cimport Positions

cdef enum:
    RECENT = 32
    ASKED = 512         # ticks that it takes to ask a Dispatch


cdef list starting(tuple texts, str start, int most):
    """Return those of some sorted texts that start so, None if these are more than `most`."""
    cdef int first = 0, last = len(texts), count = last, middle
    while first < last:
        middle = (first + last) >> 1
        if <str>texts[middle] < start:
            first = middle + 1
        else:
            last = middle
    while last < count and (<str>texts[last]).startswith(start):
        last += 1
        if last - first > most:
            return None
    return list(texts[first:last])


@final
cdef class Dispatches:
    """The Dispatches of a kernel; `after` is always the number of one."""

    def __cinit__(self, Expansion expansion, Stacks stacks):
        self.expansion, self.stacks = expansion, stacks
        self.meter, self.machines, self.objects = expansion.meter, expansion.machines, expansion.objects
        self.positions, self.sorted_texts = expansion.positions, {}

    def __dealloc__(self):
        map_free(&self.by_label)
        map_free(&self.by_record)

    cdef int clear(self) except -1:
        """Forget all answers."""
        map_free(&self.by_label)
        map_free(&self.by_record)
        self.sorted_texts = {}
        return 0

    cdef int returned(self, int q, int after, int record) except -2:
        """Return the machine state that follows a call whose word ends at q; NONE where the text that was read is
        refused.  Here alone `after` may be any state."""
        cdef Machine* m = &self.machines.at[after >> 1]
        cdef int label, found
        if after & 1 or not m.flags & DISPATCH:
            return after
        if m.flags & RECORDS:
            found = map_get(&self.by_record, after, record)
            if found < 0:
                found = self.following(after, self.stacks.recorded(record, b"")) + 1
                map_put(&self.by_record, after, record, found)
            return found - 1
        label = self.positions.label(q >> 1)
        if m.kind == NAMED:
            return self.objects.behind_name(after, label)
        found = map_get(&self.by_label, after, label)
        if found < 0:
            ask(self.meter)
            target = self.machines.objects[after >> 1].after(label)
            found = self.expansion.number(target) + 1 if target is not None else 0
            map_put(&self.by_label, after, label, found)
        return found - 1

    cdef int following(self, int after, object text) except -2:
        """Return the machine state that follows a recorded text (None: an ordinary one), NONE where it is refused."""
        if self.machines.at[after >> 1].kind == OTHER:
            if text is not None and self.objects.is_special(after, text):
                return NONE
            return self.objects.behind_other(after, text)
        ask(self.meter)
        work(self.meter, ASKED + (len(text) if text is not None else 0))
        target = self.machines.objects[after >> 1].after_text(text)
        return self.expansion.number(target) if target is not None else NONE

    cdef bint is_special(self, int after, object text) except -1:
        """Say whether a recording Dispatch treats a text apart."""
        if self.machines.at[after >> 1].kind == OTHER:
            return self.objects.is_special(after, text)
        return text in self.machines.objects[after >> 1].special

    cdef list special_texts(self, int after, str start, int most):
        """Return the texts that start so and that a recording Dispatch treats apart, None if these are more than
        `most`."""
        if self.machines.at[after >> 1].kind == OTHER:
            found = starting(self.objects.names(after), start, most)
            if found is not None:
                for text in self.objects.unnamed(after):
                    if (<str>text).startswith(start):
                        found.append(text)
            return found
        texts = self.machines.objects[after >> 1].special
        in_order = self.sorted_texts.get(texts)
        if in_order is None:
            if len(self.sorted_texts) >= RECENT:
                self.sorted_texts.clear()
            in_order = self.sorted_texts[texts] = tuple(sorted(texts))
        return starting(in_order, start, most)

    cdef int tells_from(self, int after) except -2:
        """Return how many bytes behind a text tell ordinary texts apart at least, -1: no number does."""
        if self.machines.at[after >> 1].kind == OTHER:
            return -1
        tells_from = self.machines.objects[after >> 1].tells_from
        return -1 if tells_from is None else tells_from

    cdef bytes told_by(self, int after):
        """Return the bytes of which such a token has one, b"": any will do."""
        return b"" if self.machines.at[after >> 1].kind == OTHER else self.machines.objects[after >> 1].told_by
