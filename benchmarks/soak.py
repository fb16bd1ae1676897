"""Does a process that serves strangers for an hour stay as it was after ten minutes?

    python -m constrained.benchmarks.soak --minutes 60 [--seed 1] [--rate 10] [--record]

Several tenants hold live constraints over one vocabulary.  In turn, each brings a schema or a set of tools that nobody
has seen, compiles it, and walks some sequences of tokens that the masks allow, steered to an end.  Every minute a line
says how much memory the process has and how long calls took: compiling, the first mask of a state, masks that were
known, a token.  At the end a verdict: memory and times from the tenth minute on (or the last two thirds of a shorter
run), and errors.  Times are wall time; on a busy machine read them beside its load.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import random
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import constrained
from constrained import ChatFormat, Constraint, Grammar, Vocabulary, caches, compile
from constrained.errors import ConstrainedError, LimitExceeded, SchemaError

from . import vocabularies
from .stranger import schema, tools

TENANTS = 16  # constraints alive at a time
FORMATS = ("hermes", "llama3.1", "mistral-v3", "qwen3-coder")
# of a histogram: seconds where it begins, two per cent a bucket, up to 2,000 s
SHORTEST, WIDTH, BUCKETS = 1e-8, 0.02, 1300
STEADY = 0.05  # memory may differ by from the tenth minute on, up and down


class Times:
    """How long calls of one kind took in a minute: a histogram, because a list of millions of numbers would be what
    grows.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(BUCKETS, np.int64)

    def add(self, seconds: float) -> None:
        """Count a call."""
        bucket = int(math.log(max(seconds, SHORTEST) / SHORTEST) / WIDTH)
        self.counts[min(bucket, BUCKETS - 1)] += 1

    def percentiles(self) -> list[float]:
        """Return p50, p99 and p99.9 in microseconds, each the middle of a bucket; 0 where nothing was counted."""
        total, sums = int(self.counts.sum()), np.cumsum(self.counts)
        at = [int(np.searchsorted(sums, share * total)) for share in (0.5, 0.99, 0.999)]
        return [round(1e6 * SHORTEST * math.exp((bucket + 0.5) * WIDTH), 1) if total else 0.0 for bucket in at]


@dataclass
class Minute:
    """What happened in a minute."""

    at: float
    compiled: Times = field(default_factory=Times)
    first: Times = field(default_factory=Times)
    known: Times = field(default_factory=Times)
    advanced: Times = field(default_factory=Times)
    schemas: int = 0
    tokens: int = 0
    refused: int = 0
    errors: list[str] = field(default_factory=list)

    def row(self, total: int) -> dict[str, Any]:
        return {
            "minute": round(self.at, 2),
            "rss_mb": round(rss() / 1e6, 1),
            "schemas": total,
            "tokens": self.tokens,
            "refused": self.refused,
            "errors": len(self.errors),
            "load": round(os.getloadavg()[0], 1),
            "compile_us": self.compiled.percentiles(),
            "first_us": self.first.percentiles(),
            "known_us": self.known.percentiles(),
            "advance_us": self.advanced.percentiles(),
        }


def rss() -> int:
    """Return the bytes of memory that the process has; the most it had where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def grammars(seed: int) -> Iterator[Grammar | None]:
    """Yield grammars without end, all different; None where a schema was refused."""
    draw, serial = random.Random(seed), 0
    formats = [name for name in FORMATS if name in ChatFormat.names()]
    while True:
        serial += 1
        try:
            if draw.random() < 0.25:
                yield ChatFormat.load(draw.choice(formats)).grammar(tools(draw, serial))
            else:
                yield Grammar.from_json_schema(schema(draw, serial))
        except (SchemaError, LimitExceeded):
            yield None


def walk(constraint: Constraint, draw: random.Random, minute: Minute) -> None:
    """Read 30 to 100 tokens that the masks allow, each mask once fresh and once known."""
    matcher, vocabulary = constraint.matcher(), constraint.vocabulary
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    for _ in range(draw.randint(30, 100)):
        begun = time.perf_counter()
        matcher.fill_mask(bitmask)
        between = time.perf_counter()
        matcher.fill_mask(bitmask)
        minute.first.add(between - begun)
        minute.known.add(time.perf_counter() - between)
        words = np.flatnonzero(bitmask)
        if not len(words):
            minute.errors.append("no token is allowed")
            return
        token = _drawn(bitmask, words, draw)
        begun = time.perf_counter()
        matcher.advance(token)
        minute.advanced.add(time.perf_counter() - begun)
        minute.tokens += 1
        if matcher.is_finished():
            return


def _drawn(bitmask: Any, words: Any, draw: random.Random) -> int:
    """Return an allowed token: low ids more often than others, as these are short and texts end sooner with them."""
    word = int(words[min(draw.randrange(len(words)) for _ in range(2))])
    bits = int(bitmask[0, word]) & 0xFFFFFFFF
    return 32 * word + draw.choice([bit for bit in range(32) if bits >> bit & 1])


def serve(
    grammar: Grammar, vocabulary: Vocabulary, draw: random.Random, tenants: deque[Constraint], minute: Minute
) -> None:
    """Compile a grammar for one tenant; let it and another one walk."""
    begun = time.perf_counter()
    try:
        constraint = compile(grammar, vocabulary)
        minute.compiled.add(time.perf_counter() - begun)
        tenants.append(constraint)
        for walker in (constraint, draw.choice(tenants)):
            walk(walker, draw, minute)
    except LimitExceeded:
        minute.refused += 1
    except ConstrainedError as error:
        minute.errors.append(f"{type(error).__name__}: {error.what}")
    except Exception as error:  # an hour is not to end by what it is to find
        minute.errors.append(f"{type(error).__name__}: {error}")


def soak(vocabulary: Vocabulary, minutes: float, seed: int, rate: float) -> Iterator[dict[str, Any]]:
    """Yield a row per minute; of `rate` requests a second, as many as the machine can serve."""
    draw, tenants, start = random.Random(seed), deque[Constraint](maxlen=TENANTS), time.monotonic()
    minute = Minute(0.0)
    for total, grammar in enumerate(grammars(seed), 1):
        if grammar is None:
            minute.refused += 1
        else:
            serve(grammar, vocabulary, draw, tenants, minute)
        time.sleep(max(0.0, start + total / rate - time.monotonic()))
        at = (time.monotonic() - start) / 60
        if at >= minute.at + min(1.0, minutes / 10):
            minute.at = at
            for error in minute.errors[:3]:
                print("  " + error[:300])
            held = {"held_mb": round(vocabulary.kernels.held() / 1e6, 1), "caches_mb": round(caches.held() / 1e6, 1)}
            yield minute.row(total) | held
            minute = Minute(at)
        if at >= minutes:
            return


def verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Say whether memory and times stayed as they were."""
    settled = [row for row in rows if row["minute"] >= min(10.0, rows[-1]["minute"] / 3)] or rows
    memory = [row["rss_mb"] for row in settled]
    middle = (max(memory) + min(memory)) / 2
    first = [row["first_us"][1] for row in settled]
    return {
        "rss_min_mb": min(memory),
        "rss_max_mb": max(memory),
        "spread": round((max(memory) - min(memory)) / 2 / middle, 3),
        "flat": (max(memory) - min(memory)) / 2 <= STEADY * middle,
        "first_p99_early_us": float(np.median(first[: max(1, len(first) // 3)])),
        "first_p99_late_us": float(np.median(first[-max(1, len(first) // 3) :])),
        "schemas": rows[-1]["schemas"],
        "tokens": sum(row["tokens"] for row in rows),
        "refused": sum(row["refused"] for row in rows),
        "errors": sum(row["errors"] for row in rows),
    }


def main() -> None:
    """Print a line per minute and the verdict; exit with 1 if there were errors or memory grew."""
    parser = argparse.ArgumentParser(prog="constrained.benchmarks.soak", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--rate", type=float, default=math.inf, help="requests a second; by default all that the machine can serve"
    )
    parser.add_argument("--record", action="store_true", help="write a dated record beside this module")
    options = parser.parse_args()
    vocabulary = vocabularies.llama3() or vocabularies.embedded()
    gc.collect()
    now = datetime.now(UTC)
    head = {
        "date": now.isoformat(timespec="seconds"),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "constrained": constrained.__version__,
        "vocabulary": vocabulary.size,
        "minutes": options.minutes,
        "seed": options.seed,
        "rate": options.rate if math.isfinite(options.rate) else None,
    }
    rows = []
    for row in soak(vocabulary, options.minutes, options.seed, options.rate):
        print(json.dumps(row), flush=True)
        rows.append(row)
    found = verdict(rows)
    print(json.dumps(found))
    if options.record:
        path = Path(__file__).parent / "record" / f"soak-{now:%Y-%m-%dT%H%M%SZ}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in (head, *rows, found)), encoding="utf-8")
    sys.exit(0 if found["flat"] and not found["errors"] else 1)


if __name__ == "__main__":
    main()
