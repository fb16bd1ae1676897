"""Independent answers to "is this text in the language?", slow and obvious.

`LarkOracle` asks the lark library.  `words` computes a small language as a least fixed point.  `Acceptor` runs machine
states by the book, without either kernel.  `derived` and `mutated` make texts worth asking about.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import product, takewhile

import lark

from constrained.grammar import Embedded, Grammar, Literal, Pattern, Ref, Special
from constrained.machine import Dispatch, Edges, Language, Quoting, State, Text
from constrained.regex import Expr


class LarkOracle:
    """Acceptance by lark's Earley parser with the complete dynamic lexer: the meaning of a Lark grammar."""

    def __init__(
        self, grammar: str, start: str = "start", source_path: str | None = None, *, lexer: str = "dynamic_complete"
    ) -> None:
        # The forest is never turned into a tree, which takes exponential time for ambiguous grammars.
        self._parser = lark.Lark(
            grammar, parser="earley", lexer=lexer, ambiguity="forest", start=start, source_path=source_path
        )

    @property
    def rules(self) -> list:
        """The rules that the library made of the grammar's."""
        return self._parser.rules

    def accepts(self, text: str) -> bool:
        try:
            self._parser.parse(text)
        except lark.exceptions.UnexpectedInput:
            return False
        return True


def all_texts(alphabet: str, longest: int) -> Iterator[str]:
    """Yield every text over the characters of `alphabet` (each once) of up to `longest` characters."""
    for length in range(longest + 1):
        yield from map("".join, product(dict.fromkeys(alphabet), repeat=length))


def words(grammar: Grammar, longest: int) -> set[str]:
    """Return all words of up to `longest` characters, of a grammar of literals and rules."""
    known: dict[str, set[str]] = {name: set() for name in grammar.rules}
    grown = True
    while grown:
        grown = False
        for rule in grammar.rules.values():
            for sequence in rule.alternatives:
                found = {""}
                for symbol in sequence:
                    options = known[symbol.rule] if isinstance(symbol, Ref) else {symbol.text}
                    found = {left + right for left in found for right in options if len(left) + len(right) <= longest}
                if not found <= known[rule.name]:
                    known[rule.name] |= found
                    grown = True
    return known[grammar.start]


class Acceptor:
    """Runs machine states on RAW text and special tokens: a set of (state, stack), stacks are tuples, nothing is
    shared.  A state is asked for its edges once, and what a text has in common with the one before is not read again.

    most: configurations after which it raises OverflowError; ambiguous grammars have exponentially many.
    """

    def __init__(self, start: State, most: int | None = None) -> None:
        self.start, self.most = start, most
        self._edges: dict[State, Edges] = {}
        self._steps: list[int | str] = []  # of the last text, and behind each of its beginnings the configurations
        self._reached: list[set] = []

    def accepts(self, text: str | bytes | Iterable[bytes | str]) -> bool:
        """Return whether a text is a word; in a list, `bytes` are bytes and each `str` is the name of a special token.
        """
        return any(not stack and self._accepting(state) for state, stack in self._behind(_steps(text)))

    def prefix_is_viable(self, text: bytes) -> bool:
        return bool(self._behind(text))

    def _behind(self, steps: Iterable[int | str]) -> set:
        """Return the configurations behind a text."""
        steps = list(steps)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(steps, self._steps, strict=False)))
        self._reached = self._reached[: shared + 1] or [self.closed({(self.start, ())})]
        self._steps = steps[:shared]
        for step in steps[shared:]:
            self._reached.append(self.closed(set(self._moved(self._reached[-1], step))))
            self._steps.append(step)
        return self._reached[-1]

    def _expanded(self, state: State) -> Edges:
        if state not in self._edges:
            self._edges[state] = state.expand()
        return self._edges[state]

    def _accepting(self, state: object) -> bool:
        if isinstance(state, _Reading):
            return state.language.accepts and not state.partial
        return not isinstance(state, Text) and self._expanded(state).accepting

    def closed(self, configurations: set) -> set:
        work, seen = list(configurations), set(configurations)
        while work:
            state, stack = work.pop()
            found = []
            if isinstance(state, Text):
                assert state.quoting is Quoting.RAW, "other quotings are the business of the kernels' tests"
                found.append((_Reading(state.language, b""), stack))
            elif not isinstance(state, _Reading):
                for callee, after in self._expanded(state).calls:
                    assert not isinstance(after, Dispatch)
                    found.append((callee, (*stack, after)))
            if stack and self._accepting(state):
                found.append((stack[-1], stack[:-1]))
            for configuration in found:
                if configuration not in seen:
                    seen.add(configuration)
                    work.append(configuration)
            if self.most is not None and len(seen) > self.most:
                raise OverflowError(f"more than {self.most:,} configurations")
        return seen

    def _moved(self, configurations: set, step: int | str) -> Iterator[tuple]:
        for state, stack in configurations:
            if isinstance(state, _Reading):
                target = state.step(step) if isinstance(step, int) else None
                if target is not None:
                    yield target, stack
            elif not isinstance(state, Text):
                edges = self._expanded(state)
                for name, target in edges.tokens:
                    if name == step:
                        yield target, stack
                for low, high, target in edges.ranges:
                    if isinstance(step, int) and low <= step <= high:
                        yield target, stack


class _Reading:
    """A place inside a text: the language of the rest and the bytes of an unfinished character."""

    def __init__(self, language: Language, partial: bytes) -> None:
        self.language, self.partial = language, partial

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reading) and (self.language, self.partial) == (other.language, other.partial)

    def __hash__(self) -> int:
        return hash((self.language, self.partial))

    def step(self, byte: int) -> _Reading | None:
        partial = self.partial + bytes([byte])
        try:
            point = ord(partial.decode())
        except UnicodeDecodeError as error:
            unfinished = error.reason == "unexpected end of data"
            return _Reading(self.language, partial) if unfinished and self._may_become(partial) else None
        return next(
            (_Reading(target, b"") for low, high, target in self.language.edges() if low <= point <= high), None
        )

    def _may_become(self, partial: bytes) -> bool:
        width = 2 if partial[0] < 0xE0 else 3 if partial[0] < 0xF0 else 4
        bounds = []
        for fill in (b"\x80", b"\xbf"):
            tail = fill * (width - len(partial))
            if partial in (b"\xe0", b"\xf0") and fill == b"\x80":
                tail = (b"\xa0" if partial == b"\xe0" else b"\x90") + tail[1:]
            if partial in (b"\xed", b"\xf4") and fill == b"\xbf":
                tail = (b"\x9f" if partial == b"\xed" else b"\x8f") + tail[1:]
            bounds.append(ord((partial + tail).decode()))
        return any(low <= bounds[1] and high >= bounds[0] for low, high, _ in self.language.edges())


def _steps(text: str | bytes | Iterable[bytes | str]) -> Iterator[int | str]:
    if isinstance(text, (str, bytes)):
        yield from text.encode() if isinstance(text, str) else text
        return
    for part in text:
        yield from part if isinstance(part, bytes) else (part,)


def derived(grammar: Grammar, chance: random.Random, size: int = 40) -> str:
    """Return a random word of a grammar without embedded machines; roughly `size` steps, then the shortest way out."""
    cost = _least_depths(grammar)
    left = size

    def derive(name: str) -> str:
        nonlocal left
        left -= 1
        alternatives = [s for s in grammar.rules[name].alternatives if _depth(s, cost) < 1e9]
        if left < 0:
            alternatives = [min(alternatives, key=lambda sequence: _depth(sequence, cost))]
        return "".join(
            _spelled(symbol, chance) if not isinstance(symbol, Ref) else derive(symbol.rule)
            for symbol in chance.choice(alternatives)
        )

    return derive(grammar.start)


def _least_depths(grammar: Grammar) -> dict[str, float]:
    cost = dict.fromkeys(grammar.rules, 1e9)
    for _ in grammar.rules:
        for rule in grammar.rules.values():
            cost[rule.name] = min([cost[rule.name], *(1 + _depth(sequence, cost) for sequence in rule.alternatives)])
    return cost


def _depth(sequence: Iterable[object], cost: dict[str, float]) -> float:
    return max(
        (cost[symbol.rule] if isinstance(symbol, Ref) else 1e9 if _is_dead(symbol) else 0 for symbol in sequence),
        default=0,
    )


def _is_dead(symbol: object) -> bool:
    return isinstance(symbol, Pattern) and not symbol.language.accepts and not symbol.language.edges()


def _spelled(symbol: Literal | Pattern | Special | Embedded, chance: random.Random) -> str:
    if isinstance(symbol, Pattern):
        return spelled(symbol.language, chance)
    return symbol.text if isinstance(symbol, Literal) else symbol.name


def spelled(language: Language, chance: random.Random, longest: int = 6) -> str:
    """Return a random text of a language."""
    text = ""
    while not (language.accepts and (not language.edges() or chance.random() < 0.4)):
        if len(text) > longest:
            return text + shortest(language)
        low, high, language = chance.choice(language.edges())
        text += chr(
            chance.choice(
                [low, high, chance.randint(low, high), *(point for point in b'ab01 \n"' if low <= point <= high)]
            )
        )
    return text


def shortest(language: Language) -> str:
    """Return a shortest text of a language."""
    found = {language: ""}
    for at in (work := [language]):
        if at.accepts:
            return found[at]
        for low, _, target in at.edges():
            if target not in found:
                found[target] = found[at] + chr(low)
                work.append(target)
    raise AssertionError("a language without texts")


def mutated(text: str, chance: random.Random, alphabet: str) -> str:
    """Return the text with one to three small changes."""
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(text))
        text = chance.choice(
            [
                text[:at] + text[at + 1 :],
                text[:at] + chance.choice(alphabet) + text[at:],
                text[:at] + chance.choice(alphabet) + text[at + 1 :],
                text[:at],
                text[:at] + text[at:] * 2,
                text[: at // 2] + text[at:],
            ]
        )
    return text


def reachable(start: Expr, limit: int) -> list[Expr]:
    """Return expressions that characters lead to, at most so many, those that are near first."""
    found, seen = [start], {start}
    for state in found:
        for _, _, target in state.edges():
            if target not in seen and len(found) < limit:
                seen.add(target)
                found.append(target)
    return found
