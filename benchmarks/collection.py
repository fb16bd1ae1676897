"""Speed over a collection of schemas: all engines in turns on each, and the tails of all positions together.

    constrained bench --schemas maskbench.jsonl.gz --count 300

The file has a line of JSON for each schema: id, schema, tests (data, valid), as MaskBench has them.  Each engine
compiles it and reads the valid tests; a position is a mask and an advance.  "First test" is what nobody has visited;
ours is read twice more so, after `warm(0.05)` and after `load`; a schema with one test reads it again.  Nothing is kept
from one schema to the next but what belongs to the vocabulary.  Of each position and each compile the fastest of the
repetitions counts; "first ever" is the whole request of the first repetition, which makes what belongs to the
vocabulary. What took an engine 2 s to compile is not repeated for it.  Percentiles are over the schemas that all
engines take.

Memory is what a process grows by when it keeps an engine's constraints of KEPT schemas alive, without and with a text.
"""

from __future__ import annotations

import ctypes
import gc
import gzip
import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from constrained import ConstrainedError, Vocabulary

from . import vocabularies
from .cases import Case
from .engines import Engine, Ours, installed
from .soak import rss
from .speed import PATIENCE, WARM_SECONDS, default_record, machine, write_record

MOST_TESTS, MOST_TOKENS, KEPT = 5, 2_000, 40
SHARES = (50, 90, 99, 99.9)
_PREPARED = ("after warm(0.05)", "after load")  # ours alone has these
_SAME_AS_MAX = frozenset(f"{once} p99.9" for once in ("compile", "request", "first ever", "load"))
Times = dict[str, Any]  # figure → nanoseconds, one or an array of them


def read(path: Path, count: int | None, seed: int = 1) -> list[dict[str, Any]]:
    """Return schemas of a file that have a valid test; at random, where fewer than all are asked for.

    Raises: ConstrainedError: it cannot be read, or holds none.
    """
    rows = [row for row in rows_of(path) if any(test["valid"] for test in row["tests"])]
    if not rows:
        raise ConstrainedError("no schema with a valid test", where=str(path))
    return rows if count is None or count >= len(rows) else random.Random(seed).sample(rows, count)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return what a file of schemas holds.

    Raises: ConstrainedError: it cannot be read.
    """
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return [{"id": row["id"], "schema": row["schema"], "tests": [*map(_test, row["tests"])]} for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConstrainedError("cannot read the schemas", where=str(path), because=str(error)[:200]) from error


def _test(test: dict[str, Any]) -> dict[str, Any]:
    return {"data": test["data"], "valid": test["valid"]}


def main(path: Path, count: int | None, *, record: Path | None = None, repetitions: int = 3) -> None:
    """Measure, print a table and the ratios, and write the dated record."""
    rows = read(path, count)
    vocabulary = vocabularies.llama3() or vocabularies.embedded()
    engines = installed(vocabulary)
    meta = machine(f"{vocabulary.size:,} ids", vocabulary, engines)
    # first, as what a run leaves free would be used again, and not be seen
    memory = {engine.name: grown(engine, vocabulary, rows) for engine in engines}
    found, errors = measure(engines, vocabulary, rows, repetitions)
    summary = summarise(engines, rows, found, errors, memory)
    print_tables(meta, summary)
    folder = record or default_record()
    if folder is not None:
        write_record(folder, "collection", {**meta, "file": path.name, "schemas": len(rows)}, summary)


def measure(
    engines: Sequence[Engine], vocabulary: Vocabulary, rows: Sequence[dict[str, Any]], repetitions: int
) -> tuple[dict[tuple[int, str], Times], dict[tuple[int, str], str]]:
    """Return the fastest times of each schema and engine, and why an engine did not take one."""
    found: dict[tuple[int, str], Times] = {}
    errors: dict[tuple[int, str], str] = {}
    for repetition in range(repetitions):
        for number, row in enumerate(rows):
            turn = (number + repetition) % len(engines)
            texts = [json.dumps(test["data"], ensure_ascii=False) for test in row["tests"] if test["valid"]]
            for engine in (*engines[turn:], *engines[:turn]):
                key = number, engine.name
                if key in errors or (key in found and found[key]["compile"] > PATIENCE / 4):
                    continue
                gc.collect()
                gc.disable()
                try:
                    times = _timed(engine, vocabulary, Case(row["id"], row["schema"]), texts[:MOST_TESTS])
                    known = found.get(key, times | {"first ever": times["request"]})
                    found[key] = {figure: np.minimum(past, times.get(figure, past)) for figure, past in known.items()}
                except Exception as error:  # a peer's refusal is a result, whatever its type
                    errors[key] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                finally:
                    gc.enable()
            if number % 50 == 49:
                print(f"repetition {repetition + 1}: {number + 1} of {len(rows)}", file=sys.stderr)
    return {key: times for key, times in found.items() if key not in errors}, errors


def _timed(engine: Engine, vocabulary: Vocabulary, case: Case, texts: Sequence[str]) -> Times:
    tokens = [vocabulary.tokenize(text.encode())[:MOST_TOKENS] for text in texts]
    engine.forget()
    compiled, took = _clocked(lambda: engine.compile(case))
    times: Times = {"compile": took, "first test": _read(engine, compiled, tokens[0])}
    times["request"] = took + times["first test"].sum()
    times["later tests"] = np.concatenate([_read(engine, compiled, more) for more in (tokens[1:] or tokens)])
    return times | _prepared(engine, case, tokens[0]) if isinstance(engine, Ours) else times


def _prepared(engine: Ours, case: Case, tokens: Sequence[int]) -> Times:
    """Return the times of the first test where something was done before it."""
    times: Times = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "c.json")
        times["after warm(0.05)"] = _read(engine, engine.warmed(case, WARM_SECONDS), tokens)
        engine.saved(case, path, WARM_SECONDS)
        loaded, times["load"] = _clocked(lambda: engine.load(path))
        times["after load"] = _read(engine, loaded, tokens)
    return times


def _clocked(make: Callable[[], Any]) -> tuple[Any, int]:
    started = perf_counter_ns()
    made = make()
    return made, perf_counter_ns() - started


def _read(engine: Engine, compiled: Any, tokens: Sequence[int]) -> Any:
    """Return the nanoseconds of a mask and an advance at each position."""
    matcher, found = engine.start(compiled), []
    for token in tokens:
        started = perf_counter_ns()
        engine.mask(matcher)
        masked = perf_counter_ns()
        if not engine.allows(token):
            raise AssertionError("a mask forbids a valid test")
        again = perf_counter_ns()
        engine.advance(matcher, token)
        found.append(masked - started + perf_counter_ns() - again)
    return np.array(found)


def grown(engine: Engine, vocabulary: Vocabulary, rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Return the megabytes that a constraint takes, and with a text read, on average; of what the engine takes."""
    engine.forget()
    gc.collect()
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)  # for the same reason
    kept, before = [], rss()
    for row in rows[:KEPT]:
        try:
            kept.append((engine.compile(Case(row["id"], row["schema"])), row))
        except Exception:  # a refusal is counted elsewhere
            continue
    gc.collect()
    alone, matchers = rss() - before, []
    for compiled, row in kept:
        matchers.append(engine.start(compiled))
        text = next(json.dumps(test["data"], ensure_ascii=False) for test in row["tests"] if test["valid"])
        for token in vocabulary.tokenize(text.encode())[:MOST_TOKENS]:
            engine.mask(matchers[-1])
            if not engine.allows(token):
                break
            engine.advance(matchers[-1], token)
    count = max(len(kept), 1) * 1e6
    return round(alone / count, 4), round((rss() - before) / count, 4)


def summarise(
    engines: Sequence[Engine],
    rows: Sequence[dict[str, Any]],
    found: dict[tuple[int, str], Times],
    errors: dict[tuple[int, str], str],
    memory: dict[str, tuple[float, float]],
) -> list[dict[str, Any]]:
    """Return a row for each engine: microseconds over the schemas that all of them take."""
    common = [number for number in range(len(rows)) if all((number, engine.name) in found for engine in engines)]
    summary = []
    for engine in engines:
        wrong = sum(name == engine.name and "AssertionError" in why for (_, name), why in errors.items())
        refused = sum(name == engine.name for _, name in errors) - wrong
        row: dict[str, Any] = {"engine": engine.name, "taken": len(rows) - wrong - refused, "wrong": wrong}
        row |= {"refused": refused, "common": len(common)}
        row |= {"MB": memory[engine.name][0], "MB read": memory[engine.name][1]}
        pooled: dict[str, list[Any]] = defaultdict(list)
        for number in common:
            for figure, times in found[number, engine.name].items():
                pooled[figure].append(np.atleast_1d(times))
        for figure, parts in pooled.items():
            values = np.concatenate(parts) / 1e3
            row |= {f"{figure} p{share:g}": round(float(np.percentile(values, share)), 2) for share in SHARES}
            row |= {f"{figure} max": round(float(values.max()), 1), f"{figure} avg": round(float(values.mean()), 2)}
        slowest = [(round(float(found[number, engine.name]["first test"].max()) / 1e3), number) for number in common]
        row["slowest"] = [(took, rows[number]["id"]) for took, number in sorted(slowest, reverse=True)[:8]]
        summary.append(row)
    return summary


def print_tables(meta: dict[str, Any], summary: Sequence[dict[str, Any]]) -> None:
    """Print every figure of every engine, and ours over each peer's."""
    console = Console(width=None if Console().is_terminal else 150, markup=False, highlight=False, emoji=False)
    console.print(f"{meta['machine']}; load {meta['load']}; {meta['date']}")
    console.print(f"{summary[0]['common']} schemas that all engines take, µs")
    ours, *peers = summary
    table = Table("figure", *(row["engine"] for row in summary), *(f"× {peer['engine']}" for peer in peers))
    for figure in [name for name in ours if name not in ("engine", "slowest", "common")]:
        if figure in _SAME_AS_MAX:
            continue
        base = next((name for name in _PREPARED if figure.startswith(name)), None)
        named = figure.replace(base, "first test") if base else figure  # the peers have no such thing
        theirs = [peer.get(named) for peer in peers]
        ratios = [f"{ours[figure] / value:.3g}" if value else "-" for value in theirs]
        cells = [f"{value:,}" if value is not None else "-" for value in (ours[figure], *theirs)]
        table.add_row(figure, *cells, *ratios)
    console.print(table)
