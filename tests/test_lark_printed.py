"""What `to_lark` prints is read back as the same language: equal masks along random words, for formats with tools and
for schemas.
"""

from __future__ import annotations

import dataclasses
import pickle
import random

import numpy as np
import pytest

from constrained import ChatFormat, Grammar, GrammarError, Vocabulary, compile
from constrained.grammar.lark import shipped_folder
from constrained.work import Budget, metered

TOOLS = [
    {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 100},
                "unit": {"enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
            },
            "required": ["city"],
        },
    },
    {
        "name": "search_flights",
        "parameters": {
            "type": "object",
            "properties": {
                "origin": {"type": "string", "maxLength": 100},
                "date": {"type": "string", "format": "date"},
                "cabin": {"type": "string", "enum": ["economy", "first"]},
                "passengers": {
                    "type": "object",
                    "properties": {"adults": {"type": "integer"}, "names": {"type": "string", "maxLength": 100}},
                    "required": ["adults"],
                    "additionalProperties": False,
                },
            },
            "required": ["origin", "passengers"],
        },
    },
    {
        "name": "create_event",
        "parameters": {
            "type": "object",
            "properties": {
                "title": {"type": ["string", "null"], "maxLength": 100},
                "tags": {"type": "array", "items": {"type": "string", "maxLength": 100}, "maxItems": 5},
                "price": {"type": "number"},
                "place": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "lat": {"type": "number"}},
                    "required": ["name"],
                },
                "allday": {"type": "boolean"},
            },
            "required": ["title"],
        },
    },
]
OWN_TOOLS = {"llama3.1-builtin": ["brave_search", "wolfram_alpha", "code_interpreter"]}
FORMATS = sorted(path.stem for path in shipped_folder().glob("*.toml") if path.stem not in ("aliases", "recognise"))
UNITS = 1_000_000  # of work, about a second
CANONICAL = {"whitespace": "canonical", "spelling": "canonical"}


def _first_difference(
    left: Grammar, right: Grammar, chance: random.Random, walks: int, steps: int, *, wider: bool = False
) -> object:
    """Return the text behind which two grammars allow different bytes or tokens, None if none was met; `wider`: the
    second one may allow more.
    """
    tokens = {name: 256 + at for at, name in enumerate(sorted(left.specials))}
    stop = 256 + len(tokens)
    vocabulary = Vocabulary(
        [bytes([byte]) for byte in range(256)], special={**tokens, "<stop>": stop}, stop=[stop], size=stop + 1
    )
    constraints = [compile(grammar, vocabulary, spell_missing=True, max_work=100 * UNITS) for grammar in (left, right)]
    for _ in range(walks):
        text: list[object] = []
        matchers = [constraint.matcher() for constraint in constraints]
        while len(text) < steps:
            masks = np.zeros((2, stop // 32 + 1), np.int32)
            for row, matcher in enumerate(matchers):
                matcher.fill_mask(masks, row)
            if (masks[0] & ~masks[1]).any() or (not wider and (masks[0] != masks[1]).any()):
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


def _check_format(name: str, walks: int, steps: int) -> None:
    grammar = ChatFormat.load(name).grammar(OWN_TOOLS.get(name, TOOLS), tool_choice="required")
    with metered(Budget(UNITS)):
        printed = grammar.to_lark()
    with metered(Budget(UNITS)):
        again = dataclasses.replace(Grammar.from_lark(printed, specials=grammar.specials), stops=grammar.stops)
    assert again.widened == (*grammar.widened, *printed.widened[len(grammar.widened) :])
    assert printed.narrowed == grammar.narrowed
    further = again.narrowed[len(printed.narrowed) :]
    # as a lexer reads what looks too far
    assert again.narrowed == (*printed.narrowed, *further) and {entry.keyword for entry in further} <= {"look-ahead"}
    assert _first_difference(grammar, again, random.Random(name), walks, steps, wider=bool(printed.widened)) is None


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_read_back(name):
    _check_format(name, 2, 200)


SCHEMAS = [
    {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 5}, "b": {"enum": [1, None, "x"]}},
        "required": ["b"],
        "additionalProperties": False,
    },
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
    grammar = Grammar.from_json_schema(
        {"type": "object", "properties": {"a": {"type": "number", "maximum": 5}}}, whitespace="canonical"
    )
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
