r"""Members between tags, and strings between special tokens, as surfaces.

    <parameter=city>⏎Oslo⏎</parameter>⏎<parameter=days>⏎3⏎</parameter>⏎</function>

Many models write the arguments of a call so: strings stand there as raw text, all other values as JSON.  Only the
outermost object is tagged, and what stands inside it is JSON, but for formats that write elements inside of elements:

    <city><name>Oslo</name><tags><item>a</item></tags></city>

Elements say less than JSON does: an element without elements may be an object, a list or no text.  So `nests` says
where a format that has elements writes them; everywhere else the object or list stands as JSON between its tags, which
the readers of such formats take as well.  The tags are data (`Tags`), so that each family of models brings its own; a
tag that is one id for a tokenizer and text for another works as either.

Nothing can be escaped in raw text.  So a string never holds what ends a value, and where a parameter may also have
values of other types, a string is never a text that a reader would take for one of those: readers take what is JSON of
another allowed type as that, and everything else as the string.  JSON inside the tags writes "<\/" for "</" in
strings.

    {city:<|"|>Oslo<|"|>,days:3,tags:[<|"|>a"b<|"|>]}

Where strings stand between special tokens (`quoted`), nothing is escaped either, so that they never hold the token's
spelling, which readers of text would take for its end.  Keys stand there as they are, without blanks and brackets.

Left out: names of members beyond `NAME`; where a parameter may be a string or an object (array), strings in braces
(brackets); between special tokens ``uniqueItems`` of arrays whose items may be strings (`EmbeddedSchema` refuses it, or
lists it in `widened`).

Tested by the rows of all formats that use it, and by tests/test_tagged.py.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from constrained.errors import SchemaError, UnsupportedSchema
from constrained.machine import END, Bytes, Edges, Quoting, State, Text
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
from constrained.schema.machines.array import ArrayMachine
from constrained.schema.machines.object import ObjectMachine
from constrained.schema.machines.value import Values, choice
from constrained.schema.normal.normalise import is_never, normalise
from constrained.schema.number_texts import CANONICAL_NUMBERS
from constrained.schema.reading.document import NOTHING
from constrained.schema.surfaces.punctuation import Brackets, KeySpelling, Punctuation, spelled
from constrained.schema.values import ArrayShape, Conj, ObjectShape, Value

# ======================================================================================================================
# Tags as data
# ======================================================================================================================

KINDS = ("string", "number", "boolean", "null", "object", "array")
CONTAINERS = KINDS[4:]
NAME = r"""[^\s<>"'=/&,:{}\[\]|\\]+"""  # of a member or a bare key: what a tag of every format can hold
AGAIN = "\0"


class Slot(NamedTuple):
    """A place for a value: ``value[kind] TEXT end``, with one text in `value` for each of `KINDS`.

    `elements`: what stands before the elements of an object, and before those of an array, in place of `value`; none
    where such values are only written as JSON.  `end` may hold `AGAIN`, for the name of the member.
    """

    value: tuple[str, ...]
    end: str
    elements: tuple[str, ...] = ()


class Tags(NamedTuple):
    """What stands around the members of an object.

    A member is ``key NAME``, then `slot`; an item of an array that is written as elements is `item`.  `opening` and
    `closing` stand around all members, and `bare` in place of `closing` where there is none.  `text`: a Python regular
    expression of what raw text may be, which keeps out what ends a value for readers.
    `markers`: parts of the tags that some tokenizers have as tokens; `specials`: those that are tokens here.
    `avoid`: what raw text does not hold, as readers search for it, and `ends`: what it does not end with, as more of it
    may follow.

    Where the end of a member repeats its name, only members that the schema names can be written.

    Invariants: `slot.end`, `closing` and `bare` are not empty; the texts of a slot begin alike, and differ in no
    special token; `item` is there where its slot has `elements`, and is not empty before the value.
    """

    opening: str
    key: str
    slot: Slot
    closing: str
    bare: str
    text: str
    item: Slot | None = None
    markers: tuple[str, ...] = ()
    specials: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


def kinds_of(value: Value) -> list[str]:
    """Return the types of the values of a set, of `KINDS`."""
    held = (value.strings is not NEVER, value.numbers, value.booleans, value.null, value.objects, value.arrays)
    return [kind for kind, there in zip(KINDS, held, strict=True) if there]


def why_no_tag(name: str) -> str | None:
    """Return why a name cannot stand in a tag, None where it can."""
    return (
        None
        if re.fullmatch(NAME, name)
        else "it holds whitespace, a quote, a bracket or another sign that tags are made of"
    )


def nests(kind: str, value: Value, slot: Slot, tags: Tags, never: Callable[[Conj], bool]) -> bool:
    """Return whether the objects (arrays) of a set of values are written as elements.

    Not where readers could take no elements for a text or for the other kind, where a name cannot be that of a tag, and
    not arrays whose items must differ, which are compared by their JSON.
    """
    if not slot.elements:
        return False
    beginnings = dict(zip(CONTAINERS, slot.elements, strict=True), string=slot.value[0])
    own = beginnings.pop(kind)
    if any(beginnings.get(other) == own for other in kinds_of(value)):
        return False
    if kind == "array":
        return all(shape.unique is None for shape in value.arrays)
    return all(
        not (shape.cells and AGAIN in tags.slot.end)
        and not any(why_no_tag(name) for name, part in shape.named if not never(part))
        for shape in value.objects
    )


# ======================================================================================================================
# Strings between special tokens
# ======================================================================================================================

@lru_cache(maxsize=16)
def quoted(quote: str, avoid: tuple[str, ...] = ()) -> Punctuation:
    """Return the punctuation in which strings stand between a special token and hold none of the texts to avoid."""
    return Punctuation(
        null=b"null",
        false=b"false",
        true=b"true",
        strings=Quoting.RAW,
        numbers=CANONICAL_NUMBERS,
        comma=Bytes(b",", END),
        gap=None,
        keys=KeySpelling(Quoting.RAW, Bytes(b":", END), within=parse_python(NAME)),
        objects=Brackets(b"{", ord("}")),
        arrays=(Brackets(b"[", ord("]")),),
        quote=quote,
        avoid=avoid,
    )


def check_quoted(schema: Any, quote: str, avoid: tuple[str, ...] = ()) -> None:
    """Refuse what cannot be written.

    Raises: SchemaError: a listed string holds the quote, or a key cannot stand bare.  UnsupportedSchema: items that
    must differ.
    """
    for pointer, word, value in _keywords(schema, "#"):
        held = (
            next((text for text in (quote, *avoid) if text in str(value)), None)
            if word in ("enum", "const")
            else None
        )
        if held is not None:
            raise SchemaError(
                f"a value with {held!r} cannot be written",
                where=pointer,
                because="strings stand between these tokens, and nothing is escaped",
            )
        if word == "properties" and isinstance(value, dict):
            for name, part in value.items():
                because = None if part is False else why_not_bare(name)
                if because is not None:
                    raise SchemaError(
                        f"parameter {name!r} cannot be written without quotes",
                        where=pointer,
                        because=because,
                        instead="rename the parameter",
                    )
        if word == "uniqueItems" and value is True:
            raise UnsupportedSchema(
                "cannot compile keyword 'uniqueItems'",
                where=pointer,
                because="strings between special tokens are not compared",
                instead="leave it out, or unsupported='widen'",
            )


def why_not_bare(name: str) -> str | None:
    """Return why a key cannot stand without quotes, None where it can."""
    return None if re.fullmatch(NAME, name) else "it holds whitespace, a quote, a bracket or another sign"


_DATA = frozenset({"enum", "const", "default", "examples"})


def _keywords(schema: Any, pointer: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the keywords of a schema and of what is in it, with their pointers; names of properties count as keywords
    too, which is harmless.
    """
    work = [(schema, pointer)]
    while work:
        part, at = work.pop()
        if isinstance(part, list):
            work += [(item, f"{at}/{index}") for index, item in enumerate(part)]
        elif isinstance(part, dict):
            for key, value in part.items():
                place = f"{at}/{str(key).replace('~', '~0').replace('/', '~1')}"
                yield place, key, value
                if key not in _DATA:
                    work.append((value, place))


# ======================================================================================================================
# Members between tags
# ======================================================================================================================

_MISTAKEN = {  # the texts that readers take for a value of a type
    "number": r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", "boolean": "[Tt]rue|[Ff]alse", "null": "null|None",
    "object": r"\{[\s\S]*\}", "array": r"\[[\s\S]*\]",
}
_FILLED = repeat(ANY, 1, None)


class TextThenTag(NamedTuple):
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
    """What an `ObjectMachine` asks about values, for values between tags; `values` writes the JSON.

    `root` writes the members of objects; each member whose name stands in its end tag, and the items of arrays, have
    one of their own, which `root` keeps.
    """

    def __init__(
        self, values: Values, tags: Tags, *, root: Members | None = None, slot: Slot | None = None, name: str = ""
    ) -> None:
        self.ordered, self.value = values.ordered, values.value
        self._values, self._tags, self._slot = values, tags, slot or tags.slot
        self._root = root or self
        self._shared = _beginning((*self._slot.value, *self._slot.elements))
        self._end = self._spelled(self._slot.end.replace(AGAIN, name))
        self._others: dict[str | None, Members] = {}  # of `root`: by name, None: of items
        self._nested: dict[tuple[Conj, str], State | None] = {}
        self._clean = raw_texts(tags)
        self.punctuation = self._punctuation(self._spelled(tags.closing), self._spelled(tags.bare))

    def _spelled(self, text: str, then: State = END) -> State:
        return spelled(text, self._tags.specials, then)

    def _punctuation(self, closing: State, bare: State) -> Punctuation:
        """Return how members are written, to a closing tag of theirs, and items."""
        tags = self._tags
        brackets = Brackets(b"", 0, leading=True, end=closing, bare=bare)
        return replace(
            self._values.punctuation,
            comma=self._spelled(tags.key),
            gap=None,
            keys=KeySpelling(
                Quoting.RAW,
                self._spelled(_beginning((*tags.slot.value, *tags.slot.elements))),
                within=NEVER if AGAIN in tags.slot.end else _names(),
            ),
            objects=brackets,
            arrays=(brackets,),
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
        return self._spelled(self._tags.opening, choice([machine.start for machine in machines]))

    def named(self, name: str) -> Members:
        """Return what writes the values of one member."""
        if AGAIN not in self._tags.slot.end:
            return self._root
        return self._other(name, self._tags.slot)

    def _other(self, name: str | None, slot: Slot) -> Members:
        others = self._root._others
        if name not in others:
            others[name] = Members(self._values, self._tags, root=self._root, slot=slot, name=name or "")
        return others[name]

    def state(self, conj: Conj) -> State:
        return Member(self, conj)

    def never(self, conj: Conj) -> bool:
        """Say whether no value can be written: values other than strings can, if only in JSON."""
        if self._values.never(conj):
            return True
        value = self.value(conj)
        return kinds_of(value) == ["string"] and is_empty(self.strings(value))

    def edges(self, conj: Conj) -> Edges:
        """Return what leaves a `Member`."""
        calls: list[tuple[State, State]] = []
        for rest, written in self._ways(conj):
            calls += [(self._spelled(rest), written)] if rest else written.expand().calls  # type: ignore[arg-type]
        return Edges(calls=tuple(calls))

    def _ways(self, conj: Conj) -> Iterator[tuple[str, State]]:
        """Yield the kinds of values: what of their tag is not shared, and the rest of the member."""
        value, slot = self.value(conj), self._slot
        elements = {kind: state for kind in CONTAINERS if (state := self._elements(conj, value, kind)) is not None}
        for kind, state in elements.items():
            yield slot.elements[CONTAINERS.index(kind)][len(self._shared) :], state
        rests = [text[len(self._shared) :] for text in slot.value]
        strings = self.strings(value)
        for rest in dict.fromkeys(rests):
            kinds = {kind for kind, text in zip(KINDS, rests, strict=True) if text == rest} - elements.keys()
            texts = self._texts(conj, value, kinds)
            raw = strings if "string" in kinds else NEVER
            filled = intersect(raw, _FILLED) if raw is not NEVER and raw.accepts else raw
            if filled is not NEVER and not is_empty(filled):
                texts.append(Text(Quoting.RAW, filled.literal_set or filled))
            empty = raw is not NEVER and raw.accepts
            if texts or empty:
                yield rest, TextThenTag(tuple(texts), empty, self._end)

    def _texts(self, conj: Conj, value: Value, kinds: set[str]) -> list[State]:
        """Return what reads the JSON values of some kinds: one state, or none."""
        part = _restricted(value, kinds)
        if part == value and value:
            return [self._values.state(conj)]  # which other documents share
        alternatives = self._values.alternatives(part)
        return [choice(alternatives)] if alternatives else []

    def _elements(self, conj: Conj, value: Value, kind: str) -> State | None:
        """Return the state that reads an object (array) as elements, its closing tag included; None where it is written
        as JSON: see `nests`, and where each has a string that no tag can hold.
        """
        if not self._slot.elements or kind not in kinds_of(value):
            return None
        if (conj, kind) not in self._nested:
            nested = nests(kind, value, self._slot, self._tags, self._values.never)
            self._nested[conj, kind] = self._opened(conj, value, kind) if nested else None
        return self._nested[conj, kind]

    def _opened(self, conj: Conj, value: Value, kind: str) -> State | None:
        marks = self._punctuation(self._end, self._end)
        states: list[State] = []
        if kind == "object":
            for shape in value.objects:
                machine = ObjectMachine(self._root, shape, marks, conj)
                if not machine.completable(machine.start):
                    return None
                states.append(machine.start)
        else:
            assert self._tags.item is not None
            items = self._other(None, self._tags.item)
            marks = replace(marks, comma=items._spelled(items._shared))
            for part in value.arrays:
                array = ArrayMachine(items, part, conj, marks)
                if not array.completable(array.start(0).progress):
                    return None
                states.append(array.start(0))
        return choice(states)

    def left_out(self, conj: Conj) -> list[tuple[Conj, str]]:
        """Return the values, members and items, as their conjunctions, of which not all are written, and why: names
        that no tag can hold, and strings that readers take for other values.

        A member of one type, as nearly all are, is told from its keywords.
        """
        parts, losses = {conj: None}, list[tuple[Conj, str]]()
        left = list(parts)
        for part in left:
            if part == NOTHING:
                continue
            typed = any(signed.positive and type(signed.node.schema.get("type")) is str for signed in part)
            if part != conj and not self._slot.elements and typed:
                continue
            value = self.value(part)
            losses += [(part, because) for because in self._losses(value, members=part == conj)]
            for kind, shapes in (("object", value.objects), ("array", value.arrays)):
                if part == conj or shapes and nests(kind, value, self._slot, self._tags, self._values.never):
                    new = [inner for shape in shapes for inner in _parts(shape) if inner not in parts]
                    parts.update(dict.fromkeys(new))
                    left += dict.fromkeys(new)
        return losses

    def _losses(self, value: Value, *, members: bool) -> Iterator[str]:
        """Yield why not all of a set of values are written; members: the members themselves, between no tags."""
        if members or nests("object", value, self._slot, self._tags, self._values.never):
            within = self.punctuation.keys.within
            assert within is not None
            keys = [language for shape in value.objects for language, _ in shape.cells]
            if any(not is_empty(intersect(language, complement(within))) for language in keys):
                yield "a name that the schema does not list is not written where no tag can hold it"
        if not members:
            others = self._told_apart_from(value)
            if others and not is_empty(intersect(value.strings, _mistaken(tuple(others)))):
                yield f"a string that reads as {' or '.join(others)} is not written, as readers take it for one"

    def _told_apart_from(self, value: Value) -> list[str]:
        """Return the other kinds of values that stand between the same tags as the strings."""
        rests = dict(zip(KINDS, self._slot.value, strict=True))
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


def _parts(shape: ObjectShape | ArrayShape) -> Iterator[Conj]:
    """Yield what the members or items of a shape are."""
    if isinstance(shape, ObjectShape):
        yield from (part for _, part in (*shape.named, *shape.cells))
    else:
        yield from (*shape.prefix, shape.rest)


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


def raw_texts(tags: Tags) -> Expr:
    """Return the texts that can stand between tags."""
    return _text(tags.text, tags.avoid, tags.ends)


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
    _check_members(normalise(conj).objects, why_no_tag, "the name of a tag")


def check_arguments(conj: Conj) -> None:
    """Refuse members that cannot be keyword arguments.

    Raises: SchemaError: for the first of them, or where the schema allows no object.
    """
    shapes = normalise(conj).objects
    if not shapes:
        raise SchemaError(
            "keyword arguments cannot be written", where="#", because="the schema allows no object",
            instead='"type": "object"')
    _check_members(shapes, why_no_argument, "a keyword argument")


def _check_members(shapes: tuple[ObjectShape, ...], why_not: Callable[[str], str | None], what: str) -> None:
    for shape in shapes:
        for name, part in shape.named:
            because = None if is_never(part) else why_not(name)
            if because is not None:
                raise SchemaError(
                    f"parameter {name!r} cannot be {what}", where="#/properties", because=because,
                    instead="rename the parameter, or use a format that writes arguments in JSON")


def why_no_argument(name: str) -> str | None:
    """Return why a name cannot be that of a keyword argument, None where it can."""
    if keyword.iskeyword(name):
        return "Python reads it as a keyword"
    return (
        None if name.isidentifier() and unicodedata.normalize("NFKC", name) == name else "it is not a Python identifier"
    )
