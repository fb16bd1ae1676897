"""mlx-lm: ``generate(model, tokenizer, prompt, logits_processors=[logits_processor(constraint)])``.

For batches the processors are a list of lists.  The host computes the next step while it hands out the last one; to
read the tokens, as a grammar has to, makes it wait for them.

Tested in tests/hosts/test_local.py, with the package and a model of random weights where it is installed.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.tokenizer_utils import TokenizerWrapper

from constrained.engine.compiled import CompiledGrammar
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.integrations.rows import OneSequence


class GrammarProcessor:
    """Sets the logits of forbidden tokens to -inf; for one generation at a time, see `rows`."""

    def __init__(
        self, constraint: CompiledGrammar, prompt_length: int | None = None, max_new_tokens: int | None = None
    ) -> None:
        self._sequence = OneSequence(constraint, prompt_length, max_new_tokens)

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Return new logits.  Shapes: tokens (length,), the prompt included; logits (1, width)."""
        allowed = self._sequence.allowed(np.array(tokens), logits.shape[-1])
        return logits if allowed is None else mx.where(mx.array(allowed), logits, mx.array(float("-inf"), logits.dtype))

    def reset(self) -> None:
        """Say that the next call begins a new generation."""
        self._sequence.reset()


def logits_processor(
    constraint: CompiledGrammar, *, prompt_length: int | None = None, max_new_tokens: int | None = None
) -> Any:
    """Return a processor for a constraint; max_new_tokens: every text ends as a word within so many tokens, and a stop
    token.
    """
    return GrammarProcessor(constraint, prompt_length, max_new_tokens)


def vocabulary_of(model: Any, tokenizer: Any) -> Vocabulary:
    """Return the vocabulary of what `mlx_lm.load` returns: as wide as the model's logits, and with the stop tokens at
    which the host ends a text, where a tokenizer's family may know more.
    """
    wrapped = tokenizer if isinstance(tokenizer, TokenizerWrapper) else TokenizerWrapper(tokenizer)
    return Vocabulary.from_tokenizer(wrapped._tokenizer, size=model.args.vocab_size, stop=wrapped.eos_token_ids)
