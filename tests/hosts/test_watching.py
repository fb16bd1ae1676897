"""Events while `generate` runs, and an end at the first whole word."""

from __future__ import annotations

import re
from threading import Thread

import pytest

pytest.importorskip("torch")

import torch

import constrained as c
from constrained.formats.streaming import CallFinished, CallStarted
from constrained.integrations.transformers import EventStreamer, WholeWord, grammar_candidates

TOOLS = [{"type": "function", "function": {"name": "paint", "parameters": {
    "type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}}}]


def _asked(name, tiny_vocabulary):
    chat = c.ChatFormat.load(name)
    return chat, c.compile(chat.grammar(TOOLS, tool_choice="required"), tiny_vocabulary)


@pytest.mark.parametrize("name", ["hermes", "pythonic", "glm-4.6", "llama3.1-json"])
@pytest.mark.parametrize("drafts", [False, True])
def test_events_come_while_it_generates(name, drafts, tiny_model, tiny_tokenizer, tiny_vocabulary):
    chat, constraint = _asked(name, tiny_vocabulary)
    inputs = tiny_tokenizer("Paint!", return_tensors="pt")
    streamer, events = EventStreamer(chat, tiny_vocabulary, TOOLS), []
    for _ in range(2):  # it may be used again
        options = {**inputs, **constraint.generation_kwargs(max_new_tokens=120), "do_sample": True}
        modes = {"custom_generate": grammar_candidates} if drafts else {}
        Thread(target=tiny_model.generate, kwargs={**options, **modes, "streamer": streamer}).start()
        events = list(streamer)
        assert streamer.error is None
        started = [event.name for event in events if isinstance(event, CallStarted)]
        assert started == [call.name for call in streamer.message.tool_calls] == ["paint"] * len(started)
        assert len([event for event in events if isinstance(event, CallFinished)]) == len(started) > 0
        assert streamer.message.tool_calls[0].arguments["colour"] in ("red", "blue")


def test_a_turn_that_is_cut_is_told_as_far_as_it_came(tiny_model, tiny_tokenizer, tiny_vocabulary):
    chat, constraint = _asked("hermes", tiny_vocabulary)
    told = []
    streamer = EventStreamer(chat, tiny_vocabulary, TOOLS, on_event=told.append)
    tiny_model.generate(
        **tiny_tokenizer("Paint!", return_tensors="pt"),
        **constraint.generation_kwargs(),
        max_new_tokens=12,
        streamer=streamer,
    )
    assert streamer.error is not None
    assert isinstance(streamer.message, c.formats.Message)
    assert list(streamer) == []


def test_a_streamer_takes_one_sequence(tiny_vocabulary):
    with pytest.raises(c.ConstrainedError, match="for one sequence"):
        EventStreamer(c.ChatFormat.load("hermes"), tiny_vocabulary).put(torch.zeros(2, 3))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("pattern", "first", "wanted"),
    [("[ab]{3}", False, "[ab]{3}"), ("[ab]{1,9}", True, "[ab]"), ("[ab]{1,3}c?", False, "[ab]{1,3}c?")],
)
def test_rows_end_at_a_word_without_a_stop_token(pattern, first, wanted, tiny_model, tiny_tokenizer, tiny_vocabulary):
    processor = c.compile(c.Grammar.from_regex(pattern), tiny_vocabulary).logits_processor()
    inputs = tiny_tokenizer(["Hello", "A longer one"], return_tensors="pt", padding=True, padding_side="left")
    output = tiny_model.generate(
        **inputs,
        logits_processor=[processor],
        stopping_criteria=[WholeWord(processor, first=first)],
        do_sample=True,
        max_new_tokens=20,
        pad_token_id=tiny_tokenizer.pad_token_id,
    )
    for row in output[:, inputs["input_ids"].shape[1] :].tolist():
        text = tiny_tokenizer.decode([token for token in row if tiny_vocabulary.tokens[token] is not None])
        assert re.fullmatch(wanted if not first else f"{wanted}+", text)


@pytest.mark.filterwarnings("ignore")
def test_a_pipeline_hands_the_processor_on(tiny_model, tiny_tokenizer, constraint):
    from transformers import pipeline  # takes a second: not for each process that collects tests

    from .conftest import PATTERN

    generate = pipeline("text-generation", model=tiny_model, tokenizer=tiny_tokenizer)
    torch.manual_seed(0)
    options = constraint.generation_kwargs(max_new_tokens=60)
    for prompt in ("Hello", "How are you?"):
        (found,) = generate(prompt, return_full_text=False, do_sample=True, **options)
        assert re.fullmatch(PATTERN, found["generated_text"])
