"""Is what is written the same in every way to write it?

The embedded model writes under 12 grammars, greedily and sampled at temperatures 1 and 5, each with a seed of its own:
in plain `generate`; through Outlines; with what the grammar dictates as drafts (`grammar_candidates`), where forward
passes are counted; and as rows in this process and in one and two actors of Ray.  A host that is not installed is
left out, and said to be.

    python -m constrained.benchmarks.same_output [--without-ray]
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from constrained.default_model import load_trained

from constrained import ChatFormat, Constraint, Grammar, compile

from .always_finished import SCHEMAS
from .tool_sets import tool_sets
from .vocabularies import embedded

FORMATS = ("hermes", "llama3.1-json", "pythonic", "glm-4.6", "deepseek-v3.1", "qwen3-coder")
SCHEMES = ("closed object", "date-time", "recursion", "distinct numbers", "tuple", "pattern")
MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "temperature": 1.0, "top_k": 0},
    "hot": {"do_sample": True, "temperature": 5.0, "top_k": 0},
}
MOST_TOKENS = 120
PROMPT = "What is the weather in Oslo?"
Row = dict[str, Any]


def writer() -> Callable[[Row], Row]:
    """Return what writes a row in this process; the worker of Ray's actors."""
    model, tokenizer = load_trained()

    def write(row: Row) -> Row:
        return {"ids": written(model, tokenizer, constraint_of(row["name"]), row)}

    return write


def constraint_of(name: str) -> Constraint:
    if name in SCHEMAS:
        return compile(Grammar.from_json_schema(SCHEMAS[name]), embedded())
    tools = next(iter(tool_sets(name).values())).tools
    return compile(ChatFormat.load(name).grammar(tools, tool_choice="required"), embedded())


def written(model: Any, tokenizer: Any, constraint: Constraint, row: Row, **options: Any) -> list[int]:
    """Return the ids that `generate` writes behind the question, as the tokenizer's chat template writes it."""
    import torch

    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": PROMPT}], add_generation_prompt=True, tokenize=False
    )
    encoded = tokenizer(asked, return_tensors="pt")
    torch.manual_seed(row["seed"])
    told = constraint.generation_kwargs(max_new_tokens=MOST_TOKENS)
    output = model.generate(**encoded, **told, **MODES[row["mode"]], **options)
    found: list[int] = output[0, encoded["input_ids"].shape[1] :].tolist()
    return found


def by_drafts(rows: Sequence[Row], expected: Sequence[list[int]]) -> tuple[int, dict[str, list[int]]]:
    """Return how many rows are the same with drafts; for each mode, the forward passes without and with them."""
    from constrained.integrations.transformers import grammar_candidates

    model, tokenizer = load_trained()
    passes: list[int] = []
    handle = model.register_forward_pre_hook(lambda *_: passes.append(1))
    same, counts = 0, {mode: [0, 0] for mode in MODES}
    for row, ids in zip(rows, expected, strict=True):
        passes.clear()
        same += written(model, tokenizer, constraint_of(row["name"]), row, custom_generate=grammar_candidates) == ids
        counts[row["mode"]][0] += len(ids)
        counts[row["mode"]][1] += len(passes)
    handle.remove()
    return same, counts


def by_outlines(rows: Sequence[Row], expected: Sequence[list[int]]) -> int:
    """Return how many rows are the same through Outlines."""
    import outlines
    import torch

    from constrained.integrations.outlines import generator

    model, tokenizer = load_trained()
    hosted, same = outlines.from_transformers(model, tokenizer), 0
    for row, ids in zip(rows, expected, strict=True):
        constraint = constraint_of(row["name"])
        torch.manual_seed(row["seed"])
        told = {key: told for key, told in constraint.generation_kwargs().items() if key != "logits_processor"}
        made = generator(hosted, constraint, max_new_tokens=MOST_TOKENS)
        text = made(PROMPT, max_new_tokens=MOST_TOKENS + 1, **told, **MODES[row["mode"]])
        same += text == tokenizer.decode(ids, skip_special_tokens=True)
    return same


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-ray", action="store_true")
    options = parser.parse_args(arguments)
    from constrained.integrations.ray_data import run

    rows = [
        {"name": name, "mode": mode, "seed": seed}
        for seed, (name, mode) in enumerate(product((*FORMATS, *SCHEMES), MODES))
    ]
    name = f"{writer.__module__}:{writer.__name__}"
    if name.startswith("__main__"):
        name = "constrained.benchmarks.same_output:writer"
    expected = [row["ids"] for row in run(rows, name)]
    print(f"{len(rows)} texts of plain generate, {sum(map(len, expected))} tokens")
    worst, counts = by_drafts(rows, expected)
    saved = ", ".join(f"{mode} {passes} for {plain}" for mode, (plain, passes) in counts.items())
    print(f"drafts: {worst} the same; forward passes: {saved}")
    if importlib.util.find_spec("outlines") is None:
        print("Outlines: not installed")
    else:
        same = by_outlines(rows, expected)
        worst = min(worst, same)
        print(f"Outlines: {same} the same", flush=True)
    for actors in () if options.without_ray or importlib.util.find_spec("ray") is None else (1, 2):
        same = sum(row.get("ids") == ids for row, ids in zip(run(rows, name, actors=actors), expected, strict=True))
        worst = min(worst, same)
        print(f"Ray, actors {actors}: {same} the same", flush=True)
    return worst != len(rows)


if __name__ == "__main__":
    sys.exit(main())
