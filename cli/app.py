"""The commands by name."""

from __future__ import annotations

from typing import Annotated

import typer

from constrained import __version__

from .conform import conform
from .generate import bench, demo, generate, trace
from .grammars import derive, formats, mask, show, spec, vocabulary
from .serve import playground, serve
from .specifications import compare, convert, coverage, lint
from .transcripts import parse, render, validate

app = typer.Typer(
    name="constrained",
    help="Masks that keep a language model inside a grammar: chat formats, tools and JSON Schemas.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    formats, show, mask, validate, parse, render, spec, lint, coverage, compare, convert, derive, conform, generate,
    serve, playground, trace, demo, bench, vocabulary,
):  # fmt: skip
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Masks that keep a language model inside a grammar: chat formats, tools and JSON Schemas."""
