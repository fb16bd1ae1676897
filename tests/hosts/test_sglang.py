"""SGLang's grammar backend; against the package's base classes, registry and command line where it is installed
(`make hosts-sglang`), else against its published interface.  No server runs here.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys

import pytest

pytest.importorskip("torch")

import torch

from . import recorded

SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


@pytest.fixture(scope="module")
def hosted():
    before = set(sys.modules)
    try:
        importlib.import_module("sglang.srt.constrained.base_grammar_backend")
        real = True
    except ModuleNotFoundError as error:
        if error.name != "sglang":  # a part of it that is missing is no reason to test less
            raise
        real = False
        recorded.record_sglang()
    yield importlib.import_module("constrained.integrations.sglang")
    if not real:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == "sglang" or name == "constrained.integrations.sglang":
                del sys.modules[name]


@pytest.fixture
def backend(hosted, tiny_tokenizer, tiny_vocabulary):
    return hosted.GrammarBackend(tiny_tokenizer, tiny_vocabulary.size, set(tiny_vocabulary.stop[:1]))


@pytest.mark.parametrize(
    ("kind", "text", "word"),
    [
        ("json", SCHEMA, '{"n": 1}'),
        ("json", "$$ANY$$", '{"a": [1]}'),
        ("regex", "a+", "aaa"),
        ("ebnf", 'start: "a" "b"?', "ab"),
    ],
)
def test_a_request_from_its_first_token_to_its_last(kind, text, word, backend, tiny_vocabulary):
    template = getattr(backend, f"dispatch_{kind}")(text)
    grammar = template.copy()
    tokens = [*tiny_vocabulary.tokenize(word.encode()), tiny_vocabulary.stop[0]]
    mask = grammar.allocate_vocab_mask(tiny_vocabulary.size, 2, "cpu")
    logits = torch.zeros(2, tiny_vocabulary.size)
    for token in tokens:
        grammar.reset_vocab_mask(mask)
        grammar.fill_vocab_mask_batched([], mask)
        grammar.fill_vocab_mask(mask, 0)
        found = logits.clone()
        grammar.apply_vocab_mask(found, grammar.move_vocab_mask(mask, "cpu"))
        assert torch.isfinite(found[0, token])
        assert not torch.isfinite(found[0]).all()
        assert torch.isfinite(found[1]).all() == (tiny_vocabulary.size % 32 == 0) or torch.isfinite(found[1]).all()
        grammar.accept_token(token)
    assert grammar.is_terminated()
    assert grammar.finished
    grammar.rollback(2)
    assert not grammar.finished
    grammar.accept_token(tokens[-2])
    assert not template.is_terminated()
    with pytest.raises(ValueError, match="not in the grammar"):
        template.copy().accept_token(tiny_vocabulary.by_text[b"~"])


def test_what_is_dictated_can_be_jumped_over(backend, tiny_vocabulary):
    grammar = backend.dispatch_regex("abcabc[0-9]")
    forced, _ = grammar.try_jump_forward(None)
    assert forced
    assert tiny_vocabulary.decode(forced) == b"abcabc"[: len(tiny_vocabulary.decode(forced))]
    assert grammar.jump_forward_str_state((forced, "")) == ("", -1)
    for token in forced:
        grammar.accept_token(token)
    again = [tiny_vocabulary.by_text[bytes([byte])] for byte in tiny_vocabulary.decode(forced)]
    grammar.jump_and_retokenize(forced, again, -1)
    assert grammar.copy().try_jump_forward(None) is None


@pytest.mark.parametrize(
    ("kind", "text"), [("json", "{"), ("regex", "("), ("ebnf", "root ::= 1"), ("structural_tag", "{}")]
)
def test_what_cannot_be_read_comes_back_as_an_invalid_grammar(kind, text, backend, hosted):
    found = getattr(backend, f"dispatch_{kind}")(text)
    assert isinstance(found, hosted.InvalidGrammarObject)
    assert found.error_message


def test_the_server_finds_the_backend_by_name(hosted, tiny_tokenizer, tiny_vocabulary):
    hosted.register()
    hosted.register()
    base = importlib.import_module("sglang.srt.constrained.base_grammar_backend")
    choices = importlib.import_module("sglang.srt.arg_groups.choices").GRAMMAR_BACKEND_CHOICES
    assert choices.count("constrained") == 1
    made = base.GRAMMAR_BACKEND_REGISTRY["constrained"](
        None, tiny_tokenizer, tiny_vocabulary.size, {tiny_vocabulary.stop[0]}
    )
    assert isinstance(made, hosted.GrammarBackend)


def test_its_command_line_takes_the_name(hosted):
    arguments = pytest.importorskip("sglang.srt.server_args", reason="SGLang is not installed: make hosts-sglang").ServerArgs
    hosted.register()
    parser = argparse.ArgumentParser()
    arguments.add_cli_args(parser)
    assert parser.parse_args(["--model-path", "m", "--grammar-backend", "constrained"]).grammar_backend == "constrained"
