"""Random schemas of combined conditions: what `compile` lets pass never fails in a mask or an advance for reasons of
the schema itself.

    python -m tests.fuzz.logic --inputs 5000 --seed 1

The schemas combine ``not``, ``if``, ``contains``, ``oneOf``, ``unevaluatedItems``, ``dependentSchemas``,
``uniqueItems`` and references, at the root and below properties and items, where compiling is lazy.  Each is walked
several times by different draws.
What is checked: an error comes from `compile`, or never; and as in `tests.fuzz.schemas`, no mask is empty and what was
written is valid.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import traceback
from collections import Counter
from typing import Any

import jsonschema

from constrained import Grammar, compile
from constrained.errors import ConstrainedError, LimitExceeded, UnsupportedSchema

from .schemas import _walk, vocabulary

WALKS = 4
KEYS = ("a", "b", "ab", "name")
REFERENCES = ("#/$defs/d", "#/$defs/e", "#/$defs/d", "#")


class Schemas:
    """Random schemas; the same seed, the same schemas."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def make(self) -> dict[str, Any]:
        """Return a schema whose conditions stand somewhere below the root, most of the time."""
        schema = self.condition(self.random.randint(1, 3))
        for _ in range(self.random.randrange(3)):
            schema = self.random.choice(
                (
                    {"type": "object", "properties": {"a": schema}, "required": ["a"]},
                    {"type": "array", "items": schema, "minItems": self.random.randrange(2)},
                    {"properties": {"a": schema, "b": self.condition(1)}},
                    {"type": "object", "additionalProperties": schema},
                )
            )
        return {**schema, "$defs": {"d": self.condition(1), "e": self.simple()}}

    def simple(self) -> Any:
        choose, key = self.random.choice, self.random.choice(KEYS)
        return choose(
            (
                {"type": choose(("string", "integer", "number", "boolean", "null", "array", "object"))},
                {"const": choose((1, "a", [1], {"a": 1}, None))},
                {"enum": [1, "a", [], {}, ["a", 1]]},
                {"minimum": choose((0, 5))},
                {"maxLength": 3},
                {"pattern": "^a"},
                {"multipleOf": choose((2, 3, 0.5))},
                {"required": [key]},
                {"minItems": choose((1, 2))},
                {"maxItems": choose((0, 1, 3))},
                {"maxProperties": choose((1, 2))},
                {"minProperties": choose((1, 2))},
                {"properties": {key: {"type": "integer"}}},
                {"uniqueItems": True},
                {"items": {"type": "integer"}},
                {"prefixItems": [True, {"type": "string"}]},
                {"propertyNames": {"pattern": "^a"}},
                {"patternProperties": {"^a": {"type": "integer"}}},
                True,
                False,
            )
        )

    def condition(self, depth: int) -> dict[str, Any]:
        """Return a schema of one to three keywords that combine others."""
        schema: dict[str, Any] = {}
        if self.random.random() < 0.4:
            schema["type"] = self.random.choice(
                ("object", "array", "object", "array", ["object", "array"], "string", "number")
            )
        for _ in range(self.random.randint(1, 3)):
            schema.update(self.keyword(depth))
        return schema

    def part(self, depth: int) -> Any:
        return self.condition(depth - 1) if depth > 0 and self.random.random() < 0.6 else self.simple()

    def keyword(self, depth: int) -> dict[str, Any]:
        choose, count, part = self.random.choice, self.random.randint, self.part
        name = choose(
            (
                "not",
                "if",
                "contains",
                "contains",
                "allOf",
                "anyOf",
                "oneOf",
                "dependentSchemas",
                "unevaluatedItems",
                "unevaluatedProperties",
                "uniqueItems",
                "$ref",
                "properties",
                "items",
                "prefixItems",
                "simple",
                "simple",
                "counted",
                "patternProperties",
                "many",
            )
        )
        if name in ("not", "items"):
            return {name: part(depth)}
        if name == "if":
            return {
                "if": part(depth),
                **{key: part(depth) for key in self.random.sample(("then", "else"), count(1, 2))},
            }
        if name == "contains":
            return {"contains": part(depth)}
        if name == "counted":
            return {"contains": part(depth), choose(("minContains", "maxContains")): count(0, 4)}
        if name == "many":
            kind = choose(("contains", "not", "if"))
            return {
                "allOf": [
                    {kind: part(depth), **({"then": part(depth)} if kind == "if" else {})} for _ in range(count(6, 9))
                ]
            }
        if name in ("allOf", "anyOf", "oneOf", "prefixItems"):
            return {name: [part(depth) for _ in range(count(1, choose((2, 3, 3, 7))))]}
        if name in ("dependentSchemas", "properties"):
            return {name: {key: part(depth) for key in self.random.sample(KEYS, count(1, 3))}}
        if name == "patternProperties":
            return {name: {choose(("^a", "b$", "a.*e")): part(depth)}}
        if name in ("unevaluatedItems", "unevaluatedProperties"):
            return {name: choose((False, False, {"type": "integer"}, part(depth)))}
        if name == "$ref":
            return {"$ref": choose(REFERENCES)}
        found = self.simple() if name == "simple" else {"uniqueItems": True}
        return found if isinstance(found, dict) else {}


def check(schema: dict[str, Any], options: dict[str, Any], words: Any, seed: int) -> str:
    """Return the class of outcome: "works", "limit", "refused".

    Raises: AssertionError: a law is broken.
    """
    try:
        grammar = Grammar.from_json_schema(schema, **options)
        constraint = compile(grammar, words)
    except LimitExceeded:
        return "limit"
    except ConstrainedError:
        return "refused"
    for number in range(WALKS):
        try:
            written = _walk(constraint.matcher(), words, random.Random(1000 * seed + number))
        except (LimitExceeded, UnsupportedSchema) as error:
            raise AssertionError(f"in generation: {error}") from error
        if (
            written is not None
            and options["surface"] == "json"
            and not grammar.widened
            and not re.search(rb"[eE][+-]?[0-9]{3}|[0-9.]{17}", written)
        ):
            assert is_valid(schema, json.loads(written)), f"{written!r} was written and is not valid"
    return "works"


def is_valid(schema: dict[str, Any], value: Any) -> bool:
    """Say what jsonschema says; true where it fails on a float or a reference without end."""
    try:
        return bool(jsonschema.Draft202012Validator(schema).is_valid(value))
    except Exception:
        return True


def run(inputs: int, seed: int, *, keep_going: bool = False) -> Counter[str]:
    """Check so many schemas and return how often each outcome came."""
    schemas, words, outcomes = Schemas(seed), vocabulary(), Counter[str]()
    for number in range(inputs):
        schema = schemas.make()
        options = {
            "surface": schemas.random.choice(("json", "json", "python")),
            "property_order": schemas.random.choice(("any", "any", "schema")),
        }
        try:
            outcomes[check(schema, options, words, number)] += 1
        except Exception as error:
            print(
                f"seed {seed}, input {number}: {type(error).__name__} {' '.join(str(error)[:300].split())}\n  {json.dumps(schema)}\n  {options}",
                file=sys.stderr,
                flush=True,
            )
            if not isinstance(error, AssertionError):
                traceback.print_exc()
            if not keep_going:
                raise
            outcomes["FAILED"] += 1
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcomes = run(options.inputs, options.seed, keep_going=True)
    print(dict(outcomes))
    return int(outcomes["FAILED"] > 0)


if __name__ == "__main__":
    sys.exit(main())
