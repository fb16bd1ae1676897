"""What may be out of reach, or much work to read: found when a schema is compiled."""

import copy

import pytest

from constrained.errors import UnsupportedSchema
from constrained.schema.embedding import embed
from constrained.schema.reading.check import load
from constrained.work import Budget, metered

WORDS = [f"^{letter}?int(8|16|24|32|40|48|56|64)?(\\[[0-9]*\\])?$" for letter in "uvwxyz"]


@pytest.mark.parametrize(("schema", "risky"), [
    ({"uniqueItems": True}, True),
    ({"type": ["array", "null"], "uniqueItems": True}, True),
    ({"type": "array", "uniqueItems": False}, False),
    ({"type": "string", "uniqueItems": True}, False),  # no array, so that nothing is compared
    ({"type": ["string", "object"], "uniqueItems": True}, False),
    ({"format": "idn-hostname"}, True),  # large
    ({"format": "date"}, False),
])
def test_what_may_be_out_of_reach(schema, risky):
    (literal,) = load(schema)
    assert bool(literal.node.document.library.risky) == risky


DISTINCT = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
COUNTED = {"contains": {"pattern": "a"}, "allOf": [{"contains": {"pattern": "b"}}]}


@pytest.mark.parametrize("schema", [
    {**DISTINCT, **COUNTED},
    {"properties": {"x": DISTINCT}, "patternProperties": {"x": COUNTED}},  # the two meet in a value, not in a schema
    {"items": {**DISTINCT, "if": {"minItems": 1}, "then": {"contains": {"pattern": "a"}}, **COUNTED}},
])
def test_what_distinct_items_may_not_stand_beside_is_found_when_it_is_compiled(schema):
    with pytest.raises(UnsupportedSchema, match=r"cannot compile uniqueItems at #.*uniqueItems"):
        embed(schema)


@pytest.mark.parametrize(("schema", "tried"), [
    ({"format": "regex", "minLength": 3}, True),
    ({"allOf": [{"format": "regex"}, {"format": "idn-hostname"}]}, True),
    ({"not": {"format": "regex"}}, False),  # what cannot begin a pattern is a small language
    ({"format": "regex", "type": "string", "description": "alone"}, False),  # tests/test_fuzz_schemas.py knows its cost
    ({"oneOf": [{"pattern": pattern} for pattern in WORDS]}, True),  # all go on after "int8"
    ({"multipleOf": int("1" * 200), "type": "integer"}, True),
    ({"dependentRequired": {f"{number}": ["a"] for number in range(200)}}, True),
    ({"type": "object", "minProperties": 1}, False),
])
def test_what_is_tried_beforehand(schema, tried):
    machine = embed({"properties": {"a": schema}}, unsupported="widen")
    assert bool(list(machine.heavy_parts())) == tried


PART = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "string", "pattern": "^[a-f]{8}$"}}}


def units(schema):
    budget = Budget()
    with metered(budget):
        embed(schema)
    return budget.limit - budget.left


@pytest.mark.parametrize("made", [
    lambda n: {"type": "array", "allOf": [{"contains": {"const": number}} for number in range(n)]},
    lambda n: {"oneOf": [{"const": [0, number, 0]} for number in range(n)]},
    lambda n: {"oneOf": [{"properties": {"k": {"const": number}}, "required": ["k"]} for number in range(n)]},
    # members with equal parts, each written out anew
    lambda n: {"oneOf": [{"properties": {**{f"{at}": copy.deepcopy(PART) for at in range(n)}, "k": {"const": k}}}
                         for k in range(2)]},
])
def test_the_work_of_a_compile_grows_with_the_text(made):
    assert units(made(160)) < 3 * units(made(80))
