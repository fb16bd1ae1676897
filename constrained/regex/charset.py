r"""Sets of code points as sorted ranges, and the sets that regular expression dialects name.

A set is a tuple of inclusive ``(low, high)`` pairs, sorted, disjoint and not adjacent; equal sets are equal tuples.
Surrogates are no characters.  Were they holes, every class and every complement would be split around them; here they
are *glued* to U+D7FF: a set holds all of U+D800..U+DFFF if it holds U+D7FF, else none.  Sets of characters and glued
sets correspond one to one, union, intersection and complement agree, and `Expr.edges` cuts the surrogates out again.

Python's own classes (``\d \w \s``, IGNORECASE) are read off the running `re`, so they cannot differ from it.
Refused: tables generated ahead of time, which would be right for one version of Unicode only.

The tables of Unicode properties, by the names that ECMA-262 gives them (``\p{…}``), are data (`unicode.txt`, one
property a line, 85 KB, one version of Unicode for all of them, written by `tools/unicode_tables.py`); a line is decoded
when a pattern names it. Refused: Python's `unicodedata`, which knows neither scripts nor the derived properties and
whose version varies. Tested against `unicodedata` where the two overlap and against the verdicts of a JavaScript engine
(`tests/corpus/regex_ecma.jsonl`).
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from constrained.caches import cached, forgets
from constrained.work import sorted_in_turns, spend

Ranges = tuple[tuple[int, int], ...]

MAX = 0x10FFFF
_ALIKE = 0x40000  # from here on no character is a digit, a letter or a space; a test asserts it
_BEFORE, _LOW, _HIGH = 0xD7FF, 0xD800, 0xDFFF  # the character that surrogates are glued to; the surrogates

EVERYTHING: Ranges = ((0, MAX),)
NOTHING: Ranges = ()
ASCII_DIGIT: Ranges = ((0x30, 0x39),)
ASCII_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
# SPEC: ECMA-262 CharacterClassEscape :: s — "the union of WhiteSpace and LineTerminator".
ECMA_SPACE: Ranges = (
    (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)
ECMA_NEWLINE: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))


def normal(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the set of the characters in any inclusive ranges; surrogates among them are ignored.

    >>> normal([(5, 9), (1, 4), (0xDC00, 0xDC00)])
    ((1, 9),)
    """
    merged: list[list[int]] = []
    ordered = sorted_in_turns(ranges)
    spend(1 + (len(ordered) >> 1))
    if len(ordered) == 1 and ordered[0][0] <= ordered[0][1] < _BEFORE:
        low, high = ordered[0]
        return ((low, high),)
    for low, high in ordered:
        if low > high:
            continue
        low, high = (_HIGH + 1 if _LOW <= low <= _HIGH else low), (_BEFORE if _LOW <= high <= _HIGH else high)
        if low > high:
            continue
        high = _HIGH if high == _BEFORE else high
        if merged and low <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    return tuple([(low, high) for low, high in merged])


def negate(ranges: Ranges) -> Ranges:
    """Return the characters outside a set."""
    gaps, at = [], 0
    spend(len(ranges) >> 2)
    for low, high in ranges:
        if at < low:
            gaps.append((at, low - 1))
        at = high + 1
    if at <= MAX:
        gaps.append((at, MAX))
    return tuple(gaps)


def union(*sets: Ranges) -> Ranges:
    """Return the characters in any of the sets."""
    some = [ranges for ranges in sets if ranges]
    return some[0] if len(some) == 1 else normal([pair for ranges in some for pair in ranges])


def intersect(left: Ranges, right: Ranges) -> Ranges:
    """Return the characters in both sets."""
    common, i, j = [], 0, 0
    spend((len(left) + len(right)) >> 3)
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            common.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def contains(ranges: Ranges, point: int) -> bool:
    """Return whether a code point is in a set."""
    at = bisect_right(ranges, (point, MAX)) - 1
    return at >= 0 and point <= ranges[at][1]


def of_points(points: Iterable[int]) -> Ranges:
    """Return the set of some code points."""
    runs: list[list[int]] = []
    for point in points:
        if runs and runs[-1][1] + 1 == point:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    return normal((low, high) for low, high in runs)


@lru_cache(maxsize=1)
def _alphabet() -> str:
    points = array("I", range(_ALIKE + 1))
    points[_LOW : _HIGH + 1] = array("I", [_BEFORE]) * (_HIGH - _LOW + 1)
    return points.tobytes().decode("utf-32-le" if array("H", [1]).tobytes() == b"\1\0" else "utf-32-be")


@lru_cache(maxsize=256)
def matched_by_re(char_class: str, flags: int = 0) -> Ranges:
    r"""Return the characters that a one-character pattern of Python's `re` matches.

    Cost: a scan of the first code points by `re`, about 4 ms, once per class; plane by plane, as other threads wait for
    the end of each.

    >>> matched_by_re(r"\s")[:3]
    ((9, 13), (28, 32), (133, 133))
    """
    find = re.compile(f"(?:{char_class})+", flags).finditer
    runs = [run for start in range(0, _ALIKE + 1, 1 << 16) for run in find(_alphabet(), start, start + (1 << 16))]
    return normal((run.start(), run.end() - 1 if run.end() <= _ALIKE else MAX) for run in runs)


@lru_cache(maxsize=1)
def _cased() -> str:
    """Return the characters that case can touch, as one string."""
    # a test asserts that none lies above
    points = (chr(point) for point in range(0x20000) if not _LOW <= point <= _HIGH)
    return "".join(c for c in points if not c.lower() == c.upper() == c.casefold() == c)


@lru_cache(maxsize=1)
def _cased_ranges() -> Ranges:
    return of_points(map(ord, _cased()))


@cached(4096)
def ignoring_case(ranges: Ranges, flags: int) -> Ranges:
    """Return what a class of Python's `re` with these characters matches under ``flags`` (which hold IGNORECASE).

    `re` itself decides the few thousand characters that have case; the others cannot be touched.

    >>> ignoring_case(((ord("k"), ord("k")),), re.IGNORECASE)
    ((75, 75), (107, 107), (8490, 8490))
    """
    touched = intersect(ranges, _cased_ranges())
    if not touched:
        return ranges
    spend(1000)
    cased = _cased()
    listed = "".join([f"\\U{low:08x}-\\U{high:08x}" for low, high in touched])
    return union(ranges, of_points(ord(cased[match.start()]) for match in re.finditer(f"[{listed}]", cased, flags)))


@lru_cache(maxsize=1)
def _categories() -> dict[str, Ranges]:
    runs: dict[str, list[tuple[int, int]]] = {}
    start, last = 0, unicodedata.category("\0")
    for point, category in enumerate(map(unicodedata.category, map(chr, range(MAX + 1)))):
        if category != last:
            runs.setdefault(last, []).append((start, point - 1))
            start, last = point, category
    runs.setdefault(last, []).append((start, MAX))
    runs.pop("Cs")
    return {name: normal(ranges) for name, ranges in runs.items()}


def category(*names: str) -> Ranges:
    """Return the characters of general categories; one letter names all of its group.

    >>> category("Zl")
    ((8232, 8232),)
    """
    table = _categories()
    return union(*(ranges for name, ranges in table.items() for wanted in names if name.startswith(wanted)))


# -- which of a few characters occur -----------------------------------------------------------------------------------

# characters that classes of names, words and lines leave out, and the one that stands in every instant
WITNESSES = dict.fromkeys('\0\n !"\'/<T\u2028\U0010FFFF').keys()
ALL_WITNESSES = (1 << len(WITNESSES)) - 1
_MOST_SETS = 4096
_LONG = 40  # characters of a text
_known_texts: dict[int, tuple[tuple[str, ...], int]] = {}


@cached(4096)
def witnesses_in(ranges: Ranges) -> int:
    """Return which of the witnesses a class holds, as bits."""
    return sum([1 << bit for bit, char in enumerate(WITNESSES) if contains(ranges, ord(char))])


def witnesses_in_text(text: str) -> int:
    """Return which of the witnesses occur in a text, as bits.

    A set looks at every character of the text, a search for one character at 32 of them at once.
    """
    if len(text) < _LONG and WITNESSES.isdisjoint(text):
        return 0
    return sum([1 << bit for bit, char in enumerate(WITNESSES) if char in text])


def witnesses_of(texts: tuple[str, ...]) -> int:
    """Return which of the witnesses occur in some texts; every state of their set asks, so the answer is kept by the
    identity of the tuple.
    """
    known = _known_texts.get(id(texts))
    if known is None or known[0] is not texts:
        if len(_known_texts) >= _MOST_SETS:
            _known_texts.clear()
        known = _known_texts[id(texts)] = texts, witnesses_in_text("".join(texts))
    return known[1]


@forgets
def _forget() -> None:
    _known_texts.clear()


_PREFIXES = {
    "General_Category": "", "gc": "", "Script": "Script=", "sc": "Script=", "Script_Extensions": "Script_Extensions=",
    "scx": "Script_Extensions=",
}


@lru_cache(maxsize=1)
def _lines() -> dict[str, str]:
    lines = {}
    for line in Path(__file__).with_name("unicode.txt").read_text("ascii").splitlines()[1:]:
        names, _, coded = line.partition(" ")
        kind, _, names = names.rpartition("=")
        for name in names.split("|"):
            lines[f"{kind}={name}" if kind else name] = coded
    return lines


@lru_cache(maxsize=256)
def unicode_property(name: str) -> Ranges | None:
    r"""Return the characters of what stands between the braces of ``\p{…}``; None if ECMA-262 does not name it.

    >>> unicode_property("Script=Ogham"), unicode_property("InGreek")
    (((5760, 5788),), None)
    """
    kind, equals, value = name.partition("=")
    if equals:
        if kind not in _PREFIXES or (_PREFIXES[kind] == "" and not _is_category(value)):
            return None
        name = _PREFIXES[kind] + value
        if name.startswith("Script_Extensions=") and name not in _lines():
            name = "Script=" + value  # written only where the two differ
    coded = _lines().get(name)
    if coded is None:
        return None
    if coded.startswith("= "):
        return union(*(unicode_property(part) or () for part in coded[2:].split()))
    return normal(decoded(coded))


def joining_type(name: str) -> Ranges:
    """Return the characters of a joining type, which patterns cannot name: "Dual_Joining", "Transparent", …"""
    return normal(decoded(_lines()[f"Joining_Type={name}"]))


@lru_cache(maxsize=256)
def _is_category(name: str) -> bool:
    return name in _lines() and list(_lines()).index(name) < list(_lines()).index("ASCII")


def decoded(coded: str, at: int = 0) -> list[tuple[int, int]]:
    """Return ranges from words GAP[+EXTENT] in base 36; at: what the first gap is counted from."""
    ranges = []
    for run in coded.split():
        gap, _, extent = run.partition("+")
        low = at + int(gap, 36)
        high = low + int(extent or "0", 36)
        ranges.append((low, high))
        at = high + 1
    return ranges


@lru_cache(maxsize=1)
def _case_classes() -> dict[int, tuple[int, ...]]:
    """Return, for each character that case folding touches, all those that are equal to it under simple folding."""
    classes, at = {}, 0
    for run in _lines()["Case_Classes"].split():
        gap, *steps = run.split("+")
        at += int(gap, 36)
        members = [at]
        for step in steps:
            members.append(members[-1] + int(step, 36))
        classes.update(dict.fromkeys(members, tuple(members)))
    return classes


@lru_cache(maxsize=4096)
def closed_under_case(ranges: Ranges) -> Ranges:
    """Return the characters that are equal to one of the set under simple case folding.

    >>> closed_under_case(((ord("k"), ord("k")),))
    ((75, 75), (107, 107), (8490, 8490))
    """
    classes = _case_classes()
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return union(ranges, of_points(classes.get(ranges[0][0], ())))
    spend(500)
    touched = [point for point in classes if contains(ranges, point)]
    return union(ranges, of_points(other for point in touched for other in classes[point]))
