"""What people hold in place of a grammar or a vocabulary."""

from __future__ import annotations

import collections
import dataclasses
import enum
import ipaddress
import json
import pathlib
import re
import typing

import pytest

import constrained as c
from constrained.integrations.held import grammar_of, vocabulary_of


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Color(enum.Enum):
    RED = "red"


class Entry(typing.TypedDict):
    key: str


def add(a: int, b: int = 0) -> int:
    return a + b


HELD = {
    "a schema": ({"type": "integer"}, "12", '"a"'),
    "no schema": (True, "[1]", "x"),
    "the text of a schema": ('{"type": "integer"}', "12", '"a"'),
    "a dataclass": (Point, '{"x": 1, "y": 2}', '{"y": 2}'),
    "a TypedDict": (Entry, '{"key": "a"}', "{}"),
    "a Literal": (typing.Literal["a", 1], '"a"', '"b"'),
    "an Enum": (Color, '"red"', '"blue"'),
    "a generic": (list[int], "[1, 2]", "[1,2]"),
    "an empty tuple": (tuple[()], "[]", "[1]"),
    "a union": (int | None, "null", '"a"'),
    "another name of a type": (typing.NewType("Count", int), "12", '"a"'),
    "an address": (ipaddress.IPv4Address, '"127.0.0.1"', '"a"'),
    "a path": (pathlib.Path, '"/tmp"', "1"),
    "a deque": (collections.deque[int], "[1, 2]", '["a"]'),
    "None": (None, "null", "1"),
    "a callable": (add, '{"a": 1}', '{"b": 1}'),
    "a pattern": (re.compile("[ab]+", re.IGNORECASE), "aB", "ac"),
    "texts": (["yes", "no"], "no", "maybe"),
    "a grammar": (c.Grammar.from_regex("x"), "x", "y"),
}


@pytest.mark.parametrize("name", HELD)
def test_grammars(tiny_tokenizer, name):
    held, good, bad = HELD[name]
    constraint = c.compile(held, tiny_tokenizer)
    assert [_is_word(constraint, text) for text in (good, bad)] == [True, False]


def _is_word(constraint, text):
    matcher = constraint.matcher()
    try:
        for token in constraint.vocabulary.tokenize(text.encode()):
            matcher.advance(token)
    except c.Rejected:
        return False
    return matcher.is_accepting()


def test_what_pydantic_knows(tiny_tokenizer):
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Thing", n=(int, ...))
    bounded = pydantic.dataclasses.dataclass(type("Bounded", (), {"__annotations__": {"n": int}, "n": pydantic.Field(le=3)}))
    paths = {"x": (int, ("a", "x")), "y": (str, ("a", "y", 1)), "z": (int, ("c", -1))}
    fields = {
        name: (kind, pydantic.Field(validation_alias=pydantic.AliasPath(*path))) for name, (kind, path) in paths.items()
    }
    far = pydantic.create_model("Far", **fields)
    held = {
        model: ('{"n": 1}', "{}"),
        bounded: ('{"n": 3}', '{"n": 4}'),
        pydantic.TypeAdapter(list[model]): ('[{"n": 1}]', "[{}]"),
        pydantic.UUID4: ('"00000000-0000-4000-8000-000000000000"', '"00000000-0000-1000-8000-000000000000"'),
        pydantic.HttpUrl: ('"https://a.com/b"', '"ftp://a.com"'),
        pydantic.JsonValue: ("[1, null]", "x"),
        pydantic.Json[list[int] | None]: ('"[1, 2]"', '"[a]"'),
        pydantic.Json[typing.Literal["a-b", -1]]: (r'"\"a-b\""', '"a-b"'),
        far: ('{"a": {"x": 1, "y": [0, "b"]}, "c": [5]}', '{"x": 1, "y": "b", "z": 5}'),
        typing.Annotated[int, pydantic.AfterValidator(abs)]: ("1", '"a"'),
    }
    for kind, (good, bad) in held.items():
        constraint = c.compile(grammar_of(kind, profile="practical"), tiny_tokenizer)
        assert [_is_word(constraint, text) for text in (good, bad)] == [True, False], kind
        assert not constraint.notes


@pytest.mark.parametrize("held", ["no schema", 3, b"", object(), "[1]"])
def test_what_nobody_knows(held):
    with pytest.raises(c.GrammarError, match="not a grammar"):
        grammar_of(held)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: grammar_of('{"type": "integer",}'), "is not JSON: .*line 1 column (19|20)"),
        (lambda: grammar_of("[" * 100_000), "is not JSON: (maximum recursion depth|Stack overflow)"),
        (lambda: grammar_of("[1]"), r"this is the JSON value \[1\]"),
        (lambda: c.Grammar.from_json_schema('{"type": "integer"}'), r"instead: json.loads\(text\)"),
        (lambda: c.Grammar.from_lark("start: x", define={"x": list[int]}), r"because: list\[int\] is none"),
    ],
)
def test_what_is_nearly_a_grammar_is_told_what_it_lacks(read, message):
    with pytest.raises(c.ConstrainedError, match=message):
        read()


def test_vocabularies(tiny_tokenizer, tiny_model, tmp_path):
    vocabulary = vocabulary_of(tiny_tokenizer)
    assert vocabulary_of(tiny_tokenizer) is vocabulary
    assert vocabulary_of(vocabulary) is vocabulary
    with pytest.raises(c.VocabularyError, match="no tokenizer lies beside the model"):
        vocabulary_of(tiny_model)
    tiny_tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(tiny_model.config.to_dict()), encoding="utf-8")
    tiny_model.save_pretrained(tmp_path)
    loaded = type(tiny_model).from_pretrained(tmp_path)
    assert vocabulary_of(loaded).size == tiny_model.config.vocab_size
    assert vocabulary_of(loaded).tokens[: vocabulary.size] == vocabulary.tokens


def test_a_vocabulary_of_another_model_is_refused(tiny_model, tiny_tokenizer, tiny_vocabulary):
    other = c.Vocabulary([b"a", b"b"], stop=[], size=tiny_vocabulary.size)
    narrow = c.Vocabulary.from_tokenizer(tiny_tokenizer)
    for vocabulary, reason in ((other, "is b'a' there"), (narrow, "the model's logits have 1,664")):
        with pytest.raises(c.VocabularyError, match=reason):
            c.generate(tiny_model, tiny_tokenizer, "?", ["a"], vocabulary=vocabulary)
    with pytest.raises(c.VocabularyError, match="not the model's"):
        c.generate(tiny_model, tiny_tokenizer, "?", c.compile(["a"], other))
    assert c.generate(tiny_model, tiny_tokenizer, "?", c.compile(["a"], tiny_vocabulary)) == "a"
