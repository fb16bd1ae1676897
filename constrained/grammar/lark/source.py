"""The sources that a Lark text may reach, and what they define together: files to import, special tokens, texts of
declared terminals.

A text may come from a stranger, so it reaches nothing but what its reader hands it.  Imports of a text find only the
files that come with the `lark` library; those of a file also what lies below its own folder and the folders named for
it, symbolic links followed before that is asked.

A file that is imported keeps its names to itself: `NAME` of `part` is `part__NAME` for whoever imports something else
of it.  So a definition is kept with its `Scope`, which says what the names in it mean.

Tested by `tests/test_lark_sources.py`; imports, too, against the library.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from constrained.errors import GrammarError, LimitExceeded, said_by, shown
from constrained.grammar.ir import Literal, Special
from constrained.grammar.lark.syntax import LarkText, Lexeme, Node, Statement

MAX_FILES = 100  # that one grammar imports, each time it does
_LIBRARY = frozenset({"common.lark", "lark.lark", "python.lark", "unicode.lark"})
_SHELF = Path("<lark>")  # where messages say that these are

Specials: TypeAlias = Collection[str] | Mapping[str, str]  # names of tokens; or terminal -> token


class Given:
    """What the reader of a grammar gives its terminals: special `tokens`, and `meanings` of declared terminals.

    Raises: GrammarError: something else than names and texts.
    """

    def __init__(self, specials: Specials, declare: Mapping[str, str] | None) -> None:
        if isinstance(specials, str) or not isinstance(specials, (Mapping, Collection)):
            what, instead = "specials are not a list of names", 'specials=["<|eot|>"], or {"_EOT": "<|eot|>"}'
            raise GrammarError(f"{what}: {shown(specials, 80)}", instead=instead)
        if declare is not None and not isinstance(declare, Mapping):
            raise GrammarError(f"declare is {shown(declare)}", instead='a mapping: {"TERMINAL": "its text"}')
        tokens = list(specials.values() if isinstance(specials, Mapping) else specials)
        texts = dict(declare or {})
        for name in (*tokens, *specials, *texts, *texts.values()):
            if not isinstance(name, str) or not name and name in tokens:
                raise GrammarError(f"not a name or text: {shown(name, 80)}", instead="texts in specials= and declare=")
        self.tokens = frozenset(tokens)
        named = specials.items() if isinstance(specials, Mapping) else zip(tokens, tokens, strict=True)
        self.meanings: dict[str, Special | Literal] = {name: Special(token) for name, token in named}
        self.meanings |= {name: Literal(text) for name, text in texts.items()}


@dataclass(frozen=True, slots=True)
class Scope:
    """What names mean in a file: `prefix` and `aliases` of the statement that imports it, in the scope `outer`.

    table: all that the file defines and imports.
    """

    table: dict[str, Defined]
    prefix: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict)
    outer: Scope | None = None

    def name(self, name: str) -> str:
        """Return the name by which the whole grammar knows a name of the file."""
        if self.outer is None:
            return name
        if name not in self.aliases:
            hidden = name.startswith("_")
            return self.outer.name(f"{'_' * hidden}{self.prefix}__{name[hidden:]}")
        return self.outer.name(self.aliases[name])


@dataclass(slots=True)
class Defined:
    """A rule or terminal; `bodies`: the definition behind what extends it, each with its scope; none: only declared."""

    lexeme: Lexeme
    params: tuple[str, ...] = ()
    bodies: list[tuple[Node, Scope]] = field(default_factory=list)

    @property
    def is_terminal(self) -> bool:
        return self.lexeme.kind == "terminal"

    def quoted(self) -> Node | None:
        """Return the ``%regex`` that is all of a terminal."""
        body = self.bodies[0][0].only() if len(self.bodies) == 1 and self.is_terminal else None
        return body if body is not None and body.kind == "regex" else None


def load(sources: Sources, declared: Collection[str] = ()) -> tuple[Scope, list[Node]]:
    """Return what the main file of some sources defines, and ignores; `declared`: rules that its reader gives it.

    Raises: GrammarError: names are not defined, or twice; files are missing.
    """
    scope, ignored = Scope({}), list[Node]()
    _read(sources, sources.main, scope, ignored)
    for given in declared:
        _define(Statement("define", (Lexeme("rule", given, 0, sources.main),)), scope)
    for node in ignored:
        if node.kind == "terminal" and node.parts[0].text not in scope.table:
            raise node.parts[0].wrong(f"terminals '{node.parts[0].text}' were marked to ignore but were not defined")
    return scope, ignored


def _read(sources: Sources, file: LarkText, scope: Scope, ignored: list[Node]) -> None:
    """Enter what a file defines, after what it imports, into the table of its scope."""
    imports: dict[tuple[str, ...], tuple[Statement, dict[str, str]]] = {}
    for statement in file.statements:
        if statement.how == "import":
            path, names = tuple(part.text for part in statement.path), [name.text for name in statement.names]
            imports.setdefault(path, (statement, {}))[1].update(zip(names[::2], names[1::2], strict=True))
    for path, (statement, aliases) in imports.items():
        inner = Scope({}, "__".join(path), aliases, scope)
        _read(sources, sources.imported(file, statement), inner, [])
        for name in _used(inner):
            if name in scope.table:
                raise statement.path[0].wrong(f"'{name}' is imported from '{'.'.join(path)}', and defined already")
            scope.table[name] = inner.table[name]
    for statement in file.statements:
        if statement.how == "ignore" and scope.outer is None and statement.body is not None:
            ignored.append(statement.body.only())
        for lexeme in statement.names if statement.how == "declare" else ():
            _define(Statement("define", (lexeme,)), scope)
        if statement.how in ("define", "override", "extend"):
            _define(statement, scope)


def _define(statement: Statement, scope: Scope) -> None:
    """Enter a definition.  Raises: GrammarError: there is one already, or none to change."""
    (lexeme, *params), table = statement.names, scope.table
    name = scope.name(lexeme.text)
    known, defined = table.get(name), Defined(lexeme, tuple(param.text for param in params))
    if statement.body is not None:
        defined.bodies.append((statement.body, scope))
    if statement.how == "define" and known is not None:
        raise lexeme.wrong(f"{lexeme.kind} '{lexeme.text}' defined more than once")
    what = f"{lexeme.kind} {lexeme.text}"
    if statement.how == "override" and known is None:
        raise lexeme.wrong(f"cannot override a nonexisting {what}")
    if statement.how == "extend":
        if known is None:
            raise lexeme.wrong(f"can't extend {what} as it wasn't defined before")
        if not known.bodies or known.params != defined.params or known.is_terminal != defined.is_terminal:
            raise lexeme.wrong(f"can't extend {what}: it is only declared, of another kind, or has other parameters")
        known.bodies[:0] = defined.bodies
    else:
        table[name] = defined


def _used(scope: Scope) -> list[str]:
    """Return the names of a table that are imported, or that rules use which are, in the table's order."""
    work, used = [scope.name(name) for name in scope.aliases], set[str]()
    while work:
        name = work.pop()
        if name in used or (defined := scope.table.get(name)) is None:
            continue
        used.add(name)
        if not defined.is_terminal:
            work += [inner.name(node.parts[0].text) for body, inner in defined.bodies for node in body.names()]
    return [name for name in scope.table if name in used]


def undefined(lexeme: Lexeme, user: str, scope: Scope) -> GrammarError:
    """Return the error that a name of a scope is used and not defined."""
    known = sorted({defined.lexeme.text for defined in scope.table.values()})
    similar = get_close_matches(lexeme.text, known, n=3)
    because = f"'{user}' needs it"
    instead = f"{' or '.join(similar)}?" if similar else "define it, or %import it"
    for statement in lexeme.file.statements:
        if statement.how == "import" and lexeme.text in [name.text for name in statement.names[1::2]]:
            because = f"'{'.'.join(part.text for part in statement.path)}' does not define it"
            instead = "define it"
    what = f"'{lexeme.text}' is used but not defined"
    return GrammarError(what, where=lexeme.place, because=because, instead=instead)


@dataclass(slots=True)
class Sources:
    """The main file of a grammar, and how many files it has.  `roots`: the folders from which it may import; none for a
    text.
    """

    main: LarkText
    roots: tuple[Path, ...] = ()
    count: int = 1

    @classmethod
    def at(cls, path: str | os.PathLike[str], import_paths: Collection[str | os.PathLike[str]]) -> Sources:
        """Return the sources of the grammar in a file."""
        if not isinstance(path, (str, os.PathLike)) or isinstance(import_paths, (str, os.PathLike)):
            instead = 'Grammar.from_lark_file("g.lark", import_paths=["parts"])'
            raise GrammarError("not a path, or not a list of paths", instead=instead)
        try:
            main = Path(path).resolve()
            roots = (main.parent, *(Path(folder).resolve() for folder in import_paths))
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise GrammarError("cannot read Lark grammar", where=str(path)[:200], because=said_by(error)) from error
        return cls(_file(Path(path)), roots)

    def imported(self, file: LarkText, statement: Statement) -> LarkText:
        """Return the file that a statement of a file imports from."""
        *folders, stem = (part.text for part in statement.path)
        path, place = Path(*folders, f"{stem}.lark"), statement.path[0].place
        name = Path(file.name or "")
        if path.name in _LIBRARY and (not statement.relative and not folders or name.parent == _SHELF):
            return _library_file(path.name)
        self.count += 1
        if self.count > MAX_FILES:
            raise LimitExceeded(f"Lark grammar imports more than {MAX_FILES} files", where=place)
        for folder in (*((name.parent,) if statement.relative and self.roots else ()), *self.roots):
            target = Path(folder, path).resolve()
            if target.is_file() and any(target.is_relative_to(root) for root in self.roots):
                return _file(target, str(Path(folder, path)))
        because, instead = "a text opens no files", "%import common.NAME for the library's own files"
        instead = f"Grammar.from_lark_file(path), or {instead}"
        if self.roots:
            because = "no such file in its folder or the import_paths"
            instead = "%import common.NAME for the library's own files, %import .file.name for files beside this one"
        raise GrammarError(f"cannot import {stem!r}", where=place, because=because, instead=instead)


@lru_cache(maxsize=1)
def _library() -> Path:
    """Return the folder of the grammars of the `lark` library, which is not imported for them."""
    return Path(str(getattr(find_spec("lark"), "origin", None))).with_name("grammars")


@lru_cache(maxsize=len(_LIBRARY))
def _library_file(name: str) -> LarkText:
    return _file(_library() / name, str(_SHELF / name))


def _file(path: Path, name: str | None = None) -> LarkText:
    try:
        return LarkText(path.read_text(encoding="utf-8"), name or str(path))
    except (OSError, ValueError) as error:
        raise GrammarError("cannot read Lark grammar", where=str(path)[:200], because=said_by(error)) from error
