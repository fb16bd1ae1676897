"""Masks that stay on the device: a step sends numbers of rows, and one operation forbids what they do not allow.

    masks = DeviceMasks(vocabulary, logits.device)
    masks.forbid(logits, matchers)          # in place; row i of the logits belongs to matcher i

Most masks of a generation have been asked for before.  Each that is new is packed on the host, copied once, and kept in
a row of a table on the device until rows are short; then what was asked for longest ago makes room.  A step of n
sequences whose masks are known sends 8 n bytes, where the masks would be 16 KB each for 128,000 tokens.

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
from weakref import ref

import numpy as np
import torch

from constrained.engine.matcher import Matcher, fill_masks
from constrained.engine.tokens.bitmask import number
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, shown
from constrained.integrations.servers.masks import padded, unpacked

try:
    from constrained.integrations.servers.device_kernel import launch
except ImportError:  # no Triton
    launch = None  # type: ignore[assignment]

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
    return ref(matcher._kernel), matcher._path[-1]


def forbid_rows(logits: torch.Tensor, table: torch.Tensor, rows: torch.Tensor) -> None:
    """Set logits to -inf where the masks in some rows of a table do not allow a token, in place.

    Shapes: logits (n, width) of any floating type; table (some, words) int32; rows (n,) int64; all on one device.  What
    lies beyond the masks is not allowed.
    """
    if launch is not None and logits.device.type == "cuda":
        launch(logits, table, rows)
        return
    forbidden = unpacked(~table.index_select(0, rows))
    logits.masked_fill_(padded(forbidden, logits.shape[-1]), float("-inf"))
