"""Arguments between tags, as a format's grammar writes them → `schema.Tags`, from which schemas become machines.

The grammar says how arguments look, for any tool, with a slot for the name of a member and one for its value:

    arguments: member* arguments_close
    arguments_close: "</function>"
    member: "<parameter=" key ">\\n" value "\\n</parameter>\\n"

Binding needs the same as data.  `value` is written by values of all types; where types are told apart, `text_value` is
written by strings and `json_value` by all others, or `number_value`, `boolean_value` and so on by one type each.  The
terminal of the value says what raw text cannot hold.  Two more rules are optional: `arguments_open` stands before all
members, `no_arguments` in place of everything where there are none.  `key_again` stands for the name of the member in
its closing tag.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from constrained.errors import ConstrainedError, GrammarError
from constrained.formats.binding.rules import Alternatives, Sequence, flatten
from constrained.formats.payload.raw import kind_of
from constrained.formats.payload.values import write_json
from constrained.grammar import Literal, Pattern, Ref, Special, Symbol
from constrained.schema.surfaces.tagged import AGAIN, KINDS, Tags

_SLOTS = {
    "value": KINDS, "text_value": ("string",), "json_value": tuple(kind for kind in KINDS if kind != "string"),
    **{f"{kind}_value": (kind,) for kind in KINDS if kind != "string"},
}


def tags_of(rules: Alternatives, markers: Collection[str], specials: Collection[str]) -> Tags:
    """Return what stands around members; `markers` are texts that some tokenizers have as tokens, `specials` those that
    all have.

    Raises: GrammarError: the rules are not of the shape above.
    """
    before: dict[str, str] = {}
    keys, ends = set(), set()
    texts: tuple[str, str] | None = None
    for sequence in flatten(rules, "member", {"key", "key_again", *_SLOTS}):
        key, value, end, slot = _parts(sequence, rules)
        keys.add(key)
        ends.add(end)
        for kind in _SLOTS[slot]:
            before.setdefault(kind, value)
        if "string" in _SLOTS[slot]:
            texts = texts or _text_of(rules, slot)
    if len(keys) != 1 or len(ends) != 1 or before.keys() != set(KINDS) or texts is None:
        raise _malformed("its alternatives begin and end alike, and write each type of value")
    closing = _fixed(rules, "arguments_close")
    every = tuple(dict.fromkeys((*specials, *markers)))
    return Tags(
        _fixed(rules, "arguments_open", ""), keys.pop(), tuple(before[kind] for kind in KINDS), ends.pop(), closing,
        _fixed(rules, "no_arguments", closing), texts[0], every, tuple(specials),
    )


def write_members(arguments: Mapping[str, Any], tags: Tags, avoid: tuple[str, ...]) -> list[tuple[str, bool]]:
    """Return arguments as members between tags, in pieces: a text, and whether it is of the tags.

    Raises: ConstrainedError: a string holds what ends it.
    """
    pieces = [(tags.opening, True)]
    for key, value in arguments.items():
        kind = kind_of(value)
        text = value if kind == "string" else write_json(value, avoid)
        if kind == "string" and not re.fullmatch(tags.text, text):
            raise ConstrainedError(
                f"cannot write the parameter {key!r}",
                because="its text holds what ends a value in this format, where nothing is escaped",
            )
        end = [(part, True) for part in tags.end.split(AGAIN)]
        end = [*end[:1], *(piece for part in end[1:] for piece in ((key, False), part))]
        pieces += [(tags.key, True), (key, False), (tags.value[KINDS.index(kind)], True), (text, False), *end]
    return [*pieces, (tags.closing if arguments else tags.bare, True)]


def _parts(sequence: Sequence, rules: Alternatives) -> tuple[str, str, str, str]:
    """Return what stands before the key, before the value and after it, and the slot of the value."""
    texts, slots = [""], []
    for symbol in sequence:
        if isinstance(symbol, Ref) and (symbol.rule == "key" or symbol.rule in _SLOTS):
            slots.append(symbol.rule)
            texts.append("")
        elif symbol == Ref("key_again"):
            texts[-1] += AGAIN
        else:
            texts[-1] += _plain((symbol,), rules)
    if len(slots) != 2 or slots[0] != "key" or not texts[1] or not texts[2]:
        raise _malformed("each alternative is: text, key, text, value, text")
    return texts[0], texts[1], texts[2], slots[1]


def _plain(sequence: Sequence, rules: Alternatives) -> str:
    """Return the one text that a sequence derives."""
    text = ""
    for symbol in sequence:
        if isinstance(symbol, Ref) and len(rules.get(symbol.rule, ())) == 1:
            text += _plain(rules[symbol.rule][0], rules)
        elif isinstance(symbol, (Literal, Special)):
            text += symbol.text if isinstance(symbol, Literal) else symbol.name
        else:
            raise _malformed("besides its slots it has one spelling")
    return text


def _fixed(rules: Alternatives, rule: str, otherwise: str | None = None) -> str:
    if rule not in rules:
        if otherwise is None:
            raise _malformed(f"there is a rule '{rule}'")
        return otherwise
    return _plain((Ref(rule),), rules)


def _text_of(rules: Alternatives, slot: str) -> tuple[str, str]:
    sequence: tuple[Symbol, ...] = (Ref(slot),)
    while len(sequence) == 1 and isinstance(sequence[0], Ref) and len(rules[sequence[0].rule]) == 1:
        sequence = rules[sequence[0].rule][0]
    if len(sequence) != 1 or not isinstance(sequence[0], Pattern):
        raise _malformed(f"the rule '{slot}' is one terminal")
    return sequence[0].source, slot


def _malformed(because: str) -> GrammarError:
    return GrammarError(
        "cannot read the rule 'member'",
        because=f"it is no member between tags: {because}",
        instead="see grammars/README.md",
    )
