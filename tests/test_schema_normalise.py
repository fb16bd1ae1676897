"""Normal forms against `jsonschema`: whether a JSON value belongs to `normalise(schema)`, read off the shapes by brute
force.

Exhaustion over a small world of schemas finds most mistakes; Hypothesis nests deeper; `benchmarks.json_schema_suite` and
`benchmarks.verdicts` read data of others.  The complement has no oracle but itself: a value belongs to a schema or to
its negation, never to both.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from constrained.export.describe import describe
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from value_oracle import belongs

from constrained.errors import UnsupportedSchema
from constrained.schema.normal.normalise import normalise
from constrained.schema.reading.check import load
from constrained.schema.reading.keywords import named
from constrained.schema.values import negation

WORLD = json.loads((Path(__file__).parent / "corpus" / "schema_world.json").read_text("utf-8"))
ATOMS, INSTANCES = WORLD["atoms"], WORLD["instances"]
CHECKER = Draft202012Validator.FORMAT_CHECKER


def forms(one: Any, other: Any) -> Iterator[dict[str, Any]]:
    """Yield the ways to make a schema of two."""
    yield {"allOf": [one, other]}
    yield {"anyOf": [one, other]}
    yield {"oneOf": [one, other]}
    yield {"allOf": [one, {"not": other}]}
    yield {"not": {"anyOf": [one, other]}}
    yield {"not": {"oneOf": [one, other]}}
    yield {"if": one, "then": other}
    yield {"if": one, "else": other}
    yield {"if": one, "then": other, "else": {"not": other}}
    yield {"items": {"anyOf": [one, other]}}
    yield {"prefixItems": [one], "items": other}
    yield {"contains": {"allOf": [one, other]}, "minItems": 1}
    yield {"contains": one, "items": other, "maxContains": 1}
    yield {"properties": {"a": one}, "additionalProperties": other}
    yield {"properties": {"a": one, "b": other}, "minProperties": 1}
    yield {"patternProperties": {"^a": one, "b$": other}}
    yield {"propertyNames": {"allOf": [one, other]}}
    yield {"dependentSchemas": {"a": one, "b": other}}
    yield {"anyOf": [one, other], "unevaluatedProperties": False}
    yield {"anyOf": [one, other], "unevaluatedItems": False}
    yield {"allOf": [one], "if": other, "unevaluatedProperties": {"type": "string"}}
    yield {"not": {"anyOf": [one, other], "unevaluatedProperties": False}}
    yield {"not": {"oneOf": [one, other], "unevaluatedItems": {"const": 1}}}


def disagreements(schema: Any, instances: list[Any]) -> list[Any]:
    """Return the instances on which the normal form and `jsonschema` differ; none where the schema is refused by name.
    """
    validator = Draft202012Validator(schema, format_checker=CHECKER)
    try:
        conj = load(schema)
        return [instance for instance in instances if belongs(instance, conj) is not validator.is_valid(instance)]
    except UnsupportedSchema:
        return []


ALL_FORMS = [form for one in ATOMS for other in ATOMS for form in forms(one, other)]


def test_atoms_that_refuse_an_empty_value_are_demanding():
    """All other keywords leave "", [], {} and every number, which is what `normal.quick` says yes by."""
    demanding = named(lambda keyword: keyword.demanding)
    for atom in ATOMS:
        if isinstance(atom, dict) and demanding.isdisjoint(atom):
            validator = Draft202012Validator({key: value for key, value in atom.items() if key != "type"})
            assert all(map(validator.is_valid, ("", [], {}, 0, -1.5, 10**9))), atom


def test_small_world():
    for schema in random.Random(1).sample(ALL_FORMS, 1200):
        assert not disagreements(schema, INSTANCES), schema


@pytest.mark.exhaustive
def test_small_world_exhaustively():
    """Every pair of atoms in every form, on every instance: about three million verdicts."""
    for schema in ALL_FORMS:
        assert not disagreements(schema, INSTANCES), schema


def test_few_schemas_of_the_small_world_are_refused():
    refused = 0
    for schema in random.Random(2).sample(ALL_FORMS, 500):
        try:
            normalise(load(schema))
        except UnsupportedSchema:
            refused += 1
    assert refused == 0


SCHEMAS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.builds(lambda one, other, pick: list(forms(one, other))[pick], inner, inner, st.integers(0, 22)),
    max_leaves=5,
)


@given(SCHEMAS)
@settings(max_examples=150, deadline=None)
def test_nested_schemas(schema):
    assert not disagreements(schema, INSTANCES)


@given(SCHEMAS)
@settings(max_examples=100, deadline=None)
def test_a_value_belongs_to_a_schema_or_to_its_negation(schema):
    try:
        conj, contrary = load({"allOf": [schema]}), load({"not": schema})
        for instance in INSTANCES:
            assert belongs(instance, conj) is not belongs(instance, contrary), instance
        if len(conj) == 1:
            assert [belongs(i, negation(conj)) for i in INSTANCES] == [belongs(i, contrary) for i in INSTANCES]
    except UnsupportedSchema:
        pass


@given(SCHEMAS)
@settings(max_examples=50, deadline=None)
def test_every_schema_can_be_described(schema):
    with contextlib.suppress(UnsupportedSchema):
        assert describe(load(schema))


DESCRIBED = {
    "type": "object",
    "required": ["a"],
    "properties": {
        "a": {"type": ["integer", "null"], "minimum": 3},
        "b": {"$ref": "#"},
        "c": {
            "type": "array",
            "prefixItems": [{"const": "x"}],
            "maxItems": 2,
            "uniqueItems": True,
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"d": {"type": "array", "items": {"type": "object", "maxProperties": 1}}},
                },
            },
        },
    },
    "patternProperties": {"^x": {"type": "string", "minLength": 2}},
    "additionalProperties": {"enum": [1, 2]},
}
DESCRIPTION = r"""
#:
  object
    a (required): null or integer >= 3
    b: see #
    c:
      array of 0 to 2 items, all different
        item 0: string /x/
        other items:
          array of any number of items
            items: see #/properties/c/items/items
    other keys matching /x[\s\S]*/: string /[\s\S]{2,}/
    other keys matching /¬(x[\s\S]*)/: 1 or 2
#/properties/c/items/items:
  object
    d:
      array of any number of items
        items:
          object of 0 to 1 keys
            any other key: any value
    any other key: any value"""


def test_a_description_refers_to_what_it_has_said_and_to_what_lies_deep():
    assert describe(load(DESCRIBED)) == DESCRIPTION.lstrip("\n")


@pytest.mark.parametrize(("letters", "cut"), [(99, False), (100, False), (101, True)])
def test_a_description_cuts_long_patterns(letters, cut):
    text = describe(load({"type": "string", "pattern": f"^{'ab' * 60}"[: letters + 1] + "$"}))
    assert ("…" in text) is cut and text.count("a") + text.count("b") >= min(letters, 100)


STRICT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
BELONGING = [
    ({"multipleOf": 0.0001, "maximum": 0.3}, {}, [0.0075, 0.3], [0.00751]),  # numbers mean their decimal text
    ({"type": "string", "nullable": True}, {}, [None], []),  # which counts only where no dialect is declared
    ({"type": "string", "nullable": True, **STRICT}, {}, [], [None]),
    ({"format": "date"}, {}, [], ["x"]),
    ({"format": "date"}, {"formats": "annotate"}, ["x"], []),
    ({"format": "date", "$schema": "http://json-schema.org/draft-04/schema#"}, {"formats": "dialect"}, ["x"], []),
]


@pytest.mark.parametrize(("schema", "options", "yes", "no"), BELONGING, ids=lambda part: str(part)[:40])
def test_dialects_and_options_decide_which_values_belong(schema, options, yes, no):
    conj = load(schema, **options)
    assert [value for value in [*yes, *no] if belongs(value, conj)] == yes


def test_a_metaschema_can_demand_formats():
    base = "https://json-schema.org/draft/2020-12"
    meta = {
        "$schema": f"{base}/schema",
        "$vocabulary": {f"{base}/vocab/core": True, f"{base}/vocab/format-assertion": True},
    }
    conj = load(
        {"$schema": "http://x.test/meta", "format": "date"}, remotes={"http://x.test/meta": meta}, formats="annotate"
    )
    assert not belongs("x", conj)


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (["applicator", "unevaluated"], [{"a": 1}, {"b": 1}]),
        (["applicator"], [{"a": 1}]),
        (["unevaluated"], [{"a": 1}, {"b": 1}]),
        (["validation"], [{"b": 1}, {}]),
    ],
)
def test_words_of_vocabularies_that_a_metaschema_leaves_out_mean_nothing(words, refused):
    base = "https://json-schema.org/draft/2020-12"
    meta = {"$schema": f"{base}/schema", "$vocabulary": {f"{base}/vocab/{word}": True for word in ["core", *words]}}
    schema = {
        "$schema": "http://x.test/meta",
        "properties": {"a": False},
        "required": ["a"],
        "unevaluatedProperties": False,
    }
    conj = load(schema, remotes={"http://x.test/meta": meta})
    assert [value for value in ({"a": 1}, {"b": 1}, {}) if not belongs(value, conj)] == refused


def test_alternatives_of_a_tagged_union_stay_few():
    members = [
        {"type": "object", "properties": {"kind": {"const": kind}, "n": {"minimum": kind}}, "required": ["kind"]}
        for kind in range(60)
    ]
    assert len(normalise(load({"oneOf": members})).objects) == 60
    assert len(normalise(load({"allOf": [{"oneOf": members}, {"anyOf": members}]})).objects) == 60


def test_too_many_alternatives_are_refused_by_name():
    parts = [
        {
            "anyOf": [
                {
                    "properties": {f"{name}{n}": {"type": "integer"}},
                    "patternProperties": {f"^{name}{n}": {"minimum": n}},
                }
                for n in range(3)
            ]
        }
        for name in "abcdefgh"
    ]
    with pytest.raises(UnsupportedSchema, match="alternatives"):
        normalise(load({"type": "object", "allOf": parts}))


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "string"}, "b": True, "c": False, "d": {}, "e": {"properties": {"f": {}}}}},
        {"properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#"}}, "$defs": {"x": {"type": "null"}}},
        {"properties": {"a": {"$id": "urn:x", "$ref": "#/$defs/y", "$defs": {"y": {"minimum": 1}}}, "b": {"maximum": 1}}},
        {"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}, "b": {"type": "null"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$id": "urn:z", "type": "null"}}},
    ],
    ids=json.dumps,
)
def test_subschemas_under_names_are_read_together_as_each_alone(schema: dict[str, Any]) -> None:
    for first in ("together", "alone"):
        (signed,) = load(schema)
        node, parts = signed.node, signed.node.schema["properties"]
        together = node.each_below(parts.items(), "properties") if first == "together" else {}
        alone = {name: node.below(part, "properties", name) for name, part in parts.items()}
        assert (together or node.each_below(parts.items(), "properties")) == alone
        for name, conj in alone.items():
            for part in conj:
                if part.node.document is node.document:  # not NOTHING
                    resource = node.document.library.embedded.get(id(part.node.schema), part.node.resource)
                    assert part.node.resource is resource
                    assert part.node.pointer in (f"#/properties/{name}", "#/$defs/x", "#")
                    assert bool(part.node.scope) == node.document.library.dynamic
