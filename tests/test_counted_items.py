"""``contains`` beside ``uniqueItems``: every small array against jsonschema, and no dead ends."""

from __future__ import annotations

import itertools
import json
import random

import jsonschema
import pytest

from constrained import Grammar, SchemaError, UnsupportedSchema, Vocabulary, compile

BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)
VALUES = [1, 2, 3, "a", "b", None, [], [1]]
CONDITIONS = [
    {"const": 1},
    {"enum": ["a", 2]},
    {"enum": [1, 2]},
    {"type": "integer"},
    {"type": "string", "maxLength": 1},
    {"type": "array"},
    {"minimum": 2},
    {"not": {"const": "b"}},
]
ITEMS = [True, {"enum": [1, 2, "a", None]}, {"enum": [1, 3, [], [1]]}, {"type": ["integer", "string"]}, {"type": "array"}]


def _schema(seed: int) -> dict:
    picks = random.Random(seed)
    conditions = [{"contains": picks.choice(CONDITIONS)} for _ in range(picks.randint(1, 3))]
    for condition in conditions:
        if picks.random() < 0.4:
            condition["minContains"] = picks.randint(0, 3)
        if picks.random() < 0.4:
            condition["maxContains"] = picks.randint(0, 2)
    schema = {"type": "array", "uniqueItems": True, "items": picks.choice(ITEMS), "allOf": conditions}
    if picks.random() < 0.4:
        schema["minItems"] = picks.randint(0, 3)
    if picks.random() < 0.5:
        schema["maxItems"] = picks.randint(1, 4)
    return schema


def _takes(constraint, value) -> bool:
    matcher = constraint.matcher()
    for byte in json.dumps(value, separators=(",", ":")).encode():
        if not matcher.accepts(byte):
            return False
        matcher.advance(byte)
    return matcher.is_accepting()


@pytest.mark.parametrize("seed", range(40))
def test_every_small_array_is_accepted_where_it_is_valid(seed):
    schema, picks = _schema(seed), random.Random(seed)
    validator = jsonschema.Draft202012Validator(schema)
    try:
        constraint = compile(Grammar.from_json_schema(schema, whitespace="compact", spelling="canonical"), BYTES)
    except UnsupportedSchema as error:
        assert "overlap" in error.because and error.where == "#/uniqueItems"
        return
    except SchemaError:
        arrays = (list(values) for length in range(4) for values in itertools.permutations([*VALUES, 4, "c"], length))
        assert not any(map(validator.is_valid, arrays))
        return
    for length in range(4):
        for values in itertools.product(VALUES[seed % 3 :: 2] if length > 2 else VALUES, repeat=length):
            assert _takes(constraint, list(values)) is validator.is_valid(list(values)), values
    for _ in range(2):
        matcher = constraint.matcher()
        for step in range(60):
            allowed = [byte for byte in range(257) if matcher.accepts(byte)]
            assert allowed, matcher.text()
            if 256 in allowed and step > 20:
                break
            matcher.advance(picks.choice(allowed))
            if matcher.is_finished():
                break


def test_conditions_that_overlap_are_refused_with_their_place():
    schema = {"uniqueItems": True, "allOf": [{"contains": {"enum": [1, 2]}}, {"contains": {"enum": [2, 3]}}]}
    with pytest.raises(UnsupportedSchema, match="overlap") as caught:
        Grammar.from_json_schema({"properties": {"a": schema}})
    assert caught.value.where == "#/properties/a/uniqueItems"
