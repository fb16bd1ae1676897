"""Schemas and tools that nobody has seen: drawn at random, of the kinds that strangers bring, and all different.

Every drawing is numbered, and the number stands in names, patterns and bounds; so no cache has met it, while parts that
real schemas share, such as a string or a list of numbers, are shared here as well.
"""

from __future__ import annotations

import random
from typing import Any

WORDS = (
    "name city unit date user path query limit offset email price state code label title body items tags owner kind "
    "level score size count "
    "start end zone phone color width height depth index value total status reason note link image file folder "
    "branch commit author"
).split()
FORMATS = ("date", "time", "date-time", "email", "uuid", "ipv4", "hostname", "uri", "duration")
PATTERNS = (
    "^{w}-[0-9]{{{n}}}$",
    "^[A-Z]{{2,{n}}}{i}$",
    "{w}{i}",
    "^(?:{w}|x{i})+$",
    "^.{{1,{n}}}$",
    r"^\w+@{w}{i}\.org$",
    "^[^{w}]*$",
    r"^\d{{1,{n}}}(\.\d{{2}})?$",
)


def schema(draw: random.Random, serial: int, depth: int = 0) -> dict[str, Any]:
    """Return an object schema."""
    names = draw.sample(WORDS, draw.randint(2, 9))
    properties = {
        f"{name}_{serial % 9973}" if draw.random() < 0.3 else name: _value(draw, serial, depth + 1) for name in names
    }
    made: dict[str, Any] = {"type": "object", "properties": properties}
    made["required"] = draw.sample(sorted(properties), draw.randint(1, len(properties)))
    if draw.random() < 0.5:
        made["additionalProperties"] = False
    elif draw.random() < 0.3:
        made["additionalProperties"] = _leaf(draw, serial)
    if depth == 0:
        made["title"] = f"schema {serial}"
        if draw.random() < 0.1:
            made["patternProperties"] = {f"^x{serial}_": _leaf(draw, serial)}
    return made


def tools(draw: random.Random, serial: int) -> list[dict[str, Any]]:
    """Return a list of tools."""
    return [
        {
            "name": f"{draw.choice(WORDS)}_{number}_{serial}",
            "description": "A tool.",
            "parameters": schema(draw, serial, 1),
        }
        for number in range(draw.randint(1, 8))
    ]


def _value(draw: random.Random, serial: int, depth: int) -> dict[str, Any]:
    kind = draw.random()
    if depth < 4 and kind < 0.15:
        return schema(draw, serial, depth)
    if depth < 4 and kind < 0.3:
        least = draw.randint(0, 2)
        return {
            "type": "array",
            "items": _value(draw, serial, depth + 1),
            "minItems": least,
            "maxItems": least + draw.randint(1, 5),
        }
    if depth < 4 and kind < 0.4:
        return {
            draw.choice(("anyOf", "oneOf")): [{"const": f"{serial}"}, {"type": "null"}, schema(draw, serial, depth + 1)]
        }
    return _leaf(draw, serial)


def _leaf(draw: random.Random, serial: int) -> dict[str, Any]:
    pick = draw.randrange(9)
    if pick == 0:
        return {"type": "string"}
    if pick == 1:
        return {
            "enum": [
                f"{word}{serial if draw.random() < 0.5 else ''}" for word in draw.sample(WORDS, draw.randint(2, 12))
            ]
        }
    if pick == 2:
        pattern = draw.choice(PATTERNS)
        return {"type": "string", "pattern": pattern.format(w=draw.choice(WORDS), n=draw.randint(2, 12), i=serial)}
    if pick == 3:
        return {"type": "string", "format": draw.choice(FORMATS)}
    if pick == 4:
        return {"type": "string", "minLength": draw.randint(0, 5), "maxLength": 5 + serial % 97}
    if pick == 5:
        return {"type": "integer", "minimum": -serial, "maximum": serial + draw.randint(0, 1000)}
    if pick == 6:
        return (
            {"type": "number", "exclusiveMinimum": serial / 8}
            if draw.random() < 0.5
            else {"type": "integer", "multipleOf": 2 + serial % 60}
        )
    if pick == 7:
        return {"type": "boolean"}
    return {"type": ["string", "null"], "description": f"leaf {serial}"}
