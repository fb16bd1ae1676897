"""Two language models that ship with the package: real classes, small sizes, no download.

They exist so that everything here can be seen, tested and studied on a fresh machine.  `LlamaForCausalLM` is the class
that Llama models use.

`load` draws random weights from a seed: the harsher test, since a model that knows nothing about tool calls has only
the grammar to lean on. `load_trained` reads a million weights that `train` made: it answers a question about its tools
with a call in each chat format, in readable words, often enough right and sometimes wrong (CARD.md has the measured
table, `evaluate` prints it).

The tokenizer is a byte-level BPE that knows every chat format's special tokens (`build.py` makes it).  The logits are
wider than the tokenizer, as in many real models: a mask that forgot the padding would show here.

Refused: a downloaded tiny model; tests run offline.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from constrained.errors import needing

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

WIDTH = 1664  # logits; the tokenizer has fewer ids
CONTEXT = 8192  # positions
SPREAD = 0.125  # standard deviation of the weights: makes that of the logits about 1
CLOSERS = frozenset("\"'}])>`\n")  # a text token with one of these may end something
MARKERS = (  # tokens that end a turn, and tokens that begin a call
    "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>", "<|im_end|>", "<|action_end|>", "[UNUSED_TOKEN_143]",
    "[UNUSED_TOKEN_145]",
    "<|end_reflect|>", "<|end_introspect|>", "<|end_reason|>", "<|user|>", "<|observation|>", "[EOS]", "</s>",
    "<|python_tag|>", "<|action_start|>", "[UNUSED_TOKEN_144]", "<|function_call|>", "<tool_call>",
    "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<|END_THINKING|>", "<|END_RESPONSE|>", "<|END_TEXT|>",
    "<|end_of_msg|>", "<|close|>",
    "<|end|>", "<|return|>", "<|call|>", "[|endofturn|]", "[e~[", "<seed:eos>", "<turn|>", "<channel|>", "[/THINK]",
    "</think>", "<|eot|>", "<|eom|>", "</assistant>", "<|role_end|>", "<｜hy_eos:opensource｜>", "<end_of_sentence>",
    "<end_of_turn>", "<start_function_response>", "<|message_sep|>\n\n", "<|endofturn|>", "<|stop|>",
    "<|content_model_end_sampling|>", "<|iquest_end|>", "<|ifm|im_end|>", "<|think:end|>", "<|im:end|>",
    "<|endofassistant|>",
)  # fmt: skip
CLOSER, MARKER = 2.0, 4.5  # what is added to their logits
WEIGHTS = "weights.safetensors"
# A format's name, a line for each tool, the question.  What stands in a tool's schema beside types and enums is not
# shown to the model.
TEMPLATE = (
    "{{ bos_token }}<|system|>{{ format }}\n"
    "{% for tool in tools or [] %}{% set schema = tool.function.parameters %}{{ tool.function.name }}("
    "{%- for name, property in schema.properties.items() %}{{ name }}{{ '' if name in schema.required else '?' }}: "
    "{{- ' ' ~ (property.enum | join('|') if property.enum else property.type) }}{{ '' if loop.last else ', ' }}{% "
    "endfor %})\n"
    "{% endfor %}{% for message in messages %}"
    "{{ {'assistant': '<|assistant|>', 'tool': '<|observation|>'}.get(message.role, '<|user|>') }}"
    "{{ message.content or '' }}{% for call in message.tool_calls or [] %}{{ call.function.arguments }}{% endfor %}"
    "{% endfor %}<|assistant|>"
)


def load(seed: int = 0) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Return (model, tokenizer); equal seeds give equal weights.

    Raises: ConstrainedError: transformers or torch is not installed.
    """
    tokenizer = load_tokenizer()
    return _model(tokenizer, seed), tokenizer


def load_trained() -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Return (model, tokenizer) with trained weights; the tokenizer has a chat template, see `prompt_of`.

    Raises: ConstrainedError: transformers or torch is not installed.
    """
    tokenizer = load_tokenizer(chat=True)
    model = shaped(tokenizer, trained=True)
    from safetensors.torch import load

    weights = {name: weight.float() for name, weight in load((files(__package__) / WEIGHTS).read_bytes()).items()}
    model.load_state_dict(weights, strict=False)  # lm_head is tied to the embeddings
    return model.eval(), tokenizer


def load_tokenizer(*, chat: bool = False) -> PreTrainedTokenizerFast:
    """Return the tokenizer alone; needs transformers, not torch.  chat: with the template of the trained model."""
    with needing("load the embedded model", "transformers"):
        from transformers import PreTrainedTokenizerFast
    with as_file(files(__package__) / "tokenizer.json") as path:
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(path), bos_token="<|begin_of_text|>", eos_token="<|end_of_text|>", pad_token="<|pad|>",
            model_input_names=["input_ids", "attention_mask"],  # transformers 4 adds token types, which a Llama refuses
            **({"chat_template": TEMPLATE, "chat_format": "hermes"} if chat else {}),  # one of all that it writes
        )
    return tokenizer


def prompt_of(tokenizer: Any, question: str, tools: list[Any], format: str, told: Sequence[Any] = ()) -> str:
    """Return the text that the trained model continues with a turn in a chat format: a call, or behind its result a
    sentence.

    tools: definitions as OpenAI has them; names of tools that a format brings along, which take a query.  told:
    messages that follow the question, as OpenAI has them.
    """
    query = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    listed = [
        {"type": "function", "function": {"name": tool, "parameters": query}} if isinstance(tool, str) else tool
        for tool in tools
    ]
    text: str = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}, *told], tools=listed, format=format, tokenize=False
    )
    return text


def shaped(tokenizer: PreTrainedTokenizerFast, *, trained: bool) -> LlamaForCausalLM:
    """Return a model of one of the two shapes, with weights from torch's random numbers."""
    with needing("load the embedded model", "transformers"):
        from transformers import LlamaConfig, LlamaForCausalLM
    size = {
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 4,
        "num_key_value_heads": 4,
        "tie_word_embeddings": True,
    }
    small = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "tie_word_embeddings": False,
        "initializer_range": SPREAD,
    }
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=WIDTH, num_attention_heads=4, max_position_embeddings=CONTEXT, **(size if trained else small),
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    ))


def _model(tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    with needing("load the embedded model", "transformers"):
        import torch
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = shaped(tokenizer, trained=False)
    _prefer_endings(model, tokenizer)
    return model.eval()


def _prefer_endings(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Make tokens likelier that may close a string, an object or a turn, so that random texts come to an end.

    A Llama has no output bias; a hidden dimension that is nearly constant serves as one.  Its value after the last
    normalisation is measured, then each such token's weight on it is raised.
    """
    import torch

    added = tokenizer.added_tokens_decoder  # each reading of the property makes the dictionary anew
    closers = [i for i in range(len(tokenizer)) if i not in added and CLOSERS & set(tokenizer.decode([i]))]
    markers = tokenizer.convert_tokens_to_ids(list(MARKERS))
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 4 * SPREAD
        hidden = model.model(torch.arange(len(tokenizer))[None, :256]).last_hidden_state[0, :, 0].mean()
        model.lm_head.weight[:, 0] = 0.0
        model.lm_head.weight[closers, 0] = CLOSER / hidden
        model.lm_head.weight[markers, 0] = MARKER / hidden
