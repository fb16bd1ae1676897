"""How much of the JSON-Schema-Test-Suite is right, refused by name, or wrong?

    CONSTRAINED_SHARED=FOLDER python -m constrained.benchmarks.json_schema_suite
        [--refused] [--drafts draft7,draft2020-12] [--vocabulary llama3]

FOLDER/data/json_schema_test_suite is a checkout of https://github.com/json-schema-org/JSON-Schema-Test-Suite.  Every
schema goes the whole way of a generation: schema → machines → constraint over a vocabulary of the 256 bytes; every
instance is then written as JSON, with and without escapes for what is not ASCII, and read byte by byte.  The verdict is
whether the text may end there.

The suite speaks of validators, so two things are said that a user would say otherwise: a schema without ``$schema``
gets its folder's, and ``format`` is an annotation but for the folder ``optional/format``.  A schema that allows no
value is an error here; it rejects everything.

With ``--vocabulary llama3`` the texts are read in tokens of a real vocabulary, each against its mask.

Cost: 16 s for all drafts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from constrained import ConstrainedError, Constraint, Grammar, SchemaError, Vocabulary, compile

from . import vocabularies

VARIABLE = "CONSTRAINED_SHARED"
DIALECTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
PARTS = ("required", "format", "optional")
RIGHT, REFUSED, ACCEPTED, REJECTED = "right", "refused", "accepted though invalid", "rejected though valid"
VERDICTS = (RIGHT, REFUSED, ACCEPTED, REJECTED)


@dataclass(frozen=True, slots=True)
class Group:
    """A schema of the suite with its instances."""

    file: str  # draft7/optional/format/date.json
    description: str
    schema: Any
    tests: tuple[Mapping[str, Any], ...]  # description, data, valid

    @property
    def part(self) -> str:
        return {2: "required", 3: "optional"}.get(self.file.count("/") + 1, "format")

    @property
    def draft(self) -> str:
        return self.file.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one instance."""

    group: Group
    test: str
    verdict: str  # one of VERDICTS
    reason: str = ""  # of a refusal


def folder() -> Path | None:
    """Return where the suite is; None where the environment does not say."""
    shared = os.environ.get(VARIABLE)
    found = Path(shared) / "data" / "json_schema_test_suite" if shared else None
    return found if found is not None and found.is_dir() else None


def groups(suite: Path, draft: str) -> Iterator[Group]:
    """Yield the groups of a draft, file by file."""
    for path in sorted((suite / "tests" / draft).rglob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            yield Group(
                path.relative_to(suite / "tests").as_posix(),
                group["description"],
                group["schema"],
                tuple(group["tests"]),
            )


@lru_cache(maxsize=1)
def documents(suite: Path) -> Mapping[str, Any]:
    """Return the documents that schemas of the suite refer to, by URI."""
    remotes = suite / "remotes"
    paths = sorted(remotes.rglob("*.json"))
    return {
        f"http://localhost:1234/{path.relative_to(remotes).as_posix()}": json.loads(path.read_text("utf-8"))
        for path in paths
    }


@lru_cache(maxsize=1)
def bytes_vocabulary() -> Vocabulary:
    """Return the vocabulary of single bytes."""
    return Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)


def check(group: Group, remotes: Mapping[str, Any], vocabulary: Vocabulary | None = None) -> Iterator[Outcome]:
    """Yield the outcome of each instance of a group; over single bytes unless a vocabulary is given."""
    try:
        constraint = _constraint(group, remotes, vocabulary or bytes_vocabulary())
    except ConstrainedError as error:
        yield from (Outcome(group, test["description"], REFUSED, error.what) for test in group.tests)
        return
    for test in group.tests:
        try:
            accepted = constraint is not None and _accepts(constraint, test["data"])
        except ConstrainedError as error:
            yield Outcome(group, test["description"], REFUSED, error.what)
            continue
        verdict = RIGHT if accepted is test["valid"] else ACCEPTED if accepted else REJECTED
        yield Outcome(group, test["description"], verdict)


def _constraint(group: Group, remotes: Mapping[str, Any], vocabulary: Vocabulary) -> Constraint | None:
    """Return the constraint of a group's schema; None if no value is valid."""
    schema, formats = group.schema, "assert" if group.part == "format" else "annotate"
    if isinstance(schema, dict) and "$schema" not in schema:
        schema = {"$schema": DIALECTS[group.draft], **schema}
    try:
        return compile(Grammar.from_json_schema(schema, formats=formats, documents=remotes), vocabulary)
    except SchemaError as error:
        if error.what == "schema allows no value":
            return None
        raise


def _accepts(constraint: Constraint, value: Any) -> bool:
    """Say whether a value's JSON text is accepted, in each of two spellings."""
    plain, escaped = (
        json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") for ascii_only in (False, True)
    )
    accepted = reads(constraint, escaped)
    if reads(constraint, plain) is not accepted:
        raise AssertionError(
            f"{escaped!r} is {'' if accepted else 'not '}accepted, {plain!r} is{' not' if accepted else ''}"
        )
    return accepted


def reads(constraint: Constraint, text: bytes) -> bool:
    """Say whether a constraint accepts a text; what its masks say of each token is what `accepts` says."""
    matcher = constraint.matcher()
    row = np.zeros((1, constraint.vocabulary.words), np.int32)
    for token in constraint.vocabulary.tokenize(text):
        matcher.fill_mask(row)
        allowed = bool(row[0, token >> 5] >> (token & 31) & 1)
        if matcher.accepts(token) is not allowed:
            raise AssertionError(f"token {token} of {text!r} is {'' if allowed else 'not '}in the mask")
        if not allowed:
            return False
        matcher.advance(token)
    return matcher.is_accepting()


def main() -> int:
    """Check the drafts and print the counts; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--drafts", default="draft7,draft2019-09,draft2020-12")
    parser.add_argument("--refused", action="store_true", help="list refusals as well as wrong verdicts")
    parser.add_argument("--vocabulary", choices=("bytes", "llama3"), default="bytes")
    options = parser.parse_args()
    vocabulary = vocabularies.llama3() if options.vocabulary == "llama3" else None
    suite = folder()
    if suite is None:
        print(f"{VARIABLE} does not name a folder with data/json_schema_test_suite")
        return 2
    wrong = 0
    for draft in options.drafts.split(","):
        outcomes = [outcome for group in groups(suite, draft) for outcome in check(group, documents(suite), vocabulary)]
        for part in PARTS:
            counts = Counter(outcome.verdict for outcome in outcomes if outcome.group.part == part)
            if total := counts.total():
                print(
                    f"{draft}, {part}: {total:,} verdicts, {counts[RIGHT] / total:.1%} right:",
                    *(f"{counts[verdict]} {verdict};" for verdict in VERDICTS),
                )
            wrong += counts[ACCEPTED] + counts[REJECTED]
        for outcome in outcomes:
            if outcome.verdict in (ACCEPTED, REJECTED) or options.refused and outcome.verdict == REFUSED:
                print(f"  {outcome.group.file}: {outcome.group.description}: {outcome.test}: {outcome.verdict}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
