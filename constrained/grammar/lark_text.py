"""The text of a Lark file, scanned once before the `lark` library reads it.

The library reports most mistakes without a place, and three kinds of text make it hang or overflow: an unclosed string with many
backslashes (its token patterns backtrack), deep nesting and huge files.  The scan knows where every name and literal stands, and
refuses those texts, in linear time.

Left out: the grammar of Lark; what parses is for the library to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from ..errors import GrammarError, LimitExceeded

MAX_NESTING = 100  # brackets inside brackets
MAX_LENGTH = 10_000_000  # characters

# A string or regular expression ends at its first unescaped quote; every alternative of each loop begins with another character.
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|\#[^\n]*)
      | (?P<string>"(?:[^"\\\n]|\\["\\]|\\(?!["\\]))*"i?)
      | (?P<regexp>/(?:[^/\\]|\\[/\\]|\\(?![/\\]))+/[imslux]*)
      | (?P<name>[%!?]?_?[A-Za-z][A-Za-z_0-9]*)
      | (?P<open>[(\[{]) | (?P<close>[)\]}])
      | (?P<unclosed>["/])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
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
    def tokens(self) -> tuple[Token, ...]:
        """The names, strings and regular expressions, in order.

        Raises: GrammarError: an unclosed literal; LimitExceeded: a text that the library could not read in reasonable time.
        """
        if len(self.text) > MAX_LENGTH:
            raise LimitExceeded(f"Lark grammar of {len(self.text):,} characters", because=f"the limit is {MAX_LENGTH:,}")
        found, depth, line, line_start, at = [], 0, 1, 0, 0
        for match in _TOKEN.finditer(self.text):
            line += self.text.count("\n", at, match.start())
            line_start = self.text.rfind("\n", 0, match.start()) + 1 if "\n" in self.text[at : match.start()] else line_start
            at = match.start()
            column = at - line_start + 1
            if match["unclosed"]:
                kind = "string" if match["unclosed"] == '"' else "regular expression"
                raise GrammarError("cannot read Lark grammar", where=self.place(line, column), because=f"this {kind} is never closed")
            depth += (match["open"] is not None) - (match["close"] is not None)
            if depth > MAX_NESTING:
                raise LimitExceeded(
                    "Lark grammar is nested too deeply", where=self.place(line, column), because=f"the limit is {MAX_NESTING} brackets",
                    instead="name the inner parts as rules",
                )
            if match.lastgroup in ("string", "regexp", "name"):
                found.append(Token(match.lastgroup, match.group().lstrip("%!?"), line, column))
        return tuple(found)

    @cached_property
    def _first(self) -> dict[str, Token]:
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

    def find_definition(self, name: str) -> str | None:
        """Return where a rule or terminal is defined, else where its name stands first."""
        match = re.search(rf"(?m)^[ \t]*(?:%(?:override|extend)[ \t]+)?[?!]*({re.escape(name)})\b[^\n:]*:", self.text)
        if match is None:
            return self.find(name)
        return self.place(self.text.count("\n", 0, match.start(1)) + 1, match.start(1) - self.text.rfind("\n", 0, match.start(1)))
