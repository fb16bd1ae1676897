"""The JSON-Schema-Test-Suite through the real engine: nothing wrong, and a list of refusals that may only shrink.

The suite is read where `CONSTRAINED_SHARED` names the folder that has it; what the engine makes of it is in
`benchmarks.json_schema_suite`.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest
from constrained.benchmarks import json_schema_suite as suite
from constrained.benchmarks.json_schema_suite import ACCEPTED, REFUSED, REJECTED, RIGHT, Outcome

FOLDER = suite.folder()
DRAFTS = ("draft7", "draft2019-09", "draft2020-12")
PARTINGS = tomllib.loads((Path(__file__).parent / "corpus" / "json_schema_suite_refusals.toml").read_text("utf-8"))[
    "parting"
]

needs_suite = pytest.mark.skipif(
    FOLDER is None, reason=f"{suite.VARIABLE} does not name a folder with data/json_schema_test_suite"
)


@pytest.fixture(scope="module", params=DRAFTS)
def outcomes(request) -> list[Outcome]:
    assert FOLDER is not None
    if not (FOLDER / "tests" / request.param).is_dir():
        pytest.skip(f"the suite has no {request.param}")
    return [
        outcome
        for group in suite.groups(FOLDER, request.param)
        for outcome in suite.check(group, suite.documents(FOLDER))
    ]


@needs_suite
def test_what_is_not_right_is_listed_with_its_reason(outcomes):
    draft = outcomes[0].group.draft
    listed = {
        (entry["verdict"], f"{draft}/{entry['file']}", entry["group"], test)
        for entry in PARTINGS if draft in entry["drafts"] for test in entry.get("tests", ["every"])}
    found = {
        (
            outcome.verdict,
            outcome.group.file,
            outcome.group.description,
            "every" if outcome.verdict == REFUSED else outcome.test,
        )
        for outcome in outcomes
        if outcome.verdict != RIGHT
    }
    assert not found - listed, "not right and not in the list"
    assert not listed - found, "in the list and right: remove it there"


@needs_suite
def test_no_verdict_of_the_required_part_is_wrong_and_few_are_refused(outcomes):
    counts = Counter(outcome.verdict for outcome in outcomes if outcome.group.part == "required")
    assert counts[ACCEPTED] == counts[REJECTED] == 0
    assert counts[RIGHT] >= 0.95 * counts.total() > 800


@needs_suite
def test_formats_are_right_and_never_too_wide(outcomes):
    counts = Counter(outcome.verdict for outcome in outcomes if outcome.group.part == "format")
    assert counts[ACCEPTED] == 0
    assert counts[RIGHT] >= 0.95 * counts.total() > 600


@needs_suite
def test_every_refusal_names_its_keyword(outcomes):
    for outcome in outcomes:
        if outcome.verdict == REFUSED:
            assert outcome.reason.startswith("cannot compile "), outcome


def test_every_parting_has_a_reason():
    assert all(entry["reason"] and entry["verdict"] in (REFUSED, ACCEPTED, REJECTED) for entry in PARTINGS)
    assert not any(entry["verdict"] == ACCEPTED and entry["file"].count("/") != 1 for entry in PARTINGS), (
        "required, or a format"
    )
