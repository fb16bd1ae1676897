"""The same input gets the same verdict: what it costs in a process that knows nothing is the same everywhere, and what
else a process has done before never makes it cost more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import bombs, vocabularies
from benchmarks.bomb_inputs import read
from constrained import caches

HERE = Path(__file__).parent
LEAST, MOST = 3_000, 60_000  # units that a row took when it was recorded
ROWS = [bomb for bomb in read() if bomb.kind in ("schema", "pattern", "lark") and LEAST <= (bomb.work or 0) <= MOST]
ROWS = bombs.sample(ROWS, 8, seed=2)
OTHERS = bombs.sample([bomb for bomb in read() if bomb.kind == "pattern" and 0 < (bomb.work or 0) < LEAST], 12, seed=3)
SLACK = 300  # units: what is kept of others is asked for in other sizes

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each row is measured in a process of its own")


def measured(prelude: str) -> list[tuple[str, int]]:
    """Return the outcome and the units of each row, each in a process of its own, behind something else."""
    vocabulary = vocabularies.embedded()
    _ = vocabulary.trie
    found = []
    for bomb in ROWS:
        before = {"nothing": (), "others": OTHERS, "itself": (bomb,)}[prelude]
        run = bombs.run(bomb, vocabulary, before, caches.MOST_BYTES - 1 if prelude == "others" else 0)
        found.append((run.outcome, run.work))
    return found


def anew(seed: int) -> list[tuple[str, int]]:
    """Return the outcome and the units of each row in new processes whose hashes have a seed."""
    command = "import json, test_verdicts; print(json.dumps(test_verdicts.measured('nothing')))"
    paths = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, sys.path)])
    found = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, check=True, timeout=300,
        env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": paths},
    )
    return [tuple(entry) for entry in json.loads(found.stdout)]


@pytest.fixture(scope="module")
def cold() -> list[tuple[str, int]]:
    return anew(1)


def test_units_do_not_depend_on_the_process(cold: list[tuple[str, int]]) -> None:
    assert anew(7) == cold


@pytest.mark.parametrize("prelude", ["others", "itself"])
def test_nothing_costs_more_than_where_nothing_is_known(prelude: str, cold: list[tuple[str, int]]) -> None:
    for bomb, (outcome, units), (before, most) in zip(ROWS, measured(prelude), cold, strict=True):
        assert outcome == before, bomb.id
        assert units <= most + SLACK, bomb.id
