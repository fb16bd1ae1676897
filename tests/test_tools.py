"""Tool definitions of every known shape, and what is refused."""

from __future__ import annotations

import pytest

from constrained import SchemaError
from constrained.formats import Tool, read_tools
from constrained.formats.tools import parse_relaxed
from constrained.formats.types import from_python, standard_types

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
READ = {
    "envelope": ({"type": "function", "function": {"name": "f", "description": "d", "parameters": CITY}}, Tool("f", "d", CITY)),
    "bare function": ({"name": "f", "parameters": CITY}, Tool("f", "", CITY)),
    "input_schema": ({"name": "f", "input_schema": CITY}, Tool("f", "", CITY)),
    "already read": (Tool("f", "d", CITY), Tool("f", "d", CITY)),
    "no parameters": ({"name": "f"}, Tool("f", "", {"type": "object", "properties": {}})),
    "null parameters": ({"name": "f", "parameters": None}, Tool("f", "", {"type": "object", "properties": {}})),
    "empty parameters": ({"name": "f", "parameters": {}}, Tool("f", "", {"type": "object", "properties": {}})),
    "type left out": ({"name": "f", "parameters": {"properties": {}}}, Tool("f", "", {"properties": {}, "type": "object"})),
    "ChatGLM3's list": (
        {"name": "f", "params": [{"name": "a", "description": "x", "type": "int", "required": True}, {"name": "b", "type": "tuple[int, int]"}]},
        Tool("f", "", {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "x"},
                "b": {"type": "array", "prefixItems": [{"type": "integer"}] * 2, "minItems": 2, "maxItems": 2},
            },
            "required": ["a"],
        }),
    ),
    "Llama's param_type": (
        {"name": "f", "parameters": {"g": {"description": "x", "param_type": "str", "required": False}, "n": {"param_type": "int", "required": True}}},
        Tool("f", "", {
            "type": "object", "properties": {"g": {"type": "string", "description": "x"}, "n": {"type": "integer"}}, "required": ["n"],
        }),
    ),
    "Llama's list of properties": (
        {"name": "f", "parameters": {"type": "object", "properties": [{"n": {"type": "object"}}, {"g": {"type": "object", "description": "x"}}]}},
        Tool("f", "", {"type": "object", "properties": {"n": {}, "g": {"description": "x"}}}),
    ),
    "leaderboard types": (
        {"name": "f", "parameters": {"type": "dict", "properties": {
            "a": {"type": "float"}, "b": {"type": "tuple", "items": {"type": "long"}}, "c": {"type": "any"}, "d": {"type": ""},
            "e": {"type": "ArrayList", "items": {"type": "String"}, "enum": ["x"]},
        }}},
        Tool("f", "", {"type": "object", "properties": {
            "a": {"type": "number"}, "b": {"type": "array", "items": {"type": "integer"}}, "c": {}, "d": {},
            "e": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
        }}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("definition", "tool"), READ.values(), ids=READ)
def test_read(definition, tool):
    assert read_tools([definition]) == (tool,)
    assert read_tools(definition) == (tool,)


def test_a_dict_of_tools():
    assert [tool.name for tool in read_tools({"f": {"description": "d", "params": []}, "g": {"params": []}})] == ["f", "g"]


def test_standard_schemas_are_not_copied():
    assert read_tools([{"name": "f", "parameters": CITY}])[0].parameters["properties"] is CITY["properties"]
    assert standard_types(CITY, "") is CITY


RELAXED = {
    '[{"a": 1,},]': [{"a": 1}],
    "{'a': True, 'b': None, 'c': [False,]}": {"a": True, "b": None, "c": [False]},
    """{'a': 'it\\'s "b"'}""": {"a": 'it\'s "b"'},
    """{"a": "x, }", 'b': -1.5e3}""": {"a": "x, }", "b": -1500.0},
}


@pytest.mark.parametrize(("text", "value"), RELAXED.items())
def test_relaxed(text, value):
    assert parse_relaxed(text) == value


@pytest.mark.parametrize("text", ["{a: 1}", "[1 x]", "{'a': 1", "[__import__('os')]", "{'path': size='10K'}"])
def test_not_even_relaxed(text):
    with pytest.raises(SchemaError, match="cannot read the tool definitions"):
        parse_relaxed(text)


PYTHON = {
    "str": {"type": "string"}, "list": {"type": "array"}, "list[int]": {"type": "array", "items": {"type": "integer"}}, "Any": {},
    "dict[str, float]": {"type": "object", "additionalProperties": {"type": "number"}},
    "Optional[bool]": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "int | None": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "tuple[int, ...]": {"type": "array", "items": {"type": "integer"}}, "typing.List[str]": {"type": "array", "items": {"type": "string"}},
    "Literal['a', 2]": {"enum": ["a", 2]}, "Annotated[str, 'x', True]": {"type": "string"},
}  # fmt: skip


@pytest.mark.parametrize(("annotation", "schema"), PYTHON.items())
def test_python_types(annotation, schema):
    assert from_python(annotation, "") == schema


@pytest.mark.parametrize("annotation", ["bytes", "set[int]", "int(", "f()", "", 7])
def test_no_python_types(annotation):
    with pytest.raises(SchemaError, match="unknown type"):
        from_python(annotation, "tool 'f' parameter 'a'")
