"""Unions of number languages: what each of several states that read one text still allows.

Bounds: at MOST_STATES a table of unions is emptied, as those of `states` are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from constrained.machine import Language
from constrained.schema.numeric.exponents import Interned, Target
from constrained.work import spend_nearby

MOST_STATES = 20_000


class Both(Interned):
    """The union of several number languages: what each of them still allows.  Invariant: two members or more,
    interned.
    """

    __slots__ = ("members", "goes_on", "_table")

    def __init__(self, members: tuple[Language, ...], table: dict[frozenset[Language], Both]) -> None:
        self.members, self._table = members, table
        self._edges, self.accepts = None, any(member.accepts for member in members)
        self.goes_on = any(getattr(member, "goes_on", False) for member in members)

    def targets(self) -> Iterable[Target]:
        found: dict[int, dict[Language, None]] = {}
        spend_nearby(4 * len(self.members))
        for member in self.members:
            for low, high, target in member.edges():
                for point in range(low, high + 1):
                    found.setdefault(point, {})[target] = None
        for point in sorted(found):
            yield point, point, union(tuple(found[point]), self._table)


def forget(states: dict[Any, Any]) -> None:
    """Empty a table of states; without their edges they hold nothing but themselves."""
    for state in states.values():
        if state is not None:
            state._edges = None
    states.clear()


def union(members: tuple[Language, ...], table: dict[frozenset[Language], Both]) -> Language:
    if len(members) == 1:
        return members[0]
    key = frozenset(members)
    found = table.get(key)
    if found is None:
        spend_nearby(4 + 4 * len(members))
        if len(table) >= MOST_STATES:
            forget(table)
        found = table[key] = Both(members, table)
    return found
