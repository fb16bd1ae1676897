"""Type names of tool definitions → JSON Schema.

Three dialects: Python annotations as text (``int``, ``tuple[int, int]``); the names of the Berkeley function calling
leaderboard, which come from Python, Java and JavaScript; and OpenAPI 3.0 as Gemini writes it (``STRING``,
``nullable``).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from constrained.errors import SchemaError, shown
from constrained.schema.reading.keywords import Applies, Holds, applying, named
from constrained.schema.reading.notes import Note, report
from constrained.work import spend

Schema = dict[str, Any]

_STANDARD = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_FOREIGN: dict[str, str | None] = {  # None: any value
    "dict": "object", "HashMap": "object", "float": "number", "double": "number", "long": "integer", "String": "string",
    "char": "string",
    "Boolean": "boolean", "Array": "array", "ArrayList": "array", "tuple": "array", "any": None, "": None,
    "int": "integer", "str": "string", "bool": "boolean", "list": "array",
    "STRING": "string", "NUMBER": "number", "INTEGER": "integer", "BOOLEAN": "boolean", "ARRAY": "array",
    "OBJECT": "object",
    "NULL": "null", "TYPE_UNSPECIFIED": None,
}  # fmt: skip
_PYTHON: dict[str, Schema] = {
    "int": {"type": "integer"}, "float": {"type": "number"}, "str": {"type": "string"}, "bool": {"type": "boolean"},
    "list": {"type": "array"}, "tuple": {"type": "array"}, "dict": {"type": "object"}, "None": {"type": "null"},
    "Any": {}, "any": {},
    "List": {"type": "array"}, "Tuple": {"type": "array"}, "Dict": {"type": "object"}, "object": {},
    "string": {"type": "string"}, "integer": {"type": "integer"}, "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "array": {"type": "array"},
}  # fmt: skip


def from_python(annotation: object, where: str) -> Schema:
    """Return the schema of a Python annotation given as text; None: any value.

    >>> from_python("tuple[int, str]", "")
    {'type': 'array', 'prefixItems': [{'type': 'integer'}, {'type': 'string'}], 'minItems': 2, 'maxItems': 2}
    >>> from_python("Literal['a', 'b'] | None", "")
    {'anyOf': [{'enum': ['a', 'b']}, {'type': 'null'}]}
    """
    if annotation is None:
        return {}
    if isinstance(annotation, str):
        try:
            return _annotation(ast.parse(annotation.strip(), mode="eval").body)
        except (SyntaxError, ValueError, KeyError, IndexError, TypeError, RecursionError, MemoryError):
            pass  # ast.parse raises the last two for texts that nest too deeply
    raise SchemaError(
        f"unknown type {shown(annotation, 200)}", where=where, because="it is no Python annotation of JSON values",
        instead="int, float, str, bool, list[…], dict, tuple[…], Optional[…], Literal[…], Any",
    )


def _annotation(node: ast.expr) -> Schema:
    """Raise KeyError for what is no annotation of JSON values."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return {"anyOf": [_annotation(node.left), _annotation(node.right)]}
    if isinstance(node, ast.Subscript):
        arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return _generic(_name(node.value), arguments)
    return dict(_PYTHON[_name(node)])


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant):
        return str(node.value)
    raise KeyError(ast.dump(node))


def _generic(name: str, arguments: list[ast.expr]) -> Schema:
    if name == "Literal":
        return {"enum": [ast.literal_eval(argument) for argument in arguments]}
    if name == "Annotated":
        return _annotation(arguments[0])
    if name == "Optional":
        return {"anyOf": [_annotation(arguments[0]), {"type": "null"}]}
    if name in ("tuple", "Tuple"):
        if not arguments:
            return {"type": "array", "maxItems": 0}
        if isinstance(arguments[-1], ast.Constant) and arguments[-1].value is ...:
            return {"type": "array", "items": _annotation(arguments[0])}
        size = len(arguments)
        return {
            "type": "array",
            "prefixItems": [_annotation(argument) for argument in arguments],
            "minItems": size,
            "maxItems": size,
        }
    if not arguments:
        raise KeyError(name)
    if name == "Union":
        return {"anyOf": [_annotation(argument) for argument in arguments]}
    if name in ("dict", "Dict"):
        key, value = arguments
        if _annotation(key) != {"type": "string"}:
            raise KeyError(name)
        return {"type": "object", "additionalProperties": _annotation(value)}
    if name in ("list", "List"):
        return {"type": "array", "items": _annotation(arguments[0])}
    raise KeyError(name)


_SINGLE = frozenset(applying(*Applies, holds=Holds.SCHEMA))
_LISTS = frozenset(applying(*Applies, holds=Holds.LIST))
_MAPS = frozenset(applying(*Applies, holds=Holds.MAP))
_NESTED = _SINGLE | _LISTS | _MAPS


def standard_types(schema: Schema, where: str) -> Schema:
    """Return a schema whose foreign type names are JSON Schema's; the same object where there was nothing to do.

    With a foreign name goes the rest of that dialect: an enum on an array is meant for its items.  Null where the names
    of properties belong means that there are none; that is warned of.  Schemas that already use standard names keep
    their meaning to the letter.

    >>> standard_types({"type": "dict", "properties": {"n": {"type": "float"}}}, "")
    {'type': 'object', 'properties': {'n': {'type': 'number'}}}
    """
    changed: Schema = {}
    spend(2)
    kind = schema.get("type")
    if isinstance(kind, str) and kind not in _STANDARD:
        schema = _translated(schema, kind, where)
    if "nullable" in schema:
        schema = _with_null(schema, where)
    for key in _COLLECTIONS:
        if key in schema and schema[key] is None:
            schema = _without_null(schema, key, where)
    for key, value in schema.items():
        if key not in _NESTED:
            continue
        if key in _MAPS and isinstance(value, dict):
            new: object = _each(value, f"{where}/{key}")
        elif key in _LISTS and isinstance(value, list):
            new = list(_each(dict(enumerate(value)), f"{where}/{key}").values())
        elif isinstance(value, dict):
            new = standard_types(value, f"{where}/{key}")
        else:
            continue
        if new is not value and new != value:
            changed[key] = new
    return {**schema, **changed} if changed else schema


def _each(schemas: Mapping[Any, Any], where: str) -> Mapping[Any, Any]:
    new = {
        key: standard_types(value, f"{where}/{key}") if isinstance(value, dict) else value
        for key, value in schemas.items()
    }
    return new if any(new[key] is not schemas[key] for key in new) else schemas


def _with_null(schema: Schema, where: str) -> Schema:
    """Return the schema that OpenAPI's ``nullable`` stands for: with true, null is a value too."""
    nullable = schema["nullable"]
    if not isinstance(nullable, bool):
        raise SchemaError(
            f"'nullable' is {shown(nullable, 100)}", where=f"{where}/nullable", because="it is true or false",
            instead="true",
        )
    plain = {key: value for key, value in schema.items() if key != "nullable"}
    if not nullable or not plain.keys() - _NOTED:
        return plain
    if isinstance(plain.get("type"), str) and not plain.keys() & _WHOLE:
        return {**plain, "type": [plain["type"], "null"]}
    notes = {key: plain[key] for key in _NOTED if key in plain}
    return {**notes, "anyOf": [{key: value for key, value in plain.items() if key not in _NOTED}, {"type": "null"}]}


def _without_null(schema: Schema, key: str, where: str) -> Schema:
    """Return a schema in which null stands for an empty collection, as servers in Go write one; noted, not silent."""
    report([Note(f"{where}/{key}", "null", f"read as an empty {key!r}, which servers write so")])
    found = {name: value for name, value in schema.items() if name != key}
    return {**found, "properties": {}} if key == "properties" else found


_COLLECTIONS = ("properties", "required")
_NOTED = (
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "$comment",
    "$schema",
    "$id",
    "$defs",
    "definitions",
)
_WHOLE = named(lambda keyword: keyword.demanding and not keyword.about)  # apply to null too


def _translated(schema: Schema, kind: str, where: str) -> Schema:
    if kind not in _FOREIGN:
        raise SchemaError(
            f"unknown type {shown(kind, 200)}",
            where=f"{where}/type",
            because="neither JSON Schema nor a known tool dialect has it",
            instead="one of: " + ", ".join(sorted(_STANDARD)),
        )
    standard, members, items = _FOREIGN[kind], schema.get("enum"), schema.get("items")
    translated = {
        key: standard if key == "type" else value
        for key, value in schema.items()
        if key != "type" or standard is not None
    }
    if standard == "array" and isinstance(members, list) and not any(isinstance(member, list) for member in members):
        del translated["enum"]
        translated["items"] = {**(items if isinstance(items, dict) else {}), "enum": members}
    return translated
