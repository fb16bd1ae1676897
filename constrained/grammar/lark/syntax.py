"""The text of a Lark file → its statements, each name and literal with its place.

Read here and not by the `lark` library: that takes 0.14 s to import and 1-5 ms for a small grammar, reports most
mistakes without a place, and some texts make it hang (an unclosed string with many backslashes).  What the statements
mean together, imports among them, is for `source`.

Left out: what shapes trees, which the language does not depend on: priorities, `?`, `!`, and what aliases are called.

Tested against the library: tests/test_lark_syntax.py and all that puts texts to both (`LarkOracle`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from constrained.errors import GrammarError, LimitExceeded
from constrained.grammar.lark import MAX_LENGTH
from constrained.work import spend

MAX_NESTING = 100  # brackets inside brackets
WHAT = "cannot read Lark grammar"
Read = TypeVar("Read")
_COST = 16  # units of work per token

# A string or regular expression ends at its first unescaped quote.  Loops are possessive, and what is no token matches
# as well, so that no call of the library is long: no other thread has a turn in it.
TOKEN = re.compile(
    r"""(?: (?P<comment>\s*+(?://|\#)[^\n]*)
      | (?P<line>\r?\n\s*+)
      | (?P<string>"(?:[^"\\\n]++|\\["\\]?+)*+"i?)
      | (?P<regexp>/(?:[^/\\]++|\\[/\\]?+)++/[imslux]*)
      | (?P<terminal>_?[A-Z][A-Z_0-9]*+) | (?P<rule>_?[a-z][a-z_0-9]*+)
      | (?P<directive>%(?:ignore|import|declare|override|extend))
      | (?P<json>%json) | (?P<regex>%regex)
      | (?P<number>[+-]?\d+)
      | (?P<open>[(\[{]) | (?P<close>[)\]}])
      | (?P<sign>[|:~,*]|\.\.?|->|\+|\?(?![a-z_]))
      | (?P<modifiers>(?:!\??|\?!?)(?=[a-z_]))
      | (?P<blank>[ \t]++|\\[ ]*\n)
      | (?P<other>[\s\S])
    )[ \t]*+""",
    re.VERBOSE,
)
_BLANKS: Any = re.compile(r"\s*+")
_VALUES = ("rule", "terminal", "string", "regexp", "json", "regex")
_UNCLOSED = {'"': "this string is never closed", "/": "this regular expression is never closed"}
_PAIRS = {"(": ")", "[": "]", "{": "}"}


class Lexeme(NamedTuple):
    """A token, and where it begins."""

    kind: str
    text: str
    start: int
    file: LarkText

    @property
    def place(self) -> str:
        return self.file.place_at(self.start)

    def wrong(self, because: str) -> GrammarError:
        """Return an error of this place."""
        return GrammarError(WHAT, where=self.place, because=because)


class Node(NamedTuple):
    """A part of a definition: its kind, and what it consists of.

    alternatives: sequences.  sequence: nodes.  repeat: a node, an operator and, for "~", its lexemes of numbers.
    rule, terminal, string, regexp: a lexeme; json, regex: one that holds the word before it, too.  range: two lexemes.
    use: the lexeme of a template, and its arguments.
    """

    kind: str
    parts: tuple[Any, ...]

    def only(self) -> Node:
        """Return the part that is all of this one."""
        node = self
        while node.kind in ("alternatives", "sequence") and len(node.parts) == 1:
            node = node.parts[0]
        return node

    def names(self) -> Iterator[Node]:
        """Yield the names inside, and uses of templates before what is inside of them."""
        work: list[Any] = [self]
        while work:
            at = work.pop()
            if isinstance(at, Node):
                if at.kind in ("rule", "terminal", "use"):
                    yield at
                work += reversed(at.parts)


class Statement(NamedTuple):
    """A definition (`how`: define, override, extend) or a directive (declare, ignore, import).

    names: what is defined and its parameters; what is declared; what is imported, and as what, by pairs, behind the
    parts of the path.
    """

    how: str
    names: tuple[Lexeme, ...] = ()
    body: Node | None = None
    path: tuple[Lexeme, ...] = ()
    relative: bool = False


@dataclass(frozen=True)
class LarkText:
    """One Lark file; `name` is its path, or None for text that came from no file."""

    text: str
    name: str | None = None

    @cached_property
    def tokens(self) -> tuple[Lexeme, ...]:
        """The tokens in order, without comments; lines end with one that is a `line`.

        Raises: GrammarError: an unclosed literal; LimitExceeded: a text of too much work.
        """
        if len(self.text) > MAX_LENGTH:
            because = f"the limit is {MAX_LENGTH:,}"
            raise LimitExceeded(f"Lark grammar of {len(self.text):,} characters", because=because)
        lexemes, depth = list[Lexeme](), 0
        spend(len(self.text) // 10)
        at = 0
        while (match := TOKEN.match(self.text, at)) is not None:
            at, kind = match.end(), match.lastgroup
            assert kind is not None
            start, end = match.span(kind)
            if kind == "blank":
                continue
            try:
                spend(_COST if kind == "comment" else _COST + (end - start >> 3))
            except LimitExceeded as error:
                where = f"{error.where or 'Lark grammar'} {self.place_at(start)}"
                raise LimitExceeded(error.what, where=where, because=error.because, instead=error.instead) from None
            depth += (kind == "open") - (kind == "close")
            if depth > MAX_NESTING:
                raise LimitExceeded(
                    "Lark grammar is nested too deeply", where=self.place_at(start),
                    because=f"the limit is {MAX_NESTING} brackets", instead="name the inner parts as rules",
                )
            if kind in ("json", "regex"):
                end = at = self._end_of_json(f"%{kind}", at, start)
            if kind != "comment":
                lexemes.append(Lexeme(kind, self.text[start:end], start, self))
            if kind == "other" and self.text[start] in _UNCLOSED:
                break  # where the text is refused, unless a mistake stands before
        return (*lexemes, Lexeme("line", "", len(self.text.rstrip()), self))

    def _end_of_json(self, word: str, at: int, start: int) -> int:
        """Return where the JSON value behind a word ends."""
        try:
            end = json.JSONDecoder().raw_decode(self.text, _BLANKS.match(self.text, at).end())[1]
        except (ValueError, RecursionError) as error:
            what, because = f"cannot read what follows {word}", f"it is no JSON: {error}"
            raise GrammarError(what, where=self.place_at(start), because=because) from error
        spend((end - at) // 10)
        return end

    @property
    def lines(self) -> Iterator[tuple[Lexeme, ...]]:
        """The tokens of each statement, with the end of its line; a line may go on with "|" behind its end."""
        words = list[Lexeme]()
        for token, after in zip(self.tokens, (*self.tokens[1:], None), strict=True):
            if token.kind != "line":
                words.append(token)
            elif words and (after is None or after.kind != "line" and after.text != "|"):
                yield (*words, token)
                words = []

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """What the text says.  Raises: GrammarError: it is no Lark; as `tokens`."""
        return tuple([_Parser(words).statement() for words in self.lines])

    def place(self, line: int, column: int) -> str:
        """Return how messages name a place."""
        return f"{self.name} line {line} column {column}" if self.name else f"line {line} column {column}"

    def place_at(self, start: int) -> str:
        """Return how messages name the place of a character."""
        return self.place(*line_and_column(self.text, start))


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Return the line and column of a character, from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


class _Parser:
    """Reads the tokens of a statement by descent."""

    def __init__(self, tokens: tuple[Lexeme, ...]) -> None:
        self._tokens, self._at, self._open, self._is_rule = tokens, 0, list[str](), False

    # -- tokens --------------------------------------------------------------------------------------------------------

    def _taken(self, kind: str, text: str | None = None) -> Lexeme | None:
        """Return the next token and go on, if it is of a kind and, as far as given, a text."""
        token = self._tokens[self._at]
        if token.kind != kind or text is not None and token.text != text:
            return None
        self._at += 1
        return token

    def _expect(self, kind: str, text: str | None = None, because: str | None = None) -> Lexeme:
        found = self._taken(kind, text)
        if found is None:
            raise self._wrong(because)
        return found

    def _wrong(self, because: str | None = None) -> GrammarError:
        token = self._tokens[self._at]
        if token.kind == "other":
            because = _UNCLOSED.get(token.text, "unexpected character")
        elif because is None and token.kind == "line":
            because = "unclosed parenthesis" if self._open else "unexpected end of line"
        return token.wrong(because or f"unexpected {token.text!r}")

    def _opened(self, bracket: str) -> bool:
        if self._taken("open", bracket) is None:
            return False
        self._open.append(bracket)
        return True

    def _closed(self, read: Read) -> Read:
        """Return what was read, behind a bracket that closes."""
        self._expect("close", _PAIRS[self._open[-1]])
        self._open.pop()
        return read

    def _name(self, because: str | None = None) -> Lexeme:
        return self._taken("rule") or self._expect("terminal", because=because)

    def _several(self, bracket: str, read: Any) -> tuple[Any, ...]:
        """Return what stands in a bracket, by commas; nothing where there is no bracket."""
        if not self._opened(bracket):
            return ()
        read_so_far = [read()]
        while self._taken("sign", ","):
            read_so_far.append(read())
        return self._closed(tuple(read_so_far))

    # -- statements ----------------------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """Return what all of the tokens say."""
        read = self._statement()
        self._expect("line")
        return read

    def _statement(self) -> Statement:
        directive = self._taken("directive")
        how = "define" if directive is None else directive.text[1:]
        if how in ("define", "override", "extend"):
            return self._definition(how)
        if how == "ignore":
            return Statement(how, body=self._alternatives())
        if how == "declare":
            first = self._name()
            return Statement(how, (first, *iter(lambda: self._taken("rule") or self._taken("terminal"), None)))
        return self._import()

    def _definition(self, how: str) -> Statement:
        modifiers = self._taken("modifiers")
        name = self._name("expecting rule or terminal definition")
        self._is_rule = name.kind == "rule"
        if modifiers is not None and "?" in modifiers.text and name.text.startswith("_"):
            raise name.wrong("inlined rules (_rule) cannot use the ?rule modifier")
        params = self._several("{", lambda: self._expect("rule")) if self._is_rule else ()
        if self._taken("sign", "."):
            self._expect("number")
        self._expect("sign", ":", "expecting rule or terminal definition (missing colon)")
        return Statement(how, (name, *params), self._alternatives())

    def _import(self) -> Statement:
        relative, path = self._taken("sign", ".") is not None, [self._name("%import expects a name")]
        while self._taken("sign", "."):
            path.append(self._name())
        names = self._several("(", self._name)
        if names:
            names = tuple(name for name in names for _ in (0, 1))
        elif len(path) == 1:
            raise path[0].wrong(f"nothing was imported from grammar `{path[0].text}`")
        else:
            *path, name = path
            names = name, self._name() if self._taken("sign", "->") else name
        return Statement("import", names, path=tuple(path), relative=relative)

    # -- what a name stands for ----------------------------------------------------------------------------------------

    def _alternatives(self) -> Node:
        read = [self._alternative()]
        while self._taken("sign", "|"):
            read.append(self._alternative())
        return Node("alternatives", tuple(read))

    def _alternative(self) -> Node:
        sequence = Node("sequence", tuple(iter(self._part, None)))
        if not self._open and self._taken("sign", "->"):
            if not self._is_rule:
                raise self._wrong("aliasing not allowed in terminals (You used -> in the wrong place)")
            self._expect("rule", because="alias expects lowercase name")
        return sequence

    def _part(self) -> Node | None:
        """Return an atom with its operator; None: the sequence is at its end."""
        atom = self._atom()
        if atom is None:
            return None
        for operator in ("*", "+", "?"):
            if self._taken("sign", operator):
                return Node("repeat", (atom, operator))
        if self._taken("sign", "~"):
            numbers = [self._expect("number")]
            if self._taken("sign", ".."):
                numbers.append(self._expect("number"))
            return Node("repeat", (atom, "~", *numbers))
        return atom

    def _atom(self) -> Node | None:
        if self._opened("("):
            return self._closed(self._alternatives())
        if self._opened("["):
            return Node("repeat", (self._closed(self._alternatives()), "?"))
        return self._value()

    def _value(self) -> Node | None:
        token = self._tokens[self._at]
        if token.kind not in _VALUES:
            return None
        self._at += 1
        if token.kind == "string" and self._taken("sign", ".."):
            return Node("range", (token, self._expect("string")))
        if token.kind == "rule" and (arguments := self._several("{", self._argument)):
            return Node("use", (token, *arguments))
        return Node(token.kind, (token,))

    def _argument(self) -> Node:
        if (value := self._value()) is None:
            raise self._wrong()
        return value
