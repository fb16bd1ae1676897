"""`spec`: the examples of the formats' specifications, and what the grammars say of them."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from constrained.cli.inputs import JsonOption
from constrained.formats.specifications import REFUSED, Verdict, examples, found_of

_SHOWN = 6  # lines of an example


def spec(
    format: Annotated[
        str | None, typer.Argument(help="A format; default: all that have a specification with examples.")
    ] = None,
    as_json: JsonOption = False,
    whole: Annotated[bool, typer.Option("--whole", help="Print examples in full.")] = False,
) -> None:
    """Print the examples of a format's specification, where they stand, and which form of the grammar takes them."""
    counts: dict[str, int] = {}
    for example in examples(format):
        found = found_of(example)
        counts[found.form] = counts.get(found.form, 0) + 1
        typer.echo(json.dumps(_plain(found), ensure_ascii=False) if as_json else _shown(found, whole=whole))
    if not as_json:
        typer.echo(", ".join(f"{count} {form}" for form, count in counts.items()))


def _plain(found: Verdict) -> dict[str, object]:
    example = found.example
    said = {
        "format": example.format,
        "document": example.document,
        "lines": example.lines,
        "repaired": example.repaired,
        "kind": example.kind,
    }
    return {**said, "text": example.text, "form": found.form, "because": example.because, "error": found.error}


def _shown(found: Verdict, *, whole: bool) -> str:
    example = found.example
    repaired = ", repaired" if example.repaired else ""
    lines = example.text.split("\n")
    shown = (
        lines if whole or len(lines) <= _SHOWN else [*lines[: _SHOWN - 1], f"… {len(lines) - _SHOWN + 1} more lines"]
    )
    kind = example.kind.replace("_", " ")
    head = f"{example.format}: {example.document}, lines {example.lines}{repaired} ({kind}): {found.form}"
    reason = [f"  because: {example.because}"] if example.because else []
    place = (found.error or "").split("\n", 1)[0]
    stop = [f"  {'reading' if found.form == REFUSED else 'the canonical grammar'} stops: {place}"] if place else []
    return "\n".join([head, *reason, *stop, *(f"    {line}" for line in shown), ""])
