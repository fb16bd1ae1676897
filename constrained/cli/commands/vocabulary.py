"""`vocabulary`: the table of a tokenizer as a file that processes map."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from constrained.cli.inputs import TokenizerOption, check_writable, read_vocabulary


def vocabulary(
    out: Annotated[str, typer.Argument(help="The file to write.")],
    tokenizer: TokenizerOption = None,
    size: Annotated[int | None, typer.Option("--size", min=1, help="Width of the model's logits.")] = None,
) -> None:
    """Save a tokenizer's vocabulary for `Vocabulary.load` and `--tokenizer`, which then take some 10 ms."""
    check_writable(out)
    found = read_vocabulary(tokenizer, size)
    found.save(out)
    typer.echo(f"{out}: {found!r}, {Path(out).stat().st_size / 1e6:.1f} MB, fingerprint {found.fingerprint:.12}")
