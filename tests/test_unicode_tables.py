"""The tables of Unicode are what their generator writes, and agree with other sources where these say something."""

from __future__ import annotations

import importlib.util
import random
from importlib.metadata import version
from pathlib import Path

import pytest

from constrained.regex import matches
from constrained.regex.charset import contains, joining_type
from constrained.schema.strings.idn import idn_hostname

regex = pytest.importorskip("regex")
ROOT = Path(__file__).parents[1]


def _generator():
    spec = importlib.util.spec_from_file_location("unicode_tables", ROOT / "tools" / "unicode_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_what_the_generator_writes() -> None:
    generator = _generator()
    before = generator.FILE.read_text("ascii")
    if version("regex") not in before.splitlines()[0]:
        pytest.skip(f"the table is of another version of regex than {version('regex')}, perhaps of Unicode too")
    assert before.splitlines() == list(generator.lines(before))


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("Dual_Joining", "\u0628\u06cc\u0712\u1820\u07ca\U00010ac0", "\u0627a\u200d"),
        ("Right_Joining", "\u0627\u0648\u0710\u0840", "\u0628a"),
        ("Left_Joining", "\ua872\U00010acd", "\u0628\u0627a"),
        ("Transparent", "\u064b\u0670\u0300", "\u0628a"),
    ],
)
def test_joining_types(name: str, inside: str, outside: str) -> None:
    ranges = joining_type(name)
    assert all(contains(ranges, ord(char)) for char in inside)
    assert not any(contains(ranges, ord(char)) for char in outside)


def test_the_zero_width_non_joiner_stands_where_idna_lets_it_stand() -> None:
    idna = pytest.importorskip("idna")
    letters = [
        char
        for low, high in (
            (0x620, 0x64A),
            (0x66E, 0x6D3),
            (0x712, 0x72F),
            (0x840, 0x858),
            (0x7CA, 0x7EA),
            (0x1820, 0x1878),
        )
        for char in map(chr, range(low, high + 1))
        if char.isalpha()
    ]
    composing = "\u0653\u0654\u0655"  # left out, which the ledger says
    marks = ["", *(char for char in map(chr, range(0x64B, 0x65F)) if char not in composing)]
    draw = random.Random(5)
    for _ in range(3_000):
        name = "".join(map(draw.choice, (letters, marks, ["\u200c"], marks, letters)))
        try:
            idna.encode(name, strict=False)
            valid = True
        except UnicodeError:
            valid = False
        assert matches(idn_hostname(), name) == valid, ascii(name)
