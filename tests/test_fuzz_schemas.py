"""A seeded slice of `tests.fuzz.schemas`, and places that limits name: in combinations, in patterns of keys, and inside
masks.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from fuzz import logic, schemas

from benchmarks import vocabularies
from constrained import ChatFormat, Grammar, LimitExceeded, UnsupportedSchema, caches, compile
from constrained.engine import prepare
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
    (
        {
            "type": "object",
            "properties": {"a": {"oneOf": _many(1000, lambda i: {"required": [f"k{i}"]})}},
            "required": ["a"],
        },
        "#/properties/a/oneOf",
    ),
    (
        {"type": "object", "patternProperties": {f"a.{{{i}}}b": {"minimum": i} for i in range(30)}},
        "#/patternProperties",
    ),
    ({"oneOf": _many(500, lambda i: {"type": "object", "minProperties": i, "required": [f"k{i}"]})}, "#/oneOf"),
    (
        {"type": "array", "allOf": _many(14, lambda i: {"contains": {"type": "object", "required": [f"k{i}"]}})},
        "#/allOf/0/contains",
    ),
]


COSTLY = {
    "patterns": {
        "type": "string",
        "allOf": _many(30, lambda i: {"not": {"pattern": f"{chr(97 + i % 26)}.{chr(97 + i * 3 % 26)}"}}),
    },
    "a format": {"type": "string", "format": "idn-hostname", "minLength": 200},
    "counts": {"type": "string", "pattern": r"^(\p{L}{2,300}\s?){2,300}$", "minLength": 1000, "maxLength": 2000},
    "formats": {"oneOf": _many(100, lambda i: {"type": "string", "format": "email", "maxLength": i + 6})},
    "contains": {
        "type": "array",
        "allOf": _many(20, lambda i: {"contains": {"type": "string", "pattern": chr(97 + i)}}),
    },
}
PLACES = [
    (lambda costly: {"type": "object", "properties": {"a": {"type": "integer"}, "b": costly}}, "#/properties/b"),
    (
        lambda costly: {"type": "array", "items": {"$ref": "#/$defs/costly"}, "$defs": {"costly": costly}},
        "#/$defs/costly",
    ),
    (
        lambda costly: {
            "type": "object",
            "additionalProperties": {"allOf": [{"type": ["string", "number", "array"]}, costly]},
        },
        "#/additionalProperties",
    ),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("around", "pointer"), PLACES)
@pytest.mark.parametrize("costly", COSTLY)
def test_what_costs_too_much_inside_is_found_by_compile(costly, around, pointer):
    with pytest.raises(LimitExceeded) as caught:
        compile(
            Grammar.from_json_schema(around(COSTLY[costly])),
            vocabularies.embedded(),
            max_work=60_000,
            spell_missing=True,
        )
    assert str(caught.value.where).startswith(pointer)


def test_what_keys_cost_is_found_by_compile():
    with pytest.raises(LimitExceeded) as caught:
        denied = _many(12, lambda i: {"not": {"pattern": f"{chr(97 + i)}.*{chr(109 + i)}"}})
        schema = {"type": "object", "propertyNames": {"allOf": denied}}
        compile(Grammar.from_json_schema(schema), vocabularies.embedded(), max_work=60_000, spell_missing=True)
    assert caught.value.where == "#"


SPENT_BY_MANY_STEPS = {  # of what no outline says that it is much work
    "ends": lambda: Grammar.from_lark('start: "0"+\n' + "".join(f"%ignore /#[^{end}]*/\n" for end in "abcdefghijklmn")),
    "nullable": lambda: Grammar.from_lark(
        "start: r0\n" + "".join(f'r{n}: r{n + 1}? "{chr(97 + n % 26)}"? r{n + 1}?\n' for n in range(30)) + 'r30: "z"?'
    ),
    "lengths": lambda: Grammar.from_json_schema({"allOf": _many(20, lambda i: {"pattern": f"^(?:.{{{i + 1}}})*$"})}),
}


@pytest.mark.parametrize("name", SPENT_BY_MANY_STEPS)
def test_what_costs_too_much_step_by_step_is_found_by_compile(name):
    with pytest.raises(LimitExceeded) as caught:
        compile(SPENT_BY_MANY_STEPS[name](), vocabularies.embedded(), max_work=60_000)
    assert caught.value.where


def test_places_that_exclude_each_other_are_seen_when_they_are_picked():
    """Three colours for a ring of nodes with chords: 3**24 ways to pick, most of which fail early."""
    def alike(one, other, colour):
        places = [{}] * (max(one, other) + 1)
        places[one] = places[other] = {"const": colour}
        return {"not": {"prefixItems": places}}

    edges = [(node, (node + far) % 10) for node in range(10) for far in (1, 4)]
    schema = {
        "type": "array", "prefixItems": [{"enum": [0, 1, 2]}] * 10, "minItems": 10, "maxItems": 10,
        "allOf": [alike(*edge, colour) for edge in edges for colour in range(3)],
    }  # fmt: skip
    spent = []
    for number in range(6):  # hashes and addresses differ, the work does not, but for nodes that are known
        budget = Budget(200_000)
        with metered(budget):
            Grammar.from_json_schema({**schema, "description": str(number)})
        spent.append(200_000 - budget.left)
    assert max(spent) < 1.01 * min(spent), spent


def test_what_costs_too_much_only_alone_is_not_tried():
    schema = {"properties": {"a": {"allOf": [COSTLY["patterns"], {"enum": ["0", "1"]}]}}}
    matcher = compile(
        Grammar.from_json_schema(schema), vocabularies.embedded(), max_work=60_000, spell_missing=True
    ).matcher()
    assert matcher.accepts(vocabularies.embedded().by_text[b"{"])


@pytest.mark.parametrize(("schema", "pointer"), LIMITS)
def test_limits_name_the_place(schema, pointer):
    bitmask = np.zeros((1, WORDS.words), np.int32)
    with pytest.raises((LimitExceeded, UnsupportedSchema)) as caught, metered(Budget(200_000)):
        matcher = compile(Grammar.from_json_schema(schema), WORDS, max_work=200_000).matcher()
        for byte in b'[{"a":1},{"k1":1}, {"k1":' if schema.get("type") == "array" else b'{"k1":':
            matcher.fill_mask(bitmask)
            matcher.advance(byte)
    assert caught.value.where == pointer


def test_a_walk_that_ends_soon_is_begun_anew():
    """What a probe tries is not left to a first walk that chance has led to the end."""
    constraint = compile(Grammar.from_json_schema({"enum": [True, False]}, whitespace="compact"), WORDS)
    assert len(prepare._walk(constraint, 0)) == prepare.STEPS
    assert len(prepare._walk(constraint, 1)) < prepare.STEPS


@pytest.mark.parametrize("kernel", ["compiled", "plain"])
def test_what_was_probed_is_probed_again_with_less_work_only(monkeypatch, kernel):
    walks = []
    walk = prepare._walk
    monkeypatch.setattr(prepare, "_walk", lambda part, *how, **more: walks.append(part) or walk(part, *how, **more))
    heavy = "([a-z]{1,40}[0-9]{1,40}){1,40}"

    def walked(grammar, **options):
        walks.clear()
        compile(grammar, words, kernel=kernel, **options)
        return len(walks)

    words = vocabularies.embedded()
    words.kernels.clear()
    glanced = Grammar.from_lark("start: /[a-z]+/ NUMBER\nNUMBER: /[0-9]+/")
    asked = [{}, {}, {"max_work": 900_000}, {"max_work": 900_000}, {"max_work": None}]
    assert [walked(glanced, **options) for options in asked] == [1, 0, 1, 0, 0]
    alone = Grammar.from_regex(heavy)
    assert alone.heavy
    first = walked(alone)
    assert first >= 1
    assert walked(alone) == 0
    assert walked(Grammar.from_lark(f'start: "x" /{heavy}/')) == 0, "a pattern that another grammar has brought"
    assert walked(Grammar.from_lark(f'start: "y" /{heavy}/ /b{heavy}/')) >= 1
    words.kernels.clear()
    assert walked(alone) == first
    turn = ChatFormat.load("llama3.1-json").grammar()
    assert walked(turn, spell_missing=True) == 0, "its author has tried its patterns"
    assert walked(turn + Grammar.from_regex(f"c{heavy}"), spell_missing=True) >= 1


@pytest.mark.parametrize("name", ["idn-hostname", "regex"])
def test_what_a_format_alone_costs(name):
    """Little enough that nobody need try it beforehand, see `schema.limits`."""
    caches.clear()
    constraint = compile(Grammar.from_json_schema({"format": name}), vocabularies.embedded(), max_work=100_000)
    for number in range(prepare.WALKS):
        prepare._walk(constraint, number)


def test_the_rest_of_a_format_is_within_what_was_tried():
    """A walk of the fuzz (seed 405, input 4,098) that met a limit in its fourth mask."""
    schema = {"format": "regex", "contains": {"maxContains": 1}, "maxLength": 1 << 31}
    options = {"surface": "python", "whitespace": "canonical"}
    assert schemas.check(schema, {**options, "formats": "dialect"}, WORDS, random.Random(4098), []) == "works"



def test_what_compiles_is_not_too_much_in_a_string():
    """A walk of the fuzz (seed 605, input 7,555): each state of the count took a fifth of the budget."""
    options = {"surface": "json", "formats": "assert", "property_order": "any"}
    schema = {"maxLength": 40, "not": {"pattern": r"\p{L}"}}
    assert schemas.check(schema, options, schemas.vocabulary(), random.Random(7555), []) == "works"


@pytest.mark.parametrize("surface", ["json", "python"])
def test_each_kind_of_value_that_looks_like_much_work_is_tried(surface):
    """Chance began with numbers only (seeds 503 and 2003, inputs 16,393 and 3,215)."""
    words = schemas.vocabulary()
    grammar = Grammar.from_json_schema({"format": "regex"}, formats="assert", surface=surface)
    constraint = compile(grammar, words)
    matcher, bitmask = constraint.matcher(), np.zeros((1, words.words), np.int32)
    matcher.advance(ord('"' if surface == "json" else "'"))
    left = constraint.budget.left
    matcher.fill_mask(bitmask)
    assert constraint.budget.left >= left
