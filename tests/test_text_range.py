"""The compiled `TextRange` next to its plain twin: the same fields, equalities and hashes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from constrained.machine import LiteralSet, PlainRange

text_range = pytest.importorskip("constrained._work", reason="no compiler")

TEXTS = ("a", "ab", "b"), tuple("a ab b".split()), ("a", "ab", "c")
GIVEN = [
    (texts, *more)
    for texts, more in product(TEXTS, ((), (1,), (1 << 70,), (0, 1), (0, 1, 2), (0, 0, 3, 1), (0, 0, None, 1), (0, 1, 3)))
]
FIELDS = "texts", "excluded", "low", "high", "depth"


def test_ranges_are_the_same() -> None:
    plain, compiled = ([kind(*given) for given in GIVEN] for kind in (PlainRange, text_range.TextRange))
    for one, other in zip(plain, compiled, strict=True):
        assert [getattr(one, field) for field in FIELDS] == [getattr(other, field) for field in FIELDS]
        assert hash(one) == hash(other) and other != one and one != other and other != 1
    for (one, other), (again, further) in zip(product(plain, plain), product(compiled, compiled), strict=True):
        assert (one == other) is (again == further)


def test_sets_are_ranges() -> None:
    some: Any = LiteralSet(("a", "ab", "b"), 0b10)
    assert isinstance(some, text_range.TextRange) and not hasattr(some, "__dict__")
    (_, _, after), (_, _, last) = some.edges()
    assert type(after) is LiteralSet and after.accepts and after.label == 0 and not after.edges() and last.label == 2
    assert some == LiteralSet(some.texts, 0b10) and some != LiteralSet(some.texts) and len({some, after, last}) == 3
