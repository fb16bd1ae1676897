"""Marks of a reading → messages with the places of all their parts.

The simulation says where rules begin and end; here it is decided what that means: a rule of ``[messages]`` begins a
message, a call opens at ``tool_call`` and at the rules of ``[builtins]``, and texts go to the innermost of them.
``any_x`` stands for ``x`` throughout; of two rules for the same thing, one inside the other, the outer one counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from constrained.formats.definition import LOOSE, PAIR_TEXTS
from constrained.formats.message import Piece, Repair, Worded, pieces_of
from constrained.formats.payload import ELEMENTS
from constrained.formats.payload.tagged import CROSSED, json_of
from constrained.formats.read.question import NATIVES, Question
from constrained.formats.read.simulation import TOKEN, Marked


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
    """A message, where it begins, and where what it says it answers; `behind`: the characters of a prompt before it."""

    role: str
    place: int
    behind: int = 0
    said_place: int | None = None
    name: str | None = None
    call_id: str | None = None
    content: str = ""
    thoughts: dict[str, str] = field(default_factory=dict)
    calls: list[ReadCall] = field(default_factory=list)
    stop: str | None = None
    repairs: list[Repair] = field(default_factory=list)

    def repaired(self, place: int, rule: str) -> None:
        """Note what was taken at a place by a rule that only a tolerant reading has."""
        self.repairs.append(Repair(max(place - self.behind, 0), rule))


class Assembler:
    """Takes marks in their order and makes messages of them; behind: the characters of a prompt before them.

    `open` are the things that have begun and not ended, as (what, where it began); None for one that is the same as the
    thing around it.  `_within` are those that are not None.
    """

    def __init__(self, question: Question, behind: int = 0) -> None:
        self._slots, self._broken, self._behind = question.slots, question.broken, behind
        is_turn = question.kind != "conversation"
        self.message = ReadMessage("assistant" if is_turn else "user", 0, behind)
        self.messages = [self.message] if is_turn else []
        self.open: list[tuple[str | None, int]] = []
        self._within: list[str] = []
        self._native: Any = None
        self._spoken: list[tuple[int, int]] = []  # where special tokens stand in the content that is open

    def take(self, marks: Iterable[Marked], text: Sliced) -> Assembler:
        """Take marks, and return the assembler; `text` is all that was read, up to them at least."""
        for begins, rule, place, data in marks:
            known = self._within[-1] if self._within else None
            if rule in NATIVES:
                self._native = data  # None where it begins
            elif rule == TOKEN:
                said = self.messages[-1] if self.messages and data in self._slots.stops else None
                if said is not None and said.role == "assistant" and said.stop is None:
                    said.stop = data
                if known == "content":
                    self._spoken.append((place - len(data), place))
            elif rule in self._broken:
                self.call.broken = True
            elif begins:
                what = self._slots.meanings.get(rule) or self._slots.meaning(rule)
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
        return self

    @property
    def call(self) -> ReadCall:
        calls = self.message.calls
        if not calls:
            calls.append(ReadCall(0))
        return calls[-1]

    def _begin(self, what: str, place: int) -> None:
        slots = self._slots
        if what in slots.roles:
            self.message = ReadMessage(slots.roles[what], place, self._behind)
            self.messages.append(self.message)
            return
        if not self.messages:  # a text that no message rule holds, as of a sequence of files
            self.messages.append(self.message)
        if what == "tool_call" or what in slots.builtins:
            self.message.stop = None
            self.message.calls.append(ReadCall(place, slots.builtins.get(what)))
        elif what.startswith(LOOSE):
            self.message.repaired(place, what.removeprefix(LOOSE))
        elif what == "content":
            self.message.stop, self._spoken = None, []

    def _end(self, what: str, start: int, place: int, text: Sliced) -> None:
        """Take note of what ends; where a message ends, all of its parts have ended before."""
        slots = self._slots
        if what == "tool_call" or what in slots.builtins:
            self.call.complete = True
        if what not in slots.texts:
            return
        said = text[start:place]
        if what in slots.thoughts:
            kind, thoughts = slots.thoughts[what], self.message.thoughts
            thoughts[kind] = thoughts.get(kind, "") + said
        elif what == "content" and (self._spoken or isinstance(self.message.content, Worded)):
            spoken = [(low - start, high - start) for low, high in self._spoken]
            self.message.content = _with_tokens(self.message.content, said, spoken)
        elif what == "content":
            self.message.content += said
        elif what == "string_content":
            self.message.content += str(json_of(f'"{said}"'))
        elif what == "speaker":
            self.message.name, self.message.said_place = said, start
        elif what == "answered":
            self.message.call_id, self.message.said_place = said, start
        else:
            self._called(self.call, what, start, said)

    def _called(self, call: ReadCall, what: str, start: int, said: str) -> None:
        """Take note of a part of a call."""
        last = call.pairs[-1][0] if call.pairs else None
        if what == "name":
            call.name, call.name_place = said, start
        elif what in ("call_id", "call_number"):
            call.id = said
        elif what == "arguments":
            call.arguments_place, call.written = start, said
            if self._native is not None:
                call.arguments, self._native = self._native, None
        elif what == "key":
            call.pairs.append((said, "value", "", start))
        elif what == "key_again":
            if last is not None and last != said:
                call.pairs[-1] = (last, CROSSED, said, start)
        elif what in PAIR_TEXTS and last is not None:
            call.pairs[-1] = (last, what, said, start)
        else:
            call.texts[what] = said

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


def _with_tokens(content: str, text: str, spoken: Iterable[tuple[int, int]]) -> Worded:
    """Return a content with a text behind it, in which special tokens stand at these places."""
    pieces, at = list[Piece](), 0
    for low, high in spoken:
        pieces += [(text[at:low], False)] if low > at else []
        pieces.append((text[low:high], True))
        at = high
    return Worded.of([*pieces_of(content), *pieces, *pieces_of(text[at:])])
