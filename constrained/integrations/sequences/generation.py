"""One call of transformers' `generate`: where its prompts end, the matchers of its rows, what ends them, what is left.

Tests: tests/hosts/test_transformers_rows.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import LogitsProcessorList, StoppingCriteria

from constrained.engine.compiled import CompiledGrammar
from constrained.engine.matcher import Matcher, fill_masks
from constrained.errors import ConstrainedError, NothingAllowed
from constrained.integrations.sequences.rows import Ids, Row, Rows


class Generation:
    """What is known about one call of `generate`: where the prompts end, and the matchers of its rows."""

    def __init__(
        self, constraints: Sequence[CompiledGrammar | None], budgets: Sequence[int | None], prompts: Ids, length: int,
        processors: LogitsProcessorList | None,
    ) -> None:
        self.length = length
        self.prompts = {row.tobytes() for row in prompts[:, : self.length]}
        self.stop = frozenset(
            token for constraint in constraints if constraint is not None for token in constraint.stop
        )
        self.behind: Collection[int] = self.stop  # ids that may come behind the end
        self.unchecked: Emptiness | None = None
        self._list = None if processors is None else weakref.ref(processors)
        self._rows = Rows(constraints, budgets)
        self._shown: tuple[Ids, Ids] | None = None  # ids and their view behind the prompts that `Rows` was asked about
        self._appender: weakref.ref[LogitsProcessorList] | None = None  # what showed the rows last, and only appends

    def is_running(self) -> bool:
        """Say whether the list of processors that started this generation still exists."""
        return self._list is not None and self._list() is not None

    def continues(self, ids: Ids) -> bool:
        """Say whether every row is a prompt of this generation with what its rows said last, or with one token more."""
        if ids.shape[1] < self.length or any(row[: self.length].tobytes() not in self.prompts for row in ids):
            return False
        self._shown = ids, ids[:, self.length :]
        return self._rows.continues(self._shown[1])

    def check(self) -> None:
        """Raise NothingAllowed where the step before left a row without a token, if nobody has looked yet."""
        if self.unchecked is not None:
            left, self.unchecked = self.unchecked, None
            left.check()

    def rows(self, ids: Ids, appender: LogitsProcessorList | None = None) -> list[Row]:
        """Return the state of every row.  appender: the list of processors that shows them, where its host does nothing
        but append to them.
        """
        if ids.shape[1] < self.length:
            raise ConstrainedError(
                f"a sequence of {ids.shape[1]} tokens is shorter than its prompt",
                because=f"prompt_length is {self.length}",
                instead="count padding, leave out what comes after the prompt",
            )
        self._appender = None if appender is None else weakref.ref(appender)
        shown, self._shown = self._shown, None
        return self._rows.see(shown[1] if shown is not None and shown[0] is ids else ids[:, self.length :])

    def grown(self, input_ids: torch.Tensor, appender: LogitsProcessorList) -> list[Row] | None:
        """Return the state of every row where nobody has shown others since `appender` did, which has one id a row more
        now; None: look at all of them.

        Cost: one id a row is copied to the CPU and read, however long they are.
        """
        count, length = input_ids.shape
        known = self._appender is not None and self._appender() is appender
        if not known or self._rows.seen() != (count, length - self.length - 1):
            return None
        last = input_ids.numpy()[:, -1] if input_ids.device.type == "cpu" else input_ids[:, -1].cpu().numpy()
        return self._rows.append(last)


class WordEnd(StoppingCriteria):  # type: ignore[misc]  # a host's class
    """Says which rows have ended, for a `generate` that does not know all stop tokens of a vocabulary and a grammar."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        ids: Ids = input_ids.detach().cpu().numpy()
        ended = np.zeros(len(ids), np.bool_)
        if np.isin(ids[:, -1], [*self._generation.stop, *self._generation.behind]).any():
            ended[:] = [row.ended for row in self._generation.rows(ids)]
        return torch.from_numpy(ended).to(input_ids.device)


class Emptiness:
    """Which rows have no token left, looked at when it costs nothing."""

    def __init__(self, some: Sequence[bool] | torch.Tensor, rows: list[Row]) -> None:
        self._some = some  # for each row whether a token is left
        self._seen = [(None if row.left else row.matcher, row.read) for row in rows]

    def check(self) -> None:
        """Raise NothingAllowed for the first row that has none, unless it is one that the grammar does not rule."""
        some = self._some.tolist() if isinstance(self._some, torch.Tensor) else self._some
        for at, (matcher, read) in enumerate(self._seen):
            if not some[at] and matcher is not None and not matcher.is_finished():
                raise _nothing_allowed(at, matcher, read)


def _nothing_allowed(row: int, matcher: Matcher, read: int) -> NothingAllowed:
    matcher = matcher.copy()
    matcher.rollback(len(matcher.tokens) - read)
    count = int(np.bitwise_count(filled([matcher], matcher.constraint.vocabulary.words).view(np.uint32)).sum())
    if count:
        because = f"the grammar allows {count} tokens here, and the logits of all of them are -inf"
        instead = (
            "look for what forbids them: bad_words_ids, suppress_tokens, min_length, forced tokens, another processor"
        )
    elif matcher.is_accepting():
        because, instead = (
            "the text is complete, and the vocabulary has no stop token",
            "Vocabulary.from_tokenizer(…, stop=[…])",
        )
    else:
        because = "no token of the vocabulary spells what the grammar wants here"
        instead = "a tokenizer with a token for every byte and for the grammar's special tokens"
    where = f"row {row}, after {read} generated tokens"
    return NothingAllowed("no token is left to generate", where=where, because=because, instead=instead)


def filled(matchers: list[Matcher], words: int) -> npt.NDArray[np.int32]:
    """Return the masks of some matchers, (matchers, words) int32."""
    bitmask = np.zeros((len(matchers), words), np.int32)
    if matchers:
        fill_masks(matchers, bitmask)
    return bitmask
