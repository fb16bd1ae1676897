"""Why a schema allows no value: the innermost place that must be filled and cannot, and the keywords to blame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from constrained.errors import SchemaError
from constrained.regex import is_empty, matches
from constrained.schema.normal.normalise import is_never
from constrained.schema.reading.check import load
from constrained.schema.reading.document import NOTHING, Node
from constrained.schema.reading.keywords import NOTES, REFERRING
from constrained.schema.strings.sets import of_pattern
from constrained.schema.values import Conj

_OUTSIDE = '"unevaluatedProperties": false beside "allOf", for "additionalProperties": false inside it'
_NOTES = NOTES.union("$schema $id id $anchor $dynamicAnchor $recursiveAnchor $defs definitions".split())


def conflict(conj: Conj) -> SchemaError:
    """Return the error that names what is wrong with a conjunction without values.

    >>> n = {"minimum": 2, "maximum": 1, "type": "integer"}
    >>> str(conflict(load({"type": "object", "required": ["n"], "properties": {"n": n}})))
    'schema allows no value at #/properties/n\\n  because: these keywords contradict each other: minimum, maximum, type'
    """
    if len(conj) != 1 or conj == NOTHING:
        return SchemaError("schema allows no value", where="#", because="it is false")
    (signed,) = conj
    node, endless = _innermost(signed.node)
    because, instead = _endless() if endless else _closed_out(node) or _blamed(node)
    return SchemaError("schema allows no value", where=node.pointer, because=because, instead=instead)


def _endless() -> tuple[str, str]:
    return "each value needs one like itself inside it, without end", '"required" or "minItems" without what leads back'


def _blamed(node: Node) -> tuple[str, str | None]:
    keywords, pattern = _needed(node), node.schema.get("pattern")
    if "pattern" in keywords and isinstance(pattern, str) and is_empty(of_pattern(pattern)):
        return f"no text matches the pattern {pattern!r}", None
    if len(keywords) > 1:
        return f"these keywords contradict each other: {', '.join(keywords)}", None
    return f"no value satisfies {keywords[0]}", None


def _innermost(node: Node) -> tuple[Node, bool]:
    """Follow references and required properties that have no value; say whether they lead back."""
    seen = set()
    while isinstance(node.schema, dict):
        if id(node.schema) in seen:
            return node, True
        seen.add(id(node.schema))
        told = node.schema.keys() - _NOTES
        if len(told) == 1 and not told.isdisjoint(REFERRING):
            target = node.referent(told.pop())
            if len(target) == 1 and target != NOTHING:
                node = next(iter(target)).node
                continue
        children = (node.below(*step) for step in _needed_below(node.schema))
        stuck = next((child for child in children if len(child) == 1 and child != NOTHING and is_never(child)), None)
        if stuck is None:
            break
        node = next(iter(stuck)).node
    return node, False


def _needed_below(schema: dict[str, Any]) -> Iterator[tuple[Any, str, str | int | None]]:
    """Yield the subschemas that need a value for the whole to have one, each with its keyword and step."""
    properties = schema.get("properties", {})
    yield from ((properties[name], "properties", name) for name in schema.get("required", ()) if name in properties)
    yield from ((member, "allOf", at) for at, member in enumerate(schema.get("allOf", ())))
    if schema.get("minItems") and isinstance(schema.get("items"), dict):
        yield schema["items"], "items", None


def _closed_out(node: Node) -> tuple[str, str] | None:
    """Return which key is required, and where no other than some keys may be; None: there is none."""
    parts = _applied(node)
    for closed in parts:
        schema = closed.schema
        patterns = [of_pattern(pattern) for pattern in schema.get("patternProperties", ())]
        for part in parts if schema.get("additionalProperties") is False else ():
            for name in part.schema.get("required", ()):
                if name in schema.get("properties", ()) or any(matches(pattern, name) for pattern in patterns):
                    continue
                if part is closed:
                    because = f"the key {name!r} is required and not among the properties"
                    return because, f'"properties": {{"{name}": schema}}'
                return f"the key {name!r} is required at {part.pointer} and excluded at {closed.pointer}", _OUTSIDE
    return _too_few_keys(parts)


def _too_few_keys(parts: Sequence[Node]) -> tuple[str, str] | None:
    """Return which members allow too few keys together; None: it is not so."""
    asking = max(parts, key=lambda part: part.schema.get("minProperties", 0))
    closed = {
        part.pointer: part.schema.get("properties", {}) for part in parts
        if part.schema.get("additionalProperties") is False and "patternProperties" not in part.schema
    }
    shared = set.intersection(*map(set, closed.values())) if len(closed) > 1 else ()
    if len(closed) < 2 or len(shared) >= (least := asking.schema.get("minProperties", 0)):
        return None
    allowed = [f"only {', '.join(map(repr, islice(keys, 5)))} at {place}" for place, keys in islice(closed.items(), 5)]
    return f"{least} or more keys are required at {asking.pointer}, and allowed {' and '.join(allowed)}", _OUTSIDE


def _applied(node: Node) -> list[Node]:
    """Return a schema and those that it applies to the same value in any case."""
    applied: dict[int, Node] = {}
    todo = [node]
    for node in todo:
        schema = node.schema
        if not isinstance(schema, dict) or id(schema) in applied:
            continue
        applied[id(schema)] = node
        rules = node.resource.dialect.rules
        references = [node.referent(word) for word in REFERRING if word in schema and word in rules]
        members = [node.below(member, "allOf", at) for at, member in enumerate(schema.get("allOf", ()))]
        todo += [signed.node for conj in references + members for signed in conj if signed.positive]
    return [*applied.values()]


def _needed(node: Node) -> list[str]:
    """Return keywords of a node, fewer and fewer as long as they still allow no value; all of them where references are
    involved.
    """
    schema: dict[str, Any] = {name: value for name, value in node.schema.items() if name not in _NOTES}
    if _refers(schema):
        return list(schema)
    for name in list(schema):
        fewer = {other: value for other, value in schema.items() if other != name}
        if is_never(load(fewer, dialect=node.resource.dialect, closed=node.document.closed)):
            schema = fewer
    return list(schema)


def _refers(value: Any) -> bool:
    """Say whether there is a reference somewhere in a schema."""
    todo, seen = [value], set[int]()  # a value of Python may hold itself
    for part in todo:
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            if not part.keys().isdisjoint(REFERRING):
                return True
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return False
