"""Changes of the specifications' examples: strict readers refuse the forbidden ones, tolerant ones read the harmless.

The table is corpus/mutations.toml: a kind of change, by an expression, for the formats that it is a change in.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from constrained.research.specifications import CANONICAL, examples, found_of

from constrained import ChatFormat, Rejected

TABLE = tomllib.loads((Path(__file__).parent / "corpus" / "mutations.toml").read_text(encoding="utf-8"))
KINDS = TABLE["mutation"]


@cache
def canonical(name):
    return [example for example in examples(name) if found_of(example).form == CANONICAL]


def mutations(kind):
    """Yield (example, the text changed at its first or its last place) of a kind of change."""
    for name in TABLE["formats"][kind["formats"]]:
        for example in canonical(name):
            if example.kind not in kind.get("kinds", (example.kind,)):
                continue
            places = list(re.finditer(kind["find"], example.text))
            for place in dict.fromkeys((*places[:1], *places[-1:])):
                yield example, example.text[: place.start()] + place.expand(kind["put"]) + example.text[place.end() :]


def is_read(example, text, *, strict):
    try:
        ChatFormat.load(example.format).parse(text, example.tools, kind=example.kind, strict=strict, **example.options)
    except Rejected:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS, ids=[f"{kind['formats']}, {kind['id']}" for kind in KINDS])
def test_what_is_forbidden_is_refused_and_what_is_harmless_is_read(kind):
    harmless = kind.get("harmless", False)
    wrong = {}
    for example, text in mutations(kind):
        if is_read(example, text, strict=not harmless) != harmless:
            wrong.setdefault(example.lines, text)
    assert wrong.keys() <= kind.get("but", {}).keys(), wrong
    assert kind.get("but", {}).keys() <= wrong.keys(), "an exception that is none"


def test_there_are_enough_of_both():
    counts = {harmless: sum(len([*mutations(kind)]) for kind in KINDS if kind.get("harmless", False) == harmless)
              for harmless in (False, True)}  # fmt: skip
    assert counts[False] >= 273 and counts[True] >= 97, counts
