"""Words for what is wrong with a text: where, in which message and call, and what could have come.

The place is given four ways (line and column, byte, message and call, JSON pointer), with the line itself and a caret below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import Rejected
from .assemble import ACCEPTED
from .machine import Failure
from .network import Kind
from .threads import Thread

_SHOWN = 72  # characters of a line in a message
_NOUNS = {"assistant_turn": "turn", "conversation": "transcript", "tool_call": "tool call"}


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong at a place: see `Rejected` for the names."""

    place: int
    layer: str
    because: str
    expected: str | None = None
    rule: str | None = None
    message: int | None = None
    call: int | None = None
    pointer: str | None = None
    keyword: str | None = None
    schema_pointer: str | None = None


def rejected(wrong: Wrong, text: str, start: int, kind: str, format_name: str) -> Rejected:
    """Return the error for a text that begins at `start` of what was read."""
    place = max(wrong.place, start)
    before = text[start:place]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    position = len(before.encode())
    where = [f"line {line} column {column} (byte {position})"]
    where += [f"message {wrong.message}"] if wrong.message is not None and kind == "conversation" else []
    where += [f"call {wrong.call}"] if wrong.call is not None else []
    where += [f"arguments {wrong.pointer}"] if wrong.pointer else []
    rules = [f"format {format_name}", *([f"rule {wrong.rule}"] if wrong.rule else []), *([f"schema {wrong.schema_pointer}"] if wrong.schema_pointer else [])]
    return Rejected(
        f"{_NOUNS[kind]} rejected", where=", ".join(where), because=f"{wrong.because} ({', '.join(rules)})",
        instead=f"expected: {wrong.expected}" if wrong.expected else None, position=position, expected=wrong.expected, shown=_shown(text, start, place),
        layer=wrong.layer, line=line, column=column, message=wrong.message, call=wrong.call, pointer=wrong.pointer, rule=wrong.rule,
        keyword=wrong.keyword, schema_pointer=wrong.schema_pointer,
    )


def _shown(text: str, start: int, place: int) -> str:
    """Return the line of a place, cut to what a person sees at once, and a caret below it."""
    low = max(text.rfind("\n", start, place) + 1, start, place - _SHOWN // 2)
    high = text.find("\n", place)
    high = min(high if high >= 0 else len(text), low + _SHOWN)
    line = "".join(char if char.isprintable() else "·" for char in text[low:high])
    return f"{line}\n{' ' * (place - low)}^"


def because_of(failure: Failure, text: str) -> str:
    """Return why reading stopped."""
    if failure.fault is not None:
        return failure.fault.because
    if failure.token is not None:
        return f"the token {failure.token!r} cannot stand here"
    rest = text[failure.place : failure.place + 30]
    return f"{rest!r} cannot stand here" if rest else "it ends too early"


def expected_by(threads: tuple[Thread, ...]) -> tuple[str, str | None]:
    """Return what could have come, and the rule that the best thread was reading."""
    words: dict[str, None] = {}
    for thread in threads:
        words[_expected(thread)] = None
    rule = next((name for thread in threads for name in _rules(thread)), None)
    listed = list(words)
    shown = ", ".join(listed[:6]) + (", …" if len(listed) > 6 else "")
    return shown, rule


def _expected(thread: Thread) -> str:
    node, state = thread.node, thread.state
    if node.kind is Kind.TEXT:
        return repr(node.value[state:][:40])
    if node.kind is Kind.TOKEN:
        return str(node.value)
    if node.kind is Kind.NATIVE:
        return str(state.expected)
    if node.kind is Kind.PATTERN:
        names = list(_rules(thread))
        return f"more of {names[0]}" if names else "more text"
    return "the end"


def _rules(thread: Thread) -> list[str]:
    """Return the named rules that a thread is in, the innermost first."""
    found: list[str] = []
    frame: Any = thread.frame
    owners = [thread.node.owner]
    while frame is not None and len(owners) < 50:
        owners.append(frame.node.owner)
        frame = frame.parent
    for owner in owners:
        name = owner.removeprefix(ACCEPTED).partition("{")[0]
        if not name.startswith("_") and "__" not in name:
            found.append(name)
    return found
