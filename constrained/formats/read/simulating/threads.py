"""Threads of a simulation and the sets of them that were met, with what each character makes of a set.

A *set* is the threads at one place in their order, without their marks, but with which of them share theirs.  What a
character or a token does to a set does not depend on the marks, so it is found once, by the simulation's slow step over
placeholders, and kept as a `Transition`: the next set, the marks that are made, and which thread goes on with whose
marks. This is the lazy construction of a tagged automaton.  Native readers have a state of their own, so sets number
them and a step depends on what each of them made of the character: that it goes on, that its value has ended, or that
it met a fault.

`Known` is shared by all simulations over a network.  Everything in it is only ever added, by `setdefault`, so that
threads may share it; a simulation that finds it full leaves a fresh one to those after it.

Tested in tests/test_read.py: a simulation that reads by steps and one that never does agree at every character.
Source: V. Laurikari, NFAs with Tagged Transitions, 2000; sets with stacks: ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from constrained.errors import LimitExceeded
from constrained.formats.payload import Fault
from constrained.formats.payload.ahead import Ahead
from constrained.formats.read.inputs import Piece
from constrained.formats.read.simulating.network import Mark, Network, NetworkNode, NodeKind
from constrained.formats.read.simulating.patterns import Patterns, Ranges, without
from constrained.formats.read.simulating.stacks import Base, Frame, Shape, Stacks, callers
from constrained.formats.read.simulating.trails import Link, Marking, Trail, joined
from constrained.work import spend

MOST_SETS = 5_000  # that simulations over one network keep
_MOST_CLOSED = 100_000  # nodes that one character may lead to
MOST_STEPS = 512  # that a set keeps
_MOST_ALIKE = 6  # repeats with the same beginning that it keeps
LONGEST_REPEAT = 64  # characters of a text, or pieces and characters of each


class Beyond(Exception):
    """A step depends on what stands below the bottom of a set's stacks."""


class Thread(NamedTuple):
    """`state`: of a TEXT how much of it was read, of a PATTERN its state, of a NATIVE its reader, or what makes one
    where it begins behind the last character; in a set the reader's number.  `base`: what stands below its frame.
    """

    node: NetworkNode
    state: Any
    frame: Frame | None
    trail: Trail | None
    base: Base | None = None

    @property
    def owners(self) -> frozenset[str]:
        """The rules that it is in."""
        frame, base = self.frame, self.base
        below = base.owners if base is not None and frame is not None and frame.is_cut else frozenset()
        return below | {self.node.owner} | (frame.owners if frame is not None else frozenset())

    def callers(self) -> Iterator[NetworkNode]:
        """Yield its node and those to which its calls return, the innermost first."""
        return callers(self.node, self.frame, self.base)


@dataclass(frozen=True, slots=True)
class Failure:
    """Where no thread could go on: the place, what could have come, and the fault of a native reader, if any."""

    place: int
    threads: tuple[Thread, ...]
    fault: Fault | None
    token: str | None  # the special token that could not be read


Read = TypeVar("Read", str, list[Piece])


def numbered(threads: Iterable[Thread]) -> tuple[tuple[Shape, ...], list[Any], list[Trail | None]]:
    """Return the shapes of threads, and the readers and marks that their numbers stand for."""
    readers: dict[Any, int] = {}
    trails: dict[int, Trail | None] = {}
    numbers: dict[int, int] = {}
    shapes = []
    for node, state, frame, trail, _ in threads:
        if node.kind is NodeKind.NATIVE:
            state = readers.setdefault(state, len(readers))
        trails[id(trail)] = trail
        shapes.append((node, state, frame, numbers.setdefault(id(trail), len(numbers))))
    return tuple(shapes), list(readers), list(trails.values())


class Transition(NamedTuple):
    """What a character or a special token does to a set; or a text, character by character.

    marking: what becomes of the marks; None where they stay as they are.  readers[k]: the number that reader k of the
    next set has in this one, or how it is read; None where they are the same.  acts: whether one of both is not None.
    """

    then: Set
    marking: Marking | None
    readers: tuple[Any, ...] | None
    acts: bool

    def passed(self, readers: list[Ahead]) -> list[Ahead]:
        """Return the readers of the next set."""
        if self.readers is None:
            return readers
        return [readers[reader] if type(reader) is int else Ahead(reader) for reader in self.readers]


class Closure(NamedTuple):
    """What stands at a node before anything is read.

    leaves[i] = (the node of a thread, its frame, whose marks it has: 0 for those that came, k for made[k - 1]), the
    best first. made[k] = (whose marks, counted alike, and one more).
    """

    leaves: tuple[tuple[NetworkNode, Frame | None, int], ...]
    made: tuple[tuple[int, Mark], ...]


class Set:
    """Threads without their marks, see `Shape`.

    `run`: finds characters that change nothing, native readers aside; `free`: they are text, no name or space.
    `readers`: how many there are of these; `alone`: there is one, and nothing else.  `deep`: its stacks are to be cut;
    `cut`: what it becomes then, and the frame that is cut off.  `uncut`: what it becomes with a frame as its bottom.
    `texts`, `pieces`: what has come again behind it.  `returns`: whether two characters lead back and change nothing.
    """

    __slots__ = (
        "shapes", "run", "free", "readers", "alone", "deep", "cut", "uncut", "steps", "tokens", "texts", "pieces",
        "returns",
    )  # fmt: skip

    def __init__(self, shapes: tuple[Shape, ...], run: re.Pattern[str] | None) -> None:
        self.shapes, self.run = shapes, run
        self.free = run is not None and all(map(run.match, "a "))
        native = [state for node, state, _, _ in shapes if node.kind is NodeKind.NATIVE]
        self.readers = len(set(native))
        self.alone = self.readers == 1 and len(native) == len(shapes)
        self.deep = any(frame is not None and frame.is_deep for _, _, frame, _ in shapes)
        self.cut: tuple[Set, Frame | None] | None = None  # None: nobody has asked yet
        self.uncut: dict[Frame, Set] = {}
        # by character, and what became of the readers where there are any; None: to be done slowly
        self.steps: dict[Any, Transition | None] = {}
        self.tokens: dict[str, Transition | None] = {}  # by special token
        self.texts, self.pieces = Repeats[str](), Repeats[list[Piece]]()
        self.returns: dict[str, bool] = {}

    def text_again(self, key: Any, text: str, at: int, end: int) -> tuple[str, Transition] | None:
        """Return a text that comes again at a place, and its step; key: as of `steps`."""
        for known in self.texts.known.get(key, ()):
            if text.startswith(known[0], at, end):
                return known
        return None

    def pieces_again(self, pieces: list[Piece], at: int) -> tuple[list[Piece], Transition] | None:
        """Return pieces that come again, and their step."""
        for known in self.pieces.known.get(pieces[at], ()):
            if pieces[at : at + len(known[0])] == known[0]:
                return known
        return None


class Repeats(Generic[Read]):
    """Steps of what has come again behind a set: texts, or pieces; by the key of their first step, or their first
    piece.
    """

    __slots__ = ("known", "_latest")

    def __init__(self) -> None:
        self.known: dict[Any, list[tuple[Read, Transition]]] = {}
        self._latest: dict[Any, Read] = {}

    def note(self, start: Set, whole: Read, at: int, end: int, first: Any = None) -> None:
        """Take note of what was read step by step; what it has in common with what came before becomes one step.

        first: the key of the first step, where that is more than what was read.
        """
        if end - at < 2:
            return
        read = whole[at : min(end, at + LONGEST_REPEAT)]
        key = read[0] if first is None else first
        before = self._latest.get(key, read[:0])
        if len(self._latest) < MOST_STEPS:
            self._latest[key] = read
        size = next((at for at, pair in enumerate(zip(read, before, strict=False)) if pair[0] != pair[1]), len(before))
        common, others = read[:size], self.known.get(key, [])
        if len(common) > 1 and len(others) < _MOST_ALIKE and all(common != other for other, _ in others):
            step = combined(start, [(common, False)] if isinstance(common, str) else common, first)
            if step is not None:
                self.known.setdefault(key, []).append((common, step))


class Known:
    """What simulations over one network share."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self.stacks = Stacks()
        self._sets: dict[tuple[Shape, ...], Set] = {}
        self._firsts: dict[tuple[NetworkNode, Frame | None], Ranges] = {}
        self.closures: dict[tuple[NetworkNode, Frame | None], Closure] = {}

    @property
    def is_full(self) -> bool:
        return len(self._sets) + self.stacks.count > MOST_SETS

    def cut(self, deep: Set) -> tuple[Set, Frame | None]:
        """Return a set with its stacks cut, and the frame that was cut off; the set where they cannot be."""
        if deep.cut is None:
            shapes, base = self.stacks.cut(deep.shapes)
            try:
                deep.cut = (deep, None) if base is None else (self.set_of(shapes), base)
            except Beyond:
                deep.cut = deep, None
        return deep.cut

    def uncut(self, cut: Set, base: Base) -> tuple[Set, Base | None]:
        """Return a set with as much of its base as is needed put back, and what is left of that."""
        if base.frame in cut.uncut:
            return cut.uncut[base.frame], base.below
        then, below = self.standing(self.stacks.uncut(cut.shapes, base.frame), base.below)
        if below is base.below and len(cut.uncut) < MOST_STEPS:
            cut.uncut[base.frame] = then
        return then, below

    def standing(self, shapes: tuple[Shape, ...], base: Base | None) -> tuple[Set, Base | None]:
        """Return the set of some shapes that stand on a base, with as much of it put back as is needed to tell what
        leads out of their patterns, and what is left.
        """
        while True:
            try:
                return self.set_of(shapes), base
            except Beyond:
                assert base is not None
                shapes, base = self.stacks.uncut(shapes, base.frame), base.below

    def closed(self, node: NetworkNode, frame: Frame | None) -> Closure:
        """Return what stands at a node.  Raises: LimitExceeded: rules call each other for ever before anything is
        read.
        """
        start, leaves, made = (node, frame), [], []
        work, seen, count = [(node, frame, 0)], set(), 0
        while work:
            node, frame, trail = work.pop()
            count += 1
            if not count & 63:
                spend(64)
                if count > _MOST_CLOSED:
                    raise LimitExceeded(
                        "the text takes too long to read",
                        where=f"rule '{node.owner}'",
                        because="it calls itself before it reads anything",
                    )
            kind = node.kind
            if kind is NodeKind.END and frame is not None:
                if frame is self.stacks.bottom:
                    raise Beyond
                work.append((frame.node, frame.parent, trail))
                continue
            if (node, frame) in seen:
                continue
            seen.add((node, frame))
            if kind is NodeKind.SPLIT:
                work += [(branch, frame, trail) for branch in reversed(node.then)]
            elif kind is NodeKind.CALL:
                after = node.then[0]
                inner = frame if after.kind is NodeKind.END else self.stacks.frame(after, frame)
                work.append((node.value, inner, trail))
            elif kind is NodeKind.MARK:
                made.append((trail, node.value))
                work.append((node.then[0], frame, len(made)))
            else:
                leaves.append((node, frame, trail))
        found = Closure(tuple(leaves), tuple(made))
        if len(self.closures) < MOST_SETS:
            self.closures[start] = found
        return found

    def first(self, node: NetworkNode, frame: Frame | None) -> Ranges:
        """Return the characters that can come at a node."""
        key = (node, frame)
        if key not in self._firsts:
            found: list[tuple[int, int]] = []
            for leaf, stack, _ in (self.closures.get(key) or self.closed(node, frame)).leaves:
                found += starts(leaf)
                if leaf.kind is NodeKind.PATTERN and leaf.value.accepts:
                    found += self.first(leaf.then[0], stack)
            self._firsts[key] = tuple(sorted(set(found)))
        return self._firsts[key]

    def set_of(self, shapes: tuple[Shape, ...]) -> Set:
        """Return the set of some shapes."""
        found = self._sets.get(shapes)
        if found is None:
            found = Set(shapes, self._run(shapes))
            if len(self._sets) < MOST_SETS:
                found = self._sets.setdefault(shapes, found)
        return found

    def _run(self, shapes: tuple[Shape, ...]) -> re.Pattern[str] | None:
        """Return what finds the characters at which each thread stays where it is, and none leaves its pattern."""
        inside: Ranges | None = None
        for node, state, frame, _ in shapes:
            if node.kind is NodeKind.NATIVE:
                continue
            if node.kind is not NodeKind.PATTERN or not state.stays:
                return None
            stays = without(state.stays, self.first(node.then[0], frame) if state.accepts else ())
            inside = stays if inside is None else without(inside, without(inside, stays))
        return self._patterns.run(inside, ()) if inside else None


def known_of(network: Network) -> Known:
    """Return what simulations over a network have found out so far, or a fresh one where that is much."""
    known: Known | None = network.known
    if known is None or known.is_full:
        known = network.known = Known(network.patterns)
    return known


def step_of(
    before: Set, sources: list[Trail], then: Set, readers: list[Any], after: list[Trail | None], place: int
) -> Transition:
    """Return the step that led from a set with the marks `sources` to one with the marks `after`; it was made at a
    place.  The value of a native rule is the number of its reader.
    """
    numbers: dict[int, int] = {id(source): index for index, source in enumerate(sources)}
    made: list[Link] = []
    for trail in after:
        chain = []
        while id(trail) not in numbers:
            assert trail is not None
            chain.append(trail)
            trail = trail.parent
        for link in reversed(chain):
            numbers[id(link)] = len(sources) + len(made)
            made.append((numbers[id(link.parent)], link.marks, link.place - place, link.data))
    taken = tuple(numbers[id(trail)] for trail in after)
    kept = readers == list(range(before.readers))
    return _step(len(sources), then, made, taken, None if kept else tuple(readers))


def _step(
    sources: int, then: Set, made: list[Link], taken: tuple[int, ...], readers: tuple[Any, ...] | None
) -> Transition:
    links, taken = joined(sources, made, taken)
    stays = not links and taken == tuple(range(sources))
    marking = None if stays else Marking(sources, links, taken, {})
    return Transition(then, marking, readers, readers is not None or not stays)


def combined(start: Set, pieces: list[Piece], first: Any = None) -> Transition | None:
    """Return what texts and tokens do to a set, put together of what each character and token does, which is known;
    None: it is not, native readers go on, or stacks are to be cut on the way.

    first: the key of the first step, which is that of a reader's end.
    """
    sources = 1 + max(trail for *_, trail in start.shapes)
    current, place, made, taken = start, 0, list[Link](), tuple(range(sources))
    readers: tuple[Any, ...] | None = None
    for piece, is_token in pieces:
        for part in (piece,) if is_token else piece:
            key, first = part if first is None else first, None
            if current.deep or current.readers and key == part:
                return None
            place += len(part)
            if not is_token and key == part and current.run is not None and current.run.match(part):
                continue
            one = current.tokens.get(part) if is_token else current.steps.get(key)
            if one is None:
                return None
            if one.marking is not None:
                numbers = [*taken]
                for parent, marks, behind, reader in one.marking.made:
                    numbers.append(sources + len(made))
                    made.append((numbers[parent], marks, place - len(part) + behind, reader))
                taken = tuple([numbers[number] for number in one.marking.taken])
            current, readers = one.then, readers if one.readers is None else one.readers
    return _step(sources, current, made, taken, readers)


def starts(node: NetworkNode) -> Ranges:
    """Return the characters that a new thread at a node can read."""
    if node.kind is NodeKind.PATTERN:
        ranges: Ranges = node.value.ranges
        return ranges
    if node.kind is NodeKind.TEXT:
        return ((ord(node.value[0]), ord(node.value[0])),)
    return ()
