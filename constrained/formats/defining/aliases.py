"""Names of formats → the format: exact names, other spellings of them, and the table ``grammars/aliases.toml``.

A model goes by many names, and they differ mostly in the signs between letters and digits.  So names are compared
without these.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

MOST_NEAR = 5  # names that an error offers


def known(name: str, folder: Path, names: Collection[str]) -> str | None:
    """Return the format that a name stands for, None if there is none.

    >>> known("QWEN_2.5", Path("nowhere"), ["qwen2.5"])
    'qwen2.5'
    """
    return name if name in names else _table(folder, tuple(names)).get(_bare(name))


def nearest(name: str, folder: Path, names: Collection[str]) -> list[str]:
    """Return the names that are most like a name that nobody knows, at least one."""
    table = _table(folder, tuple(names))
    return (
        list(dict.fromkeys(table[near] for near in get_close_matches(_bare(name), table, MOST_NEAR, 0.3)))
        or sorted(names)[:MOST_NEAR]
    )


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


@lru_cache(maxsize=4)
def _table(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Return the formats by the letters and digits of all their names."""
    path = folder / "aliases.toml"
    listed = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    table = {_bare(alias): name for name, aliases in listed.items() if name in names for alias in aliases}
    return table | {_bare(name): name for name in names}
