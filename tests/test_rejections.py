"""Rejections: the whole error of each row of corpus/rejections, and that it points at the fault."""

from __future__ import annotations

from collections import Counter

import pytest

from constrained import ChatFormat
from tests.rejections import HERE, rejection, rows

ROWS = list(rows())


@pytest.mark.parametrize("name", ChatFormat.names())
def test_errors_are_as_written_and_point_at_the_fault(name):
    for _, row in (pair for pair in ROWS if pair[0] == name):
        error = rejection(name, row)
        assert str(error) == row["error"].strip("\n"), row["id"]
        assert error.layer == row["layer"], row["id"]
        before, *others = row["text"].split(HERE)
        assert error.position == len(before.encode()), row["id"]
        assert (error.line, error.column) == (before.count("\n") + 1, len(before) - before.rfind("\n")), row["id"]
        places = {other.position for other in error.others}
        for part in others[:-1]:
            before += part
            assert len(before.encode()) in places, row["id"]


def test_there_are_enough_of_each_format():
    counts = Counter(name for name, _ in ROWS)
    kinds = {name: {row["id"] for other, row in ROWS if other == name} for name in counts}
    assert all(len(kinds[name]) == counts[name] for name in counts)
    assert all(counts[name] >= 8 for name in ChatFormat.names())
