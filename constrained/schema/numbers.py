"""Number texts as a `Language`: exact by value, in every spelling of a surface or in the one that a writer would choose.

A state knows what the digits so far mean to the set of numbers (see `number_sets`): the comparison with each bound, the position of
the point, trailing zeros and the mantissa modulo the divisors; whatever a set does not ask about is left out of the state, so that
a number without bounds needs ten states and 0 … 10^18 some dozens.  After "e" the condition is an interval of integers.

    Start ─ "-" ─► Start ─ 1-9 ─► WHOLE ─ "." ─► POINT ─ digit ─► FRACTION ─ "e" ─► ExponentStart
                     └── "0" ─► ZERO ──┘

Spellings: "1.0", "100e-2" and "1" are one number, so `integer` allows all three unless the spelling is canonical.  -0 is 0.
Left out for Python: "+1", hexadecimal, octal and binary literals, leading zeros ("01.5"), complex numbers, parentheses.
Refused: a table compiled per range up front (a bound of 300 digits, or multipleOf: 1000003, would cost before it is used).
Tested in tests/test_numbers.py against `Fraction` over all short texts.  Source: ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from constrained.machine import Language
from constrained.schema.number_exponents import LEAST_MINUS, LEAST_PLUS, ExponentStart, Interned, Spelling, exponent
from constrained.schema.number_sets import ABOVE, BELOW, Interval, Magnitudes, magnitudes
from constrained.schema.values import NumberRange

JSON_NUMBERS = Spelling()
CANONICAL_NUMBERS = Spelling(canonical=True)
PYTHON_NUMBERS = Spelling(bare_point=True, underscores=True)

ZERO, WHOLE, POINT, FRACTION = range(4)


class Key(NamedTuple):
    """What has been read of a mantissa, as far as any set can ask; readings with equal reduced keys have equal continuations."""

    phase: int
    started: bool  # a digit > 0 has been read
    low: int  # comparison with the lower bound, see `Bound.compare`
    high: int
    point: int  # the number so far is 0.digits × 10^point; before the first digit > 0, minus the zeros after the point
    zeros: int  # trailing zeros since the last digit > 0
    fraction: int  # digits after the point
    residue: int  # mantissa without trailing zeros (plain integers: with them), modulo `Magnitudes.modulus`
    gap: bool  # the last character was an underscore


class Reader:
    """The states of one sign of one set in one spelling.

    plain: integers without fraction and exponent, so that only the value of the digits counts.
    """

    __slots__ = ("_bounded", "_divided", "_furthest", "_nearest", "_states", "negative", "numbers", "plain", "spelling")

    def __init__(self, numbers: Magnitudes, spelling: Spelling, *, plain: bool, negative: bool) -> None:
        self.numbers, self.spelling, self.plain, self.negative = numbers, spelling, plain, negative
        self._states: dict[Key, Mantissa | None] = {}
        self._bounded = numbers.low is not None or numbers.high is not None
        self._divided = numbers.step is not None or bool(numbers.holes)
        # Canonical exponents follow one digit only, so that without an upper bound all positions past the lower one are alike.
        past_low = max(2, numbers.low.point + 1) if numbers.low else 2
        self._furthest = past_low if spelling.canonical and numbers.high is None else None
        below_high = spelling.canonical and numbers.low is None and numbers.high is not None
        self._nearest = min(0, numbers.high.point - 1) if below_high and numbers.high else None  # from here on, below the upper bound

    def state(self, key: Key, digits: str) -> Mantissa | None:
        """Return the state of a reading, None if it is dead; `digits` are those from the first one > 0."""
        reduced = self._reduced(key)
        if reduced in self._states:
            return self._states[reduced]
        state: Mantissa | None = Mantissa(self, key, digits)
        if state is not None and not state.live():
            state = None
        self._states[reduced] = state
        return state

    def _reduced(self, key: Key) -> Key:
        """Return the key without what makes no difference to this set."""
        canonical = self.spelling.canonical
        low, high, point, zeros, fraction, residue = key.low, key.high, key.point, key.zeros, key.fraction, key.residue
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
        return key._replace(low=low, high=high, point=point, zeros=zeros, fraction=fraction, residue=residue)

    def first(self, digit: int) -> Mantissa | None:
        """Return the state after the first digit before the point."""
        if digit == 0:
            return self.state(Key(ZERO, False, 0, 0, 0, 0, 0, 0, False), "")
        return self.significant(Key(WHOLE, False, 0, 0, 1, 0, 0, 0, False), "", digit)

    def bare_point(self) -> Mantissa | None:
        return self.state(Key(POINT, False, 0, 0, 0, 0, 0, 0, True), "")

    def significant(self, key: Key, digits: str, digit: int) -> Mantissa | None:
        """Return the state after one more digit that is not a leading zero; phase, point and fraction of the key count it already."""
        if not self.numbers.positive:
            return None
        numbers, residue, zeros = self.numbers, key.residue, key.zeros
        if self.plain:
            residue = (residue * 10 + digit) % numbers.whole_modulus
        elif digit:
            residue = (residue * pow(10, zeros + 1, numbers.modulus) + digit) % numbers.modulus
            zeros = 0
        else:
            zeros += 1
        low = numbers.low.compare(key.low, digit) if numbers.low else 0
        high = numbers.high.compare(key.high, digit) if numbers.high else 0
        return self.state(
            key._replace(started=True, low=low, high=high, zeros=zeros, residue=residue, gap=False), digits + str(digit))


class Mantissa(Interned):
    """A state before any exponent; `key` and `digits` (from the first one > 0) are those of one reading that leads here."""

    __slots__ = ("reader", "key", "digits")

    def __init__(self, reader: Reader, key: Key, digits: str) -> None:
        self.reader, self.key, self.digits = reader, key, digits
        self._edges = None
        self.accepts = self._complete()

    def targets(self) -> Iterable[tuple[str, Language | None]]:
        phase, gap, spelling = self.key.phase, self.key.gap, self.reader.spelling
        if phase in (ZERO, WHOLE) and not gap and not self.reader.plain:
            yield ".", self.reader.state(self.key._replace(phase=POINT), self.digits)
        if phase != ZERO:
            for digit in range(10):
                yield str(digit), self._after(digit)
        after_e = self._exponent()
        if not spelling.canonical:
            yield "E", after_e
        if spelling.underscores and phase in (WHOLE, FRACTION) and not gap:
            yield "_", self.reader.state(self.key._replace(gap=True), self.digits)
        yield "e", after_e

    def _after(self, digit: int) -> Mantissa | None:
        key, reader = self.key, self.reader
        if key.phase == WHOLE:
            return reader.significant(key._replace(point=key.point + 1), self.digits, digit)
        key = key._replace(phase=FRACTION, fraction=key.fraction + 1, gap=False)
        if self.digits or digit:
            return reader.significant(key, self.digits, digit)
        return reader.state(key._replace(point=key.point - 1), "")

    # -- what may end here ----------------------------------------------------------------------------------------------

    def _scales(self) -> Interval | None:
        """Return the exponents under which the digits so far are a member."""
        numbers, key = self.reader.numbers, self.key
        if not self.digits:
            return (None, None) if numbers.zero else None
        return numbers.exponents(key.low, key.high, key.point, key.zeros - key.fraction, key.residue)

    def _complete(self) -> bool:
        key, spelling = self.key, self.reader.spelling
        if key.gap or (key.phase == POINT and not spelling.bare_point):
            return False
        if spelling.canonical and (
                key.phase == FRACTION and key.fraction > 1 and (key.zeros or not key.started)
                or key.phase == ZERO and self.reader.negative):
            return False
        if self.reader.plain and key.started:
            return self.reader.numbers.holds_whole(key.low, key.high, key.point, key.residue)
        scales = self._scales()
        return scales is not None and (scales[0] or 0) <= 0 <= (scales[1] or 0)

    def _exponent(self) -> ExponentStart | None:
        key, spelling = self.key, self.reader.spelling
        if key.gap or self.reader.plain or (key.phase == POINT and not spelling.bare_point):
            return None
        if spelling.canonical and not (key.point == 1 and self.digits and not (key.phase == FRACTION and key.zeros)):
            return None
        scales = self._scales()
        return None if scales is None else exponent(scales, spelling)

    # -- liveness -------------------------------------------------------------------------------------------------------

    def live(self) -> bool:
        """Say whether some text of the language starts with what led here.

        Any mantissa may take any exponent, except in canonical spelling, where only one digit before the point goes with some.
        """
        if self.accepts:
            return True
        numbers, canonical = self.reader.numbers, self.reader.spelling.canonical
        if not self.digits:
            return self._live_zero()
        if not canonical:
            return self._scales() is not None or numbers.continues(self.digits, None, None)
        if self.reader.plain:
            return numbers.continues(self.digits, len(self.digits), None, whole=True)
        return self._live_canonical()

    def _live_zero(self) -> bool:
        numbers, key = self.reader.numbers, self.key
        if not self.reader.spelling.canonical:
            return numbers.zero or numbers.positive
        if self.reader.plain:
            return False
        if key.phase in (ZERO, POINT) and numbers.zero:
            return True  # "0.0"
        return numbers.positive and numbers.meets(Fraction(0), Fraction(10) ** key.point, left_open=True, right_open=True)

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


class Start(Interned):
    """The start of a number, or what follows its "-"."""

    __slots__ = ("positive", "negative")

    def __init__(self, positive: Reader | None, negative: Reader | None) -> None:
        self.positive, self.negative = positive, negative
        self._edges, self.accepts = None, False

    def targets(self) -> Iterable[tuple[str, Language | None]]:
        if self.negative is not None:
            minus = Start(self.negative, None)
            yield "-", minus if minus.edges() else None
        if self.positive is not None:
            if self.positive.spelling.bare_point:
                yield ".", self.positive.bare_point()
            for digit in range(10):
                yield str(digit), self.positive.first(digit)


class Both(Interned):
    """The union of several number languages: what each of them still allows.  Invariant: two members or more, interned."""

    __slots__ = ("members", "_table")

    def __init__(self, members: tuple[Language, ...], table: dict[frozenset[Language], Both]) -> None:
        self.members, self._table = members, table
        self._edges, self.accepts = None, any(member.accepts for member in members)

    def targets(self) -> Iterable[tuple[str, Language | None]]:
        found: dict[str, dict[Language, None]] = {}
        for member in self.members:
            for low, high, target in member.edges():
                for point in range(low, high + 1):
                    found.setdefault(chr(point), {})[target] = None
        for char in sorted(found):
            yield char, union(tuple(found[char]), self._table)


def union(members: tuple[Language, ...], table: dict[frozenset[Language], Both]) -> Language:
    if len(members) == 1:
        return members[0]
    key = frozenset(members)
    if key not in table:
        table[key] = Both(members, table)
    return table[key]


class NumberTexts(Interned):
    """The start of the texts of some numbers; printers ask it what it stands for."""

    __slots__ = ("ranges", "spelling")

    def __init__(self, ranges: tuple[NumberRange, ...], spelling: Spelling, start: Language) -> None:
        self.ranges, self.spelling = ranges, spelling
        self.accepts, self._edges = False, tuple(start.edges())


@lru_cache(maxsize=1 << 12)
def number_language(ranges: tuple[NumberRange, ...], spelling: Spelling) -> NumberTexts:
    """Return the texts of the numbers that lie in one of the ranges.

    >>> start = number_language((NumberRange(integer=True, low=Fraction(1), high=Fraction(12)),), CANONICAL_NUMBERS)
    >>> [(chr(low), chr(high)) for low, high, _ in start.edges()], [chr(low) for low, _, _ in start.edges()[0][2].edges()]
    ([('1', '1'), ('2', '9')], ['0', '2'])
    """
    starts: dict[Language, None] = {}
    for numbers in ranges:
        plain = spelling.canonical and numbers.integer is True
        sides = {negative: magnitudes(numbers, negative=negative) for negative in (False, True)}
        readers = {
            negative: Reader(side, spelling, plain=plain, negative=negative) for negative, side in sides.items() if side is not None}
        starts[Start(readers.get(False), readers.get(True))] = None
    return NumberTexts(ranges, spelling, union(tuple(starts), {}))
