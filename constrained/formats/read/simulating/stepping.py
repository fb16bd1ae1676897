"""What a character or a special token makes of threads, one thread after the other: the definition of a simulation's
step.

Threads stand on a base, see `stacks`; where one returns below it, `threads.Beyond` is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from constrained.formats.payload.ahead import Ahead
from constrained.formats.read.simulating.network import Mark, NetworkNode, NodeKind
from constrained.formats.read.simulating.patterns import has
from constrained.formats.read.simulating.stacks import Frame
from constrained.formats.read.simulating.threads import Known, Thread
from constrained.formats.read.simulating.trails import VALUE, Trail

TOKEN = "<token>"  # the mark of a special token that was read


class Step:
    """What becomes of threads at a place, the best first."""

    __slots__ = ("_known", "_place", "_made")

    def __init__(self, known: Known, place: int) -> None:
        self._known, self._place = known, place
        self._made: dict[Any, Trail] = {}

    def begun(self, node: NetworkNode) -> list[Thread]:
        """Return the threads at a node that nobody has called."""
        found: list[Thread] = []
        self._close(node, None, None, self._place, found, set())
        return found

    def by_character(self, before: list[Thread], char: str, outcomes: Mapping[Any, bool | None]) -> list[Thread]:
        """Return what threads become with a character, of which readers have made something."""
        after = self._place + 1
        found: list[Thread] = []
        seen: set[Any] = set()
        for thread in self.expanded(before, char):
            node, state = thread.node, thread.state
            if node.kind is NodeKind.TEXT:
                if node.value[state] != char:
                    continue
                if state + 1 == len(node.value):
                    self._close(node.then[0], thread.frame, thread.trail, after, found, seen)
                else:
                    _add(thread, state + 1, found, seen)
            elif node.kind is NodeKind.PATTERN:
                next_state = state.step(char)
                if next_state is not None:
                    _add(thread, next_state, found, seen)
            elif node.kind is NodeKind.NATIVE:
                if outcomes[state]:
                    self._returned(thread, after, found, seen)
                elif outcomes[state] is False:
                    _add(thread, state, found, seen)
        return found

    def by_token(self, before: list[Thread], name: str) -> list[Thread]:
        """Return what threads become with a special token."""
        after = self._place + len(name)
        found: list[Thread] = []
        seen: set[Any] = set()
        for thread in self.expanded(before, None):
            if thread.node.kind is NodeKind.TOKEN and thread.node.value == name:
                trail = self._mark(thread.trail, (False, TOKEN), after, name)
                self._close(thread.node.then[0], thread.frame, trail, after, found, seen)
        return found

    def expanded(self, threads: list[Thread], char: str | None) -> Iterator[Thread]:
        """Yield the threads, and before each that may leave its pattern those that it becomes then; given the character
        that comes, only where what follows begins with it.
        """
        work = threads[::-1]
        seen: set[Any] = set()
        left: set[Any] = set()
        while work:
            thread = work.pop()
            key = (thread.node, thread.state, thread.frame)
            if thread.node.kind is not NodeKind.PATTERN or not thread.state.accepts or key in left:
                yield thread
                continue
            left.add(key)
            work.append(thread)
            if char is None or has(self._known.first(thread.node.then[0], thread.frame), ord(char)):
                exits: list[Thread] = []
                self._close(thread.node.then[0], thread.frame, thread.trail, self._place, exits, seen)
                work.extend(exits[::-1])

    def _returned(self, thread: Thread, place: int, found: list[Thread], seen: set[Any]) -> None:
        """Go on behind a native rule, with a mark that holds its value, or the number of its reader."""
        value = thread.state.value if isinstance(thread.state, Ahead) else thread.state
        trail = self._mark(thread.trail, (False, thread.node.owner), place, VALUE, value)
        self._close(thread.node.then[0], thread.frame, trail, place, found, seen)

    def _close(
        self,
        node: NetworkNode,
        frame: Frame | None,
        trail: Trail | None,
        place: int,
        found: list[Thread],
        seen: set[Any],
    ) -> None:
        """Append the threads that stand at `node`, best first, but for those that were seen."""
        closure = self._known.closures.get((node, frame)) or self._known.closed(node, frame)
        pool = [trail]
        for parent, mark in closure.made:
            pool.append(self._mark(pool[parent], mark, place))
        for leaf, stack, index in closure.leaves:
            if (leaf, stack) not in seen:
                seen.add((leaf, stack))
                state = leaf.value if leaf.kind in (NodeKind.PATTERN, NodeKind.NATIVE) else 0
                found.append(Thread(leaf, state, stack, pool[index]))

    def _mark(self, trail: Trail | None, mark: Mark, place: int, data: Any = None, value: Any = None) -> Trail:
        """Return the trail with one more mark; equal trails that are made at one character are one object."""
        key = (id(trail), mark, place)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = Trail(trail, ((mark, 0, data),), place, value)
        return made


def _add(thread: Thread, state: Any, found: list[Thread], seen: set[Any]) -> None:
    key = (thread.node, state, thread.frame)
    if key not in seen:
        seen.add(key)
        found.append(thread._replace(state=state))
