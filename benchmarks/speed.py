"""How fast are compile, masks and advance, next to llguidance, XGrammar and glrmask?

All engines live in one process and take turns on every case, in an order that rotates, so that a change of the
machine's mood hits all of them alike; what counts are the ratios of one run.  Every repetition compiles afresh ("cold":
only what belongs to the vocabulary is warm) and reads the same tokens once cold and several times warm, each time with
a new matcher.  Every mask is checked to allow the token that follows: a fast wrong mask does not count.

Our constraints share the states of their automaton through the vocabulary, so that a fresh compile finds what an
earlier one of the same schema has computed: that is "cold", what a server pays that gets the same tools with every
request.  "Unseen" is what it pays for a schema that nobody has compiled before: the shared states and the schemas are
dropped, and only the masks of text languages stay with the vocabulary, and with a format what another tool has asked of
it, as a server knows its format.  The peers' caches over grammars are emptied before every compile, so that both are
the same for them.  "Warmed" is unseen, but after `Constraint.warm(0.05)`; "loaded" reads what such a constraint has
saved, its time in place of the compile's.

"Whole request" is compile, then a cold mask and an advance per token.  Engines differ in when they work: XGrammar
computes masks while it compiles, llguidance and ours when a generation gets there.

A figure of one position is the fastest of the repetitions, which filters out what else the machine did; percentiles and
averages are over the positions of a case.  The first repetition is not recorded.

A ratio is ours over the better peer at that figure; below 1 means faster.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from constrained import Vocabulary

from . import vocabularies
from .cases import Case, format_cases, schema_cases, text_of
from .engines import Engine, Ours, installed
from .report import print_report

WARM_PASSES = 4
WARM_SECONDS = 0.05
PERCENTILES = (50, 90, 99, 99.9)
PATIENCE = 8e9  # nanoseconds of compile time after which a case is not repeated for an engine
_ANOTHER_TOOL = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}
Samples = dict[str, list[list[int]]]  # figure → one list of nanoseconds per pass, all of the same length


def main(*, quick: bool = False, record: Path | None = None, as_json: bool = False) -> None:
    """Measure, print a table of ratios (or the rows as JSON), and write the dated record."""
    vocabulary = vocabularies.llama3()
    name = "Llama 3"
    if vocabulary is None:
        vocabulary, name = vocabularies.embedded(), "embedded (llama-models is not installed)"
    engines = installed(vocabulary)
    cases = [*schema_cases(), *([] if quick else format_cases())]
    rows = measure(engines, cases, vocabulary, repetitions=1 if quick else 7)
    meta = machine(name, vocabulary, engines)
    folder = record or default_record()
    if folder is not None:
        write_record(folder, "speed", meta, rows)
    if as_json:
        print(json.dumps({"meta": meta, "rows": rows}))
    else:
        print_report(meta, rows, {case.name: case.base for case in cases if case.base})


def measure(
    engines: Sequence[Engine], cases: Sequence[Case], vocabulary: Vocabulary, repetitions: int
) -> list[dict[str, Any]]:
    """Return one row per case and engine: the figures in microseconds, or the error of an engine that refused the
    case.
    """
    samples: dict[tuple[str, str], Samples] = defaultdict(lambda: defaultdict(list))
    errors: dict[tuple[str, str], str] = {}
    tokens = {case.name: _tokens(case, vocabulary) for case in cases}
    # the first is not recorded: what belongs to the vocabulary gets warm in it
    for repetition in range(-1, repetitions):
        if repetition == 0:
            samples.clear()
        for number, case in enumerate(cases):
            turn = (number + repetition) % len(engines)
            for engine in (*engines[turn:], *engines[:turn]):
                key = case.name, engine.name
                if key not in errors and sum(map(sum, samples[key]["compile"])) < PATIENCE:
                    errors.update(
                        {key: reason} if (reason := _run(engine, case, tokens[case.name], samples[key])) else {}
                    )
        print(f"repetition {repetition + 1} of {repetitions}" if repetition >= 0 else "warmed up", file=sys.stderr)
    return [
        _row(case, engine, samples[case.name, engine.name], errors.get((case.name, engine.name)))
        for case in cases
        for engine in engines
    ]


def _tokens(case: Case, vocabulary: Vocabulary) -> list[int]:
    """Return the tokens of a case's text, without the one that stops a turn: the peers have their own."""
    ids = vocabularies.encode(vocabulary, text_of(case))
    return ids[:-1] if case.format else ids


def _run(engine: Engine, case: Case, tokens: Sequence[int], samples: Samples) -> str | None:
    """Add one repetition to the samples; return why it could not be done, if so."""
    gc.collect()
    gc.disable()
    try:
        if isinstance(engine, Ours):  # the peers keep nothing from one compile to the next
            _ours_alone(engine, case, tokens, samples)
        compiled, took = _timed(lambda: engine.compile(case))
        if compiled is None:
            return "cannot be expressed"
        samples["compile"].append([took])
        for turn in range(1 + WARM_PASSES):
            _pass(engine, compiled, tokens, samples, "warm" if turn else "cold")
        _note_whole(samples, took, "cold")
    except Exception as error:  # a peer's refusal is a result, whatever its type
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]
    finally:
        gc.enable()
    return None


def _ours_alone(engine: Ours, case: Case, tokens: Sequence[int], samples: Samples) -> None:
    """Add what our engine does with a schema that it has not seen: warmed, loaded from a file, and last as it is, so
    that what is measured next has been seen.
    """
    _pass(engine, engine.warmed(case, WARM_SECONDS), tokens, samples, "warmed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "constraint.json")
        engine.saved(case, path, WARM_SECONDS)
        compiled, took = _timed(lambda: engine.load(path))
    samples["load"].append([took])
    _pass(engine, compiled, tokens, samples, "loaded")
    _note_whole(samples, took, "loaded")
    engine.forget()
    if case.tools:  # a format is known before its tools are
        engine.mask(engine.start(engine.compile(replace(case, tools=(_ANOTHER_TOOL,)))))
    compiled, took = _timed(lambda: engine.compile(case))
    _pass(engine, compiled, tokens, samples, "unseen")
    _note_whole(samples, took, "unseen")


def _timed(make: Callable[[], Any]) -> tuple[Any, int]:
    started = perf_counter_ns()
    made = make()
    return made, perf_counter_ns() - started


def _note_whole(samples: Samples, took: int, kind: str) -> None:
    """Note what compiling costs together with the first mask, and with all masks and advances of the pass."""
    samples[f"{kind} start"].append([took + samples[f"{kind} mask"][-1][0]])
    samples[f"{kind} request"].append([took + sum(samples[f"{kind} mask"][-1]) + sum(samples[f"{kind} advance"][-1])])


def _pass(engine: Engine, compiled: Any, tokens: Sequence[int], samples: Samples, kind: str) -> None:
    matcher = engine.start(compiled)
    masks: list[int] = []
    advances: list[int] = []
    for position, token in enumerate(tokens):
        started = perf_counter_ns()
        engine.mask(matcher)
        took = perf_counter_ns() - started
        masks.append(took)
        if not engine.allows(token):
            raise AssertionError(f"the mask forbids token {position}")
        started = perf_counter_ns()
        engine.advance(matcher, token)
        advances.append(perf_counter_ns() - started)
    samples[f"{kind} mask"].append(masks)
    samples[f"{kind} advance"].append(advances)


def _row(case: Case, engine: Engine, samples: Samples, error: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {"case": case.name, "engine": engine.name}
    if error:
        return {**row, "error": error}
    for kind in ("cold", "unseen"):
        seen = kind if f"{kind} mask" in samples else "cold"  # the same for the peers
        for figure in ("start", "request"):
            row[f"{kind} {figure}"] = round(min(map(min, samples[f"{seen} {figure}"])) / 1e3, 3)
        row |= {f"{kind} mask {name}": value for name, value in _summary(samples[f"{seen} mask"]).items()}
    if "load" in samples:
        row |= {name: round(min(map(min, samples[name])) / 1e3, 3) for name in ("load", "loaded request")}
        row |= {
            f"{kind} mask {name}": value
            for kind in ("warmed", "loaded")
            for name, value in _summary(samples[f"{kind} mask"]).items()
        }
    row["compile"] = round(min(map(min, samples["compile"])) / 1e3, 3)
    for kind in ("warm mask", "cold advance", "warm advance"):
        row |= {f"{kind} {name}": value for name, value in _summary(samples[kind]).items()}
    return row | {"positions": len(samples["cold mask"][0]), "repetitions": len(samples["compile"])}


def _summary(passes: Sequence[Sequence[int]]) -> dict[str, float]:
    values = np.asarray(passes).min(axis=0) / 1e3
    shares = np.percentile(values, PERCENTILES)
    figures = {f"p{share:g}": value for share, value in zip(PERCENTILES, shares)}
    figures |= {"max": values.max(), "avg": values.mean()}
    return {name: round(float(value), 3) for name, value in figures.items()}


def machine(name: str, vocabulary: Vocabulary, engines: Sequence[Engine]) -> dict[str, Any]:
    """Return what a record says of a run."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "vocabulary": f"{name}, {vocabulary.size:,} ids",
        "engines": {engine.name: engine.version() for engine in engines},
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
        "load": round(os.getloadavg()[0], 2),
        "commit": _commit(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def default_record() -> Path | None:
    """Return this checkout's folder of records; None of an installed copy, and of a tree with changes that no commit
    has, whose figures nobody could make again.
    """
    folder, commit = Path(__file__).parent / "record", _commit()
    return folder if folder.is_dir() and commit is not None and not commit.endswith("-dirty") else None


def write_record(folder: Path, name: str, meta: dict[str, Any], rows: Iterable[dict[str, Any]]) -> None:
    """Write a dated record: a line about the run, and one for each row."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = meta["date"].replace(":", "").replace("+0000", "Z")
    lines = [json.dumps(meta), *map(json.dumps, rows)]
    (folder / f"{name}-{stamp}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
