"""How many units of work is a second of one core, by kind of work?  One unit should be about a microsecond.

    python -m constrained.benchmarks.calibration [--record FOLDER]

Each kind of work is done by a few heavy rows of the bomb table, each in a forked process; what an input of no size
costs is taken off.  Printed and recorded are units and seconds of processor time per input, and million units a second
per kind (the median of its inputs): 1 is exact, and a kind between 0.5 and 2 lets the default budget stand for about a
second.  What is refused before it is begun looks too fast: a list is charged by its length, for instance.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from constrained import Vocabulary

from . import bombs, vocabularies
from .bomb_inputs import Bomb, read
from .speed import default_record, machine

LEAST = 20_000  # units; less says nothing
KINDS: dict[str, tuple[str, ...]] = {
    "reading schemas": (
        "attack/$defs 10^5", "attack/10^4 anchors", "value/properties 10**5", "attack/10^5 descriptions",
        "document/references in a chain of 20000",
    ),
    "normalising": (
        "structure/allOf of 200 multipleOf", "structure/enum of 100000 numbers",
        "structure/anyOf of 2000 ranges", "attack/not enum of 300 objects", "structure/oneOf of 10000 const",
        "attack/allOf of two enums of 3000 objects", "structure/not anyOf of 500 ranges",
    ),
    "combining": (
        "attack/oneOf of 200 arrays of ranges", "attack/if then else tower of 100 below",
        "attack/if inside if of 40", "attack/oneOf tower of 40", "issue/oneOf 100 multiples",
        "structure/if then else chain of 300",
    ),
    "satisfiability": (
        "attack/a pigeonhole of 8", "attack/a formula in clauses of three",
        "attack/dependentRequired in a circle of 1000", "structure/object, not enum of 80 objects",
    ),
    "machines of values": (
        "attack/enum of 20000 of all types", "attack/enum of 3000 nested objects",
        "attack/oneOf of 3000 tagged objects", "attack/anyOf of 3000 open objects",
        "attack/contains of 12 open objects", "attack/not enum of 1000 arrays",
    ),
    "languages of keys": (
        "attack/patternProperties of 20 like a.*b", "issue/50 patternProperties",
        "attack/patternProperties that nest", "issue/eight overlapping keys",
    ),
    "reading patterns": (
        "pattern/100,000 braces", "pattern/100,000 properties",
        "attack/a literal of 10^6 characters as a pattern", "pattern/10,000 loops",
    ),
    "derivatives": (
        "pattern/26 aheads", "pattern/allOf of 20 lengths", "pattern/three classes of words",
        "issue/any a any{100} of Python", "attack/30 patterns with maxLength",
    ),
    "masks": (
        "issue/letters and others counted", "pattern/letters counted twice", "attack/200 ranges of 400 digits",
        "structure/multipleOf 7**200", "attack/Unicode properties",
    ),
    "reading Lark": (
        "lark/10^4 alternatives", "lark/a chain of %extend", "lark/10^4 alternatives of rules",
    ),
    "lowering Lark": (
        "lark/3,000 rules", "lark/200 overlapping ignored terminals",
        "lark/200 overlapping terminals",
    ),
}


def measured(vocabulary: Vocabulary) -> list[dict[str, object]]:
    """Return a row for each input."""
    table = {bomb.id: bomb for bomb in read()}
    nothing = bombs.run(Bomb("nothing", "schema", {"const": 1}, "works"), vocabulary)
    rows: list[dict[str, object]] = []
    for kind, names in KINDS.items():
        for name in names:
            found = bombs.run(table[name], vocabulary)
            units, seconds = max(found.work - nothing.work, 0), max(found.seconds - nothing.seconds, 0.001)
            speed = units / seconds / 1e6
            rows.append({
                "kind": kind, "input": name, "outcome": found.outcome, "units": units, "seconds": round(seconds, 3),
                "million units a second": round(speed, 2),
            })
            print(
                f"{kind:<20} {name:<56} {found.outcome:<12} {units:>9,} u {seconds:5.2f} s {speed:5.2f} M/s", flush=True
            )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a kind is off by more than 2."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", type=Path, default=default_record())
    options = parser.parse_args(arguments)
    vocabulary, name = vocabularies.llama3(), "Llama 3"
    if vocabulary is None:
        vocabulary, name = vocabularies.embedded(), "embedded (llama-models is not installed)"
    _ = vocabulary.trie
    gc.freeze()
    rows = measured(vocabulary)
    off = 0
    for kind in KINDS:
        heavy = [row for row in rows if row["kind"] == kind and int(str(row["units"])) >= LEAST]
        speeds = [float(str(row["million units a second"])) for row in heavy]
        middle = median(speeds) if speeds else 0.0
        off += not 0.5 <= middle <= 2
        print(f"{kind:<20} {middle:6.2f} million units a second{'' if 0.5 <= middle <= 2 else '  OFF'}", flush=True)
    if options.record is not None:
        meta = machine(name, vocabulary, [])
        stamp = meta["date"].replace(":", "").replace("+0000", "Z")
        options.record.mkdir(parents=True, exist_ok=True)
        lines = "\n".join(map(json.dumps, [meta, *rows])) + "\n"
        (options.record / f"calibration-{stamp}.jsonl").write_text(lines, encoding="utf-8")
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main())
