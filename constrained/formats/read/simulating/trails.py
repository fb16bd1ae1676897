"""The history of a thread of a simulation: the marks that it has set.

A mark says that a rule begins or ends at a place.  A thread has a *trail* of them, which it shares with the threads
that it came apart from.  Marks that are always had together are one link of it, so that a call costs a few objects and
not one a mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from constrained.formats.read.simulating.network import Mark

_MOST_MADE = 64  # choices of marks for which a step keeps what it makes
VALUE = object()  # stands for the value of a native rule that has ended
Placed = tuple[Mark, int, Any]  # the mark, how far behind something it stands, its data
Marked = tuple[bool, str, int, Any]  # whether it begins, the rule that it marks, where it stands, its data
# Whose marks they follow: a number of what came, or as many more as links were made earlier; the marks; how far behind
# a place the first stands; the number of the reader whose value they have, if any.
Link = tuple[int, tuple[Placed, ...], int, int | None]


class Valued(Protocol):
    """A native reader, when it has ended."""

    value: Any


class Trail:
    """The marks of a thread, the last first: those that were made together, and those before them.

    marks[i] = (the mark, how far behind `place` it stands, its data or `VALUE`); `data`: what VALUE stands for.
    Invariant: the first mark stands at `place`; threads that share one of the marks share them all.
    """

    __slots__ = ("parent", "depth", "marks", "place", "data", "jump")

    def __init__(self, parent: Trail | None, marks: tuple[Placed, ...], place: int, data: Any = None) -> None:
        self.parent, self.marks, self.place, self.data = parent, marks, place, data
        self.depth: int = parent.depth + 1 if parent is not None else 1
        self.jump: Trail | None = None  # an earlier trail, see `_jumping`

    @property
    def last(self) -> int:
        """Where the last of the marks stands."""
        return self.place + self.marks[-1][1]

    def without(self, token: str) -> Trail | None:
        """Return the trail without its last mark, where that is of a special token; else the trail."""
        data = self.marks[-1][2]
        if data != token:
            return self
        return Trail(self.parent, self.marks[:-1], self.place, self.data) if len(self.marks) > 1 else self.parent


def marks_of(trail: Trail | bool | None, after: Trail | None = None) -> Iterator[Marked]:
    """Yield the marks of a trail in their order, from those behind `after` on; a bool is no trail and has none."""
    found = []
    while trail is not after and isinstance(trail, Trail):
        found.append(trail)
        trail = trail.parent
    for trail in reversed(found):
        place, value = trail.place, trail.data
        for (begins, rule), behind, data in trail.marks:
            yield begins, rule, place + behind, value if data is VALUE else data


def agreed(trails: list[Trail | None], place: int) -> tuple[Trail | None, int]:
    """Return the marks that trails share which stand at a place, and how far they agree on what is open there: the
    place, or their next mark.

    Cost: logarithmic in how many marks each has had since, as a stream asks at every piece.
    """
    heads = set(trails)
    if len(heads) < 2:
        return heads.pop() if heads else None, place
    found = [_jumping(trail) if trail is not None else _ROOT for trail in heads]
    shared = found[0]
    for trail in found:
        shared = _shared(shared, trail)
    places = [_above(trail, shared.depth + 1).place for trail in found if trail is not shared]
    return None if shared is _ROOT else shared, min(place, *places)


_ROOT = Trail(None, (), 0)  # before all marks
_ROOT.depth, _ROOT.jump = 0, _ROOT


def _jumping(trail: Trail) -> Trail:
    """Return the trail; it and those before it know an earlier one each, so that any depth is a few jumps away.

    Source: E. W. Myers, "An applicative random-access stack" (1983).
    """
    work = [trail] if trail.jump is None else []
    while work and (parent := work[-1].parent) is not None and parent.jump is None:
        work.append(parent)
    for one in reversed(work):
        before = one.parent or _ROOT
        jump = before.jump
        assert jump is not None
        assert jump.jump is not None
        one.jump = jump.jump if before.depth - jump.depth == jump.depth - jump.jump.depth else before
    return trail


def _above(trail: Trail, depth: int) -> Trail:
    """Return the trail of a depth that is this one or comes before it."""
    while trail.depth > depth:
        jump = trail.jump
        assert jump is not None
        trail = jump if jump.depth >= depth else trail.parent or _ROOT
    return trail


def _shared(one: Trail, other: Trail) -> Trail:
    """Return the last trail that is or comes before both."""
    depth = min(one.depth, other.depth)
    one, other = _above(one, depth), _above(other, depth)
    while one is not other:
        if one.jump is not other.jump:
            assert one.jump is not None
            assert other.jump is not None
            one, other = one.jump, other.jump
        else:
            one, other = one.parent or _ROOT, other.parent or _ROOT
    return one


def joined(sources: int, made: list[Link], taken: tuple[int, ...]) -> tuple[tuple[Link, ...], tuple[int, ...]]:
    """Return links behind so many trails, and those that are taken in the end, without those that nobody needs; what
    all who need have together is one link.
    """
    needed, followers = set(taken), dict[int, int]()
    for number in range(sources + len(made) - 1, sources - 1, -1):
        if number in needed:
            parent = made[number - sources][0]
            needed.add(parent)
            followers[parent] = followers.get(parent, 0) + 1
    new, kept = list(range(sources)), list[Link]()
    for number, (parent, marks, behind, reader) in enumerate(made, sources):
        if number not in needed:
            new.append(-1)
            continue
        shared = parent < sources or parent in taken or followers[parent] > 1
        if shared or reader is not None and kept[new[parent] - sources][3] is not None:
            new.append(sources + len(kept))
            kept.append((new[parent], marks, behind, reader))
        else:
            new.append(new[parent])
            kept[new[parent] - sources] = _behind(kept[new[parent] - sources], marks, behind, reader)
    return tuple(kept), tuple([new[number] for number in taken])


class Made(NamedTuple):
    """What a step makes of the marks of those threads that came to something: of `before`, numbers in ascending order,
    it takes `links` and then `taken`, numbered as they stand there.
    """

    before: int  # a bit for each
    links: tuple[Link, ...]
    taken: tuple[int, ...]


class Marking(NamedTuple):
    """What a step does to the marks of a set that has so many.

    made: links of marks behind those of the set.  taken[j]: the marks with the number j of the next set, counted as
    links count.  `known`: what it makes for some of these, a bit for each.
    """

    sources: int
    made: tuple[Link, ...]
    taken: tuple[int, ...]
    known: dict[int, Made]

    def for_those(self, after: int) -> Made:
        """Return what is left of the marking where only some marks of the next set are asked for, a bit each."""
        links, taken = joined(
            self.sources, list(self.made), tuple([number for at, number in enumerate(self.taken) if after >> at & 1])
        )
        used = sorted({number for number in (*taken, *(link[0] for link in links)) if number < self.sources})
        new = {number: at for at, number in enumerate([*used, *range(self.sources, self.sources + len(links))])}
        found = Made(
            sum(1 << number for number in used),
            tuple([(new[link[0]], *link[1:]) for link in links]),
            tuple([new[number] for number in taken]),
        )
        if len(self.known) < _MOST_MADE:
            self.known[after] = found
        return found


# What was read: what it does to the marks, the place, and the native readers that there were.
Read = tuple[Marking, int, Sequence[Valued]]


def marked(trails: list[Trail | None], log: list[Read]) -> list[Trail | None]:
    """Return the marks that there are behind all that was read, of those that there were.

    PERF: marks are made only for the threads that came to something: messages of ten characters 1.1 -> 0.85 s
    a megabyte, beside other work.
    """
    plans, needed = list[Made](), (1 << len(log[-1][0].taken)) - 1
    for marking, _, _ in reversed(log):
        plan = marking.known.get(needed) or marking.for_those(needed)
        plans.append(plan)
        needed = plan.before
    trails = [trail for at, trail in enumerate(trails) if needed >> at & 1]
    for (_, place, readers), (_, links, taken) in zip(log, reversed(plans), strict=True):
        for parent, marks, behind, reader in links:
            value = None if reader is None else readers[reader].value
            trails.append(Trail(trails[parent], marks, place + behind, value))
        trails = [trails[number] for number in taken]
    return trails


def _behind(link: Link, marks: tuple[Placed, ...], behind: int, reader: int | None) -> Link:
    """Return a link with more marks behind its own."""
    parent, own, start, value = link
    more = tuple((mark, behind - start + further, data) for mark, further, data in marks)
    return parent, own + more, start, reader if value is None else value
