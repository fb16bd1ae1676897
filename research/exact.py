"""Every token sequence of a small language with the model's probability: what samplers are measured against.

Tests: tests/test_research.py; notebooks/05.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from constrained.errors import LimitExceeded

from .models import NextToken, normalised
from .trace import unpacked

if TYPE_CHECKING:
    from constrained.engine.compiled import CompiledGrammar

Key = TypeVar("Key", bound=Hashable)
MOST = 100_000  # sequences


@dataclass(frozen=True, slots=True)
class Distributions:
    """The words of at most so many tokens, as token sequences; equal texts in other tokens are other sequences."""

    conditional: dict[tuple[int, ...], float]  # the model's own, given that it writes one of them
    masked: dict[tuple[int, ...], float]  # that of a hard mask, which renormalises at every step
    kept: float  # probability that the model writes one of them


def distributions(
    constraint: CompiledGrammar, next_token: NextToken, prompt: Sequence[int], *, max_new_tokens: int
) -> Distributions:
    """Return both distributions, exactly.

    Raises: LimitExceeded: more than 100,000 sequences, or none.
    """
    model: dict[tuple[int, ...], float] = {}
    masked: dict[tuple[int, ...], float] = {}
    matcher = constraint.matcher(budget=max_new_tokens)
    bitmask = np.zeros((1, constraint.vocabulary.words), np.int32)
    pending: list[tuple[tuple[int, ...], float, float]] = [((), 0.0, 0.0)]
    while pending:
        tokens, own, held = pending.pop()
        matcher.reset()
        for token in tokens:
            matcher.advance(token)
        if matcher.is_finished():
            model[tokens], masked[tokens] = float(np.exp(own)), float(np.exp(held))
            if len(model) > MOST:
                raise LimitExceeded(f"more than {MOST:,} sequences", instead="a smaller language, or fewer tokens")
            continue
        logs = next_token([*prompt, *tokens])
        matcher.fill_mask(bitmask)
        allowed = unpacked(bitmask, len(logs)) & np.isfinite(logs)
        renormalised = normalised(np.where(allowed, logs, -np.inf)) if allowed.any() else logs
        pending += [
            ((*tokens, int(token)), own + logs[token], held + renormalised[token]) for token in np.flatnonzero(allowed)
        ]
    kept = sum(model.values())
    if not kept:
        raise LimitExceeded("no sequence ends as a word", instead="more tokens")
    return Distributions({tokens: share / kept for tokens, share in model.items()}, masked, kept)


def divergence(exact: Mapping[Key, float], other: Mapping[Key, float]) -> float:
    """Return KL(other ‖ exact) in nats: how far a sampler's distribution is from the one it should have."""
    return float(sum(share * np.log(share / exact[key]) for key, share in other.items() if share > 0))
