"""Wrong arguments of constraints, matchers and vocabularies: always an error of the tree that says what and why, and
nothing has changed.
"""

from __future__ import annotations

import dataclasses
import random
import sys

import numpy as np
import pytest
from laws import hard_vocabulary

import constrained as c
from constrained.engine import compiled as constraints
from constrained.formats.message import Message

KERNELS = ["plain", "compiled"]
VOCABULARY = hard_vocabulary()


class Strange:
    def __index__(self):
        raise RuntimeError("not today")

    def __repr__(self):
        raise RuntimeError("nor that")


NO_NUMBERS = {
    "bool": True,
    "numpy bool": np.True_,
    "float": 1.0,
    "nan": float("nan"),
    "text": "1",
    "bytes": b"1",
    "none": None,
    "list": [1],
    "strange": Strange(),
    "negative": -1,
    "large": 2**31,
    "larger": 2**70,
    "unprintable": 10**5000,
    "negative and large": -(2**70),
    "numpy float": np.float32(1),
    "numpy negative": np.int64(-1),
    "array": np.arange(3),
    "class": int,
    "surrogate": "\ud800",
    "long": "x" * 100_000,
}
NO_TOKEN_CALLS = {
    "advance": lambda m, value, row: m.advance(value),
    "accepts": lambda m, value, row: m.accepts(value),
    "explain": lambda m, value, row: m.explain(value),
    "rollback": lambda m, value, row: m.rollback(value),
    "fill_mask": lambda m, value, row: m.fill_mask(row, value),
    "bitmask": lambda m, value, row: m.fill_mask(value),
    "bitmasks": lambda m, value, row: c.fill_masks([m], value),
    "matchers": lambda m, value, row: c.fill_masks(value, row),
    "matcher": lambda m, value, row: c.fill_masks([m, value], row),
    "constraint": lambda m, value, row: c.Matcher(value),
    "kernel": lambda m, value, row: c.compile(m.constraint.grammar, VOCABULARY, kernel=value),
}
BOUNDS = {
    "cache_bytes": lambda g, value: c.compile(g, VOCABULARY, cache_bytes=value),
    "max_configurations": lambda g, value: c.compile(g, VOCABULARY, max_configurations=value),
}
TABLES = {
    "size": lambda value: c.Vocabulary([b"a"], size=value),
    "special": lambda value: c.Vocabulary([b"a"], special={"<a>": value}),
    "specials": lambda value: c.Vocabulary([b"a"], special=value),
    "name": lambda value: c.Vocabulary([b"a"], special={value if value.__hash__ else 1: 1}),
    "stop": lambda value: c.Vocabulary([b"a"], stop=[value]),
    "stops": lambda value: c.Vocabulary([b"a"], stop=value),
    "token": lambda value: c.Vocabulary([value]),
    "tokens": lambda value: c.Vocabulary(value),
    "notes": lambda value: c.Vocabulary([b"a"], notes=value),
    "encode": lambda value: c.Vocabulary([b"a"], encode=value),
    "id": lambda value: c.Vocabulary([b"a"]).decode([value]),
    "ids": lambda value: c.Vocabulary([b"a"]).decode(value),
    "data": lambda value: c.Vocabulary([b"a"]).tokenize(value),
    "vocabulary": lambda value: c.compile(c.Grammar.from_regex("a"), value),
    "grammar": lambda value: c.compile(value, VOCABULARY),
}
# What looks wrong and is right: names may be any text that can be written, no stop tokens, a token of any bytes, no
# encoder;
# schemas and types are grammars.
RIGHT = {
    ("name", "text"),
    ("name", "long"),
    ("token", "bytes"),
    ("token", "none"),
    ("encode", "none"),
    ("encode", "class"),
    ("size", "none"),
    ("kernel", "none"),
    ("notes", "bytes"),
    ("notes", "list"),
    ("notes", "array"),
    ("grammar", "bool"),
    ("grammar", "none"),
    ("grammar", "class"),
}


def assert_said(error):
    message = str(error)
    assert error.what and error.because or error.instead, message
    assert len(message.encode()) <= 2_000, "a message is read by people"


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("call", NO_TOKEN_CALLS)
def test_wrong_numbers_change_nothing(call, kernel):
    if kernel == "compiled":
        pytest.importorskip("constrained.engine.kernel._kernel")
    matcher = c.compile(c.Grammar.from_regex("[a-c]*"), VOCABULARY, kernel=kernel).matcher()
    matcher.advance(ord("a"))
    row, before = np.zeros((1, VOCABULARY.words), np.int32), matcher.tokens
    matcher.fill_mask(row)
    mask = row.tobytes()
    for name, value in NO_NUMBERS.items():
        if (call, name) in RIGHT:
            continue
        with pytest.raises(c.ConstrainedError) as caught:
            NO_TOKEN_CALLS[call](matcher, value, row)
        assert_said(caught.value)
        assert matcher.tokens == before and row.tobytes() == mask


@pytest.mark.parametrize("kernel", KERNELS)
def test_other_peoples_ints_are_ints(kernel):
    if kernel == "compiled":
        pytest.importorskip("constrained.engine.kernel._kernel")
    matcher, row = (
        c.compile(c.Grammar.from_regex("[a-c]*"), VOCABULARY, kernel=kernel).matcher(),
        np.zeros((2, VOCABULARY.words), np.int32),
    )
    ints = [np.int32, np.uint8, np.int64, lambda value: np.array(value)]
    if "torch" in sys.modules:
        ints.append(sys.modules["torch"].tensor)
    for kind in ints:
        assert matcher.accepts(kind(97)) and "is allowed" in matcher.explain(kind(97))
        matcher.advance(kind(97))
        assert matcher.tokens == (97,) and type(matcher.tokens[0]) is int
        matcher.fill_mask(row, kind(1))
        matcher.rollback(kind(1))
        assert matcher.tokens == () and row[1].any() and not row[0].any()


@pytest.mark.parametrize("bound", BOUNDS)
def test_bounds_that_are_none(bound):
    grammar = c.Grammar.from_regex("a")
    for name, value in NO_NUMBERS.items():
        if name in ("large", "larger", "unprintable"):
            BOUNDS[bound](grammar, value).matcher().advance(97)
            continue
        with pytest.raises(c.ConstrainedError) as caught:
            BOUNDS[bound](grammar, value)
        assert_said(caught.value)


@pytest.mark.parametrize("part", TABLES)
def test_vocabularies_of_wrong_parts(part):
    for name, value in NO_NUMBERS.items():
        if (part, name) in RIGHT:
            TABLES[part](value)
            continue
        with pytest.raises(c.ConstrainedError) as caught:
            TABLES[part](value)
        assert_said(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("numpy.dtype size changed"),
        ImportError("undefined symbol: PyFoo"),
        ModuleNotFoundError("no", name="numpy.core"),
    ],
)
def test_a_kernel_that_does_not_load_says_why(error, monkeypatch):
    """A build for another Python or numpy is not the same as no compiler."""

    def broken():
        raise error

    monkeypatch.setattr(constraints, "_compiled", broken)
    with pytest.warns(UserWarning, match="is there but does not load") as caught:
        assert constraints.kernel_class().__name__ == "PlainKernel"
    assert type(error).__name__ in str(caught[0].message)
    with pytest.raises(c.ConstrainedError, match="does not load"):
        constraints.kernel_class("compiled")


def test_a_kernel_that_was_not_built_says_so(monkeypatch):
    name = "constrained.engine.kernel._kernel"

    def missing():
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(constraints, "_compiled", missing)
    with pytest.warns(UserWarning, match="without a C compiler"):
        constraints.kernel_class()


@pytest.mark.parametrize("name", ["mistral-v3-tekken", "command-r7b", "hermes"])
def test_grammars_of_tools_have_names_though_they_are_too_large_to_be_printed(name):
    """Names come from contents, not from printed rules."""

    def grammar(last):
        properties = {f"p{number}": {"type": "string"} for number in range(20)} | {"last": last}
        tools = [{"name": "f", "parameters": {"type": "object", "properties": properties}}]
        return c.ChatFormat.load(name).grammar(tools, property_order="any")

    with pytest.raises(c.GrammarError):
        grammar({"type": "string"}).to_lark()
    names = [grammar(last).fingerprint for last in ({"type": "string"}, {"type": "string"}, {"type": "integer"})]
    assert names[0] == names[1] != names[2]


HERMES = c.ChatFormat.load("hermes")
TURN = [{"role": "user", "content": "a"}]
ODD_PARTS = {
    "none": None,
    "number": 1,
    "nan": float("nan"),
    "bytes": b"x",
    "class": int,
    "list": [[]],
    "set": {1},
    "object": object(),
}
PARTS_OF_CALLS = {
    "vocabulary of render": lambda value: HERMES.render(TURN, value),
    "vocabulary of loss": lambda value: HERMES.loss_mask(TURN, value),
    "vocabulary of labels": lambda value: HERMES.labels(TURN, value),
    "kind of parse": lambda value: HERMES.parse("a", kind=value),
    "kind of validate": lambda value: HERMES.validate("a", value),
    "spellings": HERMES.respell,
    "message": HERMES.write,
    "content": lambda value: HERMES.write(Message(value or 1)),
    "thoughts": lambda value: HERMES.write(Message("", thoughts=value)),
    "stop": lambda value: HERMES.write(Message("x", stop=value or 1)),
    "calls": lambda value: HERMES.write(Message("", value)),
    "call": lambda value: HERMES.write(Message("", [value])),
    "name": lambda value: HERMES.write_call(value, {}),
    "arguments": lambda value: HERMES.write_call("f", value),
    "choice": c.Grammar.choice,
    "choices": lambda value: c.Grammar.choice([value]),
    "pattern": c.Grammar.from_regex,
    "declare": lambda value: c.Grammar.from_lark('start: "a"', declare=value or 1),
    "layout": lambda value: c.Grammar.from_json_schema({}, whitespace=("x", value)),
    "other": lambda value: any_letter().language_equal(value),
    "rng": lambda value: any_letter().sample(value),
    "weights": lambda value: any_letter().sample(random.Random(1), weights=value or 1),
    "path": lambda value: VOCABULARY.save(value),
    "path of a constraint": lambda value: any_letter().save(value),
}


def any_letter():
    return c.compile(c.Grammar.from_regex("[ab]"), VOCABULARY)


@pytest.mark.parametrize("call", PARTS_OF_CALLS)
def test_wrong_parts_of_calls_are_errors_of_the_tree(call):
    for value in ODD_PARTS.values():
        with pytest.raises(c.ConstrainedError) as told:
            PARTS_OF_CALLS[call](value)
        assert len(str(told.value).encode()) <= 2048


def test_a_name_that_is_no_file_name_is_no_tokenizer():
    with pytest.raises(c.ConstrainedError, match=r"cannot read|shows no tokenizer") as told:
        c.ChatFormat.for_tokenizer("x" * 70_000)
    assert len(str(told.value)) < 1000


@pytest.mark.parametrize("hint", ["1+", "1/0", "(", "[][0]"])
def test_hints_that_are_no_expressions_are_errors_with_the_function(hint):
    def function(x):
        pass

    function.__annotations__["x"] = hint
    with pytest.raises(c.SchemaError, match="function"):
        HERMES.grammar([function])
    kind = dataclasses.make_dataclass("Kind", [("x", hint)])
    with pytest.raises(c.SchemaError, match="Kind"):
        c.Grammar.from_json_schema(kind)


def test_a_long_prompt_inside_a_text_leaves_that_text():
    """Its derivative is itself; a source that grew by every letter took 18 s for 70,000."""
    short, long = (HERMES.grammar(prompt="x" * length) for length in (5, 5_000))
    assert max(len(str(symbol)) for symbol in long.symbols()) == max(len(str(symbol)) for symbol in short.symbols())
    with pytest.raises(c.LimitExceeded, match="at the prompt"):
        HERMES.grammar(prompt="x" * 500_000)


@pytest.mark.parametrize("until", ["x" * 70_000, "ab" * 20_000])
def test_a_text_until_a_repeated_text_is_charged_for_its_overlaps(until):
    with pytest.raises(c.LimitExceeded, match="text until"):
        c.Grammar.text(until=until)


def test_counts_of_words_longer_than_any_are_limits():
    for ask in (lambda: any_letter().count(2**70), lambda: any_letter().sample(random.Random(1), 2**70)):
        with pytest.raises(c.LimitExceeded, match="at words of at most"):
            ask()


def test_counts_are_charged_for_what_may_come_and_for_their_digits():
    """A million symbols of any object took minutes."""
    objects = c.compile(c.Grammar.from_json_schema({"type": "object"}), any_letter().vocabulary)
    with pytest.raises(c.LimitExceeded, match="words of at most 1000000"):
        objects.count(10**6)
