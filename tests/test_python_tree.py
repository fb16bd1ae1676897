"""What is relied on in `re`'s parse trees, and that none of its warnings about a stranger's pattern reaches anybody."""

from __future__ import annotations

import re
import sys
import warnings

import pytest

from constrained.grammar import Grammar
from constrained.regex import parse_ecma, parse_python
from constrained.regex.python import TESTED, op, parsed

N = op.MAXREPEAT
A = (op.LITERAL, 97)
SHAPES = [
    ("a", [A]),
    ("[^a]", [(op.NOT_LITERAL, 97)]),
    (".", [(op.ANY, None)]),
    ("[ab-d\\d]", [(op.IN, [A, (op.RANGE, (98, 100)), (op.CATEGORY, op.CATEGORY_DIGIT)])]),
    ("[^ab]", [(op.IN, [(op.NEGATE, None), A, (op.LITERAL, 98)])]),
    ("a*", [(op.MAX_REPEAT, (0, N, [A]))]),
    ("a{2,3}?", [(op.MIN_REPEAT, (2, 3, [A]))]),
    ("a|bc", [(op.BRANCH, (None, [[A], [(op.LITERAL, 98), (op.LITERAL, 99)]]))]),
    ("(?:a)", [A]),
    ("(a)", [(op.SUBPATTERN, (1, 0, 0, [A]))]),
    ("(?i-s:a)", [(op.SUBPATTERN, (None, re.IGNORECASE, re.DOTALL, [A]))]),
    ("(?=a)(?!a)", [(op.ASSERT, (1, [A])), (op.ASSERT_NOT, (1, [A]))]),
    ("(?<=a)(?<!a)", [(op.ASSERT, (-1, [A])), (op.ASSERT_NOT, (-1, [A]))]),
    ("^$", [(op.AT, op.AT_BEGINNING), (op.AT, op.AT_END)]),
    (
        r"\A\Z\b\B",
        [
            (op.AT, op.AT_BEGINNING_STRING),
            (op.AT, op.AT_END_STRING),
            (op.AT, op.AT_BOUNDARY),
            (op.AT, op.AT_NON_BOUNDARY),
        ],
    ),
    (r"(a)\1", [(op.SUBPATTERN, (1, 0, 0, [A])), (op.GROUPREF, 1)]),
    ("(?>a)", [(op.ATOMIC_GROUP, [A])]),
    ("a++", [(op.POSSESSIVE_REPEAT, (1, N, [A]))]),
]
WARNED = ["[[a]b", "[+--b]", "[a||b]", "[a&&b]", "[a~~b]", "(?:[[:alpha:]]|x)+", "[[a](?!b)", "b(?![[a])"]


def _plain(tree):
    """Return a tree as lists and tuples, flags as numbers."""
    if isinstance(tree, tuple):
        return tuple(_plain(part) for part in tree)
    return [_plain(tree[at]) for at in range(len(tree))] if hasattr(tree, "__len__") else tree


@pytest.mark.parametrize(("pattern", "items"), SHAPES, ids=[pattern for pattern, _ in SHAPES])
def test_trees_have_the_shape_that_is_relied_on(pattern, items):
    assert _plain(parsed(pattern)[0]) == items


def test_this_python_is_one_whose_trees_were_compared():
    assert sys.version_info[:2] <= TESTED, "run this file on it, and raise TESTED if it passes"
    assert parsed("(?i)a")[1] == re.IGNORECASE | re.UNICODE
    assert parsed("a", re.DOTALL)[1] == re.DOTALL | re.UNICODE


@pytest.mark.parametrize("pattern", WARNED)
def test_patterns_that_re_warns_of_are_read_in_silence(pattern):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_python.cache_clear()
        assert parse_python(pattern) is not None
        Grammar.from_lark(f"start: A B?\nA: /{pattern}/\nB: /[[c]/i\n%ignore /[[ ]/").start_state()
        Grammar.from_lark(Grammar.from_regex(pattern).to_lark()).start_state()
        parse_ecma(pattern)
        Grammar.from_json_schema({"type": "string", "pattern": pattern}).start_state()
