"""Packed masks on logits, by the operations that every device has, as by those of the host."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from constrained.integrations import masks


def test_shifts_find_what_the_host_finds():
    words = torch.randint(-(2**31), 2**31, (5, 7), dtype=torch.int64).to(torch.int32)
    assert torch.equal(masks._by_shifts(words), masks._by_numpy(words))


@pytest.mark.parametrize("width", [224, 210, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_what_a_mask_does_not_allow_is_forbidden(width, dtype):
    words = torch.randint(-(2**31), 2**31, (5, 7), dtype=torch.int64).to(torch.int32)
    logits = torch.randn((5, width)).to(dtype)
    allowed = torch.zeros((5, width), dtype=torch.bool)
    allowed[:, :224] = masks._by_shifts(words)[:, :width]
    wanted = logits.masked_fill(~allowed, float("-inf"))
    found, some = masks.masked(logits, words.numpy())
    assert torch.equal(found, wanted) and torch.as_tensor(some).tolist() == (wanted.amax(1) > float("-inf")).tolist()
    masks.forbid(logits, words)
    assert torch.equal(logits, wanted)
