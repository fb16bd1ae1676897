"""`derive`: a chat template → a format, as a pair of files, with the report of its proof."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from constrained.cli.inputs import read_tokenizer
from constrained.errors import ConstrainedError


def derive(
    template: Annotated[
        str,
        typer.Argument(metavar="TOKENIZER|TEMPLATE", help="A tokenizer's folder or hub id, or a .jinja file."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the two files go.")],
    special: Annotated[
        list[str] | None,
        typer.Option("--special", metavar="TOKEN", help="A special token, or NAME=TOKEN: eos_token=<|im_end|>."),
    ] = None,
    stop: Annotated[list[str] | None, typer.Option("--stop", metavar="TOKEN", help="A token that ends a turn.")] = None,
    conversations: Annotated[int, typer.Option(min=20, help="How many random conversations prove it.")] = 500,
) -> None:
    """Derive a chat format from a chat template, and prove it; exit 1 where the template cannot be explained."""
    from constrained.formats.load import ChatFormat
    from constrained.formats.templates.derive import derive as derived

    found = derived(_given(template), ChatFormat.load, _named(special or []), stop, conversations)
    path = found.format.save(output)
    proof = found.proof
    typer.echo(f"{path} and {path.with_suffix('.lark').name}")
    typer.echo(
        f"{proof.alike} of {conversations} random conversations come out as the template prints them, "
        f"{proof.turns} of their turns are generated"
    )
    if proof.marked:
        typer.echo(f"{proof.marked} hold a marker of the format in a text, which is refused or escaped")
    for what, why in found.format.doubts:
        typer.echo(f"{what}: {why}")


def _given(template: str) -> Any:
    return (
        template
        if template.endswith((".jinja", ".jinja2", ".j2")) or Path(template).exists()
        else read_tokenizer(template)
    )


def _named(special: list[str]) -> dict[str, str] | list[str]:
    """Return tokens as `from_template` takes them."""
    pairs = [text.partition("_token=") for text in special]
    if not any(sign for _, sign, _ in pairs):
        return special
    if not all(sign for _, sign, _ in pairs):
        raise ConstrainedError("--special has tokens with names and without", instead="either of both")
    return {f"{name}_token": text for name, _, text in pairs}
