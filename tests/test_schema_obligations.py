"""What complements of keywords demand: some item, some key, several of which one may meet them all."""

from __future__ import annotations

import json

import jsonschema
import pytest

import constrained as c

VOCABULARY = c.Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256])
INTEGER, STRING = {"type": "integer"}, {"type": "string"}

# schema, words, texts that are none
ROWS = [
    pytest.param(
        {"type": "array", "prefixItems": [INTEGER], "not": {"prefixItems": [{"not": INTEGER}]}},
        ["[1]", "[1, 2]", '[1, "a"]'],
        ["[]", '["a"]'],
        id="an item that the array need not have",
    ),
    pytest.param(
        {"type": "array", "minItems": 1, "prefixItems": [INTEGER], "not": {"prefixItems": [{"not": INTEGER}]}},
        ["[1]", "[1, 2]"],
        ["[]", '["a"]'],
        id="an item that the array must have",
    ),
    pytest.param(
        {
            "type": "object",
            "maxProperties": 1,
            "not": {"anyOf": [{"additionalProperties": INTEGER}, {"additionalProperties": STRING}]},
        },
        ['{"a": null}', '{"b": []}'],
        ["{}", '{"a": 1}', '{"a": "b"}', '{"a": null, "b": null}'],
        id="one key for two obligations",
    ),
    pytest.param(
        {
            "type": "object",
            "maxProperties": 1,
            "allOf": [
                {"not": {"additionalProperties": INTEGER}},
                {"not": {"additionalProperties": STRING, "patternProperties": {"^x": {}}}},
            ],
        },
        ['{"a": null}'],
        ["{}", '{"x": null}', '{"a": 1}', '{"a": "b"}'],
        id="one key for two obligations, which ask for different keys",
    ),
    pytest.param(
        {"type": "object", "anyOf": [{"required": ["a"]}, {"properties": {"a": INTEGER}, "required": ["a"]}]},
        ['{"a": 1}', '{"a": "b"}'],
        ["{}", '{"b": 1}'],
        id="a key, whatever its value",
    ),
    pytest.param(
        {"type": "array", "allOf": [{"not": {"items": INTEGER}}, {"not": {"items": STRING}}]},
        ['[1, "a"]', "[null]", '["a", null]'],
        ["[]", "[1]", '["a"]', "[1, 1]", '["a", "b"]'],
        id="two obligations of an array",
    ),
    pytest.param(
        {"type": "array", "contains": {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}}},
        ["[{}]", '[{"a": 0}, {}]', '[{}, {"a": 0}]', '[0, {"b": 1}, {"b": 2}]'],
        ["[]", "[0]", '[{"a": 0}]', '[{"a": 0}, {"b": 1}]'],
        id="items before the one that is asked for, whose complement has conditions",
    ),
]


def takes(grammar: c.Grammar, text: str) -> bool:
    matcher = c.compile(grammar, VOCABULARY).matcher()
    for token in VOCABULARY.tokenize(text.encode()):
        if not matcher.accepts(token):
            return False
        matcher.advance(token)
    return matcher.is_accepting()


@pytest.mark.parametrize(("schema", "words", "others"), ROWS)
def test_obligations(schema, words, others):
    grammar = c.Grammar.from_json_schema(schema)
    assert [text for text in words if not takes(grammar, text)] == []
    assert [text for text in others if takes(grammar, text)] == []


HEADS = [None, True, False, 0, 1, 1.0, 2.5, "1", "a", "", [], [1], {}, 7]  # 1 and 1.0 are the same
ARRAYS = [{"not": {"enum": [[head, "x"] for head in HEADS]}}, {"not": {"anyOf": [
    {"prefixItems": [{"const": head}, tail], "type": "array"} for head in HEADS
    for tail in (STRING, {"const": head})]}}]


@pytest.mark.parametrize("schema", ARRAYS, ids=["arrays", "prefixes"])
def test_many_arrays_are_told_apart_by_their_first_items(schema):
    grammar, validator = c.Grammar.from_json_schema(schema), jsonschema.Draft202012Validator(schema)
    values = [*HEADS, 3, "b", [1, 1]]
    tails = [[], ["x"], ["y"], [1], [None], [True], ["x", "x"]]
    for value in [[head, *tail] for head in values for tail in tails] + [[], 1, {"a": 1}]:
        assert takes(grammar, json.dumps(value)) == validator.is_valid(value), value


def test_one_key_that_cannot_meet_two_obligations_is_none():
    schema = {
        "type": "object",
        "maxProperties": 1,
        "additionalProperties": {"type": ["integer", "string"]},
        "not": {"anyOf": [{"additionalProperties": INTEGER}, {"additionalProperties": STRING}]},
    }
    with pytest.raises(c.SchemaError, match="allows no value"):
        c.Grammar.from_json_schema(schema)
