"""Python types and callables → JSON Schemas: what people already hold instead of a schema.

Read here: ``None``, ``bool``, ``int``, ``float``, ``str``, ``list[…]``, ``tuple[…]``, ``set[…]``, ``dict[…, …]``,
unions, ``Optional``, ``Literal``, ``Enum``, ``Annotated``, ``TypedDict``, ``NamedTuple``, dataclasses, dates and times,
``UUID``, ``Decimal``, addresses of the internet, paths, other names of types and, for tools, callables with type hints.
Types that are none of these are read as pydantic reads them, where it is installed.

A type that JSON has no values for raises with the place; nothing is read as "any value" but ``Any`` and ``object``.
Classes become ``$defs`` entries that are referred to, so that recursive ones work.  Objects of classes are closed, as
their constructors are. Left out: validators and serialisers, which only run in Python.

Types that say by themselves what they are to pydantic have the JSON Schemas that pydantic writes: models, pydantic's
own dataclasses, its types (`UUID4`, `HttpUrl`, `SecretStr`, …), annotations with its hooks, and a `TypeAdapter` of
anything.

Practical: what pydantic's schemas leave to its validators, but a schema can say, is in them: digits of decimals, bounds
of dates and times, versions of UUIDs, URLs of the schemes that a type takes, with a plain host name, addresses of the
internet, dates and times without an offset, Base64, numbers as keys, and of dates that are past or to come those that
are so on the day the schema is made, of times two days from it.  Left out: what depends on files (`FilePath`) or on
code of the model's own.

Tested in tests/test_profiles.py, against pydantic.
"""

from __future__ import annotations

import collections
import collections.abc
import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import re
import types
import typing
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Literal, Union, get_args, get_origin

from constrained.errors import SchemaError
from constrained.work import spend

Schema = dict[str, Any]

# of numbers that pydantic and `datetime` have room for
_DURATION: Schema = {"type": "string", "format": "duration", "pattern": r"^\D*(?:\d{1,6}\D+)*$"}
_SCALARS: dict[Any, Schema] = {
    type(None): {"type": "null"}, None: {"type": "null"}, bool: {"type": "boolean"}, int: {"type": "integer"},
    float: {"type": "number"}, str: {"type": "string"}, Any: {}, object: {},
    datetime.datetime: {"type": "string", "format": "date-time"}, datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"}, datetime.timedelta: _DURATION,
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
_SAYING = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"})  # of a schema that says something


def is_python_type(value: object) -> bool:
    """Return whether a value is a type that `schema_of` reads, as opposed to a schema, a text or a number."""
    if isinstance(value, (str, bytes, int, float, dict, list, tuple)) and not isinstance(value, type):
        return False
    if isinstance(value, (type, typing.TypeVar, typing.NewType)) or value is Any or get_origin(value) is not None:
        return True
    return is_alias(value) or is_adapter(value)


def schema_of(kind: object, where: str = "#", *, practical: bool = False) -> Schema:
    """Return the JSON Schema of a Python type; practical: what pydantic's own schemas leave to its validators is in it,
    as far as a schema can say it, see `_practical`.

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
    import inspect

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
        if get_origin(kind) is not None:
            return self._generic(kind, where)
        return self._class(kind, kind, where)

    def _generic(self, kind: Any, where: str) -> Schema:
        origin, arguments = get_origin(kind), get_args(kind)
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
        return self._class(origin, kind, where)

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

    def _class(self, kind: Any, whole: Any, where: str) -> Schema:
        """Return the schema of a class; of one that we do not read, as pydantic reads it, with its arguments."""
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return {"enum": [member.value for member in kind]}
        if not _has_fields(kind):
            known = self._moved(schema_of_own(whole, practical=self.practical))
            if known is None or known.keys().isdisjoint(_SAYING):
                raise _unknown(kind, where)
            return known
        if kind not in self._names:
            fields = _fields(kind, where)
            self._names[kind] = name = self._free(kind.__name__)
            self.definitions[name] = {}
            self.definitions[name] = self._object(fields, f"{where} {kind.__name__}")
        return {"$ref": f"#/$defs/{self._names[kind]}"}

    def _own(self, kind: Any) -> Schema | None:
        return self._moved(schema_of_own(kind, practical=self.practical)) if is_own(kind) else None

    def _moved(self, schema: Schema | None) -> Schema | None:
        """Return a schema of pydantic's with its definitions moved to ours."""
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
    if hasattr(kind, "__dataclass_fields__"):
        import dataclasses

        empty = dataclasses.MISSING
        fields = [field for field in dataclasses.fields(kind) if field.init]
        return [(f.name, hints[f.name], f.default is empty and f.default_factory is empty) for f in fields]
    if _is_typed_dict(kind):
        names: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
        return [(name, hint, _is_required(hint, name in names)) for name, hint in hints.items()]
    defaults, names_in_order = getattr(kind, "_field_defaults", {}), getattr(kind, "_fields", ())
    return [(name, hints.get(name, Any), name not in defaults) for name in names_in_order]


def _has_fields(kind: Any) -> bool:
    """Return whether a class is a dataclass, a TypedDict or a NamedTuple."""
    if not isinstance(kind, type):
        return False
    named = hasattr(kind, "__dataclass_fields__") or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    return named or _is_typed_dict(kind)


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
                    found = {**(found or {"type": "number"}), keyword: getattr(part, attribute)}
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


BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
BOUNDS_OF_NUMBERS = frozenset(BOUNDS.values())
_HOOKS = ("__get_pydantic_core_schema__", "__get_pydantic_json_schema__", "__pydantic_core_schema__")
# whose bounds no keyword states: `Annotated[date, Gt(date(2024, 1, 1))]`
_BOUNDED_BY_PYDANTIC = (decimal.Decimal, datetime.date, datetime.datetime, datetime.time, datetime.timedelta, bytes)
_SIDES = {"gt": (1, None), "ge": (1, ""), "lt": (-1, None), "le": (-1, r"(?!\.)")}  # may a text go on from the bound?
_TEXT: Schema = {"type": "string"}
_IPV4: Schema = {"type": "string", "format": "ipv4"}
_IPV6: Schema = {"type": "string", "format": "ipv6"}
_HEX = "[0-9a-f]"
_B64, _FOURTH = "[A-Za-z0-9+/]", "AEIMQUYcgkosw048"  # of the 64 those whose last two bits are 0
BASE64 = rf"^(?:{_B64}{{4}})*(?:{_B64}[AQgw]==|{_B64}{{2}}[{_FOURTH}]=)?$"  # RFC 4648 §4
# of bytes below 128, as what is decoded to a str must be UTF-8
_BEGIN = "[A-Za-f][A-HQ-Xg-nw-z0-3]"
BASE64_OF_ASCII = rf"^(?:{_BEGIN}[ABEFIJMNQRUVYZcdghklopstwx014589]{_B64})*(?:[A-Za-f][AQgw]==|{_BEGIN}[{_FOURTH}]=)?$"
_NUMBER = r"\d{1,15}(?:\.\d{1,10})?"
_SIZE = rf"^{_NUMBER} ?(?:[kmgtpe]?b|[kmgtpe]ib|[KMGTPE]i?B)$"  # pydantic's ByteSize, with a unit
_REPLACED = frozenset({"format", "contentSchema", "contentMediaType"})
# what pydantic means by formats of its own
_FORMATS: dict[str, Schema] = {
    "ipvanyaddress": {"anyOf": [_IPV4, _IPV6]},
    "ipvanyinterface": {"anyOf": [_IPV4, _IPV6]},
    "ipvanynetwork": {"anyOf": [_IPV4, _IPV6]},
    "ipv4network": _IPV4,
    "ipv4interface": _IPV4,
    "ipv6network": _IPV6,
    "ipv6interface": _IPV6,
    "path": {**_TEXT, "pattern": r"^[^\x00]*$"},
    "duration": _DURATION,
    "binary": _TEXT,
    "password": _TEXT,
    "base64": {**_TEXT, "pattern": BASE64},
    "base64 of str": {**_TEXT, "pattern": BASE64_OF_ASCII},
    "base64url": {**_TEXT, "pattern": BASE64.replace("+/", "_-")},
    "base64url of str": {**_TEXT, "pattern": BASE64_OF_ASCII.replace("+/", "_-")},
    **{
        f"uuid{number}": {
            **_TEXT,
            "pattern": rf"^{_HEX}{{8}}-{_HEX}{{4}}-{number}{_HEX}{{3}}-[89ab]{_HEX}{{3}}-{_HEX}{{12}}$",
        }
        for number in range(1, 9)
    },
}
_NUMBERED = r"^(?:0|-?[1-9]\d{0,17})$"
_KEYS: dict[str, Schema] = {
    "integer": {"pattern": _NUMBERED},
    "number": {"pattern": r"^-?(?:0|[1-9]\d{0,14})(?:\.\d{1,10})?$"},
    "boolean": {"enum": ["false", "true"]},
}
_JSON_TEXTS = {
    "null": "null", "boolean": "true|false", "integer": r"0|-?[1-9]\d{0,17}",
    "number": r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,10})?", "string": r'"[^"\\\x00-\x1f]*"',
}  # fmt: skip
_NO_KEYS = frozenset({"none", "list", "tuple", "set", "frozenset", "dict"})  # of which no text is one
_MOST_KEYS = 1000  # numbers that are listed
_HOST = r"[a-z]{1,20}(?:-[a-z0-9]{1,20})?(?:\.[a-z]{2,10}){1,2}"
_DAY = r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
_LOCAL = rf"^[1-9]\d{{3}}-{_DAY}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{{1,6}})?$"


def is_adapter(value: object) -> bool:
    """Return whether a value is a `TypeAdapter`, or is used like one."""
    return not isinstance(value, type) and hasattr(value, "json_schema") and hasattr(value, "validate_json")


def is_alias(value: object) -> bool:
    """Return whether a value is another name of a type, as a ``type`` statement gives it or typing_extensions."""
    return type(value).__name__ == "TypeAliasType"


def is_own(kind: Any) -> bool:
    """Return whether a type has hooks of pydantic's, which say how it is validated."""
    if typing.get_origin(kind) is typing.Annotated:
        hooked = any(hasattr(note, hook) for note in kind.__metadata__ for hook in _HOOKS)
        return hooked or kind.__origin__ in _BOUNDED_BY_PYDANTIC or is_own(kind.__origin__)
    if is_alias(kind):
        return is_own(kind.__value__)
    return is_adapter(kind) or (isinstance(kind, type) and any(hasattr(kind, hook) for hook in _HOOKS))


def schema_of_own(kind: Any, *, practical: bool) -> Schema | None:
    """Return the schema of a type that says by itself what it is to pydantic, with "$defs"; None: pydantic, which may
    not be installed, knows of none.
    """
    make = getattr(kind, "model_json_schema", None) if isinstance(kind, type) else None
    make = kind.json_schema if is_adapter(kind) else make
    try:
        import inspect

        from pydantic import PydanticUserError, TypeAdapter

        if make is None:
            make = TypeAdapter(kind).json_schema
        given = inspect.signature(make).parameters["schema_generator"]
        options = {"schema_generator": _practical(given.default)} if practical else {}
        found: Schema = make(ref_template="#/$defs/{model}", **options)
    except (ImportError, PydanticUserError):
        return None
    return found


def _practical(generator: Any) -> Any:
    """Return a generator of schemas of pydantic, with what a schema can say beside."""

    class Practical(generator):  # type: ignore[misc]  # pydantic's class
        def generate_inner(self, schema: Any) -> Schema:
            found: Schema = _along_paths(super().generate_inner(schema), schema.get("fields", ()))
            written = _json_text(found.get("contentSchema", {}))
            decoded = " of str" if schema.get("schema", {}).get("type") == "str" else ""
            meant = _FORMATS.get(f"{found.get('format')}{decoded}")
            meant = meant if written is None else {**_TEXT, "pattern": f"^(?:{written})$"}
            if meant is not None:
                return {word: part for word, part in found.items() if word not in _REPLACED} | meant
            names = _names(schema["keys_schema"], self.generate_inner) if "keys_schema" in schema else None
            return found if names is None else {**found, "propertyNames": names}

        def bytes_schema(self, schema: Any) -> Schema:
            counted = not {"min_length", "max_length"}.isdisjoint(schema)  # in bytes
            found: Schema = super().bytes_schema(schema)
            return {**found, "pattern": "^[ -~]*$"} if counted else found

        def decimal_schema(self, schema: Any) -> Schema:
            return _decimals(schema)

        def url_schema(self, schema: Any) -> Schema:
            return _address(schema)

        multi_host_url_schema = url_schema

        def datetime_schema(self, schema: Any) -> Schema:
            naive = schema.get("tz_constraint") == "naive"
            return _between({**_TEXT, "pattern": _LOCAL} if naive else super().datetime_schema(schema), schema, 2)

        def date_schema(self, schema: Any) -> Schema:
            return _between(super().date_schema(schema), schema, 0)

        def time_schema(self, schema: Any) -> Schema:
            return _between(super().time_schema(schema), schema, 0)

        def timedelta_schema(self, schema: Any) -> Schema:
            return super().timedelta_schema(schema) if _SIDES.keys().isdisjoint(schema) else _seconds(schema)

        def complex_schema(self, schema: Any) -> Schema:
            return {**_TEXT, "pattern": f"^-?{_NUMBER}[+-]{_NUMBER}j$"}

        def union_schema(self, schema: Any) -> Schema:
            if schema.get("custom_error_type") == "byte_size":
                return {"anyOf": [{**_TEXT, "pattern": _SIZE}, {"type": "integer", "minimum": 0}]}
            return super().union_schema(schema)  # type: ignore[no-any-return]

    return Practical


def _along_paths(found: Schema, fields: Any) -> Schema:
    """Return a schema with fields whose only aliases are paths into other values, where pydantic looks for them."""
    named = fields.items() if isinstance(fields, dict) else [(f["name"], f) for f in fields if isinstance(f, dict)]
    for name, field in named:
        paths = field.get("validation_alias")
        paths = [paths] if isinstance(paths, list) and isinstance(paths[0], str) else paths
        if not isinstance(paths, list) or any(len(path) == 1 for path in paths):
            continue
        properties, required = found["properties"], name in found.get("required", ())
        part, (head, *path) = properties.pop(name), paths[0]
        for step in reversed(path):
            if isinstance(step, str):
                part = {"type": "object", "properties": {step: part}, "required": [step] * required}
            elif step < 0:  # from the end: as many items as it takes
                part = {"type": "array", "prefixItems": [part], "minItems": -step, "maxItems": -step}
            else:
                part = {"type": "array", "prefixItems": [{}] * step + [part], "minItems": (step + 1) * required}
        properties[head] = {"allOf": [properties[head], part]} if head in properties else part
        found["required"] = [*dict.fromkeys([head if other == name else other for other in found.get("required", ())])]
    return found


def _json_text(schema: Schema) -> str | None:
    """Return a pattern of JSON texts of a schema of plain values and lists of them; None: it says more.

    >>> _json_text({"type": "array", "items": {"type": "boolean"}})
    '\\\\[(?:(?:true|false)(?:, ?(?:true|false))*)?\\\\]'
    """
    if "enum" in schema or "const" in schema:
        return "|".join(re.escape(json.dumps(value)) for value in schema.get("enum", [schema.get("const")]))
    said = schema.keys() - {"title", "description", "default"}
    if said == {"anyOf"}:
        parts = [_json_text(part) for part in schema["anyOf"]]
        return None if None in parts else "|".join(map(str, parts))
    kind = str(schema.get("type"))
    if kind == "array" and said == {"type", "items"}:
        item = _json_text(schema["items"])
        return None if item is None else rf"\[(?:(?:{item})(?:, ?(?:{item}))*)?\]"
    return _JSON_TEXTS.get(kind) if said == {"type"} else None


def _names(keys: Any, schema_of_key: Callable[[Any], Schema]) -> Schema | bool | None:
    """Return which texts pydantic reads as keys; None: those that the schema of the keys says."""
    kind = str(keys.get("type"))
    if kind == "nullable":
        return _names(keys["schema"], schema_of_key)
    if kind == "union":
        choices = [choice[0] if isinstance(choice, tuple) else choice for choice in keys["choices"]]
        names = [_names(choice, schema_of_key) for choice in choices]
        said = zip(names, choices, strict=True)
        return {"anyOf": [schema_of_key(choice) if name is None else name for name, choice in said]}
    if kind in ("enum", "literal"):
        numbers = keys.get("sub_type") in ("int", "float")
        return listed_keys(keys.get("members", keys.get("expected", ())), numbers=numbers)
    if kind in ("int", "float", "bool"):
        return written_keys(schema_of_key(keys))
    return _KEYS["number"] if kind == "decimal" else False if kind in _NO_KEYS else None


def listed_keys(members: Iterable[Any], *, numbers: bool) -> Schema:
    """Return the keys that constants or members of an enumeration are read from: texts, and numbers if asked."""
    values = [member.value if isinstance(member, enum.Enum) else member for member in members]
    return {"enum": [str(value) for value in values if numbers or isinstance(value, str)]}


def written_keys(schema: Schema) -> Schema | None:
    """Return how numbers and booleans are written as keys; None: the schema is of other values, or they cannot be."""
    found = _KEYS.get(str(schema.get("type")))
    if found is None or BOUNDS_OF_NUMBERS.isdisjoint(schema):
        return found
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + ("exclusiveMinimum" in schema))
    high = schema.get("maximum", schema.get("exclusiveMaximum", 0) - 1)
    if schema["type"] == "integer" and "multipleOf" not in schema:
        if ("maximum" in schema or "exclusiveMaximum" in schema) and 0 <= high - low < _MOST_KEYS:
            return {"enum": [str(number) for number in range(low, high + 1)]}
        if low in (0, 1) and "maximum" not in schema and "exclusiveMaximum" not in schema:
            return {"pattern": r"^[1-9]\d{0,17}$" if low else r"^(?:0|[1-9]\d{0,17})$"}
    return None


def _between(found: Schema, schema: Any, days: int) -> Schema:
    """Return dates and times within the bounds of a type: those it states, and so many days from today."""
    parts = [_side(schema[word], *side) for word, side in _SIDES.items() if schema.get(word) is not None]
    if schema.get("now_op") is not None:
        sign = 1 if schema["now_op"] == "future" else -1
        parts.append(_side(datetime.date.today() + datetime.timedelta(days=days * sign), sign))
    return {**found, "allOf": [{"pattern": f"^(?:{part})"} for part in parts]} if parts else found


def _side(bound: Any, sign: int, equal: str | None = None) -> str:
    """Return the pattern of the dates or times beyond a bound by a second or more, with its offset, if it has one.

    >>> _side(datetime.time(9, tzinfo=datetime.UTC), -1)
    '(?:0[0-8]).*Z$'
    """
    whole = bound.isoformat()
    text, offset = (whole[:-6], whole[-6:].replace("+00:00", "Z")) if getattr(bound, "tzinfo", None) else (whole, "")
    text, _, fraction = text.partition(".")
    part = _beyond(text, sign) if equal is None or fraction else f"{_beyond(text, sign)}|{text}{equal}"
    return f"(?:{part}).*{re.escape(offset)}$" if offset else part


def _beyond(text: str, sign: int) -> str:
    """Return the pattern of digits that are higher (1) or lower (-1) than those of a text at the first place where they
    differ.

    >>> _beyond("12", 1)
    '[2-9]|1[3-9]'
    """
    found = []
    for at, digit in enumerate(text):
        if not digit.isdigit():
            continue
        first, last = (int(digit) + 1, 9) if sign > 0 else (0, int(digit) - 1)
        found += [f"{text[:at]}[{first}-{last}]"] if first <= last else []
    return "|".join(found) or r"[^\s\S]"


def _seconds(schema: Any) -> Schema:
    """Return durations within the bounds of a type as numbers of seconds, to the microsecond that pydantic keeps."""
    kind = datetime.timedelta
    low = [schema[word] + step for word, step in (("ge", kind()), ("gt", kind.resolution)) if word in schema]
    high = [schema[word] - step for word, step in (("le", kind()), ("lt", kind.resolution)) if word in schema]
    least, most = max(low, default=kind.min), min(high, default=kind(days=kind.max.days))
    return {"type": "number", "minimum": least.total_seconds(), "maximum": most.total_seconds()}


def _decimals(schema: Any) -> Schema:
    """Return numbers of so many digits as a decimal may have."""
    found: Schema = {"type": "number"}
    for name, keyword in BOUNDS.items():
        if name in schema:
            found[keyword] = float(schema[name])
    places, digits = schema.get("decimal_places"), schema.get("max_digits")
    if digits is not None:
        places = min(digits, 10) if places is None else places
        most = 10 ** (digits - min(digits, places)) - 10**-places  # 999.99
        found["allOf"] = [{"minimum": -most, "maximum": most}]
    if places is not None and "multipleOf" not in found:
        found["multipleOf"] = float(f"1e-{places}") if places else 1
    return found


def _address(schema: Any) -> Schema:
    """Return URLs of the schemes that a type takes, on a plain host."""
    schemes = "|".join(scheme.replace("+", r"\+") for scheme in schema.get("allowed_schemes") or ("https", "http"))
    longest = {"maxLength": schema["max_length"]} if schema.get("max_length") is not None else {}
    return {**_TEXT, "pattern": f"^(?:{schemes})://{_HOST}(?:/[A-Za-z0-9._-]{{1,40}})*/?$", **longest}
