# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Which tokens begin a name, with its opening quote: where only names may come, that is all that tells them apart.

    {"port": 80, _      "d   "description     tell whether `description` is left, and the first also `data`
                        "    no other token has a quote and the beginning of either

Owns: of names, the tokens that begin them, as bits of the trie nodes where such tokens end.  Borrows: the trie, the
meter of work.
Invariant: where two sets of names have equal bits, no token that begins with blanks and a quote tells which may come.
Plain twin: none; masks are compared with those of `twin.automaton`, bit by bit, in `tests/test_alike_states.py`.
Refused: names that a token may end, and those that one may begin with an escape; tables of many names; all names where
tokens have blanks in more ways than anybody's.
"""
from cython cimport final
from libc.stdint cimport int32_t
from constrained.engine.memory._meter cimport Meter, work
from constrained.engine.kernel._tables cimport Ints, ints_add, ints_free
from constrained.engine.kernel._trie cimport Trie, TrieNode

cdef enum:
    MOST_BLANKS = 4096      # trie nodes of blanks, of which openings are looked for; 128,000 tokens have some hundred
    MOST_NAMES = 256        # of a table: 10,000 took 8 ms
    READ = 64               # ticks that it takes to read a name from one node
    KEPT = 200              # bytes that a name takes
    QUOTE = 0x22
    SOLIDUS = 0x2F
    BACKSLASH = 0x5C
    HEXADECIMAL = 0x75      # what an escape of any character begins with, behind the backslash

cdef bytes BLANKS = b" \t\n\r"


@final
cdef class ToldNames:
    """Bits of names, each found once."""

    def __cinit__(self, Meter meter, Trie trie):
        self.meter, self.trie = meter, trie
        self.clear()

    def __dealloc__(self):
        ints_free(&self.openings)

    cdef int clear(self) except -1:
        """Forget all names."""
        ints_free(&self.openings)
        self.kept, self.is_crowded = 0, False
        self.bits, self.tokens, self.tables, self.numbers = {}, {}, {}, {}
        return 0

    cdef long held(self) noexcept:
        """Return an estimate of the memory that all this takes."""
        return KEPT * <long>self.kept

    cdef int number(self, object bits) except -1:
        """Return the number of the bits of several names."""
        found = self.numbers.get(bits)
        if found is None:
            found = self.numbers[bits] = len(self.numbers)
            self.kept += 1
        return found

    cdef list of_table(self, int table, tuple names):
        """Return the bits of the names of a table, None: tokens may tell more of one."""
        if table not in self.tables:
            found = [self.of_name(name) for name in names] if len(names) <= MOST_NAMES else [None]
            self.tables[table] = None if None in found else found
        return self.tables[table]

    cdef object of_name(self, str name):
        """Return the bits of a name, None: tokens may tell more of it."""
        if name not in self.tokens:
            self.tokens[name] = self.read(name)
            self.kept += 1
        return self.tokens[name]

    cdef object read(self, str name):
        """Read a name, which has a character, from each opening."""
        cdef int i
        cdef bytes spelled
        cdef list found = []
        if not self.openings.size:
            self.find_openings()
        first = ord(name[0])
        if self.is_crowded or first < 0x20 or first in (QUOTE, SOLIDUS, BACKSLASH) or 0xD800 <= first < 0xE000:
            return None
        spelled = name.encode("utf-8", "surrogatepass")
        work(self.meter, READ * self.openings.size)
        for i in range(self.openings.size):
            if not self.read_from(self.openings.at[i], spelled, found):
                return None
        return sum([1 << self.bits.setdefault(node, len(self.bits)) for node in found])

    cdef int find_openings(self) except -1:
        """List the nodes of blanks and a quote."""
        cdef int i = 0, at
        cdef list blanks = [-1]
        while i < len(blanks) <= MOST_BLANKS:
            at = self.child(blanks[i], QUOTE)
            if at >= 0:
                ints_add(&self.openings, at)
            for byte in BLANKS:
                at = self.child(blanks[i], byte)
                if at >= 0:
                    blanks.append(at)
            i += 1
        self.is_crowded = len(blanks) > MOST_BLANKS
        return 0

    cdef int child(self, int node, int byte) noexcept:
        """Return the trie node below one or the root (-1), -1: there is none."""
        cdef const TrieNode* nodes = self.trie.nodes
        cdef int at = node + 1
        if node < 0:
            return self.trie.roots[byte]
        while at < nodes[node].end:
            if nodes[at].byte == byte:
                return at
            at = nodes[at].end
        return -1

    cdef int read_from(self, int node, bytes name, list found) except -1:
        """Note the nodes below an opening that lead towards a name; say whether no token leads past it, nor anywhere by
        an escape."""
        cdef const unsigned char* text = name
        cdef int i = 0, length = len(name), escape = self.child(node, BACKSLASH)
        if escape >= 0 and self.child(escape, HEXADECIMAL) >= 0:
            return False
        while i < length:
            node = self.child(node, text[i])
            if node < 0:
                return True
            i += 1
            if self.trie.nodes[node + 1].first > self.trie.nodes[node].first:
                found.append(node)
            if self.child(node, BACKSLASH) >= 0:
                return False
        return self.child(node, QUOTE) < 0
