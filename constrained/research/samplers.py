"""The corrected samplers as decoding methods of transformers: ``generate(…, custom_generate=asap(constraint))``.

Both are for sampling: greedy decoding has no distribution to correct.  `max_new_tokens`, `temperature` and
`num_return_sequences` are those of `generate`; every row ends as a word within so many tokens.  Processors and other
warpers of `generate` are left out: a top-k would change the distribution that is being aligned to.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from constrained.errors import ConstrainedError
from constrained.research.aligned import Aligned
from constrained.research.models import NextTokens
from constrained.research.rejection import draw

if TYPE_CHECKING:
    from constrained.engine.constraint import Constraint

CustomGenerate = Callable[..., Any]
Draw = Callable[[list[int], int, int], list[int]]  # prompt, most tokens, number of the row → tokens


def asap(constraint: Constraint, *, rounds: int = 32, seed: int = 0) -> CustomGenerate:
    """Return grammar-aligned decoding: of each prompt, `rounds` draws to learn from, then one for each row; see
    `aligned`.
    """

    def method(model: Any, input_ids: Any, generation_config: Any = None, **_: Any) -> Any:
        known: dict[tuple[int, ...], Aligned] = {}

        def drawn(prompt: list[int], most: int, row: int) -> list[int]:
            if tuple(prompt) not in known:
                reader = NextTokens(model, _temperature(generation_config))
                known[tuple(prompt)] = sampler = Aligned(
                    constraint, reader, prompt, max_new_tokens=most, seed=seed + row
                )
                for _round in range(rounds):
                    sampler.draw()
            return known[tuple(prompt)].draw()

        return _rows(constraint, input_ids, generation_config, drawn)

    return method


def awrs(constraint: Constraint, *, particles: int = 16, seed: int = 0) -> CustomGenerate:
    """Return adaptive weighted rejection sampling: each row is drawn by weight from its own particles; see
    `rejection`.
    """

    def method(model: Any, input_ids: Any, generation_config: Any = None, **_: Any) -> Any:
        reader = NextTokens(model, _temperature(generation_config))

        def drawn(prompt: list[int], most: int, row: int) -> list[int]:
            return draw(constraint, reader, prompt, max_new_tokens=most, count=particles, seed=seed + row)

        return _rows(constraint, input_ids, generation_config, drawn)

    return method


def _temperature(generation_config: Any) -> float:
    """Return the temperature to sample at.  Raises: ConstrainedError: `generate` was not asked to sample."""
    if not getattr(generation_config, "do_sample", False):
        raise ConstrainedError(
            "corrected samplers sample", because="do_sample is off", instead="generate(…, do_sample=True)"
        )
    return float(getattr(generation_config, "temperature", None) or 1.0)


def _rows(constraint: Constraint, input_ids: Any, generation_config: Any, drawn: Draw) -> Any:
    """Return the prompts with what is drawn behind them, filled up to one length."""
    import torch

    most = int(generation_config.max_length) - int(input_ids.shape[1])
    pad = generation_config.pad_token_id
    fill = (
        int(pad)
        if pad is not None and not hasattr(pad, "shape")
        else int(torch.as_tensor(pad).flatten()[0])
        if pad is not None
        else min(constraint.stop)
    )
    # padding stands on the left
    prompts = [list(dropwhile(lambda token: token == fill, row)) for row in input_ids.tolist()]
    behind = [drawn(prompt, most, row) for row, prompt in enumerate(prompts)]
    longest = max(map(len, behind))
    filled = [tokens + [fill] * (longest - len(tokens)) for tokens in behind]
    return torch.cat([input_ids, input_ids.new_tensor(filled)], dim=-1)
