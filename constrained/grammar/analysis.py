"""Facts about the rules of a grammar that lowering relies on, each a least fixed point computed in linear time.

*productive*: derives some word; *nullable*: derives the empty word; *filled*: derives some other word.  Left components
are the strongly connected components of "may begin with": two rules are in one exactly when they are left-recursive
through each other.

Source: folklore; the components are R. Tarjan's (1972), written with an explicit stack because grammars may be deeper
than Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from constrained.errors import GrammarError
from constrained.grammar.ir import Literal, Pattern, Productions, Ref, Sequence, Symbol
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
        productive = deriving(every, has_word)
        if grammar.start not in productive:
            raise _no_word(grammar, every, productive)
        self.rules = useful(every, grammar.start, lambda symbol: (
            symbol.rule in productive if type(symbol) is Ref else has_word(symbol)))
        self._nullable_rules = deriving(self.rules, is_empty)
        self._filled_rules = reaching(self.rules, is_filled)
        self.component = _components({name: self._may_begin_with(sequences) for name, sequences in self.rules.items()})

    def nullable(self, symbol: Symbol) -> bool:
        """Return whether a symbol of the grammar derives the empty word."""
        return symbol.rule in self._nullable_rules if type(symbol) is Ref else is_empty(symbol)

    def filled(self, symbol: Symbol) -> bool:
        """Return whether a symbol of the grammar derives a word that is not empty."""
        return symbol.rule in self._filled_rules if type(symbol) is Ref else is_filled(symbol)

    def _may_begin_with(self, sequences: Iterable[Sequence]) -> list[str]:
        names: dict[str, None] = {}
        for sequence in sequences:
            for symbol in sequence:
                if isinstance(symbol, Ref):
                    names[symbol.rule] = None
                if not self.nullable(symbol):
                    break
        return list(names)


def is_empty(symbol: Symbol) -> bool:
    """Return whether the empty word is one of a terminal's."""
    return symbol.language.accepts if type(symbol) is Pattern else type(symbol) is Literal and not symbol.text


def is_filled(symbol: Symbol) -> bool:
    """Return whether a terminal has a word that is not empty."""
    if type(symbol) is Pattern:
        return bool(symbol.language.edges())
    return type(symbol) is not Literal or bool(symbol.text)


def has_word(symbol: Symbol) -> bool:
    """Return whether a terminal has any word; only that of a pattern may have none."""
    return type(symbol) is not Pattern or symbol.language.accepts or bool(symbol.language.edges())


def filled(language: Expr) -> Expr:
    """Return a language without the empty text."""
    return intersect(language, repeat(ANY, 1, None)) if language.accepts else language


def expression(symbol: Symbol) -> Expr | None:
    """Return the language of a symbol that is an expression."""
    return symbol.language if isinstance(symbol, Pattern) else None


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


def _no_word(grammar: Productions, rules: Rules, productive: set[str]) -> GrammarError:
    what = f"rule '{grammar.start}' derives no word"
    wordless = [part.source for part in grammar.symbols()
                if isinstance(part, Pattern) and not has_word(part)]
    if wordless and grammar.start in deriving(rules, lambda symbol: True):
        because = f"the pattern /{wordless[0]}/ matches no text"
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


def useful(rules: Rules, start: str, holds: Callable[[Symbol], bool]) -> dict[str, tuple[Sequence, ...]]:
    """Return the rules that `start` reaches through alternatives all of whose symbols hold, with these alternatives
    only.
    """
    kept: dict[str, tuple[Sequence, ...]] = {}
    work = [start]
    while work:
        name = work.pop()
        if name in kept:
            continue
        sequences = [sequence for sequence in rules[name] if all(map(holds, sequence))]
        # of one there is no other that is equal, and symbols take 1 µs to be hashed
        kept[name] = tuple(sequences if len(sequences) == 1 else dict.fromkeys(sequences))
        work += [symbol.rule for sequence in kept[name] for symbol in sequence if isinstance(symbol, Ref)]
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
