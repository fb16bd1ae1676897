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

import re

cdef enum:
    QUOTE = 0x22
    COMMA = 0x2C
    COLON = 0x3A
    BACKSLASH = 0x5C
    BRACE = 0x7B
    BRACKET = 0x7D

cdef object NEXT_TEXT = re.compile(rb',[ \t\n\r]*"[\s\S]')    # a comma, blanks, a quote and a further byte


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
        self.find_quotes(trie, (before, behind, braced, tails, closed))
        before[HEXED] = any([before[digit] for digit in b"0123456789abcdefABCDEF"])
        self.before, self.behind, self.braced = bytes(before), bytes(behind), bytes(braced)
        self.colon, self.closed = laid_out(tails), laid_out(closed)

    cdef int find_quotes(self, Trie trie, tuple into) except -1:
        """Note what tokens have around quotes.  PERF: few have one, 0.4 ms of 128,000 tokens instead of 2."""
        cdef const unsigned char* text = trie.spelled
        cdef const unsigned char* at = text
        cdef const int32_t* begins = trie.begins
        cdef int i, token, colon, left = 0, right, told = -1, length = begins[trie.size]
        cdef bytes tail
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
            left -= 1
            colon = note_quote(text, begins[left], i, begins[left + 1], into)
            if colon >= 0 and told != left:     # behind its first colon a token has what it has behind the others
                told, tail = left, text[colon:begins[left + 1]]
                self.closes |= b"}" in tail
                self.begins |= NEXT_TEXT.search(tail) is not None
            at += 1


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


cdef int note_quote(const unsigned char* text, int first, int at, int last, tuple into) except -2:
    """Note what a token, bytes [first, last) of all, has before and behind a quote; return the place behind a colon
    that follows, -1: none does."""
    cdef bytearray before, behind, braced
    cdef set tails, closed
    cdef int i = at + 1, colon = -1
    before, behind, braced, tails, closed = into
    while i < last and is_blank(text[i]):
        i += 1
    if i < last and text[i] == COLON:
        i += 1
        colon = i
        note_tail(tails, text, i, last)
        while i < last and is_blank(text[i]):
            i += 1
            note_tail(tails, text, i, last)
    elif i < last and text[i] == BRACKET:
        note_tail(closed, text, i + 1, last)
    if at == first:
        return colon
    i = at - 1
    before[text[i]] = 1
    while i > first and is_blank(text[i]):
        i -= 1
    if text[i] == COMMA:
        note_next(behind, text, at + 1, last)
    elif text[i] == BRACE:
        note_next(braced, text, at + 1, last)
    return colon


cdef int note_tail(set tails, const unsigned char* text, int at, int last) except -1:
    """Note what is left of a token, as far as it matters: of longer tails, and of more, `laid_out` makes nothing."""
    if len(tails) <= MOST_NODES:
        tails.add(text[at:min(last, at + MOST_NODES + 1)])
    return 0


cdef int note_next(bytearray behind, const unsigned char* text, int at, int last) except -1:
    """Note the byte that a token has behind a quote."""
    if at < last:
        behind[text[at]] = 1
        if text[at] == BACKSLASH and at + 1 < last:
            behind[ESCAPED] = 1
    return 0
