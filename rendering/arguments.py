"""Arguments → the texts that formats write of them, as their readers in `formats.payload` read them.

JSON and keyword arguments as Python has them; bare keys, with strings between special tokens; members between tags, the
spelling that `schema.surfaces.tags` generates: `nests` decides for both whether an object or array is written as
elements.  Without a stack of calls, as arguments may be nested deeper than Python is.

Tested by tests/test_tagged.py and tests/test_round_trips.py: writing and reading are inverse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, NamedTuple

from constrained.errors import ConstrainedError, SchemaError
from constrained.formats.payload.judge import Allowed
from constrained.formats.payload.tagged import kind_of, no_text, value_of
from constrained.formats.payload.value_reader import number_text
from constrained.regex import markers_of
from constrained.schema.normal.normalise import is_never
from constrained.schema.surfaces.tags import AGAIN, CONTAINERS, KINDS, Slot, Tags, nests, why_no_argument, why_no_tag
from constrained.work import spend

Piece = tuple[str, bool]  # a text, and whether the format says it

# -- JSON and Python literals ------------------------------------------------------------------------------------------

_NO_MORE = object()


class _Codec(NamedTuple):
    """How a language writes strings and words; `escape` writes a character that must not stand as it is."""

    string: Callable[[str], str]
    words: Mapping[object, str]
    escape: Callable[[str], str]
    comma: str = ", "
    colon: str = ": "


def _escaped_in_json(char: str) -> str:
    return "\\/" if char == "/" else f"\\u{ord(char):04x}"


def _escaped_in_python(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


_JSON = _Codec(
    json.JSONEncoder(ensure_ascii=False).encode, {None: "null", True: "true", False: "false"}, _escaped_in_json
)
_COMPACT = _JSON._replace(comma=",", colon=":")
_PYTHON = _Codec(repr, {None: "None", True: "True", False: "False"}, _escaped_in_python)


def write_json(value: object, avoid: tuple[str, ...] = (), whitespace: str = "canonical") -> str:
    """Return the JSON text of a value; what would complete one of the texts to avoid in a string is escaped.

    >>> write_json({"a": "</b>"}, avoid=("</",))
    '{"a": "<\\\\/b>"}'
    """
    return _written(value, _COMPACT if whitespace == "compact" else _JSON, avoid)


def write_keywords(arguments: Mapping[str, object], avoid: tuple[str, ...] = ()) -> str:
    """Return arguments as Python writes them; avoid: as above.

    >>> write_keywords({"a": [1.5, None], "b": "it's"})
    '(a=[1.5, None], b="it\\'s")'
    """
    for name in arguments:
        if because := why_no_argument(name):
            raise SchemaError(f"{name!r} cannot be a keyword argument", because=because)
    return "(" + ", ".join(f"{name}={_written(value, _PYTHON, avoid)}" for name, value in arguments.items()) + ")"


# what most values are stands first: an abstract class takes 0.3 µs to say what an instance is
_SCALARS, _MAPPINGS = (str, int, float), (dict, Mapping)


def _written(value: object, surface: _Codec, avoid: tuple[str, ...]) -> str:
    """Return the text of a value.  Raises: SchemaError: it is none of JSON's."""
    pieces: list[str] = []
    open_: list[tuple[Iterator[Any], Any]] = []  # the containers around, each with what is still to be written of it
    inside = set[int]()  # the same, by identity
    item: Any = value
    while True:
        spend()
        if not isinstance(item, _SCALARS) and isinstance(item, (dict, list, tuple, Mapping)):
            if id(item) in inside:
                raise _not_json("it holds itself")
            inside.add(id(item))
            pieces.append("{" if isinstance(item, _MAPPINGS) else "[")
            open_.append((iter(item.items() if isinstance(item, _MAPPINGS) else item), item))
        else:
            pieces.append(_leaf(item, surface, avoid))
        while open_:
            members, container = open_[-1]
            entry: Any = next(members, _NO_MORE)
            if entry is not _NO_MORE:
                break
            inside.remove(id(container))
            pieces.append("}" if isinstance(container, _MAPPINGS) else "]")
            open_.pop()
        else:
            return "".join(pieces)
        if pieces[-1] not in ("{", "["):
            pieces.append(surface.comma)
        if isinstance(container, _MAPPINGS):
            key, entry = entry
            if not isinstance(key, str):
                raise _not_json(f"the key {key!r} is no string")
            pieces.append(_leaf(key, surface, avoid))
            pieces.append(surface.colon)
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


# -- bare keys, strings between tokens ---------------------------------------------------------------------------------

def write_quoted(value: Any, quote: str, *, sorts: bool = False) -> list[Piece]:
    """Return the pieces of a value; sorts: the members of objects in the order of `sorted_properties`.

    Raises: ConstrainedError: a string holds the quote, or a key cannot stand bare.
    """
    refuse_circles(value)
    pieces: list[Piece] = []
    work: list[tuple[bool, Any]] = [(False, value)]
    while work:
        written, item = work.pop()
        spend()
        if written:
            pieces.append(item)
        elif isinstance(item, str):
            if quote in item:
                raise ConstrainedError(
                    "cannot write a string",
                    because=f"it holds {quote!r}, between which strings stand, and nothing is escaped",
                )
            pieces += [(quote, True), *([(item, False)] if item else []), (quote, True)]
        elif isinstance(item, Mapping):
            work.append((True, ("}", False)))
            names = sorted(item, key=str.lower) if sorts else list(item)
            for index, key in reversed(list(enumerate(names))):
                if re.search(r"""[\s<>"'=/&,:{}\[\]|\\]|^$""", key):
                    raise ConstrainedError(
                        f"cannot write the key {key!r}", because="keys have no quotes in this format"
                    )
                work += [(False, item[key]), (True, (f"{',' if index else ''}{key}:", False))]
            work.append((True, ("{", False)))
        elif isinstance(item, (list, tuple)):
            work.append((True, ("]", False)))
            for index, member in reversed(list(enumerate(item))):
                work += [(False, member), *([(True, (",", False))] if index else [])]
            work.append((True, ("[", False)))
        else:
            pieces.append((write_json(item), False))
    return pieces


# -- members between tags ----------------------------------------------------------------------------------------------

_ARTICLES = {"object": "an", "array": "an"}
_Work = tuple[list[Piece], Slot, str, Any, Allowed]  # what stands before a value, its place, its name, what it may be


def write_members(
    arguments: Mapping[str, Any], tags: Tags, begins: str, avoid: tuple[str, ...], allowed: Allowed
) -> list[Piece]:
    """Return arguments as members between tags; `allowed`: what they may be, `begins`: what the next one begins with,
    `avoid`: what JSON inside escapes.

    Raises: ConstrainedError: a value would be read as another: a string holds what ends it, or is spelled as a value of
    another type that may stand there.
    """
    if tags.slot.elements:
        refuse_circles(arguments)
    pieces = [(tags.opening, True)]
    work: list[_Work | list[Piece]] = list(reversed(list(_members(arguments, tags, allowed))))
    while work:
        part = work.pop()
        spend()
        if isinstance(part, list):
            pieces += part
            continue
        before, slot, name, value, may = part
        kind, end = kind_of(value), _end(slot.end, name)
        pieces += before
        if _nested(value, kind, slot, tags, may):
            pieces.append((slot.elements[CONTAINERS.index(kind)], True))
            work.append(end)
            inner = _members(value, tags, may) if kind == "object" else _items(value, tags, may)
            work += reversed(list(inner))
        else:
            text = value if kind == "string" else write_json(value, avoid)
            _refuse_misread(name, kind, text, slot, tags, begins, may.kinds)
            pieces += [(slot.value[KINDS.index(kind)], True), (text, False), *end]
    return [*pieces, (tags.closing if arguments else tags.bare, True)]


def _members(value: Mapping[str, Any], tags: Tags, allowed: Allowed) -> Iterator[_Work]:
    for key, part in value.items():
        yield [(tags.key, True), (key, False)], tags.slot, key, part, allowed.member(key)


def _items(value: list[Any], tags: Tags, allowed: Allowed) -> Iterator[_Work]:
    assert tags.item is not None
    for index, part in enumerate(value):
        yield [], tags.item, "", part, allowed.item(index)


def _end(end: str, name: str) -> list[Piece]:
    first, *rest = end.split(AGAIN)
    return [(first, True), *(piece for part in rest for piece in ((name, False), (part, True)))]


def _nested(value: Any, kind: str, slot: Slot, tags: Tags, allowed: Allowed) -> bool:
    """Return whether a value is written as elements; one whose own names or strings no tag can hold is not, and none
    with a string that would be read as another value.
    """
    if kind not in CONTAINERS or not any(nests(kind, may, slot, tags, is_never) for may in allowed.values):
        return False
    if kind == "object":
        return not any(why_no_tag(key) for key in value) and all(
            _is_text(part, tags.slot, tags, allowed.member(key).kinds) for key, part in value.items()
        )
    assert tags.item is not None
    return all(_is_text(part, tags.item, tags, allowed.item(at).kinds) for at, part in enumerate(value))


def _is_text(value: Any, slot: Slot, tags: Tags, kinds: Collection[str]) -> bool:
    """Return whether a string can stand as raw text; True for other values."""
    if type(value) is not str:
        return True
    return bool(re.fullmatch(tags.text, value)) and (_is_told(slot) or value_of(value, "value", kinds) == value)


def _is_told(slot: Slot) -> bool:
    """Return whether the tag of a string says that it is one."""
    return slot.value.count(slot.value[0]) == 1


def _refuse_misread(
    name: str, kind: str, text: str, slot: Slot, tags: Tags, begins: str, kinds: Collection[str]
) -> None:
    """Refuse the text of a value that is read as another.  Raises: ConstrainedError."""
    if begins in text or kind == "string" and not re.fullmatch(tags.text, text):
        because = "its text holds what ends a value in this format, where nothing is escaped"
        raise ConstrainedError(f"cannot write the parameter {name!r}", because=because)
    if _is_told(slot):
        return
    read = "object" if slot.elements and no_text(text, kinds) else kind_of(value_of(text, "value", kinds))
    if read != kind:
        raise ConstrainedError(
            f"cannot write the parameter {name!r}",
            because=f"{text[:40]!r} between tags is read as {_ARTICLES.get(read, 'a')} {read}, by the tool's schema",
            instead=f"tools whose schema says that it is {_ARTICLES.get(kind, 'a')} {kind} and nothing else",
        )
