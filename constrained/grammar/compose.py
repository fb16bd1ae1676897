"""Grammars out of grammars: sequence, choice, repetition, and the small ones that are needed most beside them.

Each function returns a new grammar whose rules are those of its parts, renamed where they would meet, and a start rule
of its own. Words are sequences of bytes and special tokens, so parts may come from Lark, a schema, a regular
expression or a chat format.

Tested against the definitions, word by word (`tests/test_compose.py`).
Source of `substring_of`: suffix automata, A. Blumer et al., "The smallest automaton recognizing the subwords of a text"
(1985).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from constrained.errors import GrammarError, LimitExceeded, shown
from constrained.grammar.ir import (
    Embedded,
    Leading,
    Literal,
    Pattern,
    Productions,
    Ref,
    Rule,
    Symbol,
    texts_of,
)
from constrained.machine import Quoting, State, Text
from constrained.work import metered, place, spend, working_on

MOST_REPEATS = 10_000
MOST_COPIED = 500_000  # rules, into a grammar and into those that it was put together of
MOST_NAMED = 1_000  # characters of a name; grammars defined inside each other lengthen it
_OWN = re.compile(r"start|_?more(?:_\d+)?")  # rules that are added here
_Alternative = tuple[Symbol, ...]
Made = TypeVar("Made", bound=Productions)
_LEADING = 'Grammar.text(until="</think>", max_tokens=200) + the rest'


def sequence(first: Productions, second: Productions) -> Productions:
    """Return the words of the first, each followed by a word of the second; the limit of a leading text stays."""
    limit = first.limit if isinstance(first, Productions) else None
    parts = (first if limit is None else replace(first, limit=None), second)
    joined = _joined(parts, lambda one, two: ((one, two),), ends=(1,))
    object.__setattr__(joined, "limit", limit)
    return joined


def either(first: Productions, second: Productions) -> Productions:
    """Return the words of both."""
    return _joined((first, second), lambda one, two: ((one,), (two,)))


def optional(grammar: Productions) -> Productions:
    """Return the words of a grammar, and the empty one."""
    return _joined((grammar,), lambda one: ((), (one,)))


def repeated(grammar: Productions, least: int, most: int | None) -> Productions:
    """Return from `least` to `most` (None: any number) words of a grammar in a row.

    Raises: GrammarError: the bounds are no whole numbers, out of order, or above `MOST_REPEATS`.
    """
    for number in (least, *(() if most is None else (most,))):
        if type(number) is not int or not 0 <= number <= MOST_REPEATS:
            raise GrammarError(
                f"cannot repeat {shown(number, 50)} times",
                because=f"that is no number from 0 to {MOST_REPEATS:,}",
            )
    if most is not None and most < least:
        raise GrammarError(f"cannot repeat from {least} to {most} times", instead=f"from {most} to {least}")
    rules, (one,) = renamed((grammar,))
    # item_k derives up to k further words
    if most is None:
        rules["_more"] = Rule("_more", ((), (one, Ref("_more"))))
        last = "_more"
    else:
        spend(8 * (most - least + 1))
        for count in range(most - least + 1):
            rules[f"_more_{count}"] = Rule(f"_more_{count}", ((), (one, Ref(f"_more_{count - 1}"))) if count else ((),))
        last = f"_more_{most - least}"
    rules["start"] = Rule("start", (((one,) * least + (Ref(last),)),))
    return _grammar(rules, (grammar,), (0,) if most == 1 else ())


def choice(texts: Iterable[str]) -> Productions:
    """Return the grammar of some texts; none of them is read as a special token.

    Raises: GrammarError: there are no texts, or one is something else.
    """
    given = list(texts) if isinstance(texts, Iterable) and not isinstance(texts, (str, bytes)) else []
    if not given:
        because = f"{shown(texts)} is no list of texts" if not isinstance(texts, list) else None
        raise GrammarError("there is nothing to choose from", because=because, instead='["yes", "no"]')
    for text in given:
        _check_text(text)
    distinct = list(dict.fromkeys(given))
    filled = [text for text in distinct if text]
    alternatives: list[_Alternative] = [()] if len(filled) < len(distinct) else []
    if filled:
        with metered(), working_on(f"a choice of {len(filled):,} texts"):
            alternatives.append((_any_of(filled),))
    return Productions({"start": Rule("start", tuple(alternatives))})


def text(until: str | None = None, max_tokens: int | None = None) -> Productions:
    """Return the grammar of any text; with `until`, of text up to and with the first place where that stands.

    `until` is one token where the vocabulary has a special token of this name, else it is spelled out.  max_tokens: the
    limit of generations, `until` included.
    """
    if max_tokens is not None:
        if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
            raise GrammarError(f"max_tokens is {shown(max_tokens)}", because="it is a number of tokens, 1 or more")
        if until is None:
            because = "nothing says where such a text ends before its last token"
            raise GrammarError("max_tokens without until", because=because, instead="matcher(budget=…), or until=…")
        return replace(text(until), limit=Leading(until, max_tokens))
    if until is None:
        return Productions({"start": Rule("start", ((), (_pattern(r"[\s\S]+"),)))})
    _check_text(until)
    if not until:
        raise GrammarError("text until nothing", instead="text() for any text")
    # A text may not end with what, together with `until` behind it, holds `until` earlier: until = "aba" behind "ab".
    with metered(), working_on("text until a text"):
        return Productions({"start": Rule("start", ((Literal(until),), (_pattern(_before(until)), Literal(until))))})


def _before(until: str) -> str:
    """Return the pattern of what stands before the first place of a text.

    Cost: the lengths of what `until` both begins and ends with.
    """
    spend(len(until) ** 2 // 4096)  # letters that are compared
    marker = re.escape(until)
    overlaps = [size for size in range(1, len(until)) if until[size:] == until[: len(until) - size]]
    spend(sum(overlaps))
    behind = "".join(f"(?<!{re.escape(until[:size])})" for size in overlaps)
    return rf"(?:(?!{marker})[\s\S])+{behind}"


def substring_of(source: str) -> Productions:
    """Return the grammar of the non-empty texts that stand in `source` in one piece: verbatim quotes.

    Cost: some microseconds a character of the source, when a generation first gets there.
    """
    _check_text(source)
    if not source:
        raise GrammarError("an empty source has no quotes")
    return Productions({"start": Rule("start", ((Embedded("quote", Quotes(source)),),))})


def _joined(grammars: Sequence[Productions], alternatives: Any, ends: Sequence[int] = (0, 1)) -> Productions:
    grammars = _settled(grammars)
    rules, starts = renamed(grammars)
    rules["start"] = Rule("start", alternatives(*starts))
    return _grammar(rules, grammars, ends)


def _grammar(rules: dict[str, Rule], parts: Sequence[Productions], ends: Sequence[int]) -> Productions:
    """Return a grammar of some parts; what ends words of those that may come last (their places are `ends`) and stands
    nowhere else ends its own.
    """
    specials = frozenset(name for part in parts for name in part.specials)
    inside = frozenset(
        name for at, part in enumerate(parts) for name in part.specials - (part.stops if at in ends else frozenset())
    )
    widened = tuple(entry for part in parts for entry in part.widened)
    stops = frozenset(name for part in parts for name in part.stops) - inside
    cut = tuple(entry for part in parts for entry in part.cut)
    copied = len(rules) + sum([part.__dict__.get("_copied", 0) for part in parts])
    if copied > MOST_COPIED:
        raise LimitExceeded(
            "too many grammars are put together, one after another",
            where=place() or f"a grammar of {len(rules):,} rules",
            because=f"rules were copied {copied:,} times, the limit is {MOST_COPIED:,}",
            instead="halves of halves, (a + b) + (c + d), or from_lark(text, define={…})",
        )
    adopts = all(part.adopts for part in parts)
    composed = Productions(rules, "start", specials, widened, adopts=adopts, stops=stops, cut=cut)
    object.__setattr__(composed, "_copied", copied)
    return composed


def adopting(grammar: Productions) -> bool:
    """Say whether a vocabulary may read some text of a grammar as a special token that the grammar does not name."""
    return grammar.adopts and any(texts_of(symbol) for symbol in grammar.symbols())


def _settled(grammars: Sequence[Productions]) -> Sequence[Productions]:
    """Return parts that may stand in one grammar: beside one that adopts special tokens, the texts of those that do not
    are written as patterns.
    """
    if (
        not all(isinstance(grammar, Productions) for grammar in grammars)
        or all(grammar.adopts for grammar in grammars)
        or not any(map(adopting, grammars))
    ):
        return grammars
    return [
        grammar if grammar.adopts else replace(grammar, rules=as_text(grammar.rules, grammar.specials), adopts=True)
        for grammar in grammars
    ]


def as_text(rules: Mapping[str, Rule], specials: Collection[str]) -> dict[str, Rule]:
    """Return rules whose literals, but for those among `specials`, no vocabulary reads as special tokens."""
    def settled(symbol: Symbol) -> Symbol:
        return (
            _any_of([symbol.text])
            if isinstance(symbol, Literal) and symbol.text and symbol.text not in specials
            else symbol
        )

    return {
        name: Rule(name, tuple(tuple(map(settled, sequence)) for sequence in rule.alternatives))
        for name, rule in rules.items()
    }


def renamed(grammars: Sequence[Productions], prefix: str | None = None) -> tuple[dict[str, Rule], list[Ref]]:
    """Return the rules of all grammars under names of their own, and where each begins.

    prefix: of all names; None: a name that one grammar has alone stays, so that captures are found under it.
    """
    rules: dict[str, Rule] = {}
    starts = []
    with metered(), working_on("grammars that are put together"):
        for grammar in grammars:
            if not isinstance(grammar, Productions):
                instead = "Grammar.choice([…]) for texts, Grammar.from_json_schema(…) for types and schemas"
                raise GrammarError(f"not a grammar: {type(grammar).__name__}", instead=instead)
            if grammar.limit is not None:
                because = "its tokens are counted from the beginning of a word"
                raise GrammarError("a text with max_tokens would stand inside words", because=because, instead=_LEADING)
        met = Counter(name for grammar in grammars for name in grammar.rules)
        kept = {name for name, count in met.items() if count == 1 and prefix is None and not _OWN.fullmatch(name)}
        taken = set(kept)
        for number, grammar in enumerate(grammars):
            names = {}
            for name in grammar.rules:
                spend(4)
                names[name] = name if name in kept else _free(name, f"{prefix or 'part'}{number}_", taken)
                if prefix is not None and len(names[name]) > MOST_NAMED:
                    raise LimitExceeded(
                        "grammars are defined inside each other too deeply", where=f"rule {names[name]:.40}…",
                        because=f"its name, with those around it, has more than {MOST_NAMED:,} characters",
                        instead="put them side by side, or give them shorter names",
                    )
                taken.add(names[name])
            refs = {old: Ref(new) for old, new in names.items() if old != new}
            for old, rule in grammar.rules.items():
                spend(3 + 2 * len(rule.alternatives))
                rules[names[old]] = _referring(rule, names[old], refs)
            starts.append(Ref(names[grammar.start]))
    return rules, starts


def _referring(rule: Rule, name: str, refs: Mapping[str, Ref]) -> Rule:
    """Return a rule under a name, with references of its own; the rule itself where nothing changes."""
    if name == rule.name and not any(
        type(symbol) is Ref and symbol.rule in refs for sequence in rule.alternatives for symbol in sequence
    ):
        return rule
    alternatives = [
        tuple([refs.get(symbol.rule, symbol) if type(symbol) is Ref else symbol for symbol in sequence])
        for sequence in rule.alternatives
    ]
    return Rule(name, tuple(alternatives))


def _free(name: str, prefix: str, taken: Collection[str]) -> str:
    """Return a name with a prefix that nobody has; what is hidden from captures stays so."""
    hidden = "_" if name.startswith("_") else ""
    name = prefix + name.removeprefix("_")
    while hidden + name in taken:
        name = prefix + name
    return hidden + name


def _pattern(source: str) -> Pattern:
    from constrained.regex import parse_python

    return Pattern(parse_python(source), source)


def _any_of(texts: Collection[str]) -> Pattern:
    """Return the symbol of some texts, none of which is read as a special token: a finite set, which nobody parses."""
    from constrained.regex import literals

    return Pattern(literals(texts), "|".join(map(re.escape, texts)))


def _check_text(value: object) -> None:
    if not isinstance(value, str):
        raise GrammarError(f"not a text: {type(value).__name__}", instead="a str; for grammars, g1 | g2")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise GrammarError(
            f"{value[:50]!r} is no text", because="it holds a lone surrogate, which no bytes spell"
        ) from error


class Quotes:
    """The machine of the non-empty substrings of a text, as `Embedded` holds it; compared by content."""

    def __init__(self, source: str) -> None:
        self.source = source

    @property
    def widened(self) -> tuple[Any, ...]:
        """Nothing: the machine is exact."""
        return ()

    @cached_property
    def _edges(self) -> list[dict[str, int]]:
        return suffix_automaton(self.source)

    def state(self) -> State:
        return Text(Quoting.RAW, Quote(self, 0))

    @property
    def fingerprint(self) -> str:
        """A name of the content."""
        return repr(("quotes", self.source))

    def to_lark(self, prefix: str, *, lookahead: bool = True) -> list[str]:
        """Refuse: a suffix automaton as rules would take one for each character.

        Raises: GrammarError: always.
        """
        raise GrammarError(
            "cannot print the quotes of a text as Lark", because="it would take a rule for each of its characters"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quotes) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)

    def __reduce__(self) -> tuple[Any, ...]:
        return Quotes, (self.source,)


@dataclass(frozen=True, slots=True)
class Quote:
    """A language of code points: what may follow within the source; `at` is a state of its suffix automaton."""

    quotes: Quotes
    at: int

    @property
    def accepts(self) -> bool:
        return self.at != 0

    def edges(self) -> tuple[tuple[int, int, Quote], ...]:
        places = self.quotes._edges[self.at]
        return tuple((ord(char), ord(char), Quote(self.quotes, places[char])) for char in sorted(places))

    def mask_key(self, horizon: int) -> Hashable:
        return self


def suffix_automaton(source: str) -> list[dict[str, int]]:
    """Return the edges of the smallest automaton whose paths from state 0 are the substrings of a text.

    >>> [sorted(edges) for edges in suffix_automaton("aba")]
    [['a', 'b'], ['b'], ['a'], []]
    """
    edges: list[dict[str, int]] = [{}]
    link, length = [-1], [0]
    last = 0
    for char in source:
        spend(2)
        new = len(edges)
        edges.append({})
        link.append(0)
        length.append(length[last] + 1)
        at = last
        while at >= 0 and char not in edges[at]:
            edges[at][char] = new
            at = link[at]
        if at >= 0:
            target = edges[at][char]
            if length[target] == length[at] + 1:
                link[new] = target
            else:
                twin = len(edges)
                edges.append(dict(edges[target]))
                link.append(link[target])
                length.append(length[at] + 1)
                while at >= 0 and edges[at].get(char) == target:
                    edges[at][char] = twin
                    at = link[at]
                link[target] = link[new] = twin
        last = new
    return edges


def of_machine(machine: Any, made: type[Made]) -> Made:
    """Return the grammar of a schema's machine: a rule "start" that is nothing but the symbol of the machine."""
    return made({"start": Rule("start", ((Embedded("value", machine),),))}).made_by("schema", machine)
