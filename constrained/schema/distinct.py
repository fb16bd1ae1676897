"""How many values a conjunction has, as far as `uniqueItems` needs to know."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from constrained.errors import UnsupportedSchema
from constrained.schema.alternatives import drafts_of, scalars_of
from constrained.schema.documents import ordered
from constrained.schema.ranges import contains
from constrained.schema.scalars import ARRAY, OBJECT
from constrained.schema.texts import listed
from constrained.schema.values import Conj, NumberRange


def values_below(conj: Conj, limit: int) -> frozenset[object] | None:
    """Return all values of a conjunction if they are fewer than `limit`, None if they are more.

    Values are tagged with their type, because 1 and true are different items.
    """
    scalars = scalars_of(conj)
    found: set[object] = {("boolean", value) for value in scalars.booleans}
    if scalars.null:
        found.add(("null", None))
    for numbers in scalars.numbers:
        members = _members(numbers, limit)
        if members is None:
            return None
        found.update(("number", value) for value in members)
    if scalars.strings.only is not None:
        found.update(("string", text) for text in scalars.strings.only)
    else:
        texts = listed(scalars.strings.expr(), limit)
        if texts is None:
            return None
        found.update(("string", text) for text in texts)
    if len(found) >= limit:
        return None
    if drafts_of(conj, ARRAY) or drafts_of(conj, OBJECT):
        return _composites(conj)
    return frozenset(found)


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
    for count in range(ceil(low / grid), floor(high / grid) + 1):
        if contains(numbers, count * grid):
            found.append(count * grid)
            if len(found) >= limit:
                return None
    return found


def _composites(conj: Conj) -> None:
    raise UnsupportedSchema(
        "cannot compile uniqueItems", where=ordered(conj)[0].node.pointer,
        because="it is not known how many different arrays or objects its items can be, and fewer scalars than items are wanted",
        instead='drop "minItems" or "uniqueItems"',
    )
