"""Work before it is needed: visit the states that a generation will likely get to, so that their masks are known when
it does.

Texts are tried best first: what is dictated costs nothing, a choice among n continuations costs each of them log n, so
required parts and small choices come before the insides of large ones.  Where names and values that a schema mentions
may be spelled, nothing else is.  Of bytes that lead to one state only one is followed, blanks last.  A text is cut into
the tokens that the tokenizer would choose, as far as it is known, and the mask behind each is asked for.

Each text is a slice between which other threads may run.  Nothing is kept here but the paths: what a visit teaches is
in the kernel, within its bound.  Visits count against a budget of their own, so that a generation has its own left.

Tested in tests/test_stored.py: masks are those of a constraint that was not warmed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.engine.matcher import Matcher
from constrained.engine.tokens.bitmask import number
from constrained.errors import ConstrainedError, LimitExceeded, Rejected, VocabularyError, shown
from constrained.grammar.ir import Embedded
from constrained.work import Budget, metered

if TYPE_CHECKING:
    from constrained.engine.constraint import Constraint

MOST_PLACES = 10_000  # that are remembered, to be written down
_MOST_FORCED = 200  # bytes that are followed at once
_SHARE = 8  # part of a constraint's units that one text may take
_BLANKS = b" \n\r\t"
_BLANK = 4.0  # what a blank costs, where something else could stand
_FEW, _MANY = 3, 16  # bytes that are followed where more than so many differ, as in names of an open object
_MOST_WORDS = 20_000
_RANK = [(byte >= 128, byte in _BLANKS, not chr(byte).isalnum(), byte) for byte in range(256)]

Place = tuple[int, int]  # the place before it, -1: the start; the token between
# cost, number, the place where the text begins, the text, the state behind it
_Text = tuple[float, int, int, bytes, int]


class Explorer:
    """The places of a constraint that have been visited, in order; more of them with every `explore`.

    Invariant: `places[i][0] < i`; `_cursors` has a cursor at every place that was visited here.
    """

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self.places: list[Place] = []
        self._words = _beginnings(constraint)
        self._begin()

    def _begin(self) -> None:
        """Forget what belongs to a kernel."""
        start = _cursor(self._constraint)
        self._kernel = start._kernel
        self._cursors: dict[int, Matcher] = {-1: start}
        self._numbers: dict[Place, int] = {}
        self._masked: set[int] = set()
        self._seen = {start._path[-1]}
        self._todo: list[_Text] = [(0.0, 0, -1, b"", start._path[-1])]
        self._row = np.zeros((1, self._constraint.vocabulary.words), np.int32)

    def explore(self, seconds: float | None, states: int | None, cancelled: Callable[[], bool] | None) -> int:
        """Visit places until there are no more, or a bound is met; return how many masks were asked for."""
        until = None if seconds is None else time.monotonic() + seconds
        if self._constraint.place()[0] is not self._kernel:
            self.places = []
            self._begin()
        before = len(self._masked)
        while self._todo and len(self.places) < MOST_PLACES and self._has_room():
            if (states is not None and len(self._masked) - before >= states) or (
                until is not None and time.monotonic() >= until
            ):
                break
            if cancelled is not None and cancelled():
                break
            cost, _, place, text, state = heappop(self._todo)
            most = self._constraint.options.max_work
            try:
                with metered(Budget(None if most is None else most // _SHARE)):
                    end = self._read(place, text)
                    if end is not None:
                        self._follow(cost, place, text, state, end)
            except LimitExceeded:
                continue  # too much work here; elsewhere may be less
            time.sleep(0)
        return len(self._masked) - before

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
        self.places.append((place, token))
        at = self._numbers[place, token] = len(self.places) - 1
        self._cursors[at] = cursor
        return at

    def _mask(self, cursor: Matcher) -> None:
        state = cursor._path[-1]
        if state >= 0 and state not in self._masked:
            cursor.fill_mask(self._row)
            self._masked.add(state)

    def _follow(self, cost: float, place: int, text: bytes, state: int, end: int) -> None:
        """Find the texts behind one: each choice, and what it dictates."""
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
        likely = sorted(self._likely(state, text), key=_RANK.__getitem__, reverse=True)
        differ = list({self._kernel.step_byte(state, byte): byte for byte in likely}.values())[::-1]
        return differ if len(differ) <= _MANY else differ[:_FEW]

    def _likely(self, state: int, text: bytes) -> bytes:
        """Return the bytes that may come next, those of known names and values alone where there are such."""
        allowed = self._kernel.next_bytes(state)
        begun = text.rpartition(b'"')[2]
        return bytes(byte for byte in allowed if begun + bytes((byte,)) in self._words) or allowed

    def _find(self, cost: float, place: int, text: bytes, state: int) -> None:
        if state >= 0 and state not in self._seen:
            self._seen.add(state)
            heappush(self._todo, (cost, len(self._seen), place, text, state))

    # -- places that were written down ---------------------------------------------------------------------------------

    def visit(self, places: Sequence[Any]) -> int:
        """Visit places that were written down; return how many could be.

        Raises: ConstrainedError: they are none.
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
        known = {-1: -1}
        for at, (before, token) in enumerate(places):
            if before in known and self._has_room():
                try:
                    found = self._step(known[before], token)
                except LimitExceeded:
                    found = None
                if found is not None:
                    known[at] = found
        return len(known) - 1


def _cursor(constraint: Constraint) -> Matcher:
    """Return a cursor whose work is counted for itself."""
    cursor = Matcher(constraint)
    cursor._budget = constraint.options.budget()
    return cursor


def _beginnings(constraint: Constraint) -> set[bytes]:
    """Return the names and values that the grammar's schemas mention, each with a quote behind it, and all their
    beginnings.
    """
    found: set[bytes] = set()
    machines = [symbol.machine for symbol in constraint.grammar.symbols() if isinstance(symbol, Embedded)]
    machines += [inner for machine in machines for inner in getattr(machine, "machines", ())]
    todo = [getattr(machine, "source", ()) for machine in machines]
    for part in todo:  # which grows
        if len(todo) > _MOST_WORDS:
            break
        if isinstance(part, str):
            word = part.encode("utf-8", "replace")[:_MOST_FORCED] + b'"'
            found.update(word[:end] for end in range(1, len(word) + 1))
        elif isinstance(part, Mapping):
            todo += [*part.get("properties", ()), *part.values()]
        elif isinstance(part, (list, tuple)):
            todo += part
    return found


def _is_place(value: Any, at: int) -> bool:
    """Say whether something is the place of that number, as it was written down."""
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and type(value[0]) is int
        and -1 <= value[0] < at
        and number(value[1]) >= 0
    )
