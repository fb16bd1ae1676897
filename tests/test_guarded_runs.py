"""The quick reading of "a character, nowhere in front of some texts, again and again" next to the one for patterns of any shape."""

from __future__ import annotations

import random

import pytest

from constrained.grammar.lark.guarded_runs import guarded_run
from constrained.grammar.lark.lookahead import MARK, UNMARKED, _Marked, _Reading
from constrained.grammar.lark.small_alphabet import automaton, cut_off
from constrained.regex.syntax.python_tree import parsed

GUARDS = ["a", "b", "ab", "[ab]", "a+b", "(?:a|bb)", "a{2}", "ba?", "c", "a?", "", "(?i:A)", "a*b"]
CHARACTERS = ["[ab]", ".", "[^a]", "a", "[abc]", "(?:b)", "(a)"]
COUNTS = ["+", "*", "{2}", "{0,3}", "{1,4}", "{2,}", "{1,2}"]


@pytest.mark.parametrize("seed", range(3))
def test_both_readings_are_one(seed):
    choose = random.Random(seed).choice
    for _ in range(40):
        first, guards = ("".join(f"(?!{choose(GUARDS)})" for _ in range(choose(counts))) for counts in ((0, 0, 1), (0, 1, 2)))
        pattern = f"{first}({guards}{choose(CHARACTERS)}){choose(COUNTS)}"
        reading, run = _Reading(pattern), guarded_run(parsed(pattern)[0])
        assert run is not None
        marked = _Marked(pattern, reading.flags, reading.alphabet, through=True)
        found = run.pairs(
            lambda items, plain=reading._plain: plain.sequence(items, plain.flags), lambda items, read=marked: read.sequence(items, read.flags), UNMARKED, MARK)
        longest, longer = (automaton(reading.in_stream(through=through), reading.alphabet) for through in (False, True))
        for pairs, general in zip(found, (cut_off(longest, longer, reading.alphabet), longest), strict=True):
            assert automaton(pairs, reading.alphabet) == general, pattern


@pytest.mark.parametrize("pattern", ["a", "(?=b)a+", "(?:a(?!b))+", "(?:(?!b)a)+?", "(?:(?!b)(?:a|bc))+", "(?:(?!b)ab)+", "((?!b)a)+c", "(?:(?<!b)a)+", ""])
def test_other_shapes_are_left_to_the_general_reading(pattern):
    assert guarded_run(parsed(pattern)[0]) is None
