"""A grammar → text for another engine, so that a server enforces it without running us.

Targets: llguidance's Lark, XGrammar's EBNF and llama.cpp's GBNF; XGrammar's structural tags, the JSON that vLLM and
SGLang take for a request.  What a target cannot say, such as that keys which no schema names differ, is listed in
`Exported.notes`, or refused.

**As characters.**  Engines differ in what a terminal means: llguidance takes its longest match, XGrammar and llama.cpp
know characters only; ``\\d``, anchors, lazy repeats and names of common terminals mean different things in each.  So
nothing of this is written: a grammar is printed as Lark (`Grammar.to_lark`), read back, and every pattern in it becomes
rules over single characters, one for each state of its automaton, in which all three agree.  llguidance knows special
tokens by name, ``<|eot_id|>``, if it stands in angle brackets; others are refused.  In XGrammar and GBNF they are
written as their text, which these engines also let the model spell in ordinary tokens; a note says so.  Refused:
patterns with more than `MOST_STATES` states, and, for GBNF, rules that begin with themselves by way of others.

**As structural tags.**  Rules are followed from the start: texts become ``const_string``, special tokens ``token``,
calls between two of these ``tag``, choices ``or`` and ``optional``, rules that repeat at one end ``star``.  What lies
between, an argument's values or free text, is a ``grammar`` of single characters, so that verdicts are ours to the
character; XGrammar's own ``json_schema`` ignores keywords.

    hermes    or ─ sequence(grammar: free text, token <|im_end|>)
                 └ sequence(optional(…), tag <tool_call>… grammar: arguments …</tool_call>, star(…), token <|im_end|>)

XGrammar takes a special token also where its text may stand, which a note says.  The end of a turn is left to the
server: XGrammar never takes a stop token before the end of its grammar, so the tokens that end turns (`stops`)
are dropped there, and a note names them.  Refused: rules with special tokens or values in them that repeat in the
middle.

Tested against llguidance and XGrammar (tests/hosts/test_exports.py); GBNF is read by XGrammar there, and by llama.cpp
in tests/hosts/test_local.py.
Source: XGrammar's documentation of structural tags, https://xgrammar.mlc.ai/docs/structural_tag/structural_tag.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from constrained.export.lark import unused, write

from constrained.errors import GrammarError, shown
from constrained.grammar import Embedded, Grammar, Literal, Pattern, Ref, Rule, Special, Symbol
from constrained.machine import Language
from constrained.work import metered, spend, working_on

STRUCTURAL_TAGS = "xgrammar-tags"
TARGETS = ("llguidance", "xgrammar", STRUCTURAL_TAGS, "gbnf")


def export(grammar: Grammar, to: str) -> Exported:
    """Return a grammar as the text of another engine.

    Raises: GrammarError: no such target, or the target cannot say it.

    >>> print(export(Grammar.from_lark('start: "a" start "b" |'), "xgrammar"), end="")
    root ::= start
    start ::= "a" start "b" | ""
    """
    if to not in TARGETS:
        raise GrammarError(f"unknown target {shown(to, 50)}", instead="one of: " + ", ".join(map(repr, TARGETS)))
    if not isinstance(grammar, Grammar):
        instead = "constraint.grammar" if hasattr(grammar, "bound_grammar") else "Grammar.from_lark(…)"
        raise GrammarError(f"not a grammar: {shown(grammar)}", instead=instead)
    if grammar.limit is not None:
        because = f"it cannot count the tokens until {grammar.limit.until!r}"
        raise GrammarError(f"{to} has no max_tokens", because=because, instead="the grammar without it")
    return structural_tag(grammar) if to == STRUCTURAL_TAGS else in_characters(grammar, to)


# -- rules over single characters --------------------------------------------------------------------------------------


MOST_STATES = 5_000
_NAMED = re.compile(r"<[^<>\s]+>")
_NO_NUL = "narrower: XGrammar reads no character of code 0"
_AS_TEXT = "special tokens are written as their text, which the engine also lets the model spell in ordinary tokens"
_SURROGATES = (0xD800, 0xDFFF)


class Exported(str):
    """A grammar's text, and what a reader should know about it."""

    notes: tuple[str, ...]

    def __new__(cls, text: str, notes: tuple[str, ...]) -> Exported:
        found = super().__new__(cls, text)
        found.notes = notes
        return found


def in_characters(grammar: Grammar, to: str) -> Exported:
    """Return a grammar as the text of an engine: "llguidance", "xgrammar" or "gbnf".

    Raises: GrammarError: the engine cannot say it.
    """
    with metered(), working_on(f"export to {to}"):
        printed = write(grammar, lookahead=False)  # what each state reads is written out in any case
        flat = Grammar.from_lark(str(printed), specials=grammar.specials)
        if to == "gbnf":
            flat = _right_recursive(flat)
            _refuse_left_recursion(flat)
        writer = _CharacterWriter(flat, to)
        text = "\n".join(writer.lines()) + "\n"
    differs = [
        f"{kind} at {entry[0]}: {entry[2]}"
        for kind, entries in (("wider", printed.widened), ("narrower", printed.narrowed))
        for entry in entries
    ]
    return Exported(text, (*differs, *writer.notes))


class _CharacterWriter:
    """Rules of characters; names are given once."""

    def __init__(self, grammar: Grammar, to: str) -> None:
        self._grammar, self._to = grammar, to
        self._lark = to == "llguidance"
        self._names: dict[object, str] = {}
        self._taken = {"root", "start"} if self._lark else {"root"}
        self._numbers: dict[str, int] = {}  # the last that was put behind a stem
        self._todo: list[tuple[str, Language]] = []
        self.notes: list[str] = []

    def lines(self) -> list[str]:
        grammar = self._grammar
        first = self._name(Ref(grammar.start), grammar.start)
        found = [self._rule("start" if self._lark else "root", [[first]])]
        bodies = {
            name: [[self._symbol(symbol) for symbol in sequence] for sequence in rule.alternatives]
            for name, rule in grammar.rules.items()
        }
        found += [self._rule(self._name(Ref(name), name), alternatives) for name, alternatives in bodies.items()]
        for name, state in self._todo:  # grows while it is walked
            spend(10)
            if len(self._todo) > MOST_STATES:
                raise GrammarError(
                    f"cannot export to {self._to}",
                    because=f"its patterns have more than {MOST_STATES:,} states",
                    instead="smaller bounds",
                )
            found.append(self._rule(name, self._steps(state)))
        return found

    def _rule(self, name: str, alternatives: Iterable[list[str]]) -> str:
        shown = dict.fromkeys(" ".join(filter(None, parts)) or '""' for parts in alternatives)
        return f"{name}: {' | '.join(shown)}" if self._lark else f"{name} ::= {' | '.join(shown)}"

    def _name(self, key: object, wanted: str) -> str:
        known = self._names.get(key)
        if known is None:
            stem = re.sub(r"[^a-z0-9]+", "_" if self._lark else "-", wanted.lower()).strip("_-")
            stem = stem if stem[:1].isalpha() else f"r{stem}"
            known = self._names[key] = unused(stem, self._taken, self._numbers, "_" if self._lark else "-")
        return known

    def _symbol(self, symbol: Symbol) -> str:
        if isinstance(symbol, Ref):
            return self._name(symbol, symbol.rule)
        if isinstance(symbol, Pattern):
            return self._state(symbol.language)
        text = symbol.name if isinstance(symbol, Special) else symbol.text if isinstance(symbol, Literal) else ""
        if text in self._grammar.specials and self._lark:
            if not _NAMED.fullmatch(text):
                raise GrammarError(
                    f"cannot export the special token {text!r} to llguidance",
                    because="it names special tokens in angle brackets only",
                )
            return text
        if text in self._grammar.specials and _AS_TEXT not in self.notes:
            self.notes.append(_AS_TEXT)
        return " ".join(map(_quoted, text)) if self._lark else _quoted(text) if text else ""

    def _state(self, language: Language) -> str:
        if language not in self._names:
            self._todo.append((self._name(language, "text"), language))
        return self._names[language]

    def _steps(self, language: Language) -> list[list[str]]:
        if self._to == "xgrammar" and any(low == 0 for low, _, _ in language.edges()) and _NO_NUL not in self.notes:
            self.notes.append(_NO_NUL)
        spend(2 * len(language.edges()))
        leads: dict[Language, list[tuple[int, int]]] = {}
        for low, high, target in language.edges():
            leads.setdefault(target, []).extend(_scalars(low, high))
        steps = [
            [_class(ranges, lark=self._lark), *([self._state(target)] if target.edges() else [])]
            for target, ranges in leads.items()
            if ranges
        ]
        return steps + ([[]] if language.accepts else [])


def _scalars(low: int, high: int) -> list[tuple[int, int]]:
    """Return a range without surrogates."""
    parts = [(low, min(high, _SURROGATES[0] - 1)), (max(low, _SURROGATES[1] + 1), high)]
    return [(first, last) for first, last in parts if first <= last]


def _class(ranges: list[tuple[int, int]], *, lark: bool) -> str:
    """Return a class of characters."""
    shown = "".join(_code(low) if low == high else f"{_code(low)}-{_code(high)}" for low, high in sorted(ranges))
    return f"/[{shown}]/" if lark else f"[{shown}]"


def _code(point: int) -> str:
    char = chr(point)
    if char.isascii() and char.isalnum():
        return char
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"  # \x takes all hex digits behind it in XGrammar


def _quoted(text: str) -> str:
    return (
        '"'
        + "".join(
            char if char.isascii() and char.isprintable() and char not in '"\\' else _escaped(char) for char in text
        )
        + '"'
    )


def _escaped(char: str) -> str:
    short = {"\n": r"\n", "\r": r"\r", "\t": r"\t", '"': r"\"", "\\": r"\\"}.get(char)
    return (
        short
        if short is not None
        else char
        if char.isprintable()
        else f"\\u{ord(char):04x}"
        if ord(char) < 0x10000
        else char
    )


def _right_recursive(grammar: Grammar) -> Grammar:
    """Return a grammar whose repeats go on at their end: a rule `r: once | r again` as `r: once more`, and
    `more: again more |`.
    """
    rules = dict(grammar.rules)
    for name, rule in grammar.rules.items():
        spend(1 + len(rule.alternatives))
        again = [sequence[1:] for sequence in rule.alternatives if sequence[:1] == (Ref(name),)]
        if again:
            more = f"{name}_more"
            while more in rules:
                more += "_"
            once = [sequence for sequence in rule.alternatives if sequence[:1] != (Ref(name),)]
            rules[name] = Rule(name, tuple((*sequence, Ref(more)) for sequence in once))
            rules[more] = Rule(more, ((), *((*sequence, Ref(more)) for sequence in again if sequence)))
    return replace(grammar, rules=rules)


def _refuse_left_recursion(grammar: Grammar) -> None:
    """Refuse rules that may begin with themselves, which llama.cpp never ends to read.

    Raises: GrammarError: for the first of them.
    """
    nullable: set[str] = set()
    changed = True
    while changed:
        changed = False
        for name, rule in grammar.rules.items():
            if name not in nullable and any(
                all(_may_be_empty(symbol, nullable) for symbol in sequence) for sequence in rule.alternatives
            ):
                nullable.add(name)
                changed = True
    first = {
        name: _beginnings(rule.alternatives, lambda symbol: _may_be_empty(symbol, nullable))
        for name, rule in grammar.rules.items()
    }
    for name in grammar.rules:
        reached, work = set[str](), list(first[name])
        while work:
            spend(1)
            found = work.pop()
            if found == name:
                raise GrammarError(
                    "cannot export to gbnf",
                    where=f"rule {name}",
                    because="it may begin with itself",
                    instead="recursion on the right",
                )
            if found not in reached:
                reached.add(found)
                work += first[found]


def _may_be_empty(symbol: Symbol, nullable: set[str]) -> bool:
    return (
        symbol.rule in nullable if isinstance(symbol, Ref) else isinstance(symbol, Pattern) and symbol.language.accepts
    )


def _beginnings(alternatives: Iterable[tuple[Symbol, ...]], may_be_empty: Callable[[Symbol], bool]) -> set[str]:
    found = set()
    for sequence in alternatives:
        for symbol in sequence:
            if isinstance(symbol, Ref):
                found.add(symbol.rule)
            if not may_be_empty(symbol):
                break
    return found


# -- structural tags ---------------------------------------------------------------------------------------------------


Format = dict[str, Any]  # of XGrammar: an object with a type
_EMPTY: Format = {"type": "const_string", "value": ""}


def structural_tag(grammar: Grammar) -> Exported:
    """Return a grammar as a structural tag, in JSON.

    Raises: GrammarError: it has no such form.
    """
    with metered():
        writer = _TagWriter(grammar)
        if grammar.specials:
            writer.notes.append("wider: the engine takes a special token also where a text may spell it")
        whole, ended = _without_end(writer.rule(grammar.start), grammar.stops)
        text = _json({"type": "structural_tag", "format": whole})
    if ended:
        stops = " or ".join(sorted(ended))
        writer.notes.append(f"the end of a turn is left to the server, which has to stop at {stops}")
    return Exported(text + "\n", tuple(dict.fromkeys(writer.notes)))


def _json(tag: Format) -> str:
    """Return JSON text.  Formats of rules that are used twice stand there twice, so pieces are counted."""
    found = []
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(tag):
        spend(1)
        found.append(piece)
    return "".join(found)


class _TagWriter:
    """Formats of rules; each rule is written once and then repeated."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._reached: dict[str, frozenset[str]] = {}
        self._formats: dict[str, Format] = {}
        self.notes: list[str] = []

    def rule(self, name: str) -> Format:
        """Return the format of whatever a rule derives."""
        name = self._aliased(name)
        if name not in self._formats:
            spend(20)
            self._formats[name] = self._written(name)
        return self._formats[name]

    def _written(self, name: str) -> Format:
        reached = self._below(name)
        if not any(self._is_structure(symbol) for rule in {name, *reached} for symbol in self._symbols(rule)):
            return self._grammar_of(name)
        alternatives = self._grammar.rules[name].alternatives
        if name not in reached:
            return _choice([self._sequence(sequence) for sequence in alternatives])
        for left in (False, True):  # where a rule repeats: at the end of its alternatives, or at their beginning
            found = self._repeated(name, left=left)
            if found is not None:
                return found
        raise GrammarError(
            "cannot export to structural tags",
            where=f"rule {name}",
            because="it has special tokens or values in it, and repeats in the middle or at both ends",
            instead="xgrammar: the grammar as a whole",
        )

    def _repeated(self, name: str, *, left: bool) -> Format | None:
        """Return the format of a rule that repeats at one end only; None: it does not."""
        again, once = list[Sequence[Symbol]](), list[Sequence[Symbol]]()
        for sequence in self._grammar.rules[name].alternatives:
            if sequence and self._names(sequence[0 if left else -1]) == name:
                again.append(sequence[1:] if left else sequence[:-1])
            else:
                once.append(sequence)
        if any(name in self._below_symbol(symbol) for sequence in (*again, *once) for symbol in sequence):
            return None
        star = {"type": "star", "content": _choice([self._sequence(sequence) for sequence in again])}
        rest = _choice([self._sequence(sequence) for sequence in once])
        return _sequence([rest, star] if left else [star, rest])

    def _sequence(self, symbols: Sequence[Symbol]) -> Format:
        return _sequence([self._symbol(symbol) for symbol in symbols])

    def _symbol(self, symbol: Symbol) -> Format:
        if isinstance(symbol, Ref):
            return self.rule(symbol.rule)
        if isinstance(symbol, Special) or (isinstance(symbol, Literal) and symbol.text in self._grammar.specials):
            return {"type": "token", "token": symbol.name if isinstance(symbol, Special) else symbol.text}
        if isinstance(symbol, Literal):
            return {"type": "const_string", "value": symbol.text}
        return self._characters(Grammar({"start": Rule("start", ((symbol,),))}))

    def _grammar_of(self, name: str) -> Format:
        kept = {rule: self._grammar.rules[rule] for rule in {name, *self._below(name)}}
        alternatives = kept[name].alternatives
        if len(alternatives) == 1 and all(isinstance(symbol, Literal) for symbol in alternatives[0]):
            return self._sequence(alternatives[0])
        return self._characters(Grammar(kept, start=name))

    def _characters(self, grammar: Grammar) -> Format:
        text = in_characters(replace(grammar, specials=self._grammar.specials), "xgrammar")  # which texts do not spell
        self.notes += text.notes
        return {"type": "grammar", "grammar": str(text)}

    # -- the rules -----------------------------------------------------------------------------------------------------

    def _is_structure(self, symbol: Symbol) -> bool:
        """Say whether a symbol is written by itself: a special token, or the values of a schema."""
        special = isinstance(symbol, Literal) and symbol.text in self._grammar.specials
        return special or isinstance(symbol, (Special, Embedded))

    def _symbols(self, name: str) -> Iterator[Symbol]:
        for sequence in self._grammar.rules[name].alternatives:
            yield from sequence

    def _aliased(self, name: str) -> str:
        """Return the rule that a rule is another name of."""
        seen = {name}
        while True:
            alternatives = self._grammar.rules[name].alternatives
            if len(alternatives) != 1 or len(alternatives[0]) != 1 or not isinstance(alternatives[0][0], Ref):
                return name
            name = alternatives[0][0].rule
            if name in seen:
                return name
            seen.add(name)

    def _names(self, symbol: Symbol) -> str | None:
        return self._aliased(symbol.rule) if isinstance(symbol, Ref) else None

    def _below_symbol(self, symbol: Symbol) -> frozenset[str]:
        name = self._names(symbol)
        return frozenset() if name is None else self._below(name) | {name}

    def _below(self, name: str) -> frozenset[str]:
        """Return the rules that a rule uses, and those that these use."""
        if name not in self._reached:
            found, todo = set[str](), [name]
            while todo:
                spend(1)
                for symbol in self._symbols(todo.pop()):
                    if isinstance(symbol, Ref) and symbol.rule not in found:
                        found.add(symbol.rule)
                        todo.append(symbol.rule)
            self._reached[name] = frozenset(found)
        return self._reached[name]


def _choice(formats: Sequence[Format]) -> Format:
    """Return any of some formats."""
    found = [made for made in formats if made != _EMPTY]
    whole = found[0] if len(found) == 1 else {"type": "or", "elements": found} if found else _EMPTY
    return whole if len(found) == len(formats) or not found else {"type": "optional", "content": whole}


def _sequence(formats: Sequence[Format]) -> Format:
    """Return some formats one after the other: texts joined, and a tag where two texts or tokens enclose the rest."""
    parts: list[Format] = []
    for made in formats:
        for part in made["elements"] if made["type"] == "sequence" else [made]:
            spend(1)
            if part["type"] == "const_string" and parts and parts[-1]["type"] == "const_string":
                parts[-1] = {"type": "const_string", "value": parts[-1]["value"] + part["value"]}
            elif part != _EMPTY:
                parts.append(part)
    if len(parts) == 3 and parts[0]["type"] == parts[2]["type"] == "const_string" and parts[1]["type"] == "grammar":
        begin, content, end = parts
        return {"type": "tag", "begin": begin["value"], "content": content, "end": end["value"]}
    return _EMPTY if not parts else parts[0] if len(parts) == 1 else {"type": "sequence", "elements": parts}


def _without_end(made: Format, stops: frozenset[str]) -> tuple[Format, set[str]]:
    """Return a format without the tokens that end it, and these tokens."""
    spend(1)
    kind = made["type"]
    if kind == "token" and made["token"] in stops:
        return _EMPTY, {made["token"]}
    if kind == "or":
        found = [_without_end(part, stops) for part in made["elements"]]
        return _choice([part for part, _ in found]), set().union(*(ended for _, ended in found))
    if kind == "optional":
        inner, ended = _without_end(made["content"], stops)
        return _choice([inner, _EMPTY]), ended
    if kind != "sequence":
        return made, set()
    parts, ended = list(made["elements"]), set[str]()
    while parts:
        last, found_there = _without_end(parts.pop(), stops)
        ended |= found_there
        if last != _EMPTY:
            parts.append(last)
            break
    return _sequence(parts), ended
