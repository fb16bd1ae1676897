"""The cases of the benchmarks: schemas from flat to recursive and odd, every format with 1, 5 and 50 tools.

A case has a text of its language; all engines read the same tokens of it.  Cases with a `base` answer one more
question: what does a bound cost next to the same schema without it?
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from constrained import ChatFormat


@dataclass(frozen=True, slots=True)
class Case:
    """A schema and an instance, or a format with tools and a call of the last tool."""

    name: str
    schema: dict[str, Any] | None = None
    instance: Any = None
    format: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    base: str | None = None  # the case without the bound


_PROSE = (
    "The train to Bergen leaves at 08:25 from platform 4 – bring your ticket, a coat and something to read. "
    "列車は時間通りです。"
)

_LETTERS = "the train to bergen leaves from platform four in the morning"


def _object(properties: dict[str, Any], required: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
        **more,
    }


def _string_case(name: str, keywords: dict[str, Any], text: str, base: str | None) -> Case:
    return Case(name, _object({"text": {"type": "string", **keywords}}, ["text"]), {"text": text}, base=base)


def schema_cases() -> Iterator[Case]:
    """Yield the schema cases."""
    weather = {"location": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer"}}
    yield Case(
        "flat", _object(weather, ["location"]), {"location": "San Francisco, CA – 東京", "unit": "celsius", "days": 12}
    )
    yield Case("nested", *_nested())
    yield Case("recursive", *_recursive())
    yield _string_case("string", {}, _PROSE, None)
    yield _string_case("maxLength 200", {"maxLength": 200}, _PROSE, "string")
    yield _string_case("maxLength 10000", {"maxLength": 10000}, _PROSE, "string")
    yield _string_case("pattern [a-z ]+", {"pattern": "^[a-z ]+$"}, _LETTERS, None)
    yield _string_case("pattern [a-z ]{1,256}", {"pattern": "^[a-z ]{1,256}$"}, _LETTERS, "pattern [a-z ]+")
    colours = [f"colour-{i:02}" for i in range(10)]
    yield Case("enum 10", _object({"colour": {"enum": colours}}, ["colour"]), {"colour": colours[7]})
    colours = [f"colour-{i:04}" for i in range(1000)]
    yield Case(
        "enum 1000", _object({"colour": {"enum": colours}}, ["colour"]), {"colour": colours[777]}, base="enum 10"
    )
    optional = {f"field_{i:02}": {"type": ("string", "integer", "boolean")[i % 3]} for i in range(40)}
    yield Case("40 optional", _object(optional), {f"field_{i:02}": ("text", 7, True)[i % 3] for i in range(1, 40, 4)})


def _nested() -> tuple[dict[str, Any], Any]:
    details = _object(
        {
            "hourly": {"type": "boolean"},
            "wind": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        ["hourly"],
    )
    address = _object(
        {"street": {"type": "string"}, "zip": {"type": "string"}, "country": {"type": "string"}}, ["street", "zip"]
    )
    schema = _object(
        {"location": {"type": "string"}, "days": {"type": "integer"}, "details": details, "address": address},
        ["location", "details"],
    )
    instance = {
        "location": "Oslo", "days": 12, "details": {"hourly": True, "wind": -3.25, "tags": ["alpha", "beta gamma"]},
        "address": {"street": "1 Main St.", "zip": "94103", "country": "USA"},
    }
    return schema, instance


def _recursive() -> tuple[dict[str, Any], Any]:
    node = _object(
        {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, ["value"]
    )
    tree = {
        "value": 1,
        "children": [{"value": 2, "children": [{"value": 3}, {"value": 4, "children": []}]}, {"value": 5}],
    }
    return {"$ref": "#/$defs/node", "$defs": {"node": node}}, tree


def tool(number: int) -> dict[str, Any]:
    """Return one of any number of different tools with five parameters."""
    parameters = {
        "query": {"type": "string"}, f"limit_{number}": {"type": "integer"}, "unit": {"enum": ["metric", "imperial"]},
        "tags": {"type": "array", "items": {"type": "string"}}, "exact": {"type": "boolean"},
    }
    function = {"name": f"tool_{number:02}", "parameters": _object(parameters, ["query", "unit"])}
    return {"type": "function", "function": function}


def format_cases() -> Iterator[Case]:
    """Yield every format with 1, 5 and 50 tools; a format that has tools of its own only, once."""
    for name in ChatFormat.names():
        if ChatFormat.load(name).definition.payload is None:
            yield Case(f"{name}, its own", format=name)
            continue
        for count in (1, 5, 50):
            yield Case(f"{name}, {count} tool{'s' * (count > 1)}", format=name, tools=tuple(map(tool, range(count))))


_ARGUMENTS = {"query": "trains to Bergen", "unit": "metric", "tags": ["fast", "direct"], "exact": True}


def text_of(case: Case) -> str:
    """Return the text that all engines read: the instance, or a call of the last tool."""
    if case.format is None:
        return json.dumps(case.instance, ensure_ascii=False)
    chat = ChatFormat.load(case.format)
    if not case.tools:
        name = next(name for name, own in chat.definition.builtins.items() if "query" in own.arguments)
        return chat.write_call(name, {"query": _ARGUMENTS["query"]})
    return chat.write_call(case.tools[-1]["function"]["name"], _ARGUMENTS, list(case.tools))
