# cython: language_level=3
"""Children of the token trie by their bytes; see _branches.pyx."""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint64_t
from constrained.engine.kernel._tables cimport mix


cdef struct TrieNode:
    int32_t end, first, depth, byte     # of a node of the token trie; see `trie.TokenTrie`


@final
cdef class Branches:
    cdef object records             # that `nodes` leads into
    cdef const TrieNode* nodes
    cdef int count                  # of nodes
    cdef uint64_t* wide             # a bit for each node: whether it has many children
    cdef int32_t* children          # (mask + 1,) those of wide nodes, 0: none; each from where `place` says on
    cdef uint64_t mask

    cdef int put(self, int node) noexcept


cdef inline bint is_wide(Branches branches, int node) noexcept:
    return (branches.wide[node >> 6] >> (node & 63)) & 1


cdef inline uint64_t place(int node, int byte) noexcept:
    """Return where a child is looked for first: those of a node stand side by side.

    PERF: so all that are asked for are in one or two lines of the processor's cache."""
    return mix(node, 0) + byte


cdef inline int child_of(Branches branches, int node, int byte) noexcept:
    """Return the child of a wide node with a byte, -1: it has none."""
    cdef const TrieNode* nodes = branches.nodes
    cdef uint64_t i = place(node, byte)
    cdef int found
    while True:
        found = branches.children[i & branches.mask]
        if not found:
            return -1
        if (node < found < nodes[node].end and nodes[found].byte == byte
                and nodes[found].depth == nodes[node].depth + 1):
            return found
        i += 1
