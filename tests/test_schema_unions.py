"""Unions of many arrays and objects: read together (`machines.union`) they allow what they allow
apart, token by token.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import numpy as np
import pytest
from fuzz.schemas import vocabulary

from constrained import Grammar, caches, compile
from constrained.schema.machines import union as machine_union
from constrained.schema.normal import alternatives, unions

WORDS = vocabulary()
VALUES = [
    {"a": 1, "b": "x"},
    {"a": 1, "b": "y"},
    {"a": 1.5, "b": [1, 2]},
    {"a": [1, {"b": None}]},
    {"a": [1, {"b": True}], "name": ""},
    {"b": "x"},
    {},
    [],
    [1],
    [1, 1],
    [[1], {"a": 2}],
    [[1], {"a": 3}],
    ["a", "ab", "abc"],
    ["a", "ab"],
    [None, False],
    {"a": 10, "b": 10},
    {"a": 100},
    {"a": 12},
    {"a": 7},
    {"a": 8},
    {"a": -1},
    {"a": 0},
    {"a": 1e300},
    {"a": 0.25},
    {"a": "1"},
    [[[]]],
    [[[1]]],
    {"é": "é\U0001f389"},
]


def tagged(number: int) -> dict[str, Any]:
    tag: Any = [f"k{number}", number, {"enum": ["a", f"ab{number}"]}, number % 3 == 0][number % 4]
    schema = {
        "type": "object",
        "properties": {"t": tag if isinstance(tag, dict) else {"const": tag}, f"k{number % 3}": {"type": "integer"}},
        "required": ["t"],
    }
    return schema if number % 5 else {**schema, "additionalProperties": False}


SCHEMAS: dict[str, Any] = {
    "listed": {"enum": VALUES},
    "listed with keywords": {
        "enum": VALUES,
        "type": ["object", "array"],
        "properties": {"a": {"type": "number"}},
        "maxItems": 2,
    },
    "listed below": {
        "type": "object",
        "properties": {"a": {"enum": VALUES}, "b": {"oneOf": [{"const": value} for value in VALUES]}},
        "required": ["a"],
    },
    "listed among others": {
        "anyOf": [
            {"enum": VALUES},
            {"type": "array", "items": {"type": "boolean"}},
            {"required": ["z"], "properties": {"z": {"const": 1}}},
        ]
    },
    "distinct": {"type": "array", "items": {"enum": VALUES[:9]}, "uniqueItems": True},
    "tagged": {"anyOf": [tagged(number) for number in range(12)]},
    "one tagged": {"oneOf": [tagged(number) for number in range(12)]},
    "required keys": {
        "oneOf": [
            {
                "type": "object",
                "properties": {f"a{number}": {"type": "integer"}},
                "required": [f"a{number}"],
                "additionalProperties": False,
            }
            for number in range(9)
        ]
    },
    "open": {
        "anyOf": [
            {
                "type": "object",
                "properties": {f"a{number}": {"type": "integer"}, "b": {"type": "string"}},
                "required": [f"a{number}", "b"],
                "maxProperties": 2 + number % 3,
            }
            for number in range(9)
        ]
    },
    "patterns": {
        "anyOf": [
            {
                "type": "object",
                "patternProperties": {"^a": {"const": number}, "b$": {"type": "boolean"}},
                "additionalProperties": number % 2 == 0,
                "required": [f"a{number % 4}"],
                "minProperties": number % 3,
            }
            for number in range(9)
        ]
    },
    "scarce keys": {
        "anyOf": [
            {
                "type": "object",
                "propertyNames": {"enum": ["a", "b", f"c{number}"]},
                "minProperties": 2,
                "properties": {"a": {"const": number}},
            }
            for number in range(9)
        ]
    },
}
SCHEMAS["arrays"] = {
    "anyOf": [
        {
            "type": "array",
            "prefixItems": [{"enum": [number, f"k{number % 4}", number % 3 == 0]}, {"const": f"k{number % 3}"}],
            "items": {"type": ["integer", "array"], "minimum": number, "maxItems": 1},
            "minItems": number % 3,
            "maxItems": 2 + number % 3,
        }
        for number in range(9)
    ]
}
SCHEMAS["arrays that count"] = {
    "anyOf": [
        {"type": "array", "contains": {"const": number}, "maxContains": 1 + number % 2, "maxItems": 3, "minItems": 1}
        for number in range(8)
    ]
}
OPTIONS = [{}, {"surface": "python"}, {"spelling": "canonical", "whitespace": "compact"}, {"property_order": "schema"},
           {"surface": "python", "spelling": "canonical", "property_order": "schema"}]
ENDINGS = b"}])\"',:0123456789"


def kind(number: int) -> dict[str, Any]:
    """Return a condition on the key "t": a text, one of two that overlap with others, a number, a boolean; with the key
    or without.
    """
    values: list[Any] = [
        {"const": f"k{number}"},
        {"enum": [f"k{number}", f"k{(number + 3) % 9}"]},
        {"const": number},
        {"const": number == 3},
    ]
    condition: dict[str, Any] = {"properties": {"t": values[number % 4]}}
    return {**condition, "required": ["t"]} if number % 3 else condition


def then(number: int) -> Any:
    return [
        {"required": ["a"]},
        {"properties": {"a": {"type": "integer"}, "b": True}, "required": ["b"]},
        False,
        {"maxProperties": 2},
        {"anyOf": [{"required": ["a"]}, {"properties": {"b": {"const": "x"}}, "minProperties": 2}]},
    ][number % 5]


def chain(conditions: list[int], last: Any) -> Any:
    for number in reversed(conditions):
        last = {"if": kind(number), "then": then(number), "else": last}
    return last


CONDITIONAL: dict[str, Any] = {
    "a list": {"allOf": [{"if": kind(number), "then": then(number)} for number in range(9)]},
    "a list with else": {
        "type": "object",
        "required": ["t"],
        "allOf": [
            {"if": kind(number), "then": then(number), "else": {"properties": {f"ab{number}": False}}}
            for number in range(0, 18, 2)
        ],
    },
    "a list with several ways else": {
        "allOf": [{"if": kind(number), "then": then(number), "else": then(4 * (number == 4))} for number in range(9)]
    },
    "two keys": {
        "type": "object",
        "allOf": [
            {
                "if": {"properties": {key: {"const": text}}, "required": [key]},
                "then": {"required": [f"{key}{text}"], "maxProperties": 4},
            }
            for key in "ab"
            for text in ("", "a", "b", "ab", "abc", "name", "1", "x")
        ],
    },
    "a chain": chain([0, 4, 8, 1, 5, 2, 6, 3, 7], {"required": ["name"]}),
    "a chain that turns": chain(
        [0, 4, 8, 1, 5, 2, 6, 3],
        {"if": {"properties": {"b": {"const": "x"}}}, "then": {"required": ["t", "b"]}, "else": False},
    ),
    "nothing unevaluated": {
        "type": "object",
        "properties": {"b": True},
        "allOf": [{"if": kind(number), "then": {"properties": {f"a{number}": True}}} for number in range(9)],
        "unevaluatedProperties": False,
    },
    "not": {"type": "object", "not": {"allOf": [{"if": kind(number), "then": then(number)} for number in range(9)]}},
    "one open": {
        "oneOf": [
            {"required": [f"a{number}"], "properties": {f"a{number}": {"type": "integer"}}} for number in range(8)
        ]
    },
    "one of pairs": {
        "type": "object",
        "maxProperties": 3,
        "oneOf": [{"required": [f"a{number}", f"b{number}"]} for number in range(8)],
    },
    "one of pairs with few": {
        "type": "object",
        "minProperties": 3,
        "propertyNames": {"enum": [f"{letter}{number}" for letter in "ab" for number in range(8)]},
        "oneOf": [{"required": [f"a{number}", f"b{number}"]} for number in range(8)],
    },
}


def masks(
    schema: Any, options: dict[str, Any], tokens: list[int] | None, picks: random.Random
) -> tuple[list[int], list[bytes]]:
    """Return the tokens of a walk (of the one that is given) and the masks along it."""
    caches.clear()
    matcher = compile(Grammar.from_json_schema(schema, **options), WORDS).matcher()
    bitmask, taken, found = np.zeros((1, WORDS.words), np.int32), [], []
    while not matcher.is_finished() and len(found) < 60:
        matcher.fill_mask(bitmask)
        found.append(bitmask.tobytes())
        allowed = np.flatnonzero(np.unpackbits(bitmask[0].view(np.uint8), bitorder="little")).tolist()
        assert allowed, "a dead end"
        quick = min(allowed, key=lambda token: (ENDINGS.find((WORDS.tokens[token] or b"")[:1]) % 99, token))
        token = tokens[len(taken)] if tokens is not None else picks.choice(allowed) if picks.random() < 0.5 else quick
        taken.append(token)
        matcher.advance(token)
    return taken, found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())) or "json")
@pytest.mark.parametrize("name", SCHEMAS)
def test_together_as_apart(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4):
        monkeypatch.setattr(machine_union, "MOST_APART", 2)
        tokens, together = masks(SCHEMAS[name], options, None, random.Random(seed))
        monkeypatch.setattr(machine_union, "MOST_APART", 10_000)
        assert masks(SCHEMAS[name], options, tokens, random.Random(seed))[1] == together


def instances(seed: int) -> Iterator[Any]:
    """Yield objects of the keys and values that the schemas above speak of."""
    picks = random.Random(seed)
    texts = ("", "a", "b", "ab", "name", "x", *(f"k{number}" for number in range(9)))
    for _ in range(300):
        keys = picks.sample(
            ["t", "a", "b", "name", "ab4", "ax", "b1", f"a{picks.randrange(8)}", f"b{picks.randrange(8)}"],
            picks.randrange(5),
        )
        yield {
            key: picks.choice((picks.choice(texts), picks.randrange(9), picks.random() < 0.5))
            for key in dict.fromkeys(["t", *keys] if picks.random() < 0.6 else keys)
        }


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", OPTIONS[:1] + OPTIONS[3:4], ids=("any order", "in order"))
@pytest.mark.parametrize("name", CONDITIONAL)
def test_conditionals_together_as_one_at_a_time(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, judge = CONDITIONAL[name], jsonschema.Draft202012Validator(CONDITIONAL[name])
    for together in (True, False):
        monkeypatch.setattr(unions, "MANY", 2 if together else 10_000)
        monkeypatch.setattr(alternatives, "_MANY", 2 if together else 10_000)
        for seed in range(3):
            masks(schema, options, None, random.Random(seed))  # no dead ends
        kernel, start = compile(Grammar.from_json_schema(schema, **options), WORDS).place()
        valid = 0
        for value in instances(len(name)) if options == {} else ():
            state = kernel.step_bytes(start, json.dumps(value).encode())
            assert (state != 0 and kernel.is_final(state)) == judge.is_valid(value), value
            valid += judge.is_valid(value)
        assert options or 0 < valid < 300


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [{"id": number, "name": f"n{number}"} for number in range(3000)]},
        {"oneOf": [{"const": [number, {"name": f"n{number}"}]} for number in range(200)]},
        {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"t": {"const": f"t{number}"}, "n": {"type": "integer"}},
                    "required": ["t", "n"],
                }
                for number in range(2100)
            ]
        },
    ],
)
def test_thousands(schema: Any) -> None:
    grammar = Grammar.from_json_schema(schema, whitespace="compact")
    kernel, start = compile(grammar, WORDS).place()
    for text, valid in (
        ('{"id":2999,"name":"n2999"}', "enum" in schema),
        ('{"id":2999,"name":"n2998"}', False),
        ('[7,{"name":"n7"}]', "const" in str(schema)[:20]),
        ('[7,{"name":"n8"}]', False),
        ('{"n":5,"t":"t2099"}', "properties" in str(schema)),
        ('{"n":5,"t":"t2100"}', False),
    ):
        state = kernel.step_bytes(start, text.encode())
        assert (state != 0 and kernel.is_final(state)) == valid, text


def test_exactly_one_of_hundreds_of_open_objects() -> None:
    members = [
        {"type": "object", "properties": {f"k{number}": {"type": "integer"}}, "required": [f"k{number}"]}
        for number in range(200)
    ]
    kernel, start = compile(Grammar.from_json_schema({"oneOf": members}, whitespace="compact"), WORDS).place()
    for text, valid in (
        ('{"k7":1}', True),
        ('{"k7":1,"k8":"a","x":0}', True),
        ('{"k7":1,"k8":2}', False),
        ('{"k7":"a"}', False),
        ("{}", False),
    ):
        state = kernel.step_bytes(start, text.encode())
        assert (state != 0 and kernel.is_final(state)) == valid, text
