"""Do some tenants' bombs keep others on the same vocabulary waiting?

    python -m constrained.benchmarks.fairness [--bombers 2] [--others 6] [--seconds 20] [--freeze] [--table]

Threads compile patterns that take all the work that a constraint may do, a second each, over and over, no two alike.
Other threads bring new schemas, and ask for masks that are new and masks that are known. What counts is how long a call
takes beyond what it takes alone: each thread's own processor time is taken off the wall time. On a machine with other
load the time stolen by it is waited for as well, so the same is measured first without the bombs, and printed beside
it.  With --table the longest stretch without a turn for other threads is measured as well, in processor time, for each
row of the bomb table (`stretches`); the worst are printed.

Python's collector stops all threads while it looks at every object of the process: 0.3 us each, and here all formats
are loaded, 400,000 objects.  So its full collections are printed as well, in processor time; a wait that is much longer
than the others is one of these.  With --freeze the collector does what docs/security.md asks of servers: it leaves out
what there was before the requests, and its full collections wait for the end of work.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import string
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from constrained import Grammar, Vocabulary, compile, work
from constrained.errors import ConstrainedError

from . import bomb_inputs, bombs, vocabularies
from .stranger import schema


def bomb_of(draw: random.Random) -> str:
    """Return a pattern that is slow, and not known to any cache."""
    letters = "".join(draw.sample(string.ascii_letters, 26))
    return draw.choice(
        [
            "^" + "".join(f"(?=.*{letter})" for letter in letters) + ".*$",
            f"^([{letters}]{{1,1000}}[^{letters}]*){{1,50}}$",
            f".*[{letters[:5]}].{{100}}",
        ]
    )


def explode(vocabulary: Vocabulary, seed: int, done: threading.Event) -> None:
    """Compile and walk bombs until the others are done."""
    bitmask, draw = np.zeros((1, vocabulary.words), np.int32), random.Random(seed)
    while not done.is_set():
        try:
            matcher = compile(
                Grammar.from_json_schema({"type": "string", "pattern": bomb_of(draw)}), vocabulary
            ).matcher()
            for token in vocabulary.tokenize(b'"abcd efgh ijkl'):
                matcher.fill_mask(bitmask)
                matcher.advance(token)
        except ConstrainedError:
            pass


def waited(call: Callable[[], object]) -> float:
    """Return the seconds that a call spent without the processor."""
    wall, own = time.perf_counter(), time.thread_time()
    call()
    return max(0.0, time.perf_counter() - wall - (time.thread_time() - own))


def ask(vocabulary: Vocabulary, seed: int, seconds: float, new: list[float], known: list[float]) -> None:
    """Walk fresh schemas; note how long new and known masks were waited for."""
    draw, end = random.Random(seed), time.monotonic() + seconds
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    while time.monotonic() < end:
        try:
            matcher = compile(Grammar.from_json_schema(schema(draw, draw.randrange(10**9))), vocabulary).matcher()
        except ConstrainedError:
            continue
        for _ in range(40):
            new.append(waited(lambda: matcher.fill_mask(bitmask)))  # noqa: B023  # called at once
            known += [waited(lambda: matcher.fill_mask(bitmask)) for _ in range(5)]  # noqa: B023
            words = np.flatnonzero(bitmask)
            word = int(draw.choice(words))
            matcher.advance(32 * word + (int(bitmask[0, word]) & 0xFFFFFFFF).bit_length() - 1)
            if matcher.is_finished():
                break


@contextmanager
def collections() -> Iterator[list[float]]:
    """Yield the seconds of processor time that each full collection of Python's takes meanwhile."""
    found = list[float]()
    begun = 0.0

    def note(phase: str, information: dict[str, Any]) -> None:
        nonlocal begun
        if phase == "start":
            begun = time.thread_time()
        elif information["generation"] == 2:
            found.append(time.thread_time() - begun)

    gc.callbacks.append(note)
    try:
        yield found
    finally:
        gc.callbacks.remove(note)


def measure(
    vocabulary: Vocabulary, others: int, seconds: float, *, bombers: int, seed: int
) -> tuple[list[float], list[float]]:
    """Return the waits for new and for known masks."""
    new, known, done = list[float](), list[float](), threading.Event()
    threads = [threading.Thread(target=ask, args=(vocabulary, seed + i, seconds, new, known)) for i in range(others)]
    exploding = [threading.Thread(target=explode, args=(vocabulary, number, done)) for number in range(bombers)]
    for thread in [*exploding, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    for thread in exploding:
        thread.join()
    return new, known


def stretches(vocabulary: Vocabulary, count: int | None) -> Iterator[tuple[float, str]]:
    """Yield the longest stretch of each row of the bomb table, or of so many, in seconds."""
    rows = list(bomb_inputs.read())
    for row in rows if count is None else bombs.sample(rows, count, seed=1):
        found = bombs.run(row, vocabulary)
        yield max(found.stretch, found.collection), row.id


def main() -> None:
    """Print percentiles of the waits without and with bombs."""
    parser = argparse.ArgumentParser(
        prog="constrained.benchmarks.fairness", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--bombers", type=int, default=2)
    parser.add_argument("--others", type=int, default=6)
    parser.add_argument("--freeze", action="store_true", help="set Python's collector as a server does")
    parser.add_argument("--table", action="store_true", help="measure stretches over the bomb table")
    parser.add_argument("--sample", type=int, help="so many rows of the table")
    options = parser.parse_args()
    vocabulary = vocabularies.llama3() or vocabularies.embedded()
    if options.freeze:
        work.full_collections.enabled = True
        gc.collect()
        gc.freeze()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; waits in milliseconds: p50, p99, p99.9, longest")
    for bombers in (0, options.bombers):
        title = f"{bombers} bombers"
        with collections() as full:
            waits = measure(vocabulary, options.others, options.seconds, bombers=bombers, seed=7 + bombers)
        for name, found in zip(("new", "known"), waits, strict=True):
            figures = [round(1e3 * float(value), 3) for value in np.percentile(found, (50, 99, 99.9, 100))]
            print(f"{title:12} {name:6} {len(found):8,} masks {figures}")
        print(f"{title:12} {len(full):,} full collections, the longest {1e3 * max(full, default=0):.0f} ms")
    if options.table:
        worst = sorted(stretches(vocabulary, options.sample), reverse=True)
        print(f"stretches of {len(worst):,} rows of the bomb table, the longest of processor time in milliseconds:")
        for seconds, name in worst[:10]:
            print(f"{1e3 * seconds:6.0f}  {name}")


if __name__ == "__main__":
    main()
