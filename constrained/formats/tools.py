"""Tool definitions in every shape that serving stacks and model cards use → `Tool`s: named JSON Schemas.

Every serving stack and every model card has its own way to describe a tool.  Those met in the wild are read here and
nowhere else:

* OpenAI's envelope ``{"type": "function", "function": {…}}``, the flat one of its Responses interface, and the bare
  function;
* Anthropic's ``input_schema``, MCP's ``inputSchema`` (also a ``{"tools": […]}`` listing), Bedrock's ``toolSpec`` with
  its ``{"json": …}``, Gemini's ``functionDeclarations``, LangChain's schema with a title;
* ChatGLM3's ``params``, a list with Python type names, alone or in a dict from names to tools; Llama 3.1's
  ``param_type`` per parameter, and its properties as a list of one-entry maps whose types were lost;
* three dialects of type names: Python annotations as text (``int``, ``tuple[int, int]``); those of the Berkeley
  function calling leaderboard, which come from Python, Java and JavaScript; OpenAPI 3.0 as Gemini writes it
  (``STRING``, ``nullable``);
* text with any of these: JSON, near-JSON of documents (trailing commas, single quotes, True, None), YAML, which needs
  PyYAML and is read without aliases, as these could make a short text mean an enormous one;
* pydantic models, dataclasses, TypedDicts and callables with hints (`python_types`).

A definition with a key that nobody knows raises and names it: arguments may be described there, and to read it as "any
arguments", or as "none", would change the language without a word.  ``"properties": null`` and ``"required": null``,
as servers in Go send empty ones, mean that there are none, and are warned of once.  What a schema means is not judged
here.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional, Union

from constrained.errors import LimitExceeded, SchemaError, shown
from constrained.python_types import is_python_type, schema_of, schema_of_callable
from constrained.schema.normal.quick import surely_compilable
from constrained.schema.reading.keywords import Applies, Holds, applying, named
from constrained.schema.reading.notes import Note, report
from constrained.work import metered, spend

# -- definitions -------------------------------------------------------------------------------------------------------

# Keys of a definition that say nothing about the arguments of a call.
_REMARKS = frozenset(
    "name description type strict title annotations outputSchema output_schema response responseJsonSchema "
    "response_json_schema "
    "return returns behavior _meta icons cache_control defer_loading input_examples examples allowed_callers "
    "execution".split()
)
PARAMETERS = frozenset(
    {"parameters", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema", "params"}
)
_KNOWN = _REMARKS | PARAMETERS
_CALLED = frozenset({"function", "tool", "object"})  # types of definitions that may be without parameters
_LISTINGS = ("tools", "functionDeclarations", "function_declarations")
_ENVELOPES = {envelope: _REMARKS | {envelope} for envelope in ("function", "toolSpec")}  # and what may stand beside one
_MOST_DEEP = 8  # envelopes in envelopes


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call; `parameters` is a JSON Schema whose type is object."""

    name: str
    description: str
    parameters: Schema
    plain: bool = field(default=False, repr=False, compare=False)  # `surely_compilable` says so of its schema

    def enveloped(self) -> Schema:
        """Return the definition as OpenAI's chat completions have it."""
        described = {"name": self.name, "description": self.description or "", "parameters": self.parameters}
        return {"type": "function", "function": described}


def read_tools(definitions: object) -> tuple[Tool, ...]:
    """Return the tools that definitions in any known shape describe, in their order.

    Raises: SchemaError: a definition has no known shape, or two tools have one name.

    >>> read_tools([{"name": "ping"}])
    (Tool(name='ping', description='', parameters={'type': 'object', 'properties': {}}),)
    >>> read_tools("{'add': {'params': [{'name': 'n', 'type': 'int', 'required': True}],}}")[0].parameters
    {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}
    """
    with metered():
        if isinstance(definitions, str):
            definitions = parse_relaxed(definitions)
        tools = tuple(_read_tool(definition, index) for index, definition in enumerate(_listed(definitions, 0)))
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise SchemaError(
                f"two tools named {tool.name[:100]!r}", because="a call would not say which one it means",
                instead="rename one",
            )
        seen.add(tool.name)
    return tools


def enveloped(definitions: object) -> list[Any]:
    """Return definitions as OpenAI's chat completions have them and chat templates take them; what has that shape stays
    as it is.  Raises: SchemaError: see `read_tools`.
    """
    if isinstance(definitions, (list, tuple)) and all(isinstance(d, Mapping) and "function" in d for d in definitions):
        return [*definitions]
    return [tool.enveloped() for tool in read_tools(definitions)]


def _listed(definitions: object, depth: int) -> list[object]:
    """Return single definitions, lists of them in whatever wraps them taken apart."""
    if isinstance(definitions, str) or depth > _MOST_DEEP:
        what = "lists in lists in lists" if depth else f"{shown(definitions)} is a text"
        raise malformed("tools", what)
    if isinstance(definitions, Mapping):
        for key in _LISTINGS:
            if isinstance(definitions.get(key), (list, tuple)):
                return [tool for entry in definitions[key] for tool in _listed(entry, depth + 1)]
        if _is_definition(definitions):
            return [definitions]
        return [_named(name, mapping(value, f"tool {shown(name, 100)}")) for name, value in definitions.items()]
    if not isinstance(definitions, (list, tuple)):
        if isinstance(definitions, Tool) or is_python_type(definitions) or callable(definitions):
            return [definitions]
        if not isinstance(definitions, Iterable):
            raise malformed("tools", f"{type(definitions).__name__} is not a list of tool definitions")
    singles: list[object] = []
    for entry in definitions:  # one definition, unless it wraps a list of its own
        listed = [entry.get(key) for key in _LISTINGS if key in entry] if isinstance(entry, Mapping) else []
        wraps = any(isinstance(tools, (list, tuple)) for tools in listed) and not _is_definition(entry)
        singles += _listed(entry, depth + 1) if wraps else [entry]
    return singles


def _named(name: object, definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the definition that stands under a name."""
    if definition.get("name", name) != name:
        raise malformed(f"tool {shown(name, 100)}", f"its definition names it {shown(definition['name'], 100)}")
    return {"name": name, **definition}


def _is_definition(value: Mapping[Any, Any]) -> bool:
    return (
        "function" in value
        or "name" in value
        or "toolSpec" in value
        or ("title" in value and "properties" in value)
        or ("type" in value and not isinstance(value["type"], Mapping))
    )


def _read_tool(definition: object, index: int) -> Tool:
    try:
        spend(10)
    except LimitExceeded as error:
        raise LimitExceeded(
            error.what, where=" ".join(filter(None, (error.where, f"tool {index}"))), because=error.because,
            instead=error.instead,
        ) from None
    if isinstance(definition, Tool):
        return definition
    if isinstance(definition, type):
        return _from_class(definition, index)
    if callable(definition):
        return Tool(*schema_of_callable(definition))
    where = f"tool {index}"
    function = definition if type(definition) is dict else mapping(definition, where)
    for envelope, beside in _ENVELOPES.items():
        if envelope in function:
            if not function.keys() <= beside:
                raise _unknown_key(function, beside, where)
            function = mapping(function[envelope], where)
    if "name" not in function and isinstance(function.get("title"), str) and "properties" in function:
        return _from_titled(function)
    name, kind = function.get("name"), function.get("type")
    if isinstance(kind, str) and kind not in _CALLED and not PARAMETERS & function.keys():
        raise malformed(where, f"a tool of the type {shown(kind, 100)} is not called by arguments")
    if not isinstance(name, str) or not name:
        raise malformed(where, "its name is missing" if name is None else f"{shown(name, 100)} is not a name")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise malformed(where, f"its name {name[:100]!r} holds a lone surrogate, which no text can spell") from error
    where = f"tool {name[:100]!r}"
    if not function.keys() <= _KNOWN:
        raise _unknown_key(function, _KNOWN, where)
    return _described(name, function, function, where)


def _described(name: str, described: Mapping[str, Any], function: Mapping[str, Any], where: str) -> Tool:
    """Return a tool with the description of a definition, and the parameters of the same or another one."""
    description, given = described.get("description"), [key for key in function if key in PARAMETERS]
    schema = function[given[0]] if len(given) == 1 and given[0] != "params" else None
    plain = type(schema) is dict and schema.get("type") == "object" and "properties" in schema
    plain = plain and surely_compilable(schema)  # nearly all are, and nothing of them is changed or refused
    parameters = {**schema} if plain and schema else read_parameters(function, where)
    return Tool(name, description if isinstance(description, str) else "", parameters, plain)


def _unknown_key(definition: Mapping[str, Any], known: frozenset[str], where: str) -> SchemaError:
    unknown = min(map(str, definition.keys() - known))
    return malformed(where, f"nothing is known of the key {unknown[:100]!r}, which may describe arguments")


def _from_class(kind: type, index: int) -> Tool:
    """Return the tool whose arguments are the fields of a class."""
    schema = dict(schema_of(kind, f"tool {index}"))
    reference = schema.pop("$ref", None)
    if isinstance(reference, str):
        schema = {**schema["$defs"][reference.removeprefix("#/$defs/")], "$defs": schema["$defs"]}
    if schema.get("type") != "object":
        raise malformed(f"tool {index}", f"the values of {kind.__name__!r} are no objects")
    # what dataclass writes says nothing
    written = "__doc__" in vars(kind) and not str(kind.__doc__).startswith(f"{kind.__name__}(")
    return Tool(kind.__name__, (kind.__doc__ or "").strip() if written else "", schema)


def _from_titled(schema: Mapping[str, Any]) -> Tool:
    """LangChain: the schema of a class, whose title is the tool's name."""
    name = schema["title"]
    parameters = {key: value for key, value in schema.items() if key not in ("title", "description")}
    return _described(name, schema, {"parameters": parameters}, f"tool {name[:100]!r}")


# -- parameters --------------------------------------------------------------------------------------------------------

Schema = dict[str, Any]

_SCHEMA_KEYWORDS = {"$schema", "$id", *named(lambda keyword: keyword.about in ("", "object"))} - {"then", "else"}
_TELLING = {"properties", "patternProperties", "allOf", "anyOf", "oneOf", *named(lambda keyword: keyword.refers)}
_SCHEMA_KEYS = {"default", "example", *named(lambda keyword: True)}
_PARAMETER_KEYS = frozenset(
    {"name", "description", "type", "param_type", "required", "default", "example", "examples", "title"}
)


def read_parameters(function: Mapping[str, Any], where: str) -> Schema:
    """Return the schema of the arguments of a tool, whose definition has one of the keys `PARAMETERS` or none.

    Raises: SchemaError: the parameters have no known shape, or are described twice.
    """
    given = [key for key in function if key in PARAMETERS and function[key] is not None]
    if len(given) > 1:
        raise malformed(where, f"both {given[0]!r} and {given[1]!r} describe its arguments")
    if given == ["params"]:
        return _from_parameter_list(function["params"], where)
    schema = function[given[0]] if given else None
    if schema is None or isinstance(schema, Mapping) and not schema:
        return {"type": "object", "properties": {}}
    schema = dict(mapping(schema, f"{where} #"))
    if schema.keys() == {"json"}:
        schema = dict(mapping(schema["json"], f"{where} #/json"))
    if schema and all(isinstance(value, Mapping) and "param_type" in value for value in schema.values()):
        return _from_parameter_types(schema, where)
    if schema and not _SCHEMA_KEYWORDS & schema.keys():
        raise malformed(
            f"{where} #",
            f"{', '.join(shown(key) for key in list(schema)[:3])}: no keyword that describes an object",
        )
    if lost := _unread(schema):
        raise malformed(f"{where} #", f"nothing is known of the key {shown(lost)}, which may describe arguments")
    if isinstance(schema.get("properties"), list):
        schema["properties"] = _from_singletons(schema["properties"], where)
    try:
        schema = standard_types(schema, f"{where} #")
    except RecursionError as error:
        raise malformed(f"{where} #", "the schema nests more deeply than Python's stack allows") from error
    if not isinstance(schema.setdefault("type", "object"), str) or schema["type"] != "object":
        raise malformed(f"{where} #/type", f"arguments are an object, not {shown(schema['type'], 100)}")
    return schema


def _unread(schema: Schema) -> str | None:
    """Return a key that looks like a misspelled ``properties``, as it holds schemas by name."""
    unknown = [] if _TELLING & schema.keys() else [key for key in schema if key not in _SCHEMA_KEYS and key[:2] != "x-"]
    held = {key: schema[key] for key in unknown if isinstance(schema[key], Mapping) and schema[key]}
    return next((key for key in held if all(isinstance(value, Mapping) for value in held[key].values())), None)


def _from_parameter_list(parameters: object, where: str) -> Schema:
    """ChatGLM3: ``[{"name", "description", "type": Python type, "required"}]``, or a dict from names to the rest."""
    if isinstance(parameters, Mapping):
        parameters = [
            {"name": name, **mapping(value, f"{where} #/params/{name!s:.100}")} for name, value in parameters.items()
        ]
    if not isinstance(parameters, (list, tuple)):
        raise malformed(f"{where} #/params", "it is not a list")
    named = {}
    for index, value in enumerate(parameters):
        parameter = mapping(value, f"{where} #/params/{index}")
        if not isinstance(parameter.get("name"), str):
            raise malformed(f"{where} #/params/{index}", "its name is missing")
        if parameter["name"] in named:
            raise malformed(f"{where} #/params/{index}", f"a second parameter is named {parameter['name'][:100]!r}")
        named[parameter["name"]] = {**parameter, "param_type": parameter.get("type")}
    return _from_parameter_types(named, where)


def _from_parameter_types(parameters: Mapping[str, Mapping[str, Any]], where: str) -> Schema:
    """Llama 3.1: ``{name: {"param_type": Python type, "description", "required": bool}}``."""
    properties: dict[str, Schema] = {}
    for name, parameter in parameters.items():
        place = f"{where} parameter {name[:100]!r}"
        if unknown := parameter.keys() - _PARAMETER_KEYS:
            raise malformed(place, f"nothing is known of the key {min(map(str, unknown))[:100]!r}")
        schema = from_python(parameter["param_type"], place)
        if isinstance(parameter.get("description"), str):
            schema["description"] = parameter["description"]
        properties[name] = schema
    required = [name for name, parameter in parameters.items() if parameter.get("required", False)]
    return {"type": "object", "properties": properties, "required": required}


def _from_singletons(entries: list[object], where: str) -> Schema:
    """Llama 3.1's JSON example: properties in a list, every type overwritten by "object"."""
    properties: Schema = {}
    for index, entry in enumerate(entries):
        for name, value in mapping(entry, f"{where} #/properties/{index}").items():
            schema = dict(mapping(value, f"{where} #/properties/{index}/{name!s:.100}"))
            if schema.get("type") == "object" and "properties" not in schema:
                del schema["type"]
            properties[name] = schema
    return properties


def mapping(value: object, where: str) -> Mapping[str, Any]:
    """Return a value that is a mapping; raise SchemaError where it is something else."""
    # The second test alone takes 1 µs, 500 tools make thousands
    if type(value) is dict or isinstance(value, Mapping):
        return value
    raise malformed(where, f"{type(value).__name__} where an object belongs")


def malformed(where: str, because: str) -> SchemaError:
    """Return the error of a definition that cannot be read."""
    return SchemaError(
        "cannot read the tool definition", where=where, because=because,
        instead='{"type": "function", "function": {"name": …, "description": …, "parameters": <JSON Schema>}}',
    )


# -- type names --------------------------------------------------------------------------------------------------------

_STANDARD = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_FOREIGN: dict[str, str | None] = {  # None: any value
    "dict": "object", "HashMap": "object", "float": "number", "double": "number", "long": "integer", "String": "string",
    "char": "string",
    "Boolean": "boolean", "Array": "array", "ArrayList": "array", "tuple": "array", "any": None, "": None,
    "int": "integer", "str": "string", "bool": "boolean", "list": "array",
    "STRING": "string", "NUMBER": "number", "INTEGER": "integer", "BOOLEAN": "boolean", "ARRAY": "array",
    "OBJECT": "object",
    "NULL": "null", "TYPE_UNSPECIFIED": None,
}  # fmt: skip
_PYTHON: dict[str, Any] = {
    "int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple, "dict": dict, "None": None,
    "Any": Any, "any": Any, "List": list, "Tuple": tuple, "Dict": dict, "object": Any, "string": str, "integer": int,
    "number": float, "boolean": bool, "array": list, "Literal": Literal, "Annotated": Annotated, "Optional": Optional,
    "Union": Union,
}  # fmt: skip
def from_python(annotation: object, where: str) -> Schema:
    """Return the schema of a Python annotation given as text; None: any value.

    >>> from_python("tuple[int, str]", "")
    {'type': 'array', 'prefixItems': [{'type': 'integer'}, {'type': 'string'}], 'minItems': 2, 'maxItems': 2}
    >>> from_python("Literal['a', 'b'] | None", "")
    {'anyOf': [{'enum': ['a', 'b']}, {'type': 'null'}]}
    """
    if annotation is None:
        return {}
    if isinstance(annotation, str):
        try:
            return schema_of(_type(ast.parse(annotation.strip(), mode="eval").body), where)
        except (SyntaxError, ValueError, KeyError, IndexError, TypeError, RecursionError, MemoryError, SchemaError):
            pass  # ast.parse raises the last two for texts that nest too deeply
    raise SchemaError(
        f"unknown type {shown(annotation, 200)}", where=where, because="it is no Python annotation of JSON values",
        instead="int, float, str, bool, list[…], dict, tuple[…], Optional[…], Literal[…], Any",
    )


def _type(node: ast.expr) -> Any:
    """Return the type that an annotation spells.  Raises: KeyError, TypeError: it is none of JSON's values."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _type(node.left) | _type(node.right)
    if isinstance(node, ast.Subscript):
        origin, parts = _type(node.value), node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if origin is Literal:
            return Literal[tuple(ast.literal_eval(part) for part in parts)]
        if origin is Annotated:
            return _type(parts[0])
        kinds = [... if isinstance(part, ast.Constant) and part.value is ... else _type(part) for part in parts]
        if origin is dict and kinds[0] is not str:
            raise KeyError("the keys of JSON objects are texts")
        return origin[kinds[0] if len(kinds) == 1 else tuple(kinds)]
    if isinstance(node, ast.Attribute):
        return _PYTHON[node.attr]
    return _PYTHON[str(node.value) if isinstance(node, ast.Constant) else node.id if isinstance(node, ast.Name) else ""]


_SINGLE = frozenset(applying(*Applies, holds=Holds.SCHEMA))
_LISTS = frozenset(applying(*Applies, holds=Holds.LIST))
_MAPS = frozenset(applying(*Applies, holds=Holds.MAP))
_NESTED = _SINGLE | _LISTS | _MAPS


def standard_types(schema: Schema, where: str) -> Schema:
    """Return a schema whose foreign type names are JSON Schema's; the same object where there was nothing to do.

    With a foreign name goes the rest of that dialect: an enum on an array is meant for its items.  Null where the names
    of properties belong means that there are none; that is warned of.  Schemas that already use standard names keep
    their meaning to the letter.

    >>> standard_types({"type": "dict", "properties": {"n": {"type": "float"}}}, "")
    {'type': 'object', 'properties': {'n': {'type': 'number'}}}
    """
    changed: Schema = {}
    spend(2)
    kind = schema.get("type")
    if isinstance(kind, str) and kind not in _STANDARD:
        schema = _translated(schema, kind, where)
    if "nullable" in schema:
        schema = _with_null(schema, where)
    for key in _COLLECTIONS:
        if key in schema and schema[key] is None:
            schema = _without_null(schema, key, where)
    for key, value in schema.items():
        if key not in _NESTED:
            continue
        if key in _MAPS and isinstance(value, dict):
            new: object = _each(value, f"{where}/{key}")
        elif key in _LISTS and isinstance(value, list):
            new = [
                standard_types(part, f"{where}/{key}/{at}") if isinstance(part, dict) else part
                for at, part in enumerate(value)
            ]
        elif isinstance(value, dict):
            new = standard_types(value, f"{where}/{key}")
        else:
            continue
        if new is not value and new != value:
            changed[key] = new
    return {**schema, **changed} if changed else schema


def _each(schemas: Mapping[Any, Any], where: str) -> Mapping[Any, Any]:
    new = {
        key: standard_types(value, f"{where}/{key}") if isinstance(value, dict) else value
        for key, value in schemas.items()
    }
    return new if any(new[key] is not schemas[key] for key in new) else schemas


def _with_null(schema: Schema, where: str) -> Schema:
    """Return the schema that OpenAPI's ``nullable`` stands for: with true, null is a value too."""
    nullable = schema["nullable"]
    if not isinstance(nullable, bool):
        raise SchemaError(
            f"'nullable' is {shown(nullable, 100)}", where=f"{where}/nullable", because="it is true or false",
            instead="true",
        )
    plain = {key: value for key, value in schema.items() if key != "nullable"}
    if not nullable or not plain.keys() - _NOTED:
        return plain
    if isinstance(plain.get("type"), str) and not plain.keys() & _WHOLE:
        return {**plain, "type": [plain["type"], "null"]}
    notes = {key: plain[key] for key in _NOTED if key in plain}
    return {**notes, "anyOf": [{key: value for key, value in plain.items() if key not in _NOTED}, {"type": "null"}]}


def _without_null(schema: Schema, key: str, where: str) -> Schema:
    """Return a schema in which null stands for an empty collection, as servers in Go write one; noted, not silent."""
    report([Note(f"{where}/{key}", "null", f"read as an empty {key!r}, which servers write so")])
    others = {name: value for name, value in schema.items() if name != key}
    return {**others, "properties": {}} if key == "properties" else others


_COLLECTIONS = ("properties", "required")
_NOTED = (
    "title", "description", "default", "examples", "deprecated", "$comment", "$schema", "$id", "$defs", "definitions",
)
_WHOLE = named(lambda keyword: keyword.demanding and not keyword.about)  # apply to null too


def _translated(schema: Schema, kind: str, where: str) -> Schema:
    if kind not in _FOREIGN:
        raise SchemaError(
            f"unknown type {shown(kind, 200)}", where=f"{where}/type",
            because="neither JSON Schema nor a known tool dialect has it",
            instead="one of: " + ", ".join(sorted(_STANDARD)),
        )
    standard, members, items = _FOREIGN[kind], schema.get("enum"), schema.get("items")
    translated = {
        key: standard if key == "type" else value
        for key, value in schema.items()
        if key != "type" or standard is not None
    }
    if standard == "array" and isinstance(members, list) and not any(isinstance(member, list) for member in members):
        del translated["enum"]
        translated["items"] = {**(items if isinstance(items, dict) else {}), "enum": members}
    return translated


# -- texts -------------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""\s+|(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[A-Za-z]+)|(?P<number>-?\d[\d.eE+-]*)"""
    r"""|(?P<sign>[\[\]{}:,])""", re.S
)  # fmt: skip
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}


def parse_relaxed(text: str) -> object:
    """Return the value of JSON text, of what documents print for JSON, or of YAML.

    Raises: SchemaError: it is none of these; the message has the place where it stops being JSON.

    >>> parse_relaxed("{'required': ['symbol'],}")
    {'required': ['symbol']}
    """
    spend(len(text) // 50)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if not text.lstrip().startswith(("[", "{", '"')):
        return _parse_yaml(text)
    pieces = _json_pieces(text)
    try:
        return json.loads("".join(pieces))
    except (ValueError, RecursionError) as error:
        reason = (
            error.msg
            if isinstance(error, json.JSONDecodeError)
            else "it is nested too deeply or holds too long a number"
        )
        because = f"not JSON even when commas and quotes are forgiven: {reason}"
        raise SchemaError("cannot read the tool definitions", because=because) from error


def _json_pieces(text: str) -> list[str]:
    """Return the pieces of the JSON text that a relaxed one stands for."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or (match["word"] and match["word"] not in _WORDS):
            because = f"{text[at : at + 20]!r} is not JSON"
            raise SchemaError("cannot read the tool definitions", where=f"character {at}", because=because)
        at = match.end()
        if match["sign"] in ("]", "}") and pieces and pieces[-1] == ",":
            pieces.pop()
        if match["string"]:
            pieces.append(_double_quoted(match["string"]))
        elif match.lastgroup:
            pieces.append(_WORDS.get(match[0], match[0]))
    return pieces


def _double_quoted(literal: str) -> str:
    body = literal[1:-1]
    if literal[0] == "'":
        body = body.replace("\\'", "'")
        body = re.sub(r'\\.|"', lambda found: '\\"' if found[0] == '"' else found[0], body, flags=re.S)
    return '"' + body.replace("\n", "\\n") + '"'


def _parse_yaml(text: str) -> object:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise SchemaError(
            "cannot read the tool definitions", where="character 0",
            because=f"{text[:20]!r} is not JSON, and YAML needs PyYAML", instead="JSON, or pip install pyyaml",
        ) from error
    try:
        return _load_without_aliases(yaml, text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} column {mark.column + 1}" if mark is not None else None
        because = f"neither JSON nor YAML: {str(getattr(error, 'problem', None) or error)[:200]}"
        raise SchemaError(
            "cannot read the tool definitions", where=where, because=because, instead="JSON or YAML"
        ) from error


def _load_without_aliases(yaml: Any, text: str) -> object:
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        spend(20)
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"the alias *{event.anchor} is not allowed")
    loader: Any = type("Loader", (yaml.SafeLoader,), {})
    loader.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)  # JSON has no dates
    return yaml.load(text, Loader=loader)
