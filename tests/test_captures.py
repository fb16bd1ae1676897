"""Captures: what named rules derived, against `re` and against enumeration of all derivations on small grammars."""

from __future__ import annotations

import itertools
import pickle
import re
import sys

import pytest
from laws import hard_vocabulary

import constrained as c
from constrained.engine.captures import captures
from constrained.errors import UnknownRule

THINK = """start: "<think>" thought "</think>" answer
thought: /[a-z ]*/
answer: "yes" | "no" number+
number: /[0-9]+/ ","?
"""
# grammar → text → rule → what is captured
TABLE = {
    "think": (
        THINK,
        "<think>hm hm</think>no12,3",
        {"thought": ["hm hm"], "answer": ["no12,3"], "number": ["12,", "3"]},
    ),
    "nothing": (THINK, "<think></think>yes", {"thought": [""], "answer": ["yes"], "number": []}),
    "nested": ('start: "(" start ")" | item\nitem: "a"', "((a))", {"start": ["((a))", "(a)", "a"], "item": ["a"]}),
    "left recursion": (
        'start: start "+" term | term\nterm: /[0-9]/',
        "1+2+3",
        {"start": ["1+2+3", "1+2", "1"], "term": ["1", "2", "3"]},
    ),
    "a circle": ('start: a\na: b | "x"\nb: a | "y"', "x", {"start": ["x"], "a": ["x"], "b": []}),
    "empty parts": ('start: a b a\na: "x"?\nb: "x"?', "x", {"a": ["x", ""], "b": [""]}),
    "the longest first": ("start: a b\na: /x*/\nb: /x*/", "xxx", {"a": ["xxx"], "b": [""]}),
    "the first alternative": ('start: a | b\na: "x" c\nb: "xy"\nc: "y"', "xy", {"a": ["xy"], "b": [], "c": ["y"]}),
    "hidden rules": ('start: _pair _pair\n_pair: key ":"\nkey: /[a-z]/', "a:b:", {"key": ["a", "b"]}),
    "characters": ('start: word " " word\nword: /[^ ]+/', "né 日本", {"word": ["né", "日本"]}),
}


@pytest.fixture(scope="module")
def hard():
    return hard_vocabulary()


def _texts(found):
    return {rule: [capture.text for capture in listed] for rule, listed in found.items()}


@pytest.mark.parametrize("name", TABLE)
def test_named_rules_are_captured(name, hard):
    grammar, text, expected = TABLE[name]
    constraint = c.compile(c.Grammar.from_lark(grammar), hard)
    found = captures(constraint, text)
    assert {rule: _texts(found)[rule] for rule in expected} == expected
    assert all(
        capture.text == found.text[capture.start : capture.end] for listed in found.values() for capture in listed
    )
    matcher = constraint.matcher()
    for token in hard.tokenize(text.encode()):
        matcher.advance(token)
    assert _texts(matcher.captures()) == _texts(found)


@pytest.mark.parametrize(
    "groups", [{"a": "x*", "b": "(?:xy)*", "c": "y?"}, {"a": "xy?", "b": "y?x?"}, {"a": "(?:x|y)*", "b": "x"}], ids=str
)
def test_greedy_groups_are_those_of_re(groups, hard):
    """A grammar of a sequence of patterns captures what the backtracking of `re` does, where all of them are greedy."""
    text = f"start: {' '.join(groups)}\n" + "".join(f"{name}: /{body}/\n" for name, body in groups.items())
    greedy = re.compile("".join(f"(?P<{name}>{body})" for name, body in groups.items()))
    constraint, compared = c.compile(c.Grammar.from_lark(text), hard), 0
    for word in ("".join(word) for size in range(6) for word in itertools.product("xy", repeat=size)):
        expected = greedy.fullmatch(word)
        if expected is None:
            with pytest.raises(c.Rejected):
                captures(constraint, word)
            continue
        compared += 1
        found = _texts(captures(constraint, word))
        assert {name: [value] for name, value in expected.groupdict().items()} == {
            name: found[name] for name in groups
        }, word
    assert compared > 3


def test_schemas_and_special_tokens(tiny_vocabulary):
    answer = c.Grammar.from_json_schema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    name = next(
        name for name in sorted(tiny_vocabulary.special) if tiny_vocabulary.special[name] not in tiny_vocabulary.stop
    )
    grammar = c.Grammar.from_lark(
        f'start: MARK thought MARK answer\nthought: /[^{{]*/\nMARK: "{name}"',
        specials=[name],
        define={"answer": answer},
    )
    constraint, text = c.compile(grammar, tiny_vocabulary), name + "so" + name + '{"n": -12, "more": [1]}'
    found = captures(constraint, text)
    assert (found["answer"][0].text, found["thought"][0].text) == ('{"n": -12, "more": [1]}', "so")
    assert found.text == text and found["answer"][0].start == len(text) - 23
    special = tiny_vocabulary.special[name]
    tokens = [special, *tiny_vocabulary.tokenize(b"so"), special, *tiny_vocabulary.tokenize(text[-23:].encode())]
    assert (
        _texts(captures(constraint, tokens))
        == _texts(captures(constraint, [*tokens, tiny_vocabulary.stop[0]]))
        == _texts(found)
    )
    assert repr(found).startswith("<Captures {'start': ")
    assert "<td>answer<td>" in found._repr_html_() and "{&quot;n&quot;: -12" in found._repr_html_()


def test_rules_keep_their_names_where_grammars_are_put_together(hard):
    thought = c.Grammar.from_lark('start: "<" _part thought ">"\nthought: /[a-z ]*/\n_part: "-"*\nmore: "m"')
    answer = c.Grammar.from_lark('start: answer more?\nanswer: /[0-9]/\nmore: "!" part0_start?\npart0_start: "?"')
    for grammar in (thought + answer, (thought + answer).optional(), c.Grammar.choice(["x"]) | (thought + answer)):
        found = _texts(captures(c.compile(grammar, hard), "<--hm>7!?"))
        assert (found["thought"], found["answer"], found["part0_start"]) == (["hm"], ["7"], ["?"])
        assert found["start"] == ["<--hm>7!?"] and not any(rule.startswith("_") for rule in found)
    twice = _texts(captures(c.compile(answer + answer, hard), "12"))
    assert (twice["part0_answer"], twice["part1_answer"]) == (["1"], ["2"])
    assert _texts(captures(c.compile(answer.repeat(1, 3), hard), "12!3"))["answer"] == ["1", "2", "3"]


def test_what_is_no_word_yet(hard):
    constraint = c.compile(c.Grammar.from_lark(THINK), hard)
    for text in ("", "<think>", "<think></think>no", "<think></think>yes!"):
        with pytest.raises(c.Rejected, match="not a word of the grammar"):
            captures(constraint, text)


@pytest.mark.parametrize(("text", "error", "says"), [
    (None, c.ConstrainedError, "no text and no token ids: None"), (7, c.ConstrainedError, "no text and no token ids: 7"),
    (b"1", c.ConstrainedError, "no text and no token ids"), ([None], c.Rejected, "no token None"),
    ([-1], c.Rejected, "no token -1"), ([-5, 49], c.Rejected, "no token -5"), ([10**5000], c.Rejected, "no token an int"),
    ([1.5], c.Rejected, "no token 1.5"), ([True], c.Rejected, "no token True"), ([[49]], c.Rejected, "no token"),
    ([10**9], c.Rejected, "no token 1000000000"), ([257], c.Rejected, "token 257 <x> is not in the grammar"),
    ([258], c.Rejected, r"token 258 \(unused\) is not in the grammar"), (itertools.repeat(49), c.LimitExceeded, "too much work"),
    ("[" * 60_000, c.LimitExceeded, "too much work"),
], ids=lambda part: str(part)[:20] if not isinstance(part, list) else None)  # fmt: skip
def test_what_is_no_text(text, error, says):
    vocabulary = c.Vocabulary([bytes([byte]) for byte in range(256)], {"</s>": 256, "<x>": 257}, [256], 260)
    grammar = c.Grammar.from_lark("start: /1/* v", define={"v": c.Grammar.from_json_schema({})})
    with pytest.raises(error, match=says):
        captures(c.compile(grammar, vocabulary), text)
    with pytest.raises(c.ConstrainedError, match="not a constraint"):
        captures(grammar, text)


def test_a_name_that_no_rule_has(hard):
    found = captures(c.compile(c.Grammar.from_lark(THINK), hard), "<think></think>yes")
    for name, near in (("anwser", "one of: answer, start"), (None, "one of: start"), ("x" * 10**6, "start, "), ([], "")):
        with pytest.raises(KeyError, match="no rule ") as caught:
            found[name]
        assert isinstance(caught.value, UnknownRule) and near in str(caught.value) and len(str(caught.value)) < 2_048
        assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args
    assert found.get("anwser") is None and "anwser" not in found and "answer" in found


def test_long_texts(hard):
    constraint = c.compile(c.Grammar.from_lark('start: item ("," item)*\nitem: /[a-z]+/'), hard)
    assert len(captures(constraint, ",".join(["ab"] * 2000))["item"]) == 2000


def test_late_bytes_are_captured_as_soon_as_early_ones():
    """Whether a position goes on is not asked byte by byte: those of Chinese come behind all others."""

    called, text = 0, "中文" * 100

    def count(frame, event, argument):
        nonlocal called
        called += event == "call"

    constraint = c.compile(c.Grammar.substring_of(text), c.Vocabulary([bytes([byte]) for byte in range(256)]))
    sys.setprofile(count)
    try:
        assert captures(constraint, text)["start"][0].text == text
    finally:
        sys.setprofile(None)
    assert called < 500 * len(text)
