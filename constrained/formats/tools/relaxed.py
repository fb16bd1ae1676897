"""Text that lists tools → values: JSON, near-JSON of documents (trailing commas, single quotes, True, None), YAML.

YAML needs PyYAML and is read without aliases, which could make a short text mean an enormous one.
"""

from __future__ import annotations

import importlib
import json
import re
from typing import Any

from constrained.errors import SchemaError
from constrained.work import spend

_TOKEN = re.compile(
    r"""\s+|(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[A-Za-z]+)|(?P<number>-?\d[\d.eE+-]*)"""
    r"""|(?P<sign>[\[\]{}:,])""", re.S
)  # fmt: skip
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}


def parse_relaxed(text: str) -> object:
    """Return the value of JSON text, of what documents print for JSON, or of YAML.

    Raises: SchemaError: it is none of these; the message has the place where it stops being JSON.

    >>> parse_relaxed("{'required': ['symbol'],}")
    {'required': ['symbol']}
    """
    spend(len(text) // 50)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if not text.lstrip().startswith(("[", "{", '"')):
        return _parse_yaml(text)
    pieces = _json_pieces(text)
    try:
        return json.loads("".join(pieces))
    except (ValueError, RecursionError) as error:
        reason = (
            error.msg
            if isinstance(error, json.JSONDecodeError)
            else "it is nested too deeply or holds too long a number"
        )
        because = f"not JSON even when commas and quotes are forgiven: {reason}"
        raise SchemaError("cannot read the tool definitions", because=because) from error


def _json_pieces(text: str) -> list[str]:
    """Return the pieces of the JSON text that a relaxed one stands for."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or (match["word"] and match["word"] not in _WORDS):
            because = f"{text[at : at + 20]!r} is not JSON"
            raise SchemaError("cannot read the tool definitions", where=f"character {at}", because=because)
        at = match.end()
        if match["sign"] in ("]", "}") and pieces and pieces[-1] == ",":
            pieces.pop()
        if match["string"]:
            pieces.append(_double_quoted(match["string"]))
        elif match.lastgroup:
            pieces.append(_WORDS.get(match[0], match[0]))
    return pieces


def _double_quoted(literal: str) -> str:
    body = literal[1:-1]
    if literal[0] == "'":
        body = body.replace("\\'", "'")
        body = re.sub(r'\\.|"', lambda found: '\\"' if found[0] == '"' else found[0], body, flags=re.S)
    return '"' + body.replace("\n", "\\n") + '"'


def _parse_yaml(text: str) -> object:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise SchemaError(
            "cannot read the tool definitions",
            where="character 0",
            because=f"{text[:20]!r} is not JSON, and YAML needs PyYAML",
            instead="JSON, or pip install pyyaml",
        ) from error
    try:
        return _load_without_aliases(yaml, text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} column {mark.column + 1}" if mark is not None else None
        because = f"neither JSON nor YAML: {str(getattr(error, 'problem', None) or error)[:200]}"
        raise SchemaError(
            "cannot read the tool definitions", where=where, because=because, instead="JSON or YAML"
        ) from error


def _load_without_aliases(yaml: Any, text: str) -> object:
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        spend(20)
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"the alias *{event.anchor} is not allowed")
    loader: Any = type("Loader", (yaml.SafeLoader,), {})
    loader.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)  # JSON has no dates
    return yaml.load(text, Loader=loader)
