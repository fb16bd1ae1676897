"""The clauses of an object: which entries meet them, and whether the open ones can still be met.

A clause is met by an entry (`HasNamed`, `HasOther`, `Present`) or by what is missing at the end (`Absent`).  For an entry that could
meet one there are two values, "in C" and "outside C"; outside is the exact complement where that is cheap (scalars), so that only one
reading survives the value, and otherwise simply "any", which is also right, because a clause may be met more often than demanded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from constrained.errors import UnsupportedSchema
from constrained.regex import ANY_TEXT, Expr, intersect, is_empty
from constrained.schema.documents import NOTHING, both
from constrained.schema.values import Absent, Clause, Conj, HasNamed, HasOther, Present, negation

if TYPE_CHECKING:
    from constrained.schema.machine_object import ObjectMachine, Position
    from constrained.schema.machine_value import Values

Entries: TypeAlias = tuple[tuple[Conj, int], ...]  # (what the value must be, which clauses are open after it)


def claims(values: Values, entries: Entries, clause: int, demands: list[Conj]) -> Entries:
    """Split each entry into those that meet a clause by one of its demands, and the one that leaves it open."""
    found: list[tuple[Conj, int]] = []
    for conj, open_ in entries:
        rest: Conj | None = conj
        for demand in demands:
            assert rest is not None
            claimed = both(rest, demand)
            if empty(values, claimed):
                continue
            outside = beyond(values, rest, demand)
            found.append((rest if outside is None else claimed, open_ & ~clause))
            rest = outside
            if rest is None:
                break
        if rest is not None:
            found.append((rest, open_))
    return tuple(found)


def empty(values: Values, conj: Conj) -> bool:
    return bool(conj) and (conj == NOTHING or values.never(conj))


def beyond(values: Values, conj: Conj, demand: Conj) -> Conj | None:
    """Return the part of `conj` outside `demand`, or all of it where that is no simpler; None if nothing is outside."""
    if len(demand) != 1:
        return None if demand <= conj else conj
    outside = both(conj, negation(demand))
    try:
        if empty(values, outside):
            return None
        value = values.value(outside)
    except UnsupportedSchema:
        return conj
    return conj if value.arrays or value.objects else outside


class Clauses:
    """The clauses of one object machine; a set of them is a bitmask."""

    def __init__(self, machine: ObjectMachine) -> None:
        self._machine = machine
        self._clauses: tuple[Clause, ...] = machine.shape.clauses
        self.all = (1 << len(self._clauses)) - 1
        self.touched = 0  # named keys that some clause speaks of
        self._present: dict[int, int] = {}
        self._named: dict[int, dict[int, list[Conj]]] = {}
        for number, clause in enumerate(self._clauses):
            for part in clause:
                if isinstance(part, HasOther):
                    continue
                assert isinstance(part, (HasNamed, Absent, Present))
                bit = machine.index[part.key]
                self.touched |= 1 << bit
                if isinstance(part, Present):
                    self._present[bit] = self._present.get(bit, 0) | 1 << number
                elif isinstance(part, HasNamed):
                    self._named.setdefault(bit, {}).setdefault(1 << number, []).append(part.value)

    def _open(self, mask: int) -> list[Clause]:
        return [clause for number, clause in enumerate(self._clauses) if mask >> number & 1]

    def met(self, at: Position) -> bool:
        """Say whether the object may end here as far as the open clauses go."""
        index = self._machine.index
        return all(
            any(isinstance(part, Absent) and not at.written >> index[part.key] & 1 for part in clause) for clause in self._open(at.clauses))

    def named(self, bit: int, conj: Conj, open_: int) -> Entries:
        """Return the ways to write a named key."""
        open_ &= ~self._present.get(bit, 0)
        entries: Entries = ((conj, open_),)
        for clause, demands in self._named.get(bit, {}).items():
            if open_ & clause:
                entries = claims(self._machine.values, entries, clause, demands)
        return entries

    def other(self, cell: int, conj: Conj, open_: int) -> Entries:
        """Return the ways to write a key of a cell."""
        entries: Entries = ((conj, open_),)
        for number, clause in enumerate(self._clauses):
            demands = [part.value for part in clause if isinstance(part, HasOther) and self._inside(cell, part.keys)]
            if demands and open_ >> number & 1:
                entries = claims(self._machine.values, entries, 1 << number, demands)
        return entries

    def _inside(self, cell: int, keys: Expr) -> bool:
        language = self._machine.cells[cell].language
        return keys is ANY_TEXT or keys is language or not is_empty(intersect(language, keys))

    def can_be_met(self, at: Position, ahead: int, needed: int) -> bool:
        """Say whether the object can be completed so that the open clauses are met.

        ahead, needed: the named keys that may still come, and that must.  Tries the ways to meet each clause, depth first; a clause
        has few, and the first combination is nearly always consistent.
        """
        return self._solve(self._open(at.clauses), at, ahead, needed, {}, ())

    def _solve(
        self, left: list[Clause], at: Position, ahead: int, present: int, values: dict[int, Conj], others: tuple[tuple[int, Conj], ...],
    ) -> bool:
        """Invariant: present <= ahead; a key outside both is absent; values: what chosen keys must be beyond their own conjunction."""
        machine = self._machine
        shape = machine.shape
        if shape.max is not None and at.size + present.bit_count() + len(others) > shape.max:
            return False
        if not left:
            return at.size + ahead.bit_count() >= shape.min or bool(machine.cells)
        clause, rest = left[0], left[1:]
        for part in clause:
            if isinstance(part, HasOther):
                if self._solve_other(part, rest, at, ahead, present, values, others):
                    return True
                continue
            assert isinstance(part, (HasNamed, Absent, Present))
            bit = machine.index[part.key]
            mask = 1 << bit
            if isinstance(part, Absent):
                if not (at.written | present) & mask and self._solve(rest, at, ahead & ~mask, present, values, others):
                    return True
            elif ahead & mask:
                chosen = values
                if isinstance(part, HasNamed):
                    joined = both(values.get(bit, machine.conjs[bit]), part.value)
                    if empty(machine.values, joined):
                        continue
                    chosen = {**values, bit: joined}
                if self._solve(rest, at, ahead, present | mask, chosen, others):
                    return True
        return False

    def _solve_other(
        self, part: HasOther, rest: list[Clause], at: Position, ahead: int, present: int, values: dict[int, Conj],
        others: tuple[tuple[int, Conj], ...],
    ) -> bool:
        machine = self._machine
        for number, cell in enumerate(machine.cells):
            if not self._inside(number, part.keys):
                continue
            for place, (same, old) in enumerate(others):
                joined = both(old, part.value)
                if same == number and not empty(machine.values, joined):
                    shared = (*others[:place], (number, joined), *others[place + 1 :])
                    if self._solve(rest, at, ahead, present, values, shared):
                        return True
            joined = both(cell.value, part.value)
            if not empty(machine.values, joined) and self._solve(rest, at, ahead, present, values, (*others, (number, joined))):
                return True
        return False
