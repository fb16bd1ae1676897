"""Does a JSON value belong to a normal form?  The slow and obvious reading of `constrained.schema.values`, for tests
only.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

from constrained import regex
from constrained.schema.normal.normalise import is_never, normalise
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
    Obligation,
    Present,
)


def belongs(instance: Any, conj: Conj) -> bool:
    """Return whether a JSON value belongs to a conjunction; checks on the way that what has a value is not NEVER."""
    value = normalise(conj)
    if instance is None:
        found = value.null
    elif isinstance(instance, bool):
        found = instance in value.booleans
    elif isinstance(instance, (int, float, Decimal)):
        number = Fraction(repr(instance)) if isinstance(instance, float) else Fraction(instance)
        found = any(_in_range(number, numbers) for numbers in value.numbers)
    elif isinstance(instance, str):
        found = regex.matches(value.strings, instance)
    elif isinstance(instance, list):
        found = any(_in_array(instance, shape) for shape in value.arrays)
    else:
        found = any(_in_object(instance, shape) for shape in value.objects)
    assert bool(value) is not is_never(conj), "a value without anything in it must be NEVER"
    assert not (found and is_never(conj))
    return found


def _in_range(number: Fraction, numbers: NumberRange) -> bool:
    low, high = numbers.low, numbers.high
    return (
        (low is None or number > low or number == low and not numbers.low_open)
        and (high is None or number < high or number == high and not numbers.high_open)
        and (numbers.integer is None or numbers.integer is (number.denominator == 1))
        and all((number / step).denominator == 1 for step in numbers.multiples)
        and not any((number / step).denominator == 1 for step in numbers.not_multiples)
    )


def same(one: Any, other: Any) -> bool:
    """JSON equality: 1 equals 1.0 and not true."""
    if (
        isinstance(one, bool)
        or isinstance(other, bool)
        or not isinstance(other, type(one))
        and not _are_numbers(one, other)
    ):
        return one is other
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(part, other[key]) for key, part in one.items())
    return bool(one == other)


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, (int, float, Decimal)) for value in values)


def _in_array(items: list[Any], shape: ArrayShape) -> bool:
    if len(items) < shape.min or shape.max is not None and len(items) > shape.max:
        return False
    conjs = (*shape.prefix, *[shape.rest] * len(items))
    if not all(map(belongs, items, conjs)):
        return False
    for count in shape.counts:
        number = sum(belongs(item, count.item) for item in items)
        if number < count.min or count.max is not None and number > count.max:
            return False
    twins = any(same(one, other) for one, other in combinations(items, 2))
    if shape.unique is not None and shape.unique is twins:
        return False
    return all(any(_item_holds(items, part) for part in clause) for clause in shape.clauses)


def _item_holds(items: list[Any], part: Obligation) -> bool:
    if isinstance(part, LengthBelow):
        return len(items) < part.length
    if isinstance(part, LengthAtLeast):
        return len(items) >= part.length
    if isinstance(part, ItemAt):
        return len(items) > part.index and belongs(items[part.index], part.item)
    assert isinstance(part, ItemFrom)
    return any(belongs(item, part.item) for item in items[part.index :])


def _in_object(properties: dict[str, Any], shape: ObjectShape) -> bool:
    if len(properties) < shape.min or shape.max is not None and len(properties) > shape.max:
        return False
    named = dict(shape.named)
    if not shape.required <= properties.keys():
        return False
    for key, part in properties.items():
        if key in named:
            if not belongs(part, named[key]):
                return False
            continue
        cells = [conj for language, conj in shape.cells if regex.matches(language, key)]
        assert len(cells) < 2, "cells are disjoint"
        if not cells or not belongs(part, cells[0]):
            return False
    return all(any(_property_holds(properties, named, part) for part in clause) for clause in shape.clauses)


def _property_holds(properties: dict[str, Any], named: dict[str, Conj], part: Obligation) -> bool:
    if isinstance(part, HasOther):
        return any(
            key not in named and regex.matches(part.keys, key) and belongs(value, part.value)
            for key, value in properties.items()
        )
    assert isinstance(part, (HasNamed, Absent, Present))
    assert part.key in named
    if isinstance(part, HasNamed):
        return part.key in properties and belongs(properties[part.key], part.value)
    return (part.key in properties) is isinstance(part, Present)
