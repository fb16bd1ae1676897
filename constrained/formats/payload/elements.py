"""Objects and lists written as elements inside of elements → JSON values.

    <city><name>Oslo</name><tags><item>a</item><item>b</item></tags></city>

How an element opens and closes is data of the format (`Elements`): expressions that find the name and, where a format
says it, the type.  The grammar has found out where the value ends; here its text becomes a value.  A list's elements
have no name, or the name that the format gives to items; whether a value without elements is a list, an object or a
text, and what a text means, the schema says.

Tested by tests/test_tagged.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from constrained.formats.payload.pieces import Fault
from constrained.formats.payload.raw import json_of, typed
from constrained.work import spend

_MOST_REFERENCES = 16


@dataclass(frozen=True, slots=True)
class Elements:
    """Expressions of an element's opening tag, with the groups ``name`` and ``type`` where it has them, and of its
    closing tag.

    `item`: the name of a list's elements, None where they have none.
    """

    open: str
    close: str
    item: str | None = None


@dataclass(slots=True)
class _Open:
    """An element that is open, and where its text begins; the outermost has no name."""

    name: str | None
    kind: str | None
    schema: Any
    at: int
    children: list[tuple[str | None, Any]] = field(default_factory=list)


def read_elements(text: str, elements: Elements, schema: Any, root: Mapping[str, Any]) -> Any:
    """Return the value that elements mean for a schema, which is a part of `root`.

    Raises: Fault: they are not closed in their order, or an object has one name twice.

    >>> tags = Elements("<(?P<name>[a-z]+)>", "</(?P<name>[a-z]+)>", "item")
    >>> read_elements("<a>1</a><b><item>x</item></b>", tags, {}, {})
    {'a': 1, 'b': ['x']}
    """
    openings = [_Open(None, None, _resolved(schema, root), 0)]
    for match in _tags(elements).finditer(text):
        spend()
        if match["opens"]:
            name, inner = match["name"] if match.re.groupindex.get("name") else None, openings[-1].schema
            openings.append(
                _Open(
                    name,
                    match["type"] if "type" in match.re.groupindex else None,
                    _part(inner, name, elements, root),
                    match.end(),
                )
            )
            continue
        closed = openings.pop()
        if not openings:
            raise Fault(match.start(), "an element is closed that is not open", "an element", "")
        if "closed" in match.re.groupindex and match["closed"] != closed.name:
            raise Fault(
                match.start(),
                f"the element {closed.name!r} is closed by {match['closed']!r}",
                f"the end of {closed.name!r}",
                "",
            )
        value = _value(closed, text[closed.at : match.start()], elements, root)
        openings[-1].children.append((closed.name, value))
    if len(openings) > 1:
        raise Fault(
            len(text), f"the element {openings[-1].name!r} is not closed", f"the end of {openings[-1].name!r}", ""
        )
    return _container(openings[0], elements)


def _value(element: _Open, text: str, elements: Elements, root: Mapping[str, Any]) -> Any:
    if element.children or element.kind in ("dict", "list"):
        return _container(element, elements)
    if element.kind == "raw":
        return text
    if element.kind == "json":
        try:
            return json_of(text)
        except Fault as fault:
            raise Fault(element.at + fault.at, fault.because, fault.expected, "") from None
    if not text.strip() and _types(element.schema) & {"object", "array"}:
        return _container(element, elements)
    return typed(
        text,
        {
            **{key: root[key] for key in ("$defs", "definitions") if key in root},
            "properties": {"value": element.schema},
        },
    )


def _container(element: _Open, elements: Elements) -> Any:
    names = [name for name, _ in element.children]
    unnamed = all(name == elements.item for name in names)
    types = _types(element.schema)
    is_list = (
        element.kind == "list"
        or element.kind is None
        and unnamed
        and ("array" in types or bool(names) and "object" not in types)
    )
    if is_list and unnamed:
        return [value for _, value in element.children]
    if None in names or len(set(names)) < len(names):
        raise Fault(element.at, "an object's elements have names, each another", "elements with names", "")
    return dict(element.children)


def _part(schema: Any, name: str | None, elements: Elements, root: Mapping[str, Any]) -> Any:
    """Return the schema of an element inside a value."""
    if not isinstance(schema, Mapping):
        return {}
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and name in properties:
        return _resolved(properties[name], root)
    return _resolved(schema.get("items" if name == elements.item else "additionalProperties", {}), root)


def _resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    """Return a schema without references at its top, as far as they lead into the same document."""
    for _ in range(_MOST_REFERENCES):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        schema = root
        for key in reference[2:].split("/"):
            schema = schema.get(key.replace("~1", "/").replace("~0", "~"), {}) if isinstance(schema, Mapping) else {}
    return schema if isinstance(schema, Mapping) else {}


def _types(schema: Any) -> set[str]:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return (
        {kind}
        if isinstance(kind, str)
        else {entry for entry in kind if isinstance(entry, str)}
        if isinstance(kind, list)
        else set()
    )


@lru_cache(maxsize=8)
def _tags(elements: Elements) -> re.Pattern[str]:
    closing = elements.close.replace("(?P<name>", "(?P<closed>")
    return re.compile(f"(?P<opens>{elements.open})|(?:{closing})")
