"""A turn as it comes, in text, bytes or token ids → events, as soon as no way of going on could make them wrong.

    TextDelta*            → Message.content
    ThoughtDelta* by kind → Message.thoughts
    CallFinished*         → Message.tool_calls
    Stopped               → Message.stop
    Repaired*             → Message.repairs, but for those that no rule names

The simulation of `parse` reads the pieces; what all its threads agree on is told.  So a text is told up to the last
place at which it may have ended: ``Hello`` at once, a ``<`` behind it when the next character shows that no tag
begins.  What is told at a cut is the same wherever the pieces before it were cut, also inside a character or an escape.

What is wrong is found where it stands: the piece that cannot follow, and the call that does not fit, raise what `parse`
would of the text so far.

Tested in tests/test_stream.py: events of all rows of the formats' tables, cut everywhere, against `parse`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from constrained.errors import Rejected, VocabularyError
from constrained.formats.definition import PAIR_TEXTS
from constrained.formats.message import Message, Repair, ToolCall
from constrained.formats.payload.value_reader import Fault
from constrained.formats.read.assemble import Assembler, ReadCall, Sliced
from constrained.formats.read.inputs import Incoming, Piece
from constrained.formats.read.reading import BEGUN_AGAIN, call_of, judged_call, name_written
from constrained.formats.read.simulation import Simulation, marks_of
from constrained.work import MAX_WORK, metered, spend

if TYPE_CHECKING:
    from constrained.engine.tokens.vocabulary import Vocabulary
    from constrained.formats.read.reading import Reader


# -- events ------------------------------------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of what a user sees."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """More of a thought of a kind."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call has begun; `call` numbers the calls of the turn from 0.  `name` is None in formats that write arguments
    before it.
    """

    call: int
    name: str | None


@dataclass(frozen=True, slots=True)
class ArgumentDelta:
    """More of the text of a call's arguments as the format writes it; `key`: of which argument, where each has a text
    of its own.
    """

    call: int
    text: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class CallFinished:
    """A call is complete, and fits its tool where tools were given."""

    call: int
    value: ToolCall


@dataclass(frozen=True, slots=True)
class Stopped:
    """The turn has ended with this token."""

    stop: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """Something was taken that is not to the letter of the format."""

    repair: Repair


Event = TextDelta | ThoughtDelta | CallStarted | ArgumentDelta | CallFinished | Stopped | Repaired


# -- the parser --------------------------------------------------------------------------------------------------------

_A_CALL = 25  # units of work of a piece, however short
_PER_CHARACTER = 10  # units of work that each character brings with it


class Growing:
    """A text that grows by pieces; a slice costs what it holds, however long the text is."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self.length = 0

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._starts.append(self.length)
        self.length += len(piece)

    def __getitem__(self, span: slice) -> str:
        start, stop = span.start, min(span.stop, self.length)
        pieces = []
        at = max(bisect_right(self._starts, start) - 1, 0)
        while at < len(self._pieces) and self._starts[at] < stop:
            origin = self._starts[at]
            pieces.append(self._pieces[at][max(start - origin, 0) : stop - origin])
            at += 1
        return "".join(pieces)


class StreamParser:
    """Reads an assistant turn piece by piece.

    feed what comes; `close` when nothing more does.  After an error nothing more is read.

    >>> from constrained import ChatFormat
    >>> stream = ChatFormat.load("hermes").stream_parser()
    >>> stream.feed("Hel"), stream.feed("lo <"), stream.feed("b>")
    ([TextDelta(text='Hel')], [TextDelta(text='lo')], [TextDelta(text=' <b>')])
    >>> stream.feed("<|im_end|>"), stream.close().content
    ([Stopped(stop='<|im_end|>')], 'Hello <b>')
    """

    def __init__(self, reader: Reader, vocabulary: Vocabulary | None) -> None:
        self._reader, self._vocabulary = reader, vocabulary
        self._incoming = Incoming(reader.question.definition, vocabulary)
        self._simulation = Simulation(reader.question.network)
        self._text, self._fed, self._ids = Growing(), list[str](), list[int]()
        self._teller = _Teller(reader, self._text)
        self._trail: Any = None
        self._told_stop = False
        self._refused: Rejected | None = None
        self._first: list[Piece] | None = []  # the pieces until it is clear what they go on from

    def feed(self, more: str | bytes | Iterable[int]) -> list[Event]:
        """Return what has become certain with more text, bytes of text, or token ids; all of a stream are of one kind.

        Cost: as `parse`, and some 20 µs a call.
        Raises: Rejected: the turn cannot go on like this, or a call in it does not fit.  VocabularyError: ids, and no
        vocabulary was given.
        """
        if self._refused is not None:
            raise self._refused.with_traceback(None)
        if isinstance(more, (str, bytes)):
            text = more if isinstance(more, str) else self._incoming.decoded(more)
            self._fed.append(text)
            pieces = self._incoming.text(text)
        else:
            if self._vocabulary is None:
                raise VocabularyError("token ids alone have no meaning", instead="stream_parser(tools, vocabulary)")
            ids = list(more)
            self._ids += ids
            pieces = self._incoming.ids(ids)
        return self._told(pieces)

    def end(self) -> list[Event]:
        """Return what the end of the turn makes certain; nothing may be fed afterwards."""
        events = self._told(self._incoming.end(), is_whole=True)
        trail = self._simulation.accepted()
        self._take(self._reader.unstopped(self._simulation, "") if trail is False else trail)
        return [*events, *self._teller.ended(None), *self._stopped()]

    def close(self) -> Message:
        """Return the message, as `parse` does of the whole.  Raises: Rejected."""
        return self._reader.read(self._whole(), self._vocabulary)[0]

    def so_far(self) -> Message:
        """Return what is certain of the message, as ``parse(…, partial=True)`` does."""
        return self._reader.read(self._whole(), self._vocabulary, partial=True)[0]

    # -- internals -----------------------------------------------------------------------------------------------------

    def _whole(self) -> Any:
        return self._ids if self._ids else "".join(self._fed)

    def _told(self, pieces: list[Piece], *, is_whole: bool = False) -> list[Event]:
        size = sum(len(piece) for piece, _ in pieces)
        with metered(units=MAX_WORK + _PER_CHARACTER * size):
            spend(_A_CALL)
            self._read(pieces if self._first is None else self._begun(self._first, pieces, is_whole=is_whole))
            if self._simulation.failure is not None:
                self._refuse()
            trail, place = self._simulation.agreed()
            self._take(trail)
            events = self._teller.ended(place)
        if self._teller.misfit:
            self._refuse()
        return [*events, *(self._stopped() if self._simulation.is_over else [])]

    def _read(self, pieces: list[Piece]) -> None:
        for piece, is_token in pieces:
            if is_token and piece in self._reader.chat.definition.padding and self._simulation.is_over:
                continue  # it fills a row of a batch
            self._text.add(piece)
            self._simulation.read([(piece, is_token)])

    def _begun(self, first: list[Piece], pieces: list[Piece], *, is_whole: bool) -> list[Piece]:
        """Return the first pieces of a turn behind what they go on from; nothing where only more of them can tell."""
        first += pieces
        prompt = self._reader.begins("".join(piece for piece, _ in first), is_whole=is_whole)
        if prompt is None:
            return []
        self._first = None
        self._teller.starts(len(prompt.text), again=prompt is not self._reader.prompt)
        return [*prompt.pieces(), *first]

    def _take(self, trail: Any) -> None:
        """Tell the marks that are new in a trail."""
        self._teller.take(marks_of(trail, self._trail), self._text)
        self._trail = self._trail if trail is None or isinstance(trail, bool) else trail

    def _refuse(self) -> None:
        try:
            self.so_far()
            self.close()  # the end of the text is what shows it
        except Rejected as error:
            self._refused = error
            raise

    def _stopped(self) -> list[Event]:
        stop = self._teller.message.stop
        if stop is None or self._told_stop:
            return []
        self._told_stop = True
        return [Stopped(stop)]


class _Teller(Assembler):
    """An assembler that says what it makes, in events.

    `_sent`: up to where the text of the innermost open part has been told.
    """

    def __init__(self, reader: Reader, text: Growing) -> None:
        super().__init__(reader.question)
        self._reader, self._text, self._sent = reader, text, 0
        self._events: list[Event] = []
        self._started = 0  # calls that were told
        self._mended = 0  # repairs that were told
        payload = reader.chat.definition.payload
        self._tagged = payload is not None and payload.surface == "tagged"
        self.misfit = False

    def starts(self, behind: int, *, again: bool) -> None:
        """Begin behind a prompt; again: the turn repeats it."""
        self.message.behind = behind
        if again:
            self.message.repaired(0, BEGUN_AGAIN)
            self._repaired()

    def ended(self, place: int | None) -> list[Event]:
        """Return the events since the last time; text of what is open is told up to a place."""
        what, start = next((pair for pair in reversed(self.open) if pair[0] is not None), (None, 0))
        if place is not None and what is not None:
            self._tell(what, start, place)
        events, self._events = self._events, []
        return events

    def _begin(self, what: str, place: int) -> None:
        super()._begin(what, place)
        self._sent = place
        self._repaired()
        if what in self._slots.builtins:
            self._start(self.call.builtin)

    def _end(self, what: str, start: int, place: int, text: Sliced) -> None:
        self._tell(what, start, place)
        super()._end(what, start, place, text)
        self._sent = place
        if what == "name" and len(self.message.calls) > self._started:
            self._start(self._name())
        if what == "tool_call" or what in self._slots.builtins:
            self._finish(self.call)

    def _tell(self, what: str, start: int, place: int) -> None:
        """Tell more of an open part."""
        at = max(start, self._sent)
        if place <= at:
            return
        if what == "content":
            self._events.append(TextDelta(self._text[at:place]))
        elif what in self._slots.thoughts:
            self._events.append(ThoughtDelta(self._slots.thoughts[what], self._text[at:place]))
        elif what == "arguments" and not self._tagged or what in PAIR_TEXTS:
            if len(self.message.calls) > self._started:
                self._start(self.call.name)
            key = self.call.pairs[-1][0] if what != "arguments" and self.call.pairs else None
            self._events.append(ArgumentDelta(len(self.message.calls) - 1, self._text[at:place], key))
        elif self.call.builtin is not None and what in self._slots.parameters.get(self.call.builtin, ()):
            key = self._slots.parameters[self.call.builtin][what]
            self._events.append(ArgumentDelta(len(self.message.calls) - 1, self._text[at:place], key))
        else:
            return
        self._sent = place

    def _repaired(self) -> None:
        """Tell the repairs that are new."""
        self._events += [Repaired(repair) for repair in self.message.repairs[self._mended :]]
        self._mended = len(self.message.repairs)

    def _start(self, name: str | None) -> None:
        self._started = len(self.message.calls)
        self._events.append(CallStarted(self._started - 1, name))

    def _name(self) -> str | None:
        try:
            return name_written(self.call.name, self._reader.question, self._reader.terms)
        except Fault:
            self.misfit = True
            return self.call.name

    def _finish(self, call: ReadCall) -> None:
        if len(self.message.calls) > self._started:
            self._start(call.name)
        question, terms = self._reader.question, self._reader.terms
        if judged_call(call, question, terms, "", self.message) is not None:
            self.misfit = True
            return
        self._repaired()
        self._events.append(CallFinished(len(self.message.calls) - 1, call_of(call, question)))
