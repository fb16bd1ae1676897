"""Regular expressions as hash-consed values that are also the states of their own automaton.

An `Expr` denotes a set of texts.  Its derivative by a character is again an `Expr`, the set of what may follow; so an
expression is a lazily built deterministic automaton, closed under intersection and complement (`derive` computes the
edges, `algebra` builds and simplifies the expressions).  Equal expressions are one object, which makes loops of the
automaton close.

Refused: position automata and subset construction.  They are quicker for plain expressions, but have no complement, and
a bounded repeat ``{1,256}`` costs them 256 states before the first character; here it is one expression with two
counters.

Source: J. Brzozowski, Derivatives of Regular Expressions (1964); S. Owens, J. Reppy, A. Turon, Regular-expression
derivatives re-examined (2009).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable
from itertools import count
from operator import attrgetter
from typing import Any

from constrained.caches import charge, forgets, register_incremental_free
from constrained.errors import LimitExceeded
from constrained.interning import Table
from constrained.machine import LiteralSet, Outline
from constrained.regex.charset import ALL_WITNESSES, EVERYTHING, Ranges, witnesses_in, witnesses_in_text, witnesses_of
from constrained.work import place, spend

# Kinds of expression, and what `Expr.args` holds for each.
NEVER_KIND, EPSILON_KIND = 0, 1  # ()
CLASS = 2  # (ranges,): one character; at least two members
LITERAL = 3  # (text,): 1 to LITERAL_CHUNK characters
SET = 4  # (machine.LiteralSet,)
CONCAT = 5  # (head, tail): head is no CONCAT
REPEAT = 6  # (body, least, most): most may be INFINITE
UNION = 7  # (member, …): sorted by serial
INTERSECT = 8  # (member, …): sorted by serial; at most one COMPLEMENT
COMPLEMENT = 9  # (expr,)
STEP = 10  # (look.Step,): a continuation that looks at its left context
LAZY = 11  # (state,): edges that are written down only when somebody asks; see `algebra.lazy`

# Bits of `Expr._room`, what is certain about how many texts lead into a language.  Open: it holds u·ANY* for some u.
# Universal: see `Expr`.  Ample: every text goes on to such a u.  So a universal language meets ample ones in a
# universal one: any text goes on into the first ample one for good, then into the next, and at last into the other.
OPEN, UNIVERSAL, AMPLE = 1, 2, 4
_BEYOND = 0x110000  # beyond all code points
_EVERY_ROOM = OPEN | UNIVERSAL | AMPLE

INFINITE = 1 << 60
LITERAL_CHUNK = 64
# expressions inside each other, a chain of factors not counted: what recursion over an expression may cost
DEPTH_LIMIT = 200

RawEdges = tuple[tuple[int, int, "Expr"], ...]
# plain, accepts, short, long, uses, room, depth, as `Expr` has them; uses: which of a few characters may occur in
# texts, as bits, a superset (one that cannot shows that the complement is ample: any text goes on into it for good by
# that character); depth: how deep recursion over an expression goes
Facts = tuple[bool, bool, int, int, int, int, int]

# What an expression does is spread over modules that build on this one; the package enters their functions here when it
# is imported.
# An import inside a method costs 1 µs a call, as much as half of an edge.
RULES: dict[str, Callable[..., Any]] = {}


class Expr:
    """A regular language over code points, and a state of its automaton (`machine.Language`).

    Build with the functions of `algebra`; the constructor is for them.  Compared and hashed by identity.

    `looks`: a STEP is inside.
    `universal`: prefix-universal, every text can be continued to a text of the language, so that no character is ever
    forbidden; only where a text may end is left to ask.  Sufficient, read off the structure: unanchored patterns
    (``.*P.*``), complements of patterns that do without some character, their derivatives and conjunctions have it.
    Invariants: short <= len(t) <= long for every text t of the language; with `plain` (no INTERSECT, COMPLEMENT or STEP
    inside) the language is empty only for NEVER and, but for LAZY parts, both bounds are attained.
    """

    __slots__ = (
        "__weakref__", "_depth", "_key", "_live", "_public", "_raw", "_room", "_uses", "accepts", "args", "barren",
        "edges_stay", "universal", "kind", "lengths", "long", "looks", "plain", "reach", "serial", "shape", "short",
    )  # fmt: skip

    def __init__(self, kind: int, args: tuple[Any, ...], serial: int) -> None:
        self.kind, self.args, self.serial = kind, args, serial
        # One function per kind; one per fact, which each tell kinds apart, take 1 µs more
        facts = _FACTS[kind](args)
        self.plain, self.accepts, self.short, self.long, self._uses, self._room, self._depth = facts
        if self._depth > DEPTH_LIMIT:
            raise _too_deep()
        self._raw: RawEdges | None = None  # edges before liveness, surrogates glued
        self._public: RawEdges | None = None
        self.edges_stay = False  # its own, where caches are emptied; for as long as somebody holds it
        self.universal: bool = self._room & UNIVERSAL != 0
        self._live: bool | None = kind != NEVER_KIND
        self.looks = False
        if not self.plain:
            self.looks = kind == STEP or True in [part.looks for part in (args[:1] if kind == REPEAT else args)]
            self._live = self.accepts or self.universal or _certainly_live(kind, args) or None
        self._key: tuple[int, Hashable] | None = None
        # see `algebra._shape`; () where there are no counts
        self.shape: tuple[tuple[Expr, ...], list[int]] | None = None
        self.reach: int | None = None  # see `saturate.reach`
        # what searches have found, see `liveness`: lengths of some texts, sorted; (m, n): none has m to n characters
        self.lengths: list[int] | None = None
        self.barren: tuple[int, int] | None = None

    def edges(self) -> RawEdges:
        """Return (low, high, next): disjoint ranges of code points, sorted; what follows is never empty.

        Cost: computed once per expression, 5-15 µs for typical expressions, then an attribute.

        >>> from constrained.regex import parse_python
        >>> [(chr(low), chr(high), target) for low, high, target in parse_python("[a-c]{2,9}|x").edges()]
        [('a', 'c', <[a-c]{1,8}>), ('x', 'x', <>)]
        """
        edges = self._public
        if edges is None:
            self._public = edges = RULES["edges"](self)
            charge(_EDGE * len(edges))
        return edges

    def outline(self) -> Outline | None:
        """Return the edges of a state that shares their ranges with others; None for every other expression."""
        ask = getattr(self.args[0], "outline", None) if self.kind == LAZY else None
        return None if ask is None else ask()

    @property
    def universal_over(self) -> Expr | None:
        """A class C where every text over C, and no other, is the start of a text of the language; None where that is
        not seen.
        """
        return RULES["universal_over"](self)  # type: ignore[no-any-return]

    def mask_key(self, horizon: int) -> Hashable:
        """Return a key shared by expressions that agree on all continuations of up to `horizon` characters."""
        if self._key is None or self._key[0] != horizon:
            self._key = (horizon, RULES["saturated"](self, horizon))
        return self._key[1]

    @property
    def literal_set(self) -> LiteralSet | None:
        """The finite set behind this expression, for kernels that run it natively; None for every other expression."""
        return self.args[0] if self.kind == SET else None

    @property
    def counted(self) -> tuple[Expr, int, int | None] | None:
        """(C, m, n) if this is exactly C{m,n} for one class C of characters (n None: unbounded), else None."""
        if self.kind == REPEAT and single(self.args[0]) is not None:
            body, least, most = self.args
            return body, least, None if most == INFINITE else most
        return (self, 1, 1) if single(self) is not None else None

    def __repr__(self) -> str:
        return f"<{RULES['short text'](self)}>"

    def __reduce__(self) -> tuple[object, ...]:
        if self.kind == CONCAT:
            return _restore_concat, (tuple(parts(self)),)
        if self.kind in (UNION, INTERSECT):
            return _restore_sorted, (self.kind, self.args)
        return interned, (self.kind, *self.args)


def single(expr: Expr) -> Ranges | None:
    """Return the class of an expression that is one character, else None."""
    if expr.kind == CLASS:
        ranges: Ranges = expr.args[0]
        return ranges
    if expr.kind == LITERAL and len(expr.args[0]) == 1:
        point = ord(expr.args[0])
        return ((point, 0xDFFF if point == 0xD7FF else point),)
    return None


def parts(expr: Expr) -> list[Expr]:
    """Return the factors of a concatenation, left to right; of another expression, itself."""
    factors = []
    while expr.kind == CONCAT:
        factors.append(expr.args[0])
        expr = expr.args[1]
    factors.append(expr)
    return factors


_expressions = Table["Expr"]()
# bytes, estimated: of an expression with its place in the table, of one of its edges in both lists
_EXPRESSION, _EDGE = 800, 160
_serials = count()  # atomic: two threads never draw the same number


def interned(kind: int, *args: Any) -> Expr:
    """Return the one expression with these arguments, which are in normal form already.

    Raises: LimitExceeded: more than DEPTH_LIMIT expressions inside each other.
    """
    key: tuple[Any, ...] = (kind,) + args  # noqa: RUF005 - unpacking makes a list on the way
    expr = _expressions.recent.get(key)
    if expr is None:
        expr = _expressions.older(key) if _expressions.has_older else None
        if expr is None:
            spend(5 + len(args) if kind != CLASS else 5 + (len(args[0]) >> 2))
            expr = Expr(kind, args, next(_serials))
        charge(_EXPRESSION)
        expr = _expressions.recent.setdefault(key, expr)
    return expr


def keep(*expressions: Expr) -> None:
    """Never forget some expressions and their automata: few and small ones, which no input changes."""
    kept, work = dict.fromkeys(expressions), [*expressions]
    while work:
        fresh = [target for _, _, target in work.pop().edges() if target not in kept]
        kept.update(dict.fromkeys(fresh))
        work += fresh
    _expressions.keep_too({(expr.kind, *expr.args): expr for expr in kept})


def _restore_sorted(kind: int, members: tuple[Expr, ...]) -> Expr:
    return interned(kind, *sorted(members, key=attrgetter("serial")))  # which are those of this process


def _restore_concat(factors: tuple[Expr, ...]) -> Expr:
    whole = factors[-1]
    for factor in reversed(factors[:-1]):
        whole = interned(CONCAT, factor, whole)
    return whole


def _of_literal(args: tuple[Any, ...]) -> Facts:
    size = len(args[0])
    return True, False, size, size, witnesses_in_text(args[0]), 0, 0


def _of_set(args: tuple[Any, ...]) -> Facts:
    texts = args[0]
    spend((texts.high - texts.low) >> 2)
    sizes = list(map(len, texts.texts[texts.low : texts.high]))
    if texts.excluded:
        sizes = [size for at, size in enumerate(sizes, texts.low) if not texts.excluded >> at & 1]
    return True, texts.accepts, min(sizes) - texts.depth, max(sizes) - texts.depth, witnesses_of(texts.texts), 0, 0


def _of_concat(args: tuple[Any, ...]) -> Facts:
    """A chain of factors is one level deep: whoever follows it does so in a loop."""
    head, tail = args
    room = 0
    if head._room | tail._room:
        if tail.universal and (head.accepts or _is_any(head.args[0] if head.kind == REPEAT else head)):
            room = tail._room
        else:
            room = tail._room & OPEN if head._live else 0
            if head.universal and tail._live:
                room |= UNIVERSAL | AMPLE if room else UNIVERSAL
    inside, behind, long = head._depth + 1, tail._depth + (tail.kind != CONCAT), head.long + tail.long
    return (
        head.plain and tail.plain, head.accepts and tail.accepts, head.short + tail.short,
        long if long < INFINITE else INFINITE, head._uses | tail._uses, room, inside if inside > behind else behind,
    )  # fmt: skip


def _of_repeat(args: tuple[Any, ...]) -> Facts:
    body, least, most = args
    room = body._room
    if _is_any(body):
        room = _EVERY_ROOM if most == INFINITE else 0
    long = body.long * most if body.long else 0
    accepts = least == 0 or body.accepts
    return (
        body.plain, accepts, body.short * least, long if long < INFINITE else INFINITE, body._uses, room,
        body._depth + 1,
    )  # fmt: skip


def _of_union(args: tuple[Any, ...]) -> Facts:
    """In one loop, as most unions are small, and each comprehension is a call until Python 3.12."""
    plain, accepts, short, long, uses, room, depth = True, False, args[0].short, 0, 0, 0, 0
    for member in args:
        plain, accepts = plain and member.plain, accepts or member.accepts
        short = member.short if member.short < short else short
        long = member.long if member.long > long else long
        depth = member._depth if member._depth > depth else depth
        uses |= member._uses
        room |= member._room
    return plain, accepts, short, long, uses, room, depth + 1


def _of_intersection(args: tuple[Any, ...]) -> Facts:
    """As `_of_union`."""
    accepts, short, long, uses, depth, narrow, room = True, 0, INFINITE, ALL_WITNESSES, 0, 0, 0
    for member in args:
        accepts = accepts and member.accepts
        short = member.short if member.short > short else short
        long = member.long if member.long < long else long
        depth = member._depth if member._depth > depth else depth
        uses &= member._uses
        if not member._room & AMPLE:
            narrow, room = narrow + 1, UNIVERSAL if member.universal else 0
    return False, accepts, short, long, uses, _EVERY_ROOM if not narrow else room if narrow == 1 else 0, depth + 1


def _of_complement(args: tuple[Any, ...]) -> Facts:
    accepts, room = not args[0].accepts, _EVERY_ROOM if _leaves_out(args[0]) else 0
    return False, accepts, 0 if accepts else 1, INFINITE, ALL_WITNESSES, room, args[0]._depth + 1


def _of_lazy(args: tuple[Any, ...]) -> Facts:
    state = args[0]
    uses = 0 if getattr(state, "uses_no_witness", False) else ALL_WITNESSES
    return True, state.accepts, state.short, state.long, uses, 0, 1


_FACTS: tuple[Callable[[tuple[Any, ...]], Facts], ...] = (
    lambda args: (True, False, 0, 0, 0, 0, 0),  # nothing
    lambda args: (True, True, 0, 0, 0, 0, 0),  # the empty text
    lambda args: (True, False, 1, 1, witnesses_in(args[0]), 0, 0),  # a class
    _of_literal, _of_set, _of_concat, _of_repeat, _of_union, _of_intersection, _of_complement,
    lambda args: (False, False, 1, INFINITE, ALL_WITNESSES, 0, args[0].depth),  # a step
    _of_lazy,
)  # fmt: skip


def _too_deep() -> LimitExceeded:
    return LimitExceeded(
        f"a regular expression holds more than {DEPTH_LIMIT} others inside each other",
        where=place(),
        instead="fewer groups inside each other",
    )


def _certainly_live(kind: int, args: tuple[Any, ...]) -> bool:
    if kind == UNION:
        return True in [member._live for member in args]
    return bool(kind == CONCAT and args[0]._live and args[1]._live)


def _leaves_out(expr: Expr) -> bool:
    """Return True if some character, or any that comes late, is in no text of an expression, so that its complement is
    ample; False says nothing.
    """
    if expr.long < INFINITE or expr._uses != ALL_WITNESSES:
        return True
    if expr.kind == INTERSECT:
        return True in [_leaves_out(member) for member in expr.args]
    return expr.kind == REPEAT and expr.args[0].kind == CLASS and not _is_any(expr.args[0])


def _is_any(expr: Expr) -> bool:
    return expr.kind == CLASS and expr.args[0] == EVERYTHING


NEVER = interned(NEVER_KIND)
EPSILON = interned(EPSILON_KIND)
ANY = interned(CLASS, EVERYTHING)
ANY_TEXT = interned(REPEAT, ANY, 0, INFINITE)
_expressions.keep()


@forgets
def _forget() -> None:
    """Let go of what nobody asked for since the last time.  What lives on because it is the key of a mask or a machine
    is still found, but gives up its automaton.
    """
    _expressions.forget(_strip)


@register_incremental_free
def _let_go(count: int) -> bool:
    return _expressions.let_go(count)


def _strip(expr: Expr) -> None:
    if not expr.edges_stay:
        expr._raw = expr._public = None


def step(expr: Expr, point: int) -> Expr:
    """Return what may follow a character; `point` is no surrogate."""
    edges = expr._raw or RULES["raw edges"](expr)
    at = bisect_right(edges, (point, _BEYOND)) - 1
    return edges[at][2] if at >= 0 and point <= edges[at][1] else NEVER


def matches(expr: Expr, text: str) -> bool:
    """Return whether a text is in the language."""
    for char in text:
        point = ord(char)
        if 0xD800 <= point <= 0xDFFF:
            return False
        expr = step(expr, point)
        if expr is NEVER:
            return False
    return expr.accepts
