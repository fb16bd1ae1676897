"""Number texts as a `Language`, exact by value: in every spelling of a surface, or in its canonical one.

A state knows what the digits so far mean to the set of numbers (see `magnitudes`): the comparison with each bound, the
position of the point, trailing zeros and the mantissa modulo the divisors; whatever a set does not ask about is left
out of the state, so that a number without bounds needs ten states and 0 … 10^18 some dozens.  After "e" the condition
is an interval of integers.

    Start ─ "-" ─► Start ─ 1-9 ─► WHOLE ─ "." ─► POINT ─ digit ─► FRACTION ─ "e" ─► ExponentStart
                     └── "0" ─► ZERO ──┘

Spellings: "1.0", "100e-2" and "1" are one number, so `integer` allows all three unless the spelling is canonical.  -0
is 0. Left out for Python: "+1", hexadecimal, octal and binary literals, leading zeros ("01.5"), complex numbers,
parentheses.
Refused: a table compiled per range up front (a bound of 300 digits, or multipleOf: 1000003, would cost before it is
used). Tested in tests/test_numbers.py against `Fraction` over all short texts.  Source: ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from constrained.caches import cached
from constrained.machine import Language, LiteralSet
from constrained.schema.numeric.exponents import LEAST_MINUS, LEAST_PLUS, Edge, Interned, NumberSpelling, Target, char
from constrained.schema.numeric.magnitudes import UNIT, Magnitudes, decimal, magnitudes
from constrained.schema.numeric.points import Points
from constrained.schema.numeric.ranges import contains
from constrained.schema.numeric.settled import settled_states
from constrained.schema.numeric.states import MantissaStates
from constrained.schema.numeric.unions import union
from constrained.schema.values import NumberRange
from constrained.work import spend_nearby

try:
    from constrained.schema._scan import BoundedStates
except ImportError:  # no compiler
    BoundedStates = None

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
            for first, last in self.positive.kinds(0, 0):
                yield ord("0") + first, ord("0") + last, self.positive.first(first)


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


@cached(1 << 12)
def _reader(
    numbers: NumberRange, spelling: NumberSpelling, without: frozenset[Fraction], *, negative: bool
) -> MantissaStates | None:
    side = magnitudes(numbers, without, negative=negative)
    if side is None:
        return None
    plain, whole = numbers.plain or spelling.canonical and numbers.integer is True, side.step is UNIT
    if not side.left_out - {0}:
        if BoundedStates is not None and not (plain or spelling.canonical) and side.has_bounds_only():
            quick: MantissaStates = BoundedStates(side, settled_states(spelling), whole=whole, negative=negative)
            return quick
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
