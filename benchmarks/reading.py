"""How long do readers take for a megabyte?  Seconds of the processor for `parse`, by format and shape of the text.

    python -m constrained.benchmarks.reading [--size 1000000] [--formats hermes,qwen3] [--shapes answer,calls]

The shapes: an answer; a thought; a call with one long string; one with a long list of numbers; one with nested objects;
many calls; a conversation of many small messages, and one of calls and results.  All are read with their tools given,
as `validate` reads them too.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from constrained import ChatFormat, ConstrainedError
from constrained.formats import Message, ToolCall

MOST = 1.0  # seconds a megabyte
TEXT = 'It is <b>7</b> degrees & "cloudy" in Tromsø, 晴れ; f(x) = {1}.\n'
OBJECT = {"type": "object", "properties": {"x": {"type": "number"}, "label": {"type": "string"}}}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "description": "d",
            "parameters": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "numbers": {"type": "array", "items": {"type": "number"}},
                    "places": {"type": "array", "items": OBJECT},
                },
            },
        },
    }
]
RESULTS = ("tool", "observation", "ipython", "environment")


def longer(write: Callable[[int], str], size: int) -> str:
    """Return the text of so many parts that it has a size, told from the texts of a few; written in full where parts
    differ.
    """
    two, three, four = write(2), write(3), write(4)
    at = next((at for at, (one, other) in enumerate(zip(two, three, strict=False)) if one != other), len(two))
    unit = three[at : at + len(three) - len(two)]
    count = max(size // len(unit), 1)
    if two[:at] + unit * 2 + two[at:] != four:
        return write(count)
    return two[:at] + unit * count + two[at:]


_ARGUMENTS = ("string", "numbers", "nested")  # shapes that are about a tool's arguments


def texts(chat: ChatFormat, size: int) -> Iterator[tuple[str, str, str, Any]]:
    """Yield shapes: name, kind, text, tools; those that a format has not are left out."""
    count = size // len(TEXT.encode())
    own = chat.definition.payload is None
    tools = None if own else TOOLS
    call = ToolCall("brave_search", {"query": "x"}) if own else ToolCall("f", {"text": "Oslo"})
    role = next((role for role in RESULTS if role in chat.definition.messages.values()), "tool")
    number, place = [0.5, -12, 3e20, 7], {"x": -2.5, "label": "a \"b\""}
    kind = next(iter(chat.definition.thoughts), "")

    def of_calls(count: int) -> str:
        return chat.write(Message("", [call] * count), tools)

    def of_messages(count: int) -> str:
        return chat.render_text([Message("Hi", role="user"), Message("Hello!")] * count, tools)

    def of_results(count: int) -> str:
        round_of = [Message("Weather?", role="user"), Message("", [call]), Message("7", role=role), Message("It is 7.")]
        return chat.render_text(round_of * count, tools)

    turns: list[tuple[str, str, Callable[[], str]]] = [
        ("answer", "assistant_turn", lambda: chat.write(Message("x" + TEXT * count), tools)),
        (
            "thought",
            "assistant_turn",
            lambda: chat.write(Message("Yes.", thoughts={kind: TEXT * count + "x"} if kind else {}), tools),
        ),
        ("string", "assistant_turn", lambda: chat.write(Message("", [ToolCall("f", {"text": TEXT * count})]), tools)),
        (
            "numbers",
            "assistant_turn",
            lambda: chat.write(Message("", [ToolCall("f", {"numbers": number * (size // 26)})]), tools),
        ),
        (
            "nested",
            "assistant_turn",
            lambda: chat.write(Message("", [ToolCall("f", {"places": [place] * (size // 36)})]), tools),
        ),
        ("calls", "assistant_turn", lambda: longer(of_calls, size)),
        ("messages", "conversation", lambda: longer(of_messages, size)),
        ("results", "conversation", lambda: longer(of_results, size)),
    ]
    many = chat.definition.calls is not None and chat.definition.calls.default is None
    lacking = {*(_ARGUMENTS if own else ()), *(() if many else ("calls",)), *(() if kind else ("thought",))}
    for name, what, write in turns:
        if name in lacking:
            continue
        try:
            yield name, what, write(), tools
        except ConstrainedError:
            continue


def seconds(chat: ChatFormat, kind: str, text: str, tools: Any) -> float | str:
    """Return what a reading takes, of the processor, a megabyte; or why it is refused."""
    gc.collect()
    gc.freeze()  # what formats before this one have left is none of its cost
    started = time.process_time()
    try:
        chat.parse(text, tools, kind=kind)
    except ConstrainedError as error:
        return str(error).split("\n", 1)[0]
    return (time.process_time() - started) * 1_000_000 / len(text.encode())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="constrained.benchmarks.reading", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--formats", default=",".join(ChatFormat.names()))
    parser.add_argument("--shapes", default="", help="only these")
    options = parser.parse_args(arguments)
    only, slow = set(filter(None, options.shapes.split(","))), 0
    for name in options.formats.split(","):
        chat, told = ChatFormat.load(name), []
        for shape, kind, text, tools in texts(chat, options.size):
            if only and shape not in only:
                continue
            found = seconds(chat, kind, text, tools)
            slow += isinstance(found, str) or found > MOST
            told.append(
                f"{shape} {found if isinstance(found, str) else f'{found:.2f}'}"
                f"{' !' * (isinstance(found, str) or found > MOST)}"
            )
        print(f"{name:22} {'  '.join(told)}", flush=True)
    print(f"{slow} above {MOST} s a megabyte")
    return bool(slow)


if __name__ == "__main__":
    sys.exit(main())
