"""Errors before generation: a few words of what looks like much work are begun when a constraint is compiled.

Nearly all that a grammar costs is computed when a generation gets there, and most grammars cost little everywhere.
Machines and patterns whose outline says otherwise (see `schema.reading.size_estimates`, `regex.size`) are tried: the
masks along seeded walks, with the constraint's own budget, which is full again afterwards; the masks stay known.  What
no walk met may still be too much work later.

Cost: nothing for most; else that of some 20 masks for each such part, and little more than the budget for all together.
Tested by tests/test_fuzz_schemas.py and the rows of the bomb table that meet a limit.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from constrained.engine.matcher import Matcher
from constrained.grammar.ir import Grammar
from constrained.grammar.symbols import Embedded, Rule, Symbol, is_heavy
from constrained.work import begin, thread

if TYPE_CHECKING:
    from constrained.engine.constraint import Constraint
    from constrained.engine.tokens.trie import TokenTrie

WALKS = 5
STEPS = 12
ENOUGH = 3  # one part in so many of the budget, after which no other walk begins
SOME, MUCH = 32, 16  # one part in so many of it: for some steps together, and for one; see `_is_even`
_SOON = b"}])\"',:0123456789"  # what a walk prefers that is to end
_OPENING = (b"'\"", b"[", b"{")  # what strings, arrays and objects begin with: as each walk behind the second does

Row: TypeAlias = npt.NDArray[np.int32]  # (words,) a mask


def rehearse(constraint: Constraint) -> None:
    """Begin a few words of each part of a constraint that looks like much work, until its budget is spent once.

    Raises: LimitExceeded: one word of one part is too much work.
    """
    spent, limit = 0, constraint.options.max_work
    for part in _heavy_parts(constraint):
        for number in range(WALKS):
            if limit is not None and ENOUGH * spent > limit and (number or part is not constraint):
                break
            costs = _walk(part, number)
            spent += sum(costs)
            if limit is not None:
                part.budget.refill(limit)
                if _is_even(costs, limit):
                    break


def _heavy_parts(constraint: Constraint) -> Iterator[Constraint]:
    """Yield the parts of a grammar that look like much work, each as a constraint: what is inside of an embedded
    machine before the machine itself, as errors name the smallest place.
    """
    grammar, place = constraint.grammar, constraint.budget.whole
    found = list(dict.fromkeys(symbol for symbol in grammar.symbols() if is_heavy(symbol)))
    for symbol in found:
        if isinstance(symbol, Embedded):
            outer = thread.budget
            try:
                begin(constraint.budget)
                parts = list(getattr(symbol.machine, "heavy_parts", _unknown)())
            finally:
                thread.budget = outer
            for part in parts:
                if part is not None:
                    yield _alone(constraint, Embedded(symbol.name, part), part.place)
            if not parts:  # a closer look has shown little work
                continue
        if len(grammar.rules) == 1 and len(found) == 1:
            yield constraint
        else:
            yield _alone(constraint, symbol, place)


def _unknown() -> tuple[None]:
    """Stand for what is inside of a machine that does not say: the whole may be much work."""
    return (None,)


def _alone(constraint: Constraint, symbol: Symbol, place: str | None) -> Constraint:
    """Return a constraint of one symbol of another."""
    grammar = Grammar({"start": Rule("start", ((symbol,),))}, adopts=constraint.grammar.adopts)
    found = type(constraint)(grammar, constraint.vocabulary, replace(constraint.options, spell_missing=True))
    found.budget.whole = place
    return found


def _is_even(costs: list[int], limit: int) -> bool:
    """Say whether the steps of a walk take some work, and none of them much: more would show no more."""
    return SOME * sum(costs) > limit > MUCH * max(costs)


def _walk(constraint: Constraint, number: int) -> list[int]:
    """Fill the masks along a walk, and return what each step took, in units: the first walk is left to chance, the
    others hurry to the end, behind what each kind of value begins with.
    """
    costs: list[int] = []
    budget, limit = constraint.budget, constraint.options.max_work
    picks, matcher = random.Random(number), Matcher(constraint)
    bitmask = np.zeros((1, constraint.vocabulary.words), np.int32)
    soon = (*constraint.stop, *_single(constraint.vocabulary.trie, _SOON))
    opening = _single(constraint.vocabulary.trie, _OPENING[number - 2]) if number > 1 else None
    for step in range(STEPS):
        left = budget.left
        matcher.fill_mask(bitmask)
        token = _soonest(bitmask[0], soon) if number > 0 and step > 0 else _drawn(bitmask[0], picks)
        if opening is not None and step == 0:
            token = next((token for token in opening if _is_allowed(bitmask[0], token)), None)
        if token is None:
            break
        matcher.advance(token)
        costs.append(max(left - budget.left, 0))
        if limit is not None and _is_even(costs, limit):
            break
        if matcher.is_finished():
            if number > 0:
                break
            matcher = Matcher(constraint)  # chance has led to the end too soon to show anything
    return costs


def _single(trie: TokenTrie, data: bytes) -> list[int]:
    """Return the tokens of single bytes."""
    nodes = [trie.roots[byte] for byte in data]
    return [int(trie.ids[trie.first[node]]) for node in nodes if node >= 0 and trie.first[node] < trie.first[node + 1]]


def _is_allowed(row: Row, token: int) -> bool:
    return bool(row[token >> 5] >> (token & 31) & 1)


def _soonest(row: Row, soon: tuple[int, ...]) -> int | None:
    """Return the first of some tokens that is allowed, or the first of all; None: none is."""
    found = next((token for token in soon if _is_allowed(row, token)), None)
    words = np.flatnonzero(row)[:1].tolist() if found is None else ()
    return found if not words else 32 * words[0] + _bits(row[words[0]])[0]


def _drawn(row: Row, picks: random.Random) -> int | None:
    """Return an allowed token, drawn by the word of the mask that it stands in; None: none is allowed.

    PERF: 10 µs; to unpack the bits and list the tokens takes up to 4 ms.
    """
    words = np.flatnonzero(row)
    if not len(words):
        return None
    word = int(words[picks.randrange(len(words))])
    return 32 * word + picks.choice(_bits(row[word]))


def _bits(word: Any) -> list[int]:
    return [bit for bit in range(32) if int(word) >> bit & 1]
