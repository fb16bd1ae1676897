"""One generation with or without a constraint, and what can be told about it afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.api import Constraint
from constrained.errors import ConstrainedError, LimitExceeded
from constrained.formats import ChatFormat
from constrained.integrations.typed import described

if TYPE_CHECKING:
    from constrained.engine.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen; temperature 0 is greedy."""

    temperature: float = 1.0
    seed: int = 0
    max_tokens: int = 400
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class GenerationCost:
    """What a constrained generation cost."""

    tokens: int
    forced: int  # tokens that were the only one allowed
    mask_seconds: float  # median of one mask, computed before


def generate(
    model: Any,
    tokenizer: Any,
    prompt: str,
    sampling: Sampling,
    stop: Sequence[int],
    constraint: Constraint | None = None,
) -> list[int]:
    """Return the ids that the model writes after a prompt, stop token included; under a constraint, a whole word.

    At most `max_tokens`, and no more than the model can read behind the prompt.
    Raises: LimitExceeded: these are too few for any word, or the prompt alone does not fit the model.
    """
    import torch

    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if context is not None and len(prompt) > context * _longest(tokenizer):  # 10 MB of tokens take ten seconds
        raise _too_long(f"{len(prompt):,} characters", context)
    encoded = tokenizer(prompt, return_tensors="pt").to(model.device)
    length, most = encoded["input_ids"].shape[1], sampling.max_tokens
    if context is not None:
        if length >= context:
            raise _too_long(f"{length:,} tokens", context)
        most = min(most, context - length)
    choice = (
        {"do_sample": True, "temperature": sampling.temperature, "top_k": 0, "top_p": sampling.top_p}
        if sampling.temperature > 0
        else {"do_sample": False}
    )
    processors = [] if constraint is None else [constraint.logits_processor(max_new_tokens=most)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(sampling.seed)
        output = model.generate(
            **encoded, **choice, max_new_tokens=most + len(processors), logits_processor=processors,  # and a stop token
            eos_token_id=list(stop), pad_token_id=stop[0],
        )
    return list(output[0, length:].tolist())


def _longest(tokenizer: Any) -> int:
    """Return the most characters of a prompt that one token stands for."""
    return max(map(len, tokenizer.get_vocab()))


def _too_long(size: str, context: int) -> LimitExceeded:
    return LimitExceeded(
        "the prompt does not fit the model",
        because=f"it has {size}; the model reads {context:,} tokens",
        instead="a shorter prompt",
    )


def trace(constraint: Constraint, vocabulary: Vocabulary, ids: Sequence[int]) -> GenerationCost:
    """Return the figures of a generation by running the masks again."""
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    matcher = constraint.matcher()
    forced, seconds = 0, []
    for token in ids:
        matcher.fill_mask(bitmask)
        started = perf_counter()
        matcher.fill_mask(bitmask)
        seconds.append(perf_counter() - started)
        forced += int(np.bitwise_count(bitmask).sum()) == 1
        matcher.advance(token)
    return GenerationCost(len(ids), forced, median(seconds) if seconds else 0.0)


def prompt_text(tokenizer: Any, prompt: str, tools: list[Any] | None = None, format: str | None = None) -> str:
    """Return the prompt as the tokenizer's chat template writes it, with the tools; as it is where there is no
    template.
    """
    if not getattr(tokenizer, "chat_template", None):
        return prompt
    messages = [{"role": "user", "content": prompt}]
    told = tools if format is None else described(ChatFormat.load(format), tools)
    text = tokenizer.apply_chat_template(
        messages, tools=told, format=format or "", add_generation_prompt=True, tokenize=False
    )
    if not isinstance(text, str):
        raise ConstrainedError("the chat template returned no text", because=f"it returned {type(text).__name__}")
    return text
