"""A sequence that a host shows step after step, the prompt included → the cursor behind what was generated; for hosts without batches.

Where the prompt ends is told (`prompt_length`), or found: the first call's ids are the prompt.  A later call belongs to the same generation if
its ids are some that were seen and at most one token more, or fewer, as drafts are taken back; else a new one begins.  This cannot tell the same
prompt and one token more from a step: `reset` says it.

Tested in tests/hosts/test_local.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...engine.constraint import Constraint
from ...errors import ConstrainedError
from ..servers.cursor import Cursor


class OneSequence:
    """Follows one sequence; may be used again, with other prompts."""

    def __init__(self, constraint: Constraint, prompt_length: int | None, max_new_tokens: int | None) -> None:
        if not isinstance(constraint, Constraint):
            raise ConstrainedError("a processor needs a constraint", because=f"got {type(constraint).__name__}", instead="compile(grammar, vocabulary)")
        self.constraint, self._prompt_length, self._budget = constraint, prompt_length, max_new_tokens
        constraint.matcher(budget=max_new_tokens)  # too few tokens are an error now
        self._row = np.zeros((1, constraint.vocabulary.words), np.int32)
        self.reset()

    def reset(self) -> None:
        """Say that the next call begins a new generation."""
        self._prompt: list[int] | None = None
        self._read: list[int] = []

    def _begin(self, ids: Sequence[int]) -> None:
        length = len(ids) if self._prompt_length is None else self._prompt_length
        self._prompt, self._read = list(ids[:length]), []
        self._cursor = Cursor(self.constraint.matcher(budget=self._budget))

    def allowed(self, ids: Sequence[int], width: int) -> npt.NDArray[np.bool_] | None:
        """Return which tokens may come next, (width,) bool; None where the ids are not in the language."""
        if self._prompt is None or not self._continues(ids):
            self._begin(ids)
        assert self._prompt is not None
        generated = list(ids[len(self._prompt) :])
        common = next((at for at, (new, old) in enumerate(zip(generated, self._read)) if new != old), min(len(generated), len(self._read)))
        if common < len(self._read):
            self._cursor.rollback(len(self._read) - common)
            del self._read[common:]
        for token in generated[common:]:
            if not self._cursor.accept([token]):
                return None
            self._read.append(token)
        self._cursor.fill(self._row, 0)
        bits = np.unpackbits(self._row[0].view(np.uint8), bitorder="little").view(np.bool_)
        return bits[:width] if width <= len(bits) else np.pad(bits, (0, width - len(bits)))

    def _continues(self, ids: Sequence[int]) -> bool:
        assert self._prompt is not None
        length = len(self._prompt)
        if len(ids) < length or list(ids[:length]) != self._prompt:
            return False
        generated = list(ids[length:])
        if generated[:-1] != self._read[: len(generated) - 1] and generated:
            return False
        return len(generated) <= len(self._read) or not self._cursor.finished


def masked(scores: npt.NDArray[Any], allowed: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
    """Return scores with -inf for what is not allowed; None: as they are."""
    return scores if allowed is None else np.where(allowed, scores, np.array(-np.inf, scores.dtype))
