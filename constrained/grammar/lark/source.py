"""The text of a Lark file, scanned once before the `lark` library reads it.

The library reports most mistakes without a place, and some texts make it hang or overflow: an unclosed string with many
backslashes (its token patterns backtrack), deep nesting, and terminals that double from one to the next.  The scan
knows where every name and literal stands, and refuses those texts, in linear time.

Left out: the grammar of Lark; what parses is for the library to say.

Errors of the `lark` library in the words of this package, with the place that the library leaves out.

The library raises one exception type with free text; what it is about stands in the text.  The names found there are
looked up in the scanned files, which gives line and column.  No exception of the library leaves `from_lark`.

The sources that a Lark text may reach: files to import, special tokens, texts of declared terminals.

A text may come from a stranger, so it reaches nothing but what its reader hands it.  Imports of a text find only the
files that come with the `lark` library; those of a file also what lies below its own folder and the folders named for
it, symbolic links followed before that is asked.

Tested by `tests/test_lark_sources.py`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

from lark import Tree
from lark.exceptions import LarkError, UnexpectedInput, VisitError
from lark.load_grammar import PrepareLiterals

from constrained.errors import ConstrainedError, GrammarError, LimitExceeded, shown
from constrained.grammar.ir import Literal, Special
from constrained.grammar.lark import MAX_LENGTH
from constrained.work import spend

MAX_NESTING = 100  # brackets inside brackets
_COST = 64  # units of work per name, literal or bracket; the library takes 25 to 60 µs for each
MAX_PARTS = 20_000  # names and literals of a terminal, those of the terminals it uses included

# A string or regular expression ends at its first unescaped quote.  Loops are possessive, and what is no token matches
# as well, so that no call of the library is long: no other thread has a turn in it.
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|\#[^\n]*)
      | (?P<string>"(?:[^"\\\n]++|\\["\\]?+)*+"i?)
      | (?P<regexp>/(?:[^/\\]++|\\[/\\]?+)++/[imslux]*)
      | (?P<definition>^[ \t]*+[!?]*+_?[A-Za-z][A-Za-z_0-9]*+(?=(?:\{[^}\n]*\})?(?:\.[+-]?\d+)?[ \t]*:))
      | (?P<name>%?_?[A-Za-z][A-Za-z_0-9]*)
      | (?P<open>[(\[{]) | (?P<close>[)\]}])
      | (?P<unclosed>["/])
      | (?P<blank>[\r\n]{100,})
      | (?P<rest>[^A-Za-z_%"/\#()\[\]{}\r\n]+|[\s\S])
    """,
    re.VERBOSE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A name or literal and where it begins, from 1."""

    kind: str
    text: str
    line: int
    column: int


@dataclass(frozen=True)
class LarkText:
    """One Lark file; `name` is its path, or None for text that came from no file."""

    text: str
    name: str | None = None

    @cached_property
    def tokens(self) -> tuple[Lexeme, ...]:
        """The names, strings and regular expressions, in order.

        Raises: GrammarError: an unclosed literal; LimitExceeded: a text that the library could not read in reasonable
        time.
        """
        if len(self.text) > MAX_LENGTH:
            raise LimitExceeded(
                f"Lark grammar of {len(self.text):,} characters", because=f"the limit is {MAX_LENGTH:,}"
            )
        lexemes, depth, line, line_start, at = [], 0, 1, 0, 0
        spend(len(self.text) // 10)
        for match in _TOKEN.finditer(self.text):
            if match["rest"]:
                spend(1)
                continue
            self._charge(match)
            line += self.text.count("\n", at, match.start())
            line_start = (
                self.text.rfind("\n", 0, match.start()) + 1 if "\n" in self.text[at : match.start()] else line_start
            )
            at = match.start()
            column = at - line_start + 1
            if match["unclosed"]:
                kind = "string" if match["unclosed"] == '"' else "regular expression"
                raise GrammarError(
                    "cannot read Lark grammar", where=self.place(line, column), because=f"this {kind} is never closed"
                )
            depth += (match["open"] is not None) - (match["close"] is not None)
            if depth > MAX_NESTING:
                raise LimitExceeded(
                    "Lark grammar is nested too deeply",
                    where=self.place(line, column),
                    because=f"the limit is {MAX_NESTING} brackets",
                    instead="name the inner parts as rules",
                )
            if match.lastgroup in ("string", "regexp", "name", "definition"):
                text = match.group().lstrip("%!? \t")
                kind = "directive" if match.group().startswith("%") else match.lastgroup
                lexemes.append(Lexeme(kind, text, line, column + len(match.group()) - len(text)))
        return tuple(lexemes)

    def _charge(self, match: re.Match[str]) -> None:
        """Spend what the library takes for a token.  Raises: LimitExceeded: that is too much; it names the place."""
        length = match.end() - match.start()
        cost = _COST if length < 1000 or match["comment"] else _COST + 2 * length
        if match["blank"]:  # the library looks for a "|" behind them from every one of them
            cost += length * length // 600
        try:
            spend(cost)
        except LimitExceeded as error:
            column = match.start() - self.text.rfind("\n", 0, match.start())
            place = self.place(self.text.count("\n", 0, match.start()) + 1, column)
            where = f"{error.where or 'Lark grammar'} {place}"
            raise LimitExceeded(error.what, where=where, because=error.because, instead=error.instead) from None

    def check(self) -> None:
        """Refuse what the library cannot read in reasonable time.

        Raises: as `tokens`; LimitExceeded: terminals that grow exponentially, as each uses the next one twice.
        """
        bodies: dict[str, list[str]] = {}
        body: list[str] = []
        changes = False  # the next name is that of a definition
        for token in self.tokens:
            if token.kind == "directive":
                body, changes = [], token.text in ("extend", "override")
            elif token.kind == "definition" or changes:
                changes = False
                body = bodies.setdefault(token.text, [])
            else:
                body.append(token.text)
        parts: dict[str, int] = {}
        for name in filter(str.isupper, bodies):
            work = [name]
            while work:
                waiting = [part for part in bodies[work[-1]] if part.isupper() and part in bodies and part not in parts]
                if waiting and len(work) <= len(bodies):
                    work.append(waiting[0])
                    continue
                done = work.pop()
                parts[done] = sum(parts.get(part, 1) for part in bodies[done])
                spend(10 * parts[done])
                if parts[done] > MAX_PARTS:
                    raise LimitExceeded(
                        f"terminal {done} has {parts[done]:,} parts", where=self.find_definition(done),
                        because=f"the limit is {MAX_PARTS:,}, those of the terminals that it uses included",
                        instead="a rule, which is not copied where it is used",
                    )

    @cached_property
    def _first(self) -> dict[str, Lexeme]:
        return {token.text: token for token in reversed(self.tokens)}

    def place(self, line: int, column: int) -> str:
        """Return how messages name a place."""
        return f"{self.name} line {line} column {column}" if self.name else f"line {line} column {column}"

    def end(self) -> str:
        """Return the place behind the last character."""
        text = self.text.rstrip()
        return self.place(text.count("\n") + 1, len(text) - text.rfind("\n"))

    def find(self, text: str) -> str | None:
        """Return where a name or literal stands first, None if it does not occur."""
        token = self._first.get(text)
        return self.place(token.line, token.column) if token else None

    def find_definition(self, name: str, *, last: bool = False) -> str | None:
        """Return where a rule or terminal is defined first (or last), else where its name stands first."""
        places = [
            self.place(token.line, token.column)
            for token in self.tokens
            if token.kind == "definition" and token.text == name
        ]
        return places[-1 if last else 0] if places else self.find(name)


#: What the library and its converters raise for wrong files; everything else is a bug.
LARK_ERRORS = (
    LarkError,
    OSError,
    AssertionError,
    ValueError,
    SyntaxError,
    RecursionError,
    OverflowError,
    FutureWarning,
    DeprecationWarning,
    TypeError,
    re.error,
)

_WHAT = "cannot read Lark grammar"
_TOO_LARGE = "a number in a Lark grammar is too large"
_COUNTED = 20  # digits of a count that the library would divide for as long as Python lets it
# what other notations are known by: a pattern, what it is, how Lark says it
_FOREIGN = tuple(
    (re.compile(pattern), because, instead)
    for pattern, because, instead in (
        (r"^[\s\w<>-]*::=", "'::=' is GBNF (llama.cpp) or EBNF", "Grammar.from_gbnf(text), or from_ebnf(text)"),
        (r"^%llguidance\b", "'%llguidance' is a setting of llguidance", "Grammar.from_llguidance(text)"),
        (r"^[!?]?\w+ *\[[^\]]*\]", "attributes of rules are llguidance's",
         "from_llguidance(text), or the rule without its brackets"),
        (r"\{\d*,?\d*\}", "counts in braces are those of regular expressions", '"a"~2..3'),
        (r"@\w+", "'@' names a grammar in llguidance", 'Grammar.from_llguidance(text, define={"name": grammar})'),
        (r"<\|?[^<>|\s]+\|?>", "bare special tokens are llguidance's",
         'from_llguidance(text, specials=["<|name|>"])'),
        ("'", "texts stand between double quotes", '"…"'),
        (r"^\w+ *(?:=|->)", "a rule is a name, a colon and what it derives", 'name: "a" | "b"'),
        (";", "statements end with their line", "leave the semicolon out"),
    )
)
_PLACE = re.compile(r",? at line (\d+|\?),? col(?:umn)? (\d+|\?)")
_UNDEFINED = re.compile(r"(?:Rule|Terminal|Template) '(\w+)' used but not defined \(in (?:rule|terminal) (.+)\)")
_NAMED = re.compile(
    r"[`]([\w.]+)[`]|'(\w+)'|\b(?:terminal|rule|template|Terminal|Rule|for|with) (\w+)"
    r"|\bat (\w+)\)|\(in (\w+)\)|in (\w+)\)"
)


def reason(error: BaseException) -> str:
    """Return the first line of what an error says."""
    if isinstance(error, VisitError):
        return reason(error.orig_exc)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def translated(error: Exception, files: list[LarkText]) -> ConstrainedError:
    """Return an error of the library as ours; the last of the files is the one that was read when it happened."""
    if isinstance(error, ConstrainedError):
        return error
    if isinstance(error, TypeError):
        return translated(_unworded(error), files)
    if isinstance(error, RecursionError):
        because = "reading it needs more stack than Python has"
        if (place := _long_number(files, _COUNTED)) is not None:
            return LimitExceeded(_TOO_LARGE, where=place, because=because, instead="for a repeat, * or +")
        return LimitExceeded("Lark grammar is nested too deeply", because=because)
    if isinstance(error, OSError):
        stem = Path(str(error.filename or "")).stem
        return GrammarError(
            f"cannot import '{stem}'", where=find(files, stem), because=reason(error),
            instead="%import common.NAME for the library's own files, %import .file.name for files beside this one",
        )
    message = reason(error)
    if "set_int_max_str_digits" in message:
        return LimitExceeded(
            _TOO_LARGE, where=_long_number(files, sys.get_int_max_str_digits()),
            because="it has more digits than Python reads", instead="for a repeat, * or +",
        )
    if isinstance(error, UnexpectedInput):
        token = getattr(error, "token", None)
        message = (
            "unexpected end of line"
            if token in ("\n", "")
            else f"unexpected {str(token)!r}"
            if token
            else "unexpected character"
        )
        return GrammarError(_WHAT, where=_place(files[-1], error.line, error.column), because=message)
    if match := _PLACE.search(message):
        line, column = (int(group) if group.isdigit() else -1 for group in match.groups())
        because = (
            "unexpected character" if message.startswith("Unexpected input") else _lowered(message[: match.start()])
        )
        return GrammarError(_WHAT, where=_place(files[-1], line, column), because=because)
    if match := _UNDEFINED.match(message):
        return _undefined(match[1], match[2], files)
    message = _unmangled(message, files)
    names = [name for match in _NAMED.finditer(message) for name in match.groups() if name]
    lookup = find if " used" in message else partial(find_definition, last="more than once" in message)
    return GrammarError(
        _WHAT, where=next(filter(None, (lookup(files, name) for name in names)), None), because=_lowered(message)
    )


def recognised(error: ConstrainedError, file: LarkText) -> ConstrainedError:
    """Return an error of a file that is written for another engine with what that is and how Lark says it."""
    at = re.fullmatch(r"(?:.* )?line (\d+) column (\d+)", error.where or "")
    lines = file.text.splitlines()
    if error.what == _WHAT and at is not None and int(at[1]) <= len(lines):
        for pattern, because, instead in _FOREIGN:
            for match in pattern.finditer(lines[int(at[1]) - 1]):
                if match.start() < int(at[2]) <= match.end() + 1:
                    return GrammarError(_WHAT, where=error.where, because=because, instead=instead)
    return error


def _long_number(files: list[LarkText], digits: int) -> str | None:
    """Return where the first number of so many digits stands."""
    for file in files:
        if match := re.search(rf"\d{{{digits},}}", file.text):
            before = file.text[: match.start()]
            return file.place(before.count("\n") + 1, match.start() - before.rfind("\n"))
    return None


def _unworded(error: TypeError) -> Exception:
    """Return the error that the library failed to word: the first one of those it was handling."""
    first: Exception = GrammarError(_WHAT, because="its statements do not fit together")
    context: BaseException | None = error
    while context is not None:
        first = context if isinstance(context, UnexpectedInput) else first
        context = context.__context__
    return first


def _undefined(name: str, user: str, files: list[LarkText]) -> GrammarError:
    name, user = _unmangled(name, files), _unmangled(user, files)
    known = sorted({token.text for file in files for token in file.tokens if token.kind == "definition"} - {name})
    similar = get_close_matches(name, known, n=3)
    because, instead = f"'{user}' needs it", f"{' or '.join(similar)}?" if similar else "define it, or %import it"
    match = re.search(rf"%import +([\w.]+)\.{name}\b", "\n".join(file.text for file in files))
    if match is not None:
        because, instead = f"'{match[1]}' does not define it", "define it"
    return GrammarError(f"'{name}' is used but not defined", where=find(files, name), because=because, instead=instead)


def bad_literal(what: str, error: Exception, files: list[LarkText], tree: Any, place: str | None) -> ConstrainedError:
    """Return an error in the conversion of a tree's literals; its place is that of the literal, else `place`."""
    if isinstance(error, ConstrainedError):
        return error
    at, because = None, _lowered(_unmangled(reason(error), files))
    for literal in tree.iter_subtrees():
        if literal.data in ("literal", "range") and _is_bad(literal):
            shown = [str(child) for child in literal.children]
            at = find(files, shown[0])
            because = (
                "the ends of a range must be one character each"
                if len(shown) > 1
                else f"the literal {shown[0]} is empty or has a bad escape"
            )
    return GrammarError(what, where=at or place, because=because)


def _is_bad(literal: Any) -> bool:
    try:
        PrepareLiterals().transform(Tree("value", [Tree(literal.data, literal.children)]))
    except LARK_ERRORS:
        return True
    return False


def _unmangled(text: str, files: list[LarkText]) -> str:
    """Return a text without the prefixes that imports give to names."""
    stems = "|".join(re.escape(Path(file.name).stem) for file in files[1:] if file.name)
    return re.sub(rf"\b_?(?:{stems})__(?=\w)", "", text) if stems else text


def _lowered(message: str) -> str:
    message = re.sub(r"(?:Non)?Terminal\('(\w+)'\)|\{('\w+')\}", r"\1\2", message)
    return message[:1].lower() + message[1:].rstrip(".:! ")


def _place(file: LarkText, line: int, column: int) -> str:
    return file.place(line, column) if 0 < line <= file.text.count("\n") + 1 else file.end()


def find(files: Iterable[LarkText], text: str) -> str | None:
    """Return where a name or literal stands first; imported names carry the file's name as prefix."""
    places = (file.find(candidate) for candidate in (text, text.rpartition("__")[2]) for file in files if candidate)
    return next(filter(None, places), None)


def find_definition(files: Iterable[LarkText], name: str, *, last: bool = False) -> str | None:
    """Return where a name is defined first (or last), else where it stands."""
    places = (
        file.find_definition(candidate, last=last)
        for candidate in (name, name.rpartition("__")[2])
        for file in files
        if candidate
    )
    return next(filter(None, places), None)


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
            target = Path(folder, path).resolve()
            if target.is_file() and any(target.is_relative_to(root) for root in self.roots):
                file = _file(target, str(Path(folder, path)))
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
