"""Texts that are tried one after the other, short ones first, where each may be refused because it was written before.

What has been found is kept with where the search stands, so that the thousandth item of an array goes on where the one
before it stopped.  Blocks of texts that are all refused are passed over at once, by sets of what a `Dispatch` compares
(`Dispatch.compared`).

Tests: tests/test_budget_distinct.py, against a search that begins anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, TypeAlias

from constrained.engine.budget.characters import Way, characters, closing, spelled
from constrained.engine.twin.spelling import Spelling, decode
from constrained.engine.twin.text import DONE, TextAt
from constrained.errors import LimitExceeded
from constrained.machine import Dispatch, Language, MarkerSafe, Quoting
from constrained.work import spend_nearby

_TRIED = 20_000  # texts that are tried where each has to differ from earlier ones
_BLOCK = 32  # texts that are passed over at once
_RANGES = 4  # ranges that lead to the same language, so many of whose characters are tried
_FIRST = 8  # texts that are tried one by one: as a rule one of them is free

# bytes at least, way so far, tie break, the text's start and the language behind the way (None: it is complete)
Entry: TypeAlias = "tuple[int, Way, int, TextAt | None, Language | None]"
Body: TypeAlias = Callable[[Spelling, Language], Way]  # the shortest text of a language, see `TextWays.body`


@dataclass(slots=True)
class Search:
    """Where a best-first search stands; seen: what is not to be met again."""

    heap: list[Any]
    found: list[Any] = field(default_factory=list)
    seen: set[Hashable] = field(default_factory=set)
    ties: int = 0

    def __len__(self) -> int:
        return len(self.heap) + len(self.found) + len(self.seen)


class Resumed:
    """What a best-first search finds, as far as somebody has asked; it goes on where it stopped.

    begin: its first entries.  step: takes one entry, or nothing where it raises `LimitExceeded`.
    keep: told how many entries more are kept.
    Threads: a search belongs to who took it, until it is put back; who finds none begins one more, which finds the same
    in the same order.  PERF: with a copy for each who goes on, 450 blocks of an object of 100,000 keys took 4.9 s of
    one core, now 1.2.
    """

    __slots__ = ("_begin", "_idle", "_keep", "_step", "found")

    def __init__(
        self, begin: Callable[[], list[Any]], step: Callable[[Search], None], keep: Callable[[int], None]
    ) -> None:
        self._begin, self._step, self._keep = begin, step, keep
        self._idle: list[Search] = []
        self.found: list[Any] = []

    def search(self, end: int) -> None:
        """Go on until so many are found, or there are no more."""
        try:
            search = self._idle.pop()
        except IndexError:
            search = Search(self._begin())
        before = len(search)
        try:
            while search.heap and len(search.found) < end:
                self._step(search)
        except LimitExceeded:
            self._put_back(search, before)
            raise
        self._put_back(search, before)

    def _put_back(self, search: Search, before: int) -> None:
        self._keep(len(search) - before)
        if len(search.found) >= len(self.found):
            self.found, self._idle = search.found, [search]


class Candidates:
    """The spellings of the rest of texts, short ones first, as far as somebody has asked; `most` characters are tried
    of each range.

    Invariant: what is yielded depends on the position and `most` alone.
    keep: told how many texts more are kept.
    """

    __slots__ = ("_at", "_body", "_keep", "_keys", "_known", "_most")

    def __init__(self, at: TextAt, most: int, body: Body, keep: Callable[[int], None]) -> None:
        self._at, self._most, self._body, self._keep = at, most, body, keep
        self._known = Resumed(self._begun, self._step, keep)
        self._keys: dict[Hashable, frozenset[Hashable]] = {}  # of blocks: what is compared of their texts

    def __iter__(self) -> Iterator[Way]:
        for block in map(self._block, count()):
            if not block:
                return
            yield from block

    def free(self, after: Dispatch, record: bytes | None, quoting: Quoting | MarkerSafe | None) -> Iterator[Way]:
        """Yield those that may be taken: without blocks in which all are refused."""
        compared = after.compared
        for number in count():
            block = self._block(number)
            if not block:
                return
            if number and compared is not None and record is not None:
                assert quoting is not None
                key = number, record, quoting, compared
                keys = self._keys.get(key)
                if keys is None:
                    spend_nearby(2 * len(block))
                    texts = [decode(quoting, record + way.encode("latin-1")) for way in block]
                    self._keep(len(block))
                    keys = self._keys[key] = frozenset(map(compared, texts))
                spend_nearby(1)
                if keys <= after.refused:
                    continue
            yield from block

    def nth(self, number: int) -> Way | None:
        """Return one of them, None if there are not as many."""
        past = number - _FIRST
        first, block = (number, self._block(0)) if past < 0 else (past % _BLOCK, self._block(1 + past // _BLOCK))
        return block[first] if first < len(block) else None

    def _block(self, number: int) -> tuple[Way, ...]:
        """Return the texts of a block; none: there are no more."""
        first = _FIRST + _BLOCK * (number - 1) if number else 0
        end = _FIRST + _BLOCK * number
        if len(self._known.found) < min(end, _TRIED):
            self._known.search(min(end, _TRIED))
        return tuple(self._known.found[first:end])

    def _step(self, search: Search) -> None:
        _, way, _, start, language = search.heap[0]
        spend_nearby(6)
        longer = [] if start is None or language is None else list(self._longer(way, start, language))
        heappop(search.heap)
        if start is None:
            search.found.append(way)
        for least, further, at, behind in longer:
            search.ties += 1
            heappush(search.heap, (least, further, search.ties, at, behind))

    def _begun(self) -> list[Entry]:
        """Return the heap of a search that begins."""
        heap: list[Entry] = []
        for way, whole in characters(self._at):
            if whole.place == DONE:
                heap.append((len(way), way, -1 - len(heap), None, None))
            else:
                least = self._least(way, whole, whole.language)
                heap.append((least, way, -1 - len(heap), whole, whole.language))
        heapify(heap)
        return heap

    def _longer(
        self, way: Way, start: TextAt, language: Language
    ) -> Iterator[tuple[int, Way, TextAt | None, Language | None]]:
        """Yield what a character more makes of a text, and the text itself where it may end."""
        if language.accepts:
            whole = way + closing(start.spelling)
            yield len(whole), whole, None, None
        tried: dict[Language, int] = {}  # PERF: letters are 700 ranges that lead to one language
        for low, high, target in language.edges():
            most = min(self._most, _RANGES * self._most - tried.get(target, 0))
            ways = [way + char for char in spelled(start.spelling, low, high, most)] if most else []
            tried[target] = tried.get(target, 0) + len(ways)
            spend_nearby(1 + 2 * len(ways))
            for longer in ways:
                yield self._least(longer, start, target), longer, start, target

    def _least(self, way: Way, start: TextAt, language: Language) -> int:
        """Return the bytes of a text that begins with a way, at least."""
        return len(way) + len(self._body(start.spelling, language)) + len(closing(start.spelling))
