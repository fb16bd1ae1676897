"""Does every text end once, whatever `generate` takes for its end?

`generate` of transformers with a model that throws dice (`dice`), which likes stop tokens, so that most texts end,
writes under schemas and under every format's grammar, with the tokenizer's own `eos_token_id`, which is the stop token
of few formats.  After the first stop token that completes a word nothing may come but padding, and no bytes of text.

On the way two laws are checked at every step: a matcher `is_accepting` exactly where some stop token is allowed, and
nothing is allowed where it `is_finished`.  Texts that are cut after 200 tokens count as texts, not as ended.  Each row
of a batch is a seed of its own.

    python -m constrained.benchmarks.ends [--seeds 200] [--formats hermes,chatglm3] [--schemas integer] [--rows 50]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from constrained.default_model import WIDTH, load

from constrained import ChatFormat, Constraint, Vocabulary

from .always_finished import SCHEMAS, cases

TWELVE = (
    "integer",
    "multiple",
    "pattern",
    "date-time",
    "closed object",
    "dependent",
    "recursion",
    "array",
    "distinct choices",
    "tuple",
    "long choice",
    "condition",
)
MOST_TOKENS = 200


@dataclass
class Tally:
    """What became of one constraint's texts."""

    texts: int = 0
    ended: int = 0
    faults: list[str] = field(default_factory=list)


def follow(constraint: Constraint, ids: Sequence[int], padding: Sequence[int], tally: Tally) -> None:
    """Read a generated row, and note what is wrong with it."""
    matcher, vocabulary = constraint.matcher(), constraint.vocabulary
    row = np.zeros((1, vocabulary.words), np.int32)
    stop = np.array(constraint.stop)
    tally.texts += 1
    for at, token in enumerate(ids):
        if matcher.is_finished():
            tally.ended += 1
            behind = vocabulary.decode(other for other in ids[at:] if other not in padding)
            if behind:
                tally.faults.append(f"{behind!r} behind the end of {matcher.text()!r}")
            return
        matcher.fill_mask(row)
        if bool((row[0, stop >> 5] >> (stop & 31) & 1).any()) != matcher.is_accepting():
            tally.faults.append(
                f"is_accepting() is {matcher.is_accepting()} behind {matcher.text()!r}, against the mask"
            )
        matcher.advance(token)
    if matcher.is_finished():
        tally.ended += 1
        matcher.fill_mask(row)
        if row.any() or not matcher.is_accepting():
            tally.faults.append(f"tokens are allowed behind the end of {matcher.text()!r}")


def check(constraint: Constraint, writer: tuple[Any, Any], seeds: int, rows: int) -> Tally:
    """Let the model write with `seeds` seeds, in batches of `rows`, under the tokenizer's own end of text."""
    import torch

    model, tokenizer = writer
    tally, encoded = Tally(), tokenizer(["Oslo"] * rows, return_tensors="pt")
    for seed in range(0, seeds, rows):
        torch.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that `generate` does not know all stop tokens, which is the point
            output = model.generate(
                **encoded,
                do_sample=True,
                max_new_tokens=MOST_TOKENS,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
                logits_processor=[constraint.logits_processor()],
            )
        for row in output[: seeds - seed, encoded["input_ids"].shape[1] :].tolist():
            follow(constraint, row, [tokenizer.pad_token_id], tally)
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--rows", type=int, default=50, help="rows of a batch")
    parser.add_argument("--formats", default=",".join(ChatFormat.names()))
    parser.add_argument("--schemas", default=",".join(TWELVE))
    options = parser.parse_args(arguments)
    from .dice import dice

    _, tokenizer = load(0)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, size=WIDTH)
    schemas = [name for name in options.schemas.split(",") if name in SCHEMAS]
    texts, ended, wrong = 0, 0, list[str]()
    for case in cases(vocabulary, list(filter(None, options.formats.split(","))), schemas):
        began = time.process_time()
        tally = check(case.constraint, (dice(WIDTH, case.constraint.stop), tokenizer), options.seeds, options.rows)
        texts, ended = texts + tally.texts, ended + tally.ended
        wrong += [f"{case.name}: {fault}" for fault in tally.faults]
        print(
            f"{case.name:32} {tally.texts:5} texts  {tally.ended:5} ended  {len(tally.faults):3} faults  "
            f"{time.process_time() - began:6.1f} s",
            flush=True,
        )
    print(*wrong[:20], sep="\n")
    print(f"{texts} texts, {ended} ended, {len(wrong)} faults")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
