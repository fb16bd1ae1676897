"""The text of a Lark file, scanned once before the `lark` library reads it.

The library reports most mistakes without a place, and some texts make it hang or overflow: an unclosed string with many
backslashes (its token patterns backtrack), deep nesting, and terminals that double from one to the next.  The scan
knows where every name and literal stands, and refuses those texts, in linear time.

Left out: the grammar of Lark; what parses is for the library to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from constrained.errors import GrammarError, LimitExceeded
from constrained.work import spend

MAX_NESTING = 100  # brackets inside brackets
MAX_LENGTH = 10_000_000  # characters
_COST = 64  # units of work per name, literal or bracket; the library takes 25 to 60 µs for each
MAX_PARTS = 20_000  # names and literals of a terminal, those of the terminals it uses included

# A string or regular expression ends at its first unescaped quote; every alternative of each loop begins with another
# character.
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|\#[^\n]*)
      | (?P<string>"(?:[^"\\\n]|\\["\\]|\\(?!["\\]))*"i?)
      | (?P<regexp>/(?:[^/\\]|\\[/\\]|\\(?![/\\]))+/[imslux]*)
      | (?P<definition>^[ \t]*[!?]*_?[A-Za-z][A-Za-z_0-9]*(?=(?:\{[^}\n]*\})?(?:\.[+-]?\d+)?[ \t]*:))
      | (?P<name>%?_?[A-Za-z][A-Za-z_0-9]*)
      | (?P<open>[(\[{]) | (?P<close>[)\]}])
      | (?P<unclosed>["/])
      | (?P<blank>[\r\n]{100,})
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
        found, depth, line, line_start, at = [], 0, 1, 0, 0
        spend(len(self.text) // 10)
        for match in _TOKEN.finditer(self.text):
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
                found.append(Lexeme(kind, text, line, column + len(match.group()) - len(text)))
        return tuple(found)

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
