"""The reading machine: all ways through a network at once, character by character.

A *thread* is one way: a node, where in it, the calls to return to, and the marks that it has set.  Threads go on in
lockstep and two that can no longer differ are one, as in Pike's simulation of regular expressions, here with stacks.
So nothing is read twice, a text may come in pieces of any size, and what a thread says at a cut is what it says in the
middle of a whole text.

Which of several readings counts is decided by order: branches as the grammar lists them, and a pattern ends as early as
it can.  What follows a pattern is only tried where its first character comes, so that free text is read in runs.  What
a character does to a set of threads is kept (`threads.Step`), so that nearly all of a text is read by looking up; the
slow step is the definition.

Invariants: threads are alive: each of them can read the next character or token of some text; better ones come first.
Cost: 0.5 µs per character that may begin something, about 10 ns per character of free text; a set that is met first,
some 100 µs.
Source: R. Cox, Regular Expression Matching: the Virtual Machine Approach, 2009; stacks and their sharing are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from ...work import spend
from ..payload import Fault, Reader
from .network import Kind, Mark, Network, Node
from .patterns import has
from .threads import MOST_STEPS, Beyond, Failure, Frame, Set, Step, Thread, Trail, agreed, known_of, step_of

TOKEN = "<token>"  # the mark of a special token that was read
_WINDOWS = 16, 1_024  # characters that threads beside a native reader look ahead, at first and at most: it may end


class Machine:
    """Reads characters and special tokens.

    `place` counts characters read, each special token as long as its name.  After a failure nothing more is read.
    at: where the text begins.  slowly: without looking up what is known; for tests.

    Invariant: the threads are `_slow`, or where that is None the shapes of `_set` with the marks `_trails`, and with
    `_base` below their stacks, where that is a frame.
    """

    def __init__(self, network: Network, *, at: int = 0, slowly: bool = False) -> None:
        self._known, self._slowly = known_of(network), slowly
        self.place = at
        self.failure: Failure | None = None
        self._fault: Fault | None = None
        self._native: dict[Node, Reader] = {}  # readers that begin at `_native_place`
        self._native_place = -1
        self._reading: Reader | None = None  # the native reader that threads looked ahead of, and how far
        self._window = 0
        self._made: dict[Any, Trail] = {}  # marks made since the last character
        self._slow: list[Thread] | None = None
        self._set: Set | None = None
        self._base: Frame | None = None
        self._trails: list[Trail | None] = []
        found: list[Thread] = []
        self._close(network.start, None, None, at, found, set())
        self.threads = found

    @property
    def threads(self) -> list[Thread]:
        """The threads, the best first."""
        if self._slow is None:
            assert self._set is not None
            shapes = self._set.shapes if self._base is None else self._known.whole(self._set.shapes, self._base)
            return [Thread(*shape, trail) for shape, trail in zip(shapes, self._trails, strict=True)]
        return self._slow

    @threads.setter
    def threads(self, threads: list[Thread]) -> None:
        if self._slowly or any(thread.node.kind is Kind.NATIVE for thread in threads):
            self._slow, self._set = threads, None
        else:
            whole = tuple([thread[:3] for thread in threads])
            shapes, self._base = self._known.cut(whole)
            self._slow, self._trails = None, [thread.trail for thread in threads]
            try:
                self._set = self._known.set_of(shapes)
            except Beyond:
                self._set, self._base = self._known.set_of(whole), None

    # -- reading -------------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> None:
        """Read text without special tokens; stops at a failure."""
        at, end = 0, len(text)
        while at < end and self.failure is None:
            if self._set is not None:
                at = self._look_up(text, at, end)
                if at == end:
                    break
            width = self._native_run(text, at, end)
            if not width:
                self._step(text, at)
                width = 1
            at += width

    def _look_up(self, text: str, at: int, end: int) -> int:
        """Read as far as steps are known or can be learned; return how far that is."""
        current, trails, origin, begun = self._set, self._trails, self.place - at, at
        moves = 0
        while at < end:
            assert current is not None
            if current.run is not None and (found := current.run.match(text, at, end)) is not None:
                at = found.end()
                if at == end:
                    break
            char = text[at]
            step = current.steps.get(char)
            if step is None and char not in current.steps:
                self._set, self._trails, self.place = current, trails, origin + at
                step = self._learn(current, char)
                moves += 100
            if step is None:
                break
            if step.taken is not None:
                if step.made:
                    trails = step.marked(trails, origin + at)
                trails = [trails[index] for index in step.taken]
            current = step.then
            moves += 1
            at += 1
            if current.deep:
                current, trails = self._cut(current, trails)
        self._set, self._trails, self.place = current, trails, origin + at
        spend(1 + moves + ((at - begun) >> 6))
        return at

    def _cut(self, current: Set, trails: list[Trail | None]) -> tuple[Set, list[Trail | None]]:
        """Return a set and its marks with as much as can be below the bottom."""
        self._set, self._trails = current, trails
        self.threads = self.threads
        return self._set, self._trails

    def _learn(self, current: Set, char: str) -> Step | None:
        """Find out what a character does to a set, by the slow step over placeholders for marks; None: it ends or
        begins a native.
        """
        step = self._learned(current, lambda before: self._stepped(before, char, char, 0))
        if len(current.steps) < MOST_STEPS:
            current.steps[char] = step
        return step

    def _learned(self, current: Set, stepped: Callable[[list[Thread]], list[Thread]]) -> Step | None:
        sources = [Trail(None, (False, ""), 0) for _ in current.shapes]
        before = [Thread(*shape, source) for shape, source in zip(current.shapes, sources, strict=True)]
        self._made = {}
        try:
            after = stepped(before)
            if not after or any(thread.node.kind is Kind.NATIVE for thread in after):
                return None
            then = self._known.set_of(tuple(thread[:3] for thread in after))
        except Beyond:
            return None
        finally:  # readers that have begun only here have read the character
            self._made, self._native, self._fault = {}, {}, None
        return step_of(len(before), after, sources, then, self.place)

    def read(self, pieces: Iterable[tuple[str, bool]]) -> None:
        """Read texts and special tokens, as (text or name, whether it is a token)."""
        for piece, is_token in pieces:
            if is_token:
                self.feed_token(piece)
            else:
                self.feed(piece)

    def feed_token(self, name: str) -> None:
        """Read a special token."""
        if self.failure is not None:
            return
        step = self._token_step(name)
        if step is None:
            before = self.threads
            self._advance(self._stepped_by_token(before, name), before, len(name), name)
            return
        trails = step.marked(self._trails, self.place) if step.made else self._trails
        if step.taken is not None:
            self._trails = [trails[index] for index in step.taken]
        self._set, self._trails = self._cut(step.then, self._trails) if step.then.deep else (step.then, self._trails)
        self.place += len(name)
        self._made = {}
        spend(2)

    def _token_step(self, name: str) -> Step | None:
        """Return what a token does to the set, if that is known or can be learned."""
        current = self._set
        if current is None:
            return None
        step = current.tokens.get(name)
        if step is None and name not in current.tokens:
            spend(100)
            step = self._learned(current, lambda before: self._stepped_by_token(before, name))
            if len(current.tokens) < MOST_STEPS:
                current.tokens[name] = step
        return step

    def _stepped_by_token(self, before: list[Thread], name: str) -> list[Thread]:
        """Return what threads become with a special token."""
        after = self.place + len(name)
        found: list[Thread] = []
        seen: set[Any] = set()
        for thread in self._expanded(before, None):
            if thread.node.kind is Kind.TOKEN and thread.node.value == name:
                trail = self._mark(thread.trail, (False, TOKEN), after, name)
                self._close(thread.node.then[0], thread.frame, trail, after, found, seen)
        return found

    def accepted(self) -> Trail | bool | None:
        """Return the marks of the best reading that is complete here; False where there is none."""
        if self.failure is not None:
            return False
        for thread in self._expanded(self.threads, None):
            if thread.node.kind is Kind.END:
                return thread.trail
        return False

    def alive(self) -> list[Thread]:
        """Return the threads, with those that are about to leave a pattern; for what may come next."""
        return list(self._expanded(self.threads, None))

    def _advance(self, threads: list[Thread], before: list[Thread], width: int, token: str | None = None) -> None:
        spend(1 + len(before))
        if not threads:
            self.failure = Failure(self.place, tuple(self._expanded(before, None)), self._fault, token)
            return
        self.threads = threads
        self.place += width
        self._fault = None
        self._made = {}

    def _native_run(self, text: str, at: int, end: int) -> int:
        """Let the only native reader read, and beside it all threads that are not native; return how much, 0 where the
        next character is to be looked at by all.
        """
        if self._slowly or self._slow is None:
            return 0
        before = self._slow
        groups = [(native, list(group)) for native, group in groupby(before, _is_native)]
        readers = {id(thread.state) for native, group in groups if native for thread in group}
        if len(readers) != 1:
            return 0
        others = [group for native, group in groups if not native]
        reader = next(thread.state for native, group in groups if native for thread in group)
        self._window = min(self._window * 2, _WINDOWS[1]) if self._reading is reader else _WINDOWS[0]
        self._reading = reader
        stop = min(end, at + self._window) if others else end
        for group in others:
            stop = self._beside(group, text, at, stop)[1]
        if stop == at:
            return 0
        width, ended = self._read_native(reader, text, at, stop)
        spend(1 + (width >> 5))
        if ended is False and not others:
            self.place += width
            return width
        if width == 0:
            return 0
        found: list[Thread] = []
        seen: set[Any] = set()
        for native, group in groups:
            for thread in group if native else self._beside(group, text, at, at + width)[0]:
                if not native or ended is False:
                    _add(thread, thread.state, found, seen)
                elif ended:
                    self._returned(thread, self.place + width, found, seen)
        self._advance(found, before, width)
        return width

    def _beside(self, threads: list[Thread], text: str, at: int, end: int) -> tuple[list[Thread], int]:
        """Return what threads that are not native become, as far as steps are known or can be learned, and how far that
        is; nothing else is read.
        """
        slow, place = self._slow, self.place
        self.threads = threads
        reached = self._look_up(text, at, end)
        after = self.threads
        self._slow, self._set, self._base, self.place = slow, None, None, place
        return after, reached

    def _read_native(self, reader: Reader, text: str, at: int, end: int) -> tuple[int, bool | None]:
        """Return how far a reader got, and whether its value has ended; None: it met a fault."""
        reader.base = self.place - at
        try:
            stop = reader.feed(text, at, end)
        except Fault as fault:
            self._fault = fault
            return max(fault.at - self.place, 0) or 1, None
        return stop - at, reader.done

    def _step(self, text: str, at: int) -> None:
        """Read one character."""
        before = self.threads
        self._advance(self._stepped(before, text[at], text, at), before, 1)

    def _stepped(self, before: list[Thread], char: str, text: str, at: int) -> list[Thread]:
        """Return what threads become with a character, which stands in a text."""
        after = self.place + 1
        found: list[Thread] = []
        seen: set[Any] = set()
        fed: dict[int, bool | None] = {}
        for thread in self._expanded(before, char):
            node, state = thread.node, thread.state
            if node.kind is Kind.TEXT:
                if node.value[state] != char:
                    continue
                if state + 1 == len(node.value):
                    self._close(node.then[0], thread.frame, thread.trail, after, found, seen)
                else:
                    _add(thread, state + 1, found, seen)
            elif node.kind is Kind.PATTERN:
                next_state = state.step(char)
                if next_state is not None:
                    _add(thread, next_state, found, seen)
            elif node.kind is Kind.NATIVE:
                if id(state) not in fed:
                    fed[id(state)] = self._read_native(state, text, at, at + 1)[1]
                if fed[id(state)]:
                    self._returned(thread, after, found, seen)
                elif fed[id(state)] is False:
                    _add(thread, state, found, seen)
        return found

    def _returned(self, thread: Thread, place: int, found: list[Thread], seen: set[Any]) -> None:
        """Go on behind a native rule, with a mark that holds its reader."""
        trail = self._mark(thread.trail, (False, thread.node.owner), place, thread.state)
        self._close(thread.node.then[0], thread.frame, trail, place, found, seen)

    def _expanded(self, threads: list[Thread], char: str | None) -> Iterator[Thread]:
        """Yield the threads, and before each that may leave its pattern those that it becomes then; given the character
        that comes, only where what follows begins with it.
        """
        work = threads[::-1]
        seen: set[Any] = set()
        left: set[Any] = set()
        while work:
            thread = work.pop()
            key = (thread.node, thread.state, thread.frame)
            if thread.node.kind is not Kind.PATTERN or not thread.state.accepts or key in left:
                yield thread
                continue
            left.add(key)
            work.append(thread)
            if char is None or has(self._known.first(thread.node.then[0], thread.frame), ord(char)):
                exits: list[Thread] = []
                self._close(thread.node.then[0], thread.frame, thread.trail, self.place, exits, seen)
                work.extend(exits[::-1])

    def agreed(self) -> tuple[Trail | None, int]:
        """Return the marks that all readings share, and how far they agree on what is open there."""
        return agreed([thread.trail for thread in self.threads], self.place)

    # -- going through nodes that read nothing -------------------------------------------------------------------------

    def _close(
        self, node: Node, frame: Frame | None, trail: Trail | None, place: int, found: list[Thread], seen: set[Any]
    ) -> None:
        """Append the threads that stand at `node`, best first, but for those that were seen."""
        closure = self._known.closures.get((node, frame)) or self._known.closed(node, frame)
        pool = [trail]
        for parent, mark in closure.made:
            pool.append(self._mark(pool[parent], mark, place))
        for leaf, stack, index in closure.leaves:
            if (leaf, stack) not in seen:
                seen.add((leaf, stack))
                native, state = leaf.kind is Kind.NATIVE, leaf.value if leaf.kind is Kind.PATTERN else 0
                state = self._reader(leaf, place) if native else state
                found.append(Thread(leaf, state, stack, pool[index]))

    def _reader(self, node: Node, place: int) -> Reader:
        """Return the reader of a native rule that begins at a place; one for all threads."""
        if self._native_place != place:
            self._native, self._native_place = {}, place
        if node not in self._native:
            self._native[node] = node.value[0]()
        return self._native[node]

    def _mark(self, trail: Trail | None, mark: Mark, place: int, data: Any = None) -> Trail:
        """Return the trail with one more mark; equal trails that are made at one character are one object."""
        key = (id(trail), mark, place)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = Trail(trail, mark, place, data)
        return made


def _is_native(thread: Thread) -> bool:
    return thread.node.kind is Kind.NATIVE


def _add(thread: Thread, state: Any, found: list[Thread], seen: set[Any]) -> None:
    key = (thread.node, state, thread.frame)
    if key not in seen:
        seen.add(key)
        found.append(thread._replace(state=state))
