"""Sets of the named keys of an object as masks (bit i: key i of the sorted names), linear in their number.

A mask of 100,000 keys takes 12 KB, so that one for each key, or one more for each bit, is a gigabyte to copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from constrained.work import spend

_SHORT = 256  # bits below which taking the lowest off, one by one, is faster
_FEW = 64  # set bits of a long mask below which it is, too
_KEPT = 256  # masks that an order keeps


def bits(mask: int) -> list[int]:
    """Return the numbers of the bits that are set."""
    if mask.bit_length() > _SHORT and mask.bit_count() > _FEW:
        return [number for number, digit in enumerate(bin(mask)[:1:-1]) if digit == "1"]
    numbers = []
    while mask:
        low = mask & -mask
        numbers.append(low.bit_length() - 1)
        mask ^= low
    return numbers


def mask_of(numbers: Iterable[int], count: int) -> int:
    """Return the mask in which these bits are set, all below `count`."""
    if count <= _SHORT:
        mask = 0
        for number in numbers:
            mask |= 1 << number
        return mask
    bytes_ = bytearray((count >> 3) + 1)
    for number in numbers:
        bytes_[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(bytes_, "little")


class KeyOrder:
    """The order in which the schema names the keys: keys by rank, rank_of by key."""

    __slots__ = ("_behind", "keys", "rank_of")

    def __init__(self, keys: Sequence[int]) -> None:
        self.keys, self.rank_of = keys, [0] * len(keys)
        for rank, key in enumerate(keys):
            self.rank_of[key] = rank
        self._behind: dict[int, int] = {}

    def behind(self, rank: int) -> int:
        """Return the keys of a rank or more."""
        mask = self._behind.get(rank)
        if mask is None:
            before = self._behind.get(rank - 1)
            spend(len(self.keys) >> (4 if before is None else 10))
            if len(self._behind) >= _KEPT:
                self._behind.clear()
            mask = mask_of(self.keys[rank:], len(self.keys)) if before is None else before ^ 1 << self.keys[rank - 1]
            self._behind[rank] = mask
        return mask

    def nearest(self, keys: int) -> int:
        """Return the least rank of some keys, at least one."""
        held = keys.to_bytes(1 + (len(self.keys) >> 3), "little")
        return next(rank for rank, key in enumerate(self.keys) if held[key >> 3] >> (key & 7) & 1)
