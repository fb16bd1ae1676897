"""The token trie for the units above it; explained in _tokens.pyx."""
from cython cimport final
from libc.stdint cimport int32_t, uint32_t, uint64_t, uint8_t


cdef struct TrieNode:
    int32_t end, first, depth, byte     # of a node of the token trie; see `trie.TokenTrie`


@final
cdef class Trie:
    cdef object arrays              # that the pointers lead into
    cdef int size, words, longest   # ids of the vocabulary, words of a mask, bytes of its longest token
    cdef int count                  # of nodes
    cdef const TrieNode* nodes          # (count + 1,) in preorder
    cdef const uint64_t* below      # (count,) classes of the bytes below each node
    cdef const int32_t* roots       # (256,) the root's child for each byte, -1: none
    cdef const int32_t* ids         # tokens in the order of the nodes at which they end
    cdef const int32_t* characters  # of the token at the same place of `ids`
    cdef const int32_t* fewest_first    # the tokens by number of characters, and how many have at most so many of them
    cdef const int32_t* with_at_most
    cdef const uint8_t* spelled     # the bytes of all tokens, one after another; none of special tokens
    cdef const int32_t* begins      # (size + 1,) where those of each token begin
    cdef object texts               # (size,) bytes of each token or None

    cdef int find(self, int node, bytes path) noexcept
    cdef int quotes(self, int token, int first) noexcept
    cdef object plain_text(self, int token, int first, int last)


cdef inline void set_tokens(const TrieNode* nodes, const int32_t* ids, int node, uint32_t* bits) noexcept nogil:
    """Set the bits of the tokens that end at a trie node."""
    cdef int i
    for i in range(nodes[node].first, nodes[node + 1].first):
        bits[ids[i] >> 5] |= <uint32_t>1 << (ids[i] & 31)


cdef inline void clear_tokens(const TrieNode* nodes, const int32_t* ids, int node, uint32_t* bits) noexcept nogil:
    """Clear the bits of the tokens that end at a trie node."""
    cdef int i
    for i in range(nodes[node].first, nodes[node + 1].first):
        bits[ids[i] >> 5] &= ~(<uint32_t>1 << (ids[i] & 31))
