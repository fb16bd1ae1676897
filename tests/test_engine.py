"""The engine, with either kernel: cursors; bounds; threads; pickling; wrong uses.  The kernels: test_kernels.py."""

from __future__ import annotations

import gc
import pickle
import random
import sys
import threading
import tomllib
import weakref
from pathlib import Path

import numpy as np
import pytest
from laws import assert_kernels_agree, assert_mask_is_accepts, hard_vocabulary, unpacked, varied

import constrained as c
from constrained.engine.compiled import kernel_class

KERNELS = ["plain", "compiled"]
VOCABULARY = hard_vocabulary()
LARK = r"""
start: value
value: STRING | NUMBER | "[" [value ("," value)*] "]" | "{" [pair ("," pair)*] "}" | "<eos>" value
pair: STRING ":" value
STRING: /"[^"\\\n]*"/
NUMBER: /-?[0-9]+(\.[0-9]+)?/
"""
LISTS = {
    "properties": {
        f"k{n}": {"items": {"type": ["string", "null"], "maxLength": 5 + n, "pattern": "^[a-z]+x?"}} for n in range(30)
    }
}
GRAMMARS = {
    "nested": LARK,
    "ambiguous": 'start: e\ne: e e | e "a" e | "a" | "b" "a"?',
    "hidden left recursion": 'start: n start "a" | "b"\nn: "c"?',
    "free text": r"start: /(.|\n)*/ " + '"</" "a"*',
    "right recursion": 'start: "a" start | "ab"',
}


@pytest.fixture(params=KERNELS)
def kernel(request):
    if request.param == "compiled":
        pytest.importorskip("constrained.engine.kernel._kernel")
    return request.param


def constraint_of(text: str, kernel: str | None = None, **options) -> c.Constraint:
    return c.compile(c.Grammar.from_lark(text, specials=["<eos>"]), VOCABULARY, kernel=kernel, **options)


@pytest.mark.parametrize("name", GRAMMARS)
def test_kernels_agree_on_grammars(name):
    pytest.importorskip("constrained.engine.kernel._kernel")
    constraints = [constraint_of(GRAMMARS[name], kind) for kind in KERNELS]
    for seed in range(5):
        assert_kernels_agree(VOCABULARY, [constraint.place() for constraint in constraints], 12, seed)


@pytest.mark.parametrize("name", GRAMMARS)
def test_mask_is_accepts(name, kernel):
    picks, matcher = random.Random(3), constraint_of(GRAMMARS[name], kernel).matcher()
    for _ in range(6):
        allowed = assert_mask_is_accepts(matcher)
        matcher.advance(varied(VOCABULARY, allowed, picks))
        if matcher.is_finished():
            break


def test_one_text_has_one_state(kernel):
    """However a text is split into tokens, the matcher stands in the same place."""
    constraint = constraint_of(LARK, kernel)
    text = b'{"ab":[12,"hello wor","'
    masks = set()
    for seed in range(20):
        picks, matcher, at = random.Random(seed), constraint.matcher(), 0
        while at < len(text):
            fits = [
                token
                for token in range(len(VOCABULARY.tokens))
                if VOCABULARY.tokens[token] and text.startswith(VOCABULARY.tokens[token], at)
            ]
            token = picks.choice(fits)
            matcher.advance(token)
            at += len(VOCABULARY.tokens[token])
        masks.add(row_of(matcher).tobytes())
    assert len(masks) == 1


def row_of(matcher):
    row = np.zeros((1, matcher.constraint.vocabulary.words), np.int32)
    matcher.fill_mask(row)
    return row


@pytest.mark.parametrize("undo", [lambda matcher: matcher.rollback(2), lambda matcher: matcher.reset()])
def test_what_a_rejection_says_is_of_its_time(kernel, undo):
    def refused(matcher):
        with pytest.raises(c.Rejected) as caught:
            matcher.advance(2)
        return caught.value

    def told():
        constraint = c.compile(c.Grammar.from_regex("a{4}|b{4}"), c.Vocabulary([b"a", b"b", b"c"]), kernel=kernel)
        matcher = constraint.matcher()
        for _ in range(2):
            matcher.advance(0)
        return matcher, refused(matcher)

    expected = str(told()[1])
    assert "byte 2, after 2 tokens" in expected
    matcher, error = told()
    twin = matcher.copy()
    undo(matcher)
    for _ in range(3):
        matcher.advance(1)
    twin.rollback(1)
    twin.advance(0)
    assert (matcher.tokens, twin.tokens) == ((1, 1, 1), (0, 0))
    assert (str(error), str(refused(twin))) == (expected, expected)


def test_a_rejection_goes_with_whoever_caught_it(kernel):
    matcher = c.compile(c.Grammar.from_regex("a+"), c.Vocabulary([b"a", b"b"]), kernel=kernel).matcher()
    gc.disable()  # no help: many are caught and few are read
    try:
        try:
            matcher.advance(1)
        except c.Rejected as error:
            caught = weakref.ref(error)
        assert caught() is None
    finally:
        gc.enable()


def test_rollback_undoes_advance(kernel):
    matcher, picks, history = constraint_of(LARK, kernel).matcher(), random.Random(5), []
    while not matcher.is_finished() and len(history) < 25:
        history.append((row_of(matcher).tobytes(), matcher.is_accepting()))
        allowed = np.flatnonzero(unpacked(row_of(matcher), VOCABULARY.size)).tolist()
        stops = [token for token in allowed if token in VOCABULARY.stop]
        matcher.advance(stops[0] if stops and len(history) > 8 else varied(VOCABULARY, allowed, picks))
    assert matcher.is_finished() and not row_of(matcher).any()
    twin = matcher.copy()
    for before in reversed(history):
        twin.rollback(1)
        assert (row_of(twin).tobytes(), twin.is_accepting()) == before and not twin.is_finished()
    assert matcher.is_finished() and len(matcher.tokens) == len(history)
    matcher.reset()
    assert matcher.tokens == () and row_of(matcher).tobytes() == history[0][0]


def test_a_refused_token_changes_nothing(kernel):
    matcher = constraint_of(LARK, kernel).matcher()
    matcher.advance(VOCABULARY.tokens.index(b"["))
    before = row_of(matcher).tobytes()
    with pytest.raises(c.Rejected):
        matcher.advance(VOCABULARY.tokens.index(b"}}"))
    assert row_of(matcher).tobytes() == before and len(matcher.tokens) == 1


def test_a_small_cache_changes_nothing(kernel):
    """At its bound the cache starts afresh; matchers replay and go on, those that were copied before as well."""
    small, large = constraint_of(LARK, kernel, cache_bytes=5_000, max_work=None), constraint_of(LARK, kernel)
    first, _ = small.place()
    a, b, picks = small.matcher(), large.matcher(), random.Random(8)
    copies = []
    for _ in range(30):
        assert (row_of(a) == row_of(b)).all()
        copies.append((a.copy(), row_of(b)))
        allowed = [t for t in np.flatnonzero(unpacked(row_of(b), VOCABULARY.size)).tolist() if t not in VOCABULARY.stop]
        if not allowed:
            break
        token = varied(VOCABULARY, allowed, picks)
        a.advance(token)
        b.advance(token)
    assert small.place()[0] is not first
    assert all((row_of(copy) == row).all() for copy, row in copies)


def test_short_words_for_long_things():
    """What a notebook shows of grammars, constraints, cursors and formats fits on a line or two."""
    grammar = c.Grammar.from_lark(LARK)
    constraint = c.compile(grammar, VOCABULARY)
    matcher, limited = constraint.matcher(), constraint.matcher(budget=9)
    assert repr(grammar) == "<Grammar by lark, 7 rules: start, value, pair, …>" and repr(grammar) in repr(constraint)
    assert repr(matcher) == "<Matcher after 0 tokens, goes on: b''>"
    for each in (matcher, limited):
        for token in VOCABULARY.tokenize(b"1"):
            each.advance(token)
    assert repr(limited) == "<BudgetedMatcher after 1 tokens, may end here: b'1'>"
    matcher.advance(VOCABULARY.stop[0])
    assert "finished" in repr(matcher)
    assert repr(c.ChatFormat.load("hermes")) == "<ChatFormat 'hermes': Hermes, Qwen2.5, Qwen3>"


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("budget", [None, 12])
def test_matchers_pickle_in_the_middle(kernel, budget):
    matcher = c.compile(c.Grammar.from_lark(LARK), VOCABULARY, kernel=kernel).matcher(budget=budget)
    for token in VOCABULARY.tokenize(b"[1,"):
        matcher.advance(token)
    twin = pickle.loads(pickle.dumps(matcher))
    assert (twin.tokens, twin.text(), type(twin)) == (matcher.tokens, matcher.text(), type(matcher))
    rows = np.zeros((2, VOCABULARY.words), np.int32)
    matcher.fill_mask(rows, 0)
    twin.fill_mask(rows, 1)
    assert rows[0].any() and (rows[0] == rows[1]).all()
    twin.rollback(1)
    assert matcher.text() == b"[1,"


@pytest.mark.parametrize("count", [1, 8])
def test_sequences_that_need_more_than_the_bound_are_not_read_again_at_each_token(kernel, count):
    """Alone, a sequence is not read again at all; several together as often as what they need has doubled."""
    grammar = c.Grammar.from_json_schema(
        {"type": "array", "items": {"const": 1}, "minItems": 1_000, "maxItems": 2_000}, whitespace="compact"
    )
    constraint = c.compile(grammar, VOCABULARY, kernel=kernel, cache_bytes=1)
    one, comma = VOCABULARY.tokens.index(b"1"), VOCABULARY.tokens.index(b",")
    matchers = [constraint.matcher() for _ in range(count)]
    for matcher in matchers:
        matcher.advance(VOCABULARY.tokens.index(b"["))
    kernels: list[object] = []
    for step in range(150):
        for ahead, matcher in enumerate(matchers):
            for _ in range(1 + (ahead if not step else 0)):  # each somewhere else in the array
                matcher.advance(one)
                matcher.advance(comma)
            if matcher._kernel not in kernels:
                kernels.append(matcher._kernel)
    assert len(kernels) <= 30
    assert all(matcher.accepts(one) and not matcher.accepts(comma) for matcher in matchers)


def test_a_batch_with_a_bomb_names_its_row(kernel):
    bomb = c.compile(
        c.Grammar.from_regex("|".join(f"a.{{{n}}}b" for n in range(40))), VOCABULARY, kernel=kernel, max_work=None
    )
    matchers = [
        constraint_of(LARK, kernel).matcher(),
        bomb.matcher(),
        constraint_of(LARK, kernel).matcher(),
        bomb.matcher(),
    ]
    bomb.budget.limit = bomb.budget.left = 0
    bomb.budget.refill(0)
    batch = np.full((4, VOCABULARY.words), -1, np.int32)
    with pytest.raises(c.LimitExceeded) as caught:
        c.fill_masks(matchers, batch)
    assert caught.value.rows == (1, 3)
    assert not batch[[1, 3]].any()
    assert all((batch[row] == row_of(matchers[row])[0]).all() and batch[row].any() for row in (0, 2))


def test_pickle_keeps_the_language(kernel):
    constraint = constraint_of(LARK, kernel)
    twin = pickle.loads(pickle.dumps(constraint))
    assert (
        twin.grammar.fingerprint == constraint.grammar.fingerprint
        and twin.vocabulary.fingerprint == VOCABULARY.fingerprint
    )
    assert (row_of(twin.matcher()) == row_of(constraint.matcher())).all()


@pytest.mark.parametrize(
    "grammar", [c.Grammar.from_lark(LARK), c.Grammar.from_json_schema(LISTS)], ids=["lark", "schema"]
)
def test_threads_share_a_constraint(kernel, grammar):
    """Machine states are asked for their edges in Python, where one thread may stop in the middle of a step and another
    go on.
    """
    constraint, alone = (c.compile(grammar, VOCABULARY, kernel=kernel, cache_bytes=size) for size in (20_000, 1 << 28))
    failures: list[str] = []

    def walk(shared, seed):
        matcher, picks, seen = shared.matcher(), random.Random(seed), []
        for _ in range(12):
            row = row_of(matcher)
            seen.append(row.tobytes())
            allowed = [t for t in np.flatnonzero(unpacked(row, VOCABULARY.size)).tolist() if t not in VOCABULARY.stop]
            if not allowed:
                break
            matcher.advance(varied(VOCABULARY, allowed, picks))
        return seen

    def check(seed):
        if walk(constraint, seed) != expected[seed]:
            failures.append(f"seed {seed}")

    expected = [walk(alone, seed) for seed in range(6)]
    threads = [threading.Thread(target=check, args=(seed,)) for seed in range(6)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


def test_batches_equal_single_rows(kernel):
    constraint = constraint_of(LARK, kernel)
    matchers = [constraint.matcher() for _ in range(4)]
    for matcher, text in zip(matchers, (b"", b"[", b"12", b'"a"')):
        for byte in text:
            matcher.advance(byte)
    matchers[2].advance(VOCABULARY.stop[0])
    batch = np.full((4, VOCABULARY.words), -1, np.int32)
    c.fill_masks(matchers, batch)
    assert (batch == np.concatenate([row_of(matcher) for matcher in matchers])).all()
    assert not batch[2].any()


def test_torch_bitmasks(kernel):
    torch = pytest.importorskip("torch")
    matcher = constraint_of(LARK, kernel).matcher()
    rows = torch.full((2, VOCABULARY.words), -1, dtype=torch.int32)
    matcher.fill_mask(rows, 1)
    assert (rows[1].numpy() == row_of(matcher)[0]).all() and (rows[0] == -1).all()


def test_stop_tokens(kernel):
    """A stop token comes exactly where a word ends; one that the grammar names comes there too."""
    vocabulary = c.Vocabulary([b"a", b"b", None, None], special={"<end>": 2, "<halt>": 3}, stop=[2, 3], size=40)
    plain = c.compile(c.Grammar.from_lark('start: "a" "b"?'), vocabulary, kernel=kernel).matcher()
    assert not plain.is_accepting() and not plain.accepts(2)
    plain.advance(0)
    assert plain.is_accepting() and plain.accepts(2) and plain.accepts(3) and plain.accepts(1)
    plain.advance(3)
    assert plain.is_finished() and plain.is_accepting() and not row_of(plain).any()
    named = c.compile(
        c.Grammar.from_lark('start: "a" "<end>" | "b" "<halt>"', specials=["<end>", "<halt>"]),
        vocabulary,
        kernel=kernel,
    ).matcher()
    named.advance(0)
    assert named.is_accepting() and named.accepts(2) and not named.accepts(3)
    named.advance(2)
    assert named.is_finished()
    named.rollback(1)
    assert not named.is_finished() and named.forced_tokens() == [2]


def test_forced(kernel):
    vocabulary = c.Vocabulary([b"a", b"b", b"ab", b"abc", b"c", b"x", b"xy"], stop=[], size=7)
    matcher = c.compile(c.Grammar.from_lark('start: "abcab" ("x" | "xy")'), vocabulary, kernel=kernel).matcher()
    assert matcher.forced_bytes() == b"abcabx"
    assert matcher.forced_tokens() == [3, 2], "the last x may be part of xy"
    for token in (3, 2):
        matcher.advance(token)
    assert matcher.forced_bytes() == b"x" and matcher.forced_tokens() == []


def test_special_tokens_are_never_spelled(kernel):
    """Text never becomes a special token, and a special token comes only where the grammar names it."""
    end = VOCABULARY.special["<eos>"]
    text = c.compile(c.Grammar.from_lark('start: "<eos>" "a"'), VOCABULARY, kernel=kernel).matcher()
    assert not text.accepts(end), "nobody gave the token to this text"
    text.advance(ord("<"))
    matcher = c.compile(
        c.Grammar.from_lark('start: "<eos>" /[a-z<>]+/', specials=["<eos>"]), VOCABULARY, kernel=kernel
    ).matcher()
    assert np.flatnonzero(unpacked(row_of(matcher), VOCABULARY.size)).tolist() == [end]
    matcher.advance(end)
    for byte in b"<eos>":
        matcher.advance(byte)
    assert matcher.is_accepting()


CASES = tomllib.loads((Path(__file__).parent / "corpus" / "errors_engine.toml").read_text())["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_wrong_use(case, kernel):
    """Each wrong use has its whole message in the table; both kernels say the same."""
    scope = {
        "c": c,
        "np": np,
        "V": VOCABULARY,
        "kernel": kernel,
        "constraint_of": constraint_of,
        "kernel_class": kernel_class,
    }
    scope["compiled"] = constraint_of(LARK, kernel)
    with pytest.raises(c.ConstrainedError) as caught:
        for line in case["do"].strip().splitlines():
            exec(line, scope)
    assert f"{type(caught.value).__name__}: {caught.value}" == case["message"].strip()


def test_a_rejection_says_what_was_so_when_it_was_raised(kernel):
    """It is worded when it is read; by then the matcher may have gone on, or it may be in another process."""
    matcher = constraint_of('start: "ab" ("c" | "d")', kernel).matcher()
    matcher.advance(ord("a"))
    with pytest.raises(c.Rejected) as caught:
        matcher.advance(ord("x"))
    for byte in b"bc":
        matcher.advance(byte)
    matcher.reset()
    error = caught.value
    copied = pickle.loads(pickle.dumps(error))
    assert error.position == copied.position == 1 and error.expected == copied.expected == "'b'"
    assert str(error) == str(copied) and str(error).startswith(
        "token 120 'x' is not allowed at byte 1, after 1 tokens\n"
    )
    assert repr(copied) == f"Rejected({str(error)!r})" and type(error) is type(copied) is c.Rejected
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = error.colour


@pytest.mark.parametrize("budget", [None, 9])
def test_reset_makes_a_matcher_whole_again(budget):
    vocabulary = c.Vocabulary([bytes([byte]) for byte in range(128)], special={"<end>": 128}, stop=[128])
    matcher = c.compile(c.Grammar.from_regex("ab+"), vocabulary).matcher(budget=budget)
    matcher.advance(97)
    matcher.reset()
    assert matcher.tokens == () and not matcher.accepts(98)
    matcher.advance(97)
    assert matcher.accepts(98)
