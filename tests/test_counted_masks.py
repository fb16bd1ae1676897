"""Masks of counted texts: levels of one base, compared at every count with walks of the plain kernel."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from constrained.benchmarks.engines import forget_grammars
from laws import assert_kernels_agree, hard_vocabulary, unpacked

from constrained import Grammar, Vocabulary, compile
from constrained.engine.compiled import kernel_class

SHORT = {"type": "string", "maxLength": 40}
LETTERS = "ab 日é🎉xyz"


def long_vocabulary(count: int, longest: int, seed: int = 1) -> Vocabulary:
    """Return a vocabulary most of whose tokens have many characters, some with escapes, ends and beginnings of texts."""
    picks = random.Random(seed)
    texts = {bytes([byte]) for byte in range(256)}
    while len(texts) < count:
        text = "".join(picks.choices(LETTERS, k=picks.randint(1, longest)))
        if picks.random() < 0.2:
            text = json.dumps(text)[1:-1]
        text = picks.choice(("", "", "", "", '"', '": "')) + text + picks.choice(("", "", "", "", "", '"', '",', '"}'))
        texts.add(text.encode())
    ordered = sorted(texts)
    picks.shuffle(ordered)
    return Vocabulary(ordered, special={"<eos>": len(ordered)}, stop=[len(ordered)])


VOCABULARIES = {
    "few": hard_vocabulary(),
    "all long": long_vocabulary(1_500, 40),
    "more than are listed": long_vocabulary(4_000, 24),
}


def kernels(schema: object, vocabulary: Vocabulary) -> list[tuple[object, int]]:
    grammar = Grammar.from_json_schema(schema)
    return [compile(grammar, vocabulary, kernel=kernel).place() for kernel in ("compiled", "plain")]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "maxLength": 30},
        {"type": "string", "minLength": 3, "maxLength": 12},
        {"type": "string", "minLength": 20},
        {"enum": ["abc"], "type": "string", "maxLength": 3},
        {"pattern": "^[a-z ]{2,25}$", "type": "string"},
        {"type": "object", "additionalProperties": {"type": "string", "maxLength": 9}, "minProperties": 1},
        {"propertyNames": {"maxLength": 8}, "type": "object"},
        {
            "type": "object",
            "properties": {"a": SHORT, "b": {"type": "array", "items": SHORT, "minItems": 2}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        {"anyOf": [{"type": "string", "maxLength": 7}, {"type": "string", "minLength": 8}]},
        {"anyOf": [{"type": "string", "maxLength": 7}, {"type": "integer"}, {"pattern": "^[ab ]{0,20}$"}]},
        {"type": "string", "pattern": "^(?:\\S+\\s+){0,2}\\S+$", "maxLength": 34},
        {"type": "string", "pattern": "^(?:.*xyz日|é*)$", "maxLength": 38},
        {"type": "object", "additionalProperties": False, "patternProperties": {"^(?:[^a]|a..a)*$": SHORT},
         "propertyNames": {"maxLength": 37}},
    ],
    ids=json.dumps,
)
def test_every_level_is_that_of_a_walk(name, schema):
    vocabulary = VOCABULARIES[name]
    forget_grammars(vocabulary)
    assert_kernels_agree(vocabulary, kernels(schema, vocabulary), 12, seed=0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", VOCABULARIES)
def test_what_leaves_texts_is_noted_of_each_place(name):
    vocabulary = VOCABULARIES[name]
    forget_grammars(vocabulary)
    schema = {
        "type": "object",
        "properties": {"a": SHORT, "b": {"type": "array", "items": SHORT}},
        "required": ["a", "b"],
    }
    places = kernels(schema, vocabulary)
    for before in (b'{"a": "', b'{"a": "", "b": ["', b'{"c": 1, "b": [], "a": "'):
        for count in range(41):
            masks = [kernel.mask(kernel.step_bytes(start, before + count * b"x")) for kernel, start in places]
            assert masks[0].tolist() == masks[1].tolist(), (before, count)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_all_counts_in_order(name):
    vocabulary = VOCABULARIES[name]
    forget_grammars(vocabulary)
    (compiled, state), (plain, twin) = kernels({"type": "string", "minLength": 3, "maxLength": 28}, vocabulary)
    state, twin = compiled.step_byte(state, 0x22), plain.step_byte(twin, 0x22)
    for read in range(29):
        masks = [unpacked(kernel.mask(at), vocabulary.size) for kernel, at in ((compiled, state), (plain, twin))]
        assert not len(np.flatnonzero(masks[0] != masks[1])), f"after {read} characters"
        state, twin = compiled.step_byte(state, 0x61), plain.step_byte(twin, 0x61)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_sets_of_short_tokens_are_made_again(name):
    """As what has not been asked for longest goes from the store where that is full."""
    vocabulary = VOCABULARIES[name]
    forget_grammars(vocabulary)
    entries = vocabulary.kernels.masks.entries
    (compiled, state), (plain, twin) = kernels({"type": "string", "minLength": 2, "maxLength": 9}, vocabulary)
    state, twin = compiled.step_byte(state, 0x22), plain.step_byte(twin, 0x22)
    for _ in range(9):
        for key in [key for key in entries if key[0] == "within"]:
            del entries[key]
        assert compiled.mask(state).tolist() == plain.mask(twin).tolist()
        state, twin = compiled.step_byte(state, 0x61), plain.step_byte(twin, 0x61)


def test_a_known_mask_refuses_as_a_step_does():
    vocabulary = VOCABULARIES["few"]
    grammar = Grammar.from_json_schema({"type": "object", "properties": {"a": {"maxLength": 3}}, "required": ["a"]})
    make = kernel_class("compiled")
    constraint = compile(grammar, vocabulary, kernel="compiled")
    known, start = constraint.place()
    for text in (b"", b"{", b'{"a": ', b'{"a": "ab', b'{"a": "abc"', b'{"a": "abc"}'):
        state = known.step_bytes(start, text)
        known.mask(state)
        fresh = make(vocabulary, constraint._root, specials=vocabulary.special)
        place = fresh.step_bytes(fresh.start, text)
        for token in range(vocabulary.size):
            assert bool(known.step_token(state, token)) == bool(fresh.step_token(place, token)), (text, token)
