"""Machine states → their shortest ways out: the word of fewest bytes that leads from a state to its end.

The machines are infinite and call each other, so distances cannot be tabled.  `Ways.of` searches best first, over items
"from entry e a word w leads to state q", the shortest w first; a call enters its callee as an entry of its own, once,
and all who wait there go on when the callee's first (so its shortest) word is complete.  Words only grow, so this is
Knuth's generalisation of Dijkstra's algorithm, and exact.  Ways of entries are kept; ways of stacks are put together
from those of their frames, ways through texts are those of `text_ways`.

One place more than there takes a short way instead of the shortest, to bound the search: an object takes the first
required key that is missing (`State.way_out`).

Tests: tests/test_budget.py, against breadth-first search over the automaton.
Source: Knuth 1977, A generalization of Dijkstra's algorithm; the search order of A* parsing, Klein and Manning 2003.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias, cast

from constrained.engine.budget.characters import Way, expected_byte, symbols
from constrained.engine.budget.item_ways import ItemWays
from constrained.engine.budget.text_ways import TextWays
from constrained.engine.twin.spelling import variants
from constrained.engine.twin.text import TextAt
from constrained.machine import Bytes, Dispatch, Edges, ItemPosition, State, Text
from constrained.work import spend_nearby

_ENDLESS = 1 << 30  # length of a way that is not known

# The states of an entry that a word came through, the last first; the symbols and the remembered texts before each.
Trail: TypeAlias = "tuple[int, State, int, Trail] | None"


class Ways:
    """The shortest ways out of the states that somebody has asked about.

    Invariant: what is kept depends on the state alone.
    """

    def __init__(self, specials: Mapping[str, int]) -> None:
        self._specials = specials
        self._of: dict[State, Way | None] = {}
        self._writes: dict[State, int] = {}  # if any
        self._items: dict[State, ItemWays] = {}
        self._held = 0  # entries that `_items` keep
        self.texts = TextWays()

    def __len__(self) -> int:
        return len(self._of) + len(self.texts) + len(self._items) + self._held

    def of(self, machine: State) -> Way | None:
        """Return the shortest way from a machine state to its end, 0 symbols where it accepts; None: all that were
        tried are used up.

        Cost: some 20 µs for each state that is nearer to the start than the end is; once.
        Raises: LimitExceeded: that is too much work.
        """
        if machine not in self._of and not self._shares(machine):
            found = _Search(self, hurried=True).run(machine)
            if found is None:  # a hint led nowhere
                found = _Search(self, hurried=False).run(machine)
                self._writes[machine] = 1  # for all that is known
            self._of[machine] = found
        return self._of[machine]

    def _shares(self, machine: State) -> bool:
        """Take over the way out of a state that reads more, if it is one of this state too; say whether it is."""
        found: tuple[Way, State] | None = machine.shared(self.of) if hasattr(machine, "shared") else None
        if found is None:
            return False
        way, wider = found
        spend_nearby(4)
        self.keep(machine, way, self.writes(wider))
        return True

    def through_item(self, at: ItemPosition) -> tuple[Way, State, int] | None:
        """Return a short way to the end of an item, what follows there, and `writes`; None: no value is left."""
        alone = at.alone()
        if alone is None:  # it is nobody's equal
            frames = list(at.frames())
            ways = [way for state in frames if (way := self.of(state)) is not None]
            return ("".join(ways), at.after, sum(map(self.writes, frames))) if len(ways) == len(frames) else None
        known = self._items.get(alone)
        if known is None:
            known = self._items[alone] = ItemWays(alone, self.texts, self._length, self._keep_items)
        found = known.first_free(at.used())
        # an entry of an object has seven characters or more, see `recorded_values`
        return None if found is None else (found[0], at.behind(found[1]), max(1, found[1].size // 7))

    def _length(self, machine: State) -> int:
        way = self.of(machine)
        return _ENDLESS if way is None else len(way)

    def _keep_items(self, entries: int) -> None:
        self._held += entries

    def known(self, machine: State) -> Way | None:
        """Return the way out of a state, if it has been found before."""
        return self._of.get(machine)

    def known_with_writes(self, machine: State) -> tuple[Way, int] | None:
        way = self._of.get(machine)
        return None if way is None else (way, self.writes(machine))

    def writes(self, machine: State) -> int:
        """Return how many texts that are remembered (`Dispatch.alike`) the way of a state writes; what was written
        before matters only to these.
        """
        return self._writes.get(machine, 0)

    def keep(self, machine: State, way: Way, writes: int) -> None:
        if machine not in self._of:
            self._of[machine] = way
            if writes:
                self._writes[machine] = writes

    def edges(self, machine: State, *, hurried: bool) -> Edges:
        """Return the edges of a state that a shortest way may take."""
        hint = getattr(machine, "way_out", None) if hurried else None
        edges: Edges = machine.expand() if hint is None else hint()
        return edges

    def special(self, name: str) -> Way:
        return chr(256 + self._specials[name])


class _Search:
    """One best-first search; see the head of the module."""

    def __init__(self, ways: Ways, *, hurried: bool) -> None:
        self._ways, self._hurried, self._ties = ways, hurried, count()
        # length, word, tie break, entry, state (None: the end), trail, how many remembered texts the word writes
        self._heap: list[tuple[int, Way, int, State, State | None, Trail, int]] = []
        self._seen: set[tuple[State, State]] = set()
        self._equals: set[tuple[State, Hashable]] = set()
        # callee → (word before it, entry, state after it, …)
        self._waiting: dict[State, list[tuple[Way, State, State, Trail, int]]] = {}
        self._complete: dict[State, tuple[Way, int]] = {}

    def run(self, goal: State) -> Way | None:
        """Return the shortest word from a state to its end; None if the search ends without one."""
        if isinstance(goal, Text):
            return self._ways.texts.of_text(goal)
        self._add("", goal, goal, None, 0)
        while self._heap:
            _, way, _, entry, at, trail, writes = heappop(self._heap)
            if entry in self._complete:
                continue
            if at is None:
                self._end(entry, way, trail, writes)
                if entry == goal:
                    return way
            elif (entry, at) not in self._seen and not self._has_equal(entry, at):
                self._seen.add((entry, at))
                spend_nearby(15)
                known = self._ways.known(at) if self._hurried else None
                if known is not None:
                    self._add(way + known, entry, None, trail, writes + self._ways.writes(at))
                    continue
                self._go_on(at, way, entry, (len(way), at, writes, trail), writes)
        return None

    def _go_on(self, at: State, way: Way, entry: State, trail: Trail, writes: int) -> None:
        if self._hurried and hasattr(at, "alone"):  # PERF: a check of the protocol takes 0.1 ms
            found = self._ways.through_item(cast(ItemPosition, at))
            if found is not None:
                rest, after, written = found
                self._add(way + rest, entry, after, trail, writes + written)
            return
        if isinstance(at, Bytes):
            self._add(way + symbols(at.data), entry, at.then, trail, writes)
            return
        edges = self._ways.edges(at, hurried=self._hurried)
        if edges.accepting:
            self._add(way, entry, None, trail, writes)
        else:
            self._follow(edges, way, entry, trail, writes)

    def _has_equal(self, entry: State, at: State) -> bool:
        """Say whether the entry has met a state whose way out is as long as this one's, see `State.equal_ways`."""
        key = at.equal_ways() if self._hurried and hasattr(at, "equal_ways") else None
        if key is None:
            return False
        if (entry, key) in self._equals:
            return True
        self._equals.add((entry, key))
        return False

    def _end(self, entry: State, way: Way, trail: Trail, writes: int) -> None:
        """Go on wherever the shortest word of an entry was waited for; the rest of a shortest way is a shortest way,
        and kept as well.
        """
        self._complete[entry] = way, writes
        while self._hurried and trail is not None:
            length, at, written, trail = trail
            self._ways.keep(at, way[length:], writes - written)
        for before, caller, after, behind, written in self._waiting.pop(entry, ()):
            self._add(before + way, caller, after, behind, written + writes)

    def _follow(self, edges: Edges, way: Way, entry: State, trail: Trail, writes: int) -> None:
        for low, high, target in edges.ranges:
            self._add(way + expected_byte(low, high), entry, target, trail, writes)
        for name, target in edges.tokens:
            self._add(way + self._ways.special(name), entry, target, trail, writes)
        for callee, after in edges.calls:
            if isinstance(callee, Text):
                self._read(callee, after, way, entry, trail, writes)
                continue
            assert not isinstance(after, Dispatch), "only texts are dispatched upon"
            known = self._complete.get(callee) or (self._ways.known_with_writes(callee) if self._hurried else None)
            if known is None:
                waiting = self._waiting.get(callee)
                if waiting is None:
                    waiting = self._waiting[callee] = []
                    self._add("", callee, callee, None, 0)
                waiting.append((way, entry, after, trail, writes))
            else:
                self._add(way + known[0], entry, after, trail, writes + known[1])

    def _read(self, text: Text, after: State | Dispatch, way: Way, entry: State, trail: Trail, writes: int) -> None:
        if not isinstance(after, Dispatch):
            self._add(way + self._ways.texts.of_text(text), entry, after, trail, writes)
            return
        again = int(after.elsewhere is not None)
        for spelling, part in variants(text.quoting, text.language):
            if part is not None:
                record = spelling.opening if after.records else None
                for spelled, target in self._ways.texts.told(TextAt(spelling, part), after, record, text.quoting):
                    self._add(way + symbols(spelling.opening) + spelled, entry, target, trail, writes + again)

    def _add(self, way: Way, entry: State, at: State | None, trail: Trail, writes: int) -> None:
        if len(way) > 255:
            spend_nearby(len(way) >> 8)  # for memory: each way is a text of its own
        heappush(self._heap, (len(way), way, next(self._ties), entry, at, trail, writes))
