"""The frame of a turn: a format's rules as a request asks for them, while its calls are still generic.

A frame depends on a request but not on its tools, only on whether any may be called and which of the format's own may.
So requests that bring other tools share one: `frame_key` names it, and binding fills its call shapes in.  Where calls
end with the tool's name, what tools add to a grammar is one symbol, and all around it is shared, too (`Template`).

PERF: an alternative for each of 50 tools took 0.5 ms of the 1.6 in which such a grammar compiled, the rules 0.3.
Tested in tests/test_formats.py: grammars in a shared frame are those in a frame of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from constrained.errors import GrammarError, shown
from constrained.formats.binding.arguments import Arguments
from constrained.formats.binding.markers import avoided, marker_safe, misread, overlapping
from constrained.formats.binding.request import TurnRequest
from constrained.formats.binding.rules import (
    Alternatives,
    Sequence,
    alternatives_of,
    answering,
    flatten,
    join_literals,
    prune,
    repeat_at_most,
)
from constrained.formats.binding.sequence import NameLast
from constrained.formats.binding.tagged import tags_of
from constrained.formats.defining.definition import ENTRY, Change, Definition
from constrained.grammar import Embedded, Grammar, Literal, Pattern, Ref, Rule, Symbol
from constrained.grammar.compose import fill
from constrained.regex import Expr
from constrained.schema.by_content import content
from constrained.schema.surfaces.tags import Tags


@dataclass(frozen=True, slots=True)
class Template:
    """A grammar whose calls have a hole from the arguments on, and what stands around the name there; shared."""

    grammar: Grammar
    rule: str  # that writes a call
    hole: Embedded
    before: str
    after: str

    def filled(self, machines: list[Arguments], names: list[str]) -> Grammar:
        """Return the grammar of calls of some tools, at least one, whose names are as calls write them."""
        texts = [f"{self.before}{name}{self.after}" for name in names]
        return fill(self.grammar, self.rule, self.hole, NameLast(machines, texts))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Frame:
    """A turn without its tools; shared, so nobody may change its rules.

    Invariant: `around` is what is left of `rules` beside the rules of calls, once these are bound.
    """

    rules: Alternatives
    shapes: Mapping[str, tuple[Sequence, ...]]  # of a call, by the rule that writes one; name and arguments are Refs
    around: Alternatives
    specials: frozenset[str]  # that texts of a call are not joined with
    tags: Tags | None  # around members of arguments
    avoid: tuple[str, ...]  # what strings in arguments do not spell
    names: re.Pattern[str] | None  # of tools
    template: Template | None  # of the whole grammar, where names come last


def frame_key(definition: Definition, request: TurnRequest) -> bytes | None:
    """Return the name of a request's frame: equal for requests that share one, None where it is not to be shared."""
    if request.response is not None:  # which stands in the rules
        return None
    return content(
        request.choice, request.calls, dict(request.options), request.reasoning, request.marker_safe, request.preface,
        *callable_of(definition, request),
    )  # fmt: skip


def make_frame(
    generic: Grammar, definition: Definition, request: TurnRequest, answer: Callable[[], Symbol] | None
) -> Frame:
    """Return the frame of a request; `answer` makes what answers say in place of any text.

    Raises: GrammarError: the request contradicts the format or itself.
    """
    rules = shape(generic, definition, request)
    names = name_pattern(rules)
    if answer is not None and "answer" in rules:
        rules = prune(answering(rules, answer()), ENTRY)
    if request.marker_safe:
        rules = marker_safe(rules, definition)
    if request.response is None:  # so that the frame is shared
        _keep_beginnings(rules)
    specials = frozenset((*definition.tokens.values(), *definition.markers))
    calling = call_rules(rules, definition) if definition.payload is not None else []
    slots = {"name", "arguments", id_slot(rules)}
    shapes = {
        rule: tuple(join_literals(sequence, specials) for sequence in flatten(rules, rule, slots)) for rule in calling
    }
    tags = tags_of(rules, definition) if calling else None
    avoid = avoided(definition, tags, marker_safe=request.marker_safe) if calling else ()
    if tags is not None and request.marker_safe:
        mark = misread(definition, tags)  # raw strings do without, as nothing is escaped in them
        tags = tags._replace(avoid=mark, ends=overlapping(rules, mark))
    around = _around(rules, shapes)
    template = template_of(shapes, around, specials, lambda rules: grammar_of(rules, generic, definition))
    return Frame(rules, shapes, around, specials, tags, avoid, names, template)


def grammar_of(rules: Alternatives, generic: Grammar, definition: Definition) -> Grammar:
    """Return the rules as a grammar that counts only the special tokens it uses."""
    symbols = [symbol for sequences in rules.values() for sequence in sequences for symbol in sequence]
    used = {symbol.text for symbol in symbols if isinstance(symbol, Literal)}
    used = used.union(*[getattr(symbol.machine, "markers", ()) for symbol in symbols if isinstance(symbol, Embedded)])
    stops = {definition.tokens[name] for names in definition.stops.values() for name in names}
    named = {name: Rule(name, sequences) for name, sequences in rules.items()}
    specials = generic.specials & used
    return Grammar(named, ENTRY, specials, source=generic.source, adopts=generic.adopts, stops=specials & stops)


def template_of(
    shapes: Mapping[str, tuple[Sequence, ...]],
    around: Alternatives,
    specials: Collection[str],
    made: Callable[[Alternatives], Grammar],
) -> Template | None:
    """Return the template of the rules around calls, None where these are not of one shape with the arguments first and
    nothing but texts and the name behind them; `made` makes a grammar of rules.
    """
    found = [(rule, shape) for rule in shapes if rule in around for shape in shapes[rule]]
    if len(found) != 1 or not begins_with_arguments(found[0][1]):
        return None
    ((rule, shape),) = found
    begin, name = shape.index(Ref("arguments")), shape.index(Ref("name"))
    texts = shape[begin + 1 : name], shape[name + 1 :]
    if not all(type(symbol) is Literal and symbol.text not in specials for symbol in chain(*texts)):
        return None
    before, after = ["".join([symbol.text for symbol in part if type(symbol) is Literal]) for part in texts]
    hole = Embedded("calls", NameLast([], []))
    return Template(made({**around, rule: ((*shape[:begin], hole),)}), rule, hole, before, after)


def begins_with_arguments(shape: Sequence) -> bool:
    """Return whether the shape of a call has the arguments before the tool's name."""
    slots = [symbol.rule for symbol in shape if isinstance(symbol, Ref) and symbol.rule in ("name", "arguments")]
    return slots == ["arguments", "name"]


def _keep_beginnings(rules: Alternatives) -> None:
    """Let the texts of a frame keep the edges of their first two characters, which no request changes, for as long as
    the frame itself.

    PERF: some ten states each, and 0.1 ms to compute again where text must not spell the markers of a format.
    """
    for symbol in chain.from_iterable(chain.from_iterable(rules.values())):
        if isinstance(symbol, Pattern) and isinstance(symbol.language, Expr):
            for state in (symbol.language, *(target for _, _, target in symbol.language.edges())):
                state.edges_stay = True


def _around(rules: Alternatives, shapes: Mapping[str, tuple[Sequence, ...]]) -> Alternatives:
    bound = {Ref("name"), Ref("arguments")}
    bare = {
        rule: tuple(tuple(symbol for symbol in sequence if symbol not in bound) for sequence in sequences)
        for rule, sequences in shapes.items()
    }
    return prune({**rules, **bare}, ENTRY)


def shape(generic: Grammar, definition: Definition, request: TurnRequest) -> Alternatives:
    """Return the rules of the turn that a request asks for, with the call still generic.

    Raises: GrammarError: the request contradicts the format or itself.
    """
    rules = alternatives_of(generic.rules)
    for change in changes_of(definition, request.options):
        for target, source in change.replace:
            rules[target] = rules[source]
        for rule in change.drop:
            rules[rule] = ()
    _think(rules, definition, request)
    if definition.repeat is not None and request.calls is not None:
        repeat_at_most(rules, definition.repeat.rule, definition.repeat.next, request.calls - 1)
    _choose(rules, definition, request)
    rules = prune(rules, ENTRY)
    if not rules:
        if request.choice == "auto" and request.reasoning in ("none", "required"):
            raise GrammarError(
                f"no turn fits reasoning {request.reasoning!r}", because="the options ask for thoughts, or leave none"
            )
        asked = " or ".join(map(repr, request.only or (request.choice,)))
        raise GrammarError(f"no turn fits tool_choice {asked}", because="no tool that it allows is on offer")
    return rules


def _think(rules: Alternatives, definition: Definition, request: TurnRequest) -> None:
    """Make the thought of a turn what the request says."""
    reasoning = definition.reasoning
    if reasoning is not None and request.reasoning == "required":
        rules[reasoning.rule] = ((Ref(reasoning.block),),)
    elif reasoning is not None and request.reasoning == "none":
        rules[reasoning.block] = ()


def callable_of(definition: Definition, request: TurnRequest) -> tuple[tuple[str, ...], bool]:
    """Return which of a format's own tools a request lets a turn call, and whether it may call any other."""
    own, offered, only = tuple(definition.builtins), request.tools, request.only
    if only is not None:
        own = tuple(name for name in own if name in only)
    if definition.payload is None:
        named = None if offered is None else {tool.name for tool in offered}
        return own if named is None else tuple(name for name in own if name in named), True
    return own, offered != () and (only is None or any(tool.name in only for tool in offered or ()))


def _choose(rules: Alternatives, definition: Definition, request: TurnRequest) -> None:
    """Drop what the choice excludes."""
    if request.choice == "none":
        rules["calling"] = ()
    elif request.choice == "required":
        rules["answer"] = ()
    free = request.choice != "required" and request.response is None
    if not (free if request.preface is None else request.preface):
        for name in rules:
            if re.fullmatch(r"preface(_[0-9]+)?", name):  # with a number: what is left of it under a look-ahead
                rules[name] = ()
    own, others = callable_of(definition, request)
    for name, builtin in definition.builtins.items():
        if name not in own:
            rules[builtin.rule] = ()
    if not others:
        for rule in call_rules(rules, definition):
            rules[rule] = ()


def call_rules(rules: Alternatives, definition: Definition) -> list[str]:
    """Return the rules that write a generic call: ``tool_call``, and those that stand for it."""
    return [
        name
        for name in ("tool_call", *(name for name, slot in definition.slots.items() if slot == "tool_call"))
        if name in rules
    ]


def changes_of(definition: Definition, options: Mapping[str, object]) -> list[Change]:
    """Return what options change in a format's rules.  Raises: GrammarError: an option or its value is unknown."""
    if unknown := options.keys() - definition.options.keys():
        raise GrammarError(
            f"unknown option {min(unknown)!r} for the format '{definition.title}'",
            instead=f"one of: {', '.join(definition.options)}"
            if definition.options
            else "leave it out; the format has no options",
        )
    found: list[Change] = []
    for name, option in definition.options.items():
        value = options.get(name, option.default)
        if option.members:
            found += _member_changes(name, value, option.members)
        elif isinstance(value, (str, bool)) and value in option.values:
            found.append(option.values[value])
        else:
            raise GrammarError(
                f"option {name!r} is {shown(value)}", instead="one of: " + ", ".join(map(repr, option.values))
            )
    return found


def under(definition: Definition, options: Mapping[str, object]) -> Definition:
    """Return the definition with what the values of options say of strings, of readers, of what is told of tools and
    of the tokens that end turns.
    """
    known = {name: options.get(name, option.default) for name, option in definition.options.items()}
    told = tuple(part for part in definition.tool_prompt if known.get(part.option or "", True))
    definition = definition if told == definition.tool_prompt else replace(definition, tool_prompt=told)
    changes = changes_of(definition, options)
    avoid = tuple(chain.from_iterable([change.avoid for change in changes]))
    notes = dict(chain.from_iterable([change.notes.items() for change in changes]))
    stops = next((change.stops for change in changes if change.stops), definition.stops)
    definition = definition if stops is definition.stops else replace(definition, stops=stops)
    if not avoid and not notes or definition.payload is None:
        return definition
    payload = replace(definition.payload, avoid=(*definition.payload.avoid, *avoid))
    return replace(definition, payload=payload, notes={**definition.notes, **notes})


def _member_changes(name: str, value: object, members: Mapping[str, tuple[Change, Change]]) -> list[Change]:
    if value is None:
        return []
    listed = list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
    if unknown := [entry for entry in listed if entry not in members]:
        what = f"option {name!r} has {shown(unknown[0])}"
        raise GrammarError(what, instead="a list of some of: " + ", ".join(members))
    return [present if member in listed else absent for member, (present, absent) in members.items()]


def id_slot(rules: Alternatives) -> str:
    """Return the rule that differs between the ids of two calls of a tool: the id, or the number inside it."""
    return "call_number" if "call_number" in rules else "call_id"


def name_pattern(rules: Alternatives) -> re.Pattern[str] | None:
    """Return the regular expression of the names that a format's grammar derives."""
    found = terminal_of(rules, "name")
    return re.compile(found.source) if found is not None else None


def terminal_of(rules: Alternatives, rule: str) -> Pattern | None:
    """Return the pattern of a rule that is one terminal, None for any other rule."""
    sequence: tuple[Symbol, ...] = (Ref(rule),)
    while len(sequence) == 1 and isinstance(sequence[0], Ref) and len(rules.get(sequence[0].rule, ())) == 1:
        sequence = rules[sequence[0].rule][0]
    return sequence[0] if len(sequence) == 1 and isinstance(sequence[0], Pattern) else None
