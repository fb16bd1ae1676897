r"""Patterns over a small alphabet, one character for each set that the pattern cannot tell apart, and their automata.

``\w`` has 770 ranges, and whoever intersects, complements and compares look-around over such classes does each step 770
times.  A pattern tells few sets of characters apart: those that are in the same of its classes.  So a pattern is read
with one character for each of these sets (`Alphabet`), its automaton is written out and minimised (`Automaton`), and
only then each edge gets all its ranges again.

A pattern is read as it is, and over texts that hold a mark (`Marked`).  A mark says where a terminal ends in what
stands before a parser: text·MARK·rest (see `lookahead`).  It is a character that no text holds, so a pattern cannot
match it; and since it is no part of the input, assertions look through it:

    part of the pattern      as it is     over marked texts, up to the mark     behind it too (`through`)
    a                        a            a                                     MARK? a
    (?!ab)                   (?!ab)       (?! MARK? a MARK? b)                  the same
    (?<=a)                   .*a before   .* a MARK? before                     .* MARK? a MARK? before
    $                        end          end, or MARK and the end              the same

So of ``a(?!b)``, read up to the mark, the text "a" MARK "c" has the match "a", and "a" MARK "b" has none.

Left out: choosing the alphabet for several patterns, as automata of different patterns meet with all their ranges; the
mark as a character of terminals that are read like this.
Tested through `lookahead`.  Sources: minterms, M. Veanes, N. Bjørner, L. de Moura, Symbolic automata constraint solving
(2010); marks are ours.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from constrained.errors import LimitExceeded
from constrained.regex import ANY_TEXT, NEVER, Expr, char_class, concat, intersect, literal, optional, repeat, union
from constrained.regex.assertions import (
    EMPTY,
    Alt,
    LookAhead,
    LookBehind,
    PatternTree,
    PlainPart,
    Seq,
    TextEnd,
    alt,
    build,
    seq,
)
from constrained.regex.charset import MAX, Ranges, matched_by_re
from constrained.regex.derive import raw_edges
from constrained.regex.expr import CONCAT, INFINITE, REPEAT, UNION, RawEdges, parts, single
from constrained.regex.python import CHARACTERS, Items, TreeReader, op
from constrained.work import spend

MAX_STATES = 20_000
Target = TypeVar("Target")


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
        self._starts: tuple[list[int], list[int]] | None = None
        kept = [ranges for ranges in sets.values() if ranges[0] != (mark, mark)]
        self.mark = mark
        self.ranges = {ranges[0][0]: tuple(ranges) for ranges in sorted(kept)}
        self.points = tuple(self.ranges)

    def reduced(self, ranges: Ranges) -> Expr:
        """Return the class of the representatives of a class of characters."""
        if ranges not in self._known:
            starts = [low for low, _ in ranges]
            points = []
            for point in sorted((*self.points, self.mark)):
                at = bisect_right(starts, point) - 1
                if at >= 0 and point <= ranges[at][1]:
                    points.append((point, point))
            self._known[ranges] = char_class(points)
        return self._known[ranges]

    def point(self, char: int) -> int:
        """Return what stands for a character."""
        if self._starts is None:
            tiles = sorted((low, point) for point, ranges in self.ranges.items() for low, _ in ranges)
            self._starts = [low for low, _ in tiles], [point for _, point in tiles]
        starts, points = self._starts
        return points[bisect_right(starts, char) - 1]

    def leads(self, edges: RawEdges) -> dict[int, Expr]:
        """Return where edges lead, by point and mark."""
        starts = [low for low, _, _ in edges]
        spend(2 + len(self.points) // 2)
        targets = {}
        for point in (*self.points, self.mark):
            at = bisect_right(starts, point) - 1
            if at >= 0 and point <= edges[at][1] and edges[at][2] is not NEVER:
                targets[point] = edges[at][2]
        return targets

    @cached_property
    def tiles(self) -> tuple[tuple[int, int, int], ...]:
        """Ranges of characters without surrogates, sorted, each with the number of its set."""
        every = [
            (first, last, number) for number, ranges in enumerate(self.ranges.values()) for low, high in ranges
            for first, last in ((low, min(high, 0xD7FF)), (max(low, 0xE000), high)) if first <= last
        ]
        spend(len(every))
        return tuple(sorted(every))

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
Classes: TypeAlias = Mapping[int, int] | range  # the identity as a range


# of `cut_off`: three places in automata, -1 for none; whether the mark has been read
_State = tuple[int, int, frozenset[int], bool]


def automaton(expr: Expr, alphabet: Alphabet) -> Rows:
    """Return the smallest automaton of the texts over an alphabet and its mark; the start is the first row, [] has no
    text.

    Invariant: equal languages have equal rows, as these are numbered in the order in which a search from the start
    meets them.
    Raises: LimitExceeded: more than `MAX_STATES` states.
    """
    known = {expr: 0}
    rows: Rows = []
    for state in (work := [expr]):
        leads: dict[int, int] = {}
        for point, target in alphabet.leads(raw_edges(state)).items():
            leads[point] = known.setdefault(target, len(known))
            if leads[point] == len(work):
                work.append(target)
        rows.append((state.accepts, leads))
        _check(len(work))
    return smallest(rows)


def both(left: Rows, right: Rows, begin: tuple[int, int] = (0, 0)) -> Rows:
    """Return the smallest automaton of the texts of two automata over one alphabet, from a row of each on."""
    known = {begin: 0}
    rows: Rows = []
    for at, other in (work := list(known)):
        leads: dict[int, int] = {}
        others = right[other][1]
        for point, to in left[at][1].items():
            if point in others:
                leads[point] = known.setdefault((to, others[point]), len(known))
                if leads[point] == len(work):
                    work.append((to, others[point]))
        rows.append((left[at][0] and right[other][0], leads))
        spend(2 + len(leads) // 2)
        _check(len(work))
    return smallest(rows)


def smallest(rows: Rows) -> Rows:
    """Return the smallest automaton of a language, given one of it; see `automaton`."""
    block = _blocks(rows, _live(rows))
    return _numbered(rows, block, {number: at for at, number in block.items()})


def behind(rows: Rows, at: int) -> Rows:
    """Return what a smallest automaton accepts from one of its rows on."""
    every = range(len(rows))  # each row is a class of its own
    return _numbered(rows, every, every, at)


def _check(states: int) -> None:
    if states > MAX_STATES:
        raise LimitExceeded(f"look-ahead needs more than {MAX_STATES:,} states", instead="shorter look-ahead")


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
        _check(len(work))
    return smallest(rows)


def _live(rows: Rows) -> set[int]:
    """Return the rows from which an accepting one can be reached."""
    sources: list[list[int]] = [[] for _ in rows]
    for at, (_, leads) in enumerate(rows):
        for target in set(leads.values()):
            sources[target].append(at)
    work = [at for at, (accepts, _) in enumerate(rows) if accepts]
    live = set(work)
    while work:
        new = [at for at in sources[work.pop()] if at not in live]
        live.update(new)
        work += new
    return live


def _blocks(rows: Rows, live: set[int]) -> dict[int, int]:
    """Return for each live row the number of its class of equivalent rows.

    A round divides each class by where its rows lead; the largest part keeps the class's number, so only rows that lead
    to the others are looked at again.  Rows of a class that are not looked at led to the same classes when it was made,
    and no other row does any more.
    Cost: a row is looked at once for each halving of a class that it leads to.  Source: E. Moore (1956); to keep the
    largest part: J. Hopcroft, An n log n algorithm for minimizing states in a finite automaton (1971).
    """
    leads = {at: [(point, to) for point, to in rows[at][1].items() if to in live] for at in live}
    sources: dict[int, list[int]] = {at: [] for at in live}
    for at, edges in leads.items():
        for _, to in edges:
            sources[to].append(at)
    block = {at: int(rows[at][0]) for at in live}
    members = [{at for at in live if block[at] == accepts} for accepts in (0, 1)]
    changed = sorted(live)
    while changed:
        spend(4 * len(changed))
        parts: dict[int, dict[object, set[int]]] = {}
        for at in changed:
            shape = tuple([(point, block[to]) for point, to in leads[at]])
            parts.setdefault(block[at], {}).setdefault(shape, set()).add(at)
        moved: list[int] = []
        for number, split in parts.items():
            *smaller, last = sorted(split.values(), key=len)
            for part in (*smaller, last):
                members[number] -= part
            if len(last) > len(members[number]):
                members[number], last = last, members[number]
            for part in filter(None, (*smaller, last)):
                block.update(dict.fromkeys(part, len(members)))
                members.append(part)
                moved += part
        changed = sorted({source for at in moved for source in sources[at]})
    return block


def _numbered(rows: Rows, block: Classes, member: Classes, start: int = 0) -> Rows:
    """Return one row for each class that is met from a row on; block: the class of a row; member: a row of a class."""
    if start not in block:
        return []
    order = {block[start]: 0}
    rows_kept: Rows = []
    for number in (work := [block[start]]):
        spend(1)
        accepts, leads = rows[member[number]]
        kept = {}
        for point, to in leads.items():
            if to in block:
                kept[point] = order.setdefault(block[to], len(order))
                if kept[point] == len(work):
                    work.append(block[to])
        rows_kept.append((accepts, kept))
    return rows_kept


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
