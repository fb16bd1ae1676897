"""Tools → the words in which a conversation lists them, those of the format (`Definition.tool_prompt`).

The words are a definition's; only in them are special tokens tokens.  What the tools say of themselves is text, as all
messages are.  A conversation that says it already, to the letter, as one that was read does, is not told twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from constrained.formats.defining.definition import Definition, ToolPrompt
from constrained.formats.message import Message, Piece, Worded, pieces_of
from constrained.formats.payload.values import write_json
from constrained.formats.tools import read_tools

_SLOT = re.compile(r"\{(tools|json|name|description)\}")


def told_of_tools(messages: list[Message], tools: object, definition: Definition) -> list[Message]:
    """Return the messages with what the format tells a model of its tools."""
    if not isinstance(tools, (list, tuple)) or not tools:
        return messages
    for part in definition.tool_prompt:
        speaker = None if part.name is None else definition.tokens.get(part.name, part.name)
        messages = _told(
            messages,
            replace(part, name=speaker),
            _filled(part, part.text, tools),
            _filled(part, part.otherwise or part.text, tools),
        )
    return messages


def _told(messages: list[Message], part: ToolPrompt, pieces: list[Piece], otherwise: list[Piece]) -> list[Message]:
    text, alone = Worded.of(pieces), Worded.of(otherwise)
    for at, message in enumerate(messages):
        content = message.content
        joined = part.place in ("before", "behind")
        if message.role == part.role and (content in (text, alone) or joined and text in content):
            said = next((words for words in (text, alone) if content == words), None)
            if said is None:
                start = content.index(text)
                said = Worded.of(
                    [*_pieces(content, 0, start), *pieces, *_pieces(content, start + len(text), len(content))]
                )
            return [*messages[:at], replace(message, content=said), *messages[at + 1 :]]
    if part.place == "first":
        return [Message(text, role=part.role, name=part.name), *messages]
    if part.place == "own":
        at = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
        return [*messages[:at], Message(text, role=part.role, name=part.name), *messages[at:]]
    if not messages or messages[0].role != part.role:
        return [Message(alone, role=part.role), *messages]
    own = _pieces(messages[0].content, 0, len(messages[0].content))
    return [replace(messages[0], content=Worded.of(_joined(part, own, pieces))), *messages[1:]]


def _joined(part: ToolPrompt, own: list[Piece], pieces: list[Piece]) -> list[Piece]:
    gap: list[Piece] = [(part.joined, False)] if own else []
    return [*own, *gap, *pieces] if part.place == "behind" else [*pieces, *gap, *own]


def _pieces(content: str, start: int, end: int) -> list[Piece]:
    """Return a part of a content in pieces."""
    found, at = list[Piece](), 0
    for text, is_structure in pieces_of(content):
        part = text[max(start - at, 0) : max(end - at, 0)]
        found += [(part, is_structure)] if part else []
        at += len(text)
    return found


def _filled(part: ToolPrompt, text: str, tools: Sequence[Any]) -> list[Piece]:
    """Return a text of a part with the tools in it."""
    listed = [_shaped(tool, enveloped=part.enveloped) for tool in tools]
    if part.tool is None:
        inner: list[Piece] = [(_json(listed, part.indent), False)]
    else:
        inner = []
        for at, tool in enumerate(listed):
            inner += [(part.between, True)] if at else []
            function = tool.get("function", tool)
            values = {
                "json": _json(tool, part.indent),
                "name": str(function["name"]),
                "description": str(function.get("description") or ""),
            }
            inner += _with(part.tool, {name: [(value, False)] for name, value in values.items()})
    return _with(text, {"tools": inner})


def _with(template: str, values: Mapping[str, list[Piece]]) -> list[Piece]:
    pieces: list[Piece] = []
    for at, text in enumerate(_SLOT.split(template)):
        pieces += values.get(text, [(f"{{{text}}}", True)]) if at % 2 else [(text, True)] if text else []
    return pieces


def _json(value: Any, indent: int | None) -> str:
    return write_json(value) if indent is None else json.dumps(value, ensure_ascii=False, indent=indent)


def _shaped(tool: Any, *, enveloped: bool) -> dict[str, Any]:
    """Return a tool as OpenAI's interface has it, as it was given if it is one already, or without the envelope."""
    if isinstance(tool, str):  # of a format's own
        return {"name": tool}
    inner = tool["function"] if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping) else None
    if inner is None:
        (read,) = read_tools([tool])
        inner = {"name": read.name, "description": read.description or "", "parameters": read.parameters}
        tool = {"type": "function", "function": inner}
    return dict(tool) if enveloped else dict(inner)
