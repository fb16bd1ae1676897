"""Estimates of the size of an expression's automaton, so that only what looks large is tried beforehand.

>>> from constrained.regex import parse_ecma
>>> [size(parse_ecma(pattern)) for pattern in ("^[a-z]{1,63}$", r"^(?:\\d{1,3}\\.){3}", "^(?=.*a)(?=.*b)(?=.*c)")]
[8, 8, 27]

States are multiplied where expressions are read side by side (conjunctions) or inside each other (counts), and added
elsewhere; a state counts for more where its class has many ranges.  Most of them no text ever meets: the figure says
nothing but "look" or "no need to look".
"""

from __future__ import annotations

from constrained.caches import cached
from constrained.regex.expr import (
    CLASS,
    COMPLEMENT,
    CONCAT,
    INFINITE,
    INTERSECT,
    LITERAL,
    REPEAT,
    SET,
    STEP,
    UNION,
    Expr,
    single,
)

LARGE = 1 << 40
LARGE_PATTERN = 120  # from here on a pattern is tried; of 576 in schemas that people wrote, none has more than 127
_LOOKING = 500  # a language that looks at what stands before it
_CHEAP = 8  # steps of a counter that cost as much as a state


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
        return int(min(size(body) * (1 + times // _CHEAP) if single(body) else size(body) * times + 1, LARGE))
    if kind == STEP:
        return _LOOKING
    if kind == COMPLEMENT and args[0].kind != UNION:
        return min(1 + size(args[0]), LARGE)
    found = 1
    for member in args if kind == INTERSECT else args[0].args if kind == COMPLEMENT else ():
        found = min(found * size(member), LARGE)
    return found
