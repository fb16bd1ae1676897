"""Sequences as hosts show them, step after step → the matcher after each: rows of a batch, and a single sequence.

Hosts show whole sequences, in whatever order suits them: beams change places, drafts are tried and taken back, an
assistant model asks in between.  So a row's matcher is found by *what the row says*: the row seen last that agrees with
it for longest lends its matcher, which takes back what differs and reads the rest.  In the common case, the same rows
and one token more, that is one comparison of two arrays; its cost does not depend on how the rows came about, and no
history is kept but the last.

Rows belong to groups, one a constraint: with k constraints, rows i·n/k up to (i+1)·n/k belong to the i-th, which is how
`generate` lays out beams and repeated samples.

`OneSequence` is for hosts without batches.  Where the prompt ends is told (`prompt_length`), or found: the first call's
ids are the prompt.  A later call belongs to the same generation if its ids are some that were seen and at most one
token more, or fewer, as drafts are taken back; else a new one begins.  This cannot tell the same prompt and one token
more from a step: `reset` says it.  These hosts pass over an error inside a processor and go on without it.  So none is
raised: where a mask takes too much work the text is ended, and the log says why.

Tested by every mode of `generate` in tests/hosts, against fresh matchers on random moves
(hosts/test_transformers_rows.py), and in hosts/test_local.py.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from constrained.engine.compiled import CompiledGrammar
from constrained.engine.matcher import Matcher
from constrained.errors import ConstrainedError, LimitExceeded, Rejected

Ids = npt.NDArray[np.int64]  # (rows, length) token ids; some hosts' are int32


class Row:
    """A row's matcher, after the first `read` of its ids; it has read all of them, has ended, or the next one is not in
    the language.

    `matcher` is None where the row is free.
    """

    __slots__ = ("matcher", "read", "length")

    def __init__(self, matcher: Matcher | None, read: int, length: int) -> None:
        self.matcher, self.read, self.length = matcher, read, length

    @property
    def reading(self) -> bool:
        """Whether the matcher says what comes next: it has read all ids, and they have not ended."""
        return self.matcher is not None and self.read == self.length and not self.matcher.is_finished()

    @property
    def ended(self) -> bool:
        """Whether a stop token has ended the row; what comes behind it is padding."""
        return self.matcher is not None and self.matcher.is_finished()

    @property
    def left(self) -> bool:
        """Whether the row's ids are not in the language: a rejected draft, a beam of score -inf."""
        return self.matcher is not None and self.read < self.length and not self.matcher.is_finished()


def _read(matcher: Matcher, tokens: Iterable[int]) -> int:
    """Advance by tokens until one ends the sequence or is not in the language; return by how many."""
    count = 0
    for token in tokens:
        if matcher.is_finished():
            break
        try:
            matcher.advance(token)
        except Rejected:
            break
        count += 1
    return count


def budgets_of(
    constraints: Sequence[CompiledGrammar | None], most: int | Sequence[int | None] | None
) -> tuple[int | None, ...]:
    """Return the tokens that each constraint's words may have, None: as many as they like; given as one number, or one
    each.

    Raises: ConstrainedError: not one number, nor one for each constraint.  LimitExceeded: too few for any word.
    """
    listed = tuple(most) if isinstance(most, Sequence) and not isinstance(most, str) else (most,) * len(constraints)
    if len(listed) != len(constraints):
        raise ConstrainedError(
            f"{len(listed)} budgets for {len(constraints)} constraints",
            because="max_new_tokens is one number, or one each", instead="max_new_tokens=200",
        )
    for constraint, budget in zip(constraints, listed):
        if constraint is not None:
            constraint.matcher(budget=budget)
    return listed


class Rows:
    """The rows of one generation.

    Invariant: `_last[i]` is what `_rows[i]` is about; a matcher belongs to one row.
    """

    def __init__(
        self, constraints: Sequence[CompiledGrammar | None], budgets: Sequence[int | None] | None = None
    ) -> None:
        self._constraints = tuple(constraints)
        self._budgets = budgets or (None,) * len(self._constraints)
        self._last: Ids | None = None  # what was seen last; None: nothing, or it has to be seen again
        self._rows: list[Row] = []

    def see(self, ids: Ids) -> list[Row]:
        """Return a row for each row of generated ids, (rows, length) without the prompt.

        Cost: one comparison of arrays, and an advance a row, where ids are those seen last and one more; 1 µs more for
        1,000 ids.
        Raises: LimitExceeded: see `compile`; the next call reads all rows from their start.  ConstrainedError: see
        `_group`.
        """
        sources = self._sources(ids)
        uses = Counter(source for source, _ in sources)
        old, self._rows, self._last = self._rows, [], None
        rows = [self._row(ids, at, source, common, old, uses) for at, (source, common) in enumerate(sources)]
        self._rows, self._last = rows, ids.copy()
        return rows

    def continues(self, ids: Ids) -> bool:
        """Say whether every row is the beginning of one that was seen last, or such a beginning and one token."""
        length: int = ids.shape[1]
        if self._last is None or not self._fits(len(ids)):
            return length <= 1
        return all(common >= length - 1 for _, common in self._sources(ids))

    def _row(self, ids: Ids, at: int, source: int, common: int, old: list[Row], uses: dict[int, int]) -> Row:
        group, length = self._group(at, len(ids)), ids.shape[1]
        constraint, budget = self._constraints[group], self._budgets[group]
        if constraint is None:
            return Row(None, length, length)
        if source < 0:
            matcher, read = constraint.matcher(budget=budget), 0
        else:
            uses[source] -= 1
            lent = old[source].matcher
            assert lent is not None
            matcher, read = lent.copy() if uses[source] else lent, old[source].read
            if read > common:
                matcher.rollback(read - common)
                read = common
        if read == common:
            read += _read(matcher, ids[at, common:].tolist())
        return Row(matcher, read, length)

    def _sources(self, ids: Ids) -> list[tuple[int, int]]:
        """Return for each row the row seen last, of its group, that agrees with it for longest, and for how many ids;
        (-1, 0): none.
        """
        count, last = len(ids), self._last
        if last is None or not self._fits(count):
            return [(-1, 0)] * count
        shared = min(last.shape[1], ids.shape[1])
        if len(last) == count and np.array_equal(last[:, :shared], ids[:, :shared]):
            return [(at, shared) for at in range(count)]
        sources = []
        for at in range(count):
            group = self._group(at, count)
            first, end = (len(last) * number // len(self._constraints) for number in (group, group + 1))
            differs = last[first:end, :shared] != ids[at, :shared]
            common = (
                np.where(differs.any(axis=1), differs.argmax(axis=1), shared)
                if shared
                else np.zeros(end - first, np.int64)
            )
            best = int(common.argmax())
            sources.append((first + best, int(common[best])))
        return sources

    def _fits(self, count: int) -> bool:
        return count % len(self._constraints) == 0

    def _group(self, at: int, count: int) -> int:
        """Return the number of a row's constraint.

        Raises: ConstrainedError: the rows cannot be shared out among the constraints.
        """
        if not self._fits(count):
            raise ConstrainedError(
                f"{len(self._constraints)} constraints for {count} rows",
                because="every constraint has as many rows as the others",
                instead="one constraint for each prompt of the batch",
            )
        return at * len(self._constraints) // count


# -- one sequence ------------------------------------------------------------------------------------------------------


_log = logging.getLogger("constrained.sequences")


def masked(scores: npt.NDArray[Any], allowed: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
    """Return scores with -inf for what is not allowed; None: as they are."""
    return scores if allowed is None else np.where(allowed, scores, np.array(-np.inf, scores.dtype))


class OneSequence:
    """A host's processor for one generation at a time; may be used again, with other prompts.

    apply: what sets a host's scores of forbidden tokens to -inf, given them and `allowed`.
    """

    def __init__(
        self, constraint: CompiledGrammar, prompt_length: int | None, max_new_tokens: int | None,
        apply: Callable[[Any, npt.NDArray[np.bool_] | None], Any] = masked,
    ) -> None:
        if not isinstance(constraint, CompiledGrammar):
            raise ConstrainedError(
                f"not a constraint: {type(constraint).__name__}", instead="compile(grammar, vocabulary)"
            )
        self.constraint, self._prompt_length, self._budget = constraint, prompt_length, max_new_tokens
        self._apply = apply
        constraint.matcher(budget=max_new_tokens)  # too few tokens are an error now
        self._bits = np.zeros((1, constraint.vocabulary.words), np.int32)
        self.reset()

    def reset(self) -> None:
        """Say that the next call begins a new generation."""
        self._prompt: npt.NDArray[Any] | None = None
        self._rows = Rows((self.constraint,), (self._budget,))

    def __call__(self, ids: Any, scores: Any) -> Any:
        """Return new scores.  Shapes: ids (length,), the prompt included; scores (…, width)."""
        return self._apply(scores, self.allowed(np.asarray(ids), scores.shape[-1]))

    def _generated(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the row behind the prompt, (1, generated); of a new generation, if the ids belong to no other."""
        prompt = self._prompt
        if prompt is not None and len(ids) >= len(prompt) and np.array_equal(ids[: len(prompt)], prompt):
            generated = ids[None, len(prompt) :]
            if self._rows.continues(generated):
                return generated
        self.reset()
        self._prompt = prompt = ids[: self._prompt_length].copy()
        return ids[None, len(prompt) :]

    def allowed(self, ids: npt.NDArray[Any], width: int) -> npt.NDArray[np.bool_] | None:
        """Return which tokens may come next, (width,) bool; None where the ids, (length,), are not in the language."""
        generated = self._generated(ids)
        try:
            (row,) = self._rows.see(generated)
            if row.left:
                return None
            assert row.matcher is not None
            row.matcher.fill_mask(self._bits)
        except LimitExceeded as error:
            _log.error("a text is ended: %s", error)
            self._bits[:] = 0
        bits = np.unpackbits(self._bits[0].view(np.uint8), bitorder="little").view(np.bool_)
        if not bits.any():  # behind the end, or without a way on: what ends a text here, and not a grammar's turn
            bits[list(self.constraint.vocabulary.stop or self.constraint.stop)] = True
        return bits[:width] if width <= len(bits) else np.pad(bits, (0, width - len(bits)))
