r"""Any grammar → one Lark file that the `lark` library reads as the same language.

The library reads it with ``parser="earley", lexer="dynamic_complete"``.  The start rule is called ``start``.  Special
tokens are printed as their text, which is what a transcript shows, and the patterns keep clear of these texts: what no
text can spell in tokens, none spells here.  What is ignored stands in the rules.  A pattern becomes a terminal where
Lark would find the same texts with it (see `reader`); else, and where it can be empty, which Lark refuses, it is
printed from its expression, or as rules, one per state of its automaton.

Tested by reading the files back with both readers (`tests/test_lark.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from constrained.errors import GrammarError, LimitExceeded
from constrained.grammar.analysis import Facts, filled
from constrained.grammar.ir import Embedded, Literal, Pattern, Productions, Ref, Special, Symbol
from constrained.grammar.lark import MAX_LENGTH
from constrained.grammar.lark.match_preference import preferred
from constrained.grammar.lark.small_alphabet import MARK_POINT
from constrained.machine import Language, Widened
from constrained.regex import ANY_TEXT, char_class, complement, concat, intersect, is_empty, literals
from constrained.regex.show import pattern_text
from constrained.work import Budget, metered, spend, working_on

_WIDTH = 120
MAX_STATES = 1000  # of a pattern that is printed as rules
_LINE = 40  # units for a line of a rule: whoever reads it needs more
PATTERN_WORK = 300_000  # units for one pattern, after which what is kept out of its texts is left out
_ESCAPED = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"}
# Parts of a pattern: those that read a character are atoms.
_PART = re.compile(
    r"""(?P<look>\(\?<?[=!])|(?P<group>\((?:\?(?:P<\w+>|[a-z-]*:))?)|\(\?\#[^)]*\)|(?P<close>\))|[|*+?^$]
      |\{\d*,?\d*\}|\\[AbBZ]
      |(?P<atom>\\(?:x..|u.{4}|U.{8}|.)|\[\^?\]?(?:\\.|[^]\\])*\]|.)""",
    re.VERBOSE | re.DOTALL,
)
_DIFFERS = re.compile("// (wider|narrower): (.*)")
_KEPT_OUT = re.compile(r"^\(\?#without [^)]*\)")  # see `formats.binding.markers`
_CODE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")
_Edges = Sequence[tuple[int, int, Language]]


class PrintedLark(str):
    """A Lark text, and where its language is larger (`widened`) or smaller (`narrowed`) than what it was printed from
    was asked for.
    """

    widened: tuple[Any, ...]
    narrowed: tuple[Any, ...]


def write(grammar: Productions, *, exact: bool = False, lookahead: bool = True) -> PrintedLark:
    r"""Return the text of a Lark file.

    lookahead: whether terminals of schemas may look ahead; without, there are more rules, and strings of bounded length
    may spell markers.

    Raises: GrammarError: the grammar has no word, or a pattern that Lark cannot express; with `exact`, anything that it
    cannot.

    >>> from constrained import Grammar
    >>> print(write(Grammar.from_lark('start: "a" b?\nb: /x*/ start')), end="")
    start: "a" _start_0
    _start_0: b |
    b: [T1] start
    T1: /x+/
    """
    with metered(), working_on("to_lark"):
        writer = _LarkWriter(grammar, lookahead=lookahead)
        lines = [*writer.rules(), *writer.lines]
        length = sum(map(len, lines)) + len(lines)
        if length > MAX_LENGTH:
            because = f"no more than {MAX_LENGTH:,} are read"
            raise LimitExceeded(f"a Lark text of {length:,} characters", because=because)
        text = PrintedLark("\n".join(lines) + "\n")
    if exact and writer.differs:
        rule, kind, because = next(iter(writer.differs))
        raise GrammarError(
            f"cannot print rule '{rule}' as Lark exactly",
            because=f"{kind}: {because}",
            instead="to_lark(), which lists that",
        )
    text.widened, text.narrowed = (
        (
            *ledger,
            *(Widened(f"rule {rule}", "to_lark", because) for rule, found, because in writer.differs if found == kind),
        )
        for kind, ledger in (("wider", grammar.widened), ("narrower", grammar.narrowed))
    )
    return text


class _LarkWriter:
    """Names everything once; `lines` are the definitions that rules turned out to need."""

    def __init__(self, grammar: Productions, *, lookahead: bool) -> None:
        self._lookahead = lookahead
        self._rules = Facts(grammar).rules
        self._tokens = sorted(grammar.specials)
        # texts that hold the text of a special token
        self._spelled = concat(ANY_TEXT, literals(self._tokens), ANY_TEXT)
        self.lines: list[str] = []
        self.differs: dict[tuple[str, str, str], None] = {}  # (rule, "wider" or "narrower", reason)
        self._known: dict[Symbol, str] = {}
        self._taken = {"start"}
        self._numbers: dict[str, int] = {}  # the last that was put behind a name
        self._at = "start"  # the rule that is being printed
        self._names = {grammar.start: "start"}
        for name in self._rules:
            if name != grammar.start:
                self._names[name] = self._fresh(name)

    def rules(self) -> list[str]:
        return [
            self._rule(self._names[name], ([self._placed(name, s) for s in sequence] for sequence in self._rules[name]))
            for name in self._rules
        ]

    def _placed(self, rule: str, symbol: Symbol) -> str:
        self._at = rule
        return self._symbol(symbol)

    def _rule(self, name: str, alternatives: Iterable[Iterable[str]]) -> str:
        shown = dict.fromkeys(" ".join(filter(None, parts)) for parts in alternatives)
        lines = [text for text in shown if text] + [""] * ("" in shown)
        short = f"{name}: {' | '.join(lines)}".rstrip()
        return short if len(short) <= _WIDTH else f"{name}: " + "\n    | ".join(lines).rstrip()

    def _fresh(self, wanted: str) -> str:
        """Return a name that Lark allows and nothing else has."""
        stem = re.sub(r"[^a-z0-9]+", "_", wanted.lower()).strip("_")
        stem = ("_" if wanted.startswith("_") else "") + (stem if stem[:1].isalpha() else f"r{stem}")
        return unused(stem, self._taken, self._numbers)

    def _symbol(self, symbol: Symbol) -> str:
        if isinstance(symbol, Ref):
            return self._names[symbol.rule]
        if isinstance(symbol, (Literal, Special)):
            text = symbol.text if isinstance(symbol, Literal) else symbol.name
            return quoted(text) if text else ""
        if symbol not in self._known:
            self._known[symbol] = self._embedded(symbol) if isinstance(symbol, Embedded) else self._pattern(symbol)
        return self._known[symbol]

    def _embedded(self, symbol: Embedded) -> str:
        name = self._fresh(symbol.name)
        lines = symbol.machine.to_lark(name, lookahead=self._lookahead)
        self.lines += lines
        self.differs |= {(name, found[1], found[2]): None for line in lines if (found := _DIFFERS.fullmatch(line))}
        return name

    def _pattern(self, pattern: Pattern) -> str:
        """Return what reads a pattern; without what its texts must not spell, and saying so, where that is too much to
        print.
        """
        before = len(self.lines)
        try:
            with metered(Budget(PATTERN_WORK)):
                return self._exact_pattern(pattern)
        except (GrammarError, LimitExceeded):
            source = _KEPT_OUT.sub("", pattern.source)
            if source == pattern.source:
                raise
        del self.lines[before:]
        self.differs[self._at, "wider", "texts may spell what is kept out of them: the rules would be too many"] = None
        return self._exact_pattern(Pattern(preferred(source), source))

    def _exact_pattern(self, pattern: Pattern) -> str:
        language, sources = filled(pattern.language), [pattern.source]
        if pattern.language.accepts and pattern.source.endswith("*"):  # Lark has no terminals that can be empty
            sources.append(pattern.source[:-1] + "+")
        if language.literal_set is not None:  # Lark sorts the texts of a terminal: it finds all of them
            return self._texts(language.literal_set.members())
        sources += [pattern_text(language)] if language.plain else []
        if not is_empty(intersect(language, self._spelled)):
            language = intersect(language, complement(self._spelled))
            sources = [_clear_of(self._tokens, source) for source in sources]
        if not language.edges():
            return ""
        for source in sources:
            if _is_found(source, language):
                name = f"T{len(self.lines) + 1}"
                self.lines.append(f"{name}: /{slashed(source)}/")
                break
        else:
            name = self._automaton(language)
        return f"[{name}]" if pattern.language.accepts else name

    def _texts(self, texts: Sequence[str]) -> str:
        spend(sum(map(len, texts)))
        clear = [[quoted(text)] for text in texts if not any(token in text for token in self._tokens)]
        if not clear:
            return ""
        self.lines.append(self._rule(name := f"T{len(self.lines) + 1}", clear))
        return name

    def _automaton(self, language: Language) -> str:
        """Write one rule per state, and return the name of the first."""
        names = {language: self._fresh("text")}
        work = [language]
        for state in work:
            edges = state.edges()
            spend(20 + _LINE * len(edges))
            alternatives = [[""]] if state.accepts else []
            for low, high, target in edges:
                if target not in names:
                    names[target] = self._fresh("text")
                    work.append(target)
                    if len(work) > MAX_STATES:
                        raise GrammarError(
                            f"cannot print {language!r} as Lark",
                            because=f"its automaton has more than {MAX_STATES:,} states",
                            instead="a pattern whose alternatives begin differently",
                        )
                after = names[target] if target.edges() else ""
                alternatives.append([f"/{slashed(pattern_text(char_class([(low, high)])))}/", after])
            self.lines.append(self._rule(names[state], alternatives))
        return names[language]


def _is_found(source: str, language: Language) -> bool:
    """Return whether Lark finds exactly the texts of a language with a pattern."""
    if "(?x" in source:
        return False
    try:
        return _same(language, preferred(source))
    except (GrammarError, LimitExceeded):
        return False


def _overlaps(ours: _Edges, others: _Edges) -> Iterator[tuple[int, int, Language, Language]]:
    """Yield the ranges that two lists of sorted, disjoint edges share."""
    at = other_at = 0
    while at < len(ours) and other_at < len(others):
        (low, high, target), (first, last, after) = ours[at], others[other_at]
        if first <= high and low <= last:
            yield max(low, first), min(high, last), target, after
        if high <= last:
            at += 1
        if last <= high:
            other_at += 1


def _same(part: Language, other: Language) -> bool:
    """Return whether two languages have the same texts; only what the first one makes of its own automaton is
    compared.
    """
    seen = {(part, other)}
    for left, right in (work := list(seen)):
        spend(10)
        if left is right:
            continue
        ours, others = left.edges(), right.edges()
        if left.accepts != right.accepts or _covered(ours) != _covered(others):
            return False
        new = {(target, after): None for _, _, target, after in _overlaps(ours, others) if (target, after) not in seen}
        seen.update(new)
        work.extend(new)
    return True


def _covered(edges: Iterable[tuple[int, int, object]]) -> list[tuple[int, int]]:
    """Return the characters with an edge, the mark taken as one of them."""
    found: list[tuple[int, int]] = []
    for low, high, _ in edges:
        low, high = low - (low - 1 == MARK_POINT), high + (high + 1 == MARK_POINT)
        if found and found[-1][1] + 1 >= low:
            low = found.pop()[0]
        found.append((low, high))
    return found


def _clear_of(texts: Iterable[str], source: str) -> str:
    """Return a pattern in which no character may be the first of one of some texts.

    Left out: what the pattern's own assertions make of it; the caller compares.
    """
    guard = f"(?!{'|'.join(map(re.escape, texts))})"
    begins = "".join({text[0] for text in texts})
    # whether each open group is a look-around, or within one: what it holds is not read
    found, open_groups = [], [False]
    for part in _PART.finditer(source):
        atom, text = part["atom"], part[0]
        if part["look"] or part["group"]:
            open_groups.append(part["look"] is not None or open_groups[-1])
        elif part["close"] and len(open_groups) > 1:
            open_groups.pop()
        elif atom is not None and not open_groups[-1] and (len(atom) > 1 or atom in begins + "."):
            text = f"(?:{guard}{atom})" if any(re.match(atom, char, re.DOTALL) for char in begins) else atom
        found.append(text)
    return "".join(found)


def unused(stem: str, taken: set[str], numbers: dict[str, int], joint: str = "_") -> str:
    """Return a name that nothing has, and take it: the stem, or with a number behind it; numbers: the last of each
    stem.
    """
    name, number = stem, numbers.get(stem, 0)
    while name in taken:
        number += 1
        name = f"{stem}{joint}{number}"
    numbers[stem] = number
    taken.add(name)
    return name


def quoted(text: str) -> str:
    r"""Return a text as a string of Lark.

    >>> print(quoted('say "\\"\n'))
    "say \"\\\"\n"
    """
    return '"' + _visible(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def slashed(pattern: str) -> str:
    r"""Return a regular expression as it stands between slashes in a Lark file, which evaluates some escapes itself.

    >>> print(slashed(r"a/b\x5b\n\d"))
    a\/b\[\n\d
    """
    found, at = [], 0
    while at < len(pattern):
        char, at = pattern[at], at + 1
        if char != "\\":
            found.append("\\/" if char == "/" else _visible(char))
        elif code := _CODE.match(pattern, at):
            char, at = chr(int(code[code.lastindex or 1], 16)), code.end()
            found.append(
                "\\" + char if char.isascii() and char.isprintable() and not char.isalnum() else _visible(char)
            )
        else:
            found.append(_visible(pattern[at]) if pattern[at] in _ESCAPED else "\\" + pattern[at])
            at += 1
    return "".join(found)


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(_ESCAPED.get(char) or (char if char.isprintable() else f"\\U{ord(char):08x}") for char in text)
