"""A language model that ships with the package: real classes, random weights, no download.

It exists so that everything here can be seen and tested on a fresh machine.  `LlamaForCausalLM` is the class that Llama models use;
only the sizes are small.  The weights are drawn from a fixed seed when the model is loaded, so there is no weights file to ship.
Random weights are also the harsher test: a model that knows nothing about tool calls has only the grammar to lean on.

The tokenizer is a byte-level BPE that knows every chat format's special tokens (`build.py` makes it).  The logits are wider than the
tokenizer, as in many real models: a mask that forgot the padding would show here.

Refused: a downloaded tiny model (tests run offline) and trained weights (they would hide what the grammar does).
"""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from ..errors import ConstrainedError

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

WIDTH = 1536  # logits; the tokenizer has fewer ids
CONTEXT = 8192  # positions
SPREAD = 0.125  # standard deviation of the weights: makes that of the logits about 1
CLOSERS = frozenset("\"'}])>`\n")  # a text token with one of these may end something
MARKERS = (  # tokens that end a turn, and tokens that begin a call
    "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>", "<|im_end|>", "<|action_end|>", "[UNUSED_TOKEN_143]", "[UNUSED_TOKEN_145]",
    "<|end_reflect|>", "<|end_introspect|>", "<|end_reason|>", "<|user|>", "<|observation|>", "[EOS]", "</s>",
    "<|python_tag|>", "<|action_start|>", "[UNUSED_TOKEN_144]", "<|function_call|>", "<tool_call>",
    "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<|END_THINKING|>", "<|END_RESPONSE|>", "<|END_TEXT|>", "<|end_of_msg|>", "<|close|>",
    "<|end|>", "<|return|>", "<|call|>", "[|endofturn|]", "[e~[", "<seed:eos>", "<turn|>", "<channel|>", "[/THINK]", "</think>",
)  # fmt: skip
CLOSER, MARKER = 2.0, 4.5  # what is added to their logits


def load(seed: int = 0) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Return (model, tokenizer); equal seeds give equal weights.

    Raises: ConstrainedError: transformers or torch is not installed.
    """
    tokenizer = load_tokenizer()
    return _model(tokenizer, seed), tokenizer


def load_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer alone; needs transformers, not torch."""
    try:
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise _missing(error) from error
    with as_file(files(__package__) / "tokenizer.json") as path:
        return PreTrainedTokenizerFast(tokenizer_file=str(path), bos_token="<|begin_of_text|>", eos_token="<|end_of_text|>", pad_token="<|pad|>")


def _model(tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    try:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError as error:
        raise _missing(error) from error
    config = LlamaConfig(
        vocab_size=WIDTH, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=CONTEXT, tie_word_embeddings=False, initializer_range=SPREAD,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    _prefer_endings(model, tokenizer)
    return model.eval()


def _prefer_endings(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Make tokens likelier that may close a string, an object or a turn, so that random texts come to an end.

    A Llama has no output bias; a hidden dimension that is nearly constant serves as one.  Its value after the last normalisation is
    measured, then each such token's weight on it is raised.
    """
    import torch

    closers = [i for i in range(len(tokenizer)) if i not in tokenizer.added_tokens_decoder and CLOSERS & set(tokenizer.decode([i]))]
    markers = tokenizer.convert_tokens_to_ids(list(MARKERS))
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 4 * SPREAD
        hidden = model.model(torch.arange(len(tokenizer))[None, :256]).last_hidden_state[0, :, 0].mean()
        model.lm_head.weight[:, 0] = 0.0
        model.lm_head.weight[closers, 0] = CLOSER / hidden
        model.lm_head.weight[markers, 0] = MARKER / hidden


def _missing(error: ImportError) -> ConstrainedError:
    return ConstrainedError(
        "cannot load the embedded model", because=f"{error.name or 'a package'} is not installed", instead="pip install 'constrained-generation[transformers]'"
    )
