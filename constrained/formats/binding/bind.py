"""Tools, a choice and options, bound into a format's grammar.

The grammar has a generic call, ``tool_call: call{name, arguments}``.  Binding replaces it by one alternative per tool,
with the tool's name for ``name`` and the machine of its schema for ``arguments``.  The machine is lazy: a schema's
keywords are checked here, its states appear when a generation gets there.  Where arguments precede the name, all tools
run side by side until the name decides; they are one symbol then (`calls.NameLast`), not alternatives.

The *frame* of a turn is a format's rules as a request asks for them, while its calls are still generic.  It does not
depend on the request's tools, only on whether any may be called and which of the format's own may.  So requests that
bring other tools share one: `frame_key` names it, and binding fills its call shapes in.

What a format cannot carry is refused here, before anything is generated: a name that its grammar does not derive, a
keyword argument that Python cannot spell, a name that belongs to a tool of the format itself.

An alternative for each of 50 tools took 0.5 ms of the 1.6 in which such a grammar compiled, the rules 0.3.
Tested in tests/test_formats.py: grammars in a shared frame are those in a frame of their own.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from json.encoder import encode_basestring
from typing import Any

from constrained.errors import GrammarError, SchemaError, UnsupportedSchema, shown
from constrained.formats.binding.calls import Arguments, Calls, NameLast, Parts
from constrained.formats.binding.markers import avoided, marker_safe, misread, overlapping
from constrained.formats.binding.request import TurnRequest
from constrained.formats.binding.rules import (
    Alternatives,
    Sequence,
    after_prompt,
    alternatives_of,
    answering,
    changed,
    flatten,
    join_literals,
    prune,
    reached,
    repeat_at_most,
    tags_of,
    terminal_of,
    texts_in,
)
from constrained.formats.definition import ENTRY, Change, Definition, Member, Payload
from constrained.grammar import Embedded, Grammar, Literal, Pattern, Ref, Rule, Symbol
from constrained.grammar.ir import Leading
from constrained.machine import Language
from constrained.schema.by_content import Recent, content
from constrained.schema.embedding import EmbeddedSchema, SchemaOptions, embed
from constrained.schema.reading.notes import Note
from constrained.schema.surfaces.tags import Tags

# -- the frame ---------------------------------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class NamesLast:
    """A call with the arguments before the tool's name: what stands before them, and around the name; all tools are one
    symbol then.
    """

    rule: str
    start: Sequence
    before: str
    after: str

    def bound(self, machines: list[Arguments], names: list[str]) -> Alternatives:
        """Return the rule for some tools, at least one, whose names are as calls write them."""
        calls = NameLast(machines, [f"{self.before}{name}{self.after}" for name in names])
        return {self.rule: ((*self.start, Embedded("calls", calls)),)}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Frame:
    """A turn without its tools; shared, so nobody may change its rules.

    Invariant: `around` is what is left of `rules` beside the rules of calls, once these are bound.
    """

    rules: Alternatives
    shapes: Mapping[str, tuple[Sequence, ...]]  # of a call, by the rule that writes one; name and arguments are Refs
    own: Mapping[str, tuple[Sequence, ...]]  # of calls of the format's own tools, where their arguments have a schema
    around: Alternatives
    grammar: Grammar | None  # of `around`, which those of requests are laid out by
    specials: frozenset[str]  # that texts of a call are not joined with
    tags: Tags | None  # around members of arguments
    avoid: tuple[str, ...]  # what strings in arguments do not spell
    names: re.Pattern[str] | None  # of tools
    last: NamesLast | None  # the call, where its name comes last


def frame_key(definition: Definition, request: TurnRequest) -> bytes | None:
    """Return the name of a request's frame: equal for requests that share one, None where it is not to be shared."""
    if request.response is not None:  # which stands in the rules
        return None
    return content(
        request.choice, request.calls, dict(request.options), request.reasoning, request.marker_safe, request.preface,
        *callable_of(definition, request),
    )  # fmt: skip


def make_frame(generic: Grammar, definition: Definition, request: TurnRequest, writing: Writing) -> Frame:
    """Return the frame of a request; `writing`: how answers are written, where the request says what they fit.

    Raises: GrammarError: the request contradicts the format or itself.
    """
    rules = shape(generic, definition, request)
    names = name_pattern(rules)
    if request.response is not None and "answer" in rules:
        response = Embedded("response", _response(request, definition, writing))
        rules = prune(answering(rules, response), ENTRY)
    if request.marker_safe:
        rules = marker_safe(rules, definition)
    if request.response is None:  # so that the frame is shared
        _keep_beginnings(rules)
    specials = frozenset((*definition.tokens.values(), *definition.markers))
    calling = call_rules(rules, definition) if definition.payload is not None else []
    slots = {"name", "arguments", id_slot(rules)}
    own = {builtin.rule for builtin in definition.builtins.values() if builtin.parameters is not None}
    shapes, own_shapes = (
        {rule: tuple(join_literals(sequence, specials) for sequence in flatten(rules, rule, slots)) for rule in names}
        for names in (calling, sorted(own & rules.keys()))
    )
    tags = tags_of(rules, definition) if calling else None
    avoid = avoided(definition, tags, marker_safe=request.marker_safe) if calling or own_shapes else ()
    if tags is not None and request.marker_safe:
        mark = misread(definition, tags)  # raw strings do without, as nothing is escaped in them
        tags = tags._replace(avoid=mark, ends=overlapping(rules, mark))
    around = _around(rules, shapes, definition)
    last = names_last(shapes, around, specials)
    grammar = grammar_of(around, generic, definition) if calling else None
    return Frame(rules, shapes, own_shapes, around, grammar, specials, tags, avoid, names, last)


def grammar_of(rules: Alternatives, generic: Grammar, definition: Definition, frame: Grammar | None = None) -> Grammar:
    """Return the rules as a grammar that counts only the special tokens it uses."""
    symbols = [symbol for sequences in rules.values() for sequence in sequences for symbol in sequence]
    used = {symbol.text for symbol in symbols if isinstance(symbol, Literal)}
    used = used.union(*[getattr(symbol.machine, "markers", ()) for symbol in symbols if isinstance(symbol, Embedded)])
    stops = {definition.tokens[name] for names in definition.stops.values() for name in names}
    known = {} if frame is None else frame.rules
    named = {name: rule if (rule := known.get(name)) and rule.alternatives is sequences else Rule(name, sequences)
             for name, sequences in rules.items()}
    specials, source = generic.specials & used, generic.source
    return Grammar(
        named, ENTRY, specials, source=source, adopts=generic.adopts, stops=specials & stops, frame=frame)


def names_last(
    shapes: Mapping[str, tuple[Sequence, ...]], around: Alternatives, specials: Collection[str]
) -> NamesLast | None:
    """Return the call of a frame that has one shape, with the arguments first and nothing but texts and the name behind
    them; else None.
    """
    shaped = [(rule, shape) for rule in shapes if rule in around for shape in shapes[rule]]
    slots = [symbol.rule for _, shape in shaped for symbol in shape if isinstance(symbol, Ref)]
    if len(shaped) != 1 or [slot for slot in slots if slot in ("name", "arguments")] != ["arguments", "name"]:
        return None
    ((rule, shape),) = shaped
    begin, name = shape.index(Ref("arguments")), shape.index(Ref("name"))
    texts = shape[begin + 1 : name], shape[name + 1 :]
    if not all(type(symbol) is Literal and symbol.text not in specials for symbol in chain(*texts)):
        return None
    before, after = ["".join([symbol.text for symbol in part if type(symbol) is Literal]) for part in texts]
    return NamesLast(rule, shape[:begin], before, after)


def _keep_beginnings(rules: Alternatives) -> None:
    """Let the texts of a frame keep the edges of their first two characters, which no request changes, for as long as
    the frame itself.

    Some ten states each, and 0.1 ms to compute again where text must not spell the markers of a format.
    """
    for symbol in chain.from_iterable(chain.from_iterable(rules.values())):
        if isinstance(symbol, Pattern):
            for state in (symbol.language, *(target for _, _, target in symbol.language.edges())):
                state.edges_stay = True


def _around(rules: Alternatives, shapes: Mapping[str, tuple[Sequence, ...]], definition: Definition) -> Alternatives:
    bound, named = {Ref("name"), Ref("arguments")}, shapes
    if definition.calls is not None and definition.calls.all is not None and shapes:
        bound.add(Ref(id_slot(rules)))
        named = {definition.calls.all: shapes["tool_call"]}  # one machine is bound there, of all calls of a turn
    bare = {
        rule: tuple(tuple(symbol for symbol in sequence if symbol not in bound) for sequence in sequences)
        for rule, sequences in named.items()
    }
    return prune({**rules, **bare}, ENTRY)


def shape(generic: Grammar, definition: Definition, request: TurnRequest) -> Alternatives:
    """Return the rules of the turn that a request asks for, with the call still generic; of a definition under its
    options.

    Raises: GrammarError: the request contradicts the format or itself.
    """
    rules = changed(alternatives_of(generic.rules), definition.changes)
    _think(rules, definition, request)
    if definition.calls is not None and request.calls is not None:
        repeat_at_most(rules, definition.calls.repeat, definition.calls.next, request.calls - 1)
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
    if reasoning is not None and request.reasoning in ("required", "empty"):
        rules[reasoning.rule] = ((Ref(reasoning.block),),)
        if request.reasoning == "empty":
            rules.update(dict.fromkeys(reached(rules, [reasoning.block]) & {*definition.thoughts.values()}, ((),)))
    elif reasoning is not None and request.reasoning == "none":
        rules[reasoning.block] = ()


def leading_thought(
    generic: Grammar, definition: Definition, most: object, reasoning: object, prompt: str | None
) -> Leading | None:
    """Return the thought that turns may begin with, as a text that generations end within `most` tokens; None: nobody
    asks for that, or there is none, as the prompt has ended it already.

    Raises: GrammarError: `most` is no number of tokens, or the format has no such thought.
    """
    if most is None or reasoning == "none":
        return None
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise GrammarError(f"reasoning_budget is {shown(most)}", because="it is a number of tokens, 1 or more")
    begun = definition.start(reasoning) if prompt is None else prompt
    table = definition.reasoning if definition.generates_thoughts else None
    name = definition.thoughts.get("reasoning", "")
    thought, rules = Ref(name), alternatives_of(generic.rules)
    block = flatten(rules, table.block, {name}) if table is not None else []
    around = next((sequence for sequence in block if thought in sequence), (thought,))
    at = around.index(thought)
    begins = "".join(texts_in(around[:at]))
    until = next(filter(None, map(str.strip, texts_in(around[at + 1 :]))), None)
    if until is None:
        because = "its turns do not begin with thoughts that a marker ends"
        raise GrammarError(f"the format '{definition.title}' takes no reasoning_budget", because=because)
    if until in begun:
        return None
    return Leading(until, most, "" if begins.strip() and begins.strip() in begun else begins)


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


def under(definition: Definition, options: Mapping[str, object]) -> Definition:
    """Return the definition with what the values of options change: in rules (`changes`), of strings, of readers, of
    what is told of tools and of the tokens that end turns.

    Raises: GrammarError: an option or its value is unknown.
    """
    if unknown := options.keys() - definition.options.keys():
        raise GrammarError(
            f"unknown option {min(unknown)!r} for the format '{definition.title}'",
            instead=f"one of: {', '.join(definition.options)}"
            if definition.options
            else "leave it out; the format has no options",
        )
    changes: list[Change] = []
    known = {name: options.get(name, option.default) for name, option in definition.options.items()}
    for name, option in definition.options.items():
        value = known[name]
        if option.members:
            changes += _member_changes(name, value, option.members)
        elif isinstance(value, (str, bool)) and value in option.values:
            changes.append(option.values[value])
        else:
            raise GrammarError(
                f"option {name!r} is {shown(value)}", instead="one of: " + ", ".join(map(repr, option.values))
            )
    if not changes:
        return definition
    told = tuple(part for part in definition.tool_prompt if known.get(part.option or "", True))
    stops = next((change.stops for change in changes if change.stops), definition.stops)
    definition = replace(definition, changes=tuple(changes), tool_prompt=told, stops=stops)
    avoid = tuple(chain.from_iterable([change.avoid for change in changes]))
    notes = dict(chain.from_iterable([change.notes.items() for change in changes]))
    if not avoid and not notes or definition.payload is None:
        return definition
    payload = replace(definition.payload, avoid=(*definition.payload.avoid, *avoid))
    return replace(definition, payload=payload, notes={**definition.notes, **notes})


def _member_changes(name: str, value: object, members: Mapping[str, Member]) -> list[Change]:
    if value is None:
        return []
    listed = list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
    if unknown := [entry for entry in listed if entry not in members]:
        what = f"option {name!r} has {shown(unknown[0])}"
        raise GrammarError(what, instead="a list of some of: " + ", ".join(members))
    return [member.present if name in listed else member.absent for name, member in members.items()]


def id_slot(rules: Alternatives) -> str:
    """Return the rule that differs between the ids of two calls of a tool: the id, or the number inside it."""
    return "call_number" if "call_number" in rules else "call_id"


def name_pattern(rules: Alternatives) -> re.Pattern[str] | None:
    """Return the regular expression of the names that a format's grammar derives."""
    terminal = terminal_of(rules, "name")
    return re.compile(terminal.source) if terminal is not None else None


# -- binding -----------------------------------------------------------------------------------------------------------

ANY_OBJECT = {"type": "object"}


Writing = Mapping[str, Any]  # how arguments are written: parameters of `schema.embed`; whitespace None: the format's


def bind(
    generic: Grammar, definition: Definition, request: TurnRequest, writing: Writing, frames: Recent[Frame]
) -> Grammar:
    """Return the grammar of the turns that a request asks for; `frames` are those of earlier requests.

    Cost: some 20 µs a tool, and half a millisecond for a frame that is new; schemas are lowered later, when their tool
    is called.
    """
    definition = under(definition, request.options)
    frame = frames.found(frame_key(definition, request), lambda: make_frame(generic, definition, request, writing))
    rules = frame.rules
    if frame.shapes or frame.own:
        assert definition.payload is not None
        options = _written(frame, definition, definition.payload, writing)
        if frame.shapes:
            rules = _bind_tools(frame, definition, definition.payload, request, options)
        if frame.own:
            rules = prune({**rules, **_own_calls(frame, definition, options)}, ENTRY)
    if request.prompt:
        rules = after_prompt(rules, ENTRY, request.prompt, frame.specials)
    return grammar_of(rules, generic, definition, frame.grammar)


_RESPONSE = "urn:response"


def _response(request: TurnRequest, definition: Definition, writing: Writing) -> EmbeddedSchema:
    """Return the machine of answers: one line of JSON that fits the schema, which may leave its objects open, and that
    no reader takes for a call.
    """
    avoid = avoided(definition, marker_safe=request.marker_safe)
    spaces = writing["whitespace"] or "canonical"
    options = {**writing, "whitespace": spaces, "spelling": "canonical", "closed": False, "avoid": avoid}
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


def _written(frame: Frame, definition: Definition, payload: Payload, writing: Writing) -> dict[str, Any]:
    """Return how arguments are written: parameters of `schema.embed`, all of them."""
    options: dict[str, Any] = {
        "surface": "arguments" if payload.surface == "python" else payload.surface, "spelling": "canonical", **writing,
        "whitespace": writing["whitespace"] or payload.whitespace, "tags": frame.tags,
        "quote": None if payload.quote is None else definition.tokens[payload.quote], "avoid": frame.avoid,
    }
    SchemaOptions(**options)  # refuses unknown values now, also where no schema is compiled yet
    return options


def _own_calls(frame: Frame, definition: Definition, options: dict[str, Any]) -> Alternatives:
    """Return the rules of calls of the format's own tools with their arguments bound."""
    calls: dict[str, tuple[Sequence, ...]] = {}
    for name, builtin in definition.builtins.items():
        if builtin.parameters is not None and builtin.rule in frame.own:
            slot = Embedded(name, Arguments(builtin.parameters, options, f"tool {name!r}"))
            calls[builtin.rule] = tuple(
                tuple(slot if symbol == Ref("arguments") else symbol for symbol in sequence)
                for sequence in frame.own[builtin.rule]
            )
    return calls


def _bind_tools(
    frame: Frame, definition: Definition, payload: Payload, request: TurnRequest, options: dict[str, Any]
) -> Alternatives:
    """Return the rules of a frame with its calls bound."""
    unread = tuple([Note("", reader, because) for reader, because in definition.notes.items()])
    names: list[str] = []
    if request.tools is None:
        machines = [Arguments(ANY_OBJECT, options, unread=unread)]
    else:
        early = Parts(options) if frame.last is not None else None
        spelled = spelled_names(frame.names, definition, payload, [tool.name for tool in request.tools])
        tools = [tool for tool in request.tools if request.only is None or tool.name in request.only]
        names = [spelled[tool.name] for tool in tools]
        schemas = [dict(sorted_properties(tool.parameters)) if payload.sorts else tool.parameters for tool in tools]
        machines = [
            Arguments(schema, options, f"tool {tool.name!r}", early, unread, plain=tool.plain)
            for schema, tool in zip(schemas, tools, strict=True)
        ]
    if definition.calls is not None and definition.calls.all is not None:
        calls = Embedded("calls", _calls(frame, definition, request, names, machines))
        return {**frame.around, definition.calls.all: ((calls,),)}
    if request.tools is None:
        return prune({**frame.rules, "arguments": ((Embedded("arguments", machines[0]),),)}, ENTRY)
    if frame.last is not None and names and frame.specials.isdisjoint(names):
        return {**frame.around, **frame.last.bound(machines, names)}
    bound: dict[str, list[Sequence]] = {rule: [] for rule in frame.shapes}
    for rule, shape in [(rule, shape) for rule, shapes in frame.shapes.items() for shape in shapes]:
        for tool, machine, name in zip(tools, machines, names, strict=True):
            slots: dict[str, Symbol] = {"name": Literal(name), "arguments": Embedded(tool.name, machine)}
            filled = [slots.get(symbol.rule, symbol) if type(symbol) is Ref else symbol for symbol in shape]
            bound[rule].append(join_literals(filled, frame.specials))
    return {**frame.around, **{rule: tuple(bound[rule]) for rule in bound if rule in frame.around}}


def _calls(
    frame: Frame, definition: Definition, request: TurnRequest, names: list[str], machines: list[Arguments]
) -> Calls:
    """Return the machine of all calls of a turn, which gives them ids."""
    repeat, rules, specials = definition.calls, frame.rules, frame.specials
    assert repeat is not None
    assert repeat.ids is not None
    (template,), (following,) = frame.shapes["tool_call"], flatten(rules, repeat.next, {"tool_call"})
    between = join_literals(following[: following.index(Ref("tool_call"))], specials) if repeat.next in rules else ()
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
            f"calls of the format '{definition.title}' cannot have ids", where="calls.ids",
            because="no rule of its calls is an id and one terminal",
        )
    named: tuple[str, ...] | Language = tuple(sorted(names))
    if request.tools is None:
        pattern = terminal_of(rules, "name")
        assert pattern is not None
        named = pattern.language
    else:
        machines = [machines[at] for at in sorted(range(len(names)), key=names.__getitem__)]
    return Calls(
        template, between, named, tuple(machines), repeat.ids, shape, first, request.calls,
        frozenset(definition.tokens.values()) & specials,
    )


@lru_cache(maxsize=64)
def _any_of(texts: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, texts)))


_MADE = re.compile(r"^\(\?#\w+\)")  # what marks a pattern that was made of a terminal and what stands around it


def spelled_names(
    pattern: re.Pattern[str] | None, definition: Definition, payload: Payload, names: Iterable[str]
) -> dict[str, str]:
    """Return names of tools as calls write them.

    Raises: SchemaError: for the first that the format cannot carry, by `name_pattern` of its rules, its markers, its
    own tools.
    """
    markers, spelled_by_name = _any_of((*definition.tokens.values(), *definition.reserved)), dict[str, str]()
    for name in names:
        because, spelled_by_name[name] = None, name
        if payload.name == "json":
            text = encode_basestring(name)[1:-1]  # what json.dumps(…, ensure_ascii=False) writes
            spelled_by_name[name] = text.replace("</", "<\\/") if payload.tag_safe else text
        if name in definition.builtins:
            because = "the format itself has a tool of this name"
        elif spelled := markers.search(name):
            because = f"it contains {spelled[0]!r}, a marker of the format"
        elif pattern is not None and not pattern.fullmatch(spelled_by_name[name]):
            because = f"its names match {_MADE.sub('', pattern.pattern)}"
        elif payload.name == "python" and any(keyword.iskeyword(part) for part in name.split(".")):
            because = "it holds a keyword of Python"
        if because:
            raise SchemaError(
                f"tool {name!r} cannot be called in the format '{definition.title}'", because=because,
                instead="rename the tool",
            )
    return spelled_by_name


def sorted_properties(schema: Any) -> Any:
    """Return a schema with its ``properties`` in the order of Jinja's ``dictsort``, which takes no account of case, at
    any depth.
    """
    if isinstance(schema, list):
        return [sorted_properties(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    ordered = {}
    for key, value in schema.items():
        if key in ("enum", "const", "default", "examples"):
            ordered[key] = value
        elif key == "properties" and isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
            ordered[key] = {name: sorted_properties(value[name]) for name in sorted(value, key=str.lower)}
        else:
            ordered[key] = sorted_properties(value)
    return ordered
