# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Preparation of a grammar's masks, ahead of the first visit: edges of its machine states, masks of its texts.

An automaton state differs from another by what has been written before, so most of those that a generation meets are
new, and no list of them can be walked ahead.  The machine states that they consist of are few: the value of a property
is the same one whichever properties are written.  Here all that can be reached from a start is asked for its edges,
nearest first, and each text for its context-independent mask; what is left to a first visit is to put these together.

Of an object only the first key is taken: each name, and one key without a name.  Of a counted text one count is.

Owns: which states are still to be prepared.  Borrows: a kernel, which it enters as any other caller does, and to which
all belongs that is made.
Plain twin: none; masks are those of a kernel that was not prepared, tests/test_stored.py.
"""
from cython cimport final
from constrained.engine.kernel._kernel cimport Kernel
from constrained.engine.kernel._tables cimport Ints, Map, ints_add, ints_free, map_free, map_get, map_put
from constrained.engine.kernel.automaton._machines cimport DISPATCH, EXPANDED, Machine, RECORDS
from constrained.engine.kernel.automaton._objects cimport BEGIN, ENTRY, NAMED, OTHER, PLAIN, POSITION
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.texts._positions cimport BODY, Position

cdef enum:
    MOST = 20_000       # machine states that one preparation looks at
    MOST_INNER = 200    # and positions behind characters: the digits of a number have no end


@final
cdef class Preparation:
    """The states that can be reached from a root machine, in the order in which they are prepared."""

    cdef Kernel kernel
    cdef Ints order                 # machine states and starts of texts, each once
    cdef Ints inner                 # positions behind characters of texts: last, as patterns have many
    cdef Map seen                   # those, and the tables of objects behind whose first key it has gone on
    cdef int at, inner_at           # how many are prepared

    def __cinit__(self, Kernel kernel, root):
        self.kernel = kernel
        kernel.enter(None)
        try:
            kernel.check(0)
            kernel.composer.alike.kinds.known_facts()
            self.add(&self.order, MOST, kernel.expansion.number(root))
        except BaseException:
            kernel.drop()
            raise
        finally:
            kernel.leave()

    def __dealloc__(self):
        ints_free(&self.order)
        ints_free(&self.inner)
        map_free(&self.seen)

    def go_on(self, budget):
        """Prepare the next state; say whether there was one.

        Raises: LimitExceeded: it took too much work; the next call goes on behind it.  Preempted: others wait for the
        kernel, or it was emptied.
        """
        cdef int q
        if self.at == self.order.size and self.inner_at == self.inner.size:
            return False
        self.kernel.enter(budget)
        try:
            self.kernel.check(0)
            q = self.next_state()
            if q & 1:
                self.prepare_text(q)
            else:
                self.prepare_machine(q)
        except BaseException:
            self.kernel.drop()
            raise
        finally:
            self.kernel.leave()
        return True

    cdef int next_state(self) noexcept:
        """Take a state from the queues; there is one."""
        if self.at < self.order.size:
            self.at += 1
            return self.order.at[self.at - 1]
        self.inner_at += 1
        return self.inner.at[self.inner_at - 1]

    cdef int add(self, Ints* queue, int most, int q) except -1:
        """Queue a machine state or a position, unless it was; refused texts are none."""
        if q >= 0 and queue.size < most and map_get(&self.seen, q, 0) < 0:
            map_put(&self.seen, q, 0, 0)
            ints_add(queue, q)
        return 0

    # -- machine states ------------------------------------------------------------------------------------------------

    cdef int prepare_machine(self, int q) except -1:
        """Ask a machine state for its edges and queue where they lead."""
        cdef Kernel kernel = self.kernel
        cdef Machine m
        cdef int i, after
        if not kernel.machines.at[q >> 1].flags & EXPANDED:
            kernel.expansion.expand(q >> 1)
        m = kernel.machines.at[q >> 1]
        if m.flags & DISPATCH:
            return self.prepare_dispatch(q)
        for i in range(m.ranges, m.ranges_end, 3):
            self.add(&self.order, MOST, kernel.machines.ranges.at[i + 2])
        for i in range(m.tokens, m.tokens_end, 2):
            self.add(&self.order, MOST, kernel.machines.tokens.at[i + 1])
        for i in range(m.calls, m.calls_end, 2):
            after = kernel.machines.calls.at[i + 1]
            self.add(&self.order, MOST, kernel.machines.calls.at[i])
            if not after & 1 and kernel.machines.at[after >> 1].kind == OTHER:
                self.prepare_keys(kernel.machines.calls.at[i], after)
            if self.is_near(after):
                self.add(&self.order, MOST, after)
        return 0

    cdef bint is_near(self, int q) except -1:
        """Say whether a state is followed: not the keys behind the first one of an object, whose values are known."""
        cdef Machine* m = &self.kernel.machines.at[q >> 1]
        cdef int table
        if q & 1 or m.kind == PLAIN or m.kind == ENTRY or m.kind == BEGIN or self.kernel.objects.keys.is_blank(m.set):
            return True
        if m.kind != POSITION:
            return False
        table = self.kernel.objects.keys.sets[m.set].table
        if map_get(&self.seen, table, 1 + m.extra) >= 0:
            return False
        map_put(&self.seen, table, 1 + m.extra, 0)
        return True

    cdef int prepare_dispatch(self, int after) except -1:
        """Queue what follows the texts of a Dispatch: each name of an object, else an ordinary text."""
        cdef Kernel kernel = self.kernel
        cdef Machine m = kernel.machines.at[after >> 1]
        cdef int label, table
        if m.kind == NAMED:
            table = kernel.objects.keys.sets[m.set].table
            for label in range(kernel.objects.keys.tables[table].names):
                if kernel.objects.keys.tables[table].usable[label >> 5] >> (label & 31) & 1:
                    self.add(&self.order, MOST, kernel.objects.behind_name(after, label))
        elif m.kind == OTHER:
            self.add(&self.order, MOST, kernel.objects.lonely_entry(after))
        elif m.flags & RECORDS:
            self.add(&self.order, MOST, kernel.dispatches.following(after, None))
        return 0

    # -- texts ---------------------------------------------------------------------------------------------------------

    cdef int prepare_keys(self, int text, int after) except -1:
        """Make what tokens do that end a key without a name and go on behind it."""
        cdef Kernel kernel = self.kernel
        cdef IndependentMask mask
        cdef int i, body
        for i in range(kernel.machines.at[text >> 1].ranges, kernel.machines.at[text >> 1].ranges_end, 3):
            body = kernel.machines.ranges.at[i + 2]
            if not self.has_mask(body):
                continue
            mask = kernel.masks.whole(body)
            if mask.groups is None:
                kernel.masks.group(mask, body, -1)
            kernel.masks.behind_key(mask if mask.base is None else mask.base, kernel.objects.lonely_entry(after),
                                    kernel.objects.shared_name(after))
        return 0

    cdef bint has_mask(self, int q) noexcept:
        """Say whether a position has a context-independent mask that is worth making."""
        cdef Position* p = &self.kernel.positions.at[q >> 1]
        if not q & 1 or p.place != BODY:
            return False
        return self.kernel.languages.at[p.language].texts < 0 and not self.kernel.languages.at[p.language].labelled

    cdef int prepare_text(self, int q) except -1:
        """Make the mask of a text, and queue the positions behind its next character."""
        cdef Kernel kernel = self.kernel
        cdef int i, target, spelling = kernel.positions.at[q >> 1].spelling
        cdef int language = kernel.positions.at[q >> 1].language
        if not self.has_mask(q):
            return 0
        kernel.masks.whole(q)
        if kernel.languages.counted(language) is not None:
            return 0
        if kernel.languages.at[language].first < 0:
            kernel.languages.expand(language)
        for i in range(kernel.languages.at[language].first, kernel.languages.at[language].last):
            target = kernel.languages.target(language, i)
            if target >= 0:
                self.add(&self.inner, MOST_INNER, 2 * kernel.positions.body(spelling, target) + 1)
        return 0
