"""Satisfiability of objects and arrays, given which of their children have a value.

The questions go through `ask`, which answers for a conjunction what is known so far; a shape asks everything that
might help it, so that a False can be revised when more is known (see `normalise.is_never`).  All functions are
monotone in the answers.

Objects and arrays with clauses are small satisfiability problems; they are searched exhaustively under a budget of
steps.

Items of an array: each condition (counts of `contains`, items wanted somewhere, bounds on the length) becomes a
demand: "this many items more belong to C", perhaps "and no more than so many".  An item may serve several demands,
so the search goes item by item over sets of demands that one item can serve together, the largest first, and tries
a set many times at once.  It looks at no more sets than it needs, gives up where demands that exclude each other
outnumber the room, and never tries a set after a larger one has failed.  So it is linear for satisfiable conditions
as people write them; the worst case (the problem contains set cover) runs into the budget of work.

Refused: all sets at once (2ⁿ of them for n overlapping conditions), and a flow over them (which needs them listed).
Left out: arrays whose items must be different, which `_Items` searches.  Tested by tests/test_schema_laws.py and
tests/test_satisfiability.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import NamedTuple, TypeAlias

from constrained import regex
from constrained.errors import LimitExceeded
from constrained.schema.normal.counts import FewValues, matched
from constrained.schema.reading.document import both, denials, rank
from constrained.schema.values import (
    Absent,
    ArrayShape,
    Clause,
    Conj,
    HasNamed,
    HasOther,
    ItemAt,
    ItemFrom,
    LengthAtLeast,
    LengthBelow,
    ObjectShape,
    Present,
)
from constrained.work import spend

Ask: TypeAlias = Callable[[Conj], bool]
Distinct: TypeAlias = Callable[[Conj, int], FewValues]

_LARGEST_SHARING = 6  # obligations on unnamed keys that a search fits into fewer keys


def _every(answers: Iterable[bool]) -> bool:
    """Return whether all answers are True, having asked every question."""
    return False not in list(answers)


def _some(answers: Iterable[bool]) -> bool:
    """Return whether some answer is True, having asked every question."""
    return True in list(answers)


def is_live_object(shape: ObjectShape, ask: Ask) -> bool:
    """Return whether the shape has an object."""
    required = shape.required
    if not required and not shape.min and not shape.clauses:
        return True
    spend(len(required) >> 3)
    if False in [ask(conj) for key, conj in shape.named if key in required]:  # having asked every question
        return False
    if not shape.clauses and len(required) >= shape.min:
        return True
    if shape.clauses:
        return any(_fits(shape, choice, ask) for choice in _object_choices(shape, dict(shape.named), ask))
    return _has_keys(shape, frozenset(), ask)


class _Selection(NamedTuple):
    """One obligation picked from some clauses."""

    present: dict[str, Conj]  # the values of keys
    absent: frozenset[str]
    others: tuple[HasOther, ...]  # obligations on other keys


def _object_choices(shape: ObjectShape, named: dict[str, Conj], ask: Ask) -> Iterator[_Selection]:
    """Yield the consistent ways to pick an obligation from each clause; those that need no key come first.

    The clause with the fewest ways left is always next, and one that holds already needs none: so a contradiction is
    met early, and what follows from the choices so far is never guessed (unit propagation).  A choice changes the ways
    of the clauses that speak of its key, and no others.
    """
    about: dict[object, list[Clause]] = {}
    for clause in shape.clauses:
        for part in clause:
            about.setdefault(getattr(part, "key", part), []).append(clause)
    start = _Selection({key: named[key] for key in shape.required}, frozenset(), ())
    todo = [(start, {clause: sorted(clause, key=rank) for clause in shape.clauses}, [*shape.clauses])]
    while todo:
        choice, before, changed = todo.pop()
        spend(1 + (len(before) >> 2))
        ways = before.copy()
        for clause in changed:
            if clause in ways:
                spend(2 + 3 * len(clause))
                if any(_holds(part, choice) for part in clause):
                    del ways[clause]
                else:
                    ways[clause] = [part for part in ways[clause] if _grown(choice, part, named, ask) is not None]
        if not ways:
            yield choice
            continue
        for part in reversed(ways.pop(min(ways, key=lambda clause: len(ways[clause])))):
            grown = _grown(choice, part, named, ask)
            if grown is not None:
                todo.append((grown, ways, about[getattr(part, "key", part)]))


def _holds(part: object, choice: _Selection) -> bool:
    """Return whether an obligation holds with what has been chosen."""
    if isinstance(part, Absent):
        return part.key in choice.absent
    if isinstance(part, Present):
        return part.key in choice.present
    if isinstance(part, HasNamed):
        return part.key in choice.present and part.value <= choice.present[part.key]
    return part in choice.others


def _grown(choice: _Selection, part: object, named: dict[str, Conj], ask: Ask) -> _Selection | None:
    if isinstance(part, Absent):
        absent = choice.absent | {part.key}
        return None if part.key in choice.present else _Selection(choice.present, absent, choice.others)
    if isinstance(part, (Present, HasNamed)):
        if part.key in choice.absent:
            return None
        known = choice.present.get(part.key, named[part.key])
        joined = both(known, part.value) if isinstance(part, HasNamed) else known
        present = {**choice.present, part.key: joined}
        return _Selection(present, choice.absent, choice.others) if ask(joined) else None
    assert isinstance(part, HasOther)
    return _Selection(choice.present, choice.absent, (*choice.others, part))


def _fits(shape: ObjectShape, choice: _Selection, ask: Ask) -> bool:
    """Return whether the choice leaves an object with a number of keys in bounds."""
    fewest = _fewest_keys(shape, choice.others, ask)
    if fewest is None or shape.max is not None and len(choice.present) + fewest > shape.max:
        return False
    if len(choice.present) + fewest >= shape.min:
        return True
    return _has_keys(shape, choice.absent, ask)


def _fewest_keys(shape: ObjectShape, others: tuple[HasOther, ...], ask: Ask) -> int | None:
    """Return how few unnamed keys satisfy the obligations, None if nothing does.  Each cell has keys enough."""
    if not others:
        return 0
    if shape.max is None or len(others) == 1:
        return len(others) if _every(_shared((part,), shape, ask) for part in others) else None
    if len(others) > _LARGEST_SHARING:
        raise LimitExceeded(
            "too many conditions on the unnamed keys of an object with maxProperties",
            because=f"there are {len(others)}",
        )
    sizes = [len(blocks) for blocks in _partitions(others) if _every(_shared(block, shape, ask) for block in blocks)]
    return min(sizes, default=None)


def _shared(block: tuple[HasOther, ...], shape: ObjectShape, ask: Ask) -> bool:
    """Return whether one key can satisfy all the obligations."""
    shared = False
    for language, conj in shape.cells:
        if all(part.keys is language or not regex.is_empty(regex.intersect(language, part.keys)) for part in block):
            for part in block:
                conj = both(conj, part.value)
            shared = ask(conj) or shared
    return shared


def _partitions(parts: tuple[HasOther, ...]) -> Iterator[list[tuple[HasOther, ...]]]:
    if not parts:
        yield []
        return
    for blocks in _partitions(parts[1:]):
        yield [(parts[0],), *blocks]
        for index, block in enumerate(blocks):
            yield [*blocks[:index], (parts[0], *block), *blocks[index + 1 :]]


def _has_keys(shape: ObjectShape, absent: frozenset[str], ask: Ask) -> bool:
    """Return whether enough keys can be present for the minimum."""
    if _some(ask(conj) for _, conj in shape.cells):
        return True  # a live cell has more keys than `min`
    return sum([ask(conj) for key, conj in shape.named if key not in absent]) >= shape.min


def is_live_array(shape: ArrayShape, ask: Ask, distinct: Distinct) -> bool:
    """Return whether the shape has an array."""
    if not (shape.min or shape.counts or shape.clauses or shape.unique is False):
        return True
    if shape.counts or shape.clauses:
        if shape.unique is None:
            return can_complete(shape, shape.clauses, ask, 0, (0,) * len(shape.counts))
        return any(_Items(shape, bounds, ask, distinct).fit() for bounds in choices(shape, shape.clauses))
    if shape.unique is False:
        return _has_twins(shape, ask)
    if not _every(ask(shape.at(index)) for index in range(min(shape.min, len(shape.prefix) + 1))):
        return False
    if not shape.unique or shape.min < 2:
        return True
    known = [shape.at(index) for index in range(min(shape.min, len(shape.prefix) + 1))]
    return _have_distinct(known, shape.min, distinct)


def _has_twins(shape: ArrayShape, ask: Ask) -> bool:
    """Return whether two items can be equal."""
    twins = False
    for index in range(1, len(shape.prefix) + 2):
        length = max(shape.min, index + 1)
        if shape.max is not None and length > shape.max:
            break
        rest = [ask(shape.at(position)) for position in range(min(length, len(shape.prefix) + 1))]
        pairs = [ask(both(shape.at(index), shape.at(other))) for other in range(index)]
        twins = twins or all(rest) and any(pairs)
    return twins


def _have_distinct(known: list[Conj], length: int, distinct: Distinct) -> bool:
    """Return whether items can be chosen pairwise different: one of each conjunction, of the last one as many as make
    up the length.
    """
    few = {conj: distinct(conj, length) for conj in dict.fromkeys(known)}
    # in an order that no hash decides, as work depends on it
    domains = {conj: None if values is None else sorted(values, key=repr) for conj, values in few.items()}
    last = domains[known[-1]]
    if last is not None and len(last) < length - len(known) + 1:
        return False
    if len(domains) == 1:
        return last is None or len(last) >= length
    rest = [] if last is None else [last] * (length - len(known) + 1)
    return matched([domain for conj in known[:-1] if (domain := domains[conj]) is not None] + rest) is not None


class _Items:
    """A search for an array: position by position, over how often each count is met and which items are still wanted
    somewhere.

    Where the items must (not) be different, a state also carries the conjunctions of the items so far.  Positions from
    `alike` on are alike: an item there that no count and no wish needs can be dropped, so `longest` is long enough, and
    the first count that is still to be met may be met by the next one.
    """

    def __init__(self, shape: ArrayShape, bounds: Bounds, ask: Ask, distinct: Distinct) -> None:
        self.shape, self.ask, self.distinct = shape, ask, distinct
        self.least, most, self.fixed, self.wanted = bounds
        placed = [part.index for part in self.fixed] + [part.index for part in self.wanted]
        self.alike = max([len(shape.prefix), *(index + 1 for index in placed)])
        needed = sum([count.min for count in shape.counts]) + len(self.wanted) + (2 if shape.unique is False else 0)
        longest = max(self.alike, self.least) + needed
        self.longest = longest if most is None else min(most, longest)

    def fit(self) -> bool:
        """Return whether some array satisfies everything; breadth first, so the shortest is met first."""
        layer = {_ItemState((0,) * len(self.shape.counts), frozenset(range(len(self.wanted))), ())}
        for position in range(self.longest + 1):
            if position >= self.least and any(self._complete(state) for state in layer):
                return True
            layer = {following for state in layer for following in self._next(position, state)}
            spend((8 + position) * len(layer))
        return False

    def _complete(self, state: _ItemState) -> bool:
        if state.open or not all(
            number >= count.min for number, count in zip(state.counted, self.shape.counts, strict=True)
        ):
            return False
        if self.shape.unique is None:
            return True
        if self.shape.unique:
            return len(state.items) < 2 or _have_distinct(list(state.items), len(state.items), self.distinct)
        return _some(self.ask(both(one, other)) for one, other in combinations(state.items, 2))

    def _next(self, position: int, state: _ItemState) -> Iterator[_ItemState]:
        """Yield the states after one more item: each count takes it or not, each wanted item is this one or not."""
        start = self.shape.at(position)
        for part in self.fixed:
            if part.index == position:
                start = both(start, part.item)
        unmet = [at for at, count in enumerate(self.shape.counts) if state.counted[at] < count.min]
        due = unmet[0] if unmet and position >= self.alike else None
        if due is not None:
            start = both(start, self.shape.counts[due].item)
        ways: list[tuple[Conj, tuple[int, ...]]] = [(start, ())] if self.ask(start) else []
        for at, (number, count) in enumerate(zip(state.counted, self.shape.counts, strict=True)):
            spend(3 * len(ways))
            cap = count.min if count.max is None else count.max
            grown = []
            for conj, numbers in ways:
                if number < cap or count.max is None:
                    grown.append((both(conj, count.item), (*numbers, min(number + 1, cap))))
                if at != due:
                    grown += [(both(conj, outside), (*numbers, number)) for outside in denials(count.item)]
            ways = [way for way in grown if self.ask(way[0])]
        for conj, numbers in ways:
            yield from self._taken(position, conj, state, numbers, state.open, 0)

    def _taken(
        self, position: int, conj: Conj, state: _ItemState, numbers: tuple[int, ...], open_: frozenset[int], first: int,
    ) -> Iterator[_ItemState]:
        """Yield the states in which this item also is some of the wanted items from number `first` on."""
        yield _ItemState(numbers, open_, () if self.shape.unique is None else (*state.items, conj))
        for index in range(first, len(self.wanted)):
            joined = both(conj, self.wanted[index].item)
            if index in open_ and self.wanted[index].index <= position and self.ask(joined):
                yield from self._taken(position, joined, state, numbers, open_ - {index}, index + 1)


class _ItemState(NamedTuple):
    """How far the search for an array has come."""

    counted: tuple[int, ...]  # per count, saturated
    open: frozenset[int]  # indices of the wanted items that are still missing
    items: tuple[Conj, ...]  # only where uniqueness matters


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
        for part in sorted(clauses[at], key=rank, reverse=True):
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
    joined = both(shape.at(part.index), part.item)
    for other in fixed:
        if other.index == part.index:
            joined = both(joined, other.item)
    return joined


class Completion:
    """A search for the items from number `length` on, where `counted` items have met each count so far."""

    def __init__(
        self, shape: ArrayShape, bounds: Bounds, ask: Ask, length: int, counted: tuple[int, ...]
    ) -> None:
        self._shape, self._bounds, self._ask = shape, bounds, ask
        self._fixed: dict[int, Conj] = {}
        spend(len(bounds.fixed))
        for part in bounds.fixed:
            self._fixed[part.index] = both(self._fixed.get(part.index, frozenset()), part.item)
        counts = shape.counts
        self._demands = [_ItemDemand(count.item, 0, count.max is not None) for count in counts]
        self._demands += [_ItemDemand(part.item, part.index, False) for part in bounds.wanted]
        needs = [max(0, count.min - number) for count, number in zip(counts, counted, strict=True)]
        needs += [1] * len(bounds.wanted)
        room = [0 if count.max is None else count.max - number for count, number in zip(counts, counted, strict=True)]
        room += [0] * len(bounds.wanted)
        self._start = _Remaining(length, tuple(needs), tuple(room))
        self._alike = max(
            [len(shape.prefix), *(index + 1 for index in self._fixed), *(part.index for part in bounds.wanted)]
        )
        self._exclusive: dict[tuple[int, int], bool] = {}

    def exists(self) -> bool:
        """Return whether some items do."""
        if self._complete(self._start):
            return True
        if not all(self._can_serve(number) for number, need in enumerate(self._start.needs) if need):
            return False
        if self._are_apart():
            return True
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

    def _are_apart(self) -> bool:
        """Return whether there is room for items of its own for each demand, behind those whose place matters."""
        length, needs, _ = self._start
        least, most = max(self._alike, length) + sum(needs), self._bounds.most
        if any(demand.capped for demand in self._demands) or most is not None and max(least, self._bounds.least) > most:
            return False
        shape, fixed = self._shape, self._fixed
        conjs = [both(shape.at(index), fixed.get(index, frozenset())) for index in range(length, self._alike)]
        conjs += [both(shape.rest, demand.item) for demand, need in zip(self._demands, needs, strict=True) if need]
        conjs += [shape.rest] if least < self._bounds.least else []
        spend(len(conjs))
        return _every(self._ask(conj) for conj in conjs)

    def _can_serve(self, number: int) -> bool:
        """Return whether some position has an item for a demand.  What this asks first spares the search while answers
        are still open.
        """
        item, start, _ = self._demands[number]
        first = max(start, self._start.length)
        last = self._alike if self._bounds.most is None else min(self._alike, self._bounds.most - 1)
        conjs = dict.fromkeys(
            both(self._shape.at(index), self._fixed.get(index, frozenset()))
            for index in range(first, last + 1)) if first <= last else {self._shape.rest: None}
        spend(1 + len(conjs))
        return any(self._ask(both(conj, item)) for conj in conjs)

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
        start = both(self._shape.at(length), self._fixed.get(length, frozenset()))
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
    shape: ArrayShape, clauses: tuple[Clause, ...], ask: Ask, length: int, counted: tuple[int, ...]
) -> bool:
    """Return whether an array of `length` items can go on so that the counts and these clauses hold."""
    ways = choices(shape, clauses, length, ask)
    return any(Completion(shape, bounds, ask, length, counted).exists() for bounds in ways)
