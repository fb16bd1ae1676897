"""What is charged for work that inputs make large: about a unit a microsecond, counted and not timed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from constrained.schema.numeric.language import JSON_NUMBERS, number_language
from constrained.schema.values import NumberRange
from constrained.work import Budget, metered


def units(work) -> int:
    """Return the units that a call spends."""
    budget = Budget()
    with metered(budget):
        work()
    return Budget().left - budget.left


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 10)])
def test_listed_numbers_are_charged_one_by_one(step):
    listed = tuple([NumberRange(low=step * at, high=step * at) for at in range(-100, 100)])
    assert 1_000 <= units(lambda: number_language.__wrapped__(listed, JSON_NUMBERS)) <= 3_000
