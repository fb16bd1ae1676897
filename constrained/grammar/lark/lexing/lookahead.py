r"""What a terminal demands of the text behind it.

Lark matches a terminal against the text from its place on, so an assertion at the end of a pattern sees what follows,
and an ignored terminal always takes the longest text that it can.  Whether a text t may be a terminal then depends on
the rest r of the input.  Such pairs are described by one regular language, of the texts t·MARK·r, where the mark is a
character that no text holds: the pattern is read as it is up to the mark, and its assertions look through it.

`dynamic_complete` tries the pattern in place and then on ever shorter pieces of what it found, which end at the end of
the piece.  So t is found before r if matching t·r yields t; or if matching it yields more than t·u, the beginning of
t·r, and matching t·u yields t. Mostly u is empty; but ``\w+\B`` finds the "a" of "abc" in the piece "ab".  For an
ignored terminal only the first holds: after ``%ignore /#[^\n]*/`` comes a newline or the end.

An assertion at the beginning that depends on the text *before* the terminal is refused: Lark evaluates it in place for
the longest match and without that text for the shorter ones, and nothing sensible can be meant by that.

Left out: the mark as a character of terminals that have such demands.
Tested against lark and `re` (`tests/test_lark.py`).  Source: ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from constrained.caches import cached
from constrained.errors import GrammarError
from constrained.grammar.lark.lexing.guarded_runs import CHARACTERS, guarded_run
from constrained.grammar.lark.lexing.match_preference import Guarding, asks_left, preferred
from constrained.grammar.lark.lexing.small_alphabet import Alphabet, Rows, automaton, cut_off, free_row
from constrained.regex import (
    ANY_TEXT,
    NEVER,
    Expr,
    char_class,
    concat,
    intersect,
    is_empty,
    literal,
    optional,
    parse_python,
    repeat,
)
from constrained.regex.charset import Ranges, matched_by_re
from constrained.regex.expr import single
from constrained.regex.syntax.assertion_tree import (
    EMPTY,
    Ahead,
    Alt,
    Behind,
    End,
    Node,
    Piece,
    Seq,
    alt,
    has_ahead,
    seq,
)
from constrained.regex.syntax.assertions import build
from constrained.regex.syntax.closed_runs import closed_run
from constrained.regex.syntax.python import Reader
from constrained.regex.syntax.python_tree import op, parsed
from constrained.regex.syntax.quoted_runs import quoted_run
from constrained.work import spend

MARK_POINT = 0xFDD0  # a noncharacter, which Unicode reserves for uses like this one
MARK = literal(chr(MARK_POINT))
UNMARKED = char_class([(0, MARK_POINT - 1), (MARK_POINT + 1, 0x10FFFF)])
REST = repeat(UNMARKED, 0, None)  # any rest of the input
_MAYBE_MARK = optional(MARK)
MAX_DEMANDS = 40  # different ones that one terminal may make
MAX_RUN_DEMANDS = 400  # that one of the shape of `guarded_runs` may make: what follows meets them all soon
_EDGES = (op.AT_BOUNDARY, op.AT_NON_BOUNDARY)
_ASSERTIONS = re.compile(r"\(\?[=!]|\(\?<[=!]|\\[AbBZ]|[\^$]")


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The smallest automaton of some text·MARK·rest, over an alphabet of its own."""

    rows: Rows
    alphabet: Alphabet

    def over(self, alphabet: Alphabet) -> Rows:
        """Return the automaton over an alphabet that tells more apart."""
        own = [(point, self.alphabet.point(point)) for point in alphabet.points] + [(MARK_POINT, MARK_POINT)]
        spend(len(self.rows) * len(own) // 4)
        return [
            (accepts, {point: leads[coarse] for point, coarse in own if coarse in leads})
            for accepts, leads in self.rows
        ]


@dataclass(frozen=True, slots=True)
class Demanding:
    """A terminal whose texts depend on the rest of the input: `pairs` are text·MARK·rest.

    `longest`: it ends only where no longer match is possible, as a lexer reads it, because its demands are too many to
    follow.  `closed`: it may be any text of a language, wherever a certain text follows.
    """

    pairs: Expr | Pairs
    source: str
    longest: bool = False
    name: str = ""
    closed: tuple[Expr, str] | None = None

    def __repr__(self) -> str:
        return f"Demanding(pairs=<…>, source={self.source!r})"


@cached(1024)
def terminal(pattern: str) -> Expr | Demanding:
    r"""Return the texts of a terminal, with what they demand of the rest where they do.

    Raises: GrammarError: the pattern looks at the text before it, or as `match_preference`.

    >>> terminal("a(?!b)")
    Demanding(pairs=<…>, source='a(?!b)')
    >>> terminal("(?!b)[a-c]")
    <[ac]>
    """
    spend(2 * len(pattern))
    if not _ASSERTIONS.search(pattern):
        return preferred(pattern)
    if (found := _bounded(pattern)) is not None:
        return found
    reading = _Reading(pattern)
    if asks_left(reading.tree):
        reading.check_left()
    if not has_ahead(reading.tree):
        return preferred(pattern)
    if (run := reading.guarded_run()) is not None:
        return run
    longest, longer = (automaton(reading.in_stream(through=through), reading.alphabet) for through in (False, True))
    return reading.demanding(cut_off(longest, longer, reading.alphabet), longest)


def _bounded(pattern: str) -> Expr | Demanding | None:
    """Return a terminal whose look-ahead ends where it does, None for one of another shape."""
    items, flags = parsed(pattern)
    reader = Reader(pattern, flags)
    if (string := quoted_run(items, flags, reader)) is not None:
        return string
    if (closed := closed_run(items, flags, reader)) is None:
        return None
    run, closing, ahead = closed
    if not ahead or is_empty(run):
        return concat(run, literal(closing))
    return Demanding(concat(intersect(run, REST), MARK, literal(closing), REST), pattern, closed=(run, closing))


@cached(1024)
def ignored(pattern: str) -> Expr | Demanding:
    r"""Return the texts of an ignored terminal: the longest possible at its place.

    >>> ignored(" "), ignored(" +")
    (< >, Demanding(pairs=<…>, source=' +'))
    """
    spend(2 * len(pattern))
    reading = _Reading(pattern)
    if asks_left(reading.tree):
        reading.check_left()
    return reading.demanding(automaton(reading.in_stream(), reading.alphabet))


class _Reading:
    """A pattern over its own small alphabet (`small_alphabet`), to be read in several ways."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._items, self.flags = parsed(pattern)
        collector = _Collector(pattern, self.flags)
        collector.sequence(self._items, self.flags)
        self.alphabet = Alphabet(collector.classes, MARK_POINT)
        self._plain = _Reduced(pattern, self.flags, self.alphabet)
        self.tree = self._plain.sequence(self._items, self.flags)

    def guarded_run(self) -> Expr | Demanding | None:
        """Return a terminal of the shape of `guarded_runs`, None for one of another shape."""
        run = guarded_run(self._items)
        if run is None:
            return None
        through = _Marked(self.pattern, self.flags, self.alphabet, through=True)
        pairs = run.pairs(
            lambda items: self._plain.sequence(items, self.flags), lambda items: through.sequence(items, self.flags),
            UNMARKED, MARK)
        if pairs is None:
            return None
        every, longest = (automaton(found, self.alphabet) for found in pairs)
        return self.demanding(every, longest, texts=parse_python, most=MAX_RUN_DEMANDS)

    def in_stream(self, *, through: bool = False) -> Expr:
        """Return text·MARK·rest where matching text·rest in place yields the text; with `through`, where it yields more
        than the text.
        """
        seen = _Marked(self.pattern, self.flags, self.alphabet, through=True)
        main = seen if through else _Marked(self.pattern, self.flags, self.alphabet, through=False)
        tree = Guarding(self._plain, main, seen, in_stream=True).pattern(self._items, self.flags)
        if through:
            return intersect(build(seq(tree, Piece(REST))), concat(REST, MARK, UNMARKED, REST))
        return build(seq(tree, Piece(MARK), Piece(REST)))

    def demanding(
        self,
        rows: Rows,
        longest: Rows | None = None,
        texts: Callable[[str], Expr] = preferred,
        most: int = MAX_DEMANDS,
    ) -> Expr | Demanding:
        """Return the pairs of an automaton, or just the texts where these demand nothing of the rest; if they demand
        too much, those of the `longest`.

        texts: returns those of a pattern; most: different demands.
        """
        narrowed = longest is not None and len({leads.get(MARK_POINT) for _, leads in rows}) > most
        if narrowed:
            assert longest is not None
            # else only the end could follow, as after any text
            narrowed = all(longest[leads[MARK_POINT]][1] for _, leads in longest if MARK_POINT in leads)
            rows = longest if narrowed else rows
        if not rows:
            return NEVER
        free = free_row(rows, self.alphabet)
        if all(leads.get(MARK_POINT, free) == free for _, leads in rows):
            return texts(self.pattern)
        return Demanding(Pairs(rows, self.alphabet), self.pattern, narrowed)

    def check_left(self) -> None:
        """Refuse a pattern for which it matters what stands before its match."""
        main = _Marked(self.pattern, self.flags, self.alphabet, through=False)
        matched = seq(main.sequence(self._items, self.flags), Piece(MARK), Piece(REST))
        before = automaton(build(seq(Piece(REST), Piece(MARK), matched)), self.alphabet)
        if before != automaton(concat(REST, MARK, build(matched)), self.alphabet):
            raise GrammarError(
                f"cannot compile regular expression {self.pattern!r}",
                because="it begins with an assertion about the text before the terminal",
                instead=(
                    "say in the rules what may stand before it; assertions about the text behind a terminal are "
                    "fine"
                ),
            )


class _Collector(Reader):
    """Collects the classes of characters that a pattern names."""

    def __init__(self, pattern: str, flags: int) -> None:
        super().__init__(pattern, flags)
        self.classes: list[Ranges] = []

    def item(self, operator: Any, argument: Any, flags: int) -> Node:
        tree = super().item(operator, argument, flags)
        if operator in CHARACTERS:
            assert isinstance(tree, Piece)
            self.classes.append(single(tree.expr) or ())
        return tree

    def anchor(self, code: Any, flags: int) -> Node:
        newline, word = ((10, 10),), matched_by_re(r"\w", flags & re.ASCII)
        self.classes += [newline] if code in (op.AT_BEGINNING, op.AT_END) else [word] if code in _EDGES else []
        return EMPTY

    def look(self, argument: Any, flags: int, *, positive: bool) -> Node:
        self.sequence(argument[1], flags)
        return EMPTY


class _Reduced(Reader):
    """Reads patterns over a small alphabet."""

    def __init__(self, pattern: str, flags: int, alphabet: Alphabet) -> None:
        super().__init__(pattern, flags)
        self._alphabet = alphabet

    def item(self, operator: Any, argument: Any, flags: int) -> Node:
        tree = super().item(operator, argument, flags)
        if operator not in CHARACTERS:
            return tree
        assert isinstance(tree, Piece)
        return Piece(self._alphabet.reduced(single(tree.expr) or ()))

    def anchor(self, code: Any, flags: int) -> Node:
        return self._rewritten(super().anchor(code, flags))

    def _rewritten(self, tree: Node) -> Node:
        if isinstance(tree, (Seq, Alt)):
            items = [self._rewritten(item) for item in tree.items]
            return seq(*items) if isinstance(tree, Seq) else alt(*items)
        if isinstance(tree, Behind):
            return Behind(self._alphabet.rewritten(tree.prefix), tree.positive)
        if isinstance(tree, Ahead):
            return Ahead(self._rewritten(tree.body), tree.positive)
        return Piece(self._alphabet.rewritten(tree.expr)) if isinstance(tree, Piece) else tree


class _Marked(_Reduced):
    """Reads patterns over texts that hold a mark: assertions look through it; characters stand behind one only with
    `through`.
    """

    def __init__(self, pattern: str, flags: int, alphabet: Alphabet, *, through: bool) -> None:
        super().__init__(pattern, flags, alphabet)
        self._through = through

    def item(self, operator: Any, argument: Any, flags: int) -> Node:
        tree = super().item(operator, argument, flags)
        if operator not in CHARACTERS:
            return tree
        assert isinstance(tree, Piece)
        return _unmarked(tree, through=self._through)

    def anchor(self, code: Any, flags: int) -> Node:
        return _looking_through(super().anchor(code, flags))

    def look(self, argument: Any, flags: int, *, positive: bool) -> Node:
        direction, items = argument
        body = _Marked(self.pattern, self.flags, self._alphabet, through=True).sequence(items, flags)
        return (
            Ahead(body, positive)
            if direction > 0
            else Behind(build(seq(Piece(ANY_TEXT), body, Piece(_MAYBE_MARK))), positive)
        )


def _unmarked(tree: Piece, *, through: bool) -> Piece:
    character = intersect(tree.expr, UNMARKED)
    return Piece(concat(_MAYBE_MARK, character) if through else character)


def _looking_through(tree: Node) -> Node:
    """Return an anchor that takes no notice of a mark."""
    if isinstance(tree, (Seq, Alt)):
        items = [_looking_through(item) for item in tree.items]
        return seq(*items) if isinstance(tree, Seq) else alt(*items)
    if isinstance(tree, Behind):
        return Behind(concat(tree.prefix, _MAYBE_MARK), tree.positive)
    if isinstance(tree, Ahead):
        return Ahead(_looking_through(tree.body), tree.positive)
    if isinstance(tree, End):
        return alt(tree, Ahead(seq(Piece(MARK), tree)))
    assert isinstance(tree, Piece), f"anchors hold no {type(tree).__name__}"
    return tree if tree.expr.long == 0 else _unmarked(tree, through=True)
