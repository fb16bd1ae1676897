"""The ledger of exactness: what is narrower than the specification is listed with its place, through every layer and a pickle."""

from __future__ import annotations

import pickle

import pytest

from constrained import ChatFormat, Grammar, Vocabulary, compile
from constrained.schema.string_formats import INEXACT, NARROWED

BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)


@pytest.mark.parametrize("name", sorted(INEXACT))
def test_an_inexact_format_is_listed(name):
    schema = {"type": "object", "properties": {"a/b": {"type": "string", "format": name}}}
    grammar = Grammar.from_json_schema(schema)
    listed, other = (grammar.narrowed, grammar.widened) if name in NARROWED else (grammar.widened, grammar.narrowed)
    assert [(entry[0], entry[1]) for entry in listed] == [("#/properties/a~1b/format", "format")]
    assert listed[0][2].startswith(name)
    assert other == ()
    constraint = compile(grammar, BYTES)
    assert (constraint.narrowed, constraint.widened) == (grammar.narrowed, grammar.widened)
    assert pickle.loads(pickle.dumps(grammar)).narrowed == grammar.narrowed
    annotated = Grammar.from_json_schema(schema, formats="annotate")
    assert annotated.narrowed == annotated.widened == ()


def test_what_is_exact_or_asked_for_is_not_listed():
    grammar = Grammar.from_json_schema({"type": "string", "format": "date"}, whitespace="canonical", property_order="schema")
    assert grammar.narrowed == grammar.widened == ()


@pytest.mark.parametrize("name", sorted(NARROWED))
def test_tools_carry_it(name):
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"host": {"type": "string", "format": name}}}}]
    assert [entry[0] for entry in ChatFormat.load("hermes").grammar(tools).narrowed] == ["#/properties/host/format"]
