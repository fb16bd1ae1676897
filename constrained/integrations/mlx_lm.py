"""mlx-lm: ``generate(model, tokenizer, prompt, logits_processors=[logits_processor(constraint)])``.

For batches the processors are a list of lists.  The host computes the next step while it hands out the last one; to
read the tokens, as a grammar has to, makes it wait for them.

Tested in tests/hosts/test_local.py, with the package and a model of random weights where it is installed.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.tokenizer_utils import TokenizerWrapper

from constrained.engine.compiled import CompiledGrammar
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.integrations.rows import OneSequence


def _masked(logits: mx.array, allowed: Any) -> mx.array:
    return logits if allowed is None else mx.where(mx.array(allowed), logits, mx.array(float("-inf"), logits.dtype))


def logits_processor(
    constraint: CompiledGrammar, *, prompt_length: int | None = None, max_new_tokens: int | None = None
) -> OneSequence:
    """Return a processor for a constraint; max_new_tokens: every text ends as a word within so many tokens, and a stop
    token.
    """
    return OneSequence(constraint, prompt_length, max_new_tokens, _masked)


def vocabulary_of(model: Any, tokenizer: Any) -> Vocabulary:
    """Return the vocabulary of what `mlx_lm.load` returns: as wide as the model's logits, and with the stop tokens at
    which the host ends a text, where a tokenizer's family may know more.
    """
    wrapped = tokenizer if isinstance(tokenizer, TokenizerWrapper) else TokenizerWrapper(tokenizer)
    return Vocabulary.from_tokenizer(wrapped._tokenizer, size=model.args.vocab_size, stop=wrapped.eos_token_ids)
