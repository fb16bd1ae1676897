"""Do two constraints have the same words?  Bisimulation up to congruence.

Pairs of states that the same symbols lead to are visited in the order of their distance; where one of a pair ends a
word and the other does not, the symbols are a separating word, and none is shorter.  A recursive grammar has endless
pairs.  So a state is read as a sum of products: the language of a machine state, then those of the frames of its stack.
A machine state that was met alone may stand for whatever stood on the other side of the pair, if all pairs have equal
languages; a pair that is then the same on both sides, or was visited, follows from the others.  So ``"[" start* "]"``
has two pairs, however deep.

Where that does not come to an end (two grammars that are equal for deeper reasons; in general nobody can know), the
work of the first constraint bounds the pairs, and the answer says up to which length it holds.

Tests: tests/test_research.py.
Source: Bonchi and Pous 2013, Checking NFA equivalence with bisimulations up to congruence; products: Rot, Bonsangue,
Rutten 2013, Coinductive proof techniques for language equivalence.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from constrained.engine.compiled import compile_grammar
from constrained.engine.plain import UTF8, Config, Frame, PlainKernel, TextAt, frames
from constrained.engine.spelling import clip
from constrained.errors import ConstrainedError, LimitExceeded, shown
from constrained.machine import END, State
from constrained.work import metered, spend, working_on

from .derive import derive
from .texts import letters_of, reads, symbols
from .words import Letter, length_of, spelled

if TYPE_CHECKING:
    from constrained.engine.compiled import CompiledGrammar
    from constrained.grammar import Grammar

Term = frozenset[Config]  # a sum of products, before calls are followed; none: nothing goes on so
Pair = tuple[Term, Term]
MOST_FACTORS = 8
DRAWN = 200  # texts


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether two languages agree; true as a condition if they do.

    `word` is a shortest word of one that is none of the other, special tokens by name, `symbols` the same with each
    special token as a text among the bytes; `first_has_it` says whose it is.  `complete`: the answer holds for words
    of any length; else for those of at most `up_to` symbols.
    """

    equal: bool
    complete: bool
    up_to: int | None
    pairs: int  # of states that were compared
    symbols: tuple[Letter, ...] | None = None
    first_has_it: bool | None = None

    def __bool__(self) -> bool:
        return self.equal

    @property
    def word(self) -> bytes | None:
        return None if self.symbols is None else spelled([*self.symbols])


def language_equal(first: CompiledGrammar, second: CompiledGrammar, up_to: int | None = None) -> Comparison:
    """Compare the words of two constraints, of at most `up_to` symbols (None: of any length, as far as the work of the
    first constraint goes).

    Vocabularies play no part, but for the names of special tokens.
    Cost: 0.3-0.7 ms for each pair.
    Raises: LimitExceeded: the work does not go up to the length that is asked for, or the deadline has passed.
    ConstrainedError: up_to is no length.
    """
    most = None if up_to is None else length_of(up_to)
    if not hasattr(second, "place"):
        raise ConstrainedError(f"not a constraint: {shown(second)}", instead="compile(grammar, vocabulary)")
    with metered(first.options.budget()) as budget, working_on("pairs of states that are compared"):
        compared = _Compared(_Terms(first), _Terms(second), most)
        try:
            return compared.run()
        except LimitExceeded:
            if budget.left or most is not None:  # it is not for lack of work; so much was asked for
                raise
            return Comparison(True, False, max(compared.length - 1, 0), len(compared.back))


def differences(first: Grammar, second: Grammar, up_to: int | None = None) -> tuple[Comparison, Comparison]:
    """Compare two grammars in both directions: `word` of the one is a shortest text that only the first takes, that of
    the other one that only the second takes.  Letters: bytes, and the special tokens of both.

    Where the work does not go far, `DRAWN` texts of each are tried in the other, too: what they show may be no shortest
    text.

    Raises: as `language_equal`.
    """
    letters = letters_of(sorted(first.specials | second.specials))
    one, two, both = (compile_grammar(grammar, letters) for grammar in (first, second, first | second))
    found = language_equal(one, two, up_to)
    if found:
        known = found.complete or up_to is not None
        return (found, found) if known else (_drawn(one, two, found), _drawn(two, one, found))
    if found.first_has_it:
        return found, language_equal(both, one, up_to)
    return language_equal(both, two, up_to), found


def _drawn(one: CompiledGrammar, two: CompiledGrammar, found: Comparison) -> Comparison:
    """Return a comparison with a text that only the first constraint takes, if one of those that are drawn is such."""
    rng = Random(0)
    for size in (20, 60):
        for _ in range(DRAWN // 2):
            with metered():
                try:
                    word = symbols(derive(one, rng, size, {}), sorted(one.vocabulary.special))
                    known = reads(two, word)
                except ConstrainedError:  # nothing as short is found, or it takes too much work
                    continue
            if not known:
                return replace(found, equal=False, symbols=_shorter(word, one, two), first_has_it=True)
    return found


def _shorter(word: list[Letter], one: CompiledGrammar, two: CompiledGrammar) -> tuple[Letter, ...]:
    """Return what is left of a text that only the first constraint takes without symbols that can be left out."""
    at = len(word)
    with suppress(LimitExceeded), metered():
        while at:
            at -= 1
            less = word[:at] + word[at + 1 :]
            if reads(one, less) and not reads(two, less):
                word, at = less, len(less)
    return tuple(word)


class _Compared:
    """One comparison.

    Invariant: all words of fewer than `length` symbols agree.
    """

    def __init__(self, one: _Terms, two: _Terms, most: int | None) -> None:
        self._sides, self._most = (one, two), most
        self.back: dict[Pair, tuple[Pair, Letter] | None] = {}
        self.length = 0
        self._queue: deque[tuple[Pair, int]] = deque()
        self._alike = _Alike()
        self._visited: set[tuple[int, int]] = set()

    def run(self) -> Comparison:
        start, cut = (self._sides[0].start, self._sides[1].start), False
        if self._sides[0].nullable != self._sides[1].nullable or not self._follows(start):
            self._visit(start, None, 0)
        while self._queue:
            pair, self.length = self._queue.popleft()
            ends = [terms.ends(term) for terms, term in zip(self._sides, pair, strict=True)]
            if ends[0] != ends[1]:
                return Comparison(False, True, self._most, len(self.back), self._symbols(pair), ends[0])
            for symbol, after in self._moves(pair):
                if after in self.back or self._follows(after):
                    continue
                if self.length == self._most:
                    cut = True
                    break
                self._visit(after, (pair, symbol), self.length + 1)
        return Comparison(True, not cut, self._most, len(self.back))

    def _follows(self, pair: Pair) -> bool:
        """Say whether a pair follows from those that were visited."""
        shapes = self._shapes(pair)
        return shapes[0] == shapes[1] or shapes in self._visited

    def _visit(self, pair: Pair, came: tuple[Pair, Letter] | None, length: int) -> None:
        self.back[pair] = came
        self._queue.append((pair, length))
        if came is not None and self._alike.assume(*pair):
            spend(5 * len(self.back))
            self._visited = {self._shapes(known) for known in self.back}
        else:
            self._visited.add(self._shapes(pair))

    def _shapes(self, pair: Pair) -> tuple[int, int]:
        return self._alike.shape(pair[0]), self._alike.shape(pair[1])

    def _moves(self, pair: Pair) -> list[tuple[Letter, Pair]]:
        """Return the pairs that one symbol leads to, with the first such symbol, in order."""
        one, two = (terms.readings(term) for terms, term in zip(self._sides, pair, strict=True))
        rows = [*one.rows, *two.rows]
        spend(300 + 60 * len(rows))
        found: list[tuple[Letter, Pair]] = []
        if rows:
            _, first = np.unique(np.stack(rows), axis=1, return_index=True)
            for byte in sorted(first.tolist()):
                after = self._sides[0].after(one, byte), self._sides[1].after(two, byte)
                if after[0] or after[1]:
                    found.append((byte, after))
        for name in sorted(one.tokens.keys() | two.tokens.keys()):
            found.append((name, (one.tokens.get(name, frozenset()), two.tokens.get(name, frozenset()))))
        return found

    def _symbols(self, pair: Pair) -> tuple[Letter, ...]:
        found: list[Letter] = []
        while (step := self.back[pair]) is not None:
            pair, symbol = step
            found.append(symbol)
        return tuple(found[::-1])


@dataclass(frozen=True, slots=True)
class _Readings:
    """What a term may read next."""

    configs: list[Config]
    rows: list[npt.NDArray[np.int32]]  # (256,) of each configuration: where bytes lead, as a number, -1: nowhere
    tokens: dict[str, Term]


class _Terms:
    """The states of one constraint as terms."""

    def __init__(self, constraint: CompiledGrammar) -> None:
        options, special = constraint.options, constraint.vocabulary.special
        self._kernel = PlainKernel(
            constraint.vocabulary, specials=special, max_configurations=options.max_configurations
        )
        self.nullable: bool = constraint._nullable
        self.start: Term = frozenset([(constraint._root, None)])
        self._closed: dict[Term, int] = {}
        self._rows: dict[State | TextAt, npt.NDArray[np.int32]] = {}
        self._targets: list[State | TextAt] = []
        self._numbers: dict[State | TextAt, int] = {}
        self._inside: dict[object, State | TextAt] = {}  # how a text goes on inside a character → where it does first

    def ends(self, term: Term) -> bool:
        return self._kernel.is_final(self._state(term))

    def _state(self, term: Term) -> int:
        if term not in self._closed:
            nullable = self.nullable and term == self.start
            self._closed[term] = self._kernel._close([*term], nullable)
        return self._closed[term]

    def readings(self, term: Term) -> _Readings:
        configs = [*self._kernel.configurations(self._state(term))]
        tokens: dict[str, list[Config]] = {}
        for machine, stack in configs:
            for name, target in self._kernel._expand(machine).tokens:
                tokens.setdefault(name, []).append((target, stack))
        rows = [self._row(machine) for machine, _ in configs]
        if any(frame.record is not None for _, stack in configs for frame in frames(stack)):
            rows.append(np.arange(256, dtype=np.int32))  # bytes that lead alike are remembered
        return _Readings(configs, rows, {name: self._ended(found) for name, found in tokens.items()})

    def after(self, readings: _Readings, byte: int) -> Term:
        return self._ended([
            (self._targets[row[byte]], self._kernel._recording(stack, byte))
            for (machine, stack), row in zip(readings.configs, readings.rows, strict=False) if row[byte] >= 0
        ])  # fmt: skip

    def _row(self, machine: State | TextAt) -> npt.NDArray[np.int32]:
        row = self._rows.get(machine)
        if row is None:
            row = self._rows[machine] = np.full(256, -1, np.int32)
            if isinstance(machine, TextAt):
                spend(300)
                for byte in range(256):
                    inside = machine.step(byte)
                    if inside is not None:
                        row[byte] = self._number(inside)
            else:
                for low, high, target in self._kernel._expand(machine).ranges:
                    row[low : high + 1] = self._number(target)
        return row

    def _number(self, target: State | TextAt) -> int:
        number = self._numbers.get(target)
        if number is None:
            alike = self._inside.setdefault(_goes_on(target), target)
            number = self._numbers[target] = self._numbers.setdefault(alike, len(self._targets))
            if number == len(self._targets):
                self._targets.append(target)
        return number

    def _ended(self, configs: list[Config]) -> Term:
        """Return configurations without those of calls that are at their end: what they return to instead."""
        kept, work = set[Config](), configs
        while work:
            machine, stack = work.pop()
            edges = self._kernel._expand(machine)
            if stack is None or not edges.accepting or edges.ranges or edges.calls or edges.tokens or (
                isinstance(machine, TextAt) and machine.reads()
            ):
                kept.add((machine, stack))
                continue
            for frame in frames(stack):
                after = self._kernel._returned(machine, frame)
                if after is not None:
                    work.append((after, frame.parent))
        return frozenset(kept)


def _goes_on(target: State | TextAt) -> object:
    """Return what positions inside a character have alike that lead to the same by the same bytes; others are such
    alone.
    """
    if not isinstance(target, TextAt) or target.place != UTF8 or target.spelling.guarded:
        return target
    first, edges = target.value << 6 * target.left, [*target.language.edges()]
    spend(1 + len(edges))
    parts = [(a - first, b - first, to) for low, high, to in edges for a, b in clip(target.pending(), low, high)]
    return target.spelling, target.left, tuple(parts)


class _Alike:
    """What may stand for what, if all visited pairs are pairs of equal languages: a machine state for another, or for
    a product of several.

    A sum of products is a number; equal sums have one, up to what may stand for what.
    """

    def __init__(self) -> None:
        self._leaders: dict[object, object] = {}
        self._rules: dict[object, list[tuple[tuple[object, ...], object]]] = {}  # first factor → the others, for which
        self._sums: list[frozenset[Any]] = []  # by number: (first factor, record, number of what is behind)
        self._numbers: dict[frozenset[object], int] = {}
        self._shapes: dict[Frame | None, int] = {}
        self._bottom = self._number(frozenset([END]))

    def assume(self, one: Term, two: Term) -> bool:
        """Take over what a pair says of a machine state that stands alone in it; say whether that is news."""
        first, second = (self._factors(self.shape(term)) for term in (one, two))
        if len(first) > len(second):
            first, second = second, first
        if len(first) != 1:
            return False
        if len(second) == 1:
            self._leaders[second[0]] = first[0]
        else:
            self._rules.setdefault(second[0], []).append((second[1:], first[0]))
        self._shapes.clear()
        return True

    def shape(self, term: Term) -> int:
        """Return the number of a sum of products."""
        return self._number(frozenset([self._product(machine, None, self._of_stack(stack)) for machine, stack in term]))

    def _number(self, products: frozenset[object]) -> int:
        number = self._numbers.setdefault(products, len(self._sums))
        if number == len(self._sums):
            self._sums.append(products)
        return number

    def _product(self, machine: object, record: bytes | None, behind: int) -> tuple[object, bytes | None, int]:
        machine, again = self._leader(machine), record is None
        while again:
            again = False
            for rest, whole in self._rules.get(machine, ()):
                found = self._behind(behind, rest)
                if found is not None:
                    machine, behind, again = self._leader(whole), found, True
                    break
        return machine, record, behind

    def _behind(self, number: int, factors: tuple[object, ...]) -> int | None:
        """Return what a sum has behind some factors, None if it is none that begins with them."""
        for factor in factors:
            single = self._sums[number]
            if len(single) != 1 or single == self._sums[self._bottom]:
                return None
            ((machine, record, number),) = single
            if record is not None or machine != self._leader(factor):
                return None
        return number

    def _factors(self, number: int) -> tuple[object, ...]:
        """Return the factors of a sum that is one product of at most a few; () of others."""
        found: list[object] = []
        while number != self._bottom:
            single = self._sums[number]
            if len(single) != 1 or len(found) == MOST_FACTORS:
                return ()
            ((machine, record, number),) = single
            if record is not None:
                return ()
            found.append(machine)
        return tuple(found)

    def _leader(self, machine: object) -> object:
        while machine in self._leaders:
            machine = self._leaders[machine]
        return machine

    def _of_stack(self, stack: Frame | None) -> int:
        known, todo = self._shapes, [stack]
        while todo:
            at = todo.pop()
            if at in known:
                continue
            missing = [frame.parent for frame in frames(at) if frame.after is not END and frame.parent not in known]
            if missing:
                todo += [at, *missing]
                continue
            spend(1)
            products = [
                END if frame.after is END else self._product(frame.after, frame.record, known[frame.parent])
                for frame in frames(at)
            ]
            known[at] = self._number(frozenset(products or [END]))
        return known[stack]
