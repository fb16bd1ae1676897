"""Intersection and complement, and the laws they apply.

Counters meet without a product: C{m,n} ∩ D{a,b} is one repeat, and a bound on the length moves past the parts of fixed
length, so that a pattern with ``minLength`` and ``maxLength`` is most often a plain expression again.  At most one
complement remains in an intersection.  Where look-around states take part, intersections are kept in disjunctive normal
form, of which there are finitely many.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import constrained.regex.charset as charset
from constrained.caches import cached
from constrained.regex.algebra import concat, literals, of_ranges, repeat, union
from constrained.regex.expr import (
    ANY,
    ANY_TEXT,
    CLASS,
    COMPLEMENT,
    CONCAT,
    EPSILON,
    EPSILON_KIND,
    INFINITE,
    INTERSECT,
    LITERAL,
    NEVER,
    NEVER_KIND,
    REPEAT,
    RULES,
    SET,
    UNION,
    Expr,
    RawEdges,
    interned,
    matches,
    parts,
    single,
)
from constrained.work import spend

_PERHAPS_SMALL = frozenset({NEVER_KIND, EPSILON_KIND, CLASS, LITERAL, SET})
_SINGLE = frozenset({LITERAL, SET, CONCAT})
_COUNTED = frozenset({REPEAT, CLASS, LITERAL})  # what C{m,n} can be, for a class of characters C
_serial = attrgetter("serial")
_FILTER_LIMIT = 256  # texts of a set that an intersection reads one by one instead of keeping a product


def intersect(*exprs: Expr) -> Expr:
    """Return the texts of all the expressions."""
    if len(exprs) == 2:
        first, second = exprs
        if first is second or second is ANY_TEXT or first is NEVER:
            return first
        if first is ANY_TEXT or second is NEVER:
            return second
        # PERF: most of them bound a length
        repeated, other = (first, second) if first.kind == REPEAT else (second, first)
        if repeated.kind == REPEAT and _are_apart(repeated, other):
            short = _meet_length(first, second)
            return (
                short
                if short is not None
                else interned(INTERSECT, *(exprs if first.serial < second.serial else (second, first)))
            )
        # PERF: and a pattern leaves texts out in each of its states
        some, outside = (first, second) if second.kind == COMPLEMENT else (second, first)
        if some.kind == CONCAT and outside.kind == COMPLEMENT and outside.args[0].kind in _SINGLE:
            spend(10)
            if outside.args[0] is some:
                return NEVER
            return interned(INTERSECT, *(exprs if first.serial < second.serial else (second, first)))
    members: dict[Expr, None] = {}
    excluded: list[Expr] = []
    stack = list(reversed(exprs))
    while stack:
        expr = stack.pop()
        if expr.kind == INTERSECT:
            stack.extend(expr.args)
        elif expr.kind == COMPLEMENT:
            excluded.append(expr.args[0])
        elif expr is NEVER:
            return NEVER
        elif expr is not ANY_TEXT:
            members[expr] = None
    return _meet(members, excluded)


def _are_apart(repeated: Expr, other: Expr) -> bool:
    """Return whether neither says anything about the other, but perhaps a bound on its length; charged as `_meet`."""
    if other.kind == CONCAT:
        return True
    if other.kind == REPEAT:
        apart = single(repeated.args[0]) is None or single(other.args[0]) is None
    else:
        apart = other.kind == UNION and not other.looks and repeated not in other.args
    if apart:
        spend(10)
    return apart


def _meet(members: dict[Expr, None], excluded: list[Expr]) -> Expr:
    """Intersect members that are no intersections with the complements of the excluded ones."""
    spend(8 + len(members) + len(excluded))
    outside = excluded[0] if len(excluded) == 1 else union(*excluded) if excluded else NEVER
    met = outside.args if outside.kind == UNION else (outside,)
    if outside is ANY_TEXT or not members.keys().isdisjoint(met):
        return NEVER
    if EPSILON in members:
        return EPSILON if not outside.accepts and all(expr.accepts for expr in members) else NEVER
    _meet_counted(members)
    kinds = [e.kind for e in members]  # PERF: most are neither, and generators were a third of an intersection
    small = None
    if not _PERHAPS_SMALL.isdisjoint(kinds):
        small = next((e for e in members if e.kind in _PERHAPS_SMALL and (e.kind != SET or _is_small(e))), None)
    if small is not None:
        others = [expr for expr in members if expr is not small] + (
            [complement(outside)] if outside is not NEVER else []
        )
        if small is NEVER or not any(expr.looks for expr in others):  # the edges of a STEP intersect in turn
            return _filter(small, others)
    if UNION in kinds:
        for expr in [e for e in members if e.kind == UNION]:
            if not members.keys().isdisjoint(expr.args):
                del members[expr]  # X ∩ (X|Y) = X
        looking = next((e for e in members if e.kind == UNION and e.looks), None)
        if looking is not None:  # disjunctive normal form keeps the states of look-around finite
            rest = [expr for expr in members if expr is not looking] + [complement(expr) for expr in excluded]
            return union(*(intersect(part, *rest) for part in looking.args))
    if outside is NEVER and len(members) == 2:
        short = _meet_length(*members)
        if short is not None:
            return short
    found = list(members)
    if outside is not NEVER:
        found.append(complement(outside))
    found.sort(key=_serial)
    if len(found) < 2:
        return found[0] if found else ANY_TEXT
    both = interned(INTERSECT, *found)
    return both if both.short <= both.long else NEVER


def _is_small(texts: Expr) -> bool:
    return bool(texts.args[0].high - texts.args[0].low <= _FILTER_LIMIT)


def _meet_counted(members: dict[Expr, None]) -> None:
    """Intersect all members of the form C{m,n} into one: same length, every character in both classes."""
    bodies = [(e, e.args[0] if e.kind == REPEAT else e) for e in members if e.kind in _COUNTED]
    counted = [expr for expr, body in bodies if single(body) is not None]
    if len(counted) < 2:
        return
    low, high, ranges = 0, INFINITE, charset.EVERYTHING
    for expr in counted:
        del members[expr]
        body, least, most = expr.args if expr.kind == REPEAT else (expr, 1, 1)
        low, high, ranges = max(low, least), min(high, most), charset.intersect(ranges, single(body) or ())
    if low > high or (not ranges and low):
        members[NEVER] = None
    else:
        members[repeat(of_ranges(ranges), low, None if high == INFINITE else high) if ranges else EPSILON] = None


def _filter(small: Expr, others: list[Expr]) -> Expr:
    """Keep those texts of a small language that all the others hold."""
    if small.kind == NEVER_KIND:
        return NEVER
    if small.kind == CLASS:
        ranges = small.args[0]
        for other in others:
            ranges = charset.intersect(
                ranges, charset.normal((low, high) for low, high, target in RULES["raw edges"](other) if target.accepts)
            )
        return of_ranges(ranges)
    if small.kind == SET:
        source = small.args[0]
        texts = [
            source.texts[at][source.depth :] for at in range(source.low, source.high) if not source.excluded >> at & 1
        ]
        spend(sum(map(len, texts)) * len(others))
        kept = [text for text in texts if all(matches(other, text) for other in others)]
        return small if len(kept) == len(texts) else literals(kept)
    text = small.args[0] if small.kind == LITERAL else ""
    return small if all(matches(other, text) for other in others) else NEVER


def _meet_length(left: Expr, right: Expr) -> Expr | None:
    """Push a bound on the length into a concatenation past its parts of fixed length; None where that does not
    apply.
    """
    bound = length_bound(left, right)
    if bound is None:
        return None
    least, most, right = bound
    if right.plain and least <= right.short and right.long <= most:
        return right
    if right.short > most or right.long < least:
        return NEVER
    if 0 < least <= right.short:
        return intersect(repeat(ANY, 0, None if most == INFINITE else most), right)
    if right.long <= most < INFINITE:
        return intersect(repeat(ANY, least), right)
    if right.kind != CONCAT:
        return None
    found = _fixed_ends(right)
    if found is None:
        return None
    before, middle, after, fixed = found
    spend(len(before) + len(after) >> 1)
    inner = repeat(ANY, max(0, least - fixed), None if most == INFINITE else most - fixed)
    return concat(*before, intersect(middle, inner), *after)


@cached(4096, size=200)
def _fixed_ends(expr: Expr) -> tuple[list[Expr], Expr, list[Expr], int] | None:
    """Return the factors of fixed length that a concatenation begins with, what varies, the factors of fixed length
    that it ends with, and how many characters both are; None where there are none at either end, or nothing varies.
    """
    factors = parts(expr)
    spend(len(factors) >> 1)
    varying = [at for at, factor in enumerate(factors) if factor.short != factor.long]
    if not varying or (varying[0] == 0 and varying[-1] == len(factors) - 1):
        return None
    before, after = factors[: varying[0]], factors[varying[-1] + 1 :]
    middle = concat(*factors[varying[0] : varying[-1] + 1])
    return before, middle, after, sum(factor.short for factor in before + after)


def complement(expr: Expr) -> Expr:
    """Return all the texts outside an expression.

    >>> from constrained.regex import literal
    >>> matches(complement(literal("no")), "yes"), matches(complement(literal("no")), "no")
    (True, False)
    """
    if expr.kind == COMPLEMENT:
        inner: Expr = expr.args[0]
        return inner
    if expr is NEVER:
        return ANY_TEXT
    if expr is ANY_TEXT:
        return NEVER
    if expr is EPSILON:
        return repeat(ANY, 1)
    if expr.kind in (CONCAT, REPEAT):
        held, over = _held(expr), _over(expr)
        if held is not None:
            return repeat(of_ranges(charset.negate(held)))
        if over is not None:
            return concat(ANY_TEXT, of_ranges(charset.negate(over)), ANY_TEXT)
    if expr.kind == UNION and not expr.looks:
        held = charset.union(*(_held(part) or () for part in expr.args))
        if held:
            return intersect(
                repeat(of_ranges(charset.negate(held))),
                complement(union(*(part for part in expr.args if _held(part) is None))),
            )
    if expr.kind == REPEAT and expr.args[0] is ANY:
        _, least, most = expr.args
        below = repeat(ANY, 0, least - 1) if least else NEVER
        return union(below, repeat(ANY, most + 1) if most < INFINITE else NEVER)
    if expr.looks and expr.kind == INTERSECT:
        return union(*(complement(part) for part in expr.args))
    if expr.kind == UNION and any(
        part.kind == COMPLEMENT or part.kind == INTERSECT and part.looks for part in expr.args
    ):
        return intersect(*(complement(part) for part in expr.args))
    return interned(COMPLEMENT, expr)


def _held(expr: Expr) -> charset.Ranges | None:
    """Return the class C of ANY*·C·ANY*, the texts that hold one of its characters; None for any other expression."""
    factors = expr.args if expr.kind == CONCAT and expr.args[0] is ANY_TEXT else ()
    rest = factors[1].args if factors and factors[1].kind == CONCAT else ()
    return single(rest[0]) if rest and rest[1] is ANY_TEXT else None


def _over(expr: Expr) -> charset.Ranges | None:
    """Return the class C of C*, the texts that hold no other character; None for any other expression."""
    return single(expr.args[0]) if expr.kind == REPEAT and expr.args[1:] == (0, INFINITE) else None


def length_bound(left: Expr, right: Expr) -> tuple[int, int, Expr] | None:
    """Return (m, n, other) if one side of an intersection is ANY{m,n}, a bound on the length; else None."""
    if right.kind == REPEAT and right.args[0] is ANY:
        left, right = right, left
    return (*left.args[1:], right) if left.kind == REPEAT and left.args[0] is ANY else None


def length_bounded(expr: Expr) -> tuple[int, int, Expr] | None:
    """Return (m, n, rest) if an intersection is one of ANY{m,n}, a bound on the length, and `rest`; else None."""
    return length_bound(*expr.args) if len(expr.args) == 2 else _length_bounded(expr)


@cached(10_000, 300)  # PERF: asked three times of a state
def _length_bounded(expr: Expr) -> tuple[int, int, Expr] | None:
    counted = next((e for e in expr.args if e.kind == REPEAT and e.args[0] is ANY), None)
    if counted is None or expr.looks:
        return None
    return (*counted.args[1:], interned(INTERSECT, *[member for member in expr.args if member is not counted]))


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

    PERF: the complement, whose edges cover all characters, is not asked for any: an identifier without one text took
    29 µs a character, now 19.
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
