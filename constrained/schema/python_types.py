"""Python types and callables → JSON Schemas: what people already hold instead of a schema.

Read here: ``None``, ``bool``, ``int``, ``float``, ``str``, ``list[…]``, ``tuple[…]``, ``set[…]``, ``dict[…, …]``,
unions, ``Optional``, ``Literal``, ``Enum``, ``Annotated``, ``TypedDict``, ``NamedTuple``, dataclasses, dates and times,
``UUID``, ``Decimal``, addresses of the internet, paths, other names of types, what pydantic knows (`pydantic_types`)
and, for tools, callables with type hints.

A type that JSON has no values for raises with the place; nothing is read as "any value" but ``Any`` and ``object``.
Classes become ``$defs`` entries that are referred to, so that recursive ones work.  Objects of classes are closed, as
their constructors are. Left out: validators and serialisers, which only run in Python.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import inspect
import ipaddress
import pathlib
import re
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin

from constrained.errors import SchemaError
from constrained.schema.pydantic_types import (
    BOUNDS,
    is_adapter,
    is_alias,
    is_own,
    listed_keys,
    schema_of_own,
    written_keys,
)
from constrained.work import spend

Schema = dict[str, Any]

_SCALARS: dict[Any, Schema] = {
    type(None): {"type": "null"}, None: {"type": "null"}, bool: {"type": "boolean"}, int: {"type": "integer"},
    float: {"type": "number"}, str: {"type": "string"}, Any: {}, object: {},
    datetime.datetime: {"type": "string", "format": "date-time"}, datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"}, datetime.timedelta: {"type": "string", "format": "duration"},
    uuid.UUID: {"type": "string", "format": "uuid"}, pathlib.Path: {"type": "string", "pattern": r"^[^\x00]*$"},
    ipaddress.IPv4Address: {"type": "string", "format": "ipv4"},
    ipaddress.IPv6Address: {"type": "string", "format": "ipv6"},
    decimal.Decimal: {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^-?\d+(\.\d+)?$"}]},
    list: {"type": "array"}, tuple: {"type": "array"}, set: {"type": "array", "uniqueItems": True},
    frozenset: {"type": "array", "uniqueItems": True}, dict: {"type": "object"},
}  # fmt: skip
_LISTS = (
    list,
    collections.deque,
    collections.abc.Sequence,
    collections.abc.Iterable,
    collections.abc.Collection,
    collections.abc.MutableSequence,
)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_LENGTHS = {
    "min_length": ("minLength", "minItems", "minProperties"),
    "max_length": ("maxLength", "maxItems", "maxProperties"),
}
_SIZED = {"string": 0, "array": 1, "object": 2}


def is_python_type(value: object) -> bool:
    """Return whether a value is a type that `schema_of` reads, as opposed to a schema, a text or a number."""
    if isinstance(value, (str, bytes, int, float, dict, list, tuple)) and not isinstance(value, type):
        return False
    if isinstance(value, (type, typing.TypeVar, typing.NewType)) or value is Any or get_origin(value) is not None:
        return True
    return is_alias(value) or is_adapter(value)


def schema_of(kind: object, where: str = "#", *, practical: bool = False) -> Schema:
    """Return the JSON Schema of a Python type; practical: what pydantic's own schemas leave to its validators is in it,
    as far as a schema can say it, see `pydantic_types`.

    Raises: SchemaError: JSON has no values of the type, or its hints cannot be resolved.

    >>> schema_of(list[int] | None)
    {'anyOf': [{'type': 'array', 'items': {'type': 'integer'}}, {'type': 'null'}]}
    """
    reader = _Reader(practical=practical)
    schema = reader.read(kind, where)
    return {**schema, "$defs": reader.definitions} if reader.definitions else schema


def schema_of_callable(function: Callable[..., Any]) -> tuple[str, str, Schema]:
    """Return the name, the description and the schema of the keyword arguments of a callable.

    Descriptions come from the docstring: its first paragraph, and the entries of ``Args:`` as Google's style writes
    them.  Parameters without a default are required; a parameter without a hint takes any value.

    Raises: SchemaError: it has positional-only parameters or ``*args``, or a hint is no type of JSON values.
    """
    name = getattr(function, "__name__", type(function).__name__)
    where = f"callable {name!r}"
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # hints that are texts are evaluated, and may raise anything
        because = str(error)[:300]
        raise SchemaError(
            f"cannot read the parameters of {name!r}",
            where=where,
            because=because,
            instead="a function with type hints",
        ) from error
    summary, notes = _docstring(inspect.getdoc(function) or "")
    reader, properties, required, closed = _Reader(), {}, [], True
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            closed = False
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise SchemaError(
                f"cannot call {name!r} by keywords",
                where=f"{where} parameter {parameter.name!r}",
                because="it is only taken by position",
                instead="a parameter that has a name",
            )
        schema = dict(reader.read(hints.get(parameter.name, Any), f"{where} parameter {parameter.name!r}"))
        if parameter.name in notes:
            schema["description"] = notes[parameter.name]
        properties[parameter.name] = schema
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    found: Schema = {"type": "object", "properties": properties, "required": required}
    if closed:
        found["additionalProperties"] = False
    return name, summary, {**found, "$defs": reader.definitions} if reader.definitions else found


class _Reader:
    """Types being read, and the definitions of classes met so far: class → name."""

    def __init__(self, *, practical: bool = False) -> None:
        self.practical = practical
        self.definitions: dict[str, Schema] = {}
        self._names: dict[Any, str] = {}

    def read(self, kind: Any, where: str) -> Schema:
        spend(5)
        if (schema := _scalar(kind)) is not None:
            return schema
        if (own := self._own(kind)) is not None:
            return own
        if isinstance(kind, typing.NewType):
            return self.read(kind.__supertype__, where)
        if is_alias(kind):
            return self.read(kind.__value__, where)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is not None:
            return self._generic(origin, arguments, where)
        if isinstance(kind, type):
            return self._class(kind, where)
        raise _unknown(kind, where)

    def _generic(self, origin: Any, arguments: tuple[Any, ...], where: str) -> Schema:
        if origin is Literal:
            return {"enum": [member.value if isinstance(member, enum.Enum) else member for member in arguments]}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.read(argument, where) for argument in arguments]}
        if origin is typing.Annotated:
            return _annotated(self.read(arguments[0], where), arguments[1:])
        if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
            return self.read(arguments[0], where)
        if origin in _MAPPINGS:
            values: Schema = {"type": "object", "additionalProperties": self.read(arguments[1], where)}
            keys = self._keys(arguments[0], f"{where} key")
            return {**values, "propertyNames": keys} if keys else values
        if origin in _SETS:
            return {"type": "array", "items": self.read(arguments[0], where), "uniqueItems": True}
        if origin is tuple:
            return self._tuple(arguments, where)
        if origin in _LISTS:
            return {"type": "array", "items": self.read(arguments[0], where)}
        if isinstance(origin, type):
            return self._class(origin, where)
        raise _unknown(origin, where)

    def _keys(self, kind: Any, where: str) -> Schema:
        """Return what the keys of an object may be; nothing: any text."""
        if get_origin(kind) in (Union, types.UnionType):
            found = [self._keys(part, where) for part in get_args(kind) if part is not type(None)]
            return {} if {} in found else {"anyOf": found}
        listed = kind if isinstance(kind, enum.EnumMeta) else get_args(kind) if get_origin(kind) is Literal else None
        if listed is not None:
            schema = listed_keys(listed, numbers=isinstance(kind, type) and issubclass(kind, (int, float)))
        else:
            schema = {"type": "integer"} if kind is int else self.read(kind, where)
        target = self.definitions.get(str(schema.get("$ref", "")).rpartition("/")[2], schema)
        names = written_keys({"type": "number"} if kind is decimal.Decimal else target)
        if names is None and target and target.get("type") != "string" and not target.get("enum"):
            raise _unknown(kind, where, "the keys of JSON objects are texts")
        names = schema if names is None else names
        return {} if names == {"type": "string"} else names

    def _tuple(self, arguments: tuple[Any, ...], where: str) -> Schema:
        if len(arguments) == 2 and arguments[1] is ...:
            return {"type": "array", "items": self.read(arguments[0], where)}
        items = [self.read(argument, where) for argument in arguments]
        if not items:
            return {"type": "array", "maxItems": 0}
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def _class(self, kind: type, where: str) -> Schema:
        if issubclass(kind, enum.Enum):
            return {"enum": [member.value for member in kind]}
        if kind not in self._names:
            fields = _fields(kind, where)
            self._names[kind] = name = self._free(kind.__name__)
            self.definitions[name] = {}
            self.definitions[name] = self._object(fields, f"{where} {kind.__name__}")
        return {"$ref": f"#/$defs/{self._names[kind]}"}

    def _own(self, kind: Any) -> Schema | None:
        """Return a type's own schema, which pydantic knows, its definitions moved to ours."""
        schema = schema_of_own(kind, practical=self.practical) if is_own(kind) else None
        for name, definition in schema.pop("$defs", {}).items() if schema is not None else ():
            if self.definitions.setdefault(name, definition) != definition:
                raise SchemaError(
                    f"two models named {name!r}",
                    because="a reference would not say which one it means",
                    instead="rename one",
                )
        return schema

    def _free(self, name: str) -> str:
        number, free = 1, name
        while free in self.definitions:
            number += 1
            free = f"{name}{number}"
        return free

    def _object(self, fields: list[tuple[str, Any, bool]], where: str) -> Schema:
        properties = {name: self.read(hint, f"{where} field {name!r}") for name, hint, _ in fields}
        required = [name for name, _, is_required in fields if is_required]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _scalar(kind: Any) -> Schema | None:
    try:
        return dict(_SCALARS[kind]) if kind in _SCALARS else None
    except TypeError:  # not hashable: no type either
        return None


def _fields(kind: type, where: str) -> list[tuple[str, Any, bool]]:
    """Return (name, hint, required) of a class whose instances are objects with fields."""
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception as error:  # as above
        raise SchemaError(f"cannot read the fields of {kind.__name__!r}", where=where, because=str(error)) from error
    if dataclasses.is_dataclass(kind):
        empty = dataclasses.MISSING
        fields = [field for field in dataclasses.fields(kind) if field.init]
        return [(f.name, hints[f.name], f.default is empty and f.default_factory is empty) for f in fields]
    if _is_typed_dict(kind):
        names: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
        return [(name, hint, _is_required(hint, name in names)) for name, hint in hints.items()]
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        defaults = getattr(kind, "_field_defaults", {})
        return [(name, hints.get(name, Any), name not in defaults) for name in kind._fields]
    raise _unknown(kind, where)


def _is_typed_dict(kind: type) -> bool:
    """Return whether a class is a TypedDict, those of typing_extensions included, which pydantic asks for before Python
    3.12.
    """
    return typing.is_typeddict(kind) or (issubclass(kind, dict) and hasattr(kind, "__required_keys__"))


def _is_required(hint: Any, by_class: bool) -> bool:
    """Return whether a key of a TypedDict is required; hints that are texts hide their words from the class."""
    origin = get_origin(hint)
    return origin is typing.Required or (by_class and origin is not typing.NotRequired)


def _annotated(schema: Schema, notes: tuple[Any, ...]) -> Schema:
    """Return a schema with what annotations say about bounds and lengths; other notes are for other readers."""
    found = dict(schema)
    for note in notes:
        parts = [note, *getattr(note, "metadata", ())]
        if isinstance(note, str):
            found.setdefault("description", note)
            continue
        if isinstance(getattr(note, "description", None), str):
            found["description"] = note.description
        for part in parts:
            for attribute, keyword in BOUNDS.items():
                if getattr(part, attribute, None) is not None:
                    found[keyword] = getattr(part, attribute)
            for attribute, keywords in _LENGTHS.items():
                size = _SIZED.get(str(found.get("type")))
                if size is not None and getattr(part, attribute, None) is not None:
                    found[keywords[size]] = getattr(part, attribute)
            if isinstance(getattr(part, "pattern", None), str):
                found["pattern"] = part.pattern
    return found


_ENTRY = re.compile(r"(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the summary of a docstring and its notes about parameters."""
    head, _, rest = text.partition("\nArgs:")
    notes: dict[str, str] = {}
    name, margin = None, None
    for line in rest.splitlines():
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if indent == 0:
            break
        margin = indent if margin is None else margin
        entry = _ENTRY.match(line.strip()) if indent == margin else None
        if entry:
            name = entry[1].lstrip("*")
            notes[name] = entry[2].strip()
        elif name:
            notes[name] += " " + line.strip()
    return re.split(r"\n\s*\n|\n(?:Returns|Raises|Yields|Example)s?:", head.strip())[0].strip(), notes


def _unknown(kind: object, where: str, because: str = "JSON has no values of this type") -> SchemaError:
    shown = getattr(kind, "__name__", None) or repr(kind)
    return SchemaError(
        f"cannot make a schema of the type {shown[:200]!r}",
        where=where,
        because=because,
        instead=(
            "None, bool, int, float, str, list, tuple, dict, Literal, Enum, a dataclass, a TypedDict or a "
            "pydantic model"
        ),
    )
