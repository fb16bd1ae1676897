"""Satisfiable and compilable at a glance: a yes for schemas of a few common keywords, before they are read.

`quick` answers the first half for a schema that has been read; this answers both for one that nobody has looked at yet,
so that tools that are never called are never read.

Tested: no plain schema is refused when its time comes (tests/test_formats.py, `test_plain_schemas_compile`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from constrained.schema.reading.keywords import TYPES
from constrained.schema.strings.sets import is_spelled

try:
    from constrained.schema._scan import PlainSight
except ImportError:  # no compiler
    PlainSight = None

Schema: TypeAlias = Mapping[str, Any]

MAX_DEPTH = 8  # of plain schemas

_TYPES = frozenset(TYPES)
NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
_LENGTHS = {"minLength": "maxLength", "minItems": "maxItems", "minProperties": "maxProperties", "minimum": "maximum"}
_NUMBERS = frozenset({*_LENGTHS, *_LENGTHS.values()}) - {"minProperties", "maxProperties"}


def without_notes(schema: Schema) -> Schema:
    """Return a plain schema without the words that are for people; those of its parts stay.

    >>> without_notes({"type": "string", "description": "A city."})
    {'type': 'string'}
    """
    return schema if NOTES.isdisjoint(schema) else {key: schema[key] for key in schema if key not in NOTES}


def looks_plain(schema: object, depth: int = MAX_DEPTH) -> bool:
    """As `is_plain`, in Python.

    >>> looks_plain({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]})
    True
    >>> looks_plain({"type": "string", "pattern": "^a"})
    False
    """
    if type(schema) is not dict or not depth:
        return False
    bounded = False
    for key, value in schema.items():
        check = _CHECKS.get(key)
        if check is not None:
            if not check(value, schema, depth):
                return False
        elif key not in NOTES:
            if key not in _NUMBERS or not _is_bound(value):
                return False
            bounded = True
    return not bounded or _bounds_agree(schema)


# PERF: loops, half as long as what ruff would write, as nearly all schemas of tools are looked at here and nowhere else


def _is_type(value: Any, schema: Schema, depth: int) -> bool:
    if type(value) is str:
        return value in _TYPES
    return type(value) is list and bool(value) and all(type(name) is str and name in _TYPES for name in value)


def _are_properties(value: Any, schema: Schema, depth: int) -> bool:
    if type(value) is not dict:
        return False
    for name, part in value.items():  # noqa: SIM110
        if type(name) is not str or not looks_plain(part, depth - 1):
            return False
    return True


def _are_required(value: Any, schema: Schema, depth: int) -> bool:
    if type(value) is not list or schema.get("type") != "object":
        return False
    properties = schema.get("properties", {})
    if type(properties) is not dict:
        return False
    for name in value:  # noqa: SIM110
        if type(name) is not str or name not in properties or not is_spelled(name):
            return False
    return True


def _are_members(value: Any, schema: Schema, depth: int) -> bool:
    if type(value) is not list or not value or schema.get("type") not in ("string", None):
        return False
    for member in value:  # noqa: SIM110
        if type(member) is not str or not is_spelled(member):
            return False
    return True


_CHECKS: dict[str, Callable[[Any, Schema, int], bool]] = {
    "type": _is_type,
    "properties": _are_properties,
    "required": _are_required,
    "enum": _are_members,
    "items": lambda value, _, depth: looks_plain(value, depth - 1),
    "additionalProperties": lambda value, *_: value is False,
}


def _is_bound(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 31


def _bounds_agree(schema: Schema) -> bool:
    """Return whether no lower bound is above its upper one, and they do not meet an enum, in a schema with bounds."""
    if "enum" in schema or not isinstance(schema.get("type"), str):
        return False
    return all(schema.get(low, 0) <= schema.get(high, math.inf) for low, high in _LENGTHS.items())


def _sight() -> Callable[[object], bool]:
    """Return what looks: compiled, where there was a compiler."""
    if PlainSight is None:
        return looks_plain
    sight: Callable[[object], bool] = PlainSight(_TYPES, NOTES, _NUMBERS, MAX_DEPTH, is_spelled, _bounds_agree)
    return sight


# Return whether a schema, closed or not, surely allows some value and can be compiled; False says nothing.  0.03 µs a
# keyword, 0.3 µs in Python.
is_plain = _sight()
