"""`Message`: text, thoughts, tool calls and the stop token of a turn.

The same value for every format, so that a reader of one and a writer of another can be joined.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from constrained.tables import table

RESULTS = ("tool", "observation", "ipython", "environment")  # what formats call those who answer calls
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


class Repair(NamedTuple):
    """What a tolerant reading took that a strict one refuses: where it begins, in characters behind the prompt, and by
    which rule it was taken.
    """

    place: int
    rule: str


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
    tool's, and `call_id` the id of the call that it answers, where the format writes them.  `weight`: 0 where a model
    is not to learn the turn.
    """

    content: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    stop: str | None = None
    thoughts: dict[str, str] = field(default_factory=dict)
    role: str = "assistant"
    name: str | None = None
    call_id: str | None = None
    weight: int = field(default=1, compare=False, repr=False)
    told: Iterable[Repair] = field(default=(), compare=False, repr=False)  # what `repairs` are, once they are asked for

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What of the text was read that is not to the letter of the format, in its order.

        Where no rule names it, it is found when it is asked for: where the text leaves what would be generated.
        """
        return tuple(self.told)

    def to_openai(self) -> dict[str, Any]:
        """Return the message as OpenAI's chat completions have it; `ChatFormat.render` takes it back, the same but for
        the stop token.  Calls without an id get one.

        >>> Message("", [ToolCall("f", {"n": 1})]).to_openai()["tool_calls"][0]["function"]
        {'name': 'f', 'arguments': '{"n": 1}'}
        """
        from constrained.rendering.arguments import write_json

        role = "tool" if self.role in RESULTS else self.role
        entry: dict[str, Any] = {"role": role, "content": self.content or (None if self.tool_calls else "")}
        thoughts = dict(self.thoughts)
        if thoughts:
            entry |= {"reasoning_content": thoughts.pop("reasoning")} if "reasoning" in thoughts else {}
            entry |= {"thoughts": thoughts} if thoughts else {}
        if self.tool_calls:
            entry["tool_calls"] = [
                {
                    "id": f"call_{at}" if call.id is None else call.id, "type": "function",
                    "function": {"name": call.name, "arguments": write_json(call.arguments)},
                }
                for at, call in enumerate(self.tool_calls)
            ]  # fmt: skip
        entry |= {"name": self.name} if self.name is not None else {}
        return entry | ({"tool_call_id": self.call_id} if self.call_id is not None else {})

    def _repr_html_(self) -> str:
        calls = "\n".join(f"{call.name} {json.dumps(call.arguments, default=repr)}" for call in self.tool_calls) or None
        rows = {self.role: self.content, "calls": calls, "stop": self.stop, "name": self.name, "answers": self.call_id}
        return table({**rows, **self.thoughts})
