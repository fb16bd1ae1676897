"""What does a generation feel of masks that are new, where a `Warmer` works while the model computes?

    python -m constrained.benchmarks.ahead [--tools 50] [--step 10] [--prefill 100] [--share 0.5]

A request brings tools that nobody has seen, in each format; a model that computes elsewhere needs `prefill`
milliseconds before the first token and `step` for each further one.  Timed is each mask: at first sight of the formats,
which fills what belongs to the vocabulary, then alone, then with a warmer; on a busy machine in processor time of the
thread, and what it waited for the interpreter and the processor beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

from constrained import Vocabulary
from constrained.integrations.servers import Warmer

from . import vocabularies
from .cases import Case, format_cases, text_of
from .engines import Ours


def timed(
    engine: Ours, case: Case, tokens: Sequence[int], warmer: Warmer | None, prefill: float, step: float
) -> list[tuple[float, float]]:
    """Return (processor time, waiting time) of each mask of a request, in microseconds."""
    engine.forget()
    compiled = engine.compile(case)
    if warmer is not None:
        warmer.add(compiled)
    matcher, found = engine.start(compiled), []
    for number, token in enumerate(tokens):
        time.sleep(step if number else prefill)
        wall, own = time.perf_counter_ns(), time.thread_time_ns()
        engine.mask(matcher)
        own = time.thread_time_ns() - own
        found.append((own / 1e3, (time.perf_counter_ns() - wall - own) / 1e3))
        engine.advance(matcher, token)
    return found


def shown(times: Sequence[tuple[float, float]]) -> str:
    """Return the percentiles of some masks."""
    own, waited = np.array(times).T
    parts = [f"p{share:g} {np.percentile(own, share):,.0f}" for share in (50, 90, 99, 99.9, 100)]
    rest = [f"p{share:g} {np.percentile(waited, share):,.0f}" for share in (50, 99)]
    return f"{' '.join(parts)} µs; waited {' '.join(rest)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=50, choices=(1, 5, 50))
    parser.add_argument("--formats", default="", help="only formats with this in their names")
    parser.add_argument("--step", type=float, default=10, help="milliseconds that the model computes for a token")
    parser.add_argument("--prefill", type=float, default=100, help="and for the prompt")
    parser.add_argument("--share", type=float, default=0.5)
    arguments = parser.parse_args()
    vocabulary: Vocabulary = vocabularies.llama3() or vocabularies.embedded()
    engine = Ours(vocabulary)
    wanted = f", {arguments.tools} tool"
    cases = [case for case in format_cases() if wanted in case.name and arguments.formats in case.name]
    waits = arguments.prefill / 1e3, arguments.step / 1e3
    helped = Warmer(share=arguments.share)
    for way, warmer, (prefill, step) in (
        ("at first sight", None, (0.0, 0.0)), ("alone", None, waits), ("warmed", helped, waits)
    ):
        slowest: list[tuple[float, str]] = []
        times: list[tuple[float, float]] = []
        for case in cases:
            tokens = vocabularies.encode(vocabulary, text_of(case))[:-1]
            found = timed(engine, case, tokens, warmer, prefill, step)
            times += found
            slowest.append((max(own for own, _ in found), case.name))
        print(f"{way}: {len(times)} masks, {shown(times)}")
        print("   slowest:", ", ".join(f"{name} {own / 1e3:.1f} ms" for own, name in sorted(slowest)[:-9:-1]))


if __name__ == "__main__":
    main()
