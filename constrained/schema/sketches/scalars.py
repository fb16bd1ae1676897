"""Sets of null, booleans, numbers and strings: the part of a value that is closed under every boolean operation.

Also the bits that name the types.  Keywords (`keywords.scalars`) narrow a `ScalarSketch`; what several of them say
together (a length and a pattern, a minimum and a multiple) becomes one expression or one range at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from constrained.schema.numeric import ranges
from constrained.schema.numeric.ranges import ALL_NUMBERS, FRACTIONAL, WHOLE, Numbers, exact
from constrained.schema.strings import sets as texts
from constrained.schema.strings.sets import ALL_TEXTS, NO_TEXT, Texts
from constrained.schema.values import NumberRange

NULL, BOOLEAN, INTEGER, FRACTION, STRING, ARRAY, OBJECT = (1 << bit for bit in range(7))
NUMBER = INTEGER | FRACTION
SCALAR = NULL | BOOLEAN | NUMBER | STRING
EVERY_TYPE = SCALAR | ARRAY | OBJECT

TYPE_BITS = {
    "null": NULL,
    "boolean": BOOLEAN,
    "integer": INTEGER,
    "number": NUMBER,
    "string": STRING,
    "array": ARRAY,
    "object": OBJECT,
}
_BITS_OF_KIND = {type(None): NULL, bool: BOOLEAN, int: INTEGER, str: STRING, list: ARRAY, dict: OBJECT}

BOTH_BOOLEANS = frozenset({False, True})


@dataclass(slots=True, unsafe_hash=True)  # PERF: never changed; a frozen one takes three times as long to make
class Scalars:
    """A set of scalar JSON values, closed under ``& | ~`` (the complement is within the scalars)."""

    null: bool
    booleans: frozenset[bool]
    numbers: Numbers
    strings: Texts

    def __and__(self, other: Scalars) -> Scalars:
        return Scalars(
            self.null and other.null, self.booleans & other.booleans, ranges.intersection(self.numbers, other.numbers),
            self.strings & other.strings,
        )

    def __or__(self, other: Scalars) -> Scalars:
        return Scalars(
            self.null or other.null,
            self.booleans | other.booleans,
            ranges.union(self.numbers, other.numbers),
            self.strings | other.strings,
        )

    def __invert__(self) -> Scalars:
        return Scalars(not self.null, BOTH_BOOLEANS - self.booleans, ranges.complement(self.numbers), ~self.strings)

    def __bool__(self) -> bool:
        """Whether there is a value in the set."""
        return self.null or bool(self.booleans or self.numbers or self.strings)


@lru_cache(maxsize=SCALAR + 1)
def of_types(bits: int) -> Scalars:
    """Return all scalar values of these types."""
    numbers = {0: (), INTEGER: WHOLE, FRACTION: FRACTIONAL, NUMBER: ALL_NUMBERS}[bits & NUMBER]
    return Scalars(
        bool(bits & NULL),
        BOTH_BOOLEANS if bits & BOOLEAN else frozenset(),
        numbers,
        ALL_TEXTS if bits & STRING else NO_TEXT,
    )


ALL_SCALARS = of_types(SCALAR)
NO_SCALARS = of_types(0)


def types_of(values: list[Any]) -> int:
    """Return the types of some values; numbers count as whole or not by value."""
    bits = 0
    for kind in set(map(type, values)):
        bits |= _BITS_OF_KIND.get(kind, 0)
        if kind not in _BITS_OF_KIND:
            numbers: list[Any] = [value for value in values if type(value) is kind]
            for number in numbers:
                bits |= INTEGER if exact(number).denominator == 1 else FRACTION
    return bits


@dataclass(slots=True)
class ScalarSketch:
    """What the keywords of one schema say about numbers and strings so far."""

    low: Fraction | None = None
    low_open: bool = False
    high: Fraction | None = None
    high_open: bool = False
    multiples: list[Fraction] = field(default_factory=list)
    least: int = 0
    most: int | None = None
    languages: list[Texts] = field(default_factory=list)
    listed: Scalars = ALL_SCALARS  # by enum and const

    def scalars(self, bits: int) -> Scalars:
        """Return the values of these types that the keywords allow."""
        found = of_types(bits)
        numbers, strings = found.numbers, found.strings
        if numbers and (self.low is not None or self.high is not None or self.multiples):
            integer = None if bits & NUMBER == NUMBER else bool(bits & INTEGER)
            met = ranges.normal(
                NumberRange(integer, self.low, self.low_open, self.high, self.high_open, tuple(self.multiples))
            )
            numbers = () if met is None else (met,)
        if strings:
            if self.least or self.most is not None:
                strings = texts.of_language(texts.of_length(self.least, self.most))
            for language in self.languages:
                strings = strings & language
        found = Scalars(found.null, found.booleans, numbers, strings)
        return found if self.listed is ALL_SCALARS else found & self.listed
