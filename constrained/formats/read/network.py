"""The rules of a format as a recursive transition network, for reading.

A rule becomes nodes: texts, special tokens, patterns, native readers, calls of other rules, branches, and marks where
something begins or ends that a message is made of.  Direct left recursion, which Lark's repeats turn into, becomes a
loop; every other kind is refused, as it would never end.

Which rules are marked, and which are read by code, is the caller's matter; the network knows no format.

A terminal is a `Language`, whose automaton appears while it is read.  Its states are kept here (`Patterns`) with a
table for ASCII and, for each state that a character can leave unchanged, a regular expression that finds how far it
stays so: free text is read as fast as Python's `re` reads it, and only the characters that may begin something else are
looked at one by one.

Tested through every format, and by `tests/test_read.py` on small grammars against Lark.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from constrained.errors import GrammarError
from constrained.formats.payload.value_reader import Native
from constrained.grammar import Literal, Pattern, Ref, Special, Symbol
from constrained.machine import Language
from constrained.work import spend

# -- patterns ----------------------------------------------------------------------------------------------------------

MOST_STATES = 20_000  # of one network; counted repeats may have any number
_MOST_SPELLED = 24  # characters of a text that shows what could have come
Ranges = tuple[tuple[int, int], ...]


class PatternState:
    """A state of a pattern.  `accepts`: it may end here; `stays`: the characters that lead back here, as code point
    ranges.
    """

    __slots__ = ("accepts", "ranges", "stays", "_edges", "_lows", "_known", "_patterns")

    def __init__(self, language: Language, patterns: Patterns) -> None:
        self.accepts = bool(language.accepts)
        edges = language.edges()
        self._edges, self._lows, self._patterns = edges, [low for low, _, _ in edges], patterns
        self.ranges: Ranges = tuple((low, high) for low, high, _ in edges)
        self.stays: Ranges = tuple((low, high) for low, high, then in edges if then is language)
        self._known: dict[str, PatternState | None] = {}

    def spelled(self) -> str | None:
        """Return the shortest text that leads to an end, in quotes; None for one so short that it tells nothing, or
        where it is long.
        """
        level: list[tuple[PatternState, str]] = [(self, "")]
        seen = {self}
        for _ in range(_MOST_SPELLED):
            following = []
            for state, text in level:
                if state.accepts:
                    return repr(text) if len(text) > 2 else None
                for low, _, language in state._edges:
                    then = self._patterns.state(language)
                    if then not in seen:
                        seen.add(then)
                        following.append((then, text + chr(low)))
            level = following[:_MOST_SPELLED]
        return None

    def after(self, text: str) -> PatternState | None:
        """Return the state behind a text; None where it is no beginning of what the pattern describes."""
        state, at, steps = self, 0, 0
        while at < len(text):
            then = state.step(text[at])
            if then is None:
                return None
            at, steps = at + 1, steps + 1
            if then is state and (run := self._patterns.run(state.stays).match(text, at)) is not None:
                at = run.end()
            state = then
        spend((steps >> 1) + (len(text) >> 8))
        return state

    def reads(self, text: str) -> bool:
        """Return whether a whole text is one that the pattern describes."""
        state = self.after(text)
        return state is not None and state.accepts

    def step(self, char: str) -> PatternState | None:
        known = self._known.get(char, self)
        if known is not self or char in self._known:
            return known
        code = ord(char)
        index = bisect_right(self._lows, code) - 1
        after = None
        if index >= 0 and code <= self._edges[index][1]:
            after = self._patterns.state(self._edges[index][2])
        if len(self._known) < 512:
            self._known[char] = after
        return after


class Patterns:
    """The states that were met, by language, and the runs that were asked for."""

    def __init__(self) -> None:
        self._states: dict[Language, PatternState] = {}
        self._runs: dict[Ranges, re.Pattern[str]] = {}

    def state(self, language: Language) -> PatternState:
        known = self._states.get(language)
        if known is None:
            if len(self._states) >= MOST_STATES:
                self._states.clear()
            known = self._states[language] = PatternState(language, self)
        return known

    def run(self, inside: Ranges) -> re.Pattern[str]:
        """Return what matches some of these characters."""
        if inside not in self._runs:
            if len(self._runs) > MOST_STATES:
                self._runs.clear()
            self._runs[inside] = re.compile(f"[{''.join(map(_class, inside))}]+")
        return self._runs[inside]


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """Return the code points of `ranges` that are not in `others`.

    >>> without(((0, 9),), ((2, 3), (9, 12)))
    ((0, 1), (4, 8))
    """
    ranges_left = []
    for low, high in ranges:
        for left, right in sorted(others):
            if right < low or left > high:
                continue
            if left > low:
                ranges_left.append((low, left - 1))
            low = max(low, right + 1)
        if low <= high:
            ranges_left.append((low, high))
    return tuple(ranges_left)


def has(ranges: Ranges, code: int) -> bool:
    """Return whether a code point is in ranges."""
    return any(low <= code <= high for low, high in ranges)


def _class(span: tuple[int, int]) -> str:
    return f"\\U{span[0]:08x}-\\U{span[1]:08x}"


# -- networks ----------------------------------------------------------------------------------------------------------

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
                "a format cannot be left-recursive", where=f"rule '{callee}'", because=cycle,
                instead="repeat with * or +",
            )
        if callee not in done:
            path.append((callee, sorted(left.get(callee, ()))))


def _nullable(rules: Alternatives) -> set[str]:
    nullable: set[str] = set()
    growing = True
    while growing:
        growing = False
        for name, sequences in rules.items():
            if name not in nullable and any(
                all(_may_be_empty(symbol, nullable) for symbol in sequence) for sequence in sequences
            ):
                nullable.add(name)
                growing = True
    return nullable


def _may_be_empty(symbol: Symbol, nullable: Collection[str]) -> bool:
    if isinstance(symbol, Ref):
        return symbol.rule in nullable
    return isinstance(symbol, Pattern) and symbol.language.accepts


def _left_calls(name: str, sequences: tuple[tuple[Symbol, ...], ...], empty: Collection[str]) -> set[str]:
    """Return the rules that a rule may call before it has read anything; a repeat of itself does not count."""
    calls = set()
    for sequence in sequences:
        start = 1 if sequence and sequence[0] == Ref(name) else 0
        if start and name not in empty:
            continue
        for symbol in sequence[start:]:
            if isinstance(symbol, Ref):
                calls.add(symbol.rule)
            if not _may_be_empty(symbol, empty):
                break
    return calls
