"""The cursor of one sequence: what may come next, what has come, and back again.

A matcher points to the last of its `Step`s, each of which points to the one before: a persistent stack.  `advance`
pushes, `rollback` pops, `copy` shares, whatever the length.  All work is in the kernel. Kept small on purpose: hosts
build thousands of them, and beam search copies them at every step.

It moves by one assignment, which nothing can interrupt: where a call raises, be it `MemoryError` or
`KeyboardInterrupt`, the matcher is as it was before, and the same call may be tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from constrained.engine.plain import DEAD, NO_TOKEN
from constrained.engine.tokens.bitmask import as_array, number
from constrained.engine.tokens.vocabulary import checked_token, token_name
from constrained.errors import ConstrainedError, LimitExceeded, Rejected, shown
from constrained.work import Budget, Preempted, begin, thread

if TYPE_CHECKING:
    from constrained.engine.captures import Captures
    from constrained.engine.compiled import CompiledGrammar
    from constrained.engine.tokens.vocabulary import Vocabulary


# -- the reasons of a refused token, worded when somebody asks ---------------------------------------------------------
#
# Whoever tries tokens (speculative decoding, beams, tests of a tokenizer) catches most rejections and reads none.  To
# ask a state for all bytes that could have come costs as much as ten masks; so a rejection holds what it needs to
# answer, and answers on first sight.

_MOST_SHOWN = 12  # bytes that a message lists
_MANY = 40  # bytes from which on it only counts them


def reasons(vocabulary: Vocabulary, kernel: Any, last: Step, token: int) -> dict[str, Any]:
    """Say how far the bytes of a token got that was refused behind a step, and what could have come there."""
    before, state = tokens_of(last), last[0]
    text, read = vocabulary.tokens[token] or b"", 0
    outer = thread.budget
    try:
        begin(Budget())
        for byte in text:
            after = kernel.step_byte(state, byte)
            if after == DEAD:
                break
            state, read = after, read + 1
        expected = _expected(vocabulary, kernel, state)
    except LimitExceeded:
        expected = "(it takes too much work to say)"
    except Preempted:
        expected = "(forgotten, as the error was read long after)"
    finally:
        thread.budget = outer
    position = len(vocabulary.decode(before)) + read
    if text:
        known, wrong = text[:read].decode("utf-8", "backslashreplace"), text[read : read + 1]
        fits = f"after {known!r} the byte {wrong!r} cannot follow" if read else f"no word goes on with {wrong!r}"
    elif token in vocabulary.stop:
        fits = "the text is not complete"
    else:
        fits = "special and unused tokens come only where the grammar names them"
    return {
        "what": f"token {token} {token_name(vocabulary, token)} is not allowed",
        "where": f"byte {position}, after {len(before)} tokens",
        "because": fits,
        "instead": f"expected: {expected}",
        "position": position,
        "expected": expected,
    }


def _expected(vocabulary: Vocabulary, kernel: Any, state: int) -> str:
    """Describe the bytes and special tokens that may come in a state."""
    allowed = kernel.next_bytes(state)
    words = [vocabulary.names.get(token, str(token)) for token in sorted(kernel.named_tokens(state))]
    if kernel.is_final(state):
        words.append("the end")
    if len(allowed) > _MANY:
        return ", ".join([*words, f"any of {len(allowed)} bytes"])
    shown = [repr(chr(byte)) if 0x20 < byte < 0x7F else f"byte 0x{byte:02x}" for byte in allowed[:_MOST_SHOWN]]
    return ", ".join([*words, *shown, *(["…"] if len(allowed) > _MOST_SHOWN else [])]) or "nothing"


# -- the cursor -------------------------------------------------------------------------------------------------------

Found = TypeVar("Found")

# The state behind a token, the token, how many tokens were read, and the step before; the first one: the start.
# Tuples: they are never changed, and the garbage collector soon leaves them alone.
Step: TypeAlias = tuple[int, int, int, Any]

MUCH = 0.2  # of the states of a kernel
FORCED_BYTES = 4096  # longest run of forced bytes that is looked for: a grammar may dictate for ever


def tokens_of(step: Step) -> list[int]:
    """Return the tokens up to a step."""
    tokens = [-1] * step[2]
    for at in range(step[2] - 1, -1, -1):
        tokens[at], step = step[1], step[3]
    return tokens


class Matcher:
    """A cursor over a constraint.

    Invariant: each state of the steps up to `_last` is `_kernel`'s after the tokens before it.  A stop token that ends
    a word leaves ~state instead, a negative number; nothing may follow then.  `_stop` are the vocabulary's, and the
    grammar's own.
    """

    __slots__ = ("constraint", "_kernel", "_last", "_stop", "_budget")

    def __init__(self, constraint: CompiledGrammar) -> None:
        if not hasattr(constraint, "place"):
            raise ConstrainedError(
                f"not a constraint: {shown(constraint)}", instead="compile(grammar, vocabulary).matcher()"
            )
        self.constraint, self._budget = constraint, constraint.budget
        self._kernel, start = constraint.place()
        self._last: Step = (start, -1, 0, None)
        self._stop = frozenset(constraint.stop)

    # -- what may come -------------------------------------------------------------------------------------------------

    def fill_mask(self, bitmask: Any, row: int = 0) -> None:
        """Write the mask of the next token into a row of `bitmask`.

        Shapes: int32 (rows, ceil(vocabulary size / 32)), numpy array or CPU torch tensor; bit i of word w = token 32 w
        + i is allowed. Nothing is allowed once the sequence `is_finished`.
        Cost: 0.5 µs where the state's mask is known; a few µs where only the vocabulary's part of it is.
        Raises: BitmaskError: wrong shape, dtype or layout.  LimitExceeded: see `compile`.
        """
        array = bitmask if type(bitmask) is np.ndarray else as_array(bitmask)
        try:
            full = self._kernel.fill(self._last[0], array, row, self._budget)
        except Preempted:
            full = self._worked(partial(self._filled, array, row), moved=True)
        except LimitExceeded as error:
            raise self._budget.placed(error) from None
        if full:
            self._replay()

    def accepts(self, token: int) -> bool:
        """Say whether a token may come next."""
        try:
            after = self._kernel.step_token(self._last[0], token, self._budget)
        except Preempted:
            after = NO_TOKEN
        except LimitExceeded as error:
            raise self._budget.placed(error) from None
        if after > DEAD or (after == DEAD and token not in self._stop):
            return bool(after)
        token = checked_token(self.constraint.vocabulary, token)
        return self._last[0] >= 0 and self._worked(partial(self._next, token)) is not None

    def is_accepting(self) -> bool:
        """Say whether the sequence may end here: a stop token is allowed, or the text needs none."""
        if self._last[0] < 0:
            return True
        try:
            return self._kernel.is_final(self._last[0]) or self._worked(self._ends_by_name)
        except Preempted:
            return self._worked(lambda: self._kernel.is_final(self._last[0]) or self._ends_by_name(), moved=True)

    def is_finished(self) -> bool:
        """Say whether a stop token has ended the sequence."""
        return self._last[0] < 0

    def is_exhausted(self) -> bool:
        """Say whether the text is a word that nothing can follow, a stop token left aside."""
        if self._last[0] < 0:
            return True
        if not self.is_accepting():
            return False
        allowed = self._allowed_here()
        return allowed.size <= len(self._stop) and {*allowed.tolist()} <= {*self._stop}

    def named_tokens(self) -> set[int]:
        """Return the special tokens that the grammar names next; a stop token that only ends the text is none."""
        return self._worked(lambda: self._kernel.named_tokens(self._last[0])) if self._last[0] >= 0 else set()

    def forced_bytes(self) -> bytes:
        """Return the bytes that every continuation starts with, at most 4,096; b"" where the sequence may also end."""
        return self._worked(self._forced_bytes) if self._last[0] >= 0 else b""

    def _forced_bytes(self) -> bytes:
        forced, state, kernel = bytearray(), self._last[0], self._kernel
        while len(forced) < FORCED_BYTES and not kernel.is_final(state) and not kernel.named_tokens(state):
            options = kernel.next_bytes(state)
            if len(options) != 1:
                break
            forced += options
            state = kernel.step_byte(state, options[0])
        return bytes(forced)

    def forced_tokens(self) -> list[int]:
        """Return tokens that a decoder may append without asking the model.

        They spell the forced bytes, without a last token that could have been a longer one; a special token that is the
        only choice comes as itself.  Several tokenisations may spell forced bytes; this is the tokenizer's own where it
        is known.
        """
        forced = self.forced_bytes()
        if not forced:
            named = self.named_tokens()
            alone = len(named) == 1 and len(self._allowed_here()) == 1
            return [*named] if alone else []
        vocabulary = self.constraint.vocabulary
        tokens, texts = vocabulary.tokenize(forced), vocabulary.tokens
        settled, room = [], len(forced)
        for token in tokens:
            text = texts[token]
            assert text is not None
            if room < vocabulary.longest and vocabulary.trie.goes_on(forced[len(forced) - room :]):
                break
            settled.append(token)
            room -= len(text)
        return settled

    def shortest_completion(self) -> list[int]:
        """Return tokens that end the word from here, without the stop token that `generate` adds; empty where it is
        complete.

        The shortest in bytes, in as few tokens as spell it: an upper bound of the fewest tokens, see
        `budget.completion`.
        Raises: LimitExceeded: none is known, or it takes too much work to find.
        """
        from constrained.budget.completion import shortest_completion

        if self._last[0] < 0:
            return []
        known = self.constraint.completions()
        return self._worked(lambda: shortest_completion(known, self.constraint.begun(known.tracker), self.tokens))

    def explain(self, token: int) -> str:
        """Return in words why a token may or may not come next.

        Raises: Rejected: no token of the vocabulary.
        """
        token = checked_token(self.constraint.vocabulary, token)
        name = token_name(self.constraint.vocabulary, token)
        if self._last[0] < 0:
            return f"token {token} {name} is not allowed: a stop token has ended the sequence"
        if self._worked(partial(self._next, token)) is not None:
            return f"token {token} {name} is allowed"
        return str(self._rejection(token))

    def charge(self, budget: Budget) -> None:
        """Count the work of this matcher against a budget of its caller's, instead of the constraint's."""
        self._budget = budget

    # -- what has come -------------------------------------------------------------------------------------------------

    def advance(self, token: int) -> None:
        """Append a token.

        Raises: Rejected: it is not allowed here; the matcher is unchanged.
        """
        if self._kernel.is_full():
            self._replay()
        last = self._last  # an attribute is a tenth of a step
        try:
            after = self._kernel.step_token(last[0], token, self._budget)
        except Preempted:
            after = self._worked(partial(self._stepped, token), moved=True)
            last = self._last
        except LimitExceeded as error:
            raise self._budget.placed(error) from None
        if after <= DEAD or token in self._stop:
            if after == DEAD and type(token) is int and token not in self._stop:
                raise self._rejection(token)
            token, after = self._unusual(token)
            last = self._last
        self._last = after, token, last[2] + 1, last  # the matcher has moved, or it has not

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens, stop token included.

        Raises: ConstrainedError: there are not as many; the matcher is unchanged.
        """
        last, steps = self._last, number(count)
        if not 0 <= steps <= last[2]:
            raise ConstrainedError(
                f"cannot roll back {shown(count)} tokens",
                because=f"{last[2]} have been read",
                instead="reset() goes to the start",
            )
        for _ in range(steps):
            last = last[3]
        self._last = last

    def copy(self) -> Matcher:
        """Return an independent cursor at the same place."""
        twin = object.__new__(Matcher)
        twin.constraint, twin._budget, twin._stop = self.constraint, self._budget, self._stop
        twin._kernel, twin._last = self._kernel, self._last
        return twin

    def reset(self) -> None:
        """Go back to the start of the sequence, whatever threads that used the matcher at once have left of it."""
        self._kernel, start = self.constraint.place()
        self._last = start, -1, 0, None

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens read so far."""
        return tuple(tokens_of(self._last))

    def text(self) -> bytes:
        """Return the bytes read so far, special tokens by name."""
        return self.constraint.vocabulary.decode(tokens_of(self._last))

    def captures(self) -> Captures:
        """Return what the named rules of the grammar derived in the finished text; see `engine.captures`.

        Raises: Rejected: the text is not a word yet.
        """
        from constrained.engine.captures import captures

        return captures(self.constraint, self.tokens)

    # -- internals -----------------------------------------------------------------------------------------------------

    def _worked(self, work: Callable[[], Found], *, moved: bool = False) -> Found:
        """Return what some work finds; it is counted as one operation, and done again elsewhere if others wait for the
        kernel.
        """
        outer = thread.budget
        try:
            begin(self._budget, hurried=True)
            while True:
                if moved:
                    self.constraint.leave(self._kernel)
                    self._replay()
                try:
                    result = work()
                    break
                except Preempted:
                    moved = True
            return result
        except LimitExceeded as error:
            raise self._budget.placed(error) from None
        finally:
            thread.budget = outer

    def _replay(self) -> None:
        """Move to the constraint's present kernel, if the one in use may not grow; what only that had learnt stays
        behind.

        A sequence that needs most of the bound by itself is not read again, which would make the same states: its
        kernel grows with it, and goes with its last matcher.  Where several together need more, they get twice that,
        and are read again when it is full.
        """
        if self._fills():
            self._kernel.allow(self._kernel.cached_bytes() * 3 // 2)
            return
        while True:
            kernel, start = self.constraint.place()
            if kernel is self._kernel and not kernel.is_gone():
                return
            last: Step = (start, -1, 0, None)
            try:
                for token in tokens_of(self._last):
                    after = kernel.step_token(last[0], token, self._budget)
                    last = (after if after != DEAD else last[0]), token, last[2] + 1, last
            except Preempted:
                self.constraint.leave(kernel)
                continue
            self._kernel, self._last = kernel, (~last[0], *last[1:]) if self._last[0] < 0 else last
            if kernel.is_full():
                kernel.allow(2 * kernel.cached_bytes())
            return

    def _fills(self) -> bool:
        """Say whether the kernel is full, and much of it are states of this sequence."""
        kernel, constraint = self._kernel, self.constraint
        if (
            kernel.is_gone()
            or not kernel.is_full()
            or constraint.vocabulary.kernels.may_grow(kernel, constraint.options.cache_bytes)
        ):
            return False
        states, step, met = MUCH * kernel.count_states(), self._last, set[int]()
        if step[2] >= states:
            while step is not None:
                met.add(step[0])
                step = step[3]
        return len(met) >= states

    def _unusual(self, token: int) -> tuple[int, int]:
        """Return what `advance` appends where the token is a stop token, another kind of int, or not allowed."""
        token = checked_token(self.constraint.vocabulary, token)
        if self._last[0] < 0:
            raise Rejected(
                f"token {token} {token_name(self.constraint.vocabulary, token)} comes after the end",
                because="a stop token has ended the sequence", instead="rollback(1) or reset()",
            )
        ended = self._worked(partial(self._ended, token))
        if ended is None:
            raise self._rejection(token)
        return token, ended

    def _ended(self, token: int) -> int | None:
        """As `_next`, with ~state where a stop token ends the sequence."""
        after, state, kernel = self._next(token), self._last[0], self._kernel
        ends = (
            after is not None
            and token in self._stop
            and kernel.is_final(after)
            and (after == state or kernel.is_exhausted(after))
        )
        return ~after if ends and after is not None else after

    def _filled(self, array: Any, row: int) -> bool:
        return self._kernel.fill(self._last[0], array, row)

    def _stepped(self, token: int) -> int:
        return self._kernel.step_token(self._last[0], token)

    def _ends_by_name(self) -> bool:
        """Say whether a stop token that the grammar names completes a word."""
        kernel, state = self._kernel, self._last[0]
        return any(
            kernel.is_final(kernel.step_token(state, token)) for token in kernel.named_tokens(state) & self._stop
        )

    def _next(self, token: int) -> int | None:
        state = self._last[0]
        after = self._kernel.step_token(state, token)
        if (
            after == DEAD
            and token in self._stop
            and token in self.constraint.vocabulary.stop
            and self._kernel.is_final(state)
        ):
            return state
        return after if after != DEAD else None

    def _rejection(self, token: int) -> Rejected:
        return Rejected.__new__(Rejected, reasons, self.constraint.vocabulary, self._kernel, self._last, token)

    def __reduce__(self) -> tuple[Any, ...]:
        return _read_again, (self.constraint, self.tokens)

    def __repr__(self) -> str:
        text, count = self.text(), len(self.tokens)
        end = "finished" if self.is_finished() else "may end here" if self.is_accepting() else "goes on"
        return f"<{type(self).__name__} after {count} tokens, {end}: {'…' if len(text) > 60 else ''}{text[-60:]!r}>"

    def _allowed_here(self) -> np.ndarray[Any, Any]:
        """Return the tokens that may come next, ascending."""
        row = np.zeros((1, self.constraint.vocabulary.words), np.int32)
        self.fill_mask(row)
        return np.flatnonzero(np.unpackbits(row[0].view(np.uint8), bitorder="little"))


def _read_again(constraint: CompiledGrammar, tokens: Sequence[int]) -> Matcher:
    matcher = Matcher(constraint)
    for token in tokens:
        matcher.advance(token)
    return matcher


# -- the masks of a whole batch ---------------------------------------------------------------------------------------

def fill_masks(matchers: Sequence[Matcher], bitmask: Any) -> None:
    """Write the masks of a whole batch, matcher i into row i, as `Matcher.fill_mask` does.

    New masks are computed one by one; then all rows are copied without the GIL.
    Cost: 256 known masks of 128,000 tokens, 4 MB: 0.2 ms, of which 20 µs under the GIL.
    Raises: LimitExceeded: some masks take too much work; its `rows` names them.  All other rows are filled, these allow
    nothing.
    ConstrainedError: not a list of matchers.
    """
    listed = list(matchers) if isinstance(matchers, Iterable) else [matchers, None]
    array, batch = as_array(bitmask), _compiled_batch()
    failed = dict[int, LimitExceeded]()
    todo = batch.fill_rows(listed, array, Matcher) if batch is not None else None
    if todo is None:
        if not all(isinstance(matcher, Matcher) for matcher in listed):
            raise ConstrainedError(
                f"not a list of matchers: {shown(matchers)}",
                instead="[matcher, …], one for each row",
            )
        todo = range(len(listed))
    for row in todo:
        try:
            listed[row].fill_mask(array, row)
        except LimitExceeded as error:
            failed[row] = error
            array[row] = 0
    if failed:
        first = next(iter(failed.values()))
        first.rows = tuple(failed)
        raise first


@lru_cache(maxsize=1)
def _compiled_batch() -> Any:
    try:
        from constrained.engine.kernel import _kernel
    except Exception:  # then no matcher has such a kernel either, see `kernel_class`
        return None
    return _kernel
