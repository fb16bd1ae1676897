"""Schema machines against `json`, `ast` and `jsonschema`: what is accepted, what can still be completed, what is
refused by name.

The machines run byte by byte, on the fastest kernel; masks, and the agreement of the kernels, have tests of their own
(`laws`).
"""

from __future__ import annotations

import ast
import json
import random
from typing import Any

import pytest

from constrained.engine.plain import DEAD
from tests.schema_words import WORLD, accepts, kernel, read_json, read_python, valid

BYTES = b"\"'}]):,0123456789abcxnulsretTFNo[{(=-.eE+_ \\/\n"
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]

SCHEMAS: list[Any] = [
    True,
    {},
    *({"type": name} for name in TYPES),
    {"type": ["integer", "string", "null"]},
    {"enum": [1, "a", None, [1], {"a": 1}]},
    {"const": {"a": [1, 0]}},
    {"const": 1.0},
    {"minimum": 1},
    {"exclusiveMaximum": 1, "type": "number"},
    {"multipleOf": 0.5},
    {"not": {"type": "integer"}},
    {"not": {"type": ["array", "object"]}},
    {"minLength": 1, "type": "string"},
    {"pattern": "^a"},
    {"type": "array", "items": {"type": "integer"}},
    {"prefixItems": [{"const": 0}, {"type": "string"}]},
    {"type": "array", "prefixItems": [{"type": "integer"}], "items": False},
    {"type": "array", "minItems": 1, "maxItems": 2},
    {"type": "array", "minItems": 3},
    {"type": "array", "contains": {"const": 1}},
    {"type": "array", "contains": {"const": 1}, "minContains": 2},
    {"type": "array", "contains": {"const": 1}, "maxContains": 1},
    {"type": "array", "contains": {"type": "string"}, "minContains": 0, "maxContains": 0},
    {"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 2, "minItems": 3, "maxItems": 3},
    {"type": "array", "allOf": [{"contains": {"const": 1}}, {"contains": {"const": "a"}}], "maxItems": 2},
    {"type": "array", "not": {"items": {"type": "integer"}}},
    {"type": "array", "not": {"maxItems": 1}},
    {"type": "array", "not": {"prefixItems": [{"const": 1}], "minItems": 2}},
    {"not": {"contains": {"const": 1}}, "type": "array"},
    {"type": "array", "items": {"type": ["integer", "string"]}, "uniqueItems": True},
    {"type": "array", "items": {"enum": [0, 1, True]}, "uniqueItems": True},
    {"type": "array", "items": {"enum": [0, [1], {"a": 1}]}, "uniqueItems": True},
    {
        "type": "array",
        "prefixItems": [{"enum": [0, 1]}, {"const": 0}],
        "items": {"type": "null"},
        "minItems": 2,
        "uniqueItems": True,
    },
    {"type": "array", "items": {"enum": ["a", "b", "ab"]}, "uniqueItems": True, "minItems": 2},
    {"type": "object", "properties": {"a": {"type": "integer"}}},
    {"type": "object", "required": ["a", "b"]},
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "required": ["b"],
        "additionalProperties": {"type": "integer"},
    },
    {"type": "object", "properties": {"a": False}},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": False}, "maxProperties": 1},
    {"type": "object", "minProperties": 2},
    {"type": "object", "maxProperties": 1},
    {"type": "object", "minProperties": 1, "maxProperties": 2},
    {"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False, "minProperties": 2},
    {
        "type": "object",
        "properties": {"a": {}, "b": {}, "c": {}},
        "required": ["c"],
        "additionalProperties": False,
        "maxProperties": 2,
    },
    {"type": "object", "patternProperties": {"^a": {"type": "integer"}}},
    {"type": "object", "patternProperties": {"a": {"minimum": 1}, "^x": {}}, "additionalProperties": False},
    {"type": "object", "propertyNames": {"enum": ["a", "b"]}},
    {"type": "object", "propertyNames": {"maxLength": 1}},
    {"type": "object", "propertyNames": {"pattern": "^[ab]$"}, "minProperties": 1},
    {"type": "object", "dependentRequired": {"a": ["b"]}},
    {"type": "object", "dependentRequired": {"a": ["b", "c"]}, "maxProperties": 2},
    {"type": "object", "dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}}}},
    {"type": "object", "not": {"required": ["a"]}},
    {"type": "object", "not": {"properties": {"a": {"type": "integer"}}}},
    {"type": "object", "not": {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}},
    {"type": "object", "not": {"additionalProperties": {"type": "integer"}}},
    {"type": "object", "not": {"properties": {"a": {"const": 0}}, "required": ["a", "b"]}, "maxProperties": 2},
    {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {
        "oneOf": [
            {"properties": {"a": {"const": 0}}, "required": ["a"]},
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        ]
    },
    {"oneOf": [{"type": "integer"}, {"minimum": 1}]},
    {
        "anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "maxLength": 1},
            {"items": {"const": 1}, "type": "array"},
        ]
    },
    {
        "if": {"properties": {"a": {"const": 0}}, "required": ["a"]},
        "then": {"required": ["b"]},
        "else": {"not": {"required": ["c"]}},
        "type": "object",
    },
    {
        "allOf": [
            {"properties": {"a": {"type": "integer"}}},
            {"properties": {"a": {"minimum": 1}, "b": {"type": "null"}}},
        ],
        "type": "object",
        "unevaluatedProperties": False,
    },
    {"type": "array", "prefixItems": [{}], "contains": {"const": "a"}, "unevaluatedItems": False},
    {
        "$defs": {
            "t": {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/t"}, "b": {"type": "integer"}},
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/t",
    },
    {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
    {"required": ["a"], "type": "object", "properties": {"a": {"type": ["array", "object"]}}},
]

IDS = [json.dumps(schema)[:70] for schema in SCHEMAS]


@pytest.mark.parametrize("schema", SCHEMAS, ids=IDS)
def test_a_value_is_accepted_exactly_if_it_is_valid(schema: Any) -> None:
    free, canonical = kernel(schema), kernel(schema, whitespace="canonical", spelling="canonical")
    python = kernel(schema, surface="python")
    for value in WORLD:
        expected, text = valid(schema, value), json.dumps(value)
        assert accepts(free, text) == expected, text
        assert accepts(free, json.dumps(value, indent=4)) == expected, text
        assert accepts(python, repr(value)) == expected, repr(value)
        integral = "1.0" not in text or not expected  # a canonical integer has no fraction
        assert not integral or accepts(canonical, text) == expected, text


def _edits(text: str, rng: random.Random, alphabet: str) -> str:
    chars = list(text)
    for _ in range(rng.randint(1, 2)):
        at = rng.randint(0, len(chars))
        kind = rng.random()
        if kind < 0.4:
            chars.insert(at, rng.choice(alphabet))
        elif chars:
            at = min(at, len(chars) - 1)
            if kind < 0.7:
                del chars[at]
            else:
                chars[at] = rng.choice(alphabet)
    return "".join(chars)


@pytest.mark.parametrize("schema", SCHEMAS[::2], ids=IDS[::2])
def test_damaged_json_is_accepted_exactly_if_it_reads_as_a_valid_value(schema: Any) -> None:
    rng, machine = random.Random(1), kernel(schema)
    for value in rng.sample(WORLD, 150):
        text = _edits(json.dumps(value, indent=rng.choice((None, 1))), rng, '{}[]",:01.eE-+a \n\\ut')
        try:
            expected = valid(schema, read_json(text))
        except (ValueError, RecursionError):
            expected = False
        assert accepts(machine, text) == expected, text


@pytest.mark.parametrize("schema", SCHEMAS[1::2], ids=IDS[1::2])
def test_damaged_python_is_accepted_only_if_it_reads_as_a_valid_value(schema: Any) -> None:
    """Completeness is left to the other test: some spellings of Python are left out (see `surfaces.python`)."""
    rng, machine = random.Random(2), kernel(schema, surface="python")
    for value in rng.sample(WORLD, 150):
        text = _edits(repr(value), rng, "{}[](),:01.e-a'\"_ \n\\x")
        if accepts(machine, text):
            assert valid(schema, read_python(text)), text


PYTHON = [
    (
        {"type": "array"},
        ["()", "(1,)", "(1, 2)", "(1, 2,)", "[1,]", "[\n1\n]", "[(1,), [], {'a': ()}]", "[ ]"],
        ["(1)", "(,)", "[,]", "(1 2)", "[1,,]"],
    ),
    (
        {"type": "object"},
        ["{'a': 1}", '{"a":1,}', "{'a' : 1 , 'b':None}", "{}", "{'\\x61': True}"],
        ["{'a': 1, 'a': 2}", "{1: 2}", "{,}", "{'a': true}", "{'\\x61': 1, 'a': 2}"],
    ),
    (
        {"type": "number"},
        ["1", "1.", ".5", "1_000", "1e5", "1_0.0_1e1_0", "-1", "0", "0.0"],
        ["1__0", "_1", "01", "1_", "1e", "+1", ".", "0x1", "1._0"],
    ),
    ({"type": "integer"}, ["1.0", "1e2", "100e-2", "1_0."], ["1.5", "1e-1"]),
    ({"enum": [None, True, "a"]}, ["None", "True", "'a'", '"a"', "'\\141'"], ["null", "true", "a", "False", "'''a'''"]),
]


@pytest.mark.parametrize(("schema", "yes", "no"), PYTHON, ids=lambda part: str(part)[:30])
def test_python_spellings(schema: Any, yes: list[str], no: list[str]) -> None:
    machine = kernel(schema, surface="python")
    for text in yes:
        assert valid(schema, read_python(text)), text
        assert accepts(machine, text), text
    for text in no:
        assert not accepts(machine, text), text


ARGUMENTS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "n": {"type": "integer"}, "tags": {"type": "array"}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("whitespace", ["canonical", "compact", "flexible"])
def test_keyword_arguments(whitespace: str) -> None:
    machine = kernel(ARGUMENTS, surface="arguments", whitespace=whitespace)
    comma = "," if whitespace == "compact" else ", "
    for text in (
        "(city='Oslo')",
        "(n=3,city='Oslo')",
        "(city='a',tags=[1,(2,)])",
        "(city='a',tags={'a':1})",
        "()",
        "(n=1)",
        "(city='a',city='b')",
        "(city='a',x=1)",
        "city='a'",
        "('a')",
        "(city=='a')",
    ):
        text = text.replace(",", comma).replace(":", ":" if whitespace == "compact" else ": ")
        try:
            compile("f" + text, "", "eval")  # refuses a repeated name
            call = ast.parse("f" + text, mode="eval").body
            assert isinstance(call, ast.Call)
            assert not call.args
            value = {str(entry.arg): read_python(ast.unparse(entry.value)) for entry in call.keywords}
            expected = valid(ARGUMENTS, value)
        except (SyntaxError, AssertionError):
            expected = False
        if "(2" + comma + ")" in text and whitespace == "canonical":
            continue  # ", )" is how the canonical style would write it
        assert accepts(machine, text) == expected, text
    assert accepts(kernel({"type": "object"}, surface="arguments", whitespace=whitespace), "()")


# -- no dead ends ------------------------------------------------------------------------------------------------------


def _ends(machine: Any, state: int, known: set[int], most: int = 150) -> bool:
    """Say whether a word can be completed from a state: depth first, closing what is open before anything else.

    known: states from which one can; those on the way found join them.
    """
    before, stack = {state: DEAD}, [state]
    while stack:
        at = stack.pop()
        most -= 1
        following = [] if machine.is_final(at) or at in known else [machine.step_byte(at, byte) for byte in BYTES]
        if not following or not known.isdisjoint(following):
            while at != DEAD:
                known.add(at)
                at = before[at]
            return True
        for after in reversed(following):  # the last one pushed is tried first
            if after != DEAD and after not in before:
                before[after] = at
                stack.append(after)
        if most == 0:
            return True  # undecided
    return False


WALKS = [{}, {"whitespace": "canonical", "spelling": "canonical", "property_order": "schema"}, {"surface": "python"}]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("schema", SCHEMAS, ids=IDS)
def test_random_walks_meet_no_dead_end(schema: Any) -> None:
    for options in WALKS:
        _walk(kernel(schema, **options))


def _walk(machine: Any) -> None:
    rng, known = random.Random(3), set()
    for _ in range(2):
        walk = [machine.start]
        while len(walk) <= 20:
            following = [after for byte in BYTES if (after := machine.step_byte(walk[-1], byte)) != DEAD]
            if not following:
                assert machine.is_final(walk[-1])
                break
            walk.append(rng.choice(following))
        assert all(_ends(machine, state, known) for state in reversed(walk))  # the last first: it lies on the others' way


