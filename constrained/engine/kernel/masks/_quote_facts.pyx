# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What the tokens of a vocabulary have around a quote: how far one may read on that has part of a key.

    before   x"           the byte before a quote
    behind   , "x         the byte behind a comma, blanks and a quote
    braced   { "x         the byte behind a brace, blanks and a quote
    colon    x" : 12      what is behind a quote, blanks, a colon, and behind each of the blanks that follow
    closed   x" }, 12     what is behind a quote, blanks and the closing bracket of an object

Of 128,000 tokens 43 have a quote and a colon, with 23 texts behind them, and none has a closing bracket there: so from
within a key no token reads to the end of its object.

Owns: these facts, which are kept with the vocabulary.  Borrows: the trie.
Invariant: whatever a token has inside of texts counts as well, so what is said not to be there is not.
Plain twin: none; `tests/test_alike_states.py` asks of vocabularies that have such tokens.
"""
from cython cimport final
from libc.stdint cimport int32_t
from libc.string cimport memchr
from constrained.engine.kernel._trie cimport Trie
from constrained.engine.kernel.masks._building cimport stored

cdef enum:
    QUOTE = 0x22
    COMMA = 0x2C
    COLON = 0x3A
    BACKSLASH = 0x5C
    BRACE = 0x7B
    BRACKET = 0x7D

cdef bytes BLANKS = b" \t\n\r"


cdef QuoteFacts quote_facts(Trie trie, object store):
    """Return the facts of a vocabulary, those in its store where they are there."""
    found = stored(store.entries, ("quotes", QUOTE))
    if found is None:
        found = QuoteFacts(trie)
        store.put(("quotes", QUOTE), found, 0)
    return found


cdef inline bint is_blank(int byte) noexcept nogil:
    return byte in (0x20, 0x09, 0x0A, 0x0D)


@final
cdef class QuoteFacts:
    """Facts of one vocabulary; never changed."""

    def __cinit__(self, Trie trie):
        before, behind, braced = bytearray(HEXED + 1), bytearray(ESCAPED + 1), bytearray(ESCAPED + 1)
        tails, closed = set(), set()
        find_quotes(trie, (before, behind, braced, tails, closed))
        before[HEXED] = any([before[digit] for digit in b"0123456789abcdefABCDEF"])
        self.before, self.behind, self.braced = bytes(before), bytes(behind), bytes(braced)
        self.closes = any([b"}" in tail for tail in tails])
        self.begins = any([begins_text(tail) for tail in tails])
        self.colon, self.closed = laid_out(tails), laid_out(closed)


cdef bytes laid_out(set tails):
    """Return some bytes as a trie in preorder: of each node its byte, depth and end; None: it is too large."""
    cdef int i
    if len(tails) > MOST_NODES:
        return None
    nodes = sorted({tail[:i] for tail in tails for i in range(1, len(tail) + 1)})
    if len(nodes) > MOST_NODES:
        return None
    made = b""
    for i, begun in enumerate(nodes):
        end = i + sum([node.startswith(begun) for node in nodes])
        made += bytes((begun[len(begun) - 1], len(begun), end))
    return made


cdef int find_quotes(Trie trie, tuple into) except -1:
    """Note what tokens have around quotes.  PERF: few have one, 0.4 ms of 128,000 tokens instead of 2."""
    cdef const unsigned char* text = trie.spelled
    cdef const unsigned char* at = text
    cdef const int32_t* begins = trie.begins
    cdef int i, token, left = 0, right, length = begins[trie.size]
    while True:
        at = <const unsigned char*>memchr(at, QUOTE, length - (at - text))
        if at == NULL:
            return 0
        i, right = <int>(at - text), trie.size
        while left < right:         # the first token that begins behind it
            token = (left + right) >> 1
            if begins[token] <= i:
                left = token + 1
            else:
                right = token
        note_quote(text[begins[left - 1]:begins[left]], i - begins[left - 1], into)
        at += 1
        left -= 1


cdef int note_quote(bytes token, int at, tuple into) except -1:
    """Note what a token has before and behind a quote."""
    cdef bytearray before, behind, braced
    cdef const unsigned char* text = token
    cdef int i = at + 1, length = len(token)
    before, behind, braced, tails, closed = into
    while i < length and is_blank(text[i]):
        i += 1
    if i < length and text[i] == COLON:
        i += 1
        tails.add(token[i:])
        while i < length and is_blank(text[i]):
            i += 1
            tails.add(token[i:])
    elif i < length and text[i] == BRACKET:
        closed.add(token[i + 1:])
    if not at:
        return 0
    i = at - 1
    before[text[i]] = 1
    while i > 0 and is_blank(text[i]):
        i -= 1
    if text[i] == COMMA:
        note_next(token, at, behind)
    elif text[i] == BRACE:
        note_next(token, at, braced)
    return 0


cdef int note_next(bytes token, int at, bytearray behind) except -1:
    """Note the byte that a token has behind a quote."""
    cdef int length = len(token)
    if at + 1 < length:
        behind[token[at + 1]] = 1
        if token[at + 1] == BACKSLASH and at + 2 < length:
            behind[ESCAPED] = 1
    return 0


cdef bint begins_text(bytes tail):
    """Say whether a comma, blanks, a quote and a further byte are there."""
    parts = [tail[at + 1:].lstrip(BLANKS) for at in range(len(tail)) if tail[at] == COMMA]
    return any([part.startswith(b'"') and len(part) > 1 for part in parts])
