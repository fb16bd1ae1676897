"""Texts that are tried one after the other, short ones first, where each may be refused because it was written before.

What has been found is kept with where the search stands, so that the thousandth item of an array goes on where the one
before it stopped.  Blocks of texts that are all refused are passed over at once, by sets of what a `Dispatch` compares
(`Dispatch.compared`).

Tests: tests/test_budget_distinct.py, against a search that begins anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TypeAlias

from constrained.engine.budget.characters import Way, characters, closing, spelled
from constrained.engine.twin.spelling import Spelling, decode
from constrained.engine.twin.text import DONE, TextAt
from constrained.machine import Dispatch, Language, MarkerSafe, Quoting
from constrained.work import spend_nearby

_TRIED = 20_000  # texts that are tried where each has to differ from earlier ones
_BLOCK = 32  # texts that are passed over at once
_RANGES = 4  # ranges that lead to the same language, so many of whose characters are tried
_FIRST = 8  # texts that are tried one by one: as a rule one of them is free

# bytes at least, way so far, tie break, the text's start and the language behind the way (None: it is complete)
Entry: TypeAlias = "tuple[int, Way, int, TextAt | None, Language | None]"
Body: TypeAlias = Callable[[Spelling, Language], Way]  # the shortest text of a language, see `TextWays.body`


class Candidates:
    """The spellings of the rest of texts, short ones first, as far as somebody has asked; `most` characters are tried
    of each range.

    Invariant: what is yielded depends on the position and `most` alone.
    keep: told how many texts more are kept.
    Threads: what is known is replaced as a whole, so two may compute the same thing twice.
    """

    __slots__ = ("_at", "_body", "_keep", "_keys", "_known", "_most", "_ties")

    def __init__(self, at: TextAt, most: int, body: Body, keep: Callable[[int], None]) -> None:
        self._at, self._most, self._body, self._keep = at, most, body, keep
        self._known: tuple[tuple[Way, ...], list[Entry]] | None = None  # what was found, and the search's heap
        self._ties = 0
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
        if self._known is None or (len(self._known[0]) < end and self._known[1]):
            self._search(end)
        assert self._known is not None
        return self._known[0][first:end]

    def _search(self, end: int) -> None:
        """Go on until so many are found; where the work runs out, what was found is kept."""
        if self._known is None:
            self._known = (), self._begun()
        found, heap = list(self._known[0]), self._known[1].copy()
        try:
            while heap and len(found) < min(end, _TRIED):
                _, way, _, start, language = heap[0]
                spend_nearby(6)
                longer = [] if start is None or language is None else list(self._longer(way, start, language))
                heappop(heap)
                if start is None:
                    found.append(way)
                for least, further, at, behind in longer:
                    self._ties += 1
                    heappush(heap, (least, further, self._ties, at, behind))
        finally:
            self._keep(len(found) + len(heap) - sum(map(len, self._known)))
            self._known = tuple(found), heap if len(found) < _TRIED else []

    def _begun(self) -> list[Entry]:
        """Return the heap of a search that begins."""
        heap: list[Entry] = []
        for way, whole in characters(self._at):
            if whole.place == DONE:
                heap.append((len(way), way, len(heap), None, None))
            else:
                heap.append((self._least(way, whole, whole.language), way, len(heap), whole, whole.language))
        self._ties = len(heap)
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
