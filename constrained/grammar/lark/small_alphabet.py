r"""Patterns over an alphabet of a few characters, one for each set that the pattern cannot tell apart, and their
automata.

``\w`` has 770 ranges, and whoever intersects, complements and compares look-around over such classes does each step 770
times.  A pattern tells few sets of characters apart: those that are in the same of its classes.  So a pattern is read
with one character for each of these sets (`Alphabet`), its automaton is written out and minimised (`Automaton`), and
only then each edge gets all its ranges again.

Left out: choosing the alphabet for several patterns; automata of different patterns meet with all their ranges.
Tested through `lookahead`.  Source: minterms, M. Veanes, N. Bjørner, L. de Moura, Symbolic automata constraint solving
(2010).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from constrained.errors import LimitExceeded
from constrained.regex import NEVER, Expr, char_class, concat, repeat, union
from constrained.regex.algebra import lazy
from constrained.regex.charset import MAX, Ranges
from constrained.regex.derive import raw_edges
from constrained.regex.expr import CONCAT, INFINITE, REPEAT, UNION, RawEdges, parts, single
from constrained.work import spend

MAX_STATES = 20_000


class Alphabet:
    """The sets of characters that some classes tell apart; each is represented by its first character.

    Invariant: the sets are disjoint and hold every character but the mark; `points` are sorted.
    """

    def __init__(self, classes: Iterable[Ranges], mark: int) -> None:
        inside: dict[int, list[int]] = {}  # where the classes that hold a character change -> numbers of those that do
        for number, ranges in enumerate(dict.fromkeys((*classes, ((mark, mark),)))):
            spend(1 + len(ranges) // 2)
            for low, high in ranges:
                inside.setdefault(low, []).append(number)
                inside.setdefault(high + 1, []).append(number)
        sets: dict[int, list[tuple[int, int]]] = {}
        bits, start = 0, 0
        for point in [*sorted(inside), (MAX + 1)]:
            if start < min(point, (MAX + 1)):
                sets.setdefault(bits, []).append((start, min(point, (MAX + 1)) - 1))
            start = point
            for number in inside.get(point, ()):
                bits ^= 1 << number
        self._known: dict[Ranges, Expr] = {}
        kept = [ranges for ranges in sets.values() if ranges[0] != (mark, mark)]
        self.mark = mark
        self.ranges = {ranges[0][0]: tuple(ranges) for ranges in sorted(kept)}
        self.points = tuple(self.ranges)

    def reduced(self, ranges: Ranges) -> Expr:
        """Return the class of the representatives of a class of characters."""
        if ranges not in self._known:
            starts = [low for low, _ in ranges]
            found = []
            for point in sorted((*self.points, self.mark)):
                at = bisect_right(starts, point) - 1
                if at >= 0 and point <= ranges[at][1]:
                    found.append((point, point))
            self._known[ranges] = char_class(found)
        return self._known[ranges]

    def rewritten(self, expr: Expr) -> Expr:
        """Return an expression of classes, sequences, repeats and alternatives with its classes reduced."""
        ranges = single(expr)
        if ranges is not None:
            return self.reduced(ranges)
        if expr.kind == CONCAT:
            return concat(*map(self.rewritten, parts(expr)))
        if expr.kind == UNION:
            return union(*map(self.rewritten, expr.args))
        if expr.kind == REPEAT:
            body, least, most = expr.args
            return repeat(self.rewritten(body), least, None if most == INFINITE else most)
        assert expr.short == expr.long == 0, f"anchors hold no {expr!r}"
        return expr


Rows = list[tuple[bool, dict[int, int]]]  # accepts; point -> row


# of `cut_off`: three places in automata, -1 for none; whether the mark has been read
_State = tuple[int, int, frozenset[int], bool]


def automaton(expr: Expr, alphabet: Alphabet) -> Rows:
    """Return the smallest automaton of the texts over an alphabet and its mark; the start is the first row, [] has no
    text.

    Invariant: equal languages have equal rows, as these are numbered in the order in which a search from the start
    meets them.
    Raises: LimitExceeded: more than `MAX_STATES` states.
    """
    points = (*alphabet.points, alphabet.mark)
    known = {expr: 0}
    rows: Rows = []
    for state in (work := [expr]):
        edges = raw_edges(state)
        starts = [low for low, _, _ in edges]
        leads: dict[int, int] = {}
        for point in points:
            at = bisect_right(starts, point) - 1
            if at >= 0 and point <= edges[at][1] and (target := edges[at][2]) is not NEVER:
                leads[point] = known.setdefault(target, len(known))
                if leads[point] == len(work):
                    work.append(target)
        rows.append((state.accepts, leads))
        spend(5 + len(points) // 2)
        if len(work) > MAX_STATES:
            raise LimitExceeded(f"look-ahead needs more than {MAX_STATES:,} states", instead="shorter look-ahead")
    return _numbered(rows, _blocks(rows, _live(rows)))


def cut_off(matched: Rows, longer: Rows, alphabet: Alphabet) -> Rows:
    """Return text·mark·rest where text·mark·rest is `matched`, or text·mark·part is, and text·part·mark·rest' is
    `longer`, with rest = part·rest'.

    A state is what is left of the first automaton; of the second one before the part has ended; and of it for each
    place where it may have.
    Raises: LimitExceeded: more than `MAX_STATES` states.
    """
    begin: _State = (0 if matched else -1, 0 if longer else -1, frozenset(), False)
    known: dict[_State, int] = {begin: 0}
    rows: Rows = []
    for at, before, behind, marked in (work := [begin]):
        ends = matched[at][0] if at >= 0 else False
        if marked and ends and before >= 0 and (target := longer[before][1].get(alphabet.mark)) is not None:
            behind |= {target}
        leads: dict[int, int] = {}
        for point in (*alphabet.points, *(() if marked else (alphabet.mark,))):
            is_mark = point == alphabet.mark
            after: _State = (
                matched[at][1].get(point, -1) if at >= 0 else -1,
                before if is_mark or before < 0 else longer[before][1].get(point, -1),
                frozenset(longer[row][1][point] for row in behind if point in longer[row][1]),
                marked or is_mark,
            )
            if after[0] >= 0 or after[2]:
                leads[point] = known.setdefault(after, len(known))
                if leads[point] == len(work):
                    work.append(after)
        rows.append((ends or any(longer[row][0] for row in behind), leads))
        spend(5 + len(alphabet.points) // 2 + len(behind))
        if len(work) > MAX_STATES:
            raise LimitExceeded(f"look-ahead needs more than {MAX_STATES:,} states", instead="shorter look-ahead")
    return _numbered(rows, _blocks(rows, _live(rows)))


def _live(rows: Rows) -> set[int]:
    """Return the rows from which an accepting one can be reached."""
    sources: list[list[int]] = [[] for _ in rows]
    for at, (_, leads) in enumerate(rows):
        for target in set(leads.values()):
            sources[target].append(at)
    work = [at for at, (accepts, _) in enumerate(rows) if accepts]
    found = set(work)
    while work:
        new = [at for at in sources[work.pop()] if at not in found]
        found.update(new)
        work += new
    return found


def _blocks(rows: Rows, live: set[int]) -> dict[int, int]:
    """Return for each live row the number of its class of equivalent rows."""
    block = {at: int(rows[at][0]) for at in live}
    count = 0
    while count != (count := len(set(block.values()))):
        numbers: dict[object, int] = {}
        shapes = (
            (at, (block[at], tuple((point, block[to]) for point, to in rows[at][1].items() if to in live)))
            for at in block
        )
        block = {at: numbers.setdefault(shape, len(numbers)) for at, shape in shapes}
        spend(4 * len(block))
    return block


def _numbered(rows: Rows, block: dict[int, int]) -> Rows:
    if 0 not in block:
        return []
    member = {number: at for at, number in block.items()}
    order = {block[0]: 0}
    found: Rows = []
    for number in (work := [block[0]]):
        accepts, leads = rows[member[number]]
        kept = {}
        for point, to in leads.items():
            if to in block:
                kept[point] = order.setdefault(block[to], len(order))
                if kept[point] == len(work):
                    work.append(block[to])
        found.append((accepts, kept))
    return found


class Table:
    """An automaton with all its characters: edges (low, high, row) per row.  Equal tables have equal rows."""

    __slots__ = ("_hash", "rows")

    def __init__(self, rows: Rows, alphabet: Alphabet) -> None:
        self.rows = tuple((accepts, _spread(leads, alphabet)) for accepts, leads in rows)
        self._hash = hash(self.rows)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Table) and self._hash == other._hash and self.rows == other.rows)

    def __hash__(self) -> int:
        return self._hash


def _spread(leads: dict[int, int], alphabet: Alphabet) -> tuple[tuple[int, int, int], ...]:
    every = [
        (low, high, to) for point, to in leads.items() for low, high in alphabet.ranges.get(point, ((point, point),))
    ]
    spend(len(every))
    found: list[tuple[int, int, int]] = []
    for low, high, to in sorted(every):
        if found and found[-1][1] + 1 == low and found[-1][2] == to:
            low = found.pop()[0]
        found.append((low, high, to))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table as a state.  `everything`: the row from which all texts without a mark are accepted, and what
    stands for it.
    """

    table: Table
    at: int
    everything: tuple[int, Expr] | None

    @property
    def accepts(self) -> bool:
        return self.table.rows[self.at][0]

    @property
    def short(self) -> int:
        return 0 if self.accepts else 1

    @property
    def long(self) -> int:
        return INFINITE

    def edges(self) -> RawEdges:
        """Return the edges; every target has a text."""
        special, stands = self.everything or (-1, NEVER)
        targets = {
            to: stands if to == special else lazy(Row(self.table, to, self.everything))
            for to in {to for _, _, to in self.table.rows[self.at][1]}
        }
        return tuple((low, high, targets[to]) for low, high, to in self.table.rows[self.at][1])


def expanded(rows: Rows, alphabet: Alphabet, everything: Expr) -> Expr:
    """Return the language of an automaton, with `everything` for any rest."""
    table = Table(rows, alphabet)
    number = free_row(rows, alphabet)
    return lazy(Row(table, 0, None if number is None else (number, everything)))


def free_row(rows: Rows, alphabet: Alphabet) -> int | None:
    """Return the row from which every text without the mark is accepted, and no other."""
    for at, (accepts, leads) in enumerate(rows):
        if (
            accepts
            and len(leads) == len(alphabet.points)
            and all(to == at for to in leads.values())
            and alphabet.mark not in leads
        ):
            return at
    return None
