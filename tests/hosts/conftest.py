"""Two constraints and a function that generates with the embedded model, for the tests of every host."""

from __future__ import annotations

import pytest

import constrained as c

PATTERN = r'\{"n": [1-9][0-9]{0,2}, "of": ("apples"|"pears")\}'
# The ways in which `generate` decodes a whole batch, as its options.
MODES = {
    "greedy": {},
    "sampling": {"do_sample": True},
    "hot sampling": {"do_sample": True, "temperature": 5.0, "top_k": 0},
    "top_p": {"do_sample": True, "top_p": 0.3},
    "several samples": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 4},
    "several beams": {"num_beams": 4, "num_return_sequences": 4},
    "sampled beams": {"num_beams": 3, "do_sample": True},
    "repetition penalty": {"repetition_penalty": 1.5},
    "no cache": {"use_cache": False},
    "static cache": {"cache_implementation": "static"},
}


@pytest.fixture(scope="module")
def constraint(tiny_vocabulary):
    return c.compile(c.Grammar.from_regex(PATTERN), tiny_vocabulary)


@pytest.fixture(scope="module")
def free(tiny_vocabulary):
    """Short free text: nearly every token is allowed at every step, so a prompt looks like a continuation."""
    return c.compile(c.Grammar.from_regex(r"[a-z ]{12}"), tiny_vocabulary)


@pytest.fixture
def run(tiny_model, tiny_tokenizer, tiny_vocabulary):
    """Return a function (processor, prompts, seed, **options of generate) → list of generated texts, None for one that
    is not finished.
    """
    import torch

    stop = list(tiny_vocabulary.stop)

    def run(processor, prompts, seed=7, **options):
        encoded = tiny_tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
        torch.manual_seed(seed)
        options = {"max_new_tokens": 60, "do_sample": False} | options
        processors = processor if isinstance(processor, list) else [processor]
        output = tiny_model.generate(
            **encoded,
            logits_processor=processors,
            eos_token_id=stop,
            pad_token_id=tiny_tokenizer.pad_token_id,
            **options,
        )
        texts = []
        for row in output[:, encoded["input_ids"].shape[1] :].tolist():
            end = next((at for at, token in enumerate(row) if token in stop), None)
            texts.append(None if end is None else tiny_tokenizer.decode(row[:end]))
        return texts

    return run
