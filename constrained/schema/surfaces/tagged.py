"""Members between tags as a surface: strings stand there as raw text, all other values as JSON.

    <parameter=city>⏎Oslo⏎</parameter>⏎<parameter=days>⏎3⏎</parameter>⏎</function>

Many models write the arguments of a call so.  Only the outermost object is tagged; what stands inside it is JSON.  The
tags are data (`Tags`), so that each family of models brings its own; a tag that is one id for a tokenizer and text for
another works as either.

Nothing can be escaped in raw text.  So a string never holds what ends a value, and where a parameter may also have
values of other types, a string is never a text that a reader would take for one of those: readers take what is JSON of
another allowed type as that, and everything else as the string.  JSON inside the tags writes "<\\/" for "</" in
strings.

Left out: names of members beyond `NAME`; where a parameter may be a string or an object (array), strings in braces
(brackets).

Tested by the rows of all formats that use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from constrained.errors import SchemaError
from constrained.machine import END, Edges, State, Surface, Text
from constrained.regex import (
    ANY,
    NEVER,
    Expr,
    complement,
    intersect,
    is_empty,
    literals,
    matches,
    parse_python,
    repeat,
    union,
    without,
)
from constrained.schema.machines.object import ObjectMachine
from constrained.schema.machines.punctuation import Brackets, KeySpelling, Punctuation, spelled
from constrained.schema.machines.value import Values, choice
from constrained.schema.normal.normalise import is_never, normalise
from constrained.schema.reading.nodes import NOTHING
from constrained.schema.values import Conj, Value

KINDS = ("string", "number", "boolean", "null", "object", "array")
NAME = r"""[^\s<>"'=/&,:{}\[\]|\\]+"""  # of a member: what a tag of every format can hold

_MISTAKEN = {  # the texts that readers take for a value of a type
    "number": r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", "boolean": "[Tt]rue|[Ff]alse", "null": "null|None",
    "object": r"\{[\s\S]*\}", "array": r"\[[\s\S]*\]",
}
AGAIN = "\0"
_FILLED = repeat(ANY, 1, None)


class Tags(NamedTuple):
    """What stands around the members of an object.

    A member is ``key NAME value[kind] TEXT end``, with one text in `value` for each of `KINDS`.  `opening` and
    `closing` stand around all of them, and `bare` in place of `closing` where there is none.  `text`: a Python regular
    expression of what raw text may be, which keeps out what ends a value for readers.
    `markers`: parts of the tags that some tokenizers have as tokens; `specials`: those that are tokens here.
    `avoid`: what raw text does not hold, as readers search for it, and `ends`: what it does not end with, as more of it
    may follow.

    `end` may hold `AGAIN`, for the name of the member; then only members that the schema names can be written.

    Invariants: `end`, `closing` and `bare` are not empty; the texts of `value` begin alike, and differ in no special
    token.
    """

    opening: str
    key: str
    value: tuple[str, ...]
    end: str
    closing: str
    bare: str
    text: str
    markers: tuple[str, ...] = ()
    specials: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


class Written(NamedTuple):
    """A text and the tag behind it; the text may be empty."""

    texts: tuple[State, ...]
    empty: bool
    end: State

    def expand(self) -> Edges:
        calls = tuple([(text, self.end) for text in self.texts])
        return Edges(calls=(*calls, (self.end, END)) if self.empty else calls)


class Member(NamedTuple):
    """A value of a conjunction, from behind what all kinds of values have in common to the end of its tag."""

    members: Members
    conj: Conj

    def expand(self) -> Edges:
        return self.members.edges(self.conj)


class Members:
    """What an `ObjectMachine` asks about values, for values between tags; `values` writes the JSON."""

    def __init__(self, values: Values, tags: Tags, name: str = "") -> None:
        self.ordered, self.value = values.ordered, values.value
        self._values, self._tags = values, tags
        self._shared = _beginning(tags.value)
        self.punctuation = self._punctuation()
        self._end = spelled(tags.end.replace(AGAIN, name), tags.specials, END)
        self._named: dict[str, Members] = {}
        self._clean = _text(tags.text, tags.avoid, tags.ends)

    def _punctuation(self) -> Punctuation:
        tags, inner = self._tags, self._values.punctuation
        closing, bare = (spelled(text, tags.specials, END) for text in (tags.closing, tags.bare))
        return replace(
            inner,
            comma=spelled(tags.key, tags.specials, END),
            gap=None,
            keys=KeySpelling(
                Surface.RAW, spelled(self._shared, tags.specials, END), within=NEVER if AGAIN in tags.end else _names()
            ),
            objects=Brackets(b"", 0, leading=True, end=closing, bare=bare),
        )

    def start(self, conj: Conj) -> State:
        """Return the state that reads the members of an object, opening and closing included.

        Raises: SchemaError: a name of a member cannot stand in a tag, or no object can be written.
        """
        machines = [ObjectMachine(self, shape, self.punctuation) for shape in self.value(conj).objects]
        machines = [machine for machine in machines if machine.completable(machine.start)]
        if not machines:
            raise SchemaError(
                "arguments cannot be written between tags",
                where="#",
                because=(
                    "each object of the schema has a string that holds the text that ends it, or is no object "
                    "at all"
                ),
                instead="rename it",
            )
        return spelled(self._tags.opening, self._tags.specials, choice([machine.start for machine in machines]))

    def named(self, name: str) -> Members:
        """Return what writes the values of one member."""
        if AGAIN not in self._tags.end:
            return self
        if name not in self._named:
            self._named[name] = Members(self._values, self._tags, name)
        return self._named[name]

    def state(self, conj: Conj) -> State:
        return Member(self, conj)

    def never(self, conj: Conj) -> bool:
        return self._values.never(conj) or not any(True for _ in self._ways(conj))

    def edges(self, conj: Conj) -> Edges:
        """Return what leaves a `Member`."""
        tags = self._tags
        calls: list[tuple[State, State]] = []
        for rest, written in self._ways(conj):
            spelling = [(spelled(rest, tags.specials, END), written)] if rest else written.expand().calls
            calls += spelling  # type: ignore[arg-type]
        return Edges(calls=tuple(calls))

    def _ways(self, conj: Conj) -> Iterator[tuple[str, Written]]:
        """Yield the kinds of values: what of their tag is not shared, and the text."""
        value = self.value(conj)
        rests = [text[len(self._shared) :] for text in self._tags.value]
        strings = self.strings(value)
        for rest in dict.fromkeys(rests):
            kinds = {kind for kind, text in zip(KINDS, rests, strict=True) if text == rest}
            texts = self._texts(conj, value, kinds)
            raw = strings if "string" in kinds else NEVER
            filled = intersect(raw, _FILLED) if raw is not NEVER and raw.accepts else raw
            if filled is not NEVER and not is_empty(filled):
                texts.append(Text(Surface.RAW, filled.literal_set or filled))
            empty = raw is not NEVER and raw.accepts
            if texts or empty:
                yield rest, Written(tuple(texts), empty, self._end)

    def _texts(self, conj: Conj, value: Value, kinds: set[str]) -> list[State]:
        """Return what reads the JSON values of some kinds: one state, or none."""
        part = _restricted(value, kinds)
        if part == value and value:
            return [self._values.state(conj)]  # which other documents share
        alternatives = self._values.alternatives(part)
        return [choice(alternatives)] if alternatives else []

    def left_out(self, conj: Conj) -> list[tuple[Conj, str]]:
        """Return the members, as their conjunctions, whose strings are not all written because readers take some for
        other values, and why.

        PERF: a member of one type, as nearly all are, is told from its keywords.
        """
        found: list[tuple[Conj, str]] = []
        for shape in self.value(conj).objects:
            for part in dict.fromkeys((*(part for _, part in shape.named), *(part for _, part in shape.cells))):
                if part == NOTHING or any(
                    literal.positive and type(literal.node.schema.get("type")) is str for literal in part
                ):
                    continue
                value = self.value(part)
                others = self._told_apart_from(value)
                if others and not is_empty(intersect(value.strings, _mistaken(tuple(others)))):
                    found.append(
                        (
                            part,
                            f"a string that reads as {' or '.join(others)} is not written, as readers take it for one",
                        )
                    )
        return found

    def _told_apart_from(self, value: Value) -> list[str]:
        """Return the other kinds of values that stand between the same tags as the strings."""
        rests = dict(zip(KINDS, self._tags.value, strict=True))
        return (
            [kind for kind in kinds_of(value) if kind != "string" and rests[kind] == rests["string"]]
            if value.strings is not NEVER
            else []
        )

    def strings(self, value: Value) -> Expr:
        """Return the strings of a value that can stand between the tags and are read back as strings."""
        if value.strings is NEVER:
            return NEVER
        others = self._told_apart_from(value)
        mistaken = _mistaken(tuple(others))
        listed = value.strings.literal_set
        if listed is not None:
            kept = [text for text in listed.texts if matches(self._clean, text) and not matches(mistaken, text)]
            return literals(kept) if kept else NEVER
        language = intersect(value.strings, self._clean)
        return intersect(language, complement(mistaken)) if others else language


def _beginning(texts: tuple[str, ...]) -> str:
    """Return what texts have in common at their beginning."""
    least, most = min(texts), max(texts)
    return least[
        : next((at for at, (left, right) in enumerate(zip(least, most, strict=False)) if left != right), len(least))
    ]


def kinds_of(value: Value) -> list[str]:
    """Return the types of the values of a set, of `KINDS`."""
    held = (value.strings is not NEVER, value.numbers, value.booleans, value.null, value.objects, value.arrays)
    return [kind for kind, there in zip(KINDS, held, strict=True) if there]


def _restricted(value: Value, kinds: set[str]) -> Value:
    """Return the values of some kinds, without the strings."""
    return Value(
        value.null and "null" in kinds,
        value.booleans if "boolean" in kinds else frozenset(),
        value.numbers if "number" in kinds else (),
        NEVER,
        value.arrays if "array" in kinds else (),
        value.objects if "object" in kinds else (),
    )


@lru_cache(maxsize=64)
def _text(pattern: str, avoid: tuple[str, ...], ends: tuple[str, ...]) -> Expr:
    return intersect(parse_python(pattern), without(avoid, ends)) if avoid else parse_python(pattern)


@lru_cache(maxsize=64)
def _mistaken(kinds: tuple[str, ...]) -> Expr:
    return union(*[parse_python(rf"[ \t\r\n]*({_MISTAKEN[kind]})[ \t\r\n]*") for kind in kinds]) if kinds else NEVER


@lru_cache(maxsize=1)
def _names() -> Expr:
    return parse_python(NAME)


def check_names(conj: Conj) -> None:
    """Refuse members whose names cannot stand in a tag.

    Raises: SchemaError: for the first of them.
    """
    for shape in normalise(conj).objects:
        for name, part in shape.named:
            because = None if is_never(part) else why_no_tag(name)
            if because is not None:
                raise SchemaError(
                    f"parameter {name!r} cannot be the name of a tag", where="#/properties", because=because,
                    instead="rename the parameter, or use a format that writes arguments in JSON")


def why_no_tag(name: str) -> str | None:
    """Return why a name cannot stand in a tag, None where it can."""
    return (
        None
        if re.fullmatch(NAME, name)
        else "it holds whitespace, a quote, a bracket or another sign that tags are made of"
    )
