"""States of number texts: what the digits so far mean to a set of numbers; drawing and reasons are in `language`.

`MantissaStates` interns the states of one sign of one set: two readings are one state if they differ only in what the
set never asks about. Each state keeps one of its readings exactly, and computes from that; so what is shared can never
be wrong in its details.

Bounds: at MOST_STATES a reader forgets its states and what they lead to.  Whoever holds a state
keeps it; what it leads to is made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from constrained.machine import Language
from constrained.schema.numeric import exponents
from constrained.schema.numeric.exponents import (
    FRACTION,
    LEAST_MINUS,
    LEAST_PLUS,
    POINT,
    WHOLE,
    ZERO,
    Interned,
    NumberSpelling,
    Target,
    char,
)
from constrained.schema.numeric.magnitudes import ABOVE, BELOW, UNIT, Interval, Magnitudes
from constrained.schema.numeric.points import Points, outside
from constrained.schema.numeric.settled import Settled, settled_states
from constrained.schema.numeric.unions import forget, union
from constrained.work import spend_nearby

MOST_STATES = 20_000  # some 20 MB; a random number that must not be a multiple of this nor that makes 10,000 a digit
_ZERO = ord("0")
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


Reading: TypeAlias = "Mantissa | Settled | None"  # None: no number starts so


class MantissaStates:
    """The states of one sign of one set in one spelling.

    plain: integers without fraction and exponent, so that only the value of the digits counts.
    points: numbers that the set leaves out, and `base` is the reader of the set with them; or, without a base, all
    there is (`language` is then the set of all numbers, and the spelling is not canonical).
    """

    __slots__ = (
        "_work",
        "_alike", "_bounded", "_divided", "_furthest", "_nearest", "_settled", "_states", "base", "is_ordinary",
        "negative", "numbers", "plain", "points", "spelling", "unsigned",
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
        self._alike = points is None and numbers.modulus == numbers.whole_modulus == 1
        simple = points is None and not numbers.holes and (numbers.step is None or numbers.step is UNIT)
        # what the states of other sets are as well, see `settled`
        self._work = 6 if simple else 12  # units of a state; simple ones are compiled, see `_scan`
        self._settled = settled_states(spelling) if simple and not (plain or spelling.canonical) else None
        # nothing but bounds is to be met, and whole numbers are compared with whole bounds
        self.is_ordinary = self._settled is not None and numbers.has_bounds_only()
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
        if key.started and self._settled is not None:
            low, high = self.numbers.low, self.numbers.high
            above = low is None or key.low < 0 or self.numbers.reaches_low(key.low)
            if above and (high is None or key.high < 0 or not self.numbers.keeps_high(key.high)):
                return self._settled_state(key)
        reduced = self._reduced(key)
        if reduced in self._states:
            return self._states[reduced]
        spend_nearby(self._work + len(digits) // 16 + len(self.numbers.holes) // 2)
        if len(self._states) >= MOST_STATES:
            forget(self._states)
        state: Mantissa | None = Mantissa(self, key, digits)
        if state is not None and not state.live():
            state = None
        self._states[reduced] = state
        return state

    def _settled_state(self, key: MantissaKey) -> Settled | None:
        """Return the state of a reading that no bound is compared with any more."""
        assert self._settled is not None
        low, high = self.numbers.low, self.numbers.high
        least = None if low is None else low.point - key.point + (key.low == BELOW)
        most = None if high is None else high.point - key.point - 1 + (key.high == BELOW)
        if self.numbers.step is None:
            return self._settled.state(key.phase, least, most, False, 0, 0, key.gap)
        return self._settled.state(key.phase, least, most, True, key.zeros, key.fraction, key.gap)

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

    def kinds(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of digits (first, last) that no bound and no divisor tells apart; low, high: what the digits so
        far are to the bounds.
        """
        if not self._alike:
            yield from zip(range(10), range(10), strict=True)
            return
        turns = {0, 1}
        if self.numbers.low is not None:
            turns.update(self.numbers.low.turns(low))
        if self.numbers.high is not None:
            turns.update(self.numbers.high.turns(high))
        starts = [*sorted(turns - {10}), 10]
        yield from ((first, beyond - 1) for first, beyond in pairwise(starts))

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

    __slots__ = ("reader", "key", "digits", "goes_on", "_scaled", "_short")

    def __init__(self, reader: MantissaStates, key: MantissaKey, digits: str) -> None:
        self.reader, self.key, self.digits = reader, key, digits
        self._edges = None
        self._scaled: tuple[Interval, ...] | None = None
        self._short: int | None = None
        self.goes_on = not reader.plain and not reader.spelling.canonical
        self.accepts = self._complete()

    @property
    def short(self) -> int:
        """At least how many characters follow, where the numbers are listed: the digits that are missing, and one more
        where they alone do not put the point in its place.
        """
        reader, key = self.reader, self.key
        if reader.points is None or reader.base is not None or not self.digits:
            return 0
        if self._short is None:
            spend_nearby(1 + (key.span[1] - key.span[0]) // 16)
            read, whole = len(self.digits), key.phase == WHOLE
            self._short = min(
                max(0, len(digits) - read) + ((max(len(digits), read) if whole else key.point) not in places)
                for digits, places in reader.points.between(*key.span)
            )
        return self._short

    def targets(self) -> Iterable[Target]:
        phase, gap, spelling = self.key.phase, self.key.gap, self.reader.spelling
        if phase in (ZERO, WHOLE) and not gap and not self.reader.plain:
            yield char(".", self.reader.state(self.key._replace(phase=POINT), self.digits))
        if phase != ZERO:
            for first, last in self._digits():
                yield _ZERO + first, _ZERO + last, self._after(first)
        after_e = self._exponent()
        if not spelling.canonical:
            yield char("E", after_e)
        if spelling.underscores and phase in (WHOLE, FRACTION) and not gap:
            yield char("_", self.reader.state(self.key._replace(gap=True), self.digits))
        yield char("e", after_e)

    def _digits(self) -> Iterable[tuple[int, int]]:
        """Return ranges of digits that lead to the same state each; of the others, none goes on."""
        points = self.reader.points
        if points is None or self.reader.base is not None or not self.digits:
            return self.reader.kinds(self.key.low, self.key.high)
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
        found = self._scaled
        if found is None:  # PERF: asked for up to three times
            found = self._scaled = self._scales_anew()
        return found

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
        starts = [start for interval in self._scales() if (start := exponents.exponent(interval, spelling)) is not None]
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
        if self.reader.is_ordinary:
            return self._live_ordinary()
        if not canonical:
            listed = self.reader.points is not None and self.reader.base is None  # then one of the span can come
            return listed or bool(self._scales()) or numbers.continues(self.digits, None, None)
        if self.reader.plain:
            return numbers.continues(self.digits, len(self.digits), None)
        return self._live_canonical()

    def _live_ordinary(self) -> bool:
        """As `live` behind a digit > 0, by the comparisons alone; see `MantissaStates.is_ordinary`."""
        numbers, key = self.reader.numbers, self.key
        if numbers.high is None or numbers.low is None and numbers.step is None:
            return True
        most = numbers.high.point - (not numbers.keeps_high(key.high))
        least = numbers.low.point + (key.low == BELOW) if numbers.low is not None else 0
        if numbers.step is None:
            return least <= most
        return max(least, len(self.digits)) <= most or bool(self._scales())

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
