"""Train the embedded model: a question and its tools → a call, in every chat format.

    python -m constrained.default_model.train [--steps 3000] [--stop 2500] [--out weights.safetensors]

Everything is drawn from one seed: tools, questions and values by `questions`, the answer by the format's own grammar
(`ChatFormat.write_call`). What is learned is the answer alone.  A model this small learns to copy only if it often has
to, so half of all names are random syllables, and short formats come more often than long ones.

Measured: 1.05 M parameters; see CARD.md for steps, processor time and what came of it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import torch
from safetensors.torch import save_file

from constrained.formats import ChatFormat

from . import WEIGHTS, load_tokenizer, prompt_of, shaped
from .questions import Example, draw, tables

BATCH, POOL = 16, 32  # sequences of a step; steps that are sorted by length together
RATE, WARM = 2e-3, 100  # highest learning rate, and steps until it is reached; from there it falls to 0


def train(steps: int, stop: int, seed: int, out: Path) -> None:
    """Train for `stop` steps of a schedule of `steps`, saving the weights every 250."""
    tokenizer = load_tokenizer(chat=True)
    torch.manual_seed(seed)
    model = shaped(tokenizer, trained=True)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARM, max(0.02, (steps - step) / (steps - WARM)))
    )
    started, total, tokens = process_time(), 0.0, 0
    for step, (ids, starts) in enumerate(_batches(tokenizer, random.Random(seed)), 1):
        loss = _loss(model, ids, starts)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        total, tokens = total + loss.item(), tokens + ids.numel()
        if step % 50 == 0:
            print(
                f"step {step}  loss {total / 50:.3f}  {tokens:,} tokens  {process_time() - started:.0f} s of "
                f"processor time",
                flush=True,
            )
            total = 0.0
        if step % 250 == 0 or step == stop:
            save(model, out)
        if step == stop:
            return


def save(model: Any, out: Path) -> None:
    """Write the weights in half precision; tied ones once."""
    save_file(
        {name: weight.half().contiguous() for name, weight in model.state_dict().items() if name != "lm_head.weight"},
        out,
    )


def answered(example: Example, chat: ChatFormat) -> str:
    """Return the turn that calls the tool, as the format's grammar writes it."""
    return chat.write_call(example.name, example.arguments, example.tools)


def _batches(tokenizer: Any, chance: random.Random) -> Iterator[tuple[torch.Tensor, list[int]]]:
    """Yield (rows, length) ids, padded on the right, and where each row's answer starts."""
    chats = [ChatFormat.load(name) for name in tables()["formats"]]
    weights = [1.0 / _length(tokenizer, chat) for chat in chats]
    while True:
        pool = [_sequence(tokenizer, chance.choices(chats, weights)[0], chance) for _ in range(BATCH * POOL)]
        pool.sort(key=lambda pair: len(pair[0]))
        cut = [pool[at : at + BATCH] for at in range(0, len(pool), BATCH)]
        chance.shuffle(cut)
        for rows in cut:
            width = max(len(ids) for ids, _ in rows)
            yield (
                torch.tensor([ids + [tokenizer.pad_token_id] * (width - len(ids)) for ids, _ in rows]),
                [start for _, start in rows],
            )


def _sequence(tokenizer: Any, chat: ChatFormat, chance: random.Random) -> tuple[list[int], int]:
    example = draw(chance, own_tools=chat.definition.payload is None)
    prompt = tokenizer(prompt_of(tokenizer, example.question, example.tools, chat.name), add_special_tokens=False)[
        "input_ids"
    ]
    return prompt + tokenizer(answered(example, chat), add_special_tokens=False)["input_ids"], len(prompt)


def _length(tokenizer: Any, chat: ChatFormat) -> int:
    return len(
        tokenizer(
            answered(draw(random.Random(0), own_tools=chat.definition.payload is None), chat), add_special_tokens=False
        )["input_ids"]
    )


def _loss(model: Any, ids: torch.Tensor, starts: list[int]) -> torch.Tensor:
    """Return the mean loss of the answers' tokens; only their logits are computed."""
    targets = ids[:, 1:]
    place = torch.arange(targets.shape[1])[None]
    wanted = (place >= torch.tensor(starts)[:, None] - 1) & (targets != model.config.pad_token_id)
    hidden = model.model(ids[:, :-1], use_cache=False).last_hidden_state
    return torch.nn.functional.cross_entropy(model.lm_head(hidden[wanted]), targets[wanted])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--stop", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name(WEIGHTS))
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    train(asked.steps, asked.stop, asked.seed, asked.out)
