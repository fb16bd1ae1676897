"""Lowered grammars: what reading the shipped Lark texts gives, kept beside them, so that a format loads quickly.

To parse a grammar and to resolve its look-ahead takes 0.2 to 0.4 s; to unpickle its rules 3 ms.  The file is written by
``python tools/lowered_grammars.py`` and counts for the texts that it was made of: after a change to any .lark file it
is passed over, and the texts are read.  It is a pickle, and as trusted as the package that it is a part of.

Tests: test_formats.py (the file holds what the texts say; where a text was changed, the text counts).
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from constrained.formats.defining.definition import Definition
from constrained.grammar import Grammar

FILE = "lowered.bin"
Key = tuple[object, ...]


def lowered(definition: Definition) -> Grammar | None:
    """Return the grammar of a shipped definition, as `pairs.grammar_of_text` does; None where the text must be read."""
    entry = _held(definition.grammar.parent).get(key_of(definition))
    return None if entry is None else unpacked(entry)


def key_of(definition: Definition) -> Key:
    """Return what tells the grammar of a definition from the others in the file."""
    variant = definition.variant
    return definition.grammar.name, tuple(sorted(definition.tokens)), variant.drop, variant.replace


def packed(grammar: Grammar) -> bytes:
    """Return a grammar as it stands in the file."""
    return zlib.compress(pickle.dumps(grammar, protocol=5), 9)


def unpacked(entry: bytes) -> Grammar:
    """Return a grammar that stands in the file."""
    grammar: Grammar = pickle.loads(zlib.decompress(entry))
    return grammar


def digest(folder: Path) -> str:
    """Return a digest of all Lark texts of a folder, as they import each other."""
    found = sha256()
    for path in sorted(folder.glob("*.lark")):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


@lru_cache(maxsize=1)
def _held(folder: Path) -> Mapping[Key, bytes]:
    try:
        texts, entries = pickle.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        return {}
    return entries if texts == digest(folder) else {}
