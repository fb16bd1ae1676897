"""Whether a shape has a value, given which of its children have one.

The questions go through `ask`, which answers for a conjunction what is known so far; a shape asks everything that might help it, so
that a False can be revised when more is known (see `normalise.is_never`).  All functions are monotone in the answers.

Objects and arrays with clauses are small satisfiability problems; they are searched exhaustively under a budget of steps.
"""

from __future__ import annotations

from typing import Callable, Iterator, TypeAlias

from constrained import regex
from constrained.errors import LimitExceeded, UnsupportedSchema
from constrained.schema.arrays import denials
from constrained.schema.documents import NOTHING, both
from constrained.schema.values import (
    Absent, ArrayShape, Conj, HasNamed, HasOther, ItemAt, ItemFrom, LengthAtLeast, LengthBelow, ObjectShape, Present,
)

Ask: TypeAlias = Callable[[Conj], bool]
Distinct: TypeAlias = Callable[[Conj, int], "frozenset[object] | None"]  # all values of a conjunction, None: at least that many

_BUDGET = 20_000  # steps of one search
_LARGEST_SHARING = 6  # obligations on unnamed keys that a search fits into fewer keys


def is_live_object(shape: ObjectShape, ask: Ask) -> bool:
    """Return whether the shape has an object."""
    named = dict(shape.named)
    live = [ask(named[key]) for key in shape.required]
    if not all(live):
        return False
    if shape.clauses:
        return any(_fits(shape, choice, ask) for choice in _object_choices(shape, named, ask))
    return len(shape.required) >= shape.min or _has_keys(shape, named, frozenset(), ask)


class _Choice:
    """One obligation picked from each clause so far: the values of present keys, the absent keys, the obligations on other keys."""

    __slots__ = ("at", "present", "absent", "others")

    def __init__(self, at: int, present: dict[str, Conj], absent: frozenset[str], others: tuple[HasOther, ...]) -> None:
        self.at, self.present, self.absent, self.others = at, present, absent, others


def _object_choices(shape: ObjectShape, named: dict[str, Conj], ask: Ask) -> Iterator[_Choice]:
    """Yield the consistent ways to pick an obligation from each clause; those that need no key come first."""
    todo = [_Choice(0, {key: named[key] for key in shape.required}, frozenset(), ())]
    steps = 0
    while todo:
        choice = todo.pop()
        if choice.at == len(shape.clauses):
            yield choice
            continue
        steps += 1
        if steps > _BUDGET:
            raise LimitExceeded("too many ways to satisfy the conditions on an object", because=f"more than {_BUDGET} were tried")
        following = []
        for part in sorted(shape.clauses[choice.at], key=_preference):
            grown = _grown(choice, part, named, ask)
            if grown is not None:
                following.append(grown)
        todo.extend(reversed(following))


def _preference(part: object) -> tuple[int, str]:
    order = (Absent, Present, HasNamed, HasOther, LengthBelow, LengthAtLeast, ItemAt, ItemFrom)
    return order.index(type(part)), getattr(part, "key", "")  # type: ignore[arg-type]


def _grown(choice: _Choice, part: object, named: dict[str, Conj], ask: Ask) -> _Choice | None:
    at = choice.at + 1
    if isinstance(part, Absent):
        return None if part.key in choice.present else _Choice(at, choice.present, choice.absent | {part.key}, choice.others)
    if isinstance(part, (Present, HasNamed)):
        if part.key in choice.absent:
            return None
        known = choice.present.get(part.key, named[part.key])
        joined = both(known, part.value) if isinstance(part, HasNamed) else known
        return _Choice(at, {**choice.present, part.key: joined}, choice.absent, choice.others) if ask(joined) else None
    assert isinstance(part, HasOther)
    return _Choice(at, choice.present, choice.absent, (*choice.others, part))


def _fits(shape: ObjectShape, choice: _Choice, ask: Ask) -> bool:
    """Return whether the choice leaves an object with a number of keys in bounds."""
    fewest = _fewest_keys(shape, choice.others, ask)
    if fewest is None or shape.max is not None and len(choice.present) + fewest > shape.max:
        return False
    if len(choice.present) + fewest >= shape.min:
        return True
    return _has_keys(shape, dict(shape.named), choice.absent, ask)


def _fewest_keys(shape: ObjectShape, others: tuple[HasOther, ...], ask: Ask) -> int | None:
    """Return how few unnamed keys satisfy the obligations, None if nothing does.  Each cell has keys enough."""
    if not others:
        return 0
    if shape.max is None or len(others) == 1:
        return len(others) if all([_shared((part,), shape, ask) for part in others]) else None
    if len(others) > _LARGEST_SHARING:
        raise LimitExceeded("too many conditions on the unnamed keys of an object with maxProperties", because=f"there are {len(others)}")
    sizes = [len(blocks) for blocks in _partitions(others) if all([_shared(block, shape, ask) for block in blocks])]
    return min(sizes, default=None)


def _shared(block: tuple[HasOther, ...], shape: ObjectShape, ask: Ask) -> bool:
    """Return whether one key can satisfy all the obligations."""
    found = False
    for language, conj in shape.cells:
        if all(part.keys is language or not regex.is_empty(regex.intersect(language, part.keys)) for part in block):
            for part in block:
                conj = both(conj, part.value)
            found = ask(conj) or found
    return found


def _partitions(parts: tuple[HasOther, ...]) -> Iterator[list[tuple[HasOther, ...]]]:
    if not parts:
        yield []
        return
    for blocks in _partitions(parts[1:]):
        yield [(parts[0],), *blocks]
        for index, block in enumerate(blocks):
            yield [*blocks[:index], (parts[0], *block), *blocks[index + 1 :]]


def _has_keys(shape: ObjectShape, named: dict[str, Conj], absent: frozenset[str], ask: Ask) -> bool:
    """Return whether enough keys can be present for the minimum."""
    if any([ask(conj) for _, conj in shape.cells]):
        return True  # a live cell has more keys than `min`
    return sum([ask(conj) for key, conj in named.items() if key not in absent]) >= shape.min


def is_live_array(shape: ArrayShape, ask: Ask, distinct: Distinct, pointer: str) -> bool:
    """Return whether the shape has an array."""
    if shape.unique is False and (shape.counts or shape.clauses) or shape.unique and (shape.counts or shape.clauses) and shape.max != 0:
        raise UnsupportedSchema(
            "cannot compile uniqueItems", where=pointer, because='it meets "contains", or a condition on some item, on the same array',
            instead='state the items that are wanted with "prefixItems"',
        )
    if shape.counts or shape.clauses:
        return any(_Items(shape, bounds, ask).fit() for bounds in _array_choices(shape))
    if shape.unique is False:
        return _has_twins(shape, ask)
    if not all([ask(_item(shape, index)) for index in range(min(shape.min, len(shape.prefix) + 1))]):
        return False
    return not shape.unique or shape.min < 2 or _has_distinct(shape, distinct)


def _item(shape: ArrayShape, index: int) -> Conj:
    return shape.prefix[index] if index < len(shape.prefix) else shape.rest


def _has_twins(shape: ArrayShape, ask: Ask) -> bool:
    """Return whether two items can be equal."""
    found = False
    for index in range(1, len(shape.prefix) + 2):
        length = max(shape.min, index + 1)
        if shape.max is not None and length > shape.max:
            break
        rest = [ask(_item(shape, position)) for position in range(min(length, len(shape.prefix) + 1))]
        pairs = [ask(both(_item(shape, index), _item(shape, other))) for other in range(index)]
        found = found or all(rest) and any(pairs)
    return found


def _has_distinct(shape: ArrayShape, distinct: Distinct) -> bool:
    """Return whether the shortest arrays can have pairwise different items (a system of distinct representatives)."""
    chosen: dict[object, int] = {}
    domains = [distinct(_item(shape, index), shape.min) for index in range(min(shape.min, len(shape.prefix) + 1))]
    domains += domains[-1:] * (shape.min - len(domains)) if domains[-1] is not None else []

    def place(index: int, tried: set[object]) -> bool:
        for value in domains[index] or ():
            if value not in tried:
                tried.add(value)
                if value not in chosen or place(chosen[value], tried):
                    chosen[value] = index
                    return True
        return False

    return all(domain is None or place(index, set()) for index, domain in enumerate(domains))


def _array_choices(shape: ArrayShape) -> Iterator[tuple[int, int | None, tuple[ItemAt, ...], tuple[ItemFrom, ...]]]:
    """Yield (least length, greatest length, fixed items, items somewhere) for each way to pick an obligation from each clause."""
    todo: list[tuple[int, int, int | None, tuple[ItemAt, ...], tuple[ItemFrom, ...]]] = [(0, shape.min, shape.max, (), ())]
    steps = 0
    while todo:
        at, least, most, fixed, somewhere = todo.pop()
        if most is not None and most < least:
            continue
        if at == len(shape.clauses):
            yield least, most, fixed, somewhere
            continue
        steps += 1
        if steps > _BUDGET:
            raise LimitExceeded("too many ways to satisfy the conditions on an array", because=f"more than {_BUDGET} were tried")
        for part in sorted(shape.clauses[at], key=_preference, reverse=True):
            if isinstance(part, LengthBelow):
                todo.append((at + 1, least, part.length - 1 if most is None else min(most, part.length - 1), fixed, somewhere))
            elif isinstance(part, LengthAtLeast):
                todo.append((at + 1, max(least, part.length), most, fixed, somewhere))
            elif isinstance(part, ItemAt):
                todo.append((at + 1, max(least, part.index + 1), most, (*fixed, part), somewhere))
            else:
                assert isinstance(part, ItemFrom)
                todo.append((at + 1, max(least, part.index + 1), most, fixed, (*somewhere, part)))


class _Items:
    """A search for an array: position by position, over how often each count is met and which items are still wanted somewhere."""

    def __init__(self, shape: ArrayShape, bounds: tuple[int, int | None, tuple[ItemAt, ...], tuple[ItemFrom, ...]], ask: Ask) -> None:
        self.shape, self.ask = shape, ask
        self.least, self.most, self.fixed, self.wanted = bounds
        self.settled = max([len(shape.prefix), self.least, *(part.index + 1 for part in self.wanted)])  # all later positions are alike

    def fit(self) -> bool:
        """Return whether some array satisfies everything; breadth first, so the shortest is met first."""
        start = (0,) * len(self.shape.counts), frozenset(range(len(self.wanted)))
        layer, seen, position, steps = {start}, set(), 0, 0
        while layer and (self.most is None or position <= self.most):
            if position >= self.least and any(self._complete(*state) for state in layer):
                return True
            following = set()
            for state in layer:
                following.update(self._next(position, *state))
            position += 1
            if position > self.settled:
                following -= seen
                seen |= following
            layer = following
            steps += len(layer)
            if steps > _BUDGET:
                raise LimitExceeded("too many ways to satisfy the counts on an array", because=f"more than {_BUDGET} were tried")
        return False

    def _complete(self, counted: tuple[int, ...], open_: frozenset[int]) -> bool:
        return not open_ and all(number >= count.min for number, count in zip(counted, self.shape.counts, strict=True))

    def _next(self, position: int, counted: tuple[int, ...], open_: frozenset[int]) -> Iterator[tuple[tuple[int, ...], frozenset[int]]]:
        """Yield the states after one more item: each count takes it or not, each wanted item is this one or not."""
        start = _item(self.shape, position)
        for part in self.fixed:
            if part.index == position:
                start = both(start, part.item)
        ways: list[tuple[Conj, tuple[int, ...]]] = [(start, ())]
        for number, count in zip(counted, self.shape.counts, strict=True):
            cap = count.min if count.max is None else count.max
            grown = []
            for conj, numbers in ways:
                if number < cap or count.max is None:
                    grown.append((both(conj, count.item), (*numbers, min(number + 1, cap))))
                grown += [(both(conj, outside), (*numbers, number)) for outside in denials(count.item)]
            ways = grown
        for conj, numbers in ways:
            if conj == NOTHING or not self.ask(conj):
                continue
            yield numbers, open_
            for index in open_:
                if self.wanted[index].index <= position and self.ask(both(conj, self.wanted[index].item)):
                    yield from self._taken(position, conj, numbers, open_, index)

    def _taken(
        self, position: int, conj: Conj, numbers: tuple[int, ...], open_: frozenset[int], first: int,
    ) -> Iterator[tuple[tuple[int, ...], frozenset[int]]]:
        """Yield the states in which this item is the wanted item `first`, and others of higher number with it."""
        conj, left = both(conj, self.wanted[first].item), open_ - {first}
        yield numbers, left
        for index in left:
            if index > first and self.wanted[index].index <= position and self.ask(both(conj, self.wanted[index].item)):
                yield from self._taken(position, conj, numbers, left, index)

