"""The history of a thread of the reading machine: where its calls return to, and the marks that it has set.

A mark says that a rule begins or ends at a place.  A thread has a *trail* of them, which it shares with the threads
that it came apart from.  Marks that are always had together are one link of it, so that a call costs a few objects and
not one a mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .network import Mark, Node

VALUE = object()  # stands for the value of a native rule that has ended
Made = tuple[Mark, int, Any]  # the mark, how far behind something it stands, its data
Marked = tuple[bool, str, int, Any]  # whether it begins, the rule that it marks, where it stands, its data
# Whose marks they follow: a number of what came, or as many more as links were made earlier; the marks; how far behind
# a place the first stands; the number of the reader whose value they have, if any.
Link = tuple[int, tuple[Made, ...], int, int | None]


class Frame:
    """Where a call returns to; `parent` is the frame of the caller.  Frames are unique for their content, so that `is`
    compares stacks.
    """

    __slots__ = ("node", "parent", "called", "depth")

    def __init__(self, node: Node, parent: Frame | None) -> None:
        self.node, self.parent = node, parent
        self.called: dict[Node, Frame] = {}
        self.depth: int = parent.depth + 1 if parent is not None else 0

    def above(self, depth: int) -> Frame:
        """Return the frame of a depth that is this one or a caller of it."""
        frame = self
        while frame.depth > depth:
            assert frame.parent is not None
            frame = frame.parent
        return frame


class Trail:
    """The marks of a thread, the last first: those that were made together, and those before them.

    marks[i] = (the mark, how far behind `place` it stands, its data or `VALUE`); `data`: what VALUE stands for.
    Invariant: the first mark stands at `place`; threads that share one of the marks share them all.
    """

    __slots__ = ("parent", "depth", "marks", "place", "data")

    def __init__(self, parent: Trail | None, marks: tuple[Made, ...], place: int, data: Any = None) -> None:
        self.parent, self.marks, self.place, self.data = parent, marks, place, data
        self.depth: int = parent.depth + 1 if parent is not None else 1

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
    """
    heads = set(trails)
    while len(heads) > 1:
        deepest = max((trail for trail in heads if trail is not None), key=lambda trail: trail.depth)
        place = min(place, deepest.place)
        heads.remove(deepest)
        heads.add(deepest.parent)
    return heads.pop() if heads else None, place


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


def _behind(link: Link, marks: tuple[Made, ...], behind: int, reader: int | None) -> Link:
    """Return a link with more marks behind its own."""
    parent, own, start, value = link
    more = tuple((mark, behind - start + further, data) for mark, further, data in marks)
    return parent, own + more, start, reader if value is None else value
