"""Read a text along all ways through a network at once, character by character: Pike's simulation, with stacks.

    rules ── network ──► nodes ── simulation ──► threads (stacks, trails), or where none could go on
              steps that are known: threads ◄── what a character makes of threads, one after the other

A *thread* is one way: a node, where in it, the calls to return to, and the marks that it has set.  Threads go on in
lockstep and two that can no longer differ are one, as Pike does it for regular expressions.
So nothing is read twice, a text may come in pieces of any size, and what a thread says at a cut is what it says in the
middle of a whole text.  Nothing here knows what rules mean, or that texts are messages.

Which of several readings counts is decided by order: branches as the grammar lists them, and a pattern ends as early as
it can.  What follows a pattern is only tried where its first character comes, so that free text is read in runs.

*Trails.*  A mark says that a rule begins or ends at a place.  A thread has a trail of them, which it shares with the
threads that it came apart from.

*Stacks.*  What the stacks of all threads have in common far below is put away as a `Base`, and the frame
`Stacks.bottom` stands in its place; when a thread returns that far, the base is put back.  So what is nested deeply is
read by the same steps as what is not, and costs no more: the stacks that are left, and those of the bases, are the same
ones again and again.

*Sets.*  A set is the threads at one place in their order, without their marks, but with which of them share theirs.
What a character or a token does to a set does not depend on the marks, so it is found once, by the slow step (`Step`)
over placeholders, which is the definition, and kept as a `Transition`: the next set, the marks that are made, and which
thread goes on with whose marks.  This is the lazy construction of a tagged automaton: nearly all of a text is read by
looking up.  Native readers have a state of their own, so sets number them and a step depends on what each of them made
of the character: that it goes on, that its value has ended, or that it met a fault.

`Known` is shared by all simulations over a network.  Everything in it is only ever added, by `setdefault`, so that
threads may share it; a simulation that finds it full leaves a fresh one to those after it.

Invariants: threads are alive: each of them can read the next character or token of some text; better ones come first.
Cost: 0.5 µs per character that may begin something, about 10 ns per character of free text; a set that is met first,
some 100 µs.
Tested in tests/test_read.py: a simulation that reads by steps, one that never does and one that never cuts its stacks
agree at every character.
Source: R. Cox, Regular Expression Matching: the Virtual Machine Approach, 2009; V. Laurikari, NFAs with Tagged
Transitions, 2000; the sharing of stacks is that of M. Tomita, Efficient Parsing for Natural Language, 1985; sets with
stacks and the bases are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from constrained.errors import LimitExceeded
from constrained.formats.payload.value_reader import Ahead, Fault, Outcomes, ValueReader
from constrained.formats.read.inputs import Piece
from constrained.formats.read.network import Mark, Network, NetworkNode, NodeKind, Ranges, has, without
from constrained.work import spend

# -- trails ------------------------------------------------------------------------------------------------------------

Marked = tuple[bool, str, int, Any]  # whether it begins, the rule that it marks, where it stands, its data
# Whose marks it follows: a number of what came, or as many more as links were made earlier; the mark; how far behind a
# place it stands; its data, where a number is that of the reader whose value it is.
Link = tuple[int, Mark, int, Any]


@dataclass(eq=False, slots=True)
class Trail:
    """The marks of a thread, the last first: one, where it stands, its data, and those before it; how many they are,
    and an earlier trail, once `_jumping` has asked.

    Invariant: threads that share one of the marks share all before it.
    """

    parent: Trail | None
    mark: Mark
    place: int
    data: Any = None
    depth: int = 0
    jump: Trail | None = None


def marks_of(trail: Trail | bool | None, after: Trail | None = None) -> Iterator[Marked]:
    """Yield the marks of a trail in their order, from those behind `after` on; a bool is no trail and has none."""
    trails = []
    while trail is not after and isinstance(trail, Trail):
        trails.append(trail)
        trail = trail.parent
    for trail in reversed(trails):
        yield *trail.mark, trail.place, trail.data


def _unread(trail: Trail | bool | None, token: str, end: int) -> Trail | bool | None:
    """Return a trail without the mark of a token that was read behind the end of the text; others move there."""
    if not isinstance(trail, Trail) or trail.place <= end:
        return trail
    parent = _unread(trail.parent, token, end)
    if trail.data == token or isinstance(parent, bool):
        return parent
    return Trail(parent, trail.mark, end, trail.data, trail.depth - 1)


def agreed(trails: list[Trail | None], place: int) -> tuple[Trail | None, int]:
    """Return the marks that trails share which stand at a place, and how far they agree on what is open there: the
    place, or their next mark.

    Cost: logarithmic in how many marks each has had since, as a stream asks at every piece.
    """
    heads = set(trails)
    if len(heads) < 2:
        return heads.pop() if heads else None, place
    jumped = [_jumping(trail) if trail is not None else _ROOT for trail in heads]
    shared = jumped[0]
    for trail in jumped:
        shared = _shared(shared, trail)
    places = [_above(trail, shared.depth + 1).place for trail in jumped if trail is not shared]
    return None if shared is _ROOT else shared, min(place, *places)


_ROOT = Trail(None, (False, ""), 0)  # before all marks
_ROOT.jump = _ROOT


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
        one.depth = before.depth + 1
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


# -- stacks ------------------------------------------------------------------------------------------------------------

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
        shapes_moved: list[Shape] = []
        for node, state, frame, trail in shapes:
            path, at = [], frame
            while at is not None and at not in moved:
                path.append(at)
                at = at.parent
            for step in reversed(path if at is not None else ()):
                assert at is not None
                moved[step] = self.frame(step.node, moved[at])
                at = step
            shapes_moved.append((node, state, frame if at is None else moved[at], trail))
        return tuple(shapes_moved)


# -- threads and sets --------------------------------------------------------------------------------------------------

MOST_SETS = 5_000  # that simulations over one network keep
_MOST_CLOSED = 100_000  # nodes that one character may lead to
MOST_STEPS = 512  # that a set keeps
_LONGEST = 64  # characters that are looked up at once


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
    """What a character or a special token does to a set.

    made: marks behind those of the set.  taken[j]: the marks with the number j of the next set, counted as links count;
    None where all stay as they are.  readers[k]: the number that reader k of the next set has in this one, or how it is
    read; None where they are the same.  acts: whether one of both is not None.
    """

    then: Set
    made: tuple[Link, ...]
    taken: tuple[int, ...] | None
    readers: tuple[Any, ...] | None
    acts: bool

    def applied(
        self, trails: list[Trail | None], place: int, readers: list[Ahead]
    ) -> tuple[list[Trail | None], list[Ahead]]:
        """Return the marks and the readers of the next set, of a step that begins at a place."""
        if self.taken is not None:
            pool = trails.copy()
            for parent, mark, behind, data in self.made:
                data = readers[data].value if type(data) is int else data
                pool.append(Trail(pool[parent], mark, place + behind, data))
            trails = [pool[number] for number in self.taken]
        if self.readers is not None:
            readers = [readers[reader] if type(reader) is int else Ahead(reader) for reader in self.readers]
        return trails, readers


# What is known of a step: None, that no thread goes on; False, that it depends on what stands below the bottom.
Effect = Transition | Literal[False] | None


class Closure(NamedTuple):
    """What stands at a node before anything is read.

    leaves[i] = (the node of a thread, its frame, whose marks it has: 0 for those that came, k for made[k - 1]), the
    best first. made[k] = (whose marks, counted alike, and one more).
    """

    leaves: tuple[tuple[NetworkNode, Frame | None, int], ...]
    made: tuple[tuple[int, Mark], ...]


class Set:
    """Threads without their marks, see `Shape`.

    `run`: finds characters that change nothing, native readers aside.  `readers`: how many there are of these; `alone`:
    there is one, and nothing else.  `deep`: its stacks are to be cut; `cut`: what it becomes then, and the frame cut
    off.  `uncut`: what it becomes with a frame as its bottom.  `stretches`: by their first two characters, texts that
    it has read and what they made of it, as one step: the signs between two values, or a blank in a text that may end
    there and the letter behind it; where no readers are in it.
    """

    __slots__ = ("shapes", "run", "stretches", "readers", "alone", "deep", "cut", "uncut", "steps", "tokens")

    def __init__(self, shapes: tuple[Shape, ...], run: re.Pattern[str] | None) -> None:
        self.shapes, self.run = shapes, run
        self.stretches: dict[str, tuple[str, Transition]] = {}
        native = [state for node, state, _, _ in shapes if node.kind is NodeKind.NATIVE]
        self.readers = len(set(native))
        self.alone = self.readers == 1 and len(native) == len(shapes)
        self.deep = any(frame is not None and frame.depth > _DEEPEST[0] for _, _, frame, _ in shapes)
        self.cut: tuple[Set, Frame | None] | None = None  # None: nobody has asked yet
        self.uncut: dict[Frame, Set] = {}
        # by character, and what became of the readers where there are any, and by special token, or `END`
        self.steps: dict[Any, Effect] = {}
        self.tokens: dict[Any, Effect] = {}


_NOTHING_READ = Set((), None)


class Known:
    """What simulations over one network share.  `begin`: the step to what stands at its start, from nothing."""

    def __init__(self, network: Network) -> None:
        self._patterns = network.patterns
        self.stacks = Stacks()
        self.sets: dict[tuple[Shape, ...], Set] = {}
        self._firsts: dict[tuple[NetworkNode, Frame | None], Ranges] = {}
        self.closures: dict[tuple[NetworkNode, Frame | None], Closure] = {}
        shapes, natives, trails = numbered(Step(self, 0).begun(network.start))
        self.begin = step_of(_NOTHING_READ, [None], self.set_of(shapes), natives, trails, 0)

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
                        "the text takes too long to read", where=f"rule '{node.owner}'",
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
        closure = Closure(tuple(leaves), tuple(made))
        if len(self.closures) < MOST_SETS:
            self.closures[start] = closure
        return closure

    def first(self, node: NetworkNode, frame: Frame | None) -> Ranges:
        """Return the characters that can come at a node."""
        key = (node, frame)
        if key not in self._firsts:
            ranges: list[tuple[int, int]] = []
            for leaf, stack, _ in (self.closures.get(key) or self.closed(node, frame)).leaves:
                ranges += starts(leaf)
                if leaf.kind is NodeKind.PATTERN and leaf.value.accepts:
                    ranges += self.first(leaf.then[0], stack)
            self._firsts[key] = tuple(sorted(set(ranges)))
        return self._firsts[key]

    def set_of(self, shapes: tuple[Shape, ...]) -> Set:
        """Return the set of some shapes."""
        set_ = self.sets.get(shapes)
        if set_ is None:
            set_ = Set(shapes, self._run(shapes))
            if len(self.sets) < MOST_SETS:
                set_ = self.sets.setdefault(shapes, set_)
        return set_

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
        return self._patterns.run(inside) if inside else None


def step_of(
    before: Set, sources: Sequence[Trail | None], then: Set, readers: list[Any], after: list[Trail | None], place: int
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
            made.append((numbers[id(link.parent)], link.mark, link.place - place, link.data))
    taken = tuple(numbers[id(trail)] for trail in after)
    stays, kept = not made and taken == tuple(range(len(sources))), readers == list(range(before.readers))
    return Transition(
        then, tuple(made), None if stays else taken, None if kept else tuple(readers), not (stays and kept)
    )


def starts(node: NetworkNode) -> Ranges:
    """Return the characters that a new thread at a node can read."""
    if node.kind is NodeKind.PATTERN:
        ranges: Ranges = node.value.ranges
        return ranges
    if node.kind is NodeKind.TEXT:
        return ((ord(node.value[0]), ord(node.value[0])),)
    return ()


# -- the slow step -----------------------------------------------------------------------------------------------------

TOKEN = "<token>"  # the mark of a special token that was read
END = ""  # the end of the text, as a special token of no length


class Step:
    """What becomes of threads at a place, the best first."""

    __slots__ = ("_known", "_place", "_made")

    def __init__(self, known: Known, place: int) -> None:
        self._known, self._place = known, place
        self._made: dict[Any, Trail] = {}

    def begun(self, node: NetworkNode) -> list[Thread]:
        """Return the threads at a node that nobody has called."""
        threads: list[Thread] = []
        self._close(node, None, None, self._place, threads, set())
        return threads

    def by_character(self, before: list[Thread], char: str, outcomes: Mapping[Any, bool | None]) -> list[Thread]:
        """Return what threads become with a character, of which readers have made something."""
        after = self._place + 1
        after_it: list[Thread] = []
        seen: set[Any] = set()
        for thread in self.expanded(before, char):
            node, state = thread.node, thread.state
            if node.kind is NodeKind.TEXT:
                if node.value[state] != char:
                    continue
                if state + 1 == len(node.value):
                    self._close(node.then[0], thread.frame, thread.trail, after, after_it, seen)
                else:
                    _add(thread, state + 1, after_it, seen)
            elif node.kind is NodeKind.PATTERN:
                next_state = state.step(char)
                if next_state is not None:
                    _add(thread, next_state, after_it, seen)
            elif node.kind is NodeKind.NATIVE:
                if outcomes[state]:
                    self._returned(thread, after, after_it, seen)
                elif outcomes[state] is False:
                    _add(thread, state, after_it, seen)
        return after_it

    def by_token(self, before: list[Thread], name: str) -> list[Thread]:
        """Return what threads become with a special token; at the end of the text the best that has ended is left."""
        after = self._place + len(name)
        after_it: list[Thread] = []
        seen: set[Any] = set()
        for thread in self.expanded(before, None):
            if name == END:
                if thread.node.kind is NodeKind.END:
                    return [thread]
            elif thread.node.kind is NodeKind.TOKEN and thread.node.value == name:
                trail = self._mark(thread.trail, (False, TOKEN), after, name)
                self._close(thread.node.then[0], thread.frame, trail, after, after_it, seen)
        return after_it

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
        """Go on behind a native rule, with a mark that holds the number of its reader."""
        trail = self._mark(thread.trail, (False, thread.node.owner), place, thread.state)
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

    def _mark(self, trail: Trail | None, mark: Mark, place: int, data: Any = None) -> Trail:
        """Return the trail with one more mark; equal trails that are made at one character are one object."""
        key = (id(trail), mark, place)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = Trail(trail, mark, place, data)
        return made


def _add(thread: Thread, state: Any, found: list[Thread], seen: set[Any]) -> None:
    key = (thread.node, state, thread.frame)
    if key not in seen:
        seen.add(key)
        found.append(thread._replace(state=state))


# -- the simulation ----------------------------------------------------------------------------------------------------

class Simulation:
    """All readings of what has been read so far, as threads; it is fed characters and special tokens.

    `place` counts characters read, each special token as long as its name.  After a failure nothing more is read.
    at: where the text begins.

    Invariant: the threads are the shapes of `_set` with the marks `_trails` and the native readers `_readers`, and with
    `_base` below the bottom of their stacks.
    """

    def __init__(self, network: Network, *, at: int = 0) -> None:
        known: Known | None = network.known
        if known is None or len(known.sets) + known.stacks.count > MOST_SETS:
            known = network.known = Known(network)
        self._known, self.place = known, at
        self.failure: Failure | None = None
        self._set: Set
        self._base: Base | None = None
        self._trails: list[Trail | None] = [None]
        self._readers: list[Ahead] = []
        self._take(known.begin)

    @property
    def threads(self) -> list[Thread]:
        """The threads, the best first."""
        trails, base = self._trails, self._base
        return [
            Thread(node, self._readers[state] if node.kind is NodeKind.NATIVE else state, frame, trails[trail], base)
            for node, state, frame, trail in self._set.shapes
        ]

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be read."""
        return all(node.kind is NodeKind.END for node, *_ in self._set.shapes)

    @property
    def reader(self) -> ValueReader | None:
        """What reads a value for the best thread that is in one."""
        return self._readers[0].reader if self._readers else None

    def _take(self, step: Transition) -> None:
        """Go on by a step that begins at the place."""
        self._set = step.then
        self._trails, self._readers = step.applied(self._trails, self.place, self._readers)
        if step.then.deep:
            self._cut(step.then)

    def _put_back(self) -> None:
        """Put the base back on which the stacks stand, or what was cut off last of it."""
        assert self._base is not None
        self._set, self._base = self._known.uncut(self._set, self._base)

    # -- reading -------------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> None:
        """Read text without special tokens; stops at a failure."""
        at, end = 0, len(text)
        while at < end and self.failure is None:
            at, step = self._look_up(text, at, end)
            if step is False:
                self._put_back()
            elif step is None:
                self._fail(None)

    def _look_up(self, text: str, at: int, end: int) -> tuple[int, Effect]:
        """Read as far as threads go on above the bottom of their stacks; return how far that is, and what is known of
        the next step.
        """
        current, readers, origin, begun = self._set, self._readers, self.place - at, at
        moves = 0
        step: Effect = self._known.begin
        start, since, acts = current, at, list[tuple[int, Transition]]()  # of the stretch, and its steps with marks
        while at < end:
            stop = min([ahead.reach(text, at, end, origin) for ahead in readers]) if current.readers else end
            free = at
            if current.alone:
                at = stop
            elif current.run is not None and (match := current.run.match(text, at, stop)) is not None:
                at = match.end()
            if at > free or at - since >= _LONGEST:
                if free - since > 1:
                    self._keep(start, current, text[since:free], acts)
                start, since, acts = current, at, []
                if at == end:
                    break
            stretch = current.stretches.get(text[at : at + 2])
            if stretch is not None and text.startswith(stretch[0], at):
                if stretch[1].acts:
                    self._trails, readers = stretch[1].applied(self._trails, origin + at, readers)
                at, current, moves = at + len(stretch[0]), stretch[1].then, moves + 1
                start, since, acts = current, at, []
                continue
            outcomes = tuple([one.place == origin + at and one.outcome for one in readers]) if at == stop else ()
            key: Any = (text[at], outcomes) if outcomes else text[at]
            step = current.steps.get(key)
            if step is None and key not in current.steps:
                step = self._learn(current, text[at], outcomes)
                moves += 100
            if not step:
                break
            if step.acts:  # (most do not)
                self._trails, readers = step.applied(self._trails, origin + at, readers)
                acts.append((at - since, step))
            current, moves, at = step.then, moves + 1, at + 1
            if current.readers or current.deep or start.readers:
                if at - since > 1:
                    self._keep(start, current, text[since:at], acts)
                current = self._cut(current) if current.deep else current
                start, since, acts = current, at, []
        self._set, self._readers, self.place = current, readers, origin + at
        spend(1 + moves + ((at - begun) >> 6))
        return at, step

    def _keep(self, start: Set, then: Set, text: str, acts: list[tuple[int, Transition]]) -> None:
        """Remember what a stretch of text makes of a set without readers, if another one does not begin alike."""
        if start.readers or then.deep or text[:2] in start.stretches or len(start.stretches) >= MOST_STEPS:
            return
        sources = [Trail(None, (False, ""), 0) for _ in {trail for *_, trail in start.shapes}]
        trails = list[Trail | None](sources)
        for at, step in acts:
            trails, _ = step.applied(trails, at, [])
        readers = acts[-1][1].readers if then.readers else None
        start.stretches[text[:2]] = text, step_of(start, sources, then, [*(readers or ())], trails, 0)

    def _cut(self, deep: Set) -> Set:
        """Go on with as much below the bottom of the stacks of a set as can be."""
        self._set, frame = self._known.cut(deep)
        if frame is not None:
            self._base = Base(frame, self._base)
        return self._set

    def _learn(self, current: Set, char: str, outcomes: Outcomes) -> Effect:
        """Find out what a character does to a set."""
        became = dict(enumerate(outcomes or (False,) * current.readers))
        key: Any = (char, outcomes) if outcomes else char
        return self._learned(current.steps, key, current, lambda slow, set_: slow.by_character(set_, char, became))

    def _learned(
        self, known: dict[Any, Effect], key: Any, current: Set, step: Callable[[Step, list[Thread]], list[Thread]]
    ) -> Effect:
        """Find out what a step does to a set, over placeholders for marks and readers, and remember it."""
        sources = [Trail(None, (False, ""), 0) for _ in {trail for *_, trail in current.shapes}]
        before = [Thread(node, state, frame, sources[trail]) for node, state, frame, trail in current.shapes]
        learned: Effect = None
        try:
            after = step(Step(self._known, self.place), before)
            if after:
                shapes, readers, trails = numbered(after)
                learned = step_of(current, sources, self._known.set_of(shapes), readers, trails, self.place)
        except Beyond:
            learned = False
        if len(known) < MOST_STEPS:
            known[key] = learned
        return learned

    # -- one step ------------------------------------------------------------------------------------------------------

    def read(self, pieces: Iterable[Piece]) -> None:
        """Read texts and special tokens."""
        for piece, is_token in pieces:
            if self.failure is None:
                self.feed_token(piece) if is_token else self.feed(piece)

    def feed_token(self, name: str) -> None:
        """Read a special token."""
        if self.failure is not None:
            return
        step = self._set.tokens.get(name) or self._learn_token(name)
        if step is None:
            self._fail(name)
        else:
            self._take(step)
            self.place += len(name)
            spend(1 + len(name))

    def _learn_token(self, name: str) -> Transition | None:
        """Find out what a special token does to the threads; None: nothing goes on behind it."""
        while True:
            tokens = self._set.tokens
            if name in tokens:
                step = tokens[name]
            else:
                spend(100)
                step = self._learned(tokens, name, self._set, lambda slow, before: slow.by_token(before, name))
            if step is not False:
                return step
            self._put_back()

    def accepted(self) -> Trail | bool | None:
        """Return the marks of the best reading that is complete here; False where there is none."""
        if self.failure is not None:
            return False
        step = self._set.tokens.get(END) or self._learn_token(END)
        return False if step is None else step.applied(self._trails, self.place, self._readers)[0][0]

    def lacking(self, tokens: Iterable[str]) -> Trail | bool | None:
        """Return the marks of a reading that would be complete behind the first such special token; False where there
        is none.
        """
        for token in tokens if self.failure is None else ():
            stopped = copy(self)
            stopped.feed_token(token)
            trail = stopped.accepted()
            if trail is not False:
                return _unread(trail, token, self.place)
        return False

    def alive(self) -> list[Thread]:
        """Return the threads, with those that are about to leave a pattern; for what may come next."""
        while True:
            try:
                step = Step(self._known, self.place)
                return [thread._replace(base=self._base) for thread in step.expanded(self.threads, None)]
            except Beyond:
                self._put_back()

    def _fail(self, token: str | None) -> None:
        """Note that no thread goes on here, with a character or a special token."""
        spend(1 + len(self._set.shapes))
        fault = next((ahead.fault for ahead in self._readers[::-1] if ahead.fault is not None), None)
        self.failure = Failure(self.place, tuple(self.alive()), fault, token)

    def agreed(self) -> tuple[Trail | None, int]:
        """Return the marks that all readings share, and how far they agree on what is open there."""
        return agreed(self._trails, self.place)
