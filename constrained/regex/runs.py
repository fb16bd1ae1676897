r"""Patterns of three shapes as languages, without the detours that look-ahead takes in general.

1. Runs of a character up to a closing text, ``(?:(?!</v>|<s>)[^\0]){0,100}</v>`` (`ClosedRun`).

That is how raw text between tags is written, and how it is printed (`export.schema_rules`).  A guard looks at the text
behind it, and in general at what stands behind the whole match.  Here it cannot: some guard X is a part of the closing
text, so that the run ends where X would begin, and there the match ends as well.  So such a pattern needs none of the
detours of `grammar.lark.lookahead`, whose automata have as many states as the count times the guards.

Let X stand in the closing text E first at k.  A run t is taken before E only if no X begins in it, so X stands behind t
first at len(t) + k, and

- t is the only run that is taken there: a longer one would hold that X, or overlap it, which E does not allow;
- a guard that holds X first at f, and reaches behind E, would have more behind its X than E has.  `decided` forbids it.

2. Strings in quotes with conditions, ``"(?=(?:[^"\\]|\\.){0,9}")(?!(?:[^"\\]|\\.)*<s>)(?:[^"\\]|\\n)*"``.

So strings are printed that spell no marker and are of bounded length (`export.schema_rules`).  A look-ahead sees,
in general, what stands behind the whole match.  Here it cannot: what is repeated reads the closing quote behind a
backslash only, and so do the conditions, so that the first quote without one ends everything.  Such a pattern is read
as an intersection, without the detours of `grammar.lark.lookahead`, whose automata have as many states as the
count times the conditions.

3. Terminals such as ``/(?!\[)(?:(?!<end>)[^"])+/``: a repeated character, nowhere in front of some texts.

That is how "text without a marker" is written, and how grammars are printed (`to_lark`), so it is read without the
detours that `lookahead` takes for patterns of any shape.  Of such a pattern every beginning of a match, if it has
enough characters, is a match itself, in place and alone; so dynamic lexing finds exactly

    the texts t of the repeated character, t before a rest r, with no guarded text in t·r that begins within t

which is an intersection of expressions without assertions over t·MARK·r.

Source: ours.  Tested against `re` and the general reading, on generated patterns (`tests/test_guarded_runs.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from constrained.regex.algebra import complement, concat, intersect, literal, literals, repeat, union
from constrained.regex.assertions import PatternTree, PlainPart
from constrained.regex.expr import (
    ANY,
    ANY_TEXT,
    COMPLEMENT,
    INFINITE,
    INTERSECT,
    NEVER,
    REPEAT,
    UNION,
    Expr,
    parts,
    single,
)
from constrained.regex.liveness import is_empty
from constrained.regex.python import CHARACTERS, Items, TreeReader, flattened, op
from constrained.work import spend

MOST_GUARDS = 256
_LONGEST = 256  # characters of a guard


@dataclass(frozen=True, slots=True)
class ClosedRun:
    """`least` to `most` (None: any number) of a class of characters, where none of the `guards` begins, then `closing`.

    `inside` and `outside`: languages that hold the run and that do not.
    """

    char: Expr
    least: int
    most: int | None
    guards: tuple[str, ...]
    closing: str
    inside: tuple[Expr, ...] = ()
    outside: tuple[Expr, ...] = ()

    def decided(self) -> bool:
        """Return whether nothing behind the closing text matters."""
        stop = next((guard for guard in self.guards if guard in self.closing), None)
        if stop is None:
            return False
        behind = len(self.closing) - self.closing.index(stop)
        holding = concat(ANY_TEXT, literal(stop), ANY_TEXT)
        return all(
            len(guard) - guard.index(stop) <= behind for guard in self.guards if stop in guard
        ) and all(is_empty(intersect(head, holding)) for head in (*self.inside, *self.outside))

    def language(self) -> Expr:
        """Return the texts, without what closes them.  Invariant: `decided`."""
        held = concat(ANY_TEXT, literals(self.guards), ANY_TEXT)
        ends = [complement(concat(ANY_TEXT, literals(begun)))] if (begun := self._begun()) else []
        return intersect(
            repeat(self.char, self.least, self.most),
            complement(held),
            *ends,
            *self.inside,
            *map(complement, self.outside),
        )

    def _begun(self) -> list[str]:
        """Return the ends of a run with which the closing text would make a guard."""
        spend(sum(map(len, self.guards)))
        return sorted(
            {
                guard[:at]
                for guard in self.guards
                for at in range(1, len(guard))
                if self.closing.startswith(guard[at:])
            }
        )

    @classmethod
    def of_language(cls, language: Expr, closing: str) -> ClosedRun | None:
        """Return a language, which the closing text follows, as a run; None if it is none that is `decided`."""
        char, least, most = ANY, 0, INFINITE
        inside, outside, guards, ends = list[Expr](), list[Expr](), list[str](), list[str]()
        for member in language.args if language.kind == INTERSECT else (language,):
            if member.kind == COMPLEMENT:
                (without,) = member.args
                for part in without.args if without.kind == UNION else (without,):
                    factors = parts(part)
                    open_end = len(factors) > 1 and factors[-1] is ANY_TEXT
                    held = _words(concat(*factors[1 : len(factors) - open_end])) if factors[0] is ANY_TEXT else None
                    if held is None:
                        outside.append(part)
                    else:
                        (guards if open_end else ends).extend(held)
            elif member.kind == REPEAT and single(member.args[0]) is not None:
                char, least, most = member.args
            else:
                inside.append(member)
        guards = [guard for guard in guards if not any(guard.startswith(other) for other in {*guards} - {guard})]
        ends = [end for end in ends if not any(guard in end for guard in guards)]
        run = cls(
            char, least, None if most == INFINITE else most,
            tuple(sorted({*guards, *(end + closing for end in ends)})), closing, tuple(inside), tuple(outside),
        )
        same = all(
            any(begun.endswith(end) for end in ends) or any(guard in begun for guard in guards)
            for begun in run._begun()
        )
        plain = char is ANY and inside  # no run, but another language, which happens to hold no marker
        return run if guards and same and not plain and run.decided() else None


def closed_run(items: Items, flags: int, reader: TreeReader) -> tuple[Expr, str, bool] | None:
    """Return the runs of a pattern of this shape, what closes them, and whether that is only looked at, as in
    ``…(?=</v>)``; None for another pattern.
    """
    if flags & re.IGNORECASE:
        return None
    flat = list(flattened(items))
    ahead = bool(flat) and flat[-1][0] is op.ASSERT and flat[-1][1][0] > 0
    closing, rest = _closing(list(flattened(flat[-1][1][1])) if ahead else flat)
    flat = flat[:-1] if ahead else rest
    if (ahead and rest) or not closing or not flat or flat[-1][0] is not op.MAX_REPEAT:
        return None
    inside, outside = list[Expr](), list[Expr]()
    for operator, argument in flat[:-1]:
        if operator not in (op.ASSERT, op.ASSERT_NOT) or argument[0] < 0:
            return None
        behind, head = _closing(list(flattened(argument[1])))
        tree = reader.sequence(head, flags)
        if behind != closing or not isinstance(tree, PlainPart):
            return None
        (inside if operator is op.ASSERT else outside).append(tree.expr)
    least, most, body = flat[-1][1]
    *before, last = list(flattened(body)) or [(None, None)]
    guards = _guards(before, flags, reader)
    char = reader.sequence([last], flags) if guards else None
    if not guards or not isinstance(char, PlainPart) or single(char.expr) is None:
        return None
    bound = None if most is op.MAXREPEAT else int(most)
    run = ClosedRun(char.expr, int(least), bound, tuple(guards), closing, tuple(inside), tuple(outside))
    return (run.language(), closing, ahead) if run.decided() else None


def _closing(items: Items) -> tuple[str, Items]:
    """Return the characters with which a sequence ends, and what stands before them."""
    at = len(items)
    while at and items[at - 1][0] is op.LITERAL:
        at -= 1
    return "".join(chr(argument) for _, argument in items[at:]), items[:at]


def _guards(items: Items, flags: int, reader: TreeReader) -> list[str]:
    """Return the texts that negative look-aheads forbid; none where these are something else or forbid more."""
    guards: list[str] = []
    for operator, argument in items:
        if operator is not op.ASSERT_NOT or argument[0] < 0:
            return []
        tree = reader.sequence(argument[1], flags)
        words = _words(tree.expr) if isinstance(tree, PlainPart) else None
        if words is None:
            return []
        guards += words
    return sorted(set(guards)) if len(guards) <= MOST_GUARDS else []


def _words(expr: Expr) -> list[str] | None:
    """Return the texts of a small language without the empty one, else None."""
    if expr is NEVER or expr.accepts or not expr.plain or expr.long > _LONGEST:
        return None
    words, work = list[str](), [("", expr)]
    while work:
        text, left = work.pop()
        spend(5)
        if left.accepts:
            words.append(text)
        for low, high, target in left.edges():
            if high - low + len(words) + len(work) >= MOST_GUARDS:
                return None
            work += [(text + chr(point), target) for point in range(low, high + 1)]
    return words


_BACKSLASH = ord("\\")


def quoted_run(items: Items, flags: int, reader: TreeReader) -> Expr | None:
    """Return the language of a pattern of this shape, None for another one."""
    flat = list(flattened(items))
    if flags & re.IGNORECASE or len(flat) < 4 or flat[0][0] is not op.LITERAL or flat[-1][0] is not op.LITERAL:
        return None
    *heads, loop = flat[1:-1]
    quote = chr(flat[-1][1])
    if quote == "\\":
        return None
    string = _string(loop, quote, flags, reader)
    if string is None:
        return None
    conjuncts = [concat(string, literal(quote))]
    for operator, argument in heads:
        if operator not in (op.ASSERT, op.ASSERT_NOT) or argument[0] < 0:
            return None
        head = _head(list(flattened(argument[1])), quote, flags, reader)
        if head is None:
            return None
        conjuncts.append(head if operator is op.ASSERT else complement(head))
    return concat(literal(chr(flat[0][1])), intersect(*conjuncts))


def _string(item: tuple[Any, Any], quote: str, flags: int, reader: TreeReader) -> Expr | None:
    """Return a repeat of what holds the quote behind a backslash only, None for anything else."""
    if item[0] is not op.MAX_REPEAT:
        return None
    least, most, body = item[1]
    tree = reader.sequence(body, flags)
    if not isinstance(tree, PlainPart) or tree.expr.accepts or not _within(tree.expr, quote):
        return None
    return repeat(tree.expr, int(least), None if most is op.MAXREPEAT else int(most))


def _head(items: Items, quote: str, flags: int, reader: TreeReader) -> Expr | None:
    """Return the strings, closing quote included, that begin with a condition; None where it could see more."""
    string = _string(items[0], quote, flags, reader) if items else None
    tree = reader.sequence(items[1:], flags)
    if string is None or not isinstance(tree, PlainPart):
        return None
    closing = literal(quote)
    if tree.expr is closing:
        return concat(string, closing)
    if not tree.expr.plain or not _within(tree.expr, quote):
        return None
    return concat(string, tree.expr, ANY_TEXT)


def _within(expr: Expr, quote: str) -> bool:
    """Return whether all texts of a language are made of characters other than quote and backslash and of a backslash
    with any character.
    """
    seen, work = {(expr, False)}, [(expr, False)]
    while work:
        left, escaped = work.pop()
        if escaped and left.accepts:
            return False
        edges = left.edges()
        spend(1 + len(edges) // 4)
        for low, high, target in edges:
            if not escaped and low <= ord(quote) <= high:
                return False
            behind = not escaped and low <= _BACKSLASH <= high
            for after in {(target, behind), (target, behind and low == high)} - seen:
                seen.add(after)
                work.append(after)
    return True


Read = Callable[[Items], PatternTree]


@dataclass(slots=True)
class GuardedRun:
    """``(?!first)…(?:(?!guard)…character){least,most}``."""

    first: list[Items] = field(default_factory=list)
    guards: list[Items] = field(default_factory=list)
    character: Items = field(default_factory=list)
    least: int = 1
    most: int | None = 1

    def pairs(self, read: Read, read_marked: Read, character: Expr, mark: Expr) -> tuple[Expr, Expr] | None:
        """Return text·mark·rest, and of these the ones whose text can be no longer; None if a guard holds an assertion.

        read_marked: reads a guard over texts that may hold a mark; character: all but the mark.
        """
        one, plain = read(self.character), list(map(read, self.guards))
        first, guards = [list(map(read_marked, part)) for part in (self.first, self.guards)]
        if not isinstance(one, PlainPart) or not all(isinstance(guard, PlainPart) for guard in (*first, *guards)):
            return None
        rest, char = repeat(character), intersect(one.expr, character)
        forbidden = [concat(_of(guard), ANY_TEXT) for guard in first]
        if guards:
            within = concat(character, ANY_TEXT)  # what begins before the mark
            forbidden.append(concat(rest, intersect(concat(union(*map(_of, guards)), ANY_TEXT), within)))
        allowed = complement(union(*forbidden)) if forbidden else ANY_TEXT
        every = concat(repeat(char, self.least, self.most), mark, rest)
        stop = complement(intersect(concat(char, ANY_TEXT), complement(concat(union(*map(_of, plain)), ANY_TEXT))))
        stopped = concat(repeat(char, self.least, self.most), mark, intersect(stop, rest))
        full = concat(repeat(char, self.most, self.most), mark, rest) if self.most is not None else NEVER
        return intersect(every, allowed), intersect(union(stopped, full), allowed)


def _of(tree: PatternTree) -> Expr:
    assert isinstance(tree, PlainPart)
    return tree.expr


def guarded_run(items: Items) -> GuardedRun | None:
    """Return a pattern as a run, None if it has another shape."""
    run = GuardedRun()
    flat = list(flattened(items))
    while flat and _is_guard(*flat[0]):
        run.first.append(flat.pop(0)[1][1])
    if len(flat) != 1 or flat[0][0] is not op.MAX_REPEAT:
        return None
    least, most, body = flat[0][1]
    run.least, run.most = int(least), None if most is op.MAXREPEAT else int(most)
    *guards, last = list(flattened(body)) or [(None, None)]
    if last[0] not in CHARACTERS or not all(_is_guard(*guard) for guard in guards):
        return None
    run.guards, run.character = [guard[1][1] for guard in guards], [last]
    return run


def _is_guard(operator: Any, argument: Any) -> bool:
    return operator is op.ASSERT_NOT and argument[0] > 0
