"""Warming: visit the states that a generation will likely get to, so that their masks are known when it does.

First the states along a text that has all keys in the order of the schema, see `typical`.  Then the parts that masks
are put together of: the edges of all machine states and the masks of texts, see `Preparation`.  Then other
states.  Texts are tried best first: what is dictated costs nothing, a choice among n
continuations costs each of them log n, so required parts and small choices come before the insides of large ones.
Where names and values that a schema mentions may be spelled, nothing else is.  Of bytes that lead to one state only one
is followed, blanks last.  A text is cut into the tokens that the tokenizer would choose, as far as it is known, and the
mask behind each is asked for.

Between texts other threads may run; one that waits for the kernel while a mask takes long ends the call, and the next
one goes on from there.  Nothing is kept here but the paths: what a visit teaches is in the kernel, within its bound.
Visits count against a budget of their own, so that a generation has its own left.

Tested in tests/test_stored.py: masks are those of a constraint that was not warmed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.engine.ahead import preparation
from constrained.engine.matcher import Matcher
from constrained.engine.tokens.bitmask import number
from constrained.engine.typical import TypicalText, following_keys
from constrained.errors import ConstrainedError, LimitExceeded, Rejected, VocabularyError, shown
from constrained.grammar.ir import Embedded
from constrained.work import Budget, Preempted, metered

if TYPE_CHECKING:
    from constrained.engine.compiled import CompiledGrammar

MOST_PLACES = 10_000  # that are remembered, to be written down
_MOST_FORCED = 200  # bytes that are followed at once
_SLICE = 0.001  # seconds after which other threads may run
_SHARE = 8  # part of a constraint's units that one text may take
_BLANKS = b" \n\r\t"
_BLANK = 4.0  # what a blank costs, where something else could stand
_FEW, _MANY = 3, 16  # bytes that are followed where more than so many differ, as in names of an open object
_MOST_WORDS = 20_000
_RANK = [(byte >= 128, byte in _BLANKS, byte != 0x20, not chr(byte).isalnum(), byte) for byte in range(256)]

Place = tuple[int, int]  # the place before it, -1: the start; the token between
# cost, number, the place where the text begins, the text, the state behind it
_Text = tuple[float, int, int, bytes, int]


class Explorer:
    """The places of a constraint that have been visited, in order; more of them with every `explore`.

    Invariant: `places[i][0] < i`; `_cursors` has a cursor at every place that was visited here.
    """

    def __init__(self, constraint: CompiledGrammar) -> None:
        self._constraint = constraint
        self.places: list[Place] = []
        self._kernel: Any = None
        # places that were written down; how many of them have been visited again, and which places these are here
        self._noted: Sequence[Place] = ()
        self._again = 0
        self._found = {-1: -1}

    def _begin(self) -> None:
        """Forget what belongs to a kernel, and begin in the present one."""
        if self._kernel is None:
            self._words = _beginnings(self._constraint)
        start = _cursor(self._constraint)
        self._cursors: dict[int, Matcher] = {-1: start}
        self._numbers: dict[Place, int] = {}
        self._masked: set[int] = set()
        self._seen = {start._path[-1]}
        self._todo: list[_Text] = [(0.0, 0, -1, b"", start._path[-1])]
        self._row = np.zeros((1, self._constraint.vocabulary.words), np.int32)
        self._preparation = preparation(self._constraint, start._kernel)
        self._ahead: list[int] | None = None  # tokens of a typical text that are still to be read, the next one last
        self._reached = -1  # the place behind those that were
        # of masks: others need not wait for one that takes long
        self._patient = self._constraint.options.budget()
        self._patient.wanted = start._kernel.is_wanted
        self._kernel = start._kernel  # last: a call that is broken off here is as good as none

    def explore(self, seconds: float | None, states: int | None, cancelled: Callable[[], bool] | None) -> int:
        """Visit places until there are no more, or a bound is met; return how many masks were asked for.

        Raises: ConstrainedError: no bound is given, or one that is no number.
        """
        given = [value for value in (seconds, states) if value is not None]
        number = (int, float)
        if not given or any(type(value) is bool or not isinstance(value, number) or not value >= 0 for value in given):
            what = f"cannot warm for {shown(seconds)} seconds, {shown(states)} states"
            raise ConstrainedError(what, because="one of them is a number", instead="warm(0.05), warm(states=100)")
        try:
            return self._explore(seconds, states, cancelled)
        except Preempted:
            return 0  # others wait for the kernel, or it was emptied: the next call goes on in another

    def _explore(self, seconds: float | None, states: int | None, cancelled: Callable[[], bool] | None) -> int:
        rest = time.monotonic()
        until = None if seconds is None else rest + seconds
        if self._constraint.place()[0] is not self._kernel:
            self.places, self._found = [], {-1: -1}
            self._begin()
        before = len(self._masked)

        def over() -> bool:
            enough = states is not None and len(self._masked) - before >= states
            late = until is not None and time.monotonic() >= until
            return enough or late or (cancelled is not None and cancelled())

        if not (self._read_ahead(over) and self._prepare(states, over) and self._repeat(over)):
            return len(self._masked) - before
        while self._todo and len(self.places) < MOST_PLACES and self._has_room() and not over():
            cost, order, place, text, state = heappop(self._todo)
            try:
                with metered(self._budget()):
                    end = self._read(place, text)
                    if end is not None:
                        self._follow(cost, place, text, state, end)
            except LimitExceeded:
                continue  # too much work here; elsewhere may be less
            except Preempted:
                if self._kernel.is_gone():
                    raise
                heappush(self._todo, (cost + 1.0, order, place, text, state))  # what was learned stays
                break
            if (now := time.monotonic()) >= rest:
                time.sleep(0)
                rest = now + _SLICE
        return len(self._masked) - before

    def _prepare(self, most: int | None, over: Callable[[], bool]) -> bool:
        """Make what all masks are made of, at most so many parts; say whether masks may follow."""
        prepared = 0
        while self._preparation is not None and prepared != most and self._has_room():
            if over():
                return False
            try:
                if not self._preparation.go_on(self._budget()):
                    self._preparation = None
            except LimitExceeded:
                pass  # too much work here; elsewhere may be less
            prepared += 1
        return True

    def _read_ahead(self, over: Callable[[], bool]) -> bool:
        """Visit the places along a typical text; say whether there is time left for others."""
        try:
            with metered(self._budget()):
                if self._ahead is None:
                    self._ahead = self._typical(over)[::-1]
                    self._mask(self._cursors[-1])
                while self._ahead and self._has_room():
                    if over():
                        return False
                    found = self._step(self._reached, self._ahead[-1])
                    if found is None:
                        self._ahead = []
                    else:
                        self._reached = found
                        self._ahead.pop()
        except LimitExceeded:
            self._ahead = []  # too much work here; elsewhere may be less
        return True

    def _typical(self, over: Callable[[], bool]) -> list[int]:
        kernel, start = self._kernel, self._cursors[-1]._path[-1]
        following = following_keys(_sources(self._constraint))
        text = TypicalText(start, kernel.step_bytes, self._likely, following).write(over)
        try:
            return list(self._constraint.vocabulary.tokenize(text)) if text else []
        except VocabularyError:
            return []

    def _budget(self) -> Budget:
        """Return what one text, or one part, may take."""
        most = self._constraint.options.max_work
        return Budget(None if most is None else most // _SHARE)

    def _has_room(self) -> bool:
        """Say whether the kernel may learn more."""
        constraint, kernel = self._constraint, self._kernel
        return not kernel.is_full() or constraint.vocabulary.kernels.may_grow(kernel, constraint.options.cache_bytes)

    def _read(self, place: int, text: bytes) -> int | None:
        """Visit the places along a text, cut into tokens; return the last, None if the vocabulary cannot spell it."""
        try:
            tokens = self._constraint.vocabulary.tokenize(text) if text else []
        except VocabularyError:
            return None
        self._mask(self._cursors[place])
        for token in tokens:
            found = self._step(place, token)
            if found is None:
                return None
            place = found
        return place

    def _step(self, place: int, token: int) -> int | None:
        """Return the place behind a token, visited; None if the token may not stand there."""
        known = self._numbers.get((place, token))
        if known is not None:
            return known
        cursor = self._cursors[place].copy()
        try:
            cursor.advance(token)
            self._mask(cursor)
        except Rejected:
            return None
        at = len(self.places)
        self._cursors[at] = cursor
        self.places.append((place, token))
        self._numbers[place, token] = at
        return at

    def _mask(self, cursor: Matcher) -> None:
        state = cursor._path[-1]
        if state >= 0 and state not in self._masked:
            cursor._kernel.fill(state, self._row, 0, self._patient)
            self._masked.add(state)

    def _follow(self, cost: float, place: int, text: bytes, state: int, end: int) -> None:
        """Note the texts that go on from `text`: one for each likely next byte or token, with what is forced behind
        it.
        """
        kernel = self._kernel
        names = sorted(kernel.named_tokens(state))
        bytes_ = self._choices(state, text)
        cost += log(max(len(names) + len(bytes_), 1))
        for token in names:
            behind = self._step(end, token)
            if behind is not None:
                self._find(cost, behind, b"", self._cursors[behind]._path[-1])
        for byte in bytes_:
            run, at = bytearray((byte,)), kernel.step_byte(state, byte)
            while (
                len(run) < _MOST_FORCED
                and at not in self._seen
                and not kernel.is_final(at)
                and not kernel.named_tokens(at)
            ):
                only = self._likely(at, text + run)
                if len(only) != 1:
                    break
                run += only
                at = kernel.step_byte(at, only[0])
            self._find(cost + _BLANK * (byte in _BLANKS), place, text + run, at)

    def _choices(self, state: int, text: bytes) -> list[int]:
        """Return the bytes that are followed: those of known names and values, where some may stand; else the first few
        that differ.
        """
        differ: dict[int, int] = {}
        for byte in sorted(self._likely(state, text), key=_RANK.__getitem__):
            differ.setdefault(self._kernel.step_byte(state, byte), byte)
            if len(differ) > _MANY:
                return list(differ.values())[:_FEW]
        return list(differ.values())

    def _likely(self, state: int, text: bytes) -> bytes:
        """Return the bytes that may come next, those of known names and values alone where there are such."""
        known = self._words.get(text.rpartition(b'"')[2], b"")
        return bytes(byte for byte in known if self._kernel.step_byte(state, byte)) or self._kernel.next_bytes(state)

    def _find(self, cost: float, place: int, text: bytes, state: int) -> None:
        if state >= 0 and state not in self._seen:
            self._seen.add(state)
            heappush(self._todo, (cost, len(self._seen), place, text, state))

    # -- places that were written down ---------------------------------------------------------------------------------

    def visited(self) -> list[Place]:
        """Return the places that have been visited, those that were written down included."""
        return self.places if self._again == len(self._noted) else list(self._noted)

    def remember(self, places: Sequence[Any]) -> None:
        """Note places that were written down, to visit them before others.

        Raises: ConstrainedError: they are no places.
        """
        if len(places) > MOST_PLACES + _MOST_FORCED:
            raise ConstrainedError(f"{len(places):,} places to visit", instead=f"at most {MOST_PLACES:,}")
        for at, place in enumerate(places):
            if not _is_place(place, at):
                raise ConstrainedError(
                    "no place to visit",
                    where=f"number {at}",
                    because=f"it is {shown(place)}",
                    instead="[the place before it, a token]",
                )
        self._noted, self._again = [(before, token) for before, token in places], 0
        self._found = {-1: -1}

    def _repeat(self, over: Callable[[], bool]) -> bool:
        """Visit the places that were noted; say whether there is time left for others."""
        while self._again < len(self._noted) and self._has_room():
            if over():
                return False
            before, token = self._noted[self._again]
            self._again += 1
            if before in self._found:
                try:
                    with metered(self._budget()):
                        found = self._step(self._found[before], token)
                except LimitExceeded:
                    continue
                except Preempted:
                    self._again -= 1
                    raise
                if found is not None:
                    self._found[self._again - 1] = found
        return True


def _cursor(constraint: CompiledGrammar) -> Matcher:
    """Return a cursor whose work is counted for itself."""
    cursor = Matcher(constraint)
    cursor._budget = constraint.options.budget()
    return cursor


def _beginnings(constraint: CompiledGrammar) -> dict[bytes, set[int]]:
    """Return the beginnings of the names and values that the grammar's schemas mention, and the bytes behind each; a
    quote stands behind the last.
    """
    found: dict[bytes, set[int]] = defaultdict(set)
    todo = list(_sources(constraint))
    for part in todo:  # which grows
        if len(todo) > _MOST_WORDS:
            break
        if isinstance(part, Mapping):
            for word in (*part.get("properties", ()), *_texts(part.get("enum")), *_texts([part.get("const")])):
                spelled = str(word).encode("utf-8", "replace")[:_MOST_FORCED] + b'"'
                for end, byte in enumerate(spelled):
                    found[spelled[:end]].add(byte)
            todo += part.values()
        elif isinstance(part, (list, tuple)):
            todo += part
    return found


def _sources(constraint: CompiledGrammar) -> Iterator[Any]:
    """Yield the schemas of a grammar, each with the documents that it may refer to."""
    machines = [symbol.machine for symbol in constraint.grammar.symbols() if isinstance(symbol, Embedded)]
    machines += [inner for machine in machines for inner in getattr(machine, "machines", ())]
    return (getattr(machine, "source", ()) for machine in machines)


def _texts(values: Any) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, (list, tuple)) else []


def _is_place(value: Any, at: int) -> bool:
    """Say whether something is the place of that number, as it was written down."""
    if type(value) is not list and type(value) is not tuple or len(value) != 2:
        return False
    before, token = value
    return type(before) is int and -1 <= before < at and (token >= 0 if type(token) is int else number(token) >= 0)
