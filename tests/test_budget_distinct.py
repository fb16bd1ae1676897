"""Budgets where a thousand items have to differ: what is found goes on where it stopped, and the work is counted."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count, islice

import jsonschema
import numpy as np
import pytest
from laws import unpacked

import constrained as c
from constrained.budget.ways import Candidates, TextWays, Ways, characters, closing, spelled
from constrained.engine.plain import DONE, TextAt
from constrained.engine.spelling import decode, variants
from constrained.machine import Dispatch, Quoting
from constrained.regex import parse_python
from constrained.schema.machines.distinct import OpenItem, lacks_key
from constrained.schema.number_texts import CANONICAL_NUMBERS, number_language
from constrained.schema.values import NumberRange
from constrained.work import Budget, metered

_BYTES = [bytes([byte]) for byte in range(128)]
_DISTINCT = {
    "whole numbers": {"type": "integer"},
    "even numbers": {"type": "integer", "multipleOf": 2, "minimum": -40},
    "cents": {"type": "number", "multipleOf": 0.01},
    "strings": {"type": "string"},
    "words": {"type": "string", "pattern": "^[a-c]*$"},
}


def _bytewise() -> c.Vocabulary:
    return c.Vocabulary([bytes([byte]) for byte in range(256)], special={"<stop>": 256}, stop=[256], size=257)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("texts", [[], [b"0," * 300, b"1" * 4000, b'",']], ids=["bytes", "huge tokens"])
@pytest.mark.parametrize("item", _DISTINCT.values(), ids=_DISTINCT.keys())
def test_a_thousand_distinct_items_are_two_fifths_of_the_work_of_a_constraint(item, texts):
    vocabulary = c.Vocabulary([*_BYTES, *texts], special={"<stop>": 200}, stop=[200], size=201)
    schema = {"type": "array", "items": item, "minItems": 1000, "uniqueItems": True}
    constraint = c.compile(c.Grammar.from_json_schema(schema, whitespace="compact"), vocabulary)
    before = constraint.budget.left
    completion = constraint.matcher().shortest_completion()
    assert before - constraint.budget.left < 400_000
    values = json.loads(vocabulary.decode(completion))
    assert len(values) == len(set(values)) == 1000
    jsonschema.validate(values[:50], {**schema, "minItems": 50})


def _closed(required, **properties):
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _record(**properties):
    return _closed([*properties], **properties)


_INTEGER, _WORD = {"type": "integer"}, {"type": "string", "pattern": "^[ab]{0,2}$"}


_OPEN = {
    "any": {},
    "objects": {"type": "object"},
    "arrays": {"type": "array"},
    "one key of many": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "a required key of many": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "a map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "a closed object": _closed(["a"], a=_INTEGER),
    "an optional key": _closed(["a"], a=_INTEGER, b={"type": "string"}),
    "optional keys": _closed([], a=_INTEGER, bb={"type": "boolean"}, c={"type": "string"}),
    "required keys": _closed([*"abcdefgh"], **{key: {"type": "boolean"} for key in "abcdefgh"}),
}


@pytest.mark.parametrize(("kind", "many", "most"), [("objects", 1000, 400_000), *((kind, 120, 60_000) for kind in _OPEN)])
def test_distinct_objects_are_searched_for_once_and_not_once_for_each_item(kind, many, most):
    schema = {"type": "array", "items": _OPEN[kind], "minItems": many, "uniqueItems": True}
    constraint = c.compile(c.Grammar.from_json_schema(schema, whitespace="compact"), _bytewise())
    before = constraint.budget.left
    values = json.loads(bytes(constraint.matcher().shortest_completion()))
    assert before - constraint.budget.left < most
    assert len(values) == len({json.dumps(value, sort_keys=True) for value in values}) == many
    jsonschema.validate(values[:50], {**schema, "minItems": 50})


def test_too_many_distinct_objects_are_refused_with_their_place():
    item = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    schema = {"properties": {"b": {"type": "array", "items": item, "uniqueItems": True}}, "required": ["b"]}
    for many in (200, 5000):
        schema["properties"]["b"]["minItems"] = many
        grammar = c.Grammar.from_json_schema({"type": "object", **schema}, whitespace="compact")
        constraint = c.compile(grammar, _bytewise(), max_work=200_000)
        if many == 200:
            assert len(json.loads(bytes(constraint.matcher().shortest_completion()))["b"]) == 200
        else:
            with pytest.raises(c.LimitExceeded, match="too much work at #"):
                constraint.matcher().shortest_completion()


_WORDS = ["", *"ab", "aa", "ab", "ba", "bb"]
_KINDS = {  # and values among which the shortest are
    "two numbers": (_record(a=_INTEGER, b=_INTEGER), [{"a": a, "b": b} for a in range(40) for b in range(40)]),
    "a flag and a choice": (
        _record(f={"type": "boolean"}, n={"enum": ["a", "bbb", 12, None, "long" * 9]}),
        [{"f": f, "n": n} for f in (True, False) for n in ("a", "bbb", 12, None, "long" * 9)],
    ),
    "arrays": ({"type": "array", "items": _INTEGER, "minItems": 1}, [[number] for number in range(40)]),
    "objects in objects": (_record(o=_record(a=_WORD)), [{"o": {"a": word}} for word in _WORDS]),
    "several types": ({"anyOf": [{"enum": [True, None, 7]}, _WORD, _record(a=_INTEGER)]},
                      [True, None, 7, *_WORDS, *({"a": number} for number in range(9))]),
    "optional keys": (
        _closed([], a=_WORD, b={"type": "boolean"}, c=_INTEGER),
        [{}, {"b": True}, {"b": False}, *({"a": word} for word in _WORDS), *({"c": number} for number in range(-9, 9))],
    ),
    "a required key and an optional one": (_closed(["b"], b={"type": "boolean"}, a=_WORD),
                                           [{**a, "b": b} for b in (True, False)
                                            for a in ({}, *({"a": word} for word in _WORDS))]),
    "open objects": ({"type": "object"}, [{}, *({key: n} for key in ("", *"abc") for n in range(10))]),
    "open objects with a key": (
        {"type": "object", "properties": {"a": _INTEGER}, "required": ["a"]}, [{"a": number} for number in range(10)]),
    "open objects of words": ({"type": "object", "properties": {"a": {"enum": ["b", "c"]}}, "required": ["a"]},
                              [{"a": a, **more} for a in "bc" for more in ({}, *({"": n} for n in range(10)))]),
    "at least two keys": (
        {"type": "object", "minProperties": 2, "additionalProperties": _INTEGER, "maxProperties": 3},
        [{"": a, key: b} for key in "abc" for a in range(9) for b in range(9)]),
    "a few numbers": ({"type": ["integer", "string"], "minimum": 2, "maximum": 4, "pattern": "^[ab]{0,2}$"},
                      [2, 3, 4, *_WORDS]),
}


@pytest.mark.parametrize(("item", "values"), _KINDS.values(), ids=_KINDS.keys())
def test_distinct_items_are_the_shortest_values_and_sets_of_them_are_not_tried(item, values):
    for many in (3, 7, 9):
        expected = sorted(len(json.dumps(value, separators=(",", ":"))) for value in values)[:many]
        schema = {"type": "array", "items": item, "minItems": len(expected), "uniqueItems": True}
        constraint = c.compile(c.Grammar.from_json_schema(schema, whitespace="compact"), _bytewise(), max_work=30_000)
        written = bytes(constraint.matcher().shortest_completion())
        jsonschema.validate(json.loads(written), schema)
        assert len(written) == sum(expected) + len(expected) + 1, written


_OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
_SHORT = {"type": "string", "pattern": '^(a|b|x|"|日本|x-){0,2}$'}
_ARRAY = {"type": "array", "items": _SHORT, "minItems": 1, "maxItems": 2}
_OPEN_TAGS = {
    "oneOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}, "v": _SHORT}, "required": ["kind"]},
        {"type": "object", "properties": {"kind": {"const": "b"}, "w": _INTEGER}, "required": ["kind", "w"]},
    ]
}
_SHARED = {
    "objects": {**_OBJECT, "properties": {"a": _SHORT, "b": _SHORT}},
    "arrays": _ARRAY,
    "open objects with tags": _OPEN_TAGS,
}


class _Alone(Ways):
    """Ways of which each is searched for itself."""

    def _shares(self, machine):
        return False


@pytest.mark.sampled(2)
@pytest.mark.parametrize("surface", ["json", "python"])
@pytest.mark.parametrize("item", _SHARED.values(), ids=_SHARED.keys())
def test_ways_that_distinct_objects_share_are_as_short_as_their_own(item, surface):
    schema = {"type": "array", "items": item, "minItems": 2, "uniqueItems": True}
    grammar = c.Grammar.from_json_schema(schema, whitespace="compact", surface=surface)
    constraint, picks, shared = c.compile(grammar, _bytewise()), random.Random(5), 0
    for _ in range(4):
        known = constraint.completions()
        state, matcher = constraint.begun(known.tracker), constraint.matcher()
        for _ in range(60):
            mask = np.zeros((1, constraint.vocabulary.words), np.int32)
            matcher.fill_mask(mask)
            allowed = np.flatnonzero(unpacked(mask, 256)).tolist()
            if not allowed:
                break
            shortest = matcher.shortest_completion() if picks.random() < 0.5 else []
            matcher.advance(token := shortest[0] if shortest else picks.choice(allowed))
            state = known.tracker.step_token(state, token)
            for machine, _ in known.tracker.configurations(state):
                if isinstance(machine, OpenItem):
                    alone = _Alone({}).of(machine)
                    assert len(known._ways.of(machine)) == len(alone), matcher.text()
                    shared += machine.shared(known._ways.of) is not None
    assert shared > 2


def test_distinct_objects_in_a_call_share_what_comes_behind_them(tiny_vocabulary):
    parameters = {
        "type": "object",
        "properties": {"value": {"type": "array", "items": _OBJECT, "minItems": 3, "uniqueItems": True}},
        "required": ["value"],
    }
    tools = [{"name": "write", "description": "Write.", "parameters": parameters}]
    grammar = c.ChatFormat.load("hermes").grammar(tools, tool_choice="required")
    constraint = c.compile(grammar, tiny_vocabulary)
    matcher = constraint.matcher(budget=constraint.min_tokens + 9)
    text = '<tool_call>\n{"name": "write", "arguments": {"value": [{"a": "hello", "b": "'
    for token in constraint.vocabulary.tokenize(text.encode()):
        matcher.advance(token)
    constraint.budget.refill(1_000_000)
    matcher.fill_mask(np.zeros((1, constraint.vocabulary.words), np.int32))
    assert constraint.budget.limit - constraint.budget.left < 30_000  # 120,000 where each text is followed by itself


@pytest.mark.parametrize("begun", ['[{"(":{},"', '[{"":0,"(":"x","'])
def test_keys_without_letters_do_not_keep_open_objects_from_sharing_ways(begun, tiny_vocabulary):
    """Of 64 and more keys that may come next each had a search of its own: 340,000 and 52,000 units."""
    schema = {"type": "array", "items": _OPEN_TAGS, "minItems": 3, "uniqueItems": True}
    constraint = c.compile(c.Grammar.from_json_schema(schema), tiny_vocabulary)
    matcher = constraint.matcher(budget=constraint.min_tokens + 9)
    for token in tiny_vocabulary.tokenize(begun.encode()):
        matcher.advance(token)
    constraint.budget.refill(1_000_000)
    matcher.fill_mask(np.zeros((1, tiny_vocabulary.words), np.int32))
    assert constraint.budget.limit - constraint.budget.left < 25_000


_ODD_KEYS = ["", "a", "ab", "é", "日", '"', "'", ":", ",", '","', "':'", "\\", "/", "\n", "a b", "(", " ", "\"a", "😀"]


@pytest.mark.parametrize("written", [json.dumps, lambda value: json.dumps(value, ensure_ascii=False), repr],
                         ids=["escaped", "as it is", "python"])
def test_a_key_that_a_word_is_seen_to_lack_is_not_in_it(written):
    picks, seen = random.Random(3), 0
    for _ in range(300):
        keys = picks.sample(_ODD_KEYS, picks.randint(0, 4))
        value = [{key: picks.choice([1, *_ODD_KEYS, {picks.choice(keys): []}]) for key in keys}, picks.choice(_ODD_KEYS)]
        inner = {key for part in value[0].values() if isinstance(part, dict) for key in part}
        word = written(value).encode().decode("latin-1")
        for key in _ODD_KEYS:
            lacking = lacks_key(word, key, quoted=True)
            assert not (lacking and key in {*keys, *inner}), (word, key)
            seen += lacking
    assert seen > 1000


_TEXT = {"type": "string"}
_UNIONS = {
    "two keys": ({"a": _INTEGER}, {"b": _TEXT}),
    "one key, two types": ({"a": _INTEGER}, {"a": _TEXT}),
    "two tags": ({"k": {"const": "x"}, "v": _INTEGER}, {"k": {"const": "y"}}),
    "two tags, a string": ({"kind": {"const": "a"}, "v": _TEXT}, {"kind": {"const": "b"}, "w": _INTEGER}),
    "two languages": ({"a": {"type": "string", "pattern": "^[ab0]+$"}}, {"a": {"enum": ["", "0", "b", "c"]}}),
    "a key that is another's any": ({"o": {"type": "object", "required": ["a"]}}, {"o": {"required": ["b"]}}),
}
_ITEMS = {
    "two strings": _record(a=_TEXT, b=_TEXT),
    "a map": {"type": "object", "additionalProperties": _TEXT},
    "lists": {"type": "array", "items": _TEXT, "minItems": 1},
    "two lists": {"anyOf": [{"type": "array", "items": _TEXT}, {"type": "array", "items": {"enum": ["a", "", "0"]}}]},
    "at least two of any": {"type": "object", "anyOf": [{"minProperties": 2}, {"required": ["b"]}]},
    **{name: {"type": "object", "anyOf": [{"properties": properties, "required": [*properties]}
                                          for properties in members]} for name, members in _UNIONS.items()},
}


@pytest.mark.parametrize(("item", "begun", "rest"), [
    ("two strings", '[{"a":"","b":""},{"a":', '"","b":"0"}]'),
    ("lists", '[[""],[', '"",""]]'),
    ("a map", '[{"":""},{"', '":"0"}]'),
    ("two tags", '[{"k":"y"},{"k":', '"y","":0}]'),
])
def test_a_way_out_of_an_item_that_was_begun_is_none_that_was_written(item, begun, rest):
    schema = {"type": "array", "items": _ITEMS[item], "uniqueItems": True}
    matcher = c.compile(c.Grammar.from_json_schema(schema, whitespace="compact"), _bytewise()).matcher()
    for byte in begun.encode():
        matcher.advance(byte)
    assert bytes(matcher.shortest_completion()).decode() == rest


@pytest.mark.parametrize("item", _ITEMS.values(), ids=_ITEMS.keys())
def test_ways_out_of_distinct_items_are_words_also_where_looking_ahead_forgets_texts(item):
    pieces = [b'":', b'"},', b'{"', b'","', b'":"', b"00", b"ab", b'""', b'a"', b'":0', b"{}", b'b":"']
    vocabulary = c.Vocabulary([*_BYTES, *pieces], special={"<stop>": 140}, stop=[140], size=141)
    schema = {"type": "array", "items": item, "minItems": 3, "uniqueItems": True}
    constraint = c.compile(c.Grammar.from_json_schema(schema, whitespace="compact"), vocabulary, max_work=None)
    telling = [token for token, text in enumerate([*_BYTES, *pieces]) if text[:1] in b'"{}[],:ab0k']
    for seed in range(2):
        picks, matcher, known = random.Random(seed), constraint.matcher(), constraint.completions()
        state, row = constraint.begun(known.tracker), np.zeros((1, vocabulary.words), np.int32)
        for _ in range(40):
            matcher.fill_mask(row)
            allowed = set(np.flatnonzero(unpacked(row, 140)).tolist())
            if not allowed:
                break
            _ends(matcher, shortest := matcher.shortest_completion())
            offered = sorted(allowed.intersection(telling)) or sorted(allowed)
            for token in picks.sample(offered, min(3, len(offered))):
                way = known.way(known.after(state, token))
                if way is not None:
                    _ends(matcher, [token, *(ord(symbol) for symbol in way if ord(symbol) < 256)])
            matcher.advance(token := shortest[0] if picks.random() < 0.5 and shortest else picks.choice(offered))
            if token == 140:
                break
            state = known.tracker.step_token(state, token)


def _ends(matcher, tokens):
    """Check that tokens end the word that a matcher has begun."""
    walker = matcher.copy()
    for token in tokens:
        walker.advance(token)
    assert walker.is_accepting() or walker.is_finished(), walker.text()


_LATER_LONG = {"type": "string", "pattern": "^([0-9]{1,2}|[a-z]{5,})$"}
_MANY = {
    "strings": _LATER_LONG,
    "records": _record(a=_LATER_LONG),
    "lists": {"type": "array", "items": _LATER_LONG, "minItems": 1, "maxItems": 1},
    "several types": {"anyOf": [{"type": "boolean"}, {"enum": ["q", "rr", None]}, {"type": "string", "maxLength": 2}]},
    "integers": {"type": "integer", "minimum": 0, "maximum": 150},
}


@pytest.mark.parametrize("many", [65, 70, 100, 111, 120])
@pytest.mark.parametrize("item", _MANY.values(), ids=_MANY.keys())
def test_of_many_items_a_way_that_looking_ahead_finds_is_no_shorter_than_what_is_left(item, many):
    """The text that is forgotten was one that such a way out would write again: 3 bytes were missing."""
    vocabulary = c.Vocabulary(_BYTES, special={"<stop>": 200}, stop=[200], size=201)
    schema = {"type": "array", "items": item, "minItems": many, "uniqueItems": True}
    grammar = c.Grammar.from_json_schema(schema, whitespace="compact")
    constraint = c.compile(grammar, vocabulary, max_work=20_000_000)
    known = constraint.completions()
    values = json.loads(known.way(constraint.begun(known.tracker)))
    assert len(values) == many
    for number in {51, 64, many - 10, many - 1}:
        state, text = constraint.begun(known.tracker), json.dumps([values[number]], separators=(",", ":")).encode()[:-1]
        for end in range(len(text) - 2, len(text) + 1):
            looked = state
            for byte in text[:end]:
                looked = known.tracker.look_byte(looked, byte)
            exact = known.length(known.tracker.step_bytes(state, text[:end]))
            assert exact <= known.length(looked) <= exact + 4, text[:end]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("many", [65, 100, 120])
@pytest.mark.parametrize("item", ["records", "lists"])
def test_of_many_items_each_budget_is_enough_for_a_word(item, many):
    pieces = [f'"{number}"'.encode() for number in range(50, 100)]
    vocabulary = c.Vocabulary([*_BYTES, *pieces], special={"<stop>": 200}, stop=[200], size=201)
    schema = {"type": "array", "items": _MANY[item], "minItems": many, "uniqueItems": True}
    grammar = c.Grammar.from_json_schema(schema, whitespace="compact")
    constraint = c.compile(grammar, vocabulary, max_work=20_000_000)
    for spare in range(3):
        picks, matcher = random.Random(spare), constraint.matcher(budget=constraint.min_tokens + spare)
        for _ in range(9):
            ways = [token for token in range(128, 178) if matcher.accepts(token)]
            matcher.advance(picks.choice(ways) if ways else matcher.shortest_completion()[0])
            assert len(matcher.shortest_completion()) <= matcher.remaining
        assert any(token in range(128, 178) for token in matcher.tokens)
        text = vocabulary.decode([*matcher.tokens, *matcher.shortest_completion()])
        values = json.loads(text)
        jsonschema.validate(values[:50], {**schema, "minItems": 50})
        assert len({json.dumps(value) for value in values}) == len(values) >= many


def test_numbers_that_a_way_out_does_not_write_again_share_it():
    numbers = [str(number).encode() for number in range(100, 1000)]
    vocabulary = c.Vocabulary([*_BYTES, *numbers], special={"<stop>": 1100}, stop=[1100], size=1101)
    item = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    schema = {"type": "array", "items": item, "minItems": 3, "uniqueItems": True}
    constraint = c.compile(c.Grammar.from_json_schema(schema, whitespace="compact"), vocabulary)
    matcher = constraint.matcher(budget=constraint.min_tokens + 1)
    for byte in b'[{"a":':
        matcher.advance(byte)
    constraint.budget.refill(1_000_000)
    matcher.fill_mask(np.zeros((1, vocabulary.words), np.int32))
    assert constraint.budget.limit - constraint.budget.left < 100_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize("members", _UNIONS.values(), ids=_UNIONS.keys())
@pytest.mark.parametrize("seed", [1, 2])
def test_budgets_over_distinct_open_objects_of_several_kinds_are_within_the_work(members, seed, tiny_vocabulary):
    item = {"anyOf": [{"type": "object", "properties": each, "required": [*each]} for each in members]}
    schema = {"type": "array", "items": item, "minItems": 3, "uniqueItems": True}
    constraint = c.compile(c.Grammar.from_json_schema(schema), tiny_vocabulary, max_work=500_000)
    matcher, picks = constraint.matcher(budget=constraint.min_tokens + 3), random.Random(seed)
    row = np.zeros((1, tiny_vocabulary.words), np.int32)
    while not matcher.is_finished():
        matcher.fill_mask(row)
        matcher.advance(picks.choice(np.flatnonzero(unpacked(row, tiny_vocabulary.size)).tolist()))
    jsonschema.validate(json.loads(tiny_vocabulary.decode(
        token for token in matcher.tokens if token not in tiny_vocabulary.stop)), schema)


def _anew(at, most, body):
    """Yield what `Candidates` does, by a search that keeps nothing."""
    ties = count()
    heap = [(len(begun), begun, next(ties), whole, whole.language) for begun, whole in characters(at)]
    while heap:
        _, way, _, start, language = heappop(heap)
        if start is None or start.place == DONE:
            yield way
            continue
        if language.accepts:
            heappush(heap, (len(way + closing(start.spelling)), way + closing(start.spelling), next(ties), None, None))
        for low, high, target in language.edges():
            for char in spelled(start.spelling, low, high, most):
                rest = body(start.spelling, target) + closing(start.spelling)
                heappush(heap, (len(way + char + rest), way + char, next(ties), start, target))


class _Used(Dispatch):
    """What follows a text that must be none of some texts."""

    records, compared = True, str

    def __init__(self, refused: frozenset[str]) -> None:
        self.refused = refused


@pytest.mark.parametrize("most", [3, 12])
@pytest.mark.parametrize(("quoting", "language"), [
    (Quoting.RAW, number_language((NumberRange(integer=True),), CANONICAL_NUMBERS)),
    (Quoting.RAW, parse_python("[ab]{2,4}|c")),
    (Quoting.JSON, parse_python("(?s:.*)")),
    (Quoting.PYTHON, parse_python("(\\n|é|日|x)*")),
], ids=["numbers", "a few", "any", "escapes"])
def test_candidates_go_on_where_a_search_begins_anew(quoting, language, most):
    """Also where the work runs out in between, and where blocks of used texts are passed over."""
    ways = TextWays()
    spelling, part = next((spelling, part) for spelling, part in variants(quoting, language) if part is not None)
    at = TextAt(spelling, part)
    expected = list(islice(_anew(at, most, ways.body), 300))
    found = Candidates(at, most, ways.body, lambda texts: None)
    for units in range(1, 4_000, 37):
        with suppress(c.LimitExceeded), metered(Budget(units)):
            assert list(islice(found, 300)) == expected
            break
    assert list(islice(found, 300)) == expected
    texts = [decode(quoting, spelling.opening + way.encode("latin-1")) for way in expected]
    for used in (texts[:0], texts[:1], texts[:99], texts[5:50], texts[:250:2]):
        offered = list(islice(found.free(_Used(frozenset(used)), spelling.opening, quoting), 150))
        free = [way for way, text in zip(expected, texts, strict=True) if text not in used]
        assert [way for way in offered if way in free] == free[: sum(way in free for way in offered)]
        if len(free) > 100 and used == texts[:99]:
            assert offered.index(free[0]) < 8 + 32  # two blocks were passed over
