"""The law of schemas: a text is accepted exactly if it reads as a value (strictly) and that value is valid.

Readers are `json` and `ast` (`value_texts`), the judge of values is `jsonschema`, the engine is the whole one: schema →
grammar → constraint.
Small worlds find the logic by exhaustion: every schema up to a size on every value up to a size, in several spellings
each, and damaged; Hypothesis nests deeper.  Along random walks masks never lead into a dead end, and both kernels have
the same ones.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
from constrained.benchmarks.needed import needed_names
from constrained.benchmarks.walks import FINISHED, Drawer, walk
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from laws import assert_kernels_agree, hard_vocabulary, separating_vocabulary
from test_schema_normalise import ALL_FORMS, ATOMS, CHECKER, INSTANCES
from test_schema_normalise import SCHEMAS as NESTED
from value_texts import (
    JSON_CHARS,
    PYTHON_CHARS,
    Unsure,
    damaged,
    read_json,
    read_python,
    respelled_json,
    respelled_python,
    whitespace_of,
)

from constrained import Grammar, SchemaError, UnsupportedSchema, Vocabulary, compile

BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)


# -- schemas and values, by size ---------------------------------------------------------------------------------------


def wrapped(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the ways to make a schema of one."""
    yield {"not": schema}
    yield {"items": schema}
    yield {"prefixItems": [schema, schema]}
    yield {"contains": schema}
    yield {"contains": schema, "minContains": 0, "maxContains": 1}
    yield {"items": schema, "minItems": 2, "type": "array"}
    yield {"properties": {"a": schema}}
    yield {"properties": {"a": schema}, "required": ["a"], "type": "object"}
    yield {"additionalProperties": schema}
    yield {"patternProperties": {"^a|b$": schema}, "minProperties": 1}
    yield {"propertyNames": schema}
    yield {"if": schema, "then": False}
    yield {"oneOf": [schema, {"type": "integer"}]}
    yield {"dependentSchemas": {"a": schema}}
    yield {"properties": {"a": True}, "unevaluatedProperties": schema}
    yield {"prefixItems": [True], "unevaluatedItems": schema}
    yield {
        "$defs": {"x": schema},
        "anyOf": [{"$ref": "#/$defs/x"}, {"items": {"$ref": "#"}, "minItems": 1, "type": "array"}],
    }


LEAVES: list[Any] = [None, True, False, 0, 1, 1.5, "", "a", "b"]
SMALL_SCHEMAS = [*ATOMS, *(schema for atom in ATOMS for schema in wrapped(atom))]


@cache
def values_of(size: int) -> tuple[Any, ...]:
    """Return all values of so many nodes, with at most two entries to an array or object."""
    if size == 1:
        return (*LEAVES, [], {})
    found: list[Any] = [value for inner in values_of(size - 1) for value in ([inner], {"a": inner}, {"b": inner})]
    for first in range(1, size - 1):
        for one, other in itertools.product(values_of(first), values_of(size - 1 - first)):
            found += [[one, other], {"a": one, "b": other}, {"b": one, "a": other}]
    return tuple(found)


SMALL_VALUES = [value for size in (1, 2, 3) for value in values_of(size)]
MORE_VALUES = [*INSTANCES, "é/\U0001f389", -1.5, 100, "\n", {"é": 1}, {"a": {"a": {"a": [1, [1.5]]}}}]


# -- texts and what they stand for -------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """A text and the value it stands for, as an index into a list of values; None: it stands for none."""

    text: bytes
    value: int | None
    styles: frozenset[str]


class Surface(NamedTuple):
    """A way to write values, and to read and damage texts."""

    name: str
    write: Callable[[Any], str]
    respell: Callable[[Any, random.Random], str]
    read: Callable[[str], Any]
    chars: str


JSON = Surface("json", json.dumps, respelled_json, read_json, JSON_CHARS)
PYTHON = Surface("python", repr, respelled_python, read_python, PYTHON_CHARS)


class World:
    """Values and texts: each value as it is usually written, respelled, and damaged."""

    def __init__(self, surface: Surface, values: list[Any], seed: int, others: int = 2) -> None:
        self.surface, self.values, self.samples = surface, [], []
        self._index: dict[str, int] = {}
        rng = random.Random(seed)
        for value in values:
            texts = {surface.write(value), *(surface.respell(value, rng) for _ in range(others))}
            if surface is JSON:
                texts |= {json.dumps(value, separators=(",", ":")), json.dumps(value, indent=1, ensure_ascii=False)}
            texts |= {damaged(text, rng, surface.chars) for text in sorted(texts)[:others]}
            self.samples += [sample for text in sorted(texts) if (sample := self._sample(text))]

    def _sample(self, text: str) -> Sample | None:
        try:
            value = self.surface.read(text)
        except Unsure:
            return None
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return Sample(text.encode("utf-8", "surrogatepass"), None, frozenset())
        index = self._index.setdefault(repr(value), len(self.values))
        if index == len(self.values):
            self.values.append(value)
        return Sample(text.encode(), index, frozenset(whitespace_of(text)))

    def check(self, schema: Any, **options: Any) -> int:
        """Compare all texts under a schema; return how many were, none if it is refused by name."""
        validator = Draft202012Validator(schema, format_checker=CHECKER)
        valid = [validator.is_valid(value) for value in self.values]
        reads = reader(schema, surface=self.surface.name, **options)
        if reads is None:
            return 0
        style = options.get("whitespace", "flexible")
        for text, value, styles in self.samples:
            expected = value is not None and valid[value] and style in styles
            try:
                found = reads(text)
            except UnsupportedSchema:  # found out late: refused by name all the same
                return 0
            assert found is expected, (schema, options, text, "must be accepted" if expected else "must be refused")
        return len(self.samples)


def reader(schema: Any, **options: Any) -> Callable[[bytes], bool] | None:
    """Return what says whether a text is accepted; None where the schema is refused by name."""
    try:
        kernel, start = compile(Grammar.from_json_schema(schema, **options), BYTES).place()
    except UnsupportedSchema:
        assert "uniqueItems" in json.dumps(schema)
        return None
    except SchemaError as error:
        if error.what != "schema allows no value":
            raise
        return lambda text: False

    def reads(text: bytes) -> bool:
        state = kernel.step_bytes(start, text)
        return state != 0 and kernel.is_final(state)

    return reads


@cache
def world(surface: Surface, size: str) -> World:
    values = {"small": SMALL_VALUES, "few": MORE_VALUES + SMALL_VALUES[::9]}[size]
    return World(surface, values, seed=len(values))


# -- accepted ⇔ reads as a valid value ---------------------------------------------------------------------------------


def test_the_worlds_hold_what_they_should():
    """Texts of all kinds, so that no law below is empty."""
    for surface in (JSON, PYTHON):
        samples = world(surface, "small").samples
        assert len(SMALL_VALUES) > 500
        assert sum(sample.value is None for sample in samples) > 400
        assert sum(sample.value is not None for sample in samples) > 1_500
        assert sum("canonical" in sample.styles for sample in samples) > 300
    texts = {sample.text for sample in world(JSON, "small").samples}
    assert any(b"\\u0061" in text for text in texts)
    assert any(b"10E-1" in text for text in texts)


JSON_OPTIONS = [{}, {"whitespace": "compact"}, {"whitespace": "canonical"}]
PYTHON_OPTIONS = [{}, {"whitespace": "compact"}, {"whitespace": "canonical"}]


def check_all(schemas: list[Any], surface: Surface, size: str) -> tuple[int, int]:
    """Check each schema in one of the whitespace styles, in turn; return how many pairs were compared and how many
    schemas refused.
    """
    pairs = refused = 0
    styles = JSON_OPTIONS if surface is JSON else PYTHON_OPTIONS
    for number, schema in enumerate(schemas):
        found = world(surface, size).check(schema, **styles[number % 4 if number % 4 < len(styles) else 0])
        pairs += found
        refused += not found
    return pairs, refused


@pytest.mark.parametrize("surface", [JSON, PYTHON], ids=lambda surface: surface.name)
def test_small_schemas_on_small_values(surface):
    schemas = random.Random(1).sample(SMALL_SCHEMAS, 60)
    pairs, refused = check_all(schemas, surface, "small")
    assert pairs > 100_000
    assert refused <= 3


@pytest.mark.parametrize("surface", [JSON, PYTHON], ids=lambda surface: surface.name)
def test_pairs_of_schemas_on_a_few_values(surface):
    schemas = random.Random(2).sample(ALL_FORMS, 150)
    pairs, refused = check_all(schemas, surface, "few")
    assert pairs > 60_000
    assert refused <= 8


@pytest.mark.exhaustive
@pytest.mark.parametrize("surface", [JSON, PYTHON], ids=lambda surface: surface.name)
def test_small_schemas_on_small_values_exhaustively(surface):
    """All atoms, bare and wrapped, on all values of up to three nodes in six spellings: more than two million pairs."""
    pairs, _ = check_all(SMALL_SCHEMAS, surface, "small")
    assert pairs > 2_000_000


@pytest.mark.exhaustive
def test_pairs_of_schemas_on_a_few_values_at_length():
    """Every eighth of the forms of all pairs of atoms."""
    pairs, _ = check_all(ALL_FORMS[3::8], JSON, "few")
    assert pairs > 3_000_000


@given(NESTED, st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_nested_schemas(schema, style):
    world(JSON, "few").check(schema, **JSON_OPTIONS[style % 3])
    world(PYTHON, "few").check(schema, **PYTHON_OPTIONS[style % 3])


CANONICAL = {"whitespace": "canonical", "spelling": "canonical"}


def test_canonical_spelling_is_one_text_per_value():
    """Of all texts of a value only the one that json.dumps or repr() writes is accepted; 1.0 and 1 are one value."""
    for surface, write in ((JSON, lambda value: json.dumps(value, ensure_ascii=False)), (PYTHON, repr)):
        for schema in (True, {"type": ["array", "object", "string"]}, {"not": {"const": 0}}):
            found, reads = world(surface, "few"), reader(schema, surface=surface.name, **CANONICAL)
            validator = Draft202012Validator(schema)
            for text, index, _ in found.samples:
                value = None if index is None else found.values[index]
                if ".0" in repr(value):
                    continue
                expected = index is not None and validator.is_valid(value) and write(value).encode() == text
                assert reads(text) is expected, (surface.name, schema, text)


# -- masks -------------------------------------------------------------------------------------------------------------

HARD = hard_vocabulary(pairs=100)
SCARCE = [  # what was written tells in what may come, and one token can write more than one item or key
    {"items": {"enum": [1, 2, 30, "a", "b", None, True]}, "uniqueItems": True, "type": "array"},
    {"items": {"type": "number"}, "uniqueItems": True, "maxItems": 3, "type": "array"},
    {"items": {"type": "integer", "minimum": 8, "maximum": 12}, "uniqueItems": True, "minItems": 3, "type": "array"},
    {"items": {"type": ["integer", "string"], "maxLength": 2}, "uniqueItems": True, "type": "array"},
    {
        "patternProperties": {"^[ab]$": {"enum": [1, ""]}},
        "properties": {"c": {}},
        "additionalProperties": False,
        "type": "object",
    },
    {
        "propertyNames": {"enum": ["a", "b"]},
        "additionalProperties": {"type": "string", "maxLength": 1},
        "type": "object",
    },
]
DISTINCT = [  # and where what runs out does so inside the texts
    {"items": {"type": "string", "maxLength": 2}},
    {"items": {"type": "string", "pattern": "^[ab]{1,2}$"}},
    {"items": {"type": "string", "pattern": "^[ab]{1,2}$"}, "minItems": 5},
    {"items": {"type": "string", "pattern": "^(a|b.*)$"}},
    {"items": {"type": "string", "pattern": "^[ab]{3}$"}, "maxItems": 7},
    {"items": {"type": "string", "minLength": 1, "maxLength": 40}},
    {"prefixItems": [{"type": "string"}, {"enum": ["a", "b"]}], "items": False, "minItems": 2},
    {"prefixItems": [{"type": "string"}, {"enum": ["a"]}], "items": {"type": "string", "pattern": "^b*$"}},
    {"prefixItems": [{"type": "string"}, {"type": "string"}, {"enum": ["a", "b"]}], "items": False, "minItems": 3},
]
KEYED = [
    {"patternProperties": {"^a(b.*)?$": {"type": "string"}}, "additionalProperties": False},
    {
        "patternProperties": {"^(a|b|ab.*)$": {"enum": [1, "", "1"]}},
        "additionalProperties": False,
        "minProperties": 2,
        "required": ["aba"],
    },
    {"propertyNames": {"pattern": "^(a|ba*)$"}, "additionalProperties": {"enum": [1, ""]}, "maxProperties": 3},
    {
        "properties": {"a": {"type": "string"}},
        "patternProperties": {"^(b|aa*)$": {"enum": ["", 1]}},
        "additionalProperties": False,
    },
]
MASKED = [*random.Random(3).sample([*SMALL_SCHEMAS, *ALL_FORMS], 40), *SCARCE]


def masked(schema: Any, **options: Any) -> Any:
    """Return the grammar of a schema; None if it has none."""
    try:
        return Grammar.from_json_schema(schema, **options)
    except SchemaError:
        return None


def test_kernels_have_the_same_masks():
    pytest.importorskip("constrained.engine.kernel._kernel")
    compared = 0
    for number, schema in enumerate(MASKED):
        grammar = masked(schema, **(JSON_OPTIONS[number % 3] if number % 2 else {"surface": "python"}))
        if grammar is not None:
            places = [compile(grammar, HARD, kernel=name).place() for name in ("compiled", "plain")]
            for seed in range(3 if schema in SCARCE else 1):
                assert_kernels_agree(HARD, places, steps=14 if schema in SCARCE else 8, seed=number + seed)
            compared += 1
    assert compared > 30


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "schema",
    [
        *({"type": "array", "uniqueItems": True, **schema} for schema in DISTINCT),
        *({"type": "object", **schema} for schema in KEYED),
    ],
    ids=repr,
)
def test_one_token_can_tell_what_the_text_before_used_up(schema):
    pytest.importorskip("constrained.engine.kernel._kernel")
    vocabulary = separating_vocabulary()
    for number, options in enumerate(({}, {"whitespace": "compact"}, {"spelling": "canonical"}, {"surface": "python"})):
        grammar = Grammar.from_json_schema(schema, **options)
        places = [compile(grammar, vocabulary, kernel=name).place() for name in ("compiled", "plain")]
        assert_kernels_agree(vocabulary, places, steps=12, seed=number)


def test_walks_along_masks_reach_an_end():
    """And what they have written by then is valid."""
    drawer, walked = Drawer(HARD), 0
    for number, schema in enumerate(random.Random(4).sample([*SMALL_SCHEMAS, *ALL_FORMS], 80)):
        surface = (JSON, PYTHON)[number % 2]
        grammar = masked(schema, surface=surface.name)
        if grammar is None:
            continue
        matcher = compile(grammar, HARD).matcher()
        assert walk(matcher, drawer, random.Random(number), tokens=12, names=needed_names(schema)) == FINISHED, (
            schema,
            matcher.text(),
        )
        try:
            value = surface.read(matcher.text().decode())
        except Unsure:
            continue
        assert Draft202012Validator(schema, format_checker=CHECKER).is_valid(value), (schema, matcher.text())
        walked += 1
    assert walked > 40
