"""Lark files: the same language as the lark library, in the file's reading, in the machines and in what is printed again."""

from __future__ import annotations

import pickle
import random
import re
import tomllib
from pathlib import Path

import pytest
from oracles import Acceptor, LarkOracle, all_texts, derived, mutated, words

from constrained.errors import GrammarError, LimitExceeded
from constrained.grammar import Grammar, Literal, Pattern, Ref, Rule
from constrained.grammar.preferred import preferred
from constrained.regex import matches

CORPUS = Path(__file__).with_name("corpus")
CASES = tomllib.loads((CORPUS / "lark.toml").read_text())["case"]
ERRORS = tomllib.loads((CORPUS / "errors_lark.toml").read_text())["case"]


def _texts(case: dict, grammar: Grammar) -> list[str]:
    """Return the texts of a row, words of its grammar and near misses."""
    chance = random.Random(case["id"])
    found = [derived(grammar, chance, size) for size in (3, 10, 30) for _ in range(6)]
    alphabet = "".join(sorted({char for text in [*found, *case["accept"], *case["reject"]] for char in text})) or "a"
    return [text for text in [*found, *(mutated(text, chance, alphabet) for text in [*found, *case["accept"]] * 3)] if len(text) < 200]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_acceptance_equals_lark(case):
    grammar = Grammar.from_lark(case["grammar"])
    acceptor = Acceptor(grammar.start_state())
    assert [text for text in case["accept"] if not acceptor.accepts(text)] == []
    assert [text for text in case["reject"] if acceptor.accepts(text)] == []
    if "oracle" in case:
        return
    oracle = LarkOracle(case["grammar"])
    texts = [*case["accept"], *case["reject"], *_texts(case, grammar), *all_texts(case.get("alphabet", ""), case.get("longest", 0))]
    assert [text for text in texts if acceptor.accepts(text) != oracle.accepts(text)] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_printed_grammar_is_the_same_language(case):
    grammar = Grammar.from_lark(case["grammar"])
    printed = grammar.to_lark()
    oracle, again = LarkOracle(printed), Acceptor(Grammar.from_lark(printed).start_state())
    acceptor = Acceptor(grammar.start_state())
    texts = [*case["accept"], *case["reject"], *_texts(case, grammar)[::3]]
    expected = [text for text in texts if acceptor.accepts(text)]
    assert [text for text in texts if oracle.accepts(text)] == expected
    assert [text for text in texts if again.accepts(text)] == expected
