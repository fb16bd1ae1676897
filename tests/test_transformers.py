"""Tests of the transformers processor: every mode of `generate`, on the embedded model; what it must never do; its errors."""

from __future__ import annotations

import copy
import json
import pickle
import random
import re
import threading
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import GenerationMixin, LogitsProcessor, LogitsProcessorList

import constrained as c
from constrained.integrations import transformers as integration
from constrained.integrations.transformers import GrammarProcessor, grammar_candidates

PATTERN = r'\{"n": [1-9][0-9]{0,2}, "of": ("apples"|"pears")\}'
CASES = tomllib.loads(Path(__file__).with_name("corpus").joinpath("errors_transformers.toml").read_text())["case"]


@pytest.fixture(scope="module")
def constraint(tiny_vocabulary):
    return c.compile(c.Grammar.from_regex(PATTERN), tiny_vocabulary)


@pytest.fixture(scope="module")
def free(tiny_vocabulary):
    """Short free text: nearly every token is allowed at every step, so a prompt looks like a continuation."""
    return c.compile(c.Grammar.from_regex(r"[a-z ]{12}"), tiny_vocabulary)


@pytest.fixture
def run(tiny_model, tiny_tokenizer, tiny_vocabulary):
    """Return a function (processor, prompts, **options of generate) → list of generated texts, None for one that is not finished."""
    stop = list(tiny_vocabulary.stop)

    def run(processor, prompts, **options):
        encoded = tiny_tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
        torch.manual_seed(7)
        options = {"max_new_tokens": 60, "do_sample": False} | options
        processors = processor if isinstance(processor, list) else [processor]
        output = tiny_model.generate(**encoded, logits_processor=processors, eos_token_id=stop, pad_token_id=tiny_tokenizer.pad_token_id, **options)
        texts = []
        for row in output[:, encoded["input_ids"].shape[1] :].tolist():
            end = next((at for at, token in enumerate(row) if token in stop), None)
            texts.append(None if end is None else tiny_tokenizer.decode(row[:end]))
        return texts

    return run


# --- every mode --------------------------------------------------------------------------------------------------------------

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
ALONE = {"prompt lookup": {"prompt_lookup_num_tokens": 3}, "drafts": {"custom_generate": grammar_candidates}}


@pytest.mark.parametrize("mode", MODES)
def test_batches_in_every_mode(run, constraint, mode):
    texts = run(constraint.logits_processor(), ["How many?", "A much longer question about fruit: how many?", "?"], **MODES[mode])
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
            inputs_embeds=embeds, logits_processor=[processor], max_new_tokens=60, do_sample=False, eos_token_id=list(tiny_vocabulary.stop),
        )
        assert re.fullmatch(PATTERN, tiny_tokenizer.decode(output[0][:-1]))


def test_encoder_decoder(constraint, tiny_tokenizer, tiny_vocabulary):
    config = transformers.T5Config(
        vocab_size=tiny_vocabulary.size, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0, pad_token_id=0,
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


# --- where the prompt ends ---------------------------------------------------------------------------------------------------


def test_one_processor_for_many_prompts(run, constraint):
    processor = constraint.logits_processor()
    for prompts, mode in ((["a"], "greedy"), (["a b c", "d"], "beams"), (["a"], "greedy"), (["a a"], "sampling"), (["g", "h"], "greedy")):
        assert run(processor, prompts, **MODES[mode]) == run(constraint.logits_processor(), prompts, **MODES[mode])


def test_a_prompt_that_looks_like_a_step(run, free, tiny_tokenizer):
    """The second prompt is the first and one token (or several) that the grammar allows: content cannot tell it from a step."""
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


def greedy(processor, ids, steps: int, vocabulary, width: int = 1536):
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


ROW = integration.Rows


def test_rows_agree_with_fresh_matchers(constraint, free):
    """Rows that grow, shrink, change places, multiply and leave the language: each has the matcher of its ids."""
    rng = random.Random(5)
    words = [constraint.vocabulary.tokenize(text) for text in (b'{"n": 12, "of": "pears"}', b'{"n": 125, "of": "apples"}')]
    stop = [constraint.vocabulary.stop[0]]
    for constraints in ([constraint], [constraint, free], [constraint, None]):
        rows = ROW(constraints)
        for _ in range(300):
            count, length = len(constraints) * rng.choice([1, 1, 2, 3]), rng.randrange(14)
            ids = np.array([_row(rng, words, stop, length) for _ in range(count)], np.int64).reshape(count, length)
            for at, row in enumerate(rows.see(ids)):
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
    with pytest.raises(c.ConstrainedError, match="needs constraints"):
        c.logits_processor([None])


def test_nothing_follows_the_end(constraint, tiny_model, tiny_tokenizer, tiny_vocabulary):
    """Whatever `generate` takes for its end: behind a complete word there are stop tokens and padding only, and one warning."""
    encoded = tiny_tokenizer(["How many?", "?"], return_tensors="pt", padding=True, padding_side="left")
    processor, ends = constraint.logits_processor(), {*tiny_vocabulary.stop, tiny_tokenizer.pad_token_id}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for seed in range(6):
            torch.manual_seed(seed)
            output = tiny_model.generate(
                **encoded, logits_processor=[processor], max_new_tokens=50, do_sample=True, eos_token_id=7, pad_token_id=tiny_tokenizer.pad_token_id
            )
            for row in output[:, encoded["input_ids"].shape[1] :].tolist():
                end = next(at for at, token in enumerate(row) if token in tiny_vocabulary.stop)
                assert re.fullmatch(PATTERN, tiny_tokenizer.decode(row[:end]))
                assert set(row[end:]) <= ends
    assert [str(each.message)[:25] for each in caught if "generate does not stop" in str(each.message)] == ["generate does not stop at"]


def test_generation_kwargs(constraint, tiny_model, tiny_tokenizer, tiny_vocabulary):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output = tiny_model.generate(
            **tiny_tokenizer("How many?", return_tensors="pt"), **constraint.generation_kwargs(), max_new_tokens=60, do_sample=False
        )
    text = tiny_vocabulary.decode([token for token in output[0].tolist() if token not in tiny_vocabulary.stop]).decode()
    assert re.search(PATTERN + "$", text)


# --- what it must never do ---------------------------------------------------------------------------------------------------


def test_nothing_is_changed_in_place(run, constraint, tiny_model, tiny_tokenizer):
    scores = torch.randn(2, 1536)
    ids = torch.tensor([[1, 2], [3, 4]])
    before, ids_before = scores.clone(), ids.clone()
    assert constraint.logits_processor()(ids, scores) is not scores
    assert torch.equal(scores, before)
    assert torch.equal(ids, ids_before)
    encoded = tiny_tokenizer("How many?", return_tensors="pt")
    output = tiny_model.generate(
        **encoded, logits_processor=[constraint.logits_processor()], max_new_tokens=5, output_logits=True, return_dict_in_generate=True,
    )
    assert all(torch.isfinite(logits).all() for logits in output.logits)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("beyond", [-1, 0, 100])
def test_mask_is_exact_for_every_dtype_and_width(constraint, tiny_vocabulary, dtype, beyond):
    import numpy as np

    width = tiny_vocabulary.used if beyond < 0 else tiny_vocabulary.size + beyond
    scores = torch.randn(1, width, dtype=torch.float32).to(dtype)
    masked = constraint.logits_processor()(torch.tensor([[1, 2]]), scores)
    assert masked.dtype == dtype
    bitmask = np.zeros((1, tiny_vocabulary.words), np.int32)
    constraint.matcher().fill_mask(bitmask)
    for token in range(width):
        allowed = token < tiny_vocabulary.size and bool(bitmask.view(np.uint32)[0, token >> 5] >> (token & 31) & 1)
        assert masked[0, token] == (scores[0, token] if allowed else float("-inf")), token


def test_both_ways_of_unpacking_agree():
    words = torch.randint(-(2**31), 2**31 - 1, (3, 50), dtype=torch.int32)
    assert torch.equal(integration._unpacked(words), integration._unpacked_on_cpu(words))


def test_cuda(constraint):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    ids, scores = torch.tensor([[1, 2], [1, 3], [1, 2]]), torch.randn(3, 1600)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        expected = constraint.logits_processor()(ids, scores.to(dtype))
        found = constraint.logits_processor()(ids.cuda(), scores.to(dtype).cuda())
        assert found.is_cuda
        assert torch.equal(found.cpu(), expected)


def test_cuda_generation(run, constraint, tiny_tokenizer, tiny_vocabulary):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    from constrained.default_model import load

    model = load()[0].cuda()
    encoded = tiny_tokenizer(["How many?", "?"], return_tensors="pt", padding=True, padding_side="left").to("cuda")
    processor = constraint.logits_processor()
    for dtype in (torch.float32, torch.bfloat16):
        for options in ({}, {"num_beams": 3}, {"do_sample": True}, {"cache_implementation": "static"}):
            output = model.to(dtype).generate(
                **encoded, logits_processor=[processor], max_new_tokens=60, eos_token_id=list(tiny_vocabulary.stop),
                pad_token_id=tiny_tokenizer.pad_token_id, **options,
            )
            for row in output[:, encoded["input_ids"].shape[1] :].tolist():
                end = next(at for at, token in enumerate(row) if token in tiny_vocabulary.stop)
                assert re.fullmatch(PATTERN, tiny_tokenizer.decode(row[:end]))


def test_finished_rows_take_stops_and_impossible_rows_are_left_alone(constraint, tiny_vocabulary):
    ids, stop = constraint.vocabulary.tokenize(b'{"n": 12, "of": "pears"}'), tiny_vocabulary.stop[0]
    width = len(ids) + 3
    rows = torch.tensor([[1, *ids, stop, 0], [1, *ids, stop, 5_000_000], [1, *ids[:-1], *ids[-1:], stop, stop], [1, *ids, 7, 7]])
    assert rows.shape[1] == width
    scores = torch.randn(4, 1536)
    processor = constraint.logits_processor(prompt_length=1)
    masked = processor(rows, scores)
    assert torch.equal(masked[3], scores[3])
    for row in masked[:3]:
        assert torch.isfinite(row).nonzero().flatten().tolist() == sorted(tiny_vocabulary.stop)
    mixed = torch.cat([rows[:, : len(ids) + 1]], dim=-1)
    mixed[3, -1] = 7
    masked = processor(mixed, scores)
    assert torch.equal(masked[3], scores[3])
    for row in masked[:3]:
        assert torch.isfinite(row).nonzero().flatten().tolist() == sorted(tiny_vocabulary.stop)


def test_not_for_continuous_batching(constraint):
    assert GrammarProcessor.supports_continuous_batching is False


def test_copies_and_pickles(run, constraint):
    processor = constraint.logits_processor()
    expected = run(processor, ["How many?"])
    for twin in (pickle.loads(pickle.dumps(processor)), copy.deepcopy(processor)):
        assert run(twin, ["How many?"]) == expected


# --- drafts ------------------------------------------------------------------------------------------------------------------


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
    assert "_get_candidate_generator" not in vars(tiny_model)


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
    """A new version may move these; the rule of the prompt then falls back to content, and drafts say that they cannot."""
    assert callable(GenerationMixin._assisted_decoding)
    assert callable(GenerationMixin._get_candidate_generator)
    lists = []

    class Probe(LogitsProcessor):
        def __call__(self, input_ids, scores):
            import sys

            lists.append(integration._callers(sys._getframe(1)))
            return scores

    own = LogitsProcessorList([Probe()])
    own(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 4))
    assert lists == [(own, 0)]


def test_generate_is_seen_around_a_call(run, tiny_model):
    depths = []

    class Probe(LogitsProcessor):
        def __call__(self, input_ids, scores):
            import sys

            found, depth = integration._callers(sys._getframe(1))
            depths.append((type(found).__name__, depth))
            return scores

    run(Probe(), ["a"], max_new_tokens=1)
    assert depths == [("LogitsProcessorList", 1)]
    depths.clear()
    run(Probe(), ["a"], max_new_tokens=2, assistant_model=tiny_model)
    assert ("LogitsProcessorList", 2) in depths


# --- wrong uses --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_wrong_use(case, run, constraint, tiny_vocabulary):
    def forbid(token_bytes: bytes):
        """Return a processor that forbids every token but those that spell `token_bytes`."""

        class Forbid(LogitsProcessor):
            def __call__(self, input_ids, scores):
                keep = torch.tensor([text == token_bytes for text in tiny_vocabulary.tokens])
                return scores.masked_fill(~keep, float("-inf"))

        return Forbid()

    names = {"c": c, "torch": torch, "constraint": constraint, "run": run, "forbid": forbid, "drafts": grammar_candidates, "monkey": Monkey()}
    with pytest.raises(c.ConstrainedError) as caught:
        exec(case["call"], names)
    assert f"{type(caught.value).__name__}: {caught.value}" == case["message"].strip("\n")


class Monkey:
    """Takes the private methods of transformers away while a case runs."""

    def __enter__(self):
        self.kept = GenerationMixin._get_candidate_generator
        del GenerationMixin._get_candidate_generator

    def __exit__(self, *_):
        GenerationMixin._get_candidate_generator = self.kept
