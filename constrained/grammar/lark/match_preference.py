r"""Match preference: the texts of a pattern that `re.match` takes whole, rather than one of their beginnings.

``re.match("list|listen", "listen")`` stops at "list", and ``a+?`` at the first "a": a backtracking matcher tries its
choices in order and takes the first that succeeds.  A text is *preferred* when matching it yields all of it.  Lark's
dynamic lexer, which matches and then cuts off the end again and again, finds exactly the preferred texts: if some text
t is matched inside a longer one, then the choices that led to t come first among those that t allows; and cutting a
longer match down to t finds t if those choices win there.

    parse tree of `re` ──Guarding──▶ tree with guards ──build──▶ expression

Guards make the order of choices declarative.  Where a matcher chooses between a first and a second way, a negative
look-ahead forbids the second one wherever the first one, with all that follows in the pattern, could succeed:

    (A|B)C  →  (A|(?!AC)B)C        the second alternative, where the first fails
    A*C     →  A*(?!AA*C)C         stopping, where no further round is possible
    A*?C    →  ((?!C)A)*C          a further round, where stopping fails

Patterns with look-ahead are regular, so the result is an expression.  A guard is needed only if a text of the second
way begins with a shorter one of the first (`shadows`); few patterns need any.  In ``(?:a|ab)c?``

    a, then c?    the texts a, ac
    ab, then c?   the texts ab, abc: both begin with a, so this way gets the guard (?!ac?), which neither passes
    c or nothing  no text that ends here begins with c: no guard

which leaves a and ac.  Repeats whose rounds get guards are written out where it matters how many rounds are left.
Only rivals are looked at like that, options that may begin alike; a list of a thousand words has few of them:

    option      begins with     rivals among the earlier ones
    "if"        i               none
    [a-z]+      a to z          "if": both can begin with i
    "in"        i               [a-z]+; not "if", as neither fixed text begins with the other
    "if"        i               it never comes into play: the same fixed text stands before it

Left out: repeats of what can be empty, unless emptiness is the last that is tried; `re` breaks such loops off.
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
from constrained.regex.assertions import EMPTY, LookAhead, PatternTree, PlainPart, alt, build, has_behind, loop, seq
from constrained.regex.derive import raw_edges
from constrained.regex.python import CHARACTERS, Items, TreeReader, inner_flags, op, parsed
from constrained.work import spend


def is_decided(items: Iterable[tuple[Any, Any]]) -> bool:
    """Return whether a sequence plainly leaves a matcher no choice: each alternative begins with a character of its
    own.
    """
    return all(_is_decided(operator, argument) for operator, argument in items)


def _is_decided(operator: Any, argument: Any) -> bool:
    if operator is op.SUBPATTERN:
        return not argument[1] and is_decided(argument[3])
    if operator is op.BRANCH:
        first = {str(option[0]) for option in argument[1] if len(option) and option[0][0] is op.LITERAL}
        return len(first) == len(argument[1]) and all(map(is_decided, argument[1]))
    return operator in CHARACTERS


def shadows(first: PatternTree, second: PatternTree, after_first: PlainPart, after_second: PlainPart) -> bool:
    """Return whether one text is `first` and what may follow it, and `second` likewise; True as well where only the
    left context tells.
    """
    spend(20)
    if has_behind(first) or has_behind(second):
        return True
    return not is_empty(intersect(_followed(first, after_first), _followed(second, after_second)))


def _followed(tree: PatternTree, after: PlainPart) -> Expr:
    return concat(tree.expr, after.expr) if isinstance(tree, PlainPart) else build(seq(tree, after))


# -- alternatives ------------------------------------------------------------------------------------------------------


def rivals(options: list[PatternTree]) -> list[list[int] | None]:
    """Return for each option the earlier ones that could match a beginning of it; None if an earlier one is the same
    text.

    Among fixed texts only those of which one begins with the other; long lists of words have few such pairs.
    """
    texts = [_fixed(option) for option in options]
    earlier: list[set[int]] = [set() for _ in options]
    for first, second in _meeting(options):
        if texts[first] is None or texts[second] is None:
            earlier[second].add(first)
    first_at: dict[str, int] = {}
    for at, text in enumerate(texts):
        if text is not None:
            first_at.setdefault(text, at)
    for text, at in first_at.items():
        for length in range(len(text)):
            other = first_at.get(text[:length])
            if other is not None:
                earlier[max(at, other)].add(min(at, other))
    return [None if text is not None and first_at[text] < at else sorted(earlier[at]) for at, text in enumerate(texts)]


def _meeting(options: list[PatternTree]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of options, the earlier one first, of which both can begin with the same character or either asks
    or is empty.
    """
    heads: list[tuple[int, int, int]] = []
    free: list[int] = []  # options that are no plain text
    for at, option in enumerate(options):
        if isinstance(option, PlainPart) and not option.expr.accepts:
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


def _fixed(tree: PatternTree) -> str | None:
    """Return the only text of a tree, None if there are several or assertions."""
    if not isinstance(tree, PlainPart) or tree.expr.short != tree.expr.long:
        return None
    text, at = "", tree.expr
    while not at.accepts:
        edges = at.edges()
        if len(edges) != 1 or edges[0][0] != edges[0][1]:
            return None
        text, at = text + chr(edges[0][0]), edges[0][2]
    return text


# -- emptiness ---------------------------------------------------------------------------------------------------------


def can_be_empty(item: tuple[Any, Any]) -> bool:
    """Return whether an item of a pattern matches the empty text at some place."""
    operator, argument = item
    if operator is op.SUBPATTERN:
        return all(map(can_be_empty, argument[3]))
    if operator is op.BRANCH:
        return any(all(map(can_be_empty, option)) for option in argument[1])
    if operator in (op.MAX_REPEAT, op.MIN_REPEAT):
        return argument[0] == 0 or all(map(can_be_empty, argument[2]))
    return operator in (op.AT, op.ASSERT, op.ASSERT_NOT)


def empty_comes_last(items: Items) -> bool:
    """Return whether a sequence matches the empty text, if at all, only after every other way has failed."""
    return all(_empty_comes_last(*item) for item in items) or not all(map(can_be_empty, items))


def _empty_comes_last(operator: Any, argument: Any) -> bool:
    if operator is op.SUBPATTERN:
        return empty_comes_last(list(argument[3]))
    if operator is op.BRANCH:
        *earlier, last = (list(option) for option in argument[1])
        return empty_comes_last(last) and not any(all(map(can_be_empty, option)) for option in earlier)
    if operator is op.MAX_REPEAT:
        return empty_comes_last(list(argument[2]))
    return operator is not op.MIN_REPEAT


_NOT_EMPTY = repeat(ANY, 1, None)
_MORE = PlainPart(concat(ANY, ANY_TEXT))
_REST = PlainPart(ANY_TEXT)
_UNROLLED = 50  # rounds of a counted repeat whose rounds differ


@cached(1024)
def preferred(pattern: str) -> Expr:
    r"""Return the texts t with ``re.match(pattern, t).group() == t``.

    Raises: as `parse_python`; GrammarError: a repeat of what can be empty, where order decides; LimitExceeded: for
    ambiguous patterns in long counted repeats.

    >>> preferred("list|listen"), preferred("listen|list")
    (<list>, <list(?:en)?>)
    """
    every = parse_python(pattern)
    items, flags = parsed(pattern)
    if not flags & re.IGNORECASE and is_decided(items):
        return every
    guarding = Guarding(TreeReader(pattern, flags))
    tree = guarding.pattern(items, flags)
    if not guarding.guards:
        return every
    texts = build(tree)
    return every if is_empty(intersect(every, complement(texts))) else texts


@dataclass(frozen=True, slots=True)
class TwoReadings:
    """One part of a pattern, read twice: as it is, to decide which guards are needed, and as the guards see it."""

    plain: PatternTree
    seen: PatternTree

    def before(self, rest: TwoReadings) -> TwoReadings:
        return TwoReadings(seq(self.plain, rest.plain), seq(self.seen, rest.seen))

    def loop(self, least: int, most: int | None) -> TwoReadings:
        return TwoReadings(loop(self.plain, least, most), loop(self.seen, least, most))

    def nonempty(self) -> TwoReadings:
        return TwoReadings(_nonempty(self.plain), _nonempty(self.seen))


def _nonempty(tree: PatternTree) -> PatternTree:
    if isinstance(tree, PlainPart) and tree.expr.accepts:
        return PlainPart(intersect(tree.expr, _NOT_EMPTY))
    return tree


@dataclass(frozen=True, slots=True)
class _Repeat:
    """``(?:items){least,most}``; most may be None, for any number."""

    items: Items
    least: int
    most: int | None
    lazy: bool

    @classmethod
    def read(cls, operator: Any, argument: Any) -> _Repeat:
        least, most, items = argument
        return cls(list(items), int(least), None if most is op.MAXREPEAT else int(most), operator is op.MIN_REPEAT)

    def written_out(self, most: int) -> Items:
        """Return the mandatory rounds one after the other, then up to `most` of them, each within the one before."""
        tail: Items = []
        for _ in range(most - self.least):
            tail = [(op.MIN_REPEAT if self.lazy else op.MAX_REPEAT, (0, 1, [*self.items, *tail]))]
        return self.items * self.least + tail


class Guarding:
    """Copies `re`'s parse tree into look-around trees, with guards.

    `main` reads the pattern and `seen` what guards look at; both are `plain` unless the text holds a mark (see
    `lookahead`). With `in_stream`, more text may follow the match.  `rest` is always what follows in the pattern,
    without guards.
    """

    def __init__(
        self,
        plain: TreeReader,
        main: TreeReader | None = None,
        seen: TreeReader | None = None,
        *,
        in_stream: bool = False,
    ) -> None:
        self._plain, self._main, self._seen = plain, main or plain, seen or plain
        self._behind = (_REST, _REST) if in_stream else (_MORE, EMPTY)  # a first way, and a second one at its place
        self._known: dict[tuple[Any, int, int], tuple[Any, TwoReadings]] = {}  # of items that were read
        self.guards = 0

    def pattern(self, items: Items, flags: int) -> PatternTree:
        """Return the whole pattern with guards."""
        return self._sequence(items, flags, TwoReadings(EMPTY, EMPTY))

    # -- as they are: what guards are made of --------------------------------------------------------------------------

    def _ways(self, items: Items, flags: int) -> TwoReadings:
        ways = [self._way(operator, argument, flags) for operator, argument in items]
        if len(ways) == 1:
            return ways[0]
        plain = seq(*(way.plain for way in ways))
        return TwoReadings(plain, plain if self._seen is self._plain else seq(*(way.seen for way in ways)))

    def _way(self, operator: Any, argument: Any, flags: int) -> TwoReadings:
        key = operator, id(argument), flags
        if key not in self._known:
            spend(10)
            # the argument is kept so that nothing else gets its id
            self._known[key] = argument, self._read(operator, argument, flags)
        return self._known[key][1]

    def _read(self, operator: Any, argument: Any, flags: int) -> TwoReadings:
        if operator is op.SUBPATTERN:
            return self._ways(argument[3], inner_flags(argument, flags))
        if operator is op.BRANCH:
            options = [self._ways(option, flags) for option in argument[1]]
            return TwoReadings(alt(*(way.plain for way in options)), alt(*(way.seen for way in options)))
        plain = self._plain.item(operator, argument, flags)
        return TwoReadings(plain, plain if self._seen is self._plain else self._seen.item(operator, argument, flags))

    # -- with guards ---------------------------------------------------------------------------------------------------

    def _sequence(self, items: Items, flags: int, rest: TwoReadings) -> PatternTree:
        trees = []
        for operator, argument in reversed(items):
            trees.append(self._item(operator, argument, flags, rest))
            rest = self._ways([(operator, argument)], flags).before(rest)
        return seq(*reversed(trees))

    def _item(self, operator: Any, argument: Any, flags: int, rest: TwoReadings) -> PatternTree:
        if operator is op.SUBPATTERN:
            return self._sequence(list(argument[3]), inner_flags(argument, flags), rest)
        if operator is op.BRANCH:
            return self._branch([list(option) for option in argument[1]], flags, rest)
        if operator in (op.MAX_REPEAT, op.MIN_REPEAT):
            return self._repeat(_Repeat.read(operator, argument), flags, rest)
        return self._main.item(operator, argument, flags)

    def _not(self, first: TwoReadings, second: TwoReadings) -> PatternTree:
        """Return the guard of the second way against the first: nothing, if both cannot succeed at one place."""
        if not shadows(first.plain, second.plain, *self._behind):
            return EMPTY
        self.guards += 1
        return LookAhead(first.seen, positive=False)

    def _branch(self, options: list[Items], flags: int, rest: TwoReadings) -> PatternTree:
        ways = [self._ways(option, flags) for option in options]
        options_read = []
        for option, way, earlier in zip(options, ways, rivals([way.plain for way in ways]), strict=True):
            if earlier is not None:
                guards = [self._not(ways[other].before(rest), way.before(rest)) for other in earlier]
                options_read.append(seq(*guards, self._sequence(option, flags, rest)))
        return alt(*options_read)

    def _repeat(self, part: _Repeat, flags: int, rest: TwoReadings) -> PatternTree:
        """Return the rounds of a repeat, with a choice before each that need not be: to stop or, if lazy, to go on is
        the second way.  So many rounds and no others are no choice.
        """
        body, before = self._ways(part.items, flags), self.guards
        again = body.loop(0, None if part.most is None else max(part.most - 1, 0)).before(rest)
        round_ = self._sequence(part.items, flags, again)
        differ = self.guards > before  # then what guards see depends on how many rounds are left
        onward = body.nonempty().before(again)
        guard: PatternTree = EMPTY
        if part.least != part.most:
            guard = self._not(rest, onward) if part.lazy else self._not(onward, rest)
        if self.guards > before:
            self._check_rounds(part.items, body)
        if not differ and guard is EMPTY:
            return loop(round_, part.least, part.most)
        if part.most is None or part.most == 1 > part.least:
            least = part.least
            first = self._written_out(part, least, flags, again) if differ else loop(round_, least, least)
            return seq(first, _optional(part, round_, guard))
        if differ or not (part.lazy or rest.plain is EMPTY):
            return self._written_out(part, part.most, flags, rest)
        if part.lazy:
            return seq(loop(round_, part.least, part.least), loop(seq(guard, round_), 0, part.most - part.least))
        return alt(loop(round_, part.most, part.most), seq(loop(round_, part.least, part.most - 1), guard))

    def _check_rounds(self, items: Items, body: TwoReadings) -> None:
        """Refuse a round that can be empty before all else has been tried."""
        if all(map(can_be_empty, items)) and not (isinstance(body.plain, PlainPart) and empty_comes_last(items)):
            raise GrammarError(
                f"cannot tell which texts {self._plain.pattern!r} prefers",
                because="a repeat has a body that can be empty",
                instead="a body that reads at least one character",
            )

    def _written_out(self, part: _Repeat, most: int, flags: int, rest: TwoReadings) -> PatternTree:
        if most > _UNROLLED:
            raise LimitExceeded(
                f"regular expression repeats an ambiguous part {most:,} times",
                because=f"the limit is {_UNROLLED}",
                instead=(
                    "write the part so that its alternatives and repeats begin differently, or repeat a rule "
                    "with ~"
                ),
            )
        return self._sequence(part.written_out(most), flags, rest)


def _optional(part: _Repeat, round_: PatternTree, guard: PatternTree) -> PatternTree:
    """Return the rounds behind the mandatory ones, one at most or any number."""
    if part.lazy:
        return loop(seq(guard, round_), 0, part.most)
    return alt(round_, guard) if part.most == 1 else seq(loop(round_, 0, None), guard)
