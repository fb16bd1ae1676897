"""`render`: messages as JSON → the text of a conversation, or its token ids."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from constrained.cli.commands.transcripts import OptionsOption, chat_of, options_of
from constrained.cli.inputs import FormatOption, ToolsOption, read_json, read_tools, read_vocabulary
from constrained.errors import ConstrainedError

FileArgument = Annotated[
    str,
    typer.Argument(
        help='File with a list of messages as JSON, or {"messages": …, "tools": …}; - reads standard input.'
    ),
]


def render(
    file: FileArgument = "-",
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
