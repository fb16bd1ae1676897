"""The constructors of expressions up to union, and the laws they apply; `boolean` has intersection and complement.

Every constructor returns a normal form: what the laws identify is one expression.  How many laws there are decides
how many states the automaton has.  Sufficient for a finite automaton are associativity, commutativity and idempotence
of union; those that pay beyond that are the counter laws (``r{a,b}·t | r{c,d}·t = r{a,d}·t`` where the intervals touch)
and the absorption of ``ANY_TEXT``. `tests/test_regex_sizes.py` compares the number of states with minimal automata.

Not applied, on purpose: laws that search (inclusion of arbitrary expressions); the cost of an edge is what a mask pays.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter, le
from typing import Protocol

import constrained.regex.charset as charset
from constrained.machine import LiteralSet
from constrained.regex.expr import (
    ANY_TEXT,
    CLASS,
    COMPLEMENT,
    CONCAT,
    EPSILON,
    EPSILON_KIND,
    INFINITE,
    INTERSECT,
    LAZY,
    LITERAL,
    LITERAL_CHUNK,
    NEVER,
    REPEAT,
    SET,
    UNION,
    Expr,
    RawEdges,
    interned,
    parts,
    single,
)
from constrained.work import spend

_COMPARED = 8  # factors at the head of a concatenation whose counts are compared
_MANY = 64  # literals of a union that become one set


def char_class(ranges: Iterable[tuple[int, int]]) -> Expr:
    """Return one character out of inclusive ranges of code points; surrogates are no characters.

    >>> char_class([(ord("a"), ord("c")), (ord("x"), ord("x"))])
    <[a-cx]>
    """
    return of_ranges(charset.normal(ranges))


def of_ranges(ranges: charset.Ranges) -> Expr:
    """Return one character out of a set."""
    if not ranges:
        return NEVER
    if len(ranges) == 1:
        low, high = ranges[0]
        if low == high or low == 0xD7FF:
            return interned(LITERAL, chr(low)) if high <= 0xDFFF else interned(CLASS, ranges)
    return interned(CLASS, ranges)


def literal(text: str) -> Expr:
    """Return exactly one text."""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        return NEVER
    spend(len(text) >> 4)
    if 0 < len(text) <= LITERAL_CHUNK:
        return interned(LITERAL, text)
    chunks = [interned(LITERAL, text[at : at + LITERAL_CHUNK]) for at in range(0, len(text), LITERAL_CHUNK)]
    return concat(*chunks)


def literals(texts: Iterable[str]) -> Expr:
    """Return a finite set of texts, read off a sorted tuple: 10,000 texts cost one expression until they are read.

    >>> literals(["oslo", "bergen"]).literal_set.texts
    ('bergen', 'oslo')
    """
    texts = list(texts)
    spend(len(texts))
    unlike = set(texts)
    if not all(map(str.isascii, unlike)):
        unlike = {text for text in unlike if not any("\ud800" <= char <= "\udfff" for char in text)}
    found = tuple(sorted(unlike))
    if not found:
        return NEVER
    return literal(found[0]) if len(found) == 1 else of_literal_set(LiteralSet(found))


def of_literal_set(texts: LiteralSet) -> Expr:
    """Return the expression of a literal set or of one of its successors."""
    if texts.high - texts.low == 1:
        return literal(texts.texts[texts.low][texts.depth :])
    return interned(SET, texts)


class Lazy(Protocol):
    """A state outside the algebra; hashable, equal states denote the same language, which is not empty.

    Invariant: short <= len(t) <= long for every text t (INFINITE: unbounded).
    It may say `uses_no_witness`: that no text holds any of `charset.WITNESSES`; and have an `outline()`, its edges as a
    `machine.Outline`.
    """

    @property
    def accepts(self) -> bool: ...

    @property
    def short(self) -> int: ...

    @property
    def long(self) -> int: ...

    def edges(self) -> RawEdges:
        """Return sorted, disjoint ranges below the surrogates and what follows them."""
        ...


def lazy(state: Lazy) -> Expr:
    """Return the language of a state that says where it leads when it is reached, for languages too large to write
    out.
    """
    return interned(LAZY, state)


def concat(*exprs: Expr) -> Expr:
    """Return the texts made of one text of each expression, in order."""
    found = EPSILON
    for expr in reversed(exprs):
        if found is EPSILON:
            found = expr
            continue
        if expr.kind == CONCAT:
            spend(2)
        for part in reversed(parts(expr)) if expr.kind == CONCAT else (expr,):
            found = _prepend(part, found)
    return found


def _prepend(head: Expr, tail: Expr) -> Expr:
    """Concatenate a head that is no CONCAT."""
    if head.kind <= EPSILON_KIND or tail.kind <= EPSILON_KIND:
        if head is NEVER or tail is NEVER:
            return NEVER
        return tail if head is EPSILON else head
    second, rest = tail.args if tail.kind == CONCAT else (tail, EPSILON)
    if head.kind == LITERAL and second.kind == LITERAL:
        if len(head.args[0]) + len(second.args[0]) <= LITERAL_CHUNK:
            return _prepend(interned(LITERAL, head.args[0] + second.args[0]), rest)
        return interned(CONCAT, head, tail)
    body, least, most = head.args if head.kind == REPEAT else (head, 1, 1)
    if second is body:
        return _prepend(repeat(body, least + 1, most + 1 if most < INFINITE else INFINITE), rest)
    if second.kind == REPEAT and second.args[0] is body:
        most = min(INFINITE, most + second.args[2])
        return _prepend(interned(REPEAT, body, least + second.args[1], most), rest)
    return interned(CONCAT, head, tail)


def repeat(expr: Expr, least: int = 0, most: int | None = None) -> Expr:
    """Return `least` to `most` texts of an expression in a row; `most` None means without end.

    >>> repeat(literal("ab"), 2, 100000)
    <(?:ab){2,100000}>
    """
    most = INFINITE if most is None else most
    if not 0 <= least <= most:
        raise ValueError(f"bounds {{{least},{most}}}")
    if most == 0 or expr.kind <= EPSILON_KIND:
        return NEVER if expr is NEVER and least else EPSILON
    if least == most == 1:
        return expr
    if expr.accepts:
        least = 0
    if expr.kind == REPEAT:
        body, inner_least, inner_most = expr.args
        # k copies have k·inner_least … k·inner_most parts; from k = least on, the intervals must leave no gap.
        dense = inner_least <= 1 if least == 0 else inner_least <= least * (inner_most - inner_least) + 1
        if dense or least == most:
            product = INFINITE if INFINITE in (most, inner_most) else most * inner_most
            if product < INFINITE >> 1 or product == INFINITE:
                return repeat(body, least * inner_least, None if product == INFINITE else product)
    if most == INFINITE and least <= 1:
        if least == 0 and expr.kind == CONCAT and expr.accepts:
            return repeat(union(*parts(expr)))  # (a*b*)* = (a|b)*
        if expr.kind == UNION:  # (a+|b)* = (a|b)*
            flat = [m.args[0] if m.kind == REPEAT and m.args[1] <= 1 else m for m in expr.args]
            if any(new is not old for new, old in zip(flat, expr.args, strict=True)):
                return repeat(union(*flat), least)
    return interned(REPEAT, expr, least, most)


def optional(expr: Expr) -> Expr:
    """Return the expression's texts and the empty one."""
    return expr if expr.accepts else repeat(expr, 0, 1)


def union(*exprs: Expr) -> Expr:
    """Return the texts of any of the expressions."""
    if len(exprs) == 2:
        first, second = exprs
        if first is second or second is NEVER or first is ANY_TEXT:
            return first
        if first is NEVER or second is ANY_TEXT:
            return second
    members: dict[Expr, None] = {}
    empty = False
    stack = list(reversed(exprs))
    while stack:
        expr = stack.pop()
        if expr.kind == UNION:
            stack.extend(expr.args)
        elif expr.kind == REPEAT and expr.args[1] == 0 and expr.args[2] == 1:
            empty = True
            stack.append(expr.args[0])
        elif expr is ANY_TEXT:
            return ANY_TEXT
        elif expr is EPSILON:
            empty = True
        elif expr is not NEVER:
            members[expr] = None
    spend(4 + 3 * len(members))
    found = _merge(members, empty=empty) if members else []
    if len(found) > 1:
        found.sort(key=attrgetter("serial"))
        result = interned(UNION, *found)
    else:
        result = found[0] if found else NEVER
    if not empty or result.accepts:
        return result
    return EPSILON if result is NEVER else repeat(result, 0, 1)


def _merge(members: dict[Expr, None], *, empty: bool) -> list[Expr]:
    """Apply the laws of union to the members, which are neither unions nor NEVER."""
    if len(members) == 1:
        return list(members)
    kinds = {expr.kind for expr in members}
    if CLASS in kinds or LITERAL in kinds:
        classes = [expr for expr in members if single(expr) is not None]
        if len(classes) > 1:
            for expr in classes:
                del members[expr]
            members[of_ranges(charset.union(*(single(expr) or () for expr in classes)))] = None
    if LITERAL in kinds and len(members) >= _MANY:
        words = [expr for expr in members if expr.kind == LITERAL]
        if len(words) >= _MANY:
            for expr in words:
                del members[expr]
            members[literals(expr.args[0] for expr in words)] = None
    if COMPLEMENT in kinds:
        for expr in list(members):
            if expr.kind == COMPLEMENT and (expr.args[0] in members or _has_member(expr.args[0], members)):
                return [ANY_TEXT]  # ¬X | X
    if INTERSECT in kinds:
        for expr in list(members):
            if expr.kind == INTERSECT and any(part in members for part in expr.args):
                del members[expr]  # X | X∩Y = X
    return _merge_counts(members, empty=empty)


def _has_member(expr: Expr, members: dict[Expr, None]) -> bool:
    return expr.kind == UNION and all(member in members for member in expr.args)


def _merge_counts(members: dict[Expr, None], *, empty: bool) -> list[Expr]:
    """Merge r{a,b}·t with r{c,d}·t, with r·t and with t where the counts leave no gap; let C*·t absorb what it
    contains.
    """
    if REPEAT not in [(expr.args[0] if expr.kind == CONCAT else expr).kind for expr in members]:
        return list(members)
    groups: dict[tuple[Expr, Expr], list[tuple[int, int, Expr]]] = {}
    spend(3 * len(members) - 6)
    for expr in members:
        head, tail = expr.args if expr.kind == CONCAT else (expr, EPSILON)
        body, least, most = head.args if head.kind == REPEAT else (head, 1, 1)
        groups.setdefault((body, tail), []).append((least, most, expr))
    found: list[Expr] = []
    changed = False
    bases: set[Expr] = set()
    for (body, tail), counts in groups.items():
        if len(counts) == 1 and not counts[0][0] <= 1 < counts[0][1]:  # PERF: nothing to merge it with
            found.append(counts[0][2])
            continue
        based = (empty if tail is EPSILON else tail in members or _has_member(tail, members)) and any(
            c[1] > 1 for c in counts
        )
        if len(counts) == 1 and not based:
            found.append(counts[0][2])
            continue
        if based:
            counts.append((0, 0, NEVER))
            bases.update(tail.args if tail.kind == UNION else (tail,))
        counts.sort(key=lambda count: count[:2])
        intervals = [list(counts[0][:2])]
        for least, most, _ in counts[1:]:
            if least <= intervals[-1][1] + 1:
                intervals[-1][1] = max(intervals[-1][1], most)
            else:
                intervals.append([least, most])
        changed = True
        for least, most in intervals:
            if most:
                found.append(_prepend(repeat(body, least, None if most == INFINITE else most), tail))
    if not changed:
        return _absorb(_widest(found) if len(found) > 2 else found)
    found = [expr for expr in dict.fromkeys(found) if expr not in bases]
    flat = [member for expr in found for member in (expr.args if expr.kind == UNION else (expr,))]
    return _widest(flat) if len(flat) > 2 else flat


def _widest(members: list[Expr]) -> list[Expr]:
    """Drop members that differ from another in counts only, all of which are within the other's: r{1,2}·s{3} beside
    r{0,9}·s{1,}.

    Without it, nested repeats have as many members as there are ways to share a text among them.
    """
    groups: dict[tuple[Expr, ...], list[tuple[list[int], Expr]]] = {}
    for expr in members:
        if expr.kind == CONCAT:
            if expr.shape is None:
                expr.shape = _shape(expr)
            shape, counts = expr.shape
            if counts:
                groups.setdefault(shape, []).append((counts, expr))
    if len(groups) == sum(map(len, groups.values())):
        return members
    dropped: set[Expr] = set()
    for alike in groups.values():
        alike.sort(key=lambda item: item[0])
        widest: list[list[int]] = []
        for counts, expr in reversed(alike):  # counts[0] is -least: a wider one comes before
            spend(1 + (len(widest) >> 1))
            if any(all(map(le, counts, other)) for other in widest):
                dropped.add(expr)
            else:
                widest.append(counts)
    return [expr for expr in members if expr not in dropped] if dropped else members


def _shape(expr: Expr) -> tuple[tuple[Expr, ...], list[int]]:
    """Return the bodies of the first factors of a concatenation and what follows them; and of each factor -least and
    most.

    Nothing is returned where nothing is counted: there are no alike ones then.
    """
    spend(5)
    shape: list[Expr] = []
    counts: list[int] = []
    while expr.kind == CONCAT and len(shape) < _COMPARED:
        head, expr = expr.args
        body, least, most = head.args if head.kind == REPEAT else (head, 1, 1)
        shape.append(body)
        counts += (-least, most)
    body, least, most = expr.args if expr.kind == REPEAT else (expr, 1, 1)
    counts += (-least, most)
    return ((*shape, body), counts) if any(1 < abs(count) < INFINITE for count in counts) else ((), [])


def _absorb(members: list[Expr]) -> list[Expr]:
    """Drop D{a,b} beside C* where D is within C."""
    for expr in members:
        if expr.kind == REPEAT and expr.args[1] == 0 and expr.args[2] == INFINITE:
            outer = single(expr.args[0])
            if outer is not None:
                return [other for other in members if other is expr or not _within(other, outer)]
    return members


def _within(expr: Expr, outer: charset.Ranges) -> bool:
    inner = single(expr.args[0] if expr.kind == REPEAT else expr)
    if inner is None and expr.kind == LITERAL:
        return all(charset.contains(outer, ord(char)) for char in expr.args[0])
    return inner is not None and charset.intersect(inner, outer) == inner
