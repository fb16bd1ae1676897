"""What lark's lexer finds, part by part: small alphabets, demands and shared parts of alternatives, against brute force."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from oracles import Acceptor, LarkOracle, all_texts

from constrained.grammar import Grammar, Pattern
from constrained.grammar.lark.lookahead import Demanding, Demands, Pairs, alphabet_of_symbols, terminal
from constrained.grammar.lark.small_alphabet import (
    MARK_POINT,
    Alphabet,
    Rows,
    automaton,
    behind,
    both,
    free_row,
    smallest,
)
from constrained.regex import parse_python
from constrained.regex.algebra import joined
from constrained.regex.charset import MAX, contains, normal

CLASSES = [
    [], [(97, 97)], [(0, MAX)], [(97, 100), (99, 120)], [(0, 0), (MAX, MAX)], [(0xD000, 0xE000)], [(0xD7FF, 0xD7FF)],
    [(MARK_POINT, MARK_POINT)], [(MARK_POINT - 1, MARK_POINT + 1)], [(MARK_POINT + 1, MAX)], [(0, MARK_POINT)],
]  # fmt: skip
EDGES = {0, 1, 96, 97, 98, 99, 100, 101, 120, 121, 0xCFFF, 0xD000, 0xD7FF, 0xE000, 0xE001, MAX - 1, MAX,
         *range(MARK_POINT - 2, MARK_POINT + 3)}  # fmt: skip


@pytest.mark.parametrize("chosen", list(itertools.combinations(range(len(CLASSES)), 3)), ids=str)
def test_an_alphabet_tells_apart_what_its_classes_do(chosen: tuple[int, ...]) -> None:
    classes = [normal(CLASSES[number]) for number in chosen]
    alphabet = Alphabet(classes, MARK_POINT)
    for char in EDGES - {MARK_POINT}:
        point = alphabet.point(char)
        assert [other for other in alphabet.points if contains(alphabet.ranges[other], char)] == [point]
        assert [contains(ranges, char) for ranges in classes] == [contains(ranges, point) for ranges in classes]
    kinds = {tuple(contains(ranges, char) for ranges in classes) for char in EDGES - {MARK_POINT}}
    assert len(alphabet.points) == len(kinds), "no two sets that the classes do not tell apart"
    everything = joined([(low, high, 0) for low, high, _ in alphabet.tiles])
    assert all(alphabet.point(low) == alphabet.points[number] for low, _, number in alphabet.tiles)
    assert everything == ((0, 0xD7FF, 0), (0xE000, MARK_POINT - 1, 0), (MARK_POINT + 1, MAX, 0))


PATTERNS = ["a*", "(?:ab)*", "a|b", "a*b", "[ab]*a", "(?:a|b){2}", "", "[abc]*", "b?a?", "(?:[ab][ab])*", "a{3,}"]
LETTERS = Alphabet([normal([(ord(char), ord(char))]) for char in "abc"], MARK_POINT)


def _words(rows: Rows, longest: int = 4, at: int = 0) -> set[str]:
    found = set()
    for text in all_texts("abc", longest):
        row: int | None = at
        for char in text:
            row = None if row is None else rows[row][1].get(ord(char))
        if row is not None and rows[row][0]:
            found.add(text)
    return found


@pytest.mark.parametrize(("left", "right"), list(itertools.product(PATTERNS, PATTERNS)))
def test_automata_in_common(left: str, right: str) -> None:
    one, other = (automaton(parse_python(pattern), LETTERS) for pattern in (left, right))
    found = both(one, other)
    assert (_words(found) if found else set()) == _words(one) & _words(other)
    assert smallest(found) == found == both(other, one), "the smallest one, in its only numbering"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_is_behind_a_row(pattern: str) -> None:
    rows = automaton(parse_python(pattern), LETTERS)
    for at in range(len(rows)):
        found = behind(rows, at)
        assert _words(found) == _words(rows, at=at)
        assert smallest(found) == found
    free = [at for at in range(len(rows)) if _words(rows, at=at) == set(all_texts("abc", 4))]
    everything = all(len(rows[at][1]) == len(LETTERS.points) for at in free)
    assert free_row(rows, LETTERS) == (free[0] if free and everything else None)


DEMANDING = [r"a(?!b)", r"[ab]+(?=c)", r"a\b", r"b+(?!c|ab)", r"(?!abc)[ab]+c?(?!a)", r"a$", r"(?!ab\b)[abc]+"]


def _found(pattern: str, text: str, rest: str) -> bool:
    """Return whether lark finds a text before a rest, by the definition of its dynamic lexer."""
    compiled = re.compile(pattern)
    if (whole := compiled.match(text + rest)) is None or len(whole.group()) < len(text):
        return False
    pieces = (compiled.match(whole.group()[:length]) for length in range(len(whole.group()), 0, -1))
    return text in {whole.group(), *(piece.group() for piece in pieces if piece is not None)}


@pytest.mark.parametrize("pattern", DEMANDING)
def test_pairs_of_a_text_and_a_rest(pattern: str) -> None:
    """A text is found as the match in place, or as that in an ever shorter piece of what was matched."""
    symbol = terminal(pattern)
    assert isinstance(symbol, Demanding) and isinstance(symbol.pairs, Pairs)
    alphabet = alphabet_of_symbols([symbol])
    demands, rows = Demands(alphabet), symbol.pairs.over(alphabet)
    for text in all_texts("abc", 3):
        row: int | None = 0
        for char in text:
            row = None if row is None else rows[row][1].get(alphabet.point(ord(char)))
        mark = None if row is None else rows[row][1].get(MARK_POINT)
        demand = None if mark is None else demands.behind(rows, mark)
        for rest in all_texts("abc ", 3):
            after = None if demand is None else demands.after_text(demand, rest)
            assert (after is not None and after.is_met) is (text != "" and _found(pattern, text, rest)), (text, rest)


def test_equal_demands_are_one() -> None:
    symbols = [terminal(pattern) for pattern in (r"a\b", r"b(?!\w)", r"c(?![a-c])")]
    alphabet = alphabet_of_symbols(symbols)
    demands = Demands(alphabet)
    found = []
    for symbol in symbols:
        assert isinstance(symbol, Demanding) and isinstance(symbol.pairs, Pairs)
        rows = symbol.pairs.over(alphabet)
        (at,) = {leads[MARK_POINT] for _, leads in rows if MARK_POINT in leads}
        found.append(demands.behind(rows, at))
    assert found[0] is found[1] is not found[2]
    assert demands.both(found[0], found[2]) is demands.both(found[2], found[0]) is found[0]
    assert demands.both(found[0], demands.every) is found[0] is demands.both(demands.every, found[0])
    assert demands.after_text(found[2], "x") is demands.every
    assert demands.after_text(found[2], "a") is None


MANY = {  # grammars whose alternatives have more ways than are written out: alphabet
    'start: (N "=" N)+\nN: /(?!(?:ab|ba|aab|bab|abba)$)[ab]+/': "ab=",
    'start: (N "=" N)+\nN: /(?!(?:ab|ba|aab|bab|abba)\\b)[ab]+/\n%ignore " "': "ab= ",
    'start: N N "b" N\nN: /(?!(?:ab|ba|aab|bab|abba)\\b)[ab]+/': "ab",
    'start: N* "=" (N "=")*\nN: /(?!(?:aa|bab|abba)\\b)[ab]+/': "ab=",
}


@pytest.mark.parametrize(("source", "alphabet"), MANY.items())
def test_shared_parts_of_alternatives(source: str, alphabet: str) -> None:
    acceptor, oracle = Acceptor(Grammar.from_lark(source).start_state()), LarkOracle(source)
    texts = list(all_texts(alphabet, 4))
    texts += ["".join(random.Random(seed).choices(alphabet, k=7)) for seed in range(60)]
    assert [text for text in texts if acceptor.accepts(text) != oracle.accepts(text)] == []


def test_a_name_that_excludes_words_has_few_alternatives() -> None:
    """Without parts of their own, alternatives would multiply by the demands that a name leaves open."""
    words = "and|break|do|else|elseif|end|false|for|function|if|in|local|nil"
    rules = Grammar.from_lark(f'start: (N "=" N)+\nN: /(?!(?:{words})\\b)[a-z]+/\n%ignore " "').rules
    assert sum(len(rule.alternatives) for rule in rules.values()) < 400


def test_a_terminal_demands_nothing_where_what_closes_it_follows() -> None:
    source = 'start: A "</v>" "x" | "y" A B\nA: /(?:(?!<\\/v>)[^\\0])+(?=<\\/v>)/\nB: "</v" "x"?'
    first, second = Grammar.from_lark(source).rules["start"].alternatives[:1], terminal("(?:(?!</v>)[^\\0])+(?=</v>)")
    assert isinstance(second, Demanding) and second.closed is not None
    assert first[0][0] == Pattern(second.closed[0], first[0][0].source)
