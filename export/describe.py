"""A normalised schema as text for people: what is enforced, references and conjunctions worked out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from fractions import Fraction

from constrained.regex import ANY_TEXT, NEVER
from constrained.regex.show import pattern_text
from constrained.schema.normal.normalise import ANYTHING, is_never, normalise
from constrained.schema.reading.document import ordered
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
