"""Lark files as grammars.

The `lark` library parses the file and resolves imports, overrides and ignores; its trees become BNF here.  Its own
conversion to BNF is not used .

Meaning: the scannerless one, what ``Lark(text, parser="earley", lexer="dynamic_complete")`` accepts.  There is no
lexer: every terminal may match any text of its language (which that is, see below), wherever the rules want it.
Ignored terminals may stand before every other terminal and at the end, each as long as it can be.  Priorities, aliases
and the prefixes ``? _ !`` shape trees only.  Beyond the library: terminals may match the empty text, and ``%declare``
declares special tokens.

Tested against the library itself (`tests/test_lark.py`).

Other languages inside a Lark text, as llguidance spells them: ``%json {…}`` and ``%regex {…}``.

    start: "Answer: " %json {"type": "integer"} | quote
    quote: %regex {"substring_words": "the quick brown fox"}

``%json`` is any instance of the schema.  ``%regex`` is any run, also an empty one, of the parts of a text:
"substring_chars", its characters; "substring_words", its runs of word characters, of blanks and of other characters;
"substring_chunks", a list of parts. Each becomes a rule that is given to the reader beside the text (`reader.read`,
`define`).

A terminal may be a ``%regex`` and nothing else; it stands in rules only.  Left out: both inside templates' arguments
and imported files. Tested against llguidance where it is installed (tests/test_lark_inline.py).

Lark terminals as symbols of a grammar.

A terminal is a literal, a special token, alternatives of these, or a regular expression.  Which texts may a regular
expression match? Lark's dynamic lexer calls `match` at a place in the text, and on every shorter piece of what it
found; it finds exactly the texts that `match` prefers over their own beginnings.  For greedy, deterministic patterns
these are all texts of the language; ``/a+?/`` is only ever "a", and ``/list|listen/`` never "listen" (but ``"list" |
"listen"``, which Lark sorts, is both).  `match_preference` computes them.

Where the text behind a terminal matters, because an assertion looks at it or because a terminal is ignored, the symbol
is a `Demanding` one (`lookahead`), and the rules are rewritten at the end (`lookahead.resolved`).

The trees of the `lark` library as rules in BNF; what their meaning is says `reader`.

Its own conversion is not used: it multiplies out groups (``("a"|"b")~20`` takes a million alternatives) and never ends
on templates that grow.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from lark import Tree
from lark.grammar import NonTerminal, Terminal
from lark.lexer import PatternStr
from lark.load_grammar import PrepareLiterals, TerminalTreeToPattern, load_grammar

import constrained.work as work
from constrained.errors import GrammarError, LimitExceeded, shown
from constrained.export.lark import PrintedLark
from constrained.grammar.analysis import Facts
from constrained.grammar.compose import adopting, as_text, of_machine, optional, renamed, substring_of
from constrained.grammar.ir import Literal, Pattern, Productions, Ref, Rule, Symbol
from constrained.grammar.lark import shipped_folder
from constrained.grammar.lark.lookahead import Demanding, ignored, resolved, terminal
from constrained.grammar.lark.source import (
    _TOKEN,
    LARK_ERRORS,
    Given,
    LarkText,
    Sources,
    Specials,
    bad_literal,
    find,
    find_definition,
    recognised,
    translated,
)
from constrained.regex import NEVER, is_empty
from constrained.work import metered, spend, working_on

_WORDS = re.compile(r"\w+|\s+|[^\w\s]+")
_TERMINAL = re.compile(r"^[ \t]*(_?[A-Z][A-Z_0-9]*)[ \t]*:[ \t]*\Z", re.MULTILINE)
_KINDS = ("substring_chars", "substring_words", "substring_chunks")


def extracted(source: LarkText) -> tuple[LarkText, dict[str, Productions]]:
    """Return the text with rules in place of other languages, and the grammars of these rules.

    Invariant: what stands behind is in the same line as before.
    Raises: GrammarError: a language cannot be read; with its place.
    """
    text = source.text
    if "%json" not in text and "%regex" not in text:
        return source, {}
    prefix = "inline"
    while prefix in text:
        prefix += "_"
    pieces, grammars, terminals = list[str](), dict[str, Productions](), dict[str, str]()
    at = start = owed = 0  # lines that were taken out of the present one, and follow it
    while (match := _TOKEN.search(text, at)) is not None:
        at = match.end()
        if match.group() not in ("%json", "%regex"):
            continue
        value, at = _value(source, match.group(), at, match.start())
        name = f"{prefix}_{len(grammars)}"
        grammars[name] = _grammar(source, match.group(), value, match.start())
        before, owed = _with_lines(text[start : match.start()], owed)
        defined = _TERMINAL.search(before)
        if defined is not None and match.group() == "%regex":
            terminals[defined[1]] = f"{name}_terminal"
            before = before[: defined.start(1)] + f"{name}_terminal: "
        pieces += [before, name]
        owed += text.count("\n", match.start(), at)
        start = at
    pieces.append(_with_lines(text[start:], owed)[0])
    return LarkText(_renamed("".join(pieces), terminals), source.name), grammars


def _with_lines(text: str, owed: int) -> tuple[str, int]:
    """Return the text with further empty lines behind its first, and how many are still owed."""
    line, newline, rest = text.partition("\n")
    return (line + newline + "\n" * owed + rest, 0) if newline else (text, owed)


def _renamed(text: str, terminals: dict[str, str]) -> str:
    """Return the text with rules in place of terminals that are other languages."""
    if not terminals:
        return text
    return _TOKEN.sub(lambda match: terminals.get(match.group(), match.group()), text)


def _value(source: LarkText, word: str, at: int, start: int) -> tuple[Any, int]:
    """Return the JSON value behind a directive, and where it ends."""
    text = source.text
    while at < len(text) and text[at].isspace():
        at += 1
    try:
        value, end = json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        raise GrammarError(
            f"cannot read what follows {word}", where=_place(source, start), because=f"it is no JSON: {error}"
        ) from error
    spend((end - at) // 10)
    return value, end


def _grammar(source: LarkText, word: str, value: Any, start: int) -> Productions:
    if word == "%json":
        from constrained.schema.embedding import machine_of

        return of_machine(machine_of(value, None, {}), Productions)
    kinds = list(value) if isinstance(value, dict) else []
    if len(kinds) != 1 or kinds[0] not in _KINDS:
        because = f"it is none of {', '.join(_KINDS)}"
        raise GrammarError(
            "cannot read %regex",
            where=_place(source, start),
            because=because,
            instead='%regex {"substring_words": "…"}',
        )
    (kind,), (content,) = kinds, value.values()
    if kind == "substring_chunks" and isinstance(content, list) and all(isinstance(chunk, str) for chunk in content):
        return _chunks(content)
    if kind == "substring_chunks" or not isinstance(content, str):
        raise GrammarError(
            "cannot read %regex",
            where=_place(source, start),
            because=f"{kind} takes a {'list of texts' if 'chunks' in kind else 'text'}",
        )
    if kind == "substring_words":
        return _chunks(_WORDS.findall(content))
    return optional(substring_of(content)) if content else _chunks([])


def _chunks(chunks: list[str]) -> Productions:
    """Return the grammar of the runs of some parts of a text: each rule derives a part and what may follow it."""
    rules = {"start": Rule("start", ((), *((Ref(f"from_{at}"),) for at in range(len(chunks)))))}
    for at, chunk in enumerate(chunks):
        spend(2)
        first = (Literal(chunk),) if chunk else ()
        longer = ((*first, Ref(f"from_{at + 1}")),) if at + 1 < len(chunks) else ()
        rules[f"from_{at}"] = Rule(f"from_{at}", (first, *longer))
    return Productions(rules, adopts=False)


def _place(source: LarkText, at: int) -> str:
    text = source.text
    return source.place(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


MAX_LENGTH = 1_000_000  # characters of a terminal's pattern, references resolved


class Terminals:
    """The terminals of one loaded file; `helper` adds a rule and returns the reference."""

    def __init__(self, loaded: Any, files: list[LarkText], given: Given, helper: Callable[..., Ref]) -> None:
        self._files, self._given, self._helper = files, given, helper
        self._trees = {str(name): tree for name, (tree, _) in loaded.term_defs}
        self._symbols: dict[object, Symbol | Demanding] = {}
        self.choices: set[Ref] = set()  # rules that stand for terminals of several fixed texts
        self.wordless: dict[str, str | None] = {}  # terminals that match no text -> where they are defined
        self.gap: tuple[Ref, ...] = ()
        if ignored := [(self._ignored(name),) for name in dict.fromkeys(loaded.ignore)]:
            self.gap = (helper(((),), repeated=tuple(ignored)),)

    def spaced(self, symbol: Symbol | Demanding) -> tuple[Symbol | Demanding, ...]:
        """Return a terminal with what may be ignored before it."""
        return (*self.gap, symbol)

    def symbol(self, value: Any) -> Symbol | Demanding:
        """Return the symbol of a terminal's name, or of a literal in a rule."""
        key = str(value.name) if isinstance(value, Terminal) else value.children[0]
        if key not in self._symbols:
            self._symbols[key] = self._named(key) if isinstance(key, str) else self._of_pattern(key, None)
        return self._symbols[key]

    def _named(self, name: str) -> Symbol | Demanding:
        tree = self._trees[name]
        if tree is None:
            return self._declared(name)
        pattern = self._pattern(tree, name)
        texts = _plain_texts(tree)
        if texts is not None and len(texts) > 1:
            choice = self._helper(tuple((self._literal(text, name),) for text in dict.fromkeys(texts)))
            self.choices.add(choice)
            return choice
        return self._of_pattern(pattern, name)

    def _declared(self, name: str) -> Symbol:
        """Return what the caller gave for a declared terminal; a text cannot name a token by itself."""
        meaning = self._given.meaning(name)
        if meaning is None:
            raise GrammarError(
                f"terminal {name} is declared, but nothing is given for it", where=find_definition(self._files, name),
                because="a Lark text may name only the special tokens that its reader gives it",
                instead=f'specials={{"{name}": "the special token"}}, or declare={{"{name}": "a text"}}',
            )
        return meaning

    def _ignored(self, name: str) -> Symbol | Demanding:
        if name not in self._trees:
            raise GrammarError(f"terminal {name} is ignored but not defined", where=find(self._files, name))
        if self._trees[name] is None:
            return self._declared(name)
        defined = None if name.startswith("__IGNORE_") else name  # a pattern that stands in the %ignore itself
        return self._of_pattern(self._pattern(self._trees[name], name), defined, longest=True)

    def _pattern(self, tree: Any, name: str) -> Any:
        """Return what the library makes of a terminal: a pattern that is a string or a regular expression."""
        if _length(tree, {}) > MAX_LENGTH:
            raise LimitExceeded(
                f"terminal {name} is longer than {MAX_LENGTH:,} characters", where=find_definition(self._files, name)
            )
        try:
            PrepareLiterals().transform(tree)  # in place, and nothing happens the second time
            return TerminalTreeToPattern().transform(tree)
        except LARK_ERRORS as error:
            raise bad_literal(
                f"cannot read terminal {name}", error, self._files, tree, find_definition(self._files, name)
            ) from error

    def _of_pattern(self, pattern: Any, name: str | None, *, longest: bool = False) -> Symbol | Demanding:
        if isinstance(pattern, PatternStr) and "i" not in pattern.flags:
            return self._literal(pattern.value, name, pattern.raw)
        source = pattern.to_regexp()
        place = find_definition(self._files, name) if name else find(self._files, pattern.raw or "")
        where = place or work.place()
        shown = f"terminal {name or _shortened(pattern.raw or source)}"
        try:
            with working_on(shown + (f" ({place})" if place else "")):
                language = ignored(source) if longest else terminal(source)
        except (GrammarError, LimitExceeded) as error:
            if error.what == "too much work":
                raise  # it names the rule and the terminal
            because = (
                error.because
                if not error.where or error.where.startswith("Lark grammar")
                else f"{error.because} ({error.where} of the pattern)"
            )
            raise type(error)(error.what, where=where, because=because, instead=error.instead) from error
        except re.error as error:
            raise GrammarError(f"cannot read {shown}", where=where, because=error.msg) from error
        if not isinstance(language, Demanding) and is_empty(language):
            self.wordless[name or pattern.raw or source] = place
            return Pattern(NEVER, source)
        if isinstance(language, Demanding):
            return (
                replace(language, name=f"terminal {name or pattern.raw}" + (f", {place}" if place else ""))
                if language.longest
                else language
            )
        return Pattern(language, source)

    def _literal(self, text: str, name: str | None, raw: str | None = None) -> Literal:
        if any("\ud800" <= char <= "\udfff" for char in text):
            where = find(self._files, raw or "") or (find_definition(self._files, name) if name else None)
            raise GrammarError(f"literal {text!r} is no text", where=where, because="a lone surrogate is no character")
        return Literal(text)


def _shortened(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:99]}…"


def _length(tree: Any, known: dict[int, int]) -> int:
    """Return the length of a terminal's pattern, roughly; shared parts are measured once and counted as often as they
    occur.
    """
    if id(tree) not in known:
        children = getattr(tree, "children", None)
        known[id(tree)] = len(str(tree)) if children is None else 4 + sum(_length(child, known) for child in children)
    return known[id(tree)]


def _plain_texts(tree: Any) -> list[str] | None:
    """Return the texts of a terminal that is alternatives of plain strings, else None."""
    if tree.data == "expansions":
        lists = [_plain_texts(child) for child in tree.children]
        return None if None in lists else [text for texts in lists if texts is not None for text in texts]
    if tree.data in ("expansion", "value") and len(tree.children) == 1 and hasattr(tree.children[0], "data"):
        return _plain_texts(tree.children[0])
    if tree.data == "pattern":
        pattern = tree.children[0]
        return [pattern.value] if isinstance(pattern, PatternStr) and "i" not in pattern.flags else None
    return None


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
        self, loaded: Any, files: list[LarkText], start: str | None, given: Given, parts: Mapping[str, Productions]
    ) -> None:
        self._files, self._parts = files, parts
        self._specials = given.tokens
        # names are lark's tokens
        self._trees = {str(name): (tuple(map(str, params)), tree) for name, params, tree, _ in loaded.rule_defs}
        self._rules: dict[str, tuple[_Sequence, ...]] = {}
        self._start = start or self._first()
        self._owner, self._size, self._instances = self._start, 0, 0
        self._names, self._in_order = set(self._trees), sorted(self._trees)
        self._adopting = set[str]()  # rules of parts whose literals may be special tokens
        self._repeats: dict[tuple[str, _Sequence, int], _Sequence] = {}
        self._pending: deque[tuple[str, Any, _Environment]] = deque()
        self._terminals = Terminals(loaded, files, given, self._helper)

    def grammar(self, shown_to: Callable[[dict[str, Any]], object] = len) -> Productions:
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
        grammar = Productions(
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

    def _first(self) -> str:
        """Return the rule `start`, or the first one of the file that has no parameters."""
        rules = [token.text for token in self._files[0].tokens if token.kind == "definition"]
        plain = [name for name in rules if name in self._trees and not self._trees[name][0]]
        return plain[0] if plain and "start" not in plain else "start"

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


_RULE = re.compile("_?[a-z][_a-z0-9]*")


def read(
    text: str,
    start: str = "start",
    specials: Specials = (),
    declare: Mapping[str, str] | None = None,
    define: Mapping[str, Productions] | None = None,
) -> Productions:
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
        raise GrammarError(
            f"not a Lark text: {type(text).__name__}", instead="the text itself, or Grammar.from_lark_file(path)"
        )
    if text.endswith(".lark") and ":" not in text and len(text.split()) == 1:
        raise GrammarError(
            f"a path, not a Lark text: {shown(text, 80)}", because="a text opens no files",
            instead="Grammar.from_lark_file(path)",
        )
    grammar = _read(Sources(LarkText(text)), start, specials, declare, define)
    if isinstance(text, PrintedLark) and (text.widened or text.narrowed):
        return replace(grammar, widened=(*text.widened, *grammar.widened), cut=text.narrowed)
    return grammar


def read_file(
    path: str | os.PathLike[str],
    start: str | None = None,
    specials: Specials = (),
    declare: Mapping[str, str] | None = None,
    import_paths: Collection[str | os.PathLike[str]] = (),
    define: Mapping[str, Productions] | None = None,
    shown_to: Callable[[dict[str, Any]], object] = len,
) -> Productions:
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
    sources: Sources,
    start: str | None,
    specials: Specials,
    declare: Mapping[str, str] | None,
    define: Mapping[str, Productions] | None,
    shown_to: Callable[[dict[str, Any]], object] = len,
) -> Productions:
    with metered(), working_on("Lark grammar"):
        given = Given(specials, declare)
        try:
            main, inline = extracted(sources.files[0])
            sources.files[0] = main
            main.check()
            parts = {**_checked(define), **inline}
            spend(100 * len(parts))
            text = main.text + "".join(f"\n%declare {name}" for name in parts)
            name = main.name or "<string>"
            loaded, _ = load_grammar(text, name, [sources.load], False)  # type: ignore[no-untyped-call]
            return LarkTreeReader(loaded, sources.files, start, given, parts).grammar(shown_to)
        except LARK_ERRORS as error:
            raise recognised(translated(error, sources.files), sources.files[-1]) from error


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
            raise GrammarError(
                f"{shown(name, 100)} is not a name of a rule", where="define",
                because="names of rules are in small letters",
            )
    return define or {}
