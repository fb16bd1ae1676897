"""Arguments between tags → JSON values, by what the tool's schema allows.

Between tags ``12`` may be a number or a string of two digits; only the schema tells.  A parameter that can only be a
string is the text as it stands.  Where other types are allowed, a text that is JSON of one of them is that value, and
everything else is the string, if there may be one, quotes and all.  What fits nothing stays text, so that the schema
says what is wrong with it.  Templates write Python's ``True``, ``False`` and ``None``, which are read where the type is
allowed.  The types of a parameter are those of `judge.Allowed`.

Objects and lists may be elements inside of elements:

    <city><name>Oslo</name><tags><item>a</item><item>b</item></tags></city>

How an element opens and closes is data of the format (`Elements`): expressions that find the name and, where a format
says it, the type.  The grammar has found out where the value ends; here its text becomes a value.  A list's elements
have no name, or the name that the format gives to items; whether a value without elements is a list, an object or a
text, and what a text means, the schema says.

Without a stack of calls, as arguments may be nested deeper than Python is.

Tested by tests/test_tagged.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.formats.payload import ELEMENTS
from constrained.formats.payload.json_text import JsonReader
from constrained.formats.payload.judge import Allowed, allowed_by
from constrained.formats.payload.python_text import KeywordsReader
from constrained.formats.payload.value_reader import Fault
from constrained.schema.surfaces.tags import CONTAINERS
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.formats.definition import Elements

# -- values ------------------------------------------------------------------------------------------------------------

Pair = tuple[str, str, str, int]  # key, the rule that wrote the value, its text, its place

CROSSED = "crossed"  # in place of the rule: the tags of a member have different names, the text is the second
_BLANKS = " \t\r\n"
_WORDS = {"True": True, "False": False, "None": None}
Nested = Callable[[str, "str | None", Allowed], Any]  # of a text, its kind where that is told, and what it may be


class Ends(NamedTuple):
    """What a value does not hold, as it begins the next one, and what ends it."""

    next: str
    end: str


def arguments_of(
    pairs: Iterable[Pair],
    schema: Any,
    nested: Nested | None = None,
    ends: Ends | None = None,
    mended: Callable[[int], None] = lambda place: None,
) -> dict[str, Any]:
    """Return the arguments that pairs of a key and a text mean for a schema; `nested` reads the elements of a text, and
    `mended` is told the places of values that are Python's and no JSON.

    Raises: Fault: a key comes twice, a text that must be JSON is not, or one goes on into the next parameter.

    >>> properties = {"a": {"type": "string"}, "b": {"type": "integer"}}
    >>> arguments_of([("a", "value", "007", 0), ("b", "value", "7", 4)], {"properties": properties})
    {'a': '007', 'b': 7}
    """
    allowed = allowed_by(schema)
    arguments: dict[str, Any] = {}
    for key, rule, text, place in pairs:
        spend(1 + len(text) // 8)
        if key in arguments:
            raise Fault(place, f"the parameter {key!r} comes twice", "another parameter", _pointer(key))
        may = allowed.member(key)
        if rule == CROSSED:
            raise Fault(place, f"the parameter {key!r} is closed by {text!r}", f"</{key}>", _pointer(key))
        if ends is not None and rule not in ELEMENTS and (at := text.find(ends.next)) >= 0:
            raise Fault(place + at, f"the parameter {key!r} is not closed before the next one", ends.end, _pointer(key))
        try:
            if nested is not None and (rule in ELEMENTS or rule == "value" and no_text(text, may.kinds)):
                arguments[key] = nested(text, ELEMENTS.get(rule), may)
            else:
                arguments[key] = value_of(text, rule, may.kinds, partial(mended, place))
        except Fault as fault:
            raise Fault(place + fault.at, fault.because, fault.expected, _pointer(key) + fault.pointer) from None
    return arguments


def no_text(text: str, kinds: Collection[str]) -> bool:
    """Return whether blanks between tags are an empty object or array, because no string may stand there."""
    return not text.strip(_BLANKS) and "string" not in kinds and any(kind in kinds for kind in CONTAINERS)


def value_of(text: str, rule: str, kinds: Collection[str], mended: Callable[[], None] = lambda: None) -> Any:
    """Return what a text means that a rule has read, where values of these types may stand; `mended` is called where it
    is Python's.  Raises: Fault.
    """
    if rule == "text_value" or rule != "json_value" and len(kinds) == 1 and "string" in kinds:
        return text
    literal = False
    try:
        value = json_of(text)
    except Fault:
        literal = rule == "json_value" or "string" not in kinds or text in _WORDS
        value = python_of(text) if literal else text
        if value is text and rule == "json_value":
            raise
    kind = kind_of(value)
    if rule != "json_value" and "string" in kinds and (kind == "string" or kind not in kinds):
        return text
    if literal and value is not text:
        mended()
    return value


def python_of(text: str) -> Any:
    """Return the value of a word, a list or a dictionary as Python writes it; the text where it is none.

    >>> python_of("{'k': None}"), python_of("[1, x]")
    ({'k': None}, '[1, x]')
    """
    if text in _WORDS:
        return _WORDS[text]
    written = f"(_={text})"
    reader = KeywordsReader()
    try:
        end = reader.feed(written, 0, len(written)) if text.lstrip(_BLANKS)[:1] in ("[", "{", "(") else 0
    except Fault:
        return text
    return reader.value["_"] if end == len(written) and reader.done and len(reader.value) == 1 else text


def json_of(text: str) -> Any:
    """Return the value of a JSON text.  Raises: Fault."""
    reader = JsonReader("[")
    try:
        end = reader.feed(f"[{text}]", 0, len(text) + 2)
    except Fault:
        raise _no_json(text) from None
    if not reader.done or end != len(text) + 2 or len(reader.value) != 1:
        raise _no_json(text)
    return reader.value[0]


def meant_as_json(text: str) -> Fault | None:
    """Return the fault of a text that begins like an object or array of JSON but is not valid JSON, else None."""
    if text.lstrip(_BLANKS)[:1] not in ("{", "["):
        return None
    try:
        json_of(text)
    except Fault as fault:
        return fault
    return None


def _no_json(text: str) -> Fault:
    """Return why a text is no JSON, found by reading it as the item of a list that goes on."""
    reader = JsonReader("[")
    try:
        reader.feed(f"[{text}", 0, len(text) + 1)
    except Fault as fault:
        return _placed(max(0, fault.at - 1), fault.because, fault.expected, fault.pointer)
    pointer, expected = reader.pointer, reader.expected
    try:
        reader.feed(",", 0, 1)
        cut = reader.pointer.count("/") > 1 or reader.expected != "a value"
    except Fault:
        cut = True
    if reader.done or not cut:
        return Fault(0, "it is not one JSON value", "one JSON value", "")
    return _placed(len(text), "it breaks off", expected, pointer)


def _placed(at: int, because: str, expected: str, pointer: str) -> Fault:
    """Return a fault in the item of a list, of which nothing is said."""
    inside = pointer.count("/") > 1
    expected = expected if inside or not expected.endswith("']'") else "one JSON value"
    return Fault(at, because, expected, pointer.removeprefix("/0") if inside else "")


def kind_of(value: Any) -> str:
    """Return the type of a JSON value, of `KINDS`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float, Decimal)):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _pointer(key: str) -> str:
    return "/" + key.replace("~", "~0").replace("/", "~1")


# -- elements ----------------------------------------------------------------------------------------------------------

_RULES = {"raw": "text_value", "json": "json_value", None: "value"}  # by the type that a tag says
_KINDS = {"dict": "object", "list": "array"}


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

    >>> from constrained.formats.payload.judge import ANYTHING
    >>> from constrained.formats.definition import Elements
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
                match.start(), f"the element {closed.name!r} is closed by {match['closed']!r}",
                f"the end of {closed.name!r}", closed.pointer,
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
