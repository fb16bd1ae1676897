"""A slice of the bomb table: what each row comes to, where, in how many words and how much work; the whole table is a
command of `benchmarks`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace

import pytest

from benchmarks import bombs, calibration, vocabularies
from benchmarks.bomb_inputs import Bomb, read

BOMBS = list(read())
PER_FILE = 6  # rows, drawn by a fixed seed
CHEAP = 100_000  # units of work that a row of the slice may have taken when it was recorded
LONG = re.compile(r'": \d{5,}')  # inputs of tens of thousands of parts take a second to build
SPENT = bombs.watched()
MOST_WORK = 2_500_000  # units: what makes the grammar, and what the masks take, have a budget each


def _is_small(bomb: Bomb) -> bool:
    return (bomb.work or 0) <= CHEAP and not LONG.search(json.dumps(bomb.input))


SLICE = [
    bomb for file in sorted({bomb.file for bomb in BOMBS})
    for bomb in bombs.sample([bomb for bomb in BOMBS if bomb.file == file and _is_small(bomb)], PER_FILE, seed=9)
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bomb", SLICE, ids=lambda bomb: bomb.id)
def test_a_bomb_ends_as_the_table_says(bomb: Bomb) -> None:
    first = SPENT()
    outcome, where, message, late = bombs.attempt(bomb, bombs.build(bomb.input), vocabularies.embedded())
    found = bombs.Run(outcome, where, message, SPENT() - first, seconds=0, megabytes=0, late=late)
    assert found.faults(bomb) == []
    assert found.work <= MOST_WORK


def test_an_error_in_generation_fails_a_row_that_does_not_say_why() -> None:
    row = Bomb("late", "pattern", ".*a.{100}", "limit", where="pattern")
    found = bombs.Run("limit", "pattern '.*a.{100}'", "too much work", 0, seconds=0, megabytes=0, late=True)
    assert len(found.faults(row)) == 1 and found.faults(replace(row, late="nothing shows it before")) == []


def test_the_table() -> None:
    assert len(BOMBS) >= 200
    assert [name for name, count in Counter(bomb.id for bomb in BOMBS).items() if count > 1] == []
    assert len(SLICE) >= 60


def test_the_inputs_of_the_calibration_are_rows() -> None:
    names = [name for names in calibration.KINDS.values() for name in names]
    assert len(names) >= 40 and {*names} <= {bomb.id for bomb in BOMBS}
