"""Marks of a reading → messages with the places of all their parts.

The simulation says where rules begin and end; here it is decided what that means: a rule of ``[messages]`` begins a
message, a call opens at ``tool_call`` and at the rules of ``[builtins]``, and texts go to the innermost of them.
``any_x`` stands for ``x`` throughout; of two rules for the same thing, one inside the other, the outer one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from constrained.formats.definition import LOOSE, PAIR_TEXTS, Slots
from constrained.formats.message import Piece, Repair, Worded, pieces_of
from constrained.formats.payload.tagged import CROSSED, ELEMENTS, json_of
from constrained.formats.read.simulation import TOKEN, VALUE, Placed, Trail, marks_of

_MOST_OPEN, _MOST_MET = 32, 2_000  # things that are open, and ways of that and of marks, whose effects are kept


class Sliced(Protocol):
    """A text, as far as slices of it go."""

    def __getitem__(self, span: slice, /) -> str: ...


@dataclass(slots=True)
class ReadCall:
    """A call and where its parts stand.

    `builtin`: the name of the format's own tool, where it is one.  `pairs`: arguments written one by one, as (key, how
    the value was written, its text, its place).  `complete`: its end was read; `broken`: it is only plainly meant as
    a call.
    """

    place: int
    builtin: str | None = None
    name: str | None = None
    name_place: int = 0
    id: str | None = None
    arguments: Any = None
    arguments_place: int = 0
    written: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    pairs: list[tuple[str, str, str, int]] = field(default_factory=list)
    complete: bool = False
    broken: bool = False


@dataclass(slots=True)
class ReadMessage:
    """A message, where it begins, and where what it says it answers."""

    role: str
    place: int
    said_place: int | None = None
    name: str | None = None
    call_id: str | None = None
    content: str = ""
    thoughts: dict[str, str] = field(default_factory=dict)
    calls: list[ReadCall] = field(default_factory=list)
    stop: str | None = None
    repairs: list[Repair] = field(default_factory=list)


class Effect(NamedTuple):
    """What the marks of a link do where certain things are open.

    deeds[i] = (what is done, with what, which of the open things it ends or None, else how far behind the link's place
    it began, how far behind it ends).  Of what is open `kept` things stay, then come those that are `opened`, as (what,
    how far behind it began); `then` are all of them.
    """

    deeds: tuple[tuple[Ending, str, int | None, int, int], ...]
    kept: int
    opened: tuple[tuple[str | None, int], ...]
    then: Within


class Within:
    """What is open, and what marks do there, by the marks of a link."""

    __slots__ = ("names", "effects")

    def __init__(self, names: tuple[str | None, ...]) -> None:
        self.names = names
        self.effects: dict[tuple[Placed, ...], Effect] = {}


class Assembler:
    """Takes marks in their order and makes messages of them: one by one (`take`), or all of a trail (`take_all`), which
    keeps what the marks of a link do.

    `open` are the things that have begun and not ended, as (what, where it began); None for one that is the same as the
    thing around it.  `_within` are those that are not None.
    """

    def __init__(self, slots: Slots, natives: Collection[str], *, whole_conversation: bool) -> None:
        self._slots, self._natives = slots, natives
        self.messages: list[ReadMessage] = [] if whole_conversation else [ReadMessage("assistant", 0)]
        self.open: list[tuple[str | None, int]] = []
        self._within: list[str] = []
        self._native: Any = None
        self._value: Any = None  # of the link that is taken
        self._spoken: list[tuple[int, int]] = []  # where special tokens stand in the content that is open

    def take(self, begins: bool, rule: str, place: int, data: Any, text: Sliced) -> None:
        """Take one mark; `text` is all that was read, up to the mark at least."""
        if rule in self._natives:
            self._native = data  # None where it begins
        elif rule == TOKEN:
            self._token(data)
            if self._within and self._within[-1] == "content":
                self._spoken.append((place - len(data), place))
        elif begins:
            what = self._slots.meanings.get(rule) or self._slots.meaning(rule)
            known = self._within[-1] if self._within else None
            if known == what or known in ELEMENTS:  # which are read as a whole
                self.open.append((None, place))
            else:
                self.open.append((what, place))
                self._within.append(what)
                self._begin(what, place)
        else:
            opened, start = self.open.pop()
            if opened is not None:
                self._within.pop()
                self._end(opened, start, place, text)

    def take_all(self, trail: Trail | bool | None, text: Sliced) -> None:
        """Take all marks of a trail, before which nothing was taken.

        PERF: what the marks of a link do is found once: a call of 16 characters 4.5 -> 2.5 µs.
        """
        links: list[Trail] = []
        while isinstance(trail, Trail):
            links.append(trail)
            trail = trail.parent
        opened, at = self.open, self._at()
        for link in reversed(links):
            effect = None if at is None else at.effects.get(link.marks) or self._effect(at, link.marks)
            if effect is None:
                self._within = [name for name, _ in opened if name is not None]
                for begins, rule, place, data in marks_of(link, link.parent):
                    self.take(begins, rule, place, data, text)
                at = self._at()
                continue
            place, self._value = link.place, link.data
            for do, what, outer, since, until in effect.deeds:
                do(self, what, place + since if outer is None else opened[outer][1], place + until, text)
            del opened[effect.kept :]
            for name, since in effect.opened:
                opened.append((name, place + since))
            at = effect.then

    def _at(self) -> Within | None:
        """Return what is open; None where that is much."""
        if len(self.open) > _MOST_OPEN:
            return None
        return self._within_of(tuple([name for name, _ in self.open]))

    def _within_of(self, names: tuple[str | None, ...]) -> Within | None:
        known = self._slots.within
        if names not in known and len(known) < _MOST_MET:
            known[names] = Within(names)
        return known.get(names)

    def _effect(self, at: Within, marks: tuple[Placed, ...]) -> Effect | None:
        """Find out what marks do; None where that is not kept."""
        deeds: list[tuple[Ending, str, int | None, int, int]] = []
        opened: list[tuple[str | None, int | None, int]] = [(name, index, 0) for index, name in enumerate(at.names)]
        for (begins, rule), behind, data in marks:
            within = next((name for name, *_ in reversed(opened) if name is not None), None)
            if rule in self._natives:
                deeds.append((Assembler.take_value if data is VALUE else Assembler.forget_value, rule, None, 0, behind))
            elif rule == TOKEN:
                deeds.append((Assembler.take_token, data, None, 0, behind))
                if within == "content":
                    deeds.append((Assembler.take_spoken, data, None, behind - len(data), behind))
            elif begins:
                what = self._slots.meaning(rule)
                same = within == what or within in ELEMENTS  # which are read as a whole
                opened.append((None if same else what, None, behind))
                deeds += [] if same else [(_beginning(what, self._slots), what, None, behind, behind)]
            else:
                ended, outer, since = opened.pop()
                deeds += [] if ended is None else [(_ending(ended, self._slots), ended, outer, since, behind)]
        then = self._within_of(tuple([name for name, *_ in opened])) if len(opened) <= _MOST_OPEN else None
        if then is None or len(at.effects) >= _MOST_MET:
            return None
        kept = sum(outer is not None for _, outer, _ in opened)
        effect = at.effects[marks] = Effect(
            tuple([deed for deed in deeds if deed[0] is not _nothing]),
            kept,
            tuple([(name, since) for name, _, since in opened[kept:]]),
            then,
        )
        return effect

    def take_value(self, _: str, start: int, place: int, text: Sliced) -> None:
        self._native = self._value

    def forget_value(self, _: str, start: int, place: int, text: Sliced) -> None:
        self._native = None

    def take_token(self, name: str, start: int, place: int, text: Sliced) -> None:
        self._token(name)

    def take_spoken(self, _: str, start: int, place: int, text: Sliced) -> None:
        self._spoken.append((start, place))

    @property
    def message(self) -> ReadMessage:
        if not self.messages:  # a text that no message rule holds, as of a sequence of files
            self.messages.append(ReadMessage("user", 0))
        return self.messages[-1]

    @property
    def call(self) -> ReadCall:
        calls = self.messages[-1].calls if self.messages else self.message.calls
        if not calls:
            calls.append(ReadCall(0))
        return calls[-1]

    def _begin(self, what: str, place: int) -> None:
        _beginning(what, self._slots)(self, what, place, place, "")

    def begin_message(self, what: str, start: int, place: int, text: Sliced) -> None:
        self.messages.append(ReadMessage(self._slots.roles[what], place))

    def begin_call(self, what: str, start: int, place: int, text: Sliced) -> None:
        message = self.message
        message.stop = None
        message.calls.append(ReadCall(place, self._slots.builtins.get(what)))

    def begin_content(self, what: str, start: int, place: int, text: Sliced) -> None:
        self.message.stop = None
        self._spoken = []

    def begin_repair(self, what: str, start: int, place: int, text: Sliced) -> None:
        self.message.repairs.append(Repair(place, what.removeprefix(LOOSE)))

    def _end(self, what: str, start: int, place: int, text: Sliced) -> None:
        end = self._slots.endings.get(what)
        if end is None:
            end = self._slots.endings[what] = _ending(what, self._slots)
        end(self, what, start, place, text)

    def end_content(self, _: str, start: int, place: int, text: Sliced) -> None:
        message, more = self.message, text[start:place]
        if self._spoken or isinstance(message.content, Worded):
            spoken = [(low - start, high - start) for low, high in self._spoken]
            message.content = _with_tokens(message.content, more, spoken)
        else:
            message.content += more

    def end_thought(self, what: str, start: int, place: int, text: Sliced) -> None:
        kind, thoughts = self._slots.thoughts[what], self.message.thoughts
        thoughts[kind] = thoughts.get(kind, "") + text[start:place]

    def end_string_content(self, _: str, start: int, place: int, text: Sliced) -> None:
        self.message.content += str(json_of(f'"{text[start:place]}"'))

    def end_speaker(self, _: str, start: int, place: int, text: Sliced) -> None:
        self.message.name, self.message.said_place = text[start:place], start

    def end_answered(self, _: str, start: int, place: int, text: Sliced) -> None:
        self.message.call_id, self.message.said_place = text[start:place], start

    def end_call(self, _: str, start: int, place: int, text: Sliced) -> None:
        self.call.complete = True

    def end_name(self, _: str, start: int, place: int, text: Sliced) -> None:
        call = self.call
        call.name, call.name_place = text[start:place], start

    def end_id(self, _: str, start: int, place: int, text: Sliced) -> None:
        self.call.id = text[start:place]

    def end_arguments(self, _: str, start: int, place: int, text: Sliced) -> None:
        call = self.call
        call.arguments_place, call.written = start, text[start:place]
        if self._native is not None:
            call.arguments, self._native = self._native, None

    def end_key(self, _: str, start: int, place: int, text: Sliced) -> None:
        self.call.pairs.append((text[start:place], "value", "", start))

    def end_key_again(self, _: str, start: int, place: int, text: Sliced) -> None:
        pairs, key = self.call.pairs, text[start:place]
        if pairs and pairs[-1][0] != key:
            pairs[-1] = (pairs[-1][0], CROSSED, key, start)

    def end_value(self, what: str, start: int, place: int, text: Sliced) -> None:
        pairs = self.call.pairs
        if pairs:
            pairs[-1] = (pairs[-1][0], what, text[start:place], start)
        else:
            self.end_text(what, start, place, text)

    def end_text(self, what: str, start: int, place: int, text: Sliced) -> None:
        self.call.texts[what] = text[start:place]

    def _token(self, name: str) -> None:
        if name in self._slots.stops and self.messages:
            message = self.messages[-1]
            if message.role == "assistant" and message.stop is None:
                message.stop = name

    def cut(self, place: int, text: str, reader: Any) -> None:
        """End everything that is open at the place where a text was cut; `reader` is the one that was reading then, if
        any.
        """
        self._native = None if reader is None else reader.partial()
        while self.open:
            opened, start = self.open.pop()
            if opened is not None and opened != "name" and opened != "key":
                self._end(opened, start, place, text)
            if opened == "tool_call" or opened in self._slots.builtins:
                self.call.complete = False


Ending = Callable[[Assembler, str, int, int, Sliced], None]
# What is done where something ends; what is in none of these means nothing to a message.
_ENDINGS: dict[str, Ending] = {
    "content": Assembler.end_content,
    "string_content": Assembler.end_string_content,
    "speaker": Assembler.end_speaker,
    "answered": Assembler.end_answered,
    "tool_call": Assembler.end_call,
    "name": Assembler.end_name,
    "call_id": Assembler.end_id,
    "call_number": Assembler.end_id,
    "arguments": Assembler.end_arguments,
    "key": Assembler.end_key,
    "key_again": Assembler.end_key_again,
    **dict.fromkeys(PAIR_TEXTS, Assembler.end_value),
}


def _beginning(what: str, slots: Slots) -> Ending:
    """Return what is done where something of a format begins."""
    if what in slots.roles:
        return Assembler.begin_message
    if what == "tool_call" or what in slots.builtins:
        return Assembler.begin_call
    if what.startswith(LOOSE):
        return Assembler.begin_repair
    return Assembler.begin_content if what == "content" else _nothing


def _ending(what: str, slots: Slots) -> Ending:
    """Return what is done where something of a format ends."""
    if what in slots.thoughts:
        return Assembler.end_thought
    if what in slots.builtins:
        return Assembler.end_call
    return _ENDINGS.get(what) or (Assembler.end_text if what in slots.texts else _nothing)


def _nothing(assembler: Assembler, what: str, start: int, place: int, text: Sliced) -> None:
    """Where a message ends, all of its parts have ended before."""


def _with_tokens(content: str, text: str, spoken: Iterable[tuple[int, int]]) -> Worded:
    """Return a content with a text behind it, in which special tokens stand at these places."""
    pieces, at = list[Piece](), 0
    for low, high in spoken:
        pieces += [(text[at:low], False)] if low > at else []
        pieces.append((text[low:high], True))
        at = high
    return Worded.of([*pieces_of(content), *pieces, *pieces_of(text[at:])])
