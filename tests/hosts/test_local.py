"""llama-cpp-python and mlx-lm: one sequence at a time; with the packages and models of random weights where they are
installed.
"""

from __future__ import annotations

import importlib.util
import json
import random

import numpy as np
import pytest
from constrained.benchmarks import real_hosts

import constrained as c
from constrained.integrations.llama_cpp import logits_processor, vocabulary_of
from constrained.integrations.rows import OneSequence

needs_llama = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None or importlib.util.find_spec("gguf") is None,
    reason="llama-cpp-python and gguf are not installed",
)
needs_mlx = pytest.mark.skipif(importlib.util.find_spec("mlx_lm") is None, reason="mlx-lm is not installed")
VOCABULARY = c.Vocabulary([bytes([byte]) for byte in range(256)], {"</s>": 256, "<s>": 257}, [256], 264)
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 99}, "s": {"type": "string", "maxLength": 5}},
    "required": ["n", "s"],
}


def _is_right(text):
    return json.loads(text).keys() == {"n", "s"}


@pytest.fixture(scope="module")
def constraint():
    return c.compile(c.Grammar.from_json_schema(SCHEMA, profile="practical"), VOCABULARY)


def _walk(processor, prompt, random_):
    """Draw tokens as a host does, with numpy scores, until the stop token."""
    ids = list(prompt)
    while not ids or ids[-1] != 256 or len(ids) == len(prompt):
        scores = processor(np.array(ids, np.intc), np.zeros(270, np.single))
        ids.append(int(random_.choice(np.flatnonzero(np.isfinite(scores)).tolist())))
    return bytes(ids[len(prompt) : -1]).decode()


def test_one_processor_serves_many_prompts(constraint):
    processor, random_ = logits_processor(constraint), random.Random(1)
    for prompt in ([65], [65], [65, 66, 67], [257, 65], list(b'{"n": 1')):
        assert _is_right(_walk(processor, prompt, random_))


def test_a_prompt_that_is_the_last_answer_and_more_is_a_prompt(constraint):
    processor, random_ = logits_processor(constraint), random.Random(2)
    text = _walk(processor, [65], random_)
    assert _is_right(_walk(processor, [65, *text.encode(), 256, 66], random_))
    processor.reset()
    assert _is_right(_walk(processor, [65, 123], random_))


def test_drafts_are_taken_back(constraint):
    sequence = OneSequence(constraint, 1, None)
    fresh = OneSequence(constraint, 1, None)
    read = [65, *b'{"n": 1']
    for end in (1, 2, 3, 4, 2, 3, 4, 5, 6, 7, 3, 8):
        ids = np.array(read[:end])
        assert (sequence.allowed(ids, 264) == OneSequence(constraint, 1, None).allowed(ids, 264)).all()
    assert fresh.allowed(np.array([65, 0]), 264) is None
    assert fresh.allowed(np.array([65]), 264)[ord("{")]


def test_a_budget_and_its_errors(constraint):
    random_ = random.Random(3)
    for _ in range(20):
        assert len(_walk(logits_processor(constraint, max_new_tokens=22), [65], random_)) <= 22
    with pytest.raises(c.LimitExceeded):
        logits_processor(constraint, max_new_tokens=3)
    with pytest.raises(c.ConstrainedError, match="not a constraint: "):
        logits_processor(c.Grammar.text())


def test_behind_the_end_of_a_turn_comes_what_ends_a_text():
    """A turn's own stop token is a letter to a host that does not end there, so it would come again and again."""
    tokens = [bytes([byte]) for byte in range(256)]
    vocabulary = c.Vocabulary(tokens, {"</s>": 256, "<|im_end|>": 257, "<tool_call>": 258, "</tool_call>": 259}, [256])
    turn = c.compile(c.ChatFormat.load("hermes").grammar([{"name": "f"}], tool_choice="none"), vocabulary)
    assert turn.stop == (257, 256)
    allowed = OneSequence(turn, 1, None).allowed(np.array([65, *b"Hi", 257]), 260)
    assert np.flatnonzero(allowed).tolist() == [256]


@needs_llama
def test_llama_cpp_generates_words():
    """The embedded model, as llama.cpp reads it, at every kind of request."""
    import llama_cpp

    folder = real_hosts.saved_model()
    assert not real_hosts.llama_rows(folder, 12, seed=1)["failed"]
    llama = llama_cpp.Llama(f"{folder}/model.gguf", n_ctx=256, verbose=False)
    vocabulary = vocabulary_of(llama)
    assert vocabulary.stop
    processor = logits_processor(c.compile(c.Grammar.from_json_schema(SCHEMA, profile="practical"), vocabulary))
    for seed in range(5):
        found = llama("Hi", max_tokens=100, temperature=1.5, seed=seed, logits_processor=llama_cpp.LogitsProcessorList([processor]))
        assert (found["choices"][0]["finish_reason"], _is_right(found["choices"][0]["text"])) == ("stop", True)


@needs_mlx
def test_mlx_generates_words(tiny_tokenizer, tiny_vocabulary):
    import mlx.core as mx
    from mlx_lm.generate import generate_step
    from mlx_lm.models.llama import Model, ModelArgs

    from constrained.integrations.mlx_lm import logits_processor

    mx.random.seed(0)
    model = Model(
        ModelArgs(
            model_type="llama",
            hidden_size=32,
            num_hidden_layers=1,
            intermediate_size=64,
            num_attention_heads=4,
            rms_norm_eps=1e-5,
            vocab_size=tiny_vocabulary.size,
        )
    )
    processor = logits_processor(c.compile(c.Grammar.from_json_schema(SCHEMA, profile="practical"), tiny_vocabulary))
    for prompt in ("Hi", "Hi", "How are you?"):
        ids = []
        prompt = mx.array(tiny_tokenizer.encode(prompt))
        for token, _ in generate_step(
            prompt, model, max_tokens=100, sampler=mx.random.categorical, logits_processors=[processor]
        ):
            ids.append(int(token))
            if ids[-1] in tiny_vocabulary.stop:
                break
        assert _is_right(tiny_vocabulary.decode(ids[:-1]))
