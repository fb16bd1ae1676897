"""Messages as callers have them → `Message`s, and these as a format can have them.

Given are our own, or dicts in the shape of OpenAI's interfaces (chat completions, items of responses) or Anthropic's.
A content may come in parts: texts, which become one, thoughts, calls and results.  A call's arguments may be an object
or its JSON; servers write no argument as an empty text.  Keys that nobody knows are errors, as a message without them
would say something else.

Then a conversation is fitted to its format: roles by its names, ids as it writes them, results and calls in its order.
What a format cannot write at all is refused where it is written (`conversation`).  Nothing is said here that the
messages do not say.

Tested in tests/test_render.py: OpenAI's conversations in every format, read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from constrained.rendering.conversation import answered_by
from constrained.rendering.turn import fits, made_id

from constrained.errors import ConstrainedError, shown
from constrained.formats.binding.bind import id_slot
from constrained.formats.binding.rules import Alternatives
from constrained.formats.definition import Definition
from constrained.formats.message import RESULTS, Message, ToolCall, Worded, pieces_of
from constrained.formats.payload.tagged import json_of
from constrained.formats.payload.value_reader import Fault

# -- messages ----------------------------------------------------------------------------------------------------------

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


# -- fitted ------------------------------------------------------------------------------------------------------------

OPENED = Message("x")  # the answer that is to be written
_SYSTEM = ("system", "developer")
_GAP = "\n\n"  # between what a system and a user say, where one message says both


def fitted(messages: Sequence[Message], definition: Definition, rules: Alternatives) -> list[Message]:
    """Return messages that say the same in the roles, ids and order of a format."""
    roles = set(definition.messages.values())
    found = [replace(message, role=_role(message.role, roles, definition)) for message in messages]
    found = _with_ids(found if roles & {*_SYSTEM} else _said_by_users(found), definition, rules)
    return found if "answered" in definition.slots.values() else _in_order(found, definition)


def ways(messages: list[Message], definition: Definition) -> Iterator[list[Message]]:
    """Yield messages as they are, and then for formats that have no such conversation: with a turn for each call, with
    a turn for text beside calls, with both; then all of that with one system, first, and without turns that say
    nothing; then also with what one speaker says in a row as one message.
    """
    led = _led(messages)
    tried: list[list[Message]] = []
    for said in (messages, led, _merged(led)):
        for way in (said, single := _one_by_one(said, definition), _apart(said), _apart(single)):
            if way not in tried:
                tried.append(way)
                yield way


def thought_of(definition: Definition) -> str | None:
    """Return the kind of a format's thoughts that reasoning is, None where it generates none."""
    kinds = definition.thoughts if definition.generates_thoughts else ()
    return next((kind for kind in kinds if "reasoning".startswith(kind)), None)


def _role(role: str, roles: set[str], definition: Definition) -> str:
    """Return what a format calls a role; one that it has no name for stays, to be refused by it."""
    alike = definition.results if role in (*RESULTS, "function") else _SYSTEM if role in _SYSTEM else ()
    return role if role in roles else next((one for one in alike if one in roles), role)


def _said_by_users(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with what the system says before the text of the last user, as mistral-common writes it."""
    said = [message.content for message in messages if message.role in _SYSTEM]
    found = [message for message in messages if message.role not in _SYSTEM]
    last = next((at for at in reversed(range(len(found))) if found[at].role == "user"), None)
    if last is None or not said:
        return [*messages]
    found[last] = replace(found[last], content=_GAP.join([*said, found[last].content]))
    return found


def _with_ids(messages: Sequence[Message], definition: Definition, rules: Alternatives) -> list[Message]:
    """Return the messages with ids that the format can write, in calls and in the results that answer them."""
    repeat = definition.calls
    if repeat is None or repeat.ids is None:
        return [*messages]
    if repeat.ids == "counted":
        return _counted(messages, definition)
    given = [call.id for message in messages for call in message.tool_calls if call.id is not None]
    kept = {name for name in given if fits(rules, id_slot(rules), name)}
    free = (name for at in range(len(given) + len(kept)) if (name := made_id(rules, at)) not in kept)
    names = {name: name if name in kept else next(free) for name in dict.fromkeys(given)}
    return [
        replace(
            message, call_id=names.get(message.call_id or "", message.call_id),
            tool_calls=[replace(call, id=names.get(call.id or "", call.id)) for call in message.tool_calls],
        )
        for message in messages
    ]  # fmt: skip


def _counted(messages: Sequence[Message], definition: Definition) -> list[Message]:
    """Return the messages with numbers as ids of calls that have others, or the same one."""
    found, before = list[Message](), 0
    assert definition.calls is not None
    for first, *results in _runs(messages, definition):
        calls, number = first.tool_calls, definition.calls.first + before
        before += len(calls) if definition.calls.per == "conversation" else 0
        given = [None if call.id is None else call.id.rpartition(":")[2] for call in calls]
        if None in given or len({*given}) < len(given) or not all(map(str.isdecimal, filter(None, given))):
            names = {call.id: str(number + at) for at, call in enumerate(calls) if call.id is not None}
            calls = [replace(call, id=str(number + at)) for at, call in enumerate(calls)]
            results = [replace(result, call_id=names.get(result.call_id or "", result.call_id)) for result in results]
        found += [replace(first, tool_calls=calls), *results]
    return found


def _joined(first: str, *others: str) -> str:
    """Return texts as one, in which tokens stay tokens."""
    return Worded.of(chain(pieces_of(first), *([(_GAP, False), *pieces_of(other)] for other in others)))


def _led(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with one by the system, first: what it says later is said before the next user's text."""
    found, further, later = list[Message](), list[str](), list[Message]()
    for message in messages:
        if message.role in _SYSTEM and message.name is None and len(found) == 1 and found[0].role in _SYSTEM:
            further.append(message.content)
        elif message.role in _SYSTEM and message.name is None and found:
            later.append(message)
        elif message.role == "user" and later:
            found.append(replace(message, content=_joined(*(one.content for one in later), message.content)))
            later = []
        elif message.role == "assistant" and later:
            found += [*_as_users(later), message]
            later = []
        elif message.content or message.tool_calls or message.thoughts or message.role != "assistant":
            found.append(message)
    if further:
        found[0] = replace(found[0], content=_joined(found[0].content, *further))
    return [*found, *_as_users(later)]


def _as_users(messages: Iterable[Message]) -> list[Message]:
    return [replace(message, role="user") for message in messages]


def _merged(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with texts that a user or the assistant says in a row as one."""
    runs: list[list[Message]] = []
    for message in messages:
        first = runs[-1][0] if runs else message
        plain = message is not OPENED and not (message.tool_calls or message.thoughts or first.tool_calls)
        if runs and plain and message.role == first.role and message.role in ("user", "assistant"):
            runs[-1].append(message)
        else:
            runs.append([message])
    return [
        replace(run[0], content=_joined(*(one.content for one in run)), stop=run[-1].stop) if run[1:] else run[0]
        for run in runs
    ]


def _apart(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with text beside calls as a turn of its own before them."""
    found: list[Message] = []
    for message in messages:
        if message.tool_calls and message.content:
            found += [replace(message, tool_calls=[]), replace(message, content="", thoughts={})]
        else:
            found.append(message)
    return found


def _runs(messages: Sequence[Message], definition: Definition) -> list[list[Message]]:
    """Return the messages, each with the results behind it."""
    runs: list[list[Message]] = []
    for message in messages:
        if runs and message.role in definition.results:
            runs[-1].append(message)
        else:
            runs.append([message])
    return runs


def _in_order(messages: Sequence[Message], definition: Definition) -> list[Message]:
    """Return the messages with results in the order of the calls that they answer."""
    found: list[Message] = []
    for first, *results in _runs(messages, definition):
        places = answered_by(results, [(call, call.id) for call in first.tool_calls])
        order = sorted(range(len(results)), key=lambda at: places[at])
        found += [first, *(results[at] for at in order)]
    return found


def _one_by_one(messages: Sequence[Message], definition: Definition) -> list[Message]:
    """Return the messages with each call in a turn of its own, and its result behind it."""
    found: list[Message] = []
    for first, *results in _runs(messages, definition):
        calls = first.tool_calls
        if len(calls) < 2 or len(results) > len(calls):
            found += [first, *results]
            continue
        answers = dict(zip(answered_by(results, [(call, call.id) for call in calls]), results, strict=True))
        for at, call in enumerate(calls):
            turn = replace(first, tool_calls=[call])
            found.append(turn if at == 0 else replace(turn, content="", thoughts={}))
            found += [answers[at]] if at in answers else []
    return found
