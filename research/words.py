"""The words of a constraint: counted, listed, drawn at random.

A word is a sequence of *symbols*: bytes, and special tokens, each of which counts one.  The engine's automaton is
deterministic, so each word has one path, and a table "state → number of ways to its end in n symbols" counts words, not
derivations.  Symbols with the same successor are kept together: a string's 90 printable letters are one entry.

Refused: counting tokens.  A word has many tokenisations, and how many is a question about the vocabulary.

Tests: tests/test_research.py, against a second engine and against `itertools.product`.
Source: uniform sampling from a regular language by counting, Hickey and Cohen 1983; folklore.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from constrained.errors import ConstrainedError, GrammarError, shown
from constrained.work import metered, spend, working_on

if TYPE_CHECKING:
    from constrained.engine.compiled import CompiledGrammar

Letter = int | str  # a byte, or the name of a special token
Moves = tuple[tuple[tuple[Letter, ...], int], ...]  # symbols that lead to the same state, and that state


class LetterAutomaton:
    """The automaton of a constraint, without its vocabulary: states, moves, which states end a word."""

    def __init__(self, constraint: CompiledGrammar) -> None:
        self._constraint = constraint
        self._kernel, self.start = constraint.place()
        self._moves: dict[int, Moves] = {}
        self._counts: dict[tuple[int, int], int] = {}

    def is_final(self, state: int) -> bool:
        return self._kernel.is_final(state)

    def moves(self, state: int) -> Moves:
        """Return what may come next: bytes in ascending order, then special tokens by id."""
        known = self._moves.get(state)
        if known is None:
            kernel, names = self._kernel, self._constraint.vocabulary.names
            grouped: dict[int, list[Letter]] = {}
            following = kernel.next_bytes(state)
            spend(40 + 3 * len(following) // 2)  # each step may make a state
            for byte in following:
                grouped.setdefault(kernel.step_byte(state, byte), []).append(byte)
            for token in sorted(kernel.named_tokens(state)):
                grouped.setdefault(kernel.step_token(state, token), []).append(names[token])
            spend(8 * len(grouped))  # for memory: states of many readings
            known = self._moves[state] = tuple((tuple(symbols), after) for after, symbols in grouped.items())
        return known

    def count(self, state: int, length: int) -> int:
        """Return how many ways of exactly `length` symbols lead from a state to the end of a word."""
        counts, pending = self._counts, [(state, length)]
        while pending:  # no recursion: words may be longer than Python's stack
            at, left = key = pending[-1]
            if key in counts:
                pending.pop()
            elif not left:
                counts[key] = int(self.is_final(at))
            else:
                moves = self.moves(at)
                spend(4 + 3 * len(moves))
                missing = [(after, left - 1) for _, after in moves if (after, left - 1) not in counts]
                pending += missing
                if not missing:
                    ways = sum(len(symbols) * counts[after, left - 1] for symbols, after in moves)
                    spend(ways.bit_length() // 1024)  # numbers of thousands of digits take time and memory
                    counts[key] = ways
        return counts[state, length]


def count(constraint: CompiledGrammar, up_to: int) -> int:
    """Return how many words have at most `up_to` symbols.

    Cost: (states within `up_to` symbols) × `up_to` additions.
    Raises: LimitExceeded: too many states, see `compile`.
    """
    with metered(constraint.options.budget()), working_on(f"words of at most {shown(up_to)} symbols"):
        automaton = LetterAutomaton(constraint)
        return sum(automaton.count(automaton.start, length) for length in range(length_of(up_to) + 1))


def enumerate_words(constraint: CompiledGrammar, up_to: int) -> Iterator[bytes]:
    """Yield the words of at most `up_to` symbols, shorter ones first, equal ones in the order of their symbols; special
    tokens by name.
    """
    automaton, most = LetterAutomaton(constraint), length_of(up_to)
    for length in range(most + 1):
        yield from map(spelled, _of_length(constraint, automaton, length))


def _of_length(constraint: CompiledGrammar, automaton: LetterAutomaton, length: int) -> Iterator[list[Letter]]:
    """Yield the words of one length; every step leads to a word, so none is for nothing."""
    with metered(constraint.options.budget()):
        if not automaton.count(automaton.start, length):
            return
    word: list[Letter] = []
    path = [_ordered(automaton, automaton.start, length)]
    while path:
        symbol, after = next(path[-1], (None, 0))
        if symbol is None and len(path) <= length:
            path.pop()
            del word[-1:]
        elif len(path) <= length and symbol is not None:
            word.append(symbol)
            with metered(constraint.options.budget()):
                path.append(_ordered(automaton, after, length - len(word)))
        else:
            yield list(word)
            path.pop()
            del word[-1:]


def _ordered(automaton: LetterAutomaton, state: int, left: int) -> Iterator[tuple[Letter | None, int]]:
    """Return the symbols after which `left` - 1 more complete a word, bytes first."""
    if not left:
        return iter(())
    live = [
        (symbol, after)
        for symbols, after in automaton.moves(state)
        if automaton.count(after, left - 1)
        for symbol in symbols
    ]
    return iter(sorted(live, key=lambda move: (isinstance(move[0], str), move[0])))


def sample(constraint: CompiledGrammar, rng: random.Random, up_to: int) -> bytes:
    """Return a word of at most `up_to` symbols, every one equally likely.

    Raises: GrammarError: no word is as short.  LimitExceeded: there are too many states to count the words.
    """
    if not hasattr(rng, "randrange"):
        raise ConstrainedError(f"rng is {shown(rng)}", instead="random.Random(seed)")
    budget = constraint.options.budget()
    budget.remedy = "sample(rng, up_to, weights={}), which counts no words"
    with metered(budget), working_on(f"words of at most {shown(up_to)} symbols"):
        automaton = LetterAutomaton(constraint)
        totals = [automaton.count(automaton.start, length) for length in range(length_of(up_to) + 1)]
        if not any(totals):
            raise GrammarError(
                f"no word has at most {up_to} symbols",
                because="symbols are bytes and special tokens",
                instead="a larger up_to",
            )
        place = rng.randrange(sum(totals))
        length = 0
        while place >= totals[length]:
            place -= totals[length]
            length += 1
        state, word = automaton.start, list[Letter]()
        for left in range(length, 0, -1):
            for symbols, after in automaton.moves(state):
                each = automaton.count(after, left - 1)
                if place < each * len(symbols):
                    word.append(symbols[place // each])
                    place, state = place % each, after
                    break
                place -= each * len(symbols)
        return spelled(word)


def spelled(word: list[Letter]) -> bytes:
    """Return symbols as text, special tokens by name."""
    return b"".join(symbol.encode() if isinstance(symbol, str) else bytes((symbol,)) for symbol in word)


def length_of(up_to: object) -> int:
    if isinstance(up_to, bool) or not isinstance(up_to, int) or up_to < 0:
        raise ConstrainedError(
            f"up_to is {shown(up_to)}",
            because="it is a number of symbols: bytes and special tokens",
            instead="for instance 20",
        )
    return up_to
