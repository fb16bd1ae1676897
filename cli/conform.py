"""`conform`: the readers of other projects against the formats here."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from constrained.errors import ConstrainedError

from .console import print_table
from .inputs import check_writable, read_json

DIFFERS = 1


def conform(
    formats: Annotated[
        str,
        typer.Option("--format", "-f", help="Formats, with commas between; all: those that the reader has a name for."),
    ],
    readers: Annotated[
        str,
        typer.Option(
            "--reader",
            "-r",
            help="transformers, vllm, sglang, mistral-common, llama-models, openai-harmony or python:module:function, "
            "behind an @ the interpreter that has it; several with commas between.",
        ),
    ],
    template: Annotated[
        str | None, typer.Option("--response-template", metavar="FILE", help="For readers that take one.")
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", "-n", min=10, help="Turns that are drawn, before any is shrunk.")
    ] = 300,
    seed: Annotated[int, typer.Option(min=0, help="What the drawing begins with.")] = 0,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report for an issue or a page here.")
    ] = None,
) -> None:
    """Read generated turns with the readers of other projects; exit 1 where one finds something else, 2 where none can
    read.
    """
    if find_spec("hypothesis") is None:
        raise ConstrainedError(
            "cannot draw turns", because="hypothesis is not installed", instead="pip install hypothesis"
        )
    if markdown is not None:
        check_writable(str(markdown))
    given = None if template is None else read_json(template)
    outcomes = _examined(formats, readers.split(","), examples=examples, template=given, start=seed)
    if markdown is not None:
        from constrained.conform.report import markdown as page

        markdown.write_text(page(outcomes), encoding="utf-8")
    _print(outcomes)


def _examined(formats: str, asked: list[str], **options: Any) -> list[Any]:
    """Return the outcomes of readers, each in one process of its interpreter."""
    from constrained.conform import laboratory, report
    from constrained.conform.readers import READERS

    outcomes = []
    for reader, _, python in (each.partition("@") for each in asked):
        with laboratory.Host(python or sys.executable) as host:
            known = READERS[reader][2] if formats == "all" and reader in READERS else formats.split(",")
            for name in known:
                found = laboratory.examine(name, reader, host=host, **options)
                typer.echo(f"{found.reader}, {found.format}: {report.cell(found)}", err=True)
                outcomes.append(found)
    return outcomes


def _print(outcomes: list[Any]) -> None:
    from constrained.conform import report

    for outcome in outcomes:
        if outcome.differences:
            title = f"{outcome.reader}, {outcome.format}"
            print_table(("kind", "turn", "says", "found", "wrong"), report.rows(outcome), title)
    if any(outcome.differences for outcome in outcomes):
        raise typer.Exit(DIFFERS)
    if all(outcome.unreadable for outcome in outcomes):
        raise ConstrainedError("cannot read any turn", because=outcomes[0].unreadable)
