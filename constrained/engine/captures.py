"""A finished text and its grammar → what each rule derived: captures, as regular expressions have them.

    constraint = c.compile(c.Grammar.from_lark('start: "<think>" thought "</think>" answer …'), vocabulary)
    captures(constraint, "<think>hm</think>42")["answer"][0].text          # "42"
    matcher.captures()                                                     # of what a matcher has read

The text is read by a chart over the grammar's rules: an item is (rule, alternative, how much of it, where it began, how
far it got), and a rule that was read from one place is not read from there again, so left recursion and ambiguity cost
nothing special.  Patterns and embedded schemas say where they may end; nothing is cut into tokens first.  Of several
derivations the first counts: alternatives in the order of the grammar, each part as long as it can be.

Rules whose names begin with "_" are not captured, as in Lark, nor are terminals: they are part of the rules that use
them.  Rules of grammars that were put together keep their names; where two have the same, those of each get a prefix
("part0_answer").

Cost: about 20 µs for each item; a text of n characters in a grammar without ambiguity makes O(n) of them.
Tests: tests/test_captures.py.  Source: J. Earley, An efficient context-free parsing algorithm, 1970, by an agenda.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from html import escape
from itertools import count, islice
from typing import TYPE_CHECKING, NamedTuple

from constrained.engine.plain import DEAD, PlainKernel, successor
from constrained.engine.tokens.vocabulary import checked_token, token_name
from constrained.errors import ConstrainedError, Rejected, UnknownRule, shown
from constrained.grammar import Embedded, Literal, Pattern, Ref, Special, Symbol
from constrained.machine import Language
from constrained.work import metered, spend, working_on

if TYPE_CHECKING:
    from constrained.engine.compiled import CompiledGrammar

_MACHINE, _STATE = 10, 40  # units of work: to begin a machine, and to make a state of it

Letter = str | int  # a character, or a special token
Span = tuple[str, int, int]  # rule, where it begins and ends, in letters


@dataclass(frozen=True, slots=True)
class Capture:
    """What a rule derived: `text`, from `start` to `end` of the whole text; special tokens stand by their names."""

    rule: str
    text: str
    start: int
    end: int


class Captures(Mapping[str, "tuple[Capture, ...]"]):
    """The captures of a text by rule, in the order in which they begin, outer ones first; a rule without any is ()."""

    def __init__(self, text: str, rules: Iterable[str], found: Iterable[Capture]) -> None:
        self.text = text
        listed: dict[str, list[Capture]] = {rule: [] for rule in rules}
        for capture in found:
            listed[capture.rule].append(capture)
        self._listed = {rule: tuple(captures) for rule, captures in listed.items()}

    def __getitem__(self, rule: str) -> tuple[Capture, ...]:
        """Return the captures of a rule.

        Raises: UnknownRule: the grammar has no such rule, or its name begins with "_".
        """
        captures = self._listed.get(rule) if isinstance(rule, str) else None
        if captures is None:
            because = "nothing is captured by that name"
            raise UnknownRule(f"no rule {shown(rule)}", because=because, instead=self._near(rule))
        return captures

    def _near(self, rule: object) -> str:
        """Return names that there are, the most alike first."""
        near = get_close_matches(rule[:100], self._listed, 3) if isinstance(rule, str) else []
        known = list(dict.fromkeys([*near, *islice(self._listed, 12)]))
        return "one of: " + ", ".join(known) + (", …" if len(known) < len(self._listed) else "")

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    def __repr__(self) -> str:
        shown = {rule: [capture.text for capture in captures] for rule, captures in self.items() if captures}
        return f"<Captures {shown!r}>"

    def _repr_html_(self) -> str:
        rows = [capture for captures in self.values() for capture in captures]
        cells = [f"<td>{escape(row.rule)}<td>{row.start}–{row.end}<td><pre>{escape(row.text)}</pre>" for row in rows]
        return f"<table><tr><th>rule<th>place<th>text{''.join(f'<tr>{cell}' for cell in cells)}</table>"


def captures(constraint: CompiledGrammar, text: str | Iterable[int]) -> Captures:
    """Return what the named rules of a constraint's grammar derived in a word.

    text: the word, or its token ids; ids of stop tokens that the grammar does not name are left out.
    Raises: Rejected: it is not a word of the grammar, or an id is none.  LimitExceeded: too much work.
    """
    if not hasattr(constraint, "bound_grammar"):
        raise ConstrainedError(f"not a constraint: {shown(constraint)}", instead="compile(grammar, vocabulary)")
    if not isinstance(text, (str, Iterable)) or isinstance(text, (bytes, Mapping)):
        raise ConstrainedError(f"no text and no token ids: {shown(text)}", instead="a text, or the ids of its tokens")
    with metered(), working_on("captures of a text"):
        return _captured(constraint, text)


def _captured(constraint: CompiledGrammar, text: str | Iterable[int]) -> Captures:
    vocabulary, grammar = constraint.vocabulary, constraint.bound_grammar
    special = {name: token for name, token in vocabulary.special.items() if name in grammar.specials}
    letters = _letters_of(text, special) if isinstance(text, str) else _letters(constraint, text, special)
    names = {token: name for name, token in special.items()}
    spelled = [letter if isinstance(letter, str) else names[letter] for letter in letters]
    places = [0]
    for part in spelled:
        places.append(places[-1] + len(part))
    whole = "".join(spelled)
    chart = _Chart(constraint, letters, special)
    chart.read(grammar.start)
    if len(letters) not in chart.ends.get((grammar.start, 0), ()):
        raise Rejected(
            "the text is not a word of the grammar",
            because=f"rule '{grammar.start}' does not derive it",
            instead="the tokens of a matcher that is_accepting()",
            position=places[chart.farthest],
        )
    spans = chart.derivation((grammar.start, 0, len(letters)))
    rules = [rule for rule in grammar.rules if not rule.startswith("_")]
    captures = [
        Capture(rule, whole[places[start] : places[end]], places[start], places[end])
        for rule, start, end in spans
        if not rule.startswith("_")
    ]
    return Captures(whole, rules, captures)


def _letters(constraint: CompiledGrammar, tokens: Iterable[int], special: Mapping[str, int]) -> list[Letter]:
    """Return what token ids spell.

    Raises: Rejected: one is no id, or stands for a special token that the grammar does not name.
    """
    letters: list[Letter] = []
    data, known, vocabulary = bytearray(), set(special.values()), constraint.vocabulary
    for given in tokens:
        spend(1)
        token = checked_token(vocabulary, given)
        if token in known:
            letters += data.decode("utf-8", "surrogateescape")
            data.clear()
            letters.append(token)
        elif (text := vocabulary.tokens[token]) is not None:
            data += text
        elif token not in constraint.stop:
            name = token_name(vocabulary, token)
            raise Rejected(f"token {token} {name} is not in the grammar", because="it is no text, and no rule names it")
    return [*letters, *data.decode("utf-8", "surrogateescape")]


def _letters_of(text: str, special: Mapping[str, int]) -> list[Letter]:
    """Return a text's characters, with the names of special tokens as these tokens, longer names first."""
    spend(len(text) >> 4)
    if not special:
        return [*text]
    letters: list[Letter] = []
    names = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))))
    at = 0
    for name in names.finditer(text):
        letters += [*text[at : name.start()], special[name[0]]]
        at = name.end()
    return [*letters, *text[at:]]


class _Item(NamedTuple):
    """`dot` parts of an alternative of a rule were read, from `start` to `at`."""

    rule: str
    alternative: int
    dot: int
    start: int
    at: int


class _Chart:
    """All that the rules of a grammar derive in some letters.

    Invariant: `ends[rule, start]` maps where the rule may end to a number that grows with every entry made; each
    derivation has parts with lower numbers.
    """

    def __init__(self, constraint: CompiledGrammar, letters: list[Letter], special: Mapping[str, int]) -> None:
        grammar = constraint.bound_grammar
        self._rules = {name: rule.alternatives for name, rule in grammar.rules.items()}
        self._letters, self._special = letters, special
        self._kernel = PlainKernel(constraint.vocabulary, specials=constraint.vocabulary.special)
        self._met: set[int] = set()  # states of the kernel
        self._scanned: dict[tuple[Symbol, int], list[int]] = {}
        self.ends: dict[tuple[str, int], dict[int, int]] = {}
        self._waiting: dict[tuple[str, int], list[_Item]] = {}
        self._numbers = count()
        self.farthest = 0

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, start: str) -> None:
        """Fill the chart from a rule at the beginning."""
        seen: set[_Item] = set()
        todo = self._begun(start, 0)
        while todo:
            item = todo.pop()
            if item in seen:
                continue
            seen.add(item)
            after = self._after(item)
            spend(10 + len(after))
            self.farthest = max(self.farthest, item.at)
            todo += after

    def _begun(self, rule: str, at: int) -> list[_Item]:
        self.ends[rule, at], self._waiting[rule, at] = {}, []
        return [_Item(rule, number, 0, at, at) for number in range(len(self._rules[rule]) - 1, -1, -1)]

    def _after(self, item: _Item) -> list[_Item]:
        """Return the items that follow from one."""
        parts = self._rules[item.rule][item.alternative]
        if item.dot == len(parts):
            ends = self.ends[item.rule, item.start]
            if item.at in ends:
                return []
            ends[item.at] = next(self._numbers)
            waiting = self._waiting[item.rule, item.start]
            return [other._replace(dot=other.dot + 1, at=item.at) for other in waiting]
        part = parts[item.dot]
        if not isinstance(part, Ref):
            return [item._replace(dot=item.dot + 1, at=end) for end in self._scan(part, item.at)]
        key = part.rule, item.at
        begun = self._begun(*key) if key not in self.ends else []
        self._waiting[key].append(item)
        return begun + [item._replace(dot=item.dot + 1, at=end) for end in self.ends[key]]

    def _scan(self, part: Symbol, at: int) -> list[int]:
        """Return where a part that is no rule may end, the nearest first."""
        key = part, at
        ends = self._scanned.get(key)
        if ends is None:
            ends = self._scanned[key] = [*self._ends_of(part, at)]
        return ends

    def _ends_of(self, part: Symbol, at: int) -> Iterator[int]:
        letters = self._letters
        if isinstance(part, Special) or (isinstance(part, Literal) and part.text in self._special):
            name = part.name if isinstance(part, Special) else part.text
            if letters[at : at + 1] == [self._special.get(name)]:
                yield at + 1
        elif isinstance(part, Literal):
            if letters[at : at + len(part.text)] == [*part.text]:
                yield at + len(part.text)
        elif isinstance(part, Pattern):
            yield from self._ends_of_pattern(part, at)
        elif isinstance(part, Embedded):
            yield from self._ends_of_machine(part, at)

    def _ends_of_pattern(self, part: Pattern, at: int) -> Iterator[int]:
        language: Language = part.language
        while True:
            if language.accepts:
                yield at
            letter = self._letters[at] if at < len(self._letters) else 0
            after = successor(language, ord(letter)) if isinstance(letter, str) else None
            if after is None:
                return
            spend(2)
            language, at = after, at + 1

    def _ends_of_machine(self, part: Embedded, at: int) -> Iterator[int]:
        kernel = self._kernel
        spend(_MACHINE)
        state = kernel.start_at(part.machine.state(), nullable=False)
        letters = self._letters
        while at < len(letters):
            letter = letters[at]
            if isinstance(letter, str):
                state = kernel.step_bytes(state, letter.encode("utf-8", "surrogateescape"))
            else:
                state = kernel.step_token(state, letter)
            if state == DEAD:
                return
            spend(2 if state in self._met else _STATE)
            self._met.add(state)
            at += 1
            if kernel.is_final(state):
                yield at

    # -- what counts ---------------------------------------------------------------------------------------------------

    def derivation(self, whole: Span) -> list[Span]:
        """Return the rules of the derivation that counts, in the order in which they begin, outer ones first."""
        spans, todo = [], [whole]
        while todo:
            span = todo.pop()
            spend(5)
            spans.append(span)
            todo += reversed(self._parts(span))
        return spans

    def _parts(self, span: Span) -> list[Span]:
        """Return the rules that a rule's span is made of."""
        rule, start, end = span
        number = self.ends[rule, start][end]
        for parts in self._rules[rule]:
            places = self._places(parts, start, end, number)
            if places is not None:
                between = zip(parts, places, places[1:])
                return [(part.rule, first, last) for part, first, last in between if isinstance(part, Ref)]
        raise AssertionError(f"{span} was read and has no derivation")

    def _places(self, parts: tuple[Symbol, ...], start: int, end: int, number: int) -> list[int] | None:
        """Return where the parts of an alternative begin, and the end; None if it does not lead from `start` to `end`.

        Each part is as long as it can be.  `lost`: how many parts were read, and up to where, with no way on.
        """
        places, lost = [start], set[tuple[int, int]]()
        choices = [self._choices(parts, 0, start, end, number)]
        while choices:
            if len(places) > len(parts) and places[-1] == end:
                return places
            after = next((place for place in choices[-1] if (len(places), place) not in lost), None)
            if after is None:
                choices.pop()
                lost.add((len(places) - 1, places.pop()))
            else:
                places.append(after)
                choices.append(self._choices(parts, len(places) - 1, after, end, number))
        return None

    def _choices(self, parts: tuple[Symbol, ...], which: int, at: int, end: int, number: int) -> Iterator[int]:
        """Return where a part may end, the farthest first: what was read before entry `number` was made."""
        spend(5)
        if which == len(parts):
            return iter(())
        part = parts[which]
        if isinstance(part, Ref):
            made = self.ends.get((part.rule, at), {})
            ends = sorted(place for place, entry in made.items() if entry < number)
        else:
            ends = self._scan(part, at)
        spend(len(ends) >> 3)
        return iter([place for place in reversed(ends) if place <= end])
