r"""Look-ahead of terminals: terminals that demand something of the text behind them → rules in which all is met.

1. A terminal as a language of pairs of its text and the text behind it (`Pairs`).

Lark matches a terminal against the text from its place on, so an assertion at the end of a pattern sees what follows,
and an ignored terminal always takes the longest text that it can.  Whether a text t may be a terminal then depends on
the rest r of the input.  Such pairs are described by one regular language, of the texts t·MARK·r, where the mark is a
character that no text holds: the pattern is read as it is up to the mark, and its assertions look through it
(`small_alphabet`).

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

2. Demands that are open where a terminal begins, and those that it leaves open where it ends (`DemandAutomaton`).

A demand is a language of rests of the input.  Over the small alphabet of a whole grammar (`alphabet_of_symbols`) each
is one smallest automaton, so equal demands are one object (`Demands`), whichever terminal they come from: that of
``/a\b/`` is that of ``/b\b/``.  Reading a character takes the demand's derivative; where it has become
`Demands.every`, it is met and forgotten.

`DemandAutomaton` is the product of a terminal and a demand.  With ``A: /a(?!b)/`` and ``B: /[ab]+/``, reading B where
A's demand ("the rest does not begin with b") is open has two places: at the first, only "a" goes on; behind it the
demand is met and B goes on by itself.

Left out: languages of parts that `define` gives; nothing may look ahead into these.

3. Rules whose terminals make demands, as plain rules (`resolved`).  They are copied per demand that is open where they
begin and demands that may be open where they end, as in the intersection of a context-free with a regular language.
From

    start: A B | A "c"          A: /a(?!b)/          B: /[ab]+/

comes ``start: "a" B_1 | "a" "c"``, where B_1 has the texts of B that do not begin with "b".  Demands
reach one character, hardly ever farther than the next terminal, so nearly always one copy of a rule is enough, and
where a demand is met whatever comes next (text without a marker, then the marker) nothing changes at all.

Tested against lark and `re` (`tests/test_lark.py`, `tests/test_lark_lexing.py`).  Sources: ours; of 3 Y. Bar-Hillel, M.
Perles, E. Shamir, On formal properties of simple phrase structure grammars (1961).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any, ClassVar

from constrained.caches import cached
from constrained.errors import GrammarError, LimitExceeded
from constrained.grammar.analysis import reaching
from constrained.grammar.ir import Embedded, Literal, Pattern, Ref, Sequence, Special, Symbol
from constrained.grammar.lark.match_preference import Guarding, preferred
from constrained.grammar.lark.small_alphabet import (
    MARK,
    MARK_POINT,
    REST,
    UNMARKED,
    Alphabet,
    Marked,
    Reduced,
    Rows,
    alphabet_of,
    automaton,
    behind,
    both,
    cut_off,
    free_row,
)
from constrained.machine import Outline
from constrained.regex import ANY_TEXT, NEVER, Expr, concat, intersect, is_empty, literal, parse_python
from constrained.regex.algebra import joined, lazy
from constrained.regex.assertions import PlainPart, build, has_ahead, may_look_left, seq
from constrained.regex.charset import Ranges, normal
from constrained.regex.derive import raw_edges
from constrained.regex.expr import CLASS, INFINITE, LAZY, LITERAL, SET, STEP, RawEdges
from constrained.regex.python import TreeReader, parsed
from constrained.regex.runs import closed_run, guarded_run, quoted_run
from constrained.work import spend, working_on

MAX_DEMANDS = 40  # different ones that one terminal may make
MAX_RUN_DEMANDS = 400  # that one of the shape of `guarded_run` may make: what follows meets them all soon
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
    follow.  `lexed`: how many demands it makes, and its pairs if it were read so.  `closed`: it may be any text of a
    language, wherever a certain text follows.
    """

    pairs: Expr | Pairs
    source: str
    longest: bool = False
    name: str = ""
    closed: tuple[Expr, str] | None = None
    lexed: tuple[int, Pairs] | None = None

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
    if (bounded := _bounded(pattern)) is not None:
        return bounded
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
        """Return what `anywhere` does, of a pattern of the shape of `guarded_run`; None for one of another shape."""
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
        lexed = None
        # else only the end could follow, as after any text
        if longest is not None and all(longest[leads[MARK_POINT]][1] for _, leads in longest if MARK_POINT in leads):
            lexed = len({leads.get(MARK_POINT) for _, leads in rows}), Pairs(longest, self.alphabet)
        narrowed = lexed is not None and lexed[0] > most
        rows = longest if narrowed and longest is not None else rows
        if not rows:
            return NEVER
        free = free_row(rows, self.alphabet)
        if all(leads.get(MARK_POINT, free) == free for _, leads in rows):
            return texts(self.pattern)
        return Demanding(Pairs(rows, self.alphabet), self.pattern, narrowed, lexed=None if narrowed else lexed)


MAX_PLACES = 20_000  # of a terminal, times the demand it meets
# rows of a terminal that is compared with its plain pattern, which shares its masks with other grammars
MAX_COMPARED = 125


@dataclass(slots=True, eq=False)
class Demand:
    """The rests of the input that are allowed; `number` counts the demands of a grammar as they were met."""

    rows: Rows  # a smallest automaton, and the row that it begins with: what is left behind others shares their rows
    at: int
    number: int
    after: dict[int, Demand] = field(default_factory=dict)  # what is left of it, by point; without what none meets

    @property
    def is_met(self) -> bool:
        """Whether the input may end here."""
        return self.rows[self.at][0]


class Demands:
    """The demands of one grammar, each once.  `every`: the one that all rests meet."""

    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet = alphabet
        self._known: dict[bytes, Demand] = {}
        self._both: dict[tuple[int, int], Demand | None] = {}
        self._leads: dict[Expr, dict[int, Expr]] = {}
        self._rows: dict[Demanding, Rows] = {}
        self._made: dict[tuple[Demanding, int], Demand] = {}
        self.every = self.behind([(True, dict.fromkeys(alphabet.points, 0))], 0)

    def behind(self, rows: Rows, at: int) -> Demand:
        """Return the demand that begins at a row of a smallest automaton."""
        numbered = behind(rows, at)
        spend(2 * len(numbered))
        key = hashlib.sha256()
        for row in numbered:
            key.update(repr(row).encode())
        return self._known.setdefault(key.digest(), Demand(rows, at, len(self._known)))

    def rows(self, symbol: Demanding) -> Rows:
        """Return the automaton of a terminal's pairs."""
        if symbol not in self._rows:
            pairs, alphabet = symbol.pairs, self.alphabet
            self._rows[symbol] = automaton(pairs, alphabet) if isinstance(pairs, Expr) else pairs.over(alphabet)
        return self._rows[symbol]

    def made(self, symbol: Demanding, at: int) -> Demand:
        """Return the demand that a terminal makes, which begins at a row of its pairs."""
        key = symbol, at
        if key not in self._made:
            self._made[key] = self.behind(self.rows(symbol), at)
        return self._made[key]

    def leads(self, language: Expr) -> dict[int, Expr]:
        """Return where the edges of a language lead, by point."""
        if language not in self._leads:
            self._leads[language] = self.alphabet.leads(language.edges())
        return self._leads[language]

    def after(self, demand: Demand, point: int) -> Demand | None:
        """Return what is left of a demand behind a character; None: none may stand there."""
        if demand is self.every:
            return demand
        if not demand.after:
            leads = demand.rows[demand.at][1]
            known = {at: self.behind(demand.rows, at) for at in dict.fromkeys(leads.values())}
            demand.after.update((point, known[at]) for point, at in leads.items())
        return demand.after.get(point)

    def after_text(self, demand: Demand, text: str) -> Demand | None:
        """Return what is left of a demand behind a text."""
        here: Demand | None = demand
        for char in text:
            if here is None or here is self.every:
                break
            here = self.after(here, self.alphabet.point(ord(char)))
        return here

    def both(self, one: Demand, other: Demand) -> Demand | None:
        """Return the demand that is met where both are; None: nowhere."""
        if one is other or other is self.every:
            return one
        if one is self.every:
            return other
        key = (min(one.number, other.number), max(one.number, other.number))
        if key not in self._both:
            rows = both(one.rows, other.rows, (one.at, other.at))
            self._both[key] = self.behind(rows, 0) if rows else None
        return self._both[key]


def alphabet_of_symbols(symbols: Iterable[object]) -> Alphabet:
    """Return the sets of characters that the terminals among some symbols tell apart."""
    classes: dict[Ranges, None] = {}
    for symbol in symbols:
        if isinstance(symbol, Demanding):
            ranges = _classes(symbol.pairs) if isinstance(symbol.pairs, Expr) else symbol.pairs.alphabet.ranges.values()
        elif isinstance(symbol, Pattern):
            ranges = _classes(symbol.language)
        else:
            continue
        classes.update(dict.fromkeys(ranges))
    return Alphabet(classes, MARK_POINT)


def _classes(expr: Expr) -> Iterator[Ranges]:
    """Yield the classes of an expression; of one that looks at what stands before it, those of its automaton."""
    seen = {expr}
    for part in (work := [expr]):
        spend(1)
        new: Iterable[Any] = part.args
        if part.kind == CLASS:
            yield part.args[0]
        elif part.kind in (LITERAL, SET):
            text = part.args[0] if part.kind == LITERAL else "".join(part.args[0].texts)
            yield from (normal(((ord(char), ord(char)),)) for char in dict.fromkeys(text))
        elif part.kind in (STEP, LAZY):
            edges: dict[Expr, list[tuple[int, int]]] = {}
            for low, high, target in raw_edges(part):
                edges.setdefault(target, []).append((low, high))
            yield from map(tuple, edges.values())
            new = edges
        fresh = [one for one in new if isinstance(one, Expr) and one not in seen]
        seen.update(fresh)
        work += fresh
        if len(work) > MAX_PLACES:
            raise LimitExceeded(f"a terminal among look-ahead has more than {MAX_PLACES:,} parts")


# -- terminals under a demand ------------------------------------------------------------------------------------------


_Rests = list[tuple[bool, dict[int, int | Expr]]]  # accepts; point -> the next one, or the language of the rest


def _alike(rows: _Rests, others: _Rests) -> bool:
    """Return whether rows, which are all live, read the same texts."""
    seen: dict[tuple[Any, Any], None] = {(0, 0): None}
    for at, other in (work := list(seen)):
        (accepts, row), (accepts_too, to) = rows[at], others[other]
        if accepts != accepts_too or row.keys() != to.keys():
            return False
        new = [pair for pair in zip(row.values(), [to[point] for point in row], strict=True) if pair not in seen]
        seen.update(dict.fromkeys(new))
        work += dict.fromkeys(new)
    return True


class DemandTable:
    """Rows of a terminal under a demand; characters that all rows read alike are one way.

    `accepts`: by row; `ways`: by way and row the next row, the language of the rest, or None; `ranges`: (low, high,
    way), one object for all rows; `digest`: a name, in which languages of rests are not told apart.
    """

    def __init__(self, rows: _Rests, alphabet: Alphabet) -> None:
        self.accepts = tuple([accepts for accepts, _ in rows])
        columns = [tuple([row.get(point) for _, row in rows]) for point in alphabet.points]
        number = {column: way for way, column in enumerate(dict.fromkeys(columns))}
        self.ways, ways = tuple(number), [number[column] for column in columns]
        self.ranges = joined([(low, high, ways[way]) for low, high, way in alphabet.tiles])
        spend(len(rows) * len(columns) // 8 + len(self.ranges))
        self._rests = tuple([to for column in number for to in column if isinstance(to, Expr)])
        shown = [["…" if isinstance(to, Expr) else to for to in column] for column in number]
        self.digest = hashlib.sha256(repr((self.accepts, self.ranges, shown)).encode()).hexdigest()[:16]

    def part(self, at: int) -> Expr:
        """Return the language of a row."""
        return lazy(PartOfTerminal(self, at))

    def outline(self, at: int) -> Outline:
        """Return the edges of a row."""
        after = [column[at] for column in self.ways]
        return Outline(self.ranges, tuple([self.part(to) if isinstance(to, int) else to for to in after]))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.digest == other.digest and self._rests == other._rests

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, slots=True)
class PartOfTerminal:
    """Those texts of a terminal that leave certain demands open: a row of a table.

    Invariant: every row of the table is live.
    """

    table: DemandTable
    at: int
    long: ClassVar[int] = INFINITE  # at most

    @property
    def accepts(self) -> bool:
        return self.table.accepts[self.at]

    @property
    def short(self) -> int:
        return 0 if self.accepts else 1

    def outline(self) -> Outline:
        return self.table.outline(self.at)

    def edges(self) -> RawEdges:
        ranges, targets = self.outline()
        return joined([
            (low, 0xDFFF if high == 0xD7FF else high, to) for low, high, way in ranges
            if isinstance(to := targets[way], Expr)
        ])

    def __repr__(self) -> str:
        return f"<row {self.at} of {len(self.table.accepts)}>"


@dataclass(slots=True)
class _ProductState:
    """What is left of a terminal and of a demand.  `end`: the demand that is open if the terminal ends here, None where
    it cannot; `whole`: the terminal may do all that it could do without the demand.
    """

    end: Demand | None
    whole: bool
    edges: list[tuple[int, int | Expr]] = field(default_factory=list)  # point; next place, or what goes on by itself


class DemandAutomaton:
    """The automaton of a terminal together with a demand; `ends` holds the demands that it may leave open.

    Where a terminal that demands nothing has met the demand, its own expression goes on, and leaves `every` open.
    """

    def __init__(self, symbol: Pattern | Demanding, demand: Demand, demands: Demands) -> None:
        self._symbol, self._demand, self._demands = symbol, demand, demands
        self._known: dict[frozenset[Demand], Pattern] = {}
        self._places: list[_ProductState] = []
        if isinstance(symbol, Demanding) or demand is not demands.every:
            self._explore(symbol, demand)
        going_on = any(isinstance(to, Expr) for place in self._places for _, to in place.edges)
        ends = {place.end for place in self._places if place.end is not None}
        self.ends = frozenset(ends | {demands.every} if going_on or not self._places else ends)

    def _explore(self, symbol: Pattern | Demanding, demand: Demand) -> None:
        """Find all places; what is left of a terminal is a row, or an expression where it demands nothing."""
        demands, plain = self._demands, isinstance(symbol, Pattern)
        rows = demands.rows(symbol) if isinstance(symbol, Demanding) else []
        start: Any = symbol.language if isinstance(symbol, Pattern) else 0
        work = {(start, demand): 0}
        for left, open_ in (queue := list(work)):
            leads: dict[int, Any]
            if isinstance(symbol, Pattern):
                leads, place = demands.leads(left), _ProductState(open_ if left.accepts else None, whole=True)
            else:
                leads = rows[left][1]
                own = demands.made(symbol, leads[MARK_POINT]) if MARK_POINT in leads else None
                place = _ProductState(own and demands.both(own, open_), whole=own is None)
            for point, left_then in leads.items():
                then = demands.after(open_, point) if point != MARK_POINT else None
                if then is None:
                    place.whole &= point == MARK_POINT
                elif plain and then is demands.every:
                    place.edges.append((point, left_then))
                else:
                    to = work.setdefault((left_then, then), len(work))
                    if to == len(queue):
                        queue.append((left_then, then))
                    place.edges.append((point, to))
            self._places.append(place)
            spend(5 + len(place.edges))
            if len(work) > MAX_PLACES:
                raise LimitExceeded(
                    f"terminal {self._symbol.source} and the demands on it need more than {MAX_PLACES:,} states"
                )

    def ending(self, ends: frozenset[Demand]) -> Pattern:
        """Return the texts of the terminal that leave one of some demands open."""
        if ends not in self._known:
            self._known[ends] = self._ending(ends)
        return self._known[ends]

    def _ending(self, ends: frozenset[Demand]) -> Pattern:
        symbol = self._symbol
        every = ends >= self.ends
        if isinstance(symbol, Pattern) and every and all(place.whole for place in self._places):
            return symbol
        rows, alphabet = self._rows(ends), self._demands.alphabet
        if isinstance(symbol, Demanding) and every and len(rows) <= MAX_COMPARED:
            plain = preferred(symbol.source)
            if self._is_plain(rows):
                # what looks at the text before it has all its ranges at each state, and is another object each time
                language = DemandTable(rows, alphabet).part(0) if plain.looks else plain
                return Pattern(language, symbol.source, symbol.name if symbol.longest else None)
        narrowed = symbol.narrowed if isinstance(symbol, Pattern) else symbol.name if symbol.longest else None
        table = DemandTable(rows, alphabet)
        # a comment in the source tells parts apart
        return Pattern(table.part(0), f"(?#{table.digest}){symbol.source}", narrowed)

    def _is_plain(self, rows: _Rests) -> bool:
        """Return whether rows read all texts that `re` matches as a whole: those that are found at the end."""
        free = self
        if self._demand is not self._demands.every:
            free = DemandAutomaton(self._symbol, self._demands.every, self._demands)
        found_at_end = all(place.end is None or place.end.is_met for place in free._places)
        return found_at_end and (free is self or _alike(rows, free._rows(free.ends)))

    def _rows(self, ends: frozenset[Demand]) -> _Rests:
        accepts = [place.end in ends for place in self._places]
        going_on = self._demands.every in ends
        live = {
            at for at, place in enumerate(self._places)
            if accepts[at] or (going_on and any(isinstance(to, Expr) for _, to in place.edges))
        }
        sources: dict[int | Expr, set[int]] = {}
        for at, place in enumerate(self._places):
            for _, to in place.edges:
                if isinstance(to, int):
                    sources.setdefault(to, set()).add(at)
        work = list(live)
        while work:
            new = [at for at in sources.get(work.pop(), ()) if at not in live]
            live.update(new)
            work += new
        spend(sum(len(place.edges) for place in self._places) // 2)
        row = {at: number for number, at in enumerate(sorted(live))}
        return [
            (accepts[at], {
                point: to if isinstance(to, Expr) else row[to] for point, to in self._places[at].edges
                if (going_on if isinstance(to, Expr) else to in live)
            })
            for at in row
        ]


MAX_COPIES = 200_000  # of rules
_MOST_EXACT = 400_000  # units of work on copies that can be had cheaper: with a terminal as a lexer reads it
_UNITS_A_WAY = 20  # past a symbol, from a demand to one; 4 where it is written, and that is five times or more
_WRITTEN_OUT = 8  # ways in which a part of an alternative is read; more become a rule, else those of parts multiply

_Open = frozenset[Demand]
_Key = tuple[str, Demand, _Open]  # of a copy: rule, demand at its beginning, demands at its end
_Rules = Mapping[str, tuple[tuple[Symbol | Demanding, ...], ...]]


def resolved(rules: _Rules, start: str) -> tuple[dict[str, tuple[Sequence, ...]], str]:
    """Return rules without demands, and the start rule; names stay, copies get new ones.

    Where demands multiply the rules, the terminal that makes most of them is read as its longest match, and the next.
    Raises: LimitExceeded: demands that multiply the rules all the same.
    """
    rules = {name: tuple(map(_with_closings, sequences)) for name, sequences in rules.items()}
    while True:
        symbols = chain.from_iterable(chain.from_iterable(rules.values()))
        lexed = {s: s.lexed for s in symbols if isinstance(s, Demanding) and s.lexed is not None}
        try:
            return _resolved(rules, start, _MOST_EXACT if lexed else None)
        except _Dear:
            most, (_, pairs) = max(lexed.items(), key=lambda item: item[1][0])
            read: dict[Any, Demanding] = {most: replace(most, pairs=pairs, longest=True, lexed=None)}
            rules = {
                name: tuple(tuple(read.get(symbol, symbol) for symbol in sequence) for sequence in sequences)
                for name, sequences in rules.items()
            }


class _Dear(Exception):
    """Copies take more work than they may."""


def _resolved(rules: _Rules, start: str, most: int | None) -> tuple[dict[str, tuple[Sequence, ...]], str]:
    resolver = _Resolver(rules, most)
    every = resolver.demands.every
    for name in rules:
        resolver.ends(Ref(name), every)  # of rules that are not used as well: they keep their names
    resolver.settle()
    while True:
        resolver.begin()
        for name in rules:
            resolver.copy(name, every, resolver.ends(Ref(name), every))
        first = resolver.copy(start, every, frozenset(end for end in resolver.ends(Ref(start), every) if end.is_met))
        resolver.write()
        if not resolver.identify():
            return resolver.written, first


def _with_closings(sequence: tuple[Symbol | Demanding, ...]) -> tuple[Symbol | Demanding, ...]:
    """Return a sequence in which terminals that demand what closes them, and stand before it, demand nothing."""
    symbols = list(sequence)
    for at, symbol in enumerate(sequence):
        if isinstance(symbol, Demanding) and symbol.closed is not None:
            language, closing = symbol.closed
            behind = ""
            for after in sequence[at + 1 :]:
                if not isinstance(after, (Literal, Special)) or len(behind) >= len(closing):
                    break
                behind += after.text if isinstance(after, Literal) else after.name
            if behind.startswith(closing):
                symbols[at] = Pattern(language, symbol.source)
    return tuple(symbols)


class _Resolver:
    """Finds the demands under which each rule is entered and left, then writes the copies that are used."""

    def __init__(self, rules: _Rules, most: int | None) -> None:
        self._rules, self._most, self._units = rules, most, 0
        spend(sum(map(len, rules.values())))
        self.demands = Demands(alphabet_of_symbols(chain.from_iterable(chain.from_iterable(rules.values()))))
        self._free: _Open = frozenset({self.demands.every})
        # they make no demands
        self._calm = rules.keys() - reaching(rules, lambda symbol: isinstance(symbol, Demanding))
        self._ends: dict[tuple[str, Demand], _Open] = {}
        self._behind: dict[tuple[int, Demand], _Open] = {}  # other symbols
        # whose ends depend on the ends of a rule
        self._askers: dict[tuple[str, Demand], dict[tuple[str, Demand], None]] = {}
        self._unsettled: dict[tuple[str, Demand], None] = {}
        self._ways = 0  # past a symbol: a demand before it and one behind it
        # of a rule: its ways, and for each alternative the demands that may be open at its places
        self._along: dict[tuple[str, Demand], tuple[int, list[list[_Open]]]] = {}
        self._asker: tuple[str, Demand] | None = None
        self._terminals: dict[tuple[object, Demand], DemandAutomaton] = {}
        self._same: dict[_Key, _Key] = {}  # copies known to derive the same texts
        self._met: dict[tuple[str, Demand], bool] = {}
        self.begin()

    def begin(self) -> None:
        """Forget what was written."""
        self._names: dict[_Key, str] = {}
        self._shared: dict[tuple[Sequence, ...], str] = {}  # ways to read a part of an alternative -> the rule for them
        self._pending: list[_Key] = []
        self._taken: set[str] = set()
        self.written: dict[str, tuple[Sequence, ...]] = {}

    # -- which demands are open where ----------------------------------------------------------------------------------

    def ends(self, symbol: Symbol | Demanding, demand: Demand) -> _Open:
        """Return the demands that may be open behind a symbol; of rules, as far as they are known."""
        if isinstance(symbol, Ref):
            return self._ends_of_rule(symbol.rule, demand)
        key = id(symbol), demand  # the rules keep it
        if key not in self._behind:
            self._behind[key] = self._ends_of_other(symbol, demand)
        return self._behind[key]

    def _ends_of_other(self, symbol: Symbol | Demanding, demand: Demand) -> _Open:
        if isinstance(symbol, (Literal, Special)):
            end = self.demands.after_text(demand, symbol.text if isinstance(symbol, Literal) else symbol.name)
            return frozenset() if end is None else frozenset({end})
        if isinstance(symbol, Embedded):
            if demand is self.demands.every:
                return self._free
            what, where = "a terminal looks ahead into another grammar", self._asker and f"rule '{self._asker[0]}'"
            because = "it is followed by a part that `define` gives, which is not looked into"
            instead = "a literal between them, or a terminal without look-ahead"
            raise GrammarError(what, where=where, because=because, instead=instead)
        return self._places(symbol, demand).ends

    def _ends_of_rule(self, name: str, demand: Demand) -> _Open:
        if demand is self.demands.every and name in self._calm:
            return self._free
        key = name, demand
        if key not in self._ends:
            self._ends[key] = frozenset()
            self._unsettled[key] = None
        if self._asker is not None:
            self._askers.setdefault(key, {})[self._asker] = None
        return self._ends[key]

    def _ordered(self, demands: Iterable[Demand]) -> list[Demand]:
        known = [*demands]
        return known if len(known) < 2 else sorted(known, key=attrgetter("number"))  # their hashes are addresses

    def _places(self, symbol: Symbol | Demanding, demand: Demand) -> DemandAutomaton:
        assert isinstance(symbol, (Pattern, Demanding))
        key = symbol, demand
        if key not in self._terminals:
            with working_on(f"terminal /{symbol.source}/"):
                self._terminals[key] = DemandAutomaton(symbol, demand, self.demands)
        return self._terminals[key]

    def settle(self) -> None:
        """Find the ends of all rules that have been asked about, and of those that these ask about."""
        while self._unsettled:
            key = name, demand = next(iter(self._unsettled))
            del self._unsettled[key]
            if len(self._ends) > MAX_COPIES:
                what = "look-ahead and ignored terminals multiply the rules of the grammar"
                instead = "shorter look-ahead, or terminals that begin with other characters"
                raise LimitExceeded(what, because=f"the limit is {MAX_COPIES:,} copies", instead=instead)
            self._asker, size, ways = key, len(self._ends[key]), 0
            along: list[list[_Open]] = []
            for sequence in self._rules[name]:
                spend(1 + len(sequence))
                here: list[_Open] = [frozenset({demand})]
                for symbol in sequence:
                    each = [self.ends(symbol, one) for one in self._ordered(here[-1])]
                    here.append(each[0] if len(each) == 1 else frozenset().union(*each))
                    ways += sum(map(len, each))
                along.append(here)
                self._ends[key] = self._ends[key].union(here[-1])
            self._ways += ways - self._along.get(key, (0, along))[0]
            self._along[key] = ways, along
            if self._most is not None and self._ways * _UNITS_A_WAY > self._most:
                raise _Dear
            if len(self._ends[key]) > size:
                self._unsettled |= self._askers.get(key, {})
        self._asker = None

    # -- copies --------------------------------------------------------------------------------------------------------

    def copy(self, name: str, demand: Demand, ends: _Open) -> str:
        """Return the name of the copy of a rule that begins with one demand and ends with any of some."""
        if demand is not self.demands.every and self._meets(name, demand):
            demand = self.demands.every
        key = self._same.get((name, demand, ends), (name, demand, ends))
        if key not in self._names:
            self._names[key] = self._fresh(name)
            self._pending.append(key)
        return self._names[key]

    def _meets(self, name: str, demand: Demand) -> bool:
        """Return whether a rule that makes no demands begins with texts that all meet one."""
        key = name, demand
        if key not in self._met:
            firsts = [next(iter(sequence), None) for sequence in self._rules[name]]
            self._met[key] = False  # of what begins with itself
            self._met[key] = name in self._calm and all(
                self._meets(first.rule, demand) if isinstance(first, Ref)
                else isinstance(first, (Literal, Special)) and self.ends(first, demand) == self._free
                for first in firsts
            )
        return self._met[key]

    def _fresh(self, name: str) -> str:
        number, fresh = 0, name
        while fresh in self._taken or (number and fresh in self._rules):
            number += 1
            fresh = f"{name}_{number}"
        self._taken.add(fresh)
        return fresh

    def write(self) -> None:
        while self._pending:
            name, demand, ends = key = self._pending.pop()
            if demand is self.demands.every and name in self._calm:
                # no demands in it, and all it uses keep their names
                self.written[self._names[key]] = self._rules[name]  # type: ignore[assignment]
                continue
            along = zip(self._rules[name], self._along[name, demand][1], strict=True)
            variants = (variant for sequence, here in along for variant in self._variants(name, sequence, here, ends))
            self.written[self._names[key]] = tuple(dict.fromkeys(variants))

    def identify(self) -> bool:
        """Find copies that differ in nothing but their names; return whether there are any that were not known.

        Fewer copies let more places in other rules become one, so the rules are written again with what was found.
        Invariant: copies in one block have the same alternatives, up to blocks.  Source: E. Moore's partition
        refinement (1956).
        """
        count_of = Counter(rule for rule, _, _ in self._names)
        copies = {name: key for key, name in self._names.items() if count_of[key[0]] > 1}
        block: dict[str, object] = {name: rule for name, (rule, _, _) in copies.items()}
        block |= dict.fromkeys(self._shared.values(), "part of an alternative")
        # what is told apart but for the copies that it refers to, and these
        frames: dict[object, int] = {}
        written: dict[str, tuple[int, list[str]]] = {}
        for name in block:
            frame = tuple([
                tuple([None if isinstance(s, Ref) and s.rule in block else s for s in sequence])
                for sequence in self.written[name]
            ])
            used = [s.rule for s in chain.from_iterable(self.written[name]) if isinstance(s, Ref) and s.rule in block]
            written[name] = frames.setdefault(frame, len(frames)), used
        count = 0
        while count != (count := len(set(block.values()))):
            spend(4 * len(block))
            shapes = {name: (block[name], frame, *[block[s] for s in used]) for name, (frame, used) in written.items()}
            numbers = {shape: number for number, shape in enumerate(dict.fromkeys(shapes.values()))}
            block = {name: numbers[shape] for name, shape in shapes.items()}
        first: dict[object, _Key] = {}
        known = len(self._same)
        for name, key in copies.items():
            if first.setdefault(block[name], key) != key:
                self._same[key] = first[block[name]]
        return len(self._same) > known

    def _variants(
        self, name: str, sequence: tuple[Symbol | Demanding, ...], here: list[_Open], ends: _Open
    ) -> list[Sequence]:
        """Return an alternative of a rule; `here`: which demands are open at its places.

        Where only one demand can be open, what stands before and behind is independent; each side that can be read in
        many ways is a rule, else the ways multiply.
        """
        self._spend(4 + 4 * len(sequence))
        here = [*here[:-1], here[-1] & ends]
        if not all(here):
            return []
        cuts = [0, *(at for at in range(1, len(sequence)) if len(here[at]) == 1), len(sequence)]
        variants: list[Sequence] = [()]
        for at, to in pairwise(cuts):
            (begin,) = here[at]
            if to == at + 1:  # as `_options` would find
                self._spend(4)
                options: tuple[Sequence, ...] = ((self._restricted(sequence[at], begin, here[to]),),)
            else:
                options = self._options(name, sequence[at:to], begin, here[at : to + 1])
            if len(cuts) > 2:
                options = self._short(name, options)
            variants = [(*before, *option) for before in variants for option in options]
        return variants

    def _options(
        self, name: str, sequence: tuple[Symbol | Demanding, ...], demand: Demand, here: list[_Open]
    ) -> tuple[Sequence, ...]:
        """Return the ways in which a part of an alternative is read; `here`: which demands are open at its places.

        DemandAutomaton are merged from the right: two demands that allow the same from there on are one place.
        """
        tails: dict[Demand, tuple[Sequence, ...]] = dict.fromkeys(self._ordered(here[-1]), ((),))
        for symbol, before in zip(reversed(sequence), reversed(here[:-1]), strict=True):
            tails = {one: self._short(name, options) for one, options in tails.items()}
            continuing: dict[Demand, tuple[Sequence, ...]] = {}
            for one in self._ordered(before):
                groups: dict[tuple[Sequence, ...], set[Demand]] = {}
                for end in self._ordered(self.ends(symbol, one)):
                    if end in tails:
                        groups.setdefault(tails[end], set()).add(end)
                heads = ((self._restricted(symbol, one, frozenset(group)), tail) for tail, group in groups.items())
                options = tuple((head, *rest) for head, tail in heads for rest in tail)
                self._spend(2 * len(groups) + 2 * len(options))
                if options:
                    continuing[one] = options
            tails = continuing
        return tails.get(demand, ())

    def _spend(self, units: int) -> None:
        self._units += units
        if self._most is not None and self._units > self._most:
            raise _Dear
        spend(units)

    def _short(self, name: str, options: tuple[Sequence, ...]) -> tuple[Sequence, ...]:
        """Return the ways in which a part of an alternative is read, as one rule where they are many."""
        if len(options) <= _WRITTEN_OUT:
            return options
        if options not in self._shared:
            self._shared[options] = part = self._fresh(f"{name}_part")
            self.written[part] = options
        return ((Ref(self._shared[options]),),)

    def _restricted(self, symbol: Symbol | Demanding, demand: Demand, ends: _Open) -> Symbol:
        if isinstance(symbol, Ref):
            return Ref(self.copy(symbol.rule, demand, ends))
        if isinstance(symbol, (Literal, Special, Embedded)):
            return symbol
        return self._places(symbol, demand).ending(ends)
