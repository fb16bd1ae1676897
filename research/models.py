"""A language model as one function: ids → log-probabilities of the next token."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import deepcopy
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from constrained.errors import ConstrainedError, shown

Floats = npt.NDArray[np.float64]
# ids so far → (width,) natural logarithms, which sum to 1 as probabilities
NextToken = Callable[[Sequence[int]], Floats]
Seed = int | Sequence[int] | np.random.Generator  # what numpy takes


class NextTokens:
    """What a causal model of transformers says comes next; of ids that begin as others did only the rest is read.

    Temperature divides the logits; what it returns is a distribution in any case.
    kept: sequences whose caches are kept, those asked last: as many as go on side by side.
    """

    def __init__(self, model: Any, temperature: float = 1.0, kept: int = 2) -> None:
        self._model, self._temperature, self._most = model, temperature, kept
        # ids → what comes next, and the cache of the model, which is not written to any more
        self._kept: OrderedDict[tuple[int, ...], tuple[Floats, Any]] = OrderedDict()

    def __call__(self, ids: Sequence[int]) -> Floats:
        import torch

        key = tuple(ids)
        if key not in self._kept:
            read, past = self._begun(key)
            with torch.no_grad():
                given = torch.tensor([key[read:]], device=self._model.device)
                output = self._model(given, past_key_values=past, use_cache=True)
            logits = output.logits[0, -1].float().cpu().numpy().astype(np.float64) / self._temperature
            self._kept[key] = normalised(logits), output.past_key_values
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def _begun(self, ids: tuple[int, ...]) -> tuple[int, Any]:
        """Return how many ids need not be read again, and a cache of these."""
        read, nearest = max(((_alike(ids, known), known) for known in self._kept), default=(0, ()))
        read = min(read, len(ids) - 1)  # what comes next is said behind an id
        past = deepcopy(self._kept[nearest][1]) if read else None
        if past is None:
            return 0, None
        try:
            if read < len(nearest):
                past.crop(read - len(nearest))
        except (AttributeError, RuntimeError, ValueError):  # one that cannot be cut, as of a window that slides
            return 0, None
        return read, past


def _alike(one: Sequence[int], two: Sequence[int]) -> int:
    """Return how many ids two sequences begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


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
