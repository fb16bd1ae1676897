"""The embedded model: reproducible, complete, and as awkward as real ones."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from constrained import ChatFormat
from constrained.default_model import WIDTH, build, load, load_tokenizer


def test_the_shipped_tokenizer_is_what_build_makes():
    shipped = json.loads((files("constrained.default_model") / "tokenizer.json").read_text(encoding="utf-8"))
    assert shipped == json.loads(build.build().to_str())


def test_every_byte_is_a_token(tiny_tokenizer):
    model = json.loads(tiny_tokenizer.backend_tokenizer.to_str())["model"]
    assert sum(len(token) == 1 for token in model["vocab"]) == 256


@pytest.mark.parametrize("text", ["", "plain text", "tabs\tand\r\nlines\n", "北京 ﷺ é é 🤷‍♀️", '{"a": [1, "}}"]}', "\x00\x7f"])
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
