"""JSON text (RFC 8259) as a surface."""

from __future__ import annotations

from functools import lru_cache

from constrained.machine import Surface
from constrained.schema.numbers import CANONICAL_NUMBERS, JSON_NUMBERS
from constrained.schema.punctuation import LONGEST_GAP, Brackets, Keys, Punctuation, check_spelling, separators

_WHITESPACE = ((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20))  # RFC 8259 §2
_STRINGS = {"any": Surface.JSON, "canonical": Surface.JSON_CANONICAL, "tagsafe": Surface.JSON_TAGSAFE}


@lru_cache(maxsize=64)
def json(whitespace: str, spelling: str, longest: int = LONGEST_GAP) -> Punctuation:
    """Return JSON's punctuation.

    spelling: "any"; "canonical", as json.dumps(ensure_ascii=False) writes strings and numbers; "tagsafe", canonical but with no "</"
    in a string, for text inside XML-like tags.  longest: characters of whitespace in a row, where it is flexible.
    """
    check_spelling(spelling)
    between = separators(whitespace, _WHITESPACE, b":", b": ", longest)
    strings = _STRINGS[spelling]
    return Punctuation(
        null=b"null", false=b"false", true=b"true", strings=strings, numbers=JSON_NUMBERS if spelling == "any" else CANONICAL_NUMBERS,
        comma=between.comma, gap=between.gap, keys=Keys(strings, between.colon), objects=Brackets(b"{", ord("}")),
        arrays=(Brackets(b"[", ord("]")),))
