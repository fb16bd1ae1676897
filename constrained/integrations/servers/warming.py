"""Work ahead for a server's constraints, in a thread of its own, while the model computes.

    warmer = Warmer()
    warmer.add(constraint)          # of a request that is new; returns at once

What it does is `Constraint.warm`, a few milliseconds at a time, of each constraint in turn and the newest first, and
between two such slices it rests for as long: requests want the interpreter too.  A request that waits for what the
thread holds is let in after a millisecond or two, see `engine.prepare`.

Only memory that constraints share grows, within its bound; a constraint that nobody holds any more is left.  Refused:
several threads, as one kernel works for one thread at a time.

Tested in tests/hosts/test_warming.py; measured by `python -m constrained.benchmarks.ahead`.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from typing import Any
from weakref import WeakSet, ref

from constrained.engine.compiled import CompiledGrammar
from constrained.errors import ConstrainedError, shown

SLICE = 0.003  # seconds of work at a time
_open: WeakSet[Warmer] = WeakSet()


class Warmer:
    """A thread that warms constraints; it begins with the first one and ends with `close`, or the process.

    share: part of the time in which it works, 0 < share <= 1.  seconds: most that it works for one constraint.
    Threads: safe.  Processes: the child of a fork has none until its first `add`.
    Raises: ConstrainedError: share or seconds are no numbers in these ranges.
    """

    def __init__(self, *, share: float = 0.5, seconds: float = 1.0) -> None:
        numbers = all(type(value) in (int, float) for value in (share, seconds))
        if not numbers or not 0 < share <= 1 or not seconds > 0:
            raise ConstrainedError(
                f"a Warmer with share {shown(share)} and seconds {shown(seconds)}",
                because="it works for a share of the time, and so many seconds for each constraint",
                instead="Warmer(share=0.5, seconds=1.0)",
            )
        self._rest, self._seconds = (1 - share) / share, seconds
        self._begin()
        _open.add(self)

    def _begin(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._todo: deque[tuple[ref[CompiledGrammar], float]] = deque()  # newest first, and the seconds left to each
        self._thread: threading.Thread | None = None
        self._working, self._closed = False, False

    def add(self, constraint: CompiledGrammar) -> None:
        """Warm a constraint, as soon as the one that is worked for has had its turn.

        Raises: ConstrainedError: it is no constraint, or the warmer is closed.
        """
        if not isinstance(constraint, CompiledGrammar):
            raise ConstrainedError(f"not a constraint: {shown(constraint)}", instead="compile(grammar, vocabulary)")
        if self._process != os.getpid():
            self._begin()
        with self._changed:
            if self._closed:
                raise ConstrainedError("the warmer is closed")
            self._todo.appendleft((ref(constraint), self._seconds))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="constrained-warmer", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to do; say whether it is so."""
        if self._process != os.getpid():
            return True
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or not (self._todo or self._working), timeout)

    def close(self) -> None:
        """End the thread, after the slice that it is at; what was learned stays."""
        if self._process != os.getpid():
            return
        with self._changed:
            self._closed, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def __enter__(self) -> Warmer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            constraint, left = taken
            began = time.monotonic()
            if constraint is not None and _goes_on(constraint):
                left -= time.monotonic() - began
                if left > 0:
                    with self._changed:
                        self._todo.append((ref(constraint), left))
            del constraint, taken  # nobody is kept alive here
            with self._changed:
                self._working = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closed, (time.monotonic() - began) * self._rest)

    def _take(self) -> tuple[CompiledGrammar | None, float] | None:
        """Return whose turn it is, once there is one; None where there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._todo)
            if self._closed:
                return None
            self._working = True
            constraint, left = self._todo.popleft()
            return constraint(), left


def _goes_on(constraint: CompiledGrammar) -> bool:
    """Warm a constraint for a slice; say whether there may be more to do."""
    end = time.monotonic() + SLICE
    try:
        constraint.warm(SLICE)
    except Exception:  # what cannot be made now may be made by the request that needs it, or refused to it
        return False
    return time.monotonic() >= end


@atexit.register
def _close_all() -> None:
    for warmer in list(_open):
        warmer.close()
