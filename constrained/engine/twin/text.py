r"""Reads a text value byte by byte: the plain twin of the compiled kernel's text states.

A position inside a text is (spelling, language, where we are inside one character).  Between characters the language
alone decides; inside a character (UTF-8 continuation, escape, hexadecimal digits) the position knows the range of code
points that can still come, and is live exactly when the language has an edge into that range.  No dead position is ever
entered.

    BODY ──é──► UTF8 ──► BODY      BODY ──\──► ESCAPE ──n──► BODY      ESCAPE ──u──► HEX ──► … ──► BODY
                                                             HEX (high surrogate) ──► PAIR ──► HEX (low) ──► BODY
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from constrained.engine.twin.spelling import SCALARS, HexForm, Ranges, Spelling, clip
from constrained.machine import Language, LiteralSet
from constrained.regex.markers import ESCAPED, Guarded

BODY, UTF8, ESCAPE, HEX, PAIR, PAIR_U, OCTAL, DONE = range(8)
_LEAST = {1: 0x80, 2: 0x800, 3: 0x10000}  # characters that have so many bytes behind their first one
_LIKELY_FIRST = (*range(0x20, 256), *range(0x20))  # PERF: most positions inside texts read a blank


def edges_between(language: Language, low: int, high: int) -> Sequence[tuple[int, int, Language]]:
    """Return the edges of a language that have code points of a range, cut to it."""
    return [
        (max(first, low), min(last, high), target)
        for first, last, target in language.edges()
        if first <= high and last >= low
    ]


def successor(language: Language, point: int) -> Language | None:
    """Return the language after one code point."""
    return next((target for _, _, target in edges_between(language, point, point)), None)


def reaches(language: Language, ranges: Ranges) -> bool:
    """Say whether some code point of the ranges continues the language."""
    return any(edges_between(language, low, high) for low, high in ranges)


@dataclass(frozen=True, slots=True)
class TextAt:
    """A live position inside a text.  `step` returns the next one, or None."""

    spelling: Spelling
    language: Language
    place: int = BODY
    left: int = 0  # bytes or digits still to come
    value: int = 0  # what they have spelled so far
    form: HexForm | None = None
    high: int = 0  # high surrogate of a pair, 0: none

    @property
    def accepting(self) -> bool:
        return self.place == DONE or (self.place == BODY and self.spelling.closing < 0 and self.language.accepts)

    @property
    def label(self) -> int:
        return self.language.label if isinstance(self.language, (LiteralSet, Guarded)) else 0

    def step(self, byte: int) -> TextAt | None:
        return _STEPS[self.place](self, byte)

    def reads(self) -> bool:
        """Return whether some byte goes on.

        PERF: inside a character it does, see `live`, and of plain text the language says it: quotes of a text in
        Chinese, whose bytes are tried late, took 0.6 ms a position.
        """
        spelling = self.spelling
        if self.place == UTF8:
            return True
        if self.place == BODY and spelling.closing < 0 and not spelling.escapes and not spelling.guarded:
            return reaches(self.language, spelling.raw)
        return any(map(self.step, _LIKELY_FIRST))

    def live(self) -> TextAt | None:
        """Return this position if the language can go on from it."""
        points = self.pending()
        if self.place != UTF8 and self.spelling.guarded:
            assert self.form is not None
            low, high = self.value << 4 * self.left, ((self.value + 1) << 4 * self.left) - 1
            escaped = tuple((low + ESCAPED, high + ESCAPED) for low, high in points)
            points = (*clip(self.form.needed, low, high), *escaped)
        return self if reaches(self.language, points) else None

    def pending(self) -> Ranges:
        """Return the code points that the started character can still become."""
        if self.place == UTF8:
            low, high = self.value << 6 * self.left, ((self.value + 1) << 6 * self.left) - 1
            return clip(self.spelling.raw, max(low, _LEAST[self.left]) if not self.value else low, high)
        assert self.form is not None
        low, high = self.value << 4 * self.left, ((self.value + 1) << 4 * self.left) - 1
        if self.high:
            return tuple((_pair(self.high, a), _pair(self.high, b)) for a, b in clip(((0xDC00, 0xDFFF),), low, high))
        points = clip(self.form.allowed, low, high)
        if self.form.pairs:
            points += tuple((_pair(a, 0xDC00), _pair(b, 0xDFFF)) for a, b in clip(((0xD800, 0xDBFF),), low, high))
        return points


def _pair(high: int, low: int) -> int:
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)


def _after(at: TextAt, point: int, *, raw: bool = False) -> TextAt | None:
    needless = not raw and at.spelling.guarded and clip(at.spelling.raw, point, point)
    target = successor(at.language, point + ESCAPED if needless else point)
    return None if target is None else TextAt(at.spelling, target)


def _body(at: TextAt, byte: int) -> TextAt | None:
    spelling = at.spelling
    if byte == spelling.closing:
        return replace(at, place=DONE) if at.language.accepts else None
    if byte == 0x5C and spelling.escapes:
        return _escape_start(at)
    if byte < 0x80:
        return _after(at, byte, raw=True) if clip(spelling.raw, byte, byte) else None
    for lead, length in ((0xC0, 1), (0xE0, 2), (0xF0, 3)):
        if lead <= byte < lead + (0x40 >> length) and byte not in (0xC0, 0xC1):
            next_at = TextAt(spelling, at.language, UTF8, length, byte - lead)
            return next_at.live()
    return None


def _utf8(at: TextAt, byte: int) -> TextAt | None:
    if not 0x80 <= byte < 0xC0:
        return None
    value, left = at.value << 6 | byte & 0x3F, at.left - 1
    overlong = (at.left, at.value) in ((2, 0), (3, 0)) and byte < (0xA0 if at.left == 2 else 0x90)
    if overlong:
        return None
    if left:
        return replace(at, left=left, value=value).live()
    return _after(at, value, raw=True) if clip(at.spelling.raw, value, value) else None


def _escape_start(at: TextAt) -> TextAt | None:
    start = TextAt(at.spelling, at.language, ESCAPE)
    alive = at.spelling.continuation or any(start.step(byte) for byte in range(0x21, 0x7F))
    return start if alive else None


def _escape(at: TextAt, byte: int) -> TextAt | None:
    spelling = at.spelling
    for letter, point in spelling.short:
        if letter == byte:
            return _after(at, point)
    if byte == 0x0A and spelling.continuation:
        return TextAt(spelling, at.language)
    for form in spelling.hexes:
        if form.letter == byte:
            return TextAt(spelling, at.language, HEX, form.digits, 0, form).live()
    if spelling.octal and 0x30 <= byte < 0x38:
        return _octal_at(TextAt(spelling, at.language, OCTAL, 2, byte - 0x30))
    return None


def _hex(at: TextAt, byte: int) -> TextAt | None:
    assert at.form is not None
    digits = b"0123456789abcdefABCDEF" if at.form.upper else b"0123456789abcdef"
    if byte not in digits:
        return None
    value, left = at.value << 4 | int(chr(byte), 16), at.left - 1
    if left:
        return replace(at, left=left, value=value).live()
    if at.high:
        return _after(at, _pair(at.high, value)) if 0xDC00 <= value <= 0xDFFF else None
    if at.form.pairs and 0xD800 <= value <= 0xDBFF:
        pair = TextAt(at.spelling, at.language, PAIR, 4, 0, at.form, high=value)
        return pair if reaches(at.language, ((_pair(value, 0xDC00), _pair(value, 0xDFFF)),)) else None
    return _after(at, value) if clip(at.form.allowed, value, value) else None


def _pair_start(at: TextAt, byte: int) -> TextAt | None:
    return replace(at, place=PAIR_U) if byte == 0x5C else None


def _pair_letter(at: TextAt, byte: int) -> TextAt | None:
    return replace(at, place=HEX) if byte == 0x75 else None


def _octal_at(at: TextAt) -> TextAt | None:
    alive = successor(at.language, at.value) is not None or (
        at.left and any(_octal(at, byte) for byte in range(0x30, 0x38))
    )
    return at if alive else None


def _octal(at: TextAt, byte: int) -> TextAt | None:
    """Longest match: a digit extends the escape while it may; anything else is read after its character."""
    if at.left and 0x30 <= byte < 0x38:
        longer = replace(at, left=at.left - 1, value=at.value * 8 + byte - 0x30)
        return _octal_at(longer)
    after = _after(at, at.value)
    return _body(after, byte) if after else None


def _done(at: TextAt, byte: int) -> TextAt | None:
    return None


_STEPS: dict[int, Callable[[TextAt, int], TextAt | None]] = {
    BODY: _body, UTF8: _utf8, ESCAPE: _escape, HEX: _hex, PAIR: _pair_start, PAIR_U: _pair_letter, OCTAL: _octal,
    DONE: _done,
}  # fmt: skip

__all__ = ["SCALARS", "TextAt", "reaches", "successor"]
