"""What a bounded look ahead can tell apart: counters saturate, lengths become intervals.

A mask looks no further than the longest token.  Two expressions whose counters are both beyond that horizon allow the same tokens; they
share a key, and so a mask.  Also here: a sufficient test for the lengths of a language's texts, which saves counting up to
``minLength: 10000`` one character at a time to see that a length bound and a pattern are compatible.
"""

from __future__ import annotations

from functools import lru_cache

from .algebra import concat, repeat, union
from .expr import ANY, CONCAT, INFINITE, REPEAT, UNION, Expr


def saturated(expr: Expr, horizon: int) -> Expr:
    """Return an expression with the same continuations of up to `horizon` characters, the same for as many as possible.

    Inside intersections and complements nothing changes: there a count decides liveness beyond the horizon.

    >>> from constrained.regex import parse_python
    >>> saturated(parse_python("[a-z]{100,200}"), 30) is saturated(parse_python("[a-z]{99,}"), 30)
    True
    """
    if expr.kind == REPEAT:
        body, least, most = expr.args
        if least > horizon + 1 or INFINITE > most > horizon:
            return repeat(body, min(least, horizon + 1), None if most > horizon else most)
    elif expr.kind == CONCAT:
        factors: list[Expr] = []
        read, rest = 0, expr
        while rest.kind == CONCAT and read <= horizon:
            head, rest = rest.args
            factors.append(saturated(head, horizon - read))
            read += head.short
        if read <= horizon:
            factors.append(saturated(rest, horizon - read))
        elif not rest.plain:
            return expr
        return concat(*factors)
    elif expr.kind == UNION and expr.plain:
        return union(*(saturated(member, horizon) for member in expr.args))
    return expr


@lru_cache(maxsize=4096)
def lengths(expr: Expr) -> tuple[int, int, int]:
    """Return (low, high, stride): a plain expression has texts of all the lengths low, low + stride, … high (and maybe others)."""
    if expr.kind == CONCAT:
        low, high, stride = 0, 0, 0
        while expr.kind == CONCAT:
            low, high, stride = _sum((low, high, stride), lengths(expr.args[0]))
            expr = expr.args[1]
        return _sum((low, high, stride), lengths(expr))
    if expr.kind == UNION:
        return max((lengths(member) for member in expr.args), key=lambda found: (found[1] - found[0]) // max(found[2], 1))
    if expr.kind == REPEAT:
        body, least, most = expr.args
        low, high, stride = lengths(body)
        if low == high:
            return low * least, min(INFINITE, low * most), low if most > least else 0
        if stride == 1:  # k copies cover k·low … k·high; from some k on they leave no gap
            first = max(least, -(-(low - 1) // (high - low)))
            if first <= most:
                return low * first, min(INFINITE, high * most), 1
        return low * least, high * least, stride if least else 0
    return (expr.short, expr.short, 0)


def _sum(left: tuple[int, int, int], right: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return lengths of concatenations: exact where one side is a point or strides fit, else with one side held at its least."""
    if left[0] == left[1] or right[0] == right[1]:
        return left[0] + right[0], min(INFINITE, left[1] + right[1]), max(left[2], right[2])
    small, large = sorted((left, right), key=lambda found: found[2])
    if small[2] == 1 and small[1] - small[0] + 1 >= large[2]:
        return left[0] + right[0], min(INFINITE, left[1] + right[1]), 1
    if small[2] == large[2]:
        return left[0] + right[0], min(INFINITE, left[1] + right[1]), small[2]
    return small[0] + large[0], min(INFINITE, small[0] + large[1]), large[2]


def has_length(left: Expr, right: Expr) -> bool:
    """Return True if one side is a bound on the length, ANY{m,n}, and the other certainly has a text of such a length."""
    if right.kind == REPEAT and right.args[0] is ANY:
        left, right = right, left
    if not (left.kind == REPEAT and left.args[0] is ANY and right.plain):
        return False
    _, least, most = left.args
    low, high, stride = lengths(right)
    if low < least and stride:
        low += -(-(least - low) // stride) * stride
    return bool(least <= low <= min(high, most))
