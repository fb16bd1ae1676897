"""Reading schemas: references of every kind, dialects, bundles, remote documents, and what is reported before anything
is compiled.
"""

from __future__ import annotations

import gc
import json
import sys
import tomllib
from collections import OrderedDict
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType

import pytest
from value_oracle import belongs

from constrained.errors import ConstrainedError, SchemaError
from constrained.schema.normal.normalise import is_never, normalise
from constrained.schema.normal.quick import surely_compilable, surely_satisfiable
from constrained.schema.reading.check import _survey, load
from constrained.schema.reading.document import Library
from constrained.work import MAX_WORK, Budget, metered

CORPUS = Path(__file__).parent / "corpus"
REFERENCES = json.loads((CORPUS / "schema_references.json").read_text("utf-8"))
ERRORS = tomllib.loads((CORPUS / "errors_schema.toml").read_text("utf-8"))["case"]


@pytest.mark.parametrize("row", REFERENCES, ids=lambda row: row["what"])
def test_references_and_dialects(row):
    conj = load(row["schema"], remotes=row.get("remotes"))
    assert [belongs(instance, conj) for instance in row["valid"]] == [True] * len(row["valid"])
    assert [belongs(instance, conj) for instance in row["invalid"]] == [False] * len(row["invalid"])


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row["schema"][:60])
def test_messages(row):
    with pytest.raises(SchemaError) as caught:
        normalise(load(json.loads(row["schema"]), remotes=json.loads(row.get("remotes", "{}"))))
    assert str(caught.value) == row["message"].lstrip("\n")


@pytest.mark.parametrize(
    "schema",
    [{"enum": [{1, 2}]}, {"const": {1: 2}}, {"default": float("nan")}, {"minimum": float("inf")}, [], "x", None],
)
def test_what_is_not_json_is_refused(schema):
    with pytest.raises(SchemaError):
        load(schema)


def test_other_mappings_sequences_and_decimals_are_read():
    schema = MappingProxyType({"properties": OrderedDict(a={"enum": ("x", Decimal("0.10"))}), "required": ("a",)})
    conj = load(schema)
    assert belongs({"a": 0.1}, conj)
    assert not belongs({"a": "y"}, conj)


def test_a_schema_that_shares_or_contains_itself_is_read():
    shared = {"type": "integer"}
    schema = {"properties": {"a": shared, "b": shared}}
    schema["properties"]["c"] = schema
    conj = load(schema)
    assert belongs({"a": 1, "c": {"b": 2}}, conj)
    assert not belongs({"c": {"c": {"b": "x"}}}, conj)


def test_later_changes_of_the_callers_schema_change_nothing():
    schema = {"properties": {"a": {"type": "integer"}}}
    conj = load(schema)
    schema["properties"]["a"]["type"] = "string"
    assert belongs({"a": 1}, conj)


METASCHEMAS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]


@pytest.mark.parametrize("uri", METASCHEMAS)
def test_metaschemas_are_known_documents(uri):
    conj = load({"$schema": uri, "$ref": uri}, formats="annotate")
    assert belongs({"type": "string", "properties": {"a": {"minLength": 1}}}, conj)
    assert not belongs({"type": "strin"}, conj)
    assert not belongs({"properties": {"a": {"properties": {"b": {"minLength": -1}}}}}, conj)


def _nested(wrap, depth, leaf):
    for _ in range(depth):
        leaf = wrap(leaf)
    return leaf


WRAPS = {
    "properties": lambda inner: {"type": "object", "properties": {"a": inner}, "required": ["a"]},
    "items": lambda inner: {"type": "array", "items": inner, "minItems": 1},
    "allOf": lambda inner: {"allOf": [inner]},
    "not": lambda inner: {"not": inner},
    "oneOf": lambda inner: {"oneOf": [inner, {"type": "null", "minLength": 1}]},
    "unevaluatedProperties": lambda inner: {"allOf": [inner], "unevaluatedProperties": {"type": "string"}},
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_depth_is_no_limit(wrap):
    conj = load(_nested(wrap, 1000, {"type": "string"}))
    assert normalise(conj)
    assert not is_never(conj)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("word", ["items", "properties", "not", "allOf", "additionalProperties"])
@pytest.mark.parametrize("inner", [{"type": "string"}, {"type": 1}])
def test_nesting_is_no_recursion(word, inner):
    wrap = {"allOf": lambda inner: {word: [inner]}, "properties": lambda inner: {word: {"a": inner}}}
    schema, library = _nested(wrap.get(word, lambda inner: {word: inner}), 100_000, inner), Library({}, None)
    with suppress(ConstrainedError):
        _survey(library, schema, library.add(schema, "", "#", own=True), "#")
    assert len(library.outer) > 100_000
    assert not surely_compilable(schema) and surely_satisfiable(schema, {}) in (True, False)
    while schema:  # what is freed by recursion would end the interpreter
        schema = schema.pop(word, None) if type(schema) is dict else schema.pop("a", None) if schema else None
        schema = schema[0] if type(schema) is list else schema.get("a", schema) if type(schema) is dict else None


def test_errors_leave_nothing_behind():
    """What the passes hold when they are broken off goes with them."""
    wrong = [
        {"properties": {f"k{number}": {"items": {"type": "string"}} for number in range(50)} | {"z": {"type": 1}}},
        {"allOf": [{"minLength": -1}] * 9, "$ref": "#/x"}, {"items": {"properties": {"a": 1}}}, {"items": {"pattern": "("}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}, {"required": ["\ud800"], "type": "object"},
    ]  # fmt: skip

    def all_of_them():
        for schema in wrong:
            with suppress(ConstrainedError):
                conj = load(schema)
                normalise(conj)
            with suppress(ConstrainedError), metered(Budget(7)):
                normalise(load({"type": "object", "properties": {"a": {}, "b": {"type": "null"}}}))

    for _ in range(20):
        all_of_them()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(100):
        all_of_them()
    gc.collect()
    assert sys.getallocatedblocks() - before < 200


def test_deep_constants_and_long_chains_of_references():
    assert not is_never(load({"const": _nested(lambda inner: [inner], 1000, 1)}))
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5000)}
    assert normalise(load({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": {"type": "null"}}})).null


def test_the_check_costs_a_few_units_per_subschema():
    schema = {
        "$defs": {
            f"d{n}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{n // 2}"}}, "required": ["a"]}
            for n in range(5000)
        }
    }
    with metered(Budget()) as budget:
        load(schema)
    assert 10_000 < MAX_WORK - budget.left < 20 * 10_000


def test_a_pattern_below_a_keyword_that_the_draft_lacks_means_nothing():
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "if": {"pattern": "("}}
    assert not is_never(load(schema))
