"""Schemas at random: grown from all keywords, or like documents as people write them; moved about and damaged."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

KEYS = ("a", "b", "ab", "name", "é", "", "$ref", "x-1")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
TEXTS = ("", "a", "ab", "abc", "1", "é\U0001f389", "a b\n\"\\/", "2024-02-29", "\ud800", "\x00")
NUMBERS = (0, 1, 2, 3, 10, -1, 1.5, 0.1, 1e-7, 1e300, -0.0, 2**31, 2**63, 10**30, 12345678901234567890, 5e-324)
SMALL = (0, 1, 2, 3, 5, 40, 1.0, 2**31, 10**400)
PATTERNS = (
    "^a",
    "b$",
    "^[ab]+$",
    "a.*b",
    "^(a|b){2,4}$",
    r"^\d+$",
    "[^a]",
    "x{3,}",
    "^(?!a)",
    "(",
    r"\p{L}",
    "^a.{3}b",
    "a{1,1000}",
    ".",
    "",
)
FORMATS = (
    "date",
    "date-time",
    "time",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uuid",
    "regex",
    "json-pointer",
    "duration",
    "idn-hostname",
    "odd",
)
DEBRIS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    "",
    "a",
    [],
    {},
    [[]],
    [1, "a"],
    {"a": 1},
    {"$ref": "#"},
    10**400,
    float("inf"),
    "\ud800",
    "#/$defs/d",
    [[[]]],
)
DIALECTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
    "odd",
)
COUNTED = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
ONE = (
    "not",
    "items",
    "contains",
    "additionalProperties",
    "additionalItems",
    "propertyNames",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
)
MANY = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "dependencies")
NAMES = (
    *COUNTED,
    *BOUNDS,
    *ONE,
    *MANY,
    *NAMED,
    "type",
    "enum",
    "const",
    "required",
    "dependentRequired",
    "uniqueItems",
    "pattern",
    "format",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "$id",
    "$anchor",
    "$dynamicAnchor",
    "$schema",
    "title",
    "default",
    "nonsense",
)
REFERENCES = (
    "#",
    "#/$defs/d",
    "#",
    "#/$defs/d",
    "#/$defs/d",
    "#/properties/a",
    "#/items",
    "#d",
    "#/anyOf/0",
    "http://x/y",
    "#/definitions/a",
    "other.json",
    "#/$defs/d/items",
)
OPTIONS: dict[str, tuple[Any, ...]] = {
    "surface": ("json", "json", "python"),
    "whitespace": ("flexible", "canonical", "compact"),
    "spelling": ("any", "canonical"),
    "property_order": ("any", "any", "schema"),
    "unsupported": ("raise", "raise", "widen"),
    "formats": ("assert", "dialect", "annotate"),
}


class Schemas:
    """Random schemas; the same seed, the same schemas."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def make(self) -> Any:
        roll = self.random.random()
        schema = self.document(3) if roll < 0.25 else self.grown(self.random.randint(1, 4))
        if isinstance(schema, dict) and self.random.random() < 0.7:
            schema.setdefault("$defs", {"d": {"type": "string"}})
        if roll > 0.96:
            schema = self.deep(schema)
        while self.random.random() < 0.2:
            schema = self.mutated(schema)
        return self.damaged(schema) if self.random.random() < 0.1 else schema

    def options(self) -> dict[str, Any]:
        return {name: self.random.choice(values) for name, values in OPTIONS.items()}

    def value(self, depth: int = 2) -> Any:
        choose, roll = self.random.choice, self.random.random()
        if depth and roll < 0.2:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        if depth and roll < 0.4:
            return {choose(KEYS): self.value(depth - 1) for _ in range(self.random.randrange(4))}
        return choose((None, True, False, choose(TEXTS), choose(TEXTS), choose(NUMBERS), choose(NUMBERS)))

    def grown(self, depth: int) -> Any:
        if depth <= 0:
            return self.random.choice(
                (
                    True,
                    False,
                    {},
                    {"type": self.random.choice(TYPES)},
                    {"const": self.value(1)},
                    {"enum": [self.value(1), self.value(2)]},
                )
            )
        schema: dict[str, Any] = {}
        if self.random.random() < 0.5:
            schema["type"] = self.random.choice(TYPES) if self.random.random() < 0.8 else self.random.sample(TYPES, 2)
        for name in self.random.choices(NAMES, k=self.random.randint(1, 4)):
            schema[name] = self.keyword(name, depth)
        return schema

    def keyword(self, name: str, depth: int) -> Any:
        choose, count = self.random.choice, self.random.randrange
        if name in COUNTED:
            return choose(SMALL)
        if name in BOUNDS:
            return choose(NUMBERS)
        if name in NAMED:
            keys = PATTERNS if name == "patternProperties" else ("d", "a") if name in ("$defs", "definitions") else KEYS
            return {choose(keys): self.grown(depth - 1) for _ in range(count(4))}
        if name in MANY and (name != "items" or count(4) == 0):
            return [self.grown(depth - 1) for _ in range(1 + count(4))]
        if name in ONE:
            return self.grown(depth - 1)
        plain: dict[str, Any] = {
            "type": choose(TYPES),
            "enum": [self.value() for _ in range(1 + count(4))],
            "const": self.value(),
            "uniqueItems": choose((True, True, False)),
            "required": list(dict.fromkeys(choose(KEYS) for _ in range(1 + count(3)))),
            "pattern": choose(PATTERNS),
            "format": choose(FORMATS),
            "dependentRequired": {choose(KEYS): [choose(KEYS)]},
            "$ref": choose(REFERENCES),
            "$dynamicRef": choose(REFERENCES),
            "$recursiveRef": "#",
            "$anchor": "d",
            "$dynamicAnchor": "d",
            "$id": choose(("http://x/y", "y", "#d", "")),
            "$schema": choose(DIALECTS),
        }
        return plain.get(name, choose(TEXTS))

    def document(self, depth: int) -> dict[str, Any]:
        """Return a schema as people write them: an object with described properties, shared definitions and tagged
        unions.
        """
        choose, roll = self.random.choice, self.random.random()
        if depth == 0 or roll < 0.3:
            return choose(
                (
                    {"type": "string", "description": "a text", "maxLength": 20},
                    {"type": "string", "enum": ["a", "b", "name"]},
                    {"type": "integer", "minimum": 0},
                    {"type": ["string", "null"]},
                    {"type": "number", "exclusiveMinimum": 0, "maximum": 100},
                    {"type": "string", "format": choose(FORMATS)},
                    {"type": "string", "pattern": choose(PATTERNS)},
                    {"type": "boolean", "default": False},
                    {"$ref": "#/$defs/d"},
                    {"const": "a"},
                )
            )
        if roll < 0.45:
            return {
                "type": "array",
                "items": self.document(depth - 1),
                "minItems": choose((0, 1, 2)),
                "uniqueItems": choose((True, False)),
            }
        if roll < 0.6:
            parts = [
                {
                    "type": "object",
                    "properties": {"a": {"const": tag}, "b": self.document(depth - 1)},
                    "required": ["a"],
                }
                for tag in ("x", "y")
            ]
            return {choose(("anyOf", "oneOf")): parts}
        keys = self.random.sample(KEYS, self.random.randint(1, 5))
        found = {
            "type": "object",
            "properties": {key: self.document(depth - 1) for key in keys},
            "required": keys[: self.random.randrange(3)],
        }
        if self.random.random() < 0.5:
            found["additionalProperties"] = choose((False, True, {"type": "integer"}))
        return {"$defs": {"d": self.document(depth - 2)}, **found} if depth > 2 else found

    def deep(self, schema: Any) -> Any:
        name = self.random.choice((*ONE, *MANY, *NAMED))
        for _ in range(self.random.choice((30, 300))):
            schema = {name: {"a": schema} if name in NAMED else [schema] if name in MANY else schema}
        return schema

    def mutated(self, schema: Any) -> Any:
        """Return a copy with one part replaced, moved, removed or renamed."""
        schema = copy.deepcopy(schema) if not _is_deep(schema) else schema
        places = [
            (part, key) for part in parts(schema) for key in (part if isinstance(part, dict) else range(len(part)))
        ]
        if not places:
            return self.random.choice(DEBRIS)
        part, key = self.random.choice(places)
        kind = self.random.randrange(5)
        if kind == 0:
            part[key] = copy.deepcopy(self.random.choice(DEBRIS))
        elif kind == 1:
            other, at = self.random.choice(places)
            part[key] = copy.deepcopy(other[at]) if not _is_deep(other[at]) else True
        elif kind == 2:
            del part[key]
        elif kind == 3 and isinstance(part, dict):
            part[self.random.choice(NAMES)] = part.pop(key)
        elif isinstance(part, dict):
            name = self.random.choice(NAMES)
            part[name] = self.keyword(name, 1)
        return schema

    def damaged(self, schema: Any) -> Any:
        """Return what the text of a schema reads as when some of its bytes change; the text itself where it is no JSON
        any more.
        """
        try:
            text = json.dumps(schema)
        except (ValueError, RecursionError):
            return schema
        at = self.random.randrange(len(text))
        text = text[:at] + self.random.choice('{}[]",:0e-\\a9') + text[at + self.random.randrange(3) :]
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text


def parts(schema: Any) -> list[Any]:
    todo = [schema]
    for part in todo:
        if isinstance(part, (dict, list)):
            todo.extend(part.values() if isinstance(part, dict) else part)
    return [part for part in todo if isinstance(part, (dict, list))]


def _is_deep(schema: Any, depth: int = 60) -> bool:
    if not isinstance(schema, (dict, list)):
        return False
    return depth == 0 or any(
        _is_deep(part, depth - 1) for part in (schema.values() if isinstance(schema, dict) else schema)
    )
