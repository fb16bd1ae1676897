"""What is left of text languages whose texts are used up, against lists of all their texts."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from constrained.regex import ANY_TEXT, Expr, complement, intersect, literals, matches, parse_ecma, union
from constrained.schema.machines import text as texts_module
from constrained.schema.machines.text import never_runs_dry, scarce_from, without_dead_ends

LONGEST = 7
FINITE = ["[ab]", "[ab]{1,2}", "a|b[ab]", "[ab]{0,3}", "a{1,7}", "", "abab?|[ab]b{0,4}", "(a|ab)(b|ba)?"]
INFINITE = ["a|b.*", "a(ba*)?", "(aa)*", "[ab]*", "b{2}|(ab)+", "a|(ba|bb)*a"]


def language(pattern: str) -> Expr:
    return parse_ecma(f"^(?:{pattern})$")


def texts(pattern: str) -> list[str]:
    """Return the texts over "ab" with up to LONGEST characters; all others of the patterns above are longer."""
    found = ("".join(text) for length in range(LONGEST + 1) for text in itertools.product("ab", repeat=length))
    return [text for text in found if re.fullmatch(pattern, text)]


@pytest.mark.parametrize("pattern", FINITE)
@pytest.mark.parametrize("few", [0, 1, 3, 7])  # as it rounds up to such numbers
def test_scarce_from_is_the_least_depth(pattern, few):
    behind = {}
    for text in texts(pattern):
        for depth in range(len(text) + 1):
            behind[text[:depth]] = behind.get(text[:depth], 0) + 1
    expected = min((len(prefix) for prefix, number in behind.items() if number <= few), default=None)
    assert scarce_from(language(pattern), few) == expected


@pytest.mark.parametrize(
    ("pattern", "few", "expected"),
    [
        ("a|b.*", 0, None),
        ("a|b.*", 1, 1),
        ("a(ba*)?", 5, None),
        ("[ab]*", 1000, None),
        ("b{2}|(ab)+", 1, 1),
        (".{1,40}", 15, 40),
        (".{1,40}", 1_000, 40),
        ("a{30}", 1, 0),
        ("a{5000}", 1, 0),
        ("[ab]{40}.{5000}", 3, 100),
    ],
)
def test_scarce_from_of_many_texts(pattern, few, expected):
    assert scarce_from(language(pattern), few) == expected


def test_what_every_text_goes_on_to_never_runs_dry():
    """However many states it has."""
    assert never_runs_dry(complement(language("[a-z]{1,255}")))
    assert not never_runs_dry(language("[a-z]{1,255}"))


@pytest.mark.parametrize(
    ("pattern", "endless"),
    [
        *((pattern, False) for pattern in FINITE),
        ("a*", True), ("a*b", False), ("a+|b+", True), ("a+|b", False), ("a+|", True), ("x(-[a-z]{1,8})+", True),
        ("a*(b+)?", True), ("a*b?", False), ("(ab)*(x(-a{1,8})+)?", True), ("(a+){2,3}", True), ("(a+b){2,3}", False),
        ("(a|b+){0,2}", False), ("a{3,}", True), ("(a*b)*", True), ("ab(c|d+)*", True), ("(a|bc*)", False),
        ("([a-z]{2,3}|x)(-[A-Z]{4})?(-[a-z]{2})?(-[0-9a-z]{5,8})*(-u(-[a-z]{2,8})+)*(-x(-[a-z]{1,8})+)?", True),
    ],
)  # fmt: skip
def test_what_never_runs_dry(pattern, endless):
    found = language(pattern)
    assert never_runs_dry(found) is (found.universal or endless)


SETS = [
    ["a"], ["a", "ab"], ["", "a", "ab", "abc"], ["GET", "HEAD", "PATCH", "POST", "PUT"], ["x", "y", "z"],
    ["ab", "abc", "abd", "b"], ["Android", "iOS", "iOSSimulator"], [f"{number:02}" for number in range(24)],
]  # fmt: skip


@pytest.mark.parametrize("listed", SETS, ids=str)
def test_a_few_texts_are_looked_at_where_others_are_walked(listed):
    found, walked = literals(listed), union(*map(parse_text, listed), parse_ecma("^never$"))
    walked = intersect(walked, complement(parse_ecma("^never$")))
    for few in (0, 1, 3, 7, 15, 31):
        assert texts_module._first_scarce(found, few) == texts_module._first_scarce(walked, few), few
    for size in range(3):
        for used in map(frozenset, itertools.combinations([*listed, "other"], size)):
            left, expected = (without_dead_ends(one, used) for one in (found, walked))
            assert (left is None) is (expected is None)
            accepted = [text for text in listed if left is not None and matches(left, text)]
            assert accepted == [text for text in listed if expected is not None and matches(expected, text)]


def parse_text(text: str) -> Expr:
    return parse_ecma(f"^{re.escape(text)}$")


def test_nothing_is_scarce_in_any_text():
    assert scarce_from(ANY_TEXT, 10**9) is None


@pytest.mark.parametrize(
    "counts",
    ["{1,255}", "{1}", "{2,9}", "{99}", "{0,99}", "{0,100}", "{3,101}", "*", "+", "{98,}", "{99,}", "{100,}", "{101,}"],
)
@pytest.mark.parametrize("few", [0, 1, 3, 7])
def test_scarce_from_of_counted_characters_is_what_a_search_finds(counts, few):
    for characters in ("[a-c]", "[a-g]", "[a-h]", "[ab]", "[\\s\\S]", "[^a]", "x"):
        counted = language(characters + counts)
        assert counted.counted is not None or counts == "*" and characters == "[\\s\\S]"
        searched = texts_module._first_scarce(counted, few)
        assert texts_module._scarce_from(counted, few) == searched, (characters, counts, few)


@pytest.mark.parametrize("pattern", [*FINITE, *INFINITE])
def test_without_dead_ends_is_what_can_go_on(pattern):
    """What is left has every unused text, and behind each prefix that is alive there is an unused text."""
    everything, picks = texts(pattern), random.Random(pattern)
    for size in range(min(6, len(everything)) + 1):
        used = frozenset(picks.sample([text for text in everything if len(text) <= 4], min(size, 3))) | {
            "c",
            "\ud800",
            "aaaaaaaab",
        }
        left = without_dead_ends(language(pattern), used)
        unused = [text for text in everything if text not in used]
        kept = [text for text in everything if left is not None and matches(left, text)]
        assert set(unused) <= set(kept)
        for text in kept:
            longer = any(other.startswith(text) for other in unused)
            assert longer or pattern in INFINITE and len(text) > 3, (pattern, used, text)
        assert left is not None or not unused


def test_languages_stay_as_they_are_where_more_goes_on():
    words = language(".{1,40}")
    assert without_dead_ends(words, frozenset({"red", "green", "x" * 39})) is words
    assert not matches(without_dead_ends(words, frozenset({"red", "x" * 40})), "x" * 40)
    assert without_dead_ends(ANY_TEXT, frozenset({"", "a"})) is ANY_TEXT
