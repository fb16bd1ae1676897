"""What a surface is: how values are punctuated.  The machines know nothing else about JSON or Python.

A surface is a function from options to a `Punctuation` (`json`, `python`); a third one is one more file and its line in
`SURFACES` of `embedding`.  Separators are machine states that are *called*, so that all objects and arrays of a process
share them, and with them the masks inside them.

Whitespace: a run is bounded, because a model that may pad forever will.  The bound leaves room for 255 levels of
``indent=4``; nothing is gained by a larger one, and its size costs nothing (the run is a counter whose masks saturate).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from constrained.errors import SchemaError
from constrained.machine import END, Bytes, Edges, MarkerSafe, State, Surface, Text
from constrained.regex import Expr, char_class, repeat
from constrained.schema.numeric.exponents import Spelling

LONGEST_GAP = 1024  # characters of whitespace in a row

WHITESPACES = ("canonical", "compact", "flexible")
SPELLINGS = ("any", "canonical")


class Optional(NamedTuple):
    """A callee or nothing.  Never called itself: it stands at the end of a machine."""

    callee: State

    def expand(self) -> Edges:
        return Edges(calls=((self.callee, END),), accepting=True)


class Padded(NamedTuple):
    """Bytes between optional gaps."""

    data: bytes
    gap: State
    after: bool  # a gap may also follow

    def expand(self) -> Edges:
        rest: State = Optional(self.gap) if self.after else END
        bare = Bytes(self.data, rest)
        return Edges(ranges=bare.expand().ranges, calls=((self.gap, bare),))


class Token(NamedTuple):
    """A special token, then another state."""

    name: str
    then: State

    def expand(self) -> Edges:
        return Edges(tokens=((self.name, self.then),))


class Followed(NamedTuple):
    """Bytes, then an optional gap."""

    data: bytes
    gap: State

    def expand(self) -> Edges:
        return Bytes(self.data, Optional(self.gap)).expand()


@dataclass(frozen=True, slots=True)
class Brackets:
    """How a sequence of entries is enclosed and separated."""

    opening: bytes
    closing: int
    trailing: bool = False  # a comma may stand before the closing bracket
    lonely: bool = False  # … and must, after a single entry: "(1,)"
    leading: bool = False  # what separates entries also stands before the first
    end: State | None = None  # in place of the closing byte
    bare: State | None = None  # … where there are no entries


@dataclass(frozen=True, slots=True)
class Keys:
    """How the keys of an object are written."""

    surface: Surface | MarkerSafe
    colon: State  # between a key and its value
    within: Expr | None = None  # the keys that an object may have where its schema does not list them; None: any


@dataclass(frozen=True, slots=True, eq=False)  # PERF: a part of keys, and surfaces keep those that they make
class Punctuation:
    """How a surface writes values.  Compared by identity.  `gap` is a run of whitespace, at least one character; None:
    none is allowed.
    """

    null: bytes
    false: bytes
    true: bytes
    strings: Surface | MarkerSafe
    numbers: Spelling
    comma: State
    gap: State | None
    keys: Keys
    objects: Brackets
    arrays: tuple[Brackets, ...]
    quote: str | None = None  # the special token between which strings stand as they are
    avoid: tuple[str, ...] = ()  # what such strings do not hold


@dataclass(frozen=True, slots=True)
class Separators:
    """The states that stand between entries."""

    comma: State
    colon: State
    gap: State | None


def separators(
    whitespace: str, ranges: tuple[tuple[int, int], ...], colon: bytes, spaced_colon: bytes, longest: int = LONGEST_GAP
) -> Separators:
    """Return the separators of a whitespace style; `ranges` are the characters of a gap, and `longest` is how many may
    stand in a row.

    spaced_colon: how the canonical style writes a colon.
    """
    if whitespace == "canonical":
        return Separators(Bytes(b", ", END), Bytes(spaced_colon, END), None)
    if whitespace == "compact":
        return Separators(Bytes(b",", END), Bytes(colon, END), None)
    if whitespace != "flexible":
        raise SchemaError(f"unknown whitespace {whitespace!r}", instead=f"one of: {', '.join(WHITESPACES)}")
    if longest == 0:
        return Separators(Bytes(b",", END), Bytes(colon, END), None)
    gap = Text(Surface.RAW, repeat(char_class(ranges), 1, longest))
    return Separators(Followed(b",", gap), Padded(colon, gap, after=True), gap)


def spelled(text: str, specials: Collection[str], then: State) -> State:
    """Return the state that reads a text in which the names of special tokens are those tokens, and then another
    state.
    """
    pieces = (
        re.split("(" + "|".join(map(re.escape, sorted(specials, key=len, reverse=True))) + ")", text)
        if specials
        else [text]
    )
    for index in range(len(pieces) - 1, -1, -1):
        if pieces[index]:
            then = Token(pieces[index], then) if index % 2 else Bytes(pieces[index].encode(), then)
    return then


def check_spelling(spelling: str, avoid: tuple[str, ...]) -> None:
    if spelling not in SPELLINGS:
        raise SchemaError(f"unknown spelling {spelling!r}", instead=f"one of: {', '.join(SPELLINGS)}")
    if avoid and spelling == "any":
        raise SchemaError(
            "the spelling is 'any'",
            because="only canonical strings are spelled around texts to avoid",
            instead="spelling='canonical'",
        )
