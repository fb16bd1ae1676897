"""Where the calls of a thread of a simulation return to: stacks that share what they have in common, and what stands
below them.

What the stacks of all threads have in common far below is put away as a `Base`, and the frame `Stacks.bottom` stands in
its place; when a thread returns that far, the base is put back.  So what is nested deeply is read by the same steps as
what is not, and costs no more: the stacks that are left, and those of the bases, are the same ones again and again.

Tested in tests/test_read.py: a simulation that never cuts its stacks agrees at every character.
Source: the sharing of stacks is that of M. Tomita, Efficient Parsing for Natural Language, 1985; the bases are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from constrained.formats.read.simulating.network import NetworkNode, NodeKind
from constrained.work import spend

_DEEPEST = 48, 24  # frames above the bottom: where a stack has more, so many are left
_BOTTOM = ""  # the owner of the bottom's node, which no rule is called

# A thread of a set: its reader and its marks are numbers, equal for what threads share.
Shape = tuple[NetworkNode, Any, "Frame | None", int]


class Frame:
    """Where a call returns to; `parent` is the frame of the caller.  Frames are unique for their content, so that `is`
    compares stacks.  `owners`: the rules that the nodes of the stack belong to.
    """

    __slots__ = ("node", "parent", "called", "depth", "owners")

    def __init__(self, node: NetworkNode, parent: Frame | None) -> None:
        self.node, self.parent = node, parent
        self.called: dict[NetworkNode, Frame] = {}
        self.depth: int = parent.depth + 1 if parent is not None else 0
        owners: frozenset[str] = parent.owners if parent is not None else frozenset()
        self.owners: frozenset[str] = owners if node.owner in owners else owners | {node.owner}

    @property
    def is_cut(self) -> bool:
        """Whether the bottom stands below it."""
        return _BOTTOM in self.owners

    @property
    def is_deep(self) -> bool:
        return self.depth > _DEEPEST[0]

    def above(self, depth: int) -> Frame:
        """Return the frame of a depth that is this one or a caller of it."""
        frame = self
        while frame.depth > depth:
            assert frame.parent is not None
            frame = frame.parent
        return frame


class Base:
    """What stands below stacks that were cut: a frame, whose stack stands on `below` where it was cut itself.
    `owners`: the rules of all of it.
    """

    __slots__ = ("frame", "below", "owners")

    def __init__(self, frame: Frame, below: Base | None) -> None:
        self.frame, self.below = frame, below
        owners: frozenset[str] = below.owners if below is not None and frame.is_cut else frozenset()
        self.owners: frozenset[str] = owners if frame.owners <= owners else owners | frame.owners


def callers(node: NetworkNode, frame: Frame | None, base: Base | None) -> Iterator[NetworkNode]:
    """Yield a node and those to which its calls return, the innermost first."""
    yield node
    while frame is not None:
        if frame.node.owner == _BOTTOM:
            assert base is not None
            frame, base = base.frame, base.below
        yield frame.node
        frame = frame.parent


class Stacks:
    """The frames that there are; `count` of them."""

    def __init__(self) -> None:
        self.bottom = Frame(NetworkNode(NodeKind.END, _BOTTOM), None)
        self._frames: dict[NetworkNode, Frame] = {}  # those without a parent
        self.count = 0

    def frame(self, node: NetworkNode, parent: Frame | None) -> Frame:
        known = self._frames if parent is None else parent.called
        frame = known.get(node)
        if frame is None:
            self.count += 1
            frame = known.setdefault(node, Frame(node, parent))
        return frame

    def cut(self, shapes: tuple[Shape, ...]) -> tuple[tuple[Shape, ...], Frame | None]:
        """Return shapes with a frame that all deep stacks have in common replaced by the bottom, and that frame; None:
        nothing is cut.  Stacks that are neither deep nor cut already stay whole.
        """
        spend(len(shapes))
        frames = {frame for _, _, frame, _ in shapes if frame is not None}
        deep = {frame for frame in frames if frame.depth > _DEEPEST[1] or frame.is_cut}
        depth = max(min(frame.depth for frame in deep) - _DEEPEST[1], 0)
        common = {frame.above(depth) for frame in deep}
        while len(common) > 1 and depth:
            depth -= 1
            common = {frame.above(depth) for frame in common}
        base = common.pop()
        return (shapes, None) if common or not depth else (self._moved(shapes, base, self.bottom), base)

    def uncut(self, shapes: tuple[Shape, ...], base: Frame) -> tuple[Shape, ...]:
        """Return shapes with a frame in place of the bottom."""
        return self._moved(shapes, self.bottom, base)

    def _moved(self, shapes: tuple[Shape, ...], base: Frame, to: Frame) -> tuple[Shape, ...]:
        moved = {base: to}
        found: list[Shape] = []
        for node, state, frame, trail in shapes:
            path, at = [], frame
            while at is not None and at not in moved:
                path.append(at)
                at = at.parent
            for step in reversed(path if at is not None else ()):
                assert at is not None
                moved[step] = self.frame(step.node, moved[at])
                at = step
            found.append((node, state, frame if at is None else moved[at], trail))
        return tuple(found)
