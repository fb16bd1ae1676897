"""What commands take: files of tools and schemas, tokenizers, models; and the language that one keeps to: one of chat
format, schema, pattern, Lark file and list of texts, and no more than one.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from os import fsencode
from os.path import exists, isfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from constrained.errors import ConstrainedError, SchemaError, said_by
from constrained.formats import ChatFormat
from constrained.grammar import Grammar
from constrained.integrations.ray_data import unread

from .hub import ask_hub, unloadable

if TYPE_CHECKING:
    from constrained.engine.tokens.vocabulary import Vocabulary


def as_utf8(given: Any) -> Any:
    """Return an argument, or arguments, as UTF-8 reads the bytes, which Python reads otherwise in some locales; for
    texts, not for paths.

    >>> as_utf8(["\\udcc3\\udca9", "a"])
    ['é', 'a']
    """
    if isinstance(given, list):
        return [as_utf8(one) for one in given]
    try:
        return fsencode(given).decode() if isinstance(given, str) else given
    except UnicodeError:
        return given


ModelOption = Annotated[
    str | None, typer.Option("--model", "-m", help="Local folder or hub id; default: the embedded model.")
]
PromptOption = Annotated[str, typer.Option("--prompt", "-p", callback=as_utf8, help="What the user says.")]
TemperatureOption = Annotated[float, typer.Option(min=0.0, help="0 is greedy.")]
FormatOption = Annotated[
    str | None, typer.Option("--format", "-f", help="Chat format: a name (see `formats`) or a .lark/.toml pair.")
]
ToolsOption = Annotated[
    str | None, typer.Option("--tools", "-t", help="Tool definitions: a JSON file, JSON itself, or -: standard input.")
]
SchemaOption = Annotated[
    str | None, typer.Option("--schema", "-s", help="JSON Schema: a file, JSON itself, or -: standard input.")
]
ChoiceOption = Annotated[
    str, typer.Option("--tool-choice", callback=as_utf8, help="auto, required, none, or the name of a tool.")
]
TokenizerOption = Annotated[
    str | None, typer.Option("--tokenizer", help="File (a saved vocabulary too), folder or hub id; default: embedded.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RayOption = Annotated[
    int, typer.Option("--ray", min=0, help="Of --jsonl: so many actors of Ray Data share the rows; 0: this process.")
]
OutOption = Annotated[
    str | None, typer.Option("--out", help="Of --jsonl: file of results, which a further run goes on from.")
]


def refuse_alone(other: str, **given: Any) -> None:
    """Refuse options that say something of another one, which is not there."""
    for name in (name for name, value in given.items() if value):
        raise ConstrainedError(f"--{name} without --{other}", because=f"it is a part of --{other}")


def check_writable(path: str) -> None:
    """Refuse a file that cannot be written, before the work that is to go into it."""
    try:
        Path(path).open("ab").close()
    except OSError as error:
        raise ConstrainedError(f"cannot write {path}", because=said_by(error)) from error


def read_bytes(path: str) -> bytes:
    """Return what is in a file; ``-`` is standard input.

    Raises: ConstrainedError: the file cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as error:
        because = (getattr(error, "strerror", None) or str(error)).lower()
        instead = "the path of a file, or -: standard input"
        raise ConstrainedError(f"cannot read {path}", because=because, instead=instead) from error


def read_text(path: str) -> str:
    """Return the text in a file, every character of it."""
    try:
        return read_bytes(path).decode()
    except UnicodeError as error:
        raise ConstrainedError(f"cannot read {path}", because=str(error), instead="a file in UTF-8") from error


def read_json(path: str) -> Any:
    """Return the JSON value in a file, or in the argument itself where that is an object or a list."""
    if path.lstrip().startswith(("{", "[")) and not isfile(path):
        return _json_of(fsencode(path), "the argument")  # as UTF-8 in any locale
    return _json_of(read_bytes(path), path)


def _json_of(data: bytes, path: str, where: str | None = None) -> Any:
    try:
        return json.loads(data.decode())
    except json.JSONDecodeError as error:
        place = where or f"line {error.lineno} column {error.colno}"
        raise ConstrainedError(f"{path} is not JSON", where=place, because=error.msg) from error
    except (ValueError, RecursionError) as error:
        because = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConstrainedError(f"{path} is not JSON", where=where, because=because) from error


def read_tools(path: str | None) -> list[dict[str, Any]] | None:
    """Return the tool definitions in a file; one definition alone counts as a list of one."""
    if path is None:
        return None
    tools = read_json(path)
    if isinstance(tools, dict):
        tools = [tools]
    if not isinstance(tools, list):
        raise SchemaError(
            f"{path} holds no tools", because="it is neither a list nor an object", instead="a list of tool definitions"
        )
    return tools


def read_rows(
    path: str, holds: Callable[[dict[str, Any]], bool], *, what: str, instead: str
) -> list[tuple[int, dict[str, Any]]]:
    """Return the rows of a file of JSON lines with the numbers of their lines; `unread` ones where a line is no row.

    holds: whether an object is such a row.  what: the word for what another one lacks.
    Raises: ConstrainedError: the file cannot be read.
    """
    rows = []
    for number, line in enumerate(read_bytes(path).split(b"\n"), 1):  # no other line ends: JSON texts may hold them
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            row = _json_of(line, path, where)
            str(row.get("id") if isinstance(row, dict) else "").encode()  # results name it: no half of a pair
            if not isinstance(row, dict) or not holds(row):
                raise ConstrainedError(f"{path} holds no {what}", where=where, instead=instead)
        except ConstrainedError as error:
            row = unread(number, error)
        except UnicodeError as error:
            row = unread(number, ConstrainedError(f"{path} is not JSON", where=where, because=str(error)))
        rows.append((number, row))
    return rows


def read_vocabulary(tokenizer: str | None, size: int | None = None) -> Vocabulary:
    """Return the vocabulary of a tokenizer file, a saved vocabulary, a local folder or a hub id; None: the embedded
    tokenizer.

    size: the width of the model's logits, where they are wider than the tokenizer.
    """
    from constrained.engine.tokens.vocabulary import Vocabulary, is_saved

    if tokenizer is None:
        from constrained.default_model import WIDTH, load_tokenizer

        return Vocabulary.from_tokenizer(load_tokenizer(), size=size or WIDTH)
    if isfile(tokenizer):
        saved = size is None and is_saved(tokenizer)
        return Vocabulary.load(tokenizer) if saved else Vocabulary.from_tokenizer(tokenizer, size=size)
    return Vocabulary.from_tokenizer(read_tokenizer(tokenizer), size=size)


def read_model(name: str | None) -> tuple[Any, Any]:
    """Return (model, tokenizer) of a local folder or a hub id; None: the embedded model, on one thread since it is
    tiny.
    """
    if name is None:
        from constrained.default_model import load_trained

        loaded = load_trained()
        import torch

        torch.set_num_threads(1)  # `constrained demo` 86 s with two threads on two busy cores, 9 s with one
        return loaded
    return _pretrained("AutoModelForCausalLM", name), read_tokenizer(name)


def read_tokenizer(name: str) -> Any:
    """Return the tokenizer of a local folder or a hub id."""
    return _pretrained("AutoTokenizer", name)


def _pretrained(kind: str, name: str) -> Any:
    if not exists(name):
        ask_hub(name)
    try:
        import transformers
    except ImportError as error:
        raise ConstrainedError(
            f"cannot load {name!r}",
            because="transformers is not installed",
            instead="pip install 'constrained-generation[transformers]'",
        ) from error
    try:
        return getattr(transformers, kind).from_pretrained(name)
    except (OSError, ValueError) as error:
        raise unloadable(name, error) from error


# -- languages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LanguageOptions:
    """The options of a command that name a language; the first five: one of them."""

    format: FormatOption = None
    schema: SchemaOption = None
    regex: Annotated[
        str | None, typer.Option("--regex", callback=as_utf8, help="Python regular expression of the whole text.")
    ] = None
    lark: Annotated[str | None, typer.Option("--lark", help="Lark file.")] = None
    choice: Annotated[
        list[str] | None, typer.Option("--choice", callback=as_utf8, help="A text to choose from; repeatable.")
    ] = None
    tools: ToolsOption = None
    tool_choice: ChoiceOption = "auto"
    parallel: Annotated[
        bool | None,
        typer.Option("--parallel/--no-parallel", help="Several tool calls in one turn; default: as the format has it."),
    ] = None
    profile: Annotated[
        Literal["practical", "exact"],
        typer.Option("--profile", help="Of a schema: what its readers load, or its whole language."),
    ] = "practical"
    whitespace: Annotated[
        Literal["flexible", "canonical", "compact"] | None,
        typer.Option("--whitespace", help="Of a schema's JSON; default: the profile's."),
    ] = None
    property_order: Annotated[
        Literal["any", "schema"] | None,
        typer.Option("--property-order", help="Of a schema's objects; default: the profile's."),
    ] = None
    unsupported: Annotated[
        Literal["raise", "widen"],
        typer.Option("--unsupported", help="Keywords of a schema that cannot be compiled exactly."),
    ] = "raise"

    def grammar_with_warnings(self) -> Grammar:
        """Return the grammar, and warn of what it leaves to be checked afterwards; see `grammar`."""
        grammar = self.grammar()
        for widened in grammar.widened:
            warnings.warn(f"{widened.pointer} is not enforced: {widened.because}", stacklevel=2)
        return grammar

    def grammar(self) -> Grammar:
        """Return the grammar.

        Raises: ConstrainedError: not exactly one language, or options that do not belong to it; what reading it raises.
        """
        given = [name for name in ("format", "schema", "regex", "lark", "choice") if getattr(self, name)]
        if len(given) != 1:
            said = " and ".join(f"--{name}" for name in given) or "none"
            raise ConstrainedError(
                "which language?",
                because=f"exactly one of --format, --schema, --regex, --lark, --choice is needed; given: {said}",
            )
        if self.format is None:
            refuse_alone("format", tools=self.tools)
        if self.format:
            return self.with_tools(self.definitions())
        if self.schema:
            names = ("profile", "whitespace", "property_order", "unsupported")
            return Grammar.from_json_schema(read_json(self.schema), **{name: getattr(self, name) for name in names})
        if self.regex:
            return Grammar.from_regex(self.regex)
        if not self.lark:
            return Grammar.choice(self.choice or [])
        if ":" in self.lark and not exists(self.lark):
            raise ConstrainedError(
                "--lark takes a file",
                because=f"no file is named {self.lark!r:.60}",
                instead="the text in a file of its own, for instance --lark grammar.lark; or --regex, --choice",
            )
        return Grammar.from_lark_file(self.lark)

    def chat(self) -> ChatFormat:
        """Return the chat format, which was asked for."""
        return ChatFormat.load(self.format or "")

    def with_tools(self, tools: list[dict[str, Any]] | None) -> Grammar:
        """Return the grammar of the chat format, which was asked for, with these tools."""
        return self.chat().grammar(tools, tool_choice=self.tool_choice, parallel_tool_calls=self.parallel)

    def definitions(self) -> list[dict[str, Any]] | None:
        """Return the tools' definitions."""
        return read_tools(self.tools)


def takes_language(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the fields of `LanguageOptions` as options, in the place of its parameter `asked`."""
    hints = get_type_hints(LanguageOptions, include_extras=True)
    named = {field.name: (hints[field.name], field.default) for field in fields(LanguageOptions)}
    listed: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        listed += [parameter.replace(kind=Parameter.KEYWORD_ONLY)] if parameter.name != "asked" else [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for name, (hint, default) in named.items()
        ]  # fmt: skip

    @wraps(command)
    def run(**options: Any) -> None:
        command(asked=LanguageOptions(**{name: options.pop(name) for name in named}), **options)

    run.__signature__ = Signature(listed)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in listed}
    return run
