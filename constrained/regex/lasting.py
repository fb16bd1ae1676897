r"""Prefix-universal languages over a class of characters: every text over it goes on to a text of the language.

`lasting` finds the class C of such a language, whose texts hold no other characters; with C = ANY it is
`Expr.everlasting`.  A mask of the language is the mask of C*, only the ends differ, so that no token has to be read.
``^(?=.*a)(?=.*b).*$`` is one: its states are as many as there are sets of letters, and a vocabulary meets most of them.

Sufficient, read off the structure; nothing is searched.  Tested against the definition on short texts
(`tests/test_regex_bounds.py`).
"""

from __future__ import annotations

import constrained.regex.charset as charset

from ..work import spend
from .charset import Ranges
from .expr import (
    ANY,
    ANY_TEXT,
    CLASS,
    COMPLEMENT,
    CONCAT,
    EPSILON,
    INFINITE,
    INTERSECT,
    LITERAL,
    REPEAT,
    UNION,
    Expr,
    parts,
    single,
)


def may_use(expr: Expr, witness: str) -> bool:
    """Say whether some text may hold one of the `WITNESSES`; False is certain.

    >>> from constrained.regex import parse_ecma
    >>> [may_use(parse_ecma(pattern), "'") for pattern in ("^[a-z]+$", "^[!-z]+$")]
    [False, True]
    """
    return bool(expr._uses >> list(charset.WITNESSES).index(witness) & 1)


def lasting(expr: Expr) -> Expr | None:
    """Return a class C of characters with: the texts are over C, and every text over C goes on to one of them.  None:
    none was seen.

    >>> from constrained.regex import parse_ecma
    >>> lasting(parse_ecma("^(?=.*[0-9])[a-z0-9]*$"))
    <[0-9a-z]>
    """
    if expr.everlasting:
        return ANY
    spend(1)
    if expr.kind == REPEAT:
        return expr.args[0] if expr.args[1:] == (0, INFINITE) and single(expr.args[0]) is not None else None
    if expr.kind == CONCAT:
        body, rest = lasting(expr.args[0]), expr.args[1]
        return (
            body
            if body is not None and _has_text(rest, ranges := single(body) or ()) and _is_over(rest, ranges)
            else None
        )
    if expr.kind == UNION:
        found = next((found for found in map(lasting, expr.args) if found is not None), None)
        return (
            found if found is not None and all(_is_over(member, single(found) or ()) for member in expr.args) else None
        )
    if expr.kind == INTERSECT:
        for member in expr.args:
            found = lasting(member)
            if found is not None and found is not ANY:
                others = [other for other in expr.args if other is not member]
                return found if all(_is_ample(other, single(found) or ()) for other in others) else None
    return None


def _is_loop(expr: Expr, ranges: Ranges) -> bool:
    """Say whether an expression holds every text over a class because it repeats a larger one."""
    if expr is ANY_TEXT:
        return True
    if expr.kind != REPEAT or expr.args[1:] != (0, INFINITE):
        return False
    body = single(expr.args[0])
    return body is not None and charset.intersect(ranges, body) == ranges


def _is_ample(expr: Expr, ranges: Ranges) -> bool:
    """Say whether every text over a class goes on, over it, to one from which on every text over it is in the
    language.
    """
    spend(1)
    if _is_loop(expr, ranges):
        return True
    if expr.kind == CONCAT:
        factors = parts(expr)
        return (
            _is_loop(factors[0], ranges)
            and _is_loop(factors[-1], ranges)
            and all(_has_text(factor, ranges) for factor in factors[1:-1])
        )
    if expr.kind == UNION:
        return any(_is_ample(member, ranges) for member in expr.args)
    if expr.kind == INTERSECT:
        return all(_is_ample(member, ranges) for member in expr.args)
    if expr.kind == COMPLEMENT:
        used = expr.args[0]._uses
        return bool(charset.witnesses_in(ranges) & ~used)
    return False


def _has_text(expr: Expr, ranges: Ranges) -> bool:
    """Say whether some text over a class is in the language."""
    spend(1)
    if expr.kind == LITERAL:
        return all(charset.contains(ranges, ord(char)) for char in expr.args[0])
    if expr.kind == CLASS:
        return bool(charset.intersect(ranges, expr.args[0]))
    if expr.kind == REPEAT:
        return expr.args[1] == 0 or _has_text(expr.args[0], ranges)
    if expr.kind == CONCAT:
        return all(_has_text(factor, ranges) for factor in parts(expr))
    return expr is EPSILON or (expr.kind == UNION and any(_has_text(member, ranges) for member in expr.args))


def _is_over(expr: Expr, ranges: Ranges) -> bool:
    """Say whether all texts of a plain expression are over a class."""
    spend(1)
    if expr.kind == LITERAL:
        return all(charset.contains(ranges, ord(char)) for char in expr.args[0])
    if expr.kind == CLASS:
        return bool(charset.intersect(ranges, expr.args[0]) == expr.args[0])
    if expr.kind == REPEAT:
        return _is_over(expr.args[0], ranges)
    if expr.kind == CONCAT:
        return all(_is_over(factor, ranges) for factor in parts(expr))
    if expr.kind == INTERSECT:
        return any(_is_over(member, ranges) for member in expr.args)
    return expr is EPSILON or (expr.kind == UNION and all(_is_over(member, ranges) for member in expr.args))
