"""JSON values → the canonical text of arguments, in JSON or as Python's keyword arguments.

The standard library would do, but for what models write and it cannot: numbers beyond floats, which are `Decimal`, and
nesting beyond Python's own depth of calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, NamedTuple

from constrained.errors import SchemaError
from constrained.formats.payload.pieces import number_text
from constrained.regex import markers_of
from constrained.schema.surfaces.tags import why_no_argument
from constrained.work import spend

_NO_MORE = object()


class _Codec(NamedTuple):
    """How a language writes strings and words; `escape` writes a character that must not stand as it is."""

    string: Callable[[str], str]
    words: Mapping[object, str]
    escape: Callable[[str], str]


def _escaped_in_json(char: str) -> str:
    return "\\/" if char == "/" else f"\\u{ord(char):04x}"


def _escaped_in_python(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


_JSON = _Codec(
    json.JSONEncoder(ensure_ascii=False).encode, {None: "null", True: "true", False: "false"}, _escaped_in_json
)
_PYTHON = _Codec(repr, {None: "None", True: "True", False: "False"}, _escaped_in_python)


def write_json(value: object, avoid: tuple[str, ...] = ()) -> str:
    """Return the canonical JSON text of a value; what would complete one of the texts to avoid in a string is escaped.

    >>> write_json({"a": "</b>"}, avoid=("</",))
    '{"a": "<\\\\/b>"}'
    """
    return _written(value, _JSON, avoid)


def write_keywords(arguments: Mapping[str, object], avoid: tuple[str, ...] = ()) -> str:
    """Return arguments as Python writes them; avoid: as above.

    >>> write_keywords({"a": [1.5, None], "b": "it's"})
    '(a=[1.5, None], b="it\\'s")'
    """
    for name in arguments:
        if because := why_no_argument(name):
            raise SchemaError(f"{name!r} cannot be a keyword argument", because=because)
    return "(" + ", ".join(f"{name}={_written(value, _PYTHON, avoid)}" for name, value in arguments.items()) + ")"


def _written(value: object, surface: _Codec, avoid: tuple[str, ...]) -> str:
    """Return the text of a value.  Raises: SchemaError: it is none of JSON's."""
    pieces: list[str] = []
    open_: list[tuple[Iterator[Any], Any]] = []  # the containers around, each with what is still to be written of it
    inside = set[int]()  # the same, by identity
    item: Any = value
    while True:
        spend()
        if isinstance(item, (dict, list, tuple, Mapping)):
            if id(item) in inside:
                raise _not_json("it holds itself")
            inside.add(id(item))
            pieces.append("{" if isinstance(item, Mapping) else "[")
            open_.append((iter(item.items() if isinstance(item, Mapping) else item), item))
        else:
            pieces.append(_leaf(item, surface, avoid))
        while open_:
            members, container = open_[-1]
            entry: Any = next(members, _NO_MORE)
            if entry is not _NO_MORE:
                break
            inside.remove(id(container))
            pieces.append("}" if isinstance(container, Mapping) else "]")
            open_.pop()
        else:
            return "".join(pieces)
        if pieces[-1] not in ("{", "["):
            pieces.append(", ")
        if isinstance(container, Mapping):
            key, entry = entry
            if not isinstance(key, str):
                raise _not_json(f"the key {key!r} is no string")
            pieces.append(_leaf(key, surface, avoid))
            pieces.append(": ")
        item = entry


def _leaf(value: Any, surface: _Codec, avoid: tuple[str, ...]) -> str:
    if isinstance(value, str):
        spend(1 + (len(value) >> 9))
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _not_json(str(error)) from error
        text = surface.string(value)
        if any(part in text for part in avoid):
            text = text[0] + markers_of(avoid).escaped(text[1:-1], surface.escape) + text[-1]
        return text
    if value is None or isinstance(value, bool):
        return surface.words[value]
    if not isinstance(value, (int, float, Decimal)):
        raise _not_json(f"Object of type {type(value).__name__} is not JSON serializable")
    if not isfinite(value) if isinstance(value, float) else isinstance(value, Decimal) and not value.is_finite():
        raise _not_json("Out of range float values are not JSON compliant")
    return number_text(value)


def refuse_circles(value: object) -> None:
    """Refuse what writers would write for ever.  Raises: SchemaError: an object or array holds itself."""
    work: list[tuple[Any, bool]] = [(value, False)]
    around = set[int]()
    while work:
        part, leaves = work.pop()
        spend()
        if leaves:
            around.remove(id(part))
        elif isinstance(part, (Mapping, list, tuple)):
            if id(part) in around:
                raise _not_json("it holds itself")
            around.add(id(part))
            work.append((part, True))
            work += [(inner, False) for inner in (part.values() if isinstance(part, Mapping) else part)]


def _not_json(because: str) -> SchemaError:
    return SchemaError("the arguments are not JSON", because=because)


def in_schema_order(value: Any, schema: object) -> Any:
    """Return the value with the keys of its objects in the order in which the schema declares them; undeclared ones
    follow.

    References are not followed: what they lead to keeps its order.
    """
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, list):
        prefix = schema.get("prefixItems", ())
        rest = schema.get("items")
        return [
            in_schema_order(item, prefix[index] if index < len(prefix) else rest) for index, item in enumerate(value)
        ]
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, Mapping):
        return value
    names = [*(name for name in properties if name in value), *(name for name in value if name not in properties)]
    return {
        name: in_schema_order(value[name], properties.get(name, schema.get("additionalProperties"))) for name in names
    }
