r"""Which texts of a pattern `re.match` prefers over their own beginnings.

``re.match("list|listen", "listen")`` stops at "list", and ``a+?`` at the first "a": a backtracking matcher tries its
choices in order and takes the first that succeeds.  A text is *preferred* when matching it yields all of it.  Lark's
dynamic lexer, which matches and then cuts off the end again and again, finds exactly the preferred texts: if some text
t is matched inside a longer one, then the choices that led to t come first among those that t allows; and cutting a
longer match down to t finds t if those choices win there.

The matcher is made declarative by guards.  Where it chooses between a first and a second way, a negative look-ahead
forbids the second one wherever the first one, with all that follows in the pattern, could succeed:

    (A|B)C   →  (A|(?!AC)B)C           A*C  →  A*(?!AA*C)C           A*?C  →  ((?!C)A)*C

Patterns with look-ahead are regular, so the result is an expression.  Guards that cannot forbid anything are left out:
of most patterns all are, and nothing changes.

Tested against `re.match` on generated patterns and texts (`tests/test_lark.py`).  Source: ours; the order of choices is
that of Perl, as in R. Cox, Regular Expression Matching: the Virtual Machine Approach (2009).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from constrained.caches import cached
from constrained.errors import GrammarError, LimitExceeded
from constrained.regex import ANY, ANY_TEXT, Expr, complement, concat, intersect, is_empty, parse_python, repeat
from constrained.regex.derive import raw_edges
from constrained.regex.syntax.assertion_tree import EMPTY, Ahead, Behind, Loop, Node, Piece, Seq, alt, loop, seq
from constrained.regex.syntax.assertion_tree import Alt as Options
from constrained.regex.syntax.assertions import build
from constrained.regex.syntax.python import Reader, inner_flags
from constrained.regex.syntax.python_tree import Items, op, parsed
from constrained.work import spend

_MORE = Piece(concat(ANY, ANY_TEXT))
_REST = Piece(ANY_TEXT)
_UNROLLED = 50  # rounds of a counted repeat whose rounds differ


@cached(1024)
def preferred(pattern: str) -> Expr:
    r"""Return the texts t with ``re.match(pattern, t).group() == t``.

    Raises: as `parse_python`; LimitExceeded: for ambiguous patterns in long counted repeats.

    >>> from constrained.regex import matches
    >>> [matches(preferred("list|listen"), text) for text in ("list", "listen")]
    [True, False]
    """
    every, guarded = parse_python(pattern), _guarded(pattern)
    if guarded is None:
        return every
    found = build(guarded)
    return every if is_empty(intersect(every, complement(found))) else found


def chooses(pattern: str) -> bool:
    """Return whether a matcher could ever miss a text of a pattern, for its own beginning."""
    return _guarded(pattern) is not None


@cached(1024)
def _guarded(pattern: str) -> Node | None:
    items, flags = parsed(pattern)
    if not flags & re.IGNORECASE and _is_decided(items):
        return None
    guarding = Guarding(Reader(pattern, flags))
    tree = guarding.pattern(items, flags)
    return tree if guarding.guards else None


def _is_decided(items: Iterable[tuple[Any, Any]]) -> bool:
    """Return whether a sequence plainly leaves a matcher no choice: each alternative begins with a character of its
    own.
    """
    for operator, argument in items:
        if operator is op.SUBPATTERN and not argument[1]:
            if not _is_decided(argument[3]):
                return False
        elif operator is op.BRANCH:
            first = [option[0] for option in argument[1] if len(option)]
            if (
                len(first) < len(argument[1])
                or len(set(map(str, first))) < len(first)
                or any(kind is not op.LITERAL for kind, _ in first)
            ):
                return False
            if not all(map(_is_decided, argument[1])):
                return False
        elif operator not in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Ways:
    """One part of a pattern, read twice: as it is, to decide which guards are needed, and as the guards see it."""

    plain: Node
    seen: Node

    def before(self, rest: Ways) -> Ways:
        return Ways(seq(self.plain, rest.plain), seq(self.seen, rest.seen))

    def loop(self, least: int, most: int | None) -> Ways:
        return Ways(loop(self.plain, least, most), loop(self.seen, least, most))

    def nonempty(self) -> Ways:
        return Ways(_nonempty(self.plain), _nonempty(self.seen))


class Guarding:
    """Copies `re`'s parse tree into look-around trees, with guards.

    `main` reads the pattern and `seen` what guards look at; both are `plain` unless the text holds a mark (see
    `lookahead`). With `in_stream`, more text may follow the match.  `rest` is always what follows in the pattern,
    without guards.
    """

    def __init__(
        self, plain: Reader, main: Reader | None = None, seen: Reader | None = None, *, in_stream: bool = False
    ) -> None:
        self._plain, self._main, self._seen = plain, main or plain, seen or plain
        self._in_stream = in_stream
        self._known: dict[tuple[Any, int, int], tuple[Any, Ways]] = {}  # of items that were read
        self.guards = 0

    def pattern(self, items: Items, flags: int) -> Node:
        """Return the whole pattern with guards."""
        return self._sequence(items, flags, Ways(EMPTY, EMPTY))

    def _sequence(self, items: Items, flags: int, rest: Ways) -> Node:
        found = []
        for operator, argument in reversed(items):
            found.append(self._item(operator, argument, flags, rest))
            rest = self._ways([(operator, argument)], flags).before(rest)
        return seq(*reversed(found))

    def _ways(self, items: Items, flags: int) -> Ways:
        found = [self._way(operator, argument, flags) for operator, argument in items]
        if len(found) == 1:
            return found[0]
        plain = seq(*(way.plain for way in found))
        return Ways(plain, plain if self._seen is self._plain else seq(*(way.seen for way in found)))

    def _way(self, operator: Any, argument: Any, flags: int) -> Ways:
        key = operator, id(argument), flags
        if key not in self._known:
            spend(10)
            # the argument is kept so that nothing else gets its id
            self._known[key] = argument, self._read(operator, argument, flags)
        return self._known[key][1]

    def _read(self, operator: Any, argument: Any, flags: int) -> Ways:
        if operator is op.SUBPATTERN:
            return self._ways(argument[3], inner_flags(argument, flags))
        if operator is op.BRANCH:
            options = [self._ways(option, flags) for option in argument[1]]
            return Ways(alt(*(way.plain for way in options)), alt(*(way.seen for way in options)))
        plain = self._plain.item(operator, argument, flags)
        return Ways(plain, plain if self._seen is self._plain else self._seen.item(operator, argument, flags))

    def _item(self, operator: Any, argument: Any, flags: int, rest: Ways) -> Node:
        if operator is op.SUBPATTERN:
            return self._sequence(list(argument[3]), inner_flags(argument, flags), rest)
        if operator is op.BRANCH:
            return self._branch([list(option) for option in argument[1]], flags, rest)
        if operator in (op.MAX_REPEAT, op.MIN_REPEAT):
            least, most, items = argument
            bounds = int(least), None if most is op.MAXREPEAT else int(most)
            return self._repeat(list(items), *bounds, flags, rest, lazy=operator is op.MIN_REPEAT)
        return self._main.item(operator, argument, flags)

    def _not(self, first: Ways, second: Ways) -> Node:
        """Return the guard of the second way against the first: nothing, if both cannot succeed at one place."""
        if not _shadows(first.plain, second.plain, *((_REST, _REST) if self._in_stream else (_MORE, EMPTY))):
            return EMPTY
        self.guards += 1
        return Ahead(first.seen, positive=False)

    def _branch(self, options: list[Items], flags: int, rest: Ways) -> Node:
        ways = [self._ways(option, flags) for option in options]
        rivals = _rivals([way.plain for way in ways])
        found = []
        for at, option in enumerate(options):
            earlier = rivals[at]
            if earlier is None:
                continue
            guards = [self._not(ways[other].before(rest), ways[at].before(rest)) for other in earlier]
            found.append(seq(*guards, self._sequence(option, flags, rest)))
        return alt(*found)

    def _repeat(self, items: Items, least: int, most: int | None, flags: int, rest: Ways, *, lazy: bool) -> Node:
        """Return the rounds of a repeat: `least` mandatory ones, then the optional ones with a choice before each."""
        body = self._ways(items, flags)
        again = body.loop(0, None if most is None else max(most - 1, 0))
        before = self.guards
        round_ = self._sequence(items, flags, again.before(rest))
        differ = self.guards > before
        onward = body.nonempty().before(again.before(rest))
        guard = self._not(rest, onward) if lazy else self._not(onward, rest)
        if self.guards > before and not (
            _empty_last(items) and (isinstance(body.plain, Piece) or not all(map(_can_be_empty, items)))
        ):
            raise GrammarError(
                f"cannot tell which texts {self._plain.pattern!r} prefers",
                because="a repeat has a body that can be empty",
                instead="a body that reads at least one character",
            )
        main = self._main.sequence(items, flags)
        if most == least or (guard is EMPTY and not differ):
            if differ and most != 1:
                return self._unrolled(items, least, least, flags, rest, lazy)
            return loop(round_ if differ else main, least, most)
        if most is not None and most > 1 and not (lazy or differ) and rest.plain is EMPTY:
            return alt(loop(main, most, most), seq(loop(main, least, most - 1), guard))
        if most is not None and most > 1 and (differ or not lazy):
            return self._unrolled(items, least, most, flags, rest, lazy)
        optional = (
            loop(seq(guard, round_), 0, None if most is None else most - least)
            if lazy
            else _greedy(round_, most, guard)
        )
        if not differ:
            return seq(loop(main, least, least), optional)
        first = [self._unrolled(items, least, least, flags, again.before(rest), lazy)] if least else []
        return seq(*first, optional)

    def _unrolled(self, items: Items, least: int, most: int, flags: int, rest: Ways, lazy: bool) -> Node:
        if most > _UNROLLED:
            raise LimitExceeded(
                f"regular expression repeats an ambiguous part {most:,} times",
                because=f"the limit is {_UNROLLED}",
                instead=(
                    "write the part so that its alternatives and repeats begin differently, or repeat a rule "
                    "with ~"
                ),
            )
        operator = op.MIN_REPEAT if lazy else op.MAX_REPEAT
        tail: Items = []
        for _ in range(most - least):
            tail = [(operator, (0, 1, [*items, *tail]))]
        return self._sequence(items * least + tail, flags, rest)


def _greedy(round_: Node, most: int | None, guard: Node) -> Node:
    if most == 1:
        return alt(round_, guard)
    return seq(loop(round_, 0, most), guard)


def _shadows(first: Node, second: Node, after_first: Piece, after_second: Piece) -> bool:
    """Return whether one text is `first` and what may follow it, and `second` likewise; True as well where only the
    left context tells.
    """
    spend(20)
    if asks_left(first) or asks_left(second):
        return True
    return not is_empty(intersect(_followed(first, after_first), _followed(second, after_second)))


def _followed(tree: Node, after: Piece) -> Expr:
    return concat(tree.expr, after.expr) if isinstance(tree, Piece) else build(seq(tree, after))


def asks_left(tree: Node) -> bool:
    """Return whether a tree holds an assertion about the text before it."""
    if isinstance(tree, (Seq, Options)):
        return any(asks_left(item) for item in tree.items)
    return isinstance(tree, Behind) or (isinstance(tree, (Loop, Ahead)) and asks_left(tree.body))


def _rivals(options: list[Node]) -> list[list[int] | None]:
    """Return for each option the earlier ones that could match a beginning of it; None if an earlier one is the same
    text.

    Among fixed texts only those of which one begins with the other; long lists of words have few such pairs.
    """
    texts = [_fixed(option) for option in options]
    found: list[set[int]] = [set() for _ in options]
    for first, second in _meeting(options):
        if texts[first] is None or texts[second] is None:
            found[second].add(first)
    first_at: dict[str, int] = {}
    for at, text in enumerate(texts):
        if text is not None:
            first_at.setdefault(text, at)
    for text, at in first_at.items():
        for length in range(len(text)):
            other = first_at.get(text[:length])
            if other is not None:
                found[max(at, other)].add(min(at, other))
    return [None if text is not None and first_at[text] < at else sorted(found[at]) for at, text in enumerate(texts)]


def _meeting(options: list[Node]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of options, the earlier one first, of which both can begin with the same character or either asks
    or is empty.
    """
    heads: list[tuple[int, int, int]] = []
    free: list[int] = []  # options that are no plain text
    for at, option in enumerate(options):
        if isinstance(option, Piece) and not option.expr.accepts:
            heads += [(low, high, at) for low, high, _ in raw_edges(option.expr)]
        else:
            free.append(at)
    for at in free:
        yield from ((min(at, other), max(at, other)) for other in range(len(options)) if other != at)
    active: list[tuple[int, int]] = []
    for low, high, at in sorted(heads):
        active = [(end, other) for end, other in active if end >= low]
        spend(1 + len(active))
        yield from ((min(at, other), max(at, other)) for _, other in active if other != at)
        active.append((high, at))


def _fixed(tree: Node) -> str | None:
    """Return the only text of a tree, None if there are several or assertions."""
    if not isinstance(tree, Piece) or tree.expr.short != tree.expr.long:
        return None
    text, at = "", tree.expr
    while not at.accepts:
        edges = at.edges()
        if len(edges) != 1 or edges[0][0] != edges[0][1]:
            return None
        text, at = text + chr(edges[0][0]), edges[0][2]
    return text


def _nonempty(tree: Node) -> Node:
    if isinstance(tree, Piece) and tree.expr.accepts:
        return Piece(intersect(tree.expr, repeat(ANY, 1, None)))
    return tree


def _empty_last(items: Items) -> bool:
    """Return whether a sequence matches the empty text, if at all, only after every other way has failed."""
    return all(_item_empty_last(operator, argument) for operator, argument in items) or not all(
        map(_can_be_empty, items)
    )


def _item_empty_last(operator: Any, argument: Any) -> bool:
    if operator is op.SUBPATTERN:
        return _empty_last(list(argument[3]))
    if operator is op.BRANCH:
        *earlier, last = (list(option) for option in argument[1])
        return _empty_last(last) and not any(all(map(_can_be_empty, option)) for option in earlier)
    if operator is op.MAX_REPEAT:
        return _empty_last(list(argument[2]))
    return operator is not op.MIN_REPEAT


def _can_be_empty(item: tuple[Any, Any]) -> bool:
    operator, argument = item
    if operator is op.SUBPATTERN:
        return all(map(_can_be_empty, argument[3]))
    if operator is op.BRANCH:
        return any(all(map(_can_be_empty, option)) for option in argument[1])
    if operator in (op.MAX_REPEAT, op.MIN_REPEAT):
        return argument[0] == 0 or all(map(_can_be_empty, argument[2]))
    return operator in (op.AT, op.ASSERT, op.ASSERT_NOT)
