"""Three sets of tools for every format, each with a call: one tool, every kind of argument, many tools."""

from __future__ import annotations

from typing import Any, NamedTuple

from constrained import ChatFormat


def _tool(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": f"{name} of a demonstration", "parameters": parameters},
    }


_WEATHER = _tool(
    "get_weather",
    {
        "city": {"type": "string", "maxLength": 20},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
    },
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
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 12},
            "guardian": {"$ref": "#/$defs/person"},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
}
_MANY = [
    _tool(
        f"lookup_{number}",
        {"key": {"type": "string", "maxLength": 8}, "limit": {"type": "integer", "minimum": 0, "maximum": number}},
        ["key"],
    )
    for number in range(1, 21)
]


class ToolSet(NamedTuple):
    """Tools as a request lists them, and one valid call."""

    tools: list[dict[str, Any]] | list[str] | None
    name: str
    arguments: dict[str, Any]

    def text(self, chat: ChatFormat) -> str:
        """Return the turn with the call and nothing else."""
        return chat.write_call(self.name, self.arguments, self.tools)


_TRIP = {
    "route": ["OSL", "BGO"], "price": 129.5, "flexible": True, "seat": "12C",
    "passenger": {"name": "Ada \"L.\"", "guardian": {"name": "北"}}, "größe": -3,
}  # fmt: skip


def tool_sets(format: str) -> dict[str, ToolSet]:
    """Return three sets of tools for a format: ours, or choices among its own where it takes no others."""
    definition = ChatFormat.load(format).definition
    if definition.payload is None:
        own, question = list(definition.builtins), {"query": "how far is the moon?"}
        return {
            "all its own": ToolSet(own, own[-1], {"code": "print(1 + 1)\n"}),
            "the first of its own": ToolSet(own[:1], own[0], question),
            "the others": ToolSet(own[1:], own[1], question),
        }
    return {
        "one tool": ToolSet([_WEATHER], "get_weather", {"city": "Oslo, \\N", "unit": "celsius", "days": 12}),
        "every kind of argument": ToolSet([_WEATHER, _EVERYTHING], "book_trip", _TRIP),
        "twenty tools": ToolSet(_MANY, "lookup_17", {"key": "a'b", "limit": 16}),
    }
