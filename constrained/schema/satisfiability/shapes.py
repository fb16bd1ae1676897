"""Satisfiability of a shape, given which of its children have a value.

The questions go through `ask`, which answers for a conjunction what is known so far; a shape asks everything that might
help it, so that a False can be revised when more is known (see `normalise.is_never`).  All functions are monotone in
the answers.

Objects and arrays with clauses are small satisfiability problems; they are searched exhaustively under a budget of
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import NamedTuple, TypeAlias

from constrained import regex
from constrained.errors import LimitExceeded
from constrained.schema.reading.nodes import both
from constrained.schema.satisfiability.counts import FewValues, matched
from constrained.schema.satisfiability.items import Bounds, can_complete, choices
from constrained.schema.sketches.arrays import denials
from constrained.schema.values import (
    ALWAYS,
    Absent,
    ArrayShape,
    Clause,
    Conj,
    HasNamed,
    HasOther,
    ObjectShape,
    Present,
)
from constrained.work import spend

Ask: TypeAlias = Callable[[Conj], bool]
Distinct: TypeAlias = Callable[[Conj, int], FewValues]

_LOOKED_AT = 64  # clauses among which a search finds the one with the fewest ways
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
    named = dict(shape.named)
    if False in [ask(named[key]) for key in required]:  # having asked every question
        return False
    if shape.clauses:
        first = _first_choice(shape, named, ask)
        return (
            first is not None
            and _fits(shape, first, ask)
            or any(_fits(shape, choice, ask) for choice in _object_choices(shape, named, ask))
        )
    return len(shape.required) >= shape.min or _has_keys(shape, named, frozenset(), ask)


class _Selection:
    """One obligation picked from some clauses: the values of present keys, the absent keys, the obligations on other
    keys.
    """

    __slots__ = ("left", "present", "absent", "others")

    def __init__(
        self, left: tuple[Clause, ...], present: dict[str, Conj], absent: frozenset[str], others: tuple[HasOther, ...]
    ) -> None:
        # left: the clauses without one
        self.left, self.present, self.absent, self.others = left, present, absent, others


def _first_choice(shape: ObjectShape, named: dict[str, Conj], ask: Ask) -> _Selection | None:
    """Return the way that takes of each clause the first obligation that goes with those before, if there is one:
    mostly there is.
    """
    choice = _Selection((), {key: named[key] for key in shape.required}, frozenset(), ())
    absent: set[str] = set()
    for clause in shape.clauses:
        spend(1 + len(clause))
        if any(part.key in absent if isinstance(part, Absent) else _holds(part, choice) for part in clause):
            continue
        for part in sorted(clause, key=_preference):
            if isinstance(part, Absent):
                if part.key not in choice.present:
                    absent.add(part.key)
                    break
            elif isinstance(part, HasOther):
                choice.others = (*choice.others, part)
                break
            elif isinstance(part, (Present, HasNamed)) and part.key not in absent:
                known = choice.present.get(part.key, named[part.key])
                joined = both(known, part.value) if isinstance(part, HasNamed) else known
                if ask(joined):
                    choice.present[part.key] = joined
                    break
        else:
            return None
    choice.absent = frozenset(absent)
    return choice


def _object_choices(shape: ObjectShape, named: dict[str, Conj], ask: Ask) -> Iterator[_Selection]:
    """Yield the consistent ways to pick an obligation from each clause; those that need no key come first.

    The clause with the fewest ways left is always next, and one that holds already needs none: so a contradiction is
    met early, and what follows from the choices so far is never guessed (unit propagation).
    """
    todo = [_Selection(shape.clauses, {key: named[key] for key in shape.required}, frozenset(), ())]
    while todo:
        choice = todo.pop()
        fewest: list[_Selection] | None = None
        open_: list[Clause] = []
        next_ = -1
        for at, clause in enumerate(choice.left):
            if len(open_) == _LOOKED_AT:
                open_ += choice.left[at:]
                break
            spend(2 + 3 * len(clause))
            if any(_holds(part, choice) for part in clause):
                continue
            if fewest is None or len(fewest) > 1:
                ways = [
                    grown
                    for part in sorted(clause, key=_preference)
                    if (grown := _grown(choice, part, named, ask)) is not None
                ]
                if fewest is None or len(ways) < len(fewest):
                    fewest, next_ = ways, len(open_)
            open_.append(clause)
            if not fewest:
                break
        if fewest is None:
            yield choice
            continue
        left = (*open_[:next_], *open_[next_ + 1 :])
        for grown in reversed(fewest):
            grown.left = left
            todo.append(grown)


def _holds(part: object, choice: _Selection) -> bool:
    """Return whether an obligation holds with what has been chosen."""
    if isinstance(part, Absent):
        return part.key in choice.absent
    if isinstance(part, Present):
        return part.key in choice.present
    if isinstance(part, HasNamed):
        return part.key in choice.present and part.value <= choice.present[part.key]
    return part in choice.others


def _preference(part: object) -> tuple[int, str]:
    order = (Absent, Present, HasNamed, HasOther)
    return order.index(type(part)), getattr(part, "key", "")


def _grown(choice: _Selection, part: object, named: dict[str, Conj], ask: Ask) -> _Selection | None:
    left = choice.left
    if isinstance(part, Absent):
        return (
            None
            if part.key in choice.present
            else _Selection(left, choice.present, choice.absent | {part.key}, choice.others)
        )
    if isinstance(part, (Present, HasNamed)):
        if part.key in choice.absent:
            return None
        known = choice.present.get(part.key, named[part.key])
        joined = both(known, part.value) if isinstance(part, HasNamed) else known
        present = {**choice.present, part.key: joined}
        return _Selection(left, present, choice.absent, choice.others) if ask(joined) else None
    assert isinstance(part, HasOther)
    return _Selection(left, choice.present, choice.absent, (*choice.others, part))


def _fits(shape: ObjectShape, choice: _Selection, ask: Ask) -> bool:
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
    if _some(ask(conj) for _, conj in shape.cells):
        return True  # a live cell has more keys than `min`
    return sum([ask(conj) for key, conj in named.items() if key not in absent]) >= shape.min


def is_live_array(shape: ArrayShape, ask: Ask, distinct: Distinct) -> bool:
    """Return whether the shape has an array."""
    if not (shape.min or shape.counts or shape.clauses or shape.unique is False):
        return True
    if shape.counts or shape.clauses:
        if shape.unique is None:
            return can_complete(shape, shape.clauses, ask, 0, (0,) * len(shape.counts), {})
        return any(_Items(shape, bounds, ask, distinct).fit() for bounds in choices(shape, shape.clauses))
    if shape.unique is False:
        return _has_twins(shape, ask)
    if not _every(ask(_item(shape, index)) for index in range(min(shape.min, len(shape.prefix) + 1))):
        return False
    if not shape.unique or shape.min < 2:
        return True
    known = [_item(shape, index) for index in range(min(shape.min, len(shape.prefix) + 1))]
    return _have_distinct(known, shape.min, distinct)


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


def _have_distinct(known: list[Conj], length: int, distinct: Distinct) -> bool:
    """Return whether items can be chosen pairwise different: one of each conjunction, of the last one as many as make
    up the length.
    """
    few = {conj: distinct(conj, length) for conj in dict.fromkeys(known)}
    # in an order that no hash decides, as work depends on it
    domains = {conj: None if found is None else sorted(found, key=repr) for conj, found in few.items()}
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
    `settled` on are alike, and an item there that no count and no wish needs can be dropped: so `longest` is long
    enough.
    """

    def __init__(self, shape: ArrayShape, bounds: Bounds, ask: Ask, distinct: Distinct) -> None:
        self.shape, self.ask, self.distinct = shape, ask, distinct
        self.least, most, self.fixed, self.wanted = bounds
        settled = max([len(shape.prefix), self.least, *(part.index + 1 for part in self.wanted)])
        longest = (
            settled + sum(count.min for count in shape.counts) + len(self.wanted) + (2 if shape.unique is False else 0)
        )
        self.longest = longest if most is None else min(most, longest)

    def fit(self) -> bool:
        """Return whether some array satisfies everything; breadth first, so the shortest is met first."""
        if self.shape.unique and self._has_own_items():
            return True
        layer = {_ItemState((0,) * len(self.shape.counts), frozenset(range(len(self.wanted))), ())}
        for position in range(self.longest + 1):
            if position >= self.least and any(self._complete(state) for state in layer):
                return True
            layer = {following for state in layer for following in self._next(position, state)}
            spend((8 + position) * len(layer))
        return False

    def _has_own_items(self) -> bool:
        """Say whether each count and each item wanted can have items of its own, all of them different: the search is
        left to those that must share, and to upper bounds.
        """
        shape, fixed = self.shape, {part.index: part.item for part in self.fixed}
        if any(count.max is not None for count in shape.counts) or len(fixed) < len(self.fixed):
            return False
        first = max([self.least, len(shape.prefix), *(part.index for part in self.wanted)])
        items = [both(_item(shape, index), fixed.get(index, ALWAYS)) for index in range(first)]
        items += [both(shape.rest, part.item) for part in self.wanted]
        items += [both(shape.rest, count.item) for count in shape.counts for _ in range(count.min)]
        spend(4 * len(items))
        return (
            len(items) <= self.longest
            and _every(self.ask(conj) for conj in dict.fromkeys(items))
            and (len(items) < 2 or _have_distinct(items, len(items), self.distinct))
        )

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
        start = _item(self.shape, position)
        for part in self.fixed:
            if part.index == position:
                start = both(start, part.item)
        ways: list[tuple[Conj, tuple[int, ...]]] = [(start, ())] if self.ask(start) else []
        for number, count in zip(state.counted, self.shape.counts, strict=True):
            spend(3 * len(ways))
            cap = count.min if count.max is None else count.max
            grown = []
            for conj, numbers in ways:
                if number < cap or count.max is None:
                    grown.append((both(conj, count.item), (*numbers, min(number + 1, cap))))
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
