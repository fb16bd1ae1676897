"""Does everything that a random model finishes under a format's grammar parse, and fit its tool's schema?

The embedded model, whose weights are random, writes under every format's grammar: greedy, sampled at temperature 1 and
5, with four beams, and in left-padded batches.  Every finished text must be read by the format's parser, strictly;
every call's arguments must be valid for `jsonschema`, an implementation that shares nothing with ours; JSON calls must
be read by `json.loads`, Python calls by `ast`, and calls between tags by regular expressions as published readers have
them.  As text, by its ids and for the published readers a turn says the same, and what was read is written again to the
letter (`forged.differences`).  A generation that the length limit cut is a beginning of a word, which the matcher
confirms, and is counted apart.

    python -m constrained.benchmarks.always_valid [--finished 200] [--formats hermes,chatglm3] [--dice llama3]
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle, product
from typing import Any

import jsonschema
import numpy as np
import torch
from constrained.conform.verdicts import same
from constrained.default_model import load

from constrained import ChatFormat, ConstrainedError, Constraint, Rejected, Vocabulary, compile

from . import vocabularies
from .forged import differences
from .tool_sets import tool_sets

MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "temperature 1": {"do_sample": True, "temperature": 1.0, "top_k": 0, "num_return_sequences": 4},
    "temperature 5": {"do_sample": True, "temperature": 5.0, "top_k": 0, "num_return_sequences": 4},
    "4 beams": {"do_sample": False, "num_beams": 4},
    "padded batch": {"do_sample": True, "temperature": 1.0, "top_k": 0},
}
PAIRS = (  # a member between tags: its name, its value
    r"<arg_key(?::\w+)?>(.*?)</arg_key(?::\w+)?>\s*<arg_value(?::\w+)?>(.*?)</arg_value(?::\w+)?>",
    r"<ifm\|arg_key>(.*?)</ifm\|arg_key>\s*<ifm\|arg_value>(.*?)</ifm\|arg_value>",
    r"<parameter=([^>]+)>\n(.*?)\n</parameter>",
    r"<parameter=([^>]+)>(.*?)</parameter>",
    r'<parameter name="([^"]*)">\n(.*?)\n</parameter>',
    r'<parameter name="([^"]*)">(.*?)</parameter>',
    r"<\|tool_arg:start\|>(.*?)<\|tool_arg:value\|>(.*?)<\|tool_arg:end\|>",
    r'<｜(?:DS|GC)ML｜ ?parameter name="([^"]*)" string="(?:true|false)">(.*?)</｜(?:DS|GC)ML｜ ?parameter>',
    r'<atem:parameter name="([^"]*)">(.*?)</atem:parameter>',
    r'<\|open\|>argument key="([^"]*)" type="\w+"<\|sep\|>(.*?)<\|close\|>argument<\|sep\|>',
    r'<cofl:value name="([^"]*)" type="(?:raw|json)">(.*?)</cofl:value>',
    r"\]<\]minimax\[>\[<([^/>]+)>((?:(?!\]<\]minimax).)*?)\]<\]minimax\[>\[</\1>",
)
FENCES = (  # what stands around Python calls, where that is not a list of them
    ("```python\n", "\n```"), ("<|tool_call_start|>", "<|tool_call_end|>"), ("<function_calls>", "</function_calls>"),
)  # fmt: skip
BATCH = {"padded batch": 8}  # prompts of different lengths, in one call
MAX_TOKENS, DRAWN = 256, 60
CUT = 10  # texts that the limit may cut for one that is wanted, before a check gives up
WORDS = (
    "weather",
    "Oslo",
    "tomorrow",
    "please",
    "what",
    "is",
    "the",
    "price",
    "of",
    "a",
    "train",
    "to",
    "北京",
    "and",
    "why",
    "now",
)


@dataclass
class Outcome:
    """What became of one format's generations."""

    finished: Counter[str] = field(default_factory=Counter)  # mode → count
    cut: int = 0
    calls: int = 0
    failures: list[str] = field(default_factory=list)


class Writer:
    """The model with its tokenizer, vocabulary and stop ids."""

    modes = tuple(MODES)

    def __init__(self, seed: int) -> None:
        torch.set_num_threads(1)  # the model is tiny
        self.model, self.tokenizer = load(seed)
        self.tokenizer.padding_side = "left"
        self.vocabulary = Vocabulary.from_tokenizer(self.tokenizer, size=self.model.config.vocab_size)
        self._random = random.Random(seed)

    def write(self, mode: str, constraint: Constraint, stop: Sequence[int]) -> list[list[int]]:
        """Return what follows each prompt of a batch, up to and including the first stop token."""
        prompts = [
            " ".join(self._random.choices(WORDS, k=self._random.randint(1, 9))) for _ in range(BATCH.get(mode, 1))
        ]
        encoded = self.tokenizer(prompts, return_tensors="pt", padding=True)
        output = self.model.generate(
            **encoded, **MODES[mode], max_new_tokens=MAX_TOKENS, logits_processor=[constraint.logits_processor()],
            eos_token_id=list(stop), pad_token_id=self.tokenizer.pad_token_id,
        )
        rows = output[:, encoded["input_ids"].shape[1] :].tolist()
        return [_up_to_stop(row, stop) for row in rows]


class Dice:
    """A model without opinions: of the allowed tokens each is as likely as any other; what gets long is led to its
    end.
    """

    modes = ("any token",)

    def __init__(self, seed: int, vocabulary: Vocabulary) -> None:
        self.vocabulary, self._random = vocabulary, random.Random(seed)

    def write(self, mode: str, constraint: Constraint, stop: Sequence[int]) -> list[list[int]]:
        """Return one text, up to and including the first stop token."""
        matcher, ids = constraint.matcher(), list[int]()
        bitmask = np.zeros((1, (self.vocabulary.size + 31) // 32), np.int32)
        while len(ids) < DRAWN:
            matcher.fill_mask(bitmask)
            allowed = np.flatnonzero(np.unpackbits(bitmask.view(np.uint8), bitorder="little")[: self.vocabulary.size])
            ids.append(int(self._random.choice(allowed)))
            matcher.advance(ids[-1])
            if ids[-1] in stop and matcher.is_accepting():
                return [ids]
        return [[*ids, *matcher.shortest_completion()]]


def _up_to_stop(row: list[int], stop: Sequence[int]) -> list[int]:
    ends = [position for position, token in enumerate(row) if token in stop]
    return row[: ends[0] + 1] if ends else row


def check_format(writer: Writer | Dice, name: str, wanted: int) -> Outcome:
    """Let the model write until `wanted` texts are finished, over all modes and tool sets."""
    outcome, chat = Outcome(), ChatFormat.load(name)
    stop = [writer.vocabulary.special[token] for token in chat.stop]
    for mode, (tools, constraint) in zip(cycle(writer.modes), _plans(writer, chat)):
        for ids in writer.write(mode, constraint, stop):
            if ids[-1] in stop:
                outcome.finished[mode] += 1
                _check_finished(outcome, chat, writer.vocabulary, ids, tools)
            else:
                outcome.cut += 1
                _check_cut(outcome, constraint, writer.vocabulary, ids)
        if sum(outcome.finished.values()) >= wanted or outcome.cut > CUT * wanted:
            return outcome
    return outcome


def _plans(writer: Writer | Dice, chat: ChatFormat) -> Iterator[tuple[Any, Constraint]]:
    """Yield tools and their constraint for each mode of the model, without end; compiled is what is asked for."""
    constraint = cache(lambda tools, choice: compile(chat.grammar(sets[tools], tool_choice=choice), writer.vocabulary))
    sets = [tools for tools, *_ in tool_sets(chat.name).values()]
    for tools, choice in cycle(product(range(len(sets)), ("auto", "required"))):
        yield from [(sets[tools], constraint(tools, choice))] * len(writer.modes)


def _check_finished(outcome: Outcome, chat: ChatFormat, vocabulary: Vocabulary, ids: list[int], tools: Any) -> None:
    text = vocabulary.decode(ids).decode(errors="replace")
    try:
        message = chat.parse(text, tools=tools, strict=True)
        outcome.failures += [
            f"{because}: {text!r}" for because in differences(chat, chat.name, text, ids, vocabulary, tools)
        ]
        for call in message.tool_calls:
            outcome.calls += 1
            _check_call(text, call.name, call.arguments, tools)
    except (ConstrainedError, AssertionError, jsonschema.ValidationError, SyntaxError, ValueError) as error:
        outcome.failures.append(f"{chat.name}: {text!r}: {error}")


def _check_call(text: str, name: str, arguments: dict[str, Any], tools: Any) -> None:
    schemas = {
        tool["function"]["name"]: tool["function"]["parameters"] for tool in tools or () if isinstance(tool, dict)
    }
    if name not in schemas:
        return  # a tool of the format itself, such as a code interpreter
    jsonschema.validate({**arguments}, {**schemas[name], "additionalProperties": False})
    found = (
        _json_call(text, arguments)
        or _json_call(_quoted(text), arguments)
        or _tagged_call(text, arguments)
        or _nested_call(text, arguments)
        or _python_call(text, arguments)
    )
    assert found, f"neither json nor ast nor tags hold {name}({arguments})"


def _json_call(text: str, arguments: dict[str, Any]) -> bool:
    """Say whether `json` reads an object with these members somewhere in a text."""
    read = json.JSONDecoder().raw_decode
    for brace in (match.start() for match in re.finditer(r"\{", text)):
        try:
            if same(read(text, brace)[0], arguments):
                return True
        except json.JSONDecodeError:
            continue
    return False


def _quoted(text: str) -> str:
    """Return objects with bare keys and strings between tokens, as Gemma writes them, as JSON."""
    parts = text.split("<escape>" if "<escape>" in text else '<|"|>')
    return "".join(
        json.dumps(part) if at % 2 else re.sub(r"([{,])([^\s{},:\[\]]+):", r'\1"\2":', part)
        for at, part in enumerate(parts)
    )


def _tagged_call(text: str, arguments: dict[str, Any]) -> bool:
    """Say whether the members between tags of one family are, one after the other, these arguments: strings as they
    stand, the rest JSON.
    """
    wanted = list(arguments.items())
    for pair in PAIRS:
        members = [match.groups() for match in re.finditer(pair, text, re.DOTALL)]
        for start in range(len(members) - len(wanted) + 1):
            if all(_is_member(member, *item) for member, item in zip(members[start:], wanted, strict=False)):
                return bool(wanted) or "<" in text
    return False


def _is_member(member: tuple[str, ...], key: str, value: Any) -> bool:
    name, text = member[:2]
    if name != key or isinstance(value, str):
        return name == key and text == value
    try:
        return bool(same(json.loads(text), value))
    except ValueError:
        return False


_ELEMENT = re.compile(r"""\]<\]minimax\[>\[<(/?)([^<>]*)()>|<(/?)cofl:value(?: name="([^"]*)")?(?: type="(\w+)")?>""")


def _nested_call(text: str, arguments: dict[str, Any]) -> bool:
    """Say whether elements, some of them inside of others, are these arguments, one after the other."""
    stack: list[list[Any]] = [["", []]]  # of each open element its name, and the elements and texts in it
    found = [stack[0]]
    at = 0
    for match in _ELEMENT.finditer(text):
        closes, name = match[1] or match[4], match[2] or match[5]
        stack[-1][1].append(text[at : match.start()])
        at = match.end()
        if not closes:
            found.append([name, []])
            stack[-1][1].append(found[-1])
            stack.append(found[-1])
        elif len(stack) > 1:
            stack.pop()
    wanted = list(arguments.items())
    for _, parts in found:
        inner = [part for part in parts if isinstance(part, list)]
        for start in range(len(inner) - len(wanted) + 1):
            if all(
                element[0] == key and _is_element(element, value)
                for element, (key, value) in zip(inner[start:], wanted, strict=False)
            ):
                return True
    return False


def _is_element(element: list[Any], value: Any) -> bool:
    inner = [part for part in element[1] if isinstance(part, list)]
    if inner or (isinstance(value, (dict, list)) and not value and not "".join(element[1])):
        if isinstance(value, dict):
            names = [part[0] for part in inner]
            return names == list(value) and all(map(_is_element, inner, value.values()))
        return isinstance(value, list) and len(value) == len(inner) and all(map(_is_element, inner, value))
    return _is_member((element[0] or "", "".join(element[1])), element[0] or "", value)


def _python_call(text: str, arguments: dict[str, Any]) -> bool:
    """Say whether some call in the Python part of a text has these keyword arguments."""
    parts = [text.partition(opening)[2].rpartition(closing)[0] for opening, closing in FENCES if opening in text]
    body = parts[0] if parts else text.rpartition("]")[0] + "]"
    try:
        calls = [node for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Call)]
    except SyntaxError:
        return False
    return any(
        same({word.arg: ast.literal_eval(word.value) for word in call.keywords}, arguments) for call in calls
    )


def _check_cut(outcome: Outcome, constraint: Constraint, vocabulary: Vocabulary, ids: list[int]) -> None:
    matcher = constraint.matcher()
    try:
        for token in ids:
            matcher.advance(token)
    except Rejected as error:
        outcome.failures.append(f"a cut text is no beginning of a word: {vocabulary.decode(ids)!r}: {error}")


def main() -> int:
    """Check the formats named on the command line; return 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--finished", type=int, default=200, help="finished generations per format")
    parser.add_argument("--formats", default=",".join(ChatFormat.names()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--dice",
        choices=("embedded", "llama3", "mistral"),
        help="tokens of this vocabulary drawn at random, in place of the model",
    )
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    names = {"embedded": vocabularies.embedded, "llama3": vocabularies.llama3, "mistral": vocabularies.mistral}
    vocabulary = names[options.dice]() if options.dice else None
    writer = Writer(options.seed) if vocabulary is None else Dice(options.seed, vocabulary)
    failed = 0
    for name in options.formats.split(","):
        outcome = check_format(writer, name, options.finished)
        modes = ", ".join(f"{count} {mode}" for mode, count in outcome.finished.items())
        finished = f"{sum(outcome.finished.values())} finished ({modes})"
        print(
            f"{name}: {finished}, {outcome.calls} calls, {outcome.cut} cut, {len(outcome.failures)} failures",
            flush=True,
        )
        for failure in outcome.failures[:5]:
            print("  " + failure)
        failed += len(outcome.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
