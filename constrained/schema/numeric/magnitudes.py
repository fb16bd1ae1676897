"""The magnitudes of a number range, asked from the digits that have been read so far.

A magnitude is ``0.d1 d2 d3 … × 10^point`` with d1 > 0; its digits come before its scale (an exponent may follow any
mantissa), so each condition is split into a part on the digits and a part on the scale:

- a bound: compare digits with the bound's digits; the outcome moves the smallest (largest) allowed scale by one;
- "a multiple of q": write q = odd · 2^two · 5^five with `odd` prime to 10 and the mantissa as m · 10^unit with m not
  divisible by 10. Then q divides exactly when odd divides m and unit >= max(two - v2(m), five - v5(m)): a lower limit
  on the scale, read off m mod `modulus`;
- "not a multiple of q": odd does not divide m, or that limit is missed: an upper limit.

So for given digits the allowed exponents are one interval, which keeps the number machines small.  Everything is exact
integers and fractions.  Tested exhaustively against `Fraction` in tests/test_numbers.py.  Source: ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import TypeAlias

from constrained.schema.values import NumberRange
from constrained.work import spend_nearby

BELOW, ABOVE = -1, -2  # outcomes of a comparison with a bound's digits; i >= 0: equal in the first i digits
Interval: TypeAlias = tuple[int | None, int | None]  # inclusive, None = unbounded
_SHORT, _LARGE = 100, 10**100  # digits and numbers that integers are quick with


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

    def turns(self, status: int) -> tuple[int, ...]:
        """Return the digits > 1 from which on the outcome is another; 0 is told from 1 in any case."""
        if not 0 <= status < len(self.digits):
            return ()
        own = int(self.digits[status])
        return own, own + 1


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
    digits = _text(value.numerator * 10**shift // value.denominator)
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


def _common(steps: tuple[Fraction, ...]) -> Fraction | None:
    """Return the step of the numbers that are multiples of every step."""
    common: Fraction | None = None
    for step in steps:
        common = step if common is None else Fraction(
            lcm(common.numerator, step.numerator), gcd(common.denominator, step.denominator))
    return common


class Magnitudes:
    """The absolute values of the numbers of one sign in a `NumberRange`, without some; zero counts with both signs.

    Invariant: `zero` or some positive magnitude belongs to the set (see `magnitudes`).
    """

    __slots__ = (
        "_whole", "endless", "high", "holes", "left_out", "low", "modulus", "positive", "step", "whole_modulus", "zero"
    )  # fmt: skip

    def __init__(self, numbers: NumberRange, left_out: frozenset[Fraction], *, negative: bool) -> None:
        self.left_out = left_out  # absolute values
        low, low_open, high, high_open = numbers.low, numbers.low_open, numbers.high, numbers.high_open
        if negative:
            low, high = (None if high is None else -high), (None if low is None else -low)
            low_open, high_open = high_open, low_open
        self._divide(numbers)
        # PERF: signs are read off numerators, as to compare fractions takes 1 µs each time
        self.low = bound(low, low_open) if low is not None and low.numerator > 0 else None
        self.high = bound(high, high_open) if high is not None and high.numerator > 0 else None
        inside = (low is None or low.numerator < (not low_open)) and (
            high is None or high.numerator > -(not high_open)
        )
        self.zero = inside and not self.holes and not (left_out and Fraction(0) in left_out)
        reaches = high is None or high.numerator > 0
        # the first and the last member, where these are all whole numbers between two bounds
        self._whole: tuple[int, int] | None = None
        if self.step is UNIT and not (self.holes or left_out) and self.high is not None:
            self._whole = _whole_between(self.low, self.high)
        self.endless = reaches and self.high is None and (self.step is None or self._outside_holes(self.step.step))
        self.positive = self.endless or (reaches and self.high is not None and self._is_positive(self.high))

    def _divide(self, numbers: NumberRange) -> None:
        """Note what members are multiples of, and what they are not multiples of."""
        steps, holes = numbers.multiples, numbers.not_multiples
        self.holes: tuple[Divisor, ...] = ()
        if not (steps or holes or numbers.integer is False):  # PERF: as most
            self.step = UNIT if numbers.integer else None
            self.modulus = self.whole_modulus = 1
            return
        if numbers.integer is True:
            steps += (Fraction(1),)
        elif numbers.integer is False:
            holes += (Fraction(1),)
        step = _common(steps)
        self.step = None if step is None else UNIT if step == 1 else _divisor(step)
        self.holes = tuple(_divisor(hole) for hole in holes)
        self.modulus = lcm(*(d.modulus for d in self.holes), self.step.modulus if self.step else 1)
        self.whole_modulus = lcm(*(d.step.numerator for d in self.holes), self.step.step.numerator if self.step else 1)

    def _is_positive(self, high: Bound) -> bool:
        """Say whether some positive number up to the upper bound belongs to the set."""
        if self._whole is not None:
            return self._whole[0] <= self._whole[1]
        if self.low is None and self.step is None and not (self.holes or self.left_out):
            return True
        return self.meets(Fraction(0), high.value, left_open=True, right_open=False)

    def has_whole_bounds(self) -> bool:
        """Say whether both bounds are whole numbers that they hold themselves."""
        return not [one for one in (self.low, self.high) if one is not None and (one.open or one.value.denominator > 1)]

    def has_bounds_only(self) -> bool:
        """Say whether members are all numbers between the bounds, or all whole ones and the bounds are whole."""
        return not self.holes and (self.step is None or self.step is UNIT and self.has_whole_bounds())

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
        prefix, length = _integer(digits), len(digits)
        if self._whole is not None and not left_open and len(digits) < _SHORT:
            return self._begins_whole(prefix, length, least, most)
        for point in range(most, least - 1, -1):
            spend_nearby(4 + (abs(point) >> 7))
            scale = Fraction(10) ** (point - length)
            if self.meets(prefix * scale, (prefix + 1) * scale, left_open=left_open, right_open=True):
                return True
        return False

    def _begins_whole(self, prefix: int, length: int, least: int, most: int) -> bool:
        """As `continues`, of whole numbers between two bounds: by integers alone."""
        assert self._whole is not None
        spend_nearby(1 + (most - least) // 4)
        first, last = self._whole
        for point in range(most, least - 1, -1):
            if point >= length:
                scale = 10 ** (point - length)
                if prefix * scale <= last and (prefix + 1) * scale > first:
                    return True
            elif prefix % 10 ** (length - point) == 0 and first <= prefix // 10 ** (length - point) <= last:
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
        # PERF: the number 1 + k·lcm is outside every hole, and gaps between such numbers are short (Jacobsthal's
        # function)
        while (value := at * step) < right or (value == right and not right_open):
            spend_nearby(2 + 2 * len(self.holes))
            if self._admits(value):
                return True
            at += 1
        return False


def _integer(digits: str) -> int:
    """Return int(digits), also where Python refuses because there are more than 4,300."""
    value = 0
    for at in range(0, len(digits), 4000):
        part = digits[at : at + 4000]
        value = value * 10 ** len(part) + int(part)
    return value


def _text(value: int) -> str:
    """Return str(value) of a number >= 0, also where Python refuses because it has more than 4,300 digits."""
    spend_nearby(value.bit_length() >> 6)
    if value.bit_length() < 14_000:
        return str(value)
    half = value.bit_length() * 3 // 20  # about half of its digits
    high, low = divmod(value, 10**half)
    return _text(high) + _text(low).zfill(half)


def _whole_between(low: Bound | None, high: Bound) -> tuple[int, int] | None:
    """Return the first and the last positive whole number between two bounds; None where the upper one is large."""
    if high.value.numerator >= _LARGE * high.value.denominator:
        return None
    first = 1
    if low is not None:
        floor = low.value
        first = -(-floor.numerator // floor.denominator) + (low.open and floor.denominator == 1)
    top = high.value
    return first, top.numerator // top.denominator - (high.open and top.denominator == 1)


def _least_point(value: Fraction) -> int:
    """Return the point of a positive number, or one less."""
    return len(_text(value.numerator)) - len(_text(value.denominator))


def magnitudes(
    numbers: NumberRange, left_out: frozenset[Fraction] = frozenset(), *, negative: bool
) -> Magnitudes | None:
    """Return the magnitudes of one sign without some numbers, None if there is none left."""
    found = Magnitudes(
        numbers, frozenset(abs(value) for value in left_out if not value or (value < 0) == negative), negative=negative
    )
    return found if found.zero or found.positive else None
