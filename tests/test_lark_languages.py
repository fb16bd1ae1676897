"""Grammars of programming languages: names exclude keywords, white space and comments are ignored between all terminals.

Texts in which a name could be cut in two (``x=ay=b``) are not asked about: see `test_a_name_is_its_longest_match`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import lark
import numpy as np
import pytest
from oracles import Acceptor

from constrained import Grammar, Vocabulary, compile, work

FOLDER = Path(__file__).resolve().parent / "corpus" / "languages"
PROGRAMS = tomllib.loads((FOLDER / "programs.toml").read_text(encoding="utf-8"))
BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)


def _read(language: str) -> str:
    return (FOLDER / f"{language}.lark").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", PROGRAMS)
def test_programs(language: str) -> None:
    acceptor = Acceptor(Grammar.from_lark(_read(language)).start_state())
    assert [text for text in PROGRAMS[language]["accept"] if not acceptor.accepts(text)] == []
    assert [text for text in PROGRAMS[language]["reject"] if acceptor.accepts(text)] == []


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_table_is_right(language: str) -> None:
    parser = lark.Lark(_read(language), parser="earley", lexer="dynamic", ambiguity="forest")

    def taken(text: str) -> bool:
        try:
            parser.parse(text)
        except lark.exceptions.UnexpectedInput:
            return False
        return True

    assert [text for text in PROGRAMS[language]["accept"] if not taken(text)] == []
    assert [text for text in PROGRAMS[language]["reject"] if taken(text)] == []


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_first_mask_takes_bounded_work(language: str) -> None:
    """Of names that exclude words, 42 million units were spent before any mask."""
    with work.metered(work.Budget(800_000)):
        grammar = Grammar.from_lark(_read(language))
    matcher = compile(grammar, BYTES, max_work=200_000).matcher()
    matcher.fill_mask(np.zeros((1, BYTES.words), np.int32))


def test_a_name_is_its_longest_match() -> None:
    """The library's complete lexer would read the last text as two statements; too many demands are made to follow that, and it is said."""
    grammar = Grammar.from_lark(_read("lua"))
    assert [(entry.pointer, entry.keyword) for entry in grammar.narrowed] == [("terminal NAME, line 31 column 1", "look-ahead")]
    acceptor = Acceptor(grammar.start_state())
    assert [acceptor.accepts(text) for text in ("x=a y=b", "x=a;y=b", "x=ay=b")] == [True, True, False]
    assert Grammar.from_lark('start: NAME+\nNAME: /(?!(do|end)\\b)[a-z]+/\n%ignore " "').narrowed == ()
