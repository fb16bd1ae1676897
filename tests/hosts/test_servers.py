"""What vLLM and SGLang have in common: requests as text, cursors that answer instead of raising, masks on logits."""

from __future__ import annotations

import contextlib
import json
import random
import types

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import constrained as c
from constrained.integrations.masks import constrain
from constrained.integrations.servers import Cursor, Requests, grammar_of, read_arguments

SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
TOOLS = json.dumps([{"name": "ping", "parameters": {"type": "object", "properties": {}}}])

# What a request says → a word of its grammar, and a text that is none.
ASKED = [
    ({"json": SCHEMA}, '{"n": 1}', '{"n":1}'),
    ({"json": SCHEMA, "profile": "exact"}, '{ "n" :1}', '{"n": "x"}'),
    ({"regex": "a{2,3}"}, "aa", "a"),
    ({"choice": '["yes", "no"]'}, "no", "maybe"),
    ({"lark": 'start: "<" start ">" |'}, "<<>>", "<<>"),
    (
        {"format": "hermes", "tools": TOOLS, "tool_choice": "required"},
        '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>',
        "Hello.",
    ),
]


@pytest.mark.parametrize(("asked", "word", "other"), ASKED, ids=lambda value: str(value)[:30])
def test_a_request_says_what_it_wants_as_text(asked, word, other, tiny_vocabulary):
    vocabulary, constraint = tiny_vocabulary, Requests(tiny_vocabulary).constraint(asked)
    names = {name: token for name, token in vocabulary.special.items() if "tool_call" in name}

    def reads(text):
        matcher, parts = constraint.matcher(), [text]
        for name in names:
            parts = [
                piece
                for part in parts
                for piece in (part.replace(name, f"\0{name}\0").split("\0") if part not in names else [part])
            ]
        try:
            for part in filter(None, parts):
                for token in [names[part]] if part in names else vocabulary.tokenize(part.encode()):
                    matcher.advance(token)
        except c.Rejected:
            return False
        return matcher.is_accepting()

    assert reads(word)
    assert not reads(other)


@pytest.mark.parametrize(("given", "message"), [
    ({"constrained_jsn": "{}"}, "unknown argument constrained_jsn"),
    ({"constrained_json": "{}", "constrained_regex": "a"}, "2 grammars in a request"),
    ({"constrained_profile": "exact"}, "0 grammars in a request"),
    ({"constrained_json": {"type": "object"}}, "json of a request is {'type': 'object'}"),
    ({"constrained_json": "{"}, "json of a request is no JSON"),
    ({"constrained_choice": "yes"}, "choice of a request is no JSON"),
    ({"constrained_regex": "(a"}, "a"),
    ({"constrained_format": "/etc/passwd"}, "unknown format"),
    ({"constrained_format": "hermes", "constrained_tools": "["}, "tools of a request is no JSON"),
    ({"constrained_format": "hermes", "constrained_prompt": 10**5000}, "the prompt is an int of 16610 bits"),
    ({"constrained_json": "9" * 5000}, "json of a request is no JSON"),
    ([("constrained_json", "{}")], "the arguments of a request are"),
    ("constrained_json", "the arguments of a request are 'constrained_json'"),
    *(
        ({"constrained_regex": "a", "constrained_budget": budget}, "budget of a request is")
        for budget in (0, -1, "0", "many", 1.5, [1], 10**5000, 1 << 31, "9" * 5000, np.arange(3))
    ),
    ({1: 2, None: 3}, "a request without a grammar"),
])
def test_what_cannot_be_read_is_refused_by_name(given, message):
    with pytest.raises(c.ConstrainedError, match=message):
        grammar_of(read_arguments(given))


def test_what_is_asked_for_again_is_found_again(tiny_vocabulary):
    requests = Requests(tiny_vocabulary)
    assert requests.constraint({"regex": "a"}) is requests.constraint({"regex": "a", "budget": 7})
    assert requests.constraint({"regex": "a"}) is not requests.constraint({"regex": "b"})


def test_the_order_of_properties_tells_requests_apart(tiny_vocabulary):
    requests = Requests(tiny_vocabulary)
    one, other = (
        {"type": "object", "properties": {name: {"type": "null"} for name in names}, "required": ["a", "b"]}
        for names in ("ab", "ba")
    )
    found = [
        requests.constraint({"format": "hermes", "tools": [{"name": "f", "parameters": schema}]})
        for schema in (one, other, one)
    ]
    assert found[0] is found[2] is not found[1]


def test_what_is_kept_is_bounded_in_bytes_and_what_has_no_name_is_not_kept(tiny_vocabulary, monkeypatch):
    monkeypatch.setattr("constrained.integrations.servers._KEPT_BYTES", 1_000)
    requests = Requests(tiny_vocabulary)
    for number in range(20):
        requests.constraint({"regex": f"{number}a{{1,2}}" + "b" * 150})
    assert requests._bytes == sum(map(len, requests._known)) <= 1_000
    assert len(requests._known) >= 3
    known = dict(requests._known)
    requests.constraint({"regex": "b" * 300})  # more than a quarter
    nest = [[]]
    nest[0].append(nest)
    for asked in ({"json": nest}, {"regex": "a", "tools": nest}, {1: 2}, None, []):
        with contextlib.suppress(c.ConstrainedError):
            requests.constraint(asked)
    assert dict(requests._known) == known


def _row(cursor, words):
    row = np.zeros((1, words), np.int32)
    cursor.fill(row, 0)
    return row.tobytes()


def test_a_cursor_is_a_matcher_that_answers(tiny_vocabulary):
    """Random walks of accept, validate and rollback, against a cursor that reads the same tokens from the start."""
    constraint = c.compile(c.Grammar.from_regex(r"[ab]{1,4}(cd)*"), tiny_vocabulary)
    # a stop token that the engine adds
    own = next(token for token, text in enumerate(tiny_vocabulary.tokens) if text == b"\n")
    random_, ids = (
        random.Random(5),
        [*(tiny_vocabulary.by_text[text] for text in (b"a", b"b", b"c", b"d")), *constraint.stop, own],
    )
    for _ in range(60):
        cursor, read = Cursor(constraint.matcher(), [own]), []
        for _ in range(20):
            tokens = [random_.choice(ids) for _ in range(random_.randrange(1, 4))]
            kept = cursor.validate(tokens)
            assert kept == tokens[: len(kept)]
            before = _row(cursor, tiny_vocabulary.words)
            accepted = cursor.accept(tokens)
            if accepted:
                read += tokens
                count = random_.randrange(len(read) + 1) if random_.random() < 0.4 else 0
                cursor.rollback(count)
                del read[len(read) - count :]
            else:
                assert _row(cursor, tiny_vocabulary.words) == before
            again = Cursor(constraint.matcher(), [own])
            assert again.accept(read)
            assert (again.finished, _row(again, tiny_vocabulary.words)) == (
                cursor.finished,
                _row(cursor, tiny_vocabulary.words),
            )
            assert _row(cursor.copy(), tiny_vocabulary.words) == _row(cursor, tiny_vocabulary.words)


def test_the_engines_own_stop_tokens_come_where_the_text_may_end(tiny_vocabulary):
    own = tiny_vocabulary.by_text[b"\n"]
    cursor = Cursor(c.compile(c.Grammar.from_regex("ab?"), tiny_vocabulary).matcher(), [own])
    assert cursor.validate([own]) == []
    assert cursor.accept(tiny_vocabulary.tokenize(b"a"))
    assert cursor.validate([own, own]) == [own]
    assert cursor.accept([own])
    assert cursor.finished
    cursor.rollback(1)
    assert not cursor.finished


# A grammar, a text of it, and whether a stop token that the grammar names may follow.
ENDS = {
    "whole": (c.Grammar.choice(["red"]), ["red"], False),
    "goes on": (c.Grammar.from_regex("[a-z]{3,5}"), ["red"], False),
    "ends by name": (c.Grammar.from_lark('start: "red" "<|eom_id|>"', specials=["<|eom_id|>"]), ["red", "<|eom_id|>"], False),
    "names": (c.Grammar.from_lark('start: "red" "<|eom_id|>" "?"', specials=["<|eom_id|>"]), ["red", "<|eom_id|>", "?"], False),
    "may go on by name": (c.Grammar.from_lark('start: "red" ("<|eom_id|>" "?")?', specials=["<|eom_id|>"]), ["red"], True),
}


@pytest.mark.parametrize("given", [[], [0], [1, 2], [0, 1, 2], None], ids=str)
@pytest.mark.parametrize(("grammar", "text", "named"), ENDS.values(), ids=ENDS)
def test_a_text_ends_with_what_its_request_ends_with(grammar, text, named, given, tiny_vocabulary):
    """Not with all that the vocabulary knows: the engine would take those for text, and go on up to its limit."""
    known, special = tiny_vocabulary.stop, tiny_vocabulary.special
    ends = {*known} if given is None else {known[at] for at in given}
    cursor = Cursor(c.compile(grammar, tiny_vocabulary).matcher(), None if given is None else ends)

    def stops():
        row = np.frombuffer(_row(cursor, tiny_vocabulary.words), np.uint8)
        found = set(np.flatnonzero(np.unpackbits(row, bitorder="little")).tolist())
        assert all(cursor.validate([token]) == [token] * (token in found) for token in known) or cursor.finished
        return found & {*known}, bool(found - {*known})

    for part in text:
        for token in [special[part]] if part in special else tiny_vocabulary.tokenize(part.encode()):
            assert stops()[0] == {token}.intersection(special.values())
            assert cursor.accept([token])
    found, goes_on = stops()
    letters = {special["<|eom_id|>"]} if named else set()
    assert found == (ends | letters or (set() if goes_on else {*known}))
    for token in sorted(ends - letters)[:1]:
        assert cursor.finished or cursor.accept([token])
        assert stops()[0] == ends


def test_too_much_work_in_a_mask_ends_the_request_and_not_the_engine(tiny_vocabulary, caplog):
    row = np.zeros((1, tiny_vocabulary.words), np.int32)
    c.caches.clear()  # what other tests have met would be no work
    tiny_vocabulary.kernels.clear()
    tiny_vocabulary.kernels.masks.clear()
    fresh = c.compile(c.Grammar.from_json_schema({"type": "object", "minProperties": 3}), tiny_vocabulary, max_work=60)
    cursor = Cursor(fresh.matcher())
    for token in tiny_vocabulary.tokenize(b'{"a": ['):
        cursor.accept([token])
    cursor.fill(row, 0)
    allowed = set(np.flatnonzero(np.unpackbits(row[0].view(np.uint8), bitorder="little")))
    assert allowed == set(fresh.stop)
    assert "a request is ended: too much work" in caplog.text


@pytest.mark.parametrize("error", [c.LimitExceeded("too much work"), MemoryError("no room"), RuntimeError("a defect")])
def test_a_step_or_mask_that_fails_ends_the_request_and_is_taken_back(error, tiny_vocabulary, monkeypatch, caplog):
    """The request goes on neither without its grammar nor at the cost of others."""
    constraint, (one, two) = c.compile(c.Grammar.from_regex("[0-9]{3}"), tiny_vocabulary), tiny_vocabulary.tokenize(b"1a")
    cursor = Cursor(constraint.matcher())
    words = np.zeros((1, tiny_vocabulary.words), np.int32)

    def failing(*_):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(cursor, "_matcher", types.SimpleNamespace(
            advance=failing, fill_mask=failing, is_finished=bool, rollback=cursor._matcher.rollback, constraint=constraint
        ))
        cursor.fill(words, 0)
        ended = words.copy()
        assert cursor.validate([one]) == []
        assert cursor.accept([one, two])
        assert cursor.finished
        cursor.fill(words, 0)
        assert (words == ended).all()
        cursor.rollback(2)
        assert not cursor.finished
    assert set(np.flatnonzero(np.unpackbits(ended[0].view(np.uint8), bitorder="little"))) == set(constraint.stop)
    assert cursor.validate([one, one, two]) == [one, one]
    assert f"a request is ended: {error}" in caplog.text


@pytest.mark.parametrize("rows", [[0, 1, 2], [2], [0, 2], []])
@pytest.mark.parametrize("width", [-5, 0, 40])
def test_masks_reach_the_logits_of_their_rows_alone(rows, width, tiny_vocabulary):
    constraint = c.compile(c.Grammar.from_regex("[a-c]x"), tiny_vocabulary)
    logits = torch.zeros(3, tiny_vocabulary.size + width)
    constrain(logits, [(row, Cursor(constraint.matcher())) for row in rows], tiny_vocabulary.words)
    matcher = constraint.matcher()
    wanted = {token for token in range(tiny_vocabulary.size) if matcher.accepts(token)}
    for row in range(3):
        finite = set(torch.isfinite(logits[row]).nonzero().flatten().tolist())
        assert finite == (wanted if row in rows else set(range(logits.shape[1])))


@pytest.mark.parametrize("rows", [[0, 1, 2], [1]])
def test_what_others_have_left_nothing_of_is_the_grammars(rows, tiny_vocabulary):
    constraint, logits = c.compile(c.Grammar.from_regex("[a-c]x"), tiny_vocabulary), torch.zeros(3, tiny_vocabulary.size)
    letters = [tiny_vocabulary.by_text[letter] for letter in (b"a", b"b", b"c")]
    logits[1, letters] = float("-inf")
    constrain(logits, [(row, Cursor(constraint.matcher())) for row in rows], tiny_vocabulary.words)
    for row in rows:
        assert set(letters) <= set(torch.isfinite(logits[row]).nonzero().flatten().tolist())
        assert not torch.isfinite(logits[row]).all()
