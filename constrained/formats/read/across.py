"""Rules across the messages of a conversation: those that a definition asks for by name (`Definition.constraints`).

A grammar says which message may follow which; it cannot say that a result names the call that it answers, or that the
system offered the tool.  Such rules are checked on the messages that were read, of any format: a definition names them,
and says whether every reader keeps them or only a strict one.  What a conversation tells of its options (`told`) is no
rule but the value of one: the thoughts that a system message asks for are those which the turns have.

Tested in tests/test_across.py: each rule by itself, in the formats that have it and in one of a user's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from constrained.formats.defining.definition import Definition, Sign
from constrained.formats.message import Message
from constrained.formats.read.assemble import ReadCall, ReadMessage
from constrained.formats.read.rejections import Wrong
from constrained.formats.writing.tool_prompt import tools_told
from constrained.work import spend

_Rule = Callable[[Sequence[ReadMessage], Definition], Iterator[Wrong]]


def broken_rules(
    messages: Sequence[ReadMessage], definition: Definition, *, strict: bool, offered: bool
) -> Iterator[Wrong]:
    """Yield where messages break the rules of a format that hold strictly, or those that always do; offered: the caller
    says which tools there are, whatever messages list.
    """
    wanted = "strict" if strict else "always"
    for name, held in definition.constraints.items():
        if held == wanted and not (offered and name == "tools_are_listed"):
            yield from _RULES[name](messages, definition)


def told(definition: Definition, messages: Sequence[ReadMessage | Message]) -> dict[str, object]:
    """Return the values of the options that messages tell of."""
    found: dict[str, object] = {}
    for name, option in definition.options.items():
        shown = [key for key, sign in option.told.items() if any(_shows(one, sign, definition) for one in messages)]
        if option.told:
            found[name] = shown if option.members else bool(shown)
    return found


def _shows(message: ReadMessage | Message, sign: Sign, definition: Definition) -> bool:
    name, token = [None if one is None else definition.tokens.get(one, one) for one in (sign.name, sign.token)]
    return (
        message.role == sign.by
        and (name is None or message.name == name)
        and (token is None or token in message.content)
        and re.search(sign.text, message.content) is not None
    )


def _ids_differ(messages: Sequence[ReadMessage], definition: Definition) -> Iterator[Wrong]:
    for number, message in enumerate(messages, 1):
        ids: set[str] = set()
        for index, call in enumerate(message.calls, 1):
            if call.id is not None and call.id in ids and not call.broken:
                because = f"two calls have the id {call.id!r}"
                yield Wrong(call.place, "structure", because, "another id", "call_id", number, index)
            ids |= {call.id} if call.id is not None else set()


def _are_answered(messages: Sequence[ReadMessage], definition: Definition) -> Iterator[Wrong]:
    waiting: list[ReadCall] = []
    for number, message in enumerate(messages, 1):
        if message.role in definition.results:
            del waiting[:1]
            continue
        if waiting:
            because = f"{len(waiting)} call{'s' * (len(waiting) > 1)} before it have no result"
            yield Wrong(message.place, "structure", because, f"the result of {waiting[0].name!r}", None, number)
        waiting = [*message.calls]


def _answer(messages: Sequence[ReadMessage], definition: Definition, *, in_order: bool = False) -> Iterator[Wrong]:
    """Yield the results that answer no call of the turn before them, or not the next one."""
    waiting: list[ReadCall] = []
    names = frozenset(definition.tokens.values())
    for number, message in enumerate(messages, 1):
        spend()
        if message.role not in definition.results:
            waiting = [*message.calls]
            continue
        said = message.call_id if message.call_id is not None else message.name if message.name not in names else None
        ways = [_called(call, by_id=message.call_id is not None) for call in waiting]
        at = 0 if waiting and said is None else next((at for at, name in enumerate(ways) if name == said), None)
        if at is None or in_order and at > 0:
            next_ones = " or ".join(map(repr, ways[:1] if in_order else ways))
            expected = f"the result of {next_ones}" if ways else "no result"
            what = "it answers no call" if said is None else f"{said!r} answers no call that waits for a result"
            because = what if at is None else f"{said!r} comes before the result of {ways[0]!r}, which was called first"
            place = message.place if message.said_place is None else message.said_place
            yield Wrong(place, "structure", because, expected, None, number)
        del waiting[at or 0 : (at or 0) + 1]


def _called(call: ReadCall, *, by_id: bool) -> str | None:
    return call.id if by_id else call.builtin or call.name


def _in_order(messages: Sequence[ReadMessage], definition: Definition) -> Iterator[Wrong]:
    return _answer(messages, definition, in_order=True)


def _are_listed(messages: Sequence[ReadMessage], definition: Definition) -> Iterator[Wrong]:
    listed, unlisted = tools_told(messages, definition)
    for number, message in enumerate(messages, 1):
        for index, call in enumerate(message.calls, 1):
            name = call.builtin or call.name
            if name in unlisted or listed is not None and name not in listed and name not in definition.builtins:
                known = ", ".join(map(repr, sorted(listed or ()))) or "no tool"
                place, because = call.name_place or call.place, f"no message lists the tool {name!r}"
                yield Wrong(place, "tool", because, known, "tool_call", number, index)


_RULES: Mapping[str, _Rule] = {
    "call_ids_differ": _ids_differ,
    "calls_are_answered": _are_answered,
    "results_answer_calls": _answer,
    "results_in_order": _in_order,
    "tools_are_listed": _are_listed,
}
