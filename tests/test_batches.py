"""Large batches: every row as `Matcher.fill_mask` writes it."""

from __future__ import annotations

import os
import random
import signal
import threading

import numpy as np
import pytest

import constrained as c

VOCABULARY = c.Vocabulary([bytes((byte,)) for byte in range(256)], size=1 << 17, special={"<eos>": 256}, stop=[256])
ROWS = 100  # of 16 KB
CONSTRAINTS = [
    c.compile(c.Grammar.from_regex(pattern), VOCABULARY) for pattern in (r"a[bc]*", r"[^x]*y", r"(ab|[0-9]{3})+", "z")
]


def sequences(seed: int) -> list[c.Matcher]:
    """Some at their start, some within a text, some that have ended."""
    picks, found = random.Random(seed), []
    for _ in range(ROWS):
        matcher = picks.choice(CONSTRAINTS).matcher()
        for byte in picks.choice([b"", b"a", b"abc", b"ab123", b"z", b"qy"]):
            if matcher.accepts(byte):
                matcher.advance(byte)
        if picks.random() < 0.2 and matcher.accepts(256):
            matcher.advance(256)
        found.append(matcher)
    return found


def row_by_row(matchers: list[c.Matcher]) -> np.ndarray:
    rows = np.full((len(matchers), VOCABULARY.words), -1, np.int32)
    for i, matcher in enumerate(matchers):
        matcher.fill_mask(rows, i)
    return rows


def filled(matchers: list[c.Matcher], rows: np.ndarray) -> np.ndarray:
    rows[:] = 0x55555555
    c.fill_masks(matchers, rows)
    return rows


def test_large_batches_equal_single_rows():
    matchers = sequences(1)
    expected, rows = row_by_row(matchers), np.empty((ROWS, VOCABULARY.words), np.int32)
    assert len({row.tobytes() for row in expected}) > 8 and not expected.any(axis=1).all()
    for count in range(ROWS + 1):
        assert (filled(matchers[:count], rows)[:count] == expected[:count]).all()


def test_rows_that_do_not_lie_side_by_side():
    matchers = sequences(2)
    wide = np.full((2 * ROWS, VOCABULARY.words + 3), -1, np.int32)
    c.fill_masks(matchers, wide[::2, 1:-2])
    assert (wide[::2, 1:-2] == row_by_row(matchers)).all()
    wide[::2, 1:-2] = -1
    assert (wide == -1).all()


def test_batches_of_several_threads():
    wrong: list[int] = []

    def fill(seed):
        matchers, rows = sequences(seed), np.empty((ROWS, VOCABULARY.words), np.int32)
        expected = row_by_row(matchers)
        for _ in range(40):
            if not (filled(matchers, rows) == expected).all():
                wrong.append(seed)

    threads = [threading.Thread(target=fill, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_the_child_of_a_fork_fills_batches():
    matchers, rows = sequences(3), np.empty((ROWS, VOCABULARY.words), np.int32)
    expected = row_by_row(matchers)
    assert (filled(matchers, rows) == expected).all()
    child = os.fork()
    if not child:  # nothing here may raise into pytest
        signal.alarm(20)
        try:
            fine = all((filled(matchers, rows) == expected).all() for _ in range(50))
            os._exit(0 if fine else 3)
        except BaseException:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (filled(matchers, rows) == expected).all()
