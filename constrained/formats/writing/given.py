"""Messages as callers have them → `Message`: of our own, or dicts in the shape of OpenAI's interfaces (chat
completions, items of responses) or Anthropic's.

A content may come in parts: texts, which become one, thoughts, calls and results.  A call's arguments may be an object
or its JSON; servers write no argument as an empty text.

Keys that nobody knows are errors, as a message without them would say something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from constrained.errors import ConstrainedError, shown
from constrained.formats.message import Message, ToolCall
from constrained.formats.payload import Fault
from constrained.formats.payload.raw import json_of

_KEYS = {
    "role", "content", "name", "tool_calls", "tool_call_id", "function_call", "reasoning_content", "reasoning",
    "thinking", "thoughts", "stop", "weight", "loss",
}  # fmt: skip
_EMPTY = {"refusal", "annotations", "audio"}  # that OpenAI's interface writes, with nothing in them
_ABOUT = {"type", "id", "status"}  # of an item of its Responses interface
_TEXTS = {"text", "input_text", "output_text", "summary_text", "reasoning_text"}  # types of parts that are text
_HINTS = ("reasoning_content", "reasoning", "thinking")  # of which one says what was thought


def read_messages(
    given: Iterable[Message | Mapping[str, Any]],
    thought: str | None = "reasoning",
    speaks: Callable[[str], bool] = lambda role: True,
) -> list[Message]:
    """Return messages that are given as such, or as dicts; `thought`: the kind of thought that `reasoning_content` and
    its like are; `speaks`: whether messages by a role may name their speaker.  What a format has no place for, of
    dicts, is left out, as chat templates do: thoughts where their kind is None, and names.

    Raises: ConstrainedError: one is neither.

    >>> read_messages([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}])[0].content
    'Hi'
    """
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise ConstrainedError(
            f"not messages: {shown(given)}", instead='a list of Message or of {"role": …, "content": …}'
        )
    found: list[Message] = []
    is_open = False  # the last message is of items, which more of them may continue
    for at, message in enumerate(given):
        items = _item(message) is not None
        read = [message] if isinstance(message, Message) else _messages(message, at, thought)
        if not isinstance(message, Message):
            read = [one if one.name is None or speaks(one.role) else replace(one, name=None) for one in read]
        if items and is_open and read[0].role == found[-1].role == "assistant" and _continues(found[-1], read[0]):
            last = found.pop()
            read[0] = replace(
                read[0], tool_calls=[*last.tool_calls, *read[0].tool_calls], content=last.content + read[0].content,
                thoughts={**last.thoughts, **read[0].thoughts},
            )
        found += read
        is_open = items
    return found


def _item(given: object) -> Callable[[Mapping[str, Any]], dict[str, Any]] | None:
    """Return what makes a message of an item of OpenAI's Responses interface; None for anything else."""
    kind = given.get("type") if isinstance(given, Mapping) else None
    return _ITEMS.get(kind) if isinstance(kind, str) else None


def _continues(last: Message, item: Message) -> bool:
    """Return whether an item goes on with the turn before it: a thought first, then what is said, then the calls."""
    return not (item.thoughts and (last.content or last.tool_calls)) and not (item.content and last.tool_calls)


def _messages(given: Any, at: int, thought: str | None) -> list[Message]:
    """Return the messages of a dict: results that stand among the parts of a content are messages of their own."""
    item = _item(given)
    if item is not None:
        given = item(given)
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
    content, hint, used, results = _content(given.get("content"), at)
    hint = hint or next((given[key] for key in _HINTS if given.get(key)), "")
    thoughts = {**thoughts, **({thought: hint} if hint and thought is not None else {})}
    for text in (content, hint, *thoughts.values()):
        if not isinstance(text, str):
            raise _no_text(at, f"its content is {shown(text)}")
    listed = given.get("tool_calls") or ([given["function_call"]] if given.get("function_call") else ())
    if not isinstance(listed, (list, tuple)):
        raise _no_message(at, f"its tool_calls are {shown(listed)}")
    calls = [_call(call, at) for call in (*listed, *used)]
    stop, name, answered = [_name(given, key, at) for key in ("stop", "name", "tool_call_id")]
    weight = given.get("weight", given.get("loss", 1))
    if weight not in (0, 1):
        raise _no_message(at, f"its weight is {shown(weight)}")
    message = Message(content, calls, stop, thoughts, given["role"], name, answered, int(weight))
    answers = [
        Message(_content(part.get("content"), at)[0], role="tool", call_id=_name(part, "tool_use_id", at))
        for part in results
    ]
    return [*answers, *([message] if content or calls or not answers else [])]


_ITEMS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {  # of OpenAI's Responses interface, as messages
    "message": lambda item: {key: value for key, value in item.items() if key not in _ABOUT},
    "function_call": lambda item: {
        "role": "assistant",
        "tool_calls": [{"id": item.get("call_id"), "name": item.get("name"), "arguments": item.get("arguments")}],
    },
    "function_call_output": lambda item: {
        "role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output"),
    },
    "reasoning": lambda item: {
        "role": "assistant", "reasoning": _content(item.get("content") or item.get("summary"), 0)[0],
    },
}  # fmt: skip


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


def _content(content: Any, at: int) -> tuple[Any, str, list[Any], list[Mapping[str, Any]]]:
    """Return what a content says: its parts as one text, and everything else as it is; the thoughts, calls and results
    among its parts.  Raises: ConstrainedError.
    """
    if not isinstance(content, (list, tuple)):
        return content or "", "", [], []
    texts, thoughts, calls, results = list[str](), list[str](), list[Any](), list[Mapping[str, Any]]()
    for number, part in enumerate(content):
        kind = part.get("type", "text") if isinstance(part, Mapping) else None
        if kind == "thinking":
            thoughts.append(_content(part.get("thinking"), at)[0])
        elif kind == "tool_use":
            calls.append({"id": part.get("id"), "name": part.get("name"), "arguments": part.get("input")})
        elif kind == "tool_result":
            results.append(part)
        else:
            text = part.get("text") if kind in _TEXTS else part
            if not isinstance(text, str):
                what = f"of type {shown(kind)}" if kind else shown(part)
                raise _no_text(at, f"part {number} of its content is {what}")
            texts.append(text)
    return "".join(texts), "".join(thoughts), calls, results


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
