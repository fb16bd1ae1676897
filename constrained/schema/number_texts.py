"""Number texts as a `Language`, exact by value: in every spelling of a surface, or in its canonical one.

A state knows what the digits so far mean to the set of numbers (`Magnitudes`): the comparison with each bound, the
position of the point, trailing zeros and the mantissa modulo the divisors; whatever a set does not ask about is left
out of the state, so that a number without bounds needs ten states and 0 … 10^18 some dozens.  After "e" the condition
is an interval of integers.

    Start ─ "-" ─► Start ─ 1-9 ─► WHOLE ─ "." ─► POINT ─ digit ─► FRACTION ─ "e" ─► ExponentStart ─ sign ─► Digits
                     └── "0" ─► ZERO ──┘

Spellings: "1.0", "100e-2" and "1" are one number, so `integer` allows all three unless the spelling is canonical.  -0
is 0.  Left out for Python: "+1", hexadecimal, octal and binary literals, leading zeros ("01.5"), complex numbers,
parentheses.

A magnitude is ``0.d1 d2 d3 … × 10^point`` with d1 > 0; its digits come before its scale (an exponent may follow any
mantissa), so each condition is split into a part on the digits and a part on the scale:

- a bound: compare digits with the bound's digits; the outcome moves the smallest (largest) allowed scale by one;
- "a multiple of q": write q = odd · 2^two · 5^five with `odd` prime to 10 and the mantissa as m · 10^unit with m not
  divisible by 10. Then q divides exactly when odd divides m and unit >= max(two - v2(m), five - v5(m)): a lower limit
  on the scale, read off m mod `modulus`;
- "not a multiple of q": odd does not divide m, or that limit is missed: an upper limit.

So for given digits the allowed exponents are one interval, which keeps the number machines small.  Everything is exact
integers and fractions.

Refused: a table compiled per range up front (a bound of 300 digits, or multipleOf: 1000003, would cost before it is
used).  Tested in tests/test_numbers.py against `Fraction` over all short texts.  Source: ours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm
from typing import Any, NamedTuple, TypeAlias

from constrained.caches import cached
from constrained.machine import Language, LiteralSet
from constrained.schema.number_sets import BOUNDLESS, common, contains, decimal_text, whole_number
from constrained.schema.values import NumberRange
from constrained.work import spend_nearby

# ======================================================================================================================
# States, and the part of a number after its "e"
# ======================================================================================================================

MOST_STATES = 20_000  # some 20 MB; a random number that must not be a multiple of this nor that makes 10,000 a digit
Edge: TypeAlias = tuple[int, int, Language]
Target: TypeAlias = tuple[int, int, Language | None]  # None: these characters lead nowhere

ZERO, WHOLE, POINT, FRACTION = range(4)  # where a mantissa ends: behind its leading zero, another digit, the point, …
LEAST_PLUS, LEAST_MINUS = 16, 5  # repr() writes 9999999999999998.0, 1e+16 and 0.0001, 1e-05


class NumberSpelling(NamedTuple):
    """Which spellings of a number are allowed.

    A part of many keys, and that of a dataclass is a call of Python.
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


@cached(1 << 12)
def exponent(interval: Interval, spelling: NumberSpelling) -> ExponentStart | None:
    """Return the state after "e", None if no spelling fits the interval, which is not empty."""
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
    return canonical_digits(low, high, "") if spelling.canonical else digits(low, high, None, spelling, False)


# ======================================================================================================================
# The magnitudes of a range, asked from the digits that have been read so far
# ======================================================================================================================

BELOW, ABOVE = -1, -2  # outcomes of a comparison with a bound's digits; i >= 0: equal in the first i digits
Interval: TypeAlias = tuple[int | None, int | None]  # inclusive, None = unbounded


@dataclass(frozen=True, slots=True)
class Bound:
    """A positive bound, 0.digits × 10^point.  Invariant: digits neither starts nor ends with "0"."""

    value: Fraction
    open: bool
    digits: str
    point: int

    def compare(self, status: int, digit: int) -> int:
        """Return the status after one more digit; a status that cannot change any more is BELOW or ABOVE."""
        if status < 0:
            return status
        if status == len(self.digits):
            return ABOVE if digit else status
        own = int(self.digits[status])
        return BELOW if digit < own else ABOVE if digit > own else status + 1


def bound(value: Fraction, open_: bool) -> Bound:
    """Return a positive number, which must be a finite decimal, as a bound."""
    return Bound(value, open_, *decimal(value))


def decimal(value: Fraction) -> tuple[str, int]:
    """Return a positive finite decimal as digits that neither start nor end with "0", and a point: 0.digits × 10^point.

    >>> decimal(Fraction("120")), decimal(Fraction("0.05"))
    (('12', 3), ('5', -1))
    """
    shift = 0
    if value.denominator > 1:
        twos, fives, _ = _split(Fraction(value.denominator))
        shift = max(twos, fives)
    digits = decimal_text(value.numerator * 10**shift // value.denominator)
    return digits.rstrip("0"), len(digits) - shift


def _split(value: Fraction) -> tuple[int, int, int]:
    """Return (two, five, odd): value = 2^two · 5^five · odd / (a number prime to 10)."""
    exponents, rest = [], [value.numerator, value.denominator]
    spend_nearby((value.numerator.bit_length() + value.denominator.bit_length()) ** 2 >> 20)
    for prime in (2, 5):
        count = 0
        for side, sign in ((0, 1), (1, -1)):
            while rest[side] % prime == 0:
                rest[side] //= prime
                count += sign
        exponents.append(count)
    return exponents[0], exponents[1], rest[0]


@dataclass(frozen=True, slots=True)
class Divisor:
    """A step q and what its multiples ask of a mantissa; see the head of the module."""

    step: Fraction
    two: int
    five: int
    odd: int

    @property
    def modulus(self) -> int:
        """The number M such that m mod M decides `unit`, for all m not divisible by 10."""
        twos, fives = max(0, self.two - self.five), max(0, self.five - self.two)
        return self.odd * (1 << twos) * int(5**fives)

    def unit(self, mantissa: int) -> int | None:
        """Return the least k such that mantissa · 10^k is a multiple, None if there is none; mantissa may be reduced by
        `modulus`.
        """
        if mantissa % self.odd:
            return None
        twos = _valuation(mantissa, 2, self.two - self.five)
        fives = _valuation(mantissa, 5, self.five - self.two)
        return max(self.two - twos, self.five - fives)


def _valuation(number: int, prime: int, most: int) -> int:
    count = 0
    while count < most and number % prime == 0:
        number //= prime
        count += 1
    return count


def _divisor(step: Fraction) -> Divisor:
    return Divisor(step, *_split(step))


UNIT = _divisor(Fraction(1))  # of whole numbers


class Magnitudes:
    """The absolute values of the numbers of one sign in a `NumberRange`, without some; zero counts with both signs.

    Invariant: `zero` or some positive magnitude belongs to the set (see `magnitudes`).
    """

    __slots__ = (
        "endless", "high", "holes", "left_out", "low", "modulus", "positive", "step", "whole_modulus", "zero"
    )  # fmt: skip

    def __init__(self, numbers: NumberRange, left_out: frozenset[Fraction], *, negative: bool) -> None:
        self.left_out = left_out  # absolute values
        low, low_open, high, high_open = numbers.low, numbers.low_open, numbers.high, numbers.high_open
        if negative:
            low, high = (None if high is None else -high), (None if low is None else -low)
            low_open, high_open = high_open, low_open
        self._divide(numbers)
        # Signs are read off numerators, as to compare fractions takes 1 µs each time
        self.low = bound(low, low_open) if low is not None and low.numerator > 0 else None
        self.high = bound(high, high_open) if high is not None and high.numerator > 0 else None
        inside = (low is None or low.numerator < (not low_open)) and (
            high is None or high.numerator > -(not high_open)
        )
        self.zero = inside and not self.holes and not (left_out and Fraction(0) in left_out)
        reaches = high is None or high.numerator > 0
        self.endless = reaches and self.high is None and (self.step is None or self._outside_holes(self.step.step))
        self.positive = self.endless or (reaches and self.high is not None and self._is_positive(self.high))

    def _divide(self, numbers: NumberRange) -> None:
        """Note what members are multiples of, and what they are not multiples of."""
        steps, holes = numbers.multiples, numbers.not_multiples
        self.holes: tuple[Divisor, ...] = ()
        if not (steps or holes or numbers.integer is False):
            self.step = UNIT if numbers.integer else None
            self.modulus = self.whole_modulus = 1
            return
        if numbers.integer is True:
            steps += (Fraction(1),)
        elif numbers.integer is False:
            holes += (Fraction(1),)
        step = common(steps)
        self.step = None if step is None else UNIT if step == 1 else _divisor(step)
        self.holes = tuple(_divisor(hole) for hole in holes)
        self.modulus = lcm(*(d.modulus for d in self.holes), self.step.modulus if self.step else 1)
        self.whole_modulus = lcm(*(d.step.numerator for d in self.holes), self.step.step.numerator if self.step else 1)

    def _is_positive(self, high: Bound) -> bool:
        """Say whether some positive number up to the upper bound belongs to the set."""
        if self.low is None and self.step is None and not (self.holes or self.left_out):
            return True
        return self.meets(Fraction(0), high.value, left_open=True, right_open=False)

    def _outside_holes(self, value: Fraction) -> bool:
        return all((value / hole.step).denominator != 1 for hole in self.holes)

    def _admits(self, value: Fraction) -> bool:
        return self._outside_holes(value) and value not in self.left_out

    def holds_whole(self, low: int, high: int, point: int, residue: int) -> bool:
        """Say whether an integer of `point` digits belongs to the set; residue: the integer modulo `whole_modulus`."""
        if self.step is not None and residue % self.step.step.numerator:
            return False
        if any(residue % hole.step.numerator == 0 for hole in self.holes):
            return False
        above = self.low is None or self.low.point + (not self.reaches_low(low)) <= point
        return above and (self.high is None or point <= self.high.point - (not self.keeps_high(high)))

    # -- the scale of a finished mantissa ------------------------------------------------------------------------------

    def exponents(self, low: int, high: int, point: int, unit: int, residue: int) -> Interval | None:
        """Return the e for which the mantissa times 10^e belongs to the set, None if there is none.

        low, high: outcomes of the comparisons; the mantissa is 0.digits × 10^point = m × 10^unit, residue = m mod
        `modulus`.
        """
        least: int | None = None
        most: int | None = None
        if self.low is not None:
            least = self.low.point - point + (not self.reaches_low(low))
        if self.high is not None:
            most = self.high.point - point - (not self.keeps_high(high))
        if self.step is not None:
            needed = 0 if self.step is UNIT else self.step.unit(residue)
            if needed is None:
                return None
            least = needed - unit if least is None else max(least, needed - unit)
        for hole in self.holes:
            needed = hole.unit(residue)
            if needed is not None:
                most = needed - unit - 1 if most is None else min(most, needed - unit - 1)
        return None if least is not None and most is not None and least > most else (least, most)

    def reaches_low(self, status: int) -> bool:
        """Say whether the digits, at the scale of the lower bound, satisfy it."""
        assert self.low is not None
        return status == ABOVE or (status == len(self.low.digits) and not self.low.open)

    def keeps_high(self, status: int) -> bool:
        assert self.high is not None
        return status != ABOVE and not (status == len(self.high.digits) and self.high.open)

    # -- which continuations exist -------------------------------------------------------------------------------------

    def continues(self, digits: str, least: int | None, most: int | None, *, left_open: bool = False) -> bool:
        """Say whether some member is 0.digits… × 10^point for a point in least..most.

        left_open: more digits than those, the last of them > 0.
        Cost: linear in the number of points between the bounds, usually one try.
        """
        if self.high is None:
            if most is None:
                return self.endless
        else:
            most = self.high.point if most is None else min(most, self.high.point)
        floor = self._least_point()
        if floor is None:
            if least is None:
                return True
        else:
            least = floor if least is None else max(least, floor)
        assert most is not None
        assert least is not None
        prefix, length = whole_number(digits), len(digits)
        for point in range(most, least - 1, -1):
            spend_nearby(4 + (abs(point) >> 7))
            scale = Fraction(10) ** (point - length)
            if self.meets(prefix * scale, (prefix + 1) * scale, left_open=left_open, right_open=True):
                return True
        return False

    def _least_point(self) -> int | None:
        """Return a point below which no member lies, None if members come arbitrarily near to zero."""
        points = [] if self.low is None else [self.low.point]
        if self.step is not None:
            points.append(_least_point(self.step.step))
        return max(points) if points else None

    def meets(self, left: Fraction, right: Fraction, *, left_open: bool, right_open: bool) -> bool:
        """Say whether some positive member lies between left and right."""
        if self.low is not None and self.low.value >= left:
            left_open = self.low.open or (left_open and self.low.value == left)
            left = self.low.value
        if self.high is not None and self.high.value <= right:
            right_open = self.high.open or (right_open and self.high.value == right)
            right = self.high.value
        if left > right or (left == right and (left_open or right_open)):
            return False
        if self.step is None:
            return left < right or self._admits(left)
        step = self.step.step
        if not self._outside_holes(step):
            return False  # every multiple of the step lies in a hole
        at = -(-left // step)
        if at * step == left and (left_open or at == 0):
            at += 1
        # The number 1 + k·lcm is outside every hole, and gaps between such numbers are short (Jacobsthal's
        # function)
        while (value := at * step) < right or (value == right and not right_open):
            spend_nearby(2 + 2 * len(self.holes))
            if self._admits(value):
                return True
            at += 1
        return False


def _least_point(value: Fraction) -> int:
    """Return the point of a positive number, or one less."""
    return len(decimal_text(value.numerator)) - len(decimal_text(value.denominator))


def magnitudes(
    numbers: NumberRange, left_out: frozenset[Fraction] = frozenset(), *, negative: bool
) -> Magnitudes | None:
    """Return the magnitudes of one sign without some numbers, None if there is none left."""
    left = Magnitudes(
        numbers, frozenset(abs(value) for value in left_out if not value or (value < 0) == negative), negative=negative
    )
    return left if left.zero or left.positive else None


# ======================================================================================================================
# Finitely many magnitudes (members of an enum, values to leave out), asked from the digits that have been read.
# They are grouped by their digits without zeros at either end, sorted as texts.  Those that can still come are a slice
# of that list, since a text with zeros appended keeps its place in the order: 10,000 numbers cost a few searches each.
# ======================================================================================================================

_MANY = 32  # of a slice, from which on each digit is tried


class Points:
    """Some magnitudes of one sign; `zero` counts with both."""

    __slots__ = ("digits", "places", "zero")

    def __init__(self, values: Collection[Fraction]) -> None:
        """values: all >= 0, each once."""
        spend_nearby(3 * len(values))
        self.zero = not all(values)
        places: dict[str, list[int]] = {}
        for value in values:
            if value:
                digits, point = decimal(value)
                places.setdefault(digits, []).append(point)
        self.digits = sorted(places)
        self.places = [tuple(sorted(places[digits])) for digits in self.digits]  # value = 0.digits × 10^place

    def slice(self, prefix: str) -> tuple[int, int]:
        """Return the magnitudes whose digits, with zeros behind them, start with `prefix`; its first digit is > 0.

        >>> points = Points([*map(Fraction, (1, 10, 101, 11))])
        >>> points.digits, points.slice("10"), points.slice("11")
        (['1', '101', '11'], (0, 2), (2, 3))
        """
        return bisect_left(self.digits, prefix.rstrip("0")), bisect_left(
            self.digits, prefix[:-1] + chr(ord(prefix[-1]) + 1)
        )

    def following(self, prefix: str, start: int, end: int) -> Iterable[int]:
        """Return the digits that one of a slice, with zeros behind it, has behind the prefix of the slice."""
        if end - start > _MANY:
            return range(10)
        at = len(prefix)
        return sorted({int(digits[at]) if at < len(digits) else 0 for digits in self.digits[start:end]})

    def exponents(self, prefix: str, start: int, point: int) -> tuple[int, ...]:
        """Return the e for which 0.prefix × 10^(point + e) is one of the magnitudes; `start` is where the slice of the
        prefix starts.
        """
        if start < len(self.digits) and self.digits[start] == prefix.rstrip("0"):
            return tuple([place - point for place in self.places[start]])
        return ()


def outside(interval: Interval, holes: Iterable[int]) -> tuple[Interval, ...]:
    """Return an interval of integers without some of them.

    >>> outside((None, 3), (3, 0))
    ((None, -1), (1, 2))
    """
    intervals: list[Interval] = []
    low, high = interval
    for hole in sorted(holes):
        if (low is not None and hole < low) or (high is not None and hole > high):
            continue
        if low is None or low < hole:
            intervals.append((low, hole - 1))
        low = hole + 1
    if high is None or low is None or low <= high:
        intervals.append((low, high))
    return tuple(intervals)


# ======================================================================================================================
# What each of several states that read one text still allows
# ======================================================================================================================


class Both(Interned):
    """The union of several number languages: what each of them still allows.  Invariant: two members or more,
    interned.
    """

    __slots__ = ("members", "goes_on", "_table")

    def __init__(self, members: tuple[Language, ...], table: dict[frozenset[Language], Both]) -> None:
        self.members, self._table = members, table
        self._edges, self.accepts = None, any(member.accepts for member in members)
        self.goes_on = any(getattr(member, "goes_on", False) for member in members)

    def targets(self) -> Iterable[Target]:
        by_point: dict[int, dict[Language, None]] = {}
        spend_nearby(4 * len(self.members))
        for member in self.members:
            for low, high, target in member.edges():
                for point in range(low, high + 1):
                    by_point.setdefault(point, {})[target] = None
        for point in sorted(by_point):
            yield point, point, union(tuple(by_point[point]), self._table)


def forget(states: dict[Any, Any]) -> None:
    """Empty a table of states; without their edges they hold nothing but themselves."""
    for state in states.values():
        if state is not None:
            state._edges = None
    states.clear()


def union(members: tuple[Language, ...], table: dict[frozenset[Language], Both]) -> Language:
    if len(members) == 1:
        return members[0]
    key = frozenset(members)
    both = table.get(key)
    if both is None:
        spend_nearby(4 + 4 * len(members))
        if len(table) >= MOST_STATES:
            forget(table)
        both = table[key] = Both(members, table)
    return both


# ======================================================================================================================
# What the digits so far mean to a set of numbers
# ======================================================================================================================

_EACH = [(digit, digit) for digit in range(10)]
_ALL = (0, 0)  # the span before the first digit > 0, and where there are no points


class MantissaKey(NamedTuple):
    """What has been read of a mantissa, as far as any set can ask; readings with equal reduced keys have equal
    continuations.
    """

    phase: int
    started: bool  # a digit > 0 has been read
    low: int  # comparison with the lower bound, see `Bound.compare`
    high: int
    point: int  # the number so far is 0.digits × 10^point; before the first digit > 0, minus the zeros after the point
    zeros: int  # trailing zeros since the last digit > 0
    fraction: int  # digits after the point
    residue: int  # mantissa without trailing zeros (plain integers: with them), modulo `Magnitudes.modulus`
    gap: bool  # the last character was an underscore
    span: tuple[int, int]  # which of the reader's points can still come, see `Points.slice`
    depth: int  # digits that the points have been compared with


Reading: TypeAlias = "Mantissa | None"  # None: no number starts so


class MantissaStates:
    """The states of one sign of one set in one spelling.

    plain: integers without fraction and exponent, so that only the value of the digits counts.
    points: numbers that the set leaves out, and `base` is the reader of the set with them; or, without a base, all
    there is (`language` is then the set of all numbers, and the spelling is not canonical).
    """

    __slots__ = (
        "_bounded", "_divided", "_furthest", "_nearest", "_states", "base", "negative", "numbers", "plain",
        "points", "spelling", "unsigned",
    )  # fmt: skip

    def __init__(
        self,
        numbers: Magnitudes,
        spelling: NumberSpelling,
        *,
        plain: bool,
        negative: bool,
        points: Points | None = None,
        base: MantissaStates | None = None,
    ) -> None:
        self.numbers, self.spelling, self.plain, self.negative = numbers, spelling, plain, negative
        self.points, self.base = points, base
        self._states: dict[MantissaKey, Mantissa | None] = {}
        self.unsigned: Language | None = None  # what follows a minus, where these are the negative numbers
        self._bounded = numbers.low is not None or numbers.high is not None or points is not None
        self._divided = numbers.step is not None or bool(numbers.holes)
        # Canonical exponents follow one digit only, so that without an upper bound all positions past the lower one are
        # alike.
        past_low = max(2, numbers.low.point + 1) if numbers.low else 2
        saturates = spelling.canonical and points is None
        self._furthest = past_low if saturates and numbers.high is None else None
        below_high = saturates and numbers.low is None and numbers.high is not None
        # from here on, below the upper bound
        self._nearest = min(0, numbers.high.point - 1) if below_high and numbers.high else None

    def state(self, key: MantissaKey, digits: str) -> Reading:
        """Return the state of a reading, None if it is dead; `digits` are those from the first one > 0."""
        reduced = self._reduced(key)
        if reduced in self._states:
            return self._states[reduced]
        spend_nearby(12 + len(digits) // 16 + len(self.numbers.holes) // 2)
        if len(self._states) >= MOST_STATES:
            forget(self._states)
        state = Mantissa(self, key, digits)
        reading = self._states[reduced] = state if state.live() else None
        return reading

    def _reduced(self, key: MantissaKey) -> MantissaKey:
        """Return the key without what makes no difference to this set."""
        canonical = self.spelling.canonical
        phase, started, low, high, point, zeros, fraction, residue, gap, span, depth = key
        if self.numbers.low is not None and low >= 0 and self.numbers.reaches_low(low):
            low = ABOVE
        if self.numbers.high is not None and not self.numbers.keeps_high(high):
            high = ABOVE
        if self._furthest is not None:
            point = min(point, self._furthest)
            low = ABOVE if point == self._furthest else low
        if self._nearest is not None and point <= self._nearest:
            point, high = self._nearest, BELOW
        if not self._bounded:
            point = 0 if not canonical or self.plain else max(point, 0)
            low = high = 0
        if self.plain:
            zeros = fraction = 0
        elif not self._divided:
            residue = 0
            zeros, fraction = (min(zeros, 1), min(fraction, 2)) if canonical else (0, 0)
        return MantissaKey(phase, started, low, high, point, zeros, fraction, residue, gap, span, depth)

    def first(self, digit: int) -> Reading:
        """Return the state after the first digit before the point."""
        if digit == 0:
            return self.state(MantissaKey(ZERO, False, 0, 0, 0, 0, 0, 0, False, _ALL, 0), "")
        return self.significant(MantissaKey(WHOLE, False, 0, 0, 0, 0, 0, 0, False, _ALL, 0), "", digit)

    def bare_point(self) -> Reading:
        return self.state(MantissaKey(POINT, False, 0, 0, 0, 0, 0, 0, True, _ALL, 0), "")

    def significant(self, key: MantissaKey, digits: str, digit: int) -> Reading:
        """Return the state after one more digit that is not a leading zero, behind the point unless the phase is
        WHOLE.
        """
        if not self.numbers.positive:
            return None
        numbers = self.numbers
        phase, _, _, _, point, zeros, fraction, residue, _, span, depth = key
        if self.plain:
            residue = (residue * 10 + digit) % numbers.whole_modulus
        elif digit:
            if numbers.modulus > 1:
                residue = (residue * pow(10, zeros + 1, numbers.modulus) + digit) % numbers.modulus
            zeros = 0
        else:
            zeros += 1
        low, high = self.compared(key, digit)
        if phase == WHOLE:
            point += 1
        else:
            phase, fraction = FRACTION, fraction + 1
        key = MantissaKey(phase, True, low, high, point, zeros, fraction, residue, False, span, depth)
        return self._among_points(key, digits + str(digit))

    def alike(self, *statuses: int) -> Iterable[tuple[int, int]]:
        """Return ranges of digits that lead to one state behind comparisons with the bounds: no remainder tells the
        digits between the bounds' own ones apart.
        """
        numbers = self.numbers
        if self.points is not None or numbers.modulus > 1 or numbers.whole_modulus > 1:
            return _EACH
        firsts = {0, 1}
        for bound, status in zip((numbers.low, numbers.high), statuses):
            if bound is not None and 0 <= status < len(bound.digits):
                own = int(bound.digits[status])
                firsts.update((own, own + 1))
        ordered = sorted(firsts)
        return [(low, high - 1) for low, high in zip(ordered, [*ordered[1:], 10]) if low < 10]

    def compared(self, key: MantissaKey, digit: int) -> tuple[int, int]:
        """Return the comparisons with both bounds after one more digit."""
        low, high = self.numbers.low, self.numbers.high
        return low.compare(key.low, digit) if low else 0, high.compare(key.high, digit) if high else 0

    def _among_points(self, key: MantissaKey, digits: str) -> Reading:
        """Return the state of a reading whose last digit the points have not been compared with."""
        if self.points is None:
            return self.state(key, digits)
        start, end = self.points.slice(digits)
        if start == end:
            return None if self.base is None else self.base.state(key._replace(span=_ALL, depth=0), digits)
        depth = min(len(digits), len(self.points.digits[start])) if end == start + 1 else len(digits)
        return self.state(key._replace(span=(start, end), depth=depth), digits)


class Mantissa(Interned):
    """A state before any exponent; `key` and `digits` (from the first one > 0) are those of one reading that leads
    here.

    goes_on: some text goes on here, and if it is this one, then another has a fraction or an exponent of zero more.
    """

    __slots__ = ("reader", "key", "digits", "goes_on", "_scaled")

    def __init__(self, reader: MantissaStates, key: MantissaKey, digits: str) -> None:
        self.reader, self.key, self.digits = reader, key, digits
        self._edges = None
        self._scaled: tuple[Interval, ...] | None = None
        self.goes_on = not reader.plain and not reader.spelling.canonical
        self.accepts = self._complete()

    def targets(self) -> Iterable[Target]:
        phase, gap, spelling = self.key.phase, self.key.gap, self.reader.spelling
        if phase in (ZERO, WHOLE) and not gap and not self.reader.plain:
            yield char(".", self.reader.state(self.key._replace(phase=POINT), self.digits))
        if phase != ZERO:
            for low, high in self._digits():
                yield 48 + low, 48 + high, self._after(low)
        after_e = self._exponent()
        if not spelling.canonical:
            yield char("E", after_e)
        if spelling.underscores and phase in (WHOLE, FRACTION) and not gap:
            yield char("_", self.reader.state(self.key._replace(gap=True), self.digits))
        yield char("e", after_e)

    def _digits(self) -> Iterable[tuple[int, int]]:
        """Return ranges of digits, each of which leads to one state; other digits lead nowhere."""
        points = self.reader.points
        if points is None or self.reader.base is not None or not self.digits:
            return self.reader.alike(self.key.low, self.key.high)
        return [(digit, digit) for digit in points.following(self.digits, *self.key.span)]

    def _after(self, digit: int) -> Reading:
        key, reader = self.key, self.reader
        if key.phase == WHOLE or self.digits or digit:
            return reader.significant(key, self.digits, digit)
        key = key._replace(phase=FRACTION, fraction=key.fraction + 1, point=key.point - 1, gap=False)
        return reader.state(key, "")

    # -- what may end here ---------------------------------------------------------------------------------------------

    def _scales(self) -> tuple[Interval, ...]:
        """Return the exponents under which the digits so far are a member, as disjoint intervals."""
        scales = self._scaled
        if scales is None:  # asked for up to three times
            scales = self._scaled = self._scales_anew()
        return scales

    def _scales_anew(self) -> tuple[Interval, ...]:
        numbers, key, points = self.reader.numbers, self.key, self.reader.points
        if not self.digits:
            zero = numbers.zero if points is None or self.reader.base is not None else points.zero
            return ((None, None),) if zero else ()
        those = () if points is None else points.exponents(self.digits, key.span[0], key.point)
        if points is not None and self.reader.base is None:
            return tuple([(exponent, exponent) for exponent in those])
        interval = numbers.exponents(key.low, key.high, key.point, key.zeros - key.fraction, key.residue)
        return () if interval is None else outside(interval, those) if those else (interval,)

    def _complete(self) -> bool:
        key, spelling = self.key, self.reader.spelling
        if key.gap or (key.phase == POINT and not spelling.bare_point):
            return False
        if spelling.canonical and (
                key.phase == FRACTION and key.fraction > 1 and (key.zeros or not key.started)
                or key.phase == ZERO and self.reader.negative):
            return False
        if self.reader.plain and key.started:
            points = self.reader.points
            return self.reader.numbers.holds_whole(key.low, key.high, key.point, key.residue) and (
                points is None or 0 not in points.exponents(self.digits, key.span[0], key.point))
        return any((low or 0) <= 0 <= (high or 0) for low, high in self._scales())

    def _exponent(self) -> Language | None:
        key, spelling = self.key, self.reader.spelling
        if key.gap or self.reader.plain or (key.phase == POINT and not spelling.bare_point):
            return None
        if spelling.canonical and not (key.point == 1 and self.digits and not (key.phase == FRACTION and key.zeros)):
            return None
        starts = [start for interval in self._scales() if (start := exponent(interval, spelling)) is not None]
        return union(tuple(starts), {}) if starts else None

    # -- liveness ------------------------------------------------------------------------------------------------------

    def live(self) -> bool:
        """Say whether some text of the language starts with what led here.

        Any mantissa may take any exponent, except in canonical spelling, where only one digit before the point goes
        with some.
        """
        if self.accepts:
            return True
        numbers, canonical = self.reader.numbers, self.reader.spelling.canonical
        if not self.digits:
            return self._live_zero()
        if not canonical:
            listed = self.reader.points is not None and self.reader.base is None  # then one of the span can come
            return listed or bool(self._scales()) or numbers.continues(self.digits, None, None)
        if self.reader.plain:
            return numbers.continues(self.digits, len(self.digits), None)
        return self._live_canonical()

    def _live_zero(self) -> bool:
        numbers, key, points = self.reader.numbers, self.key, self.reader.points
        if points is not None and self.reader.base is None:
            return True  # some point can come with any number of zeros before it
        if not self.reader.spelling.canonical:
            return numbers.zero or numbers.positive
        if self.reader.plain:
            return False
        if key.phase in (ZERO, POINT) and numbers.zero:
            return True  # "0.0"
        return numbers.positive and numbers.meets(
            Fraction(0), Fraction(10) ** key.point, left_open=True, right_open=True
        )

    def _live_canonical(self) -> bool:
        numbers, key, digits = self.reader.numbers, self.key, self.digits
        more = key.phase == FRACTION and key.zeros > 0  # must go on: repr() writes no trailing zeros
        if key.phase == WHOLE and numbers.continues(digits, key.point, None):
            return True
        if key.phase != WHOLE and numbers.continues(digits, key.point, key.point, left_open=more):
            return True
        more = more or key.phase == POINT
        return key.point == 1 and (
            numbers.continues(digits, LEAST_PLUS + 1, None, left_open=more)
            or numbers.continues(digits, None, 1 - LEAST_MINUS, left_open=more))


# ======================================================================================================================
# The texts of a set of numbers
# ======================================================================================================================

JSON_NUMBERS = NumberSpelling()
CANONICAL_NUMBERS = NumberSpelling(canonical=True)
PYTHON_NUMBERS = NumberSpelling(bare_point=True, underscores=True)


class Start(Interned):
    """The start of a number, or what follows its "-"."""

    __slots__ = ("positive", "negative")

    def __init__(self, positive: MantissaStates | None, negative: MantissaStates | None) -> None:
        self.positive, self.negative = positive, negative
        self._edges, self.accepts = None, False

    def targets(self) -> Iterable[Target]:
        if self.negative is not None:
            minus = self.negative.unsigned
            if minus is None:
                minus = self.negative.unsigned = Start(self.negative, None)
            yield char("-", minus if minus.edges() else None)
        if self.positive is not None:
            if self.positive.spelling.bare_point:
                yield char(".", self.positive.bare_point())
            for low, high in self.positive.alike(0, 0):
                yield 48 + low, 48 + high, self.positive.first(low)


class NumberTexts(Interned):
    """The start of the texts of some numbers; printers ask it what it stands for."""

    __slots__ = ("_start", "ranges", "spelling")

    def __init__(self, ranges: tuple[NumberRange, ...], spelling: NumberSpelling, start: Language) -> None:
        self.ranges, self.spelling, self._start = ranges, spelling, start
        self._edges, self.accepts = None, False

    def edges(self) -> tuple[Edge, ...]:
        return tuple(self._start.edges())


@cached(1 << 12)
def number_language(
    ranges: tuple[NumberRange, ...], spelling: NumberSpelling, without: frozenset[Fraction] = frozenset()
) -> Language:
    """Return the texts of the numbers that lie in one of the ranges and are not in `without`.

    Invariant: there are such numbers.

    >>> start = number_language((NumberRange(integer=True, low=Fraction(1), high=Fraction(12)),), CANONICAL_NUMBERS)
    >>> after = start.edges()[0][2]
    >>> [(chr(low), chr(high)) for low, high, _ in start.edges()], [chr(low) for low, _, _ in after.edges()]
    ([('1', '1'), ('2', '9')], ['0', '2'])
    """
    make = _boundless if ranges in BOUNDLESS and not without else _language
    return make(ranges, spelling, without)


def _language(ranges: tuple[NumberRange, ...], spelling: NumberSpelling, without: frozenset[Fraction]) -> Language:
    spend_nearby(4 * len(ranges))
    starts: dict[Language, None] = {}
    constants = [numbers for numbers in ranges if numbers.low is not None and numbers.low == numbers.high]
    for written in (spelling, CANONICAL_NUMBERS):
        values = [one.low for one in constants if one.plain is (written is not spelling) and one.low is not None]
        if listed := frozenset(values) - without:
            starts[_listed(listed, written)] = None
    for numbers in ranges:
        if numbers.low is None or numbers.low != numbers.high:
            start = _ranged(numbers, spelling, frozenset(value for value in without if contains(numbers, value)))
            if start.edges():
                starts[start] = None
    joined = union(tuple(starts), {})
    return joined if isinstance(joined, LiteralSet) else NumberTexts(ranges, spelling, joined)


_boundless = cache(_language)  # tables that no input changes; vocabularies know their masks by identity


@cached(1 << 12)
def _reader(
    numbers: NumberRange, spelling: NumberSpelling, without: frozenset[Fraction], *, negative: bool
) -> MantissaStates | None:
    side = magnitudes(numbers, without, negative=negative)
    if side is None:
        return None
    plain = numbers.plain or spelling.canonical and numbers.integer is True
    if not side.left_out - {0}:
        return MantissaStates(side, spelling, plain=plain, negative=negative)
    base = _reader(numbers, spelling, frozenset(), negative=negative)
    return MantissaStates(side, spelling, plain=plain, negative=negative, points=Points(side.left_out), base=base)


_NOTHING_LESS = {whole: NumberRange(whole, Fraction(0), False, Fraction(0)) for whole in (True, None)}


def _ranged(numbers: NumberRange, spelling: NumberSpelling, without: frozenset[Fraction]) -> Start:
    positive, least, below = _reader(numbers, spelling, without, negative=False), numbers.low, numbers
    if least is not None and not (
        least.numerator or numbers.low_open or numbers.not_multiples or numbers.plain or without
    ):
        below = _NOTHING_LESS.get(numbers.integer, numbers)  # behind a minus, one reader for all numbers from 0 on
    return Start(positive, _reader(below, spelling, without, negative=True))


def _listed(values: frozenset[Fraction], spelling: NumberSpelling) -> Language:
    """Return the texts of some numbers: in canonical spelling one each, a whole number without a point."""
    if spelling.canonical:
        return LiteralSet(tuple(sorted(map(canonical_text, values))))
    everything = Magnitudes(NumberRange(), frozenset(), negative=False)
    sides = [value for value in values if value.numerator >= 0], [-value for value in values if value.numerator <= 0]
    return Start(*[
        MantissaStates(everything, spelling, plain=False, negative=bool(sign), points=Points(side)) if side else None
        for sign, side in enumerate(sides)
    ])


def canonical_text(value: Fraction) -> str:
    """Return how json.dumps writes a number, were its floats unlimited.

    >>> [canonical_text(Fraction(text)) for text in ("120", "-0.5", "1e-7", "123456789012345678.5")]
    ['120', '-0.5', '1e-07', '1.234567890123456785e+17']
    """
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    digits, point = decimal(abs(value))
    if -LEAST_MINUS < point - 1 < LEAST_PLUS:
        digits = "0" * (1 - point) + digits
        point = max(point, 1)
        return f"{sign}{digits[:point]}.{digits[point:]}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"
