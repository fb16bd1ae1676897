r"""Look-ahead of terminals: a terminal as a language of pairs of its text and the text behind it.

Lark matches a terminal against the text from its place on, so an assertion at the end of a pattern sees what follows,
and an ignored terminal always takes the longest text that it can.  Whether a text t may be a terminal then depends on
the rest r of the input.  Such pairs are described by one regular language, of the texts t·MARK·r, where the mark is a
character that no text holds: the pattern is read as it is up to the mark, and its assertions look through it
(`marked_reading`).

    terminal a(?!b)    "a", MARK, a rest that does not begin with b
    ignored  [ab]+     any of its texts, MARK, a rest that begins with neither a nor b

`dynamic_complete` tries the pattern in place and then on ever shorter pieces of what it found, which end at the end of
the piece.  So t is found before r = u·v if

    matching t·r yields t                                           in place
    matching t·r yields more than t·u, and matching t·u yields t    in the piece t·u

Mostly u is empty.  With ``\w+\B`` on "abcd" it need not be:

    in place        abc|d     the match is "abc", as d follows and is of the same word
    the piece ab    a|b       the match is "a": so "a" is found before "bcd", with u = "b"
    the piece a     none      "a" would have to end inside a word

For an ignored terminal only the first line holds: after ``%ignore /#[^\n]*/`` comes a newline or the end.

An assertion at the beginning that depends on the text *before* the terminal is refused: Lark evaluates it in place for
the longest match and without that text for the shorter ones, and nothing sensible can be meant by that.

Tested against lark and `re` (`tests/test_lark.py`, `tests/test_lark_lexing.py`).  Source: ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from constrained.caches import cached
from constrained.errors import GrammarError
from constrained.grammar.lark.lexing.guarded_runs import guarded_run
from constrained.grammar.lark.lexing.marked_reading import (
    MARK,
    MARK_POINT,
    REST,
    UNMARKED,
    Marked,
    Reduced,
    alphabet_of,
)
from constrained.grammar.lark.lexing.match_preference import Guarding, preferred
from constrained.grammar.lark.lexing.small_alphabet import Alphabet, Rows, automaton, cut_off, free_row
from constrained.regex import ANY_TEXT, NEVER, Expr, concat, intersect, is_empty, literal, parse_python
from constrained.regex.syntax.assertion_tree import PlainPart, has_ahead, may_look_left, seq
from constrained.regex.syntax.assertions import build
from constrained.regex.syntax.closed_runs import closed_run
from constrained.regex.syntax.python import TreeReader
from constrained.regex.syntax.python_tree import parsed
from constrained.regex.syntax.quoted_runs import quoted_run
from constrained.work import spend

MAX_DEMANDS = 40  # different ones that one terminal may make
MAX_RUN_DEMANDS = 400  # that one of the shape of `guarded_runs` may make: what follows meets them all soon
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
    r"""Return the texts of a terminal, each with its demand of the text behind it if any of them has one.

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
    reading = SmallPattern(pattern)
    reading.check_left()
    if not has_ahead(reading.tree):
        return preferred(pattern)
    run = reading.guarded_run()
    if run is None:
        return reading.demanding(*reading.anywhere())
    return reading.demanding(*run, texts=parse_python, most=MAX_RUN_DEMANDS)


@cached(1024)
def ignored(pattern: str) -> Expr | Demanding:
    r"""Return the texts of an ignored terminal: the longest possible at its place.

    >>> ignored(" "), ignored(" +")
    (< >, Demanding(pairs=<…>, source=' +'))
    """
    spend(2 * len(pattern))
    reading = SmallPattern(pattern)
    reading.check_left()
    return reading.demanding(reading.in_place())


def _bounded(pattern: str) -> Expr | Demanding | None:
    """Return a terminal whose look-ahead ends where it does, None for one of another shape."""
    items, flags = parsed(pattern)
    reader = TreeReader(pattern, flags)
    if (string := quoted_run(items, flags, reader)) is not None:
        return string
    if (closed := closed_run(items, flags, reader)) is None:
        return None
    run, closing, ahead = closed
    if not ahead or is_empty(run):
        return concat(run, literal(closing))
    return Demanding(concat(intersect(run, REST), MARK, literal(closing), REST), pattern, closed=(run, closing))


class SmallPattern:
    """A pattern over its own small alphabet (`small_alphabet`), to be read in several ways."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._items, self._flags = parsed(pattern)
        self.alphabet = alphabet_of(pattern, self._items, self._flags)
        self._plain = Reduced(pattern, self._flags, self.alphabet)
        self.tree = self._plain.sequence(self._items, self._flags)

    def _marked(self, *, through: bool) -> Marked:
        return Marked(self.pattern, self._flags, self.alphabet, through=through)

    def check_left(self) -> None:
        """Refuse a pattern for which it matters what stands before its match."""
        if not may_look_left(self.tree, self.alphabet.rewritten(ANY_TEXT)):
            return
        main = self._marked(through=False)
        matched = seq(main.sequence(self._items, self._flags), PlainPart(MARK), PlainPart(REST))
        before = automaton(build(seq(PlainPart(REST), PlainPart(MARK), matched)), self.alphabet)
        if before != automaton(concat(REST, MARK, build(matched)), self.alphabet):
            raise GrammarError(
                f"cannot compile regular expression {self.pattern!r}",
                because="it begins with an assertion about the text before the terminal",
                instead=(
                    "say in the rules what may stand before it; assertions about the text behind a terminal are "
                    "fine"
                ),
            )

    def guarded_run(self) -> tuple[Rows, Rows] | None:
        """Return what `anywhere` does, of a pattern of the shape of `guarded_runs`; None for one of another shape."""
        run = guarded_run(self._items)
        if run is None:
            return None
        through = self._marked(through=True)
        pairs = run.pairs(
            lambda items: self._plain.sequence(items, self._flags),
            lambda items: through.sequence(items, self._flags),
            UNMARKED,
            MARK,
        )
        return pairs and (automaton(pairs[0], self.alphabet), automaton(pairs[1], self.alphabet))

    def anywhere(self) -> tuple[Rows, Rows]:
        """Return text·MARK·rest where the text is found in place or in a piece; and of these, those found in place."""
        longest, longer = self.in_place(), automaton(self._longer(), self.alphabet)
        return cut_off(longest, longer, self.alphabet), longest

    def in_place(self) -> Rows:
        """Return text·MARK·rest where matching text·rest in place yields the text."""
        main, seen = self._marked(through=False), self._marked(through=True)
        tree = Guarding(self._plain, main, seen, in_stream=True).pattern(self._items, self._flags)
        return automaton(build(seq(tree, PlainPart(MARK), PlainPart(REST))), self.alphabet)

    def _longer(self) -> Expr:
        """Return text·MARK·rest where matching text·rest in place yields more than the text."""
        seen = self._marked(through=True)
        tree = Guarding(self._plain, seen, seen, in_stream=True).pattern(self._items, self._flags)
        return intersect(build(seq(tree, PlainPart(REST))), concat(REST, MARK, UNMARKED, REST))

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
