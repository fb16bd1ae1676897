"""Continuous batching with a grammar for each request, on the processor; and the guard against other versions."""

from __future__ import annotations

import re
import types

import numpy as np
import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import constrained as c
from constrained.integrations.continuous import _Requests, continuous_batching

WORDS = {"[0-9]{3}": 40, "(red|green)!": 40, "[xyz]{2,5}": 40, None: 6}


@pytest.fixture(scope="module", autouse=True)
def _the_library_has_it():
    """Imported when the first test runs, as it takes a second that each process that collects tests would pay."""
    pytest.importorskip("transformers.generation.continuous_batching")


@pytest.mark.filterwarnings("ignore")
def test_each_request_keeps_to_its_grammar(tiny_tokenizer, tiny_vocabulary):
    from constrained.default_model import load

    model, _ = load()
    stop = list(tiny_vocabulary.stop)
    config = transformers.ContinuousBatchingConfig(
        page_size=16, num_blocks=64, max_batch_tokens=64, auto_switch_to_flash=False
    )
    generation = transformers.GenerationConfig(max_new_tokens=40, eos_token_id=stop, pad_token_id=0, do_sample=True)
    manager = continuous_batching(model, vocabulary=tiny_vocabulary, generation_config=generation, config=config)
    asked = {}
    manager.start()
    try:
        for number, (pattern, most) in enumerate([*WORDS.items(), *WORDS.items()]):
            grammar = {} if pattern is None else {"grammar": c.compile(c.Grammar.from_regex(pattern), tiny_vocabulary)}
            asked[
                manager.add_request(
                    tiny_tokenizer.encode("Hello " * (number + 1)), max_new_tokens=most, eos_token_id=stop, **grammar
                )
            ] = pattern
        found = {}
        while len(found) < len(asked):
            result = manager.get_result(timeout=60)
            assert result is not None, manager.background_thread_status.fatal_error
            if result.is_finished():
                found[result.request_id] = result.generated_tokens
    finally:
        manager.stop(block=True)
    for name, pattern in asked.items():
        ids = found[name]
        if pattern is not None:
            text = tiny_vocabulary.decode(ids[:-1] if ids[-1] in stop else ids).decode()
            assert re.fullmatch(pattern, text)
            assert ids[-1] in stop


@pytest.mark.filterwarnings("ignore")
def test_a_request_that_fails_is_ended_and_the_others_go_on(tiny_vocabulary, caplog):
    """A grammar for another vocabulary, and one that cannot be begun; a token outside of a grammar is told of."""
    other = c.Vocabulary([bytes([byte]) for byte in range(256)], {"</s>": 256}, [256])
    requests, stop = _Requests(tiny_vocabulary), tiny_vocabulary.stop[:1]

    def state(name, grammar, tokens=()):
        kwargs = {} if grammar is None else {"grammar": grammar}
        return types.SimpleNamespace(
            request_id=name, logit_processor_kwargs=kwargs, generated_tokens=[*tokens], _eos_token_ids={*stop}
        )

    def allowed(cursor):
        row = np.zeros((1, tiny_vocabulary.words), np.int32)
        cursor.fill(row, 0)
        return set(np.flatnonzero(np.unpackbits(row[0].view(np.uint8), bitorder="little")).tolist())

    good = c.compile(c.Grammar.from_regex("[0-9]"), tiny_vocabulary)
    for bad in (c.compile(c.Grammar.from_regex("a"), other), "no constraint"):
        assert allowed(requests.cursor(state("bad", bad))) == set(stop)
        assert len(allowed(requests.cursor(state("good", good)))) == 10
    assert "for another vocabulary" in caplog.text
    assert requests.cursor(state("left", good, tiny_vocabulary.tokenize(b"x"))) is None
    assert "has left its grammar" in caplog.text


def test_requests_that_are_never_heard_of_again_are_forgotten(tiny_vocabulary, monkeypatch):
    monkeypatch.setattr("constrained.integrations.continuous._KNOWN", 3)
    requests, grammar = _Requests(tiny_vocabulary), c.compile(c.Grammar.from_regex("[0-9]{9}"), tiny_vocabulary)
    for name in "abcde":
        requests.cursor(types.SimpleNamespace(
            request_id=name, logit_processor_kwargs={"grammar": grammar}, generated_tokens=[], _eos_token_ids=set()
        ))
    assert list(requests._known) == ["c", "d", "e"]


def test_another_version_is_refused_by_name(tiny_vocabulary):
    with pytest.raises(c.ConstrainedError, match="needs another version of transformers"):
        continuous_batching(object(), vocabulary=tiny_vocabulary)
