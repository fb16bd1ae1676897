"""How many states patterns have, what is not unrolled, and what bounds a bomb."""

from __future__ import annotations

import re

import pytest

from constrained import caches, regex
from constrained.errors import LimitExceeded
from constrained.regex import expr, parse_ecma, parse_python
from constrained.regex.algebra import complement, intersect, union
from constrained.work import Budget, metered, working_on
from tests.oracles import reachable

# (pattern, states of ours, states of the minimal automaton)
SIZES = [
    (r"(a|b)*abb", 4, 4),
    (r"[a-z]+@[a-z]+\.(com|org)", 10, 10),
    (r'"(?:[^"\\]|\\.)*"', 4, 4),
    (r"(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", 8, 8),
    (r".*foo.*", 6, 4),
    (r"(foo|bar|baz)+", 6, 6),
    (r"[a-z]{1,5}[a-z0-9]{1,5}", 11, 11),
    (r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,6}", 11, 11),
    (r"/\*(.|\n)*?\*/", 5, 5),
    (r"(?:[A-F0-9]{2}:){5}[A-F0-9]{2}", 18, 18),
    (r"(a*b*)*c", 2, 2),
    (r"(?!foo|bar)[a-z]+", 6, 6),
    (r"[0-9]{1,3}(,[0-9]{3})*", 7, 7),
    (r"(a?){10}b", 12, 12),
    (r"(?:(?!</think>).)*</think>", 9, 9),
    (r"\".*?(?<!\\)(\\\\)*?\"", 5, 4),
    (r"([a-z0-9-]+):([a-z0-9\.-]+):([a-z0-9-]+)?:([a-z0-9-]+)", 7, 7),
    (r"(https?|ftp)://[^ /$.?#].[^ ]*", 13, 13),
    (
        r"(([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])\.){3}([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])",
        24,
        24,
    ),
]


def minimal_size(states: list[regex.Expr]) -> int:
    """Count the states of the minimal automaton by Moore's refinement."""
    index = {state: at for at, state in enumerate(states)}
    cuts = sorted({cut for state in states for low, high, _ in state.edges() for cut in (low, high + 1)})
    rows = [
        [next((index[t] for low, high, t in state.edges() if low <= cut <= high), -1) for cut in cuts]
        for state in states
    ]
    groups = [int(state.accepts) for state in states]
    while True:
        known: dict[object, int] = {}
        refined = [
            known.setdefault((groups[at], tuple(groups[t] if t >= 0 else -1 for t in row)), len(known))
            for at, row in enumerate(rows)
        ]
        if len(known) == len(set(groups)):
            return len(known)
        groups = refined


@pytest.mark.parametrize(("pattern", "ours", "minimal"), SIZES, ids=[row[0] for row in SIZES])
def test_number_of_states(pattern, ours, minimal):
    states = reachable(parse_python(pattern), 1000)
    assert (len(states), minimal_size(states)) == (ours, minimal)


def test_counters_are_not_unrolled():
    state = parse_python("[a-z]{1,100000}")
    assert state.counted == (parse_python("[a-z]"), 1, 100000)
    assert state.edges()[0][2].counted == (parse_python("[a-z]"), 0, 99999)
    assert state.mask_key(40) is state.edges()[0][2].edges()[0][2].mask_key(40) or state.mask_key(40) is not None
    assert regex.example(parse_python("(?=.{5000}$)(ab)*")) == "ab" * 2500


def test_length_bounds_dissolve_in_patterns():
    bounded = intersect(parse_ecma("^[a-z][a-z0-9-]*$"), regex.repeat(regex.ANY, 3, 63))
    assert bounded is parse_python("[a-z][a-z0-9-]{2,62}")
    assert intersect(parse_ecma("^x"), regex.repeat(regex.ANY, 0, 500)) is parse_python("x.{0,499}", "s")
    assert not regex.is_empty(intersect(parse_ecma("^(ab|c)*$"), regex.repeat(regex.ANY, 10_000, 10_001)))
def test_what_holds_no_character_of_a_class_is_a_repeat():
    letters, digits = parse_ecma(r"\p{L}"), parse_ecma("[0-9]")
    neither = intersect(complement(union(letters, digits)), regex.repeat(regex.ANY, 0, 40))
    assert neither is parse_ecma(r"^[^\p{L}0-9]{0,40}$")
    assert complement(complement(letters)) is letters
    assert complement(parse_ecma("^[a-z]*$")) is parse_ecma("[^a-z]")
    for text in ("", "ab", "a1b", "a b", "1"):
        among = complement(union(digits, parse_ecma("a.b")))
        assert regex.matches(among, text) == (not re.search("[0-9]|a.b", text))


def test_a_character_that_a_member_lacks_is_seen_at_once():
    """A search would go through all states of both; python's strings are asked this in every state."""
    address = parse_ecma(r"^([a-z]{1,60}\.){1,9}@([a-z0-9-]{1,60}\.){1,9}$")
    with metered(Budget(300)):
        assert regex.is_empty(intersect(address, parse_ecma('"'), parse_ecma("a.*b")))


@pytest.mark.parametrize("parse", [parse_python, parse_ecma])
@pytest.mark.parametrize("pattern", ["(" * 5000 + "a" + ")" * 5000, "a{1,99999999999999999999}"])
def test_bombs_end_in_a_limit(parse, pattern):
    with pytest.raises(LimitExceeded):
        parse(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(a|a)*" * 50, "(((a*)*)*)*", "a?" * 2000, "(?:a{0,1000}){0,1000}", "(?:a|b){100000}", "|".join("abc" * 500)],
)
def test_harmless_bombs_stay_cheap(pattern):
    language = parse_python(pattern)
    assert len(reachable(language, 50)) <= 50


def test_emptiness_is_bounded():
    hard = intersect(parse_python("(a{7})*b"), parse_python("(a{11})+ab"), parse_python("(a{13})+aab"))
    with metered(Budget(500)), working_on("here"), pytest.raises(LimitExceeded, match="too much work at here"):
        regex.is_empty(hard)
    assert not regex.is_empty(hard)


def test_the_table_of_nodes_is_bounded(monkeypatch):
    monkeypatch.setattr(caches, "MOST_BYTES", 100 * expr._EXPRESSION)
    language = parse_python("q{3,500}w")
    assert regex.matches(language, "q" * 400 + "w")
    assert len(expr._expressions.recent) + len(expr._expressions._old) <= 300
    assert regex.repeat(regex.ANY) is regex.ANY_TEXT


def test_lengths_beside_one_concatenation_read_its_factors_once():
    text = parse_ecma("^a*" + "b?c+" * 40 + "d*$")
    least = [parse_ecma(f"^[^]{{{number},}}$") for number in range(100, 300)]
    with metered(Budget(100_000)) as budget:
        for length in least:
            intersect(length, text)
    assert 100_000 - budget.left < 2_500
