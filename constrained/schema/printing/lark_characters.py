r"""Spellings of one character in each quoting, as a Python regular expression, for `lark_rules`.

    ways(Quoting.JSON) ──► [Way('"', …)]      Way.spell(((0x61, 0x7A),)) ──► '(?:[a-z]|\\u00(?:6[1-9a-fA-F]|7[0-9aA]))'

The engine has its own tables, because it reads bytes and not patterns; `tests/test_schema_lark.py` compares the two
through Lark.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

from constrained.machine import MarkerSafe, Quoting
from constrained.regex.charset import intersect as meet
from constrained.work import spend

Ranges: TypeAlias = tuple[tuple[int, int], ...]  # inclusive code points, sorted and disjoint

_BEFORE_SURROGATES, _AFTER_SURROGATES = (0, 0xD7FF), (0xE000, 0x10FFFF)
SCALARS: Ranges = (_BEFORE_SURROGATES, _AFTER_SURROGATES)
_MANY = 50  # ranges
_JSON_SHORT = {0x22: '"', 0x5C: "\\", 0x08: "b", 0x0C: "f", 0x0A: "n", 0x0D: "r", 0x09: "t"}
_PYTHON_SHORT = {
    0x5C: "\\",
    0x27: "'",
    0x22: '"',
    0x07: "a",
    0x08: "b",
    0x0C: "f",
    0x0A: "n",
    0x0D: "r",
    0x09: "t",
    0x0B: "v",
}


def clip(ranges: Ranges, low: int, high: int) -> Ranges:
    return tuple((max(a, low), min(b, high)) for a, b in ranges if a <= high and b >= low)


def outside(ranges: Ranges) -> Ranges:
    """Return the scalar values that are not in the ranges."""
    gaps, start = [], 0
    for low, high in sorted(ranges):
        gaps.append((start, low - 1))
        start = high + 1
    gaps.append((start, 0x10FFFF))
    return meet(SCALARS, tuple((low, high) for low, high in gaps if low <= high))


def char_class(ranges: Ranges) -> str:
    """Return a pattern of one character in the ranges.

    >>> char_class(((0x30, 0x39), (0x5D, 0x5D)))
    '[0-9\\\\]]'
    """
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _char(ranges[0][0])
    return "[" + "".join(_char(low) if low == high else f"{_char(low)}-{_char(high)}" for low, high in ranges) + "]"


def _char(point: int) -> str:
    if 0x20 < point < 0x7F:
        char = chr(point)
        return char if char.isalnum() else "\\" + char
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def quoted(text: str) -> str:
    """Return a pattern of one text without characters that Lark reads itself."""
    return "".join(_char(ord(char)) for char in text)


def hexadecimal(low: int, high: int, digits: int, *, upper: bool) -> str:
    """Return a pattern of the numbers low..high in a fixed number of hexadecimal digits.

    >>> hexadecimal(0x61, 0x7A, 4, upper=False)
    '00(?:6[1-9a-f]|7[0-9a])'
    """
    if digits == 0:
        return ""
    spend(4)
    unit = 16 ** (digits - 1)
    if low % unit == 0 and (high + 1) % unit == 0:
        rest = _digit(0, 15, upper=upper)
        return _digit(low // unit, high // unit, upper=upper) + (
            rest * (digits - 1) if digits < 3 else f"{rest}{{{digits - 1}}}"
        )
    parts = []
    first, last = low // unit, high // unit
    if first == last:
        return _digit(first, first, upper=upper) + hexadecimal(low % unit, high % unit, digits - 1, upper=upper)
    if low % unit:
        parts.append(hexadecimal(low, (first + 1) * unit - 1, digits, upper=upper))
        first += 1
    whole = last if (high + 1) % unit == 0 else last - 1
    if first <= whole:
        parts.append(hexadecimal(first * unit, (whole + 1) * unit - 1, digits, upper=upper))
    if whole < last:
        parts.append(hexadecimal(last * unit, high, digits, upper=upper))
    return parts[0] if len(parts) == 1 else "(?:" + "|".join(parts) + ")"


def _digit(low: int, high: int, *, upper: bool) -> str:
    chars = "0123456789abcdef"[low : high + 1]
    if len(chars) == 1 and (chars.isdigit() or not upper):
        return chars
    numbers, letters = [c for c in chars if c.isdigit()], [c for c in chars if c.isalpha()]
    spans = [(part[0], part[-1]) for part in (numbers, letters, [c.upper() for c in letters] if upper else []) if part]
    return "[" + "".join(a if a == b else f"{a}-{b}" for a, b in spans) + "]"


@lru_cache(maxsize=1024)
def hexadecimals(ranges: Ranges, digits: int, *, upper: bool) -> str:
    """Return a pattern of the numbers in some ranges in a fixed number of hexadecimal digits, no two alternatives of
    which begin alike.

    >>> hexadecimals(((0x07, 0x08), (0x17, 0x18), (0x20, 0x2F)), 2, upper=False)
    '(?:[0-1][7-8]|2[0-9a-f])'
    """
    unit = 16 ** (digits - 1)
    groups: dict[Ranges, list[int]] = {}
    for digit in range(16):
        rest = tuple(
            (low - digit * unit, high - digit * unit)
            for low, high in clip(ranges, digit * unit, (digit + 1) * unit - 1)
        )
        if rest:
            groups.setdefault(rest, []).append(digit)
    found = []
    for rest, values in groups.items():
        runs = [value for value in values if value - 1 not in values]
        spans = [(low, next(high for high in range(low, 16) if high + 1 not in values)) for low in runs]
        head = "[" + "".join(_digit(low, high, upper=upper).strip("[]") for low, high in spans) + "]"
        head = head if len(values) > 1 or len(head) > 3 else head[1:-1]
        found.append(head + (hexadecimals(rest, digits - 1, upper=upper) if digits > 1 else ""))
    return found[0] if len(found) == 1 else f"(?:{'|'.join(found)})"


def fixed(text: str) -> str:
    """Return a pattern of one text, as it stands between slashes."""
    return re.escape(text).replace("/", r"\/")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to write a text.  `hexes`: (letter, digits, which code points, upper case allowed) of each form of
    escape.
    """

    quote: str
    raw: Ranges
    short: dict[int, str] = field(default_factory=dict, hash=False)
    hexes: tuple[tuple[str, int, Ranges, bool], ...] = ()
    pairs: bool = False  # code points above U+FFFF as two escapes
    octal: bool = False
    markers: tuple[str, ...] = ()  # what no text spells
    skipped: str = ""  # a pattern of what may stand before any character and the closing quote and means nothing

    def __hash__(self) -> int:
        """Leave out long tables: what is left tells nearly all ways apart."""
        return hash((self.quote, self.markers, self.skipped, self.pairs, self.octal))

    def apart(self, ranges: Ranges) -> list[Ranges]:
        """Return the ranges, where they are written as long classes in two parts: beyond ASCII they are the same nearly
        everywhere.
        """
        return (
            [part for part in (clip(ranges, 0, 0x7F), clip(ranges, 0x80, 0x10FFFF)) if part]
            if len(self.raw) > _MANY
            else [ranges]
        )

    def loosely(self, ranges: Ranges) -> str:
        """Return a pattern of the spellings of the characters in the ranges, wherever markers are."""
        ends = {marker[-1] for marker in self.markers if clip(meet(self.raw, ranges), ord(marker[-1]), ord(marker[-1]))}
        return (
            f"(?:{'|'.join([self.spell(ranges), *(fixed(self.escape(ord(end))) for end in sorted(ends))])})"
            if ends
            else self.spell(ranges)
        )

    def escape(self, point: int) -> str:
        """Return the escape of a character that need not be escaped."""
        if self.quote == '"' and not self.hexes[1:]:
            return r"\/" if point == 0x2F else f"\\u{point:04x}"
        return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"

    @lru_cache(maxsize=4096)  # noqa: B019  # the few ways there are live as long as the process
    def spell(self, ranges: Ranges) -> str:
        """Return a pattern of the spellings of the characters in the ranges."""
        parts = []
        raw = meet(self.raw, ranges)
        if raw:
            parts.append(char_class(raw))
        short = "".join(letter for point, letter in self.short.items() if clip(ranges, point, point))
        if short:
            parts.append(r"\\[" + "".join("\\" + c if not c.isalnum() else c for c in short) + "]")
        for letter, digits, allowed, upper in self.hexes:
            if numbers := meet(allowed, ranges):
                parts.append(r"\\" + letter + hexadecimals(numbers, digits, upper=upper))
        if self.pairs:
            parts += [_pair(low - 0x10000, high - 0x10000) for low, high in clip(ranges, 0x10000, 0x10FFFF)]
        if self.octal:
            parts += [r"\\" + octal for low, high in clip(ranges, 0, 0o777) for octal in _octal(low, high)]
        return self.skipped + (parts[0] if len(parts) == 1 and "|" not in parts[0] else "(?:" + "|".join(parts) + ")")


def _pair(low: int, high: int) -> str:
    """Return a pattern of the surrogate pairs of some code points, counted from U+10000."""
    first, last = low >> 10, high >> 10

    def escaped(a: int, b: int, c: int, d: int) -> str:
        leading, trailing = (
            hexadecimal(base + x, base + y, 4, upper=True) for base, x, y in ((0xD800, a, b), (0xDC00, c, d))
        )
        return rf"\\u{leading}\\u{trailing}"

    if first == last:
        return escaped(first, last, low & 0x3FF, high & 0x3FF)
    parts = [escaped(first, first, low & 0x3FF, 0x3FF)] if low & 0x3FF else []
    first += bool(low & 0x3FF)
    whole = last if high & 0x3FF == 0x3FF else last - 1
    if first <= whole:
        parts.append(escaped(first, whole, 0, 0x3FF))
    if whole < last:
        parts.append(escaped(last, last, 0, high & 0x3FF))
    return parts[0] if len(parts) == 1 else "(?:" + "|".join(parts) + ")"


def _octal(low: int, high: int) -> list[str]:
    """Return patterns of octal escapes; a shorter one only where no further octal digit follows."""
    return [f"{point:0{digits}o}" + ("(?![0-7])" if digits < 3 else "")
            for point in range(low, high + 1) for digits in (1, 2, 3) if point < 8**digits]


@lru_cache(maxsize=1)
def _printable() -> Ranges:
    """Return what repr() leaves raw."""
    ranges, start = [], None
    for point in range(0x110001):
        if point < 0x110000 and chr(point).isprintable():
            start = point if start is None else start
        elif start is not None:
            ranges.append((start, point - 1))
            start = None
    return meet(SCALARS, tuple(ranges))


def _json() -> tuple[Way, ...]:
    return (Way('"', _json_raw(), {**_JSON_SHORT, 0x2F: "/"}, (("u", 4, clip(SCALARS, 0, 0xFFFF), True),), pairs=True),)


def _json_raw() -> Ranges:
    return meet(SCALARS, outside(((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))))


def _json_canonical() -> tuple[Way, ...]:
    controls = meet(((0, 0x1F),), outside(tuple((point, point) for point in sorted(_JSON_SHORT))))
    return (Way('"', _json_raw(), dict(_JSON_SHORT), (("u", 4, controls, False),)),)


def _python() -> tuple[Way, ...]:
    forms = tuple(
        (letter, digits, clip(SCALARS, 0, 16**digits - 1), True) for letter, digits in (("x", 2), ("u", 4), ("U", 8))
    )
    taken = ((0, 0), (0x0A, 0x0A), (0x0D, 0x0D))
    return tuple(
        Way(
            quote,
            outside(tuple(sorted((*taken, (0x5C, 0x5C), (ord(quote), ord(quote)))))),
            dict(_PYTHON_SHORT),
            forms,
            octal=True,
            skipped=r"(?:\\\n)*",
        )
        for quote in "'\""
    )


def _python_canonical() -> tuple[Way, ...]:
    hidden = meet(outside(_printable()), outside(((9, 10), (13, 13))))
    forms = (
        ("x", 2, clip(hidden, 0, 0xFF), False),
        ("u", 4, clip(hidden, 0x100, 0xFFFF), False),
        ("U", 8, clip(hidden, 0x10000, 0x10FFFF), False),
    )
    short = {0x5C: "\\", 10: "n", 13: "r", 9: "t"}
    quoted = {
        quote: meet(_printable(), outside(tuple(sorted(((0x5C, 0x5C), (ord(quote), ord(quote))))))) for quote in "'\""
    }
    return Way("'", quoted["'"], {**short, 0x27: "'"}, forms), Way('"', quoted['"'], short, forms)


_WAYS: dict[Quoting, Callable[[], tuple[Way, ...]]] = {
    Quoting.RAW: lambda: (Way("", SCALARS),),
    Quoting.JSON: _json,
    Quoting.JSON_CANONICAL: _json_canonical,
    Quoting.PYTHON: _python,
    Quoting.PYTHON_CANONICAL: _python_canonical,
}


@lru_cache(maxsize=64)
def ways(quoting: Quoting | MarkerSafe) -> tuple[Way, ...]:
    """Return the ways to write a text; where there are two, they differ in their quotes (repr(): see `lark_rules`)."""
    if isinstance(quoting, MarkerSafe):
        return tuple(replace(way, markers=quoting.markers) for way in ways(quoting.base))
    return _WAYS[quoting]()
