"""Read a text along all ways through a network at once, character by character: Pike's simulation, with stacks.

A *thread* is one way: a node, where in it, the calls to return to, and the marks that it has set.  Threads go on in
lockstep and two that can no longer differ are one, as Pike does it for regular expressions.
So nothing is read twice, a text may come in pieces of any size, and what a thread says at a cut is what it says in the
middle of a whole text.

Which of several readings counts is decided by order: branches as the grammar lists them, and a pattern ends as early as
it can.  What follows a pattern is only tried where its first character comes, so that free text is read in runs.  What
a character does to a set of threads is kept (`threads.Transition`), and what a text or tokens do that come again
(`threads.Repeats`), so that nearly all of a text is read by looking up; the slow step is the definition.

Invariants: threads are alive: each of them can read the next character or token of some text; better ones come first.
Cost: 0.5 µs per character that may begin something, about 10 ns per character of free text; a set that is met first,
some 100 µs.
Source: R. Cox, Regular Expression Matching: the Virtual Machine Approach, 2009; stacks and their sharing are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, cast

from constrained.formats.payload.ahead import Ahead, Outcomes, outcomes_at
from constrained.formats.payload.pieces import ValueReader
from constrained.formats.read.inputs import Piece
from constrained.formats.read.simulating.network import Network, NodeKind
from constrained.formats.read.simulating.stacks import Base
from constrained.formats.read.simulating.stepping import Step
from constrained.formats.read.simulating.threads import (
    LONGEST_REPEAT,
    MOST_STEPS,
    Beyond,
    Failure,
    Set,
    Thread,
    Transition,
    combined,
    known_of,
    numbered,
    step_of,
)
from constrained.formats.read.simulating.trails import Read, Trail, agreed, marked
from constrained.work import spend

_MOST_PIECES = 8  # that become one step
_LONGEST_LOG = 200  # steps whose marks are made together; what they need no more is still young then


class Simulation:
    """All readings of what has been read so far, as threads; it is fed characters and special tokens.

    `place` counts characters read, each special token as long as its name.  After a failure nothing more is read.
    at: where the text begins.  slowly: without looking up what is known; for tests.

    Invariant: the threads are the shapes of `_set` with the marks `_trails`, which are made of `_log` when they are
    asked for, and the native readers `_readers`, and with `_base` below the bottom of their stacks.
    """

    def __init__(self, network: Network, *, at: int = 0, slowly: bool = False) -> None:
        self._known, self._slowly = known_of(network), slowly
        self.place = at
        self.failure: Failure | None = None
        self._set: Set
        self._base: Base | None = None
        self._marks: list[Trail | None] = []  # as they were before what was read since
        self._log: list[Read] = []
        self._readers: list[Ahead] = []
        self._go_on(Step(self._known, at).begun(network.start))

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

    def _go_on(self, threads: list[Thread]) -> None:
        """Go on with threads, which stand on the base."""
        shapes, readers, self._marks = numbered(threads)
        self._log = []
        self._readers = [reader if isinstance(reader, Ahead) else Ahead(reader) for reader in readers]
        self._set, self._base = self._known.standing(shapes, self._base)
        if self._set.deep and not self._slowly:
            self._cut(self._set)

    def _put_back(self) -> None:
        """Put the base back on which the stacks stand, or what was cut off last of it."""
        assert self._base is not None
        self._set, self._base = self._known.uncut(self._set, self._base)

    @property
    def _trails(self) -> list[Trail | None]:
        """The marks of the threads."""
        self._settle()
        return self._marks

    def _settle(self) -> None:
        """Make the marks of what was read."""
        if self._log:
            self._marks, self._log = marked(self._marks, self._log), []

    def copy(self) -> Simulation:
        """Return a simulation that goes on from here by itself, with special tokens; native readers are shared."""
        made = copy(self)
        made._log = self._log.copy()
        return made

    # -- reading -------------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> None:
        """Read text without special tokens; stops at a failure."""
        at, end = 0, len(text)
        while at < end and self.failure is None:
            if self._slowly:
                for ahead in self._readers:
                    ahead.reach(text, at, end, self.place - at)
                outcomes = outcomes_at(self._readers, self.place)
            else:
                at, outcomes = self._look_up(text, at, end)
                if at == end:
                    break
            became = dict(zip(self._readers, outcomes or (False,) * len(self._readers), strict=True))
            try:
                after = self._step().by_character(self.threads, text[at], became)
            except Beyond:
                self._put_back()
                continue
            self._advance(after, text[at])
            at += 1

    def _look_up(self, text: str, at: int, end: int) -> tuple[int, Outcomes]:
        """Read as far as steps are known or can be learned; return how far that is, and what readers made of the
        character there, if anything.
        """
        current, readers, origin, begun = self._set, self._readers, self.place - at, at
        moves, outcomes = 0, cast(Outcomes, ())
        start, since, first = current, at, None  # where steps began that may become one, and by which key
        while at < end:
            length = 1
            stop = min([ahead.reach(text, at, end, origin) for ahead in readers]) if current.readers else end
            if current.alone:
                at = stop
            elif current.run is not None and (found := current.run.match(text, at, stop)) is not None:
                if current.free:
                    start.texts.note(start, text, since, at, first)
                    start, since, first = current, found.end(), None
                at = found.end()
            if at == end:
                break
            if _returns(current, text[at : at + 2]):
                moves, at = moves + 1, at + 2
                continue
            if at == stop:
                outcomes = outcomes_at(readers, origin + at)
            key: Any = (text[at], outcomes) if outcomes else text[at]
            again = current.text_again(key, text, at, end) if current.texts.known else None
            step = current.steps.get(key) if again is None else again[1]
            if again is not None:
                length = len(again[0])
            elif step is None and key not in current.steps:
                step = self._learn(current, text[at], outcomes)
                moves += 100
            if step is None:
                break
            readers = self._acted(step, origin + at, readers) if step.acts else readers  # (most do not)
            before, current, moves, at = current, step.then, moves + length, at + length
            if current.deep:
                current = self._cut(current)
            if length > 1 or current.deep or before.readers and not outcomes:
                start, since, first, outcomes = current, at, None, ()
            elif outcomes:
                start, since, first, outcomes = before, at - 1, key, ()
            elif current.readers:
                start.texts.note(start, text, since, at, first)
        else:
            start.texts.note(start, text, since, at, first)
        self._set, self._readers, self.place = current, readers, origin + at
        spend(1 + moves + ((at - begun) >> 6))
        return at, outcomes

    def _acted(self, step: Transition, place: int, readers: list[Ahead]) -> list[Ahead]:
        """Take note of what a step does to the marks; return the readers behind it."""
        if step.marking is not None:
            if len(self._log) == _LONGEST_LOG:
                self._settle()
            self._log.append((step.marking, place, readers))
        return step.passed(readers)

    def _cut(self, deep: Set) -> Set:
        """Go on with as much below the bottom of the stacks of a set as can be."""
        self._set, frame = self._known.cut(deep)
        if frame is not None:
            self._base = Base(frame, self._base)
        return self._set

    def _learn(self, current: Set, char: str, outcomes: Outcomes) -> Transition | None:
        """Find out what a character does to a set, by the slow step over placeholders for marks and readers; None: it
        ends.
        """
        became = dict(enumerate(outcomes or (False,) * current.readers))
        step = self._learned(current, lambda slow, before: slow.by_character(before, char, became))
        if len(current.steps) < MOST_STEPS:
            current.steps[(char, outcomes) if outcomes else char] = step
        return step

    def _learned(self, current: Set, stepped: Callable[[Step, list[Thread]], list[Thread]]) -> Transition | None:
        sources = [Trail(None, (), 0) for _ in {trail for *_, trail in current.shapes}]
        before = [Thread(node, state, frame, sources[trail]) for node, state, frame, trail in current.shapes]
        try:
            after = stepped(self._step(), before)
            if not after:
                return None
            shapes, readers, trails = numbered(after)
            then = self._known.set_of(shapes)
        except Beyond:
            return None
        return step_of(current, sources, then, readers, trails, self.place)

    # -- one step ------------------------------------------------------------------------------------------------------

    def read(self, pieces: Iterable[Piece]) -> None:
        """Read texts and special tokens."""
        listed, at = [*pieces], 0
        start, since = self._set, 0  # where pieces began that may become one step
        while at < len(listed) and self.failure is None:
            again = self._set.pieces_again(listed, at) if self._set.pieces.known else None
            if again is not None:
                self._follow(again[1], sum([len(piece) for piece, _ in again[0]]))
                at += len(again[0])
                start, since = self._set, at
                continue
            piece, is_token = listed[at]
            if is_token:
                self.feed_token(piece)
            else:
                self.feed(piece)
            at += 1
            if self._set.free or self._set.readers or len(piece) > LONGEST_REPEAT or at - since == _MOST_PIECES:
                start.pieces.note(start, listed, since, at if is_token else at - 1)
                start, since = self._set, at

    def feed_token(self, name: str) -> None:
        """Read a special token."""
        if self.failure is not None:
            return
        step = self._set.tokens.get(name) or self._token_step(name)
        if step is not None:
            self._follow(step, len(name))
            return
        try:
            after = self._step().by_token(self.threads, name)
        except Beyond:
            self._put_back()
            self.feed_token(name)
        else:
            self._advance(after, name, is_token=True)

    def _follow(self, step: Transition, size: int) -> None:
        """Go on with a step of so many characters."""
        self._set, self._readers = step.then, self._acted(step, self.place, self._readers)
        if step.then.deep:
            self._cut(step.then)
        self.place += size
        spend(1 + size)

    def _token_step(self, name: str) -> Transition | None:
        """Return what a token does to the set, if that can be learned."""
        current = self._set
        if name in current.tokens:
            return None
        spend(100)
        step = self._learned(current, lambda slow, before: slow.by_token(before, name))
        if len(current.tokens) < MOST_STEPS:
            current.tokens[name] = step
        return step

    def accepted(self) -> Trail | bool | None:
        """Return the marks of the best reading that is complete here; False where there is none."""
        if self.failure is not None:
            return False
        return next((thread.trail for thread in self.alive() if thread.node.kind is NodeKind.END), False)

    def alive(self) -> list[Thread]:
        """Return the threads, with those that are about to leave a pattern; for what may come next."""
        while True:
            try:
                return [thread._replace(base=self._base) for thread in self._step().expanded(self.threads, None)]
            except Beyond:
                self._put_back()

    def _advance(self, threads: list[Thread], read: str, *, is_token: bool = False) -> None:
        """Go on with the threads behind what was read; none: it could not be."""
        spend(1 + len(self._set.shapes))
        if not threads:
            fault = next((ahead.fault for ahead in self._readers[::-1] if ahead.fault is not None), None)
            self.failure = Failure(self.place, tuple(self.alive()), fault, read if is_token else None)
            return
        self._go_on(threads)
        self.place += len(read)

    def _step(self) -> Step:
        return Step(self._known, self.place)

    def agreed(self) -> tuple[Trail | None, int]:
        """Return the marks that all readings share, and how far they agree on what is open there."""
        return agreed(self._trails, self.place)


def _returns(current: Set, two: str) -> bool:
    """Say whether two characters lead from a set back to it and change no marks, as a space and a letter inside a text
    do that may end at any space.

    PERF: a text of words 0.42 -> 0.08 s a megabyte in formats whose calls may follow any space.
    """
    known = current.returns.get(two)
    if known is None:
        if current.run is None or current.readers or len(two) < 2 or two[0] not in current.steps:
            return False
        if len(current.returns) == MOST_STEPS:
            return False
        if (step := combined(current, [(two, False)])) is None:
            return False
        known = current.returns[two] = step.then is current and not step.acts
    return known
