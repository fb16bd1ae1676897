"""Is a key that nobody names ever taken where objects are closed, and is anything else refused?

Random schemas of all drafts, with `allOf`, `anyOf`, `oneOf`, `if`, `not`, references and dependencies in each other,
and small instances of each.  What is taken must be valid (by `jsonschema`), and hold no key that no schema names which
is applied to the same object (by the few lines below, which know nothing of normal forms).  What is valid, and holds
only keys that schemas name which always apply, must be taken.

    python -m constrained.benchmarks.closed [--count 200000] [--seed 1]
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

import jsonschema

from constrained import ConstrainedError, Grammar, Vocabulary, compile

DRAFTS = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
KEYS = ("a", "b", "c")
_LEAVES: tuple[Any, ...] = ({"type": "integer"}, {"type": "string"}, {}, {"type": ["integer", "object"]})
_INNER = ({}, {"a": 1}, {"zzz": 1}, {"a": 1, "b": "x"}, {"c": {"b": 1}})
_VALUES = (1, "x", *_INNER, [{"a": 1}], [{"zzz": 1}])
INSTANCES: tuple[Any, ...] = (
    *(dict.fromkeys(keys, 1) for size in range(4) for keys in itertools.combinations((*KEYS, "zzz"), size)),
    *({key: value} for key in KEYS for value in _VALUES),
    *({"a": value, "b": 1} for value in _VALUES), [{"a": 1}, {"zzz": 1}], [{"a": 1}], [{"b": "x"}],
)
_TEXTS = [json.dumps(instance).encode() for instance in INSTANCES]
_BYTES = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256])


class Maker:
    """Makes schemas of one draft."""

    def __init__(self, picks: random.Random) -> None:
        self.picks, self.uri = picks, picks.choice([*DRAFTS])
        self.draft = [*DRAFTS].index(self.uri)
        self.names = "$defs" if self.draft > 2 else "definitions"

    def document(self) -> dict[str, Any]:
        parts = {name: self.schema(2) for name in ("A", "B")}
        return {"$schema": self.uri, **self.schema(3), self.names: parts}

    def some(self, depth: int) -> dict[str, Any]:
        return self.picks.choice(_LEAVES) if depth < 1 else self.schema(depth)

    def keys(self) -> list[str]:
        return self.picks.sample(KEYS, self.picks.randint(1, 2))

    def schema(self, depth: int) -> dict[str, Any]:
        picks = self.picks
        if depth < 3 and picks.random() < 0.2:
            return {"$ref": f"#/{self.names}/{picks.choice('AB')}"} if depth == 2 else picks.choice(_LEAVES)
        found: dict[str, Any] = {}
        if picks.random() < 0.6:
            found["properties"] = {key: self.some(depth - 2) for key in self.keys()}
        for _ in range(picks.randint(0, 2)):
            found.update(self.more(depth - 1))
        if picks.random() < 0.3:
            found["type"] = picks.choice(("object", "object", ["object", "array"], "array"))
        return found

    def more(self, depth: int) -> dict[str, Any]:
        """Return one keyword, or some that go together."""
        picks = self.picks
        if picks.random() < 0.1:
            return {"additionalProperties": picks.choice((False, True))}

        def some() -> dict[str, Any]:
            return self.some(depth)

        def parts() -> list[dict[str, Any]]:
            return [some() for _ in range(picks.randint(1, 3))]

        found: list[Callable[[], dict[str, Any]]] = [
            lambda: {"allOf": parts()}, lambda: {"anyOf": parts()}, lambda: {"oneOf": parts()},
            lambda: {"not": {**some(), "required": self.keys()}},
            lambda: {"allOf": [{"$ref": f"#/{self.names}/A"}, *parts()[1:]]} if depth == 2 else {"allOf": parts()},
            lambda: {"required": self.keys()},
            lambda: {"patternProperties": {picks.choice(("^a", "[bc]")): self.some(depth - 1)}},
            lambda: {"items": self.some(depth - 1)}, lambda: {"minProperties": 1}, lambda: {"maxProperties": 2},
        ]
        if self.draft < 3:
            found.append(lambda: {"dependencies": {"a": some(), "b": ["c"]}})
        else:
            found += [lambda: {"dependentSchemas": {"a": some()}}, lambda: {"dependentRequired": {"a": ["b"]}}]
            found.append(lambda: {"unevaluatedProperties": False} if picks.random() < 0.3 else {"required": ["a"]})
        if self.draft > 0:
            found += [lambda: {"const": {"a": 1, "c": 1}}, lambda: {"propertyNames": {"enum": [*KEYS]}}]
        if self.draft > 1:
            found += [lambda: {"if": some(), "then": some(), "else": some()}] * 2
        return picks.choice(found)()


ALWAYS = ("allOf",)
PARTS = ("allOf", "anyOf", "oneOf", "then", "else", "dependencies", "dependentSchemas")


def applied(schemas: Sequence[Any], root: dict[str, Any], words: Sequence[str]) -> list[dict[str, Any]]:
    """Return some schemas and what applies to the same value by way of references and some keywords."""
    alone = "draft-0" in root["$schema"]
    found = [schema for schema in schemas if isinstance(schema, dict)]
    for schema in found:
        below: list[Any] = []
        if "$ref" in schema:
            place = schema["$ref"].split("/")
            below.append(root[place[1]][place[2]])
        for word in words if not (alone and below) else ():
            value = schema.get(word, ())
            named = isinstance(value, dict) and word.startswith("depend")
            below += value.values() if named else value if isinstance(value, (list, tuple)) else (value,)
        found += [part for part in below if isinstance(part, dict) and not any(part is other for other in found)]
    return [{"$ref": ""} if alone and "$ref" in schema else schema for schema in found]


def members(schemas: Sequence[dict[str, Any]], key: str) -> list[Any]:
    """Return what schemas say of the value of a key that they name."""
    found = [schema["properties"][key] for schema in schemas if key in schema.get("properties", ())]
    patterns = [entry for schema in schemas for entry in schema.get("patternProperties", {}).items()]
    return found + [part for pattern, part in patterns if re.search(pattern, key)]


_OTHERS = ("additionalProperties", "unevaluatedProperties")
_DESCRIBING = (
    *("properties", "patternProperties", "anyOf", "oneOf", "if", "dependencies", "dependentSchemas", "const"), *_OTHERS
)


def wanted(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the keys that a schema requires."""
    yield from schema.get("required", ())
    for word in ("dependencies", "dependentRequired"):
        for keys in schema.get(word, {}).values():
            yield from keys if isinstance(keys, list) else ()


def only_union(schemas: Sequence[dict[str, Any]]) -> list[Any] | None:
    """Return the members of the union that alone describes an object, each of which does so by itself."""
    words = [word for schema in schemas for word in schema if word in _DESCRIBING]
    if len(words) != 1 or words[0] not in ("anyOf", "oneOf"):
        return None
    (members,) = [schema[words[0]] for schema in schemas if words[0] in schema]
    return members


def meets(value: Any, member: Any, root: dict[str, Any]) -> bool:
    """Return whether a value is valid for a part of the document."""
    document = {word: part for word, part in root.items() if word in ("$schema", "$defs", "definitions")}
    return bool(DRAFTS[root["$schema"]]({**document, "allOf": [member]}).is_valid(value))


def unnamed(value: Any, schemas: Sequence[Any], root: dict[str, Any], noted: Set[str]) -> Iterator[str]:
    """Yield the keys inside a value that no schema names, of those that may apply to the same object, and no note."""
    around = applied(schemas, root, ALWAYS) if isinstance(value, dict) else []
    union = only_union(around)
    if union is not None:  # a key is named where some member that the value meets names it
        required = {key for schema in around for key in wanted(schema)}
        found = [{*unnamed(value, [member], root, noted)} - required for member in union if meets(value, member, root)]
        yield from sorted(set.intersection(*found)) if found else ()
        return
    here = applied(schemas, root, (*PARTS, "if"))
    if isinstance(value, list):
        for item in value:
            yield from unnamed(item, [schema["items"] for schema in here if "items" in schema], root, noted)
    if not isinstance(value, dict):
        return
    named = [schema for schema in here if schema.get("const") == value]
    opened = [schema[word] for schema in here for word in _OTHERS if word in schema]
    parts = applied(schemas, root, PARTS)
    described = any("properties" in schema or "patternProperties" in schema for schema in parts)
    for key, member in value.items():
        parts = members(here, key)
        if described and key not in noted and not parts and not named and not opened:
            yield key
        yield from unnamed(member, parts + opened, root, noted)


def is_named(value: Any, schemas: Sequence[Any], root: dict[str, Any]) -> bool:
    """Return whether each key inside a value is named by schemas that always apply."""
    here = applied(schemas, root, ALWAYS)
    if not isinstance(value, dict):
        return not isinstance(value, list)
    parts = {key: members(here, key) for key in value}
    return all(parts[key] and is_named(value[key], parts[key], root) for key in value)


def check(schema: dict[str, Any]) -> tuple[str, list[str]]:
    """Return what became of a schema, and what is wrong with it."""
    try:
        grammar = Grammar.from_json_schema(schema, profile="practical", property_order="any")
        kernel, start = compile(grammar, _BYTES).place()
        taken = [kernel.is_final(kernel.step_bytes(start, text)) for text in _TEXTS]
    except ConstrainedError as error:
        return type(error).__name__, []
    valid, noted = DRAFTS[schema["$schema"]](schema).is_valid, {note.word for note in grammar.notes}
    wrong = []
    for instance, is_taken in zip(INSTANCES, taken, strict=True):
        if not is_taken:
            if is_named(instance, [schema], schema) and valid(instance):
                wrong.append(f"refuses {instance}")
            continue
        if not valid(instance):
            wrong.append(f"takes {instance}, which is not valid")
        extra = [] if grammar.widened else unnamed(instance, [schema], schema, noted)
        wrong += [f"takes {instance}, whose {key!r} nobody names" for key in extra]
    return "taken" if any(taken) else "takes none of these", wrong


def run(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Check some schemas; return what became of them, and what is wrong."""
    picks, outcomes, wrong = random.Random(seed), Counter[str](), list[str]()
    for _ in range(count):
        schema = Maker(picks).document()
        with warnings.catch_warnings(action="ignore"):
            outcome, found = check(schema)
        outcomes[outcome] += 1
        wrong += [f"{fault}: {json.dumps(schema)}" for fault in found[:1]]
    return outcomes, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    outcomes, wrong = run(options.count, options.seed)
    print(*wrong[:20], sep="\n")
    print(f"{options.count:,} schemas, {len(INSTANCES)} instances each: {dict(outcomes)}, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
