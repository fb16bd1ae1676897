"""A word drawn by the rules' weights: a probabilistic grammar over the rules of a constraint.

Of each rule an alternative is drawn by its weight, equal ones where none are given; what a pattern or a schema derives
is drawn by length first, then uniformly among the words of that length.  A derivation that grows beyond `up_to` symbols
is drawn again.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from constrained.errors import GrammarError, shown
from constrained.grammar.ir import Grammar
from constrained.grammar.symbols import Literal, Ref, Rule, Special
from constrained.research.words import Letter, LetterAutomaton, spelled
from constrained.work import metered, working_on

if TYPE_CHECKING:
    from constrained.engine.constraint import Constraint
    from constrained.grammar.symbols import Symbol as Part

TRIES = 1000


def derive(constraint: Constraint, rng: random.Random, up_to: int, weights: Mapping[str, Sequence[float]]) -> bytes:
    """Return a word of at most `up_to` symbols; weights: rule → one number for each of its alternatives.

    Raises: GrammarError: weights of no rule, or of another number of alternatives; no derivation as short was found.
    """
    grammar = constraint.grammar
    if not isinstance(weights, Mapping):
        raise GrammarError(f"weights are {shown(weights)}", instead="a mapping of rules to numbers: {'start': [1, 2]}")
    for rule, given in weights.items():
        known = grammar.rules.get(rule)
        if known is None or not _fit(given, len(known.alternatives)):
            raise GrammarError(
                f"these are no weights of rule '{rule}'",
                because=f"it has {0 if known is None else len(known.alternatives)} alternatives",
                instead="one number, 0 or more, for each alternative in grammar.rules[rule]",
            )
    terminals: dict[Part, LetterAutomaton] = {}
    with metered(constraint.options.budget()), working_on(f"words of at most {shown(up_to)} symbols"):
        for _ in range(TRIES):
            word = _drawn(constraint, rng, up_to, weights, terminals)
            if word is not None:
                return spelled(word)
    raise GrammarError(
        f"no derivation of at most {up_to} symbols in {TRIES} draws",
        instead="a larger up_to, or smaller weights for what recurs",
    )


def _fit(given: object, count: int) -> bool:
    """Say whether these are so many weights, one of them above 0."""
    if not isinstance(given, Sequence) or len(given) != count:
        return False
    numbers = all(isinstance(weight, (int, float)) and 0 <= weight <= sys.float_info.max for weight in given)
    return numbers and any(given)


def _drawn(
    constraint: Constraint,
    rng: random.Random,
    up_to: int,
    weights: Mapping[str, Sequence[float]],
    terminals: dict[Part, LetterAutomaton],
) -> list[Letter] | None:
    """Return one derivation's word; None: it has grown too long."""
    grammar, word, steps = constraint.grammar, list[Letter](), 0
    pending: list[Part] = [Ref(grammar.start)]
    while pending:
        part, steps = pending.pop(), steps + 1
        if isinstance(part, Ref):
            alternatives = grammar.rules[part.rule].alternatives
            pending += reversed(rng.choices(alternatives, weights.get(part.rule))[0])
        elif (
            isinstance(part, Special)
            or isinstance(part, Literal)
            and part.text in constraint.vocabulary.special
            and part.text in grammar.specials
        ):
            word.append(part.name if isinstance(part, Special) else part.text)
        elif isinstance(part, Literal):
            word += part.text.encode()
        else:
            if part not in terminals:
                terminals[part] = LetterAutomaton(_alone(constraint, part))
            found = _of_some_length(terminals[part], rng, up_to - len(word))
            if found is None:
                return None
            word += found
        if len(word) > up_to or steps > 50 * (up_to + 1):
            return None
    return word


def _alone(constraint: Constraint, part: Part) -> Constraint:
    """Return the constraint of a single pattern or schema."""
    return type(constraint)(
        Grammar({"start": Rule("start", ((part,),))}, adopts=constraint.grammar.adopts),
        constraint.vocabulary,
        constraint.options,
    )


def _of_some_length(automaton: LetterAutomaton, rng: random.Random, most: int) -> list[Letter] | None:
    lengths = [length for length in range(most + 1) if automaton.count(automaton.start, length)]
    if not lengths:
        return None
    state, word = automaton.start, list[Letter]()
    for left in range(rng.choice(lengths), 0, -1):
        moves = automaton.moves(state)
        symbols, state = rng.choices(
            moves, [len(symbols) * automaton.count(after, left - 1) for symbols, after in moves]
        )[0]
        word.append(rng.choice(symbols))
    return word
