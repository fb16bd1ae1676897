"""A model of transformers that throws dice: the whole path of `generate`, beams and batches included, at no cost.

What a random model writes under a mask does not depend on how its logits come about, so benchmarks that ask about masks
need no matrix products.  Greedy decoding takes the dice as they fall: every step has logits of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

SPREAD = 3.0  # standard deviation of the logits
FAVOUR = 8.0  # what favoured ids have more


class DiceConfig(PretrainedConfig):  # type: ignore[misc]  # a host's class
    """The configuration of `Dice`: nothing but the width of the logits."""

    model_type = "dice"

    def __init__(self, width: int = 8, **options: Any) -> None:
        super().__init__(**options)
        self.vocab_size, self.use_cache, self.is_encoder_decoder = width, False, False
        self.num_hidden_layers, self.hidden_size, self.num_attention_heads = 0, 1, 1


class Dice(PreTrainedModel, GenerationMixin):  # type: ignore[misc]  # a host's class
    """A causal model without weights; `torch.manual_seed` says what it writes."""

    config_class = DiceConfig

    def __init__(self, config: DiceConfig) -> None:
        super().__init__(config)
        self.nothing = torch.nn.Parameter(torch.zeros(1))  # transformers asks a model for its device and dtype
        self.favoured: list[int] = []
        self.post_init()

    def forward(self, input_ids: torch.Tensor, **_: Any) -> CausalLMOutput:
        """Return logits of the last position; (rows, 1, width) float32."""
        logits = torch.randn(len(input_ids), 1, self.config.vocab_size) * SPREAD
        logits[..., self.favoured] += FAVOUR
        return CausalLMOutput(logits=logits)


def dice(width: int, favoured: Sequence[int] = ()) -> Dice:
    """Return a model for so many ids, which likes some of them, as trained models like ends of turns.

    PERF: torch works on one thread from then on; batches of dice are so small that several would wait for each other.
    """
    torch.set_num_threads(1)
    model = Dice(DiceConfig(width))
    model.favoured = list(favoured)
    return model
