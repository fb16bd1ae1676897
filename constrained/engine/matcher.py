"""The cursor of one sequence: what may come next, what has come, and back again.

A matcher is a list of automaton states, one per token; `advance` appends, `rollback` removes, `copy` copies.  All work is in the kernel.
Kept small on purpose: hosts build thousands of them, and beam search copies them at every step.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from constrained.engine.bitmask import as_array
from constrained.engine.plain import DEAD
from constrained.engine.rejection import rejection, token_name
from constrained.errors import ConstrainedError, LimitExceeded, Rejected
from constrained.work import Preempted, begin, finish

if TYPE_CHECKING:
    from constrained.engine.constraint import Constraint

Found = TypeVar("Found")

FORCED_BYTES = 4096  # longest run of forced bytes that is looked for: a grammar may dictate for ever


class Matcher:
    """A cursor over a constraint.

    Invariant: states[i] is the kernel's state after the first i tokens; len(states) = len(tokens) + 1.
    `finished` is set by a stop token that ends a word; nothing may follow then.
    """

    __slots__ = ("constraint", "_kernel", "_states", "_tokens", "_finished", "_stop", "_size", "_budget")

    def __init__(self, constraint: Constraint) -> None:
        self.constraint, self._budget = constraint, constraint.budget
        self._kernel, start = constraint.place()
        self._states = [start]
        self._tokens: list[int] = []
        self._finished = False
        self._stop, self._size = frozenset(constraint.vocabulary.stop), constraint.vocabulary.size

    # -- what may come ----------------------------------------------------------------------------------------------------

    def fill_mask(self, bitmask: Any, row: int = 0) -> None:
        """Write the mask of the next token into a row of `bitmask`.

        Shapes: int32 (rows, ceil(vocabulary size / 32)), numpy array or CPU torch tensor; bit i of word w = token 32 w + i is allowed.
        Nothing is allowed once the sequence `is_finished`.
        Cost: 0.5 µs where the state's mask is known; a few µs where only the vocabulary's part of it is.
        Raises: BitmaskError: wrong shape, dtype or layout.  LimitExceeded: see `compile`.
        """
        array = bitmask if type(bitmask) is np.ndarray else as_array(bitmask)
        try:
            full = self._kernel.fill(self._states[-1], array, row, self._finished, self._budget)
        except Preempted:
            full = self._worked(lambda: self._kernel.fill(self._states[-1], array, row, self._finished), moved=True)
        if full:
            self._replay()

    def accepts(self, token: int) -> bool:
        """Say whether a token may come next."""
        self._check(token)
        return not self._finished and self._worked(partial(self._next, token)) is not None

    def is_accepting(self) -> bool:
        """Say whether the sequence may end here: a stop token is allowed, or the text needs none."""
        if self._finished or self._kernel.is_final(self._states[-1]):
            return True
        return self._worked(self._ends_by_name)

    def is_finished(self) -> bool:
        """Say whether a stop token has ended the sequence."""
        return self._finished

    def forced_bytes(self) -> bytes:
        """Return the bytes that every continuation starts with, at most 4,096; b"" where the sequence may also end."""
        return self._worked(self._forced_bytes) if not self._finished else b""

    def _forced_bytes(self) -> bytes:
        found, state, kernel = bytearray(), self._states[-1], self._kernel
        while len(found) < FORCED_BYTES and not kernel.is_final(state) and not kernel.named_tokens(state):
            options = kernel.next_bytes(state)
            if len(options) != 1:
                break
            found += options
            state = kernel.step_byte(state, options[0])
        return bytes(found)

    def forced_tokens(self) -> list[int]:
        """Return tokens that a decoder may append without asking the model.

        They spell the forced bytes, without a last token that could have been a longer one; a special token that is the only choice
        comes as itself.  Several tokenisations may spell forced bytes; this is the tokenizer's own where it is known.
        """
        forced = self.forced_bytes()
        if not forced:
            named = sorted(self._kernel.named_tokens(self._states[-1])) if not self._finished else []
            alone = len(named) == 1 and self._count_allowed() == 1
            return named if alone else []
        tokens, texts = self.constraint.vocabulary.tokenize(forced), self.constraint.vocabulary.tokens
        settled, room = [], len(forced)
        for token in tokens:
            text = texts[token]
            assert text is not None
            if room < self.constraint.vocabulary.longest and self._extends(forced[len(forced) - room :]):
                break
            settled.append(token)
            room -= len(text)
        return settled

    def explain(self, token: int) -> str:
        """Return in words why a token may or may not come next."""
        self._check(token)
        name = token_name(self.constraint.vocabulary, token)
        if self._finished:
            return f"token {token} {name} is not allowed: a stop token has ended the sequence"
        if self._worked(partial(self._next, token)) is not None:
            return f"token {token} {name} is allowed"
        return str(self._rejection(token))

    # -- what has come ------------------------------------------------------------------------------------------------------

    def advance(self, token: int) -> None:
        """Append a token.

        Raises: Rejected: it is not allowed here; the matcher is unchanged.
        """
        kernel = self._kernel
        if kernel.is_full():
            self._replay()
            kernel = self._kernel
        if not 0 <= token < self._size:  # PERF: a call would be a tenth of an advance
            self._check(token)
        if self._finished:
            raise Rejected(
                f"token {token} {token_name(self.constraint.vocabulary, token)} comes after the end",
                because="a stop token has ended the sequence", instead="rollback(1) or reset()",
            )
        state = self._states[-1]
        try:
            after = kernel.step_token(state, token, self._budget)
        except Preempted:
            after = self._worked(lambda: self._kernel.step_token(self._states[-1], token), moved=True)
            state, kernel = self._states[-1], self._kernel
        if token in self._stop:
            if after == DEAD:
                if not kernel.is_final(state):
                    raise self._rejection(token)
                after = state
            self._finished = kernel.is_final(after) and (after == state or kernel.is_exhausted(after))
        elif after == DEAD:
            raise self._rejection(token)
        self._states.append(after)
        self._tokens.append(token)

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens, stop token included."""
        if not 0 <= count <= len(self._tokens):
            raise ConstrainedError(f"cannot roll back {count} tokens", because=f"{len(self._tokens)} have been read", instead="reset() goes to the start")
        if count:
            del self._states[-count:], self._tokens[-count:]
            self._finished = False

    def copy(self) -> Matcher:
        """Return an independent cursor at the same place."""
        twin = object.__new__(Matcher)
        twin.constraint, twin._kernel, twin._finished = self.constraint, self._kernel, self._finished
        twin._stop, twin._size, twin._budget = self._stop, self._size, self._budget
        twin._states, twin._tokens = self._states.copy(), self._tokens.copy()
        return twin

    def reset(self) -> None:
        """Go back to the start of the sequence."""
        self.rollback(len(self._tokens))

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens read so far."""
        return tuple(self._tokens)

    def text(self) -> bytes:
        """Return the bytes read so far, special tokens by name."""
        return self.constraint.vocabulary.decode(self._tokens)

    # -- internals ------------------------------------------------------------------------------------------------------------

    def _worked(self, work: Callable[[], Found], *, moved: bool = False) -> Found:
        """Return what some work finds; it is counted as one operation, and done again elsewhere if others wait for the kernel."""
        outer = begin(self._budget)
        try:
            while True:
                if moved:
                    self.constraint.leave(self._kernel)
                    self._replay()
                try:
                    return work()
                except Preempted:
                    moved = True
        finally:
            finish(outer)

    def _replay(self) -> None:
        """Move to the constraint's present kernel."""
        kernel, start = self.constraint.place()
        states = [start]
        for token in self._tokens:
            after = kernel.step_token(states[-1], token, self._budget)
            states.append(after if after != DEAD else states[-1])
        self._kernel, self._states = kernel, states

    def _entry(self) -> tuple[Any, int, bool, Any]:
        """Return what a batch needs to know: kernel, state, whether nothing may follow, what work is counted against."""
        if self._kernel.is_full():
            self._replay()
        return self._kernel, self._states[-1], self._finished, self._budget

    def _check(self, token: int) -> None:
        if not 0 <= token < self._size:
            raise Rejected(f"no token {token}", because=f"ids go from 0 to {self._size - 1}")

    def _ends_by_name(self) -> bool:
        """Say whether a stop token that the grammar names completes a word."""
        kernel, state = self._kernel, self._states[-1]
        return any(kernel.is_final(kernel.step_token(state, token)) for token in kernel.named_tokens(state) & self._stop)

    def _next(self, token: int) -> int | None:
        state = self._states[-1]
        after = self._kernel.step_token(state, token)
        if after == DEAD and token in self._stop and self._kernel.is_final(state):
            return state
        return after if after != DEAD else None

    def _rejection(self, token: int) -> Rejected:
        return rejection(self.constraint.vocabulary, self._kernel, self._states[-1], self._tokens, token)

    def _extends(self, rest: bytes) -> bool:
        """Say whether some token starts with `rest` and is longer."""
        trie, at, stop = self.constraint.vocabulary.trie, 0, len(self.constraint.vocabulary.trie.byte)
        for byte in rest:
            while at < stop and trie.byte[at] != byte:
                at = int(trie.end[at])
            if at >= stop:
                return False
            at, stop = at + 1, int(trie.end[at])
        return at < stop

    def _count_allowed(self) -> int:
        row = np.zeros((1, self.constraint.vocabulary.words), np.int32)
        self.fill_mask(row)
        return int(np.bitwise_count(row.view(np.uint32)).sum())


def fill_masks(matchers: Sequence[Matcher], bitmask: Any) -> None:
    """Write the masks of a whole batch, matcher i into row i, as `Matcher.fill_mask` does.

    New masks are computed one by one; then all rows are copied without the GIL.
    Raises: LimitExceeded: some masks take too much work; its `rows` names them.  All other rows are filled, these allow nothing.
    """
    array = as_array(bitmask)
    rows, failed = _compiled_rows(), dict[int, LimitExceeded]()
    todo = range(len(matchers))
    if rows is not None and all(type(matcher._kernel).__name__ == "Kernel" for matcher in matchers):
        todo = rows([matcher._entry() for matcher in matchers], array)
    for row in todo:
        try:
            matchers[row].fill_mask(array, row)
        except LimitExceeded as error:
            failed[row] = error
            array[row] = 0
    if failed:
        first = next(iter(failed.values()))
        first.rows = tuple(failed)
        raise first


@lru_cache(maxsize=1)
def _compiled_rows() -> Any:
    try:
        return importlib.import_module("constrained.engine._kernel").fill_rows
    except ImportError:
        return None
