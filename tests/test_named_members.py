"""Masks before values that are the same in all grammars: kept with the vocabulary, and those of the plain kernel."""

from __future__ import annotations

import pytest
from constrained.engine.kernel._kernel import TO_MAKE
from laws import assert_kernels_agree, hard_vocabulary

from constrained import Grammar, Vocabulary, compile

TEXT = {"type": "string", "maxLength": 3}
SCHEMAS = {
    "open": {"type": "object"},
    "a name": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "any value by name": {"type": "object", "properties": {"a": True, "b": {}}, "required": ["b"]},
    "closed around open": {"properties": {"a": {"type": "object"}}, "additionalProperties": False, "type": "object"},
    "a map of texts": {"type": "object", "additionalProperties": TEXT, "minProperties": 1},
    "a map of digits": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[01]+$"}},
    "names of texts": {
        "type": "object",
        "properties": {"a": TEXT, "b": {"type": "string"}, "c": {"enum": ["abc", "b"]}},
        "required": ["a", "b", "c"],
        "additionalProperties": False,
    },
    "two cells": {"type": "object", "patternProperties": {"^a": TEXT}, "minProperties": 2},
    "two open objects": {
        "type": "array",
        "items": {"anyOf": [{"type": "object"}, {"required": ["a"], "type": "object"}]},
    },
    "few keys": {"type": "object", "maxProperties": 1},
    "any value": True,
}
OPTIONS = [
    {},
    {"whitespace": "compact"},
    {"whitespace": "canonical"},
    {"property_order": "schema"},
    {"spelling": "canonical"},
]


def members(vocabulary):
    return {
        key for key, (mask, _) in vocabulary.kernels.masks.entries.items() if key[0] == "member" and mask is not TO_MAKE
    }


def walked(schema, vocabulary, seeds, **options):
    grammar = Grammar.from_json_schema(schema, **options)
    places = [compile(grammar, vocabulary, kernel=kernel).place() for kernel in ("compiled", "plain")]
    for seed in seeds:
        assert_kernels_agree(vocabulary, places, 24, seed)


@pytest.mark.parametrize("first", ["open", "a map of texts"])
def test_what_one_grammar_kept_is_right_in_all_others(first):
    vocabulary = hard_vocabulary()
    walked(SCHEMAS[first], vocabulary, range(6))
    assert members(vocabulary)
    for schema in SCHEMAS.values():
        walked(schema, vocabulary, range(2))


def test_grammars_with_other_blanks_or_orders_keep_their_own():
    vocabulary, kept = hard_vocabulary(), [set()]
    for options in OPTIONS:
        walked(SCHEMAS["a name"], vocabulary, range(12), **options)
        kept.append(members(vocabulary))
        assert kept[-2] < kept[-1]
    for options in [{"numbers": "bounded"}, *OPTIONS]:
        walked(SCHEMAS["closed around open"], vocabulary, range(3), **options)


def test_the_next_grammar_makes_none_of_its_own():
    vocabulary = hard_vocabulary()
    walked(SCHEMAS["open"], vocabulary, range(20))
    kept = members(vocabulary)
    walked(SCHEMAS["open"] | {"minProperties": 2}, vocabulary, range(20))
    assert members(vocabulary) == kept


@pytest.mark.parametrize("apart", [1, 130, 700])
def test_tokens_far_apart_are_kept_wherever_they_stand(apart):
    """Among thousands of tokens that no text has, so that most blocks of a mask stay as they are."""
    texts = [bytes((byte,)) for byte in range(256)]
    for text in (b' "', b" {}", b" [],", b' "a', b" 12", b" true", b" null,", b' ""', b" {}}", b'"b', b' "",', b" 7}"):
        texts += [b"\xff\xff%d" % number for number in range(len(texts), len(texts) + apart)]
        texts.append(text)
    vocabulary = Vocabulary(texts, special={"<eos>": len(texts)}, stop=[len(texts)])
    for name in ("open", "names of texts", "two cells", "a map of texts", "any value by name", "open"):
        places = [
            compile(Grammar.from_json_schema(SCHEMAS[name]), vocabulary, kernel=kernel).place()
            for kernel in ("compiled", "plain")
        ]
        for begun in ('{"a": ', '{"a":', '{"b": {"a": ', '{"c": {"b": {"a": ', '{"a": "', '{"b": [{"a": "'):
            states = [kernel.step_bytes(start, begun.encode()) for kernel, start in places]
            if all(states):
                masks = [kernel.mask(state) for (kernel, _), state in zip(places, states, strict=True)]
                assert (masks[0] == masks[1]).all(), (name, begun)
    assert members(vocabulary)
