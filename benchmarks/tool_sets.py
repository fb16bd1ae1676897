"""Three sets of tools: one small, one with every kind of argument, one of many.  The laws hold for each."""

from __future__ import annotations

from typing import Any

from constrained import ChatFormat


def _tool(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": f"{name} of a demonstration", "parameters": parameters}}


_WEATHER = _tool(
    "get_weather",
    {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
    ["city"],
)
_EVERYTHING = _tool(
    "book_trip",
    {
        "route": {"type": "array", "items": {"type": "string", "pattern": "^[A-Z]{3}$"}, "minItems": 2, "maxItems": 4},
        "price": {"type": "number", "minimum": 0, "exclusiveMaximum": 1000},
        "flexible": {"type": "boolean"},
        "seat": {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^[0-9]{1,2}[A-F]$"}]},
        "passenger": {"$ref": "#/$defs/person"},
        "größe": {"type": ["integer", "null"], "minimum": -5, "maximum": 250},
    },
    ["route", "passenger"],
)
_EVERYTHING["function"]["parameters"]["$defs"] = {
    "person": {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 12}, "guardian": {"$ref": "#/$defs/person"}},
        "required": ["name"],
        "additionalProperties": False,
    }
}
_MANY = [
    _tool(f"lookup_{number}", {"key": {"type": "string", "maxLength": 8}, "limit": {"type": "integer", "minimum": 0, "maximum": number}}, ["key"])
    for number in range(1, 21)
]

_TOOL_SETS: dict[str, list[dict[str, Any]]] = {
    "one tool": [_WEATHER],
    "every kind of argument": [_WEATHER, _EVERYTHING],
    "twenty tools": _MANY,
}


def tool_sets(format: str) -> dict[str, list[dict[str, Any]] | list[str] | None]:
    """Return three sets of tools for a format: ours, or choices among its own where it takes no others."""
    definition = ChatFormat.load(format).definition
    if definition.payload is not None:
        return dict(_TOOL_SETS)
    own = list(definition.builtins)
    return {"all its own": None, "the first of its own": own[:1], "the others": own[1:]}
