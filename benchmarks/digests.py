"""Do two versions of the package have the same masks?

    python -m constrained.benchmarks.digests --out before.jsonl     # with the one
    python -m constrained.benchmarks.digests --against before.jsonl # with the other

Walks draw tokens from the masks, by a seed of the case: a first byte and then a token, so that rare ways are taken as
often as common ones.  Where all masks are the same, so are the tokens; a position is written down as the hash of its
mask, whether the text may end there, and the token that was drawn.  Schemas, all chat formats and Lark grammars take
turns until there are enough positions.

Reports the first position of each case at which the versions part; exit code 1 if there is one.
Cost: 20,000 positions on the vocabulary of Llama 3, half a minute of one core.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from constrained import ChatFormat, ConstrainedError, Constraint, Grammar, Vocabulary, compile

from . import vocabularies
from .cases import schema_cases
from .tool_sets import tool_sets

LARK = {
    "arithmetic": 'start: sum\nsum: product (("+" | "-") product)*\nproduct: atom (("*" | "/") atom)*\n'
    'atom: /[0-9]+/ | "(" sum ")"\n',
    "ambiguous": 'start: e\ne: e e | e "a" e | "a" | "b" e? "ab"\n',
    "words": 'start: line+\nline: NAME "=" value ";" "\\n"?\n'
    'value: NAME | /"[^"\\n]*"/ | "[" (value ("," value)*)? "]"\n'
    "NAME: /[a-z_][a-z0-9_]{0,8}/\n%ignore / +/\n",
}
Case = tuple[str, Callable[[], Grammar]]
MOST = 40  # positions of a walk


def cases(schemas: Path | None) -> Iterator[Case]:
    """Return names and grammars, kinds by turns."""
    kinds = [list(_schemas(schemas)), list(_formats()), list(_lark())]
    for number in range(max(map(len, kinds))):
        for kind in kinds:
            yield kind[number % len(kind)]


def _schema(name: str, schema: Any) -> Case:
    return f"schema {name}", lambda: Grammar.from_json_schema(schema)


def _schemas(path: Path | None) -> Iterator[Case]:
    if path is None:
        for case in schema_cases():
            yield _schema(case.name, case.schema)
        return
    with (gzip.open(path, "rt") if path.suffix == ".gz" else path.open()) as file:
        for line in file:
            row = json.loads(line)
            yield _schema(row["id"], row["schema"])


def _formats() -> Iterator[Case]:
    for name in ChatFormat.names():
        for kind, wanted in tool_sets(name).items():
            yield f"format {name}, {kind}", partial(ChatFormat.load(name).grammar, wanted.tools)


def _lark() -> Iterator[Case]:
    for name, text in LARK.items():
        yield f"lark {name}", partial(Grammar.from_lark, text)


def walk(constraint: Constraint, seed: str, most: int) -> list[list[Any]]:
    """Return [hash of the mask, may the text end, token] for each position of a walk."""
    vocabulary, matcher, picks = constraint.vocabulary, constraint.matcher(), random.Random(seed)
    row, first = np.zeros((1, vocabulary.words), np.int32), _first_bytes(vocabulary)
    found: list[list[Any]] = []
    while len(found) < most and not matcher.is_finished():
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        going = allowed[~np.isin(allowed, vocabulary.stop)]
        token = -1
        if len(going):
            byte = picks.choice(np.unique(first[going]).tolist())
            token = picks.choice(going[first[going] == byte].tolist())
        found.append([blake2b(row.tobytes(), digest_size=8).hexdigest(), matcher.is_accepting(), token])
        if token < 0:
            break
        matcher.advance(token)
    return found


def _first_bytes(vocabulary: Vocabulary) -> Any:
    """Return the first byte of each token, 256 for special ones, as (size,) int."""
    return np.array([text[0] if text else 256 for text in vocabulary.tokens])


def positions(vocabulary: Vocabulary, schemas: Path | None, wanted: int) -> Iterator[dict[str, Any]]:
    """Walk the cases again and again until there are enough positions."""
    done, turn, listed = 0, 0, list(cases(schemas))
    while done < wanted:
        for name, make in listed:
            found = _walked(name, make, turn, vocabulary, wanted - done)
            done += len(found["positions"])
            yield found
            if done >= wanted:
                break
        turn += 1


def again(vocabulary: Vocabulary, schemas: Path | None, before: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Walk the cases of other walks; what has become a case since then is left out."""
    known = dict(cases(schemas))
    for row in before:
        most = len(row["positions"]) if row is before[-1] else MOST
        yield _walked(row["case"], known[row["case"]], row["turn"], vocabulary, most)


def _walked(name: str, make: Callable[[], Grammar], turn: int, vocabulary: Vocabulary, most: int) -> dict[str, Any]:
    try:
        found = walk(compile(make(), vocabulary), f"{name} {turn}", min(most, MOST))
    except ConstrainedError as error:
        found = [[type(error).__name__, False, -1]]
    return {"case": name, "turn": turn, "positions": found}


def differences(before: list[dict[str, Any]], now: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Say where two lists of walks part."""
    for old, new in zip(before, now, strict=True):
        pairs = list(zip(old["positions"], new["positions"]))
        at = next((at for at, (one, other) in enumerate(pairs) if one != other), len(pairs))
        if old != new:
            yield f"{new['case']}, walk {new['turn']}: position {at} of {len(pairs)}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="where to write the walks")
    parser.add_argument("--against", type=Path, help="walks to compare with")
    parser.add_argument("--schemas", type=Path, help='JSON lines {"id", "schema"}; otherwise benchmarks.cases')
    parser.add_argument("--positions", type=int, default=20_000)
    options = parser.parse_args(arguments)
    before: list[dict[str, Any]] = []
    if options.against:
        before = [json.loads(line) for line in options.against.read_text(encoding="utf-8").splitlines()]
    kinds = dict.fromkeys(row["case"].partition(",")[0].partition(" ")[::2] for row in before)
    formats = tuple(name for kind, name in kinds if kind == "format")  # the ids of their tokens are those of then
    vocabulary = vocabularies.llama3(formats) or vocabularies.embedded()
    walks = again(vocabulary, options.schemas, before) if before else None
    found = list(walks or positions(vocabulary, options.schemas, options.positions))
    if options.out:
        options.out.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    print(f"{sum(len(row['positions']) for row in found):,} positions of {len({row['case'] for row in found}):,} cases")
    parted: list[str] = []
    if options.against:
        parted = list(differences(before, iter(found)))
        print("\n".join([*parted[:20], f"{len(parted):,} walks differ"]))
    return 1 if parted else 0


if __name__ == "__main__":
    sys.exit(main())
