# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The states and masks of a table become those of a kernel.

The table is laid over what the kernel knows from the start on: a state that it knows by the same way is that state, and
learns what it did not know; others are made as *unread* ones (see `automaton._automaton`), with their successors and
masks, without configurations.  So a table may be loaded twice, or beside others, into a kernel that is in use.

Refused: a kernel of its own class that answers from the table and is left for a real one where it does not know on: a
text would then be read again from its start, and nothing else that is asked of kernels could be asked of it.

Owns: nothing beyond a call.  Borrows: a kernel, which it enters as any other caller does, and to which all belongs that
is made: states and rows to the automaton, masks to the composer's arena; a table that fits.
Invariants: before the last step, `link`, nothing leads to what is made here, so what an exception leaves behind is
memory and no more.
Plain twin: none, as the plain kernel makes all again; masks are compared with its in tests/test_saved_states.py.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint8_t
from libc.string cimport memcpy, memset
from constrained.engine.memory._arena cimport Arena, arena_take
from constrained.engine.kernel._kernel cimport Kernel
from constrained.engine.kernel._saved_table cimport EXHAUSTED, SavedTable
from constrained.engine.kernel._tables cimport Ints, ints_free, ints_put, ints_room, map_get
from constrained.engine.kernel.automaton._automaton cimport Automaton, DEAD, NAME, UNKNOWN, known_successor
from constrained.engine.kernel.masks._mask_buffer cimport Mask, RECORD, listed

cdef enum:
    NAMES = 100         # bytes of a name that an unread state has


@final
cdef class Addition:
    """A table while it is laid over a kernel: which state of the kernel each of its states is."""

    cdef Kernel kernel
    cdef Automaton automaton
    cdef SavedTable table
    cdef Ints numbers               # of each state
    cdef int fresh                  # states from this number on are made here

    def __cinit__(self, Kernel kernel, int start, SavedTable table):
        self.kernel, self.automaton, self.table = kernel, kernel.automaton, table
        self.fresh = self.automaton.count
        ints_room(&self.numbers, table.states)
        ints_put(&self.numbers, start)

    def __dealloc__(self):
        ints_free(&self.numbers)

    cdef int place(self) except -1:
        """Find the states that are there already, by the way from the start, and make the others, yet without rows."""
        cdef Automaton automaton = self.automaton
        cdef const int32_t* symbols = self.table.symbols
        cdef Ints nothing
        cdef int i, parent, known
        memset(&nothing, 0, sizeof(Ints))
        for i in range(1, self.table.states):
            parent, known = self.numbers.at[self.table.before[i]], UNKNOWN
            if parent < self.fresh and symbols[i] < NAME:
                known = known_successor(&automaton.states[parent], symbols[i])
            elif parent < self.fresh:
                known = map_get(&automaton.named, parent, symbols[i] - NAME)
            if known <= DEAD and self.table.flags[i] & EXHAUSTED:
                known = automaton.intern(&nothing, self.table.flags[i] & ~EXHAUSTED)
            elif known <= DEAD:
                known = automaton.add(&nothing, self.table.flags[i])
                automaton.states[known].first, automaton.states[known].only = parent, symbols[i]
                automaton.states[known].unread = True
            ints_put(&self.numbers, known)
        return 0

    cdef int set_rows(self) except -1:
        """Give the states that were made here their successors."""
        cdef Automaton automaton = self.automaton
        cdef SavedTable table = self.table
        cdef int32_t* marks = automaton.marks
        cdef const uint8_t* map_
        cdef int i, j, byte, state, first, last = 0
        for i in range(table.states):
            state, first, last = self.numbers.at[i], last, table.ends[i]
            if not automaton.states[state].unread or automaton.states[state].row != NULL:
                continue
            map_ = table.map + 32 * <size_t>table.dead[i]
            for byte in range(256):
                marks[byte] = DEAD if map_[byte >> 3] >> (byte & 7) & 1 else UNKNOWN
            for j in range(first, last):
                for byte in range(table.bytes_[2 * j], table.bytes_[2 * j + 1] + 1):
                    marks[byte] = self.numbers.at[table.targets[j]]
            automaton.states[state].row = automaton.marked_row()
        return 0

    cdef int link(self) except -1:
        """Give the states that were there the successors that they did not know."""
        cdef SavedTable table = self.table
        cdef int i, j, byte, state, first, last = 0
        for i in range(table.states):
            state, first, last = self.numbers.at[i], last, table.ends[i]
            if state >= self.fresh:
                continue
            for j in range(first, last):
                for byte in range(table.bytes_[2 * j], table.bytes_[2 * j + 1] + 1):
                    if known_successor(&self.automaton.states[state], byte) == UNKNOWN:
                        self.automaton.keep(state, byte, self.numbers.at[table.targets[j]])
        return 0

    cdef int name(self) except -1:
        """Note which tokens the states name, and where these lead as far as that is known."""
        cdef Automaton automaton = self.automaton
        cdef const int32_t* named = self.table.named
        cdef int i, state, token
        for i in range(self.table.names):
            state, token = self.numbers.at[named[3 * i]], named[3 * i + 1]
            if state >= self.fresh and automaton.states[state].unread:
                automaton.names.setdefault(state, []).append(token)
                automaton.bytes += NAMES
            if named[3 * i + 2] >= 0 and map_get(&automaton.named, state, token) < 0:
                automaton.keep_name(state, token, self.numbers.at[named[3 * i + 2]])
        return 0

    cdef int set_masks(self) except -1:
        """Give the states masks that have none."""
        cdef Arena* arena = &self.kernel.composer.finished
        cdef const int32_t* record = self.table.records
        cdef const int32_t* listing = self.table.listed
        cdef list wholes = self.wholes(), made = []
        cdef size_t size
        cdef Mask* mask
        cdef int i, state
        for i in range(self.table.masks):
            size = 4 * RECORD * <size_t>listing[2 * i + 1]
            mask = <Mask*>arena_take(arena, sizeof(Mask) + size)
            mask.base, mask.count = NULL, listing[2 * i + 1]
            if listing[2 * i] >= 0:
                mask.base = <uint32_t*><size_t>wholes[listing[2 * i]]
            memcpy(listed(mask), record, size)
            record += RECORD * <size_t>listing[2 * i + 1]
            self.kernel.composer.bytes += sizeof(Mask) + size
            made.append(<size_t>mask)
        for i in range(self.table.states):
            state = self.numbers.at[i]
            if self.table.which[i] >= 0 and self.automaton.states[state].mask == NULL:
                self.automaton.states[state].mask = <Mask*><size_t>made[self.table.which[i]]
        return 0

    cdef list wholes(self):
        """Return where the whole masks are now, which live as long as the kernel."""
        cdef const int32_t* change = self.table.changed
        cdef const int32_t* whole = self.table.whole
        cdef size_t size = 4 * <size_t>self.table.width
        cdef uint32_t* words
        cdef list made = []
        cdef int i, j
        for i in range(self.table.wholes):
            words = <uint32_t*>arena_take(&self.kernel.composer.finished, size)
            self.kernel.composer.bytes += size
            if whole[3 * i + 1] >= 0:
                memcpy(words, self.table.raw + self.table.width * <size_t>whole[3 * i + 1], size)
            elif whole[3 * i] >= 0:
                memcpy(words, <uint32_t*><size_t>made[whole[3 * i]], size)
            else:
                memset(words, 0, size)
            for j in range(whole[3 * i + 2]):
                words[change[0]] = <uint32_t>change[1]
                change += 2
            made.append(<size_t>words)
        return made


def add(Kernel kernel, int start, SavedTable table):
    """Lay a table that `fits` over what is known from a start on.

    Raises: Preempted: the kernel was emptied.  MemoryError: what was made until then may stay.
    """
    cdef Addition made
    kernel.enter(None)
    try:
        kernel.check(start)
        made = Addition(kernel, start, table)
        made.place()
        made.set_rows()
        made.set_masks()
        made.name()
        made.link()
    except BaseException:
        kernel.drop()
        raise
    finally:
        kernel.leave()
