"""A model, a prompt and what is wanted → the value: one call that masks, generates and reads back.

What is wanted is a Python type, a JSON Schema, texts to choose from, a compiled pattern, a grammar, a constraint or a
chat format; each stands for a grammar and for a way to read its words.  Types are read by pydantic, which this module
needs for all but the types of JSON itself; everything else by the standard library or the format's own parser.

Several prompts are one batch; one answer may be told as it comes; `agent` lets a model call Python's functions.
Left out: beams and repeated samples (`Constraint.logits_processor` has them); prompts neither text nor messages.
Tested in `tests/hosts/test_generate.py`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from types import UnionType
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

from constrained.deriving.recognise import compared, look, printer_of
from constrained.engine.compiled import CompiledGrammar, compile_grammar
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, LimitExceeded, shown
from constrained.formats import ChatFormat, Message
from constrained.formats.tools import enveloped
from constrained.grammar import Grammar
from constrained.integrations.held import check_vocabulary, grammar_of, vocabulary_of
from constrained.python_types import is_adapter, is_python_type
from constrained.rendering.render import rendered_ids

_JSON_TYPES = {None, type(None), bool, int, float, str, list, dict, Any, object}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The language of the answers, how one is read, and how its beginning is: ValueError where that says nothing."""

    grammar: Grammar | CompiledGrammar
    read: Callable[[str], Any]
    begun: Callable[[str], Any] = str


def generate(
    model: Any, tokenizer: Any, prompt: Any, wanted: Any, *, tools: Any = None, tool_choice: Any = "auto",
    parallel_tool_calls: bool | None = None, response_schema: Any = None, reasoning_budget: int | None = None,
    vocabulary: Vocabulary | None = None, max_new_tokens: int = 512, stream: bool = False, **options: Any,
) -> Any:
    """Let a transformers model answer a prompt, and return the answer as a Python value.

    prompt: text, or messages: those of a `ChatFormat` are rendered by it, special tokens from their structure alone,
    and begun as the tokenizer's chat template begins an answer; others go through that template.  A list of texts, or
    of lists of messages, is a batch, whose answers are returned as a list.
    wanted: a Python type (the result is an instance of it; objects have no keys but its own, in its order), a callable
    with hints, a JSON Schema or its text (the result is the JSON value), a list of texts or a compiled pattern (a
    text), a `Grammar` or `Constraint` (a text), or a `ChatFormat`, with `tools` (a `Message`).
    tool_choice, parallel_tool_calls, response_schema, reasoning_budget: see `ChatFormat.grammar`.
    vocabulary: made of the tokenizer where it is not given, once per tokenizer.
    max_new_tokens: within which the answer ends, by a completion that is known; see `Constraint.matcher(budget=…)`.
    stream: return an iterator over what is there of the answer, each time that it changes, and the answer last.  Of
    types with fields that is an object with the same fields, None where nothing valid is there yet.
    options: of `model.generate`; ``do_sample``, ``temperature`` and so on.

    Raises: LimitExceeded: `max_new_tokens` are not enough for any answer.  ConstrainedError: the tokenizer's chat
    template and the format disagree.  What `compile` raises.

    Cost: the model's, and the first time that of the vocabulary (up to 2 s of 128,000 tokens).
    """
    from constrained.integrations.transformers import generation_kwargs

    if not (hasattr(model, "generate") and hasattr(model, "config")):
        instead = "generate(model, tokenizer, prompt, wanted)"
        raise ConstrainedError(f"not a model: {type(model).__name__}", because="it has no generate()", instead=instead)
    several = isinstance(prompt, (list, tuple)) and len(prompt) > 0 and (
        all(isinstance(one, str) for one in prompt) or all(isinstance(one, (list, tuple)) for one in prompt))
    prompts = list(prompt) if several else [prompt]
    writer = _Writer(tokenizer, wanted if isinstance(wanted, ChatFormat) and not isinstance(prompts[0], str) else None)
    asked = {"parallel_tool_calls": parallel_tool_calls, "response_schema": response_schema}
    answer = wanted_of(wanted, tools, tool_choice, writer.begun, reasoning_budget=reasoning_budget, **asked)
    size = model.config.get_text_config().vocab_size
    given = answer.grammar.vocabulary if isinstance(answer.grammar, CompiledGrammar) else vocabulary
    if given is not None:
        check_vocabulary(given, tokenizer, size)
    vocabulary = given or vocabulary_of(tokenizer, size=size)
    grammar = answer.grammar
    constraint = grammar if isinstance(grammar, CompiledGrammar) else compile_grammar(grammar, vocabulary)
    told = generation_kwargs(constraint, max_new_tokens) | {"max_new_tokens": max_new_tokens + 1}  # and a stop token
    rows = [writer.ids(one, vocabulary, tools) for one in prompts]
    inputs = _batch(rows, told.get("pad_token_id", 0)).to(model.device)
    run = _Run(model, {**inputs, **told, **options}, answer, constraint, len(prompts), max_new_tokens)
    if stream:
        if several:
            raise ConstrainedError("a batch cannot be streamed", instead="generate(…, stream=True) for each prompt")
        return run.stream()
    answers = [run.answer(row) for row in run.rows()]
    return answers if several else answers[0]


@dataclass(frozen=True, slots=True)
class _Run:
    """One call of a model's `generate`, whose rows are answers to `count` prompts."""

    model: Any
    arguments: dict[str, Any]
    wanted: Wanted
    constraint: CompiledGrammar
    count: int
    most: int

    def rows(self, **options: Any) -> list[list[int]]:
        """Return the ids that the model has written, row by row."""
        import torch

        with torch.no_grad():
            output = self.model.generate(**self.arguments, **options)
        if output.shape[0] != self.count:
            raise ConstrainedError(
                f"{output.shape[0]} answers", because=f"{self.count} prompts have one answer each here",
                instead="Constraint.logits_processor for batches",
            )
        rows: list[list[int]] = output[:, self.arguments["input_ids"].shape[1] :].tolist()
        return rows

    def answer(self, ids: list[int]) -> Any:
        """Return what a row says."""
        end = self._end(ids)
        if end is None:
            raise LimitExceeded(
                "no whole answer", because=f"it was cut after max_new_tokens={self.most}",
                instead="more tokens, or a grammar of shorter words",
            )
        return self.wanted.read(self.constraint.vocabulary.decode(ids[:end]).decode())

    def _end(self, ids: list[int]) -> int | None:
        """Return how many ids are the answer's, None: it goes on; a format's own stop token is a part of the turn."""
        end = next((at for at, token in enumerate(ids) if token in self.constraint.stop), None)
        return end if end is None else end + (
            self.constraint.vocabulary.names.get(ids[end]) in self.constraint.grammar.stops)

    def stream(self) -> Iterator[Any]:
        """Yield what is there of the answer, while a thread generates; who stops asking ends that."""
        import torch

        from constrained.integrations.transformers import IdStreamer

        queue: SimpleQueue[Any] = SimpleQueue()
        left = Event()

        def stops(ids: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
            return torch.full((len(ids),), left.is_set(), device=ids.device)

        def work() -> None:
            try:
                (row,) = self.rows(streamer=IdStreamer(queue.put), stopping_criteria=[stops])
                queue.put(lambda: row)
            except BaseException as error:  # told to whoever iterates
                queue.put(lambda error=error: _raised(error))

        thread = Thread(target=work, daemon=True)
        thread.start()
        ids, last = list[int](), None
        try:
            while not callable(new := queue.get()):
                ids += new
                try:
                    text = self.constraint.vocabulary.decode(ids[: self._end(ids)]).decode(errors="ignore")
                    partial_value = self.wanted.begun(text)
                except ValueError:  # nothing yet, or nothing that is valid
                    continue
                if partial_value != last:
                    last = partial_value
                    yield partial_value
            yield self.answer(new())
        finally:
            left.set()
            thread.join()


def _raised(error: BaseException) -> Any:
    raise error


def agent(
    model: Any, tokenizer: Any, messages: Any, chat: ChatFormat, tools: Sequence[Callable[..., Any]], *,
    turns: int = 8, **options: Any,
) -> list[Any]:
    """Let a model call functions until it answers; return the conversation: the messages, and all that came of them.

    tools: functions with hints, whose arguments are called by name.  What one raises is what the model is told.
    turns: of the model, at most; in the last it has to answer.  options: of `generate`; ``tool_choice`` counts for the
    first turn.
    Raises: as `generate`.
    """
    functions = {tool.__name__: tool for tool in tools}
    told, choice = _messages(messages), options.pop("tool_choice", "auto")
    for left in reversed(range(turns)):
        choice = choice if left else "none"
        message = generate(model, tokenizer, told, chat, tools=list(tools), tool_choice=choice, **options)
        told, choice = [*told, message], "auto"
        for call in message.tool_calls:
            try:
                result = functions[call.name](**call.arguments)
            except Exception as error:  # the model's to mend
                result = f"{type(error).__name__}: {error}"
            text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
            told.append(Message(text, role="tool", name=call.name, call_id=call.id))
        if not message.tool_calls:
            break
    return told


class _Writer:
    """Prompts → ids.  chat: the format that renders messages, None: the tokenizer's chat template does.

    begun: what the prompt holds of the answer.  Raises: ConstrainedError: the tokenizer's template writes other turns.
    """

    def __init__(self, tokenizer: Any, chat: ChatFormat | None) -> None:
        self._tokenizer, self._chat = tokenizer, chat
        seen = None if chat is None else look(tokenizer)
        self._named = seen is not None and seen.format is not None  # whose template is told the format
        self.begun = "" if chat is None or seen is None or self._named else _begun(chat, tokenizer, seen)

    def ids(self, prompt: Any, vocabulary: Vocabulary, tools: Any) -> list[int]:
        """Return the ids of a text as it is, or of messages."""
        if isinstance(prompt, str):
            return list(self._tokenizer(prompt or self._tokenizer.bos_token)["input_ids"])
        messages = _messages(prompt)
        if self._chat is not None and not self._named:
            rendered: list[int] = rendered_ids(self._chat, messages, vocabulary, tools, self.begun)
            return rendered
        if not getattr(self._tokenizer, "chat_template", None):
            raise ConstrainedError(
                "messages without a chat template", because="the tokenizer has none", instead="the prompt as text"
            )
        listed = [message.to_openai() if isinstance(message, Message) else message for message in messages]
        named = {"tools": described(self._chat, tools), "format": self._chat.name} if self._chat is not None else {}
        return list(self._tokenizer.apply_chat_template(
            listed, add_generation_prompt=True, tokenize=True, return_dict=True, **named)["input_ids"])


def _batch(rows: list[list[int]], pad: int) -> Any:
    """Return rows of ids as `generate` takes them, padded on the left."""
    from transformers import BatchEncoding

    width = max(map(len, rows))
    padded = {
        "input_ids": [[pad] * (width - len(row)) + row for row in rows],
        "attention_mask": [[0] * (width - len(row)) + [1] * len(row) for row in rows],
    }
    return BatchEncoding(padded, tensor_type="pt")


def _begun(chat: ChatFormat, tokenizer: Any, seen: Any) -> str:
    """Return what a tokenizer's chat template writes of an answer for the model.  Raises: ConstrainedError: its turns
    are not those of the format.
    """
    template = printer_of(tokenizer, seen)
    if template is None:
        return ""
    begun: str
    begun, differs = compared(chat, template)
    if differs:
        raise ConstrainedError(
            f"the tokenizer's chat template and the format {chat.name!r} disagree", because=differs,
            instead="ChatFormat.for_tokenizer(tokenizer) or from_template(tokenizer), or the prompt as text",
        )
    return begun


def wanted_of(
    wanted: Any, tools: Any = None, tool_choice: Any = "auto", begun: str = "", **asked: Any
) -> Wanted:
    """Return the grammar that something stands for, and how its words are read; see `generate`.  begun: what the prompt
    holds of the turn.  asked: more of a chat format's grammar.

    Raises: GrammarError, SchemaError: it cannot be read.  ConstrainedError: nobody knows what it stands for.
    """
    if tools is not None and not isinstance(wanted, ChatFormat):
        raise ConstrainedError("tools without a chat format", instead='ChatFormat.load("hermes") in place of a type')
    if isinstance(wanted, (Grammar, CompiledGrammar)):
        return Wanted(wanted, str)
    if isinstance(wanted, ChatFormat):
        grammar = wanted.grammar(tools or [], tool_choice=tool_choice, prompt=begun, **asked)
        parse = partial(wanted.parse, tools=tools, prompt=begun)
        return Wanted(grammar, parse, partial(parse, partial=True))
    grammar = grammar_of(wanted, profile="practical")
    if isinstance(wanted, (re.Pattern, list, tuple)):
        return Wanted(grammar, str)
    typed = wanted is None or is_python_type(wanted)
    return Wanted(grammar, _reader(wanted) if typed else json.loads, _beginnings(wanted if typed else Any))


def _reader(kind: Any) -> Callable[[str], Any]:
    """Return what makes an instance of a type of a JSON text."""
    if not is_adapter(kind) and kind in _JSON_TYPES:
        return json.loads
    try:
        from pydantic import PydanticUserError, TypeAdapter, ValidationError
    except ImportError as error:
        raise ConstrainedError(
            f"cannot make a {kind!r:.100}", because="pydantic is not installed, which makes instances of types",
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
                f"the answer is no {kind!r:.100}", where="#" + "".join(f"/{step}" for step in first["loc"]),
                because=f"{first['msg']}, which its schema does not say",
                instead="generate again, or say it in the type",
            ) from error

    return validated


def _beginnings(kind: Any) -> Callable[[str], Any]:
    """Return what reads the beginning of a JSON text, as far as it fits a type; ValueError: nothing of it does."""
    made: list[Any] = []

    def begun(text: str) -> Any:
        from pydantic import TypeAdapter
        from pydantic_core import from_json

        if not made:
            made.append(None if is_adapter(kind) or kind in _JSON_TYPES else TypeAdapter(_partly(kind, ())))
        value = from_json(text, allow_partial="trailing-strings")
        return value if made[0] is None else made[0].validate_json(json.dumps(value))

    return begun


def _partly(kind: Any, above: tuple[Any, ...]) -> Any:
    """Return a type of what may be there of a value: objects of the same fields, each None until it is valid, or not
    there in a dict.
    """
    from pydantic import Field, WrapValidator, create_model

    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _partly(arguments[0], above)
    if arguments and origin in (list, dict, tuple, Union, UnionType, Iterable):
        parts = tuple(part if part is ... else _partly(part, above) for part in arguments)
        known: Any = {Iterable: list, UnionType: Union}.get(origin, origin)
        return known[parts]
    aliases: dict[str, Any] = {}
    if hasattr(kind, "model_fields"):
        hints = {name: field.annotation for name, field in kind.model_fields.items()}
        aliases = {name: field.validation_alias for name, field in kind.model_fields.items()}
    elif isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "__required_keys__")):
        hints = get_type_hints(kind)
    else:
        return kind
    if kind in above:  # in itself
        return Any
    fields: Any = {
        name: Annotated[_partly(hint, (*above, kind)) | None, WrapValidator(_none_if_invalid)]
        for name, hint in hints.items()
    }
    if hasattr(kind, "__required_keys__"):
        from typing_extensions import TypedDict  # pydantic has it

        return TypedDict(kind.__name__, fields, total=False)  # type: ignore[operator]
    named: Any = {
        name: (hint, Field(None, validation_alias=aliases.get(name))) for name, hint in fields.items()
    }
    return create_model(kind.__name__, **named)


def _none_if_invalid(value: Any, validate: Callable[[Any], Any]) -> Any:
    try:
        return validate(value)
    except ValueError:
        return None


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
            f"the prompt is {shown(prompt)}", because="it is a text, or a list of messages",
            instead='"…" or [{"role": "user", "content": "…"}]; Constraint.generation_kwargs for batches',
        )
    return list(prompt)
