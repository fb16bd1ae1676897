"""Grammars of programming languages: names exclude keywords, white space and comments are ignored between all
terminals.

Texts in which a name could be cut in two (``x=ay=b``) are not asked about: see `test_a_name_is_its_longest_match`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuzz import programs

from constrained import ChatFormat, Grammar, Vocabulary, compile, work

FOLDER = Path(__file__).resolve().parent / "corpus" / "languages"
PROGRAMS = tomllib.loads((FOLDER / "programs.toml").read_text(encoding="utf-8"))
BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)


def _read(language: str) -> str:
    return (FOLDER / f"{language}.lark").read_text(encoding="utf-8")


def _taker(grammar: Grammar) -> Callable[[str], bool]:
    constraint = compile(grammar, BYTES)

    def taken(text: str) -> bool:
        matcher = constraint.matcher()
        for byte in text.encode():
            if not matcher.accepts(byte):
                return False
            matcher.advance(byte)
        return matcher.is_accepting()

    return taken


@pytest.mark.parametrize("language", PROGRAMS)
def test_programs(language: str) -> None:
    taken = _taker(Grammar.from_lark(_read(language)))
    assert [text for text in PROGRAMS[language]["accept"] if not taken(text)] == []
    assert [text for text in PROGRAMS[language]["reject"] if taken(text)] == []


@pytest.mark.parametrize("language", PROGRAMS)
def test_damaged_programs(language: str) -> None:
    """A slice of ``python -m tests.fuzz.programs``: a verdict that is not the library's raises."""
    assert {"taken", "refused"} <= set(programs.run(language, 45, seed=2))


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_first_mask_takes_bounded_work(language: str) -> None:
    """Of names that exclude words, 42 million units were spent before any mask."""
    with work.metered(work.Budget(800_000)):
        grammar = Grammar.from_lark(_read(language))
    matcher = compile(grammar, BYTES, max_work=200_000).matcher()
    matcher.fill_mask(np.zeros((1, BYTES.words), np.int32))


def test_a_name_is_its_longest_match() -> None:
    """The library's complete lexer would read the last text as two statements; too many demands are made to follow
    that, and it is said.
    """
    grammar = Grammar.from_lark(_read("lua"))
    assert [(entry.pointer, entry.keyword) for entry in grammar.narrowed] == [
        ("terminal NAME, line 31 column 1", "look-ahead")
    ]
    taken = _taker(grammar)
    assert [taken(text) for text in ("x=a y=b", "x=a;y=b", "x=ay=b")] == [True, True, False]
    assert Grammar.from_lark('start: NAME+\nNAME: /(?!(do|end)\\b)[a-z]+/\n%ignore " "').narrowed == ()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", range(1, 23, 3))
def test_a_name_may_exclude_any_number_of_words(words: int) -> None:
    """Few words make few demands, but what follows a name in Lua copies the rules all the same."""
    text = _read("lua")
    listed = text.partition("(?!(")[2].partition(")")[0]
    grammar = Grammar.from_lark(text.replace(listed, "|".join(listed.split("|")[:words])))
    taken = _taker(grammar)
    assert [taken(t) for t in ("x=a y=b", "local x = 1 return x", "and = 1")] == [True, True, False]
    assert {entry.keyword for entry in grammar.narrowed} <= {"look-ahead"}


def test_free_text_of_a_format_is_never_cut_to_its_longest_match() -> None:
    assert ChatFormat.load("llama3.1-json").parse("a<|eot_id|>").content == "a"
    assert [
        name for name in ("hermes", "llama3.1-json", "mistral-v11") if ChatFormat.load(name).grammar(None).narrowed
    ] == []
