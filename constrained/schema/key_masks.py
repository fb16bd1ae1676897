"""Sets of the named keys of an object as masks (bit i: key i of the sorted names), linear in their number.

A mask of 100,000 keys takes 12 KB, so that one for each key, or one more for each bit, is a gigabyte to copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_SHORT = 256  # bits below which taking the lowest off, one by one, is faster
_FEW = 64  # set bits of a long mask below which it is, too
_KEPT = 256  # masks that an order keeps


def bits(mask: int) -> list[int]:
    """Return the numbers of the bits that are set."""
    if mask.bit_length() > _SHORT and mask.bit_count() > _FEW:
        return [number for number, digit in enumerate(bin(mask)[:1:-1]) if digit == "1"]
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


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
    """The order in which the schema names the keys.

    keys: by rank.  rank_of: by key.  Invariant: `_behind[i]` are the keys of rank i * _spaced or more.
    """

    __slots__ = ("_behind", "_spaced", "keys", "rank_of")

    def __init__(self, keys: Sequence[int]) -> None:
        self.keys, self._spaced = keys, 1 + len(keys) // _KEPT
        self.rank_of = [0] * len(keys)
        for rank, key in enumerate(keys):
            self.rank_of[key] = rank
        self._behind = [0]
        for first in range(len(keys) - 1 - (len(keys) - 1) % self._spaced, -1, -self._spaced):
            self._behind.append(self._behind[-1] | mask_of(keys[first : first + self._spaced], len(keys)))
        self._behind.reverse()

    def behind(self, rank: int) -> int:
        """Return the keys of a rank or more."""
        if self._spaced == 1:
            return self._behind[rank]
        kept = -(-rank // self._spaced)
        return self._behind[kept] | mask_of(self.keys[rank : kept * self._spaced], len(self.keys))

    def nearest(self, keys: int) -> int:
        """Return the least rank of some keys, at least one.

        Invariant: all of them have a rank of low * _spaced or more, and not all one of high * _spaced or more.
        """
        low, high = 0, len(self._behind) - 1
        while low + 1 < high:
            middle = (low + high) // 2
            if keys & ~self._behind[middle]:
                high = middle
            else:
                low = middle
        if self._spaced == 1:
            return low
        held, ranked = keys.to_bytes(1 + (len(self.keys) >> 3), "little"), self.keys
        return next(
            rank for rank in range(low * self._spaced, len(ranked)) if held[ranked[rank] >> 3] >> (ranked[rank] & 7) & 1
        )
