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

from constrained.engine.batch import fill_masks
from constrained.engine.constraint import Constraint
from constrained.engine.matcher import Matcher
from constrained.errors import ConstrainedError, NothingAllowed
from constrained.integrations.sequences.rows import Ids, Row, Rows


class Generation:
    """What is known about one call of `generate`: where the prompts end, and the matchers of its rows."""

    def __init__(
        self, constraints: Sequence[Constraint | None], budgets: Sequence[int | None], prompts: Ids, length: int,
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

    def is_running(self) -> bool:
        """Say whether the list of processors that started this generation still exists."""
        return self._list is not None and self._list() is not None

    def continues(self, ids: Ids) -> bool:
        """Say whether every row is one that was asked about, or such a row and one token."""
        if ids.shape[1] < self.length or any(row[: self.length].tobytes() not in self.prompts for row in ids):
            return False
        return self._rows.continues(ids[:, self.length :])

    def rows(self, ids: Ids) -> list[Row]:
        """Return the state of every row."""
        if ids.shape[1] < self.length:
            raise ConstrainedError(
                f"a sequence of {ids.shape[1]} tokens is shorter than its prompt",
                because=f"prompt_length is {self.length}",
                instead="count padding, leave out what comes after the prompt",
            )
        return self._rows.see(ids[:, self.length :])


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

    def __init__(self, best: torch.Tensor, rows: list[Row]) -> None:
        self._best = best  # (rows,) the highest score left
        self._seen = [(row.matcher, row.read) for row in rows]

    def check(self) -> None:
        """Raise NothingAllowed for the first row that has none, unless it is one that the grammar does not rule."""
        for at, best in enumerate(self._best.tolist()):
            matcher, read = self._seen[at]
            if best == float("-inf") and matcher is not None and not matcher.is_finished():
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
