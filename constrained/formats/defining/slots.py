"""The slots of a format: which rules write a text, a thought, a call, a message or a stop.

``any_x`` stands for ``x`` throughout, and so does a copy of it that look-ahead made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from constrained.formats.defining.definition import Definition
from constrained.formats.payload.raw import ELEMENTS
from constrained.schema.surfaces.tags import KINDS

ACCEPTED = "any_"  # what a reader takes for x is the rule any_x
LOOSE = "loose_"  # what only a tolerant reader takes is the rule loose_x, a repair with the name x

PAIR_TEXTS = ("value", "text_value", "json_value", *ELEMENTS, *(f"{kind}_value" for kind in KINDS if kind != "string"))
_OWN_TEXTS = (
    "content",
    "name",
    "arguments",
    "call_id",
    "call_number",
    "speaker",
    "answered",
    "string_content",
    "key",
    "key_again",
    *PAIR_TEXTS,
)
_LIBRARY = "any_json_value"  # of json.lark: no value of an argument by itself


@dataclass(frozen=True, slots=True)
class Slots:
    """What the rules of a format mean to a reader, by rule: texts, calls of the format's own tools, messages, and where
    they end.
    """

    texts: frozenset[str]
    thoughts: Mapping[str, str]  # rule → kind
    builtins: Mapping[str, str]  # rule → name
    parameters: Mapping[str, Mapping[str, str]]  # name of a builtin → rule → its argument
    roles: Mapping[str, str]  # rule → role
    aliases: Mapping[str, str]  # rule → what it stands for
    stops: frozenset[str]
    known: frozenset[str]  # the rules that mean something
    meanings: dict[str, str] = field(default_factory=dict, compare=False)  # of rules that were met
    endings: dict[str, Any] = field(default_factory=dict, compare=False)  # for `read.assemble`
    within: dict[tuple[str | None, ...], Any] = field(default_factory=dict, compare=False)  # for it too

    @classmethod
    def of(cls, definition: Definition) -> Slots:
        thoughts = {rule: kind for kind, rule in definition.thoughts.items()}
        parameters = {
            name: {rule: key for key, rule in own.arguments.items()} for name, own in definition.builtins.items()
        }
        texts = {*_OWN_TEXTS, *thoughts, *(rule for rules in parameters.values() for rule in rules)}
        stops = frozenset(definition.tokens[name] for names in definition.stops.values() for name in names)
        builtins = {own.rule: name for name, own in definition.builtins.items()}
        aliases = {"unopened_thought": "thought", "content_behind": "content", **definition.slots}
        known = frozenset({*texts, "tool_call", *builtins, *definition.messages, *aliases})
        return cls(frozenset(texts), thoughts, builtins, parameters, definition.messages, aliases, stops, known)

    def marked(self, rules: Iterable[str]) -> dict[str, str]:
        """Return the rules that the simulation has to mark, and what they stand for."""
        return {r: self.meaning(r) for r in rules if self.meaning(r) in self.known or self.meaning(r).startswith(LOOSE)}

    def meaning(self, rule: str) -> str:
        """Return what a rule stands for; a copy of a rule, which look-ahead made, stands for the same."""
        if rule not in self.meanings:
            self.meanings[rule] = self._meaning(rule)
        return self.meanings[rule]

    def _meaning(self, rule: str) -> str:
        name = rule.removeprefix(ACCEPTED) if rule != _LIBRARY else rule
        if name[-1:].isdigit() and name not in self.known:
            original = name.rstrip("0123456789").removesuffix("_")
            name = original if original in self.known or original.startswith(LOOSE) else name
        return self.aliases.get(name, name)  # (a repair stands for itself)
