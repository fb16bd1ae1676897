"""`formats` and `show`: which chat formats there are, and what a grammar looks like with tools in it."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from constrained.cli.console import print_table
from constrained.cli.inputs import ChoiceOption, FormatOption, JsonOption, SchemaOption, ToolsOption
from constrained.cli.languages import (
    LanguageOptions,
    LarkOption,
    OrderOption,
    ParallelOption,
    Profile,
    ProfileOption,
    RegexOption,
    TextsOption,
    Unsupported,
    UnsupportedOption,
    WhitespaceOption,
)
from constrained.errors import ConstrainedError
from constrained.formats import ChatFormat
from constrained.formats.definition import Definition, read_definition
from constrained.formats.pairs import shipped_folder
from constrained.grammar import Embedded
from constrained.integrations.exports import TARGETS, export
from constrained.schema.embedding import EmbeddedSchema


class ShowTarget(StrEnum):
    """What `show` can print."""

    LARK = "lark"
    LLGUIDANCE = "llguidance"
    XGRAMMAR = "xgrammar"
    XGRAMMAR_TAGS = "xgrammar-tags"
    GBNF = "gbnf"
    VALUES = "values"


def formats(as_json: JsonOption = False) -> None:
    """List the chat formats and their special tokens."""
    folder = shipped_folder()  # PERF: without the grammars, which take 49 formats seven seconds to read
    rows = [_describe(name, read_definition(folder / f"{name}.toml", folder)) for name in ChatFormat.names()]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    told = [
        (row["name"], "\n".join((row["title"], row["specification"], _listed("tokens", row), _listed("stop", row))))
        for row in rows
    ]
    print_table(("format", "specification, special tokens, tokens that end a turn"), told)


def _listed(name: str, row: dict[str, Any]) -> str:
    return f"{name:6}  " + " ".join(row[name])


def _describe(name: str, format: Definition) -> dict[str, Any]:
    said = {"name": name, "title": format.title, "specification": format.specification}
    return {**said, "tokens": list(format.tokens.values()), "stop": list(format.stop)}


def show(
    format: FormatOption = None,
    schema: SchemaOption = None,
    regex: RegexOption = None,
    lark: LarkOption = None,
    choice: TextsOption = None,
    tools: ToolsOption = None,
    tool_choice: ChoiceOption = "auto",
    parallel: ParallelOption = None,
    profile: ProfileOption = Profile.PRACTICAL,
    whitespace: WhitespaceOption = None,
    property_order: OrderOption = None,
    unsupported: UnsupportedOption = Unsupported.RAISE,
    to: Annotated[
        ShowTarget | None,
        typer.Option(
            "--to",
            help=(
                "lark: a grammar file (default of a format); llguidance, xgrammar, gbnf: for these engines; "
                "xgrammar-tags: a structural tag; values: what is enforced (of a schema)."
            ),
        ),
    ] = None,
) -> None:
    """Print a grammar, tools included, as one file; of a schema, what is enforced once its references and conjunctions
    are worked out.
    """
    if to is ShowTarget.VALUES and schema is None:
        raise ConstrainedError("--to values without --schema", because="a chat format has no values of its own")
    asked = LanguageOptions.among(locals())
    grammar = asked.grammar()
    if to is not None and to.value in TARGETS:
        text = export(grammar, to.value)
        typer.echo(text, nl=False)
        for note in text.notes:
            typer.echo(f"note: {note}", err=True)
        return
    if schema is None or to is ShowTarget.LARK:
        typer.echo(grammar.to_lark())
        return
    ((value,),) = grammar.rules[grammar.start].alternatives
    assert isinstance(value, Embedded)
    assert isinstance(value.machine, EmbeddedSchema)
    typer.echo(value.machine.describe())
