"""The command line: `constrained COMMAND`; every command is a few lines over the Python names.

Exit codes: 0 fine · 1 the text was rejected · 2 wrong use, wrong input, or something that is not installed.
Results go to standard output (``--json`` where a program may want them), everything else to standard error.

typer and rich are the extra ``cli``; without it the command says what to install and nothing else here is imported.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

from constrained.errors import ConstrainedError, Rejected, compose

OK, REJECTED, WRONG_USE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit; `arguments` default to those of the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # in any locale: JSON and Lark files are UTF-8
    warnings.formatwarning = _warned
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; errors of the package are printed without a traceback."""
    try:
        from .app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich", "click"}:
            raise
        because, instead = f"{error.name} is not installed", "pip install 'constrained-generation[cli]'"
        return _complain(compose("cannot start the command line", because=because, instead=instead))
    try:
        app(arguments, prog_name="constrained")
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # click's answer to a closed pipe is code 1
            return OK
        return stop.code if isinstance(stop.code, int) else WRONG_USE
    except ConstrainedError as error:
        return _complain(str(error), REJECTED if isinstance(error, Rejected) else WRONG_USE)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has seen enough
        return OK
    return OK


def _warned(message: Warning | str, *_: Any, **__: Any) -> str:
    """Return what a warning says, without the line of ours that gave it."""
    return f"warning: {message}\n"


def _complain(message: str, code: int = WRONG_USE) -> int:
    sys.stderr.write(message + "\n")
    return code
