"""Formats derived from the chat templates of a folder: proved, proved with doubts, or refused, and why.

    python -m constrained.benchmarks.derived FOLDER [--conversations 500] [--told TOLD.json]

Reads every .jinja file under the folder.  TOLD.json says what a tokenizer would, by the name of the file:
{"name.jinja": {"special": {"eos_token": "<|end|>"}, "stop": ["<|end|>"]}}.  Prints a table in Markdown.
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from constrained.deriving.derive import CONVERSATIONS, derive

from constrained import ChatFormat
from constrained.errors import ConstrainedError


class Row(NamedTuple):
    """What became of a template: "proved" or "refused", conversations that came out alike, turns that are generated,
    doubts or the reason, and seconds.
    """

    name: str
    verdict: str
    alike: int
    turns: int
    notes: str
    seconds: float


def rows(folder: Path, conversations: int, told: Mapping[str, Any]) -> Iterator[Row]:
    """Yield what becomes of each template in a folder."""
    for path in sorted(folder.rglob("*.jinja")):
        said, begun = told.get(path.name, {}), time.process_time()
        try:
            found = derive(path, ChatFormat.load, said.get("special"), said.get("stop"), conversations)
        except ConstrainedError as error:
            yield Row(path.name, "refused", 0, 0, error.because or error.what, time.process_time() - begun)
            continue
        doubts = ", ".join(what for what, _ in found.format.doubts)
        proof = found.proof
        yield Row(path.name, "proved", proof.alike, proof.turns, doubts, time.process_time() - begun)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS)
    parser.add_argument("--told", type=Path)
    given = parser.parse_args(arguments)
    told = json.loads(given.told.read_text(encoding="utf-8")) if given.told else {}
    counts = Counter[str]()
    print("| template | verdict | alike | turns | doubts or reason | seconds |\n| --- | --- | --- | --- | --- | --- |")
    for row in rows(given.folder, given.conversations, told):
        counts[row.verdict] += 1
        cells = (row.name, row.verdict, row.alike, row.turns, row.notes.replace("|", "\\|"), f"{row.seconds:.1f}")
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    print(f"\n{', '.join(f'{count} {verdict}' for verdict, count in counts.items())}")


if __name__ == "__main__":
    main()
