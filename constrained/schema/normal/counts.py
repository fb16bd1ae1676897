"""What `uniqueItems` needs to know: the values of a conjunction, if they are few, and kinds of items that are counted.

Conditions that lie inside of each other, or apart, are a tree, and an item's *kind* is the innermost one that it meets:

    items ─┬─ contains an integer ── contains 7            kinds: 7; other integers; "a"; all else
           └─ contains "a"

Every value is of one kind, so items of different kinds differ, and of one kind it only matters how many values are
left.  How many further items a branch takes is an interval: between what its conditions ask for, and what they and the
values that are left allow.  Intervals of branches add up.  So whether an array can be completed takes one sum, where
conditions that overlap would take a search over all of their combinations.

Left out: conditions that overlap, and those on single places (UnsupportedSchema).  Tested by
tests/test_unique_items.py, against all small arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, count, product
from math import ceil, floor
from typing import Any, NamedTuple, TypeAlias

from constrained.errors import UnsupportedSchema
from constrained.schema.number_sets import contains
from constrained.schema.reading.document import NOTHING, both, ordered, rank
from constrained.schema.strings.sets import listed
from constrained.schema.values import (
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
    Present,
    Value,
    negation,
)
from constrained.work import let_go, spend, working_on

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
            values = listing.of(conj, depth)
            if values is None or not (listing.cut or listing.conditions):
                return values
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
        values: set[object] = {("boolean", boolean) for boolean in value.booleans}
        if value.null:
            values.add(("null", None))
        for numbers in value.numbers:
            members = _members(numbers, self.limit)
            if members is None:
                return None
            values.update(("number", number) for number in members)
            if len(values) >= self.limit:
                return None
        texts = listed(value.strings, self.limit)
        if texts is None:
            return None
        values.update(("string", text) for text in texts)
        if depth == 0 and (value.arrays or value.objects):
            self.cut = True
            return None if len(values) >= self.limit else frozenset(values)
        shapes: list[ArrayShape | ObjectShape] = [*value.arrays, *value.objects]
        # what is easily seen comes first
        for shape in sorted(shapes, key=lambda shape: len(shape.clauses) + len(getattr(shape, "counts", ()))):
            of_shape = self._arrays if isinstance(shape, ArrayShape) else self._objects
            if not self._add(values, of_shape(shape, depth - 1)):  # type: ignore[arg-type]
                return None
        return None if len(values) >= self.limit else frozenset(values)

    def _add(self, found: set[object], more: FewValues) -> bool:
        """Add values, and say whether there are fewer than asked."""
        found.update(more or ())
        return more is not None and len(found) < self.limit

    def _first(self, values: Iterator[object]) -> FewValues:
        first: set[object] = set()
        for value in values:
            spend(1)
            first.add(value)
            if len(first) >= self.limit:
                let_go(first)
                return None
        return frozenset(first)

    def _objects(self, shape: ObjectShape, depth: int) -> FewValues:
        if shape.clauses:
            values_of_all: set[object] = set()
            alike = (self._objects(choice, depth) for choice in self._object_choices(shape))
            return frozenset(values_of_all) if all(self._add(values_of_all, values) for values in alike) else None
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
            for part in sorted(shape.clauses[0], key=rank):
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
            for part in sorted(shape.clauses[0], key=rank):
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
            values_of_all: set[object] = set()
            alike = (self._arrays(choice, depth) for choice in self._array_choices(shape))
            return frozenset(values_of_all) if all(self._add(values_of_all, values) for values in alike) else None
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

    Numbers stand for the values: comparisons of fractions took four fifths of the time.
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


def _with_items(shape: ArrayShape, places: Sequence[int], item: Conj) -> ArrayShape:
    """Return the arrays of a shape with an item at some positions."""
    if not places:
        return shape
    spend(2 + places[-1])
    prefix = [*shape.prefix, *[shape.rest] * (places[-1] + 1 - len(shape.prefix))]
    for index in places:
        prefix[index] = both(prefix[index], item)
    return shape._replace(prefix=tuple(prefix), min=max(shape.min, places[-1] + 1))


def _members(numbers: NumberRange, limit: int) -> list[Fraction | int] | None:
    """Return the numbers of a range if there are fewer than the limit.

    Integers as such; they equal their fractions, and are hashed in a tenth of the time.
    """
    low, high = numbers.low, numbers.high
    if low is None or high is None:
        return None
    if low == high:
        return [_plain(low)]
    grid = numbers.multiples[0] if numbers.multiples else Fraction(1) if numbers.integer else None
    if grid is None:
        return None
    members: list[Fraction | int] = []
    for index in range(ceil(low / grid), floor(high / grid) + 1):
        spend(2)
        if contains(numbers, index * grid):
            members.append(_plain(index * grid))
            if len(members) >= limit:
                return None
    return members


def _plain(number: Fraction) -> Fraction | int:
    return number.numerator if number.denominator == 1 else number


_MANY = 1 << 40  # more values or items than any array has
_ASKED = 1_000  # values of a kind that are listed when a schema is compiled


class Kind(NamedTuple):
    """Values that meet the same conditions."""

    number: int  # of the condition, -1: none
    conj: Conj
    raised: int  # the counts that they meet, as a bitmask


class Kinds:
    """The kinds of items of one shape, which has counts, no prefix and no clauses."""

    def __init__(self, shape: ArrayShape, never: Callable[[Conj], bool], value_of: Callable[[Conj], Value]) -> None:
        self._shape, self._never, self._value_of = shape, never, value_of
        self._above = self._nested()
        self._order = sorted(range(len(shape.counts)), key=lambda at: -len(self._above[at]))  # innermost first
        self._parents = [max(above, key=lambda at: len(self._above[at]), default=-1) for above in self._above]
        self.all = tuple(kind for number in (-1, *range(len(shape.counts))) if (kind := self._kind(number)) is not None)
        self._enough = shape.min + sum([count.min for count in shape.counts])
        # by kind: its values, None if there are as many as were asked for; asked at once, as that may be out of reach
        self._few = {kind.number: (_ASKED, self._values_below(kind, _ASKED)) for kind in self.all}

    def _nested(self) -> list[set[int]]:
        """Return the conditions that contain each one.  Raises: UnsupportedSchema: two overlap."""
        counts, rest = self._shape.counts, self._shape.rest
        above: list[set[int]] = [set() for _ in counts]
        for one in range(len(counts)):
            inside = both(rest, counts[one].item)
            for other in range(one):
                spend(2)
                if self._empty(both(inside, counts[other].item)):
                    continue
                if self._empty(both(inside, negation(counts[other].item))):
                    above[one].add(other)
                elif self._empty(both(both(rest, counts[other].item), negation(counts[one].item))):
                    above[other].add(one)
                else:
                    raise UnsupportedSchema(
                        "cannot compile uniqueItems",
                        because="two of its contains overlap, so that one item may count for both or for either",
                        instead='drop one of them, or set unsupported="widen"',
                    )
        return above

    def _kind(self, number: int) -> Kind | None:
        """Return the items that meet a condition and none of those nested in it; None if no value does."""
        counts = self._shape.counts
        conj = self._shape.rest if number < 0 else both(self._shape.rest, counts[number].item)
        for inner, parent in enumerate(self._parents):
            if parent == number:
                conj = both(conj, negation(counts[inner].item))
        raised = 0 if number < 0 else sum([1 << above for above in self._above[number]], 1 << number)
        return None if self._empty(conj) else Kind(number, conj, raised)

    def _empty(self, conj: Conj) -> bool:
        return bool(conj) and (conj == NOTHING or self._never(conj))

    def options(
        self, written: int, unwritten: Callable[[Any], int], counts: tuple[int, ...], length: int
    ) -> Iterator[tuple[Kind, tuple[int, ...]]]:
        """Yield the kinds that the next item may be of, each with how often the counts are met then.

        written: how many values have been.  unwritten: says how many of some values have not.
        """
        left = {kind.number: self._left(kind, written, unwritten) for kind in self.all}
        for kind in self.all:
            spend(1 + len(counts))
            met = tuple([
                number + 1 if kind.raised >> at & 1 and (count.max is not None or number < count.min) else number
                for at, (number, count) in enumerate(zip(counts, self._shape.counts, strict=True))
            ])
            after = {**left, kind.number: left[kind.number] - 1}
            if left[kind.number] and self._fits(after, met, length + 1):
                yield kind, met

    def _fits(self, left: dict[int, int], counts: tuple[int, ...], length: int) -> bool:
        """Say whether an array can be completed, given how many values of each kind are left."""
        least, most = [0] * (len(counts) + 1), [left.get(number, 0) for number in (*range(len(counts)), -1)]
        for number in self._order:
            count, met = self._shape.counts[number], counts[number]
            least[number] = max(least[number], count.min - met)
            most[number] = min(most[number], _MANY if count.max is None else count.max - met)
            if least[number] > most[number]:
                return False
            least[self._parents[number]] += least[number]
            most[self._parents[number]] += most[number]
        longest = _MANY if self._shape.max is None else self._shape.max - length
        return max(least[-1], self._shape.min - length) <= min(most[-1], longest)

    def _left(self, kind: Kind, written: int, unwritten: Callable[[Any], int]) -> int:
        """Return how many values of a kind have not been written; more than are ever needed count as `_MANY`."""
        limit = 2 + self._enough + written
        asked, few = self._few[kind.number]
        if few is None and asked < limit:
            asked = 1 << limit.bit_length()
            few = self._values_below(kind, asked)
            self._few[kind.number] = asked, few
        if few is None:
            return _MANY
        spend(1 + len(few) // 4)
        return unwritten(few)

    def _values_below(self, kind: Kind, limit: int) -> FewValues:
        try:
            return values_below(kind.conj, limit, self._value_of)
        except UnsupportedSchema as error:
            raise UnsupportedSchema(
                error.what,
                because="how many items there are for one of its contains is not known: they nest too deep, or stand "
                "under conditions of their own",
                instead=error.instead,
            ) from None
