"""Words of bytes → texts that they do not write, as far as that is plain to see: a way out that does not write a text
again serves all places where this text may not come again.

A word is looked through as it stands, and nobody reads it: what may be written by an escape counts as written.

Tests: tests/test_budget_distinct.py.
"""

from __future__ import annotations

import re

from constrained.caches import cached
from constrained.work import spend

_PLAIN = re.compile("[0-9A-Za-z\x80-\U0010ffff]+")  # characters that are written as themselves or by their numbers
_BY_NUMBER = re.compile(r"\\[uUxXN0-7]|&#")
# whole texts in quotes without escapes, and whether they are keys; also some of what only looks like one, as a text may
# end with a quote
_QUOTED = re.compile(r"""(?=(?:"([^"\\]*)"|'([^'\\]*)')(\s*:)?)""")


def lacks(word: str, text: str) -> bool:
    """Say that a word of bytes does not write a text, as letters of it are missing; False also where it may not."""
    run = max(_PLAIN.findall(text), key=len, default="")
    spend(1 + (len(run) + len(word)) // 1000)
    return run != "" and _bytes(run) not in word and not _BY_NUMBER.search(word)


def lacks_key(word: str, key: str, *, quoted: bool) -> bool:
    """Say that a word of bytes that begins outside of strings does not write a key; False also where it may not.

    quoted: keys stand in quotes, so that letters inside another text do not count.

    >>> lacks_key('{"kind":"k"}', "k", quoted=True), lacks_key('{"k":"kind"}', "k", quoted=True)
    (True, False)
    """
    return _lacks_quoted(word, key, _quoted(word)[1]) if quoted else lacks(word, key)


def lacks_text(word: str, text: str, *, quoted: bool) -> bool:
    """As `lacks_key`, of a key or string."""
    return _lacks_quoted(word, text, _quoted(word)[0]) if quoted else lacks(word, text)


def _lacks_quoted(word: str, text: str, written: frozenset[str]) -> bool:
    spend(1 + len(text) // 1000)
    escaped = _BY_NUMBER.search(word) if _PLAIN.fullmatch(text) else "\\" in word
    return _bytes(text) not in written and not escaped


def _bytes(text: str) -> str:
    """Return the bytes of a text as a word has them."""
    return text.encode("utf-8", "replace").decode("latin-1")


@cached(64)
def _quoted(word: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the texts in quotes of a word, and which of them are keys."""
    spend(1 + len(word) // 32)
    found = [(double or single, colon) for double, single, colon in _QUOTED.findall(word)]
    return frozenset([text for text, _ in found]), frozenset([text for text, colon in found if colon])
