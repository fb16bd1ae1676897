"""Distinct arrays whose items are distinct arrays of such items, and so on: what is known of one is looked for in the
next.
"""

from __future__ import annotations

import itertools
import json

import jsonschema
import numpy as np
import pytest

from constrained import Grammar, LimitExceeded, Rejected, Vocabulary, compile

BYTES = Vocabulary([bytes([byte]) for byte in range(256)], {"<eos>": 256}, [256], 257)
HERE = {"$ref": "#"}
SCHEMAS = {
    "of anything": {"uniqueItems": True, "items": HERE},
    "of numbers": {"type": ["array", "integer"], "uniqueItems": True, "items": HERE},
    "of strings": {"type": ["array", "string"], "uniqueItems": True, "items": HERE},
    "of nothing else": {"type": "array", "uniqueItems": True, "items": HERE},
    "of few": {"type": "array", "uniqueItems": True, "items": {"anyOf": [{"enum": [1, 2]}, HERE]}},
    "of objects": {"type": ["array", "object"], "uniqueItems": True, "items": HERE, "additionalProperties": HERE},
    "by way of another word": {"uniqueItems": True, "unevaluatedItems": {"minContains": 40, "$ref": "#", "title": "ab"}},
    "of two turns": {"uniqueItems": True, "type": "array", "items": {"$ref": "#/$defs/a"},
                     "$defs": {"a": {"type": "array", "uniqueItems": True, "items": HERE}}},
}  # fmt: skip


def _values():
    """Yield small values, arrays in arrays among them, with and without equal items."""
    first = [1, 2, "a", [], {}]
    second = [*first, *([item] for item in first), {"a": []}, {"a": 1}]
    for count in range(3):
        for items in itertools.product(second, repeat=count):
            yield list(items)
    yield from ([[[]], [[[]]], []], [[[]], [[], [[]]], [[], [[]]]], [[1, [2]], [[2], 1]], [[1, [2]], [1, [2]]])


def _accepts(constraint, text):
    matcher = constraint.matcher()
    try:
        for byte in text:
            matcher.advance(byte)
    except Rejected:
        return False
    return matcher.is_accepting()


@pytest.mark.parametrize("name", SCHEMAS)
def test_verdicts_are_those_of_jsonschema(name):
    schema = SCHEMAS[name]
    validator, constraint = jsonschema.Draft202012Validator(schema), compile(Grammar.from_json_schema(schema), BYTES)
    verdicts = []
    for value in _values():
        verdicts.append(validator.is_valid(value))
        assert _accepts(constraint, json.dumps(value).encode()) is verdicts[-1], value
    assert len(set(verdicts)) == 2


@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_are_those_of_the_plain_kernel(name):
    grammar = Grammar.from_json_schema(SCHEMAS[name], whitespace="compact")
    matchers = [compile(grammar, BYTES, kernel=kernel).matcher() for kernel in ("compiled", "plain")]
    rows = np.zeros((2, BYTES.words), np.int32)
    for byte in b"[[],[[]],[[],[[],[[]]]]]":
        for row, matcher in zip(rows, matchers, strict=True):
            matcher.fill_mask(row.reshape(1, -1))
            matcher.advance(byte)
        assert rows[0].any() and (rows[0] == rows[1]).all()


def test_what_nests_without_an_end_ends_with_an_error_of_ours():
    matcher = compile(Grammar.from_json_schema(SCHEMAS["of few"]), BYTES, max_work=100_000).matcher()
    row = np.zeros((1, BYTES.words), np.int32)
    with pytest.raises(LimitExceeded):
        for _ in range(1_000):
            matcher.fill_mask(row)
            matcher.advance(ord("["))
