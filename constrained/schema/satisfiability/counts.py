"""How many values a conjunction has, as far as `uniqueItems` needs to know: all of them if they are few."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from itertools import count, product
from math import ceil, floor
from typing import TypeAlias

from constrained.errors import UnsupportedSchema
from constrained.schema.numeric.ranges import contains
from constrained.schema.reading.nodes import NOTHING, ordered
from constrained.schema.strings.sets import listed
from constrained.schema.values import ArrayShape, Conj, NumberRange, ObjectShape, Value
from constrained.work import spend, working_on

# tagged with their type, because 1 and true differ; None: at least as many as asked
FewValues: TypeAlias = "frozenset[object] | None"

_DEEPEST = 8  # levels of arrays and objects that are spelled out


def values_below(conj: Conj, limit: int, value_of: Callable[[Conj], Value]) -> FewValues:
    """Return all values of a conjunction if they are fewer than `limit`, None if there are more.

    Composite values are spelled out level by level until no level is cut off or there are enough of them.
    """
    if not conj:
        return None
    with working_on(ordered(conj)[0].node.pointer):
        for depth in range(_DEEPEST):
            listing = _Listing(limit, value_of)
            found = listing.of(conj, depth)
            if found is None or not listing.cut:
                return found
    raise UnsupportedSchema(
        "cannot compile uniqueItems", where=ordered(conj)[0].node.pointer,
        because=f"its items nest more than {_DEEPEST} levels without offering {limit} different values",
        instead='drop "minItems" or "uniqueItems"',
    )


def matched(
    domains: Sequence[Collection[object]], chosen: dict[object, int] | None = None, without: object = None
) -> dict[object, int] | None:
    """Return a value for each position, as {value: position}, all different; None if there are too few.

    chosen: of a former answer for these domains, which is completed; it is changed.  without: a value that may not be
    used.
    Source: a maximum matching by augmenting paths (Berge), breadth first.
    """
    chosen = {} if chosen is None else chosen
    placed = set(chosen.values())
    for position in range(len(domains)):
        if position not in placed and not _augment(position, domains, chosen, without):
            return None
    return chosen


def _augment(start: int, domains: Sequence[Collection[object]], chosen: dict[object, int], without: object) -> bool:
    came: dict[object, int] = {}  # value -> the position that asks for it
    queue = [start]
    for position in queue:  # which grows
        spend(1 + len(domains[position]) // 4)
        for value in domains[position]:
            if value in came or value == without:
                continue
            came[value] = position
            if value in chosen:
                queue.append(chosen[value])
                continue
            held = {at: other for other, at in chosen.items()}
            while True:  # give each position on the way the value that it asked for
                at = came[value]
                former = held.get(at)
                chosen[value] = at
                if at == start:
                    return True
                assert former is not None
                value = former
    return False


class _Listing:
    """The values down to some depth; `cut` tells whether deeper ones were left out."""

    def __init__(self, limit: int, value_of: Callable[[Conj], Value]) -> None:
        self.limit, self.value_of, self.cut = limit, value_of, False

    def of(self, conj: Conj, depth: int) -> FewValues:
        if not conj:
            return None
        if conj == NOTHING:
            return frozenset()
        value = self.value_of(conj)
        found: set[object] = {("boolean", boolean) for boolean in value.booleans}
        if value.null:
            found.add(("null", None))
        for numbers in value.numbers:
            members = _members(numbers, self.limit)
            if members is None:
                return None
            found.update(("number", number) for number in members)
            if len(found) >= self.limit:
                return None
        texts = listed(value.strings, self.limit)
        if texts is None:
            return None
        found.update(("string", text) for text in texts)
        if value.arrays or value.objects:
            if depth == 0:
                self.cut = True
                return None if len(found) >= self.limit else frozenset(found)
            parts = [self._arrays(shape, depth - 1) for shape in value.arrays] + [
                self._objects(shape, depth - 1) for shape in value.objects
            ]
            for part in parts:
                if part is None:
                    return None
                found.update(part)
        return None if len(found) >= self.limit else frozenset(found)

    def _first(self, values: Iterator[object]) -> FewValues:
        found: set[object] = set()
        for value in values:
            spend(1)
            found.add(value)
            if len(found) >= self.limit:
                return None
        return frozenset(found)

    def _objects(self, shape: ObjectShape, depth: int) -> FewValues:
        if shape.clauses:
            self.cut = True
            return frozenset()
        named = {key: self.of(conj, depth) for key, conj in shape.named}
        if not all(named[key] is None or named[key] for key in shape.required):
            return frozenset()
        room = shape.max is None or shape.max > len(shape.required)
        others = room and any(self.of(conj, depth) != frozenset() for _, conj in shape.cells)
        optional = [key for key, values in named.items() if key not in shape.required and (values is None or values)]
        if not others and len(shape.required) + len(optional) < shape.min:
            return frozenset()
        if others or any(values is None and (room or key in shape.required) for key, values in named.items()):
            return None
        return self._first(self._spelled_objects(shape, named, optional))

    def _spelled_objects(
        self, shape: ObjectShape, named: dict[str, FewValues], optional: list[str]
    ) -> Iterator[object]:
        most = len(named) if shape.max is None else shape.max
        for chosen in product((False, True), repeat=len(optional)):
            keys = [*shape.required, *(key for key, use in zip(optional, chosen, strict=True) if use)]
            if shape.min <= len(keys) <= most:
                for values in product(*(named[key] or () for key in keys)):
                    yield "object", frozenset(zip(keys, values, strict=True))

    def _arrays(self, shape: ArrayShape, depth: int) -> FewValues:
        if shape.clauses or shape.counts or shape.unique is False:
            self.cut = True
            return frozenset()
        known = [self.of(conj, depth) for conj in (*shape.prefix, shape.rest)]
        return self._first(self._spelled_arrays(shape, known)) if not self._is_infinite(shape, known) else None

    def _is_infinite(self, shape: ArrayShape, known: list[FewValues]) -> bool:
        """Return whether some position that an array can have takes any number of values."""
        for index, values in enumerate(known):
            if shape.max is not None and index >= shape.max or values == frozenset():
                return False
            if values is None:
                return all(later != frozenset() for later in known[index : shape.min])
        return False

    def _spelled_arrays(self, shape: ArrayShape, known: list[FewValues]) -> Iterator[object]:
        for length in count(shape.min):
            if shape.max is not None and length > shape.max:
                return
            columns = [known[min(index, len(known) - 1)] or () for index in range(length)]
            empty = True
            for items in product(*columns):
                if not shape.unique or len(set(items)) == length:
                    empty = False
                    yield "array", items
            if empty and length >= len(known):
                return


def _members(numbers: NumberRange, limit: int) -> list[Fraction] | None:
    low, high = numbers.low, numbers.high
    if low is None or high is None:
        return None
    if low == high:
        return [low]
    grid = numbers.multiples[0] if numbers.multiples else Fraction(1) if numbers.integer else None
    if grid is None:
        return None
    found: list[Fraction] = []
    for index in range(ceil(low / grid), floor(high / grid) + 1):
        spend(2)
        if contains(numbers, index * grid):
            found.append(index * grid)
            if len(found) >= limit:
                return None
    return found
