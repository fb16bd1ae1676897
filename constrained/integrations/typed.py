"""A model, a prompt and what is wanted → the value: one call that masks, generates and reads back.

What is wanted is a Python type, a JSON Schema, texts to choose from, a compiled pattern, a grammar, a constraint or a
chat format; each stands for a grammar and for a way to read its words.  Types are read by pydantic, which this module
needs for all but the types of JSON itself; everything else by the standard library or the format's own parser.

Left out: batches and beams (`Constraint.logits_processor` has them), and prompts that are not text or messages.
Tested in `tests/hosts/test_generate.py`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

from constrained.engine.compiled import CompiledGrammar, compile_grammar
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, LimitExceeded, shown
from constrained.formats import ChatFormat, Message
from constrained.formats.templates.template import compared, look, printer_of
from constrained.formats.tools import enveloped
from constrained.formats.writing.render import rendered_ids
from constrained.grammar import Grammar
from constrained.integrations.held import check_vocabulary, grammar_of, vocabulary_of
from constrained.schema.python_types import is_adapter, is_python_type

_JSON_TYPES = {None, type(None), bool, int, float, str, list, dict, Any, object}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The language of the answers, and how one is read."""

    grammar: Grammar | CompiledGrammar
    read: Callable[[str], Any]


def generate(
    model: Any, tokenizer: Any, prompt: str | Sequence[Mapping[str, Any]], wanted: Any, *, tools: Any = None,
    tool_choice: Any = "auto", parallel_tool_calls: bool | None = None, vocabulary: Vocabulary | None = None,
    max_new_tokens: int = 512, **options: Any,
) -> Any:
    """Let a transformers model answer a prompt, and return the answer as a Python value.

    prompt: text, or messages: those of a `ChatFormat` are rendered by it, special tokens from their structure alone,
    and begun as the tokenizer's chat template begins an answer; others go through that template.
    wanted: a Python type (the result is an instance of it; objects have no keys but its own, in its order), a callable
    with hints, a JSON Schema or its text (the result is the JSON value), a list of texts or a compiled pattern (a
    text), a `Grammar` or `Constraint` (a text), or a `ChatFormat`, with `tools` (a `Message`).
    tool_choice, parallel_tool_calls: see `ChatFormat.grammar`.
    vocabulary: made of the tokenizer where it is not given, once per tokenizer.
    max_new_tokens: within which the answer ends, by a completion that is known; see `Constraint.matcher(budget=…)`.
    options: of `model.generate`; ``do_sample``, ``temperature`` and so on.

    Raises: LimitExceeded: `max_new_tokens` are not enough for any answer.  ConstrainedError: the tokenizer's chat
    template and the format disagree.  What `compile` raises.

    Cost: the model's, and the first time that of the vocabulary (up to 2 s of 128,000 tokens).
    """
    import torch

    from constrained.integrations.transformers import generation_kwargs

    if not (hasattr(model, "generate") and hasattr(model, "config")):
        instead = "generate(model, tokenizer, prompt, wanted)"
        raise ConstrainedError(f"not a model: {type(model).__name__}", because="it has no generate()", instead=instead)
    is_chat = isinstance(wanted, ChatFormat) and not isinstance(prompt, str)
    begun = _begun(wanted, tokenizer) if is_chat else ""
    found = wanted_of(wanted, tools, tool_choice, parallel_tool_calls, begun)
    size = model.config.get_text_config().vocab_size
    given = found.grammar.vocabulary if isinstance(found.grammar, CompiledGrammar) else vocabulary
    if given is not None:
        check_vocabulary(given, tokenizer, size)
    vocabulary = given or vocabulary_of(tokenizer, size=size)
    grammar = found.grammar
    constraint = grammar if isinstance(grammar, CompiledGrammar) else compile_grammar(grammar, vocabulary)
    prompted = rendered_ids(wanted, _messages(prompt), vocabulary, tools, begun) if is_chat else None
    inputs = _encoded(tokenizer, prompt, prompted).to(model.device)
    length = inputs["input_ids"].shape[1]
    told = generation_kwargs(constraint, max_new_tokens) | {"max_new_tokens": max_new_tokens + 1}
    with torch.no_grad():
        output = model.generate(**inputs, **told, **options)  # the one more is for a stop token
    if output.shape[0] != 1:
        raise ConstrainedError(
            f"{output.shape[0]} answers",
            because="one prompt has one answer here",
            instead="Constraint.logits_processor for batches",
        )
    ids = output[0, length:].tolist()
    end = next((at for at, token in enumerate(ids) if token in constraint.stop), None)
    if end is None:
        raise LimitExceeded(
            "no whole answer",
            because=f"it was cut after max_new_tokens={max_new_tokens}",
            instead="more tokens, or a grammar of shorter words",
        )
    # a format's own stop is a part of the turn
    own = constraint.vocabulary.names.get(ids[end]) in constraint.grammar.stops
    return found.read(constraint.vocabulary.decode(ids[: end + own]).decode())


def _begun(chat: ChatFormat, tokenizer: Any) -> str:
    """Return what a tokenizer's chat template writes of an answer for the model.  Raises: ConstrainedError: its turns
    are not those of the format.
    """
    template = printer_of(tokenizer, look(tokenizer))
    if template is None:
        return ""
    begun, differs = compared(chat, template)
    if differs:
        raise ConstrainedError(
            f"the tokenizer's chat template and the format {chat.name!r} disagree", because=differs,
            instead="ChatFormat.for_tokenizer(tokenizer) or from_template(tokenizer), or the prompt as text",
        )
    return begun


def wanted_of(
    wanted: Any, tools: Any = None, tool_choice: Any = "auto", parallel_tool_calls: bool | None = None, begun: str = ""
) -> Wanted:
    """Return the grammar that something stands for, and how its words are read; see `generate`.  begun: what the prompt
    holds of the turn.

    Raises: GrammarError, SchemaError: it cannot be read.  ConstrainedError: nobody knows what it stands for.
    """
    if tools is not None and not isinstance(wanted, ChatFormat):
        raise ConstrainedError("tools without a chat format", instead='ChatFormat.load("hermes") in place of a type')
    if isinstance(wanted, (Grammar, CompiledGrammar)):
        return Wanted(wanted, str)
    if isinstance(wanted, ChatFormat):
        grammar = wanted.grammar(
            tools or [], tool_choice=tool_choice, parallel_tool_calls=parallel_tool_calls, prompt=begun
        )
        return Wanted(grammar, lambda text: wanted.parse(text, tools=tools, prompt=begun))
    grammar = grammar_of(wanted, profile="practical")
    if isinstance(wanted, (re.Pattern, list, tuple)):
        return Wanted(grammar, str)
    typed = wanted is None or is_python_type(wanted)
    return Wanted(grammar, _reader(wanted) if typed else json.loads)


def _reader(kind: Any) -> Callable[[str], Any]:
    """Return what makes an instance of a type of a JSON text."""
    if not is_adapter(kind) and kind in _JSON_TYPES:
        return json.loads
    try:
        from pydantic import PydanticUserError, TypeAdapter, ValidationError
    except ImportError as error:
        raise ConstrainedError(
            f"cannot make a {kind!r:.100}",
            because="pydantic is not installed, which makes instances of types",
            instead="pip install pydantic",
        ) from error
    try:
        read = (kind if is_adapter(kind) else TypeAdapter(_read_at_once(kind, ()))).validate_json
    except PydanticUserError as error:
        raise ConstrainedError(f"cannot make a {kind!r:.100}", because=str(error).partition("\n")[0]) from error

    def validated(text: str) -> Any:
        try:
            return read(text)
        except ValidationError as error:
            first = error.errors()[0]
            raise ConstrainedError(
                f"the answer is no {kind!r:.100}",
                where="#" + "".join(f"/{step}" for step in first["loc"]),
                because=f"{first['msg']}, which its schema does not say",
                instead="generate again, or say it in the type",
            ) from error

    return validated


def _read_at_once(kind: Any, above: tuple[Any, ...]) -> Any:
    """Return a type that pydantic reads the values of this one by: a list for an iterable, which it would read on
    demand, and before Python 3.12 a TypedDict of typing_extensions for one of typing, which it refuses.

    above: TypedDicts that this one stands in; those that stand in themselves are left to pydantic.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if arguments and origin in (list, dict, tuple, Union, UnionType, Iterable):
        parts = tuple(_read_at_once(argument, above) for argument in arguments)
        known: Any = {Iterable: list, UnionType: Union}.get(origin, origin)
        return kind if known is origin and parts == arguments else known[parts]
    if sys.version_info >= (3, 12) or not is_typeddict(kind) or type(kind).__module__ != "typing" or kind in above:
        return kind
    from typing_extensions import TypedDict  # pydantic has it

    fields = {
        name: (Required if name in kind.__required_keys__ else NotRequired)[_read_at_once(hint, (*above, kind))]
        for name, hint in get_type_hints(kind).items()
    }
    return TypedDict(kind.__name__, fields)  # type: ignore[operator]


def described(wanted: Any, tools: Any) -> Any:
    """Return tools in any known shape as chat templates take them; names of those that a format brings along stay."""
    if tools is None or not isinstance(wanted, ChatFormat) or wanted.definition.payload is None:
        return tools
    return enveloped(tools)


def _messages(prompt: Any) -> list[Any]:
    """Return a prompt that is no text.  Raises: ConstrainedError: it is no messages either."""
    if not isinstance(prompt, Sequence) or not all(isinstance(message, (Mapping, Message)) for message in prompt):
        raise ConstrainedError(
            f"the prompt is {shown(prompt)}",
            because="it is a text, or a list of messages",
            instead='"…" or [{"role": "user", "content": "…"}]; Constraint.generation_kwargs for batches',
        )
    return list(prompt)


def _encoded(tokenizer: Any, prompt: str | Sequence[Mapping[str, Any]], ids: list[int] | None) -> Any:
    """Return the prompt's ids and mask, as they are given, or else of a text as it is, or of messages by the
    tokenizer's chat template.
    """
    if ids is not None:
        from transformers import BatchEncoding

        return BatchEncoding({"input_ids": [ids], "attention_mask": [[1] * len(ids)]}, tensor_type="pt")
    if isinstance(prompt, str):
        return tokenizer(prompt or tokenizer.bos_token, return_tensors="pt")
    messages = _messages(prompt)
    if not getattr(tokenizer, "chat_template", None):
        raise ConstrainedError(
            "messages without a chat template", because="the tokenizer has none", instead="the prompt as text"
        )
    return tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
