"""Lark files → rules, and rules → Lark files: directives, imports, terminals with context, what the lexer prefers."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

MAX_LENGTH = 10_000_000  # characters of a text that is read, or written to be read


@lru_cache(maxsize=1)
def shipped_folder() -> Path:
    """Return the folder of the grammars that come with the package, which every file may import by name: inside the
    package when installed, beside it in a checkout.
    """
    package = Path(__file__).parents[2]
    return package / "grammars" if (package / "grammars").is_dir() else package.parent / "grammars"
