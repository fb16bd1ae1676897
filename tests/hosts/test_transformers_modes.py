"""Tests of the transformers processor in every mode of `generate`, assisted ones included, on the embedded model."""

from __future__ import annotations

import copy
import json
import re

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import GenerationMixin, LogitsProcessor, LogitsProcessorList

import constrained as c
from constrained.integrations.transformers import calling, depth, grammar_candidates

from .conftest import MODES, PATTERN

ALONE = {"prompt lookup": {"prompt_lookup_num_tokens": 3}, "drafts": {"custom_generate": grammar_candidates}}


@pytest.mark.parametrize("mode", MODES)
def test_batches_in_every_mode(run, constraint, mode):
    texts = run(
        constraint.logits_processor(),
        ["How many?", "A much longer question about fruit: how many?", "?"],
        **MODES[mode],
    )
    assert len(texts) == 3 * MODES[mode].get("num_return_sequences", 1)
    for text in texts:
        assert re.fullmatch(PATTERN, text)
        json.loads(text)


@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("mode", ALONE)
def test_single_sequences_in_assisted_modes(run, constraint, mode, sample):
    prompt = 'How many? {"n": 12, "of": "apples"} '
    options = {"do_sample": True, "temperature": 2.0} if sample else {}
    (text,) = run(constraint.logits_processor(), [prompt], **ALONE[mode], **options)
    assert re.fullmatch(PATTERN, text)
    if not sample:
        assert [text] == run(constraint.logits_processor(), [prompt])


def test_assistant_model(run, constraint, tiny_model):
    """An assistant uses the same processor, with lengths that go up and down; the output is that of the model alone."""
    from constrained.default_model import load

    assistant, _ = load(seed=1)
    for prompt in ("How many?", "And now?"):
        expected = run(constraint.logits_processor(), [prompt])
        for helper in (assistant, tiny_model):
            lengths = Recorder(constraint.logits_processor())
            assert run(lengths, [prompt], assistant_model=helper) == expected
            assert lengths.seen != sorted(lengths.seen)


def test_drafts_of_an_assistant_are_constrained_too(run, constraint, tiny_model):
    """An assistant equal to the model drafts what the model will accept, if its drafts go on where the output is."""
    assistant, calls = copy.deepcopy(tiny_model), []
    handle = tiny_model.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        run(constraint.logits_processor(), ["How many?"])
        passes, calls[:] = len(calls), []
        run(constraint.logits_processor(), ["How many?"], assistant_model=assistant)
    finally:
        handle.remove()
    assert len(calls) <= passes / 2


class Recorder(LogitsProcessor):
    """Passes calls on to a processor and notes their lengths."""

    def __init__(self, inner: LogitsProcessor) -> None:
        self.inner, self.seen = inner, []

    def __call__(self, input_ids, scores):
        self.seen.append(input_ids.shape[1])
        return self.inner(input_ids, scores)


def test_inputs_embeds(constraint, tiny_model, tiny_tokenizer, tiny_vocabulary):
    embeds = tiny_model.get_input_embeddings()(tiny_tokenizer("How many?", return_tensors="pt")["input_ids"])
    processor = constraint.logits_processor()
    for _ in range(2):
        output = tiny_model.generate(
            inputs_embeds=embeds,
            logits_processor=[processor],
            max_new_tokens=60,
            do_sample=False,
            eos_token_id=list(tiny_vocabulary.stop),
        )
        assert re.fullmatch(PATTERN, tiny_tokenizer.decode(output[0][:-1]))


def test_encoder_decoder(constraint, tiny_tokenizer, tiny_vocabulary):
    config = transformers.T5Config(
        vocab_size=tiny_vocabulary.size,
        d_model=32,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=list(tiny_vocabulary.stop),
    )
    torch.manual_seed(1)
    model = transformers.T5ForConditionalGeneration(config).eval()
    encoded = tiny_tokenizer(["How many?", "?"], return_tensors="pt", padding=True)
    processor = constraint.logits_processor()
    for options in ({}, {"num_beams": 3}):
        output = model.generate(**encoded, logits_processor=[processor], max_new_tokens=80, **options)
        for row in output.tolist():
            ids = [token for token in row[1:] if token not in tiny_vocabulary.stop and token != 0]
            assert re.fullmatch(PATTERN, tiny_tokenizer.decode(ids))


# -- drafts ------------------------------------------------------------------------------------------------------------


def test_drafts_save_forward_passes(run, constraint, tiny_model):
    calls = []
    handle = tiny_model.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        alone = run(constraint.logits_processor(), ["How many?"])
        passes, calls[:] = len(calls), []
        drafted = run(constraint.logits_processor(), ["How many?"], custom_generate=grammar_candidates)
    finally:
        handle.remove()
    assert drafted == alone
    assert len(calls) < passes


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["Llama", "sliding window", "encoder and decoder"])
@pytest.mark.parametrize(
    "options",
    [{}, {"do_sample": True}, {"do_sample": True, "temperature": 5.0, "top_k": 0}, {"repetition_penalty": 1.5}],
    ids=str,
)
def test_what_is_drawn_does_not_depend_on_drafts(kind, options, constraint, tiny_model, tiny_tokenizer, tiny_vocabulary):
    """Each token is drawn by itself, from the generator as plain decoding finds it."""
    chat = c.ChatFormat.load("hermes")
    tools = [{"name": "paint", "parameters": {"type": "object"}}]
    asked = c.compile(chat.grammar(tools, tool_choice="required"), tiny_vocabulary)
    model = tiny_model if kind == "Llama" else _model(kind, tiny_vocabulary.size, tiny_tokenizer.pad_token_id)
    encoded = tiny_tokenizer("How many, and of which colour?", return_tensors="pt")
    for each in constraint, asked:
        told = {**encoded, **each.generation_kwargs(max_new_tokens=50), **options}
        torch.manual_seed(0)
        plain = model.generate(**told)
        torch.manual_seed(0)
        assert model.generate(**told, **ALONE["drafts"]).tolist() == plain.tolist()


def _model(kind, size, padding):
    """Return a model of random weights."""
    torch.manual_seed(1)
    if kind == "sliding window":
        config = transformers.MistralConfig(
            vocab_size=size, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, sliding_window=7, pad_token_id=padding,
        )
        return transformers.MistralForCausalLM(config).eval()
    config = transformers.T5Config(
        vocab_size=size, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0,
        pad_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config).eval()


@pytest.mark.parametrize("parts", [None, 2])
def test_drafts_leave_what_plain_decoding_leaves(parts, constraint, tiny_model, tiny_tokenizer):
    """Logits of every position, and a cache that holds all but the last token."""
    encoded, found = tiny_tokenizer("How many?", return_tensors="pt"), []
    for told in ({}, ALONE["drafts"]):
        torch.manual_seed(1)
        found.append(
            tiny_model.generate(
                **encoded, do_sample=True, output_logits=True, return_dict_in_generate=True, prefill_chunk_size=parts,
                **constraint.generation_kwargs(max_new_tokens=40), **told,
            )
        )
    plain, drafted = found
    assert torch.equal(plain.sequences, drafted.sequences)
    assert plain.past_key_values.get_seq_length() == drafted.past_key_values.get_seq_length()
    torch.testing.assert_close(torch.stack(plain.logits), torch.stack(drafted.logits))
    seen = tiny_model.generate(
        **encoded, output_hidden_states=True, return_dict_in_generate=True, **constraint.generation_kwargs(max_new_tokens=40),
        **ALONE["drafts"],
    )
    assert len(seen.hidden_states) == seen.sequences.shape[1] - encoded["input_ids"].shape[1]


def test_prompt_lookup_needs_no_more_passes_than_without_a_grammar(run, constraint, tiny_model):
    """A processor that wrote into its argument would make prompt lookup reject its own candidates."""
    calls = []
    handle = tiny_model.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        (text,) = run(constraint.logits_processor(), ["How many?"])
        passes, calls[:] = len(calls), []
        run(constraint.logits_processor(), [f"{text} How many? {text} How many?"], prompt_lookup_num_tokens=10)
    finally:
        handle.remove()
    assert len(calls) < passes


def test_what_is_private_to_transformers_is_as_expected():
    """A new version may move these; the rule of the prompt then falls back to content, and drafts say that they cannot.
    """
    assert callable(GenerationMixin._sample)
    assert callable(GenerationMixin._prefill)
    lists = []

    class Probe(LogitsProcessor):
        def __call__(self, input_ids, scores):
            import sys

            lists.append((calling(sys._getframe(1)), depth(sys._getframe(1))))
            return scores

    own = LogitsProcessorList([Probe()])
    own(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 4))
    assert lists == [(own, 0)]


def test_generate_is_seen_around_a_call(run, tiny_model):
    depths = []

    class Probe(LogitsProcessor):
        def __call__(self, input_ids, scores):
            import sys

            depths.append((type(calling(sys._getframe(1))).__name__, depth(sys._getframe(1))))
            return scores

    run(Probe(), ["a"], max_new_tokens=1)
    assert depths == [("LogitsProcessorList", 1)]
    depths.clear()
    run(Probe(), ["a"], max_new_tokens=2, assistant_model=tiny_model)
    assert ("LogitsProcessorList", 2) in depths
