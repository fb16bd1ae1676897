"""The rest of an item that must be distinct → its ways to the end, short ones first, each value once.

What an item may still become does not depend on the items before it, only which of these values are left does.  So the
values are found once, in order of their length, and each item takes the first one that no earlier item has: a thousand
distinct objects are one search, not a thousand, and where two differ in the last key nobody tries what the first ones
could be instead.

    item ── best first, what is left counted exactly (A*) ──► (way, value), (way, value), …

What is left is the shortest way out of an item of which nobody asks what it is, frame by frame.  Keys that may come
in any order come in one: those that have to come first, the others ascending.

The first way is the shortest; later ones are short, as a range of characters is tried in part (`candidates`).  That a
shortest value for this item is best for all of them is exact for items at their beginning; one that was begun may take
a value that a later one would have written as shortly.

Tests: tests/test_budget_distinct.py, against values listed by hand.
Source: Hart, Nilsson and Raphael 1968, A formal basis for the heuristic determination of minimum cost paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

from constrained.engine.budget.candidates import Resumed, Search
from constrained.engine.budget.characters import Way, symbols
from constrained.engine.budget.text_ways import FEW, MANY, TextWays
from constrained.engine.twin.spelling import decode, variants
from constrained.engine.twin.text import TextAt
from constrained.machine import LiteralSet, State
from constrained.work import spend_nearby

_TRIED = 20_000  # values of one place
_BLOCK = 8  # values that are found at once, behind the first

# symbols at least, whether it is texts, way so far, tie break, what it leads to: an item, texts that are tried in turn,
# or a value.  PERF: a further text waits for values that are as short, of which there may be millions: 109 items of one
# such schema took 13.7 s of one core, now 0.1.
Entry: TypeAlias = "tuple[int, bool, Way, int, Any]"


class _Texts(NamedTuple):
    """The texts that may come next, one after the other."""

    recorded: Any  # what follows each, see `machine.Dispatch`
    at: TextAt
    number: int  # of the text whose turn it is
    most: int  # characters of each range that are tried
    rest: int  # symbols behind each, at least


class ItemWays:
    """The ways to the end of one place in an item, as far as somebody has asked.

    Invariant: what is yielded depends on the place alone.
    length: symbols of the shortest way out of a state.  keep: told how many entries more are kept.
    """

    __slots__ = ("_known", "_length", "_texts")

    def __init__(
        self, start: Any, texts: TextWays, length: Callable[[State], int], keep: Callable[[int], None]
    ) -> None:
        self._texts, self._length = texts, length
        self._known = Resumed(lambda: [(0, False, "", 0, start)], self._step, keep)

    def first_free(self, used: frozenset[int]) -> tuple[Way, Any] | None:
        """Return the first way whose value is none of these, with the value; None: none is known."""
        number = 0
        while True:
            if number == len(self._known.found):
                self._known.search(min(number + (_BLOCK if number else 1), _TRIED))
                if number == len(self._known.found):
                    return None
            way, value = self._known.found[number]
            if value.digest not in used:
                spend_nearby(1 + number // 16)
                return way, value
            number += 1

    def _step(self, search: Search) -> None:
        _, _, way, _, at = search.heap[0]
        spend_nearby(3)
        key = None if isinstance(at, _Texts) else getattr(at, "digest", at)
        further = [] if key in search.seen else list(self._further(way, at))
        heappop(search.heap)
        if key is not None and key not in search.seen:
            search.seen.add(key)
            if key is not at:
                search.found.append((way, at))
        for least, longer, target in further:
            search.ties += 1
            heappush(search.heap, (least, isinstance(target, _Texts), longer, search.ties, target))

    def _further(self, way: Way, at: Any) -> Iterator[tuple[int, Way, Any]]:
        """Yield what is a byte or a text further."""
        if isinstance(at, _Texts):
            yield from self._next_text(way, at)
        elif not hasattr(at, "digest"):
            bytewise, texts = at.moves()
            for byte, target in bytewise:
                yield self._reached(way + chr(byte), target)
            for recorded in texts:
                yield from self._begun(way, recorded)

    def _reached(self, way: Way, target: Any) -> tuple[int, Way, Any]:
        """Return an entry; where only one byte can come, and no text, what it leads to."""
        while not hasattr(target, "digest") and (only := target.only_move()) is not None:
            byte, target = only
            way += chr(byte)
        rest = 0 if hasattr(target, "digest") else sum(map(self._length, target.frames()))
        return len(way) + rest, way, target

    def _begun(self, way: Way, recorded: Any) -> Iterator[tuple[int, Way, Any]]:
        text, needed = recorded.callee, recorded.needed()
        rest = sum(map(self._length, recorded.frames()))
        for spelling, part in variants(text.quoting, text.language):
            if part is None:
                continue
            opened, at = way + symbols(spelling.opening), TextAt(spelling, part)
            if needed is None:
                yield len(opened) + len(self._texts.rest(at)) + rest, opened, _Texts(recorded, at, 0, FEW, rest)
                continue
            spelled = self._texts.spelled(at, needed)
            target = recorded.following(needed, ascending=False)
            if target is not None and spelled is not None:
                yield self._reached(opened + spelled, target)

    def _next_text(self, way: Way, texts: _Texts) -> Iterator[tuple[int, Way, Any]]:
        """Yield what follows the text whose turn it is, and the next one."""
        at, number, rest = texts.at, texts.number, texts.rest
        spelled = self._texts.candidate(at, number, texts.most)
        if spelled is not None:
            text = decode(at.spelling.quoting, at.spelling.opening + spelled.encode("latin-1"))
            target = texts.recorded.following(text)
            if target is not None:
                reached = self._reached(way + spelled, target)
                if not isinstance(texts.recorded.callee.language, LiteralSet):  # behind each alike
                    rest = max(rest, reached[0] - len(way) - len(spelled))
                yield reached
            yield len(way) + len(spelled) + rest, way, texts._replace(number=number + 1, rest=rest)
        elif texts.most == FEW:
            yield len(way) + len(self._texts.rest(at)) + rest, way, texts._replace(number=0, most=MANY)
