"""The console of the commands: plain text without markup, since grammars are full of brackets."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

from rich.console import Console
from rich.table import Table

PLAIN_WIDTH = 100  # where no terminal says how wide it is


def console() -> Console:
    """Return a console for standard output that prints brackets, colons and numbers as they are."""
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return Console(width=width, markup=False, highlight=False, emoji=False)


def print_table(names: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print a table for people to standard output; into a pipe or a file, one line a row, cells apart by tabs."""
    if not sys.stdout.isatty():
        for row in rows:
            sys.stdout.write("\t".join(" ".join(cell.split()) for cell in row) + "\n")
        return
    rows = list(rows)
    table = Table(*names, title=title, show_lines=any("\n" in cell for row in rows for cell in row))
    for row in rows:
        table.add_row(*row)
    console().print(table)


@contextmanager
def results_only() -> Iterator[TextIO]:
    """Yield standard output, and lead what others print there to standard error: Ray tells of dead actors so."""
    out = sys.stdout
    with redirect_stdout(sys.stderr):
        yield out
