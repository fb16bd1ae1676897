"""Chat formats for the peers: a Lark file for llguidance and XGrammar, a sequence of grammars for glrmask.

The dialect knows JSON Schemas inside a grammar (``%json``) and special tokens by id (``<[128009]>``).  No peer has
Python literals, so the formats whose arguments are Python stay without one.  Free text before a call is in the peers'
grammars where ours has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NAME, _ARGUMENTS = "{name}", "{arguments}"


@dataclass(frozen=True, slots=True)
class Wire:
    """One call in a format; names of special tokens stand for these tokens."""

    before: str  # what stands before the call
    pattern: str  # the call, with {name} and {arguments}
    after: str  # what stands after it, without the token that stops the generation
    text: bool = False  # may free text come first?


_JSON_CALL = '{"name": "{name}", "parameters": {arguments}}'
_WIRES = {
    "llama3.1-function": Wire("", "<function={name}>{arguments}</function>", ""),
    "llama3.1-json": Wire("<|python_tag|>", '{"type": "function", "name": "{name}", "parameters": {arguments}}', ""),
    "internlm2": Wire("<|action_start|><|plugin|>\n", _JSON_CALL, "<|action_end|>", text=True),
    "internlm2-legacy": Wire("[UNUSED_TOKEN_144][UNUSED_TOKEN_141]\n", _JSON_CALL, "[UNUSED_TOKEN_143]", text=True),
    "openchatml": Wire("<|function_call|>\n", '{"arguments": {arguments}, "name": "{name}"}', "\n", text=True),
    "hermes": Wire("<tool_call>\n", '{"name": "{name}", "arguments": {arguments}}', "\n</tool_call>", text=True),
}


def lark(
    format: str,
    tools: Sequence[Mapping[str, Any]],
    special: Mapping[str, int],
    guidance: Mapping[str, Any] | None = None,
) -> str | None:
    """Return the grammar of a required call for the peers, or None where they cannot express it.

    guidance: options that llguidance reads inside a schema; XGrammar must not see them.
    """
    wire = _WIRES.get(format)
    if wire is None:
        return None
    lead = "TEXT " if wire.text else ""
    rules = [f"start: {lead}{_terms(wire.before, special)} call {_terms(wire.after, special)}".rstrip()]
    rules.append("call: " + " | ".join(f"call_{number}" for number in range(len(tools))))
    for number, tool in enumerate(tools):
        function = tool["function"]
        left, right = wire.pattern.replace(_NAME, function["name"]).split(_ARGUMENTS)
        schema = {**function["parameters"], **({"x-guidance": guidance} if guidance else {})}
        rules.append(f"call_{number}: {_terms(left, special)} arguments_{number} {_terms(right, special)}".rstrip())
        rules.append(f"arguments_{number}: %json {json.dumps(schema)}")
    if wire.text:
        rules.append(r"TEXT: /(.|\n)*/")
    return "\n".join(rules) + "\n"


FREE_TEXT = re.compile(r"(.|\n)*")
Piece = str | int | re.Pattern[str] | Mapping[str, Any]


def sequences(format: str, tools: Sequence[Mapping[str, Any]], special: Mapping[str, int]) -> list[list[Piece]] | None:
    """Return the pieces of a required call, one list a tool, or None where the peers cannot express it.

    A piece is a text, the id of a special token, a pattern or a JSON Schema.
    """
    wire = _WIRES.get(format)
    if wire is None:
        return None
    return [list(_call(wire, tool["function"], special)) for tool in tools]


def _call(wire: Wire, function: Mapping[str, Any], special: Mapping[str, int]) -> Iterator[Piece]:
    left, right = wire.pattern.replace(_NAME, function["name"]).split(_ARGUMENTS)
    if wire.text:
        yield FREE_TEXT
    yield from _pieces(wire.before + left, special)
    yield function["parameters"]
    yield from _pieces(right + wire.after, special)


def _pieces(text: str, special: Mapping[str, int]) -> list[str | int]:
    """Return the literal strings and the token ids that a text is made of."""
    names = sorted((name for name in special if name in text), key=len, reverse=True)
    pieces = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
    return [special.get(piece, piece) for piece in pieces if piece]


def _terms(text: str, special: Mapping[str, int]) -> str:
    """Return a Lark expression of literal strings and token ids."""
    pieces = _pieces(text, special)
    return " ".join(f"<[{piece}]>" if isinstance(piece, int) else json.dumps(piece) for piece in pieces)
