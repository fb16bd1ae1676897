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
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from constrained.engine.matcher import Matcher
from constrained.grammar.ir import Grammar, Rule, is_heavy

if TYPE_CHECKING:
    from constrained.engine.constraint import Constraint

WALKS = 2
STEPS = 12
_SOON = b"}])\"',:0123456789"  # how tokens begin that a walk prefers which is to end


def rehearse(constraint: Constraint) -> None:
    """Begin a few words of each part of a constraint that looks like much work, until its budget is spent once.

    Raises: LimitExceeded: one word of one part is too much work.
    """
    whole = type(constraint)
    spent, limit = 0, constraint.options.max_work
    for part in _heavy_parts(constraint.grammar):
        inner = (
            constraint
            if part is constraint.grammar
            else whole(part, constraint.vocabulary, replace(constraint.options, spell_missing=True))
        )
        inner.budget.whole = constraint.budget.whole
        for number in range(WALKS):
            if limit is not None and 4 * spent > limit:
                break
            left = inner.budget.left
            _walk(inner, number)
            spent += left - inner.budget.left
            if limit is not None:
                inner.budget.refill(limit)


def _heavy_parts(grammar: Grammar) -> list[Grammar]:
    """Return the parts of a grammar that look like much work, each as a grammar; the grammar itself if it is nothing
    else.
    """
    found = list(dict.fromkeys(symbol for symbol in grammar.symbols() if is_heavy(symbol)))
    if len(grammar.rules) == 1 and len(found) == 1:
        return [grammar]
    return [Grammar({"start": Rule("start", ((symbol,),))}, adopts=grammar.adopts) for symbol in found]


def _walk(constraint: Constraint, number: int) -> None:
    """Fill the masks along a walk: the first one is left to chance, the others hurry to the end."""
    vocabulary, picks, matcher = constraint.vocabulary, random.Random(number), Matcher(constraint)
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    for step in range(STEPS):
        matcher.fill_mask(bitmask)
        allowed = np.flatnonzero(np.unpackbits(bitmask[0].view(np.uint8), bitorder="little")).tolist()
        if not allowed:
            break
        hurries = number > 0 and step > 0
        matcher.advance(
            min(allowed[:1000], key=lambda token: _rank(vocabulary.tokens[token])) if hurries else picks.choice(allowed)
        )
        if matcher.is_finished():
            break


def _rank(token: bytes | None) -> int:
    return _SOON.find((token or b"")[:1]) % 99
