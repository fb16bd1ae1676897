"""Train the embedded model: a question and its tools → a call, and its result → a sentence, in every chat format; and
a question alone → its values as JSON.

    python -m constrained.default_model.train [--steps 3200] [--stop 3200] [--start FILE] [--out weights.safetensors]

Everything is drawn from one seed: tools, questions and values by `questions`, the answer by the format's own grammar
(`ChatFormat.write`). What is learned is the turn alone.  A model this small learns to copy only if it often has
to, so half of all names are random syllables, and short formats come more often than long ones.

Measured: 1.05 M parameters; see CARD.md for steps, processor time and what came of it.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from constrained.errors import ConstrainedError
from constrained.formats import ChatFormat, Message, ToolCall

from . import WEIGHTS, load_tokenizer, prompt_of, shaped
from .questions import Example, draw, tables

BATCH, POOL = 16, 32  # sequences of a step; steps that are sorted by length together
RATE, WARM = 2e-3, 100  # highest learning rate, and steps until it is reached; from there it falls to 0
TOLD, PLAIN = 0.3, 0.2  # shares of turns that follow a result, and of questions without tools


def train(steps: int, stop: int, seed: int, rate: float, start: Path | None, out: Path) -> None:
    """Train for `stop` steps of a schedule of `steps`, from weights or from none, saving them every 250."""
    tokenizer = load_tokenizer(chat=True)
    torch.manual_seed(seed)
    model = shaped(tokenizer, trained=True)
    if start is not None:
        model.load_state_dict({name: weight.float() for name, weight in load_file(start).items()}, strict=False)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
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


def written(example: Example, chat: ChatFormat, *, is_told: bool) -> str:
    """Return the turn that calls the tool, or the one that follows its result, as the format's grammar writes it; the
    embedded template begins none.
    """
    turn = Message(example.answer) if is_told else Message("", [ToolCall(example.name, example.arguments)])
    return chat.write(turn, example.tools, prompt="")


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
    if chance.random() < PLAIN:
        example = draw(chance)
        prompt, answer = tokenizer(example.question)["input_ids"], json.dumps(example.arguments, ensure_ascii=False)
        return prompt + tokenizer(answer + tokenizer.eos_token, add_special_tokens=False)["input_ids"], len(prompt)
    is_told = chance.random() < TOLD
    while True:
        example = draw(chance, own_tools=chat.definition.payload is None)
        try:
            turn = written(example, chat, is_told=is_told)
            break
        except ConstrainedError:  # Python calls have no argument `from`
            continue
    told = example.called() if is_told else ()
    prompt = tokenizer(
        prompt_of(tokenizer, example.question, example.tools, chat.name, told), add_special_tokens=False
    )["input_ids"]
    return prompt + tokenizer(turn, add_special_tokens=False)["input_ids"], len(prompt)


def _length(tokenizer: Any, chat: ChatFormat) -> int:
    example = draw(random.Random(0), own_tools=chat.definition.payload is None)
    return len(tokenizer(written(example, chat, is_told=False), add_special_tokens=False)["input_ids"])


def _loss(model: Any, ids: torch.Tensor, starts: list[int]) -> torch.Tensor:
    """Return the mean loss of the answers' tokens; only their logits are computed."""
    targets = ids[:, 1:]
    place = torch.arange(targets.shape[1])[None]
    wanted = (place >= torch.tensor(starts)[:, None] - 1) & (targets != model.config.pad_token_id)
    hidden = model.model(ids[:, :-1], use_cache=False).last_hidden_state
    return torch.nn.functional.cross_entropy(model.lm_head(hidden[wanted]), targets[wanted])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3200)
    parser.add_argument("--stop", type=int, default=3200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rate", type=float, default=RATE, help="highest learning rate")
    parser.add_argument("--start", type=Path, help="weights to go on from")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name(WEIGHTS))
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    train(asked.steps, asked.stop, asked.seed, asked.rate, asked.start, asked.out)
