"""`Question`: kind of text, options of the format and tools that may be called → the network that reads it.

Options mean the same as for generating, with one difference: an option that takes a tool of the format away does not
change what can be read, so that a call of it is an error about tools and not an unreadable text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from constrained.errors import GrammarError, shown
from constrained.formats.binding.bind import under
from constrained.formats.binding.rules import Alternatives, alternatives_of, beginning_of_members, prune, tags_of
from constrained.formats.definition import ACCEPTED, Definition, Slots
from constrained.formats.payload.json_text import JsonReader, whole_json
from constrained.formats.payload.python_text import KeywordsReader
from constrained.formats.payload.tagged import Ends
from constrained.formats.payload.value_reader import Native
from constrained.formats.read.network import Network, build
from constrained.formats.tools import Tool
from constrained.grammar import Grammar, Ref

# what is read → its rule
KINDS = {"assistant_turn": "assistant_turn", "conversation": "conversation", "tool_call": "call_text"}
BROKEN = "broken_"  # what is plainly meant as x, and wrong
_OBJECT = Native("{", partial(JsonReader, "{", begun=True), whole_json)
_KEYWORDS = Native("(", partial(KeywordsReader, begun=True))
NATIVES: Mapping[str, Native] = {
    "any_json_object": _OBJECT, "json_object": _OBJECT, "compact_object": _OBJECT,
    "any_json_array": Native("[", partial(JsonReader, "[", begun=True), whole_json),
    "any_json_line": Native("{", partial(JsonReader, "{", lines=False, begun=True)),
    "any_python_keywords": _KEYWORDS, "python_keywords": _KEYWORDS,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Question:
    """A kind of text of a format, under options.

    `refused`: the format's own tools that the options do not offer.
    """

    definition: Definition
    kind: str
    rules: Alternatives
    entry: str
    refused: frozenset[str]

    @cached_property
    def slots(self) -> Slots:
        return Slots.of(self.definition)

    @cached_property
    def ends(self) -> Ends | None:
        """Where values between tags end; None where they do not stand between tags."""
        tags = tags_of(self.rules, self.definition)
        return None if tags is None else Ends(beginning_of_members(tags), tags.slot.end.strip())

    @cached_property
    def network(self) -> Network:
        return self._network(self.rules, self.entry)

    @cached_property
    def lenient(self) -> Network:
        """The network that also reads calls which are plainly meant as such, and broken."""
        rules = dict(self.rules)
        for name in self.rules:
            if name in self.broken:
                target = self._meant(name)
                rules[target] = (*rules.get(target, ()), (Ref(name),))
        return self._network(rules, self.entry)

    def part(self, broken: str) -> Network:
        """Return the network of what a rule ``broken_x`` is a broken form of."""
        if broken not in self._parts:
            self._parts[broken] = self._network(self.rules, self._meant(broken))
        return self._parts[broken]

    def _network(self, rules: Alternatives, entry: str) -> Network:
        rules = prune(rules, entry)
        marked = self.slots.marked(rules) | {rule: rule for rule in self.broken if rule in rules}
        return build(rules, entry, frozenset(self.definition.tokens.values()), marked, NATIVES)

    def _meant(self, broken: str) -> str:
        """Return the rule of what a rule ``broken_x`` is a broken form of."""
        name = broken.removeprefix(BROKEN)
        return ACCEPTED + name if ACCEPTED + name in self.rules else name

    @cached_property
    def broken(self) -> frozenset[str]:
        """The rules of what is only plainly meant as a call."""
        return frozenset(rule for rule in self.rules if rule.startswith(BROKEN))

    @cached_property
    def _parts(self) -> dict[str, Network]:
        return {}


def ask(generic: Grammar, definition: Definition, kind: str, options: Mapping[str, object]) -> Question:
    """Return the question.

    Raises: GrammarError: the format has no such kind of text, or an option or its value is unknown.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise GrammarError(f"unknown kind {shown(kind)}", instead="one of: " + ", ".join(KINDS))
    rules = alternatives_of(generic.rules)
    own = {ACCEPTED + builtin.rule: name for name, builtin in definition.builtins.items()}
    own |= {builtin.rule: name for name, builtin in definition.builtins.items()}
    refused: set[str] = set()
    definition = under(definition, options)
    for change in definition.changes:
        for target, source in change.replace.items():
            rules[target] = rules[source]
        for rule in change.drop:
            if rule in own:
                refused.add(own[rule])
            else:
                rules[rule] = ()
    entry = _entry(rules, KINDS[kind], definition)
    return Question(definition, kind, rules, entry, frozenset(refused))


def _entry(rules: Alternatives, rule: str, definition: Definition) -> str:
    names = ("lone_call", rule, "tool_call") if rule == "call_text" else (rule,)
    for name in names:
        for candidate in (f"{ACCEPTED}{name}", str(name)):
            if candidate in rules:
                return candidate
    raise GrammarError(f"the format '{definition.title}' has no rule '{rule}'", instead="see grammars/README.md")


def offered(
    definition: Definition, question: Question, tools: tuple[Tool, ...] | None, builtin_tools: Any
) -> frozenset[str]:
    """Return the format's own tools that may be called."""
    own = frozenset(definition.builtins) - question.refused
    if builtin_tools is not None:
        names = [builtin_tools] if isinstance(builtin_tools, str) else builtin_tools
        if not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
            raise GrammarError(f"builtin_tools is {shown(builtin_tools)}", instead="a list of their names")
        own &= frozenset(names) | {"code_interpreter", "interpreter"}
    return own
