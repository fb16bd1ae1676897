"""Tools, a choice and options, bound into a format's grammar.

The grammar has a generic call, ``tool_call: call{name, arguments}``.  Binding replaces it by one alternative per tool,
with the tool's name for ``name`` and the machine of its schema for ``arguments``.  The machine is lazy: a schema's
keywords are checked here, its states appear when a generation gets there.  Where arguments precede the name, the
alternatives run side by side until the name decides.

What a format cannot carry is refused here, before anything is generated: a name that its grammar does not derive, a
keyword argument that Python cannot spell, a name that belongs to a tool of the format itself.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from json.encoder import encode_basestring
from typing import Any

from constrained.errors import GrammarError, SchemaError, UnsupportedSchema, shown
from constrained.formats.binding.arguments import Arguments
from constrained.formats.binding.markers import avoided, marker_safe, misread, overlapping
from constrained.formats.binding.prompted import after_prompt
from constrained.formats.binding.request import TurnRequest
from constrained.formats.binding.rules import (
    Alternatives,
    alternatives_of,
    answering,
    flatten,
    join_literals,
    prune,
    repeat_at_most,
)
from constrained.formats.binding.sequence import Calls
from constrained.formats.binding.tagged import tags_of
from constrained.formats.defining.definition import ENTRY, Change, Definition, Payload
from constrained.formats.payload.quoted import sorted_properties
from constrained.formats.tools import Tool
from constrained.grammar import Embedded, Grammar, Literal, Pattern, Ref, Rule, Symbol
from constrained.machine import Language
from constrained.schema.embedding import EmbeddedSchema, SchemaOptions, embed

ANY_OBJECT = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Writing:
    """How arguments are written; the parameters of `schema.embed`."""

    whitespace: str
    property_order: str
    closed: bool
    unsupported: str
    formats: str = "assert"

    def options(self) -> dict[str, Any]:
        """Return them by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


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


def bind(generic: Grammar, definition: Definition, request: TurnRequest, writing: Writing) -> Grammar:
    """Return the grammar of the turns that a request asks for.

    Cost: some 20 µs a tool; schemas are lowered later, when their tool is called.
    """
    rules = shape(generic, definition, request)
    calling = bool(_call_rules(rules, definition))
    if calling and definition.payload is not None and request.tools is not None:
        check_names(rules, definition, definition.payload, [tool.name for tool in request.tools])
    if request.response is not None and "answer" in rules:
        rules = prune(answering(rules, Embedded("response", _response(request, definition, writing))), ENTRY)
    if request.marker_safe:
        rules = marker_safe(rules, definition)
    if calling:
        assert definition.payload is not None
        rules = _bind_tools(rules, definition, definition.payload, request, writing)
    if request.prompt:
        specials = frozenset((*definition.tokens.values(), *definition.markers))
        rules = prune(after_prompt(rules, ENTRY, request.prompt, specials), ENTRY)
    stops = {definition.tokens[name] for names in definition.stops.values() for name in names}
    return _grammar(rules, generic, stops)


_RESPONSE = "urn:response"


def _response(request: TurnRequest, definition: Definition, writing: Writing) -> EmbeddedSchema:
    """Return the machine of answers: one line of JSON that fits the schema, which may leave its objects open, and that
    no reader takes for a call.
    """
    avoid = avoided(definition, marker_safe=request.marker_safe)
    options = {**writing.options(), "spelling": "canonical", "closed": False, "avoid": avoid}
    schema = {} if request.response is True else request.response
    calls = definition.not_responses if request.marker_safe else ()
    if not calls or not isinstance(schema, Mapping):
        return embed(schema, **options)
    # a document of its own: its dialect may ignore what stands beside its $ref, and its "#" is the answer alone
    limited = {"allOf": [{"$ref": _RESPONSE}, *({"not": call} for call in calls)]}
    try:
        return embed(limited, documents={_RESPONSE: schema}, **options)
    except SchemaError as error:
        embed(schema, **options)  # what is wrong with it alone
        if isinstance(error, UnsupportedSchema):
            raise
        raise SchemaError(
            "no answer fits response_schema",
            because=f"readers of the format '{definition.title}' take all that fit it for calls",
            instead="another name for one of the keys, or marker_safe=False",
        ) from error


def _grammar(rules: Alternatives, generic: Grammar, stops: set[str]) -> Grammar:
    """Return the rules as a grammar that counts only the special tokens it uses."""
    symbols = [symbol for sequences in rules.values() for sequence in sequences for symbol in sequence]
    used = {symbol.text for symbol in symbols if isinstance(symbol, Literal)}
    used = used.union(*[getattr(symbol.machine, "markers", ()) for symbol in symbols if isinstance(symbol, Embedded)])
    named = {name: Rule(name, sequences) for name, sequences in rules.items()}
    specials = generic.specials & used
    return Grammar(named, ENTRY, specials, source=generic.source, adopts=generic.adopts, stops=specials & stops)


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


def _member_changes(name: str, value: object, members: Mapping[str, tuple[Change, Change]]) -> list[Change]:
    if value is None:
        return []
    listed = list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
    if unknown := [entry for entry in listed if entry not in members]:
        what = f"option {name!r} has {shown(unknown[0])}"
        raise GrammarError(what, instead="a list of some of: " + ", ".join(members))
    return [present if member in listed else absent for member, (present, absent) in members.items()]


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
    allowed = request.only
    for name, builtin in definition.builtins.items():
        if allowed is not None and name not in allowed:
            rules[builtin.rule] = ()
    if definition.payload is None:
        offered = None if request.tools is None else {tool.name for tool in request.tools}
        for name, builtin in definition.builtins.items():
            if offered is not None and name not in offered:
                rules[builtin.rule] = ()
    elif request.tools == () or allowed is not None and not any(tool.name in allowed for tool in request.tools or ()):
        for rule in _call_rules(rules, definition):
            rules[rule] = ()


def _call_rules(rules: Alternatives, definition: Definition) -> list[str]:
    """Return the rules that write a generic call: ``tool_call``, and those that stand for it."""
    return [
        name
        for name in ("tool_call", *(name for name, slot in definition.slots.items() if slot == "tool_call"))
        if name in rules
    ]


def _bind_tools(
    rules: Alternatives, definition: Definition, payload: Payload, request: TurnRequest, writing: Writing
) -> Alternatives:
    slots = {"name", "arguments", id_slot(rules)}
    specials = frozenset((*definition.tokens.values(), *definition.markers))
    templates = {
        rule: [join_literals(sequence, specials) for sequence in flatten(rules, rule, slots)]
        for rule in _call_rules(rules, definition)
    }
    tags = tags_of(rules, definition)
    options: dict[str, Any] = {
        "surface": "arguments" if payload.surface == "python" else payload.surface,
        "spelling": "canonical",
        **writing.options(),
        "tags": tags,
        "quote": None if payload.quote is None else definition.tokens[payload.quote],
        "avoid": avoided(definition, tags, marker_safe=request.marker_safe),
    }
    if tags is not None and request.marker_safe:
        mark = misread(definition, tags)  # raw strings do without, as nothing is escaped in them
        options["tags"] = tags._replace(avoid=mark, ends=overlapping(rules, mark))
    SchemaOptions(**options)  # refuses unknown values now, also where no schema is compiled yet
    tools = request.tools
    if tools is not None and request.only is not None:
        tools = tuple(tool for tool in tools if tool.name in request.only)
    if definition.repeat is not None and definition.repeat.all is not None:
        rules[definition.repeat.all] = (
            (Embedded("calls", _calls(rules, templates["tool_call"], definition, payload, request, options)),),
        )
        return prune(rules, ENTRY)
    if tools is None:
        machine = _arguments(ANY_OBJECT, options, "any tool")
        rules["arguments"] = ((Embedded("arguments", machine),),)
        return prune(rules, ENTRY)
    name_slot, arguments_slot = Ref("name"), Ref("arguments")
    bound: dict[str, list[tuple[Symbol, ...]]] = {rule: [] for rule in templates}
    for tool in tools:
        filled: dict[Symbol, Symbol] = {
            name_slot: Literal(spell_name(tool.name, payload)),
            arguments_slot: Embedded(
                tool.name, _arguments(written_schema(tool, payload), options, f"tool {tool.name!r}")
            ),
        }
        for rule, shapes in templates.items():
            bound[rule] += [
                join_literals(tuple([filled.get(symbol, symbol) for symbol in shape]), specials) for shape in shapes
            ]
    return prune({**rules, **{rule: tuple(sequences) for rule, sequences in bound.items()}}, ENTRY)


def written_schema(tool: Tool, payload: Payload) -> dict[str, Any]:
    """Return the schema of a tool's arguments in the order in which they are written."""
    return dict(sorted_properties(tool.parameters)) if payload.sorts else tool.parameters


def id_slot(rules: Alternatives) -> str:
    """Return the rule that differs between the ids of two calls of a tool: the id, or the number inside it."""
    return "call_number" if "call_number" in rules else "call_id"


def _calls(
    rules: Alternatives,
    templates: Sequence[tuple[Symbol, ...]],
    definition: Definition,
    payload: Payload,
    request: TurnRequest,
    options: dict[str, Any],
) -> Calls:
    """Return the machine of all calls of a turn, which gives them ids."""
    repeat, specials = definition.repeat, frozenset((*definition.tokens.values(), *definition.markers))
    assert repeat is not None
    assert repeat.ids is not None
    (template,), (following,) = templates, flatten(rules, repeat.next, {"tool_call"})
    between = join_literals(following[: following.index(Ref("tool_call"))], specials) if repeat.next in rules else ()
    names: tuple[str, ...] | Language
    if request.tools is None:
        pattern = terminal_of(rules, "name")
        assert pattern is not None
        names = pattern.language
        machines: tuple[Arguments, ...] = (_arguments(ANY_OBJECT, options, "any tool"),)
    else:
        offered = [tool for tool in request.tools if request.only is None or tool.name in request.only]
        named = sorted((spell_name(tool.name, payload), tool) for tool in offered)
        names = tuple(name for name, _ in named)
        machines = tuple(_arguments(written_schema(tool, payload), options, f"tool {tool.name!r}") for _, tool in named)
    first = (
        repeat.first
        if repeat.per == "turn"
        else None
        if request.calls_before is None
        else repeat.first + request.calls_before
    )
    shape = terminal_of(rules, id_slot(rules))
    if shape is None:
        raise GrammarError(
            f"calls of the format '{definition.title}' cannot have ids",
            where="calls.ids",
            because="no rule of its calls is an id and one terminal",
        )
    return Calls(
        template,
        between,
        names,
        machines,
        repeat.ids,
        shape,
        first,
        request.calls,
        frozenset(definition.tokens.values()) & specials,
    )


def _arguments(schema: dict[str, Any], options: dict[str, Any], where: str) -> Arguments:
    try:
        return Arguments(schema, options, where)
    except SchemaError as error:
        place = f"{where} {error.where}" if error.where else where
        raise type(error)(error.what, where=place, because=error.because, instead=error.instead) from error


def spell_name(name: str, payload: Payload) -> str:
    """Return a tool's name as a call writes it."""
    if payload.name != "json":
        return name
    text = encode_basestring(name)[1:-1]  # what json.dumps(…, ensure_ascii=False) writes
    return text.replace("</", "<\\/") if payload.tag_safe else text


_MADE = re.compile(r"^\(\?#\w+\)")  # what marks a pattern that was made of a terminal and what stands around it


def check_names(rules: Alternatives, definition: Definition, payload: Payload, names: Iterable[str]) -> None:
    """Refuse names of tools that the format cannot carry.

    Raises: SchemaError: for the first of them.
    """
    pattern = name_pattern(rules)
    markers = re.compile("|".join(map(re.escape, (*definition.tokens.values(), *definition.reserved))))
    for name in names:
        because = None
        if name in definition.builtins:
            because = "the format itself has a tool of this name"
        elif found := markers.search(name):
            because = f"it contains {found[0]!r}, a marker of the format"
        elif pattern is not None and not pattern.fullmatch(spell_name(name, payload)):
            because = f"its names match {_MADE.sub('', pattern.pattern)}"
        elif payload.name == "python" and any(keyword.iskeyword(part) for part in name.split(".")):
            because = "it holds a keyword of Python"
        if because:
            raise SchemaError(
                f"tool {name!r} cannot be called in the format '{definition.title}'",
                because=because,
                instead="rename the tool",
            )


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
