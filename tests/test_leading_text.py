"""Thoughts that leave their budget: a leading text ends within so many tokens, and what follows is not counted."""

from __future__ import annotations

import pickle
import random
import re

import numpy as np
import pytest
from laws import unpacked

import constrained as c

ANSWER = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
MOST = 6
TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}]
PIECES = [b"</", b"think>", b"</think>", b"</think>{", b'{"a":', b"hello ", b"k>", b"<think>", b"\n</"]


def bytes_and(pieces, special):
    names = {name: 256 + len(pieces) + at for at, name in enumerate(special)}
    return c.Vocabulary([*(bytes([byte]) for byte in range(256)), *pieces], special=names, stop=[names[special[0]]])


@pytest.fixture(scope="module")
def vocabulary():
    return bytes_and(PIECES, ["<end>"])


@pytest.fixture(scope="module")
def thinking(vocabulary):
    answer = c.Grammar.from_json_schema(ANSWER, whitespace="compact")
    return c.compile(c.Grammar.text(until="</think>", max_tokens=MOST) + answer, vocabulary)


def allowed_of(matcher):
    mask = np.zeros((1, matcher.constraint.vocabulary.words), np.int32)
    matcher.fill_mask(mask)
    return np.flatnonzero(unpacked(mask, matcher.constraint.vocabulary.size))


def tokens_until(matcher, until, begins=b""):
    """Return how many tokens a generation took until its leading text ended; None: it has none."""
    vocabulary, text = matcher.constraint.vocabulary, b""
    for count, token in enumerate(matcher.tokens, 1):
        text += vocabulary.tokens[token] or vocabulary.names[token].encode()
        if text.lstrip().startswith(begins) and until in text.lstrip()[len(begins) :]:
            return count
    return None


@pytest.mark.parametrize("budget", [None, 0, 1, 7, 40])  # more than the shortest
def test_a_leading_text_ends_in_time_and_the_mask_is_what_is_accepted(thinking, budget):
    chance = random.Random(budget)
    for _ in range(12):
        matcher = thinking.matcher(budget=None if budget is None else thinking.min_tokens + budget)
        for _ in range(60):
            allowed = allowed_of(matcher)
            assert [token for token in range(thinking.vocabulary.size) if matcher.accepts(token)] == allowed.tolist()
            matcher.advance(int(chance.choice(allowed)))
            if matcher.is_finished():
                break
        assert tokens_until(matcher, b"</think>") <= MOST
        if budget is not None:
            assert matcher.is_finished()
            assert len(matcher.tokens) <= thinking.min_tokens + budget + 1  # the stop token


def test_what_is_forbidden_cannot_end_in_time(thinking):
    """By brute force over what ends the text: no token is missing that leaves room for the shortest end."""
    plain = c.compile(c.Grammar.text(until="</think>") + c.Grammar.from_json_schema(ANSWER, whitespace="compact"),
                      thinking.vocabulary)  # fmt: skip
    texts, ends = thinking.vocabulary.tokens, {"</think>": 1, "/think>": 2, "think>": 1, "hink>": 4, "ink>": 3, "nk>": 2,
                                               "k>": 1, ">": 1}  # fmt: skip
    for read in ("", "abc", "abcd", "abc<", "ab</"):
        one, other = thinking.matcher(), plain.matcher()
        for byte in read.encode():
            one.advance(byte), other.advance(byte)
        left = MOST - len(read)
        for token in allowed_of(other).tolist():
            text = read.encode() + texts[token]
            whole = "utf-8" if b"</think>" in text or text.isascii() else None
            if whole is None:
                continue
            rest = next((end for end in reversed(ends) if b"</think>".endswith(end.encode())
                         and text.endswith(b"</think>"[: 8 - len(end)])), "</think>")  # fmt: skip
            ended = 0 if b"</think>" in text else ends[rest]
            assert one.accepts(token) == (ended + 1 <= left), (read, texts[token])


def test_far_from_the_limit_masks_are_the_plain_ones(vocabulary):
    answer = c.Grammar.from_json_schema(ANSWER, whitespace="compact")
    limited = c.compile(c.Grammar.text(until="</think>", max_tokens=500) + answer, vocabulary).matcher()
    plain = c.compile(c.Grammar.text(until="</think>") + answer, vocabulary).matcher()
    for token in vocabulary.tokenize(b'hello </think>{"a":1}'):
        assert allowed_of(limited).tolist() == allowed_of(plain).tolist()
        limited.advance(token), plain.advance(token)
    assert limited.is_accepting()


def test_it_goes_back_and_is_copied_with_its_limit(thinking):
    matcher = thinking.matcher()
    for token in b"abcde":
        matcher.advance(token)
    twin, again = matcher.copy(), pickle.loads(pickle.dumps(matcher))
    for one in (matcher, twin, again):
        assert not one.accepts(ord("f"))
        assert one.accepts(thinking.vocabulary.tokens.index(b"</think>"))
    assert "max_tokens leaves 1 token until '</think>'" in matcher.explain(ord("f"))
    matcher.rollback(3)
    assert matcher.accepts(ord("f"))
    matcher.reset()
    assert allowed_of(matcher).tolist() == allowed_of(thinking.matcher()).tolist()


def test_a_special_token_may_end_it():
    vocabulary = bytes_and([], ["<end>", "</think>"])
    matcher = c.compile(c.Grammar.text(until="</think>", max_tokens=2) + c.Grammar.choice(["x"]), vocabulary).matcher()
    matcher.advance(ord("a"))
    assert allowed_of(matcher).tolist() == [vocabulary.special["</think>"]]


def test_it_is_saved_and_read_again(thinking, tmp_path):
    thinking.save(tmp_path / "thinking")
    again = c.Constraint.load(tmp_path / "thinking", thinking.vocabulary)
    assert again.grammar.limit == thinking.grammar.limit == ("</think>", MOST, "")


REFUSED = {
    "inside": (lambda g, v: c.Grammar.choice(["x"]) + g, "would stand inside words"),
    "either": (lambda g, v: g | g, "would stand inside words"),
    "optional": (lambda g, v: g.optional(), "would stand inside words"),
    "repeated": (lambda g, v: g.repeat(0, 2), "would stand inside words"),
    "defined": (lambda g, v: c.Grammar.from_lark('start: "a" t', define={"t": g}), "would stand inside words"),
    "no until": (lambda g, v: c.Grammar.text(max_tokens=3), "max_tokens without until"),
    "no number": (lambda g, v: c.Grammar.text(until="x", max_tokens="3"), "max_tokens is '3'"),
    "zero": (lambda g, v: c.Grammar.text(until="x", max_tokens=0), "max_tokens is 0"),
    "too few": (lambda g, v: c.compile(c.Grammar.text("abcdefghij", 3), v).matcher(), "'abcdefghij' takes 10 tokens"),
    "no thoughts": (lambda g, v: c.ChatFormat.load("llama-3.1").grammar(reasoning_budget=5), "no reasoning_budget|takes no"),
    "no tokens": (lambda g, v: c.ChatFormat.load("qwen3").grammar(reasoning_budget=0), "reasoning_budget is 0"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_limited_is_refused(what, vocabulary):
    make, because = REFUSED[what]
    with pytest.raises(c.ConstrainedError, match=because):
        make(c.Grammar.text(until="x", max_tokens=4), vocabulary)


def test_other_engines_count_no_tokens():
    from constrained.export.engines import export

    with pytest.raises(c.ConstrainedError, match="xgrammar has no max_tokens"):
        export(c.Grammar.text(until="x", max_tokens=4), "xgrammar")


THINKING = [
    name for name in c.ChatFormat.names() if (made := c.ChatFormat.load(name).definition).reasoning is not None
    and made.generates_thoughts and made.prompt != "think-closed" and name != "openchatml"  # thinks in a message
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", THINKING)
def test_thoughts_of_formats_leave_their_budget(name):
    """Random walks, every other one begun by a thought where the format leaves that to the model."""
    grammar = c.ChatFormat.load(name).grammar(TOOLS, reasoning_budget=12)
    until, most, begins = grammar.limit
    vocabulary = bytes_and(PIECES, sorted(grammar.stops) + sorted(grammar.specials - grammar.stops))
    constraint, chance = c.compile(grammar, vocabulary), random.Random(name)
    opener = [piece for piece in re.split("|".join(f"({re.escape(one)})" for one in vocabulary.special), begins) if piece]
    for walk in range(8):
        matcher = constraint.matcher(budget=constraint.min_tokens + 40 if walk % 4 > 1 else None)
        for piece in opener if walk % 2 else ():
            for token in [vocabulary.special[piece]] if piece in vocabulary.special else piece.encode():
                if matcher.accepts(token):
                    matcher.advance(token)
        for _ in range(60):
            allowed = allowed_of(matcher)
            assert allowed.size
            matcher.advance(int(chance.choice(allowed)))
            if matcher.is_finished():
                break
        text = matcher.text().decode("utf-8", "replace").lstrip()
        if text.startswith(begins.strip()):
            assert tokens_until(matcher, until.encode(), begins.strip().encode()) <= most


def test_none_and_a_prompt_that_has_ended_the_thought_leave_nothing_to_limit():
    chat = c.ChatFormat.load("qwen3.5")
    assert chat.grammar(reasoning="none", reasoning_budget=5).limit is None
    assert chat.grammar(prompt=chat.generation_prompt(thinking=False), reasoning_budget=5).limit is None
    assert chat.grammar(prompt=chat.generation_prompt(thinking=True), reasoning_budget=5).limit == ("</think>", 5, "")
