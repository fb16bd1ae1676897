"""Has a schema a value?  Contradictions are found, what has a value is live, and the quick answer agrees with the slow one
and with `jsonschema`.
"""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from constrained.schema.conflict import conflict
from constrained.schema.normal.normalise import is_never, normalise
from constrained.schema.normal.quick import surely_satisfiable
from constrained.schema.reading.check import load
from constrained.work import Budget, metered

TREE = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
NEVER = {
    "a required key that no text spells": {
        "type": "object",
        "anyOf": [
            {"required": ["a\ud800"]},
            {"properties": {"\udfff": {"const": 1}}, "required": ["\udfff"]},
            {"not": {"properties": {"\ud800": False}}},
            {"propertyNames": {"enum": ["\ud800"]}, "minProperties": 1},
        ],
    },
    "endless object": {**TREE, "required": ["left"]},
    "endless array": {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
    "endless pair": {
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}, "required": ["b"]},
            "b": {"type": "array", "prefixItems": [{"$ref": "#/$defs/a"}], "minItems": 1},
        },
    },
    "types": {"type": "string", "allOf": [{"type": "integer"}]},
    "lengths": {"type": "string", "minLength": 3, "maxLength": 2},
    "pattern and length": {"type": "string", "pattern": "^abc$", "maxLength": 2},
    "range": {"type": "number", "exclusiveMinimum": 1, "maximum": 1},
    "no whole number": {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
    "no multiple": {"type": "number", "minimum": 1, "maximum": 6, "multipleOf": 7},
    "no odd multiple": {"type": "integer", "multipleOf": 3, "not": {"multipleOf": 6}, "minimum": 4, "maximum": 8},
    "enum of the wrong type": {"type": "string", "enum": [1, None]},
    "required and forbidden": {"type": "object", "required": ["a"], "additionalProperties": False},
    "too few keys": {
        "type": "object",
        "properties": {"a": {}, "b": False},
        "additionalProperties": False,
        "minProperties": 2,
    },
    "too many keys": {"type": "object", "required": ["a", "b"], "maxProperties": 1},
    "key that no name fits": {"type": "object", "required": ["a"], "propertyNames": {"pattern": "^b"}},
    "finite key language": {"type": "object", "propertyNames": {"pattern": "^[ab]$"}, "minProperties": 3},
    "item that cannot be": {"type": "array", "prefixItems": [True, False], "minItems": 2},
    "contains nothing": {"type": "array", "items": {"type": "string"}, "contains": {"type": "integer"}},
    "contains too much": {"type": "array", "contains": {"const": 1}, "minContains": 3, "maxItems": 2},
    "more items than values": {"type": "array", "items": {"enum": [1, 1.0, True]}, "uniqueItems": True, "minItems": 3},
    "more items than finite objects": {
        "type": "array",
        "items": {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False},
        "uniqueItems": True,
        "minItems": 4,
    },
    "unique and equal": {"type": "array", "uniqueItems": True, "not": {"uniqueItems": True}},
    "dependency on a forbidden key": {
        "type": "object",
        "required": ["a"],
        "dependentRequired": {"a": ["b"]},
        "properties": {"b": False},
    },
    "dependencies in a circle of too many": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 2,
        "properties": {"a": {}, "b": {}, "c": {}},
        "additionalProperties": False,
        "dependentRequired": {"a": ["b"], "b": ["c"], "c": ["a"]},
    },
    "oneOf twice the same": {"oneOf": [{"type": "integer"}, {"type": "integer"}]},
    "unevaluated": {
        "type": "object",
        "anyOf": [{"properties": {"a": {}}}],
        "required": ["b"],
        "unevaluatedProperties": False,
    },
}
LIVE = {
    "tree": TREE,
    "list": {"type": "array", "items": {"$ref": "#"}},
    "endless or nothing": {"anyOf": [{**TREE, "required": ["left"]}, {"type": "null"}]},
    "multiple": {"type": "number", "minimum": 1, "maximum": 7, "multipleOf": 3.5},
    "just enough keys": {"type": "object", "propertyNames": {"pattern": "^[ab]$"}, "minProperties": 2},
    "just enough values": {"type": "array", "items": {"enum": [1, 1.0, True]}, "uniqueItems": True, "minItems": 2},
    "just enough objects": {
        "type": "array",
        "items": {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False},
        "uniqueItems": True,
        "minItems": 3,
    },
    "one key for two wishes": {
        "type": "object",
        "maxProperties": 1,
        "allOf": [
            {"not": {"additionalProperties": {"type": "string"}}},
            {"not": {"additionalProperties": {"type": "null"}}},
        ],
    },
}


@pytest.mark.parametrize("schema", NEVER.values(), ids=NEVER)
def test_contradictions_are_found(schema):
    assert is_never(load(schema))
    assert not normalise(load(schema))


@pytest.mark.parametrize("schema", LIVE.values(), ids=LIVE)
def test_what_has_a_value_is_live(schema):
    assert not is_never(load(schema))
    assert normalise(load(schema))


@pytest.mark.parametrize("schema", NEVER.values(), ids=NEVER)
def test_what_has_no_value_does_not_look_live(schema):
    assert not surely_satisfiable(schema, {})


SURELY_SATISFIABLE = [  # schema, a value that shows it
    ({"type": "object", "properties": {"a": False}, "additionalProperties": False, "x-unknown": 1}, {}),
    ({"type": ["array", "null"], "items": False, "uniqueItems": True}, []),
    ({"type": "string", "format": "date"}, "2024-02-29"),
    (
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}, "additionalProperties": False},
        {"a": ""},
    ),
    ({"type": "object", "required": ["b"], "properties": {"a": False}}, {"b": None}),
    ({"type": "array", "minItems": 2, "items": {"enum": ["x", 1]}}, ["x", "x"]),
    ({"type": "string", "minLength": 3}, "abc"),
    ({"type": "number", "exclusiveMaximum": 0}, -1),
    ({"type": "integer", "minimum": 3, "maximum": 3}, 3),
    ({"title": "t", "anyOf": [False, {"type": "null"}]}, None),
]

NOT_SEEN = [  # what has no value, or more is said of it than is looked at
    {"type": "string", "minLength": 3, "maxLength": 2},
    {"type": "integer", "minimum": 3, "maximum": 2},
    {"type": "integer", "const": "a"},
    {"type": "integer", "anyOf": [{"type": "string"}]},
    {"anyOf": [False, {"enum": []}]},
    {"enum": ["\ud800"]},
    {"maxLength": 0, "enum": ["a"]},
    {"type": "integer", "enum": ["a"]},
    {"type": "string", "format": "uri", "maxLength": 1},
    {"type": "string", "format": "uri", "minLength": 99},
    {"minLength": 1},
    {"type": "object", "required": ["\ud800"]},
    {"type": "object", "required": ["a"], "properties": {"a": False}},
    {"type": "object", "required": ["a"], "unevaluatedProperties": False},
    {"type": "object", "required": ["a"], "propertyNames": False},
    {"type": "array", "minItems": 1, "maxItems": 0},
    {"type": "array", "minItems": 1, "items": False},
]


@pytest.mark.parametrize("schema", NOT_SEEN)
def test_what_is_not_surely_satisfiable(schema):
    assert not surely_satisfiable(schema, {})


@pytest.mark.parametrize(("schema", "value"), SURELY_SATISFIABLE)
def test_what_is_surely_satisfiable(schema, value):
    assert surely_satisfiable(schema, {})
    assert Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize("schema", NEVER.values(), ids=NEVER)
def test_the_keywords_to_blame_contradict_each_other(schema):
    """The error names the keywords or the key at fault, or says that the schema is false, or without end."""
    because = conflict(load(schema)).because or ""
    assert because.startswith(
        ("these keywords contradict each other: ", "no value satisfies ", "it is false", "the key '", "each value needs")
    )


ITSELF_BY_EITHER = {
    "type": "object", "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/a"}},
    "anyOf": [{"required": ["x"]}, {"required": ["y"]}],
}


@pytest.mark.parametrize("schema", [
    {"$defs": {"a": ITSELF_BY_EITHER}, "$ref": "#/$defs/a"},
    {"$defs": {"a": ITSELF_BY_EITHER}, "required": ["z"], "type": "object", "properties": {"z": {"$ref": "#/$defs/a"}}},
    {"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}, "contains": {"type": "array"}}},
     "$ref": "#/$defs/a"},
])
def test_what_needs_itself_without_end_has_no_value(schema):
    assert is_never(load(schema))


NEARLY_ALL_BARRED = [  # a pattern, constants that it is not, and whether a text is left
    ("^[ab]$", ["a"], True),
    ("^[ab]$", ["a", "b"], False),
    ("^[ab]$", ["a", "b", "c"], False),
    ("^[ab]c$", ["ac", "bc"], False),
    ("^[ab]c?$", ["a", "ac", "b"], True),
    ("^[abc]$", ["x", "y"], True),
    ("^(a|\ud7ff)$", ["a", "\ud7ff"], False),
]


@pytest.mark.parametrize(("pattern", "barred", "left"), NEARLY_ALL_BARRED, ids=str)
def test_a_pattern_less_some_constants(pattern, barred, left):
    schema = {"type": "string", "pattern": pattern, "not": {"enum": barred}}
    assert is_never(load(schema)) is not left


def test_a_pattern_less_a_few_constants_is_seen_to_be_live_without_its_automaton():
    names = [f"{digit}" * 40 for digit in range(7)]
    schema = {"type": "string", "pattern": "^[0-9a-f]{40}$", "not": {"enum": names}}
    with metered(Budget()) as budget:
        assert not is_never(load(schema))
    assert budget.limit - budget.left < 400
