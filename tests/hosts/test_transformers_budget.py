"""Every row that `generate` writes with a budget is a word: beams, batches whose rows have different budgets, and as
`generate` was told.
"""

from __future__ import annotations

import pytest

import constrained as c
from benchmarks import always_finished
from constrained.api import logits_processor


@pytest.mark.parametrize("mode", sorted(always_finished.MODES))
@pytest.mark.parametrize("name", ["closed object", "distinct strings", "long choice"])
def test_every_row_ends_within_its_budget(name, mode, tiny_model, tiny_tokenizer, tiny_vocabulary):
    (case,) = always_finished.cases(tiny_vocabulary, [], [name])
    budgets = [case.constraint.min_tokens + more for more in (0, 6, 1)]
    for ids, most in zip(
        always_finished.generated(case, tiny_model, tiny_tokenizer.pad_token_id, mode, budgets), budgets, strict=True
    ):
        assert case.fault(ids, most, tiny_tokenizer.pad_token_id) is None


def test_a_slice_of_the_matrix():
    """Two constraints of ``python -m constrained.benchmarks.always_finished``: every budget, in one of them every way
    to decode.
    """
    assert always_finished.main(["--formats", "", "--schemas", "array"]) == 0
    assert (
        always_finished.main(["--inside", "--formats", "gemma-4", "--schemas", "counted members", "--without-model"])
        == 0
    )


def test_the_budget_is_what_generate_was_told(tiny_model, tiny_tokenizer, constraint):
    encoded = tiny_tokenizer("two words", return_tensors="pt")
    processor = constraint.logits_processor(max_new_tokens="generate")
    for more in (0, 1, 9):
        new = constraint.min_tokens + more
        kwargs = constraint.generation_kwargs() | {"logits_processor": [processor], "max_new_tokens": new}
        output = tiny_model.generate(**encoded, do_sample=True, temperature=5.0, **kwargs)[
            0, encoded["input_ids"].shape[1] :
        ].tolist()
        assert always_finished.Case("", constraint, schema=True).fault(output, new, tiny_tokenizer.pad_token_id) is None
    with pytest.raises(c.LimitExceeded, match="too small"):
        tiny_model.generate(**encoded, **kwargs | {"max_new_tokens": constraint.min_tokens - 1})


def test_budgets_that_no_word_fits_are_refused_before_generation(constraint):
    with pytest.raises(c.LimitExceeded, match="too small"):
        constraint.logits_processor(max_new_tokens=1)
    with pytest.raises(c.ConstrainedError, match="3 budgets for 2 constraints"):
        logits_processor([constraint, None], max_new_tokens=[20, 20, 20])
