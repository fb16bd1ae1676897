"""Errors of the `lark` library in the words of this package, with the place that the library leaves out.

The library raises one exception type with free text; what it is about stands in the text.  The names found there are
looked up in the scanned files, which gives line and column.  No exception of the library leaves `from_lark`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from lark import Tree
from lark.exceptions import LarkError, UnexpectedInput, VisitError
from lark.load_grammar import PrepareLiterals

from constrained.errors import ConstrainedError, GrammarError, LimitExceeded
from constrained.grammar.lark.text import LarkText

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
        (r"^[\s\w<>-]*::=", "'::=' is GBNF (llama.cpp) or EBNF", 'one colon; "start" for "root"'),
        (r"^%llguidance\b", "'%llguidance' is a setting of llguidance", "leave the line out"),
        (r"^[!?]?\w+ *\[[^\]]*\]", "attributes of rules are llguidance's", "the rule without its brackets"),
        (r"\{\d*,?\d*\}", "counts in braces are those of regular expressions", '"a"~2..3'),
        (r"@\w+", "'@' names a grammar in llguidance", 'define={"name": grammar}, and the name alone'),
        (r"<\|?[^<>|\s]+\|?>", "bare special tokens are llguidance's", '"<|name|>" in quotes, specials=["<|name|>"]'),
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
            for found in pattern.finditer(lines[int(at[1]) - 1]):
                if found.start() < int(at[2]) <= found.end() + 1:
                    return GrammarError(_WHAT, where=error.where, because=because, instead=instead)
    return error


def _long_number(files: list[LarkText], digits: int) -> str | None:
    """Return where the first number of so many digits stands."""
    for file in files:
        if found := re.search(rf"\d{{{digits},}}", file.text):
            before = file.text[: found.start()]
            return file.place(before.count("\n") + 1, found.start() - before.rfind("\n"))
    return None


def _unworded(error: TypeError) -> Exception:
    """Return the error that the library failed to word: the first one of those it was handling."""
    found: Exception = GrammarError(_WHAT, because="its statements do not fit together")
    context: BaseException | None = error
    while context is not None:
        found = context if isinstance(context, UnexpectedInput) else found
        context = context.__context__
    return found


def _undefined(name: str, user: str, files: list[LarkText]) -> GrammarError:
    name, user = _unmangled(name, files), _unmangled(user, files)
    known = sorted({token.text for file in files for token in file.tokens if token.kind == "definition"} - {name})
    similar = get_close_matches(name, known, n=3)
    because, instead = f"'{user}' needs it", f"{' or '.join(similar)}?" if similar else "define it, or %import it"
    found = re.search(rf"%import +([\w.]+)\.{name}\b", "\n".join(file.text for file in files))
    if found is not None:
        because, instead = f"'{found[1]}' does not define it", "define it"
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
    found = (file.find(candidate) for candidate in (text, text.rpartition("__")[2]) for file in files if candidate)
    return next(filter(None, found), None)


def find_definition(files: Iterable[LarkText], name: str, *, last: bool = False) -> str | None:
    """Return where a name is defined first (or last), else where it stands."""
    found = (
        file.find_definition(candidate, last=last)
        for candidate in (name, name.rpartition("__")[2])
        for file in files
        if candidate
    )
    return next(filter(None, found), None)
