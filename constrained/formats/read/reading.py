"""A text → messages and faults: the simulation reads, marks become messages, then names and arguments are judged.

`Reader` has the entry points: parse a text, validate it, follow it as a stream.  There the options of a call are
sorted: those that say what a text may hold, those of the format, and those of generating, which only matter to
``strict=True``.
Where the simulation cannot read a text, `rejections` finds out where and why, and what could be read all the same.

Strict reading is a text against the canonical grammar, which is exactly what may be generated (`deviation`).  The
engine reads the text byte by byte, as it would follow a model.  Kinds of text are other entries into the same grammar.

Rules across the messages of a conversation are those that a definition asks for by name (`Definition.constraints`).  A
grammar says which message may follow which; it cannot say that a result names the call that it answers, or that the
system offered the tool.  Such rules are checked on the messages that were read, of any format: a definition names them,
and says whether every reader keeps them or only a strict one.  What a conversation tells of its options (`told`) is no
rule but the value of one: the thoughts that a system message asks for are those which the turns have.

Tested in tests/test_read.py, and tests/test_across.py: each rule by itself, in the formats that have it and in one of a
user's.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from constrained.engine.compiled import compile_grammar
from constrained.engine.matcher import Matcher
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, GrammarError, Rejected, SchemaError, VocabularyError, shown
from constrained.formats.binding.request import make_request, read_options
from constrained.formats.definition import ENTRY, Definition, Sign
from constrained.formats.message import Message, Repair, ToolCall
from constrained.formats.payload import ELEMENTS
from constrained.formats.payload.json_text import JsonReader
from constrained.formats.payload.judge import Judge, Misfit, allowed_by
from constrained.formats.payload.python_text import KeywordsReader
from constrained.formats.payload.quoted import read_quoted
from constrained.formats.payload.tagged import arguments_of, json_of, meant_as_json, read_elements
from constrained.formats.payload.value_reader import Fault
from constrained.formats.read.assemble import Assembler, ReadCall, ReadMessage
from constrained.formats.read.inputs import Turn, certain, split_ids, split_text, unpadded
from constrained.formats.read.question import KINDS, Question, ask, offered
from constrained.formats.read.rejections import Wrong, diagnosed, rejected
from constrained.formats.read.simulation import Simulation, Trail, marks_of
from constrained.formats.tools import Tool, read_tools
from constrained.grammar import Grammar, Ref, Rule
from constrained.schema.by_content import content
from constrained.work import MAX_WORK, metered, spend, working_on

if TYPE_CHECKING:
    from constrained.formats.load import ChatFormat


# -- rules across messages ---------------------------------------------------------------------------------------------

_Rule = Callable[[Sequence[ReadMessage], Definition], Iterator[Wrong]]


def broken_rules(
    messages: Sequence[ReadMessage], definition: Definition, *, strict: bool, offered: bool
) -> Iterator[Wrong]:
    """Yield where messages break the rules of a format that hold strictly, or those that always do; offered: the caller
    says which tools there are, whatever messages list.
    """
    wanted = "strict" if strict else "always"
    for name, held in definition.constraints.items():
        if held == wanted and not (offered and name == "tools_are_listed"):
            yield from _RULES[name](messages, definition)


def told(definition: Definition, messages: Sequence[ReadMessage | Message]) -> dict[str, object]:
    """Return the values of the options that messages tell of."""
    values: dict[str, object] = {}
    for name, option in definition.options.items():
        shown = [key for key, sign in option.signs.items() if any(_shows(one, sign, definition) for one in messages)]
        if option.signs:
            values[name] = shown if option.members else bool(shown)
    return values


def _shows(message: ReadMessage | Message, sign: Sign, definition: Definition) -> bool:
    name, token = [None if one is None else definition.tokens.get(one, one) for one in (sign.name, sign.token)]
    return (
        message.role == sign.by
        and (name is None or message.name == name)
        and (token is None or token in message.content)
        and re.search(sign.text, message.content) is not None
    )


def _ids_differ(messages: Sequence[ReadMessage], definition: Definition) -> Iterator[Wrong]:
    for number, message in enumerate(messages, 1):
        ids: set[str] = set()
        for index, call in enumerate(message.calls, 1):
            if call.id is not None and call.id in ids and not call.broken:
                because = f"two calls have the id {call.id!r}"
                yield Wrong(call.place, "structure", because, "another id", "call_id", number, index)
            ids |= {call.id} if call.id is not None else set()


def _are_answered(messages: Sequence[ReadMessage], definition: Definition) -> Iterator[Wrong]:
    waiting: list[ReadCall] = []
    for number, message in enumerate(messages, 1):
        if message.role in definition.results:
            del waiting[:1]
            continue
        if waiting:
            because = f"{len(waiting)} call{'s' * (len(waiting) > 1)} before it have no result"
            yield Wrong(message.place, "structure", because, f"the result of {waiting[0].name!r}", None, number)
        waiting = [*message.calls]


def _answer(messages: Sequence[ReadMessage], definition: Definition, *, in_order: bool = False) -> Iterator[Wrong]:
    """Yield the results that answer no call of the turn before them, or not the next one."""
    waiting: list[ReadCall] = []
    names = frozenset(definition.tokens.values())
    for number, message in enumerate(messages, 1):
        spend()
        if message.role not in definition.results:
            waiting = [*message.calls]
            continue
        said = message.call_id if message.call_id is not None else message.name if message.name not in names else None
        ways = [_called(call, by_id=message.call_id is not None) for call in waiting]
        at = 0 if waiting and said is None else next((at for at, name in enumerate(ways) if name == said), None)
        if at is None or in_order and at > 0:
            next_ones = " or ".join(map(repr, ways[:1] if in_order else ways))
            expected = f"the result of {next_ones}" if ways else "no result"
            what = "it answers no call" if said is None else f"{said!r} answers no call that waits for a result"
            because = what if at is None else f"{said!r} comes before the result of {ways[0]!r}, which was called first"
            place = message.place if message.said_place is None else message.said_place
            yield Wrong(place, "structure", because, expected, None, number)
        del waiting[at or 0 : (at or 0) + 1]


def _called(call: ReadCall, *, by_id: bool) -> str | None:
    return call.id if by_id else call.builtin or call.name


def _in_order(messages: Sequence[ReadMessage], definition: Definition) -> Iterator[Wrong]:
    return _answer(messages, definition, in_order=True)


def _are_listed(messages: Sequence[ReadMessage], definition: Definition) -> Iterator[Wrong]:
    listed, unlisted = _tools_told(messages, definition)
    for number, message in enumerate(messages, 1):
        for index, call in enumerate(message.calls, 1):
            name = call.builtin or call.name
            if name in unlisted or listed is not None and name not in listed and name not in definition.builtins:
                known = ", ".join(map(repr, sorted(listed or ()))) or "no tool"
                place, because = call.name_place or call.place, f"no message lists the tool {name!r}"
                yield Wrong(place, "tool", because, known, "tool_call", number, index)


_LIST = re.compile(r"^[\[{]", re.M)  # where a list of tools may begin
_GAP = re.compile(r"[\s,]*")


def _tools_told(
    messages: Sequence[ReadMessage], definition: Definition
) -> tuple[frozenset[str] | None, frozenset[str]]:
    """Return the names of the tools that messages list in JSON, as `told_of_tools` does or with other words around the
    list, None where they list none; and those of the format's own that are missing from a list of their names.
    """
    said = [message.content for message in messages if message.role == "tools"]
    named, unnamed = set[str](), set[str]()
    for part in definition.tool_prompt:
        before, slot, behind = part.text.partition("{tools}")
        line = before.rstrip("\n")
        head, tail = line.rpartition("\n")[2] + before[len(line) :], behind.strip().partition("\n")[0]
        texts = [message.content for message in messages if message.role == part.role and head in message.content]
        texts = [text[text.index(head) + len(head) :] for text in texts]
        lists = [text[: text.find(tail)] if tail and tail in text else text for text in texts]
        if slot and part.own and lists:
            unnamed |= set(part.own)
            named |= {name.strip() for text in lists for name in text.partition("\n")[0].split(part.between.strip())}
        elif slot and part.tool in (None, "{json}"):
            said += lists
    listed = [names for names in map(_names, said) if names is not None]
    return frozenset().union(*listed) if listed else None, frozenset(unnamed - named)


def _names(text: str) -> frozenset[str] | None:
    """Return the names of the tools in a text: a list of them, or one behind the other; None: it has none."""
    begin = _LIST.search(text)
    if begin is None:
        return None
    values, at = list[Any](), begin.start()
    with contextlib.suppress(ValueError, RecursionError):
        while at < len(text):
            value, end = json.JSONDecoder().raw_decode(text, at)
            values.append(value)
            at = end + len(_GAP.match(text, end)[0])  # type: ignore[index]
    for listed in (values[0] if len(values) == 1 else values, text[begin.start() :]):
        with contextlib.suppress(SchemaError):
            return frozenset(tool.name for tool in read_tools(listed)) or None
    return None


_RULES: Mapping[str, _Rule] = {
    "call_ids_differ": _ids_differ, "calls_are_answered": _are_answered, "results_answer_calls": _answer,
    "results_in_order": _in_order, "tools_are_listed": _are_listed,
}


# -- reading -----------------------------------------------------------------------------------------------------------

_LOCATED = 20_000  # characters of arguments in which the place of a pointer is looked for


@dataclass(frozen=True, eq=False)
class Terms:
    """What a text may hold beyond the format's grammar.

    `tools`: None = any.  `own`: those of the format itself.  `most`: the most calls of a turn, None = no bound.
    `name`: of the tool whose arguments alone are read.  `closed`: as in `schema.embed`.
    """

    tools: tuple[Tool, ...] | None = None
    own: frozenset[str] = frozenset()
    most: int | None = None
    name: str | None = None
    closed: bool = True

    @cached_property
    def judges(self) -> Mapping[str | None, Judge]:
        """What judges the arguments of each tool, by its name."""
        return {tool.name: Judge(tool, self.closed) for tool in self.tools or ()}


@dataclass(slots=True)
class Reading:
    """What was read of a text: its messages, and all that is wrong with it, in the order of the text."""

    messages: list[ReadMessage] = field(default_factory=list)
    wrong: list[Wrong] = field(default_factory=list)


def _cut(simulation: Simulation, question: Question, terms: Terms, text: str, behind: int) -> Reading:
    """Return what is certain of an unfinished text."""
    trail, place = simulation.agreed()
    assembler = Assembler(question, behind).take(marks_of(trail), text)
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
    judge = terms.judges.get(call.name)
    try:
        return _arguments(call, question, {} if judge is None else judge.tool.parameters, ReadMessage("assistant", 0))
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
            if not call.broken and (call.complete or complete):
                wrong = judged_call(call, question, terms, text, message)
                if wrong is not None:
                    reading.wrong.append(replace(wrong, rule="tool_call", message=number, call=index))
    reading.wrong += broken_rules(reading.messages, question.definition, strict=False, offered=terms.tools is not None)
    return reading


def judged_call(call: ReadCall, question: Question, terms: Terms, text: str, message: ReadMessage) -> Wrong | None:
    """Return what is wrong with a call of a message; fill in its name and arguments, and note what was repaired."""
    payload, builtin = question.definition.payload, call.builtin
    if builtin is not None:
        if builtin not in terms.own:
            return Wrong(call.place, "tool", f"{builtin!r} is not offered", ", ".join(sorted(terms.own)) or "no tool")
        schema = question.definition.builtins[builtin].parameters
        judge = None if schema is None else Judge(Tool(builtin, "", dict(schema)), terms.closed)
    else:
        try:
            call.name = name_written(call.name, question, terms)
        except Fault as fault:
            return Wrong(call.name_place + fault.at, "syntax", fault.because, fault.expected)
        if payload is None:
            return None if call.name in terms.own else _unknown(call, sorted(terms.own))
        judge = terms.judges.get(call.name)
        if call.arguments is None and (call.written or payload.surface in ("tagged", "quoted")):
            try:
                call.arguments = _arguments(call, question, {} if judge is None else judge.tool.parameters, message)
            except Fault as fault:
                return Wrong(fault.at, "syntax", fault.because, fault.expected, pointer=fault.pointer)
        if judge is None and (terms.tools is not None or call.name is None and question.kind != "tool_call"):
            return _unknown(call, [repr(tool.name) for tool in (terms.tools or ())[:10]])
    if judge is None:
        return None
    with working_on(f"tool {judge.tool.name!r}"):
        misfit = judge.misfit(call.arguments, python=payload is not None and payload.surface == "python")
    return None if misfit is None else _placed(misfit, judge.tool, call, question, text)


def _placed(misfit: Misfit, tool: Tool, call: ReadCall, question: Question, text: str) -> Wrong:
    """Return where arguments do not fit the schema of their tool, and why."""
    place, pointer, expected = _place_of(misfit, call, question, text, tool.parameters), misfit.pointer, misfit.expected
    because = f"tool {tool.name!r}: {misfit.because}"
    written = next((pair[2] for pair in call.pairs if pair[3] == place and misfit.keyword == "type"), "")
    if (broken := meant_as_json(written)) is not None:  # says more than that it is a string
        because = f"tool {tool.name!r}: it is no {misfit.expected}, as {broken.because}"
        place, pointer, expected = place + broken.at, pointer + broken.pointer, broken.expected
    return Wrong(
        place, "schema", because, expected,
        pointer=pointer, keyword=misfit.keyword, schema_pointer=misfit.schema_pointer,
    )


def _unknown(call: ReadCall, tools: Sequence[str]) -> Wrong:
    """Return what is wrong with a call of none of the tools."""
    known = ", ".join(tools)
    if call.name is None:
        one = f", one of {known}" if known else ""
        return Wrong(call.place, "tool", "the call alone names no tool", f"the option tool={one}")
    return Wrong(call.name_place or call.place, "tool", f"there is no tool {call.name!r}", known or "no tool")


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


def _arguments(call: ReadCall, question: Question, schema: Mapping[str, Any], message: ReadMessage) -> Any:
    """Return the arguments that the text of a call means, where no reader of values has read them.  Raises: Fault."""
    payload, definition = question.definition.payload, question.definition
    if payload is not None and payload.surface == "json" and call.written:
        return _arguments_in_a_string(call)
    if payload is None or payload.quote is None:
        elements = None if payload is None else payload.elements
        return arguments_of(
            call.pairs, schema,
            None if elements is None else lambda text, kind, may: read_elements(text, elements, kind, may),
            question.ends, lambda place: message.repaired(place, "python_literal"),
        )
    try:
        return read_quoted(call.written, definition.tokens[payload.quote], partial=not call.complete)
    except Fault as fault:
        raise Fault(call.arguments_place + fault.at, fault.because, fault.expected, fault.pointer) from None


def _arguments_in_a_string(call: ReadCall) -> dict[str, Any]:
    """Return the arguments of a call that wrote their JSON as a string.  Raises: Fault."""
    try:
        arguments = json_of(str(json_of(call.written)))
    except Fault as fault:
        raise Fault(call.arguments_place, f"in the string {fault.because}", fault.expected, fault.pointer) from None
    if not isinstance(arguments, dict):
        raise Fault(call.arguments_place, "the string is no JSON object", "an object", "")
    return arguments


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


def messages_of(messages: list[ReadMessage], question: Question, told: Unsettled | None = None) -> list[Message]:
    """Return what was read, as callers get it; told: the repairs of the first, where no rule named any."""
    return [
        Message(
            m.content, [call_of(call, question) for call in m.calls], m.stop, m.thoughts, m.role, m.name, m.call_id,
            told=tuple(sorted(m.repairs)) if told is None or m is not messages[0] else told,
        )
        for m in messages
    ]


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
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    return ToolCall(call.builtin or call.name or "", arguments, call.id)


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


# -- strict reading ----------------------------------------------------------------------------------------------------

def with_start_rule(generic: Grammar, definition: Definition, kind: str) -> Grammar:
    """Return a format's grammar, with the canonical text of a kind in place of the turn."""
    if kind == "assistant_turn":
        return generic
    entry = KINDS[kind]
    if kind == "tool_call" and entry not in generic.rules:
        entry = "tool_call"
    if entry not in generic.rules:
        raise GrammarError(f"the format '{definition.title}' has no rule '{entry}'", instead="see grammars/README.md")
    rules = dict(generic.rules)
    if kind == "tool_call" and definition.payload is not None:
        rules["tool_call"] = Rule("tool_call", rules[entry].alternatives)
        entry = "tool_call"
    rules[ENTRY] = Rule(ENTRY, ((Ref(entry),),))
    return replace(generic, rules=rules)


@lru_cache(maxsize=64)
def _byte_vocabulary(names: frozenset[str]) -> Vocabulary:
    special = {name: 256 + index for index, name in enumerate(sorted(names))}
    return Vocabulary([bytes([byte]) for byte in range(256)], special=special, size=256 + len(names))


def deviation(turn: Turn, grammar: Grammar, definition: Definition) -> Wrong | None:
    """Return where a text leaves the grammar, or None."""
    vocabulary = _byte_vocabulary(frozenset({*definition.tokens.values(), *grammar.specials}))
    matcher = compile_grammar(grammar, vocabulary).matcher()
    place = 0
    for piece, is_token in turn.pieces():
        if is_token:
            token = vocabulary.special.get(piece)
            if token is None:
                return Wrong(place, "structure", f"{piece!r} belongs to another spelling of the format")
            refused = _advance(matcher, [token])
            if refused is not None:
                return Wrong(place, "structure", f"the token {piece!r} is not what would be generated", refused[1])
        else:
            refused = _advance(matcher, piece.encode())
            if refused is not None:
                at = place + len(piece.encode()[: refused[0]].decode(errors="ignore"))
                return Wrong(at, "structure", f"{turn.text[at : at + 30]!r} is not what would be generated", refused[1])
        place += len(piece)
    return None if matcher.is_accepting() else Wrong(place, "structure", "it ends too early", _expected(matcher))


def _advance(matcher: Matcher, tokens: bytes | list[int]) -> tuple[int, str | None] | None:
    """Return the number of tokens that were read and what could have come, or None where all were."""
    for index, token in enumerate(tokens):
        try:
            matcher.advance(token)
        except Rejected as error:
            return index, error.expected
    return None


def _expected(matcher: Matcher) -> str:
    """Return in words how an incomplete turn could go on."""
    names = [name for name, token in matcher.constraint.vocabulary.special.items() if matcher.accepts(token)]
    forced = matcher.forced_bytes()
    return ", ".join([*names, *([repr(forced.decode(errors="backslashreplace"))] if forced else [])]) or "more text"


# -- entry points ------------------------------------------------------------------------------------------------------

BEGUN_AGAIN = "begun_again"  # a repair: the turn repeats what the prompt is said to hold
_NOTHING = Turn("", ())
_TOKEN_AT_END = re.compile(r"(<[|｜][^<>\s]{1,40}[|｜]>)\s*$")

_PER_CHARACTER = 4  # units of work that a text brings with it: ten times what reading takes

_GENERATING = (
    "property_order", "whitespace", "unsupported", "formats", "reasoning", "calls_before", "marker_safe", "preface",
    "response_schema",
)
# options that formats have to be read by, and the value that asks for nothing where a format has none of the kind
_NEUTRAL = {"interpreter": True, "environment": True, "open_ended": False, "flags": None, "construct": None}


class Reader:
    """A format, a kind of text, tools and options, checked; reads any number of texts, of any threads."""

    def __init__(self, chat: ChatFormat, kind: str, tools: object, prompt: str | None, options: dict[str, Any]) -> None:
        if prompt is not None and not isinstance(prompt, str):
            raise GrammarError(f"prompt is {shown(prompt)}", instead="a text of the turn, or None")
        self.chat, self.kind = chat, kind
        told = prompt is None and kind == "assistant_turn"
        begun = chat.definition.start(options.get("reasoning")) if told else prompt or ""
        self.prompt = split_text(begun, chat.definition)
        self._again = chat.definition.begun_again if told and begun else ()
        options = {key: value for key, value in options.items() if key not in _NEUTRAL or self._asks(key, value)}
        generating = {key: options.pop(key) for key in _GENERATING if key in options}
        self.name = options.pop("tool", None)
        builtin_tools = options.pop("builtin_tools", None)
        closed = options.pop("closed", True)
        self._stop_optional = options.pop("stop_optional", kind == "assistant_turn")
        choice: dict[str, Any] = {
            key: options.pop(key) for key in ("tool_choice", "parallel_tool_calls", "max_calls") if key in options
        }
        most = choice.get("max_calls")
        if chat.definition.calls is None and isinstance(most, int) and most > 1:
            because = f"the format '{chat.definition.title}' has one call in a turn"
            raise GrammarError(f"max_calls is {most}", because=because, instead="leave it out")
        self.request = make_request(chat.definition, tools, **choice, **options)
        self.question: Question = chat.recent_question(
            content(kind, options), lambda: ask(chat.generic, chat.definition, kind, options)
        )
        own = offered(chat.definition, self.question, self.request.tools, builtin_tools)
        if chat.definition.payload is None and self.request.tools is not None:
            own &= {tool.name for tool in self.request.tools}
        at_most = None if chat.definition.calls is None else self.request.calls  # (there the grammar says)
        self.terms = Terms(self.request.tools, own, at_most, self.name, closed)
        chooses = self.request.choice != "auto" or self.request.only is not None
        self._chooses = chooses and kind == "assistant_turn"
        self._canonical: dict[str, Any] = {**generating, **choice, **options, "closed": closed, "prompt": begun}

    def _asks(self, option: str, value: object) -> bool:
        """Return whether an option asks for something, or is to be refused by its name."""
        return value is not None if option in self.chat.definition.options else value is not _NEUTRAL[option]

    def _turn_of_ids(self, ids: Iterable[int], vocabulary: Vocabulary | None) -> Turn:
        if not isinstance(ids, Iterable) or isinstance(ids, (bytes, bytearray)):
            raise GrammarError(f"not a text: {shown(ids)}", instead="a str, or ids and their vocabulary")
        if vocabulary is None:
            raise VocabularyError("token ids alone have no meaning", instead="parse(ids, tools, vocabulary)")
        return split_ids(ids, vocabulary, self.question.definition)

    def begins(self, text: str, *, is_whole: bool) -> Turn | None:
        """Return the prompt that a text goes on from: nothing where it repeats what the template is said to write; None
        where only more of the text can tell.
        """
        begun = text.lstrip()
        if any(begun.startswith(marker) for marker in self._again):
            return _NOTHING
        waits = not is_whole and any(marker.startswith(begun) for marker in self._again)
        return None if waits else self.prompt

    def read(
        self, text_or_ids: str | Iterable[int], vocabulary: Vocabulary | None, *,
        strict: bool = False, partial: bool = False, all_errors: bool = False,
    ) -> list[Message]:
        """Return the messages of a text.  Raises: Rejected."""
        for name, value in (("strict", strict), ("partial", partial), ("all_errors", all_errors)):
            if not isinstance(value, bool):
                raise GrammarError(f"{name} is {shown(value)}", instead="True or False")
        definition = self.question.definition
        if isinstance(text_or_ids, str):
            given = split_text(text_or_ids, definition)
        else:
            given = self._turn_of_ids(text_or_ids, vocabulary)
        turn = given if strict else unpadded(given, definition)
        if partial and isinstance(text_or_ids, str):
            turn = certain(turn, definition)
        prompt = self.begins(turn.text, is_whole=not partial) if self._again and not strict else self.prompt
        if prompt is None:
            prompt, turn = self.prompt, _NOTHING
        with metered(units=MAX_WORK + _PER_CHARACTER * len(turn.text)):
            reading = self._read(prompt, turn, strict=strict, partial=partial, all_errors=all_errors)
            if strict and not partial and not reading.wrong:
                self._check_strictly(turn, reading)
            if self._chooses and not reading.wrong:
                self._check_choice(reading, prompt, partial=partial)
        if reading.wrong:
            raise self._rejected(reading.wrong, prompt.text, turn.text, all_errors=all_errors)
        if prompt is not self.prompt:
            reading.messages[0].repaired(0, BEGUN_AGAIN)
        if self._again:
            reading.messages[0].thoughts = {kind: said for kind, said in reading.messages[0].thoughts.items() if said}
        is_open = self.kind == "assistant_turn" and not strict and not partial and not reading.messages[0].repairs
        return messages_of(reading.messages, self.question, Unsettled(self, given) if is_open else None)

    def _read(self, prompt: Turn, turn: Turn, *, strict: bool, partial: bool, all_errors: bool) -> Reading:
        """Read a text behind a prompt; places count from the prompt's first character.  Unless all errors are asked
        for, broken calls behind the first one are passed over.
        """
        question, text, behind = self.question, prompt.text + turn.text, len(prompt.text)
        simulation = Simulation(question.network)
        simulation.read(prompt.pieces())
        simulation.read(turn.pieces())
        if partial and simulation.failure is None:
            reading = _cut(simulation, question, self.terms, text, behind)
            return judged(reading, question, self.terms, text, complete=False)
        trail = simulation.accepted()
        if trail is False and not strict:
            trail = self.unstopped(simulation, turn.text)
        complete, wrong = True, list[Wrong]()
        if trail is False:
            whole = turn.behind(prompt)
            trail, complete, wrong = diagnosed(question, whole, partial=partial, all_errors=all_errors)
        reading = Reading(Assembler(question, behind).take(marks_of(trail), text).messages)
        judged(reading, question, self.terms, text, complete=complete)
        reading.wrong += wrong
        if complete:
            reading.wrong.sort(key=lambda found: found.place)
        return reading

    def unstopped(self, simulation: Simulation, text: str) -> Trail | bool | None:
        """Return the marks of a turn that lacks nothing but its stop token; False where it may not, as where it ends
        with what looks like that of another format.
        """
        token, definition = _TOKEN_AT_END.search(text), self.chat.definition
        is_other = token is not None and token[1] not in (*definition.tokens.values(), *definition.markers)
        if is_other or not self._stop_optional:
            return False
        return simulation.lacking(sorted(self.question.slots.stops))

    def first_repair(self, turn: Turn) -> tuple[Repair, ...]:
        """Return where a turn that was read first leaves what would be generated; nothing where it does not, or where
        nothing would be generated under these options.
        """
        reading = Reading()
        with contextlib.suppress(ConstrainedError), metered(units=MAX_WORK + _PER_CHARACTER * len(turn.text)):
            self._check_strictly(turn, reading)
        return tuple([Repair(max(wrong.place - len(self.prompt.text), 0), "spelling") for wrong in reading.wrong])

    def _check_strictly(self, turn: Turn, reading: Reading) -> None:
        options = self._canonical
        if self.chat.definition.calls is None:
            options = {key: value for key, value in options.items() if key not in ("max_calls", "parallel_tool_calls")}
        if self.kind == "conversation":
            definition, offered = self.chat.definition, self.terms.tools is not None
            options = {**told(definition, reading.messages), **options}
            reading.wrong += broken_rules(reading.messages, definition, strict=True, offered=offered)
        tools, options = self.request.tools, read_options(self.chat.definition, options)
        if self.name is not None and tools is not None:
            tools = tuple(tool for tool in tools if tool.name == self.name)
        chat = self.chat.with_start_rule(self.kind)
        wrong = deviation(turn, chat.grammar(tools, **options), self.chat.definition)
        # what is escaped for the sake of other readers is canonical either way
        if wrong is not None and "marker_safe" not in options:
            plain = deviation(turn, chat.grammar(tools, **options, marker_safe=False), self.chat.definition)
            wrong = plain and max(wrong, plain, key=lambda found: found.place)
        if wrong is not None:
            place = wrong.place + len(self.prompt.text)
            reading.wrong.append(Wrong(place, wrong.layer, wrong.because, wrong.expected))
        reading.wrong.sort(key=lambda found: found.place)

    def _check_choice(self, reading: Reading, prompt: Turn, *, partial: bool) -> None:
        choice, only, calls = self.request.choice, self.request.only, reading.messages[-1].calls
        if choice == "none" and calls:
            reading.wrong.append(Wrong(calls[0].place, "tool", "tool_choice is 'none'", "no call"))
        elif choice == "required" and not calls and not partial:
            reading.wrong.append(Wrong(len(prompt.text), "structure", "tool_choice asks for a call", "a call"))
        for call in calls:
            if only is not None and (call.builtin or call.name) not in only and call.complete:
                allowed = " or ".join(map(repr, only))
                reading.wrong.append(Wrong(call.place, "tool", f"tool_choice is {allowed}", allowed))

    def _rejected(self, wrong: list[Wrong], prompt: str, text: str, *, all_errors: bool) -> Rejected:
        listed = wrong if all_errors else wrong[:1]
        first, *others = rejected(listed, prompt + text, len(prompt), self.kind, self.chat.name)
        first.others = tuple(others)
        return first


@dataclass(frozen=True)
class Unsettled:
    """The repairs of a turn of which no rule named any, found when they are asked for."""

    reader: Reader
    turn: Turn

    @cached_property
    def _found(self) -> tuple[Repair, ...]:
        return self.reader.first_repair(self.turn)

    def __iter__(self) -> Iterator[Repair]:
        return iter(self._found)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._found,)
