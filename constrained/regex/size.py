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
from constrained.regex.derive import raw_edges
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
    RawEdges,
    single,
)
from constrained.work import spend

LARGE = 1 << 40
LARGE_PATTERN = 120  # from here on a pattern is tried; of 576 in schemas that people wrote, none has more than 127
_LOOKING = 500  # a language that looks at what stands before it
_CHEAP = 8  # steps of a counter that cost as much as a state
_FEW_PAIRS = 64  # places that two expressions are both in before they part


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


def part_soon(first: Expr, second: Expr) -> bool:
    """Say whether no text but a few short ones is the beginning of texts of both expressions: states of their
    automata then add up where the two are read side by side, and are not multiplied.

    >>> from constrained.regex import parse_ecma
    >>> number, *others = map(parse_ecma, ("^u?int[0-9]+$", "^u?fixed[0-9]+$", "^[a-z0-9]+$", "int"))
    >>> [part_soon(number, other) for other in others]
    [True, False, False]

    Cost: 1 µs per pair of edges of the pairs of states at which both go on, of 64 pairs at most.
    """
    pairs, met = {(first, second)}, 0
    while pairs:
        met += len(pairs)
        if met > _FEW_PAIRS:
            return False
        pairs = {pair for left, right in pairs for pair in _steps_of_both(raw_edges(left), raw_edges(right))}
    return True


def _steps_of_both(left: RawEdges, right: RawEdges) -> set[tuple[Expr, Expr]]:
    """Return where one character leads two expressions, for all characters that both read."""
    spend(len(left) + len(right) >> 2)
    found, at = set(), 0
    for low, high, target in left:
        while at < len(right) and right[at][1] < low:
            at += 1
        for index in range(at, len(right)):
            if right[index][0] > high:
                break
            found.add((target, right[index][2]))
    return found
