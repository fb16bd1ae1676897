"""What readers of arguments share: the value under construction, its JSON pointer, faults, numbers.

A value grows inside its containers: a list or dict is attached to its parent when it opens, so that an unfinished text
has a value at every moment.  Containers are kept on an explicit stack, as texts may be nested deeper than Python can
recurse.

Readers run beside the threads of the simulation (`Ahead`): the characters of a value mean nothing to the threads that
wait for its end, so a reader goes there at once, by its own fast ways, and the simulation asks what becomes of it when
the other threads have got there.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, NamedTuple

from constrained.work import spend

# -- values ------------------------------------------------------------------------------------------------------------

_SCIENTIFIC = re.compile(r"-?[1-9](\.[0-9]*[1-9])?e[+-][0-9]{2,}")
_LEAST, _MOST = 1e-4, 1e16  # repr() writes numbers from here to there without an exponent
MOST_INT_DIGITS = 20_000  # longer integers are `Decimal`: to convert their base takes quadratic time


@dataclass()
class Fault(Exception):
    """A text is not what a reader reads: the place in it, why, what could have come, and the pointer of the value it
    stands in.
    """

    at: int
    because: str
    expected: str
    pointer: str


class Tree:
    """The containers that are open, outermost first, with the key or index at which each of them waits for a value.

    root: a container that is open already.
    Invariant: `root` holds all values read so far; keys[i] is where containers[i] takes its next value.
    """

    __slots__ = ("root", "containers", "keys")

    def __init__(self, root: Any = None) -> None:
        self.root = root
        self.containers: list[Any] = [] if root is None else [root]
        self.keys: list[Any] = [] if root is None else [None]

    def put(self, value: Any) -> None:
        """Write a value where the innermost container waits for one."""
        if not self.containers:
            self.root = value
        elif isinstance(self.containers[-1], list):
            self.containers[-1].append(value)
        else:
            self.containers[-1][self.keys[-1]] = value

    def open(self, container: Any) -> None:
        spend(2)
        self.put(container)
        self.containers.append(container)
        self.keys.append(None)

    def close(self) -> bool:
        """Close the innermost container; return whether it was the outermost."""
        self.containers.pop()
        self.keys.pop()
        return not self.containers

    def pointer(self) -> str:
        """Return the JSON pointer of the value that is being read."""
        parts = []
        for container, key in zip(self.containers, self.keys, strict=True):
            if isinstance(container, list):
                parts.append(str(len(container)))
            elif key is not None:
                parts.append(key.replace("~", "~0").replace("/", "~1"))
        # A container is part of its parent from the start: the index of the one that is open has already been counted.
        for depth, container in enumerate(self.containers[:-1]):
            if isinstance(container, list):
                parts[depth] = str(len(container) - 1)
        return "".join(f"/{part}" for part in parts)


Step = Callable[[str, int, int], int]


class ValueReader(ABC):
    """A reader of one value: steps, each of which reads on from a place of a text and may leave the next to another.

    `base`: the place of text[0], to be set before each piece of text; `expected`: what may come next, in words; `done`:
    whether the value has ended.
    Invariant: a character is read once; `done` never becomes false again.
    """

    __slots__ = ("done", "base", "expected", "_tree", "_step")

    def __init__(self, root: Any, step: Step, expected: str) -> None:
        self.done, self.base, self._tree = False, 0, Tree(root)
        self._step, self.expected = step, expected

    @property
    def value(self) -> Any:
        return self._tree.root

    @property
    def pointer(self) -> str:
        return self._tree.pointer()

    def feed(self, text: str, at: int, end: int) -> int:
        """Read text[at:end], at most to the end of the value; return where reading stopped.  Raises: Fault."""
        while at < end and not self.done:
            at = self._step(text, at, end)
        return at

    def partial(self) -> Any:
        """Return what is known of the value; nothing may be fed afterwards."""
        return self._tree.root

    def _fault(self, at: int, because: str, expected: str | None = None) -> Fault:
        return Fault(self.base + at, because, expected or self.expected, self.pointer)

    def _unexpected(self, text: str, at: int) -> Fault:
        return self._fault(at, f"{text[at]!r} cannot stand here")

    def _go(self, step: Step, expected: str) -> None:
        self._step, self.expected = step, expected

    # -- containers ----------------------------------------------------------------------------------------------------

    @property
    def _closing(self) -> str:
        """The sign that ends the innermost container."""
        return "]" if isinstance(self._tree.containers[-1], list) else "}"

    @abstractmethod
    def _gap(self, text: str, at: int, end: int) -> int:
        """Return where white space ends."""

    @abstractmethod
    def _value(self, text: str, at: int, end: int) -> int:
        """Begin a value; return where reading goes on."""

    @abstractmethod
    def _next(self) -> None:
        """Expect the next member of the innermost container, behind a comma."""

    def _value_or_end(self, text: str, at: int, end: int) -> int:
        at = self._gap(text, at, end)
        if at < end and text[at] == self._closing:
            return self._end(at)
        return self._value(text, at, end)

    def _sign_then_value(self, sign: str, text: str, at: int, end: int) -> int:
        at = self._gap(text, at, end)
        if at == end:
            return at
        if text[at] != sign:
            raise self._unexpected(text, at)
        self._go(self._value, "a value")
        return at + 1

    def _colon(self, text: str, at: int, end: int) -> int:
        return self._sign_then_value(":", text, at, end)

    def _after(self, text: str, at: int, end: int) -> int:
        at = self._gap(text, at, end)
        if at == end:
            return at
        if text[at] == ",":
            if not isinstance(self._tree.containers[-1], list):
                self._tree.keys[-1] = None
            self._next()
            return at + 1
        if text[at] != self._closing:
            raise self._unexpected(text, at)
        return self._end(at)

    def _end(self, at: int) -> int:
        if self._tree.close():
            self.done, self.expected = True, ""
        else:
            self._finished()
        return at + 1

    def _put(self, value: Any) -> None:
        self._tree.put(value)
        self._finished()

    def _finished(self) -> None:
        self._go(self._after, f"',' or {self._closing!r}")


def end_of(pattern: re.Pattern[str], text: str, at: int, end: int) -> int:
    """Return where a run of characters ends that begins at a place, which may be empty."""
    match = pattern.match(text, at, end)
    return match.end() if match else at


def integer_of(digits: str) -> int | Decimal:
    """Return the number that decimal digits with a sign spell; Python's own limit on their number plays no part."""
    if len(digits) < 4_000:
        return int(digits)
    number = Decimal(digits)
    return int(number) if len(digits) <= MOST_INT_DIGITS else number


class SpelledFloat(float):
    """A float that was written otherwise than `repr` writes it; equal to any other of its value."""

    spelling: str | None = None


class SpelledDecimal(Decimal):
    """A number of many digits that was written otherwise than `number_text` writes it; equal to any other of its
    value.
    """

    spelling: str | None = None


def decimal_of(text: str) -> float | Decimal:
    """Return the number that a decimal fraction or one with an exponent spells.

    A float where its shortest spelling means the same number, else a `Decimal`, so that nothing overflows and no digit
    is lost.  Only exponents beyond some 10^18 are cut down to that.  A canonical spelling that `number_text` would not
    choose is remembered.

    >>> decimal_of("1E2"), decimal_of("1e+400"), number_text(decimal_of("0.00001"))
    (100.0, Decimal('1E+400'), '0.00001')
    """
    number = _decimal_of(text)
    if (
        "e" in text
        or "E" in text
        or text[-1] == "0"
        and text[-2] != "."
        or _LEAST <= abs(float(number)) < _MOST
        or text == number_text(number)
    ):
        return number
    spelled = SpelledDecimal(number) if isinstance(number, Decimal) else SpelledFloat(number)
    spelled.spelling = text
    return spelled


def _decimal_of(text: str) -> float | Decimal:
    number = float(text)
    if len(text) < 17 and isfinite(number) and abs(number) > 1e-300:
        return number
    try:
        exact = Decimal(text)
    except InvalidOperation:
        mantissa, _, exponent = text.lower().partition("e")
        exact = (
            SpelledDecimal(f"{mantissa}e{'-' if exponent.startswith('-') else ''}{10**17}")
            if Decimal(mantissa)
            else SpelledDecimal(0)
        )
        exact.spelling = text if _SCIENTIFIC.fullmatch(text) else None
    return number if isfinite(number) and exact == Decimal(repr(number)) else exact


def number_text(number: float | Decimal) -> str:
    """Return the canonical text of a finite number, as `json.dumps` and `repr` would write it if their floats had as
    many digits as it takes.

    >>> number_text(Decimal("1E+400")), number_text(Decimal("0.123456789012345678901")), number_text(1e-7)
    ('1e+400', '0.123456789012345678901', '1e-07')
    """
    spelling = getattr(number, "spelling", None)
    if spelling is not None:
        return str(spelling)
    if isinstance(number, float):
        return float.__repr__(number)
    if isinstance(number, int) or number.as_tuple().exponent == 0:
        return f"{Decimal(number):f}"
    sign, digits, _ = number.as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = number.adjusted() + 1  # places from the first digit to the decimal point
    if text == "0":
        point = 1
    if point > 16 or point < -3:
        mantissa = text[0] + (f".{text[1:]}" if text[1:] else "")
        return f"{'-' * sign}{mantissa}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"
    text = "0" * (1 - point) + text + "0" * (point + 1 - len(text))
    point = max(point, 1)
    return f"{'-' * sign}{text[:point]}.{text[point:]}"


# -- beside the simulation ---------------------------------------------------------------------------------------------

# What becomes of each reader with a character: whether its value has ended, None: it meets a fault.
Outcomes = tuple[bool | None, ...]


class Native(NamedTuple):
    """A value that is read by code.  `first`: the character that it begins with; `make`: what makes a reader of it,
    which has read that character; `whole`: what reads it at once, given the place of that character and the end of the
    text, and returns it with its end, or None, where a reader has to look.
    """

    first: str
    make: Callable[[], ValueReader]
    whole: Callable[[str, int, int], tuple[Any, int] | None] | None = None


@dataclass(eq=False, slots=True)
class Ahead:
    """What reads a value ahead of the threads: to its end, to a fault, or to the end of the text.

    `place`: up to where nothing has become of it; `outcome`: what becomes of it with the character there; `value`: of
    what has ended.
    """

    native: Native
    place: int = -1
    outcome: bool | None = False
    fault: Fault | None = None
    value: Any = None
    _reader: ValueReader | None = None

    @property
    def reader(self) -> ValueReader:
        """What reads the value step by step."""
        self._reader = self._reader or self.native.make()
        return self._reader

    def reach(self, text: str, at: int, end: int, origin: int) -> int:
        """Return up to where in a text nothing becomes of it; it is at `at`, and the text begins at a place."""
        if self.outcome is False and self.place <= origin + at:
            is_new = self._reader is None and at > 0
            whole = self.native.whole(text, at - 1, end) if is_new and self.native.whole is not None else None
            if whole is not None:
                self.value, stop = whole
                self.place, self.outcome = origin + stop - 1, True
            else:
                reader = self.reader
                reader.base = origin
                try:
                    stop = reader.feed(text, at, end)
                    self.place, self.outcome = origin + stop - reader.done, reader.done
                    self.value = reader.value if reader.done else None
                except Fault as fault:
                    self.place, self.outcome, self.fault = max(fault.at, origin + at), None, fault
            spend(1 + ((self.place - origin - at) >> 5))
        return min(self.place - origin, end)
