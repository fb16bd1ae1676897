"""Does every text that is written with a budget of tokens end as a word, whatever the budget from the least to 30 more?

20 schemas, every format with a set of tools (a call must be made, or may be), and on request every schema as the
argument of a tool in every format.  For each of these and all 31 budgets: random choices under the masks of
`matcher(budget=n)`, first of any allowed token, then of those that do not end the word as long as there are any, so
that the budget is used up, with and without a soft close; then `generate` of transformers with a model that throws dice
(`dice`): greedy, sampled hot, and with four beams, each time one batch whose 31 rows have a budget each.  Every text
must be a whole word of at most n tokens, and nothing but padding may follow it; texts of schemas must be valid for
`jsonschema`, turns of formats for the format's own strict reader.  At last a budget of 10,000 must leave every mask as
it is.

    python -m constrained.benchmarks.always_finished [--formats hermes,chatglm3] [--schemas tuple] [--inside]
        [--slice 3/8] [--without-model] [--llama3] [--spare 0,1,2,9,30] [--grammars 1000]

--inside: schemas as arguments, in every format.  --slice i/n: every n-th case only, from the i-th.  --llama3: on the
vocabulary of Llama 3.  --spare: fewer budgets.  --grammars: instead of these, so many random Lark grammars whose rules
may be empty and recurse on the left, on the right, and behind what may be empty.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Any

import jsonschema
import numpy as np

from constrained import ChatFormat, Constraint, Grammar, Vocabulary, compile
from constrained.api import logits_processor
from constrained.errors import ConstrainedError, GrammarError, LimitExceeded, UnsupportedSchema

from .tool_sets import tool_sets
from .vocabularies import embedded, llama3

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
    "distinct objects": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
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
    "sampled hot": {"do_sample": True, "temperature": 5.0, "top_k": 0},
    "4 beams": {"do_sample": False, "num_beams": 4},
}
_TERMINALS = ('"("', '")"', '" "', '"ab"', "N")
BUDGETS = 31  # of each constraint, from the least one
UNCHANGED = 30  # masks that are compared with those of a large budget
SHOWN = 5  # faults of one constraint


@dataclass(frozen=True)
class Case:
    """A constraint and what has to hold of its words."""

    name: str
    constraint: Constraint
    schema: Any = None  # with neither, the grammar alone says what a word is
    chat: ChatFormat | None = None
    tools: Any = None

    def fault(self, ids: Sequence[int], budget: int, padding: int | None = None) -> str | None:
        """Return what is wrong with a text of `budget` tokens at most and the padding behind it, None: nothing."""
        matcher, stop = self.constraint.matcher(), self.constraint.vocabulary.stop
        for at, token in enumerate(ids):
            if matcher.is_finished() or (matcher.is_accepting() and not matcher.accepts(token)):
                behind = self.constraint.vocabulary.decode(
                    other for other in ids[at:] if other not in stop and other != padding
                )
                if behind:
                    return f"{behind!r} behind the end of {matcher.text()!r}"
                break
            matcher.advance(token)
        if not (matcher.is_accepting() or matcher.is_finished()):
            return f"cut: {matcher.text()!r}"
        named = self.constraint.grammar.specials
        words = [
            token
            for token in matcher.tokens
            if token not in stop or self.constraint.vocabulary.names.get(token) in named
        ]
        if len(words) > budget:
            return f"{len(words)} tokens, the budget was {budget}"
        if self.chat is None and self.schema is None:
            return None
        text = self.constraint.vocabulary.decode(token for token in words if self.chat is not None or token not in stop)
        try:
            if self.chat is None:
                jsonschema.validate(json.loads(text), self.schema)
            else:
                self.chat.validate(text.decode(), kind="assistant_turn", tools=self.tools, strict=True)
        except (ValueError, jsonschema.ValidationError, ConstrainedError) as error:
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


def cases(
    vocabulary: Vocabulary, formats: Sequence[str], schemas: Sequence[str] | None = None, *, inside: bool = False
) -> Iterator[Case]:
    """Yield the constraints: schemas, then formats with a set of tools, where a call has to be made and where it may
    be; inside: instead of these, each schema as an argument in each format that takes tools of any kind.
    """
    for make in _made(vocabulary, formats, [*(SCHEMAS if schemas is None else schemas)], inside=inside):
        yield make()


def _made(
    vocabulary: Vocabulary, formats: Sequence[str], schemas: Sequence[str], *, inside: bool
) -> Iterator[Callable[[], Case]]:
    """Yield what makes each case, so that a slice need not make the others."""
    if not inside:
        yield from (partial(_of_schema, vocabulary, name) for name in schemas)
    for name in formats:
        if inside:
            if ChatFormat.load(name).definition.payload is not None:  # else its tools are its own
                yield from (partial(_inside, vocabulary, name, schema) for schema in schemas)
        else:
            yield from (partial(_of_format, vocabulary, name, choice) for choice in ("auto", "required"))


def _of_schema(vocabulary: Vocabulary, name: str) -> Case:
    return Case(name, compile(Grammar.from_json_schema(SCHEMAS[name]), vocabulary), schema=SCHEMAS[name])


def _of_format(vocabulary: Vocabulary, name: str, choice: str) -> Case:
    chat, tools = ChatFormat.load(name), next(iter(tool_sets(name).values()))[0]
    constraint = compile(chat.grammar(tools, tool_choice=choice), vocabulary)
    return Case(f"{name} {choice}", constraint, chat=chat, tools=tools)


def _inside(vocabulary: Vocabulary, name: str, schema: str) -> Case:
    chat, definitions = ChatFormat.load(name), SCHEMAS[schema]
    rest = {} if definitions is True else {"$defs": definitions.get("$defs", {})}
    body = definitions if definitions is True else {key: part for key, part in definitions.items() if key != "$defs"}
    parameters = {"type": "object", "properties": {"value": body}, "required": ["value"], **rest}
    tools = [{"name": "write", "description": "Write.", "parameters": parameters}]
    constraint = compile(chat.grammar(tools, tool_choice="required"), vocabulary)
    return Case(f"{name}, {schema}", constraint, chat=chat, tools=tools)


def recursive_grammar(picks: random.Random) -> str:
    """Return a random Lark grammar of rules that may be empty and recurse on the left, on the right, and behind what
    may be empty; some ignore white space.
    """
    names = ["start", *"abcde"[: picks.randint(1, 5)]]

    def symbol() -> str:
        found = picks.choice([*names[1:], *names[1:], *_TERMINALS])
        return found + picks.choice(["", "", "", "?", "*", "+"])

    rules = []
    for name in names:
        alternatives = [" ".join(symbol() for _ in range(picks.randint(0, 4))) for _ in range(picks.randint(1, 3))]
        alternatives[:0] = [picks.choice(_TERMINALS)] if picks.random() < 0.7 else []
        rules.append(f"{name}: " + " | ".join(alternatives))
    return "\n".join([*rules, "N: /[a-z]+/", picks.choice(["", r"%ignore /\s+/"]), ""])


def pieces() -> Vocabulary:
    """Return a vocabulary for `recursive_grammar`: all bytes, and tokens that read across its terminals."""
    texts = [b"".join(found) for count in (2, 3) for found in product([b"(", b")", b" ", b"ab", b"xy"], repeat=count)]
    return Vocabulary([*(bytes([byte]) for byte in range(256)), *texts], special={"<stop>": 999}, stop=[999], size=1000)


def of_grammar(vocabulary: Vocabulary, number: int) -> Case:
    """Return the case of a random recursive grammar.  Raises: GrammarError: it has no word."""
    source = recursive_grammar(random.Random(number))
    return Case(f"grammar {number}", compile(Grammar.from_lark(source), vocabulary))


def generated(case: Case, model: Any, padding: int, mode: str, budgets: Sequence[int]) -> list[list[int]]:
    """Return what the model writes in one batch, a row for each budget."""
    import torch

    torch.manual_seed(budgets[0])
    processor = logits_processor([case.constraint] * len(budgets), max_new_tokens=budgets)
    prompt = torch.full((len(budgets), 1), padding)
    output = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        **MODES[mode],
        max_new_tokens=max(budgets) + 1,
        logits_processor=[processor],
        eos_token_id=sorted(case.constraint.stop),
        pad_token_id=padding,
    )
    found: list[list[int]] = output[:, 1:].tolist()
    return found


def changed(constraint: Constraint, picks: random.Random) -> str | None:
    """Return where a large budget changes a mask on a random walk, None: nowhere."""
    large, plain = constraint.matcher(budget=10_000), constraint.matcher()
    rows = np.zeros((2, constraint.vocabulary.words), np.int32)
    for _ in range(UNCHANGED):
        large.fill_mask(rows, 0)
        plain.fill_mask(rows, 1)
        if (rows[0] != rows[1]).any():
            return f"a budget of 10,000 changes the mask after {plain.text()!r}"
        allowed = np.flatnonzero(np.unpackbits(rows[1].view(np.uint8), bitorder="little")).tolist()
        longer = [token for token in allowed if token not in constraint.stop]
        if not longer:
            break
        token = picks.choice(longer)
        large.advance(token)
        plain.advance(token)
    return None


def check(
    case: Case, model: Any, padding: int, picks: random.Random, spare: Sequence[int] = range(BUDGETS)
) -> tuple[int, list[str]]:
    """Write with every budget; return how many texts, and what was wrong with them.

    model: for `generate`, None: without.  spare: tokens of each budget beyond the least.
    """
    budgets = [case.constraint.min_tokens + more for more in spare]
    texts = [
        (walk(case.constraint, budget, picks, eager=eager, soft_close=soft), budget)
        for budget in budgets
        for eager, soft in ((False, 0), (True, 0), (False, 5), (True, 5))
    ]
    for mode in MODES if model is not None else ():
        texts += zip(generated(case, model, padding, mode, budgets), budgets, strict=True)
    found = [(fault, most) for ids, most in texts if (fault := case.fault(ids, most, padding)) is not None]
    faults = [f"{case.name}, budget {most}: {fault}" for fault, most in found]
    different = changed(case.constraint, picks)
    return len(texts), faults if different is None else [*faults, f"{case.name}: {different}"]


def check_grammars(
    numbers: Iterable[int], spare: Sequence[int] = range(BUDGETS)
) -> tuple[int, int, int, list[str]]:
    """Write words of random recursive grammars with every budget; return how many have words, how many texts there
    were, of how many grammars the least budget is refused, and what was wrong.
    """
    vocabulary, grammars, texts, refused, faults = pieces(), 0, 0, 0, list[str]()
    for number in numbers:
        try:
            case = of_grammar(vocabulary, number)
            least = case.constraint.min_tokens
        except GrammarError:
            continue
        except LimitExceeded:
            refused += 1
            continue
        grammars += 1
        picks = random.Random(number)
        for more in spare:
            for eager, soft in ((False, 0), (True, 0), (True, 5)):
                ids = walk(case.constraint, least + more, picks, eager=eager, soft_close=soft)
                fault, texts = case.fault(ids, least + more), texts + 1
                if fault is not None:
                    faults.append(f"{case.name}, budget {least + more}: {fault}")
    return grammars, texts, refused, faults


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", default=",".join(ChatFormat.names()))
    parser.add_argument("--schemas", default=",".join(SCHEMAS))
    parser.add_argument("--inside", action="store_true", help="schemas as arguments of tools, in every format")
    parser.add_argument("--slice", default="1/1", help="every n-th case from the i-th: i/n")
    parser.add_argument("--without-model", action="store_true")
    parser.add_argument("--llama3", action="store_true", help="on the vocabulary of 128,256 tokens")
    parser.add_argument("--grammars", type=int, default=0, help="so many random recursive Lark grammars instead")
    parser.add_argument("--spare", help="tokens of each budget beyond the least, default: 0 to 30")
    options = parser.parse_args(arguments)
    spare = [*range(BUDGETS)] if options.spare is None else [*map(int, options.spare.split(","))]
    vocabulary, picks = llama3() if options.llama3 else embedded(), random.Random(0)
    if vocabulary is None:
        sys.exit("llama-models is not installed")
    padding = vocabulary.special["<|finetune_right_pad_id|>" if options.llama3 else "<|pad|>"]
    model = None
    if not options.without_model:
        from .dice import dice

        model = dice(vocabulary.size)
    first, every = map(int, options.slice.split("/"))
    if options.grammars:
        grammars, texts, refused, faults = check_grammars(range(first - 1, options.grammars, every), spare)
        print(f"{grammars} grammars, {refused} refused, {texts} texts, {len(faults)} wrong", *faults[:SHOWN], sep="\n")
        return bool(faults)
    chosen = [list(filter(None, listed.split(","))) for listed in (options.formats, options.schemas)]
    cases_made = islice(_made(vocabulary, *chosen, inside=options.inside), first - 1, None, every)
    count = total = wrong = 0
    for make in cases_made:
        began = time.process_time()
        try:
            case = make()
        except UnsupportedSchema as error:  # such a tool is not taken at all
            print("refused,", *map(str.strip, str(error).splitlines()[:2]), flush=True)
            continue
        texts, faults = check(case, model, padding, picks, spare)
        count, total, wrong = count + 1, total + texts, wrong + len(faults)
        print(
            f"{case.name:40} at least {case.constraint.min_tokens:4} tokens  {texts:5} texts  {len(faults):3} wrong  "
            f"{time.process_time() - began:6.1f} s",
            *faults[:SHOWN],
            sep="\n    ",
            flush=True,
        )
    print(f"{count} constraints, {total} texts, {wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
