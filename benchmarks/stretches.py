"""For how long does a thread keep the interpreter to itself?

Other threads want to run again as soon as they have and, whenever one does, read how much processor time the watched
one has had since: a turn that is handed on in time is worth Python's switch interval, 5 ms, at most a little more.
Processor time, not wall time, so that other load of the machine counts little; several threads that never sleep, as on
such a machine one is late in asking, and what was not asked for would count.  Python's collector stops every thread,
whoever runs; its time is told apart (docs/security.md says what to do about it).
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

WATCHERS = 4


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
        nonlocal before
        while not done.is_set():
            time.sleep(0)
            now = own()
            found.longest, before = max(found.longest, now - before), now

    before = own()
    watchers = [threading.Thread(target=watch, daemon=True) for _ in range(WATCHERS)]
    gc.callbacks.append(note)
    for watcher in watchers:
        watcher.start()
    try:
        yield found
    finally:
        done.set()
        for watcher in watchers:
            watcher.join()
        gc.callbacks.remove(note)
