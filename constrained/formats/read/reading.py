"""A text → messages and faults: the simulation reads, marks become messages, then names and arguments are judged.

Where the simulation cannot read a text, `rejections` finds out where and why, and what could be read all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from constrained.formats.message import Message, Repair, ToolCall
from constrained.formats.payload import Fault, JsonReader, KeywordsReader
from constrained.formats.payload.allowed import allowed_by
from constrained.formats.payload.elements import read_elements
from constrained.formats.payload.quoted import read_quoted
from constrained.formats.payload.raw import ELEMENTS, arguments_of, json_of, meant_as_json
from constrained.formats.read.across import broken_rules
from constrained.formats.read.assemble import ReadCall, ReadMessage
from constrained.formats.read.inputs import Turn
from constrained.formats.read.question import Question
from constrained.formats.read.rejections import Wrong, diagnosed
from constrained.formats.read.simulating.simulation import Simulation
from constrained.formats.read.simulating.trails import Trail, marks_of
from constrained.formats.tools import Tool
from constrained.formats.tools.judge import Judge, Misfit
from constrained.work import spend, working_on

_LOCATED = 20_000  # characters of arguments in which the place of a pointer is looked for


@dataclass(frozen=True, eq=False)
class Terms:
    """What a text may hold beyond the format's grammar.

    `tools`: None = any.  `own`: those of the format itself.  `most`: the most calls of a turn, None = no bound.
    `name`: of the tool whose arguments alone are read.  `closed`: as in `schema.embed`.  `stop_optional`: whether a
    turn may lack its stop token.
    """

    tools: tuple[Tool, ...] | None = None
    own: frozenset[str] = frozenset()
    most: int | None = None
    name: str | None = None
    closed: bool = True
    stop_optional: bool = False

    @cached_property
    def by_name(self) -> Mapping[str | None, Tool]:
        """The tools by their names."""
        return {tool.name: tool for tool in self.tools or ()}

    def judge(self, tool: Tool, *, python: bool) -> Judge:
        """Return what judges the arguments of a tool."""
        key = tool.name, python
        if key not in self._judges:
            self._judges[key] = Judge(tool.parameters, closed=self.closed, python=python)
        return self._judges[key]

    @cached_property
    def _judges(self) -> dict[tuple[str, bool], Judge]:
        return {}


@dataclass(slots=True)
class Reading:
    """What was read of a text: its messages, and all that is wrong with it, in the order of the text."""

    messages: list[ReadMessage] = field(default_factory=list)
    wrong: list[Wrong] = field(default_factory=list)


def read(
    question: Question, turn: Turn, terms: Terms, prompt: Turn, *, partial: bool = False, all_errors: bool = True
) -> Reading:
    """Read a text behind a prompt; places count from the prompt's first character.  Unless all errors are asked for,
    broken calls behind the first one are passed over.
    """
    whole = turn.behind(prompt)
    simulation = question.simulation(whole)
    if partial and simulation.failure is None:
        return judged(_cut(simulation, question, terms, whole.text), question, terms, whole.text, complete=False)
    trail = ending(simulation, question, terms)
    complete, wrong = True, list[Wrong]()
    if trail is False:
        trail, complete, wrong = diagnosed(question, whole, partial=partial, all_errors=all_errors)
        read_of = Reading(question.assembled(marks_of(trail), whole.text).messages)
    else:
        read_of = Reading(question.assembled_whole(trail, whole.text).messages)
    reading = judged(read_of, question, terms, whole.text, complete=complete)
    reading.wrong += wrong
    if complete:
        reading.wrong.sort(key=lambda found: found.place)
    return reading


def ending(simulation: Simulation, question: Question, terms: Terms) -> Trail | bool | None:
    """Return the marks of a text that ends here, False where it cannot."""
    trail = simulation.accepted()
    if trail is not False or not terms.stop_optional or simulation.failure is not None:
        return trail
    for stop in sorted(question.slots.stops):
        stopped = simulation.copy()
        stopped.feed_token(stop)
        if (found := stopped.accepted()) is not False:
            assert not isinstance(found, bool)
            return found and found.without(stop)
    return False


def _cut(simulation: Simulation, question: Question, terms: Terms, text: str) -> Reading:
    """Return what is certain of an unfinished text."""
    trail, place = simulation.agreed()
    assembler = question.assembled_whole(trail, text)
    assembler.cut(place, text, simulation.reader)
    for call in assembler.messages[-1].calls[-1:] if assembler.messages else ():
        if not call.complete:
            call.name = _named(call.name, question, terms)
            call.arguments = call.arguments if call.arguments is not None else _begun(call, question, terms)
    return Reading(assembler.messages)


def _named(name: str | None, question: Question, terms: Terms) -> str | None:
    """Return the name of a call that was cut; one that is wrong stays as it is written."""
    try:
        return name_written(name, question, terms)
    except Fault:
        return name


def _begun(call: ReadCall, question: Question, terms: Terms) -> Any:
    """Return what is known of the arguments of a call that was cut, where no reader of values has read them."""
    payload = question.definition.payload
    if payload is None or payload.surface not in ("tagged", "quoted"):
        return None
    tool = terms.by_name.get(call.name)
    try:
        return _arguments(call, question, {} if tool is None else tool.parameters, [])
    except Fault:
        return None


# -- what is wrong with calls ------------------------------------------------------------------------------------------


def judged(reading: Reading, question: Question, terms: Terms, text: str, *, complete: bool = True) -> Reading:
    """Add what is wrong with names, arguments and the number of calls; of a text that was cut, only with calls that are
    complete.
    """
    for number, message in enumerate(reading.messages, 1):
        for index, call in enumerate(message.calls, 1):
            spend()
            if terms.most is not None and index > terms.most:
                because = f"a turn has at most {terms.most} call{'s' * (terms.most != 1)}"
                reading.wrong.append(
                    Wrong(call.place, "structure", because, "the end of the turn", None, number, index)
                )
                break
            if call.broken:
                continue
            if call.complete or question.kind == "tool_call" and complete:
                wrong = judged_call(call, question, terms, text, message.repairs)
                if wrong is not None:
                    place, layer, because, expected, details = wrong
                    reading.wrong.append(Wrong(place, layer, because, expected, "tool_call", number, index, **details))
    reading.wrong += broken_rules(reading.messages, question.definition, strict=False, offered=terms.tools is not None)
    return reading


def judged_call(
    call: ReadCall, question: Question, terms: Terms, text: str, repairs: list[Repair]
) -> tuple[int, str, str, str, dict[str, Any]] | None:
    """Return what is wrong with a call: place, layer, reason, what was expected, and more of `Wrong`; fill in its name
    and arguments, and add to the repairs.
    """
    if call.builtin is not None:
        if call.builtin in terms.own:
            return None
        return call.place, "tool", f"{call.builtin!r} is not offered", ", ".join(sorted(terms.own)) or "no tool", {}
    try:
        call.name = name_written(call.name, question, terms)
    except Fault as fault:
        return call.name_place + fault.at, "syntax", fault.because, fault.expected, {}
    if question.definition.payload is None:
        if call.name in terms.own:
            return None
        return (
            call.name_place or call.place,
            "tool",
            f"there is no tool {call.name!r}",
            ", ".join(sorted(terms.own)) or "no tool",
            {},
        )
    tool = terms.by_name.get(call.name)
    if call.arguments is None and (call.written or question.definition.payload.surface in ("tagged", "quoted")):
        try:
            call.arguments = _arguments(call, question, {} if tool is None else tool.parameters, repairs)
        except Fault as fault:
            return fault.at, "syntax", fault.because, fault.expected, {"pointer": fault.pointer}
    if terms.tools is None:
        return None
    if tool is None:
        known = ", ".join(repr(tool.name) for tool in terms.tools[:10])
        if call.name is None:
            return call.place, "tool", "the call alone names no tool", f"the option tool=, one of {known}", {}
        return call.name_place or call.place, "tool", f"there is no tool {call.name!r}", known or "no tool", {}
    surface = question.definition.payload.surface
    with working_on(f"tool {call.name!r}"):
        found = terms.judge(tool, python=surface == "python").misfit(call.arguments)
    if found is None:
        return None
    place = _place_of(found, call, question, text, tool.parameters)
    details = {"pointer": found.pointer, "keyword": found.keyword, "schema_pointer": found.schema_pointer}
    written = next((pair[2] for pair in call.pairs if pair[3] == place and found.keyword == "type"), "")
    if (broken := meant_as_json(written)) is not None:  # says more than that it is a string
        because = f"tool {call.name!r}: it is no {found.expected}, as {broken.because}"
        details["pointer"] = found.pointer + broken.pointer
        return place + broken.at, "schema", because, broken.expected, details
    return place, "schema", f"tool {call.name!r}: {found.because}", found.expected, details


def _place_of(found: Misfit, call: ReadCall, question: Question, text: str, schema: Mapping[str, Any]) -> int:
    """Return where arguments stand that do not fit: the value, the name of one that may not be there, or else the
    beginning of all.
    """
    start, payload = call.arguments_place or call.name_place or call.place, question.definition.payload
    for key, rule, written, place in call.pairs:
        first, _, inner = found.pointer[1:].partition("/")
        if first != key.replace("~", "~0").replace("/", "~1"):
            continue
        if inner:
            places: dict[str, tuple[int, int]] = {}
            if payload is not None and payload.elements is not None and len(written) < _LOCATED:
                read_elements(written, payload.elements, ELEMENTS.get(rule), allowed_by(schema).member(key), places)
            return _inside(text, place, f"/{inner}", places, key=found.unknown)
        return max(text.rfind(key, start, place), start) if found.unknown else place
    if call.pairs or payload is None:
        return start
    if payload.quote is None:
        return locate(text, start, payload.surface, found.pointer, key=found.unknown)
    places = {}
    if len(call.written) < _LOCATED:
        read_quoted(call.written, question.definition.tokens[payload.quote], places=places)
    return start + places.get(found.pointer, (0, 0))[not found.unknown]


def _inside(text: str, place: int, pointer: str, places: Mapping[str, tuple[int, int]], *, key: bool) -> int:
    """Return where the value at a pointer, or its name, begins in a value at a place, in which names and values have
    these places; what is inside of them is JSON.
    """
    rest = ""
    while pointer and pointer not in places:
        pointer, _, last = pointer.rpartition("/")
        rest = f"/{last}{rest}"
    name, value = places.get(pointer, (0, 0))
    return locate(text, place + value, "json", rest, key=key) if rest else place + (name if key else value)


def _arguments(call: ReadCall, question: Question, schema: Mapping[str, Any], repairs: list[Repair]) -> Any:
    """Return the arguments that the text of a call means, where no reader of values has read them.  Raises: Fault."""
    payload, definition = question.definition.payload, question.definition
    if payload is not None and payload.surface == "json" and call.written:
        return _arguments_in_a_string(call)
    if payload is None or payload.quote is None:
        elements = None if payload is None else payload.elements
        return arguments_of(
            call.pairs,
            schema,
            None if elements is None else lambda text, kind, may: read_elements(text, elements, kind, may),
            question.ends,
            lambda place: repairs.append(Repair(place, "python_literal")),
        )
    try:
        return read_quoted(call.written, definition.tokens[payload.quote], partial=not call.complete)
    except Fault as fault:
        raise Fault(call.arguments_place + fault.at, fault.because, fault.expected, fault.pointer) from None


def _arguments_in_a_string(call: ReadCall) -> dict[str, Any]:
    """Return the arguments of a call that wrote their JSON as a string.  Raises: Fault."""
    try:
        found = json_of(str(json_of(call.written)))
    except Fault as fault:
        raise Fault(call.arguments_place, f"in the string {fault.because}", fault.expected, fault.pointer) from None
    if not isinstance(found, dict):
        raise Fault(call.arguments_place, "the string is no JSON object", "an object", "")
    return found


def name_written(name: str | None, question: Question, terms: Terms) -> str | None:
    """Return the name that a call means; in JSON it is written as a string is."""
    if name is None or terms.name is not None:
        return terms.name
    payload = question.definition.payload
    if payload is None or payload.name != "json" or "\\" not in name:
        return name
    reader = JsonReader("[")
    text = f'["{name}"]'
    try:
        reader.feed(text, 0, len(text))
    except Fault as fault:
        raise Fault(max(fault.at - 2, 0), fault.because, fault.expected, "") from None
    return str(reader.value[0])


def locate(text: str, start: int, surface: str, pointer: str, *, key: bool = False) -> int:
    """Return where the value at a pointer, or its key, begins in arguments that begin at a place; that place where it
    is far.
    """
    reader = KeywordsReader() if surface == "python" else JsonReader(text[start : start + 1])
    at = key_at = start
    try:
        while pointer and at < min(len(text), start + _LOCATED) and not reader.done:
            if text[at] not in " \t\n\r:=,[{(" and reader.pointer == pointer and reader.expected.startswith("a value"):
                return key_at if key else at
            if text[at] not in " \t\n\r,{(" and reader.expected.startswith("a key"):
                key_at = at
            at = reader.feed(text, at, at + 1)
    except Fault:
        pass
    return start


# -- results -----------------------------------------------------------------------------------------------------------


def messages_of(messages: Iterable[ReadMessage], question: Question, behind: int = 0) -> list[Message]:
    """Return what was read behind so many characters of a prompt, as callers get it."""
    return [
        Message(
            m.content,
            [call_of(call, question) for call in m.calls],
            m.stop,
            m.thoughts,
            m.role,
            m.name,
            m.call_id,
            told=repairs_behind(sorted(m.repairs), behind),
        )
        for m in messages
    ]


def repairs_behind(repairs: Iterable[Repair], size: int) -> tuple[Repair, ...]:
    """Return repairs with their places in the text behind so many characters of a prompt."""
    return tuple([Repair(max(place - size, 0), rule) for place, rule in repairs])


def call_of(call: ReadCall, question: Question) -> ToolCall:
    """Return a call that was judged, as callers get it."""
    rules = question.slots.parameters.get(call.builtin or call.name or "")
    if rules and (call.builtin is not None or question.definition.payload is None):
        escaped = question.definition.escaped
        texts = {
            rules[rule]: _unescaped(text) if rule in escaped else text
            for rule, text in call.texts.items()
            if rule in rules
        }
        return ToolCall(call.builtin or call.name or "", texts, call.id)
    return ToolCall(call.name or "", call.arguments if isinstance(call.arguments, dict) else {}, call.id)


def _unescaped(text: str) -> str:
    """Return what a text in double quotes means to Python; an escape at its end that was cut is left out."""
    if "\\" not in text:
        return text
    reader = KeywordsReader()
    written = f'(_="{text}'
    try:
        reader.feed(written, 0, len(written))
    except Fault:
        return text
    return str(reader.partial()["_"])
