"""Edges whose ranges many states share: an outline says what the edges say, and both kernels read it alike.

Host names of IDNA are what has one: some 1,200 ranges a state, and two lengths that make thousands of states of each.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from constrained import Grammar, Rejected, Vocabulary, compile
from constrained.grammar.ir import Pattern, Rule
from constrained.regex import matches
from constrained.schema.strings.idn import idn_hostname

EVERY_BYTE = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)
SCHEMA = {"type": "string", "format": "idn-hostname"}
# (text, how it may go on): labels of 57 letters or 63 of ASCII, names of 253 characters, marks, both directions
NAMES = [
    "", "a", "b-", "bücher.example", "l·l", "l·", "実例。", "أهلا", "نامه‌ای", "ü" * 56, "ü" * 57, "a" * 62,
    "a" * 63, "a" * 55 + "ü", ".".join(["a" * 62] * 4)[:250], ".".join(["a" * 61] * 4) + ".aaaa",
]  # fmt: skip


def joined(edges):
    """Return edges with neighbours that lead to the same state as one."""
    found = []
    for low, high, target in edges:
        if found and found[-1][1] == low - 1 and found[-1][2] is target:
            found[-1] = (found[-1][0], high, target)
        else:
            found.append((low, high, target))
    return found


def test_an_outline_says_what_the_edges_say():
    chosen, language = random.Random(4), idn_hostname()
    for _ in range(80):
        outline, edges = language.outline(), language.edges()
        spelled = [(low, high, outline.targets[way]) for low, high, way in outline.ranges]
        assert joined([edge for edge in spelled if edge[2] is not None]) == joined(edges)
        assert [low for low, _, _ in outline.ranges] == sorted({low for low, _, _ in outline.ranges})
        language = chosen.choice(edges)[2]


def test_states_share_the_ranges_of_an_outline():
    states = [idn_hostname().edges()[0][2]]
    for _ in range(4):
        states.append(next(target for low, high, target in states[-1].edges() if low <= ord("a") <= high))
    assert len({id(state.outline().ranges) for state in states}) < len(states)


@pytest.mark.parametrize("text", NAMES, ids=lambda text: ascii(text)[-20:])
def test_both_kernels_read_an_outline_alike(text):
    """Byte by byte behind a text, so that also what has read a part of a character asks for ranges."""
    language = idn_hostname()
    for point in map(ord, text):
        language = next(target for low, high, target in language.edges() if low <= point <= high)
    grammar = Grammar({"start": Rule("start", ((Pattern(language, text),),))})
    plain, compiled = (
        compile(grammar, EVERY_BYTE, kernel=kernel, max_work=None).matcher() for kernel in ("plain", "compiled")
    )
    rows = np.zeros((2, EVERY_BYTE.words), np.int32)
    for byte in "é.x".encode():
        plain.fill_mask(rows[:1])
        compiled.fill_mask(rows[1:])
        assert np.array_equal(*rows)
        try:
            plain.advance(byte)
        except Rejected:
            return
        compiled.advance(byte)


def test_a_name_of_idna_needs_no_more_than_the_default_work(llama3_path):
    llama3 = Vocabulary.from_tokenizer(llama3_path)
    constraint = compile(Grammar.from_json_schema(SCHEMA), llama3)
    row = np.zeros((1, llama3.words), np.int32)
    matcher = constraint.matcher()
    for token in llama3.tokenize('"bücher.example.実例.テスト.köln-a"'.encode()):
        matcher.fill_mask(row)
        assert row[0, token >> 5] >> (token & 31) & 1
        matcher.advance(token)
    assert matcher.is_accepting()


@pytest.mark.parametrize(("name", "valid"), [
    ("a" * 63, True), ("a" * 64, False), ("ü" * 57, True), ("ü" * 58, False), ("a" * 57 + "ü", False),
    (".".join(["a" * 63] * 3 + ["a" * 61]), True), (".".join(["a" * 63] * 3 + ["a" * 62]), False),
], ids=lambda value: str(value)[-8:])  # fmt: skip
def test_labels_and_names_end_where_they_must(name, valid):
    assert matches(idn_hostname(), name) is valid
