"""The machines of plain values that are compiled, next to their plain twins: the same states, edges and units of work."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from test_schema_compiled import ORDINARY, again, outcome, plainly, schemas

from constrained import caches, machine
from constrained.schema.machines import object as object_keys
from constrained.schema.machines import value as machine_value
from constrained.schema.normal import normalise as normal
from constrained.schema.reading import interning
from constrained.schema.reading.check import load
from constrained.schema.surfaces.punctuation import Punctuation, arguments, json, python

pytest.importorskip("constrained.schema._values", reason="no compiler")

__all__ = ["plainly"]
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
    """Return the states of a schema's values, with the units of work where no leaf is known."""
    interning._commons.clear()

    def read() -> Any:
        conj = load(schema)
        if normal.is_never(conj):
            return None
        how: dict[str, Any] = {"ordered": ordered, "value": normal.normalise, "never": normal.is_never}
        values = machine_value.Values(punctuation, **how, commons=machine_value.Values(punctuation, **how))
        return Walk().seen(values.state(conj))

    return outcome(read)


@pytest.fixture(autouse=True)
def nothing_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten in the midst of a comparison is made again, which is work."""
    monkeypatch.setattr(caches, "MOST_BYTES", 1 << 40)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "ordered"])
def test_machines_are_the_same(surface: str, ordered: bool, plainly: Any) -> None:
    marks, lengths = SURFACES[surface], set()
    for schema in (*ORDINARY[::19], *BRANCHES, {"items": BRANCHES[0], "type": "array", "minItems": 1}):
        one = copy.deepcopy(schema)
        found = again(lambda one=one: states(one, marks, ordered=ordered))
        assert found == plainly(lambda one=one: states(one, marks, ordered=ordered)), one
        lengths.add(len(found[0] or ()))
    assert max(lengths) >= 100


def test_machines_of_all_kinds_of_schemas_are_the_same(plainly: Any) -> None:
    marks, finished = SURFACES["json"], 0
    for schema in schemas(300):
        found = again(lambda schema=schema: states(schema, marks, ordered=False))
        assert found == plainly(lambda schema=schema: states(schema, marks, ordered=False)), schema
        finished += bool(found[0])
    assert finished > 60


def test_positions_are_compared_by_content() -> None:
    values = machine_value.Values(SURFACES["json"], ordered=False)
    first, other = (values.state(load({"type": "array", "items": {"not": {"const": number}}})) for number in (1, 2))
    assert isinstance(first, machine.Bytes) and isinstance(other, machine.Bytes)
    (_, after), (_, tight) = first.then.expand().calls
    assert type(after).__name__ == "PlainPosition" and (_, tight) == first.then.expand().calls[1]
    assert after == first.then.expand().calls[0][1] and hash(after) == hash(first.then.expand().calls[0][1])
    assert len({first.then, tight, after, other.then}) == 4 and first.then != 1
