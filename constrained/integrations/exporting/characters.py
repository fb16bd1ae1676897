r"""A grammar as rules over single characters: llguidance's Lark, XGrammar's EBNF, llama.cpp's GBNF.

Engines differ in what a terminal means: llguidance takes its longest match, XGrammar and llama.cpp know characters
only; ``\d``, anchors, lazy repeats and names of common terminals mean different things in each.  So nothing of this is
written: a grammar is printed as Lark (`Grammar.to_lark`), read back, and every pattern in it becomes rules over single
characters, one for each state of its automaton.  With terminals of one character there is nothing to be matched
longest, and all three agree.

Special tokens: llguidance knows them by name, ``<|eot_id|>``, if it stands in angle brackets; others are refused.  In
XGrammar and GBNF they are written as their text, which these engines also let the model spell in ordinary tokens;
`Exported.notes` says so.

Left out: patterns with more than `MOST_STATES` states, and, for GBNF, rules that begin with themselves; both are
refused.  Tested in tests/hosts/test_exports.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from constrained.errors import GrammarError
from constrained.grammar import Grammar, Literal, Pattern, Ref, Special, Symbol
from constrained.grammar.lark.printer import write
from constrained.machine import Language
from constrained.work import metered, spend, working_on

MOST_STATES = 5_000
_NAMED = re.compile(r"<[^<>\s]+>")
_NO_NUL = "narrower: XGrammar reads no character of code 0"
_AS_TEXT = "special tokens are written as their text, which the engine also lets the model spell in ordinary tokens"
_SURROGATES = (0xD800, 0xDFFF)


class Exported(str):
    """A grammar's text, and what a reader should know about it."""

    notes: tuple[str, ...]

    def __new__(cls, text: str, notes: tuple[str, ...]) -> Exported:
        found = super().__new__(cls, text)
        found.notes = notes
        return found


def in_characters(grammar: Grammar, to: str) -> Exported:
    """Return a grammar as the text of an engine: "llguidance", "xgrammar" or "gbnf".

    Raises: GrammarError: the engine cannot say it.
    """
    with metered(), working_on(f"export to {to}"):
        printed = write(grammar, lookahead=False)  # what each state reads is written out in any case
        flat = Grammar.from_lark(str(printed), specials=grammar.specials)
        writer = _CharacterWriter(flat, to)
        text = "\n".join(writer.lines()) + "\n"
    differs = [
        f"{kind} at {entry[0]}: {entry[2]}"
        for kind, entries in (("wider", printed.widened), ("narrower", printed.narrowed))
        for entry in entries
    ]
    return Exported(text, (*differs, *writer.notes))


class _CharacterWriter:
    """Rules of characters; names are given once."""

    def __init__(self, grammar: Grammar, to: str) -> None:
        self._grammar, self._to = grammar, to
        self._lark = to == "llguidance"
        self._names: dict[object, str] = {}
        self._taken = {"root", "start"} if self._lark else {"root"}
        self._numbers: dict[str, int] = {}  # the last that was put behind a stem
        self._todo: list[tuple[str, Language]] = []
        self.notes: list[str] = []

    def lines(self) -> list[str]:
        grammar = self._grammar
        first = self._name(Ref(grammar.start), grammar.start)
        found = [self._rule("start" if self._lark else "root", [[first]])]
        bodies = {
            name: [[self._symbol(symbol) for symbol in sequence] for sequence in rule.alternatives]
            for name, rule in grammar.rules.items()
        }
        if self._to == "gbnf":
            _refuse_left_recursion(grammar)
        found += [self._rule(self._name(Ref(name), name), alternatives) for name, alternatives in bodies.items()]
        for name, state in self._todo:  # grows while it is walked
            spend(10)
            if len(self._todo) > MOST_STATES:
                raise GrammarError(
                    f"cannot export to {self._to}",
                    because=f"its patterns have more than {MOST_STATES:,} states",
                    instead="smaller bounds",
                )
            found.append(self._rule(name, self._steps(state)))
        return found

    def _rule(self, name: str, alternatives: Iterable[list[str]]) -> str:
        shown = dict.fromkeys(" ".join(filter(None, parts)) or '""' for parts in alternatives)
        return f"{name}: {' | '.join(shown)}" if self._lark else f"{name} ::= {' | '.join(shown)}"

    def _name(self, key: object, wanted: str) -> str:
        known = self._names.get(key)
        if known is None:
            stem = re.sub(r"[^a-z0-9]+", "_" if self._lark else "-", wanted.lower()).strip("_-")
            stem = stem if stem[:1].isalpha() else f"r{stem}"
            known, number = stem, self._numbers.get(stem, 0)
            while known in self._taken:
                number += 1
                known = f"{stem}{'_' if self._lark else '-'}{number}"
            self._numbers[stem] = number
            self._taken.add(known)
            self._names[key] = known
        return known

    def _symbol(self, symbol: Symbol) -> str:
        if isinstance(symbol, Ref):
            return self._name(symbol, symbol.rule)
        if isinstance(symbol, Pattern):
            return self._state(symbol.language)
        text = symbol.name if isinstance(symbol, Special) else symbol.text if isinstance(symbol, Literal) else ""
        if text in self._grammar.specials and self._lark:
            if not _NAMED.fullmatch(text):
                raise GrammarError(
                    f"cannot export the special token {text!r} to llguidance",
                    because="it names special tokens in angle brackets only",
                )
            return text
        if text in self._grammar.specials and _AS_TEXT not in self.notes:
            self.notes.append(_AS_TEXT)
        return " ".join(map(_quoted, text)) if self._lark else _quoted(text) if text else ""

    def _state(self, language: Language) -> str:
        if language not in self._names:
            self._todo.append((self._name(language, "text"), language))
        return self._names[language]

    def _steps(self, language: Language) -> list[list[str]]:
        if self._to == "xgrammar" and any(low == 0 for low, _, _ in language.edges()) and _NO_NUL not in self.notes:
            self.notes.append(_NO_NUL)
        spend(2 * len(language.edges()))
        leads: dict[Language, list[tuple[int, int]]] = {}
        for low, high, target in language.edges():
            leads.setdefault(target, []).extend(_scalars(low, high))
        steps = [
            [_class(ranges, lark=self._lark), *([self._state(target)] if target.edges() else [])]
            for target, ranges in leads.items()
            if ranges
        ]
        return steps + ([[]] if language.accepts else [])


def _scalars(low: int, high: int) -> list[tuple[int, int]]:
    """Return a range without surrogates."""
    parts = [(low, min(high, _SURROGATES[0] - 1)), (max(low, _SURROGATES[1] + 1), high)]
    return [(first, last) for first, last in parts if first <= last]


def _class(ranges: list[tuple[int, int]], *, lark: bool) -> str:
    """Return a class of characters."""
    shown = "".join(_code(low) if low == high else f"{_code(low)}-{_code(high)}" for low, high in sorted(ranges))
    return f"/[{shown}]/" if lark else f"[{shown}]"


def _code(point: int) -> str:
    char = chr(point)
    if char.isascii() and char.isalnum():
        return char
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"  # \x takes all hex digits behind it in XGrammar


def _quoted(text: str) -> str:
    return (
        '"'
        + "".join(
            char if char.isascii() and char.isprintable() and char not in '"\\' else _escaped(char) for char in text
        )
        + '"'
    )


def _escaped(char: str) -> str:
    short = {"\n": r"\n", "\r": r"\r", "\t": r"\t", '"': r"\"", "\\": r"\\"}.get(char)
    return (
        short
        if short is not None
        else char
        if char.isprintable()
        else f"\\u{ord(char):04x}"
        if ord(char) < 0x10000
        else char
    )


def _refuse_left_recursion(grammar: Grammar) -> None:
    """Refuse rules that may begin with themselves, which llama.cpp never ends to read.

    Raises: GrammarError: for the first of them.
    """
    nullable: set[str] = set()
    changed = True
    while changed:
        changed = False
        for name, rule in grammar.rules.items():
            if name not in nullable and any(
                all(_may_be_empty(symbol, nullable) for symbol in sequence) for sequence in rule.alternatives
            ):
                nullable.add(name)
                changed = True
    first = {
        name: _beginnings(rule.alternatives, lambda symbol: _may_be_empty(symbol, nullable))
        for name, rule in grammar.rules.items()
    }
    for name in grammar.rules:
        reached, work = set[str](), list(first[name])
        while work:
            spend(1)
            found = work.pop()
            if found == name:
                raise GrammarError(
                    "cannot export to gbnf",
                    where=f"rule {name}",
                    because="it may begin with itself",
                    instead="recursion on the right",
                )
            if found not in reached:
                reached.add(found)
                work += first[found]


def _may_be_empty(symbol: Symbol, nullable: set[str]) -> bool:
    return (
        symbol.rule in nullable if isinstance(symbol, Ref) else isinstance(symbol, Pattern) and symbol.language.accepts
    )


def _beginnings(alternatives: Iterable[tuple[Symbol, ...]], may_be_empty: Callable[[Symbol], bool]) -> set[str]:
    found = set()
    for sequence in alternatives:
        for symbol in sequence:
            if isinstance(symbol, Ref):
                found.add(symbol.rule)
            if not may_be_empty(symbol):
                break
    return found
