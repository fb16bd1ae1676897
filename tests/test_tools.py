"""Tool definitions of every known shape, and what is refused."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import typing
from functools import reduce

import pytest
from constrained.python_types import schema_of

from constrained import SchemaError
from constrained.formats import Tool, read_tools
from constrained.formats.tools import from_python, parse_relaxed, read_parameters, standard_types

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
    "types wherever a keyword has subschemas": (
        {"name": "f", "parameters": {"type": "dict", "dependencies": {"a": {"minProperties": 2, "type": "dict"}}, "properties": {
            "a": {"type": "array", "items": [{"type": "float"}], "additionalItems": {"type": "long"}, "unevaluatedItems": {"type": "String"}},
        }}},
        Tool("f", "", {"type": "object", "dependencies": {"a": {"minProperties": 2, "type": "object"}}, "properties": {
            "a": {"type": "array", "items": [{"type": "number"}], "additionalItems": {"type": "integer"}, "unevaluatedItems": {"type": "string"}},
        }}),
    ),
    "Responses": ({"type": "function", "name": "f", "description": "d", "parameters": CITY, "strict": True}, Tool("f", "d", CITY)),
    "Anthropic": ({"name": "f", "description": "d", "input_schema": CITY, "cache_control": {"type": "ephemeral"}}, Tool("f", "d", CITY)),
    "MCP": ({"name": "f", "title": "F", "inputSchema": CITY, "outputSchema": {}, "annotations": {}}, Tool("f", "", CITY)),
    "MCP's listing": ({"tools": [{"name": "f", "inputSchema": CITY}], "nextCursor": "x"}, Tool("f", "", CITY)),
    "Bedrock": ({"toolSpec": {"name": "f", "description": "d", "inputSchema": {"json": CITY}}}, Tool("f", "d", CITY)),
    "Bedrock's toolConfig": ({"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": CITY}}}], "toolChoice": {}}, Tool("f", "", CITY)),
    "Gemini": (
        {"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}}]},
        Tool("f", "", CITY),
    ),
    "Gemini's JSON Schema": ({"function_declarations": [{"name": "f", "parametersJsonSchema": CITY}]}, Tool("f", "", CITY)),
    "LangChain": ({"title": "f", "description": "d", **CITY}, Tool("f", "d", CITY)),
    "ChatGLM3's dict of parameters": (
        {"name": "f", "params": {"a": {"type": "int", "required": True}}},
        Tool("f", "", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
    ),
    "nullable": (
        {"name": "f", "parameters": {"type": "object", "properties": {
            "a": {"type": "string", "nullable": True}, "b": {"type": "string", "enum": ["x"], "nullable": True, "description": "d"},
            "c": {"type": "integer", "nullable": False}, "d": {"nullable": True},
        }}},
        Tool("f", "", {"type": "object", "properties": {
            "a": {"type": ["string", "null"]}, "b": {"description": "d", "anyOf": [{"type": "string", "enum": ["x"]}, {"type": "null"}]},
            "c": {"type": "integer"}, "d": {},
        }}),
    ),
    "null for an empty collection": (
        {"name": "f", "inputSchema": {"type": "object", "required": None, "properties": {"o": {"type": "object", "properties": None}}}},
        Tool("f", "", {"type": "object", "properties": {"o": {"type": "object", "properties": {}}}}),
    ),
    "MCP's tasks": ({"name": "f", "inputSchema": CITY, "execution": {"taskSupport": "optional"}}, Tool("f", "", CITY)),
    "Anthropic's type": ({"type": "custom", "name": "f", "input_schema": CITY}, Tool("f", "", CITY)),
    "a date in YAML": (
        "- {name: f, parameters: {type: object, properties: {d: {enum: [2020-01-01]}}}}",
        Tool("f", "", {"type": "object", "properties": {"d": {"enum": ["2020-01-01"]}}}),
    ),
    "YAML": ("- name: f\n  description: d\n  parameters:\n    type: object\n    properties: {city: {type: string}}\n    required: [city]\n", Tool("f", "d", CITY)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:'null' at")
@pytest.mark.parametrize(("definition", "tool"), READ.values(), ids=READ)
def test_read(definition, tool):
    if isinstance(definition, str):
        pytest.importorskip("yaml")
    else:
        assert read_tools([definition]) == (tool,)
    assert read_tools(definition) == (tool,)


def test_a_dict_of_tools():
    assert [tool.name for tool in read_tools({"f": {"description": "d", "params": []}, "g": {"params": []}})] == [
        "f",
        "g",
    ]


def test_as_many_envelopes_in_envelopes_as_are_said():
    wrapped = {"name": "f", "parameters": CITY}
    for _ in range(7):
        wrapped = [{"tools": wrapped if isinstance(wrapped, list) else [wrapped]}]
    assert [tool.name for tool in read_tools(wrapped)] == ["f"]
    with pytest.raises(SchemaError, match="lists in lists"):
        read_tools([{"tools": wrapped}])


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
    "tuple[()]": {"type": "array", "maxItems": 0}, "Union[int, None]": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
}  # fmt: skip


@pytest.mark.parametrize(("annotation", "schema"), PYTHON.items())
def test_python_types(annotation, schema):
    assert from_python(annotation, "") == schema


@pytest.mark.parametrize(
    "annotation",
    [
        "bytes",
        "set[int]",
        "int(",
        "f()",
        "",
        7,
        "dict[int]",
        "dict[int, str]",
        "Optional[()]",
        "(" * 5000,
        "Union[()]",
        "\0",
    ],
)
def test_no_python_types(annotation):
    with pytest.raises(SchemaError, match="unknown type"):
        from_python(annotation, "tool 'f' parameter 'a'")


UNREADABLE = {
    "an unknown key": ({"name": "f", "parameter_definitions": {"a": {"type": "str"}}}, "'parameter_definitions'"),
    "a class that nobody sees": ({"name": "f", "args_schema": None}, "'args_schema'"),
    "an unknown key of a parameter": ({"name": "f", "params": [{"name": "a", "type": "int", "choices": [1]}]}, "'choices'"),
    "a tool of the host": ({"type": "web_search_preview"}, "is not called by arguments"),
    "arguments twice": ({"name": "f", "parameters": CITY, "input_schema": CITY}, "both 'parameters' and 'input_schema'"),
    "a parameter twice": ({"name": "f", "params": [{"name": "a", "type": "int"}] * 2}, "second parameter"),
    "a lone surrogate": ({"name": "\ud800"}, "lone surrogate"),
    "nullable is a list": ({"name": "f", "parameters": {"type": "object", "nullable": ["a"]}}, "true or false"),
    "a tool of the host with a name": ({"type": "bash_20250124", "name": "bash"}, "type 'bash_20250124' is not called"),
    "a tool whose input is a text": ({"type": "custom", "name": "f", "description": "d"}, "type 'custom' is not called"),
    "arguments beside the envelope": ({"type": "function", "function": {"name": "f"}, "parameters": CITY}, "the key 'parameters'"),
    "an unknown key beside the envelope": ({"type": "function", "function": {"name": "f"}, "args_schema": CITY}, "the key 'args_schema'"),
    "arguments beside Bedrock's envelope": ({"toolSpec": {"name": "f"}, "inputSchema": {"json": CITY}}, "the key 'inputSchema'"),
    "two names": ({"g": {"name": "f", "params": []}}, "its definition names it 'f'"),
    "no name": ({"description": "d", "parameters": CITY, "type": "function"}, "name is missing"),
    "texts": (["f", "g"], "where an object belongs"),
    "a number": (7, "not a list"),
    "lists of tools in lists": (
        reduce(lambda deep, _: {"tools": [deep]}, range(12), {"name": "f"}), "lists in lists in lists"),
    "parameters that are no list": ({"name": "f", "params": 7}, "#/params.*not a list"),
    "a parameter without a name": ({"name": "f", "params": [{"type": "int"}]}, "#/params/0.*name is missing"),
    "parameters without a keyword": ({"name": "f", "parameters": {"city": {"type": "string"}}}, "no keyword that describes an object"),
    "properties misspelled": ({"name": "f", "parameters": {"type": "object", "propertes": {"a": {}}, "required": ["a"]}}, "the key 'propertes'"),
    "arguments that are a list": ({"name": "f", "parameters": {"type": "array"}}, "arguments are an object, not 'array'"),
    "a type that nobody knows": ({"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "strin"}}}}, "unknown type 'strin'"),
    "a class whose values are no objects": ([int], "the values of 'int' are no objects"),
    "lists in lists": ([[{"name": "f"}]], "list where an object belongs"),
    "an alias in YAML": ("a: &x {params: []}\nb: *x\n", "alias"),
    "not even YAML": ("a: b: c", "neither JSON nor YAML"),
    "deep": ({"name": "f", "parameters": {"type": "object", "properties": {"a": reduce(lambda deep, _: {"items": deep}, range(9000), {})}}}, "nests"),
}  # fmt: skip


@pytest.mark.parametrize(("definition", "because"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable(definition, because):
    if isinstance(definition, str):
        pytest.importorskip("yaml")
    with pytest.raises(SchemaError, match=f"(?s){because}") as caught:
        read_tools(definition)
    assert len(str(caught.value)) < 2000


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Node:
    """A tree."""

    value: int
    children: list[Node] = dataclasses.field(default_factory=list)


class Options(typing.TypedDict, total=False):
    size: typing.Required[typing.Annotated[int, "how large"]]
    colour: Colour | None


def weather(city: str, days: int = 1, unit: typing.Literal["c", "f"] = "c") -> dict[str, float]:
    """Look the weather up.

    More words.

    Args:
        city: the place,
            by its name
        days (int): how many
    """
    return {}


NODE = {
    "type": "object", "required": ["value"], "additionalProperties": False,
    "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
}  # fmt: skip
OPTIONS = {
    "type": "object", "required": ["size"], "additionalProperties": False,
    "properties": {"size": {"type": "integer", "description": "how large"}, "colour": {"anyOf": [{"enum": ["red"]}, {"type": "null"}]}},
}  # fmt: skip
HELD = {
    "a dataclass": (Node, Tool("Node", "A tree.", {**NODE, "$defs": {"Node": NODE}})),
    "a TypedDict": (Options, Tool("Options", "", {**OPTIONS, "$defs": {"Options": OPTIONS}})),
    "a callable": (
        weather,
        Tool("weather", "Look the weather up.", {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "the place, by its name"}, "days": {"type": "integer", "description": "how many"},
                "unit": {"enum": ["c", "f"]},
            },
            "required": ["city"],
            "additionalProperties": False,
        }),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("held", "tool"), HELD.values(), ids=HELD)
def test_what_people_hold(held, tool):
    assert read_tools([held]) == read_tools(held) == (tool,)


def test_pydantic_models():
    pydantic = pytest.importorskip("pydantic")

    class Search(pydantic.BaseModel):
        """Look something up."""

        query: str
        limit: typing.Annotated[int, pydantic.Field(ge=1, le=10)] = 3

    (tool,) = read_tools([Search])
    assert (tool.name, tool.description) == ("Search", "Look something up.")
    assert tool.parameters["properties"]["limit"]["maximum"] == 10
    assert tool.parameters["required"] == ["query"]


def test_callables_agree_with_transformers():
    chat_template_utils = pytest.importorskip("transformers.utils.chat_template_utils")

    def add(a: int, b: list[float], c: str | None = None):
        """Add things.

        Args:
            a: the first
            b: the others
            c: a remark
        """

    theirs = chat_template_utils.get_json_schema(add)["function"]
    (tool,) = read_tools([add])
    assert (tool.name, tool.description) == (theirs["name"], theirs["description"])
    assert tool.parameters["required"] == theirs["parameters"]["required"]
    for name, schema in theirs["parameters"]["properties"].items():
        assert tool.parameters["properties"][name]["description"] == schema["description"]


SCHEMAS = {
    "union": (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    "nested": (
        dict[str, list[bool]],
        {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "boolean"}}},
    ),
    "pair": (
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
    ),
    "set": (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
    "enum": (Colour, {"enum": ["red"]}),
    "literal": (typing.Literal["a", 1], {"enum": ["a", 1]}),
    "date": (datetime.date, {"type": "string", "format": "date"}),
    "any": (typing.Any, {}),
}


@pytest.mark.parametrize(("kind", "schema"), SCHEMAS.values(), ids=SCHEMAS)
def test_schemas_of_types(kind, schema):
    assert schema_of(kind) == schema


@pytest.mark.parametrize("kind", [type, typing.TypeVar("T"), dict[type, str], typing.Callable, type("Plain", (), {})])
def test_types_without_json_values(kind):
    with pytest.raises(SchemaError, match="cannot make a schema"):
        schema_of(kind)


def test_parameters_that_cannot_be_named():
    with pytest.raises(SchemaError, match="by keywords"):
        read_tools([lambda *numbers: None])


PLAIN = {"type": "object", "properties": {"a": {"type": "string", "description": "x"}, "b": {"enum": ["c"]}}, "required": ["a"]}


@pytest.mark.parametrize(
    "parameters",
    [
        PLAIN,
        {**PLAIN, "title": "T", "description": "d", "default": {"param_type": 1}, "additionalProperties": False},
        {"properties": {}, "type": "object"},
        {**PLAIN, "properties": {"a": {"type": "object", "properties": {"param_type": {"type": "integer", "minimum": 1}}}}},
        {**PLAIN, "type": "string", "required": []},
        {**PLAIN, "type": ["object"], "required": []},
        {"properties": PLAIN["properties"]},
        {"type": "object", "propertys": PLAIN["properties"]},
        {"type": "object", "properties": [{"a": {"type": "object"}}]},
        {**PLAIN, "properties": {"a": {"type": "dict"}}},
        {**PLAIN, "$ref": "#/$defs/a", "$defs": {"a": {}}},
    ],
)
def test_plain_parameters_are_read_as_all_others(parameters):
    found = []
    for given in (parameters, type("Other", (dict,), {})(parameters)):  # which is looked at more closely
        try:
            found.append(read_parameters({"parameters": given}, "tool 'f'"))
            assert found[-1] is not given and type(found[-1]) is dict
        except SchemaError as error:
            found.append(str(error))
    assert found[0] == found[1]
