"""Grammars out of grammars: each against its definition, on all short words."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace

import pytest

import constrained as c
from constrained import Grammar, GrammarError, LimitExceeded, Rejected
from constrained.grammar import Embedded, Literal, Pattern, Ref, Rule, Special
from constrained.grammar.compose import suffix_automaton
from constrained.regex import EPSILON, NEVER
from constrained.work import Budget, metered

VOCABULARY = c.Vocabulary(
    [bytes([byte]) for byte in range(256)], special={"<end>": 256, "aba": 257}, stop=[256], size=258
)
WORDS = ["".join(word) for size in range(6) for word in itertools.product("ab", repeat=size)]
NOTHING, NO_TEXT = Pattern(EPSILON, "()"), Pattern(NEVER, "(?!)")
A, B, AB = Grammar.from_regex("a+"), Grammar.from_regex("b|"), Grammar.from_lark('start: "ab" start |')


def accepted(grammar, words=WORDS, kernel=None, vocabulary=VOCABULARY) -> set[str]:
    constraint, found = c.compile(grammar, vocabulary, kernel=kernel), set()
    for word in words:
        matcher = constraint.matcher()
        try:
            for byte in word.encode():
                matcher.advance(byte)
        except Rejected:
            continue
        if matcher.is_accepting():
            found.add(word)
    return found


def language(grammar) -> set[str]:
    return accepted(grammar)


def products(least: int, most: int, words: set[str]) -> set[str]:
    return {
        "".join(parts)
        for size in range(least, most + 1)
        for parts in itertools.product(words, repeat=size)
        if sum(map(len, parts)) < 6
    }


COMPOSED = {
    "a sequence": (A + B, lambda: {one + two for one in language(A) for two in language(B)}),
    "a choice": (A | AB, lambda: language(A) | language(AB)),
    "an option": (A.optional(), lambda: language(A) | {""}),
    "a repeat": (AB.repeat(1, 2), lambda: products(1, 2, language(AB))),
    "no repeat": (A.repeat(0, 0), lambda: {""}),
    "a repeat without end": (Grammar.choice(["ab", "b"]).repeat(2, None), lambda: products(2, 5, {"ab", "b"})),
    "texts": (Grammar.choice(["ab", "", "ab", "b"]), lambda: {"ab", "", "b"}),
    "any text": (Grammar.text(), lambda: set(WORDS)),
    "text until": (Grammar.text(until="ab"), lambda: {word for word in WORDS if word.find("ab") == len(word) - 2 and len(word) > 1}),
    "text until what overlaps itself": (Grammar.text(until="bab"), lambda: {word for word in WORDS if len(word) > 2 and word.find("bab") == len(word) - 3}),
    "text until what repeats": (Grammar.text(until="aa"), lambda: {word for word in WORDS if len(word) > 1 and word.find("aa") == len(word) - 2}),
    "quotes": (Grammar.substring_of("abbab"), lambda: {word for word in WORDS if word and word in "abbab"}),
    "a rule by another grammar": (Grammar.from_lark('start: "b" inner inner', define={"inner": A}), lambda: {
        "b" + one + two for one in language(A) for two in language(A)}),
    "a rule by another grammar, beside what is ignored": (Grammar.from_lark('start: inner "b" inner\n%ignore /a+/', define={"inner": B}), lambda: {
        one + "a" * count + "b" + two + "a" * more
        for one in language(B) for two in language(B) for count in range(6) for more in range(6)}),
    "a rule by a Lark text that looks ahead": (
        Grammar.from_lark('start: "a" inner "a"', define={"inner": Grammar.from_lark('start: /a(?!b)/ /[ab]+/')}), lambda: {
        "aa" + rest + "a" for rest in WORDS if rest.startswith("a")}),
    "texts that are empty": (
        Grammar({"start": Rule("start", ((Literal(""), Literal("a"), NOTHING, Ref("end")), (NOTHING,))), "end": Rule("end", ((Literal(""),), (Literal("b"),)))}),
        lambda: {"", "a", "ab"}),
    "an alternative without a text": (
        Grammar({"start": Rule("start", ((Literal("a"),), (NO_TEXT, Literal("b")), (Ref("never"),))), "never": Rule("never", ((Literal("b"), Ref("never")),))}),
        lambda: {"a"}),
}  # fmt: skip


@pytest.mark.parametrize(("grammar", "words"), COMPOSED.values(), ids=COMPOSED)
def test_words(grammar, words):
    expected = {word for word in words() if len(word) < 6}
    assert accepted(grammar) == expected
    assert accepted(grammar, kernel="plain") == expected
    assert accepted(pickle.loads(pickle.dumps(grammar))) == expected


def test_think_then_a_schema():
    grammar = Grammar.text(until="</think>") + Grammar.from_json_schema({"enum": [1, "ü"]})
    assert accepted(grammar, ["so < it is</think>1", '</think>"ü"', "1", "x</think>2", "</think></think>1"]) == {
        "so < it is</think>1",
        '</think>"ü"',
    }


def test_a_marker_is_a_token_where_there_is_one_and_a_choice_never():
    matcher = c.compile(Grammar.text(until="aba"), VOCABULARY).matcher()
    matcher.advance(ord("a"))
    assert matcher.accepts(257)
    assert accepted(Grammar.text(until="aba"), ["aba"]) == set()
    assert not c.compile(Grammar.choice(["aba"]), VOCABULARY).matcher().accepts(257)


@pytest.mark.parametrize("source", ["", "a", "aaaa", "abcbc", "abracadabra", "日本語日本"])
def test_suffix_automata(source):
    edges, found, work = suffix_automaton(source), set(), [("", 0)]
    while work:
        word, at = work.pop()
        found.add(word)
        work += [(word + char, then) for char, then in edges[at].items()]
    assert found == {source[low:high] for low in range(len(source) + 1) for high in range(low, len(source) + 1)}
    assert len(edges) <= max(2, 2 * len(source))


WRONG = {
    "a number": lambda: A + 1,
    "a text": lambda: A | "b",
    "a text in front": lambda: "b" + A,
    "a text or": lambda: "b" | A,
    "a number in front": lambda: sum([A, A]),
    "nothing": lambda: A + None,
    "no choice": lambda: Grammar.choice([]),
    "one text for many": lambda: Grammar.choice("ab"),
    "no text": lambda: Grammar.choice([1]),
    "a lone surrogate": lambda: Grammar.text(until="\ud800"),
    "until nothing": lambda: Grammar.text(until=""),
    "quotes of nothing": lambda: Grammar.substring_of(""),
    "fewer than none": lambda: A.repeat(-1, 2),
    "too many": lambda: A.repeat(0, 10**9),
    "half": lambda: A.repeat(0, 0.5),
    "from more to less": lambda: A.repeat(3, 2),
    "a defined rule that the text defines": lambda: Grammar.from_lark('start: "a" b\nb: "b"', define={"b": B}),
    "a defined rule of a bad name": lambda: Grammar.from_lark('start: "a" b', define={"B": B}),
    "a defined rule that is no grammar": lambda: Grammar.from_lark('start: "a" b', define={"b": "b"}),
    "a table that is none": lambda: Grammar.from_lark('start: "a" b', define=[B]),
    "a look ahead into a defined rule": lambda: Grammar.from_lark(
        "start: /a(?!b)/ b", define={"b": Grammar.substring_of("ab")}
    ),
}


def _by_hand(symbol, **fields):
    return Grammar({"start": Rule("start", ((symbol,),))}, **fields)


# written by hand, of the wrong types
HAND_WRITTEN = {
    "rules that are a text": lambda: Grammar("start"),
    "rules that are a list": lambda: Grammar([Rule("start", ((),))]),
    "a rule that is a list": lambda: Grammar({"start": [["a"]]}),
    "a rule of another name": lambda: Grammar({"start": Rule("begin", ((),))}),
    "a rule without a name": lambda: Grammar({1: Rule(1, ((),))}, 1),
    "alternatives that are a text": lambda: Grammar({"start": Rule("start", "ab")}),
    "alternatives that are nothing": lambda: Grammar({"start": Rule("start", None)}),
    "an alternative that is a list": lambda: Grammar({"start": Rule("start", ([Literal("a")],))}),
    "an alternative that is a symbol": lambda: Grammar({"start": Rule("start", (Literal("a"),))}),
    "a symbol that is a text": lambda: _by_hand("a"),
    "a literal that is a number": lambda: _by_hand(Literal(1)),
    "a literal that no bytes spell": lambda: _by_hand(Literal("\ud800")),
    "a special token that is a number": lambda: _by_hand(Special(1)),
    "a reference to a number": lambda: _by_hand(Ref(1)),
    "a reference to a list": lambda: _by_hand(Ref([])),
    "a pattern that is a text": lambda: _by_hand(Pattern("a", "a")),
    "a machine that is a text": lambda: _by_hand(Embedded("a", "a")),
    "no start": lambda: Grammar({}),
    "a start that is a number": lambda: _by_hand(Literal("a"), start=1),
    "specials that are a text": lambda: _by_hand(Literal("a"), specials="a"),
    "specials that are a number": lambda: _by_hand(Literal("a"), specials=1),
    "specials that are numbers": lambda: _by_hand(Literal("a"), specials=[1]),
    "specials that are lists": lambda: _by_hand(Literal("a"), specials=[["a"]]),
    "stops that are nothing": lambda: replace(A, stops=None),
    "widened that is nothing": lambda: replace(A, widened=None),
    "cut that is a number": lambda: replace(A, cut=1),
    "adopts that is a text": lambda: replace(A, adopts="no"),
    "a source that is a number": lambda: replace(A, source=1),
    "other rules": lambda: replace(A, rules=None),
    "an unknown rule": lambda: A.replace("b", ((),)),
    "a rule that is a number": lambda: A.replace(1, ((),)),
    "no name of a rule": lambda: A.replace([], ((),)),
    "alternatives for a rule that are a number": lambda: A.replace("start", 1),
    "alternatives for a rule that are symbols": lambda: A.replace("start", [Literal("a")]),
    "further rules that are texts": lambda: A.replace("start", ((),), ["a"]),
    "a further rule alone": lambda: A.replace("start", ((),), 1),
    "with special tokens that are a number": lambda: _by_hand(Literal("a")).with_specials(1),
    "with special tokens that are a text": lambda: _by_hand(Literal("a")).with_specials("a"),
    "with special tokens that are lists": lambda: _by_hand(Literal("a")).with_specials([["a"]]),
    "without special tokens that are a number": lambda: A.without_specials(1),
    "without special tokens that are lists": lambda: A.without_specials([["a"]]),
    "without special tokens that are nothing": lambda: A.without_specials(None),
}
WRONG |= HAND_WRITTEN


@pytest.mark.parametrize("use", WRONG.values(), ids=WRONG)
def test_wrong_use(use):
    with pytest.raises(GrammarError):
        use()


def test_what_ends_a_turn_ends_what_the_turn_is_the_last_part_of():
    turn, text = c.ChatFormat.load("hermes").grammar(tool_choice="none"), Grammar.text(until="!")
    assert turn.stops == {"<|im_end|>"}
    for composed in (
        text + turn,
        turn | text,
        turn.optional(),
        turn.repeat(0, 1),
        pickle.loads(pickle.dumps(turn)),
        turn.with_specials(["x"]),
    ):
        assert composed.stops == turn.stops
    for composed in (turn + text, turn + turn, turn.repeat(1, 2), turn.without_specials(["<|im_end|>"])):
        assert composed.stops == frozenset()


MARKED = c.Vocabulary([bytes([byte]) for byte in range(256)], {"</think>": 256, "<b>": 257, "<|im_end|>": 258}, [258])


def _reads(grammar, *tokens):
    matcher = c.compile(grammar, MARKED).matcher()
    try:
        for token in tokens:
            matcher.advance(token)
    except c.Rejected:
        return False
    return matcher.is_accepting()


LARK = c.Grammar.from_lark('start: "<b>"')
# Grammars with a part that adopts special tokens and a Lark text beside it: what stands for "</think>", which is a
# token, and "<b>", which is text.
MIXED = {
    "sum": c.Grammar.text(until="</think>") + LARK,
    "defined": c.Grammar.from_lark('start: thought "<b>"', define={"thought": c.Grammar.text(until="</think>")}),
    "defined in a sum": c.Grammar.from_lark(
        "start: thought rest", define={"thought": c.Grammar.text(until="</think>"), "rest": LARK}
    ),
    "twice": (c.Grammar.text(until="</think>") + LARK) + c.Grammar.choice([""]),
}


@pytest.mark.parametrize("name", MIXED)
def test_parts_keep_what_their_texts_stand_for(name):
    assert _reads(MIXED[name], *b"so", 256, *b"<b>")
    assert not _reads(MIXED[name], *b"so</think>", *b"<b>")
    assert not _reads(MIXED[name], *b"so", 256, 257)


def test_a_choice_keeps_what_its_texts_stand_for():
    either = c.Grammar.text(until="</think>") | LARK
    assert [_reads(either, 256), _reads(either, *b"<b>"), _reads(either, 257)] == [True, True, False]
    assert _reads(LARK + LARK, *b"<b><b>")
    assert not _reads(LARK.repeat(1, 2), 257)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("join", [lambda one, a: one + a, lambda one, a: a | one, lambda one, _: one.optional(), lambda one, _: one.repeat(1, 1)])
def test_what_is_put_together_one_after_another_is_bounded(join):
    """Each step copies all rules, so a chain of them is quadratic; halves of halves are not."""
    a = grammar = Grammar.choice(["a"])
    with pytest.raises(LimitExceeded, match="one after another"):
        for _ in range(3_000):
            grammar = join(grammar, a)
    parts = [a] * 1_024
    while len(parts) > 1:
        parts = [one | two for one, two in zip(parts[::2], parts[1::2], strict=True)]
    assert len(parts[0].rules) == 2_047


def test_rules_that_stay_as_they_are_are_not_copied():
    one = Grammar.from_lark('start: word+\nword: "a" | "b" word')
    assert (one + Grammar.choice(["c"])).rules["word"] is one.rules["word"]


def test_definitions_of_a_lark_text_are_counted():
    grammar, names = Grammar.choice(["a"]), [f"n{number}" for number in range(20_000)]
    with pytest.raises(LimitExceeded, match="at Lark grammar"):
        Grammar.from_lark("start: n0", define=dict.fromkeys(names, grammar))


def test_definitions_inside_each_other_are_bounded():
    """Each of them lengthens all names, so that a thousand of them took 17 seconds and 1.9 GB."""
    grammar = Grammar.choice(["a"])
    with pytest.raises(LimitExceeded, match="too deeply"):
        for _ in range(1_000):
            grammar = Grammar.from_lark('start: "a" b', define={"b": grammar})


def test_a_grammar_of_one_machine_is_as_if_it_were_checked():
    for schema, options in (({"type": "string"}, {}), ({"not": {"type": "string"}}, {}), ({"type": "string"}, {"surface": "python"}),
                            ({"uniqueItems": True, "contains": {"format": "idn-email"}}, {"unsupported": "widen"})):  # fmt: skip
        made = Grammar.from_json_schema(schema, **options)
        machine = made.rules["start"].alternatives[0][0].machine
        written = Grammar({"start": Rule("start", ((Embedded("value", machine),),))}).made_by("schema", machine)
        for name in ("start", "specials", "widened", "source", "adopts", "stops", "cut", "recipe", "_symbols", "_texts", "heavy",
                     "has_own_rules", "nullable", "weight", "narrowed", "notes", "fingerprint"):  # fmt: skip
            assert getattr(made, name) == getattr(written, name), name
            assert type(getattr(made, name)) is type(getattr(written, name)), name
        assert made.rules == written.rules and made.with_specials(["<s>"]) is made
        start = made.start_state()
        assert type(start) is type(written.start_state()) and start.expand() == written.start_state().expand()


MANY = [f"{'long ' * (at % 30)}{at:x}" for at in range(20_000)]


@pytest.mark.parametrize(
    ("make", "units"),
    [
        (Grammar.choice, 2),
        (lambda texts: Grammar.from_lark(Grammar.choice(texts[:500]).to_lark()), 4),
        (lambda texts: Grammar.from_regex("|".join(texts[:2000])), 16),
        (lambda texts: Grammar.from_json_schema({"enum": texts}), 2),
    ],
    ids=["choice", "printed", "alternatives of a pattern", "enum"],
)
def test_many_texts_are_a_set_which_nobody_parses(make, units):
    with metered(Budget(units * len(MANY))):
        constraint = c.compile(make(MANY), VOCABULARY)
    matcher = constraint.matcher()
    text = '"' * constraint.matcher().accepts(ord('"')) + MANY[77]
    for byte in text.encode() + b'"' * text.startswith('"'):
        matcher.advance(byte)
    assert matcher.is_accepting()
    assert not matcher.accepts(ord("g"))
