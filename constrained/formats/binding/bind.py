"""Tools, a choice and options, bound into a format's grammar.

The grammar has a generic call, ``tool_call: call{name, arguments}``.  Binding replaces it by one alternative per tool,
with the tool's name for ``name`` and the machine of its schema for ``arguments``.  The machine is lazy: a schema's
keywords are checked here, its states appear when a generation gets there.  Where arguments precede the name, all tools
run side by side until the name decides; they are one symbol then (`sequence.NameLast`), not alternatives.

What a format cannot carry is refused here, before anything is generated: a name that its grammar does not derive, a
keyword argument that Python cannot spell, a name that belongs to a tool of the format itself.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from itertools import chain
from json.encoder import encode_basestring
from typing import Any

from constrained.errors import GrammarError, SchemaError, UnsupportedSchema
from constrained.formats.binding.arguments import Arguments
from constrained.formats.binding.beginnings import Parts
from constrained.formats.binding.frame import (
    Frame,
    begins_with_arguments,
    frame_key,
    grammar_of,
    id_slot,
    make_frame,
    terminal_of,
    under,
)
from constrained.formats.binding.markers import avoided
from constrained.formats.binding.prompted import after_prompt
from constrained.formats.binding.request import TurnRequest
from constrained.formats.binding.rules import Alternatives, Sequence, alternatives_of, flatten, join_literals, prune
from constrained.formats.binding.sequence import Calls
from constrained.formats.defining.definition import ENTRY, Definition, Payload
from constrained.formats.payload.quoted import sorted_properties
from constrained.formats.tools import Tool
from constrained.grammar import Embedded, Grammar, Literal, Ref, Symbol
from constrained.machine import Language
from constrained.schema.by_content import Recent
from constrained.schema.embedding import EmbeddedSchema, SchemaOptions, embed
from constrained.schema.reading.notes import Note

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


def bind(
    generic: Grammar, definition: Definition, request: TurnRequest, writing: Writing, frames: Recent[Frame]
) -> Grammar:
    """Return the grammar of the turns that a request asks for; `frames` are those of earlier requests.

    Cost: some 20 µs a tool, and half a millisecond for a frame that is new; schemas are lowered later, when their tool
    is called.
    """
    answer = None
    if request.response is not None:

        def answer() -> Symbol:
            return Embedded("response", _response(request, definition, writing))

    definition = under(definition, request.options)
    frame = frames.found(frame_key(definition, request), lambda: make_frame(generic, definition, request, answer))
    rules = frame.rules
    if frame.shapes:
        assert definition.payload is not None
        if request.tools is not None:
            check_names(frame.names, definition, definition.payload, [tool.name for tool in request.tools])
        bound = _bind_tools(frame, definition, definition.payload, request, writing)
        if isinstance(bound, Grammar) and not request.prompt:
            return bound
        rules = alternatives_of(bound.rules) if isinstance(bound, Grammar) else bound
    if request.prompt:
        rules = prune(after_prompt(rules, ENTRY, request.prompt, frame.specials), ENTRY)
    return grammar_of(rules, generic, definition)


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


def _bind_tools(
    frame: Frame, definition: Definition, payload: Payload, request: TurnRequest, writing: Writing
) -> Alternatives | Grammar:
    """Return the rules of a frame with its calls bound; where it has a template, all that is made of that."""
    options: dict[str, Any] = {
        "surface": "arguments" if payload.surface == "python" else payload.surface,
        "spelling": "canonical",
        **writing.options(),
        "tags": frame.tags,
        "quote": None if payload.quote is None else definition.tokens[payload.quote],
        "avoid": frame.avoid,
    }
    SchemaOptions(**options)  # refuses unknown values now, also where no schema is compiled yet
    unread = tuple(Note("", reader, because) for reader, because in definition.notes.items())
    tools, arguments = request.tools, partial(_arguments, options=options, unread=unread)
    if tools is not None and request.only is not None:
        tools = tuple(tool for tool in tools if tool.name in request.only)
    if definition.repeat is not None and definition.repeat.all is not None:
        calls = Embedded("calls", _calls(frame, definition, payload, request, arguments))
        return prune({**frame.rules, definition.repeat.all: ((calls,),)}, ENTRY)
    if tools is None:
        machine = arguments(ANY_OBJECT, "any tool")
        return prune({**frame.rules, "arguments": ((Embedded("arguments", machine),),)}, ENTRY)
    early = Parts(options) if any(map(begins_with_arguments, chain.from_iterable(frame.shapes.values()))) else None
    machines = [arguments(written_schema(tool, payload), f"tool {tool.name!r}", early=early) for tool in tools]
    names = [spell_name(tool.name, payload) for tool in tools]
    if frame.template is not None and names and frame.specials.isdisjoint(names):
        return frame.template.filled(machines, names)
    bound: dict[str, list[Sequence]] = {rule: [] for rule in frame.shapes}
    for rule, shapes in frame.shapes.items():
        for shape in shapes:
            for tool, machine, name in zip(tools, machines, names, strict=True):
                slots: dict[str, Symbol] = {"name": Literal(name), "arguments": Embedded(tool.name, machine)}
                bound[rule].append(join_literals(_filled(shape, slots), frame.specials))
    return {**frame.around, **{rule: tuple(bound[rule]) for rule in bound if rule in frame.around}}


def _filled(shape: Sequence, slots: Mapping[str, Symbol]) -> list[Symbol]:
    """Return the symbols of a shape with others in place of references to rules of these names."""
    return [slots.get(symbol.rule, symbol) if type(symbol) is Ref else symbol for symbol in shape]


def written_schema(tool: Tool, payload: Payload) -> dict[str, Any]:
    """Return the schema of a tool's arguments in the order in which they are written."""
    return dict(sorted_properties(tool.parameters)) if payload.sorts else tool.parameters


def _calls(
    frame: Frame, definition: Definition, payload: Payload, request: TurnRequest, arguments: Callable[..., Arguments]
) -> Calls:
    """Return the machine of all calls of a turn, which gives them ids."""
    repeat, rules, specials = definition.repeat, frame.rules, frame.specials
    assert repeat is not None
    assert repeat.ids is not None
    (template,), (following,) = frame.shapes["tool_call"], flatten(rules, repeat.next, {"tool_call"})
    between = join_literals(following[: following.index(Ref("tool_call"))], specials) if repeat.next in rules else ()
    names: tuple[str, ...] | Language
    if request.tools is None:
        pattern = terminal_of(rules, "name")
        assert pattern is not None
        names = pattern.language
        machines: tuple[Arguments, ...] = (arguments(ANY_OBJECT, "any tool"),)
    else:
        offered = [tool for tool in request.tools if request.only is None or tool.name in request.only]
        named = sorted((spell_name(tool.name, payload), tool) for tool in offered)
        names = tuple(name for name, _ in named)
        machines = tuple(arguments(written_schema(tool, payload), f"tool {tool.name!r}") for _, tool in named)
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


def _arguments(
    schema: dict[str, Any], where: str, *, options: dict[str, Any], unread: tuple[Note, ...], early: Parts | None = None
) -> Arguments:
    try:
        return Arguments(schema, options, where, early, unread)
    except SchemaError as error:
        place = f"{where} {error.where}" if error.where else where
        raise type(error)(error.what, where=place, because=error.because, instead=error.instead) from error


def spell_name(name: str, payload: Payload) -> str:
    """Return a tool's name as a call writes it."""
    if payload.name != "json":
        return name
    text = encode_basestring(name)[1:-1]  # what json.dumps(…, ensure_ascii=False) writes
    return text.replace("</", "<\\/") if payload.tag_safe else text


@lru_cache(maxsize=64)
def _any_of(texts: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, texts)))


_MADE = re.compile(r"^\(\?#\w+\)")  # what marks a pattern that was made of a terminal and what stands around it


def check_names(
    pattern: re.Pattern[str] | None, definition: Definition, payload: Payload, names: Iterable[str]
) -> None:
    """Refuse names of tools that the format cannot carry: by `name_pattern` of its rules, its markers, its own tools.

    Raises: SchemaError: for the first of them.
    """
    markers = _any_of((*definition.tokens.values(), *definition.reserved))
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


