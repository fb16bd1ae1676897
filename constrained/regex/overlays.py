"""Edge lists laid over each other: what a union, an intersection and a difference of languages read, and what follows.

Tested with `derive`, which asks for them, in tests/test_regex.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from constrained.regex.boolean import complement, intersect
from constrained.regex.expr import NEVER, Expr, RawEdges
from constrained.work import spend

Combine = Callable[..., Expr]
_MANY = 8  # edge lists in which some are looked for that are alike


def overlay(edge_lists: Sequence[RawEdges], combine: Combine, all_of: int = 1) -> RawEdges:
    """Combine the targets of several edge lists wherever at least `all_of` of them have one.

    Cost: every edge is counted once per piece that it covers, edges of lists with the same ranges together.
    """
    lists = [edges for edges in edge_lists if edges]
    if len(lists) < all_of or not lists:
        return ()
    if len(lists) == 1:
        return lists[0]
    if len(lists) == 2:
        return _overlay_two(lists[0], lists[1], combine, both=all_of == 2)
    cuts, pieces = _pieces(lists) if len(lists) < _MANY else _pieces_of_many(lists)
    found: list[tuple[int, int, Expr]] = []
    known: dict[tuple[Expr, ...], Expr] = {}
    for at, row in enumerate(pieces):
        if len(row) < all_of or not row:
            continue
        if len(row) == 1:
            target = row[0]
        else:
            key = tuple(row)
            if key not in known:
                known[key] = combine(*row)
            target = known[key]
        if target is not NEVER:
            found.append((cuts[at], cuts[at + 1] - 1, target))
    return joined(found)


def _pieces(lists: Sequence[RawEdges]) -> tuple[list[int], list[list[Expr]]]:
    """Return where the ranges of some edge lists begin and end, and the targets between each two such places."""
    cuts = sorted({cut for edges in lists for low, high, _ in edges for cut in (low, high + 1)})
    index = {cut: at for at, cut in enumerate(cuts)}
    pieces: list[list[Expr]] = [[] for _ in cuts]
    spend(1 + (len(cuts) >> 1) + (sum(map(len, lists)) >> 2))
    for edges in lists:
        for low, high, target in edges:
            for at in range(index[low], index[high + 1]):
                pieces[at].append(target)
    return cuts, pieces


def _pieces_of_many(lists: Sequence[RawEdges]) -> tuple[list[int], list[list[Expr]]]:
    """As `_pieces`, of lists of which one class has made some: these have the same ranges, and are read together."""
    alike: dict[tuple[tuple[int, int], ...], list[list[Expr]]] = {}
    for edges in lists:
        spend(len(edges) >> 3)
        alike.setdefault(tuple([edge[:2] for edge in edges]), []).append([edge[2] for edge in edges])
    cuts = sorted({cut for ranges in alike for low, high in ranges for cut in (low, high + 1)})
    index = {cut: at for at, cut in enumerate(cuts)}
    spend(1 + (len(cuts) >> 1))
    pieces: list[list[Expr]] = [[] for _ in cuts]
    for ranges, rows in alike.items():
        for (low, high), targets in zip(ranges, zip(*rows, strict=True), strict=True):
            for at in range(index[low], index[high + 1]):
                pieces[at] += targets
        spend(len(ranges) >> 2)
    return cuts, pieces


def _overlay_two(left: RawEdges, right: RawEdges, combine: Combine, *, both: bool) -> RawEdges:
    """Overlay two lists by merging them: several times quicker where classes have hundreds of ranges, as Unicode's
    have.
    """
    spend(1 + ((len(left) + len(right)) >> 1))
    found: list[tuple[int, int, Expr]] = []
    known: dict[tuple[Expr, Expr], Expr] = {}
    i = j = at = 0
    while i < len(left) and j < len(right):  # PERF: `min` and `max` would be half of the time
        low, high, target = left[i]
        first, last, other = right[j]
        low, first = low if low > at else at, first if first > at else at
        start, end = low if low > first else first, high if high < last else last
        if low < first and not both:
            found.append((low, high if high < first else first - 1, target))
        elif first < low and not both:
            found.append((first, last if last < low else low - 1, other))
        if start <= end:
            met = known.get((target, other))
            if met is None:
                met = known[target, other] = combine(target, other)
            if met is not NEVER:
                found.append((start, end, met))
        at = end + 1
        i, j = i + (high == end), j + (last == end)
    if not both:
        found.extend((max(low, at), high, target) for low, high, target in left[i:] + right[j:])
    return joined(found)


def joined(edges: Sequence[tuple[int, int, Expr]]) -> RawEdges:
    """Merge neighbouring ranges with one target."""
    found: list[tuple[int, int, Expr]] = []
    for edge in edges:
        if found:
            low, high, target = found[-1]
            if target is edge[2] and high + 1 == edge[0]:
                found[-1] = low, edge[1], target
                continue
        found.append(edge)
    return tuple(found)


def less(left: RawEdges, right: RawEdges) -> RawEdges:
    """Return the edges of one language without another, of their own.

    PERF: the complement, whose edges cover all characters, is not asked for any: half of 29 µs where a pattern leaves
    one text out.
    """
    spend(3 + ((len(left) + 3 * len(right)) >> 1))
    found: list[tuple[int, int, Expr]] = []
    known: dict[tuple[Expr, Expr], Expr] = {}
    j = 0
    for low, high, target in left:
        while j < len(right) and right[j][1] < low:
            j += 1
        while j < len(right) and right[j][0] <= high:
            first, last, other = right[j]
            if low < first:
                found.append((low, first - 1, target))
            met = known.get((target, other))
            if met is None:
                met = known[target, other] = intersect(target, complement(other))
            end = last if last < high else high
            if met is not NEVER:
                found.append((low if low > first else first, end, met))
            low = end + 1
            if last > high:
                break
            j += 1
        if low <= high:
            found.append((low, high, target))
    return joined(found)
