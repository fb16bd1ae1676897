r"""Patterns read over a small alphabet, as they are and over texts that hold a mark.

A mark says where a terminal ends in what stands before a parser: text·MARK·rest (see `lookahead`).  It is a character
that no text holds, so a pattern cannot match it; and since it is no part of the input, assertions look through it:

    part of the pattern      as it is     over marked texts, up to the mark     behind it too (`through`)
    a                        a            a                                     MARK? a
    (?!ab)                   (?!ab)       (?! MARK? a MARK? b)                  the same
    (?<=a)                   .*a before   .* a MARK? before                     .* MARK? a MARK? before
    $                        end          end, or MARK and the end              the same

So of ``a(?!b)``, read up to the mark, the text "a" MARK "c" has the match "a", and "a" MARK "b" has none.

The alphabet holds one character for each set that the pattern cannot tell apart (`small_alphabet`).
Left out: the mark as a character of terminals that are read like this.
Tested through `lookahead`.  Source: ours.
"""

from __future__ import annotations

import re
from typing import Any

from constrained.grammar.lark.lexing.small_alphabet import Alphabet
from constrained.regex import ANY_TEXT, char_class, concat, intersect, literal, optional, repeat
from constrained.regex.charset import Ranges, matched_by_re
from constrained.regex.expr import single
from constrained.regex.syntax.assertion_tree import (
    EMPTY,
    Alt,
    LookAhead,
    LookBehind,
    PatternTree,
    PlainPart,
    Seq,
    TextEnd,
    alt,
    seq,
)
from constrained.regex.syntax.assertions import build
from constrained.regex.syntax.python import TreeReader
from constrained.regex.syntax.python_tree import CHARACTERS, Items, op

MARK_POINT = 0xFDD0  # a noncharacter, which Unicode reserves for uses like this one
MARK = literal(chr(MARK_POINT))
UNMARKED = char_class([(0, MARK_POINT - 1), (MARK_POINT + 1, 0x10FFFF)])
REST = repeat(UNMARKED, 0, None)  # any rest of the input
_MAYBE_MARK = optional(MARK)
_EDGES = (op.AT_BOUNDARY, op.AT_NON_BOUNDARY)


def alphabet_of(pattern: str, items: Items, flags: int) -> Alphabet:
    """Return the sets of characters that a pattern tells apart."""
    collector = _Collector(pattern, flags)
    collector.sequence(items, flags)
    return Alphabet(collector.classes, MARK_POINT)


class _Collector(TreeReader):
    """Collects the classes of characters that a pattern names."""

    by_words = False

    def __init__(self, pattern: str, flags: int) -> None:
        super().__init__(pattern, flags)
        self.classes: list[Ranges] = []

    def item(self, operator: Any, argument: Any, flags: int) -> PatternTree:
        tree = super().item(operator, argument, flags)
        if operator in CHARACTERS:
            self.classes.append(_class(tree))
        return tree

    def anchor(self, code: Any, flags: int) -> PatternTree:
        newline, word = ((10, 10),), matched_by_re(r"\w", flags & re.ASCII)
        self.classes += [newline] if code in (op.AT_BEGINNING, op.AT_END) else [word] if code in _EDGES else []
        return EMPTY

    def look(self, argument: Any, flags: int, *, positive: bool) -> PatternTree:
        self.sequence(argument[1], flags)
        return EMPTY


def _class(tree: PatternTree) -> Ranges:
    assert isinstance(tree, PlainPart)
    return single(tree.expr) or ()


class Reduced(TreeReader):
    """Reads patterns over a small alphabet, as they are."""

    by_words = False

    def __init__(self, pattern: str, flags: int, alphabet: Alphabet) -> None:
        super().__init__(pattern, flags)
        self._alphabet = alphabet

    def item(self, operator: Any, argument: Any, flags: int) -> PatternTree:
        tree = super().item(operator, argument, flags)
        return PlainPart(self._alphabet.reduced(_class(tree))) if operator in CHARACTERS else tree

    def anchor(self, code: Any, flags: int) -> PatternTree:
        return self._reduced(super().anchor(code, flags))

    def _reduced(self, tree: PatternTree) -> PatternTree:
        if isinstance(tree, (Seq, Alt)):
            items = [self._reduced(item) for item in tree.items]
            return seq(*items) if isinstance(tree, Seq) else alt(*items)
        if isinstance(tree, LookBehind):
            return LookBehind(self._alphabet.rewritten(tree.prefix), tree.positive)
        if isinstance(tree, LookAhead):
            return LookAhead(self._reduced(tree.body), tree.positive)
        return PlainPart(self._alphabet.rewritten(tree.expr)) if isinstance(tree, PlainPart) else tree


class Marked(Reduced):
    """Reads patterns over texts that hold a mark: assertions look through it; characters stand behind one only with
    `through`.
    """

    def __init__(self, pattern: str, flags: int, alphabet: Alphabet, *, through: bool) -> None:
        super().__init__(pattern, flags, alphabet)
        self._through = through

    def item(self, operator: Any, argument: Any, flags: int) -> PatternTree:
        tree = super().item(operator, argument, flags)
        if operator not in CHARACTERS:
            return tree
        assert isinstance(tree, PlainPart)
        return _unmarked(tree, through=self._through)

    def anchor(self, code: Any, flags: int) -> PatternTree:
        return _looking_through(super().anchor(code, flags))

    def look(self, argument: Any, flags: int, *, positive: bool) -> PatternTree:
        direction, items = argument
        body = Marked(self.pattern, self.flags, self._alphabet, through=True).sequence(items, flags)
        if direction > 0:
            return LookAhead(body, positive)
        return LookBehind(build(seq(PlainPart(ANY_TEXT), body, PlainPart(_MAYBE_MARK))), positive)


def _unmarked(tree: PlainPart, *, through: bool) -> PlainPart:
    character = intersect(tree.expr, UNMARKED)
    return PlainPart(concat(_MAYBE_MARK, character) if through else character)


def _looking_through(tree: PatternTree) -> PatternTree:
    """Return an anchor that takes no notice of a mark."""
    if isinstance(tree, (Seq, Alt)):
        items = [_looking_through(item) for item in tree.items]
        return seq(*items) if isinstance(tree, Seq) else alt(*items)
    if isinstance(tree, LookBehind):
        return LookBehind(concat(tree.prefix, _MAYBE_MARK), tree.positive)
    if isinstance(tree, LookAhead):
        return LookAhead(_looking_through(tree.body), tree.positive)
    if isinstance(tree, TextEnd):
        return alt(tree, LookAhead(seq(PlainPart(MARK), tree)))
    assert isinstance(tree, PlainPart), f"anchors hold no {type(tree).__name__}"
    return tree if tree.expr.long == 0 else _unmarked(tree, through=True)
