"""Budgets: words end within so many tokens, masks and calls agree, ways out are the shortest, and large budgets change
nothing.
"""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from unittest.mock import patch

import jsonschema
import numpy as np
import pytest
from laws import assert_mask_is_accepts, hard_vocabulary, separating_vocabulary
from reference import ReferenceKernel

import constrained as c
from benchmarks import always_finished
from benchmarks.tool_sets import tool_sets
from benchmarks.vocabularies import llama3
from constrained.budget import lookahead
from constrained.budget.completion import Completions
from constrained.budget.lookahead import Lookahead
from constrained.engine.plain import PlainKernel
from constrained.work import spend

FORMATS = ("chatglm3", "hermes", "internlm2", "llama3.1", "mistral-v11", "qwen3-coder")
TEXTS = {
    "integer": {"type": "integer"},
    "object": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "null"}},
        "required": ["b"],
        "additionalProperties": False,
    },
    "array": {"type": "array", "items": {"enum": ["x", 12, None]}, "minItems": 2},
    "union": {"anyOf": [{"const": "hello"}, {"type": "array", "minItems": 1, "items": {"type": "boolean"}}]},
    "escapes": {"enum": ['"\\', "\u2028\n"]},
    "listed numbers": {"enum": [12.5, 130, 0.007, -4e20, 1300, 1234.5]},
    "distinct numbers": {"type": "array", "items": {"enum": [7, 3, 8, 9]}, "minItems": 3, "uniqueItems": True},
}


@pytest.fixture(scope="module")
def hard():
    return hard_vocabulary()


def _mask(matcher) -> np.ndarray:
    row = np.zeros((1, matcher.constraint.vocabulary.words), np.int32)
    matcher.fill_mask(row)
    return row


def _cases(vocabulary, schemas=None, formats=()):
    return always_finished.cases(vocabulary, formats, schemas)


@pytest.mark.parametrize("name", sorted(always_finished.SCHEMAS))
def test_words_of_schemas_end_within_their_budget(name, tiny_vocabulary):
    (case,) = _cases(tiny_vocabulary, [name])
    least = case.constraint.min_tokens
    for budget, eager in ((least, True), (least + 4, False), (least + 9, True)):
        ids = always_finished.walk(case.constraint, budget, random.Random(budget), eager=eager)
        assert case.fault(ids, budget) is None


@pytest.mark.parametrize("name", FORMATS)
def test_turns_of_formats_end_within_their_budget(name, tiny_vocabulary):
    for case in _cases(tiny_vocabulary, [], [name]):
        budget = case.constraint.min_tokens + 4
        assert (
            case.fault(always_finished.walk(case.constraint, budget, random.Random(budget), eager=True), budget) is None
        )


@pytest.mark.parametrize(("name", "before"), [("mistral-v11", b"[CALL_ID]"), ("cohere-xml", b'id="')])
def test_ids_are_not_told_apart_while_one_is_written(name, before, tiny_vocabulary):
    """A way out writes one of a few first ids: what the others become is the same for all of them."""
    *_, case = _cases(tiny_vocabulary, [], [name])
    matcher = case.constraint.matcher(budget=99)
    while before not in matcher.text():
        matcher.advance(matcher.shortest_completion()[0])
    allowed = np.unpackbits(_mask(matcher).view(np.uint8), bitorder="little") > 0
    found = case.constraint.completions().successors(matcher._place()[0], lambda: allowed)
    assert np.count_nonzero(found.texts) > 5 * len(found.used)


@pytest.mark.parametrize("soft_close", [0, 4])
@pytest.mark.parametrize("name", ["open object", "distinct strings", "recursion", "long choice"])
def test_the_mask_is_what_advance_takes(name, soft_close, tiny_vocabulary):
    (case,) = _cases(tiny_vocabulary, [name])
    picks = random.Random(3)
    matcher = case.constraint.matcher(budget=case.constraint.min_tokens + 4, soft_close=soft_close)
    plain = case.constraint.matcher()
    for _ in range(6):
        allowed = assert_mask_is_accepts(matcher)
        assert not (_mask(matcher) & ~_mask(plain)).any()
        longer = [token for token in allowed if token not in tiny_vocabulary.stop]
        if not longer:
            break
        refused = next((token for token in range(tiny_vocabulary.size) if token not in allowed), None)
        if refused is not None:
            with pytest.raises(c.Rejected):
                matcher.advance(refused)
            assert "not allowed" in matcher.explain(refused)
        token = picks.choice(longer)
        matcher.advance(token)
        plain.advance(token)


@pytest.mark.parametrize("name", ["open object", "distinct strings", "long choice", "date-time"])
def test_a_large_budget_changes_nothing(name, tiny_vocabulary):
    (case,) = _cases(tiny_vocabulary, [name])
    large, plain, picks = case.constraint.matcher(budget=10_000), case.constraint.matcher(), random.Random(5)
    for _ in range(12):
        row = _mask(plain)
        np.testing.assert_array_equal(_mask(large), row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        longer = [token for token in allowed if token not in tiny_vocabulary.stop]
        if not longer:
            break
        token = picks.choice(longer)
        large.advance(token)
        plain.advance(token)
        assert large.forced_tokens() == plain.forced_tokens()


def test_tokens_that_begin_and_end_members_and_items(tmp_path):
    vocabulary, picks = separating_vocabulary(), random.Random(2)
    for case in _cases(vocabulary, ["distinct strings", "counted members", "open object"]):
        for budget in (case.constraint.min_tokens, case.constraint.min_tokens + 3):
            assert case.fault(always_finished.walk(case.constraint, budget, picks, eager=True), budget) is None


HIDDEN = """
start: e+
e: t | N | e a
a: "(" e ")" | t
t: (e " ")*
N: /[a-z]+/
"""


def test_readings_beyond_counting_are_one(tiny_vocabulary):
    """Hidden left recursion: after a few letters there are more stacks than anybody can list."""
    constraint = c.compile(c.Grammar.from_lark(HIDDEN), tiny_vocabulary)
    ids = always_finished.walk(constraint, 30, random.Random(0), eager=True)
    assert always_finished.Case("", constraint).fault(ids, 30) is None and len(ids) > 20
    large, plain = constraint.matcher(budget=10_000), constraint.matcher()
    for token in ids[:8]:
        large.advance(token)
        plain.advance(token)
    np.testing.assert_array_equal(_mask(large), _mask(plain))


@pytest.mark.parametrize("language", ["lua", "sql"])
def test_programs_end_within_their_budget(language, tiny_vocabulary):
    source = Path(__file__).parent / "corpus" / "languages" / f"{language}.lark"
    constraint = c.compile(c.Grammar.from_lark_file(source), tiny_vocabulary)
    for budget in (constraint.min_tokens, constraint.min_tokens + 20):
        ids = always_finished.walk(constraint, budget, random.Random(1), eager=True)
        assert always_finished.Case("", constraint).fault(ids, budget) is None


def test_words_of_recursive_grammars_end_within_their_budget():
    """A slice of ``python -m constrained.benchmarks.always_finished --grammars 1000``."""
    _, texts, refused, faults = always_finished.check_grammars(range(8), spare=(0, 4))
    assert texts >= 30 and not refused and faults == []


def test_white_space_of_unicode_is_not_begun_by_an_overlong_character():
    """U+0085 has two bytes: E0 begins no character that could be it."""
    constraint = c.compile(c.Grammar.from_lark("start: N+\nN: /[a-z]+/\n%ignore /[ \\x85]+/"), always_finished.pieces())
    for budget in (1, 3):
        assert always_finished.Case("", constraint).fault(
            always_finished.walk(constraint, budget, random.Random(0), eager=True), budget) is None
    tracker = constraint.completions().tracker
    assert tracker.next_bytes(tracker.step_bytes(constraint.begun(tracker), b"a")) == b" abcdefghijklmnopqrstuvwxyz\xc2"


def test_a_generation_that_has_begun_goes_on_without_work(monkeypatch):
    """Where looking ahead is out of work the completion that is known is followed."""
    constraint = c.compile(c.Grammar.from_lark(HIDDEN), always_finished.pieces())
    matcher, ids = constraint.matcher(budget=20), constraint.vocabulary.tokenize(b"(ab xy")
    for token in ids:
        matcher.advance(token)
    completion = matcher.shortest_completion()
    monkeypatch.setattr(Lookahead, "_span", lambda *_: spend(1 << 40))
    for token in completion:
        assert_mask_is_accepts(matcher)
        allowed = np.flatnonzero(np.unpackbits(_mask(matcher).view(np.uint8), bitorder="little")).tolist()
        assert allowed == [token] and matcher.shortest_completion()[0] == token
        matcher.advance(token)
    assert matcher.is_accepting() and completion


@pytest.mark.parametrize("number", range(1, 4))
def test_merged_stacks_read_what_stacks_apart_read(number):
    vocabulary, picks = always_finished.pieces(), random.Random(number)
    root = c.compile(c.Grammar.from_lark(always_finished.recursive_grammar(picks)), vocabulary)
    kernels = [
        kind(vocabulary, root._root, nullable=root._nullable, specials={}) for kind in (PlainKernel, ReferenceKernel)
    ]
    states = [kernel.start for kernel in kernels]
    for _ in range(6):
        merged, apart = (kernel.next_bytes(state) for kernel, state in zip(kernels, states, strict=True))
        final = [kernel.is_final(state) for kernel, state in zip(kernels, states, strict=True)]
        assert merged == apart and final[0] == final[1]
        if not merged:
            break
        byte = picks.choice(merged)
        states = [kernel.step_byte(state, byte) for kernel, state in zip(kernels, states, strict=True)]


def _closed(**properties):
    return {"type": "object", "properties": properties, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize("item", [
    {"anyOf": [_closed(a={"type": "string", "pattern": pattern}) for pattern in ("^[0-9]*$", "^[:,}a1]*$")]},
    _closed(a={"type": "string"}, b={"type": "string"}),
    _closed(a={"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2}),
    {"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 1, "maxProperties": 1},
    {"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 2},
], ids=["two languages", "one", "lists", "keys", "several keys"])
def test_items_that_must_differ_end_within_their_budget(item):
    """A text may only be forgotten where every item has the same texts in its place (`Distinct.alike`)."""
    schema = {"type": "array", "items": item, "uniqueItems": True, "minItems": 2, "maxItems": 3}
    vocabulary = separating_vocabulary()
    constraint = c.compile(c.Grammar.from_json_schema(schema, whitespace="compact"), vocabulary)
    for extra in (0, 1, 3):
        ids = always_finished.walk(constraint, constraint.min_tokens + extra, random.Random(extra), eager=True)
        written = [token for token in ids if token not in vocabulary.stop]
        jsonschema.validate(json.loads(vocabulary.decode(written)), schema)
        assert len(written) <= constraint.min_tokens + extra


def test_objects_that_must_differ_are_not_told_apart_while_one_is_written(tiny_vocabulary):
    (case,) = _cases(tiny_vocabulary, ["distinct objects"])
    matcher = case.constraint.matcher(budget=99)
    for token in tiny_vocabulary.tokenize(b'[{"a":"x'):
        matcher.advance(token)
    allowed = np.unpackbits(_mask(matcher).view(np.uint8), bitorder="little") > 0
    found = case.constraint.completions().successors(matcher._place()[0], lambda: allowed)
    assert np.count_nonzero(found.texts) > 500 and len(found.used) < 100


def _fewest_bytes(matcher) -> int:
    """Return how many bytes it takes to a complete word, by breadth-first search over the automaton."""
    kernel, level, length = matcher._kernel, {matcher._last[0]}, 0
    while not any(kernel.is_final(state) for state in level):
        level = {kernel.step_byte(state, byte) for state in level for byte in kernel.next_bytes(state)}
        length += 1
    return length


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
def test_only_what_ends_a_python_string_or_begins_an_escape_is_not_raw(kernel):
    if kernel == "compiled":
        pytest.importorskip("constrained.engine.kernel._kernel")
    vocabulary = c.Vocabulary([bytes([byte]) for byte in range(256)], special={"<stop>": 256}, stop=[256], size=257)
    matcher = c.compile(
        c.Grammar.from_json_schema({"type": "string"}, surface="python"), vocabulary, kernel=kernel
    ).matcher()
    matcher.advance(ord("'"))
    assert [char for char in map(chr, range(128)) if not matcher.accepts(ord(char))] == ["\0", "\n", "\r"]
    matcher.advance(ord("\\"))
    assert not matcher.accepts(ord("]")) and matcher.accepts(ord("\\"))


@pytest.mark.parametrize(
    ("schema", "tokens"),
    [
        ({"const": "日本"}, 8),
        ({"const": "é"}, 4),
        ({"enum": ["\u2028", "ab"]}, 4),
        ({"pattern": "^[日-日]+$", "type": "string"}, 5),
    ],
)
def test_ways_spell_characters_raw_where_that_is_shortest(schema, tokens):
    vocabulary = c.Vocabulary([bytes([byte]) for byte in range(256)], special={"<stop>": 256}, stop=[256], size=257)
    assert c.compile(c.Grammar.from_json_schema(schema), vocabulary).min_tokens == tokens


def _fewest_tokens(constraint) -> int:
    """Return how many tokens the shortest word has, stop token aside, by breadth-first search over whole tokens."""
    level, seen, length = [constraint.matcher()], set(), 0
    while not any(matcher.is_accepting() for matcher in level):
        following = []
        for matcher in level:
            for token in np.flatnonzero(np.unpackbits(_mask(matcher).view(np.uint8), bitorder="little")).tolist():
                after = matcher.copy()
                after.advance(token)
                if after._last[0] not in seen:
                    seen.add(after._last[0])
                    following.append(after)
        level, length = following, length + 1
    return length


_BYTES = [bytes([byte]) for byte in range(128)]
_PIECES = [
    b'{"',
    b'":',
    b'"}',
    b'", "',
    b"true",
    b"null",
    b"[[",
    b"]]",
    b"hel",
    b"lo",
    b'"hello',
    b"12",
    b", ",
    b"ab",
    b"ba",
    b"aba",
]
_WORDS = [b"hello", b"aa", b"bb" * 10]
# pattern or schema → where brute force finds fewer tokens than `min_tokens`, which takes a shortest word in bytes:
# vocabulary → (ours, fewest)
SHORTEST = [
    ("hello", {}),
    ("(ab)+a", {}),
    ("a{7}|b{9}", {}),
    ("(0|[1-9][0-9]*)", {}),
    ("a{5,9}|(hello){2}", {"pieces": (5, 4), "words": (3, 2)}),
    ("x?(aa|hello)", {}),
    ("h(el)*lo", {"words": (3, 1)}),
    ("[^a]{3}", {"pieces": (3, 1)}),
    ("(ab|ba){5}", {"words": (10, 8)}),
    ("zzz|hellohello", {"words": (3, 2)}),
    ({"type": "string", "pattern": r"^[\x01-\x03]{2}$"}, {}),
    *((schema, {"pieces": (3, 2), "words": (6, 3)} if name == "union" else {}) for name, schema in TEXTS.items()),
]


@pytest.mark.parametrize("pieces", ["bytes", "pieces", "words"])
@pytest.mark.parametrize(("language", "longer"), SHORTEST, ids=lambda value: str(value)[:40])
def test_min_tokens_is_that_of_brute_force(language, longer, pieces):
    """Exact over single bytes, and wherever a shortest word in bytes has the fewest tokens too; else an upper bound
    that a word has.
    """
    texts = {"bytes": [], "pieces": _PIECES, "words": _WORDS}[pieces]
    vocabulary = c.Vocabulary([*_BYTES, *texts], special={"<stop>": 200}, stop=[200], size=201)
    grammar = (
        c.Grammar.from_regex(language)
        if isinstance(language, str)
        else c.Grammar.from_json_schema(language, whitespace="compact")
    )
    constraint = c.compile(grammar, vocabulary)
    fewest = _fewest_tokens(constraint)
    assert (constraint.min_tokens, fewest) == longer.get(pieces, (fewest, fewest))
    assert len(constraint.matcher(budget=constraint.min_tokens).shortest_completion()) == constraint.min_tokens


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_the_way_out_is_the_shortest(name, hard):
    matcher, picks = c.compile(c.Grammar.from_json_schema(TEXTS[name]), hard).matcher(), random.Random(1)
    for _ in range(5):
        completion = matcher.shortest_completion()
        assert len(hard.decode(completion)) == _fewest_bytes(matcher)
        twin = matcher.copy()
        for token in completion:
            twin.advance(token)
        assert twin.is_accepting()
        allowed = [token for token in assert_mask_is_accepts(matcher) if token not in hard.stop]
        if not allowed:
            break
        matcher.advance(picks.choice(allowed))


@pytest.mark.parametrize("opened", [b'["@', b'["@","x'])
def test_tokens_that_hold_a_second_text_are_stepped_exactly(opened):
    """Looking ahead forgets one text; what stands in the second of a token it does not know."""
    vocabulary = c.Vocabulary([*_BYTES, b'(",",', b'","', b'a","b', b'+","+","'], special={"<stop>": 200}, stop=[200])
    constraint = c.compile(c.Grammar.from_json_schema(always_finished.SCHEMAS["distinct strings"]), vocabulary)
    large, plain = constraint.matcher(budget=10_000), constraint.matcher()
    for byte in opened:
        large.advance(byte)
        plain.advance(byte)
    np.testing.assert_array_equal(_mask(large), _mask(plain))
    large.advance(128)
    assert large.shortest_completion()


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_the_first_mask_of_many_tokens_is_within_the_work_of_one(choice):
    """Free text behind which many terminals end: ways out ask for the same edges at every byte."""
    vocabulary = llama3()
    if vocabulary is None:
        pytest.skip("llama-models is not installed")
    chat = c.ChatFormat.load("llama3.1-combined")
    tools = next(iter(tool_sets(chat.name).values())).tools
    constraint = c.compile(chat.grammar(tools, tool_choice=choice), vocabulary)
    assert _mask(constraint.matcher(budget=constraint.min_tokens + 2)).any()


def test_moves_leave_masks_as_a_fresh_walk_has_them(tiny_vocabulary):
    (case,) = _cases(tiny_vocabulary, ["open object"])
    budget, picks = case.constraint.min_tokens + 3, random.Random(9)
    ids = always_finished.walk(case.constraint, budget, picks, eager=True)
    matcher = case.constraint.matcher(budget=budget)
    masks = []
    for token in ids:
        masks.append(_mask(matcher))
        matcher.advance(token)
    for back in (1, 3, len(ids)):
        twin = pickle.loads(pickle.dumps(matcher))
        copy = matcher.copy()
        for moved in (twin, copy):
            moved.rollback(back)
            np.testing.assert_array_equal(_mask(moved), masks[len(ids) - back])
            assert moved.remaining >= len(moved.shortest_completion())
    matcher.reset()
    np.testing.assert_array_equal(_mask(matcher), masks[0])
    rows = np.zeros((2, tiny_vocabulary.words), np.int32)
    c.fill_masks([matcher, case.constraint.matcher()], rows)
    np.testing.assert_array_equal(rows[:1], masks[0])


def test_a_budget_that_is_too_small_is_refused(hard):
    constraint = c.compile(c.Grammar.from_json_schema({"type": "string", "minLength": 50}), hard)
    with pytest.raises(c.LimitExceeded, match=f"the shortest word that is known has {constraint.min_tokens} tokens"):
        constraint.matcher(budget=constraint.min_tokens - 1)
    with pytest.raises(c.LimitExceeded, match="a budget of 1 token is too small"):
        constraint.matcher(budget=1)
    with pytest.raises(c.ConstrainedError, match="it is a number of tokens"):
        constraint.matcher(budget=-1)
    with pytest.raises(c.ConstrainedError, match="soft_close without a budget"):
        constraint.matcher(soft_close=3)


def test_a_soft_close_opens_nothing_near_the_end(tiny_vocabulary):
    constraint = c.compile(c.Grammar.from_json_schema({"type": "array", "items": {"type": "array"}}), tiny_vocabulary)
    opened, (bracket,) = [], tiny_vocabulary.tokenize(b"[")
    for soft_close in (0, 8):
        matcher = constraint.matcher(budget=12, soft_close=soft_close)
        while matcher.accepts(bracket):
            matcher.advance(bracket)
        opened.append(len(matcher.tokens))
    assert opened == [6, 3]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "string", "maxLength": 3},
        {"type": "string", "pattern": "^[a-zé€]*$"},
        {"type": "string", "pattern": "^[^\\u0000-\\u00ff]*$"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        True,
    ],
)
@pytest.mark.parametrize("surface", ["json", "python"])
@pytest.mark.parametrize("steps", ["compiled", "plain"])
def test_successors_are_those_of_every_token(tiny_vocabulary, schema, steps, surface, monkeypatch):
    """What the walk leaves out, because only characters lie below that lead back, leads where each token leads by
    itself, and ways are as long as those from the real states.
    """
    grammar = c.Grammar.from_json_schema(schema, whitespace="compact", surface=surface)
    constraint, picks = c.compile(grammar, tiny_vocabulary), random.Random(1)
    if steps == "plain":
        monkeypatch.setattr(lookahead, "Steps", None)
    monkeypatch.setattr(tiny_vocabulary.kernels, "completions", None)
    known, row = constraint.completions(), np.zeros((1, tiny_vocabulary.words), np.int32)
    matcher, state = constraint.matcher(), constraint.begun(known.tracker)
    exact = state
    for _ in range(6):
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).astype(np.int32)
        flags = np.zeros(tiny_vocabulary.size, np.bool_)
        flags[allowed] = True
        found = known.successors(state, lambda flags=flags: flags)
        by_token = dict(zip(tiny_vocabulary.trie.ids.tolist(), found.texts.tolist(), strict=True)) | found.named
        by_token = {token: after for token, after in by_token.items() if after}
        assert {*found.used} == {*by_token.values()}
        ways = {token: known.length(after) for token in allowed.tolist() if (after := known.after(state, token)) != 0}
        assert {token: known.length(after) for token, after in by_token.items()} == ways
        assert ways == {token: known.length(known.tracker.step_token(exact, token)) for token in ways}
        if not by_token:
            break
        matcher.advance(token := picks.choice([*by_token]))
        state, exact = known.after(state, token), known.tracker.step_token(exact, token)


def test_unfinished_tokens():
    vocabulary = c.Vocabulary(
        [b"a", "é".encode(), b"\xc3", b"a\xe2\x82", "a€".encode(), b"\xf0\x9f\x98", b"\x80", b"\xc3a"]
    )
    assert {*vocabulary.trie.ids[vocabulary.unfinished].tolist()} == {2, 3, 5}


def test_work_that_is_taken_off_behind_a_limit_ends_no_generation(tiny_vocabulary):
    """As a kernel takes it off that ends an operation in which the looking ahead has met its bound."""
    constraint = c.compile(c.Grammar.from_json_schema(TEXTS["object"]), tiny_vocabulary)
    matcher, ahead = constraint.matcher(budget=30), constraint.ahead

    def followed(_: object, at: int) -> None:
        try:
            ahead.spend(ahead.left + 1)
        finally:
            ahead.left -= 7

    with patch.object(type(matcher), "_followed", autospec=True, side_effect=followed):
        while completion := matcher.shortest_completion():
            _mask(matcher)
            matcher.advance(completion[0])
    assert matcher.accepts(constraint.vocabulary.stop[0]) and 0 < len(matcher.tokens) <= 30


def test_matchers_whose_completions_are_full_do_not_look_ahead_once_more(tiny_vocabulary, monkeypatch):
    constraint = c.compile(c.Grammar.from_json_schema(TEXTS["object"]), tiny_vocabulary)
    matcher, full = constraint.matcher(budget=30), constraint.completions()
    for token in constraint.vocabulary.tokenize(b'{"a":"some words","b":nu'):
        matcher.advance(token)
    expected = _mask(matcher)
    monkeypatch.setattr(Completions, "is_full", lambda known: known is full)
    twin = matcher.copy()
    matcher.rollback(1)
    matcher.advance(twin.tokens[-1])
    with patch.object(Completions, "successors", autospec=True, side_effect=Completions.successors) as looked:
        assert (_mask(matcher) == expected).all()
    assert constraint.completions() is not full
    assert looked.call_count <= 2
