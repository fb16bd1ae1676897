"""Sets of numbers as unions of `NumberRange`, closed under union, intersection and complement; keys of number texts.

All arithmetic is on exact fractions.  A number in a schema means its decimal text: the Python float 0.1 is 1/10 here,
as in the JSON that it came from.  Ranges are kept in a normal form (bounds of whole numbers are whole and closed, one
multiple at most, single numbers carry nothing else), so that sets of constants intersect as sets.

The key of a number text is equal for texts of equal numbers, however they are written.  Texts may be long: an array of
distinct numbers may hold ``1e999…9`` with 20,000 digits.  So the number is not computed: digits stay text, and the
exponent is a whole number, of as many digits as it has.

Tested in tests/test_numbers.py and test_unique_items.py, against exact arithmetic.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from math import ceil, floor, gcd, inf, lcm
from typing import TypeAlias

from constrained.caches import cached
from constrained.errors import LimitExceeded
from constrained.schema.values import NumberRange
from constrained.work import spend, spend_nearby

# ======================================================================================================================
# Keys of number texts
# ======================================================================================================================

# in Python's spelling too, which has every other surface's
NUMBERS = re.compile(r"-?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?")
MOST_DIGITS = 1_000  # of a number that is kept as a fraction; its exponent is bounded by the same

Key: TypeAlias = tuple[bool, str, int]  # (negative, digits without zeros at either end, exponent)

_FREE = 1_000  # characters of a text that cost nothing worth counting
_DIGITS = 4000  # that Python converts at once, to and from text; more it may refuse


def number_key(text: str) -> Key:
    """Return the key of a number's text, in any spelling.

    >>> number_key("-1.50e3") == number_key("-1500")
    True
    """
    if len(text) > _FREE:
        spend_nearby(len(text) >> 9)
    mantissa, _, exponent = text.lower().replace("_", "").partition("e")
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    bare = digits.rstrip("0")
    if not bare:
        return False, "", 0
    return text.startswith("-"), bare, whole_number(exponent) + len(digits) - len(bare) - len(fraction)


@cached(1024)
def number_value(text: str) -> object:
    """Return the value of a number: a Fraction, or its key where that would be too long to write down; which of both
    is a matter of the value, not of its spelling.
    """
    key = number_key(text)
    negative, digits, exponent = key
    if len(digits) > MOST_DIGITS or abs(exponent) > MOST_DIGITS:
        return key
    return Fraction(f"{'-' if negative else ''}{digits or 0}e{exponent}")


@cached(64)
def keys_in(word: str) -> frozenset[Key]:
    """Return the keys of all numbers in a word, also of those inside strings.

    >>> number_key("12.5") in keys_in('[1250e-2,"a"]')
    True
    """
    spend_nearby(1 + len(word) // 32)
    return frozenset(map(number_key, NUMBERS.findall(word)))


def number_text(key: Key) -> str:
    """Return one text of the numbers with a key.

    >>> number_text(number_key("-1500"))
    '-15e2'
    """
    negative, digits, exponent = key
    return f"{'-' if negative else ''}{digits or '0'}e{'-' if exponent < 0 else ''}{decimal_text(abs(exponent))}"


def whole_number(text: str) -> int:
    """Return the value of digits with or without a sign, however many they are; 0 for none."""
    digits = text.lstrip("+-")
    spend_nearby((len(digits) >> 12) ** 2)
    value = 0
    for at in range(0, len(digits), _DIGITS):
        piece = digits[at : at + _DIGITS]
        value = value * 10 ** len(piece) + int(piece)
    return -value if text.startswith("-") else value


def decimal_text(value: int) -> str:
    """Return str(value) of a number >= 0, also where Python refuses because it has more than 4,300 digits."""
    spend_nearby(value.bit_length() >> 6)
    if value.bit_length() < 14_000:
        return str(value)
    half = value.bit_length() * 3 // 20  # about half of its digits
    high, low = divmod(value, 10**half)
    return decimal_text(high) + decimal_text(low).zfill(half)


def is_within(text: str, most: int) -> bool:
    """Say whether a number as `number_text` writes it has no more digits, and no greater exponent."""
    return len(text) <= most and abs(whole_number(text.rpartition("e")[2])) <= most


# ======================================================================================================================
# Sets of numbers
# ======================================================================================================================

Numbers: TypeAlias = tuple[NumberRange, ...]

ALL_NUMBERS: Numbers = (NumberRange(),)
WHOLE: Numbers = (NumberRange(integer=True),)
FRACTIONAL: Numbers = (NumberRange(integer=False),)

_FEW = 8  # ranges that are looked at one by one
_MEMBERS_TRIED = 100_000  # members of a bounded range that the search for one outside all `not_multiples` looks at


def exact(number: int | float | Decimal) -> Fraction:
    """Return the number that the shortest decimal text denotes.

    >>> exact(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def constant(value: Fraction, *, plain: bool = False) -> NumberRange:
    return NumberRange(low=value, high=value, plain=plain)


def plainly_written(numbers: Numbers) -> Numbers:
    """Return the numbers as they are written without a point and an exponent."""
    return tuple([replace(one, plain=True) for one in numbers])


BOUNDLESS = ALL_NUMBERS, WHOLE, plainly_written(WHOLE)  # what schemas mean that say no more than a type


def is_constant(numbers: NumberRange) -> bool:
    return numbers.low is not None and numbers.low == numbers.high


def contains(numbers: NumberRange, value: Fraction) -> bool:
    """Return whether a number lies in the range."""
    low, high = numbers.low, numbers.high
    if low is not None and (value < low or numbers.low_open and value == low):
        return False
    if high is not None and (value > high or numbers.high_open and value == high):
        return False
    if numbers.integer is not None and numbers.integer != (value.denominator == 1):
        return False
    return all(_divides(step, value) for step in numbers.multiples) and not any(
        _divides(step, value) for step in numbers.not_multiples
    )


def _divides(step: Fraction, value: Fraction) -> bool:
    return (value / step).denominator == 1


def reach(ranges: Iterable[NumberRange]) -> int:
    """Return k such that of the numbers d · 10^e with d < 10^m, those with e > m + k lie in the same ranges as
    d · 10^(m + k), and those with e < -m - k in the same as d · 10^(-m - k); where these lie, infinitely many do.

    So where a number lies is found without writing out its exponent: it is beyond all bounds, or between zero and all
    of them, and what 10^e divides, or is divided by, does not change any more.
    """
    written = [
        part
        for numbers in ranges
        for part in (numbers.low, numbers.high, *numbers.multiples, *numbers.not_multiples)
        if part is not None
    ]
    return sum([part.numerator.bit_length() + part.denominator.bit_length() for part in written])


def near(text: str, ranges: tuple[NumberRange, ...]) -> Fraction:
    """Return a number that lies in the same ranges as one that `number_text` wrote, whose exponent may be long; the
    same one where that is short, see `ranges.reach`.
    """
    digits, _, exponent = text.rpartition("e")
    most = max(reach(ranges) + len(digits), MOST_DIGITS)
    return whole_number(digits) * Fraction(10) ** max(-most, min(whole_number(exponent), most))


def are_few(ranges: Iterable[NumberRange], most: int) -> bool:
    """Say that each range has about `most` numbers at most, each with endless spellings in some profiles."""
    for each in ranges:
        step = Fraction(1) if each.integer else max(each.multiples, default=Fraction(0))
        if each.low is None or each.high is None or each.high - each.low > step * most:
            return False
    return True


def normal(numbers: NumberRange) -> NumberRange | None:
    """Return the normal form of a range, None if it is empty."""
    if numbers.low is not None and numbers.low == numbers.high:
        return constant(numbers.low, plain=numbers.plain) if contains(numbers, numbers.low) else None
    integer, step = numbers.integer, common(numbers.multiples)
    if step is not None and integer is None and step.denominator == 1:
        integer = True
    if step is not None and integer is True:
        step = common((step, Fraction(1)))
        step = None if step == 1 else step
    low, low_open, high, high_open = numbers.low, numbers.low_open, numbers.high, numbers.high_open
    grid = step if step is not None else Fraction(1) if integer is True else None
    if grid is not None:
        if low is not None:
            count = floor(low / grid) + 1 if low_open else ceil(low / grid)
            low, low_open = count * grid, False
        if high is not None:
            count = ceil(high / grid) - 1 if high_open else floor(high / grid)
            high, high_open = count * grid, False
    if low is not None and high is not None and (low > high or low == high and (low_open or high_open)):
        return None
    holes = _holes(numbers.not_multiples, integer, grid)
    steps = () if step is None else (step,)
    tightened = NumberRange(integer, low, low_open, high, high_open, steps, holes, numbers.plain)
    if low is not None and low == high:
        return constant(low, plain=tightened.plain) if contains(tightened, low) else None
    return tightened if grid is None or _has_member(tightened, grid) else None


def _holes(steps: Collection[Fraction], integer: bool | None, grid: Fraction | None) -> tuple[Fraction, ...]:
    """Return what multiples of a grid are not multiples of: what lies on it, without multiples of others."""
    holes: list[Fraction] = []
    for step in sorted({common((step, grid)) or step for step in steps} if grid is not None else set(steps)):
        whole = integer is False and step.denominator == 1
        if not whole and not any(_divides(other, step) for other in holes):
            holes.append(step)
    return tuple(holes)


def common(steps: Iterable[Fraction]) -> Fraction | None:
    """Return the step of the numbers that are multiples of every step."""
    least_common: Fraction | None = None
    for step in steps:
        least_common = step if least_common is None else Fraction(
            lcm(least_common.numerator, step.numerator), gcd(least_common.denominator, step.denominator))
    return least_common


def _has_member(numbers: NumberRange, grid: Fraction) -> bool:
    """Return whether some multiple of `grid` lies in the range; its closed bounds are on the grid.

    A union of proper subgroups that leaves out the generator leaves out infinitely many members: without a bound on one
    side, or with nothing left out, the generator decides.
    """
    left_out = [Fraction(1)] if numbers.integer is False else []
    left_out += numbers.not_multiples
    if not left_out:
        return True
    if any(_divides(step, grid) for step in left_out):
        return False
    if numbers.low is None or numbers.high is None:
        return True
    first, last = numbers.low / grid, numbers.high / grid
    for count in range(int(first), min(int(last), int(first) + _MEMBERS_TRIED) + 1):
        spend(2 + len(numbers.not_multiples))
        if contains(numbers, count * grid):
            return True
    if last - first > _MEMBERS_TRIED:
        raise LimitExceeded("too many numbers to search", because="multipleOf under 'not' leaves out each one tried")
    return False


def intersection(left: Numbers, right: Numbers) -> Numbers:
    """Return the numbers in both sets.

    Cost: a merge per pair of ranges that overlap and are not one inside the other; constants meet constants as sets.
    """
    if left is right or right == ALL_NUMBERS:
        return left
    if left == ALL_NUMBERS:
        return right
    spend(4 + (len(left) + len(right)) // 2)
    if len(left) == len(right) == 1 and is_constant(left[0]) and is_constant(right[0]):  # tags of unions
        return () if left[0].low != right[0].low else right if right[0].plain else left
    left_points, left_ranges = _split(left)
    right_points, right_ranges = _split(right)
    within = _points_within(left_points, set(right_points), right_ranges)
    within += _points_within(right_points, set(), left_ranges, but=set(left_points))
    near = _nearby(right_ranges)
    for one in left_ranges:
        others = near(one)
        spend(1 + len(others))
        for other in others:
            if _is_within(one, other):
                within.append(one)
            elif _is_within(other, one):
                within.append(other)
            elif not _are_apart(one, other):
                spend(12 + (len(one.not_multiples) + len(other.not_multiples)) ** 2)
                met = normal(_meet(one, other))
                if met is not None:
                    within.append(met)
    return tuple(within)


def _nearby(ranges: list[NumberRange]) -> Callable[[NumberRange], list[NumberRange]]:
    """Return what finds those of some ranges that another one may meet, without a look at all of many."""
    if len(ranges) < _FEW:
        return lambda one: ranges
    ranges = sorted(ranges, key=_low)
    lows, reach = list(map(_low, ranges)), list(accumulate(map(_high, ranges), max))
    return lambda one: ranges[bisect_left(reach, _low(one)) : bisect_right(lows, _high(one))]


def _low(one: NumberRange) -> Fraction | float:
    return -inf if one.low is None else one.low


def _high(one: NumberRange) -> Fraction | float:
    return inf if one.high is None else one.high


def _is_within(one: NumberRange, other: NumberRange) -> bool:
    """Say whether one range lies in another that asks for nothing but its bounds."""
    if other.multiples or other.not_multiples or other.plain or other.integer not in (None, one.integer):
        return False
    begins = other.low is None or one.low is not None and (
        one.low > other.low or one.low == other.low and (one.low_open or not other.low_open)
    )
    return begins and (other.high is None or one.high is not None and (
        one.high < other.high or one.high == other.high and (one.high_open or not other.high_open)
    ))


def _points_within(
    points: list[Fraction], known: set[Fraction], ranges: list[NumberRange], but: Collection[Fraction] = ()
) -> list[NumberRange]:
    """Return the points that are known or lie in some range, but for some of them."""
    kept = []
    for value in points:
        one = constant(value)
        if value in but:
            continue
        if value in known:
            kept.append(one)
            continue
        spend(len(ranges))
        within = [other.plain for other in ranges if contains(other, value)]
        if within:
            kept.append(constant(value, plain=all(within)))
    return kept


def _are_apart(one: NumberRange, other: NumberRange) -> bool:
    """Say whether one range ends before the other begins."""
    return (one.high is not None and other.low is not None and one.high < other.low) or (
        other.high is not None and one.low is not None and other.high < one.low)


def _split(numbers: Numbers) -> tuple[list[Fraction], list[NumberRange]]:
    points = [one.low for one in numbers if one.low is not None and one.low == one.high and not one.plain]
    return points, [one for one in numbers if one.plain or not is_constant(one)]


_NO_NUMBER = NumberRange(low=Fraction(1), high=Fraction(0))


def _meet(one: NumberRange, other: NumberRange) -> NumberRange:
    """Return the intersection of two ranges, not in normal form and perhaps empty."""
    if one.integer is not None and other.integer is not None and one.integer != other.integer:
        return _NO_NUMBER
    low, low_open = one.low, one.low_open
    if other.low is not None and (low is None or other.low > low or other.low == low and other.low_open):
        low, low_open = other.low, other.low_open
    high, high_open = one.high, one.high_open
    if other.high is not None and (high is None or other.high < high or other.high == high and other.high_open):
        high, high_open = other.high, other.high_open
    return NumberRange(
        one.integer if one.integer is not None else other.integer, low, low_open, high, high_open,
        one.multiples + other.multiples, one.not_multiples + other.not_multiples, one.plain or other.plain,
    )


def union(left: Numbers, right: Numbers) -> Numbers:
    """Return the numbers in either set; members that occur in both are kept once."""
    if left == ALL_NUMBERS or right == ALL_NUMBERS:
        return ALL_NUMBERS
    if not left or not right:
        return left or right
    spend(len(left) + len(right))
    return tuple(dict.fromkeys(left + right))


def complement(numbers: Numbers) -> Numbers:
    """Return the numbers outside the set."""
    points, ranges = _split(numbers)
    parts = [_gaps(sorted(set(points))) if points else ALL_NUMBERS, *map(_outside, ranges)]
    while len(parts) > 1:  # by halves: n ranges that do not overlap cost n log n
        rest = parts[-1:] if len(parts) % 2 else []
        parts = [intersection(one, other) for one, other in zip(parts[::2], parts[1::2], strict=False)] + rest
    return parts[0]


def _gaps(points: list[Fraction]) -> Numbers:
    ends: list[Fraction | None] = [None, *points, None]
    return tuple(NumberRange(low=low, low_open=low is not None, high=high, high_open=high is not None)
                 for low, high in zip(ends, ends[1:], strict=False))


def _outside(one: NumberRange) -> Numbers:
    """Return the complement of one range: below it, above it, or inside its bounds but off its grid."""
    ranges = []
    if one.low is not None:
        ranges.append(NumberRange(high=one.low, high_open=not one.low_open))
    if one.high is not None:
        ranges.append(NumberRange(low=one.high, low_open=not one.high_open))
    inside = (one.low, one.low_open, one.high, one.high_open)
    if one.integer is not None and not (one.integer and one.multiples):  # multiples of whole steps are whole
        ranges.append(NumberRange(not one.integer, *inside))
    ranges += [NumberRange(None, *inside, not_multiples=(step,)) for step in one.multiples]
    ranges += [NumberRange(None, *inside, multiples=(step,)) for step in one.not_multiples]
    return tuple(member for member in map(normal, ranges) if member is not None)
