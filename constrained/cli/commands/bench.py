"""`bench`: speed against the installed peers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from constrained.cli.inputs import JsonOption


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="One repetition of the schemas only.")] = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", help="Folder for the dated record; default: benchmarks/record in a checkout."),
    ] = None,
    as_json: JsonOption = False,
    schemas: Annotated[
        Path | None,
        typer.Option("--schemas", help="Of a file of schemas with tests (.jsonl, .jsonl.gz), as MaskBench has them."),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Of --schemas: so many, at random.")] = None,
) -> None:
    """Measure speed next to llguidance, XGrammar and glrmask.

    All in one process, on the same tokens; what is not installed is left out.
    """
    if schemas is not None:
        from constrained.benchmarks import collection

        collection.main(schemas, count, record=record, repetitions=1 if quick else 3)
        return
    from constrained.benchmarks import speed

    speed.main(quick=quick, record=record, as_json=as_json)
