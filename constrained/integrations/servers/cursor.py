"""A matcher for serving engines: answers instead of raising, reads many tokens at once, takes back the end as well.

Whatever goes wrong in one request may not end the engine that serves the others: where a mask or a step takes too much
work, or fails, the request is told to stop, and the log says why; it never goes on without its grammar.

Tested in tests/hosts/test_servers.py, against fresh matchers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from constrained.engine.matcher import Matcher
from constrained.errors import BitmaskError, ConstrainedError, LimitExceeded, Rejected

_log = logging.getLogger("constrained.servers")


def log_end(error: Exception) -> None:
    """Say why a request is ended; with the way there, where it is no error of the package."""
    _log.error("a request is ended: %s", error, exc_info=None if isinstance(error, ConstrainedError) else error)


class Cursor:
    """A cursor of one request.

    stop: the ids at which the engine ends the request, None: those of the vocabulary.  Each may come exactly where the
    text may end; other stop tokens of the vocabulary would not end it, so they come only where nothing else can, or
    where the grammar names them.
    Invariant: `_behind` counts the tokens since the end, which are read and mean nothing.
    """

    def __init__(self, matcher: Matcher, stop: Collection[int] | None = None) -> None:
        self._matcher = matcher
        known = matcher.constraint.stop
        self._stop = frozenset(known if stop is None else stop)
        self._further = self._stop.difference(known)  # ids that end the request and not the text
        self._others = frozenset(matcher.constraint.vocabulary.stop) - self._stop
        self._behind = 0

    @property
    def finished(self) -> bool:
        """Whether a stop token has been read."""
        return self._behind > 0 or self._matcher.is_finished()

    def accept(self, tokens: Sequence[int]) -> bool:
        """Read some tokens, all or, where one may not come, none; what comes behind the end is read and means
        nothing.
        """
        for read, token in enumerate(tokens):
            may_come = None if self.finished else self._advance(token)
            if may_come is False:
                self.rollback(read)
                return False
            if may_come is None:  # behind the end; what cannot be worked out is one too
                self._behind += 1
        return True

    def _advance(self, token: int) -> bool | None:
        """Read a token; say whether it may come, None: it cannot be worked out."""
        try:
            return self._stepped(token)
        except Exception as error:
            log_end(error)
            return None

    def _stepped(self, token: int) -> bool:
        if token in self._others and not self._allows(token):
            return False
        try:
            self._matcher.advance(token)
        except Rejected:
            if token not in self._further or not self._matcher.is_accepting():
                return False
            self._behind = 1
        return True

    def _allows(self, token: int) -> bool:
        row = np.zeros((1, self._matcher.constraint.vocabulary.words), np.uint32)
        self.fill(row, 0)
        return bool(row[0, token >> 5] >> (token & 31) & 1)

    def validate(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens that may come, up to the first that may not; nothing is read.  Negative ids are padding."""
        found: list[int] = []
        for token in tokens:
            if token < 0 or self.finished or not self._advance(token):
                break
            found.append(token)
        self.rollback(len(found))
        return found

    def rollback(self, count: int) -> None:
        """Take back the last tokens, those behind the end included."""
        behind = min(count, self._behind)
        self._behind -= behind
        self._matcher.rollback(count - behind)

    def fill(self, bitmask: Any, row: int) -> None:
        """Write the mask of the next token into a row; behind the end, only stop tokens."""
        if self.finished:
            _only(bitmask, row, self._ends)
            return
        try:
            self._matcher.fill_mask(bitmask, row)
            if self._further or self._others:
                self._stop_here(bitmask, row)
        except BitmaskError:  # the engine's fault, in all rows
            raise
        except Exception as error:
            log_end(error)
            _only(bitmask, row, self._ends)

    @property
    def _ends(self) -> Collection[int]:
        """What ends the request, or, where nothing does, the text."""
        return self._stop or self._matcher.constraint.stop

    def _stop_here(self, bitmask: Any, row: int) -> None:
        """Allow what ends the request where the text may end, and only there, and no other stop token; unless nothing
        else could come.
        """
        words = _words(bitmask, row)
        before = words.copy()
        ends, named = self._matcher.is_accepting(), self._matcher.named_tokens()
        _set(words, self._further if ends else ())
        _clear(words, self._others - named if ends else self._further)
        if not words.any():
            words[:] = before

    def forced(self) -> list[int]:
        """Return tokens that have to come, as far as they can be worked out."""
        try:
            return [] if self.finished else self._matcher.forced_tokens()
        except LimitExceeded:
            return []

    def end(self) -> None:
        """Let nothing come but what ends the request."""
        self._behind += 1

    def copy(self) -> Cursor:
        """Return an independent cursor at the same place."""
        twin = object.__new__(Cursor)
        twin._matcher, twin._behind = self._matcher.copy(), self._behind
        twin._stop, twin._further, twin._others = self._stop, self._further, self._others
        return twin

    def reset(self) -> None:
        """Go back to the start."""
        self._matcher.reset()
        self._behind = 0


def _words(bitmask: Any, row: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    array = bitmask if isinstance(bitmask, np.ndarray) else bitmask.numpy()
    found: np.ndarray[Any, np.dtype[np.uint32]] = array[row].view(np.uint32)
    return found


def _only(bitmask: Any, row: int, tokens: Collection[int]) -> None:
    words = _words(bitmask, row)
    words[:] = 0
    _set(words, tokens)


def _set(words: np.ndarray[Any, np.dtype[np.uint32]], tokens: Collection[int]) -> None:
    for token in tokens:
        if token >> 5 < len(words):
            words[token >> 5] |= np.uint32(1 << (token & 31))


def _clear(words: np.ndarray[Any, np.dtype[np.uint32]], tokens: Collection[int]) -> None:
    for token in tokens:
        if token >> 5 < len(words):
            words[token >> 5] &= ~np.uint32(1 << (token & 31))
