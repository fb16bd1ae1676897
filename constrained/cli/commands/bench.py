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
) -> None:
    """Measure speed next to llguidance and XGrammar.

    All in one process, on the same tokens; what is not installed is left out.
    """
    from constrained.benchmarks import speed

    speed.main(quick=quick, record=record, as_json=as_json)
