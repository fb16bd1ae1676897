"""The console of the commands: plain text without markup, since grammars are full of brackets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

from rich.console import Console

PLAIN_WIDTH = 100  # where no terminal says how wide it is


def console() -> Console:
    """Return a console for standard output that prints brackets, colons and numbers as they are."""
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return Console(width=width, markup=False, highlight=False, emoji=False)


@contextmanager
def results_only() -> Iterator[TextIO]:
    """Yield standard output, and lead what others print there to standard error: Ray tells of dead actors so."""
    out = sys.stdout
    with redirect_stdout(sys.stderr):
        yield out
