"""Tools → the words in which a conversation lists them, those of the format (`Definition.tool_prompt`).

The words are a definition's; only in them are special tokens tokens.  What the tools say of themselves is text, as all
messages are.  A conversation that says it already, to the letter, as one that was read does, is not told twice.

A format whose sources print no such words has none.  Its model would not know of the tools, so they are refused unless
the system's messages name them and their parameters, as one does in which the caller lists them.

Where prompts declare tools instead of printing their JSON, `export.declarations` writes them.

Tested in tests/test_tool_prompt.py against conversations that the vendors' templates printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from constrained.export.declarations import QUOTE, declaration, properties_of
from constrained.rendering.arguments import write_json

from constrained.errors import ConstrainedError
from constrained.formats.definition import Definition, ToolPrompt
from constrained.formats.message import Message, Piece, Worded, pieces_of
from constrained.formats.tools import enveloped, read_tools

# -- the prompt --------------------------------------------------------------------------------------------------------

_SLOT = re.compile(r"\{\{\w+\}\}|\{(?:tools|json|parameters|declaration|name|description)\}")  # {{word}} is {word}
_SPOKEN = ("user", "assistant", "tool", "observation", "ipython", "environment")  # by them, a conversation has begun


def told_of_tools(
    messages: list[Message], tools: object, own: Sequence[str], definition: Definition
) -> list[Message]:
    """Return the messages with what the format tells a model of its tools; own: names of those of the format itself.

    Raises: ConstrainedError: the format has no words for them, and the messages do not name them.
    """
    listed = _listed(tools, definition)
    if not listed and not own:
        return messages
    if listed:
        if definition.tool_list is None and not definition.tool_prompt:
            _check_named(messages, listed, definition)
        messages = _with_list(messages, listed, definition.tool_list)
    payload = definition.payload
    quote = definition.tokens[payload.quote] if payload is not None and payload.quote is not None else None
    for part in definition.tool_prompt:
        tools = [definition.builtins[name].told(name) for name in own if name in part.own] if part.own else listed
        if not tools and (part.own or part.others or "{tools}" in part.text):
            continue
        speaker = None if part.name is None else definition.tokens.get(part.name, part.name)
        text = _filled(part, part.text, tools, quote)
        otherwise = _filled(part, part.otherwise, tools, quote) if part.otherwise else text
        messages = _told(_taken_over(messages, part), replace(part, name=speaker), text, otherwise)
    return messages


def _listed(tools: object, definition: Definition) -> list[Any]:
    """Return the definitions of tools one by one, whatever holds them."""
    if definition.payload is None:
        return []
    if isinstance(tools, (list, tuple)):
        return [*tools]
    return [] if tools is None else [*read_tools(tools)]


def _check_named(messages: Sequence[Message], tools: Sequence[Any], definition: Definition) -> None:
    """Raise `ConstrainedError` where the messages before the first by a user do not name all tools and parameters."""
    begun = next((at for at, message in enumerate(messages) if message.role in _SPOKEN), len(messages))
    said = "\n".join(message.content for message in messages[:begun])
    for tool in read_tools(tools):
        names = [tool.name, *properties_of(tool.parameters)]
        unsaid = next((name for name in names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said)), None)
        if unsaid is not None:
            of_it = "" if unsaid == tool.name else f" of {tool.name!r}"
            raise ConstrainedError(
                f"the format '{definition.title}' has no words that tell a model of its tools",
                because=f"no message of the system's names {unsaid!r}{of_it}, so the model would not know of it",
                instead="list the tools in a system message, or tool_prompt=False, which leaves them out",
            )


def _with_list(messages: list[Message], tools: Sequence[Any], place: str | None) -> list[Message]:
    """Return the messages with the list of tools as a message of its own, in formats that have one; one that is there
    already stays.
    """
    if place is None or any(message.role == "tools" for message in messages):
        return messages
    users = [at for at, message in enumerate(messages) if message.role == "user"]
    at = 0 if place == "first" or not users else users[0] if "first" in place else users[-1]
    return [*messages[:at], Message(write_json(enveloped(tools)), role="tools"), *messages[at:]]


def _taken_over(messages: list[Message], part: ToolPrompt) -> list[Message]:
    """Return the messages with what the system says said by the role that tells, where that speaks for callers."""
    if part.takes_over is None or any(message.role == part.role for message in messages):
        return messages
    found = next((at for at, message in enumerate(messages) if message.role == "system"), None)
    if found is None or part.takes_over in messages[found].content:
        return messages
    content = messages[found].content
    said = Worded.of([(part.opened, True), *_pieces(content, 0, len(content))])
    return [*messages[:found], replace(messages[found], role=part.role, content=said), *messages[found + 1 :]]


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
    at = _place(messages, part.role)
    if at == len(messages) or messages[at].role != part.role:
        return [*messages[:at], *([Message(alone, role=part.role)] if alone else []), *messages[at:]]
    content = messages[at].content
    ahead = -1 if part.ahead is None else content.find(part.ahead)
    own = _pieces(content, 0, len(content) if ahead < 0 else ahead)
    rest = [] if ahead < 0 else _pieces(content, ahead, len(content))
    words = [*own, *pieces, (part.joined, True), *rest] if rest else _joined(part, own, pieces)
    return [*messages[:at], replace(messages[at], content=Worded.of(words)), *messages[at + 1 :]]


def _place(messages: Sequence[Message], role: str) -> int:
    """Return where the first message by a role stands, or else where one is put: the system's before all others."""
    begun = next((at for at, message in enumerate(messages) if message.role in _SPOKEN), len(messages))
    if role == "user":
        return begun
    found = next((at for at, message in enumerate(messages[:begun]) if message.role == role), None)
    return found if found is not None else 0 if role == "system" else begun


def _joined(part: ToolPrompt, own: list[Piece], pieces: list[Piece]) -> list[Piece]:
    begun = "".join(text for text, _ in own).startswith(part.opened)
    said: list[Piece] = [*([] if begun else [(part.opened, True)]), *own] if own else []
    gap: list[Piece] = [(part.joined, True)] if own else []
    return [*said, *gap, *pieces] if part.place == "behind" else [*pieces, *gap, *said]


def _pieces(content: str, start: int, end: int) -> list[Piece]:
    """Return a part of a content in pieces."""
    found, at = list[Piece](), 0
    for text, is_structure in pieces_of(content):
        part = text[max(start - at, 0) : max(end - at, 0)]
        found += [(part, is_structure)] if part else []
        at += len(text)
    return found


def _filled(part: ToolPrompt, text: str, tools: Sequence[Any], quote: str | None) -> list[Piece]:
    """Return a text of a part with the tools in it; quote: the special token around strings, if the format has one."""
    listed = [_shaped(tool, enveloped=part.enveloped) for tool in tools]
    if part.tool is None:
        return _with(text, {"tools": [(_json(listed, part), False)]})
    inner: list[Piece] = []
    for at, tool in enumerate(listed):
        inner += [(part.between, True)] if at else []
        function = tool.get("function", tool)
        values: dict[str, Callable[[], str]] = {
            "json": partial(_json, tool, part),
            "parameters": partial(_json, function.get("parameters") or {}, part),
            "name": partial(str, function["name"]),
            "description": partial(str, function.get("description") or ""),
        }
        slots = {name: [(value(), False)] for name, value in values.items() if f"{{{name}}}" in part.tool}
        if part.declared is not None:
            said = re.split(f"({QUOTE})", declaration(part.declared, function))
            slots["declaration"] = [(quote or '"', True) if words == QUOTE else (words, False) for words in said]
        inner += _with(part.tool, slots)
    return _with(text, {"tools": inner})


def _with(template: str, values: Mapping[str, list[Piece]]) -> list[Piece]:
    """Return the pieces of a text with its slots filled; a word in two pairs of braces is one in braces, no slot."""
    pieces, at = list[Piece](), 0
    for slot in _SLOT.finditer(template):
        pieces.append((template[at : slot.start()], True))
        pieces += [(slot[0][1:-1], True)] if slot[0].startswith("{{") else values.get(slot[0][1:-1], [(slot[0], True)])
        at = slot.end()
    return [piece for piece in [*pieces, (template[at:], True)] if piece[0]]


def _json(value: Any, part: ToolPrompt) -> str:
    if part.compact:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return write_json(value) if part.indent is None else json.dumps(value, ensure_ascii=False, indent=part.indent)


def _shaped(tool: Any, *, enveloped: bool) -> dict[str, Any]:
    """Return a tool as OpenAI's interface has it, as it was given if it is one already, or without the envelope."""
    inner = tool["function"] if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping) else None
    if inner is None:
        (read,) = read_tools([tool])
        inner = {"name": read.name, "description": read.description or "", "parameters": read.parameters}
        tool = {"type": "function", "function": inner}
    return dict(tool) if enveloped else dict(inner)
