"""The sources that a Lark text may reach: files to import, special tokens, texts of declared terminals.

A text may come from a stranger, so it reaches nothing but what its reader hands it.  Imports of a text find only the
files that come with the `lark` library; those of a file also what lies below its own folder and the folders named for
it, symbolic links followed before that is asked.

Tested by `tests/test_lark_sources.py`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from constrained.errors import GrammarError, LimitExceeded, shown
from constrained.grammar.lark.errors import find, reason
from constrained.grammar.lark.text import LarkText
from constrained.grammar.symbols import Literal, Special

MAX_FILES = 100  # that one grammar imports, each time it does
_LIBRARY = frozenset({"common.lark", "lark.lark", "python.lark", "unicode.lark"})

Specials: TypeAlias = Collection[str] | Mapping[str, str]  # names of tokens; or terminal -> token


class Given:
    """What the reader of a grammar gives its terminals.

    Raises: GrammarError: something else than names and texts.
    """

    def __init__(self, specials: Specials, declare: Mapping[str, str] | None) -> None:
        if isinstance(specials, str) or not isinstance(specials, (Mapping, Collection)):
            raise GrammarError(
                f"specials are not a list of names: {shown(specials, 80)}",
                instead='specials=["<|eot|>"], or {"_EOT": "<|eot|>"}',
            )
        if declare is not None and not isinstance(declare, Mapping):
            raise GrammarError(f"declare is {shown(declare)}", instead='a mapping: {"TERMINAL": "its text"}')
        tokens = list(specials.values() if isinstance(specials, Mapping) else specials)
        texts = dict(declare or {})
        for name in (*tokens, *specials, *texts, *texts.values()):
            if not isinstance(name, str) or not name and name in tokens:
                raise GrammarError(f"not a name or text: {shown(name, 80)}", instead="texts in specials= and declare=")
        self.tokens = frozenset(tokens)
        self._specials = dict(specials) if isinstance(specials, Mapping) else {name: name for name in tokens}
        self._texts = texts

    def meaning(self, terminal: str) -> Special | Literal | None:
        """Return what a declared terminal stands for, None if nothing was given for it."""
        if terminal in self._texts:
            return Literal(self._texts[terminal])
        return Special(self._specials[terminal]) if terminal in self._specials else None


@dataclass(slots=True)
class Sources:
    """The files of one grammar, the main one first.  `roots`: the folders from which it may import; none for a text."""

    main: LarkText
    roots: tuple[Path, ...] = ()
    files: list[LarkText] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files = [self.main]

    @classmethod
    def at(cls, path: str | os.PathLike[str], import_paths: Collection[str | os.PathLike[str]]) -> Sources:
        """Return the sources of the grammar in a file."""
        if not isinstance(path, (str, os.PathLike)) or isinstance(import_paths, (str, os.PathLike)):
            raise GrammarError(
                "not a path, or not a list of paths", instead='Grammar.from_lark_file("g.lark", import_paths=["parts"])'
            )
        try:
            main = Path(path).resolve()
            roots = (main.parent, *(Path(folder).resolve() for folder in import_paths))
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise GrammarError("cannot read Lark grammar", where=str(path)[:200], because=reason(error)) from error
        return cls(_file(Path(path)), roots)

    def load(self, base: Any, path: str) -> tuple[str, str]:
        """Return name and text of an imported file, as the library's loader of imports calls for them.

        `base` is a folder for imports relative to a file, None for others; what raises OSError is looked for in the
        library's own files.
        """
        if base is None and path in _LIBRARY:
            raise FileNotFoundError(path)
        if not isinstance(base, (str, type(None))):
            raise FileNotFoundError(path)  # one of the library's files imports another one
        if len(self.files) > MAX_FILES:
            raise LimitExceeded(
                f"Lark grammar imports more than {MAX_FILES} files", where=find(self.files, Path(path).stem)
            )
        folders: tuple[str | Path, ...] = (base, *self.roots) if self.roots and isinstance(base, str) else self.roots
        for folder in folders:
            found = Path(folder, path).resolve()
            if found.is_file() and any(found.is_relative_to(root) for root in self.roots):
                file = _file(found, str(Path(folder, path)))
                self.files.append(file)
                file.check()
                return str(Path(folder, path)), file.text
        raise self._missing(path)

    def _missing(self, path: str) -> GrammarError:
        stem = Path(path).stem
        if self.roots:
            because = "no such file in its folder or the import_paths"
            instead = "%import common.NAME for the library's own files, %import .file.name for files beside this one"
        else:
            because, instead = (
                "a text opens no files",
                "Grammar.from_lark_file(path), or %import common.NAME for the library's own files",
            )
        return GrammarError(f"cannot import {stem!r}", where=find(self.files, stem), because=because, instead=instead)


def _file(path: Path, name: str | None = None) -> LarkText:
    try:
        return LarkText(path.read_text(encoding="utf-8"), name or str(path))
    except (OSError, ValueError) as error:
        raise GrammarError("cannot read Lark grammar", where=str(path)[:200], because=reason(error)) from error
