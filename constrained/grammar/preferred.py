r"""Which texts of a pattern `re.match` prefers over their own beginnings.

``re.match("list|listen", "listen")`` stops at "list", and ``a+?`` at the first "a": a backtracking matcher tries its choices in order and
takes the first that succeeds.  A text is *preferred* when matching it yields all of it.  Lark's dynamic lexer, which matches and then
cuts off the end again and again, finds exactly the preferred texts: if some text t is matched inside a longer one, then the choices
that led to t come first among those that t allows; and cutting a longer match down to t finds t if those choices win there.

The matcher is made declarative by guards.  Where it chooses between a first and a second way, a negative look-ahead forbids the second
one wherever the first one, with all that follows in the pattern, could succeed:

    (A|B)C   →  (A|(?!AC)B)C           A*C  →  A*(?!AA*C)C           A*?C  →  ((?!C)A)*C

Patterns with look-ahead are regular, so the result is an expression.  Guards that cannot forbid anything are left out: of most
patterns all are, and nothing changes.

Tested against `re.match` on generated patterns and texts (`tests/test_lark.py`).  Source: ours; the order of choices is that of
Perl, as in R. Cox, Regular Expression Matching: the Virtual Machine Approach (2009).
"""

from __future__ import annotations

import re
from functools import lru_cache
from re import _constants as sre
from re import _parser
from typing import Any

from ..errors import GrammarError, LimitExceeded
from ..regex import ANY, ANY_TEXT, Expr, complement, concat, intersect, is_empty, parse_python, repeat
from ..regex.look import EMPTY, Ahead, Behind, Loop, Node, Piece, Seq, alt, build, loop, seq
from ..regex.look import Alt as Options
from ..regex.python_syntax import _INLINE, _Reader

_MORE = concat(ANY, ANY_TEXT)
_UNROLLED = 50  # rounds of a counted repeat whose rounds differ


@lru_cache(maxsize=1024)
def preferred(pattern: str) -> Expr:
    r"""Return the texts t with ``re.match(pattern, t).group() == t``.

    Raises: as `parse_python`; LimitExceeded: for ambiguous patterns in long counted repeats.

    >>> from constrained.regex import matches
    >>> [matches(preferred("list|listen"), text) for text in ("list", "listen")]
    [True, False]
    """
    every = parse_python(pattern)
    flags = re.compile(pattern).flags & _INLINE
    guarding = _Guarding(_Reader(pattern, flags))
    tree = guarding.sequence(list(_parser.parse(pattern)), flags, EMPTY)
    if not guarding.guards:
        return every
    found = build(tree)
    return every if is_empty(intersect(every, complement(found))) else found


class _Guarding:
    """Copies `re`'s parse tree into look-around trees, with guards; `rest` is always what follows in the pattern, unguarded."""

    def __init__(self, reader: _Reader) -> None:
        self._reader, self.guards = reader, 0

    def sequence(self, items: list[tuple[Any, Any]], flags: int, rest: Node) -> Node:
        found = []
        for operator, argument in reversed(items):
            found.append(self._item(operator, argument, flags, rest))
            rest = seq(self._reader.item(operator, argument, flags), rest)
        return seq(*reversed(found))

    def _item(self, operator: Any, argument: Any, flags: int, rest: Node) -> Node:
        if operator is sre.SUBPATTERN:
            _, added, removed, items = argument
            kept = flags & ~re.UNICODE if added & re.ASCII else flags
            return self.sequence(list(items), (kept | added) & ~removed, rest)
        if operator is sre.BRANCH:
            return self._branch([list(option) for option in argument[1]], flags, rest)
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, items = argument
            return self._repeat(list(items), int(least), None if most is sre.MAXREPEAT else int(most), flags, rest, operator is sre.MIN_REPEAT)
        return self._reader.item(operator, argument, flags)

    def _not(self, first: Node, second: Node) -> Node:
        """Return the guard of the second way against the first: nothing, if no text of the second begins with one of the first."""
        if not _shadows(first, second):
            return EMPTY
        self.guards += 1
        return Ahead(first, positive=False)

    def _branch(self, options: list[list[tuple[Any, Any]]], flags: int, rest: Node) -> Node:
        plain = [self._reader.sequence(option, flags) for option in options]
        rivals = _rivals(plain)
        found = []
        for at, option in enumerate(options):
            earlier = rivals[at]
            if earlier is None:
                continue
            guards = [self._not(seq(plain[other], rest), seq(plain[at], rest)) for other in earlier]
            found.append(seq(*guards, self.sequence(option, flags, rest)))
        return alt(*found)

    def _repeat(self, items: list[tuple[Any, Any]], least: int, most: int | None, flags: int, rest: Node, lazy: bool) -> Node:
        """Return the rounds of a repeat: `least` mandatory ones, then the optional ones with a choice before each."""
        body = self._reader.sequence(items, flags)
        again = loop(body, 0, None if most is None else max(most - 1, 0))
        before = self.guards
        round_ = self.sequence(items, flags, seq(again, rest))
        differ = self.guards > before
        onward = seq(_nonempty(body), again, rest)
        guard = self._not(rest, onward) if lazy else self._not(onward, rest)
        if self.guards > before and not (_empty_last(items) and (isinstance(body, Piece) or not all(map(_can_be_empty, items)))):
            raise GrammarError(
                f"cannot tell which texts {self._reader.pattern!r} prefers", because="a repeat has a body that can be empty",
                instead="a body that reads at least one character",
            )
        if most == least or (guard is EMPTY and not differ):
            return loop(round_, least, most) if least == most == 1 or not differ else self._unrolled(items, least, least, flags, rest, lazy)
        if most is not None and most > 1 and (differ or not lazy):
            return self._unrolled(items, least, most, flags, rest, lazy)
        optional = loop(seq(guard, round_), 0, None if most is None else most - least) if lazy else _greedy(round_, most, guard)
        if not differ:
            return seq(loop(body, least, least), optional)
        first = [self._unrolled(items, least, least, flags, seq(again, rest), lazy)] if least else []
        return seq(*first, optional)

    def _unrolled(self, items: list[tuple[Any, Any]], least: int, most: int, flags: int, rest: Node, lazy: bool) -> Node:
        if most > _UNROLLED:
            raise LimitExceeded(
                f"regular expression repeats an ambiguous part {most:,} times", because=f"the limit is {_UNROLLED}",
                instead="write the part so that its alternatives and repeats begin differently, or repeat a rule with ~",
            )
        operator = sre.MIN_REPEAT if lazy else sre.MAX_REPEAT
        tail: list[tuple[Any, Any]] = []
        for _ in range(most - least):
            tail = [(operator, (0, 1, [*items, *tail]))]
        return self.sequence(items * least + tail, flags, rest)


def _greedy(round_: Node, most: int | None, guard: Node) -> Node:
    if most == 1:
        return alt(round_, guard)
    return seq(loop(round_, 0, most), guard)


def _shadows(first: Node, second: Node) -> bool:
    """Return whether some text of `second` has a shorter beginning in `first`; True as well where only the left context tells."""
    if _asks_left(first) or _asks_left(second):
        return True
    longer = concat(first.expr, _MORE) if isinstance(first, Piece) else build(seq(first, Piece(_MORE)))
    return not is_empty(intersect(longer, second.expr if isinstance(second, Piece) else build(second)))


def _asks_left(tree: Node) -> bool:
    if isinstance(tree, (Seq, Options)):
        return any(_asks_left(item) for item in tree.items)
    return isinstance(tree, Behind) or (isinstance(tree, (Loop, Ahead)) and _asks_left(tree.body))


def _rivals(options: list[Node]) -> list[list[int] | None]:
    """Return for each option the earlier ones that could match a beginning of it; None if an earlier one is the same text.

    Among fixed texts only those of which one begins with the other; long lists of words have few such pairs.
    """
    texts = [_fixed(option) for option in options]
    found: list[set[int]] = [{other for other in range(at) if texts[at] is None or texts[other] is None} for at in range(len(options))]
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


def _empty_last(items: list[tuple[Any, Any]]) -> bool:
    """Return whether a sequence matches the empty text, if at all, only after every other way has failed."""
    return all(_item_empty_last(operator, argument) for operator, argument in items) or not all(map(_can_be_empty, items))


def _item_empty_last(operator: Any, argument: Any) -> bool:
    if operator is sre.SUBPATTERN:
        return _empty_last(list(argument[3]))
    if operator is sre.BRANCH:
        *earlier, last = (list(option) for option in argument[1])
        return _empty_last(last) and not any(all(map(_can_be_empty, option)) for option in earlier)
    if operator is sre.MAX_REPEAT:
        return _empty_last(list(argument[2]))
    return operator is not sre.MIN_REPEAT


def _can_be_empty(item: tuple[Any, Any]) -> bool:
    operator, argument = item
    if operator is sre.SUBPATTERN:
        return all(map(_can_be_empty, argument[3]))
    if operator is sre.BRANCH:
        return any(all(map(_can_be_empty, option)) for option in argument[1])
    if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        return argument[0] == 0 or all(map(_can_be_empty, argument[2]))
    return operator in (sre.AT, sre.ASSERT, sre.ASSERT_NOT)
