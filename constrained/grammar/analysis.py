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
from itertools import chain
from typing import Any

from constrained.errors import GrammarError
from constrained.grammar.ir import Literal, Pattern, Productions, Ref, Sequence, Symbol
from constrained.machine import Language
from constrained.regex import ANY, Expr, concat, intersect, repeat, union
from constrained.regex.expr import parts
from constrained.work import spend

Rules = Mapping[str, tuple[Sequence, ...]]


class Facts:
    """The useful part of a grammar and what its symbols can derive.

    Invariant: `rules` has only alternatives that derive some word, of rules that the start can reach.
    Raises: GrammarError: when the start derives no word at all.
    """

    def __init__(self, grammar: Productions) -> None:
        self._grammar = grammar
        spend(sum([4 + 4 * len(sequence) for rule in grammar.rules.values() for sequence in rule.alternatives]))
        every = {name: rule.alternatives for name, rule in grammar.rules.items()}
        self._terminals = terminals = _Terminals(grammar)
        productive = deriving(every, lambda symbol: id(symbol) not in terminals.wordless)
        if grammar.start not in productive:
            raise _no_word(grammar, every, productive, terminals)
        # Nearly always all rules that are reached are kept as they are
        stuck = terminals.wordless or len(productive) < len(every)
        self.rules = useful(every, grammar.start, self._deriving_one(productive) if stuck else None)
        self._nullable_rules = deriving(self.rules, lambda symbol: id(symbol) in terminals.empty)
        self._filled_rules = reaching(self.rules, lambda symbol: id(symbol) not in terminals.unfilled)
        self.component = _components({name: self._may_begin_with(sequences) for name, sequences in self.rules.items()})

    def nullable(self, symbol: Symbol) -> bool:
        """Return whether a symbol of the grammar derives the empty word."""
        if type(symbol) is Ref:
            return symbol.rule in self._nullable_rules
        return id(symbol) in self._terminals.empty

    def filled(self, symbol: Symbol) -> bool:
        """Return whether a symbol of the grammar derives a word that is not empty."""
        if type(symbol) is Ref:
            return symbol.rule in self._filled_rules
        return id(symbol) not in self._terminals.unfilled

    def _deriving_one(self, productive: set[str]) -> Callable[[Symbol], bool]:
        wordless = self._terminals.wordless
        return lambda symbol: symbol.rule in productive if isinstance(symbol, Ref) else id(symbol) not in wordless

    def _may_begin_with(self, sequences: Iterable[Sequence]) -> list[str]:
        names: dict[str, None] = {}
        for sequence in sequences:
            for symbol in sequence:
                if isinstance(symbol, Ref):
                    names[symbol.rule] = None
                if not self.nullable(symbol):
                    break
        return list(names)


class _Terminals:
    """The few terminals of a grammar that are not as most are, with some word and without the empty one, by id.

    What is plain of hundreds of literals is not asked of each of them, and no symbol is hashed.
    """

    def __init__(self, grammar: Productions) -> None:
        self.wordless, self.empty, self.unfilled = set[int](), set[int](), set[int]()
        for symbol in grammar.symbols():
            if type(symbol) is Pattern:
                accepts, goes_on = symbol.language.accepts, bool(symbol.language.edges())
            elif type(symbol) is Literal and not symbol.text:
                accepts, goes_on = True, False
            else:
                continue
            if accepts:
                self.empty.add(id(symbol))
            if not goes_on:
                self.unfilled.add(id(symbol))
            if not (accepts or goes_on):
                self.wordless.add(id(symbol))


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


def expression(symbol: Symbol) -> Expr | None:
    """Return the language of a symbol that is an expression."""
    return symbol.language if isinstance(symbol, Pattern) and isinstance(symbol.language, Expr) else None


def factored(exprs: Iterable[Expr]) -> Expr:
    """Return the union of some expressions, those that begin with the same factor as that factor before the union of
    what follows it.

    200 terminals ``[a-z]+…`` are one loop with one way out of it, not 200 loops: a hundredth of the work.
    """
    tails: dict[Expr, list[Expr]] = {}
    for expr in exprs:
        head, *rest = parts(expr)
        spend(3)
        tails.setdefault(head, []).append(concat(*rest))
    return union(*(concat(head, union(*rests)) for head, rests in tails.items()))


def _no_word(grammar: Productions, rules: Rules, productive: set[str], terminals: _Terminals) -> GrammarError:
    what = f"rule '{grammar.start}' derives no word"
    if terminals.wordless and grammar.start in deriving(rules, lambda symbol: True):
        patterns = [symbol for symbol in grammar.symbols() if isinstance(symbol, Pattern)]
        source = next(pattern.source for pattern in patterns if id(pattern) in terminals.wordless)
        because = f"the pattern /{source}/ matches no text"
        return GrammarError(what, because=because, instead="a pattern that matches some text")
    stuck = sorted(set(grammar.rules) - productive - {grammar.start})
    return GrammarError(
        what,
        because="each of its alternatives needs a rule that never ends"
        + (f", such as '{stuck[0]}'" if stuck else ": itself"),
        instead="give every recursive rule an alternative without the recursion",
    )


def deriving(rules: Rules, holds: Callable[[Symbol], bool]) -> set[str]:
    """Return the rules with an alternative all of whose symbols hold; a reference holds if its rule is among them."""
    waiting: dict[str, list[list[object]]] = {}  # rule -> [references still open, whose alternative] of each use
    todo: list[str] = []
    for name, sequences in rules.items():
        for sequence in sequences:
            references = []
            for symbol in sequence:
                if type(symbol) is Ref:
                    references.append(symbol.rule)
                elif not holds(symbol):
                    break
            else:
                if not references:
                    todo.append(name)
                    break  # of the calls of 50 tools one is enough
                entry: list[object] = [len(references), name]
                for reference in references:
                    waiting.setdefault(reference, []).append(entry)
    done: set[str] = set()
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
        for entry in waiting.get(name, ()):
            entry[0] -= 1  # type: ignore[operator]
            if entry[0] == 0:
                todo.append(entry[1])  # type: ignore[arg-type]
    return done


def reaching(rules: Mapping[str, Iterable[Iterable[Any]]], holds: Callable[[Any], bool]) -> set[str]:
    """Return the rules with some symbol that holds; a reference holds if its rule is among them."""
    users: dict[str, list[str]] = {}
    todo: list[str] = []
    for name, sequences in rules.items():
        for symbol in chain.from_iterable(sequences):
            if type(symbol) is Ref:
                users.setdefault(symbol.rule, []).append(name)
            elif holds(symbol):
                todo.append(name)
                break
    done: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in done:
            done.add(name)
            todo.extend(users.get(name, ()))
    return done


def useful(rules: Rules, start: str, holds: Callable[[Symbol], bool] | None) -> dict[str, tuple[Sequence, ...]]:
    """Return the rules that `start` reaches through alternatives all of whose symbols hold, with these alternatives
    only; None: all of them hold.
    """
    kept: dict[str, tuple[Sequence, ...]] = {}
    work = [start]
    while work:
        name = work.pop()
        if name in kept:
            continue
        sequences = rules[name]
        if holds is not None:
            sequences = tuple([sequence for sequence in sequences if all(map(holds, sequence))])
        kept[name] = sequences if _differ_at_once(sequences) else tuple(dict.fromkeys(sequences))
        work += [symbol.rule for sequence in kept[name] for symbol in sequence if isinstance(symbol, Ref)]
    return kept


def _differ_at_once(sequences: tuple[Sequence, ...]) -> bool:
    """Return whether there is one alternative, or all begin with other texts.  Symbols take 1 µs to be hashed."""
    if len(sequences) == 1:
        return True
    texts = [sequence[0].text for sequence in sequences if sequence and type(sequence[0]) is Literal]
    return len(texts) == len(sequences) == len(set(texts))


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
