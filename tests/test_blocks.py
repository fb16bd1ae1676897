"""Memory of the kernel: blocks do not overlap, they keep what is in them, and all of it comes back."""

from __future__ import annotations

import gc
import random

import numpy as np
import pytest
from laws import hard_vocabulary

import constrained as c

blocks = pytest.importorskip("constrained.engine.memory._memory")

CHUNK, MOST = 1 << 21, 1 << 16  # bytes of a chunk, and of the largest block that is cut from one
HEAD = 16  # of them not handed out
SIZES = (0, 1, 47, 48, 49, 240, 1_000, 4_080, 4_081, 30_000, MOST - HEAD, MOST - HEAD + 1, 300_000)


@pytest.fixture(autouse=True)
def alone():
    """Nothing that other tests left comes back meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def used():
    """Return the bytes of chunks that are in use, once the invariants of what is free hold."""
    chunks, free = blocks.survey()
    places = sorted((address, 1 << order) for address, order in free)
    for (address, size), (after, _) in zip(places, places[1:], strict=False):
        assert address + size <= after, "free blocks overlap"
    for address, order in free:
        assert not address % (1 << order)
        assert (address ^ (1 << order), order) not in free, "two halves are free that were one"
    return CHUNK * chunks - sum(size for _, size in places)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_do_not_overlap_and_keep_what_is_in_them(seed):
    """Random ones taken, enlarged and given back; each is filled with a value of its own."""
    rng, before = random.Random(seed), used()
    held: list[tuple[blocks.Held, int]] = []
    for step in range(2_000):
        size, value, action = rng.choice(SIZES), step & 255, rng.random()
        if action < 0.4 or not held:
            block = blocks.Held(size)
        else:
            block, last = held.pop(rng.randrange(len(held)))
            old = block.size
            assert block.values(old) <= {last}
            if action < 0.7 or size <= old:
                continue
            block.enlarge(size)
            assert block.values(old) <= {last}
        assert block.address % HEAD == 0
        block.write(value)
        held.append((block, value))
    assert used() - before >= sum(block.size for block, _ in held if block.size <= MOST - HEAD)
    assert all(block.values(block.size) <= {value} for block, value in held)
    held.clear()
    del block
    assert used() == before


def test_a_chunk_goes_back_when_its_blocks_are_free():
    """However much is free of what other tests left: the chunks that are cut for more are all given back."""
    chunks, before = blocks.survey()[0], used()
    held = [blocks.Held(MOST - HEAD)]
    while blocks.survey()[0] < chunks + 3:
        held.append(blocks.Held(MOST - HEAD))
    assert used() == before + MOST * len(held)
    random.Random(1).shuffle(held)
    while held:
        held.pop()
    assert (blocks.survey()[0], used()) == (chunks, before)


def test_nothing_stays_of_what_is_gone():
    """A constraint that was compiled and read leaves no block behind."""
    vocabulary = hard_vocabulary()
    row = np.zeros((1, vocabulary.words), np.int32)
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"enum": ["x", "yy"]}}}

    def read():
        matcher = c.compile(c.Grammar.from_json_schema(schema), vocabulary).matcher()
        for token in vocabulary.tokenize(b'{"a": "abc", "b": "yy"}'):
            matcher.fill_mask(row)
            matcher.advance(token)
        return used()

    def left():
        vocabulary.kernels.clear()
        vocabulary.kernels.masks.clear()
        gc.collect()
        return used()

    read()
    before = left()
    assert read() > before
    assert left() == before
