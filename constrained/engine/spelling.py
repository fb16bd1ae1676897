"""How each `Quoting` spells a text value, as tables: quotes, raw characters, escapes.

Both kernels interpret these tables, so a quoting is data, not code: a third one is a new entry of `spellings`.  A
quoting may have several spellings that start with different bytes (Python's two quotes).

Left out, because a reader of the format would be surprised by them: Python's ``\\N{…}``, unknown escapes such as
``'\\q'`` (a SyntaxWarning there) and string prefixes.
Sources: RFC 8259 §7; Python language reference §2.4.1; CPython ``unicode_repr``.
"""

from __future__ import annotations

import ast
import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

import numpy as np

from constrained.caches import cached
from constrained.machine import Language, LiteralSet, MarkerSafe, Quoting
from constrained.regex import ANY_TEXT, Expr, char_class, complement, concat, intersect, markers_of, may_use
from constrained.regex.expr import keep
from constrained.regex.markers import Guarded

Ranges = tuple[tuple[int, int], ...]  # inclusive code points, sorted, disjoint, without surrogates

SCALARS: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
_FEW = 12  # ranges that are looked through one by one; the letters of Unicode are 700
Entry = TypeVar("Entry", bound=tuple[Any, ...])
_JSON = json.JSONDecoder(strict=False)
_RAW, _REPR = int(Quoting.RAW), int(Quoting.PYTHON_CANONICAL)
_FEW_TEXTS = 32  # of a set, which are looked through whenever it is asked for


@dataclass(frozen=True, slots=True)
class HexForm:
    """An escape of fixed width, such as ``\\u00e9``: its letter, its digits, what it may spell."""

    letter: int  # byte after the backslash
    digits: int
    allowed: Ranges  # code points that may be spelled so
    upper: bool  # hexadecimal digits in either case, else lower case only
    pairs: bool = False  # code points above U+FFFF as two surrogate escapes
    needed: Ranges = ()  # of guarded spellings: those of `allowed` that cannot stand as they are


@dataclass(frozen=True, slots=True, eq=False)  # a part of many keys, and there is one of each, see `spellings`
class Spelling:
    """One way to write texts: what stands raw, what is escaped and how.  Compared by identity.

    Invariant: every code point that the quoting can express has at least one spelling.
    """

    quoting: Quoting
    opening: bytes  # b"" for bare text
    closing: int  # closing byte, or -1: the text ends where its language accepts
    raw: Ranges  # code points written as themselves in UTF-8
    short: tuple[tuple[int, int], ...] = ()  # (byte after the backslash, code point)
    hexes: tuple[HexForm, ...] = ()
    octal: bool = False  # \\o, \\oo, \\ooo, longest match
    continuation: bool = False  # backslash, newline: nothing
    guarded: bool = False  # of languages that tell raw characters from escaped ones, see `guarded`

    @property
    def escapes(self) -> bool:
        return bool(self.short or self.hexes)

    @property
    def letters(self) -> list[int]:
        """The bytes that may stand behind a backslash, ascending."""
        more = b"\n" * self.continuation + b"01234567" * self.octal
        return sorted({*more, *[byte for byte, _ in self.short], *[form.letter for form in self.hexes]})


Variants: TypeAlias = tuple[tuple[Spelling, Language | None], ...]


def without(ranges: Ranges, *points: int) -> Ranges:
    """Return the ranges without some code points.

    >>> without(((0, 9),), 0, 5)
    ((1, 4), (6, 9))
    """
    for point in points:
        parts: list[tuple[int, int]] = []
        for low, high in ranges:
            if low <= point <= high:
                parts += [(a, b) for a, b in ((low, point - 1), (point + 1, high)) if a <= b]
            else:
                parts.append((low, high))
        ranges = tuple(parts)
    return ranges


def near(ranges: Sequence[Entry], low: int, high: int) -> Sequence[Entry]:
    """Return those of many sorted ranges, each with what goes with it, that touch [low, high]; of a few all."""
    if len(ranges) <= _FEW:
        return ranges
    return ranges[bisect_left(ranges, low, key=itemgetter(1)) : bisect_right(ranges, high, key=itemgetter(0))]


def clip(ranges: Ranges, low: int, high: int) -> Ranges:
    """Return the part of the ranges inside [low, high]."""
    touching = near(ranges, low, high)
    if len(touching) > _FEW:  # all but the first and the last lie inside
        (first, end), (begin, last) = touching[0], touching[-1]
        return ((max(first, low), end), *touching[1:-1], (begin, min(last, high)))
    return tuple([(max(a, low), min(b, high)) for a, b in touching if a <= high and b >= low])


@lru_cache(maxsize=1)
def _printable() -> tuple[Ranges, Ranges]:
    """Return what repr() leaves raw, and the rest.  Cost: 10 ms, once, only when a canonical Python quoting is used."""
    kinds: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    text, size = np.arange(0x110000, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass"), 256
    for low in (*range(0, 0xD800, size), *range(0xE000, 0x110000, size)):
        block = text[low : low + size]
        # most blocks are all of one kind: printable, or escapes of one length
        if (all_raw := block.isprintable()) or len(repr(block)) - 2 == size * (6 if low < 0x10000 else 10):
            runs = [(all_raw, size)]
        else:
            runs = [(kind, len(list(run))) for kind, run in groupby(block, str.isprintable)]
        for kind, length in runs:
            ranges = kinds[kind]
            start = ranges.pop()[0] if ranges and ranges[-1][1] == low - 1 else low
            ranges.append((start, low + length - 1))
            low += length
    return tuple(kinds[True]), tuple(kinds[False])


_JSON_RAW = without(clip(SCALARS, 0x20, 0x10FFFF), 0x22, 0x5C)
_JSON_SHORT = tuple((ord(a), ord(b)) for a, b in zip('"\\bfnrt', '"\\\b\f\n\r\t'))
_CONTROLS = without(((0, 0x1F),), *(c for _, c in _JSON_SHORT if c < 0x20))


def _python(quote: int) -> Spelling:
    escapes = tuple((ord(a), ord(b)) for a, b in zip("\\'\"abfnrtv", "\\'\"\a\b\f\n\r\t\v"))
    forms = tuple(
        HexForm(ord(letter), digits, clip(SCALARS, 0, 16**digits - 1), upper=True)
        for letter, digits in (("x", 2), ("u", 4), ("U", 8))
    )
    raw = without(SCALARS, 0, 10, 13, 0x5C, quote)
    return Spelling(Quoting.PYTHON, bytes([quote]), quote, raw, escapes, forms, octal=True, continuation=True)


def _guarded_json(plain: Spelling) -> Spelling:
    points = without(clip(SCALARS, 0, 0xFFFF), *(point for _, point in _JSON_SHORT), 0x2F)
    (form,) = plain.hexes
    forms = (replace(form, allowed=points, needed=form.allowed),)
    return replace(plain, short=(*plain.short, (0x2F, 0x2F)), hexes=forms, guarded=True)


def _guarded_repr(plain: Spelling) -> Spelling:
    points = without(SCALARS, *(point for _, point in plain.short))
    bounds = ((0, 0xFF), (0x100, 0xFFFF), (0x10000, 0x10FFFF))
    forms = tuple(
        replace(form, allowed=clip(points, low, high), needed=form.allowed)
        for form, (low, high) in zip(plain.hexes, bounds, strict=True)
    )
    return replace(plain, hexes=forms, guarded=True)


def _python_repr(quote: int) -> Spelling:
    printable, hidden = _printable()
    hidden = without(hidden, 9, 10, 13)
    bounds = (("x", 2, 0, 0xFF), ("u", 4, 0x100, 0xFFFF), ("U", 8, 0x10000, 0x10FFFF))
    forms = tuple(
        HexForm(ord(letter), digits, clip(hidden, low, high), upper=False) for letter, digits, low, high in bounds
    )
    short = [(0x5C, 0x5C), (ord("n"), 10), (ord("r"), 13), (ord("t"), 9)]
    if quote == 0x27:
        short.append((quote, quote))  # only reached when the text has both quotes: see `variants`
    return Spelling(
        Quoting.PYTHON_CANONICAL, bytes([quote]), quote, without(printable, 0x5C, quote), tuple(short), forms
    )


@cache
def _guarded(quoting: Quoting) -> tuple[Spelling, ...]:
    """Return the spellings of a canonical quoting for texts that tell raw characters from escaped ones; they share
    their ranges with the plain ones, of which a kernel holds each once.
    """
    return tuple(map(_guarded_json if quoting is Quoting.JSON_CANONICAL else _guarded_repr, spellings(quoting)))


@cache
def spellings(quoting: Quoting) -> tuple[Spelling, ...]:
    """Return the ways in which a quoting writes a text; they start with different bytes."""
    canonical = Spelling(
        Quoting.JSON_CANONICAL, b'"', 0x22, _JSON_RAW, _JSON_SHORT, (HexForm(ord("u"), 4, _CONTROLS, upper=False),)
    )
    match quoting:
        case Quoting.RAW:
            return (Spelling(quoting, b"", -1, SCALARS),)
        case Quoting.JSON:
            form = HexForm(ord("u"), 4, SCALARS, upper=True, pairs=True)
            return (Spelling(quoting, b'"', 0x22, _JSON_RAW, (*_JSON_SHORT, (0x2F, 0x2F)), (form,)),)
        case Quoting.JSON_CANONICAL:
            return (canonical,)
        case Quoting.PYTHON:
            return (_python(0x27), _python(0x22))
        case Quoting.PYTHON_CANONICAL:
            return (_python_repr(0x27), _python_repr(0x22))


# the quotings in which any text may be written
_WHOLE: dict[Quoting | MarkerSafe, tuple[Spelling, ...]] = {
    way: spellings(way) for way in (Quoting.RAW, Quoting.JSON, Quoting.JSON_CANONICAL, Quoting.PYTHON)
}


def variants(quoting: Quoting | MarkerSafe, language: Language) -> Variants:
    """Return (spelling, the texts written so); None where there are none.

    Only repr() splits a language: texts with ``'`` and without ``"`` are written in double quotes.  Texts among which
    none spells a marker are written as in the quoting without markers.
    """
    ways = _WHOLE.get(quoting)
    if ways is not None:
        return tuple([(way, language) for way in ways])
    texts = len(language.texts) if isinstance(language, LiteralSet) else None
    if texts is None and int(quoting) == _REPR or texts is not None and texts > _FEW_TEXTS:
        return _kept_variants(quoting, language)
    return _variants(quoting, language)  # that takes no longer than to find it


@cached(4096)
def _kept_variants(quoting: Quoting | MarkerSafe, language: Language) -> Variants:
    return _variants(quoting, language)


def _variants(quoting: Quoting | MarkerSafe, language: Language) -> Variants:
    if isinstance(quoting, MarkerSafe):
        base = quoting.base
        plain = variants(base, language)
        markers = markers_of(quoting.markers)
        if isinstance(language, LiteralSet) and not any(map(markers.spelled_in, language.texts)):
            return plain
        ways = zip(_guarded(base), plain, strict=True)
        return tuple([(way, None if part is None else Guarded(part, markers, way.raw)) for way, (_, part) in ways])
    return _repr_variants(language)


def _repr_variants(language: Language) -> Variants:
    ways = spellings(Quoting.PYTHON_CANONICAL)
    if isinstance(language, LiteralSet):
        double = sum(1 << i for i, text in enumerate(language.texts) if "'" in text and '"' not in text)
        everything = (1 << len(language.texts)) - 1
        masks = (language.excluded | double, language.excluded | everything & ~double)
        return tuple(
            (way, LiteralSet(language.texts, mask) if mask != everything else None) for way, mask in zip(ways, masks)
        )
    assert isinstance(language, Expr), "canonical Python needs a language with boolean operations"
    if not may_use(language, "'"):
        return (ways[0], language), (ways[1], None)
    parts = [intersect(language, quoted) for quoted in _by_quotes()]
    return tuple((way, part if part.edges() or part.accepts else None) for way, part in zip(ways, parts))


@cache
def _by_quotes() -> tuple[Expr, Expr]:
    """Return the texts that repr() writes in single quotes, and in double ones."""
    single, double = (concat(ANY_TEXT, char_class(((c, c),)), ANY_TEXT) for c in (0x27, 0x22))
    double_quoted = intersect(single, complement(double))
    single_quoted = complement(double_quoted)
    keep(single_quoted, double_quoted)
    return single_quoted, double_quoted


def decode(quoting: Quoting | MarkerSafe, spelled: bytes) -> str:
    """Return the text that a complete spelling, quotes included, stands for.

    >>> decode(Quoting.JSON, b'"\\\\u00e9"')
    'é'
    """
    source = spelled.decode("utf-8")
    base = int(quoting)  # compared as a number, as to find the member takes a microsecond
    if base == _RAW:
        return source
    if "\\" not in source:
        return source[1:-1]
    value = (
        ast.literal_eval(source)
        if base in (Quoting.PYTHON, Quoting.PYTHON_CANONICAL)
        else _JSON.decode(source)
    )
    assert isinstance(value, str)
    return value
