"""Outlines over the embedded model: its types, beams, batches, samples; against plain `generate`."""

from __future__ import annotations

import contextlib
import json
import re
from functools import reduce
from typing import Literal

import pytest

pytest.importorskip("torch")
outlines = pytest.importorskip("outlines")

import torch
from outlines.types import CFG, Choice, JsonSchema, Regex, at_least, exactly, optional
from pydantic import BaseModel

import constrained as c
from constrained.integrations.outlines import generator, grammar_of, processor

from .conftest import PATTERN


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture(scope="module")
def model(tiny_model, tiny_tokenizer):
    side = tiny_tokenizer.padding_side
    yield outlines.from_transformers(tiny_model, tiny_tokenizer)
    tiny_tokenizer.padding_side = side


# An output type of Outlines → texts that it would generate, and one that it would not.
TYPES = [
    (int, ["7", "-12"], "x"),
    (bool, ["True", "False"], "true"),
    (Literal["yes", "no"], ["yes", "no"], "maybe"),
    (Regex("[ab]{2}"), ["ab"], "abc"),
    (Choice(["red", "green"]), ["green"], "blue"),
    (CFG('start: "(" start ")" |'), ["(())"], "(("),
    (JsonSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}), ['{"n": 3}'], "{}"),
    (Person, ['{"name": "Ada", "age": 36}'], '{"name": "Ada"}'),
    ("say " + Regex("[a-z]+") + optional("!"), ["say hi", "say hi!"], "hi"),
    (exactly(2, at_least(1, Regex("[01]"))), ["01", "0110"], "2"),
    (list[int], ["[1, 2]", "[1]"], "[x]"),
]


@pytest.mark.parametrize(("kind", "words", "other"), TYPES, ids=lambda value: str(value)[:30])
def test_types_mean_what_they_mean_there(kind, words, other, tiny_vocabulary):
    constraint = c.compile(grammar_of(kind), tiny_vocabulary)

    def reads(text):
        matcher = constraint.matcher()
        try:
            for token in tiny_vocabulary.tokenize(text.encode()):
                matcher.advance(token)
        except c.Rejected:
            return False
        return matcher.is_accepting()

    assert [word for word in words if not reads(word)] == []
    assert not reads(other)


@pytest.mark.parametrize(
    "options", [{}, {"do_sample": True}, {"num_beams": 3}, {"num_beams": 4, "do_sample": True}], ids=str
)
@pytest.mark.filterwarnings("ignore")
def test_the_output_is_that_of_plain_generate(options, model, constraint, run):
    torch.manual_seed(7)
    found = outlines.Generator(model, processor=processor(constraint, model))(
        # how many beams are drawn at a step goes by how many tokens may end them
        "Hello", max_new_tokens=60, eos_token_id=list(constraint.stop), **{"do_sample": False, **options}
    )
    assert re.fullmatch(PATTERN, found)
    assert [found] == run(constraint.logits_processor(), ["Hello"], **options)


@pytest.mark.parametrize("options", [{"do_sample": True, "temperature": 3.0}, {"num_beams": 3}], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_batches_and_one_generator_many_times(options, model):
    found = generator(model, Person, max_new_tokens=60)
    for _ in range(2):
        texts = found.batch(["Hello", "A longer prompt is padded on the left", "x"], max_new_tokens=70, **options)
        assert [set(json.loads(text)) for text in texts] == [{"name", "age"}] * 3


@pytest.mark.filterwarnings("ignore")
def test_several_samples_of_a_prompt(model, constraint):
    texts = outlines.Generator(model, processor=processor(constraint, model))(
        "Hello", max_new_tokens=60, do_sample=True, num_return_sequences=3
    )
    assert all(re.fullmatch(PATTERN, text) for text in texts)
    assert len(texts) == 3


@pytest.mark.parametrize(("term", "error", "says"), [
    (Choice([]), c.GrammarError, "a choice of nothing"),
    (JsonSchema('{"type": "object"}'), None, ""),
    (Choice(["x" * number for number in range(1, 3_000)]), c.LimitExceeded, "too much work"),
    (reduce(lambda inner, _: exactly(1, inner), range(3_000), Regex("a")), c.GrammarError, "nested too deeply"),
])
def test_types_that_are_no_grammar_are_errors_of_the_tree(term, error, says):
    with pytest.raises(error, match=says) if error else contextlib.nullcontext():
        grammar_of(term)


def test_models_that_take_no_processor_are_refused(constraint):
    with pytest.raises(c.ConstrainedError, match="no processor for object"):
        processor(constraint, object())
