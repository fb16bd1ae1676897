# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Exits of context-independent masks by the text before them, and the tokens that may complete a second text.

Owns: nothing; what it finds belongs to the mask.  Borrows: the trie, the counter of the vocabulary's store, the meter.
Invariant: `groups`, `twice` and `twice_keys` of a mask are set once, and each says all: whoever finds it need not look
at the others.
Plain twin: none of their own: masks are compared with those of `twin.automaton`, bit by bit, in `tests/laws.py`.
"""
from cython cimport final
from constrained.engine.memory._meter cimport Meter, work
from constrained.engine.kernel._trie cimport TrieNode, Trie
from constrained.engine.kernel.masks._building cimport Builder, Counter, IndependentMask

from constrained.engine.twin.spelling import decode

cdef enum:
    GROUPED = 192       # ticks of an exit that is sorted in
    LOOKED_AT = 64      # and of one whose tokens are looked at


@final
cdef class Grouping:
    """Finds out about the exits of masks what few ask for."""

    def __cinit__(self, Builder builder):
        self.meter, self.trie, self.counter = builder.meter, builder.trie, builder.counter

    cdef int group(self, IndependentMask mask, object spelling, int node) except -1:
        """Sort the exits by the text before them; node: the mask is of what lies below it, -1: of all."""
        self.find_twice(mask, node)
        mask.groups = self.grouped(mask, spelling, node) if mask.base is None else self.inherited(mask, spelling)
        mask.weigh(self.counter, self.trie.words)
        return 0

    cdef dict grouped(self, IndependentMask mask, object spelling, int node):
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, at, depth, base = nodes[node].depth if node >= 0 else 0
        groups, tokens = {}, self.trie.texts
        work(self.meter, GROUPED * mask.exits.size)
        for i in range(mask.exits.size):
            at, depth = nodes[mask.exits.at[i]].first, nodes[mask.exits.at[i]].depth
            text = None if spelling.closing < 0 else self.trie.plain_text(self.trie.ids[at], base, depth - 1)
            if text is None:
                text = decode(spelling.quoting, spelling.opening + tokens[self.trie.ids[at]][base:depth])
            groups.setdefault(text, []).append(mask.exits.at[i])
        return groups

    cdef dict inherited(self, IndependentMask mask, object spelling):
        """Return the groups of the base of a mask, as far as it has the same exits."""
        cdef IndependentMask base = mask.base
        cdef int i
        if base.groups is None:
            self.group(base, spelling, -1)
        if mask.exits.size == base.exits.size:
            return base.groups
        left = {mask.exits.at[i] for i in range(mask.exits.size)}
        kept = {text: [exit for exit in exits if exit in left] for text, exits in base.groups.items()}
        return {text: exits for text, exits in kept.items() if exits}

    cdef int find_twice(self, IndependentMask mask, int node) except -1:
        """Find the tokens that leave the text and may complete a second one.

        PERF: of most masks nobody asks more: 700 exits of a string are sorted in 30 µs.
        """
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int i, at, exit_
        if mask.twice_keys is not None:
            return 0
        if mask.base is not None:
            self.find_twice(mask.base, -1)
            mask.twice, mask.twice_keys = mask.base.twice, mask.base.twice_keys
            return 0
        doubles, tokens = [], self.trie.texts
        work(self.meter, LOOKED_AT * mask.exits.size)
        for i in range(mask.exits.size):
            exit_ = mask.exits.at[i]
            for at in range(nodes[exit_].first, nodes[nodes[exit_].end].first):
                if self.trie.quotes(self.trie.ids[at], nodes[exit_].depth) > 1:
                    doubles.append(self.trie.ids[at])
        mask.twice = doubles
        mask.twice_keys = [token for token in doubles if has_keys(tokens[token])]    # last: whoever finds it finds both
        return 0


cdef bint has_keys(bytes text):
    behind = text.partition(b":")[2].partition(b",")[2]
    return behind.count(b'"') + behind.count(b"'") > 1
