# cython: boundscheck=False, wraparound=False, cdivision=True
"""The vocabulary as the kernel reads it: its texts as a trie in preorder, made from flat arrays and walked by bytes.

    texts of tokens ── assembly ──► records (node: end, first token, depth, byte), ids ── Trie ──► nodes by their bytes

    states, bytes of tokens ── Steps ──► the states behind all tokens
Plain twin of the assembly: `tokens.trie`, in Python; tests/test_trie.py compares them.
"""
cimport numpy
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cython cimport final
from libc.stdlib cimport qsort
from libc.string cimport memchr, memcmp, memset
from constrained.engine.memory._memory cimport allotted, cleared, enlarged, released

from constrained.engine.tokens.trie import BITS, MALFORMED

import numpy as np


# ======================================================================================================================
# A vocabulary as C arrays: the trie of its tokens, their bytes, their numbers of characters.
#
# Owns: nothing but references to the arrays.  Borrows: the arrays of `tokens.vocabulary` and `tokens.trie`, which
# nobody writes to.
# Invariants: nodes stand in preorder, the subtree of node i is [i, nodes[i].end), its tokens are ids[nodes[i].first :
# nodes[nodes[i].end].first]; `ids` has no special token.
# Plain twin: `tokens.trie.TokenTrie`.
# ======================================================================================================================

@final
cdef class Trie:
    """What kernels read of a vocabulary."""

    def __cinit__(self, vocabulary):
        trie = vocabulary.trie
        self.arrays = (trie, vocabulary.spelled, vocabulary.characters, vocabulary.by_characters)
        cdef const uint8_t[::1] bytes_ = vocabulary.spelled[1]
        cdef const int32_t[::1] i = vocabulary.spelled[0]
        cdef const int32_t[:, ::1] records = trie.records
        cdef const uint64_t[::1] below
        self.size, self.words, self.longest = vocabulary.size, vocabulary.words, vocabulary.longest
        self.texts, self.count = vocabulary.tokens, trie.nodes
        self.spelled, self.begins = &bytes_[0], &i[0]
        self.nodes = <const TrieNode*>&records[0, 0]
        i = trie.roots
        self.roots = &i[0]
        if self.count:
            i = trie.ids
            below = trie.below
            self.ids, self.below = &i[0], &below[0]
            i = vocabulary.characters
            self.characters = &i[0]
            i = vocabulary.by_characters[0]
            self.fewest_first = &i[0]
            i = vocabulary.by_characters[1]
            self.with_at_most = &i[0]

    cdef int find(self, int node, bytes path) noexcept:
        """Return the node that some bytes, one at least, lead to from another or from the root (-1); -1: none."""
        cdef int stop
        cdef unsigned char byte
        for byte in path:
            if node < 0:
                node = self.roots[byte]
            else:
                stop, node = self.nodes[node].end, node + 1
                while node < stop and self.nodes[node].byte != byte:
                    node = self.nodes[node].end
                if node == stop:
                    return -1
            if node < 0:
                return -1
        return node

    cdef int quotes(self, int token, int first) noexcept:
        """Return how many quotes a token has from a byte on, single or double."""
        cdef int at, found = 0
        for at in range(self.begins[token] + first, self.begins[token + 1]):
            found += self.spelled[at] == 0x22 or self.spelled[at] == 0x27
        return found

    cdef object plain_text(self, int token, int first, int last):
        """Return what a token says between two of its bytes; None where an escape is among them."""
        cdef const uint8_t* spelled = self.spelled + self.begins[token] + first
        if memchr(spelled, 0x5C, last - first) != NULL:
            return None
        return PyUnicode_DecodeUTF8(<const char*>spelled, last - first, NULL)


# ======================================================================================================================
# Where tokens lead from a caller's states, small numbers, 0 for nowhere: one walk of the trie over what bytes lead to.
#
# What a byte leads to is asked for once, and may be told for bytes around it that lead there too.  Below a node where
# only whole characters lie that lead back to its state nobody walks.
#
# Owns: a row of successors for each state.  Borrows: the trie.
# Invariant: a successor that is known never changes.
# Plain twin: `plain.PlainSteps`.
# ======================================================================================================================

cdef enum:
    UNASKED = -1
    WORTHWHILE = 8          # nodes of a subtree for which the characters that lead back are asked for
    NEVER = 1 << 30


cdef struct Known:              # of a state
    int32_t* row                # (256,) successors; NULL: none was asked for
    uint64_t kinds              # what `returning` says
    int32_t asked               # whether it was
    int32_t walk                # the last one that found a token to lead there


@final
cdef class Steps:
    """Successors of states, as far as they were asked for, and walks along them.

    look(state, byte): called for one that is not known; it tells `put`.  returning(state): the kinds of characters, as
    bits of `trie.BITS`, that lead from a state back to it; some may be left out.
    """
    cdef Trie trie
    cdef object look, returning
    cdef Known* states              # (room,)
    cdef int room, walks
    cdef const int32_t[::1] unfinished      # places in `ids` of the tokens that end inside a character, ascending
    cdef readonly long bytes                # that the rows take

    def __cinit__(self, vocabulary, look, returning):
        self.trie, self.look, self.returning, self.unfinished = Trie(vocabulary), look, returning, vocabulary.unfinished

    def __dealloc__(self):
        cdef int state
        for state in range(self.room):
            released(self.states[state].row)
        released(self.states)

    cdef Known* known(self, int state) except NULL:
        cdef int room = self.room
        if state >= room:
            self.states = <Known*>enlarged(self.states, &self.room, sizeof(Known), state + 1 - room)
            memset(self.states + room, 0, sizeof(Known) * (self.room - room))
        return &self.states[state]

    cpdef int find(self, int state, int byte):
        """Return the successor of a state, -1 where it is not known."""
        return self.states[state].row[byte] if state < self.room and self.states[state].row != NULL else UNASKED

    def put(self, int state, int low, int high, int after):
        """Note where the bytes [low, high] lead from a state."""
        cdef Known* known = self.known(state)
        cdef int byte
        if known.row == NULL:
            known.row = <int32_t*>allotted(256, sizeof(int32_t))
            memset(known.row, 0xFF, 256 * sizeof(int32_t))
            self.bytes += 256 * sizeof(int32_t)
        for byte in range(low, high + 1):
            known.row[byte] = after

    def spelled(self, bytes text):
        """Return the fewest tokens that spell a text, wide ones first; None: none do.  Cost: 0.2 µs a byte.

        Of tokens of one text the last: in SentencePiece that is the piece, not the byte that stands in for it.
        """
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int count = <int>len(text), at, end, node, stop
        cdef const unsigned char* data = text
        cdef int32_t* fewest = <int32_t*>allotted(3 * <size_t>count + 1, sizeof(int32_t))  # from each place on
        cdef int32_t* token = fewest + count + 1
        cdef int32_t* behind = token + count                            # where that of the fewest ends
        found = []
        try:
            fewest[count] = 0
            for at in range(count - 1, -1, -1):
                if at and not at & 0xFFFF:  # a long text: others have a turn now and then
                    with nogil:
                        pass
                fewest[at], node, end = NEVER, self.trie.roots[data[at]], at + 1
                while node >= 0:
                    if nodes[node].first < nodes[node + 1].first and fewest[end] < fewest[at]:
                        fewest[at], behind[at] = fewest[end] + 1, end
                        token[at] = self.trie.ids[nodes[node + 1].first - 1]
                    stop, node = nodes[node].end, node + 1
                    while end < count and node < stop and nodes[node].byte != data[end]:
                        node = nodes[node].end
                    node, end = node if end < count and node < stop else -1, end + 1
            at = 0
            while at < count and fewest[at] < NEVER:
                found.append(token[at])
                at = behind[at]
        finally:
            released(fewest)
        return found if at == count else None

    def after_all(self, int state, const uint8_t[::1] allowed):
        """Return the state behind each token of the trie, in its order, (tokens,) int32, these states, each with a
        token that leads there, and how many nodes were visited.  allowed: (size,) which tokens are asked about."""
        cdef int32_t[::1] behind
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int32_t* path = <int32_t*>allotted(self.trie.longest + 2, sizeof(int32_t))
        cdef int at = 0, after, end, visited = 0, unfinished = 0
        cdef bint whole
        found, used = np.zeros(nodes[self.trie.count].first, np.int32), {}
        behind = found
        path[0] = state
        self.walks += 1
        try:
            while at < self.trie.count:
                visited += 1
                after, end = self.after(path[nodes[at].depth - 1], nodes[at].byte), nodes[at].end
                if not after:
                    at = end
                    continue
                path[nodes[at].depth] = after
                while unfinished < len(self.unfinished) and self.unfinished[unfinished] < nodes[at + 1].first:
                    unfinished += 1
                whole = unfinished == len(self.unfinished) or self.unfinished[unfinished] >= nodes[end].first
                if whole and end - at > WORTHWHILE and not self.trie.below[at] & ~self.kinds_of(after):
                    self.fill(behind, nodes[at].first, nodes[end].first, after, used, allowed)
                    at = end
                    continue
                self.fill(behind, nodes[at].first, nodes[at + 1].first, after, used, allowed)
                at += 1
        finally:
            released(path)
        return found, used, visited

    cdef int fill(self, int32_t[::1] behind, int first, int last, int after, dict used,
                  const uint8_t[::1] allowed) except -1:
        """Write where the tokens [first, last) lead."""
        cdef int i, some = -1
        cdef Known* known
        for i in range(first, last):
            if allowed[self.trie.ids[i]]:
                behind[i] = after
                some = i
        if some >= 0:
            known = self.known(after)
            if known.walk != self.walks:
                known.walk = self.walks
                used[after] = self.trie.ids[some]
        return 0

    cdef int after(self, int state, int byte) except -1:
        cdef int found = self.find(state, byte)
        return found if found != UNASKED else <int>self.look(state, byte)

    cdef uint64_t kinds_of(self, int state) except? 0:
        cdef uint64_t kinds
        if not self.known(state).asked:
            kinds = self.returning(state)
            self.known(state).kinds, self.known(state).asked = kinds, True
        return self.known(state).kinds

    def clear(self, uint32_t[::1] bits, const int32_t[::1] behind, states):
        """Clear the bits of the tokens of the trie that lead to some states."""
        cdef int i, token
        self.walks += 1
        for state in states:
            self.known(state).walk = self.walks
        for i in range(len(behind)):
            if self.states[behind[i]].walk == self.walks:
                token = self.trie.ids[i]
                bits[token >> 5] &= ~(<uint32_t>1 << (token & 31))


# ======================================================================================================================
# Token texts, one after another in flat arrays → the arrays of a `Layout`, and the texts themselves; compiled.
#
# Callers vouch for `starts`: ascending from 0, the last is at most len(data).
# Owns: nothing; what is made belongs to the caller.
# Plain twin: `trie.plain`, `trie.grown`, `trie.classes_below`; compared in tests/test_trie.py.
# ======================================================================================================================

numpy.import_array()
cdef int MALFORMED_CLASS = MALFORMED

cdef enum:
    GROUPS = 1 << 16        # two bytes


cdef struct Entry:
    uint64_t beginning      # the first eight bytes as a number, zeros behind a shorter text
    const uint8_t* text
    int32_t length, token


cdef struct Out:
    TrieNode* records               # of a Layout, the arrays by name
    uint64_t* below
    int32_t *roots, *characters, *fewest_first, *with_at_most
    bint checking               # nothing is written, but compared


ctypedef fused number:
    int32_t
    uint64_t


cdef struct Level:
    int32_t node            # of the path to the present text, at one depth
    uint64_t classes        # of the bytes below it so far
    int left                # bytes that the character at the node still needs
    uint8_t least, most     # what the next of them may be


cdef inline int by_length(int32_t a, int32_t b) noexcept nogil:
    return (a > b) - (a < b)


cdef int by_text(const void* one, const void* other) noexcept nogil:
    """Compare two entries by (text, token)."""
    cdef const Entry* a = <const Entry*>one
    cdef const Entry* b = <const Entry*>other
    cdef int found
    if a.beginning != b.beginning:
        return -1 if a.beginning < b.beginning else 1
    found = memcmp(a.text, b.text, min(a.length, b.length)) or by_length(a.length, b.length)
    return found or by_length(a.token, b.token)


cdef int sort(const Entry* entries, int count, Entry* found, int32_t* ends) noexcept nogil:
    """Write entries by (text, token) into `found`.  ends: (GROUPS,) zeros."""
    cdef int i, group, at = 0
    for i in range(count):
        ends[entries[i].beginning >> 48] += 1
    for group in range(GROUPS):
        at += ends[group]
        ends[group] = at - ends[group]
    for i in range(count):
        group = <int>(entries[i].beginning >> 48)
        found[ends[group]] = entries[i]
        ends[group] += 1
    at = 0
    for group in range(GROUPS):
        if ends[group] - at > 1:
            qsort(found + at, ends[group] - at, sizeof(Entry), by_text)
        at = ends[group]
    return 0


def sorted_ids(const int32_t[::1] starts, const uint8_t[::1] data):
    """Return the tokens that have a text, by (text, token), (tokens,) int32."""
    cdef int i, k, count = 0, size = len(starts) - 1
    cdef int32_t[::1] ids
    cdef int32_t* ends = NULL
    cdef Entry* entries = <Entry*>allotted(2 * <size_t>size, sizeof(Entry))
    cdef Entry* entry
    try:
        for i in range(size):
            entry = &entries[count]
            entry.token, entry.length, entry.beginning = i, starts[i + 1] - starts[i], 0
            if not entry.length:
                continue
            entry.text = &data[starts[i]]
            for k in range(8):
                entry.beginning = entry.beginning << 8 | (entry.text[k] if k < entry.length else 0)
            count += 1
        ends = <int32_t*>cleared(GROUPS, sizeof(int32_t))
        sort(entries, count, entries + size, ends)
        found = np.empty(count, np.int32)
        ids = found
        for i in range(count):
            ids[i] = entries[size + i].token
    finally:
        released(entries)
        released(ends)
    return found


def texts(const int32_t[::1] starts, const uint8_t[::1] data):
    """Return the text of each token, a tuple; None where it is empty."""
    cdef int i
    found = [None] * (len(starts) - 1)
    for i in range(len(starts) - 1):
        if starts[i + 1] > starts[i]:
            found[i] = PyBytes_FromStringAndSize(<const char*>&data[starts[i]], starts[i + 1] - starts[i])
    return tuple(found)


def measured(const int32_t[::1] starts, const uint8_t[::1] data, const int32_t[::1] ids):
    """Return how many bytes each text shares with its predecessor, (tokens,) int32, the number of nodes of the trie,
    and the length of the longest text.

    Raises: ValueError: the tokens do not ascend by (text, token), or one of them has no text or is none.
    """
    cdef int32_t longest = 0
    shared = np.empty(len(ids), np.int32)
    nodes = common(starts, data, ids, shared, &longest)
    return shared, nodes, longest


def lay_out(const int32_t[::1] starts, const uint8_t[::1] data, const int32_t[::1] ids, const int32_t[::1] shared,
            dict arrays, bint checking):
    """Write the arrays of the `Layout` of some tokens, which have the shapes that were measured; or say whether they
    hold it, if `checking`.

    Text j shares a prefix with its predecessor and adds one node for each further byte; these runs of new nodes, one
    after the other, are the preorder.
    """
    cdef Out out
    cdef int32_t levels = <int32_t>len(arrays["with_at_most"])
    out.records, out.below = <TrieNode*>at(arrays, "records"), <uint64_t*>at(arrays, "below")
    out.roots, out.characters = <int32_t*>at(arrays, "roots"), <int32_t*>at(arrays, "characters")
    out.fewest_first, out.with_at_most = <int32_t*>at(arrays, "fewest_first"), <int32_t*>at(arrays, "with_at_most")
    out.checking = checking
    return not nodes(out, starts, data, ids, shared, levels) and not by_characters(out, starts, data, ids, levels)


cdef void* at(dict arrays, str name) except? NULL:
    """Return where an array begins, which may be read-only: then it is only read."""
    return numpy.PyArray_DATA(arrays[name])


cdef inline bint put(number* at, number value, bint checking) noexcept nogil:
    """Write a value, or say whether it differs from the one that is there."""
    if checking:
        return at[0] != value
    at[0] = value
    return False


cdef long common(const int32_t[::1] starts, const uint8_t[::1] data, const int32_t[::1] ids, int32_t[::1] shared,
                 int32_t* longest) except -1:
    """Note how many bytes each text shares with its predecessor; return the number of nodes."""
    cdef int32_t size = <int32_t>(len(starts) - 1), before = -1, token, length, least, same
    cdef long nodes = 0
    cdef int j
    for j in range(len(ids)):
        token = ids[j]
        if not 0 <= token < size or starts[token] == starts[token + 1]:
            raise ValueError(f"token {token} has no text")
        length, same = starts[token + 1] - starts[token], 0
        if before >= 0:
            least = min(length, starts[before + 1] - starts[before])
            while same < least and data[starts[token] + same] == data[starts[before] + same]:
                same += 1
            if not ascends(starts, data, before, token, same):
                raise ValueError(f"token {token} stands behind token {before}")
        shared[j], longest[0], before = same, max(longest[0], length), token
        nodes += length - same
    return nodes


cdef bint ascends(const int32_t[::1] starts, const uint8_t[::1] data, int32_t one, int32_t other,
                  int32_t same) noexcept:
    """Say whether (text, token) ascends from one token to another whose texts begin with `same` equal bytes."""
    cdef int32_t first = starts[one + 1] - starts[one], second = starts[other + 1] - starts[other]
    if same < first and same < second:
        return data[starts[one] + same] < data[starts[other] + same]
    return first < second or (first == second and one < other)


cdef int nodes(Out out, const int32_t[::1] starts, const uint8_t[::1] data, const int32_t[::1] ids,
              const int32_t[::1] shared, int32_t levels) except -1:
    """Write the trie; say whether one was there that differs."""
    cdef bint differs = False
    cdef const uint64_t[::1] bits = BITS
    cdef Level* path = <Level*>cleared(levels, sizeof(Level))    # path[d]: the node of depth d
    cdef int32_t roots[256]
    cdef int32_t node = 0, at = 0, token
    cdef int j, d
    cdef uint8_t byte
    memset(roots, -1, sizeof(roots))
    path[0].least, path[0].most = 0x80, 0xBF
    for j in range(len(ids)):
        while at > shared[j]:
            differs |= close(out, path, at, node)
            at -= 1
        token = ids[j]
        for d in range(shared[j], starts[token + 1] - starts[token]):
            byte = data[starts[token] + d]
            at += 1
            differs |= put(&out.records[node].first, j, out.checking)
            differs |= put(&out.records[node].depth, at, out.checking)
            differs |= put(&out.records[node].byte, <int32_t>byte, out.checking)
            path[at].node, path[at].classes = node, 0
            path[at - 1].classes |= bits[byte]
            if not read(&path[at - 1], &path[at], byte):
                path[at - 1].classes |= <uint64_t>1 << MALFORMED_CLASS
            if at == 1:
                roots[byte] = node
            node += 1
    while at:
        differs |= close(out, path, at, node)
        at -= 1
    released(path)
    differs |= put(&out.records[node].end, 0, out.checking)
    differs |= put(&out.records[node].first, <int32_t>len(ids), out.checking)
    differs |= put(&out.records[node].depth, 0, out.checking)
    differs |= put(&out.records[node].byte, 0, out.checking)
    for j in range(256):
        differs |= put(&out.roots[j], roots[j], out.checking)
    return differs


cdef inline bint close(Out out, Level* path, int32_t at, int32_t node) noexcept nogil:
    """Write where the subtree of the node at a depth ends, and what is below it, which is below the node above too."""
    cdef bint differs = False
    differs |= put(&out.records[path[at].node].end, node, out.checking)
    differs |= put(&out.below[path[at].node], path[at].classes, out.checking)
    path[at - 1].classes |= path[at].classes
    return differs


cdef int by_characters(Out out, const int32_t[::1] starts, const uint8_t[::1] data, const int32_t[::1] ids,
                       int32_t levels) except -1:
    """Write how many characters tokens begin, and the tokens by that number; say whether other numbers were there."""
    cdef bint differs = False
    cdef int32_t* begun = <int32_t*>cleared(2 * len(ids) + levels + 1, sizeof(int32_t))
    cdef int32_t* places = begun + len(ids)     # where the next token with so many characters goes
    cdef int32_t* ordered = places + levels + 1
    cdef int32_t count
    cdef int j, k
    for j in range(len(ids)):
        count = 0
        for k in range(starts[ids[j]], starts[ids[j] + 1]):
            count += (data[k] & 0xC0) != 0x80
        begun[j] = count
        places[count + 1] += 1
        differs |= put(&out.characters[j], count, out.checking)
    for j in range(levels):
        places[j + 1] += places[j]
        differs |= put(&out.with_at_most[j], places[j + 1], out.checking)
    for j in range(len(ids)):
        ordered[places[begun[j]]] = ids[j]
        places[begun[j]] += 1
    for j in range(len(ids)):
        differs |= put(&out.fewest_first[j], ordered[j], out.checking)
    released(begun)
    return differs


cdef inline bint read(const Level* above, Level* here, uint8_t byte) noexcept:
    """Note what a byte leaves open of its character; say whether it is UTF-8 behind those above it.  Behind one that is
    not a new character starts."""
    here.least, here.most = 0x80, 0xBF
    if above.left and above.least <= byte <= above.most:
        here.left = above.left - 1
        return True
    here.left = 0 if byte < 0xC2 else 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3 if byte < 0xF5 else 0
    if byte == 0xE0:
        here.least = 0xA0
    elif byte == 0xED:
        here.most = 0x9F
    elif byte == 0xF0:
        here.least = 0x90
    elif byte == 0xF4:
        here.most = 0x8F
    return not above.left and not 0x80 <= byte < 0xC0
