r"""Facts that are read off an expression's structure, with no search: what a class of characters can always go on to,
and how large an automaton looks.

Prefix-universal languages over a class of characters: every text over it goes on to a text of the language.
`universal_over` finds the class C of such a language, whose texts hold no other characters; with C = ANY it is
`Expr.universal`.  A mask of the language is the mask of C*, only the ends differ, so that no token has to be read.
``^(?=.*a)(?=.*b).*$`` is one: its states are as many as there are sets of letters, and a vocabulary meets most of them.
Sufficient; tested against the definition on short texts (`tests/test_regex_bounds.py`).

`size` estimates the automaton, so that only what looks large is tried beforehand: states are multiplied where
expressions are read side by side (conjunctions) or inside each other (counts), and added elsewhere; a state counts for
more where its class has many ranges.  Most of them no text ever meets: the figure says "look" or "no need to look".

>>> from constrained.regex import parse_ecma
>>> [size(parse_ecma(pattern)) for pattern in ("^[a-z]{1,63}$", r"^(?:\d{1,3}\.){3}", "^(?=.*a)(?=.*b)(?=.*c)")]
[8, 8, 27]
"""

from __future__ import annotations

from collections.abc import Iterable

import constrained.regex.charset as charset
from constrained.caches import cached
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
    REPEAT,
    SET,
    STEP,
    UNION,
    Expr,
    parts,
    single,
)
from constrained.work import spend


def may_use(expr: Expr, witness: str) -> bool:
    """Say whether some text may hold one of the `WITNESSES`; False is certain.

    >>> from constrained.regex import parse_ecma
    >>> [may_use(parse_ecma(pattern), "'") for pattern in ("^[a-z]+$", "^[!-z]+$")]
    [False, True]
    """
    return bool(expr._uses >> list(charset.WITNESSES).index(witness) & 1)


def universal_over(expr: Expr) -> Expr | None:
    """Return a class C of characters with: the texts are over C, and every text over C goes on to one of them.  None:
    none was seen.

    >>> from constrained.regex import parse_ecma
    >>> universal_over(parse_ecma("^(?=.*[0-9])[a-z0-9]*$"))
    <[0-9a-z]>
    """
    if expr.universal:
        return ANY
    spend(1)
    if expr.kind == REPEAT:
        return expr.args[0] if expr.args[2] == INFINITE and single(expr.args[0]) is not None else None
    if expr.kind == CONCAT:
        body, rest = universal_over(expr.args[0]), expr.args[1]
        return (
            body
            if body is not None and _shortest(rest, body) is not None and _is_over(rest, body)
            else None
        )
    if expr.kind == UNION:
        over = next((over for over in map(universal_over, expr.args) if over is not None), None)
        return (
            over if over is not None and all(_is_over(member, over) for member in expr.args) else None
        )
    if expr.kind == INTERSECT:
        for member in expr.args:
            over = universal_over(member)
            if over is not None and over is not ANY:
                needed = (_needed(other, over) for other in expr.args if other is not member)
                return over if None not in needed else None
    return None


def universal_up_to(expr: Expr) -> int | None:
    """Return k for an intersection C{m,n} ∩ …: every text over C of up to k characters goes on to a text of it.  None:
    that was not seen; a k below 0 says nothing.

    >>> from constrained.regex import parse_ecma
    >>> universal_up_to(parse_ecma("^(?=.*[0-9])(?=.*[a-z])[a-z0-9]{2,9}$"))
    7
    """
    counted = next((e for e in expr.args if e.kind == REPEAT and single(e.args[0]) is not None), None)
    if expr.kind != INTERSECT or counted is None:
        return None
    left = int(counted.args[2])
    for other in expr.args:
        if other is not counted:
            needed = _needed(other, counted.args[0])
            if needed is None:
                return None
            left -= needed
    return left


@cached(4096, size=200)
def _is_loop(expr: Expr, over: Expr) -> bool:
    """Say whether an expression holds every text over a class (`over`) because it repeats a larger one."""
    if expr is ANY_TEXT:
        return True
    if expr.kind != REPEAT or expr.args[1:] != (0, INFINITE):
        return False
    body, ranges = single(expr.args[0]), single(over)
    return body is not None and ranges is not None and charset.intersect(ranges, body) == ranges


@cached(4096, size=200)
def _needed(expr: Expr, over: Expr) -> int | None:
    """Return k if every text over a class goes on, by up to k characters of it, to one from which on every text over it
    is in the language; None if that is not seen.
    """
    spend(1)
    if _is_loop(expr, over):
        return 0
    if expr.kind == CONCAT:
        factors = parts(expr)
        return (
            _sum(_shortest(factor, over) for factor in factors[1:-1])
            if _is_loop(factors[0], over) and _is_loop(factors[-1], over)
            else None
        )
    if expr.kind == UNION:
        return _least(_needed(member, over) for member in expr.args)
    if expr.kind == REPEAT and expr.args[1] <= 1:
        return _needed(expr.args[0], over)
    if expr.kind == INTERSECT:
        return _sum(_needed(member, over) for member in expr.args)
    return _needed_outside(expr.args[0], single(over) or ()) if expr.kind == COMPLEMENT else None


def _needed_outside(expr: Expr, ranges: charset.Ranges) -> int | None:
    """As `_needed`, of the complement of an expression: one character over the class that is in none of its texts."""
    if charset.witnesses_in(ranges) & ~expr._uses:
        return 1
    if expr.kind == INTERSECT:
        return _least(_needed_outside(member, ranges) for member in expr.args)
    body = single(expr.args[0]) if expr.kind == REPEAT else None
    return 1 if body is not None and charset.intersect(ranges, body) != ranges else None


def _sum(lengths: Iterable[int | None]) -> int | None:
    total = 0
    for length in lengths:
        if length is None:
            return None
        total += length
    return total


def _least(lengths: Iterable[int | None]) -> int | None:
    return min((length for length in lengths if length is not None), default=None)


@cached(4096, size=200)
def _shortest(expr: Expr, over: Expr) -> int | None:
    """Return the length of some text over a class that is in the language, None if none is seen."""
    spend(1)
    ranges = single(over) or ()
    if expr.kind == LITERAL:
        return len(expr.args[0]) if all(charset.contains(ranges, ord(char)) for char in expr.args[0]) else None
    if expr.kind == CLASS:
        return 1 if charset.intersect(ranges, expr.args[0]) else None
    if expr.kind == REPEAT:
        body = _shortest(expr.args[0], over) if expr.args[1] else 0
        return None if body is None else int(expr.args[1]) * body
    if expr.kind == CONCAT:
        return _sum(_shortest(factor, over) for factor in parts(expr))
    if expr.kind == UNION:
        return _least(_shortest(member, over) for member in expr.args)
    return 0 if expr is EPSILON else None


@cached(4096, size=200)
def asks_beyond(expr: Expr, over: Expr) -> bool:
    """Return True if every text holds a character outside a class, as a factor of the expression is one."""
    factors = parts(expr)
    spend(1 + (len(factors) >> 3))
    return True in [factor.kind in (CLASS, LITERAL) and _shortest(factor, over) is None for factor in factors]


@cached(4096, size=200)
def _is_over(expr: Expr, over: Expr) -> bool:
    """Say whether all texts of a plain expression are over a class."""
    spend(1)
    ranges = single(over) or ()
    if expr.kind == LITERAL:
        return all(charset.contains(ranges, ord(char)) for char in expr.args[0])
    if expr.kind == CLASS:
        return bool(charset.intersect(ranges, expr.args[0]) == expr.args[0])
    if expr.kind == REPEAT:
        return _is_over(expr.args[0], over)
    if expr.kind == CONCAT:
        return all(_is_over(factor, over) for factor in parts(expr))
    if expr.kind == INTERSECT:
        return any(_is_over(member, over) for member in expr.args)
    return expr is EPSILON or (expr.kind == UNION and all(_is_over(member, over) for member in expr.args))


def may_go_on(expr: Expr, char: str, *, back: bool = False) -> bool:
    """Return True if a character may stand behind every text, so that none is the last one; back: if a text that ends
    in it is in the language only where it is without it, too.

    >>> from constrained.regex import complement, intersect, parse_ecma
    >>> language = intersect(parse_ecma("^[a-c1-3]+$"), complement(parse_ecma("[0-9]$")))
    >>> may_go_on(language, "a"), may_go_on(language, "1")
    (True, False)
    """
    kind, args = expr.kind, expr.args
    spend(1)
    if kind == COMPLEMENT:
        return may_go_on(args[0], char, back=not back)
    if kind in (UNION, INTERSECT):
        return all(may_go_on(member, char, back=back) for member in args)
    if kind == CONCAT:
        factors = parts(expr)
        while back and len(factors) > 1 and factors[-1].accepts:  # a text may end before it, too
            if not may_go_on(factors.pop(), char, back=True):
                return False
        return may_go_on(factors[-1], char, back=back)
    body = single(args[0]) if kind == REPEAT else single(expr)
    holds = body is not None and charset.contains(body, ord(char))
    if kind == REPEAT:
        if back:
            return (args[1] == 0 and body is not None) or may_go_on(args[0], char, back=True)
        return holds and bool(args[2] == INFINITE)
    return back and (expr is EPSILON or body is not None and not holds or kind == LITERAL and args[0][-1] != char)


LARGE = 1 << 40
LARGE_PATTERN = 120  # from here on a pattern is tried; of 576 in schemas that people wrote, none has more than 127
_LOOKING, _WRITTEN = 500, 20  # a language that looks at what stands before it, one that is written down lazily
_CHEAP = 8  # steps of a counter that cost as much as a state
_FEW = 60  # states that are looked at


def _ends_plainly(expr: Expr) -> bool:
    """Say whether no character both goes on with a text of the language and begins the next one, as in words with a
    blank behind each; seen of plain expressions of few states.
    """
    begins = tuple([edge[:2] for edge in expr.edges()]) if expr.plain and not expr.accepts else ()
    seen, states = {expr}, [expr] if begins else []
    for state in states:
        edges = state.edges()
        if state.accepts and charset.intersect(begins, tuple([edge[:2] for edge in edges])):
            return False
        following = [target for target in dict.fromkeys([edge[2] for edge in edges]) if target not in seen]
        seen.update(following)
        states += following
        if len(states) > _FEW:
            return False
    return bool(states)


@cached(4096)
def size(expr: Expr) -> int:
    """Return an estimate, at most `LARGE`."""
    kind, args = expr.kind, expr.args
    if kind == CLASS:
        return 1 + (len(args[0]) >> 5)
    if kind == LITERAL:
        return 1 + len(args[0]) // _CHEAP
    if kind == SET:
        return 1 + int(args[0].high - args[0].low) // _CHEAP
    if kind == CONCAT:
        total = 0
        while expr.kind == CONCAT:
            total, expr = total + size(expr.args[0]), expr.args[1]
        return min(total + size(expr), LARGE)
    if kind == UNION:
        return min(sum(map(size, args)), LARGE)
    if kind == REPEAT:
        body, least, most = args
        times = max(1, least, most if most < INFINITE else 1)
        if times > _CHEAP and _ends_plainly(body):  # one count at a time
            return int(min(size(body) + times // _CHEAP, LARGE))
        return int(min(size(body) * (1 + times // _CHEAP) if single(body) else size(body) * times + 1, LARGE))
    if kind in (STEP, LAZY):
        return _LOOKING if kind == STEP else _WRITTEN
    if kind == COMPLEMENT and args[0].kind != UNION:
        return min(1 + size(args[0]), LARGE)
    product = 1
    for member in args if kind == INTERSECT else args[0].args if kind == COMPLEMENT else ():
        product = min(product * size(member), LARGE)
    return product
