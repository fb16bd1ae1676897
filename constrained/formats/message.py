"""`Message`: text, thoughts, tool calls and the stop token of a turn.

The same value for every format, so that a reader of one and a writer of another can be joined.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from constrained.tables import table

Piece = tuple[str, bool]  # a text, and whether the format says it; what a message says can never be a special token


class Worded(str):
    """The content of a message of which some is the format's: a system message that quotes special tokens.

    `pieces` add up to it.  It is a text like any other; `ChatFormat.render` makes tokens of what the format says.
    """

    __slots__ = ("pieces",)
    pieces: list[Piece]

    @classmethod
    def of(cls, pieces: Iterable[Piece]) -> Worded:
        """Return the content that pieces add up to."""
        listed = list(pieces)
        text = cls("".join(piece for piece, _ in listed))
        text.pieces = listed
        return text


def pieces_of(content: str) -> list[Piece]:
    """Return a content in pieces."""
    return content.pieces if isinstance(content, Worded) else [(content, False)] if content else []


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: the tool's name, its arguments as JSON values, and its id as the text has it, in formats that write
    ids.

    Calls of a format's own tools count too: a code interpreter's is ``ToolCall("interpreter", {"code": …})``.
    """

    name: str
    arguments: dict[str, Any]
    id: str | None = None

    def _repr_html_(self) -> str:
        arguments = json.dumps(self.arguments, ensure_ascii=False, default=repr)
        return table({"call": self.name, "arguments": arguments, "id": self.id})


@dataclass(frozen=True, slots=True)
class Message:
    """A message; an assistant turn, unless `role` says otherwise.  `name` is the speaker's, where the format names
    speakers.

    `content` is the text that a user would see, "" where there is none; `thoughts` maps the kind of a thought to its
    text; `stop` is the special token that ends the turn, as the tokenizer spells it.  Of a tool's result, `name` is the
    tool's, and `call_id` the id of the call that it answers, where the format writes them.
    """

    content: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    stop: str | None = None
    thoughts: dict[str, str] = field(default_factory=dict)
    role: str = "assistant"
    name: str | None = None
    call_id: str | None = None

    def _repr_html_(self) -> str:
        calls = "\n".join(f"{call.name} {json.dumps(call.arguments, default=repr)}" for call in self.tool_calls) or None
        rows = {self.role: self.content, "calls": calls, "stop": self.stop, "name": self.name, "answers": self.call_id}
        return table({**rows, **self.thoughts})
