r"""Patterns with assertions (``^ $ \b`` and look-around) as expressions.

A parser hands over a `PatternTree`, in which everything free of assertions is an `Expr` already.  What follows a point
of the pattern is a *continuation*, and the texts that match it are found from right to left: a look-ahead is an
intersection with the language of the rest, ``$`` an intersection with the empty text.  What an assertion asks about the
text on its left is the language of an expression over the whole prefix (``^``: the empty text; ``(?<=x)``: ANY*·x; half
of ``\b``: ANY*·\w); while it reads, a state carries the derivatives of these expressions: its *context*.  Where the
continuation does not ask, or the answer is settled, the state is an ordinary expression, so anchored patterns leave no
trace.  Only assertions about a context that changes, and assertions inside a loop, remain as `ReadSome` states, united,
intersected and complemented in disjunctive normal form, of which there are finitely many.

Refused: rewriting loops with look-ahead by hand, and bounded look-ahead by enumeration.  Left out: a look-ahead inside
a look-behind.
Source: ours; the state is an alternating automaton's (Chandra, Kozen, Stockmeyer 1981) with a deterministic left
context.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from constrained.errors import LimitExceeded
from constrained.regex.algebra import complement, concat, intersect, joined, repeat, union
from constrained.regex.derive import raw_edges
from constrained.regex.expr import (
    ANY,
    ANY_TEXT,
    EPSILON,
    INFINITE,
    NEVER,
    REPEAT,
    STEP,
    Expr,
    RawEdges,
    interned,
    parts,
    single,
)
from constrained.regex.liveness import pruned
from constrained.work import place, spend


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
    items_flat: list[PatternTree] = []
    for item in items:
        items_flat.extend(item.items if isinstance(item, Seq) else (item,))
    joined_items: list[PatternTree] = []
    pieces: list[Expr] = []
    for item in (*items_flat, TEXT_END):
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


_DEPTH_LIMIT = 120  # assertions and loops that one character may open inside each other
_LONG = 50  # continuations in a row that are not left to recursion
_Inside: TypeAlias = frozenset[tuple[int, int]]


def build(tree: PatternTree, *, search: bool = False) -> Expr:
    """Return the texts that a tree matches from start to end; with `search`, those that contain a match.

    >>> from constrained.regex import literal, matches
    >>> from constrained.regex.assertions import alt
    >>> a, b = PlainPart(literal("a")), PlainPart(literal("b"))
    >>> [matches(build(seq(LookAhead(a), alt(a, b))), text) for text in "ab"]
    [True, False]
    """
    if isinstance(tree, PlainPart):
        return concat(ANY_TEXT, tree.expr, ANY_TEXT) if search else tree.expr
    if isinstance(tree, Loop) and not search and (run := _guarded_run(tree)) is not None:
        return run
    program = _Program()
    done = _Cont(EMPTY, None, 0, 0, anything=search)
    start = program.then(seq(PlainPart(ANY_TEXT), tree) if search else tree, done)
    return pruned(program.resolve(start, program.context()))


def _guarded_run(tree: Loop) -> Expr | None:
    """Return the texts of ``(?:(?!guard)c)*``, which nothing follows: those of c without a guard in them.

    Masks of a complement are shared between its states, those of a look-ahead in a loop are not.
    """
    if (tree.least, tree.most) == (0, 1) and isinstance(tree.body, Loop) and tree.body.least == 1:
        tree = Loop(tree.body.body, 0, tree.body.most)  # "(…+)?", as "…*"
    *guards, char = tree.body.items if isinstance(tree.body, Seq) else (tree.body,)
    if not isinstance(char, PlainPart) or single(char.expr) is None:
        return None
    conjuncts = [repeat(char.expr, tree.least, None if tree.most == INFINITE else tree.most)]
    for guard in guards:
        if not isinstance(guard, LookAhead) or guard.positive or not isinstance(guard.body, PlainPart):
            return None
        if guard.body.expr.accepts:
            return None
        conjuncts.append(complement(concat(ANY_TEXT, guard.body.expr, ANY_TEXT)))
    return intersect(*conjuncts)


@dataclass(frozen=True, slots=True, eq=False)
class _Cont:
    """A tree and what follows it; interned by its program.  `least` and `most` count what is left of a loop."""

    tree: PatternTree
    next: _Cont | None  # None: the end, where `anything` may follow or nothing
    least: int
    most: int
    anything: bool = False


@dataclass(slots=True, eq=False)
class _Program:
    """The continuations of one pattern and the prefixes that it asks about."""

    prefixes: dict[Expr, int] = field(default_factory=dict)
    asked_by: dict[int, frozenset[int]] = field(default_factory=dict)
    conts: dict[tuple[int, int, int, int], _Cont] = field(default_factory=dict)
    asked: dict[_Cont, frozenset[int]] = field(default_factory=dict)
    known: dict[tuple[_Cont, frozenset[int]], Expr | None] = field(default_factory=dict)
    rest: _Cont = _Cont(EMPTY, None, 0, 0, anything=True)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.prefixes, tuple(self.conts.values()), self.rest  # the keys are of this process

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.prefixes, conts, self.rest = state
        self.conts = {(id(cont.tree), id(cont.next), cont.least, cont.most): cont for cont in conts}
        self.asked_by, self.asked, self.known = {}, {}, {}

    def then(self, tree: PatternTree, after: _Cont) -> _Cont:
        """Return the continuation that reads a tree and goes on."""
        if isinstance(tree, Seq):
            for item in reversed(tree.items):
                after = self.then(item, after)
            return after
        if isinstance(tree, Loop):
            return self._cont(tree, after, tree.least, tree.most)
        if isinstance(tree, PlainPart) and tree.expr is EPSILON:
            return after
        return self._cont(tree, after, 0, 0)

    def _cont(self, tree: PatternTree, after: _Cont, least: int, most: int) -> _Cont:
        key = (id(tree), id(after), least, most)
        cont = self.conts.get(key)
        if cont is None:
            spend(8)
            cont = self.conts.setdefault(key, _Cont(tree, after, least, most))
            self._asks(cont)
        return cont

    def _asks(self, cont: _Cont) -> frozenset[int]:
        """Return the indices of the prefixes on which a continuation depends."""
        indices = self.asked.get(cont)
        if indices is None:
            indices = frozenset() if cont.next is None else self._asks(cont.next) | self._asked_by(cont.tree)
            self.asked[cont] = indices
        return indices

    def _asked_by(self, tree: PatternTree) -> frozenset[int]:
        if isinstance(tree, LookBehind):
            return frozenset({self.prefixes.setdefault(tree.prefix, len(self.prefixes))})
        if isinstance(tree, (PlainPart, TextEnd)):
            return frozenset()
        indices = self.asked_by.get(id(tree))
        if indices is None:
            inner = tree.items if isinstance(tree, (Seq, Alt)) else (tree.body,)
            spend(3 * len(inner))
            indices = self.asked_by[id(tree)] = frozenset().union(*map(self._asked_by, inner))
        return indices

    def context(self) -> tuple[Expr, ...]:
        """Return the context at the start of the text."""
        return tuple(self.prefixes)

    def pure(self, cont: _Cont, dead: frozenset[int]) -> Expr | None:
        """Return the texts that match a continuation if no context can change that; `dead` prefixes never match
        again.
        """
        key = (cont, dead & self._asks(cont))
        if key not in self.known:
            row, at = [cont], cont.next
            while at is not None and (at, dead & self._asks(at)) not in self.known:
                row.append(at)
                at = at.next
            for at in reversed(row[_LONG::_LONG]):  # each leaves less than that to recursion
                self.pure(at, dead)
            spend(3)
            self.known[key] = self._pure(cont, dead)
        return self.known[key]

    def _pure(self, cont: _Cont, dead: frozenset[int]) -> Expr | None:
        tree, after = cont.tree, cont.next
        if after is None:
            return ANY_TEXT if cont.anything else EPSILON
        if isinstance(tree, Loop):
            return None
        if isinstance(tree, LookBehind):
            if self.prefixes[tree.prefix] not in dead:
                return None
            return NEVER if tree.positive else self.pure(after, dead)
        if isinstance(tree, Alt):
            options = [self.pure(self.then(item, after), dead) for item in tree.items]
            return None if None in options else union(*(option for option in options if option is not None))
        rest = self.pure(after, dead)
        if rest is None:
            return None
        if isinstance(tree, PlainPart):
            return concat(tree.expr, rest)
        if isinstance(tree, TextEnd):
            return EPSILON if rest.accepts else NEVER
        assert isinstance(tree, LookAhead)
        seen = self.pure(self.then(tree.body, self.rest), dead)
        return None if seen is None else intersect(rest, seen if tree.positive else complement(seen))

    def resolve(self, cont: _Cont, context: tuple[Expr, ...], inside: _Inside = frozenset(), depth: int = 0) -> Expr:
        """Return the texts that match a continuation in a context.

        `inside` holds the loops that were entered since the last character; a round that reads nothing satisfies every
        lower bound.
        """
        simple = self.pure(cont, frozenset(at for at, prefix in enumerate(context) if prefix is NEVER))
        if simple is not None:
            return simple
        spend(5 + len(context))
        if depth > _DEPTH_LIMIT:
            raise LimitExceeded(
                f"a regular expression opens more than {_DEPTH_LIMIT} assertions and repeats at one character",
                where=place(),
                instead="take look-around out of repeats, or write fewer in a row",
            )
        return self._resolve(cont, context, inside, depth + 1)

    def _resolve(self, cont: _Cont, context: tuple[Expr, ...], inside: _Inside, depth: int) -> Expr:
        tree, after = cont.tree, cont.next
        assert after is not None
        if isinstance(tree, Loop):
            return self._resolve_loop(cont, tree, context, inside, depth)
        if isinstance(tree, Alt):
            return union(*(self.resolve(self.then(item, after), context, inside, depth) for item in tree.items))
        if isinstance(tree, LookBehind):
            holds = context[self.prefixes[tree.prefix]].accepts
            return self.resolve(after, context, inside, depth) if holds == tree.positive else NEVER
        if isinstance(tree, TextEnd):
            return EPSILON if self.resolve(after, context, inside, depth).accepts else NEVER
        if isinstance(tree, LookAhead):
            rest = self.resolve(after, context, inside, depth)
            if rest is NEVER:
                return NEVER
            seen = self.resolve(self.then(tree.body, self.rest), context, inside, depth)
            return intersect(rest, seen if tree.positive else complement(seen))
        assert isinstance(tree, PlainPart)
        read = self._read(tree.expr, after, context)
        return union(read, self.resolve(after, context, inside, depth)) if tree.expr.accepts else read

    def _resolve_loop(self, cont: _Cont, tree: Loop, context: tuple[Expr, ...], inside: _Inside, depth: int) -> Expr:
        after, least, most = cont.next, cont.least, cont.most
        assert after is not None
        key = (id(tree), id(after))
        if key in inside and least == 0:
            return self.resolve(after, context, inside, depth)
        if key in inside:
            least = 0
        options = [self.resolve(after, context, inside, depth)] if least == 0 else []
        if most:
            again = self._cont(tree, after, max(0, least - 1), most - 1 if most < INFINITE else INFINITE)
            options.append(self.resolve(self.then(tree.body, again), context, inside | {key}, depth))
        return union(*options)

    def _read(self, expr: Expr, after: _Cont, context: tuple[Expr, ...]) -> Expr:
        """Return what reads at least one character of an expression and goes on with a continuation."""
        asks = self._asks(after)
        context = tuple(prefix if at in asks else NEVER for at, prefix in enumerate(context))
        if all(prefix.long == 0 for prefix in context):
            rest = self.pure(after, frozenset(range(len(context))))
            if rest is not None:
                return concat(_nonempty(expr), rest)
        return interned(STEP, ReadSome(self, expr, after, context))


@dataclass(frozen=True, slots=True, repr=False)
class ReadSome:
    """Read at least one character of `expr`, then match `after`, given the left `context` before that character."""

    program: _Program
    expr: Expr
    after: _Cont
    context: tuple[Expr, ...]

    @property
    def depth(self) -> int:
        """How deep look-behind nests; each level costs the recursion of several expressions."""
        return 5 + max([prefix._depth for prefix in (self.expr, *self.context)])

    def __repr__(self) -> str:
        return f"(?:{self.expr!r}, then assertions)"

    def edges(self) -> RawEdges:
        """Return the derivatives, per range on which the expression and every prefix in the context have one."""
        pieces: list[_Piece] = [(low, high, target, ()) for low, high, target in raw_edges(self.expr)]
        for prefix in self.context:
            pieces = _refined(pieces, raw_edges(prefix))
            spend(len(pieces))
        derivatives: list[tuple[int, int, Expr]] = []
        known: dict[tuple[Expr, tuple[Expr, ...]], Expr] = {}
        for low, high, target, context in pieces:
            result = known.get((target, context))
            if result is None:
                result = known[target, context] = self.program.resolve(
                    self.program.then(PlainPart(target), self.after), context
                )
            if result is not NEVER:
                derivatives.append((low, high, result))
        return joined(derivatives)


_Piece = tuple[int, int, Expr, tuple[Expr, ...]]


def _refined(pieces: list[_Piece], edges: RawEdges) -> list[_Piece]:
    """Split pieces where the edges change, and append the edges' targets to their contexts."""
    refined, at = [], 0
    for low, high, target, context in pieces:
        while low <= high:
            while at < len(edges) and edges[at][1] < low:
                at += 1
            first, last, prefix = edges[at] if at < len(edges) else (high + 1, high + 1, NEVER)
            if low < first:
                prefix, last = NEVER, first - 1
            last = min(last, high)
            refined.append((low, last, target, (*context, prefix)))
            low = last + 1
    return refined


def _nonempty(expr: Expr) -> Expr:
    if not expr.accepts:
        return expr
    if expr.kind == REPEAT and not expr.args[0].accepts:
        return repeat(expr.args[0], 1, None if expr.args[2] == INFINITE else expr.args[2])
    return intersect(expr, repeat(ANY, 1))
