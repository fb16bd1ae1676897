"""Questions about a language: is it empty, is it finite, what is in it; and the edges that lead to something.

Exact: an intersection or complement is explored until an accepting expression turns up or all its derivatives are seen.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter, is_
from typing import TypeAlias

from constrained.caches import cached
from constrained.errors import LimitExceeded
from constrained.regex.algebra import counted, intersect, joined, repeat, union
from constrained.regex.charset import ALL_WITNESSES, contains, witnesses_in_text
from constrained.regex.derive import raw_edges
from constrained.regex.expr import (
    ANY_TEXT,
    CLASS,
    COMPLEMENT,
    CONCAT,
    INFINITE,
    INTERSECT,
    LAZY,
    LITERAL,
    NEVER,
    OPEN,
    REPEAT,
    SET,
    STEP,
    UNION,
    UNIVERSAL,
    Expr,
    RawEdges,
    matches,
    parts,
    single,
)
from constrained.regex.facts import asks_beyond, universal_over, universal_up_to
from constrained.regex.show import short_text
from constrained.work import current, metered, place, spend

_LONGEST_WALK = 200  # states
_GUESSED = 100  # characters of a text that is guessed
_PATIENT = 4  # one step of a search in so many goes on from what is nearest to the start
_STATE = 5  # units for a state that a search meets, beside those for its edges
_Place: TypeAlias = tuple[Expr, int]  # where a search is, and how many characters it has read
MADE = "pattern <"  # how a place begins that is an expression, not a pattern as somebody wrote it
_SEVERAL = 3  # conditions on a text before they are looked at together
_MANY = 8  # characters of a shortest text before it is guessed, of a minimal length before a loop is looked for


def live_edges(expr: Expr) -> RawEdges:
    """Return the edges without empty targets, surrogates still glued."""
    edges = raw_edges(expr)
    if expr.plain:
        return edges
    live: dict[Expr, Expr] = {}
    for _, _, target in edges:  # most targets are live, and many the same
        if target not in live:
            live[target] = target if target._live and target.kind != UNION else pruned(target)
    if all(map(is_, live, live.values())):
        return edges
    return joined([(low, high, live[target]) for low, high, target in edges if live[target] is not NEVER])


def public_edges(expr: Expr) -> RawEdges:
    """Return the edges without empty targets and without surrogates.

    Raises: LimitExceeded, naming the expression.
    """
    try:
        edges = raw_edges(expr) if expr.plain else live_edges(expr)
    except RecursionError:
        raise LimitExceeded(
            "a regular expression nests too deep",
            where=place() or f"pattern {expr!r}",
            instead="fewer groups inside each other",
        ) from None
    except LimitExceeded as error:
        raise _placed(error, expr) from None
    if not edges or edges[-1][1] < 0xDFFF:
        return edges
    for low, high, _ in edges:
        if low <= 0xDFFF <= high:
            return _without_surrogates(edges)
    return edges


def _without_surrogates(edges: RawEdges) -> RawEdges:
    clipped: list[tuple[int, int, Expr]] = []
    for low, high, target in edges:
        if low <= 0xDFFF <= high:
            clipped.append((low, 0xD7FF, target))
            if high > 0xDFFF:
                clipped.append((0xE000, high, target))
        else:
            clipped.append((low, high, target))
    return tuple(clipped)


def _placed(error: LimitExceeded, expr: Expr) -> LimitExceeded:
    """Return an error that says what was being read if it names no place.

    Of a constraint, the place is what its author wrote (`Budget.whole`): the expression is only what was left of that.
    """
    budget = current()
    if error.where is not None or "what is left to read" in str(error.because):
        return error
    if budget is None or budget.whole is None:
        return LimitExceeded(error.what, where=f"pattern {expr!r}", because=error.because, instead=error.instead)
    because = f"{error.because}; what is left to read is {short_text(expr, 60)}"
    return LimitExceeded(error.what, where=budget.whole, because=because, instead=error.instead)


def pruned(expr: Expr) -> Expr:
    """Return the expression without empty parts; NEVER if it is empty."""
    if expr.plain:
        return expr
    if expr.kind == UNION:
        live = [pruned(member) for member in expr.args]
        return expr if all(map(is_, live, expr.args)) else union(*live)
    return NEVER if is_empty(expr) else expr


def is_empty(expr: Expr) -> bool:
    """Return whether the language holds no text, exactly.

    Best first by a guess of the length, as A* has it; every expression on the way to an accepting one is remembered as
    live, every expression of a fruitless search as dead.

    Raises: LimitExceeded: the thread's budget is spent, or, without one, a budget of its own.

    >>> from constrained.regex import intersect, parse_python
    >>> is_empty(intersect(parse_python("(ab)*"), parse_python("(aba)+a|b.*")))
    True
    """
    if expr._live is not None:
        return not expr._live
    if expr.kind == CONCAT:
        empty = is_empty(expr.args[0]) or is_empty(expr.args[1])
        expr._live = not empty
        return empty
    bound, rest = counted(expr)
    _, least, most = bound.args
    meet = expr.kind == INTERSECT
    held = _length_within(rest, least, most) is not None
    if held or (meet and (universal_over(expr) is not None or (universal_up_to(expr) or 0) > 0)):
        expr._live = True
        return False
    if _is_barren(rest, least, most) or (meet and (_lacks(expr) or _is_too_short(expr, expr.long))):
        expr._live = False
        return True
    endless = _without_least(expr)
    if endless is not None and (is_empty(endless) or _has_loop(endless)):
        expr._live = endless._live
        return not expr._live
    try:
        with metered():
            live = ((len(expr.args) >= _SEVERAL or expr.short > _MANY) and _guessed(expr)) or _search(expr)
    except LimitExceeded as error:
        raise _placed(error, expr) from None
    expr._live = live
    return not live


def _lacks(expr: Expr) -> bool:
    """Return True if a member asks for a character of `charset.WITNESSES` that another has in no text, or for one
    outside a class that another repeats.
    """
    asked, used, over = 0, ALL_WITNESSES, None
    for member in expr.args:
        asked |= _asked(member)
        used &= member._uses
        if member.kind == REPEAT and single(member.args[0]) is not None:
            over = member.args[0]
    return asked & ~used != 0 or over is not None and True in [asks_beyond(member, over) for member in expr.args]


@cached(4096)
def _asked(expr: Expr) -> int:
    """Return which of the witnesses stand in every text because a factor of the expression is one, as bits."""
    bits = 0
    factors = parts(expr)
    spend(1 + (len(factors) >> 3))
    for factor in factors:
        if factor.kind == LITERAL:
            bits |= witnesses_in_text(factor.args[0])
    return bits


def _guessed(expr: Expr) -> bool:
    """Return True if a text of an intersection is found by putting together what its members ask for: the shortest
    texts of those that leave the end open, and of one that does not, or what goes beyond the others' length of it.
    False says nothing.

    Strings with conditions (`runs.quoted_run`) ask in every state; a search takes 20 ms there.
    """
    if expr.kind != INTERSECT:
        return False
    first, held, ends, doubtful = "", [], [("", expr)], []
    for member in expr.args:
        somewhere = next(filter(_is_held, member.args if member.kind == UNION else (member,)), None)
        text = "" if member.kind == COMPLEMENT else shortest_text(somewhere or member)
        if text is None:
            return False
        if somewhere is not None and text:
            held.append(text)
            continue
        doubtful.append(member)
        if parts(member)[-1] is ANY_TEXT:
            first += text
        elif text:
            ends.append((text, member))
    asked = first + _all_of(frozenset(held))
    spend(len(expr.args) * 8 + len(doubtful) * len(asked) * len(ends))
    return any(
        all(_takes(member, asked + end[skipped:]) for member in doubtful if asked or member is not whose)
        for end, whose in ends
        for skipped in {0, len(asked)}
    )


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
        return str(min(expr.args[0].members(), key=len))
    if expr.kind == REPEAT:
        body = shortest_text(expr.args[0])
        return None if body is None else body * int(expr.args[1])
    texts = [shortest_text(part) for part in (parts(expr) if expr.kind == CONCAT else expr.args)]
    if expr.kind == UNION:
        return min((text for text in texts if text is not None), key=len, default=None)
    if expr.kind == INTERSECT:
        return next((text for text in texts if text and all(matches(member, text) for member in expr.args)), None)
    return None if None in texts else "".join(text for text in texts if text is not None)


def _takes(expr: Expr, text: str) -> bool:
    body = single(expr.args[0]) if expr.kind == REPEAT else None
    if body is None:
        return matches(expr, text)
    return expr.args[1] <= len(text) <= expr.args[2] and all(contains(body, ord(char)) for char in text)


@cached(1000)
def _all_of(texts: frozenset[str]) -> str:
    """Return a short text that holds all of some: the two that share most are joined, again and again.

    Source: greedy superstrings, at most 4 times as long as the shortest (Blum et al., JACM 1994).
    """
    pieces = sorted(text for text in texts if not any(text in other for other in texts if other != text))
    while len(pieces) > 1:
        spend(len(pieces) ** 2)
        shared, left, right = max((_shared(one, two), one, two) for one in pieces for two in pieces if one is not two)
        pieces = [text for text in pieces if text not in (left, right)] + [left + right[shared:]]
    return pieces[0] if pieces else ""


@cached(4096)
def _least_of_all(texts: frozenset[str]) -> int:
    """Return how many characters at least a text has that holds all of some: what each adds at least to the next."""
    pieces = [text for text in texts if not any(text in other for other in texts if other != text)]
    spend(1 + len(pieces) ** 2)
    shared = [max([0, *(_shared(one, two) for two in pieces if two != one)]) for one in pieces]
    return sum(map(len, pieces)) - sum(shared)


def _is_too_short(expr: Expr, long: int) -> bool:
    """Return True if no text of an intersection of at most so many characters holds the texts that its members hold.

    Fifteen texts to be held within 60 characters are a shortest common superstring, which a search tries all of.
    """
    if expr.kind != INTERSECT or long == INFINITE or len(expr.args) < _SEVERAL:
        return False
    spend(len(expr.args) >> 2)
    held = frozenset(filter(None, map(_held_text, expr.args)))
    return len(held) >= _SEVERAL and _least_of_all(held) > long


@cached(4096)
def _held_text(expr: Expr) -> str | None:
    """Return the text that all texts have in them, and nothing else is asked of; None for any other expression."""
    factors = parts(expr)
    return factors[1].args[0] if len(factors) == 3 and factors[1].kind == LITERAL and _is_held(expr) else None


def _shared(left: str, right: str) -> int:
    """Return how many characters of the end of one text another begins with."""
    return next(n for n in range(min(len(left), len(right)), -1, -1) if left.endswith(right[:n]))


def _is_held(expr: Expr) -> bool:
    """Return whether any text is taken that holds one of some texts."""
    factors = parts(expr)
    return len(factors) > 1 and factors[0] is ANY_TEXT and factors[-1] is ANY_TEXT


def _without_least(expr: Expr) -> Expr | None:
    """Return an intersection with a class repeated m times or more as if m were 0; None if there is none with a large
    m.
    """
    if expr.kind == INTERSECT:
        for member in expr.args:
            if (
                member.kind == REPEAT
                and member.args[1] > _MANY
                and member.args[2] == INFINITE
                and single(member.args[0]) is not None
            ):
                return intersect(repeat(member.args[0]), *(other for other in expr.args if other is not member))
    return None


@cached(4096)
def _has_loop(expr: Expr) -> bool:
    """Return True if a walk finds texts as long as one likes: a live state comes again.  False says nothing.

    Along states that are known to be live where a search has found some: 48 searches were 5.
    """
    seen: set[Expr] = set()
    while expr not in seen:
        if expr.plain and expr.long == INFINITE:
            return True
        seen.add(expr)
        targets = [target for _, _, target in raw_edges(expr)]
        known = next(filter(attrgetter("_live"), targets), None)
        target = known or next((target for target in targets if not is_empty(target)), None)
        if target is None or len(seen) > _LONGEST_WALK:
            return False
        expr = target
    return True


def _length_within(expr: Expr, least: int, most: int) -> int | None:
    """Return the least length of a text between two that a search has found; all are kept, as a bound on the length
    asks for another one behind each character.
    """
    lengths = expr.lengths or ()
    known = lengths[at] if (at := bisect_left(lengths, least)) < len(lengths) else INFINITE
    return known if known <= most and known < INFINITE else None


def _is_barren(expr: Expr, least: int, most: int) -> bool:
    return expr.barren is not None and expr.barren[0] <= least and most <= expr.barren[1]


def _search(start: Expr) -> bool:
    """Return whether an accepting expression can be reached.

    Three of four steps follow the newest state of those that seem nearest to the end, the others what is nearest to the
    start: a text of 100 characters was found after 3,300 states, then after 120.  What meets ANY{m,n} is searched along
    the rest, with how many characters were read; of m and more the fewest count.
    """
    bound, rest = counted(start)
    _, least, most = bound.args
    parents: dict[_Place, _Place | None] = {(rest, 0): None}
    fewest = {} if least else {rest: 0}
    near: list[tuple[int, int, int, Expr]] = [(0, 0, 0, rest)]
    far: list[tuple[int, int, int, Expr]] = []
    for turn in count():
        heap = far if far and (not near or turn % _PATIENT == 0) else near
        if not heap:
            break
        *_, read, expr = heappop(heap)
        now = read + 1
        at_least, at_most = max(0, least - now), most - now if most < INFINITE else INFINITE
        edges = raw_edges(expr)
        spend(len(edges) >> 1)
        for _, _, target in edges:
            before = fewest.get(target, INFINITE) if now >= least else now if (target, now) in parents else INFINITE
            if before <= now or before < most == INFINITE or target._live is False or target.short > at_most:
                continue
            barren = bound is not ANY_TEXT and _is_barren(target, at_least, at_most)
            if barren or _is_too_short(target, min(target.long, at_most)):
                continue
            parents[target, now] = expr, read
            if now >= least:
                fewest[target] = now
            spend(_STATE)
            known = 0 if target.accepts and not at_least else _length_within(target, at_least, at_most)
            if known is not None or (target._live and bound is ANY_TEXT):
                _found((target, now), known, parents)
                return True
            # of a conjunction, what all its members ask for, so that each step forward counts
            hint = sum([part.short for part in target.args]) if target.kind == INTERSECT else target.short
            heappush(near, (hint + at_least, -target.serial, now, target))
            heappush(far, (now + hint + at_least, target.serial, now, target))
    _note_fruitless(parents, bound)
    return False


def _note_fruitless(places: Iterable[_Place], bound: Expr) -> None:
    """Note that no text goes on from where a search has been."""
    _, least, most = bound.args
    for expr, read in places:
        at_least = max(0, least - read)
        window = 0 if at_least <= expr.short else at_least, most - read if most < INFINITE else INFINITE
        if bound is ANY_TEXT:
            expr._live = False
        elif not _is_barren(expr, *window):
            expr.barren = window


def _found(live: _Place, known: int | None, parents: dict[_Place, _Place | None]) -> None:
    """Note the states on the way to a live one as such, and how long a text of each is, for other bounds."""
    at: _Place | None = live
    while at is not None:
        expr = at[0]
        expr._live = True
        if known is not None:
            lengths = expr.lengths = expr.lengths or []
            place = bisect_left(lengths, known)
            if known not in lengths[place : place + 1]:
                lengths.insert(place, known)
            known += 1
        at = parents[at]


def is_finite(expr: Expr) -> bool:
    """Return whether the language holds finitely many texts.

    >>> from constrained.regex import ANY_TEXT, complement, concat, intersect, literal, repeat
    >>> is_finite(intersect(repeat(literal("a")), complement(concat(repeat(literal("a"), 9), ANY_TEXT))))
    True
    """
    if expr.long < INFINITE:
        return True
    if expr.plain or expr._room & (OPEN | UNIVERSAL):  # any text goes on to one, or some text goes on by any
        return False
    done: set[Expr] = set()
    trail: dict[Expr, None] = {expr: None}
    stack = [(expr, iter(public_edges(expr)))]
    while stack:
        top, rest = stack[-1]
        target = next((t for _, _, t in rest if t not in done), None)
        if target is None:
            stack.pop()
            del trail[top]
            done.add(top)
        elif target in trail or (target.plain and target.long == INFINITE):
            return False
        else:
            spend(_STATE)
            trail[target] = None
            stack.append((target, iter(target.edges())))
    return True


def example(expr: Expr) -> str | None:
    """Return a shortest text of the language, of printable ASCII where it can be; None if there is none.

    >>> from constrained.regex import concat, literal, repeat
    >>> example(concat(repeat(literal("ab"), 2), literal("!")))
    'abab!'
    """
    if is_empty(expr):
        return None
    seen = {expr}
    heap = [(expr.short, 0, 0, "", expr)]
    order = 0
    while heap:
        _, _, _, text, language = heappop(heap)
        if language.accepts:
            return text
        for low, high, target in language.edges():
            if target not in seen:
                spend(_STATE)
                seen.add(target)
                order += 1
                text_now = text + _readable(low, high)
                heappush(heap, (len(text_now) + target.short, -len(text_now), order, text_now, target))
    raise AssertionError("a live expression leads to acceptance")


def _readable(low: int, high: int) -> str:
    for first, last in ((0x61, 0x7A), (0x30, 0x39), (0x41, 0x5A), (0x20, 0x7E)):
        if low <= last and first <= high:
            return chr(max(low, first))
    return chr(low)
