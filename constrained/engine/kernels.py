"""The choice of a kernel, compiled or its plain twin, and the protocol that both follow."""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any, Protocol

from constrained.errors import ConstrainedError, shown

if TYPE_CHECKING:
    from constrained.work import Budget


class Kernel(Protocol):
    """What matchers use of an automaton; `PlainKernel` documents it, the compiled kernel is the same class."""

    def start_at(self, root: Any, nullable: bool, budget: Budget | None = None, weight: int = 0) -> int: ...
    def step_byte(self, state: int, byte: int) -> int: ...
    def next_bytes(self, state: int) -> bytes: ...
    def step_bytes(self, state: int, data: bytes) -> int: ...
    def step_token(self, state: int, token: int, budget: Budget | None = None) -> int: ...
    def is_final(self, state: int) -> bool: ...
    def is_exhausted(self, state: int) -> bool: ...
    def named_tokens(self, state: int) -> set[int]: ...
    def fill(self, state: int, bitmask: Any, row: int, budget: Budget | None = None) -> bool: ...
    def is_wanted(self) -> bool: ...
    def is_full(self) -> bool: ...
    def is_gone(self) -> bool: ...
    def was_used(self) -> bool: ...
    def allow(self, size: int) -> None: ...
    def drop_all(self) -> bool: ...
    def cached_bytes(self) -> int: ...
    def count_states(self) -> int: ...


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
            return importlib.import_module("constrained.engine.kernel._kernel").Kernel
        except Exception as error:  # a numpy of another binary interface raises ValueError, for instance
            because = _why_not_compiled(error)
            if name == "compiled":
                raise ConstrainedError(
                    "the compiled kernel does not load", because=because, instead="install again, with a C compiler"
                ) from error
            warnings.warn(f"constrained runs its plain Python engine, 100 times slower: {because}", stacklevel=4)
    from constrained.engine.twin.automaton import PlainKernel

    return PlainKernel


def _why_not_compiled(error: Exception) -> str:
    """Say whether the compiled kernel is missing, or there and broken."""
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith(
        ("constrained.engine.kernel.", "constrained.engine.memory._")
    ):
        return f"it was installed without a C compiler ({error.name} is missing)"
    return f"its compiled kernel is there but does not load, {type(error).__name__}: {shown(str(error), 300)}"
