"""Packed masks → logits, on whatever device these are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from .cursor import Cursor


def unpacked(words: torch.Tensor) -> torch.Tensor:
    """Return (rows, words) int32 as (rows, 32 · words) bool."""
    return _by_numpy(words) if words.device.type == "cpu" else _by_shifts(words)


def _by_shifts(words: torch.Tensor) -> torch.Tensor:
    """Unpack with operations that every device has."""
    return ((words.unsqueeze(-1) >> torch.arange(32, device=words.device, dtype=torch.int32)) & 1).bool().flatten(1)


def _by_numpy(words: torch.Tensor) -> torch.Tensor:
    """Unpack on the host.  PERF: four times faster there, 9 µs against 39 µs for a row of 128,000."""
    return torch.from_numpy(np.unpackbits(words.numpy().view(np.uint8), axis=1, bitorder="little")).view(torch.bool)


def widened(forbidden: torch.Tensor, width: int) -> torch.Tensor:
    """Return (rows, some) bool as (rows, width): what no mask speaks of is forbidden."""
    more = width - forbidden.shape[1]
    return forbidden if not more else torch.nn.functional.pad(forbidden, (0, max(0, more)), value=True)[:, :width]


def forbid(logits: torch.Tensor, allowed: torch.Tensor) -> None:
    """Set the logits of what packed masks, (rows, words) int32, do not allow to -inf, in place."""
    words = (~allowed).to(logits.device, non_blocking=True)
    logits.masked_fill_(widened(unpacked(words), logits.shape[-1]), float("-inf"))


def constrain(logits: torch.Tensor, rows: Sequence[tuple[int, Cursor]], words: int) -> None:
    """Set the logits of what cursors do not allow in their rows to -inf, in place; other rows stay."""
    if not rows:
        return
    bitmask: Any = np.zeros((len(rows), words), np.int32)
    for at, (_, cursor) in enumerate(rows):
        cursor.fill(bitmask, at)
    packed = torch.from_numpy(bitmask)
    if len(rows) == len(logits) and all(at == row for at, (row, _) in enumerate(rows)):
        forbid(logits, packed)
        return
    chosen = torch.tensor([row for row, _ in rows], device=logits.device)
    part = logits[chosen]
    forbid(part, packed)
    logits[chosen] = part
