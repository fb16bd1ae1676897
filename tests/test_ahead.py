"""What `compile` makes ahead of a generation from a large schema: masks, bounds and charges stay what they were."""

from __future__ import annotations

import random

import numpy as np
import pytest

import constrained as c
from constrained import caches
from constrained.engine import prepare as ahead
from constrained.engine.compiled import CompileOptions
from constrained.formats import ChatFormat
from constrained.work import Budget, Preempted

LETTERS = [bytes([byte]) for byte in range(256)]
WORDS = [b"true", b"fals", b'", "', b'": ', b'":"', b"abc", b'{"', b'"}', b"2024", b"-01", b'","']
STOP = len(LETTERS) + len(WORDS)
KEYS = [f"key {number}" for number in range(12)]
LARGE = {
    "patterns": {"type": "object", "properties": {key: {"type": "string", "pattern": f"^[a-z]{{{2 + at}}}x*$"} for at, key in enumerate(KEYS)}},
    "formats": {"type": "object", "additionalProperties": False, "required": KEYS[:2],
                "properties": {key: {"type": "string", "format": form, "maxLength": 40 + at}
                               for at, (key, form) in enumerate(zip(KEYS, ("date-time", "email", "uri", "uuid", "ipv4", "date") * 2, strict=True))}},
    "unions": {"type": "array", "items": {"anyOf": [
        {"type": "object", "properties": {"kind": {"const": key}, key: {"type": "integer", "minimum": at, "maximum": 90 * at + 7}},
         "required": ["kind", key]} for at, key in enumerate(KEYS)]}},
    "conjunctions": {"allOf": [{"properties": {key: {"minLength": at}, "other": {"maxLength": 30 - at}}, "minProperties": 1}
                               for at, key in enumerate(KEYS)], "type": "object"},
}  # fmt: skip
SMALL = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "minimum": 3}}}


def vocabulary():
    """A fresh one: constraints over one share what they have met."""
    return c.Vocabulary([*LETTERS, *WORDS], {"<eos>": STOP}, [STOP], STOP + 1)


def compiled(schema, **options):
    return c.compile(c.Grammar.from_json_schema(schema), vocabulary(), **{"kernel": "compiled", **options})


def masks(constraint, seed, steps=40):
    """Return the masks along a random walk; the stop token ends it."""
    choose, cursor, found = random.Random(seed), constraint.matcher(), []
    row = np.zeros((1, constraint.vocabulary.words), np.int32)
    for _ in range(steps):
        cursor.fill_mask(row)
        found.append(row.tobytes())
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        token = int(choose.choice(allowed))
        if token == STOP:
            break
        cursor.advance(token)
    return found


@pytest.fixture(autouse=True)
def _nothing_is_known():
    """What has been read before takes fewer units to read."""
    caches.clear()


@pytest.fixture
def without(monkeypatch):
    """Compile with nothing made ahead."""

    def made(schema, **options):
        with monkeypatch.context() as patched:
            patched.setattr(ahead, "MOST_AHEAD", 0)
            return compiled(schema, **options)

    return made


@pytest.mark.parametrize("name", LARGE)
def test_masks_are_those_of_a_constraint_that_nothing_was_made_for(name, without):
    assert c.Grammar.from_json_schema(LARGE[name]).reading_units > ahead.SMALL_READING
    prepared, plainly, plain = compiled(LARGE[name]), without(LARGE[name]), compiled(LARGE[name], kernel="plain")
    for seed in range(4):
        found = masks(prepared, seed)
        assert found == masks(plainly, seed)
        assert found == masks(plain, seed)


@pytest.mark.parametrize("name", LARGE)
def test_of_a_large_schema_parts_are_made_ahead_and_only_once(name, without):
    pytest.importorskip("constrained.engine.kernel._kernel")
    prepared, plainly = compiled(LARGE[name]), without(LARGE[name])
    known = prepared.place()[0].sizes()["machines"]
    assert known > plainly.place()[0].sizes()["machines"]
    left = c.compile(prepared.grammar, prepared.vocabulary, kernel="compiled").budget.left
    assert left == prepared.options.max_work, "it was made already"


def test_of_a_small_schema_and_of_tools_nothing_is(without):
    assert ahead.units_ahead(compiled(SMALL)) == 0
    assert compiled(SMALL).place()[0].sizes() == without(SMALL).place()[0].sizes()
    tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in LARGE.items() if name != "unions"]
    assert ChatFormat.load("hermes").grammar(tools).reading_units == 0
    assert (c.Grammar.from_lark('start: "x"') + c.Grammar.from_json_schema(LARGE["patterns"])).reading_units == 0


def test_the_first_schema_over_a_large_vocabulary_makes_what_all_share(monkeypatch):
    monkeypatch.setattr(ahead, "MANY", STOP)
    table = vocabulary()
    first, second = (c.compile(c.Grammar.from_json_schema(schema), table, kernel="compiled") for schema in (SMALL, {"type": "string"}))
    assert first.budget.left < first.options.max_work - 100 < second.budget.left
    assert ahead.units_ahead(second) == 0
    table.kernels.clear()  # another kernel has the masks of strings as well: the vocabulary keeps them
    assert c.compile(second.grammar, table, kernel="compiled").budget.left > second.options.max_work - 100
    assert ahead.units_ahead(c.compile(c.Grammar.from_regex("a*"), vocabulary())) == 0
    plain = compiled(SMALL, kernel="plain")
    assert masks(first, 5) == masks(plain, 5)


@pytest.mark.parametrize("most", [None, 1_000_000, 50_000, 2_000])
@pytest.mark.parametrize("name", LARGE)
def test_what_is_made_ahead_is_bounded_and_taken_off_what_may_be_spent(name, most, monkeypatch):
    spent = []
    monkeypatch.setattr(ahead, "Budget", lambda *given, **named: spent.append(Budget(*given, **named)) or spent[-1])
    grammar = c.Grammar.from_json_schema(LARGE[name])
    constraint = c.Constraint(grammar, vocabulary(), CompileOptions(kernel="compiled", max_work=most))
    before = constraint.budget.left
    ahead.prepare(constraint)
    units = ahead.units_ahead(constraint)
    room = ahead.MOST_AHEAD if most is None else min(ahead.MOST_AHEAD, most // ahead.AHEAD_SHARE)
    assert 0 <= units <= min(room, ahead.AGAIN * grammar.reading_units)
    assert [budget.limit for budget in spent] == [units + room] * (units > 0)
    assert before - constraint.budget.left == sum(budget.limit - max(0, budget.left) for budget in spent) <= units + room


@pytest.mark.parametrize("name", LARGE)
def test_a_generation_spends_no_more_in_all_than_if_nothing_were_made(name, without):
    """So that nowhere is refused what is accepted elsewhere, but for what was made in vain."""
    left, allowed = [], 0
    for make in (compiled, compiled, without):  # the first loads tables, which no cache forgets
        caches.clear()
        constraint = make(LARGE[name])
        allowed = ahead.units_ahead(constraint) + ahead.MOST_AHEAD
        masks(constraint, 1)
        left.append(constraint.budget.left)
    assert left[1] >= left[2] - allowed


def test_deadlines_and_whoever_cancels_end_it_without_an_error(monkeypatch):
    given = []

    def out_of_time(units, **named):
        given.append(named)
        return Budget(units, deadline=0.0, cancelled=lambda: True)

    monkeypatch.setattr(ahead, "Budget", out_of_time)
    monkeypatch.setattr(ahead, "preparation", lambda *_: Endless())
    asked = compiled(LARGE["patterns"], deadline=9.5, cancelled=list)
    assert given == [{"deadline": 9.5, "cancelled": list}]
    assert 0 < asked.options.max_work - asked.budget.left < 2 * ahead.MOST_AHEAD


def test_what_cannot_be_made_is_said_where_it_matters(monkeypatch):
    class Refusing:
        def go_on(self, budget):
            raise c.UnsupportedSchema("not this one")

    monkeypatch.setattr(ahead, "preparation", lambda *_: Refusing())
    assert compiled(LARGE["formats"]).matcher().is_accepting() is False


def test_what_was_begun_is_the_last(monkeypatch):
    monkeypatch.setattr(ahead, "preparation", lambda *_: Endless())
    constraint = compiled(LARGE["conjunctions"])
    units = ahead.units_ahead(constraint)
    spent = constraint.options.max_work - constraint.budget.left  # compiling takes some, too
    assert units <= spent < units + 1_000 < ahead.MOST_AHEAD


class Endless:
    """A preparation that never gets to the end."""

    def go_on(self, budget):
        budget.spend(100)
        return True


def test_it_ends_where_others_wait_or_the_kernel_is_full(monkeypatch, without):
    preparation = pytest.importorskip("constrained.engine.kernel._kernel")
    asked, inner = [], preparation.Preparation

    class Interrupted:
        def __init__(self, kernel, root):
            self.inner = inner(kernel, root)

        def go_on(self, budget):
            asked.append(budget)
            if len(asked) > 3:
                raise Preempted
            return self.inner.go_on(budget)

    monkeypatch.setattr(preparation, "Preparation", Interrupted)
    constraint = compiled(LARGE["patterns"])
    assert len(asked) == 4 and asked[0].wanted is not None
    assert masks(constraint, 3) == masks(without(LARGE["patterns"]), 3)
    asked.clear()
    full = compiled(LARGE["patterns"], cache_bytes=0)
    assert not asked, "there is no room for anything"
    assert masks(full, 3) == masks(constraint, 3)
