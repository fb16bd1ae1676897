"""The machines of plain values that are compiled, next to their plain twins: the same states and edges."""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from fuzz.random_schemas import Schemas

from constrained import caches, errors, machine
from constrained.schema.machines import object as object_keys
from constrained.schema.machines import value as machine_value
from constrained.schema.normal import normalise as normal
from constrained.schema.normal import quick
from constrained.schema.reading import check as checking
from constrained.schema.reading.check import load
from constrained.schema.reading.document import Library
from constrained.schema.surfaces.punctuation import Punctuation, arguments, json, python
from constrained.work import Budget, metered

pytest.importorskip("constrained.schema._values", reason="no compiler")

UNITS = 1 << 40
MOST_STATES = 250  # of one schema that are looked at
SURFACES = {
    "json": json("flexible", "any"),
    "json, compact": json("compact", "canonical"),
    "json, marked": json("flexible", "canonical", 64, ("</s>",)),
    "python": python("flexible", "any"),
    "python, canonical": python("canonical", "canonical"),
    "arguments": arguments("canonical", "canonical"),
}
BRANCHES: list[Any] = [
    {"anyOf": [{"type": "object", "properties": {name: {"type": "integer"}, "z": True}, "required": [name], **more} for name in "ab"]}
    for more in ({}, {"additionalProperties": False}, {"additionalProperties": {"type": "null"}}, {"maxProperties": 2}, {"minProperties": 3},
                 {"additionalProperties": False, "minProperties": 2}, {"patternProperties": {"^x": True}}, {"properties": {"z": False}})
] + [
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
    {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "array", "maxItems": 2}, {"type": ["string", "null"]}]},
    {"type": ["array", "object", "null", "boolean"]}, {"type": "object", "properties": {f"k{number:02}": {} for number in range(70)}, "required": ["k69"]},
    {"type": "object", "properties": {f"k{number:02}": {"not": {}} if number % 9 == 0 else {} for number in range(70)}, "additionalProperties": {"not": {}}},
    {"type": "array", "items": {"not": {}}}, {"type": "array", "items": {"allOf": [{"type": "string"}, {"type": "null"}]}, "maxItems": 3},
    {"type": "object", "additionalProperties": {"allOf": [{"type": "string"}, {"type": "null"}]}}, {"type": "array", "minItems": 2, "maxItems": 1 << 31},
    *({"type": "object", "properties": {name: {}, "b": {"type": "null"}, "a": {}}, "additionalProperties": False, **more}
      for name in ("z", "z</s>") for more in ({}, {"minProperties": 1}, {"minProperties": 2, "required": ["a", "b"]}, {"required": ["a"]})),
]  # fmt: skip


ORDINARY: list[Any] = [
    {**kind, **one, **other, **third}
    for kind in ({"type": "object"}, {"type": ["null", "object"]}, {})
    for one in ({}, {"properties": {}}, {"properties": {"a": {"type": "string"}, "b": {}, "c": True, "d": False}},
                {"properties": {"a": {"$ref": "#/$defs/d"}, "b": {"$ref": "#"}}, "$defs": {"d": {"type": "null"}}},
                {"properties": {"\u00e9": {"minimum": 1}}})
    for other in ({}, {"required": []}, {"required": ["a", "d"]}, {"required": ["z", "a", "z"]}, {"required": ["\u00e9"]})
    for third in ({}, {"additionalProperties": False}, {"additionalProperties": True}, {"additionalProperties": {}},
                  {"additionalProperties": {"type": "null"}}, {"additionalProperties": {"$ref": "#"}}, {"nullable": True},
                  {"nullable": False}, {"minProperties": 1}, {"title": "t"}, {"patternProperties": {"^a": {"type": "null"}}})
] + [
    {"type": kind, **one, **other, **third}
    for kind in ("array", ["array"], ["array", "null"], ["array", "object"])
    for one in ({}, {"items": {"type": "string"}}, {"items": True}, {"items": False}, {"items": {}}, {"items": [{"type": "null"}]},
                {"items": {"$ref": "#"}}, {"items": {"type": "array", "items": {"minimum": 3}}},
                {"items": {"$ref": "#/$defs/d", "title": "t"}, "$defs": {"d": {"type": "string", "minLength": 2}}},
                {"items": {"$ref": "#/$defs/d", "maxLength": 3}, "$defs": {"d": {"$ref": "#/$defs/e"}, "e": {"type": "null"}}},
                {"items": {"$ref": "#/$defs/d"}, "$defs": {"d": {"$ref": "#/$defs/e"}, "e": {"type": "null"}}},
                {"items": {"$ref": "#/$defs/d"}, "$defs": {"d": False}}, {"items": {"$ref": "#/$defs/d"}, "$defs": {"d": {}}})
    for other in ({}, {"minItems": 0}, {"minItems": 2}, {"minItems": 1.0}, {"minItems": 1, "maxItems": 0}, {"minItems": 1, "maxItems": 1})
    for third in ({}, {"maxItems": 0}, {"maxItems": 1}, {"maxItems": 7}, {"uniqueItems": True}, {"uniqueItems": False}, {"title": "t"},
                  {"uniqueItems": True, "maxItems": 1}, {"nullable": True}, {"contains": {"type": "null"}})
][::7] + [
    {**one, **other}
    for one in ({}, *({"type": kind} for kind in ("string", "number", "integer", "boolean", "null", "object", "array")), {"type": ["string"]},
                {"type": ["string", "null"]}, {"type": ["integer", "number", "boolean"]}, {"type": ["integer", "null"]}, {"type": ["object"]}, {"type": ["array", "object"]})
    for other in ({}, {"enum": ["a", "b", "a"]}, {"enum": ["a"]}, {"enum": ["a", 1]}, {"enum": ["\u00e9", "e"]}, {"enum": [str(n) for n in range(40)]},
                  {"const": "a"}, {"const": "\u00e9"}, {"const": 1}, {"const": ["a"]}, {"enum": ["a", "b"], "const": "a"}, {"title": "t"},
                  {"nullable": True}, {"enum": ["a"], "minLength": 1}, {"minLength": 1}, {"minimum": 1}, {"format": "date"},
                  {"minLength": 0}, {"minLength": 2, "maxLength": 9}, {"maxLength": 0}, {"minLength": 2, "maxLength": 1}, {"minLength": 1.0},
                  {"maxLength": 3, "pattern": "a"}, {"maxLength": 3, "nullable": True}, {"items": {"$ref": "#"}, "nullable": True},
                  {"pattern": "^a+$"}, {"pattern": ""}, {"pattern": "^(?!a|b)[ab]$"}, {"pattern": "a", "nullable": True}, {"format": "hostname"},
                  {"format": "regex"}, {"format": "nonsense"}, {"format": "uuid", "nullable": True}, {"minimum": 1, "maximum": 0},
                  {"minimum": 2, "maximum": 2}, {"minimum": 0, "maximum": 10**40}, {"maximum": -3}, {"minimum": 1.5}, {"minimum": True},
                  {"minimum": 1, "exclusiveMinimum": True}, {"minimum": 1, "exclusiveMinimum": 1}, {"minimum": 0, "nullable": True},
                  {"enum": ["a", None]}, {"enum": [None]}, {"enum": [None, "\u00e9"]}, {"const": None}, {"enum": [None, 1]},
                  {"enum": ["a", "b"] * 8, "nullable": True})
] + [
    {word: parts, **more}
    for word in ("anyOf", "oneOf")
    for parts in ([{"type": "string"}, {"type": "integer"}], [{"type": "number"}, {"type": "integer", "title": "t"}, {"type": "null"}],
                  [{"type": "string"}], [{"type": ["string", "null"]}, {"type": ["null", "boolean"]}], [{"type": "string"}, {"type": "array"}],
                  [{"type": "string"}, True], [{"type": "string"}, {}], [{"type": "string"}, {"$ref": "#/$defs/d"}], [{"type": "null"}] * 5,
                  [{"type": "string"}, {"$id": "http://example.com/a", "type": "null"}], [{"type": "string"}, {"type": "null", "nullable": True}],
                  [{"type": "string", "minLength": 1}, {"type": "null"}], [{"type": "integer"}, {"type": "number"}])
    for more in ({"$defs": {"d": {"type": "null"}}}, {"title": "t", "$defs": {"d": False}}, {"type": "string", "$defs": {"d": {}}})
] + [  # what a union said is asked again
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/u"}, "b": {"allOf": [{"$ref": f"#/$defs/u{part}"}, {"type": ["null", "number"]}]}},
     "$defs": {"u": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}}
    for part in ("", "/oneOf/0")
]  # fmt: skip


def schemas(count: int) -> Iterator[Any]:
    made = Schemas(11)
    for _ in range(count):
        yield made.make()


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Return what calls something with all machines in Python."""

    def call(function: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(machine_value, "PlainObjects", None)
            return function()

    return call


def again(function: Callable[..., Any], *given: Any) -> Any:
    """Return what a function returns when it is called again: patterns are known then, which the first calls pay for."""
    function(*given)
    function(*given)
    return function(*given)


def outcome(function: Callable[[], Any]) -> tuple[Any, Any, int]:
    """Return what a function returns, or the error, and the units of work that it takes."""
    budget = Budget(UNITS)
    with metered(budget):
        try:
            found, error = function(), None
        except (errors.ConstrainedError, RecursionError) as raised:
            found, error = None, (type(raised), str(raised), getattr(raised, "where", None))
    return found, error, UNITS - budget.left


def nested(word: str, depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = {word: [inner] if word == "allOf" else {"a": inner} if word == "properties" else inner}
    return inner


class Walk:
    """The states that are met from the state of a value, each by its number, and what leads from one to the other."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.queue: list[Any] = []

    def number(self, state: Any) -> int:
        if state not in self.numbers:
            self.numbers[state] = len(self.numbers)
            self.queue.append(state)
        return self.numbers[state]

    def seen(self, state: Any) -> list[Any]:
        self.number(state)
        found = []
        for current in self.queue:
            if len(found) == MOST_STATES:
                break
            found.append(self.looked_at(current))
        return found

    def looked_at(self, state: Any) -> Any:
        if isinstance(state, machine.Text):
            language: Any = state.language
            return state.quoting, (language.texts, language.excluded) if isinstance(language, machine.LiteralSet) else repr(language)
        if state is machine.END:
            return "the end"
        if isinstance(state, object_keys.OtherKey):
            return [self.next(state.after_text(text)) for text in (None, "a", "zz")], sorted(state.special), state.tells_from
        if isinstance(state, machine.Dispatch):
            return type(state).__name__, state.wanted
        table = getattr(state, "object_table", None)
        ways = self.edges(state.way_out()) if hasattr(state, "way_out") else None
        return self.edges(state.expand()), ways, None if table is None else self.facts(table)

    def edges(self, edges: machine.Edges) -> Any:
        ranges = [(low, high, self.number(to)) for low, high, to in edges.ranges]
        calls = [(self.number(callee), self.number(after), self.named(callee, after)) for callee, after in edges.calls]
        return ranges, calls, edges.tokens, edges.accepting

    def named(self, callee: Any, after: Any) -> Any:
        """Return what follows the keys of a set."""
        if not isinstance(after, object_keys.NamedKey):
            return None
        keys = callee.language
        return [self.next(after.after(label)) for label in range(len(keys.texts)) if not keys.excluded >> label & 1]

    def next(self, state: Any) -> int | None:
        return None if state is None else self.number(state)

    def facts(self, table: machine.ObjectTable) -> Any:
        names = len(table.names)
        written = [which for which in range(names + len(table.cells)) if which >= names or table.usable >> which & 1]
        found = repr(table._replace(value=None, shared=(), special=frozenset(), comma=None, colon=None, gap=None))  # type: ignore[arg-type]
        separators = table.comma, table.colon, table.gap
        return found, sorted(table.special), separators, table.shared, [self.number(table.value(which)) for which in written]


def states(schema: Any, punctuation: Punctuation, *, ordered: bool) -> Any:
    """Return the states of a schema's values, with the units of work."""

    def read() -> Any:
        conj = load(schema)
        if normal.is_never(conj):
            return None
        how: dict[str, Any] = {"ordered": ordered, "value": normal.normalise, "never": normal.is_never}
        values = machine_value.Values(punctuation, **how)
        return Walk().seen(values.state(conj))

    return outcome(read)


@pytest.fixture(autouse=True)
def nothing_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten in the midst of a comparison is made again, which is work."""
    monkeypatch.setattr(caches, "MOST_BYTES", 1 << 40)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "ordered"])
def test_machines_are_the_same(surface: str, ordered: bool, plainly: Any) -> None:
    marks, lengths = SURFACES[surface], set()
    for schema in (*ORDINARY[::19], *BRANCHES, {"items": BRANCHES[0], "type": "array", "minItems": 1}):
        one = copy.deepcopy(schema)
        found = again(lambda one=one: states(one, marks, ordered=ordered))[:2]
        assert found == plainly(lambda one=one: states(one, marks, ordered=ordered))[:2], one
        lengths.add(len(found[0] or ()))
    assert max(lengths) >= 100


def test_machines_of_all_kinds_of_schemas_are_the_same(plainly: Any) -> None:
    marks, finished = SURFACES["json"], 0
    for schema in schemas(300):
        found = again(lambda schema=schema: states(schema, marks, ordered=False))[:2]
        assert found == plainly(lambda schema=schema: states(schema, marks, ordered=False))[:2], schema
        finished += bool(found[0])
    assert finished > 60


@pytest.mark.sampled(3)
@pytest.mark.parametrize("word", ["items", "properties", "not", "allOf", "additionalProperties"])
@pytest.mark.parametrize("inner", [{"type": "string"}, {"type": 1}])
def test_nesting_is_no_recursion(word: str, inner: Any) -> None:
    schema, library = nested(word, 100_000, inner), Library({}, None)
    outcome(lambda: checking._survey(library, schema, library.add(schema, "", "#", own=True), "#"))
    assert len(library.outer) > 100_000
    assert not quick.surely_compilable(schema) and quick.surely_satisfiable(schema, {}) in (True, False)
    while schema:  # what is freed by recursion would end the interpreter
        schema = schema.pop(word, None) if type(schema) is dict else schema.pop("a", None) if schema else None
        schema = schema[0] if type(schema) is list else schema.get("a", schema) if type(schema) is dict else None


def test_errors_leave_nothing_behind() -> None:
    """What the passes hold when they are broken off goes with them."""
    wrong = [
        {"properties": {f"k{number}": {"items": {"type": "string"}} for number in range(50)} | {"z": {"type": 1}}},
        {"allOf": [{"minLength": -1}] * 9, "$ref": "#/x"}, {"items": {"properties": {"a": 1}}}, {"items": {"pattern": "("}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}, {"required": ["\ud800"], "type": "object"},
    ]  # fmt: skip

    def all_of_them() -> None:
        for schema in wrong:
            with suppress(errors.ConstrainedError):
                conj = load(schema)
                normal.normalise(conj)
            with suppress(errors.ConstrainedError), metered(Budget(7)):
                normal.normalise(load({"type": "object", "properties": {"a": {}, "b": {"type": "null"}}}))

    for _ in range(50):
        all_of_them()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(300):
        all_of_them()
    gc.collect()
    assert sys.getallocatedblocks() - before < 600
