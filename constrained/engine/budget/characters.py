"""Characters in shortest ways: the one of a range that a reader would expect, in a spelling of fewest bytes.

Tests: tests/test_budget.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from constrained.engine.twin.spelling import Ranges, Spelling, clip
from constrained.engine.twin.text import BODY, DONE, ESCAPE, HEX, PAIR, PAIR_U, UTF8, TextAt, edges_between
from constrained.machine import Language
from constrained.regex.guarded import ESCAPED
from constrained.work import spend

Way: TypeAlias = str  # symbols: a byte is the character of the same number, a special token the character 256 + id
# characters to write where any would do, first ones first
EXPECTED = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,-_:/"
_AT_ONCE = 6  # beginnings of a character that are followed side by side

_CONTINUATION = bytes(range(0x80, 0xC0))
_DIGITS = b"0123456789abcdef"
_NEXT = {UTF8: _CONTINUATION, ESCAPE: bytes(range(256)), HEX: _DIGITS, PAIR: b"\\", PAIR_U: b"u"}


def symbols(data: bytes) -> Way:
    """Return bytes as a way."""
    return data.decode("latin-1")


def order(way: Way) -> tuple[int, Way]:
    """Return what ways are compared by: the shortest first."""
    return len(way), way


def closing(spelling: Spelling) -> Way:
    return chr(spelling.closing) if spelling.closing >= 0 else ""


def expected_byte(low: int, high: int) -> Way:
    """Return the byte of a range that a reader would expect first."""
    return next((char for char in EXPECTED if low <= ord(char) <= high), chr(low))


def spelled(spelling: Spelling, low: int, high: int, most: int) -> Iterator[Way]:
    """Yield the shortest spellings of up to `most` code points of a range, those that a reader would expect first."""
    raw, yielded = clip(spelling.raw, low, high), 0
    if low >= ESCAPED:
        low, high = low - ESCAPED, high - ESCAPED
    for char in _raw(raw):
        yield char
        yielded += 1
        if yielded == most:
            return
    if yielded:
        return
    for byte, point in spelling.short:
        if yielded < most and low <= point <= high:
            yielded += 1
            yield "\\" + chr(byte)
    for form in spelling.hexes if not yielded else ():
        for first, last in clip(form.allowed, low, high):
            for point in range(first, min(last, first + most - 1) + 1):
                if yielded < most:
                    yielded += 1
                    yield f"\\{chr(form.letter)}{point:0{form.digits}x}"


def _raw(ranges: Ranges) -> Iterator[Way]:
    """Yield the characters of ranges as they stand, those that a reader would expect first.

    PERF: the ASCII ones as bits, as this is asked for each edge of each language on the way.
    """
    ascii_bits = 0
    for first, last in ranges:
        if first <= 0x7F:
            ascii_bits |= (2 << min(last, 0x7F)) - (1 << first)
    for char in EXPECTED if ascii_bits else ():
        if ascii_bits >> ord(char) & 1:
            yield char
    for first, last in ranges:
        for point in range(first, last + 1):
            if point > 0x7F or chr(point) not in EXPECTED:
                yield symbols(chr(point).encode())


def characters(at: TextAt) -> list[tuple[Way, TextAt]]:
    """Return the shortest ways to complete the character that a position is inside of, and the positions behind it.

    Not all ways: `_AT_ONCE` beginnings are followed, and all are live.
    """
    if at.place in (BODY, DONE):
        return [("", at)]
    if at.place == UTF8:
        return _raw_characters(at)
    found: dict[TextAt, Way] = {}
    level: dict[TextAt, Way] = {at: ""}
    while level and not found:
        further: dict[TextAt, Way] = {}
        for position, way in level.items():
            spend(8)
            for byte in _NEXT.get(position.place, range(256)):
                if max(len(found), len(further)) >= _AT_ONCE:
                    break
                after = position.step(byte)
                if after is not None:
                    (found if after.place in (BODY, DONE) else further).setdefault(after, way + chr(byte))
        level = further
    return [(way, position) for position, way in found.items()]


def _raw_characters(at: TextAt) -> list[tuple[Way, TextAt]]:
    """Return how the character that UTF-8 has begun may go on: for each edge of the language its first one."""
    found: dict[Language, int] = {}
    spend(8)
    pending = at.pending()
    for first, last, target in edges_between(at.language, pending[0][0], pending[-1][1]) if pending else ():
        for point, _ in clip(pending, first, last):
            found[target] = min(found.get(target, point), point)
    chosen = sorted(found.items(), key=lambda entry: entry[1])[:_AT_ONCE]
    return [(symbols(chr(point).encode()[-at.left :]), TextAt(at.spelling, target)) for target, point in chosen]
