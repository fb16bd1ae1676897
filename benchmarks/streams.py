"""Where does a stream or a partial reading say something else than the whole text?  Labelled texts, cut everywhere.

    python -m constrained.benchmarks.streams FILE…  [--step N]  [--formats hermes,qwen3]
    python -m constrained.benchmarks.streams --delays             how far events are behind the text that they tell of

A file is as in `benchmarks.vectors`; what is not valid is left out.  Of a turn, the events of its two parts must add up
to what `parse` returns for the whole, whatever the cut, and likewise in single characters.  Of everything, the
beginning up to the cut must be read without an error, and must say nothing that the whole does not say.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import ConstrainedError
from ..formats import ChatFormat, Message, ToolCall
from ..formats.events import ArgumentDelta, CallFinished, CallStarted, Event, Stopped, TextDelta, ThoughtDelta
from .vectors import load, rows

Said = tuple[str, dict[str, str], list[ToolCall], str | None]


def total(events: Iterable[Event]) -> Said:
    """Return what events add up to: content, thoughts, calls, stop.  Raises: ValueError: they come in no order that
    makes sense.
    """
    content, stop = "", None
    thoughts: dict[str, str] = {}
    started, calls = 0, list[ToolCall]()
    for event in events:
        if stop is not None:
            raise ValueError(f"{event} behind the end")
        match event:
            case TextDelta(text):
                content += text
            case ThoughtDelta(kind, text):
                thoughts[kind] = thoughts.get(kind, "") + text
            case CallStarted(number):
                if number != started or started != len(calls):
                    raise ValueError(f"call {number} begins behind {started}, of which {len(calls)} ended")
                started += 1
            case CallFinished(number, call):
                if number != started - 1:
                    raise ValueError(f"call {number} ends, and {started} have begun")
                calls.append(call)
            case Stopped(stop):
                pass
    return content, {kind: text for kind, text in thoughts.items() if text}, calls, stop


def said(message: Message) -> Said:
    """Return of a message what its events tell."""
    return (
        message.content,
        {kind: text for kind, text in message.thoughts.items() if text},
        message.tool_calls,
        message.stop,
    )


def streamed(chat: ChatFormat, pieces: Iterable[str | bytes], arguments: dict[str, Any]) -> Said:
    """Return what the events of a turn in pieces add up to."""
    stream = chat.stream_parser(**arguments)
    events = [event for piece in pieces for event in stream.feed(piece)]
    return total([*events, *stream.end()])


def begins(part: Message, whole: Message) -> str:
    """Say what the beginning of a message says that the whole does not; "" if nothing."""
    if not whole.content.startswith(part.content):
        return f"content {part.content!r} for {whole.content!r}"
    for kind, text in part.thoughts.items():
        if not whole.thoughts.get(kind, "").startswith(text):
            return f"a thought {text!r} for {whole.thoughts!r}"
    if len(part.tool_calls) > len(whole.tool_calls):
        return f"{len(part.tool_calls)} calls for {len(whole.tool_calls)}"
    for mine, full in zip(part.tool_calls, whole.tool_calls, strict=False):
        if mine.name not in ("", full.name):
            return f"a call of {mine.name!r} for {full.name!r}"
        if not mine.arguments.keys() <= full.arguments.keys():
            return f"arguments {mine.arguments!r} for {full.arguments!r}"
    return ""


def faults(row: dict[str, Any], step: int) -> Iterator[str]:
    """Yield where cuts of a row's text change what is read of it."""
    chat, text, kind = load(row["format"]), row["text"], row["kind"]
    arguments = {"tools": row.get("tools"), "prompt": row.get("gen_prompt"), **(row.get("options") or {})}
    whole = chat.parse(text, kind=kind, **arguments)
    is_turn = kind == "assistant_turn"
    if is_turn:
        data = text.encode()
        for name, pieces in (
            ("in one piece", [text]),
            ("in characters", list(text)),
            ("in bytes", [data[at : at + 1] for at in range(len(data))]),
        ):
            try:
                if (found := streamed(chat, pieces, arguments)) != said(whole):
                    yield f"{name}: {found} for {said(whole)}"
            except Exception as error:  # whatever it is, it is a fault
                yield f"{name}: {error!r}"
    for cut in range(0, len(text) + 1, step):
        try:
            if is_turn and (found := streamed(chat, (text[:cut], text[cut:]), arguments)) != said(whole):
                yield f"cut at {cut}: {found} for {said(whole)}"
            part = chat.parse(text[:cut], kind=kind, partial=True, **arguments)
        except Exception as error:  # whatever it is, it is a fault
            yield f"cut at {cut}: {error!r}"
            continue
        yield from (f"up to {cut}: {because}" for because in _more_than(part, whole))


def _more_than(part: Any, whole: Any) -> Iterator[str]:
    """Yield what the beginning of a text says that the whole does not."""
    if isinstance(part, ToolCall):
        part, whole = Message("", [part]), Message("", [whole])
    pairs = list(zip(part, whole, strict=False)) if isinstance(part, list) else [(part, whole)]
    if isinstance(part, list) and len(part) > len(whole):
        yield f"{len(part)} messages for {len(whole)}"
    for mine, full in pairs:
        if mine.role != full.role:
            yield f"a message by {mine.role} for {full.role}"
        if because := begins(mine, full):
            yield because


TOOL = {"name": "write", "parameters": {"type": "object", "properties": {
    "text": {"type": "string"}, "numbers": {"type": "array", "items": {"type": "integer"}}}}}  # fmt: skip
WORDS = "The rain, it says, falls on Oslo and on Bergen. "


def turns(chat: ChatFormat, size: int) -> Iterator[tuple[str, str, str]]:
    """Yield a long answer, thought, string and list as a format writes them: what it is, the turn, the long text."""
    words = (WORDS * (size // len(WORDS) + 1))[:size].rstrip()
    yield "answer", chat.write(Message(words)), words
    if chat.definition.generates_thoughts:
        kind, definition = next(iter(chat.definition.thoughts)), chat.definition
        calls = [] if definition.payload is None else [ToolCall("write", {"text": "It rains."})]
        for message in (Message("It rains.", thoughts={kind: words}), Message("", calls, thoughts={kind: words})):
            try:
                yield "thought", chat.write(message, [TOOL]), words
            except ConstrainedError:  # a format may have thoughts before calls alone
                continue
            break
    if chat.definition.payload is not None:
        yield "string", chat.write_call("write", {"text": words}, [TOOL]), words
        turn = chat.write_call("write", {"numbers": list(range(1000, 1000 + size // 6))}, [TOOL])
        yield "list", turn, turn[turn.index("1000") : turn.rindex(str(999 + size // 6)) + 4]


def delay(chat: ChatFormat, turn: str, long: str) -> int:
    """Return how many characters of a long text a stream had at most read without telling them."""
    stream, told, most = chat.stream_parser([TOOL] if chat.definition.payload is not None else None), 0, 0
    start = turn.index(long)
    for at, char in enumerate(turn, 1):
        for event in stream.feed(char):
            if at > start and isinstance(event, (TextDelta, ThoughtDelta, ArgumentDelta)):
                told += len(event.text)
        most = max(most, min(at - start, len(long)) - told)
    return most


def bound(chat: ChatFormat) -> int:
    """Return how far a format's events may be behind: 32 characters, or the longest marker."""
    definition = chat.definition
    return max(32, *map(len, (*definition.tokens.values(), *definition.markers, *definition.call_markers)))


def delays() -> int:
    """Print the delays of all formats; return how many are longer than they may be."""
    late = 0
    for name in ChatFormat.names():
        chat = ChatFormat.load(name)
        found = {what: delay(chat, turn, long) for what, turn, long in turns(chat, 600)}
        late += sum(value > bound(chat) for value in found.values())
        print(f"{name:20}", *(f"{what} {value}" for what, value in found.items()), f"of {bound(chat)}", flush=True)
    print(f"{late} are late")
    return late


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="constrained.benchmarks.streams", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--delays", action="store_true", help="how far events are behind their text")
    parser.add_argument("--step", type=int, default=1, help="characters from cut to cut")
    parser.add_argument("--formats", default="", help="only these")
    options = parser.parse_args(arguments)
    only, wrong = set(filter(None, options.formats.split(","))), 0
    if options.delays:
        return bool(delays())
    for path in options.files:
        started, counts = time.process_time(), Counter[str]()
        for row in rows(path):
            if not row.get("valid") or "kind" not in row or only and row["format"] not in only:
                continue
            told = list(faults(row, options.step))
            counts[row["kind"]] += 1
            counts["cuts"] += len(row["text"]) // options.step + 1
            wrong += bool(told)
            if told:
                print(row["id"], repr(row["text"])[:200], *told[:3], f"{len(told)} in all", sep="\n  ", flush=True)
        print(
            f"{path.name}: {', '.join(f'{name} {count:,}' for name, count in sorted(counts.items()))}; "
            f"{time.process_time() - started:.0f} s",
            flush=True,
        )
    print(f"{wrong} texts differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
