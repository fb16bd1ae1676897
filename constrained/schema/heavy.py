"""Values of a schema that look like much work to read, which `compile` therefore tries before anything is generated.

The reading of a schema notes the subschemas whose patterns, formats, numbers or combinations look large
(`Library.heavy`).  Here the conjunctions are found that a value is read by and that such a subschema applies to: the
same ones that a generation comes to, so that what is tried is neither more nor less than what will be read there, and
the masks that are made are not lost.

Left out: what lies behind more than `_MOST_SEEN` conjunctions, and all but the first `_MOST_FOUND` that are heavy.
Tested by tests/test_fuzz_schemas.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from constrained.errors import UnsupportedSchema
from constrained.schema.limits import children, leading
from constrained.schema.machines.value import Values
from constrained.schema.reading.cycles import REFERRING
from constrained.schema.reading.keywords import Applies, Holds, applying
from constrained.schema.reading.nodes import NOTHING
from constrained.schema.reading.resources import Library
from constrained.schema.values import Conj, Value
from constrained.work import spend

_IN_PLACE = frozenset(
    (
        *applying(Applies.AS_PART, Applies.AS_BRANCH),
        *applying(Applies.AS_CONDITION, holds=Holds.SCHEMA),
        "propertyNames",  # keys are texts of the same machine
    )
)
_FORMAT_ALONE = frozenset({"type", "format"})
_MOST_SEEN = 400  # conjunctions
_MOST_FOUND = 8
_FEW_OBJECTS, _FEW_CONDITIONS, _FEW_RANGES = 40, 4, 2  # shapes of a value, conditions on one of them, sets of numbers


def heavy_parts(conj: Conj, values: Values) -> Iterator[Conj]:
    """Yield the conjunctions inside a value of this one that look like much work, outermost first; this one where it
    does itself, or where what is inside cannot be told.

    Cost: that of the normal forms of what leads there, which reading such a value takes anyway.
    """
    library = next(iter(conj)).node.document.library
    above = leading(library, (*library.heavy, *library.risky))
    always, perhaps = set(map(id, library.heavy)), set(map(id, library.risky))

    def leads(part: Conj) -> bool:
        return any(id(signed.node.schema) in above for signed in part)

    seen, queue, found, told = {conj}, [conj], 0, True
    for current in queue:
        spend(4)
        try:
            value = values.value(current)
            below = list(children(value, leads, values))
        except UnsupportedSchema:  # is said where it matters
            told = False
            continue
        schemas = _in_place(current, library)
        is_large = schemas & always or schemas & perhaps and not _is_plain(value)
        if is_large and (current is conj or not _is_format(current)):
            yield current
            found += 1
        if found == _MOST_FOUND:
            return
        for child in below:
            if child and child != NOTHING and child not in seen and leads(child) and len(seen) < _MOST_SEEN:
                seen.add(child)
                queue.append(child)
    if not found and not (told and len(seen) < _MOST_SEEN):
        yield conj


def _is_format(conj: Conj) -> bool:
    """Say whether nothing but a named format is asked for: what each of them costs is known."""
    if len(conj) > 1:
        return False
    (signed,) = conj
    schema, rules = signed.node.schema, signed.node.resource.dialect.rules
    return signed.positive and _FORMAT_ALONE.issuperset([keyword for keyword in schema if keyword in rules])


def _in_place(conj: Conj, library: Library) -> set[int]:
    """Return the ids of the schemas that apply to the same value as a conjunction."""
    todo: list[Any] = [signed.node.schema for signed in conj]
    found: set[int] = set()
    while todo:
        schema = todo.pop()
        if isinstance(schema, dict) and id(schema) not in found:
            found.add(id(schema))
            spend(2)
            for keyword in _IN_PLACE.intersection(schema):
                value = schema[keyword]
                todo += value if isinstance(value, list) else [value]
            todo += [
                library.targets[id(schema), keyword].schema
                for keyword in REFERRING
                if (id(schema), keyword) in library.targets
            ]
    return found


def _is_plain(value: Value) -> bool:
    """Say whether what was combined has come to little: the estimate from the keywords was too high."""
    conditions = [len(shape.clauses) + len(shape.counts) for shape in value.arrays]
    conditions += [len(shape.clauses) for shape in value.objects]
    few = len(value.arrays) + len(value.objects) <= _FEW_OBJECTS and len(value.numbers) <= _FEW_RANGES
    return few and max(conditions, default=0) <= _FEW_CONDITIONS
