"""Sets of null, booleans, numbers and strings: the part of a value that is closed under every boolean operation.

Also the bits that name the types.  Keywords, one function each, narrow the `ScalarSketch` of their schema; what several
of them say together (a length and a pattern, a minimum and a multiple) becomes one expression or one range at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from constrained.schema.number_sets import (
    ALL_NUMBERS,
    FRACTIONAL,
    WHOLE,
    Numbers,
    complement,
    constant,
    exact,
    intersection,
    normal,
    union,
)
from constrained.schema.strings import sets as texts
from constrained.schema.strings.formats import format_expr, format_hull
from constrained.schema.strings.sets import ALL_TEXTS, NO_TEXT, Texts
from constrained.schema.values import NumberRange
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.reading.document import Node

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


@dataclass(slots=True, unsafe_hash=True)  # never changed; a frozen one takes three times as long to make
class Scalars:
    """A set of scalar JSON values, closed under ``& | ~`` (the complement is within the scalars)."""

    null: bool
    booleans: frozenset[bool]
    numbers: Numbers
    strings: Texts

    def __and__(self, other: Scalars) -> Scalars:
        return Scalars(
            self.null and other.null, self.booleans & other.booleans,
            intersection(self.numbers, other.numbers), self.strings & other.strings,
        )

    def __or__(self, other: Scalars) -> Scalars:
        return Scalars(
            self.null or other.null,
            self.booleans | other.booleans,
            union(self.numbers, other.numbers),
            self.strings | other.strings,
        )

    def __invert__(self) -> Scalars:
        numbers = complement(self.numbers)
        return Scalars(not self.null, BOTH_BOOLEANS - self.booleans, numbers, ~self.strings)

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
        typed = of_types(bits)
        numbers, strings = typed.numbers, typed.strings
        if numbers and (self.low is not None or self.high is not None or self.multiples):
            integer = None if bits & NUMBER == NUMBER else bool(bits & INTEGER)
            met = normal(
                NumberRange(integer, self.low, self.low_open, self.high, self.high_open, tuple(self.multiples))
            )
            numbers = () if met is None else (met,)
        if strings:
            if self.least or self.most is not None:
                strings = texts.of_language(texts.of_length(self.least, self.most))
            for language in self.languages:
                strings = strings & language
        typed = Scalars(typed.null, typed.booleans, numbers, strings)
        return typed if self.listed is ALL_SCALARS else typed & self.listed


_OTHERS = frozenset({type(None), bool, str, list, dict})  # kinds of values that are no numbers
_WORDS = {"int32": 31, "int64": 63}  # formats of numbers: OpenAPI's
_NO_BOOLEANS: frozenset[bool] = frozenset()


def minimum(sketch: ScalarSketch, value: Any, node: Node) -> None:
    """SPEC: "valid only if the instance is greater than or exactly equal to"; in draft 4 a boolean sibling makes it
    exclusive.
    """
    _raise_low(sketch, exact(value), node.schema.get("exclusiveMinimum") is True)


def exclusive_minimum(sketch: ScalarSketch, value: Any, node: Node) -> None:
    if type(value) is not bool:
        _raise_low(sketch, exact(value), True)


def maximum(sketch: ScalarSketch, value: Any, node: Node) -> None:
    _lower_high(sketch, exact(value), node.schema.get("exclusiveMaximum") is True)


def exclusive_maximum(sketch: ScalarSketch, value: Any, node: Node) -> None:
    if type(value) is not bool:
        _lower_high(sketch, exact(value), True)


def _raise_low(sketch: ScalarSketch, low: Fraction, open_: bool) -> None:
    if sketch.low is None or (low, open_) > (sketch.low, sketch.low_open):
        sketch.low, sketch.low_open = low, open_


def _lower_high(sketch: ScalarSketch, high: Fraction, open_: bool) -> None:
    if sketch.high is None or (high, not open_) < (sketch.high, not sketch.high_open):
        sketch.high, sketch.high_open = high, open_


def multiple_of(sketch: ScalarSketch, value: Any, node: Node) -> None:
    sketch.multiples.append(exact(value))


def min_length(sketch: ScalarSketch, value: Any, node: Node) -> None:
    sketch.least = int(value)


def max_length(sketch: ScalarSketch, value: Any, node: Node) -> None:
    sketch.most = int(value)


def pattern(sketch: ScalarSketch, value: str, node: Node) -> None:
    sketch.languages.append(texts.of_language(texts.of_pattern(value)))


def format_(sketch: ScalarSketch, value: str, node: Node) -> None:
    language = asserted_format(value, node)
    if language is not None:
        sketch.languages.append(language)
    bits = _WORDS.get(value) if node.document.asserted_formats == "assert" else None
    if bits is not None:
        _raise_low(sketch, Fraction(-(1 << bits)), False)
        _lower_high(sketch, Fraction((1 << bits) - 1), False)


def asserted_format(value: str, node: Node) -> Texts | None:
    """Return the texts of a format; None: it says nothing.

    SPEC: a format that the dialect does not define is an annotation.

    Whoever writes ``"format": "date"`` under an older ``$schema`` means the date of the later sketch, so that is what
    "assert" reads.
    """
    dialect, asserted = node.resource.dialect, node.document.asserted_formats
    if asserted == "assert" or value in dialect.formats and (asserted == "dialect" or dialect.asserts_formats):
        language = format_expr(value)
        if language is not None:
            return Texts(None, language, hull=format_hull(value))
    return None


def enum(sketch: ScalarSketch, values: list[Any], node: Node) -> None:
    """Keep the scalars among the values; arrays and objects are a union of constants, see `plans.composites`."""
    kinds = set(map(type, values))
    numbers = [] if kinds <= _OTHERS else [value for value in values if type(value) not in _OTHERS]
    spend(len(values) // 8 + 24 * len(numbers))
    scalars = Scalars(
        type(None) in kinds,
        frozenset([value for value in values if type(value) is bool]) if bool in kinds else _NO_BOOLEANS,
        tuple(map(constant, dict.fromkeys(map(exact, numbers)))),
        texts.finite(values if len(kinds) == 1 else [value for value in values if type(value) is str])
        if str in kinds else NO_TEXT,
    )
    sketch.listed = scalars if sketch.listed is ALL_SCALARS else sketch.listed & scalars
