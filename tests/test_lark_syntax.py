"""What is read as a Lark file, held against the `lark` library's own reader: texts with pieces cut out, doubled, moved."""

from __future__ import annotations

import pytest
from fuzz.lark_texts import Texts
from lark.load_grammar import load_grammar

from constrained.errors import ConstrainedError
from constrained.grammar import Grammar
from constrained.grammar.lark.syntax import WHAT


def _library_reads(text: str) -> bool:
    """Say whether the library takes a text; in terminals it finds some mistakes when it makes a lexer of them."""
    try:
        grammar = load_grammar(text, "<string>", [], False)[0]
        grammar.compile([name for name, params, _, _ in grammar.rule_defs if not params][:1], set())
    except Exception:
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_texts_are_read_and_refused_as_by_the_library(seed: int) -> None:
    texts, wrong = Texts(seed), 0
    for _ in range(100):
        text = texts.damaged()
        try:
            Grammar.from_lark(text, specials=["_INDENT", "_DEDENT"])
        except ConstrainedError as error:
            if error.what == WHAT or "used but not defined" in error.what:
                wrong += 1
                assert not _library_reads(text), f"{text!r}: {error}"
        else:
            assert _library_reads(text), text
    assert 0 < wrong < 100
