r"""Patterns of Python's `re`, as Lark's terminals use them: the parse tree that `re` makes of one, and the expression.

    >>> items, flags = parsed("a+|b")
    >>> [(operator is op.BRANCH, len(argument[1])) for operator, argument in items]
    [(True, 2)]

`re` documents no parse tree, so this is the only module that touches its private parts, and whoever reads patterns
reads trees from here. `tests/test_python_tree.py` holds the shapes of all operators that are relied on; `TESTED` says
up to which Python they were compared.

Refused: a parser of our own, as syntax, flags and error positions would differ from what users of `re` know.

`TreeReader` turns the tree into an expression.  The language is that of ``re.fullmatch``.  A lazy quantifier matches
the same texts as a greedy one.  Backreferences and conditional groups are not regular; possessive quantifiers and
atomic groups depend on what else could have matched; both are refused.

Tested against `re` on generated patterns and texts (`tests/test_regex.py`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from re import _constants as op
from re import _parser
from typing import Any, TypeAlias

import constrained.regex.charset as charset
from constrained.caches import cached
from constrained.errors import GrammarError, LimitExceeded
from constrained.regex.algebra import concat, literal, literals, of_ranges, optional
from constrained.regex.assertions import (
    TEXT_END,
    TEXT_START,
    LookAhead,
    LookBehind,
    PatternTree,
    PlainPart,
    alt,
    build,
    has_ahead,
    loop,
    seq,
    word_edge,
)
from constrained.regex.expr import ANY, ANY_TEXT, EPSILON, NEVER, Expr
from constrained.work import metered, place, spend, working_on

TESTED = (3, 14)  # the last Python whose trees were compared

Items: TypeAlias = list[tuple[Any, Any]]  # operator, argument

CHARACTERS = (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY)  # operators of items that match one character
INLINE = re.IGNORECASE | re.DOTALL | re.MULTILINE | re.VERBOSE | re.ASCII | re.UNICODE


def parsed(pattern: str, flags: int = 0) -> tuple[Items, int]:
    """Return the items of a pattern and the flags that hold for all of it.

    What `re` warns of (sets in sets, which it may read otherwise one day) is read as today and not passed on: the
    pattern may be a stranger's, and where warnings are errors the program would end here.
    Raises: re.error, RecursionError, OverflowError: as `re.compile`.
    """
    tree = _tree(pattern, flags)
    return list(tree), tree.state.flags & INLINE


def widths(pattern: str) -> tuple[int, int]:
    """Return the fewest and the most characters of the texts of a pattern, as `re` bounds them."""
    spend(len(pattern))
    least, most = _tree(pattern, 0).getwidth()
    return int(least), int(most)


def _tree(pattern: str, flags: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = _parser.parse(pattern, flags)
        # the widths of look-behinds are checked here.  Optimising a class beyond U+FFFF costs 1-2 ms
        if "(?<" in pattern:
            spend(20 * len(pattern))
            re.compile(pattern, flags)
    return tree


def flattened(items: Any) -> Iterator[tuple[Any, Any]]:
    """Yield items, those of groups without flags in their place."""
    for operator, argument in items:
        if operator is op.SUBPATTERN and not argument[1] and not argument[2]:
            yield from flattened(argument[3])
        else:
            yield operator, argument


__all__ = ["CHARACTERS", "INLINE", "TESTED", "Items", "flattened", "op", "parsed", "widths"]


_FLAGS = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE, "x": re.VERBOSE, "a": re.ASCII, "u": re.UNICODE}
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d", op.CATEGORY_NOT_DIGIT: r"\D", op.CATEGORY_SPACE: r"\s", op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w", op.CATEGORY_NOT_WORD: r"\W",
}
_NEWLINE = literal("\n")
_MANY = 64  # alternatives
_IGNORECASE = int(re.IGNORECASE)  # to ask an enumeration takes a microsecond


@cached(1024)
def parse_python(pattern: str, flags: str = "") -> Expr:
    r"""Return the texts that ``re.fullmatch(pattern, text)`` accepts; flags are letters of ``imsxau``.

    Raises: GrammarError for wrong syntax and for what is not regular, with line and column; LimitExceeded for deep
    nesting.

    >>> from constrained.regex import matches
    >>> thought = parse_python(r"(?:(?!</think>).)*</think>", "s")
    >>> matches(thought, "hm\n</think>"), matches(thought, "</think></think>")
    (True, False)
    """
    number = 0
    for letter in flags:
        if letter not in _FLAGS:
            raise GrammarError(f"unknown regular expression flag {letter!r}", instead=f"letters of {''.join(_FLAGS)!r}")
        number |= _FLAGS[letter]
    with metered(), working_on(f"pattern {_shown(pattern)}"):
        return _read(pattern, number)


def _read(pattern: str, number: int) -> Expr:
    spend(len(pattern))
    try:
        items, read = parsed(pattern, number)
        return build(TreeReader(pattern, read).sequence(items, read))
    except re.error as error:
        raise GrammarError(
            f"cannot read regular expression {_shown(pattern)}",
            where=f"line {error.lineno or 1} column {error.colno or 1}",
            because=error.msg,
            instead="the syntax of Python's re module",
        ) from None
    except (RecursionError, OverflowError) as error:
        raise LimitExceeded(
            f"regular expression {_shown(pattern)} nests too deep or counts too far",
            where=place(),
            because=type(error).__name__,
            instead="a rule of the grammar for what nests",
        ) from None


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "…")


@cached(4096)
def _class_of(items: tuple[tuple[Any, Any], ...], flags: int) -> Expr:
    negated = bool(items) and items[0][0] is op.NEGATE
    ranges: list[tuple[int, int]] = []
    categories: list[charset.Ranges] = []  # which case does not touch
    for operator, argument in items[1:] if negated else items:
        if operator is op.CATEGORY:
            categories.append(charset.matched_by_re(_CATEGORIES[argument], flags & re.ASCII))
        else:
            low, high = argument if operator is op.RANGE else (argument, argument)
            ranges.append((low, high))
    exact = charset.normal(ranges)
    if flags & re.IGNORECASE:
        exact = charset.ignoring_case(exact, flags)
    exact = charset.union(exact, *categories)
    return of_ranges(charset.negate(exact) if negated else exact)


class TreeReader:
    """Turns `re`'s parse tree into look-around trees; one per pattern."""

    by_words = True  # characters in a row are read at once, not as items: a list of 10,000 words has 80,000

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self.flags = pattern, flags

    def sequence(self, items: Any, flags: int) -> PatternTree:
        trees: list[PatternTree] = []
        exact = self.by_words and not flags & _IGNORECASE
        for operator, run in groupby(getattr(items, "data", items), itemgetter(0)):
            if exact and operator is op.LITERAL:
                spend(6)
                trees.append(PlainPart(literal("".join([chr(point) for _, point in run]))))
            else:
                trees += [self.item(operator, argument, flags) for _, argument in run]
        return seq(*trees)

    def word(self, items: Any, flags: int) -> str:
        """Return the characters that items are in a row, two at least; none where they are something else."""
        items = getattr(items, "data", items)
        spend(4)
        if not self.by_words or flags & _IGNORECASE or len(items) < 2 or {*map(itemgetter(0), items)} != {op.LITERAL}:
            return ""
        return "".join([chr(point) for _, point in items])

    def item(self, operator: Any, argument: Any, flags: int) -> PatternTree:
        spend(6)
        rule = _RULES.get(operator)
        if rule is None:
            raise self.refused(operator)
        return rule(self, argument, flags)

    def one(self, items: list[tuple[Any, Any]], flags: int) -> PatternTree:
        """Return the class of one character that a list of set items stands for."""
        spend(1 + len(items))
        return PlainPart(_class_of(tuple(items), flags & (re.IGNORECASE | re.ASCII)))

    def anchor(self, code: Any, flags: int) -> PatternTree:
        multiline = flags & re.MULTILINE
        if code is op.AT_BEGINNING_STRING or (code is op.AT_BEGINNING and not multiline):
            return TEXT_START
        if code is op.AT_BEGINNING:
            return LookBehind(optional(concat(ANY_TEXT, _NEWLINE)))
        if code is op.AT_END_STRING:
            return TEXT_END
        if code is op.AT_END:
            newline = PlainPart(_NEWLINE)
            return alt(TEXT_END, LookAhead(newline if multiline else seq(newline, TEXT_END)))
        word = _class_of(((op.CATEGORY, op.CATEGORY_WORD),), flags & re.ASCII)
        if code is op.AT_BOUNDARY:
            return word_edge(word, positive=True)
        inner = word_edge(word, positive=False)
        if re.search(r"\B", ""):
            return inner
        return seq(alt(LookBehind(EPSILON, positive=False), LookAhead(PlainPart(ANY))), inner)

    def look(self, argument: Any, flags: int, *, positive: bool) -> PatternTree:
        direction, items = argument
        body = self.sequence(items, flags)
        if direction > 0:
            return LookAhead(body, positive)
        if has_ahead(body):
            raise GrammarError(
                f"cannot compile regular expression {_shown(self.pattern)}",
                because="a look-behind holds an assertion about what follows",
                instead="move the inner assertion out of the look-behind",
            )
        return LookBehind(build(seq(PlainPart(ANY_TEXT), body)), positive)

    def refused(self, operator: Any) -> GrammarError:
        because, instead, spelled = _REFUSED.get(
            operator, (f"{operator} has no regular meaning", "plain regular syntax", "$.")
        )
        match = re.search(spelled, re.sub(r"\\[^1-9]", "..", self.pattern))
        at = match.start() if match else 0
        line, column = self.pattern.count("\n", 0, at) + 1, at - self.pattern.rfind("\n", 0, at)
        return GrammarError(
            f"cannot compile regular expression {_shown(self.pattern)}",
            where=f"line {line} column {column}",
            because=because,
            instead=instead,
        )


def _repeat(reader: TreeReader, argument: Any, flags: int) -> PatternTree:
    least, most, items = argument
    return loop(reader.sequence(items, flags), int(least), None if most is op.MAXREPEAT else int(most))


def _group(reader: TreeReader, argument: Any, flags: int) -> PatternTree:
    return reader.sequence(argument[3], inner_flags(argument, flags))


def inner_flags(argument: Any, flags: int) -> int:
    """Return the flags that hold within a group."""
    added, removed = int(argument[1]), int(argument[2])
    return ((flags & ~re.UNICODE if added & re.ASCII else flags) | added) & ~removed


def _branch(reader: TreeReader, argument: Any, flags: int) -> PatternTree:
    words, others = list[str](), list[PatternTree]()
    for option in argument[1]:
        word = reader.word(option, flags) if len(argument[1]) > _MANY else ""
        if word:  # of a list, which need not be expressions one by one
            words.append(word)
        else:
            others.append(reader.sequence(option, flags))
    return alt(PlainPart(literals(words)), *others) if words else alt(*others)


_RULES: dict[Any, Callable[[TreeReader, Any, int], PatternTree]] = {
    op.LITERAL: lambda reader, argument, flags: reader.one([(op.LITERAL, argument)], flags),
    op.NOT_LITERAL: lambda reader, argument, flags: reader.one([(op.NEGATE, None), (op.LITERAL, argument)], flags),
    op.IN: lambda reader, argument, flags: reader.one(argument, flags),
    op.ANY: lambda reader, argument, flags: PlainPart(
        of_ranges(charset.EVERYTHING if flags & re.DOTALL else charset.negate(((10, 10),)))),
    op.BRANCH: _branch,
    op.SUBPATTERN: _group,
    op.MAX_REPEAT: _repeat,
    op.MIN_REPEAT: _repeat,
    op.AT: lambda reader, argument, flags: reader.anchor(argument, flags),
    op.ASSERT: lambda reader, argument, flags: reader.look(argument, flags, positive=True),
    op.ASSERT_NOT: lambda reader, argument, flags: reader.look(argument, flags, positive=False),
    op.FAILURE: lambda reader, argument, flags: PlainPart(NEVER),
}

_NO_MEMORY = "what a group matched cannot be remembered by a regular language"
_REFUSED = {
    op.GROUPREF: (_NO_MEMORY, "write the alternatives out, or use a rule with a template", r"\\[1-9]|\(\?P="),
    op.GROUPREF_EXISTS: (_NO_MEMORY, "write both cases as alternatives", r"\(\?\("),
    op.ATOMIC_GROUP: (
        "an atomic group depends on what else could have matched",
        "a group (?:…) or a look-ahead",
        r"\(\?>",
    ),
    op.POSSESSIVE_REPEAT: (
        "a possessive quantifier depends on what else could have matched",
        "a greedy quantifier",
        r"[*+?}]\+",
    ),
}
