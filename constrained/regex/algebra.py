"""The constructors of expressions, and the laws they apply; intersection and complement come last.

Every constructor returns a normal form: what the laws identify is one expression.  How many laws there are decides
how many states the automaton has.  Sufficient for a finite automaton are associativity, commutativity and idempotence
of union; those that pay beyond that are the counter laws (``r{a,b}·t | r{c,d}·t = r{a,d}·t`` where the intervals touch)
and the absorption of ``ANY_TEXT``. `tests/test_regex_sizes.py` compares the number of states with minimal automata.

Not applied, on purpose: laws that search (inclusion of arbitrary expressions); the cost of an edge is what a mask pays.

Under intersection counters meet without a product: C{m,n} ∩ D{a,b} is one repeat, and a bound on the length moves past
the parts of fixed length, so that a pattern with ``minLength`` and ``maxLength`` is most often a plain expression
again.  At most one complement remains in an intersection.  Where look-around states take part, intersections are kept
in disjunctive normal form, of which there are finitely many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter, eq, le
from typing import Protocol, TypeVar

import constrained.regex.charset as charset
from constrained.caches import cached
from constrained.machine import LiteralSet
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
    LAZY,
    LITERAL,
    LITERAL_CHUNK,
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
from constrained.work import sorted_in_turns, spend

Target = TypeVar("Target")
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
    if not all(map(str.isascii, texts)):
        texts = [text for text in texts if not any("\ud800" <= char <= "\udfff" for char in text)]
    texts_sorted = tuple(sorted_in_turns(texts))
    if any(map(eq, texts_sorted, texts_sorted[1:])):
        texts_sorted = tuple(dict.fromkeys(texts_sorted))
    if not texts_sorted:
        return NEVER
    return literal(texts_sorted[0]) if len(texts_sorted) == 1 else of_literal_set(LiteralSet(texts_sorted))


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
        """Return sorted, disjoint ranges, surrogates glued to U+D7FF, and what follows them."""
        ...


def lazy(state: Lazy) -> Expr:
    """Return the language of a state that says where it leads when it is reached, for languages too large to write
    out.
    """
    return interned(LAZY, state)


def concat(*exprs: Expr) -> Expr:
    """Return the texts made of one text of each expression, in order."""
    whole = EPSILON
    for expr in reversed(exprs):
        if whole is EPSILON:
            whole = expr
            continue
        if expr.kind == CONCAT:
            spend(2)
        for part in reversed(parts(expr)) if expr.kind == CONCAT else (expr,):
            whole = _prepend(part, whole)
    return whole


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
    merged = _merge(members, empty=empty) if members else []
    if len(merged) > 1:
        merged.sort(key=attrgetter("serial"))
        result = interned(UNION, *merged)
    else:
        result = merged[0] if merged else NEVER
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
    merged: list[Expr] = []
    changed = False
    bases: set[Expr] = set()
    for (body, tail), counts in groups.items():
        if len(counts) == 1 and not counts[0][0] <= 1 < counts[0][1]:  # nothing to merge it with
            merged.append(counts[0][2])
            continue
        based = (empty if tail is EPSILON else tail in members or _has_member(tail, members)) and any(
            c[1] > 1 for c in counts
        )
        if len(counts) == 1 and not based:
            merged.append(counts[0][2])
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
                merged.append(_prepend(repeat(body, least, None if most == INFINITE else most), tail))
    if not changed:
        return _absorb(_widest(merged) if len(merged) > 2 else merged)
    merged = [expr for expr in dict.fromkeys(merged) if expr not in bases]
    flat = [member for expr in merged for member in (expr.args if expr.kind == UNION else (expr,))]
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
        if _are_apart(*((first, second) if first.kind <= second.kind else (second, first))):
            both = _meet_length(first, second)
            if both is None:
                both = interned(INTERSECT, *(exprs if first.serial < second.serial else (second, first)))
            return both if both.short <= both.long else NEVER
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


def _are_apart(left: Expr, right: Expr) -> bool:
    """Return whether neither of two says anything about the other, but perhaps a bound on its length, as of two
    patterns and of one and what it leaves out; charged as `_meet`.  The kind of the first is no later one.
    """
    if left.kind == CONCAT and right.kind == REPEAT:
        return True
    apart = left.kind == right.kind == CONCAT
    if left.kind == CONCAT and right.kind == COMPLEMENT:
        apart = right.args[0].kind in _SINGLE and right.args[0] is not left
    elif left.kind == REPEAT and right.kind == REPEAT:
        apart = single(left.args[0]) is None or single(right.args[0]) is None
    elif left.kind == REPEAT and right.kind == UNION:
        apart = not right.looks and left not in right.args
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
    kinds = [e.kind for e in members]  # most are neither, and generators were a third of an intersection
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
    conjuncts = list(members)
    if outside is not NEVER:
        conjuncts.append(complement(outside))
    conjuncts.sort(key=_serial)
    if len(conjuncts) < 2:
        return conjuncts[0] if conjuncts else ANY_TEXT
    both = interned(INTERSECT, *conjuncts)
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


def _characters(expr: Expr) -> charset.Ranges:
    """Return the characters that are texts of an expression.

    Of a complement without its edges: what they lead to may ask for the same again.
    """
    if expr.kind == COMPLEMENT:
        return charset.negate(_characters(expr.args[0]))
    return charset.normal((low, high) for low, high, target in RULES["raw edges"](expr) if target.accepts)


def _filter(small: Expr, others: list[Expr]) -> Expr:
    """Keep those texts of a small language that all the others hold."""
    if small.kind == NEVER_KIND:
        return NEVER
    if small.kind == CLASS:
        ranges = small.args[0]
        for other in others:
            ranges = charset.intersect(ranges, _characters(other))
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
    ends = _fixed_ends(right)
    if ends is None:
        return None
    before, middle, after, fixed = ends
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
        classes = [held for part in expr.args if (held := _held(part)) is not None]
        if classes:
            return intersect(
                repeat(of_ranges(charset.negate(charset.union(*classes)))),
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


@cached(10_000, 300)  # asked four times of a state
def counted(expr: Expr) -> tuple[Expr, Expr]:
    """Return ANY{m,n} and the rest, of an intersection with such a member; of another expression ANY* and itself."""
    part = None
    if expr.kind == INTERSECT and (len(expr.args) == 2 or not expr.looks):
        part = next((part for part in expr.args if part.kind == REPEAT and part.args[0] is ANY), None)
    if part is None:
        return ANY_TEXT, expr
    others = [other for other in expr.args if other is not part]
    return part, others[0] if len(others) == 1 else interned(INTERSECT, *others)


def joined(edges: Sequence[tuple[int, int, Target]]) -> tuple[tuple[int, int, Target], ...]:
    """Merge neighbouring ranges with one target."""
    edges_joined: list[tuple[int, int, Target]] = []
    for edge in edges:
        if edges_joined:
            low, high, target = edges_joined[-1]
            if target is edge[2] and high + 1 == edge[0]:
                edges_joined[-1] = low, edge[1], target
                continue
        edges_joined.append(edge)
    return tuple(edges_joined)
