r"""Trees of patterns with assertions, as parsers build them: everything free of assertions is an `Expr` already.

What a tree means is in `assertions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from constrained.regex.algebra import concat, repeat, union
from constrained.regex.expr import ANY_TEXT, EPSILON, INFINITE, Expr, parts
from constrained.work import spend


@dataclass(frozen=True, slots=True, eq=False)
class PlainPart:
    """A part of a pattern without assertions."""

    expr: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Seq:
    """One item after the other."""

    items: tuple[PatternTree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Alt:
    """Any of the items."""

    items: tuple[PatternTree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """`least` to `most` times a body that holds an assertion; most may be INFINITE."""

    body: PatternTree
    least: int
    most: int


@dataclass(frozen=True, slots=True, eq=False)
class LookAhead:
    """The rest of the text starts with the body, or, if not `positive`, does not."""

    body: PatternTree
    positive: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class LookBehind:
    """The text so far is in `prefix`, or, if not `positive`, is not."""

    prefix: Expr
    positive: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class TextEnd:
    """The text ends here."""


PatternTree: TypeAlias = PlainPart | Seq | Alt | Loop | LookAhead | LookBehind | TextEnd

EMPTY = PlainPart(EPSILON)
TEXT_END = TextEnd()
TEXT_START = LookBehind(EPSILON)


def seq(*items: PatternTree) -> PatternTree:
    """Return the items in order, neighbours without assertions joined."""
    spend(2 * len(items))
    found: list[PatternTree] = []
    for item in items:
        found.extend(item.items if isinstance(item, Seq) else (item,))
    joined_items: list[PatternTree] = []
    pieces: list[Expr] = []
    for item in (*found, TEXT_END):
        if isinstance(item, PlainPart):
            pieces.append(item.expr)
            continue
        if pieces:
            joined_items.append(PlainPart(concat(*pieces)))
            pieces = []
        joined_items.append(item)
    joined_items.pop()
    return joined_items[0] if len(joined_items) == 1 else Seq(tuple(joined_items)) if joined_items else EMPTY


def alt(*items: PatternTree) -> PatternTree:
    """Return any of the items, those without assertions united."""
    pieces = [item.expr for item in items if isinstance(item, PlainPart)]
    rest: list[PatternTree] = [item for item in items if not isinstance(item, PlainPart)]
    if pieces:
        rest.append(PlainPart(union(*pieces)))
    return rest[0] if len(rest) == 1 else Alt(tuple(rest))


def loop(body: PatternTree, least: int, most: int | None) -> PatternTree:
    """Return a repeat."""
    if isinstance(body, PlainPart):
        return PlainPart(repeat(body.expr, least, most))
    return Loop(body, least, INFINITE if most is None else most)


def word_edge(word: Expr, *, positive: bool) -> PatternTree:
    r"""Return ``\b`` or ``\B`` for a class of word characters."""
    spend(25)
    after, before = concat(ANY_TEXT, word), PlainPart(word)
    return alt(
        seq(LookBehind(after), LookAhead(before, positive=not positive)),
        seq(LookBehind(after, positive=False), LookAhead(before, positive=positive)),
    )


def has_ahead(tree: PatternTree) -> bool:
    """Return whether a tree asks about the text to its right."""
    spend(1)
    if isinstance(tree, (Seq, Alt)):
        return any(has_ahead(item) for item in tree.items)
    return isinstance(tree, (LookAhead, TextEnd)) or (isinstance(tree, Loop) and has_ahead(tree.body))


def has_behind(tree: PatternTree) -> bool:
    """Return whether a tree asks about the text to its left."""
    if isinstance(tree, (Seq, Alt)):
        return any(has_behind(item) for item in tree.items)
    return isinstance(tree, LookBehind) or (isinstance(tree, (Loop, LookAhead)) and has_behind(tree.body))


def may_look_left(tree: PatternTree, every: Expr = ANY_TEXT, read: int = 0) -> bool:
    """Return whether a tree may ask about the text to the left of where it began.

    An edge of a word behind a letter asks about that letter alone.

    every: all texts, of the characters that the tree is made of; read: so many characters since it began, at least.
    """
    spend(1)
    if isinstance(tree, Seq):
        for item in tree.items:
            if may_look_left(item, every, read):
                return True
            read += _shortest(item)
        return False
    if isinstance(tree, Alt):
        return any(may_look_left(item, every, read) for item in tree.items)
    if isinstance(tree, LookBehind):
        head, *rest = parts(tree.prefix)
        return sum(part.long for part in rest) > read if rest and head is every else True
    return isinstance(tree, (Loop, LookAhead)) and may_look_left(tree.body, every, read)


def _shortest(tree: PatternTree) -> int:
    """Return how many characters a tree reads at least."""
    if isinstance(tree, Seq):
        return sum(_shortest(item) for item in tree.items)
    if isinstance(tree, Alt):
        return min(_shortest(item) for item in tree.items)
    if isinstance(tree, Loop):
        return tree.least * _shortest(tree.body)
    return tree.expr.short if isinstance(tree, PlainPart) else 0
