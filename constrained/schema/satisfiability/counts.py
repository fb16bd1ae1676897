"""The number of values of a conjunction, as far as `uniqueItems` needs it: all of them if they are few."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, count, product
from math import ceil, floor
from typing import TypeAlias

from constrained.errors import UnsupportedSchema
from constrained.schema.numeric.ranges import contains
from constrained.schema.reading.nodes import NOTHING, both, ordered
from constrained.schema.strings.sets import listed
from constrained.schema.values import (
    ALWAYS,
    Absent,
    ArrayShape,
    Conj,
    HasNamed,
    HasOther,
    ItemAt,
    ItemFrom,
    LengthAtLeast,
    LengthBelow,
    NumberRange,
    ObjectShape,
    Obligation,
    Present,
    Value,
)
from constrained.work import spend, working_on

# tagged with their type, because 1 and true differ; None: at least as many as asked
FewValues: TypeAlias = "frozenset[object] | None"

_DEEPEST = 64  # levels of arrays and objects that are spelled out
_DEPTHS = (0, 1, 2, 4, 8, 16, 32, _DEEPEST)  # doubled, as each is spelled out anew
_NEAR = 8  # items of an array, all of whose positions a condition on some item may mean


def values_below(conj: Conj, limit: int, value_of: Callable[[Conj], Value]) -> FewValues:
    """Return all values of a conjunction if they are fewer than `limit`, None if there are more.

    Composite values are spelled out level by level until no level is cut off or there are enough of them.
    """
    if not conj:
        return None
    with working_on(ordered(conj)[0].node.pointer):
        for depth in _DEPTHS:
            listing = _Listing(limit, value_of)
            found = listing.of(conj, depth)
            if found is None or not (listing.cut or listing.conditions):
                return found
            if not listing.cut:
                break
    conditions = f"conditions on its items are not counted out, and {limit} different values are not seen without them"
    nesting = f"its items nest more than {_DEEPEST} levels without offering {limit} different values"
    raise UnsupportedSchema(
        "cannot compile uniqueItems",
        where=ordered(conj)[0].node.pointer,
        because=conditions if listing.conditions else nesting,
        instead='drop "minItems" or "uniqueItems"' + (", or the conditions" if listing.conditions else ""),
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
        spend(1 + len(domains[position]))
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
    """The values down to some depth; `cut` tells whether deeper ones were left out, `conditions` whether some that
    conditions make.
    """

    def __init__(self, limit: int, value_of: Callable[[Conj], Value]) -> None:
        self.limit, self.value_of, self.cut, self.conditions = limit, value_of, False, False
        self._known: dict[tuple[Conj, int], FewValues] = {}

    def of(self, conj: Conj, depth: int) -> FewValues:
        if not conj:
            return None
        if conj == NOTHING:
            return frozenset()
        if (conj, depth) not in self._known:
            spend(8)
            self._known[conj, depth] = self._of(self.value_of(conj), depth)
        return self._known[conj, depth]

    def _of(self, value: Value, depth: int) -> FewValues:
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
        if depth == 0 and (value.arrays or value.objects):
            self.cut = True
            return None if len(found) >= self.limit else frozenset(found)
        shapes: list[ArrayShape | ObjectShape] = [*value.arrays, *value.objects]
        for shape in sorted(shapes, key=_conditions):  # what is easily seen comes first
            of_shape = self._arrays if isinstance(shape, ArrayShape) else self._objects
            if not self._add(found, of_shape(shape, depth - 1)):  # type: ignore[arg-type]
                return None
        return None if len(found) >= self.limit else frozenset(found)

    def _add(self, found: set[object], more: FewValues) -> bool:
        """Add values, and say whether there are fewer than asked."""
        found.update(more or ())
        return more is not None and len(found) < self.limit

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
            found: set[object] = set()
            alike = (self._objects(choice, depth) for choice in self._object_choices(shape))
            return frozenset(found) if all(self._add(found, values) for values in alike) else None
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

    def _object_choices(self, shape: ObjectShape) -> Iterator[ObjectShape]:
        """Yield the shapes without clauses whose union is a shape: of each clause, one obligation holds."""
        todo = [shape]
        while todo:
            shape = todo.pop()
            if not shape.clauses:
                yield shape
                continue
            spend(4 + len(shape.named) * len(shape.clauses[0]))
            named, rest = dict(shape.named), shape.clauses[1:]
            for part in sorted(shape.clauses[0], key=_order):
                if isinstance(part, (Present, HasNamed)):
                    value = both(named[part.key], part.value) if isinstance(part, HasNamed) else named[part.key]
                    grown = tuple({**named, part.key: value}.items())
                    todo.append(shape._replace(named=grown, required=shape.required | {part.key}, clauses=rest))
                elif isinstance(part, Absent) and part.key not in shape.required:
                    todo.append(shape._replace(named=tuple({**named, part.key: NOTHING}.items()), clauses=rest))
                self.conditions |= isinstance(part, HasOther)

    def _array_choices(self, shape: ArrayShape) -> Iterator[ArrayShape]:
        """Yield shapes without clauses whose union is within a shape; `conditions` tells whether it is less."""
        todo = [shape]
        while todo:
            shape = todo.pop()
            if shape.counts:
                first, *counts = shape.counts
                rest, last = shape._replace(counts=tuple(counts)), self._last(shape, first.min - 1)
                todo += [_with_items(rest, chosen, first.item) for chosen in combinations(range(last + 1), first.min)]
                continue
            if not shape.clauses:
                yield shape
                continue
            rest = shape._replace(clauses=shape.clauses[1:])
            for part in sorted(shape.clauses[0], key=_order):
                if isinstance(part, LengthBelow):
                    shorter = part.length - 1 if shape.max is None else min(shape.max, part.length - 1)
                    if shape.min <= shorter:
                        todo.append(rest._replace(max=shorter, prefix=shape.prefix[:shorter]))
                elif isinstance(part, LengthAtLeast):
                    if shape.max is None or part.length <= shape.max:
                        todo.append(rest._replace(min=max(shape.min, part.length)))
                elif isinstance(part, (ItemAt, ItemFrom)):
                    last = part.index if isinstance(part, ItemAt) else self._last(shape, part.index)
                    places = range(part.index, (last if shape.max is None else min(last, shape.max - 1)) + 1)
                    todo += [_with_items(rest, (index,), part.item) for index in places]

    def _last(self, shape: ArrayShape, first: int) -> int:
        """Return up to which position, `first` or a later one, an item is looked for: the last one, if that is near."""
        if shape.max is not None and shape.max <= max(first, _NEAR):
            return shape.max - 1
        self.conditions = True
        return max(first, len(shape.prefix), shape.min)

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
        if shape.unique is False or any(count.max is not None for count in shape.counts):
            self.conditions = True
            return frozenset()
        if shape.clauses or shape.counts:
            found: set[object] = set()
            alike = (self._arrays(choice, depth) for choice in self._array_choices(shape))
            return frozenset(found) if all(self._add(found, values) for values in alike) else None
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
            for items in _different(columns) if shape.unique else product(*columns):
                spend(1 + (length >> 3))
                empty = False
                yield "array", items
            if empty and length >= len(known):
                return


def _different(columns: Sequence[Collection[object]]) -> Iterator[tuple[object, ...]]:
    """Yield each way to take one value of every column so that all of them differ.

    PERF: numbers stand for the values: comparisons of fractions took four fifths of the time.
    """
    distinct = {id(column): column for column in columns}
    values = list({value: None for column in distinct.values() for value in column})
    number_of = {value: index for index, value in enumerate(values)}
    numbered = {name: [number_of[value] for value in column] for name, column in distinct.items()}
    todo: list[tuple[int, ...]] = [()]
    while todo:
        items = todo.pop()
        if len(items) == len(columns):
            spend(1)
            yield tuple([values[item] for item in items])
        else:
            column = numbered[id(columns[len(items)])]
            spend(1 + (len(column) >> 4))
            todo += [(*items, item) for item in column if item not in items]


def _conditions(shape: ArrayShape | ObjectShape) -> int:
    return len(shape.clauses) + (len(shape.counts) if isinstance(shape, ArrayShape) else 0)


def _with_items(shape: ArrayShape, places: Sequence[int], item: Conj) -> ArrayShape:
    """Return the arrays of a shape with an item at some positions."""
    if not places:
        return shape
    spend(2 + places[-1])
    prefix = [*shape.prefix, *[shape.rest] * (places[-1] + 1 - len(shape.prefix))]
    for index in places:
        prefix[index] = both(prefix[index], item)
    return shape._replace(prefix=tuple(prefix), min=max(shape.min, places[-1] + 1))


def _order(part: Obligation) -> tuple[object, ...]:
    """Return what orders obligations, so that work does not depend on hashes."""
    conj = part.value if isinstance(part, (HasNamed, HasOther)) else getattr(part, "item", ALWAYS)
    place = getattr(part, "index", getattr(part, "length", 0))
    return type(part).__name__, getattr(part, "key", ""), place, [signed.node.serial for signed in ordered(conj)]


def _members(numbers: NumberRange, limit: int) -> list[Fraction | int] | None:
    """Return the numbers of a range if there are fewer than the limit.

    PERF: integers as such; they equal their fractions, and are hashed in a tenth of the time.
    """
    low, high = numbers.low, numbers.high
    if low is None or high is None:
        return None
    if low == high:
        return [_plain(low)]
    grid = numbers.multiples[0] if numbers.multiples else Fraction(1) if numbers.integer else None
    if grid is None:
        return None
    found: list[Fraction | int] = []
    for index in range(ceil(low / grid), floor(high / grid) + 1):
        spend(2)
        if contains(numbers, index * grid):
            found.append(_plain(index * grid))
            if len(found) >= limit:
                return None
    return found


def _plain(number: Fraction) -> Fraction | int:
    return number.numerator if number.denominator == 1 else number
