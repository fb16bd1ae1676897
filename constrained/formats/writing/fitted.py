"""Any conversation → one that a format can have: roles by its names, ids as it writes them, results and calls in its
order.

What a format cannot write at all is refused where it is written (`conversation`).  Nothing is said here that the
messages do not say.

Tested in tests/test_render.py: OpenAI's conversations in every format, read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce

from constrained.formats.binding.frame import id_slot
from constrained.formats.binding.rules import Alternatives
from constrained.formats.defining.definition import Definition
from constrained.formats.message import RESULTS, Message, Worded, pieces_of
from constrained.formats.writing.conversation import answered_by
from constrained.formats.writing.turn import fits

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
    repeat = definition.repeat
    if repeat is None or repeat.ids is None:
        return [*messages]
    if repeat.ids == "counted":
        return _counted(messages, definition)
    given = [call.id for message in messages for call in message.tool_calls if call.id is not None]
    kept = {name for name in given if fits(rules, id_slot(rules), name)}
    free = (name for name in map("call{:05d}".format, range(len(given) + len(kept))) if name not in kept)
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
    assert definition.repeat is not None
    for first, *results in _runs(messages, definition):
        calls, number = first.tool_calls, definition.repeat.first + before
        before += len(calls) if definition.repeat.per == "conversation" else 0
        given = [None if call.id is None else call.id.rpartition(":")[2] for call in calls]
        if None in given or len({*given}) < len(given) or not all(map(str.isdecimal, filter(None, given))):
            names = {call.id: str(number + at) for at, call in enumerate(calls) if call.id is not None}
            calls = [replace(call, id=str(number + at)) for at, call in enumerate(calls)]
            results = [replace(result, call_id=names.get(result.call_id or "", result.call_id)) for result in results]
        found += [replace(first, tool_calls=calls), *results]
    return found


def _joined(first: str, second: str) -> str:
    """Return two texts as one, in which tokens stay tokens."""
    return Worded.of([*pieces_of(first), (_GAP, False), *pieces_of(second)])


def _led(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with one by the system, first: what it says later is said before the next user's text."""
    found, later = list[Message](), list[Message]()
    for message in messages:
        if message.role in _SYSTEM and message.name is None and len(found) == 1 and found[0].role in _SYSTEM:
            found[0] = replace(found[0], content=_joined(found[0].content, message.content))
        elif message.role in _SYSTEM and message.name is None and found:
            later.append(message)
        elif message.role == "user" and later:
            said = reduce(_joined, [*(one.content for one in later), message.content])
            found, later = [*found, replace(message, content=said)], []
        elif message.role == "assistant" and later:
            found, later = [*found, *_as_users(later), message], []
        elif message.content or message.tool_calls or message.thoughts or message.role != "assistant":
            found.append(message)
    return [*found, *_as_users(later)]


def _as_users(messages: Iterable[Message]) -> list[Message]:
    return [replace(message, role="user") for message in messages]


def _merged(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with texts that a user or the assistant says in a row as one."""
    found: list[Message] = []
    for message in messages:
        last = found[-1] if found else message
        plain = message is not OPENED and not (message.tool_calls or message.thoughts or last.tool_calls)
        if found and plain and message.role == last.role and message.role in ("user", "assistant"):
            found[-1] = replace(last, content=_joined(last.content, message.content), stop=message.stop)
        else:
            found.append(message)
    return found


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
