"""Labelled texts of chat formats → what the readers say of them, and where they disagree with the label.

    python -m constrained.benchmarks.vectors FILE…  [--all]  [--name RENAMED=FORMAT]

A file has one JSON object per line: format, kind, text, tools, options, valid, and, where known, expect (the calls),
canonical and layer; or functions and calls, without a text, as BFCL has them: then the calls are written in every
format of `SPECIFIED` and read again.  Or, of kind "parse", a turn and what is expected of it, in a table of calls,
content and thoughts; of kind "generate", a turn that a grammar with these options generates, or does not.
Checked: the verdict; of valid texts the calls, that the canonical grammar takes exactly the canonical ones, and that a
conversation of a chat template is rendered again to the letter, but for what `TEMPLATES` lists; of others the layer.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ConstrainedError, Rejected
from ..formats import ChatFormat, Message, ToolCall

SPECIFIED = (
    "chatglm3", "hermes", "internlm2", "internlm2-legacy", "llama3.1-combined", "llama3.1-function", "llama3.1-json",
    "openchatml", "pythonic",
)  # fmt: skip
TEMPLATES = (  # what chat templates write that is rendered otherwise, from \0 on; why
    ("<\0/|<tool_call\0>", "a tag in a string of a call; rendered, it is escaped, so that no reader finds it"),
    ("\0(True|False|None)", "a value is spelled as Python does; rendered, it is JSON"),
    ("<｜\0end▁of▁sentence｜>", "a token ends what a user says, as llama.cpp has it; the vendor has none"),
    ("## Return of \0call", "results have ids that no call has, and a backslash and an n before their text"),
    ('\\{"content": \0[^"]', "a result is printed bare that is no JSON; the tokenizer's own code writes a string"),
    (r"<\|turn>model\n\0<\|tool_call>", "the text of a message stands behind its calls"),
)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, gzipped or not."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    for line in text.split("\n"):
        if line.strip():
            yield json.loads(line)


def load(name: str) -> ChatFormat:
    """Return a format by the name that vectors use for it: ``llama31_json`` for ``llama3.1-json``."""
    spelled = name.replace("llama31_", "llama3.1-").replace("_", "-")
    return ChatFormat.load(name if name in ChatFormat.names() else spelled)


def calls_of(result: object) -> list[ToolCall]:
    """Return the calls of what `parse` returned."""
    messages = result if isinstance(result, list) else [result]
    found: list[ToolCall] = []
    for message in messages:
        found += message.tool_calls if isinstance(message, Message) else [message]
    return found


def judge(row: dict[str, Any]) -> list[str]:
    """Return in words where the readers disagree with a row."""
    if "format" not in row:
        return [told for name in SPECIFIED for told in _written(name, row["functions"], row["calls"])]
    row = _turn(row)
    chat, options = load(row["format"]), dict(row.get("options") or {})
    arguments = {"kind": row["kind"], "tools": row.get("tools"), "prompt": row.get("gen_prompt"), **options}
    try:
        found = chat.parse(row["text"], **arguments, strict=row.get("generated", False))
    except Rejected as error:
        if row["valid"]:
            return [f"refused: {error}"]
        wrong = row.get("layer") is not None and error.layer != row["layer"]
        return [f"layer {error.layer} for {row['layer']}: {error}"] if wrong else []
    if not row["valid"]:
        return [] if row.get("ambiguous") else [f"accepted, though {row.get('layer')}: {row.get('why')}"]
    told = _results(row, found)
    if row["kind"] == "conversation" and "messages" in row:
        told += _rendered(row, chat, found)
    if row.get("canonical"):
        try:
            chat.parse(row["text"], strict=True, **arguments)
        except ConstrainedError as error:
            told.append(f"not canonical: {error}")
    return told


def _turn(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of kind "parse" or "generate" as one of an assistant's turn."""
    if row["kind"] not in ("parse", "generate"):
        return row
    expected = {"calls": None, **(row.get("expect") or {})}
    told = {"expect": expected.pop("calls"), **{key: value for key, value in expected.items() if value is not None}}
    options = dict(row.get("options") or {})
    prompt = {"gen_prompt": options.pop("prompt", None), "options": options}
    return {**row, **told, **prompt, "kind": "assistant_turn", "generated": row["kind"] == "generate"}


def _results(row: dict[str, Any], found: object) -> list[str]:
    """Return where what was read differs from what a valid row expects."""
    told = []
    if row.get("expect") is not None:
        calls = [{key: value for key in wanted if (value := getattr(call, key)) is not None or key == "id"}
                 for call, wanted in zip(calls_of(found), row["expect"], strict=False)]
        if calls != row["expect"] or len(calls_of(found)) != len(calls):
            told.append(f"calls {calls_of(found)} for {row['expect']}")
    if row["kind"] != "assistant_turn" or not isinstance(found, Message):
        return told
    if "thoughts" in row:
        thoughts = "".join(found.thoughts.values()) if found.thoughts else None
        if (thoughts or "") != (row["thoughts"] or ""):
            told.append(f"thoughts {thoughts!r} for {row['thoughts']!r}")
    if "content" in row:
        content = found.content.strip()
        if content not in {(row["content"] or "").strip(), (row.get("content_raw") or "").strip()}:
            told.append(f"content {found.content!r} for {row['content']!r}")
    if row.get("stop") is not None and found.stop != row["stop"]:
        told.append(f"stop {found.stop!r} for {row['stop']!r}")
    return told


def _rendered(row: dict[str, Any], chat: ChatFormat, found: Any) -> list[str]:
    """Return where a conversation of a template is rendered otherwise, for a reason that is not known."""
    text, rendered = row["text"], ""
    for ends in ({}, {"open_ended": True}) if "open_ended" in chat.definition.options else ({},):
        try:
            rendered = chat.render_text(found, row.get("tools"), tool_prompt=False, **ends)
        except ConstrainedError as error:
            if not rendered:
                rendered = f"nothing: {error}"
            continue
        if rendered == text:
            return []
    at = next((at for at, (one, other) in enumerate(zip(text, rendered, strict=False)) if one != other), len(rendered))
    near = f"{text[max(at - 40, 0) : at]}\0{text[at : at + 40]}"
    if any(re.search(pattern, near) for pattern, _ in TEMPLATES):
        return []
    return [f"rendered {rendered[max(at - 30, 0) : at + 30]!r} for {text[max(at - 30, 0) : at + 30]!r}"]


def _written(name: str, tools: list[Any], calls: list[dict[str, Any]]) -> list[str]:
    """Return where a format does not write calls so that they are read again; as one turn, or each as its own."""
    chat = ChatFormat.load(name)
    wanted = [ToolCall(call["name"], call["arguments"]) for call in calls]
    several = chat.definition.calls is not None
    options: dict[str, Any] = {"parallel_tool_calls": True} if several else {}
    told = []
    for turn in [wanted] if several else [[call] for call in wanted]:
        try:
            text = chat.write(Message("", turn), tools, **options)
            read = chat.parse(text, tools, strict=True, **options).tool_calls
        except ConstrainedError as error:
            told.append(f"{name}: {error}")
            continue
        if [(call.name, call.arguments) for call in read] != [(call.name, call.arguments) for call in turn]:
            told.append(f"{name}: {read} for {turn}: {text!r}")
    return told


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="constrained.benchmarks.vectors", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--quiet", action="store_true", help="counts only")
    options = parser.parse_args(arguments)
    disagreements = 0
    for path in options.files:
        started, counts = time.perf_counter(), Counter[str]()
        for row in rows(path):
            told = judge(row)
            counts["rows"] += 1
            counts[f"{row.get('kind', 'calls')} {'agree' if not told else 'differ'}"] += 1
            disagreements += bool(told)
            if told and not options.quiet:
                print(row["id"], repr(row.get("text"))[:300], *told, sep="\n  ")
        summary = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        print(f"{path.name}: {summary}; {time.perf_counter() - started:.1f} s")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
