"""How does time grow with size?  Work of several sizes on a log grid, and the exponent that fits it.

    python -m constrained.benchmarks.exponents [--only NAME]

Time is the processor's, the least of some repetitions, each from nothing but what belongs to the vocabulary.  The
exponent is the slope of log time over log size from the middle of the grid on, as what is small costs what it costs at
any size.  1: each entry takes as long, however many there are.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from constrained import ChatFormat, Grammar, Vocabulary, compile

from . import vocabularies
from .engines import forget_grammars

REPETITIONS = 3
LIMIT = 1.05


class Growth(NamedTuple):
    """Work of one kind: `ready` makes what is to be timed."""

    name: str
    sizes: tuple[int, ...]
    ready: Callable[[Vocabulary, int], Callable[[], Any]]


def _read(vocabulary: Vocabulary, schema: Any, text: str) -> Callable[[], Any]:
    """Return what compiles a schema and makes the masks along a text."""
    return lambda: _walk(compile(Grammar.from_json_schema(schema), vocabulary), text)


def _walk(constraint: Any, text: str) -> Any:
    matcher, bitmask = constraint.matcher(), np.zeros((1, constraint.vocabulary.words), np.int32)
    for token in constraint.vocabulary.tokenize(text.encode()):
        matcher.fill_mask(bitmask)
        matcher.advance(token)
    return matcher


def _tools(count: int) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": f"tool_{at}", "parameters": {
            "type": "object", "properties": {"a": {"type": "string"}, f"b{at}": {"type": "integer"}}}}}
        for at in range(count)
    ]  # fmt: skip


def _words(count: int) -> list[str]:
    return [f"word{at * 7919 % 1_000_003:x}" for at in range(count)]


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def _tagged(count: int) -> dict[str, Any]:
    kinds = [{"type": "string"}, {"type": "integer"}]
    return {"oneOf": [{"type": "object", "required": ["kind", "v"], "properties": {
        "kind": {"const": name}, "v": kinds[at % 2]}} for at, name in enumerate(_words(count))]}  # fmt: skip


def _copied(vocabulary: Vocabulary, count: int) -> Callable[[], Any]:
    matcher = compile({"type": "string"}, vocabulary).matcher()
    matcher.advance(vocabulary.tokenize(b'"')[0])
    letter = vocabulary.tokenize(b"a")[0]
    for _ in range(count):
        matcher.advance(letter)
    return lambda: [matcher.copy() for _ in range(1000)]


def _parsed(_: Vocabulary, count: int) -> Callable[[], Any]:
    text = '<tool_call>\n{"name": "tool_1", "arguments": {"a": "hello", "b1": 12}}\n</tool_call>\n' * count
    known, tools = ChatFormat.load("hermes"), _tools(3)
    return lambda: known.parse(text.rstrip() + "<|im_end|>", tools)


def _keywords(vocabulary: Vocabulary, count: int) -> Callable[[], Any]:
    rules = " | ".join(f'"{word}" NAME ";"' for word in _words(count))
    source = f"start: line+\nline: {rules}\nNAME: /[a-z_][a-z0-9_]*/\n%ignore /[ ]+/"
    return lambda: _walk(compile(Grammar.from_lark(source), vocabulary), f"{_words(1)[0]} alpha; {_words(2)[1]} beta;")


def _constraints(vocabulary: Vocabulary, count: int) -> Callable[[], Any]:
    kinds = [{"type": "string", "maxLength": at % 40} for at in range(count)]
    schemas = [{"type": "object", "properties": {f"k{at}": kind}} for at, kind in enumerate(kinds)]
    return lambda: [compile(Grammar.from_json_schema(schema), vocabulary) for schema in schemas]


GROWTHS = (
    Growth("tools", (30, 100, 300, 1000, 3000), lambda v, n: lambda: compile(
        ChatFormat.load("hermes").grammar(_tools(n)), v)),
    Growth("properties", (30, 100, 300, 1000, 3000), lambda v, n: _read(
        v, {"type": "object", "properties": {word: {"type": "integer"} for word in _words(n)}}, '{"word0": 1, "')),
    Growth("enum", (100, 1000, 10_000, 100_000), lambda v, n: _read(v, {"enum": _words(n)}, '"word0"')),
    Growth("branches", (10, 30, 100, 300, 1000), lambda v, n: _read(v, _tagged(n), '{"kind": "word0", "v": "a"}')),
    Growth("depth", (10, 30, 100, 300), lambda v, n: _read(v, _nested(n), '{"a": ' * n + "1" + "}" * n)),
    Growth("text length", (1000, 10_000, 100_000), lambda v, n: _read(
        v, {"type": "string"}, f'"{"the train leaves " * (n // 3)}"')),
    Growth("copies of n tokens", (1000, 10_000, 100_000), _copied),
    Growth("constraints", (30, 100, 300, 1000), _constraints),
    Growth("parse of calls", (30, 100, 300, 1000, 3000), _parsed),
    Growth("alternatives of a pattern", (100, 300, 1000, 3000, 10_000), lambda v, n: lambda: compile(
        Grammar.from_regex("|".join(_words(n))), v)),
    Growth("keywords of a Lark grammar", (10, 30, 100, 300), _keywords),
)  # fmt: skip


def measure(growth: Growth, vocabulary: Vocabulary, repetitions: int = REPETITIONS) -> tuple[list[float], float]:
    """Return the milliseconds of each size, and the exponent."""
    times = []
    for size in growth.sizes:
        work, least = growth.ready(vocabulary, size), float("inf")
        for _ in range(repetitions):
            forget_grammars(vocabulary)
            gc.collect()
            gc.disable()
            started = process_time()
            work()
            least = min(least, 1e3 * (process_time() - started))
            gc.enable()
        times.append(least)
    half = len(times) // 2
    slope = np.polyfit(np.log(growth.sizes[half:]), np.log(np.maximum(times[half:], 1e-6)), 1)[0]
    return times, float(slope)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if something grows faster than its size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="part of a name")
    options = parser.parse_args(arguments)
    vocabulary = vocabularies.llama3() or vocabularies.embedded()
    worst = 0.0
    for growth in GROWTHS:
        if options.only in growth.name:
            times, slope = measure(growth, vocabulary)
            worst = max(worst, slope)
            cells = "  ".join(f"{size:,}: {time:,.2f}" for size, time in zip(growth.sizes, times, strict=True))
            print(f"{growth.name:28} {slope:5.2f}{' !' if slope > LIMIT else '  '}  ms {cells}", flush=True)
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
