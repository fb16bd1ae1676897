"""The embedded models: the random one reproducible, complete, as awkward as real ones; the trained one right about
form, always.
"""

from __future__ import annotations

import json
import random
import re
from importlib.resources import files

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from constrained.default_model import WEIGHTS, WIDTH, build, load, load_tokenizer, load_trained, prompt_of, questions
from constrained.default_model.evaluate import Exam, summed, wilson

from constrained import ChatFormat


def test_the_shipped_tokenizer_is_what_build_makes():
    shipped = json.loads((files("constrained.default_model") / "tokenizer.json").read_text(encoding="utf-8"))
    assert shipped == json.loads(build.build().to_str())


def test_every_byte_is_a_token(tiny_tokenizer):
    model = json.loads(tiny_tokenizer.backend_tokenizer.to_str())["model"]
    assert sum(len(token) == 1 for token in model["vocab"]) == 256


@pytest.mark.parametrize(
    "text", ["", "plain text", "tabs\tand\r\nlines\n", "北京 ﷺ é é 🤷‍♀️", '{"a": [1, "}}"]}', "\x00\x7f"]
)
def test_text_survives_a_round_trip(tiny_tokenizer, text):
    assert tiny_tokenizer.decode(tiny_tokenizer(text, add_special_tokens=False)["input_ids"]) == text


@pytest.mark.parametrize("name", build.SPECIAL)
def test_a_special_token_is_one_id(tiny_tokenizer, name):
    assert len(tiny_tokenizer(name, add_special_tokens=False)["input_ids"]) == 1
    assert tiny_tokenizer.added_tokens_decoder[tiny_tokenizer.convert_tokens_to_ids(name)].special


def test_no_format_names_a_token_that_is_missing(tiny_tokenizer):
    known = set(tiny_tokenizer.get_vocab())
    for name in ChatFormat.names():
        assert set(ChatFormat.load(name).tokens.values()) <= known, name


def test_logits_are_wider_than_the_tokenizer(tiny_model, tiny_tokenizer):
    assert tiny_model(torch.tensor([[1, 2]])).logits.shape == (1, 2, WIDTH)
    assert len(tiny_tokenizer) < WIDTH


def test_a_seed_decides_the_weights_and_nothing_else():
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    first, second, other = load()[0], load()[0], load(seed=1)[0]
    assert torch.rand(1) == expected, "loading must not disturb the caller's random numbers"
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)


def test_the_tokenizer_loads_without_the_model():
    assert load_tokenizer().eos_token == "<|end_of_text|>"


# -- the trained one ---------------------------------------------------------------------------------------------------


def test_the_weights_are_small():
    model, _ = load_trained()
    assert sum(weight.numel() for weight in model.parameters()) < 10_000_000
    assert (files("constrained.default_model") / WEIGHTS).stat().st_size < 8_000_000


def test_a_prompt_shows_format_tools_and_question(tiny_tokenizer):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["b"]}}}]
    assert prompt_of(load_tokenizer(chat=True), "Why?", tools, "hermes") == (
        "<|begin_of_text|><|system|>hermes\nf(a?: integer, b: x|y)\n<|user|>Why?<|assistant|>")
    assert "brave_search(query: string)" in prompt_of(
        load_tokenizer(chat=True), "Why?", ["brave_search"], "llama3.1-builtin"
    )


def test_a_seed_decides_the_questions():
    assert [questions.draw(random.Random(5)) for _ in range(2)] == [questions.draw(random.Random(5)) for _ in range(2)]


@pytest.mark.parametrize("held", [False, True])
def test_every_call_answers_its_question(held):
    import jsonschema

    chance = random.Random(1)
    for _ in range(300):
        example = questions.draw(chance, held=held)
        tool = next(tool for tool in example.tools if tool["function"]["name"] == example.name)
        jsonschema.validate(example.arguments, tool["function"]["parameters"])
        for value in example.arguments.values():
            said = ("yes" if value else "no") if isinstance(value, bool) else str(value)
            assert said in example.question
        order = list(tool["function"]["parameters"]["properties"])
        assert list(example.arguments) == [name for name in order if name in example.arguments]


def test_what_is_held_out_is_never_trained_on():
    chance, trained, held = random.Random(2), set(), set()
    for _ in range(2000):
        for found, which in ((trained, False), (held, True)):
            example = questions.draw(chance, held=which)
            found |= {("tool", tool["function"]["name"]) for tool in example.tools}
            found |= {
                ("word", value)
                for value in example.arguments.values()
                if isinstance(value, str) and re.fullmatch(r"[^\W\d]{6,}", value)
            }
    enums = {
        ("word", value)
        for family in questions.tables()["family"]
        for kind in family["args"].values()
        for value in kind.split("/")
    }
    assert not (trained & held) - enums


def test_the_table_of_the_card_in_small():
    exam = Exam(3, seed=2, temperature=0.0)
    for name in ("hermes", "llama3.1-builtin"):
        found = exam.sit(name)
        for held in (False, True):
            tally = summed(found[held, True])
            assert tally.turns == 3 and tally.valid == tally.read == tally.finished
        assert sum(summed(found[held, True]).finished for held in (False, True)) >= 4


def test_intervals():
    assert wilson(0, 0) == (0, 1)
    low, high = wilson(90, 100)
    assert (round(low, 3), round(high, 3)) == (0.826, 0.945)
    assert wilson(0, 50)[0] == 0 and wilson(50, 50)[1] == pytest.approx(1)
