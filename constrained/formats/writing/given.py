"""Messages as callers have them → `Message`: of our own, or dicts in the shape of OpenAI's interface.

A content may come in parts, which become one text where all of them are text.  A call's arguments may be an object or
its JSON; servers write no argument as an empty text.

Keys that nobody knows are errors, as a message without them would say something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from constrained.errors import ConstrainedError, shown
from constrained.formats.message import Message, ToolCall
from constrained.formats.payload import Fault
from constrained.formats.payload.raw import json_of

_KEYS = {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "thoughts", "stop"}
_EMPTY = {"refusal", "annotations", "audio", "function_call"}  # that OpenAI's interface writes, with nothing in them
_TEXTS = {"text", "input_text", "output_text"}  # types of parts that are text


def read_messages(given: Iterable[Message | Mapping[str, Any]]) -> list[Message]:
    """Return messages that are given as such, or as dicts.

    Raises: ConstrainedError: one is neither.

    >>> read_messages([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}])[0].content
    'Hi'
    """
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise ConstrainedError(
            f"not messages: {shown(given)}", instead='a list of Message or of {"role": …, "content": …}'
        )
    return [message if isinstance(message, Message) else _message(message, at) for at, message in enumerate(given)]


def _message(given: Any, at: int) -> Message:
    if not isinstance(given, Mapping) or not isinstance(given.get("role"), str):
        raise ConstrainedError(
            f"message {at} is not a message", because=f"it is {shown(given)}", instead='{"role": …, "content": …}'
        )
    if unknown := {key for key, value in given.items() if key not in _KEYS and (value or key not in _EMPTY)}:
        raise ConstrainedError(
            f"message {at} has the unknown key {shown(min(map(str, unknown)))}",
            instead="role, content, name, tool_calls, thoughts",
        )
    thoughts = given.get("thoughts") or {}
    if not isinstance(thoughts, Mapping) or not all(isinstance(kind, str) for kind in thoughts):
        raise _no_message(at, f"its thoughts are {shown(thoughts)}")
    content, thoughts = _content(given.get("content"), at), dict(thoughts)
    if given.get("reasoning_content"):
        thoughts["reasoning"] = given["reasoning_content"]
    for text in (content, *thoughts.values()):
        if not isinstance(text, str):
            raise _no_text(at, f"its content is {shown(text)}")
    listed = given.get("tool_calls") or ()
    if not isinstance(listed, (list, tuple)):
        raise _no_message(at, f"its tool_calls are {shown(listed)}")
    calls = [_call(call, at) for call in listed]
    stop, name, answered = [_name(given, key, at) for key in ("stop", "name", "tool_call_id")]
    return Message(content, calls, stop, thoughts, given["role"], name, answered)


def _name(given: Mapping[str, Any], key: str, at: int) -> str | None:
    """Return a part of a message that is a text or missing.  Raises: ConstrainedError: it is something else."""
    name = given.get(key)
    if name is not None and not isinstance(name, str):
        raise _no_message(at, f"its {key} is {shown(name)}")
    return name


def _no_message(at: int, because: str) -> ConstrainedError:
    return ConstrainedError(
        f"message {at} is not a message", because=because, instead='{"role": …, "content": …}, as OpenAI has them'
    )


def _content(content: Any, at: int) -> Any:
    """Return what a content says: its parts as one text, and everything else as it is.  Raises: ConstrainedError."""
    if not isinstance(content, (list, tuple)):
        return content or ""
    texts: list[str] = []
    for number, part in enumerate(content):
        text = part.get("text") if isinstance(part, Mapping) and part.get("type", "text") in _TEXTS else part
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, Mapping) else None
            raise _no_text(at, f"part {number} of its content is {'of type ' + shown(kind) if kind else shown(part)}")
        texts.append(text)
    return "".join(texts)


def _no_text(at: int, because: str) -> ConstrainedError:
    return ConstrainedError(
        f"message {at} holds no text", because=because, instead='a text, or parts {"type": "text", "text": …}'
    )


def _call(given: Any, at: int) -> ToolCall:
    inner = given.get("function", given) if isinstance(given, Mapping) else None
    name, arguments = (inner.get("name"), inner.get("arguments")) if isinstance(inner, Mapping) else (None, None)
    try:
        arguments = json_of(arguments or "{}") if isinstance(arguments, str) else arguments
    except Fault as fault:
        raise _no_arguments(at, f"they are no JSON: {fault.because}") from None
    if not isinstance(name, str) or arguments is None:
        raise ConstrainedError(
            f"a call of message {at} is not a tool call",
            because=f"it is {shown(given)}",
            instead='{"name": …, "arguments": {…}}',
        )
    if not isinstance(arguments, Mapping):
        raise _no_arguments(at, f"they are {shown(arguments)}")
    return ToolCall(name, dict(arguments), _name(given, "id", at))


def _no_arguments(at: int, because: str) -> ConstrainedError:
    return ConstrainedError(
        f"a call of message {at} has no arguments", because=because, instead="an object, or the JSON of one"
    )
