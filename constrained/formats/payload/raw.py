"""Arguments written one by one, as raw text → JSON values, by what the tool's schema allows.

Between tags ``12`` may be a number or a string of two digits; only the schema tells.  A parameter that can only be a
string is the text as it stands.  Where other types are allowed, a text that is JSON of one of them is that value, and
everything else is the string, if there may be one.  What fits nothing stays text, so that the schema says what is wrong
with it.  Templates write Python's ``True``, ``False`` and ``None``, which are read where the type is allowed.

The types of a parameter come from the normal form of the schema, so that references and combinations count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from constrained.schema.by_content import Recent, content
from constrained.schema.normal.normalise import normalise
from constrained.schema.reading.nodes import load
from constrained.schema.surfaces.tagged import KINDS, kinds_of

from ...errors import ConstrainedError
from ...regex import matches
from ...work import spend
from .json_text import JsonReader
from .pieces import Fault

Pair = tuple[str, str, str, int]  # key, the rule that wrote the value, its text, its place

ELEMENTS = "element_value"  # the rule of a text that holds elements
CROSSED = "crossed"  # in place of the rule: the tags of a member have different names, the text is the second
_WORDS = {"True": True, "False": False, "None": None}
_EVERY = frozenset(KINDS)
_CONTAINERS = frozenset({"object", "array"})


class _Kinds:
    """The types of the members of an object, by name."""

    def __init__(self, schema: Any) -> None:
        try:
            self._shapes = normalise(load(schema)).objects
        except ConstrainedError:  # what cannot be compiled may be anything
            self._shapes = ()
        self._known: dict[str, frozenset[str]] = {}

    def of(self, key: str) -> frozenset[str]:
        if key not in self._known:
            self._known[key] = self._found(key)
        return self._known[key]

    def _found(self, key: str) -> frozenset[str]:
        found: set[str] = set()
        for shape in self._shapes:
            named = dict(shape.named)
            if key in named:
                found.update(kinds_of(normalise(named[key])))
            else:
                for language, conj in shape.cells:
                    if matches(language, key):
                        found.update(kinds_of(normalise(conj)))
        return frozenset(found) or _EVERY


_recent: Recent[_Kinds] = Recent(most=256, most_bytes=1 << 20)


def arguments_of(pairs: Iterable[Pair], schema: Any, nested: Callable[[str, Any], Any] | None = None) -> dict[str, Any]:
    """Return the arguments that pairs of a key and a text mean for a schema; `nested` reads the elements of a text for
    a part of it.

    Raises: Fault: a key comes twice, or a text that must be JSON is not.

    >>> properties = {"a": {"type": "string"}, "b": {"type": "integer"}}
    >>> arguments_of([("a", "value", "007", 0), ("b", "value", "7", 4)], {"properties": properties})
    {'a': '007', 'b': 7}
    """
    kinds = _recent.found(content(schema), lambda: _Kinds(schema))
    found: dict[str, Any] = {}
    for key, rule, text, place in pairs:
        spend(1 + len(text) // 8)
        if key in found:
            raise Fault(place, f"the parameter {key!r} comes twice", "another parameter", _pointer(key))
        holds = (
            rule == ELEMENTS
            or nested is not None
            and rule == "value"
            and not text.strip()
            and kinds.of(key) <= _CONTAINERS
        )
        found[key] = _nested(text, place, key, schema, nested) if holds else _value(rule, text, place, key, kinds.of)
    return found


def _nested(text: str, place: int, key: str, schema: Any, nested: Callable[[str, Any], Any] | None) -> Any:
    assert nested is not None  # a format with such a rule says how
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    try:
        return nested(text, properties.get(key, {}) if isinstance(properties, Mapping) else {})
    except Fault as fault:
        raise Fault(place + fault.at, fault.because, fault.expected, _pointer(key)) from None


def typed(text: str, schema: Any) -> Any:
    """Return what a raw text means as the property ``value`` of a schema."""
    return arguments_of([("value", "value", text, 0)], schema)["value"]


def _value(rule: str, text: str, place: int, key: str, kinds: Callable[[str], frozenset[str]]) -> Any:
    if rule == CROSSED:
        raise Fault(place, f"the parameter {key!r} is closed by {text!r}", f"</{key}>", _pointer(key))
    if rule == "text_value":
        return text
    if rule == "json_value":
        try:
            return json_of(text)
        except Fault as fault:
            raise Fault(place + fault.at, fault.because, fault.expected, _pointer(key) + fault.pointer) from None
    allowed = kinds(key)
    if allowed == {"string"}:
        return text
    try:
        value = _WORDS[text] if text in _WORDS else json_of(text)
    except Fault:
        return text
    return value if kind_of(value) in allowed or "string" not in allowed else text


def json_of(text: str) -> Any:
    """Return the value of a JSON text.  Raises: Fault."""
    reader = JsonReader("[")
    try:
        end = reader.feed(f"[{text}]", 0, len(text) + 2)
        if not reader.done or end != len(text) + 2 or len(reader.value) != 1:
            raise Fault(end, "it is not one JSON value", "a JSON value", "")
    except Fault as fault:
        raise Fault(max(0, fault.at - 1), fault.because, fault.expected, fault.pointer.removeprefix("/0")) from None
    return reader.value[0]


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
