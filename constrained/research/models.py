"""A language model as one function: ids → log-probabilities of the next token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from constrained.errors import ConstrainedError, shown

Floats = npt.NDArray[np.float64]
# ids so far → (width,) natural logarithms, which sum to 1 as probabilities
NextToken = Callable[[Sequence[int]], Floats]


class NextTokens:
    """What a causal model of transformers says comes next; ids that go on from those asked last are read from there.

    Temperature divides the logits; what it returns is a distribution in any case.
    """

    def __init__(self, model: Any, temperature: float = 1.0) -> None:
        self._model, self._temperature = model, temperature
        self._ids: list[int] = []
        self._past: Any = None

    def __call__(self, ids: Sequence[int]) -> Floats:
        import torch

        read = len(self._ids)
        goes_on = self._past is not None and len(ids) > read and list(ids[:read]) == self._ids
        fresh = list(ids[read:]) if goes_on else list(ids)
        with torch.no_grad():
            given = torch.tensor([fresh], device=self._model.device)
            output = self._model(given, past_key_values=self._past if goes_on else None, use_cache=True)
        self._ids, self._past = list(ids), output.past_key_values
        return normalised(output.logits[0, -1].float().cpu().numpy().astype(np.float64) / self._temperature)


def next_token_of(model: Any, temperature: float = 1.0) -> NextToken:
    """Return a model of transformers, or a function that is one already, as such a function.

    Raises: ConstrainedError: it is neither.
    """
    if hasattr(model, "config") and hasattr(model, "forward"):
        return NextTokens(model, temperature)
    if not callable(model):
        raise ConstrainedError(
            "not a model",
            because=f"it is {shown(model)}",
            instead="a causal model of transformers, or a function ids → log-probabilities",
        )
    return lambda ids: normalised(np.asarray(model(ids), np.float64) / temperature)


def prompt_ids(prompt: Any, tokenizer: Any = None) -> list[int]:
    """Return the ids of a prompt: a text with its tokenizer, or ids in any shape that has one row.

    Raises: ConstrainedError: a text without a tokenizer, or no ids.
    """
    if isinstance(prompt, str):
        if tokenizer is None:
            raise ConstrainedError(
                "a prompt in words needs its tokenizer", instead="trace(model, prompt, tokenizer=tokenizer), or ids"
            )
        return list(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    try:
        return [index(token) for token in np.asarray(prompt).reshape(-1)]
    except (TypeError, ValueError, OverflowError) as error:  # a ragged list, a fraction, an object
        raise ConstrainedError(f"the prompt is {shown(prompt)}", instead="a text, or ids") from error


def normalised(logits: Floats) -> Floats:
    """Return logits as log-probabilities; -inf stays."""
    highest = logits.max()
    total: Floats = logits - (highest + np.log(np.exp(logits - highest).sum()))
    return total


def entropy(logs: Floats) -> float:
    """Return the entropy of log-probabilities, in bits."""
    some = logs[np.isfinite(logs)]
    return float(-(np.exp(some) * some).sum() / np.log(2)) + 0.0
