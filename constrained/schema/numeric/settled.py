"""States of numbers whose digits no bound is compared with any more: what is left of the bounds is an interval of
exponents, and states are those of all sets of numbers.

    "7" of the numbers up to 20   ─┐
    "7" of the numbers up to 30    ├─►  least <= e <= most, for the value so far times 10^e
    "43" of the numbers up to 200 ─┘

A digit before the point moves the interval, one behind it does not.  Of whole numbers, each digit behind the point that
is no trailing zero asks for an exponent more.  Spellings of one value in which numbers have one form each
(`NumberSpelling.canonical`) are left to `states`, as are divisors other than 1 and numbers that are left out.

What tells two states apart may be farther away than any token of a vocabulary reaches: then they have one mask, that of
the state which `for_digits` returns.

Plain twin: `states.Mantissa`, which also reads these; compared in tests/test_numbers.py.  This module is in turn the
plain twin of `_scan.SettledStates`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from constrained.caches import charge, forgets
from constrained.schema.numeric.exponents import (
    FRACTION,
    POINT,
    WHOLE,
    ExponentStart,
    Interned,
    NumberSpelling,
    Target,
    exponent,
)
from constrained.work import spend_nearby

try:
    from constrained.schema._scan import SettledStates as QuickStates
except ImportError:  # no compiler
    QuickStates = None

Key: TypeAlias = tuple[int, int | None, int | None, bool, int, int, bool]

MOST_STATES = 20_000
_STATE = 600  # bytes, estimated
_ONE, _NINE, _ZERO = ord("1"), ord("9"), ord("0")


class Settled(Interned):
    """A state behind a digit > 0, before any exponent; `key` is as `SettledStates.state` takes it."""

    __slots__ = ("_key", "_least", "_most", "_table")
    goes_on = True  # by a zero, or an exponent of zero more

    def __init__(self, table: SettledStates, key: Key, least: int | None, most: int | None) -> None:
        """least, most: what the exponent lies between."""
        self._table, self._key, self._least, self._most = table, key, least, most
        self._edges = None
        ends = not key[6] and (key[0] != POINT or table.spelling.bare_point)
        self.accepts = ends and (least is None or least <= 0) and (most is None or most >= 0)

    def targets(self) -> Iterable[Target]:
        phase, least, most, whole, zeros, fraction, gap = self._key
        state, spelling = self._table.state, self._table.spelling
        found: list[Target] = []
        if phase == WHOLE:
            if not gap:
                found.append((46, 46, state(POINT, least, most, whole, zeros, fraction, False)))
            least = None if least is None else least - 1
            most = None if most is None else most - 1
        else:
            phase, fraction = FRACTION, fraction + whole
        zero = state(phase, least, most, whole, zeros + whole, fraction, False)
        other = state(phase, least, most, whole, 0, fraction, False) if whole else zero
        found += ((_ZERO, _ZERO, zero), (_ONE, _NINE, other))
        if gap:
            return found
        behind_point = self._key[0] == POINT
        after_e = None if behind_point and not spelling.bare_point else self._table.exponent(self._least, self._most)
        found.append((69, 69, after_e))
        if spelling.underscores and not behind_point:
            found.append((95, 95, state(*self._key[:6], True)))
        found.append((101, 101, after_e))
        return found

    def for_digits(self, digits: int) -> Settled:
        """Return a state that agrees on all texts of up to `digits` digits, none of them behind an "e": few have to.

        >>> state = settled_states(NumberSpelling()).state
        >>> first, other = state(WHOLE, -4, 3, True, 2, 0, False), state(WHOLE, None, 9, True, 0, 0, False)
        >>> first.for_digits(2) is other.for_digits(2), first.for_digits(4) is other.for_digits(4)
        (True, False)
        """
        found = self._table.state(*within(self._key, digits))
        assert found is not None
        return found


def within(key: Key, digits: int) -> Key:
    """Return what is left of a key where only so many digits follow, none of them in an exponent.

    Of the interval it is only asked whether it contains 0 after k <= digits digits before the point, and on which sides
    of 0 it has members; of whole numbers also whether it reaches F - Z, for F digits behind the point of which the last
    Z are zeros.  Invariant: F > 0 where a digit behind the point was read, else F = 0.
    """
    phase, least, most, whole, zeros, fraction, gap = key
    ahead = digits if phase == WHOLE else 0  # digits that may move the interval
    least = None if least is None or least <= 0 else min(least, ahead + 1)
    if most is not None and most < 0:  # whole ones go on with zeros only
        most, fraction = -1, min(fraction, 1)
        zeros = fraction + whole
    elif fraction:
        most = None if most is None or most - fraction >= digits else 1 + max(most - fraction, 0)
        zeros, fraction = int(zeros >= fraction), 1
    else:
        most = None if most is None or most >= (digits if whole else ahead) else most
        zeros = 0
    return phase, least, most, whole, zeros, fraction, gap


class SettledStates:
    """The states of one spelling, and the exponents behind them."""

    __slots__ = ("_exponents", "_states", "spelling")

    def __init__(self, spelling: NumberSpelling) -> None:
        self.spelling = spelling
        self._states: dict[Key, Settled | None] = {}
        self._exponents: dict[tuple[int | None, int | None], ExponentStart | None] = {}

    def state(
        self, phase: int, least: int | None, most: int | None, whole: bool, zeros: int, fraction: int, gap: bool
    ) -> Settled | None:
        """Return the state of numbers of some digits times 10^e that lie within the bounds where least <= e <= most;
        None if there is none.

        phase: WHOLE, POINT or FRACTION.  whole: only whole numbers, of whose digits `zeros` at the end are 0 and
        `fraction` stand behind the point; 0 where any are meant.  gap: the last character was an underscore.
        """
        key = phase, least, most, whole, zeros, fraction, gap
        found = self._states.get(key)
        if found is None and key not in self._states:
            spend_nearby(2)
            if len(self._states) >= MOST_STATES:
                self.forget()
            if whole and (least is None or least < fraction - zeros):
                least = fraction - zeros
            if least is None or most is None or least <= most:
                found = Settled(self, key, least, most)
            charge(_STATE)
            found = self._states.setdefault(key, found)
        return found

    def exponent(self, least: int | None, most: int | None) -> ExponentStart | None:
        """Return the state after an "e" that is followed by an exponent from `least` to `most`.

        PERF: a spelling is hashed by a call of Python.
        """
        found = self._exponents.get((least, most))
        if found is None:
            found = self._exponents[least, most] = exponent((least, most), self.spelling)
        return found

    def forget(self) -> None:
        """Empty the tables; without their edges states hold nothing but themselves."""
        for state in [*self._states.values()]:
            if state is not None:
                state._edges = None
        self._states.clear()
        self._exponents.clear()


_tables: dict[NumberSpelling, SettledStates] = {}


def settled_states(spelling: NumberSpelling) -> SettledStates:
    """Return the states of a spelling that is not canonical."""
    known = _tables.get(spelling)
    if known is None:
        made = SettledStates(spelling) if QuickStates is None else QuickStates(spelling, exponent)
        known = _tables.setdefault(spelling, made)
    return known


@forgets
def _forget() -> None:
    for table in [*_tables.values()]:
        table.forget()
