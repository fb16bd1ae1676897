r"""Texts that are not in Unicode's normal form C, as a language over a set of characters that each are.

A text is in normal form C (UAX #15) if, between two starters, marks stand in the order of their combining classes, and
no mark composes with the starter before it:

    a U+0301 U+0323      wrong: the classes are 230, 220
    U+09C7 U+09BE        wrong: that is U+09CB
    U+0995 U+09BE        right: no character is composed of these
    é U+0323             wrong: é is e U+0301, and e composes with U+0323 before it

What composes with what is asked of `unicodedata`.  Exactly that would be 106 kinds of starter and 54 classes of mark,
with states for each of both, and masks of fifty times the cost.  So kinds are joined: starters that compose with any
mark are one, marks that compose with any starter are one, and classes are compared in the steps that scripts ask for.
The language here is thereby larger than what is not in normal form C, and never lacks any of that; `idn_labels` counts
it as narrower.

Tested against `unicodedata.is_normalized` (`tests/test_string_formats.py`).  Source: ours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

from constrained.regex import ANY_TEXT, Expr, concat, repeat, union
from constrained.regex.charset import Ranges, contains, of_points

One = Callable[[Ranges], Expr]  # an expression for one character out of a set
# The first combining class of each step: nuktas, viramas, vowels of Hebrew and Arabic, shadda, vowels of Thai and Lao,
# tones of Lao and what stands below and above.
_STEPS = (1, 9, 10, 33, 107, 122)


def not_normal(valid: Ranges, marks: list[int], one: One) -> Expr:
    """Return the texts of valid characters that are not in normal form C, and some that are.

    marks: those among the valid characters.
    """
    ordered = [point for point in marks if unicodedata.combining(chr(point))]
    wrong = []
    for low, high in zip(_STEPS, (*_STEPS[1:], 255), strict=True):
        step = of_points(point for point in ordered if low <= unicodedata.combining(chr(point)) < high)
        until = of_points(point for point in ordered if unicodedata.combining(chr(point)) < high)
        wrong.append(concat(one(step), one(until)))
    starters, composing = _composing(valid)
    wrong.append(concat(one(starters), repeat(one(of_points(ordered))), one(composing)))
    return concat(ANY_TEXT, union(*wrong), ANY_TEXT)


def _composing(valid: Ranges) -> tuple[Ranges, Ranges]:
    """Return the starters that compose with some mark, and the marks."""
    pairs = list(_pairs())
    marks = {mark for _, _, mark in pairs if contains(valid, mark)}
    starters = {
        point for pair in pairs for point in pair[:2]
        if contains(valid, point) and any(_compose(chr(point), chr(mark)) for mark in marks)
    }  # fmt: skip
    return of_points(starters), of_points(marks)


def _pairs() -> Iterator[tuple[int, int, int]]:
    """Yield the characters that normal form C composes of two, each with these."""
    points = range(0xC0, 0x30000)
    for point, mapping in zip(points, map(unicodedata.decomposition, map(chr, points)), strict=True):
        parts = mapping.split() if mapping else ()
        if len(parts) == 2 and not parts[0].startswith("<") and unicodedata.is_normalized("NFC", chr(point)):
            yield point, int(parts[0], 16), int(parts[1], 16)


def _compose(starter: str, mark: str) -> bool:
    return unicodedata.combining(starter) == 0 and not unicodedata.is_normalized("NFC", starter + mark)
