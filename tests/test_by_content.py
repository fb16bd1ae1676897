"""Whole schemas that were embedded lately, found again by content: what counts as equal, and how many are held."""

from __future__ import annotations

import copy
import json
import marshal
import weakref
from collections import Counter, OrderedDict
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from constrained import caches
from constrained.errors import ConstrainedError, SchemaError
from constrained.formats import ChatFormat
from constrained.machine import LiteralSet, Quoting, State, Text
from constrained.schema import by_content, embed
from constrained.schema.by_content import LARGEST, Recent, content, content_of
from constrained.schema.machines.value import Values
from constrained.schema.reading.check import load
from constrained.schema.surfaces.punctuation import json as json_surface

LISTED = {"type": "array", "items": {"type": "string"}}
POINT = {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x", "y"]}


def state(schema: Any, *, ordered: bool = False, **options: Any) -> State:
    """Return the state that a document of its own reads a schema with."""
    marks = json_surface("flexible", "any")
    return Values(marks, ordered=ordered).state(load(schema, **options))


def test_one_text_is_read_as_a_set_is() -> None:
    """Kernels read sets natively; sets of one text are one object, so that documents share their states."""
    for schema in ({"const": "red"}, {"enum": ["red"]}, {"not": {"not": {"const": "red"}}}):
        read = state(schema)
        assert isinstance(read, Text) and isinstance(read.language, LiteralSet)
        assert read.language.texts == ("red",)
        assert read.language.texts is state({"const": "red"}).language.texts  # type: ignore[attr-defined]


def test_messages_keep_their_places() -> None:
    impossible, doubtful = (
        {"type": "integer", "minimum": 2, "maximum": 1},
        {"type": "array", "uniqueItems": True, "contains": {"const": 1}, "prefixItems": [{"type": "integer"}]},
    )
    for name in "ab":
        for part in (impossible, doubtful):
            with pytest.raises(SchemaError) as caught:
                embed({"type": "object", "properties": {name: part, "l": LISTED}, "required": [name, "l"]})
            assert (caught.value.where or "").removesuffix("/uniqueItems") == f"#/properties/{name}"


def test_a_schema_is_found_again_by_content() -> None:
    one = embed(POINT)
    assert embed(copy.deepcopy(POINT)) is one
    assert embed(POINT).state() is one.state()
    assert embed(POINT, whitespace="compact") is not one
    assert embed({**POINT, "required": ["y", "x"]}) is not one


def test_what_is_kept_does_not_alias() -> None:
    schema, documents = {"$ref": "urn:a"}, {"urn:a": {"enum": ["a"]}}
    one = embed(schema, documents=documents)
    documents["urn:a"]["enum"].append("b")
    assert one.to_lark("value") != embed(schema, documents=documents).to_lark("value")
    schema["$ref"] = "urn:b"
    assert one.source == ({"$ref": "urn:a"}, {"urn:a": {"enum": ["a"]}})
    assert embed({"$ref": "urn:a"}, documents={"urn:a": {"enum": ["a"]}}) is one


_CYCLE: list[Any] = []
_CYCLE.append(_CYCLE)
_SHARED = {"a": [1, {"b": []}]}
_WIDE = ["x"] * (LARGEST // 2)
COPIES: list[tuple[Any, bool]] = [
    (True, True),
    ({}, True),
    ([], True),
    (_SHARED, True),
    ({"x": _SHARED, "y": [_SHARED, _SHARED]}, True),
    ({"x": [1.5, -0.0, 10**30, None, "\ud800", False]}, True),
    ([[[[{"a": [[{}]]}]]]], True),
    ([_WIDE], True),
    ([_WIDE, _WIDE, _WIDE], False),
    ([_WIDE] * 1000, False),
    (_CYCLE, False),
    ({"x": (1, 2)}, False),
    ({1: "x"}, False),
    ({"x": {None: 1}}, False),
    ([float("nan")], False),
    ({"x": float("inf")}, False),
    ([b"x"], False),
    ([{1}], False),
    (Counter("ab"), False),
    ([OrderedDict(a=1)], False),
    ([np.float64(1.0)], False),
    ([type("Text", (str,), {})("x")], False),
    ({type("Text", (str,), {})("x"): 1}, False),
]


@pytest.mark.skipif(by_content.plain_copy is by_content._no_name, reason="no compiler")
@pytest.mark.parametrize(("value", "plain"), COPIES, ids=range(len(COPIES)))
def test_a_copy_is_of_equal_values_of_its_own(value: Any, plain: bool) -> None:
    _, found = content_of(value, None)
    assert (found is not None) == plain
    if plain:
        assert found == value
        assert content(found) == content(value)
        assert not _containers(found) & _containers(value)
        assert len(_containers(found)) == len(_containers(json.loads(json.dumps(value))))  # none occurs twice


def _containers(value: Any) -> set[int]:
    """Return the ids of the containers in a value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return set() if inner is None else {id(value)}.union(*map(_containers, inner))


def test_a_name_is_that_of_the_copy(monkeypatch: Any) -> None:
    """A schema that changes while it is named: what is read has the name that it is found by."""
    schema = {"type": "string"}

    def changed(value: Any, most: int) -> Any:
        found = copy.deepcopy(value)
        schema["type"] = "integer"
        return found

    monkeypatch.setattr(by_content, "plain_copy", changed)
    key, found = content_of(schema, None)
    assert key == content({"type": "string"}, None) and found == {"type": "string"}


@pytest.mark.skipif(by_content.plain_copy is by_content._no_name, reason="no compiler")
@pytest.mark.parametrize("value", [value for value, _ in COPIES], ids=range(len(COPIES)))
def test_what_is_too_large_has_no_name(value: Any, monkeypatch: Any) -> None:
    """The bound is met exactly."""
    values = value, [value, (value,)]
    most = LARGEST + 1 if by_content.is_within(values, LARGEST) is False else _within(values)  # it contains itself
    for bound in {most - 1, most} - {LARGEST + 1}:
        with monkeypatch.context() as patch:
            patch.setattr(by_content, "LARGEST", bound)
            named = bound >= most and _is_written(value)
            assert content(*values) == (marshal.dumps(values, 2) if named else None)
            assert by_content.is_within(values, bound) is (bound >= most)


def _within(part: Any) -> int:
    """Return how many values there are inside of a container of Python's own types, and in those within it."""
    inner = part.values() if type(part) is dict else part if type(part) in (list, tuple) else ()
    return len(inner) + sum(map(_within, inner))


def _is_written(value: Any) -> bool:
    try:
        return bool(marshal.dumps(value, 2))
    except ValueError:
        return False


def test_contents_differ_by_type_and_order() -> None:
    values = [
        1,
        True,
        1.0,
        "1",
        None,
        [1],
        [True],
        [[1]],
        {"a": 1},
        {"a": True},
        {"a": 1, "b": 1},
        {"b": 1, "a": 1},
        {},
        [],
        "",
        0,
        -0.0,
        0.0,
    ]
    assert len({content(value) for value in values}) == len(values)
    assert content({"a": [1, "x"]}) == content({"".join("a"): [1, "xx"[:1]]})


DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]
WIDE: list[Any] = []
for _ in range(60):  # two to the power of 60, written out
    WIDE = [WIDE, WIDE]


@pytest.mark.parametrize(
    "value", [{"a": Decimal(1)}, MappingProxyType({}), [Quoting.JSON], DEEP, WIDE, (WIDE,), [0] * LARGEST],
    ids=["decimal", "mapping", "enum", "deep", "wide", "tuple", "long"])
def test_what_is_not_plain_or_too_large_has_no_name(value: Any) -> None:
    assert content(value) is None


def test_errors_are_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(SchemaError):
            embed({"type": "strange"})
        with pytest.raises(ConstrainedError):
            embed({1: "a"})
    assert embed({"minimum": Decimal(1)}) is not embed({"minimum": Decimal(1)})


class Thing:
    """What weak references can point to."""


def test_what_comes_again_is_held() -> None:
    recent: Recent[Thing] = Recent(most=3, most_bytes=40)
    recent.put(b"a", Thing())
    assert recent.get(b"a") is None  # nobody held it
    again = weakref.ref(recent.put(b"a", Thing()))
    assert recent.get(b"a") is again() is not None
    thing = Thing()
    assert recent.put(b"b", thing) is thing is recent.put(b"b", Thing())
    held = weakref.ref(thing)
    del thing
    assert recent.get(b"b") is held() is not None


def test_what_stays_is_held_at_once_and_not_forgotten_with_the_caches() -> None:
    stays: Recent[Thing] = Recent(most=3, most_bytes=40, stays=True)
    leaves: Recent[Thing] = Recent(most=3, most_bytes=40)
    things = [stays.put(b"a", Thing()), leaves.put(b"a", Thing()), leaves.get(b"a")]
    assert things[0] is not None is not things[2]
    del things
    before = caches.held()
    stays.put(b"b", Thing())
    assert caches.held() == before, "what stays is not counted"
    caches.clear()
    assert stays.get(b"a") is not None is not stays.get(b"b")
    assert leaves.get(b"a") is None
    for name in b"cdef":
        stays.put(bytes([name]), Thing())
    assert [stays.get(bytes([name])) is None for name in b"abcdef"] == [True, True, True, False, False, False]


def test_recent_things_are_bounded() -> None:
    recent: Recent[Thing] = Recent(most=3, most_bytes=40)
    things = {name: Thing() for name in "abcdefghij"}
    for name in "abc":
        recent.put(name.encode(), things[name])
    assert recent.get(b"a") is things["a"]
    recent.put(b"d", things["d"])
    assert [recent.get(name.encode()) for name in "abcd"] == [things["a"], None, things["c"], things["d"]]
    assert recent.put(b"e" * 11, things["e"]) is things["e"]
    assert recent.get(b"e" * 11) is None
    for name in "fghij":
        recent.put(name.encode() * 10, things[name])
    assert [recent.get(name.encode() * 10) for name in "fghij"] == [None, None, things["h"], things["i"], things["j"]]
    assert len(recent._held) == 3


def test_equal_tools_have_equal_machines() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {**POINT, "additionalProperties": False}}}]
    chat = ChatFormat.load("hermes")
    machines = [
        [symbol.machine for symbol in chat.grammar(copy.deepcopy(tools)).symbols() if hasattr(symbol, "machine")]
        for _ in range(2)
    ]
    assert machines[0][0].machine.state() is machines[1][0].machine.state()


def test_equal_tools_give_one_grammar() -> None:
    """The second time it is held; what its caller changes afterwards is something else; wrong tools are told each time.
    """
    chat = ChatFormat.load("hermes").respell({})

    def tools(kind: str) -> list[dict[str, Any]]:
        return [{"name": "look", "parameters": {"type": "object", "properties": {"a": {"type": kind}}}}]

    given = tools("string")
    first = chat.grammar(given)
    assert chat.grammar(tools("string")) is first
    given[0]["parameters"]["properties"]["a"]["type"] = "integer"
    assert chat.grammar(given) is not first
    assert chat.grammar(tools("string")) is first
    assert chat.grammar(tools("string"), tool_choice="required") is not first
    assert first.with_specials(["<|im_end|>", "<tool_call>"]) is first.with_specials(["<tool_call>", "<|im_end|>"])
    for _ in range(2):
        with pytest.raises(ConstrainedError):
            chat.grammar([{"name": ""}])
    caches.clear()
    assert chat.grammar(tools("string")) is not first
