"""Whether the parts of a grammar are what they must be: whoever writes rules by hand may write anything.

Cost: 0.3 µs a symbol, which readers and operations pay too, though they make none that is wrong.  Left out: whether a
grammar has words, which `lower` finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any

from constrained.errors import GrammarError, shown
from constrained.grammar.symbols import Embedded, Literal, Pattern, Ref, Rule, Special

_NAMED = {Literal: "text", Special: "name", Ref: "rule", Pattern: "source", Embedded: "name"}  # a text in each
_FIELDS = {"start": str, "widened": tuple, "adopts": bool, "cut": tuple}
_ASKED = {Pattern: ("language", "edges"), Embedded: ("machine", "state")}  # a part, and what it must have
_SURROGATE = re.compile("[\ud800-\udfff]")
_SYMBOLS = "Literal, Pattern, Special, Ref or Embedded"


def check_fields(grammar: Any) -> None:
    """Look at what a grammar was given.

    Raises: GrammarError: for the first thing that is something else.
    """
    for field, kind in _FIELDS.items():
        given = getattr(grammar, field)
        if not isinstance(given, kind):
            raise _wrong(f"{field} of a grammar is", given, f"a {kind.__name__}")
    if not isinstance(grammar.source, (str, NoneType)):
        raise _wrong("source of a grammar is", grammar.source, "the text that it was read from, or None")
    names_of(grammar.specials, "specials of a grammar")
    names_of(grammar.stops, "stops of a grammar")
    _check_rules(grammar.rules)


def _check_rules(rules: Any) -> None:
    if type(rules) is not dict and not isinstance(rules, Mapping):
        raise _wrong("rules are", rules, '{"start": Rule("start", ((Literal("a"),),))}')
    for name, rule in rules.items():
        if type(rule) is not Rule or type(name) is not str or rule.name != name:
            raise _wrong(f"rule {shown(name)} is", rule, "a Rule of that name: Rule(name, alternatives)")
        alternatives: Any = rule.alternatives
        for sequence in alternatives if type(alternatives) is tuple else (alternatives,):
            if type(sequence) is not tuple:
                raise _wrong(f"an alternative of rule '{name}' is", sequence, "tuples of symbols, in a tuple")
            for symbol in sequence:
                kind = type(symbol)  # PERF: nearly all are of these two kinds, whose texts are looked at here
                if not (
                    kind is Ref and type(symbol.rule) is str
                    or kind is Literal and type(symbol.text) is str and symbol.text.isascii()
                ):
                    _check_symbol(name, symbol)


def _check_symbol(rule: str, symbol: Any) -> None:
    text = _NAMED.get(type(symbol))
    if text is None:
        raise _wrong(f"a symbol of rule '{rule}' is", symbol, f'{_SYMBOLS}; of a text: Literal("…")')
    value = getattr(symbol, text)
    if not isinstance(value, str) or (type(symbol) is Literal and _SURROGATE.search(value)):
        raise _wrong(f"the {text} of a {type(symbol).__name__} in rule '{rule}' is", value, "a str that bytes spell")
    part, needed = _ASKED.get(type(symbol), (text, "__len__"))
    if not hasattr(getattr(symbol, part), needed):
        instead = "Grammar.from_regex(…), Grammar.from_json_schema(…), which make such symbols"
        raise _wrong(f"the {part} of a {type(symbol).__name__} in rule '{rule}' is", getattr(symbol, part), instead)


def rules_of(given: Any) -> dict[str, Rule]:
    """Return rules by their names."""
    listed = list(given) if isinstance(given, Iterable) else [given]
    for rule in listed:
        if not isinstance(rule, Rule):
            raise _wrong("a rule is", rule, "Rule(name, alternatives)")
    return {rule.name: rule for rule in listed}


def names_of(given: object, what: str) -> frozenset[str]:
    """Return names of special tokens as a set.

    Raises: GrammarError: they are something else; one text alone would be taken for its letters.
    """
    if type(given) is frozenset and not given:  # PERF: of nearly all grammars
        return given
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        listed = list(given)
        if {str}.issuperset(map(type, listed)) or all(isinstance(name, str) for name in listed):
            return frozenset(listed)
    raise _wrong(f"{what} are", given, 'a collection of names: ["<s>", "</s>"]')


def _wrong(what: str, given: object, instead: str) -> GrammarError:
    return GrammarError(f"{what} {shown(given)}", instead=instead)
