"""A reference automaton, an oracle that shares no table and no algorithm with the kernels: slow, and as plain as can be.

A state is a set of readings, a reading a machine state and a stack of frames, a Python tuple.  Inside a text a reading
is (language, the bytes of the character that has begun): after each byte somebody asks which characters some spelling
of which begins so, by the rules of RFC 8259, the Python reference and `repr`, written down here once more.

Left out: texts without markers (`machine.MarkerSafe`), whose spelling depends on what may be escaped needlessly.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from constrained.engine.spelling import variants  # which texts repr() writes in which quotes
from constrained.machine import END, Dispatch, Quoting, State, Text

DEAD = 0
SHORT = {
    Quoting.JSON: {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"},
    Quoting.PYTHON: {"\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"},
}
WIDTHS = {Quoting.JSON: {"u": 4}, Quoting.PYTHON: {"x": 2, "u": 4, "U": 8}}
HEX, LOWER = "0123456789abcdefABCDEF", "0123456789abcdef"

Ranges = list[tuple[int, int]]


@cache
def hidden() -> list[int]:
    """Return the characters that repr() escapes, ascending."""
    return [point for point in range(0x110000) if not 0xD800 <= point < 0xE000 and not chr(point).isprintable()]


def utf8(begun: bytes) -> Ranges:
    """Return the characters whose UTF-8 begins so, at most one range."""
    length = 2 if 0xC2 <= begun[0] < 0xE0 else 3 if 0xE0 <= begun[0] < 0xF0 else 4 if 0xF0 <= begun[0] < 0xF5 else 1
    if len(begun) > length or (length == 1 and begun[0] >= 0x80) or any(byte & 0xC0 != 0x80 for byte in begun[1:]):
        return []
    value = begun[0] if length == 1 else begun[0] & (0x7F >> length)
    for byte in begun[1:]:
        value = value << 6 | byte & 0x3F
    left = 6 * (length - len(begun))
    least = {1: 0, 2: 0x80, 3: 0x800, 4: 0x10000}[length]
    return [(max(value << left, least), min((value + 1 << left) - 1, 0x10FFFF))]


def digits(begun: str, width: int, allowed: str) -> tuple[int, int] | None:
    """Return the numbers of a width whose digits begin so."""
    if len(begun) > width or any(letter not in allowed for letter in begun):
        return None
    value, left = int(begun or "0", 16), 4 * (width - len(begun))
    return value << left, (value + 1 << left) - 1


def pairs(begun: str) -> Ranges:
    """Return the characters above U+FFFF whose two escapes of JSON begin with `\\u` and so."""
    high = digits(begun[:4], 4, HEX)
    if high is None or not "\\u".startswith(begun[4:6]):
        return []
    low = digits(begun[6:], 4, HEX)
    if low is None:
        return []
    return [
        (0x10000 + (first - 0xD800 << 10) + max(low[0] - 0xDC00, 0), 0x10000 + (first - 0xD800 << 10) + min(low[1] - 0xDC00, 0x3FF))
        for first in range(max(high[0], 0xD800), min(high[1], 0xDBFF) + 1)
        if low[1] >= 0xDC00 and low[0] <= 0xDFFF
    ]


def escaped(quoting: Quoting, begun: str) -> Ranges:
    """Return the characters whose escape begins with a backslash and so, in a quoting that takes any."""
    found = [(ord(point), ord(point)) for letter, point in SHORT[quoting].items() if letter.startswith(begun)]
    for letter, width in WIDTHS[quoting].items():
        if not begun:
            found.append((0, 0x10FFFF))
        elif begun[0] == letter and (ends := digits(begun[1:], width, HEX)) is not None:
            found.append((ends[0], min(ends[1], 0x10FFFF)))
            found += pairs(begun[1:]) if quoting is Quoting.JSON else []
        elif begun[0] == letter and quoting is Quoting.JSON:
            found += pairs(begun[1:])
    if quoting is Quoting.PYTHON and len(begun) in (1, 2, 3) and all(letter in "01234567" for letter in begun):
        least = int(begun, 8)
        found += [(least << 3 * more, (least + 1 << 3 * more) - 1) for more in range(4 - len(begun))]
    return found


def spelled(quoting: Quoting, quote: str, point: int) -> bytes:
    """Return the one spelling of a character in a canonical quoting."""
    if quoting is Quoting.JSON_CANONICAL:
        return json.dumps(chr(point), ensure_ascii=False)[1:-1].encode()
    return {"'": "\\'", '"': '"'}.get(chr(point), repr(chr(point))[1:-1]).encode() if quote == "'" else repr(chr(point))[1:-1].encode()


@dataclass(frozen=True)
class Inside:
    """A place in a text; begun: the bytes of a character that is not complete, or that may still be longer."""

    quoting: Quoting
    quote: str  # "": a bare text
    language: Any
    begun: bytes = b""
    done: bool = False

    @property
    def accepting(self) -> bool:
        return self.done or (not self.quote and not self.begun and self.language.accepts)

    def after(self, point: int) -> Inside | None:
        target = next((target for low, high, target in self.language.edges() if low <= point <= high), None)
        return None if target is None else Inside(self.quoting, self.quote, target)

    def complete(self) -> Inside | None:
        """Return the place behind the character that has begun, if it is complete."""
        point = next((point for point in self.exact() if self.after(point) is not None), None)
        if point is None and self.begun == b"\\\n" and self.quoting is Quoting.PYTHON:
            return Inside(self.quoting, self.quote, self.language)
        return None if point is None else self.after(point)

    def exact(self) -> Iterator[int]:
        """Yield the characters that the bytes spell."""
        begun = self.begun
        if self.raw():
            yield from (low for low, high in utf8(begun) if low == high and chr(low).encode() == begun)
        elif self.quoting in (Quoting.JSON, Quoting.PYTHON):
            text = begun[1:].decode("ascii", "replace")
            if (point := SHORT[self.quoting].get(text)) is not None:
                yield ord(point)
            elif text[:1] in WIDTHS[self.quoting] and len(text) == 1 + WIDTHS[self.quoting][text[0]]:
                yield from (low for low, high in escaped(self.quoting, text) if low == high and not 0xD800 <= low < 0xE000)
            elif self.quoting is Quoting.JSON and len(text) == 11:
                yield from (low for low, high in pairs(text[1:]) if low == high)
            elif self.quoting is Quoting.PYTHON and text and all(letter in "01234567" for letter in text):
                yield int(text, 8)
        else:
            yield from (point for point in self.canonical() if spelled(self.quoting, self.quote, point) == begun)

    def canonical(self) -> Iterator[int]:
        """Yield the characters with an escape of a canonical quoting that begins so, as far as the language has them."""
        short = [point for point in range(0x80) if spelled(self.quoting, self.quote, point).startswith(self.begun)]
        for low, high, _ in self.language.edges():
            yield from (point for point in short if low <= point <= high)
            if self.quoting is Quoting.PYTHON_CANONICAL:
                yield from self.hidden(low, high)

    def hidden(self, low: int, high: int) -> Iterator[int]:
        text, table = self.begun[1:].decode("ascii", "replace"), hidden()
        widths = {"x": (0, 0xFF, 2), "u": (0x100, 0xFFFF, 4), "U": (0x10000, 0x10FFFF, 8)}
        for letter, (least, most, width) in widths.items():
            ends = digits(text[1:], width, LOWER) if not text or text[0] == letter else None
            if ends is not None:
                at = bisect_left(table, max(low, least, ends[0]))
                while at < len(table) and table[at] <= min(high, most, ends[1]):
                    if table[at] not in (9, 10, 13):
                        yield table[at]
                        break
                    at += 1

    def raw(self) -> bool:
        return not self.quote or self.begun[:1] != b"\\"

    def lives(self) -> bool:
        """Say whether some character that the language has may still be spelled."""
        if self.raw():
            return self.meets(utf8(self.begun), self.stands)
        if self.quoting in (Quoting.JSON, Quoting.PYTHON):
            if self.quoting is Quoting.PYTHON and b"\\\n".startswith(self.begun):
                return True
            return self.meets(escaped(self.quoting, self.begun[1:].decode("ascii", "replace")), lambda point: True)
        return next(self.canonical(), None) is not None

    def meets(self, ranges: Ranges, takes: Any) -> bool:
        for low, high in ranges:
            for first, last, _ in self.language.edges():
                for point in range(max(low, first), min(high, last) + 1):
                    if not 0xD800 <= point < 0xE000 and takes(point):
                        return True
        return False

    def stands(self, point: int) -> bool:
        """Say whether a character may stand as it is."""
        if not self.quote:
            return True
        if chr(point) in ("\\", self.quote):
            return False
        if self.quoting is Quoting.PYTHON:
            return point not in (0, 10, 13)
        return chr(point).isprintable() if self.quoting is Quoting.PYTHON_CANONICAL else point >= 0x20

    def step(self, byte: int) -> Inside | None:
        """Return the place behind a byte: of escapes that may go on or end (octal ones) the longest counts."""
        if self.done:
            return None
        if not self.begun and self.quote and byte == ord(self.quote):
            return Inside(self.quoting, self.quote, self.language, done=True) if self.language.accepts else None
        longer = Inside(self.quoting, self.quote, self.language, self.begun + bytes([byte]))
        if self.begun and (whole := self.complete()) is not None and not longer.lives():
            return whole.step(byte)
        if not longer.lives():
            return None
        whole = longer.complete()
        if whole is None or longer.octal():
            return longer
        return whole

    def octal(self) -> bool:
        """Say whether the bytes are an octal escape that another digit may follow."""
        return (
            self.quoting is Quoting.PYTHON and 2 <= len(self.begun) < 4 and self.begun[:1] == b"\\"
            and all(0x30 <= byte < 0x38 for byte in self.begun[1:])
        )

    def reads(self) -> bool:
        if self.done:
            return False
        return bool(self.quote or self.begun) or any(self.step(byte) for byte in range(256))


Frames = tuple[Any, ...]  # (after, quoting, record or None, the frames below), () at the bottom


class ReferenceKernel:
    """The kernel protocol as far as `laws.assert_kernels_agree` asks."""

    def __init__(self, vocabulary: Any, root: State, *, nullable: bool, specials: Any) -> None:
        self._vocabulary, self._specials = vocabulary, specials
        self._states: list[tuple[frozenset[Any], bool]] = [(frozenset(), False)]
        self._ids: dict[Any, int] = {self._states[0]: DEAD}
        self._steps: dict[tuple[int, int], int] = {}
        self.start = self._close([(root, ())], nullable)

    def _close(self, work: list[Any], final: bool = False) -> int:
        seen: set[Any] = set()
        while work:
            config = work.pop()
            machine, frames = config
            if isinstance(machine, Text) and machine.quoting is Quoting.RAW:
                work.append((Inside(Quoting.RAW, "", machine.language), frames))
                continue
            if config in seen:
                continue
            seen.add(config)
            accepting = machine.accepting if isinstance(machine, Inside) else self._edges(machine).accepting
            if accepting and not frames:
                final = True
            elif accepting and (after := self._returned(machine, frames)) is not None:
                work.append((after, frames[3]))
            for callee, after in () if isinstance(machine, Inside) else self._edges(machine).calls:
                work.append((callee, self._pushed(callee, after, frames)))
        key = frozenset(config for config in seen if self._reads(config[0])), final
        if key not in self._ids:
            self._ids[key] = len(self._states)
            self._states.append(key)
        return self._ids[key]

    def _edges(self, machine: State) -> Any:
        if not isinstance(machine, Text):
            return machine.expand()
        return _Opened(
            [(way.opening[0], Inside(machine.quoting, way.opening.decode(), part)) for way, part in variants(machine.quoting, machine.language) if part is not None]
        )

    def _reads(self, machine: Any) -> bool:
        if isinstance(machine, Inside):
            return machine.reads()
        edges = self._edges(machine)
        return bool(edges.ranges or edges.tokens)

    def _pushed(self, callee: State, after: Any, frames: Frames) -> Frames:
        if after is END:
            return frames
        records = isinstance(after, Dispatch) and after.records
        return after, callee.quoting if isinstance(callee, Text) else None, b"" if records else None, frames

    def _returned(self, machine: Any, frames: Frames) -> State | None:
        after, quoting, record, _ = frames
        if not isinstance(after, Dispatch):
            return after
        if record is None:
            return after.after(machine.language.label)
        text = record.decode()
        if quoting is Quoting.RAW:
            return after.after_text(text)
        return after.after_text(json.loads(text, strict=False) if "JSON" in quoting.name else eval(text))

    def step_byte(self, state: int, byte: int) -> int:
        if (state, byte) not in self._steps:
            moved = []
            for machine, frames in self._states[state][0]:
                if isinstance(machine, Inside):
                    target = machine.step(byte)
                else:
                    target = next((target for low, high, target in self._edges(machine).ranges if low <= byte <= high), None)
                if target is not None:
                    if frames and frames[2] is not None:
                        frames = (*frames[:2], frames[2] + bytes([byte]), frames[3])
                    moved.append((target, frames))
            self._steps[state, byte] = self._close(moved)
        return self._steps[state, byte]

    def next_bytes(self, state: int) -> bytes:
        return bytes(byte for byte in range(256) if self.step_byte(state, byte) != DEAD)

    def step_bytes(self, state: int, data: bytes) -> int:
        for byte in data:
            state = self.step_byte(state, byte)
        return state

    def step_token(self, state: int, token: int) -> int:
        data = self._vocabulary.tokens[token]
        if data is not None:
            return self.step_bytes(state, data)
        edges = [(target, frames) for machine, frames in self._states[state][0] if not isinstance(machine, Inside)
                 for name, target in self._edges(machine).tokens if self._specials[name] == token]
        return self._close(edges)

    def is_final(self, state: int) -> bool:
        return self._states[state][1]

    def is_exhausted(self, state: int) -> bool:
        return not self._states[state][0]

    def named_tokens(self, state: int) -> set[int]:
        return {self._specials[name] for machine, _ in self._states[state][0] if not isinstance(machine, Inside)
                for name, _ in self._edges(machine).tokens}

    def mask(self, state: int) -> Any:
        bits = np.zeros(self._vocabulary.words * 32, np.uint8)
        for token in range(self._vocabulary.size):
            bits[token] = self.step_token(state, token) != DEAD
        if self.is_final(state):
            bits[list(self._vocabulary.stop)] = 1
        return np.packbits(bits, bitorder="little").view(np.uint32)


class _Opened:
    """The edges of a text in quotes."""

    def __init__(self, opened: list[tuple[int, Inside]]) -> None:
        self.ranges = tuple((byte, byte, target) for byte, target in opened)
        self.calls = self.tokens = ()
        self.accepting = False
