"""Packed masks → logits, on whatever device these are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

try:
    from constrained.engine.kernel._kernel import select
except ImportError:  # no compiler
    select = None

if TYPE_CHECKING:
    from constrained.integrations.servers.cursor import Cursor


def unpacked(words: torch.Tensor) -> torch.Tensor:
    """Return (rows, words) int32 as (rows, 32 · words) bool."""
    return _by_numpy(words) if words.device.type == "cpu" else _by_shifts(words)


def _by_shifts(words: torch.Tensor) -> torch.Tensor:
    """Unpack with operations that every device has."""
    return ((words.unsqueeze(-1) >> torch.arange(32, device=words.device, dtype=torch.int32)) & 1).bool().flatten(1)


def _by_numpy(words: torch.Tensor) -> torch.Tensor:
    """Unpack on the host.  PERF: four times faster there, 9 µs against 39 µs for a row of 128,000."""
    return torch.from_numpy(np.unpackbits(words.numpy().view(np.uint8), axis=1, bitorder="little")).view(torch.bool)


def padded(forbidden: torch.Tensor, width: int) -> torch.Tensor:
    """Return (rows, any) bool cut or padded to (rows, width): ids beyond the mask are forbidden."""
    more = width - forbidden.shape[1]
    return forbidden if not more else torch.nn.functional.pad(forbidden, (0, max(0, more)), value=True)[:, :width]


def masked(
    scores: torch.Tensor, allowed: npt.NDArray[np.int32]
) -> tuple[torch.Tensor, Sequence[bool] | torch.Tensor]:
    """Return new scores, -inf where packed masks, (rows, words), do not allow a token, and for each row whether more
    than -inf is left in it: a tensor on the scores' device where that is not the host.

    Shapes: scores (rows, width) of any floating type, on any device; what lies beyond the masks is not allowed.
    PERF: on the host compiled, 0.03 ms for 128,000 tokens.  Without a compiler, the least of each score
    and +inf or -inf, which a table holds for eight tokens at once: 0.08 ms, whatever the mask; to choose by a mask of
    booleans takes 0.06-0.4 ms, as processors guess such choices, and guess wrong.  Row by row, so that +inf and -inf
    stay in the cache.
    """
    if scores.device.type == "cpu" and scores.dtype == torch.float32:
        found = torch.empty_like(scores, memory_format=torch.contiguous_format)
        if select is not None:
            return found, select(_bits(scores.contiguous()), allowed.view(np.uint32), _bits(found))
        _limit(scores, allowed.view(np.uint8), found)
        best: list[float] = found.amax(dim=-1).tolist()
        if all(value == value for value in best):  # no NaN, which would hide what is forbidden
            return found, [value != float("-inf") for value in best]
    words = torch.from_numpy(~allowed).to(scores.device, non_blocking=True)
    found = scores.masked_fill(padded(unpacked(words), scores.shape[-1]), float("-inf"))
    return found, found.amax(dim=-1) != float("-inf")


def _bits(scores: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return 32-bit floats on the host as whole numbers, without a copy."""
    return (scores.detach() if scores.requires_grad else scores).numpy().view(np.uint32)


def forbid(logits: torch.Tensor, allowed: torch.Tensor) -> None:
    """As `masked`, in place."""
    words = (~allowed).to(logits.device, non_blocking=True)
    logits.masked_fill_(padded(unpacked(words), logits.shape[-1]), float("-inf"))


_EIGHT = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"),
    np.float32(np.inf),
    np.float32(-np.inf),
)


def _limit(scores: torch.Tensor, allowed: np.ndarray[Any, Any], found: torch.Tensor) -> None:
    """Write scores, and -inf for what is not allowed, into `found`; allowed: (rows, bytes) uint8."""
    room = np.empty((allowed.shape[1], 8), np.float32)
    limits = torch.from_numpy(room.reshape(-1)[: scores.shape[1]])  # +inf for what is allowed, else -inf
    told = len(limits)
    if told < scores.shape[1]:
        found[:, told:] = float("-inf")
        scores, found = scores[:, :told], found[:, :told]
    for score, bits, out in zip(scores, allowed, found):
        _EIGHT.take(bits, axis=0, out=room, mode="clip")
        torch.minimum(score, limits, out=out)


def constrain(logits: torch.Tensor, rows: Sequence[tuple[int, Cursor]], words: int) -> None:
    """Set the logits of what cursors do not allow in their rows to -inf, in place; other rows stay.

    Where another processor has left -inf for all that is allowed (the host's least number of tokens does, at the end of
    a text), the grammar counts: what it allows is equally likely.
    """
    if not rows:
        return
    bitmask: Any = np.zeros((len(rows), words), np.int32)
    for at, (_, cursor) in enumerate(rows):
        cursor.fill(bitmask, at)
    whole = len(rows) == len(logits) and all(at == row for at, (row, _) in enumerate(rows))
    chosen = slice(None) if whole else torch.tensor([row for row, _ in rows], device=logits.device)
    part = logits[chosen]
    packed = torch.from_numpy(~bitmask).to(logits.device, non_blocking=True)
    forbidden = padded(unpacked(packed), logits.shape[-1])
    part.masked_fill_(forbidden, float("-inf"))
    empty = part.amax(dim=-1, keepdim=True) == float("-inf")
    if logits.device.type != "cpu" or empty.any():  # PERF: elsewhere, to ask would be to wait
        part.masked_fill_(~forbidden & empty, 0.0)
    if not whole:
        logits[chosen] = part
