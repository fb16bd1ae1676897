"""Check of a definition against its grammar: what it names exists, and what is read back is one terminal.

Without this a typo would change the language silently: an alternative that nobody drops, a thought that nobody returns,
a text without its second half.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from constrained.errors import GrammarError
from constrained.formats.binding.frame import id_slot, terminal_of
from constrained.formats.binding.rules import Alternatives, reached, texts_in
from constrained.formats.binding.tagged import tags_of
from constrained.formats.defining.definition import Change, Definition, Sign
from constrained.formats.defining.shapes import refused

_SPECIAL = re.compile(r"<[|｜][^<>|｜\s]*[|｜]>")  # as most vocabularies spell special tokens
# what a rule can stand for when it is read, besides thoughts
SLOTS = ("content", "string_content", "speaker", "answered", "tool_call", "arguments")


def check_names_of(definition: Definition, rules: Alternatives, file: str) -> None:
    """Raise `GrammarError` for the first name that the grammar or the specials lack, and the first rule of the wrong
    shape, with its key.
    """
    for key, rule in ((None, "answer"), (None, "calling"), *_rules(definition)):
        if not {rule, f"any_{rule}", rule.removeprefix("any_")} & rules.keys():
            raise refused(file, key, f"its grammar has no rule {rule!r}")
    for key, name in _tokens(definition):
        if name not in definition.tokens:
            raise refused(file, key, f"{name!r} is not among its specials", f'"{name}" in specials')
    slots = (*SLOTS, *definition.thoughts.values())
    for rule, slot in definition.slots.items():
        if slot not in slots:
            raise refused(
                file, f"slots.{rule}", f"{slot!r} is nothing that a rule can stand for", f"one of: {', '.join(slots)}"
            )
    if definition.payload is None and "tool_call" in rules:
        raise refused(
            file, "payload", "it is missing, and the grammar has a rule 'tool_call', whose arguments it describes"
        )
    for key, role in _speakers(definition):
        if role not in definition.messages.values():
            known = ", ".join(dict.fromkeys(definition.messages.values()))
            raise refused(file, key, f"no message is by {role!r}", f"a role of [messages]: {known}")
    for place, rule in _texts(definition, rules):
        if rule not in rules:
            raise refused(file, place, f"its grammar has no rule {rule!r}")
        if terminal_of(rules, rule) is None:
            raise refused(
                file,
                place,
                f"the rule {rule!r} is not one terminal",
                "a rule that is one terminal, as it is read back as a text",
            )
    try:
        tags_of(rules, definition)
    except GrammarError as error:
        raise refused(file, "payload.surface", f"{error.what}: {error.because}") from error


def check_tokens_of(definition: Definition, rules: Alternatives, file: str) -> None:
    """Raise `GrammarError` where rules that can be used hold as plain text what is spelled as a special token, or
    nowhere a marker: the name of one is misspelled.
    """
    entries = [f"{way}{name}" for way in ("", "any_") for name in ("assistant_turn", "conversation", "call_text")]
    entries.append("any_lone_call")
    replaced = [name for key, name in _rules(definition) if ".replace" in key]
    used = reached(rules, [*entries, *replaced])
    held = {text for name in used for sequence in rules[name] for text in texts_in(sequence)}
    for text in sorted(held):
        for name in _SPECIAL.findall(text):
            if name not in definition.tokens and name not in definition.markers:
                raise refused(
                    file,
                    "specials",
                    f"the grammar has {name!r}, which is not among them",
                    "name it there, or among the markers, if it is plain text for some tokenizers",
                )
    for marker in definition.markers:
        if marker not in held:
            raise refused(file, "markers", f"the grammar has no text {marker!r}")


def _speakers(definition: Definition) -> Iterator[tuple[str, str]]:
    yield from (("tool_prompt", part.role) for part in definition.tool_prompt)
    yield from (("results", role) for role in definition.results)
    yield from ((key, sign.by) for key, sign in _signs(definition))


def _signs(definition: Definition) -> Iterator[tuple[str, Sign]]:
    for name, option in definition.options.items():
        yield from ((f"options.{name}.told", sign) for sign in option.told.values())


def _stops(definition: Definition) -> Iterator[tuple[str, Mapping[str, tuple[str, ...]]]]:
    yield "stops", definition.stops
    for name, option in definition.options.items():
        yield from ((f"options.{name}.{value}.stops", change.stops) for value, change in option.values.items())


def _tokens(definition: Definition) -> Iterator[tuple[str, str]]:
    yield from ((key, sign.token) for key, sign in _signs(definition) if sign.token is not None)
    for key, stops in _stops(definition):
        yield from ((f"{key}.{rule}", name) for rule, names in stops.items() for name in names)
    if definition.payload is not None and definition.payload.quote is not None:
        yield "payload.quote", definition.payload.quote


def _texts(definition: Definition, rules: Alternatives) -> Iterator[tuple[str | None, str]]:
    """Yield the rules that are read back, with their keys."""
    yield None, "content"
    if definition.payload is not None:
        yield None, "name"
    if definition.repeat is not None and definition.repeat.ids is not None:
        yield "calls.ids", id_slot(rules)
    yield from ((f"thoughts.{kind}", rule) for kind, rule in definition.thoughts.items())
    for name, builtin in definition.builtins.items():
        yield from ((f"builtins.{name}.arguments.{key}", rule) for key, rule in builtin.arguments.items())


def _rules(definition: Definition) -> Iterator[tuple[str, str]]:
    yield from ((f"{key}.{rule}", rule) for key, stops in _stops(definition) for rule in stops)
    if definition.repeat is not None:
        yield from (("calls.repeat", definition.repeat.rule), ("calls.next", definition.repeat.next))
        yield from (
            ("calls.all", rule)
            for rule in (definition.repeat.all, "call_id")
            if rule is not None and definition.repeat.ids is not None
        )
    for name, builtin in definition.builtins.items():
        yield from (
            (f"builtins.{name}.rule", builtin.rule),
            *((f"builtins.{name}.arguments.{key}", rule) for key, rule in builtin.arguments.items()),
        )
    yield from ((f"thoughts.{kind}", rule) for kind, rule in definition.thoughts.items())
    if definition.reasoning is not None:
        yield from (("reasoning.rule", definition.reasoning.rule), ("reasoning.block", definition.reasoning.block))
    if definition.payload is not None:
        tagged = ("member",) if definition.payload.surface == "tagged" else ()
        yield from (("payload", rule) for rule in ("tool_call", "arguments", *tagged))
    yield from ((f"messages.{rule}", rule) for rule in definition.messages)
    yield from ((f"slots.{rule}", rule) for rule in definition.slots)
    yield from (("escaped", rule) for rule in definition.escaped)
    yield from _changed("variant", definition.variant)
    for name, option in definition.options.items():
        for value, change in option.values.items():
            yield from _changed(f"options.{name}.{str(value).lower()}", change)
        for member, (present, absent) in option.members.items():
            yield from _changed(f"options.{name}.members.{member}.present", present)
            yield from _changed(f"options.{name}.members.{member}.absent", absent)


def _changed(key: str, change: Change) -> Iterator[tuple[str, str]]:
    yield from ((f"{key}.drop", rule) for rule in change.drop)
    yield from ((f"{key}.replace", rule) for pair in change.replace for rule in pair)
