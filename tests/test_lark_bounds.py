"""Lark texts at their limits: assertions at the edges of terminals, words that names exclude, counts beyond measure,
random texts.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import lark
import pytest
from fuzz import lark_grammars, lark_texts
from oracles import Acceptor, LarkOracle, all_texts

from constrained import ChatFormat, Vocabulary, compile
from constrained.errors import GrammarError, LimitExceeded, Rejected
from constrained.grammar import Grammar
from constrained.grammar.lark import lookahead
from constrained.grammar.lark.small_alphabet import Rows, smallest
from constrained.grammar.lark.syntax import LarkText, line_and_column
from constrained.grammar.lower import RuleState
from constrained.regex import ANY_TEXT, complement
from constrained.regex.assertions import may_look_left
from constrained.work import Budget, metered

SAME = {  # grammar: alphabet; what the library takes of all texts of up to five characters is what is taken
    'start: "a" "x"\n%ignore /#(?!x)/': "a#x",
    'start: "a" "x"\n%ignore /#\\b/': "a#x",
    'start: INT ";"? INT\nINT: /1+(?!1)/': "1;",
    'start: A | B\nA: /a(?<!a)/\nB: /b/': "ab",
    'start: N ("a" | N)*\nN: /(?!(?:ab|b)\\b)[ab]+/\n%ignore / +/': "ab ",
    'start: N+\nN: /a(?=b)|b+?/\n%ignore / +/': "ab ",
    'start: N+\nN: /a\\b|ab/\n%ignore / +/': "ab ",
}
EARLY = (r"/^#[^\n]*/m", r"/\A#/", r"/\B#/", "/(?<!a)#/", "/(?<=a)#/", "/^#(?=x)/")


@pytest.mark.parametrize(("source", "alphabet"), SAME.items())
def test_assertions_at_the_edges_of_terminals(source: str, alphabet: str) -> None:
    acceptor, oracle = Acceptor(Grammar.from_lark(source).start_state()), LarkOracle(source)
    assert [text for text in all_texts(alphabet, 5) if acceptor.accepts(text) != oracle.accepts(text)] == []


@pytest.mark.parametrize("pattern", EARLY)
@pytest.mark.parametrize("use", ['start: "a" "x"\n%ignore {}', 'start: "a" {} "x"'])
def test_terminals_that_look_back_are_refused(pattern: str, use: str) -> None:
    """Ignored ones too: they were read as if what they ask always held."""
    with pytest.raises(GrammarError, match="an assertion about the text before the terminal"):
        Grammar.from_lark(use.format(pattern))


LOOKING = (
    r"(?!(?:ab|cd)\b)[a-d]+", r"\ba", r"a\b", "(?<!a)b", "b(?<!ab)", "b(?<!b)", r"a?\b", r"(a|\b)b", r"(?=\b)a", "^a", "a^b",
    r"a+\B", "(?:a(?<=a))*b", "(?:(?<=a)a)*b", "[ab]{2}(?<=aa)x", r"(?!a?\b)a", r"(?:a\b|b?\b)a", r"a{0,2}\bb", r"(?!a\b)(?!\b)a",
)  # fmt: skip


@pytest.mark.parametrize("pattern", LOOKING)
def test_what_looks_no_further_than_its_own_text_is_seen_at_once(pattern: str, monkeypatch) -> None:
    def refused() -> bool:
        try:
            lookahead.SmallPattern(pattern).check_left()
        except GrammarError:
            return True
        return False

    reading = lookahead.SmallPattern(pattern)
    may = may_look_left(reading.tree, reading.alphabet.rewritten(ANY_TEXT))
    assert may >= refused()
    monkeypatch.setattr(lookahead, "may_look_left", lambda *_: True)
    assert may >= refused(), "as two automata say that are compared"


def test_a_terminal_without_a_word_is_wrong_only_where_it_is_needed() -> None:
    assert Acceptor(Grammar.from_lark('start: "a" NONE | "b"\nNONE: /a(?<!a)/').start_state()).accepts("b")
    with pytest.raises(GrammarError, match="terminal NONE matches no text at line 2 column 1"):
        Grammar.from_lark('start: "a" NONE\nNONE: /a(?<!a)/')


def test_a_name_that_excludes_words() -> None:
    words = "and|break|do|else|elseif|end|false|for|function|if|in|local|nil"
    acceptor = Acceptor(Grammar.from_lark(f'start: NAME "=" NAME\nNAME: /(?!({words})\\b)[a-z_]\\w*/i').start_state())
    taken = {
        text: acceptor.accepts(text) for text in ("a=b", "an=d", "and=b", "AND=b", "andy=b", "a=nil", "a=nils", "_=do_")
    }
    assert taken == {
        "a=b": True,
        "an=d": True,
        "and=b": False,
        "AND=b": False,
        "andy=b": True,
        "a=nil": False,
        "a=nils": True,
        "_=do_": True,
    }


@pytest.mark.parametrize("most", [1, 2, 16, 17, 33, 34, 100])
def test_up_to_so_many_calls(most: int) -> None:
    chat = ChatFormat.load("hermes")
    call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    acceptor = Acceptor(
        chat.grammar([{"name": "f", "parameters": {"type": "object", "properties": {}}}], max_calls=most).start_state()
    )

    def taken(calls: int) -> bool:
        parts: list[bytes | str] = []
        for number in range(calls):
            parts.append((("\n" if number else "") + call).encode())
        return acceptor.accepts([*parts, "<|im_end|>"])

    assert [taken(calls) for calls in (1, most - 1 or 1, most, most + 1)] == [True, True, True, False]


def test_a_billion_calls_are_counted() -> None:
    assert len(ChatFormat.load("hermes").grammar(max_calls=10**9).rules) < 200


def test_too_much_work_names_its_place() -> None:
    with pytest.raises(LimitExceeded, match="too much work at Lark grammar"):
        Grammar.from_lark("start: " + " | ".join(f'"a{number}"' for number in range(100_000)))


@pytest.mark.parametrize("seed", range(2))
def test_random_texts(seed: int) -> None:
    """A slice of ``python -m tests.fuzz.lark_texts``, which runs for as long as one likes."""
    assert sum(lark_texts.run(50, seed).values()) == 50


def test_random_grammars() -> None:
    """A slice of ``python -m tests.fuzz.lark_grammars``: any difference from the library raises."""
    assert lark_grammars.run(100, seed=3)["read"] > 60


def test_the_librarys_grammar_of_python_is_read() -> None:
    """What an indenter would add is given as texts; each is a token of its own in what a model writes."""
    source = Path(lark.__file__).with_name("grammars").joinpath("python.lark").read_text(encoding="utf-8")
    grammar = Grammar.from_lark(source, start="file_input", declare={"_INDENT": "→", "_DEDENT": "←"})
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], special={"<end>": 256}, stop=[256], size=257)
    constraint = compile(grammar, vocabulary)

    def accepts(text: str) -> bool:
        matcher = constraint.matcher()
        try:
            for byte in text.encode():
                matcher.advance(byte)
        except Rejected:
            return False
        return bool(matcher.is_accepting())

    taken = ["x = 1\n", "def f(a, *b):  # note\n    →return a\n←", "f(x for x in [1, 2])\n"]
    assert [text for text in taken if not accepts(text)] == []
    assert [text for text in ("x = \n", "def f(:\n", "1 = = 2\n", "return )\n") if accepts(text)] == []


def test_a_text_that_is_too_much_work_is_refused_where_the_work_ended():
    text = 'start: a\n  | b "x"\n// ' + "c" * 5_000 + "\nlong: /" + "d" * 5_000 + "/\n"
    whole = LarkText(text)
    known = {line_and_column(text, token.start) for token in whole.tokens} | {(2, 10)}
    ended: dict[int, tuple[int, int]] = {}
    for units in range(len(text) // 10 + 1, len(text) // 10 + 800, 20):
        try:
            with metered(Budget(units)):
                assert LarkText(text).tokens
        except LimitExceeded as error:
            place = re.search(r"line (\d+) column (\d+)$", error.where)
            ended[units] = int(place[1]), int(place[2])
    assert set(ended.values()) <= known
    assert list(ended.values()) == sorted(ended.values())
    assert ended[max(ended)] == (4, 7), "the long pattern costs most of it, the comment next to nothing"
    assert len(set(ended.values())) > 4


def test_parts_of_terminals_hold_no_surrogates() -> None:
    grammar = Grammar.from_lark("start: A B\nA: /a(?!b)/\nB: /[^x]+|\\ud7ff/")
    parts = [symbol.language for symbol in grammar.symbols()]
    parts = [*parts, *map(complement, parts)]
    edges = [(low, high) for part in parts for low, high, _ in part.edges()]
    assert edges and not [(low, high) for low, high in edges if low > high or (low <= 0xDFFF and high >= 0xD800)]
    acceptor = Acceptor(grammar.start_state())
    assert [acceptor.accepts(text) for text in ("a\ud7ff", "a\ue000", "ab", "ax", "acb")] == [True, True, False, False, True]


def test_work_grows_with_the_words_of_a_language_and_not_with_their_pairs() -> None:
    """Behind each keyword any other one may follow, and some begin with shorter ones."""

    def work(count: int) -> int:
        keywords = " | ".join(f'"{chr(97 + number % 26)}{number}"' for number in range(count))
        budget = Budget(100_000_000)
        with metered(budget):
            grammar = Grammar.from_lark(f"start: (keyword | NAME)*\nkeyword: {keywords}\nNAME: /[a-z]+/\n%ignore / +/")
            known = {grammar.start_state()}
            todo = list(known)
            while todo:  # each machine state once, as kernels do
                edges = todo.pop().expand()
                behind = {target for *_, target in edges.ranges} | {state for call in edges.calls for state in call}
                behind = {getattr(state, "then", state) for state in behind}  # of chains of bytes
                todo += [state for state in behind - known if isinstance(state, RuleState)]
                known |= behind
            assert sum(isinstance(state, RuleState) for state in known) > 20
        return 100_000_000 - budget.left

    few, many = work(100), work(400)
    assert many < 6 * few  # 13 times, where what follows was found again behind each


def _equivalent(rows: Rows) -> int:
    """Count the classes of rows that accept the same texts, by trying all pairs until nothing changes."""
    apart = {(a, b) for a in range(len(rows)) for b in range(len(rows)) if rows[a][0] != rows[b][0]}
    while True:
        more = {
            (a, b)
            for a in range(len(rows))
            for b in range(len(rows))
            if any((rows[a][1][point], rows[b][1][point]) in apart for point in rows[a][1])
        }
        if more <= apart:
            return len({frozenset(b for b in range(len(rows)) if (a, b) not in apart) for a in range(len(rows))})
        apart |= more


@pytest.mark.parametrize("seed", range(60))
def test_smallest_automata(seed: int) -> None:
    """Complete automata whose rows all are reached and live: each class of equivalent rows is one row."""
    draw = random.Random(seed)
    size, points = draw.randint(1, 14), range(draw.randint(1, 3))
    rows: Rows = [(draw.random() < 0.3, {point: draw.randrange(size) for point in points}) for _ in range(size)]
    rows = [(at == 0 or accepts, {**leads, 7: (at + 1) % size}) for at, (accepts, leads) in enumerate(rows)]
    found = smallest(rows)
    assert len(found) == _equivalent(rows)
    assert smallest(found) == found
    for _ in range(50):
        at, there = 0, 0
        for point in draw.choices([*points, 7], k=20):
            at, there = rows[at][1][point], found[there][1][point]
            assert rows[at][0] == found[there][0]
