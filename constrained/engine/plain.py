r"""The automaton in plain Python: what budgets look ahead with, what captures read with, the fallback.

A *configuration* is (machine state, stack); a *state* of the automaton is the set of configurations that some reading
of the bytes so far can be in; it is a small int.  A step moves every configuration over one byte and closes the result
under calls and returns.  A mask walks the token trie once with these steps.  The compiled kernel does the same in other
data structures; tests compare the two, and both with the reference of the tests, bit by bit.

Stacks are merged: a stack is a set of frames, linked by `Frame.beside`, each the state to go on with after a call.
Readings that share a machine state share one configuration, the merger of theirs, so there are as many configurations
as machine states, however ambiguous a grammar is.  The bottom beside other frames is a frame that ends at once.

A position inside a text is (spelling, language, where we are inside one character).  Between characters the language
alone decides; inside a character (UTF-8 continuation, escape, hexadecimal digits) the position knows the range of code
points that can still come, and is live exactly when the language has an edge into that range.

    BODY ──é──► UTF8 ──► BODY      BODY ──\──► ESCAPE ──n──► BODY      ESCAPE ──u──► HEX ──► … ──► BODY
                                                             HEX (high surrogate) ──► PAIR ──► HEX (low) ──► BODY

Invariants: every configuration is live, so a token is allowed exactly when its bytes lead to a non-empty set; equal
sets of frames are one object; no dead position is ever entered.
Cost: about 1 µs per configuration and byte, 0.1-0.5 s for a string mask over 128,000 tokens (once per state).
Sources: Earley sets and LR item closures in pushdown form, folklore; Tomita 1986 (graph-structured stacks).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from constrained.caches import cached
from constrained.engine.spelling import HexForm, Ranges, Spelling, clip, decode, near, variants
from constrained.engine.tokens.bitmask import fits, misfit, number
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import LimitExceeded
from constrained.machine import END, Dispatch, Edges, Language, LiteralSet, MarkerSafe, Quoting, State, Text
from constrained.regex.markers import ESCAPED, Guarded
from constrained.work import Budget, begin, spend, thread

# -- inside texts ------------------------------------------------------------------------------------------------------

BODY, UTF8, ESCAPE, HEX, PAIR, PAIR_U, OCTAL, DONE = range(8)
_LEAST = {1: 0x80, 2: 0x800, 3: 0x10000}  # characters that have so many bytes behind their first one
_LIKELY_FIRST = (*range(0x20, 256), *range(0x20))  # most positions inside texts read a blank


@cached(256, 20_000)
def edges_of(language: Language) -> Sequence[tuple[int, int, Language]]:
    """Return the edges of a language: those of a guarded one are made anew each time, 20 µs."""
    return language.edges()


def edges_between(language: Language, low: int, high: int) -> Sequence[tuple[int, int, Language]]:
    """Return the edges of a language that have code points of a range, cut to it."""
    return [
        (max(first, low), min(last, high), target)
        for first, last, target in near(edges_of(language), low, high)
        if first <= high and last >= low
    ]


def successor(language: Language, point: int) -> Language | None:
    """Return the language after one code point."""
    return next((target for _, _, target in edges_between(language, point, point)), None)


def reaches(language: Language, ranges: Ranges) -> bool:
    """Say whether some code point of the ranges continues the language."""
    return any(edges_between(language, low, high) for low, high in ranges)


@dataclass(frozen=True, slots=True)
class TextAt:
    """A live position inside a text.  `step` returns the next one, or None."""

    spelling: Spelling
    language: Language
    place: int = BODY
    left: int = 0  # bytes or digits still to come
    value: int = 0  # what they have spelled so far
    form: HexForm | None = None
    high: int = 0  # high surrogate of a pair, 0: none

    @property
    def accepting(self) -> bool:
        return self.place == DONE or (self.place == BODY and self.spelling.closing < 0 and self.language.accepts)

    @property
    def label(self) -> int:
        return self.language.label if isinstance(self.language, (LiteralSet, Guarded)) else 0

    def step(self, byte: int) -> TextAt | None:
        return _STEPS[self.place](self, byte)

    def reads(self) -> bool:
        """Return whether some byte goes on."""
        spelling = self.spelling
        if self.place == UTF8:
            return True
        if self.place == BODY and spelling.closing < 0 and not spelling.escapes and not spelling.guarded:
            return reaches(self.language, spelling.raw)
        return any(map(self.step, _LIKELY_FIRST))

    def live(self) -> TextAt | None:
        """Return this position if the language can go on from it."""
        points = self.pending()
        if self.place != UTF8 and self.spelling.guarded:
            assert self.form is not None
            low, high = self.value << 4 * self.left, ((self.value + 1) << 4 * self.left) - 1
            escaped = tuple((low + ESCAPED, high + ESCAPED) for low, high in points)
            points = (*clip(self.form.needed, low, high), *escaped)
        return self if reaches(self.language, points) else None

    def pending(self) -> Ranges:
        """Return the code points that the started character can still become."""
        if self.place == UTF8:
            low, high = self.value << 6 * self.left, ((self.value + 1) << 6 * self.left) - 1
            return clip(self.spelling.raw, max(low, _LEAST[self.left]) if not self.value else low, high)
        assert self.form is not None
        low, high = self.value << 4 * self.left, ((self.value + 1) << 4 * self.left) - 1
        if self.high:
            return tuple((_pair(self.high, a), _pair(self.high, b)) for a, b in clip(((0xDC00, 0xDFFF),), low, high))
        points = clip(self.form.allowed, low, high)
        if self.form.pairs:
            points += tuple((_pair(a, 0xDC00), _pair(b, 0xDFFF)) for a, b in clip(((0xD800, 0xDBFF),), low, high))
        return points


def _pair(high: int, low: int) -> int:
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)


def _after(at: TextAt, point: int, *, raw: bool = False) -> TextAt | None:
    needless = not raw and at.spelling.guarded and clip(at.spelling.raw, point, point)
    target = successor(at.language, point + ESCAPED if needless else point)
    return None if target is None else TextAt(at.spelling, target)


def _body(at: TextAt, byte: int) -> TextAt | None:
    spelling = at.spelling
    if byte == spelling.closing:
        return replace(at, place=DONE) if at.language.accepts else None
    if byte == 0x5C and spelling.escapes:
        return _escape_start(at)
    if byte < 0x80:
        return _after(at, byte, raw=True) if clip(spelling.raw, byte, byte) else None
    for lead, length in ((0xC0, 1), (0xE0, 2), (0xF0, 3)):
        if lead <= byte < lead + (0x40 >> length) and byte not in (0xC0, 0xC1):
            next_at = TextAt(spelling, at.language, UTF8, length, byte - lead)
            return next_at.live()
    return None


def _utf8(at: TextAt, byte: int) -> TextAt | None:
    if not 0x80 <= byte < 0xC0:
        return None
    value, left = at.value << 6 | byte & 0x3F, at.left - 1
    overlong = (at.left, at.value) in ((2, 0), (3, 0)) and byte < (0xA0 if at.left == 2 else 0x90)
    if overlong:
        return None
    if left:
        return replace(at, left=left, value=value).live()
    return _after(at, value, raw=True) if clip(at.spelling.raw, value, value) else None


def _escape_start(at: TextAt) -> TextAt | None:
    start = TextAt(at.spelling, at.language, ESCAPE)
    alive = at.spelling.continuation or any(map(start.step, at.spelling.letters))
    return start if alive else None


def _escape(at: TextAt, byte: int) -> TextAt | None:
    spelling = at.spelling
    for letter, point in spelling.short:
        if letter == byte:
            return _after(at, point)
    if byte == 0x0A and spelling.continuation:
        return TextAt(spelling, at.language)
    for form in spelling.hexes:
        if form.letter == byte:
            return TextAt(spelling, at.language, HEX, form.digits, 0, form).live()
    if spelling.octal and 0x30 <= byte < 0x38:
        return _octal_at(TextAt(spelling, at.language, OCTAL, 2, byte - 0x30))
    return None


def _hex(at: TextAt, byte: int) -> TextAt | None:
    assert at.form is not None
    digits = b"0123456789abcdefABCDEF" if at.form.upper else b"0123456789abcdef"
    if byte not in digits:
        return None
    value, left = at.value << 4 | int(chr(byte), 16), at.left - 1
    if left:
        return replace(at, left=left, value=value).live()
    if at.high:
        return _after(at, _pair(at.high, value)) if 0xDC00 <= value <= 0xDFFF else None
    if at.form.pairs and 0xD800 <= value <= 0xDBFF:
        pair = TextAt(at.spelling, at.language, PAIR, 4, 0, at.form, high=value)
        return pair if reaches(at.language, ((_pair(value, 0xDC00), _pair(value, 0xDFFF)),)) else None
    return _after(at, value) if clip(at.form.allowed, value, value) else None


def _octal_at(at: TextAt) -> TextAt | None:
    alive = successor(at.language, at.value) is not None or (
        at.left and any(_octal(at, byte) for byte in range(0x30, 0x38))
    )
    return at if alive else None


def _octal(at: TextAt, byte: int) -> TextAt | None:
    """Longest match: a digit extends the escape while it may; anything else is read after its character."""
    if at.left and 0x30 <= byte < 0x38:
        longer = replace(at, left=at.left - 1, value=at.value * 8 + byte - 0x30)
        return _octal_at(longer)
    after = _after(at, at.value)
    return _body(after, byte) if after else None


def _done(at: TextAt, byte: int) -> TextAt | None:
    return None


_STEPS: dict[int, Callable[[TextAt, int], TextAt | None]] = {
    BODY: _body, UTF8: _utf8, ESCAPE: _escape, HEX: _hex, OCTAL: _octal, DONE: _done,
    PAIR: lambda at, byte: replace(at, place=PAIR_U) if byte == 0x5C else None,
    PAIR_U: lambda at, byte: replace(at, place=HEX) if byte == 0x75 else None,
}  # fmt: skip


# -- the automaton -----------------------------------------------------------------------------------------------------

DEAD = 0  # the automaton state without configurations; never final
NO_TOKEN = -1  # what `step_token` returns for what is not the id of a token, and behind the end

Found = TypeVar("Found")
Mask = npt.NDArray[np.uint32]  # (words,), bit i of word w = token 32 w + i is allowed


class Frame:
    """What happens after a call: go on in `after`; `record` holds the bytes read so far where `after` wants to know
    them, `beside` the next frame of the same stack.
    """

    __slots__ = ("after", "quoting", "record", "parent", "beside")

    def __init__(
        self, after: State | Dispatch, quoting: Quoting | MarkerSafe | None, record: bytes | None, parent: Frame | None,
        beside: Frame | None = None,
    ) -> None:
        self.after, self.quoting, self.record, self.parent, self.beside = after, quoting, record, parent, beside


Config = tuple["State | TextAt", "Frame | None"]
Place = tuple["State | Dispatch", "Quoting | MarkerSafe | None", "bytes | None"]  # what a frame says but for its parent
Stacks = dict["State | TextAt", "set[Frame | None]"]  # those that machine states are met on

_BOTTOM: Place = (END, None, None)


def frames(stack: Frame | None) -> Iterator[Frame]:
    """Yield the frames of a stack; none of the bottom alone."""
    while stack is not None:
        yield stack
        stack = stack.beside


class PlainKernel:
    """One automaton over root machines and a vocabulary, and what matchers use of one, plain or compiled: the compiled
    kernel has the same methods.

    States are ints and belong to the kernel that they came from, `start` is the start of the root it was made with: 0
    is dead, -1 stands for no token in range, others below that for a sequence that has ended, whose mask is empty.  A
    stop id is set in the mask of every final state.
    specials: the names of special tokens that the machine uses → ids.  budget: what the work counts against; None: the
    thread's own.
    Raises: LimitExceeded: too much work.  Preempted, by the compiled kernel: others wait for it, or it was emptied.
    """

    def __init__(
        self, vocabulary: Vocabulary, root: State | None = None, *, nullable: bool = False, specials: Mapping[str, int],
        max_configurations: int = 20_000, max_bytes: int = 1 << 28,
    ) -> None:
        self._vocabulary, self._specials = vocabulary, specials
        self._max_configurations, self._max_bytes = max_configurations, max_bytes
        self._edges: dict[State, Edges] = {}
        self._frames: dict[tuple[object, ...], Frame] = {}
        self._reading: dict[State | TextAt, bool] = {}  # whether it reads anything by itself
        self._ids: dict[tuple[frozenset[Config], bool], int] = {}
        self._states: dict[int, tuple[frozenset[Config], bool]] = {}
        # of states; threads that share the kernel may compute all else twice, but no two take the same number
        self._numbers = count()
        self._steps: dict[tuple[int, int], int] = {}
        self._masks: dict[int, Mask] = {}
        self._places: dict[Place, int] = {}  # in the order in which they are met: that of frames beside each other
        self._mergers: dict[frozenset[Frame | None], Frame | None] = {}
        self._returning: dict[Frame | None, tuple[list[Config], bool]] = {None: ([], True)}
        self._ranks: dict[State | TextAt, tuple[int, int]] = {}
        self._numbers = count()
        self._intern(frozenset(), False)
        self.start = self.start_at(root, nullable) if root is not None else DEAD

    def knows(self, root: State) -> bool:
        """Say whether words of a root machine were begun here; such a kernel is small enough to be made again."""
        return False

    def start_at(self, root: State, nullable: bool, budget: Budget | None = None, weight: int = 0) -> int:
        """Return the state at the start of the words of a root machine, and of the empty word if `nullable`.

        weight: bytes of Python objects that the root keeps alive; this kernel is thrown away before they matter.
        """
        return self._counted(budget, lambda: self._close([(root, None)], nullable))

    # -- reading -------------------------------------------------------------------------------------------------------

    def step_byte(self, state: int, byte: int) -> int:
        """Return the state after one byte, DEAD if no word goes on so."""
        key = (state, byte)
        known = self._steps.get(key)
        if known is None:
            known = self._steps[key] = self._close(self._moved(state, byte))
        return known

    def next_bytes(self, state: int) -> bytes:
        """Return the bytes that may come next, in ascending order."""
        return bytes(byte for byte in range(256) if self.step_byte(state, byte) != DEAD)

    def step_bytes(self, state: int, data: bytes) -> int:
        for byte in data:
            state = self.step_byte(state, byte)
            if state == DEAD:
                break
        return state

    def step_token(self, state: int, token: int, budget: Budget | None = None) -> int:
        """Return the state after a token id: its bytes, or the edges of the machine that name it; NO_TOKEN where it is
        no int in range.
        """
        if state < 0 or type(token) is not int or not 0 <= token < self._vocabulary.size:
            return NO_TOKEN
        return self._counted(budget, lambda: self._after_token(state, token))

    def _after_token(self, state: int, token: int) -> int:
        data = self._vocabulary.tokens[token]
        if data is not None:
            return self.step_bytes(state, data)
        moved: list[Config] = []
        for machine, frame in self._states[state][0]:
            moved += [(target, frame) for name, target in self._expand(machine).tokens if self._specials[name] == token]
        return self._close(moved)

    def is_final(self, state: int) -> bool:
        """Say whether the bytes so far are a word."""
        return self._states[state][1]

    def is_exhausted(self, state: int) -> bool:
        """Say whether nothing can follow."""
        return not self._states[state][0]

    def named_tokens(self, state: int) -> set[int]:
        """Return the special tokens that may come next."""
        return {
            self._specials[name] for machine, _ in self._states[state][0] for name, _ in self._expand(machine).tokens
        }

    def configurations(self, state: int) -> frozenset[Config]:
        """Return the readings of the bytes so far that can go on; of a final state one more has ended."""
        return self._states[state][0]

    def mask(self, state: int) -> Mask:
        """Return the tokens that may come next, stop tokens included; kept and shared, do not write to it."""
        if state not in self._masks:
            self._masks[state] = self._walk(state)
        return self._masks[state]

    def fill(self, state: int, bitmask: npt.NDArray[np.int32], row: int, budget: Budget | None = None) -> bool:
        """Write the mask of a state, no token where it is negative, into one row of an int32 bitmask (rows, words); say
        whether the cache is full.
        """
        if not fits(bitmask, row, self._vocabulary.words):
            raise misfit(bitmask, row, self._vocabulary.words)
        bitmask[number(row)] = 0 if state < 0 else self._counted(budget, lambda: self.mask(state)).view(np.int32)
        return self.is_full()

    def is_gone(self) -> bool:
        """Say whether the kernel was emptied."""
        return False

    def was_used(self) -> bool:
        """Say whether anything was asked since this was asked last; this kernel does not note it."""
        return True

    def allow(self, size: int) -> None:
        """Set the bound."""
        self._max_bytes = size

    def drop_all(self) -> bool:
        """Give all memory back; say whether that was possible."""
        return False

    def is_wanted(self) -> bool:
        """Say whether others wait for the kernel: nobody does, threads may compute the same thing twice."""
        return False

    def _counted(self, budget: Budget | None, work: Callable[[], Found]) -> Found:
        """Do some work against a budget, None: that of the thread."""
        if budget is None:
            return work()
        outer = thread.budget
        try:
            begin(budget, hurried=True)
            return work()
        finally:
            thread.budget = outer

    def cached_bytes(self) -> int:
        """Return an estimate of the memory that the automaton holds."""
        stacks = len(self._frames) + len(self._mergers) + 4 * len(self._returning)
        masks = 4 * self._vocabulary.words * len(self._masks)
        return 400 * len(self._states) + 200 * (len(self._steps) + stacks) + masks

    def count_states(self) -> int:
        """Return how many states there are."""
        return len(self._states)

    def is_full(self) -> bool:
        """Say whether the cache has passed its bound: its owner then starts a fresh kernel."""
        return self.cached_bytes() > self._max_bytes

    # -- the automaton -------------------------------------------------------------------------------------------------

    def _expand(self, machine: State | TextAt) -> Edges:
        machine = _begun(machine)
        if isinstance(machine, TextAt):
            return Edges(accepting=machine.accepting)
        edges = self._edges.get(machine)
        if edges is None:
            edges = self._edges[machine] = _text_edges(machine) if isinstance(machine, Text) else machine.expand()
        return edges

    def _moved(self, state: int, byte: int) -> list[Config]:
        moved: list[Config] = []
        configs = self._states[state][0]
        spend(3 * len(configs))
        for machine, frame in configs:
            target: State | TextAt | None
            if isinstance(machine, TextAt):
                target = machine.step(byte)
            else:
                target = next((t for low, high, t in self._expand(machine).ranges if low <= byte <= high), None)
            if target is not None:
                moved.append((target, self._recording(frame, byte)))
        return moved

    def _recording(self, stack: Frame | None, byte: int) -> Frame | None:
        if all(frame.record is None for frame in frames(stack)):
            return stack
        data = bytes([byte])
        return self.changed(
            stack, lambda frame: (frame.after, frame.quoting, None if frame.record is None else frame.record + data)
        )

    def _close(self, work: list[Config], final: bool = False) -> int:
        """Return the state of the configurations and all that calls and returns reach from them without a byte."""
        stacks_of: Stacks = {}
        calling: list[tuple[int, int, State | TextAt]] = []
        merged: dict[State | TextAt, Frame | None] = {}
        for config in work:
            final |= self._add(stacks_of, calling, config)
        while calling:  # callers first, so that each passes its whole stack on at once
            *_, machine = heappop(calling)
            stack = self.merge(frozenset(stacks_of[machine]))
            if machine in merged and merged[machine] is stack:
                continue
            merged[machine] = stack
            for callee, after in self._expand(machine).calls:
                final |= self._add(stacks_of, calling, (callee, self._push(callee, after, stack)))
        configs = [
            (machine, self.merge(frozenset(stacks))) for machine, stacks in stacks_of.items() if self._reads(machine)
        ]
        return self._intern(frozenset(configs), final)

    def _add(self, found: Stacks, calling: list[tuple[int, int, State | TextAt]], config: Config) -> bool:
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
        spend(2 * len(reached))
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

        Of a stack whose calls all may end that is one step more than of its parents, which are known.
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
            parents_of: Stacks = {}
            behind = [config for parent in again for config in known[parent][0]]
            for machine, parent in [*((frame.after, frame.parent) for frame in frames(at)), *behind]:
                parents_of.setdefault(machine, set()).add(parent)  # type: ignore[arg-type]
            spend(1 + len(parents_of))
            configs = [(machine, self.merge(frozenset(parents))) for machine, parents in parents_of.items()]
            known[at] = configs, any(known[parent][1] for parent in again)
        return known[stack]

    def _rank(self, machine: State | TextAt) -> tuple[int, int]:
        """Return what sorts a machine state before those that it calls, unless they call each other in a circle: how
        long the longest chain of calls is that it begins, negative, and a number of its own.
        """
        ranks, begun, todo = self._ranks, set[State | TextAt](), [machine]
        while todo:
            at = todo.pop()
            if at in ranks:  # other threads add some meanwhile
                continue
            callees = [callee for callee, _ in self._expand(at).calls]
            if at in begun:
                longest = min((ranks[callee][0] for callee in callees if callee in ranks), default=0)
                ranks[at] = longest - 1, next(self._numbers)
            else:
                begun.add(at)
                todo += [at, *[callee for callee in callees if callee not in begun]]
        return ranks[machine]

    def _check_count(self, configurations: int) -> None:
        if configurations > self._max_configurations:
            raise LimitExceeded(
                "too many readings of the text at once",
                because=f"more than {self._max_configurations:,} configurations are alive",
                instead="make the grammar less ambiguous, or raise max_configurations",
            )

    def _reads(self, machine: State | TextAt) -> bool:
        known = self._reading.get(machine)
        if known is not None:
            return known
        if isinstance(machine, TextAt):
            reads = machine.reads()
        else:
            edges = self._expand(machine)
            reads = bool(edges.ranges or edges.tokens)
        self._reading[machine] = reads
        return reads

    def _push(self, callee: State, after: State | Dispatch, frame: Frame | None) -> Frame | None:
        records = isinstance(after, Dispatch) and after.records
        if after is END:
            return frame  # tail call
        quoting = callee.quoting if isinstance(callee, Text) else None
        return self._frame(after, quoting, b"" if records else None, frame)

    def _frame(
        self, after: State | Dispatch, quoting: Quoting | MarkerSafe | None, record: bytes | None, parent: Frame | None,
        beside: Frame | None = None,
    ) -> Frame:
        key = (after, quoting, record, parent, beside)
        frame = self._frames.get(key)
        return frame if frame is not None else self._frames.setdefault(key, Frame(*key))

    def _returned(self, machine: State | TextAt, frame: Frame) -> State | None:
        after = frame.after
        if not isinstance(after, Dispatch):
            return after
        if frame.record is not None:
            assert frame.quoting is not None
            return after.after_text(decode(frame.quoting, frame.record))
        assert isinstance(machine, TextAt)
        return after.after(machine.label)

    def _intern(self, configs: frozenset[Config], final: bool) -> int:
        key = (configs, final)
        known = self._ids.get(key)
        if known is None:
            fresh = next(self._numbers)
            self._states[fresh] = key  # before anybody can learn its number
            known = self._ids.setdefault(key, fresh)
        return known

    # -- stacks: sets of frames ----------------------------------------------------------------------------------------

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
        parents_of: dict[Place, set[Frame | None]] = {}
        count, same = 0, True
        for frame in frames(stack):
            new, count = place(frame), count + 1
            same &= new[2] == frame.record
            parents_of.setdefault(new, set()).add(frame.parent)
        spend(5 * count)
        if same:
            return stack
        if count == 1:
            return self._frame(*new, stack.parent)
        return self._stack({key: self.merge(frozenset(parents)) for key, parents in parents_of.items()})

    def _stack(self, parents: dict[Place, Frame | None]) -> Frame | None:
        """Return the stack of some frames, each a place and its parent."""
        if len(parents) > 1:
            order = self._places
            for place in parents:
                order.setdefault(place, next(self._numbers))  # of another thread as well, no two the same
            parents = {place: parents[place] for place in sorted(parents, key=order.__getitem__)}
        stack: Frame | None = None
        for place, parent in parents.items():
            stack = self._frame(*place, parent, stack)
        return stack if stack is None or stack.after is not END or stack.beside else None

    # -- masks ---------------------------------------------------------------------------------------------------------

    def _walk(self, state: int) -> Mask:
        every = np.ones(self._vocabulary.size, np.bool_)
        behind, _, _ = PlainSteps(self._vocabulary, self.step_byte).after_all(state, every)
        allowed: list[int] = self._vocabulary.trie.ids[behind != DEAD].tolist()
        allowed += self.named_tokens(state)
        if self.is_final(state):
            allowed += self._vocabulary.stop
        return _pack(allowed, self._vocabulary.words)


class PlainSteps:
    """Where tokens lead from states, by one walk of the trie; as the compiled `_tokens.Steps`, node by node.

    look(state, byte): called for a successor that is not known; what it tells `put` is not asked for again.
    """

    def __init__(self, vocabulary: Vocabulary, look: Callable[[int, int], int], _: object = None) -> None:
        self._vocabulary, self._look, self.bytes = vocabulary, look, 0
        self._known: dict[tuple[int, int], int] = {}

    def find(self, state: int, byte: int) -> int:
        return self._known.get((state, byte), -1)

    def put(self, state: int, low: int, high: int, after: int) -> None:
        for byte in range(low, high + 1):
            self._known[state, byte] = after

    def spelled(self, text: bytes) -> list[int] | None:
        tokens, longest = self._vocabulary.by_text, self._vocabulary.longest
        best: list[list[int] | None] = [*[None] * len(text), []]  # from each place on
        for at in range(len(text) - 1, -1, -1):
            for end in range(min(len(text), at + longest), at, -1):
                token, rest, known = tokens.get(text[at:end]), best[end], best[at]
                if token is not None and rest is not None and (known is None or len(rest) + 1 < len(known)):
                    best[at] = [token, *rest]
        return best[0]

    def after_all(self, state: int, allowed: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int32], dict[int, int], int]:
        trie = self._vocabulary.trie
        columns = trie.end, trie.first, trie.depth, trie.byte, trie.ids
        end, first, depth, byte, ids = (each.tolist() for each in columns)  # Python's own numbers: 0.85 of the time
        behind, used, path, at = np.zeros(len(ids), np.int32), dict[int, int](), [state], 0
        while at < len(end):
            del path[depth[at] :]
            after = self.find(path[-1], byte[at])
            after = after if after >= 0 else self._look(path[-1], byte[at])
            if after == DEAD:
                at = end[at]
                continue
            path.append(after)
            for place in range(first[at], first[at + 1]):
                if allowed[ids[place]]:
                    behind[place], used[after] = after, ids[place]
            at += 1
        return behind, used, len(end)

    def clear(self, bits: Mask, behind: npt.NDArray[np.int32], states: Collection[int]) -> None:
        for token in self._vocabulary.trie.ids[np.isin(behind, [*states])].tolist():
            bits[token >> 5] &= ~np.uint32(1 << (token & 31))


def _pack(ids: Iterable[int], words: int) -> Mask:
    bits = np.zeros(words * 32, np.uint8)
    bits[list(ids)] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)


def _text_edges(text: Text) -> Edges:
    ranges = []
    for spelling, language in variants(text.quoting, text.language):
        if language is not None:
            ranges.append((spelling.opening[0], spelling.opening[0], TextAt(spelling, language)))
    return Edges(ranges=tuple(ranges))  # type: ignore[arg-type]  # TextAt is this kernel's own kind of state


def _begun(machine: State | TextAt) -> State | TextAt:
    """Return the position at the beginning of a text without quotes; any other machine state as it is."""
    if isinstance(machine, Text) and machine.quoting is Quoting.RAW:
        return TextAt(variants(machine.quoting, machine.language)[0][0], machine.language)
    return machine
