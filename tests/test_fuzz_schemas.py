"""A seeded slice of `tests.fuzz.schemas`, and places that limits name: in combinations, in patterns of keys, and inside masks."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz import logic, schemas

from constrained import Grammar, LimitExceeded, UnsupportedSchema, compile
from constrained.work import Budget, metered

WORDS = schemas.vocabulary()


def test_random_schemas_are_compiled_and_walked_or_refused():
    outcomes = schemas.run(400, 1)
    assert outcomes["works"] > 150
    assert outcomes["refused"] > 80


def test_what_compiles_does_not_fail_in_a_mask():
    assert logic.run(80, 1)["works"] > 50


def _many(count, schema):
    return [schema(number) for number in range(count)]


LIMITS = [
    ({"oneOf": _many(100, lambda i: {"minimum": i, "multipleOf": i + 1})}, "#/oneOf"),
    ({"type": "object", "properties": {"a": {"oneOf": _many(1000, lambda i: {"required": [f"k{i}"]})}}, "required": ["a"]}, "#/properties/a/oneOf"),
    ({"type": "object", "patternProperties": {f"a.{{{i}}}b": {"minimum": i} for i in range(30)}}, "#/patternProperties"),
    ({"oneOf": _many(500, lambda i: {"type": "object", "minProperties": i, "required": [f"k{i}"]})}, "#/oneOf"),
    ({"type": "array", "allOf": _many(14, lambda i: {"contains": {"type": "object", "required": [f"k{i}"]}})}, "#/allOf/2/contains"),
]


@pytest.mark.parametrize(("schema", "pointer"), LIMITS)
def test_limits_name_the_place(schema, pointer):
    bitmask = np.zeros((1, WORDS.words), np.int32)
    with pytest.raises((LimitExceeded, UnsupportedSchema)) as caught, metered(Budget(200_000)):
        matcher = compile(Grammar.from_json_schema(schema), WORDS, max_work=200_000).matcher()
        for byte in b'[{"a":1},{"k1":1}, {"k1":' if schema.get("type") == "array" else b'{"k1":':
            matcher.fill_mask(bitmask)
            matcher.advance(byte)
    assert caught.value.where == pointer
