"""The part of a number after its "e", once the mantissa has turned the condition into an interval of integers.

    ExponentStart ─ "+" | "-" | nothing ─► Digits ─ digit ─► Digits …

Every state is live: some integer of the interval starts with the digits read so far.  Where the interval has no upper
end, all values past the lower end are one state.  Tested through tests/test_numbers.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeAlias

from constrained.caches import cached
from constrained.machine import Language
from constrained.schema.numeric.magnitudes import Interval
from constrained.work import spend_nearby

try:
    from constrained.schema._scan import digits as quick_digits
    from constrained.schema._scan import start as quick_start
except ImportError:  # no compiler
    quick_digits = quick_start = None

Edge: TypeAlias = tuple[int, int, Language]
Target: TypeAlias = tuple[int, int, Language | None]  # None: these characters lead nowhere

ZERO, WHOLE, POINT, FRACTION = range(4)  # where a mantissa ends: behind its leading zero, another digit, the point, …
LEAST_PLUS, LEAST_MINUS = 16, 5  # repr() writes 9999999999999998.0, 1e+16 and 0.0001, 1e-05


class NumberSpelling(NamedTuple):
    """Which spellings of a number are allowed.

    PERF: a part of many keys, and that of a dataclass is a call of Python.
    """

    canonical: bool = False  # as json.dumps and repr() write it; integers without fraction and exponent
    bare_point: bool = False  # "1." and ".5"
    underscores: bool = False  # "1_000"


class Interned:
    """A language state that is the only one of its kind: compared by identity, keeps its edges.

    goes_on: True only if there are edges, so that kernels need not list those of a state where a token ends.
    """

    __slots__ = ("_edges", "accepts")
    goes_on = False
    _edges: tuple[Edge, ...] | None
    accepts: bool

    def edges(self) -> tuple[Edge, ...]:
        edges = self._edges
        if edges is None:
            spend_nearby(3)
            edges = self._edges = joined(self.targets())
        return edges  # which another thread may have forgotten by now

    def targets(self) -> Iterable[Target]:
        """Return the states after characters, ranges of them in ascending order; none where a class has `edges` of its
        own.
        """
        return ()

    def mask_key(self, horizon: int) -> Hashable:
        return self


def joined(targets: Iterable[Target]) -> tuple[Edge, ...]:
    """Return edges for ranges of characters in ascending order, neighbours with one target joined."""
    edges: list[Edge] = []
    for low, high, target in targets:
        if target is None:
            continue
        if edges and edges[-1][1] == low - 1 and edges[-1][2] is target:
            edges[-1] = (edges[-1][0], high, target)
        else:
            edges.append((low, high, target))
    return tuple(edges)


def char(text: str, target: Language | None) -> Target:
    """Return what a character leads to."""
    return ord(text), ord(text), target


class Digits(Interned):
    """The digits of an exponent x with low <= x <= high, its sign read; leading zeros are free.

    value: what the digits say so far, None before the first; at or past `low` it stands for all such values where high
    is None. gap: the last character was an underscore.
    """

    __slots__ = ("low", "high", "value", "spelling", "gap")

    def __init__(self, low: int, high: int | None, value: int | None, spelling: NumberSpelling, gap: bool) -> None:
        self.low, self.high, self.value, self.spelling, self.gap = low, high, value, spelling, gap
        self._edges = None
        self.accepts = value is not None and not gap and low <= value

    def targets(self) -> Iterable[Target]:
        alive = False
        for digit in range(10):
            value = digit if self.value is None else self.value * 10 + digit
            if self.high is None and value >= self.low:
                value = self.low
            if starts(value, self.low, self.high):
                alive = True
                yield char(str(digit), digits(self.low, self.high, value, self.spelling, False))
        if alive and self.spelling.underscores and self.value is not None and not self.gap:
            yield char("_", digits(self.low, self.high, self.value, self.spelling, True))


class CanonicalDigits(Interned):
    """Digits of an exponent as repr() writes them: at least two, with a leading zero only to make two."""

    __slots__ = ("low", "high", "text")

    def __init__(self, low: int, high: int | None, text: str) -> None:
        self.low, self.high, self.text = low, high, text
        self._edges = None
        self.accepts = len(text) > 1 and int(text) >= low

    def targets(self) -> Iterable[Target]:
        for digit in range(10):
            text = self._after(digit)
            if text is not None:
                yield char(str(digit), canonical_digits(self.low, self.high, text))

    def _after(self, digit: int) -> str | None:
        """Return the digits with one more, or other digits with the same continuations; None: no exponent starts so."""
        text, low = self.text + str(digit), max(self.low, 10)
        if text == "0":
            return text if self.low < 10 else None
        if text[0] == "0":
            fits = len(text) == 2 and self.low <= digit and (self.high is None or digit <= self.high)
            return "09" if fits else None
        if self.high is None and (int(text) >= low or int(text) * 10 >= low and len(text) == 1):
            return str(low) if int(text) >= low else "9"
        return text if starts(int(text), low, self.high) else None


def starts(value: int, low: int, high: int | None) -> bool:
    """Say whether the digits of `value`, with more digits after them or none, are a number between low and high."""
    if value == 0 or high is None:
        return True
    least = most = value
    while least <= high:
        if most >= low:
            return True
        least, most = least * 10, most * 10 + 9
    return False


@cached(1 << 16)
def digits(low: int, high: int | None, value: int | None, spelling: NumberSpelling, gap: bool) -> Digits:
    return Digits(low, high, value, spelling, gap)


@cached(1 << 12)
def canonical_digits(low: int, high: int | None, text: str) -> CanonicalDigits:
    return CanonicalDigits(low, high, text)


class ExponentStart(Interned):
    """What follows "e": an exponent inside an interval, of which some spelling fits."""

    __slots__ = ("interval", "spelling")

    def __init__(self, interval: Interval, spelling: NumberSpelling) -> None:
        self.interval, self.spelling = interval, spelling
        self._edges, self.accepts = None, False

    def targets(self) -> Iterable[Target]:
        plus, minus = _signed(self.interval, self.spelling)
        yield char("+", plus)
        yield char("-", minus)
        if plus is not None and not self.spelling.canonical:
            yield from plus.targets()


def exponent(interval: Interval, spelling: NumberSpelling) -> ExponentStart | None:
    """Return the state after "e", None if no spelling fits the interval, which is not empty."""
    quick: ExponentStart | None = None
    if quick_start is not None and not spelling.canonical:
        quick = quick_start(interval, spelling)
    return quick or _plain_start(interval, spelling)


@cached(1 << 12)
def _plain_start(interval: Interval, spelling: NumberSpelling) -> ExponentStart | None:
    if spelling.canonical and _signed(interval, spelling) == (None, None):
        return None
    return ExponentStart(interval, spelling)


def _signed(interval: Interval, spelling: NumberSpelling) -> tuple[Interned | None, Interned | None]:
    """Return what follows a plus sign and what a minus sign."""
    least, most = interval
    first_plus, first_minus = (LEAST_PLUS, LEAST_MINUS) if spelling.canonical else (0, 0)
    plus = minus = None
    if most is None or most >= first_plus:
        plus = _digits(max(first_plus, least or 0), most, spelling)
    if least is None or -least >= first_minus:
        minus = _digits(max(first_minus, 0 if most is None else -most), None if least is None else -least, spelling)
    return plus, minus


def _digits(low: int, high: int | None, spelling: NumberSpelling) -> Interned:
    if spelling.canonical:
        return canonical_digits(low, high, "")
    quick: Interned | None = None if quick_digits is None else quick_digits(low, high, spelling)
    return quick or digits(low, high, None, spelling, False)
