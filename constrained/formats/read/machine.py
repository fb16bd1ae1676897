"""The reading machine: all ways through a network at once, character by character.

A *thread* is one way: a node, where in it, the calls to return to, and the marks that it has set.  Threads go on in lockstep and two that
can no longer differ are one, as in Pike's simulation of regular expressions, here with stacks.  So nothing is read twice, a text may
come in pieces of any size, and what a thread says at a cut is what it says in the middle of a whole text.

Which of several readings counts is decided by order: branches as the grammar lists them, and a pattern ends as early as it can.  What
follows a pattern is only tried where its first character comes, so that free text is read in runs.

Invariants: `threads` are alive: each of them can read the next character or token of some text; better ones come first.
Cost: some µs per character that may begin something, about 10 ns per character of free text.
Source: R. Cox, Regular Expression Matching: the Virtual Machine Approach, 2009; stacks and their sharing are ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...work import spend
from ..payload import Fault, Reader
from .network import Kind, Mark, Network, Node
from .patterns import Ranges

TOKEN = "<token>"  # the mark of a special token that was read
_NO_BOUND = 1 << 60


class Frame:
    """Where a call returns to; `parent` is the frame of the caller.  Frames are unique for their content, so that `is` compares stacks."""

    __slots__ = ("node", "parent", "called")

    def __init__(self, node: Node, parent: Frame | None) -> None:
        self.node, self.parent = node, parent
        self.called: dict[Node, Frame] = {}


class Trail:
    """The marks of a thread, the last first.  `data`: of the end of a native rule, its reader."""

    __slots__ = ("parent", "depth", "mark", "place", "data", "next")

    def __init__(self, parent: Trail | None, mark: Mark, place: int, data: Any = None) -> None:
        self.parent, self.mark, self.place, self.data = parent, mark, place, data
        self.depth: int = parent.depth + 1 if parent is not None else 1
        self.next: dict[Any, Trail] = {}


class Thread(NamedTuple):
    """`state`: of a TEXT how much of it was read, of a PATTERN its state, of a NATIVE its reader."""

    node: Node
    state: Any
    frame: Frame | None
    trail: Trail | None


@dataclass(frozen=True, slots=True)
class Failure:
    """Where no thread could go on: the place, what could have come, by which rule, and the fault of a native reader if there was one."""

    place: int
    threads: tuple[Thread, ...]
    fault: Fault | None
    token: str | None  # the special token that could not be read


class Machine:
    """Reads characters and special tokens.

    `place` counts characters read, each special token as long as its name.  After a failure nothing more is read.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._frames: dict[Node, Frame] = {}  # those without a parent
        self._roots: dict[Any, Trail] = {}
        self.place = 0
        self.failure: Failure | None = None
        self._fault: Fault | None = None
        self._native: dict[Node, Reader] = {}  # readers that begin at `_native_place`
        self._native_place = -1
        self._firsts: dict[tuple[Node, Frame | None], Ranges] = {}
        self.threads: list[Thread] = []
        self._close(network.start, None, None, 0, self.threads, set())

    # -- reading ------------------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> None:
        """Read text without special tokens; stops at a failure."""
        at, end = 0, len(text)
        ends: dict[re.Pattern[str], int] = {}  # how far each run goes: one thread may leave early where another would read to the end
        while at < end and self.failure is None:
            width = self._bulk(text, at, end, ends)
            if not width:
                self._step(text, at)
                width = 1
            at += width

    def feed_token(self, name: str) -> None:
        """Read a special token."""
        if self.failure is not None:
            return
        before, after = self.threads, self.place + len(name)
        found: list[Thread] = []
        seen: set[Any] = set()
        for thread in self._expanded(before, None):
            if thread.node.kind is Kind.TOKEN and thread.node.value == name:
                trail = self._mark(thread.trail, (False, TOKEN), after, name)
                self._close(thread.node.then[0], thread.frame, trail, after, found, seen)
        self._advance(found, before, len(name), name)

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

    def _bulk(self, text: str, at: int, end: int, ends: dict[re.Pattern[str], int]) -> int:
        """Read as many characters as change no thread's set of ways; return their number, 0 where the next one might."""
        threads = self.threads
        if len(threads) == 1 and threads[0].node.kind is Kind.TEXT:
            return self._text_run(threads[0], text, at, end)
        width, reader = _NO_BOUND, None
        for node, state, frame, _ in threads:
            if node.kind is Kind.PATTERN:
                leaves = self._first(node.then[0], frame) if state.accepts else ()
                run = self._network.patterns.run(state.stays, leaves) if state.stays else None
                if run is None:
                    return 0
                stop = ends.get(run, at)
                if stop <= at:
                    found = run.match(text, at, end)
                    if found is None:
                        return 0
                    stop = ends[run] = found.end()
                width = min(width, stop - at)
            elif node.kind is Kind.NATIVE and (reader is None or reader is state):
                reader = state
            else:
                return 0
        width = min(width, end - at)
        spend(1 + (width >> 6))
        if reader is None:
            self.place += width
            return width
        return self._native_run(reader, text, at, at + width)

    def _text_run(self, thread: Thread, text: str, at: int, end: int) -> int:
        """Read the rest of the text that the only thread waits for, if it comes."""
        value, offset = thread.node.value, thread.state
        width: int = min(len(value) - offset, end - at)
        if not text.startswith(value[offset : offset + width], at):
            return 0
        spend(1)
        self.place += width
        if offset + width < len(value):
            self.threads = [thread._replace(state=offset + width)]
        else:
            self.threads = []
            self._close(thread.node.then[0], thread.frame, thread.trail, self.place, self.threads, set())
        return width

    def _native_run(self, reader: Reader, text: str, at: int, end: int) -> int:
        """Let the only native reader read; the patterns beside it stay as they are."""
        width, ended = self._read_native(reader, text, at, end)
        if ended is False:
            self.place += width
            return width
        if width == 0:
            return 0
        before = self.threads
        found: list[Thread] = []
        seen: set[Any] = set()
        for thread in before:
            if thread.state is not reader:
                found.append(thread)
            elif ended:
                self._returned(thread, self.place + width, found, seen)
        self._advance(found, before, width)
        return width

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
        char, after, before = text[at], self.place + 1, self.threads
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
        self._advance(found, before, 1)

    def _returned(self, thread: Thread, place: int, found: list[Thread], seen: set[Any]) -> None:
        """Go on behind a native rule, with a mark that holds its reader."""
        trail = self._mark(thread.trail, (False, thread.node.owner), place, thread.state)
        self._close(thread.node.then[0], thread.frame, trail, place, found, seen)

    def _expanded(self, threads: list[Thread], char: str | None) -> Iterator[Thread]:
        """Yield the threads, and before each that may leave its pattern those that it becomes then; given the character that comes,
        only where what follows begins with it.
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
            if char is None or _has(self._first(thread.node.then[0], thread.frame), ord(char)):
                exits: list[Thread] = []
                self._close(thread.node.then[0], thread.frame, thread.trail, self.place, exits, seen)
                work.extend(exits[::-1])

    def agreed(self) -> tuple[Trail | None, int]:
        """Return the marks that all readings share, and how far they agree on what is open there: the place, or their next mark."""
        if not self.threads:
            return None, self.place
        least = min(thread.trail.depth if thread.trail else 0 for thread in self.threads)
        place = self.place
        heads = set()
        for thread in self.threads:
            trail = thread.trail
            while trail is not None and trail.depth > least:
                place = min(place, trail.place)
                trail = trail.parent
            heads.add(trail)
        while len(heads) > 1:
            place = min([place, *(trail.place for trail in heads if trail is not None)])
            heads = {trail.parent for trail in heads if trail is not None}
        return heads.pop(), place

    # -- going through nodes that read nothing ----------------------------------------------------------------------------------

    def _close(self, node: Node, frame: Frame | None, trail: Trail | None, place: int, found: list[Thread], seen: set[Any]) -> None:
        """Append the threads that stand at `node`, best first."""
        work = [(node, frame, trail)]
        while work:
            node, frame, trail = work.pop()
            kind = node.kind
            if kind is Kind.END and frame is not None:
                work.append((frame.node, frame.parent, trail))
                continue
            key = (node, frame)
            if key in seen:
                continue
            seen.add(key)
            if kind is Kind.SPLIT:
                work += [(branch, frame, trail) for branch in reversed(node.then)]
            elif kind is Kind.MARK:
                work.append((node.then[0], frame, self._mark(trail, node.value, place)))
            elif kind is Kind.CALL:
                after = node.then[0]
                work.append((node.value, frame if after.kind is Kind.END else self._frame(after, frame), trail))
            elif kind is Kind.NATIVE:
                trail = self._mark(trail, (True, node.owner), place)
                found.append(Thread(node, self._reader(node, place), frame, trail))
            else:
                found.append(Thread(node, node.value if kind is Kind.PATTERN else 0, frame, trail))

    def _reader(self, node: Node, place: int) -> Reader:
        """Return the reader of a native rule that begins at a place; one for all threads."""
        if self._native_place != place:
            self._native, self._native_place = {}, place
        if node not in self._native:
            self._native[node] = node.value[0]()
        return self._native[node]

    def _mark(self, trail: Trail | None, mark: Mark, place: int, data: Any = None) -> Trail:
        """Return the trail with one more mark; equal trails are one object."""
        known = self._roots if trail is None else trail.next
        key = (mark, place)
        if key not in known:
            known[key] = Trail(trail, mark, place, data)
        return known[key]

    def _frame(self, node: Node, parent: Frame | None) -> Frame:
        known = self._frames if parent is None else parent.called
        if node not in known:
            known[node] = Frame(node, parent)
        return known[node]

    def _first(self, node: Node, frame: Frame | None) -> Ranges:
        """Return the characters that can come at a node, as ranges."""
        key = (node, frame)
        if key not in self._firsts:
            exits: list[Thread] = []
            self._close(node, frame, None, self.place, exits, set())
            found: list[tuple[int, int]] = []
            for thread in exits:
                found += _starts(thread)
                if thread.node.kind is Kind.PATTERN and thread.state.accepts:
                    found += self._first(thread.node.then[0], thread.frame)
            self._firsts[key] = tuple(sorted(set(found)))
        return self._firsts[key]


def _starts(thread: Thread) -> Ranges:
    """Return the characters that a new thread can read."""
    node = thread.node
    if node.kind is Kind.PATTERN:
        ranges: Ranges = node.value.ranges
        return ranges
    if node.kind in (Kind.TEXT, Kind.NATIVE):
        code = ord(node.value[0] if node.kind is Kind.TEXT else node.value[1])
        return ((code, code),)
    return ()


def _has(ranges: Ranges, code: int) -> bool:
    return any(low <= code <= high for low, high in ranges)


def _add(thread: Thread, state: Any, found: list[Thread], seen: set[Any]) -> None:
    key = (thread.node, state, thread.frame)
    if key not in seen:
        seen.add(key)
        found.append(thread._replace(state=state))
