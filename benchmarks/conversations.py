"""OpenAI's conversations in every format: rendered, read back, and compared with what their dicts say.

    python -m constrained.benchmarks.conversations [--formats hermes,chatglm3]
    python -m constrained.benchmarks.conversations --templates qwen3=Qwen3.jinja glm-4.6=GLM-4.6.jinja

The table, ``tests/corpus/conversations.jsonl``, has a conversation a line, as chat completions have it, behind a line
with their tools.  Compared are texts, thoughts (where a format has them), calls with their arguments, which result
answers which call, and the ids of calls, which the rendering keeps.  What a format cannot hold it refuses by an error,
which the row lists under ``refused``, by a text of the error.

With chat templates, each rendering is read back and given to the model's own template, which must print it again: what
only OpenAI's messages have, such as parts, is out of the way then.  Words that a template puts before the first user's
and a generation prompt that it always prints do not count; where it prints something else, both texts are shown.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from constrained.deriving.template import NotPrinted, Template
from constrained.rendering import render

from constrained import ChatFormat, ConstrainedError
from constrained.formats import Message

_PROMPT = 90  # characters of a generation prompt that a template always prints
TABLE = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "conversations.jsonl"


@lru_cache(maxsize=1)
def table() -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the tools and the conversations."""
    first, *rows = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
    return first["tools"], rows


@dataclass
class Said:
    """What a conversation says; `asked`: by users and the system, in order; `results`: number of a call → its results,
    None: of no call.
    """

    asked: list[tuple[str, str]] = field(default_factory=list)  # who, what
    answers: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    ids: list[str | None] = field(default_factory=list)
    results: dict[int | None, list[str]] = field(default_factory=dict)

    def answer(self, waiting: list[int], text: str, by: str | None, name: str | None) -> None:
        """Add a result: of the waiting call with its id, else with its name, else of the first."""
        named = [at for at in waiting if by is not None and self.ids[at] == by]
        named = named or [at for at in waiting if by is None and self.calls[at][0] == name]
        chosen = next(iter([*named, *waiting]), None)
        waiting[:] = [at for at in waiting if at != chosen]
        self.results.setdefault(chosen, []).append(text)

    def add(self, role: str, text: str) -> None:
        """Add the text of a message that says one."""
        if text and role == "assistant":
            self.answers.append(text)
        elif text:
            self.asked.append((role, text))


def _text(content: Any, kind: str = "text") -> str:
    if isinstance(content, list):
        return "".join(part[kind] for part in content if part["type"] == kind)
    return content or "" if kind == "text" else ""


def said_by(messages: Iterable[Mapping[str, Any]]) -> Said:
    """Return what dicts of chat completions say."""
    said, waiting = Said(), list[int]()
    for message in messages:
        text = _text(message.get("content"))
        if message["role"] in ("tool", "function"):
            said.answer(waiting, text, message.get("tool_call_id"), message.get("name"))
            continue
        said.add(message["role"], text)
        hints = [message.get(key) for key in ("reasoning_content", "reasoning", "thinking")]
        thought = "".join(filter(None, hints)) or _text(message.get("content"), "thinking")
        said.thoughts += [thought] if thought else []
        calls = message.get("tool_calls") or [{"function": call} for call in [message.get("function_call")] if call]
        waiting = [len(said.calls) + at for at in range(len(calls))] if message["role"] == "assistant" else waiting
        for call in calls:
            arguments = call["function"]["arguments"] or "{}"
            value = json.loads(arguments) if isinstance(arguments, str) else arguments
            said.calls.append((call["function"]["name"], value))
            said.ids.append(call.get("id"))
    return said


def said_in(messages: Iterable[Message], roles: Iterable[str]) -> Said:
    """Return what messages say that were read; roles: of results."""
    said, waiting = Said(), list[int]()
    for message in messages:
        if message.role in roles:
            said.answer(waiting, message.content, message.call_id, message.name)
            continue
        said.add(message.role, message.content)
        said.thoughts += [text for text in message.thoughts.values() if text]
        if message.role == "assistant":
            waiting = [len(said.calls) + at for at in range(len(message.tool_calls))]
        said.calls += [(call.name, call.arguments) for call in message.tool_calls]
        said.ids += [call.id for call in message.tool_calls]
    return said


def check(name: str, messages: list[dict[str, Any]], tools: list[Any] | None) -> tuple[str | None, list[str]]:
    """Return by which error a format refuses a conversation, None where it has it; and in words what is read of it that
    it does not say.
    """
    chat = ChatFormat.load(name)
    tools = tools if chat.definition.payload is not None else None  # it calls tools of its own only
    try:
        rendered = render.render(chat, messages, tools, {"tool_prompt": False})
        text = render.text_of(chat, rendered)
    except ConstrainedError as error:
        return str(error), []
    try:
        read = chat.parse(text, tools, kind="conversation")
    except ConstrainedError as error:
        return None, [f"it is rendered, and then {error}"]
    told = [*_differences(chat, said_by(messages), said_in(read, chat.definition.results), rendered.ids)]
    again = chat.render_text([message.to_openai() for message in read], tools, tool_prompt=False)
    return None, told + [f"it is {again!r} on its way to OpenAI and back, not {text!r}"] * (again != text)


def _differences(chat: ChatFormat, wanted: Said, found: Said, ids: Mapping[str, str]) -> Iterable[str]:
    if wanted.asked and not {"system", "developer"} & {*chat.definition.messages.values()}:  # the last user says it
        *before, last = wanted.asked
        wanted.asked = [*sorted(before, key=lambda said: said[0] != "user"), last]
    if not chat.definition.generates_thoughts:
        wanted.thoughts = []
    asked = [[text for _, text in said.asked] for said in (wanted, found)]
    for what, (mine, theirs) in {"texts": asked, "answers": [wanted.answers, found.answers]}.items():
        if mine != theirs and "\n\n".join(mine) != "\n\n".join(theirs):  # what is said in a row may be one message
            yield f"{what} are {theirs}, not {mine}"
    for part in ("thoughts", "calls", "results"):
        if getattr(wanted, part) != getattr(found, part):
            yield f"{part} are {getattr(found, part)}, not {getattr(wanted, part)}"
    pairs = zip(found.ids, wanted.ids, strict=False)
    given = {written: own for written, own in pairs if written is not None and own is not None}
    if {written: own for written, own in given.items() if ids.get(written) != own}:
        yield f"the ids are {ids}, not {given}"


def judge(name: str, row: Mapping[str, Any]) -> list[str]:
    """Return in words where a format does with a conversation what the table does not say."""
    tools, _ = table()
    error, differences = check(name, row["messages"], tools)
    refused = [said for names, said in row.get("refused", {}).items() if name in names.split()]
    if ChatFormat.load(name).definition.payload is None and said_by(row["messages"]).calls:
        refused = ["the format"]  # it calls tools of its own only
    because = next(iter(refused), None)
    if because is not None:
        return [] if error is not None and because in error else [f"it is not refused because {because!r}: {error}"]
    return [error] if error is not None else differences


def against(name: str, source: str, rows: Iterable[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """Return how many renderings of conversations a chat template prints, and where it prints something else."""
    chat, equal, told = ChatFormat.load(name), 0, list[str]()
    begins = (one for one in chat.tokens.values() if re.search(r"begin|bos|startoftext|^<s>$", one, re.IGNORECASE))
    template = Template(source, {"bos_token": next(begins, ""), "eos_token": chat.stop[0]})
    for row in rows:
        try:
            text = chat.render_text(row["messages"])
            read = [message.to_openai() for message in chat.parse(text, kind="conversation", prompt="")]
        except ConstrainedError:
            continue  # (as the row says)
        found = [_difference(text, read, template, as_text=as_text) for as_text in (True, False)]
        equal += None in found
        told += [] if None in found else [f"{row['id']}: {found[1]}"]
    return equal, told


def _difference(text: str, read: Iterable[dict[str, Any]], template: Template, *, as_text: bool) -> str | None:
    """Return what a template prints of messages in place of a text; as_text: arguments are given as JSON."""
    given = [{**message, "content": message["content"] or ""} for message in read]
    for call in [] if as_text else [call for message in given for call in message.get("tool_calls", ())]:
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    first = next((message["content"] for message in given if message["role"] == "user"), "")
    start = text.find(first)
    began = text[start : start + len(first) + 8].rstrip()  # what a user says and the end of it
    try:
        printed = template.render(given)
    except NotPrinted as error:
        return f"it raises {error}"
    ours, its = text[start:].rstrip(), printed[max(printed.find(began), 0) :].rstrip()
    at = next((at for at, pair in enumerate(zip(ours, its)) if pair[0] != pair[1]), min(len(ours), len(its)))
    if at == len(ours) and len(its) - at < _PROMPT:
        return None
    return f"{its[max(at - 20, 0) : at + 40]!r} for {ours[max(at - 20, 0) : at + 40]!r}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n\n")[0], prog="constrained.benchmarks.conversations"
    )
    parser.add_argument("--formats", default=",".join(ChatFormat.names()))
    parser.add_argument("--templates", nargs="*", default=[], metavar="FORMAT=FILE")
    options = parser.parse_args(arguments)
    _, rows = table()
    for name, _, path in (given.partition("=") for given in options.templates):
        equal, told = against(name, Path(path).read_text(encoding="utf-8"), rows)
        print(f"{name}: {equal} equal, {len(told)} not")
        print(*(f"  {line[:300]}" for line in told), sep="\n")
    if options.templates:
        return 0
    wrong = refused = 0
    for name in options.formats.split(","):
        for row in rows:
            told = judge(name, row)
            wrong += bool(told)
            refused += any(name in names.split() for names in row.get("refused", {}))
            for line in told:
                print(f"{name}: {row['id']}: {line[:300]}", flush=True)
    number = len(options.formats.split(","))
    print(f"{len(rows)} conversations in {number} formats: {refused} are refused as the table says, {wrong} are wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
