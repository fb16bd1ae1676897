"""Lark as llguidance has it: special tokens in angle brackets, attributes of rules, ``%json``, ``&`` and ``~``.

    start: <|tool|> call <|end|> | text
    call[lazy]: /[a-z]+/ "("
    text[suffix="."]: /[^\\n]*/
    NAME: /[a-z]+/ & ~"end"

**Texts.**  A terminal, a literal or a regular expression is a lexeme, and its language is all that it matches.  With
`lazy` and `suffix` it ends as soon as it can: the texts that begin with no shorter one.  Regular expressions are those
of Rust's `regex`, which differ from Python's in classes; what only one has is refused.

**Lexemes.**  llguidance lets a greedy lexeme end only where it cannot go on; here, as in Lark, it ends where the rules
want.  A text that only the latter takes, ``/a+/ "ab"`` reads "aab", is a widening, and the lexemes where this may
happen are listed in `widened`, as are those that a lazy lexeme in their place cuts short.  Where none is listed, both
agree, but for a lazy lexeme of one character right behind a greedy one, which llguidance 1.9 reads on, against its
documentation: ``/a+/ x`` with ``x[lazy]: /b|bc/`` takes "abc" there, and only "ab" here.

**Blanks.**  What is ignored may stand around every lexeme.  llguidance takes none before the first nor, where
nothing can follow, behind the last; this is listed.

`capture` and its kin say what is handed back, `%llguidance` how to compute: both leave the language as it is.  Refused,
by name: `stop`, which takes back what was generated; `max_tokens` and `temperature`, which are no part of a language;
tokens by number; parameters of rules; grammars inside others.

Source: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from lark import Token

from constrained.errors import ConstrainedError, GrammarError
from constrained.grammar.compose import of_machine
from constrained.grammar.ir import Literal, Productions, Ref, Symbol, name_of
from constrained.grammar.lark.reader import read as read_lark
from constrained.grammar.lark.syntax import LarkText
from constrained.machine import Widened
from constrained.regex import ANY, ANY_TEXT, Expr, complement, concat, intersect, is_empty, literal, parse_python
from constrained.regex.charset import Ranges, category, normal, unicode_property, union
from constrained.regex.charset import intersect as intersect_ranges
from constrained.work import spend

from .quotes import quoted_source
from .rules import Part, Reading, of_expression, of_rule, of_terminal, place, quoted

_GRAMMAR = r"""
start: (rule | terminal | ignored | imported | options)*
options: OPTIONS
rule: RULE PRIORITY? attributes? ":" choice
terminal: TERMINAL PRIORITY? ":" choice
ignored: "%ignore" choice
imported: "%import" PATH ("->" TERM)? | "%import" PATH "(" TERM ("," TERM)* ")"
attributes: "[" attribute ("," attribute)* "]"
attribute: NAME ("=" (STRING | REGEXP | TERM | NUMBER))?
choice: both ("|" both)*
both: sequence ("&" sequence)* ("->" NAME)?
sequence: repeated*
?repeated: atom | repeated OPERATOR -> operated | repeated COUNT -> counted
?atom: NAME -> name | TERM -> term | STRING -> text | STRING ".." STRING -> between | REGEXP -> regexp
     | SPECIAL -> token | GRAMMAR -> named | JSON -> json | QUOTES -> quotes | "(" choice ")" -> group
     | "[" choice "]" -> optional | NOT atom -> negated | NESTED -> nested
RULE.3: /[!?]*_?[a-z][\w-]*(?=HEAD)(\{[^}\n]*\})?/
TERMINAL.3: /_?[A-Z][A-Z0-9_-]*(?=(\.[+-]?\d+)?\s*:(?!:))/
PRIORITY.2: /\.[+-]?\d+/
NAME: /_?[a-z][\w-]*/
TERM: /_?[A-Z][A-Z0-9_-]*/
PATH.2: /common\.(?=[A-Z])[A-Z_0-9]+|common(?=\s*\()/
NUMBER: /[+-]?\d+(\.\d*)?/
STRING: /"(\\.|[^"\\\n])*"i?/
REGEXP: /\/(\\.|[^\/\\\n])+\/[imslux]*/
SPECIAL: /<[^<>\s]+>/
GRAMMAR: /@[\w-]+/
NESTED: /@\{[\s\S]*/
JSON: "%json"
QUOTES: "%regex"
OPTIONS: "%llguidance"
OPERATOR: /[?*+]/
COUNT.2: /~\s*\d+(\s*\.\.\s*\d+)?|\{\s*\d+\s*(,\s*\d*\s*)?\}|\{\s*,\s*\d+\s*\}/
NOT: "~"
COMMENT: /(\/\/|#)[^\n]*/
%ignore COMMENT
%ignore /\s+/
""".replace(
    "HEAD",  # of a definition, behind its name: parameters, priority, attributes, a colon
    r"""\s*(\{[^}\n]*\})?(\.[+-]?\d+)?\s*(\[("(\\.|[^"\\\n])*"|\/(\\.|[^\/\\\n])+\/|[^\]\n"\/])*\])?\s*:(?!:)""",
)
_VALUED = re.compile(r'//[^\n]*|#[^\n]*|"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/|(%json|%regex|%llguidance)\b')
_OPEN, _CLOSE = "\x01", "\x02"  # around what blanks may stand before
_HARMLESS = {"no_forcing", "allow_initial_skip", "allow_invalid_utf8"}  # options that leave the language as it is read


def shortest(expr: Expr) -> Expr:
    """Return the texts of a language that begin with no shorter one."""
    return intersect(expr, complement(concat(expr, ANY, ANY_TEXT)))


def same(expr: Expr) -> Expr:
    return expr


class LlguidanceLark(Reading):
    """That of llguidance."""

    notation, grammar = "llguidance", _GRAMMAR

    def __init__(self, text: str, file: str | None, specials: Any, start: str | None) -> None:
        super().__init__(text, file, specials, start or "start")
        self._values: dict[int, Any] = {}  # by the place of the word before them
        self._plain = set[str]()  # rules inside terminals: no blanks stand in them
        self._ends_early, self._lexemes = set[str](), set[str]()
        self._gap: list[Part] = []

    # -- values of JSON are taken out, so that the grammar of the notation need not know them --------------------------

    def _tree(self, text: str) -> Any:
        return super()._tree(self._without_values(text))

    def _without_values(self, text: str) -> str:
        pieces, at = [], 0
        while (match := _VALUED.search(text, at)) is not None:
            begin = match.end()
            pieces.append(text[at:begin])
            at = begin
            if match[1]:
                at += len(text[at:]) - len(text[at:].lstrip())
                try:
                    self._values[match.start()], at = json.JSONDecoder().raw_decode(text, at)
                except (ValueError, RecursionError) as error:
                    line = text.count("\n", 0, match.start()) + 1, match.start() - text.rfind("\n", 0, match.start())
                    raise self.error(line, f"what follows {match[1]} is no JSON: {error}") from None
                pieces.append(re.sub(r"[^\n]", " ", text[begin:at]))
        return "".join([*pieces, text[at:]])

    def options(self, token: Token) -> None:
        value = self._values[token.start_pos or 0]
        for name in value if isinstance(value, dict) else [str(value)]:
            if name not in _HARMLESS:
                raise self.refuse(token, f"the option {name!r}")

    # -- rules and terminals -------------------------------------------------------------------------------------------

    def rule(self, name: Token, *rest: Any) -> None:
        bare = name.lstrip("!?")
        if "{" in bare or ":" in bare:
            raise self.refuse(name, f"parameters of rule '{bare.partition('{')[0]}'", "a rule for each value")
        attributes = next((part for part in rest if isinstance(part, dict)), {})
        body = rest[-1]
        if "lazy" in attributes or "suffix" in attributes:
            suffix = attributes.get("suffix")
            body = [self._lexeme(self._inside(name, shortest, [*body], suffix), early=True)]
        self.define(name.update(value=bare), body)

    def _inside(self, token: Token, function: Any, body: list[Part], behind: Part | None = None) -> Part:
        parts = [Part(f"({' | '.join(part.text for part in body)})", body[0].at)] + ([behind] if behind else [])
        return self._alone(self.computed(token, function, [self.sequence(*parts)]))

    def _alone(self, part: Part) -> Part:
        self._plain.update(self.out.computed[part.text].operands)
        return part

    def attributes(self, *given: tuple[Token, Any]) -> dict[str, Any]:
        found = {}
        for key, value in given:
            if str(key) == "stop":
                raise self.refuse(
                    key, "attribute 'stop', which takes back a text that was generated,", 'suffix="…", which keeps it')
            if str(key) in ("max_tokens", "temperature"):
                raise self.refuse(key, f"attribute '{key}', which is no part of a language,", "leave it to the sampler")
            if str(key) not in ("lazy", "suffix", "capture", "stop_capture", "capture_name"):
                raise self.error(key, f"unknown attribute '{key}'")
            found[str(key)] = value
        return found

    def attribute(self, key: Token, value: Token | None = None) -> tuple[Token, Any]:
        if str(key) == "suffix":
            if value is None or value.type == "NUMBER":
                raise self.error(key, "suffix takes a text, a pattern or a terminal")
            read = {"STRING": self.text, "REGEXP": self.regexp, "TERM": self.term}[value.type]
            return key, read(value)
        return key, value

    def terminal(self, name: Token, *rest: Any) -> None:
        body = [part._replace(text=part.text.strip(_OPEN + _CLOSE)) for part in rest[-1]]
        alone = len(body) == 1 and body[0].text in self.out.parts
        self.define(name, body if alone else [self._inside(name, same, body)])

    def ignored(self, alternatives: list[Part]) -> None:
        self._gap += alternatives

    def imported(self, path: Token, *names: Token) -> None:
        one = path.partition(".")[2]
        for name in names if not one else [names[0] if names else path.update(value=one)]:
            expr = _common(one or str(name))
            if expr is None:
                raise self.error(path, f"there is no terminal common.{one or name}")
            found = self.part(name, str(name), of_expression(expr, None))
            self.define(name, [found])

    # -- parts ---------------------------------------------------------------------------------------------------------

    def both(self, *parts: Part | Token) -> Part:
        found = [part for part in parts if isinstance(part, Part)]
        if len(found) == 1:
            return found[0]
        line, column = found[0].at
        return self._alone(self.computed(Token("&", "&", line=line, column=column), intersect, *([p] for p in found)))

    def negated(self, token: Token, part: Part) -> Part:
        return self._alone(self.computed(token, complement, [part]))

    def operated(self, part: Part, operator: Token) -> Part:
        return {"?": self.maybe, "*": self.star, "+": self.plus}[str(operator)](part)

    def counted(self, part: Part, count: Token) -> Part:
        inner = re.sub(r"[~{}\s]", "", count).replace("..", ",")
        least, comma, most = inner.partition(",")
        return self.repeated(part, *self.counts(count, least, most if comma else None))

    def _lexeme(self, part: Part, *, early: bool = False) -> Part:
        self._lexemes.add(part.text)
        if early:
            self._ends_early.add(part.text)
        return Part(f"{_OPEN}{part.text}{_CLOSE}", part.at) if part.text else part

    def term(self, token: Token) -> Part:
        return self._lexeme(self.name(token))

    def text(self, token: Token) -> Part:
        string, any_case = token.removesuffix("i"), token.endswith("i")
        text = self._string(token, string)
        if not any_case:
            return self._lexeme(self.literal(token, text))
        return self._regular(token, re.escape(text), "i")

    def _string(self, token: Token, text: str) -> str:
        try:
            found = json.loads(re.sub(r"\\x|\\.", lambda escape: escape[0].replace(r"\x", r"\u00"), text))
        except ValueError as error:
            raise self.error(token, f"{text} is no JSON string: {error}") from None
        return str(found)

    def between(self, first: Token, last: Token) -> Part:
        ends = [self._string(token, str(token)) for token in (first, last)]
        if any(len(end) != 1 for end in ends):
            raise self.error(first, "a range is between single characters")
        return self._lexeme(self.characters(first, [(ord(ends[0]), ord(ends[1]))]))

    def regexp(self, token: Token) -> Part:
        source, _, flags = token[1:].rpartition("/")
        return self._regular(token, source.replace(r"\/", "/"), flags)

    def _regular(self, token: Token, source: str, flags: str) -> Part:
        try:
            expr = parse_rust(source, flags)
        except GrammarError as error:
            raise self.error(token, error.because or error.what, error.instead) from None
        return self._lexeme(self.part(token, "pattern", of_expression(expr, None if flags else source)))

    def token(self, token: Token) -> Part:
        if token.startswith("<["):
            raise self.refuse(token, f"the token set {token}", "a special token by its name")
        return self.special(token, str(token))

    def named(self, token: Token) -> Part:
        name = token[1:]
        if name not in self.out.parts:
            raise self.error(token, f"nobody gave the grammar {token}", f'define={{"{name}": grammar}}')
        return self._lexeme(Part(name, place(token)))

    def nested(self, token: Token) -> Part:
        raise self.refuse(token, "a grammar inside another, with rules of its own,", "rules of this grammar")

    def json(self, token: Token) -> Part:
        from constrained.schema.embedding import machine_of

        try:
            machine = machine_of(self._values[token.start_pos or 0], None, {})
        except ConstrainedError as error:
            where = f" at {error.where}" if error.where else ""
            raise self.error(token, f"{error.what}{where}: {error.because}", error.instead) from error
        return self._lexeme(self.part(token, "json", of_machine(machine, Productions)))

    def quotes(self, token: Token) -> Part:
        value = self._values[token.start_pos or 0]
        found = quoted_source("regex", value, LarkText(self._text).place_at(token.start_pos or 0))
        return self._lexeme(self.part(token, "quotes", found))

    # -- the whole -----------------------------------------------------------------------------------------------------

    def translated(self) -> Any:
        if self._gap:
            gap = self.group(self._gap)
            name = self.fresh("ignored")
            self._rules[name] = [Part(f"{gap.text}*", gap.at)]
            self._plain.add(name)
            self.ends = f" {name}"
            because = "blanks may stand at both ends, too: llguidance takes them where a lexeme may follow"
            self.out.widened.append(Widened("%ignore", "%ignore", because))
        for rule, alternatives in self._rules.items():
            opened = f"({name} " if self._gap and rule not in self._plain else ""
            closed = ")" if opened else ""
            self._rules[rule] = [
                part._replace(text=part.text.replace(_OPEN, opened).replace(_CLOSE, closed)) for part in alternatives
            ]
        found = super().translated()
        found.check = partial(longer, lexemes=self._lexemes, lazy=self._ends_early, names=self.out.names)
        return found


# -- lexemes that llguidance reads on ----------------------------------------------------------------------------------


def longer(
    grammar: Productions, languages: Mapping[str, Expr | None], lexemes: set[str], lazy: set[str], names: dict[str, str]
) -> list[Widened]:
    """Return the lexemes behind which may stand what they, or others in their place, could go on with: llguidance does,
    and the grammar does both.

    languages: of rules, as far as they are regular.  Which lexemes may stand in one place is told as in SLR: those that
    follow the same.
    """
    terminals = _Lexemes(grammar, languages, lexemes)
    follow = terminals.follow()
    places = [found for found in follow.values() if found]
    begins = {name: _first(expr) for name, expr in terminals.known.items()}
    found = []
    for name, expr in terminals.known.items():
        behind = union(*(begins[other] for other in follow[name]))
        rivals = {name}.union(*(place for place in places if name in place))
        because = None
        if name not in lazy and behind and any(_goes_on(expr, terminals.known[rival], behind) for rival in rivals):
            because = "llguidance lets it end only where it, or another lexeme in its place, cannot go on"
        elif any(_begins_with(expr, terminals.known[rival]) for rival in rivals & lazy - {name}):
            because = "llguidance takes a lazy lexeme in its place as soon as that ends"
        if because is not None:
            found.append(Widened(f"lexeme {names.get(name, name)}", "longest match", because))
    return found


def _begins_with(one: Expr, other: Expr) -> bool:
    """Say whether a text of the one language begins with one of the other."""
    return not is_empty(intersect(one, concat(other, ANY_TEXT)))


def _first(expr: Expr) -> Ranges:
    return normal((low, high) for low, high, _ in expr.edges())


def _goes_on(one: Expr, other: Expr, behind: Ranges) -> bool:
    """Say whether the other language has a text that goes on, with one of some characters, behind a text of the one."""
    todo, seen = [(one, other)], {(one, other)}
    while todo:
        left, right = todo.pop()
        spend(5)
        if left.accepts and left is not one and intersect_ranges(_first(right), behind):
            return True
        for low, high, target in left.edges():
            for least, most, goal in right.edges():
                pair = target, goal
                if max(low, least) <= min(high, most) and pair not in seen:
                    seen.add(pair)
                    todo.append(pair)
    return False


class _Lexemes:
    """The lexemes of a grammar by name, and which may follow which."""

    def __init__(self, grammar: Productions, languages: Mapping[str, Expr | None], lexemes: set[str]) -> None:
        self.known = {name: expr for name, expr in languages.items() if name in lexemes and expr is not None}
        self._rules = {}
        for name, rule in grammar.rules.items():
            if name not in self.known:
                self._rules[name] = [[self._symbol(symbol, grammar.specials) for symbol in sequence]
                                     for sequence in rule.alternatives]
        self._start = grammar.start

    def _symbol(self, symbol: Symbol, specials: frozenset[str]) -> str:
        """Return the name of a lexeme or a rule; of what is neither, its own name, which is that of no rule."""
        if isinstance(symbol, Ref):
            return symbol.rule
        if isinstance(symbol, Literal) and symbol.text not in specials:
            name = quoted(symbol.text)
            self.known.setdefault(name, literal(symbol.text))
            return name
        return f"<{name_of(symbol)}>"

    def follow(self) -> dict[str, set[str]]:
        """Return the lexemes that may follow each lexeme or rule; "": those that may begin the text."""
        empty = {name for name, expr in self.known.items() if expr.accepts}
        first: dict[str, set[str]] = {name: {name} & self.known.keys() for name in (*self.known, *self._rules)}
        found: dict[str, set[str]] = {name: set() for name in (*first, "")}
        size = -1
        while size != (size := len(empty) + sum(map(len, first.values())) + sum(map(len, found.values()))):
            for name, sequences in self._rules.items():
                for sequence in sequences:
                    spend(2 + len(sequence))
                    self._pass(name, sequence, empty, first, found)
            found[""] |= first[self._start]
        return found

    def _pass(self, name: str, sequence: list[str], empty: set[str], first: Any, found: Any) -> None:
        behind, goes_on = set(found[name]), True
        for symbol in reversed(sequence):
            if symbol in found:
                found[symbol] |= behind
            begins = first.get(symbol, set())
            behind = behind | begins if symbol in empty else set(begins)
        for symbol in sequence:
            if goes_on:
                first[name] |= first.get(symbol, set())
            goes_on = goes_on and symbol in empty
        if goes_on:
            empty.add(name)


# -- regular expressions of Rust ---------------------------------------------------------------------------------------

_RUST = re.compile(
    r"""(?P<escape>\\(?:p\{[^}]*\}|P\{[^}]*\}|p\w|P\w|x\{[0-9a-fA-F]+\}|u\{[0-9a-fA-F]+\}|x..|u....|U.{8}|.))
      |(?P<posix>\[:\^?\w+:\])|(?P<open>\[\^?\]?)|(?P<close>\])|(?P<operation>&&|--|~~)|(?P<anchor>[\^$])
      |(?P<group>\(\?(?:P?<\w+>|[^:)]*[:)]?))|(?P<again>[*+?}]\+)|(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_FLAGS = re.compile(r"\(\?(?:P?<\w+>|[imsxu]*(?:-[imsx]+)?:|[imsxu]+\))")


def parse_rust(source: str, flags: str = "") -> Expr:
    """Return the texts that a regular expression of Rust's `regex` matches in full.

    Raises: GrammarError: it is wrong, or has what Python's `re` does not know.
    """
    pieces, inside, depth = list[str](), False, 0
    for match in _RUST.finditer(source):
        kind, text = match.lastgroup, match[0]
        beside = source[match.end() :][:1] if text == "$" else (pieces or [""])[-1][:2]
        if kind == "anchor" and not inside and not depth and beside in ("", "|", "(?"):
            continue  # at an end of what is matched in full
        if kind == "escape":
            text = _escaped(text, inside=inside)
        elif kind == "posix" and inside or kind == "operation" and inside or kind == "open" and inside:
            raise GrammarError(f"{text} inside a class is not read", instead="the characters themselves")
        elif kind == "anchor" and not inside or kind == "again" and not inside:
            raise GrammarError(f"{text} is not read", instead="the pattern without it")
        elif kind == "group" and not inside:
            if _FLAGS.fullmatch(text) is None and text != "(?:":
                raise GrammarError(f"{text} is not read", instead="a plain group")
            text = re.sub(r"^\(\?P?<\w+>", "(?:", text).replace("u", "")
        if not inside and kind in ("group", "other"):
            depth += text.startswith("(") - text.endswith(")")
        inside = kind == "open" or inside and kind != "close"
        pieces.append(text)
    return parse_python("".join(pieces), flags.replace("u", ""))


def _escaped(text: str, *, inside: bool) -> str:
    """Return an escape as Python's `re` has it."""
    letter = text[1]
    if letter in "dDwWsS" or letter in "pP":
        ranges = _class(text)
        return ranges if inside else f"[{ranges}]"
    if text[2:3] == "{":
        return f"\\U{int(text[3:-1], 16):08x}"
    if letter in "bBAzZ" or letter.isdigit() or letter in "<>":
        raise GrammarError(f"{text} is not read", instead="the pattern without it")
    return re.escape(letter) if len(text) == 2 and not letter.isalnum() else text


@cache
def _class(text: str) -> str:
    """Return a class of Rust's as ranges inside a class of Python's."""
    from constrained.regex.charset import negate

    name = text[2:].strip("{}")
    if text[1] in "dD":
        ranges = category("Nd")
    elif text[1] in "wW":
        known = [unicode_property(name) for name in ("Alphabetic", "M", "Nd", "Pc", "Join_Control")]
        ranges = union(*(found for found in known if found is not None))
    elif text[1] in "sS":
        ranges = unicode_property("White_Space") or ()
    else:
        found = unicode_property(name) or unicode_property(f"Script={name}")
        if found is None:
            raise GrammarError(f"{text} is not read", because=f"no property {name} is known")
        ranges = found
    ranges = negate(ranges) if text[1] in "DWSP" else ranges
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


def _common(name: str) -> Expr | None:
    """Return a terminal of the `lark` library's common ones as an expression."""
    try:
        found = read_lark(f"%import common.{name}\nstart: {name}")
    except GrammarError:
        return None
    return of_rule("start", found.rules["start"].alternatives, {}, of_terminal)
