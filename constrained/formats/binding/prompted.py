"""The quotient of a grammar by a prompt that has already written the beginning of a turn.

Templates end a prompt behind the assistant's header, or some way into the turn: inside a thought (``<think>``), behind
an empty one, at a mark such as ``>>>``.  A format's grammar derives whole turns; here it is divided by that beginning
from the left, so where a prompt ends need not be spelled out in any grammar, and whatever a caller wrote for the model
beforehand is treated alike.

Works on rules before tools are bound, symbol by symbol and character by character; a text inside a pattern leaves the
derivative of its language.  Left out: a prompt that ends inside a call, whose arguments are no rules.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from constrained.errors import GrammarError
from constrained.formats.binding.rules import Alternatives, Sequence
from constrained.grammar import Embedded, Literal, Pattern, Ref, Special, Symbol
from constrained.work import metered, spend, working_on

MOST_WAYS = 1_000  # of reading a prompt


def after_prompt(rules: Alternatives, start: str, prompt: str, specials: Collection[str]) -> Alternatives:
    """Return the rules in which `start` derives what may follow the prompt.

    `specials`: the texts that are special tokens, in the prompt and among the literals of the rules.

    Cost: some 10 µs a character and way of reading it.
    Raises: GrammarError: no turn begins like this.  LimitExceeded: the prompt is too long for that.
    """
    ways: list[Sequence] = [(Ref(start),)]
    read = ""
    with metered(), working_on("the prompt"):
        for unit in _units(prompt, specials):
            spend(4 * len(ways))
            ways = _distinct(rest for way in ways for rest in _stepped(way, unit, rules, specials))
            read += unit
            if not ways or len(ways) > MOST_WAYS:
                raise GrammarError(
                    f"no turn of the format begins with {read!r}"
                    if not ways
                    else f"the prompt {prompt!r} can be read in too many ways",
                    instead="what the prompt holds behind the assistant's header, outside of calls",
                )
    return {**rules, start: tuple(ways)}


def _units(prompt: str, specials: Collection[str]) -> list[str]:
    """Return the special tokens and single characters of a prompt."""
    names = sorted(specials, key=len, reverse=True)
    return [match[0] for match in re.finditer("|".join([*map(re.escape, names), r"[\s\S]"]), prompt)]


def _distinct(ways: Iterator[Sequence]) -> list[Sequence]:
    return list(dict.fromkeys(ways))


def _stepped(way: Sequence, unit: str, rules: Alternatives, specials: Collection[str]) -> Iterator[Sequence]:
    """Yield what is left of a sequence behind a character or a special token."""
    work, seen = [way], {way}
    while work:
        sequence = work.pop()
        if not sequence:
            continue
        first, rest = sequence[0], sequence[1:]
        if isinstance(first, Ref):
            expanded = [(*alternative, *rest) for alternative in rules[first.rule]]
            work += [new for new in reversed(expanded) if new not in seen]
            seen.update(expanded)
            continue
        left = _left_of(first, unit, specials)
        if left is not None:
            yield (*left, *rest)
        if isinstance(first, Pattern) and first.language.accepts and rest not in seen:
            seen.add(rest)
            work.append(rest)


def _left_of(symbol: Symbol, unit: str, specials: Collection[str]) -> Sequence | None:
    """Return what is left of a symbol; None where it does not begin like this."""
    if isinstance(symbol, Special) or (isinstance(symbol, Literal) and symbol.text in specials):
        return () if unit == (symbol.name if isinstance(symbol, Special) else symbol.text) else None
    if unit in specials or isinstance(symbol, Embedded):
        return None
    if isinstance(symbol, Literal):
        if not symbol.text.startswith(unit):
            return None
        return (Literal(symbol.text[len(unit) :]),) if len(symbol.text) > len(unit) else ()
    assert isinstance(symbol, Pattern)
    point = ord(unit)
    for low, high, language in symbol.language.edges():
        if low <= point <= high:
            if language is symbol.language:  # as in any text: its source need not grow by every character
                return (symbol,)
            return (Pattern(language, f"(?#behind {point:x}){symbol.source}"),)
    return None
