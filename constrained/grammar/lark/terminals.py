r"""Lark terminals as symbols of a grammar.

A terminal is a literal, a special token, alternatives of these, or a regular expression.  Which texts may a regular
expression match? Lark's dynamic lexer calls `match` at a place in the text, and on every shorter piece of what it
found; it finds exactly the texts that `match` prefers over their own beginnings.  For greedy, deterministic patterns
these are all texts of the language; ``/a+?/`` is only ever "a", and ``/list|listen/`` never "listen" (but ``"list" |
"listen"``, which Lark sorts, is both).  `match_preference` computes them.

Where the text behind a terminal matters, because an assertion looks at it or because a terminal is ignored, the symbol
is a `Demanding` one (`lookahead`), and the rules are rewritten at the end (`trailing_context`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lark.grammar import Terminal
from lark.lexer import PatternStr
from lark.load_grammar import PrepareLiterals, TerminalTreeToPattern

import constrained.work as work
from constrained.errors import GrammarError, LimitExceeded
from constrained.grammar.lark.errors import LARK_ERRORS, bad_literal, find, find_definition
from constrained.grammar.lark.lexing.lookahead import Demanding, ignored, terminal
from constrained.grammar.lark.sources import Given
from constrained.grammar.lark.text import LarkText
from constrained.grammar.symbols import Literal, Pattern, Ref, Symbol
from constrained.regex import NEVER, is_empty
from constrained.work import working_on

MAX_LENGTH = 1_000_000  # characters of a terminal's pattern, references resolved


class Terminals:
    """The terminals of one loaded file; `helper` adds a rule and returns the reference."""

    def __init__(self, loaded: Any, files: list[LarkText], given: Given, helper: Callable[..., Ref]) -> None:
        self._files, self._given, self._helper = files, given, helper
        self._trees = {str(name): tree for name, (tree, _) in loaded.term_defs}
        self._symbols: dict[object, Symbol | Demanding] = {}
        self.choices: set[Ref] = set()  # rules that stand for terminals of several fixed texts
        self.wordless: dict[str, str | None] = {}  # terminals that match no text -> where they are defined
        self.gap: tuple[Ref, ...] = ()
        if found := [(self._ignored(name),) for name in dict.fromkeys(loaded.ignore)]:
            self.gap = (helper(((),), repeated=tuple(found)),)

    def spaced(self, symbol: Symbol | Demanding) -> tuple[Symbol | Demanding, ...]:
        """Return a terminal with what may be ignored before it."""
        return (*self.gap, symbol)

    def symbol(self, value: Any) -> Symbol | Demanding:
        """Return the symbol of a terminal's name, or of a literal in a rule."""
        key = str(value.name) if isinstance(value, Terminal) else value.children[0]
        if key not in self._symbols:
            self._symbols[key] = self._named(key) if isinstance(key, str) else self._of_pattern(key, None)
        return self._symbols[key]

    def _named(self, name: str) -> Symbol | Demanding:
        tree = self._trees[name]
        if tree is None:
            return self._declared(name)
        pattern = self._pattern(tree, name)
        texts = _plain_texts(tree)
        if texts is not None and len(texts) > 1:
            choice = self._helper(tuple((self._literal(text, name),) for text in dict.fromkeys(texts)))
            self.choices.add(choice)
            return choice
        return self._of_pattern(pattern, name)

    def _declared(self, name: str) -> Symbol:
        """Return what the caller gave for a declared terminal; a text cannot name a token by itself."""
        found = self._given.meaning(name)
        if found is None:
            raise GrammarError(
                f"terminal {name} is declared, but nothing is given for it", where=find_definition(self._files, name),
                because="a Lark text may name only the special tokens that its reader gives it",
                instead=f'specials={{"{name}": "the special token"}}, or declare={{"{name}": "a text"}}',
            )
        return found

    def _ignored(self, name: str) -> Symbol | Demanding:
        if name not in self._trees:
            raise GrammarError(f"terminal {name} is ignored but not defined", where=find(self._files, name))
        if self._trees[name] is None:
            return self._declared(name)
        defined = None if name.startswith("__IGNORE_") else name  # a pattern that stands in the %ignore itself
        return self._of_pattern(self._pattern(self._trees[name], name), defined, longest=True)

    def _pattern(self, tree: Any, name: str) -> Any:
        """Return what the library makes of a terminal: a pattern that is a string or a regular expression."""
        if _length(tree, {}) > MAX_LENGTH:
            raise LimitExceeded(
                f"terminal {name} is longer than {MAX_LENGTH:,} characters", where=find_definition(self._files, name)
            )
        try:
            PrepareLiterals().transform(tree)  # in place, and nothing happens the second time
            return TerminalTreeToPattern().transform(tree)
        except LARK_ERRORS as error:
            raise bad_literal(
                f"cannot read terminal {name}", error, self._files, tree, find_definition(self._files, name)
            ) from error

    def _of_pattern(self, pattern: Any, name: str | None, *, longest: bool = False) -> Symbol | Demanding:
        if isinstance(pattern, PatternStr) and "i" not in pattern.flags:
            return self._literal(pattern.value, name, pattern.raw)
        source = pattern.to_regexp()
        place = find_definition(self._files, name) if name else find(self._files, pattern.raw or "")
        where = place or work.place()
        shown = f"terminal {name or _shortened(pattern.raw or source)}"
        try:
            with working_on(shown + (f" ({place})" if place else "")):
                found = ignored(source) if longest else terminal(source)
        except (GrammarError, LimitExceeded) as error:
            if error.what == "too much work":
                raise  # it names the rule and the terminal
            because = (
                error.because
                if not error.where or error.where.startswith("Lark grammar")
                else f"{error.because} ({error.where} of the pattern)"
            )
            raise type(error)(error.what, where=where, because=because, instead=error.instead) from error
        except re.error as error:
            raise GrammarError(f"cannot read {shown}", where=where, because=error.msg) from error
        if not isinstance(found, Demanding) and is_empty(found):
            self.wordless[name or pattern.raw or source] = place
            return Pattern(NEVER, source)
        if isinstance(found, Demanding):
            return (
                replace(found, name=f"terminal {name or pattern.raw}" + (f", {place}" if place else ""))
                if found.longest
                else found
            )
        return Pattern(found, source)

    def _literal(self, text: str, name: str | None, raw: str | None = None) -> Literal:
        if any("\ud800" <= char <= "\udfff" for char in text):
            where = find(self._files, raw or "") or (find_definition(self._files, name) if name else None)
            raise GrammarError(f"literal {text!r} is no text", where=where, because="a lone surrogate is no character")
        return Literal(text)


def _shortened(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:99]}…"


def _length(tree: Any, known: dict[int, int]) -> int:
    """Return the length of a terminal's pattern, roughly; shared parts are measured once and counted as often as they
    occur.
    """
    if id(tree) not in known:
        children = getattr(tree, "children", None)
        known[id(tree)] = len(str(tree)) if children is None else 4 + sum(_length(child, known) for child in children)
    return known[id(tree)]


def _plain_texts(tree: Any) -> list[str] | None:
    """Return the texts of a terminal that is alternatives of plain strings, else None."""
    if tree.data == "expansions":
        lists = [_plain_texts(child) for child in tree.children]
        return None if None in lists else [text for texts in lists if texts is not None for text in texts]
    if tree.data in ("expansion", "value") and len(tree.children) == 1 and hasattr(tree.children[0], "data"):
        return _plain_texts(tree.children[0])
    if tree.data == "pattern":
        pattern = tree.children[0]
        return [pattern.value] if isinstance(pattern, PatternStr) and "i" not in pattern.flags else None
    return None
