"""The parameters of a tool definition → one JSON Schema of the object of arguments.

Besides JSON Schema itself there are ChatGLM3's list with Python type names, Llama 3.1's ``param_type`` per parameter
and its properties as a list of one-entry maps whose types were lost, Bedrock's ``{"json": …}``, and foreign type names
and ``nullable`` (`type_names`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constrained.errors import SchemaError, shown
from constrained.formats.tools.type_names import from_python, standard_types
from constrained.schema.normal.quick import is_plain
from constrained.schema.reading.keywords import named

Schema = dict[str, Any]

_KEYS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")
PARAMETERS = frozenset({*_KEYS, "params"})
_SCHEMA_KEYWORDS = {"$schema", "$id", *named(lambda keyword: keyword.about in ("", "object"))} - {"then", "else"}
_TELLING = {"properties", "patternProperties", "allOf", "anyOf", "oneOf", *named(lambda keyword: keyword.refers)}
_KNOWN = {"default", "example", *named(lambda keyword: True)}
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
    if type(schema) is dict and schema.get("type") == "object" and "properties" in schema and is_plain(schema):
        return dict(schema)  # PERF: nearly all are like this, and none of what follows changes or refuses it
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
        if not is_plain(schema):  # PERF: those that are plain have standard types, which is quicker to see
            schema = standard_types(schema, f"{where} #")
    except RecursionError as error:
        raise malformed(f"{where} #", "the schema nests more deeply than Python's stack allows") from error
    if not isinstance(schema.setdefault("type", "object"), str) or schema["type"] != "object":
        raise malformed(f"{where} #/type", f"arguments are an object, not {shown(schema['type'], 100)}")
    return schema


def _unread(schema: Schema) -> str | None:
    """Return a key that looks like a misspelled ``properties``, as it holds schemas by name."""
    unknown = [] if _TELLING & schema.keys() else [key for key in schema if key not in _KNOWN and key[:2] != "x-"]
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
    # PERF: the second test alone takes 1 µs, 500 tools make thousands
    if type(value) is dict or isinstance(value, Mapping):
        return value
    raise malformed(where, f"{type(value).__name__} where an object belongs")


def malformed(where: str, because: str) -> SchemaError:
    """Return the error of a definition that cannot be read."""
    return SchemaError(
        "cannot read the tool definition", where=where, because=because,
        instead='{"type": "function", "function": {"name": …, "description": …, "parameters": <JSON Schema>}}',
    )
