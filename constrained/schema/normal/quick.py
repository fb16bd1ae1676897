"""Quick answers from keywords alone: a schema has surely a value, or is surely fit to be compiled.

An object is offered its keys only if their values exist, so that entering one asks about every property, most of which
no generation visits.  For ordinary schemas the keywords show it: ``{}``, ``[]``, ``""`` or any number is valid wherever
nothing asks for more.  The exact answer, `normalise.is_never`, makes normal forms, a hundred times as much work; it is
asked where `surely_satisfiable` says nothing.

`surely_compilable` is asked of schemas that nobody has read or checked, so that tools that are never called are never
read; without a compiler it says nothing of any, and all are read at once.

Tested through the exact answers: tests/test_satisfiability.py, and tests/test_formats.py, `test_plain_schemas_compile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from constrained.schema.reading.document import Target
from constrained.schema.reading.keywords import NOTES, OTHER_KEYS, named
from constrained.schema.strings.sets import is_spelled

try:
    from constrained.schema._content import surely_compilable as surely_compilable
except ImportError:  # no compiler
    def surely_compilable(schema: object) -> bool:
        return False

Schema: TypeAlias = Mapping[str, Any]
Targets: TypeAlias = Mapping[tuple[int, str], Target]  # of the references, see `document.Library`

# Keywords that refuse the empty object, the empty array, the empty string or some number.  All others leave one of each
# type, but for a format together with a short length.
_DEMANDING = named(lambda keyword: keyword.demanding)
# What may refuse all the keys, or all the items, that something else demands.
_KEYS = named(lambda of: of.about == "object" and not (of.demanding or of.rest)) - {"properties"}
_ITEMS = named(lambda of: of.about == "array" and not of.demanding) - {"items"}
_LENGTHS = frozenset({"format", "maxLength"})
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_RANGE = frozenset({"minimum", "maximum"})
_DEEPEST = 6  # required values inside required values

_ANY_OF_ALONE = NOTES | {"anyOf"}
_MOST_LOOKED_AT = 3  # alternatives


def surely_satisfiable(schema: Any, targets: Targets, depth: int = 0) -> bool:
    """Return True if a look at the keywords of a checked schema shows a value; False says nothing.

    depth: how deep inside others it is looked at.  Cost: 0.3 µs; for objects, the sum over the required properties.

    >>> surely_satisfiable({"type": "array", "items": {"enum": ["a"]}, "minItems": 2}, {})
    True
    """
    if type(schema) is not dict:
        return schema is True
    demands = _DEMANDING.intersection(schema)
    if not demands:
        return schema.get("type") != [] and not schema.keys() >= _LENGTHS
    kind = schema.get("type")
    if demands == _RANGE:
        low, high = schema["minimum"], schema["maximum"]
        return kind in ("integer", "number") and type(low) is type(high) is int and low <= high
    if len(demands) > 1 or depth >= _DEEPEST:
        return False
    (demand,) = demands
    if demand == "required":
        return kind == "object" and _KEYS.isdisjoint(schema) and _has_required(schema, targets, depth + 1)
    if demand == "minItems":
        return kind == "array" and _ITEMS.isdisjoint(schema) and surely_satisfiable(
            schema.get("items", True), targets, depth + 1)
    if demand == "enum":
        return kind in ("string", None) and _LENGTHS.isdisjoint(schema) and any(
            type(value) is str and is_spelled(value) for value in schema["enum"])
    if demand == "anyOf":
        return schema.keys() <= _ANY_OF_ALONE and any(
            surely_satisfiable(part, targets, depth + 1) for part in schema["anyOf"][:_MOST_LOOKED_AT])
    if demand == "$ref" and len(schema) == 1:
        target = targets.get((id(schema), "$ref"))
        return target is not None and target.dynamic is None and surely_satisfiable(target.schema, targets, depth + 1)
    if demand == "minLength":
        return kind == "string" and _LENGTHS.isdisjoint(schema)
    return demand in _BOUNDS and kind in ("integer", "number")


def _has_required(schema: Schema, targets: Targets, depth: int) -> bool:
    properties, others = schema.get("properties", {}), OTHER_KEYS.isdisjoint(schema)
    for key in schema["required"]:
        if not is_spelled(key) or not surely_satisfiable(properties.get(key, others), targets, depth):
            return False
    return True
