"""Does every text that is written with a budget of tokens end as a word, whatever the budget from the least to 30 more?

Random choices under the masks of `matcher(budget=n)`, first of any allowed token, then of those that do not end the
word as long as there are any, so that the budget is used up; then the embedded model, whose weights are random: greedy,
sampled hot, with four beams, and in left-padded batches whose rows have different budgets.  Every text must be a whole
word of at most n tokens; texts of schemas must be valid for `jsonschema`, texts of formats are read by the format's
parser.

    python -m constrained.benchmarks.always_finished [--formats hermes,chatglm3] [--step 1] [--without-model]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema
import numpy as np

from constrained import ChatFormat, Constraint, Grammar, Vocabulary, compile
from constrained.default_model import WIDTH, load

from .tool_sets import tool_sets

_NODE = {
    "type": "object",
    "properties": {"v": {"enum": ["hello", "zz"]}, "next": {"$ref": "#/$defs/n"}},
    "required": ["v"],
}
SCHEMAS: dict[str, Any] = {
    "anything": True,
    "integer": {"type": "integer", "minimum": -20, "maximum": 1_000_000},
    "multiple": {"type": "integer", "multipleOf": 7, "minimum": 15, "maximum": 9999},
    "string": {"type": "string", "minLength": 3, "maxLength": 9},
    "pattern": {"type": "string", "pattern": "^[a-z]{3}-\\d+$"},
    "date-time": {"type": "string", "format": "date-time"},
    "open object": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["a", "b"],
    },
    "closed object": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"enum": ["celsius", "f"]},
            "days": {"type": "integer", "minimum": 0, "maximum": 99},
        },
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
    "counted members": {
        "type": "object",
        "minProperties": 2,
        "maxProperties": 3,
        "additionalProperties": {"type": "boolean"},
    },
    "dependent": {
        "type": "object",
        "properties": {"a": {"const": 1}, "b": {"type": "string"}, "c": {"type": "null"}},
        "required": ["a"],
        "dependentRequired": {"a": ["c"]},
        "additionalProperties": False,
    },
    "recursion": {"$ref": "#/$defs/n", "$defs": {"n": _NODE}},
    "array": {"type": "array", "items": {"type": "integer", "minimum": -99, "maximum": 9}, "minItems": 3},
    "distinct strings": {"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": True},
    "distinct numbers": {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": 999},
        "minItems": 3,
        "uniqueItems": True,
    },
    "distinct choices": {"type": "array", "items": {"enum": ["a", "bb", "c" * 40]}, "minItems": 3, "uniqueItems": True},
    "tuple": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}], "items": False, "minItems": 2},
    "contains": {"type": "array", "contains": {"const": "needle"}, "items": {"type": ["string", "null"]}},
    "long choice": {"anyOf": [{"type": "boolean"}, {"type": "string", "minLength": 60}]},
    "condition": {
        "type": "object",
        "properties": {"k": {"enum": ["s", "n"]}, "v": True},
        "required": ["k", "v"],
        "additionalProperties": False,
        "if": {"properties": {"k": {"const": "s"}}},
        "then": {"properties": {"v": {"type": "string"}}},
        "else": {"properties": {"v": {"type": "null"}}},
    },
    "many required": {
        "type": "object",
        "properties": {f"p{i}": {"type": "boolean"} for i in range(12)},
        "required": [f"p{i}" for i in range(12)],
        "additionalProperties": False,
    },
}
MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "temperature 5": {"do_sample": True, "temperature": 5.0, "top_k": 0},
    "4 beams": {"do_sample": False, "num_beams": 4},
}


@dataclass(frozen=True)
class Case:
    """A constraint and what has to hold of its words."""

    name: str
    constraint: Constraint
    schema: Any = None
    chat: ChatFormat | None = None

    def fault(self, ids: Sequence[int], budget: int) -> str | None:
        """Return what is wrong with a text of `budget` tokens at most, None: nothing."""
        matcher = self.constraint.matcher()
        for token in ids:
            matcher.advance(token)
        if not (matcher.is_accepting() or matcher.is_finished()):
            return f"cut: {matcher.text()!r}"
        stop, named = self.constraint.vocabulary.stop, self.constraint.grammar.specials
        words = [token for token in ids if token not in stop or self.constraint.vocabulary.names.get(token) in named]
        if len(words) > budget:
            return f"{len(words)} tokens, the budget was {budget}"
        if self.chat is None:
            text = self.constraint.vocabulary.decode(token for token in ids if token not in stop)
            try:
                jsonschema.validate(json.loads(text), self.schema)
            except (ValueError, jsonschema.ValidationError) as error:
                return f"not valid: {text!r}: {error}"
        return None


def walk(constraint: Constraint, budget: int, picks: random.Random, *, eager: bool, soft_close: int = 0) -> list[int]:
    """Return tokens chosen at random under the masks; eager: the word goes on as long as it may."""
    matcher, vocabulary = constraint.matcher(budget=budget, soft_close=soft_close), constraint.vocabulary
    row = np.zeros((1, vocabulary.words), np.int32)
    while not matcher.is_finished():
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        longer = [token for token in allowed if token not in vocabulary.stop]
        if not allowed or (not longer and not matcher.constraint.grammar.specials):
            break
        matcher.advance(picks.choice(longer if eager and longer else allowed))
    return list(matcher.tokens)


def cases(vocabulary: Vocabulary, formats: Sequence[str], schemas: Sequence[str] | None = None) -> Iterator[Case]:
    """Yield the constraints: schemas, then formats with a set of tools, where a call has to be made and where it may
    be.
    """
    for name in SCHEMAS if schemas is None else schemas:
        yield Case(name, compile(Grammar.from_json_schema(SCHEMAS[name]), vocabulary), schema=SCHEMAS[name])
    for name in formats:
        chat = ChatFormat.load(name)
        tools = next(iter(tool_sets(name).values()))[0]
        for choice in ("auto", "required"):
            yield Case(f"{name} {choice}", compile(chat.grammar(tools, tool_choice=choice), vocabulary), chat=chat)


def generated(case: Case, writer: tuple[Any, Any], mode: str, budget: int) -> list[tuple[list[int], int]]:
    """Return what the model writes in one mode, and the budget of each text; one row more with one token more where
    rows may differ.
    """
    import torch

    model, tokenizer = writer
    torch.manual_seed(budget)
    budgets = [budget] if mode == "4 beams" else [budget, budget + 1, budget + 7]
    processor = case.constraint.logits_processor(max_new_tokens=budget)
    if len(budgets) > 1:
        from constrained.engine.constraint import logits_processor

        processor = logits_processor([case.constraint] * len(budgets), max_new_tokens=budgets)
    encoded = tokenizer(["Oslo", "what is the weather", "why"][: len(budgets)], return_tensors="pt", padding=True)
    stop = sorted(case.constraint.vocabulary.stop)
    output = model.generate(
        **encoded,
        **MODES[mode],
        max_new_tokens=max(budgets) + 1,
        logits_processor=[processor],
        eos_token_id=stop,
        pad_token_id=tokenizer.pad_token_id,
    )
    found = []
    for row, most in zip(output[:, encoded["input_ids"].shape[1] :].tolist(), budgets):
        end = next((at + 1 for at, token in enumerate(row) if token in stop), len(row))
        found.append((row[:end], most))
    return found


def check(case: Case, writer: tuple[Any, Any] | None, step: int, picks: random.Random) -> tuple[int, list[str]]:
    """Write with every budget; return how many texts, and what was wrong with them."""
    least, count, faults = case.constraint.min_tokens, 0, []
    for budget in range(least, least + 31, step):
        texts = [
            (walk(case.constraint, budget, picks, eager=eager, soft_close=soft), budget)
            for eager in (False, True)
            for soft in (0, 5)
        ]
        for mode in MODES if writer is not None else ():
            texts += generated(case, writer, mode, budget)
        for ids, most in texts:
            fault = case.fault(ids, most)
            count += 1
            if fault is not None:
                faults.append(f"{case.name}, budget {most}: {fault}")
    return count, faults


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", default=",".join(ChatFormat.names()))
    parser.add_argument("--schemas", default=",".join(SCHEMAS))
    parser.add_argument("--step", type=int, default=1, help="every how many budgets")
    parser.add_argument("--without-model", action="store_true")
    options = parser.parse_args(arguments)
    model, tokenizer = load(0)
    tokenizer.padding_side = "left"
    vocabulary, picks = Vocabulary.from_tokenizer(tokenizer, size=WIDTH), random.Random(0)
    total, wrong = 0, list[str]()
    for case in cases(
        vocabulary, list(filter(None, options.formats.split(","))), list(filter(None, options.schemas.split(",")))
    ):
        began = time.perf_counter()
        count, faults = check(case, None if options.without_model else (model, tokenizer), options.step, picks)
        total, wrong = total + count, wrong + faults
        least = case.constraint.min_tokens
        print(
            f"{case.name:32} at least {least:4} tokens  {count:5} texts  {len(faults):3} wrong  "
            f"{time.perf_counter() - began:6.1f} s",
            flush=True,
        )
    print(*wrong[:20], sep="\n")
    print(f"{total} texts, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
