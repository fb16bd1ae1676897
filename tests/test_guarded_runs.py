"""The quick reading of "a character, nowhere in front of some texts, again and again" next to the one for patterns of
any shape.
"""

from __future__ import annotations

import random

import lark
import pytest
from oracles import Acceptor, mutated

from constrained import Grammar
from constrained.grammar.lark.lookahead import SmallPattern
from constrained.regex import ANY_TEXT, char_class, complement, concat, intersect, is_empty, literal, repeat, union
from constrained.regex.python import parsed
from constrained.regex.runs import ClosedRun, guarded_run
from constrained.work import Budget, metered

GUARDS = ["a", "b", "ab", "[ab]", "a+b", "(?:a|bb)", "a{2}", "ba?", "c", "a?", "", "(?i:A)", "a*b"]
CHARACTERS = ["[ab]", ".", "[^a]", "a", "[abc]", "(?:b)", "(a)"]
FAILS = "FAILURE" in str(parsed("(?!)"))
COUNTS = ["+", "*", "{2}", "{0,3}", "{1,4}", "{2,}", "{1,2}"]


@pytest.mark.parametrize("seed", range(3))
def test_both_readings_are_one(seed):
    choose = random.Random(seed).choice
    for _ in range(40):
        first, guards = (
            "".join(f"(?!{choose(GUARDS)})" for _ in range(choose(counts))) for counts in ((0, 0, 1), (0, 1, 2))
        )
        pattern = f"{first}({guards}{choose(CHARACTERS)}){choose(COUNTS)}"
        reading = SmallPattern(pattern)
        found = reading.guarded_run()
        # newer Pythons read (?!) as a failure, which is no guard
        assert found == reading.anywhere() or found is None and "(?!)" in pattern and FAILS, pattern


@pytest.mark.parametrize("closing", ["</v>", ">"])
@pytest.mark.parametrize("counts", [None, (0, None), (1, None), (0, 3), (2, 2)], ids=str)
def test_a_run_up_to_a_text_is_the_language_that_it_is_read_from(counts, closing):
    language = complement(concat(ANY_TEXT, union(literal(">"), literal("<s")), ANY_TEXT))
    if counts is not None:
        language = intersect(language, repeat(char_class(((0x20, 0x7E),)), *counts))
    run = ClosedRun.of_language(language, closing)
    assert run is not None
    for one, other in ((language, run.language()), (run.language(), language)):
        assert is_empty(intersect(one, complement(other)))


@pytest.mark.parametrize(
    "pattern",
    [
        "a",
        "(?=b)a+",
        "(?:a(?!b))+",
        "(?:(?!b)a)+?",
        "(?:(?!b)(?:a|bc))+",
        "(?:(?!b)ab)+",
        "((?!b)a)+c",
        "(?:(?<!b)a)+",
        "",
    ],
)
def test_other_shapes_are_left_to_the_general_reading(pattern):
    assert guarded_run(parsed(pattern)[0]) is None


CLOSED = [  # terminal, what follows it, texts
    (
        r"(?:(?!<\/v>|<s>)[\s\S]){1,3}<\/v>",
        "",
        ["a</v>", "</v>", "abc</v>", "abcd</v>", "a<s></v>", "<s</v>", "a</v></v>", "</</v>", "a</v"],
    ),
    (r"(?:(?!b)[ab])*ba", "", ["ba", "aba", "bba", "aaba", "ab", "baba"]),
    (r"(?:(?!<e>|x<e>)[a-z<]){0,4}<e>", "", ["a<e>", "x<e>", "ax<e>", "<e>", "<<e>", "<e><e>"]),
    (r"(?:(?!ab)[abc])*cabc", "", ["cabc", "ccabc", "acabc", "abcabc", "bcabc", "cabcabc"]),
    (r"(?=(?:a|b+)<e>)(?!b<e>)(?:(?!<e>)[\s\S]){1,5}<e>", "", ["a<e>", "b<e>", "bb<e>", "ab<e>", "bbbbbb<e>"]),
    (r"(?:(?!<e>)[a-z<]){1,3}(?=<e>)", '"<e>"', ["a<e>", "<e>", "ab<<e>", "abcd<e>", "a", "a<e"]),
    (r"(?:(?!<e>)[a-z<]){1,3}(?=<e>)", '"<" "e>"', ["a<e>", "abc<e>", "<<e>"]),
    (r"(?:(?!<e>)[a-z<]){1,3}(?=<e>)", "/<e>|b/", ["a<e>", "ab", "b<e>"]),
    (r"(?:(?!<e>)[a-z<]){1,3}(?=<e>)", "x", ["a<e>", "a<d>", "abc<e>"]),
    (
        r'"(?=(?:[^"\\]|\\.){0,2}")(?:[a-c<>]|\\["n])*"',
        "",
        ['""', '"a"', '"ab"', '"abc"', '"a\\""', r'"\n\"a"', '"a" "', '"a', r'"\"'],
    ),
    (
        r'"(?!(?:[^"\\]|\\.)*<s>)(?:[a-s<>]|\\n|<s\\>)*"',
        "",
        ['"<s>"', r'"<s\>"', r'"a<s\>b"', r'"\>"', '"<s"', '"<s" <s>"', r'"\n<s>"'],
    ),
    (
        r"""'(?=(?:[^'\\]|\\.)*")(?=(?:[^'\\]|\\.)*\\')(?:[ab"]|\\')*'""",
        "",
        ["'a'", "'\"'", "'\\'\"'", "'\"a\\''", "'\\'' \"'"],
    ),
    (r'"(?=[^"]*;)[a-z;"]*"', "", ['"a;"', '"a";"', '"a"']),  # of another shape: a quote may stand within
]


@pytest.mark.parametrize(("pattern", "behind", "texts"), CLOSED, ids=lambda part: str(part)[:40])
def test_what_closes_itself_is_read_as_lark_reads_it(pattern, behind, texts):
    source = f'start: T {behind}\nT: /{pattern}/\nx: "<" /[de]/ ">"'
    library = lark.Lark(source, parser="earley", lexer="dynamic_complete")
    acceptor = Acceptor(Grammar.from_lark(source).start_state())
    chance = random.Random(pattern)
    for text in [*texts, *(mutated(text, chance, "ab<>;\"'\\es/v") for text in texts * 8)]:
        try:
            library.parse(text)
            expected = True
        except lark.exceptions.LarkError:
            expected = False
        assert acceptor.accepts(text) is expected, text


@pytest.mark.parametrize("pattern", [
    r"(?:(?!<\/v>|<s>|<t>|<end>)[\s\S]){1,9999}<\/v>",
    r'"(?=(?:[^"\\]|\\.){0,9999}")(?!(?:[^"\\]|\\.)*(?:<s>|<end>))(?:[^"\\]|\\n)*"',
])
def test_counts_cost_nothing_where_a_text_closes_itself(pattern):
    with metered(Budget(20_000)):
        Grammar.from_lark(f"start: T\nT: /{pattern}/")
