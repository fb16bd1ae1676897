"""Facts about the rules of a grammar that lowering relies on, each a least fixed point computed in linear time.

*productive*: derives some word; *nullable*: derives the empty word; *filled*: derives some other word.  Left components
are the strongly connected components of "may begin with": two rules are in one exactly when they are left-recursive
through each other.

Source: folklore; the components are R. Tarjan's (1972), written with an explicit stack because grammars may be deeper
than Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any

from constrained.errors import GrammarError
from constrained.grammar.ir import Grammar
from constrained.grammar.symbols import Literal, Pattern, Ref, Sequence, Symbol
from constrained.machine import Language
from constrained.regex import ANY, Expr, intersect, repeat
from constrained.work import spend

Rules = Mapping[str, tuple[Sequence, ...]]


class Facts:
    """The useful part of a grammar and what its symbols can derive.

    Invariant: `rules` has only alternatives that derive some word, of rules that the start can reach.
    Raises: GrammarError: when the start derives no word at all.
    """

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        spend(sum(4 + 4 * len(sequence) for rule in grammar.rules.values() for sequence in rule.alternatives))
        every = {name: rule.alternatives for name, rule in grammar.rules.items()}
        productive = _deriving(every, self._has_word)
        if grammar.start not in productive:
            raise _no_word(grammar, productive)
        self.rules = _useful(
            every, grammar.start, lambda s: s.rule in productive if isinstance(s, Ref) else self._has_word(s)
        )
        self._nullable_rules = _deriving(self.rules, self._is_empty_terminal)
        self._filled_rules = reaching(self.rules, self._is_filled_terminal)
        self.component = _components({name: self._may_begin_with(sequences) for name, sequences in self.rules.items()})

    def nullable(self, symbol: Symbol) -> bool:
        """Return whether a symbol derives the empty word."""
        return symbol.rule in self._nullable_rules if isinstance(symbol, Ref) else self._is_empty_terminal(symbol)

    def filled(self, symbol: Symbol) -> bool:
        """Return whether a symbol derives a word that is not empty."""
        return symbol.rule in self._filled_rules if isinstance(symbol, Ref) else self._is_filled_terminal(symbol)

    def _has_word(self, symbol: Symbol) -> bool:
        if isinstance(symbol, Pattern):
            return symbol.language.accepts or bool(symbol.language.edges())
        return not isinstance(symbol, Ref)

    @staticmethod
    def _is_empty_terminal(symbol: Symbol) -> bool:
        if isinstance(symbol, Pattern):
            return symbol.language.accepts
        return isinstance(symbol, Literal) and not symbol.text

    @staticmethod
    def _is_filled_terminal(symbol: Symbol) -> bool:
        if isinstance(symbol, Pattern):
            return bool(symbol.language.edges())
        return not isinstance(symbol, Ref) and not (isinstance(symbol, Literal) and not symbol.text)

    def _may_begin_with(self, sequences: Iterable[Sequence]) -> list[str]:
        found: dict[str, None] = {}
        for sequence in sequences:
            for symbol in sequence:
                if isinstance(symbol, Ref):
                    found[symbol.rule] = None
                if not self.nullable(symbol):
                    break
        return list(found)


@dataclass(frozen=True, slots=True)
class Filled:
    """A language without the empty text, for languages that are no expressions."""

    language: Language

    @property
    def accepts(self) -> bool:
        return False

    def edges(self) -> Seq[tuple[int, int, Language]]:
        return self.language.edges()

    def mask_key(self, horizon: int) -> Hashable:
        return Filled, self.language.mask_key(horizon)


def filled(language: Language) -> Language:
    """Return a language without the empty text."""
    if not language.accepts:
        return language
    return intersect(language, repeat(ANY, 1, None)) if isinstance(language, Expr) else Filled(language)


def _no_word(grammar: Grammar, productive: set[str]) -> GrammarError:
    stuck = sorted(set(grammar.rules) - productive - {grammar.start})
    return GrammarError(
        f"rule '{grammar.start}' derives no word",
        because="each of its alternatives needs a rule that never ends"
        + (f", such as '{stuck[0]}'" if stuck else ": itself"),
        instead="give every recursive rule an alternative without the recursion",
    )


def _deriving(rules: Rules, holds: Callable[[Symbol], bool]) -> set[str]:
    """Return the rules with an alternative all of whose symbols hold; a reference holds if its rule is among them."""
    waiting: dict[str, list[list[object]]] = {}  # rule -> [references still open, whose alternative] of each use
    found: list[str] = []
    for name, sequences in rules.items():
        for sequence in sequences:
            references = [symbol.rule for symbol in sequence if isinstance(symbol, Ref)]
            if not all(isinstance(symbol, Ref) or holds(symbol) for symbol in sequence):
                continue
            entry: list[object] = [len(references), name]
            if not references:
                found.append(name)
            for reference in references:
                waiting.setdefault(reference, []).append(entry)
    done: set[str] = set()
    while found:
        name = found.pop()
        if name in done:
            continue
        done.add(name)
        for entry in waiting.get(name, ()):
            entry[0] -= 1  # type: ignore[operator]
            if entry[0] == 0:
                found.append(entry[1])  # type: ignore[arg-type]
    return done


def reaching(rules: Mapping[str, Iterable[Iterable[Any]]], holds: Callable[[Any], bool]) -> set[str]:
    """Return the rules with some symbol that holds; a reference holds if its rule is among them."""
    users: dict[str, list[str]] = {}
    found: list[str] = []
    for name, sequences in rules.items():
        for symbol in (symbol for sequence in sequences for symbol in sequence):
            if isinstance(symbol, Ref):
                users.setdefault(symbol.rule, []).append(name)
            elif holds(symbol):
                found.append(name)
    done: set[str] = set()
    while found:
        name = found.pop()
        if name not in done:
            done.add(name)
            found.extend(users.get(name, ()))
    return done


def _useful(rules: Rules, start: str, holds: Callable[[Symbol], bool]) -> dict[str, tuple[Sequence, ...]]:
    """Return the rules that `start` reaches through alternatives all of whose symbols hold, with these alternatives
    only.
    """
    kept: dict[str, tuple[Sequence, ...]] = {}
    work = [start]
    while work:
        name = work.pop()
        if name in kept:
            continue
        kept[name] = tuple(dict.fromkeys(s for s in rules[name] if all(holds(symbol) for symbol in s)))
        work.extend(symbol.rule for sequence in kept[name] for symbol in sequence if isinstance(symbol, Ref))
    return kept


def _components(graph: Mapping[str, list[str]]) -> dict[str, str]:
    """Return for each node the name of its strongly connected component (that of one member)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    component: dict[str, str] = {}
    for root in graph:
        work = [] if root in order else [(root, iter(graph[root]))]
        if work:
            order[root] = low[root] = len(order)
            stack.append(root)
        while work:
            node, children = work[-1]
            child = next((c for c in children if c not in component), None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    while node not in component:
                        component[stack.pop()] = node
            elif child in order:
                low[node] = min(low[node], order[child])
            else:
                order[child] = low[child] = len(order)
                stack.append(child)
                work.append((child, iter(graph[child])))
    return component
