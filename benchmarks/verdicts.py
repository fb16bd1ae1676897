"""Is each verdict of a collection of schemas right, and how long does the slowest position take?

    python -m constrained.benchmarks.verdicts maskbench.jsonl.gz [--vocabulary bytes] [--slice 1/6] [--record FILE]

The file has a line of JSON for each schema: id, schema, tests (data, valid), as MaskBench has them.  Each test is read
in tokens of Llama 3's vocabulary, or byte by byte, each against its mask; a valid one must be taken whole and may end
there, an invalid one may not.  Nothing is kept from one schema to the next but what belongs to the vocabulary.

The record has a line for each schema: what it was refused for, or each verdict ("right", "takes", "refuses", or an
error's message), and milliseconds of processor of the compile, the slowest mask and the slowest advance.

Cost: six minutes of processor for the 11,305 schemas of MaskBench.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import thread_time_ns
from typing import Any

from constrained import ConstrainedError, Vocabulary

from . import vocabularies
from .cases import Case
from .collection import rows_of
from .engines import Ours
from .json_schema_suite import bytes_vocabulary

RIGHT = "right"
_SLOW = {"compile": 100, "mask": 5, "advance": 5}  # milliseconds from which on it is printed


def check(engine: Ours, vocabulary: Vocabulary, row: dict[str, Any]) -> dict[str, Any]:
    """Return the line of the record of a schema."""
    engine.forget()
    found: dict[str, Any] = {"id": row["id"]}
    started = thread_time_ns()
    try:
        compiled = engine.compile(Case(row["id"], row["schema"]))
    except ConstrainedError as error:
        return {**found, "compile": _since(started), "refused": str(error)}
    finally:
        found["compile"] = _since(started)
    found |= {"mask": 0.0, "advance": 0.0, "verdicts": []}
    for test in row["tests"]:
        text = json.dumps(test["data"], ensure_ascii=False).encode("utf-8", "surrogatepass")
        try:
            taken = _reads(engine, compiled, vocabulary.tokenize(text), found)
            found["verdicts"].append(RIGHT if taken is test["valid"] else "takes" if taken else "refuses")
        except ConstrainedError as error:
            found["verdicts"].append(str(error))
    return found


def _reads(engine: Ours, compiled: Any, tokens: Sequence[int], found: dict[str, Any]) -> bool:
    """Say whether a text is taken; note the slowest mask and advance."""
    matcher = engine.start(compiled)
    for token in tokens:
        started = thread_time_ns()
        engine.mask(matcher)
        found["mask"] = max(found["mask"], _since(started))
        if not engine.allows(token):
            return False
        started = thread_time_ns()
        engine.advance(matcher, token)
        found["advance"] = max(found["advance"], _since(started))
    return bool(matcher.is_accepting())


def _since(started: int) -> float:
    return round((thread_time_ns() - started) / 1e6, 3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the schemas, print what is wrong, refused or slow; return 1 where anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--vocabulary", choices=("bytes", "llama3"), default="llama3")
    parser.add_argument("--slice", default="1/1", help="K/N: each N-th schema from the K-th on")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args(arguments)
    first, step = map(int, options.slice.split("/"))
    real = vocabularies.llama3() if options.vocabulary == "llama3" else None
    vocabulary = real or bytes_vocabulary()
    engine, counts = Ours(vocabulary), Counter[str]()
    record = options.record.open("w", encoding="utf-8") if options.record else None
    rows = rows_of(options.file)[first - 1 :: step]
    gc.freeze()  # what was read is not looked through again and again
    for row in rows:
        gc.collect()
        gc.disable()
        with warnings.catch_warnings(action="ignore"):
            found = check(engine, vocabulary, row)
        gc.enable()
        verdicts = enumerate(found.get("verdicts", ()))
        wrong = [f"test {number}: {verdict}" for number, verdict in verdicts if verdict != RIGHT]
        counts["schemas"] += 1
        counts["refused" if "refused" in found else "wrong" if wrong else RIGHT] += 1
        slow = {name: found[name] for name, most in _SLOW.items() if found.get(name, 0) > most}
        counts["slow"] += bool(slow)
        said = [found["refused"]] if "refused" in found else wrong
        if said or slow:
            print(row["id"], *([slow] if slow else []), *said, sep="\n  ", flush=True)
        if record:
            print(json.dumps(found), file=record, flush=True)
    print(dict(counts))
    return bool(counts["wrong"])


if __name__ == "__main__":
    sys.exit(main())
