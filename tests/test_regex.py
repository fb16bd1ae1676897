"""Regular expressions against three oracles: `re`, a JavaScript engine's recorded verdicts, and sets of all short
texts.

Exhaustion finds what tables miss: every expression up to a size over {a, b} is compared with the set of short texts
that the operators' definitions give.  What an oracle cannot see (liveness of edges, number of states, masks' keys) is
tested as a law on the same patterns.
"""

from __future__ import annotations

import itertools
import json
import pickle
import random
import re
import tomllib
from pathlib import Path

import pytest

from constrained import regex
from constrained.errors import GrammarError
from constrained.regex import ANY_TEXT, char_class, charset, concat, derive, parse_ecma, parse_python
from constrained.regex.algebra import _meet, complement, intersect
from constrained.regex.markers import ESCAPED, Guarded, markers_of
from tests.oracles import reachable

CORPUS = Path(__file__).parent / "corpus"
ECMA = [json.loads(line) for line in (CORPUS / "regex_ecma.jsonl").read_text("utf-8").splitlines()]
PYTHON = tomllib.loads((CORPUS / "regex_python.toml").read_text("utf-8"))["case"]
ERRORS = tomllib.loads((CORPUS / "errors_regex.toml").read_text("utf-8"))["case"]
FLAGS = {"i": re.I, "s": re.S, "m": re.M, "x": re.X, "a": re.A}
SHORT = ["".join(text) for size in range(5) for text in itertools.product("ab-\n", repeat=size)]


def flags_of(letters: str) -> int:
    return sum(FLAGS[letter] for letter in letters)


@pytest.mark.parametrize("row", ECMA, ids=lambda row: row["pattern"])
def test_ecma_agrees_with_a_javascript_engine(row):
    language = parse_ecma(row["pattern"])
    wrong = [text for text in row["yes"] if not regex.matches(language, text)] + [
        text for text in row["no"] if regex.matches(language, text)
    ]
    assert not wrong


@pytest.mark.parametrize("row", PYTHON, ids=lambda row: row["pattern"])
def test_python_agrees_with_re(row):
    language, oracle = (
        parse_python(row["pattern"], row.get("flags", "")),
        re.compile(row["pattern"], flags_of(row.get("flags", ""))),
    )
    assert [t for t in row["texts"] + SHORT if regex.matches(language, t) is not bool(oracle.fullmatch(t))] == []


class Patterns:
    """Random patterns of Python's `re`, assertions in every position."""

    atoms = ("a", "b", "ab", ".", "[ab]", "[^a]", "\n", r"\w", "-", "")
    edges = ("^", "$", r"\b", r"\B", r"\W", r"\A", r"\Z")
    behind = ("a", "b", "ab", "-", "[ab]\n", "^a", "^", "(?<=a)b")

    def __init__(self, seed: int, *, assertions: bool) -> None:
        self.random, self.assertions = random.Random(seed), assertions

    def make(self, depth: int) -> str:
        choose, roll = self.random.choice, self.random.random()
        if depth == 0 or roll < 0.3:
            return choose(self.atoms + self.edges if self.assertions else self.atoms)
        if roll < 0.5:
            return self.make(depth - 1) + self.make(depth - 1)
        if roll < 0.65:
            return f"(?:{self.make(depth - 1)}|{self.make(depth - 1)})"
        if roll < 0.85 or not self.assertions:
            return f"(?:{self.make(depth - 1)})" + choose(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?"])
        kind = choose(["(?=", "(?!", "(?<=", "(?<!"])
        return f"{kind}{choose(self.behind) if '<' in kind else self.make(depth - 1)})"


def generated(seed: int, count: int, *, assertions: bool) -> list[tuple[str, str]]:
    patterns, found = Patterns(seed, assertions=assertions), []
    while len(found) < count:
        pattern, flags = patterns.make(4), patterns.random.choice(["", "m", "s", "ms"])
        try:
            re.compile(pattern, flags_of(flags))
        except re.error:
            continue
        found.append((pattern, flags))
    return found


@pytest.mark.parametrize("assertions", [False, True])
def test_generated_patterns_agree_with_re(assertions):
    chosen = random.Random(0)
    for pattern, flags in generated(17, 150 if assertions else 400, assertions=assertions):
        language, oracle = parse_python(pattern, flags), re.compile(pattern, flags_of(flags))
        for text in chosen.sample(SHORT, 60):
            assert regex.matches(language, text) is bool(oracle.fullmatch(text)), (pattern, flags, text)


# Exhaustive small worlds: every expression up to a size, against sets of texts.

LONGEST = 4
WORLD = ["".join(text) for size in range(LONGEST + 1) for text in itertools.product("ab", repeat=size)]
AB = regex.repeat(regex.char_class([(97, 98)]))


def product(left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
    return frozenset(x + y for x in left for y in right if len(x + y) <= LONGEST)


def power(base: frozenset[str], least: int, most: int | None) -> frozenset[str]:
    found, row = frozenset(), frozenset({""})
    for count in range((LONGEST + least if most is None else most) + 1):
        found = found | row if count >= least else found
        row = product(row, base)
    return found


def small_worlds() -> list[tuple[str, regex.Expr, frozenset[str]]]:
    everything = frozenset(WORLD)
    leaves = [
        ("a", regex.literal("a"), frozenset("a")),
        ("b", regex.literal("b"), frozenset("b")),
        ("ε", regex.EPSILON, frozenset({""})),
    ]
    leaves.append(("ab", regex.literals(["ab", "b"]), frozenset({"ab", "b"})))
    levels = [leaves]
    for _ in range(2):
        below = [item for level in levels for item in level]
        fresh = [(f"¬{n}", intersect(AB, complement(e)), everything - s) for n, e, s in levels[-1]]
        for least, most in ((0, None), (1, None), (0, 1), (2, 2), (1, 3), (2, None)):
            fresh += [
                (f"{n}{{{least},{most}}}", regex.repeat(e, least, most), power(s, least, most))
                for n, e, s in levels[-1]
            ]
        pairs = [(x, y) for x in below for y in below if x in levels[-1] or y in levels[-1]]
        if len(pairs) > 4000:
            pairs = random.Random(3).sample(pairs, 4000)
        for (n, e, s), (m, f, t) in pairs:
            fresh += [(f"({n}·{m})", regex.concat(e, f), product(s, t)), (f"({n}|{m})", regex.union(e, f), s | t)]
            fresh.append((f"({n}&{m})", intersect(e, f), s & t))
        levels.append(fresh)
    return [item for level in levels for item in level]


def test_small_worlds_agree_with_sets_of_texts():
    checked = 0
    for name, language, texts in small_worlds():
        assert {text for text in WORLD if regex.matches(language, text)} == texts, name
        checked += len(WORLD)
    assert checked > 300_000


@pytest.mark.parametrize("pattern", ["^a$", "^.{2}$", "^[ab]b?$", "^(ab)*$", "^.{1,3}$"])
@pytest.mark.parametrize(("least", "most"), [(0, 3), (2, 2), (1, None)])
def test_complements_of_repeated_complements(pattern, least, most):
    """What is left of them behind a character asks for their characters again."""
    inner = parse_python(pattern)
    texts = power(frozenset(text for text in WORLD if not re.match(pattern, text)), least, most)
    left = complement(regex.repeat(complement(inner), least, most))
    assert {text for text in WORLD if regex.matches(left, text)} == frozenset(WORLD) - texts
    assert regex.is_empty(left) is (regex.example(left) is None)


def test_emptiness_and_finiteness_in_small_worlds():
    for name, language, texts in small_worlds()[::7]:
        shortest = regex.example(language)
        assert (shortest is None) is regex.is_empty(language), name
        if shortest is not None and len(shortest) <= LONGEST:
            assert shortest in texts, name
            assert len(shortest) == min(map(len, texts)), name
        else:
            assert not texts, name
        for alike in (language, regex.union(intersect(language, complement(regex.literal("a"))), language)):
            assert regex.is_empty(intersect(alike, regex.repeat(regex.ANY, 1000))) is regex.is_finite(alike), name


# Laws of the automaton.

LAWS = [parse_python(pattern, flags) for pattern, flags in generated(5, 60, assertions=True)]
LAWS += [parse_ecma(row["pattern"]) for row in ECMA[:120]]


def test_edges_are_sorted_disjoint_live_and_without_surrogates():
    for start in LAWS:
        for state in reachable(start, 30):
            at = -1
            for low, high, target in state.edges():
                assert at < low <= high <= 0x10FFFF
                assert high < 0xD800 or low > 0xDFFF
                assert not regex.is_empty(target)
                at = high


SURROGATES = (0, 0xD7FE, 0xD7FF, 0xD800, 0xD801, 0xDBFF, 0xDC00, 0xDFFF, 0xE000, 0xE001, 0x10FFFF)


def test_a_set_of_characters_has_no_surrogates_and_loses_nothing_else():
    ranges = list(itertools.combinations_with_replacement(SURROGATES, 2))
    for one, other in itertools.product(ranges, repeat=2):
        found = charset.normal([one] if one == other else [one, other])
        for point in SURROGATES:
            wanted = any(low <= point <= high for low, high in (one, other)) and not 0xD800 <= point <= 0xDFFF
            assert any(low <= point <= high for low, high in found) == wanted or 0xD800 <= point <= 0xDFFF
        assert all(before + 1 < low for (_, before), (low, _) in itertools.pairwise(found))


def test_a_union_of_empty_languages_is_empty():
    """Each is found empty only by a search."""
    empty = [
        regex.intersect(parse_python(f"({letter * 7})+"), parse_python(f"({letter * 11})+|{letter}*c"), parse_python("(..?.?){1,20}|.{61,76}"))
        for letter in "ab"
    ]
    assert regex.is_empty(regex.union(*empty))


def covers_every_character(state: regex.Expr) -> bool:
    return charset.normal((low, high) for low, high, _ in state.edges()) == charset.EVERYTHING


def expressions_over_every_character() -> list[regex.Expr]:
    chance = random.Random(9)
    found = [
        regex.ANY,
        regex.ANY_TEXT,
        regex.repeat(regex.ANY, 2),
        regex.repeat(regex.ANY, 0, 2),
        regex.literal("a"),
        regex.literals("ab"),
        regex.EPSILON,
    ]
    found += [parse_python("[^a]*"), parse_ecma("ab"), parse_ecma("b$")]
    while len(found) < 3000:
        one, other, least = chance.choice(found), chance.choice(found), chance.randrange(3)
        found += [regex.concat(one, other), regex.union(one, other), intersect(one, other), complement(one)]
        found.append(regex.repeat(one, least, chance.choice([None, least + 1])))
        found = [state for state in found if state is not regex.NEVER]
    return found


def test_what_is_everlasting_forbids_no_character():
    made = [parse_ecma(pattern) for pattern, _ in generated(9, 150, assertions=False)]
    checked = 0
    for start in (*LAWS, *made, *expressions_over_every_character()):
        if start.universal:
            checked += 1
            assert all(map(covers_every_character, reachable(start, 12))), start
    assert checked > 1000


ENDLESS = [
    "",
    r"\d{4}-\d{2}",
    r"a|b{3,7}c$",
    r"(ab)*c\d",
    "x$|^y|z",
    r"^[\s\S]{3,}$",
    r"^[\s\S]*\.(?:png|jpe?g)$",
    "^(?:ab)?[^]*c$",
]


@pytest.mark.parametrize("pattern", ENDLESS)
def test_unanchored_patterns_are_everlasting_in_every_state(pattern):
    language = parse_ecma(pattern)
    others = [
        regex.repeat(regex.ANY, 3),
        complement(regex.literals(["a", "1234-56"])),
        parse_ecma("q"),
        intersect(parse_ecma("[a-f]{2}"), parse_ecma("0")),
    ]
    for start in (language, *(intersect(language, other) for other in others), intersect(language, *others)):
        assert all(state.universal for state in reachable(start, 40))


@pytest.mark.parametrize("pattern", [r"^\w+$", r"^a_([A-Z]{2}(-\d{3})*)+$", "^[^/]*$", "^.*x.*$", r"^(?:\S+ )*\S+$"])
def test_what_does_without_a_character_has_an_everlasting_complement(pattern):
    language = complement(parse_ecma(pattern))
    for start in (
        language,
        intersect(language, complement(parse_ecma("^[a-z]*$"))),
        intersect(language, complement(regex.literals(["a", "bc"]))),
    ):
        assert all(state.universal and covers_every_character(state) for state in reachable(start, 40))


@pytest.mark.parametrize("pattern", ["^a", "^[^a]*$", r"^[\s\S]{2,9}$", "^(?!a)"])
def test_what_forbids_a_character_is_not_everlasting(pattern):
    assert not parse_ecma(pattern).universal
    assert not intersect(parse_ecma("a$"), parse_ecma("b$")).universal


@pytest.mark.parametrize(
    "pattern",
    [
        "a{1,3}",
        "(?:ab){1,2}",
        "a(?:bb){0,2}",
        "(?:aa){1,2}(?:bbb){0,1}",
        "(?:a{2}|b{3})",
        "a{2,3}(?:bb){1,2}a",
        "(?:a{2,3}){0,2}",
        "(?:a{1,2}b|b{6})",
    ],
)
def test_bounds_on_the_length_leave_the_texts_of_such_lengths(pattern):
    language = parse_python(pattern)
    texts = [
        text
        for size in range(7)
        for text in map("".join, itertools.product("ab", repeat=size))
        if re.fullmatch(pattern, text)
    ]
    for least, most in itertools.combinations_with_replacement(range(8), 2):
        found = intersect(regex.repeat(regex.ANY, least, most), language)
        kept = [text for text in texts if least <= len(text) <= most]
        assert [text for text in texts if regex.matches(found, text)] == kept, (least, most)
        assert most > 6 or regex.is_empty(found) is not bool(kept), (least, most)


def test_literal_sets():
    texts = sorted({f"{number:x}" for number in range(10_000)})
    language = regex.literals(texts)
    assert language.literal_set.texts == tuple(texts)
    assert all(regex.matches(language, text) for text in texts)
    assert not regex.matches(language, "fffff")
    assert regex.is_finite(language)
    rest = complement(language)
    assert not regex.matches(rest, texts[77])
    assert regex.matches(rest, "zz")


def test_surrogates_are_no_characters():
    assert regex.char_class([(0xD800, 0xDFFF)]) is regex.NEVER
    assert regex.literal("\ud800") is regex.NEVER
    assert not regex.matches(regex.ANY_TEXT, "\ud800")
    assert [(low, high) for low, high, _ in regex.ANY.edges()] == [(0, 0xD7FF), (0xE000, 0x10FFFF)]
    assert complement(regex.char_class([(0, 0xD7FF), (0xE000, 0x10FFFF)])).edges()[0][2] is not regex.EPSILON


@pytest.mark.parametrize("pattern", ["a(?:b|cd){2,5}", "(?!foo)[a-z]+", r"(?:(?!</x>).)*\b", "x" * 300])
def test_expressions_survive_pickling(pattern):
    language = parse_python(pattern)
    copy = pickle.loads(pickle.dumps(language))
    assert copy is language or [regex.matches(copy, t) for t in SHORT] == [regex.matches(language, t) for t in SHORT]


@pytest.mark.parametrize("pattern", [r"(?!```)((?!\n```)\s)*\S((?!\n```)[\s\S])*", r"(?:(?!</x>).)*\b", "[ab]*(?<=b)(c|d)+"])
def test_a_pickled_expression_has_as_many_states_as_before(pattern):
    """Its tables are keyed by objects of the process, and unions are in an order of the process."""
    language = parse_python(pattern)
    assert _states(pickle.loads(pickle.dumps(language))) == _states(language)


def _states(language):
    met, todo = {language}, [language]
    for state in todo:
        new = {to for _, _, to in state.edges()} - met
        met |= new
        todo += new
    return len(met)


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row["pattern"])
def test_messages(row):
    with pytest.raises(GrammarError) as caught:
        (parse_python if row["syntax"] == "python" else parse_ecma)(row["pattern"])
    assert str(caught.value) == row["message"].lstrip("\n")


def test_no_letter_has_case_above_the_scanned_planes():
    beyond = map(chr, range(0x20000, 0x110000))
    assert all(c.lower() == c.upper() == c.casefold() == c for c in beyond)
    assert not re.search(r"[\w\d\s]", "".join(map(chr, range(0x40000, 0x110000))))


def test_properties_agree_with_the_running_unicode_data():
    import unicodedata

    for name in ("Lu", "Ll", "Nd", "Zs", "Pd", "Sc", "Mn"):
        ours = charset.unicode_property(name)
        points = [point for point in range(0x20000) if unicodedata.category(chr(point)) == name]
        moved = [point for point in points if not charset.contains(ours, point)]
        assert len(moved) <= 3, name  # versions of Unicode differ: now and then a character changes its category
    assert charset.unicode_property("gc=Lu") == charset.unicode_property("Uppercase_Letter")
    assert charset.unicode_property("Script=Lu") is None
    assert charset.unicode_property("gc=Greek") is None


CASED = [
    r"\w", r"\W", r"\d", r"\s", r"\S", "[a-z]", "[^a-z]", "ſ", "[^ſ]", "K", "[^k]", "[ıi]", "İ", "ß", "[^ß]", "µ", "[Α-Ω]", "[^Α-Ω]", "ς", r"[\wſ]", r"[^\w]", r"[^\W]", r"[\W\d]",
    r"[\Wa]", "\u0345", "[^ι]", "Å", "Ω", "ϴ", "ﬅ", "[Ꭰ-Ᏼ]", "[𐐀-𐐧]", "[!-~]", r"(?a:\w)", "(?a:ſ)", "(?a:[^k])", "[_-k]",
]  # fmt: skip


@pytest.mark.parametrize("number", range(4))
def test_case_is_ignored_as_re_ignores_it(number):
    """Every character below U+20000 by a slice of the classes; above, no character has case (`test_finite_facts`)."""
    points = [*range(0xD800), *range(0xE000, 0x20000)]
    for pattern in CASED[number::4]:
        matches_it = re.compile(pattern, re.IGNORECASE).fullmatch
        expected = [point for point in points if matches_it(chr(point))]
        found = [
            point
            for low, high, _ in parse_python(pattern, "i").edges()
            for point in range(low, min(high, 0x1FFFF) + 1)
            if not 0xD800 <= point <= 0xDFFF
        ]
        assert found == expected, pattern


def test_texts_spell_a_marker_where_one_stands_in_them():
    markers = markers_of(["<|", "a.b", "(", "(x"])
    for text in map("".join, itertools.product("<|a.b(x", repeat=3)):
        assert markers.spelled_in(text) is any(marker in text for marker in markers.texts), text
    assert not markers_of([]).spelled_in("")


@pytest.mark.parametrize("state", range(8))
def test_guarded_edges_are_those_of_the_language_character_by_character(state):
    """A character stands, or is escaped where a marker would be complete; whatever cannot stand begins anew."""
    markers, raw = markers_of(["<|end|>", "é|", "}"]), ((0x20, 0x21), (0x23, 0x7C), (0x7E, 0xFF), (0x400, 0xFFFF))
    inner = concat(char_class(((0x20, 0x7E), (0xE0, 0x500))), ANY_TEXT)
    edges = Guarded(inner, markers, raw, state).edges()
    assert [low for low, _, _ in edges] == sorted(low for low, _, _ in edges)
    assert len(edges) <= len(inner.edges()) + 2 * len(markers.special(state, ((0, 0x10FFFF),)))
    found = {point: after for low, high, after in edges for point in range(low, high + 1)}
    expected = {}
    for low, high, after in inner.edges():
        for point in range(low, high + 1):
            stands = any(first <= point <= last for first, last in raw)
            following = markers.step(state, point) if stands else 0
            letter = point + ESCAPED if following is None else point
            expected[letter] = Guarded(after, markers, raw, following or 0)
    assert found == expected


def test_edge_lists_are_overlaid_as_each_character_says():
    """The successors of products of many members, some alike, and of some that have the same ranges as others had."""
    draw = random.Random(7)
    bodies = [char_class([(low, low + draw.randrange(9))]) for low in draw.choices(range(97, 115), k=6)]
    members = [regex.repeat(draw.choice(bodies), draw.randrange(3), None) for _ in range(24)]
    every = [derive.raw_edges(concat(member, draw.choice(bodies))) for member in members]
    for lists in (every, every[::-1], every[:3]):
        for combine, all_of in ((regex.union, 1), (intersect, len(lists)), (intersect, 3)):
            found = derive.overlay(lists, combine, all_of)
            for point in range(90, 130):
                targets = [target for edges in lists for low, high, target in edges if low <= point <= high]
                expected = combine(*targets) if targets and len(targets) >= all_of else regex.NEVER
                assert next((target for low, high, target in found if low <= point <= high), regex.NEVER) is expected


LESS = [
    ("[0-9a-f]{3}-?[0-9a-f]{2}", "0af-12"), ("(?:a|b)*c[a-d]+", "abc[ab]*|b+cd"), ("[a-y]+z", "(?:ab|cd|[x-z]a)*z"),
    ("x[a-z]{2}|y[b-k]+", "xab|xcd|yb+"), ("(?:ab)+c", "(?:ab)+c"), ("a[^b]*", "a|ab.*|\\ud7ff+"), ("a.{0,9}b", "[^a]*|a.b"),
]


@pytest.mark.parametrize(("pattern", "without"), LESS)
def test_a_difference_reads_what_the_overlay_with_the_complement_reads(pattern, without):
    """`less` and the short way of `intersect` against what they stand for, state by state."""
    some, other = parse_python(pattern), parse_python(without)
    seen, work = {(some, other)}, [(some, other)]
    while work:
        some, other = work.pop()
        outside = complement(other)
        assert intersect(some, outside) is intersect(outside, some) is _meet({some: None}, [other])
        left, right = derive.raw_edges(some), derive.raw_edges(outside)
        assert derive.less(left, derive.raw_edges(other)) == derive.overlay([left, right], intersect, all_of=2)
        for low, _, target in left:
            for first, last, following in derive.raw_edges(other):
                pair = target, following
                if first <= low <= last and pair not in seen and len(seen) < 40:
                    seen.add(pair)
                    work.append(pair)
