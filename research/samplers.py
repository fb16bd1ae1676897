"""The corrected samplers as decoding methods of transformers: ``generate(…, custom_generate=asap(constraint))``.

Both are for sampling: greedy decoding has no distribution to correct.  `max_new_tokens`, `temperature` and
`num_return_sequences` are those of `generate`; every row ends as a word within so many tokens.  Processors and other
warpers of `generate` are left out: a top-k would change the distribution that is being aligned to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from constrained.errors import ConstrainedError

from .aligned import Aligned
from .models import NextTokens, Seed
from .rejection import draw

if TYPE_CHECKING:
    from constrained.engine.compiled import CompiledGrammar

CustomGenerate = Callable[..., Any]
Draw = Callable[[list[int], int, Seed], list[int]]  # prompt, most tokens, seed of the row → tokens


def asap(constraint: CompiledGrammar, *, rounds: int = 32, seed: int | None = None) -> CustomGenerate:
    """Return grammar-aligned decoding: of each prompt, `rounds` draws to learn from, then one for each row; see
    `aligned`.  seed: None: what torch draws next, as `generate` does.
    """

    def method(model: Any, input_ids: Any, generation_config: Any = None, **told: Any) -> Any:
        known: dict[tuple[int, ...], Aligned] = {}
        reader = NextTokens(model, _temperature(generation_config))

        def drawn(prompt: list[int], most: int, row: Seed) -> list[int]:
            if tuple(prompt) not in known:
                known[tuple(prompt)] = sampler = Aligned(constraint, reader, prompt, max_new_tokens=most, seed=row)
                for _round in range(rounds):
                    sampler.draw()
            return known[tuple(prompt)].draw()

        return _rows(constraint, input_ids, told.get("attention_mask"), generation_config, drawn, seed)

    return method


def awrs(constraint: CompiledGrammar, *, particles: int = 16, seed: int | None = None) -> CustomGenerate:
    """Return adaptive weighted rejection sampling: each row is drawn by weight from its own particles; see
    `rejection`.  seed: None: what torch draws next, as `generate` does.
    """

    def method(model: Any, input_ids: Any, generation_config: Any = None, **told: Any) -> Any:
        reader = NextTokens(model, _temperature(generation_config), kept=particles + 1)

        def drawn(prompt: list[int], most: int, row: Seed) -> list[int]:
            return draw(constraint, reader, prompt, max_new_tokens=most, count=particles, seed=row)

        return _rows(constraint, input_ids, told.get("attention_mask"), generation_config, drawn, seed)

    return method


def _temperature(generation_config: Any) -> float:
    """Return the temperature to sample at.  Raises: ConstrainedError: `generate` was not asked to sample."""
    if not getattr(generation_config, "do_sample", False):
        raise ConstrainedError(
            "corrected samplers sample", because="do_sample is off", instead="generate(…, do_sample=True)"
        )
    return float(getattr(generation_config, "temperature", None) or 1.0)


def _rows(
    constraint: CompiledGrammar, input_ids: Any, attention_mask: Any, generation_config: Any, drawn: Draw,
    seed: int | None,
) -> Any:
    """Return the prompts with what is drawn behind them, filled up to one length; a stop token beyond it is left out,
    as `generate` does.
    """
    import torch

    most = int(generation_config.max_length) - int(input_ids.shape[1])
    pad = generation_config.pad_token_id
    fill = min(constraint.stop, default=0) if pad is None else int(torch.as_tensor(pad).flatten()[0])
    shown = torch.ones_like(input_ids) if attention_mask is None else attention_mask  # None: all of them count
    first = int(torch.randint(1 << 62, ())) if seed is None else seed
    behind = [
        drawn(row[attended.bool()].tolist(), most, (first, number))[:most]
        for number, (row, attended) in enumerate(zip(input_ids, shown, strict=True))
    ]
    longest = max(map(len, behind))
    filled = [tokens + [fill] * (longest - len(tokens)) for tokens in behind]
    return torch.cat([input_ids, input_ids.new_tensor(filled)], dim=-1)
