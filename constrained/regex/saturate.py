"""Saturation: languages that no token can tell apart share a key, as counters beyond the longest token are alike.

A mask looks no further than the longest token.  Two expressions whose counters are both beyond that horizon allow the
same tokens; they share a key, and so a mask.  Also here: a sufficient test for the lengths of a language's texts, which
saves counting up to ``minLength: 10000`` one character at a time to see that a length bound and a pattern are
compatible; one for their number, by which a pattern without a few texts is not empty; and a shortest text of a plain
expression.
"""

from __future__ import annotations

from collections.abc import Iterator

from constrained.caches import cached
from constrained.machine import LiteralSet
from constrained.regex.algebra import concat, intersect, length_bound, repeat, union
from constrained.regex.expr import (
    ANY_TEXT,
    CLASS,
    COMPLEMENT,
    CONCAT,
    EPSILON_KIND,
    INFINITE,
    INTERSECT,
    LAZY,
    LITERAL,
    NEVER_KIND,
    REPEAT,
    SET,
    STEP,
    UNION,
    Expr,
    matches,
    parts,
    single,
)
from constrained.regex.facts import universal_up_to
from constrained.work import spend

_GUESSED = 100  # characters of a text that is guessed
_FEW_TEXTS = 1_000  # that a complement leaves out


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
    elif expr.kind == INTERSECT and len(expr.args) == 2:
        bound = length_bound(*expr.args)
        if bound is not None and bound[0] == 0 and bound[2].plain and bound[1] - horizon >= farthest(bound[2]):
            return saturated(bound[2], horizon)  # wherever one token leads, there is room for the rest
    return _roomy(expr, horizon) if expr.kind == INTERSECT else expr


def reach(expr: Expr) -> int:
    """Return the horizon from which on no count of a plain expression lies beyond it.

    Most states of a pattern end in the same factors, which are looked at once.
    """
    chain = []
    while expr.reach is None and expr.kind == CONCAT:
        chain.append(expr)
        expr = expr.args[1]
    found = expr.reach
    if found is None:
        found = 0
        if expr.kind == REPEAT:
            _, least, most = expr.args
            found = max(0, least - 1, most if most < INFINITE else 0)
        elif expr.kind == UNION:
            found = max(map(reach, expr.args))
        expr.reach = found
    for whole in reversed(chain):
        head: Expr = whole.args[0]
        whole.reach = found = min(max(reach(head), head.short + found), whole.long)
    return found


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


@cached(4096)
def lengths(expr: Expr) -> tuple[int, int, int]:
    """Return (low, high, stride): a plain expression has texts of all the lengths low, low + stride, … high (and maybe
    others).

    A low of INFINITE: nothing is known.
    """
    if expr.kind == CONCAT:
        low, high, stride = 0, 0, 0
        while expr.kind == CONCAT:
            spend(2)
            low, high, stride = _sum((low, high, stride), lengths(expr.args[0]))
            expr = expr.args[1]
        return _sum((low, high, stride), lengths(expr))
    if expr.kind == UNION:
        return max(
            (lengths(member) for member in expr.args), key=lambda found: (found[1] - found[0]) // max(found[2], 1)
        )
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
    return (INFINITE, INFINITE, 0) if expr.kind == LAZY else (expr.short, expr.short, 0)


def _sum(left: tuple[int, int, int], right: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return lengths of concatenations: exact where one side is a point or strides fit, else with one side held at its
    least.
    """
    if left[0] == left[1] or right[0] == right[1]:
        return left[0] + right[0], min(INFINITE, left[1] + right[1]), max(left[2], right[2])
    small, large = sorted((left, right), key=lambda found: found[2])
    if small[2] == 1 and small[1] - small[0] + 1 >= large[2]:
        return left[0] + right[0], min(INFINITE, left[1] + right[1]), 1
    if small[2] == large[2]:
        return left[0] + right[0], min(INFINITE, left[1] + right[1]), small[2]
    return small[0] + large[0], min(INFINITE, small[0] + large[1]), large[2]


def has_length(left: Expr, right: Expr) -> bool:
    """Return True if one side is a bound on the length, ANY{m,n}, and the other certainly has a text of such a
    length.
    """
    bound = length_bound(left, right)
    if bound is None or not bound[2].plain:
        return False
    least, most, right = bound
    low, high, stride = lengths(right)
    if low < least and stride:
        low += -(-(least - low) // stride) * stride
    return bool(least <= low <= min(high, most) and low < INFINITE)


@cached(4096)
def shortest_text(expr: Expr) -> str | None:
    """Return a shortest text of an expression, of one with conditions a text; None if it is long, written down lazily,
    or not found at a look.
    """
    if expr.short > _GUESSED or expr.kind in (LAZY, COMPLEMENT, STEP):
        return None
    if expr.accepts:
        return ""
    if expr.kind == LITERAL:
        return str(expr.args[0])
    if expr.kind == CLASS:
        return chr(expr.args[0][0][0])
    if expr.kind == SET:
        texts = expr.args[0]
        return str(min((texts.texts[at][texts.depth :] for at in _texts_left(texts)), key=len))
    if expr.kind == REPEAT:
        body = shortest_text(expr.args[0])
        return None if body is None else body * int(expr.args[1])
    found = [shortest_text(part) for part in (parts(expr) if expr.kind == CONCAT else expr.args)]
    if expr.kind == UNION:
        return min((text for text in found if text is not None), key=len, default=None)
    if expr.kind == INTERSECT:
        return next((text for text in found if text and all(matches(member, text) for member in expr.args)), None)
    return None if None in found else "".join(text for text in found if text is not None)


def _texts_left(texts: LiteralSet) -> Iterator[int]:
    return (at for at in range(texts.low, texts.high) if not texts.excluded >> at & 1)


# -- how many texts there are ----------------------------------------------------------------------------------------


def outnumbers(left: Expr, right: Expr) -> bool:
    """Return True if one side is the complement of a few texts, and the other, a plain expression, certainly has more;
    False says nothing.

    Of ``[0-9a-f]{8}`` without ten of its texts, a search asked for an edge list for each character.

    >>> from constrained.regex import complement, literals, parse_python
    >>> outnumbers(parse_python("[a-c]{2}"), complement(literals(["ab", "b", "cd"])))
    True
    """
    if left.kind == COMPLEMENT:
        left, right = right, left
    if right.kind != COMPLEMENT or not left.plain or left.kind == NEVER_KIND:
        return False
    most = at_most(right.args[0])
    return most <= _FEW_TEXTS and at_least(left, most) > most


def at_most(expr: Expr) -> int:
    """Return a number of texts that an expression certainly has no more of; INFINITE: it may have any number."""
    spend(1)
    if expr.kind in (LITERAL, EPSILON_KIND):
        return 1
    if expr.kind == SET:
        return int(expr.args[0].high - expr.args[0].low)
    if expr.kind == CLASS:
        return _members(expr)
    if expr.kind in (CONCAT, UNION):
        found = int(expr.kind == CONCAT)
        for part in parts(expr) if found else expr.args:
            found = found * at_most(part) if expr.kind == CONCAT else found + at_most(part)
            if found > _FEW_TEXTS:
                return INFINITE
        return found
    if expr.kind == REPEAT and expr.args[1:] == (0, 1):
        return 1 + at_most(expr.args[0])
    return INFINITE


def at_least(expr: Expr, enough: int) -> int:
    """Return a number of texts that a plain expression certainly has, or one above `enough`.

    Texts of one length stand apart: (a|aa)(a|aa) has three texts, ``[ab][ab]`` four.
    """
    spend(1)
    if expr.kind == CLASS:
        return _members(expr)
    if expr.kind == UNION:
        return max([at_least(member, enough) for member in expr.args])
    if expr.kind == REPEAT:
        body, least, most = expr.args
        if body.short == body.long and least:
            each = found = at_least(body, enough)
            while least > 1 and 1 < found <= enough:
                found, least = found * each, least - 1
            return found
        return int(most - least) + 1 if body.short else 1
    if expr.kind != CONCAT:
        return 1
    found, other = 1, 1  # of all factors of one length together, of another one
    while found <= enough and other <= enough:
        head, tail = expr.args if expr.kind == CONCAT else (expr, None)
        count = at_least(head, enough)
        if head.short == head.long:
            found *= count
        else:
            other = max(other, count)
        if tail is None:
            break
        expr = tail
    return max(found, other)


def _members(expr: Expr) -> int:
    """Return how many characters a class has; surrogates, which are glued to one, are none."""
    return sum([high - low + 1 - (0x800 if low <= 0xDFFF <= high else 0) for low, high in expr.args[0]])
