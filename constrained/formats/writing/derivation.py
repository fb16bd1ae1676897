"""A derivation of a format's grammar, found depth first.

Reading a turn and writing one are the same search: walk the rules, let leaves move a state (reading: the place in the
text; writing: what has been said), keep the first walk that ends well.  Formats are small and nearly deterministic; the
engine has already judged the language, so the search only finds out *which* rule wrote what.  It never recurses, visits
each (state, remaining rules) once, and gives up with an error at a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from constrained.errors import LimitExceeded
from constrained.grammar import Ref, Symbol
from constrained.work import spend

State = TypeVar("State", bound=Hashable)
Event = TypeVar("Event")
Leaf = Callable[[Symbol, State], "Iterable[tuple[State, Event | None]] | None"]
Enter = Callable[[str, State], "Event | None"]
Rules = Mapping[str, tuple[tuple[Symbol, ...], ...]]

MAX_STEPS = 2_000_000


class _Frames:
    """Places in sequences of symbols and where each returns to, as numbers: the same place has one; 0 is the end."""

    def __init__(self) -> None:
        self.content: list[tuple[tuple[Symbol, ...], int, int]] = [((), 0, 0)]  # (sequence, place in it, frame behind)
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._sequences: dict[tuple[Symbol, ...], int] = {}

    def number(self, sequence: tuple[Symbol, ...], at: int, parent: int) -> int:
        """Return the number of a place; where nothing is left there, of the one that it returns to."""
        while at == len(sequence) and parent:
            sequence, at, parent = self.content[parent]
        if at == len(sequence):
            return 0
        key = (self._sequences.setdefault(sequence, len(self._sequences)), at, parent)
        if key not in self._numbers:
            self._numbers[key] = len(self.content)
            self.content.append((sequence, at, parent))
        return self._numbers[key]


def derive(
    rules: Rules, start: str, state: State, leaf: Leaf[State, Event], done: Callable[[State], bool],
    enter: Enter[State, Event] = lambda rule, state: None, moved: Callable[[str, State], State | None] | None = None,
) -> list[Event] | None:
    """Return the events of the first derivation of `start` that takes `state` to one that is `done`; None where there
    is none.

    leaf(symbol, state) returns the states after a symbol, best first, each with an event or None; for a reference it
    may return None, which walks through the rule, alternatives in their order.  moved(rule, state) returns the state
    inside a rule that is walked through, None where it must not be entered.

    Raises: LimitExceeded: more than `MAX_STEPS` steps, as left recursion would take.
    """
    frames = _Frames()
    walks: list[Iterator[tuple[State, int, object]]] = [iter([(state, frames.number((Ref(start),), 0, 0), None)])]
    seen: set[tuple[State, int]] = set()
    while walks:
        step = next(walks[-1], None)
        if step is None:
            walks.pop()
            continue
        state, current, trail = step
        if (state, current) in seen:
            continue
        seen.add((state, current))
        _count(len(seen))
        if not current:
            if done(state):
                return _listed(trail)
            continue
        sequence, at, parent = frames.content[current]
        symbol, then = sequence[at], frames.number(sequence, at + 1, parent)
        found = leaf(symbol, state)
        if found is not None:
            walks.append(_through(found, then, trail))
        elif isinstance(symbol, Ref):
            event = enter(symbol.rule, state)
            entered = trail if event is None else (event, trail)
            inside = state if moved is None else moved(symbol.rule, state)
            if inside is not None:
                ways = [(inside, frames.number(alternative, 0, then), entered) for alternative in rules[symbol.rule]]
                walks.append(iter(ways))
    return None


def _count(steps: int) -> None:
    """Charge the steps of a derivation, and refuse too many."""
    if not steps & 63:
        spend(256)
    if steps > MAX_STEPS:
        raise LimitExceeded(
            "the turn takes too long to read", because=f"more than {MAX_STEPS:,} steps; is the format left-recursive?"
        )


def _through(
    found: Iterable[tuple[State, Event | None]], then: int, trail: object
) -> Iterator[tuple[State, int, object]]:
    for after, event in found:
        yield after, then, trail if event is None else (event, trail)


def _listed(trail: object) -> list[Event]:
    events = []
    while isinstance(trail, tuple):
        event, trail = trail
        events.append(event)
    return events[::-1]
