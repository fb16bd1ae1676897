"""Seeded slices of the fuzzers of tools and of transcripts; `fuzz/README.md` has the commands for hours."""

from __future__ import annotations

from fuzz import parse, tools


def test_lists_of_tools() -> None:
    assert set(tools.run(20, seed=3)) >= {"works", "wrong"}


def test_damaged_transcripts() -> None:
    assert set(parse.run(30, seed=5)) >= {"read", "refused"}
