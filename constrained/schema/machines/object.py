"""Objects as machines over the set of properties already written: any order, no duplicates, no dead ends.

A position is (which named keys are written, which other keys are, how many, which clauses are still open, which named
keys are behind in schema order) and a phase:

    FIRST ─ key ─► Entry ─ ":" value ─► AFTER ─ "," ─► NEXT ─ key ─► …          "}" where `closable`

A key is offered only if the object can still be completed with it (`completable`).  The named keys are one `LiteralSet`
whose bitmask excludes what may not come now; every other key is read by its cell's language and recorded, so that it
cannot come twice.

Clauses ("a is absent, or b has a value in C") are met by nondeterminism: by an entry (`HasNamed`, `HasOther`,
`Present`) or by what is missing at the end (`Absent`).  For an entry that could meet one there are two values, "in C"
and "outside C"; outside is the exact complement where that is cheap (scalars), so that only one reading survives the
value, and otherwise simply "any", which is also right, because a clause may be met more often than demanded.

Cost: per position one `Edges` of at most 1 + cells + 2 calls, about 5 µs, whatever the number of named keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from constrained.errors import LimitExceeded, UnsupportedSchema
from constrained.machine import (
    END,
    Dispatch,
    Edges,
    LiteralSet,
    MarkerSafe,
    ObjectPlace,
    ObjectTable,
    Quoting,
    State,
    Text,
)
from constrained.once import once
from constrained.regex import ANY_TEXT, Expr, intersect, is_empty
from constrained.schema.key_masks import KeyOrder, bits, mask_of
from constrained.schema.machines.text import never_runs_dry, scarce_from, without_dead_ends
from constrained.schema.normal.unions import of_conj
from constrained.schema.reading.document import NOTHING, both, located, pointer_of
from constrained.schema.surfaces.punctuation import Punctuation, unmarked
from constrained.schema.values import (
    ALWAYS,
    Absent,
    Clause,
    Conj,
    HasNamed,
    HasOther,
    ObjectShape,
    Present,
    Value,
    negation,
)
from constrained.work import frozen_in_turns, sorted_in_turns, spend

if TYPE_CHECKING:
    from constrained.machine import State
    from constrained.schema.surfaces.punctuation import Punctuation


# ======================================================================================================================
# Clauses: which entries meet them, and whether the open ones can still be met
# ======================================================================================================================

Reading: TypeAlias = tuple[Conj, int]  # what the value must be, which clauses are open after it
Entries: TypeAlias = tuple[Reading, ...]
Others: TypeAlias = tuple[tuple[int, Conj], ...]  # keys of cells that are to come: the cell, and what the value must be
Chosen: TypeAlias = tuple[int, int, dict[int, Conj], Others]  # keys that may come, keys that must, their values, others


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


def constants_apart(values: MemberValues, conj: Conj, open_: int, demands: dict[int, list[Conj]]) -> Entries:
    """Split a value by the clauses that all values but a constant meet, and take these out of `demands`.

    A constant leaves its own clauses open and meets the others; clause by clause, n constants take n²/2 conjunctions.
    """
    own: dict[Value, tuple[Conj, int]] = {}
    for clause, demanded in list(demands.items()):
        constant = negation(demanded[0]) if len(demanded) == 1 and len(demanded[0]) == 1 else ALWAYS
        value = of_conj(constant)
        if value is not None and not isinstance(value[0], (list, dict)):
            known = values.value(constant)
            own[known] = own.get(known, (constant, 0))[0], own.get(known, (constant, 0))[1] | clause
            del demands[clause]
    if not own:
        return ((conj, open_),)
    spend(4 * len(own))
    left = open_ & ~sum(clauses for _, clauses in own.values())
    split = [(both(conj, constant), left | clauses) for constant, clauses in own.values()]
    split.append((conj.union(*[negation(constant) for constant, _ in own.values()]), left))
    return tuple([entry for entry in split if not empty(values, entry[0])])


def claims(values: MemberValues, entries: Entries, clause: int, demands: list[Conj]) -> Entries:
    """Split each entry into those that meet a clause by one of its demands, and the one that leaves it open."""
    split: list[tuple[Conj, int]] = []
    for conj, open_ in entries:
        spend(3 * len(demands))
        rest: Conj | None = conj
        for demand in demands:
            assert rest is not None
            claimed = both(rest, demand)
            if empty(values, claimed):
                continue
            outside = beyond(values, rest, demand)
            split.append((rest if outside is None else claimed, open_ & ~clause))
            rest = outside
            if rest is None:
                break
        if rest is not None:
            split.append((rest, open_))
    return tuple(split)


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
        free, critical = ~(at.written | needed | coming), 0
        for absences in others:
            absences &= free
            if not absences:
                return None
            if not absences & (absences - 1):
                critical |= absences
        return critical

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
        """Say whether some choice of one obligation per clause is consistent: depth first, without recursion, the
        clauses with the fewest ways first.

        Invariant: present <= ahead; a key outside both is absent; values: what chosen keys must be beyond their own
        conjunction.
        """
        shape = self._machine.shape
        if len(left) > 1:
            left = sorted(left, key=lambda clause: self._ways(clause, ~(at.written | present), ahead))
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

    def _ways(self, clause: Clause, deniable: int, ahead: int) -> int:
        """Return how many obligations of a clause are not ruled out by the keys that may be absent, and may come."""
        index, ways = self._machine.index, 0
        spend(1 + (len(clause) >> 2))
        for part in clause:
            if isinstance(part, (HasNamed, Absent, Present)):
                ways += (deniable if isinstance(part, Absent) else ahead) >> index[part.key] & 1
            else:
                ways += 1
        return ways

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


# ======================================================================================================================
# What follows a key: the separator and a value
# ======================================================================================================================

class Entry(NamedTuple):
    """A key has been read; the separator and one of several values follow."""

    values: MemberValues
    colon: State
    options: tuple[tuple[Conj, ObjectPosition], ...]

    def expand(self) -> Edges:
        return Edges((), ((self.colon, Begin(self.values, self.options)),))


class Begin(NamedTuple):
    """A value of one of several conjunctions, each with what follows it."""

    values: MemberValues
    options: tuple[tuple[Conj, ObjectPosition], ...]

    def expand(self) -> Edges:
        state = self.values.state
        return Edges((), tuple([(state(conj), after) for conj, after in self.options]))


class NamedKey(Dispatch):
    """What follows the key names[label]."""

    __slots__ = ("at",)

    def __init__(self, at: ObjectPosition) -> None:
        self.at = at

    @property
    def wanted(self) -> int:  # type: ignore[override]  # only asked for
        return self.at.machine.required & ~self.at.written

    def after(self, label: int) -> State | None:
        try:
            return self.at.machine.named_entry(self.at, label)
        except LimitExceeded as error:
            raise located(error, self.at.machine.place) from None


class OtherKey(Dispatch):
    """What follows a key of a cell; keys in `special` are named or written and refused."""

    __slots__ = ("at", "cell", "refused", "special")
    records = alike = keyed = True
    compared = str

    def __init__(self, at: ObjectPosition, cell: int, special: frozenset[str]) -> None:
        self.at, self.cell = at, cell
        self.special = self.refused = special

    @property
    def tells_from(self) -> int | None:  # type: ignore[override]  # only asked for
        return self.at.machine.tells_from(len(self.special) + 1)

    def after_text(self, text: str | None) -> State | None:
        if text in self.special:
            return None
        try:
            return self.at.machine.other_entry(self.at, self.cell, text)
        except LimitExceeded as error:
            raise located(error, self.at.machine.place) from None


# ======================================================================================================================
# Positions, and the machine of a shape
# ======================================================================================================================

FIRST, AFTER, NEXT = range(3)
_NO_KEYS: frozenset[str] = frozenset()
TABLE_QUOTINGS = Quoting.JSON, Quoting.JSON_CANONICAL, Quoting.PYTHON  # quotings of keys that kernels read by a table


class Cell(NamedTuple):
    """Keys that are not named.  endless: infinitely many of them follow every prefix, so that no set of written keys
    uses them up.
    """

    language: Expr
    value: Conj
    endless: bool


_ANY_OTHER = ((ANY_TEXT, ALWAYS),)  # as most objects have it
_ANY_CELLS = (Cell(ANY_TEXT, ALWAYS, True),)


class ObjectPosition(NamedTuple):
    """A position between the brackets; equal positions have equal continuations."""

    machine: ObjectMachine
    phase: int
    padded: bool  # whitespace may come
    written: int  # bit i: names[i]
    others: frozenset[str]
    size: int  # number of written keys, no further than the machine counts
    clauses: int  # bit i: clause i is still open
    rank: int  # named keys of a smaller rank are behind (schema order)

    def expand(self) -> Edges:
        try:
            return self._edges()
        except LimitExceeded as error:
            raise located(error, self.machine.place) from None

    def _tight(self, phase: int) -> ObjectPosition:
        """Return the position in a phase where no whitespace may come.  `_replace` takes 1 µs more."""
        return ObjectPosition(self.machine, phase, False, *self[3:])

    def _edges(self) -> Edges:
        machine, phase, padded, _, _, _, _, _ = self  # all at once; one by one they are found by their names
        spend(6, machine)
        marks = machine.punctuation
        calls: list[tuple[State, State | Dispatch]] = []
        closing = machine.closable(self)
        if phase == AFTER or (marks.objects.leading and phase == FIRST):
            if machine.continues(self) or (closing and marks.objects.trailing):
                calls.append((marks.comma, self._tight(NEXT)))
        else:
            calls += machine.entries(self)
            closing = closing and (phase == FIRST or marks.objects.trailing)
        if padded:
            assert marks.gap is not None
            calls.append((marks.gap, self._tight(phase)))
        end = marks.objects.bare if phase == FIRST and marks.objects.bare else marks.objects.end
        if closing and end is not None:
            calls.append((end, END))
        byte = marks.objects.closing
        return Edges(((byte, byte, END),) if closing and end is None else (), tuple(calls))

    def way_out(self) -> Edges:
        """Return the edges that a shortest way out takes: the object is closed, or the nearest required key comes next.

        The members' order does not change a word's length, so that one order of the required ones stands for all.
        """
        machine, marks = self.machine, self.machine.punctuation
        opening = self.phase == AFTER or (marks.objects.leading and self.phase == FIRST)
        if self.padded:
            return self._replace(padded=False).way_out()
        if opening or machine.closable(self):
            return self.expand()
        return Edges(calls=tuple(machine.entries(self, nearest=True)))

    @property
    def object_table(self) -> ObjectTable | None:
        """The facts from which a kernel runs the object natively, at its start; None where it cannot."""
        return self._table() if self.phase == FIRST and not (self.written or self.others) else None

    def _table(self) -> ObjectTable | None:
        """Return the facts; None: a clause is open of which they say nothing."""
        return self.machine.table if not self.clauses or self.machine.clauses.choices else None

    @property
    def object_place(self) -> ObjectPlace | None:
        """The same further on: where one shape of several is left, or the last clause is met."""
        table = self._table()
        return None if table is None else ObjectPlace(
            table, self.phase, self.padded, self.written, self.others, self.size, self.rank
        )


class ObjectMachine:
    """The machine of one shape; compared by identity."""

    def __init__(
        self, values: MemberValues, shape: ObjectShape, punctuation: Punctuation, conj: Conj = ALWAYS
    ) -> None:
        self.values, self.shape = values, shape
        self.punctuation, self._conj = punctuation, conj
        spend(4 + 2 * len(shape.named), self)
        # A comprehension is a call of Python, and most objects are read for the first time
        self.names: tuple[str, ...] = ()
        self.conjs: tuple[Conj, ...] = ()
        if shape.named:
            ordered = sorted_in_turns(shape.named)
            self.names, self.conjs = tuple(map(itemgetter(0), ordered)), tuple(map(itemgetter(1), ordered))
        self.index: dict[str, int] = {}
        for at, name in enumerate(self.names):  # not in one call of C, as 100,000 keys take as long as a turn
            self.index[name] = at
        self.required = mask_of(map(self.index.__getitem__, shape.required), len(self.names)) if shape.required else 0
        self.special = frozen_in_turns(self.names)
        self._most = shape.max
        self.counts_to = shape.min if shape.max is None else shape.max

    @property
    def start(self) -> ObjectPosition:
        padded = self.punctuation.gap is not None
        return ObjectPosition(self, FIRST, padded, 0, _NO_KEYS, 0, (1 << len(self.shape.clauses)) - 1, 0)

    @property
    def place(self) -> str:
        """The pointer of the schema, for messages."""
        return pointer_of(self._conj)

    # -- what depends on the values; computed when the object is entered -----------------------------------------------

    @once
    def usable(self) -> int:
        """The named keys that may be written at all."""
        never, count = self.values.never, len(self.conjs)
        dead = []
        for at, conj in enumerate(self.conjs):  # a comprehension is a call of Python
            if conj:
                spend()
                if never(conj):
                    dead.append(at)
        return (1 << count) - 1 ^ (mask_of(dead, count) if dead else 0)

    @once
    def cells(self) -> tuple[Cell, ...]:
        if self.shape.cells == _ANY_OTHER and self.punctuation.keys.within is None:
            return _ANY_CELLS
        made = []
        for language, conj in self.shape.cells:
            if self.punctuation.keys.within is not None:
                language = intersect(language, self.punctuation.keys.within)
            if not is_empty(language) and not (conj and self.values.never(conj)):
                made.append(Cell(language, conj, never_runs_dry(language)))
        return tuple(made)

    @once
    def clauses(self) -> Clauses:
        return Clauses(self)

    @once
    def order(self) -> KeyOrder:
        """The order of the schema."""
        return KeyOrder([self.index[name] for name, _ in self.shape.named])

    @once
    def table(self) -> ObjectTable | None:
        """What `machine.ObjectTable` says where no clause is open but those; trailing commas, cells that may run dry,
        and names in order that could be too few need the positions here.
        """
        marks, ordered = self.punctuation, self.values.ordered
        if marks.objects.trailing or marks.objects.leading:
            return None
        quoting = marks.keys.quoting if self.cells else unmarked(marks.keys.quoting, self.names)
        languages, others, endless = zip(*self.cells, strict=True) if self.cells else ((), (), ())
        if False in endless or isinstance(quoting, MarkerSafe) or quoting not in TABLE_QUOTINGS:
            return None
        if ordered and not self.cells and self.shape.min > self.required.bit_count():
            return None
        conjs = (*self.conjs, *others)
        return ObjectTable(
            self.names, self.required, self.usable, self.special, languages,
            lambda which: self.values.state(conjs[which]),
            tuple([None if conj else (marks, ordered) for conj in others]),
            self.shape.min, self.shape.max, quoting, marks.comma, marks.keys.colon, marks.gap, marks.objects.closing,
            self.order.keys if ordered else None,
            self.clauses.choices if self.shape.clauses else (),
        )

    # -- predicates on the set written so far --------------------------------------------------------------------------

    def ahead(self, at: ObjectPosition) -> int:
        """Return the named keys that have not been written and still may be, as far as order and values say."""
        left = self.usable & ~at.written
        return left & self.order.behind(at.rank) if self.values.ordered else left

    def closable(self, at: ObjectPosition) -> bool:
        enough = not self.required & ~at.written and at.size >= self.shape.min
        return enough and (not at.clauses or self.clauses.met(at))

    def completable(self, at: ObjectPosition) -> bool:
        """Say whether some continuation closes the object."""
        needed = self.required & ~at.written
        ahead = self.ahead(at)
        if needed & ~ahead:
            return False
        least = at.size + needed.bit_count()
        if self._most is not None and least > self._most:
            return False
        if least < self.shape.min and not self.cells and at.size + ahead.bit_count() < self.shape.min:
            return False
        return not at.clauses or self.clauses.can_be_met(at, ahead, needed)

    def offered(self, at: ObjectPosition) -> int:
        """Return the named keys that may come now."""
        ahead = self.ahead(at)
        needed = self.required & ~at.written
        if self.values.ordered and needed:
            spend(len(self.names) >> 9)
            ahead &= ~self.order.behind(self.order.nearest(needed) + 1)
        if self._most is not None and at.size + needed.bit_count() >= self._most:
            ahead &= needed
        doubtful = self.clauses.doubtful(at, needed) if at.clauses else 0
        if self.values.ordered and (at.size < self.shape.min or at.clauses):
            doubtful = ahead
        if at.clauses and self._most is not None:
            doubtful = ahead
        for bit in bits(ahead & doubtful):
            if not any(self.named_options(at, bit)):
                ahead &= ~(1 << bit)
        return ahead

    def _offers_other(self, at: ObjectPosition) -> bool:
        needed = self.required & ~at.written
        if not self.cells or (self.values.ordered and needed):
            return False
        return self._most is None or at.size + needed.bit_count() < self._most

    def continues(self, at: ObjectPosition) -> bool:
        """Say whether a key may come."""
        return bool(self.offered(at)) or bool(self.offered_cells(at))

    def offered_cells(self, at: ObjectPosition) -> list[int]:
        """Return the cells of which a key may come now."""
        cells = range(len(self.cells)) if self._offers_other(at) else ()
        spend(2 * len(cells))
        return [cell for cell in cells if any(self.other_options(at, cell)) and self._language(at, cell) is not None]

    # -- keys ----------------------------------------------------------------------------------------------------------

    def entries(self, at: ObjectPosition, *, nearest: bool = False) -> list[tuple[State, State | Dispatch]]:
        """Return the calls that read the next key; nearest: of required ones only the first, if one is missing."""
        quoting = self.punctuation.keys.quoting
        calls: list[tuple[State, State | Dispatch]] = []
        offers = self.offered(at)
        needed = offers & self.required & ~at.written if nearest else 0
        if needed:
            spend(len(self.names) >> 11)  # masks of all the names
            first = self.order.keys[self.order.nearest(needed)]
            return [(Text(quoting, LiteralSet(self.names, ~(1 << first) & ((1 << len(self.names)) - 1))), NamedKey(at))]
        if offers:
            excluded = ~offers & ((1 << len(self.names)) - 1)
            calls.append((Text(quoting, LiteralSet(self.names, excluded)), NamedKey(at)))
        if self._offers_other(at):
            spend(2 * len(self.cells))
            for number in range(len(self.cells)):
                language = self._language(at, number)
                if language is not None and any(self.other_options(at, number)):
                    calls.append((Text(quoting, language), OtherKey(at, number, self._refused(at))))
        return calls

    def _language(self, at: ObjectPosition, number: int) -> Expr | None:
        cell = self.cells[number]
        return cell.language if cell.endless else without_dead_ends(cell.language, self._refused(at))

    def _refused(self, at: ObjectPosition) -> frozenset[str]:
        """Return the names, and the other keys that were written."""
        if not at.others:
            return self.special
        spend(len(self.special) >> 6)
        return self.special | at.others

    def tells_from(self, used: int) -> int | None:
        """Return how many bytes it takes to tell whether a key of a cell is one of those that are used; see
        `Dispatch.tells_from`.
        """
        if self.cells is _ANY_CELLS:
            return None
        numbers = [scarce_from(cell.language, used) for cell in self.cells if not cell.endless]
        characters = min((number for number in numbers if number is not None), default=None)
        return None if characters is None else 3 + characters  # behind colon, value and comma

    def named_entry(self, at: ObjectPosition, bit: int) -> State | None:
        options = tuple(self.named_options(at, bit))
        return Entry(self.values.named(self.names[bit]), self.punctuation.keys.colon, options) if options else None

    def other_entry(self, at: ObjectPosition, cell: int, text: str | None) -> State | None:
        options = tuple(self.other_options(at, cell, text))
        return Entry(self.values, self.punctuation.keys.colon, options) if options else None

    def named_options(self, at: ObjectPosition, bit: int) -> Iterator[tuple[Conj, ObjectPosition]]:
        spend(len(self.names) >> 10)  # masks of all the names, which are kept
        rank = self.order.rank_of[bit] + 1 if self.values.ordered else 0
        written = at.written | 1 << bit
        if self.values.ordered:  # what is behind cannot come: only clauses ask whether it was written
            written |= ~self.order.behind(rank) & ~self.clauses.touched & ((1 << len(self.names)) - 1)
        after = ObjectPosition(
            self, AFTER, self.punctuation.gap is not None, written, at.others, self.counted(at.size), at.clauses, rank
        )
        return self._options(
            self.clauses.named(bit, self.conjs[bit], after) if at.clauses else ((self.conjs[bit], 0),), after
        )

    def other_options(
        self, at: ObjectPosition, cell: int, text: str | None = None
    ) -> Iterator[tuple[Conj, ObjectPosition]]:
        others = at.others if text is None else at.others | {text}
        rank = len(self.names) if self.values.ordered else 0
        after = ObjectPosition(
            self, AFTER, self.punctuation.gap is not None, at.written, others, self.counted(at.size), at.clauses, rank
        )
        conj = self.cells[cell].value
        return self._options(self.clauses.other(cell, conj, after) if at.clauses else ((conj, 0),), after)

    def _options(self, readings: Iterable[Reading], after: ObjectPosition) -> Iterator[tuple[Conj, ObjectPosition]]:
        for conj, clauses in readings:
            option = after if after.clauses == clauses else ObjectPosition(*after[:6], clauses, after.rank)
            if self.completable(option):
                yield conj, option

    def counted(self, count: int) -> int:
        return count + 1 if count < self.counts_to else count
