"""A grammar with its text: where each rule and each alternative stands, in Lark or in another notation.

What the reader makes of a rule, helpers for repeats, copies for look-ahead, instances of templates, belongs to the
definition that it was made for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from constrained.formats import ChatFormat
from constrained.formats.definition import ENTRY
from constrained.grammar import Grammar, Ref
from constrained.grammar.lark.reader import read_file
from constrained.grammar.lark.source import Sources
from constrained.grammar.lark.syntax import LarkText, Lexeme, line_and_column
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.notations.rules import Translated

Place = tuple[int, int]
_NAMES = ("rule", "terminal")  # kinds of tokens of a Lark text


@dataclass(frozen=True, slots=True)
class Definition:
    """A rule or terminal as the text defines it; alternatives with their texts, blanks and comments left out."""

    name: str
    at: Place
    alternatives: tuple[tuple[Place, str], ...]
    uses: frozenset[str]


@dataclass(frozen=True)
class Source:
    """A grammar and the text that it was read from.

    `rules`: its alternatives as they were written, before look-ahead makes copies; `entries`: rules to begin with;
    `generated`: those whose alternatives are compared, None: all.
    """

    grammar: Grammar
    rules: Mapping[str, tuple[Any, ...]]
    text: LarkText
    entries: tuple[str, ...]
    translated: Translated | None = None
    generated: frozenset[str] | None = None

    @classmethod
    def of_file(cls, path: str, start: str | None = None, specials: Collection[str] = ()) -> Source:
        """Return the grammar of a Lark file.  One without a rule `start` is a part of others, which may use it all, and
        say which of its texts are special tokens: so alternatives are not compared.
        """
        raw: dict[str, Any] = {}
        found = Grammar.of(read_file(path, start, specials, shown_to=raw.update))
        text = Sources.at(path, ()).main
        names = [definition.name for definition in _definitions(text)]
        if start is None and "start" not in names:
            return cls(found, raw, text, tuple(names), generated=frozenset())
        return cls(found, raw, text, (start or "start",))

    @classmethod
    def of_format(cls, name: str) -> Source:
        """Return the grammar of a chat format.  Readers begin with many rules, so all are entries; what only they take
        may overlap, so alternatives are compared in what is generated.
        """
        definition = ChatFormat.load(name).definition
        source = cls.of_file(str(definition.grammar), ENTRY, sorted(definition.tokens))
        return replace(source, entries=tuple(source.definitions), generated=source._reached(ENTRY))

    def _reached(self, start: str) -> frozenset[str]:
        """Return the rules that a rule uses, and those that these use."""
        found, todo = set[str](), [start]
        while todo:
            rule = todo.pop()
            if rule not in found:
                found.add(rule)
                symbols = chain.from_iterable(self.rules.get(rule, ()))
                todo += [symbol.rule for symbol in symbols if isinstance(symbol, Ref)]
        return frozenset(found)

    @classmethod
    def of_translated(cls, translated: Translated) -> Source:
        """Return the grammar of a text in another notation."""
        found = Grammar.of(translated.grammar())
        rules = {name: rule.alternatives for name, rule in found.rules.items()}
        return cls(found, rules, LarkText(translated.text), (translated.start,), translated)

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        return {found.name: found for found in _definitions(self.text)}

    @property
    def header(self) -> str | None:
        """The rule of a translated text that stands for the one to begin with, and for nothing of the user's."""
        return self.translated.start if self.translated is not None and self.translated.start == "start" else None

    @cached_property
    def ignored(self) -> frozenset[str]:
        """What ``%ignore`` names."""
        lines = re.findall(r"^[ \t]*%ignore\s+(.*)$", self.text.text, re.MULTILINE)
        return frozenset(re.findall(r"\w+", " ".join(lines)))

    def name(self, rule: str) -> str:
        """Return what the user calls a rule."""
        return self.translated.names.get(rule, rule) if self.translated else rule

    def shown(self, at: Place) -> str:
        """Return how findings name a place of the Lark text: that in the user's text."""
        if self.translated is not None:
            return str(self.translated.shown(self.translated.places[at[0] - 1]))
        return self.text.place(*at)

    def place(self, rule: str, at: int | None = None) -> str:
        """Return where a rule is defined, or one of its alternatives, as far as the text tells."""
        definition = self.definitions.get(self.owner(rule) or "")
        if definition is None:
            return self.text.name or self.name(rule)
        as_written = definition.name == rule and len(definition.alternatives) == len(self.rules.get(rule, ()))
        return self.shown(definition.alternatives[at][0] if as_written and at is not None else definition.at)

    def owner(self, rule: str) -> str | None:
        """Return the definition of a rule: its own, or that which a helper, a copy or an instance was made for."""
        stem = rule.partition("{")[0]
        while stem not in self.definitions:
            shorter = re.sub(r"_\d+$|_+$|\d+$", "", stem)
            shorter = shorter if shorter != stem else stem.removeprefix("_")
            if shorter in ("", stem):
                return None
            stem = shorter
        return stem


def _definitions(text: LarkText) -> list[Definition]:
    """Return the definitions of a Lark text, in order; what extends one adds to it."""
    found: dict[str, Definition] = {}
    for words in text.lines:
        spend(10 * len(words))
        colon = next((at for at, word in enumerate(words) if word.text == ":" and word.kind == "sign"), None)
        if colon is None or words[0].text == "%ignore":
            continue
        name = next(word for word in words if word.kind in _NAMES)
        known, uses = found.get(name.text), frozenset(word.text for word in words[colon:] if word.kind in _NAMES)
        found[name.text] = Definition(
            name.text, known.at if known else _place(text, name.start),
            (*(known.alternatives if known else ()), *_alternatives(text, words[colon:-1])),
            uses | (known.uses if known else frozenset()),
        )  # fmt: skip
    return [*found.values()]


def _alternatives(text: LarkText, words: Sequence[Lexeme]) -> list[tuple[Place, str]]:
    """Return the alternatives behind a colon, by the bars outside of brackets."""
    pieces, depth = [list[Lexeme]()], 0
    for word in words[1:]:
        depth += (word.kind == "open") - (word.kind == "close")
        if word.text == "|" and not depth:
            pieces.append([])
        else:
            pieces[-1].append(word)
    starts = [piece[0].start if piece else words[0].start + 1 for piece in pieces]
    return [(_place(text, at), " ".join(word.text for word in piece)) for at, piece in zip(starts, pieces, strict=True)]


def _place(text: LarkText, at: int) -> Place:
    return line_and_column(text.text, at)
