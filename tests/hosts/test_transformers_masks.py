"""Tests of what the transformers processor writes into scores, of what it must never do, and of its errors."""

from __future__ import annotations

import copy
import pickle
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import GenerationMixin, LogitsProcessor

import constrained as c
from constrained.integrations import masks
from constrained.integrations.transformers import GrammarProcessor, grammar_candidates

from .conftest import PATTERN

CASES = tomllib.loads(Path(__file__).parents[1].joinpath("corpus", "errors_transformers.toml").read_text())["case"]


def test_nothing_is_changed_in_place(run, constraint, tiny_model, tiny_tokenizer):
    scores = torch.randn(2, 1664)
    ids = torch.tensor([[1, 2], [3, 4]])
    before, ids_before = scores.clone(), ids.clone()
    assert constraint.logits_processor()(ids, scores) is not scores
    assert torch.equal(scores, before)
    assert torch.equal(ids, ids_before)
    encoded = tiny_tokenizer("How many?", return_tensors="pt")
    output = tiny_model.generate(
        **encoded,
        logits_processor=[constraint.logits_processor()],
        max_new_tokens=5,
        output_logits=True,
        return_dict_in_generate=True,
    )
    assert all(torch.isfinite(logits).all() for logits in output.logits)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("beyond", [-1, 0, 100])
def test_mask_is_exact_for_every_dtype_and_width(constraint, tiny_vocabulary, dtype, beyond):
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
    assert torch.equal(masks._by_shifts(words), masks._by_numpy(words))


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
    rows = torch.tensor(
        [[1, *ids, stop, 0], [1, *ids, stop, 5_000_000], [1, *ids[:-1], *ids[-1:], stop, stop], [1, *ids, 7, 7]]
    )
    assert rows.shape[1] == width
    scores = torch.randn(4, 1664)
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


def test_what_a_processor_shows(constraint):
    assert repr(constraint.logits_processor()) == f"<GrammarProcessor of {constraint!r}>"
    shown = repr(constraint.logits_processor(prompt_length=3, max_new_tokens=200))
    assert shown == f"<GrammarProcessor of {constraint!r}, prompt_length=3, max_new_tokens=200>"
    assert repr(GrammarProcessor([constraint, None])) == "<GrammarProcessor of 2 constraints>"


# -- wrong uses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_wrong_use(case, run, constraint, tiny_vocabulary):
    def forbid(token_bytes: bytes):
        """Return a processor that forbids every token but those that spell `token_bytes`."""

        class Forbid(LogitsProcessor):
            def __call__(self, input_ids, scores):
                keep = torch.tensor([text == token_bytes for text in tiny_vocabulary.tokens])
                return scores.masked_fill(~keep, float("-inf"))

        return Forbid()

    names = {
        "c": c,
        "torch": torch,
        "constraint": constraint,
        "run": run,
        "forbid": forbid,
        "drafts": grammar_candidates,
        "monkey": Monkey(),
    }
    with pytest.raises(c.ConstrainedError) as caught:
        exec(case["call"], names)
    assert f"{type(caught.value).__name__}: {caught.value}" == case["message"].strip("\n")


class Monkey:
    """Takes the private methods of transformers away while a case runs."""

    def __enter__(self):
        self.kept = GenerationMixin._prefill
        del GenerationMixin._prefill

    def __exit__(self, *_):
        GenerationMixin._prefill = self.kept


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("width", "words"), [(1, 1), (31, 1), (32, 1), (33, 2), (64, 1), (70, 2), (70, 3), (70, 5), (40, 0)]
)
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_scores_under_masks(rows, width, words, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(masks, "select", None)
    picks = np.random.default_rng(width)
    scores = torch.from_numpy(picks.normal(size=(rows, width)).astype(np.float32))
    packed = picks.integers(0, 2**32, (rows, words), dtype=np.uint32)
    allowed = np.unpackbits(packed.view(np.uint8), axis=1, bitorder="little")[:, :width].astype(bool)
    wanted = scores.numpy().copy()
    wanted[:, : allowed.shape[1]][~allowed] = -np.inf
    wanted[:, allowed.shape[1] :] = -np.inf
    before = scores.clone()
    found, some = masks.masked(scores, packed.view(np.int32))
    np.testing.assert_array_equal(found.numpy(), wanted)
    assert list(map(bool, some)) == (wanted.max(axis=1) != -np.inf).tolist()
    assert torch.equal(scores, before)


def test_scores_that_are_no_numbers_or_lie_apart():
    scores = torch.tensor([[float("nan"), 1.0, float("nan"), float("inf")], [2.0, 3.0, 4.0, 5.0]])
    packed = np.array([[0b0011], [0b0110]], np.int32)
    found, some = masks.masked(scores.repeat(1, 2)[:, ::2], packed)  # every second column
    other = scores.repeat(1, 2)[:, ::2].clone()
    assert torch.isnan(found[0, 0]) and some == [True, True]
    assert found[1].tolist() == [float("-inf"), other[1, 1], other[1, 2], float("-inf")]
    assert found[0, 2:].tolist() == [float("-inf")] * 2


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("width", [3, 32, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_what_is_left_of_scores_that_are_minus_infinity(compiled, width, dtype, monkeypatch):
    """Rows: a token is allowed and has a score, is allowed and has none, has a score and is forbidden."""
    if not compiled:
        monkeypatch.setattr(masks, "select", None)
    scores = torch.full((3, width), float("-inf"), dtype=dtype)
    scores[0, width - 1] = scores[2, width - 1] = -3e4
    packed = np.zeros((3, 2), np.uint32)
    packed[:2, (width - 1) // 32] = 1 << (width - 1) % 32
    _, some = masks.masked(scores, packed.view(np.int32))
    assert (some.tolist() if isinstance(some, torch.Tensor) else some) == [True, False, False]


@pytest.mark.parametrize("kind", ["meta", "resized"])
def test_tensors_without_memory_are_told_and_never_written(kind, constraint):
    def without(tensor):
        if kind == "meta":
            return tensor.to("meta")
        tensor.untyped_storage().resize_(0)
        return tensor

    ids, scores = torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 1664)
    bitmask = without(torch.zeros(1, constraint.vocabulary.words, dtype=torch.int32))
    with pytest.raises(c.BitmaskError):
        constraint.matcher().fill_mask(bitmask)
    for given in ((without(ids.clone()), scores), (ids, without(scores.clone()))):
        with pytest.raises(c.ConstrainedError, match="no memory"):
            constraint.logits_processor()(*given)
