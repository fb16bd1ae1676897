"""What does a constraint cost in each host?  Space, import, and a step, by length of the sequence and rows.

    python -m constrained.benchmarks.hosts [--vocabulary llama3]

A step is what the host waits for: ids in, masked scores out; in `generate` of transformers, and called by a loop of
one's own, which may change any id, so that all are compared.  Scores of 128,256 tokens are copied and masked in any
case; that alone is the line "copy".  CPU seconds of this process (one thread), the median of the steps.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from constrained.benchmarks.vocabularies import embedded, llama3

import constrained as c
from constrained.grammar.lark import shipped_folder

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["text", "n"],
}
LENGTHS = (0, 1_000, 10_000, 100_000)


def sizes() -> Iterator[tuple[str, float]]:
    """Yield the installed size of this package and of what it cannot do without, megabytes; sources of the kernel in C,
    tests and bytecode left out.
    """
    folders = {Path(c.__file__).parent, Path(__file__).parent, shipped_folder()}
    own = [path for folder in folders for path in folder.rglob("*")]
    kept = {path.resolve() for path in own if path.is_file() and path.suffix not in (".c", ".pyc")}
    yield "constrained, formats and embedded model with it", sum(path.stat().st_size for path in kept) / 1e6
    needed, seen = ["numpy", "lark", "jsonschema", "referencing"], set[str]()
    while needed:
        name = needed.pop(0)
        if name not in seen:
            seen.add(name)
            found = metadata.distribution(name)
            needed += [re.split(r"[^\w.-]", asked)[0] for asked in found.requires or () if ";" not in asked]
            files = [Path(str(found.locate_file(file))) for file in found.files or ()]
            yield name, sum(path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc") / 1e6


def imports() -> Iterator[tuple[str, float]]:
    """Yield what importing takes, milliseconds, each in a process of its own."""
    own, host = "import constrained.integrations.transformers", "import transformers.generation"
    for statement in ("pass", "import constrained", "import constrained; constrained.compile", own, host):
        code = f"import time; t = time.process_time(); {statement}; print((time.process_time() - t) * 1e3)"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            yield statement, float(found.stdout.split()[-1])


def steps(call: Callable[[int], Any], count: int = 60) -> float:
    """Return the median of what one step takes, milliseconds of processor time."""
    taken = []
    for at in range(count):
        before = time.process_time()
        call(at)
        taken.append(time.process_time() - before)
    return float(np.median(taken)) * 1e3


def transformers_steps(constraint: Any, ids: list[int], length: int, rows: int) -> float:
    """Return a step of the logits processor behind so many generated tokens."""
    import torch

    width = constraint.vocabulary.size
    processor = constraint.logits_processor(prompt_length=3)
    scores = torch.randn(rows, width)
    whole = torch.tensor([[1, 2, 3, *ids]] * rows)
    processor(whole[:, : 3 + length], scores)
    return steps(lambda at: processor(whole[:, : 4 + length + at], scores))


class _Clock:
    """A processor that notes when it is called."""

    def __init__(self, times: list[float]) -> None:
        self._times = times

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self._times.append(time.process_time())
        return scores


def generate_steps(constraint: Any, ids: list[int], length: int, rows: int) -> float:
    """Return a step as the loop of `generate` waits for it, with the host's own look at the processor's signature."""
    import torch
    from constrained.benchmarks.dice import dice

    times: list[float] = []
    whole = torch.tensor([[1, 2, 3, *ids[:length]]] * rows)
    dice(constraint.vocabulary.size).generate(
        whole,
        attention_mask=torch.ones_like(whole),
        max_new_tokens=60,
        logits_processor=[_Clock(times), constraint.logits_processor(prompt_length=3), _Clock(times)],
        eos_token_id=list(constraint.stop),
        pad_token_id=0,
    )
    taken = [after - before for before, after in zip(times[::2], times[1::2])]
    return float(np.median(taken[1:])) * 1e3  # the first reads all that is there


def arrays_steps(constraint: Any, ids: list[int], length: int) -> float:
    """Return a step of the processor for hosts without batches (llama-cpp-python, mlx-lm)."""
    from constrained.integrations.llama_cpp import logits_processor

    processor, scores = logits_processor(constraint, prompt_length=3), np.zeros(constraint.vocabulary.size, np.single)
    whole = np.array([1, 2, 3, *ids], np.intc)
    processor(whole[: 3 + length], scores)
    return steps(lambda at: processor(whole[: 4 + length + at], scores))


def cursor_steps(constraint: Any, ids: list[int], length: int) -> float:
    """Return a step of a request in a serving engine: accept a token, fill a row of the mask."""
    from constrained.integrations.servers import Cursor

    cursor, row = Cursor(constraint.matcher()), np.zeros((1, constraint.vocabulary.words), np.int32)
    cursor.accept(ids[:length])

    def step(at: int) -> None:
        cursor.accept([ids[length + at]])
        cursor.fill(row, 0)

    return steps(step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", choices=("llama3", "embedded"), default="llama3")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    vocabulary = (llama3() if given.vocabulary == "llama3" else None) or embedded()
    constraint = c.compile(c.Grammar.from_json_schema(SCHEMA, profile="practical"), vocabulary)
    start = vocabulary.tokenize(b'{"text": "')
    ids = [*start, *(vocabulary.tokenize(b" the quick brown fox") * 30_000)][: LENGTHS[-1] + 100]
    for name, size in sizes():
        print(f"size        {name:52} {size:8.1f} MB")
    for statement, taken in imports():
        print(f"import      {statement:52} {taken:8.1f} ms")
    scores, mask = torch.randn(1, vocabulary.size), torch.zeros(1, vocabulary.size, dtype=torch.bool)
    print(
        f"copy        masked_fill and amax of one row {'':21} "
        f"{steps(lambda _: scores.masked_fill(mask, float('-inf')).amax(dim=-1)):8.3f} ms"
    )
    generate_steps(constraint, ids, 0, 1)  # what a first visit costs stands in `benchmarks.speed`
    for length in LENGTHS:
        figures = {f"generate, {rows} rows": generate_steps(constraint, ids, length, rows) for rows in (1, 8)}
        figures |= {f"own loop, {rows} rows": transformers_steps(constraint, ids, length, rows) for rows in (1, 8)}
        figures["llama-cpp-python, mlx-lm"] = arrays_steps(constraint, ids, length)
        figures["vLLM, SGLang: accept, fill"] = cursor_steps(constraint, ids, length)
        for name, taken in figures.items():
            print(f"step        {name:32} behind {length:8,} tokens {taken:8.3f} ms", flush=True)
    print(json.dumps({"vocabulary": given.vocabulary, "size": vocabulary.size, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
