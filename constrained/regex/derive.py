"""Edges of an expression: all its derivatives at once, with the partition of the alphabet that they share.

Owens, Reppy and Turon first compute classes of characters with equal derivatives, then one derivative per class.  Here
an expression's edges come straight from its parts' edges (which are cached): concatenation maps the targets of its
head, union and intersection overlay the edges of their members, complement fills the gaps.  Ranges that lead to the
same expression are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from constrained.caches import cached, charge
from constrained.regex.algebra import (
    complement,
    concat,
    counted,
    intersect,
    joined,
    of_literal_set,
    repeat,
    union,
)
from constrained.regex.charset import MAX
from constrained.regex.expr import (
    ANY,
    ANY_TEXT,
    CLASS,
    COMPLEMENT,
    CONCAT,
    EPSILON,
    INFINITE,
    INTERSECT,
    LAZY,
    LITERAL,
    NEVER,
    REPEAT,
    RULES,
    SET,
    Expr,
    RawEdges,
    interned,
)
from constrained.work import spend

_APART = frozenset({CLASS, LITERAL, SET, REPEAT})  # what is met by a bound on the length
_serial = attrgetter("serial")
_Combine = Callable[..., Expr]
_SHALLOW = 20  # expressions inside each other, to which recursion goes down
_PIECE = 150  # bytes of a range and of a piece, estimated


def raw_edges(expr: Expr) -> RawEdges:
    """Return the edges with surrogates glued to U+D7FF and empty intersections among the targets.

    What the edges depend on is known as a rule, or not deep, and then nothing is put on a stack.
    """
    edges = expr._raw
    if edges is None:
        if CONCAT <= expr.kind <= COMPLEMENT:
            for part in _needs(expr):
                if part._raw is None:
                    if expr._depth > _SHALLOW:
                        return _with_parts(expr)
                    if part.kind == CONCAT:
                        _chain_edges(part)
                    else:
                        raw_edges(part)
        edges = _own_edges(expr)
    return edges


def _chain_edges(expr: Expr) -> None:
    """Find the edges of a concatenation and of what it depends on, from the end on, as a chain may be long."""
    chain = [expr]
    while len(needed := _needs(chain[-1])) == 2 and needed[1].kind == CONCAT and needed[1]._raw is None:
        chain.append(needed[1])
    while chain:
        raw_edges(chain.pop())


def _own_edges(expr: Expr) -> RawEdges:
    """Find the edges of an expression whose parts' edges are known."""
    kind = expr.kind
    expr._raw = edges = _RULES[kind](expr)
    spend(2 + len(edges) if kind != LAZY else 2)  # a state of its own kind says what it costs
    return edges


def _with_parts(expr: Expr) -> RawEdges:
    """Find the edges of an expression and of all that they depend on.

    Iterative, so that depth of nesting costs no stack.
    """
    edges: RawEdges | None = None
    stack, asked = [expr], set[Expr]()  # asked: whose parts were put on the stack, once
    while stack:
        top = stack[-1]
        edges = top._raw
        pending = [part for part in _needs(top) if part._raw is None] if edges is None else []
        if pending and top not in asked:
            asked.add(top)
            stack.extend(pending)
        else:
            stack.pop()
            if edges is None:
                edges = _own_edges(top)
    assert edges is not None
    return edges


def _needs(expr: Expr) -> Sequence[Expr]:
    kind = expr.kind
    if kind == CONCAT:
        args = expr.args
        return args if args[0].accepts else args[:1]
    if kind < CONCAT or kind > COMPLEMENT:
        return ()
    if kind == REPEAT:
        return expr.args[:1]
    if kind == INTERSECT:
        bound, rest = counted(expr)
        return _but(expr) or expr.args if bound is ANY_TEXT else (rest,)
    return expr.args


def _but(expr: Expr) -> tuple[Expr, Expr] | None:
    """Return (P, X) if an intersection is P without X, that is P and the complement of X; else None."""
    args = expr.args
    if len(args) == 2:
        first, second = args
        if second.kind == COMPLEMENT:
            return first, second.args[0]
        if first.kind == COMPLEMENT:
            return second, first.args[0]
    return None


def _of(expr: Expr) -> RawEdges:
    """Return the edges of a part, which are known; but where the caches have been emptied since."""
    edges = expr._raw
    return raw_edges(expr) if edges is None else edges


def _nothing(expr: Expr) -> RawEdges:
    return ()


def _class(expr: Expr) -> RawEdges:
    return tuple([(low, high, EPSILON) for low, high in expr.args[0]])


def _literal(expr: Expr) -> RawEdges:
    text = expr.args[0]
    point = ord(text[0])
    rest = interned(LITERAL, text[1:]) if len(text) > 1 else EPSILON
    return ((point, 0xDFFF if point == 0xD7FF else point, rest),)


def _set(expr: Expr) -> RawEdges:
    spend((expr.args[0].high - expr.args[0].low) >> 2)
    edges = expr.args[0].edges()
    return tuple([(low, 0xDFFF if low == 0xD7FF else low, of_literal_set(rest)) for low, _, rest in edges])


def _concat(expr: Expr) -> RawEdges:
    head, tail = expr.args
    # An empty head is found here at the price of the head alone, later at that of its product with all around it.
    mapped = _then(_of(head) if head.plain else RULES["live edges"](head), tail)
    return overlay([mapped, _of(tail)], union) if head.accepts else mapped


def _then(edges: RawEdges, tail: Expr) -> RawEdges:
    """Append a tail to every target."""
    if len(edges) == 1:
        low, high, target = edges[0]
        return ((low, high, tail if target is EPSILON else concat(target, tail)),)
    done: dict[Expr, Expr] = {EPSILON: tail}
    for _, _, target in edges:
        if target not in done:
            done[target] = concat(target, tail)
    return tuple([(low, high, done[target]) for low, high, target in edges])


def _repeat(expr: Expr) -> RawEdges:
    body, least, most = expr.args
    rest = repeat(body, max(0, least - 1), None if most == INFINITE else most - 1)
    return _of(body) if rest is EPSILON else _then(_of(body), rest)


def _intersect(expr: Expr) -> RawEdges:
    """Of a language of bounded length, the edges without the bound are those of many counts.

    250 overlays of three conditions and a bound were 60.
    """
    bound, other = counted(expr)
    if bound is not ANY_TEXT:
        _, least, most = bound.args
        rest = repeat(ANY, max(0, least - 1), None if most == INFINITE else most - 1)
        edges = _of(other)
        spend(len(edges) >> 1)
        following = {target: _bounded(target, rest) for target in dict.fromkeys([edge[2] for edge in edges])}
        bounded = [(low, high, following[target]) for low, high, target in edges]
        return joined([edge for edge in bounded if edge[2] is not NEVER])
    but = _but(expr)
    if but is not None:
        return less(_of(but[0]), _of(but[1]))
    return overlay([_of(member) for member in expr.args], intersect, all_of=len(expr.args))


def _bounded(expr: Expr, bound: Expr) -> Expr:
    """Return the texts that a bound on the length holds; `intersect`, which few need, is 10 µs."""
    apart = expr.kind == INTERSECT and not expr.looks and bound.kind == REPEAT
    if not apart or not _APART.isdisjoint([part.kind for part in expr.args]):
        return intersect(expr, bound)
    return interned(INTERSECT, *sorted((*expr.args, bound), key=_serial))


def _complement(expr: Expr) -> RawEdges:
    edges: list[tuple[int, int, Expr]] = []
    outside: dict[Expr, Expr] = {}
    at = 0
    for low, high, target in _of(expr.args[0]):
        if at < low:
            edges.append((at, low - 1, ANY_TEXT))
        other = outside.get(target) or outside.setdefault(target, complement(target))
        if other is not NEVER:
            edges.append((low, high, other))
        at = high + 1
    if at <= MAX:
        edges.append((at, MAX, ANY_TEXT))
    return joined(edges)


def _step(expr: Expr) -> RawEdges:
    edges: RawEdges = expr.args[0].edges()
    return edges


_RULES: tuple[Callable[[Expr], RawEdges], ...] = (
    _nothing, _nothing, _class, _literal, _set, _concat, _repeat,
    lambda expr: overlay([_of(member) for member in expr.args], union), _intersect, _complement, _step, _step,
)


def overlay(edge_lists: Sequence[RawEdges], combine: _Combine, all_of: int = 1) -> RawEdges:
    """Combine the targets of several edge lists wherever at least `all_of` of them have one.

    Cost: every edge is counted once per piece that it covers, edges of lists with the same ranges together.
    """
    lists = [edges for edges in edge_lists if edges]
    if len(lists) < all_of or not lists:
        return ()
    if len(lists) == 1:
        return lists[0]
    if len(lists) == 2:
        return _overlay_two(lists[0], lists[1], combine, lefts=all_of == 1, rights=all_of == 1)
    targets = [edge[2] for edges in lists for edge in edges]
    spend(1 + (len(targets) >> 1))
    combined: list[tuple[int, int, Expr]] = []
    known: dict[tuple[Expr, ...], Expr] = {}
    for low, high, size, picked in _pieces(tuple([edge[:2] for edges in lists for edge in edges])):
        if size >= all_of:
            row = picked(targets)
            target = row if size == 1 else known.get(row)
            if target is None:
                target = known[row] = combine(*row)
            if target is not NEVER:
                combined.append((low, high, target))
    return joined(combined)


@cached(1024)
def _pieces(ranges: tuple[tuple[int, int], ...]) -> list[tuple[int, int, int, Callable[[list[Expr]], Any]]]:
    """Return the pieces into which some ranges cut each other: with each, how many cover it, and what picks those.

    The states of a product differ in where they lead, seldom in their ranges: three of four overlays find their pieces.
    """
    cuts = sorted({cut for low, high in ranges for cut in (low, high + 1)})
    index = {cut: at for at, cut in enumerate(cuts)}
    covering: list[list[int]] = [[] for _ in cuts]
    charge(_PIECE * (len(ranges) + len(cuts)))
    spend(len(ranges) + len(cuts) >> 2)
    for number, (low, high) in enumerate(ranges):
        for at in range(index[low], index[high + 1]):
            covering[at].append(number)
    return [(cuts[at], cuts[at + 1] - 1, len(row), itemgetter(*row)) for at, row in enumerate(covering) if row]


def less(left: RawEdges, right: RawEdges) -> RawEdges:
    """Return the edges of one language without another, of their own.

    The complement, whose edges cover all characters, is not asked for any: an identifier without one text took
    29 µs a character, now 19.
    """
    spend(2 + len(right))
    return _overlay_two(left, right, _without, lefts=True, rights=False)


def _without(expr: Expr, other: Expr) -> Expr:
    return intersect(expr, complement(other))


def _overlay_two(left: RawEdges, right: RawEdges, combine: _Combine, *, lefts: bool, rights: bool) -> RawEdges:
    """Overlay two lists by merging them: several times quicker where classes have hundreds of ranges, as Unicode's
    have; with what stands alone on the left, on the right.
    """
    spend(1 + ((len(left) + len(right)) >> 1))
    edges: list[tuple[int, int, Expr]] = []
    known: dict[tuple[Expr, Expr], Expr] = {}
    i = j = at = 0
    while i < len(left) and j < len(right):  # `min` and `max` would be half of the time
        low, high, target = left[i]
        first, last, other = right[j]
        low, first = low if low > at else at, first if first > at else at
        start, end = low if low > first else first, high if high < last else last
        if low < first and lefts:
            edges.append((low, high if high < first else first - 1, target))
        elif first < low and rights:
            edges.append((first, last if last < low else low - 1, other))
        if start <= end:
            met = known.get((target, other))
            if met is None:
                met = known[target, other] = combine(target, other)
            if met is not NEVER:
                edges.append((start, end, met))
        at = end + 1
        i, j = i + (high == end), j + (last == end)
    alone = (left[i:] if lefts else ()) + (right[j:] if rights else ())
    edges.extend([(low if low > at else at, high, target) for low, high, target in alone])
    return joined(edges)
