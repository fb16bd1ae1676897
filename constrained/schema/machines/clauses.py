"""The clauses of an object: which entries meet them, and whether the open ones can still be met.

A clause is met by an entry (`HasNamed`, `HasOther`, `Present`) or by what is missing at the end (`Absent`).  For an
entry that could meet one there are two values, "in C" and "outside C"; outside is the exact complement where that is
cheap (scalars), so that only one reading survives the value, and otherwise simply "any", which is also right, because a
clause may be met more often than demanded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from constrained.errors import UnsupportedSchema
from constrained.once import once
from constrained.regex import ANY_TEXT, Expr, intersect, is_empty
from constrained.schema.key_masks import bits
from constrained.schema.reading.document import NOTHING, both
from constrained.schema.values import Absent, Clause, Conj, HasNamed, HasOther, Present, Value, negation
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.machine import State
    from constrained.schema.machines.object import ObjectMachine, ObjectPosition
    from constrained.schema.machines.punctuation import Punctuation

Reading: TypeAlias = tuple[Conj, int]  # what the value must be, which clauses are open after it
Entries: TypeAlias = tuple[Reading, ...]
Others: TypeAlias = tuple[tuple[int, Conj], ...]  # keys of cells that are to come: the cell, and what the value must be
Chosen: TypeAlias = tuple[int, int, dict[int, Conj], Others]  # keys that may come, keys that must, their values, others

_WORTH_IT = 8  # clauses that anything but a constant meets, from which on they are looked at together


class MemberValues(Protocol):
    """What an object or array asks about what is in it: `value.Values`, or what writes them otherwise."""

    ordered: bool  # members come in the order of the schema
    punctuation: Punctuation
    value: Callable[[Conj], Value]

    def state(self, conj: Conj) -> State: ...
    def never(self, conj: Conj) -> bool: ...

    def named(self, name: str) -> MemberValues:
        """Return what writes the values of one member."""
        ...


class Plan(NamedTuple):
    """What a reading leaves to the rest of the object: `left` is met, `present` comes, nothing outside `ahead` does.

    values: what some keys must be, if they come, beyond their own conjunction.  Invariant: present <= ahead.
    """

    left: tuple[Clause, ...]
    ahead: int
    present: int
    values: dict[int, Conj]


def claims(values: MemberValues, entries: Entries, clause: int, demands: list[Conj]) -> Entries:
    """Split each entry into those that meet a clause by one of its demands, and the one that leaves it open."""
    found: list[tuple[Conj, int]] = []
    for conj, open_ in entries:
        spend(3 * len(demands))
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


def told_apart(values: MemberValues, entries: Entries, demands: dict[int, list[Conj]]) -> tuple[Entries, set[int]]:
    """Split each entry by the clauses that anything but one scalar constant meets, all of them at once: a constant
    leaves its own clauses open and meets the others.

    demands: by clause.  Return the entries and the clauses that are done.
    PERF: clause by clause, as `claims` does, n of them take n²/2 conjunctions of up to n signed nodes.
    """
    constants: dict[Value, tuple[Conj, int]] = {}
    done: set[int] = set()
    for clause, demanded in demands.items():
        if len(demanded) == 1 and _denies_scalar(demanded[0]):
            value = values.value(negation(demanded[0]))
            conj, bits = constants.get(value, (negation(demanded[0]), 0))
            constants[value] = conj, bits | clause
            done.add(clause)
    if len(done) < _WORTH_IT:
        return entries, set()
    every, found = sum(done), []
    for conj, open_ in entries:
        rest = conj
        for constant, bits in constants.values():
            spend(4)
            if not empty(values, both(conj, constant)):
                found.append((both(conj, constant), open_ & (bits | ~every)))
                rest |= negation(constant)
        if not empty(values, rest):
            found.append((rest, open_ & ~every))
    return tuple(found), done


def _denies_scalar(demand: Conj) -> bool:
    """Say whether a conjunction is everything but one constant that is no array and no object."""
    signed = next(iter(demand)) if len(demand) == 1 else None
    schema = None if signed is None or signed.positive else signed.node.schema
    return type(schema) is dict and schema.keys() == {"const"} and type(schema["const"]) not in (list, dict)


def empty(values: MemberValues, conj: Conj) -> bool:
    return bool(conj) and (conj == NOTHING or values.never(conj))


def beyond(values: MemberValues, conj: Conj, demand: Conj) -> Conj | None:
    """Return the part of `conj` outside `demand`, or all of it where that is no simpler; None if nothing is outside."""
    if len(demand) != 1:
        return None if demand <= conj else conj
    outside = both(conj, negation(demand))
    try:
        if empty(values, outside):
            return None
    except UnsupportedSchema:
        return conj
    return outside if reads_simply(values, outside) else conj


def reads_simply(values: MemberValues, conj: Conj) -> bool:
    """Say whether reading exactly these values costs no more than reading any: one shape without conditions."""
    try:
        value = values.value(conj)
    except UnsupportedSchema:
        return False
    several = len(value.arrays) > 1 or len(value.objects) > 1
    return (
        not several
        and not any(shape.counts or shape.clauses or shape.unique is not None for shape in value.arrays)
        and not any(shape.clauses for shape in value.objects)
    )


class Clauses:
    """The clauses of one object machine; a set of them is a bitmask."""

    def __init__(self, machine: ObjectMachine) -> None:
        self._machine = machine
        self._clauses: tuple[Clause, ...] = machine.shape.clauses
        self.all = (1 << len(self._clauses)) - 1
        self.touched = 0  # named keys that some clause speaks of
        self.denied = 0  # … and by whose absence one can be met; to write any other key never hurts
        self._absences = [0] * len(self._clauses)  # by clause: the named keys by whose absence it can be met
        self._presences = [0] * len(self._clauses)  # … by whose presence, whatever the value
        self._present: dict[int, int] = {}
        self._named: dict[int, dict[int, list[Conj]]] = {}
        self._others: dict[int, list[HasOther]] = {}
        for number, clause in enumerate(self._clauses):
            for part in clause:
                if isinstance(part, HasOther):
                    self._others.setdefault(number, []).append(part)
                    continue
                assert isinstance(part, (HasNamed, Absent, Present))
                bit = machine.index[part.key]
                self.touched |= 1 << bit
                if isinstance(part, Absent):
                    self.denied |= 1 << bit
                    self._absences[number] |= 1 << bit
                elif isinstance(part, Present):
                    self._present[bit] = self._present.get(bit, 0) | 1 << number
                    self._presences[number] |= 1 << bit
                elif isinstance(part, HasNamed):
                    self._named.setdefault(bit, {}).setdefault(1 << number, []).append(part.value)

    @once
    def choices(self) -> tuple[int, ...]:
        """For each clause the named keys of which one must be written; empty: that is not all there is to them."""
        machine, simple = self._machine, all(isinstance(part, Present) for clause in self._clauses for part in clause)
        if not simple or machine.shape.max is not None or machine.values.ordered:
            return ()
        return tuple(self._presences) if all(keys & machine.usable for keys in self._presences) else ()

    def _open(self, mask: int) -> list[Clause]:
        return [clause for number, clause in enumerate(self._clauses) if mask >> number & 1]

    def met(self, at: ObjectPosition) -> bool:
        """Say whether the object may end here as far as the open clauses go."""
        left, absences, written = at.clauses, self._absences, at.written
        while left:
            if not absences[(left & -left).bit_length() - 1] & ~written:
                return False
            left &= left - 1
        return True

    def named(self, bit: int, conj: Conj, after: ObjectPosition) -> Iterator[Reading]:
        """Yield the ways to write a named key; `after` is the position behind it, with the clauses that were open
        before it.
        """
        open_ = after.clauses & ~self._present.get(bit, 0)
        parts = [(clause, demands) for clause, demands in self._named.get(bit, {}).items() if open_ & clause]
        return self._readings(conj, open_, parts, after, bit) if parts else iter(((conj, open_),))

    def other(self, cell: int, conj: Conj, after: ObjectPosition) -> Iterator[Reading]:
        """Yield the ways to write a key of a cell."""
        open_ = after.clauses
        parts = []
        for number, wanted in self._others.items():
            demands = [part.value for part in wanted if self._inside(cell, part.keys)]
            if demands and open_ >> number & 1:
                parts.append((1 << number, demands))
        return self._readings(conj, open_, parts, after, None) if parts else iter(((conj, open_),))

    def _readings(
        self, conj: Conj, open_: int, parts: list[tuple[int, list[Conj]]], after: ObjectPosition, bit: int | None,
    ) -> Iterator[Reading]:
        """Yield the ways to meet some of the clauses by a value and leave the others to the rest of the object.

        parts: the clauses that the value could meet, and what it must be for that.  Where "in C" and "outside C"
        exclude each other, a value has one reading.  Where the rest may be in C as well, the reading that meets the
        clause is only needed for rests that do not meet it: without that, n clauses on one key (the members of a oneOf)
        had 2ⁿ readings, most of which no rest asks for.
        """
        values = self._machine.values
        ahead, needed = self._machine.ahead(after), self._machine.required & ~after.written
        elsewhere = tuple(self._open(open_ & ~sum(clause for clause, _ in parts)))
        todo = [(conj, open_, 0, Plan(elsewhere, ahead, needed, {}))]
        while todo:
            rest, open_, number, plan = todo.pop()
            spend(8 + len(plan.left) // 8)
            if number == len(parts):
                yield rest, open_
                continue
            clause, demands = parts[number]
            following = []
            outside: Conj | None = rest
            for demand in demands:
                assert outside is not None
                rest, claimed = outside, both(outside, demand)
                if empty(values, claimed):
                    continue
                outside = beyond(values, rest, demand)
                needy = self._failing(clause, plan, after, bit) if outside is rest else plan
                if needy is not None:
                    following.append((rest if outside is None else claimed, open_ & ~clause, number + 1, needy))
                if outside is None:
                    break
            if outside is not None:
                plan = plan._replace(left=(*plan.left, *self._open(clause)))
                if self._is_possible(plan, after):
                    following.append((outside, open_, number + 1, plan))
            todo.extend(reversed(following))

    def _failing(self, mask: int, plan: Plan, after: ObjectPosition, but: int | None) -> Plan | None:
        """Return the plan of the rests that, besides, do not meet a clause (by keys other than `but`), None if there
        are none.
        """
        (clause,) = self._open(mask)
        ahead, present, values = plan.ahead, plan.present, plan.values
        for part in clause:
            if isinstance(part, HasOther):
                continue
            assert isinstance(part, (HasNamed, Absent, Present))
            bit = self._machine.index[part.key]
            key = 1 << bit
            if bit == but or after.written & key:
                continue
            if isinstance(part, Absent):
                present |= key
            elif isinstance(part, Present):
                ahead &= ~key
            elif ahead & key and len(part.value) == 1:
                outside = both(values.get(bit, self._machine.conjs[bit]), negation(part.value))
                if self._surely_empty(outside):
                    ahead &= ~key
                values = {**values, bit: outside}
        plan = Plan(plan.left, ahead, present, values)
        return plan if not present & ~ahead and self._is_possible(plan, after) else None

    def _surely_empty(self, conj: Conj) -> bool:
        try:
            return empty(self._machine.values, conj)
        except UnsupportedSchema:
            return False

    def _is_possible(self, plan: Plan, after: ObjectPosition) -> bool:
        return self._solve(list(plan.left), after, plan.ahead, plan.present, plan.values, ())

    def _inside(self, cell: int, keys: Expr) -> bool:
        language = self._machine.cells[cell].language
        return keys is ANY_TEXT or keys is language or not is_empty(intersect(language, keys))

    def doubtful(self, at: ObjectPosition, needed: int) -> int:
        """Return the named keys that, if they come, may leave some clause without a way to be met."""
        critical = self._critical(at, needed)
        return self.denied if critical is None else critical

    def _critical(self, at: ObjectPosition, needed: int) -> int | None:
        """Return the keys each of which is the last by whose absence some clause can be met; None if absence does not
        do for all of them.

        Where there is no greatest number of keys, a key that is to come meets the clauses that want it, so that these
        ask for no absence: a thousand keys that require each other are looked at one by one.
        """
        shape = self._machine.shape
        if at.size + needed.bit_count() < shape.min and not self._machine.cells:
            return None
        spend(2 + len(self._clauses) // 4)
        ahead = self._machine.ahead(at) if shape.max is None else 0
        coming, others = 0, []
        for number in bits(at.clauses):
            presences = self._presences[number] & ahead
            coming |= presences & -presences
            if not presences:
                others.append(self._absences[number])
        free, found = ~(at.written | needed | coming), 0
        for absences in others:
            absences &= free
            if not absences:
                return None
            if not absences & (absences - 1):
                found |= absences
        return found

    def can_be_met(self, at: ObjectPosition, ahead: int, needed: int) -> bool:
        """Say whether the object can be completed so that the open clauses are met.

        ahead, needed: the named keys that may still come, and that must.  Tries the ways to meet each clause, depth
        first; a clause has few, and the first combination is nearly always consistent.  Before that: whether all can be
        met by what is absent.
        """
        return self._critical(at, needed) is not None or self._solve(self._open(at.clauses), at, ahead, needed, {}, ())

    def _solve(
        self, left: list[Clause], at: ObjectPosition, ahead: int, present: int, values: dict[int, Conj], others: Others,
    ) -> bool:
        """Say whether some choice of one obligation per clause is consistent: depth first, without recursion.

        Invariant: present <= ahead; a key outside both is absent; values: what chosen keys must be beyond their own
        conjunction.
        """
        shape = self._machine.shape
        choices: list[Iterator[Chosen]] = [iter(((ahead, present, values, others),))]
        while choices:
            chosen = next(choices[-1], None)
            if chosen is None:
                choices.pop()
                continue
            ahead, present, values, others = chosen
            if shape.max is not None and at.size + present.bit_count() + len(others) > shape.max:
                continue
            if len(choices) <= len(left):
                choices.append(self._choices(left[len(choices) - 1], at, chosen))
            elif at.size + ahead.bit_count() >= shape.min or self._machine.cells:
                return True
        return False

    def _choices(self, clause: Clause, at: ObjectPosition, chosen: Chosen) -> Iterator[Chosen]:
        """Yield the ways to meet a clause."""
        machine = self._machine
        ahead, present, values, others = chosen
        spend(4 + len(clause))
        for part in clause:
            if isinstance(part, HasOther):
                yield from self._other_choices(part, chosen)
                continue
            assert isinstance(part, (HasNamed, Absent, Present))
            bit = machine.index[part.key]
            mask = 1 << bit
            if isinstance(part, Absent):
                if not (at.written | present) & mask:
                    yield ahead & ~mask, present, values, others
            elif ahead & mask:
                if isinstance(part, HasNamed):
                    joined = both(values.get(bit, machine.conjs[bit]), part.value)
                    if not empty(machine.values, joined):
                        yield ahead, present | mask, {**values, bit: joined}, others
                else:
                    yield ahead, present | mask, values, others

    def _other_choices(self, part: HasOther, chosen: Chosen) -> Iterator[Chosen]:
        machine = self._machine
        ahead, present, values, others = chosen
        for number, cell in enumerate(machine.cells):
            if not self._inside(number, part.keys):
                continue
            for place, (same, old) in enumerate(others):
                joined = both(old, part.value)
                if same == number and not empty(machine.values, joined):
                    yield ahead, present, values, (*others[:place], (number, joined), *others[place + 1 :])
            joined = both(cell.value, part.value)
            if not empty(machine.values, joined):
                yield ahead, present, values, (*others, (number, joined))
