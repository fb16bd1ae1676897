# cython: language_level=3
"""Exits of bare texts that say nothing, as every token below them stays inside as well.  Header only.

Plain twin: none: masks with and without them are the same.
"""
from libc.stdint cimport int32_t, uint32_t
from constrained.engine.memory._memory cimport allotted, released
from constrained.engine.kernel._tables cimport Ints
from constrained.engine.kernel._trie cimport Trie, TrieNode

cdef enum:
    FEW = 64            # exits that are not worth a look at the whole vocabulary


cdef inline int drop_covered(Ints* exits, Trie trie, const uint32_t* bits) except -1:
    """Forget such exits of a mask if they are many: all of them, for free text."""
    cdef const TrieNode* nodes = trie.nodes
    cdef int i, kept = 0, node, below = 0
    cdef int32_t* outside = NULL
    if exits.size <= FEW:
        return 0
    for i in range(exits.size):
        node = exits.at[i]
        below += nodes[nodes[node].end].first - nodes[node + 1].first
    # tokens, some of them many times: then one look at all of them is less
    if below > nodes[trie.count].first:
        outside = count_outside(trie, bits)
    for i in range(exits.size):
        node = exits.at[i]
        if leaves_below(trie, bits, node, outside):
            exits.at[kept] = node
            kept += 1
    exits.size = kept
    released(outside)
    return 0


cdef inline int32_t* count_outside(Trie trie, const uint32_t* bits) except NULL:
    """Return how many of the first i tokens of the trie do not stay inside, for every i."""
    cdef int i, token, count = trie.nodes[trie.count].first
    cdef int32_t* outside = <int32_t*>allotted(<size_t>count + 1, 4)
    outside[0] = 0
    for i in range(count):
        token = trie.ids[i]
        outside[i + 1] = outside[i] + 1 - (bits[token >> 5] >> (token & 31) & 1)
    return outside


cdef inline bint leaves_below(Trie trie, const uint32_t* bits, int node, const int32_t* outside) noexcept:
    """Say whether some token below a trie node does not stay inside."""
    cdef const TrieNode* nodes = trie.nodes
    cdef int i, first = nodes[node + 1].first, last = nodes[nodes[node].end].first
    if outside != NULL:
        return outside[last] > outside[first]
    for i in range(first, last):
        if not bits[trie.ids[i] >> 5] >> (trie.ids[i] & 31) & 1:
            return True
    return False
