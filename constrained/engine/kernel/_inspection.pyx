# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Looks into a kernel, for people and for the example in docs/kernel.md: what its states, stacks and masks are made of.

Owns: nothing.  Borrows: a kernel, which it enters as any other caller does; asking may make states, never change one.
Plain twin: `twin.automaton.PlainKernel.configurations`.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t
from constrained.engine.kernel._kernel cimport Kernel
from constrained.engine.kernel._tables cimport Ints, Map, map_add, map_find, map_free
from constrained.engine.kernel._trie cimport TrieNode
from constrained.engine.kernel.automaton._machines cimport ACCEPTING, EXPANDED, Machine
from constrained.engine.kernel.masks._building cimport IndependentMask
from constrained.engine.kernel.texts._positions cimport Position

PLACES = ("BODY", "UTF8", "UTF8_ANY", "ESCAPE", "HEX", "HEX_ANY", "PAIR", "PAIR_U", "HEX_LOW", "PAIR_ANY", "PAIR_U_ANY",
          "HEX_LOW_ANY", "OCTAL", "DONE")
KINDS = ("PLAIN", "POSITION", "ENTRY", "BEGIN", "NAMED", "OTHER")


cdef class Table:
    """A hash table as the parts of a kernel have, by itself."""
    cdef Map entries

    def __dealloc__(self):
        map_free(&self.entries)

    def find(self, uint64_t a, uint64_t b, uint32_t near):
        """Return the value of a key that stands near others, -1: it is absent."""
        return map_find(&self.entries, a, b, near)

    def add(self, uint64_t a, uint64_t b, uint32_t near, int32_t value):
        """Add a key that is absent."""
        map_add(&self.entries, a, b, near, value)


def _within(Kernel kernel, call):
    """Make a call as the only thread in a kernel."""
    kernel.enter(None)
    try:
        kernel.check(0)
        return call()
    except BaseException:
        kernel.drop()
        raise
    finally:
        kernel.leave()


def _number(int number, int count, kind):
    """Return a number of something, if there is such a thing."""
    if not 0 <= number < count:
        raise IndexError(f"no {kind} {number:,}: there are {count:,}")
    return number


def configurations(Kernel kernel, int state):
    """Return [(machine state, stack)] of an automaton state; odd machine states are positions inside a text."""
    _number(state, kernel.automaton.count, "state")
    _within(kernel, lambda: _read(kernel, state))
    first = kernel.automaton.states[state].first
    numbers = listed(&kernel.automaton.configurations)[first:first + kernel.automaton.states[state].count]
    return list(zip(numbers[::2], numbers[1::2]))


def frames(Kernel kernel, int stack):
    """Return [(machine state to go on with, record or -1, stack below)]; -1 as state: the word ends, -2: the text."""
    _number(stack, kernel.stacks.first.size - 1, "stack")
    found = listed(&kernel.stacks.frames)[kernel.stacks.first.at[stack]:kernel.stacks.first.at[stack + 1]]
    return list(zip(found[::3], found[1::3], found[2::3]))


def edges(Kernel kernel, int q):
    """Return what a machine state is: {"ranges": [(low, high, target)], "calls": [(callee, after)], "accepting"}, or of
    a position inside a text {"place", "language"}."""
    cdef Machine m
    cdef Position p
    _number(q >> 1, kernel.positions.count if q & 1 else kernel.machines.count, "position" if q & 1 else "machine")
    if q & 1:
        p = kernel.positions.at[q >> 1]
        return {"place": PLACES[p.place], "language": _within(kernel, lambda: _language(kernel, q >> 1))}
    if not kernel.machines.at[q >> 1].flags & EXPANDED:
        _within(kernel, lambda: _expand(kernel, q >> 1))
    m = kernel.machines.at[q >> 1]
    ranges, calls = listed(&kernel.machines.ranges)[m.ranges:m.ranges_end], listed(&kernel.machines.calls)
    calls = calls[m.calls:m.calls_end]
    return {"kind": KINDS[m.kind], "ranges": list(zip(ranges[::3], ranges[1::3], ranges[2::3])),
            "calls": list(zip(calls[::2], calls[1::2])), "accepting": bool(m.flags & ACCEPTING)}


def split(Kernel kernel, int state):
    """Return (the state without its texts, [(position, stack)] of the texts): what a mask is composed of first."""
    _number(state, kernel.automaton.count, "state")
    light = _within(kernel, lambda: _split(kernel, state))
    kept = configurations(kernel, light)
    return light, [pair for pair in configurations(kernel, state) if pair not in kept]


def text_mask(Kernel kernel, int q):
    """Return (the tokens that stay inside the text at a position, the bytes of each trie node where tokens leave)."""
    _number(q >> 1 if q & 1 else -1, kernel.positions.count, "position")
    return _within(kernel, lambda: _text_mask(kernel, q))


def behind(Kernel kernel, int stack):
    """Return the automaton state in which a text above a stack has just ended."""
    _number(stack, kernel.stacks.first.size - 1, "stack")
    return _within(kernel, lambda: _behind(kernel, stack))


def alike(Kernel kernel, int state):
    """Return a number that an automaton state shares with all others that no token tells from it, -1: it was found to
    be like no other."""
    _number(state, kernel.automaton.count, "state")
    return _within(kernel, lambda: _alike(kernel, state))


def unions(Kernel kernel):
    """Return how many unions of masks there are that masks of a kernel are based on."""
    return len(kernel.composer.unions.masks)


def _expand(Kernel kernel, int machine):
    kernel.expansion.expand(machine)


def _language(Kernel kernel, int position):
    return kernel.languages.object_of(kernel.positions.at[position].language)


def _read(Kernel kernel, int state):
    return kernel.automaton.read(state)


def _split(Kernel kernel, int state):
    return kernel.composer.walk.light_state(state)


def _alike(Kernel kernel, int state):
    kernel.automaton.read(state)
    return kernel.composer.alike.find(state)


def _behind(Kernel kernel, int stack):
    return kernel.composer.behind.popped(stack)


def _text_mask(Kernel kernel, int q):
    cdef IndependentMask mask = kernel.masks.whole(q)
    cdef const uint32_t* inside = kernel.masks.inside(mask)
    cdef const TrieNode* nodes = kernel.trie.nodes
    cdef int i, token, node
    exits = []
    for i in range(mask.exits.size):
        node = mask.exits.at[i]
        below = kernel.trie.texts[kernel.trie.ids[nodes[node].first]]
        exits.append(below[:nodes[node].depth])
    return [token for token in range(kernel.trie.size) if inside[token >> 5] >> (token & 31) & 1], exits


cdef list listed(const Ints* numbers):
    cdef int i
    return [numbers.at[i] for i in range(numbers.size)]
