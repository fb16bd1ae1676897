"""The rules of a format as a plain dict of alternatives: cut, divided by a prompt, read as tags.

A format's variants are small edits of one grammar: drop, replace, repeat, flatten, prune.  They work on a dict because
a `Grammar` checks itself whenever one is made, and binding 500 tools should make one.

Templates end a prompt behind the assistant's header, or some way into the turn: inside a thought (``<think>``), behind
an empty one, at a mark such as ``>>>``.  A format's grammar derives whole turns; `after_prompt` divides it by that
beginning from the left, so where a prompt ends need not be spelled out in any grammar, and whatever a caller wrote for
the model beforehand is treated alike.  It goes symbol by symbol and character by character; a text inside a pattern
leaves the derivative of its language.  Left out: a prompt that ends inside a call, whose arguments are no rules.

Arguments between tags → `surfaces.tags.Tags`, from which schemas become machines.  The grammar says how arguments look,
for any tool, with a slot for the name of a member and one for its value:

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

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from constrained.errors import GrammarError
from constrained.formats.definition import Change, Definition
from constrained.grammar import Embedded, Literal, Pattern, Ref, Rule, Special, Symbol
from constrained.grammar.analysis import deriving, useful
from constrained.regex import optional
from constrained.schema.surfaces.tags import AGAIN, CONTAINERS, KINDS, Slot, Tags
from constrained.work import metered, spend, working_on

# -- cutting -----------------------------------------------------------------------------------------------------------

Sequence = tuple[Symbol, ...]
Alternatives = dict[str, tuple[Sequence, ...]]

_WRITTEN_OUT = 16  # repeats up to here


def alternatives_of(rules: Mapping[str, Rule]) -> Alternatives:
    """Return rules as a dict of their alternatives."""
    return {name: rule.alternatives for name, rule in rules.items()}


def with_empty_terminals(rules: Alternatives) -> Alternatives:
    """Return rules in which one that is a terminal, or nothing, is a terminal that may be empty.

    Lark has no such terminals, so a file says ``thought: THOUGHT?``.
    """
    changed_rules = dict(rules)
    for name, sequences in rules.items():
        match sequences:
            case ((Ref(helper),),) if helper in rules:
                match sorted(rules[helper], key=len):
                    case [(), (Pattern(language, source),)]:
                        changed_rules[name] = ((Pattern(optional(language), f"(?:{source})?"),),)
    return changed_rules


def repeat_at_most(rules: Alternatives, rule: str, item: str, most: int) -> None:
    """Let `rule` derive up to `most` times `item`, with some 4·log2(most) rules, so that every number of items has one
    derivation.
    """
    if most <= _WRITTEN_OUT:
        rules[rule] = tuple((Ref(item),) * count for count in range(most + 1))
    elif most % 2 == 0:
        repeat_at_most(rules, f"{rule}_{most - 1}", item, most - 1)
        rules[rule] = ((), (Ref(item), Ref(f"{rule}_{most - 1}")))
    else:
        half = most // 2
        repeat_at_most(rules, f"{rule}_{half}", item, half)
        rules[rule] = ((Ref(f"{rule}_{half}"),), (*_exactly(rules, item, half + 1), Ref(f"{rule}_{half}")))


def _exactly(rules: Alternatives, item: str, count: int) -> Sequence:
    """Return what derives `count` times `item`."""
    if count <= _WRITTEN_OUT:
        return (Ref(item),) * count
    half = f"{item}_{count // 2}_times"
    rules[half] = (_exactly(rules, item, count // 2),)
    return (Ref(half), Ref(half), *(Ref(item),) * (count % 2))


def flatten(rules: Alternatives, rule: str, slots: Collection[str]) -> list[Sequence]:
    """Return what `rule` derives as sequences in which the slots stand at the top.

    Rules that cannot reach a slot stay references; those that can must not recurse, as a call has each slot once.
    """
    reaching = _reaching(rules, slots)

    def expand(sequence: Sequence) -> Iterator[Sequence]:
        for at, symbol in enumerate(sequence):
            if isinstance(symbol, Ref) and symbol.rule in reaching:
                for inner in rules[symbol.rule]:
                    yield from expand((*sequence[:at], *inner, *sequence[at + 1 :]))
                return
        yield sequence

    return list(expand((Ref(rule),)))


def _reaching(rules: Alternatives, slots: Collection[str]) -> set[str]:
    known: set[str] = set()
    while True:
        new = {
            name for name, sequences in rules.items() if name not in known and name not in slots
            and any(
                isinstance(s, Ref) and (s.rule in slots or s.rule in known) for sequence in sequences for s in sequence
            )
        }  # fmt: skip
        if not new:
            return known
        known |= new


def reached(rules: Alternatives, start: Iterable[str]) -> set[str]:
    """Return the rules that some rules use, themselves included; names without a rule are left out."""
    names, work = set[str](), [name for name in start if name in rules]
    while work:
        name = work.pop()
        if name not in names:
            names.add(name)
            work += [symbol.rule for sequence in rules[name] for symbol in sequence if isinstance(symbol, Ref)]
    return names


def fixed(symbol: Symbol) -> str | None:
    """Return the text of a literal or a special token, None for other symbols."""
    return symbol.name if isinstance(symbol, Special) else symbol.text if isinstance(symbol, Literal) else None


def texts_in(sequence: Sequence) -> list[str]:
    """Return the literals and special tokens that a sequence writes."""
    return [text for text in map(fixed, sequence) if text is not None]


def terminal_of(rules: Alternatives, rule: str) -> Pattern | None:
    """Return the pattern of a rule that is one terminal, None for any other rule."""
    sequence: tuple[Symbol, ...] = (Ref(rule),)
    while len(sequence) == 1 and isinstance(sequence[0], Ref) and len(rules.get(sequence[0].rule, ())) == 1:
        sequence = rules[sequence[0].rule][0]
    return sequence[0] if len(sequence) == 1 and isinstance(sequence[0], Pattern) else None


def answering(rules: Alternatives, response: Symbol) -> Alternatives:
    """Return the rules in which `answer` says `response` in place of ``content``; everything else may still say
    anything.
    """
    reaching, copied = _reaching(rules, {"content"}), dict(rules)

    def copy(sequence: Sequence) -> Sequence:
        return tuple(response if symbol == Ref("content") else Ref(f"{symbol.rule}, answering")
                     if isinstance(symbol, Ref) and symbol.rule in reaching else symbol for symbol in sequence)

    for name in reaching:
        copied[f"{name}, answering"] = tuple(copy(sequence) for sequence in rules[name])
    copied["answer"] = copied["answer, answering"] if "answer" in reaching else ()
    return copied


def join_literals(sequence: Iterable[Symbol], specials: Collection[str]) -> Sequence:
    """Return the sequence with neighbouring texts as one; special tokens stay apart."""
    joined, before = list[Symbol](), None
    for symbol in sequence:
        text = symbol.text if type(symbol) is Literal and symbol.text not in specials else None
        if text is not None and before is not None:
            text = before + text
            joined[-1] = Literal(text)
        else:
            joined.append(symbol)
        before = text
    return tuple(joined)


def prune(rules: Alternatives, start: str) -> Alternatives:
    """Return the rules that `start` reaches, without alternatives that need a rule which derives nothing; {} if `start`
    is one.
    """
    alive = deriving(rules, lambda symbol: True)
    return useful(rules, start, lambda part: type(part) is not Ref or part.rule in alive) if start in alive else {}


def changed(rules: Alternatives, changes: Iterable[Change]) -> Alternatives:
    """Return the rules with what values of options say of them."""
    result = dict(rules)
    for change in changes:
        for target, source in change.replace.items():
            result[target] = result[source]
        result.update(dict.fromkeys(change.drop, ()))
    return result


# -- the quotient by a prompt ------------------------------------------------------------------------------------------

MOST_WAYS = 1_000  # of reading a prompt


def after_prompt(rules: Alternatives, start: str, prompt: str, specials: Collection[str]) -> Alternatives:
    """Return the rules, each of which derives something, in which `start` derives what may follow the prompt; only
    those that it reaches.

    `specials`: the texts that are special tokens, in the prompt and among the literals of the rules.

    Cost: some 10 µs a character and way of reading it.
    Raises: GrammarError: no turn begins like this.  LimitExceeded: the prompt is too long for that.
    """
    ways: list[Sequence] = [(Ref(start),)]
    read = ""
    with metered(), working_on("the prompt"):
        for unit in _units(prompt, specials):
            spend(4 * len(ways))
            ways = _distinct(rest for way in ways for rest in _stepped(way, unit, rules, specials))
            read += unit
            if not ways or len(ways) > MOST_WAYS:
                raise GrammarError(
                    f"no turn of the format begins with {read!r}"
                    if not ways
                    else f"the prompt {prompt!r} can be read in too many ways",
                    instead="what the prompt holds behind the assistant's header, outside of calls",
                )
    left = {**rules, start: tuple(ways)}
    names = reached(left, [start])
    return {name: sequences for name, sequences in left.items() if name in names}


def _units(prompt: str, specials: Collection[str]) -> list[str]:
    """Return the special tokens and single characters of a prompt."""
    names = sorted(specials, key=len, reverse=True)
    return [match[0] for match in re.finditer("|".join([*map(re.escape, names), r"[\s\S]"]), prompt)]


def _distinct(ways: Iterator[Sequence]) -> list[Sequence]:
    return list(dict.fromkeys(ways))


def _stepped(way: Sequence, unit: str, rules: Alternatives, specials: Collection[str]) -> Iterator[Sequence]:
    """Yield what is left of a sequence behind a character or a special token."""
    work, seen = [way], {way}
    while work:
        sequence = work.pop()
        if not sequence:
            continue
        first, rest = sequence[0], sequence[1:]
        if isinstance(first, Ref):
            expanded = [(*alternative, *rest) for alternative in rules[first.rule]]
            work += [new for new in reversed(expanded) if new not in seen]
            seen.update(expanded)
            continue
        left = _left_of(first, unit, specials)
        if left is not None:
            yield (*left, *rest)
        if isinstance(first, Pattern) and first.language.accepts and rest not in seen:
            seen.add(rest)
            work.append(rest)


def _left_of(symbol: Symbol, unit: str, specials: Collection[str]) -> Sequence | None:
    """Return what is left of a symbol; None where it does not begin like this."""
    if isinstance(symbol, Special) or (isinstance(symbol, Literal) and symbol.text in specials):
        return () if unit == fixed(symbol) else None
    if unit in specials or isinstance(symbol, Embedded):
        return None
    if isinstance(symbol, Literal):
        if not symbol.text.startswith(unit):
            return None
        return (Literal(symbol.text[len(unit) :]),) if len(symbol.text) > len(unit) else ()
    assert isinstance(symbol, Pattern)
    point = ord(unit)
    for low, high, language in symbol.language.edges():
        if low <= point <= high:
            if language is symbol.language:  # as in any text: its source need not grow by every character
                return (symbol,)
            return (Pattern(language, f"(?#behind {point:x}){symbol.source}"),)
    return None


# -- tags --------------------------------------------------------------------------------------------------------------

_ELEMENTS = {"elements": CONTAINERS, **{f"{kind}_elements": (kind,) for kind in CONTAINERS}}
_SLOTS = {
    "value": KINDS, "text_value": ("string",), "json_value": tuple(kind for kind in KINDS if kind != "string"),
    **{f"{kind}_value": (kind,) for kind in KINDS if kind != "string"}, **_ELEMENTS,
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
    place = Slot(
        tuple([before[kind] for kind in KINDS]), ends.pop(), tuple([elements[kind] for kind in CONTAINERS if elements])
    )
    return beginnings.pop(), place


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
        elif (own := fixed(symbol)) is not None:
            text += own
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
    terminal = terminal_of(rules, slot)
    if terminal is None:
        raise _malformed(f"the rule '{slot}' is one terminal")
    return terminal.source


def _malformed(because: str, rule: str = "member") -> GrammarError:
    return GrammarError(
        f"cannot read the rule '{rule}'", because=f"it is no {rule} between tags: {because}",
        instead="see grammars/README.md",
    )
