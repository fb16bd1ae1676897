"""What a message says: text, thoughts, tool calls and the stop token.

The same value for every format, so that a reader of one and a writer of another can be joined.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: the tool's name, its arguments as JSON values, and its id as the text has it, in formats that write
    ids.

    Calls of a format's own tools count too: a code interpreter's is ``ToolCall("interpreter", {"code": …})``.
    """

    name: str
    arguments: dict[str, Any]
    id: str | None = None


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
