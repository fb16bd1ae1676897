"""`Punctuation`: how a surface writes values, with JSON (RFC 8259) and Python literals as surfaces.

The machines know nothing else about JSON or Python.  A surface is a function from options to a `Punctuation`; a third
one is one more file and its line in `SURFACES` of `embedding`.  Separators are machine states that are *called*, so
that all objects and arrays of a process share them, and with them the masks inside them.

Whitespace: a run is bounded, because a model that may pad forever will.  The bound leaves room for 255 levels of
``indent=4``; nothing is gained by a larger one, and its size costs nothing (the run is a counter whose masks saturate).

Python is what `ast.literal_eval` reads, and keyword arguments, ``(city='Oslo', n=3)``.  Left out: implicit
concatenation of strings, string prefixes, ``\\N{…}``, comments, backslashes at line ends, parentheses around a value,
sets, bytes, complex numbers and the number spellings that `number_texts` names; names of keyword arguments beyond ASCII
where the schema does not list them.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from constrained.caches import cached
from constrained.errors import SchemaError, shown
from constrained.machine import END, Bytes, Edges, MarkerSafe, Quoting, State, Text
from constrained.regex import (
    ANY,
    EPSILON,
    Expr,
    char_class,
    complement,
    concat,
    intersect,
    literal,
    literals,
    markers_of,
    parse_python,
    repeat,
    without,
)
from constrained.schema.number_texts import CANONICAL_NUMBERS, JSON_NUMBERS, PYTHON_NUMBERS, NumberSpelling

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

    def expand(self) -> Edges:
        bare = Bytes(self.data, Optional(self.gap))
        return Edges(ranges=bare.expand().ranges, calls=((self.gap, bare),))


class Token(NamedTuple):
    """A special token, then another state."""

    name: str
    then: State

    def expand(self) -> Edges:
        return Edges(tokens=((self.name, self.then),))


class Called(NamedTuple):
    """Just a callee, where a state is wanted that has its own edges."""

    callee: State

    def expand(self) -> Edges:
        return Edges(calls=((self.callee, END),))


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
class KeySpelling:
    """How the keys of an object are written."""

    quoting: Quoting | MarkerSafe
    colon: State  # between a key and its value
    within: Expr | None = None  # the keys that an object may have where its schema does not list them; None: any


@dataclass(frozen=True, slots=True, eq=False)  # a part of keys, and surfaces keep those that they make
class Punctuation:
    """How a surface writes values.  Compared by identity.  `gap` is a run of whitespace, at least one character; None:
    none is allowed.
    """

    null: bytes
    false: bytes
    true: bytes
    strings: Quoting | MarkerSafe
    numbers: NumberSpelling
    comma: State
    gap: State | None
    keys: KeySpelling
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


# A style by name; or what a caller asked for in figures: a comma and a colon as `json.dumps` takes them, and an indent.
Whitespace: TypeAlias = "str | tuple[str, str, int | None]"


def layout(given: Sequence[str] | None, indent: int | None) -> Whitespace:
    """Return the style of two separators and an indent, as `json.dumps` takes them; its defaults for what is None.

    Raises: SchemaError: they are no separators, or no indent.
    """
    if indent is not None and (type(indent) is not int or not 0 <= indent <= 16):
        raise SchemaError(f"indent is {shown(indent)}", because="it is blanks a level", instead="from 0 to 16, or None")
    if given is None:
        given = (", " if indent is None else ",", ": ")
    pair = tuple(given) if isinstance(given, (tuple, list)) else ()
    if len(pair) != 2 or not all(isinstance(text, str) and set(text) <= set(" \t\n\r,:") for text in pair):
        pair = ("", "")
    if (pair[0].strip(), pair[1].strip()) != (",", ":") or max(map(len, pair)) > LONGEST_GAP:
        raise SchemaError(
            f"separators is {shown(given)}",
            because="it is a comma and a colon, each with blanks around it",
            instead='(", ", ": ")',
        )
    return pair[0], pair[1], indent


def _laid_out(comma: str, colon: bytes, indent: int | None, longest: int) -> Separators:
    """Return separators in figures: between entries and within brackets a line break and whole levels of `indent`.

    How deep a value lies is not followed, so any number of levels is taken: `json.dumps` writes one of these texts.
    """
    if indent is None:
        return Separators(Bytes(comma.encode(), END), Bytes(colon, END), None)
    levels = repeat(literal(" " * indent), 0, max(longest - 1, 0) // indent) if indent else EPSILON
    gap = Text(Quoting.RAW, concat(char_class(((0x0A, 0x0A),)), levels))
    return Separators(Bytes(comma.encode(), Called(gap)), Bytes(colon, END), gap)


def separators(
    whitespace: Whitespace,
    ranges: tuple[tuple[int, int], ...],
    colon: bytes,
    spaced_colon: bytes,
    longest: int = LONGEST_GAP,
) -> Separators:
    """Return the separators of a whitespace style; `ranges` are the characters of a gap, and `longest` is how many may
    stand in a row.

    spaced_colon: how the canonical style writes a colon.
    """
    if not isinstance(whitespace, str):
        comma, written, indent = whitespace
        colon = spaced_colon if written == ": " else written.encode().replace(b":", colon)
        return _laid_out(comma, colon, indent, longest)
    if whitespace == "canonical":
        return Separators(Bytes(b", ", END), Bytes(spaced_colon, END), None)
    if whitespace == "compact":
        return Separators(Bytes(b",", END), Bytes(colon, END), None)
    if whitespace != "flexible":
        raise SchemaError(f"unknown whitespace {whitespace!r}", instead=f"one of: {', '.join(WHITESPACES)}")
    if longest == 0:
        return Separators(Bytes(b",", END), Bytes(colon, END), None)
    gap = Text(Quoting.RAW, repeat(char_class(ranges), 1, longest))
    return Separators(Bytes(b",", Optional(gap)), Padded(colon, gap), gap)


def spelled(text: str, specials: Collection[str], then: State) -> State:
    """Return the state that reads a text in which the names of special tokens are those tokens, and then another
    state.
    """
    pieces = _any_of(tuple(specials)).split(text) if specials else [text]
    for index in range(len(pieces) - 1, -1, -1):
        if pieces[index]:
            then = Token(pieces[index], then) if index % 2 else Bytes(pieces[index].encode(), then)
    return then


@cached(64)
def _any_of(texts: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of one of some texts, the longest that stands there."""
    return re.compile("(" + "|".join(map(re.escape, sorted(texts, key=len, reverse=True))) + ")")


def unmarked(quoting: Quoting | MarkerSafe, texts: Collection[str]) -> Quoting | MarkerSafe:
    """Return the quoting without markers, if none of some texts spells one: it writes them alike."""
    if not isinstance(quoting, MarkerSafe) or any(map(markers_of(quoting.markers).spelled_in, texts)):
        return quoting
    return quoting.base


def check_spelling(spelling: str, avoid: tuple[str, ...]) -> None:
    if spelling not in SPELLINGS:
        raise SchemaError(f"unknown spelling {spelling!r}", instead=f"one of: {', '.join(SPELLINGS)}")
    if avoid and spelling == "any":
        raise SchemaError(
            "the spelling is 'any'",
            because="only canonical strings are spelled around texts to avoid",
            instead="spelling='canonical'",
        )


class Inner(NamedTuple):
    """The text of a string behind its first token; it may be empty."""

    text: State | None
    empty: bool
    quote: str

    def expand(self) -> Edges:
        calls = ((self.text, Token(self.quote, END)),) if self.text is not None else ()
        return Edges(calls=calls, tokens=((self.quote, END),) if self.empty else ())


def string_between(quote: str, avoid: tuple[str, ...], language: Expr) -> State:
    """Return the state that reads a string of a language between two special tokens, as formats write them that quote
    with tokens of their own (`tags.quoted`); none of the texts to avoid is in it.
    """
    listed = language.literal_set
    if listed is not None:
        texts = [text for text in listed.texts if text and not any(other in text for other in (quote, *avoid))]
        filled = literals(texts).literal_set if texts else None
        return Token(quote, Inner(Text(Quoting.RAW, filled) if filled is not None else None, "" in listed.texts, quote))
    clean = intersect(language, without((quote, *avoid)))
    return Token(quote, Inner(Text(Quoting.RAW, intersect(clean, _filled())), bool(clean.accepts), quote))


@lru_cache(maxsize=1)
def _filled() -> Expr:
    return repeat(ANY, 1, None)


# ======================================================================================================================
# JSON
# ======================================================================================================================

_JSON_BLANKS = ((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20))  # RFC 8259 §2


@lru_cache(maxsize=64)
def json(whitespace: Whitespace, spelling: str, longest: int = LONGEST_GAP, avoid: tuple[str, ...] = ()) -> Punctuation:
    """Return JSON's punctuation.

    spelling: "any"; "canonical", as json.dumps(ensure_ascii=False) writes strings and numbers.  longest: characters of
    whitespace in a row, where it is flexible.  avoid: texts that no string spells, with escapes where they would stand.
    """
    check_spelling(spelling, avoid)
    between = separators(whitespace, _JSON_BLANKS, b":", b": ", longest)
    free = spelling == "any"
    strings = Quoting.JSON if free else MarkerSafe(Quoting.JSON_CANONICAL, avoid) if avoid else Quoting.JSON_CANONICAL
    return Punctuation(
        null=b"null",
        false=b"false",
        true=b"true",
        strings=strings,
        numbers=JSON_NUMBERS if free else CANONICAL_NUMBERS,
        comma=between.comma,
        gap=between.gap,
        keys=KeySpelling(strings, between.colon),
        objects=Brackets(b"{", ord("}")),
        arrays=(Brackets(b"[", ord("]")),),
    )


# ======================================================================================================================
# Python
# ======================================================================================================================

_PYTHON_BLANKS = ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))


@lru_cache(maxsize=64)
def python(
    whitespace: Whitespace, spelling: str, longest: int = LONGEST_GAP, avoid: tuple[str, ...] = ()
) -> Punctuation:
    """Return Python's punctuation; spelling "canonical" is that of repr(), which writes every array as a list; avoid:
    as in `json`.
    """
    check_spelling(spelling, avoid)
    free = spelling == "any"
    between = separators(whitespace, _PYTHON_BLANKS, b":", b": ", longest)
    strings = (
        Quoting.PYTHON if free else MarkerSafe(Quoting.PYTHON_CANONICAL, avoid) if avoid else Quoting.PYTHON_CANONICAL
    )
    lists = (Brackets(b"[", ord("]"), trailing=free),)
    tuples = (Brackets(b"(", ord(")"), trailing=True, lonely=True),) if free else ()
    return Punctuation(
        null=b"None",
        false=b"False",
        true=b"True",
        strings=strings,
        numbers=PYTHON_NUMBERS if free else CANONICAL_NUMBERS,
        comma=between.comma,
        gap=between.gap,
        keys=KeySpelling(strings, between.colon),
        objects=Brackets(b"{", ord("}"), trailing=free),
        arrays=lists + tuples,
    )


@lru_cache(maxsize=1)
def identifiers() -> Expr:
    """Return the names that a keyword argument may have where the schema does not list it."""
    return intersect(parse_python("[A-Za-z_][A-Za-z0-9_]*"), complement(literals(keyword.kwlist)))


@lru_cache(maxsize=64)
def arguments(
    whitespace: Whitespace, spelling: str, longest: int = LONGEST_GAP, avoid: tuple[str, ...] = ()
) -> Punctuation:
    """Return the punctuation of an object written as keyword arguments; only its own entries are written so, not nested
    objects.
    """
    inner = python(whitespace, spelling, longest, avoid)
    between = separators(whitespace, _PYTHON_BLANKS, b"=", b"=", longest)
    keys = KeySpelling(Quoting.RAW, between.colon, within=identifiers())
    return replace(inner, keys=keys, objects=replace(inner.objects, opening=b"(", closing=ord(")")))
