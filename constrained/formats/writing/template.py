"""A tokenizer's chat template against a format: where do they differ?

Both write the same few conversations, an answer, a call, a thought and the header of an answer that the model is to
write, and are compared from what a user says on to the end of the turn: what stands before, the model's name, a date,
how tools are listed, is the template's own.  The turn is the same text, or another that the format generates for the
same message, as where a template prints an empty thought.  A wrong format makes wrong masks, and nothing else tells.

What a template cannot write is not compared: one that raises where a tool is called, or prints no thoughts of earlier
turns.  Tested in tests/test_recognise.py, with templates that are formats of ours and small changes of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.errors import ConstrainedError, GrammarError, Rejected, said_by, shown
from constrained.formats.defining.recognise import Seen
from constrained.formats.defining.sandbox import compiled
from constrained.formats.message import Message
from constrained.formats.writing.render import render

if TYPE_CHECKING:
    from constrained.formats.load import ChatFormat

Template = Callable[..., str]  # (messages, tools, add_generation_prompt) → text
_ASKED, _SAID, _THOUGHT, _NEXT = "Which way is north?", "Past the old mill.", "Moss grows there.", "And south?"
_TOOL = {"type": "function", "function": {"name": "find_way", "description": "Finds a way.", "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}, "steps": {"type": "integer"}},
    "required": ["place", "steps"]}}}  # fmt: skip
_ARGUMENTS = {"place": "mill", "steps": 7}
_AROUND = 24  # characters shown of a difference


class Comparison(NamedTuple):
    """What a template writes behind the header of an answer, and where it differs from a format, "" if nowhere."""

    prompt: str
    differs: str


def template_of(tokenizer: Any, seen: Seen) -> Template | None:
    """Return what renders a tokenizer's chat template: its own code, or else Jinja; None where it has none.

    Raises: GrammarError: jinja2 is not installed, or the template is none.
    """
    if seen.template is None:
        return None
    own = getattr(tokenizer, "apply_chat_template", None)
    if own is not None:
        return lambda messages, tools, opens: str(
            own(messages, tools=tools, add_generation_prompt=opens, tokenize=False)
        )
    template = compiled(seen.template)
    return lambda messages, tools, opens: template.render(
        messages=messages, tools=tools, add_generation_prompt=opens, **seen.named
    )


def compared(chat: ChatFormat, template: Template) -> Comparison:
    """Return how a template begins an answer, and where it differs from a format."""
    try:
        for what, messages, tools in _conversations(chat):
            expected = _turn(chat, messages, tools)
            found = list(_printed(template, chat, messages, tools))
            said = any(_says(chat, text, expected, messages[1], tools) for text in found)
            if not said and (differs := _difference(expected, found, what)):
                return Comparison("", differs)
        asked = [{"role": "user", "content": _ASKED}]
        header = chat.render_text(asked, add_generation_prompt=True).partition(_ASKED)[2]
        begun = next(_texts(template, [asked], opens=True), "")
    except ConstrainedError as error:
        return Comparison("", f"the format cannot write what it is compared by: {said_by(error)}")
    if not begun.startswith(header):
        return Comparison("", _place(header, begun, "the header of an answer"))
    prompt = begun.removeprefix(header)
    try:
        chat.grammar(prompt=prompt)
    except (GrammarError, Rejected):
        return Comparison("", f"no turn of the format begins with {shown(prompt)}, as the template begins an answer")
    return Comparison(prompt, "")


_Messages = list[dict[str, Any]]


def _conversations(chat: ChatFormat) -> Iterator[tuple[str, _Messages, list[Any] | None]]:
    """Yield what is compared: its name, the messages, the tools."""
    asked, further = {"role": "user", "content": _ASKED}, {"role": "user", "content": _NEXT}
    yield "an answer", [asked, {"role": "assistant", "content": _SAID}, further], None
    if chat.definition.generates_thoughts:
        yield "a thought", [asked, {"role": "assistant", "content": _SAID, "reasoning_content": _THOUGHT}], None
    if chat.definition.payload is not None:
        call = {"id": "call00000", "type": "function", "function": {"name": "find_way", "arguments": _ARGUMENTS}}
        result = {"role": "tool", "name": "find_way", "tool_call_id": "call00000", "content": "It is near."}
        yield "a call", [asked, {"role": "assistant", "content": "", "tool_calls": [call]}, result], [_TOOL]


def _turn(chat: ChatFormat, messages: _Messages, tools: list[Any] | None) -> tuple[str, str]:
    """Return what a format writes behind the user's text, up to the turn, and the turn."""
    rendered = render(chat, messages, tools, {"tool_prompt": False, "add_generation_prompt": _opens(messages)})
    text, (start, end) = rendered.turn.text, rendered.spans[0]
    return text[text.index(_ASKED) + len(_ASKED) : start], text[start:end]


def _opens(messages: _Messages) -> bool:
    """Return whether messages wait for an answer, which some formats need behind results."""
    return bool(messages[-1]["role"] != "assistant")


def _says(
    chat: ChatFormat, found: str, expected: tuple[str, str], message: dict[str, Any], tools: list[Any] | None
) -> bool:
    """Return whether a text has the header of a turn, and one that the format generates for the message."""
    header, turn = expected
    if not found.startswith(header):
        return False
    found = found.removeprefix(header)
    if found.startswith(turn):
        return True
    said = found.find(_SAID if message["content"] else "find_way")
    ends = [found.index(stop, said) + len(stop) for stop in chat.stop if said >= 0 and stop in found[said:]]
    if not ends:
        return False
    try:
        read: Message = chat.parse(found[: min(ends)], tools, strict=True)
    except Rejected:
        return False
    thoughts = {kind: text for kind, text in read.thoughts.items() if text}
    calls = [(call.name, call.arguments) for call in read.tool_calls]
    thought = [message["reasoning_content"]] if "reasoning_content" in message else []
    called = [("find_way", _ARGUMENTS)] if "tool_calls" in message else []
    return [read.content, [*thoughts.values()], calls] == [message["content"], thought, called]


def _printed(template: Template, chat: ChatFormat, messages: _Messages, tools: list[Any] | None) -> Iterator[str]:
    """Yield what a template prints of messages behind the user's text, in the ways that templates want them."""
    told = {"tool_prompt": False, "add_generation_prompt": _opens(messages)}
    ids = {own: written for written, own in chat.call_ids(messages, tools, **told).items()}
    ways = []
    for content in ("", None):
        for spelled in (dict, json.dumps):
            way = [dict(message) for message in messages]
            for message in way:
                if "tool_calls" in message:
                    (call,) = message["tool_calls"]
                    function = {**call["function"], "arguments": spelled(_ARGUMENTS)}
                    message["tool_calls"] = [{**call, "id": ids.get(call["id"], call["id"]), "function": function}]
                    message["content"] = content
                elif "tool_call_id" in message:
                    message["tool_call_id"] = ids.get(message["tool_call_id"], message["tool_call_id"])
            ways.append(way)
    return _texts(template, ways if tools else ways[:1], opens=_opens(messages))


def _texts(template: Template, ways: Sequence[_Messages], *, opens: bool) -> Iterator[str]:
    """Yield the texts of those conversations that a template prints, behind the user's text; some want tools always."""
    for messages, tools in product(ways, ([_TOOL], None)):
        try:
            text = template(messages, tools, opens)
        except Exception:  # whatever a template's own code raises
            continue
        _, asked, behind = text.partition(_ASKED)
        if asked:
            yield behind


def _difference(expected: tuple[str, str], found: Sequence[str], what: str) -> str:
    """Return where the texts differ from what is expected, "" where none says it."""
    whole = "".join(expected)
    if what == "an answer" and not found:
        return "its chat template prints no answer"
    if what != "an answer":
        told = _THOUGHT if what == "a thought" else "find_way"
        found = [text for text in found if told in text]
    return _place(whole, max(found, key=lambda text: _common(whole, text)), what) if found else ""


def _common(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _place(expected: str, found: str, what: str) -> str:
    """Say where a text leaves what is expected."""
    at = _common(expected, found)
    begins = max(at - _AROUND // 2, 0)
    return (
        f"{what} differs at {found[begins : at + _AROUND]!r}, where the format has {expected[begins : at + _AROUND]!r}"
    )
