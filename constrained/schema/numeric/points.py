"""Finitely many magnitudes (members of an enum, values to leave out), asked from the digits that have been read.

Magnitudes are grouped by their digits without zeros at either end, sorted as texts.  Those that can still come are a
slice of that list, since a text with zeros appended keeps its place in the order: 10,000 numbers cost a few binary
searches per digit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from fractions import Fraction

from constrained.schema.numeric.magnitudes import Interval, decimal
from constrained.work import spend_nearby

_MANY = 32  # of a slice, from which on each digit is tried


class Points:
    """Some magnitudes of one sign; `zero` counts with both."""

    __slots__ = ("digits", "places", "zero")

    def __init__(self, values: Collection[Fraction]) -> None:
        """values: all >= 0, each once."""
        spend_nearby(3 * len(values))
        self.zero = not all(values)
        found: dict[str, list[int]] = {}
        for value in values:
            if value:
                digits, point = decimal(value)
                found.setdefault(digits, []).append(point)
        self.digits = sorted(found)
        self.places = [tuple(sorted(found[digits])) for digits in self.digits]  # value = 0.digits × 10^place

    def slice(self, prefix: str) -> tuple[int, int]:
        """Return the magnitudes whose digits, with zeros behind them, start with `prefix`; its first digit is > 0.

        >>> points = Points([*map(Fraction, (1, 10, 101, 11))])
        >>> points.digits, points.slice("10"), points.slice("11")
        (['1', '101', '11'], (0, 2), (2, 3))
        """
        return bisect_left(self.digits, prefix.rstrip("0")), bisect_left(
            self.digits, prefix[:-1] + chr(ord(prefix[-1]) + 1)
        )

    def following(self, prefix: str, start: int, end: int) -> Iterable[int]:
        """Return the digits that one of a slice, with zeros behind it, has behind the prefix of the slice."""
        if end - start > _MANY:
            return range(10)
        at = len(prefix)
        return sorted({int(digits[at]) if at < len(digits) else 0 for digits in self.digits[start:end]})

    def between(self, start: int, end: int) -> Iterable[tuple[str, tuple[int, ...]]]:
        """Return digits and places of a slice."""
        return zip(self.digits[start:end], self.places[start:end], strict=True)

    def exponents(self, prefix: str, start: int, point: int) -> tuple[int, ...]:
        """Return the e for which 0.prefix × 10^(point + e) is one of the magnitudes; `start` is where the slice of the
        prefix starts.
        """
        if start < len(self.digits) and self.digits[start] == prefix.rstrip("0"):
            return tuple([place - point for place in self.places[start]])
        return ()


def outside(interval: Interval, holes: Iterable[int]) -> tuple[Interval, ...]:
    """Return an interval of integers without some of them.

    >>> outside((None, 3), (3, 0))
    ((None, -1), (1, 2))
    """
    found: list[Interval] = []
    low, high = interval
    for hole in sorted(holes):
        if (low is not None and hole < low) or (high is not None and hole > high):
            continue
        if low is None or low < hole:
            found.append((low, hole - 1))
        low = hole + 1
    if high is None or low is None or low <= high:
        found.append((low, high))
    return tuple(found)
