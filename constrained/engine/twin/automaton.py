"""The readable twin of the compiled kernel: a lazily determinised pushdown over bytes.

A *configuration* is (machine state, stack); a stack is an interned linked list of frames, each the state to go on with
after a call. A *state* of the automaton is the set of configurations that some reading of the bytes so far can be in;
it is a small int.  A step moves every configuration over one byte and closes the result under calls and returns.  A
mask walks the token trie once with these steps.  Nothing here is clever: no merged stacks, no shared masks, no rows.
The compiled kernel does the same in other data structures, and the tests compare the two bit by bit.

Invariant: every configuration is live, so a token is allowed exactly when its bytes lead to a non-empty set.
Cost: about 1 µs per configuration and byte, 0.1-0.5 s for a string mask over 128,000 tokens (once per state).
Source: Earley sets and LR item closures in pushdown form; folklore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from constrained.engine.tokens.bitmask import fits, misfit, number
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.engine.twin.spelling import decode, variants
from constrained.engine.twin.text import TextAt
from constrained.errors import LimitExceeded
from constrained.machine import END, Dispatch, Edges, MarkerSafe, Quoting, State, Text
from constrained.work import Budget, begin, spend, thread

DEAD = 0  # the automaton state without configurations; never final
NO_TOKEN = -1  # what `step_token` returns for what is not the id of a token, and behind the end

Found = TypeVar("Found")
Mask = npt.NDArray[np.uint32]  # (words,), bit i of word w = token 32 w + i is allowed


class Frame:
    """What happens after a call: go on in `after`; `record` holds the bytes read so far where `after` wants to know
    them, `beside` other frames of the same stack, where stacks are merged (`engine.budget.lookahead`).
    """

    __slots__ = ("after", "quoting", "record", "parent", "beside")

    def __init__(
        self, after: State | Dispatch, quoting: Quoting | MarkerSafe | None, record: bytes | None, parent: Frame | None,
        beside: Frame | None = None,
    ) -> None:
        self.after, self.quoting, self.record, self.parent, self.beside = after, quoting, record, parent, beside


Config = tuple["State | TextAt", "Frame | None"]




class PlainKernel:
    """One automaton over root machines and a vocabulary; states are ints, `start` is the start of the one it was made
    with.

    `specials` maps the names of special tokens that the machine uses to ids.  A stop id is set in the mask of every
    final state.
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
        self._columns: tuple[list[int], ...] = ()  # of the trie, once a mask is asked for
        self._intern(frozenset(), False)
        self.start = self.start_at(root, nullable) if root is not None else DEAD

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
        return 400 * len(self._states) + 200 * len(self._steps) + 4 * self._vocabulary.words * len(self._masks)

    def count_states(self) -> int:
        """Return how many states there are."""
        return len(self._states)

    def is_full(self) -> bool:
        """Say whether the cache has passed its bound: its owner then starts a fresh kernel."""
        return self.cached_bytes() > self._max_bytes

    # -- the automaton -------------------------------------------------------------------------------------------------

    def _expand(self, machine: State | TextAt) -> Edges:
        if isinstance(machine, TextAt):
            return Edges(accepting=machine.accepting)
        edges = self._edges.get(machine)
        if edges is None:
            edges = self._edges[machine] = _text_edges(machine) if isinstance(machine, Text) else machine.expand()
        return edges

    def _moved(self, state: int, byte: int) -> list[Config]:
        return [(target, self._recording(frame, byte)) for target, frame in self._reached(state, byte)]

    def _reached(self, state: int, byte: int) -> list[Config]:
        """Return what the configurations become by a byte, but for what frames remember of it."""
        reached: list[Config] = []
        for machine, frame in self._states[state][0]:
            target: State | TextAt | None
            if isinstance(machine, TextAt):
                target = self._read(machine, byte)
            else:
                target = next((t for low, high, t in self._expand(machine).ranges if low <= byte <= high), None)
            if target is not None:
                reached.append((target, frame))
        return reached

    def _recording(self, frame: Frame | None, byte: int) -> Frame | None:
        """Return a frame after a byte of what is read above it."""
        if frame is None or frame.record is None:
            return frame
        return self._frame(frame.after, frame.quoting, frame.record + bytes([byte]), frame.parent)

    def _read(self, at: TextAt, byte: int) -> TextAt | None:
        return at.step(byte)

    def _close(self, work: list[Config], final: bool = False) -> int:
        """Return the state of the configurations and all that calls and returns reach from them without a byte."""
        seen: set[Config] = set()
        while work:
            config = work.pop()
            if config in seen:
                continue
            spend()
            seen.add(config)
            self._check_count(len(seen))
            machine, frame = config
            if isinstance(machine, Text) and machine.quoting is Quoting.RAW:
                work.append((TextAt(variants(machine.quoting, machine.language)[0][0], machine.language), frame))
                continue
            edges = self._expand(machine)
            for callee, after in edges.calls:
                work.append((callee, self._push(callee, after, frame)))
            if edges.accepting:
                if frame is None:
                    final = True
                else:
                    after_call = self._returned(machine, frame)
                    if after_call is not None:
                        work.append((after_call, frame.parent))
        return self._intern(frozenset(config for config in seen if self._reads(config[0])), final)

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
        elif isinstance(machine, Text) and machine.quoting is Quoting.RAW:
            reads = False
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

    # -- masks ---------------------------------------------------------------------------------------------------------

    def _walk(self, state: int) -> Mask:
        if not self._columns:  # PERF: numbers of Python's own: a mask takes 0.85 of the time
            trie = self._vocabulary.trie
            self._columns = tuple(column.tolist() for column in (trie.end, trie.first, trie.depth, trie.byte, trie.ids))
        end, first, depth, byte, ids = self._columns
        path, at = [state], 0
        allowed: list[int] = []
        while at < len(end):
            del path[depth[at] :]
            after = self.step_byte(path[-1], byte[at])
            if after == DEAD:
                at = end[at]
                continue
            path.append(after)
            allowed += ids[first[at] : first[at + 1]]
            at += 1
        allowed += self.named_tokens(state)
        if self.is_final(state):
            allowed += self._vocabulary.stop
        return _pack(allowed, self._vocabulary.words)


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
