"""Arguments between tags, as a format's grammar writes them → `surfaces.tags.Tags`, from which schemas become machines.

The grammar says how arguments look, for any tool, with a slot for the name of a member and one for its value:

    arguments: member* arguments_close
    arguments_close: "</function>"
    member: "<parameter=" key ">\\n" value "\\n</parameter>\\n"

Binding needs the same as data.  `value` is written by values of all types; where types are told apart, `text_value` is
written by strings and `json_value` by all others, or `number_value`, `boolean_value` and so on by one type each.  The
terminal of the value says what raw text cannot hold.  Two more rules are optional: `arguments_open` stands before all
members, `no_arguments` in place of everything where there are none.  `key_again` stands for the name of the member in
its closing tag.

Objects and arrays are elements inside of the value where an alternative has the slot `elements`, or `object_elements`
and `array_elements` where the tag tells them apart; then a rule `item`, of the same slots without a key, says how an
array's are written.
"""

from __future__ import annotations

from constrained.errors import GrammarError
from constrained.formats.binding.rules import Alternatives, Sequence, flatten
from constrained.formats.defining.definition import Definition
from constrained.grammar import Literal, Pattern, Ref, Special, Symbol
from constrained.schema.surfaces.tags import AGAIN, CONTAINERS, KINDS, Slot, Tags

_ELEMENTS = {"elements": CONTAINERS, **{f"{kind}_elements": (kind,) for kind in CONTAINERS}}
_SLOTS = {
    "value": KINDS, "text_value": ("string",), "json_value": tuple(kind for kind in KINDS if kind != "string"),
    **{f"{kind}_value": (kind,) for kind in KINDS if kind != "string"},
    **_ELEMENTS,
}


def tags_of(rules: Alternatives, definition: Definition) -> Tags | None:
    """Return what stands around members of a format's arguments; None where they do not stand between tags.

    Raises: GrammarError: the rules are not of the shape above.
    """
    if definition.payload is None or definition.payload.surface != "tagged":
        return None
    keys, slot = _slot(rules, "member", ("key",))
    item = _slot(rules, "item", ())[1] if slot.elements else None
    if item is not None and not item.elements:
        raise _malformed("items write objects and arrays as members do", "item")
    closing = _fixed(rules, "arguments_close")
    specials = tuple(definition.tokens.values())
    every = tuple(dict.fromkeys((*specials, *definition.markers)))
    return Tags(
        _fixed(rules, "arguments_open", ""), keys, slot, closing, _fixed(rules, "no_arguments", closing),
        _text_of(rules), item, every, specials,
    )


def beginning_of_members(tags: Tags) -> str:
    """Return what begins a member for readers, whichever quotes stand around its name.

    A value that holds it is refused by readers here: either the value before has no end, or other readers end it there.
    """
    return tags.key.rstrip("\"'")


def _slot(rules: Alternatives, rule: str, keys: tuple[str, ...]) -> tuple[str, Slot]:
    """Return what stands before the key of a member, where it has one, and its place for a value."""
    before: dict[str, str] = {}
    elements: dict[str, str] = {}
    beginnings, ends = set(), set()
    if rule not in rules:
        raise _malformed("there is none, and members have elements", rule)
    for sequence in flatten(rules, rule, {*keys, "key_again", *_SLOTS}):
        beginning, value, end, slot = _alternative(sequence, rules, rule, keys)
        beginnings.add(beginning)
        ends.add(end)
        for kind in _SLOTS[slot]:
            (elements if slot in _ELEMENTS else before).setdefault(kind, value)
    if len(beginnings) != 1 or len(ends) != 1 or before.keys() != set(KINDS) or len(elements) not in (0, 2):
        raise _malformed("its alternatives begin and end alike, and write each type of value", rule)
    found = Slot(
        tuple([before[kind] for kind in KINDS]), ends.pop(), tuple([elements[kind] for kind in CONTAINERS if elements])
    )
    return beginnings.pop(), found


def _alternative(
    sequence: Sequence, rules: Alternatives, rule: str, keys: tuple[str, ...]
) -> tuple[str, str, str, str]:
    """Return what stands before the key, "" without one, before the value and after it, and the slot of the value."""
    texts, slots = [""], []
    for symbol in sequence:
        if isinstance(symbol, Ref) and (symbol.rule in keys or symbol.rule in _SLOTS):
            slots.append(symbol.rule)
            texts.append("")
        elif symbol == Ref("key_again"):
            texts[-1] += AGAIN
        else:
            texts[-1] += _plain((symbol,), rules, rule)
    if len(slots) != len(keys) + 1 or tuple(slots[:-1]) != keys or not texts[-2] or not texts[-1]:
        raise _malformed(f"each alternative is: text, {'key, text, ' if keys else ''}value, text", rule)
    return texts[0] if keys else "", texts[-2], texts[-1], slots[-1]


def _plain(sequence: Sequence, rules: Alternatives, rule: str = "member") -> str:
    """Return the one text that a sequence derives."""
    text = ""
    for symbol in sequence:
        if isinstance(symbol, Ref) and len(rules.get(symbol.rule, ())) == 1:
            text += _plain(rules[symbol.rule][0], rules, rule)
        elif isinstance(symbol, (Literal, Special)):
            text += symbol.text if isinstance(symbol, Literal) else symbol.name
        else:
            raise _malformed("besides its slots it has one spelling", rule)
    return text


def _fixed(rules: Alternatives, rule: str, otherwise: str | None = None) -> str:
    if rule not in rules:
        if otherwise is None:
            raise _malformed(f"there is a rule '{rule}'")
        return otherwise
    return _plain((Ref(rule),), rules)


def _text_of(rules: Alternatives) -> str:
    slot = "text_value" if "text_value" in rules else "value"
    sequence: tuple[Symbol, ...] = (Ref(slot),)
    while len(sequence) == 1 and isinstance(sequence[0], Ref) and len(rules[sequence[0].rule]) == 1:
        sequence = rules[sequence[0].rule][0]
    if len(sequence) != 1 or not isinstance(sequence[0], Pattern):
        raise _malformed(f"the rule '{slot}' is one terminal")
    return sequence[0].source


def _malformed(because: str, rule: str = "member") -> GrammarError:
    return GrammarError(
        f"cannot read the rule '{rule}'",
        because=f"it is no {rule} between tags: {because}",
        instead="see grammars/README.md",
    )
