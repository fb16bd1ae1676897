"""Options of schemas (order, blanks, closed objects), what is refused, and what large schemas cost."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from constrained import Grammar, Vocabulary, compile
from constrained.errors import GrammarError, SchemaError, UnsupportedSchema
from constrained.schema import embed
from constrained.work import Budget, metered
from tests.schema_words import WORLD, accepts, kernel, kernel_of, valid

BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256])

# -- options -----------------------------------------------------------------------------------------------------------

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}, "z": {"type": "integer"}},
    "required": ["y"],
}


MENTIONED = {
    "type": "object", "properties": {"p": {"$ref": "#/$defs/p"}, "free": {"type": "object"}},
    "$defs": {"p": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    "allOf": [{"properties": {"q": {"type": "integer"}}}],
}
MENTIONED_BEFORE = {  # a definition that takes part in a description, as is seen later
    "$defs": {"p": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    "type": "object", "properties": {"y": {"type": "integer"}}, "allOf": [{"$ref": "#/$defs/p"}],
}
OPTIONS: list[tuple[Any, dict[str, Any], list[str], list[str]]] = [
    (MENTIONED_BEFORE, {"closed": True}, ['{"x":1,"y":2}', '{"y":2}'], ['{"x":1,"q":2}']),
    (
        POINT,
        {"property_order": "schema"},
        ['{"x":1,"y":2,"z":3}', '{"y":2}', '{"y":2,"z":3,"q":null}', '{"x":1,"y":2,"q":1,"r":2}'],
        ['{"y":2,"x":1}', '{"x":1,"z":3}', '{"q":1,"y":2}', '{"z":1,"y":1}', '{"y":1,"q":1,"z":1}'],
    ),
    (
        {"type": "object"},
        {"whitespace": "canonical"},
        ['{"x": 1, "y": [2, 3]}'],
        ['{"x":1,"y":[2,3]}', '{"x": 1,"y": [2, 3]}', '{ "x": 1, "y": [2, 3]}'],
    ),
    ({"type": "object"}, {"whitespace": "compact"}, ['{"x":1,"y":[2,3]}'], ['{"x": 1, "y": [2, 3]}', '{"x":1,"y":[2, 3]}']),
    (
        {"type": "object"},
        {"whitespace": "flexible"},
        ['{ "x"\t:\n1 ,\r\n"y":[ 2 , 3 ] }', "{\n" + " " * 1000 + "}"],
        [' {"x":1}', '{"x":1} ', '{"x":1\f}', "\n{}", "{" + " " * 2000 + "}"],
    ),
    (
        MENTIONED,
        {"closed": True},
        ['{"p":{"x":1},"q":2}', '{"free":{"anything":1}}', "{}"],
        ['{"r":1}', '{"p":{"y":1}}', '{"p":{"x":1},"y":2}'],
    ),
    (MENTIONED, {}, ['{"r":1,"p":{"y":1}}'], []),
    (
        {"type": "object", "anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
        {"closed": True},  # each alternative by itself
        ['{"a":1}', '{"b":1}', "{}"],
        ['{"a":1,"b":1}', '{"x":1}'],
    ),
    (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"surface": "arguments"},
        ["(a=1, _b2=2)"],
        ["(1a=1)", "(class=1)", "(a b=1)", "(a=1, a=2)", "(=1)"],
    ),
]


@pytest.mark.parametrize(("schema", "options", "yes", "no"), OPTIONS, ids=lambda part: str(part)[:40])
def test_options_decide_which_texts_are_read(schema: Any, options: dict[str, Any], yes: list[str], no: list[str]) -> None:
    machine = kernel(schema, **options)
    assert [text for text in [*yes, *no] if accepts(machine, text)] == yes


@pytest.mark.parametrize(("options", "taken"), [({}, False), ({"around": "nothing"}, False), ({"around": "whitespace"}, True)])
@pytest.mark.parametrize("schema", [{"type": "array"}, list[int]])
def test_blanks_stand_around_a_value_where_they_are_asked_for(schema: Any, options: dict[str, Any], taken: bool) -> None:
    grammar = Grammar.from_json_schema(schema, **options)
    machine, start = compile(grammar, BYTES).place()
    assert not grammar.narrowed and machine.is_final(machine.step_bytes(start, b"[1]"))
    for text in (b" [1]", b"[1]\n", b"\r\n\t[1] "):
        assert machine.is_final(machine.step_bytes(start, text)) is taken
    with pytest.raises(GrammarError, match="unknown around"):
        Grammar.from_json_schema(schema, around="blanks")


DRAFT_4 = "http://json-schema.org/draft-04/schema#"
PLAIN = [  # integers of draft 4 have no point and no exponent; texts that are taken, and texts that are not
    ({"type": "integer"}, ["1", "-0", "-12"], ["1.0", "1e2", "-1.0", "0.0"]),
    ({"type": "integer", "minimum": 0}, ["0", "12"], ["1.0", "-0.0", "0e1", "-1"]),
    ({"type": ["integer", "null"], "minimum": 5, "maximum": 5}, ["5", "null"], ["5.0"]),
    ({"type": "integer", "enum": [1, 2]}, ["1"], ["1.0", "3"]),
    ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, ["3"], ["3.0", "2"]),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, ["1", '"a"'], ["1.0"]),
    ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, ["[1,2]"], ["[1,1]", "[1.0]"]),
    ({"enum": [1]}, ["1", "1.0"], []),
    ({"type": "number"}, ["1", "1.0"], []),
]


@pytest.mark.parametrize(("schema", "yes", "no"), PLAIN, ids=str)
def test_integers_of_draft_4_are_written_plainly(schema: Any, yes: list[str], no: list[str]) -> None:
    machine = kernel({"$schema": DRAFT_4, **schema})
    assert [text for text in [*yes, *no] if accepts(machine, text)] == yes
    assert accepts(kernel({"type": "integer"}), "1.0")


def test_machines_are_compared_by_content() -> None:
    one, other = embed(POINT), embed(json.loads(json.dumps(POINT)))
    assert one == other
    assert hash(one) == hash(other)
    assert one != embed(POINT, whitespace="compact")
    copy = pickle.loads(pickle.dumps(one))
    assert copy == one
    assert accepts(kernel_of(copy), '{"y":1}')


COUNTED = {"type": "array", "contains": {"const": 1}, "prefixItems": [{"type": "integer"}], "uniqueItems": True}
UNSUPPORTED = [
    (
        {"properties": {"a": COUNTED}},
        "#/properties/a",
        "#/properties/a/uniqueItems",
    ),
    ({"type": "array", "items": {"not": {"uniqueItems": True, "type": "array"}}}, "#/items", "#/items/not"),
    (
        {"oneOf": [COUNTED, {"type": "string"}]},
        "#/oneOf/0",
        "#/oneOf #/oneOf/0/uniqueItems",
    ),
    # what refers to it from where less is more
    ({"not": {"required": ["a"], "properties": {"a": {"$ref": "#/$defs/u"}}}, "$defs": {"u": COUNTED}}, "#/$defs/u", "#/not"),
    (
        {"oneOf": [{"required": ["a"], "properties": {"a": {"$ref": "#/$defs/u"}}}, {"required": ["b"]}], "$defs": {"u": COUNTED}},
        "#/$defs/u",
        "#/oneOf #/$defs/u/uniqueItems",
    ),
    # other keys are those that no pattern names
    (
        {"properties": {"a": {"patternProperties": {key: {"minimum": at} for at, key in enumerate("abcdefghij")},
                              "additionalProperties": False}}},
        "#/properties/a/patternProperties",
        "#/properties/a/additionalProperties #/properties/a/patternProperties",
    ),
    # what is asked whether it was seen goes before what sees it
    (
        {"properties": {"a": {"if": {"items": COUNTED}, "then": {"properties": {"b": {}}}, "unevaluatedProperties": False}}},
        "#/properties/a",
        "#/properties/a/unevaluatedProperties #/properties/a/if",
    ),
    ({"properties": {"a": {"minLength": 1 << 31}}}, "#/properties/a/minLength", "#/properties/a/minLength"),
]


@pytest.mark.parametrize(("schema", "where", "keywords"), UNSUPPORTED, ids=[row[2] for row in UNSUPPORTED])
def test_what_cannot_be_compiled_is_refused_or_listed(schema: Any, where: str, keywords: str) -> None:
    with pytest.raises(UnsupportedSchema) as caught:
        embed(schema)
    assert (caught.value.where or "").startswith(where)
    assert caught.value.because
    widened = embed(schema, unsupported="widen")
    assert [entry.pointer for entry in widened.widened] == keywords.split()
    machine = kernel_of(widened)
    assert all(accepts(machine, json.dumps(value)) for value in WORLD if valid(schema, value))


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (False, {}, "schema allows no value"),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, {}, "schema allows no value"),
    ({}, {"surface": "yaml"}, "unknown surface 'yaml'"),
    ({}, {"whitespace": "none"}, "unknown whitespace 'none'"),
    ({}, {"spelling": "short"}, "unknown spelling 'short'"),
    ({}, {"property_order": "sorted"}, "unknown property_order 'sorted'"),
    ({}, {"spelling": "any", "avoid": ("<x>",)}, "the spelling is 'any'"),
    ({"type": "string"}, {"surface": "arguments"}, "keyword arguments cannot be written"),
    ({"type": "object", "properties": {"a-b": {}}}, {"surface": "arguments"}, "parameter 'a-b'"),
    ({"type": "object", "properties": {"class": {}}}, {"surface": "arguments"}, "parameter 'class'"),
]


@pytest.mark.parametrize(("schema", "options", "message"), WRONG, ids=[row[2] for row in WRONG])
def test_wrong_uses(schema: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        embed(schema, **options)


CLOSED = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
CONFLICTS = [
    (
        {"type": "object", "required": ["a"], "properties": {"a": {"minimum": 2, "maximum": 1, "type": "integer"}}},
        "#/properties/a",
        "these keywords contradict each other: minimum, maximum, type",
    ),
    (
        {"title": "t", "type": "array", "minItems": 2, "maxItems": 1, "items": {}},
        "#",
        "these keywords contradict each other: type, minItems, maxItems",
    ),
    ({"oneOf": [{"type": "string"}, {"type": "string"}]}, "#", "no value satisfies oneOf"),
    (
        {
            "$defs": {"a": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/a"}}}},
            "$ref": "#/$defs/a",
        },
        "#/$defs/a",
        "each value needs one like itself inside it, without end",
    ),
    (
        {
            "$dynamicAnchor": "x", "type": "object", "required": ["a"],
            "properties": {"a": {"$dynamicRef": "#x", "type": "object"}},
        },
        "#/properties/a",
        "these keywords contradict each other: $dynamicRef, type",
    ),
    (
        {"$dynamicAnchor": "x", "allOf": [{"minItems": 1, "type": "array", "items": {"$dynamicRef": "#x"}}]},
        "#",
        "each value needs one like itself inside it, without end",
    ),
    (
        {"allOf": [CLOSED, {"$ref": "#/$defs/other"}], "$defs": {"other": {"type": "object", "required": ["b"]}}},
        "#",
        "the key 'b' is required at #/$defs/other and excluded at #/allOf/0",
    ),
    (
        {"minProperties": 1, "allOf": [CLOSED, {"properties": {"b": {}}, "additionalProperties": False}]},
        "#",
        "1 or more keys are required at #, and allowed only 'a' at #/allOf/0 and only 'b' at #/allOf/1",
    ),
    (
        CLOSED | {"required": ["b"]},
        "#",
        "the key 'b' is required and not among the properties",
    ),
    ({"type": "string", "pattern": "a$b"}, "#", "no text matches the pattern 'a$b'"),
    (False, "#", "it is false"),
]


@pytest.mark.parametrize(("schema", "where", "because"), CONFLICTS, ids=[row[2] for row in CONFLICTS])
def test_a_schema_without_values_is_an_error_that_names_the_conflict(schema: Any, where: str, because: str) -> None:
    with pytest.raises(SchemaError, match="schema allows no value") as caught:
        embed(schema)
    assert (caught.value.where, caught.value.because) == (where, because)


# -- cost --------------------------------------------------------------------------------------------------------------


def test_large_schemas_cost_what_is_used_of_them() -> None:
    """Bounds are generous: the tests must not fail on a busy machine, and a cliff is a factor of a thousand."""
    large: list[tuple[Any, str]] = [
        (
            {
                "properties": {f"p{n}": {"type": "integer"} for n in range(1000)},
                "additionalProperties": False,
                "type": "object",
            },
            "{" + ",".join(f'"p{n}":{n}' for n in range(100)) + "}",
        ),
        ({"enum": [f"value {n}" for n in range(10_000)]}, '"value 9999"'),
        ({"enum": list(range(2_000))}, "1999"),
        ({"type": "array", "maxItems": 100_000, "minItems": 10, "items": {"type": "integer"}}, str(list(range(40)))),
        ({"type": "integer", "minimum": -(10**300), "maximum": 10**300}, "1" + "0" * 300),
        ({"items": {"$ref": "#"}, "type": "array"}, "[" * 1000 + "]" * 1000),
    ]
    for schema, text in large:
        with metered(Budget()):  # the work of a constraint; more is LimitExceeded
            assert accepts(kernel(schema), text)
