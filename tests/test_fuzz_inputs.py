"""Seeded slices of the fuzzers of tools and of transcripts; `fuzz/README.md` has the commands for hours."""

from __future__ import annotations

import pytest
from fuzz import format_texts, parse, tools


def test_lists_of_tools() -> None:
    assert set(tools.run(20, seed=3)) >= {"works", "wrong"}


def test_damaged_transcripts() -> None:
    assert set(parse.run(30, seed=5)) >= {"read", "refused"}


@pytest.mark.parametrize(("name", "entry"), [("hermes", "any_assistant_turn"), ("internlm2", "conversation")])
def test_two_parsers_agree_on_shipped_grammars(name: str, entry: str) -> None:
    assert set(format_texts.check(format_texts.files()[name], entry, 6, seed=1)) == {True, False}
