"""Work units: the bound on what one constraint may compute, the same on every machine.

Whoever computes something whose size the input decides calls `spend`: a derivative, a node of a normal form, a
conjunction tried, a thousand nodes of a trie.  One unit stands for about a microsecond of one core.  The budget is that
of the innermost `metered` block of the thread; outside of any block work is free, so that the modules below need not
know who asks.

What counts is work that is done: results that a cache already holds cost nothing, and what was published before a
budget ran out stays valid, so that a second try with more units goes on where the first one stopped.  So the units of
an operation in a process that has done nothing before are the same in every process and on every machine, and nowhere
are there more: what is accepted there is accepted everywhere.  What is refused there can only be accepted where
something like it was met before.

A `Budget` may also carry a deadline (wall time) and a `cancelled` callback for callers that need them; both are asked
every `CHECK` units.  A budget that lives as long as a constraint is a leaky bucket: every operation that computes gives
a share back, so that what one input costs a token is bounded, and a generation whose every token takes some thirty
milliseconds never runs out.  Left out on purpose: a bound on memory, which the caches themselves keep.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import ref

import constrained.caches as caches
from constrained.errors import LimitExceeded

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparisonT

try:
    import constrained._work as _work
except ImportError:  # no compiler
    _work = None

MAX_WORK = 1_000_000  # units; about one second of one core
CHECK = 1_000  # units between two looks at the clock
PIECE = 10_000  # texts or numbers that are sorted in one call
NO_LIMIT = 1 << 62
MORE_WORK = "do it in: with constrained.work.metered(constrained.work.Budget(…)):"


class Preempted(BaseException):
    """Somebody else waits for what this work holds: it stops at once, and whoever began it goes on elsewhere.

    Never reaches a caller of the package, and no `except Exception` on the way may catch it.
    """


class Placed(Protocol):
    """What can say where it comes from."""

    @property
    def place(self) -> str: ...


class PlainBudget:
    """Units of work that may still be done.

    limit: units (None: no bound).  deadline: seconds from now, or from the last `renew`.  cancelled: asked now and
    then; true ends the work.  share: units that `renew` gives back.
    wanted: asked as often; true ends the work by `Preempted`.  remedy: what allows more, for the error.
    Invariant: `left` only falls, but for `renew` and `refill`.
    """

    __slots__ = (
        "at", "cancelled", "deadline", "left", "limit", "remedy", "share", "wanted", "whole", "_next_check", "_until",
    )  # fmt: skip

    def __init__(
        self,
        limit: int | None = MAX_WORK,
        *,
        deadline: float | None = None,
        cancelled: Callable[[], bool] | None = None,
        share: int = 0,
        remedy: str = MORE_WORK,
    ) -> None:
        self.limit, self.remedy = limit, remedy
        self.at: Placed | None = None  # what was looked at last
        self.whole: str | None = None  # what it is all about, where no smaller place is known
        self.left = NO_LIMIT if limit is None else limit
        self.cancelled, self.deadline, self.share = cancelled, deadline, share
        self.wanted: Callable[[], bool] | None = None
        self._until = None if deadline is None else time.monotonic() + deadline
        self._next_check = max(self.left - CHECK, 0)

    def refill(self, units: int) -> None:
        """Give units back, up to the limit."""
        self.left = min(self.left + units, NO_LIMIT if self.limit is None else self.limit)
        self._next_check = max(self.left - CHECK, 0)

    def renew(self, done: int = 0) -> None:
        """Begin another operation: a little is given back, and the deadline counts from now.

        done: units that are taken off without a look, as the operation has ended by now.
        """
        left = self.left + self.share  # `refill` written out
        limit = NO_LIMIT if self.limit is None else self.limit
        left = left if left < limit else limit
        self.left = left - done
        self._next_check = left - CHECK if left > CHECK else 0
        if self.deadline is not None:
            self._until = time.monotonic() + self.deadline

    def spend(self, units: int) -> None:
        """Take units off.

        Raises: LimitExceeded: there were not as many left, the deadline has passed, or the caller has cancelled.
        """
        self.left -= units
        if self.left < self._next_check:
            _look(self)

    def spend_nearby(self, units: int) -> None:
        """As `spend`, for work without a place: an error names what was looked at last."""
        try:
            self.spend(units)
        except LimitExceeded as error:
            if error.where is not None or self.at is None:
                raise
            raise LimitExceeded(error.what, where=self.at.place, because=error.because, instead=error.instead) from None

    def placed(self, error: LimitExceeded) -> LimitExceeded:
        """Return an error that names the whole, if it names no place."""
        if error.where is not None:
            return error
        return LimitExceeded(error.what, where=self.whole, because=error.because, instead=error.instead)


class FullCollections:
    """Puts off Python's full collections while work is done, as each stops all threads to look at every object: those
    that an operation of a second has made are half a million, 0.25 s of it.

    A server says so once, `full_collections.enabled = True`, as thresholds are those of the whole process: elsewhere
    a host may need its full collections, of tensors in circles for one.  They come when nobody has worked for a second
    (`SHORT`), or once in a minute (`LONG`) of work without end.  Young objects are collected as ever, and hosts that
    have disabled the collector keep that.
    Threads: two that put off at once do the same; whoever finds the threshold raised leaves it to who raised it.
    """

    SHORT, LONG = 1.0, 60.0
    NEVER = 1 << 30  # young collections before a full one

    def __init__(self) -> None:
        self.enabled = False
        self._hosts: tuple[int, int, int] | None = None  # thresholds to restore
        self._since = self._last = 0.0
        self._owed = False  # it is the collector's turn

    def put_off(self) -> None:
        """Note that somebody works.  Cost: 0.2 µs."""
        self._last = time.monotonic()
        if self._hosts is None and not self._owed and gc.isenabled():
            thresholds = gc.get_threshold()
            if thresholds[2] != self.NEVER:
                if self.note not in gc.callbacks:
                    gc.callbacks.append(self.note)
                self._hosts, self._since = thresholds, self._last
                gc.set_threshold(thresholds[0], thresholds[1], self.NEVER)

    def note(self, phase: str, info: dict[str, int]) -> None:
        """Restore what the host had, when a young collection finds that the time has come."""
        if info["generation"] == 2:
            self._owed = False
        hosts, now = self._hosts, time.monotonic()
        if hosts is not None and phase == "stop" and (now > self._last + self.SHORT or now > self._since + self.LONG):
            self._owed, self._hosts = now <= self._last + self.SHORT, None
            if gc.get_threshold()[2] == self.NEVER:
                gc.set_threshold(*hosts)


full_collections = FullCollections()


def _look(budget: PlainBudget) -> None:
    """Ask whether a budget has run out, the deadline has passed, or somebody ends the work."""
    if full_collections.enabled:
        full_collections.put_off()
    if budget.left < 0:
        budget.left = 0  # so that what the next operation is given counts
        raise LimitExceeded(
            "too much work",
            where=place(),
            because=f"it takes more than {budget.limit:,} units of work, about {budget.limit / MAX_WORK:.3g} s"
            if budget.limit
            else "no work is allowed",
            instead=f"simplify it there, or {budget.remedy}",
        )
    budget._next_check = max(budget.left - CHECK, 0)
    if budget._until is not None and time.monotonic() > budget._until:
        raise LimitExceeded(
            "out of time",
            where=place(),
            because="the deadline has passed",
            instead="allow more time; what is done stays done",
        )
    if budget.cancelled is not None and budget.cancelled():
        raise LimitExceeded("cancelled", where=place(), because="the caller cancelled the work")
    if budget.wanted is not None and budget.wanted():
        raise Preempted


_forkable: set[ref[Any]] = set()


def unlocked_at_fork(owner: Any) -> None:
    """See to it that the child of a fork calls `owner.unlock()`: whoever held its lock in another thread is not there
    to let go of it.
    """
    # As a `WeakSet` does, whose methods are calls of Python
    _forkable.add(ref(owner, _forkable.discard))


def _forked() -> None:
    for known in list(_forkable):
        owner = known()
        if owner is not None:
            owner.unlock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class _ThreadWork(threading.local):
    """What this thread works on: its budget, and the names of the places, outermost first."""

    def __init__(self) -> None:
        self.budget: Budget | None = None
        self.places: list[str] = []


# `thread.budget` is restored by assignment, not by a call: a signal may come at the beginning of any Python function,
# and a budget that stayed behind would be charged for all that the thread does from then on.
thread = _ThreadWork()


def plain_spend(units: int = 1, at: Placed | None = None) -> None:
    """Take units off the thread's budget, if it has one; at: what is being looked at, for the work that knows no place.

    Cost: 0.1 µs.  `budget.spend(units)` written out, as a schema's compilation calls this a hundred times.
    Raises: LimitExceeded: the budget is spent; `where` names the place that was being worked on.
    """
    budget = thread.budget
    if budget is not None:
        if at is not None:
            budget.at = at
        budget.left = left = budget.left - units
        if left < budget._next_check:
            _look(budget)


def plain_spend_nearby(units: int) -> None:
    """As `spend`, for work without a place of its own; see `Budget.spend_nearby`."""
    budget = thread.budget
    if budget is not None:
        left = budget.left - units
        if left < budget._next_check:
            budget.spend_nearby(units)
        else:
            budget.left = left


if TYPE_CHECKING or _work is None:
    Budget = PlainBudget
    spend, spend_nearby = plain_spend, plain_spend_nearby
else:
    Budget, spend, spend_nearby, taken = _work.Budget, _work.spend, _work.spend_nearby, _work.taken
    _work.use(
        thread, look=_look, nearby=PlainBudget.spend_nearby, placed=PlainBudget.placed, now=time.monotonic,
        defaults=(MAX_WORK, MORE_WORK), check=CHECK,
    )


Item = TypeVar("Item")


def frozen_in_turns(items: Collection[Item]) -> frozenset[Item]:
    """As `frozenset`: many are entered in parts, see `sorted_in_turns`."""
    if len(items) <= PIECE:
        return frozenset(items)
    items_so_far, left = set[Item](), iter(items)
    while part := [*islice(left, PIECE)]:
        items_so_far.update(part)
    return frozenset(items_so_far)


def sorted_in_turns(found: Iterable[SupportsRichComparisonT]) -> list[SupportsRichComparisonT]:
    """As `sorted`: many are sorted in parts, as other threads wait for the end of a call of C; equal ones may move."""
    every = list(found)
    if len(every) <= PIECE:
        return sorted(every)
    bounds = sorted(every[:: PIECE >> 1])
    parts: list[list[SupportsRichComparisonT]] = [[] for _ in range(len(bounds) + 1)]
    for start in range(0, len(every), PIECE):
        piece, at = sorted(every[start : start + PIECE]), 0
        for part, bound in zip(parts, bounds, strict=False):
            end = bisect_right(piece, bound, at)
            part += piece[at:end]
            at = end
        parts[-1] += piece[at:]
    return [item for part in parts for item in sorted(part)]


def let_go(*tables: Any) -> None:
    """Empty lists, sets and dictionaries, and then those inside, part after part: other threads wait for the end of a
    call of C that lets go of all.
    """
    parts = [*tables]
    for at, part in enumerate(parts):
        if at >= len(tables) and len(parts) > PIECE:
            break
        if type(part) in (dict, list, set):
            parts += part.values() if type(part) is dict else part
            part.clear()
    while parts:
        parts.pop()


def current() -> Budget | None:
    """Return the thread's budget."""
    return thread.budget


def begin(budget: Budget, *, hurried: bool = False) -> None:
    """Count against a budget from now on, as one operation; hurried: see `caches.begin`::

        outer = thread.budget
        try:
            begin(budget)
            ...
        finally:
            thread.budget = outer

    `metered` costs 1 µs, as much as a step of a matcher; this 0.2.
    """
    if thread.budget is not budget:
        budget.renew()
        caches.begin(hurried=hurried)
        thread.budget = budget


def place() -> str | None:
    """Return the places being worked on, outermost first, as an error names them."""
    return " ".join(thread.places) or None


@contextmanager
def metered(budget: Budget | None = None, *, units: int = MAX_WORK) -> Iterator[Budget]:
    """Count the work of the block against a budget: this one, else the one that already counts, else a new one of so
    many units.
    """
    outer = thread.budget
    mine = budget or outer or Budget(units)
    if outer is None:
        caches.begin()
    thread.budget = mine
    try:
        yield mine
    finally:
        thread.budget = outer


@contextmanager
def working_on(what: str) -> Iterator[None]:
    """Name the place of the work in the block: a JSON pointer, a rule, a pattern.

    >>> with working_on("rule start"), working_on("pattern 'a+'"):
    ...     place()
    "rule start pattern 'a+'"
    """
    thread.places.append(what if len(what) <= 200 else what[:199] + "…")
    try:
        yield
    finally:
        thread.places.pop()
