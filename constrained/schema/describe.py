"""A normalised schema as text for people: what is enforced, references and conjunctions worked out; and why a schema
allows no value: the innermost place that must be filled and cannot, and the keywords to blame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

from constrained.errors import SchemaError
from constrained.regex import ANY_TEXT, NEVER, is_empty, matches
from constrained.regex.show import pattern_text
from constrained.schema.normal.normalise import ANYTHING, is_never, normalise
from constrained.schema.reading.check import load
from constrained.schema.reading.document import NOTHING, Node, ordered
from constrained.schema.reading.keywords import REFERRING
from constrained.schema.strings.sets import of_pattern
from constrained.schema.values import (
    Absent,
    ArrayShape,
    Clause,
    Conj,
    HasNamed,
    HasOther,
    ItemAt,
    ItemFrom,
    LengthAtLeast,
    LengthBelow,
    NumberRange,
    ObjectShape,
    Obligation,
    Value,
)

# ======================================================================================================================
# Why there is no value
# ======================================================================================================================

_OUTSIDE = '"unevaluatedProperties": false beside "allOf", for "additionalProperties": false inside it'
_NOTES = frozenset(
    """$schema $id id $anchor $dynamicAnchor $recursiveAnchor $defs definitions title description default examples
    $comment""".split()
)


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
    found: dict[int, Node] = {}
    todo = [node]
    for node in todo:
        schema = node.schema
        if not isinstance(schema, dict) or id(schema) in found:
            continue
        found[id(schema)] = node
        rules = node.resource.dialect.rules
        references = [node.referent(word) for word in REFERRING if word in schema and word in rules]
        members = [node.below(member, "allOf", at) for at, member in enumerate(schema.get("allOf", ()))]
        todo += [signed.node for conj in references + members for signed in conj if signed.positive]
    return [*found.values()]


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
    todo = [value]
    for part in todo:
        if isinstance(part, dict):
            if not part.keys().isdisjoint(REFERRING):
                return True
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return False


# ======================================================================================================================
# What is enforced
# ======================================================================================================================

_INLINE_LEVELS = 3  # of arrays and objects; deeper ones get a paragraph of their own
_LONGEST_PATTERN = 100


def describe(conj: Conj) -> str:
    """Return a paragraph for the conjunction and one for each that it refers to.

    >>> from constrained.schema.reading.check import load
    >>> properties = {"a": {"type": "integer", "minimum": 3}, "b": {"$ref": "#"}}
    >>> print(describe(load({"properties": properties, "type": "object"})))
    #:
      object
        a: integer >= 3
        b: see #
        any other key: any value
    """
    return "\n".join(_Description(conj).lines())


class _Description:
    """The paragraphs so far, and those that are still owed."""

    def __init__(self, conj: Conj) -> None:
        self.owed = deque([conj])
        self.named = {conj}  # conjunctions that have a paragraph or are owed one

    def lines(self) -> Iterator[str]:
        while self.owed:
            conj = self.owed.popleft()
            yield f"{_name(conj)}:"
            for line in self._value(normalise(conj), 0):
                yield f"  {line}"

    def _part(self, label: str, conj: Conj, level: int) -> Iterator[str]:
        """Yield the lines of a child: on one line if it is simple, as a reference if it is deep or has a paragraph."""
        value = normalise(conj)
        simple = not value.arrays and not value.objects or value == ANYTHING
        if not simple and (conj in self.named or level >= _INLINE_LEVELS):
            if conj not in self.named:
                self.named.add(conj)
                self.owed.append(conj)
            yield f"{label}: see {_name(conj)}"
            return
        inner = list(self._value(value, level))
        if len(inner) == 1:
            yield f"{label}: {inner[0]}"
            return
        yield f"{label}:"
        for line in inner:
            yield f"  {line}"

    def _value(self, value: Value, level: int) -> Iterator[str]:
        """Yield one line per kind of value, and below arrays and objects what they contain."""
        if value == ANYTHING:
            yield "any value"
            return
        scalars = list(_scalars(value))
        if scalars or not value:
            yield " or ".join(scalars) if scalars else "no value"
        for items in value.arrays:
            yield from self._array(items, level + 1)
        for properties in value.objects:
            yield from self._object(properties, level + 1)

    def _array(self, shape: ArrayShape, level: int) -> Iterator[str]:
        different = {None: "", True: ", all different", False: ", not all different"}[shape.unique]
        yield f"array of {_count(shape.min, shape.max, 'item')}{different}"
        parts = [(f"item {index}", conj) for index, conj in enumerate(shape.prefix)]
        if shape.max is None or shape.max > len(shape.prefix):
            parts.append(("other items" if parts else "items", shape.rest))
        for label, conj in parts:
            yield from (f"  {line}" for line in self._part(label, conj, level))
        for number in shape.counts:
            yield from (
                f"  {line}" for line in self._part(f"{_count(number.min, number.max, 'item')} in", number.item, level)
            )
        yield from self._clauses(shape.clauses, level)

    def _object(self, shape: ObjectShape, level: int) -> Iterator[str]:
        bounds = f" of {_count(shape.min, shape.max, 'key')}" if shape.min or shape.max is not None else ""
        yield f"object{bounds}"
        for key, conj in shape.named:
            if not is_never(conj):
                yield from (
                    f"  {line}"
                    for line in self._part(f"{key} (required)" if key in shape.required else key, conj, level)
                )
        forbidden = [key for key, conj in shape.named if is_never(conj)]
        if forbidden and shape.cells:
            yield f"  never: {', '.join(forbidden)}"
        for language, conj in shape.cells:
            label = (
                "any other key" if language is ANY_TEXT else f"other keys matching {_pattern(pattern_text(language))}"
            )
            yield from (f"  {line}" for line in self._part(label, conj, level))
        if not shape.cells:
            yield "  no other key"
        yield from self._clauses(shape.clauses, level)

    def _clauses(self, clauses: tuple[Clause, ...], level: int) -> Iterator[str]:
        for clause in clauses:
            yield "  at least one of"
            for part in sorted(clause, key=_words):
                label = _words(part)
                if isinstance(part, (HasNamed, HasOther)):
                    yield from (f"    {line}" for line in self._part(label, part.value, level))
                elif isinstance(part, (ItemAt, ItemFrom)):
                    yield from (f"    {line}" for line in self._part(label, part.item, level))
                else:
                    yield f"    {label}"


def _words(part: Obligation) -> str:
    """Return an obligation in words, without the value that it asks for."""
    if isinstance(part, ItemAt):
        return f"item {part.index}"
    if isinstance(part, ItemFrom):
        return f"some item from number {part.index} on"
    if isinstance(part, LengthBelow):
        return f"fewer than {part.length} items"
    if isinstance(part, LengthAtLeast):
        return f"at least {part.length} items"
    if isinstance(part, HasNamed):
        return f"{part.key} is present"
    if isinstance(part, HasOther):
        return (
            "some other key"
            if part.keys is ANY_TEXT
            else f"some other key matching {_pattern(pattern_text(part.keys))}"
        )
    return f"{part.key} is absent" if isinstance(part, Absent) else f"{part.key} is present"


def _name(conj: Conj) -> str:
    return (
        " and ".join(("" if signed.positive else "not ") + signed.node.pointer for signed in ordered(conj))
        or "any value"
    )


def _scalars(value: Value) -> Iterator[str]:
    if value.null:
        yield "null"
    if value.booleans:
        yield " or ".join(sorted(str(boolean).lower() for boolean in value.booleans))
    yield from map(_numbers, value.numbers[:12])
    if len(value.numbers) > 12:
        yield f"{len(value.numbers) - 12} more numbers"
    if value.strings is ANY_TEXT:
        yield "string"
    elif value.strings is not NEVER:
        yield f"string {_pattern(pattern_text(value.strings))}"


def _pattern(text: str) -> str:
    return f"/{text}/" if len(text) <= _LONGEST_PATTERN else f"/{text[:_LONGEST_PATTERN]}…/"


def _numbers(numbers: NumberRange) -> str:
    if numbers.low is not None and numbers.low == numbers.high:
        return _decimal(numbers.low)
    found = {None: "number", True: "integer", False: "number that is not whole"}[numbers.integer]
    if numbers.low is not None:
        found += f" {'>' if numbers.low_open else '>='} {_decimal(numbers.low)}"
    if numbers.high is not None:
        found += f" {'<' if numbers.high_open else '<='} {_decimal(numbers.high)}"
    found += "".join(f", multiple of {_decimal(step)}" for step in numbers.multiples)
    return found + "".join(f", not a multiple of {_decimal(step)}" for step in numbers.not_multiples)


def _decimal(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else repr(float(value))


def _count(least: int, most: int | None, noun: str) -> str:
    if most is None:
        return f"{least} {noun}{'' if least == 1 else 's'} or more" if least else f"any number of {noun}s"
    return f"{least} {noun}{'' if least == 1 else 's'}" if least == most else f"{least} to {most} {noun}s"
