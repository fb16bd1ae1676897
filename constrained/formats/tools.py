"""Tool definitions → named JSON Schemas.

Every serving stack and every model card has its own way to describe a tool.  Those met in the wild are read here and nowhere else:

* the OpenAI envelope ``{"type": "function", "function": {…}}`` and the bare function in it (``input_schema`` counts as ``parameters``);
* ChatGLM3's ``params`` list with Python type names, alone or in a dict from names to tools;
* Llama 3.1's ``param_type`` per parameter, and its properties as a list of one-entry maps, whose types were lost;
* the type names of the Berkeley function calling leaderboard: ``dict``, ``float``, ``tuple``, ``any``, …;
* text with any of these, in JSON or in what documents print for it: trailing commas, single quotes, Python literals.

A definition that says nothing recognisable raises; to read it as "any arguments" would widen the language without a word.
What a schema means is not judged here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SchemaError
from .types import from_python, standard_types

Schema = dict[str, Any]

_PARAMETERS = ("parameters", "input_schema", "inputSchema")
_SCHEMA_KEYWORDS = frozenset(
    "type properties required additionalProperties patternProperties propertyNames minProperties maxProperties dependentRequired "
    "dependentSchemas dependencies unevaluatedProperties $ref $dynamicRef $defs definitions $schema $id anyOf oneOf allOf not if "
    "enum const".split()
)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call; `parameters` is a JSON Schema whose type is object."""

    name: str
    description: str
    parameters: Schema


def read_tools(definitions: object) -> tuple[Tool, ...]:
    """Return the tools that definitions in any known shape describe, in their order.

    >>> read_tools([{"name": "ping"}])
    (Tool(name='ping', description='', parameters={'type': 'object', 'properties': {}}),)
    >>> read_tools("{'add': {'params': [{'name': 'n', 'type': 'int', 'required': True}],}}")[0].parameters
    {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}
    """
    if isinstance(definitions, str):
        definitions = parse_relaxed(definitions)
    tools = tuple(_read_tool(definition, index) for index, definition in enumerate(_listed(definitions)))
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise SchemaError(f"two tools named {tool.name!r}", because="a call would not say which one it means", instead="rename one")
        seen.add(tool.name)
    return tools


def _listed(definitions: object) -> Iterable[object]:
    if isinstance(definitions, (Tool, str)):
        return (definitions,)
    if isinstance(definitions, Mapping):
        if "function" in definitions or "name" in definitions:
            return (definitions,)
        return [{"name": name, **_mapping(value, f"tool {name!r}")} for name, value in definitions.items()]
    if isinstance(definitions, Iterable):
        return definitions
    raise _malformed("tools", f"{type(definitions).__name__} is not a list of tool definitions")


def _read_tool(definition: object, index: int) -> Tool:
    if isinstance(definition, Tool):
        return definition
    where = f"tool {index}"
    function = _mapping(definition, where)
    if "function" in function:
        function = _mapping(function["function"], where)
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise _malformed(where, "its name is missing" if name is None else f"{name!r} is not a name")
    description = function.get("description")
    return Tool(name, description if isinstance(description, str) else "", _parameters(function, f"tool {name!r}"))


def _parameters(function: Mapping[str, Any], where: str) -> Schema:
    if "params" in function:
        return _from_parameter_list(function["params"], where)
    schema = next((function[key] for key in _PARAMETERS if function.get(key) is not None), None)
    if schema is None or schema == {}:
        return {"type": "object", "properties": {}}
    schema = dict(_mapping(schema, f"{where} #"))
    if all(isinstance(value, Mapping) and "param_type" in value for value in schema.values()):
        return _from_parameter_types(schema, where)
    if not _SCHEMA_KEYWORDS & schema.keys():
        raise _malformed(f"{where} #", f"{', '.join(map(repr, list(schema)[:3]))}: no keyword that describes an object")
    if isinstance(schema.get("properties"), list):
        schema["properties"] = _from_singletons(schema["properties"], where)
    schema = standard_types(schema, f"{where} #")
    if schema.setdefault("type", "object") != "object":
        raise _malformed(f"{where} #/type", f"arguments are an object, not {schema['type']!r}")
    return schema


def _from_parameter_list(parameters: object, where: str) -> Schema:
    """ChatGLM3: ``[{"name", "description", "type": Python type, "required"}]``."""
    if not isinstance(parameters, (list, tuple)):
        raise _malformed(f"{where} #/params", "it is not a list")
    named = {}
    for index, value in enumerate(parameters):
        parameter = _mapping(value, f"{where} #/params/{index}")
        if not isinstance(parameter.get("name"), str):
            raise _malformed(f"{where} #/params/{index}", "its name is missing")
        named[parameter["name"]] = {**parameter, "param_type": parameter.get("type")}
    return _from_parameter_types(named, where)


def _from_parameter_types(parameters: Mapping[str, Mapping[str, Any]], where: str) -> Schema:
    """Llama 3.1: ``{name: {"param_type": Python type, "description", "required": bool}}``."""
    properties: dict[str, Schema] = {}
    for name, parameter in parameters.items():
        schema = from_python(parameter["param_type"], f"{where} parameter {name!r}")
        if isinstance(parameter.get("description"), str):
            schema["description"] = parameter["description"]
        properties[name] = schema
    required = [name for name, parameter in parameters.items() if parameter.get("required", False)]
    return {"type": "object", "properties": properties, "required": required}


def _from_singletons(entries: list[object], where: str) -> Schema:
    """Llama 3.1's JSON example: properties in a list, every type overwritten by "object"."""
    properties: Schema = {}
    for index, entry in enumerate(entries):
        for name, value in _mapping(entry, f"{where} #/properties/{index}").items():
            schema = dict(_mapping(value, f"{where} #/properties/{index}/{name}"))
            if schema.get("type") == "object" and "properties" not in schema:
                del schema["type"]
            properties[name] = schema
    return properties


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if type(value) is dict or isinstance(value, Mapping):  # PERF: the second test alone takes 1 µs, 500 tools make thousands
        return value
    raise _malformed(where, f"{type(value).__name__} where an object belongs")


def _malformed(where: str, because: str) -> SchemaError:
    return SchemaError(
        "cannot read the tool definition", where=where, because=because,
        instead='{"type": "function", "function": {"name": …, "description": …, "parameters": <JSON Schema>}}',
    )


_TOKEN = re.compile(
    r"""\s+|(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[A-Za-z]+)|(?P<number>-?\d[\d.eE+-]*)|(?P<sign>[\[\]{}:,])""", re.S
)
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}


def parse_relaxed(text: str) -> object:
    """Return the value of JSON text, or of what documents print for JSON: trailing commas, single quotes, Python's True and None.

    >>> parse_relaxed("{'required': ['symbol'],}")
    {'required': ['symbol']}
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    pieces: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or (match["word"] and match["word"] not in _WORDS):
            raise SchemaError("cannot read the tool definitions", where=f"character {at}", because=f"{text[at : at + 20]!r} is not JSON")
        at = match.end()
        if match["sign"] in ("]", "}") and pieces and pieces[-1] == ",":
            pieces.pop()
        if match["string"]:
            pieces.append(_double_quoted(match["string"]))
        elif match.lastgroup:
            pieces.append(_WORDS.get(match[0], match[0]))
    try:
        return json.loads("".join(pieces))
    except json.JSONDecodeError as error:
        because = f"not JSON even when commas and quotes are forgiven: {error.msg}"
        raise SchemaError("cannot read the tool definitions", because=because) from error


def _double_quoted(literal: str) -> str:
    body = literal[1:-1]
    if literal[0] == "'":
        body = body.replace("\\'", "'")
        body = re.sub(r'\\.|"', lambda found: '\\"' if found[0] == '"' else found[0], body, flags=re.S)
    return '"' + body.replace("\n", "\\n") + '"'
