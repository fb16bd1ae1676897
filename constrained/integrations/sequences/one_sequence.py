"""A single sequence that a host shows step after step → the tokens that may come next; for hosts without batches.

Where the prompt ends is told (`prompt_length`), or found: the first call's ids are the prompt.  A later call belongs to
the same generation if its ids are some that were seen and at most one token more, or fewer, as drafts are taken back;
else a new one begins.  This cannot tell the same prompt and one token more from a step: `reset` says it.

These hosts pass over an error inside a processor and go on without it.  So none is raised: where a mask takes too much
work the text is ended, and the log says why.

Tested in tests/hosts/test_local.py.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt

from constrained.engine.compiled import CompiledGrammar
from constrained.errors import ConstrainedError, LimitExceeded
from constrained.integrations.sequences.rows import Rows

_log = logging.getLogger("constrained.sequences")


class OneSequence:
    """Follows one sequence; may be used again, with other prompts."""

    def __init__(self, constraint: CompiledGrammar, prompt_length: int | None, max_new_tokens: int | None) -> None:
        if not isinstance(constraint, CompiledGrammar):
            raise ConstrainedError(
                f"not a constraint: {type(constraint).__name__}", instead="compile(grammar, vocabulary)"
            )
        self.constraint, self._prompt_length, self._budget = constraint, prompt_length, max_new_tokens
        constraint.matcher(budget=max_new_tokens)  # too few tokens are an error now
        self._bits = np.zeros((1, constraint.vocabulary.words), np.int32)
        self.reset()

    def reset(self) -> None:
        """Say that the next call begins a new generation."""
        self._prompt: npt.NDArray[Any] | None = None
        self._rows = Rows((self.constraint,), (self._budget,))

    def _generated(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the row behind the prompt, (1, generated); of a new generation, if the ids belong to no other."""
        prompt = self._prompt
        if prompt is not None and len(ids) >= len(prompt) and np.array_equal(ids[: len(prompt)], prompt):
            generated = ids[None, len(prompt) :]
            if self._rows.continues(generated):
                return generated
        self.reset()
        self._prompt = prompt = ids[: self._prompt_length].copy()
        return ids[None, len(prompt) :]

    def allowed(self, ids: npt.NDArray[Any], width: int) -> npt.NDArray[np.bool_] | None:
        """Return which tokens may come next, (width,) bool; None where the ids, (length,), are not in the language."""
        generated = self._generated(ids)
        try:
            (row,) = self._rows.see(generated)
            if row.left:
                return None
            assert row.matcher is not None
            row.matcher.fill_mask(self._bits)
        except LimitExceeded as error:
            _log.error("a text is ended: %s", error)
            self._bits[:] = 0
        bits = np.unpackbits(self._bits[0].view(np.uint8), bitorder="little").view(np.bool_)
        if not bits.any():  # behind the end, or without a way on: what ends a text here, and not a grammar's turn
            bits[list(self.constraint.vocabulary.stop or self.constraint.stop)] = True
        return bits[:width] if width <= len(bits) else np.pad(bits, (0, width - len(bits)))


def masked(scores: npt.NDArray[Any], allowed: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
    """Return scores with -inf for what is not allowed; None: as they are."""
    return scores if allowed is None else np.where(allowed, scores, np.array(-np.inf, scores.dtype))
