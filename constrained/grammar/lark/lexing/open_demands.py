r"""Demands that are open where a terminal begins, and those that it leaves open where it ends.

A demand is a language of rests of the input.  Over the small alphabet of a whole grammar (`alphabet_of`) each is one
smallest automaton, so equal demands are one object (`Demands`), whichever terminal they come from: that of ``/a\b/`` is
that of ``/b\b/``.  Reading a character takes the demand's derivative; where it has become `Demands.every`, it is met
and forgotten.

`DemandAutomaton` is the product of a terminal and a demand.  With ``A: /a(?!b)/`` and ``B: /[ab]+/``, reading B where
A's demand ("the rest does not begin with b") is open has two places: at the first, only "a" goes on; behind it the
demand is met and B goes on by itself.

Left out: languages of parts that `define` gives; nothing may look ahead into these.
Tested through `trailing_context`.  Source: as there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from constrained.errors import LimitExceeded
from constrained.grammar.lark.lexing.lookahead import Demanding
from constrained.grammar.lark.lexing.marked_reading import MARK_POINT
from constrained.grammar.lark.lexing.match_preference import preferred
from constrained.grammar.lark.lexing.small_alphabet import Alphabet, Rows, automaton, behind, both
from constrained.grammar.symbols import Pattern
from constrained.machine import Language
from constrained.regex import Expr
from constrained.regex.charset import Ranges, normal
from constrained.regex.derive import raw_edges
from constrained.regex.expr import CLASS, LAZY, LITERAL, SET, STEP
from constrained.work import spend

MAX_PLACES = 20_000  # of a terminal, times the demand it meets
# rows of a terminal that is compared with its plain pattern, which shares its masks with other grammars
MAX_COMPARED = 125


@dataclass(slots=True, eq=False)
class Demand:
    """The rests of the input that are allowed; `number` counts the demands of a grammar as they were met."""

    rows: Rows
    number: int
    after: dict[int, Demand] = field(default_factory=dict)  # what is left of it, by point; without what none meets

    @property
    def is_met(self) -> bool:
        """Whether the input may end here."""
        return self.rows[0][0]


class Demands:
    """The demands of one grammar, each once.  `every`: the one that all rests meet."""

    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet = alphabet
        self._known: dict[Hashable, Demand] = {}
        self._both: dict[tuple[int, int], Demand | None] = {}
        self.every = self._demand([(True, dict.fromkeys(alphabet.points, 0))])

    def _demand(self, rows: Rows) -> Demand:
        key = tuple((accepts, tuple(leads.items())) for accepts, leads in rows)
        spend(2 * len(rows))
        return self._known.setdefault(key, Demand(rows, len(self._known)))

    def behind(self, rows: Rows, at: int) -> Demand:
        """Return the demand that begins at a row of a smallest automaton."""
        return self._demand(behind(rows, at))

    def after(self, demand: Demand, point: int) -> Demand | None:
        """Return what is left of a demand behind a character; None: none may stand there."""
        if demand is self.every:
            return demand
        if not demand.after:
            known = {at: self.behind(demand.rows, at) for at in dict.fromkeys(demand.rows[0][1].values())}
            demand.after.update((point, known[at]) for point, at in demand.rows[0][1].items())
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
            rows = both(one.rows, other.rows)
            self._both[key] = self._demand(rows) if rows else None
        return self._both[key]


def alphabet_of(symbols: Iterable[object]) -> Alphabet:
    """Return the sets of characters that the terminals among some symbols tell apart."""
    classes: dict[Ranges, None] = {}
    for symbol in symbols:
        if isinstance(symbol, Demanding):
            found = _classes(symbol.pairs) if isinstance(symbol.pairs, Expr) else symbol.pairs.alphabet.ranges.values()
        elif isinstance(symbol, Pattern) and isinstance(symbol.language, Expr):
            found = _classes(symbol.language)
        else:
            continue
        classes.update(dict.fromkeys(found))
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


@dataclass(frozen=True, slots=True, eq=False)
class DemandTable:
    """Rows of a terminal under a demand: (accepts; by point, the next row or the language of the rest)."""

    rows: tuple[tuple[bool, tuple[tuple[int, int | Expr], ...]], ...]
    alphabet: Alphabet
    _parts: dict[int, PartOfTerminal] = field(default_factory=dict)
    _edges: dict[int, tuple[tuple[int, int, Language], ...]] = field(default_factory=dict)

    def part(self, at: int) -> PartOfTerminal:
        """Return the language of a row, always the same object."""
        return self._parts.setdefault(at, PartOfTerminal(self, at))

    def edges(self, at: int) -> tuple[tuple[int, int, Language], ...]:
        """Return the edges of a row.  PERF: kept, as ways out ask for them at every byte (`engine.budget`)."""
        known = self._edges.get(at)
        if known is None:
            spread = self.alphabet.spread(self.rows[at][1])
            known = tuple((low, high, self.part(to) if isinstance(to, int) else to) for low, high, to in spread)
            self._edges[at] = known
        return known

    def digest(self) -> str:
        """Return a name of the language, in which languages of rests are not told apart."""
        told = [
            (accepts, [(point, to if isinstance(to, int) else "…") for point, to in row]) for accepts, row in self.rows
        ]
        return hashlib.sha256(f"{told}{self.alphabet.described}".encode()).hexdigest()[:16]

    def equals(self, language: Expr) -> bool:
        """Return whether this automaton reads the texts of an expression, over whose characters the alphabet is
        made.
        """
        seen: dict[tuple[int | Expr, Expr], None] = {(0, language): None}
        for at, left in (work := list(seen)):
            if not isinstance(at, int):
                if at is not left:
                    return False
                continue
            accepts, row = self.rows[at]
            leads = self.alphabet.leads(left.edges())
            leads.pop(self.alphabet.mark, None)
            if accepts != left.accepts or leads.keys() != {point for point, _ in row}:
                return False
            new = [pair for point, to in row if (pair := (to, leads[point])) not in seen]
            seen.update(dict.fromkeys(new))
            work += dict.fromkeys(new)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class PartOfTerminal:
    """Those texts of a terminal that leave certain demands open: a row of a table.

    Invariant: every row of the table is live.
    """

    table: DemandTable
    at: int

    @property
    def accepts(self) -> bool:
        return self.table.rows[self.at][0]

    def edges(self) -> tuple[tuple[int, int, Language], ...]:
        return self.table.edges(self.at)

    def mask_key(self, horizon: int) -> Hashable:
        return self

    def __repr__(self) -> str:
        return f"<row {self.at} of {len(self.table.rows)}>"


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
        self._symbol, self._demands = symbol, demands
        self._known: dict[frozenset[Demand], Pattern] = {}
        self._places: list[_ProductState] = []
        if isinstance(symbol, Demanding):
            pairs, alphabet = symbol.pairs, demands.alphabet
            rows = automaton(pairs, alphabet) if isinstance(pairs, Expr) else pairs.over(alphabet)
            self._explore(0, demand, rows)
        elif demand is not demands.every:
            self._explore(symbol.language, demand)
        going_on = any(isinstance(to, Expr) for place in self._places for _, to in place.edges)
        ends = {place.end for place in self._places if place.end is not None}
        self.ends = frozenset(ends | {demands.every} if going_on or not self._places else ends)

    def _explore(self, start: Any, demand: Demand, rows: Rows | None = None) -> None:
        """Find all places; what is left of a terminal is a row, or an expression where there are no `rows`."""
        demands, alphabet = self._demands, self._demands.alphabet
        work = {(start, demand): 0}
        for left, open_ in (queue := list(work)):
            leads: dict[int, Any] = alphabet.leads(left.edges()) if rows is None else rows[left][1]
            if rows is None:
                place = _ProductState(open_ if left.accepts else None, whole=True)
            else:
                own = demands.behind(rows, leads[MARK_POINT]) if MARK_POINT in leads else None
                place = _ProductState(own and demands.both(own, open_), whole=own is None)
            for point, left_then in leads.items():
                then = demands.after(open_, point) if point != MARK_POINT else None
                if then is None:
                    place.whole &= point == MARK_POINT
                elif rows is None and then is demands.every:
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
        table = self._table(ends)
        if isinstance(symbol, Demanding) and every and len(table.rows) <= MAX_COMPARED:
            plain = preferred(symbol.source)
            if table.equals(plain):
                return Pattern(plain, symbol.source, symbol.name if symbol.longest else None)
        narrowed = symbol.narrowed if isinstance(symbol, Pattern) else symbol.name if symbol.longest else None
        # a comment in the source tells parts apart
        return Pattern(table.part(0), f"(?#{table.digest()}){symbol.source}", narrowed)

    def _table(self, ends: frozenset[Demand]) -> DemandTable:
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
        kept = (
            (accepts[at], tuple(
                (point, to if isinstance(to, Expr) else row[to]) for point, to in self._places[at].edges
                if (going_on if isinstance(to, Expr) else to in live)
            ))
            for at in row
        )
        return DemandTable(tuple(kept), self._demands.alphabet)
