"""Is what the laboratory reports a fault of the reader?  A seeded sample of its differences, to be looked at.

Turns are drawn as by `constrained conform` and not shrunk.  Of each reader, format and kind of difference, one after
the other gives one more to the sample, so that the frequent ones do not fill it.

    python -m constrained.benchmarks.false_alarms --reader transformers,vllm@/path/to/python [--sample 50] [-n 120]
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Any

from constrained.conform.laboratory import Difference, Host, Outcome, Search
from constrained.conform.readers import READERS, STREAMS, Unreadable
from constrained.conform.report import verdict

from constrained import ChatFormat


class _All(Search):
    """Every difference of the turns, none shrunk."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.found: list[Difference] = []

    def differences(self, *given: Any) -> list[Difference]:
        found = super().differences(*given)
        self.found += found
        return found

    def kinds(self, *given: Any) -> list[str]:
        super().kinds(*given)
        return []


def groups(readers: list[str], examples: int, seed: int) -> Iterator[list[tuple[str, str, Difference]]]:
    """Yield the differences of each reader, format and kind, in an order of chance."""
    for reader, _, python in (each.partition("@") for each in readers):
        with Host(python or sys.executable) as host:
            for name in READERS[reader][2]:
                try:
                    host.open(reader, ChatFormat.load(name))
                except Unreadable as error:
                    print(f"{reader}, {name}: not read: {error}", file=sys.stderr)
                    continue
                search = _All(ChatFormat.load(name), host, Outcome(name, host.version), reader in STREAMS)
                search.run(examples, seed)
                for kind in sorted({each.kind for each in search.found}):
                    of_kind = [(host.version, name, each) for each in search.found if each.kind == kind]
                    random.Random(f"{reader} {name} {kind} {seed}").shuffle(of_kind)
                    yield of_kind


def main() -> int:
    """Print a sample of differences, numbered."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reader", "-r", default="transformers,mistral-common,llama-models,openai-harmony")
    parser.add_argument("--examples", "-n", type=int, default=120)
    parser.add_argument("--sample", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = list(groups(options.reader.split(","), options.examples, options.seed))
    random.Random(options.seed).shuffle(found)
    drawn = [each for each in chain(*zip_longest(*found)) if each is not None]
    print(f"{len(drawn)} differences of {len(found)} kinds")
    for at, (version, name, each) in enumerate(drawn[: options.sample], 1):
        print(f"{at}. {version}, {name}: {each.kind}; wrong is {verdict(each)}")
        print(f"   turn  {each.text!r} {each.cuts or ''}\n   says  {each.says}\n   found {each.found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
