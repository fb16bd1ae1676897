"""The kernel of `device_masks`, for Triton: it reads a mask's word for 32 logits and writes -inf where a bit is 0."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 1024  # logits that one program looks at


@triton.jit  # type: ignore[untyped-decorator]
def _forbid(
    logits: Any, table: Any, rows: Any, width: Any, words: Any, stride: Any, block: tl.constexpr
) -> None:  # pragma: no cover
    row = tl.program_id(0)
    at = tl.program_id(1) * block + tl.arange(0, block)
    found = tl.load(rows + row)
    told = tl.load(table + found * words + (at >> 5), mask=at < 32 * words, other=0)
    tl.store(logits + row * stride + at, float("-inf"), mask=(at < width) & (((told >> (at & 31)) & 1) == 0))


def launch(logits: torch.Tensor, table: torch.Tensor, rows: torch.Tensor) -> None:
    """Forbid as `device_masks.forbid_rows`; the logits of a row lie one after another."""
    if logits.stride(1) != 1:
        whole = logits.contiguous()
        launch(whole, table, rows)
        logits.copy_(whole)
        return
    grid = len(logits), triton.cdiv(logits.shape[1], BLOCK)
    if all(grid):
        _forbid[grid](logits, table, rows, logits.shape[1], table.shape[1], logits.stride(0), block=BLOCK)
