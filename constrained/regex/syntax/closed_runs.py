r"""Runs of a character up to a closing text, ``(?:(?!</v>|<s>)[^\0]){0,100}</v>``, as languages.

That is how raw text between tags is written, and how it is printed (`schema.printing`).  A guard looks at the text
behind it, and in general at what stands behind the whole match.  Here it cannot: some guard X is a part of the closing
text, so that the run ends where X would begin, and there the match ends as well.  So such a pattern needs none of the
detours of `grammar.lark.lexing.lookahead`, whose automata have as many states as the count times the guards.

Let X stand in the closing text E first at k.  A run t is taken before E only if no X begins in it, so X stands behind t
first at len(t) + k, and

- t is the only run that is taken there: a longer one would hold that X, or overlap it, which E does not allow;
- a guard that holds X first at f, and reaches behind E, would have more behind its X than E has.  `decided` forbids it.

Source: ours.  Tested against `re` and the general reading (`tests/test_guarded_runs.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from constrained.regex.algebra import concat, literal, literals, repeat
from constrained.regex.boolean import complement, intersect
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
from constrained.regex.syntax.assertion_tree import PlainPart
from constrained.regex.syntax.python import TreeReader
from constrained.regex.syntax.python_tree import Items, flattened, op
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
        found = cls(
            char, least, None if most == INFINITE else most,
            tuple(sorted({*guards, *(end + closing for end in ends)})), closing, tuple(inside), tuple(outside),
        )
        same = all(
            any(begun.endswith(end) for end in ends) or any(guard in begun for guard in guards)
            for begun in found._begun()
        )
        plain = char is ANY and inside  # no run, but another language, which happens to hold no marker
        return found if guards and same and not plain and found.decided() else None


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
    found: list[str] = []
    for operator, argument in items:
        if operator is not op.ASSERT_NOT or argument[0] < 0:
            return []
        tree = reader.sequence(argument[1], flags)
        words = _words(tree.expr) if isinstance(tree, PlainPart) else None
        if words is None:
            return []
        found += words
    return sorted(set(found)) if len(found) <= MOST_GUARDS else []


def _words(expr: Expr) -> list[str] | None:
    """Return the texts of a small language without the empty one, else None."""
    if expr is NEVER or expr.accepts or not expr.plain or expr.long > _LONGEST:
        return None
    found, work = list[str](), [("", expr)]
    while work:
        text, left = work.pop()
        spend(5)
        if left.accepts:
            found.append(text)
        for low, high, target in left.edges():
            if high - low + len(found) + len(work) >= MOST_GUARDS:
                return None
            work += [(text + chr(point), target) for point in range(low, high + 1)]
    return found

