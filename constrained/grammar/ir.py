"""The one form of every grammar: rules in BNF over a handful of symbols, frozen.

Lark files, regular expressions, JSON Schemas and bound tools all become a `Grammar`; lowering, printing and exporting
read nothing else.  A word is a sequence of bytes and special tokens.  Repeats, options and groups are gone (readers
spell them as rules), so that each consumer has five kinds of symbol to treat and no precedence to think about.

Left out: names of tree nodes, priorities, everything that shapes a parse tree but not the language.

A symbol is a text, any text of a language, a special token, whatever a rule derives, or whatever a machine of another
layer accepts.

Whoever writes rules by hand may write anything, so `check_fields` looks at all parts: 0.3 µs a symbol, which readers
and operations pay too, though they make none that is wrong.  Whether a grammar has words, `lower` finds.

Tested by `tests/test_lark.py` and by every test that compiles a grammar.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from constrained.errors import GrammarError, shown
from constrained.machine import State, Widened
from constrained.once import once
from constrained.regex import Expr
from constrained.regex.facts import LARGE_PATTERN, size
from constrained.tables import table

if TYPE_CHECKING:
    from typing import Self


class EmbeddedLanguage(Protocol):
    """A language that another layer lowers and prints itself: JSON text of a schema, for example.

    A machine may have `markers`, texts that can be special tokens, and then has ``with_specials(names)``, which returns
    the same language with some of them as tokens; and `specials`, the names of those that it writes in any case.
    """

    @property
    def widened(self) -> tuple[Any, ...]: ...

    def state(self) -> State:
        """Return the start state, which never accepts the empty word; called when a generation first gets there."""
        ...

    def to_lark(self, prefix: str, *, lookahead: bool = True) -> list[str]:
        """Return Lark definitions; the first one defines the rule `prefix`, the names of all others start with it and
        "_".

        lookahead: whether terminals may look ahead, which shortens much.
        Lines ``// wider: reason`` and ``// narrower: reason`` say where they differ from the machine's language.
        """
        ...


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, in UTF-8; or the special token of that name, if the grammar counts it among its `specials`."""

    text: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """Any text of a language, in UTF-8.

    `source` is a Python regular expression for people and printers.  Of a part of a terminal
    (`lark.lookahead`) it is the terminal's, after a comment that tells the parts apart.  Invariant: equal
    sources mean equal languages.
    """

    language: Expr
    source: str
    # the name of the terminal, if it is read as its longest match only; see `lark.lookahead`
    narrowed: str | None = None


@dataclass(frozen=True, slots=True)
class Special:
    """A special token that has no spelling in the grammar, by its name in the vocabulary."""

    name: str


@dataclass(frozen=True, slots=True)
class Ref:
    """Whatever a rule derives."""

    rule: str


@dataclass(frozen=True, slots=True)
class Embedded:
    """Whatever a machine of another layer accepts; never the empty word."""

    name: str
    machine: EmbeddedLanguage


Symbol = Literal | Pattern | Special | Ref | Embedded
Sequence = tuple[Symbol, ...]  # () derives the empty text


@dataclass(frozen=True, slots=True)
class Rule:
    """A name and what it derives: any of the alternatives."""

    name: str
    alternatives: tuple[Sequence, ...]


def texts_of(symbol: Symbol) -> Collection[str]:
    """Return the texts of a symbol that can be special tokens."""
    if isinstance(symbol, Embedded):
        markers: frozenset[str] = getattr(symbol.machine, "markers", frozenset())
        return markers
    return (symbol.text,) if isinstance(symbol, Literal) else ()


def is_heavy(symbol: Symbol) -> bool:
    """Say whether a symbol looks like much work."""
    if isinstance(symbol, Embedded):
        return bool(getattr(symbol.machine, "heavy", False))
    return isinstance(symbol, Pattern) and size(symbol.language) >= LARGE_PATTERN


def identity(symbol: Symbol) -> object:
    """Return what distinguishes a symbol, in terms that print the same in every process."""
    if isinstance(symbol, Pattern):
        return ("pattern", symbol.source)
    if isinstance(symbol, Embedded):
        return ("embedded", getattr(symbol.machine, "fingerprint", None) or symbol.machine.to_lark("value"))
    return symbol


def named_within(symbol: Symbol) -> frozenset[str]:
    """Return the special tokens that an embedded machine writes and cannot do without."""
    return frozenset(getattr(symbol.machine, "specials", ())) if isinstance(symbol, Embedded) else frozenset()


def name_of(symbol: Symbol) -> str:
    """Return what a symbol is called, for people who debug."""
    match symbol:
        case Literal(text):
            return text
        case Pattern(source=source):
            return f"/{source}/"
        case Ref(rule):
            return rule
        case Special(name) | Embedded(name):
            return f"<{name}>"


_NAMED = {Literal: "text", Special: "name", Ref: "rule", Pattern: "source", Embedded: "name"}  # a text in each
_FIELDS = {"start": str, "widened": tuple, "adopts": bool, "cut": tuple}
_ASKED = {Pattern: ("language", "edges"), Embedded: ("machine", "state")}  # a part, and what it must have
_SURROGATE = re.compile("[\ud800-\udfff]")
_SYMBOLS = "Literal, Pattern, Special, Ref or Embedded"


def check_fields(grammar: Any) -> None:
    """Look at what a grammar was given.

    Raises: GrammarError: for the first thing that is something else.
    """
    for name, kind in _FIELDS.items():
        given = getattr(grammar, name)
        if not isinstance(given, kind):
            raise _wrong(f"{name} of a grammar is", given, f"a {kind.__name__}")
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
                kind = type(symbol)  # nearly all are of these two kinds, whose texts are looked at here
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
    if type(given) is frozenset and not given:  # of nearly all grammars
        return given
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        listed = list(given)
        if {str}.issuperset(map(type, listed)) or all(isinstance(name, str) for name in listed):
            return frozenset(listed)
    raise _wrong(f"{what} are", given, 'a collection of names: ["<s>", "</s>"]')


def _wrong(what: str, given: object, instead: str) -> GrammarError:
    return GrammarError(f"{what} {shown(given)}", instead=instead)


class Leading(NamedTuple):
    """A text that words begin with, behind `begins`, if they begin with that, and that `until` ends: within `most`
    tokens from their beginning, in generations.
    """

    until: str
    most: int
    begins: str = ""


@dataclass(frozen=True, eq=False)
class Productions:
    """A context-free language of bytes and special tokens; what people do with it is in `Grammar`, a subclass.

    specials: the special tokens of its words: literals that stand for one, and all `Special` symbols.
    widened: where the language is larger than what was asked for, what the embedded machines report included.
    source: the text it was read from, where there is one.
    adopts: literals with the spelling of a special token are that token in every vocabulary that has it.  Not so in a
    Lark text, which may be a stranger's: there only those among `specials` are.
    stops: those of `specials` that end a turn of a chat format; generation ends with them, whatever else the tokenizer
    knows as its end.
    cut: entries of `narrowed` that no symbol reports, because the grammar was printed and read again.
    limit: a text that its words begin with, generations end it in time; the language is the same; see `Leading`.
    frame: a grammar that shares most rules with this one, the same objects, which need not be laid out again (`lower`).
    recipe: the call that made it, a name and its arguments, with which `Constraint.save` writes it down; None where
    rules were written by hand or changed afterwards.

    Pickled grammars, as all pickles, are programs to whoever loads them: load only what you have written; let others
    send Lark or JSON.

    Invariant: `start` and every `Ref` name a rule; rules[name].name == name.
    """

    rules: Mapping[str, Rule]
    start: str = "start"
    specials: frozenset[str] = frozenset()
    widened: tuple[Any, ...] = ()
    source: str | None = None
    adopts: bool = True
    stops: frozenset[str] = frozenset()
    cut: tuple[Any, ...] = ()
    limit: Leading | None = None
    frame: Any = field(default=None, repr=False)
    recipe: tuple[Any, ...] | None = field(default=None, init=False, repr=False)
    _symbols: tuple[Symbol, ...] = field(default=(), init=False, repr=False)  # of all rules, in order, with repetitions

    def __post_init__(self) -> None:
        check_fields(self)
        named, declared, widened = [self.start], set(self.specials), []
        sequences = chain.from_iterable([rule.alternatives for rule in self.rules.values()])
        object.__setattr__(self, "_symbols", tuple(chain.from_iterable(sequences)))
        for symbol in self._symbols:
            if type(symbol) is Ref:
                named.append(symbol.rule)
            elif type(symbol) is Special:
                declared.add(symbol.name)
            elif type(symbol) is Embedded:
                declared.update(getattr(symbol.machine, "specials", ()))  # that it cannot do without
                if symbol.machine.widened:
                    widened += [entry for entry in symbol.machine.widened if entry not in self.widened]
        for name in named:
            if name not in self.rules:
                options = ", ".join(sorted(self.rules)) or "none"
                raise GrammarError(f"rule '{name}' is used but not defined", instead=f"one of: {options}")
        object.__setattr__(self, "specials", frozenset(declared))
        object.__setattr__(self, "stops", frozenset(self.stops))
        object.__setattr__(self, "widened", (*self.widened, *widened))

    def replace(self, rule: str, alternatives: Collection[Sequence], extra: Collection[Rule] = ()) -> Self:
        """Return this grammar with other alternatives for one rule, and with `extra` rules (new, or in place of old
        ones).
        """
        if not isinstance(rule, str) or rule not in self.rules:
            raise GrammarError(f"rule {shown(rule)} is not defined", instead=f"one of: {', '.join(sorted(self.rules))}")
        new = Rule(rule, tuple(alternatives) if isinstance(alternatives, Iterable) else alternatives)
        return replace(self, rules={**self.rules, **rules_of(extra), rule: new})

    def made_by(self, *call: Any) -> Self:
        """Note the call that has just made this grammar; nobody else has seen it yet."""
        object.__setattr__(self, "recipe", call)
        return self

    def with_specials(self, names: Collection[str]) -> Self:
        """Return this grammar with its literals among `names` read as special tokens.

        >>> from constrained import Grammar
        >>> Grammar.from_lark('start: "hi" "<end>"').with_specials(["<s>", "<end>"]).specials
        frozenset({'<end>'})
        """
        # Most have no such texts, and the names are hundreds
        adopted = self._texts and self._texts.intersection(names_of(names, "special tokens"))
        if not adopted:
            return self
        specials = self.specials | adopted
        known: Self | None = self._variants.get(specials)
        return known or cast("Self", self._variants.setdefault(specials, replace(self, specials=specials)))

    @once
    def _texts(self) -> frozenset[str]:
        """What can be read as special tokens, and is not yet."""
        return frozenset().union(*map(texts_of, self._symbols)) - self.specials

    @once
    def _variants(self) -> dict[frozenset[str], Any]:
        """Grammars with other literals read as special tokens, by their set; a vocabulary always asks for the same."""
        return {}

    def without_specials(self, names: Collection[str]) -> Self:
        """Return this grammar with some special tokens spelled as text.

        Raises: GrammarError: for tokens that the grammar only declares, which have no spelling.
        """
        names = names_of(names, "special tokens")
        left = self.specials.difference(names)
        known: Self | None = self._variants.get(left)
        if known is not None:
            return known
        for symbol in self._symbols:
            lost = ({symbol.name} if isinstance(symbol, Special) else named_within(symbol)) & names
            if lost:
                what = f"special token {min(lost)!r} has no spelling"
                raise GrammarError(what, because="the grammar only declares it")
        spelled = replace(self, specials=left, stops=self.stops.difference(names))
        return cast("Self", self._variants.setdefault(left, spelled))

    def __repr__(self) -> str:
        made = "" if self.recipe is None else f" by {self.recipe[0]}"
        names = ", ".join([name for name in self.rules if not name.startswith("_")][:6])
        rules = f"{len(self.rules)} rule{'s' * (len(self.rules) > 1)}"
        return f"<Grammar{made}, {rules}: {names}{', …' * (len(self.rules) > 6)}>"

    def _repr_html_(self) -> str:
        made, specials = None if self.recipe is None else self.recipe[0], " ".join(sorted(self.specials)) or None
        return table({"made by": made, "rules": " ".join(self.rules), "special tokens": specials, "text": self.source})

    # -- asking --------------------------------------------------------------------------------------------------------

    def symbols(self) -> Iterator[Symbol]:
        """Yield the symbols of all rules, in order, with repetitions."""
        return iter(self._symbols)

    @property
    def narrowed(self) -> tuple[Any, ...]:
        """Where the language is smaller than what was asked for: (pointer, keyword, reason), as the embedded machines
        report it.

        What was asked for stands nowhere: an order of properties, a style of whitespace, closed arguments.  Of a Lark
        text, terminals whose look-ahead makes more demands than can be followed stand here: they end where no longer
        match is possible.
        """
        names = dict.fromkeys(
            symbol.narrowed for symbol in self._symbols if isinstance(symbol, Pattern) and symbol.narrowed is not None
        )
        longest = [
            Widened(name, "look-ahead", "it makes too many demands, so only the longest match is read, as a lexer does")
            for name in names
        ]
        embedded = [symbol.machine for symbol in self._symbols if isinstance(symbol, Embedded)]
        by_machines = [entry for machine in embedded for entry in getattr(machine, "narrowed", ())]
        return tuple(dict.fromkeys([*self.cut, *longest, *by_machines]))

    @property
    def notes(self) -> tuple[Any, ...]:
        """Words of embedded schemas that have no meaning and may be thought to: misspelt keywords, unknown formats,
        `nullable`.
        """
        embedded = [symbol.machine for symbol in self._symbols if isinstance(symbol, Embedded)]
        return tuple(dict.fromkeys([entry for machine in embedded for entry in getattr(machine, "notes", ())]))

    @once
    def heavy(self) -> tuple[Symbol, ...]:
        """Embedded machines and patterns that look like so much work that `compile` tries them, see `engine.prepare`.

        Patterns of a chat format do not count: nobody but its author writes them.
        """
        own = self.recipe is not None and self.recipe[0] == "format"
        asked = [symbol for symbol in self._symbols if type(symbol) is Embedded or type(symbol) is Pattern and not own]
        return tuple(dict.fromkeys(filter(is_heavy, asked)))

    @once
    def has_own_rules(self) -> bool:
        """Whether it has rules or patterns, of no chat format: nothing says what these take until masks are made."""
        return not self.stops and not {Embedded, Ref}.issuperset(map(type, self._symbols))

    @property
    def weight(self) -> int:
        """Estimated bytes of Python objects that the embedded machines keep alive."""
        embedded = [symbol.machine for symbol in self._symbols if isinstance(symbol, Embedded)]
        return sum([getattr(machine, "weight", 0) for machine in embedded])

    @once
    def fingerprint(self) -> str:
        """A name of the content: equal fingerprints mean equal grammars, in any process."""
        digest = hashlib.sha256(repr((self.start, sorted(self.specials), sorted(self.stops), self.limit)).encode())
        for name in sorted(self.rules):
            digest.update(
                repr((name, [[identity(symbol) for symbol in s] for s in self.rules[name].alternatives])).encode()
            )
        return digest.hexdigest()

    def __reduce__(self) -> tuple[object, ...]:
        fields = self.start, self.specials, self.widened, self.source, self.adopts, self.stops, self.cut, self.limit
        values = (dict(self.rules), *fields)
        return (type(self), values) if self.recipe is None else (type(self), values, {"recipe": self.recipe})
