"""Packed masks → logits, on whatever device these are; and masks that stay on a device.

    masks = DeviceMasks(vocabulary, logits.device)
    masks.forbid(logits, matchers)          # in place; row i of the logits belongs to matcher i

A step sends numbers of rows, and one operation forbids what they do not allow.  Most masks of a generation have been
asked for before.  Each that is new is packed on the host, copied once, and kept in a row of a table on the device until
rows are short; then what was asked for longest ago makes room.  A step of n sequences whose masks are known sends 8 n
bytes, where the masks would be 16 KB each for 128,000 tokens.

`forbid_rows` is one kernel of Triton where that is installed and the logits lie on a GPU, else four operations of
PyTorch, which every device has.  Both are compared bit by bit with `fill_masks` on the host, the kernel by Triton's
interpreter; no test of this project runs them on a GPU.

Masks are found by kernel and state, so two that are equal may take two rows.  Refused: by content, whose hash costs
more than the rest of a step.
Tested in tests/hosts/test_device_masks.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt
import torch

from constrained.engine.matcher import Matcher, fill_masks
from constrained.engine.tokens.bitmask import number
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, shown
from constrained.integrations.servers import Cursor

try:
    from constrained.engine.kernel._kernel import select
except ImportError:  # no compiler
    select = None
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None


def unpacked(words: torch.Tensor) -> torch.Tensor:
    """Return (rows, words) int32 as (rows, 32 · words) bool."""
    return _by_numpy(words) if words.device.type == "cpu" else _by_shifts(words)


def _by_shifts(words: torch.Tensor) -> torch.Tensor:
    """Unpack with operations that every device has."""
    return ((words.unsqueeze(-1) >> torch.arange(32, device=words.device, dtype=torch.int32)) & 1).bool().flatten(1)


def _by_numpy(words: torch.Tensor) -> torch.Tensor:
    """Unpack on the host.  Four times faster there, 9 µs against 39 µs for a row of 128,000."""
    return torch.from_numpy(np.unpackbits(words.numpy().view(np.uint8), axis=1, bitorder="little")).view(torch.bool)


def padded(forbidden: torch.Tensor, width: int) -> torch.Tensor:
    """Return (rows, any) bool cut or padded to (rows, width): ids beyond the mask are forbidden."""
    more = width - forbidden.shape[1]
    return forbidden if not more else torch.nn.functional.pad(forbidden, (0, max(0, more)), value=True)[:, :width]


def masked(
    scores: torch.Tensor, allowed: npt.NDArray[np.int32]
) -> tuple[torch.Tensor, Sequence[bool] | torch.Tensor]:
    """Return new scores, -inf where packed masks, (rows, words), do not allow a token, and for each row whether more
    than -inf is left in it: a tensor on the scores' device where no compiled code has masked them.

    Shapes: scores (rows, width) of any floating type, on any device; what lies beyond the masks is not allowed.
    On the host compiled, 0.03 ms for 128,000 tokens; by a mask of booleans 0.06-0.4 ms.
    """
    if select is not None and scores.device.type == "cpu" and scores.dtype == torch.float32:
        found = torch.empty_like(scores, memory_format=torch.contiguous_format)
        return found, select(_bits(scores.contiguous()), allowed.view(np.uint32), _bits(found))
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
    if logits.device.type != "cpu" or empty.any():  # elsewhere, to ask would be to wait
        part.masked_fill_(~forbidden & empty, 0.0)
    if not whole:
        logits[chosen] = part


# -- masks that stay on the device -------------------------------------------------------------------------------------


BLOCK = 1024  # logits that one program of Triton looks at
ROWS = 2048  # 32 MB for 128,000 tokens


class DeviceMasks:
    """A table of masks on a device, by row; the first allows nothing.

    Invariants: `_rows` maps what a mask is known by to its row, the last asked for at the end; no two have one row.
    Memory: rows times vocabulary.words int32 on the device; kernels are not kept alive.
    Threads: one at a time, on one stream.
    Raises: ConstrainedError: fewer than two rows.
    """

    def __init__(self, vocabulary: Vocabulary, device: torch.device | str, *, rows: int = ROWS) -> None:
        if number(rows) < 2:
            raise ConstrainedError(
                "a table of masks has two rows or more", because=f"got {shown(rows)}", instead=f"rows={ROWS}, say"
            )
        self.table = torch.zeros((number(rows), vocabulary.words), dtype=torch.int32, device=device)
        self._rows: OrderedDict[Hashable, int] = OrderedDict()

    def forbid(self, logits: torch.Tensor, matchers: Sequence[Matcher]) -> None:
        """Set logits of tokens that the matchers do not allow to -inf, in place: (rows, width), matcher i in row i.

        Raises: as `rows`.
        """
        forbid_rows(logits, self.table, self.rows(matchers))

    def rows(self, matchers: Sequence[Matcher]) -> torch.Tensor:
        """Return the row of each matcher's mask, (matchers,) int64 on the device; masks that are new are copied there.

        Raises: ConstrainedError: more matchers than rows, or of another vocabulary.  LimitExceeded: see `fill_masks`.
        """
        if len(matchers) >= len(self.table):
            raise ConstrainedError(
                f"{len(matchers)} masks at once", because=f"the table has {len(self.table)} rows, one of them empty"
            )
        keys = [_key(matcher) for matcher in matchers]
        new: dict[Hashable, Matcher] = {}
        for key, matcher in zip(keys, matchers, strict=True):
            if key in self._rows:
                self._rows.move_to_end(key)
            elif key is not None:
                new[key] = matcher
        if new:
            self._copy(new)
        return torch.tensor([0 if key is None else self._rows[key] for key in keys], device=self.table.device)

    def _copy(self, new: dict[Hashable, Matcher]) -> None:
        """Make masks and put them into rows that are free, or have not been asked for for longest."""
        packed = np.zeros((len(new), self.table.shape[1]), np.int32)
        fill_masks(list(new.values()), packed)
        free = iter(range(len(self._rows) + 1, len(self.table)))
        rows = [row if (row := next(free, 0)) else self._rows.popitem(last=False)[1] for _ in new]
        self.table[torch.tensor(rows, device=self.table.device)] = torch.from_numpy(packed).to(self.table.device)
        self._rows.update(zip(new, rows, strict=True))


def _key(matcher: Matcher) -> Hashable:
    """Return what a mask is known by; None where nothing may follow."""
    if matcher.is_finished():
        return None
    if type(matcher) is not Matcher:  # with a budget a mask depends on what is left of it
        return object()
    return ref(matcher._kernel), matcher._last[0]


def forbid_rows(logits: torch.Tensor, table: torch.Tensor, rows: torch.Tensor) -> None:
    """Set logits to -inf where the masks in some rows of a table do not allow a token, in place.

    Shapes: logits (n, width) of any floating type; table (some, words) int32; rows (n,) int64; all on one device.  What
    lies beyond the masks is not allowed.
    """
    if triton is not None and logits.device.type == "cuda":
        launch(logits, table, rows)
        return
    forbidden = unpacked(~table.index_select(0, rows))
    logits.masked_fill_(padded(forbidden, logits.shape[-1]), float("-inf"))


if triton is not None:

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
        """Forbid as `forbid_rows`, by a kernel that reads a mask's word for 32 logits and writes -inf where a bit is 0;
        the logits of a row lie one after another.
        """
        if logits.stride(1) != 1:
            whole = logits.contiguous()
            launch(whole, table, rows)
            logits.copy_(whole)
            return
        grid = len(logits), triton.cdiv(logits.shape[1], BLOCK)
        if all(grid):
            _forbid[grid](logits, table, rows, logits.shape[1], table.shape[1], logits.stride(0), block=BLOCK)
