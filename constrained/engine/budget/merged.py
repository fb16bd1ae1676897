"""The plain automaton over merged stacks: readings that share a machine state share one configuration.

Under a grammar that reads a text in many ways, as behind nullable and left-recursive rules, the stacks of all readings
are more than anybody can list, so here a stack is a set of frames, linked by `Frame.beside`.  Frames that go on alike
have one parent, the merger of theirs: as many configurations as there are machine states, and as many frames beside
each other as there are places to go on in.  The bottom beside other frames is a frame that ends at once.

Invariant: equal sets of frames are one object; `_close` returns each machine state with one stack.
Tests: tests/test_budget.py, against the twin.  Source: Tomita 1986 (graph-structured stacks), as the compiled kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

from constrained.engine.twin.automaton import Config, Frame, PlainKernel
from constrained.engine.twin.spelling import variants
from constrained.engine.twin.text import TextAt
from constrained.machine import END, Dispatch, Edges, MarkerSafe, Quoting, State, Text
from constrained.work import spend

Place = tuple["State | Dispatch", "Quoting | MarkerSafe | None", "bytes | None"]  # what a frame says but for its parent
Found = dict["State | TextAt", "set[Frame | None]"]  # the stacks that machine states are met on

_BOTTOM: Place = (END, None, None)


def frames(stack: Frame | None) -> Iterator[Frame]:
    """Yield the frames of a stack; none of the bottom alone."""
    while stack is not None:
        yield stack
        stack = stack.beside


class MergedKernel(PlainKernel):
    """`PlainKernel` with merged stacks; see the head of the module."""

    def __init__(self, *given: Any, **options: Any) -> None:
        self._places: dict[Place, int] = {}  # in the order in which they are met: that of frames beside each other
        self._mergers: dict[frozenset[Frame | None], Frame | None] = {}
        self._returning: dict[Frame | None, tuple[list[Config], bool]] = {None: ([], True)}
        self._ranks: dict[State | TextAt, tuple[int, int]] = {}
        super().__init__(*given, **options)

    def cached_bytes(self) -> int:
        return super().cached_bytes() + 200 * (len(self._frames) + len(self._mergers) + 4 * len(self._returning))

    # -- stacks --------------------------------------------------------------------------------------------------------

    def merge(self, stacks: frozenset[Frame | None]) -> Frame | None:
        """Return the stack of the readings of all."""
        known, todo = self._mergers, [stacks]
        while todo:
            wanted = todo.pop()
            if len(wanted) == 1 or wanted in known:
                continue
            grouped: dict[Place, set[Frame | None]] = {_BOTTOM: {None}} if None in wanted else {}
            count = 1
            for stack in wanted:
                for frame in frames(stack):
                    grouped.setdefault((frame.after, frame.quoting, frame.record), set()).add(frame.parent)
                    count += 1
            spend(count)
            parents = {place: frozenset(group) for place, group in grouped.items()}
            missing = [group for group in parents.values() if len(group) > 1 and group not in known]
            if missing:
                todo += [wanted, *missing]
                continue
            spend(len(parents))
            known[wanted] = self._stack({place: self._merged_already(group) for place, group in parents.items()})
        return self._merged_already(stacks)

    def _merged_already(self, stacks: frozenset[Frame | None]) -> Frame | None:
        return next(iter(stacks)) if len(stacks) == 1 else self._mergers[stacks]

    def changed(self, stack: Frame | None, place: Callable[[Frame], Place]) -> Frame | None:
        """Return a stack with other places in its frames.  Cost: 5 µs a frame."""
        if stack is None:
            return None
        found: dict[Place, set[Frame | None]] = {}
        count, same = 0, True
        for frame in frames(stack):
            new, count = place(frame), count + 1
            same &= new[2] == frame.record
            found.setdefault(new, set()).add(frame.parent)
        spend(5 * count)
        if same:
            return stack
        if count == 1:
            return self._frame(*new, stack.parent)
        return self._stack({key: self.merge(frozenset(parents)) for key, parents in found.items()})

    def _stack(self, parents: dict[Place, Frame | None]) -> Frame | None:
        """Return the stack of some frames, each a place and its parent."""
        if len(parents) > 1:
            order = self._places
            for place in parents:
                order.setdefault(place, len(order))
            parents = {place: parents[place] for place in sorted(parents, key=order.__getitem__)}
        stack: Frame | None = None
        for place, parent in parents.items():
            stack = self._frame(*place, parent, stack)
        return stack if stack is None or stack.after is not END or stack.beside else None

    def _recording(self, stack: Frame | None, byte: int) -> Frame | None:
        if all(frame.record is None for frame in frames(stack)):
            return stack
        data = bytes([byte])
        return self.changed(
            stack, lambda frame: (frame.after, frame.quoting, None if frame.record is None else frame.record + data)
        )

    # -- closures ------------------------------------------------------------------------------------------------------

    def _expand(self, machine: State | TextAt) -> Edges:
        return super()._expand(_begun(machine))

    def _close(self, work: list[Config], final: bool = False) -> int:
        found: Found = {}
        calling: list[tuple[int, int, State | TextAt]] = []
        merged: dict[State | TextAt, Frame | None] = {}
        for config in work:
            final |= self._add(found, calling, config)
        while calling:  # callers first, so that each passes its whole stack on at once
            *_, machine = heappop(calling)
            stack = self.merge(frozenset(found[machine]))
            if machine in merged and merged[machine] is stack:
                continue
            merged[machine] = stack
            for callee, after in self._expand(machine).calls:
                final |= self._add(found, calling, (callee, self._push(callee, after, stack)))
        configs = [
            (machine, self.merge(frozenset(stacks))) for machine, stacks in found.items() if self._reads(machine)
        ]
        return self._intern(frozenset(configs), final)

    def _add(
        self, found: Found, calling: list[tuple[int, int, State | TextAt]],
        config: Config,
    ) -> bool:
        """Add a configuration and what it returns to; say whether a word ends.

        calling: a heap of the machine states that call others and are new or have a larger stack.
        """
        machine, stack = config
        reached, ends = [config], False
        if self._expand(machine).accepting:
            ends |= stack is None
            for frame in frames(stack):
                after = self._returned(machine, frame)
                if after is not None:
                    reached.append((after, frame.parent))
                    if self._expand(after).accepting:
                        more, ends_there = self._returns(frame.parent)
                        reached += more
                        ends |= ends_there
        spend(len(reached))
        for machine, stack in reached:
            machine = _begun(machine)
            stacks = found.setdefault(machine, set())
            if stack not in stacks:
                stacks.add(stack)
                if self._expand(machine).calls:
                    heappush(calling, (*self._rank(machine), machine))
        self._check_count(len(found))
        return ends

    def _returns(self, stack: Frame | None) -> tuple[list[Config], bool]:
        """Return what calls go on with that end on a stack, and end again at once; and whether a word ends there.

        PERF: of a stack whose calls all may end that is one step more than of its parents, which are known.
        """
        known, todo = self._returning, [stack]
        while todo:
            at = todo.pop()
            if at in known:
                continue
            again = [
                frame.parent for frame in frames(at) if self._expand(frame.after).accepting  # type: ignore[arg-type]
            ]
            missing = [parent for parent in again if parent not in known]
            if missing:
                todo += [at, *missing]
                continue
            found: Found = {}
            behind = [config for parent in again for config in known[parent][0]]
            for machine, parent in [*((frame.after, frame.parent) for frame in frames(at)), *behind]:
                found.setdefault(machine, set()).add(parent)  # type: ignore[arg-type]
            spend(1 + len(found))
            configs = [(machine, self.merge(frozenset(parents))) for machine, parents in found.items()]
            known[at] = configs, any(known[parent][1] for parent in again)
        return known[stack]

    def _rank(self, machine: State | TextAt) -> tuple[int, int]:
        """Return what sorts a machine state before those that it calls, unless they call each other in a circle: how
        long the longest chain of calls is that it begins, negative, and a number of its own.
        """
        ranks, todo = self._ranks, [machine]
        while todo:
            at = todo[-1]
            callees = [callee for callee, _ in self._expand(at).calls]
            if at not in ranks:
                ranks[at] = 0, len(ranks)  # for those that call it in a circle
                todo += [callee for callee in callees if callee not in ranks]
            else:
                todo.pop()
                ranks[at] = min((ranks[callee][0] for callee in callees), default=0) - 1, ranks[at][1]
        return ranks[machine]


def _begun(machine: State | TextAt) -> State | TextAt:
    """Return the position at the beginning of a text without quotes; any other machine state as it is."""
    if isinstance(machine, Text) and machine.quoting is Quoting.RAW:
        return TextAt(variants(machine.quoting, machine.language)[0][0], machine.language)
    return machine
