"""ASAp: sampling that comes ever closer to what the model itself would write, given that it stays in the language.

A hard mask renormalises at every step, so it favours prefixes behind which the model would hardly have found a way out.
The remedy: weigh each token by the probability that a continuation after it stays in the language.  That is unknown,
but at most 1, and every draw makes it better known: along its path the probability of the allowed tokens, each times
what is known behind it, is summed up and handed on.  What the draws have met is kept as a tree; a draw costs one call
of the model per prefix that nobody has met.

Invariant: a node's `behind[i]` is at least the probability that the model, after that token, ends as a word; so draws
approach the exact conditional from the hard mask's side.  Of a node only the tokens that were drawn are kept, and the
probability of all others together: their bound is 1.  Which of these it is, where a draw leaves the tree, the model is
asked once more.  A budget, as in `Constraint.matcher`, says which words count:
those of at most so many tokens.

Tests: tests/test_research.py (KL to the exact conditional on a model small enough to enumerate); notebooks/05.
Source: Park, Wang, Berg-Kirkpatrick, Polikarpova, D'Antoni, Grammar-Aligned Decoding, NeurIPS 2024,
https://arxiv.org/abs/2405.21047.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from constrained.errors import NothingAllowed

from .models import Floats, NextToken, Seed
from .trace import unpacked

if TYPE_CHECKING:
    from constrained.engine.compiled import CompiledGrammar
    from constrained.engine.matcher import Matcher

RECENT = 8  # prefixes of which all probabilities are kept


@dataclass(slots=True)
class KnownPrefix:
    """What is known after a prefix."""

    left: float  # probability that the model gives the allowed tokens which were not drawn
    untried: int  # how many these are
    drawn: dict[int, tuple[float, float]] = field(default_factory=dict)
    # token → its probability, and a bound of that with which the text after it ends as a word
    after: dict[int, KnownPrefix] = field(default_factory=dict)  # by the next token

    @property
    def bound(self) -> float:
        """A bound of the probability that the text ends as a word."""
        return self.left + sum(probability * behind for probability, behind in self.drawn.values())


class Aligned:
    """Draws for one prompt; every draw improves the next."""

    def __init__(
        self,
        constraint: CompiledGrammar,
        next_token: NextToken,
        prompt: Sequence[int],
        *,
        max_new_tokens: int,
        seed: Seed = 0,
    ) -> None:
        self._constraint, self._next_token, self._prompt = constraint, next_token, list(prompt)
        self._budget, self._chance = max_new_tokens, np.random.default_rng(seed)
        self._above = KnownPrefix(0.0, 0)  # what all words begin behind
        self._recent: OrderedDict[tuple[int, ...], tuple[npt.NDArray[np.int64], Floats]] = OrderedDict()

    def draw(self) -> list[int]:
        """Return a word as tokens, stop token included.

        Raises: LimitExceeded: no word has so few tokens.  NothingAllowed: the model gives all of them probability 0.
        """
        matcher, path, node = self._matcher(), list[tuple[KnownPrefix, int]](), self._above
        while not self._ended(matcher):
            node = self._node(matcher, node)
            token = self._drawn(node, matcher)
            path.append((node, token))
            matcher.advance(token)
        below = 1.0
        for node, token in reversed(path):
            node.drawn[token] = node.drawn[token][0], below
            below = min(1.0, node.bound)
        return [token for _, token in path]

    def probability(self, tokens: Sequence[int]) -> float:
        """Return the probability that the next draw gives this word; it learns nothing from being asked."""
        matcher, found, node = self._matcher(), 1.0, self._above
        for token in tokens:
            node = self._node(matcher, node)
            probability, behind = node.drawn.get(token, (None, 1.0))
            if probability is None:
                allowed, given = self._distribution(matcher)
                probability = float(given[allowed == token].sum())
            found *= probability * behind / node.bound
            matcher.advance(token)
        return found

    def _drawn(self, node: KnownPrefix, matcher: Matcher) -> int:
        """Return a token by the bounds of what is behind it, noted as drawn."""
        total = node.bound
        if not total > 0:
            raise NothingAllowed(
                "no token is left to generate",
                where=f"after {len(matcher.tokens)} tokens",
                because="the model gives them probability 0",
            )
        at = float(self._chance.random()) * total
        for token, (probability, behind) in node.drawn.items():
            at -= probability * behind
            if at < 0:
                return token
        if not node.untried:  # at the very end, by rounding
            return max(node.drawn, key=lambda token: node.drawn[token][0] * node.drawn[token][1])
        allowed, given = self._distribution(matcher)
        weights = np.where(np.isin(allowed, [*node.drawn]), 0.0, given)
        chosen = int(self._chance.choice(len(weights), p=weights / weights.sum()))
        token, probability = int(allowed[chosen]), float(weights[chosen])
        node.drawn[token] = probability, 1.0
        node.untried -= 1
        node.left = max(node.left - probability, 0.0) if node.untried else 0.0
        return token

    def _matcher(self) -> Matcher:
        return self._constraint.matcher(budget=self._budget)

    def _ended(self, matcher: Matcher) -> bool:
        return (
            matcher.is_finished()
            or not self._constraint.stop
            and matcher.is_accepting()
            and not self._distribution(matcher)[0].size
        )

    def _node(self, matcher: Matcher, above: KnownPrefix) -> KnownPrefix:
        """Return what is known after some tokens; above: the same before the last of them."""
        last = matcher.tokens[-1] if matcher.tokens else -1
        known = above.after.get(last)
        if known is None:
            tokens, given = self._distribution(matcher)
            known = above.after[last] = KnownPrefix(float(given.sum()), len(tokens))
        return known

    def _distribution(self, matcher: Matcher) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return the allowed tokens and the probability that the model gives each; kept for a few prefixes."""
        known = self._recent.get(matcher.tokens)
        if known is None:
            logs = self._next_token([*self._prompt, *matcher.tokens])
            bitmask = np.zeros((1, self._constraint.vocabulary.words), np.int32)
            matcher.fill_mask(bitmask)
            tokens = np.flatnonzero(unpacked(bitmask, len(logs)) & np.isfinite(logs))
            known = self._recent[matcher.tokens] = tokens, np.exp(logs[tokens])
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        self._recent.move_to_end(matcher.tokens)
        return known
