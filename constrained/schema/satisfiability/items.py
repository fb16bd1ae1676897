"""Satisfiability of an array's items: counts (`contains`), items wanted somewhere, and bounds on the length.

Each condition becomes a demand: "this many items more belong to C", perhaps "and no more than so many".  An item may
serve several demands, so the search goes item by item over sets of demands that one item can serve together, the
largest first, and tries a set many times at once.  It looks at no more sets than it needs, gives up where demands that
exclude each other outnumber the room, and never tries a set after a larger one has failed.  So it is linear for
satisfiable conditions as people write them; the worst case (the problem contains set cover) runs into the budget of
work.

Refused: all sets at once (2ⁿ of them for n overlapping conditions), and a flow over them (which needs them listed).
Left out: arrays whose items must be different, see `shapes`.  Tested by tests/test_schema_laws.py and
tests/test_satisfiability.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from constrained.schema.reading.nodes import both, ordered
from constrained.schema.sketches.arrays import denials
from constrained.schema.values import (
    ArrayShape,
    Clause,
    Conj,
    ItemAt,
    ItemFrom,
    LengthAtLeast,
    LengthBelow,
    Obligation,
    negation,
)
from constrained.work import spend

Ask: TypeAlias = Callable[[Conj], bool]


class Bounds(NamedTuple):
    """One way to meet the clauses: the length lies between, some items are fixed, some are wanted anywhere."""

    least: int
    most: int | None
    fixed: tuple[ItemAt, ...]
    wanted: tuple[ItemFrom, ...]


class _ItemDemand(NamedTuple):
    """Items from `start` on that belong to `item`; capped: there is a greatest number of them."""

    item: Conj
    start: int
    capped: bool


class _Remaining(NamedTuple):
    """What is still to come."""

    length: int
    needs: tuple[int, ...]  # per demand
    room: tuple[int, ...]  # per demand: how many may still come; 0 where there is no greatest number


def choices(
    shape: ArrayShape, clauses: tuple[Clause, ...], length: int = 0, ask: Ask | None = None
) -> Iterator[Bounds]:
    """Yield the ways to pick an obligation from each clause that items from number `length` on can meet; `ask` leaves
    out those of which some item has no value.
    """
    todo = [(0, Bounds(shape.min, shape.max, (), ()))]
    while todo:
        at, bounds = todo.pop()
        least, most, fixed, wanted = bounds
        if most is not None and most < max(least, length):
            continue
        if at == len(clauses):
            yield bounds
            continue
        spend(3 + 3 * len(clauses[at]))
        for part in sorted(clauses[at], key=_preference, reverse=True):
            if isinstance(part, LengthBelow):
                following = bounds._replace(most=part.length - 1 if most is None else min(most, part.length - 1))
            elif isinstance(part, LengthAtLeast):
                following = bounds._replace(least=max(least, part.length))
            elif isinstance(part, ItemAt):
                if part.index < length or ask is not None and not ask(_joined(shape, part, fixed)):
                    continue
                following = bounds._replace(least=max(least, part.index + 1), fixed=(*fixed, part))
            else:
                assert isinstance(part, ItemFrom)
                following = bounds._replace(least=max(least, part.index + 1), wanted=(*wanted, part))
            todo.append((at + 1, following))


def _joined(shape: ArrayShape, part: ItemAt, fixed: tuple[ItemAt, ...]) -> Conj:
    """Return what an item has to be by its place, by what was picked before, and by one obligation more."""
    spend(2 + (len(fixed) >> 3))
    found = both(shape.prefix[part.index] if part.index < len(shape.prefix) else shape.rest, part.item)
    for other in fixed:
        if other.index == part.index:
            found = both(found, other.item)
    return found


def _preference(part: Obligation) -> tuple[int, int, list[tuple[int, bool]]]:
    """Return what parts of a clause are tried by, the same in every process: neither hashes nor addresses count."""
    kind = (LengthBelow, LengthAtLeast, ItemAt, ItemFrom).index(type(part))
    if isinstance(part, (LengthBelow, LengthAtLeast)):
        return kind, part.length, []
    assert isinstance(part, (ItemAt, ItemFrom))
    return kind, part.index, [(signed.node.serial, signed.positive) for signed in ordered(part.item)]


class Completion:
    """A search for the items from number `length` on, where `counted` items have met each count so far."""

    def __init__(
        self,
        shape: ArrayShape,
        bounds: Bounds,
        ask: Ask,
        length: int,
        counted: tuple[int, ...],
        known: dict[Conj | None, bool],
    ) -> None:
        self._shape, self._bounds, self._ask = shape, bounds, ask
        self._fixed: dict[int, Conj] = {}
        spend(len(bounds.fixed))
        for part in bounds.fixed:
            self._fixed[part.index] = both(self._fixed.get(part.index, frozenset()), part.item)
        counts = shape.counts
        self._demands = [_ItemDemand(count.item, 0, count.max is not None) for count in counts]
        self._demands += [_ItemDemand(part.item, part.index, False) for part in bounds.wanted]
        needs = [max(0, count.min - number) for count, number in zip(counts, counted, strict=True)] + [1] * len(
            bounds.wanted
        )
        room = [
            0 if count.max is None else count.max - number for count, number in zip(counts, counted, strict=True)
        ] + [0] * len(bounds.wanted)
        self._start = _Remaining(length, tuple(needs), tuple(room))
        self._alike = max(
            [len(shape.prefix), *(index + 1 for index in self._fixed), *(part.index for part in bounds.wanted)]
        )
        self._exclusive: dict[tuple[int, int], bool] = {}
        self._known = known

    def exists(self) -> bool:
        """Return whether some items do."""
        if self._complete(self._start) or self._one_by_one():
            return True
        if not all(self._can_serve(number) for number, need in enumerate(self._start.needs) if need):
            return False
        stack = [self._following(self._start)]
        seen = {self._start}
        while stack:
            state = next(stack[-1], None)
            if state is None:
                stack.pop()
                continue
            if state in seen:
                continue
            if self._complete(state):
                return True
            seen.add(state)
            spend(6 + len(state.needs))
            stack.append(self._following(state))
        return False

    def _can_serve(self, number: int) -> bool:
        """Return whether some position has an item for a demand.  What this asks first spares the search while answers
        are still open.
        """
        item, start, _ = self._demands[number]
        prefix = self._shape.prefix
        first = max(start, self._start.length)
        last = self._alike if self._bounds.most is None else min(self._alike, self._bounds.most - 1)
        conjs = dict.fromkeys(
            both(prefix[index] if index < len(prefix) else self._shape.rest, self._fixed.get(index, frozenset()))
            for index in range(first, last + 1)) if first <= last else {self._shape.rest: None}
        spend(1 + len(conjs))
        return any(self._ask(both(conj, item)) for conj in conjs)

    def _one_by_one(self) -> bool:
        """Say whether there is room to serve each demand by items of its own."""
        length, needs, _ = self._start
        least, most, _, _ = self._bounds
        final = max(least, length + sum(needs))
        if length < self._alike or most is not None and final > most:
            return False
        alone = all(self._alone(demand.item) for need, demand in zip(needs, self._demands, strict=True) if need)
        return alone and (final == length + sum(needs) or self._alone(None))

    def _alone(self, item: Conj | None) -> bool:
        """Return whether some item behind the prefix serves this demand (None: any item will do) and no other one that
        is capped.
        """
        known = self._known.get(item)
        if known is None:
            conj = self._shape.rest if item is None else both(self._shape.rest, item)
            spend(2 + len(self._demands))
            for demand in self._demands:
                if demand.capped and demand.item != item:
                    conj = both(conj, negation(demand.item))
            known = self._known[item] = self._ask(conj)
        return known

    def _complete(self, state: _Remaining) -> bool:
        return state.length >= self._bounds.least and not any(state.needs)

    def _following(self, state: _Remaining) -> Iterator[_Remaining]:
        length, needs, room = state
        most = self._bounds.most
        left = None if most is None else most - length
        if left is not None and (left <= 0 or sum(needs) > left and self._most_exclusive(needs) > left):
            return
        alike = length >= self._alike
        settled = alike and length >= self._bounds.least
        failed: list[tuple[int, int]] = []  # demands that an item served, and those of them that are capped
        for served, capped in self._servings(state):
            if any(served | other == other and capped == cap for other, cap in failed):
                continue
            useful = any(need and served >> number & 1 for number, need in enumerate(needs))
            if settled and not useful:
                continue
            for times in self._times(state, served) if alike else (1,):
                after = tuple(
                    [max(0, need - times) if served >> number & 1 else need for number, need in enumerate(needs)]
                )
                fewer = tuple(
                    [free - times if served >> number & 1 and free else free for number, free in enumerate(room)]
                )
                following = length + times
                if most is None and following > max(self._alike, self._bounds.least):
                    following = max(self._alike, self._bounds.least)
                yield _Remaining(following, after, fewer)
            failed.append((served, capped))

    def _times(self, state: _Remaining, served: int) -> tuple[int, ...]:
        """Return how often to try one more item of a kind: as often as it helps, and once."""
        bounds = [need for number, need in enumerate(state.needs) if need and served >> number & 1]
        many = min(bounds) if bounds else self._bounds.least - state.length
        many = min([many, *(free for number, free in enumerate(state.room) if free and served >> number & 1)])
        if self._bounds.most is not None:
            many = min(many, self._bounds.most - state.length)
        return (many, 1) if many > 1 else (1,)

    def _servings(self, state: _Remaining) -> Iterator[tuple[int, int]]:
        """Yield the sets of demands that the next item can serve, more before less, and which of them are capped."""
        length, needs, room = state
        start = self._shape.prefix[length] if length < len(self._shape.prefix) else self._shape.rest
        start = both(start, self._fixed.get(length, frozenset()))
        relevant = [
            (number, demand) for number, demand in enumerate(self._demands)
            if demand.capped or needs[number] and demand.start <= length]
        relevant.sort(key=lambda pair: not needs[pair[0]])  # those first that still want items
        if not self._ask(start):
            return
        todo = [(start, 0, 0, 0)]
        while todo:
            conj, at, served, capped = todo.pop()
            if at == len(relevant):
                yield served, capped
                continue
            spend(3)
            number, demand = relevant[at]
            if not demand.capped:
                todo.append((conj, at + 1, served, capped))
            else:
                for outside in denials(demand.item):
                    other = both(conj, outside)
                    if self._ask(other):
                        todo.append((other, at + 1, served, capped))
                if not room[number]:
                    continue
            inside = both(conj, demand.item)
            if self._ask(inside):
                bit = 1 << number
                todo.append((inside, at + 1, served | bit, capped | bit if demand.capped else capped))

    def _most_exclusive(self, needs: tuple[int, ...]) -> int:
        """Return how many items are needed for demands that no item serves two of, picked greedily."""
        picked: list[int] = []
        for number in sorted(range(len(needs)), key=lambda number: -needs[number]):
            if needs[number] and all(self._excludes(number, other) for other in picked):
                picked.append(number)
        return sum(needs[number] for number in picked)

    def _excludes(self, one: int, other: int) -> bool:
        pair = (one, other) if one < other else (other, one)
        known = self._exclusive.get(pair)
        if known is None:
            spend(4)
            known = self._exclusive[pair] = not self._ask(both(self._demands[one].item, self._demands[other].item))
        return known


def can_complete(
    shape: ArrayShape,
    clauses: tuple[Clause, ...],
    ask: Ask,
    length: int,
    counted: tuple[int, ...],
    known: dict[Conj | None, bool],
) -> bool:
    """Return whether an array of `length` items can go on so that the counts and these clauses hold.

    known: empty at first; keeps answers for calls with the same shape, as long as `ask` gives the same ones.
    """
    return any(
        Completion(shape, bounds, ask, length, counted, known).exists()
        for bounds in choices(shape, clauses, length, ask)
    )
