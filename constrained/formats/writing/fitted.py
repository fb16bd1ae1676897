"""Any conversation → one that a format can have: roles by its names, ids as it writes them, results and calls in its
order.

What a format cannot write at all is refused where it is written (`conversation`).  Nothing is said here that the
messages do not say.

Tested in tests/test_render.py: OpenAI's conversations in every format, read back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from constrained.formats.binding.frame import id_slot
from constrained.formats.binding.rules import Alternatives
from constrained.formats.defining.definition import RESULTS, Definition
from constrained.formats.message import Message
from constrained.formats.writing.turn import fits

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
    a turn for text beside calls, with both.
    """
    for way in (messages, single := _one_by_one(messages, definition), _apart(messages), _apart(single)):
        if way is messages or way != messages:
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
    if repeat is None or repeat.ids != "unique":
        return [*messages]
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
    """Return the messages with results in the order of the calls that they answer by id."""
    found: list[Message] = []
    for first, *results in _runs(messages, definition):
        ids = [call.id for call in first.tool_calls]
        known = all(result.call_id is not None and result.call_id in ids for result in results)
        found += [first, *(sorted(results, key=lambda result: ids.index(result.call_id)) if known else results)]
    return found


def _one_by_one(messages: Sequence[Message], definition: Definition) -> list[Message]:
    """Return the messages with each call in a turn of its own, and its result behind it."""
    found: list[Message] = []
    for first, *results in _runs(messages, definition):
        calls = first.tool_calls
        if len(calls) < 2 or len(results) != len(calls):
            found += [first, *results]
            continue
        for at, (call, result) in enumerate(zip(calls, results, strict=True)):
            turn = replace(first, tool_calls=[call])
            found += [turn if at == 0 else replace(turn, content="", thoughts={}), result]
    return found
