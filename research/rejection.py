"""AWRS: draw from the model itself, reject what the grammar does not allow, weigh what was drawn; no mask is computed.

At a step tokens are drawn from the model's distribution, without replacement, until one is allowed.  That token has the
distribution of a masked draw; the probability that the mask would have kept is what the particle's weight is multiplied
by, and is estimated from the draws alone.  Several particles are drawn side by side and resampled by their weights;
with more of them the draws approach the model's own distribution over words.  Only tokens that the model wants are ever
checked: one or two a step where it knows the format.

The estimate.  Rejected tokens leave the pool; let M_j be the probability of what is left after j rejections.  Draw on
until a *second* token is allowed, n rejections in all.  Given the rejections, the first acceptance came after j of them
with probability proportional to 1 / M_j, and "after none" has probability Z, the allowed mass: so 1 / sum(1 / M_j, j =
0 … n) has expectation Z.  Without removal all M_j are 1, and it is the known 1 / (draws - 1).  It is never 0, and its
cost is the draws that it takes.

Tests: tests/test_research.py (unbiased; KL on a model small enough to enumerate); notebooks/05.
Source: Lipkin, LeBrun et al., Fast Controlled Generation from Language Models with Adaptive Weighted Rejection
Sampling, 2025, https://arxiv.org/abs/2504.05410; the estimate in this form is ours (Rao-Blackwell).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from constrained.errors import ConstrainedError, NothingAllowed, shown

from .models import Floats, NextToken, Seed
from .trace import probabilities

if TYPE_CHECKING:
    from constrained.engine.compiled import CompiledGrammar
    from constrained.engine.matcher import Matcher

FEW = 0.5  # resample where the effective number of particles is below this share of them


@dataclass(slots=True)
class Particle:
    """A text that is being drawn, and the logarithm of its weight."""

    matcher: Matcher
    log_weight: float = 0.0
    checked: int = 0  # tokens that were asked about

    @property
    def tokens(self) -> list[int]:
        return list(self.matcher.tokens)


def allowed_draw(logs: Floats, accepts: Callable[[int], bool], chance: np.random.Generator) -> tuple[int, float, int]:
    """Return an allowed token, an unbiased estimate of the allowed probability, and how many tokens were checked.

    Raises: NothingAllowed: none is.
    """
    left = probabilities(logs)
    known: dict[int, bool] = {}
    inverse, token, accepted = 1.0, -1, 0  # the sum of 1 / M_j; M_0 is 1
    while accepted < 2:
        upto = left.cumsum()  # what `Generator.choice` does, without its checks: in 0.45 of the time
        if upto[-1] <= 1e-12:
            raise NothingAllowed(
                "no token is left to generate", because="the model gives what the grammar allows no probability"
            )
        drawn = int((upto / upto[-1]).searchsorted(chance.random(), side="right"))
        if drawn not in known:
            known[drawn] = accepts(drawn)
        if known[drawn]:
            token, accepted = drawn if accepted == 0 else token, accepted + 1
        else:
            left[drawn] = 0.0
            inverse += 1.0 / max(float(left.sum()), 1e-12)
    return token, 1.0 / inverse, len(known)


def particles(
    constraint: CompiledGrammar,
    next_token: NextToken,
    prompt: Sequence[int],
    *,
    max_new_tokens: int,
    count: int = 16,
    seed: Seed = 0,
) -> list[Particle]:
    """Return words of at most `max_new_tokens` tokens with their weights.

    Raises: LimitExceeded: no word has so few tokens.  NothingAllowed: the model gives all of them probability 0.
    """
    if count < 1:
        raise ConstrainedError(
            f"count is {shown(count)}", because="a sampler draws that many particles", instead="for instance 16"
        )
    chance = np.random.default_rng(seed)
    drawn = [Particle(constraint.matcher(budget=max_new_tokens)) for _ in range(count)]
    while moving := [particle for particle in drawn if not particle.matcher.is_finished()]:
        for particle in moving:
            logs = next_token([*prompt, *particle.matcher.tokens])
            token, estimate, checked = allowed_draw(
                logs, _accepted_by(particle.matcher, constraint.vocabulary.size), chance
            )
            particle.matcher.advance(token)
            particle.log_weight += float(np.log(estimate))
            particle.checked += checked
        weights = shares(drawn)
        if 1.0 / float((weights**2).sum()) < FEW * count:
            mean = float(np.logaddexp.reduce([particle.log_weight for particle in drawn]) - np.log(count))
            drawn = [Particle(drawn[at].matcher.copy(), mean, drawn[at].checked) for at in _resampled(weights, chance)]
    return drawn


def shares(drawn: Sequence[Particle]) -> Floats:
    """Return the particles' weights, as shares of 1."""
    logs = np.array([particle.log_weight for particle in drawn])
    return probabilities(logs - logs.max())


def draw(
    constraint: CompiledGrammar,
    next_token: NextToken,
    prompt: Sequence[int],
    *,
    max_new_tokens: int,
    count: int = 16,
    seed: Seed = 0,
) -> list[int]:
    """Return one word as tokens: a particle, drawn by weight."""
    chance = np.random.default_rng(seed)
    drawn = particles(constraint, next_token, prompt, max_new_tokens=max_new_tokens, count=count, seed=chance)
    return drawn[int(chance.choice(count, p=shares(drawn)))].tokens


def _accepted_by(matcher: Matcher, size: int) -> Callable[[int], bool]:
    return lambda token: token < size and matcher.accepts(token)


def _resampled(weights: Floats, chance: np.random.Generator) -> list[int]:
    """Return which particles go on: systematic resampling, each as often as its share says, rounded up or down."""
    places = (chance.random() + np.arange(len(weights))) / len(weights)
    return [int(at) for at in np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)]
