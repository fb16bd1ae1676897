"""What `to_lark` prints is read back as the same language: equal masks along random words, for formats with tools and for schemas."""

from __future__ import annotations

import dataclasses
import pickle
import random

import numpy as np
import pytest

from constrained import ChatFormat, Grammar, GrammarError, Vocabulary, compile

TOOLS = [
    {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
        "required": ["city"]}},
    {"name": "unit", "parameters": {"type": "object", "properties": {"of": {"enum": ["m", "km"]}, "far": {"type": "boolean"}}}},
]
CANONICAL = {"whitespace": "canonical", "spelling": "canonical"}


def _first_difference(left: Grammar, right: Grammar, chance: random.Random, walks: int, steps: int) -> object:
    """Return the text behind which two grammars allow different bytes or tokens, None if none was met."""
    tokens = {name: 256 + at for at, name in enumerate(sorted(left.specials))}
    stop = 256 + len(tokens)
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], special={**tokens, "<stop>": stop}, stop=[stop], size=stop + 1)
    for _ in range(walks):
        text: list[object] = []
        matchers = [compile(grammar, vocabulary, spell_missing=True).matcher() for grammar in (left, right)]
        while len(text) < steps:
            masks = np.zeros((2, stop // 32 + 1), np.int32)
            for row, matcher in enumerate(matchers):
                matcher.fill_mask(masks, row)
            if (masks[0] != masks[1]).any():
                return text
            allowed = np.nonzero(np.unpackbits(masks[0].view(np.uint8), bitorder="little"))[0]
            plain = [token for token in allowed if 32 <= token < 127] or list(allowed)
            token = int(chance.choice(plain if chance.random() < 0.8 else list(allowed))) if len(allowed) else stop
            if token == stop:
                break
            text.append(token)
            for matcher in matchers:
                matcher.advance(token)
    return None


@pytest.mark.parametrize("name", ["hermes", "hermes-3", "glm-4.6"])
def test_formats_are_read_back(name):
    grammar = ChatFormat.load(name).grammar(TOOLS)
    printed = grammar.to_lark()
    again = dataclasses.replace(Grammar.from_lark(printed, specials=grammar.specials), stops=grammar.stops)
    assert again.widened == (*grammar.widened, *printed.widened[len(grammar.widened):])
    if not printed.widened:
        assert _first_difference(grammar, again, random.Random(name), 1, 40) is None


SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}, "b": {"enum": [1, None, "x"]}}, "required": ["b"], "additionalProperties": False},
    {"type": "array", "items": {"type": "integer", "minimum": -3, "maximum": 120}, "minItems": 1, "maxItems": 4},
    {"type": "string", "pattern": "^[a-c]+(?:-[0-9]{2})?$"},
    {"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["yes", "no"]}, {"type": "null"}]},
    {"type": "string", "format": "date"},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@pytest.mark.parametrize("options", [CANONICAL, {}], ids=["canonical", "flexible"])
def test_schemas_are_read_back(schema, options):
    grammar = Grammar.from_json_schema(schema, **options)
    printed = grammar.to_lark(exact=bool(options))
    again = Grammar.from_lark(printed)
    if not printed.widened and not printed.narrowed:
        assert _first_difference(grammar, again, random.Random(1), 3, 40) is None


def test_what_lark_cannot_say_is_listed():
    grammar = Grammar.from_json_schema({"type": "object", "properties": {"a": {"type": "number", "maximum": 5}}}, whitespace="canonical")
    printed = grammar.to_lark()
    assert [entry[:2] for entry in printed.widened] == [("rule value", "to_lark")]
    assert printed.widened[0].because.startswith("keys that are not named may come twice")
    assert printed.narrowed[0].because == "numbers with bounds are printed in their canonical spelling"
    again = Grammar.from_lark(printed)
    assert (again.widened, again.narrowed) == (printed.widened, printed.narrowed)
    assert pickle.loads(pickle.dumps(again)).narrowed == again.narrowed == (again + again).narrowed
    assert Grammar.from_lark(str(printed) + "").widened == ()  # a text that came from elsewhere says nothing
    with pytest.raises(GrammarError, match="cannot print rule 'value' as Lark exactly\n  because: wider: keys"):
        grammar.to_lark(exact=True)


def test_texts_too_long_to_read_back_are_refused():
    schema = {"enum": [f"a long constant, number {number:04}" for number in range(1_000)]}
    with pytest.raises(GrammarError, match=r"schema needs [0-9,]+ Lark symbols\n  because: more than 16,000"):
        Grammar.from_json_schema(schema).to_lark()
    printed = Grammar.from_json_schema(schema, **CANONICAL).to_lark()
    assert Grammar.from_lark(printed).rules
