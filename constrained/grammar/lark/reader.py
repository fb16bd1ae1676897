"""Lark files as grammars.

`syntax` parses the files, `source` resolves imports and overrides; what they define becomes BNF here.

Meaning: the scannerless one, what ``Lark(text, parser="earley", lexer="dynamic_complete")`` accepts.  There is no
lexer: every terminal may match any text of its language (which that is, see below), wherever the rules want it.
Ignored terminals may stand before every other terminal and at the end, each as long as it can be.  Priorities, aliases
and the prefixes ``? _ !`` shape trees only.  Beyond the library: terminals may match the empty text, and ``%declare``
declares special tokens.  ``%json`` and ``%regex`` are parts of other languages (`notations.quotes`).

Tested against the library itself (`tests/test_lark.py`).

A terminal is a literal, a special token, alternatives of these, or a regular expression.  Which texts may a regular
expression match? Lark's dynamic lexer calls `match` at a place in the text, and on every shorter piece of what it
found; it finds exactly the texts that `match` prefers over their own beginnings.  For greedy, deterministic patterns
these are all texts of the language; ``/a+?/`` is only ever "a", and ``/list|listen/`` never "listen" (but ``"list" |
"listen"``, which Lark sorts, is both).  `match_preference` computes them.

Where the text behind a terminal matters, because an assertion looks at it or because a terminal is ignored, the symbol
is a `Demanding` one (`lookahead`), and the rules are rewritten at the end (`lookahead.resolved`).

Refused: what the library makes of rules; it multiplies out groups (``("a"|"b")~20`` takes a million alternatives).
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import constrained.work as work
from constrained.errors import GrammarError, LimitExceeded, shown
from constrained.export.lark import PrintedLark
from constrained.grammar.analysis import Facts
from constrained.grammar.compose import adopting, as_text, renamed
from constrained.grammar.ir import Literal, Pattern, Productions, Ref, Rule, Symbol
from constrained.grammar.lark import shipped_folder
from constrained.grammar.lark.lookahead import Demanding, ignored, resolved, terminal
from constrained.grammar.lark.source import Defined, Given, Scope, Sources, Specials, load, undefined
from constrained.grammar.lark.syntax import LarkText, Lexeme, Node
from constrained.regex import NEVER, is_empty
from constrained.regex.python import widths
from constrained.work import metered, spend, working_on

MAX_LENGTH = 1_000_000  # characters of a terminal's pattern, references resolved
MAX_PARTS = 20_000  # names and literals of a terminal, those of the terminals it uses included
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|U0010[0-9a-fA-F]{4}|.)", re.DOTALL)
_SHORT = {"n": "\n", "f": "\f", "t": "\t", "r": "\r", '"': '"'}


class Spelled(NamedTuple):
    """What a terminal, or a part, may be: a text, or a regular expression.  `raw`: the literal that is all of it."""

    value: str
    is_text: bool = False
    flags: str = ""
    raw: Lexeme | None = None
    parts: int = 1  # names and literals
    texts: tuple[str, ...] = ()  # all of them, where it is alternatives of plain strings

    def regexp(self) -> str:
        found = re.escape(self.value) if self.is_text else self.value
        for flag in self.flags:
            found = f"(?{flag}:{found})"
        return found

    def order(self) -> tuple[int, int, int]:
        """Return what alternatives are sorted by, as `re` prefers the first one: the longest first."""
        least, most = (len(self.value),) * 2 if self.is_text else widths(self.regexp())
        return -most, -least, -len(self.value)


def _unescaped(text: str, lexeme: Lexeme) -> str:
    """Return what is between quotes or slashes, with escapes of Python read; others are left to `re`."""
    def read(match: re.Match[str]) -> str:
        escape = match[0]
        if escape[1] in "xuU":
            if len(escape) == 2:
                raise lexeme.wrong(f"the literal {lexeme.text} is empty or has a bad escape")
            return chr(int(escape[2:], 16))
        return _SHORT.get(escape[1], escape)

    return _ESCAPE.sub(read, text.replace("\r\n", "\n").replace("\r", "\n"))


def _literal(node: Node) -> Spelled:
    """Return what a literal stands for.  Raises: GrammarError: nothing; with its place."""
    lexeme = node.parts[0]
    if node.kind == "range":
        ends = [end.text[1:-1] for end in node.parts]
        if any(len(_unescaped(end, lexeme)) != 1 for end in ends):
            raise lexeme.wrong("the ends of a range must be one character each")
        return Spelled("[{}-{}]".format(*ends))
    end = lexeme.text.rindex(lexeme.text[0])
    value, flags = _unescaped(lexeme.text[1:end], lexeme), lexeme.text[end + 1 :]
    if node.kind == "string":
        value = value.replace("\\\\", "\\")
    elif "\n" in lexeme.text and "x" not in flags:
        raise lexeme.wrong("only a regular expression with the flag x may have line breaks")
    if not value or "\0" in lexeme.text:
        raise lexeme.wrong(f"the literal {lexeme.text} is empty or has a bad escape")
    plain = node.kind == "string" and not flags
    return Spelled(value, node.kind == "string", flags, lexeme, texts=(value,) if plain else ())


class Terminals:
    """The terminals of a grammar; `helper` adds a rule and returns the reference."""

    def __init__(self, scope: Scope, ignored: list[Node], given: Given, helper: Callable[..., Ref]) -> None:
        self._table, self._given, self._helper = scope.table, given, helper
        self._symbols: dict[object, Symbol | Demanding] = {}
        self._patterns: dict[int, Spelled | None] = {}  # None: it is being spelled
        self.choices: set[Ref] = set()  # rules that stand for terminals of several fixed texts
        self.wordless: dict[str, str] = {}  # terminals that match no text -> where they are defined
        self.gap: tuple[Ref, ...] = ()  # what may be ignored before each terminal
        unlike = {node.parts[0].text if node.kind == "terminal" else id(node): node for node in ignored}
        if repeated := tuple([(self._ignored(node, scope),) for node in unlike.values()]):
            self.gap = (helper(((),), repeated=repeated),)
        for name, defined in scope.table.items():  # those that no rule uses as well, which may be wrong
            if defined.is_terminal and defined.bodies and defined.quoted() is None:
                self._pattern(name, defined)

    def symbol(self, node: Node, scope: Scope) -> Symbol | Demanding:
        """Return the symbol of a terminal's name, or of a literal in a rule."""
        lexeme, texts = node.parts[0], tuple(part.text for part in node.parts)
        key: object = scope.name(lexeme.text) if node.kind == "terminal" else texts
        if key not in self._symbols:
            if node.kind == "terminal":
                self._symbols[key] = self._named(str(key))
            else:
                self._symbols[key] = self._of_pattern(_literal(node), None, lexeme.place)
        return self._symbols[key]

    def _named(self, name: str, *, longest: bool = False) -> Symbol | Demanding:
        """Return a terminal's symbol: what the caller gave for a declared one, as a text cannot name a token itself."""
        defined = self._table[name]
        place, meaning = defined.lexeme.place, self._given.meanings.get(name)
        if not defined.bodies and meaning is None:
            raise GrammarError(
                f"terminal {name} is declared, but nothing is given for it", where=place,
                because="a Lark text may name only the special tokens that its reader gives it",
                instead=f'specials={{"{name}": "the special token"}}, or declare={{"{name}": "a text"}}',
            )
        if not defined.bodies and meaning is not None:
            return meaning
        pattern = self._pattern(name, defined)
        if longest or len(pattern.texts) <= 1:
            return self._of_pattern(pattern, name, place, longest=longest)
        choice = self._helper(tuple((_text(text, place),) for text in dict.fromkeys(pattern.texts)))
        self.choices.add(choice)
        return choice

    def _ignored(self, node: Node, scope: Scope) -> Symbol | Demanding:
        if node.kind == "terminal":
            return self._named(node.parts[0].text, longest=True)
        pattern = self._spelled(node, scope, "%ignore")
        return self._of_pattern(pattern, None, pattern.raw and pattern.raw.place, longest=True)

    def _pattern(self, name: str, defined: Defined) -> Spelled:
        """Return what a terminal may be."""
        known = self._patterns.setdefault(id(defined), None)
        if known is None:
            place = defined.lexeme.place
            with working_on(f"terminal {name}"):
                *extending, (body, scope) = defined.bodies
                parts = [self._spelled(body, scope, name) for body, scope in extending]
                try:
                    known = _either([*parts, *[self._spelled(part, scope, name) for part in body.parts]])
                except (re.error, OverflowError) as error:
                    raise GrammarError(f"cannot read terminal {name}", where=place, because=str(error)) from error
                if known.parts > MAX_PARTS or len(known.value) > MAX_LENGTH:
                    length = f" and {len(known.value):,} characters" if len(known.value) > MAX_LENGTH else ""
                    raise LimitExceeded(
                        f"terminal {name} has {known.parts:,} parts{length}", where=place,
                        because=f"the limit is {MAX_PARTS:,}, those of the terminals that it uses included",
                        instead="a rule, which is not copied where it is used",
                    )
            self._patterns[id(defined)] = known
        return known

    def _spelled(self, node: Node, scope: Scope, user: str) -> Spelled:
        """Return what a part of a terminal may be, as the library joins parts."""
        spend(1)
        lexeme: Any = node.parts[0] if node.parts else None
        if node.kind == "terminal":
            name = scope.name(lexeme.text)
            defined = scope.table.get(name)
            if defined is None:
                raise undefined(lexeme, user, scope)
            if not defined.bodies or defined.quoted() is not None:
                raise lexeme.wrong(f"the terminal {lexeme.text} is declared or quotes, and no part of another one")
            if id(defined) in self._patterns and self._patterns[id(defined)] is None:
                named = f"'{lexeme.text}' (recursion is only allowed in rules, not terminals)"
                raise defined.lexeme.wrong(f"recursion in terminal {named}")
            return self._pattern(name, defined)
        if node.kind in ("rule", "use", "json", "regex"):
            raise lexeme.wrong(f"rules aren't allowed inside terminals ({lexeme.text} in {user})")
        if node.kind == "alternatives":
            return _either([self._spelled(part, scope, user) for part in node.parts])
        if node.kind == "sequence":
            parts = [self._spelled(part, scope, user) for part in node.parts]
            joined = Spelled("".join(part.regexp() for part in parts), parts=sum(part.parts for part in parts))
            return parts[0] if len(parts) == 1 else joined if parts else Spelled("", is_text=True)
        if node.kind == "repeat":
            inner, operator, *numbers = self._spelled(node.parts[0], scope, user), *node.parts[1:]
            if operator == "~":
                counts = [_count(lexeme) for lexeme in numbers]
                if counts[0] > counts[-1]:
                    raise numbers[0].wrong("the bounds must be least <= most")
                operator = f"{{{','.join(map(str, counts))}}}"
            return Spelled(f"(?:{inner.regexp()}){operator}", flags=inner.flags, parts=inner.parts)
        return _literal(node)

    def _of_pattern(
        self, pattern: Spelled, name: str | None, place: str | None, *, longest: bool = False
    ) -> Symbol | Demanding:
        if pattern.is_text and not pattern.flags:
            return _text(pattern.value, pattern.raw.place if pattern.raw is not None else place)
        source, raw = pattern.regexp(), pattern.raw.text if pattern.raw is not None else None
        where = place or work.place()
        shown = f"terminal {name or (raw or source) if len(raw or source) <= 100 else f'{(raw or source)[:99]}…'}"
        try:
            with working_on(shown + (f" ({place})" if place else "")):
                language = ignored(source) if longest else terminal(source)
        except (GrammarError, LimitExceeded) as error:
            if error.what == "too much work":
                raise  # it names the rule and the terminal
            because = error.because
            if error.where and not error.where.startswith("Lark grammar"):
                because = f"{because} ({error.where} of the pattern)"
            raise type(error)(error.what, where=where, because=because, instead=error.instead) from error
        except re.error as error:
            raise GrammarError(f"cannot read {shown}", where=where, because=error.msg) from error
        if not isinstance(language, Demanding) and is_empty(language):
            self.wordless[name or raw or source] = place or ""
            return Pattern(NEVER, source)
        if isinstance(language, Demanding):
            named = f"terminal {name or raw}" + (f", {place}" if place else "")
            return replace(language, name=named) if language.longest or language.lexed else language
        return Pattern(language, source)


def _either(patterns: list[Spelled]) -> Spelled:
    if len(patterns) == 1:
        return patterns[0]
    value = "|".join(pattern.regexp() for pattern in sorted(patterns, key=Spelled.order))
    texts = [text for pattern in patterns for text in pattern.texts] if all(each.texts for each in patterns) else ()
    return Spelled(f"(?:{value})", parts=sum(pattern.parts for pattern in patterns), texts=tuple(texts))


def _text(text: str, place: str | None) -> Literal:
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise GrammarError(f"literal {text!r} is no text", where=place, because="a lone surrogate is no character")
    return Literal(text)


def _count(lexeme: Lexeme) -> int:
    if len(lexeme.text) > MAX_DIGITS:
        what, because = "a number in a Lark grammar is too large", f"it has {len(lexeme.text):,} digits"
        raise LimitExceeded(what, where=lexeme.place, because=because, instead="for a repeat, * or +")
    return int(lexeme.text)


MAX_DIGITS = 100  # of a count
MAX_SYMBOLS = 1_000_000  # in all alternatives together
MAX_INSTANCES = 10_000  # of templates
_UNROLLED = 64  # repeats up to here are written out

_Symbol = Symbol | Demanding
_Sequence = tuple[_Symbol, ...]
_Arguments = Mapping[str, _Symbol]  # by the parameter of a template


class LarkTreeReader:
    """Turns definitions into BNF: groups, options and repeats become helper rules, templates one rule per
    use.
    """

    def __init__(self, sources: Sources, start: str | None, given: Given, parts: Mapping[str, Productions]) -> None:
        scope, ignored = load(sources, parts)
        self._main, self._parts, self._table = sources.main, dict(parts), scope.table
        self._specials = given.tokens
        self._defined = {name: defined for name, defined in scope.table.items() if not defined.is_terminal}
        self._rules: dict[str, tuple[_Sequence, ...]] = {}
        self._start = start or self._first()
        self._owner, self._size, self._instances = self._start, 0, 0
        self._names, self._in_order = set(self._defined), sorted(self._defined)
        self._adopting = set[str]()  # rules of parts whose literals may be special tokens
        self._repeats: dict[tuple[str, _Sequence, int], _Sequence] = {}
        self._pending: deque[tuple[str, Defined, _Arguments]] = deque()
        self._terminals = Terminals(scope, ignored, given, self._helper)

    def grammar(self, shown_to: Callable[[dict[str, Any]], object] = len) -> Productions:
        """Return the grammar; `shown_to`: who is shown its rules before look-ahead makes copies of them."""
        if self._start not in self._defined or self._defined[self._start].params:
            names = sorted(name for name, defined in self._defined.items() if not defined.params)
            because = f"'{self._start}' is a template" if self._start in self._defined else None
            instead = f"one of: {', '.join(names)}" if names else f'{self._start}: "a" | "b"'
            what = f"rule '{self._start}' is not defined"
            raise GrammarError(what, where=self._main.name, because=because, instead=instead)
        for defined in self._defined.values():
            for at, param in enumerate(defined.params):
                if param in defined.params[:at] or defined.bodies[-1][1].name(param) in self._table:
                    raise defined.lexeme.wrong(f"the parameter {param} is a rule's name, or another parameter's")
        self._pending = deque((name, defined, {}) for name, defined in self._defined.items() if not defined.params)
        while self._pending:
            name, defined, arguments = self._pending.popleft()
            with working_on(f"rule {name.partition('{')[0]}"):
                self._define(name, defined, arguments)
        self._owner = start = self._start
        if self._terminals.gap:
            start = self._helper(((Ref(start), *self._terminals.gap),)).rule
        shown_to(self._rules)
        adopts = any(map(adopting, self._parts.values()))
        rules: Any = self._settled() if adopts else self._rules
        if any(isinstance(symbol, Demanding) for symbol in chain.from_iterable(chain.from_iterable(rules.values()))):
            with working_on("look-ahead and ignored terminals"):
                rules, start = resolved(rules, start)
        named = {name: Rule(name, sequences) for name, sequences in rules.items()}
        every = chain.from_iterable(chain.from_iterable(rules.values()))
        used, parts = self._specials & {s.text for s in every if isinstance(s, Literal)}, self._parts.values()
        widened, cut = (tuple(chain.from_iterable(map(attrgetter(name), parts))) for name in ("widened", "cut"))
        used, source = used.union(*(part.specials for part in parts)), None if parts else self._main.text
        grammar = Productions(named, start, used, widened, source=source, adopts=adopts, cut=cut)
        try:
            Facts(grammar)
        except GrammarError as error:
            for name, place in self._terminals.wordless.items():
                raise GrammarError(f"terminal {name} matches no text", where=place or None) from None
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

    def _first(self) -> str:
        """Return the rule `start`, or the first one of the file that has no parameters."""
        rules = [statement.names for statement in self._main.statements if statement.how == "define"]
        plain = [names[0].text for names in rules if names[0].kind == "rule" and len(names) == 1]
        return plain[0] if plain and "start" not in plain else "start"

    def _define(self, name: str, defined: Defined, arguments: _Arguments) -> None:
        self._owner = name
        if defined.bodies:
            sequences = [self._alternatives(body, scope, arguments) for body, scope in defined.bodies]
            self._rules[name] = tuple(dict.fromkeys(sequence for each in sequences for sequence in each))
        elif name in self._parts:
            self._put_in(name, self._parts[name])
        else:
            what, instead = "declared but not defined", "%declare special tokens, in capitals; give a rule alternatives"
            raise GrammarError(f"rule '{name}' is {what}", where=defined.lexeme.place, instead=instead)

    def _put_in(self, name: str, part: Productions) -> None:
        """Add a grammar's rules, and one that stands for its start."""
        rules, (first,) = renamed((part,), self._unused(f"{name}__"))
        self._adopting |= set(rules) if part.adopts else set()
        self._rules |= {inner: rule.alternatives for inner, rule in rules.items()} | {name: ((first,),)}

    def _inline(self, node: Node) -> Ref:
        """Return the rule of a language that stands in the text, as JSON."""
        (lexeme,) = node.parts
        name = f"{self._unused('inline_')}{lexeme.start}"
        if name not in self._rules:
            from constrained.notations.quotes import quoted_source

            self._parts[name] = quoted_source(node.kind, json.loads(lexeme.text[1 + len(node.kind) :]), lexeme.place)
            self._put_in(name, self._parts[name])
        return Ref(name)

    def _unused(self, prefix: str) -> str:
        """Return the prefix, longer where a rule begins with it."""
        names = self._in_order
        while (at := bisect_left(names, prefix)) < len(names) and names[at].startswith(prefix):
            prefix += "_"
        return prefix

    def _alternatives(self, node: Node, scope: Scope, arguments: _Arguments) -> tuple[_Sequence, ...]:
        if node.kind == "alternatives":
            parts = [self._alternatives(part, scope, arguments) for part in node.parts]
            return tuple(dict.fromkeys(sequence for part in parts for sequence in part))
        if node.kind != "sequence":
            return (self._part(node, scope, arguments),)
        sequence = tuple(symbol for part in node.parts for symbol in self._part(part, scope, arguments))
        self._size += len(sequence) + 1
        spend(3 + 2 * len(sequence))
        if self._size > MAX_SYMBOLS:
            raise LimitExceeded(f"grammar of more than {MAX_SYMBOLS:,} symbols", where=self._place())
        return (sequence,)

    def _part(self, node: Node, scope: Scope, arguments: _Arguments) -> _Sequence:
        """Return what a part of an alternative contributes to it."""
        if node.kind in ("alternatives", "sequence"):
            return self._grouped(self._alternatives(node, scope, arguments))
        if node.kind == "repeat":
            return self._repeated(node, self._alternatives(node.parts[0], scope, arguments))
        symbol = self._argument(node, scope, arguments)
        if isinstance(symbol, Ref) and symbol not in self._terminals.choices:
            lexeme = node.parts[0]
            if node.kind == "rule" and lexeme.text not in arguments and (params := self._defined[symbol.rule].params):
                instead = f"{symbol.rule}{{{', '.join(params)}}}"
                what = f"template '{symbol.rule}' is used without arguments"
                raise GrammarError(what, where=lexeme.place, instead=instead)
            return (symbol,)
        return (*self._terminals.gap, symbol)

    def _argument(self, node: Node, scope: Scope, arguments: _Arguments) -> _Symbol:
        """Return the symbol of a name, a literal or a use of a template."""
        lexeme, text = node.parts[0], node.parts[0].text
        if node.kind in ("rule", "use", "terminal") and text not in arguments and scope.name(text) not in self._table:
            raise undefined(lexeme, self._owner, scope)
        if node.kind == "rule":
            return arguments.get(text) or Ref(scope.name(text))
        if node.kind == "use":
            return self._instance(node, scope, arguments)
        if node.kind in ("json", "regex"):
            return self._inline(node)
        if node.kind == "terminal" and (quoted := self._table[scope.name(text)].quoted()) is not None:
            return self._inline(quoted)
        return self._terminals.symbol(node, scope)

    def _instance(self, node: Node, scope: Scope, arguments: _Arguments) -> Ref:
        """Return the rule of a template with its arguments; every combination of arguments is one rule."""
        lexeme, *given = node.parts
        passed, name = arguments.get(lexeme.text), scope.name(lexeme.text)
        if isinstance(passed, Ref):
            name = passed.rule  # a template was an argument
        if name not in self._defined:
            because = "it is no template, or not always one"
            raise GrammarError(f"'{name}' is used as a template", where=lexeme.place, because=because)
        defined = self._defined[name]
        symbols = [self._argument(argument, scope, arguments) for argument in given]
        if len(defined.params) != len(symbols):
            what = f"template '{name}' takes {len(defined.params)} arguments, not {len(symbols)}"
            raise GrammarError(what, where=lexeme.place)
        full_name = f"{name}{{{','.join(_shown(symbol) for symbol in symbols)}}}"
        spend(2 + len(full_name) // 256)
        if full_name not in self._names:
            self._names.add(full_name)
            self._instances += 1
            if self._instances > MAX_INSTANCES or len(full_name) > MAX_INSTANCES:
                because = "it uses itself with ever larger arguments"
                raise LimitExceeded(f"template '{name}' has no end of instances", where=lexeme.place, because=because)
            self._pending.append((full_name, defined, dict(zip(defined.params, symbols, strict=True))))
        return Ref(full_name)

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

    def _repeated(self, node: Node, body: tuple[_Sequence, ...]) -> _Sequence:
        operator, *counts = node.parts[1:]
        if operator == "?":
            return (self._helper((*body, ())),)
        if operator == "+":
            return (self._helper(body, repeated=body),)
        if operator == "*":
            return (self._helper(((),), repeated=body),)
        least, most = _count(counts[0]), _count(counts[-1])
        if not 0 <= least <= most:
            what = f"bad repeat ~{'..'.join(count.text for count in counts)} in rule '{self._owner}'"
            raise GrammarError(what, where=self._place(), because="the bounds must be 0 <= least <= most")
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
        defined = self._defined.get(self._owner.partition("{")[0])
        return None if defined is None else defined.lexeme.place


def _shown(argument: _Symbol) -> str:
    match argument:
        case Ref(rule):
            return rule
        case Literal(text):
            return f'"{text}"'
    return getattr(argument, "source", None) or str(getattr(argument, "name", argument))


_RULE = re.compile("_?[a-z][_a-z0-9]*")


def read(
    text: str, start: str = "start", specials: Specials = (), declare: Mapping[str, str] | None = None,
    define: Mapping[str, Productions] | None = None,
) -> Productions:  # fmt: skip
    r"""Return the grammar of a Lark text; no file is opened for it.

    It may import from the files that come with the `lark` library, which are part of the program: common, lark, python,
    unicode.

    `specials` names the special tokens that the text may use: a string literal of that text is then the token, any
    other literal is text, even if some vocabulary has a token of that spelling.  As a mapping it gives names of
    declared terminals the tokens they stand for.  `declare` gives declared terminals texts instead.  `define` gives
    rules that the text uses and does not define: grammars of any kind.  What the text ignores may not stand in them nor
    right before them.  ``%json`` and ``%regex`` inside the text: see above.

    Of a text that `to_lark` has printed, the grammar lists what that could not say.

    Raises: GrammarError: with line and column, for anything wrong; LimitExceeded: for texts too large to read.

    >>> read('start: "<s>" WORD*\nWORD: /[a-z]+/\n%ignore " "', specials=["<s>"]).specials
    frozenset({'<s>'})
    >>> from constrained import Grammar
    >>> answer = Grammar.choice(["yes", "no"])
    >>> sorted(read('start: "<think>" /[a-z]*/ "</think>" answer', define={"answer": answer}).rules)
    ['answer', 'answer__0_start', 'start']
    """
    if not isinstance(text, str):
        instead = "the text itself, or Grammar.from_lark_file(path)"
        raise GrammarError(f"not a Lark text: {type(text).__name__}", instead=instead)
    if text.endswith(".lark") and ":" not in text and len(text.split()) == 1:
        what, instead = f"a path, not a Lark text: {shown(text, 80)}", "Grammar.from_lark_file(path)"
        raise GrammarError(what, because="a text opens no files", instead=instead)
    grammar = _read(Sources(LarkText(text)), start, specials, declare, define)
    if isinstance(text, PrintedLark) and (text.widened or text.narrowed):
        return replace(grammar, widened=(*text.widened, *grammar.widened), cut=text.narrowed)
    return grammar


def read_file(
    path: str | os.PathLike[str], start: str | None = None, specials: Specials = (),
    declare: Mapping[str, str] | None = None, import_paths: Collection[str | os.PathLike[str]] = (),
    define: Mapping[str, Productions] | None = None, shown_to: Callable[[dict[str, Any]], object] = len,
) -> Productions:  # fmt: skip
    """Return the grammar of a Lark file, which may import files of its own folder, of `import_paths` and of those that
    come with the package, and no others.

    start: None: the rule `start`, or the first one if none has this name, as in the files that come with the package;
    `shown_to`: who is shown its rules before look-ahead makes copies of them.
    Raises: as `read`.
    """
    if isinstance(import_paths, Collection) and not isinstance(import_paths, str):
        import_paths = [*import_paths, shipped_folder()]
    return _read(Sources.at(path, import_paths), start, specials, declare, define, shown_to)


def _read(
    sources: Sources, start: str | None, specials: Specials, declare: Mapping[str, str] | None,
    define: Mapping[str, Productions] | None, shown_to: Callable[[dict[str, Any]], object] = len,
) -> Productions:  # fmt: skip
    with metered(), working_on("Lark grammar"):
        given = Given(specials, declare)
        try:
            parts = _checked(define)
            spend(100 * len(parts))
            return LarkTreeReader(sources, start, given, parts).grammar(shown_to)
        except RecursionError as error:
            because = "reading it needs more stack than Python has"
            raise LimitExceeded("Lark grammar is nested too deeply", where=work.place(), because=because) from error
        except GrammarError as error:
            from constrained.notations.foreign import recognised

            raise recognised(error, sources.main) from error


def _checked(define: Mapping[str, Productions] | None) -> Mapping[str, Productions]:
    """Return the grammars of `define`, by names that a rule may have."""
    parts = (define or {}).values() if isinstance(define, Mapping | None) else [define]
    other = next((part for part in parts if not isinstance(part, Productions)), None)
    if other is not None:
        because = f"{shown(other)} is none"
        instead = 'define={"answer": Grammar.choice(["yes", "no"])}; Grammar.from_json_schema(…) for types and schemas'
        raise GrammarError("define is not a table of grammars", because=because, instead=instead)
    for name in define or {}:
        if not isinstance(name, str) or not _RULE.fullmatch(name):
            what, because = f"{shown(name, 100)} is not a name of a rule", "names of rules are in small letters"
            raise GrammarError(what, where="define", because=because)
    return define or {}
