# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What the tokens of a vocabulary have around a quote, and behind brackets: how far one may read on that has part of a
key, or ends a value.

    before   x"           the byte before a quote
    behind   , "x         the byte behind a comma, blanks and a quote
    braced   { "x         the byte behind a brace, blanks and a quote
    colon    x" : 12      what is behind a quote, blanks, a colon, and behind each of the blanks that follow
    closed   0}}, 12      what is behind the bracket of an object, if it begins with a comma, a bracket or a blank

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
from constrained.engine.kernel.masks.alike._tails cimport MOST_TAILS, TailNode, Tails, note_tail

import re

cdef enum:
    QUOTE = 0x22
    COMMA = 0x2C
    COLON = 0x3A
    BACKSLASH = 0x5C
    BRACE = 0x7B
    BRACKET = 0x7D

cdef bytes ALL_BYTES = bytes(range(256)), ENDS = b",]} \t\n\r"
cdef object NEXT_TEXT = re.compile(rb',[ \t\n\r]*"[\s\S]')    # a comma, blanks, a quote and a further byte


cdef QuoteFacts quote_facts(Trie trie, object store):
    """Return the facts of a vocabulary, those in its store where they are there."""
    found = stored(store.entries, ("quotes", QUOTE))
    if found is None:
        found = QuoteFacts(trie)
        store.put(("quotes", QUOTE), found, 2 * MOST_TAILS * sizeof(TailNode))
    return found


cdef inline bint is_blank(int byte) noexcept nogil:
    return byte in (0x20, 0x09, 0x0A, 0x0D)


@final
cdef class QuoteFacts:
    """Facts of one vocabulary; never changed."""

    def __cinit__(self, Trie trie):
        before, behind, braced = bytearray(HEXED + 1), bytearray(ESCAPED + 1), bytearray(ESCAPED + 1)
        colon, closed = set(), set()
        self.find_quotes(trie, (before, behind, braced, colon))
        self.find_brackets(trie, closed)
        before[HEXED] = any([before[digit] for digit in b"0123456789abcdefABCDEF"])
        self.before, self.behind, self.braced = bytes(before), bytes(behind), bytes(braced)
        self.colon, self.closed = Tails(colon, ALL_BYTES), Tails(closed, ENDS)

    cdef int find_quotes(self, Trie trie, tuple into) except -1:
        """Note what tokens have around quotes.  PERF: few have one, 0.4 ms of 128,000 tokens instead of 2."""
        cdef const unsigned char* text = trie.spelled
        cdef const unsigned char* at = text
        cdef const int32_t* begins = trie.begins
        cdef int i, colon, left = 0, told = -1, length = begins[trie.size]
        cdef bytes tail
        while True:
            at = <const unsigned char*>memchr(at, QUOTE, length - (at - text))
            if at == NULL:
                return 0
            i = <int>(at - text)
            left = token_at(begins, left, trie.size, i)
            colon = note_quote(text, begins[left], i, begins[left + 1], into)
            if colon >= 0 and told != left:     # behind its first colon a token has what it has behind the others
                told, tail = left, text[colon:begins[left + 1]]
                self.closes |= b"}" in tail
                self.begins |= NEXT_TEXT.search(tail) is not None
            at += 1

    cdef int find_brackets(self, Trie trie, set tails) except -1:
        """Note what tokens have behind brackets."""
        cdef const unsigned char* text = trie.spelled
        cdef const unsigned char* at = text
        cdef int i, left = 0, length = trie.begins[trie.size]
        while True:
            at = <const unsigned char*>memchr(at, BRACKET, length - (at - text))
            if at == NULL:
                return 0
            i = <int>(at - text)
            left = token_at(trie.begins, left, trie.size, i)
            note_tail(tails, text, i + 1, trie.begins[left + 1])
            at += 1


cdef int token_at(const int32_t* begins, int left, int right, int i) noexcept nogil:
    """Return the token, from `left` on, that a byte belongs to."""
    cdef int token
    while left < right:         # the first one that begins behind it
        token = (left + right) >> 1
        if begins[token] <= i:
            left = token + 1
        else:
            right = token
    return left - 1


cdef int note_quote(const unsigned char* text, int first, int at, int last, tuple into) except -2:
    """Note what a token, bytes [first, last) of all, has before and behind a quote; return the place behind a colon
    that follows, -1: none does."""
    cdef bytearray before, behind, braced
    cdef set tails
    cdef int i = at + 1, colon = -1
    before, behind, braced, tails = into
    while i < last and is_blank(text[i]):
        i += 1
    if i < last and text[i] == COLON:
        i += 1
        colon = i
        note_tail(tails, text, i, last)
        while i < last and is_blank(text[i]):
            i += 1
            note_tail(tails, text, i, last)
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


cdef int note_next(bytearray behind, const unsigned char* text, int at, int last) except -1:
    """Note the byte that a token has behind a quote."""
    if at < last:
        behind[text[at]] = 1
        if text[at] == BACKSLASH and at + 1 < last:
            behind[ESCAPED] = 1
    return 0
