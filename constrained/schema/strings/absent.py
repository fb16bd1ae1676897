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
# whole keys in quotes without escapes; also some of what only looks like one, as a string may end with a quote
_QUOTED_KEYS = re.compile(r"""(?=(?:"([^"\\]*)"|'([^'\\]*)')\s*:)""")


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
    if not quoted:
        return lacks(word, key)
    spend(1 + len(key) // 1000)
    keys, escapes, by_number = _keys_in(word)
    return _bytes(key) not in keys and not (by_number if _PLAIN.fullmatch(key) else escapes)


def _bytes(text: str) -> str:
    """Return the bytes of a text as a word has them."""
    return text.encode("utf-8", "replace").decode("latin-1")


@cached(64)
def _keys_in(word: str) -> tuple[frozenset[str], bool, bool]:
    """Return the keys in quotes of a word, and whether it has escapes, and such by number."""
    spend(1 + len(word) // 32)
    keys = frozenset([double or single for double, single in _QUOTED_KEYS.findall(word)])
    return keys, "\\" in word, _BY_NUMBER.search(word) is not None
