"""The tools of the demonstration: small, and one of each kind of argument."""

from __future__ import annotations

from typing import Any

PROMPT = "Will it rain in Oslo within 3 days, in celsius?"
OWN_PROMPT = "Search for green tea."  # where a format has tools of its own only

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Forecast for a city",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "minLength": 1, "maxLength": 24},
                    "days": {"type": "integer", "minimum": 1, "maximum": 14},
                    "unit": {"enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city", "unit"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "create_event",
            "description": "Put something into the calendar",
            "parameters": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "maxLength": 24},
                    "date": {"type": "string", "pattern": "^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9])$"},
                    "guests": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3},
                    "private": {"type": "boolean"},
                },
                "required": ["title", "date"],
            },
        },
    },
]
