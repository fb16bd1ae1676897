"""The rules of a format as a recursive transition network, for reading.

A rule becomes nodes: texts, special tokens, patterns, native readers, calls of other rules, branches, and marks where
something begins or ends that a message is made of.  Direct left recursion, which Lark's repeats turn into, becomes a
loop; every other kind is refused, as it would never end.

Which rules are marked, and which are read by code, is the caller's matter; the network knows no format.
Tested through every format, and by `tests/test_read.py` on small grammars against Lark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from constrained.errors import GrammarError
from constrained.formats.payload.ahead import Native
from constrained.formats.read.simulating.patterns import Patterns
from constrained.grammar import Literal, Pattern, Ref, Special, Symbol

Alternatives = Mapping[str, tuple[tuple[Symbol, ...], ...]]
Mark = tuple[bool, str]  # (whether it begins, the rule that it marks)


class NodeKind(IntEnum):
    """What a node is."""

    TEXT = 0
    TOKEN = 1
    PATTERN = 2
    NATIVE = 3
    CALL = 4
    SPLIT = 5
    MARK = 6
    END = 7


@dataclass(eq=False, slots=True)
class NetworkNode:
    """A place in a rule.

    `value` by kind: TEXT the text; TOKEN the token's name; PATTERN its start state; NATIVE how it is read;
    CALL the first node of the rule; MARK the mark.  `then`: what follows; of a SPLIT the
    branches, the best first.
    """

    kind: NodeKind
    owner: str  # the rule that it belongs to
    value: Any = None
    then: tuple[NetworkNode, ...] = ()

    @property
    def begins_value(self) -> bool:
        """Whether it is the character that a native rule's value begins with."""
        return self.kind is NodeKind.TEXT and self.then[0].kind is NodeKind.NATIVE


class Network:
    """The nodes of all rules that `start` reaches; `known`: what simulations have found out about it.

    Invariant: no way from a node to itself that reads nothing pushes a call.
    """

    __slots__ = ("start", "patterns", "known")

    def __init__(self, start: NetworkNode, patterns: Patterns) -> None:
        self.start, self.patterns = start, patterns
        self.known: Any = None


def build(
    rules: Alternatives, start: str, specials: Collection[str], marked: Mapping[str, str], natives: Mapping[str, Native]
) -> Network:
    """Return the network of `start`; rules named in `natives` are read by code.  `marked`: rule → what its marks say;
    copies of a rule say the same, so that readings which differ in nothing else agree.

    Raises: GrammarError: a rule is left-recursive in a way that is no repeat.
    """
    refuse_left_recursion(rules, start, natives)
    return _NetworkBuilder(rules, frozenset(specials), marked, natives).network(start)


class _NetworkBuilder:
    def __init__(
        self, rules: Alternatives, specials: frozenset[str], marked: Mapping[str, str], natives: Mapping[str, Native]
    ) -> None:
        self._rules, self._specials, self._marked, self._natives = rules, specials, marked, natives
        self._patterns = Patterns()
        self._entries: dict[str, NetworkNode] = {}
        self._todo: list[str] = []

    def network(self, start: str) -> Network:
        entry = self._entry(start)
        while self._todo:
            self._define(self._todo.pop())
        return Network(entry, self._patterns)

    def _entry(self, rule: str) -> NetworkNode:
        if rule not in self._entries:
            native = self._natives.get(rule)
            if native is not None:
                reading = NetworkNode(NodeKind.NATIVE, rule, native, (NetworkNode(NodeKind.END, rule),))
                begun = NetworkNode(NodeKind.TEXT, rule, native.first, (reading,))
                self._entries[rule] = NetworkNode(NodeKind.MARK, rule, (True, rule), (begun,))
            else:
                self._entries[rule] = NetworkNode(NodeKind.SPLIT, rule)
                self._todo.append(rule)
        return self._entries[rule]

    def _define(self, rule: str) -> None:
        entry, end = self._entries[rule], NetworkNode(NodeKind.END, rule)
        if rule in self._marked:
            end = NetworkNode(NodeKind.MARK, rule, (False, self._marked[rule]), (end,))
        again = [sequence[1:] for sequence in self._rules[rule] if sequence and sequence[0] == Ref(rule)]
        if again:
            loop = NetworkNode(NodeKind.SPLIT, rule)
            loop.then = (*(self._chain(rest, rule, loop) for rest in again if rest), end)
            end = loop
        branches = tuple(
            self._chain(sequence, rule, end)
            for sequence in self._rules[rule]
            if not sequence or sequence[0] != Ref(rule)
        )
        if rule in self._marked:
            split = NetworkNode(NodeKind.SPLIT, rule, None, branches)
            branches = (NetworkNode(NodeKind.MARK, rule, (True, self._marked[rule]), (split,)),)
        entry.then = branches

    def _chain(self, sequence: tuple[Symbol, ...], owner: str, then: NetworkNode) -> NetworkNode:
        for symbol in reversed(sequence):
            then = self._node(symbol, owner, then)
        return then

    def _node(self, symbol: Symbol, owner: str, then: NetworkNode) -> NetworkNode:
        if isinstance(symbol, Ref):
            return NetworkNode(NodeKind.CALL, owner, self._entry(symbol.rule), (then,))
        if isinstance(symbol, Literal):
            kind = NodeKind.TOKEN if symbol.text in self._specials else NodeKind.TEXT
            return NetworkNode(kind, owner, symbol.text, (then,)) if symbol.text else then
        if isinstance(symbol, Special):
            return NetworkNode(NodeKind.TOKEN, owner, symbol.name, (then,))
        if isinstance(symbol, Pattern):
            return NetworkNode(NodeKind.PATTERN, owner, self._patterns.state(symbol.language), (then,))
        raise GrammarError(f"rule '{owner}' cannot be read", because="a machine of a schema stands in it")


def refuse_left_recursion(rules: Alternatives, start: str, natives: Collection[str]) -> None:
    """Raise a GrammarError where reading a rule would first read the same rule."""
    empty = _nullable(rules)
    left = {name: _left_calls(name, sequences, empty) for name, sequences in rules.items() if name not in natives}
    done: set[str] = set()
    path: list[tuple[str, list[str]]] = [(start, sorted(left.get(start, ())))]
    while path:
        rule, rest = path[-1]
        if not rest:
            done.add(rule)
            path.pop()
            continue
        callee = rest.pop()
        on_path = [name for name, _ in path]
        if callee in on_path:
            cycle = " → ".join([*on_path[on_path.index(callee) :], callee])
            raise GrammarError(
                "a format cannot be left-recursive",
                where=f"rule '{callee}'",
                because=cycle,
                instead="repeat with * or +",
            )
        if callee not in done:
            path.append((callee, sorted(left.get(callee, ()))))


def _nullable(rules: Alternatives) -> set[str]:
    found: set[str] = set()
    growing = True
    while growing:
        growing = False
        for name, sequences in rules.items():
            if name not in found and any(
                all(_may_be_empty(symbol, found) for symbol in sequence) for sequence in sequences
            ):
                found.add(name)
                growing = True
    return found


def _may_be_empty(symbol: Symbol, nullable: Collection[str]) -> bool:
    if isinstance(symbol, Ref):
        return symbol.rule in nullable
    return isinstance(symbol, Pattern) and symbol.language.accepts


def _left_calls(name: str, sequences: tuple[tuple[Symbol, ...], ...], empty: Collection[str]) -> set[str]:
    """Return the rules that a rule may call before it has read anything; a repeat of itself does not count."""
    found = set()
    for sequence in sequences:
        start = 1 if sequence and sequence[0] == Ref(name) else 0
        if start and name not in empty:
            continue
        for symbol in sequence[start:]:
            if isinstance(symbol, Ref):
                found.add(symbol.rule)
            if not _may_be_empty(symbol, empty):
                break
    return found
