"""`validate`, `parse` and `render`: texts of chat formats → what they say, and back; also files of labelled texts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Literal, get_args

import typer
from rich.console import Console
from rich.progress import Progress

from constrained.errors import ConstrainedError, Rejected
from constrained.formats import ChatFormat, Message, ToolCall
from constrained.formats.payload.judge import compact
from constrained.integrations.ray_data import is_unread, results

from .console import results_only
from .inputs import (
    ChoiceOption,
    FormatOption,
    JsonOption,
    OutOption,
    RayOption,
    ToolsOption,
    read_json,
    read_rows,
    read_text,
    read_tools,
    read_vocabulary,
    refuse_alone,
)

TextKind = Literal["conversation", "assistant_turn", "tool_call"]
FileArgument = Annotated[
    str, typer.Argument(help="File in UTF-8, every character of which counts; - reads standard input.")
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Only what would be generated, to the letter.")]
TurnPromptOption = Annotated[
    str | None,
    typer.Option("--prompt", help="What the prompt holds of the turn, behind the header; default: the format's."),
]
OptionsOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="NAME=JSON, an option of the format or of reading; repeatable."),
]


def validate(
    file: FileArgument = "-",
    format: FormatOption = None,
    kind: Annotated[TextKind, typer.Option("--kind", "-k", help="What the text is.")] = "conversation",
    tools: ToolsOption = None,
    tool_choice: ChoiceOption = "auto",
    strict: StrictOption = False,
    prompt: TurnPromptOption = None,
    option: OptionsOption = None,
    jsonl: Annotated[
        str | None,
        typer.Option("--jsonl", help="File of texts, a JSON object a line: format, kind, text, tools, options, valid."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Say all that is wrong, not only what is first.")] = False,
    ray: RayOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether a text is one of a chat format's; exit code 1 and the place where it is not."""
    if jsonl is not None:
        if _all_valid(jsonl, strict=strict, as_json=as_json, actors=ray, out=out):
            return
        raise typer.Exit(1)
    refuse_alone("jsonl", ray=ray, out=out)
    chat, text, listed = chat_of(format), read_text(file), read_tools(tools)
    options = {"tool_choice": tool_choice, "prompt": prompt, "strict": strict, **options_of(option)}
    try:
        _read(chat, text, kind, listed, options)
    except Rejected as error:
        errors = [error, *(_others(chat, text, kind, listed, options) if every else ())]
        if as_json:
            others = {"others": [_described(other) for other in errors[1:]]} if every else {}
            typer.echo(compact({"valid": False, "error": _described(errors[0]), **others}))
        else:
            typer.echo("\n\n".join([*map(str, errors), *_hints(chat, text, kind, listed, options)]), err=True)
        raise typer.Exit(1) from error
    typer.echo(compact({"valid": True, "error": None}) if as_json else "valid")


def parse(
    file: FileArgument = "-",
    format: FormatOption = None,
    kind: Annotated[TextKind, typer.Option("--kind", "-k", help="What the text is.")] = "assistant_turn",
    tools: ToolsOption = None,
    strict: StrictOption = False,
    prompt: TurnPromptOption = None,
    option: OptionsOption = None,
    partial: Annotated[bool, typer.Option("--partial", help="The text is the beginning of one.")] = False,
) -> None:
    """Print what a text says, as JSON: a message, a list of messages, or a call."""
    options = {"prompt": prompt, "strict": strict, "partial": partial, **options_of(option)}
    chat, text, listed = chat_of(format), read_text(file), read_tools(tools)
    try:
        typer.echo(compact(_plain(_read(chat, text, kind, listed, options))))
    except Rejected as error:
        typer.echo("\n\n".join([str(error), *_hints(chat, text, kind, listed, options)]), err=True)
        raise typer.Exit(1) from error


def chat_of(name: str | None) -> ChatFormat:
    """Return the format that --format names."""
    if name is None:
        raise ConstrainedError("which format?", because="--format is needed", instead="'constrained formats' lists all")
    return ChatFormat.load(name)


def options_of(words: list[str] | None) -> dict[str, Any]:
    """Return options written NAME=JSON; what is no JSON is a text."""
    found: dict[str, Any] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals:
            raise ConstrainedError(f"--option {word} has no value", instead="--option NAME=JSON")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
        except RecursionError as error:
            raise ConstrainedError(f"--option {name} cannot be read", because="it is nested too deeply") from error
    return found


def _hints(chat: ChatFormat, text: str, kind: TextKind, tools: Any, options: dict[str, Any]) -> Iterator[str]:
    """Yield under what a refused text would be valid: another kind, or without the line break that an editor added."""
    for other in get_args(TextKind):
        for shorter in (text, text.removesuffix("\n")):
            if (other, shorter) == (kind, text) or shorter is not text and shorter == text:
                continue
            try:
                _read(chat, shorter, other, tools, options)
            except ConstrainedError:
                continue
            ways = [f"with --kind {other}"] if other != kind else []
            ways += ["without the line break at its end"] if shorter != text else []
            yield f"it is valid {', '.join(ways)}"
            return


def _others(chat: ChatFormat, text: str, kind: str, tools: Any, options: dict[str, Any]) -> tuple[Rejected, ...]:
    """Return what is wrong with a text besides what is first."""
    try:
        chat.validate(text, kind, tools, all_errors=True, **options)
    except Rejected as error:
        return error.others
    return ()


def _read(chat: ChatFormat, text: str, kind: str, tools: Any, options: dict[str, Any]) -> Any:
    try:
        return chat.parse(text, tools, kind=kind, **options)
    except TypeError as error:  # an option by the name of a parameter
        raise ConstrainedError("an option cannot be used here", because=str(error)) from error


# -- files of texts ----------------------------------------------------------------------------------------------------


def judge(strict: bool) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what says of a row whether its text is valid; a worker of `ray_data`."""
    return partial(_said, strict=strict)


def _all_valid(path: str, *, strict: bool, as_json: bool, actors: int, out: str | None) -> bool:
    rows = _rows(path)
    valid, as_said, says = 0, 0, False
    shown = Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
    with results_only() as file, shown as progress:
        found = results(rows, f"{__name__}:judge", (strict,), actors=actors, out=out)
        for row, said in progress.track(zip(rows, found, strict=True), description="texts", total=len(rows)):
            said = {"id": row.get("id", str(row.get("line"))), "valid": None, "calls": None, **said}
            valid += said["valid"] is True
            says |= isinstance(row.get("valid"), bool)
            holds = said["valid"] is (row.get("valid") is not False)
            as_said += holds
            if as_json:
                typer.echo(compact(said), file=file)
            elif not holds:
                reason = said["error"]["message"] if said["error"] else "it is valid, and said not to be"
                typer.echo(f"{said['id']}: {reason}", file=file)
    if not as_json:
        typer.echo(f"{valid} of {len(rows)} texts are valid" + (f", {as_said} are as they say" if says else ""))
    return as_said == len(rows)


def _rows(path: str) -> list[dict[str, Any]]:
    """Return the rows of a file of texts, each with an id."""

    def holds(row: dict[str, Any]) -> bool:
        return isinstance(row.get("text"), str) and isinstance(row.get("format"), str)

    rows = read_rows(path, holds, what="text", instead='{"format": …, "kind": …, "text": …}')
    return [row if is_unread(row) else {"id": str(number), **row} for number, row in rows]


def _said(row: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    """Return what is said of a row: `valid` is None where the question itself is wrong."""
    options = {**(row.get("options") or {}), "strict": strict}
    if row.keys() & {"prompt", "gen_prompt"}:
        options["prompt"] = row.get("prompt", row.get("gen_prompt"))
    try:
        found = _read(
            ChatFormat.load(row["format"]), row["text"], row.get("kind", "conversation"), row.get("tools"), options
        )
    except Rejected as error:
        return {"id": row["id"], "valid": False, "calls": None, "error": _described(error)}
    except ConstrainedError as error:
        return {"id": row["id"], "valid": None, "calls": None, "error": {"message": str(error)}}
    return {"id": row["id"], "valid": True, "calls": [_plain(call) for call in _calls(found)], "error": None}


def _calls(found: Any) -> list[ToolCall]:
    """Return all calls of what `parse` returned."""
    if isinstance(found, ToolCall):
        return [found]
    return [call for message in (found if isinstance(found, list) else [found]) for call in message.tool_calls]


def _plain(found: Any) -> Any:
    """Return a message, messages or a call as JSON values."""
    if isinstance(found, list):
        return [_plain(one) for one in found]
    if isinstance(found, ToolCall):
        return {"name": found.name, "arguments": found.arguments} | ({"id": found.id} if found.id is not None else {})
    assert isinstance(found, Message)
    said: dict[str, Any] = {
        "role": found.role,
        "name": found.name,
        "content": found.content,
        "thoughts": found.thoughts or None,
    }
    said |= {"tool_calls": _plain(found.tool_calls), "stop": found.stop}
    return {key: value for key, value in said.items() if value is not None}


def _described(error: Rejected) -> dict[str, Any]:
    keys = (
        "layer",
        "position",
        "line",
        "column",
        "message",
        "call",
        "pointer",
        "expected",
        "rule",
        "keyword",
        "schema_pointer",
    )
    found = {key: getattr(error, key) for key in keys if getattr(error, key) is not None}
    if "message" in found:
        found["message_number"] = found.pop("message")
    return {"message": str(error), **found}


# -- render: messages as JSON → the text of a conversation, or its token ids -------------------------------------------


MessagesArgument = Annotated[
    str,
    typer.Argument(
        help='File with a list of messages as JSON, or {"messages": …, "tools": …}; - reads standard input.'
    ),
]


def render(
    file: MessagesArgument = "-",
    format: FormatOption = None,
    tools: ToolsOption = None,
    option: OptionsOption = None,
    ids: Annotated[
        str | None,
        typer.Option("--ids", metavar="TOK", help="Print token ids of this tokenizer: a file, a folder or a hub id."),
    ] = None,
    loss: Annotated[
        bool, typer.Option("--loss", help="With --ids: print an object, with the mask of what a model learns.")
    ] = False,
) -> None:
    """Print messages as the text of a conversation; no message can become a special token."""
    chat, given = chat_of(format), read_json(file)
    listed = read_tools(tools)
    if isinstance(given, dict) and "messages" in given:
        given, listed = given["messages"], given.get("tools") if listed is None else listed
    if not isinstance(given, list):
        raise ConstrainedError(
            f"{file} holds no messages", because="it is no list", instead='[{"role": "user", "content": "Hello"}]'
        )
    options: dict[str, Any] = options_of(option)
    if ids is None:
        if loss:
            raise ConstrainedError("--loss marks token ids", instead="--ids TOK")
        typer.echo(chat.render_text(given, listed, **options), nl=False)
        return
    vocabulary = read_vocabulary(ids)
    found = chat.render(given, vocabulary, listed, **options)
    if loss:
        typer.echo(json.dumps({"ids": found, "loss": chat.loss_mask(given, vocabulary, listed, **options).tolist()}))
    else:
        typer.echo(json.dumps(found))
