"""Tool definitions → `Tool`s: recognise the shape, find name, description and parameters.

Every serving stack and every model card has its own way to describe a tool.  Those met in the wild are read here and
nowhere else:

* OpenAI's envelope ``{"type": "function", "function": {…}}``, the flat one of its Responses interface, and the bare
  function;
* Anthropic's ``input_schema``, MCP's ``inputSchema`` (also a ``{"tools": […]}`` listing), Bedrock's ``toolSpec``,
  Gemini's ``functionDeclarations``, LangChain's schema with a title;
* ChatGLM3's ``params``, alone or in a dict from names to tools; Llama 3.1's ``param_type``; the leaderboard's type
  names (`parameters`);
* text with any of these (`relaxed`); pydantic models, dataclasses, TypedDicts and callables with hints
  (`schema.python_types`).

A definition with a key that nobody knows raises and names it: arguments may be described there, and to read it as "any
arguments", or as "none", would change the language without a word.  ``"properties": null`` and ``"required": null``,
as servers in Go send empty ones, mean that there are none, and are warned of once.  What a schema means is not judged
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from constrained.errors import LimitExceeded, SchemaError, shown
from constrained.formats.tools.parameters import PARAMETERS, Schema, malformed, mapping, read_parameters
from constrained.formats.tools.relaxed import parse_relaxed
from constrained.schema.python_types import is_python_type, schema_of, schema_of_callable
from constrained.work import metered, spend

# Keys of a definition that say nothing about the arguments of a call.
_REMARKS = frozenset(
    "name description type strict title annotations outputSchema output_schema response responseJsonSchema "
    "response_json_schema "
    "return returns behavior _meta icons cache_control defer_loading input_examples examples allowed_callers "
    "execution".split()
)
_KNOWN = _REMARKS | PARAMETERS
_CALLED = frozenset({"function", "tool", "object"})  # types of definitions that may be without parameters
_LISTS = ("tools", "functionDeclarations", "function_declarations")
_ENVELOPES = {envelope: _REMARKS | {envelope} for envelope in ("function", "toolSpec")}  # and what may stand beside one
_MOST_DEEP = 8  # envelopes in envelopes


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call; `parameters` is a JSON Schema whose type is object."""

    name: str
    description: str
    parameters: Schema

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
                f"two tools named {tool.name[:100]!r}",
                because="a call would not say which one it means",
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
    if (
        isinstance(definitions, Tool)
        or is_python_type(definitions)
        or (callable(definitions) and not isinstance(definitions, Mapping))
    ):
        return [definitions]
    if isinstance(definitions, Mapping):
        for key in _LISTS:
            if isinstance(definitions.get(key), (list, tuple)):
                return [tool for entry in definitions[key] for tool in _listed(entry, depth + 1)]
        if _is_definition(definitions):
            return [definitions]
        return [_named(name, mapping(value, f"tool {shown(name, 100)}")) for name, value in definitions.items()]
    if isinstance(definitions, Iterable):
        # PERF: most lists hold plain definitions; 500 of them are looked at once.
        return [
            tool for entry in definitions
            for tool in ([entry] if type(entry) is dict and _is_definition(entry) else _entry(entry, depth))
        ]  # fmt: skip
    raise malformed("tools", f"{type(definitions).__name__} is not a list of tool definitions")


def _named(name: object, definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the definition that stands under a name."""
    if definition.get("name", name) != name:
        raise malformed(f"tool {shown(name, 100)}", f"its definition names it {shown(definition['name'], 100)}")
    return {"name": name, **definition}


def _entry(entry: object, depth: int) -> list[object]:
    """Return the tools of an entry of a list: one definition, unless it wraps a list of its own."""
    wraps = isinstance(entry, Mapping) and any(isinstance(entry.get(key), (list, tuple)) for key in _LISTS)
    return _listed(entry, depth + 1) if wraps else [entry]


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
    function = mapping(definition, where)
    for envelope, beside in _ENVELOPES.items():
        if envelope in function:
            _check_keys(function, beside, where)
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
    _check_keys(function, _KNOWN, where)
    description = function.get("description")
    return Tool(name, description if isinstance(description, str) else "", read_parameters(function, where))


def _check_keys(definition: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    if not definition.keys() <= known:
        unknown = min(map(str, definition.keys() - known))
        raise malformed(where, f"nothing is known of the key {unknown[:100]!r}, which may describe arguments")


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
    name, description = schema["title"], schema.get("description")
    parameters = {key: value for key, value in schema.items() if key not in ("title", "description")}
    where = f"tool {name[:100]!r}"
    return Tool(
        name, description if isinstance(description, str) else "", read_parameters({"parameters": parameters}, where)
    )
