"""The options of `compile`: kernel, bounds of memory and of work, deadline and cancellation.

Tests: test_engine.py (what is no bound), test_work.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from constrained.engine.tokens.bitmask import number
from constrained.errors import ConstrainedError, shown
from constrained.work import MAX_WORK, Budget

# Default bound of the states and masks of a vocabulary's constraints: with what one operation adds and the heap rounds
# up, a process that strangers fill stays within 300 MB.
CACHE_BYTES = 160 << 20
_MOST = 1 << 62
_BOUNDS = (("cache_bytes", 0), ("max_configurations", 1), ("max_work", 0))  # and the least that each may be
SHARE = 32  # an operation that computes, one for each token, gets one part in so many of the units of work back


def _bound(value: object, name: str, least: int) -> int:
    """Return a bound that a caller gave; one that nothing reaches counts as the largest that fits."""
    if (found := number(value)) < least:
        raise ConstrainedError(
            f"{name} is no bound", because=f"it is {shown(value)}", instead=f"an int, {least} or more"
        )
    return min(found, _MOST)


def options_of(*given: Any) -> CompileOptions:
    """Return the options of a call.  PERF: most come with the same ones, and without a callback."""
    try:
        return _known_options(*given) if given[-1] is None else CompileOptions(*given)
    except TypeError:  # one of them cannot be looked up, and is refused
        return CompileOptions(*given)


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How a constraint is compiled; the parameters of `compile`."""

    kernel: str | None = None
    spell_missing: bool = False
    cache_bytes: int = CACHE_BYTES
    max_configurations: int = 20_000
    max_work: int | None = MAX_WORK
    deadline: float | None = None
    cancelled: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        for name, least in _BOUNDS:
            value = getattr(self, name)
            if (value is not None or name != "max_work") and not (type(value) is int and least <= value <= _MOST):
                object.__setattr__(self, name, _bound(value, name, least))
        seconds = self.deadline
        if seconds is not None and (
            isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds != seconds
        ):
            raise ConstrainedError(
                f"deadline is {shown(self.deadline)}",
                because="it is a number of seconds",
                instead="for instance 0.5, or None",
            )
        if self.cancelled is not None and not callable(self.cancelled):
            raise ConstrainedError(
                f"cancelled is {shown(self.cancelled)}",
                because="it is a function without arguments",
                instead="threading.Event().is_set",
            )

    def budget(self) -> Budget:
        share = 0 if self.max_work is None else self.max_work // SHARE
        remedy = "compile(…, max_work=…) with more units"
        return Budget(self.max_work, deadline=self.deadline, cancelled=self.cancelled, share=share, remedy=remedy)


_known_options = lru_cache(maxsize=64, typed=True)(CompileOptions)
