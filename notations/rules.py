"""Rules in another notation → Lark text, and where each line of it stands in the user's text: what all notations share.

A notation is a Lark grammar whose trees have the names of `Reading`'s methods, and a subclass that reads its literals.
A part of a rule becomes the Lark text of it, so the reader of Lark files does the rest: repeats, limits, words.

    root ::= "a" item{2,}          root: "a" item~2 item*
    item ::= [^\\n]          ──►    item: /[^\\n]/           and: line 2 is the user's line 2 column 10

What a Lark text cannot say, "these texts but not those", is `computed` afterwards from rules that are regular.

Each alternative is a line of its own, so an error at a line of the Lark text is one at the alternative in the user's.

Tests: tests/test_notations.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

from lark import Lark, Token, Tree, UnexpectedInput

from constrained.errors import ConstrainedError, GrammarError, LimitExceeded, shown
from constrained.grammar.ir import Literal, Pattern, Productions, Ref, Rule, names_of
from constrained.grammar.lark.reader import read as read_lark
from constrained.machine import Widened
from constrained.regex import Expr, char_class, concat, is_empty, literal, repeat, union
from constrained.regex.charset import negate, normal
from constrained.regex.show import pattern_text
from constrained.work import metered, spend, working_on

Place = tuple[int, int]  # line and column, from 1
MOST_LENGTH = 1_000_000  # characters of a text
MOST_DIGITS = 9  # of a count
_PLACE = re.compile(r"line (\d+) column (\d+)")


class Part(NamedTuple):
    """A part of a rule as Lark text, and where it begins in the user's."""

    text: str
    at: Place
    single: bool = True  # it needs no brackets before an operator


@dataclass(frozen=True, slots=True)
class Computed:
    """A rule whose texts are computed from those of other rules, all regular."""

    function: Callable[..., Expr]
    operands: tuple[str, ...]
    at: Place


@dataclass
class Translated:
    """A text of another notation as Lark text.

    `places`: where each of its lines stands in the user's text; `names`: what the user calls its rules; `computed` and
    `parts`: rules that it uses and does not define.
    """

    notation: str
    text: str
    places: list[Place]
    names: dict[str, str]
    specials: frozenset[str] = frozenset()
    computed: dict[str, Computed] = field(default_factory=dict)
    parts: dict[str, Productions] = field(default_factory=dict)
    file: str | None = None
    start: str = "start"
    widened: list[Widened] = field(default_factory=list)
    check: Callable[[Productions, Mapping[str, Expr | None]], list[Widened]] | None = None  # of the languages of rules

    def grammar(self) -> Productions:
        """Return the grammar.

        Raises: GrammarError, LimitExceeded: at a place of the user's text.
        """
        parts, widened = {**self.parts, **dict.fromkeys(self.computed, _ANYTHING)}, [*self.widened]
        found = self._read(parts)
        if self.computed or self.check is not None:
            with metered(), working_on(f"{self.notation} grammar"):
                made = expressions({name: rule.alternatives for name, rule in found.rules.items()}, self.computed)
                parts |= self._computed(made)
                if self.check is not None:
                    widened += self.check(found, made)
            found = self._read(parts)
        return replace(found, widened=(*found.widened, *widened)) if widened else found

    def _read(self, parts: Mapping[str, Productions]) -> Productions:
        try:
            return read_lark(self.text, self.start, self.specials, define=parts)
        except ConstrainedError as error:
            raise self._placed(error) from error

    def _computed(self, made: Mapping[str, Expr | None]) -> dict[str, Productions]:
        """Return the computed rules as grammars."""
        for name, rule in self.computed.items():
            if (expr := made[name]) is None:
                because = "what stands here must be a language without recursion, special tokens and schemas"
                raise self.error(rule.at, because, "rules that do not use themselves")
            if is_empty(expr):
                raise self.error(rule.at, "no text is left")
        return {name: of_expression(expr) for name in self.computed if (expr := made[name]) is not None}

    def _placed(self, error: ConstrainedError) -> ConstrainedError:
        """Return an error at a place of the Lark text as one of the user's."""
        at = _PLACE.search(error.where or "")
        words = {lark: name for lark, name in self.names.items() if lark != name}
        what = re.sub(r"'(\w+)'", lambda match: f"'{words.get(match[1], match[1])}'", error.what)
        what = what.replace("Lark grammar", f"{self.notation} grammar")
        where = error.where
        if at is not None:
            where = self.shown(self.places[min(int(at[1]), len(self.places)) - 1])
        elif where:
            where = where.replace("Lark grammar", f"{self.notation} grammar")
        return type(error)(what, where=where, because=error.because, instead=error.instead)

    def shown(self, at: Place) -> str:
        return f"{self.file + ' ' if self.file else ''}line {at[0]} column {at[1]}"

    def error(self, at: Place, because: str, instead: str | None = None) -> GrammarError:
        what = f"cannot read {self.notation} grammar"
        return GrammarError(what, where=self.shown(at), because=because, instead=instead)


class Reading:
    """Trees of a notation → Lark text.  A subclass says how the notation writes texts, classes and names."""

    notation = ""
    grammar = ""  # of the notation, in Lark, LALR
    ends = ""  # what Lark text may stand behind the whole

    def __init__(self, text: str, file: str | None, specials: Collection[str], start: str | None) -> None:
        self._start = start
        self._text, self._specials = text, frozenset(specials)
        self.out = Translated(self.notation, "", [], {}, self._specials, file=file)
        self._rules: dict[str, list[Part]] = {}  # by Lark name
        self._used: dict[str, Token] = {}
        self._names: dict[str, str] = {}  # of the user → Lark
        self._defined: dict[str, Place] = {}

    # -- what a subclass says ------------------------------------------------------------------------------------------

    def key(self, name: str) -> str:
        """Return a name such that equal ones are one rule."""
        return name

    def missing(self, name: str) -> str | None:
        """Return the definition, in the notation, of a rule that is used without one; None: there is none."""

    # -- names ---------------------------------------------------------------------------------------------------------

    def lark_name(self, name: str) -> str:
        key = self.key(name)
        if key not in self._names:
            stem = re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_")
            stem = stem if stem[:1].isalpha() else f"r_{stem}"
            found, number = stem, 0
            while found in self.out.names or found == "start" and key != self._start:
                number += 1
                found = f"{stem}_{number}"
            self._names[key] = found
            self.out.names[found] = name
        return self._names[key]

    def fresh(self, wanted: str) -> str:
        """Return the Lark name of a rule that the user does not write."""
        name = f"{wanted} {len(self._names)}"
        while self.key(name) in self._names:
            name += "x"
        return self.lark_name(name)

    def _value(self, tree: Any) -> Any:
        """Return what the method of a tree's name makes of its children; trees may be deeper than Python's stack."""
        todo: list[tuple[Any, list[Any], Any]] = [(tree, [], iter(tree.children))]
        while True:
            node, made, left = todo[-1]
            child = next(left, None)
            if isinstance(child, Tree):
                todo.append((child, [], iter(child.children)))
            elif child is not None:
                made.append(child)
            else:
                todo.pop()
                value = getattr(self, node.data)(*made)
                if not todo:
                    return value
                todo[-1][1].append(value)

    # -- trees ---------------------------------------------------------------------------------------------------------

    def start(self, *_: None) -> None:
        """All rules are defined."""

    def rule(self, name: Token, *rest: Any) -> None:
        self.define(name, rest[-1])

    def define(self, name: Token, alternatives: list[Part], *, more: bool = False) -> None:
        found, at = self.lark_name(str(name)), place(name)
        if found in self._rules and not more:
            first = self.out.shown(self._defined[found])
            raise self.error(name, f"rule '{name}' is defined twice, first at {first}")
        if found not in self._rules and more:
            raise self.error(name, f"there is no rule '{name}' yet that this could add to")
        self._rules.setdefault(found, []).extend(alternatives)
        self._defined.setdefault(found, at)

    def choice(self, *alternatives: Part) -> list[Part]:
        return list(alternatives)

    def sequence(self, *parts: Part | None) -> Part:
        found = [part for part in parts if part is not None and part.text]
        at = next((part.at for part in parts if part is not None), (1, 1))
        return Part(" ".join(part.text for part in found), at, len(found) == 1 and found[0].single)

    def group(self, alternatives: list[Part]) -> Part:
        if len(alternatives) == 1 and alternatives[0].single:
            return alternatives[0]
        return Part(f"({' | '.join(part.text for part in alternatives)})", alternatives[0].at)

    def optional(self, alternatives: list[Part]) -> Part:
        return self.maybe(self.group(alternatives))

    def maybe(self, part: Part) -> Part:
        return self.repeated(part, 0, 1)

    def star(self, part: Part) -> Part:
        return self.repeated(part, 0, None)

    def plus(self, part: Part) -> Part:
        return self.repeated(part, 1, None)

    def repeated(self, part: Part, least: int, most: int | None) -> Part:
        """Return a part that is repeated; an empty text stays empty."""
        if not part.text or most == 0:
            return Part("", part.at)
        body = part.text if part.single else f"({part.text})"
        operator = {(0, 1): "?", (0, None): "*", (1, None): "+", (1, 1): ""}.get((least, most))
        if operator is not None:
            return Part(body + operator, part.at, not operator)
        if most is None:
            return Part(f"{body}~{least} {body}*", part.at, single=False)
        return Part(f"{body}~{least}" + ("" if most == least else f"..{most}"), part.at, single=False)

    def counts(self, token: Token, least: str, most: str | None) -> tuple[int, int | None]:
        """Return bounds as numbers; least "": 0, most "": any number, most None: the same as least."""
        for digits in (least, most or ""):
            if len(digits) > MOST_DIGITS:
                raise LimitExceeded(
                    f"a count in a {self.notation} grammar is too large", where=self.out.shown(place(token)),
                    because=f"it has more than {MOST_DIGITS} digits", instead="a repeat without an end",
                )
        low = int(least or 0)
        high = low if most is None else int(most) if most else None
        if high is not None and high < low:
            raise self.error(token, f"the bounds of a repeat are {low} and {high}", "least first")
        return low, high

    def name(self, token: Token) -> Part:
        found = self.lark_name(str(token))
        self._used.setdefault(found, token)
        return Part(found, place(token))

    # -- literals ------------------------------------------------------------------------------------------------------

    def literal(self, token: Token, text: str) -> Part:
        """Return a text; one with the spelling of a special token is a text all the same."""
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise self.error(token, "a lone surrogate is no character")
        if text in self._specials:
            return self.pattern(token, "".join(_point(ord(char)) for char in text))
        return Part(quoted(text) if text else "", place(token))

    def any_case(self, token: Token, text: str) -> Part:
        """Return a text whose ASCII letters may be small or capital."""
        if not text.isascii() or not re.search("[A-Za-z]", text):
            return self.literal(token, text)
        both = [f"[{char.lower()}{char.upper()}]" if char.isalpha() else _point(ord(char)) for char in text]
        return self.pattern(token, "".join(both))

    def characters(self, token: Token, ranges: Iterable[tuple[int, int]], *, others: bool = False) -> Part:
        """Return any one character of some ranges, or any other one; none of them may be half of a pair."""
        listed = list(ranges)
        for low, high in listed:
            if low > high or high > 0x10FFFF:
                raise self.error(token, f"the range U+{low:04X} to U+{high:04X} is no range of characters")
        found = normal(listed)
        found = negate(found) if others else found
        text = "".join(_point(low) if low == high else f"{_point(low)}-{_point(high)}" for low, high in found)
        if not found:
            raise self.error(token, "no character is in this class")
        return self.pattern(token, f"[{text}]")

    def pattern(self, token: Token, source: str) -> Part:
        return Part(f"/{source}/", place(token))

    def special(self, token: Token, name: str) -> Part:
        """Return a special token, which the reader of the text must have given."""
        if name not in self._specials:
            raise self.error(
                token, f"{shown(name)} is a special token that nobody gave",
                f"specials=[{name!r}]; on the command line --special {name!r}",
            )
        return Part(quoted(name), place(token))

    def refuse(self, token: Token, what: str, instead: str | None = None) -> GrammarError:
        return self.error(token, f"{what} cannot be said here", instead)

    def error(self, token: Token | Place, because: str, instead: str | None = None) -> GrammarError:
        return self.out.error(place(token), because, instead)

    def computed(self, token: Token, function: Callable[..., Expr], *operands: list[Part]) -> Part:
        """Return a rule whose texts are computed from those of others."""
        names = []
        for alternatives in operands:
            names.append(self.fresh("operand"))
            self._rules[names[-1]] = alternatives
        found = self.fresh("computed")
        self.out.computed[found] = Computed(function, tuple(names), place(token))
        return Part(found, place(token))

    def part(self, token: Token, wanted: str, grammar: Productions) -> Part:
        """Return a rule that is a grammar of its own."""
        found = self.fresh(wanted)
        self.out.parts[found], self.out.names[found] = grammar, f"{token:.60}"
        return Part(found, place(token))

    # -- the whole -----------------------------------------------------------------------------------------------------

    def read(self) -> None:
        self._value(self._tree(self._text))
        while lacking := [name for name in self._used if name not in self._rules and name not in self.out.parts]:
            for name in lacking:
                self._add(name)

    def _add(self, name: str) -> None:
        token, last = self._used[name], len(self._defined)
        definition = self.missing(str(token))
        if definition is None:
            near = get_close_matches(str(token), [self.out.names[known] for known in self._defined], 1)
            instead = f"did you mean '{near[0]}'?" if near else None
            raise self.error(token, f"rule '{token}' is used but not defined", instead)
        self._value(self._tree(definition))
        for added in list(self._defined)[last:]:
            self._defined[added] = place(token)
            self._rules[added] = [part._replace(at=place(token)) for part in self._rules[added]]

    def _tree(self, text: str) -> Any:
        try:
            return parser(self.grammar).parse(text)
        except UnexpectedInput as error:
            token = getattr(error, "token", None)
            if token is not None and token.type == "$END" or error.line in (-1, "?"):
                lines = text.rstrip().split("\n")
                raise self.error((len(lines), len(lines[-1]) + 1), "unexpected end of text") from None
            said = str(token) if token is not None else text[error.pos_in_stream or 0]
            raise self.error((error.line, error.column), f"unexpected {shown(said)}") from None

    def translated(self) -> Translated:
        """Return the whole as Lark text, with the rule to start with first (none named: the first that is defined)."""
        named = [self.out.names[name] for name in self._defined]
        if not named:
            raise self.error((1, 1), "there is no rule in it")
        first = self._start or named[0]
        if self._names.get(self.key(first)) not in self._rules:
            near = get_close_matches(first, named, 1) or named[:1]
            raise self.error((1, 1), f"there is no rule '{first}' to start with", f"start={near[0]!r}")
        root = self._names[self.key(first)]
        lines: list[str] = []
        if root != "start" or self.ends:
            self.out.start = "start" if root != "start" else self.fresh("whole")
            lines.append(f"{self.out.start}: {root}{self.ends}")
            self.out.names[self.out.start] = self.out.names[root]
            self.out.places.append(self._defined[root])
        for name, alternatives in self._rules.items():
            at = self._defined.get(name, alternatives[0].at)
            head = f"{name}:"
            for alternative in alternatives:
                lines.append(f"{head} {alternative.text}".rstrip())
                self.out.places.append(at if head.endswith(":") else alternative.at)
                head = "  |"
        self.out.text = "\n".join(lines) + "\n"
        return self.out


def translate(
    reading: type[Reading], text: str, start: str | None, specials: Collection[str] = (), file: str | None = None,
    define: Mapping[str, Productions] | None = None,
) -> Translated:
    """Return a text of a notation as Lark text.

    Raises: GrammarError: at its place, for anything that is wrong or cannot be said; LimitExceeded.
    """
    if not isinstance(text, str):
        raise GrammarError(f"not a {reading.notation} text: {shown(text)}", instead="the text itself, a str")
    if start is not None and not isinstance(start, str):
        raise GrammarError(f"start is {shown(start)}", instead="the name of a rule")
    if not isinstance(define, Mapping | None):
        raise GrammarError(f"define is {shown(define)}", instead='define={"name": grammar}')
    if len(text) > MOST_LENGTH:
        what = f"a {reading.notation} grammar of {len(text):,} characters"
        raise LimitExceeded(what, because=f"the limit is {MOST_LENGTH:,}")
    with metered(), working_on(f"{reading.notation} grammar"):
        spend(20 * len(text))
        found = reading(text, file, names_of(specials, "specials"), start)
        found.out.parts.update(define or {})
        found.read()
        return found.translated()


@cache
def parser(grammar: str) -> Lark:
    return Lark(grammar, parser="lalr", propagate_positions=False, maybe_placeholders=False)


def place(token: Token | Place) -> Place:
    return (token.line or 1, token.column or 1) if isinstance(token, Token) else token


def quoted(text: str) -> str:
    """Return a text as a Lark string."""
    plain = [char if char not in '"\\' and char.isprintable() else _escape(ord(char)) for char in text]
    return f'"{"".join(plain)}"'


def _escape(point: int) -> str:
    short = {"\n": r"\n", "\r": r"\r", "\t": r"\t", '"': r"\"", "\\": r"\\"}.get(chr(point))
    return short or f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _point(point: int) -> str:
    """Return a character inside a pattern or a class."""
    char = chr(point)
    if not char.isascii() or not char.isprintable():
        return _escape(point)
    return char if char.isalnum() or char in " _'\"<>,:;!@%=" else f"\\{char}"


def of_expression(expr: Expr, source: str | None = None) -> Productions:
    """Return the grammar of a regular language."""
    return Productions({"start": Rule("start", ((Pattern(expr, source or pattern_text(expr)),),))}, adopts=False)


_ANYTHING = of_expression(char_class([(0, 0x10FFFF)]))


def of_terminal(symbol: Any) -> Expr | None:
    """Return the language of a symbol as an expression; None: it is none, or a reference."""
    if isinstance(symbol, Literal):
        return literal(symbol.text)
    return symbol.language if isinstance(symbol, Pattern) and isinstance(symbol.language, Expr) else None


def expressions(
    rules: Mapping[str, Iterable[Any]],
    computed: Mapping[str, Computed] | None = None,
    terminal: Callable[[Any], Expr | None] = of_terminal,
) -> dict[str, Expr | None]:
    """Return the languages of rules as expressions; None: it is recursive, or of special tokens or schemas.

    terminal: returns that of a symbol that is no reference.
    """
    computed = computed or {}
    done: dict[str, Expr | None] = {}
    todo, above = list(rules), set[str]()
    while todo:
        name = todo[-1]
        spend(10)
        rule = computed.get(name)
        needed = [part.rule for sequence in rules[name] for part in sequence if isinstance(part, Ref)]
        needed = [used for used in needed if used != name]
        waiting = [inner for inner in (needed if rule is None else rule.operands) if inner not in done]
        if name not in done and waiting and name not in above:
            above.add(name)
            todo += waiting
            continue
        todo.pop()
        if name in done:
            continue
        operands = [] if rule is None else [done.get(operand) for operand in rule.operands]
        if waiting or None in operands:
            done[name] = None
        else:
            done[name] = of_rule(name, rules[name], done, terminal) if rule is None else rule.function(*operands)
    return done


def of_rule(
    name: str, sequences: Iterable[Any], done: Mapping[str, Expr | None], terminal: Callable[[Any], Expr | None]
) -> Expr | None:
    """Return the texts of one rule, which may use itself at the beginning of an alternative, as repeats do."""
    once, again = list[Expr](), list[Expr]()
    for sequence in sequences:
        loops = bool(sequence) and sequence[0] == Ref(name)
        found = of_sequence(sequence[1:] if loops else sequence, done, terminal)
        if found is None:
            return None
        (again if loops else once).append(found)
    return concat(union(*once), repeat(union(*again), 0, None)) if again else union(*once)


def of_sequence(
    sequence: Iterable[Any], done: Mapping[str, Expr | None], terminal: Callable[[Any], Expr | None]
) -> Expr | None:
    """Return the texts of a sequence of symbols; `done`: those of rules."""
    parts = [done.get(symbol.rule) if isinstance(symbol, Ref) else terminal(symbol) for symbol in sequence]
    return None if None in parts else concat(*(part for part in parts if part is not None))
