r"""Patterns that grow: bounded work, bounded depth, and the shortcuts that let most of them work, against their
definitions.
"""

from __future__ import annotations

import functools
import itertools
import re
import shutil
import string

import pytest
from fuzz import ecma_patterns, patterns

from constrained import Grammar, LimitExceeded, regex
from constrained.regex import complement, intersect, parse_ecma, parse_python, repeat
from constrained.regex.expr import ANY, single, step
from constrained.regex.facts import universal_over, universal_up_to
from constrained.work import Budget, metered, working_on

WORDS = [f"w{number * 7919 % 100_000:05}" for number in range(5_000)]
AHEADS = "^" + "".join(f"(?=.*{letter})" for letter in string.ascii_lowercase) + ".*$"
# pattern, units of work that suffice to read it and 12 characters of a text
CHEAP = [
    (AHEADS, 60_000),
    (r"^(\p{L}{1,1000}\P{L}*){1,50}$", 250_000),
    ("^.*a.{500}$", 20_000),
    ("^(a|a)*(a|aa)*b$", 2_000),
    ("^((a{1,100}){1,100}){1,100}$", 2_000),
    ("^((a{2,100}b){2,100}c){2,100}$", 3_000),
    ("^(a?){500}a{500}$", 10_000),
    ("^[^x]{0,5000}y[^x]{100,5000}$", 20_000),
    ("^(?:" + "|".join(WORDS) + ")$", 100_000),
    ("^((a{0,100000}b){0,100000}c){0,100000}$", 3_000),
    ("(" * 140 + "a" + ")*" * 140, 3_000),
    ("^" + "".join(f"(?!.*{letter})" for letter in "abcdefghij") + ".*$", 20_000),
]


@pytest.mark.parametrize(("pattern", "units"), CHEAP, ids=lambda value: str(value)[:30])
def test_these_patterns_are_cheap(pattern, units):
    with metered(Budget(units)):
        language = parse_ecma.__wrapped__(pattern)
        assert not regex.is_empty(language)
        for _ in range(12):
            if not language.edges():
                break
            language = language.edges()[0][2]


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 100_000 + "a" + ")" * 100_000,
        "(a?b)" * 200_000,
        "ab?c" * 250_000,
        "(?i)" + "ab-z" * 250_000,
        "".join(f".*(?<=.{{{number}}}{letter})" for number, letter in enumerate(string.ascii_lowercase)),
        r"(?:\bx?)" * 3000,
    ],
    ids=lambda pattern: pattern[:20],
)
def test_these_patterns_are_refused_in_time(pattern):
    for parse in (parse_ecma, parse_python):
        with metered(Budget(300_000)), working_on("#/pattern"), pytest.raises(LimitExceeded) as caught:
            language = parse(pattern)
            for _ in range(100):
                language = language.edges()[0][2]
        assert len(str(caught.value)) < 2000
        assert caught.value.where


def test_expressions_nest_no_deeper_than_recursion_goes():
    language = regex.literal("a")
    with pytest.raises(LimitExceeded, match="inside each other"):
        for letter in itertools.cycle("bc"):
            language = regex.optional(
                regex.concat(language, regex.repeat(regex.literal(letter), 2), regex.literal("d"))
            )


def test_the_text_of_an_expression_is_cut_while_it_is_written():
    language = regex.literal("a")
    for _ in range(60):  # as a tree it has 2**60 leaves
        language = regex.complement(regex.concat(language, regex.literal("b"), language))
    assert len(repr(language)) <= 202


UNIVERSAL = [
    "^(?=.*a)(?=.*b)[ab]*$",
    "^[ab]*a[ab]{2}$",
    "^(?!.*b)[ab]*$",
    "^[ab]*$",
    "^(?=[ab]*ba)[ab]*$",
    "^(?:a|[ab]*b)$",
    "^[ab]*(?:a|c)$",
    "a.*b",
    "^(?=.*a)[ab]*b$",
    "^(?:[ab]*a|c)$",
    "^(?!aa$)[ab]*$",
    "^(?=.*c)[ab]*$",
    "^(?=.*a{2,3}b?)(?=.*b)[ab]*$",
]


def test_a_lasting_language_forbids_no_character_of_its_class():
    """Of C: every text over it goes on to one of the language, and nothing else does; where it is denied, nothing is
    claimed.
    """
    claimed = 0
    for pattern in UNIVERSAL:
        language = parse_ecma(pattern)
        found = universal_over(language)
        claimed += found is not None
        if found is None:
            continue
        inside = "".join(char for char in "abc" if regex.matches(found, char))
        for size in range(5):
            for text in map("".join, itertools.product("abc", repeat=size)):
                goes_on = any(
                    regex.matches(language, text + "".join(more))
                    for long in range(6)
                    for more in itertools.product("abc", repeat=long)
                )
                assert goes_on is (set(text) <= set(inside)), (pattern, text)
    assert claimed >= 7


ROOMY = {  # how many characters any text may have, at least
    "^(?=.*a)(?=.*b)[ab]{1,5}$": 3,
    "^(?=.*aba)[ab]{0,5}$": 2,
    "^(?=.*a.*a)[ab]{3,5}$": 3,
    "^(?=.*b|.*aa)(?=.*a)[ab]{0,4}$": None,
    "^(?!b*$)(?=.*b)[ab]{0,4}$": 2,
    "^(?=.*c)[ab]{0,4}$": None,
    "^(?=.*a$)[ab]{0,4}$": None,
    "^(?=.*a)[ab]{0,1}$": 0,
    "^(?!(?!.*aa)b*$)(?=.*b)[ab]{0,5}$": 3,
    "^(?!(?!a)[^a]*$)(?=.*b)[ab]{0,4}$": 2,
    "^(?!(?=.*c|b*$)[ab]*$)[ab]{0,4}$": None,
    "^(?=(?:a|b.*a.*)?$|.*b.*$)[ab]{0,4}$": 3,
}


@pytest.mark.parametrize("pattern", ROOMY)
def test_a_bounded_language_forbids_no_text_for_which_it_has_room(pattern):
    language = parse_ecma(pattern)
    assert universal_up_to(language) == ROOMY[pattern]
    for size in range((ROOMY[pattern] or -1) + 1):
        for text in map("".join, itertools.product("ab", repeat=size)):
            assert any(
                regex.matches(language, text + "".join(more))
                for long in range(6)
                for more in itertools.product("ab", repeat=long)
            ), (pattern, text)


UNLESS_DIGITS = complement(intersect(parse_ecma("^[^a-c|]*$"), complement(parse_ecma("[0-9]{2}"))))
LONG = intersect(*map(parse_ecma, ("^([a-z][0-9])+$", "^((c1d3g3).{4,8}){6}", "(t|8){10}$")), repeat(ANY, 1000))


def bounded(most):
    conditions = [parse_ecma(pattern) for pattern in ("[aA][12].*[zZ]", "^....$|ab1|b12|bc1|c12", "1.*2|ac|a2")]
    return intersect(*conditions, UNLESS_DIGITS, repeat(ANY, most // 2, most))


def test_conditions_are_read_once_for_all_bounds_on_the_length():
    """128,000 units for 1,209 states; 214,000 where each count overlays the conditions."""
    level = [bounded(16)]
    seen = set(level)
    with metered(Budget(160_000)):
        for state in level:
            new = {target for _, _, target in state.edges()} - seen
            seen |= new
            level += new
    assert len(seen) > 1_000


def test_the_length_of_one_text_answers_for_other_bounds():
    assert [regex.is_empty(bounded(most)) for most in reversed(range(16))] == [False] * 12 + [True] * 4
    assert regex.example(bounded(4)) == "a12Z"


TOGETHER = ["ab1", "b12", "bc1", "c12", "ca1", "a12", "z"]


def holding(texts: list[str], most: int) -> regex.Expr:
    """Return the texts of at most so many letters and digits that hold all of some texts."""
    return intersect(regex.repeat(parse_python("[a-z0-9]"), 0, most), *map(parse_ecma, texts))


@pytest.mark.parametrize("texts", [TOGETHER[:size] for size in range(2, 8)])
def test_what_holds_many_texts_has_the_length_that_they_need_together(texts):
    def joined(text: str, other: str) -> str:
        return text + other[next(n for n in range(len(other), -1, -1) if text.endswith(other[:n])) :]

    shortest = min(len(functools.reduce(joined, order)) for order in itertools.permutations(texts))
    with metered(Budget(100_000)):
        for most in range(2 * len(texts) + 5):
            assert regex.is_empty(holding(texts, most)) is (most < shortest), most


def test_a_complement_of_complements_is_an_intersection():
    one, other, third = map(parse_ecma, ("a1", "b2", "c3"))
    assert complement(regex.union(complement(one), complement(other), third)) is intersect(one, other, complement(third))


@pytest.mark.parametrize(
    ("ask", "units"),
    [
        (lambda: regex.is_empty(LONG), 16_000),
        (lambda: regex.is_finite(complement(parse_ecma("^[a-z]{1,255}$"))), 140),
    ],
    ids=["a loop along what a search has found", "nothing is finite that any text is the start of"],
)
def test_questions_that_the_structure_answers(ask, units):
    with metered(Budget(units)):
        assert not ask()


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:a{1,3}b*){1,3}",
        "(?:a{2,3}b?){2,4}",
        "(?:(?:a{1,2}b*){1,2}a?){0,2}",
        "(?:a{0,2}b{1,2}){1,3}|a{2}(?:a{1,3}b*){1,2}",
    ],
)
def test_alike_repeats_are_dropped_only_where_wider_ones_stay(pattern):
    language = parse_python(pattern)
    for size in range(10):
        for text in map("".join, itertools.product("ab", repeat=size)):
            assert regex.matches(language, text) is bool(re.fullmatch(pattern, text)), text


def test_nested_repeats_have_few_members():
    language = parse_python("(?:a{1,1000}b*){1,50}")
    for _ in range(40):
        language = step(language, ord("a"))
        assert len(language.args) <= 3


def test_a_seeded_slice_of_random_patterns():
    outcomes = patterns.run(120, seed=7)
    assert set(outcomes) <= {"read", "wrong", "limit"}
    assert outcomes["read"] > 100
    assert outcomes["wrong"] > 30


def test_a_pattern_that_grows_in_a_grammar_names_itself():
    with pytest.raises(LimitExceeded) as caught:
        Grammar.from_regex("(" * 100_000 + "a" + ")" * 100_000)
    assert "pattern" in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_a_class_stays_a_class_under_a_million_members():
    assert single(parse_ecma("^[" + "ab-z" * 20_000 + "]$")) == ((97, 122),)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_random_patterns_of_ecma_are_read_as_by_javascript():
    outcomes = ecma_patterns.run(300, seed=7)
    assert outcomes["same"] > 150


@pytest.mark.parametrize(
    ("repeated", "other", "met"),
    [
        ("[ab]{2,5}", "[bc]{3,9}", "b{3,5}"),
        ("[ab]{2,5}", "[cd]{1,9}", r"(?!)"),
        ("(?:ab){0,3}", "(?:ab){0,3}|x", "(?:ab){0,3}"),
        ("[ab]{0,3}", "[ab]{0,3}|(?:xy){1,9}", "[ab]{0,3}"),
        (r"[\s\S]{0,9}", "(?:ab){0,3}", "(?:ab){0,3}"),
        (r"[\s\S]{0,2}", "(?:abc|abcd)(?:xy){0,9}", r"(?!)"),
    ],
)
def test_a_repetition_meets_others_in_a_normal_form(repeated, other, met):
    for both in itertools.permutations([parse_python(repeated), parse_python(other)]):
        assert intersect(*both) is parse_python(met)


COUNTED = [
    "a", "[ab]", "[ab]{3}", "[ab]{0,2}", "a?[ab]{2}b?", "(a|aa)(a|aa)", "(ab|ba){2}", "[ab]?[ab]?", "a{0,3}", "(a|b|ab)", "a{2,4}b",
    "(a?){3}", "([ab]a?){2}", "", "(aa|ab|b)[ab]", "(a{0,2}b{0,2}){0,1}", "((ab)?a){1,2}", "(a[ab]){0,2}", "(b|aab|abb|ba)", "(a|b|ab|ba){2}",
]  # fmt: skip


def test_what_is_left_of_some_texts_without_others_is_known():
    for one, other in itertools.product(COUNTED, repeat=2):
        expr, outside = parse_python(one), complement(parse_python(other))
        left = [text for size in range(9) for text in map("".join, itertools.product("ab", repeat=size))
                if re.fullmatch(one, text) and not re.fullmatch(other, text)]  # fmt: skip
        assert regex.is_empty(intersect(expr, outside)) is (not left)


@pytest.mark.parametrize("pattern", [
    "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", "^(ab|abc)*$", "^([a-c]{3})*x?$",
])  # fmt: skip
def test_a_bound_on_the_length_is_searched_once_for_all_places_in_a_text(pattern):
    """Each character asks for the rest with one fewer; a search of the whole length for each took 1,300,000 units."""
    state = intersect(parse_ecma(pattern), repeat(ANY, 1000, 1001))
    with metered(budget := Budget(100_000)):
        for _ in range(300):
            state = next(target for _, _, target in state.edges())
    assert budget.left > 0
    assert state.short <= 701 and not regex.is_empty(state)
