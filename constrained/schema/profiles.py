"""Profiles: a set of switches by one name, and what the practical one changes in a schema.

    exact       the specification's whole language: any order of properties, any whitespace, any spelling, any number
    practical   properties in the order of the schema (optional ones may be left out), objects closed unless the schema
                says otherwise, one spelling on one line (`json.dumps`), numbers that load as int64 and float64, dates
                and times that readers take

JSON sets no bounds to numbers, and RFC 3339 has leap seconds and the year 0; readers raise there or lose digits.  So
each subschema that describes a value by itself gets bounds beside its own keywords:

    integer    -2^63 … 2^63 - 1
    number     the same, and at most ten digits after the point
    date, date-time, time              years from 1, seconds to 59, at most six digits of a second
    duration                           at most four digits a unit
    byte (OpenAPI's)                   Base64

A schema that asks for more by itself (bounds beyond these, a divisor or an interval finer than ten digits, an enum)
keeps what it asks for. Left as they are: conditions, `not`, `contains`, whose narrowing would widen the whole; and
values of any type inside open objects.

Tested against pydantic in tests/test_profiles.py.  Source: ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from constrained.python_types import BASE64
from constrained.schema.reading.keywords import Applies, Holds, applying

PROFILES: dict[str, dict[str, Any]] = {
    "exact": {},
    "practical": {
        "property_order": "schema",
        "closed": True,
        "spelling": "canonical",
        "whitespace": "canonical",
        "numbers": "bounded",
        "formats": "loadable",
    },
}

LEAST, MOST = -(2**63), 2**63 - 1
_FINEST = 1e-10
_NARROW = 1e-6  # an interval that is smaller keeps all its numbers
_OWN = applying(Applies.INSIDE, holds=Holds.SCHEMA)
_LISTS = applying(Applies.INSIDE, Applies.AS_PART, Applies.AS_BRANCH, holds=Holds.LIST)
_MAPS = applying(Applies.INSIDE, Applies.BY_REFERENCE, holds=Holds.MAP)
_HOLDING = frozenset({*_OWN, *_LISTS, *_MAPS})
_LISTED = frozenset({"enum", "const", "$ref", "$dynamicRef", "$recursiveRef", "not", "allOf", "anyOf", "oneOf", "if"})
_YEAR = r"(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])"
_CLOCK = r"\d\d:\d\d:[0-5]\d(?:\.\d{1,6})?"
PATTERNS = {
    "byte": BASE64,
    "date": rf"^{_YEAR}-\d\d-\d\d$",
    "date-time": rf"^{_YEAR}-\d\d-\d\dT{_CLOCK}(?:Z|[+-]\d\d:\d\d)$",
    "time": rf"^{_CLOCK}(?:Z|[+-]\d\d:\d\d)$",
    "duration": r"^P(?:T?\d{1,4}[YMWDHS])+$",
}
SchemaChange = Callable[[dict[str, Any]], dict[str, Any]]


def bounded_numbers(schema: Any) -> Any:
    """Return a copy of a schema whose numbers load as int64 and float64.

    >>> bounded_numbers({"type": "array", "items": {"type": "integer", "minimum": 0}})["items"]
    {'type': 'integer', 'minimum': 0, 'maximum': 9223372036854775807}
    >>> bounded_numbers({"type": ["string", "null"]})
    {'type': ['string', 'null']}
    """
    return _rewritten(schema, _with_bounds)


def loadable_formats(schema: Any) -> Any:
    """Return a copy of a schema whose dates and times are those that readers load.

    >>> loadable_formats({"format": "date"})["pattern"][:21]
    '^(?:[1-9]\\\\d{3}|0[1-9]'
    """
    return _rewritten(schema, _with_patterns)


def _rewritten(schema: Any, change: SchemaChange) -> Any:
    """Return a copy with each subschema that describes a value by itself changed; it shares what is not changed."""
    if not isinstance(schema, dict):
        return schema
    if _HOLDING.isdisjoint(schema):
        return change(schema)
    copy = dict(schema)
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, dict):
            copy[keyword] = {name: _rewritten(part, change) for name, part in value.items()}
        elif keyword in _LISTS and isinstance(value, list):
            copy[keyword] = [_rewritten(part, change) for part in value]
        elif keyword in _OWN:
            copy[keyword] = _rewritten(value, change)
    return change(copy)


def _with_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if not ("number" in kinds or "integer" in kinds) or not _LISTED.isdisjoint(schema):
        return schema
    low, high = _least(schema), _most(schema)
    bounded = dict(schema)
    if low is None:
        if high is not None and high < LEAST:
            return schema
        bounded["minimum"] = LEAST
    if high is None:
        if low is not None and low > MOST:
            return schema
        bounded["maximum"] = MOST
    wide = low is None or high is None or high - low >= _NARROW
    if "number" in kinds and wide and "multipleOf" not in schema and "divisibleBy" not in schema:
        bounded["multipleOf"] = _FINEST
    return bounded


def _least(schema: dict[str, Any]) -> Fraction | None:
    return max(_numbers(schema, ("minimum", "exclusiveMinimum")), default=None)


def _most(schema: dict[str, Any]) -> Fraction | None:
    return min(_numbers(schema, ("maximum", "exclusiveMaximum")), default=None)


def _numbers(schema: dict[str, Any], keywords: tuple[str, ...]) -> list[Fraction]:
    values = [schema[keyword] for keyword in keywords if keyword in schema]
    return [Fraction(str(value)) for value in values if not isinstance(value, (bool, str)) and _is_finite(value)]


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):
        return isinstance(value, int)


def _with_patterns(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("format")
    pattern = PATTERNS.get(name) if isinstance(name, str) else None
    if pattern is None:
        return schema
    if "pattern" in schema:
        return {**schema, "allOf": [*schema.get("allOf", []), {"pattern": pattern}]}
    return {**schema, "pattern": pattern}
