"""What a grammar says and cannot mean: findings with their place, and texts that show them.

    unreachable   a rule that no entry reaches
    unused        a terminal that no rule uses
    shadowed      an alternative that adds no text to the others of its rule
    loop          a rule or repeat that may go round without reading anything
    ambiguous     a text that a rule derives in two ways
    unspellable   a text that no token of the tokenizer can write

A finding is certain: alternatives are compared as regular languages, those that are, and an ambiguity is shown by two
derivations of one text.  What is not found may be there all the same: texts are tried up to `tried` terminals, with a
few texts of each pattern, as far as the work goes.

Masks are right in spite of any of these.  Tests: tests/test_lint.py.
Source: Brabrand, Giegerich, Møller 2010, Analyzing ambiguity of context-free grammars, which says why there are bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any

from constrained.notations.rules import expressions, of_sequence, of_terminal

from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import GrammarError, LimitExceeded
from constrained.grammar.ir import Literal, Pattern, Ref, Special
from constrained.regex import (
    ANY_TEXT,
    Expr,
    char_class,
    complement,
    example,
    intersect,
    is_empty,
    literal,
    matches,
    repeat,
    union,
)
from constrained.regex.charset import of_points
from constrained.work import Budget, metered, spend

from .places import Source

CHECKS = ("unreachable", "unused", "shadowed", "loop", "ambiguous", "unspellable")
SYMBOLS = 6  # terminals of a text that is tried
MOST_TEXTS = 200  # of each rule
_MOST_PARTS = 64  # of an alternative that is tried
_SAMPLES = 3  # texts of a pattern
_WORK = 3_000_000  # units for one check


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, and where."""

    check: str
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what} ({self.check})"


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found; `tried`: up to how many terminals a text has that was looked at for ambiguity."""

    findings: tuple[Finding, ...]
    tried: int


def lint(source: Source, vocabulary: Vocabulary | None = None, checks: Collection[str] = CHECKS) -> Report:
    """Return what is found, check by check, each in the order of the text.

    Raises: GrammarError: a check that there is none of.
    """
    derivations = _Derivations(source.rules)
    made: dict[str, Iterator[Finding]] = {
        "unreachable": _unreachable(source), "unused": _unused(source), "shadowed": _shadowed(source),
        "loop": _loops(source), "ambiguous": _ambiguous(source, derivations),
        "unspellable": _unspellable(source, vocabulary),
    }  # fmt: skip
    if unknown := set(checks) - made.keys():
        raise GrammarError(f"no check is called {min(unknown)!r}", instead=f"one of: {', '.join(CHECKS)}")
    found: list[Finding] = []
    for name in checks:
        with metered(Budget(_WORK)), suppress(LimitExceeded):  # what was found so far is certain
            for finding in made[name]:
                if finding not in found:
                    found.append(finding)
    return Report(tuple(found), derivations.tried)


# -- names -------------------------------------------------------------------------------------------------------------


def _reached(source: Source) -> set[str]:
    """Return the definitions that the entries reach, by their names in the text."""
    computed = source.translated.computed if source.translated else {}
    uses = {name: set(definition.uses) for name, definition in source.definitions.items()}
    uses |= {name: set(rule.operands) for name, rule in computed.items()}
    found, todo = set[str](), [*source.entries, *source.ignored]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += uses.get(name, ())
    return found


def _unreachable(source: Source) -> Iterator[Finding]:
    reached = _reached(source)
    for name, definition in source.definitions.items():
        if name not in reached and not name.isupper():
            entries = ", ".join(map(source.name, source.entries[:3]))
            what = f"rule '{source.name(name)}' is not reached from {entries}"
            yield Finding("unreachable", source.shown(definition.at), what)


def _unused(source: Source) -> Iterator[Finding]:
    used = frozenset().union(source.ignored, *(definition.uses for definition in source.definitions.values()))
    for name, definition in source.definitions.items():
        if name.isupper() and name not in used and name not in source.entries:
            yield Finding("unused", source.shown(definition.at), f"terminal {name} is never used")


# -- alternatives ------------------------------------------------------------------------------------------------------


def _shadowed(source: Source) -> Iterator[Finding]:
    twice = set()
    for name, definition in source.definitions.items():
        seen: dict[str, Any] = {}
        for at, text in definition.alternatives:
            if text in seen:
                twice.add(name)
                what = f"'{source.name(name)}' has this alternative twice: {_short(text)}"
                yield Finding("shadowed", source.shown(at), what)
            seen[text] = at
    languages = _Languages(source)
    for name, alternatives in source.rules.items():
        compared = source.generated is None or name in source.generated
        if len(alternatives) < 2 or not compared or source.definitions.get(name) is None or name in twice:
            continue
        known = [languages.of_sequence(sequence) for sequence in alternatives]
        for number, expr in enumerate(known):
            others = [other for place, other in enumerate(known) if place != number and other is not None]
            if expr is None or not others or not is_empty(intersect(expr, complement(union(*others)))):
                continue
            if any(other is not None and other == expr for other in known[number + 1 :]):
                continue  # the later one of two that are equal
            text = languages.shown(example(expr) or "")
            what = f"an alternative of '{source.name(name)}' adds nothing to the others, for instance {text!r}"
            yield Finding("shadowed", source.place(name, number), what)


_PRIVATE = 0x10F000  # code points of a plane for private use


class _Languages:
    """The languages of rules that are regular, as expressions; None of others.

    A special token is a character of its own, which no pattern has.
    """

    def __init__(self, source: Source) -> None:
        self._tokens = {name: chr(_PRIVATE + at) for at, name in enumerate(sorted(source.grammar.specials))}
        self._texts = repeat(char_class([(0, _PRIVATE - 1)]), 0, None)
        self._rules = expressions(source.rules, terminal=self._terminal)

    def of_sequence(self, sequence: Any) -> Expr | None:
        found: Expr | None = of_sequence(sequence, self._rules, self._terminal)
        return found

    def shown(self, text: str) -> str:
        """Return a text with the names of its special tokens."""
        names = {char: name for name, char in self._tokens.items()}
        return "".join(names.get(char, char) for char in text)

    def _terminal(self, symbol: Any) -> Expr | None:
        name = symbol.name if isinstance(symbol, Special) else symbol.text if isinstance(symbol, Literal) else None
        if name in self._tokens:
            return literal(self._tokens[name])
        found: Expr | None = of_terminal(symbol)
        return found if found is None or not self._tokens else intersect(found, self._texts)


# -- loops that read nothing -------------------------------------------------------------------------------------------


def _loops(source: Source) -> Iterator[Finding]:
    for name in _going_round(source.rules):
        shown = source.name(source.owner(name) or name)
        yield Finding("loop", source.place(name), f"'{shown}' may go round without reading anything")


def _reads_nothing(symbol: Any, empty: Collection[str]) -> bool:
    if isinstance(symbol, Ref):
        return symbol.rule in empty
    if isinstance(symbol, Literal):
        return not symbol.text
    return isinstance(symbol, Pattern) and symbol.language.accepts


def _going_round(rules: Mapping[str, Any]) -> list[str]:
    """Return the rules that derive themselves without reading anything."""
    empty, size = set[str](), -1
    while size != (size := len(empty)):
        for name, alternatives in rules.items():
            spend(1 + len(alternatives))
            if any(all(_reads_nothing(symbol, empty) for symbol in sequence) for sequence in alternatives):
                empty.add(name)
    leads = {
        name: [
            symbol.rule for sequence in alternatives for at, symbol in enumerate(sequence)
            if isinstance(symbol, Ref)
            and all(_reads_nothing(other, empty) for other in (*sequence[:at], *sequence[at + 1 :]))
        ]
        for name, alternatives in rules.items()
    }  # fmt: skip
    found = []
    for name, following in leads.items():
        seen, todo = set[str](), [*following]
        while todo and name not in seen:
            spend(1)
            rule = todo.pop()
            if rule not in seen:
                seen.add(rule)
                todo += leads.get(rule, ())
        if name in seen:
            found.append(name)
    return found


# -- texts with two derivations ----------------------------------------------------------------------------------------

_Texts = dict[str, int]  # text → how many derivations, 2: two or more


def _ambiguous(source: Source, by_length: _Derivations) -> Iterator[Finding]:
    with suppress(LimitExceeded):
        for symbols in range(SYMBOLS + 1):
            by_length.grow(symbols)
            by_length.tried = symbols
    told = set[str]()
    for name in source.rules:
        text = by_length.ambiguous.get(name)
        owner = source.owner(name)
        compared = source.generated is None or name in source.generated
        if text is not None and owner is not None and owner not in told and compared:
            told.add(owner)
            part = "" if name == owner else "a part of "
            yield Finding("ambiguous", source.place(name), f"{part}'{source.name(owner)}' derives {text!r} in two ways")


class _Derivations:
    """The texts of each rule by how many terminals they have, with their derivations, and which rule is the first to
    derive one in two ways: its parts derive theirs in one.

    A rule that may go round without reading anything has endless derivations; these loops are another check's.
    """

    def __init__(self, rules: Mapping[str, Any]) -> None:
        self._rules, self._loops = rules, frozenset(_going_round(rules))
        self._found: dict[str, list[_Texts]] = {name: [] for name in rules}
        self._samples: dict[Any, list[str]] = {}
        self.ambiguous: dict[str, str] = {}
        self.tried = 0

    def grow(self, symbols: int) -> None:
        """Find the texts with so many terminals; all with fewer are known."""
        for texts in self._found.values():
            texts.append({})
        changed = True
        while changed:
            changed = False
            for name, alternatives in self._rules.items():
                if name in self._loops:
                    continue
                now = self._of_rule(name, alternatives, symbols)
                if now != self._found[name][symbols]:
                    self._found[name][symbols], changed = now, True

    def _of_rule(self, name: str, alternatives: Any, symbols: int) -> _Texts:
        counts: _Texts = {}
        single: _Texts = {}  # derivations whose parts have but one each
        for sequence in alternatives:
            for text, count, alone in self._of_sequence(sequence, symbols):
                if text not in counts and len(counts) >= MOST_TEXTS:
                    continue
                counts[text] = min(counts.get(text, 0) + count, 2)
                single[text] = single.get(text, 0) + alone
        known = self.ambiguous.get(name)
        shorter = {text for texts in self._found[name][:symbols] for text in texts}
        for text, count in single.items():
            if (count > 1 or count and text in shorter) and (known is None or len(text) < len(known)):
                self.ambiguous[name] = known = text
        return counts

    def _of_sequence(self, sequence: Any, symbols: int) -> Iterator[tuple[str, int, int]]:
        """Yield texts of a sequence with so many terminals, with derivations, and how many are of single parts."""
        if not sequence:
            if symbols == 0:
                yield "", 1, 1
            return
        if len(sequence) > _MOST_PARTS:
            return
        first, rest = sequence[0], sequence[1:]
        for size in range(symbols + 1):
            heads = self._of_symbol(first, size)
            if not heads:
                continue
            tails = list(self._of_sequence(rest, symbols - size))
            for (head, count), (tail, more, alone) in product(heads.items(), tails):
                spend(2)
                yield head + tail, min(count * more, 2), alone if self._total(first, head) == 1 else 0

    def _total(self, symbol: Any, text: str) -> int:
        if not isinstance(symbol, Ref):
            return 1
        return sum(texts.get(text, 0) for texts in self._found.get(symbol.rule, ()))

    def _of_symbol(self, symbol: Any, size: int) -> _Texts:
        if isinstance(symbol, Ref):
            known = self._found.get(symbol.rule, [])
            return known[size] if size < len(known) else {}
        if isinstance(symbol, Literal):
            return {symbol.text: 1} if size == bool(symbol.text) else {}
        if isinstance(symbol, Special):
            return {symbol.name: 1} if size == 1 else {}
        if not isinstance(symbol, Pattern) or not isinstance(symbol.language, Expr):
            return {}
        if symbol not in self._samples:
            self._samples[symbol] = _samples(symbol.language)
        return {text: 1 for text in self._samples[symbol] if bool(text) == bool(size)} if size < 2 else {}


def _samples(expr: Expr) -> list[str]:
    """Return a few texts of a language, short ones, the empty one among them if it is one."""
    found: list[str] = []
    left = expr
    while len(found) < _SAMPLES and (text := example(left)) is not None:
        found.append(text)
        left = intersect(left, complement(literal(text)))
    return found


# -- texts and tokens --------------------------------------------------------------------------------------------------


_SURROGATES = range(0xD800, 0xE000)


def _unspellable(source: Source, vocabulary: Vocabulary | None) -> Iterator[Finding]:
    if vocabulary is None:
        return
    written = frozenset().union(*(token for token in vocabulary.tokens if token is not None))
    known = vocabulary.special.keys()
    texts = ANY_TEXT
    if len(written) < 243:  # UTF-8 has no more bytes
        points = (point for point in range(0x110000) if point not in _SURROGATES)
        spelled = of_points(point for point in points if written.issuperset(chr(point).encode()))
        texts = repeat(char_class(spelled), 0, None)
    for name, alternatives in source.rules.items():
        for at, sequence in enumerate(alternatives):
            for symbol in sequence:
                lost = _lost(symbol, source.grammar.specials, known, texts)
                if lost is not None:
                    yield Finding("unspellable", source.place(name, at), f"{lost} has no tokens in this tokenizer")


def _lost(symbol: Any, specials: Collection[str], known: Collection[str], texts: Expr) -> str | None:
    """Return what the tokens do not spell of a symbol; None: they do, or some text of it."""
    name = symbol.name if isinstance(symbol, Special) else symbol.text if isinstance(symbol, Literal) else None
    if name is not None and name in specials:
        return None if name in known else f"the special token {name!r}"
    if isinstance(symbol, Literal):
        return None if matches(texts, symbol.text) else f"the text {symbol.text!r}"
    expr = of_terminal(symbol)
    lost = expr is not None and is_empty(intersect(expr, texts))
    return f"the pattern /{_short(symbol.source)}/" if lost else None


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
