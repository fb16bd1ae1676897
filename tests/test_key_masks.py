"""Masks of named keys: what they hold, and that neither they nor an order of 20,000 keys copies a mask for each key."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from constrained.schema.key_masks import KeyOrder, bits, mask_of


@pytest.mark.parametrize("count", [0, 1, 7, 255, 256, 257, 300, 600, 1000])
def test_masks_and_orders(count):
    keys = list(range(count))
    random.Random(count).shuffle(keys)
    order = KeyOrder(keys)
    assert [order.rank_of[key] for key in keys] == list(range(count))
    for rank in range(count + 1):
        assert order.behind(rank) == sum(1 << key for key in keys[rank:])
    mask = random.Random(count).getrandbits(count) if count else 0
    assert bits(mask) == [bit for bit in range(count) if mask >> bit & 1]
    assert mask_of(bits(mask), count) == mask
    for held in ([0], [count - 1], [count // 2, count // 3], bits(mask)):
        some = sorted({key for key in held if 0 <= key < count})
        if some:
            assert bits(mask_of(some, count)) == some
            assert order.nearest(mask_of(some, count)) == min(order.rank_of[key] for key in some)


def test_an_order_is_linear_in_its_keys():
    tracemalloc.start()
    try:
        order = KeyOrder(range(20_000))
        assert order.behind(19_999) == 1 << 19_999
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4_000_000  # a mask for each key: 27 million
