"""A message → the canonical text of its turn, by the format's own grammar.

The writer searches the grammar for a derivation that says all the message holds and nothing else; where several do, the
first alternatives of the grammar win.  Nothing about a format is known here.

The search (`derive`) walks the rules depth first, lets leaves move a state (what has been said), and keeps the first
walk that ends well.  Formats are small and nearly deterministic; the engine has already judged the language, so the
search only finds out *which* rule wrote what.  It never recurses, visits each (state, remaining rules) once, and gives
up with an error at a bound.

Answers that only a `response_schema` lets a model generate are JSON where an answer may not begin as a call does.  The
grammar's own answers leave them out, as readers take what begins so for a call; readers take those that are none for
answers all the same (Llama's JSON profiles: ``{"city": "Oslo"}``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from constrained.rendering.arguments import in_schema_order, write_json, write_keywords, write_members, write_quoted

from constrained.errors import ConstrainedError, GrammarError, LimitExceeded, shown
from constrained.formats.binding.bind import id_slot, name_pattern, shape, spelled_names, under
from constrained.formats.binding.markers import avoided
from constrained.formats.binding.request import make_request
from constrained.formats.binding.rules import (
    Alternatives,
    after_prompt,
    beginning_of_members,
    fixed,
    tags_of,
    terminal_of,
)
from constrained.formats.definition import ENTRY, Definition, Slots
from constrained.formats.message import Message, Piece, ToolCall
from constrained.formats.payload.judge import ANYTHING, allowed_by
from constrained.formats.read.network import Patterns
from constrained.formats.tools import Tool
from constrained.grammar import Pattern, Ref, Symbol
from constrained.regex import Expr, matches
from constrained.work import let_go, metered, spend

if TYPE_CHECKING:
    from constrained.formats.load import ChatFormat


# -- the search --------------------------------------------------------------------------------------------------------

State = TypeVar("State", bound=Hashable)
Event = TypeVar("Event")
Leaf = Callable[[Symbol, State], "Iterable[tuple[State, Event | None]] | None"]
Rules = Mapping[str, tuple[tuple[Symbol, ...], ...]]

MAX_STEPS = 2_000_000


class _Frames:
    """Places in sequences of symbols and where each returns to, as numbers: the same place has one; 0 is the end."""

    def __init__(self) -> None:
        self.content: list[tuple[tuple[Symbol, ...], int, int]] = [((), 0, 0)]  # (sequence, place in it, frame behind)
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._sequences: dict[tuple[Symbol, ...], int] = {}

    def number(self, sequence: tuple[Symbol, ...], at: int, parent: int) -> int:
        """Return the number of a place; where nothing is left there, of the one that it returns to."""
        while at == len(sequence) and parent:
            sequence, at, parent = self.content[parent]
        if at == len(sequence):
            return 0
        key = (self._sequences.setdefault(sequence, len(self._sequences)), at, parent)
        if key not in self._numbers:
            self._numbers[key] = len(self.content)
            self.content.append((sequence, at, parent))
        return self._numbers[key]


def derive(
    rules: Rules, start: str, state: State, leaf: Leaf[State, Event], done: Callable[[State], bool],
    moved: Callable[[str, State], State | None] | None = None,
) -> list[Event] | None:
    """Return the events of the first derivation of `start` that takes `state` to one that is `done`; None where there
    is none.

    leaf(symbol, state) returns the states after a symbol, best first, each with an event or None; for a reference it
    may return None, which walks through the rule, alternatives in their order.  moved(rule, state) returns the state
    inside a rule that is walked through, None where it must not be entered.

    Raises: LimitExceeded: more than `MAX_STEPS` steps, as left recursion would take.
    """
    frames = _Frames()
    walks: list[Iterator[tuple[State, int, object]]] = [iter([(state, frames.number((Ref(start),), 0, 0), None)])]
    seen: set[tuple[State, int]] = set()
    try:
        while walks:
            step = next(walks[-1], None)
            if step is None:
                walks.pop()
                continue
            state, current, trail = step
            if (state, current) in seen:
                continue
            seen.add((state, current))
            _count(len(seen))
            if not current:
                if done(state):
                    return _listed(trail)
                continue
            sequence, at, parent = frames.content[current]
            symbol, then = sequence[at], frames.number(sequence, at + 1, parent)
            leaf_read = leaf(symbol, state)
            if leaf_read is not None:
                walks.append(_through(leaf_read, then, trail))
            elif isinstance(symbol, Ref):
                inside = state if moved is None else moved(symbol.rule, state)
                if inside is not None:
                    ways = [(inside, frames.number(alternative, 0, then), trail) for alternative in rules[symbol.rule]]
                    walks.append(iter(ways))
    finally:
        let_go(walks, seen, frames.content)
    return None


def _count(steps: int) -> None:
    """Charge the steps of a derivation, and refuse too many."""
    if not steps & 63:
        spend(320)
    if steps > MAX_STEPS:
        raise LimitExceeded(
            "the turn takes too long to read", because=f"more than {MAX_STEPS:,} steps; is the format left-recursive?"
        )


def _through(
    found: Iterable[tuple[State, Event | None]], then: int, trail: object
) -> Iterator[tuple[State, int, object]]:
    for after, event in found:
        yield after, then, trail if event is None else (event, trail)


def _listed(trail: object) -> list[Event]:
    events = []
    while isinstance(trail, tuple):
        event, trail = trail
        events.append(event)
    return events[::-1]


# -- answers in JSON ---------------------------------------------------------------------------------------------------

_COMPOUND = re.compile(r"\s*[\[{]")


def may_be_json(text: str) -> bool:
    """Return whether a text begins as an object or a list."""
    return _COMPOUND.match(text) is not None


def is_json_answer(chat: ChatFormat, text: str, tools: object) -> bool:
    """Return whether a text is what some `response_schema` would generate, and is read as an answer."""
    if not may_be_json(text):
        return False
    stop = next(iter(chat.definition.stops.get("answer", ())), "")
    try:
        read = chat.parse(text + stop, tools, strict=True, response_schema={})
    except ConstrainedError:
        return False
    return bool(read.content == text and not read.tool_calls and not read.thoughts)


# -- turns -------------------------------------------------------------------------------------------------------------

_SPELLING = ("whitespace", "property_order", "closed", "unsupported")  # of arguments: a canonical text has one
_LONGEST_MARKER = 40  # characters
_LONG = 2_000  # characters from which on a text is read in runs
_SURROGATES = re.compile("[\ud800-\udfff]")


class _TurnProgress(NamedTuple):
    """How much of a message has been written: the rules of its texts, and the number of its calls."""

    texts: frozenset[str] = frozenset()
    calls: int = 0


def _check_message(message: object) -> None:
    """Refuse what is no message, or has parts that no text spells.

    Raises: GrammarError: something else than a `Message` of texts and calls.
    """
    if not isinstance(message, Message):
        raise GrammarError(f"not a message: {shown(message)}", instead="Message('text', [ToolCall('name', {…})])")
    if not isinstance(message.content, str):
        raise GrammarError(f"the content of a message is {shown(message.content)}", instead="a text; '' for none")
    if not isinstance(message.stop, str | None):
        raise GrammarError(f"the stop of a message is {shown(message.stop)}", instead="a special token, or None")
    thoughts = message.thoughts
    if not isinstance(thoughts, Mapping) or not all(isinstance(text, str) for one in thoughts.items() for text in one):
        raise GrammarError(f"the thoughts of a message are {shown(thoughts)}", instead="a mapping of kinds to texts")
    if not isinstance(message.tool_calls, Sequence) or isinstance(message.tool_calls, str):
        raise GrammarError(f"the calls of a message are {shown(message.tool_calls)}", instead="a list of ToolCall")
    for at, call in enumerate(message.tool_calls):
        if not isinstance(call, ToolCall) or not isinstance(call.name, str):
            raise GrammarError(f"call {at} of a message is {shown(call)}", instead="ToolCall('name', {…})")
        if not isinstance(call.arguments, Mapping):
            raise GrammarError(f"the arguments of call {at} are {shown(call.arguments)}", instead="a dict by name")


def write(chat: ChatFormat, message: Message, tools: object, options: dict[str, Any]) -> str:
    """Return what `ChatFormat.write` does."""
    if chat.definition.calls and not {"max_calls", "parallel_tool_calls"} & options.keys():
        options = {**options, "parallel_tool_calls": True}  # a message has as many calls as it has
    asked = {key: value for key, value in options.items() if key not in _SPELLING}
    request = make_request(chat.definition, tools, **{"preface": True, **asked})
    begun, reasoning = request.prompt, chat.definition.reasoning
    if options.get("prompt") is None and begun and isinstance(message, Message) and reasoning is not None:
        if begun == reasoning.closed:
            begun = "" if message.thoughts else begun
        elif not message.thoughts:  # which the turn closes at once
            message = replace(message, thoughts={next(iter(chat.definition.thoughts)): ""})
    with metered():
        definition = under(chat.definition, request.options)
        rules = shape(chat.generic, definition, request)
        if begun:
            rules = after_prompt(rules, ENTRY, begun, (*definition.tokens.values(), *definition.markers))
        return write_turn(rules, definition, message, request.tools, lambda text: is_json_answer(chat, text, tools))


def write_turn(
    rules: Alternatives,
    definition: Definition,
    message: Message,
    tools: tuple[Tool, ...] | None,
    answers: Callable[[str], bool],
) -> str:
    """Return the text of a turn, stop token included: the message's, if the format can end such a turn with it.

    answers: whether a text that the grammar's answers leave out is one all the same, see `is_json_answer`.
    Raises: ConstrainedError: the format has no such turn.
    """
    _check_message(message)
    schemas = {tool.name: tool.parameters for tool in tools or ()}
    texts = {definition.thoughts.get(kind, kind): text for kind, text in message.thoughts.items()}
    texts |= {"content": message.content} if message.content else {}
    calls = [
        write_call(rules, definition, call, schemas.get(call.name), at) for at, call in enumerate(message.tool_calls)
    ]
    slots = Slots.of(definition)
    call_rules = {"tool_call", *(builtin.rule for builtin in definition.builtins.values())}
    stops = set(slots.stops)
    is_generated = bool(message.content) and not fits(rules, "content", message.content) and answers(message.content)
    generated = {"content"} if is_generated else set()

    def leaf(
        other: set[str], symbol: Symbol, said: _TurnProgress
    ) -> Iterable[tuple[_TurnProgress, list[Piece] | None]] | None:
        if not isinstance(symbol, Ref):
            text = fixed(symbol)
            return [] if text is None or text in other else [(said, [(text, True)])]
        rule, what = symbol.rule, slots.meaning(symbol.rule)
        if what == "content" or what in slots.thoughts:
            writes = what in texts and what not in said.texts and (fits(rules, rule, texts[what]) or what in generated)
            return [(said._replace(texts=said.texts | {what}), [(texts[what], False)])] if writes else []
        if what in call_rules:
            writes = said.calls < len(calls) and calls[said.calls][0] == what
            return [(said._replace(calls=said.calls + 1), calls[said.calls][1])] if writes else []
        return None

    whole = _TurnProgress(frozenset(texts), len(calls))
    for other in (stops - {message.stop} if message.stop in stops else set(), set[str]()):
        pieces = derive(rules, ENTRY, _TurnProgress(), partial(leaf, other), lambda said: said == whole)
        if pieces is not None:
            return _joined([piece for derived in pieces for piece in derived], definition)
    raise ConstrainedError(f"the format '{definition.title}' has no such turn", because=_reason(message, rules, slots))


def _joined(pieces: list[Piece], definition: Definition) -> str:
    for text, is_structure in pieces:
        spelled = (
            None
            if is_structure
            else next((name for name in (*definition.tokens.values(), *definition.reserved) if name in text), None)
        )
        if spelled is not None:
            raise ConstrainedError(
                f"cannot write the turn in the format '{definition.title}'",
                because=f"one of its texts spells {spelled!r}, which readers take for the token",
                instead="render(messages, vocabulary), where text stays text",
            )
    return "".join(text for text, _ in pieces)


def _reason(message: Message, rules: Alternatives, slots: Slots) -> str:
    if message.content and not fits(rules, "content", message.content):
        if may_be_json(message.content):
            return "its text begins as a call may, and is not JSON as a response_schema would have it generated"
        return f"its text {misread(rules, 'content', message.content)}"
    contents = [rule for rule in rules if message.content and slots.meaning(rule) == "content"]
    if not all(fits(rules, rule, message.content) for rule in contents):  # of a copy that stands before a marker
        return "readers would end its text earlier, at what its last characters and those behind them spell"
    counts = ((len(message.thoughts), "thought"), (len(message.tool_calls), "call"))
    parts = [
        *(["text"] if message.content else []),
        *(f"{count} {noun}{'s' * (count > 1)}" for count, noun in counts if count),
    ]
    return f"none has {' and '.join(parts) or 'neither text nor calls'}"


def write_call(
    rules: Alternatives, definition: Definition, call: ToolCall, schema: object, at: int
) -> tuple[str, list[Piece]]:
    """Return the rule that writes a call, number `at` of its turn, and what it writes."""
    builtin, payload = definition.builtins.get(call.name), definition.payload
    if (builtin.rule if builtin else "tool_call") not in rules:
        raise ConstrainedError(
            f"the format '{definition.title}' cannot call {call.name!r}", because="no such tool is on offer"
        )
    if builtin is not None and builtin.parameters is None:
        if call.arguments.keys() != builtin.arguments.keys():
            raise ConstrainedError(
                f"cannot call {call.name!r}", because=f"its arguments are {', '.join(builtin.arguments)}"
            )
        values = {rule: str(call.arguments[name]) for name, rule in builtin.arguments.items()}
        return builtin.rule, _filled(rules, builtin.rule, values, definition)
    assert payload is not None  # a grammar with tool_call has one
    if builtin is not None:
        rule, texts, schema = builtin.rule, {"arguments": ""}, builtin.parameters
    else:
        names = spelled_names(name_pattern(rules), definition, payload, [call.name])
        rule, texts = "tool_call", {"name": names[call.name], "arguments": ""}
    arguments = call.arguments if payload.sorts else in_schema_order(call.arguments, schema)
    tags = tags_of(rules, definition)
    avoid = avoided(definition, tags, marker_safe=True)
    if payload.quote is not None:
        written = write_quoted(arguments, definition.tokens[payload.quote], sorts=payload.sorts)
    elif tags is not None:
        allowed = ANYTHING if schema is None else allowed_by(schema, closed=True)
        written = write_members(arguments, tags, beginning_of_members(tags), avoid, allowed)
    else:
        python, spaces = payload.surface == "python", payload.whitespace
        text = write_keywords(arguments, avoid) if python else write_json(arguments, avoid, spaces)
        written = [(text, False)]
    if definition.calls is not None and definition.calls.ids is not None:
        texts[id_slot(rules)] = _slotted_id(rules, definition, call, at)
    return rule, _filled(rules, rule, texts, definition, written)


def _slotted_id(rules: Alternatives, definition: Definition, call: ToolCall, at: int) -> str:
    """Return what stands in the slot of a call's id, or of the number in it: what the call brings along, if the format
    can write that.
    """
    repeat, slot = definition.calls, id_slot(rules)
    assert repeat is not None
    given = call.id.rpartition(":")[2] if call.id and slot == "call_number" else call.id
    if given and (repeat.ids != "counted" or given.isdecimal()):
        return given
    return str(repeat.first + at) if repeat.ids == "counted" else made_id(rules, repeat.first + at)


def made_id(rules: Alternatives, number: int) -> str:
    """Return an id that a format can write for a call that brings none; some formats prescribe nine signs, some ten."""
    made = [f"call{number:0{digits}d}" for digits in (5, 6)]
    return next((text for text in made if fits(rules, id_slot(rules), text)), made[0])


def written_id(rules: Alternatives, definition: Definition, call: ToolCall, at: int) -> str:
    """Return the id of a call, number `at`, as its text has it; of formats without ids the one that it brings along."""
    if definition.calls is None or definition.calls.ids is None:
        return call.id or ""
    text = _slotted_id(rules, definition, call, at)
    if id_slot(rules) == "call_id":
        return text
    pieces = _filled(rules, "call_id", {"name": call.name, "call_number": text}, definition)
    return "".join(piece for piece, _ in pieces)


def _filled(
    rules: Alternatives, rule: str, values: dict[str, str], definition: Definition, arguments: list[Piece] | None = None
) -> list[Piece]:
    """Return the first text of a rule in which each of the given rules writes its value, once, but for a tool's name,
    which some formats have twice; `arguments`: those of the rule of this name.
    """

    def leaf(symbol: Symbol, used: frozenset[str]) -> Iterable[tuple[frozenset[str], list[Piece] | None]] | None:
        if not isinstance(symbol, Ref):
            return [(used, [(text, True)])] if (text := fixed(symbol)) is not None else []
        if symbol.rule not in values:
            return None
        own = arguments if symbol.rule == "arguments" and arguments is not None else [(values[symbol.rule], False)]
        free = symbol.rule == "name" or symbol.rule not in used
        writes = free and (own is arguments or fits(rules, symbol.rule, values[symbol.rule]))
        return [(used | {symbol.rule}, own)] if writes else []

    pieces = derive(rules, rule, frozenset[str](), leaf, lambda used: len(used) == len(values))
    if pieces is None:
        wrong = next((rule for rule, text in values.items() if not fits(rules, rule, text)), None)
        form = terminal_of(rules, wrong) if wrong == "call_id" else None
        raise ConstrainedError(
            f"the format '{definition.title}' cannot write this call",
            because=None if wrong is None else f"{wrong} cannot be {values[wrong][:40]!r}",
            instead=None if form is None else f"what matches {form.source}, or none",
        )
    return [piece for derived in pieces for piece in derived]


def _terminal(rules: Alternatives, rule: str) -> Expr | None:
    """Return the language of a rule that is one terminal; None: it is none."""
    sequence = rules[rule][0] if rule in rules else ()
    return sequence[0].language if len(sequence) == 1 and isinstance(sequence[0], Pattern) else None


def misread(rules: Alternatives, rule: str, text: str) -> str:
    """Return why a text does not fit a rule: the first word that it may not hold, and where that stands."""
    whole, language = "is what readers would take for something else", _terminal(rules, rule)
    if language is None:
        return whole
    begin = state = Patterns().state(language)
    for end, char in enumerate(text, 1):
        spend(not end & 1023 and 1024)
        then = state.step(char)
        if then is None:
            starts = range(end - 1, max(end - 1 - _LONGEST_MARKER, -1), -1)
            start = next((at for at in starts if begin.after(text[at:end]) is None), end - 1)
            return f"holds {text[start:end]!r} at character {start + 1}, which readers would take for something else"
        state = then
    return whole


def fits(rules: Alternatives, rule: str, text: str) -> bool:
    """Return whether a rule that is one terminal derives a text; other rules are not judged."""
    if rules.get(rule) == ((),):
        return not text
    if (language := _terminal(rules, rule)) is None:
        return True
    if len(text) < _LONG or not text.isascii() and _SURROGATES.search(text):
        return matches(language, text)
    return Patterns().state(language).reads(text)
