"""Objects and lists written as elements inside of elements → JSON values.

    <city><name>Oslo</name><tags><item>a</item><item>b</item></tags></city>

How an element opens and closes is data of the format (`Elements`): expressions that find the name and, where a format
says it, the type.  The grammar has found out where the value ends; here its text becomes a value.  A list's elements
have no name, or the name that the format gives to items; whether a value without elements is a list, an object or a
text, and what a text means, the schema says (`allowed`).

Tested by tests/test_tagged.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from constrained.formats.payload.allowed import Allowed
from constrained.formats.payload.pieces import Fault
from constrained.formats.payload.raw import no_text, value_of
from constrained.work import spend

_RULES = {"raw": "text_value", "json": "json_value", None: "value"}  # by the type that a tag says
_KINDS = {"dict": "object", "list": "array"}


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
    """An element that is open, what its tag says that it is, what it may be, where its text begins, and the pointer of
    its value; the outermost has no name.
    """

    name: str | None
    said: str | None
    allowed: Allowed
    at: int
    pointer: str = ""
    children: list[tuple[str | None, Any]] = field(default_factory=list)


def read_elements(
    text: str,
    elements: Elements,
    kind: str | None,
    allowed: Allowed,
    places: dict[str, tuple[int, int]] | None = None,
) -> Any:
    """Return the value that elements mean: an object or array, if `kind` says which, of those that are allowed.

    places: takes where names and values inside begin, by their JSON pointers.

    Raises: Fault: they are not closed in their order, or an object has one name twice.

    >>> from constrained.formats.payload.allowed import ANYTHING
    >>> tags = Elements("<(?P<name>[a-z]+)>", "</(?P<name>[a-z]+)>", "item")
    >>> read_elements("<a>1</a><b><item>x</item></b>", tags, None, ANYTHING)
    {'a': 1, 'b': ['x']}
    """
    openings = [_Open(None, kind, allowed, 0)]
    for match in _tags(elements).finditer(text):
        spend()
        if match["opens"]:
            groups, outer = match.groupdict(), openings[-1]
            name, said = groups.get("name"), groups.get("type")
            item = name is None or name == elements.item and "array" in outer.allowed.kinds
            may = outer.allowed.item(len(outer.children)) if item else outer.allowed.member(name or "")
            part = str(len(outer.children)) if item else (name or "").replace("~", "~0").replace("/", "~1")
            openings.append(_Open(name, _KINDS.get(said or "", said), may, match.end(), f"{outer.pointer}/{part}"))
            if places is not None:
                places[openings[-1].pointer] = match.start("name" if name is not None else 0), match.end()
            continue
        closed = openings.pop()
        if not openings:
            raise Fault(match.start(), "an element is closed that is not open", "an element", "")
        if "closed" in match.re.groupindex and match["closed"] != closed.name:
            raise Fault(
                match.start(),
                f"the element {closed.name!r} is closed by {match['closed']!r}",
                f"the end of {closed.name!r}",
                closed.pointer,
            )
        value = _value(closed, text[closed.at : match.start()], elements)
        openings[-1].children.append((closed.name, value))
    if len(openings) > 1:
        last = openings[-1]
        raise Fault(len(text), f"the element {last.name!r} is not closed", f"the end of {last.name!r}", last.pointer)
    return _container(openings[0], elements)


def _value(element: _Open, text: str, elements: Elements) -> Any:
    if element.children or element.said in _KINDS.values():
        return _container(element, elements)
    if element.said is None and no_text(text, element.allowed.kinds):
        return _container(element, elements)
    try:
        return value_of(text, _RULES[element.said], element.allowed.kinds)
    except Fault as fault:
        pointer = element.pointer + fault.pointer
        raise Fault(element.at + fault.at, fault.because, fault.expected, pointer) from None


def _container(element: _Open, elements: Elements) -> Any:
    names = [name for name, _ in element.children]
    unnamed = all(name == elements.item for name in names)
    kinds = element.allowed.kinds
    is_list = (
        element.said == "array"
        or element.said is None
        and unnamed
        and "array" in kinds
        and (bool(names) or "object" not in kinds)
    )
    if is_list and unnamed:
        return [value for _, value in element.children]
    if None in names or len(set(names)) < len(names):
        raise Fault(element.at, "an object's elements have names, each another", "elements with names", element.pointer)
    return dict(element.children)


@lru_cache(maxsize=8)
def _tags(elements: Elements) -> re.Pattern[str]:
    closing = elements.close.replace("(?P<name>", "(?P<closed>")
    return re.compile(f"(?P<opens>{elements.open})|(?:{closing})")
