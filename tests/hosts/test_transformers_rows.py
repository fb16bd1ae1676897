"""Tests of where the transformers processor sees a prompt end, and which row is whose."""

from __future__ import annotations

import random
import re
import threading
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import LogitsProcessor, LogitsProcessorList, TemperatureLogitsWarper

import constrained as c
from benchmarks import ends
from benchmarks.always_finished import cases
from constrained.integrations.rows import Rows
from constrained.integrations.transformers import grammar_candidates

from .conftest import MODES, PATTERN


def test_one_processor_for_many_prompts(run, constraint):
    processor = constraint.logits_processor()
    for prompts, mode in (
        (["a"], "greedy"),
        (["a b c", "d"], "beams"),
        (["a"], "greedy"),
        (["a a"], "sampling"),
        (["g", "h"], "greedy"),
    ):
        assert run(processor, prompts, **MODES[mode]) == run(constraint.logits_processor(), prompts, **MODES[mode])


def test_a_prompt_that_looks_like_a_step(run, free, tiny_tokenizer):
    """The second prompt is the first and one token (or several) that the grammar allows: content cannot tell it from a
    step.
    """
    processor = free.logits_processor()
    first = run(processor, ["hello"])[0]
    begin = tiny_tokenizer("hello")["input_ids"]
    assert tiny_tokenizer("hello the")["input_ids"][:-1] == begin
    for prompt in ("hello the", "hello c", "hello the c", "hello" + first, "hello" + first[:3]):
        for options in ({}, {"prompt_lookup_num_tokens": 2}, {"custom_generate": grammar_candidates}):
            (text,) = run(processor, [prompt], **options)
            assert re.fullmatch(r"[a-z ]{12}", text), prompt


def test_same_length_in_the_middle_of_a_prompt(run, free):
    processor = free.logits_processor()
    run(processor, ["hello"], max_new_tokens=2)  # cut off by the length limit
    assert re.fullmatch(r"[a-z ]{12}", run(processor, ["hello"])[0])


def test_after_an_interrupted_generation(run, free, tiny_tokenizer):
    """An error's traceback keeps the interrupted generation in memory; the next one is new all the same."""

    class Stumble(LogitsProcessor):
        def __call__(self, input_ids, scores):
            if input_ids.shape[1] > len_hello + 2:
                raise RuntimeError("stumbled")
            return scores

    processor, len_hello = free.logits_processor(), len(tiny_tokenizer("hello")["input_ids"])
    with pytest.raises(RuntimeError, match="stumbled") as kept:
        run([processor, Stumble()], ["hello"])
    assert re.fullmatch(r"[a-z ]{12}", run(processor, ["hello the"])[0])
    assert kept.tb is not None


def test_explicit_prompt_length(run, constraint, tiny_tokenizer):
    length = len(tiny_tokenizer("How many?")["input_ids"])
    processor = constraint.logits_processor(prompt_length=length)
    expected = run(constraint.logits_processor(), ["How many?"])
    assert run(processor, ["How many?"]) == expected
    assert run(processor, ["How many?"], num_beams=3) == run(constraint.logits_processor(), ["How many?"], num_beams=3)
    # what comes after it counts as generated, here half a text
    half = expected[0][:8]
    (rest,) = run(processor, ["How many?" + half])
    assert re.fullmatch(PATTERN, half + rest)


def test_threads_share_a_processor(run, constraint, free):
    """Generations in several threads at once, with prompts that continue each other, do not mix."""
    processor, prompts = free.logits_processor(), ["hello", "hello the", "hello the c", "x"]
    found: dict[str, list[str]] = {}

    def work(prompt: str) -> None:
        found[prompt] = [run(processor, [prompt])[0] for _ in range(3)]

    threads = [threading.Thread(target=work, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {prompt: run(free.logits_processor(), [prompt]) * 3 for prompt in prompts}


def greedy(processor, ids, steps: int, vocabulary, width: int = 1664):
    """Return what a host with its own loop would write, from fixed random logits."""
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        token = processor(ids, torch.randn(1, width, generator=generator)).argmax(dim=-1)
        ids = torch.cat([ids, token[None]], dim=-1)
        if int(token) in vocabulary.stop:
            break
    return ids


def test_host_without_generate(constraint, tiny_vocabulary):
    processor = constraint.logits_processor()
    for prompt in ([[5, 6, 7]], [[9]], [[5, 6]]):
        ids = greedy(processor, torch.tensor(prompt), 80, tiny_vocabulary)
        assert re.fullmatch(PATTERN.encode(), tiny_vocabulary.decode(ids[0, len(prompt[0]) : -1].tolist()))


def test_host_without_generate_resets(free, tiny_vocabulary):
    """By content alone a longer prompt may look like a step; `reset` says that it is not."""
    processor = free.logits_processor()
    ids = greedy(processor, torch.tensor([[5, 6, 7]]), 80, tiny_vocabulary)
    processor.reset()
    again = greedy(processor, ids[:, :4], 80, tiny_vocabulary)
    assert re.fullmatch(rb"[a-z ]{12}", tiny_vocabulary.decode(again[0, 4:-1].tolist()))


ROW = Rows


def test_rows_agree_with_fresh_matchers(constraint, free):
    """Rows that grow, shrink, change places, multiply and leave the language: each has the matcher of its ids."""
    rng = random.Random(5)
    words = [
        constraint.vocabulary.tokenize(text) for text in (b'{"n": 12, "of": "pears"}', b'{"n": 125, "of": "apples"}')
    ]
    stop = [constraint.vocabulary.stop[0]]
    for constraints in ([constraint], [constraint, free], [constraint, None]):
        rows = ROW(constraints)
        for _ in range(300):
            count, length = len(constraints) * rng.choice([1, 1, 2, 3]), rng.randrange(14)
            ids = np.array([_row(rng, words, stop, length) for _ in range(count)], np.int64).reshape(count, length)
            found = rows.see(ids)
            for at, row in enumerate(found):
                own = constraints[at * len(constraints) // count]
                if own is None:
                    assert row.matcher is None
                    continue
                fresh, read = own.matcher(), 0
                for token in ids[at].tolist():
                    if fresh.is_finished() or not fresh.accepts(token):
                        break
                    fresh.advance(token)
                    read += 1
                assert (row.matcher.tokens, row.read, row.ended) == (fresh.tokens, read, fresh.is_finished())
                assert row.left == (read < length and not fresh.is_finished())


def _row(rng, words, stop, length: int) -> list[int]:
    row = [*rng.choice(words), *stop, *[0] * 20][:length]
    if row and rng.random() < 0.2:
        row[rng.randrange(len(row))] = rng.randrange(300)
    return row


def test_a_grammar_for_each_row(run, constraint, free):
    """Rows of a batch, with beams and repeated samples, each under its own constraint; None is free."""
    for options in ({}, {"do_sample": True, "num_return_sequences": 3}, {"num_beams": 3, "num_return_sequences": 2}):
        texts = run(c.logits_processor([constraint, free]), ["How many?", "Say it."], **options)
        half = len(texts) // 2
        assert all(re.fullmatch(PATTERN, text) for text in texts[:half])
        assert all(re.fullmatch("[a-z ]{12}", text) for text in texts[half:])
    texts = run(c.logits_processor([constraint, None]), ["How many?", "Say it."], max_new_tokens=40)
    assert re.fullmatch(PATTERN, texts[0])
    with pytest.raises(c.ConstrainedError, match="2 constraints for 3 rows"):
        run(c.logits_processor([constraint, free]), ["a", "b", "c"])
    with pytest.raises(c.ConstrainedError, match="not constraints: "):
        c.logits_processor([None])


def test_nothing_follows_the_end(constraint, tiny_model, tiny_tokenizer, tiny_vocabulary):
    """Whatever `generate` takes for its end: behind a complete word there are stop tokens and padding only, and one
    warning.
    """
    encoded = tiny_tokenizer(["How many?", "?"], return_tensors="pt", padding=True, padding_side="left")
    processor, ends = constraint.logits_processor(), {*tiny_vocabulary.stop, tiny_tokenizer.pad_token_id}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for seed in range(6):
            torch.manual_seed(seed)
            output = tiny_model.generate(
                **encoded,
                logits_processor=[processor],
                max_new_tokens=50,
                do_sample=True,
                eos_token_id=7,
                pad_token_id=tiny_tokenizer.pad_token_id,
            )
            for row in output[:, encoded["input_ids"].shape[1] :].tolist():
                end = next(at for at, token in enumerate(row) if token in tiny_vocabulary.stop)
                assert re.fullmatch(PATTERN, tiny_tokenizer.decode(row[:end]))
                assert set(row[end:]) <= ends
    assert [str(each.message)[:25] for each in caught if "eos_token_id" in str(each.message)] == [
        "the eos_token_id of gener"
    ]


def test_generation_kwargs(constraint, tiny_model, tiny_tokenizer, tiny_vocabulary):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output = tiny_model.generate(
            **tiny_tokenizer("How many?", return_tensors="pt"),
            **constraint.generation_kwargs(),
            max_new_tokens=60,
            do_sample=False,
        )
    text = tiny_vocabulary.decode([token for token in output[0].tolist() if token not in tiny_vocabulary.stop]).decode()
    assert re.search(PATTERN + "$", text)


def test_what_a_caller_says_of_generation_comes_first(constraint, tiny_model, tiny_tokenizer, tiny_vocabulary):
    own = LogitsProcessorList([TemperatureLogitsWarper(2.0)])
    told = constraint.generation_kwargs(max_new_tokens=60, pad_token_id=0, do_sample=False, logits_processor=own)
    assert (told["pad_token_id"], len(told["logits_processor"])) == (0, 2)
    rows = tiny_tokenizer(["How many?", "?"], return_tensors="pt", padding=True, padding_side="left")
    output = tiny_model.generate(**rows, **told)[:, rows["input_ids"].shape[1] :].tolist()
    assert all(set(row[-1:]) <= {0, *tiny_vocabulary.stop} for row in output)


@pytest.mark.parametrize("name", ["pattern", "hermes auto", "gpt-oss required"])
def test_texts_end_once_under_the_end_of_the_tokenizer(tiny_model, tiny_tokenizer, tiny_vocabulary, name):
    """A slice of ``python -m constrained.benchmarks.ends``: formats whose stop token is not the tokenizer's, and a
    schema.
    """
    found = cases(tiny_vocabulary, [name.split()[0]] if " " in name else [], [] if " " in name else [name])
    case = next(case for case in found if case.name == name)
    tally = ends.check(case.constraint, (tiny_model, tiny_tokenizer), seeds=4, rows=4)
    assert (tally.texts, tally.faults) == (4, [])
    assert tally.ended > 0
