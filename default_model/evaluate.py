"""Evaluation of the trained model: questions answered in every format, without and with the grammar.

    python -m constrained.default_model.evaluate
        [--count 24] [--temperature 0] [--formats hermes,pythonic] [--json FILE]

Half of the questions are new ones about tools that the model was trained with, half are about tools, words and values
that were held out. Of each turn is counted, with 95 % intervals (Wilson):

    read     the format's parser reads a call
    valid    the call names one of the tools, and its arguments fit the tool's schema
    right    it is the call that was asked for: same tool, same arguments
    told     after that call and its result, any turn being allowed, the sentence that it was trained to say

A turn that is not finished within 260 tokens counts as none of them, and is counted apart.  Numbers of the shipped
weights: CARD.md.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from constrained.api import Constraint, compile, logits_processor
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import Rejected, SchemaError
from constrained.formats import ChatFormat, Message

from . import load_trained, prompt_of
from .questions import Example, draw, is_ambiguous

MOST = 260  # tokens of a turn
SHORT = ("interpreter", "text_before_call")  # options that are off: what a question asks for is one call
MEASURES = ("read", "valid", "right", "told")


@dataclass(slots=True)
class Tally:
    """What became of some turns."""

    turns: int = 0
    finished: int = 0
    read: int = 0
    valid: int = 0
    right: int = 0
    told: int = 0

    def __iadd__(self, other: Tally) -> Tally:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def shown(self, measure: str) -> str:
        low, high = wilson(getattr(self, measure), self.turns)
        return f"{getattr(self, measure) / max(self.turns, 1):4.0%} {low:.0%}-{high:.0%}"


def wilson(hits: int, tries: int) -> tuple[float, float]:
    """Return the 95 % interval of a share.  Source: Wilson 1927."""
    if not tries:
        return 0.0, 1.0
    z, share = 1.959964, hits / tries
    middle, half = share + z * z / (2 * tries), z * ((share * (1 - share) + z * z / (4 * tries)) / tries) ** 0.5
    return max(0.0, (middle - half) / (1 + z * z / tries)), min(1.0, (middle + half) / (1 + z * z / tries))


class Exam:
    """The model, and the questions that it is asked in each format."""

    def __init__(self, count: int, seed: int, temperature: float) -> None:
        torch.set_num_threads(1)  # the model is small
        self.model, self.tokenizer = load_trained()
        self.tokenizer.padding_side = "left"
        self.vocabulary = Vocabulary.from_tokenizer(self.tokenizer, size=self.model.config.vocab_size)
        self._count, self._seed, self._temperature = count, seed, temperature

    def sit(self, name: str) -> dict[tuple[bool, bool], list[Tally]]:
        """Return what came of one format's questions: (tools held out?, with the grammar?) → a tally of each, in the
        same order without and with.
        """
        chat, chance = ChatFormat.load(name), random.Random(f"{self._seed} {name}")
        own = chat.definition.payload is None
        asked = [(held, self._clear(chat, chance, held, own)) for held in (False, True) for _ in range(self._count)]
        found = {}
        for constrained in (False, True):
            examples = [example for _, example in asked]
            calls, answers = (self._turns(chat, examples, constrained, told) for told in (False, True))
            for held in (False, True):
                found[held, constrained] = [
                    self._judged(chat, example, call, answer)
                    for (is_held, example), call, answer in zip(asked, calls, answers, strict=True) if is_held == held
                ]
        return found

    def _turns(self, chat: ChatFormat, examples: Sequence[Example], constrained: bool, told: bool) -> list[list[int]]:
        prompts = [
            prompt_of(self.tokenizer, example.question, example.tools, chat.name, example.called() if told else ())
            for example in examples
        ]
        encoded = self.tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
        stop = [self.vocabulary.special[token] for token in chat.stop] + list(self.vocabulary.stop)
        choice_of_tools = "auto" if told else "required"
        constraints = [self.constraint(chat, example, choice_of_tools) for example in examples] if constrained else []
        choice = (
            {"do_sample": True, "temperature": self._temperature, "top_k": 0}
            if self._temperature
            else {"do_sample": False}
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            output = self.model.generate(
                **encoded,
                **choice,
                max_new_tokens=MOST,
                logits_processor=[logits_processor(constraints)] if constrained else [],
                eos_token_id=stop,
                pad_token_id=self.tokenizer.pad_token_id,
            )
        return [_until(row, stop) for row in output[:, encoded["input_ids"].shape[1] :].tolist()]

    def constraint(self, chat: ChatFormat, example: Example, tool_choice: str = "required") -> Constraint:
        options: dict[str, Any] = {option: False for option in SHORT if option in chat.definition.options}
        grammar = chat.grammar(
            example.tools, tool_choice=tool_choice, parallel_tool_calls=False, reasoning="none", prompt="", **options
        )
        return compile(grammar, self.vocabulary)

    def _clear(self, chat: ChatFormat, chance: random.Random, held: bool, own: bool) -> Example:
        """Return a question that has one answer, in a format that can carry it: Python calls have no argument
        `from`.
        """
        while True:
            example = draw(chance, held=held, own_tools=own)
            try:
                self.constraint(chat, example)
            except SchemaError:
                continue
            if not is_ambiguous(example):
                return example

    def _judged(self, chat: ChatFormat, example: Example, ids: list[int], answer: list[int]) -> Tally:
        """Return what a call and an answer are; a call that was cut counts as none of the measures."""
        said = self._parsed(chat, answer, example.tools)
        told = int(said is not None and not said.tool_calls and said.content == example.answer)
        if ids[-1] not in [self.vocabulary.special[token] for token in chat.stop]:
            return Tally(turns=1, told=told)
        read, valid = self._parsed(chat, ids, None), self._parsed(chat, ids, example.tools)
        calls = valid.tool_calls if valid is not None else []
        right = len(calls) == 1 and (calls[0].name, calls[0].arguments) == (example.name, example.arguments)
        return Tally(1, 1, int(read is not None and bool(read.tool_calls)), int(bool(calls)), int(right), told)

    def _parsed(self, chat: ChatFormat, ids: list[int], tools: Any) -> Message | None:
        try:
            found: Message = chat.parse(ids, tools, self.vocabulary, prompt="")
        except Rejected:
            return None
        return found


def _until(row: list[int], stop: Sequence[int]) -> list[int]:
    end = next((at for at, token in enumerate(row) if token in stop), len(row) - 1)
    return row[: end + 1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=24, help="questions of each kind and format")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", default=",".join(ChatFormat.names()))
    parser.add_argument("--json", type=Path, help="write the counts there too")
    asked = parser.parse_args(arguments)
    exam, sums, rows = Exam(asked.count, asked.seed, asked.temperature), dict[tuple[bool, bool], Tally](), []
    heads = "".join(f"{f'{measure} {how}':>20}" for measure in MEASURES for how in ("without", "with"))
    print(f"{'format':20}{heads}")
    for name in asked.formats.split(","):
        found = {key: summed(tallies) for key, tallies in exam.sit(name).items()}
        for key, tally in found.items():
            sums.setdefault(key, Tally()).__iadd__(tally)
            rows.append(
                {
                    "format": name,
                    "held": key[0],
                    "constrained": key[1],
                    **{field: getattr(tally, field) for field in Tally.__slots__},
                }
            )
        both = {way: summed(found[held, way] for held in (False, True)) for way in (False, True)}
        print(_line(name, both), flush=True)
    print(_line("known tools", {way: sums[False, way] for way in (False, True)}))
    print(_line("held-out tools", {way: sums[True, way] for way in (False, True)}))
    for way in (False, True):
        total = summed(sums[held, way] for held in (False, True))
        print(
            f"{'with' if way else 'without'} the grammar: {total.finished:,} of {total.turns:,} turns finished; "
            f"{total.finished - total.valid:,} of the finished ones invalid, {total.finished - total.read:,} not even "
            f"read"
        )
    if asked.json:
        asked.json.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")


def summed(tallies: Iterable[Tally]) -> Tally:
    """Return one tally of several."""
    total = Tally()
    for tally in tallies:
        total += tally
    return total


def _line(name: str, found: dict[bool, Tally]) -> str:
    return f"{name:20}" + "".join(f"{found[way].shown(measure):>20}" for measure in MEASURES for way in (False, True))


if __name__ == "__main__":
    main()
