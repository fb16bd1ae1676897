"""llama-cpp-python and mlx-lm: one sequence at a time; with the packages and models of random weights where they are
installed.
"""

from __future__ import annotations

import importlib.util
import json
import random

import numpy as np
import pytest

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
def test_llama_cpp_generates_words(tmp_path):
    import llama_cpp

    llama = llama_cpp.Llama(str(_tiny_gguf(tmp_path / "tiny.gguf")), n_ctx=256, verbose=False, seed=1)
    vocabulary = vocabulary_of(llama)
    assert vocabulary.stop
    assert len([text for text in vocabulary.tokens if text]) >= 256
    processor = logits_processor(c.compile(c.Grammar.from_json_schema(SCHEMA, profile="practical"), vocabulary))
    for seed in range(5):
        found = llama(
            "Hi",
            max_tokens=100,
            temperature=1.5,
            seed=seed,
            logits_processor=llama_cpp.LogitsProcessorList([processor]),
        )["choices"][0]
        assert (found["finish_reason"], _is_right(found["text"])) == ("stop", True)


def _tiny_gguf(path):
    """Write a Llama with random weights and a vocabulary of bytes."""
    import gguf

    writer, width, inner = gguf.GGUFWriter(path, "llama"), 32, 64
    # bytes that stand for themselves in the byte-level alphabet
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = iter(range(256, 512))
    letters = [chr(byte) if byte in seen else chr(next(hidden)) for byte in range(256)]
    tokens = ["<s>", "</s>", *(letters[byte] for byte in range(256))]
    writer.add_context_length(256)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * 256)
    writer.add_token_merges([f"{letters[97]} {letters[98]}"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    random_ = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), width), "output": (len(tokens), width), "output_norm": (width,)}
    shapes |= {f"blk.0.{name}": (width, width) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
    shapes |= {
        "blk.0.attn_norm": (width,),
        "blk.0.ffn_norm": (width,),
        "blk.0.ffn_gate": (inner, width),
        "blk.0.ffn_up": (inner, width),
    }
    shapes |= {"blk.0.ffn_down": (width, inner)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random_.normal(0, 0.3, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


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
