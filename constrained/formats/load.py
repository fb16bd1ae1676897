"""`ChatFormat`: a pair of files, a grammar and a definition, as an object.

What the files say is in `definition` and in the grammar; what can be done with them is in the modules called here.  No
format is known by name anywhere in the package.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.errors import ConstrainedError, GrammarError, said_by, shown
from constrained.formats.binding.bind import Frame, bind, leading_thought
from constrained.formats.binding.request import make_request, resolve_builtin_tools
from constrained.formats.definition import Definition
from constrained.formats.message import Message, ToolCall
from constrained.formats.pairs import known, nearest, read_pair, respelled, shipped_names
from constrained.grammar import Grammar
from constrained.grammar.lark import shipped_folder
from constrained.python_types import is_python_type, schema_of
from constrained.schema.by_content import Recent, content, values_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from constrained.engine.tokens.vocabulary import Vocabulary
    from constrained.formats.read.question import Question
    from constrained.formats.read.reading import Reader
    from constrained.formats.streaming import StreamParser


@dataclass(frozen=True, eq=False)
class ChatFormat:
    """A chat format; frozen, shareable between threads.

    `generic` is its grammar before tools are bound, `files` the texts that it was read from, by name.
    """

    name: str
    definition: Definition
    generic: Grammar
    files: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"<ChatFormat {self.name!r}: {self.definition.title}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return ChatFormat, (self.name, self.definition, self.generic, self.files)  # without what it remembers

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the formats that come with the package."""
        return shipped_names()

    @classmethod
    def load(cls, name_or_path: str | PathLike[str]) -> ChatFormat:
        """Return a format by its name or another name of it, or from a pair of files given by the path of either.

        Raises: GrammarError: there is no such format, or its files are wrong.

        >>> ChatFormat.load("hermes").stop
        ('<|im_end|>',)
        """
        if not isinstance(name_or_path, (str, PathLike)) or not isinstance(fspath(name_or_path), str):
            raise GrammarError(
                f"unknown format {shown(name_or_path)}", because="it is neither a name nor a path",
                instead="ChatFormat.names() lists all",
            )
        name = known(str(name_or_path))
        if name is not None:
            return _shipped(name)
        path = Path(name_or_path)
        if path.suffix not in (".toml", ".lark"):
            near = ", ".join(nearest(str(name_or_path)))
            instead = f"{near}; 'constrained formats' lists all; or the path of a .toml file"
            raise GrammarError(f"unknown format {shown(str(name_or_path), 200)}", instead=instead)
        return _read(path.with_suffix(".toml"))

    @classmethod
    def for_tokenizer(cls, tokenizer: Any) -> ChatFormat:
        """Return the format that a tokenizer's model writes, named by its configuration (``chat_format``), told by its
        chat template, which must write what the format writes, or by its special tokens where it has none.

        tokenizer: of transformers, tokenizers, tiktoken or mistral-common, or the path of its folder.

        Raises: GrammarError: it cannot be told, or could be several; the message says which, or where they differ.
        """
        from constrained.deriving.recognise import recognised

        return recognised(tokenizer, cls.load)

    @classmethod
    def from_template(cls, given: Any, special: Any = None, stop: Any = None) -> ChatFormat:
        """Return the format that a chat template prints, derived by comparing what it prints of other messages, and
        proved: random conversations come out as the template prints them, and its turns are generated.

        given: a tokenizer of transformers, the path of its folder or of a .jinja file, or the template's text.
        special: names of special tokens → spellings, or a list of these, where a template comes alone.  stop: the
        tokens that end a turn, where the template prints none.

        What the template does otherwise, or nobody said, is listed in `doubts`.  Needs jinja2.
        Cost: some seconds.
        Raises: GrammarError: the template prints something that no format here has; with the conversation.
        """
        from constrained.deriving.derive import derive

        return derive(given, cls.load, special, stop).format

    @classmethod
    def from_response_template(cls, given: Any, *, stop: Any = None) -> ChatFormat:
        """Return the format whose turns a response template of transformers reads.

        given: the dict, or a tokenizer that has one; with its chat template the format is derived from that, and what
        the response template reads otherwise is listed in `doubts`.  stop: the tokens that end a turn, where the
        response template closes no text with one.

        Raises: GrammarError: it says what no format here has; with the key.
        """
        from constrained.deriving.regions import from_regions

        return from_regions(given, cls.load, stop, cls.from_template)

    @property
    def doubts(self) -> tuple[tuple[str, str], ...]:
        """Of a derived format, what its template does otherwise or does not say: (what, how)."""
        return tuple(self.definition.doubts.items())

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the files of the format into a folder, and return the path of the definition, which `load` takes.

        Raises: ConstrainedError: they cannot be written.
        """
        path = Path(folder)
        try:
            path.mkdir(parents=True, exist_ok=True)
            for name, text in self.files.items():
                (path / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConstrainedError(f"cannot write to {shown(str(folder))}", because=said_by(error)) from error
        return path / f"{self.name}.toml"

    @property
    def title(self) -> str:
        """What people call the format."""
        return self.definition.title

    @property
    def specification(self) -> str:
        """Where the format is described."""
        return self.definition.specification

    @property
    def tokens(self) -> Mapping[str, str]:
        """The special tokens: name in the grammar → spelling in the tokenizer."""
        return self.definition.tokens

    @property
    def stop(self) -> tuple[str, ...]:
        """The special tokens that end a turn, as the tokenizer spells them."""
        return self.definition.stop

    def respell(self, spellings: Mapping[str, str]) -> ChatFormat:
        """Return the format for a tokenizer that spells some of its special tokens differently.

        >>> ChatFormat.load("openchatml").respell({"[EOS]": "</s>"}).stop
        ('<|im_end|>', '</s>')
        """
        if not isinstance(spellings, Mapping) or not all(
            isinstance(text, str) and text for pair in spellings.items() for text in pair
        ):
            raise GrammarError(f"spellings are {shown(spellings)}", instead="a mapping of tokens: {'[EOS]': '</s>'}")
        if unknown := spellings.keys() - self.tokens.keys():
            raise GrammarError(
                f"the format {self.name!r} has no token {min(unknown)!r}", instead=f"one of: {', '.join(self.tokens)}"
            )
        old = self.tokens
        definition = replace(self.definition, tokens={**old, **spellings})
        return ChatFormat(
            self.name, definition, respelled(self.generic, {old[name]: text for name, text in spellings.items()})
        )

    def generation_prompt(self, thinking: bool | None = None) -> str:
        """Return what stands of a turn behind the header of an answer, as `prompt` of `grammar`, `parse` and
        `stream_parser` has it, and as ``render(…, add_generation_prompt=True, thinking=…)`` ends.

        thinking: True, the beginning of a thought; False, what a template writes where the model shall not think.
        None: what the template writes of itself, which is what the three take for granted.

        Raises: GrammarError: the format has no thoughts, or its templates cannot switch them off.

        >>> ChatFormat.load("qwen3").generation_prompt(thinking=False)
        '<think>\\n\\n</think>\\n\\n'
        """
        if thinking is None:
            return self.definition.start()
        reasoning = self.definition.reasoning if self.definition.generates_thoughts else None
        if not isinstance(thinking, bool):
            raise GrammarError(f"thinking is {shown(thinking)}", instead="True, False or None")
        if reasoning is None:
            raise GrammarError(
                f"thinking is {thinking}", because=f"the format {self.name!r} has no thoughts", instead="leave it out"
            )
        prompt = reasoning.prompt if thinking else reasoning.closed
        if prompt is None:
            raise GrammarError(
                "thinking is False", because=f"no template of the format {self.name!r} can say so",
                instead='grammar(reasoning="none")',
            )
        return prompt

    def grammar(
        self,
        tools: object = None,
        tool_choice: str | Mapping[str, Any] | None = "auto",
        parallel_tool_calls: bool | None = None,
        *,
        max_calls: int | None = None,
        property_order: str = "schema",
        whitespace: str | None = None,
        closed: bool = True,
        unsupported: str = "raise",
        formats: str = "assert",
        reasoning: str | None = None,
        reasoning_budget: int | None = None,
        prompt: str | None = None,
        calls_before: int | None = None,
        marker_safe: bool = True,
        preface: bool | None = None,
        response_schema: Any = None,
        **options: Any,
    ) -> Grammar:
        """Return the grammar of the turns that an assistant may generate.

        tools: definitions in any shape that `tools` reads.  None: any name with any arguments; where a format only
        has tools of its own, the names of those that are offered.
        tool_choice: "auto", "required", "none", the name of a tool, or what others write, see `binding.request`.
        response_schema: a JSON Schema or a type that an answer fits, as one line of JSON; calls are as they are.
        preface: whether text may stand before a call.  None: only where neither a call nor a schema is asked for.
        parallel_tool_calls, max_calls: one call or several, where the format has room; default: what it prescribes, and
        one where `tool_choice` names a tool.
        property_order, whitespace, closed, unsupported, formats: as in `schema.embed`; by default arguments are one
        line of text with the format's spaces in the order of the schema, and objects with declared properties have no
        others.
        reasoning: "optional", as the model likes; "none"; "required"; "prefilled", required and begun by the prompt.
        reasoning_budget: the most tokens of a generation until its first thought has ended, markers included; it can
        always end, and what follows has the budget of the whole.  Turns are read without it.
        prompt: what the prompt holds of the turn, behind the assistant's header, which the model goes on from; None:
        what `generation_prompt` says, unless `reasoning` asks for something else.
        calls_before: the calls of earlier turns, where a format numbers them through.  None: any number may come first.
        marker_safe: the turn spells no special token and nothing that readers find calls by; strings escape it.
        options: those of the format, see `definition.options`.

        Cost: some 20 µs a tool; schemas are lowered when they are generated.  What was asked for lately is found again.
        Raises: SchemaError: a tool definition is wrong, or the format cannot carry it.  GrammarError: another argument.
        """
        tools, options = resolve_builtin_tools(self.definition, tools, tool_choice, options)
        if response_schema is not None and is_python_type(response_schema):
            response_schema = schema_of(response_schema, "response_schema")
        choice: dict[str, Any] = {
            "tool_choice": tool_choice, "parallel_tool_calls": parallel_tool_calls, "max_calls": max_calls,
        }
        writing = {
            "whitespace": whitespace, "property_order": property_order, "closed": closed, "unsupported": unsupported,
            "formats": formats,
        }
        thinking: dict[str, Any] = {
            "reasoning": reasoning, "prompt": prompt, "calls_before": calls_before, "marker_safe": marker_safe,
            "preface": preface, "response_schema": response_schema,
        }
        limited = {} if reasoning_budget is None else {"reasoning_budget": reasoning_budget}
        key = content(tools, *choice.values(), options, *writing.values(), thinking | limited)
        grammars, frames = self._recent
        if key is not None and (known := grammars.get(key)) is not None:
            return known
        asked = make_request(self.definition, tools, **choice, **thinking, **options)
        bound = bind(self.generic, self.definition, asked, writing, frames)
        bound.__dict__.update(recipe=("format", self.name, key), response_template=self._response_template)
        if reasoning_budget is not None:
            limit = leading_thought(self.generic, self.definition, reasoning_budget, reasoning, prompt)
            bound.__dict__["limit"] = limit
        return bound if key is None else grammars.put(key, bound)

    def _response_template(self) -> dict[str, Any]:
        from constrained.deriving.response import exported

        return exported(self)

    @cached_property
    def _recent(self) -> tuple[Recent[Grammar], Recent[Frame]]:
        return Recent(most=32, most_bytes=1 << 20), Recent(most=8, most_bytes=1 << 13, stays=True)

    def parse(
        self,
        text_or_ids: str | Iterable[int],
        tools: object = None,
        vocabulary: Vocabulary | None = None,
        *,
        strict: bool = False,
        partial: bool = False,
        kind: str = "assistant_turn",
        prompt: str | None = None,
        **options: Any,
    ) -> Any:
        """Return what a text says: a `Message`; of kind "conversation" a list of them; of kind "tool_call" a
        `ToolCall`.

        Read is whatever the format's accepted rules derive; strict: only what `grammar` with the same arguments does.
        Names and arguments of calls are judged by the tools, where they are given.  partial: the text is the beginning
        of one, whatever is missing; what is certain is returned.  Ids need the vocabulary that they belong to.  prompt:
        what the prompt holds of the turn, behind the assistant's header; None: as `grammar` has it, and then an empty
        thought is none, and a turn that repeats the prompt's markers is read from these on.

        options: those of the format; max_calls, tool_choice, parallel_tool_calls; builtin_tools, which of the format's
        own are offered; tool, the name of the tool whose arguments alone are read; stop_optional, whether the last
        stop token may be missing, as servers strip it: by default that of a turn that is not read strictly.

        Cost: linear; about 1 µs a character of arguments, far less of text.
        Raises: Rejected: with the place, the layer and what was expected.  LimitExceeded: see `work`.

        >>> turn = '<tool_call>\\n{"name": "add", "arguments": {"n": 1}}\\n</tool_call><|im_end|>'
        >>> ChatFormat.load("hermes").parse(turn).tool_calls
        [ToolCall(name='add', arguments={'n': 1}, id=None)]
        """
        messages = self._reader(kind, tools, prompt, options).read(
            text_or_ids, vocabulary, strict=strict, partial=partial
        )
        if kind == "conversation":
            return messages
        if kind == "tool_call":
            return messages[0].tool_calls[0] if messages[0].tool_calls else ToolCall("", {})
        return messages[0]

    def validate(
        self,
        text_or_ids: str | Iterable[int],
        kind: str = "conversation",
        tools: object = None,
        vocabulary: Vocabulary | None = None,
        *,
        strict: bool = False,
        prompt: str | None = None,
        all_errors: bool = False,
        **options: Any,
    ) -> None:
        """Raise `Rejected` where `parse` with the same arguments would; all_errors: its `others` are what else is
        wrong.

        >>> ChatFormat.load("hermes").validate("Hello.<|im_end|>", "assistant_turn")
        """
        self._reader(kind, tools, prompt, options).read(text_or_ids, vocabulary, strict=strict, all_errors=all_errors)

    def stream_parser(
        self, tools: object = None, vocabulary: Vocabulary | None = None, *, prompt: str | None = None, **options: Any,
    ) -> StreamParser:
        """Return what reads an assistant turn as it comes, in text, bytes or ids, and tells it in events (`streaming`);
        arguments are those of `parse`.
        """
        from constrained.formats.streaming import StreamParser

        return StreamParser(self._reader("assistant_turn", tools, prompt, options), vocabulary)

    def _reader(self, kind: str, tools: object, prompt: str | None, options: dict[str, Any]) -> Reader:
        """Return the reader of these options: the one that was made for them lately, else a new one."""
        from constrained.formats.read.reading import Reader

        key = content(kind, tools, prompt, options)
        if key is None:
            return Reader(self, kind, tools, prompt, options)
        known = self._readers.get(key)
        return self._readers.put(key, Reader(self, *values_of(key))) if known is None else known  # a copy of the tools

    def recent_question(self, key: bytes | None, make: Callable[[], Question]) -> Question:
        """Return the question of these options: the one that was made for them lately, else a new one."""
        return self._questions.found(key, make)

    def with_start_rule(self, kind: str) -> ChatFormat:
        """Return the format whose turn is the canonical text of a kind."""
        from constrained.formats.read.reading import with_start_rule

        if kind not in self._entered:
            generic = with_start_rule(self.generic, self.definition, kind)
            self._entered[kind] = ChatFormat(self.name, self.definition, generic)
        return self._entered[kind]

    @cached_property
    def _questions(self) -> Recent[Question]:
        return Recent(most=32, most_bytes=1 << 20)

    @cached_property
    def _readers(self) -> Recent[Reader]:
        return Recent(most=32, most_bytes=1 << 20)

    @cached_property
    def _entered(self) -> dict[str, ChatFormat]:
        return {"assistant_turn": self}

    def render(
        self, messages: Iterable[Message | Mapping[str, Any]], vocabulary: Vocabulary, tools: object = None,
        **options: Any,
    ) -> list[int]:
        """Return the ids of a conversation; special tokens come from its structure alone, whatever its texts spell.

        messages: `Message` objects or dicts as OpenAI or Anthropic has them; roles, ids, and the order of calls and
        results become those of the format.  tools: for the order of arguments, and for what the format tells a model of
        them, unless the messages say it already; ``tool_prompt=False`` leaves it out.  ``add_generation_prompt=True``
        ends with the header of an answer and with `generation_prompt()`; ``prompt=`` or ``thinking=`` says otherwise.
        options: those of the format.

        Raises: ConstrainedError: the format has no such conversation, or no words for tools that no message lists.
        VocabularyError: a special token is missing.
        """
        from constrained.rendering import render

        return render.ids_of(self, render.render(self, messages, tools, options), vocabulary)[0]

    def render_text(self, messages: Iterable[Message | Mapping[str, Any]], tools: object = None, **options: Any) -> str:
        """Return the text of a conversation; as `render`, and messages that spell a special token are refused.

        >>> ChatFormat.load("hermes").render_text([{"role": "user", "content": "Hi"}], open_ended=True)
        '<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n'
        """
        from constrained.rendering import render

        return render.text_of(self, render.render(self, messages, tools, options))

    def call_ids(
        self, messages: Iterable[Message | Mapping[str, Any]], tools: object = None, **options: Any
    ) -> Mapping[str, str]:
        """Return the ids of calls as `render` writes them → as the messages have them, where both have one."""
        from constrained.rendering import render

        return render.render(self, messages, tools, options).ids

    def loss_mask(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        vocabulary: Vocabulary,
        tools: object = None,
        **options: Any,
    ) -> np.ndarray[Any, Any]:
        """Return which ids of `render` a model learns, (len(ids),) bool: all that an assistant generates, the token
        that ends the turn included, but for messages with a `weight` (in dicts also `loss`) of 0.

        mask[i] is of the token ids[i] itself, not of the one before it, which predicts it: models shift labels on their
        own.
        """
        from constrained.rendering import render

        return np.asarray(render.ids_of(self, render.render(self, messages, tools, options), vocabulary)[1], bool)

    def labels(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        vocabulary: Vocabulary,
        tools: object = None,
        **options: Any,
    ) -> np.ndarray[Any, Any]:
        """Return the ids of `render`, -100 where nothing is learned, (len(ids),) int64: the labels that transformers
        and TRL expect.
        """
        from constrained.rendering import render

        return render.labels(*render.ids_of(self, render.render(self, messages, tools, options), vocabulary))

    def write(self, message: Message, tools: object = None, **options: Any) -> str:
        """Return the canonical text of a message's turn: what a model that follows the format to the letter would
        generate, behind the `prompt` that `grammar` has; the whole turn where the message thinks and that lets it not.

        Raises: ConstrainedError: the format has no such turn.
        """
        from constrained.rendering.turn import write

        return write(self, message, tools, options)

    def write_call(self, name: str, arguments: Mapping[str, Any], tools: object = None, **options: Any) -> str:
        """Return the canonical text of a turn that is one call and nothing else."""
        given = dict(arguments) if isinstance(arguments, Mapping) else arguments
        return self.write(Message("", [ToolCall(name, given)]), tools, **options)


@lru_cache(maxsize=64)
def _shipped(name: str) -> ChatFormat:
    return _read(shipped_folder() / f"{name}.toml")


def _read(path: Path) -> ChatFormat:
    definition, generic = read_pair(path)
    named = tomllib.loads(path.read_text(encoding="utf-8"))
    is_own = definition.grammar.parent == path.parent and ("grammar" in named or definition.grammar.stem == path.stem)
    files = {file.name: file.read_text(encoding="utf-8") for file in (path, *([definition.grammar] if is_own else []))}
    return ChatFormat(path.stem, definition, generic, files)
