"""What a schema costs, by a look at its keywords: which are normalised, and some of their masks made, when they are
compiled.
"""

import pytest

from constrained.errors import UnsupportedSchema
from constrained.schema.embedding import embed
from constrained.schema.reading.check import load

WORDS = [f"^{letter}?int(8|16|24|32|40|48|56|64)?(\\[[0-9]*\\])?$" for letter in "uvwxyz"]
PATTERNS = [{"type": "string", "pattern": f"^{letter}"} for letter in "abcdefghijklmnop"]
OPEN = [{"required": [letter], "minProperties": 1} for letter in "abcdefghijklmnop"]
TAGGED = [{"type": "object", "properties": {"kind": {"const": str(number)}}, **part} for number, part in enumerate(OPEN)]
TYPED = [{"type": "string"}, {"type": "number"}, {"type": "array"}]
SAME = [TAGGED[0], TAGGED[0], *TAGGED[:6]]


@pytest.mark.parametrize(("schema", "risky"), [
    ({"oneOf": OPEN}, True),
    ({"oneOf": TAGGED}, False),
    ({"oneOf": [*TAGGED, *TYPED]}, False),  # some are told apart by a key, the others by their types
    ({"oneOf": [{"$ref": f"#/$defs/{number}"} for number in range(16)],
      "$defs": {str(number): part for number, part in enumerate(TAGGED)}}, False),
    ({"oneOf": SAME}, False),  # two of eight meet
    ({"oneOf": [*TAGGED[:8], *OPEN[8:]]}, True),  # eight of them meet all
    ({"oneOf": PATTERNS}, False),  # one pattern, however it is combined
    ({"type": "string", "oneOf": PATTERNS}, False),
    ({"oneOf": [{"type": ["string", "null"]}, {"oneOf": OPEN}]}, True),  # for `OPEN` itself
    ({"oneOf": [{"type": ["string", "null"]}, {"oneOf": TAGGED[:7]}]}, False),  # what denies these is about objects
    ({"oneOf": [{"type": "number", "minimum": 1}, {"oneOf": TAGGED[:7]}]}, True),  # numbers may be many ranges
    ({"oneOf": [*TAGGED, {"properties": {"kind": {"pattern": r"^\+"}}}]}, False),  # no constant has the pattern
    ({"oneOf": [*TAGGED, {"properties": {"kind": {"pattern": "^1"}}}]}, True),  # some have
    ({"type": "object", "oneOf": OPEN}, True),
    ({"oneOf": [{"const": number, **part} for number, part in enumerate(OPEN * 5)]}, True),  # too many to compare
    ({"oneOf": [{**part, "properties": {"kind": {"const": str(number)}}} for number, part in enumerate(OPEN * 5)]},
     False),
    ({"allOf": [{"anyOf": OPEN[:7]}] * 4}, True),
    ({"anyOf": OPEN}, False),
    ({"not": {"anyOf": OPEN}}, True),
    ({"allOf": [{"type": "object"}] * 100}, False),
])
def test_what_has_many_alternatives(schema, risky):
    (literal,) = load(schema)
    assert bool(literal.node.document.library.risky) == risky


@pytest.mark.parametrize(("schema", "doubtful"), [
    ({"uniqueItems": True}, True),
    ({"type": ["array", "null"], "uniqueItems": True}, True),
    ({"type": "array", "uniqueItems": False}, False),
    ({"type": "string", "uniqueItems": True}, False),  # no array, so that nothing is compared
    ({"type": ["string", "object"], "uniqueItems": True}, False),
    ({"format": "idn-hostname"}, True),  # not the specification's language, so that its complement is neither
    ({"format": "date"}, False),
])
def test_what_may_be_out_of_reach(schema, doubtful):
    (literal,) = load(schema)
    assert bool(literal.node.document.library.doubtful) == doubtful


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
    ({"not": {"format": "regex"}}, True),
    ({"format": "regex", "type": "string", "description": "alone"}, False),  # tests/test_fuzz_schemas.py knows its cost
    ({"oneOf": [{"pattern": f"^{number}{pattern[1:]}"} for number, pattern in enumerate(WORDS)]}, False),  # part at once
    ({"oneOf": [{"pattern": pattern} for pattern in WORDS]}, True),  # all go on after "int8"
    ({"oneOf": [*({"pattern": f"^{number}{pattern[1:]}"} for number, pattern in enumerate(WORDS)), {"pattern": "8"}]},
     True),  # the last one goes on beside each other
])
def test_what_is_tried_beforehand(schema, tried):
    machine = embed({"properties": {"a": schema}}, unsupported="widen")
    assert bool(list(machine.heavy_parts())) == tried
