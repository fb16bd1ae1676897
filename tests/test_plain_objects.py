"""The facts about plain objects, which are compiled: those that the machine in Python states of the same object."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from fuzz.random_schemas import Schemas

from constrained import errors
from constrained.machine import ObjectTable
from constrained.schema.machines.object import ObjectMachine
from constrained.schema.machines.value import Values
from constrained.schema.normal.normalise import is_never, normalise
from constrained.schema.reading.check import load
from constrained.schema.surfaces.punctuation import Punctuation, json

PlainObject = pytest.importorskip("constrained.schema._values", reason="no compiler").PlainObject

MOST_OBJECTS = 50  # of one schema that are looked at
SURFACES = {  # Python objects are never plain
    "json": json("flexible", "any"),
    "json, compact": json("compact", "canonical"),
    "json, marked": json("flexible", "canonical", 64, ("</s>",)),
}
OBJECTS: list[Any] = [
    {"anyOf": [{"type": "object", "properties": {name: {"type": "integer"}, "z": True}, "required": [name], **more} for name in "ab"]}
    for more in ({}, {"additionalProperties": False}, {"additionalProperties": {"type": "null"}}, {"maxProperties": 2}, {"minProperties": 3},
                 {"additionalProperties": False, "minProperties": 2}, {"patternProperties": {"^x": True}}, {"properties": {"z": False}})
] + [
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
    {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "array", "maxItems": 2}, {"type": ["string", "null"]}]},
    {"type": ["array", "object", "null", "boolean"]}, {"type": "object", "properties": {f"k{number:02}": {} for number in range(70)}, "required": ["k69"]},
    {"type": "object", "properties": {f"k{number:02}": {"not": {}} if number % 9 == 0 else {} for number in range(70)}, "additionalProperties": {"not": {}}},
    {"type": "array", "items": {"not": {}}}, {"type": "array", "items": {"allOf": [{"type": "string"}, {"type": "null"}]}, "maxItems": 3},
    {"type": "object", "additionalProperties": {"allOf": [{"type": "string"}, {"type": "null"}]}}, {"type": "array", "minItems": 2, "maxItems": 1 << 31},
    *({"type": "object", "properties": {name: {}, "b": {"type": "null"}, "a": {}}, "additionalProperties": False, **more}
      for name in ("z", "z</s>") for more in ({}, {"minProperties": 1}, {"minProperties": 2, "required": ["a", "b"]}, {"required": ["a"]})),
]  # fmt: skip


def facts(table: ObjectTable) -> Any:
    """Return what a table says; states are compared by identity, as one `Values` made them."""
    which = [at for at in range(len(table.names) + len(table.cells)) if at >= len(table.names) or table.usable >> at & 1]
    return table._replace(value=None, order=table.order and [*table.order]), [table.value(at) for at in which]  # type: ignore[arg-type]


def compared(schema: Any, marks: Punctuation, *, ordered: bool) -> int:
    """Compare all plain objects that a schema's values may contain; return their number."""
    values, conj = Values(marks, ordered=ordered), load(schema)
    queue, found = [] if is_never(conj) else [conj], 0
    for current in queue:
        value = normalise(current)
        for shape in value.objects:
            state = values.opened_object((shape,), marks, current)
            if type(state) is PlainObject:
                machine = ObjectMachine(values, shape, marks, current)
                assert machine.table is not None and facts(state.object_table) == facts(machine.table), schema
                assert [len(part) for part in state.expand()[:3]] == [len(part) for part in machine.start.expand()[:3]]
                found += 1
        inner = [part for shape in value.objects for _, part in (*shape.named, *shape.cells)]
        inner += [part for shape in value.arrays for part in (shape.at(0), shape.at(9))]
        queue += [part for part in dict.fromkeys(inner) if part not in queue and len(queue) < MOST_OBJECTS and not is_never(part)]
    return found


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "ordered"])
def test_facts_about_plain_objects_are_those_of_their_machines(surface: str, ordered: bool) -> None:
    picks, found = Schemas(11), 0
    for schema in (*OBJECTS, *(picks.make() for _ in range(150))):
        with suppress(errors.ConstrainedError):
            found += compared(schema, SURFACES[surface], ordered=ordered)
    assert found > 10
