"""Calls whose name comes last: as one machine of all tools, with rules that requests share, they are what an alternative
of the grammar for each tool is.
"""

from __future__ import annotations

import copy
import pickle
import random
import re

import numpy as np
import pytest
from laws import unpacked

import constrained as c
from constrained.formats.binding import bind
from constrained.formats.binding.calls import NameLast
from constrained.grammar import Embedded, Grammar, Literal, Ref
from constrained.machine import Bytes, Edges

CHAT = c.ChatFormat.load("openchatml")
TEXT, FEW, MANY = {"type": "string"}, {"enum": ["a", "ab"]}, {"type": "array", "items": {"type": "integer"}}
OBJECT = {"type": "object", "properties": {"a": TEXT, "b": FEW}, "required": ["b"]}
PARAMETERS = {
    "none": {"type": "object", "properties": {}},
    "optional": {"type": "object", "properties": {"a": TEXT, "ab": {"type": "integer"}}},
    "required": {"type": "object", "properties": {"a": TEXT, "b": MANY}, "required": ["b"]},
    "nested": {"type": "object", "properties": {"o": OBJECT, "l": {"type": "array", "items": OBJECT}}, "required": ["o"]},
    "closed": {**OBJECT, "additionalProperties": False},
    "open": {**OBJECT, "additionalProperties": True},
    "others": {**OBJECT, "additionalProperties": {"type": "boolean"}},
    "patterns": {**OBJECT, "patternProperties": {"^x": {"type": "integer"}}},
    "any object": {"type": "object"},
    "two objects": {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": TEXT}},
    "a marker": {"type": "object", "properties": {"<|im_end|>": TEXT, "a": {"enum": ["[EOS]", "b"]}}},
}
LISTS = {
    "each": list(PARAMETERS.values()),
    "alike": [PARAMETERS["required"]] * 5,
    "equal first keys": [PARAMETERS["optional"], PARAMETERS["required"], PARAMETERS["open"], PARAMETERS["two objects"]],
    "no keys": [PARAMETERS["none"]] * 3,
    "in sight or not": [PARAMETERS[name] for name in ("open", "none", "any object", "nested", "others", "closed")],
    "one": [PARAMETERS["nested"]],
}
OPTIONAL = [PARAMETERS[name] for name in ("none", "optional", "any object")]
NAMES = ["f", "tool_1", "tool_12", 'say "x"', "é", "<x>", "name", "</b>", "f f", "x" * 64, "tool_2"]
OPTIONS = [
    {}, {"order": "name_first"}, {"whitespace": "flexible"}, {"property_order": "any"}, {"closed": False},
    {"marker_safe": False}, {"parallel_tool_calls": False}, {"reasoning": "prefilled"}, {"prompt": "<|function_call|>"},
    {"prompt": '<|function_call|>\n{"arguments": '}, {"tool_choice": "f"}, {"tool_choice": "auto", "response_schema": TEXT},
]  # fmt: skip
PIECES = [b' {"', b'{"', b'{}', b'": ', b'": "', b'", "', b'"}', b', "', b', "name": "', b'}, "name": "', b'", "name": "',
          b'"name": "tool_', b'"}\n', b'ab', b'a": ', b'{"arguments": {"', b'["a', b'{"o": {"']  # fmt: skip


def _vocabulary(*names):
    texts = [bytes([byte]) for byte in range(256)] + PIECES
    names = sorted({*CHAT.tokens.values(), *names})
    return c.Vocabulary(texts, special={name: len(texts) + at for at, name in enumerate(names)})


VOCABULARY = _vocabulary()


def _fresh():
    """Return the format without what it remembers."""
    return c.ChatFormat(CHAT.name, CHAT.definition, CHAT.generic)


def _grammars(monkeypatch, tools, **options):
    """Return the grammar of a request, and that with an alternative for each tool."""
    together = _fresh().grammar(tools, **options)
    with monkeypatch.context() as patched:
        patched.setattr(bind, "names_last", lambda *_: None)
        apart = _fresh().grammar(tools, **options)
    return together, apart


def _together(grammar):
    """Return the machines in a grammar that read the calls of several tools at once."""
    machines = [symbol.machine for symbol in grammar.symbols() if isinstance(symbol, Embedded)]
    return [machine for machine in machines if isinstance(machine, NameLast)]


def _tools(parameters):
    return [{"name": name, "parameters": schema} for name, schema in zip(NAMES, parameters, strict=False)]


def _masks(grammar, vocabulary, seed, kernel=None, steps=60):
    """Return the masks of a random way, which begins with a call and then ends soon."""
    matcher, picks, found = c.compile(grammar, vocabulary, kernel=kernel).matcher(), random.Random(seed), []
    row = np.zeros((1, vocabulary.words), np.int32)
    call = vocabulary.special["<|function_call|>"]

    def step(token):
        matcher.fill_mask(row)
        found.append(row.tobytes())
        allowed = [int(token) for token in np.flatnonzero(unpacked(row, vocabulary.size))]
        if token is None and allowed:
            firsts = sorted({(vocabulary.tokens[token] or b"special")[:1] for token in allowed})
            first = picks.choice(firsts)
            of_first = [token for token in allowed if (vocabulary.tokens[token] or b"special")[:1] == first]
            token = call if call in allowed and picks.random() < 0.9 else picks.choice(of_first)
        if token is not None:
            matcher.advance(token)

    for _ in range(picks.randrange(steps)):
        if not matcher.is_finished():
            step(None)
    for token in matcher.shortest_completion():
        step(int(token))
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", LISTS)
def test_masks_are_those_of_an_alternative_for_each_tool(name, options, monkeypatch):
    options = {"tool_choice": "required", **options}
    together, apart = _grammars(monkeypatch, _tools(LISTS[name]), **options)
    if options.keys().isdisjoint(("order", "prompt", "reasoning")):
        assert [bool(_together(grammar)) for grammar in (together, apart)] == [True, False]
    for fact in ("widened", "narrowed", "notes", "specials", "stops", "heavy", "nullable", "weight"):
        assert getattr(together, fact) == getattr(apart, fact), fact
    for seed in range(4):
        assert _masks(together, VOCABULARY, seed) == _masks(apart, VOCABULARY, seed)


@pytest.mark.parametrize("name", LISTS)
def test_plain_kernels_read_the_same(name, monkeypatch):
    together, apart = _grammars(monkeypatch, _tools(LISTS[name]), tool_choice="required")
    masks = [_masks(together, VOCABULARY, 5, kernel, 30) for kernel in ("plain", "compiled")]
    assert masks == [_masks(apart, VOCABULARY, 5, "compiled", 30)] * 2


@pytest.mark.parametrize("adopted", ['\n{"arguments": ', ', "name": "f"}', ', "name": "tool_12"}', "<x>"])
def test_texts_that_a_tokenizer_has_as_tokens_are_these(adopted, monkeypatch):
    together, apart = _grammars(monkeypatch, _tools(OPTIONAL), tool_choice="required")
    vocabulary = _vocabulary(adopted)
    bound = [grammar.with_specials(vocabulary.special) for grammar in (together, apart)]
    assert bound[0].specials == bound[1].specials and (adopted in bound[0].specials) is (adopted != "<x>")
    for name in ("f", "tool_12"):
        masks = [_allows(grammar, CHAT.write_call(name, {}), vocabulary) for grammar in (together, apart)]
        assert masks[0] == masks[1] and masks[0]


def test_no_schema_is_read_before_a_mask_needs_its_keys(monkeypatch):
    chat = _fresh()
    monkeypatch.setattr("constrained.formats.binding.calls.embed", lambda *_, **__: pytest.fail("a schema was read"))
    tools = [{"name": "f", "parameters": PARAMETERS["nested"]}, {"name": "g", "parameters": PARAMETERS["required"]}]
    constraint = c.compile(chat.grammar(tools, tool_choice="required"), VOCABULARY)
    constraint.matcher().fill_mask(np.zeros((1, VOCABULARY.words), np.int32))


def test_grammars_of_calls_print_pickle_and_have_a_name():
    tools = _tools(LISTS["in sight or not"])
    grammar = _fresh().grammar(tools, tool_choice="required", parallel_tool_calls=False)
    for copied in (pickle.loads(pickle.dumps(grammar)), copy.deepcopy(grammar)):
        assert copied.fingerprint == grammar.fingerprint
        assert _masks(copied, VOCABULARY, 1) == _masks(grammar, VOCABULARY, 1)
    assert _fresh().grammar(tools[:-1], tool_choice="required").fingerprint != grammar.fingerprint
    read = Grammar.from_lark(grammar.to_lark(), specials=grammar.specials)
    texts = [CHAT.write_call("f", {"b": "ab"}), CHAT.write_call(NAMES[1], {})]
    for text in texts:
        assert all(_allows(made, text) for made in (grammar, read))
        assert not any(_allows(made, text.replace('"name": "', '"name": "x')) for made in (grammar, read))


def _allows(grammar, text, vocabulary=VOCABULARY):
    """Return the masks along a text, whose special tokens are these, if they allow it."""
    matcher, row, found = c.compile(grammar, vocabulary).matcher(), np.zeros((1, vocabulary.words), np.int32), []
    for piece in re.split("(" + "|".join(map(re.escape, vocabulary.special)) + ")", text):
        for token in [vocabulary.special[piece]] if piece in vocabulary.special else piece.encode():
            matcher.fill_mask(row)
            found.append(row.tobytes())
            if not matcher.accepts(token):
                return None
            matcher.advance(token)
    return found


def test_keys_of_many_tools_stand_behind_one_bracket():
    (machine,) = _together(_fresh().grammar(_tools(LISTS["in sight or not"]), tool_choice="required"))
    start: Edges = machine.state().expand()
    ((low, _, opened),) = start.ranges
    assert low == ord("{") and len(opened.expand().calls) == 3 == len(start.calls)
    assert all(isinstance(after, Bytes) for _, after in opened.expand().calls)


NAME, ARGUMENTS = Ref("name"), Ref("arguments")


@pytest.mark.parametrize(
    ("shapes", "texts"),
    [
        ([(ARGUMENTS, Literal("="), NAME, Literal(";"))], ("=", ";")),
        ([(Literal("<"), ARGUMENTS, NAME)], ("", "")),
        ([(NAME, ARGUMENTS)], None),
        ([(ARGUMENTS, Ref("call_id"), NAME)], None),
        ([(ARGUMENTS, Literal("<end>"), NAME)], None),
        ([(ARGUMENTS, NAME, Literal("<end>"))], None),
        ([(ARGUMENTS, NAME), (ARGUMENTS, Literal("="), NAME)], None),
    ],
)
def test_calls_that_end_with_their_name_are_told_by_their_shape(shapes, texts):
    found = bind.names_last({"call": tuple(shapes)}, {"call": ()}, {"<end>"})
    assert (found and (found.before, found.after)) == texts
    assert bind.names_last({"call": tuple(shapes)}, {}, {"<end>"}) is None
    if found is not None:
        assert found.start == shapes[0][: shapes[0].index(ARGUMENTS)]
        ((*start, calls),) = found.bound([], ["f"])["call"]
        assert tuple(start) == found.start
        assert calls.machine.texts == [f"{texts[0]}f{texts[1]}"]
