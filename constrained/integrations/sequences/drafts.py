"""Drafts in transformers' decoding loop: one forward pass over tokens that are likely to come, handed out one by one.

transformers' own loop (`_sample`) draws every token from the logits of its position, one multinomial at a time; all
that changes is where the logits come from.  A pass reads the tokens that are there and a draft of what may follow; as
long as the tokens that are drawn are those of the draft, the next logits are known already.  At the first other token
the rest of the draft is cut from the cache.  So the same random numbers go to the same tokens as without drafts, and
what is written is the same.

transformers' assisted decoding was refused: it draws all tokens of a draft at once, which takes other random numbers
from the generator, so that a sampled text depended on the drafts.

Tests: tests/hosts/test_transformers_modes.py; `python -m constrained.benchmarks.same_output`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast


class ModelThatReadsAhead:
    """Stands for a model in `GenerationMixin._sample`: whatever it does not answer itself is asked of the model.

    Invariant: `_fed` are the ids that the cache holds, drafts included; `_known` are the logits behind the last of
    them, (1, n, width).
    """

    def __init__(self, model: Any, draft: Callable[[torch.Tensor], Sequence[int]], cache: Any, longest: int) -> None:
        self._model, self._draft, self._cache, self._longest = model, draft, cache, longest
        self._fed: torch.Tensor | None = None
        self._drafted = 0
        self._outputs: Any = None
        self._known: torch.Tensor | None = None
        self._asked = 0  # which of the known logits is the next answer
        cache.activate_past_recording()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def _prefill(self, input_ids: torch.Tensor, generation_config: Any, *rest: Any, **options: Any) -> Any:
        """Read the prompt, and the first draft with it, unless the prompt is read in parts."""
        reader = self if generation_config.prefill_chunk_size is None else self._model
        return GenerationMixin._prefill(reader, input_ids, generation_config, *rest, **options)

    def prepare_inputs_for_generation(
        self, input_ids: torch.Tensor, next_sequence_length: int | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return what a pass reads: the ids that are not read yet and a draft; nothing where the logits are known."""
        length = input_ids.shape[1]
        if self._fed is not None:
            ahead = self._fed.shape[1] - length
            if ahead >= 0 and self._fed[0, length - 1] == input_ids[0, -1]:
                self._asked = -1 - ahead
                return {}
            self._cache.crop(-ahead - 1)
        elif not options.get("is_first_iteration"):
            self._cache.crop(0)
        draft = [] if options.get("inputs_embeds") is not None else self._draft(input_ids)[: self._longest - length - 1]
        self._fed, self._drafted = torch.cat([input_ids, input_ids.new_tensor([draft])], dim=1), len(draft)
        if not draft:
            return self._prepared(input_ids, next_sequence_length, options)
        if next_sequence_length is not None:
            next_sequence_length += len(draft)
        options = self._model._update_model_kwargs_for_generation(
            {}, options, is_encoder_decoder=self._model.config.is_encoder_decoder, num_new_tokens=len(draft)
        )
        if "logits_to_keep" in options:
            options["logits_to_keep"] += len(draft)
        return self._prepared(self._fed, next_sequence_length, options)

    def _prepared(self, ids: torch.Tensor, length: int | None, options: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._model.prepare_inputs_for_generation(ids, next_sequence_length=length, **options)
        return found

    def __call__(self, *, return_dict: bool = True, **inputs: Any) -> Any:
        """Return the model's outputs for the position that was prepared; the logits are all that a draft leaves."""
        if inputs:
            self._outputs = self._model(**inputs, return_dict=return_dict)
            if not self._drafted:
                return self._outputs
            self._known, self._asked = self._outputs.logits[:, -1 - self._drafted :], -1 - self._drafted
        assert self._known is not None
        at = self._known.shape[1] + self._asked
        return CausalLMOutputWithPast(
            logits=self._known[:, at : at + 1], past_key_values=self._outputs.past_key_values
        )

    def finish(self, length: int) -> None:
        """Cut from the cache what the decoder never drew; `length` ids are there, the last of them not read."""
        if self._fed is not None and self._fed.shape[1] >= length:
            self._cache.crop(length - 1 - self._fed.shape[1])
