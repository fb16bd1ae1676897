"""ASAp: sampling that comes ever closer to what the model itself would write, given that it stays in the language.

A hard mask renormalises at every step, so it favours prefixes behind which the model would hardly have found a way out.
The remedy: weigh each token by the probability that a continuation after it stays in the language.  That is unknown,
but at most 1, and every draw makes it better known: along its path the probability of the allowed tokens, each times
what is known behind it, is summed up and handed on.  What the draws have met is kept as a tree; a draw costs one call
of the model per prefix that nobody has met.

Invariant: a node's `behind[i]` is at least the probability that the model, after that token, ends as a word; so draws
approach the exact conditional from the hard mask's side.  A budget, as in `Constraint.matcher`, says which words count:
those of at most so many tokens.

Tests: tests/test_research.py (KL to the exact conditional on a model small enough to enumerate); notebooks/05.
Source: Park, Wang, Berg-Kirkpatrick, Polikarpova, D'Antoni, Grammar-Aligned Decoding, NeurIPS 2024,
https://arxiv.org/abs/2405.21047.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from constrained.errors import NothingAllowed
from constrained.research.models import Floats, NextToken
from constrained.research.trace import unpacked

if TYPE_CHECKING:
    from constrained.engine.constraint import Constraint
    from constrained.engine.matcher import Matcher


@dataclass(slots=True)
class KnownPrefix:
    """What is known after a prefix."""

    tokens: npt.NDArray[np.int64]  # (n,) allowed
    probability: Floats  # (n,) that the model gives them; sums to less than 1
    behind: Floats  # (n,) bounds of the probability that the text after each ends as a word


class Aligned:
    """Draws for one prompt; every draw improves the next."""

    def __init__(
        self,
        constraint: Constraint,
        next_token: NextToken,
        prompt: Sequence[int],
        *,
        max_new_tokens: int,
        seed: int = 0,
    ) -> None:
        self._constraint, self._next_token, self._prompt = constraint, next_token, list(prompt)
        self._budget, self._chance = max_new_tokens, np.random.default_rng(seed)
        self._nodes: dict[tuple[int, ...], KnownPrefix] = {}

    def draw(self) -> list[int]:
        """Return a word as tokens, stop token included.

        Raises: LimitExceeded: no word has so few tokens.  NothingAllowed: the model gives all of them probability 0.
        """
        matcher, path = self._matcher(), list[tuple[KnownPrefix, int]]()
        while not self._ended(matcher):
            node = self._node(matcher)
            weights = node.probability * node.behind
            if not (total := weights.sum()) > 0:
                raise NothingAllowed(
                    "no token is left to generate",
                    where=f"after {len(path)} tokens",
                    because="the model gives them probability 0",
                )
            chosen = int(self._chance.choice(len(weights), p=weights / total))
            path.append((node, chosen))
            matcher.advance(int(node.tokens[chosen]))
        below = 1.0
        for node, chosen in reversed(path):
            node.behind[chosen] = below
            below = min(1.0, float(node.probability @ node.behind))
        return [int(node.tokens[chosen]) for node, chosen in path]

    def probability(self, tokens: Sequence[int]) -> float:
        """Return the probability that the next draw gives this word; it learns nothing from being asked."""
        matcher, found = self._matcher(), 1.0
        for token in tokens:
            node = self._node(matcher)
            weights = node.probability * node.behind
            found *= float(weights[node.tokens == token].sum() / weights.sum())
            matcher.advance(token)
        return found

    def _matcher(self) -> Matcher:
        return self._constraint.matcher(budget=self._budget)

    def _ended(self, matcher: Matcher) -> bool:
        return (
            matcher.is_finished()
            or not self._constraint.stop
            and matcher.is_accepting()
            and not len(self._node(matcher).tokens)
        )

    def _node(self, matcher: Matcher) -> KnownPrefix:
        known = self._nodes.get(matcher.tokens)
        if known is None:
            logs = self._next_token([*self._prompt, *matcher.tokens])
            bitmask = np.zeros((1, self._constraint.vocabulary.words), np.int32)
            matcher.fill_mask(bitmask)
            tokens = np.flatnonzero(unpacked(bitmask, len(logs)) & np.isfinite(logs))
            known = self._nodes[matcher.tokens] = KnownPrefix(tokens, np.exp(logs[tokens]), np.ones(len(tokens)))
        return known
