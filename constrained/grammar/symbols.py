"""Rules and the five kinds of symbol in them, frozen.

A symbol is a text, any text of a language, a special token, whatever a rule derives, or whatever a machine of another
layer accepts.  `ir` puts rules together to a `Grammar`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from constrained.machine import Language, State
from constrained.regex import Expr
from constrained.regex.size import LARGE_PATTERN, size


class EmbeddedLanguage(Protocol):
    """A language that another layer lowers and prints itself: JSON text of a schema, for example.

    A machine may have `markers`, texts that can be special tokens, and then has ``with_specials(names)``, which returns
    the same language with some of them as tokens; and `specials`, the names of those that it writes in any case.
    """

    @property
    def widened(self) -> tuple[Any, ...]: ...

    def state(self) -> State:
        """Return the start state, which never accepts the empty word; called when a generation first gets there."""
        ...

    def to_lark(self, prefix: str, *, lookahead: bool = True) -> list[str]:
        """Return Lark definitions; the first one defines the rule `prefix`, the names of all others start with it and
        "_".

        lookahead: whether terminals may look ahead, which shortens much.
        Lines ``// wider: reason`` and ``// narrower: reason`` say where they differ from the machine's language.
        """
        ...


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, in UTF-8; or the special token of that name, if the grammar counts it among its `specials`."""

    text: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """Any text of a language, in UTF-8.

    `source` is a Python regular expression for people and printers.  Of a part of a terminal
    (`lexing.trailing_context`) it is the terminal's, after a comment that tells the parts apart.  Invariant: equal
    sources mean equal languages.
    """

    language: Language
    source: str
    # the name of the terminal, if it is read as its longest match only; see `lexing.lookahead`
    narrowed: str | None = None


@dataclass(frozen=True, slots=True)
class Special:
    """A special token that has no spelling in the grammar, by its name in the vocabulary."""

    name: str


@dataclass(frozen=True, slots=True)
class Ref:
    """Whatever a rule derives."""

    rule: str


@dataclass(frozen=True, slots=True)
class Embedded:
    """Whatever a machine of another layer accepts; never the empty word."""

    name: str
    machine: EmbeddedLanguage


Symbol = Literal | Pattern | Special | Ref | Embedded
Sequence = tuple[Symbol, ...]  # () derives the empty text


@dataclass(frozen=True, slots=True)
class Rule:
    """A name and what it derives: any of the alternatives."""

    name: str
    alternatives: tuple[Sequence, ...]


def texts_of(symbol: Symbol) -> Collection[str]:
    """Return the texts of a symbol that can be special tokens."""
    if isinstance(symbol, Embedded):
        markers: frozenset[str] = getattr(symbol.machine, "markers", frozenset())
        return markers
    return (symbol.text,) if isinstance(symbol, Literal) else ()


def is_heavy(symbol: Symbol) -> bool:
    """Say whether a symbol looks like much work."""
    if isinstance(symbol, Embedded):
        return bool(getattr(symbol.machine, "heavy", False))
    return isinstance(symbol, Pattern) and isinstance(symbol.language, Expr) and size(symbol.language) >= LARGE_PATTERN


def identity(symbol: Symbol) -> object:
    """Return what distinguishes a symbol, in terms that print the same in every process."""
    if isinstance(symbol, Pattern):
        return ("pattern", symbol.source)
    if isinstance(symbol, Embedded):
        return ("embedded", getattr(symbol.machine, "fingerprint", None) or symbol.machine.to_lark("value"))
    return symbol


def named_within(symbol: Symbol) -> frozenset[str]:
    """Return the special tokens that an embedded machine writes and cannot do without."""
    return frozenset(getattr(symbol.machine, "specials", ())) if isinstance(symbol, Embedded) else frozenset()


def name_of(symbol: Symbol) -> str:
    """Return what a symbol is called, for people who debug."""
    match symbol:
        case Literal(text):
            return text
        case Pattern(source=source):
            return f"/{source}/"
        case Ref(rule):
            return rule
        case Special(name) | Embedded(name):
            return f"<{name}>"
