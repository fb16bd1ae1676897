"""A definition against its grammar: every rule and token that it names is there.

Without this a typo would change the language silently: an alternative that nobody drops, a thought that nobody returns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from constrained.errors import GrammarError
from constrained.formats.defining.definition import Change, Definition


def check_names_of(definition: Definition, rules: Collection[str], file: str) -> None:
    """Raise `GrammarError` for the first name that the grammar or the specials lack, with its key."""
    for key, rule in _rules(definition):
        if not {rule, f"any_{rule}", rule.removeprefix("any_")} & set(rules):
            raise GrammarError(
                f"cannot read the format {file}", where=key, because=f"its grammar has no rule {rule!r}", instead="see grammars/README.md")
    for rule, names in definition.stops.items():
        for name in names:
            if name not in definition.tokens:
                raise GrammarError(
                    f"cannot read the format {file}", where=f"stops.{rule}", because=f"{name!r} is not among its specials",
                    instead=f"one of: {', '.join(definition.tokens)}")


def _rules(definition: Definition) -> Iterator[tuple[str, str]]:
    yield from ((f"stops.{rule}", rule) for rule in definition.stops)
    if definition.repeat is not None:
        yield from (("calls.repeat", definition.repeat.rule), ("calls.next", definition.repeat.next))
    for name, builtin in definition.builtins.items():
        yield from ((f"builtins.{name}.rule", builtin.rule), *((f"builtins.{name}.arguments.{key}", rule) for key, rule in builtin.arguments.items()))
    yield from ((f"thoughts.{kind}", rule) for kind, rule in definition.thoughts.items())
    if definition.reasoning is not None:
        yield from (("reasoning.rule", definition.reasoning.rule), ("reasoning.block", definition.reasoning.block))
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
