# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Children of the token trie by their bytes, for nodes that have many.

Nodes stand in preorder, so the children of one are as far apart as what is below them: to look through 60 of them for
the three that names go on with is 60 lines that no cache of the processor has.  A table of all children of such nodes,
2 % of all nodes of a large vocabulary, finds one in one or two.

Owns: the table.  Borrows: the records of `tokens.trie`, which nobody writes to.
Invariant: a quarter of the table is in use at most, so each search ends.
Plain twin: the search from one child to the next, which `Trie.find` does; tests/test_trie.py compares them.
Cost: a millisecond for 274,000 nodes, once for a vocabulary; half a megabyte.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t
from constrained.engine.memory._memory cimport cleared, released

cdef enum:
    MANY = 8        # children from which on a node is wide; it has as many nodes below it, then


@final
cdef class Branches:
    """The children of the wide nodes of a trie."""

    def __cinit__(self, const int32_t[:, ::1] records):
        cdef int node, at, children, wide = 0
        cdef uint64_t slots = 64
        self.records, self.nodes, self.count = records, <const TrieNode*>&records[0, 0], <int>len(records) - 1
        self.wide = <uint64_t*>cleared((self.count >> 6) + 1, 8)
        for node in range(self.count):
            if self.nodes[node].end - node <= MANY:
                continue
            children, at = 0, node + 1
            while at < self.nodes[node].end:
                children, at = children + 1, self.nodes[at].end
            if children >= MANY:
                self.wide[node >> 6] |= <uint64_t>1 << (node & 63)
                wide += children
        while slots < 4 * <uint64_t>wide:
            slots *= 2
        self.children, self.mask = <int32_t*>cleared(slots, 4), slots - 1
        for node in range(self.count):
            if is_wide(self, node):
                self.put(node)

    def __dealloc__(self):
        released(self.wide)
        released(self.children)

    cdef int put(self, int node) noexcept:
        """Enter the children of a wide node."""
        cdef int at = node + 1
        cdef uint64_t i
        while at < self.nodes[node].end:
            i = place(node, self.nodes[at].byte)
            while self.children[i & self.mask]:
                i += 1
            self.children[i & self.mask] = at
            at = self.nodes[at].end
        return 0

    def find(self, int node, int byte):
        """Return the child of a node with a byte, -1: it has none; None: the node is not wide."""
        if not 0 <= node < self.count:
            raise IndexError(f"no node {node:,}: there are {self.count:,}")
        return child_of(self, node, byte) if is_wide(self, node) else None
