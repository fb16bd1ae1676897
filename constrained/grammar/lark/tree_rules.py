"""The trees of the `lark` library as rules in BNF; what their meaning is says `reader`.

Its own conversion is not used: it multiplies out groups (``("a"|"b")~20`` takes a million alternatives) and never ends
on templates that grow.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from lark import Tree
from lark.grammar import NonTerminal
from lark.load_grammar import PrepareLiterals

from constrained.errors import GrammarError, LimitExceeded
from constrained.grammar.analysis import Facts
from constrained.grammar.compose import adopting, as_text, renamed
from constrained.grammar.ir import Grammar
from constrained.grammar.lark.errors import LARK_ERRORS, bad_literal, find, find_definition
from constrained.grammar.lark.lexing.lookahead import Demanding
from constrained.grammar.lark.lexing.trailing_context import resolved
from constrained.grammar.lark.sources import Given
from constrained.grammar.lark.terminals import Terminals
from constrained.grammar.lark.text import LarkText
from constrained.grammar.symbols import Literal, Ref, Rule, Symbol
from constrained.work import spend, working_on

MAX_SYMBOLS = 1_000_000  # in all alternatives together
MAX_INSTANCES = 10_000  # of templates
_UNROLLED = 64  # repeats up to here are written out

_Symbol = Symbol | Demanding
_Sequence = tuple[_Symbol, ...]
_Environment = Mapping[str, _Symbol]  # template parameter -> argument


class LarkTreeReader:
    """Turns the library's trees into BNF: groups, options and repeats become helper rules, templates one rule per
    use.
    """

    def __init__(
        self, loaded: Any, files: list[LarkText], start: str, given: Given, parts: Mapping[str, Grammar]
    ) -> None:
        self._files, self._start, self._parts = files, start, parts
        self._specials = given.tokens
        # names are lark's tokens
        self._trees = {str(name): (tuple(map(str, params)), tree) for name, params, tree, _ in loaded.rule_defs}
        self._rules: dict[str, tuple[_Sequence, ...]] = {}
        self._owner, self._size, self._instances = start, 0, 0
        self._names, self._in_order = set(self._trees), sorted(self._trees)
        self._adopting = set[str]()  # rules of parts whose literals may be special tokens
        self._repeats: dict[tuple[str, _Sequence, int], _Sequence] = {}
        self._pending: deque[tuple[str, Any, _Environment]] = deque()
        self._terminals = Terminals(loaded, files, given, self._helper)

    def grammar(self, shown_to: Callable[[dict[str, Any]], object] = len) -> Grammar:
        """Return the grammar; `shown_to`: who is shown its rules before look-ahead makes copies of them."""
        if self._start not in self._trees or self._trees[self._start][0]:
            names = sorted(name for name, (params, _) in self._trees.items() if not params)
            because = f"'{self._start}' is a template" if self._start in self._trees else None
            instead = f"one of: {', '.join(names)}" if names else f'{self._start}: "a" | "b"'
            raise GrammarError(
                f"rule '{self._start}' is not defined", where=self._files[0].name, because=because, instead=instead
            )
        self._pending = deque((name, tree, {}) for name, (params, tree) in self._trees.items() if not params)
        while self._pending:
            name, tree, environment = self._pending.popleft()
            with working_on(f"rule {name.partition('{')[0]}"):
                self._define(name, tree, environment)
        self._owner = start = self._start
        if self._terminals.gap:
            start = self._helper(((Ref(start), *self._terminals.gap),)).rule
        shown_to(self._rules)
        adopts = any(map(adopting, self._parts.values()))
        rules: Any = self._settled() if adopts else self._rules
        if any(
            isinstance(symbol, Demanding)
            for sequences in rules.values()
            for sequence in sequences
            for symbol in sequence
        ):
            with working_on("look-ahead and ignored terminals"):
                rules, start = resolved(rules, start)
        named = {name: Rule(name, sequences) for name, sequences in rules.items()}
        used = self._specials & {
            s.text for sequences in rules.values() for sequence in sequences for s in sequence if isinstance(s, Literal)
        }
        parts = self._parts.values()
        widened, cut = (
            tuple(entry for part in parts for entry in entries(part))
            for entries in (attrgetter("widened"), attrgetter("cut"))
        )
        used = used.union(*(part.specials for part in parts))
        grammar = Grammar(
            named, start, used, widened, source=None if parts else self._files[0].text, adopts=adopts, cut=cut
        )
        try:
            Facts(grammar)
        except GrammarError as error:
            for name, place in self._terminals.wordless.items():
                raise GrammarError(f"terminal {name} matches no text", where=place) from None
            what = f"rule '{self._start}' derives no word"
            raise GrammarError(what, where=self._place(), because=error.because, instead=error.instead) from None
        return grammar

    def _settled(self) -> dict[str, Any]:
        """Return the rules, with literals that are text in every vocabulary, outside the parts that adopt special
        tokens.
        """
        rules: Any = self._rules  # with demands, which `resolved` turns into symbols
        texts = {name: Rule(name, sequences) for name, sequences in rules.items() if name not in self._adopting}
        specials = self._specials.union(*(part.specials for part in self._parts.values()))
        return {**self._rules, **{name: rule.alternatives for name, rule in as_text(texts, specials).items()}}

    def _define(self, name: str, tree: Any, environment: _Environment) -> None:
        if tree is None and name in self._parts:
            rules, (first,) = renamed((self._parts[name],), self._unused(f"{name}__"))
            self._adopting |= set(rules) if self._parts[name].adopts else set()
            self._rules |= {inner: rule.alternatives for inner, rule in rules.items()} | {name: ((first,),)}
            return
        if tree is None:
            raise GrammarError(
                f"rule '{name}' is declared but not defined", where=find(self._files, name),
                instead="%declare special tokens, in capitals; give a rule alternatives",
            )
        self._owner = name
        try:
            PrepareLiterals().transform(tree)  # in place, and nothing happens the second time
        except LARK_ERRORS as error:
            raise bad_literal(f"cannot read rule '{name}'", error, self._files, tree, self._place()) from error
        self._rules[name] = self._alternatives(tree, environment)

    def _unused(self, prefix: str) -> str:
        """Return the prefix, longer where a rule begins with it."""
        names = self._in_order
        while (at := bisect_left(names, prefix)) < len(names) and names[at].startswith(prefix):
            prefix += "_"
        return prefix

    def _alternatives(self, tree: Any, environment: _Environment) -> tuple[_Sequence, ...]:
        if tree.data == "expansions":
            return tuple(dict.fromkeys(s for child in tree.children for s in self._alternatives(child, environment)))
        if tree.data == "alias":
            return self._alternatives(tree.children[0], environment)
        if tree.data != "expansion":
            return (self._part(tree, environment),)
        sequence = tuple(symbol for child in tree.children for symbol in self._part(child, environment))
        self._size += len(sequence) + 1
        spend(3 + 2 * len(sequence))
        if self._size > MAX_SYMBOLS:
            raise LimitExceeded(f"grammar of more than {MAX_SYMBOLS:,} symbols", where=find(self._files, self._owner))
        return (sequence,)

    def _part(self, tree: Any, environment: _Environment) -> _Sequence:
        """Return what a part of an alternative contributes to it."""
        if tree.data == "value":
            return self._value(tree.children[0], environment)
        if tree.data == "expr":
            return self._repeated(tree.children[0], [str(child) for child in tree.children[1:]], environment)
        if tree.data == "maybe":
            return (
                self._helper((*(s for child in tree.children for s in self._alternatives(child, environment)), ())),
            )
        return self._grouped(self._alternatives(tree, environment))

    def _value(self, value: Any, environment: _Environment) -> _Sequence:
        if isinstance(value, NonTerminal):
            argument = environment.get(value.name)
            if argument is not None:
                is_rule = isinstance(argument, Ref) and argument not in self._terminals.choices
                return (argument,) if is_rule else self._terminals.spaced(argument)
            if value.name in self._trees and self._trees[value.name][0]:
                raise GrammarError(
                    f"template '{value.name}' is used without arguments", where=find(self._files, value.name),
                    instead=f"{value.name}{{{', '.join(self._trees[value.name][0])}}}",
                )
            return (Ref(str(value.name)),)
        if isinstance(value, Tree) and value.data == "template_usage":
            return (self._instance(value, environment),)
        return self._terminals.spaced(self._terminals.symbol(value))

    def _instance(self, usage: Any, environment: _Environment) -> Ref:
        """Return the rule of a template with its arguments; every combination of arguments is one rule."""
        name = str(usage.children[0].name)
        if isinstance(passed := environment.get(name), Ref):
            name = passed.rule  # a template was an argument
        if name not in self._trees:
            raise GrammarError(
                f"'{name}' is used as a template",
                where=find(self._files, name),
                because="it is no template, or not always one",
            )
        params, tree = self._trees[name]
        arguments = [self._argument(child, environment) for child in usage.children[1:]]
        if len(params) != len(arguments):
            raise GrammarError(
                f"template '{name}' takes {len(params)} arguments, not {len(arguments)}", where=find(self._files, name),
            )
        full_name = f"{name}{{{','.join(_shown(argument) for argument in arguments)}}}"
        spend(2 + len(full_name) // 256)
        if full_name not in self._names:
            self._names.add(full_name)
            self._instances += 1
            if self._instances > MAX_INSTANCES or len(full_name) > MAX_INSTANCES:
                raise LimitExceeded(
                    f"template '{name}' has no end of instances", where=find(self._files, name),
                    because="it uses itself with ever larger arguments",
                )
            self._pending.append((full_name, tree, dict(zip(params, arguments, strict=True))))
        return Ref(full_name)

    def _argument(self, tree: Any, environment: _Environment) -> _Symbol:
        value = tree.children[0]
        if isinstance(value, NonTerminal):
            return environment.get(value.name) or Ref(str(value.name))
        if isinstance(value, Tree) and value.data == "template_usage":
            return self._instance(value, environment)
        return self._terminals.symbol(value)

    # -- helper rules --------------------------------------------------------------------------------------------------

    def _helper(self, alternatives: tuple[_Sequence, ...], repeated: tuple[_Sequence, ...] = ()) -> Ref:
        """Add a rule without a name in the file, with `alternatives`, and again itself before each of the `repeated`
        ones.
        """
        stem = re.sub(r"\W+", "_", self._owner).strip("_").lower()
        number = len(self._rules)
        while (name := f"_{stem}_{number}") in self._names:
            number += 1
        self._names.add(name)
        spend(5 + sum(map(len, alternatives)) + 2 * sum(map(len, repeated)))
        again = tuple((Ref(name), *sequence) for sequence in repeated if sequence)
        self._rules[name] = tuple(dict.fromkeys((*alternatives, *again)))
        return Ref(name)

    def _grouped(self, alternatives: tuple[_Sequence, ...], longest: int | None = None) -> _Sequence:
        """Return alternatives as one sequence, through a helper rule if there are several or the only one is too
        long.
        """
        if len(alternatives) == 1 and (longest is None or len(alternatives[0]) <= longest):
            return alternatives[0]
        return (self._helper(alternatives),)

    def _repeated(self, tree: Any, operator: list[str], environment: _Environment) -> _Sequence:
        body = self._alternatives(tree, environment)
        if operator[0] == "?":
            return (self._helper((*body, ())),)
        if operator[0] == "+":
            return (self._helper(body, repeated=body),)
        if operator[0] == "*":
            return (self._helper(((),), repeated=body),)
        least, most = int(operator[1]), int(operator[-1])
        if not 0 <= least <= most:
            raise GrammarError(
                f"bad repeat ~{'..'.join(operator[1:])} in rule '{self._owner}'", where=self._place(),
                because="the bounds must be 0 <= least <= most",
            )
        unit = self._grouped(body, longest=2)
        return (*self._exactly(unit, least), *self._up_to(unit, most - least))

    def _exactly(self, unit: _Sequence, count: int) -> _Sequence:
        if count <= _UNROLLED:
            return unit * count
        key = ("exactly", unit, count)
        if key not in self._repeats:
            half = self._grouped((self._exactly(unit, count // 2),), longest=2)
            self._repeats[key] = (*half, *half, *unit * (count % 2))
        return self._repeats[key]

    def _up_to(self, unit: _Sequence, count: int) -> _Sequence:
        """Return 0 to `count` units, so that every number of units has one derivation."""
        if not count or not unit:
            return ()
        key = ("up to", unit, count)
        if key not in self._repeats:
            if count <= _UNROLLED or count % 2 == 0:
                alternatives: tuple[_Sequence, ...] = ((), (*unit, *self._up_to(unit, count - 1)))
            else:
                half = self._up_to(unit, count // 2)
                alternatives = (half, (*self._exactly(unit, count // 2 + 1), *half))
            self._repeats[key] = (self._helper(alternatives),)
        return self._repeats[key]

    def _place(self) -> str | None:
        """Return where the rule at work is defined."""
        return find_definition(self._files, self._owner.partition("{")[0])


def _shown(argument: _Symbol) -> str:
    match argument:
        case Ref(rule):
            return rule
        case Literal(text):
            return f'"{text}"'
    return getattr(argument, "source", None) or str(getattr(argument, "name", argument))

