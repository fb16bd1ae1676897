"""The passes over schemas that are compiled, next to their plain twins: the same answers, errors, order and units of work.

Schemas are those of the fuzzer, the malformed among them; a mutated compiled pass is found here.
"""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any

import pytest
from fuzz.random_schemas import DEBRIS, NAMES, TYPES, Schemas, parts

from constrained import errors
from constrained.schema.machines import value as machine_value
from constrained.schema.normal import normalise as normal
from constrained.schema.normal import quick
from constrained.schema.reading import check as checking
from constrained.schema.reading import interning, keywords
from constrained.schema.reading.check import load
from constrained.schema.reading.document import Library
from constrained.schema.reading.keywords import KEYWORDS
from constrained.schema.reading.notes import ANNOTATIONS
from constrained.schema.values import Conj
from constrained.work import Budget, metered

pytest.importorskip("constrained.schema._scan", reason="no compiler")

COUNT = 600
DIALECTS = (keywords.DRAFT_4, keywords.DRAFT_6, keywords.DRAFT_7, keywords.DRAFT_2019, keywords.DRAFT_2020, keywords.UNDECLARED)
UNITS = 1 << 40
EVERY = sorted({keyword.name for keyword in KEYWORDS} | ANNOTATIONS | {"nullable", "x-word", "nonsense", "$recursiveAnchor"})
VALUES: tuple[Any, ...] = (
    *DEBRIS, *TYPES, [*TYPES], ["a", "b"], ["a", 1], [None, 1.5, True, "x"], [2**63, -(2**63), 2**64], [1 << 320], [1 << 14_000],
    1 << 62, 2**63, 2**64, -(2**63), 1 << 320, 1 << 14_000, (1 << 31) - 1, (1 << 31) - 2, 1 << 31, 1.0, 1e400, Decimal("1.5"),
    Decimal("1e9999"), [{}] * 9, [{"type": "string"}] * 7, [True] * 8, {"a": {"type": "null"}}, {"a": ["b"]}, {"a": [1]}, {"a": 1},
    [{}, 1], {"a": {}, "b": 1}, "date", "uuid", "email", "int32", "#/properties/a", "http://example.com/a#b", "\u00e9", ["\u00e9"],
)  # fmt: skip


def schemas(count: int = COUNT) -> Iterator[Any]:
    made = Schemas(11)
    for _ in range(count):
        yield made.make()


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Return what calls something with all passes in Python."""

    def call(function: Callable[[], Any]) -> Any:
        asker = normal.PlainAsker(quick.looks_live, normal._settled)
        with monkeypatch.context() as patch:
            patch.setattr(quick, "is_plainly_live", quick.looks_live)
            patch.setattr(normal, "_reader", None)
            patch.setattr(normal, "normalise", normal.plain_normalise)
            patch.setattr(machine_value, "PlainStates", None)
            patch.setattr(machine_value.Choice, "expand", machine_value.Choice.plain_expand)
            patch.setattr(normal, "is_live", asker.is_live)
            patch.setattr(normal, "is_never", asker.is_never)
            patch.setattr(interning, "_commons", {})
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


@pytest.mark.parametrize("word", ["items", "properties", "not", "allOf", "additionalProperties"])
@pytest.mark.parametrize("inner", [{"type": "string"}, {"type": 1}])
def test_nesting_is_no_recursion(word: str, inner: Any) -> None:
    schema, library = nested(word, 100_000, inner), Library({}, None)
    outcome(lambda: checking._survey(library, schema, library.add(schema, "", "#", own=True), "#"))
    assert len(library.outer) > 100_000
    for one in _last(schema, word), schema:
        assert quick.is_plainly_live(one, {}) is quick.looks_live(one, {})
        for writer in interning._WRITERS.values():
            assert writer.key(one) is None or len(writer.key(one)) <= interning._LARGEST
    while schema:  # what is freed by recursion would end the interpreter
        schema = schema.pop(word, None) if type(schema) is dict else schema.pop("a", None) if schema else None
        schema = schema[0] if type(schema) is list else schema.get("a", schema) if type(schema) is dict else None


def _last(schema: Any, word: str) -> Any:
    """Return the schema that is fifty levels further in."""
    for _ in range(50):
        schema = schema[word]
        schema = schema[0] if word == "allOf" else schema["a"] if word == "properties" else schema
    return schema


def test_a_wide_schema(plainly: Any) -> None:
    wide = {"type": "object", "properties": {f"k{number}": {"type": "string", "x": 1} for number in range(5_000)}}
    wide["required"] = list(wide["properties"])
    assert again(meaning, wide) == plainly(lambda: meaning(wide))


def test_a_glance_sees_the_same(plainly: Any) -> None:
    seen = set()
    for schema in schemas():
        with suppress(errors.ConstrainedError):
            library = Library({}, None)
            checking.check(library, library.add(schema, "", "#"))
            for part in parts(library.resources[""].root):
                if id(part) in library.outer:
                    found = quick.is_plainly_live(part, library.targets)
                    assert found is plainly(lambda part=part, targets=library.targets: quick.looks_live(part, targets)), part
                    seen.add(found)
    assert seen == {True, False}


def test_nothing_that_was_not_checked_ends_the_process() -> None:
    """Of a dialect without some keywords their values have any form."""
    writers = interning._WRITERS.values()
    for word in (*NAMES, "nullable"):
        for value in VALUES:
            for kind in ("object", "array", "string"):
                with suppress(AttributeError, TypeError, ValueError):
                    quick.is_plainly_live({"type": kind, word: value}, {})
                with suppress(AttributeError, TypeError, ValueError):
                    quick.is_plainly_live({"type": "object", "required": ["a"], "properties": value}, {})
                for writer in writers:
                    with suppress(AttributeError, TypeError):
                        writer.key({"type": kind, word: value})


def meaning(schema: Any, dialect: keywords.Dialect | None = None) -> Any:
    """Return the normal forms of a schema and of what is in it, the nodes in the order in which they were met, and what
    has a value, with the units of work."""

    def read() -> Any:
        start = load(schema, dialect=dialect)
        found, queue = [], [start]
        for conj in queue[:40]:
            if not conj:
                continue
            never = normal.is_never(conj)
            value = normal.normalise(conj)
            below = [inner for shape in value.objects for _, inner in shape.named + shape.cells]
            below += [inner for shape in value.arrays for inner in (*shape.prefix, shape.rest)]
            found.append((never, shown(value), [normal.is_never(inner) for inner in below]))
            queue += [inner for inner in dict.fromkeys(below) if inner not in queue]
            del queue[40:]
        if not start:
            return found
        document = next(iter(start)).node.document
        nodes = sorted(document.nodes.values(), key=lambda node: node.serial)
        first = nodes[0].serial if nodes else 0
        places = [(node.serial - first, node.pointer, node.resource.where, [part.where for part in node.scope], len(node.conj)) for node in nodes]
        plans = [repr_plan(normal.plan_of(node)) for node in nodes]
        return found, places, plans, {shown(conj): lives for conj, lives in document.live.items()}

    return outcome(read)


def repr_plan(plan: Any) -> Any:
    return plan.types, plan.plain, len(plan.scalars), len(plan.arrays), len(plan.objects), len(plan.operations), shown(plan.names)


def shown(value: Any) -> Any:
    """Return a value with the schemas in it as places."""
    if isinstance(value, frozenset):
        return frozenset(map(shown, value))
    if isinstance(value, tuple):
        return type(value).__name__, tuple(map(shown, value))
    if hasattr(value, "node"):
        node = value.node
        same = node.positive is value if value.positive else node.negative is value
        return node.pointer, value.positive, same and type(node).__name__
    if is_dataclass(value):
        return type(value).__name__, tuple(shown(getattr(value, field.name)) for field in fields(value))
    return repr(value)


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


@pytest.mark.parametrize("dialect", [keywords.DRAFT_4, keywords.DRAFT_7, keywords.DRAFT_2019, keywords.UNDECLARED], ids=lambda of: of.name)
def test_ordinary_objects_mean_the_same(dialect: keywords.Dialect, plainly: Any) -> None:
    for schema in ORDINARY[DIALECTS.index(dialect) % 4 :: 4]:
        for one in schema, dict(reversed(schema.items())), {"anyOf": [schema, {"type": "string"}]}, {"items": schema, "minItems": 1}:
            one = copy.deepcopy(one)
            assert again(meaning, one, dialect) == plainly(lambda one=one: meaning(one, dialect)), one


@pytest.mark.parametrize("word", ["type", "enum", "items", "minLength", "anyOf"])
def test_what_a_dialect_leaves_out_means_nothing(word: str, plainly: Any) -> None:
    dialect = keywords.DRAFT_2020.without(frozenset({word}))
    for schema in ORDINARY[::5]:
        found = again(meaning, schema, dialect)
        assert found == plainly(lambda schema=schema: meaning(schema, dialect)), schema


def test_schemas_mean_the_same(plainly: Any) -> None:
    finished = 0
    for schema in schemas(COUNT // 2):
        found = again(meaning, schema)
        assert found == plainly(lambda schema=schema: meaning(schema)), schema
        finished += found[1] is None
    assert finished > COUNT // 8


def test_a_budget_that_ends_ends_at_the_same_place(plainly: Any) -> None:
    """And a second try goes on from there, for as many units."""
    schema = {"type": "object", "properties": {f"k{number}": {"type": "object", "required": ["x"]} for number in range(9)}}

    def tries() -> list[Any]:
        conj: Conj = load(schema)
        found: list[Any] = []
        while not found or type(found[-1]) is str:
            with metered(Budget(len(found))) as budget:
                try:
                    found.append((shown(normal.normalise(conj)), budget.left))
                except errors.LimitExceeded as error:
                    found.append(str(error))
        return found

    assert tries() == plainly(tries)
    assert len(tries()) > 3


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


def test_what_is_plain_is_seen_alike() -> None:
    """Schemas, their parts, each word with each odd value, and two of them together in either order."""
    seen = set()
    known = sorted({*quick._CHECKS, *quick._NUMBERS, *quick.NOTES})
    odd = [{word: value} for word in (*EVERY, *known) for value in (*VALUES, "a", "object", 5, True, False, [], {}, ["a"], ["\ud800"], None)]
    typed = [{"type": kind, **one} for one in odd for kind in ("object", "string", "integer", ["object"])]
    turned = [{**one, "properties": value} for one in typed for value in ({"a": {}}, {"\ud800": {}}, 5) if "required" in one]
    for schema in (*(part for made in schemas() for part in parts(made)), *odd, *typed, *turned, *(DEBRIS)):
        found = quick.is_plain(schema)
        assert found is quick.looks_plain(schema), schema
        seen.add(found)
    assert seen == {True, False}
    deep: Any = {}
    for depth in range(2 * quick.MAX_DEPTH):
        assert quick.is_plain(deep) is quick.looks_plain(deep) is (depth < quick.MAX_DEPTH)
        deep = {"items": deep}
