"""The choice of a kernel, compiled or its plain twin, and the protocol that both follow."""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from constrained.errors import ConstrainedError, shown

if TYPE_CHECKING:
    from constrained.work import Budget


class Kernel(Protocol):
    """What matchers use of an automaton, compiled or plain.

    States are ints and belong to the kernel that they came from: 0 is dead, -1 stands for no token in range, others
    below that for a sequence that has ended, whose mask is empty.
    budget: what the work counts against; None: the thread's own.
    Cost: what is known, 0.1 to 0.5 µs.  A state that is met first takes some µs in the compiled kernel; its mask, some
    tens of µs, with 128,000 tokens.
    Raises: LimitExceeded: too much work.  Preempted: others wait for the kernel, or it was emptied: go on in another.
    """

    def start_at(self, root: Any, nullable: bool, budget: Budget | None = None, weight: int = 0) -> int:
        """Return the state before the words of a machine state, and the empty word if `nullable`; weight: its bytes."""
        ...

    def step_byte(self, state: int, byte: int) -> int:
        """Return the state after a byte."""
        ...

    def next_bytes(self, state: int) -> bytes:
        """Return the bytes that may come next, ascending."""
        ...

    def step_bytes(self, state: int, data: bytes) -> int:
        """Return the state after some bytes."""
        ...

    def step_token(self, state: int, token: int, budget: Budget | None = None) -> int:
        """Return the state after a token: its bytes, or the edge that names it."""
        ...

    def is_final(self, state: int) -> bool:
        """Say whether the bytes so far are a word."""
        ...

    def is_exhausted(self, state: int) -> bool:
        """Say whether nothing can follow."""
        ...

    def named_tokens(self, state: int) -> set[int]:
        """Return the special tokens that may come next, stop tokens only where the grammar names them."""
        ...

    def fill(self, state: int, bitmask: Any, row: int, budget: Budget | None = None) -> bool:
        """Write a mask, stop tokens included, into a row of int32 (rows, words); say whether the cache `is_full`."""
        ...

    def is_wanted(self) -> bool:
        """Say whether the operation under way has kept other threads waiting for long enough."""
        ...

    def is_full(self) -> bool:
        """Say whether the cache has passed its bound, so that its owner starts a fresh kernel."""
        ...

    def is_gone(self) -> bool:
        """Say whether the kernel was emptied, so that its states mean nothing any more."""
        ...

    def was_used(self) -> bool:
        """Say whether anything was asked since this was asked last."""
        ...

    def allow(self, size: int) -> None:
        """Set the bound of the cache, in bytes."""
        ...

    def drop_all(self) -> bool:
        """Give all memory back; say whether that was possible."""
        ...

    def cached_bytes(self) -> int:
        """Return an estimate of the bytes that the cache holds."""
        ...

    def count_states(self) -> int:
        """Return how many automaton states there are."""
        ...


def kernel_class(name: str | None = None) -> Any:
    """Return the class of kernel to use: "compiled", "plain", or the fastest there is.

    Raises: ConstrainedError: no such kernel, or it was asked for by name and does not load.
    """
    if name is not None and (type(name) is not str or name not in ("compiled", "plain")):
        raise ConstrainedError(
            f"unknown kernel {shown(name)}", instead='"compiled", "plain", or None for the fastest that is installed'
        )
    if name != "plain":
        try:
            return _compiled()
        except Exception as error:  # a numpy of another binary interface raises ValueError, for instance
            because = _why_not_compiled(error)
            if name == "compiled":
                raise ConstrainedError(
                    "the compiled kernel does not load", because=because, instead="install again, with a C compiler"
                ) from error
            warnings.warn(f"constrained runs its plain Python engine, 100 times slower: {because}", stacklevel=4)
    from constrained.engine.twin.automaton import PlainKernel

    return PlainKernel


@cache
def _compiled() -> Any:
    """Return the compiled kernel.  PERF: every compile asks; where it does not load, it is tried again."""
    from constrained.engine.kernel._kernel import Kernel as CompiledKernel

    return CompiledKernel


def _why_not_compiled(error: Exception) -> str:
    """Say whether the compiled kernel is missing, or there and broken."""
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("constrained."):
        return f"it was installed without a C compiler ({error.name} is missing)"
    return f"its compiled kernel is there but does not load, {type(error).__name__}: {shown(str(error), 300)}"
