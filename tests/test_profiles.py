"""The practical profile: what is written under it is read by pydantic, whatever is chosen under the masks."""

from __future__ import annotations

import json

import pytest

pydantic = pytest.importorskip("pydantic")

import constrained as c
from benchmarks import profiles


@pytest.mark.parametrize("name", profiles.MODELS)
def test_pydantic_reads_what_is_written(tiny_vocabulary, name):
    """A slice of ``python -m constrained.benchmarks.profiles``."""
    found = profiles.check(name, tiny_vocabulary, "practical", walks=6)
    assert found.faults == []


def grammar(schema, **switches):
    return c.Grammar.from_json_schema(schema, **switches)


def accepts(tiny_vocabulary, found, text: str) -> bool:
    matcher = c.compile(found, tiny_vocabulary).matcher()
    try:
        for token in tiny_vocabulary.tokenize(text.encode()):
            matcher.advance(token)
    except c.Rejected:
        return False
    return matcher.is_accepting()


AB = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "number"}}, "required": ["b"]}
CASES = {
    "in order": (AB, '{"a": 1, "b": 0.5}', True),
    "optional left out": (AB, '{"b": 0.5}', True),
    "out of order": (AB, '{"b": 0.5, "a": 1}', False),
    "closed": (AB, '{"b": 0.5, "c": 1}', False),
    "open by its schema": ({**AB, "additionalProperties": True}, '{"b": 0.5, "c": 1}', True),
    "blanks": (AB, '{ "b":0.5}', False),
    "int64": ({"type": "integer"}, "9223372036854775807", True),
    "beyond int64": ({"type": "integer"}, "9223372036854775808", False),
    "least int64": ({"type": "integer"}, "-9223372036854775808", True),
    "below int64": ({"type": "integer"}, "-9223372036854775809", False),
    "asked for beyond int64": ({"type": "integer", "minimum": 2**70}, str(2**70), True),
    "float64": ({"type": "number"}, "1234567.0123456789", True),
    "overflow": ({"type": "number"}, "1e+400", False),
    "underflow": ({"type": "number"}, "1e-400", False),
    "asked for many digits": ({"type": "number", "multipleOf": 1e-12}, "0.000000000001", True),
    "an enum of fine numbers": ({"enum": [1e-11]}, "1e-11", True),
    "leap second": ({"type": "string", "format": "date-time"}, '"2016-12-31T23:59:60Z"', False),
    "second": ({"type": "string", "format": "date-time"}, '"2016-12-31T23:59:59Z"', True),
    "year 0": ({"type": "string", "format": "date"}, '"0000-01-01"', False),
}


@pytest.mark.parametrize("name", CASES)
def test_practical(tiny_vocabulary, name):
    schema, text, expected = CASES[name]
    assert accepts(tiny_vocabulary, grammar(schema, profile="practical"), text) is expected
    assert accepts(tiny_vocabulary, grammar(schema, profile="exact"), text)


def test_switches_count_beside_a_profile(tiny_vocabulary):
    assert accepts(tiny_vocabulary, grammar(AB, profile="practical", property_order="any"), '{"b": 0.5, "a": 1}')
    assert accepts(tiny_vocabulary, grammar(AB, profile="practical", closed=False), '{"b": 0.5, "c": 1}')
    assert accepts(
        tiny_vocabulary, grammar({"type": "integer"}, profile="practical", numbers="any"), "9223372036854775808"
    )
    pretty = grammar(AB, profile="practical", max_whitespace=3)
    assert accepts(tiny_vocabulary, pretty, '{\n  "b":   0.5\n}')
    assert not accepts(tiny_vocabulary, pretty, '{\n    "b": 0.5}')
    assert accepts(tiny_vocabulary, grammar(AB, max_whitespace=0), '{"b":0.5}')
    assert not accepts(tiny_vocabulary, grammar(AB, max_whitespace=0), '{"b": 0.5}')


NESTED = {"a": [1, [], {"b": None}], "c": {}}


@pytest.mark.parametrize(
    "options",
    [
        {"separators": (",", ":")},
        {"separators": (" ,\t", " : ")},
        {"indent": 2},
        {"indent": 0},
        {"indent": 3, "separators": (",", ":")},
    ],
)
@pytest.mark.parametrize("profile", ["exact", "practical"])
def test_separators_and_indent_are_those_of_json_dumps(tiny_vocabulary, options, profile):
    found, text = grammar(True, profile=profile, **options), json.dumps(NESTED, **options)
    assert accepts(tiny_vocabulary, found, text)
    assert not accepts(tiny_vocabulary, found, json.dumps(NESTED, indent=5, separators=(", ", ":")))
    assert not accepts(tiny_vocabulary, found, text.replace("{", "{ ", 1))
    assert (
        found.fingerprint
        == grammar(True, profile=profile, **options).fingerprint
        != grammar(True, profile=profile).fingerprint
    )


def test_indent_stops_at_whole_levels(tiny_vocabulary):
    found = grammar({"type": "array", "items": {"type": "null"}}, indent=2, max_whitespace=7)
    for text, expected in (
        ("[\n  null,\n  null\n]", True),
        ("[\n      null]", True),
        ("[\n null]", False),
        ("[\n        null]", False),
        ("[null, null]", False),
        ("[]", True),
    ):
        assert accepts(tiny_vocabulary, found, text) is expected, text


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"indent": -1}, "indent is -1"),
        ({"indent": True}, "indent is True"),
        ({"separators": ":,"}, "separators is"),
        ({"separators": (",",)}, "separators is"),
        ({"separators": ("; ", ":")}, "separators is"),
        ({"separators": (",,", ":")}, "separators is"),
        ({"indent": 2, "whitespace": "compact"}, "indent beside whitespace"),
    ],
)
def test_what_is_no_layout(options, match):
    with pytest.raises(c.SchemaError, match=match):
        grammar(True, **options)


def test_types_are_practical_and_schemas_exact():
    assert grammar(list[int]).fingerprint == grammar(list[int], profile="practical").fingerprint
    assert grammar(list[int]).fingerprint != grammar(list[int], profile="exact").fingerprint
    assert grammar(AB).fingerprint == grammar(AB, profile="exact").fingerprint


@pytest.mark.parametrize(
    "switches",
    [{"profile": "fast"}, {"profile": []}, {"numbers": "small"}, {"max_whitespace": -1}, {"max_whitespace": True}],
)
def test_unknown_switches(switches):
    with pytest.raises(c.SchemaError):
        grammar(AB, **switches)
