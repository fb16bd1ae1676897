"""Quick answers from keywords alone: a schema has surely a value, or is surely fit to be compiled.

An object is offered its keys only if their values exist, so that entering one asks about every property, most of which
no generation visits.  For ordinary schemas the keywords show it: ``{}``, ``[]``, ``""`` or any number is valid wherever
nothing asks for more.  The exact answer, `normalise.is_never`, makes normal forms, a hundred times as much work; it is
asked where `surely_satisfiable` says nothing.

`surely_compilable` is asked of schemas that nobody has read or checked, so that tools that are never called are never
read: it knows a handful of keywords, and the forms of their values.

Tested through the exact answers: tests/test_satisfiability.py, and tests/test_formats.py, `test_plain_schemas_compile`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from constrained.schema.reading.document import Target
from constrained.schema.reading.keywords import NOTES, OTHER_KEYS, TYPES, named
from constrained.schema.strings.sets import is_spelled

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

MAX_DEPTH = 8  # of schemas that nobody has read
_ANY_OF_ALONE = NOTES | {"anyOf"}
_MOST_LOOKED_AT = 3  # alternatives
_TYPES = frozenset(TYPES)
_PAIRS = {"minLength": "maxLength", "minItems": "maxItems", "minProperties": "maxProperties", "minimum": "maximum"}
_NUMBERS = frozenset({*_PAIRS, *_PAIRS.values()}) - {"minProperties", "maxProperties"}


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


def surely_compilable(schema: object, depth: int = MAX_DEPTH) -> bool:
    """Return whether a schema, closed or not, surely allows some value and can be compiled; False says nothing.

    Cost: 0.3 µs a keyword.

    >>> surely_compilable({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]})
    True
    >>> surely_compilable({"type": "string", "pattern": "^a"})
    False
    """
    if type(schema) is not dict or not depth:
        return False
    bounded = False
    for key, value in schema.items():
        if key == "type":
            if not (value in _TYPES if type(value) is str else _are_types(value)):
                return False
        elif key in NOTES:
            continue
        elif key == "properties":
            if type(value) is not dict:
                return False
            for name, part in value.items():
                if type(name) is not str or not surely_compilable(part, depth - 1):
                    return False
        elif key in _CHECKS:
            if not _CHECKS[key](value, schema, depth):
                return False
        elif key in _NUMBERS and type(value) is int and 0 <= value < 1 << 31:
            bounded = True
        else:
            return False
    return not bounded or _bounds_agree(schema)


def _are_types(value: Any) -> bool:
    return type(value) is list and bool(value) and all(type(name) is str and name in _TYPES for name in value)


def _are_required(value: Any, schema: Schema, depth: int) -> bool:
    properties = schema.get("properties", {})
    return type(value) is list and schema.get("type") == "object" and type(properties) is dict and all(
        type(name) is str and name in properties and is_spelled(name) for name in value)


def _are_members(value: Any, schema: Schema, depth: int) -> bool:
    return type(value) is list and bool(value) and schema.get("type") in ("string", None) and all(
        type(member) is str and is_spelled(member) for member in value)


_CHECKS: dict[str, Callable[[Any, Schema, int], bool]] = {
    "required": _are_required,
    "enum": _are_members,
    "items": lambda value, _, depth: surely_compilable(value, depth - 1),
    "additionalProperties": lambda value, *_: value is False,
}


def _bounds_agree(schema: Schema) -> bool:
    """Return whether no lower bound is above its upper one, and they do not meet an enum, in a schema with bounds."""
    if "enum" in schema or not isinstance(schema.get("type"), str):
        return False
    return not any(low in schema and schema[low] > schema.get(high, math.inf) for low, high in _PAIRS.items())
