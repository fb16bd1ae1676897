"""Which JSON Schema keywords does each installed engine enforce?  One valid and one invalid instance for each.

    python -m constrained.benchmarks.keywords [--markdown]

Verdicts: *exact* (takes the valid one, refuses the invalid one), *ignored* (takes both), *too narrow* (refuses the
valid one), *refused* (raises an error when it compiles, or says that it is not supported).  Instances are one line,
with and without blanks, keys in the order of the schema; either spelling will do.  One pair proves no keyword right; it
finds those that are not there.

Outlines stands here with outlines-core, which makes a regular expression of a schema.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import constrained
from constrained import Grammar, Vocabulary

Accepts = Callable[[Any, str], bool]  # schema, instance → is it a word?  raises: the engine refuses the schema
EXACT, IGNORED, NARROW, REFUSED = "exact", "ignored", "too narrow", "refused"

SPACING = ((", ", ": "), (",", ":"))
_OBJECT: dict[str, Any] = {"type": "object"}
_A = {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "additionalProperties": False}
ROWS: tuple[tuple[str, Any, Any, Any], ...] = (  # keyword, schema, a valid instance, an invalid one
    ("type", {"type": "integer"}, 1, "a"),
    ("enum", {"enum": [1, "a"]}, "a", "b"),
    ("const", {"const": {"a": [1]}}, {"a": [1]}, {"a": [2]}),
    ("properties", {**_OBJECT, **_A}, {"a": 1}, {"a": "x"}),
    ("required", {**_OBJECT, **_A, "required": ["b"]}, {"b": 1}, {"a": 1}),
    (
        "additionalProperties",
        {**_OBJECT, "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}},
        {"a": 1, "z": True},
        {"z": 1},
    ),
    (
        "patternProperties",
        {**_OBJECT, "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
        {"x1": 1},
        {"x1": "a"},
    ),
    ("propertyNames", {**_OBJECT, "propertyNames": {"pattern": "^[a-z]$"}}, {"a": 1}, {"A": 1}),
    ("minProperties", {**_OBJECT, **_A, "minProperties": 2}, {"a": 1, "b": 2}, {"a": 1}),
    ("maxProperties", {**_OBJECT, **_A, "maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}),
    ("dependentRequired", {**_OBJECT, **_A, "dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}),
    ("dependentSchemas", {**_OBJECT, **_A, "dependentSchemas": {"a": {"required": ["b"]}}}, {"b": 1}, {"a": 1}),
    (
        "unevaluatedProperties",
        {**_OBJECT, "properties": {"a": {"type": "integer"}}, "unevaluatedProperties": False},
        {"a": 1},
        {"a": 1, "z": 1},
    ),
    ("items", {"type": "array", "items": {"type": "integer"}}, [1, 2], ["a"]),
    (
        "prefixItems",
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": False},
        [1, True],
        [True, 1],
    ),
    ("minItems", {"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 2], [1]),
    ("maxItems", {"type": "array", "items": {"type": "integer"}, "maxItems": 1}, [1], [1, 2]),
    ("uniqueItems", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1, 2], [1, 1]),
    ("contains", {"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}}, [1, 7], [1, 2]),
    (
        "minContains",
        {"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}, "minContains": 2},
        [7, 7],
        [7, 1],
    ),
    (
        "unevaluatedItems",
        {"type": "array", "prefixItems": [{"type": "integer"}], "unevaluatedItems": False},
        [1],
        [1, 2],
    ),
    ("minLength", {"type": "string", "minLength": 2}, "ab", "a"),
    ("maxLength", {"type": "string", "maxLength": 2}, "ab", "abc"),
    ("pattern", {"type": "string", "pattern": "b"}, "abc", "ac"),
    ("format: date", {"type": "string", "format": "date"}, "2026-02-28", "2026-02-30"),
    ("format: uuid", {"type": "string", "format": "uuid"}, "12345678-1234-1234-1234-123456789abc", "1234"),
    ("minimum", {"type": "integer", "minimum": 10}, 10, 9),
    ("exclusiveMaximum", {"type": "number", "exclusiveMaximum": 1.5}, 1.25, 1.5),
    ("multipleOf", {"type": "integer", "multipleOf": 7}, 14, 15),
    ("allOf", {"allOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]}, 4, 6),
    ("anyOf", {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, True, "a"),
    ("oneOf", {"oneOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]}, 7, 4),
    ("not", {"type": "string", "not": {"const": "a"}}, "b", "a"),
    (
        "if, then, else",
        {**_OBJECT, **_A, "if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {}},
        {"b": 1},
        {"a": 1},
    ),
    ("$ref", {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 1, "a"),
    (
        "$ref to itself",
        {**_OBJECT, "properties": {"a": {"$ref": "#"}}, "additionalProperties": False},
        {"a": {"a": {}}},
        {"a": 1},
    ),
    ("$anchor", {"$ref": "#n", "$defs": {"n": {"$anchor": "n", "type": "integer"}}}, 1, "a"),
    ("$dynamicRef", {"$dynamicRef": "#n", "$defs": {"n": {"$dynamicAnchor": "n", "type": "integer"}}}, 1, "a"),
)


def verdict(accepts: Accepts, schema: Any, valid: Any, invalid: Any) -> str:
    """Return what an engine makes of a keyword."""
    try:
        takes = [
            any(accepts(schema, json.dumps(instance, separators=marks)) for marks in SPACING)
            for instance in (valid, invalid)
        ]
    except Exception:  # each engine has errors of its own
        return REFUSED
    return {(True, False): EXACT, (True, True): IGNORED}.get((takes[0], takes[1]), NARROW)


def engines(vocabulary: Vocabulary) -> dict[str, Accepts]:
    """Return how to ask each engine that is installed, under its name and version."""
    found: dict[str, Accepts] = {
        f"constrained {constrained.__version__}": lambda schema, text: _ours(vocabulary, schema, text)
    }
    for package, make in (
        ("llguidance", _llguidance),
        ("xgrammar", _xgrammar),
        ("outlines_core", _outlines),
        ("glrmask", _glrmask),
    ):
        try:
            name = f"{package.replace('_', '-')} {version(package)}"
        except PackageNotFoundError:
            continue
        found[name] = make(vocabulary)
    return found


def _ours(vocabulary: Vocabulary, schema: Any, text: str) -> bool:
    matcher = constrained.compile(Grammar.from_json_schema(schema), vocabulary).matcher()
    for token in vocabulary.tokenize(text.encode()):
        if not matcher.accepts(token):
            return False
        matcher.advance(token)
    return matcher.is_accepting()


def _llguidance(vocabulary: Vocabulary) -> Accepts:
    import llguidance

    from .engines import _Table

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Table(vocabulary)))

    def accepts(schema: Any, text: str) -> bool:
        matcher = llguidance.LLMatcher(tokenizer, json.dumps({"grammars": [{"json_schema": schema}]}), log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return all(matcher.consume_token(token) for token in vocabulary.tokenize(text.encode())) and bool(
            matcher.is_accepting()
        )

    return accepts


def _xgrammar(vocabulary: Vocabulary) -> Accepts:
    import xgrammar

    from .engines import _Table

    table = _Table(vocabulary)
    info = xgrammar.TokenizerInfo(
        table.tokens,
        xgrammar.VocabType.RAW,
        vocab_size=vocabulary.size,
        stop_token_ids=[table.eos_token_id],
        add_prefix_space=False,
    )
    compiler = xgrammar.GrammarCompiler(info, max_threads=1)

    def accepts(schema: Any, text: str) -> bool:
        matcher = xgrammar.GrammarMatcher(
            compiler.compile_json_schema(json.dumps(schema), any_whitespace=False, strict_mode=False)
        )
        return all(
            matcher.accept_token(token) for token in vocabulary.tokenize(text.encode())
        ) and matcher.accept_token(table.eos_token_id)

    return accepts


def _outlines(vocabulary: Vocabulary) -> Accepts:
    from outlines_core.json_schema import build_regex_from_schema

    return lambda schema, text: re.fullmatch(build_regex_from_schema(json.dumps(schema)), text) is not None


def _glrmask(vocabulary: Vocabulary) -> Accepts:
    import glrmask

    letters = glrmask.Vocab.from_id_to_bytes({byte: bytes([byte]) for byte in range(256)})

    def accepts(schema: Any, text: str) -> bool:
        state = glrmask.Grammar.from_json_schema(json.dumps(schema)).compile(letters).start()
        return all(state.commit_token(byte) for byte in text.encode()) and bool(state.is_accepting())

    return accepts


def table() -> tuple[list[str], list[list[str]]]:
    """Return the names of the engines, and a row for each keyword with their verdicts."""
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256])
    asked = engines(vocabulary)
    return list(asked), [
        [keyword, *(verdict(accepts, schema, valid, invalid) for accepts in asked.values())]
        for keyword, schema, valid, invalid in ROWS
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="as the README has it")
    markdown = parser.parse_args().markdown
    names, rows = table()
    if markdown:
        print("| keyword | " + " | ".join(names) + " |\n" + "| --- " * (len(names) + 1) + "|")
    for row in rows:
        print(
            "| " + " | ".join([f"`{row[0]}`", *row[1:]]) + " |"
            if markdown
            else f"{row[0]:24}" + "".join(f"{cell:16}" for cell in row[1:])
        )
    for place, name in enumerate(names, 1):
        print(
            f"{'' if markdown else ' ' * 2}{name}: exact on {sum(row[place] == EXACT for row in rows)} of {len(rows)}"
        )


if __name__ == "__main__":
    main()
