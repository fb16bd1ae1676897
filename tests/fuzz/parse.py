"""Damaged transcripts of every format: each is parsed, or refused with a place, in bounded work.

    python -m tests.fuzz.parse --inputs 10000 --seed 1

The texts are those of the formats' tables with pieces cut out, doubled, moved or replaced.  `parse`, `validate` and
strict parsing raise errors of the tree only, worded in at most 2 KB; the beginning of a text, read with
``partial=True``, is read or `Rejected`, as is the whole.

Left out: what is read from a text, which the tables and the laws of the formats say.
"""

from __future__ import annotations

import argparse
import random
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from constrained import ChatFormat, ConstrainedError
from constrained.errors import LimitExceeded, Rejected, SchemaError
from constrained.work import Budget, metered

UNITS = 1_000_000  # of work for one reading
TABLES = Path(__file__).resolve().parents[1] / "corpus" / "formats"
TOOLS = [
    {"name": "ping", "parameters": {"type": "object", "properties": {}}},
    {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
]
DEBRIS = (
    "<", ">", "</", "{", "}", "[", "]", '"', "\\", "\\u", "\\ud800", "'", "\n", "\0", "\ud800", "é", "😀", "9" * 30, "1e999", "null", "<tool_call>",
    "</tool_call>", "<think>", "</think>", "<|im_end|>", "<|eot_id|>", "</s>", "ping", "weather(", "city=", "name", "arguments", "(" * 50, "[" * 300, " " * 200,
)  # fmt: skip


class Turns:
    """Random texts of formats; the same seed, the same texts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._real: dict[str, list[str]] = {}
        for name in ChatFormat.names():
            path = TABLES / f"{name}.toml"
            rows = tomllib.loads(path.read_text(encoding="utf-8")).get("turn", []) if path.exists() else []
            if texts := [row["text"] for row in rows if isinstance(row.get("text"), str)]:
                self._real[name] = texts

    def next(self) -> tuple[str, str]:
        name = self.random.choice(list(self._real))
        text = self.random.choice(self._real[name])
        for _ in range(self.random.randint(0, 3)):
            at, end = sorted(self.random.randrange(len(text) + 1) for _ in "ab")
            end = min(end, at + 60)
            kind = self.random.randrange(4)
            piece = ("", self.random.choice(DEBRIS), text[at:end] * self.random.randint(2, 4), text[at:end][::-1])[kind]
            text = text[:at] + piece + (text[at:] if kind == 1 else text[end:])
        return name, text


def check(format_name: str, text: str, tools: Any, *, cut: int) -> str:
    """Return the class of outcome of `parse`: "read", "refused" or "limit"; the other readings raise nothing
    unexpected.

    Raises: AssertionError: a law is broken.  Any exception outside the tree passes through.
    """
    chat = ChatFormat.load(format_name)
    outcome = _outcome(lambda: chat.parse(text, tools))
    _outcome(lambda: chat.parse(text, tools, strict=True))
    _outcome(lambda: chat.validate(text, "assistant_turn", tools, all_errors=True))
    for beginning in (text[:cut], text):
        _outcome(lambda beginning=beginning: chat.parse(beginning, tools, partial=True))  # type: ignore[misc]
    return outcome


def _outcome(reading: Any) -> str:
    try:
        with metered(Budget(UNITS)):
            reading()
    except ConstrainedError as error:
        # the last: tools that the format cannot call
        assert isinstance(error, (Rejected, LimitExceeded, SchemaError)), repr(error)
        assert len(str(error).encode("utf-8", "backslashreplace")) <= 2048, f"a message of {len(str(error))} characters"
        return "limit" if isinstance(error, LimitExceeded) else "refused"
    return "read"


def run(count: int, seed: int) -> Counter[str]:
    """Check `count` texts and return how often each outcome came."""
    turns, outcomes = Turns(seed), Counter[str]()
    for number in range(count):
        name, text = turns.next()
        tools = turns.random.choice((TOOLS, TOOLS, None))
        cut = turns.random.randrange(len(text) + 1)
        try:
            outcomes[check(name, text, tools, cut=cut)] += 1
        except Exception:
            print(
                f"seed {seed}, text {number}: {name} {text!r}, cut at {cut}, {'with' if tools else 'without'} tools",
                file=sys.stderr,
            )
            raise
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000, help="texts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(dict(sorted(run(options.inputs, options.seed).items())))


if __name__ == "__main__":
    main()
