"""The practical profile: what is written under it is read by pydantic, whatever is chosen under the masks."""

from __future__ import annotations

import enum
import json
import random
from collections import Counter, OrderedDict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Literal

import pytest

pydantic = pytest.importorskip("pydantic")

import constrained as c
from benchmarks import closed, profiles


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


BYTES_OF_OPENAPI = {"": True, "QQ==": True, "QUI=": True, "QUJD": True, "+/+/": True, "Q": False, "QQ": False, "QQ=": False,
                    "QU-D": False, "Q===": False, "QUI=QUI=": False, "a b": False}  # fmt: skip


@pytest.mark.parametrize(("text", "is_base64"), BYTES_OF_OPENAPI.items())
def test_a_byte_of_openapi_is_base64_under_the_practical_profile(tiny_vocabulary, text, is_base64):
    schema, written = {"type": "string", "format": "byte"}, json.dumps(text)
    assert accepts(tiny_vocabulary, grammar(schema, profile="practical"), written) is is_base64
    assert accepts(tiny_vocabulary, grammar(schema), written)


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Mixed(enum.Enum):
    TEXT = "a"
    NUMBER = 2


KEYED = [
    dict[int, int], dict[float, int], dict[bool, int], dict[Size, int], dict[Mixed, int], dict[Literal["a", 1], int],
    dict[Decimal, int], dict[int | None, int], dict[str | int, int], dict[Annotated[str, pydantic.Field(max_length=1)], int],
    dict[Annotated[int, pydantic.Field(ge=1, le=2)], int], Counter[int], OrderedDict[int, int],
]


@pytest.mark.parametrize("kind", KEYED, ids=str)
def test_keys_are_those_that_pydantic_reads_alone_as_in_a_model(tiny_vocabulary, kind):
    model = pydantic.create_model("Model", d=(kind, ...))
    for key in ("1", "2", "3", "-7", "a", "ab", "true", "1.5", ""):
        text = json.dumps({"d": {key: 1}})
        try:
            model.model_validate_json(text)
            reads = key not in ("1", "0") or kind != dict[bool, int]  # which are written in one way only
        except pydantic.ValidationError:
            reads = False
        assert accepts(tiny_vocabulary, grammar(model), text) is reads, key
        assert accepts(tiny_vocabulary, grammar(kind), json.dumps({key: 1})) is reads, key


SECOND = timedelta(seconds=1)
BOUNDED = [  # what no keyword of pydantic's schemas says
    Annotated[timedelta, pydantic.Field(ge=SECOND, lt=60 * SECOND)], Annotated[timedelta, pydantic.Field(gt=-SECOND, le=SECOND / 2)],
    Annotated[timedelta, pydantic.Field(lt=-SECOND)], timedelta, dict[timedelta, int], pydantic.conbytes(min_length=2, max_length=4),
    Annotated[pydantic.AwareDatetime, pydantic.Field(gt=datetime(2024, 1, 1, tzinfo=UTC))],
]


@pytest.mark.parametrize("kind", BOUNDED, ids=str)
def test_what_a_type_bounds_is_read_by_pydantic(tiny_vocabulary, kind):
    model = pydantic.create_model("Model", d=(kind, ...))
    for one, reader in ((kind, pydantic.TypeAdapter(kind).validate_json), (model, model.model_validate_json)):
        constraint = c.compile(grammar(one), tiny_vocabulary, spell_missing=True)
        for seed in range(20):
            reader(constraint.sample(random.Random(seed), 100, weights={}))


A, B = {"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "integer"}}}
EITHER = {"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": A, "else": B}
DEFINED = {"definitions": {"A": A}, "properties": {"x": {"allOf": [{"$ref": "#/definitions/A"}]}, "y": {"$ref": "#/definitions/A"}}}
SPREAD = {"properties": {"a": {"properties": {"x": {}}}}, "allOf": [{"properties": {"a": {"properties": {"y": {}}}}}]}
DENIED = {"properties": {"a": {"properties": {"x": {"type": "integer"}}}}, "not": {"properties": {"a": {"properties": {"x": {"enum": [1]}}}}, "required": ["a"]}}
CLOSED = {  # a schema, texts that are taken, and texts with a key too much, or that the schema refuses
    "parts": ({"allOf": [A, B]}, ['{"a": 1}', '{"a": 1, "b": 2}', "{}"], ['{"a": 1, "zzz": 5}', '{"a": "x"}']),
    "members": ({"anyOf": [A, B]}, ['{"a": 1}', '{"b": 2}'], ['{"a": 1, "b": 2}', '{"a": 1, "zzz": 5}']),
    "members beside keys": (
        {"properties": {"p": {}}, "anyOf": [A, B]},
        ['{"p": 1, "a": 1}', '{"p": 1, "b": 1}', '{"p": 1, "a": 1, "b": 2}'], ['{"zzz": 1}', '{"a": 1, "b": "x"}'],
    ),
    "one member, as the schema counts them": (
        {"oneOf": [{**A, "required": ["a"]}, {**AB, "required": ["a", "b"]}]}, ['{"a": 1}'], ['{"a": 1, "b": 2}', '{"a": 1, "c": 2}'],
    ),
    "a reference among parts": (
        {"definitions": {"A": A}, "allOf": [{"$ref": "#/definitions/A"}]}, ['{"a": 1}'], ['{"a": 1, "zzz": 5}'],
    ),
    "a definition that is a whole and a part": (
        DEFINED, ['{"x": {"a": 1}, "y": {"a": 1}}'], ['{"x": {"z": 1}}', '{"y": {"z": 1}}', '{"z": 1}'],
    ),
    "inside of items": ({"type": "array", "items": {"allOf": [A, B]}}, ['[{"a": 1, "b": 2}]'], ['[{"a": 1, "c": 2}]']),
    "a key that is only required": (
        {**A, "required": ["b"]}, ['{"b": {"c": [1]}}', '{"a": 1, "b": 2}'], ['{"a": 1}', '{"b": 1, "c": 2}'],
    ),
    "keys by patterns": ({"patternProperties": {"^x": {}}}, ['{"xa": 1}'], ['{"a": 1}']),
    "one object in two places": (SPREAD, ['{"a": {"x": 1, "y": 2}}'], ['{"a": {"z": 1}}', '{"b": 1}']),
    "what is denied stays what it is": (DENIED, ['{"a": {"x": 2}}'], ['{"a": {"x": 1}}', '{"a": {"y": 1}}']),
}
SINCE = {"a condition": (7, {**EITHER, "properties": {"k": {}}}, ['{"k": 1, "a": 1}', '{"k": 2, "b": 1}'], ['{"k": 1, "b": 1}', '{"k": 1, "z": 1}'])}
UNTIL = {"what depends on keys": (7, {"properties": {"a": {}}, "dependencies": {"a": B}}, ['{"a": 1, "b": 2}', '{"a": 1}'], ['{"a": 1, "z": 1}', '{"b": 1}'])}
ROWS = [
    (uri, name, *row)
    for draft, uri in zip((4, 6, 7, 2019, 2020), closed.DRAFTS, strict=True)
    for name, row in [
        *CLOSED.items(), *[(name, row[1:]) for name, row in SINCE.items() if draft >= row[0]],
        *[(name, row[1:]) for name, row in UNTIL.items() if draft <= row[0]],
    ]
]


@pytest.mark.parametrize(("uri", "name", "schema", "yes", "no"), ROWS, ids=[f"{row[0][-18:]} {row[1]}" for row in ROWS])
def test_objects_are_closed_in_all_drafts(tiny_vocabulary, uri, name, schema, yes, no):
    found = grammar({"$schema": uri, **schema}, profile="practical")
    assert [text for text in yes + no if accepts(tiny_vocabulary, found, text)] == yes
    assert [note.word for note in found.notes] == ["b"] * (name == "a key that is only required")


MORE = {"properties": {"x": {}, "y": {}}}
WANTING = {"properties": {"x": {}}, "required": ["y"]}
ONLY_REQUIRED = {  # keys that are noted: wherever the schemas that require and describe them meet
    "by a pattern": ({"properties": {"a": {"required": ["y"]}}, "patternProperties": {"^a": {"properties": {"x": {}}}}}, ["y"]),
    "by another part": ({"allOf": [{"properties": {"a": {"required": ["y"]}}}, {"properties": {"a": {"properties": {"x": {}}}}}]}, ["y"]),
    "in a member of a union": ({"anyOf": [WANTING, MORE]}, ["y"]),
    "described beside the union": ({**MORE, "anyOf": [WANTING, {"required": ["x"]}]}, []),
    "described by another part": ({"allOf": [WANTING, MORE]}, []),
    "described by a pattern": ({**WANTING, "patternProperties": {"y": {}}}, []),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "noted"), ONLY_REQUIRED.values(), ids=ONLY_REQUIRED)
def test_keys_that_are_only_required_are_noted(schema, noted):
    assert [note.word for note in grammar(schema, profile="practical").notes] == noted


def test_random_schemas_are_closed():
    """A slice of ``python -m constrained.benchmarks.closed``."""
    outcomes, wrong = closed.run(400, 7)
    assert wrong == []
    assert outcomes["taken"] > 300


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
