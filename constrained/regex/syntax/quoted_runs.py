r"""Strings in quotes with conditions, ``"(?=(?:[^"\\]|\\.){0,9}")(?!(?:[^"\\]|\\.)*<s>)(?:[^"\\]|\\n)*"``.

That is how strings are printed that spell no marker and are of bounded length (`schema.printing`).  A look-ahead sees,
in general, what stands behind the whole match.  Here it cannot: what is repeated reads the closing quote behind a
backslash only, and so do the conditions, so that the first quote without one ends everything.  Such a pattern is read
as an intersection, without the detours of `grammar.lark.lexing.lookahead`, whose automata have as many states as the
count times the conditions.

Source: ours.  Tested against `re` and the general reading (`tests/test_guarded_runs.py`).
"""

from __future__ import annotations

import re
from typing import Any

from constrained.regex.algebra import concat, literal, repeat
from constrained.regex.boolean import complement, intersect
from constrained.regex.expr import ANY_TEXT, Expr
from constrained.regex.syntax.assertion_tree import PlainPart
from constrained.regex.syntax.python import TreeReader
from constrained.regex.syntax.python_tree import Items, flattened, op
from constrained.work import spend

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
    found = [concat(string, literal(quote))]
    for operator, argument in heads:
        if operator not in (op.ASSERT, op.ASSERT_NOT) or argument[0] < 0:
            return None
        head = _head(list(flattened(argument[1])), quote, flags, reader)
        if head is None:
            return None
        found.append(head if operator is op.ASSERT else complement(head))
    return concat(literal(chr(flat[0][1])), intersect(*found))


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
