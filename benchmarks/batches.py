"""What does a batch cost whose masks are known?  256 sequences of 64 grammars, beside the peers' own calls for batches.

    python -m constrained.benchmarks.batches [--rows 256] [--grammars 64] [--schemas FILE] [--repetitions 200]

Grammars are tools with different names, or the schemas of a MaskBench file; sequences stand at four places of a text.
The engines take turns, on all cores that they may use; glrmask has no call for batches and fills row by row, as
`row by row` does with ours.  "At once" is one batch behind the other; "paused" is behind 3 ms in which the caller's
core works and all others sleep, as beside a model on an accelerator, so that helpers come late.  Wall time, medians;
"least" is the fastest batch.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from constrained import Rejected, fill_masks

from . import collection, vocabularies
from .cases import Case, text_of, tool
from .engines import Engine, installed

PLACES = 4
PAUSE = 0.003  # seconds
SETTLE = 0.01  # seconds in which threads of the engine before, which look for more work for a while, go to sleep
IN_A_ROW = 20  # batches without a pause, before the next engine's turn
Fill = Callable[[], Any]


def cases_of(path: Path | None, count: int) -> list[Case]:
    """Return schemas of a file, more than are asked for as not every engine takes all, or of tools."""
    if path is None:
        tools = [tool(number)["function"]["parameters"] for number in range(count)]
        instance = json.loads(text_of(Case("", format="hermes", tools=(tool(0),))).split("\n")[1])["arguments"]
        return [Case(str(number), schema, instance) for number, schema in enumerate(tools)]
    rows = collection.read(path, 3 * count)
    return [
        Case(str(number), row["schema"], next(test["data"] for test in row["tests"] if test["valid"]))
        for number, row in enumerate(rows)
    ]


def sequences(
    engine: Engine, cases: Sequence[Case], grammars: int, rows: int, encode: Callable[[str], Any]
) -> list[Any]:
    """Return the matchers of a batch: row i stands at one of four places in the text of grammar i mod 64."""
    compiled = []
    for case in cases:
        try:
            compiled.append((engine.compile(case), encode(text_of(case))))
        except Exception:  # a peer does not take every schema
            continue
        if len(compiled) == grammars:
            break
    found = []
    for row in range(rows):
        grammar, tokens = compiled[row % len(compiled)]
        matcher = engine.start(grammar)
        for token in tokens[: min(len(tokens) - 1, 3 + 7 * (row // len(compiled) % PLACES))]:
            try:
                engine.mask(matcher)
                engine.advance(matcher, token)
            except Rejected:  # a valid text may be written otherwise
                break
        found.append(matcher)
    return found


def fills(engine: Engine, matchers: list[Any], rows: Any) -> dict[str, Fill]:
    """Return the engine's ways to fill a batch."""
    if engine.name == "constrained":
        return {
            "constrained": lambda: fill_masks(matchers, rows),
            "constrained, row by row": lambda: [m.fill_mask(rows, i) for i, m in enumerate(matchers)],
        }
    if engine.name == "llguidance":
        from llguidance.numpy import LLExecutor, fill_next_token_bitmask_par

        executor, placed = LLExecutor(), [(matcher, row) for row, matcher in enumerate(matchers)]
        return {"llguidance": lambda: fill_next_token_bitmask_par(executor, placed, rows)}
    if engine.name == "xgrammar":
        import torch
        import xgrammar

        batch, tensor = xgrammar.BatchGrammarMatcher(max_threads="auto"), torch.from_numpy(rows)
        return {"xgrammar": lambda: batch.batch_fill_next_token_bitmask(matchers, tensor)}
    return {engine.name: lambda: [m.fill_mask(rows[i]) for i, m in enumerate(matchers)]}


def measure(ways: dict[str, Fill], repetitions: int, pause: float) -> dict[str, list[float]]:
    """Return milliseconds of every way, by turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repetitions):
        for name, fill in ways.items():
            time.sleep(SETTLE)
            fill()
            for _ in range(1 if pause else IN_A_ROW):
                until = time.perf_counter() + pause
                while time.perf_counter() < until:
                    pass
                before = time.perf_counter_ns()
                fill()
                times[name].append((time.perf_counter_ns() - before) / 1e6)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--grammars", type=int, default=64)
    parser.add_argument("--schemas", type=Path, help="a MaskBench file; tools where none is given")
    parser.add_argument("--repetitions", type=int, default=200)
    given = parser.parse_args()
    vocabulary = vocabularies.llama3() or vocabularies.embedded()
    cases, ways = cases_of(given.schemas, given.grammars), dict[str, Fill]()
    for engine in installed(vocabulary):
        matchers = sequences(
            engine, cases, given.grammars, given.rows, lambda text: vocabularies.encode(vocabulary, text)
        )
        ways |= fills(engine, matchers, np.zeros((given.rows, vocabulary.words), np.int32))
    print(f"{given.rows} rows of {vocabulary.size:,} tokens, {given.grammars} grammars; milliseconds a batch")
    print_table(*(measure(ways, given.repetitions, pause) for pause in (0.0, PAUSE)))


def print_table(at_once: dict[str, list[float]], paused: dict[str, list[float]]) -> None:
    """Print the least and the medians, and how our call for batches compares."""
    print(f"{'':26}{'least':>8}{'at once':>10}{'ours is':>9}{'paused':>10}{'ours is':>9}")
    for name, times in at_once.items():
        line = f"{name:26}{min(times):8.3f}"
        for kind in (at_once, paused):
            middle = float(np.median(kind[name]))
            line += f"{middle:10.3f}{'× ' + format(float(np.median(kind['constrained'])) / middle, '.2f'):>9}"
        print(line)


if __name__ == "__main__":
    main()
