"""Labelled texts of chat formats → what the readers say of them, and where they disagree with the label.

    python -m constrained.benchmarks.vectors FILE…  [--all]  [--name RENAMED=FORMAT]

A file has one JSON object per line: format, kind, text, tools, options, valid, and, where known, expect (the calls), canonical and layer.
Checked: the verdict; of valid texts the calls, and that the canonical grammar takes exactly the canonical ones; of others the layer.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ConstrainedError, Rejected
from ..formats import ChatFormat, Message, ToolCall


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


def calls_of(result: object) -> list[dict[str, Any]]:
    """Return the calls of what `parse` returned, as rows write them."""
    messages = result if isinstance(result, list) else [result]
    found: list[ToolCall] = []
    for message in messages:
        found += message.tool_calls if isinstance(message, Message) else [message]
    return [{"name": call.name, "arguments": call.arguments} for call in found]


def judge(row: dict[str, Any]) -> list[str]:
    """Return in words where the readers disagree with a row."""
    chat, options = load(row["format"]), dict(row.get("options") or {})
    arguments = {"kind": row["kind"], "tools": row.get("tools"), **options}
    try:
        found = chat.parse(row["text"], **arguments)
    except Rejected as error:
        if row["valid"]:
            return [f"refused: {error}"]
        wrong = row.get("layer") is not None and error.layer != row["layer"]
        return [f"layer {error.layer} for {row['layer']}: {error}"] if wrong else []
    if not row["valid"]:
        return [f"accepted, though {row.get('layer')}: {row.get('why')}"]
    told = []
    if row.get("expect") is not None and (calls := calls_of(found)) != [{k: c[k] for k in ("name", "arguments")} for c in row["expect"]]:
        told.append(f"calls {calls} for {row['expect']}")
    if row.get("canonical"):
        try:
            chat.parse(row["text"], strict=True, **arguments)
        except ConstrainedError as error:
            told.append(f"not canonical: {error}")
    return told


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="constrained.benchmarks.vectors", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--quiet", action="store_true", help="counts only")
    options = parser.parse_args(arguments)
    disagreements = 0
    for path in options.files:
        started, counts = time.perf_counter(), Counter[str]()
        for row in rows(path):
            told = judge(row)
            counts["rows"] += 1
            counts[f"{row['kind']} {'agree' if not told else 'differ'}"] += 1
            disagreements += bool(told)
            if told and not options.quiet:
                print(row["id"], repr(row["text"])[:300], *told, sep="\n  ")
        summary = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        print(f"{path.name}: {summary}; {time.perf_counter() - started:.1f} s")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
