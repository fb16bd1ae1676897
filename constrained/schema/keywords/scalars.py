"""The keywords of numbers and strings, and enum, one function each; a function narrows the sketch of its schema."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from constrained.schema.numeric import ranges
from constrained.schema.numeric.ranges import exact
from constrained.schema.sketches.scalars import ALL_SCALARS, Scalars, ScalarSketch
from constrained.schema.strings import sets as texts
from constrained.schema.strings.formats import format_expr, format_hull
from constrained.schema.strings.sets import NO_TEXT, Texts
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.reading.nodes import Node

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
    found = asserted_format(value, node)
    if found is not None:
        sketch.languages.append(found)
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
    """Keep the scalars among the values; arrays and objects are a union of constants, see `keywords.logic`."""
    kinds = set(map(type, values))
    numbers = [] if kinds <= _OTHERS else [value for value in values if type(value) not in _OTHERS]
    spend(len(values) // 8 + 24 * len(numbers))
    found = Scalars(
        type(None) in kinds,
        frozenset([value for value in values if type(value) is bool]) if bool in kinds else _NO_BOOLEANS,
        tuple(map(ranges.constant, dict.fromkeys(map(exact, numbers)))),
        texts.finite(values if len(kinds) == 1 else [value for value in values if type(value) is str])
        if str in kinds else NO_TEXT,
    )
    sketch.listed = found if sketch.listed is ALL_SCALARS else sketch.listed & found
