"""The diagnosis of a rejected text: where the fault begins, what could have come there, what else is wrong; in words.

If the simulation cannot read a text, a second one tries that also knows calls which are plainly meant as calls (the
rules ``broken_x``).  Where it gets further, the fault is in such a call: a third one reads only the call, so that
neither answers, which may hold nearly everything, nor what follows hide the place.  What the second simulation can read
to the end had the right structure, and the fault is one of syntax.

Threads often notice late that something is wrong: an answer may not hold ``<tool_call>``, and dies at its last
character.  So the place is where the text began that is refused, and in a literal where its word began.  It is given
four ways (line and column, byte, message and call, JSON pointer), with the line itself and a caret below it.

Tested by tests/test_rejections.py: the whole error of some 700 texts, in which a person has marked the fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from constrained.errors import Rejected
from constrained.formats.definition import ACCEPTED
from constrained.formats.payload.value_reader import Ahead
from constrained.formats.read.assemble import Assembler
from constrained.formats.read.inputs import Turn
from constrained.formats.read.network import Network, NodeKind
from constrained.formats.read.question import BROKEN, Question
from constrained.formats.read.simulation import Failure, Marked, Simulation, Thread, Trail, marks_of

_LINE = 72  # characters of a line in a message
_NOUNS = {"assistant_turn": "turn", "conversation": "transcript", "tool_call": "tool call"}
# parts of a call in which a text that breaks off is a matter of syntax
_PAYLOAD = frozenset({"arguments", "key", "value"})
_SHOWN = 20  # characters of what cannot stand somewhere
_FIRST_WINDOW = 1_000  # characters that are read before it is looked whether more is needed; the next ones are longer
_WINDOW = 200  # characters in which the beginning of what is refused is looked for
_MOST_CALLERS = 50  # of a thread, in which the name of a rule is looked for
_COPY = re.compile(r"_[0-9]+$")  # of a rule, which look-ahead made
_KEY = re.compile(r"""'"\w+"'""")  # as `PatternState.spelled` shows it
_SIGNS = frozenset("</|\"'{[( \n")  # with which literals begin that are no words


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong at a place: see `Rejected` for the names."""

    place: int
    layer: str
    because: str
    expected: str | None = None
    rule: str | None = None
    message: int | None = None
    call: int | None = None
    pointer: str | None = None
    keyword: str | None = None
    schema_pointer: str | None = None


class TextPlaces:
    """Places of a text as lines, columns and bytes, counted on from the place that was asked for before."""

    def __init__(self, text: str, start: int) -> None:
        self._text, self._start = text, start
        self._at, self._line, self._line_start, self._byte = start, 1, start, 0

    def of(self, place: int) -> tuple[int, int, int]:
        """Return line, column and byte of a place."""
        text = self._text
        if place < self._at:
            self._at, self._line, self._line_start, self._byte = self._start, 1, self._start, 0
        self._line += text.count("\n", self._at, place)
        self._line_start = max(self._line_start, text.rfind("\n", self._at, place) + 1)
        self._byte += len(text[self._at : place].encode())
        self._at = place
        return self._line, place - self._line_start + 1, self._byte

    def shown(self, place: int) -> str:
        """Return the line of a place, if anything is in it, cut to what a person sees at once, and a caret below it."""
        text, low = self._text, max(self._start, place - _LINE // 2)
        low = max(text.rfind("\n", low, place) + 1, low)
        high = text.find("\n", place, low + _LINE)
        high = min(high if high >= 0 else len(text), low + _LINE)
        line = "".join(char if char.isprintable() else "·" for char in text[low:high])
        return f"{line}\n{' ' * (place - low)}^" if line else ""


def rejected(wrong: Iterable[Wrong], text: str, start: int, kind: str, format_name: str) -> Iterator[Rejected]:
    """Yield the errors for a text that begins at `start` of what was read."""
    places = TextPlaces(text, start)
    for entry in wrong:
        place = max(entry.place, start)
        yield _rejected(entry, places.of(place), places.shown(place), kind, format_name)


def _rejected(wrong: Wrong, place: tuple[int, int, int], shown: str, kind: str, format_name: str) -> Rejected:
    line, column, position = place
    where = [f"line {line} column {column} (byte {position})"]
    where += [f"message {wrong.message}"] if wrong.message is not None and kind == "conversation" else []
    where += [f"call {wrong.call}"] if wrong.call is not None else []
    where += [f"arguments {wrong.pointer}"] if wrong.pointer else []
    rules = [
        f"format {format_name}", *([f"rule {wrong.rule}"] if wrong.rule else []),
        *([f"schema {wrong.schema_pointer}"] if wrong.schema_pointer else []),
    ]
    return Rejected(
        f"{_NOUNS[kind]} rejected", where=", ".join(where), because=f"{wrong.because} ({', '.join(rules)})",
        instead=f"expected: {wrong.expected}" if wrong.expected else None, position=position, expected=wrong.expected,
        shown=shown, layer=wrong.layer, line=line, column=column, message=wrong.message, call=wrong.call,
        pointer=wrong.pointer, rule=wrong.rule, keyword=wrong.keyword, schema_pointer=wrong.schema_pointer,
    )


# -- finding out -------------------------------------------------------------------------------------------------------


class Attempt:
    """A network's reading of a text from a place on, as far as it gets."""

    def __init__(self, question: Question, network: Network, whole: Turn, start: int = 0) -> None:
        self.question, self.whole, self.network, self.start = question, whole, network, start
        self.simulation = self.read(len(whole.text))

    def read(self, end: int) -> Simulation:
        """Return the simulation that has read up to a place."""
        simulation = Simulation(self.network, at=self.start)
        at, size = self.start, _FIRST_WINDOW
        while at < end and simulation.failure is None:
            to = min(self.whole.outside(at + size), end)
            simulation.read(self.whole.part(at, to).pieces())
            at, size = to, size * 4
        return simulation

    @property
    def threads(self) -> tuple[Thread, ...]:
        """The threads where it ended, or before it failed."""
        failure = self.simulation.failure
        return failure.threads if failure is not None else tuple(self.simulation.alive())


def diagnosed(
    question: Question, whole: Turn, *, partial: bool, all_errors: bool
) -> tuple[Trail | None, bool, list[Wrong]]:
    """Return the marks of what could be read, whether that is all, and what is wrong, the first first."""
    attempt = Attempt(question, question.network, whole)
    second = Attempt(question, question.lenient, whole) if question.kind != "tool_call" else attempt
    trail = second.simulation.accepted()
    complete = not isinstance(trail, bool)
    if isinstance(trail, bool):
        trail = second.threads[0].trail if second.threads else None
    layer = "syntax" if complete else _layer(attempt, partial=partial)
    first = wrong_of(attempt, layer)
    broken = _broken_calls(marks_of(trail), question, whole.text)
    faults = (wrong for call in broken if (wrong := _within(call, question, whole)) is not None)
    wrongs = [*islice(faults, None if all_errors else 1)]
    if not wrongs or wrongs[0].place > first.place:
        wrongs = [first, *wrongs]
    elif layer == "structure" and wrongs[0].place == first.place:
        wrongs[0] = first
    if not complete and question.kind == "conversation":
        last = wrong_of(second, "structure")
        wrongs += [last] if last.place > wrongs[-1].place else []
    return trail, complete, wrongs


def _layer(attempt: Attempt, *, partial: bool) -> str:
    """Return the layer of what stopped a simulation, where it is not plainly a broken call."""
    failure, kind = attempt.simulation.failure, attempt.question.kind
    if failure is not None and failure.token is not None:
        return "structure"
    if kind == "tool_call" or partial and failure is not None and failure.fault is not None:
        return "syntax"  # (a call whose end may still come)
    inside = (
        failure is None and kind == "assistant_turn" and any(_in_payload(thread, attempt) for thread in attempt.threads)
    )
    return "syntax" if inside else "structure"


def _in_payload(thread: Thread, attempt: Attempt) -> bool:
    node = thread.node
    if node.kind is NodeKind.NATIVE or node.kind is NodeKind.TEXT and node.then[0].kind is NodeKind.NATIVE:
        return True
    sofar = Assembler(attempt.question).take(marks_of(thread.trail), attempt.whole.text)
    parts = {what for what, _ in sofar.open if what is not None}
    return any(part in _PAYLOAD or part.endswith("_value") for part in parts)


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """A rule ``broken_x`` that was read: where it begins, and the numbers of the messages and of the message's complete
    calls before it.
    """

    rule: str
    begin: int
    messages: int
    calls: int


def _broken_calls(marks: Iterable[Marked], question: Question, text: str) -> Iterator[BrokenCall]:
    assembler = Assembler(question)
    counted, ended, complete = 0, 0, 0  # of that many messages the last one's calls that have ended, and are complete
    for mark in marks:
        begins, rule, place, _ = mark
        if begins and rule.startswith(BROKEN):
            messages = assembler.messages
            calls = messages[-1].calls if messages else []
            if counted != len(messages):
                counted, ended, complete = len(messages), 0, 0
            last = max(len(calls) - 1, 0)
            complete += sum([call.complete for call in calls[ended:last]])
            ended = last
            yield BrokenCall(rule, place, len(messages), complete + sum([call.complete for call in calls[last:]]))
        assembler.take([mark], text)


def _within(broken: BrokenCall, question: Question, whole: Turn) -> Wrong | None:
    """Return what is wrong inside a broken call; None where it can be read."""
    attempt = Attempt(question, question.part(broken.rule), whole, broken.begin)
    if attempt.simulation.failure is None or any(thread.node.kind is NodeKind.END for thread in attempt.threads):
        return None
    return replace(wrong_of(attempt, "syntax"), message=max(broken.messages, 1), call=broken.calls + 1)


def wrong_of(attempt: Attempt, layer: str) -> Wrong:
    """Return where an attempt stopped, or that the text ended too early."""
    question, text, simulation, threads = attempt.question, attempt.whole.text, attempt.simulation, attempt.threads
    failure, place, because = simulation.failure, simulation.place, "it ends too early"
    if failure is not None:
        place, end = failure.place, failure.place + _SHOWN
        if failure.token is None and failure.fault is None:
            place, end = _refused_span(threads, text, failure.place)
        because = because_of(failure, text[place:end])
        threads = threads if place == failure.place else tuple(attempt.read(place).alive())
        if failure.token is None and failure.fault is None and text[place] == "}":
            because = _missing(attempt, place) or because
    broken = BROKEN, ACCEPTED + BROKEN
    threads = tuple([one for one in threads if not any(owner.startswith(broken) for owner in one.owners)]) or threads
    expected, rule = expected_by(threads)
    sofar = Assembler(question).take(marks_of(threads[0].trail if threads else None), text)
    message = len(sofar.messages) if sofar.messages else None
    inside = any(name == "tool_call" or name in question.slots.builtins for name, _ in sofar.open)
    call = len(sofar.messages[-1].calls) if inside and sofar.messages else 1 if question.kind == "tool_call" else None
    if failure is not None and failure.fault is not None:
        fault = failure.fault
        return Wrong(fault.at, layer, because, fault.expected, rule, message, call, fault.pointer)
    pointer = next((thread.state.reader.pointer for thread in threads if isinstance(thread.state, Ahead)), None)
    return Wrong(place, layer, because, expected, rule, message, call, pointer)


def _missing(attempt: Attempt, place: int) -> str | None:
    """Return which key an object lacks that ends at a place; None: it is not seen, or another could be written."""
    longer = Turn(",", ()).behind(attempt.whole.part(0, place))
    further = Attempt(attempt.question, attempt.network, longer, attempt.start)
    wanted = "" if further.simulation.failure is not None else expected_by(further.threads)[0]
    keys = [word[1:-1] for word in wanted.split(", ") if _KEY.fullmatch(word)]
    return f"the key {' or '.join(keys)} is missing" if keys else None


def _refused_span(threads: tuple[Thread, ...], text: str, place: int) -> tuple[int, int]:
    """Return where the text begins that threads refuse, and where it is plain to be refused."""
    literals = [thread for thread in threads if thread.node.kind is NodeKind.TEXT]
    patterns = [thread for thread in threads if thread.node.kind is NodeKind.PATTERN]
    if any(thread.node.kind is NodeKind.NATIVE for thread in threads):
        return place, place + _SHOWN
    words = [int(thread.state) - _word_start(thread.node.value, thread.state) for thread in literals]
    words += [size for thread in patterns if (size := _read_of_key(thread, text, place))]
    if words and len(literals) + len(patterns) == len(threads) and all(thread.state for thread in literals):
        return place - min(words), place - min(words) + _SHOWN
    start = min((_refused(thread, text, place) for thread in patterns), default=place)
    return start, place + (1 if start < place else _SHOWN)


def _refused(thread: Thread, text: str, place: int) -> int:
    """Return where the shortest text begins that ends at a place and is no beginning of what the thread reads."""
    low = max(place - _WINDOW, thread.trail.place if thread.trail is not None else 0)
    after = thread.node.value.after
    return next((start for start in range(place, low - 1, -1) if after(text[start : place + 1]) is None), place)


def _read_of_key(thread: Thread, text: str, place: int) -> int:
    """Return how many characters a thread has read of a word between quotes, whose spellings are its pattern."""
    word, most = thread.node.value.spelled(), min(_WINDOW, place)
    if word is None or not _KEY.fullmatch(word):
        return 0
    after = thread.node.value.after
    return next((size for size in range(most) if after(text[place - size : place]) is thread.state), 0)


def _word_start(literal: str, at: int) -> int:
    """Return where the word begins of which a literal's character at a place is; 0 where only signs stand before it."""
    start = at
    while start and _is_word(literal[start - 1]) and _is_word(literal[at]):
        start -= 1
    return 0 if set(literal[:start]) <= _SIGNS else start


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


# -- words -------------------------------------------------------------------------------------------------------------


def because_of(failure: Failure, rest: str) -> str:
    """Return why reading stopped; `rest`: what is wrong, from where it begins."""
    if failure.fault is not None:
        return failure.fault.because
    if failure.token is not None:
        return f"the token {failure.token!r} cannot stand here"
    return f"{rest!r} cannot stand here" if rest else "it ends too early"


def expected_by(threads: tuple[Thread, ...]) -> tuple[str, str | None]:
    """Return what could have come, and the rule that the best thread was reading; white space only where nothing else
    could.
    """
    telling = [thread for thread in threads if not _is_space(thread)]
    words: dict[str, None] = {}
    for thread in telling or threads:
        words[_expected(thread)] = None
    rule = next((name for thread in telling or threads for name in _rules(thread)), None)
    listed = list(words)
    shown = ", ".join(listed[:6]) + (", …" if len(listed) > 6 else "")
    return shown, rule


def _expected(thread: Thread) -> str:
    node, state = thread.node, thread.state
    if node.kind is NodeKind.TEXT:
        return repr(node.value[state:][:40])
    if node.kind is NodeKind.TOKEN:
        return str(node.value).replace("\n", "\\n")
    if node.kind is NodeKind.NATIVE:
        return str(state.reader.expected)
    if node.kind is NodeKind.PATTERN:
        names = list(_rules(thread))
        name = "white space" if _is_space(thread) else names[0] if names else "text"
        return (state.spelled() or name) if state is node.value else f"more {name}"
    return "the end"


def _is_space(thread: Thread) -> bool:
    """Return whether a thread reads white space and nothing else; in Python a comment and a joined line are that."""
    return thread.node.kind is NodeKind.PATTERN and all(
        high - low < 16 and all(chr(code).isspace() or chr(code) in "#\\" for code in range(low, high + 1))
        for low, high in thread.state.ranges
    )


def _rules(thread: Thread) -> list[str]:
    """Return the named rules that a thread is in, the innermost first."""
    names: list[str] = []
    for node in islice(thread.callers(), _MOST_CALLERS):
        name = _COPY.sub("", node.owner.removeprefix(ACCEPTED).partition("{")[0])
        if not name.startswith("_") and "__" not in name:
            names.append(name)
    return names
