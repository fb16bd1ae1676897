"""The events of a stream; those of a kind add up to what `parse` returns for the whole turn.

    TextDelta*            → Message.content
    ThoughtDelta* by kind → Message.thoughts
    CallFinished*         → Message.tool_calls
    Stopped               → Message.stop
    Repaired*             → Message.repairs, but for those that no rule names

Tested in tests/test_stream.py: events of texts cut everywhere, against `parse`.
"""

from __future__ import annotations

from dataclasses import dataclass

from constrained.formats.message import Repair, ToolCall


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of what a user sees."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """More of a thought of a kind."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call has begun; `call` numbers the calls of the turn from 0.  `name` is None in formats that write arguments
    before it.
    """

    call: int
    name: str | None


@dataclass(frozen=True, slots=True)
class ArgumentDelta:
    """More of the text of a call's arguments as the format writes it; `key`: of which argument, where each has a text
    of its own.
    """

    call: int
    text: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class CallFinished:
    """A call is complete, and fits its tool where tools were given."""

    call: int
    value: ToolCall


@dataclass(frozen=True, slots=True)
class Stopped:
    """The turn has ended with this token."""

    stop: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """Something was taken that is not to the letter of the format."""

    repair: Repair


Event = TextDelta | ThoughtDelta | CallStarted | ArgumentDelta | CallFinished | Stopped | Repaired
