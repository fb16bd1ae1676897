"""The masks of a whole batch in one call: what can be copied is copied without the GIL, the rest computed one by one.

Tests: test_engine.py (rows of one batch, and of none), test_batches.py (large ones), test_work.py (those of much work).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from constrained.engine.matcher import Matcher
from constrained.engine.tokens.bitmask import as_array
from constrained.errors import ConstrainedError, LimitExceeded, shown


def fill_masks(matchers: Sequence[Matcher], bitmask: Any) -> None:
    """Write the masks of a whole batch, matcher i into row i, as `Matcher.fill_mask` does.

    New masks are computed one by one; then all rows are copied without the GIL, from 1 MB on by two threads: a helper,
    which the first such batch starts, takes rows as soon as its core is awake.
    Cost: 256 known masks of 128,000 tokens, 4 MB: 0.11 ms, of which 20 µs under the GIL; 0.2 ms without the helper.
    Raises: LimitExceeded: some masks take too much work; its `rows` names them.  All other rows are filled, these allow
    nothing.
    ConstrainedError: not a list of matchers.
    """
    listed = list(matchers) if isinstance(matchers, Iterable) else [matchers, None]
    array, batch = as_array(bitmask), _compiled_batch()
    failed = dict[int, LimitExceeded]()
    todo = batch.fill_rows(listed, array, Matcher) if batch is not None else None
    if todo is None:
        if not all(isinstance(matcher, Matcher) for matcher in listed):
            raise ConstrainedError(
                f"not a list of matchers: {shown(matchers)}",
                instead="[matcher, …], one for each row",
            )
        todo = range(len(listed))
    for row in todo:
        try:
            listed[row].fill_mask(array, row)
        except LimitExceeded as error:
            failed[row] = error
            array[row] = 0
    if failed:
        first = next(iter(failed.values()))
        first.rows = tuple(failed)
        raise first


@lru_cache(maxsize=1)
def _compiled_batch() -> Any:
    try:
        from constrained.engine.kernel import _kernel
    except Exception:  # then no matcher has such a kernel either, see `kernel_class`
        return None
    return _kernel
