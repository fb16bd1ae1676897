"""Where does a stream or a partial reading say something else than the whole text?  Labelled texts, cut everywhere.

    python -m constrained.benchmarks.streams FILE…  [--step N]  [--formats hermes,qwen3]
    python -m constrained.benchmarks.streams --delays             how far events are behind the text that they tell of
    python -m constrained.benchmarks.streams --cuts 1000          cuts of each format, and its delays

A file is as in `benchmarks.vectors`; what is not valid is left out.  Of a turn, the events of its two parts must add up
to what `parse` returns for the whole, whatever the cut, and likewise in single characters.  Of everything, the
beginning up to the cut must be read without an error, and must say nothing that the whole does not say.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from ..errors import ConstrainedError
from ..formats import ChatFormat, Message, ToolCall
from ..formats.streaming import ArgumentDelta, CallFinished, CallStarted, Event, Stopped, TextDelta, ThoughtDelta
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
    """Yield a long answer, thought, thought behind a call that it quotes, string and list as a format writes them: what
    it is, the turn, the long text.
    """
    words = (WORDS * (size // len(WORDS) + 1))[:size].rstrip()
    yield "answer", chat.write(Message(words)), words
    if chat.definition.generates_thoughts:
        kind, definition = next(iter(chat.definition.thoughts)), chat.definition
        calls = [] if definition.payload is None else [ToolCall("write", {"text": "It rains."})]
        quoted = "".join(chat.write_call("write", call.arguments, [TOOL]) for call in calls)
        for stop in sorted(chat.stop, key=len):
            quoted = quoted.removesuffix(stop)
        for what, thought in (("thought", {kind: words}), ("quoted", {kind: f"Not {quoted}\n{words}"})):
            for message in (Message("It rains.", thoughts=thought), Message("", calls, thoughts=thought)):
                try:
                    yield what, chat.write(message, [TOOL]), words
                except ConstrainedError:  # a format may have thoughts before calls alone, or none that quote a call
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


def cut_turns(chat: ChatFormat) -> list[str]:
    """Return the turns of a format that are cut: long ones, and one with characters of several bytes, escapes, a
    thought and text before calls, or as much of that as the format has.
    """
    found = [turn for _, turn, _ in turns(chat, 90)]
    kinds = chat.definition.thoughts if chat.definition.generates_thoughts else ()
    thoughts = dict.fromkeys(kinds, "So é, 雨 : <b>?\n")
    hard = [ToolCall("write", {"text": 'a "b" \\ <c>\n{d} 雨 🌧'})]
    if chat.definition.calls is not None and chat.definition.calls.default is None:
        hard.append(ToolCall("write", {"numbers": [1, -2]}))
    for said, calls, thought in product(("Grüße, <ok>.", ""), (hard, hard[:1], []), (thoughts, {})):
        try:
            found.append(chat.write(Message(said, calls, thoughts=thought), [TOOL] if calls else None))
        except ConstrainedError:  # it has no such turn
            continue
    return found


def cut_faults(chat: ChatFormat, count: int, seed: int) -> Iterator[str]:
    """Yield where turns of a format, cut at random places, of characters or bytes, are told otherwise than `parse`
    reads them.
    """
    picks = random.Random(f"{chat.name} {seed}")
    arguments = {"tools": None if chat.definition.payload is None else [TOOL]}
    whole = {turn: said(chat.parse(turn, **arguments)) for turn in cut_turns(chat)}
    for _ in range(count):
        turn = picks.choice([*whole])
        data: Any = turn if picks.random() < 0.5 else turn.encode()
        places = sorted(picks.randrange(len(data) + 1) for _ in range(picks.choice((1, 2, 5, 20))))
        pieces = [data[begin:end] for begin, end in pairwise([0, *places, len(data)])]
        try:
            found: object = streamed(chat, pieces, arguments)
        except Exception as error:  # whatever it is, it is a fault
            found = error
        if found != whole[turn]:
            yield f"{pieces}: {found!r} for {whole[turn]}"


def delays(cuts: int = 0, names: Iterable[str] = ()) -> int:
    """Print the delays of formats, of all if none is named; return how many are longer than they may be, and how many
    of so many cuts of each change what is told.
    """
    late = wrong = 0
    for name in names or ChatFormat.names():
        chat = ChatFormat.load(name)
        found = {what: delay(chat, turn, long) for what, turn, long in turns(chat, 600)}
        late += sum(value > bound(chat) for value in found.values())
        faults = list(cut_faults(chat, cuts, 1))
        wrong += len(faults)
        told = [f"{what} {value}" for what, value in found.items()]
        print(f"{name:20}", *told, f"of {bound(chat)}", *([f"{len(faults)} cuts differ"] * bool(cuts)), flush=True)
        print(*(f"  {fault}" for fault in faults[:2]), sep="\n", end="\n" * bool(faults))
    print(f"{late} are late" + f", {wrong:,} cuts differ" * bool(cuts))
    return late + wrong


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="constrained.benchmarks.streams", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--delays", action="store_true", help="how far events are behind their text")
    parser.add_argument("--cuts", type=int, default=0, help="how many turns of each format are cut at random")
    parser.add_argument("--step", type=int, default=1, help="characters from cut to cut")
    parser.add_argument("--formats", default="", help="only these")
    options = parser.parse_args(arguments)
    only, wrong = set(filter(None, options.formats.split(","))), 0
    if options.delays or options.cuts:
        return bool(delays(options.cuts, sorted(only)))
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
