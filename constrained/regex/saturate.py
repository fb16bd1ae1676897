"""Saturation: languages that no token can tell apart share a key, as counters beyond the longest token are alike.

A mask looks no further than the longest token.  Two expressions whose counters are both beyond that horizon allow the
same tokens; they share a key, and so a mask.
"""

from __future__ import annotations

from constrained.caches import cached
from constrained.regex.algebra import concat, intersect, length_bound, repeat, union
from constrained.regex.expr import (
    ANY_TEXT,
    COMPLEMENT,
    CONCAT,
    INFINITE,
    INTERSECT,
    LAZY,
    REPEAT,
    UNION,
    Expr,
    parts,
    single,
)
from constrained.regex.facts import universal_up_to
from constrained.work import spend


def saturated(expr: Expr, horizon: int) -> Expr:
    """Return an expression with the same continuations of up to `horizon` characters, the same for as many as possible.

    Inside intersections and complements a count may decide liveness beyond the horizon: there only a bound on the
    length saturates, where any text that one token leads to can end in time.

    >>> from constrained.regex import parse_python
    >>> saturated(parse_python("[a-z]{100,200}"), 30) is saturated(parse_python("[a-z]{99,}"), 30)
    True
    """
    if expr.plain and (expr.long <= horizon or reach(expr) <= horizon):
        return expr  # no count is beyond
    if expr.kind == REPEAT:
        body, least, most = expr.args
        if least > horizon + 1 or INFINITE > most > horizon:
            return repeat(body, min(least, horizon + 1), None if most > horizon else most)
    elif expr.kind == CONCAT:
        factors: list[Expr] = []
        read, rest, same = 0, expr, True
        while rest.kind == CONCAT and read <= horizon:
            head, rest = rest.args
            factors.append(saturated(head, horizon - read))
            same = same and factors[-1] is head
            read += head.short
        if read <= horizon:
            factors.append(saturated(rest, horizon - read))
            if same and factors[-1] is rest:
                return expr
        elif not rest.plain:
            return expr
        return concat(*factors)
    elif expr.kind == UNION and expr.plain:
        return union(*(saturated(member, horizon) for member in expr.args))
    elif (bound := bounded(expr)) is not None and bound[1] >= horizon:
        return saturated(bound[0], horizon)
    return _roomy(expr, horizon) if expr.kind == INTERSECT else expr


def bounded(expr: Expr) -> tuple[Expr, int, int] | None:
    """Return (L, k, n) of L ∩ ANY{0,n} where every text of up to k characters that goes on in L does so within n; None
    of other expressions.
    """
    bound = length_bound(*expr.args) if expr.kind == INTERSECT and len(expr.args) == 2 else None
    if bound is None or bound[0] > 0 or not bound[2].plain:
        return None
    return bound[2], bound[1] - farthest(bound[2]), bound[1]


def reach(expr: Expr) -> int:
    """Return the horizon from which on no count of a plain expression lies beyond it.

    Most states of a pattern end in the same factors, which are looked at once.
    """
    chain = []
    while expr.reach is None and expr.kind == CONCAT:
        chain.append(expr)
        expr = expr.args[1]
    horizon = expr.reach
    if horizon is None:
        horizon = 0
        if expr.kind == REPEAT:
            _, least, most = expr.args
            horizon = max(0, least - 1, most if most < INFINITE else 0)
        elif expr.kind == UNION:
            horizon = max(map(reach, expr.args))
        expr.reach = horizon
    for whole in reversed(chain):
        head: Expr = whole.args[0]
        whole.reach = horizon = min(max(reach(head), head.short + horizon), whole.long)
    return horizon


def _roomy(expr: Expr, horizon: int) -> Expr:
    """Return an intersection with C{m,n} without the bound n, where there is room for what the others ask for wherever
    one token leads, or where they ask for nothing: the complement of what begins with a text of a set.
    """
    counted = next((e for e in expr.args if e.kind == REPEAT and single(e.args[0]) is not None), None)
    if counted is None or not horizon < counted.args[2] < INFINITE:
        return expr
    others = [other for other in expr.args if other is not counted]
    free = counted.args[1] == 0 and all(map(_is_closed, others))
    if free or (universal_up_to(expr) or 0) >= horizon:
        return intersect(repeat(counted.args[0], min(counted.args[1], horizon + 1)), *others)
    return expr


def _is_closed(expr: Expr) -> bool:
    """Say whether every beginning of a text of the language is in it, because what goes on from outside stays there."""
    if expr.kind != COMPLEMENT:
        return False
    members = expr.args[0].args if expr.args[0].kind == UNION else expr.args
    return all(parts(member)[-1] is ANY_TEXT for member in members)


@cached(4096)
def farthest(expr: Expr) -> int:
    """Return a bound, over all derivatives of a plain expression, of the length of their shortest text."""
    if expr.kind == CONCAT:
        factors = parts(expr)
        spend(len(factors) >> 1)
        far, rest = 0, 0
        for factor in reversed(factors):
            far = max(far, farthest(factor) + rest)
            rest += factor.short
        return far
    if expr.kind == REPEAT:
        body, least, _ = expr.args
        return int(max(expr.short, farthest(body) + body.short * max(0, least - 1)))
    if expr.kind == UNION:
        return max(farthest(member) for member in expr.args)
    return INFINITE if expr.kind == LAZY else int(expr.long)
