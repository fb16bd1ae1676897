"""A quick yes to "has this schema a value?", from its keywords alone.

An object is offered its keys only if their values exist, so that entering one asks about every property, most of which
no generation visits.  For ordinary schemas the keywords show it: ``{}``, ``[]``, ``""`` or any number is valid wherever
nothing asks for more.  The exact answer, `normalise.is_never`, makes normal forms, a hundred times as much work; it is
asked where this says nothing.

Tested through the exact answer: tests/test_satisfiability.py checks a sample of its answers.

Satisfiable and compilable at a glance: a yes for schemas of a few common keywords, before they are read.

`quick` answers the first half for a schema that has been read; this answers both for one that nobody has looked at yet,
so that tools that are never called are never read.

Tested: no plain schema is refused when its time comes (tests/test_formats.py, `test_plain_schemas_compile`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from constrained.schema.reading.document import Target
from constrained.schema.reading.keywords import OTHER_KEYS, TYPES, named
from constrained.schema.strings.sets import is_spelled

try:
    from constrained.schema._scan import Glance
except ImportError:  # no compiler
    Glance = None

Targets: TypeAlias = Mapping[tuple[int, str], Target]  # of the references, see `document.Library`

# Keywords that refuse the empty object, the empty array, the empty string or some number.  All others leave one of each
# type, but for a format together with a short length.
_DEMANDING = named(lambda keyword: keyword.demanding)
# What may refuse all the keys, or all the items, that something else demands.
_KEYS = named(lambda of: of.about == "object" and not (of.demanding or of.rest)) - {"properties"}
_ITEMS = named(lambda of: of.about == "array" and not of.demanding) - {"items"}
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
# What says something, or changes what others say; all other words do not, in any dialect.
_SAYING = named(lambda _: True) | {"nullable", "id", "$id", "$schema", "$vocabulary"}
_TYPELESS = frozenset({"$ref", "nullable"})  # beside these, "type" may not be all there is to say of types
_LENGTHS = frozenset({"format", "minLength", "maxLength"})
_ESCAPED = r"\\[dws.\-/+*?()\[\]{}|^$]"
_OTHER = r"\x00-\x1f\x7f-\U0010ffff"  # control characters, and all beyond ASCII
# patterns of characters, classes and plain groups, perhaps repeated, with anchors at the ends: each finds some text
_FOUND = re.compile(
    rf"\^?(?:[^\\^$\[\](){{}}{_OTHER}]|{_ESCAPED}|\[\^?(?:[^\\^\[\]{_OTHER}]|{_ESCAPED})+\]"
    r"|\{\d{1,2}(?:,\d{0,2})?\}|\((?:\?:|(?!\?))|\))*\$?"
)
ROOM = 64  # characters; the shortest text of a format has at most 36, those of a UUID
_DEEPEST = 6  # required values inside required values
_MOST_LOOKED_AT = 3  # alternatives
_MOST_PARTS = 16  # of a constant
_LARGEST = 1 << 53  # every integer below is written in every profile


def looks_live(schema: Any, targets: Targets, depth: int = 0) -> bool:
    """As `is_plainly_live`, in Python."""
    if type(schema) is not dict:
        return schema is True
    if _DEMANDING.isdisjoint(schema):
        return schema.get("type") != [] and ("format" not in schema or _has_room(schema.get("maxLength", ROOM)))
    return depth < _DEEPEST and _meets_demands(schema, targets, depth)


def _has_room(most: Any) -> bool:
    """Return whether each format has a text of one character to so many."""
    return type(most) is int and most >= ROOM


def _meets_demands(schema: dict[str, Any], targets: Targets, depth: int) -> bool:
    """Return whether a value is seen that meets what demanding keywords ask for."""
    demands = _DEMANDING.intersection(schema)
    if len(demands) > 1:
        return demands <= _BOUNDS and _has_number(schema, demands)
    (demand,) = demands
    if demand == "$ref":
        target = targets.get((id(schema), "$ref")) if _says_only("$ref", schema) else None
        return target is not None and target.dynamic is None and is_plainly_live(target.schema, targets, depth + 1)
    if demand == "required":
        return _has_required(schema, targets, depth)
    if demand == "minItems":
        return _has_items(schema, targets, depth)
    if demand == "enum":
        return _has_member(schema, schema["enum"])
    if demand == "const":
        return _has_member(schema, [schema["const"]])
    if demand == "anyOf":
        return _has_alternative(schema, targets, depth)
    if demand == "oneOf":
        return _has_one_of_a_type(schema, targets, depth)
    if demand == "pattern":
        return _has_match(schema)
    if demand == "allOf":
        parts = schema["allOf"]
        return len(parts) == 1 and _says_only("allOf", schema) and is_plainly_live(parts[0], targets, depth + 1)
    if demand == "minLength":
        return _has_length(schema)
    return demand in _BOUNDS and _has_number(schema, demands)


def _says_only(keyword: str, schema: dict[str, Any]) -> bool:
    return len(schema) == 1 or _SAYING.isdisjoint(schema.keys() - {keyword})


def _has_number(schema: dict[str, Any], demands: frozenset[str]) -> bool:
    if schema.get("type") not in ("integer", "number"):
        return False
    if len(demands) == 1:
        return True
    low, high = schema.get("minimum"), schema.get("maximum")
    return len(demands) == 2 and type(low) is int and type(high) is int and low <= high


def _has_length(schema: dict[str, Any]) -> bool:
    """Return whether a string has a length in bounds; each format has texts of some characters."""
    if schema.get("type") != "string":
        return False
    if "format" in schema:
        return bool(schema["minLength"] <= 1) and _has_room(schema.get("maxLength", ROOM))
    return bool(schema["minLength"] <= schema.get("maxLength", math.inf))


def _has_alternative(schema: dict[str, Any], targets: Targets, depth: int) -> bool:
    """Return whether nothing stands beside the alternatives and one of the first shows a value."""
    return _says_only("anyOf", schema) and any(
        is_plainly_live(part, targets, depth + 2) for part in schema["anyOf"][:_MOST_LOOKED_AT]
    )


def _has_one_of_a_type(schema: dict[str, Any], targets: Targets, depth: int) -> bool:
    """Return whether nothing stands beside alternatives of different types, and one of the first shows a value: it is
    none of the others.
    """
    if not _says_only("oneOf", schema):
        return False
    met: set[str] = set()
    for part in schema["oneOf"]:
        kinds = _kinds(part, targets)
        if not kinds or not met.isdisjoint(kinds):
            return False
        met |= kinds
    return any(is_plainly_live(part, targets, depth + 2) for part in schema["oneOf"][:_MOST_LOOKED_AT])


def _kinds(schema: Any, targets: Targets) -> set[str]:
    """Return the types that a schema, or what it refers to, allows at most; none: it does not say."""
    if type(schema) is dict and "$ref" in schema and _says_only("$ref", schema):
        target = targets.get((id(schema), "$ref"))
        schema = None if target is None or target.dynamic is not None else target.schema
    if type(schema) is not dict or "type" not in schema or not _TYPELESS.isdisjoint(schema):
        return set()
    kinds = schema["type"]
    return {"number" if kind == "integer" else kind for kind in ((kinds,) if type(kinds) is str else kinds)}


def _has_match(schema: dict[str, Any]) -> bool:
    """Return whether a string may have a pattern that surely finds something, and nothing else is said of strings."""
    kinds = schema.get("type", "string")
    plain = "string" in (kinds if type(kinds) is list else (kinds,)) and _LENGTHS.isdisjoint(schema)
    return plain and type(schema["pattern"]) is str and _FOUND.fullmatch(schema["pattern"]) is not None


def _has_required(schema: dict[str, Any], targets: Targets, depth: int) -> bool:
    kinds, required = schema.get("type", "null"), schema["required"]
    if kinds != "object" and kinds != ["object"]:
        return bool(kinds)
    if not _KEYS.isdisjoint(schema) or type(required) is not list:
        return False
    properties = schema.get("properties", {})
    open_ = OTHER_KEYS.isdisjoint(schema)
    for key in required:
        spelled = key.isascii() or is_spelled(key)
        if not spelled or not is_plainly_live(properties.get(key, open_), targets, depth + 1):
            return False
    return True


def _has_items(schema: dict[str, Any], targets: Targets, depth: int) -> bool:
    return (
        schema.get("type") == "array"
        and _ITEMS.isdisjoint(schema)
        and is_plainly_live(schema.get("items", True), targets, depth + 1)
    )


def _has_member(schema: dict[str, Any], values: list[Any]) -> bool:
    """Return whether an enumeration shows a value: nothing stands beside it, or it has a string (that can be spelled),
    by far the most frequent kind.
    """
    if len(schema) == 1 and any(_is_written(value) for value in values[:_MOST_LOOKED_AT]):
        return True
    kinds = schema.get("type", "string")
    plain = (
        "string" in (kinds if type(kinds) is list else (kinds,))
        and "maxLength" not in schema
        and "format" not in schema
    )
    return plain and any(type(value) is str and is_spelled(value) for value in values)


def _is_written(constant: Any) -> bool:
    """Return whether a small constant is of strings, integers, booleans and null that can be spelled."""
    todo = [constant]
    for part in todo:
        if type(part) is list:
            todo.extend(part)
        elif type(part) is dict:
            todo.extend(part)
            todo.extend(part.values())
        elif type(part) is str:
            if not is_spelled(part):
                return False
        elif part is not None and type(part) is not bool and (type(part) is not int or abs(part) > _LARGEST):
            return False
        if len(todo) > _MOST_PARTS:
            return False
    return True


def _glance() -> Callable[..., bool]:
    """Return what looks: compiled, where there was a compiler."""
    if Glance is None:
        return looks_live
    glance: Callable[..., bool] = Glance(
        _meets_demands, _DEEPEST, room=ROOM, demanding=_DEMANDING, bounds=_BOUNDS, keys=_KEYS, items=_ITEMS,
        other_keys=OTHER_KEYS,
    )
    return glance


# Return True if a look at the keywords of a (well-formed) schema shows a value; False says nothing.  Of a schema, the
# targets of references, and how deep inside others it is looked at.
# Cost: 0.1 µs for most schemas; for objects, the sum over the required properties.
is_plainly_live = _glance()


try:
    from constrained.schema._scan import PlainSight
except ImportError:  # no compiler
    PlainSight = None

Schema: TypeAlias = Mapping[str, Any]

MAX_DEPTH = 8  # of plain schemas

_TYPES = frozenset(TYPES)
NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
_PAIRS = {"minLength": "maxLength", "minItems": "maxItems", "minProperties": "maxProperties", "minimum": "maximum"}
_NUMBERS = frozenset({*_PAIRS, *_PAIRS.values()}) - {"minProperties", "maxProperties"}


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
    return all(schema.get(low, 0) <= schema.get(high, math.inf) for low, high in _PAIRS.items())


def _sight() -> Callable[[object], bool]:
    """Return what looks: compiled, where there was a compiler."""
    if PlainSight is None:
        return looks_plain
    sight: Callable[[object], bool] = PlainSight(_TYPES, NOTES, _NUMBERS, MAX_DEPTH, is_spelled, _bounds_agree)
    return sight


# Return whether a schema, closed or not, surely allows some value and can be compiled; False says nothing.  0.03 µs a
# keyword, 0.3 µs in Python.
is_plain = _sight()
