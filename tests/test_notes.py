"""What of a schema is not passed over in silence."""

from __future__ import annotations

import difflib
import warnings

import pytest

import constrained as c
from constrained.formats.tools import read_tools
from constrained.schema.reading import notes

NOTED = {
    "a typo": ({"type": "object", "propertis": {"a": True}}, ["#/propertis"]),
    "another letter case": ({"type": "string", "minlength": 3}, ["#/minlength"]),
    "below": ({"items": {"anyOf": [{"maxItem": 3}, {"const": 1}]}}, ["#/items/anyOf/0/maxItem"]),
    "a keyword of another draft": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [True]},
        ["#/prefixItems"],
    ),
    "a keyword of draft 3": ({"type": "integer", "divisibleBy": 3}, ["#/divisibleBy"]),
    "an unknown format": ({"properties": {"a": {"type": "string", "format": "colour"}}}, ["#/properties/a/format"]),
    "nullable": ({"type": "string", "nullable": True}, ["#/nullable"]),
    "formats of OpenAPI, once": (
        {"properties": {"a": {"format": "byte"}, "b": {"format": "int32"}, "c": {"format": "byte"}}},
        ["#/properties/c/format"],
    ),
    "annotations": (
        {"title": "t", "description": "d", "x-minlength": 1, "examples": [1], "discriminator": {}, "wholly": "mine"},
        [],
    ),
    "names of properties": ({"properties": {"propertis": {"type": "string"}}, "enum": [{"minlength": 1}]}, []),
    "a known format": ({"format": "date-time"}, []),
}


@pytest.mark.parametrize("name", NOTED)
def test_notes(tiny_vocabulary, name):
    schema, expected = NOTED[name]
    notes.forget()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        constraint = c.compile(c.Grammar.from_json_schema(schema), tiny_vocabulary)
        c.Grammar.from_json_schema(schema)
    assert [note.pointer for note in constraint.notes] == expected
    assert len(caught) == len(expected)  # once
    if expected:
        with pytest.raises(c.SchemaError, match="at #"):
            c.Grammar.from_json_schema(schema, strict=True)
    else:
        c.Grammar.from_json_schema(schema, strict=True)


def test_notes_of_tools(tiny_vocabulary):
    tool = {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {"type": "object", "properties": {"a": {"type": "string", "minlength": 3}}},
        },
    }
    notes.forget()
    with pytest.warns(UserWarning, match="'minlength' at #/properties/a/minlength is no keyword; 'minLength' is one"):
        grammar = c.ChatFormat.load("hermes").grammar([tool])
    assert [note.word for note in c.compile(grammar, tiny_vocabulary).notes] == ["minlength"]


def test_null_for_an_empty_collection_is_warned_of():
    notes.forget()
    with pytest.warns(UserWarning, match="'null' at tool 'f' #/required is read as an empty 'required'"):
        (tool,) = read_tools([{"name": "f", "inputSchema": {"type": "object", "properties": None, "required": None}}])
    assert tool.parameters == {"type": "object", "properties": {}}


def test_letters_are_only_a_shortcut():
    keywords = notes._keywords()
    words = {word for keyword in keywords for word in _misspelt(keyword)}
    for word in sorted(words):
        near = difflib.get_close_matches(word.lower(), keywords, n=1, cutoff=notes._LIKE)
        assert notes._nearest(word) == (keywords[near[0]] if near else None), word


def _misspelt(word: str) -> list[str]:
    """Return a word with a letter left out, put in or changed for the next one at every place, and beginnings of it."""
    cuts = [(word[:at], word[at:]) for at in range(len(word))]
    return [made for a, b in cuts for made in (a + b[1:], a + "q" + b, a + b[1:2] + b[:1] + b[2:], a, a.upper() + b)]
