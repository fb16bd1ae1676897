"""For how long does a thread keep the interpreter to itself?

A second thread wants to run again as soon as it has and, whenever it does, reads how much processor time the watched
one has had since: a turn that is handed on in time is worth Python's switch interval, 5 ms, at most a little more.
Processor time, not wall time, so that other load of the machine counts little; and it never sleeps, as on such a
machine it would oversleep, and what it had not asked for would count.  Python's collector stops every thread, whoever
runs; its time is told apart (docs/security.md says what to do about it).
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stretches:
    """What was found, in seconds of processor time."""

    longest = 0.0
    collection = 0.0  # the longest of Python's collections, which is not part of the above


@contextmanager
def watched_stretches() -> Iterator[Stretches]:
    """Watch the thread that runs the block."""
    found, done = Stretches(), threading.Event()
    clock = time.pthread_getcpuclockid(threading.get_ident())
    collected, begun = 0.0, None

    def own() -> float:
        """Return the thread's time without collections; whoever asks between begin and end asks at the end."""
        now = time.clock_gettime(clock)
        return (now if begun is None else begun) - collected

    def note(phase: str, _: object) -> None:
        nonlocal collected, begun
        if phase == "start":
            begun = time.clock_gettime(clock)
        elif begun is not None:
            took, begun = time.clock_gettime(clock) - begun, None
            collected, found.collection = collected + took, max(found.collection, took)

    def watch() -> None:
        before = own()
        while not done.is_set():
            time.sleep(0)
            now = own()
            found.longest, before = max(found.longest, now - before), now

    watcher = threading.Thread(target=watch, daemon=True)
    gc.callbacks.append(note)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()
        gc.callbacks.remove(note)
