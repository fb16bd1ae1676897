"""A word drawn by the rules' weights: a probabilistic grammar over the rules of a constraint.

Of each rule an alternative is drawn by its weight, equal ones where none are given.  What a pattern or a schema derives
is a walk: some random symbols that may come next, then the shortest way to the end, which `budget` knows; so a
turn of a format with tools takes milliseconds, where counting its words would take hours.  A derivation that grows
beyond `up_to` symbols is drawn again.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from constrained.engine.plain import BODY, ESCAPE, UTF8, TextAt, edges_of
from constrained.errors import GrammarError, shown
from constrained.grammar import Grammar
from constrained.grammar.ir import Literal, Ref, Rule, Special
from constrained.regex.markers import ESCAPED
from constrained.work import metered, spend, working_on

from .words import Letter, spelled

if TYPE_CHECKING:
    from constrained.budget.lookahead import Lookahead
    from constrained.engine.compiled import CompiledGrammar
    from constrained.grammar.ir import Symbol as Part

TRIES = 1000
LONGEST = 24  # choices of a walk
TEXT = (0, 0, 0)  # among ranges of bytes: one of a text
LETTERS = range(0x20, 0x7F)
HEX_DIGITS = b"0123456789abcdef"

_kept: WeakKeyDictionary[CompiledGrammar, dict[Part, CompiledGrammar]] = WeakKeyDictionary()


def derive(
    constraint: CompiledGrammar, rng: random.Random, up_to: int, weights: Mapping[str, Sequence[float]]
) -> bytes:
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
    with metered(constraint.options.budget()), working_on(f"words of at most {shown(up_to)} symbols"):
        for _ in range(TRIES):
            word = _drawn(constraint, rng, up_to, weights)
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
    constraint: CompiledGrammar,
    rng: random.Random,
    up_to: int,
    weights: Mapping[str, Sequence[float]],
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
            found = _walked(constraint, _alone(constraint, part), rng, up_to - len(word))
            if found is None:
                return None
            word += found
        if len(word) > up_to or steps > 50 * (up_to + 1):
            return None
    return word


def _alone(constraint: CompiledGrammar, part: Part) -> CompiledGrammar:
    """Return the constraint of a single pattern or schema; kept with the whole one."""
    known = _kept.setdefault(constraint, {})
    found = known.get(part)
    if found is None:
        grammar: Grammar = Grammar({"start": Rule("start", ((part,),))}, adopts=constraint.grammar.adopts)
        found = known[part] = type(constraint)(grammar, constraint.vocabulary, constraint.options)
    return found


def _walked(constraint: CompiledGrammar, alone: CompiledGrammar, rng: random.Random, most: int) -> list[Letter] | None:
    """Return a walk of random length and the shortest way from there; of fewer steps where that is too long, None where
    it is too long from the start.
    """
    ways = alone.completions()
    word, states, choices = list[Letter](), [alone.begun(ways.tracker)], rng.randint(0, LONGEST)
    while choices > 0 and len(word) < most and (found := _stepped(constraint, ways.tracker, states[-1], rng)):
        word.append(found[0])
        states.append(found[1])
        choices -= found[2]
    names = constraint.vocabulary.names
    for length in range(len(word), -1, -1):
        rest = ways.way(states[length])
        if rest is not None and length + len(rest) <= most:
            return word[:length] + [names[ord(each) - 256] if ord(each) > 255 else ord(each) for each in rest]
    return None


def _stepped(
    constraint: CompiledGrammar, tracker: Lookahead, state: int, rng: random.Random
) -> tuple[Letter, int, bool] | None:
    """Return a random symbol that may come next, where it leads, and whether there was a choice; None where the text is
    at its end.
    """
    machines = [machine for machine, _ in tracker.configurations(state)]
    edges = [tracker._expand(machine) for machine in machines]
    choices: list[Any] = [*sorted({(low, high) for each in edges for low, high, _ in each.ranges})]
    choices += sorted({name for each in edges for name, _ in each.tokens})
    choices += [TEXT] * any(isinstance(machine, TextAt) for machine in machines)
    if not choices:
        return None
    chosen = rng.choice(choices)
    if isinstance(chosen, str):
        return chosen, tracker.step_token(state, constraint.vocabulary.special[chosen]), len(choices) > 1
    spend(20)
    texts = [machine for machine in machines if isinstance(machine, TextAt)]
    tried = (rng.randint(*chosen),) if chosen != TEXT else _likely(rng.choice(texts), rng)
    free = len(choices) > 1 or chosen == TEXT
    return next((byte, after, free) for byte in tried if (after := tracker.step_byte(state, byte)))


def _likely(text: TextAt, rng: random.Random) -> Iterator[int]:
    """Yield all bytes, in an order in which one comes early that goes on in a text, which not many may."""
    if text.place == BODY:
        yield from rng.sample(LETTERS, 8)
        lows = [low for low, _, _ in edges_of(text.language) if low < ESCAPED]
        firsts = {chr(low).encode(errors="surrogatepass")[0] for low in lows}
        yield from rng.sample(sorted(firsts), min(len(firsts), 8))
    elif text.place == UTF8:
        yield from rng.sample(range(0x80, 0xC0), 0x40)
    elif text.place == ESCAPE:
        yield from rng.sample(text.spelling.letters, len(text.spelling.letters))
    else:
        yield from rng.sample(HEX_DIGITS, len(HEX_DIGITS))
    yield from rng.sample(range(256), 256)
